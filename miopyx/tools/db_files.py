"""Database files as `miopyx db` reads them: lines, and of several files the line that counts for each key."""

from __future__ import annotations

import bz2
import contextlib
import errno
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from miopyx.database import records
from miopyx.database.records import Kind
from miopyx.errors import BadParmError, MIOpenError
from miopyx.problem import _key

if TYPE_CHECKING:
    from .tune.ledger import Device, Ledger

_SQLITE = b"SQLite format 3\0"
_MOST_LINE = 1 << 24  # bytes


def raw_lines(path: Path, flaws: Counter[str] | None = None) -> Iterator[bytes]:
    """Yield a file's lines without their ends, blank ones left out; a .bz2 that is cut short is counted in `flaws`.

    Of a ledger of `miopyx tune` the find-db and perf-db that it would be exported to.
    """
    if not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file" if path.exists() else "no such file", str(path))
    if is_ledger(path):
        with opened(path) as (ledger, device):
            yield from (line.rstrip(b"\n") for line in [*ledger.find_lines(device), *ledger.perf_lines(device)])
        return
    with bz2.open(path) if path.suffix == ".bz2" else path.open("rb") as file:
        try:
            while line := file.readline(_MOST_LINE + 1):
                if len(line) > _MOST_LINE:  # a few bytes of bzip2 can stand for any amount
                    raise OSError(errno.EFBIG, f"a line of more than {_MOST_LINE} bytes")
                line = line.rstrip(b"\r\n")
                if line:
                    yield line
        except EOFError:
            if flaws is not None:
                flaws["files cut short"] += 1
        except OSError as e:
            raise OSError(e.errno or errno.EINVAL, str(e), str(path)) from None


def winners(paths: list[Path]) -> tuple[dict[bytes, bytes], Counter[str]]:
    """Return the line that counts for each key of some files, in order, and what was left out by reason.

    Raises
    ------
    BadParmError
        For a file most lines of which name no problem.
    """
    chosen: dict[bytes, bytes] = {}
    left: Counter[str] = Counter()
    for path in paths:
        for key, line in _of_file(path, left).items():
            chosen[key] = _of_two(key, chosen[key], line, left) if key in chosen else line
    return {key: line for key, line in chosen.items() if records.says_something(records.split(line)[1])}, left


def _of_file(path: Path, left: Counter[str]) -> dict[bytes, bytes]:
    """Return the line that counts for each key: the last of our own, else the first."""
    chosen: dict[bytes, bytes] = {}
    lines = named = 0
    for line in raw_lines(path, left):
        kind = records.classify(line)
        lines += 1
        named += kind is not Kind.MALFORMED and names_problem(records.split(line)[0])
        if kind in (Kind.DAMAGED, Kind.MALFORMED):
            left[f"{kind.value} lines"] += 1
            continue
        key, items = records.split(line)
        if not _is_plain(key):
            left["keys that are no text"] += 1
            continue
        if kind is Kind.FOREIGN and not records.says_something(items):
            left["lines without items"] += 1
            continue
        if key in chosen:
            left["lines of a key that stands in the same file again"] += 1
        if key not in chosen or kind is Kind.OURS:
            chosen[key] = line
    require_records(path, lines, named)
    return chosen


def _of_two(key: bytes, first: bytes, second: bytes, left: Counter[str]) -> bytes:
    """Return what two files together say of a key.

    Our own line comes before another's, a whole record before a partial one; then of our own the last counts, of others
    the first.  Parameters of several solvers are joined, where one build, driver and device, or nobody, claims them.
    """
    ours = records.classify(second) is Kind.OURS
    old, new = records.split(first)[1], records.split(second)[1]
    if ours != (records.classify(first) is Kind.OURS):
        takes = ours
    elif is_perf(key):
        (values, stamp, _), (more, other, _) = records.read_perf(old), records.read_perf(new)
        if ours and stamp == other and more:  # one without any takes back what was there
            return records.write_perf(key, values | more, stamp).rstrip(b"\n")
        if not ours:
            return records.plain(records.write_perf(key, values | more | values, "")).rstrip(b"\n")
        takes = ours
    else:
        takes = ours and records.read_find(new).partial <= records.read_find(old).partial
    left["lines of a key that another file has"] += 1
    return second if takes else first


def require_records(path: Path, lines: int, named: int) -> None:
    """Raise BadParmError for a file most of whose `lines` name no problem; an empty one has none."""
    if lines > 2 * named:
        raise BadParmError("most lines are no records of a problem", "FILE", str(path), "a find-db or perf-db file")


def names_problem(key: bytes) -> bool:
    """Whether a key is that of a convolution."""
    try:
        _key.parse_perf_key(key) if is_perf(key) else _key.parse_find_key(key)
    except MIOpenError:
        return False
    return True


def _is_plain(key: bytes) -> bool:
    return all(0x20 < byte < 0x7F for byte in key)


def is_ledger(path: Path) -> bool:
    """Whether a file is one of SQLite's, as ledgers of `miopyx tune` are."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


@contextlib.contextmanager
def opened(path: Path, wanted: str = "") -> Iterator[tuple[Ledger, Device]]:
    """Open a ledger, and choose whose results: of the device that is `wanted`, "" for the only one.

    Raises
    ------
    BadParmError
        Where it is no ledger, or has results of several such devices, or of none.
    """
    from .tune import ledger

    book = ledger.existing(path)
    try:
        there = [device for device, _ in book.devices()]
        fitting = [device for device in there if wanted in ("", device.name, device.stamp)]
        if len(fitting) != 1:
            raise BadParmError(f"{'several devices have' if fitting else 'no such device has'} results in {path}; "
                               "export says whose", "--device", wanted or "not given",
                               ", ".join(device.stamp if [d.name for d in there].count(device.name) > 1 else device.name
                                         for device in there) or "a device that has results")
        yield book, fitting[0]
    finally:
        book.close()


def is_perf(key: bytes) -> bool:
    """Whether a key is a perf-db's: its numbers are joined by x, a find-db's by hyphens."""
    return b"-" not in key
