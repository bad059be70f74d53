"""Pooling functions of miopen.h."""

from libc.stdint cimport int64_t

from miopyx.values._args cimport checked_mul, to_flag, to_int
from miopyx.problem._descriptors cimport MAX_DIMS, TensorDescriptor, as_tensor, check_descriptor
from miopyx.engine._binding cimport workspace_bytes
from miopyx.values._types cimport MX_POOLING_BACKWARD, MX_POOLING_FORWARD, MX_SCALARS
from miopyx.problem._pooling cimport (
    POOL_IN, POOL_INDICES, POOL_MAX, POOL_OUT, PoolingDescriptor, as_pooling, index_size,
)
from ._operation cimport Signature, arg_t, require_handle, require_plain_scalars

from miopyx.problem._descriptors import destroy
from miopyx.errors import BadParmError, UnknownError
from miopyx.problem._pooling import PoolingProblem, set_index_mode, set_index_type, set_pooling


def _backward_problem(flags, pool, y, dy, x, dx):
    problem = PoolingProblem(MX_POOLING_BACKWARD, pool, dx, dy)
    _require_lens(y, "yDesc", dy)
    _require_lens(x, "xDesc", dx)
    return problem


# Flags of a forward call: 1 where indices are wanted.
cdef Signature _FORWARD = Signature(
    MX_POOLING_FORWARD, lambda flags, pool, x, y: PoolingProblem(MX_POOLING_FORWARD, pool, x, y, flags),
    ("poolDesc", "xDesc", "yDesc"), {"x": POOL_IN, "y": POOL_OUT, "workSpace": POOL_INDICES},
    first=PoolingDescriptor, optional=1)
cdef Signature _BACKWARD = Signature(
    MX_POOLING_BACKWARD, _backward_problem, ("poolDesc", "yDesc", "dyDesc", "xDesc", "dxDesc"),
    {"dy": POOL_IN, "dx": POOL_OUT, "workSpace": POOL_INDICES}, first=PoolingDescriptor, optional=1)
cdef enum:
    NO_INDICES = 1 << 2    # among the buffers of both
cdef double[MX_SCALARS] _NO_NUMBERS = [0, 0, 0, 0, 0, 0, 0, 0]


def miopenCreatePoolingDescriptor():
    """Return an empty PoolingDescriptor: max, 8-bit indices, no windows yet."""
    return PoolingDescriptor()


def miopenSetPoolingIndexType(poolDesc, index_type):
    """Set the type of the indices of maxima; setting windows makes it 8 bits again.

    Parameters
    ----------
    poolDesc : PoolingDescriptor
    index_type : miopenIndexType_t
        Unsigned integers of 8, 16, 32 or 64 bits.

    Raises
    ------
    BadParmError
        For an unknown type.
    """
    set_index_type(check_descriptor(poolDesc, PoolingDescriptor, "poolDesc"), index_type)


def miopenGetPoolingIndexType(poolDesc):
    """Return the type of the indices that max pooling keeps, a miopenIndexType_t.

    Parameters
    ----------
    poolDesc : PoolingDescriptor

    Raises
    ------
    BadParmError
        For anything but a PoolingDescriptor that was not destroyed.
    """
    return as_pooling(poolDesc, "poolDesc").workspace_index_type


def miopenSetPoolingWorkSpaceIndexMode(poolDesc, workspace_index):
    """Set what indices of maxima count: positions of the window (mask), pads included, or of the image.

    Setting windows brings back the default: mask in 2-D, image in 3-D.

    Parameters
    ----------
    poolDesc : PoolingDescriptor
    workspace_index : miopenPoolingWorkspaceIndexMode_t

    Raises
    ------
    BadParmError
        For an unknown mode.
    """
    set_index_mode(check_descriptor(poolDesc, PoolingDescriptor, "poolDesc"), workspace_index)


def miopenGetPoolingWorkSpaceIndexMode(poolDesc):
    """Return what max pooling's indices count, a miopenPoolingWorkspaceIndexMode_t.

    Parameters
    ----------
    poolDesc : PoolingDescriptor

    Raises
    ------
    BadParmError
        For anything but a PoolingDescriptor that was not destroyed.
    """
    return as_pooling(poolDesc, "poolDesc").workspace_index_mode


def miopenSet2dPoolingDescriptor(poolDesc, mode, windowHeight, windowWidth, pad_h, pad_w, stride_h, stride_w):
    """Make `poolDesc` a 2-D pooling, with indices of 8 bits that count in the window.

    Parameters
    ----------
    poolDesc : PoolingDescriptor
    mode : miopenPoolingMode_t
        Max, average over the elements inside the image, or average over whole windows ("inclusive").
    windowHeight, windowWidth : int
        Pixels, each >= 1.
    pad_h, pad_w : int
        Pixels before and behind an axis, 0 ... window - 1.
    stride_h, stride_w : int
        Pixels from one window to the next, each >= 1.

    Raises
    ------
    BadParmError
        For an unknown mode or a number out of range; the descriptor stays as it was.
    """
    set_pooling(check_descriptor(poolDesc, PoolingDescriptor, "poolDesc"), 2, mode, (windowHeight, windowWidth),
                (pad_h, pad_w), (stride_h, stride_w),
                names=("windowHeight, windowWidth", "pad_h, pad_w", "stride_h, stride_w", "", ""))


def miopenGet2dPoolingDescriptor(poolDesc):
    """Return what a 2-D pooling was set to.

    Parameters
    ----------
    poolDesc : PoolingDescriptor

    Returns
    -------
    (mode, windowHeight, windowWidth, pad_h, pad_w, stride_h, stride_w)
        In elements of x.

    Raises
    ------
    BadParmError
        Where the descriptor was never set, or is not 2-D.
    """
    cdef PoolingDescriptor desc = as_pooling(poolDesc, "poolDesc").copied()  # of one moment
    if desc.spatial != 2:
        desc.require_set("poolDesc")
        raise BadParmError("not a two-dimensional pooling", "poolDesc", desc.spatial, 2)
    return desc.pooling_mode, *desc.windows, *desc.pads, *desc.strides


def miopenSetNdPoolingDescriptor(poolDesc, mode, nbDims, windowDimA, padA, stridesA, *, dilationA=None, endPadA=None,
                                 ceil_mode=False, divisor_override=None):
    """Make `poolDesc` a pooling over nbDims spatial axes, with indices of 8 bits.

    What follows stridesA is not MIOpen's.

    Parameters
    ----------
    poolDesc : PoolingDescriptor
    mode : miopenPoolingMode_t
    nbDims : int
        2 or 3.
    windowDimA, padA, stridesA : sequence of nbDims int
        Along (d), h, w; limits as for miopenSet2dPoolingDescriptor, pads below what a window spans,
        (window - 1) dilation + 1.
    dilationA : sequence of nbDims int, optional
        Elements of x from one element of a window to the next, each >= 1; default 1.
    endPadA : sequence of nbDims int, optional
        Pixels behind each axis where they are not those before it.
    ceil_mode : bool, optional
        Round lengths of y up: a last window that begins in x or in the pads before it counts though it does not fit.
    divisor_override : int, optional
        What averages divide by in place of the number of elements; not 0.

    Raises
    ------
    BadParmError
        For an unknown mode or a number out of range; the descriptor stays as it was.
    """
    set_pooling(check_descriptor(poolDesc, PoolingDescriptor, "poolDesc"), nbDims, mode, windowDimA, padA, stridesA,
                dilationA, endPadA, ceil_mode, divisor_override)


def miopenGetNdPoolingDescriptor(poolDesc, nbDimsRequested):
    """Return (mode, nbDims, windowDimA, padA, stridesA), the arrays cut to nbDimsRequested values.

    Parameters
    ----------
    poolDesc : PoolingDescriptor
    nbDimsRequested : int

    Raises
    ------
    UnknownError
        Where more are requested than the descriptor has.
    BadParmError
        Where fewer than 0 are.
    """
    cdef PoolingDescriptor desc = as_pooling(poolDesc, "poolDesc").copied()  # of one moment
    cdef int n = to_int(nbDimsRequested, "nbDimsRequested")
    if n > desc.spatial:
        raise UnknownError("more dimensions than the descriptor has", "nbDimsRequested", n, desc.spatial)
    if n < 0:
        raise BadParmError("negative", "nbDimsRequested", n, ">= 0")
    return desc.pooling_mode, desc.spatial, desc.windows[:n], desc.pads[:n], desc.strides[:n]


def miopenGetPoolingForwardOutputDim(poolDesc, tensorDesc):
    """Return (n, c, h, w) of y; h = trunc((in + 2 pad - window) / stride) + 1, at least 1, and w likewise.

    Parameters
    ----------
    poolDesc : PoolingDescriptor
    tensorDesc : TensorDescriptor
        x, n c h w.

    Raises
    ------
    BadParmError
        Where a descriptor was never set, or the tensor is not 4-D.
    """
    cdef PoolingDescriptor desc = as_pooling(poolDesc, "poolDesc")
    cdef TensorDescriptor x = as_tensor(tensorDesc, "tensorDesc")
    cdef int64_t out[MAX_DIMS]
    desc.output_dims(x, "tensorDesc", out)
    if x.ndim != 4:
        raise BadParmError("not four-dimensional", "tensorDesc", x.ndim, 4)
    return out[0], out[1], out[2], out[3]


def miopenGetPoolingNdForwardOutputDim(poolDesc, tensorDesc, dims):
    """Return the lengths of y as a tuple, n c (d) h w.

    trunc((in + pad + end_pad - (window - 1) dilation - 1) / stride) + 1 along each spatial axis, at least 1; in
    ceil_mode the quotient is rounded up unless the last window then begins behind x.

    Parameters
    ----------
    poolDesc : PoolingDescriptor
    tensorDesc : TensorDescriptor
        x, n c (d) h w.
    dims : int
        The rank of x, 4 or 5.

    Raises
    ------
    BadParmError
        Where a descriptor was never set, or ranks do not fit each other.
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
    """Return the bytes of 8-bit indices of maxima: one an element of y.

    miopenPoolingGetWorkSpaceSizeV2 knows the descriptor's index type.

    Parameters
    ----------
    yDesc : TensorDescriptor

    Raises
    ------
    BadParmError
        For anything but a TensorDescriptor that was not destroyed.
    """
    cdef TensorDescriptor y = as_tensor(yDesc, "yDesc")
    y.require_set("yDesc")
    return y.elements


def miopenPoolingGetWorkSpaceSizeV2(poolDesc, yDesc):
    """Return the bytes that a pooling keeps for its backward pass: for max an index an element of y, else 0.

    Parameters
    ----------
    poolDesc : PoolingDescriptor
    yDesc : TensorDescriptor

    Raises
    ------
    BadParmError
        For anything but such descriptors that were not destroyed.
    """
    cdef PoolingDescriptor desc = as_pooling(poolDesc, "poolDesc")
    cdef TensorDescriptor y = as_tensor(yDesc, "yDesc")
    y.require_set("yDesc")
    return checked_mul(y.elements, index_size(desc.index_type), "yDesc") if desc.mode == POOL_MAX else 0


def miopenPoolingForward(handle, poolDesc, alpha, xDesc, x, beta, yDesc, y, do_backward, workSpace, workSpaceSize):
    """y = max or average of x over windows; for max with do_backward the places of the maxima go to `workSpace`.

    With the window of y[o] at the elements o stride - pad + t dilation, t = 0 ... window - 1 along each axis, of which
    those count that are inside the image:

        max        y[n, c, o] = max of x[n, c, i] over the window
        average    y[n, c, o] = (sum of x[n, c, i] over the window) / (elements that count)
        inclusive  y[n, c, o] = (sum of x[n, c, i] over the window) / (elements of the window in the image or its pads)

    A divisor_override takes the place of both divisors.

    A maximum is the first one of its window (d, h, w ascending); NaN is never one.  A window without a number above
    -inf gives -inf and index 0.

    Parameters
    ----------
    handle : Handle
    poolDesc : PoolingDescriptor
    alpha, beta : float
        1 and 0.
    xDesc, yDesc : TensorDescriptor
        float16, bfloat16, float32 or float64, both the same; n c h w for a 2-D pooling, n c d h w for 3-D; any strides.
        y's lengths are those of miopenGetPoolingNdForwardOutputDim.
    x, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.
    do_backward : bool
        Whether miopenPoolingBackward will follow.
    workSpace : memory of the handle's device, or None
        For max with do_backward: an unsigned index of the descriptor's type for each element of y, packed in
        n c (d) h w order whatever the layout of y.  Else ignored.
    workSpaceSize : int
        Its bytes, at least miopenPoolingGetWorkSpaceSizeV2(poolDesc, yDesc).

    Raises
    ------
    UnknownError
        For other alpha or beta, tensors that are not 4-D or 5-D, an index type too small for the window (mask) or the
        image, no workspace where one is needed.
    BadParmError
        For lengths or buffers that do not fit, a window larger than the padded input, a workspace that is too small;
        nothing was run then.
    MIOpenNotImplementedError
        For other types, or types that differ.
    """
    require_handle(handle)
    cdef arg_t[3] descriptors = [<arg_t> poolDesc, <arg_t> xDesc, <arg_t> yDesc]
    cdef arg_t[3] buffers = [<arg_t> x, <arg_t> y, <arg_t> workSpace]
    cdef PoolingDescriptor pool = as_pooling(poolDesc, "poolDesc")
    cdef bint save = to_flag(do_backward, "do_backward") and pool.mode == POOL_MAX
    require_plain_scalars(alpha, beta, UnknownError)
    if save:
        _require_room(workSpace, workSpaceSize, as_tensor(yDesc, "yDesc").elements * index_size(pool.index_type))
    _FORWARD.run(handle, descriptors, buffers, _NO_NUMBERS, save, 0 if save else NO_INDICES)


cdef int _require_room(object workspace, object workspace_size, int64_t need) except -1:
    cdef int64_t size
    if need == 0:
        return 0
    if workspace is None:
        raise UnknownError("no workspace for the indices of the maxima", "workSpace", None, f"{need} bytes")
    size = workspace_bytes(workspace_size)
    if size < need:
        raise BadParmError("workspace is smaller than the indices", "workSpaceSize", size, f">= {need}")
    return 0


cdef int _require_lens(TensorDescriptor a, str name, TensorDescriptor b) except -1:
    cdef int i
    a.require_set(name)
    for i in range(b.ndim):
        if a.ndim != b.ndim or a.len[i] != b.len[i]:
            raise BadParmError("lengths are not its gradient's", name, a.lens, b.lens)
    return 0


def miopenPoolingBackward(handle, poolDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx, workSpace):
    """dx = gradient of a pooling for x, from the gradient dy for y; dx is overwritten, 0 where no window reaches.

    Average: dx[i] = sum of dy[o] / divisor(o) over the windows o that contain i, with the divisors of
    miopenPoolingForward.  Max: dx[i] = sum of dy[o] over those whose index in `workSpace` names i.

    Parameters
    ----------
    handle : Handle
    poolDesc : PoolingDescriptor
    alpha, beta : float
        1 and 0.
    yDesc, dyDesc, xDesc, dxDesc : TensorDescriptor
        As for miopenPoolingForward: y and dy of the same lengths, x and dx likewise.
    dy, dx : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.
    y, x
        Neither read nor looked at.
    workSpace : memory of the handle's device, or None
        For max: what miopenPoolingForward wrote under the same descriptor.  Averages ignore it.

    Raises
    ------
    UnknownError
        As for miopenPoolingForward.
    BadParmError
        For lengths, buffers or a workspace that do not fit, or a missing one; nothing was run then.
    MIOpenNotImplementedError
        For other types, or types that differ.
    """
    require_handle(handle)
    cdef arg_t[5] descriptors = [<arg_t> poolDesc, <arg_t> yDesc, <arg_t> dyDesc, <arg_t> xDesc, <arg_t> dxDesc]
    cdef arg_t[3] buffers = [<arg_t> dy, <arg_t> dx, <arg_t> workSpace]
    cdef bint indexed = as_pooling(poolDesc, "poolDesc").mode == POOL_MAX
    require_plain_scalars(alpha, beta, UnknownError)
    _BACKWARD.run(handle, descriptors, buffers, _NO_NUMBERS, 0, 0 if indexed else NO_INDICES)


def miopenDestroyPoolingDescriptor(poolDesc):
    """End the descriptor's life; using it afterwards is a BadParmError.  Plans that were made with it go on.

    Parameters
    ----------
    poolDesc : PoolingDescriptor or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    destroy(poolDesc, PoolingDescriptor, "poolDesc")


# Prepared plans


def plan_pooling_forward(handle, pool_desc, x_desc, y_desc, do_backward=False):
    """Body of Handle.pooling_forward."""
    cdef bint save = as_pooling(pool_desc, "pool_desc").mode == POOL_MAX
    save = to_flag(do_backward, "do_backward") and save
    return _FORWARD.plan(handle, (pool_desc, x_desc, y_desc), save, 0 if save else NO_INDICES)


def plan_pooling_backward(handle, pool_desc, y_desc, dy_desc, x_desc, dx_desc):
    """Body of Handle.pooling_backward."""
    cdef bint indexed = as_pooling(pool_desc, "pool_desc").mode == POOL_MAX
    return _BACKWARD.plan(handle, (pool_desc, y_desc, dy_desc, x_desc, dx_desc), 0, 0 if indexed else NO_INDICES)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
