"""Rotary positional embeddings of miopen.h.

Names and argument order are the header's; failures became exceptions.
"""

from miopyx.problem._elements cimport ROPE_COS, ROPE_SIN, ROPE_X, ROPE_Y
from miopyx.values._types cimport MX_ROPE, MX_ROPE_BACKWARD
from ._operation cimport Signature, arg_t, require_handle

from miopyx.problem._elements import RoPEProblem

cdef Signature _FORWARD = Signature(
    MX_ROPE, lambda flags, *descriptors: RoPEProblem(False, *descriptors), ("xDesc", "cosDesc", "sinDesc", "yDesc"),
    {"x": ROPE_X, "cos": ROPE_COS, "sin": ROPE_SIN, "y": ROPE_Y}, scalars=0)
cdef Signature _BACKWARD = Signature(
    MX_ROPE_BACKWARD, lambda flags, *descriptors: RoPEProblem(True, *descriptors),
    ("dyDesc", "cosDesc", "sinDesc", "dxDesc"), {"dy": ROPE_X, "cos": ROPE_COS, "sin": ROPE_SIN, "dx": ROPE_Y},
    scalars=0)


def miopenRoPEForward(handle, xDesc, x, cosDesc, cos, sinDesc, sin, yDesc, y):
    """Rotate pairs of neighbours along the last axis of x.

        y[2i] = x[2i] cos[2i] - x[2i + 1] sin[2i]        y[2i + 1] = x[2i + 1] cos[2i + 1] + x[2i] sin[2i + 1]

    Arithmetic is float32, for float64 float64.

    Parameters
    ----------
    handle : Handle
    xDesc, yDesc : TensorDescriptor
        1 to 5 dimensions of equal lengths and equal types (float16, bfloat16, float32, float64), any strides; the last
        length is even.
    cosDesc, sinDesc : TensorDescriptor
        Of x's type and of equal lengths: the last ones of x, where all but the last may be 1; any strides.
    x, cos, sin, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  y may be the same memory as x.

    Raises
    ------
    BadParmError
        For lengths or types that do not fit each other, or a buffer that does not fit or is missing; nothing was run
        then.
    MIOpenNotImplementedError
        For another type, and more dimensions.
    """
    require_handle(handle)
    cdef arg_t[4] descriptors = [<arg_t> xDesc, <arg_t> cosDesc, <arg_t> sinDesc, <arg_t> yDesc]
    cdef arg_t[4] buffers = [<arg_t> x, <arg_t> cos, <arg_t> sin, <arg_t> y]
    _FORWARD.run(handle, descriptors, buffers, NULL, 0, 0)


def miopenRoPEBackward(handle, dyDesc, dy, cosDesc, cos, sinDesc, sin, dxDesc, dx):
    """The gradient of miopenRoPEForward for x, from that for y.

        dx[2i] = dy[2i] cos[2i] + dy[2i + 1] sin[2i + 1]        dx[2i + 1] = dy[2i + 1] cos[2i + 1] - dy[2i] sin[2i]

    Parameters
    ----------
    handle : Handle
    dyDesc, dy, dxDesc, dx
        As x and y for miopenRoPEForward.
    cosDesc, cos, sinDesc, sin
        As for miopenRoPEForward.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenRoPEForward.
    """
    require_handle(handle)
    cdef arg_t[4] descriptors = [<arg_t> dyDesc, <arg_t> cosDesc, <arg_t> sinDesc, <arg_t> dxDesc]
    cdef arg_t[4] buffers = [<arg_t> dy, <arg_t> cos, <arg_t> sin, <arg_t> dx]
    _BACKWARD.run(handle, descriptors, buffers, NULL, 0, 0)


def plan_rope_forward(handle, x_desc, cos_desc, sin_desc, y_desc):
    """Body of Handle.rope_forward."""
    return _FORWARD.plan(handle, (x_desc, cos_desc, sin_desc, y_desc), 0, 0)


def plan_rope_backward(handle, dy_desc, cos_desc, sin_desc, dx_desc):
    """Body of Handle.rope_backward."""
    return _BACKWARD.plan(handle, (dy_desc, cos_desc, sin_desc, dx_desc), 0, 0)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
