"""Recurrent layers on the host."""


cdef int host_rnn_forward(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
cdef int host_rnn_data(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
cdef int host_rnn_weights(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
cdef int host_rnn_copy(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
