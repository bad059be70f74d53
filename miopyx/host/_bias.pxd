"""The gradient of a bias: how its sums are cut, and how the host path computes them."""

from libc.stdint cimport int64_t

from miopyx.values._types cimport mx_bias_problem, mx_grid


# y as the sums walk it.
cdef extern from "miopyx/kernels/layers/bias_args.h" nogil:
    ctypedef struct mx_bias_sums:
        mx_grid lines, rest
        int64_t k, k_y, k_b, m, m_y, line_count, rest_count, pieces, piece, parts, blocks, block


# Write how b's elements are summed, in about `wanted` units of work that may run side by side.
cdef int fill_sums(mx_bias_sums* s, const mx_bias_problem* p, int64_t wanted) noexcept nogil

# Takes an mx_bias_problem and the addresses (b, unused, y); otherwise as host_conv.
cdef int host_bias(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
