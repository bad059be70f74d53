from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from miopyx.api._handle import Handle
from miopyx.enums import miopenActivationMode_t
from miopyx.problem._activation import ActivationDescriptor
from miopyx.problem._descriptors import _Int

__all__ = ["activation", "avg_pool2d", "avg_pool3d", "batch_norm", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
           "conv_transpose2d", "conv_transpose3d", "elu", "leaky_relu", "local_response_norm", "log_softmax",
           "max_pool2d", "max_pool3d", "relu", "relu6", "sigmoid", "softmax", "softplus", "tanh"]

_Array = TypeVar("_Array")  # results are of the library of x
_Axes: TypeAlias = _Int | Sequence[_Int]
_Pads: TypeAlias = _Axes | Sequence[Sequence[_Int]]
_NamedPads: TypeAlias = _Pads | Literal["same", "valid"]

def conv1d(
    x: _Array,
    w: Any,
    bias: Any | None = None,
    stride: _Axes = 1,
    padding: _NamedPads = 0,
    dilation: _Axes = 1,
    groups: _Int = 1,
    *,
    z: Any | None = None,
    activation: miopenActivationMode_t | _Int | str | ActivationDescriptor | None = None,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def conv2d(
    x: _Array,
    w: Any,
    bias: Any | None = None,
    stride: _Axes = 1,
    padding: _NamedPads = 0,
    dilation: _Axes = 1,
    groups: _Int = 1,
    *,
    z: Any | None = None,
    activation: miopenActivationMode_t | _Int | str | ActivationDescriptor | None = None,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def conv3d(
    x: _Array,
    w: Any,
    bias: Any | None = None,
    stride: _Axes = 1,
    padding: _NamedPads = 0,
    dilation: _Axes = 1,
    groups: _Int = 1,
    *,
    z: Any | None = None,
    activation: miopenActivationMode_t | _Int | str | ActivationDescriptor | None = None,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def conv_transpose1d(
    x: _Array,
    w: Any,
    bias: Any | None = None,
    stride: _Axes = 1,
    padding: _Pads = 0,
    output_padding: _Axes = 0,
    groups: _Int = 1,
    dilation: _Axes = 1,
    *,
    z: Any | None = None,
    activation: miopenActivationMode_t | _Int | str | ActivationDescriptor | None = None,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def conv_transpose2d(
    x: _Array,
    w: Any,
    bias: Any | None = None,
    stride: _Axes = 1,
    padding: _Pads = 0,
    output_padding: _Axes = 0,
    groups: _Int = 1,
    dilation: _Axes = 1,
    *,
    z: Any | None = None,
    activation: miopenActivationMode_t | _Int | str | ActivationDescriptor | None = None,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def conv_transpose3d(
    x: _Array,
    w: Any,
    bias: Any | None = None,
    stride: _Axes = 1,
    padding: _Pads = 0,
    output_padding: _Axes = 0,
    groups: _Int = 1,
    dilation: _Axes = 1,
    *,
    z: Any | None = None,
    activation: miopenActivationMode_t | _Int | str | ActivationDescriptor | None = None,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def max_pool2d(
    x: _Array,
    kernel_size: _Axes,
    stride: _Axes | None = None,
    padding: _Pads = 0,
    dilation: _Axes = 1,
    ceil_mode: bool = False,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def max_pool3d(
    x: _Array,
    kernel_size: _Axes,
    stride: _Axes | None = None,
    padding: _Pads = 0,
    dilation: _Axes = 1,
    ceil_mode: bool = False,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def avg_pool2d(
    x: _Array,
    kernel_size: _Axes,
    stride: _Axes | None = None,
    padding: _Pads = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Int | None = None,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def avg_pool3d(
    x: _Array,
    kernel_size: _Axes,
    stride: _Axes | None = None,
    padding: _Pads = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Int | None = None,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def activation(
    x: _Array,
    mode: miopenActivationMode_t | _Int,
    alpha: float = 0.0,
    beta: float = 0.0,
    gamma: float = 0.0,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def relu(
    x: _Array,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def leaky_relu(
    x: _Array,
    negative_slope: float = 0.01,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def relu6(
    x: _Array,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def elu(
    x: _Array,
    alpha: float = 1.0,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def sigmoid(
    x: _Array,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def tanh(
    x: _Array,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def softplus(
    x: _Array,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def softmax(
    x: _Array,
    axis: _Int = -1,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def log_softmax(
    x: _Array,
    axis: _Int = -1,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def local_response_norm(
    x: _Array,
    size: _Int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    *,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
def batch_norm(
    x: _Array,
    running_mean: Any,
    running_var: Any,
    weight: Any | None = None,
    bias: Any | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    activation: miopenActivationMode_t | _Int | str | ActivationDescriptor | None = None,
    out: _Array | None = None,
    handle: Handle | None = None,
) -> _Array: ...
