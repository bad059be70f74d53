from miopyx.enums import miopenDataType_t, miopenTensorLayout_t
from miopyx.problem._descriptors import TensorDescriptor, _DataType, _Int, _Ints

def miopenCreateTensorDescriptor() -> TensorDescriptor: ...
def miopenSet4dTensorDescriptor(
    tensorDesc: TensorDescriptor, dataType: _DataType, n: _Int, c: _Int, h: _Int, w: _Int
) -> None: ...
def miopenSet4dTensorDescriptorEx(
    tensorDesc: TensorDescriptor,
    dataType: _DataType,
    n: _Int,
    c: _Int,
    h: _Int,
    w: _Int,
    nStride: _Int,
    cStride: _Int,
    hStride: _Int,
    wStride: _Int,
) -> None: ...
def miopenSetNdTensorDescriptorWithLayout(
    tensorDesc: TensorDescriptor,
    dataType: _DataType,
    tensorLayout: miopenTensorLayout_t | _Int,
    lens: _Ints,
    num_lens: _Int,
) -> None: ...
def miopenSetTensorDescriptor(
    tensorDesc: TensorDescriptor, dataType: _DataType, nbDims: _Int, dimsA: _Ints, stridesA: _Ints | None
) -> None: ...
def miopenSetTensorDescriptorV2(
    tensorDesc: TensorDescriptor, dataType: _DataType, nbDims: _Int, dimsA: _Ints, stridesA: _Ints | None
) -> None: ...
def miopenSetTensorCastType(tensorDesc: TensorDescriptor, cast_type: _DataType) -> None: ...
def miopenGet4dTensorDescriptor(
    tensorDesc: TensorDescriptor,
) -> tuple[miopenDataType_t, int, int, int, int, int, int, int, int]: ...
def miopenGetTensorDescriptorSize(tensorDesc: TensorDescriptor) -> int: ...
def miopenGetTensorDescriptor(
    tensorDesc: TensorDescriptor,
) -> tuple[miopenDataType_t, tuple[int, ...], tuple[int, ...]]: ...
def miopenGetTensorNumBytes(tensorDesc: TensorDescriptor) -> int: ...
def miopenDestroyTensorDescriptor(tensorDesc: TensorDescriptor | None) -> None: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenCreateTensorDescriptor", "miopenSet4dTensorDescriptor", "miopenSet4dTensorDescriptorEx",
    "miopenSetNdTensorDescriptorWithLayout", "miopenSetTensorDescriptor", "miopenSetTensorDescriptorV2",
    "miopenSetTensorCastType", "miopenGet4dTensorDescriptor", "miopenGetTensorDescriptorSize",
    "miopenGetTensorDescriptor", "miopenGetTensorNumBytes", "miopenDestroyTensorDescriptor",
]
