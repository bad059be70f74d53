"""Activations of the host path as a solver calls them."""

from libc.stdint cimport int64_t

# Takes an mx_activation_problem and the addresses (x, y), backward (x, y, dy, dx); what the mode does not read may be
# NULL.  `scalars` are alpha, beta and gamma.
cdef int host_activation(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
cdef void activate(int64_t mode, double a, double b, double g, double eps, double* v, int64_t n) noexcept nogil
cdef void activation_gradient(int64_t mode, double a, double b, double g, double eps, double* dy, const double* v,
                              int64_t n) noexcept nogil
