"""Multi-margin loss on the host path as a solver calls it."""

# Takes an mx_slots_problem, the addresses in the order of its slots, and the margin.
cdef int host_multimargin(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
