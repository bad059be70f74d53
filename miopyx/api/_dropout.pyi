from typing import SupportsFloat, TypeAlias

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.enums import miopenRNGType_t
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.problem._dropout import DropoutDescriptor
from miopyx.runtime._buffers import _Data

_Real: TypeAlias = SupportsFloat
_Flag: TypeAlias = bool | _Int

def miopenCreateDropoutDescriptor() -> DropoutDescriptor: ...
def miopenDestroyDropoutDescriptor(dropoutDesc: DropoutDescriptor | None) -> None: ...
def miopenDropoutGetReserveSpaceSize(xDesc: TensorDescriptor) -> int: ...
def miopenDropoutGetStatesSize(handle: Handle) -> int: ...
def miopenGetDropoutDescriptor(
    dropoutDesc: DropoutDescriptor, handle: Handle
) -> tuple[float, _Data | None, int, bool, bool, miopenRNGType_t]: ...
def miopenRestoreDropoutDescriptor(
    dropoutDesc: DropoutDescriptor,
    handle: Handle,
    dropout: _Real,
    states: _Data | None,
    stateSizeInBytes: _Int,
    seed: _Int,
    use_mask: _Flag,
    state_evo: _Flag,
    rng_mode: miopenRNGType_t | _Int,
) -> None: ...
def miopenSetDropoutDescriptor(
    dropoutDesc: DropoutDescriptor,
    handle: Handle,
    dropout: _Real,
    states: _Data | None,
    stateSizeInBytes: _Int,
    seed: _Int,
    use_mask: _Flag,
    state_evo: _Flag,
    rng_mode: miopenRNGType_t | _Int,
) -> None: ...
def miopenDropoutForward(
    handle: Handle,
    dropoutDesc: DropoutDescriptor,
    noise_shape: TensorDescriptor,
    xDesc: TensorDescriptor,
    x: _Data,
    yDesc: TensorDescriptor,
    y: _Data,
    reserveSpace: _Data | None,
    reserveSpaceSizeInBytes: _Int,
) -> None: ...
def miopenDropoutBackward(
    handle: Handle,
    dropoutDesc: DropoutDescriptor,
    noise_shape: TensorDescriptor,
    dyDesc: TensorDescriptor,
    dy: _Data,
    dxDesc: TensorDescriptor,
    dx: _Data,
    reserveSpace: _Data | None,
    reserveSpaceSizeInBytes: _Int,
) -> None: ...
def plan_dropout_forward(
    handle: Handle,
    dropout_desc: DropoutDescriptor,
    x_desc: TensorDescriptor,
    y_desc: TensorDescriptor,
    reserve: _Flag,
) -> Plan: ...
def plan_dropout_backward(
    handle: Handle,
    dropout_desc: DropoutDescriptor,
    dy_desc: TensorDescriptor,
    dx_desc: TensorDescriptor,
    reserve: _Flag,
) -> Plan: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenCreateDropoutDescriptor",
    "miopenDestroyDropoutDescriptor",
    "miopenDropoutGetReserveSpaceSize",
    "miopenDropoutGetStatesSize",
    "miopenGetDropoutDescriptor",
    "miopenRestoreDropoutDescriptor",
    "miopenSetDropoutDescriptor",
    "miopenDropoutForward",
    "miopenDropoutBackward",
]
