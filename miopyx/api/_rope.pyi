from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.problem._descriptors import TensorDescriptor
from miopyx.runtime._buffers import _Data

def miopenRoPEForward(
    handle: Handle,
    xDesc: TensorDescriptor,
    x: _Data,
    cosDesc: TensorDescriptor,
    cos: _Data,
    sinDesc: TensorDescriptor,
    sin: _Data,
    yDesc: TensorDescriptor,
    y: _Data,
) -> None: ...
def miopenRoPEBackward(
    handle: Handle,
    dyDesc: TensorDescriptor,
    dy: _Data,
    cosDesc: TensorDescriptor,
    cos: _Data,
    sinDesc: TensorDescriptor,
    sin: _Data,
    dxDesc: TensorDescriptor,
    dx: _Data,
) -> None: ...
def plan_rope_forward(
    handle: Handle,
    x_desc: TensorDescriptor,
    cos_desc: TensorDescriptor,
    sin_desc: TensorDescriptor,
    y_desc: TensorDescriptor,
) -> Plan: ...
def plan_rope_backward(
    handle: Handle,
    dy_desc: TensorDescriptor,
    cos_desc: TensorDescriptor,
    sin_desc: TensorDescriptor,
    dx_desc: TensorDescriptor,
) -> Plan: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenRoPEForward",
    "miopenRoPEBackward",
]
