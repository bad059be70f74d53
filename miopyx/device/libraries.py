"""Which file a function came from that this process loaded."""

from __future__ import annotations

import ctypes
import os


class _DlInfo(ctypes.Structure):
    _fields_ = (("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p))


def file_of(address: int | None) -> str:
    """Return the file of the shared library that holds `address`, or an empty text."""
    info = _DlInfo()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = (ctypes.c_void_p, ctypes.POINTER(_DlInfo))
    if not address or not dladdr(address, ctypes.byref(info)) or not info.file:
        return ""
    return os.path.realpath(os.fsdecode(info.file))


def file_of_symbol(library: str, symbol: str) -> str:
    """Return the file in which a library, or one that it is linked with, has a function; empty if there is none."""
    try:
        return file_of(ctypes.cast(getattr(ctypes.CDLL(library), symbol), ctypes.c_void_p).value)
    except (OSError, AttributeError):
        return ""
