"""Which family of convolution solvers wins where, and what the throughput index is worth: docs/solvers.md's tables.

    python bench/families.py [--list resnet50 extra ...] [--layout nhwc] [--batch 4] [--dtype float32] [--share 0.4]
                             [--seed 1] [--device NAME] [--json OUT]

Every solver but the naive and the last resorts runs each layer of convolutions.txt in each direction, its default
configuration, weights packed in every call: medians of three to nine runs.  Of a list of more than 20 layers a random
share is taken; layers that several lists have count once.

A cell is a family's best solver as a part of the fastest solver's speed, forward / backward data / backward weights,
geometric means over the layers of a row; a star where the family took only some of them.  The last table is the time of
the first solver by index as a multiple of the fastest one's.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

from versus import ENVIRONMENT, Ours

FAMILIES = {"Winograd F4": "WinogradF4", "F2": "WinogradF2", "implicit GEMM": "ImplicitGemm", "pairs": "NvPairs",
            "wgmma": "NvWgmma", "FFT": "FFT", "grouped": "CpuGrouped", "depthwise": "Depthwise", "few": "FewChannels",
            "GEMM": "Gemm"}
DIRECTIONS = ("forward", "data", "weights")
SHORT = 20      # layers of a list that is taken whole
RUN_S = 0.03    # about how long a solver runs


def family(name: str) -> str:
    return next(title for title, part in FAMILIES.items() if part in name)


def kind(layer) -> str:
    """Return the row that a layer belongs to."""
    taps, strided = layer.filter, max(layer.stride) > 1
    if layer.transposed:
        return "transposed, stride 2"
    if layer.groups > 1:
        each = max(layer.c, layer.k) // layer.groups
        return "depthwise" if each == 1 else f"{'x'.join(map(str, taps))} in groups of {each} channels"
    if len(taps) == 3:
        return "x".join(map(str, taps))
    if max(taps) == 1:
        return "1x1"
    if layer.c <= 4:
        return "up to 4 channels"
    if max(taps) >= 7 and (min(taps) > 1 or max(taps) > 7):
        return "7x7 and larger, 1x31"
    if min(taps) == 1:
        return "1x3, 1x7, 7x1"
    more = ", dilated" if max(layer.dilation) > 1 else ", stride 2" if strided else ""
    if taps == (5, 5):
        more = ", images from 28x28" if min(layer.lens) >= 28 else ", smaller images"
    return "x".join(map(str, taps)) + more


def seconds(run, finish) -> float:
    times: list[float] = []
    run(), finish()
    while len(times) < 4 or (len(times) < 10 and sum(times) < RUN_S):
        began = time.perf_counter()
        run(), finish()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def measure(layer, side) -> list[dict]:
    """Return a row for each direction: times and indices of the solvers by name."""
    import convolutions

    from miopyx.problem._problem import ConvProblem
    from miopyx.solvers import registry

    prepared = convolutions.Prepared(side, layer, convolutions.random_data(layer, side.numpy_type, side.layout))
    conv, device, rows = layer.conv(), side.handle.device, []
    for number, direction in enumerate("FBW"):
        problem = ConvProblem(number, *(prepared.desc[name] for name in "xwy"), conv)
        able = [s for s in registry.CONV if s.why_not(device, problem) is None and not s.last_resort
                and "Naive" not in s.name]
        rows.append({"layer": layer.text, "kind": kind(layer), "direction": convolutions.NAMES[direction], "times": {
            s.name: seconds(prepared.run(direction, prepared.plan(direction, conv, solution_id=s.id)), side.finish)
            for s in able}, "index": {s.name: s.wti(device, problem) for s in able}})
    return rows


def tables(rows: list[dict]) -> list[str]:
    """Return both tables as Markdown."""
    kinds: dict[str, dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    worth: dict[str, list[float]] = defaultdict(list)
    seen: set[str] = set()
    for row in rows:
        if not row["times"]:
            continue
        fastest = min(row["times"].values())
        best: dict[str, float] = defaultdict(float)
        for name, found in row["times"].items():
            best[family(name)] = max(best[family(name)], fastest / found)
        seen |= set(best)
        kinds[row["kind"]][row["direction"]].append(best)
        first = max(row["index"], key=row["index"].__getitem__)
        worth[row["direction"]].append(row["times"][first] / fastest)
    columns = [title for title in FAMILIES if title in seen]
    lines = [f"| convolution | n | {' | '.join(columns)} |", f"| --- | --- |{' --- |' * len(columns)}"]
    for title, directions in kinds.items():
        means = {name: [geomean([best[name] for best in directions[direction] if name in best])
                        for direction in DIRECTIONS] for name in columns}
        top = [max(each) for each in zip(*means.values(), strict=True)]
        cells = []
        for name in columns:
            cell = " ".join("-" if value == 0 else f"**{value:.2f}**" if value >= most - 0.005 else f"{value:.2f}"
                            for value, most in zip(means[name], top, strict=True))
            some = any(name not in best for found in directions.values() for best in found)
            cells.append("" if not any(means[name]) else f"{cell} *" if some else cell)
        lines.append(f"| {title} | {max(map(len, directions.values()))} | {' | '.join(cells)} |")
    lines += ["", f"| {' | '.join(worth)} |", f"|{' --- |' * len(worth)}",
              f"| {' | '.join(f'mean {geomean(v):.2f}, most {max(v):.1f}' for v in worth.values())} |",
              f"above 1.5 in {sum(value > 1.5 for v in worth.values() for value in v)} "
              f"of {sum(map(len, worth.values()))}"]
    return lines


def geomean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values))) if values else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", nargs="+", default=[], help="names in convolutions.txt (default: all)")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--layout", default="nchw", choices=["nchw", "nhwc"])
    parser.add_argument("--share", type=float, default=0.4, help="of the longer lists")
    parser.add_argument("--seed", type=int, default=1, help="of the shares")
    parser.add_argument("--device", help="as `miopyx doctor` names it (default: the best one)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **ENVIRONMENT})
    import convolutions

    import miopyx

    handle = miopyx.Handle(options.device) if options.device else miopyx.Handle()
    side, rows, done = Ours(handle, options.dtype, options.layout), [], set()
    print(f"{handle.device.name}, batch {options.batch}, {options.dtype}, {options.layout}; "
          f"load {os.getloadavg()[0]:.1f}")
    for network in options.list or convolutions.LISTS:
        layers = list(convolutions.layers(network, options.batch, []))
        if len(layers) > SHORT:
            layers = random.Random(options.seed).sample(layers, round(len(layers) * options.share))
        for layer in layers:
            if layer.text not in done:
                done.add(layer.text)
                rows += measure(layer, side)
    print(*tables(rows), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
