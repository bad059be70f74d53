from collections.abc import Sequence

from miopyx.engine._handle import Handle
from miopyx.problem._descriptors import TensorDescriptor, _Int, _Ints
from miopyx.runtime._buffers import _Data

def miopenGetGetitemWorkspaceSize(
    handle: Handle, indexCount: _Int, indexDescs: Sequence[TensorDescriptor] | None
) -> int: ...
def miopenGetitemBackward(
    handle: Handle,
    workspace: object,
    workspaceSizeInBytes: _Int,
    dyDesc: TensorDescriptor,
    dy: _Data,
    indexCount: _Int,
    indexDescs: Sequence[TensorDescriptor] | None,
    indexs: Sequence[_Data] | None,
    dxDesc: TensorDescriptor,
    dx: _Data,
    errorDesc: TensorDescriptor | None,
    error: _Data | None,
    dimCount: _Int,
    dims: _Ints | None,
    sliceCount: _Int,
    slices: _Ints | None,
    offset: _Int,
) -> None: ...

__all__ = [
    "miopenGetGetitemWorkspaceSize",
    "miopenGetitemBackward",
]
