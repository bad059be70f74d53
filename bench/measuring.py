"""Times of calls that take nanoseconds, ours and others' in turns, as a loop of the interpreter sees them.

A side of a comparison is anything with ``run(n)``, which returns the nanoseconds of n calls: `Loop` for statements of
Python, `Native` for loops that live in C.  `compare` runs all sides in turns, round by round, so that whatever else
the machine does hits all of them; what counts is the median over the rounds.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ROUND_NS = 200_000  # about how long a side runs in a round: long beside the clock, short beside a scheduler's slices
BUDGET_S = 2.0  # after which the rounds of one comparison end, once there are a few
FEW = 9


class Loop:
    """A statement in a loop, less what the loop costs without it.

    Parameters
    ----------
    statement, base : str
        What is measured, and what is run in its place to be taken off.
    each : str
        ``"x, y in pairs"`` runs the statement for each item of a sequence; a call is then one item.
    after : callable
        Run after each round and not counted: waits for a device.
    names
        What the statements speak of; they become local variables, as in a function that holds a tight loop.
    """

    def __init__(self, statement: str, *, base: str = "pass", each: str = "", after: Callable[[], object] | None = None,
                 **names: Any) -> None:
        self._run, self._base = (_compiled(body, each, names) for body in (statement, base))
        self._weight = len(eval(each.partition(" in ")[2], dict(names))) if each else 1
        self._after = after

    def run(self, count: int) -> float:
        loops = max(1, count // self._weight)
        total: int = self._run(loops)
        if self._after is not None:
            self._after()
        total -= self._base(loops)
        if self._after is not None:
            self._after()
        return total / (loops * self._weight) * count


def _compiled(body: str, each: str, names: Mapping[str, Any]) -> Callable[[int], int]:
    lines = [f"def run(_loops, _now, {', '.join(names)}):", " _range = range(_loops)", " _start = _now()",
             " for _ in _range:", *([f"  for {each}:"] if each else []), f"   {body}" if each else f"  {body}",
             " return _now() - _start"]
    space: dict[str, Any] = {}
    exec("\n".join(lines), space)
    values = tuple(names.values())
    return lambda loops: space["run"](loops, time.perf_counter_ns, *values)


class Native:
    """A loop in C that returns its own nanoseconds."""

    def __init__(self, run: Callable[[int], float], after: Callable[[], object] | None = None) -> None:
        self._run, self._after = run, after

    def run(self, count: int) -> float:
        total = self._run(count)
        if self._after is not None:
            self._after()
        return total


def compare(sides: Sequence[Loop | Native], rounds: int, round_ns: float = ROUND_NS) -> list[list[float]]:
    """Return the seconds of one call, for each side a list with a value for each round."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        counts = [_calibrated(side, round_ns) for side in sides]
        times: list[list[float]] = [[] for _ in sides]
        end = time.monotonic() + BUDGET_S
        for done in range(rounds):
            if done >= FEW and time.monotonic() > end:
                break
            for found, side, count in zip(times, sides, counts, strict=True):
                found.append(side.run(count) / count * 1e-9)
    finally:
        if collecting:
            gc.enable()
    return times


def _calibrated(side: Loop | Native, round_ns: float) -> int:
    """Return how many calls make a round."""
    for _ in range(3):  # first calls do what later ones need not
        side.run(1)
    count = 1
    while (taken := side.run(count)) < round_ns / 4 and count < 1 << 20:
        count *= 4
    return max(1, int(count * round_ns / max(taken, 1.0)))


# The speed of a virtual machine's processor halves when its neighbours wake up.  What results are compared by is
# therefore scaled to a speed: that at which a call of Python's that makes a small object takes this long.

YARDSTICK_S = 50e-9


def yardstick() -> Loop:
    """Return a side that goes as fast as the processor does at the moment."""
    return Loop("f(1234567, 89)", f=divmod)


# pytest-benchmark times what it calls itself.  Our values are measured before, in turns with the peers' and without
# the loop's cost, and handed to it through a clock that only they move.

_now = 0.0


def clock() -> float:
    """Return the sum of all values that were replayed."""
    return _now


def replay(benchmark: Any, values: Sequence[float]) -> None:
    """Make `values`, in seconds, the rounds of a benchmark whose timer is `clock`."""
    waiting = iter(values)

    def step() -> None:
        global _now
        _now += next(waiting)

    benchmark.pedantic(step, rounds=len(values))


def row(section: str, call: str, unit: str, ours: Sequence[float], peers: Mapping[str, Sequence[float]],
        goal: float | None = None, beyond: bool = False, flops: float | None = None) -> dict[str, Any]:
    """Return what a line of the table at the end says: medians, in seconds, over rounds that were measured in turns.

    Parameters
    ----------
    section, call, unit : str
        Where the line goes and its name; ``ns``, ``us``, ``ms`` or ``GFLOP/s``.
    goal : float
        Seconds that the call, or with `beyond` its difference to the first peer, should not exceed.
    flops : float
        Operations of a call, for ``GFLOP/s``.
    """
    return {
        "section": section, "call": call, "unit": unit, "ours": statistics.median(ours), "goal": goal,
        "beyond": beyond, "flops": flops,
        "peers": [{"name": name, "time": statistics.median(times),
                   "difference": _difference(ours, times)}
                  for name, times in peers.items()],
    }


def _difference(ours: Sequence[float], peer: Sequence[float]) -> float:
    """Return the median over the rounds, where both were measured equally often."""
    if len(ours) != len(peer):
        return statistics.median(ours) - statistics.median(peer)
    return statistics.median(a - b for a, b in zip(ours, peer, strict=True))
