"""What the functions of all operations but convolutions have in common."""

from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from miopyx.engine._handle cimport STAMPS, Handle, check_handle
from miopyx.engine._invoker cimport Invoker
from miopyx.engine._plan cimport Plan
from miopyx.problem._problem cimport Problem
from miopyx.values._types cimport MX_SLOTS

# An argument of a call, which the caller holds for as long as the call takes.
ctypedef PyObject* arg_t


cdef class Signature:
    cdef int what                        # MX_...
    cdef int descriptors, buffers        # how many
    cdef int optional                    # of the buffers, the last ones
    cdef int scalars                     # numbers that a call passes
    cdef unsigned nullable               # bit i: descriptor i may be None
    cdef int order[MX_SLOTS]             # the slots of the buffers
    cdef PyObject* kind[STAMPS]          # classes of the descriptors; those of `kinds`
    cdef tuple kinds, descriptor_names
    cdef tuple names                     # of the buffers, then the workspace's
    cdef tuple numbers
    cdef object problem_of

    cdef int run(self, object handle, arg_t* descriptors, arg_t* buffers, const double* numbers, int64_t flags,
                 unsigned left_out, int64_t workspace_size=*) except -1
    cdef unsigned absent(self, arg_t* descriptors) noexcept
    cdef int64_t workspace_of(self, object handle, arg_t* descriptors, int64_t flags) except -1
    cdef Plan plan(self, object handle, tuple descriptors, int64_t flags, unsigned left_out)


cdef Invoker prepare(Handle handle, Problem problem, const uint64_t* stamp, int count, int64_t call)
cdef int launch(Handle handle, Invoker invoker, const int* order, int count, PyObject** data, tuple names,
                const double* scalars) except -1
cdef Invoker invoker_of(Handle handle, Problem problem)
cdef int run_problem(Handle handle, Problem problem, int count, const int* order, arg_t* buffers, tuple names,
                     const double* numbers, int64_t workspace_size) except -1
cdef object explaining_of(Handle handle, Problem problem, Invoker invoker)
cdef tuple sequence_of(object values, int64_t count, str name)


cdef inline int require_handle(object handle) except -1:
    """What a function looks at first; `run` sees whether the handle is alive."""
    if not isinstance(handle, Handle):
        check_handle(handle)
    return 0


cdef int check_plain_scalars(object alpha, object beta, type error) except -1


cdef inline int require_plain_scalars(object alpha, object beta, type error) except -1:
    """What several operations demand of their scalars: alpha 1 and beta 0."""
    if PyFloat_CheckExact(alpha) and PyFloat_CheckExact(beta):
        if PyFloat_AS_DOUBLE(alpha) == 1 and PyFloat_AS_DOUBLE(beta) == 0:
            return 0
    return check_plain_scalars(alpha, beta, error)
