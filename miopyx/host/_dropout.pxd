"""Dropout of the host path as a solver calls it."""

# Take an mx_dropout_problem, the addresses of x, y, the mask and the states, and DropoutDescriptor's numbers; for the
# states the seed in three numbers.
cdef int host_dropout(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
cdef int host_states(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
