"""Softmax of the host path as a solver calls it."""

# Takes an mx_softmax_problem, the addresses (x, y), backward (unused, y, dy, dx), and alpha and beta.
cdef int host_softmax(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
