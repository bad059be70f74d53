"""Database keys written straight from a problem's struct."""

from miopyx.values._types cimport mx_conv_problem

cdef enum:
    MAX_KEY = 1024  # bytes that hold any key; nothing writes a zero after it


cdef int write_find_key(const mx_conv_problem* p, char* out) noexcept nogil
cdef int write_perf_key(const mx_conv_problem* p, char* out) noexcept nogil
