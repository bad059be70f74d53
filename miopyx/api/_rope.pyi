from miopyx.engine._handle import Handle
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

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenRoPEForward",
    "miopenRoPEBackward",
]
