"""The values of a graph: tensors that stay on the device between nodes, and go to the host when NumPy asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from miopyx import Handle, TensorDescriptor

Array = NDArray[Any]
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


class Ran(NamedTuple):
    """Where a node was computed.

    Attributes
    ----------
    node : onnx.NodeProto
    where : str
        ``"miopyx"``; ``"numpy"``; ``"fused"``: in the launches of a node before it; ``"view"``: nothing was computed.
    why : str
        The solvers, or the reason why it was not computed by miopyx, or the node into which it was fused.
    """

    node: onnx.NodeProto
    where: str
    why: str


class _Block:
    """Memory of a device, for the next value of its size once no value uses it: calls of a handle follow each other."""

    __slots__ = ("buffer", "free")

    def __init__(self, buffer: Any, free: list[Any]) -> None:
        self.buffer, self.free = buffer, free

    def __del__(self) -> None:
        self.free.append(self.buffer)


class _Part:
    """Memory of a device from an element on, as functions take it: an OpenCL array with an offset, or CUDA's."""

    def __init__(self, buffer: Any, offset: int, size: int) -> None:
        self.base_data, self.offset = buffer, offset
        self.shape, self.strides, self.dtype = (size,), (1,), np.dtype(np.uint8)
        known = getattr(buffer, "__cuda_array_interface__", None)
        if known is not None:
            address, read_only = known["data"]
            self.base_data = None
            self.__cuda_array_interface__ = {**known, "shape": (size,), "typestr": "|u1", "strides": None,
                                             "data": (address + offset, read_only)}


class Value:
    """A tensor of a graph: packed in memory of the device, or an array of NumPy's, or both.  It never changes.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    constant : bool
        Whether it is the same in every run: what is made of it may be kept.
    """

    __slots__ = ("__weakref__", "_block", "_device", "_host", "constant", "dtype", "shape")

    def __init__(self, device: Device, shape: Sequence[int], dtype: np.dtype[Any], host: Array | None = None,
                 block: _Block | None = None, constant: bool = False) -> None:
        self._device, self.shape, self.dtype = device, tuple(shape), dtype
        self._host, self._block, self.constant = host, block, constant

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def key(self) -> tuple[object, ...]:
        """What may be prepared depends on: lengths, type, and a constant itself."""
        return self.shape, self.dtype, self if self.constant else None

    @property
    def on_host(self) -> bool:
        """Whether NumPy can have it for nothing."""
        return self._host is not None

    @property
    def host(self) -> Array:
        """The tensor as an array of NumPy's, fetched at the first time."""
        if self._host is None:
            assert self._block is not None
            self._host = np.empty(self.shape, self.dtype)
            self._device.downloads += 1
            self._device.handle.download(self._block.buffer, self._host)
        return self._host

    @property
    def memory(self) -> Any:
        """What functions take for it: packed memory of the device."""
        if self._device.shares_memory:
            assert self._host is not None
            if not self._host.flags.c_contiguous:
                self._host = np.ascontiguousarray(self._host)
            return self._host.reshape(-1)
        if self._block is None:
            self._block = _Block(self._device.handle.upload(np.ascontiguousarray(self._host)), [])
            self._device.uploads += 1
        return self._block.buffer

    def part(self, first: int) -> Any:
        """What functions take for its memory from an element on."""
        if self._device.shares_memory:
            return self.memory[first:]
        at = first * self.dtype.itemsize
        return _Part(self.memory, at, self.size * self.dtype.itemsize - at) if at else self.memory

    @property
    def bytes(self) -> Any:
        """Its memory, for functions that want bytes."""
        return self.memory.view(np.uint8) if self._device.shares_memory else self.memory

    def reshaped(self, shape: Sequence[int]) -> Value:
        """Return the same elements under other lengths; nothing is copied but NumPy's arrays that are not packed."""
        host = None if self._host is None else self._host.reshape(tuple(shape))
        return Value(self._device, shape, self.dtype, host, self._block)

    def named(self, shape: Sequence[int]) -> Value:
        """Return the value under other lengths for what is being prepared, where a constant stays one."""
        value = self.reshaped(shape)
        value.constant = self.constant
        return value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.host, dtype, copy=copy)


class Device:
    """A handle, and the memory that values have there.

    Attributes
    ----------
    handle : Handle
    shares_memory : bool
        Whether its functions take NumPy's arrays where they lie.
    uploads, downloads : int
        How many tensors went to the device, and came back.
    ran : list of Ran
        The nodes of the last run.
    """

    def __init__(self, handle: Handle) -> None:
        self.handle, self.shares_memory = handle, handle.device.shares_memory
        self.uploads = self.downloads = 0
        self.ran: list[Ran] = []
        self.depth = 0  # of evaluators that run one inside the other
        self._free: dict[int, list[Any]] = {}  # memory that no value uses, by its bytes
        self._asked: set[int] = set()

    def begin(self) -> None:
        """Forget the last run, and let go of memory of sizes that it did not ask for."""
        self.ran.clear()
        self._free = {size: free for size, free in self._free.items() if size in self._asked}
        self._asked.clear()

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any] | str) -> Value:
        """Return a value to be written."""
        dtype = np.dtype(dtype)
        if self.shares_memory:
            return Value(self, shape, dtype, np.empty(tuple(shape), dtype))
        size = max(1, prod(shape) * dtype.itemsize)
        self._asked.add(size)
        free = self._free.setdefault(size, [])
        buffer = free.pop() if free else self.handle.empty((size,), "int8")
        return Value(self, shape, dtype, block=_Block(buffer, free))

    def wrap(self, value: Any, constant: bool = False) -> Any:
        """Return a value of what NumPy made; what is no tensor stays as it is."""
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if isinstance(value, np.ndarray):
            if not value.dtype.isnative:
                value = value.astype(value.dtype.newbyteorder("="))
            return Value(self, value.shape, value.dtype, value, constant=constant)
        return value

    def constant(self, array: Array) -> Value:
        return Value(self, array.shape, array.dtype, array, constant=True)

    def call(self, function: Callable[..., None], *values: Value | None, **numbers: float) -> None:
        """Call a function or plan with the memory of values."""
        function(*[None if value is None else value.memory for value in values], **numbers)


def unwrap(value: Any) -> Any:
    """Return what NumPy takes."""
    return value.host if isinstance(value, Value) else value


def lend(value: Any) -> Any:
    """Return what a subgraph gives to the node around it, which looks at numbers and conditions itself."""
    held = isinstance(value, Value) and (not value.on_host or (value.constant and value.dtype.name in FLOATS))
    return value if held else unwrap(value)


def tensor(dtype: np.dtype[Any], lens: Sequence[int]) -> TensorDescriptor:
    return TensorDescriptor(dtype.name, tuple(lens))
