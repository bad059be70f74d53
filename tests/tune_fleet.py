"""A fleet on one machine: a dask scheduler, supervised workers that stand for machines, and somebody who kills them."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from miopyx.errors import BadParmError
from miopyx.tools.tune import fleet
from miopyx.tools.tune.ledger import Ledger
from miopyx.tools.tune.work import LocalLane, LocalLanes, Scheduler

TESTS = str(Path(__file__).resolve().parent)
CLOCK = "tune_clock:clock"
SUPERVISOR = f"""
import sys
sys.path.insert(0, {TESTS!r})
from miopyx.tools.tune import fleet
WORKER = {'''import sys
sys.path.insert(0, sys.argv.pop(1))
from miopyx.tools.tune import fleet_worker
sys.exit(fleet_worker.main(sys.argv[1:], "tune_clock:slow"))'''!r}
sys.exit(fleet.supervise(sys.argv[1], [sys.argv[2]], int(sys.argv[3]), lambda *of: [
    sys.executable, "-P", "-c", WORKER, {TESTS!r}, *map(str, of)]))
"""


class Nobody:
    """Who does not watch."""

    def total(self, tasks):
        pass

    def done(self, device, key, result, why):
        pass


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Simulation:
    """Machines of one device each, as processes with folders of their own, and their scheduler."""

    def __init__(self, folder, devices, jobs=1):
        self.folder, self.port = Path(folder), free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler = None
        self.lock = threading.Lock()
        self.killed = 0
        self.scheduler_killed = 0
        self.start_scheduler()
        self.machines = []
        for i, device in enumerate(devices):
            home = self.folder / f"machine{i}"
            environment = {**os.environ, "MIOPYX_CACHE_DIR": str(home / "cache"), "MIOPEN_DISABLE_CACHE": "0",
                           "MIOPEN_USER_DB_PATH": str(home / "databases")}
            self.machines.append(subprocess.Popen(
                [sys.executable, "-P", "-c", SUPERVISOR, self.address, device, str(jobs)], env=environment))

    def start_scheduler(self):
        self.scheduler = subprocess.Popen(
            [sys.executable, "-P", "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", str(self.port),
             "--no-dashboard"], stderr=subprocess.DEVNULL)

    def kill_scheduler(self):
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler_killed += 1
        time.sleep(1)
        self.start_scheduler()

    def terrorise(self, lanes, every, scheduler_after, rng, stop):
        """Kill a worker at random every few seconds, and once the scheduler, until told to stop."""
        began = time.monotonic()
        while not stop.wait(every):
            there = list(lanes._lanes.values())
            if there:
                process = int(rng.choice(there).name.split("/")[1])
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    self.killed += 1
            if not self.scheduler_killed and time.monotonic() - began > scheduler_after:
                self.kill_scheduler()

    def close(self):
        for machine in self.machines:
            machine.terminate()
        for machine in self.machines:
            machine.wait()
        self.scheduler.kill()
        self.scheduler.wait()


def connected(address):
    """Return the client's side, however long a busy machine takes to start the scheduler."""
    for _ in range(10):
        with contextlib.suppress(BadParmError):
            return fleet.Fleet(address, 120.0)
    return fleet.Fleet(address, 120.0)


def by_fleet(folder, keys, devices, every, scheduler_after, seed, kinds):
    """Tune problems on a fleet that is under attack; return the simulation, the summary, and the ledger."""
    simulation = Simulation(folder, devices)
    ledger = Ledger(Path(folder) / "fleet.sqlite3", only=True)
    stop = threading.Event()
    try:
        lanes = connected(simulation.address)
    except BaseException:
        simulation.close()
        raise
    terror = threading.Thread(target=simulation.terrorise,
                              args=(lanes, every, scheduler_after, random.Random(seed), stop))
    try:
        until = time.monotonic() + 60
        while len({lane.device for lane in lanes.alive()}) < kinds and time.monotonic() < until:
            time.sleep(0.2)
        terror.start()
        summary = Scheduler(lanes, ledger, dict.fromkeys(keys, 1.0), Nobody(), databases=False).run()
    finally:
        stop.set()
        if terror.is_alive():
            terror.join()
        lanes.close()
        simulation.close()
    return simulation, summary, ledger


def by_one_process(folder, keys, devices):
    """Tune the same problems without a fleet; return the ledger."""
    ledger = Ledger(Path(folder) / "one.sqlite3")
    for device in devices:
        lanes = LocalLanes([LocalLane(device, 1, 120.0, CLOCK)])
        try:
            Scheduler(lanes, ledger, dict.fromkeys(keys, 1.0), Nobody()).run()
        finally:
            lanes.close()
    return ledger
