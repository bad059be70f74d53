"""Convolutions as matrix products."""

from miopyx.values._types cimport mx_conv_problem

# Slots are the addresses of x, w, y, scalars alpha and beta, width what acquire_threads returned.  Both return 0,
# ALLOC_FAILED or SPECIAL, as run_gemm does.
cdef int multiply_images(const mx_conv_problem* p, void** slots, const double* scalars, int width) noexcept nogil
cdef int multiply_phases(const mx_conv_problem* p, void** slots, const double* scalars, int width) noexcept nogil
