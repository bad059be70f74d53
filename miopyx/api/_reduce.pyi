from typing import SupportsFloat, TypeAlias

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.enums import (
    miopenDataType_t,
    miopenIndicesType_t,
    miopenNanPropagation_t,
    miopenReduceCalculationNanPropagation_t,
    miopenReduceCalculationOp_t,
    miopenReduceExtremeOp_t,
    miopenReduceTensorIndices_t,
    miopenReduceTensorOp_t,
)
from miopyx.problem._descriptors import TensorDescriptor, _DataType, _Int
from miopyx.problem._reduce import ReduceTensorDescriptor
from miopyx.runtime._buffers import _Data

_Real: TypeAlias = SupportsFloat
_Op: TypeAlias = miopenReduceTensorOp_t | _Int

def miopenCreateReduceTensorDescriptor() -> ReduceTensorDescriptor: ...
def miopenDestroyReduceTensorDescriptor(reduceTensorDesc: ReduceTensorDescriptor | None) -> None: ...
def miopenSetReduceTensorDescriptor(
    reduceTensorDesc: ReduceTensorDescriptor,
    reduceTensorOp: _Op,
    reduceTensorCompType: _DataType,
    reduceTensorNanOpt: miopenNanPropagation_t | _Int,
    reduceTensorIndices: miopenReduceTensorIndices_t | _Int,
    reduceTensorIndicesType: miopenIndicesType_t | _Int,
) -> None: ...
def miopenGetReduceTensorDescriptor(
    reduceTensorDesc: ReduceTensorDescriptor,
) -> tuple[
    miopenReduceTensorOp_t,
    miopenDataType_t,
    miopenNanPropagation_t,
    miopenReduceTensorIndices_t,
    miopenIndicesType_t,
]: ...
def miopenGetReductionIndicesSize(
    handle: Handle,
    reduceTensorDesc: ReduceTensorDescriptor,
    aDesc: TensorDescriptor,
    cDesc: TensorDescriptor,
) -> int: ...
def miopenGetReductionWorkspaceSize(
    handle: Handle,
    reduceTensorDesc: ReduceTensorDescriptor,
    aDesc: TensorDescriptor,
    cDesc: TensorDescriptor,
) -> int: ...
def miopenReduceTensor(
    handle: Handle,
    reduceTensorDesc: ReduceTensorDescriptor,
    indices: _Data | None,
    indicesSizeInBytes: _Int,
    workspace: _Data | None,
    workspaceSizeInBytes: _Int,
    alpha: _Real,
    aDesc: TensorDescriptor,
    A: _Data,
    beta: _Real,
    cDesc: TensorDescriptor,
    C: _Data,
) -> None: ...
def miopenGetReduceCalculationWorkspaceSize(
    handle: Handle,
    xDesc: TensorDescriptor,
    dim: _Int,
    reduceCalculationOp: miopenReduceCalculationOp_t | _Int,
    reduceDesc: TensorDescriptor,
) -> int: ...
def miopenReduceCalculationForward(
    handle: Handle,
    nanPropagation: miopenReduceCalculationNanPropagation_t | _Int,
    workspace: _Data | None,
    workspaceSizeInBytes: _Int,
    xDesc: TensorDescriptor,
    x: _Data,
    dim: _Int,
    reduceCalculationOp: miopenReduceCalculationOp_t | _Int,
    reduceDesc: TensorDescriptor,
    y: _Data,
) -> None: ...
def miopenReduceExtremeForward(
    handle: Handle,
    xDesc: TensorDescriptor,
    x: _Data,
    dim: _Int,
    reduceExtremeOp: miopenReduceExtremeOp_t | _Int,
    yDesc: TensorDescriptor | None,
    y: _Data | None,
    indiceDesc: TensorDescriptor,
    indice: _Data,
) -> None: ...
def plan_reduce_tensor(
    handle: Handle, reduce_desc: ReduceTensorDescriptor, a_desc: TensorDescriptor, c_desc: TensorDescriptor
) -> Plan: ...
def plan_reduce_calculation(
    handle: Handle,
    x_desc: TensorDescriptor,
    y_desc: TensorDescriptor,
    dim: _Int,
    op: miopenReduceCalculationOp_t | _Int,
    nan_propagation: miopenReduceCalculationNanPropagation_t | _Int,
) -> Plan: ...
def plan_reduce_extreme(
    handle: Handle,
    x_desc: TensorDescriptor,
    y_desc: TensorDescriptor | None,
    index_desc: TensorDescriptor,
    dim: _Int,
    op: miopenReduceExtremeOp_t | _Int,
) -> Plan: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenCreateReduceTensorDescriptor",
    "miopenDestroyReduceTensorDescriptor",
    "miopenSetReduceTensorDescriptor",
    "miopenGetReduceTensorDescriptor",
    "miopenGetReductionIndicesSize",
    "miopenGetReductionWorkspaceSize",
    "miopenReduceTensor",
    "miopenGetReduceCalculationWorkspaceSize",
    "miopenReduceCalculationForward",
    "miopenReduceExtremeForward",
]
