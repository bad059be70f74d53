"""Prepared plans: what a tight loop holds on to."""

from cpython.object cimport PyObject
from libc.string cimport memcmp

from ._args cimport to_double
from ._invoker cimport OWN, execute
from ._problem cimport fill_conv
from ._types cimport mx_conv_problem

from .errors import BadParmError, MIOpenError

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
    """A convolution chosen, compiled and validated once: ``plan(a, b, c)`` binds the buffers and enqueues.

    The three buffers stand in the order of the function that made the plan: (x, w, y), (dy, w, dx) or (dy, x, dw).
    The workspace is the handle's own.  A plan is for the descriptors as they were: once one of them was set to
    something else, calling it is a BadParmError.  Destroying them is fine.
    """

    def __init__(self):
        raise TypeError("plans are made by a handle: Handle.convolution_forward and its like")

    def __cinit__(self, *args, **kwargs):
        self.vectorcall = <vectorcall_t> _call

    def __call__(self, a, b, c, alpha=1.0, beta=0.0):
        self._run(a, b, c, to_double(alpha, "alpha"), to_double(beta, "beta"))

    cdef int _run(self, object a, object b, object c, double alpha, double beta) except -1:
        if self.handle is None:
            raise BadParmError("a plan that no handle made", "plan", None, "Handle.convolution_forward(...)")
        self.handle.require_alive()
        if (self.x.stamp != self.stamp[0] or self.w.stamp != self.stamp[1] or self.y.stamp != self.stamp[2]
                or self.conv.stamp != self.stamp[3]):
            self._require_unchanged()
        return execute(self.handle, self.invoker, self.slot, self.names, a, b, c, None, OWN, alpha, beta)

    cdef int _require_unchanged(self) except -1:
        """Descriptors were set again: fine if that says the same."""
        cdef mx_conv_problem now
        cdef bint same
        cdef int i
        try:
            same = (fill_conv(&now, self.direction, self.x, self.w, self.y, self.conv) == self.transposed
                    and memcmp(&now, self.invoker.problem.data, sizeof(now)) == 0)
        except MIOpenError:
            same = False
        stamps = (self.x.stamp, self.w.stamp, self.y.stamp, self.conv.stamp)
        for i in range(4):
            if stamps[i] != self.stamp[i]:
                if not same:
                    raise BadParmError("descriptor was changed after the plan was made", self.descriptors[i],
                                       (self.x, self.w, self.y, self.conv)[i], "a new plan")
                self.stamp[i] = stamps[i]
        return 0

    @property
    def solver(self):
        """The solver that was chosen."""
        return None if self.invoker is None else self.invoker.solver

    @property
    def workspace(self):
        """Bytes of workspace that a call uses."""
        return 0 if self.invoker is None else self.invoker.solution.workspace

    def explain(self):
        """Return what was chosen and why, and for every other solver why not, as text."""
        return "" if self.explaining is None else str(self.explaining())

    def __repr__(self):
        return f"<Plan {self.solver} on {self.handle}>"


# Cython calls objects through tp_call, which wants its arguments in a tuple: making and dropping that costs a third of
# a repeated call.  So plans carry a vectorcall, as Python's own callables do (PEP 590).


cdef object _call(PyObject* self, PyObject* const* args, size_t count, PyObject* names):
    cdef Plan plan = <Plan> self
    count = PyVectorcall_NARGS(count)
    if count == 3 and names == NULL:
        plan._run(<object> args[0], <object> args[1], <object> args[2], 1.0, 0.0)
        return None
    given = () if names == NULL else <tuple> <object> names
    values = [<object> args[i] for i in range(count + len(given))]
    return plan.__call__(*values[:count], **dict(zip(given, values[count:])))


cdef int _offer_vectorcall() except -1:
    cdef Plan plan = Plan.__new__(Plan)
    mx_offer_vectorcall(<PyObject*> Plan, <char*> &plan.vectorcall - <char*> <PyObject*> plan)
    return 0


_offer_vectorcall()
