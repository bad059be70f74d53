from typing import Any

from miopyx.api._handle import Handle

from .choice import Times

class Layer:
    @property
    def ours(self) -> bool: ...
    @property
    def runs(self) -> int: ...
    @property
    def what(self) -> str: ...
    @property
    def why(self) -> str | None: ...
    @property
    def times(self) -> Times: ...
    def gained(self) -> float: ...

class Differentiable:
    __name__: str
    def __init__(self, function: Any, compute: Any) -> None: ...
    def __call__(self, first: Any, second: Any, third: Any, *numbers: Any) -> Any: ...

layers: list[Layer]

def prepare(theirs_backward: Any) -> Handle: ...
def forget() -> None: ...
def choose(everything: bool) -> None: ...
def enter() -> None: ...
def leave() -> None: ...
def convolution(
    x: Any,
    w: Any,
    bias: Any,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Any: ...
def convolution_backward(
    keys: Any,
    dy: Any,
    x: Any,
    w: Any,
    bias_sizes: Any,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    mask: list[bool],
) -> tuple[Any, Any, Any]: ...
def forward(
    x: Any,
    w: Any,
    bias: Any,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Any: ...
def backward_data(
    dy: Any,
    w: Any,
    size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Any: ...
def backward_weights(
    dy: Any,
    x: Any,
    size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Any: ...
