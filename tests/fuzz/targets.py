"""What is fuzzed: a function for each text, file and stream of bytes that miopyx reads.

A target takes bytes and an empty folder, and says whether they were read as what they should be (so that a corpus can
be seen to reach beyond the first check).  It raises whatever is not documented: `AssertionError` where a promise does
not hold, any exception that the reader should not raise.  Checksums are no obstacle: where there is one, a target reads
the bytes as they are, and once more with a checksum that fits.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import shutil
import sys
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from miopyx.values import logs


class Target(NamedTuple):
    """A reader: what runs it, and words that a fuzzer may put into its bytes."""

    run: Callable[[bytes, Path], bool]
    words: tuple[bytes, ...]


TARGETS: dict[str, Target] = {}
MOST_SLEEP = 1.0  # seconds


def target(*words: bytes) -> Callable[[Any], Any]:
    """Return a decorator that makes a function a target of its own name."""
    def add(function: Callable[[bytes, Path], bool]) -> Callable[[bytes, Path], bool]:
        TARGETS[function.__name__] = Target(function, words)
        return function

    return add


def require(holds: bool, what: str, *values: object) -> None:
    """Raise AssertionError where a promise does not hold."""
    if not holds:
        raise AssertionError(f"{what}: {', '.join(map(repr, values))}"[:2000])


def sealed_lines(data: bytes) -> bytes:
    """Return some lines, those that end with ``;#`` sealed."""
    return re.sub(rb"(?m)^(.*);#$", lambda match: b"%b;#%08x" % (match[1], zlib.crc32(match[1])), data)


def load() -> dict[str, Target]:
    """Return all targets."""
    from fuzz import commands, databases, devices, models  # noqa: F401  (each adds its own)

    return TARGETS


class Runner:
    """Runs one target again and again, each time in an empty folder.

    In a `with` statement: warnings are errors meanwhile, messages of the log are made and go nowhere, and what a
    function without exceptions or a destructor had to swallow is raised.
    """

    def __init__(self, name: str, scratch: Path) -> None:
        self.target, self.scratch, self.count = load()[name].run, scratch, 0
        self.ignored: list[BaseException] = []
        self.slept = 0.0
        self.stack = contextlib.ExitStack()

    def __enter__(self) -> Runner:
        logger = logging.getLogger("miopyx")
        self.stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("error")
        self.stack.enter_context(mock.patch.object(logger, "handlers", [_Printed()]))
        self.stack.enter_context(mock.patch.object(logger, "propagate", False))
        self.stack.enter_context(mock.patch.object(sys, "unraisablehook", lambda raised: self.ignored.append(
            raised.exc_value or raised.exc_type())))
        self.stack.enter_context(mock.patch.object(time, "sleep", self._sleep))
        return self

    def _sleep(self, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        if sys._getframe(1).f_globals["__name__"] != "subprocess":  # whose children take what the machine gives them
            self.slept += seconds
        sleep(seconds)

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def run(self, data: bytes) -> bool:
        """Return whether some bytes were read; raise what should not be."""
        self.count += 1
        self.slept = 0.0
        folder = self.scratch / f"run-{self.count}"
        folder.mkdir()
        try:
            with contextlib.redirect_stdout(_Nowhere()), contextlib.redirect_stderr(_Nowhere()):
                reached = self.target(data, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            logs.forget()
        if self.ignored:
            raise self.ignored.pop()
        require(self.slept < MOST_SLEEP, "seconds of waiting", self.slept)
        return reached


class _Nowhere(io.StringIO):
    """Takes what is printed; what a fuzzer says of a run that takes too long comes through all the same."""

    def fileno(self) -> int:
        return 2


class _Printed(logging.Handler):
    """Sees that each message of a log can be made and printed."""

    def emit(self, record: logging.LogRecord) -> None:
        record.getMessage().encode("utf-8", "surrogatepass")
