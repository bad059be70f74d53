from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.enums import miopenCTCLossAlgo_t, miopenDataType_t
from miopyx.problem._ctc import CTCLossDescriptor
from miopyx.problem._descriptors import TensorDescriptor, _DataType, _Int, _Ints
from miopyx.runtime._buffers import _Data

def miopenCreateCTCLossDescriptor() -> CTCLossDescriptor: ...
def miopenSetCTCLossDescriptor(
    ctcLossDesc: CTCLossDescriptor, dataType: _DataType, blank_label_id: _Int, apply_softmax_layer: bool
) -> None: ...
def miopenGetCTCLossDescriptor(ctcLossDesc: CTCLossDescriptor) -> tuple[miopenDataType_t, int, bool]: ...
def miopenDestroyCTCLossDescriptor(ctcLossDesc: CTCLossDescriptor | None) -> None: ...
def miopenGetCTCLossWorkspaceSize(
    handle: Handle,
    probsDesc: TensorDescriptor,
    gradientsDesc: TensorDescriptor,
    labels: _Ints,
    labelLengths: _Ints,
    inputLengths: _Ints,
    algo: miopenCTCLossAlgo_t | _Int,
    ctcLossDesc: CTCLossDescriptor,
) -> int: ...
def miopenCTCLoss(
    handle: Handle,
    probsDesc: TensorDescriptor,
    probs: _Data,
    labels: _Ints,
    labelLengths: _Ints,
    inputLengths: _Ints,
    losses: _Data,
    gradientsDesc: TensorDescriptor,
    gradients: _Data,
    algo: miopenCTCLossAlgo_t | _Int,
    ctcLossDesc: CTCLossDescriptor,
    workSpace: _Data | None,
    workSpaceSize: _Int,
) -> None: ...
def plan_ctc_loss(
    handle: Handle,
    probs_desc: TensorDescriptor,
    gradients_desc: TensorDescriptor,
    ctc_desc: CTCLossDescriptor,
    most_labels: _Int,
) -> Plan: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenCreateCTCLossDescriptor",
    "miopenSetCTCLossDescriptor",
    "miopenGetCTCLossDescriptor",
    "miopenDestroyCTCLossDescriptor",
    "miopenGetCTCLossWorkspaceSize",
    "miopenCTCLoss",
]
