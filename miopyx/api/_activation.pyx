"""Activation functions of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.string cimport memset

from miopyx.problem._descriptors cimport TensorDescriptor, as_tensor
from miopyx.engine._handle cimport Handle, as_handle, recall
from miopyx.engine._invoker cimport Invoker
from miopyx.engine._plan cimport Plan
from miopyx.values._types cimport MX_ACTIVATION_BACKWARD, MX_ACTIVATION_FORWARD, MX_SCALARS
from miopyx.problem._activation cimport (
    ACTIVATION_ALPHA, ACTIVATION_BETA, ACTIVATION_DX, ACTIVATION_DY, ACTIVATION_GAMMA, ACTIVATION_X, ACTIVATION_Y,
    ActivationDescriptor, as_activation, read_backward,
)
from ._operation cimport call_number, launch, plan_of, prepare, require_plain_scalars

from miopyx.problem._descriptors import destroy
from miopyx.errors import UnknownError
from miopyx.problem._activation import ActivationProblem

cdef tuple _FORWARD = ("x", "y", "workSpace")
cdef tuple _BACKWARD = ("y", "dy", "x", "dx", "workSpace")


def miopenCreateActivationDescriptor():
    """Return a new descriptor: PASTHRU, all parameters 0."""
    return ActivationDescriptor()


def miopenSetActivationDescriptor(activDesc, mode, activAlpha, activBeta, activGamma):
    """Set mode and parameters; raises BadParmError for an unknown mode."""
    as_activation(activDesc, "activDesc").set(mode, activAlpha, activBeta, activGamma)


def miopenGetActivationDescriptor(activDesc):
    """Return (mode, activAlpha, activBeta, activGamma)."""
    cdef ActivationDescriptor desc = as_activation(activDesc, "activDesc")
    return desc.mode, desc.alpha, desc.beta, desc.gamma


def miopenDestroyActivationDescriptor(activDesc):
    """End the descriptor's life; None is fine.  Using it afterwards is a BadParmError."""
    destroy(activDesc, ActivationDescriptor, "activDesc")


cdef int _write_numbers(ActivationDescriptor activ, double* scalars) noexcept:
    memset(scalars, 0, MX_SCALARS * sizeof(double))
    scalars[ACTIVATION_ALPHA], scalars[ACTIVATION_BETA] = activ.alpha, activ.beta
    scalars[ACTIVATION_GAMMA] = activ.gamma
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
    ======================  ==========================================================

    eps is 1e-6, for float16 1e-4.  Tensors of 1 to 5 dimensions, equal lengths and equal types (float16, float32,
    bfloat16, float64), of any strides each; arithmetic is float32, for float64 float64.  x and y may be the same
    memory.

    Raises
    ------
    UnknownError
        Unless alpha is 1 and beta 0.
    MIOpenNotImplementedError
        Where lengths or types differ, or for another type.
    """
    cdef Handle h = as_handle(handle)
    cdef ActivationDescriptor activ = as_activation(activDesc, "activDesc")
    cdef TensorDescriptor xd = as_tensor(xDesc, "xDesc"), yd = as_tensor(yDesc, "yDesc")
    cdef uint64_t[3] stamp = [activ.stamp, xd.stamp, yd.stamp]
    cdef int[2] order = [ACTIVATION_X, ACTIVATION_Y]
    cdef PyObject* data[2]
    cdef double scalars[MX_SCALARS]
    cdef Invoker invoker
    require_plain_scalars(alpha, beta, UnknownError)
    _write_numbers(activ, scalars)
    invoker = recall(h, stamp, 3, call_number(MX_ACTIVATION_FORWARD, 0))
    if invoker is None:
        invoker = prepare(h, ActivationProblem(activ, xd, yd), stamp, 3, call_number(MX_ACTIVATION_FORWARD, 0))
    data[0], data[1] = <PyObject*> x, <PyObject*> y
    launch(h, invoker, order, 2, data, _FORWARD, scalars)


cdef int _order(ActivationDescriptor activ, int* order) noexcept:
    """Where the buffers (y, dy, x, dx) go: those that the mode does not read go nowhere."""
    cdef unsigned read = read_backward(activ.number)
    order[0] = ACTIVATION_Y if read >> ACTIVATION_Y & 1 else -1
    order[1] = ACTIVATION_DY
    order[2] = ACTIVATION_X if read >> ACTIVATION_X & 1 else -1
    order[3] = ACTIVATION_DX
    return 0


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
    ======================  ==========================================================  =========

    What a mode does not read is not looked at: it may be None.  All four descriptors must have the same lengths and
    the same type.  dx may be the same memory as dy, or as x or y where those are read.  Errors as for
    miopenActivationForward.
    """
    cdef Handle h = as_handle(handle)
    cdef ActivationDescriptor activ = as_activation(activDesc, "activDesc")
    cdef TensorDescriptor yd = as_tensor(yDesc, "yDesc"), dyd = as_tensor(dyDesc, "dyDesc")
    cdef TensorDescriptor xd = as_tensor(xDesc, "xDesc"), dxd = as_tensor(dxDesc, "dxDesc")
    cdef uint64_t[5] stamp = [activ.stamp, yd.stamp, dyd.stamp, xd.stamp, dxd.stamp]
    cdef int[4] order
    cdef PyObject* data[4]
    cdef double scalars[MX_SCALARS]
    cdef Invoker invoker
    require_plain_scalars(alpha, beta, UnknownError)
    _write_numbers(activ, scalars)
    _order(activ, order)
    invoker = recall(h, stamp, 5, call_number(MX_ACTIVATION_BACKWARD, 0))
    if invoker is None:
        invoker = prepare(h, ActivationProblem(activ, yd, dyd, xd, dxd), stamp, 5,
                          call_number(MX_ACTIVATION_BACKWARD, 0))
    data[0], data[1], data[2], data[3] = <PyObject*> y, <PyObject*> dy, <PyObject*> x, <PyObject*> dx
    launch(h, invoker, order, 4, data, _BACKWARD, scalars)


cdef bytes _bytes(const double* scalars):
    """Which compare where numbers may be NaN."""
    return (<const unsigned char*> scalars)[:MX_SCALARS * sizeof(double)]


cdef Plan _with_numbers(ActivationDescriptor activ, Plan plan):
    """Let a plan keep alpha, beta and gamma as they are, which then belong to what it was made from."""
    describes = plan.identity

    def identity():
        cdef double scalars[MX_SCALARS]
        _write_numbers(activ, scalars)
        return describes(), _bytes(scalars)

    _write_numbers(activ, plan.default)
    plan.identity, plan.made_of = identity, (plan.made_of, _bytes(plan.default))
    return plan


def plan_activation_forward(handle, activ_desc, x_desc, y_desc):
    """Body of Handle.activation_forward."""
    cdef ActivationDescriptor activ = as_activation(activ_desc, "activ_desc")
    cdef TensorDescriptor x = as_tensor(x_desc, "x_desc"), y = as_tensor(y_desc, "y_desc")
    cdef int[2] order = [ACTIVATION_X, ACTIVATION_Y]
    cdef Plan plan = plan_of(handle, lambda: ActivationProblem(activ, x, y), order, 2, _FORWARD, (activ, x, y),
                             ("activ_desc", "x_desc", "y_desc"), ())
    return _with_numbers(activ, plan)


def plan_activation_backward(handle, activ_desc, y_desc, dy_desc, x_desc, dx_desc):
    """Body of Handle.activation_backward."""
    cdef ActivationDescriptor activ = as_activation(activ_desc, "activ_desc")
    cdef TensorDescriptor y = as_tensor(y_desc, "y_desc"), dy = as_tensor(dy_desc, "dy_desc")
    cdef TensorDescriptor x = as_tensor(x_desc, "x_desc"), dx = as_tensor(dx_desc, "dx_desc")
    cdef int[4] order
    cdef Plan plan
    _order(activ, order)
    plan = plan_of(handle, lambda: ActivationProblem(activ, y, dy, x, dx), order, 4, _BACKWARD, (activ, y, dy, x, dx),
                   ("activ_desc", "y_desc", "dy_desc", "x_desc", "dx_desc"), ())
    return _with_numbers(activ, plan)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
