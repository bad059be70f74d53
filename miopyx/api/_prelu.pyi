from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.runtime._buffers import _Data

def miopenGetPReLUBackwardWorkspaceSize(
    handle: Handle, inputDesc: TensorDescriptor, weightDesc: TensorDescriptor
) -> int: ...
def miopenPReLUBackward(
    handle: Handle,
    workspace: _Data | None,
    workspaceSizeInBytes: _Int,
    inputDesc: TensorDescriptor,
    input: _Data,
    weightDesc: TensorDescriptor,
    weight: _Data,
    doutputDesc: TensorDescriptor,
    doutput: _Data,
    dinputDesc: TensorDescriptor,
    dinput: _Data,
    dweightDesc: TensorDescriptor,
    dweight: _Data,
) -> None: ...
def plan_prelu_backward(
    handle: Handle,
    input_desc: TensorDescriptor,
    weight_desc: TensorDescriptor,
    doutput_desc: TensorDescriptor,
    dinput_desc: TensorDescriptor,
    dweight_desc: TensorDescriptor,
) -> Plan: ...

__all__ = [
    "miopenGetPReLUBackwardWorkspaceSize",
    "miopenPReLUBackward",
]
