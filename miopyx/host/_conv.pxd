"""Convolutions of the host path as a solver calls them."""

# Takes an mx_conv_problem, the addresses (x, w, y, workspace) and (alpha, beta), computes the tensor that the problem's
# direction names, and returns 0, or 4 where memory ran out before anything was written.
# threads <= 0: one a usable core.  Arguments were validated by the caller.
cdef int host_conv(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
