"""The side of a child process that asks: one device, one job at a time, and a new child where one died.

Used alike by the lanes of one machine and by the workers of a fleet.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from miopyx.choose import compile_child
from miopyx.choose.child import Child
from miopyx.device import probing
from miopyx.errors import UnknownError

_START_SECONDS = 300
_JOBS = 1000          # of a child, which keeps what it built; the next one takes over
_FOREVER = 7 * 86400  # to wait for others who measure on the device


class Station:
    """A device in a child process, which is started with the first job.

    Parameters
    ----------
    device : str
        As `Handle` takes it; "": the best one.
    clock : str
        ``module:function`` whose times count instead of the device's, for tests; "": the device's.
    """

    def __init__(self, device: str, clock: str = "") -> None:
        self.device, self.clock = device, clock
        self._child: Child | None = None
        self._jobs = 0

    def run(self, job: str, limit: float, **arguments: Any) -> dict[str, Any]:
        """Return {"done": result}, {"why": ...} for an error, {"died": ...} for a child that ended or was too slow.

        After `limit` seconds the child is ended; what it waits for others who measure is not counted.

        Raises
        ------
        UnknownError
            Where no child can be started, or it cannot open the device.
        """
        if self._jobs >= _JOBS:
            self.close()
        child = self._child or self._open()
        self._jobs += 1
        if job in ("measure", "time"):
            why, _ = child.ask(_FOREVER, {"job": "wait", "seconds": 0})
            if why:
                return self._failed(child, why)
        seconds = math.ceil(limit)
        why, answer = child.ask(seconds, {"job": job, "arguments": arguments, "seconds": 2 * seconds})
        return self._failed(child, why) if why else {"done": json.loads(answer)}

    def _failed(self, child: Child, why: str) -> dict[str, Any]:
        if not child.gone:
            return {"why": why}
        self.close()
        return {"died": why}

    def _open(self) -> Child:
        script = str(Path(compile_child.__file__))
        child = Child([probing._python() or "", "-P", "-W", "ignore", script], "the measuring process")
        why, _ = child.ask(_START_SECONDS, {
            "path": [path for path in sys.path if isinstance(path, str)],
            "opener": "miopyx.tools.tune.measure:Bench", "device": self.device, "clock": self.clock})
        if why:
            child.close()
            raise UnknownError(why)
        self._child, self._jobs = child, 0
        return child

    def kill(self) -> None:
        """End the child, from any thread; whoever waits for it gets "died"."""
        child = self._child
        if child is not None:
            child.kill()

    def close(self) -> None:
        """End the child; the next job starts another."""
        child, self._child = self._child, None
        if child is not None:
            child.close()
