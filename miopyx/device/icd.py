"""OpenCL runtimes that are installed but that no loader finds, and the environment that runtimes want.

A loader learns of a runtime from a one-line `.icd` file that names its library.  Three cases go without:

* the wheels of Intel's CPU runtime install one that still holds the path of the machine they were built on, and depend
  on libraries of another wheel that they do not ask for;
* containers get NVIDIA's libraries mounted, but no `.icd` file;
* OCL_ICD_FILENAMES lists libraries, which Khronos' loader honours and ocl-icd, the one in pyopencl's wheels, does not.

`prepare` writes `.icd` files into our own cache folder and points this process's loader there.  It must run before the
first platform query, since a loader reads its files once.  A folder that the environment names already is left as it
is, and nothing is written outside our own.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from miopyx.values import config, posix
from miopyx.values.digests import blake2b

from . import cuda
from .libraries import file_of_symbol

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_DISTRIBUTION = "intel-opencl-rt"
_LIBRARY = "libintelocl.so"
_COMPANION = "intel-cmplr-lib-rt"
_COMPANION_LIBRARIES = ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so")  # each may need those before it
_NVIDIA_LIBRARY = "libnvidia-opencl.so.1"
_NVIDIA_DEVICES = ("/dev/nvidiactl", "/dev/dxg")  # the latter under WSL
_LIBRARY_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                    "/usr/lib/wsl/lib", "/usr/lib")
_FOLDER_VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")
_DEFAULT_FOLDER = "/etc/OpenCL/vendors"
_COMPILED_IN = b"OpenCL/vendors"  # how the folder ends that a loader was built with
_MAX_ICD_BYTES = 4096
_POCL_DRIVERS = ("basic", "pthread")
_LAST_POCL = 10  # libpocl.so.2.10 is PoCL 3.1


class Runtime(NamedTuple):
    """A runtime that this module looked after.

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
        image = _loader_image(extension)
        folder = _vendor_folder(image)
        files = [*_icd_files(folder), *_icd_files(Path(extension).parent / ".libs")]
        if "POCL_DEVICES" not in os.environ and _offers_basic(files):
            os.environ["POCL_DEVICES"] = " ".join(_POCL_DRIVERS)
        found: list[Runtime] = []
        for look in (_nvidia, _listed, _intel):
            try:
                found += look(files, image)
            except Exception as e:  # a broken installation of one runtime must not cost the others
                found.append(Runtime(look.__name__.strip("_"), "", "", False, f"cannot be examined: {e}"))
        _runtimes = _announce(found, image, folder)


def _announce(found: list[Runtime], image: bytes, folder: Path) -> list[Runtime]:
    """Tell the loader of the runtimes whose state is open; return all with their states settled."""
    new = [runtime for runtime in found if runtime.usable and not runtime.state]
    if not new:
        return found
    libraries = [runtime.library for runtime in new]
    adds = b"OCL_ICD_FILENAMES" in image  # Khronos' loader adds these to what it finds in its folder
    given = [name for name in (*_FOLDER_VARIABLES, *(["OCL_ICD_FILENAMES"] if adds else ())) if os.environ.get(name)]
    usable, remedy = True, ""
    if given:
        usable, state = False, f"{given[0]} is set, and nothing there names it"
        remedy = f"unset {given[0]}, or name {{}} there"
    elif adds:
        os.environ["OCL_ICD_FILENAMES"] = ":".join(libraries)
        state = "added through OCL_ICD_FILENAMES"
    elif own := _write_folder(libraries, _icd_files(folder)):
        os.environ["OCL_ICD_VENDORS"] = str(own)
        state = f"added through OCL_ICD_VENDORS={own}"
    else:
        usable, state = False, "there is no cache folder of ours to write an .icd file into"
        remedy = "set MIOPYX_CACHE_DIR to a folder that only you may write to"
    return [runtime._replace(usable=usable, state=state, remedy=remedy.format(runtime.library))
            if runtime in new else runtime for runtime in found]


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
    return posix.processors() == set(range(os.cpu_count() or 0))


def _offers_basic(files: list[tuple[Path, bytes]]) -> bool:
    """Return whether PoCL may be asked for its `basic` device, which runs kernels in the calling thread, too.

    PoCL hides that one unless POCL_DEVICES names it, and then shows none but those named.  So every PoCL here must have
    these two drivers and no others, and be old enough for these names: from 4.0 on they have others.
    """
    libraries = {os.fsdecode(data.strip()) for _, data in files if b"libpocl" in data}
    return bool(libraries) and all(_has_pocl_drivers(library) for library in libraries)


def _has_pocl_drivers(library: str) -> bool:
    places = [library] if os.path.isabs(library) else [os.path.join(f, library) for f in _library_folders()]
    try:
        path = os.path.realpath(next(filter(os.path.isfile, places)))
        drivers = {file for file in os.listdir(f"{os.path.dirname(path)}/pocl") if file.startswith("libpocl-devices-")}
    except (OSError, StopIteration):
        return False
    version = path.rpartition(".so.2.")[2].split(".")[0]
    return (drivers == {f"libpocl-devices-{name}.so" for name in _POCL_DRIVERS}
            and version.isdecimal() and int(version) <= _LAST_POCL)


def _library_folders() -> list[str]:
    return [f for f in (*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_LIBRARY_FOLDERS) if os.path.isabs(f)]


# ------------------------------------------------------------------------- runtimes; an empty state wants announcing


def _nvidia(files: list[tuple[Path, bytes]], image: bytes) -> list[Runtime]:
    if not any(os.path.exists(path) for path in _NVIDIA_DEVICES) or _named_by(_NVIDIA_LIBRARY, files):
        return []
    for folder in itertools.chain(_library_folders(), _beside_cuda()):
        library = os.path.join(folder, _NVIDIA_LIBRARY)
        if os.path.isfile(library):
            return [Runtime("NVIDIA's driver", "", library, True, "")]
    return []


def _beside_cuda() -> Iterator[str]:
    """Yield the folder of CUDA's driver, which the system's linker may know where nothing else does."""
    folder = cuda.folder()
    if folder:
        yield folder


def _listed(files: list[tuple[Path, bytes]], image: bytes) -> list[Runtime]:
    libraries = [library for library in os.environ.get("OCL_ICD_FILENAMES", "").split(":") if library]
    if not libraries or b"OCL_ICD_FILENAMES" in image:
        return []
    return [Runtime(f"{library} in OCL_ICD_FILENAMES", "", library, True, "") for library in libraries
            if not _named_by(library, files)
            # The driver has been looked after, wherever this name may lead.
            and not (same_library(library, _NVIDIA_LIBRARY) and _nvidia(files, image))]


def _intel(files: list[tuple[Path, bytes]], image: bytes) -> list[Runtime]:
    import importlib.metadata

    try:
        distribution = importlib.metadata.distribution(_DISTRIBUTION)
        version = str(distribution.version)
    except importlib.metadata.PackageNotFoundError:
        return []
    library = _installed_file(distribution, _LIBRARY)
    if library is None:
        return [Runtime(_DISTRIBUTION, version, "", False, f"{_LIBRARY} is not where the package's list of files says",
                        f"pip install --force-reinstall {_DISTRIBUTION} {_COMPANION}")]
    problem = _load_companions(library)
    if problem:
        return [Runtime(_DISTRIBUTION, version, str(library), False, *problem)]
    named_by = _named_by(str(library), files)
    return [Runtime(_DISTRIBUTION, version, str(library), True, f"named by {named_by}" if named_by else "")]


def _installed_file(distribution: Distribution, name: str) -> Path | None:
    for file in distribution.files or ():
        if file.name == name:
            path = Path(os.path.normpath(str(distribution.locate_file(file))))
            if path.is_file():
                return path
    return None


def _load_companions(library: Path) -> tuple[str, str] | None:
    """Make the libraries that the runtime needs resolvable; return what is missing and the remedy."""
    import importlib.metadata

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


@cache
def _loader_image(extension: str) -> bytes:
    """Return the loader's file, which tells what it reads: asking it would make it read."""
    try:
        return Path(file_of_symbol(extension, "clGetPlatformIDs")).read_bytes()
    except OSError:
        return b""


def _vendor_folder(image: bytes) -> Path:
    """Return the folder whose .icd files the loader reads: the user's, else the one compiled in (Conda's differs)."""
    for name in _FOLDER_VARIABLES:
        if os.environ.get(name):
            return Path(os.environ[name])
    return Path(_compiled_in(image) or _DEFAULT_FOLDER)


def _compiled_in(image: bytes) -> str:
    """Return the folder of .icd files that stands in a loader's file as a text of its own, or an empty text."""
    place = image.find(_COMPILED_IN)
    while place >= 0:
        start, end = image.rfind(b"\0", 0, place), image.find(b"\0", place)
        text = image[start + 1:max(end, 0)].removesuffix(b"/")
        if (start >= 0 and text.startswith(b"/") and text.endswith(_COMPILED_IN)
                and all(0x21 <= c <= 0x7e for c in text)):
            return os.fsdecode(text)
        place = image.find(_COMPILED_IN, place + 1)
    return ""


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


def same_library(one: str, other: str) -> bool:
    """Return whether two names mean one library, whatever its version: libpocl.so.2 and libpocl.so.2.10.0 do."""
    return os.path.basename(one).split(".so")[0] == os.path.basename(other).split(".so")[0]


def _named_by(library: str, files: Iterable[tuple[Path, bytes]]) -> Path | None:
    """Return the .icd file that names this library, or another instance of it, unless that does not exist."""
    for path, data in files:
        named = os.fsdecode(data.strip())
        if same_library(named, library) and (not os.path.isabs(named) or os.path.isfile(named)):
            return path
    return None


def _write_folder(libraries: list[str], others: list[tuple[Path, bytes]]) -> Path | None:
    """Return a folder of our own with the system's .icd files and one a library; None where there can be none.

    A loader that is given a folder reads no other, hence the copies.  The folder's name is a digest of what it holds,
    so that environments with different runtimes do not undo each other's.
    """
    cache = config.cache_dir()
    if cache is None:
        return None
    wanted = {path.name: data for path, data in others}
    for number, library in enumerate(libraries):
        wanted[f"miopyx-{number}.icd"] = os.fsencode(library) + b"\n"
    digest = blake2b(repr(sorted(wanted.items())).encode(), digest_size=8).hexdigest()
    folder = cache / "icd" / digest
    present = {path.name: data for path, data in _icd_files(folder)}
    for name, data in wanted.items():
        if present.get(name) != data and not config.write_atomically(folder / name, data):
            return None
    return folder
