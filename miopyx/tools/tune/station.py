"""The side of a child process that asks: one device, one job at a time, and a new child where one died.

Used alike by the lanes of one machine and by the workers of a fleet.
"""

from __future__ import annotations

import json
import math
import sys
import threading
from pathlib import Path
from typing import Any

from miopyx.choose import compile_child
from miopyx.choose.child import Child
from miopyx.device import probing
from miopyx.errors import UnknownError
from miopyx.values import logs

_START_SECONDS = 300
_JOBS = 1000          # of a child, which keeps what it built; the next one takes over
_FOREVER = 7 * 86400  # to wait for others who measure on the device


class _Died(UnknownError):
    """A child came to its end while it opened the device, perhaps by no fault of either."""


class Station:
    """A device in a child process, which is started with the first job.

    Parameters
    ----------
    device : str
        As `Handle` takes it; "": the best one.
    clock : str
        ``module:function`` whose times count instead of the device's, for tests; "": the device's.
    alone : bool
        False for one of several that compile at a time: it compiles one program after the other.
    """

    def __init__(self, device: str, clock: str = "", alone: bool = True) -> None:
        self.device, self.clock = device, clock
        self._environment = {} if alone else {"MIOPEN_COMPILE_PARALLEL_LEVEL": "1"}
        self._child: Child | None = None
        self._jobs = 0
        self._killed = False
        self._lock = threading.Lock()  # of `_child` and `_killed`, which other threads see

    def run(self, job: str, limit: float, **arguments: Any) -> dict[str, Any]:
        """Return {"done": result}, {"why": ...} for what was refused, {"died": ...} for a child that came to its end.

        That is a child that died, that was too slow, or in which a measurement failed once it had begun: after some
        errors of a device nothing works any more in a process, so that only another one can tell whose error it was.
        After `limit` seconds the child is ended; what it waits for others who measure is not counted.

        Raises
        ------
        UnknownError
            Where no child can be started, or it cannot open the device; or after `kill`.
        """
        if self._jobs >= _JOBS:
            self.close()
        child = self._child or self._open_again()
        self._jobs += 1
        if job in ("measure", "time"):
            why, answer = child.ask(_FOREVER, {"job": "wait", "seconds": 0})
            if why:
                return self._failed(child, why)
            warning = json.loads(answer)
            if warning:
                logs.warn_once(("measuring", warning), "%s", warning)
        seconds = math.ceil(limit)
        why, answer = child.ask(seconds, {"job": job, "arguments": arguments, "seconds": 2 * seconds})
        if why:
            return self._failed(child, why, job in ("measure", "time"))
        done = json.loads(answer)
        if isinstance(done, dict) and "refused" in done:
            return {"why": done["refused"]}
        # It may have been too late to answer, and is dead; a partial result may come from solvers that failed.
        if child.gone or (isinstance(done, dict) and done.get("partial")):
            self.close()
        return {"done": done}

    def _failed(self, child: Child, why: str, is_over: bool = False) -> dict[str, Any]:
        if not child.gone and not is_over:
            return {"why": why}
        self.close()
        return {"died": why}

    def _open_again(self) -> Child:
        """Open the device in a child; where that dies meanwhile, in another one."""
        try:
            return self._open()
        except _Died:
            if self._killed:
                raise
            return self._open()

    def _open(self) -> Child:
        script = str(Path(compile_child.__file__))
        with self._lock:
            if self._killed:
                raise UnknownError("the measuring process was ended")
            child = self._child = Child([probing._python() or "", "-P", "-W", "ignore", script],
                                        "the measuring process", self._environment)
        why, _ = child.ask(_START_SECONDS, {
            "path": [path for path in sys.path if isinstance(path, str)],
            "opener": "miopyx.tools.tune.measure:Bench", "device": self.device, "clock": self.clock})
        if why:
            self.close()
            raise (_Died if child.gone else UnknownError)(why)
        self._jobs = 0
        return child

    def kill(self) -> None:
        """End the child for good, from any thread; whoever waits for it gets "died"."""
        with self._lock:
            self._killed = True
            if self._child is not None:
                self._child.kill()

    def close(self) -> None:
        """End the child; the next job starts another."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.close()
