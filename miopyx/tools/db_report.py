"""`miopyx db report`: an HTML page about a find-db or a ledger, in one file, charts as SVG, nothing from elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from miopyx.api import _convolution
from miopyx.database import records
from miopyx.errors import BadParmError, MIOpenError
from miopyx.problem import _key
from miopyx.values import config

from .db_files import is_ledger, is_perf, opened, winners

_ROWS = 1000   # of the table
_BARS = 20     # of a chart; what is less is summed up
_WIDTH, _LEFT, _RIGHT, _ROW = 720, 260, 210, 22
_DIRECTIONS = {"F": "forward", "B": "backward data", "W": "backward weights"}
_STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}
table{border-collapse:collapse;font-size:13px;width:100%}
th,td{padding:.2rem .6rem;text-align:left;border-bottom:1px solid color-mix(in srgb,currentColor 18%,transparent)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.wide{overflow-x:auto}svg{max-width:100%;height:auto}svg text{fill:currentColor;font:12px system-ui,sans-serif}
.a{fill:#2f7fd0}.b{fill:#9aa0a6}.now{color:#2f7fd0}.then{color:#9aa0a6}.l{white-space:nowrap}.line{stroke:currentColor;opacity:.3}
"""


class Row(NamedTuple):
    """A problem on a device as a layer of somebody's: times in milliseconds, of one run."""

    key: str
    device: str
    source: str
    layer: str
    direction: str
    kind: str
    weight: float
    solver: str
    ms: float
    before: float | None
    flops: float
    bytes: float


class Limits(NamedTuple):
    """Operations and bytes in a millisecond that nothing is faster than, by device and type."""

    flops: dict[tuple[str, str], float]
    bytes: dict[str, float]

    def share(self, row: Row) -> float:
        """Return which part of a row's time nothing could save."""
        least = max(row.flops / self.flops[row.device, row.kind], row.bytes / self.bytes[row.device])
        return min(1.0, least / row.ms)


def report(arguments: argparse.Namespace) -> dict[str, Any]:
    """Write the page; return where, and what it is about."""
    for name in ("tflops", "gbs"):
        value = getattr(arguments, name)
        if value is not None and not 0 < value < 1e9:
            raise BadParmError("a limit", f"--{name}", value, "a positive number")
    rows, left = (_of_ledger(arguments.file, arguments.device) if is_ledger(arguments.file)
                  else _of_database(arguments.file))
    if arguments.list:
        rows = _named(rows, arguments.list)
    if not rows:
        raise BadParmError("no times of convolutions", "FILE", str(arguments.file),
                           "a find-db or a ledger of miopyx tune")
    page = _page(arguments.file.name, rows, _limits(rows, arguments.tflops, arguments.gbs), left,
                 arguments.tflops is not None or arguments.gbs is not None)
    if not config.write_atomically(arguments.out, page.encode(), shared=True):
        raise OSError(0, "cannot be written", str(arguments.out))
    return {"written": str(arguments.out), "rows": len(rows), "left out": left}


def _row(key: str, device: str, source: str, layer: str, weight: float, solver: str, ms: float,
         before: float | None) -> Row | None:
    try:
        problem = _key.parse_find_key(key.encode())
    except MIOpenError:
        return None
    if ms <= 0 or problem.flops == 0:  # of batch 0: no work that a limit could be set beside
        return None
    tensors = _convolution.memory_of(problem)
    return Row(key, device, source, layer, "FBW"[problem.direction], tensors[0][1], weight, solver, ms, before,
               float(problem.flops), float(sum(size for size, _ in tensors)))


def _of_database(path: Path) -> tuple[list[Row], int]:
    chosen, _ = winners([path])
    rows: list[Row] = []
    left = 0
    for key, line in chosen.items():
        if is_perf(key):
            left += 1
            continue
        record = records.read_find(records.split(line)[1])
        best = min(record.items, key=lambda item: item.time, default=None)
        text = key.decode(errors="replace")
        made = None if best is None else _row(text, record.stamp.rpartition("/")[2] or path.name.split(".")[0], "",
                                              text, 1.0, best.solver, best.time, None)
        if made is None:
            left += 1
        else:
            rows.append(made)
    return rows, left


def _of_ledger(path: Path, device: str) -> tuple[list[Row], int]:
    """Return the rows of a device, and how many layers that somebody asked for have none."""
    with opened(path, device) as (book, chosen):
        layers, asked = book.layers(chosen), book.asked_layers()
    rows = [row for row in (_row(*values) for values in layers) if row is not None]
    return rows, len(asked - {(row[0], row[2], row[3]) for row in layers}) + len(layers) - len(rows)


def _named(rows: Sequence[Row], lists: Sequence[str]) -> list[Row]:
    """Return the rows whose problems some lists or models have, under their names; the others as "others"."""
    from .driver.options import UsageError
    from .tune import sources

    try:
        found = sources.read(lists, [], sources.Options())
    except UsageError as e:
        raise BadParmError(str(e), "--list", ", ".join(lists), "lists of MIOpenDriver's lines, or models") from None
    layers: dict[str, list[sources.Wanted]] = {}
    for one in found.wanted:
        layers.setdefault(one.key, []).append(one)
    named = [row._replace(source="others") for row in rows if row.key not in layers]
    for row in {(row.device, row.key): row for row in rows if row.key in layers}.values():  # a ledger has names, too
        named += [row._replace(source=one.source, layer=one.layer, weight=one.weight) for one in layers[row.key]]
    return named


def _limits(rows: Sequence[Row], tflops: float | None, gbs: float | None) -> Limits:
    """Return what was given, else the best rates that anything in the file reaches."""
    flops: dict[tuple[str, str], float] = {}
    moved: dict[str, float] = {}
    for row in rows:
        place = row.device, row.kind
        flops[place] = max(flops.get(place, 0.0), row.flops / row.ms)
        moved[row.device] = max(moved.get(row.device, 0.0), row.bytes / row.ms)
    return Limits(flops if tflops is None else dict.fromkeys(flops, tflops * 1e9),
                  moved if gbs is None else dict.fromkeys(moved, gbs * 1e6))


# The page


def _page(name: str, rows: list[Row], limits: Limits, left: int, given: bool) -> str:
    total = sum(row.weight * row.ms for row in rows)
    known = [row for row in rows if row.before is not None]
    before, after = (sum(row.weight * (row.before or 0) for row in known), sum(row.weight * row.ms for row in known))
    words = [f"{len(rows)} layers on {_list({row.device for row in rows})}, "
             f"{total:.4g} ms in all, each as often as it occurs."]
    if known and after > 0:
        words.append(f"Tuning made of {before:.4g} ms {after:.4g} ms, {before / after:.2f} times as fast. "
                     'In the charts <span class="now">blue</span> is now, <span class="then">grey</span> before.')
    if left:
        words.append(f"{left} layers or records have no time of this device, or nothing to compute, and are left out.")
    parts = [f"<h1>{escape(name)}</h1>", f"<p>{' '.join(words)}</p>"]
    if len({row.source for row in rows}) > 1 or rows[0].source:
        parts += ["<h2>By network</h2>", _bars(_sums(rows, lambda row: row.source or "no list"), "ms", bool(known))]
    parts += ["<h2>By direction</h2>", _bars(_sums(rows, lambda row: _DIRECTIONS[row.direction]), "ms", bool(known)),
              "<h2>By solver</h2>", "<p>Time that is spent in each, where it is the fastest.</p>",
              _bars(_sums(rows, lambda row: row.solver), "ms", False),
              "<h2>Share of the limit</h2>",
              "<p>The least time that operations and memory need, over the time taken, at "
              f"{'the rates that were given' if given else 'the best rates that anything in this file reaches'}.</p>",
              _histogram([limits.share(row) for row in rows]), "<h2>Layers</h2>", _table(rows, limits)]
    return ('<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width">'
            f"<title>{escape(name)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n")


def _list(names: Iterable[str]) -> str:
    return ", ".join(escape(name) for name in sorted(names))


def _sums(rows: Iterable[Row], of: Callable[[Row], str]) -> list[tuple[str, float, float, int]]:
    """Return (name, milliseconds, milliseconds before, layers) by a name, the most first."""
    sums: dict[str, list[float]] = {}
    for row in rows:
        one = sums.setdefault(of(row), [0.0, 0.0, 0])
        one[0] += row.weight * row.ms
        one[1] += row.weight * (row.ms if row.before is None else row.before)
        one[2] += 1
    ordered = sorted(((name, ms, before, int(count)) for name, (ms, before, count) in sums.items()),
                     key=lambda one: (-one[1], one[0]))
    if len(ordered) > _BARS:
        rest = ordered[_BARS - 1:]
        ordered = [*ordered[:_BARS - 1], (f"{len(rest)} more", sum(one[1] for one in rest), sum(one[2] for one in rest),
                                          sum(one[3] for one in rest))]
    return ordered


def _bars(sums: Sequence[tuple[str, float, float, int]], unit: str, with_before: bool) -> str:
    """Return horizontal bars, under each where asked for the time before."""
    most = max(max(ms, before if with_before else 0.0) for _, ms, before, _ in sums) or 1.0
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    drawn = []
    for i, (name, ms, before, count) in enumerate(sums):
        y = i * _ROW
        height = 7 if with_before else 14
        text = f"{ms:.4g} {unit}" + (f", before {before:.4g}" if with_before else "") + f" ({count})"
        width = max(ms, before if with_before else 0.0) * scale
        drawn.append(f'<text x="{_LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(_cut(name))}</text>'
                     f'<rect class="a" x="{_LEFT}" y="{y + 3}" width="{ms * scale:.2f}" height="{height}"/>'
                     + (f'<rect class="b" x="{_LEFT}" y="{y + 11}" width="{before * scale:.2f}" height="{height}"/>'
                        if with_before else "")
                     + f'<text x="{_LEFT + width + 6:.2f}" y="{y + 15}">{escape(text)}</text>')
    return _svg(len(sums) * _ROW + 4, drawn)


def _histogram(shares: Sequence[float]) -> str:
    counts = [0] * 10
    for share in shares:
        counts[min(9, int(share * 10))] += 1
    most, wide, high = max(counts), (_WIDTH - 40) / 10, 140
    drawn = [f'<line class="line" x1="20" x2="{_WIDTH - 20}" y1="{high + 20}" y2="{high + 20}"/>']
    for i, count in enumerate(counts):
        x, tall = 20 + i * wide, high * count / most
        middle, top = f"{x + wide / 2:.2f}", high + 20 - tall
        drawn.append(f'<rect class="a" x="{x + 3:.2f}" y="{top:.2f}" width="{wide - 6:.2f}" height="{tall:.2f}"/>'
                     f'<text x="{middle}" y="{top - 6:.2f}" text-anchor="middle">{count}</text>'
                     f'<text x="{middle}" y="{high + 36}" text-anchor="middle">{10 * i}-{10 * i + 10} %</text>')
    return _svg(high + 44, drawn)


def _svg(height: int, drawn: Iterable[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">{"".join(drawn)}</svg>'


def _table(rows: Sequence[Row], limits: Limits) -> str:
    ordered = sorted(rows, key=lambda row: (-row.weight * row.ms, row.layer, row.direction))
    head = ("network", "layer", "direction", "type", "times", "before ms", "ms", "gain", "TFLOP/s", "limit", "solver",
            "problem")
    numbers = {"times", "before ms", "ms", "gain", "TFLOP/s", "limit"}
    lines = ["<tr>" + "".join(f'<th{" class=n" if name in numbers else ""}>{name}</th>' for name in head) + "</tr>"]
    for row in ordered[:_ROWS]:
        cells = (row.source, _cut(row.layer, 60), _DIRECTIONS[row.direction], row.kind, f"{row.weight:g}",
                 "" if row.before is None else f"{row.before:.4g}", f"{row.ms:.4g}",
                 "" if row.before is None else f"{row.before / row.ms:.2f}", f"{row.flops / row.ms / 1e9:.3g}",
                 f"{limits.share(row):.0%}", row.solver, row.key if _cut(row.layer, 60) != row.key else "")
        lines.append("<tr>" + "".join(f'<td class={"n" if name in numbers else "l"}>{escape(cell)}</td>'
                                      for name, cell in zip(head, cells, strict=True)) + "</tr>")
    more = f"<p>{len(rows) - _ROWS} more, which take less time.</p>" if len(rows) > _ROWS else ""
    return f'<div class="wide"><table>{"".join(lines)}</table></div>{more}'


def _cut(text: str, most: int = 38) -> str:
    return text if len(text) <= most else text[:most - 3] + "..."
