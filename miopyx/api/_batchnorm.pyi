from typing import SupportsFloat, TypeAlias

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.enums import miopenBatchNormMode_t
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.runtime._buffers import _Data

_Real: TypeAlias = SupportsFloat

def miopenDeriveBNTensorDescriptor(
    derivedBnDesc: TensorDescriptor, xDesc: TensorDescriptor, bn_mode: miopenBatchNormMode_t | _Int
) -> None: ...
def miopenBatchNormalizationForwardTraining(
    handle: Handle,
    bn_mode: miopenBatchNormMode_t | _Int,
    alpha: _Real,
    beta: _Real,
    xDesc: TensorDescriptor,
    x: _Data,
    yDesc: TensorDescriptor,
    y: _Data,
    bnScaleBiasMeanVarDesc: TensorDescriptor,
    bnScale: _Data,
    bnBias: _Data,
    expAvgFactor: _Real,
    resultRunningMean: _Data | None,
    resultRunningVariance: _Data | None,
    epsilon: _Real,
    resultSaveMean: _Data | None,
    resultSaveInvVariance: _Data | None,
) -> None: ...
def miopenBatchNormalizationForwardTraining_V2(
    handle: Handle,
    bn_mode: miopenBatchNormMode_t | _Int,
    alpha: _Real,
    beta: _Real,
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
    resultRunningMean: _Data | None,
    resultRunningVariance: _Data | None,
    epsilon: _Real,
    resultSaveMean: _Data | None,
    resultSaveInvVariance: _Data | None,
) -> None: ...
def miopenBatchNormalizationForwardInference(
    handle: Handle,
    bn_mode: miopenBatchNormMode_t | _Int,
    alpha: _Real,
    beta: _Real,
    xDesc: TensorDescriptor,
    x: _Data,
    yDesc: TensorDescriptor,
    y: _Data,
    bnScaleBiasMeanVarDesc: TensorDescriptor,
    bnScale: _Data,
    bnBias: _Data,
    estimatedMean: _Data | None,
    estimatedVariance: _Data | None,
    epsilon: _Real,
) -> None: ...
def miopenBatchNormalizationForwardInference_V2(
    handle: Handle,
    bn_mode: miopenBatchNormMode_t | _Int,
    alpha: _Real,
    beta: _Real,
    xDesc: TensorDescriptor,
    x: _Data,
    yDesc: TensorDescriptor,
    y: _Data,
    scaleDesc: TensorDescriptor,
    biasDesc: TensorDescriptor,
    estMeanDesc: TensorDescriptor,
    estVarianceDesc: TensorDescriptor,
    bnScale: _Data,
    bnBias: _Data,
    estimatedMean: _Data | None,
    estimatedVariance: _Data | None,
    epsilon: _Real,
) -> None: ...
def miopenBatchNormalizationBackward(
    handle: Handle,
    bn_mode: miopenBatchNormMode_t | _Int,
    alphaDataDiff: _Real,
    betaDataDiff: _Real,
    alphaParamDiff: _Real,
    betaParamDiff: _Real,
    xDesc: TensorDescriptor,
    x: _Data,
    dyDesc: TensorDescriptor,
    dy: _Data,
    dxDesc: TensorDescriptor,
    dx: _Data,
    bnScaleBiasDiffDesc: TensorDescriptor,
    bnScale: _Data,
    resultBnScaleDiff: _Data,
    resultBnBiasDiff: _Data,
    epsilon: _Real,
    savedMean: _Data | None,
    savedInvVariance: _Data | None,
) -> None: ...
def miopenBatchNormalizationBackward_V2(
    handle: Handle,
    bn_mode: miopenBatchNormMode_t | _Int,
    alphaDataDiff: _Real,
    betaDataDiff: _Real,
    alphaParamDiff: _Real,
    betaParamDiff: _Real,
    xDesc: TensorDescriptor,
    x: _Data,
    dyDesc: TensorDescriptor,
    dy: _Data,
    dxDesc: TensorDescriptor,
    dx: _Data,
    scaleDesc: TensorDescriptor,
    biasDesc: TensorDescriptor,
    savedMeanDesc: TensorDescriptor,
    savedVarDesc: TensorDescriptor,
    bnScale: _Data,
    resultBnScaleDiff: _Data,
    resultBnBiasDiff: _Data,
    epsilon: _Real,
    savedMean: _Data | None,
    savedInvVariance: _Data | None,
) -> None: ...
def plan_batch_norm_training(
    handle: Handle,
    mode: miopenBatchNormMode_t | _Int,
    x_desc: TensorDescriptor,
    y_desc: TensorDescriptor,
    bn_desc: TensorDescriptor,
    running: bool,
    save: bool,
) -> Plan: ...
def plan_batch_norm_inference(
    handle: Handle,
    mode: miopenBatchNormMode_t | _Int,
    x_desc: TensorDescriptor,
    y_desc: TensorDescriptor,
    bn_desc: TensorDescriptor,
) -> Plan: ...
def plan_batch_norm_backward(
    handle: Handle,
    mode: miopenBatchNormMode_t | _Int,
    x_desc: TensorDescriptor,
    dy_desc: TensorDescriptor,
    dx_desc: TensorDescriptor,
    bn_desc: TensorDescriptor,
    saved: bool,
) -> Plan: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenDeriveBNTensorDescriptor", "miopenBatchNormalizationForwardTraining",
    "miopenBatchNormalizationForwardTraining_V2", "miopenBatchNormalizationForwardInference",
    "miopenBatchNormalizationForwardInference_V2", "miopenBatchNormalizationBackward",
    "miopenBatchNormalizationBackward_V2",
]
