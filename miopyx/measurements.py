"""Measured times as JSON lines, one a (problem, solver, configuration, device): what a heuristic is trained on."""

from __future__ import annotations

import json
import logging
import os

from . import _key, config, databases
from ._core import Handle, Solver
from ._problem import ConvProblem

_log = logging.getLogger("miopyx")
_failed: set[str] = set()


def write(handle: Handle, problem: ConvProblem, solver: Solver, values: tuple[int, ...], time: float,
          runs: int) -> None:
    """Add a line to the file that MIOPYX_MEASUREMENTS names, if it names one.

    `time` is the median of `runs` runs in milliseconds of the device's clock, `values` the solver's configuration.
    """
    path: str = config.get("MIOPYX_MEASUREMENTS")
    if not path:
        return
    info = handle.device.info
    line = json.dumps({
        "key": _key.find_key(problem).decode(), **problem.features, "solver": solver.name, "solver_id": solver.id,
        "config": list(values), "workspace": solver.workspace_size(handle.device, problem), "time_ms": time,
        "runs": runs, "device": info.name, "compute_units": info.compute_units,
        "stamp": databases.of(info).stamp,
    }) + "\n"
    try:
        # One write at the end of the file: lines of several processes do not mix.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
    except OSError as e:
        if path not in _failed:
            _failed.add(path)
            _log.warning("times cannot be added to %s: %s", path, e.strerror)
