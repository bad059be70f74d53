"""The host path's matrix product out[m][n] = sum over k of A[m][k] B[n][k], in float64."""

from libc.stdint cimport int64_t

from ._kernels cimport mx_operand


cdef struct gemm_t:
    mx_operand a, b            # rows and columns of the output
    char* out
    int64_t out_type, rounding, row_stride
    # Columns: a grid as in mx_operand, or a table of offsets.
    int64_t count[4]
    int64_t jump[4]
    int64_t column_base
    const int64_t* column_offset
    int64_t groups, a_group, b_group, out_group   # elements from one group to the next
    double alpha, beta
    int width
    # The plan.  "Small" is the operand with fewer lanes: it is packed once for all tasks, each of which packs its own
    # block of the other one.
    bint small_is_a
    bint shared                # there are several blocks, so packing the small operand once pays
    bint partial               # tasks leave sums that a last pass adds up
    int64_t piece, pieces      # steps packed at a time, and how often
    int64_t block, blocks      # panels of the large operand in a task, and how many such blocks
    int64_t chunks             # parts that the sum is cut into
    # The pass that is running.
    int64_t group, group_count
    int64_t small, small_count
    int64_t first_piece, piece_count
    double* packed
    double* partials
    double* scratch
    int64_t scratch_size, local_size, rows_size, sums_size
    char* special              # one flag a worker

# Plan and run a product; the fields of the plan and of the pass are set here.  Returns 0, ALLOC_FAILED before anything
# was written or, where a watched operand is not finite, SPECIAL.
cdef int run_gemm(gemm_t* g) noexcept nogil
