"""The gradient of indexing, of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from libc.stdint cimport int64_t

from miopyx.engine._binding cimport OWN, workspace_bytes
from miopyx.engine._handle cimport Handle, as_handle
from miopyx.problem._descriptors cimport as_tensor
from miopyx.problem._getitem cimport ITEM_DX, ITEM_DY, ITEM_ERROR, ITEM_INDEX, ITEM_MOST, GetitemProblem
from miopyx.values._args cimport read_ints, to_int64
from miopyx.values._types cimport MX_GETITEM
from ._operation cimport Signature, arg_t, run_problem, sequence_of

from miopyx.errors import BadParmError, MIOpenNotImplementedError
from miopyx.problem._getitem import GetitemProblem

cdef enum:
    SLICES = 16            # of a call, at most


cdef int _count(object value, str name, int most) except -1:
    cdef int64_t count = to_int64(value, name)
    if count < 0:
        raise BadParmError("negative", name, count, ">= 0")
    if count > most:
        raise MIOpenNotImplementedError("too many", name, count, f"0 ... {most}")
    return <int> count


cdef list _integers(object values, int count, str name):
    """A list of integers; None is one of none."""
    cdef int64_t[4 * SLICES] out
    if values is None and count == 0:
        return []
    read_ints(values, out, count, False, name)
    return [out[i] for i in range(count)]


def miopenGetGetitemWorkspaceSize(handle, indexCount, indexDescs):
    """Return the bytes of workspace that miopenGetitemBackward needs: 0, it takes memory of the handle's.

    Parameters
    ----------
    handle : Handle
    indexCount : int
    indexDescs : list of TensorDescriptor
        As miopenGetitemBackward takes them.

    Returns
    -------
    int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenGetitemBackward.
    """
    as_handle(handle)
    cdef int count = _count(indexCount, "indexCount", ITEM_MOST), i
    cdef tuple descs = () if indexDescs is None and count == 0 else sequence_of(indexDescs, count, "indexDescs")
    for i in range(count):
        as_tensor(descs[i], f"indexDescs[{i}]").require_set(f"indexDescs[{i}]")
        if descs[i].lens != descs[0].lens:
            raise BadParmError("lengths differ from indexDescs[0]'s", f"indexDescs[{i}]", descs[i].lens, descs[0].lens)
    return 0


def miopenGetitemBackward(handle, workspace, workspaceSizeInBytes, dyDesc, dy, indexCount, indexDescs, indexs, dxDesc,
                          dx, errorDesc, error, dimCount, dims, sliceCount, slices, offset):
    """The gradient of y = x[slices][indices]: dx[slices][indices] += dy.

    dy has dx's axes after slicing, those that are indexed replaced by one: element l along that goes where the l-th
    indices name.  What goes to the same place is summed in float32, for float64 float64, in the order of l, and rounded
    once.

    Parameters
    ----------
    handle : Handle
    workspace : object
        Not looked at.
    workspaceSizeInBytes : int
    dyDesc, dxDesc : TensorDescriptor
        1 to 5 dimensions of equal types (float16, bfloat16, float32, float64), any strides.
    dy, dx : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  dx is added to.
    indexCount : int
        0 to 5.
    indexDescs : list of TensorDescriptor
        int32 or int64, one dimension, all alike.
    indexs : list of memory of the handle's device
        Places along the axes `dims`; below 0 counted from the end.
    errorDesc : TensorDescriptor
        int32, one dimension of indexCount or more; None where there are no indices.
    error : memory of the handle's device, or None
        Element i becomes -1 where tensor i has an index beyond its axis, else it stays; what such indices name is left
        out.
    dimCount : int
        indexCount.
    dims : sequence of int
        Axes of dx, one behind the other.
    sliceCount : int
        0 to 16.
    slices : sequence of int
        For each slice an axis of dx, the first place, the place behind the last one, and a step; one after the other.
    offset : int
        Added to the places along dx's first axis.

    Raises
    ------
    BadParmError
        For lengths or types that do not fit each other, axes or slices that dx does not have, lists of another length
        than their count, or a buffer that does not fit or is missing; nothing was run then.
    MIOpenNotImplementedError
        For another type, more dimensions, indices or slices, and what has 2^31 places.
    """
    cdef Handle h = as_handle(handle)
    cdef int count = _count(indexCount, "indexCount", ITEM_MOST), i
    cdef int axes = _count(dimCount, "dimCount", ITEM_MOST), cuts = _count(sliceCount, "sliceCount", SLICES)
    cdef tuple descs = () if indexDescs is None and count == 0 else sequence_of(indexDescs, count, "indexDescs")
    cdef tuple data = () if indexs is None and count == 0 else sequence_of(indexs, count, "indexs")
    cdef list bounds = _integers(slices, 4 * cuts, "slices")
    cdef int[ITEM_MOST + 3] order
    cdef arg_t[ITEM_MOST + 4] buffers
    workspace_bytes(workspaceSizeInBytes, "workspaceSizeInBytes")
    cdef GetitemProblem problem = GetitemProblem(
        dyDesc, descs, dxDesc, errorDesc, _integers(dims, axes, "dims"),
        [bounds[4 * i:4 * i + 4] for i in range(cuts)], to_int64(offset, "offset"))
    order[0], order[1], order[2] = ITEM_DY, ITEM_DX, ITEM_ERROR if count else -1
    buffers[0], buffers[1], buffers[2] = <arg_t> dy, <arg_t> dx, <arg_t> error
    for i in range(count):
        order[3 + i], buffers[3 + i] = ITEM_INDEX + i, <arg_t> data[i]
    buffers[3 + count] = <arg_t> workspace
    run_problem(h, problem, 3 + count, order, buffers,
                ("dy", "dx", "error", *[f"indexs[{i}]" for i in range(count)], "workspace"), NULL, OWN)


def plan_getitem_backward(handle, dy_desc, index_descs, dx_desc, error_desc, dims, slices, offset):
    """Body of Handle.getitem_backward."""
    cdef int count, cuts, i
    for values, name in ((index_descs, "index_descs"), (dims, "dims"), (slices, "slices")):
        if not isinstance(values, (list, tuple)):
            raise BadParmError("not a list", name, type(values).__name__, "a list")
    count, cuts = _count(len(index_descs), "index_descs", ITEM_MOST), _count(len(slices), "slices", SLICES)
    cdef list axes = _integers(dims, _count(len(dims), "dims", ITEM_MOST), "dims")
    cdef list bounds = [_integers(slices[i], 4, f"slices[{i}]") for i in range(cuts)]
    cdef int64_t first = to_int64(offset, "offset")
    cdef tuple names = ("dy_desc", "dx_desc", *[f"index_descs[{i}]" for i in range(count)],
                        *(("error_desc",) if count else ()))
    cdef dict slots = {"dy": ITEM_DY, **{f"indexs[{i}]": ITEM_INDEX + i for i in range(count)}, "dx": ITEM_DX}
    if count:
        slots["error"] = ITEM_ERROR

    def problem_of(flags, dy, dx, *others):
        return GetitemProblem(dy, others[:count], dx, others[count] if count else None, axes, bounds, first)
    signature = Signature(MX_GETITEM, problem_of, names, slots, scalars=0)
    return signature.plan(handle, (dy_desc, dx_desc, *index_descs, *((error_desc,) if count else ())), 0, 0)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
