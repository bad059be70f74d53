"""Convolutions by plain loops, for the data that products cannot take."""

from miopyx.values._types cimport mx_conv_problem, mx_tensor

cdef bint all_finite(const mx_tensor* t, const void* data) noexcept nogil

# Arguments as in _implicit.pxd; returns 0 or ALLOC_FAILED.
cdef int convolve_directly(const mx_conv_problem* p, void** slots, const double* scalars, int width) noexcept nogil
