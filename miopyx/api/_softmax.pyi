from typing import SupportsFloat, TypeAlias

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.enums import miopenSoftmaxAlgorithm_t, miopenSoftmaxMode_t
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.problem._softmax import SoftmaxDescriptor
from miopyx.runtime._buffers import _Data

_Real: TypeAlias = SupportsFloat

def miopenCreateSoftmaxDescriptor() -> SoftmaxDescriptor: ...
def miopenSetSoftmaxDescriptor(
    softmaxDesc: SoftmaxDescriptor,
    alpha: _Real,
    beta: _Real,
    algorithm: miopenSoftmaxAlgorithm_t | _Int,
    mode: miopenSoftmaxMode_t | _Int,
) -> None: ...
def miopenGetSoftmaxDescriptor(
    softmaxDesc: SoftmaxDescriptor,
) -> tuple[float, float, miopenSoftmaxAlgorithm_t, miopenSoftmaxMode_t]: ...
def miopenSoftmaxForward(
    handle: Handle, alpha: _Real, xDesc: TensorDescriptor, x: _Data, beta: _Real, yDesc: TensorDescriptor, y: _Data
) -> None: ...
def miopenSoftmaxForward_V2(
    handle: Handle,
    alpha: _Real,
    xDesc: TensorDescriptor,
    x: _Data,
    beta: _Real,
    yDesc: TensorDescriptor,
    y: _Data,
    algorithm: miopenSoftmaxAlgorithm_t | _Int,
    mode: miopenSoftmaxMode_t | _Int,
) -> None: ...
def miopenSoftmaxBackward(
    handle: Handle,
    alpha: _Real,
    yDesc: TensorDescriptor,
    y: _Data,
    dyDesc: TensorDescriptor,
    dy: _Data,
    beta: _Real,
    dxDesc: TensorDescriptor,
    dx: _Data,
) -> None: ...
def miopenSoftmaxBackward_V2(
    handle: Handle,
    alpha: _Real,
    yDesc: TensorDescriptor,
    y: _Data,
    dyDesc: TensorDescriptor,
    dy: _Data,
    beta: _Real,
    dxDesc: TensorDescriptor,
    dx: _Data,
    algorithm: miopenSoftmaxAlgorithm_t | _Int,
    mode: miopenSoftmaxMode_t | _Int,
) -> None: ...
def plan_softmax_forward(
    handle: Handle,
    x_desc: TensorDescriptor,
    y_desc: TensorDescriptor,
    algorithm: miopenSoftmaxAlgorithm_t | _Int,
    mode: miopenSoftmaxMode_t | _Int,
) -> Plan: ...
def plan_softmax_backward(
    handle: Handle,
    y_desc: TensorDescriptor,
    dy_desc: TensorDescriptor,
    dx_desc: TensorDescriptor,
    algorithm: miopenSoftmaxAlgorithm_t | _Int,
    mode: miopenSoftmaxMode_t | _Int,
) -> Plan: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenCreateSoftmaxDescriptor", "miopenSetSoftmaxDescriptor", "miopenGetSoftmaxDescriptor",
    "miopenSoftmaxForward", "miopenSoftmaxForward_V2", "miopenSoftmaxBackward", "miopenSoftmaxBackward_V2",
]
