from typing import Any, final

from miopyx.problem._activation import ActivationDescriptor

from ._layers import Layer

@final
class Gradients: ...

class Convolution(Layer):
    def __init__(self, direction: int, spatial: int, transposed: bool, second: int = 1) -> None: ...

@final
class Fused(Convolution):
    def __init__(
        self, spatial: int, transposed: bool, follows: ActivationDescriptor, biased: bool, added: bool
    ) -> None: ...

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
def forward_activated(
    x: Any,
    w: Any,
    bias: Any,
    z: Any,
    mode: str,
    alpha: float,
    beta: float,
    gamma: float,
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
