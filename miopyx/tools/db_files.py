"""Database files as `miopyx db` reads them: lines, and of several files the line that counts for each key."""

from __future__ import annotations

import bz2
import errno
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from miopyx.database import records
from miopyx.database.records import Kind

_SQLITE = b"SQLite format 3\0"


def raw_lines(path: Path, flaws: Counter[str] | None = None) -> Iterator[bytes]:
    """Yield a file's lines without their ends, blank ones left out; a .bz2 that is cut short is counted in `flaws`."""
    if not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file" if path.exists() else "no such file", str(path))
    with bz2.open(path) if path.suffix == ".bz2" else path.open("rb") as file:
        try:
            for line in file:
                line = line.rstrip(b"\r\n")
                if line:
                    yield line
        except EOFError:
            if flaws is not None:
                flaws["cut short"] += 1
        except OSError as e:
            raise OSError(e.errno or errno.EINVAL, str(e), str(path)) from None


def winners(paths: list[Path]) -> tuple[dict[bytes, bytes], Counter[str]]:
    """Return the line that counts for each key of some files, in order, and what was left out by reason."""
    chosen: dict[bytes, tuple[bytes, Kind]] = {}
    left: Counter[str] = Counter()
    for path in paths:
        for line in raw_lines(path, left):
            kind = records.classify(line)
            if kind in (Kind.DAMAGED, Kind.MALFORMED):
                left[f"{kind.value} lines"] += 1
                continue
            key, items = records.split(line)
            if kind is Kind.FOREIGN and not records.says_something(items):
                left["lines without items"] += 1
                continue
            if key in chosen:
                left["lines of a key that stands elsewhere"] += 1
            if key not in chosen or kind is Kind.OURS:
                chosen[key] = (line, kind)
    return {key: line for key, (line, _) in chosen.items() if records.says_something(records.split(line)[1])}, left


def is_ledger(path: Path) -> bool:
    """Whether a file is one of SQLite's, as ledgers of `miopyx tune` are."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def is_perf(key: bytes) -> bool:
    """Whether a key is a perf-db's: its numbers are joined by x, a find-db's by hyphens."""
    return b"-" not in key
