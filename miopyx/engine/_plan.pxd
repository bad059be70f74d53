"""Prepared plans."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from ._arena cimport Arena
from ._handle cimport STAMPS, Handle
from ._invoker cimport Invoker
from miopyx.values._guard cimport mx_guard
from miopyx.values._types cimport MX_SCALARS, MX_SLOTS


ctypedef PyObject* (*vectorcall_t)(PyObject* self, PyObject* const* args, size_t count, PyObject* names)


cdef class Plan:
    cdef vectorcall_t vectorcall         # what Python calls for plan(...), see _plan.pyx
    cdef readonly Handle handle
    cdef readonly Invoker invoker
    cdef Arena own                       # the workspace with packed weights in it, None without them
    cdef object explaining               # makes the explanation
    cdef int order[MX_SLOTS]             # slots of the buffers that a call takes
    cdef int count
    cdef public bint is_logged           # whether who runs it past `__call__` says so by `log_run`
    cdef tuple names                     # of those, then the workspace's
    cdef tuple scalars                   # names of the numbers that a call may pass
    cdef double default[MX_SCALARS]
    # What it was made from; the stamps say in which state.
    cdef tuple descriptors, descriptor_names
    cdef uint64_t stamp[STAMPS]
    cdef const uint64_t* said[STAMPS]    # theirs, which the tuple keeps
    cdef int stamps
    cdef mx_guard guard                  # of `own`
    cdef tuple made_from                 # what `seen` said of the descriptors
    cdef object identity                 # says what descriptors describe
    cdef object made_of                  # what it said when the plan was made

    cdef int _run(self, PyObject** data, const double* scalars) except -1
    cdef int run_within(self, PyObject** data, const double* scalars, int64_t workspace_size) except -1
    cdef int run_on(self, PyObject** data, const double* scalars, void* stream) except -1
    cdef int _require_unchanged(self) except -1
    cdef str _usage(self)
    cdef double _number(self, object value, str name) except? -1


# An empty plan whose handle, invoker and explanation are set; the caller fills in `order` and `count`.
cdef Plan make_plan(Handle handle, Invoker invoker, tuple names, tuple descriptors, tuple now, tuple descriptor_names,
                    object identity, object explaining, tuple scalars)
