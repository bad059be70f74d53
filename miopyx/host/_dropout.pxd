"""Dropout of the host path as a solver calls it."""

# Take an mx_dropout_problem and the addresses of x, y, the mask and the states; host_states, too, the seed in three
# numbers.
cdef int host_dropout(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
cdef int host_states(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
