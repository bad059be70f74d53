"""Prepared plans."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from ._descriptors cimport ConvolutionDescriptor, TensorDescriptor
from ._handle cimport Handle
from ._invoker cimport Invoker


ctypedef PyObject* (*vectorcall_t)(PyObject* self, PyObject* const* args, size_t count, PyObject* names)


cdef class Plan:
    cdef vectorcall_t vectorcall         # what Python calls for plan(...), see _plan.pyx
    cdef readonly Handle handle
    cdef readonly Invoker invoker
    cdef object explaining               # makes the explanation
    cdef int slot[3]
    cdef tuple names
    # What it was made from, in the forward sense; the stamps say in which state.
    cdef int direction
    cdef bint transposed
    cdef TensorDescriptor x, w, y
    cdef ConvolutionDescriptor conv
    cdef uint64_t stamp[4]
    cdef tuple descriptors               # their names

    cdef int _run(self, object a, object b, object c, double alpha, double beta) except -1
    cdef int _require_unchanged(self) except -1
