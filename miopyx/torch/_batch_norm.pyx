"""aten's batch norm and its gradients: ours or PyTorch's, whichever is known to be faster for the problem."""

from functools import partial

from cpython.object cimport PyObject

from miopyx.engine._plan cimport Plan
from miopyx.functional._functional cimport Call, described, filled, image_of, new_array, order_of
from miopyx.runtime._arrays cimport DL_CUDA
from miopyx.values._types cimport MX_SCALARS, MX_SLOTS

import torch
from miopyx import enums
from miopyx.errors import BadParmError, MIOpenError
from miopyx.problem._descriptors import TensorDescriptor

from ._layers cimport Layer, begin, chosen, decide, run_ours, settings, theirs

cdef enum:
    INFERENCE = 110        # kinds of calls, beside those of `functional` and of convolutions
    TRAINING
    GRADIENTS

cdef enum:                 # miopenFloat, miopenDouble
    FLOAT = 1
    DOUBLE = 6


OURS = torch.int8   # the type of a reserve of ours, which is empty; cuDNN's is uint8


cdef class BatchNorm(Layer):
    """Batch norm in training or inference, or the gradients of training."""

    cdef Plan plan
    cdef tuple lens, order, fill   # fill: what stands for a weight and a bias that are left out
    cdef int parameters            # their type, and that of what is saved

    cdef str text(self, Call c):
        strides = "x".join([str(s) for s in c.strides(0)]) if not c.array[0].contiguous else "packed"
        given = "".join([str(int(c.ask.type[i] >= 0)) for i in range(1, 5)])
        return (f"bnorm-{'FTB'[c.ask.what - INFERENCE]}-{enums.TYPE_NAMES[c.array[0].type]}-"
                f"{'x'.join([str(n) for n in c.lens(0)])}:{strides}-{given}-r{c.ask.number[0]}")

    cdef int prepare(self, Call c) except -1:
        cdef int i, first = 2 if c.ask.what == GRADIENTS else 1   # of the parameters among the call's arrays
        self.lens, self.order = c.lens(0), order_of(c, 0)
        self.parameters = DOUBLE if c.array[0].type == DOUBLE else FLOAT
        if not 2 <= len(self.lens) <= 5 or 0 in self.lens:
            raise BadParmError("lengths that are not computed with", "x", self.lens, "2 to 5 axes with elements")
        if (c.ask.what == TRAINING and c.array[0].width < 4 and c.array[0].device != DL_CUDA
                and max([c.ask.type[i] for i in range(1, 5)]) < 0):
            raise BadParmError("statistics of x's type, without parameters that have another", "x",
                               enums.TYPE_NAMES[c.array[0].type], "float32")
        for i in range(first, 5):
            if c.ask.type[i] >= 0 and (c.array[i].type != self.parameters or c.lens(i) != (self.lens[1],)
                                       or not c.array[i].contiguous):
                raise BadParmError("not one element a channel, side by side, of that type", c.given[i], c.lens(i),
                                   f"{enums.TYPE_NAMES[self.parameters]} ({self.lens[1]},)")
        x, y = image_of(c.descriptor(0)), image_of(described(c.array[0].type, self.lens, self.order))
        parameters = TensorDescriptor(self.parameters, (1, self.lens[1], *(1,) * (len(x.lens) - 2)))
        if c.ask.what == INFERENCE:
            self.plan = c.handle.batch_norm_inference("spatial", x, y, parameters)
        elif c.ask.what == TRAINING:
            self.plan = c.handle.batch_norm_training("spatial", x, y, parameters, c.ask.type[3] >= 0, True)
        else:
            c.require_like_first(1)
            if c.lens(1) != self.lens:
                raise BadParmError("not x's lengths", "dy", c.lens(1), self.lens)
            self.plan = c.handle.batch_norm_backward("spatial", x, image_of(c.descriptor(1)), y, parameters, True)
        self.fill = tuple([c.handle.upload(filled(self.lens[1], 1 - i, self.parameters)) for i in range(2)])
        self.quiet = self.plan.handle.device.is_cpu
        return 0

    cdef object _new(self, Call c, bint whole):
        return (new_array(c.first, &c.array[0], self.lens, c.array[0].type, self.order) if whole else
                new_array(c.first, &c.array[0], (self.lens[1],), self.parameters, None))

    cdef object compute(self, Call c):
        cdef PyObject* data[MX_SLOTS + 1]
        cdef double scalars[MX_SCALARS]
        cdef int i
        memory, one = c.memory, self.fill[0]
        y = self._new(c, True)
        slots = [memory[0], memory[1], c.memory_of(y), memory[2] or one]
        if c.ask.what == GRADIENTS:
            results = y, self._new(c, False), self._new(c, False)
            slots += [c.memory_of(results[1]), c.memory_of(results[2]), memory[3], memory[4]]
            scalars[0] = c.ask.real[0]
        else:
            results = (y,)
            slots = [memory[0], c.memory_of(y), memory[1] or one, memory[2] or self.fill[1], memory[3], memory[4]]
            scalars[0] = c.ask.real[0]
            if c.ask.what == TRAINING:
                results = y, self._new(c, False), self._new(c, False)
                slots += [c.memory_of(results[1]), c.memory_of(results[2])]
                scalars[0], scalars[1] = c.factor, c.ask.real[0]
        for i in range(len(slots)):
            data[i] = <PyObject*> <object> slots[i]
        c.call(self.plan, data, scalars)
        return results


cdef Call _call(int what, object x, tuple others, double epsilon, object first):
    cdef Call c = begin(what, x)
    c.take(x, "x")
    for i, other in enumerate(others):
        c.take(other, "array " + str(i + 1), True)
    c.ask.real[0] = epsilon
    c.ask.number[20] = settings(c)
    return c


cdef Call _forward_call(object x, tuple parameters, bint training, double momentum, double epsilon):
    cdef Call c = _call(TRAINING if training else INFERENCE, x, parameters, epsilon, x)
    c.factor = momentum
    return c


cdef object _forward(str name, tuple args):
    """What aten's `name` returns; None where that is PyTorch's matter."""
    cdef Call c, trial
    cdef Layer layer
    keys, x, w, b, mean, var, training, momentum, epsilon = args
    try:
        if not chosen(w):
            return None
        c = _forward_call(x, (w, b, mean, var), training, momentum, epsilon)
        layer = c.known()
        if layer is None:
            if training and mean is not None:  # measuring must not move them
                mean, var = mean.clone(), var.clone()
            trial = _forward_call(x, (w, b, mean, var), training, momentum, epsilon)
            layer = decide(trial, BatchNorm(), partial(theirs, name, (keys, x, w, b, mean, var, training, momentum,
                                                                      epsilon)))
        if layer is not None:
            layer.runs += 1
            if layer.ours:
                return run_ours(c, layer)
    except MIOpenError:
        pass
    return None


def native_batch_norm(keys, x, w, b, mean, var, training, momentum, epsilon):
    """aten::native_batch_norm."""
    args = keys, x, w, b, mean, var, training, momentum, epsilon
    found = _forward("native_batch_norm", args)
    if found is None:
        return theirs("native_batch_norm", args)
    return found if training else (*found, mean.new_empty(0), mean.new_empty(0))


def cudnn_batch_norm(keys, x, w, b, mean, var, training, momentum, epsilon):
    """aten::cudnn_batch_norm; where it is ours, cuDNN's gradients lack what they want kept in reserve."""
    args = keys, x, w, b, mean, var, training, momentum, epsilon
    found = _forward("cudnn_batch_norm", args)
    if found is None:
        return theirs("cudnn_batch_norm", args)
    reserve = x.new_empty(0, dtype=OURS)
    return (*found, reserve) if training else (*found, w.new_empty(0), w.new_empty(0), reserve)


cdef object _backward(str name, tuple args, object x, object dy, object w, object mean, object inverse,
                      double epsilon, bint reserved):
    """The three gradients in training; None where they are PyTorch's matter."""
    cdef Call c
    cdef Layer layer
    try:
        if not chosen(w):
            return None
        dy = dy.contiguous() if 0 in dy.stride() else dy
        c = _call(GRADIENTS, x, (dy, w, mean, inverse), epsilon, x)
        c.ask.number[0] = reserved  # for other kernels of PyTorch's
        layer = c.known()
        if layer is None:
            layer = decide(c, BatchNorm(), partial(theirs, name, args))
        if layer is not None:
            layer.runs += 1
            if layer.ours:
                return run_ours(c, layer)
    except MIOpenError:
        pass
    return None


def native_batch_norm_backward(keys, dy, x, w, mean, var, saved_mean, saved_inverse, training, epsilon, mask):
    """aten::native_batch_norm_backward."""
    args = keys, dy, x, w, mean, var, saved_mean, saved_inverse, training, epsilon, mask
    found = None
    if training and saved_mean is not None and saved_inverse is not None:
        found = _backward("native_batch_norm_backward", args, x, dy, w, saved_mean, saved_inverse, epsilon, False)
    if found is None:
        return theirs("native_batch_norm_backward", args)
    return tuple([gradient if wanted else None for gradient, wanted in zip(found, mask)])


def cudnn_batch_norm_backward(keys, x, dy, w, mean, var, saved_mean, saved_inverse, epsilon, reserve):
    """aten::cudnn_batch_norm_backward; cuDNN's own can only follow its own forward pass."""
    name, args = "cudnn_batch_norm_backward", (keys, x, dy, w, mean, var, saved_mean, saved_inverse, epsilon, reserve)
    if reserve.dtype is OURS:
        name = "native_batch_norm_backward"
        args = keys, dy, x, w, mean, var, saved_mean, saved_inverse, True, epsilon, [True, True, True]
    found = _backward(name, args, x, dy, w, saved_mean, saved_inverse, epsilon, reserve.dtype is not OURS)
    return theirs(name, args) if found is None else found
