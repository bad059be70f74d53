"""Whether a device works: probed, not believed.

Installed OpenCL runtimes list devices on which every build fails, and others abort the process, some as soon as they
are asked for their devices.  So a child process (`probe_child.py`) asks for the platforms once, and tries each device
once.  Verdicts are kept on disk for as long as platform, device, driver and the vendor's library stay the same.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from miopyx.values import config, posix
from miopyx.values.digests import blake2b

from . import icd

if TYPE_CHECKING:
    import subprocess

    from .info import DeviceInfo


class Verdict(NamedTuple):
    """Whether a device works, why (not), and how long finding out took.

    `probed` is False where no child process could be started; `cached` is True where an earlier process found out;
    `memory` is "pointers" where kernels were right on the host's own memory, given by its address, "buffers" where they
    were not, and "unfinished" where the child's life ended before it had found out all.  `clock` is how many 10^6
    multiply-adds a second a chain of them makes, each of which waits for the one before, `bandwidth` the 10^9 bytes a
    second that a copy reads and writes; 0 where that is not known.
    """

    ok: bool
    why: str
    seconds: float
    probed: bool = True
    cached: bool = False
    memory: str = "buffers"
    clock: float = 0.0
    bandwidth: float = 0.0


_PROBE_FORMAT = 6
_WORDS = ("fails", "works")  # of a verdict on disk
_MEMORY = ("buffers", "pointers", "unfinished")
_MAX_WHY = 4096
_FAILURE_LIFETIME = 24 * 3600.0  # a failure may have been the moment's (memory full, machine overloaded): try again
_MAX_VERDICT_BYTES = 1 << 16
_FINE_GRAIN_SYSTEM = 4  # CL_DEVICE_SVM_FINE_GRAIN_SYSTEM
_verdicts: dict[str, Verdict] = {}
_lock = threading.RLock()


def probe(info: DeviceInfo) -> Verdict:
    """Return whether a child process got right results from the device: from this process, the cache, or a new child.

    Success is kept for as long as the device's identity stays the same, what failed, or was not finished, for a day.
    Where no child can be started (Python embedded in another program) the verdict is not ok and `probed` is False; a
    device that the caller or MIOPYX_DEVICE names is then taken all the same.
    """
    if info.kind == "host":
        return Verdict(True, "needs no driver", 0.0)
    return _settle(_identity(info), {
        "platform_index": info.platform_index, "device_index": info.device_index,
        "platform": [info.platform_name, info.platform_version], "device": [info.device_name, info.driver_version],
    })


def takes_pointers(info: DeviceInfo) -> bool:
    """Return whether kernels work with any memory of the host's by its address, as far as that is known.

    What a probe saw counts: PoCL 3.1 does it and does not say so.  Where none ran, the driver may say so (fine-grained
    system SVM).
    """
    verdict = _known(info)
    if verdict is not None:
        return verdict.ok and verdict.memory == "pointers"
    with contextlib.suppress(Exception):  # drivers of OpenCL 1.2 know no such question
        return info.handle is not None and bool(info.handle.svm_capabilities & _FINE_GRAIN_SYSTEM)
    return False


def speeds(info: DeviceInfo) -> tuple[float, float]:
    """Return the clock and the bandwidth that a probe measured, as `Verdict` has them; zeros where none did."""
    verdict = _known(info)
    return (0.0, 0.0) if verdict is None else (verdict.clock, verdict.bandwidth)


def _known(info: DeviceInfo) -> Verdict | None:
    """Return the verdict that is there, whoever asked."""
    identity = _identity(info)
    key = _key(identity)
    with _lock:
        return _verdicts.get(key) or _read_verdict(key, identity)


def probe_platforms(extension: str) -> Verdict:
    """Return whether a child process survived asking the OpenCL loader for everything there is.

    `extension` is the file of pyopencl's extension module.
    """
    return _settle([_PROBE_FORMAT, *icd.fingerprint(extension), _switches()], {"platforms_only": True})


def _settle(identity: list[Any], question: dict[str, Any]) -> Verdict:
    key = _key(identity)
    with _lock:
        verdict = _verdicts.get(key)
        if verdict is None:
            verdict = _read_verdict(key, identity) or _run_child(question)
            if verdict.probed and not verdict.cached:
                _write_verdict(key, identity, verdict)
            _verdicts[key] = verdict
        return verdict


def _key(identity: list[Any]) -> str:
    return blake2b(ascii(identity).encode(), digest_size=16).hexdigest()


def _identity(info: DeviceInfo) -> list[Any]:
    library: list[Any] = [info.library]
    try:
        status = os.stat(info.library)
        library += [status.st_size, status.st_mtime_ns]
    except OSError:
        pass
    return [_PROBE_FORMAT, info.platform_name, info.platform_version, info.device_name, info.driver_version, library,
            _switches()]


def _switches() -> list[str]:
    """Return the runtimes' own environment variables, with which they may fail or not."""
    return [f"{name}={os.environ[name]}" for name in sorted(os.environ)
            if name.startswith(("POCL_", "CL_CONFIG_", "RUSTICL_"))]


def _verdict_path(key: str) -> Path | None:
    folder = config.cache_dir()
    return folder / "probe" / f"{key}.txt" if folder else None


def _read_verdict(key: str, identity: list[Any]) -> Verdict | None:
    """Return the verdict on disk, or None for anything but a sound record of this very device."""
    path = _verdict_path(key)
    data = config.read_own(path, _MAX_VERDICT_BYTES) if path else None
    if data is None:
        return None
    try:
        first, result, why, end = data.decode("utf-8").split("\n")
        word, seconds, when, memory, *fast = result.split(" ")
        ok, took, age = _WORDS.index(word) == 1, float(seconds), time.time() - float(when)
        clock, bandwidth = map(_speed, fast)
        whole = ok and memory != "unfinished"
    except ValueError:
        return None
    if first != ascii(identity) or end or memory not in _MEMORY or not (whole or 0 <= age < _FAILURE_LIFETIME):
        return None
    return Verdict(ok, why, took, cached=True, memory=memory, clock=clock, bandwidth=bandwidth)


def _speed(value: Any) -> float:
    """Return a speed that somebody measured, 0 for what is none."""
    try:
        speed = float(value)
    except (TypeError, ValueError):
        return 0.0
    return speed if 0 < speed < 1e9 else 0.0


def _write_verdict(key: str, identity: list[Any], verdict: Verdict) -> None:
    path = _verdict_path(key)
    if path is not None:
        result = f"{_WORDS[verdict.ok]} {verdict.seconds!r} {time.time()!r} {verdict.memory} "
        result += f"{verdict.clock!r} {verdict.bandwidth!r}"
        text = f"{identity!a}\n{result}\n{one_line(verdict.why, _MAX_WHY)}\n"
        config.write_atomically(path, text.encode("utf-8", "replace"))


def forget_verdicts() -> int:
    """Drop all verdicts, in this process and on disk; return how many files went."""
    with _lock:
        _verdicts.clear()
        folder = config.cache_dir()
        removed = 0
        for path in sorted((folder / "probe").glob("*.txt")) if folder else ():
            try:
                path.unlink()
                removed += 1
            except OSError:
                pass
        return removed


def _python() -> str | None:
    """Return the interpreter to start children with, or None: in an embedded Python it may be any program."""
    executable = sys.executable
    if not executable or getattr(sys, "frozen", False) or not os.access(executable, os.X_OK):
        return None
    return executable if re.match(r"(python|pypy)", os.path.basename(executable).lower()) else None


def _command(request: str) -> list[str]:
    # By file name, not with -m: the child then imports pyopencl and nothing of the package.  -P keeps the file's
    # folder, whose modules have common names, off its path.
    return [_python() or "", "-P", "-W", "ignore", str(Path(__file__).with_name("probe_child.py")), request]


def _run_child(question: dict[str, Any]) -> Verdict:
    if _python() is None:
        return Verdict(False, f"not probed: {sys.executable or 'sys.executable'!r} is not a Python interpreter that "
                       "can be started; name the device in MIOPYX_DEVICE to use it all the same", 0.0, probed=False)
    import json
    import subprocess
    import tempfile

    nonce = os.urandom(8).hex()
    request = json.dumps({"nonce": nonce, "path": sys.path, "preload": icd.preloads(), **question})
    limit = float(config.get("MIOPYX_PROBE_TIMEOUT"))
    start = time.monotonic()
    # Files, not pipes: drivers start compilers of their own, which would keep a pipe open after the child is gone.
    try:
        files = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 (closed below)
    except OSError as e:
        return Verdict(False, f"not probed: no temporary file for the child's answer ({one_line(str(e))})", 0.0,
                       probed=False)
    with files[0] as out, files[1] as err:
        try:
            child = subprocess.Popen(_command(request), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                     **posix.GROUP)
        except (OSError, ValueError) as e:
            return Verdict(False, f"not probed: the child process could not be started ({one_line(str(e))})", 0.0,
                           probed=False)
        timed_out = False
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            timed_out, code = True, 0
        finally:
            _end_session(child)
        seconds = time.monotonic() - start
        reply = _reply(_tail(out), nonce)
        stderr = _tail(err)
    settled = reply is not None and reply["ok"] and reply.get("trying") is True  # what ended it was one thing more
    if timed_out and not settled:
        return Verdict(False, f"no answer within {limit:g} s (MIOPYX_PROBE_TIMEOUT){_last_lines(stderr)}", seconds)
    if reply is not None and not reply["ok"]:
        return Verdict(False, one_line(reply["why"]) + _last_lines(stderr), seconds)
    if code != 0 and not settled:
        when = "after right results, at exit" if reply is not None else "in the driver"
        how = posix.how_ended(code)
        return Verdict(False, f"the child process died {when} with {how}{_last_lines(stderr)}", seconds)
    if reply is None:
        return Verdict(False, f"the child process gave no answer that makes sense{_last_lines(stderr)}", seconds)
    memory = "unfinished" if settled else "pointers" if reply.get("pointers") is True else "buffers"
    return Verdict(True, "right results", seconds, memory=memory, clock=_speed(reply.get("clock")),
                   bandwidth=_speed(reply.get("bandwidth")))


def _end_session(child: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the child and of the compilers it started."""
    posix.end_group(child.pid)
    child.wait()


def _tail(file: Any) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _MAX_VERDICT_BYTES))
    return str(file.read().decode("utf-8", "replace"))


def _reply(stdout: str, nonce: str) -> dict[str, Any] | None:
    """Return the child's answer; other lines are the driver's chatter."""
    import json

    for line in reversed(stdout.splitlines()):
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if (isinstance(reply, dict) and reply.get("nonce") == nonce and isinstance(reply.get("ok"), bool)
                and isinstance(reply.get("why"), str)):
            return reply
    return None


def one_line(text: str, limit: int = 300) -> str:
    text = "; ".join(line.strip() for line in text.splitlines() if line.strip())
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= limit else text[:limit - 3] + "..."


def _last_lines(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()][-3:]
    return f": {one_line(chr(10).join(lines))}" if lines else ""
