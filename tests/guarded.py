"""Memory of tests on devices: tensors in any layout, poisoned, between guards."""

from __future__ import annotations

import ctypes
import mmap

import ml_dtypes
import numpy as np
import pyopencl.array as cl_array

import miopyx
from miopyx import TensorDescriptor

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
DTYPE = {"float64": np.dtype("f8"), "float32": np.dtype("f4"), "float16": np.dtype("f2"),
         "bfloat16": np.dtype(ml_dtypes.bfloat16), "int8": np.dtype("i1"), "int32": np.dtype("i4"),
         **{name: np.dtype(getattr(ml_dtypes, name)) for name in (
             "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3fn", "float8_e5m2")}}
GUARD = 64  # bytes
LAYOUTS = ("packed", "channels last", "padded")


def strides_of(lens: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Strides of a packed, channels-last or padded tensor.

    Padded, no two elements lie together; "packed with gaps" and "channels last with gaps" have them between all but
    the closest.
    """
    last = layout.startswith("channels last") and len(lens) > 1
    order = [0, *range(2, len(lens)), 1] if last else list(range(len(lens)))
    strides, step = [0] * len(lens), 2 if layout == "padded" else 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(lens[axis], 1)
        if layout == "padded":
            step += 1
        elif layout.endswith("with gaps"):
            step += 3
    return tuple(strides)


class _Bytes:
    def __init__(self, buffer: object, begin: int, nbytes: int) -> None:
        self.buffer = buffer
        address = buffer.__cuda_array_interface__["data"][0]
        self.__cuda_array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address + begin, False),
                                         "version": 3}


def part_of(handle: miopyx.Handle, buffer: object, begin: int, nbytes: int) -> object:
    """Return bytes of what `upload` made as an argument of calls."""
    if handle.device.info.cuda >= 0:
        return _Bytes(buffer, begin, nbytes)
    return cl_array.Array(handle.queue, (nbytes,), np.uint8, data=buffer, offset=begin)


class Pages:
    """Whether memory lies against pages that nobody may touch, and what was handed over meanwhile.

    Attributes
    ----------
    against : str
        "end" or "begin": of each memory made, this one lies at such a page.  "": usual memory.
    given : list or None
        Every memory whose argument was asked for, with its bytes of then.
    """

    against = ""
    given: list | None = None


def against_page(nbytes: int, end: bool) -> np.ndarray:
    """Bytes in pages of their own between two that fault; at the end of theirs, or at the beginning."""
    page = mmap.PAGESIZE
    inside = -(-nbytes // page) * page
    pages = np.frombuffer(mmap.mmap(-1, inside + 2 * page), np.uint8)
    for first in (0, page + inside):
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(pages.ctypes.data + first), ctypes.c_size_t(page), 0):
            raise OSError("mprotect failed")
    return pages[page + inside - nbytes:page + inside] if end else pages[page:page + nbytes]


def between_guards(nbytes: int, before: int = GUARD) -> tuple[np.ndarray, int]:
    """Return memory, and where `nbytes` of it begin between guards of 0xA5; or between pages, see `Pages`."""
    if Pages.against:
        return against_page(nbytes, Pages.against == "end"), 0
    memory = np.full(before + nbytes + GUARD + 63, 0xA5, np.uint8)
    first = -memory.ctypes.data % 64
    return memory[first:first + before + nbytes + GUARD], before


class Guarded:
    """Memory of a descriptor's bytes between two guards, on the host or, for devices of their own, copied there.

    It begins `shift` bytes behind a boundary of 64; `copied`: devices that share memory with the host get a copy, too.
    See `Pages` for memory without these guards.
    """

    def __init__(self, handle: miopyx.Handle, nbytes: int, fill: int, shift: int = 0, copied: bool = False) -> None:
        self.handle, self.nbytes, self.begin, self.fetched = handle, nbytes, GUARD + shift, False
        self.in_place = handle.device.is_host or (handle.device.shares_memory and not copied)
        # On a device a workspace begins on a grid of 16 bytes, so it ends on one, too.
        grid = 16 if Pages.against and not self.in_place and type(self) is Guarded else 1
        self.memory, self.begin = between_guards(-(-nbytes // grid) * grid, self.begin)
        self.memory[self.begin + nbytes:] = 0xA5
        self.inner[...] = fill

    @property
    def inner(self) -> np.ndarray:
        return self.memory[self.begin:self.begin + self.nbytes]

    def argument(self) -> object:
        if Pages.given is not None:
            Pages.given.append((self, self.inner.copy()))
        if self.in_place:
            return self.inner
        self.buffer = self.handle.upload(self.memory if self.memory.size else np.zeros(1, np.uint8))
        return part_of(self.handle, self.buffer, self.begin, self.nbytes)

    def fetch(self) -> np.ndarray:
        self.fetched = True
        if hasattr(self, "buffer") and self.memory.size:
            self.handle.download(self.buffer, self.memory)
        assert (self.memory[:self.begin] == 0xA5).all(), "wrote before a buffer"
        assert (self.memory[self.begin + self.nbytes:] == 0xA5).all(), "wrote behind a buffer"
        return self.inner


class Tensor(Guarded):
    def __init__(self, handle: miopyx.Handle, desc: TensorDescriptor, values: np.ndarray | None, shift: int = 0,
                 copied: bool = False) -> None:
        super().__init__(handle, desc.nbytes, 0xFF, shift, copied)  # all ones: NaN in every floating type
        self.desc, self.dtype = desc, DTYPE[desc.dtype]
        self.addressed = np.zeros(desc.nbytes // self.dtype.itemsize, bool)
        np.lib.stride_tricks.as_strided(self.addressed, desc.lens, desc.strides)[...] = True
        if values is not None:
            self.view()[...] = values

    def view(self) -> np.ndarray:
        size = self.dtype.itemsize
        return np.lib.stride_tricks.as_strided(  # knows not all of ml_dtypes' types
            self.inner.view(f"u{size}"), self.desc.lens, tuple(s * size for s in self.desc.strides)).view(self.dtype)

    def values(self) -> np.ndarray:
        """The tensor's elements in float64; holes between them must still be poison."""
        raw = self.fetch().reshape(-1, self.dtype.itemsize)
        assert (raw[~self.addressed] == 0xFF).all(), "wrote between the elements of a tensor"
        return self.view().astype(np.float64)
