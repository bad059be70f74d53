# cython: cdivision=True
"""What the modules of the host path share: statuses and whole numbers."""

from libc.stdint cimport int64_t

from miopyx.values._integers cimport ceil_div

cdef enum:
    ALLOC_FAILED = 4       # miopenStatusAllocFailed
    SPECIAL = 1            # an operand that meets padding holds NaN or infinity


cdef inline int64_t at_most(int64_t a, int64_t b) noexcept nogil:
    return a if a < b else b


cdef inline int64_t at_least(int64_t a, int64_t b) noexcept nogil:
    return a if a > b else b
