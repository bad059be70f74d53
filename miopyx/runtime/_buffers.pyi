from typing import Any, Protocol, TypeAlias

from miopyx.problem._descriptors import TensorDescriptor

class _ArrayInterface(Protocol):  # NumPy and ml_dtypes arrays
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def dtype(self) -> Any: ...

class _IntPtr(Protocol):  # pyopencl.Buffer
    @property
    def int_ptr(self) -> int: ...

class _BaseData(Protocol):  # pyopencl.array.Array
    @property
    def base_data(self) -> Any: ...

class _SVM(Protocol):  # pyopencl.SVM and its allocations
    @property
    def svm_ptr(self) -> int: ...

class _CudaArrayInterface(Protocol):  # CuPy, Numba, our own under CUDA
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

class _DLPack(Protocol):  # PyTorch, JAX
    def __dlpack__(self) -> Any: ...

# What tensors and workspaces may be; an int is a cl_mem, under CUDA an address.
_Data: TypeAlias = (
    _ArrayInterface | bytes | bytearray | memoryview | _IntPtr | _BaseData | _SVM | _CudaArrayInterface | _DLPack | int
)

def require_packed(data: Any, name: str, desc: TensorDescriptor) -> None: ...
def keep(buffer: object, context: Any, name: str) -> None: ...
def address_on_cuda(data: _Data, name: str, need: int, ordinal: int, queue: int) -> int: ...
def know_buffer(type_: type, base: type, context: Any) -> None: ...
