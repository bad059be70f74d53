from typing import Any, SupportsFloat, TypeAlias, final

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.enums import (
    miopenActivationMode_t,
    miopenBatchNormMode_t,
    miopenConvFwdAlgorithm_t,
    miopenFusionDirection_t,
)
from miopyx.problem._activation import ActivationDescriptor
from miopyx.problem._descriptors import ConvolutionDescriptor, Descriptor, TensorDescriptor, _Int
from miopyx.runtime._buffers import _Data

_Real: TypeAlias = SupportsFloat

@final
class FusionOperator:
    def __init__(self) -> None: ...

@final
class FusionPlanDescriptor(Descriptor):
    def __init__(self) -> None: ...

@final
class OperatorArgs(Descriptor): ...

def miopenConvolutionBiasActivationForward(
    handle: Handle,
    alpha1: _Real | None,
    xDesc: TensorDescriptor,
    x: _Data,
    wDesc: TensorDescriptor,
    w: _Data,
    convDesc: ConvolutionDescriptor,
    algo: miopenConvFwdAlgorithm_t | _Int,
    workspace: _Data | None,
    workspaceSizeInBytes: _Int,
    alpha2: _Real | None,
    zDesc: TensorDescriptor | None,
    z: _Data | None,
    biasDesc: TensorDescriptor | None,
    bias: _Data | None,
    activationDesc: ActivationDescriptor,
    yDesc: TensorDescriptor,
    y: _Data,
) -> None: ...
def plan_bias_activation(
    handle: Handle,
    x_desc: TensorDescriptor,
    w_desc: TensorDescriptor,
    conv_desc: ConvolutionDescriptor,
    z_desc: TensorDescriptor | None,
    bias_desc: TensorDescriptor | None,
    activation_desc: ActivationDescriptor,
    y_desc: TensorDescriptor,
    solution_id: int | None = None,
    workspace_limit: int | None = None,
    norm_desc: TensorDescriptor | None = None,
    epsilon: float = 1e-5,
) -> Plan: ...
def fused_candidates(
    handle: Handle,
    x_desc: TensorDescriptor,
    w_desc: TensorDescriptor,
    conv_desc: ConvolutionDescriptor,
    z_desc: TensorDescriptor | None,
    bias_desc: TensorDescriptor | None,
    activation_desc: ActivationDescriptor,
    y_desc: TensorDescriptor,
    norm_desc: TensorDescriptor | None,
) -> list[tuple[int, float, int]]: ...
def miopenCreateFusionPlan(
    fuseDirection: miopenFusionDirection_t | _Int,
    inputDesc: TensorDescriptor,
) -> FusionPlanDescriptor: ...
def miopenDestroyFusionPlan(fusePlanDesc: FusionPlanDescriptor | None) -> None: ...
def miopenCreateOpConvForward(
    fusePlanDesc: FusionPlanDescriptor,
    convDesc: ConvolutionDescriptor,
    wDesc: TensorDescriptor,
) -> FusionOperator: ...
def miopenCreateOpBiasForward(fusePlanDesc: FusionPlanDescriptor, bDesc: TensorDescriptor) -> FusionOperator: ...
def miopenCreateOpActivationForward(
    fusePlanDesc: FusionPlanDescriptor,
    mode: miopenActivationMode_t | _Int | str,
) -> FusionOperator: ...
def miopenCreateOpActivationBackward(
    fusePlanDesc: FusionPlanDescriptor,
    mode: miopenActivationMode_t | _Int | str,
) -> FusionOperator: ...
def miopenCreateOpBatchNormInference(
    fusePlanDesc: FusionPlanDescriptor,
    bn_mode: miopenBatchNormMode_t | _Int,
    bnScaleBiasMeanVarDesc: TensorDescriptor,
) -> FusionOperator: ...
def miopenCreateOpBatchNormForward(
    fusePlanDesc: FusionPlanDescriptor,
    bn_mode: miopenBatchNormMode_t | _Int,
    runningMeanVariance: bool,
) -> FusionOperator: ...
def miopenCreateOpBatchNormBackward(
    fusePlanDesc: FusionPlanDescriptor,
    bn_mode: miopenBatchNormMode_t | _Int,
) -> FusionOperator: ...
def miopenFusionPlanGetOp(fusePlanDesc: FusionPlanDescriptor, op_idx: _Int) -> FusionOperator: ...
def miopenCompileFusionPlan(handle: Handle, fusePlanDesc: FusionPlanDescriptor) -> None: ...
def miopenFusionPlanGetWorkSpaceSize(
    handle: Handle,
    fusePlanDesc: FusionPlanDescriptor,
    algo: miopenConvFwdAlgorithm_t | _Int,
) -> int: ...
def miopenFusionPlanConvolutionGetAlgo(
    fusePlanDesc: FusionPlanDescriptor,
    requestAlgoCount: _Int,
) -> list[miopenConvFwdAlgorithm_t]: ...
def miopenFusionPlanConvolutionSetAlgo(
    fusePlanDesc: FusionPlanDescriptor,
    algo: miopenConvFwdAlgorithm_t | _Int,
) -> None: ...
def miopenCreateOperatorArgs() -> OperatorArgs: ...
def miopenDestroyOperatorArgs(args: OperatorArgs | None) -> None: ...
def miopenSetOpArgsConvForward(
    args: OperatorArgs,
    convOp: FusionOperator,
    alpha: _Real | None,
    beta: _Real | None,
    w: _Data,
) -> None: ...
def miopenSetOpArgsBiasForward(
    args: OperatorArgs,
    biasOp: FusionOperator,
    alpha: _Real | None,
    beta: _Real | None,
    bias: _Data,
) -> None: ...
def miopenSetOpArgsActivForward(
    args: OperatorArgs,
    activFwdOp: FusionOperator,
    alpha: _Real | None,
    beta: _Real | None,
    activAlpha: _Real,
    activBeta: _Real,
    activGamma: _Real,
) -> None: ...
def miopenSetOpArgsActivBackward(
    args: OperatorArgs,
    activBwdOp: FusionOperator,
    alpha: _Real | None,
    beta: _Real | None,
    y: object,
    reserved: object,
    activAlpha: _Real,
    activBeta: _Real,
    activGamma: _Real,
) -> None: ...
def miopenSetOpArgsBatchNormInference(
    args: OperatorArgs,
    bnOp: FusionOperator,
    alpha: _Real | None,
    beta: _Real | None,
    bnScale: _Data,
    bnBias: _Data,
    estimatedMean: _Data,
    estimatedVariance: _Data,
    epsilon: _Real,
) -> None: ...
def miopenSetOpArgsBatchNormForward(
    args: OperatorArgs,
    bnOp: FusionOperator,
    alpha: _Real | None,
    beta: _Real | None,
    bnScale: _Data,
    bnBias: _Data,
    savedMean: _Data | None,
    savedInvVariance: _Data | None,
    runningMean: _Data | None,
    runningVariance: _Data | None,
    expAvgFactor: _Real,
    epsilon: _Real,
) -> None: ...
def miopenSetOpArgsBatchNormBackward(
    args: OperatorArgs,
    bnOp: FusionOperator,
    alpha: _Real | None,
    beta: _Real | None,
    x: _Data,
    bnScale: _Data,
    bnBias: _Data | None,
    resultBnScaleDiff: _Data,
    resultBnBiasDiff: _Data,
    savedMean: _Data | None,
    savedInvVariance: _Data | None,
) -> None: ...
def commanded(
    plan: FusionPlanDescriptor, args: OperatorArgs
) -> list[tuple[str, list[Any], Any]]: ...
def miopenExecuteFusionPlan(
    handle: Handle,
    fusePlanDesc: FusionPlanDescriptor,
    inputDesc: TensorDescriptor,
    input: _Data,
    outputDesc: TensorDescriptor,
    output: _Data,
    args: OperatorArgs,
) -> None: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "FusionOperator", "FusionPlanDescriptor", "OperatorArgs", "miopenConvolutionBiasActivationForward",
    "miopenCreateFusionPlan", "miopenDestroyFusionPlan", "miopenCreateOpConvForward", "miopenCreateOpBiasForward",
    "miopenCreateOpActivationForward", "miopenCreateOpActivationBackward", "miopenCreateOpBatchNormInference",
    "miopenCreateOpBatchNormForward", "miopenCreateOpBatchNormBackward", "miopenFusionPlanGetOp",
    "miopenCompileFusionPlan", "miopenFusionPlanGetWorkSpaceSize", "miopenFusionPlanConvolutionGetAlgo",
    "miopenFusionPlanConvolutionSetAlgo", "miopenCreateOperatorArgs", "miopenDestroyOperatorArgs",
    "miopenSetOpArgsConvForward", "miopenSetOpArgsBiasForward", "miopenSetOpArgsActivForward",
    "miopenSetOpArgsActivBackward", "miopenSetOpArgsBatchNormInference", "miopenSetOpArgsBatchNormForward",
    "miopenSetOpArgsBatchNormBackward", "miopenExecuteFusionPlan",
]
