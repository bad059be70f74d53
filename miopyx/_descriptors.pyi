from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .enums import (
    miopenConvolutionAttrib_t,
    miopenConvolutionFindMode_t,
    miopenConvolutionMode_t,
    miopenDataType_t,
    miopenTensorLayout_t,
)

# What is read as integers: Python's and NumPy's, enum members; a sequence is anything with a length.
_Int: TypeAlias = SupportsIndex
_Ints: TypeAlias = Sequence[_Int] | NDArray[np.integer[Any]]
_DataType: TypeAlias = miopenDataType_t | int | str | np.dtype[Any] | type[np.generic]

class TensorDescriptor:
    def __init__(
        self,
        data_type: _DataType | None = None,
        lens: _Ints | None = None,
        strides: _Ints | None = None,
        layout: miopenTensorLayout_t | _Int | None = None,
    ) -> None: ...
    @property
    def ndim(self) -> int: ...
    @property
    def data_type(self) -> miopenDataType_t: ...
    @property
    def dtype(self) -> str: ...
    @property
    def lens(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def packed(self) -> bool: ...
    @property
    def layout(self) -> miopenTensorLayout_t | None: ...

class ConvolutionDescriptor:
    def __init__(
        self,
        pads: _Ints | None = None,
        strides: _Ints | None = None,
        dilations: _Ints | None = None,
        mode: miopenConvolutionMode_t | _Int = 0,
        groups: _Int = 1,
        output_pads: _Ints | None = None,
    ) -> None: ...
    @property
    def spatial_dim(self) -> int: ...
    @property
    def pads(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dilations(self) -> tuple[int, ...]: ...
    @property
    def output_pads(self) -> tuple[int, ...]: ...
    @property
    def group_count(self) -> int: ...
    @property
    def convolution_mode(self) -> miopenConvolutionMode_t: ...
    @property
    def find_mode(self) -> miopenConvolutionFindMode_t | None: ...
    def output_lens(self, x: TensorDescriptor, w: TensorDescriptor) -> tuple[int, ...]: ...

def set_tensor(
    desc: TensorDescriptor, data_type: _DataType, num_dims: _Int, dims: _Ints, strides: _Ints | None, wide: bool
) -> None: ...
def set_tensor_layout(
    desc: TensorDescriptor,
    data_type: _DataType,
    layout: miopenTensorLayout_t | _Int,
    lens: _Ints,
    num_lens: _Int,
) -> None: ...
def set_convolution(
    desc: ConvolutionDescriptor,
    spatial: _Int,
    pads: _Ints,
    strides: _Ints,
    dilations: _Ints,
    mode: miopenConvolutionMode_t | _Int,
) -> None: ...
def set_group_count(desc: ConvolutionDescriptor, groups: _Int) -> None: ...
def set_output_pads(desc: ConvolutionDescriptor, spatial: _Int, pads: _Ints) -> None: ...
def set_attribute(desc: ConvolutionDescriptor, attr: miopenConvolutionAttrib_t | _Int, value: _Int) -> None: ...
def get_attribute(desc: ConvolutionDescriptor, attr: miopenConvolutionAttrib_t | _Int) -> int: ...
def set_find_mode(desc: ConvolutionDescriptor, mode: miopenConvolutionFindMode_t | _Int) -> None: ...
def destroy_tensor(desc: TensorDescriptor | None) -> None: ...
def destroy_convolution(desc: ConvolutionDescriptor | None) -> None: ...
