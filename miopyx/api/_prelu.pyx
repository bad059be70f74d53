"""The gradients of a parametric ReLU, of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from miopyx.engine._binding cimport workspace_bytes
from miopyx.engine._handle cimport as_handle
from miopyx.problem._descriptors cimport TensorDescriptor, as_tensor
from miopyx.problem._elements cimport PRELU_DW, PRELU_DX, PRELU_DY, PRELU_W, PRELU_X
from miopyx.values._types cimport MX_PRELU_BACKWARD
from ._operation cimport Signature, arg_t, require_handle

from miopyx.problem._elements import PReLUProblem

cdef Signature _BACKWARD = Signature(
    MX_PRELU_BACKWARD, lambda flags, *descriptors: PReLUProblem(*descriptors),
    ("inputDesc", "weightDesc", "doutputDesc", "dinputDesc", "dweightDesc"),
    {"input": PRELU_X, "weight": PRELU_W, "doutput": PRELU_DY, "dinput": PRELU_DX, "dweight": PRELU_DW}, scalars=0)


def miopenGetPReLUBackwardWorkspaceSize(handle, inputDesc, weightDesc):
    """Return the bytes of workspace that miopenPReLUBackward needs.

    Parameters
    ----------
    handle : Handle
    inputDesc, weightDesc : TensorDescriptor
        As miopenPReLUBackward takes them.

    Returns
    -------
    int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenPReLUBackward.
    """
    as_handle(handle)
    cdef TensorDescriptor x = as_tensor(inputDesc, "inputDesc"), w = as_tensor(weightDesc, "weightDesc")
    x.require_set("inputDesc")
    w.require_set("weightDesc")
    # What is summed does not depend on how gradients lie.
    dense = TensorDescriptor(x.type, x.lens)
    cdef arg_t[5] descriptors = [<arg_t> x, <arg_t> w, <arg_t> dense, <arg_t> dense, <arg_t> w]
    return _BACKWARD.workspace_of(handle, descriptors, 0)


def miopenPReLUBackward(handle, workspace, workspaceSizeInBytes, inputDesc, input, weightDesc, weight, doutputDesc,
                        doutput, dinputDesc, dinput, dweightDesc, dweight):
    """The gradients of y = x > 0 ? x : w x for its input and its weights, from that for y.

        dinput = x > 0 ? dy : w dy        dweight = sum of (x > 0 ? 0 : x dy)

    over all elements, or where there is a weight for each channel over those of the channel.  Arithmetic is float32,
    for float64 float64; the order of the sum is fixed.

    Parameters
    ----------
    handle : Handle
    workspace : memory of the handle's device, or None
        Of what miopenGetPReLUBackwardWorkspaceSize says; None where that is 0.
    workspaceSizeInBytes : int
    inputDesc, dinputDesc : TensorDescriptor
        1 to 5 dimensions of equal lengths and equal types (float16, bfloat16, float32, float64), any strides.
    doutputDesc : TensorDescriptor
        Of their lengths, of any of these types.
    weightDesc, dweightDesc : TensorDescriptor
        One dimension of length 1 or input's second length, of input's type.
    input, weight, doutput, dinput, dweight : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  dinput may be the same memory as input or
        doutput.

    Raises
    ------
    UnknownError
        For a workspace that is too small.
    BadParmError
        For lengths or types that do not fit each other, or a buffer that does not fit or is missing; nothing was run
        then.
    MIOpenNotImplementedError
        For another type, and more dimensions.
    """
    require_handle(handle)
    cdef arg_t[5] descriptors = [<arg_t> inputDesc, <arg_t> weightDesc, <arg_t> doutputDesc, <arg_t> dinputDesc,
                                 <arg_t> dweightDesc]
    cdef arg_t[6] buffers = [<arg_t> input, <arg_t> weight, <arg_t> doutput, <arg_t> dinput, <arg_t> dweight,
                             <arg_t> workspace]
    _BACKWARD.run(handle, descriptors, buffers, NULL, 0, 0,
                  workspace_bytes(workspaceSizeInBytes, "workspaceSizeInBytes"))


def plan_prelu_backward(handle, input_desc, weight_desc, doutput_desc, dinput_desc, dweight_desc):
    """Body of Handle.prelu_backward."""
    return _BACKWARD.plan(handle, (input_desc, weight_desc, doutput_desc, dinput_desc, dweight_desc), 0, 0)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
