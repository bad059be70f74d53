from typing import SupportsFloat, TypeAlias

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.enums import miopenLRNMode_t
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.problem._lrn import LRNDescriptor
from miopyx.runtime._buffers import _Data

_Real: TypeAlias = SupportsFloat

def miopenCreateLRNDescriptor() -> LRNDescriptor: ...
def miopenSetLRNDescriptor(
    lrnDesc: LRNDescriptor, mode: miopenLRNMode_t | _Int, lrnN: _Int, lrnAlpha: _Real, lrnBeta: _Real, lrnK: _Real
) -> None: ...
def miopenGetLRNDescriptor(lrnDesc: LRNDescriptor) -> tuple[miopenLRNMode_t, int, float, float, float]: ...
def miopenDestroyLRNDescriptor(lrnDesc: LRNDescriptor | None) -> None: ...
def miopenLRNGetWorkSpaceSize(yDesc: TensorDescriptor) -> int: ...
def miopenLRNForward(
    handle: Handle,
    lrnDesc: LRNDescriptor,
    alpha: _Real | None,
    xDesc: TensorDescriptor,
    x: _Data,
    beta: _Real | None,
    yDesc: TensorDescriptor,
    y: _Data,
    do_backward: bool,
    workSpace: _Data | None,
) -> None: ...
def miopenLRNBackward(
    handle: Handle,
    lrnDesc: LRNDescriptor,
    alpha: _Real | None,
    yDesc: TensorDescriptor,
    y: _Data,
    dyDesc: TensorDescriptor,
    dy: _Data,
    xDesc: TensorDescriptor,
    x: _Data,
    beta: _Real | None,
    dxDesc: TensorDescriptor,
    dx: _Data,
    workSpace: _Data,
) -> None: ...
def plan_lrn_forward(
    handle: Handle, lrn_desc: LRNDescriptor, x_desc: TensorDescriptor, y_desc: TensorDescriptor, do_backward: bool
) -> Plan: ...
def plan_lrn_backward(
    handle: Handle,
    lrn_desc: LRNDescriptor,
    y_desc: TensorDescriptor,
    dy_desc: TensorDescriptor,
    x_desc: TensorDescriptor,
    dx_desc: TensorDescriptor,
) -> Plan: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenCreateLRNDescriptor", "miopenSetLRNDescriptor", "miopenGetLRNDescriptor", "miopenDestroyLRNDescriptor",
    "miopenLRNGetWorkSpaceSize", "miopenLRNForward", "miopenLRNBackward",
]
