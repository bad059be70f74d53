from collections.abc import Callable
from typing import SupportsFloat, TypeAlias

from miopyx.choose._ranking import Candidate
from miopyx.engine._handle import Handle
from miopyx.engine._invoker import Invoker
from miopyx.engine._plan import Plan
from miopyx.enums import (
    miopenConvBwdDataAlgorithm_t,
    miopenConvBwdWeightsAlgorithm_t,
    miopenConvFwdAlgorithm_t,
    miopenConvolutionAttrib_t,
    miopenConvolutionFindMode_t,
    miopenConvolutionMode_t,
)
from miopyx.problem._descriptors import ConvolutionDescriptor, TensorDescriptor, _Int, _Ints
from miopyx.problem._problem import ConvProblem
from miopyx.runtime._buffers import _Data
from miopyx.values.structs import miopenConvAlgoPerf_t, miopenConvSolution_t

_Real: TypeAlias = SupportsFloat


def miopenCreateConvolutionDescriptor() -> ConvolutionDescriptor: ...
def miopenInitConvolutionDescriptor(
    convDesc: ConvolutionDescriptor,
    c_mode: miopenConvolutionMode_t | _Int,
    pad_h: _Int,
    pad_w: _Int,
    stride_h: _Int,
    stride_w: _Int,
    dilation_h: _Int,
    dilation_w: _Int,
) -> None: ...
def miopenInitConvolutionNdDescriptor(
    convDesc: ConvolutionDescriptor,
    spatialDim: _Int,
    padA: _Ints,
    strideA: _Ints,
    dilationA: _Ints,
    c_mode: miopenConvolutionMode_t | _Int,
    *,
    endPadA: _Ints | None = None,
) -> None: ...
def miopenGetConvolutionSpatialDim(convDesc: ConvolutionDescriptor) -> int: ...
def miopenGetConvolutionDescriptor(
    convDesc: ConvolutionDescriptor,
) -> tuple[miopenConvolutionMode_t, int, int, int, int, int, int]: ...
def miopenGetConvolutionNdDescriptor(
    convDesc: ConvolutionDescriptor, requestedSpatialDim: _Int
) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...], miopenConvolutionMode_t]: ...
def miopenSetConvolutionGroupCount(convDesc: ConvolutionDescriptor, groupCount: _Int) -> None: ...
def miopenGetConvolutionGroupCount(convDesc: ConvolutionDescriptor) -> int: ...
def miopenSetTransposeConvOutputPadding(convDesc: ConvolutionDescriptor, adj_h: _Int, adj_w: _Int) -> None: ...
def miopenSetTransposeConvNdOutputPadding(convDesc: ConvolutionDescriptor, spatialDim: _Int, adjA: _Ints) -> None: ...
def miopenGetConvolutionForwardOutputDim(
    convDesc: ConvolutionDescriptor, inputTensorDesc: TensorDescriptor, filterDesc: TensorDescriptor
) -> tuple[int, int, int, int]: ...
def miopenGetConvolutionNdForwardOutputDim(
    convDesc: ConvolutionDescriptor, inputTensorDesc: TensorDescriptor, filterDesc: TensorDescriptor
) -> tuple[int, tuple[int, ...]]: ...
def miopenSetConvolutionAttribute(
    convDesc: ConvolutionDescriptor, attr: miopenConvolutionAttrib_t | _Int | str, value: _Int | str
) -> None: ...
def miopenGetConvolutionAttribute(
    convDesc: ConvolutionDescriptor, attr: miopenConvolutionAttrib_t | _Int | str
) -> int: ...
def miopenSetConvolutionFindMode(
    convDesc: ConvolutionDescriptor, findMode: miopenConvolutionFindMode_t | _Int
) -> None: ...
def miopenGetConvolutionFindMode(convDesc: ConvolutionDescriptor) -> miopenConvolutionFindMode_t: ...
def miopenDestroyConvolutionDescriptor(convDesc: ConvolutionDescriptor | None) -> None: ...
def plan_forward(
    handle: Handle,
    xDesc: TensorDescriptor,
    wDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    yDesc: TensorDescriptor,
    solution_id: int | None = None,
    workspace_limit: int | None = None,
) -> Plan: ...
def plan_backward_data(
    handle: Handle,
    dyDesc: TensorDescriptor,
    wDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    dxDesc: TensorDescriptor,
    solution_id: int | None = None,
    workspace_limit: int | None = None,
) -> Plan: ...
def plan_backward_weights(
    handle: Handle,
    dyDesc: TensorDescriptor,
    xDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    dwDesc: TensorDescriptor,
    solution_id: int | None = None,
    workspace_limit: int | None = None,
) -> Plan: ...
def find_solvers(
    d: int,
    handle: Handle,
    x: TensorDescriptor,
    w: TensorDescriptor,
    y: TensorDescriptor,
    conv: ConvolutionDescriptor,
    buffers: tuple[_Data, ...],
    workspace: _Data | None,
    size: int,
    exhaustive: bool,
) -> tuple[ConvProblem, list[Candidate]]: ...
def memory_of(problem: ConvProblem) -> list[tuple[int, str]]: ...
def run_on(
    handle: Handle, problem: ConvProblem, x: _Data, w: _Data, y: _Data, workspace: _Data | None, size: int
) -> Callable[[Invoker], float]: ...
def workspace_of_find(
    d: int,
    handle: Handle,
    x: TensorDescriptor,
    w: TensorDescriptor,
    y: TensorDescriptor,
    conv: ConvolutionDescriptor,
) -> int: ...
def miopenConvolutionForwardGetWorkSpaceSize(
    handle: Handle,
    wDesc: TensorDescriptor,
    xDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    yDesc: TensorDescriptor,
) -> int: ...
def miopenFindConvolutionForwardAlgorithm(
    handle: Handle,
    xDesc: TensorDescriptor,
    x: _Data,
    wDesc: TensorDescriptor,
    w: _Data,
    convDesc: ConvolutionDescriptor,
    yDesc: TensorDescriptor,
    y: _Data,
    requestAlgoCount: _Int,
    workSpace: _Data | None,
    workSpaceSize: _Int,
    exhaustiveSearch: bool,
    *,
    budget_ms: float | None = None,
) -> list[miopenConvAlgoPerf_t]: ...
def miopenConvolutionForward(
    handle: Handle,
    alpha: _Real,
    xDesc: TensorDescriptor,
    x: _Data,
    wDesc: TensorDescriptor,
    w: _Data,
    convDesc: ConvolutionDescriptor,
    algo: miopenConvFwdAlgorithm_t | _Int,
    beta: _Real,
    yDesc: TensorDescriptor,
    y: _Data,
    workSpace: _Data | None,
    workSpaceSize: _Int,
) -> None: ...
def miopenConvolutionForwardGetSolutionCount(
    handle: Handle,
    wDesc: TensorDescriptor,
    xDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    yDesc: TensorDescriptor,
) -> int: ...
def miopenConvolutionForwardGetSolution(
    handle: Handle,
    wDesc: TensorDescriptor,
    xDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    yDesc: TensorDescriptor,
    maxSolutionCount: _Int,
) -> list[miopenConvSolution_t]: ...
def miopenConvolutionForwardGetSolutionWorkspaceSize(
    handle: Handle,
    wDesc: TensorDescriptor,
    xDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    yDesc: TensorDescriptor,
    solution_id: _Int,
) -> int: ...
def miopenConvolutionForwardCompileSolution(
    handle: Handle,
    wDesc: TensorDescriptor,
    xDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    yDesc: TensorDescriptor,
    solution_id: _Int,
) -> None: ...
def miopenConvolutionForwardImmediate(
    handle: Handle,
    wDesc: TensorDescriptor,
    w: _Data,
    xDesc: TensorDescriptor,
    x: _Data,
    convDesc: ConvolutionDescriptor,
    yDesc: TensorDescriptor,
    y: _Data,
    workSpace: _Data | None,
    workSpaceSize: _Int,
    solution_id: _Int,
) -> None: ...
def miopenConvolutionBackwardDataGetWorkSpaceSize(
    handle: Handle,
    dyDesc: TensorDescriptor,
    wDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    dxDesc: TensorDescriptor,
) -> int: ...
def miopenFindConvolutionBackwardDataAlgorithm(
    handle: Handle,
    dyDesc: TensorDescriptor,
    dy: _Data,
    wDesc: TensorDescriptor,
    w: _Data,
    convDesc: ConvolutionDescriptor,
    dxDesc: TensorDescriptor,
    dx: _Data,
    requestAlgoCount: _Int,
    workSpace: _Data | None,
    workSpaceSize: _Int,
    exhaustiveSearch: bool,
    *,
    budget_ms: float | None = None,
) -> list[miopenConvAlgoPerf_t]: ...
def miopenConvolutionBackwardData(
    handle: Handle,
    alpha: _Real,
    dyDesc: TensorDescriptor,
    dy: _Data,
    wDesc: TensorDescriptor,
    w: _Data,
    convDesc: ConvolutionDescriptor,
    algo: miopenConvBwdDataAlgorithm_t | _Int,
    beta: _Real,
    dxDesc: TensorDescriptor,
    dx: _Data,
    workSpace: _Data | None,
    workSpaceSize: _Int,
) -> None: ...
def miopenConvolutionBackwardDataGetSolutionCount(
    handle: Handle,
    dyDesc: TensorDescriptor,
    wDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    dxDesc: TensorDescriptor,
) -> int: ...
def miopenConvolutionBackwardDataGetSolution(
    handle: Handle,
    dyDesc: TensorDescriptor,
    wDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    dxDesc: TensorDescriptor,
    maxSolutionCount: _Int,
) -> list[miopenConvSolution_t]: ...
def miopenConvolutionBackwardDataGetSolutionWorkspaceSize(
    handle: Handle,
    dyDesc: TensorDescriptor,
    wDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    dxDesc: TensorDescriptor,
    solution_id: _Int,
) -> int: ...
def miopenConvolutionBackwardDataCompileSolution(
    handle: Handle,
    dyDesc: TensorDescriptor,
    wDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    dxDesc: TensorDescriptor,
    solution_id: _Int,
) -> None: ...
def miopenConvolutionBackwardDataImmediate(
    handle: Handle,
    dyDesc: TensorDescriptor,
    dy: _Data,
    wDesc: TensorDescriptor,
    w: _Data,
    convDesc: ConvolutionDescriptor,
    dxDesc: TensorDescriptor,
    dx: _Data,
    workSpace: _Data | None,
    workSpaceSize: _Int,
    solution_id: _Int,
) -> None: ...
def miopenConvolutionBackwardWeightsGetWorkSpaceSize(
    handle: Handle,
    dyDesc: TensorDescriptor,
    xDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    dwDesc: TensorDescriptor,
) -> int: ...
def miopenFindConvolutionBackwardWeightsAlgorithm(
    handle: Handle,
    dyDesc: TensorDescriptor,
    dy: _Data,
    xDesc: TensorDescriptor,
    x: _Data,
    convDesc: ConvolutionDescriptor,
    dwDesc: TensorDescriptor,
    dw: _Data,
    requestAlgoCount: _Int,
    workSpace: _Data | None,
    workSpaceSize: _Int,
    exhaustiveSearch: bool,
    *,
    budget_ms: float | None = None,
) -> list[miopenConvAlgoPerf_t]: ...
def miopenConvolutionBackwardWeights(
    handle: Handle,
    alpha: _Real,
    dyDesc: TensorDescriptor,
    dy: _Data,
    xDesc: TensorDescriptor,
    x: _Data,
    convDesc: ConvolutionDescriptor,
    algo: miopenConvBwdWeightsAlgorithm_t | _Int,
    beta: _Real,
    dwDesc: TensorDescriptor,
    dw: _Data,
    workSpace: _Data | None,
    workSpaceSize: _Int,
) -> None: ...
def miopenConvolutionBackwardWeightsGetSolutionCount(
    handle: Handle,
    dyDesc: TensorDescriptor,
    xDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    dwDesc: TensorDescriptor,
) -> int: ...
def miopenConvolutionBackwardWeightsGetSolution(
    handle: Handle,
    dyDesc: TensorDescriptor,
    xDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    dwDesc: TensorDescriptor,
    maxSolutionCount: _Int,
) -> list[miopenConvSolution_t]: ...
def miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(
    handle: Handle,
    dyDesc: TensorDescriptor,
    xDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    dwDesc: TensorDescriptor,
    solution_id: _Int,
) -> int: ...
def miopenConvolutionBackwardWeightsCompileSolution(
    handle: Handle,
    dyDesc: TensorDescriptor,
    xDesc: TensorDescriptor,
    convDesc: ConvolutionDescriptor,
    dwDesc: TensorDescriptor,
    solution_id: _Int,
) -> None: ...
def miopenConvolutionBackwardWeightsImmediate(
    handle: Handle,
    dyDesc: TensorDescriptor,
    dy: _Data,
    xDesc: TensorDescriptor,
    x: _Data,
    convDesc: ConvolutionDescriptor,
    dwDesc: TensorDescriptor,
    dw: _Data,
    workSpace: _Data | None,
    workSpaceSize: _Int,
    solution_id: _Int,
) -> None: ...
def miopenConvolutionForwardBias(
    handle: Handle, alpha: _Real, bDesc: TensorDescriptor, b: _Data, beta: _Real, yDesc: TensorDescriptor, y: _Data
) -> None: ...
def miopenConvolutionBackwardBias(
    handle: Handle, alpha: _Real, dyDesc: TensorDescriptor, dy: _Data, beta: _Real, dbDesc: TensorDescriptor, db: _Data
) -> None: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenCreateConvolutionDescriptor", "miopenInitConvolutionDescriptor", "miopenInitConvolutionNdDescriptor",
    "miopenGetConvolutionSpatialDim", "miopenGetConvolutionDescriptor", "miopenGetConvolutionNdDescriptor",
    "miopenSetConvolutionGroupCount", "miopenGetConvolutionGroupCount", "miopenSetTransposeConvOutputPadding",
    "miopenSetTransposeConvNdOutputPadding", "miopenGetConvolutionForwardOutputDim",
    "miopenGetConvolutionNdForwardOutputDim", "miopenSetConvolutionAttribute", "miopenGetConvolutionAttribute",
    "miopenSetConvolutionFindMode", "miopenGetConvolutionFindMode", "miopenDestroyConvolutionDescriptor",
    "miopenConvolutionForwardGetWorkSpaceSize", "miopenFindConvolutionForwardAlgorithm", "miopenConvolutionForward",
    "miopenConvolutionForwardGetSolutionCount", "miopenConvolutionForwardGetSolution",
    "miopenConvolutionForwardGetSolutionWorkspaceSize", "miopenConvolutionForwardCompileSolution",
    "miopenConvolutionForwardImmediate", "miopenConvolutionBackwardDataGetWorkSpaceSize",
    "miopenFindConvolutionBackwardDataAlgorithm", "miopenConvolutionBackwardData",
    "miopenConvolutionBackwardDataGetSolutionCount", "miopenConvolutionBackwardDataGetSolution",
    "miopenConvolutionBackwardDataGetSolutionWorkspaceSize", "miopenConvolutionBackwardDataCompileSolution",
    "miopenConvolutionBackwardDataImmediate", "miopenConvolutionBackwardWeightsGetWorkSpaceSize",
    "miopenFindConvolutionBackwardWeightsAlgorithm", "miopenConvolutionBackwardWeights",
    "miopenConvolutionBackwardWeightsGetSolutionCount", "miopenConvolutionBackwardWeightsGetSolution",
    "miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize", "miopenConvolutionBackwardWeightsCompileSolution",
    "miopenConvolutionBackwardWeightsImmediate", "miopenConvolutionForwardBias", "miopenConvolutionBackwardBias",
]
