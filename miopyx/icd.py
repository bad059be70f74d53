"""OpenCL runtimes that are installed but that no loader finds, and the environment that runtimes want.

A loader learns of a runtime from a one-line `.icd` file that names its library.  The wheels of Intel's CPU runtime
install one that still holds the path of the machine they were built on, and depend on libraries of another wheel
that they do not ask for.  `prepare` writes a right one into our own cache folder and points this process's loader
there.  It must run before the first platform query, since a loader reads its files once; nothing is changed when
loader variables are set already, and nothing is written outside our folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.metadata
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from . import config

_DISTRIBUTION = "intel-opencl-rt"
_LIBRARY = "libintelocl.so"
_COMPANION = "intel-cmplr-lib-rt"
_COMPANION_LIBRARIES = ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so")  # each may need those before it
_VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")
_DEFAULT_FOLDER = "/etc/OpenCL/vendors"
_MAX_ICD_BYTES = 4096


@dataclass(frozen=True)
class Runtime:
    """A runtime that a Python package brought along.

    `usable` says whether the loader finds it in this process, `state` how or why not, `remedy` what to do about it.
    """

    name: str
    version: str
    library: str
    usable: bool
    state: str
    remedy: str = ""


_preloads: list[str] = []
_runtimes: list[Runtime] | None = None


def prepare(extension: str) -> None:
    """Set the environment for the first platform query, once.

    Parameters
    ----------
    extension : str
        File of pyopencl's extension module, which is linked with the loader.
    """
    global _runtimes
    if _runtimes is None:
        if _all_cores_are_ours():
            os.environ.setdefault("POCL_AFFINITY", "1")
        try:
            runtime = _intel(extension)
        except Exception as e:  # a broken installation of one runtime must not cost the others
            runtime = Runtime(_DISTRIBUTION, "", "", False, f"cannot be examined: {type(e).__name__}: {e}")
        _runtimes = [runtime] if runtime else []


def runtimes() -> list[Runtime]:
    """Return the runtimes that `prepare` looked after."""
    return list(_runtimes or ())


def preloads() -> list[str]:
    """Return the libraries that were loaded for a runtime to find; a child process must load them as well."""
    return list(_preloads)


def fingerprint(extension: str) -> list[list[str | int]]:
    """Return what decides which libraries the loader will load, without making it load them."""
    folder = _vendor_folder(_loader_image(extension))
    marks: list[list[str | int]] = [[extension, os.environ.get("OCL_ICD_FILENAMES", "")]]
    for path, data in [*_icd_files(folder), *_icd_files(Path(extension).parent / ".libs")]:
        library = os.fsdecode(data.strip())
        mark: list[str | int] = [str(path), library]
        with contextlib.suppress(OSError, ValueError):  # a bare name, which the system's linker will find
            mark.append(os.stat(library).st_mtime_ns)
        marks.append(mark)
    return marks


def _all_cores_are_ours() -> bool:
    """Return whether this process may run on every core.

    Pinned threads keep PoCL's `pthread` device from migrating in the middle of a kernel, but PoCL pins the i-th to
    core i whatever the process was restricted to, so that two restricted processes would meet on core 0.
    """
    return os.sched_getaffinity(0) == set(range(os.cpu_count() or 0))


# -------------------------------------------------------------------------------------------------- Intel's wheels


def _intel(extension: str) -> Runtime | None:
    try:
        distribution = importlib.metadata.distribution(_DISTRIBUTION)
        version = str(distribution.version)
    except importlib.metadata.PackageNotFoundError:
        return None

    def unusable(state: str, remedy: str, library: str = "") -> Runtime:
        return Runtime(_DISTRIBUTION, version, library, False, state, remedy)

    library = _installed_file(distribution, _LIBRARY)
    if library is None:
        return unusable(f"{_LIBRARY} is not where the package's list of files says",
                        f"pip install --force-reinstall {_DISTRIBUTION} {_COMPANION}")
    image = _loader_image(extension)
    folder = _vendor_folder(image)
    named_by = _named_by(library, [*_icd_files(folder), *_icd_files(Path(extension).parent / ".libs")])
    if named_by:
        problem = _load_companions(library)
        if problem:
            return unusable(*problem, str(library))
        return Runtime(_DISTRIBUTION, version, str(library), True, f"named by {named_by}")
    given = [name for name in _VARIABLES if os.environ.get(name)]
    if given:
        return unusable(f"{given[0]} is set, and no .icd file there names {library}",
                        f"unset {given[0]}, or add a file intel.icd with the line {library}", str(library))
    problem = _load_companions(library)
    if problem:
        return unusable(*problem, str(library))
    if b"OCL_ICD_FILENAMES" in image:  # Khronos' loader adds these to what it finds; ocl-icd knows no such variable
        os.environ["OCL_ICD_FILENAMES"] = str(library)
        return Runtime(_DISTRIBUTION, version, str(library), True, "added through OCL_ICD_FILENAMES")
    own = _write_folder(library, _icd_files(folder))
    if own is None:
        return unusable("there is no cache folder of ours to write an .icd file into",
                        "set MIOPYX_CACHE_DIR to a folder that only you may write to", str(library))
    os.environ["OCL_ICD_VENDORS"] = str(own)
    return Runtime(_DISTRIBUTION, version, str(library), True, f"added through OCL_ICD_VENDORS={own}")


def _installed_file(distribution: importlib.metadata.Distribution, name: str) -> Path | None:
    for file in distribution.files or ():
        if file.name == name:
            path = Path(os.path.normpath(str(distribution.locate_file(file))))
            if path.is_file():
                return path
    return None


def _load_companions(library: Path) -> tuple[str, str] | None:
    """Make the libraries that the runtime needs resolvable; return what is missing and the remedy."""
    try:
        companion = importlib.metadata.distribution(_COMPANION)
    except importlib.metadata.PackageNotFoundError:
        companion = None
    missing = []
    for name in _COMPANION_LIBRARIES:
        if (library.parent / name).is_file():
            continue  # the runtime searches its own folder
        path = _installed_file(companion, name) if companion else None
        try:
            ctypes.CDLL(str(path or name), ctypes.RTLD_GLOBAL)
        except OSError:
            missing.append(name)
        else:
            _preloads.append(str(path or name))
    if missing:
        return (f"{', '.join(missing)} missing: {_DISTRIBUTION} needs {_COMPANION} without asking for it",
                f"pip install {_COMPANION}")
    return None


# ------------------------------------------------------------------------------------------------ loaders' folders


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


def _loader_image(extension: str) -> bytes:
    """Return the loader's file, which tells what it reads: asking it would make it read."""
    try:
        return Path(file_of_symbol(extension, "clGetPlatformIDs")).read_bytes()
    except OSError:
        return b""


def _vendor_folder(image: bytes) -> Path:
    """Return the folder whose .icd files the loader reads: the user's, else the one compiled in (Conda's differs)."""
    for name in ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"):
        if os.environ.get(name):
            return Path(os.environ[name])
    match = re.search(rb"\x00(/[\x21-\x7e]*OpenCL/vendors)/?\x00", image)
    return Path(os.fsdecode(match[1]) if match else _DEFAULT_FOLDER)


def _icd_files(folder: Path) -> list[tuple[Path, bytes]]:
    """Return the .icd files of a folder (or the one file that takes its place) with what they hold."""
    found = []
    try:
        paths = sorted(folder.iterdir()) if folder.is_dir() else [folder]
        for path in paths:
            if path.suffix == ".icd" and path.is_file() and path.stat().st_size <= _MAX_ICD_BYTES:
                found.append((path, path.read_bytes()))
    except OSError:
        pass
    return found


def _named_by(library: Path, files: Iterable[tuple[Path, bytes]]) -> Path | None:
    """Return the .icd file that names this library, or another instance of it that exists."""
    for path, data in files:
        named = Path(os.fsdecode(data.strip()))
        if named.name.startswith(_LIBRARY) and (named.is_file() or named == library):
            return path
    return None


def _write_folder(library: Path, others: list[tuple[Path, bytes]]) -> Path | None:
    """Return a folder of our own with the system's .icd files and one for `library`; None where there can be none.

    A loader that is given a folder reads no other, hence the copies.  The folder's name is a digest of what it holds,
    so that environments with different runtimes do not undo each other's.
    """
    cache = config.cache_dir()
    if cache is None:
        return None
    wanted = {path.name: data for path, data in others}
    wanted["miopyx-intel.icd"] = os.fsencode(library) + b"\n"
    digest = hashlib.blake2b(repr(sorted(wanted.items())).encode(), digest_size=8).hexdigest()
    folder = cache / "icd" / digest
    present = {path.name: data for path, data in _icd_files(folder)}
    for name, data in wanted.items():
        if present.get(name) != data and not config.write_atomically(folder / name, data):
            return None
    return folder
