"""What `enable` gained, layer by layer."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

import torch

from miopyx.values import config

from . import _layers, override

HEADER = ("problem", "runs", "who", "miopyx us", "torch us", "gained ms", "known from")
TEXTS = (0, 2, 6)  # columns that are no numbers

_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>PyTorch by miopyx</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 14px system-ui, sans-serif; margin: 2em }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
th, td {{ padding: .2em .8em; text-align: right; border-bottom: 1px solid #8884 }}
.text {{ text-align: left }}
.ours td {{ background: #2a72 }}
tr:last-child {{ font-weight: bold }}
</style>
<h1>PyTorch by miopyx</h1>
<p>PyTorch {version}. Times are those of one call; what was gained is their difference times the runs.</p>
<table>
{rows}
</table>
{more}
</html>
"""


def rows() -> list[tuple[str, ...]]:
    """Return a row of texts for each problem that was met, as in HEADER, and one of sums."""
    found = [(layer.what, str(layer.runs), "miopyx" if layer.ours else "torch",
              *("" if us is None else f"{us:.1f}" for us in (layer.times.ours, layer.times.theirs)),
              f"{layer.gained():.2f}", layer.times.source if layer.why is None else layer.why)
             for layer in _layers.layers]
    total = sum(layer.gained() for layer in _layers.layers)
    runs = sum(layer.runs for layer in _layers.layers)
    ours = sum(layer.runs for layer in _layers.layers if layer.ours)
    return [*found, ("all", str(runs), f"miopyx {ours}", "", "", f"{total:.2f}", "")]


def report(html: str | os.PathLike[str] | None = None) -> str:
    """Return a table of the problems that were met since `enable`: who ran them, how often, and what was gained.

    Times are those of one call as they were measured; what was gained is their difference times the runs.  Kinds of
    operators that were given back to PyTorch, since they gained nothing, are named below the table.

    Parameters
    ----------
    html : path, optional
        A file that gets the same table as a page of its own, whole or not at all.

    Raises
    ------
    OSError
        Where the file cannot be written.
    """
    table = [HEADER, *rows()]
    if html is not None and not config.write_atomically(Path(html), _page(table).encode()):
        raise OSError(0, "cannot be written", os.fspath(html))
    widths = [max(len(row[i]) for row in table) for i in range(len(HEADER))]
    lines = ["  ".join(text.ljust(width) if i in TEXTS else text.rjust(width)
                       for i, (text, width) in enumerate(zip(row, widths, strict=True))).rstrip() for row in table]
    return "\n".join([*lines, *map(_given_back, override.given_back)])


def _given_back(which: tuple[str, str]) -> str:
    return f"{which[0]} on {which[1].upper()}: given back to PyTorch, it gained less than the way to it takes"


def _page(table: list[tuple[str, ...]]) -> str:
    lines = []
    for row in table:
        cell = "th" if row is HEADER else "td"
        cells = "".join(f"<{cell}{' class=text' * (i in TEXTS)}>{escape(text)}" for i, text in enumerate(row))
        lines.append(f"<tr{' class=ours' * (row[2] == 'miopyx')}>{cells}")
    more = "\n".join(f"<p>{escape(line)}." for line in map(_given_back, override.given_back))
    return _PAGE.format(version=escape(torch.__version__), rows="\n".join(lines), more=more)
