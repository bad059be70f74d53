"""aten's convolution and its backward: ours or PyTorch's, whichever is known to be faster for the problem.

Autograd, autocast, fake tensors and compilers work above these kernels, as above PyTorch's own.
"""

import os
from functools import partial

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t
from posix.dlfcn cimport RTLD_LAZY, dlclose, dlopen, dlsym

from miopyx.engine._handle cimport Handle as _Handle
from miopyx.functional._functional cimport (
    Call, Prepared, add_bias, ask_activation, axes, pads, prepare_convolution, run,
)
from miopyx.problem._activation cimport ActivationDescriptor
from miopyx.runtime._arrays cimport array_t

import torch
from miopyx import enums
from miopyx.api._convolution import miopenConvolutionBackwardBias
from miopyx.errors import BadParmError, MIOpenError
from miopyx.problem._activation import ActivationDescriptor
from miopyx.problem._descriptors import TensorDescriptor
from miopyx.runtime._arrays import FreedError

from ._layers cimport (
    CONVOLUTION, CONVOLUTION_GRADIENTS, Layer, always, begin, chosen, decide, dense, host, is_dense, is_float, lazy,
    least_time, own, run_chosen, settings, theirs,
)
from ._layers import tf32

cdef extern from "<dlfcn.h>":
    const int RTLD_NOLOAD

cdef enum:
    FORWARD = 100          # kinds of calls, beside those of `functional`
    DATA
    WEIGHTS
    BACKWARD               # both, or one of them
    ALWAYS                 # the three directions of what is ours whatever it takes
    FUSED = ALWAYS + 3     # with what follows
    SMALL = 1 << 24        # products of a problem that the host path is tried on: a launch of OpenCL takes longer


cdef class Convolution(Layer):
    """A convolution or one of its gradients, of the call's first array and another one."""

    cdef Prepared prepared
    cdef int direction, spatial, second
    cdef bint transposed

    def __init__(self, int direction, int spatial, bint transposed, int second=1):
        self.direction, self.spatial, self.transposed, self.second = direction, spatial, transposed, second

    cdef str text(self, Call c):
        return _text(c, self.direction, self.spatial, self.transposed, self.second)

    cdef Prepared _prepared(self, Call c):
        return prepare_convolution(c, self.direction, self.spatial, self.transposed, None, self.second)

    cdef int prepare(self, Call c) except -1:
        cdef _Handle device
        cdef Prepared before
        cdef double least
        before = self.prepared = self._prepared(c)
        device = c.handle
        if device.device.is_cpu and _products(c, self.direction, self.second) <= SMALL:
            least = least_time(self, c)
            c.handle = host()
            try:
                self.prepared = self._prepared(c)
                if least_time(self, c) >= least:
                    self.prepared = before
            except MIOpenError:
                self.prepared = before
            finally:
                c.handle = device
        self.quiet = self.prepared.plan.handle.device.is_cpu
        return 0

    cdef object compute(self, Call c):
        y = run(c, self.prepared, None, (0, self.second))
        if self.prepared.bias is not None:
            add_bias(c, self.prepared, y)
        return y


cdef str _text(Call c, int direction, int spatial, bint transposed, int second):
    """A problem as databases and reports know it."""
    cdef int i
    sides = []
    for i in (0, second):
        strides = "x".join([str(s) for s in c.strides(i)]) if not c.array[i].contiguous else "packed"
        sides.append("x".join([str(n) for n in c.lens(i)]) + ":" + strides)
    number = ["x".join([str(c.ask.number[at + i]) for i in range(spatial)]) for at in (0, 3, 6, 9)]
    added = f"o{number[3]}-" if transposed or any([c.ask.number[9 + i] for i in range(spatial)]) else ""
    kind = enums.TYPE_NAMES[c.array[0].type]
    return (f"conv{'-transposed' if transposed else ''}-{'FBW'[direction]}-{kind}-{'-'.join(sides)}-u{number[0]}-"
            f"p{number[1]}-l{number[2]}-{added}g{c.ask.number[12]}-b{int(direction == 0 and c.ask.type[2] >= 0)}")


cdef double _products(Call c, int direction, int second) noexcept:
    cdef double found = 1
    cdef int i
    for i in range(c.array[0].rank):
        found *= (c.array[0].len[i] if i != 1 or direction == 2 else 1) * (
            c.array[second].len[i] if direction < 2 else c.ask.number[15 + i] if i > 0 else 1)
    return found


cdef inline object _one_or_all(list value):
    return value[0] if len(value) == 1 else value


cdef int _number(Call c, list stride, list padding, list dilation, bint transposed, list output_padding,
                 int64_t groups, int spatial) except -1:
    if not 1 <= spatial <= 3:
        raise BadParmError("another number of spatial axes", "stride", stride, "1 to 3")
    # As PyTorch has it, one number is that of all axes.
    axes(&c.ask, 0, _one_or_all(stride), spatial, "stride")
    pads(c, 3, _one_or_all(padding), spatial)
    axes(&c.ask, 6, _one_or_all(dilation), spatial, "dilation")
    axes(&c.ask, 9, _one_or_all(output_padding), spatial, "output_padding")
    c.ask.number[12], c.ask.number[13], c.ask.number[14] = groups, spatial, transposed
    c.ask.number[20] = settings(c)
    return 0


# PyTorch's own.  Arguments travel as tuples: a closure that holds itself would keep gradients until garbage collection.


# As aten::convolution calls it.  On CPUs it asks for none of the settings, which only cuDNN knows.
cdef object _their_convolution = torch._convolution
cdef object _cudnn_benchmark = torch._C._get_cudnn_benchmark
cdef object _cudnn_deterministic = torch._C._get_cudnn_deterministic
cdef object _cudnn_enabled = torch._C._get_cudnn_enabled
cdef object _deterministic = torch._C._get_deterministic_algorithms
cdef object _tracing = torch._C._get_tracing_state


def _theirs_forward(tuple args):
    if args[0].is_cpu:
        return _their_convolution(*args, False, False, True, False)
    deterministic = _cudnn_deterministic() or _deterministic()
    return _their_convolution(*args, _cudnn_benchmark(), deterministic, _cudnn_enabled(), tf32())


# A kernel that `torch.library.get_kernel` lends runs with Python's lock, which a gradient would hold for long on a CPU.
# PyTorch's C functions for compiled models (aoti_torch/generated/c_shim_cpu.h) run the same one without.
ctypedef int32_t (*backward_t)(void*, void*, void*, const int64_t**, int64_t, const int64_t*, int64_t, const int64_t*,
                               int64_t, const int64_t*, int64_t, int32_t, const int64_t*, int64_t, int64_t,
                               const int32_t*, int64_t, void**, void**, void**) noexcept nogil
ctypedef int32_t (*delete_t)(void*) noexcept nogil

cdef backward_t _backward_of_cpus = NULL
cdef delete_t _delete_tensor = NULL
cdef object _pointers_of = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors
cdef object _tensors_of = torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs


cdef int _find_c_functions() except -1:
    global _backward_of_cpus, _delete_tensor
    cdef void* library
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so").encode()
    library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD)
    if library != NULL:
        _delete_tensor = <delete_t> dlsym(library, "aoti_torch_delete_tensor_object")
        if _delete_tensor != NULL:
            _backward_of_cpus = <backward_t> dlsym(library, "aoti_torch_cpu_convolution_backward")
        dlclose(library)
    return 0


_find_c_functions()

cdef enum:
    LENGTHS = 8            # of a list of integers, at most


cdef int _read(object given, int64_t* out) except -1:
    cdef int i
    for i in range(min(len(given), LENGTHS)):
        out[i] = given[i]
    return len(given)


cdef object _without_the_lock(tuple args, list mask):
    """PyTorch's own gradients of tensors in host memory; None where that does not work, for whatever reason."""
    cdef int64_t lists[5][LENGTHS]
    cdef const int64_t* bias = lists[4]
    cdef int64_t count[5]
    cdef int64_t groups = args[10]
    cdef int32_t wanted[3]
    cdef int32_t transposed = args[8], code
    cdef void* given[3]
    cdef void* made[3]
    cdef int i
    cdef bint has_bias = args[4] is not None
    for i, numbers in enumerate((args[5], args[6], args[7], args[9], args[4] if has_bias else ())):
        count[i] = _read(numbers, lists[i])
        if count[i] > LENGTHS:
            return None
    for i in range(3):
        wanted[i] = mask[i]
    pointers = _pointers_of(args[1:4])
    for i in range(3):
        given[i] = PyCapsule_GetPointer(pointers[i], NULL)
    with nogil:
        code = _backward_of_cpus(given[0], given[1], given[2], &bias if has_bias else NULL, count[4], lists[0],
                                 count[0], lists[1], count[1], lists[2], count[2], transposed, lists[3], count[3],
                                 groups, wanted, 3, &made[0], &made[1], &made[2])
        for i in range(3):
            _delete_tensor(given[i])
    if code != 0:
        return None
    found = _tensors_of([PyCapsule_New(made[i], NULL, NULL) for i in range(3)])
    return tuple([found[i] if wanted[i] else None for i in range(3)])


def _theirs_backward(tuple args, list mask):
    if _backward_of_cpus != NULL and args[1].is_cpu:
        found = _without_the_lock(args, mask)
        if found is not None:
            return found
    return theirs("convolution_backward", (*args, mask))  # and its errors


# PyTorch's kernels compute in channels last where x or w is that, else in C order, and copy what is otherwise.


cdef bint _like_channels_last(const array_t* a) noexcept:
    """Tensor.suggest_memory_format's rule: what may be both is C order."""
    cdef int64_t least = 0
    cdef int i, d
    if not 4 <= a.rank <= 5 or a.step[1] == 0:
        return False
    for i in range(a.rank):
        d = 1 if i == 0 else (a.rank - i if i < a.rank - 1 else 0)
        if a.len[d] == 0 or a.step[d] < least or d == 0 and least == a.step[1]:
            return False
        least = a.step[d] * max(1, a.len[d])
    return True


cdef bint _are_dense(Call c, bint last) noexcept:
    cdef int i
    for i in range(c.count):
        if not is_dense(&c.array[i], last):
            return False
    return True


cdef list _copied(Call c, bint last, tuple tensors):
    """Tensors in C order or channels last."""
    layout = torch.contiguous_format
    if last:
        layout = torch.channels_last if c.array[0].rank == 4 else torch.channels_last_3d
    return [t.contiguous(memory_format=layout) for t in tensors]


def convolution(x, w, bias, list stride, list padding, list dilation, bint transposed, list output_padding,
                int64_t groups):
    """aten::convolution."""
    cdef Call c
    cdef Layer layer
    cdef int spatial
    cdef bint last
    args = x, w, bias, stride, padding, dilation, transposed, output_padding, groups
    try:
        # torch.jit.trace does not note aten::convolution, but what PyTorch's own calls.
        if chosen(w) and _tracing() is None and not (lazy(x) or lazy(w) or lazy(bias)):
            c = begin(FORWARD, x)
            c.take(x, "x")
            c.take(w, "w")
            if not is_float(&c.array[0]):
                raise BadParmError("integers, whose sums have another type", "x", x.dtype, "floats")
            last = _like_channels_last(&c.array[0]) or _like_channels_last(&c.array[1])
            if not _are_dense(c, last):
                return convolution(*_copied(c, last, (x, w)), *args[2:])
            c.ask.number[15] = last
            c.take(bias, "bias", True)
            spatial = c.array[0].rank - 2
            _number(c, stride, padding, dilation, transposed, output_padding, groups, spatial)
            layer = c.known()
            if layer is None:
                layer = decide(c, CONVOLUTION, Convolution(0, spatial, transposed), partial(_theirs_forward, args))
            y = run_chosen(c, layer)
            if y is not None:
                return y
    except FreedError:
        raise
    except MIOpenError:  # no plain memory of a type that we compute with
        pass
    return _theirs_forward(args)


@cython.final
cdef class Gradients:
    """Who runs the gradients that a call of convolution_backward asks for; None for one that it does not."""

    cdef Layer data, weights


cdef Layer _gradient(Call c, int direction, tuple args):
    """Who runs one gradient of (dy, x, w): the same for whatever else a call asks for."""
    cdef int i, other = 1 if direction == 1 else 2, spatial = c.ask.number[13]
    cdef Layer layer
    c.ask.what = DATA + direction - 1
    for i in range(spatial + 2):
        c.ask.number[15 + i] = c.array[other].len[i]
    layer = c.known()
    if layer is None:
        layer = decide(c, CONVOLUTION_GRADIENTS, Convolution(direction, spatial, c.ask.number[14], 3 - other),
                       partial(_theirs_backward, args, [direction == 1, direction == 2, False]))
    return layer


cdef Gradients _gradients(Call c, tuple args, int mask):
    """Who runs the gradients that a mask's bits ask for."""
    cdef Gradients found
    cdef int i
    c.ask.what, c.ask.number[15] = BACKWARD, mask
    found = c.known()
    if found is not None:
        return found
    for i in range(1, 3):
        c.require_rank(i, c.array[0].rank)
        c.require_like_first(i)
    for i in range(c.array[0].rank - 2):
        if c.ask.number[9 + i] and not c.ask.number[14]:
            raise BadParmError("of a convolution that is not transposed", "output_padding", c.ask.number[9 + i], 0)
    found = Gradients()
    if mask & 1:
        found.data = _gradient(c, 1, args)
    if mask & 2:
        found.weights = _gradient(c, 2, args)
    for i in range(15, 20):
        c.ask.number[i] = 0
    c.ask.what, c.ask.number[15] = BACKWARD, mask
    if not (mask & 1 and found.data is None or mask & 2 and found.weights is None):  # else it waits
        c.keep(found)
    return found


cdef Call _three(dy, x, w):
    cdef Call c = begin(BACKWARD, dy)
    c.take(dy, "dy")
    c.take(x, "x")
    c.take(w, "w")
    return c


def convolution_backward(keys, dy, x, w, bias_sizes, list stride, list padding, list dilation, bint transposed,
                         list output_padding, int64_t groups, list mask):
    """aten::convolution_backward: the gradients of x, w and the bias that `mask` asks for."""
    cdef Call c
    cdef Gradients found
    cdef bint last
    dx = dw = db = None
    args = keys, dy, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups
    try:
        if chosen(w) and (mask[0] or mask[1]) and not (lazy(dy) or lazy(x) or lazy(w)):
            c = _three(dy, x, w)
            if not (c.array[0].contiguous and c.array[1].contiguous and c.array[2].contiguous):
                last = _like_channels_last(&c.array[1]) or _like_channels_last(&c.array[2])
                if not _are_dense(c, last):
                    dy, x, w = _copied(c, last, (dy, x, w))
                    args = keys, dy, x, w, *args[4:]
                    c = _three(dy, x, w)
            _number(c, stride, padding, dilation, transposed, output_padding, groups, c.array[0].rank - 2)
            found = _gradients(c, args, mask[0] | mask[1] << 1)
            if mask[0]:
                dx = run_chosen(c, found.data)
            if mask[1]:
                dw = run_chosen(c, found.weights)
    except FreedError:
        raise
    except MIOpenError:
        pass
    if dx is None and dw is None:
        return _theirs_backward(args, mask)
    if mask[2]:
        db = _bias_gradient(dy)
    if (mask[0] and dx is None) or (mask[1] and dw is None):
        rest = _theirs_backward(args, [mask[0] and dx is None, mask[1] and dw is None, False])
        dx, dw = rest[0] if dx is None else dx, rest[1] if dw is None else dw
    return dx, dw, db


cdef object _bias_gradient(dy):
    if dy.is_cpu:
        try:
            y_desc = TensorDescriptor.of(dy)
            db = dy.new_empty(dy.size(1))
            miopenConvolutionBackwardBias(begin(FORWARD, dy).handle, 1, y_desc, dy, 0,
                                          TensorDescriptor(y_desc.dtype, (1, dy.size(1), *(1,) * (dy.dim() - 2))), db)
            return db
        except MIOpenError:
            pass
    return dy.sum([0, *range(2, dy.dim())])


# What is always ours


def forward(x, w, bias, list stride, list padding, list dilation, bint transposed, list output_padding,
            int64_t groups):
    """miopyx::convolution."""
    cdef Call c = begin(ALWAYS, x)
    c.take(own(x), "x")
    c.take(own(w), "w")
    c.take(bias, "bias", True)
    _number(c, stride, padding, dilation, transposed, output_padding, groups, len(stride))
    return always(c, Convolution(0, len(stride), transposed))


cdef class Fused(Convolution):
    """A convolution with bias, another tensor and an activation."""

    cdef ActivationDescriptor follows
    cdef int z
    cdef tuple before

    def __init__(self, int spatial, bint transposed, ActivationDescriptor follows, bint biased, bint added):
        super().__init__(0, spatial, transposed)
        self.follows, self.z = follows, 3 if added else -1
        self.before = (0, 1, *((3,) if added else ()), *((2,) if biased else ()))

    cdef Prepared _prepared(self, Call c):
        return prepare_convolution(c, 0, self.spatial, self.transposed, None, 1, self.follows, self.z)

    cdef object compute(self, Call c):
        return run(c, self.prepared, None, self.before)


def forward_activated(x, w, bias, z, str mode, double alpha, double beta, double gamma, list stride, list padding,
                      list dilation, bint transposed, list output_padding, int64_t groups):
    """miopyx::convolution_activation."""
    cdef Call c = begin(FUSED, x)
    cdef ActivationDescriptor follows = ask_activation(c, 16, 0, ActivationDescriptor(mode, alpha, beta, gamma))
    c.take(own(x), "x")
    c.take(own(w), "w")
    c.take(bias, "bias", True)
    if z is not None:
        c.take(dense(z), "z")
        c.ask.number[18] = True
    _number(c, stride, padding, dilation, transposed, output_padding, groups, len(stride))
    return always(c, Fused(len(stride), transposed, follows, bias is not None, z is not None))


cdef object _backward(int direction, dy, other, list size, list stride, list padding, list dilation, bint transposed,
                      list output_padding, int64_t groups):
    cdef Call c = begin(ALWAYS + direction, dy)
    cdef int i
    c.take(own(dy), "dy")
    c.take(own(other), "w" if direction == 1 else "x")
    _number(c, stride, padding, dilation, transposed, output_padding, groups, len(stride))
    if len(size) != len(stride) + 2:
        raise BadParmError("another number of lengths than axes", "size", size, f"{len(stride) + 2} lengths")
    for i in range(len(size)):
        c.ask.number[15 + i] = size[i]
    return always(c, Convolution(direction, len(stride), transposed))


def backward_data(dy, w, list size, list stride, list padding, list dilation, bint transposed, list output_padding,
                  int64_t groups):
    """miopyx::convolution_backward_data."""
    return _backward(1, dy, w, size, stride, padding, dilation, transposed, output_padding, groups)


def backward_weights(dy, x, list size, list stride, list padding, list dilation, bint transposed,
                     list output_padding, int64_t groups):
    """miopyx::convolution_backward_weights."""
    return _backward(2, dy, x, size, stride, padding, dilation, transposed, output_padding, groups)
