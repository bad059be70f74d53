"""Batch normalisation: its problem, and the descriptor of its parameters."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx.values._args cimport raise_unknown, to_member
from ._activation cimport PASTHRU, ActivationDescriptor
from ._descriptors cimport MAX_DIMS, TensorDescriptor
from ._problem cimport Problem, fill_tensor, require_no_overlap, require_plain, tensor_text
from miopyx.values._types cimport (
    MX_AXES, MX_BFLOAT16, MX_BN_BACKWARD, MX_BN_INFERENCE, MX_BN_TRAINING, MX_DOUBLE, MX_FLOAT, MX_HALF,
    mx_batchnorm_problem, mx_tensor,
)

from miopyx import enums
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError

cdef tuple MODES = ("per activation", "spatial")
cdef tuple PASSES = ("training", "inference", "backward")


cdef int to_mode(object mode) except -1:
    """A miopenBatchNormMode_t."""
    cdef int number = to_member(mode, "miopenBatchNormMode_t", "bn_mode")
    if number != BN_PER_ACTIVATION and number != BN_SPATIAL:
        raise_unknown(mode, "miopenBatchNormMode_t", "bn_mode")
    return number


cdef int _require_rank(TensorDescriptor x, str name) except -1:
    x.require_set(name)
    if x.ndim < 3:
        raise BadParmError("too few dimensions", name, x.ndim, f"3 ... {MX_AXES}")
    if x.ndim > MX_AXES:
        raise UnknownError("too many dimensions", name, x.ndim, f"3 ... {MX_AXES}")
    if x.len[1] == 0:
        raise BadParmError("no channels", f"{name}.lens[1]", 0, ">= 1")
    return 0


cdef int derive(TensorDescriptor derived, TensorDescriptor x, int mode) except -1:
    """Body of miopenDeriveBNTensorDescriptor."""
    cdef int64_t lens[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t stride = 1
    cdef int i
    _require_rank(x, "xDesc")
    for i in range(x.ndim - 1, -1, -1):
        lens[i] = x.len[i] if i == 1 or (i > 1 and mode == BN_PER_ACTIVATION) else 1
        strides[i] = stride
        stride *= max(lens[i], 1)  # x's own size was checked
    derived.set(MX_DOUBLE if x.type == MX_DOUBLE else MX_FLOAT, x.ndim, lens, strides, 1)
    return 0


cdef int _require_like(TensorDescriptor desc, str name, TensorDescriptor x) except -1:
    """A tensor of x's type and lengths."""
    cdef int i
    desc.require_set(name)
    require_plain(desc, name)
    if desc.ndim != x.ndim:
        raise BadParmError("ranks differ", name, desc.ndim, x.ndim)
    if desc.type != x.type:
        raise BadParmError("types differ", name, desc.dtype, x.dtype)
    for i in range(x.ndim):
        if desc.len[i] != x.len[i]:
            raise BadParmError("lengths differ", name, desc.lens, x.lens)
    return 0


cdef int _require_parameters(TensorDescriptor desc, str name, TensorDescriptor x, int mode) except -1:
    """A tensor of what miopenDeriveBNTensorDescriptor says, in any strides and in the types that x may have with it.

    Of five dimensions d and h may also be one, as MIOpen wants it.
    """
    cdef int64_t lens[MAX_DIMS]
    cdef int i, merged
    desc.require_set(name)
    require_plain(desc, name)
    merged = x.ndim == 5 and desc.ndim == 4
    if desc.ndim != x.ndim and not merged:
        raise BadParmError("ranks differ", name, desc.ndim, x.ndim)
    lens[0], lens[1] = 1, x.len[1]
    for i in range(2, desc.ndim):
        lens[i] = x.len[i + merged] if mode == BN_PER_ACTIVATION else 1
    if merged and mode == BN_PER_ACTIVATION:
        lens[2] = x.len[2] * x.len[3]
    for i in range(desc.ndim):
        if desc.len[i] != lens[i]:
            raise BadParmError("lengths are not those of the parameters", name, desc.lens,
                               tuple([lens[i] for i in range(desc.ndim)]))
    if x.type == MX_HALF or x.type == MX_BFLOAT16:
        if desc.type != MX_FLOAT and desc.type != MX_HALF and desc.type != MX_BFLOAT16:
            raise BadParmError("type of parameters", name, desc.dtype, "float32, float16 or bfloat16")
    elif desc.type != MX_FLOAT and desc.type != x.type:
        raise BadParmError("type of parameters", name, desc.dtype,
                           "float32" if x.type == MX_FLOAT else "float64 or float32")
    return 0


cdef class BatchNormProblem(Problem):
    """One pass of a batch normalisation.

    Parameters
    ----------
    what : int
        MX_BN_TRAINING, MX_BN_INFERENCE or MX_BN_BACKWARD.
    flags : int
        BN_... bits.
    descriptors : tuple of TensorDescriptor
        Of x, y, scale, bias, mean, variance; backward: x, dy, dx, scale, bias, mean, variance.
    names : tuple of str
        What the caller calls them.
    activation : ActivationDescriptor, optional
        What follows; backward: what dy is the gradient of.
    """

    def __init__(self, int what, int flags, tuple descriptors not None, tuple names not None,
                 ActivationDescriptor activation=None):
        cdef mx_batchnorm_problem* c = &self.c
        cdef TensorDescriptor x = descriptors[0]
        cdef int i, first = 3 if what == MX_BN_BACKWARD else 2
        cdef mx_tensor* of[4]
        of[0], of[1], of[2], of[3] = &c.scale, &c.bias, &c.mean, &c.variance
        memset(c, 0, sizeof(mx_batchnorm_problem))
        c.what, c.mode, c.running, c.save = what, flags & BN_MODE, flags & BN_RUNNING != 0, flags & BN_SAVE != 0
        c.previous, c.inverse = flags & BN_PREVIOUS != 0, flags & BN_INVERSE != 0
        c.activation = activation.number if activation is not None else PASTHRU
        _require_rank(x, names[0])
        require_plain(x, names[0])
        for i in range(1, first):
            _require_like(descriptors[i], names[i], x)
        for i in range(4):
            _require_parameters(descriptors[first + i], names[first + i], x, <int> c.mode)
        if x.type not in (MX_HALF, MX_FLOAT, MX_BFLOAT16, MX_DOUBLE):
            raise MIOpenNotImplementedError("data type of a batch normalisation", names[0], x.dtype,
                                            "float16, bfloat16, float32 or float64")
        if c.previous and 0 in x.lens:
            raise BadParmError("no elements: nothing to move statistics by", names[0], x.lens, "elements")
        require_no_overlap(descriptors[first - 1], names[first - 1])
        for i in range(4):  # what is written
            if (i < 2 and what == MX_BN_BACKWARD) or (i >= 2 and what == MX_BN_TRAINING and (c.running or c.save)):
                require_no_overlap(descriptors[first + i], names[first + i])
        fill_tensor(&c.x, x)
        fill_tensor(&c.y, descriptors[1])
        if what == MX_BN_BACKWARD:
            fill_tensor(&c.dx, descriptors[2])
        for i in range(4):
            fill_tensor(of[i], descriptors[first + i])
        self.hold(0, &c.x, x.ndim)
        self.hold(1, &c.y, x.ndim)
        if what == MX_BN_BACKWARD:
            self._hold_backward(descriptors)
        else:
            self._hold_forward(descriptors)

    def __cinit__(self, *args):
        self.data, self.size = &self.c, sizeof(mx_batchnorm_problem)

    cdef int _hold_backward(self, tuple descriptors) noexcept:
        cdef mx_batchnorm_problem* c = &self.c
        self._hold(BN_BACK_DX, &c.dx, descriptors[2])
        self._hold(BN_BACK_SCALE, &c.scale, descriptors[3])
        self._hold(BN_BACK_DSCALE, &c.scale, descriptors[3])
        self._hold(BN_BACK_DBIAS, &c.bias, descriptors[4])
        if c.save:
            self._hold(BN_BACK_MEAN, &c.mean, descriptors[5])
            self._hold(BN_BACK_INV, &c.variance, descriptors[6])
        if c.activation != PASTHRU:
            self._hold(BN_BACK_BIAS, &c.bias, descriptors[4])
        self.count, self.output = BN_BACK_BIAS + (c.activation != PASTHRU), BN_BACK_DX
        self.written = 1 << BN_BACK_DX | 1 << BN_BACK_DSCALE | 1 << BN_BACK_DBIAS
        self.in_place = 1 << BN_BACK_X | 1 << BN_BACK_DY
        return 0

    cdef int _hold_forward(self, tuple descriptors) noexcept:
        cdef mx_batchnorm_problem* c = &self.c
        self._hold(BN_SCALE, &c.scale, descriptors[2])
        self._hold(BN_BIAS, &c.bias, descriptors[3])
        if c.running or c.what == MX_BN_INFERENCE:
            self._hold(BN_MEAN, &c.mean, descriptors[4])
            self._hold(BN_VARIANCE, &c.variance, descriptors[5])
        if c.save:
            self._hold(BN_SAVED_MEAN, &c.mean, descriptors[4])
            self._hold(BN_SAVED_INV, &c.variance, descriptors[5])
        if c.previous:
            self._hold(BN_OLD_MEAN, &c.mean, descriptors[4])
            self._hold(BN_OLD_VARIANCE, &c.variance, descriptors[5])
        self.count = BN_SAVED_MEAN if c.what == MX_BN_INFERENCE else BN_OLD_MEAN + 2 * c.previous
        self.output, self.written, self.in_place = BN_Y, 1 << BN_Y, 1 << BN_X
        if c.what == MX_BN_TRAINING and c.running:
            self.written |= 1 << BN_MEAN | 1 << BN_VARIANCE
        if c.what == MX_BN_TRAINING and c.save:
            self.written |= 1 << BN_SAVED_MEAN | 1 << BN_SAVED_INV
        return 0

    cdef int _hold(self, int slot, const mx_tensor* tensor, TensorDescriptor desc) noexcept:
        return self.hold(slot, tensor, desc.ndim)

    def __repr__(self):
        cdef mx_batchnorm_problem* c = &self.c
        then = f"; then {enums.word_of('miopenActivationMode_t', c.activation)}" if c.activation != PASTHRU else ""
        return (f"<batch normalisation, {PASSES[<int> (c.what - MX_BN_TRAINING)]}, {MODES[<int> c.mode]}: "
                f"x {tensor_text(&c.x)}, running {bool(c.running)}, saved {bool(c.save)}{then}>")
