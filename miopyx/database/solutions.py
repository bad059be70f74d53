"""Saved solutions: a line with the format's version, a line with a digest, and the rest as JSON.

The digest tells what was damaged, not who wrote it.  Nothing of it is code: a solution names a solver, its
configuration and a problem, and a program that it needs is built from this package's own sources.
"""

from __future__ import annotations

from typing import Any

from miopyx.errors import InvalidValueError, VersionMismatchError
from miopyx.values.digests import blake2b

from . import paths

VERSION = 1
_NAME = b"miopyx solution "
_MOST = 1 << 20  # bytes


def write(fields: dict[str, Any]) -> bytes:
    """Return the bytes of a solution; `fields` are what JSON can hold."""
    import json

    body = json.dumps({"build": paths.build(), **fields}, sort_keys=True, separators=(",", ":")).encode()
    return _NAME + f"{VERSION}\n{_digest(body)}\n".encode() + body


def read(data: Any) -> dict[str, Any]:
    """Return the fields of a saved solution.

    Raises
    ------
    VersionMismatchError
        For another version of the format, or a solution that was saved by a build with other kernels.
    InvalidValueError
        For what is no saved solution, or a damaged one.
    """
    import json

    try:
        view = memoryview(data)
    except TypeError:
        raise InvalidValueError("not bytes", "data", data, "what miopenSaveSolution returned") from None
    if view.nbytes > _MOST:
        raise InvalidValueError("too long for a solution", "size", view.nbytes, f"<= {_MOST} bytes")
    head, _, rest = bytes(view).partition(b"\n")
    if not head.startswith(_NAME):
        raise InvalidValueError("not a saved solution", "data", bytes(view[:24]), "what miopenSaveSolution returned")
    if head != _NAME + str(VERSION).encode():
        raise VersionMismatchError("another version of the format", "data", head[len(_NAME):][:24], VERSION)
    digest, _, body = rest.partition(b"\n")
    if digest != _digest(body).encode():
        raise InvalidValueError("a damaged solution: its digest does not fit", "data", digest[:64], _digest(body))
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as e:
        raise InvalidValueError(f"a damaged solution: {e}") from None
    if not isinstance(fields, dict):
        raise InvalidValueError("a damaged solution", "data", type(fields).__name__, "a table of fields")
    if fields.get("build") != paths.build():
        raise VersionMismatchError("saved by a build with other kernels", "data", fields.get("build"), paths.build())
    return fields


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()
