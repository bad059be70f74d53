from collections.abc import Sequence

from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.problem._descriptors import TensorDescriptor, _Int
from miopyx.runtime._buffers import _Data

def miopenCatForward(
    handle: Handle,
    xCount: _Int,
    xDescs: Sequence[TensorDescriptor],
    xs: Sequence[_Data],
    yDesc: TensorDescriptor,
    y: _Data,
    dim: _Int,
) -> None: ...
def plan_cat_forward(
    handle: Handle,
    x_descs: Sequence[TensorDescriptor],
    y_desc: TensorDescriptor,
    dim: _Int,
) -> Plan: ...

__all__ = [
    "miopenCatForward",
]
