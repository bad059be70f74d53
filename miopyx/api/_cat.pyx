"""Concatenation of miopen.h.

Names and argument order are the header's; failures became exceptions.
"""

from miopyx.values._args cimport to_int
from miopyx.values._types cimport MX_AXES, MX_CAT, MX_TENSORS
from ._operation cimport Signature, arg_t, require_handle, sequence_of

from miopyx.errors import BadParmError, MIOpenNotImplementedError
from miopyx.problem._cat import CatProblem

cdef enum:
    MOST = MX_TENSORS - 1    # tensors of a call

# One for each number of tensors, made when it is first asked for.  Flags of a call: the axis.
cdef list _SIGNATURES = [None] * (MOST + 1)


def _problem_of(axis, *descriptors):
    count = len(descriptors) - 1
    return CatProblem(axis, descriptors[:count], descriptors[count])


cdef Signature _signature(int count):
    if _SIGNATURES[count] is None:
        _SIGNATURES[count] = Signature(
            MX_CAT, _problem_of, (*[f"xDescs[{i}]" for i in range(count)], "yDesc"),
            {**{f"xs[{i}]": i for i in range(count)}, "y": count}, scalars=0)
    return <Signature> _SIGNATURES[count]


cdef int _count(int count, str name) except -1:
    if count < 1:
        raise BadParmError("tensors of a concatenation", name, count, f"1 ... {MOST}")
    if count > MOST:
        raise MIOpenNotImplementedError("tensors of a concatenation", name, count, f"1 ... {MOST}")
    return count


cdef int _axis(object dim) except -1:
    cdef int axis = to_int(dim, "dim")
    if axis < 0 or axis >= MX_AXES:
        raise BadParmError("axis of a concatenation", "dim", axis, "0 ... yDesc's rank - 1")
    return axis


def miopenCatForward(handle, xCount, xDescs, xs, yDesc, y, dim):
    """y = the tensors of xs one behind the other along axis dim.

    Parameters
    ----------
    handle : Handle
    xCount : int
        1 to 15.
    xDescs : list of TensorDescriptor
        1 to 5 dimensions of y's type, any, and of y's lengths but along dim; any strides.
    xs : list of memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.
    yDesc : TensorDescriptor
        Any strides; along dim it has the sum of their lengths.
    y : memory of the handle's device
        Shares no memory with those of xs.
    dim : int
        0 to y's rank - 1.

    Raises
    ------
    BadParmError
        For lengths or types that do not fit each other, an axis that y does not have, lists of another length than
        xCount, or a buffer that does not fit or is missing; nothing was run then.
    MIOpenNotImplementedError
        For more tensors or dimensions.
    """
    require_handle(handle)
    cdef int count = _count(to_int(xCount, "xCount"), "xCount"), axis = _axis(dim), i
    cdef arg_t[MX_TENSORS] descriptors
    cdef arg_t[MX_TENSORS + 1] buffers
    cdef tuple kinds = sequence_of(xDescs, count, "xDescs"), data = sequence_of(xs, count, "xs")
    for i in range(count):
        descriptors[i], buffers[i] = <arg_t> kinds[i], <arg_t> data[i]
    descriptors[count], buffers[count] = <arg_t> yDesc, <arg_t> y
    _signature(count).run(handle, descriptors, buffers, NULL, axis, 0)


def plan_cat_forward(handle, x_descs, y_desc, dim):
    """Body of Handle.cat_forward."""
    cdef int axis = _axis(dim), count
    if not isinstance(x_descs, (list, tuple)):
        raise BadParmError("not a list", "x_descs", type(x_descs).__name__, "a list of TensorDescriptors")
    count = _count(len(x_descs), "x_descs")
    return _signature(count).plan(handle, (*x_descs, y_desc), axis, 0)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
