"""Activations and local response normalisation, ours whatever they take."""

from libc.stdint cimport int64_t

from miopyx.functional._functional cimport Call, described, memory_order, order_of
from miopyx.values._args cimport to_member
from miopyx.values._types cimport MX_DOUBLE, MX_FLOAT

from miopyx.errors import BadParmError
from miopyx.problem._activation import ActivationDescriptor
from miopyx.problem._descriptors import TensorDescriptor
from miopyx.problem._lrn import LRNDescriptor

from ._layers cimport RESULT, Planned, alike, always, begin, dense, own, settings

cdef enum:
    FORWARD = 140          # kinds of calls, beside those of other files
    BACKWARD
    LRN_FORWARD
    LRN_BACKWARD


cdef class Activation(Planned):
    """An activation, or its gradient from (x, y, dy)."""

    cdef int direction

    def __init__(self, int direction):
        self.direction = direction

    cdef int describe(self, Call c) except -1:
        cdef int i
        cdef int64_t count = 1
        activation = ActivationDescriptor(c.ask.number[0], c.ask.real[0], c.ask.real[1], c.ask.real[2])
        lens, order, kind = c.lens(0), memory_order(c, 0), c.array[0].type
        for length in lens:
            count *= length
        row = TensorDescriptor(kind, (1, 1, 1, count))  # dense and alike: which axes there are makes no difference
        results = ((lens, kind, None if order == tuple(range(len(lens))) else order),)
        for i in range(1, c.count):
            c.require_like_first(i)
            if c.lens(i) != lens:
                raise BadParmError("not x's lengths", c.given(i), c.lens(i), lens)
        if self.direction == 0:
            self.use(c.handle.activation_forward(activation, row, row), (0, RESULT), results)
        else:
            self.use(c.handle.activation_backward(activation, row, row, row, row), (1, 2, 0, RESULT), results)
        return 0


cdef Call _activate(int what, str mode, double alpha, double beta, double gamma, x):
    cdef Call c = begin(what, x)
    c.take(dense(x), "x")
    c.ask.number[0] = to_member(mode, "miopenActivationMode_t", "mode")
    c.ask.real[0], c.ask.real[1], c.ask.real[2] = alpha, beta, gamma
    c.ask.number[20] = settings(c)
    return c


def forward(x, str mode, double alpha, double beta, double gamma):
    """miopyx::activation."""
    return always(_activate(FORWARD, mode, alpha, beta, gamma, x), Activation(0))


def backward(dy, x, y, str mode, double alpha, double beta, double gamma):
    """miopyx::activation_backward."""
    cdef Call c = _activate(BACKWARD, mode, alpha, beta, gamma, x)
    c.take(alike(y, c.first), "y")
    c.take(alike(dy, c.first), "dy")
    return always(c, Activation(1))


cdef class ResponseNorm(Planned):
    """Local response normalisation across channels, or its gradient from (x, y, dy, scale)."""

    cdef int direction

    def __init__(self, int direction):
        self.direction = direction

    cdef int describe(self, Call c) except -1:
        cdef int i, kind = c.array[0].type, of_scale = MX_DOUBLE if kind == MX_DOUBLE else MX_FLOAT
        c.require_rank(0, 4)
        lrn = LRNDescriptor("cross", c.ask.number[0], c.ask.real[0], c.ask.real[1], c.ask.real[2])
        lens, order = c.lens(0), order_of(c, 0)
        image = described(kind, lens, order)
        if self.direction == 0:
            plan = c.handle.lrn_forward(lrn, c.descriptor(0), image, True)
            self.use(plan, (0, RESULT, RESULT + 1), ((lens, kind, order), (lens, of_scale, order)))
            return 0
        for i in range(1, 4):
            if c.lens(i) != lens or c.array[i].type != (of_scale if i == 3 else kind) or c.strides(i) != c.strides(1):
                raise BadParmError("not of x's lengths, in the order of a result", c.given(i), c.lens(i), lens)
        y = c.descriptor(1)
        plan = c.handle.lrn_backward(lrn, y, c.descriptor(2), c.descriptor(0), image)
        self.use(plan, (1, 2, 0, RESULT, 3), ((lens, kind, order),))
        return 0


cdef Call _normalise(int what, x, int64_t size, double alpha, double beta, double k):
    cdef Call c = begin(what, x)
    c.take(own(x), "x")
    c.ask.number[0] = size
    c.ask.real[0], c.ask.real[1], c.ask.real[2] = alpha, beta, k
    c.ask.number[20] = settings(c)
    return c


def normalise(x, int64_t size, double alpha, double beta, double k):
    """miopyx::local_response_norm."""
    return always(_normalise(LRN_FORWARD, x, size, alpha, beta, k), ResponseNorm(0))


def normalise_backward(dy, x, y, scale, int64_t size, double alpha, double beta, double k):
    """miopyx::local_response_norm_backward."""
    cdef Call c = _normalise(LRN_BACKWARD, x, size, alpha, beta, k)
    c.take(y, "y")
    c.take(alike(dy, y), "dy")
    c.take(alike(scale, y), "scale")
    return always(c, ResponseNorm(1))
