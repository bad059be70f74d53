"""The lines that MIOpenDriver prints about times, and the summary of a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import exp, log
from typing import Any

from miopyx.solvers import registry

from .problem import DIRECTIONS, Direction, Problem

# Of an Outcome.
OK, FAILED, ERROR, UNVERIFIED = "ok", "FAILED", "error", "not verified"


@dataclass
class Outcome:
    """What became of one direction of one command.

    Attributes
    ----------
    time, gflops, bandwidth : float or None
        Milliseconds of one run, its first left out where there were several; floating-point operations per
        nanosecond, of convolutions; bytes that must move per nanosecond, of all else.  None where nothing was timed.
    verdict : str
        ``ok``, ``FAILED`` (wrong results), ``error`` (it could not run; `message` says why) or ``not verified``.
    """

    direction: str
    problem: str
    solution_id: int = 0
    solver: str = "UNKNOWN"
    algorithm: int | None = None
    workspace: int = 0
    time: float | None = None
    gflops: float | None = None
    bandwidth: float | None = None
    error: float | None = None
    tolerance: float | None = None
    reference: str = ""
    verdict: str = UNVERIFIED
    message: str = ""
    code: int = 0  # the exit code that an error stands for


def stats(problem: Problem, direction: Direction, milliseconds: float) -> tuple[str, str]:
    """Return MIOpenDriver's two stats lines, header and row.

    Where MIOpenDriver is wrong this is not: its rows of backward data have the columns in another order than the
    header and count wrong bytes (here: dy and w are read, dx is written); the operations of 3-D forward rows have a
    factor in_d too many, and those of transposed convolutions use the wrong side's extents.  As there, rows of
    backward weights have no bytes.
    """
    fil, out = problem.geometry.filter, problem.descriptors["y"].lens
    sizes = {name: desc.nbytes for name, desc in problem.descriptors.items()}
    read = written = 0
    if direction.short != "wrw":
        read, written = sum(sizes[name] for name in direction.inputs), sizes[direction.output]
    flops = problem.geometry.flops
    stride = problem.geometry.stride[-min(len(fil), 2)]  # along the height, as there
    columns = ("n, c, wo, x, k", "n, c, ho, wo, x, y, k", "n, c, do, ho, wo, z, x, y, k")[len(fil) - 1]
    x = problem.descriptors["x"].lens
    numbers = ", ".join(map(str, (x[0], x[1], *out[2:], *fil, out[1])))
    rate = flops / milliseconds / 1e6
    bandwidth = (read + written) / milliseconds / 1e6
    return (f"stats: name, {columns}, flopCnt, bytesRead, bytesWritten, GFLOPs, GB/s, timeMs",
            f"stats: {direction.row}{'x'.join(map(str, fil))}u{stride}, {numbers},  {flops}, {read}, {written}, "
            f"{rate:.0f}, {bandwidth:.0f}, {milliseconds:f}")


def layer(problem: Problem) -> str:
    """Return a problem in short: ``64x56x56 -> 256 1x1 s1`` and whatever else is not as usual."""
    g, x = problem.geometry, problem.descriptors["x"].lens
    words = ["x".join(map(str, x[1:])), "->", str(problem.descriptors["y"].lens[1]), "x".join(map(str, g.filter)),
             f"s{_same(g.stride)}"]
    if any(d != 1 for d in g.dilation):
        words.append(f"d{_same(g.dilation)}")
    if g.groups > 1:
        words.append(f"g{g.groups}")
    if problem.transpose:
        words.append("trans")
    if problem.dtype != "float32":
        words.append(problem.dtype)
    elif not problem.command.number("math_type"):
        words.append("TF32")
    return " ".join(words)


def _same(values: Sequence[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else "x".join(map(str, values))


class Rows:
    """The rows of a list's table, each as soon as it is known: columns are as wide as they will have to be."""

    def __init__(self, layers: Sequence[str], bandwidth: bool) -> None:
        rates = (("GFLOP/s", "gflops"), ("GB/s", "bandwidth"))[:2 if bandwidth else 1]
        self._rates = [field for _, field in rates]
        self._names = ("layer", "dir", "solver", "time ms", *(heading for heading, _ in rates), "error", "verdict")
        solver = max((len(s.name) for s in (*registry.CONV, *chain(*registry.OTHERS.values()))), default=0)
        self._widths = (max(map(len, [*layers, "layer"])), 3, solver, 9, *(8 for _ in rates), 7)

    def heading(self) -> str:
        return self._joined(self._names)

    def row(self, o: Outcome) -> str:
        return self._joined((o.problem, o.direction, o.solver, _figure(o.time, ".3f"),
                             *(_figure(getattr(o, field), ".1f") for field in self._rates),
                             _figure(o.error, ".1e"), o.verdict + (f": {o.message}" if o.message else "")))

    def _joined(self, cells: Sequence[str]) -> str:
        *padded, last = (cell.rjust(width) if i >= 3 else cell.ljust(width)
                         for i, (cell, width) in enumerate(zip(cells, (*self._widths, 0), strict=True)))
        return "  ".join([*padded, last]).rstrip()


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def totals(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """Return per direction how many were verified and failed, and the geometric means of the GFLOP/s and GB/s."""
    sums = {}
    for direction in DIRECTIONS:
        ours = [o for o in outcomes if o.direction == direction.short]
        if ours:
            sums[direction.short] = {
                "count": len(ours),
                "verified": sum(o.verdict == OK for o in ours),
                "failed": sum(o.verdict in (FAILED, ERROR) for o in ours),
                "gflops": _mean([o.gflops for o in ours if o.gflops]),
                "bandwidth": _mean([o.bandwidth for o in ours if o.bandwidth]),
            }
    return sums


def _mean(rates: Sequence[float]) -> float | None:
    """Return the geometric mean."""
    return exp(sum(map(log, rates)) / len(rates)) if rates else None


def total_lines(sums: dict[str, dict[str, Any]]) -> list[str]:
    """Return `totals` as text."""
    lines = []
    for direction, s in sums.items():
        rates = [f"{s[field]:.1f} {unit}" for field, unit in (("gflops", "GFLOP/s"), ("bandwidth", "GB/s")) if s[field]]
        lines.append(f"{direction}: {s['verified']} of {s['count']} verified, {s['failed']} failed, geometric mean "
                     + (" and ".join(rates) or "- GFLOP/s"))
    return lines


def problem_facts(problem: Problem) -> dict[str, Any]:
    """Return a problem's sizes as plain data for JSON."""
    g = problem.geometry
    return {
        "dtype": problem.dtype, "mode": problem.command.text("mode"),
        **{name: list(problem.descriptors[name].lens) for name in ("x", "w", "y")},
        "pad": list(g.pad), "stride": list(g.stride), "dilation": list(g.dilation), "groups": g.groups,
        "flops": g.flops, "bytes": {name: problem.descriptors[name].nbytes for name in ("x", "w", "y")},
    }
