"""Kernel sources to built programs, through a cache on disk that never hands a driver bytes it did not write.

An entry is one file: a header in text that says what the binary was built from, a line with the binary's digest, the
binary.  It is used only if all of that is, to the byte, what would be written now; anything else is rebuilt and
replaced, since some drivers abort the process on a damaged binary.  Files appear whole or not at all, so writers need
no lock.

PoCL makes no binary when it builds a program: it generates code once more when it is asked for one, for any size of
work-group, and takes longer over it than over the build.  So its entries are written when the handle is destroyed or
leaves the device, when another handle wants the same program, or when the process ends: not while somebody waits for
the first result.

No program is built with ``-cl-std``: OpenCL then takes the newest 1.x that the device has, which is 1.2, and kernels
use nothing newer.

The folder has sixteen parts, by the first digit of an entry's name.  A write trims its own part to a sixteenth of the
limit, so no write looks through more than that.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import stat
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from miopyx.errors import InternalError, MIOpenError
from miopyx.values import config, kernels, logs, posix
from miopyx.values.digests import blake2b

from . import _cuda, _opencl
from ._runtime import Program

if TYPE_CHECKING:
    from miopyx._core import Device
    from miopyx.device.info import DeviceInfo

_PARTS = 16
_MAGIC = b"miopyx program 3\n"
_MAX_ENTRY_BYTES = 1 << 28  # a longer file is none of ours
_SM_90A = "SM_90A=1"  # among a kernel's definitions: see _for_sm_90a
_MAKE_BINARIES_WHEN_ASKED = {"pocl"}  # runtimes
_log = logging.getLogger("miopyx")


class _Later(NamedTuple):
    """An entry that is not written yet."""

    program: Program
    folder: Path
    head: bytes


_later: dict[Path, _Later] = {}
_at_end_of_worker: Any = None


@cache
def source(file: str) -> str:
    """Return a kernel file's text with its ``#include "x.h"`` lines replaced by the files they name."""
    try:
        text = kernels.read(file).decode()
    except OSError as e:
        raise InternalError(f"kernel file cannot be read: {e}") from None
    lines = []
    for line in text.splitlines():
        if line.startswith('#include "'):
            lines.append(source(line.split('"')[1]))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def build(device: Device, file: str, options: str) -> Program:
    """Return the program of a kernel file for a device, from the cache where it is there.

    Raises
    ------
    MIOpenError
        If the driver refuses the source; the message holds its build log.
    """
    program = cached(device, file, options)
    if program is not None:
        return program
    text = source(file).encode()
    try:
        context, compiler = _compiler(device)
        if device.info.cuda >= 0:
            return adopt(device, file, options, ptx(context, compiler, device.info, text, options))
        program = compiled(context, compiler, device.info, text, options)
    except MIOpenError as e:
        e.args = (f"{file}: {e.message}", *e.args[1:])
        e.message = e.args[0]
        raise
    folder = _folder()
    if folder is not None:
        head = header(device.info, file, options)
        path = _path(folder, head)
        _later[path] = _Later(program, folder, head)
        if device.info.runtime not in _MAKE_BINARIES_WHEN_ASKED:
            _store_later(path)
        else:
            _store_at_end_of_worker()
    return program


def compiled(context: int, compiler: int, info: DeviceInfo, text: bytes, options: str) -> Program:
    """Return a source's program by a cl_context and cl_device_id, past the cache."""
    if _SM_90A not in options.split():
        return _from_source(context, compiler, info, text, options)
    return _opencl.program_from_binary(context, compiler, ptx(context, compiler, info, text, options),
                                       options.encode())


def ptx(context: int, compiler: int, info: DeviceInfo, text: bytes, options: str) -> bytes:
    """Return what NVIDIA's OpenCL makes of a source, for CUDA's driver: what OpenCL would store for the same device."""
    binary = _from_source(context, compiler, info, text, options).binary() or b""
    return _for_sm_90a(binary) if _SM_90A in options.split() else binary.rstrip(b"\0")


def _from_source(context: int, compiler: int, info: DeviceInfo, text: bytes, options: str) -> Program:
    return _opencl.program_from_source(context, compiler, text, f"{options}{_known_of(info)}".encode())


def _compiler(device: Device) -> tuple[int, int]:
    """Return cl_context and cl_device_id of who compiles for a device."""
    if device.info.cuda < 0:
        return device.context_address, device.device_address
    from miopyx.device import devices

    _opencl.load(devices.loader_path())
    return devices.compiler(device.info)


def _known_of(info: DeviceInfo) -> str:
    """What kernels may ask about a device: NVIDIA's compiler does not say which instructions there are."""
    return f" -D MX_SM={info.isa[2:]}" if info.isa.startswith("sm") and info.isa[2:].isdigit() else ""


@atexit.register
def store(some: Collection[Program] | None = None) -> None:
    """Write the entries that are not written yet, of some programs or of all."""
    wanted = {id(program) for program in some or ()}
    for path, entry in list(_later.items()):
        if some is None or id(entry.program) in wanted:
            _store_later(path)


def _store_later(path: Path) -> None:
    entry = _later.get(path)
    if entry is None:
        return
    if os.path.exists(entry.folder.parent):  # else somebody cleared up
        binary = entry.program.binary()
        if binary is not None:
            _store(path, entry.head, binary)
    _later.pop(path, None)


def _store_at_end_of_worker() -> None:
    """See that `store` is called at the end of multiprocessing's workers, too, which call nothing of `atexit`."""
    global _at_end_of_worker
    util = sys.modules.get("multiprocessing.util")
    if util is not None and (_at_end_of_worker is None or not _at_end_of_worker.still_active()):
        _at_end_of_worker = util.Finalize(None, store, exitpriority=0)


def _for_sm_90a(ptx: bytes) -> bytes:
    """Return a program for compute capability 9.0 with the instructions that its OpenCL compiler does not know.

    They travel as comments that begin with ``//@``, their operands bound, in the PTX that NVIDIA's driver calls binary.
    """
    return re.sub(rb"\.target sm_90\b", b".target sm_90a", ptx.rstrip(b"\0").replace(b"//@", b""))


def cached(device: Device, file: str, options: str) -> Program | None:
    """Return the program as the cache has it, None where it has not or the driver refuses what it once made."""
    folder = _folder()
    if folder is None:
        return None
    head = header(device.info, file, options)
    path = _path(folder, head)
    _store_later(path)
    binary = read_entry(path, head)
    if binary is None:
        return None
    try:
        return _load(device, options, binary)
    except MIOpenError as e:
        _log.info("rebuilding %s: the driver refused its own binary (%s)", file, e)
        return None


def is_cached(device: Device, file: str, options: str) -> bool:
    """Whether the cache has the program, whole; nothing is loaded, so the driver may still refuse it."""
    folder = _folder()
    if folder is None:
        return False
    head = header(device.info, file, options)
    return read_entry(_path(folder, head), head) is not None


def adopt(device: Device, file: str, options: str, binary: bytes) -> Program:
    """Return the program of a binary that another process just built for this device, and store it.

    Raises
    ------
    MIOpenError
        If the driver refuses it; nothing is stored then.
    """
    program = _load(device, options, binary)
    folder = _folder()
    if folder is not None:
        head = header(device.info, file, options)
        _store(_path(folder, head), head, binary)
    return program


def identity(info: DeviceInfo) -> dict[str, Any]:
    """Return what tells a device and its driver from all others whose binaries it might not run.

    The library's size and time stand for its content: two builds of one runtime may report the same version.  The
    instruction set tells CPUs apart that virtual machines give the same name.  NVIDIA's binaries are PTX, which its
    driver's version settles: so OpenCL and CUDA share them, and CUDA finds them where there is no OpenCL.
    """
    if info.runtime == "nvidia":
        return {"platform": "NVIDIA CUDA", "platform version": "", "device": info.device_name, "isa": info.isa,
                "driver": info.driver_version, "library": []}
    library: list[Any] = [info.library]
    with contextlib.suppress(OSError):
        status = os.stat(info.library)
        library += [status.st_size, status.st_mtime_ns]
    return {"platform": info.platform_name, "platform version": info.platform_version, "device": info.device_name,
            "isa": info.isa, "driver": info.driver_version, "library": library}


def header(info: DeviceInfo, file: str, options: str) -> bytes:
    """Return the first lines of an entry: what the binary depends on, ``name: value`` in Python's ASCII notation.

    Kernels ask for fp64, which Rusticl has or not by a variable of the environment (RUSTICL_FEATURES).
    """
    fields = {"file": file, "options": options, **identity(info), "fp64": info.fp64,
              "source": _digest(source(file).encode())}
    return _MAGIC + "".join(f"{name}: {value!a}\n" for name, value in fields.items()).encode()


def read_entry(path: Path, head: bytes) -> bytes | None:
    """Return the binary of the entry at `path`, or None unless every byte of the file is what was written."""
    data = _read_file(path)
    if data is None:
        return None
    start = len(head) + len(_payload_line(b""))
    binary = data[start:]
    if data[:start] != head + _payload_line(binary):
        _log.info("ignoring a damaged or foreign program cache entry: %s", path.name)
        return None
    return binary


def _load(device: Device, options: str, binary: bytes) -> Program:
    if device.info.cuda >= 0:
        return _cuda.program_from_ptx(device.context_address, binary)
    return _opencl.program_from_binary(device.context_address, device.device_address, binary, options.encode())


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()


def _payload_line(binary: bytes) -> bytes:
    return f"binary: {_digest(binary)}\n\n".encode()


def _path(folder: Path, head: bytes) -> Path:
    key = blake2b(head, digest_size=20).hexdigest()
    return folder / key[0] / f"{key[1:]}.bin"


def _read_file(path: Path) -> bytes | None:
    """Return the bytes of a file of our own, and make it the last used one."""
    data = config.read_own(path, _MAX_ENTRY_BYTES)
    if data is not None:
        with contextlib.suppress(OSError):  # a read-only file system keeps no order of use
            os.utime(path)
    return data


def _store(path: Path, head: bytes, binary: bytes) -> None:
    if config.write_atomically(path, head + _payload_line(binary) + binary):
        _trim(path)
    else:
        _warn(f"{path.parent.parent} cannot be written to, or is full")


def _trim(new: Path) -> None:
    """Remove the longest unused files beside a new one until its part of the folder keeps to the limit.

    What a killed writer left behind goes the same way.
    """
    limit = logs.setting("MIOPYX_CACHE_MB") * 2**20 // _PARTS
    files = sorted(_files(new.parent))
    total = sum(size for _, size, _ in files)
    for _, size, path in files:
        if total <= limit:
            return
        if path != str(new):
            with contextlib.suppress(OSError):  # another process may be at it, too
                os.unlink(path)
            total -= size


def _files(folder: Path) -> Iterator[tuple[int, int, str]]:
    """Yield time of use in ns, bytes and path of each file in a folder."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield status.st_mtime_ns, status.st_size, entry.path


def _folder() -> Path | None:
    """Return the folder of the program cache, or None where it is switched off or there is none to be had."""
    if config.get("MIOPEN_DISABLE_CACHE") or not config.get("MIOPYX_CACHE"):
        return None
    custom: str = config.get("MIOPEN_CUSTOM_CACHE_DIR")
    if not custom:
        folder = config.cache_dir()
        if folder is None:
            _warn("the cache folder cannot be used, or others may write to it")
            return None
    else:
        folder = config.expanded(custom)
        why = _why_unsafe(folder)
        if why:
            _warn(f"MIOPEN_CUSTOM_CACHE_DIR {folder} {why}")
            return None
    return folder / "programs"


def _why_unsafe(folder: Path) -> str:
    """Make a folder if need be; return why what lies there must not be loaded, or an empty text."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as e:
        return f"cannot be used: {e}"
    if not posix.is_ours(status):
        return "belongs to another user"
    return "may be written to by others" if posix.others_write(status) else ""


def _warn(why: str) -> None:
    logs.warn_once(why, "built programs are not kept: %s", why, function="programs")
