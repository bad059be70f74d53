"""Local response normalisation functions of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from miopyx.values._args cimport to_double, to_flag
from miopyx.problem._descriptors cimport TensorDescriptor, as_tensor
from miopyx.engine._handle cimport Handle, as_handle, recall
from miopyx.engine._invoker cimport Invoker
from miopyx.values._types cimport MX_LRN_BACKWARD, MX_LRN_FORWARD
from miopyx.problem._lrn cimport LRN_DX, LRN_DY, LRN_SCALES, LRN_X, LRN_Y, LRNDescriptor, as_lrn, workspace_bytes
from ._operation cimport call_number, launch, plan_of, prepare

from miopyx.problem._descriptors import destroy
from miopyx.errors import UnknownError
from miopyx.problem._lrn import LRNProblem

cdef tuple _FORWARD = ("x", "y", "workSpace", "")
cdef tuple _BACKWARD = ("y", "dy", "x", "dx", "workSpace", "")
cdef double[4] _NO_SCALARS = [0, 0, 0, 0]


def miopenCreateLRNDescriptor():
    """Return an empty LRN descriptor."""
    return LRNDescriptor()


def miopenSetLRNDescriptor(lrnDesc, mode, lrnN, lrnAlpha, lrnBeta, lrnK):
    """Set mode, window and coefficients (see miopenLRNForward).

    Raises BadParmError for an unknown mode, an lrnN that is no 32-bit unsigned integer, a number that is not finite.
    """
    as_lrn(lrnDesc, "lrnDesc").set(mode, lrnN, lrnAlpha, lrnBeta, lrnK)


def miopenGetLRNDescriptor(lrnDesc):
    """Return (mode, lrnN, lrnAlpha, lrnBeta, lrnK); BadParmError for a descriptor that was never set."""
    cdef LRNDescriptor desc = as_lrn(lrnDesc, "lrnDesc")
    desc.require_set()
    return desc.mode, desc.n_set, desc.alpha_set, desc.beta_set, desc.k_set


def miopenDestroyLRNDescriptor(lrnDesc):
    """End the descriptor's life; None is fine.  Using it afterwards is a BadParmError."""
    destroy(lrnDesc, LRNDescriptor, "lrnDesc")


def miopenLRNGetWorkSpaceSize(yDesc):
    """Return the bytes of the scales, which the forward call stores for the backward one.

    They have y's strides and are float32, for float64 tensors float64.
    """
    return workspace_bytes(as_tensor(yDesc, "yDesc"))


cdef inline int _require_unscaled(object alpha, object beta) except -1:
    if alpha is not None and to_double(alpha, "alpha") != 1:
        raise UnknownError("scaled results", "alpha", alpha, "1 or None")
    if beta is not None and to_double(beta, "beta") != 0:
        raise UnknownError("scaled results", "beta", beta, "0 or None")
    return 0


def miopenLRNForward(handle, lrnDesc, alpha, xDesc, x, beta, yDesc, y, do_backward, workSpace):
    """y = x * scale^-lrnBeta, with scale = lrnK + lrnAlpha / m * (sum of x^2 over a window around each element).

    Across channels the window is lrnN channels and m = lrnN; within a channel it is lrnN rows by lrnN columns and
    m = lrnN^2.  It begins (lrnN - 1) // 2 before the element and ends with the tensor; m stays the same there.  A
    negative scale gives NaN.

    Parameters
    ----------
    handle : Handle
    lrnDesc : LRNDescriptor
    alpha, beta
        1 and 0, or None.
    xDesc, yDesc : TensorDescriptor
        Equal lengths, four (across channels: or five) of them, and types (float16, float32, bfloat16, float64); any
        strides.
    x, y
        Arrays or buffers that do not overlap.
    do_backward : bool
        Whether the scales are wanted.
    workSpace
        Where they go, miopenLRNGetWorkSpaceSize(yDesc) bytes; not looked at without do_backward.

    Raises
    ------
    UnknownError
        Where lrnN or lrnK is 0, for another rank, and for other numbers as alpha and beta.
    BadParmError
        Where types or lengths differ, or a buffer does not fit.
    MIOpenNotImplementedError
        For another type.
    """
    cdef Handle h = as_handle(handle)
    cdef LRNDescriptor lrn = as_lrn(lrnDesc, "lrnDesc")
    cdef TensorDescriptor xd = as_tensor(xDesc, "xDesc"), yd = as_tensor(yDesc, "yDesc")
    cdef bint save = to_flag(do_backward, "do_backward")
    cdef uint64_t[3] stamp = [lrn.stamp, xd.stamp, yd.stamp]
    cdef int[3] order = [LRN_X, LRN_Y, LRN_SCALES if save else -1]
    cdef PyObject* data[3]
    cdef Invoker invoker
    data[0], data[1], data[2] = <PyObject*> x, <PyObject*> y, <PyObject*> workSpace
    _require_unscaled(alpha, beta)
    invoker = recall(h, stamp, 3, call_number(MX_LRN_FORWARD, save))
    if invoker is None:
        invoker = prepare(h, LRNProblem(lrn, xd, yd, save=save), stamp, 3, call_number(MX_LRN_FORWARD, save))
    launch(h, invoker, order, 3, data, _FORWARD, _NO_SCALARS)


def miopenLRNBackward(handle, lrnDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx, workSpace):
    """dx = dy * scale^-lrnBeta - 2 lrnAlpha lrnBeta / m * x * (sum of dy * y / scale over the mirrored window).

    y and the scales, in `workSpace`, are those that miopenLRNForward wrote with do_backward, for the same yDesc.
    Everything else is as for miopenLRNForward.
    """
    cdef Handle h = as_handle(handle)
    cdef LRNDescriptor lrn = as_lrn(lrnDesc, "lrnDesc")
    cdef TensorDescriptor yd = as_tensor(yDesc, "yDesc"), dyd = as_tensor(dyDesc, "dyDesc")
    cdef TensorDescriptor xd = as_tensor(xDesc, "xDesc"), dxd = as_tensor(dxDesc, "dxDesc")
    cdef uint64_t[5] stamp = [lrn.stamp, yd.stamp, dyd.stamp, xd.stamp, dxd.stamp]
    cdef int[5] order = [LRN_Y, LRN_DY, LRN_X, LRN_DX, LRN_SCALES]
    cdef PyObject* data[5]
    cdef Invoker invoker
    data[0], data[1], data[2] = <PyObject*> y, <PyObject*> dy, <PyObject*> x
    data[3], data[4] = <PyObject*> dx, <PyObject*> workSpace
    _require_unscaled(alpha, beta)
    invoker = recall(h, stamp, 5, call_number(MX_LRN_BACKWARD, 0))
    if invoker is None:
        invoker = prepare(h, LRNProblem(lrn, xd, yd, dxd, dyd), stamp, 5, call_number(MX_LRN_BACKWARD, 0))
    launch(h, invoker, order, 5, data, _BACKWARD, _NO_SCALARS)


def plan_lrn_forward(handle, lrn_desc, x_desc, y_desc, do_backward):
    """Body of Handle.lrn_forward."""
    cdef LRNDescriptor lrn = as_lrn(lrn_desc, "lrn_desc")
    cdef TensorDescriptor x = as_tensor(x_desc, "x_desc"), y = as_tensor(y_desc, "y_desc")
    cdef bint save = to_flag(do_backward, "do_backward")
    cdef int[3] order = [LRN_X, LRN_Y, LRN_SCALES]
    return plan_of(handle, lambda: LRNProblem(lrn, x, y, save=save), order, 3 if save else 2, _FORWARD, (lrn, x, y),
                   ("lrn_desc", "x_desc", "y_desc"), ())


def plan_lrn_backward(handle, lrn_desc, y_desc, dy_desc, x_desc, dx_desc):
    """Body of Handle.lrn_backward."""
    cdef LRNDescriptor lrn = as_lrn(lrn_desc, "lrn_desc")
    cdef TensorDescriptor y = as_tensor(y_desc, "y_desc"), dy = as_tensor(dy_desc, "dy_desc")
    cdef TensorDescriptor x = as_tensor(x_desc, "x_desc"), dx = as_tensor(dx_desc, "dx_desc")
    cdef int[5] order = [LRN_Y, LRN_DY, LRN_X, LRN_DX, LRN_SCALES]
    return plan_of(handle, lambda: LRNProblem(lrn, x, y, dx, dy), order, 5, _BACKWARD, (lrn, y, dy, x, dx),
                   ("lrn_desc", "y_desc", "dy_desc", "x_desc", "dx_desc"), ())


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
