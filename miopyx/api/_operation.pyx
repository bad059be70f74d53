"""What the functions of all operations but convolutions have in common.

An operation describes once, in a `Signature`, which descriptors and buffers it takes, and how a problem is made of the
descriptors.  Its function calls `run`, the handle's method that makes its plans `plan`.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from miopyx.values._args cimport to_double
from miopyx.engine._handle cimport OPERATION, STAMPS, Handle, as_handle, memo_mix, memo_start, recall_by
from miopyx.engine._binding cimport OWN, call_t
from miopyx.engine._invoker cimport Invoker, execute
from miopyx.engine._plan cimport Plan, make_plan
from miopyx.problem._descriptors cimport Descriptor, TensorDescriptor, check_descriptor, seen, stamp_of
from miopyx.values._guard cimport MX_NO_GIL, load_flag
from miopyx.problem._problem cimport Problem
from miopyx.values._types cimport MX_SCALARS, MX_SLOTS

import re

from miopyx.choose import preparing
from miopyx.errors import BadParmError

cdef extern from "Python.h":
    PyObject* Py_TYPE(PyObject* value)


cdef class Signature:
    """What a function of an operation takes, and what the operation's problems are made of.

    Parameters
    ----------
    what : int
        The operation, MX_...
    problem_of : callable
        Makes the Problem of (flags, *descriptors); `flags` hold whatever else changes it.
    descriptors : tuple of str
        What the function calls its descriptors.  Plans say x_desc for xDesc.
    buffers : dict
        What the function calls its buffers, and the problem's slots that they go to.
    numbers : tuple of (str, float)
        Names and defaults of the numbers that plans take.
    first : type
        The class of the first descriptor; all others are tensors'.
    optional : int
        How many of the last buffers a plan does not take where they are left out.
    scalars : int
        How many numbers a call passes.
    nullable : int
        Bit i: descriptor i may be None; a problem is then made without it.
    """

    def __init__(self, int what, problem_of, tuple descriptors, dict buffers, tuple numbers=(),
                 type first=TensorDescriptor, int optional=0, int scalars=MX_SCALARS, unsigned nullable=0):
        cdef int i
        self.what, self.problem_of, self.numbers, self.optional = what, problem_of, numbers, optional
        self.scalars, self.nullable = scalars, nullable
        self.descriptors, self.buffers = len(descriptors), len(buffers)
        self.descriptor_names, self.names = descriptors, (*buffers, "workspace", "workspaceSizeInBytes")
        self.kinds = (first, *[TensorDescriptor] * (self.descriptors - 1))
        for i in range(self.descriptors):
            self.kind[i] = <PyObject*> self.kinds[i]
        for i, slot in enumerate(buffers.values()):
            self.order[i] = slot

    cdef int run(self, object handle, arg_t* descriptors, arg_t* buffers, const double* numbers, int64_t flags,
                 unsigned left_out, int64_t workspace_size=OWN) except -1:
        """A call: find what runs the problem, or prepare it, check and bind the buffers, and enqueue.

        `handle` was checked by require_handle.  `numbers` are `scalars` of them.  Bit i of `left_out`:
        buffer i goes nowhere and is not looked at.  A workspace of the caller's, of `workspace_size` bytes, lies
        behind the buffers.
        """
        cdef call_t call
        cdef int order[MX_SLOTS]
        cdef double given[MX_SCALARS]
        cdef int i
        memset(given, 0, sizeof(given))
        if numbers != NULL:  # memcpy takes no NULL, not even for nothing
            memcpy(given, numbers, self.scalars * sizeof(double))
        call.order, call.count, call.data, call.workspace_size = self.order, self.buffers, buffers, workspace_size
        if left_out:
            for i in range(self.buffers):
                order[i] = -1 if left_out >> i & 1 else self.order[i]
            call.order = order
        # `execute` looks whether the handle is alive.
        return execute(<Handle> handle, <Invoker> _find(self, <Handle> handle, descriptors, flags), &call, self.names,
                       given, None)

    cdef unsigned absent(self, arg_t* descriptors) noexcept:
        """The buffers without a descriptor, where each descriptor has a buffer."""
        cdef unsigned left_out = 0
        cdef int i
        for i in range(self.descriptors):
            if self.nullable >> i & 1 and <object> descriptors[i] is None:
                left_out |= 1 << i
        return left_out

    cdef int64_t workspace_of(self, object handle, arg_t* descriptors, int64_t flags) except -1:
        """Return the bytes of workspace that a call of these descriptors needs."""
        (<Handle> handle).require_alive()
        return (<Invoker> _find(self, <Handle> handle, descriptors, flags)).solution.workspace

    cdef Plan plan(self, object handle, tuple descriptors, int64_t flags, unsigned left_out):
        """Return the plan for the descriptors as they are."""
        cdef Handle h = as_handle(handle)
        cdef Problem problem
        cdef Invoker invoker
        cdef Plan plan
        cdef dict kept = {}  # a descriptor that stands in several places is watched once
        cdef int i
        names = [re.sub("[A-Z]", lambda m: f"_{m[0].lower()}", name) for name in self.descriptor_names]
        for descriptor, kind, name in zip(descriptors, self.kinds, names):
            kept.setdefault(id(check_descriptor(descriptor, kind, name)), (descriptor, name))
        watched = tuple([descriptor for descriptor, _ in kept.values()])
        now = tuple([seen(descriptor) for descriptor in watched])
        place = {number: i for i, number in enumerate(kept)}
        places = tuple([place[id(descriptor)] for descriptor in descriptors])
        problem = self.problem_of(flags, *[now[i] for i in places])
        invoker = invoker_of(h, problem)
        plan = make_plan(h, invoker, self.names, watched, now, tuple([name for _, name in kept.values()]),
                         _identity(self.problem_of, flags, places), explaining_of(h, problem, invoker), self.numbers)
        plan.count = self.buffers
        while plan.count > self.buffers - self.optional and left_out >> (plan.count - 1) & 1:
            plan.count -= 1
        for i in range(plan.count):
            plan.order[i] = -1 if left_out >> i & 1 else self.order[i]
        return plan


cdef inline object _find(Signature s, Handle handle, arg_t* descriptors, int64_t flags):
    """Check the kinds of a call's descriptors, and return the invoker of the problem that they describe."""
    cdef uint64_t stamp[STAMPS]
    cdef int i, count = s.descriptors
    # By this number the handle remembers calls of an operation, with what is in no descriptor.
    cdef int64_t call = -100000 - (<int64_t> s.what << 40) - flags
    cdef uint64_t h = memo_start(call)
    for i in range(count):
        if s.nullable >> i & 1 and <object> descriptors[i] is None:
            stamp[i] = ~<uint64_t> 0  # no descriptor's
            h = memo_mix(h, stamp[i])
            continue
        if <PyObject*> Py_TYPE(descriptors[i]) != s.kind[i] or load_flag((<Descriptor> descriptors[i]).destroyed):
            check_descriptor(<object> descriptors[i], s.kinds[i], s.descriptor_names[i])
        stamp[i] = stamp_of(<Descriptor> descriptors[i])
        h = memo_mix(h, stamp[i])
    found = recall_by(handle, h, stamp, count, call)
    if found is None:
        found = _prepare(s, handle, descriptors, stamp, flags, call)
    return found


cdef Invoker _prepare(Signature s, Handle handle, arg_t* descriptors, uint64_t* stamp, int64_t flags, int64_t call):
    cdef int i
    handle.require_alive()
    given = [seen(<object> descriptors[i]) for i in range(s.descriptors)]
    if MX_NO_GIL:
        for i in range(s.descriptors):
            if given[i] is not None:
                stamp[i] = (<Descriptor> given[i]).stamp
    return prepare(handle, s.problem_of(flags, *given), stamp, s.descriptors, call)


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


cdef object _identity(object problem_of, int64_t flags, tuple places):
    def identity(now):
        return problem_of(flags, *[now[i] for i in places]).key
    return identity


cdef object explaining_of(Handle handle, Problem problem, Invoker invoker):
    def explaining():
        from miopyx.choose.explain import explain_first

        return explain_first(handle, problem, invoker)
    return explaining


cdef int check_plain_scalars(object alpha, object beta, type error) except -1:
    cdef double a = to_double(alpha, "alpha"), b = to_double(beta, "beta")
    if a != 1:
        raise error("scaled results", "alpha", a, 1)
    if b != 0:
        raise error("scaled results", "beta", b, 0)
    return 0


cdef Invoker invoker_of(Handle handle, Problem problem):
    """Find what runs a problem, or prepare it."""
    invoker = handle.lookup(problem.data, problem.size, OPERATION)
    if invoker is None:
        invoker = preparing.first_applicable(handle, problem)
        handle.keep(problem, OPERATION, invoker)
    return invoker


cdef int run_problem(Handle handle, Problem problem, int count, const int* order, arg_t* buffers, tuple names,
                     const double* numbers, int64_t workspace_size) except -1:
    """A call whose descriptors do not say all of its problem; `numbers` are MX_SCALARS or NULL.

    Buffer i goes to slot order[i], nowhere where that is -1; the workspace lies behind the buffers.
    """
    cdef call_t call
    cdef double given[MX_SCALARS]
    memset(given, 0, sizeof(given))
    if numbers != NULL:
        memcpy(given, numbers, sizeof(given))
    call.order, call.count, call.data, call.workspace_size = order, count, buffers, workspace_size
    return execute(handle, invoker_of(handle, problem), &call, names, given, None)


cdef tuple sequence_of(object values, int64_t count, str name):
    """Exactly `count` objects of an argument that the header has as an array."""
    if not isinstance(values, (list, tuple)):
        raise BadParmError("not a list", name, type(values).__name__, f"a list of {count}")
    if len(values) != count:
        raise BadParmError("length of a list", name, len(values), count)
    return tuple(values)
