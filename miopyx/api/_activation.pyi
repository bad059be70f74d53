from typing import SupportsFloat, TypeAlias

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.enums import miopenActivationMode_t
from miopyx.problem._activation import ActivationDescriptor
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.runtime._buffers import _Data

_Real: TypeAlias = SupportsFloat

def miopenCreateActivationDescriptor() -> ActivationDescriptor: ...
def miopenSetActivationDescriptor(
    activDesc: ActivationDescriptor,
    mode: miopenActivationMode_t | _Int,
    activAlpha: _Real,
    activBeta: _Real,
    activGamma: _Real,
) -> None: ...
def miopenGetActivationDescriptor(
    activDesc: ActivationDescriptor,
) -> tuple[miopenActivationMode_t, float, float, float]: ...
def miopenDestroyActivationDescriptor(activDesc: ActivationDescriptor | None) -> None: ...
def miopenActivationForward(
    handle: Handle,
    activDesc: ActivationDescriptor,
    alpha: _Real,
    xDesc: TensorDescriptor,
    x: _Data,
    beta: _Real,
    yDesc: TensorDescriptor,
    y: _Data,
) -> None: ...
def miopenActivationBackward(
    handle: Handle,
    activDesc: ActivationDescriptor,
    alpha: _Real,
    yDesc: TensorDescriptor,
    y: _Data | None,
    dyDesc: TensorDescriptor,
    dy: _Data,
    xDesc: TensorDescriptor,
    x: _Data | None,
    beta: _Real,
    dxDesc: TensorDescriptor,
    dx: _Data,
) -> None: ...
def plan_activation_forward(
    handle: Handle, activ_desc: ActivationDescriptor, x_desc: TensorDescriptor, y_desc: TensorDescriptor
) -> Plan: ...
def plan_activation_backward(
    handle: Handle,
    activ_desc: ActivationDescriptor,
    y_desc: TensorDescriptor,
    dy_desc: TensorDescriptor,
    x_desc: TensorDescriptor,
    dx_desc: TensorDescriptor,
) -> Plan: ...

__all__ = [
    "miopenActivationBackward", "miopenActivationForward", "miopenCreateActivationDescriptor",
    "miopenDestroyActivationDescriptor", "miopenGetActivationDescriptor", "miopenSetActivationDescriptor",
]
