"""Every environment variable that miopyx reads: name, type, default and one line of meaning.

Values are read when first needed and kept for the life of the process, as in MIOpen; a text that does not parse is an
`InvalidValueError` that names the variable.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InvalidValueError

_FALSE = {"0", "off", "no", "false", "disable", "disabled"}
_TRUE = {"1", "on", "yes", "true", "enable", "enabled"}


def parse_bool(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ValueError("one of " + ", ".join(sorted(_TRUE | _FALSE)))


def parse_int(text: str) -> int:
    try:
        return int(text.strip(), 0)
    except ValueError:
        raise ValueError("an integer, decimal or 0x...") from None


@dataclass(frozen=True)
class Variable:
    name: str
    parse: Callable[[str], Any]
    default: Any
    meaning: str


VARIABLES: dict[str, Variable] = {}
_values: dict[str, Any] = {}


def _declare(name: str, parse: Callable[[str], Any], default: Any, meaning: str) -> None:
    VARIABLES[name] = Variable(name, parse, default, meaning)


_declare("MIOPYX_DEVICE", str, "", "the device of Handle() and miopenCreate(): a name as `miopyx doctor` prints it")
_declare("MIOPYX_CACHE_DIR", str, "", "folder of the caches; empty: the user's cache folder of the platform")
_declare("MIOPYX_CACHE", parse_bool, True, "0: keep nothing on disk")
_declare("MIOPYX_NUM_THREADS", parse_int, 0, "threads of the host path; 0: one a usable core")
_declare("MIOPYX_HOST_ISA", str, "",
         "best instruction set of the host path: baseline, avx2, avx512; empty: what the CPU has")
_declare("MIOPYX_PROBE_TIMEOUT", parse_int, 120, "seconds that a device may take to pass its probe")
_declare("MIOPEN_DEBUG_DRIVER_PRNG_SEED", parse_int, 12345678, "seed of miopyx-driver's data; 0: a random one")
_declare("MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC", parse_int, -1, "0 or 1 overrides the descriptor's attribute")


def get(name: str) -> Any:
    """Return the value of a declared variable."""
    try:
        return _values[name]
    except KeyError:
        pass
    variable = VARIABLES[name]
    text = os.environ.get(name, "")
    if not text:
        value = variable.default
    else:
        try:
            value = variable.parse(text)
        except ValueError as e:
            raise InvalidValueError("environment variable does not parse", name, text, str(e)) from None
    _values[name] = value
    return value


def forget() -> None:
    """Read the environment anew at the next `get` (for tests)."""
    _values.clear()


def num_threads() -> int:
    """Return how many threads the host path uses: MIOPYX_NUM_THREADS, else the cores this process may run on."""
    n: int = get("MIOPYX_NUM_THREADS")
    if n < 0:
        raise InvalidValueError("negative thread count", "MIOPYX_NUM_THREADS", n, ">= 0")
    return n or len(os.sched_getaffinity(0))


def cache_dir() -> Path | None:
    """Return the folder for caches, created with mode 0700, or None where there is none to be had.

    A folder that belongs to somebody else or that others may write to is not used: what lies there would be loaded.
    """
    if not get("MIOPYX_CACHE"):
        return None
    given: str = get("MIOPYX_CACHE_DIR")
    if given:
        folder = Path(given)
    else:
        import platformdirs

        folder = Path(platformdirs.user_cache_dir("miopyx", appauthor=False))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    if status.st_uid != os.getuid() or status.st_mode & 0o022 or not os.access(folder, os.W_OK):
        return None
    return folder


def write_atomically(path: Path, data: bytes) -> bool:
    """Put `data` at `path` whole or not at all; False where the file system does not let us."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError:
        return False
    return True
