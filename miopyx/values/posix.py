"""What Python code asks of POSIX and of Linux: processors, plain files, locks of files, owners, forks, child processes.

Another system brings another such module.  What C code asks stands in `host/pool.c` (threads and their cores),
`_lock.pxd` (a lock that waits for a time), `database/_system_file.pyx` (files in memory) and where libraries are looked
for that are loaded already (`runtime/_opencl.pyx`, `torch/`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any


def processors() -> set[int]:
    """Return the processors that this process may run on."""
    return os.sched_getaffinity(0)


def machine() -> str:
    """Return the name of the processors' kind, x86_64 say."""
    return os.uname().machine


def memory() -> int:
    """Return this machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# Files


APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def open_plain(path: str | bytes | Path, flags: int = os.O_RDONLY, *, follow: bool = True) -> int:
    """Open a plain file and return its descriptor: no pipe's other end is waited for, no other program gets it.

    Raises
    ------
    OSError
        For what is no plain file, a pipe say, and for a link that is not to be followed.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
                             | (0 if follow else os.O_NOFOLLOW), 0o600)
    except OSError as e:
        if e.errno == errno.ELOOP and not follow:
            raise OSError(errno.ELOOP, "a symbolic link, which is not followed", os.fsdecode(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a plain file", os.fsdecode(path))
    return descriptor


def create(path: str | Path, flags: int, mode: int) -> int:
    """Create a file that is not there, and return its descriptor."""
    return os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


read_at = os.pread  # of a descriptor, so many bytes from an offset on
read_into = os.preadv  # of a descriptor, buffers, from an offset on


def sync_folder(folder: str | Path) -> None:
    """Let names that were made or changed in a folder outlive a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_ours(status: os.stat_result) -> bool:
    return status.st_uid == os.getuid()


def others_write(status: os.stat_result) -> bool:
    """Whether the group or anybody may write to it."""
    return status.st_mode & 0o022 != 0


def keep_owner(descriptor: int, of: os.stat_result) -> None:
    """Give a file the owner and mode of another."""
    own = os.fstat(descriptor)
    if (of.st_uid, of.st_gid) != (own.st_uid, own.st_gid):
        os.fchown(descriptor, of.st_uid, of.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(of.st_mode))


def let_all_write(descriptor: int) -> None:
    """Let anybody read and write a file, whatever this process's mask says."""
    os.fchmod(descriptor, 0o666)


def lock(descriptor: int, *, wait: bool = True) -> None:
    """Lock a file against other processes; BlockingIOError where another has it and nobody is to wait."""
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def unlock(descriptor: int) -> None:
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_UN)


# Processes


at_fork = os.register_at_fork
GROUP: dict[str, Any] = {"start_new_session": True}  # of subprocess.Popen: a child that leads what it starts


def end_group(pid: int) -> None:
    """Kill a child that was started with GROUP, and what it started."""
    import signal

    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def how_ended(code: int) -> str:
    """Return how a child ended whose return code is `code`: its exit code, or the signal that killed it."""
    import signal

    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def when_told_to_end(do: Callable[[], object]) -> None:
    """Call a function on SIGTERM; only from the main thread."""
    import signal

    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, lambda *_: do())
