"""The table that a run prints at its end, and the same as medians over the results of several runs.

    python bench/report.py RESULT.json [RESULT.json ...]
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

SCALE = {"ns": 1e9, "us": 1e6, "ms": 1e3}


def lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the table's lines: a section's title, then each call with its peers below each other."""
    title = None
    for row in rows:
        if (row["section"], row["unit"]) != title:
            title = (row["section"], row["unit"])
            yield ""
            yield f"{', '.join(title)}{': more is better' if row['unit'] == 'GFLOP/s' else ''}"
            yield (f"{'call':<52}{'ours':>10}{'goal':>9}  {'peer':<42}{'peer':>10}{'ours-peer':>11}{'goal':>7}"
                   f"{'ours/peer':>11}")
        yield from _lines_of(row)


def _lines_of(row: dict[str, Any]) -> Iterator[str]:
    goal, beyond = row["goal"], row["beyond"]
    ours = f"{row['call']:<52}{_figure(row, row['ours']):>10}" + (
        f"{_goal(row, row['ours'], goal):>9}" if goal is not None and not beyond else f"{'':>9}")
    if not row["peers"]:
        yield ours
    for i, peer in enumerate(row["peers"]):
        if row["unit"] == "GFLOP/s":
            difference, ratio = "", peer["time"] / row["ours"]
        else:
            difference = _figure(row, peer["difference"])
            ratio = row["ours"] / peer["time"] if peer["time"] > 0 else float("inf")
        bound = _goal(row, peer["difference"], goal) if beyond and i == 0 and goal is not None else ""
        yield (f"{ours if i == 0 else '':<71}  {peer['name']:<42}{_figure(row, peer['time']):>10}{difference:>11}"
               f"{bound:>7}{ratio:>11.3g}")


def _figure(row: dict[str, Any], seconds: float) -> str:
    if row["unit"] == "GFLOP/s":
        return f"{row['flops'] / seconds * 1e-9:.1f}"
    value = seconds * SCALE[row["unit"]]
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _goal(row: dict[str, Any], seconds: float, goal: float) -> str:
    return f"{goal * SCALE[row['unit']]:.0f}{'!' if seconds > goal else ''}"


def missed(rows: Iterable[dict[str, Any]]) -> int:
    """Return how many goals are not reached."""
    return sum((row["peers"][0]["difference"] if row["beyond"] else row["ours"]) > row["goal"]
               for row in rows if row["goal"] is not None)


def medians(runs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the rows of several runs as one: the median of each figure over the runs that have it."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for rows in runs:
        for row in rows:
            found.setdefault((row["section"], row["call"]), []).append(row)
    result = []
    for same in found.values():
        peers: dict[str, list[dict[str, Any]]] = {}
        for row in same:
            for peer in row["peers"]:
                peers.setdefault(peer["name"], []).append(peer)
        result.append({**same[0], "ours": statistics.median(row["ours"] for row in same), "peers": [
            {"name": name, **{what: statistics.median(p[what] for p in values) for what in ("time", "difference")}}
            for name, values in peers.items()]})
    return result


def main() -> None:
    files = sys.argv[1:]
    if not files or files[0].startswith("-"):
        sys.exit(__doc__)
    runs = [json.loads(Path(name).read_text())["rows"] for name in files]
    rows = medians(runs)
    print(f"medians of {len(runs)} runs", *lines(rows), sep="\n")


if __name__ == "__main__":
    main()
