"""Matrix products as steps of a solution."""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Device, Step

cdef extern from "miopyx/kernels/conv/gemm_args.h" nogil:
    ctypedef struct mx_gemm:
        int64_t m, n, k
        int64_t a_m, a_k
        int64_t b_k, b_n
        int64_t c_m, c_n
        int64_t groups, a_g, b_g, c_g
        int64_t images, a_i, b_i, c_i
        int64_t reduce, a_r, b_r

# An operand: where it is, its type, its offset in bytes and, of a result, how float8 is rounded.
cdef struct operand_t:
    int slot
    int64_t type
    int64_t offset
    int64_t rounding

cdef operand_t operand(int slot, int64_t data_type, int64_t offset=*) noexcept
cdef bint wide_scalars(Device dev, int64_t data_type) noexcept

cdef tuple matmul_table(Device dev, const mx_gemm* g, int64_t c_type)
cdef tuple matmul_default(Device dev, const mx_gemm* g, int64_t c_type)
cdef double product_roundings(Device dev, const mx_gemm* g) noexcept
cdef str matmul_refuses(Device dev, int64_t c_type)
cdef bint matmul_fits(Device dev, const mx_gemm* g, int64_t c_type, tuple config) except -1
cdef Step matmul(Device dev, const mx_gemm* g, operand_t a, operand_t b, operand_t c, Arg alpha, Arg beta,
                 tuple config)
