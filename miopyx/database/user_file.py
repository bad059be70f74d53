"""The user's database file: small, appended to, shared with other processes, and never trusted.

A file is read into memory.  A look-up that finds its key makes no system call; one that does not makes one `stat`
and, if the file changed, reads what is new.  Nobody locks to read: only lines that are whole count, and lines of ours
carry a checksum (see `records`).

Writers take turns: a mutex among the threads of a process, and flock on a file of its own beside the data, which is
never deleted, among processes.  A record is added with a single write at the end, so that a process that is killed
leaves at worst a last line without its end, which the next writer cuts off.  Once lines that count for nothing outweigh
the rest, the writer puts a new file in the old one's place: whole on the disk before it gets the name.  Appending does
not wait for the disk; after a power failure some of the last records may be missing, and none is wrong.

No trouble with the file is an error: a warning is logged, once a file, and what could not be stored is remembered for
the rest of the process.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import random
import re
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from miopyx.errors import InvalidValueError
from miopyx.values import _learnt, posix

from . import records
from .records import Kind

LOCK_SECONDS = 60.0      # the longest wait for other writers
COMPACT_BYTES = 16384    # smaller files are left as they are
MOST_BYTES = 1 << 28     # a larger file is none of ours, and memory is dear
_MARK_BYTES = 4096       # of what was read last, by which a file that only grew is known
_REMOVED = b"@removed"   # the items of a line that takes a record back
_MARKS = len(b"=\n")                      # what a line has beside its key and items
_OUR_MARKS = len(b"=\n") + records.SEAL

_Status = tuple[int, int, int, int]  # device, inode, size, mtime in ns
_NEVER: _Status = (-1, -1, -1, -1)
_IN_FILE = b"(in the file)"  # told from all that is remembered by its identity

_mutexes: dict[str, threading.Lock] = {}
_lock_files: set[int] = set()  # descriptors of the lock files that are open now
_opening = threading.RLock()   # held while one is opened, and during a fork
_warned: set[str] = set()


class UserFile:
    """One user's file of records.  Threads may share it."""

    def __init__(self, path: Path) -> None:
        self._fd = -1  # kept open, so that the inode's number cannot become another file's
        self.path = Path(os.path.abspath(path))
        self._name = str(self.path)
        self._contents = _Contents()
        self._unsaved: dict[bytes, bytes | None] = {}  # what could not be stored; None: removed
        self._reading = threading.Lock()  # guards all that follows, and is only held while the data file is used
        self._inode: tuple[int, int] | None = None  # of the open file, with its device
        self._writable = False
        self._seen: _Status | None = _NEVER  # the file as it was last read; None: there was none
        self._end = 0        # of the last whole line read
        self._mark = b""     # what stands before the end
        self._tail = b""     # what stands behind it
        self._swept = False
        self._compact_at = 0    # size below which no compaction is tried: one failed
        self._patience = True   # False: the last wait for the lock was in vain, so wait no more
        _files.add(self)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    @property
    def skipped(self) -> Counter[str]:
        """How many lines of the file as it was last read count for nothing, by reason."""
        return self._contents.skipped

    def get(self, key: bytes) -> bytes | None:
        """Return the items of a record, without its seal, or None where there is none."""
        if self._unsaved:
            unsaved = self._unsaved.get(key, _IN_FILE)
            if unsaved is not _IN_FILE:
                return unsaved
        items = self._contents.items.get(key)
        if items is None and _status(self._name) != self._seen:
            self.refresh()
            items = self._contents.items.get(key)
        return items

    def as_dict(self) -> dict[bytes, bytes]:
        """Return all records as they are now: key and items without seal."""
        if _status(self._name) != self._seen:
            self.refresh()
        found: dict[bytes, bytes | None] = {**self._contents.items, **self._unsaved}
        return {key: items for key, items in found.items() if items is not None}

    def update(self, key: bytes, change: Callable[[bytes | None], bytes | None]) -> bool:
        """Replace a record by what `change` makes of the items stored now (None if there is none).

        `change` returns a sealed line as `records` writes it, or None to leave things as they are.  It runs under the
        file's lock and must not write to the same file.  False: the file could not be used; `get` returns the new items
        all the same for the rest of this process.
        """
        if not key or b"=" in key or b"\n" in key:
            raise InvalidValueError("no key of a record", "key", key, "some bytes without = and line end")
        with self._locked() as lock:
            line = change(self._contents.items.get(key) if lock >= 0 else self.get(key))
            if line is None:
                return lock >= 0
            items = _items_of(key, line)
            # After a fork inside of `change` the child has the lock no more.
            if lock in _lock_files and self._append(key, items, line):
                self._unsaved.pop(key, None)
                self._compact_if_due()
                return True
            self._unsaved[key] = items if records.says_something(items) else None
            return False

    def is_writable(self) -> bool:
        """Whether records can be added; makes the file and its folder where there are none."""
        with self._locked() as lock:
            return lock >= 0

    def keeps(self, key: bytes) -> bool:
        """Whether the file has all that this process stored under a key."""
        return key not in self._unsaved

    def remove(self, key: bytes) -> bool:
        """Take a record back.  True if the file holds none of that key now."""
        gone = records.seal(key + b"=" + _REMOVED)
        return self.update(key, lambda items: None if items is None and key not in self._unsaved else gone)

    def compact(self) -> bool:
        """Leave one line a key and nothing else.  True if the file is so now, or there is none."""
        if _status(self._name) is None:
            return True
        with self._locked() as lock:
            if lock < 0:
                return False
            assert self._seen is not None
            return self._contents.live == self._seen[2] or self._rewrite()

    # Reading

    def refresh(self) -> None:
        """Read the file if it changed, with one `stat` where it did not."""
        with self._reading:
            status = _status(self._name)
            if status == self._seen:
                return
            try:
                if status is None:
                    self._start_over(None)
                    return
                if self._inode != status[:2]:
                    self._open(os.O_RDONLY)
                self._read()
            except FileNotFoundError:
                self._start_over(None)
            except OSError as e:
                self._start_over(status)
                self._warn("read", e)

    def _refresh_to_write(self) -> None:
        """Read the file if it changed, and open it for writing; the caller holds the locks."""
        with self._reading:
            status = _status(self._name)
            if not self._writable or status is None or self._inode != status[:2]:
                self._open(os.O_RDWR | os.O_APPEND | os.O_CREAT)
            self._read()

    def _open(self, flags: int) -> None:
        new = posix.open_plain(self._name, flags, follow=False)
        inode = _status_of(os.fstat(new))[:2]
        # In this order a fork in between leaves the child an open file more, not a wrong descriptor.
        old, self._fd = self._fd, new
        if inode != self._inode:
            self._inode, self._seen = inode, _NEVER
        self._writable = bool(flags & os.O_RDWR)
        if old >= 0:
            os.close(old)

    def _start_over(self, status: _Status | None) -> None:
        """Hold nothing, as of a file that is not there or cannot be read."""
        self._contents = _Contents()
        self._end, self._mark, self._tail, self._seen = 0, b"", b"", status
        self._writable = False
        _learnt.learn()

    def _read(self, whole: bool = False) -> None:
        """Read the open file: new lines alone if it grew and ends where it did, else all of it."""
        status = _status_of(os.fstat(self._fd))  # first, so that what is written meanwhile is noticed next time
        size, seen = status[2], self._seen
        if size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"{size} bytes, more than a database of records has", self._name)
        if not whole and seen is not None and status[:2] == seen[:2]:
            if status == seen:
                return
            if size > seen[2]:
                start = self._end - len(self._mark)
                data = _read_from(self._fd, start, size)
                if data.startswith(self._mark):
                    self._take(self._contents, data, start, len(self._mark))
                    self._seen = status
                    return
        contents = _Contents()
        self._take(contents, _read_from(self._fd, 0, size), 0, 0)
        self._contents, self._seen = contents, status

    def _take(self, contents: _Contents, data: bytes, start: int, known: int) -> None:
        """Add the lines of `data`, which stands at `start` of the file, behind its first `known` bytes."""
        end = data.rfind(b"\n") + 1
        for line in data[known:end].split(b"\n"):
            if line:
                contents.add(line)
        self._end, self._mark, self._tail = start + end, data[max(0, end - _MARK_BYTES):end], data[end:]
        if _is_whole(self._tail):
            contents.add(self._tail)
        _learnt.learn()

    # Writing

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Hold the file's locks, its newest content read.  Gives the lock's descriptor, -1 if the file is unusable."""
        deadline = time.monotonic() + (LOCK_SECONDS if self._patience else 0)
        mutex = _mutexes.setdefault(self._name, threading.Lock())
        mine, lock, usable = False, -1, False
        try:
            try:
                mine = mutex.acquire(timeout=max(0, deadline - time.monotonic()))
                if not mine:
                    raise TimeoutError(errno.ETIMEDOUT, "another thread has been writing for too long")
                lock = self._lock_file(deadline)
                self._patience = True
                self._sweep()
                self._refresh_to_write()
                usable = True
            except OSError as e:
                self._patience = self._patience and not isinstance(e, TimeoutError)
                self._warn("write to", e)
            yield lock if usable else -1
        finally:
            _unlock(lock)
            if mine:
                mutex.release()

    def _lock_file(self, deadline: float) -> int:
        """Return the descriptor of the lock file, locked, and really the one that has the name."""
        name, delay = self._name + ".lock", 1e-4
        while True:
            with _opening:
                try:
                    lock = posix.open_plain(name, os.O_RDWR | os.O_CREAT, follow=False)
                except FileNotFoundError:
                    self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    lock = posix.open_plain(name, os.O_RDWR | os.O_CREAT, follow=False)
                _lock_files.add(lock)
            try:
                with contextlib.suppress(BlockingIOError):
                    posix.lock(lock, wait=False)
                    status = _status(name)
                    if status is not None and status[:2] == _status_of(os.fstat(lock))[:2]:
                        return lock
            except BaseException:
                _unlock(lock)
                raise
            _unlock(lock)
            if time.monotonic() >= deadline:
                raise TimeoutError(errno.ETIMEDOUT, "another process has been writing for too long", name)
            # flock cannot be told how long to wait; waits of random lengths keep many writers apart.
            time.sleep(random.uniform(delay / 2, delay))
            delay = min(2 * delay, 0.01)

    def _append(self, key: bytes, items: bytes, line: bytes) -> bool:
        """Add a line; the caller holds the locks and has read the file.  False if that failed."""
        if items == self._contents.items.get(key):
            return True
        with self._reading:
            # From here on the file is not what was seen, whatever happens.
            self._seen, length = _NEVER, self._end + len(self._tail)
            try:
                if not self._writable:
                    raise OSError(errno.EBUSY, "somebody writes who does not lock", self._name)
                if _is_whole(self._tail):
                    line = b"\n" + line
                elif self._tail:
                    os.ftruncate(self._fd, self._end)
                    self._tail, length = b"", self._end
                if os.write(self._fd, line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._name)
            except OSError as e:
                with contextlib.suppress(OSError):
                    if os.fstat(self._fd).st_size > length:
                        os.ftruncate(self._fd, length)
                self._warn("write to", e)
                return False
            status = _status_of(os.fstat(self._fd))
            if status[2] == length + len(line):  # else somebody wrote who does not lock
                self._mark = (self._mark + self._tail + line)[-_MARK_BYTES:]
                self._end, self._tail, self._seen = status[2], b"", status
            self._contents.put(key, items)
            return True

    def _compact_if_due(self) -> None:
        size = self._end
        if size > max(COMPACT_BYTES, self._compact_at) and 2 * self._contents.live < size and not self._rewrite():
            self._compact_at = 2 * size

    def _rewrite(self) -> bool:
        """Put a file in place of this one that holds what counts; the caller holds the locks."""
        temporary = os.path.join(self.path.parent, f".{self.path.name}.{os.urandom(8).hex()}.tmp")
        with self._reading:
            try:
                self._read(whole=True)
                old = os.fstat(self._fd)
                new = posix.create(temporary, os.O_WRONLY, 0o600)
                try:
                    with os.fdopen(new, "wb") as file:
                        posix.keep_owner(new, old)
                        file.write(self._contents.text())
                        file.flush()
                        os.fsync(new)
                    if _status(self._name) != self._seen:
                        raise OSError(errno.EBUSY, "somebody writes who does not lock", self._name)
                    os.rename(temporary, self._name)
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(temporary)
                    raise
                with contextlib.suppress(OSError):
                    posix.sync_folder(self.path.parent)
                self._open(os.O_RDWR | os.O_APPEND)
                self._read()
            except OSError as e:
                self._warn("compact", e)
                return False
            return True

    def _sweep(self) -> None:
        """Delete what compactions that were killed left behind; the caller holds the locks."""
        if self._swept:
            return
        self._swept = True
        left = re.compile(re.escape(f".{self.path.name}.") + r"[0-9a-f]{16}\.tmp")
        with contextlib.suppress(OSError), os.scandir(self.path.parent) as entries:
            for entry in entries:
                if left.fullmatch(entry.name):
                    os.unlink(entry.path)

    def _warn(self, what: str, error: OSError) -> None:
        folder = os.path.dirname(self._name)
        if folder not in _warned:  # what is wrong with one of its files is mostly the folder
            _warned.add(folder)
            logging.getLogger("miopyx").warning(
                "cannot %s the user database %s (%s): what is not stored holds for this process alone",
                what, self._name, error.strerror or error, extra={"function": "userfile"})

    def _after_fork(self) -> None:
        """Be ready in a child: the thread that held the mutex, perhaps in the middle of reading, is not there."""
        self._reading = threading.Lock()
        self._seen, self._inode = _NEVER, None


class _Contents:
    """What the lines of a file say: ours before foreign ones, the last of ours, the first of foreign ones."""

    def __init__(self) -> None:
        self.items: dict[bytes, bytes] = {}
        self.sealed: set[bytes] = set()  # keys that a line of ours decides, removed records among them
        self.skipped: Counter[str] = Counter()
        self.live = 0  # bytes of the lines that count

    def add(self, line: bytes) -> None:
        """Count in a line without its end."""
        line = _bare(line)
        kind = records.classify(line)
        if kind is Kind.OURS:
            key, _, items = line[:-records.SEAL].partition(b"=")
            self.put(key, items)
        elif kind is Kind.FOREIGN:
            key, _, items = line.partition(b"=")
            if not records.says_something(items):
                self.skipped["no items"] += 1
            elif key not in self.sealed and key not in self.items:
                self.items[key] = items
                self.live += len(line) + 1
        else:
            self.skipped[kind.value] += 1

    def put(self, key: bytes, items: bytes) -> None:
        """Count in a line of ours.  Other threads may look meanwhile: a record is replaced in one step."""
        old = self.items.get(key)
        if old is not None:
            self.live -= len(key) + len(old) + (_OUR_MARKS if key in self.sealed else _MARKS)
        self.sealed.add(key)
        if records.says_something(items):
            self.items[key] = items
            self.live += len(key) + len(items) + _OUR_MARKS
        elif old is not None:
            del self.items[key]

    def text(self) -> bytes:
        """Return one line for each record."""
        return b"".join(self._line(key, items) for key, items in self.items.items())

    def _line(self, key: bytes, items: bytes) -> bytes:
        body = key + b"=" + items
        return records.seal(body) if key in self.sealed else body + b"\n"


_files: weakref.WeakSet[UserFile] = weakref.WeakSet()


def _items_of(key: bytes, line: bytes) -> bytes:
    """Return the items of a line that is to be stored, after a look at it."""
    found, items = records.split(line)
    whole = line.endswith(b"\n") and line.count(b"\n") == 1 and records.classify(line[:-1]) is Kind.OURS
    # Without a stamp in front, a part of the line could pass for somebody else's record.
    if not whole or found != key or not items.startswith(b"@"):
        raise InvalidValueError("no record of this key", "line", line, "one line with stamp and seal")
    return items


def _is_whole(tail: bytes) -> bool:
    """True for a record of ours of which nothing but the line end is missing."""
    return bool(tail) and records.classify(_bare(tail)) is Kind.OURS


def _bare(line: bytes) -> bytes:
    return line.rstrip(b"\r")


def _status_of(status: os.stat_result) -> _Status:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _status(name: str) -> _Status | None:
    try:
        return _status_of(os.lstat(name))
    except OSError:
        return None


def _read_from(descriptor: int, start: int, end: int) -> bytes:
    parts = []
    while start < end and (part := posix.read_at(descriptor, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _unlock(lock: int) -> None:
    """Give a lock back, unless a fork took it from us."""
    if lock in _lock_files:
        # Closing alone would not free it while a child has a copy of the descriptor.
        with contextlib.suppress(OSError):
            posix.unlock(lock)
        _lock_files.discard(lock)
        os.close(lock)


def _after_fork_in_child() -> None:
    global _opening
    # Closed, not unlocked: the lock is the parent's, and must end with it.
    for lock in _lock_files:
        os.close(lock)
    _lock_files.clear()
    _mutexes.clear()
    _opening = threading.RLock()
    for file in _files:
        file._after_fork()


# A fork waits while a lock file is being opened, so that the child knows of every one.
posix.at_fork(before=lambda: _opening.acquire(), after_in_parent=lambda: _opening.release(),
              after_in_child=_after_fork_in_child)
