from miopyx.enums import (
    miopenIndexType_t,
    miopenNanPropagation_t,
    miopenPoolingMode_t,
    miopenPoolingWorkspaceIndexMode_t,
)

from ._descriptors import Descriptor, TensorDescriptor, _Int, _Ints
from ._problem import Problem

class PoolingDescriptor(Descriptor):
    def __init__(
        self,
        mode: miopenPoolingMode_t | _Int = 0,
        windows: _Ints | None = None,
        pads: _Ints | None = None,
        strides: _Ints | None = None,
        index_type: miopenIndexType_t | _Int | None = None,
        index_mode: miopenPoolingWorkspaceIndexMode_t | _Int | None = None,
        dilations: _Ints | None = None,
        end_pads: _Ints | None = None,
        ceil_mode: bool = False,
        divisor_override: _Int | None = None,
        nan_propagation: miopenNanPropagation_t | _Int | None = None,
        indices_like_y: bool = False,
    ) -> None: ...
    @property
    def spatial_dim(self) -> int: ...
    @property
    def pooling_mode(self) -> miopenPoolingMode_t: ...
    @property
    def windows(self) -> tuple[int, ...]: ...
    @property
    def pads(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dilations(self) -> tuple[int, ...]: ...
    @property
    def end_pads(self) -> tuple[int, ...]: ...
    @property
    def ceil_mode(self) -> bool: ...
    @property
    def divisor_override(self) -> int | None: ...
    @property
    def workspace_index_type(self) -> miopenIndexType_t: ...
    @property
    def workspace_index_mode(self) -> miopenPoolingWorkspaceIndexMode_t: ...
    @property
    def nan_propagation(self) -> miopenNanPropagation_t: ...
    @property
    def indices_like_y(self) -> bool: ...
    def output_lens(self, x: TensorDescriptor) -> tuple[int, ...]: ...

class PoolingProblem(Problem):
    def __init__(
        self, what: int, pool: PoolingDescriptor, x: TensorDescriptor, y: TensorDescriptor, save: bool = False
    ) -> None: ...
    @property
    def workspace_bytes(self) -> int: ...

def set_pooling(
    desc: PoolingDescriptor,
    spatial: _Int,
    mode: miopenPoolingMode_t | _Int,
    windows: _Ints,
    pads: _Ints,
    strides: _Ints,
    dilations: _Ints | None = None,
    end_pads: _Ints | None = None,
    ceil_mode: bool = False,
    divisor_override: _Int | None = None,
    names: tuple[str, str, str, str, str] | None = None,
) -> None: ...
def set_index_type(desc: PoolingDescriptor, index_type: miopenIndexType_t | _Int) -> None: ...
def set_index_mode(desc: PoolingDescriptor, index_mode: miopenPoolingWorkspaceIndexMode_t | _Int) -> None: ...
