"""What `enable` gained, layer by layer."""

from __future__ import annotations

from . import _convolution

HEADER = ("problem", "runs", "who", "miopyx us", "torch us", "gained ms", "known from")


def rows() -> list[tuple[str, ...]]:
    """Return a row of texts for each problem that was met, as in HEADER, and one of sums."""
    found = [(layer.what, str(layer.runs), "miopyx" if layer.ours else "torch",
              *("" if us is None else f"{us:.1f}" for us in (layer.times.ours, layer.times.theirs)),
              f"{layer.gained():.2f}", layer.times.source if layer.why is None else layer.why)
             for layer in _convolution.layers]
    total = sum(layer.gained() for layer in _convolution.layers)
    runs = sum(layer.runs for layer in _convolution.layers)
    ours = sum(layer.runs for layer in _convolution.layers if layer.ours)
    return [*found, ("all", str(runs), f"miopyx {ours}", "", "", f"{total:.2f}", "")]


def report() -> str:
    """Return a table of the problems that were met since `enable`: who ran them, how often, and what was gained.

    Times are those of one call as they were measured; what was gained is their difference times the runs.
    """
    table = [HEADER, *rows()]
    widths = [max(len(row[i]) for row in table) for i in range(len(HEADER))]
    return "\n".join("  ".join(text.ljust(width) if i in (0, 2, 6) else text.rjust(width)
                               for i, (text, width) in enumerate(zip(row, widths, strict=True))).rstrip()
                     for row in table)
