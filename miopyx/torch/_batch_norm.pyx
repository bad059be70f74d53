"""aten's batch norm and its gradients: ours or PyTorch's, whichever is known to be faster for the problem."""

import weakref
from functools import partial

from miopyx.functional._functional cimport Call, described, filled, image_of, order_of
from miopyx.runtime._arrays cimport DL_CUDA

import torch
from miopyx import enums
from miopyx.errors import BadParmError, MIOpenError
from miopyx.problem._descriptors import TensorDescriptor
from miopyx.runtime._arrays import FreedError

from ._layers cimport (
    BATCH_NORM, BATCH_NORM_GRADIENTS, CONSTANT, NOTHING, RESULT, Layer, Planned, always, begin, chosen, decide,
    is_dense, lazy, own, run_chosen, settings, theirs,
)

cdef enum:
    INFERENCE = 110        # kinds of calls, beside those of `functional` and of convolutions
    TRAINING
    GRADIENTS
    ALWAYS                 # the three of what is ours whatever it takes

cdef enum:                 # miopenFloat, miopenDouble
    FLOAT = 1
    DOUBLE = 6


cdef class BatchNorm(Planned):
    """Batch norm in training or inference, or the gradients of training."""

    cdef int kind
    cdef bint saves          # inference on CUDA, where aten::native_batch_norm returns statistics too

    def __init__(self, int kind):
        self.kind = kind

    cdef str text(self, Call c):
        strides = "x".join([str(s) for s in c.strides(0)]) if not c.array[0].contiguous else "packed"
        given = "".join([str(int(c.ask.type[i] >= 0)) for i in range(1, 5)])
        return (f"bnorm-{'FTB'[self.kind - INFERENCE]}-{enums.TYPE_NAMES[c.array[0].type]}-"
                f"{'x'.join([str(n) for n in c.lens(0)])}:{strides}-{given}-r{c.ask.number[0]}")

    cdef int describe(self, Call c) except -1:
        cdef int i, first = 2 if self.kind == GRADIENTS else 1   # of the parameters among the call's arrays
        cdef int kind = DOUBLE if c.array[0].type == DOUBLE else FLOAT
        if self.account != NULL and not (is_dense(&c.array[0], False)
                                         or c.array[0].rank >= 4 and is_dense(&c.array[0], True)):
            raise BadParmError("an order of the axes that PyTorch's results do not keep", "x", c.strides(0),
                               "C order, or channels last of images and volumes")
        lens, order = c.lens(0), order_of(c, 0)
        if not 2 <= len(lens) <= 5 or 0 in lens:
            raise BadParmError("lengths that are not computed with", "x", lens, "2 to 5 axes with elements")
        if (self.kind == TRAINING and c.array[0].width < 4 and c.array[0].device != DL_CUDA
                and max([c.ask.type[i] for i in range(1, 5)]) < 0):
            raise BadParmError("statistics of x's type, without parameters that have another", "x",
                               enums.TYPE_NAMES[c.array[0].type], "float32")
        for i in range(first, 5):
            if c.ask.type[i] >= 0 and (c.array[i].type != kind or c.lens(i) != (lens[1],)
                                       or not c.array[i].contiguous):
                raise BadParmError("not one element a channel, side by side, of that type", c.given(i), c.lens(i),
                                   f"{enums.TYPE_NAMES[kind]} ({lens[1]},)")
        x, y = image_of(c.descriptor(0)), image_of(described(c.array[0].type, lens, order))
        parameters = TensorDescriptor(kind, (1, lens[1], *(1,) * (len(x.lens) - 2)))
        image, channels = (lens, c.array[0].type, order), (lens[1:2], kind, None)
        # Ones and zeros stand for a weight and a bias that are left out.
        self.constants = tuple([c.handle.upload(filled(lens[1], 1 - i, kind)) for i in range(2)])
        if self.kind == GRADIENTS:
            c.require_like_first(1)
            if c.lens(1) != lens:
                raise BadParmError("not x's lengths", "dy", c.lens(1), lens)
            plan = c.handle.batch_norm_backward("spatial", x, image_of(c.descriptor(1)), y, parameters, True)
            self.use(plan, (0, 1, RESULT, 2 if c.ask.type[2] >= 0 else CONSTANT, RESULT + 1, RESULT + 2, 3, 4),
                     (image, channels, channels))
            self.scalars[0] = c.ask.real[0]
            return 0
        given = [1 if c.ask.type[1] >= 0 else CONSTANT, 2 if c.ask.type[2] >= 0 else CONSTANT + 1, 3, 4]
        if self.kind == INFERENCE:
            self.saves = c.ask.number[0]
            self.use(c.handle.batch_norm_inference("spatial", x, y, parameters), (0, RESULT, *given), (image,))
            self.scalars[0] = c.ask.real[0]
        else:
            moves = c.ask.type[3] >= 0
            given = given if moves else [*given[:2], NOTHING, NOTHING]
            plan = c.handle.batch_norm_training("spatial", x, y, parameters, moves, True)
            self.use(plan, (0, RESULT, *given, RESULT + 1, RESULT + 2), (image, channels, channels))
            self.moves, self.scalars[1] = True, c.ask.real[0]
        return 0

    cdef object compute(self, Call c):
        found = Planned.compute(self, c)
        if not self.saves:
            return found
        return found, (<object> c.owner[3]).clone(), ((<object> c.owner[4]) + c.ask.real[0]).rsqrt()


cdef Call _call(int what, int kind, object x, object second, object third, object fourth, object fifth, double epsilon):
    cdef Call c = begin(what, x)
    c.take(x, "x")
    c.take(second, "dy" if kind == GRADIENTS else "weight", True)
    c.take(third, "weight" if kind == GRADIENTS else "bias", True)
    c.take(fourth, "saved mean" if kind == GRADIENTS else "running mean", True)
    c.take(fifth, "saved inverse" if kind == GRADIENTS else "running variance", True)
    c.ask.real[0] = epsilon
    c.ask.number[20] = settings(c)
    return c


cdef object _grad_enabled = torch.is_grad_enabled
cdef object _legit = torch._native_batch_norm_legit


def _theirs(name, keys, x, w, b, mean, var, training, momentum, epsilon):
    if name == "native_batch_norm" and mean is not None and var is not None:
        return _legit(x, w, b, mean, var, training, momentum, epsilon)  # the same kernel, by a shorter way
    return theirs(name, (keys, x, w, b, mean, var, training, momentum, epsilon))


cdef object _forward(str name, object keys, object x, object w, object b, object mean, object var, bint training,
                     double momentum, double epsilon):
    """A forward pass; None where that is PyTorch's matter."""
    cdef int kind = TRAINING if training else INFERENCE
    cdef bint beside = name == "native_batch_norm" and x.is_cuda  # cuDNN's
    cdef Call c, trial
    cdef Layer layer
    try:
        if not chosen(w) or lazy(x) or lazy(w) or lazy(b) or lazy(mean) or lazy(var):
            return None
        c = _call(kind, kind, x, w, b, mean, var, epsilon)
        c.factor = momentum
        c.ask.number[0] = beside  # another kernel of PyTorch's
        layer = c.known()
        if layer is None:
            if training:  # measuring must not move them
                mean, var = (t if t is None else t.clone() for t in (mean, var))
            trial = _call(kind, kind, x, w, b, mean, var, epsilon)
            trial.factor = momentum
            trial.ask.number[0] = beside
            layer = decide(trial, BATCH_NORM, BatchNorm(kind),
                           partial(_theirs, name, keys, x, w, b, mean, var, training, momentum, epsilon))
            c.began = 0
        return run_chosen(c, layer)
    except FreedError:
        raise
    except MIOpenError:
        return None


def native_batch_norm(keys, x, w, b, mean, var, training, momentum, epsilon):
    """aten::native_batch_norm."""
    found = _forward("native_batch_norm", keys, x, w, b, mean, var, training, momentum, epsilon)
    if found is None:
        return _theirs("native_batch_norm", keys, x, w, b, mean, var, training, momentum, epsilon)
    return found if training or x.is_cuda else (found, *_nothing(mean)[:2])


def cudnn_batch_norm(keys, x, w, b, mean, var, training, momentum, epsilon):
    """aten::cudnn_batch_norm; where it is ours, cuDNN's gradients lack what they want kept in reserve."""
    found = _forward("cudnn_batch_norm", keys, x, w, b, mean, var, training, momentum, epsilon)
    if found is None:
        return theirs("cudnn_batch_norm", (keys, x, w, b, mean, var, training, momentum, epsilon))
    if not training:
        return (found, *_nothing(w))
    reserve = x.new_empty(0, dtype=torch.uint8)
    if _hooks(False) is None:
        _empty_reserves.add(weakref.ref(reserve, _empty_reserves.discard))
    else:  # which keep something else in the reserve's place
        _empty_reserves.add(None)
    return (*found, reserve)


cdef set _empty_reserves = set()
cdef object _hooks = torch._C._autograd._top_saved_tensors_default_hooks


def wants_our_gradients():
    """Whether a forward pass of ours may still be followed by gradients, which cuDNN's own would refuse."""
    return bool(_empty_reserves)


cdef dict _kept_nothing = {}


cdef tuple _nothing(object like):
    """What inference saves: two tensors without elements, always the same ones where nobody can keep a gradient.

    The third one is what cuDNN keeps in reserve.
    """
    if _grad_enabled():
        return like.new_empty(0), like.new_empty(0), like.new_empty(0, dtype=torch.uint8)
    key = like.device, like.dtype
    found = _kept_nothing.get(key)
    if found is None:
        with torch.inference_mode(False):
            found = _kept_nothing[key] = like.new_empty(0), like.new_empty(0), like.new_empty(0, dtype=torch.uint8)
    return found


cdef object _backward(object theirs_, object x, object dy, object w, object mean, object inverse, double epsilon,
                      int kernel):
    """The three gradients in training; None where they are PyTorch's matter: `kernel` says which of its."""
    cdef Call c
    cdef Layer layer
    try:
        if not chosen(w) or lazy(x) or lazy(dy) or lazy(w) or lazy(mean) or lazy(inverse):
            return None
        dy = dy.contiguous() if 0 in dy.stride() else dy
        c = _call(GRADIENTS, GRADIENTS, x, dy, w, mean, inverse, epsilon)
        c.ask.number[0] = kernel
        layer = c.known()
        if layer is None:
            layer = decide(c, BATCH_NORM_GRADIENTS, BatchNorm(GRADIENTS), theirs_)
        return run_chosen(c, layer)
    except FreedError:
        raise
    except MIOpenError:
        return None


def native_batch_norm_backward(keys, dy, x, w, mean, var, saved_mean, saved_inverse, training, epsilon, mask):
    """aten::native_batch_norm_backward."""
    args = keys, dy, x, w, mean, var, saved_mean, saved_inverse, training, epsilon, mask
    found = None
    # Where the module's own statistics are of x's type the forward pass was PyTorch's.
    if (training and saved_mean is not None and saved_inverse is not None
            and (mean is None or mean.dtype == saved_mean.dtype)):
        call = partial(theirs, "native_batch_norm_backward", args)
        found = _backward(call, x, dy, w, saved_mean, saved_inverse, epsilon, 0)
    if found is None:
        return theirs("native_batch_norm_backward", args)
    return tuple([gradient if wanted else None for gradient, wanted in zip(found, mask)])


cdef object _reserve_size = getattr(torch._C, "_get_cudnn_batch_norm_reserve_space_size", None)


def _their_cudnn_backward(keys, x, dy, w, mean, var, saved_mean, saved_inverse, epsilon, reserve):
    """cuDNN's own; where it wants something in reserve and a forward pass of ours left nothing, the one without."""
    if reserve.numel() or not _reserve_size(x, True):
        return theirs("cudnn_batch_norm_backward", (keys, x, dy, w, mean, var, saved_mean, saved_inverse, epsilon,
                                                    reserve))
    return theirs("native_batch_norm_backward", (keys, dy, x, w, mean, var, saved_mean, saved_inverse, True, epsilon,
                                                 [True, True, True]))


def cudnn_batch_norm_backward(keys, x, dy, w, mean, var, saved_mean, saved_inverse, epsilon, reserve):
    """aten::cudnn_batch_norm_backward."""
    call = partial(_their_cudnn_backward, keys, x, dy, w, mean, var, saved_mean, saved_inverse, epsilon, reserve)
    found = _backward(call, x, dy, w, saved_mean, saved_inverse, epsilon, 1 if reserve.numel() else 2)
    return call() if found is None else found


# What is always ours


def training(x, w, b, mean, var, double momentum, double epsilon):
    """miopyx::batch_norm_training."""
    cdef Call c = _call(ALWAYS + 1, TRAINING, own(x), w, b, mean, var, epsilon), trial = None
    if (mean is None) != (var is None):
        raise BadParmError("one of two", "running_mean, running_var", None, "both or neither")
    c.factor = momentum
    if mean is not None and c.known() is None:
        trial = _call(ALWAYS + 1, TRAINING, c.first, w, b, mean.clone(), var.clone(), epsilon)
    return always(c, BatchNorm(TRAINING), trial)


def inference(x, w, b, mean, var, double epsilon):
    """miopyx::batch_norm_inference."""
    return always(_call(ALWAYS, INFERENCE, own(x), w, b, mean, var, epsilon), BatchNorm(INFERENCE))


def backward(dy, x, w, mean, inverse, double epsilon):
    """miopyx::batch_norm_backward."""
    return always(_call(ALWAYS + 2, GRADIENTS, own(x), own(dy), w, mean, inverse, epsilon), BatchNorm(GRADIENTS))
