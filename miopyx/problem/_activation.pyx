"""Activations: their descriptor and their two problems.

The gradient is computed from as little as its mode needs, next to dy: y for LOGISTIC and TANH, nothing for PASTHRU, x
for all others.  What is not read is not part of the problem.  Nor are alpha, beta and gamma: they come with each call.
"""

from libc.string cimport memset

from miopyx.values._args cimport raise_unknown, to_double, to_member
from ._descriptors cimport Descriptor, TensorDescriptor, begin_setting, check_descriptor, end_setting, next_stamp
from ._problem cimport Problem, fill_tensor, require_no_overlap, require_plain, tensor_text
from miopyx.values._types cimport MX_ACTIVATION_BACKWARD, MX_ACTIVATION_FORWARD, MX_AXES, mx_activation_problem

from miopyx import enums
from miopyx.errors import MIOpenNotImplementedError


def _set(ActivationDescriptor desc, mode, alpha, beta, gamma):
    desc.set(mode, alpha, beta, gamma)


cdef class ActivationDescriptor(Descriptor):
    """ActivationDescriptor(mode=0, alpha=0.0, beta=0.0, gamma=0.0)\n--\n\n\
    Mode and parameters of an activation (miopenActivationDescriptor_t).

    Parameters
    ----------
    mode : miopenActivationMode_t, optional
        Default: PASTHRU.
    alpha, beta, gamma : float, optional
        What the mode's formula calls so (see miopenActivationForward); default 0.

    Raises
    ------
    BadParmError
        For an unknown mode or what is no real number.
    """

    def __init__(self, mode=0, alpha=0.0, beta=0.0, gamma=0.0):
        self.set(mode, alpha, beta, gamma)

    def __cinit__(self, *args, **kwargs):
        self.stamp = next_stamp()

    cdef tuple settings(self):
        return ((_set, self.number, self.alpha, self.beta, self.gamma),)

    cdef int set(self, object mode, object alpha, object beta, object gamma) except -1:
        cdef int number = to_member(mode, "miopenActivationMode_t", "mode")
        cdef double a = to_double(alpha, "activAlpha"), b = to_double(beta, "activBeta")
        cdef double c = to_double(gamma, "activGamma")
        if number < 0 or number >= MODES:
            raise_unknown(mode, "miopenActivationMode_t", "mode")
        begin_setting(self)
        self.number, self.alpha, self.beta, self.gamma = number, a, b, c
        end_setting(self)
        return 0

    @property
    def mode(self):
        """The miopenActivationMode_t."""
        from miopyx.enums import miopenActivationMode_t

        return miopenActivationMode_t(self.number)

    cdef str described(self):
        return f"ActivationDescriptor({self.mode.name!r}, alpha={self.alpha}, beta={self.beta}, gamma={self.gamma})"


cdef ActivationDescriptor check_activation(object desc, str name):
    return <ActivationDescriptor> check_descriptor(desc, ActivationDescriptor, name)


cdef int _require_alike(TensorDescriptor desc, str name, TensorDescriptor other, str other_name) except -1:
    """MIOpen has no solver for tensors of different sizes, nor have we for different types."""
    cdef int i
    desc.require_set(name)
    require_plain(desc, name)
    if desc.ndim > MX_AXES:
        raise MIOpenNotImplementedError("No solver found: too many dimensions", name, desc.ndim, f"1 ... {MX_AXES}")
    if desc.ndim != other.ndim:
        raise MIOpenNotImplementedError(f"No solver found: rank differs from {other_name}'s", name, desc.ndim,
                                        other.ndim)
    if desc.type != other.type:
        raise MIOpenNotImplementedError(f"No solver found: type differs from {other_name}'s", name, desc.dtype,
                                        other.dtype)
    for i in range(desc.ndim):
        if desc.len[i] != other.len[i]:
            raise MIOpenNotImplementedError(f"No solver found: lengths differ from {other_name}'s", name, desc.lens,
                                            other.lens)
    return 0


cdef class ActivationProblem(Problem):
    """y = f(x), made of (activ_desc, x, y), or dx = dy f'(x), made of (activ_desc, y, dy, x, dx).

    Raises
    ------
    MIOpenNotImplementedError
        Where lengths or types differ.
    """

    def __init__(self, ActivationDescriptor activ not None, TensorDescriptor first not None,
                 TensorDescriptor second not None, TensorDescriptor third=None, TensorDescriptor fourth=None):
        if third is None or fourth is None:
            self.fill_forward(activ, first, second)
        else:
            self.fill_backward(activ, first, second, third, fourth)

    def __cinit__(self, *args):
        self.data, self.size = &self.c, sizeof(mx_activation_problem)

    cdef int fill_forward(self, ActivationDescriptor activ, TensorDescriptor x, TensorDescriptor y) except -1:
        y.require_set("yDesc")
        _require_alike(x, "xDesc", y, "yDesc")
        _require_alike(y, "yDesc", x, "xDesc")
        require_no_overlap(y, "yDesc")
        self._begin(MX_ACTIVATION_FORWARD, activ.number)
        fill_tensor(&self.c.x, x)
        fill_tensor(&self.c.y, y)
        self.hold(ACTIVATION_X, &self.c.x, x.ndim)
        self.hold(ACTIVATION_Y, &self.c.y, y.ndim)
        self.count, self.output, self.in_place = 2, ACTIVATION_Y, 1 << ACTIVATION_X
        self.written = 1 << ACTIVATION_Y
        return 0

    cdef int fill_backward(self, ActivationDescriptor activ, TensorDescriptor y, TensorDescriptor dy,
                           TensorDescriptor x, TensorDescriptor dx) except -1:
        cdef unsigned read = read_backward(activ.number)
        dx.require_set("dxDesc")
        _require_alike(y, "yDesc", dx, "dxDesc")
        _require_alike(dy, "dyDesc", dx, "dxDesc")
        _require_alike(x, "xDesc", dx, "dxDesc")
        _require_alike(dx, "dxDesc", dy, "dyDesc")
        require_no_overlap(dx, "dxDesc")
        self._begin(MX_ACTIVATION_BACKWARD, activ.number)
        fill_tensor(&self.c.dy, dy)
        fill_tensor(&self.c.dx, dx)
        self.hold(ACTIVATION_DY, &self.c.dy, dy.ndim)
        self.hold(ACTIVATION_DX, &self.c.dx, dx.ndim)
        if read >> ACTIVATION_X & 1:
            fill_tensor(&self.c.x, x)
            self.hold(ACTIVATION_X, &self.c.x, x.ndim)
        if read >> ACTIVATION_Y & 1:
            fill_tensor(&self.c.y, y)
            self.hold(ACTIVATION_Y, &self.c.y, y.ndim)
        self.count, self.output, self.in_place = 4, ACTIVATION_DX, 1 << ACTIVATION_DY | read
        self.written = 1 << ACTIVATION_DX
        return 0

    cdef int _begin(self, int what, int mode) noexcept:
        memset(&self.c, 0, sizeof(mx_activation_problem))
        self.c.what, self.c.mode = what, mode
        return 0

    def __repr__(self):
        cdef mx_activation_problem* c = &self.c
        word = "forward" if c.what == MX_ACTIVATION_FORWARD else "backward"
        tensor = tensor_text(&c.y if c.what == MX_ACTIVATION_FORWARD else &c.dx)
        return f"<activation {word}, {enums.word_of('miopenActivationMode_t', c.mode)}: {tensor}>"
