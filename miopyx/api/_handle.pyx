"""Handle functions of miopen.h, library version and error strings."""

from .._handle import Handle as _Handle
from ..enums import miopenStatus_t
from ..errors import BadParmError

from ._convolution import plan_backward_data, plan_backward_weights, plan_forward

VERSION = (3, 3, 0)


class Handle(_Handle):
    __doc__ = _Handle.__doc__

    def convolution_forward(self, x_desc, w_desc, conv_desc, y_desc, solution_id=None, workspace_limit=None):
        """Return a prepared plan: ``plan(x, w, y)`` computes y.

        Parameters
        ----------
        x_desc, w_desc, y_desc : TensorDescriptor
        conv_desc : ConvolutionDescriptor
        solution_id : int, optional
            A solver to take; default: the fastest that this handle's Finds or the databases know, else the best by
            index.
        workspace_limit : int, optional
            Bytes that the plan may use.
        """
        return plan_forward(self, x_desc, w_desc, conv_desc, y_desc, solution_id, workspace_limit)

    def convolution_backward_data(self, dy_desc, w_desc, conv_desc, dx_desc, solution_id=None, workspace_limit=None):
        """Return a prepared plan: ``plan(dy, w, dx)`` computes dx.  Parameters as for convolution_forward."""
        return plan_backward_data(self, dy_desc, w_desc, conv_desc, dx_desc, solution_id, workspace_limit)

    def convolution_backward_weights(self, dy_desc, x_desc, conv_desc, dw_desc, solution_id=None,
                                     workspace_limit=None):
        """Return a prepared plan: ``plan(dy, x, dw)`` computes dw.  Parameters as for convolution_forward."""
        return plan_backward_weights(self, dy_desc, x_desc, conv_desc, dw_desc, solution_id, workspace_limit)


def _handle(handle):
    if not isinstance(handle, _Handle):
        raise BadParmError("not a handle", "handle", handle, "a Handle")
    return handle


def miopenCreate():
    """Return a handle on the best device that works (see Handle)."""
    return Handle()


def miopenCreateWithStream(stream):
    """Return a handle on a pyopencl.CommandQueue, which must be in-order."""
    if stream is None or isinstance(stream, str):
        raise BadParmError("not a command queue", "stream", stream, "a pyopencl.CommandQueue")
    return Handle(stream)


def miopenDestroy(handle):
    """End the handle's life; None is fine.  Using it afterwards is a BadParmError."""
    if handle is not None:
        _handle(handle).destroy()


def miopenSetStream(handle, streamID):
    """Let the handle use another pyopencl.CommandQueue.  None is an UnknownError, as in MIOpen."""
    _handle(handle).set_queue(streamID)


def miopenGetStream(handle):
    """Return the handle's pyopencl.CommandQueue, None on the host."""
    return _handle(handle).stream()


def miopenSetAllocator(handle, allocator, deallocator, allocatorContext):
    """Take the workspace that the handle manages from `allocator(allocatorContext, size)`.

    The allocator returns a pyopencl.Buffer (or a cl_mem as an integer) of at least `size` bytes on the handle's
    context; `deallocator(allocatorContext, memory)` gets it back once no kernel uses it any more.  None for both goes
    back to OpenCL's own memory.  A host handle manages none, so nothing is called there.

    Raises UnknownError for a context without an allocator, BadParmError for what cannot be called.
    """
    _handle(handle).set_allocator(allocator, deallocator, allocatorContext)


def miopenEnableProfiling(handle, enable):
    """Measure the kernels of each call from now on (calls then wait for them), or stop doing so."""
    if not isinstance(enable, (bool, int)) or enable not in (0, 1):
        raise BadParmError("not a bool", "enable", enable, "True or False")
    _handle(handle).set_profiling(bool(enable))


def miopenGetKernelTime(handle):
    """Return the milliseconds that the kernels of the last call took while profiling was on."""
    return _handle(handle).last_kernel_time()


def miopenGetVersion():
    """Return (major, minor, patch) of the MIOpen whose API this is."""
    return VERSION


def miopenGetErrorString(error):
    """Return the name of a status, "Unknown error status" for any other value."""
    try:
        return miopenStatus_t(error).name
    except Exception:  # ValueError, or what a strange object raises when the enumeration prints it
        return "Unknown error status"


__all__ = ["Handle"] + [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
