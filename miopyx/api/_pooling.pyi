from typing import Any

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.enums import miopenIndexType_t, miopenPoolingMode_t, miopenPoolingWorkspaceIndexMode_t
from miopyx.problem._descriptors import TensorDescriptor, _Int, _Ints
from miopyx.problem._pooling import PoolingDescriptor

def miopenCreatePoolingDescriptor() -> PoolingDescriptor: ...
def miopenSetPoolingIndexType(poolDesc: PoolingDescriptor, index_type: miopenIndexType_t | _Int) -> None: ...
def miopenGetPoolingIndexType(poolDesc: PoolingDescriptor) -> miopenIndexType_t: ...
def miopenSetPoolingWorkSpaceIndexMode(
    poolDesc: PoolingDescriptor, workspace_index: miopenPoolingWorkspaceIndexMode_t | _Int
) -> None: ...
def miopenGetPoolingWorkSpaceIndexMode(poolDesc: PoolingDescriptor) -> miopenPoolingWorkspaceIndexMode_t: ...
def miopenSet2dPoolingDescriptor(
    poolDesc: PoolingDescriptor,
    mode: miopenPoolingMode_t | _Int,
    windowHeight: _Int,
    windowWidth: _Int,
    pad_h: _Int,
    pad_w: _Int,
    stride_h: _Int,
    stride_w: _Int,
) -> None: ...
def miopenGet2dPoolingDescriptor(
    poolDesc: PoolingDescriptor,
) -> tuple[miopenPoolingMode_t, int, int, int, int, int, int]: ...
def miopenSetNdPoolingDescriptor(
    poolDesc: PoolingDescriptor,
    mode: miopenPoolingMode_t | _Int,
    nbDims: _Int,
    windowDimA: _Ints,
    padA: _Ints,
    stridesA: _Ints,
    *,
    dilationA: _Ints | None = None,
    endPadA: _Ints | None = None,
    ceil_mode: bool = False,
    divisor_override: _Int | None = None,
) -> None: ...
def miopenGetNdPoolingDescriptor(
    poolDesc: PoolingDescriptor, nbDimsRequested: _Int
) -> tuple[miopenPoolingMode_t, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]: ...
def miopenGetPoolingForwardOutputDim(
    poolDesc: PoolingDescriptor, tensorDesc: TensorDescriptor
) -> tuple[int, int, int, int]: ...
def miopenGetPoolingNdForwardOutputDim(
    poolDesc: PoolingDescriptor, tensorDesc: TensorDescriptor, dims: _Int
) -> tuple[int, ...]: ...
def miopenPoolingGetWorkSpaceSize(yDesc: TensorDescriptor) -> int: ...
def miopenPoolingGetWorkSpaceSizeV2(poolDesc: PoolingDescriptor, yDesc: TensorDescriptor) -> int: ...
def miopenPoolingForward(
    handle: Handle,
    poolDesc: PoolingDescriptor,
    alpha: Any,
    xDesc: TensorDescriptor,
    x: Any,
    beta: Any,
    yDesc: TensorDescriptor,
    y: Any,
    do_backward: bool,
    workSpace: Any,
    workSpaceSize: _Int,
) -> None: ...
def miopenPoolingBackward(
    handle: Handle,
    poolDesc: PoolingDescriptor,
    alpha: Any,
    yDesc: TensorDescriptor,
    y: Any,
    dyDesc: TensorDescriptor,
    dy: Any,
    xDesc: TensorDescriptor,
    x: Any,
    beta: Any,
    dxDesc: TensorDescriptor,
    dx: Any,
    workSpace: Any,
) -> None: ...
def miopenDestroyPoolingDescriptor(poolDesc: PoolingDescriptor | None) -> None: ...
def plan_pooling_forward(
    handle: Handle,
    pool_desc: PoolingDescriptor,
    x_desc: TensorDescriptor,
    y_desc: TensorDescriptor,
    do_backward: bool = False,
) -> Plan: ...
def plan_pooling_backward(
    handle: Handle,
    pool_desc: PoolingDescriptor,
    y_desc: TensorDescriptor,
    dy_desc: TensorDescriptor,
    x_desc: TensorDescriptor,
    dx_desc: TensorDescriptor,
) -> Plan: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenCreatePoolingDescriptor", "miopenSetPoolingIndexType", "miopenGetPoolingIndexType",
    "miopenSetPoolingWorkSpaceIndexMode", "miopenGetPoolingWorkSpaceIndexMode", "miopenSet2dPoolingDescriptor",
    "miopenGet2dPoolingDescriptor", "miopenSetNdPoolingDescriptor", "miopenGetNdPoolingDescriptor",
    "miopenGetPoolingForwardOutputDim", "miopenGetPoolingNdForwardOutputDim", "miopenPoolingGetWorkSpaceSize",
    "miopenPoolingGetWorkSpaceSizeV2", "miopenPoolingForward", "miopenPoolingBackward",
    "miopenDestroyPoolingDescriptor",
]
