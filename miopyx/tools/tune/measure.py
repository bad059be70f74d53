"""What a child process of `miopyx tune` does: look what is known of problems, build their programs, measure them.

Started by `station` through `choose/compile_child`, which speaks the frames.  A problem is named by its find-db key.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import miopyx
from miopyx._core import Offer
from miopyx.api import _convolution
from miopyx.choose import _ranking, compile_child, find, measurements, preparing
from miopyx.choose._survey import Survey
from miopyx.database import records, store
from miopyx.database.records import FindItem
from miopyx.device import devices
from miopyx.device.info import DeviceInfo
from miopyx.engine._invoker import Invoker
from miopyx.errors import AllocFailedError, MIOpenError
from miopyx.problem import _key
from miopyx.problem._problem import ConvProblem
from miopyx.runtime import programs
from miopyx.solvers import registry
from miopyx.values import posix
from miopyx.values.configurations import config_text

# (key, solver, configuration, milliseconds that the device said) -> milliseconds that count.
Clock = Callable[[str, str, tuple[int, ...], float], float]

_TILE = (1 << 18) - 64  # random numbers that are repeated through a buffer: no power of two, as tensors' strides are
_GROWING = 16          # a buffer that is no larger than this part of the memory may have room for the next, larger one
_DRAWS = 256           # of predictions' errors
_STALE = 0.05          # spread of the logarithm of what another build or driver measured
_UNKNOWN_SHARE = 0.3   # of a problem's time that measuring may gain, where nothing predicts times
_FLOPS_A_MS = 1e9      # of which only the proportion to predictions matters
_SHARED = "/run/lock", "/tmp", "/var/tmp"  # where systems have folders that all users write to


class Bench:
    """A device on which problems are looked at, compiled and measured.

    Parameters
    ----------
    first : dict
        "device", as `Handle` takes it, "" for the best one; "clock", ``module:function`` or "".
    """

    def __init__(self, first: dict[str, Any]) -> None:
        end_with(os.getppid())
        self.handle = miopyx.Handle(first["device"] or None)
        self.clock: Clock | None = _named(first["clock"]) if first.get("clock") else None
        self.memory = _Memory(self.handle)
        self.built: set[tuple[str, str]] = set()  # programs that were seen in the cache
        self.has_begun = False  # the present job, to use the device

    def answer(self, job: dict[str, Any], _payload: bytes) -> bytes:
        """Do a job; return its result as JSON, {"refused": why} for an error before anything ran."""
        jobs: dict[str, Callable[..., Any]] = {
            "describe": self.describe, "look": self.look, "compile": self.compile, "wait": self.wait,
            "measure": self.measure, "time": self.time}
        self.has_begun = False
        try:
            result = jobs[job["job"]](**job.get("arguments", {}))
        except Exception as e:
            if self.has_begun:
                raise
            result = {"refused": compile_child.reason(e)}
        return json.dumps(result).encode()

    def describe(self) -> dict[str, Any]:
        """Return what the device is."""
        info = self.handle.device.info
        database = store.of(info)
        return {"device": info.name, "kind": info.kind, "stamp": database.stamp, "pid": os.getpid(),
                "compute_units": info.compute_units, "unkept": database.why_unkept()}

    # Looking

    def look(self, keys: list[str], search: bool, again: bool = False) -> list[dict[str, Any]]:
        """Return, for each problem, whether the databases know it, what measuring it may gain, whether it is built.

        With `again` they know nothing.  Gains are in milliseconds; of a problem that is built, all programs that
        measuring it takes are in the cache.
        """
        database = store.of(self.handle.device.info)
        database.refresh()
        return [self._look(key, search, again) for key in keys]

    def _look(self, key: str, search: bool, again: bool) -> dict[str, Any]:
        try:
            survey = Survey(self.handle, _key.parse_find_key(key.encode()))
            _require_room(self.handle.device.info, survey.problem)
            ordered = _ranking.candidates(survey)
            known = not again and bool(ordered) and find.is_known(survey, search)
        except MIOpenError as e:
            return {"why": str(e)}
        if not ordered:
            return {"why": "no solver of this device runs it"}
        if known:
            return {"known": True, "gain_ms": 0.0}
        built = False
        with contextlib.suppress(MIOpenError):  # measuring will say what is wrong
            built = find.is_built(survey, self._is_cached)
        return {"known": False, "gain_ms": self._gain(survey, ordered), "built": built}

    def _is_cached(self, file: str, options: str) -> bool:
        """Whether the cache has a program; most are of many problems, and to look means to read all of it."""
        found = (file, options) in self.built or programs.is_cached(self.handle.device, file, options)
        if found:
            self.built.add((file, options))
        return found

    def _gain(self, survey: Survey, ordered: list[_ranking.Candidate]) -> float:
        """Return the milliseconds that the present first choice is expected to lose against the best.

        Each predicted time is off by a factor whose spread is known; the difference to the least of them
        is what measuring finds out, in the mean over draws that are the same for all problems.
        """
        means, spreads = [], []
        for candidate in ordered:
            spread = _STALE if candidate.measured else _ranking.spread(candidate)
            if spread is not None:
                means.append(candidate.time)
                spreads.append(spread)
        if not (ordered[0].measured or ordered[0].predicted):
            return _UNKNOWN_SHARE * survey.problem.flops / _FLOPS_A_MS
        times = np.array(means) * np.exp(_draws(len(means)) * np.array(spreads))
        return float((times[:, 0] - times.min(axis=1)).mean())

    # Compiling

    def compile(self, key: str) -> dict[str, Any]:
        """Build the programs that measuring will run, for another process to meet in the cache."""
        survey = Survey(self.handle, _key.parse_find_key(key.encode()))
        failed = find.build_ahead(survey)
        programs.store()
        self.handle.forget_calls()
        return {"failed": failed}

    # Measuring

    def wait(self) -> str:
        """Return once nobody else on this machine measures on this device; nobody does until the next job is done.

        Returns why others may, "" where they may not.
        """
        self._lock = _device_lock(self.handle)
        return self._lock.__enter__()

    def measure(self, key: str, search: bool, budget_ms: float | None = None, again: bool = True) -> dict[str, Any]:
        """Time the solvers of a problem, with a search for their configurations if asked for; return what came out.

        Without `again` that is {"known": True} where somebody else measured the problem in the meantime.
        """
        try:
            return self._measure(key, search, budget_ms, again)
        finally:
            self._lock.__exit__(None, None, None)

    def time(self, key: str, solver: str) -> dict[str, Any]:
        """Time one solver of a problem, as Find would, and keep nothing: what devices of a kind are compared by."""
        try:
            problem = _key.parse_find_key(key.encode())
            offer = _ranking.offer_of(Survey(self.handle, problem), registry.BY_NAME[solver].id)
            with self.handle.timing():
                return {"ms": find.time_one(self._run(problem, key, offer.workspace),
                                            preparing.invoker(self.handle, offer))}
        finally:
            self._lock.__exit__(None, None, None)

    def _measure(self, key: str, search: bool, budget_ms: float | None, again: bool) -> dict[str, Any]:
        handle = self.handle
        database = store.of(handle.device.info)
        database.refresh()
        problem = _key.parse_find_key(key.encode())
        survey = Survey(handle, problem)
        if not again and find.is_known(survey, search):
            return {"known": True}
        first = next(iter(_ranking.candidates(survey)), None)
        before, old = None, None
        if first is not None:
            known = _ranking.known(survey)
            before = {"solver": first.solver.name, "source": first.source, "config": _config_of(first.offer),
                      "known_ms": known.candidates[0].time if known is not None and known.current else None}
            if search:  # which may replace its configuration
                with contextlib.suppress(MIOpenError):
                    old = preparing.invoker(handle, first.offer)
        size = find.workspace_size(handle, problem, find.NORMAL)
        lines: list[dict[str, Any]] = []
        measurements.listeners.append(lines.append)
        try:
            with handle.timing():
                run = self._run(problem, key, size)
                record = find.time_solvers(survey, run, size, search=search, budget_ms=budget_ms)
                after = {"solver": record.candidates[0].solver.name, "ms": record.candidates[0].time,
                         "config": _config_of(record.candidates[0].offer)}
                if before is not None:
                    before["ms"] = self._before(before, old, record, run)
        finally:
            measurements.listeners.remove(lines.append)
        items = [FindItem(c.solver.name, c.time, c.workspace, problem.direction, c.solver.algorithm)
                 for c in sorted(record.candidates, key=lambda c: (c.time, c.solver.name))]
        find_line = records.write_find(key.encode(), items, database.stamp, record.partial,
                                       sorted(solver.name for solver in record.failed))
        perf_key = _key.perf_key(problem)
        tuned = database.user_perf.get(perf_key)
        return {
            "device": handle.device.name, "stamp": database.stamp, "before": before,
            "after": after, "unkept": database.why_unkept(problem),
            "partial": record.partial or (search and budget_ms is not None and not find.is_known(survey, True)),
            "find": find_line.decode(),
            "perf": records.seal(perf_key + b"=" + tuned).decode() if tuned else None, "times": lines}

    def _run(self, problem: ConvProblem, key: str, size: int) -> Callable[[Invoker], float]:
        """Return the function that runs an invoker and says how long that took."""
        tensors = _convolution.memory_of(problem)
        self.has_begun = True  # memory that this process cannot get another one may
        x, w, y = (self.memory.get("xwy"[slot] if slot != _output(problem) else "out", *tensors[slot])
                   for slot in range(3))
        space = self.memory.get("space", size, "uint8") if size else None
        self.has_begun = False
        run = _convolution.run_on(self.handle, problem, x, w, y, space, size)

        def clocked(invoker: Invoker) -> float:
            self.has_begun = True
            ms = run(invoker)
            return ms if self.clock is None else self.clock(key, invoker.solver.name, invoker.config, ms)

        return clocked

    def _before(self, before: dict[str, Any], old: Invoker | None, record: _ranking.FindRecord,
                run: Callable[[Invoker], float]) -> float | None:
        """Return the milliseconds of what a plan would have run before, measured as the others and as late as they.

        `old` is its invoker where a search may have replaced its configuration.
        """
        now = next((c for c in record.candidates if c.solver.name == before["solver"]), None)
        if old is not None and (now is None or _config_of(now.offer) != before["config"]):
            with contextlib.suppress(MIOpenError):
                return find.time_one(run, old)
        return None if now is None else now.time


@functools.cache
def _draws(solvers: int) -> np.ndarray[Any, Any]:
    """Return errors of some solvers' predictions, the same at each call."""
    return np.random.default_rng(1).standard_normal((_DRAWS, solvers))


def _config_of(offer: Offer) -> str:
    return config_text(preparing.first_config(offer) or offer.default_config()) if offer.parameters() else ""


def _output(problem: ConvProblem) -> int:
    return (2, 0, 1)[problem.direction]


class _Memory:
    """Buffers that grow, by name and type, full of random numbers.

    Results are never operands: after a few problems they would be infinite, and solvers look into what is not finite.
    """

    def __init__(self, handle: miopyx.Handle) -> None:
        self.handle = handle
        self.held: dict[tuple[str, str], tuple[int, Any]] = {}

    def get(self, name: str, size: int, dtype: str) -> Any:
        held = self.held.get((name, dtype))
        if held is None or held[0] < size:
            self.held.pop((name, dtype), None)
            kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
            need = -(-max(size, 1) // kind.itemsize) * kind.itemsize
            info, room = self.handle.device.info, 1 << (need - 1).bit_length()
            if room > min(info.max_alloc, info.global_mem // _GROWING):
                room = need
            rng = np.random.default_rng()
            some = (rng.integers(-4, 5, _TILE) if kind.kind in "iu"
                    else rng.standard_normal(_TILE, np.float32)).astype(kind)
            try:
                buffer = self.handle.repeated(some, room)
            except MIOpenError:  # what other problems needed may be in the way
                self.held.clear()
                room = need
                buffer = self.handle.repeated(some, room)
            held = self.held[name, dtype] = room, buffer
        return held[1]


def _require_room(info: DeviceInfo, problem: ConvProblem) -> None:
    """Raise AllocFailedError for tensors that the device's memory, or this machine's, cannot hold."""
    sizes = [size for size, _ in _convolution.memory_of(problem)]
    machine = sys.maxsize if info.kind == "gpu" else posix.memory()
    for what, need, most in (("a tensor", max(sizes), min(info.max_alloc, machine)),
                             ("its tensors", sum(sizes), min(info.global_mem, machine))):
        if need > most:
            raise AllocFailedError(f"{what} would not fit", "problem", f"{need} bytes", f"{most} bytes")


def _named(text: str) -> Any:
    module, _, name = text.partition(":")
    return getattr(importlib.import_module(module), name)


def end_with(parent: int) -> None:
    """Let this process end soon after its parent, so that nothing runs on the device that nobody waits for."""
    def watch() -> None:
        stop = threading.Event()
        while not stop.wait(0.2):
            if os.getppid() != parent:
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def _device_lock(handle: miopyx.Handle) -> Iterator[str]:
    """Let no other process that tunes on this machine measure on the same device meanwhile; its CPU is one device.

    Yields why nobody is kept from it, "" where the lock is held.
    """
    path = _lock_folder() / f"miopyx-measuring-{_place(handle.device.info)}.lock"
    try:
        descriptor = _locked(path)
    except OSError as e:
        yield f"others may measure on {handle.device.info.name} at the same time: {path}: {e.strerror or e}"
        return
    try:
        yield ""
    finally:
        os.close(descriptor)


def _lock_folder() -> Path:
    """Return a folder of this machine that all of its users write to, whatever their environments say."""
    for folder in _SHARED:
        with contextlib.suppress(OSError):
            if os.stat(folder).st_mode & stat.S_IWOTH and os.access(folder, os.W_OK | os.X_OK):
                return Path(folder)
    return Path(tempfile.gettempdir())


def _place(info: DeviceInfo) -> str:
    """Return what names a device alike for all processes and runtimes: where it is on PCI, where that is known."""
    if info.kind in ("host", "cpu"):
        return "cpu"
    bus = info.bus or devices._bus(info.handle)
    name = f"pci-{bus}" if bus else f"{info.name}-{info.platform_index}-{info.device_index}"
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def _locked(path: Path) -> int:
    """Return the descriptor of a lock file once the lock is ours."""
    while True:
        descriptor = _shared(path)
        try:
            posix.lock(descriptor)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.lstat(path), os.fstat(descriptor)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # somebody tidied up, and others lock another file by now


def _shared(path: Path) -> int:
    """Open a file that any user may lock; OSError for a link and for what is no file."""
    while True:
        # Not with O_CREAT: in folders that all share Linux lets nobody open another user's file so.
        with contextlib.suppress(FileNotFoundError):
            return posix.open_plain(path, os.O_RDWR, follow=False)
        with contextlib.suppress(FileExistsError):
            descriptor = posix.create(path, os.O_RDWR, 0o666)
            posix.let_all_write(descriptor)
            return descriptor
