"""Every environment variable that miopyx reads: name, type, default and one line of meaning.

Values are read when first needed and kept for the life of the process, as in MIOpen; a text that does not parse, or a
number out of its range, is an `InvalidValueError` that names the variable.  `wrong` says what is set wrongly, read or
not; the first handle of a process reports it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from miopyx.errors import InvalidValueError

from . import _learnt, posix

_FALSE = {"0", "off", "no", "false", "disable", "disabled"}
_ISAS = ("baseline", "avx2", "avx512")
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


def _within(low: int, high: int) -> Callable[[str], int]:
    """Return what reads an integer from `low` to `high`."""
    def parse(text: str) -> int:
        number = parse_int(text)
        if not low <= number <= high:
            raise ValueError(f"{low} ... {high}" if high < _MOST else f">= {low}")
        return number

    return parse


_MOST = 2**63 - 1  # what 64 bits hold
parse_count = _within(0, _MOST)


def parse_isa(text: str) -> str:
    word = text.strip().lower()
    if word not in _ISAS:
        raise ValueError(", ".join(_ISAS))
    return word


def _parse_named(text: str, names: dict[str, int], numbers: dict[int, int]) -> int:
    """A name of a table in any case, or its number."""
    word = text.strip().upper()
    with contextlib.suppress(KeyError, ValueError):
        return names[word] if word in names else numbers[int(word, 0)]
    raise ValueError("one of " + ", ".join(f"{name} ({number})" for name, number in names.items()))


def parse_find_mode(text: str) -> int:
    # 4 is reserved and behaves as NORMAL.
    return _parse_named(text, {"NORMAL": 1, "FAST": 2, "HYBRID": 3, "DYNAMIC_HYBRID": 5},
                        {1: 1, 2: 2, 3: 3, 4: 1, 5: 5})


def parse_find_enforce(text: str) -> int:
    names = {"NONE": 1, "DB_UPDATE": 2, "SEARCH": 3, "SEARCH_DB_UPDATE": 4, "DB_CLEAN": 5, "CLEAN": 5}
    return _parse_named(text, names, {n: n for n in range(1, 6)})


class Variable(NamedTuple):
    name: str
    parse: Callable[[str], Any]
    default: Any
    meaning: str


VARIABLES: dict[str, Variable] = {}
_values: dict[str, Any] = {}


def _declare(name: str, parse: Callable[[str], Any], default: Any, meaning: str) -> None:
    VARIABLES[name] = Variable(name, parse, default, meaning)


_declare("MIOPYX_DEVICE", str, "", "the device of Handle() and miopenCreate(): a name as `miopyx doctor` prints it")
_declare("MIOPYX_LIBCUDA", str, "", "file of CUDA's driver; empty: libcuda.so.1, as the system's linker finds it")
_declare("MIOPYX_CACHE_DIR", str, "", "folder of the caches; empty: the user's cache folder of the platform")
_declare("MIOPYX_CACHE", parse_bool, True, "0: keep no caches on disk")
_declare("MIOPYX_CACHE_MB", parse_count, 512, "MiB of built programs kept on disk; the longest unused go first")
_declare("MIOPYX_NUM_THREADS", _within(0, 65536), 0, "threads of the host path; 0: one a usable core")
_declare("MIOPYX_HOST_ISA", parse_isa, "",
         "best instruction set of the host path: baseline, avx2, avx512; empty: what the CPU has")
_declare("MIOPYX_STREAM_BYTES", _within(-1, _MOST), -1,
         "bytes of a call's tensors beyond which CPU devices write results past their caches; -1: twice the last cache")
_declare("MIOPYX_PROBE_TIMEOUT", _within(1, 10**9), 120, "seconds that a device may take to pass its probe")
_declare("MIOPYX_MEASUREMENTS", str, "", "file to which every time that Find measures is added, one JSON object a line")
_declare("MIOPYX_AMD_MATRIX_CORES", parse_bool, False,
         "1: solvers for AMD's matrix cores take part, which nobody has timed yet")

_declare("MIOPEN_FIND_MODE", parse_find_mode, 5,
         "how Find chooses: NORMAL 1, FAST 2, HYBRID 3, DYNAMIC_HYBRID 5; a descriptor's own mode comes first")
_declare("MIOPEN_FIND_ENFORCE", parse_find_enforce, 1,
         "NONE 1, DB_UPDATE 2: searches replace what is tuned, SEARCH 3: search unasked, SEARCH_DB_UPDATE 4: both, "
         "DB_CLEAN 5: delete what is tuned; all but NONE make the find mode NORMAL")
_declare("MIOPEN_DEBUG_FIND_ONLY_SOLVER", str, "",
         "ids or names, separated by ;: Find and plans take only these solvers")
_declare("MIOPEN_DEBUG_FORCE_IMMED_MODE_FALLBACK", parse_bool, False,
         "1: the hybrid modes take the best by index where the databases have no record, as FAST does")
_declare("MIOPEN_DEBUG_CONV_IMMED_FALLBACK", parse_bool, True,
         "0: immediate mode knows only what the databases have")
_declare("MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK", parse_bool, True,
         "0: no learned model predicts configurations or ranks solvers: the cost table of the device does, else the "
         "throughput index")
_declare("MIOPEN_FIND_CONV_INSUFFICIENT_WORKSPACE_ALLOW_FINDDB_UPDATE", parse_bool, False,
         "1: a Find that had to skip solvers for lack of workspace writes its record too, marked partial")
_declare("MIOPEN_DEBUG_DISABLE_FIND_DB", parse_bool, False, "1: the find databases are neither read nor written")
_declare("MIOPEN_SYSTEM_DB_PATH", str, "", "folder of the system databases; empty: the package's own")
_declare("MIOPEN_USER_DB_PATH", str, "", "folder of the user databases; empty: ~/.config/miopen")
_declare("MIOPEN_CUSTOM_CACHE_DIR", str, "", "folder of the program cache, in place of the one in MIOPYX_CACHE_DIR")
_declare("MIOPEN_DISABLE_CACHE", parse_bool, False, "1: built programs are neither read from disk nor kept there")
_declare("MIOPEN_COMPILE_PARALLEL_LEVEL", parse_count, 0,
         "programs compiled at a time by Find, searches and `build_ahead`; 1: one after the other; 0: half of the "
         "usable cores")
_declare("MIOPEN_DEBUG_COMPILE_ONLY", parse_bool, False, "1: Find compiles, then raises GpuOperationsSkippedError")
for _algorithm in ("DIRECT", "GEMM", "WINOGRAD", "FFT", "IMPLICIT_GEMM"):
    _declare(f"MIOPEN_DEBUG_CONV_{_algorithm}", parse_bool, True, "0: no solver of this algorithm")
for _direction in ("FWD", "BWD", "WRW"):
    _declare(f"MIOPEN_DEBUG_CONV_DIRECT_NAIVE_CONV_{_direction}", parse_bool, True, "0: not this naive solver")
_declare("MIOPEN_DEBUG_OPENCL_CONVOLUTIONS", parse_bool, True, "0: no solver that runs as OpenCL kernels")
_declare("MIOPEN_DEBUG_GCN_ASM_KERNELS", parse_bool, True,
         "0: no solver written in a device's assembly language (here: inline PTX)")
_declare("MIOPEN_DEBUG_AMD_ROCM_PRECOMPILED_BINARIES", parse_bool, True,
         "0: none of what MIOpen 1 shipped as binaries, the Winograd solvers")
_declare("MIOPEN_DEBUG_PERFDB_OVERRIDE", str, "",
         "Solver;values:Solver2;values: configurations to take in place of the tuned ones")
_declare("MIOPEN_DEBUG_TUNING_ITERATIONS_MAX", parse_count, 0, "most configurations a search tries; 0: all")
_declare("MIOPEN_TUNING_TIME_MS_MAX", parse_count, 7200000, "milliseconds after which a search ends")
_declare("MIOPEN_TUNING_PATIENCE", parse_count, 0, "configurations without gain after which a search ends; 0: none")
_declare("MIOPEN_ENABLE_LOGGING", parse_bool, False, "1: print every API call and its arguments to stderr")
_declare("MIOPEN_ENABLE_LOGGING_CMD", parse_bool, False,
         "1: print a driver command that repeats each layer call to stderr")
_declare("MIOPEN_LOG_LEVEL", _within(0, 7), 0,
         "messages on stderr: 1 none, 2 fatal, 3 error, 4 warning, 5 info, 6 info2, 7 trace; 0: as 4")
_declare("MIOPEN_ENABLE_LOGGING_MPMT", parse_bool, False, "1: log lines begin with the thread's id")
_declare("MIOPEN_ENABLE_LOGGING_ELAPSED_TIME", parse_bool, False,
         "1: log lines say the milliseconds since the one before")
_declare("MIOPEN_DEBUG_DRIVER_PRNG_SEED", parse_int, 12345678, "seed of miopyx-driver's data; 0: a random one")
_declare("MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC", _within(-1, 1), -1, "0 or 1 overrides the descriptor's attribute")
_declare("MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE", _within(-1, 1), -1,
         "0 (to nearest) or 1 (stochastic) overrides the descriptor's attribute")
_declare("MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_SEED", _within(0, 2**32 - 1), 0,
         "seed of stochastic rounding, 0 to 4294967295")


def get(name: str) -> Any:
    """Return the value of a declared variable."""
    try:
        return _values[name]
    except KeyError:
        pass
    variable = VARIABLES[name]
    text = os.environ.get(name, "")
    value = _parsed(variable, text) if text else variable.default
    _values[name] = value
    return value


def _parsed(variable: Variable, text: str) -> Any:
    try:
        return variable.parse(text)
    except ValueError as e:
        raise InvalidValueError("environment variable does not parse", variable.name, text, str(e)) from None


def wrong() -> Iterator[tuple[str, str]]:
    """Yield the name of each variable that is set to what it cannot be, or is none of ours but is named so, and why.

    MIOpen has many variables that mean nothing here; one that is a letter or two from one of ours is a slip.
    """
    for name, text in os.environ.items():
        if not name.startswith(("MIOPYX_", "MIOPEN_")):
            continue
        if name in VARIABLES:
            try:
                if text:
                    _parsed(VARIABLES[name], text)
            except InvalidValueError as e:
                yield name, str(e)
        else:
            import difflib

            ours = name.startswith("MIOPYX_")
            near = difflib.get_close_matches(name, VARIABLES, 1, 0.6 if ours else 0.94)
            if ours or near:
                yield name, f"{name} is no variable of miopyx" + (f"; is it {near[0]}?" if near else "")


def once(what: str, compute: Callable[[], Any]) -> Any:
    """Return what follows from variables, computed at the first call and forgotten together with them."""
    value = _values.get(what, _values)
    if value is _values:
        value = _values[what] = compute()
    return value


def forget() -> None:
    """Read the environment anew at the next `get` (for tests)."""
    _values.clear()
    _learnt.learn()


def num_threads() -> int:
    """Return how many threads the host path uses: MIOPYX_NUM_THREADS, else the cores this process may run on."""
    n: int = get("MIOPYX_NUM_THREADS")
    return n or len(posix.processors())


def expanded(path: str) -> Path:
    """Return a path with its leading ~ or ~user expanded; as it stands where there is no such home."""
    return Path(os.path.expanduser(path))


def cache_place() -> Path:
    """Return where the caches belong, usable or not: MIOPYX_CACHE_DIR, else the user's cache folder of the platform."""
    given: str = get("MIOPYX_CACHE_DIR")
    if given:
        return expanded(given)
    if sys.platform == "linux":  # the plain cases without platformdirs, whose import takes three milliseconds
        base, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
        if os.path.isabs(base):
            return Path(base, "miopyx")
        if not base and os.path.isabs(home):
            return Path(home, ".cache", "miopyx")
    import platformdirs

    return Path(platformdirs.user_cache_dir("miopyx", appauthor=False))


def cache_dir() -> Path | None:
    """Return the folder for caches, created with mode 0700, or None where there is none to be had.

    A folder that belongs to somebody else or that others may write to is not used: what lies there would be loaded.
    """
    if not get("MIOPYX_CACHE"):
        return None
    folder = cache_place()
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    if not posix.is_ours(status) or posix.others_write(status) or not os.access(folder, os.W_OK):
        return None
    return folder


def read_own(path: Path, most: int) -> bytes | None:
    """Return what a file of ours holds; None for a link, a pipe, others' files, or more than `most` bytes."""
    try:
        descriptor = posix.open_plain(path, follow=False)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not posix.is_ours(status) or status.st_size > most:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(status.st_size)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_most(stream: IO[bytes], most: int) -> bytes:
    """Return what a stream has, `most` bytes at most, in memory that grows with it; `read(most)` asks for it all."""
    held = io.BytesIO()
    while (left := most - held.tell()) > 0 and (piece := stream.read(min(left, 1 << 20))):
        held.write(piece)
    return held.getvalue()


def write_atomically(path: Path, data: bytes, *, shared: bool = False) -> bool:
    """Put `data` at `path` whole or not at all; False where the file system does not let us.

    Caches are their owner's alone; what is `shared`, since somebody asked for the file, has the modes of any other one.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        path.parent.mkdir(mode=0o777 if shared else 0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if shared else 0o600)
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
