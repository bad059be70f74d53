"""Convolutions of OCP's float8 beside our own float16, channels last: every tile of every layer.

    python bench/float8.py [--list resnet50] [--batch 256] [--directions FB] [--device NAME] [--only 3x3] [--runs 3]
                           [--json OUT]

cuDNN has no float8 convolution for PyTorch, so the peer is what we take for float16 in the same layout.  Per layer and
direction, in microseconds: float16; float8 as the table of tiles chooses, its tile, and the ratio; the best tile's
ratio; the chosen one with results rounded at random; the rates of the chosen one; the error of sums in float32, the
norm of the difference to float64 by that of the result, of the first and last image; each tile.  Types are e4m3
throughout, weights are packed anew in each call.  Sides run in turns, medians of five; of --runs, one behind the other,
medians again, and the ratio of each.  A layer of up to 8
channels goes forward only, by the solver for few channels: such are images, whose gradient nobody takes.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np

import miopyx
from miopyx import TensorDescriptor
from miopyx.engine._invoker import Invoker
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

sys.path.append(str(Path(__file__).parent))
from convolutions import LISTS, layers

TYPE = "float8_e4m3fn"
NAMES = {"F": "forward", "B": "data"}
SOLVERS = {"F": ("NvFloat8Fwd", "NvWgmmaFwd"), "B": ("NvFloat8Bwd", "NvWgmmaBwd")}
FEW, OF_FEW = 8, ("NvFewChannelsFwd", "NvWgmmaFwd")  # channels, and what takes so many or fewer
BLOCK = 4194301  # random numbers that are repeated
TURNS, CALLS = 5, 20


def codes(count: int, rng: np.random.Generator) -> np.ndarray:
    """Random numbers of either sign from 1/4 to 4."""
    some = rng.integers(0, 256, min(count, BLOCK), np.uint8)
    return np.resize((some & 0x87) | ((some >> 3 & 3) + 5) << 3, count)


def laid(lens: tuple[int, ...], dtype: str) -> TensorDescriptor:
    return TensorDescriptor(dtype, lens, layout=miopyx.miopenTensorNHWC)


class Calls:
    """A layer's direction in one type: plans of a solver's configurations, on memory that all share."""

    def __init__(self, handle, direction: str, lens, types, buffers, solver, mode: int = 0) -> None:
        self.handle, self.direction, self.buffers, self.solver = handle, direction, buffers, solver
        self.desc = [laid(one, kind) for one, kind in zip(lens, types, strict=True)]
        self.mode = mode

    def conv(self, layer):
        conv = layer.conv()
        miopyx.miopenSetConvolutionAttribute(conv, miopyx.MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE, self.mode)
        return conv

    def problem(self, layer) -> ConvProblem:
        return ConvProblem("FB".index(self.direction), *self.desc, self.conv(layer))

    def run(self, layer, config: tuple | None = None):
        """Return a call of the solver with a configuration, the default one where there is none."""
        offer = self.solver.offer(self.handle.device, self.problem(layer))
        assert not isinstance(offer, str), offer
        self.handle.register(Invoker(self.handle, offer, config), self.solver.id)
        x, w, y = self.desc
        if self.direction == "F":
            plan, order = self.handle.convolution_forward(x, w, self.conv(layer), y, self.solver.id), (0, 1, 2)
        else:
            plan, order = self.handle.convolution_backward_data(y, w, self.conv(layer), x, self.solver.id), (2, 1, 0)
        arguments = [self.buffers[i] for i in order]
        return lambda: plan(*arguments)


def seconds(handle, runs: dict) -> dict:
    """Return the median time of a call of each, in turns."""
    times: dict = {name: [] for name in runs}
    for run in runs.values():
        run()
    handle.finish()
    for _ in range(TURNS):
        for name, run in runs.items():
            run()
            handle.finish()
            start = time.perf_counter()
            for _ in range(CALLS):
                run()
            handle.finish()
            times[name].append((time.perf_counter() - start) / CALLS)
    return {name: statistics.median(found) for name, found in times.items()}


def error_of(handle, host, layer, direction: str, data, buffers, solver) -> float:
    """Run with a result in float32 and compare two images of it with the host's."""
    out = 2 if direction == "F" else 0
    lens = layer.all_lens
    result = handle.repeated(np.full(1, np.nan, np.float32), 4 * math.prod(lens[out]))
    kept = [result if i == out else buffer for i, buffer in enumerate(buffers)]
    types = ["float32" if i == out else TYPE for i in range(3)]
    Calls(handle, direction, lens, types, kept, solver).run(layer)()
    handle.finish()
    raw = handle.download(result, np.empty(4 * math.prod(lens[out]), np.uint8)).view(np.float32)
    some = [0, layer.n - 1]
    got = raw.reshape(layer.n, -1)[some].astype(np.float64)
    wide = [laid(one if i == 1 else (2, *one[1:]), "float64") for i, one in enumerate(lens)]
    exact = [values.view(ml_dtypes.float8_e4m3fn).astype(np.float64) if i == 1 else
             values.reshape(layer.n, -1)[some].copy().view(ml_dtypes.float8_e4m3fn).astype(np.float64).ravel()
             for i, values in enumerate(data)]
    exact[out] = np.zeros(got.size)
    x, w, y = wide
    if direction == "F":
        host.convolution_forward(x, w, layer.conv(), y)(*(exact[i] for i in (0, 1, 2)))
    else:
        host.convolution_backward_data(y, w, layer.conv(), x)(*(exact[i] for i in (2, 1, 0)))
    want = exact[out].reshape(2, -1)
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


def measure(handle, host, layer, directions: str, rng, checked: bool):
    lens = layer.all_lens
    data = [codes(math.prod(one), rng) for one in lens]
    table = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float16).view(np.uint16)
    small = [handle.upload(values) for values in data]
    large = [handle.upload(table[values].view(np.uint8)) for values in data]
    for direction in directions:
        out = 2 if direction == "F" else 0
        few = layer.c <= FEW
        if few and direction == "B":
            continue
        ours, peer = (registry.BY_NAME[name] for name in (OF_FEW if few else SOLVERS[direction]))
        # Results have memory of their own: the other direction reads these tensors.
        count = math.prod(lens[out])
        eights = [handle.empty((count,), TYPE) if i == out else b for i, b in enumerate(small)]
        halves = [handle.empty((count,), "float16") if i == out else b for i, b in enumerate(large)]
        eight = Calls(handle, direction, lens, (TYPE,) * 3, eights, ours)
        problem = eight.problem(layer)
        default = ours.default_config(handle.device, problem)
        runs = {"float16": Calls(handle, direction, lens, ("float16",) * 3, halves, peer).run(layer),
                "chosen": eight.run(layer, default),
                "random": Calls(handle, direction, lens, (TYPE,) * 3, eights, ours, 1).run(layer)}
        for tile in ours.parameters(handle.device, problem)[0][1]:
            if ours.accepts(handle.device, problem, (tile,)):
                runs[tile] = eight.run(layer, (tile,))
        times = seconds(handle, runs)
        row = {"layer": layer.text, "direction": NAMES[direction], "tile": default[0],
               "flops": 2 * layer.products, "bytes": sum(values.size for values in data),
               "error": error_of(handle, host, layer, direction, data, small, ours) if checked else math.nan,
               **{str(name): value for name, value in times.items()}}
        row["best"] = min((value, name) for name, value in times.items() if isinstance(name, int))[1]
        yield row


def together(runs: list[list[dict]]) -> list[dict]:
    """Return the rows of several runs as one's."""
    rows = []
    for same in zip(*runs, strict=True):
        row = dict(same[0])
        for name in row.keys() & {"float16", "chosen", "random", *(key for key in row if key.isdigit())}:
            row[name] = statistics.median(one[name] for one in same)
        row["best"] = min((int(name) for name in row if name.isdigit()), key=lambda tile: row[str(tile)])
        row["ratios"] = [round(one["float16"] / one["chosen"], 4) for one in same]
        rows.append(row)
    return rows


def line_of(row: dict) -> str:
    tiles = " ".join(f"{name}:{row[name] * 1e6:.1f}" for name in sorted((k for k in row if k.isdigit()), key=int))
    return (f"{row['layer']:44} {row['direction']:8} {row['float16'] * 1e6:7.1f} {row['chosen'] * 1e6:7.1f} "
            f"{row['tile']:2} {row['float16'] / row['chosen']:5.2f} {row['float16'] / row[str(row['best'])]:5.2f} "
            f"{row['random'] * 1e6:7.1f} {row['flops'] / row['chosen'] * 1e-12:6.0f} "
            f"{row['bytes'] / row['chosen'] * 1e-12:5.2f} {row['error']:8.1e}  {tiles}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", default="resnet50", choices=LISTS, help="of convolutions.txt (default: resnet50)")
    parser.add_argument("--batch", type=int, default=256, help="images (default: 256)")
    parser.add_argument("--directions", default="FB", choices=("F", "B", "FB"), help="forward, data (default: both)")
    parser.add_argument("--device", help="as `miopyx doctor` names it (default: the best one)")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT",
                        help="layers with this in a word of their line (may be repeated)")
    parser.add_argument("--unchecked", action="store_true", help="without errors, for which the host path computes")
    parser.add_argument("--runs", type=int, default=1, help="default: 1; the first one finds errors")
    parser.add_argument("--json", metavar="OUT", help="where rows go, seconds")
    options = parser.parse_args()
    handle = miopyx.Handle(options.device) if options.device else miopyx.Handle()
    if handle.device.info.runtime != "nvidia" or handle.device.info.isa != "sm90":
        parser.error(f"{handle.device.name} is no Hopper GPU")
    host, rng, runs = miopyx.Handle("host"), np.random.default_rng(), []
    print(f"{handle.device.name}, batch {options.batch}; microseconds")
    print(f"{'layer':44} {'':8} {'float16':>7} {'float8':>7} {'':2} {'ratio':>5} {'best':>5} {'random':>7} "
          f"{'TFLOPS':>6} {'TB/s':>5} {'error':>8}  tiles")
    for number in range(options.runs):
        runs.append([])
        for layer in layers(options.list, options.batch, options.only):
            if layer.groups > 1 and layer.c // layer.groups < 16:
                continue
            for row in measure(handle, host, layer, options.directions, rng, number == 0 and not options.unchecked):
                runs[-1].append(row)
                print(line_of(row), flush=True)
    rows = together(runs)
    if not rows:
        parser.error("no layer of the list has that")
    for way in dict.fromkeys(row["direction"] for row in rows):
        same = [row for row in rows if row["direction"] == way]
        chosen, best = ([row["float16"] / row[name if name == "chosen" else str(row["best"])] for row in same]
                        for name in ("chosen", "best"))
        print(f"{way:8} {statistics.geometric_mean(chosen):.2f} times float16's speed as chosen, least "
              f"{min(chosen):.2f}; by the best tile {statistics.geometric_mean(best):.2f}; largest error "
              f"{max(row['error'] for row in same):.1e}")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
