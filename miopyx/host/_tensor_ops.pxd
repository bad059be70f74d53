"""Element-wise operations of the host path as a solver calls them."""

# Takes an mx_tensor_problem and the addresses (a, b, c); otherwise as host_conv.
cdef int host_tensor(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
