# cython: cdivision=True
"""Whole numbers."""

from libc.stdint cimport INT64_MAX, int64_t


cdef inline int64_t ceil_div(int64_t n, int64_t d) noexcept nogil:
    """n / d rounded up, for d > 0 and any n."""
    return (n + d - 1) // d if n > 0 else -(-n // d)


cdef inline int64_t up(int64_t n, int64_t multiple) noexcept nogil:
    """The next multiple from n >= 0 on."""
    return (n + multiple - 1) // multiple * multiple


cdef inline int64_t more_parts(int64_t n, int64_t each) noexcept nogil:
    """The least number of parts of n that are shorter than `each`, beyond any number where nothing is shorter."""
    return ceil_div(n, each - 1) if each > 1 else INT64_MAX


cdef inline int64_t gcd(int64_t a, int64_t b) noexcept nogil:
    while b:
        a, b = b, a % b
    return a
