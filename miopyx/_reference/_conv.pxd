"""The host path as a solver calls it."""

# Both take the problem's struct, the addresses (x, w, y, workspace; for a bias b, -, y) and (alpha, beta), compute the
# tensor that the problem's direction names, and return 0, or 4 where memory ran out before anything was written.
# threads <= 0: one a usable core.  Arguments were validated by the caller.
cdef int host_conv(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
cdef int host_bias(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
