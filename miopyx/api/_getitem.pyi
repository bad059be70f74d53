from collections.abc import Sequence

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
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
def plan_getitem_backward(
    handle: Handle,
    dy_desc: TensorDescriptor,
    index_descs: Sequence[TensorDescriptor],
    dx_desc: TensorDescriptor,
    error_desc: TensorDescriptor | None,
    dims: Sequence[_Int],
    slices: Sequence[Sequence[_Int]],
    offset: _Int,
) -> Plan: ...

__all__ = [
    "miopenGetGetitemWorkspaceSize",
    "miopenGetitemBackward",
]
