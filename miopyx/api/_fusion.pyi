from typing import SupportsFloat, TypeAlias, final

from miopyx.engine._handle import Handle
from miopyx.enums import (
    miopenActivationMode_t,
    miopenBatchNormMode_t,
    miopenConvFwdAlgorithm_t,
    miopenFusionDirection_t,
)
from miopyx.problem._activation import ActivationDescriptor
from miopyx.problem._descriptors import ConvolutionDescriptor, TensorDescriptor, _Int
from miopyx.runtime._buffers import _Data

_Real: TypeAlias = SupportsFloat

@final
class FusionOperator: ...

@final
class FusionPlanDescriptor: ...

@final
class OperatorArgs: ...

def miopenBatchNormBackwardActivation(
    handle: Handle,
    bn_mode: miopenBatchNormMode_t | _Int,
    alphaDataDiff: _Data,
    betaDataDiff: _Data,
    alphaParamDiff: _Data,
    betaParamDiff: _Data,
    xDesc: TensorDescriptor,
    x: _Data,
    dyDesc: TensorDescriptor,
    dy: _Data,
    dxDesc: TensorDescriptor,
    dx: _Data,
    scaleDesc: TensorDescriptor,
    biasDesc: TensorDescriptor | None,
    savedMeanDesc: TensorDescriptor,
    savedVarianceDesc: TensorDescriptor,
    bnScale: _Data,
    bnBias: _Data,
    resultBnScaleDiff: _Data,
    resultBnBiasDiff: _Data,
    epsilon: _Real,
    savedMean: _Data,
    savedInvVariance: _Data,
    activDesc: TensorDescriptor,
) -> None: ...
def miopenBatchNormForwardInferenceActivation(
    handle: Handle,
    bn_mode: miopenBatchNormMode_t | _Int,
    alpha: _Real | None,
    beta: _Real | None,
    xDesc: TensorDescriptor,
    x: _Data,
    yDesc: TensorDescriptor,
    y: _Data,
    scaleDesc: TensorDescriptor,
    biasDesc: TensorDescriptor | None,
    estMeanDesc: TensorDescriptor,
    estVarianceDesc: TensorDescriptor,
    bnScale: _Data,
    bnBias: _Data,
    estimatedMean: _Data,
    estimatedVariance: _Data,
    epsilon: _Real,
    activDesc: TensorDescriptor,
) -> None: ...
def miopenBatchNormForwardTrainingActivation(
    handle: Handle,
    bn_mode: miopenBatchNormMode_t | _Int,
    alpha: _Real | None,
    beta: _Real | None,
    xDesc: TensorDescriptor,
    x: _Data,
    yDesc: TensorDescriptor,
    y: _Data,
    scaleDesc: TensorDescriptor,
    biasVarDesc: TensorDescriptor,
    savedMeanDesc: TensorDescriptor,
    savedVarDesc: TensorDescriptor,
    bnScale: _Data,
    bnBias: _Data,
    expAvgFactor: _Real,
    resultRunningMean: _Data,
    resultRunningVariance: _Data,
    epsilon: _Real,
    resultSaveMean: _Data,
    resultSaveInvVariance: _Data,
    activDesc: TensorDescriptor,
) -> None: ...
def miopenDeriveBNTensorDescriptor(
    derivedBnDesc: TensorDescriptor,
    xDesc: TensorDescriptor,
    bn_mode: miopenBatchNormMode_t | _Int,
) -> None: ...
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
def miopenExecuteFusionPlan(
    handle: Handle,
    fusePlanDesc: FusionPlanDescriptor,
    inputDesc: TensorDescriptor,
    input: _Data,
    outputDesc: TensorDescriptor,
    output: _Data,
    args: OperatorArgs,
) -> None: ...
