from collections.abc import Sequence

from miopyx.engine._handle import Handle
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

__all__ = [
    "miopenCatForward",
]
