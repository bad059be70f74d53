"""How often this process learnt something that may change what it answers about a problem."""

from libc.stdint cimport int64_t

cdef int64_t learnt
