"""Callers' memory and what is checked about it, for the functions that are called from Python."""

from cpython.buffer cimport Py_buffer

from miopyx.values._types cimport mx_tensor


cdef class Memory:
    cdef void* address
    cdef Py_buffer view
    cdef bint held


cdef int check_tensor(mx_tensor* t, str name, bint output) except -1
# The memory of `data`, which must be large enough for the tensor; an address is taken as it is.
cdef Memory bind(object data, const mx_tensor* t, str name, bint output)
