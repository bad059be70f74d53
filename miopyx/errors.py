"""What a failing call raises: one exception class per MIOpen status."""

from __future__ import annotations

from typing import Any

from .enums import miopenStatus_t

__all__ = [
    "AllocFailedError", "BadParmError", "GpuOperationsSkippedError", "InternalError", "InvalidValueError",
    "MIOpenError", "MIOpenNotImplementedError", "NotInitializedError", "UnknownError", "UnsupportedOpError",
    "VersionMismatchError",
]


class MIOpenError(Exception):
    """Base of all errors of miopyx.

    Attributes
    ----------
    status : miopenStatus_t
        The status that the C function would have returned.
    parameter : str or None
        The parameter at fault, as the function or class that was called has it, with an index where it is a sequence.
    value : object
        What was passed for it.
    limit : object
        What would have been accepted.
    """

    status = miopenStatus_t.miopenStatusUnknownError

    def __init__(self, message: str, parameter: str | None = None, value: Any = None, limit: Any = None) -> None:
        self.message, self.parameter, self.value, self.limit = message, parameter, value, limit
        super().__init__(message, parameter, value, limit)

    def __str__(self) -> str:
        text = f"{self.status.name}: {self.message}"
        if self.parameter is not None:
            text += f" [{self.parameter} = {_shorten(self.value)}"
            text += f"; allowed: {self.limit}]" if self.limit is not None else "]"
        return text


def _shorten(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as e:  # Python does not print integers of thousands of digits
        text = f"<{type(value).__name__} without a text: {type(e).__name__}>"
    return text if len(text) <= 80 else text[:77] + "..."


class NotInitializedError(MIOpenError, RuntimeError):
    """A descriptor of the graph API that is used before it was finalised, or set after."""

    status = miopenStatus_t.miopenStatusNotInitialized


class InvalidValueError(MIOpenError, ValueError):
    """A value that has no meaning, as a file that is no database."""

    status = miopenStatus_t.miopenStatusInvalidValue


class BadParmError(MIOpenError, ValueError):
    """A parameter of a wrong type, outside its limits, or that does not go with the others."""

    status = miopenStatus_t.miopenStatusBadParm


class AllocFailedError(MIOpenError, MemoryError):
    """Memory that the device, or an allocator, did not give."""

    status = miopenStatus_t.miopenStatusAllocFailed


class InternalError(MIOpenError, RuntimeError):
    """What should not happen: the OpenCL runtime failed, or miopyx has a defect."""

    status = miopenStatus_t.miopenStatusInternalError


class MIOpenNotImplementedError(MIOpenError, NotImplementedError):
    """A problem, a type or a layout that no solver takes; the message says which refused it and why."""

    status = miopenStatus_t.miopenStatusNotImplemented


class UnknownError(MIOpenError, RuntimeError):
    """What MIOpen calls unknown: alpha or beta where there is none, a descriptor with other axes, no pyopencl."""

    status = miopenStatus_t.miopenStatusUnknownError


class UnsupportedOpError(MIOpenError, NotImplementedError):
    """MIOpen's status; no call of miopyx raises it."""

    status = miopenStatus_t.miopenStatusUnsupportedOp


class GpuOperationsSkippedError(MIOpenError, RuntimeError):
    """MIOPEN_DEBUG_COMPILE_ONLY asked for nothing to be run."""

    status = miopenStatus_t.miopenStatusGpuOperationsSkipped


class VersionMismatchError(MIOpenError, ValueError):
    """MIOpen's status; no call of miopyx raises it."""

    status = miopenStatus_t.miopenStatusVersionMismatch


# Success is no error.
ERROR_OF_STATUS: dict[miopenStatus_t, type[MIOpenError]] = {
    cls.status: cls
    for cls in (
        NotInitializedError, InvalidValueError, BadParmError, AllocFailedError, InternalError,
        MIOpenNotImplementedError, UnknownError, UnsupportedOpError,
        GpuOperationsSkippedError, VersionMismatchError,
    )
}


def error(status: int, message: str, parameter: str | None = None, value: Any = None, limit: Any = None) -> MIOpenError:
    """Return the exception for `status`, ready to be raised."""
    return ERROR_OF_STATUS[miopenStatus_t(status)](message, parameter, value, limit)


CL_NAMES = {
    -1: "CL_DEVICE_NOT_FOUND", -2: "CL_DEVICE_NOT_AVAILABLE", -3: "CL_COMPILER_NOT_AVAILABLE",
    -4: "CL_MEM_OBJECT_ALLOCATION_FAILURE", -5: "CL_OUT_OF_RESOURCES", -6: "CL_OUT_OF_HOST_MEMORY",
    -7: "CL_PROFILING_INFO_NOT_AVAILABLE", -11: "CL_BUILD_PROGRAM_FAILURE", -12: "CL_MAP_FAILURE",
    -13: "CL_MISALIGNED_SUB_BUFFER_OFFSET", -14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
    -30: "CL_INVALID_VALUE", -33: "CL_INVALID_DEVICE", -34: "CL_INVALID_CONTEXT",
    -35: "CL_INVALID_QUEUE_PROPERTIES", -36: "CL_INVALID_COMMAND_QUEUE", -38: "CL_INVALID_MEM_OBJECT",
    -42: "CL_INVALID_BINARY", -43: "CL_INVALID_BUILD_OPTIONS", -44: "CL_INVALID_PROGRAM",
    -45: "CL_INVALID_PROGRAM_EXECUTABLE", -46: "CL_INVALID_KERNEL_NAME", -48: "CL_INVALID_KERNEL",
    -49: "CL_INVALID_ARG_INDEX", -50: "CL_INVALID_ARG_VALUE", -51: "CL_INVALID_ARG_SIZE",
    -52: "CL_INVALID_KERNEL_ARGS", -53: "CL_INVALID_WORK_DIMENSION", -54: "CL_INVALID_WORK_GROUP_SIZE",
    -55: "CL_INVALID_WORK_ITEM_SIZE", -56: "CL_INVALID_GLOBAL_OFFSET", -58: "CL_INVALID_EVENT",
    -59: "CL_INVALID_OPERATION", -61: "CL_INVALID_BUFFER_SIZE", -63: "CL_INVALID_GLOBAL_WORK_SIZE",
}


def from_cuda(code: int, name: str, what: str) -> MIOpenError:
    """Return the exception for a failed call of CUDA's driver: AllocFailed if memory ran out, else UnknownError."""
    cls = AllocFailedError if code == 2 else UnknownError
    return cls(f"{what} failed with {name} ({code})")


def from_opencl(code: int, call: str, detail: str = "") -> MIOpenError:
    """Return the exception for a failed OpenCL call: AllocFailed if memory ran out, else UnknownError as in MIOpen."""
    cls = AllocFailedError if code in (-4, -6) else UnknownError
    return cls(f"{call} failed with {CL_NAMES.get(code, 'OpenCL error')} ({code}){detail and ': ' + detail}")
