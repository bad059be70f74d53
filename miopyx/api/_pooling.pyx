"""Pooling functions of miopen.h."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from miopyx.values._args cimport checked_mul, to_flag, to_int
from miopyx.problem._descriptors cimport MAX_DIMS, TensorDescriptor, as_tensor
from miopyx.engine._handle cimport Handle, as_handle, recall
from miopyx.engine._binding cimport workspace_bytes
from miopyx.engine._invoker cimport Invoker
from miopyx.problem._problem cimport Problem
from miopyx.values._types cimport MX_POOLING_BACKWARD, MX_POOLING_FORWARD, MX_SCALARS
from miopyx.problem._pooling cimport (
    POOL_IN, POOL_INDICES, POOL_MAX, POOL_OUT, PoolingDescriptor, as_pooling, index_size,
)
from ._operation cimport call_number, launch, plan_of, prepare, require_plain_scalars

from miopyx.problem._descriptors import destroy
from miopyx.errors import BadParmError, UnknownError
from miopyx.problem._pooling import PoolingProblem, set_index_mode, set_index_type, set_pooling

cdef tuple _FORWARD_NAMES = ("x", "y", "workSpace", "workSpace")
cdef tuple _BACKWARD_NAMES = ("dy", "dx", "workSpace", "workSpace")


def miopenCreatePoolingDescriptor():
    """Return an empty pooling descriptor: max, 8-bit indices."""
    return PoolingDescriptor()


def miopenSetPoolingIndexType(poolDesc, index_type):
    """Set the type of the indices of maxima, a miopenIndexType_t; setting windows makes it 8 bits again."""
    set_index_type(as_pooling(poolDesc, "poolDesc"), index_type)


def miopenGetPoolingIndexType(poolDesc):
    """Return the miopenIndexType_t."""
    return as_pooling(poolDesc, "poolDesc").workspace_index_type


def miopenSetPoolingWorkSpaceIndexMode(poolDesc, workspace_index):
    """Set what indices of maxima count: positions of the window (mask), pads included, or of the image.

    Setting windows brings back the default: mask in 2-D, image in 3-D.
    """
    set_index_mode(as_pooling(poolDesc, "poolDesc"), workspace_index)


def miopenGetPoolingWorkSpaceIndexMode(poolDesc):
    """Return the miopenPoolingWorkspaceIndexMode_t."""
    return as_pooling(poolDesc, "poolDesc").workspace_index_mode


def miopenSet2dPoolingDescriptor(poolDesc, mode, windowHeight, windowWidth, pad_h, pad_w, stride_h, stride_w):
    """Make `poolDesc` a 2-D pooling; windows and strides >= 1, pads 0 ... window - 1."""
    set_pooling(as_pooling(poolDesc, "poolDesc"), 2, mode, (windowHeight, windowWidth), (pad_h, pad_w),
                (stride_h, stride_w), ("windowHeight, windowWidth", "pad_h, pad_w", "stride_h, stride_w"))


def miopenGet2dPoolingDescriptor(poolDesc):
    """Return (mode, windowHeight, windowWidth, pad_h, pad_w, stride_h, stride_w); BadParmError unless 2-D."""
    cdef PoolingDescriptor desc = as_pooling(poolDesc, "poolDesc")
    if desc.spatial != 2:
        desc.require_set("poolDesc")
        raise BadParmError("not a two-dimensional pooling", "poolDesc", desc.spatial, 2)
    return desc.pooling_mode, *desc.windows, *desc.pads, *desc.strides


def miopenSetNdPoolingDescriptor(poolDesc, mode, nbDims, windowDimA, padA, stridesA):
    """Make `poolDesc` a pooling over nbDims (2 or 3) spatial axes; limits as for miopenSet2dPoolingDescriptor."""
    set_pooling(as_pooling(poolDesc, "poolDesc"), nbDims, mode, windowDimA, padA, stridesA)


def miopenGetNdPoolingDescriptor(poolDesc, nbDimsRequested):
    """Return (mode, nbDims, windowDimA, padA, stridesA), the arrays cut to nbDimsRequested values.

    Raises UnknownError where more are requested than the descriptor has.
    """
    cdef PoolingDescriptor desc = as_pooling(poolDesc, "poolDesc")
    cdef int n = to_int(nbDimsRequested, "nbDimsRequested")
    if n > desc.spatial:
        raise UnknownError("more dimensions than the descriptor has", "nbDimsRequested", n, desc.spatial)
    if n < 0:
        raise BadParmError("negative", "nbDimsRequested", n, ">= 0")
    return desc.pooling_mode, desc.spatial, desc.windows[:n], desc.pads[:n], desc.strides[:n]


def miopenGetPoolingForwardOutputDim(poolDesc, tensorDesc):
    """Return (n, c, h, w) of y; h = trunc((in + 2 pad - window) / stride) + 1, at least 1, and w likewise."""
    cdef PoolingDescriptor desc = as_pooling(poolDesc, "poolDesc")
    cdef TensorDescriptor x = as_tensor(tensorDesc, "tensorDesc")
    cdef int64_t out[MAX_DIMS]
    desc.output_dims(x, "tensorDesc", out)
    if x.ndim != 4:
        raise BadParmError("not four-dimensional", "tensorDesc", x.ndim, 4)
    return out[0], out[1], out[2], out[3]


def miopenGetPoolingNdForwardOutputDim(poolDesc, tensorDesc, dims):
    """Return the lengths of y as a tuple; `dims` is the tensors' rank, 4 or 5.

    trunc((in + 2 pad - window) / stride) + 1 along each spatial axis, at least 1.
    """
    cdef PoolingDescriptor desc = as_pooling(poolDesc, "poolDesc")
    cdef TensorDescriptor x = as_tensor(tensorDesc, "tensorDesc")
    cdef int64_t out[MAX_DIMS]
    cdef int i, n = to_int(dims, "dims")
    desc.output_dims(x, "tensorDesc", out)
    if n != x.ndim:
        raise BadParmError("not the tensor's rank", "dims", n, x.ndim)
    return tuple([out[i] for i in range(n)])


def miopenPoolingGetWorkSpaceSize(yDesc):
    """Return the bytes of 8-bit indices of maxima: one an element of y.  V2 knows the descriptor's index type."""
    cdef TensorDescriptor y = as_tensor(yDesc, "yDesc")
    y.require_set("yDesc")
    return y.elements


def miopenPoolingGetWorkSpaceSizeV2(poolDesc, yDesc):
    """Return the bytes that a pooling keeps for its backward pass: an index an element of y for max, else 0."""
    cdef PoolingDescriptor desc = as_pooling(poolDesc, "poolDesc")
    cdef TensorDescriptor y = as_tensor(yDesc, "yDesc")
    y.require_set("yDesc")
    return checked_mul(y.elements, index_size(desc.index_type), "yDesc") if desc.mode == POOL_MAX else 0


cdef inline int _require_scalars(object alpha, object beta) except -1:
    if (type(alpha) is float or type(alpha) is int) and (type(beta) is float or type(beta) is int):
        if alpha == 1 and beta == 0:
            return 0
    return require_plain_scalars(alpha, beta, UnknownError)


def miopenPoolingForward(handle, poolDesc, alpha, xDesc, x, beta, yDesc, y, do_backward, workSpace, workSpaceSize):
    """y = max or average of x over windows; for max with do_backward the places of the maxima go to `workSpace`.

    Parameters
    ----------
    alpha, beta
        1 and 0.
    xDesc, yDesc : TensorDescriptor
        Of half, float, bfloat16 or double, both the same; n c h w for a 2-D pooling, n c d h w for 3-D; any strides.
        y's lengths are those of miopenGetPoolingNdForwardOutputDim.
    do_backward : bool
        Whether miopenPoolingBackward will follow.
    workSpace, workSpaceSize
        For max with do_backward: an unsigned index of the descriptor's type for each element of y, packed in
        n c (d) h w order whatever the layout of y, and the size in bytes.  Else ignored.

    A maximum is the first one of its window (d, h, w ascending); NaN is never one.  A window without a number above
    -inf gives -inf and index 0.  Averages are over the elements inside the image, or over whole windows.

    Raises UnknownError for other alpha or beta, tensors that are not 4-D or 5-D, an index type too small for the window
    (mask) or the image, no workspace where one is needed; BadParmError for lengths that do not fit, a window larger
    than the padded input, a workspace that is too small; MIOpenNotImplementedError for types.
    """
    cdef Handle h = as_handle(handle)
    cdef PoolingDescriptor pool = as_pooling(poolDesc, "poolDesc")
    cdef TensorDescriptor xd = as_tensor(xDesc, "xDesc")
    cdef TensorDescriptor yd = as_tensor(yDesc, "yDesc")
    cdef bint save
    cdef Invoker invoker
    cdef Problem problem
    cdef int64_t call, size
    cdef int order[3]
    cdef uint64_t stamp[3]
    cdef PyObject* data[3]
    cdef double scalars[MX_SCALARS]
    _require_scalars(alpha, beta)
    save = to_flag(do_backward, "do_backward") and pool.mode == POOL_MAX
    stamp[0], stamp[1], stamp[2] = pool.stamp, xd.stamp, yd.stamp
    call = call_number(MX_POOLING_FORWARD, save)
    invoker = recall(h, stamp, 3, call)
    if invoker is None:
        problem = PoolingProblem(MX_POOLING_FORWARD, pool, xd, yd, save)
        invoker = prepare(h, problem, stamp, 3, call)
    if save:
        if workSpace is None:
            raise UnknownError("no workspace for the indices of the maxima", "workSpace", None,
                               f"{invoker.problem.raw[<int> POOL_INDICES]} bytes")
        size = workspace_bytes(workSpaceSize)
        if size < invoker.problem.raw[<int> POOL_INDICES]:
            raise BadParmError("workspace is smaller than the indices", "workSpaceSize", size,
                               f">= {invoker.problem.raw[<int> POOL_INDICES]}")
    order[0], order[1], order[2] = POOL_IN, POOL_OUT, POOL_INDICES
    data[0], data[1], data[2] = <PyObject*> x, <PyObject*> y, <PyObject*> workSpace
    scalars[0] = scalars[1] = scalars[2] = scalars[3] = 0
    launch(h, invoker, order, 3 if save else 2, data, _FORWARD_NAMES, scalars)


cdef int _require_lens(TensorDescriptor a, str name, TensorDescriptor b) except -1:
    cdef int i
    a.require_set(name)
    for i in range(b.ndim):
        if a.ndim != b.ndim or a.len[i] != b.len[i]:
            raise BadParmError("lengths are not its gradient's", name, a.lens, b.lens)
    return 0


cdef Problem _backward_problem(PoolingDescriptor pool, TensorDescriptor yd, TensorDescriptor dyd, TensorDescriptor xd,
                               TensorDescriptor dxd):
    cdef Problem problem = PoolingProblem(MX_POOLING_BACKWARD, pool, dxd, dyd)
    if yd is not None:
        _require_lens(yd, "yDesc", dyd)
    if xd is not None:
        _require_lens(xd, "xDesc", dxd)
    return problem


def miopenPoolingBackward(handle, poolDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx, workSpace):
    """dx = gradient of a pooling for x, from the gradient dy for y; dx is overwritten, 0 where no window reaches.

    Average: dx[i] = sum of dy[o] / divisor(o) over the windows o that contain i.  Max: dx[i] = sum of dy[o] over those
    whose index in `workSpace`, as miopenPoolingForward left it under the same descriptor, names i.  `x` and `y` are
    neither read nor looked at, and averages ignore `workSpace`; their descriptors must have the gradients' lengths.
    Tensors and errors as for miopenPoolingForward.  A missing or too small workspace is a BadParmError.
    """
    cdef Handle h = as_handle(handle)
    cdef PoolingDescriptor pool = as_pooling(poolDesc, "poolDesc")
    cdef TensorDescriptor yd = as_tensor(yDesc, "yDesc")
    cdef TensorDescriptor dyd = as_tensor(dyDesc, "dyDesc")
    cdef TensorDescriptor xd = as_tensor(xDesc, "xDesc")
    cdef TensorDescriptor dxd = as_tensor(dxDesc, "dxDesc")
    cdef Invoker invoker
    cdef int64_t call = call_number(MX_POOLING_BACKWARD, 0)
    cdef int order[3]
    cdef uint64_t stamp[5]
    cdef PyObject* data[3]
    cdef double scalars[MX_SCALARS]
    _require_scalars(alpha, beta)
    stamp[0], stamp[1], stamp[2], stamp[3], stamp[4] = pool.stamp, yd.stamp, dyd.stamp, xd.stamp, dxd.stamp
    invoker = recall(h, stamp, 5, call)
    if invoker is None:
        invoker = prepare(h, _backward_problem(pool, yd, dyd, xd, dxd), stamp, 5, call)
    order[0], order[1], order[2] = POOL_IN, POOL_OUT, POOL_INDICES
    data[0], data[1], data[2] = <PyObject*> dy, <PyObject*> dx, <PyObject*> workSpace
    scalars[0] = scalars[1] = scalars[2] = scalars[3] = 0
    launch(h, invoker, order, 3 if pool.mode == POOL_MAX else 2, data, _BACKWARD_NAMES, scalars)


def miopenDestroyPoolingDescriptor(poolDesc):
    """End the descriptor's life; None is fine.  Using it afterwards is a BadParmError."""
    destroy(poolDesc, PoolingDescriptor, "poolDesc")


# Prepared plans


def plan_pooling_forward(handle, pool_desc, x_desc, y_desc, do_backward=False):
    """Body of Handle.pooling_forward."""
    cdef PoolingDescriptor pool = as_pooling(pool_desc, "pool_desc")
    cdef bint save = to_flag(do_backward, "do_backward") and pool.mode == POOL_MAX
    cdef int order[3]
    as_tensor(x_desc, "x_desc")
    as_tensor(y_desc, "y_desc")

    def problem_of():
        return PoolingProblem(MX_POOLING_FORWARD, pool_desc, x_desc, y_desc, save)

    order[0], order[1], order[2] = POOL_IN, POOL_OUT, POOL_INDICES
    return plan_of(handle, problem_of, order, 3 if save else 2, _FORWARD_NAMES, (pool_desc, x_desc, y_desc),
                   ("pool_desc", "x_desc", "y_desc"), ())


def plan_pooling_backward(handle, pool_desc, y_desc, dy_desc, x_desc, dx_desc):
    """Body of Handle.pooling_backward."""
    cdef PoolingDescriptor pool = as_pooling(pool_desc, "pool_desc")
    cdef int order[3]
    for desc, name in ((y_desc, "y_desc"), (dy_desc, "dy_desc"), (x_desc, "x_desc"), (dx_desc, "dx_desc")):
        as_tensor(desc, name)

    def problem_of():
        return _backward_problem(pool_desc, y_desc, dy_desc, x_desc, dx_desc)

    order[0], order[1], order[2] = POOL_IN, POOL_OUT, POOL_INDICES
    return plan_of(handle, problem_of, order, 3 if pool.mode == POOL_MAX else 2, _BACKWARD_NAMES,
                   (pool_desc, y_desc, dy_desc, x_desc, dx_desc),
                   ("pool_desc", "y_desc", "dy_desc", "x_desc", "dx_desc"), ())


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
