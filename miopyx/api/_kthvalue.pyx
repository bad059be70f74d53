"""The k-th smallest numbers along an axis, of miopen.h.

Names and argument order are the header's; failures became exceptions.
"""

from libc.stdint cimport int64_t

from miopyx.problem._kthvalue cimport KTH_INDICES, KTH_X, KTH_Y
from miopyx.values._args cimport to_flag, to_int, to_int64
from miopyx.values._types cimport MX_AXES, MX_KTH
from ._operation cimport Signature, arg_t, require_handle

from miopyx.errors import BadParmError
from miopyx.problem._kthvalue import KthProblem

# Flags of a call: whether the axis is kept, the axis + 5, k.
cdef enum:
    AXIS = 1
    K = 5
    LARGEST = 0x7fffffff

cdef Signature _FORWARD = Signature(
    MX_KTH, lambda flags, *descriptors: KthProblem(*descriptors, flags >> K, (flags >> AXIS & 15) - MX_AXES, flags & 1),
    ("inputDesc", "outputDesc", "indicesDesc"), {"input": KTH_X, "output": KTH_Y, "indices": KTH_INDICES}, scalars=0)


cdef int64_t _flags(object k, object dim, object keep_dim, str name) except -1:
    cdef int64_t number = to_int64(k, "k")
    cdef int axis = to_int(dim, "dim")
    cdef bint kept = to_flag(keep_dim, name)
    if number < 1 or number > LARGEST:
        raise BadParmError("number of a k-th value", "k", number, "1 ... the length of dim")
    if axis < -MX_AXES or axis >= MX_AXES:
        raise BadParmError("axis of a k-th value", "dim", axis, "an axis of inputDesc")
    return number << K | (axis + MX_AXES) << AXIS | kept


def miopenKthvalueForward(handle, inputDesc, input, outputDesc, output, indicesDesc, indices, k, dim, keepDim):
    """The k-th smallest number of each row of input along axis dim, and the first place in the row where it is.

    -0 and 0 are equal, NaN comes last.

    Parameters
    ----------
    handle : Handle
    inputDesc : TensorDescriptor
        1 to 5 dimensions (float16, bfloat16, float32, float64), any strides.
    outputDesc : TensorDescriptor
        Of input's type and its lengths without dim's, with keepDim 1 in its place; any strides.
    indicesDesc : TensorDescriptor
        int64 of the same lengths.
    input, output, indices : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.
    k : int
        From 1, the smallest, to the length of dim.
    dim : int
        0 to input's rank - 1; below 0 counted from the end, the header's default being -1.
    keepDim : bool

    Raises
    ------
    BadParmError
        For lengths or types that do not fit each other, a k or an axis that is not there, or a buffer that does not fit
        or is missing; nothing was run then.
    MIOpenNotImplementedError
        For another type, more dimensions, and rows of 2^31 numbers.
    """
    require_handle(handle)
    cdef arg_t[3] descriptors = [<arg_t> inputDesc, <arg_t> outputDesc, <arg_t> indicesDesc]
    cdef arg_t[3] buffers = [<arg_t> input, <arg_t> output, <arg_t> indices]
    _FORWARD.run(handle, descriptors, buffers, NULL, _flags(k, dim, keepDim, "keepDim"), 0)


def plan_kthvalue_forward(handle, input_desc, output_desc, indices_desc, k, dim, keep_dim):
    """Body of Handle.kthvalue_forward."""
    return _FORWARD.plan(handle, (input_desc, output_desc, indices_desc), _flags(k, dim, keep_dim, "keep_dim"), 0)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
