"""Text files of a device's family, with what was measured there and solvers choose by.

::

    miopyx KIND VERSION
    where the numbers come from
    NAME ...
    #1a2b3c4d

The last line is a CRC-32 of all before; a file is called `<family>.KIND.txt`, or of one card of that family, where two
that have one name differ, `<family>.<card>.KIND.txt`.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, TypeVar

from miopyx.errors import InvalidValueError
from miopyx.values import config, logs, posix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from miopyx.device.info import DeviceInfo

T = TypeVar("T")

MOST_BYTES = 1 << 20  # of a file; a larger one is none of ours


def family(info: DeviceInfo) -> str:
    """Return the family of a device: its name without the number of compute units."""
    return info.name.rpartition("_")[0]


def card(maker_name: str) -> str:
    """Return what stands for a card in a file's name: what its maker calls it, in small letters."""
    return re.sub(r"[^a-z0-9]+", "-", maker_name.lower()).strip("-")


def file_names(info: DeviceInfo, kind: str) -> list[str]:
    """Return the names of a device's files: its card's, its family's."""
    own = card(info.device_name)
    return [f"{family(info)}.{name}{kind}.txt" for name in ([f"{own}."] if own else []) + [""]]


def write(path: Path, kind: str, version: int, about: str, lines: Iterable[str]) -> None:
    """Write a file, whole or not at all."""
    import zlib

    body = "".join(f"{line}\n" for line in (f"miopyx {kind} {version}", about.replace("\n", " "), *lines)).encode()
    put(path, body + b"#%08x\n" % zlib.crc32(body))


def put(path: Path, data: bytes) -> None:
    """Write a file's bytes, whole or not at all; of folders only the user's is made."""
    from . import paths

    if not path.parent.is_dir() and path.parent != paths.user_folder():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
    if not config.write_atomically(path, data, shared=True):
        raise OSError(errno.EIO, "cannot be written", str(path))


def content(path: Path) -> bytes:
    """Return a file's bytes, MOST_BYTES at most.

    Raises
    ------
    OSError
        For what is no plain file: nobody may write at the other end of a pipe.
    ValueError
        For a larger file.
    """
    descriptor = posix.open_plain(path)
    try:
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            data = file.read(MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES} bytes")
    return data


def require_kind(data: bytes, kind: str, version: int) -> None:
    """Raise ValueError unless a file's first line says that it is of a kind and version."""
    first, _, _ = data.partition(b"\n")
    start = f"miopyx {kind}".encode()
    if not first.startswith(start + b" "):
        raise ValueError("another kind of file")
    if first != b"%b %d" % (start, version):
        raise ValueError(f"version {first[len(start) + 1:][:20].decode('ascii', 'replace')}")


def read(path: Path, kind: str, version: int) -> tuple[str, list[str]]:
    """Return where a file's numbers come from, and its lines.

    Raises
    ------
    OSError
    ValueError
        For a file that is none, has another version or was changed.
    """
    import zlib

    data = content(path)
    require_kind(data, kind, version)
    seal = max(0, len(data) - 10)
    if data[seal:] != b"#%08x\n" % zlib.crc32(data[:seal]):
        raise ValueError("its checksum is another")
    lines = data[:seal].decode().removesuffix("\n").split("\n")
    return lines[1] if len(lines) > 1 else "", lines[2:]


def readable(paths: Iterable[Path], kind: str, reader: Callable[[Path], T]) -> Iterator[T]:
    """Yield what `reader` makes of those files that are there; what cannot be read is passed over with a warning."""
    for path in paths:
        try:
            yield reader(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, InvalidValueError) as e:
            logs.warn_once(str(path), "%s is passed over: %s", path, e, function=kind)
