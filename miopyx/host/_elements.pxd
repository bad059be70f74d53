"""Operations on elements on the host path as a solver calls them."""

# Takes an mx_slots_problem of kernels/layers/elements.h, the addresses in the order of its slots, and Adam's scalars.
cdef int host_elements(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
