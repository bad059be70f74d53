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
    cdef tuple nothing             # what inference saves
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
                raise BadParmError("not one element a channel, side by side, of that type", c.given(i), c.lens(i),
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
        cdef int what = c.ask.what
        y = self._new(c, True)
        in_y = c.memory_of(y)
        scalars[0] = c.ask.real[0]
        data[0] = c.memory(0)
        if what == INFERENCE:
            if self.nothing is None or _grad_enabled():
                dtype = torch.float64 if self.parameters == DOUBLE else torch.float32
                self.nothing = tuple([c.first.new_empty(0, dtype=dtype) for _ in range(2)])
            results = y, self.nothing[0], self.nothing[1]
            self._parameters(c, data + 2)
        elif what == TRAINING:
            mean, inverse = self._new(c, False), self._new(c, False)
            in_mean, in_inverse = c.memory_of(mean), c.memory_of(inverse)
            self._parameters(c, data + 2)
            data[6], data[7] = <PyObject*> in_mean, <PyObject*> in_inverse
            results = y, mean, inverse
            scalars[0], scalars[1] = c.factor, c.ask.real[0]
        else:
            dw, db = self._new(c, False), self._new(c, False)
            in_dw, in_db = c.memory_of(dw), c.memory_of(db)
            data[1], data[3] = c.memory(1), c.memory(2) if c.ask.type[2] >= 0 else <PyObject*> self.fill[0]
            data[4], data[5], data[6], data[7] = <PyObject*> in_dw, <PyObject*> in_db, c.memory(3), c.memory(4)
            results = y, dw, db
        data[2 if what == GRADIENTS else 1] = <PyObject*> in_y
        c.call(self.plan, data, scalars)
        return results

    cdef int _parameters(self, Call c, PyObject** data) except -1:
        """Weight, bias, mean and variance of a forward pass; ones and zeros where the first two are left out."""
        cdef int i
        for i in range(1, 5):
            data[i - 1] = c.memory(i) if i > 2 or c.ask.type[i] >= 0 else <PyObject*> self.fill[i - 1]
        return 0


cdef Call _call(int what, object x, object second, object third, object fourth, object fifth, double epsilon):
    cdef Call c = begin(what, x)
    c.take(x, "x")
    c.take(second, "dy" if what == GRADIENTS else "weight", True)
    c.take(third, "weight" if what == GRADIENTS else "bias", True)
    c.take(fourth, "saved mean" if what == GRADIENTS else "running mean", True)
    c.take(fifth, "saved inverse" if what == GRADIENTS else "running variance", True)
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
    cdef int what = TRAINING if training else INFERENCE
    cdef Call c, trial
    cdef Layer layer
    try:
        if not chosen(w):
            return None
        c = _call(what, x, w, b, mean, var, epsilon)
        c.factor = momentum
        layer = c.known()
        if layer is None:
            if training and mean is not None:  # measuring must not move them
                mean, var = mean.clone(), var.clone()
            trial = _call(what, x, w, b, mean, var, epsilon)
            trial.factor = momentum
            layer = decide(trial, BatchNorm(),
                           partial(_theirs, name, keys, x, w, b, mean, var, training, momentum, epsilon))
        if layer is not None:
            layer.runs += 1
            if layer.ours:
                return run_ours(c, layer)
    except MIOpenError:
        pass
    return None


def native_batch_norm(keys, x, w, b, mean, var, training, momentum, epsilon):
    """aten::native_batch_norm."""
    found = _forward("native_batch_norm", keys, x, w, b, mean, var, training, momentum, epsilon)
    if found is None:
        return _theirs("native_batch_norm", keys, x, w, b, mean, var, training, momentum, epsilon)
    return found


def cudnn_batch_norm(keys, x, w, b, mean, var, training, momentum, epsilon):
    """aten::cudnn_batch_norm; where it is ours, cuDNN's gradients lack what they want kept in reserve."""
    found = _forward("cudnn_batch_norm", keys, x, w, b, mean, var, training, momentum, epsilon)
    if found is None:
        return theirs("cudnn_batch_norm", (keys, x, w, b, mean, var, training, momentum, epsilon))
    return (*found, x.new_empty(0, dtype=OURS)) if training else (*found, found[2])


cdef object _backward(str name, tuple args, object x, object dy, object w, object mean, object inverse,
                      double epsilon, bint reserved):
    """The three gradients in training; None where they are PyTorch's matter."""
    cdef Call c
    cdef Layer layer
    try:
        if not chosen(w):
            return None
        dy = dy.contiguous() if 0 in dy.stride() else dy
        c = _call(GRADIENTS, x, dy, w, mean, inverse, epsilon)
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
