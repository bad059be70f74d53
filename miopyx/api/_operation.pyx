"""What the functions of all operations but convolutions have in common.

Each such function reads the stamps of its descriptors, asks the handle's memo (`recall`) for an invoker, lets `prepare`
make one where there is none, and hands its buffers to `launch`.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from miopyx.values._args cimport to_double
from miopyx.engine._handle cimport Handle, as_handle
from miopyx.engine._binding cimport OWN, call_t
from miopyx.engine._invoker cimport Invoker, execute
from miopyx.engine._plan cimport Plan, make_plan
from miopyx.problem._problem cimport Problem

from miopyx.choose import preparing

cdef enum:
    OPERATION = -2000      # in a handle's table: problems say themselves which operation they are


cdef Invoker prepare(Handle handle, Problem problem, const uint64_t* stamp, int count, int64_t call):
    """Return the invoker of a problem, and let `recall` find it for a call with descriptors of these stamps."""
    invoker = handle.remember(stamp, count, call, OPERATION, problem.data, problem.size)
    if invoker is None:
        handle.keep(problem, OPERATION, preparing.first_applicable(handle, problem))
        invoker = handle.remember(stamp, count, call, OPERATION, problem.data, problem.size)
    return invoker


cdef int launch(Handle handle, Invoker invoker, const int* order, int count, PyObject** data, tuple names,
                const double* scalars) except -1:
    """Check and bind `count` buffers and enqueue; `scalars` are MX_SCALARS numbers."""
    cdef call_t call
    call.order, call.count, call.data, call.workspace_size = order, count, data, OWN
    return execute(handle, invoker, &call, names, scalars, None)


cdef Plan plan_of(object handle, object problem_of, const int* order, int count, tuple names, tuple descriptors,
                  tuple descriptor_names, tuple scalars):
    """Return the plan of the problem that `problem_of()` makes of the descriptors as they are.

    `scalars` are pairs of a name and a default; the other arguments are as in `launch`.
    """
    cdef Handle h = as_handle(handle)
    cdef Problem problem = problem_of()
    cdef Invoker invoker = h.lookup(problem.data, problem.size, OPERATION)
    cdef Plan plan
    cdef int i
    if invoker is None:
        invoker = preparing.first_applicable(h, problem)
        h.keep(problem, OPERATION, invoker)
    plan = make_plan(h, invoker, names, descriptors, descriptor_names, _identity(problem_of),
                     _explaining(h, problem, invoker), scalars)
    plan.count = count
    for i in range(count):
        plan.order[i] = order[i]
    return plan


cdef object _identity(object problem_of):
    def identity():
        return problem_of().key
    return identity


cdef object _explaining(Handle handle, Problem problem, Invoker invoker):
    def explaining():
        from miopyx.choose.explain import explain_first

        return explain_first(handle, problem, invoker)
    return explaining


cdef int require_plain_scalars(object alpha, object beta, type error) except -1:
    """What several operations demand of their scalars: alpha 1 and beta 0."""
    cdef double a = to_double(alpha, "alpha"), b = to_double(beta, "beta")
    if a != 1:
        raise error("scaled results", "alpha", a, 1)
    if b != 0:
        raise error("scaled results", "beta", b, 0)
    return 0
