"""aten's convolution and its backward on CPUs: ours or PyTorch's, whichever is known to be faster for the problem.

Autograd, autocast, fake tensors and compilers work above these kernels, as above PyTorch's own.
"""

import time
import weakref
from functools import partial

from libc.stdint cimport int64_t

from miopyx.engine._handle cimport Handle as _Handle
from miopyx.functional._functional cimport Call, Prepared, axes, pads, prepare_convolution, run

import torch
from miopyx import enums
from miopyx.api._convolution import miopenConvolutionBackwardBias
from miopyx.api._handle import Handle
from miopyx.errors import BadParmError, MIOpenError
from miopyx.problem._descriptors import TensorDescriptor

from . import choice
from ._threads cimport call

cdef enum:
    FORWARD = 100          # kinds of calls, beside those of `functional`
    BACKWARD = 101         # data; weights are the next one
    ALWAYS = 103           # the three directions of what is ours whatever it takes


cdef extern from *:
    """
    static _Thread_local long long mx_depth, mx_depth_of;
    """
    int64_t mx_depth       # forward passes of chosen models that this thread is in
    int64_t mx_depth_of    # the `choose` that it belongs to


cdef class Layer:
    """A problem that was met: who runs it, and how often."""

    cdef Prepared prepared
    cdef readonly bint ours
    cdef readonly int64_t runs
    cdef readonly str what       # the problem
    cdef readonly str why        # why it is not ours, where that is no matter of time
    cdef readonly object times

    def _run(self, Call c):
        y = run(c, self.prepared, None, (0, 1))
        if self.prepared.bias is not None:
            self.prepared.bias(y, c.memory[2], y)
        return y

    def gained(self):
        """Milliseconds that its runs took less than PyTorch's would have."""
        return self.runs * (self.times.theirs - self.times.ours) / 1e3 if self.ours else 0.0


# In the order in which they were met.
layers = []

cdef object _handle = None
cdef object _theirs_backward = None
cdef bint _everything = True
cdef int64_t _choice = 0   # changes with each `choose`
cdef dict _weights = {}    # without _everything: those that chosen models met, by address


def choose(bint everything):
    """Take all convolutions, or only those of models that `enter` and `leave` their forward passes."""
    global _everything, _choice
    _everything = everything
    _choice += 1
    _weights.clear()


def enter():
    """Begin a chosen model's forward pass in this thread."""
    global mx_depth, mx_depth_of
    if mx_depth_of != _choice:  # what was begun before counts no more
        mx_depth, mx_depth_of = 0, _choice
    mx_depth += 1


def leave():
    """End it."""
    global mx_depth
    if mx_depth_of == _choice and mx_depth:
        mx_depth -= 1


cdef bint _chosen(w) except -1:
    """Whether a chosen model is running, or met these weights: a gradient comes after its forward pass."""
    address = w.data_ptr()
    if address in _weights:
        return True
    if not mx_depth or mx_depth_of != _choice:
        return False
    _weights[address] = weakref.ref(w, partial(_weights.pop, address))  # which takes the reference as its default
    return True


def prepare(theirs_backward):
    """Make the handle; `theirs_backward` is PyTorch's own kernel."""
    global _handle, _theirs_backward
    _theirs_backward = theirs_backward
    if _handle is None:
        _handle = Handle("cpu")
    return _handle


def forget():
    """Let the next calls decide anew."""
    layers.clear()
    if _handle is not None:
        (<object> _handle).forget_calls()


cdef str _text(Call c, int direction, int spatial, bint transposed):
    """A problem as databases and reports know it."""
    cdef int i
    sides = []
    for i in range(2):
        strides = "x".join([str(s) for s in c.strides(i)]) if not c.array[i].contiguous else "packed"
        sides.append("x".join([str(n) for n in c.lens(i)]) + ":" + strides)
    number = ["x".join([str(c.ask.number[at + i]) for i in range(spatial)]) for at in (0, 3, 6)]
    kind = enums.TYPE_NAMES[c.array[0].type]
    return (f"conv{'-transposed' if transposed else ''}-{'FBW'[direction]}-{kind}-{'-'.join(sides)}-u{number[0]}-"
            f"p{number[1]}-l{number[2]}-g{c.ask.number[12]}-b{int(direction == 0 and c.ask.type[2] >= 0)}")


cdef enum:
    SMALL = 1 << 24        # products of a problem that the host path is tried on: a launch of OpenCL takes longer
    TURNS = 4              # the first one is not counted

cdef object _host = None


cdef Prepared _fastest(Call c, int direction, int spatial, bint transposed):
    """Prepare a problem on the OpenCL CPU, or on the host path where a small one is faster there."""
    global _host
    cdef Prepared p = prepare_convolution(c, direction, spatial, transposed, None), other
    cdef _Handle device = c.handle
    cdef double products = 1, least, least_other
    cdef int i
    for i in range(c.array[0].rank):
        products *= (c.array[0].len[i] if i != 1 or direction == 2 else 1) * (
            c.array[1].len[i] if direction < 2 else c.ask.number[15 + i] if i > 0 else 1)
    if device.device.is_host or products > SMALL:
        return p
    if _host is None:
        _host = Handle("host")
    c.handle = _host
    try:
        other = prepare_convolution(c, direction, spatial, transposed, None)
    except MIOpenError:
        return p
    finally:
        c.handle = device
    least, least_other = _least_time(c, p), _least_time(c, other)
    return other if least_other < least else p


cdef double _least_time(Call c, Prepared p) except -1:
    found = []
    for _ in range(TURNS):
        began = time.perf_counter()
        run(c, p, None, (0, 1))
        found.append(time.perf_counter() - began)
    return min(found[1:])


cdef Layer _layer(Call c, int direction, int spatial, bint transposed, theirs):
    """Decide who runs a problem that no call met before."""
    cdef Layer layer = Layer()
    layer.what = _text(c, direction, spatial, transposed)
    key = f"{layer.what}-t{torch.get_num_threads()}".encode()
    layer.times = choice.recall(c.handle.device.info, key)
    try:
        if layer.times is None or layer.times.ours_wins:
            layer.prepared = _fastest(c, direction, spatial, transposed)
            if layer.times is None:
                layer.times = choice.measure(c.handle.device.info, key, lambda: _ours(c, layer), theirs)
        layer.ours = layer.times.ours_wins
    except MIOpenError as e:  # nothing computes it
        layer.why = str(e)
        layer.times = choice.Times(None, None, "not supported")
    c.keep(layer)
    layers.append(layer)
    return layer


cdef object _ours(Call c, Layer layer):
    # What the host path was faster for is over before a thread would fall asleep.
    return layer._run(c) if layer.prepared.plan.handle.device.is_host else call(layer._run, c)


cdef int _number(Call c, list stride, list padding, list dilation, bint transposed, list output_padding,
                 int64_t groups, int spatial) except -1:
    axes(&c.ask, 0, stride, spatial, "stride")
    pads(c, 3, padding, spatial)
    axes(&c.ask, 6, dilation, spatial, "dilation")
    if transposed:
        axes(&c.ask, 9, output_padding, spatial, "output_padding")
    c.ask.number[12], c.ask.number[13], c.ask.number[14] = groups, spatial, transposed
    c.ask.number[20] = torch.get_num_threads()
    return 0


def convolution(x, w, bias, list stride, list padding, list dilation, bint transposed, list output_padding,
                int64_t groups):
    """aten::convolution."""
    cdef Call c
    cdef Layer layer
    cdef int spatial = len(stride)

    def theirs():
        return torch._convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups, False,
                                  False, True, True)

    if not _everything and not _chosen(w):
        return theirs()
    try:
        c = Call(FORWARD, _handle, True)
        c.take(x, "x")
        c.take(w, "w")
        c.take(bias, "bias", True)
        _number(c, stride, padding, dilation, transposed, output_padding, groups, spatial)
        layer = c.known()
        if layer is None:
            layer = _layer(c, 0, spatial, transposed, theirs)
    except MIOpenError:  # no plain memory of a type that we compute with
        return theirs()
    layer.runs += 1
    return _ours(c, layer) if layer.ours else theirs()


cdef object _gradient(int direction, dy, other, result, list stride, list padding, list dilation, bint transposed,
                      list output_padding, int64_t groups, theirs):
    """A gradient where it is ours, else None."""
    cdef Call c
    cdef Layer layer
    cdef int i, spatial = len(stride)
    try:
        c = Call(BACKWARD + direction - 1, _handle, True)
        c.take(dy, "dy")
        c.take(other, "w" if direction == 1 else "x")
        _number(c, stride, padding, dilation, transposed, output_padding, groups, spatial)
        for i in range(spatial + 2):
            c.ask.number[15 + i] = result.size(i)
        layer = c.known()
        if layer is None:
            layer = _layer(c, direction, spatial, transposed, theirs)
    except MIOpenError:
        return None
    layer.runs += 1
    return _ours(c, layer) if layer.ours else None


def convolution_backward(keys, dy, x, w, bias_sizes, list stride, list padding, list dilation, bint transposed,
                         list output_padding, int64_t groups, list mask):
    """aten::convolution_backward: the gradients of x, w and the bias that `mask` asks for."""
    def theirs(*wanted):
        return _theirs_backward.call_boxed(keys, dy, x, w, bias_sizes, stride, padding, dilation, transposed,
                                           output_padding, groups, list(wanted))

    if not _everything and not _chosen(w):
        return theirs(*mask)
    dx = dw = db = None
    dy = _own(dy)
    if mask[0]:
        dx = _gradient(1, dy, w, x, stride, padding, dilation, transposed, output_padding, groups,
                       lambda: theirs(True, False, False))
    if mask[1]:
        dw = _gradient(2, dy, x, w, stride, padding, dilation, transposed, output_padding, groups,
                       lambda: theirs(False, True, False))
    if dx is None and dw is None:
        return theirs(*mask)
    if mask[2]:
        db = _bias_gradient(dy)
    if (mask[0] and dx is None) or (mask[1] and dw is None):
        rest = theirs(mask[0] and dx is None, mask[1] and dw is None, False)
        dx, dw = rest[0] if dx is None else dx, rest[1] if dw is None else dw
    return dx, dw, db


cdef object _bias_gradient(dy):
    try:
        y_desc = TensorDescriptor.of(dy)
        db = dy.new_empty(dy.size(1))
        miopenConvolutionBackwardBias(_handle, 1, y_desc, dy, 0,
                                      TensorDescriptor(y_desc.dtype, (1, dy.size(1), *(1,) * (dy.dim() - 2))), db)
        return db
    except MIOpenError:
        return dy.sum([0, *range(2, dy.dim())])


# What is always ours


cdef class Differentiable:
    """An operator's kernel above autograd: straight to the computation where no gradient is asked for.

    What only looks like a tensor, and whoever listens to operators, is left to PyTorch's dispatcher.
    """

    cdef object function, compute, differentiate
    cdef readonly str __name__

    def __init__(self, function, compute):
        self.function, self.compute, self.differentiate = function, compute, function.apply
        self.__name__ = function.__name__

    def __call__(self, first, second, third, *numbers):
        if _keeps_gradient(first) or _keeps_gradient(second) or _keeps_gradient(third):
            return self.differentiate(first, second, third, *numbers)
        if _is_plain(first) and _is_plain(second) and not _listeners():
            return self.compute(first, second, third, *numbers)
        with torch._C._AutoDispatchBelowAutograd():
            return self.function.op(first, second, third, *numbers)


cdef object _listeners = torch._C._len_torch_dispatch_stack
cdef object _grad_enabled = torch.is_grad_enabled
cdef object _Tensor = torch.Tensor, _Parameter = torch.nn.Parameter


cdef bint _keeps_gradient(t) except -1:
    return t is not None and not isinstance(t, (list, tuple)) and t.requires_grad and _grad_enabled()


cdef bint _is_plain(t) except -1:
    return (type(t) is _Tensor or type(t) is _Parameter) and t.is_cpu


cdef object _always(Call c, int direction, int spatial, bint transposed):
    cdef Layer layer = c.known()
    if layer is None:
        layer = Layer()
        layer.prepared = _fastest(c, direction, spatial, transposed)
        c.keep(layer)
    return _ours(c, layer)


cdef Call _begun(int direction):
    global _handle
    if _handle is None:
        _handle = Handle("cpu")
    return Call(ALWAYS + direction, _handle, True)


cdef object _own(t):
    """A tensor with elements of its own, where some were expanded, as gradients of sums are."""
    return t.contiguous() if 0 in t.stride() else t


def forward(x, w, bias, list stride, list padding, list dilation, bint transposed, list output_padding,
            int64_t groups):
    """miopyx::convolution."""
    cdef Call c = _begun(0)
    c.take(_own(x), "x")
    c.take(_own(w), "w")
    c.take(bias, "bias", True)
    _number(c, stride, padding, dilation, transposed, output_padding, groups, len(stride))
    return _always(c, 0, len(stride), transposed)


cdef object _backward(int direction, dy, other, list size, list stride, list padding, list dilation, bint transposed,
                      list output_padding, int64_t groups):
    cdef Call c = _begun(direction)
    cdef int i
    c.take(_own(dy), "dy")
    c.take(_own(other), "w" if direction == 1 else "x")
    _number(c, stride, padding, dilation, transposed, output_padding, groups, len(stride))
    if len(size) != len(stride) + 2:
        raise BadParmError("another number of lengths than axes", "size", size, f"{len(stride) + 2} lengths")
    for i in range(len(size)):
        c.ask.number[15 + i] = size[i]
    return _always(c, direction, len(stride), transposed)


def backward_data(dy, w, list size, list stride, list padding, list dilation, bint transposed, list output_padding,
                  int64_t groups):
    """miopyx::convolution_backward_data."""
    return _backward(1, dy, w, size, stride, padding, dilation, transposed, output_padding, groups)


def backward_weights(dy, x, list size, list stride, list padding, list dilation, bint transposed,
                     list output_padding, int64_t groups):
    """miopyx::convolution_backward_weights."""
    return _backward(2, dy, x, size, stride, padding, dilation, transposed, output_padding, groups)
