"""Kernel sources to built programs, through a cache on disk that never hands a driver bytes it did not write.

An entry is one file: magic, digest of what it was built from (source, options, device, driver), digest of the binary,
the binary.  Whatever does not match to the byte is rebuilt and replaced; some drivers abort the process on a damaged
binary.  Files appear whole or not at all, so writers need no lock.
"""

from __future__ import annotations

import hashlib
import logging
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from . import _opencl, config
from .errors import InternalError, MIOpenError

if TYPE_CHECKING:
    from ._core import Device

KERNELS = Path(__file__).parent / "kernels"
_MAGIC = b"miopyx program 1\n"
_log = logging.getLogger("miopyx")


@cache
def source(file: str) -> str:
    """Return a kernel file's text with its ``#include "x.h"`` lines replaced by the files they name."""
    try:
        text = (KERNELS / file).read_text(encoding="utf-8")
    except OSError as e:
        raise InternalError(f"kernel file cannot be read: {e}") from None
    lines = []
    for line in text.splitlines():
        if line.startswith('#include "'):
            lines.append(source(line.split('"')[1]))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def build(device: Device, file: str, options: str) -> _opencl.Program:
    """Return the program of a kernel file for a device, from the cache where it is there."""
    text = source(file).encode()
    key = _digest(b"\0".join([
        text, options.encode(), device.info.platform_name.encode(), device.info.platform_version.encode(),
        device.info.device_name.encode(), device.info.driver_version.encode(),
    ]))
    path = _path(key)
    binary = read_entry(path, key) if path is not None else None
    if binary is not None:
        try:
            return _opencl.program_from_binary(device.context_address, device.device_address, binary, options.encode())
        except MIOpenError as e:
            _log.info("rebuilding %s: the driver refused its own binary (%s)", file, e)
    try:
        program = _opencl.program_from_source(device.context_address, device.device_address, text, options.encode())
    except MIOpenError as e:
        e.args = (f"{file}: {e.message}", *e.args[1:])
        e.message = e.args[0]
        raise
    if path is not None:
        binary = program.binary()
        if binary is not None:
            config.write_atomically(path, _MAGIC + key + _digest(binary) + binary)
    return program


def read_entry(path: Path, key: bytes) -> bytes | None:
    """Return the binary of a cache entry, or None unless every byte of its header and digest is right."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head = len(_MAGIC)
    stored, check, binary = data[head:head + 32], data[head + 32:head + 64], data[head + 64:]
    if not data.startswith(_MAGIC) or stored != key or check != _digest(binary):
        _log.info("ignoring a damaged or foreign program cache entry: %s", path.name)
        return None
    return binary


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


def _path(key: bytes) -> Path | None:
    folder = config.cache_dir()
    return None if folder is None else folder / "programs" / key.hex()[:2] / (key.hex()[2:] + ".bin")
