"""Softmax functions of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from miopyx.values._args cimport to_double
from miopyx.problem._descriptors cimport TensorDescriptor, as_tensor
from miopyx.engine._handle cimport Handle, as_handle, recall
from miopyx.engine._invoker cimport Invoker
from miopyx.values._types cimport MX_SOFTMAX_BACKWARD, MX_SOFTMAX_FORWARD
from miopyx.problem._softmax cimport (
    ACCURATE, CHANNEL, SOFTMAX_DX, SOFTMAX_DY, SOFTMAX_X, SOFTMAX_Y, SoftmaxDescriptor, as_softmax, to_algorithm,
    to_mode,
)
from ._operation cimport call_number, launch, plan_of, prepare

from miopyx.problem._softmax import SoftmaxProblem

cdef tuple _FORWARD = ("x", "y", "workSpace")
cdef tuple _BACKWARD = ("y", "dy", "dx", "workSpace")
cdef tuple _SCALARS = (("alpha", 1.0), ("beta", 0.0))


def miopenCreateSoftmaxDescriptor():
    """Return a new descriptor: alpha 1, beta 0, ACCURATE over channels."""
    return SoftmaxDescriptor()


def miopenSetSoftmaxDescriptor(softmaxDesc, alpha, beta, algorithm, mode):
    """Set scales, algorithm and mode; raises BadParmError for an unknown algorithm or mode."""
    as_softmax(softmaxDesc, "softmaxDesc").set(alpha, beta, algorithm, mode)


def miopenGetSoftmaxDescriptor(softmaxDesc):
    """Return (alpha, beta, algorithm, mode)."""
    cdef SoftmaxDescriptor desc = as_softmax(softmaxDesc, "softmaxDesc")
    return desc.alpha, desc.beta, desc.algorithm, desc.mode


cdef int _forward(object handle, object alpha, object x_desc, object x, object beta, object y_desc, object y,
                  int algorithm, int mode) except -1:
    cdef Handle h = as_handle(handle)
    cdef TensorDescriptor xd = as_tensor(x_desc, "xDesc"), yd = as_tensor(y_desc, "yDesc")
    cdef uint64_t[2] stamp = [xd.stamp, yd.stamp]
    cdef int[2] order = [SOFTMAX_X, SOFTMAX_Y]
    cdef double[4] scalars = [to_double(alpha, "alpha"), to_double(beta, "beta"), 0, 0]
    cdef PyObject* data[2]
    cdef Invoker invoker = recall(h, stamp, 2, call_number(MX_SOFTMAX_FORWARD, 2 * algorithm + mode))
    if invoker is None:
        invoker = prepare(h, SoftmaxProblem(algorithm, mode, xd, yd), stamp, 2,
                          call_number(MX_SOFTMAX_FORWARD, 2 * algorithm + mode))
    data[0], data[1] = <PyObject*> x, <PyObject*> y
    return launch(h, invoker, order, 2, data, _FORWARD, scalars)


cdef int _backward(object handle, object alpha, object y_desc, object y, object dy_desc, object dy, object beta,
                   object dx_desc, object dx, int algorithm, int mode) except -1:
    cdef Handle h = as_handle(handle)
    cdef TensorDescriptor yd = as_tensor(y_desc, "yDesc"), dyd = as_tensor(dy_desc, "dyDesc")
    cdef TensorDescriptor dxd = as_tensor(dx_desc, "dxDesc")
    cdef uint64_t[3] stamp = [yd.stamp, dyd.stamp, dxd.stamp]
    cdef int[3] order = [SOFTMAX_Y, SOFTMAX_DY, SOFTMAX_DX]
    cdef double[4] scalars = [to_double(alpha, "alpha"), to_double(beta, "beta"), 0, 0]
    cdef PyObject* data[3]
    cdef Invoker invoker = recall(h, stamp, 3, call_number(MX_SOFTMAX_BACKWARD, 2 * algorithm + mode))
    if invoker is None:
        invoker = prepare(h, SoftmaxProblem(algorithm, mode, yd, dyd, dxd), stamp, 3,
                          call_number(MX_SOFTMAX_BACKWARD, 2 * algorithm + mode))
    data[0], data[1], data[2] = <PyObject*> y, <PyObject*> dy, <PyObject*> dx
    return launch(h, invoker, order, 3, data, _BACKWARD, scalars)


def miopenSoftmaxForward(handle, alpha, xDesc, x, beta, yDesc, y):
    """miopenSoftmaxForward_V2 with ACCURATE and CHANNEL."""
    _forward(handle, alpha, xDesc, x, beta, yDesc, y, ACCURATE, CHANNEL)


def miopenSoftmaxForward_V2(handle, alpha, xDesc, x, beta, yDesc, y, algorithm, mode):
    """y = alpha * softmax(x) + beta * y over the channels of each place (CHANNEL) or each whole sample (INSTANCE).

    softmax(x) is e^x / sum of e^x (FAST and ACCURATE, which are the same here: neither overflows), or its logarithm
    (LOG).  Tensors n c (d) h w of 2 to 5 dimensions, equal lengths and equal types (float16, float32, bfloat16,
    float64), of any strides each; arithmetic is float32, for float64 float64.  x and y may be the same memory; with
    beta 0 the old y is not read.

    Raises
    ------
    BadParmError
        Where lengths or types differ, for another rank, or a missing buffer.
    MIOpenNotImplementedError
        For another type.
    """
    as_handle(handle)
    _forward(handle, alpha, xDesc, x, beta, yDesc, y, to_algorithm(algorithm), to_mode(mode))


def miopenSoftmaxBackward(handle, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx):
    """miopenSoftmaxBackward_V2 with ACCURATE and CHANNEL."""
    _backward(handle, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx, ACCURATE, CHANNEL)


def miopenSoftmaxBackward_V2(handle, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx, algorithm, mode):
    """dx = alpha * gradient + beta * dx, from y = softmax(x) as computed with alpha 1 and beta 0.

    The gradient is y * (dy - sum of dy * y) (FAST and ACCURATE) or dy - e^y * sum of dy (LOG), each sum over what
    softmax(x) was normalised over.  y and dy must have the same strides.  dx may be the same memory as dy or y; with
    beta 0 the old dx is not read.  Errors as for miopenSoftmaxForward_V2.
    """
    as_handle(handle)
    _backward(handle, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx, to_algorithm(algorithm), to_mode(mode))


def plan_softmax_forward(handle, x_desc, y_desc, algorithm, mode):
    """Body of Handle.softmax_forward."""
    cdef TensorDescriptor x = as_tensor(x_desc, "x_desc"), y = as_tensor(y_desc, "y_desc")
    cdef int number = to_algorithm(algorithm), which = to_mode(mode)
    cdef int[2] order = [SOFTMAX_X, SOFTMAX_Y]
    return plan_of(handle, lambda: SoftmaxProblem(number, which, x, y), order, 2, _FORWARD, (x, y),
                   ("x_desc", "y_desc"), _SCALARS)


def plan_softmax_backward(handle, y_desc, dy_desc, dx_desc, algorithm, mode):
    """Body of Handle.softmax_backward."""
    cdef TensorDescriptor y = as_tensor(y_desc, "y_desc"), dy = as_tensor(dy_desc, "dy_desc")
    cdef TensorDescriptor dx = as_tensor(dx_desc, "dx_desc")
    cdef int number = to_algorithm(algorithm), which = to_mode(mode)
    cdef int[3] order = [SOFTMAX_Y, SOFTMAX_DY, SOFTMAX_DX]
    return plan_of(handle, lambda: SoftmaxProblem(number, which, y, dy, dx), order, 3, _BACKWARD, (y, dy, dx),
                   ("y_desc", "dy_desc", "dx_desc"), _SCALARS)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
