"""A worker's process: `python -m miopyx.tools.tune.fleet_worker SCHEDULER DEVICE JOBS`, as `fleet.supervise` starts it.

A module of its own, so that the tasks, which are functions of `fleet`, meet the lane that this process opened.
"""

from __future__ import annotations

import logging
import os
import sys

from miopyx.errors import MIOpenError

from . import fleet
from .measure import end_with


def main(arguments: list[str], clock: str = "") -> int:
    """Serve until the scheduler is gone, or this process's parent."""
    scheduler, device, jobs = arguments
    end_with(os.getppid())
    logging.getLogger("distributed").setLevel(logging.ERROR)  # workers come and go
    try:
        fleet.serve(scheduler, device, int(jobs), clock)
    except (MIOpenError, OSError, TimeoutError) as e:
        print(f"miopyx worker: {e}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
