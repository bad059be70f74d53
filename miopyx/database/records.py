"""The text of database records: MIOpen's grammar, and the marks that we add to it.

A record is one line, ``key=item;item;...``, an item ``id:value,value,...``.  MIOpen's readers skip items without a
colon, so that is where our lines carry what MIOpen does not know: the first item is a stamp, ``@`` and what made the
record (version and driver); ``partial`` and the names of solvers that failed, each behind a ``!``, may follow; the last
is a seal, ``#`` and zlib's CRC-32 of the bytes before ``;#`` as eight hexadecimal digits.  A line with a stamp or a
seal whose seal does not fit is damaged and counts for nothing; the stamp comes first so that no part of a line that was
cut or broken in two passes for somebody else's.
"""

from __future__ import annotations

import enum
import re
import zlib
from collections import Counter
from collections.abc import Iterable

from ._records import ALGORITHM_NAME as ALGORITHM_NAME
from ._records import ALGORITHMS as ALGORITHMS
from ._records import FindItem as FindItem
from ._records import FindRecord as FindRecord
from ._records import read_find as read_find

PARTIAL = b"partial"
SEAL = 10  # bytes of ";#" and eight digits
_HEX = b"0123456789abcdef"


class Kind(enum.Enum):
    """Whose a line is."""

    OURS = "ours"          # sealed, and the seal fits
    FOREIGN = "foreign"    # has no mark of ours
    DAMAGED = "damaged"    # has marks of ours, but the seal does not fit
    MALFORMED = "malformed"  # no "=", or nothing before it


def seal(body: bytes) -> bytes:
    """Return a record, ``key=items``, with its seal and line end."""
    return b"%b;#%08x\n" % (body, zlib.crc32(body))


def classify(line: bytes) -> Kind:
    """Say whose a line (without its line end) is."""
    equals = line.find(b"=")
    if len(line) > SEAL and line[-SEAL:-SEAL + 2] == b";#" and not line[-8:].strip(_HEX):
        if zlib.crc32(line[:-SEAL]) != int(line[-8:], 16):
            return Kind.DAMAGED
        return Kind.OURS if equals > 0 else Kind.MALFORMED
    if line[equals + 1:equals + 2] == b"@" or b";@" in line:
        return Kind.DAMAGED
    return Kind.FOREIGN if equals > 0 else Kind.MALFORMED


def says_something(items: bytes) -> bool:
    """Whether a record has an item that is not a mark; one of ours that has none takes an earlier one back."""
    return b":" in items


def split(line: bytes) -> tuple[bytes, bytes]:
    """Return key and items of a well-formed line, without seal and line end."""
    key, _, items = line.rstrip(b"\n").partition(b"=")
    if len(items) >= SEAL and items[-SEAL:-SEAL + 2] == b";#":
        items = items[:-SEAL]
    return key, items


# Find-db


def write_find(key: bytes, items: Iterable[FindItem], stamp: str, partial: bool = False,
               failed: Iterable[str] = ()) -> bytes:
    """Return a sealed line in MIOpen's new form; `stamp` is what `clean` returned."""
    texts = [_stamp(stamp)] + [PARTIAL] * partial + [b"!" + name.encode() for name in failed]
    for item in items:
        name = ALGORITHM_NAME[item.direction, item.algorithm]
        texts.append(b"%b:%b,%d,%b" % (item.solver.encode(), b"%.6g" % item.time, item.workspace, name))
    return seal(key + b"=" + b";".join(texts))


# Perf-db


def read_perf(items: bytes) -> tuple[dict[str, str], str, Counter[str]]:
    """Read the items of a perf-db record: the parameters' text of each solver, the stamp, what was skipped and why."""
    found: dict[str, str] = {}
    skipped: Counter[str] = Counter()
    stamp = ""
    for item in items.split(b";") if items else ():
        name, colon, text = item.partition(b":")
        if not colon:
            if name.startswith(b"@"):
                stamp = name[1:].decode(errors="replace")
            else:
                skipped["no colon"] += 1
        elif not name:
            skipped["no solver"] += 1
        elif name.decode(errors="replace") in found:
            skipped["solver stands twice"] += 1
        else:
            found[name.decode(errors="replace")] = text.decode(errors="replace")
    return found, stamp, skipped


def write_perf(key: bytes, values: dict[str, str], stamp: str) -> bytes:
    """Return a sealed line with the parameters of each solver."""
    texts = [_stamp(stamp)] + [f"{solver}:{text}".encode() for solver, text in values.items()]
    return seal(key + b"=" + b";".join(texts))


def plain(line: bytes) -> bytes:
    """Return a line as MIOpen writes it: without stamp, partial mark and seal."""
    key, items = split(line)
    kept = [item for item in items.split(b";") if b":" in item]
    return key + b"=" + b";".join(kept) + b"\n"


def clean(text: str) -> str:
    """Return a text as a stamp can hold it: what the grammar uses for itself becomes an underscore."""
    return re.sub(r"[^A-Za-z0-9._+/@-]+", "_", text)


def _stamp(text: str) -> bytes:
    return b"@" + clean(text).encode()
