"""The databases of a device: what Find measured and what searches found, the user's before the system's.

Both are hints.  Whatever is wrong with a file or a record, the answer is "not known" and computing goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from miopyx.device.info import DeviceInfo
from miopyx.problem import _key
from miopyx.problem._problem import ConvProblem
from miopyx.values import _learnt, config, logs, posix

from . import paths, records
from ._system_file import RecordFile
from .records import FindItem, FindRecord
from .user_file import UserFile

_opened: dict[tuple[object, ...], Databases] = {}
_lock = threading.Lock()


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()  # after a fork nobody may be left to release the old one


posix.at_fork(after_in_child=_new_lock)


def of(info: DeviceInfo) -> Databases:
    """Return the databases of a device; handles on devices of one name share them."""
    key = (info.name, info.kind, info.driver_version, config.get("MIOPEN_USER_DB_PATH"),
           config.get("MIOPEN_SYSTEM_DB_PATH"))
    known = _opened.get(key)
    if known is None:
        with _lock:
            known = _opened.get(key)
            if known is None:
                known = _opened[key] = Databases(info)
    return known


class Databases:
    """The find-db and the perf-db of one device, opened at first use.

    Attributes
    ----------
    stamp : str
        What our records carry: this build, the driver and the device.  Times under another stamp are somebody else's.
    """

    def __init__(self, info: DeviceInfo) -> None:
        self.stamp = records.clean(f"{paths.build()}/{info.driver_version}/{info.name}")
        self.user_find = _UserRecords(paths.user_file(info, "ufdb"))
        self.user_perf = _UserRecords(paths.user_file(info, "udb"))
        self.system_find = _SystemRecords(paths.system_file(info, "fdb"))
        self.system_perf = _SystemRecords(paths.system_file(info, "db"))

    # Find-db

    def find(self, problem: ConvProblem) -> tuple[FindRecord, str] | None:
        """Return the record of a problem and where it is from, "user" or "system"; the user's comes first, whole."""
        if config.get("MIOPEN_DEBUG_DISABLE_FIND_DB"):
            return None
        items = self.user_find.get(_key.find_key(problem))
        if items:
            return records.read_find(items), "user"
        items = self.system_find.lookup(problem)
        return (records.read_find(items), "system") if items else None

    def refresh(self) -> None:
        """Look what other processes wrote, before something is measured that they may know."""
        for user in (self.user_find, self.user_perf):
            if user.file is not None:
                user.file.refresh()

    def store_find(self, problem: ConvProblem, items: Iterable[FindItem], partial: bool, failed: Iterable[str],
                   known_only: bool = False) -> None:
        """Write what a Find measured into the user's database.

        What the same build measured of other solvers before is kept; a record stays whole if it was.  `known_only`
        brings a record of this build up to date but makes no new one.
        """
        if config.get("MIOPEN_DEBUG_DISABLE_FIND_DB"):
            return
        key = _key.find_key(problem)
        found = {item.solver: item for item in items}
        broken = set(failed)

        def merged(old: bytes | None) -> bytes | None:
            known, lacking, unable = found, partial, broken
            before = records.read_find(old) if old else None
            if known_only and (before is None or before.stamp != self.stamp):
                return None
            if before is not None and before.stamp == self.stamp:
                known = {item.solver: item for item in before.items} | found
                lacking = partial and before.partial
                unable = (broken | set(before.failed)) - set(known)
            ordered = sorted(known.values(), key=lambda item: item.time)
            return records.write_find(key, ordered, self.stamp, lacking, sorted(unable))

        self.user_find.update(key, merged)

    def why_unkept(self, problem: ConvProblem | None = None) -> str:
        """Return why what Find measures is not kept, or was not of a problem; "" where it is."""
        file = self.user_find.file
        if file is None:
            return "no home folder and no MIOPEN_USER_DB_PATH"
        if file.is_writable() if problem is None else file.keeps(_key.find_key(problem)):
            return ""
        return f"{file.path} cannot be written"

    # Perf-db

    def tuned(self, problem: ConvProblem) -> dict[str, str]:
        """Return the parameters' text of each solver that is tuned for a problem, the user's before the system's."""
        key = _key.perf_key(problem)
        values: dict[str, str] = {}
        for items in (self.system_perf.get(key), self.user_perf.get(key)):
            if items:
                values.update(records.read_perf(items)[0])
        return values

    def store_tuned(self, problem: ConvProblem, solver: str, text: str) -> None:
        """Write the parameters that a search found for a solver; those of other solvers stay."""
        self._change_tuned(problem, lambda values: values.update({solver: text}))

    def drop_tuned(self, problem: ConvProblem) -> None:
        """Delete what is tuned for a problem from the user's database."""
        if self.user_perf.get(_key.perf_key(problem)):
            self._change_tuned(problem, dict.clear)

    def _change_tuned(self, problem: ConvProblem, change: Callable[[dict[str, str]], None]) -> None:
        key = _key.perf_key(problem)

        def changed(old: bytes | None) -> bytes:
            values = records.read_perf(old)[0] if old else {}
            change(values)
            return records.write_perf(key, values, self.stamp)

        self.user_perf.update(key, changed)


class _UserRecords:
    """A user's file, or nothing where there is no folder for it."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.file = UserFile(path) if path is not None else None
        if path is None:
            logs.warn_once("no home", "no home folder and no MIOPEN_USER_DB_PATH: nothing that Find measures is kept",
                           function="databases")

    def get(self, key: bytes) -> bytes | None:
        return self.file.get(key) if self.file is not None else None

    def update(self, key: bytes, change: Callable[[bytes | None], bytes | None]) -> bool:
        done = self.file is not None and self.file.update(key, change)
        _learnt.learn()  # afterwards: an answer that was made meanwhile may not have it
        return done


class _SystemRecords:
    """A system file, opened when it is first asked."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._file: RecordFile | None = None

    def _open(self) -> RecordFile | None:
        if self._file is None and self.path is not None:
            with _lock:
                if self._file is None:
                    self._file = RecordFile(self.path, config.cache_dir())
        return self._file

    def get(self, key: bytes) -> bytes | None:
        file = self._open()
        return file.get(key) if file is not None else None

    def lookup(self, problem: ConvProblem) -> bytes | None:
        file = self._open()
        return file.lookup(problem) if file is not None else None


def forget() -> None:
    """Open everything anew at the next use (for tests)."""
    with _lock:
        _opened.clear()
    _learnt.learn()
