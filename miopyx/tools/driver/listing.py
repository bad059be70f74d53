"""Lists of commands: reading them, running them with a progress bar, and what is said and written at the end."""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import miopyx
from miopyx.errors import MIOpenError
from miopyx.values import config

from . import families, report
from .families import FAMILIES, Work
from .options import Command, UsageError, Value, parse_line
from .report import ERROR, FAILED, OK, UNVERIFIED, Outcome
from .run import Emit, Session

_KEEP_SECONDS = 1.0  # between two writes of the result file
RUNS = 5  # of each layer of a list, unless -i says otherwise


class Line(NamedTuple):
    """A line of a list: where it stands and what it asks for."""

    number: int
    work: Work


class Refused(NamedTuple):
    """A line of a list that cannot be read, or asks for something impossible."""

    line: int
    why: str


Done = list[tuple[Line, list[Outcome]]]


def shipped() -> list[str]:
    """Return the names of the lists that come with the package."""
    return sorted(entry.name[:-4] for entry in (files(__package__) / "lists").iterdir() if entry.name.endswith(".txt"))


def read(name: str, operation: str, flags: Mapping[str, Value], batch: Value | None = None,
         refused: list[Refused] | None = None) -> list[Line]:
    """Return the lines of a list file, or of a list that ships; `operation`, `flags` and `batch` replace theirs.

    Raises
    ------
    UsageError
        With file and line number, for a line that cannot be read or asks for something impossible, unless such lines
        shall be added to `refused`.
    """
    path = Path(name)
    try:
        content = ((files(__package__) / "lists" / f"{name}.txt").read_bytes()
                   if name in shipped() and not path.exists() else path.read_bytes())
    except OSError as e:
        raise UsageError(f"{name}: {e.strerror}; lists that ship: {', '.join(shipped())}") from None
    text = content.decode("utf-8-sig", errors="replace")  # a comment may be in any encoding
    lines = []
    for number, row in enumerate(text.splitlines(), 1):
        try:
            if "\0" in row:
                raise UsageError("not text: it has a zero byte")
            command = parse_line(row, FAMILIES)
            if command is not None:
                lines.append(Line(number, families.make(families.overridden(command, operation, flags, batch))))
        except (UsageError, MIOpenError) as e:
            if refused is None:
                raise UsageError(f"{name}, line {number}: {e}") from None
            refused.append(Refused(number, str(e)))
    if not lines and b"\0" in content:
        raise UsageError(f"{name}: not a text file")
    if not lines and not refused:
        raise UsageError(f"{name}: no commands in it")
    return lines


class _Progress:
    """A bar on the error stream, if that is a terminal."""

    def __init__(self, total: int) -> None:
        self.total, self.shown = total, sys.stderr.isatty()

    def show(self, done: int, words: str) -> None:
        if self.shown:
            filled = 24 * done // self.total
            self._write(f"[{'#' * filled}{'.' * (24 - filled)}] {done}/{self.total} {words}", "")

    def clear(self) -> None:
        if self.shown:
            self._write("", "\r")

    def _write(self, text: str, end: str) -> None:
        width = min(100, shutil.get_terminal_size().columns - 1)
        sys.stderr.write(f"\r{text[:width]:<{width}}{end}")
        sys.stderr.flush()


def run(session: Session, lines: Sequence[Line], verbose: bool, emit: Emit, done: Done,
        keep: Callable[[], None]) -> None:
    """Run every line, print the rows of its outcomes, add them to `done` and `keep` that.

    An error of one line does not stop the others.
    """
    progress = _Progress(len(lines))
    rows = report.Rows([families.name(line.work) for line in lines],
                       any(not families.counts(line.work) for line in lines))
    emit(rows.heading())
    for count, line in enumerate(lines):
        command = line.work.command
        progress.show(count, families.name(line.work))
        if verbose:
            progress.clear()
            emit(f"miopyx-driver {command}")
        runs = command.number("iter") if "iter" in command.given else RUNS
        outcomes = families.run(session, line.work, emit if verbose else _quiet, True, runs, True)
        progress.clear()
        done.append((line, outcomes))
        for outcome in outcomes:
            emit(rows.row(outcome))
        keep()


def _quiet(_: str) -> None:
    pass


def summary(session: Session, done: Sequence[tuple[Line, Sequence[Outcome]]], refused: int = 0) -> list[str]:
    """Return what a list prints at its end: the totals, and how many lines are right."""
    outcomes = [outcome for _, several in done for outcome in several]
    right = sum(all(o.verdict == OK for o in several) for _, several in done)
    ran = sum(all(o.verdict in (OK, UNVERIFIED) for o in several) for _, several in done)
    unverified = any(o.verdict == UNVERIFIED for o in outcomes)
    return [
        "",
        *report.total_lines(report.totals(outcomes)),
        f"{right} of {len(done)} lines verified on {session.handle.device.name}"
        + (f", {ran} ran (-V 0)" if unverified else "") + (f", {refused} refused" if refused else ""),
    ]


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """Return 1 if any result was wrong, else the code of the worst error."""
    if any(o.verdict == FAILED for o in outcomes):
        return 1
    return max((o.code for o in outcomes if o.verdict == ERROR), default=0)


def document(session: Session, arguments: Sequence[str],
             done: Sequence[tuple[Line | Command, Work, Sequence[Outcome]]]) -> dict[str, Any]:
    """Return everything about a run as plain data."""
    outcomes = [outcome for _, _, several in done for outcome in several]
    return {
        **head(session, arguments),
        "results": [row for source, work, several in done for row in results_of(source, work, several)],
        "summary": {
            "lines": len(done),
            "lines_verified": sum(all(o.verdict == OK for o in several) for _, _, several in done),
            "directions": report.totals(outcomes),
        },
    }


def results_of(source: Any, work: Any, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return what came of one command, a dictionary a direction, as plain data."""
    return [{
        "line": source.number if isinstance(source, Line) else None,
        "command": str(work.command),
        "direction": outcome.direction,
        "layer": outcome.problem,
        "problem": families.facts(work),
        **{_JSON_NAMES.get(key, key): _plain(value) for key, value in asdict(outcome).items()
           if key not in ("direction", "problem", "code")},
    } for outcome in outcomes]


def head(session: Session, arguments: Sequence[str]) -> dict[str, Any]:
    """Return what is known before anything ran, as plain data."""
    info = session.handle.device.info
    return {
        "program": "miopyx-driver",
        "arguments": list(arguments),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": {key: getattr(info, key) for key in ("name", "kind", "runtime", "isa", "device_name",
                                                       "platform_name", "driver_version", "compute_units")},
        "versions": {"miopyx": miopyx.__version__, "miopen": ".".join(map(str, miopyx.miopenGetVersion())),
                     "python": platform.python_version(), "numpy": _version("numpy"),
                     "pyopencl": _version("pyopencl")},
        "seed": session.seed,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # the host path runs without
        return None


_JSON_NAMES = {"time": "time_ms", "workspace": "workspace_bytes", "bandwidth": "gb_per_s"}


def _plain(value: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def require_writable(path: str) -> None:
    """Raise UsageError now if a result file could not be written after a long run."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise UsageError(f"--json {path}: no such folder")
    if Path(path).is_dir():
        raise UsageError(f"--json {path}: is a folder")


class Kept:
    """The file of --json for a list: one document, whole at any time, or for a name in .jsonl a line a result.

    A document is written anew, at most once a second; lines are added as they come, behind one of what was known first.
    """

    def __init__(self, path: str, session: Session, arguments: Sequence[str], refused: Sequence[Refused]) -> None:
        self.path, self.session, self.arguments, self.refused = path, session, arguments, refused
        self.lines, self.written, self.at = path.endswith(".jsonl"), 0, perf_counter()
        if self.lines:
            try:
                Path(path).write_bytes(b"")
            except OSError as e:
                raise UsageError(f"--json {path}: {e.strerror}") from None
            self._add([{**head(session, arguments), "refused": [one._asdict() for one in refused]}])

    def keep(self, done: Done, finished: bool | None = None) -> None:
        """Write what is not written yet; `finished` says that nothing follows, and whether the list was run through."""
        if self.lines:
            new = done[self.written:]
            self.written = len(done)
            self._add([row for line, outcomes in new for row in results_of(line, line.work, outcomes)])
        elif finished is not None or perf_counter() - self.at > _KEEP_SECONDS:
            write(self.path, {
                **document(self.session, self.arguments, [(line, line.work, outcomes) for line, outcomes in done]),
                "refused": [one._asdict() for one in self.refused], "finished": bool(finished)})
            self.at = perf_counter()

    def _add(self, rows: Sequence[dict[str, Any]]) -> None:
        try:
            with open(self.path, "ab") as file:
                file.write("".join(json.dumps(row, allow_nan=False) + "\n" for row in rows).encode())
        except OSError as e:
            raise UsageError(f"--json {self.path}: {e.strerror}") from None


def write(path: str, content: dict[str, Any]) -> None:
    """Write a document whole or not at all."""
    if not config.write_atomically(Path(path), (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()):
        raise UsageError(f"--json {path}: cannot be written")
