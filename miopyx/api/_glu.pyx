"""Gated linear units of miopen.h.

Names and argument order are the header's; failures became exceptions.
"""

from miopyx.problem._elements cimport GLU_DX, GLU_DY, GLU_X
from miopyx.values._args cimport to_int
from miopyx.values._types cimport MX_AXES, MX_GLU, MX_GLU_BACKWARD
from ._operation cimport Signature, arg_t, require_handle

from miopyx.errors import BadParmError
from miopyx.problem._elements import GLUProblem

# Flags of a call: the axis.
cdef Signature _FORWARD = Signature(MX_GLU, GLUProblem, ("inputDesc", "outputDesc"),
                                    {"input": GLU_X, "output": GLU_DY}, scalars=0)
cdef Signature _BACKWARD = Signature(
    MX_GLU_BACKWARD, GLUProblem, ("inputDesc", "outputGradDesc", "inputGradDesc"),
    {"input": GLU_X, "outputGrad": GLU_DY, "inputGrad": GLU_DX}, scalars=0)


cdef int _axis(object dim) except -1:
    cdef int axis = to_int(dim, "dim")
    if axis < 0 or axis >= MX_AXES:
        raise BadParmError("axis that is split", "dim", axis, "0 ... inputDesc's rank - 1")
    return axis


def miopenGLUForward(handle, inputDesc, input, outputDesc, output, dim):
    """output = a / (1 + e^-b), where a and b are the halves of input along axis dim.

    Arithmetic is float32, for float64 float64.

    Parameters
    ----------
    handle : Handle
    inputDesc, outputDesc : TensorDescriptor
        1 to 5 dimensions of equal types (float16, bfloat16, float32, float64); output has half of input's length along
        dim and is else of its lengths; any strides.
    input, output : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say and share no memory.
    dim : int
        0 to input's rank - 1.

    Raises
    ------
    BadParmError
        For lengths or types that do not fit each other, an odd length, an axis that input does not have, or a buffer
        that does not fit or is missing; nothing was run then.
    MIOpenNotImplementedError
        For another type, and more dimensions.
    """
    require_handle(handle)
    cdef arg_t[2] descriptors = [<arg_t> inputDesc, <arg_t> outputDesc]
    cdef arg_t[2] buffers = [<arg_t> input, <arg_t> output]
    _FORWARD.run(handle, descriptors, buffers, NULL, _axis(dim), 0)


def miopenGLUBackward(handle, inputDesc, input, outputGradDesc, outputGrad, inputGradDesc, inputGrad, dim):
    """The gradient of miopenGLUForward for its input, from that for its output.

        da = dy s,  db = dy a s (1 - s)        s = 1 / (1 + e^-b)

    Parameters
    ----------
    handle : Handle
    inputDesc, inputGradDesc : TensorDescriptor
        As input's for miopenGLUForward, of equal lengths and types.
    outputGradDesc : TensorDescriptor
        As output's there.
    input, outputGrad, inputGrad : memory of the handle's device
        inputGrad may be the same memory as input.
    dim : int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenGLUForward.
    """
    require_handle(handle)
    cdef arg_t[3] descriptors = [<arg_t> inputDesc, <arg_t> outputGradDesc, <arg_t> inputGradDesc]
    cdef arg_t[3] buffers = [<arg_t> input, <arg_t> outputGrad, <arg_t> inputGrad]
    _BACKWARD.run(handle, descriptors, buffers, NULL, _axis(dim), 0)


def plan_glu_forward(handle, input_desc, output_desc, dim):
    """Body of Handle.glu_forward."""
    return _FORWARD.plan(handle, (input_desc, output_desc), _axis(dim), 0)


def plan_glu_backward(handle, input_desc, output_grad_desc, input_grad_desc, dim):
    """Body of Handle.glu_backward."""
    return _BACKWARD.plan(handle, (input_desc, output_grad_desc, input_grad_desc), _axis(dim), 0)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
