from collections.abc import Callable
from typing import Any, Final

import pyopencl

from .._descriptors import ConvolutionDescriptor, TensorDescriptor
from .._handle import Handle as _Handle
from .._plan import Plan

VERSION: Final[tuple[int, int, int]]

class Handle(_Handle):
    def convolution_forward(
        self,
        x_desc: TensorDescriptor,
        w_desc: TensorDescriptor,
        conv_desc: ConvolutionDescriptor,
        y_desc: TensorDescriptor,
        solution_id: int | None = None,
        workspace_limit: int | None = None,
    ) -> Plan: ...
    def convolution_backward_data(
        self,
        dy_desc: TensorDescriptor,
        w_desc: TensorDescriptor,
        conv_desc: ConvolutionDescriptor,
        dx_desc: TensorDescriptor,
        solution_id: int | None = None,
        workspace_limit: int | None = None,
    ) -> Plan: ...
    def convolution_backward_weights(
        self,
        dy_desc: TensorDescriptor,
        x_desc: TensorDescriptor,
        conv_desc: ConvolutionDescriptor,
        dw_desc: TensorDescriptor,
        solution_id: int | None = None,
        workspace_limit: int | None = None,
    ) -> Plan: ...

def miopenCreate() -> Handle: ...
def miopenCreateWithStream(stream: pyopencl.CommandQueue) -> Handle: ...
def miopenDestroy(handle: _Handle | None) -> None: ...
def miopenSetStream(handle: _Handle, streamID: pyopencl.CommandQueue) -> None: ...
def miopenGetStream(handle: _Handle) -> pyopencl.CommandQueue | None: ...
def miopenSetAllocator(
    handle: _Handle,
    allocator: Callable[[Any, int], Any] | None,
    deallocator: Callable[[Any, Any], object] | None,
    allocatorContext: Any,
) -> None: ...
def miopenEnableProfiling(handle: _Handle, enable: bool) -> None: ...
def miopenGetKernelTime(handle: _Handle) -> float: ...
def miopenGetVersion() -> tuple[int, int, int]: ...
def miopenGetErrorString(error: int) -> str: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "Handle", "miopenCreate", "miopenCreateWithStream", "miopenDestroy", "miopenSetStream", "miopenGetStream",
    "miopenSetAllocator", "miopenEnableProfiling", "miopenGetKernelTime", "miopenGetVersion", "miopenGetErrorString",
]
