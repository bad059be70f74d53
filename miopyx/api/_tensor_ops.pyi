from typing import SupportsFloat, TypeAlias

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.enums import miopenTensorOp_t
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.runtime._buffers import _Data

_Real: TypeAlias = SupportsFloat

def miopenOpTensor(
    handle: Handle,
    tensorOp: miopenTensorOp_t | _Int,
    alpha1: _Real,
    aDesc: TensorDescriptor,
    A: _Data,
    alpha2: _Real,
    bDesc: TensorDescriptor,
    B: _Data,
    beta: _Real,
    cDesc: TensorDescriptor,
    C: _Data,
) -> None: ...
def miopenSetTensor(handle: Handle, yDesc: TensorDescriptor, y: _Data, alpha: _Real | _Int) -> None: ...
def miopenScaleTensor(handle: Handle, yDesc: TensorDescriptor, y: _Data, alpha: _Real) -> None: ...
def miopenTransformTensor(
    handle: Handle, alpha: _Real, xDesc: TensorDescriptor, x: _Data, beta: _Real, yDesc: TensorDescriptor, y: _Data
) -> None: ...
def copy_tensor(
    handle: Handle, src_desc: TensorDescriptor, src: _Data, dst_desc: TensorDescriptor, dst: _Data
) -> None: ...
def cast_tensor(
    handle: Handle,
    alpha: _Real,
    clamping: bool,
    src_desc: TensorDescriptor,
    src: _Data,
    dst_desc: TensorDescriptor,
    dst: _Data,
) -> None: ...
def plan_op_tensor(
    handle: Handle,
    tensor_op: miopenTensorOp_t | _Int,
    a_desc: TensorDescriptor,
    b_desc: TensorDescriptor,
    c_desc: TensorDescriptor,
) -> Plan: ...
def plan_set_tensor(handle: Handle, y_desc: TensorDescriptor, alpha: _Real | _Int) -> Plan: ...
def plan_scale_tensor(handle: Handle, y_desc: TensorDescriptor) -> Plan: ...
def plan_transform_tensor(handle: Handle, x_desc: TensorDescriptor, y_desc: TensorDescriptor) -> Plan: ...
def plan_copy_tensor(handle: Handle, src_desc: TensorDescriptor, dst_desc: TensorDescriptor) -> Plan: ...
def plan_cast_tensor(
    handle: Handle, src_desc: TensorDescriptor, dst_desc: TensorDescriptor, clamping: bool
) -> Plan: ...

__all__ = [
    "cast_tensor", "copy_tensor", "miopenOpTensor", "miopenScaleTensor", "miopenSetTensor", "miopenTransformTensor",
]
