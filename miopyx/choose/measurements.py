"""Measured times as JSON lines, one for each measurement of a (problem, solver, configuration, device).

They are what a heuristic is trained on.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

from miopyx._core import Offer
from miopyx.database import store
from miopyx.problem import _key
from miopyx.problem._problem import ConvProblem
from miopyx.values import config, logs, posix

listeners: list[Callable[[dict[str, Any]], object]] = []  # get what a line says, whether there is a file or not


def write(offer: Offer, values: tuple[int, ...], time: float, runs: int) -> None:
    """Tell the listeners of a measurement, and add a line to the file that MIOPYX_MEASUREMENTS names, if it names one.

    `time` is what counted of `runs` runs in milliseconds of the device's clock (their median; in a search, of two the
    less), `values` the solver's configuration.
    """
    path: str = config.get("MIOPYX_MEASUREMENTS")
    if not path and not listeners:
        return
    import json

    info, solver, problem = offer.device.info, offer.solver, offer.problem
    assert isinstance(problem, ConvProblem)
    fields = {
        "key": _key.find_key(problem).decode(), **problem.features, "solver": solver.name, "solver_id": solver.id,
        "config": list(values), "default": list(offer.default_config()), "workspace": offer.workspace, "time_ms": time,
        "runs": runs, "device": info.name, "device_name": info.device_name, "compute_units": info.compute_units,
        "clock": offer.device.clock, "bandwidth": offer.device.bandwidth,
        "stamp": store.of(info).stamp,
    }
    for listener in listeners:
        listener(fields)
    if not path:
        return
    line = (json.dumps(fields) + "\n").encode()
    try:
        # One write at the end of the file: lines of several processes do not mix.
        descriptor = posix.open_plain(path, posix.APPEND)
        try:
            if os.write(descriptor, line) < len(line):
                os.write(descriptor, b"\n")  # what follows must not be glued to a part of a line
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)
    except OSError as e:
        logs.warn_once(path, "times cannot be added to %s: %s", path, e.strerror, function="measurements")
