"""Texts of kernels, which are installed as one file: a wheel compresses what they have in common once.

An editable installation has their folder instead.  Where there are both, as while a changed kernel is tried, a file in
the folder comes first.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "kernels"
PACKED = FOLDER.with_suffix(".txt")  # of cmake/kernels.py: a line with a name, the text, a form feed, the next name...


@cache
def _packed() -> dict[str, bytes]:
    try:
        data = PACKED.read_bytes()
    except FileNotFoundError:
        return {}
    parts = (part.partition(b"\n") for part in data.split(b"\f"))
    return {name.decode(errors="replace"): text for name, _, text in parts}


def read(file: str) -> bytes:
    """Return a kernel's text by its name, ``conv/naive.cl``.

    Raises
    ------
    OSError
        If there is none, or it cannot be read.
    """
    try:
        with open(f"{FOLDER}/{file}", "rb", buffering=0) as own:
            return own.read()
    except FileNotFoundError:
        text = _packed().get(file)
        if text is None:
            raise
        return text


def names(*folders: str) -> list[str]:
    """Return the names of all files of some folders of kernels, in order."""
    inside = tuple([f"{folder}/" for folder in folders])
    found = {name for name in _packed() if name.startswith(inside)}
    for folder in folders:
        for where, _, files in os.walk(FOLDER / folder):
            found |= {os.path.relpath(os.path.join(where, name), FOLDER) for name in files}
    return sorted(found)
