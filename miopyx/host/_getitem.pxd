"""The gradient of indexing on the host path as a solver calls it."""

# Takes an mx_slots_problem and the addresses in the order of its slots.
cdef int host_getitem(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
