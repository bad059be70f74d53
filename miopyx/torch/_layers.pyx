"""Whose kernel runs a problem that PyTorch asks for: decided when it is met first, looked up from then on.

An operator's file says how its problems are named, prepared and computed: `Layer` is what it fills in.
"""

import weakref
from functools import partial

from libc.stdint cimport int64_t

from miopyx.engine._handle cimport Handle as _Handle
from miopyx.functional._functional cimport Call, new_call
from miopyx.runtime._arrays cimport DL_CUDA

import torch
from miopyx.api._handle import Handle
from miopyx.errors import MIOpenError

from . import choice
from ._threads cimport call

cdef extern from *:
    """
    static _Thread_local long long mx_depth, mx_depth_of;
    """
    int64_t mx_depth       # forward passes of chosen models that this thread is in
    int64_t mx_depth_of    # the `choose` that it belongs to


cdef class Layer:
    """A problem that was met: who runs it, and how often."""

    cdef str text(self, Call c):
        """The problem as databases and reports know it."""
        raise NotImplementedError

    cdef int prepare(self, Call c) except -1:
        """Make the plan; a MIOpenError where nothing computes the problem."""
        raise NotImplementedError

    cdef object compute(self, Call c):
        """Run it."""
        raise NotImplementedError

    def _run(self, Call c):
        return self.compute(c)

    def gained(self):
        """Milliseconds that its runs took less than PyTorch's would have."""
        return self.runs * (self.times.theirs - self.times.ours) / 1e3 if self.ours else 0.0


# In the order in which they were met.
layers = []

cdef _Handle _handle = None   # of CPUs; `functional` keeps those of CUDA's devices
cdef set _handles = set()     # that keep layers
cdef bint _everything = True
cdef dict _theirs = {}        # PyTorch's own kernels, by operators' names and devices' types
cdef int64_t _choice = 0      # changes with each `choose`
cdef dict _weights = {}       # without _everything: those that chosen models met, by address


def prepare(kernels):
    """Take PyTorch's own kernels, by operators' names and devices' types."""
    _theirs.clear()
    _theirs.update(kernels)


cdef object theirs(str name, tuple args):
    """Call PyTorch's own kernel; the first argument is its set of dispatch keys, the second one a tensor."""
    return _theirs[name, args[1].device.type].call_boxed(*args)


def choose(bint everything):
    """Take all operators, or only those of models that `enter` and `leave` their forward passes."""
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


cdef bint chosen(object w) except -1:
    """Whether all is ours to decide, a chosen model runs, or met these weights: gradients come after a forward pass."""
    if _everything:
        return True
    if w is None:
        return mx_depth and mx_depth_of == _choice
    address = w.data_ptr()
    if address in _weights:
        return True
    if not mx_depth or mx_depth_of != _choice:
        return False
    _weights[address] = weakref.ref(w, partial(_weights.pop, address))  # which takes the reference as its default
    return True


def forget():
    """Let the next calls decide anew."""
    layers.clear()
    for handle in _handles:
        handle.forget_calls()
    _handles.clear()


cdef Call begin(int what, object first):
    """A call of a problem on the device of its first tensor."""
    global _handle
    if first.is_cuda:
        return new_call(what, None, True)
    if _handle is None:
        _handle = Handle("cpu")
    return new_call(what, _handle, True)


# PyTorch's settings, a look-up less each.
cdef object _deterministic = torch._C._get_deterministic_algorithms
cdef object _cudnn_deterministic = torch._C._get_cudnn_deterministic
cdef object _cudnn_benchmark = torch._C._get_cudnn_benchmark
cdef object _cudnn_enabled = torch._C._get_cudnn_enabled
cdef object _cudnn_tf32 = torch._C._get_cudnn_allow_tf32
cdef object _threads = torch._C.get_num_threads
cdef object _conv = getattr(torch.backends.cudnn, "conv", None)


cdef int64_t settings(Call c) except -1:
    """What of PyTorch's settings decides how fast its kernels are, and which of ours may run."""
    cdef int64_t found
    c.deterministic = _deterministic()
    if c.array[0].device != DL_CUDA:
        return <int64_t> _threads() << 8 | c.deterministic
    c.deterministic = c.deterministic or _cudnn_deterministic()
    found = c.deterministic | <int> _cudnn_benchmark() << 1 | <int> _cudnn_enabled() << 2
    return found | <int> tf32() << 3


cpdef bint tf32() except -1:
    """Whether PyTorch's convolutions in float32 may round their factors to 11 bits."""
    try:
        return _cudnn_tf32()
    except RuntimeError:  # somebody used the newer switch, which the older one does not know
        return _conv.fp32_precision == "tf32"


cdef Layer decide(Call c, Layer layer, object theirs):
    """Decide who runs a problem that no call met before, and keep it; None where that must wait.

    While a graph is captured nothing can be measured; the problem is PyTorch's there, and met again later.
    """
    cdef bint on_cuda = c.array[0].device == DL_CUDA
    wait = None
    if on_cuda:
        if torch.cuda.is_current_stream_capturing():
            return None
        wait = partial(torch.cuda.synchronize, c.array[0].device_id)
    layer.what = layer.text(c)
    key = f"{layer.what}-t{c.ask.number[20]}".encode()

    def ours():
        if not ready:
            layer.prepare(c)
            ready.append(True)
        return run_ours(c, layer)

    ready = []
    try:
        layer.times = choice.decide(c.handle.device.info, key, ours, theirs, wait)
        if layer.times.ours_wins and not ready:
            layer.prepare(c)
        layer.ours = layer.times.ours_wins
    except MIOpenError as e:  # nothing computes it
        layer.why = str(e)
        layer.times = choice.Times(None, None, "not supported")
    c.keep(layer)
    _handles.add(c.handle)
    layers.append(layer)
    return layer


cdef object run_ours(Call c, Layer layer):
    return call(layer._run, c) if layer.quiet else layer.compute(c)
