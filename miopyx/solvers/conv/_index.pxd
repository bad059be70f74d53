"""The throughput index: a rank of solvers without measurements."""

from libc.stdint cimport int64_t

from miopyx.values._types cimport mx_conv_problem


cdef double gemm_index(const mx_conv_problem* p, int64_t rounds) noexcept nogil
cdef double columns_index(const mx_conv_problem* p, int64_t rounds) noexcept nogil
cdef double winograd_index(const mx_conv_problem* p, int64_t compute_units, int tile) noexcept nogil
cdef double winograd_loss(const mx_conv_problem* p, int64_t compute_units, int tile) noexcept nogil
