"""Lanes on other machines: devices of a fleet, behind the workers of a dask scheduler.

The client, which is `miopyx tune`, decides: it gives each worker its jobs by address, of measurements at most two, and
alone writes the ledger.  dask carries jobs there and results back.  A worker has one device, which is its resource
``device``, so that it measures one problem at a time; programs are compiled on its other threads, since what is
compiled lies in its machine's cache.

Nothing that dask keeps is needed: with the scheduler goes what is on its way, and the client gives it out again once
a scheduler is there and workers have come back, which `supervise` sees to.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import dask
import distributed

from miopyx.device import devices as known
from miopyx.device import probing
from miopyx.errors import BadParmError, UnknownError
from miopyx.values import posix

from .ledger import Device
from .work import Lane, LocalLane, local_compilers

RESOURCE = "device"
_NAME = "miopyx"           # begins our workers' names, which are JSON behind it
_CONNECT_SECONDS = 20.0    # for the first connection
_AGAIN_SECONDS = 2.0       # for one more try
_RESTART_SECONDS = 1.0     # before a worker that ended is started again, at first
_LONGEST_SECONDS = 30.0    # and at most, while none lives longer than the next
_SHORT_LIFE = 10.0
_log = logging.getLogger("miopyx")
_numbers = itertools.count()

# On workers


class _Here:
    """What this process, if it is a worker, measures with."""

    lane: LocalLane | None = None


def perform(job: str, limit: float, arguments: dict[str, Any]) -> dict[str, Any]:
    """Do a job on the worker's device, as a task of dask."""
    lane = _Here.lane
    if lane is None:
        raise UnknownError("this worker was not started by miopyx worker")
    lane.limit = limit
    return lane.submit(job, **arguments).result()


def serve(scheduler: str, device: str, jobs: int, clock: str = "") -> None:
    """Be a worker until the scheduler is gone."""
    import asyncio

    lane = _Here.lane = LocalLane(device, jobs, 60.0, clock)
    name = _NAME + json.dumps([socket.gethostname(), os.getpid(), lane.name, *lane.device, lane.overlap,
                               lane.compilers])

    async def work() -> None:
        worker: Any = distributed.Worker(
            scheduler, nthreads=1 + lane.compilers, name=name, resources={RESOURCE: 1}, memory_limit=0,
            death_timeout=_CONNECT_SECONDS, dashboard=False)
        async with worker:
            await worker.finished()

    try:
        asyncio.run(work())
    finally:
        lane.close()


def supervise(scheduler: str, devices: Sequence[str], jobs: int | None = None,
              command: Callable[[str, str, int], list[str]] | None = None) -> int:
    """Keep a worker process for each device until interrupted or told to end (SIGTERM).

    Raises
    ------
    BadParmError, MIOpenError
        For what no worker could do anything about: no address, no such device.
    """
    require_address(scheduler)
    for device in devices:
        if device:
            known.find(device)
    stop = threading.Event()
    total = local_compilers() if jobs is None else jobs * len(devices)
    shares = [total * (i + 1) // len(devices) - total * i // len(devices) for i in range(len(devices))]
    threads = [threading.Thread(target=_keep, args=((command or _command)(scheduler, device, share), stop))
               for device, share in zip(devices, shares, strict=True)]
    posix.when_told_to_end(stop.set)
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            stop.wait(0.5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return 0


def _command(scheduler: str, device: str, jobs: int) -> list[str]:
    python = probing._python()
    if python is None:
        raise UnknownError(f"{sys.executable!r} is not a Python interpreter that can be started")
    return [python, "-P", "-m", "miopyx.tools.tune.fleet_worker", scheduler, device, str(jobs)]


def _keep(command: list[str], stop: threading.Event) -> None:
    """Start a worker again whenever it ends, later and later if it ends at once."""
    pause = _RESTART_SECONDS
    while not stop.is_set():
        began = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        while process.poll() is None and not stop.wait(0.1):
            pass
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5.0)
            process.kill()
            process.wait()
            return
        # Who was killed was not at fault; who gives up at once, for want of a device or a scheduler, is asked less
        # often.
        fine = process.returncode <= 0 or time.monotonic() - began > _SHORT_LIFE
        pause = _RESTART_SECONDS if fine else min(2 * pause, _LONGEST_SECONDS)
        _log.info("a worker ended with %s; another is started", process.returncode)
        stop.wait(pause)


def require_address(text: str) -> None:
    """Raise BadParmError for what names no scheduler, which dask would ask for some time."""
    comm: Any = distributed.comm
    try:
        _, location = comm.parse_address(text)
        port = comm.parse_host_port(location)[1]
    except ValueError:
        port = 0
    if not 0 < port < 65536:
        raise BadParmError("no address", "ADDRESS", text, "a dask scheduler's, such as tcp://127.0.0.1:8786")


# On the client


def _workers(dask_scheduler: Any = None) -> dict[str, str]:
    """Return the names of a scheduler's workers by their addresses."""
    return {address: str(state.name) for address, state in dask_scheduler.workers.items()}


class FleetLane:
    """A worker's device."""

    depth = 2  # so that its next problem is there when one is done
    rest: float | None = 5.0  # a device that failed once may be back, a worker was perhaps too slow to answer

    def __init__(self, client: Any, address: str, about: Sequence[Any], limit: float) -> None:
        host, process, self.spec, name, stamp, self.overlap, self.compilers = about
        self.name, self.machine = f"{host}/{process}/{self.spec}", host
        self.device = Device(name, stamp)
        self.address, self._client, self._limit = address, client, limit

    def submit(self, job: str, **arguments: Any) -> Any:
        return self._client.submit(
            perform, job, self._limit, arguments, key=f"miopyx-{job}-{os.getpid()}-{next(_numbers)}", pure=False,
            workers=[self.address], allow_other_workers=False,
            **({} if job == "compile" else {"resources": {RESOURCE: 1}}))

    def close(self) -> None:
        """The worker is not ours to end."""


class Fleet:
    """The workers of a scheduler, as they come and go; a scheduler that is gone is waited for."""

    def __init__(self, scheduler: str, limit: float) -> None:
        require_address(scheduler)
        self._address, self._limit = scheduler, limit
        self._lanes: dict[str, FleetLane] = {}
        dask.config.set({"distributed.comm.timeouts.connect": "5s", "distributed.comm.retry.count": 0})
        self._client = self._connect(_CONNECT_SECONDS)
        if self._client is None:
            raise BadParmError("no answer", "--scheduler", scheduler, "the address of a dask scheduler")

    def _connect(self, seconds: float) -> Any:
        client: Any = distributed.Client
        try:
            return client(self._address, timeout=seconds, set_as_default=False)
        except (OSError, ValueError, TypeError) as e:
            _log.info("no scheduler at %s: %s", self._address, e)
            return None

    def alive(self) -> list[Lane]:
        """Return the lanes of the workers that are there now."""
        if self._client is None:
            self._client = self._connect(_AGAIN_SECONDS)
        found: dict[str, str] = {}
        if self._client is not None:
            try:
                found = self._client.run_on_scheduler(_workers)
            except Exception as e:  # of whatever kind: the scheduler does not answer
                _log.warning("the scheduler %s is gone (%s); waiting for it", self._address, e)
                client, self._client = self._client, None
                with contextlib.suppress(Exception):
                    client.close(timeout=1)
        self._lanes = {address: self._lanes.get(address) or FleetLane(self._client, address, about, self._limit)
                       for address, about in ((address, _about(name)) for address, name in found.items()) if about}
        return list(self._lanes.values())

    def close(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=5)


def _about(name: str) -> list[Any] | None:
    """Return what a worker's name says, None for one that is not ours."""
    if not name.startswith(_NAME):
        return None
    try:
        about = json.loads(name.removeprefix(_NAME))
    except (ValueError, RecursionError):
        return None
    if not isinstance(about, list) or [type(one) for one in about] != [str, int, str, str, str, bool, int]:
        return None
    printable = all(one.isprintable() for one in about if isinstance(one, str))
    return about if printable and about[-1] >= 0 else None
