"""Messages on stderr in MIOpen's format, and warnings that appear once.

Modules log through the standard logger "miopyx".  A handler of ours prints what MIOPEN_LOG_LEVEL lets through, by
default warnings and what is worse.  Who configures Python's logging himself, and does not set MIOPEN_LOG_LEVEL, gets
the messages through his own handlers and nothing from ours.  Nothing here raises: a log must not change a result.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Hashable, Iterable
from typing import Any

from miopyx.errors import InvalidValueError

from . import config, posix

INFO2 = logging.DEBUG
TRACE = 5

logger = logging.getLogger("miopyx")

# Levels that Python's logging has no name for are those between its own.
_NAMES = ((logging.CRITICAL, "Fatal"), (logging.ERROR, "Error"), (logging.WARNING, "Warning"), (logging.INFO, "Info"),
          (INFO2, "Info2"))
# What MIOPEN_LOG_LEVEL's numbers let through, from this severity on; 1 is none.
_LIMITS = (logging.WARNING, logging.CRITICAL + 1, logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, INFO2,
           TRACE)
# The logger's own level: all pass to `_passes`, which looks at MIOPEN_LOG_LEVEL when there is a message, not before.
_OPEN = 1

_lock = threading.RLock()
_reported: set[Hashable] = set()
_last: float | None = None  # when the message before was printed


def setting(name: str) -> Any:
    """Return a variable's value; a text that does not parse is reported and counts as not set."""
    try:
        return config.get(name)
    except InvalidValueError as e:
        if _is_first(("environment", name)):
            # Most are read while a message is handled, and some Pythons (3.13.5) drop what is logged meanwhile.
            record = logger.makeRecord(logger.name, logging.WARNING, __file__, 0, "%s; it counts as not set", (e,),
                                       None, "config")
            if not logger.disabled and logger.manager.disable < record.levelno and logger.filter(record):
                logger.callHandlers(record)
        return config.VARIABLES[name].default


def warn_once(key: Hashable, message: str, *args: object, function: str | None = None) -> bool:
    """Log a warning unless one with this key was logged in this process; return whether it was the first.

    `function` is the name to print; compiled functions, which are not on Python's stack, give their own.
    """
    if not _is_first(key):
        return False
    logger.warning(message, *args, stacklevel=2, extra={} if function is None else {"function": function})
    return True


def _is_first(key: Hashable) -> bool:
    with _lock:
        known = key in _reported
        _reported.add(key)
        return not known


def forget() -> None:
    """Let every condition be reported again (for tests)."""
    with _lock:
        _reported.clear()


def write(lines: Iterable[str]) -> None:
    """Print lines to the current sys.stderr, each behind MIOpen's prefix, all with one write."""
    global _last
    thread = f"{threading.get_native_id()} " if setting("MIOPEN_ENABLE_LOGGING_MPMT") else ""
    timed = setting("MIOPEN_ENABLE_LOGGING_ELAPSED_TIME")
    with _lock:
        text, elapsed = "", ""
        for line in lines:
            if timed:
                now = time.perf_counter()
                elapsed = f"{(now - (now if _last is None else _last)) * 1e3:8.3f}"
                _last = now
            text += f"{thread}MIOpen(OpenCL){elapsed}: {line}\n"
        with contextlib.suppress(Exception):  # no stderr, a closed one, or one that takes no such text
            sys.stderr.write(text)
            sys.stderr.flush()


def _limit() -> int:
    return _LIMITS[setting("MIOPEN_LOG_LEVEL")]


def _ours_prints() -> bool:
    """Whether our handler prints: MIOPEN_LOG_LEVEL is set, or there is nobody else to do it."""
    if setting("MIOPEN_LOG_LEVEL"):
        return True
    node: logging.Logger | None = logger
    while node is not None:
        if any(h is not _handler and not isinstance(h, logging.NullHandler) for h in node.handlers):
            return False
        node = node.parent if node.propagate else None
    return True


def _passes(record: logging.LogRecord) -> bool:
    """Whether a message counts at all, in place of the logger's level unless somebody has set that."""
    if logger.level != _OPEN:
        return True
    above = logging.WARNING if logger.parent is None else logger.parent.getEffectiveLevel()
    return record.levelno >= (min(_limit(), above) if _ours_prints() else above)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < _limit() or not _ours_prints():
            return
        level = next((name for least, name in _NAMES if record.levelno >= least), "Trace")
        try:
            text = record.getMessage()
        except Exception:  # arguments that do not fit the message, or that cannot be printed
            text = str(record.msg)
        write([f"{level} [{getattr(record, 'function', record.funcName)}] {text}"])


def _after_fork() -> None:
    """A child reports for itself, and must not wait for a lock that a thread of its parent held."""
    global _lock
    _lock = threading.RLock()
    _reported.clear()


_handler = _Handler()
logger.addHandler(_handler)
logger.addFilter(_passes)
if logger.level == logging.NOTSET:
    logger.setLevel(_OPEN)
posix.at_fork(after_in_child=_after_fork)
