"""Programs whose output goes to somebody who may leave, as `head` does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

READER_LEFT = 141  # what a shell reports of a program that SIGPIPE ended: 128 + 13


def quietly(run: Callable[[], int]) -> int:
    """Return what `run` returns, or 141 where whoever read our output has left; then nothing more is written."""
    try:
        code = run()
        sys.stdout.flush()  # now, not while the process ends, when nobody can catch what goes wrong
    except BrokenPipeError:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return READER_LEFT
    return code
