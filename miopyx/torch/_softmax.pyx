"""Softmax, its logarithm and their gradients: by whoever is faster, or ours whatever it takes."""

from functools import partial

from libc.stdint cimport int64_t

from miopyx.functional._functional cimport Call, along, described, memory_order

from miopyx import enums
from miopyx.errors import BadParmError, MIOpenError
from miopyx.runtime._arrays import FreedError

from ._layers cimport (
    RESULT, SOFTMAX, SOFTMAX_GRADIENTS, Planned, alike, always, begin, chosen, decide, dense, lazy, run_chosen,
    settings, theirs,
)

cdef enum:
    FORWARD = 130          # kinds of calls, beside those of other files
    BACKWARD
    ALWAYS                 # the two of what is ours whatever it takes


cdef class Softmax(Planned):
    """A softmax, or its gradient from (y, dy)."""

    cdef int direction

    def __init__(self, int direction):
        self.direction = direction

    cdef str text(self, Call c):
        strides = "x".join([str(s) for s in c.strides(0)]) if not c.array[0].contiguous else "packed"
        return (f"softmax-{'log' if c.ask.number[1] else 'accurate'}-{'FB'[self.direction]}-"
                f"{enums.TYPE_NAMES[c.array[0].type]}-{'x'.join([str(n) for n in c.lens(0)])}:{strides}-"
                f"a{c.ask.number[0]}")

    cdef int describe(self, Call c) except -1:
        cdef int axis = c.ask.number[0], kind = c.array[0].type
        lens, order = c.lens(0), memory_order(c, 0)
        algorithm = "log" if c.ask.number[1] else "accurate"
        x, result = along(c.descriptor(0), axis), along(described(kind, lens, order), axis)
        results = ((lens, kind, None if order == tuple(range(len(lens))) else order),)
        if self.direction == 0:
            self.use(c.handle.softmax_forward(x, result, algorithm, "channel"), (0, RESULT), results)
        else:
            c.require_like_first(1)
            if c.lens(1) != lens:
                raise BadParmError("not y's lengths", "dy", c.lens(1), lens)
            self.use(c.handle.softmax_backward(x, along(c.descriptor(1), axis), result, algorithm, "channel"),
                     (0, 1, RESULT), results)
        return 0


cdef Call _call(int what, int64_t axis, bint log, x, dy):
    cdef Call c = begin(what, x)
    cdef int rank
    c.take(dense(x), "x" if dy is None else "y")
    if dy is not None:
        c.take(alike(dy, c.first), "dy")
    rank = c.array[0].rank
    if not -rank <= axis < rank:
        raise BadParmError("no axis of x", "dim", axis, f"{-rank} to {rank - 1}")
    c.ask.number[0], c.ask.number[1] = axis + rank if axis < 0 else axis, log
    c.ask.number[20] = settings(c)
    return c


cdef object _run(str name, tuple args, int64_t axis, bint log, x, dy):
    """aten's operator by whoever is faster."""
    cdef Call c
    try:
        # PyTorch has rules of its own for results of other strides.
        if x.is_contiguous() and chosen(None) and not (lazy(x) or lazy(dy)):
            if dy is not None and not dy.is_contiguous():
                dy = dy.contiguous()  # as PyTorch's kernel would: both are measured, and called, with the copy
                args = (args[0], dy, *args[2:])
            c = _call(FORWARD if dy is None else BACKWARD, axis, log, x, dy)
            layer = c.known()
            if layer is None:
                layer = decide(c, SOFTMAX if dy is None else SOFTMAX_GRADIENTS, Softmax(dy is not None),
                               partial(theirs, name, args))
            y = run_chosen(c, layer)
            if y is not None:
                return y
    except FreedError:
        raise
    except MIOpenError:
        pass
    return theirs(name, args)


def softmax(keys, x, dim, half_to_float):
    """aten::_softmax."""
    args = keys, x, dim, half_to_float
    return theirs("_softmax", args) if half_to_float else _run("_softmax", args, dim, False, x, None)


def log_softmax(keys, x, dim, half_to_float):
    """aten::_log_softmax."""
    args = keys, x, dim, half_to_float
    return theirs("_log_softmax", args) if half_to_float else _run("_log_softmax", args, dim, True, x, None)


def softmax_backward(keys, dy, y, dim, dtype):
    """aten::_softmax_backward_data."""
    args = keys, dy, y, dim, dtype
    if dtype != dy.dtype:
        return theirs("_softmax_backward_data", args)
    return _run("_softmax_backward_data", args, dim, False, y, dy)


def log_softmax_backward(keys, dy, y, dim, dtype):
    """aten::_log_softmax_backward_data."""
    args = keys, dy, y, dim, dtype
    if dtype != dy.dtype:
        return theirs("_log_softmax_backward_data", args)
    return _run("_log_softmax_backward_data", args, dim, True, y, dy)


# What is always ours


def forward(x, int64_t dim):
    """miopyx::softmax."""
    return always(_call(ALWAYS, dim, False, x, None), Softmax(0))


def log_forward(x, int64_t dim):
    """miopyx::log_softmax."""
    return always(_call(ALWAYS, dim, True, x, None), Softmax(0))


def backward(dy, y, int64_t dim):
    """miopyx::softmax_backward."""
    return always(_call(ALWAYS + 1, dim, False, y, dy), Softmax(1))


def log_backward(dy, y, int64_t dim):
    """miopyx::log_softmax_backward."""
    return always(_call(ALWAYS + 1, dim, True, y, dy), Softmax(1))
