"""Dropout of the host path as a solver calls it."""

from libc.stdint cimport uint32_t, uint64_t

cdef extern from "miopyx/host/philox.h" nogil:
    # One counter's four words.
    void mx_philox(uint64_t counter, uint64_t masks, uint64_t seed, uint32_t* words) noexcept nogil
    uint64_t mx_take_mask(uint64_t* states, bint evolves) noexcept nogil
    void mx_tell_places(uint64_t* states, int places) noexcept nogil

# Take an mx_dropout_problem and the addresses of x, y, the mask and the states; host_states, too, the seed in three
# numbers.
cdef int host_dropout(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
cdef int host_states(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
