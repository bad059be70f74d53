"""Biases of the host path as a solver calls them."""

# Takes an mx_bias_problem and the addresses (b, unused, y); otherwise as host_conv.
cdef int host_bias(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
