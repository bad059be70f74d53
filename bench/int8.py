"""Forward convolutions of int8, sums as int32, beside our own float32 on the same device, the same layers in turns.

    python bench/int8.py [--list resnet50] [--batch 4] [--layout nchw] [--device NAME] [--only 3x3] [--json OUT]

Both sides take what Find takes.  Per layer: milliseconds of float32 and int8, medians of the turns, float32's by
int8's, 10^9 multiplications and additions a second, both solvers.  At the end the ratio's geometric mean, the least and
that of the products alone: where float32 goes by Winograd or FFT, it does fewer.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import miopyx
from miopyx import TensorDescriptor

sys.path.append(str(Path(__file__).parent))
from convolutions import layers

TURNS, BLOCK_S = 9, 0.03
DIRECT = ("Implicit", "Gemm", "Few", "Nv")  # of solvers' names: as many products as the formula has


class Side:
    """A layer in one type, by Find's choice."""

    def __init__(self, handle, layer, types: tuple[str, str, str], layout: int, rng: np.random.Generator) -> None:
        lens, conv = layer.all_lens, layer.conv()
        x, w, y = (TensorDescriptor(kind, one, layout=layout) for kind, one in zip(types, lens, strict=True))
        some = [rng.integers(-128, 128, math.prod(one)).astype(kind) for kind, one in zip(types, lens, strict=True)]
        memory = [handle.upload(values.view("u1")) for values in some]
        size = miopyx.miopenConvolutionForwardGetWorkSpaceSize(handle, w, x, conv, y)
        space = handle.upload(np.zeros(max(size, 1), np.uint8))
        miopyx.miopenFindConvolutionForwardAlgorithm(
            handle, x, memory[0], w, memory[1], conv, y, memory[2], 9, space, size, False)
        self.plan, self.memory, self.handle = handle.convolution_forward(x, w, conv, y), memory, handle
        self.solver, self.calls = str(self.plan.solver), 1
        self.calls = max(1, int(BLOCK_S / self.seconds()))

    def seconds(self) -> float:
        self.plan(*self.memory)
        self.handle.finish()
        start = time.perf_counter()
        for _ in range(self.calls):
            self.plan(*self.memory)
        self.handle.finish()
        return (time.perf_counter() - start) / self.calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", default="resnet50")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--layout", default="nchw", choices=["nchw", "nhwc"])
    parser.add_argument("--device", help="as `miopyx doctor` names it (default: the best one)")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="layers with this in their line")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    handle = miopyx.Handle(options.device) if options.device else miopyx.Handle()
    layout = miopyx.miopenTensorNHWC if options.layout == "nhwc" else miopyx.miopenTensorNCHW
    rng, rows = np.random.default_rng(), []
    print(f"{handle.device.name}, {options.layout}, batch {options.batch}")
    for layer in layers(options.list, options.batch, options.only):
        sides = [Side(handle, layer, types, layout, rng)
                 for types in (("float32",) * 3, ("int8", "int8", "int32"))]
        times = [[side.seconds() for side in sides] for _ in range(TURNS)]
        wide, narrow = (statistics.median(column) for column in zip(*times, strict=True))
        w, y = layer.all_lens[1:]
        rate = 2e-9 * math.prod(w[1:]) * math.prod(y) / narrow
        rows.append({"layer": layer.text, "float32_ms": wide * 1e3, "int8_ms": narrow * 1e3, "ratio": wide / narrow,
                     "rate": rate, "solvers": [side.solver for side in sides]})
        print(f"{layer.text:56} {wide * 1e3:9.3f} {narrow * 1e3:9.3f} {wide / narrow:6.2f} {rate:8.1f} "
              + " ".join(rows[-1]["solvers"]), flush=True)
        del sides
        handle.forget_calls()
    for name, some in (("all", rows), ("products", [row for row in rows if any(
            part in row["solvers"][0] for part in DIRECT)])):
        if some:
            ratios = [row["ratio"] for row in some]
            print(f"{name}: {statistics.geometric_mean(ratios):.2f} of float32's speed, least {min(ratios):.2f}, "
                  f"{len(some)} layers")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=0) + "\n")


if __name__ == "__main__":
    main()
