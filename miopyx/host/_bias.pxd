"""The gradient of a bias: how its sums are cut, and how the host path computes them."""

from libc.stdint cimport int64_t

from miopyx.values._types cimport mx_bias_problem, mx_grid


# y as the sums walk it.
cdef struct mx_bias_sums:
    mx_grid lines              # of y: the summed axes but the innermost one
    mx_grid rest               # of y and b: the kept axes but the innermost one
    int64_t k, k_y, k_b        # the innermost axis that is kept: length and strides
    int64_t m, m_y             # the innermost axis, where it is summed, else 1
    int64_t line_count, rest_count
    int64_t pieces, piece      # of m, and their length
    int64_t parts              # ranges of lines that are summed apart
    int64_t blocks, block      # of k, and their length


# Write how b's elements are summed, in about `wanted` units of work that may run side by side.
cdef int fill_sums(mx_bias_sums* s, const mx_bias_problem* p, int64_t wanted) noexcept nogil

# Takes an mx_bias_problem and the addresses (b, unused, y); otherwise as host_conv.
cdef int host_bias(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
