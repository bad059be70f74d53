"""Whose kernel runs a problem: measured once, kept in a file of the user's, and what that took.

PyTorch's own kernel is one more candidate.  Both sides run on the call's own tensors by Find's rule: one discarded run,
then up to five in turns, the medians count.  A process spends at most its budget on that, what it builds included; what
is not known then stays PyTorch's, as does everything that miopyx cannot compute.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch

from miopyx.database import paths, records
from miopyx.database.user_file import UserFile
from miopyx.device.info import DeviceInfo
from miopyx.errors import BadParmError

RUNS = 5
MARGIN = 0.9   # of PyTorch's time: what gains less may be noise, and between other operators loses it again
TURN = 2000.0  # microseconds of a device's turn, and the most calls of one
MOST_CALLS = 50
OTHER = 1 << 19  # numbers of an operator between two runs on CPUs: more than a core's own caches hold
ENOUGH = 3.0  # a side that is this many times slower in its first run is not run again

NO_TIME = "no time left to measure"

_lock = threading.Lock()
_left = 2.0
_generation = 0  # of what the ranks of a group say to each other


class Times(NamedTuple):
    """Microseconds a call takes, and where that is known from; a side that did not run is None."""

    ours: float | None
    theirs: float | None
    source: str

    @property
    def ours_wins(self) -> bool:
        return self.ours is not None and self.theirs is not None and self.ours < MARGIN * self.theirs


def budget(seconds: float | None = None) -> float:
    """Return the seconds that are left for measuring; set them first where some are given."""
    global _left
    with _lock:
        if seconds is not None:
            try:
                given = float(seconds)
            except (TypeError, ValueError):
                raise BadParmError("not a number", "seconds", seconds, ">= 0") from None
            if not given >= 0:
                raise BadParmError("negative", "seconds", seconds, ">= 0")
            _left = given
        return _left


def begin_anew() -> None:
    """Forget what the ranks of a group said: all of them do that, as when each calls `tune`."""
    global _generation
    with _lock:
        _generation += 1


def _spend(seconds: float) -> None:
    global _left
    with _lock:
        _left = max(0.0, _left - seconds)


_files: dict[Path, UserFile] = {}


def _file(info: DeviceInfo) -> UserFile | None:
    path = paths.user_file(info, f"torch-{torch.__version__}")
    if path is None:
        return None
    return _files.get(path) or _files.setdefault(path, UserFile(path))


def recall(info: DeviceInfo, key: bytes) -> Times | None:
    """Return what the file says of a problem, None for nothing or nothing that can be read."""
    file = _file(info)
    items = None if file is None else file.get(key)
    if items is None:
        return None
    found, _, _ = records.read_perf(items)
    try:
        ours, theirs = (float(found[name]) for name in ("miopyx", "torch"))
    except (KeyError, ValueError):
        return None
    return Times(ours, theirs, "file") if 0 < ours < 1e12 and 0 < theirs < 1e12 else None


def decide(info: DeviceInfo, key: bytes, ours: Callable[[], object], theirs: Callable[[], object],
           wait: Callable[[], None] | None = None) -> Times:
    """Recall what is known of a problem, or measure it; in a process group rank 0 does that for all.

    Another rank that meets a problem first waits for rank 0 as long as its budget lasts.
    """
    store = _store()
    if store is not None and torch.distributed.get_rank() != 0:
        return _hear(store, key.decode())
    times = Times(None, None, "not supported")
    try:
        times = recall(info, key) or measure(info, key, ours, theirs, wait)
    finally:
        if store is not None:
            store.set(key.decode(), " ".join(str(us) for us in times[:2]))
    return times


def in_group() -> bool:
    """Return whether this process shares its choices with others."""
    return (torch.distributed.is_available() and torch.distributed.is_initialized()
            and torch.distributed.get_world_size() > 1)


def _store() -> torch.distributed.Store | None:
    """Return what a group of several processes shares."""
    if not in_group():
        return None
    store = torch.distributed.distributed_c10d._get_default_store()
    return torch.distributed.PrefixStore(f"miopyx {_generation}", store)


def _hear(store: torch.distributed.Store, key: str) -> Times:
    began = time.perf_counter()
    try:
        if not store.check([key]):
            left = budget()
            if left <= 0:  # which some stores take for no limit
                return Times(None, None, NO_TIME)
            store.wait([key], timedelta(seconds=left))
        ours, theirs = (None if us == "None" else float(us) for us in store.get(key).decode().split())
    except (RuntimeError, ValueError):
        return Times(None, None, "rank 0 did not say")
    finally:
        _spend(time.perf_counter() - began)
    return Times(ours, theirs, "rank 0")


def measure(info: DeviceInfo, key: bytes, ours: Callable[[], object], theirs: Callable[[], object],
            wait: Callable[[], None] | None = None) -> Times:
    """Time both sides, if the budget allows, and keep the result.

    `wait` returns when a device has done what it was given: then a turn is of several calls in a row, as a model makes
    them.
    """
    if budget() <= 0:
        return Times(None, None, NO_TIME)
    calls = 1

    def timed(call: Callable[[], object]) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        if wait is not None:
            wait()
        return (time.perf_counter() - start) * 1e6 / calls

    if wait is not None:
        wait()
    began = time.perf_counter()
    try:
        ours()
    finally:
        _spend(time.perf_counter() - began)
    began = time.perf_counter()
    theirs()
    if wait is not None:
        wait()
    if budget() <= time.perf_counter() - began:
        _spend(time.perf_counter() - began)
        return Times(None, None, NO_TIME)
    if wait is not None:
        calls = max(1, min(MOST_CALLS, int(TURN / max(timed(ours), timed(theirs)))))
    seen: tuple[list[float], list[float]] = [], []
    other = torch.zeros(OTHER if wait is None else 0, device="cpu")
    while len(seen[0]) < RUNS:
        for side, call in zip(seen, (ours, theirs), strict=True):
            if wait is None:  # as in a model, where caches hold other data and PyTorch's threads have just worked
                other.add_(1)
            side.append(timed(call))
        if max(seen[0][0], seen[1][0]) > ENOUGH * min(seen[0][0], seen[1][0]):
            break
    _spend(time.perf_counter() - began)
    medians = statistics.median(seen[0]), statistics.median(seen[1])
    file = _file(info)
    if file is not None:
        values = {name: f"{us:.6g}" for name, us in zip(("miopyx", "torch"), medians, strict=True)}
        file.update(key, lambda _: records.write_perf(key, values, torch.__version__))
    return Times(*medians, "measured")
