"""Prepared plans: what a tight loop holds on to."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from miopyx.values._args cimport to_double, to_epsilon
from miopyx.problem._descriptors cimport Descriptor, seen
from miopyx.values._guard cimport load_uint64, mx_guard_lock, mx_guard_unlock, store_uint64
from ._arena cimport Arena
from ._handle cimport Handle
from ._binding cimport OWN, call_t
from ._invoker cimport Invoker, execute, execute_on, pack
from miopyx.values._types cimport MX_SCALARS, MX_SLOTS

from miopyx.errors import BadParmError, MIOpenError

# The class of new plans; logging puts one here that prints its calls.
plan_type = None

cdef extern from *:
    """
    /* Subclasses written in Python that define __call__ do not inherit it. */
    static void mx_offer_vectorcall(PyObject *type, Py_ssize_t offset) {
        ((PyTypeObject *) type)->tp_vectorcall_offset = offset;
        ((PyTypeObject *) type)->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
        PyType_Modified((PyTypeObject *) type);
    }
    """
    void mx_offer_vectorcall(PyObject* type, Py_ssize_t offset)
    Py_ssize_t PyVectorcall_NARGS(size_t count)


cdef class Plan:
    """Plan()\n--\n\n\
    An operation chosen, compiled and validated once: ``plan(*buffers)`` binds the buffers and enqueues.

    The buffers stand in the order of the function that made the plan, as in (x, w, y), (dy, w, dx) or (dy, x, dw) for
    convolutions (see `buffers`); numbers, as alpha and beta, may follow by position or name (see `numbers`).  The
    workspace is the handle's own.  A plan is for the descriptors as they were; destroying them is fine.

    Raises
    ------
    BadParmError
        When it is called with a buffer that does not fit, on a handle that was destroyed or has left its device, or
        after one of the descriptors was set to something else; nothing was run then.
    TypeError
        For another number of arguments, or a name that is not one of `numbers`.
    """

    def __init__(self):
        raise TypeError("plans are made by a handle: Handle.convolution_forward and its like")

    def __cinit__(self, *args, **kwargs):
        self.vectorcall = <vectorcall_t> _call

    def __call__(self, *args, **kwargs):
        cdef PyObject* data[MX_SLOTS + 1]
        cdef double scalars[MX_SCALARS]
        cdef int i
        if self.handle is None:
            raise BadParmError("a plan that no handle made", "plan", None, "Handle.convolution_forward(...)")
        if len(args) < self.count or len(args) > self.count + len(self.scalars):
            raise TypeError(f"{self._usage()} was called with {len(args)} arguments")
        memcpy(scalars, self.default, sizeof(scalars))
        for i in range(self.count):
            data[i] = <PyObject*> args[i]
        for i in range(len(args) - self.count):
            scalars[i] = self._number(args[self.count + i], self.scalars[i])
        for name, value in kwargs.items():
            if name not in self.scalars or self.scalars.index(name) < len(args) - self.count:
                raise TypeError(f"{self._usage()} got an unexpected argument {name!r}")
            scalars[<int> self.scalars.index(name)] = self._number(value, name)
        self._run(data, scalars)

    cdef str _usage(self):
        """How the plan is called, as text."""
        cdef int i
        numbers = [f"{name}={self.default[i]:g}" for i, name in enumerate(self.scalars)]
        return f"plan({', '.join([*map(str, self.buffers), *numbers])})"

    cdef double _number(self, object value, str name) except? -1:
        """A number behind the buffers; not an array of one element, which is a workspace given by habit."""
        if type(value) is not float and type(value) is not int and (
                getattr(value, "shape", ()) or hasattr(value, "int_ptr") or hasattr(value, "svm_ptr") or value is None):
            raise BadParmError("a plan takes its buffers and numbers alone: its workspace is the handle's", name,
                               type(value).__name__, self._usage())
        return to_epsilon(value, name) if name == "epsilon" else to_double(value, name)

    def log_run(self, numbers):
        """Print a run past `__call__`, which gave these numbers by name; plans that are logged do."""

    cdef int _run(self, PyObject** data, const double* scalars) except -1:
        cdef call_t call
        _require_usable(self)
        call.order, call.count, call.data, call.workspace_size = self.order, self.count, data, OWN
        return execute(self.handle, self.invoker, &call, self.names, scalars, _packed(self))

    cdef int run_within(self, PyObject** data, const double* scalars, int64_t workspace_size) except -1:
        """A call with a workspace of the caller's, which lies behind the buffers."""
        cdef call_t call
        _require_usable(self)
        call.order, call.count, call.data, call.workspace_size = self.order, self.count, data, workspace_size
        return execute(self.handle, self.invoker, &call, self.names, scalars, None)

    cdef int run_on(self, PyObject** data, const double* scalars, void* stream) except -1:
        """A call on a stream of CUDA; behind the buffers lies a workspace, where the plan takes one."""
        cdef call_t call
        _require_usable(self)
        call.order, call.count, call.data = self.order, self.count, data
        call.workspace_size = self.invoker.solution.workspace
        return execute_on(self.handle, self.invoker, &call, self.names, scalars, stream)

    def pack(self, w):
        """Prepare the weights `w` once for all later calls of this plan; None makes each call prepare them again.

        Solvers may begin by turning the weights into another form.  A packed plan has done that, holds the result in a
        workspace of its own (`workspace` bytes, not from a user's allocator) and leaves those steps out.  Calls still
        take w, and check it, but compute with what was packed, even where w holds something else by then; so pack again
        after the weights changed.  Waits until w was read.  Nothing is kept, and calls read their w as ever, where the
        solver prepares no weights, and on the host: then `packed` stays False.
        """
        _require_usable(self)
        if "w" not in self.buffers:
            raise BadParmError("the plan takes no weights", "w", w, f"a plan of w, not {', '.join(self.buffers)}")
        new = None
        if w is not None:
            new = pack(self.handle, self.invoker, self.order[<int> self.names.index("w")], w, "w")
        mx_guard_lock(&self.guard)
        _old, self.own = self.own, new  # what calls that have begun hold themselves
        mx_guard_unlock(&self.guard)

    @property
    def packed(self):
        """Whether calls use weights that `pack` prepared."""
        return _packed(self) is not None

    cdef int _require_unchanged(self) except -1:
        """Descriptors were set again: fine if that says the same."""
        cdef bint same
        cdef int i
        now = tuple([seen(d) for d in self.descriptors])
        stamps = [(<Descriptor> d).stamp for d in now]
        try:
            same = self.identity(now) == self.made_of
        except MIOpenError:
            same = False
        for i in range(len(stamps)):
            if stamps[i] != load_uint64(self.stamp[i]):
                if not same:
                    raise BadParmError("descriptor was changed after the plan was made", self.descriptor_names[i],
                                       self.descriptors[i], "a new plan")
                store_uint64(self.stamp[i], stamps[i])
        return 0

    @property
    def solver(self):
        """The solver that was chosen."""
        return None if self.invoker is None else self.invoker.solver

    @property
    def buffers(self):
        """The names of the buffers that a call takes."""
        return () if self.names is None else self.names[:self.count]

    @property
    def numbers(self):
        """The numbers that a call takes behind its buffers, with their defaults."""
        return {} if self.scalars is None else {name: self.default[i] for i, name in enumerate(self.scalars)}

    @property
    def workspace(self):
        """Bytes of workspace that a call uses."""
        return 0 if self.invoker is None else self.invoker.solution.workspace

    def explain(self):
        """Return what was chosen and why, and for every other solver why not, as text."""
        return "" if self.explaining is None else str(self.explaining())

    def __reduce__(self):
        raise TypeError("a plan holds programs of a device: copy its descriptors, and make another")

    def __repr__(self):
        return f"<Plan {self.solver} on {self.handle}>"


plan_type = Plan


cdef inline int _require_usable(Plan plan) except -1:
    """Require a plan that can still compute what it was made for."""
    cdef int i
    if plan.handle is None:
        raise BadParmError("a plan that no handle made", "plan", None, "Handle.convolution_forward(...)")
    plan.handle.require_alive()
    for i in range(plan.stamps):
        if load_uint64(plan.said[i][0]) != load_uint64(plan.stamp[i]):
            plan._require_unchanged()
            break
    return 0


cdef inline Arena _packed(Plan plan):
    mx_guard_lock(&plan.guard)
    arena = plan.own
    mx_guard_unlock(&plan.guard)
    return arena


cdef Plan make_plan(Handle handle, Invoker invoker, tuple names, tuple descriptors, tuple now, tuple descriptor_names,
                    object identity, object explaining, tuple scalars):
    """`now` is what `seen` said of the descriptors when the problem was made; `scalars` pairs of a name and a default.

    `identity` says of such a tuple what it describes.
    """
    cdef Plan plan = plan_type.__new__(plan_type)
    cdef int i
    plan.handle, plan.invoker, plan.names, plan.explaining = handle, invoker, names, explaining
    plan.descriptors, plan.descriptor_names = descriptors, descriptor_names
    plan.stamps = <int> len(descriptors)
    for i in range(plan.stamps):
        plan.stamp[i], plan.said[i] = (<Descriptor> now[i]).stamp, &(<Descriptor> descriptors[i]).stamp
    plan.made_from, plan.identity, plan.made_of = now, identity, identity(now)
    plan.scalars = tuple([name for name, _ in scalars])
    for i in range(MX_SCALARS):
        plan.default[i] = scalars[i][1] if i < len(scalars) else 0.0
    return plan


# Cython calls objects through tp_call, which wants its arguments in a tuple: making and dropping that costs a third of
# a repeated call.  So plans carry a vectorcall, as Python's own callables do (PEP 590).


cdef object _call(PyObject* self, PyObject* const* args, size_t count, PyObject* names):
    cdef Plan plan = <Plan> self
    cdef Py_ssize_t n = PyVectorcall_NARGS(count)
    if n == plan.count and names == NULL and plan.handle is not None:
        plan._run(<PyObject**> args, plan.default)
        return None
    given = () if names == NULL else <tuple> <object> names
    values = [<object> args[i] for i in range(n + len(given))]
    return plan.__call__(*values[:n], **dict(zip(given, values[n:])))


cdef int _offer_vectorcall() except -1:
    cdef Plan plan = Plan.__new__(Plan)
    mx_offer_vectorcall(<PyObject*> Plan, <char*> &plan.vectorcall - <char*> <PyObject*> plan)
    return 0


_offer_vectorcall()
