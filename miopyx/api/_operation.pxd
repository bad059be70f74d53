"""What the functions of all operations but convolutions have in common."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from miopyx.engine._handle cimport Handle
from miopyx.engine._invoker cimport Invoker
from miopyx.engine._plan cimport Plan
from miopyx.problem._problem cimport Problem


cdef inline int64_t call_number(int what, int flags) noexcept:
    """The number by which a handle remembers calls of an operation, MX_..., with what is in no descriptor."""
    return -100000 - (<int64_t> what << 24) - flags


cdef Invoker prepare(Handle handle, Problem problem, const uint64_t* stamp, int count, int64_t call)
cdef int launch(Handle handle, Invoker invoker, const int* order, int count, PyObject** data, tuple names,
                const double* scalars) except -1
cdef Plan plan_of(object handle, object problem_of, const int* order, int count, tuple names, tuple descriptors,
                  tuple descriptor_names, tuple scalars)
cdef int require_plain_scalars(object alpha, object beta, type error) except -1
