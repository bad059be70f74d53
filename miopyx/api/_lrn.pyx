"""Local response normalisation functions of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from miopyx.values._args cimport to_double, to_flag
from miopyx.problem._descriptors cimport as_tensor, check_descriptor
from miopyx.values._types cimport MX_LRN_BACKWARD, MX_LRN_FORWARD, MX_SCALARS
from miopyx.problem._lrn cimport LRN_DX, LRN_DY, LRN_SCALES, LRN_X, LRN_Y, LRNDescriptor, as_lrn, workspace_bytes
from ._operation cimport Signature, arg_t, require_handle

from miopyx.problem._descriptors import destroy
from miopyx.errors import UnknownError
from miopyx.problem._lrn import LRNProblem

# Flags of a forward call: 1 where the scales are wanted.
cdef Signature _FORWARD = Signature(
    MX_LRN_FORWARD, lambda flags, lrn, x, y: LRNProblem(lrn, x, y, save=flags),
    ("lrnDesc", "xDesc", "yDesc"), {"x": LRN_X, "y": LRN_Y, "workSpace": LRN_SCALES}, first=LRNDescriptor, optional=1)
cdef Signature _BACKWARD = Signature(
    MX_LRN_BACKWARD, lambda flags, lrn, y, dy, x, dx: LRNProblem(lrn, x, y, dx, dy),
    ("lrnDesc", "yDesc", "dyDesc", "xDesc", "dxDesc"),
    {"y": LRN_Y, "dy": LRN_DY, "x": LRN_X, "dx": LRN_DX, "workSpace": LRN_SCALES}, first=LRNDescriptor)
cdef enum:
    NO_SCALES = 1 << 2     # among the forward buffers
cdef double[MX_SCALARS] _NO_NUMBERS = [0, 0, 0, 0, 0, 0, 0, 0]


def miopenCreateLRNDescriptor():
    """Return an empty LRNDescriptor."""
    return LRNDescriptor()


def miopenSetLRNDescriptor(lrnDesc, mode, lrnN, lrnAlpha, lrnBeta, lrnK):
    """Set mode, window and coefficients, by the names of miopenLRNForward.

    Parameters
    ----------
    lrnDesc : LRNDescriptor
    mode : miopenLRNMode_t
        Within a channel, or across channels.
    lrnN : int
        Length of the window, 0 ... 2^32 - 1; computing takes at least 1.
    lrnAlpha, lrnBeta, lrnK : float
        Finite; computing takes another lrnK than 0.

    Raises
    ------
    BadParmError
        For an unknown mode or a number out of range; the descriptor stays as it was.
    """
    cdef LRNDescriptor desc = check_descriptor(lrnDesc, LRNDescriptor, "lrnDesc")
    desc.set(mode, lrnN, lrnAlpha, lrnBeta, lrnK)


def miopenGetLRNDescriptor(lrnDesc):
    """Return the mode and the parameters of a local response normalisation.

    Parameters
    ----------
    lrnDesc : LRNDescriptor

    Returns
    -------
    (mode, lrnN, lrnAlpha, lrnBeta, lrnK)
        As miopenSetLRNDescriptor took them.

    Raises
    ------
    BadParmError
        For anything but an LRNDescriptor that was set and not destroyed.
    """
    cdef LRNDescriptor desc = as_lrn(lrnDesc, "lrnDesc").copied()  # of one moment
    desc.require_set()
    return desc.mode, desc.n_set, desc.alpha_set, desc.beta_set, desc.k_set


def miopenDestroyLRNDescriptor(lrnDesc):
    """End the descriptor's life; using it afterwards is a BadParmError.  Plans that were made with it go on.

    Parameters
    ----------
    lrnDesc : LRNDescriptor or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    destroy(lrnDesc, LRNDescriptor, "lrnDesc")


def miopenLRNGetWorkSpaceSize(yDesc):
    """Return the bytes of the scales, which the forward call stores for the backward one.

    They have y's strides and are float32, for float64 tensors float64.

    Parameters
    ----------
    yDesc : TensorDescriptor

    Raises
    ------
    BadParmError
        Where the descriptor was never set.
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
    negative scale gives NaN.  The formula is that of Krizhevsky, Sutskever and Hinton (NIPS 2012, 3.3) but for the
    division by m.

    Parameters
    ----------
    handle : Handle
    lrnDesc : LRNDescriptor
    alpha, beta : float
        1 and 0, or None.
    xDesc, yDesc : TensorDescriptor
        Equal lengths, four (across channels: or five) of them, and types (float16, float32, bfloat16, float64); any
        strides.
    x, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  They do not
        overlap.
    do_backward : bool
        Whether the scales are wanted.
    workSpace : memory of the handle's device, or None
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
    require_handle(handle)
    cdef bint save = to_flag(do_backward, "do_backward")
    cdef arg_t[3] descriptors = [<arg_t> lrnDesc, <arg_t> xDesc, <arg_t> yDesc]
    cdef arg_t[3] buffers = [<arg_t> x, <arg_t> y, <arg_t> workSpace]
    _require_unscaled(alpha, beta)
    _FORWARD.run(handle, descriptors, buffers, _NO_NUMBERS, save, 0 if save else NO_SCALES)


def miopenLRNBackward(handle, lrnDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx, workSpace):
    """dx = dy * scale^-lrnBeta - 2 lrnAlpha lrnBeta / m * x * (sum of dy * y / scale over the mirrored window).

    m, window and scale are those of miopenLRNForward.

    Parameters
    ----------
    handle : Handle
    lrnDesc : LRNDescriptor
    alpha, beta : float
        1 and 0, or None.
    yDesc, dyDesc, xDesc, dxDesc : TensorDescriptor
        Equal lengths and types, any strides, as for miopenLRNForward.
    y, dy, x, dx : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  dx overlaps
        none.  y is what miopenLRNForward wrote.
    workSpace : memory of the handle's device
        The scales that it wrote with do_backward, for the same yDesc.

    Raises
    ------
    UnknownError, BadParmError, MIOpenNotImplementedError
        As for miopenLRNForward.
    """
    require_handle(handle)
    cdef arg_t[5] descriptors = [<arg_t> lrnDesc, <arg_t> yDesc, <arg_t> dyDesc, <arg_t> xDesc, <arg_t> dxDesc]
    cdef arg_t[5] buffers = [<arg_t> y, <arg_t> dy, <arg_t> x, <arg_t> dx, <arg_t> workSpace]
    _require_unscaled(alpha, beta)
    _BACKWARD.run(handle, descriptors, buffers, _NO_NUMBERS, 0, 0)


def plan_lrn_forward(handle, lrn_desc, x_desc, y_desc, do_backward):
    """Body of Handle.lrn_forward."""
    cdef bint save = to_flag(do_backward, "do_backward")
    return _FORWARD.plan(handle, (lrn_desc, x_desc, y_desc), save, 0 if save else NO_SCALES)


def plan_lrn_backward(handle, lrn_desc, y_desc, dy_desc, x_desc, dx_desc):
    """Body of Handle.lrn_backward."""
    return _BACKWARD.plan(handle, (lrn_desc, y_desc, dy_desc, x_desc, dx_desc), 0, 0)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
