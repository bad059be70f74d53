"""Reductions of the host path as a solver calls them."""

# Takes an mx_reduce_problem, the addresses of a, c and the index, and alpha and beta.
cdef int host_reduce(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
