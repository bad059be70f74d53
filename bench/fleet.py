"""How `miopyx tune` scales over the workers of a dask scheduler; measurements sleep, so that one machine holds all.

    python bench/fleet.py [--workers 1 2 4 8 16 32 64] [--tasks 150] [--seconds 0.5] [--processes 2]

The scheduler is a process of its own; workers are dask workers with a thread each, several in a process, since 64
processes would not fit a small machine; scheduling, ledger and all that goes over the network are the real ones.
Efficiency is the time that the sleeping takes in the ideal over the time from the first job to the last result, looking
at the problems included.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import distributed

from miopyx.tools.tune import fleet
from miopyx.tools.tune.ledger import Device, Ledger
from miopyx.tools.tune.work import Scheduler

DEVICE = Device("asleep_1", "bench/asleep_1")


class Asleep:
    """Stands for a device on which each measurement takes as long."""

    limit = 0.0

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def submit(self, job: str, **arguments: Any) -> Future[dict[str, Any]]:
        future: Future[dict[str, Any]] = Future()
        future.set_result({"done": self.look(**arguments) if job == "look" else self.measure(**arguments)})
        return future

    def look(self, keys: list[str], search: bool) -> list[dict[str, Any]]:
        return [{"known": False, "gain_ms": float(len(key))} for key in keys]

    def measure(self, key: str, **_: Any) -> dict[str, Any]:
        time.sleep(self.seconds)
        lines = [{"key": key, "solver": f"Solver{i}", "time_ms": 1.0 + i, "config": [], "runs": 5} for i in range(8)]
        return {"device": DEVICE.name, "stamp": DEVICE.stamp, "before": {"solver": "Solver1", "ms": 2.0},
                "after": {"solver": "Solver0", "config": "", "ms": 1.0}, "partial": False,
                "find": f"{key}=" + ";".join(f"Solver{i}:{1 + i},0,miopenConvolutionFwdAlgoGEMM" for i in range(8)),
                "perf": None, "times": lines}


class Nobody:
    def total(self, tasks: int) -> None:
        pass

    def done(self, *_: Any) -> None:
        pass


def be_workers(scheduler: str, count: int, seconds: float) -> None:
    """Run some workers in this process until it is killed."""
    fleet._Here.lane = Asleep(seconds)  # type: ignore[assignment]

    async def work() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for i in range(count):
                name = fleet._NAME + json.dumps(["bench", f"{os.getpid()}-{i}", "asleep", *DEVICE, True, 0])
                await stack.enter_async_context(distributed.Worker(
                    scheduler, nthreads=1, name=name, resources={fleet.RESOURCE: 1}, memory_limit=0, dashboard=False))
            await asyncio.Event().wait()

    asyncio.run(work())


def used(process: int) -> tuple[float, float]:
    """Return the MiB of memory and the seconds of processor that a process took."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, ticks / os.sysconf("SC_CLK_TCK")


def measure(workers: int, tasks: int, seconds: float, processes: int) -> dict[str, float]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    scheduler = subprocess.Popen([sys.executable, "-P", "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port",
                                  str(port), "--no-dashboard"], stderr=subprocess.DEVNULL)
    processes = min(processes, workers)
    shares = [workers * (i + 1) // processes - workers * i // processes for i in range(processes)]
    others = [subprocess.Popen([sys.executable, "-P", __file__, "--serve", address, str(share), str(seconds)],
                               stderr=subprocess.DEVNULL) for share in shares]
    try:
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(Path(folder) / "ledger.sqlite3")
            lanes = fleet.Fleet(address, 60.0)
            until = time.monotonic() + 120
            while len(lanes.alive()) < workers and time.monotonic() < until:
                time.sleep(0.5)
            assert len(lanes.alive()) == workers, "workers did not start"
            keys = {f"problem {i}": 1.0 for i in range(workers * tasks)}
            began, mine = time.monotonic(), time.process_time()
            before = used(scheduler.pid)
            summary = Scheduler(lanes, ledger, keys, Nobody(), databases=False).run()
            took, mine = time.monotonic() - began, time.process_time() - mine
            after = used(scheduler.pid)
            counts = ledger.counts()
            assert len(summary.results) == counts["result"] == workers * tasks
            lanes.close()
            ledger.close()  # which moves everything to the file itself
            size = (Path(folder) / "ledger.sqlite3").stat().st_size
    finally:
        for process in (*others, scheduler):
            process.kill()
            process.wait()
    return {"workers": workers, "tasks": workers * tasks, "seconds": took, "efficiency": tasks * seconds / took,
            "tasks a second": workers * tasks / took, "ledger writes a second": ledger.writes / took,
            "scheduler MiB": after[0], "scheduler MiB more": after[0] - before[0],
            "scheduler busy": (after[1] - before[1]) / took, "client busy": mine / took,
            "ledger bytes a task": size / (workers * tasks)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--tasks", type=int, default=150, help="of each worker")
    parser.add_argument("--seconds", type=float, default=0.5, help="that a measurement sleeps")
    parser.add_argument("--processes", type=int, default=2, help="that the workers share")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        be_workers(options.serve[0], int(options.serve[1]), float(options.serve[2]))
        return
    for workers in options.workers:
        found = measure(workers, options.tasks, options.seconds, options.processes)
        print(", ".join(f"{name} {value:.4g}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
