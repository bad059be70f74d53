"""Activation functions of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from miopyx.engine._plan cimport Plan
from miopyx.values._types cimport MX_ACTIVATION_BACKWARD, MX_ACTIVATION_FORWARD, MX_SCALARS
from miopyx.problem._descriptors cimport check_descriptor
from miopyx.problem._activation cimport (
    ACTIVATION_ALPHA, ACTIVATION_BETA, ACTIVATION_DX, ACTIVATION_DY, ACTIVATION_GAMMA, ACTIVATION_X, ACTIVATION_Y,
    ActivationDescriptor, as_activation, read_backward,
)
from ._operation cimport Signature, arg_t, require_handle, require_plain_scalars

from miopyx.problem._descriptors import destroy
from miopyx.errors import UnknownError
from miopyx.problem._activation import ActivationProblem

cdef enum:
    NUMBERS = 3            # of an activation

cdef Signature _FORWARD = Signature(
    MX_ACTIVATION_FORWARD, lambda flags, *descriptors: ActivationProblem(*descriptors),
    ("activDesc", "xDesc", "yDesc"), {"x": ACTIVATION_X, "y": ACTIVATION_Y}, first=ActivationDescriptor)
cdef Signature _BACKWARD = Signature(
    MX_ACTIVATION_BACKWARD, _FORWARD.problem_of, ("activDesc", "yDesc", "dyDesc", "xDesc", "dxDesc"),
    {"y": ACTIVATION_Y, "dy": ACTIVATION_DY, "x": ACTIVATION_X, "dx": ACTIVATION_DX}, first=ActivationDescriptor)


def miopenCreateActivationDescriptor():
    """Return a new ActivationDescriptor: PASTHRU, all parameters 0."""
    return ActivationDescriptor()


def miopenSetActivationDescriptor(activDesc, mode, activAlpha, activBeta, activGamma):
    """Set the mode and its parameters.

    Parameters
    ----------
    activDesc : ActivationDescriptor
    mode : miopenActivationMode_t
    activAlpha, activBeta, activGamma : float
        a, b and g of the formulas of miopenActivationForward.

    Raises
    ------
    BadParmError
        For an unknown mode or what is no real number; the descriptor stays as it was.
    """
    cdef ActivationDescriptor desc = check_descriptor(activDesc, ActivationDescriptor, "activDesc")
    desc.set(mode, activAlpha, activBeta, activGamma)


def miopenGetActivationDescriptor(activDesc):
    """Return the mode and the parameters of an activation.

    Parameters
    ----------
    activDesc : ActivationDescriptor

    Returns
    -------
    (mode, activAlpha, activBeta, activGamma)
        As miopenSetActivationDescriptor took them.

    Raises
    ------
    BadParmError
        For anything but an ActivationDescriptor that was not destroyed.
    """
    cdef ActivationDescriptor desc = as_activation(activDesc, "activDesc").copied()  # of one moment
    return desc.mode, desc.alpha, desc.beta, desc.gamma


def miopenDestroyActivationDescriptor(activDesc):
    """End the descriptor's life; using it afterwards is a BadParmError.  Plans that were made with it go on.

    Parameters
    ----------
    activDesc : ActivationDescriptor or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    destroy(activDesc, ActivationDescriptor, "activDesc")


cdef int write_activation(ActivationDescriptor activ, double* numbers) noexcept:
    numbers[ACTIVATION_ALPHA], numbers[ACTIVATION_BETA] = activ.alpha, activ.beta
    numbers[ACTIVATION_GAMMA] = activ.gamma
    return 0


def miopenActivationForward(handle, activDesc, alpha, xDesc, x, beta, yDesc, y):
    """y = f(x), element by element; a, b, g are the descriptor's alpha, beta and gamma.

    ======================  ==========================================================
    PASTHRU                 x
    LOGISTIC                1 / (1 + e^-x)
    TANH                    b tanh(a x)
    RELU                    x where x > 0, else 0; NaN stays NaN
    SOFTRELU                log(1 + e^x)
    ABS                     abs(x)
    POWER                   (a + b x)^g where a + b x > eps, else 0
    CLIPPEDRELU             min(a, max(x, 0)); 0 for NaN
    LEAKYRELU               x where x > 0, else a x
    ELU                     x where x > 0, else a (e^x - 1)
    CLAMP                   max(a, min(b, x)); max(a, b) for NaN
    ======================  ==========================================================

    eps is 1e-6, for float16 1e-4.  The formulas are MIOpen's (its activation page).  Arithmetic is float32, for float64
    float64.

    Parameters
    ----------
    handle : Handle
    activDesc : ActivationDescriptor
    alpha, beta : float
        1 and 0; not those of the formulas.
    xDesc, yDesc : TensorDescriptor
        1 to 5 dimensions, equal lengths and equal types (float16, bfloat16, float32, float64), any strides.
    x, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  x and y may be the same memory.

    Raises
    ------
    UnknownError
        Unless alpha is 1 and beta 0.
    BadParmError
        Where a descriptor was never set or a buffer does not fit; nothing was run then.
    MIOpenNotImplementedError
        Where lengths or types differ, or for another type.
    """
    require_handle(handle)
    cdef arg_t[3] descriptors = [<arg_t> activDesc, <arg_t> xDesc, <arg_t> yDesc]
    cdef arg_t[2] buffers = [<arg_t> x, <arg_t> y]
    cdef double[MX_SCALARS] numbers = [0, 0, 0, 0, 0, 0, 0, 0]
    write_activation(as_activation(activDesc, "activDesc"), numbers)
    require_plain_scalars(alpha, beta, UnknownError)
    _FORWARD.run(handle, descriptors, buffers, numbers, 0, 0)


cdef unsigned _unread(ActivationDescriptor activ) noexcept:
    """Which of the buffers (y, dy, x, dx) the mode does not read, bit by bit."""
    cdef unsigned read = read_backward(activ.number)
    return (0 if read >> ACTIVATION_Y & 1 else 1 << 0) | (0 if read >> ACTIVATION_X & 1 else 1 << 2)


def miopenActivationBackward(handle, activDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx):
    """dx = dy f'(x), element by element, with the names of miopenActivationForward.

    ======================  ==========================================================  =========
    mode                    dx                                                          reads
    ======================  ==========================================================  =========
    PASTHRU                 dy                                                          dy
    LOGISTIC                dy y (1 - y)                                                dy, y
    TANH                    dy a (b - y y / b); 0 where abs(b) <= eps                   dy, y
    RELU                    dy where x > 0, else 0                                      dy, x
    SOFTRELU                dy / (1 + e^-x)                                             dy, x
    ABS                     dy where x > 0, -dy where x < 0, 0 where x = 0              dy, x
    POWER                   dy g b (a + b x)^(g - 1) where a + b x > eps, else 0        dy, x
    CLIPPEDRELU             dy where 0 < x <= a, else 0                                 dy, x
    LEAKYRELU               dy where x > 0, else a dy                                   dy, x
    ELU                     dy where x > 0, else dy a e^x                               dy, x
    CLAMP                   dy where a < x <= b, else 0                                 dy, x
    ======================  ==========================================================  =========

    Parameters
    ----------
    handle : Handle
    activDesc : ActivationDescriptor
    alpha, beta : float
        1 and 0.
    yDesc, dyDesc, xDesc, dxDesc : TensorDescriptor
        All four of the same lengths and the same type, as for miopenActivationForward.
    y, dy, x, dx : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  What a mode
        does not read is not looked at: it may be None.  dx may be the same memory as dy, or as x or y where those are
        read.

    Raises
    ------
    UnknownError, BadParmError, MIOpenNotImplementedError
        As for miopenActivationForward.
    """
    require_handle(handle)
    cdef ActivationDescriptor activ = as_activation(activDesc, "activDesc")
    cdef arg_t[5] descriptors = [<arg_t> activ, <arg_t> yDesc, <arg_t> dyDesc, <arg_t> xDesc, <arg_t> dxDesc]
    cdef arg_t[4] buffers = [<arg_t> y, <arg_t> dy, <arg_t> x, <arg_t> dx]
    cdef double[MX_SCALARS] numbers = [0, 0, 0, 0, 0, 0, 0, 0]
    write_activation(activ, numbers)
    require_plain_scalars(alpha, beta, UnknownError)
    _BACKWARD.run(handle, descriptors, buffers, numbers, 0, _unread(activ))


cdef bytes _bytes(const double* numbers):
    """Which compare where numbers may be NaN."""
    return (<const unsigned char*> numbers)[:NUMBERS * sizeof(double)]


cdef Plan with_activation(object activ, Plan plan, int first):
    """Let a plan have an activation's numbers, whose descriptor is one of its own."""
    cdef int at = 0
    while plan.descriptors[at] is not activ:
        at += 1
    describes = plan.identity

    def identity(now):
        cdef double numbers[NUMBERS]
        write_activation(now[at], numbers)
        return describes(now), _bytes(numbers)

    write_activation(plan.made_from[at], &plan.default[first])
    plan.identity, plan.made_of = identity, (plan.made_of, _bytes(&plan.default[first]))
    return plan


def plan_activation_forward(handle, activ_desc, x_desc, y_desc):
    """Body of Handle.activation_forward."""
    check_descriptor(activ_desc, ActivationDescriptor, "activ_desc")
    return with_activation(activ_desc, _FORWARD.plan(handle, (activ_desc, x_desc, y_desc), 0, 0), 0)


def plan_activation_backward(handle, activ_desc, y_desc, dy_desc, x_desc, dx_desc):
    """Body of Handle.activation_backward."""
    cdef ActivationDescriptor activ = as_activation(activ_desc, "activ_desc")
    return with_activation(
        activ_desc, _BACKWARD.plan(handle, (activ_desc, y_desc, dy_desc, x_desc, dx_desc), 0, _unread(activ)), 0)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
