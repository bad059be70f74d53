"""Whose kernel runs a problem that PyTorch asks for: decided when it is met first, looked up from then on.

An operator's file says how its problems are named, prepared and computed: `Layer` is what it fills in.

A call that goes through Python to PyTorch's own kernel takes longer than one that does not.  So each family of
operators keeps an account: where it gained less, over many calls, than their ways took, it is given back to PyTorch as
a whole.  On CUDA, what a kernel gains counts while its stream has more to do, and a way counts while it has nothing.
"""

import threading
import time
import weakref
from functools import partial

from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from miopyx.engine._handle cimport Handle as _Handle
from miopyx.engine._plan cimport Plan
from miopyx.functional._functional cimport Call, new_array, new_call
from miopyx.runtime._arrays cimport DL_CUDA
from miopyx.runtime._cuda cimport is_idle
from miopyx.values._guard cimport (
    add_int64, load_flag, load_int64, mx_guard, mx_guard_lock, mx_guard_unlock, store_flag,
)
from miopyx.values._types cimport MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_HALF, MX_SCALARS, MX_SLOTS

import torch
from miopyx.api._handle import Handle
from miopyx.errors import MIOpenError

from . import choice, unlocked
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
        return self.runs * self.gain / 1e3


cdef enum:
    LOCKED = 1 << 14       # elements that PyTorch's own kernel may take with Python's lock: it is called faster so
    SMALL = 1 << 16        # elements of an array that the host path is tried on: a launch of OpenCL takes longer
    TURNS = 4              # the first one is not counted


cdef class Planned(Layer):
    """What one plan computes.  `describe` makes it for the call's handle, and says by `use` what its buffers are."""

    cdef int describe(self, Call c) except -1:
        raise NotImplementedError

    cdef int prepare(self, Call c) except -1:
        """Make the plan, on the host path where that is faster for a few elements."""
        cdef _Handle device
        cdef double least
        self.describe(c)
        device = c.handle
        if device.device.is_cpu and c.array[0].bytes <= SMALL * c.array[0].width:
            before, least = (self.plan, self.constants), least_time(self, c)
            c.handle = host()
            try:
                self.describe(c)
                if least_time(self, c) >= least:
                    self.plan, self.constants = before
            except MIOpenError:
                self.plan, self.constants = before
            finally:
                c.handle = device
        self.quiet = self.plan.handle.device.is_cpu
        return 0

    cdef int use(self, Plan plan, object slots, object results) except -1:
        """Take a plan: where each buffer's memory comes from, and what the results are."""
        cdef int i
        self.plan, self.results = plan, tuple(results)
        for i in range(len(slots)):
            self.slot[i] = slots[i]
        memcpy(self.scalars, plan.default, sizeof(self.scalars))
        return 0

    cdef object compute(self, Call c):
        cdef PyObject* data[MX_SLOTS + 1]
        cdef double scalars[MX_SCALARS]
        cdef int i, at
        made, memory = [], []
        for lens, kind, order in self.results:
            y = new_array(c.first, &c.array[0], lens, kind, order)
            made.append(y)
            memory.append(c.memory_of(y))
        for i in range(self.plan.count):
            at = self.slot[i]
            if at < RESULT:
                data[i] = c.memory(at)
            elif at < CONSTANT:
                data[i] = <PyObject*> <object> memory[at - RESULT]
            else:
                data[i] = <PyObject*> (<object> self.constants[at - CONSTANT] if at < NOTHING else None)
        memcpy(scalars, self.scalars, sizeof(scalars))
        if self.moves:
            scalars[0] = c.factor
        c.call(self.plan, data, scalars)
        return made[0] if len(made) == 1 else tuple(made)


# In the order in which they were met.
layers = []

FAMILIES = ("convolution", "convolution's gradients", "batch norm", "batch norm's gradients", "average",
            "average's gradients", "maximum", "maximum's gradients", "softmax", "softmax's gradients")

cdef enum:
    CALLS = 512            # of a family's problems that are known, before its account is looked at
    MORE_CALLS = 4         # times that many convolutions: whoever gives these back meets no new ones
    SAMPLED = 32           # one of about so many calls, at odd distances, since models repeat themselves
    WAY = 5                # of a call's way to a choice and back: PyTorch's parts take four times ours, in models

cdef mx_guard _guard          # of what is counted
cdef account_t _accounts[FAMILY_COUNT][2]
cdef int64_t _next_sample = 1
cdef unsigned _random = 1
cdef object _give_back = None, _take_again = None


cdef double _now() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return t.tv_sec + 1e-9 * t.tv_nsec


def open_accounts(give_back, take_again):
    """Say whom to call: with a family and a type of devices that gain nothing, and where a new problem is met."""
    global _give_back, _take_again
    _give_back, _take_again = give_back, take_again


cdef int _count(Call c, Layer layer) except -1:
    """Enter a run of a known problem."""
    cdef account_t* a = layer.account
    cdef bint sampled = c.began != 0, full = False
    cdef double way = (_now() - c.began) * 1e6 if sampled else 0
    cdef int idle = is_idle(c.handle.queue_ptr, c.stream) if sampled and c.on_stream else -1
    c.began = 0
    mx_guard_lock(&_guard)
    a.gained += layer.gain
    a.way += way
    a.sampled += sampled
    a.asked += idle >= 0
    a.idle += idle > 0
    if not c.counted:
        a.calls += 1
        full = a.calls >= CALLS
    mx_guard_unlock(&_guard)
    c.counted = True
    if full:
        _look_at(a, c.deterministic)
    return 0


def accounts():
    """What was counted since a family was looked at last: calls, what all gained, and the mean of the ways to a choice.

    In microseconds; no mean where no way was measured.
    """
    cdef account_t a
    found = {}
    for i in range(FAMILY_COUNT):
        for j in range(2):
            mx_guard_lock(&_guard)
            a = _accounts[i][j]
            mx_guard_unlock(&_guard)
            if a.calls:
                found[FAMILIES[i], ("cpu", "cuda")[j]] = a.calls, a.gained, a.way / a.sampled if a.sampled else None
    return found


cdef int _look_at(account_t* account, bint deterministic) except -1:
    cdef int place = account - &_accounts[0][0], family = place // 2
    cdef int64_t calls = MORE_CALLS * CALLS if family <= CONVOLUTION_GRADIENTS else CALLS
    cdef double waits = 1, works = 1    # shares of the calls
    cdef account_t a
    mx_guard_lock(&_guard)
    a = account[0]
    if a.calls >= calls and a.sampled:
        memset(account, 0, sizeof(account_t))
    mx_guard_unlock(&_guard)
    if a.calls < calls or not a.sampled:
        return 0
    if place % 2:  # where all calls were captured in a graph, none was asked, and their ways take nothing
        waits = a.idle / <double> max(1, a.asked)
        works = 1 - waits
    loses = a.gained * works < waits * a.calls * WAY * a.way / a.sampled
    if loses and _give_back is not None and not deterministic:
        _give_back(FAMILIES[family], "cuda" if place % 2 else "cpu")
    return 0

cdef dict _by_device = {}     # handles of CPUs and of the host path; `functional` keeps those of CUDA's devices
cdef set _handles = set()     # that keep layers
cdef bint _everything = True
cdef dict _theirs_of_cpu = {}   # PyTorch's own kernels, by operators' names
cdef dict _theirs_of_cuda = {}
cdef int64_t _choice = 0      # changes with each `choose`
cdef dict _weights = {}       # without _everything: those that chosen models met, by address


def prepare(str device, kernels):
    """Take PyTorch's own kernels for a type of devices, by operators' names."""
    (_theirs_of_cuda if device == "cuda" else _theirs_of_cpu).update(
        {name: kernel.call_boxed for name, kernel in kernels.items()})


cdef object theirs(str name, tuple args):
    """Call PyTorch's own kernel; the first argument is its set of dispatch keys, the second one a tensor."""
    x = args[1]
    if x.is_cuda:
        return _theirs_of_cuda[name](*args)
    if x.numel() > LOCKED and x.is_cpu:
        other = unlocked.CALLS.get(name)
        found = NotImplemented if other is None else other(*args)
        if found is not NotImplemented:
            return found
    return _theirs_of_cpu[name](*args)


def choose(bint everything):
    """Take all operators, or only those of models that `enter` and `leave` their forward passes."""
    store_flag(_everything, everything)
    add_int64(_choice, 1)
    _weights.clear()


def enter():
    """Begin a chosen model's forward pass in this thread."""
    global mx_depth, mx_depth_of
    cdef int64_t now = load_int64(_choice)
    if mx_depth_of != now:  # what was begun before counts no more
        mx_depth, mx_depth_of = 0, now
    mx_depth += 1


def leave():
    """End it."""
    global mx_depth
    if mx_depth_of == load_int64(_choice) and mx_depth:
        mx_depth -= 1


cdef bint chosen(object w) except -1:
    """Whether all is ours to decide, a chosen model runs, or met these weights: gradients come after a forward pass."""
    if load_flag(_everything):
        return True
    if w is None:
        return mx_depth and mx_depth_of == load_int64(_choice)
    address = w.data_ptr()
    if address in _weights:
        return True
    if not mx_depth or mx_depth_of != load_int64(_choice):
        return False
    _weights[address] = weakref.ref(w, partial(_weights.pop, address))  # which takes the reference as its default
    return True


cdef object _is_cow = torch._C._is_cow_tensor


cdef bint lazy(object t) except -1:
    """Whether a tensor shares another's memory until it is written to: DLPack takes a look for that, and copies."""
    if t is None:
        return False
    try:
        return _is_cow(t)
    except RuntimeError:  # it has no memory
        return True


cdef bint is_dense(const array_t* a, bint last) noexcept:
    """Whether an array is packed, in C order or channels last."""
    cdef int64_t step = a.width
    cdef int i, d
    for i in range(a.rank):
        if a.len[i] == 0:
            return True
    for i in range(a.rank):
        d = a.rank - 1 - i if not last else (1 if i == 0 else (a.rank - i if i < a.rank - 1 else 0))
        if a.len[d] > 1 and a.step[d] != step:
            return False
        step *= a.len[d]
    return True


cdef bint is_float(const array_t* a) noexcept:
    return a.type == MX_FLOAT or a.type == MX_HALF or a.type == MX_BFLOAT16 or a.type == MX_DOUBLE


def forget():
    """Let the next calls decide anew."""
    choice.begin_anew()
    layers.clear()
    mx_guard_lock(&_guard)
    memset(_accounts, 0, sizeof(_accounts))
    mx_guard_unlock(&_guard)
    for handle in list(_handles):
        handle.forget_calls()
    _handles.clear()


cdef Call begin(int what, object first):
    """A call of a problem on the device of its first tensor."""
    global _next_sample, _random
    cdef Call c
    cdef _Handle handle = None
    cdef bint sampled
    if not first.is_cuda:
        handle = _by_device.get("cpu")
        if handle is None:
            handle = _by_device.setdefault("cpu", Handle("cpu"))
    c = new_call(what, handle, True)
    mx_guard_lock(&_guard)
    _next_sample -= 1
    sampled = _next_sample == 0
    if sampled:
        _random = _random * 1664525 + 1013904223  # Numerical Recipes' generator
        _next_sample = 1 + (_random >> 8) % (2 * SAMPLED)
    mx_guard_unlock(&_guard)
    if sampled:
        c.began = _now()
    return c


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
    c.tf32 = tf32()
    return found | c.tf32 << 3


cpdef bint tf32() except -1:
    """Whether PyTorch's convolutions in float32 may round their factors to 11 bits."""
    try:
        return _cudnn_tf32()
    except RuntimeError:  # somebody used the newer switch, which the older one does not know
        return _conv.fp32_precision == "tf32"


cdef Layer decide(Call c, int family, Layer layer, object theirs):
    """Decide who runs a problem that no call met before, and keep it; None where that must wait.

    While a graph is captured nothing can be measured; the problem is PyTorch's there, and met again later.
    """
    cdef bint on_cuda = c.array[0].device == DL_CUDA
    wait = None
    if on_cuda:
        if torch.cuda.is_current_stream_capturing():
            return None
        wait = partial(torch.cuda.synchronize, c.array[0].device_id)
    layer.what, layer.account = layer.text(c), &_accounts[family][on_cuda]
    c.began, c.counted = 0, True
    key = f"{layer.what}-t{c.ask.number[20]}".encode()

    def ours():
        if not ready:
            layer.prepare(c)
            ready.append(True)
        return run_ours(c, layer)

    ready = []
    with _deciding:  # two that measure at once disturb each other
        found = c.known()
        if found is not None:
            return found
        _decide(c, layer, key, ours, theirs, wait, ready)
    return layer


cdef object _deciding = threading.RLock()


cdef int _decide(Call c, Layer layer, bytes key, object ours, object theirs, object wait, list ready) except -1:
    try:
        layer.times = choice.decide(c.handle.device.info, key, ours, theirs, wait)
        if layer.times.ours_wins and not ready:
            layer.prepare(c)
        layer.ours = layer.times.ours_wins
        if layer.ours:
            layer.gain = layer.times.theirs - layer.times.ours
        if layer.times.ours is not None:  # something was learnt: there may be more of it
            mx_guard_lock(&_guard)
            memset(layer.account, 0, sizeof(account_t))
            mx_guard_unlock(&_guard)
            _take_again()
    except MIOpenError as e:  # nothing computes it
        layer.why = str(e)
        layer.times = choice.Times(None, None, "not supported")
    c.keep(layer)
    _handles.add(c.handle)
    layers.append(layer)
    return 0


cdef object run_ours(Call c, Layer layer):
    return call(layer._run, c) if layer.quiet else layer.compute(c)


cdef object run_chosen(Call c, Layer layer):
    """Run a problem that was decided on where it is ours; None where it is PyTorch's."""
    if layer is None:
        return None
    add_int64(layer.runs, 1)
    _count(c, layer)
    return run_ours(c, layer) if layer.ours else None


cdef object always(Call c, Layer layer, Call trial=None):
    """Run a problem that is ours whatever it takes; it is tried on `trial`, where its arrays must not change."""
    cdef Layer found = c.known()
    if found is None:
        found = layer
        found.prepare(c if trial is None else trial)
        c.keep(found)
    return run_ours(c, found)


cdef _Handle host():
    """The handle of the host path."""
    cdef _Handle handle = _by_device.get("host")
    if handle is None or not handle.is_usable():
        handle = _by_device["host"] = Handle("host")
    return handle


cdef double least_time(Layer layer, Call c) except -1:
    found = []
    c.tried = True
    try:
        for _ in range(TURNS):
            began = time.perf_counter()
            layer.compute(c)
            found.append(time.perf_counter() - began)
    finally:
        c.tried = False
    return min(found[1:])


cdef object own(t):
    """A tensor with elements of its own, where some were expanded, as gradients of sums are."""
    return t.contiguous() if t is not None and 0 in t.stride() else t


cdef object dense(t):
    """A tensor with nothing between its elements, in the order that `torch.empty_like` gives."""
    if t.is_contiguous():
        return t
    like = torch.empty_like(t)
    return t if like.stride() == t.stride() else like.copy_(t)


cdef object alike(t, first):
    """A tensor in the memory's order of a dense one."""
    return t if t.stride() == first.stride() or t.shape != first.shape else torch.empty_like(first).copy_(t)
