"""Layer norm, RMS norm and group norm of the host path as a solver calls it."""

# Takes an mx_layernorm_problem, the addresses in the order of its slots, and epsilon.
cdef int host_layernorm(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
