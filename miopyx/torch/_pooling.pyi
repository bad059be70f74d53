from typing import Any

from ._layers import Planned

class Pooling(Planned):
    def __init__(self, direction: int) -> None: ...

def avg_pool2d(
    keys: Any,
    x: Any,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    ceil_mode: Any = ...,
    count_include_pad: Any = ...,
    divisor_override: Any = ...,
) -> Any: ...
def avg_pool3d(
    keys: Any,
    x: Any,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    ceil_mode: Any = ...,
    count_include_pad: Any = ...,
    divisor_override: Any = ...,
) -> Any: ...
def avg_pool2d_backward(
    keys: Any,
    dy: Any,
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: Any,
    count_include_pad: Any,
    divisor_override: Any,
) -> Any: ...
def avg_pool3d_backward(
    keys: Any,
    dy: Any,
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: Any,
    count_include_pad: Any,
    divisor_override: Any,
) -> Any: ...
def max_pool2d(
    keys: Any,
    x: Any,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    ceil_mode: Any = ...,
) -> Any: ...
def max_pool3d(
    keys: Any,
    x: Any,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    ceil_mode: Any = ...,
) -> Any: ...
def max_pool2d_backward(
    keys: Any,
    dy: Any,
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: Any,
    indices: Any,
) -> Any: ...
def max_pool3d_backward(
    keys: Any,
    dy: Any,
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: Any,
    indices: Any,
) -> Any: ...
def max_pool(
    x: Any,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    indices: bool = ...,
) -> Any: ...
def max_pool_with_indices(
    x: Any,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
) -> Any: ...
def max_pool_backward(
    dy: Any,
    indices: Any,
    size: list[int],
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
) -> Any: ...
def avg_pool(
    x: Any,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any,
) -> Any: ...
def avg_pool_backward(
    dy: Any,
    size: list[int],
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any,
) -> Any: ...
