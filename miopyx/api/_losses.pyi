from typing import SupportsFloat

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.enums import miopenLossReductionMode_t
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.runtime._buffers import _Data

def miopenGetSoftMarginLossForwardWorkspaceSize(
    handle: Handle,
    inputDesc: TensorDescriptor,
    targetDesc: TensorDescriptor,
    outputDesc: TensorDescriptor,
    reduction: miopenLossReductionMode_t | _Int,
) -> int: ...
def miopenSoftMarginLossForward(
    handle: Handle,
    inputDesc: TensorDescriptor,
    input: _Data,
    targetDesc: TensorDescriptor,
    target: _Data,
    outputDesc: TensorDescriptor,
    output: _Data,
    reduction: miopenLossReductionMode_t | _Int,
    workspace: _Data | None,
    workspaceSizeInBytes: _Int,
) -> None: ...
def miopenSoftMarginLossBackward(
    handle: Handle,
    inputDesc: TensorDescriptor,
    input: _Data,
    targetDesc: TensorDescriptor,
    target: _Data,
    doutputDesc: TensorDescriptor,
    doutput: _Data,
    dinputDesc: TensorDescriptor,
    dinput: _Data,
    reduction: miopenLossReductionMode_t | _Int,
) -> None: ...
def miopenGetMultiMarginLossForwardWorkspaceSize(
    handle: Handle,
    inputDesc: TensorDescriptor,
    targetDesc: TensorDescriptor,
    weightDesc: TensorDescriptor,
    outputDesc: TensorDescriptor,
    p: _Int,
    margin: SupportsFloat,
    reduction: miopenLossReductionMode_t | _Int,
) -> int: ...
def miopenMultiMarginLossForward(
    handle: Handle,
    inputDesc: TensorDescriptor,
    input: _Data,
    targetDesc: TensorDescriptor,
    target: _Data,
    weightDesc: TensorDescriptor,
    weight: _Data,
    outputDesc: TensorDescriptor,
    output: _Data,
    p: _Int,
    margin: SupportsFloat,
    reduction: miopenLossReductionMode_t | _Int,
    workspace: _Data | None,
    workspaceSizeInBytes: _Int,
) -> None: ...
def plan_soft_margin_loss_forward(
    handle: Handle,
    input_desc: TensorDescriptor,
    target_desc: TensorDescriptor,
    output_desc: TensorDescriptor,
    reduction: miopenLossReductionMode_t | _Int | str,
) -> Plan: ...
def plan_soft_margin_loss_backward(
    handle: Handle,
    input_desc: TensorDescriptor,
    target_desc: TensorDescriptor,
    doutput_desc: TensorDescriptor,
    dinput_desc: TensorDescriptor,
    reduction: miopenLossReductionMode_t | _Int | str,
) -> Plan: ...
def plan_multi_margin_loss_forward(
    handle: Handle,
    input_desc: TensorDescriptor,
    target_desc: TensorDescriptor,
    weight_desc: TensorDescriptor,
    output_desc: TensorDescriptor,
    p: _Int,
    margin: SupportsFloat,
    reduction: miopenLossReductionMode_t | _Int | str,
) -> Plan: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenGetSoftMarginLossForwardWorkspaceSize",
    "miopenSoftMarginLossForward",
    "miopenSoftMarginLossBackward",
    "miopenGetMultiMarginLossForwardWorkspaceSize",
    "miopenMultiMarginLossForward",
]
