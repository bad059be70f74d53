"""Pooling on the host."""

cdef int host_pooling(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
