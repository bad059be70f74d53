"""Child processes that are asked in frames, as `compile_child` speaks them: what may die must take nobody along."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

from miopyx.device import probing
from miopyx.values import posix

from . import compile_child


class Child:
    """A process that answers frames; `gone` is set once it died or was killed for being late.

    Parameters
    ----------
    command : sequence of str
    name : str
        What it is in messages, with its article.
    environment : dict, optional
        Variables that it gets beside this process's.
    """

    def __init__(self, command: Sequence[str], name: str, environment: dict[str, str] | None = None) -> None:
        self.gone, self._late, self._reaped = False, False, False
        self._name = name
        self._lock = threading.Lock()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the child)
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=self._stderr, **posix.GROUP,
                                             env={**os.environ, **(environment or {})})
        except BaseException:
            self._stderr.close()
            raise

    def ask(self, seconds: int, request: dict[str, Any], payload: bytes = b"") -> tuple[str, bytes]:
        """Return why not, and the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(seconds, self._end_late)
        timer.daemon = True
        timer.start()
        reply = None
        try:
            # The pipe may break while we write; and the child may have said why before it went.
            with contextlib.suppress(OSError):
                compile_child.send(self._process.stdin, request, payload)
            with contextlib.suppress(OSError):
                reply = compile_child.receive(self._process.stdout)
        finally:
            timer.cancel()
            timer.join()  # it may have begun to end the child just when the answer came
        self.gone = reply is None or self._late
        if reply is None:
            return self._end(seconds), b""
        return str(reply[0].get("why", "no answer that makes sense")), reply[1]

    def _end(self, seconds: int) -> str:
        """Return how a child ended that gave no answer."""
        self._reap()
        code = self._process.returncode
        lines = probing._last_lines(probing._tail(self._stderr))
        if self._late:
            return f"no answer within {seconds} s from {self._name}{lines}"
        return f"{self._name} died with {posix.how_ended(code)}{lines}"

    def _end_late(self) -> None:
        self._late = True
        self.kill()

    def kill(self) -> None:
        """End the child and the compilers that it started, from any thread."""
        with self._lock:
            if not self._reaped:  # else its id may be another process's by now
                posix.end_group(self._process.pid)

    def _reap(self) -> None:
        self.kill()
        with self._lock:
            self._reaped = True
            self._process.wait()

    def close(self) -> None:
        """End the child and give everything back."""
        self._reap()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            assert stream is not None
            with contextlib.suppress(OSError):  # what a broken pipe still holds
                stream.close()
