from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.runtime._buffers import _Data

def miopenKthvalueForward(
    handle: Handle,
    inputDesc: TensorDescriptor,
    input: _Data,
    outputDesc: TensorDescriptor,
    output: _Data,
    indicesDesc: TensorDescriptor,
    indices: _Data,
    k: _Int,
    dim: _Int,
    keepDim: bool,
) -> None: ...
def plan_kthvalue_forward(
    handle: Handle,
    input_desc: TensorDescriptor,
    output_desc: TensorDescriptor,
    indices_desc: TensorDescriptor,
    k: _Int,
    dim: _Int,
    keep_dim: bool,
) -> Plan: ...

__all__ = [
    "miopenKthvalueForward",
]
