"""Soft margin and multi-margin losses of miopen.h; CTC is in _ctc.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from libc.stdint cimport int64_t

from miopyx.engine._binding cimport workspace_bytes
from miopyx.engine._plan cimport Plan
from miopyx.problem._elements cimport MARGIN_DX, MARGIN_DY, MARGIN_T, MARGIN_X
from miopyx.problem._multimargin cimport MULTI_TARGET, MULTI_WEIGHT, MULTI_X, MULTI_Y
from miopyx.values._args cimport raise_unknown, to_double, to_int64, to_member
from miopyx.values._types cimport MX_MULTI_MARGIN, MX_SOFT_MARGIN, MX_SOFT_MARGIN_BACKWARD
from ._operation cimport Signature, arg_t, require_handle

from miopyx.errors import BadParmError
from miopyx.problem._elements import SoftMarginProblem
from miopyx.problem._multimargin import MultiMarginProblem

# Flags of a call: the reduction; of multi-margin losses also p.
cdef Signature _SOFT = Signature(MX_SOFT_MARGIN, SoftMarginProblem, ("inputDesc", "targetDesc", "outputDesc"),
                                 {"input": MARGIN_X, "target": MARGIN_T, "output": MARGIN_DY}, scalars=0)
cdef Signature _SOFT_BACKWARD = Signature(
    MX_SOFT_MARGIN_BACKWARD, SoftMarginProblem, ("inputDesc", "targetDesc", "doutputDesc", "dinputDesc"),
    {"input": MARGIN_X, "target": MARGIN_T, "doutput": MARGIN_DY, "dinput": MARGIN_DX}, scalars=0)
cdef Signature _MULTI = Signature(
    MX_MULTI_MARGIN, lambda flags, *descriptors: MultiMarginProblem(flags >> 2, flags & 3, *descriptors),
    ("inputDesc", "targetDesc", "weightDesc", "outputDesc"),
    {"input": MULTI_X, "target": MULTI_TARGET, "weight": MULTI_WEIGHT, "output": MULTI_Y},
    (("margin", 1.0),), scalars=1)


cdef int _reduction(object reduction) except -1:
    cdef int number = to_member(reduction, "miopenLossReductionMode_t", "reduction")
    if number < 0 or number > 2:
        raise_unknown(reduction, "miopenLossReductionMode_t", "reduction")
    return number


cdef int _multi_flags(object p, object reduction) except -1:
    cdef int64_t power = to_int64(p, "p")
    if power != 1 and power != 2:
        raise BadParmError("power of a multi-margin loss", "p", power, "1 or 2")
    return <int> power << 2 | _reduction(reduction)


def miopenGetSoftMarginLossForwardWorkspaceSize(handle, inputDesc, targetDesc, outputDesc, reduction):
    """Return the bytes of workspace that miopenSoftMarginLossForward needs.

    Parameters
    ----------
    handle : Handle
    inputDesc, targetDesc, outputDesc : TensorDescriptor
    reduction : miopenLossReductionMode_t
        As miopenSoftMarginLossForward takes them.

    Returns
    -------
    int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenSoftMarginLossForward.
    """
    require_handle(handle)
    cdef arg_t[3] descriptors = [<arg_t> inputDesc, <arg_t> targetDesc, <arg_t> outputDesc]
    return _SOFT.workspace_of(handle, descriptors, _reduction(reduction))


def miopenSoftMarginLossForward(handle, inputDesc, input, targetDesc, target, outputDesc, output, reduction,
                                workspace, workspaceSizeInBytes):
    """log(1 + e^(-input target)), element by element, or the sum or the mean of these losses.

    Arithmetic is float32, for float64 float64; the order of the sum is fixed.

    Parameters
    ----------
    handle : Handle
    inputDesc, targetDesc : TensorDescriptor
        1 to 5 dimensions of equal lengths and equal types (float16, bfloat16, float32, float64), any strides.
    outputDesc : TensorDescriptor
        Of their type; of their lengths, or with a reduction of one element.
    input, target, output : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  Without a reduction output may be the same
        memory as input or target.
    reduction : miopenLossReductionMode_t
    workspace : memory of the handle's device, or None
        Of what miopenGetSoftMarginLossForwardWorkspaceSize says; None where that is 0.
    workspaceSizeInBytes : int

    Raises
    ------
    UnknownError
        For a workspace that is too small.
    BadParmError
        For lengths or types that do not fit each other, an unknown reduction, or a buffer that does not fit or is
        missing; nothing was run then.
    MIOpenNotImplementedError
        For another type, and more dimensions.
    """
    require_handle(handle)
    cdef arg_t[3] descriptors = [<arg_t> inputDesc, <arg_t> targetDesc, <arg_t> outputDesc]
    cdef arg_t[4] buffers = [<arg_t> input, <arg_t> target, <arg_t> output, <arg_t> workspace]
    _SOFT.run(handle, descriptors, buffers, NULL, _reduction(reduction), 0,
              workspace_bytes(workspaceSizeInBytes, "workspaceSizeInBytes"))


def miopenSoftMarginLossBackward(handle, inputDesc, input, targetDesc, target, doutputDesc, doutput, dinputDesc, dinput,
                                 reduction):
    """dinput = -doutput target / (1 + e^(input target)), for the mean divided by the number of elements.

    Parameters
    ----------
    handle : Handle
    inputDesc, targetDesc, doutputDesc, dinputDesc : TensorDescriptor
        As input's for miopenSoftMarginLossForward, all alike: doutput has a number for each element with a reduction,
        too.
    input, target, doutput, dinput : memory of the handle's device
        dinput may be the same memory as any of the others.
    reduction : miopenLossReductionMode_t

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenSoftMarginLossForward.
    """
    require_handle(handle)
    cdef arg_t[4] descriptors = [<arg_t> inputDesc, <arg_t> targetDesc, <arg_t> doutputDesc, <arg_t> dinputDesc]
    cdef arg_t[4] buffers = [<arg_t> input, <arg_t> target, <arg_t> doutput, <arg_t> dinput]
    _SOFT_BACKWARD.run(handle, descriptors, buffers, NULL, _reduction(reduction), 0)


def miopenGetMultiMarginLossForwardWorkspaceSize(handle, inputDesc, targetDesc, weightDesc, outputDesc, p, margin,
                                                 reduction):
    """Return the bytes of workspace that miopenMultiMarginLossForward needs.

    Parameters
    ----------
    handle : Handle
    inputDesc, targetDesc, weightDesc, outputDesc : TensorDescriptor
    p : int
    margin : float
    reduction : miopenLossReductionMode_t
        As miopenMultiMarginLossForward takes them.

    Returns
    -------
    int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenMultiMarginLossForward.
    """
    require_handle(handle)
    to_double(margin, "margin")
    cdef arg_t[4] descriptors = [<arg_t> inputDesc, <arg_t> targetDesc, <arg_t> weightDesc, <arg_t> outputDesc]
    return _MULTI.workspace_of(handle, descriptors, _multi_flags(p, reduction))


def miopenMultiMarginLossForward(handle, inputDesc, input, targetDesc, target, weightDesc, weight, outputDesc, output,
                                 p, margin, reduction, workspace, workspaceSizeInBytes):
    """The multi-margin loss of each row of input, or the sum or the mean of these losses.

        loss[n] = weight[t] / C sum of max(0, margin - input[n, t] + input[n, c])^p over classes c but t = target[n]

    Arithmetic is float32, for float64 float64; the order of the sums is fixed.  A target that is no class gives NaN.

    Parameters
    ----------
    handle : Handle
    inputDesc : TensorDescriptor
        N, C (float16, bfloat16, float32, float64), any strides.
    targetDesc : TensorDescriptor
        int64, N.
    weightDesc : TensorDescriptor
        Of input's type, C.
    outputDesc : TensorDescriptor
        Of input's type: N, or with a reduction 1.
    input, target, weight, output : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.
    p : int
        1 or 2.
    margin : float
    reduction : miopenLossReductionMode_t
    workspace : memory of the handle's device, or None
        Of what miopenGetMultiMarginLossForwardWorkspaceSize says; None where that is 0.
    workspaceSizeInBytes : int

    Raises
    ------
    UnknownError
        For a workspace that is too small.
    BadParmError
        For lengths or types that do not fit each other, another p, an unknown reduction, or a buffer that does not fit
        or is missing; nothing was run then.
    MIOpenNotImplementedError
        For another type.
    """
    require_handle(handle)
    cdef double[1] numbers = [to_double(margin, "margin")]
    cdef arg_t[4] descriptors = [<arg_t> inputDesc, <arg_t> targetDesc, <arg_t> weightDesc, <arg_t> outputDesc]
    cdef arg_t[5] buffers = [<arg_t> input, <arg_t> target, <arg_t> weight, <arg_t> output, <arg_t> workspace]
    _MULTI.run(handle, descriptors, buffers, numbers, _multi_flags(p, reduction), 0,
               workspace_bytes(workspaceSizeInBytes, "workspaceSizeInBytes"))


def plan_soft_margin_loss_forward(handle, input_desc, target_desc, output_desc, reduction):
    """Body of Handle.soft_margin_loss_forward."""
    return _SOFT.plan(handle, (input_desc, target_desc, output_desc), _reduction(reduction), 0)


def plan_soft_margin_loss_backward(handle, input_desc, target_desc, doutput_desc, dinput_desc, reduction):
    """Body of Handle.soft_margin_loss_backward."""
    return _SOFT_BACKWARD.plan(handle, (input_desc, target_desc, doutput_desc, dinput_desc), _reduction(reduction), 0)


def plan_multi_margin_loss_forward(handle, input_desc, target_desc, weight_desc, output_desc, p, margin, reduction):
    """Body of Handle.multi_margin_loss_forward."""
    cdef double number = to_double(margin, "margin")
    cdef Plan plan = _MULTI.plan(handle, (input_desc, target_desc, weight_desc, output_desc),
                                 _multi_flags(p, reduction), 0)
    plan.default[0] = number
    return plan


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
