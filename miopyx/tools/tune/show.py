"""What `miopyx tune` shows: a bar or lines while it works, and a table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .ledger import Device
from .sources import Wanted

_ROWS = 40  # of the table; what gains less is summed up
_WIDEST = 36


class Row(NamedTuple):
    """A layer in one direction on one device: milliseconds of a run before and after, None where nobody knows."""

    layer: str
    direction: str
    device: str
    weight: float
    before: float | None
    after: float
    solver: str
    solver_before: str
    partial: bool = False  # a budget ended it early, or a solver failed while it ran
    source: str = ""

    @property
    def saved(self) -> float:
        """Milliseconds, as often as the layer occurs."""
        return 0.0 if self.before is None else self.weight * (self.before - self.after)


class Progress:
    """A bar on a terminal, where tqdm is installed; else a line for each problem."""

    def __init__(self, budget: float | None, quiet: bool = False) -> None:
        self._began, self._budget, self._quiet = time.monotonic(), budget, quiet
        self._count = self._total = 0
        self._bar = None
        if not quiet and sys.stderr.isatty():
            try:
                from tqdm import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=0, unit="problem", dynamic_ncols=True, file=sys.stderr)

    def total(self, tasks: int) -> None:
        """So many tasks more are to be done."""
        self._total += tasks
        if self._bar is not None:
            self._bar.total = self._total
            self._bar.refresh()

    def done(self, device: Device, key: str, result: dict[str, Any] | None, why: str) -> None:
        """A task came to its end."""
        self._count += 1
        if self._bar is not None:
            self._bar.update()
            return
        if self._quiet:
            return
        if result is None:
            what = f"failed: {why}" if why else "measured by another process"
        else:
            what = (f"{result['after']['ms']:.4g} ms {result['after']['solver']}"
                    + (", partial" if result["partial"] else ""))
        print(f"[{self._count}/{self._total}, {self._left()} left] {device.name} {key}: {what}", file=sys.stderr,
              flush=True)

    def _left(self) -> str:
        spent = time.monotonic() - self._began
        left = spent / self._count * (self._total - self._count)
        if self._budget is not None:
            left = min(left, max(0.0, self._budget - spent))
        return f"{left:.0f} s" if left < 600 else f"{left / 60:.0f} min"

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def rows(wanted: Iterable[Wanted], results: Sequence[tuple[str, dict[str, Any]]]) -> list[Row]:
    """Return a row for each layer that was measured, what gained most first."""
    layers: dict[str, list[Wanted]] = {}
    for one in wanted:
        layers.setdefault(one.key, []).append(one)
    made = []
    for key, result in results:
        before, after = result["before"] or {}, result["after"]
        direction = key.split("_")[0][-1]
        made += [Row(one.layer, direction, result["device"], one.weight, before.get("ms"), after["ms"],
                     after["solver"], before.get("solver", ""), bool(result["partial"]), one.source)
                 for one in layers.get(key, [])]
    return sorted(made, key=lambda row: (-row.saved, row.layer, row.direction, row.device))


def table(some: Sequence[Row]) -> list[str]:
    """Return the lines of the table: before, after and gain of each layer, and the sum."""
    if not some:
        return []
    more = [name for name in ("source", "device") if len({getattr(row, name) for row in some}) > 1]
    cells = [["layer", "dir", *more, "times", "before ms", "after ms", "gain", "solver"]]
    for row in some[:_ROWS]:
        cells.append([_cut(row.layer), row.direction, *(_cut(getattr(row, name)) for name in more), f"{row.weight:g}",
                      *_times(row.before, row.after),
                      (row.solver if row.solver == row.solver_before or not row.solver_before
                       else f"{row.solver_before} -> {row.solver}") + (", partial" if row.partial else "")])
    known = [row for row in some if row.before is not None]
    if len(some) > _ROWS:
        cells.append([f"{len(some) - _ROWS} more"])
    total = [sum(row.weight * (row.before or 0.0) for row in known), sum(row.weight * row.after for row in known)]
    cells.append(["all", "", *[""] * len(more), f"{sum(row.weight for row in known):g}", *_times(*total)])
    widths = [max(len(line[i]) for line in cells if len(line) > i) for i in range(len(cells[0]))]
    numbers = range(2 + len(more), 6 + len(more))
    return ["  ".join(cell.rjust(width) if i in numbers else cell.ljust(width)
                      for i, (cell, width) in enumerate(zip(line, widths, strict=False))).rstrip() for line in cells]


def _times(before: float | None, after: float) -> list[str]:
    if before is None:
        return ["", f"{after:.4g}", ""]
    return [f"{before:.4g}", f"{after:.4g}", f"{before / after:.2f}x" if after > 0 else ""]


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[:_WIDEST - 3] + "..."
