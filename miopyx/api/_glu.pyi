from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.runtime._buffers import _Data

def miopenGLUForward(
    handle: Handle,
    inputDesc: TensorDescriptor,
    input: _Data,
    outputDesc: TensorDescriptor,
    output: _Data,
    dim: _Int,
) -> None: ...
def miopenGLUBackward(
    handle: Handle,
    inputDesc: TensorDescriptor,
    input: _Data,
    outputGradDesc: TensorDescriptor,
    outputGrad: _Data,
    inputGradDesc: TensorDescriptor,
    inputGrad: _Data,
    dim: _Int,
) -> None: ...
def plan_glu_forward(
    handle: Handle,
    input_desc: TensorDescriptor,
    output_desc: TensorDescriptor,
    dim: _Int,
) -> Plan: ...
def plan_glu_backward(
    handle: Handle,
    input_desc: TensorDescriptor,
    output_grad_desc: TensorDescriptor,
    input_grad_desc: TensorDescriptor,
    dim: _Int,
) -> Plan: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenGLUForward",
    "miopenGLUBackward",
]
