from typing import Any

from ._layers import Planned

class BatchNorm(Planned):
    def __init__(self, kind: int) -> None: ...

def native_batch_norm(
    keys: Any,
    x: Any,
    w: Any,
    b: Any,
    mean: Any,
    var: Any,
    training: bool,
    momentum: float,
    epsilon: float,
) -> tuple[Any, Any, Any]: ...
def cudnn_batch_norm(
    keys: Any,
    x: Any,
    w: Any,
    b: Any,
    mean: Any,
    var: Any,
    training: bool,
    momentum: float,
    epsilon: float,
) -> tuple[Any, Any, Any, Any]: ...
def wants_our_gradients() -> bool: ...
def native_batch_norm_backward(
    keys: Any,
    dy: Any,
    x: Any,
    w: Any,
    mean: Any,
    var: Any,
    saved_mean: Any,
    saved_inverse: Any,
    training: bool,
    epsilon: float,
    mask: list[bool],
) -> tuple[Any, Any, Any]: ...
def cudnn_batch_norm_backward(
    keys: Any,
    x: Any,
    dy: Any,
    w: Any,
    mean: Any,
    var: Any,
    saved_mean: Any,
    saved_inverse: Any,
    epsilon: float,
    reserve: Any,
) -> tuple[Any, Any, Any]: ...
def training(x: Any, w: Any, b: Any, mean: Any, var: Any, momentum: float, epsilon: float) -> tuple[Any, Any, Any]: ...
def inference(x: Any, w: Any, b: Any, mean: Any, var: Any, epsilon: float) -> Any: ...
def backward(dy: Any, x: Any, w: Any, mean: Any, inverse: Any, epsilon: float) -> tuple[Any, Any, Any]: ...
