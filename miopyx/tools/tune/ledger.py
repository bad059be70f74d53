"""The ledger of tuning: what was asked, who tried what, what came out.  SQLite, one writer, versioned.

A *task* is a problem on a kind of device, searched for or not, under the stamp of a build, driver and device.  Its
result is recorded once: whoever reports it again changes nothing.  A file that cannot be used, or fails later, costs a
warning; then the ledger is kept in memory, and what was measured goes to the databases alone.  Not so where the
ledger is the only place of results, as of a fleet: there a failing file is tried for a while, and then is an error.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from miopyx.database import records
from miopyx.errors import BadParmError, UnknownError

APPLICATION = 0x6D78746C  # "mxtl", in the file's header
VERSION = 1
_BUSY_SECONDS = 10.0
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_AGAIN_SECONDS = 1.0     # between two tries of what may not be lost
_PATIENCE_SECONDS = 60.0  # and the tries together
_log = logging.getLogger("miopyx")
_T = TypeVar("_T")
# The second where a damaged file's own words stand in SQLite's message, the third where it believes a file's lengths.
_FAILURES = sqlite3.Error, UnicodeDecodeError, MemoryError

_SCHEMA = """
CREATE TABLE device (id INTEGER PRIMARY KEY, name TEXT NOT NULL, stamp TEXT NOT NULL, UNIQUE (name, stamp));
CREATE TABLE problem (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
CREATE TABLE asked (
    problem INTEGER NOT NULL REFERENCES problem, source TEXT NOT NULL, layer TEXT NOT NULL, weight REAL NOT NULL,
    UNIQUE (problem, source, layer));
CREATE TABLE task (
    id INTEGER PRIMARY KEY, problem INTEGER NOT NULL REFERENCES problem, device INTEGER NOT NULL REFERENCES device,
    search INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'open', why TEXT NOT NULL DEFAULT '',
    UNIQUE (problem, device, search));
CREATE TABLE attempt (
    id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES task, job TEXT NOT NULL, worker TEXT NOT NULL,
    at REAL NOT NULL, seconds REAL NOT NULL, outcome TEXT NOT NULL, why TEXT NOT NULL);
CREATE TABLE result (
    task INTEGER PRIMARY KEY REFERENCES task, find TEXT NOT NULL, perf TEXT, partial INTEGER NOT NULL,
    solver TEXT NOT NULL, config TEXT NOT NULL, ms REAL NOT NULL, solver_before TEXT, ms_before REAL);
CREATE TABLE measurement (task INTEGER NOT NULL REFERENCES task, line TEXT NOT NULL);
CREATE TABLE clock (
    device INTEGER NOT NULL REFERENCES device, worker TEXT NOT NULL, problem INTEGER NOT NULL REFERENCES problem,
    solver TEXT NOT NULL, at REAL NOT NULL, ms REAL NOT NULL);
CREATE INDEX measurement_task ON measurement (task);
CREATE INDEX attempt_task ON attempt (task);
"""

OPEN, DONE, FAILED = "open", "done", "failed"  # of a task


class Device(NamedTuple):
    """A kind of device as results know it."""

    name: str
    stamp: str


class Ledger:
    """One file of results, or memory.

    Parameters
    ----------
    path : Path or None
        None: in memory.
    only : bool
        Whether results are nowhere else: then a file that fails is an error instead of a warning.

    Raises
    ------
    UnknownError
        Only if `only`, from any method, too: the file cannot be used, or fails for a minute.
    """

    def __init__(self, path: Path | None, only: bool = False) -> None:
        self.path: Path | None = path
        self.only = only
        self.writes = 0
        self._ids: dict[tuple[str, ...], int] = {}
        self._db = _fresh()
        try:
            if path is not None:
                unused, self._db = self._db, _opened(path)
                unused.close()
        except (*_FAILURES, OSError, BadParmError) as e:
            if only:
                raise UnknownError(
                    f"the ledger {path}, the only place of the results, cannot be used: {_said(e)}") from None
            self._give_up(e)

    def _give_up(self, why: Exception) -> None:
        _log.warning("the ledger %s is not used: %s; results go to the databases alone", self.path, _said(why))
        self.close()
        self.path, self._db, self._ids = None, _fresh(), {}

    def _write(self, work: Callable[[], _T]) -> _T:
        """Do something in one transaction; where the file fails it is done again in memory, where all goes on."""
        def transaction() -> _T:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                return work()

        done = self._try(transaction)
        self.writes += 1
        return done

    def _try(self, work: Callable[[], _T]) -> _T:
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return work()
            except _FAILURES as e:
                self._ids.clear()  # some may have been rolled back
                if not self.only:
                    self._give_up(e)
                    return work()
                if time.monotonic() >= until:
                    raise UnknownError(
                        f"the ledger {self.path}, the only place of the results, fails: {_said(e)}") from None
                _log.warning("the ledger %s fails: %s; it is tried again", self.path, _said(e))
            time.sleep(_AGAIN_SECONDS)

    def _id(self, table: str, **columns: str) -> int:
        known = (table, *columns.values())
        if known not in self._ids:
            names, marks = ", ".join(columns), ", ".join("?" * len(columns))
            self._db.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", [*columns.values()])
            where = " AND ".join(f"{name} = ?" for name in columns)
            row = self._db.execute(f"SELECT id FROM {table} WHERE {where}", [*columns.values()]).fetchone()
            self._ids[known] = int(row[0])
        return self._ids[known]

    def _task(self, device: Device, key: str, search: bool) -> int:
        problem, kind = self._id("problem", key=key), self._id("device", name=device.name, stamp=device.stamp)
        row = (problem, kind, int(search))
        self._db.execute("INSERT OR IGNORE INTO task (problem, device, search) VALUES (?, ?, ?)", row)
        found = self._db.execute("SELECT id FROM task WHERE problem = ? AND device = ? AND search = ?", row).fetchone()
        return int(found[0])

    # Writing

    def asked(self, rows: Iterable[tuple[str, str, str, float]]) -> None:
        """Note who asks for what: (key, source, layer, weight); the same again replaces the weight."""
        rows = [(key, _storable(source), _storable(layer), weight) for key, source, layer, weight in rows]

        def work() -> None:
            self._db.executemany(
                "INSERT INTO asked VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET weight = excluded.weight",
                [(self._id("problem", key=key), source, layer, weight) for key, source, layer, weight in rows])

        self._write(work)

    def open(self, device: Device, keys: Iterable[str], search: bool) -> None:
        """Note tasks that are to be done; those that are there stay as they are."""
        keys = list(keys)
        self._write(lambda: [self._task(device, key, search) for key in keys])

    def attempt(self, device: Device, key: str, search: bool, job: str, worker: str, seconds: float, outcome: str,
                why: str = "") -> None:
        """Note that somebody tried something: outcome "done", "failed", "died" or "lost"."""
        self._write(lambda: self._attempt(self._task(device, key, search), job, worker, seconds, outcome, why))

    def _attempt(self, task: int, job: str, worker: str, seconds: float, outcome: str, why: str) -> None:
        self._db.execute("INSERT INTO attempt (task, job, worker, at, seconds, outcome, why) "
                         "VALUES (?, ?, ?, ?, ?, ?, ?)",
                         (task, job, _storable(worker), time.time(), seconds, outcome, _storable(why)))

    def record(self, key: str, search: bool, result: dict[str, Any], worker: str = "", seconds: float = 0.0) -> bool:
        """Keep the result of a measurement, unless its task has one, and who measured; return whether it was new.

        A partial one, which a budget cut short or a solver that failed, stands in until a whole one comes, or another
        with as many solvers, and its task stays open.
        """
        return self.record_all([(key, result, worker, seconds)], search)[0]

    def record_all(self, rows: Iterable[tuple[str, dict[str, Any], str, float]], search: bool) -> list[bool]:
        """Do what `record` does for some (key, result, worker, seconds): the disk is waited for once."""
        rows = list(rows)
        return self._write(lambda: [self._record(*row, search) for row in rows]) if rows else []

    def _record(self, key: str, result: dict[str, Any], worker: str, seconds: float, search: bool) -> bool:
        db = self._db
        task = self._task(Device(result["device"], result["stamp"]), key, search)
        self._attempt(task, "measure", worker, seconds, "done", "")
        before, after = result["before"] or {}, result["after"]
        old = db.execute("SELECT find, partial, state FROM result JOIN task ON id = task WHERE task = ?",
                         (task,)).fetchone()
        if old is not None and not _replaces(result, *old):
            return False
        db.execute("DELETE FROM measurement WHERE task = ?", (task,))
        db.execute(
            "INSERT OR REPLACE INTO result VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (task, result["find"], result["perf"], int(result["partial"]), after["solver"], after["config"],
             after["ms"], before.get("solver"), before.get("ms")))
        db.executemany("INSERT INTO measurement VALUES (?, ?)",
                       [(task, json.dumps(line)) for line in result["times"]])
        if not result["partial"]:
            db.execute("UPDATE task SET state = ?, why = '' WHERE id = ?", (DONE, task))
        return True

    def fail(self, device: Device, key: str, search: bool, why: str) -> None:
        """Note that a task is not tried again, and why."""
        self._write(lambda: self._db.execute(
            "UPDATE task SET state = ?, why = ? WHERE id = ? AND state = ?",
            (FAILED, _storable(why), self._task(device, key, search), OPEN)))

    def clock(self, device: Device, key: str, solver: str, times: dict[str, float]) -> None:
        """Note how long the same took on each of some devices of a kind, by worker."""
        def work() -> None:
            kind, problem = self._id("device", name=device.name, stamp=device.stamp), self._id("problem", key=key)
            self._db.executemany(
                "INSERT INTO clock VALUES (?, ?, ?, ?, ?, ?)",
                [(kind, _storable(worker), problem, solver, time.time(), ms) for worker, ms in times.items()])

        self._write(work)

    def again(self, device: Device, keys: Iterable[str], search: bool) -> None:
        """Open what of a device is done again: results stand in until new whole ones come."""
        self._reopen(DONE, device, keys, search)

    def retry(self, device: Device, keys: Iterable[str], search: bool) -> None:
        """Open what failed on a device again."""
        self._reopen(FAILED, device, keys, search)

    def _reopen(self, state: str, device: Device, keys: Iterable[str], search: bool) -> None:
        rows = [(OPEN, state, int(search), key, *device) for key in keys]
        self._write(lambda: self._db.executemany(
            "UPDATE task SET state = ?, why = '' WHERE state = ? AND search = ? AND problem = (SELECT id FROM problem "
            "WHERE key = ?) AND device = (SELECT id FROM device WHERE name = ? AND stamp = ?)", rows))

    # Reading

    def states(self, device: Device, search: bool) -> dict[str, tuple[str, str]]:
        """Return the state of each problem's task on a device, and why it failed."""
        return {key: (state, why) for key, state, why in self._rows(
            "SELECT key, state, why FROM task JOIN problem ON problem.id = problem JOIN device ON device.id = device "
            "WHERE name = ? AND stamp = ? AND search = ?", (*device, int(search)))}

    def devices(self) -> list[tuple[Device, int]]:
        """Return the kinds of devices that have results, and how many."""
        return [(Device(name, stamp), count) for name, stamp, count in self._rows(
            "SELECT name, stamp, count(*) FROM result JOIN task ON task.id = task JOIN device ON device.id = device "
            "GROUP BY device.id ORDER BY name, stamp")]

    def counts(self) -> dict[str, int]:
        """Return how many rows each table has."""
        return {table: int(self._rows(f"SELECT count(*) FROM {table}")[0][0])
                for table in ("device", "problem", "asked", "task", "attempt", "result", "measurement")}

    def asked_layers(self) -> set[tuple[str, str, str]]:
        """Return what was asked for: keys, sources, layers."""
        return {(key, source, layer) for key, source, layer in self._rows(
            "SELECT key, source, layer FROM asked JOIN problem ON problem.id = asked.problem")}

    def layers(self, device: Device) -> list[tuple[str, str, str, str, float, str, float, float | None]]:
        """Return a row a layer of a device: key, device, source, layer, weight, solver, milliseconds after and before.

        Of a problem's two tasks a whole one counts, and of two the one with a search; one that nobody asked for goes by
        its key.
        """
        rows = self._rows(
            "SELECT key, device.name, COALESCE(source, ''), COALESCE(layer, key), COALESCE(weight, 1.0), solver, ms, "
            "ms_before FROM result JOIN task ON task.id = task JOIN problem ON problem.id = task.problem "
            "JOIN device ON device.id = device LEFT JOIN asked ON asked.problem = problem.id "
            "WHERE device.name = ? AND device.stamp = ? ORDER BY key, source, layer, partial DESC, "
            "search", device)
        return list({row[:4]: tuple(row) for row in rows}.values())

    def find_lines(self, device: Device) -> list[bytes]:
        """Return the find-db records of a device, sorted; of a problem's two tasks a whole one, or the one searched."""
        return [line for _, line in sorted(dict(self._lines("find", device, "partial DESC, search")).items())]

    def perf_lines(self, device: Device) -> list[bytes]:
        """Return the perf-db records of a device, sorted, tasks and problems of one key joined."""
        joined: dict[bytes, tuple[dict[str, str], str]] = {}
        for _, line in self._lines("perf", device, "search, key"):
            key, items = records.split(line)
            values, stamp, _ = records.read_perf(items)
            joined[key] = ({**joined[key][0], **values} if key in joined else values, stamp)
        return [records.write_perf(key, dict(sorted(values.items())), stamp)
                for key, (values, stamp) in sorted(joined.items())]

    def _lines(self, column: str, device: Device, order: str) -> list[tuple[str, bytes]]:
        rows = self._rows(
            f"SELECT key, {column} FROM result JOIN task ON task.id = task JOIN problem ON problem.id = problem "
            f"JOIN device ON device.id = device WHERE name = ? AND stamp = ? AND {column} IS NOT NULL "
            f"ORDER BY {order}", tuple(device))
        return [(key, line.encode()) for key, line in rows]

    def measurements(self, device: Device) -> list[str]:
        """Return the JSON lines of a device's measurements, by problem."""
        return [line for (line,) in self._rows(
            "SELECT line FROM measurement JOIN task ON task.id = task JOIN problem ON problem.id = problem "
            "JOIN device ON device.id = device WHERE name = ? AND stamp = ? ORDER BY key, search, measurement.rowid",
            tuple(device))]

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        return self._try(lambda: self._db.execute(query, values).fetchall())

    def close(self) -> None:
        """Close the file; nothing is pending at any time."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()


def _replaces(result: dict[str, Any], find: str, partial: int, state: str) -> bool:
    """Whether a result takes the place of the one, with find-db record `find`, that a task in some state has.

    A whole one of a task that is not done was opened to be measured again.
    """
    if not result["partial"]:
        return state != DONE or bool(partial)
    return bool(partial) and find != result["find"] and _solvers(result["find"]) >= _solvers(find)


def _solvers(find: str) -> int:
    return len(records.read_find(records.split(find.encode())[1]).items)


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _storable(text: str) -> str:
    """Return a text that UTF-8 can hold: names of files need not be any."""
    return text.encode(errors="backslashreplace").decode()


def existing(path: Path) -> Ledger:
    """Return the ledger in a file that is there; where nothing can be written, it can be read all the same.

    Raises
    ------
    BadParmError
        Where there is none, or it is no ledger of this version.
    """
    if not path.is_file():
        raise BadParmError("no such file", "LEDGER", str(path), "a ledger of miopyx tune")
    try:
        writable = all(os.access(place, os.W_OK, effective_ids=True) for place in (path, path.absolute().parent))
        db = _opened(path) if writable else _opened_to_read(path)
    except (*_FAILURES, OSError) as e:
        raise BadParmError(f"cannot be read: {_said(e)}", "LEDGER", str(path), "a ledger of miopyx tune") from None
    ledger = Ledger(None)
    ledger.close()
    ledger.path, ledger._db = path, db
    return ledger


def _opened(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _checked(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None), path)


def _opened_to_read(path: Path) -> sqlite3.Connection:
    """Open a file that we cannot write; what a -wal file beside it has is not passed over in silence."""
    log = path.with_name(path.name + "-wal")
    # SQLite would make files beside it, which it cannot or which shut the owner out, unless told that nobody writes.
    immutable = "" if log.exists() and log.stat().st_size else "&immutable=1"
    address = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro{immutable}"
    return _checked(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None), path, False)


def _checked(db: sqlite3.Connection, path: Path, writable: bool = True) -> sqlite3.Connection:
    """Return a database that is a ledger, made now if it is empty; close and raise where it is none."""
    try:
        with db:
            db.execute("BEGIN")  # one look at it all, while another process may make it
            application, version = (db.execute(f"PRAGMA {name}").fetchone()[0]
                                    for name in ("application_id", "user_version"))
            empty = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if not empty and application != APPLICATION:
            raise BadParmError("a database of something else", "LEDGER", str(path), "a ledger of miopyx tune")
        if not empty and version != VERSION:
            raise BadParmError("version of a ledger", "LEDGER", version, str(VERSION))
        if writable:
            _use_wal(db)
            db.execute("PRAGMA synchronous = FULL")  # WAL alone may lose what was written last when the power fails
        if empty:
            _make(db)
        elif db.execute("PRAGMA quick_check").fetchone()[0] != "ok" or not _is_sound(db):
            raise BadParmError("damaged", "LEDGER", str(path), "a ledger of miopyx tune")
    except BaseException:
        db.close()
        raise
    return db


def _is_sound(db: sqlite3.Connection) -> bool:
    """Whether a file has our tables, nothing that runs by itself, and in each column what belongs there."""
    with contextlib.closing(_fresh()) as fresh:
        ours = _statements(fresh)
        columns = [(table, name, kind, required) for table, _ in ours for _, name, kind, required, _, _ in
                   fresh.execute(f"PRAGMA table_info({table})")]
    if _statements(db) != ours:
        return False
    return not any(db.execute(f"SELECT 1 FROM {table} WHERE typeof({name}) NOT IN ('{kind.lower()}'"
                              f"{'' if required else ', ' + repr('null')}) LIMIT 1").fetchone()
                   for table, name, kind, required in columns)


def _statements(db: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return the names and statements that a file's tables and indexes were made by."""
    return db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()


def _use_wal(db: sqlite3.Connection) -> None:
    """Change to WAL; SQLite itself does not wait here for others who do the same."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() >= until:
                raise
            time.sleep(0.01)
        else:
            return


def _fresh() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    _make(db)
    return db


def _make(db: sqlite3.Connection) -> None:
    with db:
        db.execute("BEGIN IMMEDIATE")
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return  # another process was first
        for statement in _SCHEMA.split(";"):  # a script would commit first
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION}")
