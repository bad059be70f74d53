"""`miopyx db diff`: what two databases say differently of the same problems, and what it costs."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from miopyx.database import records
from miopyx.database.records import FindItem
from miopyx.errors import BadParmError

from .db_files import is_perf, winners

_EQUAL = 0.02  # of a time, which repeated timing moves by as much


def diff(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how many records two files share, what they choose differently, and the largest changes of time.

    A choice of A that B does not share costs as much as B's own times say, where B has timed it.
    """
    if not 0 <= arguments.examples <= 10**6:
        raise BadParmError("number of examples", "--examples", arguments.examples, "0 to 1000000")
    a, b = (_records(path) for path in (arguments.a, arguments.b))
    both = [key for key in a if key in b]
    found: dict[str, Any] = {"records": {"A": len(a), "B": len(b)}, "only in A": len(a) - len(both),
                             "only in B": len(b) - len(both)}
    perf = [key for key in both if is_perf(key)]
    finds = [key for key in both if not is_perf(key)]
    if perf:
        found["perf-db"] = _perf(perf, a, b, arguments.examples)
    if finds:
        found["find-db"] = _find(finds, a, b, arguments.examples)
    return found


def _records(path: Path) -> dict[bytes, bytes]:
    return {key: records.split(line)[1] for key, line in winners([path])[0].items()}


def _find(keys: list[bytes], a: dict[bytes, bytes], b: dict[bytes, bytes], most: int) -> dict[str, Any]:
    equal, costs, ratios = 0, [], []
    lines: list[tuple[float, str]] = []
    total = [0.0, 0.0]
    for key in keys:
        first, second = _best(a[key]), _best(b[key])
        if first is None or second is None or first.time <= 0 or second.time <= 0:
            continue
        total = [total[0] + first.time, total[1] + second.time]
        ratios.append(second.time / first.time)
        name = key.decode(errors="backslashreplace")
        if first.solver == second.solver:
            equal += 1
            if abs(ratios[-1] - 1) > _EQUAL:
                lines.append((abs(ratios[-1] - 1), f"{ratios[-1]:.2f} times {name}: {first.solver} "
                              f"{first.time:.4g} ms, then {second.time:.4g} ms"))
            continue
        cost = next((item.time / second.time for item in records.read_find(b[key]).items
                     if item.solver == first.solver), None)
        if cost is not None:
            costs.append(cost)
        lines.append((abs(ratios[-1] - 1), f"{ratios[-1]:.2f} times {name}: {first.solver} {first.time:.4g} ms, then "
                      f"{second.solver} {second.time:.4g} ms"
                      + (f"; by B's times A's choice takes {cost:.2f} times as long" if cost is not None else "")))
    changed = len(ratios) - equal
    return {
        "in both": len(ratios), "same solver": equal, "another solver": changed,
        "milliseconds": {"A": round(total[0], 6), "B": round(total[1], 6)},
        **({"time, B over A": {"median": round(statistics.median(ratios), 4), "least": round(min(ratios), 4),
                               "most": round(max(ratios), 4)}} if ratios else {}),
        **({"A's other choices by B's times": {"timed there": len(costs), "mean": round(statistics.fmean(costs), 4),
                                               "most": round(max(costs), 4),
                                               f"above {_EQUAL:.0%}": sum(cost > 1 + _EQUAL for cost in costs)}}
           if costs else {}),
        "largest changes": [text for _, text in sorted(lines, key=lambda line: (-line[0], line[1]))[:most]]}


def _best(items: bytes) -> FindItem | None:
    return min(records.read_find(items).items, key=lambda item: item.time, default=None)


def _perf(keys: list[bytes], a: dict[bytes, bytes], b: dict[bytes, bytes], most: int) -> dict[str, Any]:
    same = 0
    changes: list[str] = []
    for key in keys:
        first, second = records.read_perf(a[key])[0], records.read_perf(b[key])[0]
        for solver in sorted(first.keys() | second.keys()):
            if first.get(solver) == second.get(solver):
                same += 1
            else:
                changes.append(f"{key.decode(errors='backslashreplace')} {solver}: {first.get(solver, 'nothing')}, "
                               f"then {second.get(solver, 'nothing')}")
    return {"in both": len(keys), "same parameters": same, "other parameters": len(changes), "changes": changes[:most]}
