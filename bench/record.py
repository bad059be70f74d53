"""Rows of figures: how a call is timed, and how a bench writes what it printed as a record."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from fingerprint import fingerprint


def microseconds(run: Callable[[], object], wait: Callable[[], object], runs: int = 20) -> float:
    """Return the median over 5 rounds of `runs` calls, launched without waiting in between."""
    run()
    wait()
    times = []
    for _ in range(5):
        began = perf_counter()
        for _ in range(runs):
            run()
        wait()
        times.append((perf_counter() - began) / runs * 1e6)
    return statistics.median(times)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a bench be told where its record goes."""
    parser.add_argument("--json", type=Path, metavar="OUT", help="write a record, a row a line")


def write(path: Path | None, handle: Any, torch: Any, rows: list[dict[str, Any]]) -> None:
    """Write the record, where one is wanted: the device, PyTorch's version, what else figures depend on, the rows.

    Times and ratios have four digits.
    """
    if path is None:
        return
    short = [{name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in row.items()}
             for row in rows]
    record = {"device": handle.device.name, "torch": torch and torch.__version__, "fingerprint": fingerprint(),
              "rows": short}
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
