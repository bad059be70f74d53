from miopyx.engine._handle import Handle
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.runtime._buffers import _Data

def miopenKthvalueForward(
    handle: Handle,
    inputDesc: TensorDescriptor,
    input: _Data,
    outputDesc: TensorDescriptor,
    output: _Data,
    indicesDesc: TensorDescriptor,
    indices: _Data,
    k: _Int,
    dim: _Int,
    keepDim: bool,
) -> None: ...

__all__ = [
    "miopenKthvalueForward",
]
