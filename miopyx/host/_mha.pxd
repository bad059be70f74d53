"""Attention of the host path as a solver calls it."""

# Takes an mx_mha_problem, the addresses of its slots, and the mask and the scale.
cdef int host_mha(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
