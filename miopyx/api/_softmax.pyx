"""Softmax functions of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from miopyx.values._args cimport to_double
from miopyx.values._types cimport MX_SOFTMAX_BACKWARD, MX_SOFTMAX_FORWARD, MX_SCALARS
from miopyx.problem._descriptors cimport check_descriptor
from miopyx.problem._softmax cimport (
    ACCURATE, CHANNEL, SOFTMAX_DX, SOFTMAX_DY, SOFTMAX_X, SOFTMAX_Y, SoftmaxDescriptor, as_softmax, to_algorithm,
    to_mode,
)
from ._operation cimport Signature, arg_t, require_handle

from miopyx.problem._softmax import SoftmaxProblem

cdef Signature _FORWARD = Signature(
    MX_SOFTMAX_FORWARD, lambda flags, *descriptors: SoftmaxProblem(flags >> 1, flags & 1, *descriptors),
    ("xDesc", "yDesc"), {"x": SOFTMAX_X, "y": SOFTMAX_Y}, (("alpha", 1.0), ("beta", 0.0)))
cdef Signature _BACKWARD = Signature(
    MX_SOFTMAX_BACKWARD, _FORWARD.problem_of,
    ("yDesc", "dyDesc", "dxDesc"), {"y": SOFTMAX_Y, "dy": SOFTMAX_DY, "dx": SOFTMAX_DX}, _FORWARD.numbers)


cdef inline int _flags(int algorithm, int mode) noexcept:
    return algorithm << 1 | mode


def miopenCreateSoftmaxDescriptor():
    """Return a new SoftmaxDescriptor: alpha 1, beta 0, ACCURATE over channels."""
    return SoftmaxDescriptor()


def miopenSetSoftmaxDescriptor(softmaxDesc, alpha, beta, algorithm, mode):
    """Set scales, algorithm and mode.

    Parameters
    ----------
    softmaxDesc : SoftmaxDescriptor
    alpha, beta : float
    algorithm : miopenSoftmaxAlgorithm_t
    mode : miopenSoftmaxMode_t

    Raises
    ------
    BadParmError
        For an unknown algorithm or mode or what is no real number; the descriptor stays as it was.
    """
    cdef SoftmaxDescriptor desc = check_descriptor(softmaxDesc, SoftmaxDescriptor, "softmaxDesc")
    desc.set(alpha, beta, algorithm, mode)


def miopenGetSoftmaxDescriptor(softmaxDesc):
    """Return the scalars, algorithm and mode of a softmax.

    Parameters
    ----------
    softmaxDesc : SoftmaxDescriptor

    Returns
    -------
    (alpha, beta, algorithm, mode)
        As miopenSetSoftmaxDescriptor took them.

    Raises
    ------
    BadParmError
        For anything but a SoftmaxDescriptor that was not destroyed.
    """
    cdef SoftmaxDescriptor desc = as_softmax(softmaxDesc, "softmaxDesc").copied()  # of one moment
    return desc.alpha, desc.beta, desc.algorithm, desc.mode


cdef int _forward(object handle, object alpha, object x_desc, object x, object beta, object y_desc, object y,
                  int flags) except -1:
    cdef arg_t[2] descriptors = [<arg_t> x_desc, <arg_t> y_desc]
    cdef arg_t[2] buffers = [<arg_t> x, <arg_t> y]
    cdef double[MX_SCALARS] numbers = [to_double(alpha, "alpha"), to_double(beta, "beta"), 0, 0, 0, 0, 0, 0]
    return _FORWARD.run(handle, descriptors, buffers, numbers, flags, 0)


cdef int _backward(object handle, object alpha, object y_desc, object y, object dy_desc, object dy, object beta,
                   object dx_desc, object dx, int flags) except -1:
    cdef arg_t[3] descriptors = [<arg_t> y_desc, <arg_t> dy_desc, <arg_t> dx_desc]
    cdef arg_t[3] buffers = [<arg_t> y, <arg_t> dy, <arg_t> dx]
    cdef double[MX_SCALARS] numbers = [to_double(alpha, "alpha"), to_double(beta, "beta"), 0, 0, 0, 0, 0, 0]
    return _BACKWARD.run(handle, descriptors, buffers, numbers, flags, 0)


def miopenSoftmaxForward(handle, alpha, xDesc, x, beta, yDesc, y):
    """y = alpha * softmax(x) + beta * y over the channels of each pixel.

    miopenSoftmaxForward_V2 with ACCURATE and CHANNEL.

    Parameters
    ----------
    handle : Handle
    alpha, beta : float
    xDesc, yDesc : TensorDescriptor
        n c (d) (h) (w), 2 to 5 dimensions of equal lengths and types; any strides.
    x, y : Memory
        y is read only where beta is not 0.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenSoftmaxForward_V2.
    """
    require_handle(handle)
    _forward(handle, alpha, xDesc, x, beta, yDesc, y, _flags(ACCURATE, CHANNEL))


def miopenSoftmaxForward_V2(handle, alpha, xDesc, x, beta, yDesc, y, algorithm, mode):
    """y = alpha * softmax(x) + beta * y over the channels of each place (CHANNEL) or each whole sample (INSTANCE).

    FAST and ACCURATE, which are the same here: neither overflows; LOG is the logarithm of them:

        softmax(x)[i] = e^x[i] / (sum of e^x[j])
        LOG           = x[i] - log(sum of e^x[j])

    Arithmetic is float32, for float64 float64.

    Parameters
    ----------
    handle : Handle
    alpha, beta : float
        With beta 0 the old y is not read.
    xDesc, yDesc : TensorDescriptor
        n c (d) (h) (w), 2 to 5 dimensions of equal lengths and equal types (float16, bfloat16, float32, float64), any
        strides.
    x, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  They may be the
        same memory.
    algorithm : miopenSoftmaxAlgorithm_t
    mode : miopenSoftmaxMode_t

    Raises
    ------
    BadParmError
        Where lengths or types differ, for another rank, an unknown algorithm or mode, or a buffer that does not fit or
        is missing; nothing was run then.
    MIOpenNotImplementedError
        For another type.
    """
    require_handle(handle)
    _forward(handle, alpha, xDesc, x, beta, yDesc, y, _flags(to_algorithm(algorithm), to_mode(mode)))


def miopenSoftmaxBackward(handle, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx):
    """dx = alpha * y (dy - sum of y dy) + beta * dx over the channels of each pixel.

    miopenSoftmaxBackward_V2 with ACCURATE and CHANNEL.

    Parameters
    ----------
    handle : Handle
    alpha, beta : float
    yDesc, dyDesc, dxDesc : TensorDescriptor
        n c (d) (h) (w), 2 to 5 dimensions of equal lengths and types; any strides.
    y, dy, dx : Memory
        dx is read only where beta is not 0.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenSoftmaxBackward_V2.
    """
    require_handle(handle)
    _backward(handle, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx, _flags(ACCURATE, CHANNEL))


def miopenSoftmaxBackward_V2(handle, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx, algorithm, mode):
    """dx = alpha * gradient + beta * dx, from y = softmax(x) as computed with alpha 1 and beta 0.

        FAST, ACCURATE  gradient[i] = y[i] (dy[i] - sum of dy[j] y[j])
        LOG             gradient[i] = dy[i] - e^y[i] (sum of dy[j])

    with sums over what softmax(x) was normalised over.

    Parameters
    ----------
    handle : Handle
    alpha, beta : float
        With beta 0 the old dx is not read.
    yDesc, dyDesc, dxDesc : TensorDescriptor
        As for miopenSoftmaxForward_V2; y and dy of the same strides.
    y, dy, dx : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  dx may be the
        same memory as dy or y.
    algorithm : miopenSoftmaxAlgorithm_t
    mode : miopenSoftmaxMode_t

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As for miopenSoftmaxForward_V2, and where the strides of y and dy differ.
    """
    require_handle(handle)
    _backward(handle, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx, _flags(to_algorithm(algorithm), to_mode(mode)))


def plan_softmax_forward(handle, x_desc, y_desc, algorithm, mode):
    """Body of Handle.softmax_forward."""
    return _FORWARD.plan(handle, (x_desc, y_desc), _flags(to_algorithm(algorithm), to_mode(mode)), 0)


def plan_softmax_backward(handle, y_desc, dy_desc, dx_desc, algorithm, mode):
    """Body of Handle.softmax_backward."""
    return _BACKWARD.plan(handle, (y_desc, dy_desc, dx_desc), _flags(to_algorithm(algorithm), to_mode(mode)), 0)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
