"""Two devices of one host against one: how much sooner `miopyx tune` is done, and whether it chooses the same.

    python bench/two_devices.py cuda:0 cuda:1 [LIST ...] [--batch 32] [--dtype float16] [--layout nhwc] [--warm]

A first run fills the cache of programs, but with --warm: an earlier one did.  Then one device measures everything, and
both do, each run with databases of its own.  Prints how many times as fast both are, as whole commands and from the
first measurement to the last, and how many problems a second that is.  Choices are compared by the second run's own
times: where the runs chose differently, how much slower the first one's choice was there.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def tune(options: argparse.Namespace, devices: list[str], folder: Path) -> tuple[float, dict[str, Any], Path]:
    """Return the seconds of a run, what it printed, and its ledger."""
    words = [sys.executable, "-P", "-m", "miopyx", "tune", *options.list, "--json", "--directions", "FBW"]
    for name in ("batch", "dtype", "layout"):
        if getattr(options, name):
            words += [f"--{name}", str(getattr(options, name))]
    for device in devices:
        words += ["--device", device]
    began = time.monotonic()
    done = subprocess.run(words, env={**os.environ, "MIOPEN_USER_DB_PATH": str(folder)}, capture_output=True, text=True,
                          check=False)
    if not done.stdout:
        sys.exit(done.stderr)
    return time.monotonic() - began, json.loads(done.stdout), folder / "tune.sqlite3"


def measuring(ledger: Path) -> float:
    """Return the seconds from the beginning of the first measurement to the end of the last."""
    with sqlite3.connect(ledger) as book:
        first, last = book.execute("SELECT min(at - seconds), max(at) FROM attempt WHERE job = 'measure'").fetchone()
    return float(last - first)


def choices(ledger: Path) -> dict[str, dict[str, float]]:
    """Return the times of each problem's solvers."""
    from miopyx.tools.tune.ledger import existing

    book = existing(ledger)
    found: dict[str, dict[str, float]] = {}
    for device, _ in book.devices():
        for line in map(json.loads, book.measurements(device)):
            found.setdefault(line["key"], {})[line["solver"]] = line["time_ms"]
    book.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("device", nargs=2)
    parser.add_argument("list", nargs="*", default=["resnet50"])
    parser.add_argument("--batch", type=int)
    parser.add_argument("--dtype")
    parser.add_argument("--layout")
    parser.add_argument("--warm", action="store_true", help="the cache has the programs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, second = options.device
        runs = {}
        for run, devices in (("cold", [first]), ("one", [first]), ("two", [first, second]))[options.warm:]:
            runs[run] = tune(options, devices, folder / run)
            seconds, found, _ = runs[run]
            lasted = measuring(runs[run][2])
            count = found["measured"]
            print(f"{run}: {seconds:.1f} s, {lasted:.1f} of them measuring, {count} measured, {count / seconds:.1f} a "
                  f"second, {count / lasted:.1f} while measuring, {len(found['failed'])} failed, "
                  f"{found['clocks'] or ''}", flush=True)
        one, two = (choices(runs[run][2]) for run in ("one", "two"))
        worse = []
        for key, times in two.items():
            best, other = min(times, key=times.__getitem__), min(one[key], key=one[key].__getitem__)
            if best != other:
                worse.append((times[other] / times[best] - 1 if other in times else float("inf"), key, best, other))
        print(f"throughput of two over one: {runs['one'][0] / runs['two'][0]:.2f}, measuring "
              f"{measuring(runs['one'][2]) / measuring(runs['two'][2]):.2f}; {len(two)} problems, "
              f"{len(worse)} chosen differently, {sum(by > 0.02 for by, *_ in worse)} by more than 2 %")
        for by, key, best, other in sorted(worse, reverse=True)[:10]:
            print(f"  {by:.1%} {key}: {best}, with one {other}")


if __name__ == "__main__":
    main()
