"""Convolutions by plain loops, for the data that products cannot take."""

from miopyx._types cimport mx_conv_problem

# Arguments as in _implicit.pxd; returns 0 or ALLOC_FAILED.
cdef int convolve_directly(const mx_conv_problem* p, void** slots, const double* scalars, int width) noexcept nogil
