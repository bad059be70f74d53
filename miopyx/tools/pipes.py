"""Programs whose output goes to somebody who may leave, as `head` does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TextIO, cast

READER_LEFT = 141  # what a shell reports of a program that SIGPIPE ended: 128 + 13


class _Output:
    """A stream that tells a failed write from every other OSError."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as e:
            raise _Unwritable(e) from e

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as e:
            raise _Unwritable(e) from e


class _Unwritable(Exception):
    """The output cannot be written; args[0] says why."""


def quietly(run: Callable[[], int]) -> int:
    """Return what `run` returns, or 141 where whoever read our output has left; then nothing more is written.

    Output that cannot be written for another reason, a full disk or a closed stream, is a line on stderr and 1.
    """
    if sys.stdout is None:  # closed before the program began
        print("output cannot be written: there is no standard output", file=sys.stderr)
        return 1
    stdout = sys.stdout
    sys.stdout = cast(TextIO, _Output(stdout))
    try:
        code = run()
        sys.stdout.flush()  # now, not while the process ends, when nobody can catch what goes wrong
        return code
    except BrokenPipeError:  # on stderr
        return _left(stdout)
    except _Unwritable as e:
        if isinstance(e.args[0], BrokenPipeError):
            return _left(stdout)
        _silence(stdout)
        print(f"output cannot be written: {e.args[0].strerror}", file=sys.stderr)
        return 1
    finally:
        sys.stdout = stdout


def _left(stdout: TextIO) -> int:
    for stream in (stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            _silence(stream)
    return READER_LEFT


def _silence(stream: TextIO) -> None:
    """Let what is still in the stream's buffer go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
