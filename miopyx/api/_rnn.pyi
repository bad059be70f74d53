from collections.abc import Sequence

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.enums import (
    miopenDataType_t,
    miopenRNNAlgo_t,
    miopenRNNBaseLayout_t,
    miopenRNNBiasMode_t,
    miopenRNNDirectionMode_t,
    miopenRNNFWDMode_t,
    miopenRNNInputMode_t,
    miopenRNNMode_t,
    miopenRNNPaddingMode_t,
)
from miopyx.problem._descriptors import TensorDescriptor, _DataType, _Int, _Ints
from miopyx.problem._dropout import DropoutDescriptor
from miopyx.problem._rnn import RNNDescriptor, SeqTensorDescriptor
from miopyx.runtime._buffers import _Data

_Step = TensorDescriptor | SeqTensorDescriptor
_Flag = bool | _Int

def miopenCreateRNNDescriptor() -> RNNDescriptor: ...
def miopenGetRNNDescriptor(rnnDesc: RNNDescriptor) -> tuple[
    miopenRNNMode_t, miopenRNNAlgo_t, miopenRNNInputMode_t, miopenRNNDirectionMode_t, miopenRNNBiasMode_t, int, int
]: ...
def miopenGetRNNDescriptor_V2(rnnDesc: RNNDescriptor) -> tuple[
    int,
    int,
    DropoutDescriptor | None,
    miopenRNNInputMode_t,
    miopenRNNDirectionMode_t,
    miopenRNNMode_t,
    miopenRNNBiasMode_t,
    miopenRNNAlgo_t,
    miopenDataType_t,
]: ...
def miopenDestroyRNNDescriptor(rnnDesc: RNNDescriptor | None) -> None: ...
def miopenSetRNNDescriptor(
    rnnDesc: RNNDescriptor,
    hsize: _Int,
    nlayers: _Int,
    inMode: miopenRNNInputMode_t | _Int | str,
    direction: miopenRNNDirectionMode_t | _Int | str,
    rnnMode: miopenRNNMode_t | _Int | str,
    biasMode: miopenRNNBiasMode_t | _Int | str,
    algo: miopenRNNAlgo_t | _Int | str,
    dataType: _DataType,
) -> None: ...
def miopenSetRNNDescriptor_V2(
    rnnDesc: RNNDescriptor,
    hsize: _Int,
    nlayers: _Int,
    dropoutDesc: DropoutDescriptor | None,
    inMode: miopenRNNInputMode_t | _Int | str,
    direction: miopenRNNDirectionMode_t | _Int | str,
    rnnMode: miopenRNNMode_t | _Int | str,
    biasMode: miopenRNNBiasMode_t | _Int | str,
    algo: miopenRNNAlgo_t | _Int | str,
    dataType: _DataType,
) -> None: ...
def miopenCreateSeqTensorDescriptor() -> SeqTensorDescriptor: ...
def miopenDestroySeqTensorDescriptor(tensorDesc: SeqTensorDescriptor | None) -> None: ...
def miopenSetRNNDataSeqTensorDescriptor(
    seqTensorDesc: SeqTensorDescriptor,
    dataType: _DataType,
    layout: miopenRNNBaseLayout_t | _Int | str,
    maxSequenceLen: _Int,
    batchSize: _Int,
    vectorSize: _Int,
    sequenceLenArray: _Ints,
    paddingMarker: None,
) -> None: ...
def miopenGetRNNDataSeqTensorDescriptor(
    seqTensorDesc: SeqTensorDescriptor, sequenceLenArrayLimit: _Int | None
) -> tuple[miopenDataType_t, miopenRNNBaseLayout_t, int, int, int, list[int], None]: ...
def miopenSetRNNPaddingMode(rnnDesc: RNNDescriptor, paddingMode: miopenRNNPaddingMode_t | _Int | str) -> None: ...
def miopenGetRNNPaddingMode(rnnDesc: RNNDescriptor) -> miopenRNNPaddingMode_t: ...
def miopenGetRNNWorkspaceSize(
    handle: Handle, rnnDesc: RNNDescriptor, sequenceLen: _Int, xDesc: Sequence[TensorDescriptor]
) -> int: ...
def miopenGetRNNTrainingReserveSize(
    handle: Handle, rnnDesc: RNNDescriptor, sequenceLen: _Int, xDesc: Sequence[TensorDescriptor]
) -> int: ...
def miopenGetRNNTempSpaceSizes(
    handle: Handle, rnnDesc: RNNDescriptor, xDesc: SeqTensorDescriptor, fwdMode: miopenRNNFWDMode_t | _Int | str
) -> tuple[int, int]: ...
def miopenGetRNNParamsSize(handle: Handle, rnnDesc: RNNDescriptor, xDesc: _Step, dtype: _DataType) -> int: ...
def miopenGetRNNParamsDescriptor(
    handle: Handle, rnnDesc: RNNDescriptor, xDesc: _Step, wDesc: TensorDescriptor, dtype: _DataType
) -> None: ...
def miopenGetRNNInputTensorSize(
    handle: Handle, rnnDesc: RNNDescriptor, seqLen: _Int, xDesc: Sequence[TensorDescriptor]
) -> int: ...
def miopenGetRNNHiddenTensorSize(
    handle: Handle, rnnDesc: RNNDescriptor, seqLen: _Int, xDesc: Sequence[TensorDescriptor]
) -> int: ...
def miopenGetRNNLayerParamSize(
    handle: Handle, rnnDesc: RNNDescriptor, layer: _Int, xDesc: _Step, paramID: _Int
) -> int: ...
def miopenGetRNNLayerBiasSize(handle: Handle, rnnDesc: RNNDescriptor, layer: _Int, biasID: _Int) -> int: ...
def miopenGetRNNLayerParam(
    handle: Handle,
    rnnDesc: RNNDescriptor,
    layer: _Int,
    xDesc: _Step,
    wDesc: TensorDescriptor | None,
    w: _Data | None,
    paramID: _Int,
    paramDesc: TensorDescriptor,
    layerParam: _Data | None,
) -> None: ...
def miopenGetRNNLayerBias(
    handle: Handle,
    rnnDesc: RNNDescriptor,
    layer: _Int,
    xDesc: _Step,
    wDesc: TensorDescriptor | None,
    w: _Data | None,
    biasID: _Int,
    biasDesc: TensorDescriptor,
    layerBias: _Data | None,
) -> None: ...
def miopenGetRNNLayerParamOffset(
    rnnDesc: RNNDescriptor, layer: _Int, xDesc: _Step, paramID: _Int, paramDesc: TensorDescriptor
) -> int: ...
def miopenGetRNNLayerBiasOffset(
    rnnDesc: RNNDescriptor, layer: _Int, xDesc: _Step, biasID: _Int, biasDesc: TensorDescriptor
) -> int: ...
def miopenSetRNNLayerParam(
    handle: Handle,
    rnnDesc: RNNDescriptor,
    layer: _Int,
    xDesc: _Step,
    wDesc: TensorDescriptor | None,
    w: _Data,
    paramID: _Int,
    paramDesc: TensorDescriptor,
    layerParam: _Data,
) -> None: ...
def miopenSetRNNLayerBias(
    handle: Handle,
    rnnDesc: RNNDescriptor,
    layer: _Int,
    xDesc: _Step,
    wDesc: TensorDescriptor | None,
    w: _Data,
    biasID: _Int,
    biasDesc: TensorDescriptor,
    layerBias: _Data,
) -> None: ...
def miopenRNNForward(
    handle: Handle,
    rnnDesc: RNNDescriptor,
    fwdMode: miopenRNNFWDMode_t | _Int | str,
    xDesc: SeqTensorDescriptor,
    x: _Data,
    hDesc: TensorDescriptor | None,
    hx: _Data | None,
    hy: _Data | None,
    cDesc: TensorDescriptor | None,
    cx: _Data | None,
    cy: _Data | None,
    yDesc: SeqTensorDescriptor,
    y: _Data,
    w: _Data,
    weightSpaceSize: _Int,
    workSpace: _Data | None,
    workSpaceNumBytes: _Int,
    reserveSpace: _Data | None,
    reserveSpaceNumBytes: _Int,
) -> None: ...
def miopenRNNBackwardSeqData(
    handle: Handle,
    rnnDesc: RNNDescriptor,
    yDesc: SeqTensorDescriptor,
    y: _Data,
    dy: _Data,
    hDesc: TensorDescriptor | None,
    hx: _Data | None,
    dhy: _Data | None,
    dhx: _Data | None,
    cDesc: TensorDescriptor | None,
    cx: _Data | None,
    dcy: _Data | None,
    dcx: _Data | None,
    xDesc: SeqTensorDescriptor,
    dx: _Data,
    w: _Data,
    weightSpaceSize: _Int,
    workSpace: _Data | None,
    workSpaceNumBytes: _Int,
    reserveSpace: _Data | None,
    reserveSpaceNumBytes: _Int,
) -> None: ...
def miopenRNNBackwardWeightsSeqTensor(
    handle: Handle,
    rnnDesc: RNNDescriptor,
    xDesc: SeqTensorDescriptor,
    x: _Data,
    hDesc: TensorDescriptor | None,
    hx: _Data | None,
    yDesc: SeqTensorDescriptor,
    y: _Data,
    dw: _Data,
    weightSpaceSize: _Int,
    workSpace: _Data | None,
    workSpaceNumBytes: _Int,
    reserveSpace: _Data | None,
    reserveSpaceNumBytes: _Int,
) -> None: ...
def miopenRNNForwardTraining(
    handle: Handle,
    rnnDesc: RNNDescriptor,
    sequenceLen: _Int,
    xDesc: Sequence[TensorDescriptor],
    x: _Data,
    hxDesc: TensorDescriptor | None,
    hx: _Data | None,
    cxDesc: TensorDescriptor | None,
    cx: _Data | None,
    wDesc: TensorDescriptor | None,
    w: _Data,
    yDesc: Sequence[TensorDescriptor],
    y: _Data,
    hyDesc: TensorDescriptor | None,
    hy: _Data | None,
    cyDesc: TensorDescriptor | None,
    cy: _Data | None,
    workSpace: _Data | None,
    workSpaceNumBytes: _Int,
    reserveSpace: _Data | None,
    reserveSpaceNumBytes: _Int,
) -> None: ...
def miopenRNNForwardInference(
    handle: Handle,
    rnnDesc: RNNDescriptor,
    sequenceLen: _Int,
    xDesc: Sequence[TensorDescriptor],
    x: _Data,
    hxDesc: TensorDescriptor | None,
    hx: _Data | None,
    cxDesc: TensorDescriptor | None,
    cx: _Data | None,
    wDesc: TensorDescriptor | None,
    w: _Data,
    yDesc: Sequence[TensorDescriptor],
    y: _Data,
    hyDesc: TensorDescriptor | None,
    hy: _Data | None,
    cyDesc: TensorDescriptor | None,
    cy: _Data | None,
    workSpace: _Data | None,
    workSpaceNumBytes: _Int,
) -> None: ...
def miopenRNNBackwardData(
    handle: Handle,
    rnnDesc: RNNDescriptor,
    sequenceLen: _Int,
    yDesc: Sequence[TensorDescriptor],
    y: _Data,
    dyDesc: Sequence[TensorDescriptor],
    dy: _Data,
    dhyDesc: TensorDescriptor | None,
    dhy: _Data | None,
    dcyDesc: TensorDescriptor | None,
    dcy: _Data | None,
    wDesc: TensorDescriptor | None,
    w: _Data,
    hxDesc: TensorDescriptor | None,
    hx: _Data | None,
    cxDesc: TensorDescriptor | None,
    cx: _Data | None,
    dxDesc: Sequence[TensorDescriptor],
    dx: _Data,
    dhxDesc: TensorDescriptor | None,
    dhx: _Data | None,
    dcxDesc: TensorDescriptor | None,
    dcx: _Data | None,
    workSpace: _Data | None,
    workSpaceNumBytes: _Int,
    reserveSpace: _Data | None,
    reserveSpaceNumBytes: _Int,
) -> None: ...
def miopenRNNBackwardWeights(
    handle: Handle,
    rnnDesc: RNNDescriptor,
    sequenceLen: _Int,
    xDesc: Sequence[TensorDescriptor],
    x: _Data,
    hxDesc: TensorDescriptor | None,
    hx: _Data | None,
    yDesc: Sequence[TensorDescriptor],
    y: _Data,
    dwDesc: TensorDescriptor | None,
    dw: _Data,
    workSpace: _Data | None,
    workSpaceNumBytes: _Int,
    reserveSpace: _Data | None,
    reserveSpaceNumBytes: _Int,
) -> None: ...

def plan_rnn_forward(
    handle: Handle,
    rnn_desc: RNNDescriptor,
    x_desc: SeqTensorDescriptor,
    w_desc: TensorDescriptor,
    y_desc: SeqTensorDescriptor,
    training: _Flag,
    hx: _Flag,
    cx: _Flag,
    hy: _Flag,
    cy: _Flag,
) -> Plan: ...
def plan_rnn_backward_data(
    handle: Handle,
    rnn_desc: RNNDescriptor,
    y_desc: SeqTensorDescriptor,
    w_desc: TensorDescriptor,
    x_desc: SeqTensorDescriptor,
    hx: _Flag,
    cx: _Flag,
    dhy: _Flag,
    dcy: _Flag,
    dhx: _Flag,
    dcx: _Flag,
) -> Plan: ...
def plan_rnn_backward_weights(
    handle: Handle,
    rnn_desc: RNNDescriptor,
    x_desc: SeqTensorDescriptor,
    y_desc: SeqTensorDescriptor,
    dw_desc: TensorDescriptor,
    hx: _Flag,
) -> Plan: ...

__all__ = [  # noqa: RUF022 - in the order of this file
    "miopenCreateRNNDescriptor",
    "miopenGetRNNDescriptor",
    "miopenGetRNNDescriptor_V2",
    "miopenDestroyRNNDescriptor",
    "miopenSetRNNDescriptor",
    "miopenSetRNNDescriptor_V2",
    "miopenCreateSeqTensorDescriptor",
    "miopenDestroySeqTensorDescriptor",
    "miopenSetRNNDataSeqTensorDescriptor",
    "miopenGetRNNDataSeqTensorDescriptor",
    "miopenSetRNNPaddingMode",
    "miopenGetRNNPaddingMode",
    "miopenGetRNNWorkspaceSize",
    "miopenGetRNNTrainingReserveSize",
    "miopenGetRNNTempSpaceSizes",
    "miopenGetRNNParamsSize",
    "miopenGetRNNParamsDescriptor",
    "miopenGetRNNInputTensorSize",
    "miopenGetRNNHiddenTensorSize",
    "miopenGetRNNLayerParamSize",
    "miopenGetRNNLayerBiasSize",
    "miopenGetRNNLayerParam",
    "miopenGetRNNLayerBias",
    "miopenGetRNNLayerParamOffset",
    "miopenGetRNNLayerBiasOffset",
    "miopenSetRNNLayerParam",
    "miopenSetRNNLayerBias",
    "miopenRNNForward",
    "miopenRNNBackwardSeqData",
    "miopenRNNBackwardWeightsSeqTensor",
    "miopenRNNForwardTraining",
    "miopenRNNForwardInference",
    "miopenRNNBackwardData",
    "miopenRNNBackwardWeights",
]
