from miopyx.engine._handle import Handle
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.runtime._buffers import _Data

def miopenGLUForward(
    handle: Handle,
    inputDesc: TensorDescriptor,
    input: _Data,
    outputDesc: TensorDescriptor,
    output: _Data,
    dim: _Int,
) -> None: ...
def miopenGLUBackward(
    handle: Handle,
    inputDesc: TensorDescriptor,
    input: _Data,
    outputGradDesc: TensorDescriptor,
    outputGrad: _Data,
    inputGradDesc: TensorDescriptor,
    inputGrad: _Data,
    dim: _Int,
) -> None: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenGLUForward",
    "miopenGLUBackward",
]
