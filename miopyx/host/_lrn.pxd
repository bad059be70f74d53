"""Local response normalisation of the host path as a solver calls it."""

# Takes an mx_lrn_problem and the addresses (x, y, dx, dy, scales); otherwise as host_conv.
cdef int host_lrn(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
