"""The host path beside PyTorch in float64, layer by layer and direction by direction, in one process and in turns.

    python bench/host_against_torch.py [--batch 4] [--threads 2] [--repeat 5] [--type float32] [--layout NCHW]
                                       [--json OUT]

miopyx computes tensors of the type with float64 sums, PyTorch float64 tensors; both do the same multiplications in
float64.  The threads of either library spin for some milliseconds after a call, on the core that the other's would run
on: a call is timed after a pause and a call that is not.
Needs PyTorch.  Prints GFLOP/s (2 n k ho wo c/g r s a layer) as medians, and their geometric means.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from functools import partial

import numpy as np

import miopyx

try:
    import torch
except ImportError:
    torch = None

# ResNet-50 v1.5: (c, h, k, filter, stride, pad)
LAYERS = [
    (3, 224, 64, 7, 2, 3),
    (64, 56, 64, 1, 1, 0), (64, 56, 64, 3, 1, 1), (64, 56, 256, 1, 1, 0), (256, 56, 64, 1, 1, 0),
    (256, 56, 128, 1, 1, 0), (128, 56, 128, 3, 2, 1), (128, 28, 512, 1, 1, 0), (256, 56, 512, 1, 2, 0),
    (512, 28, 128, 1, 1, 0), (128, 28, 128, 3, 1, 1),
    (512, 28, 256, 1, 1, 0), (256, 28, 256, 3, 2, 1), (256, 14, 1024, 1, 1, 0), (512, 28, 1024, 1, 2, 0),
    (1024, 14, 256, 1, 1, 0), (256, 14, 256, 3, 1, 1),
    (1024, 14, 512, 1, 1, 0), (512, 14, 512, 3, 2, 1), (512, 7, 2048, 1, 1, 0), (1024, 14, 2048, 1, 2, 0),
    (2048, 7, 512, 1, 1, 0), (512, 7, 512, 3, 1, 1),
]
DIRECTIONS = ("forward", "data", "weights")
PAUSE = 0.02  # seconds; libgomp spins for up to ten milliseconds


def seconds(call) -> float:
    time.sleep(PAUSE)
    call()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def prepare(handle, layer, batch: int, rng, dtype: str = "float32", layout: str = "NCHW"):
    """Return a layer's three directions by miopyx and by PyTorch (None without it), and the operations of each."""
    c, h, k, r, stride, pad = layer
    conv = miopyx.ConvolutionDescriptor((pad, pad), (stride, stride))
    ho = (h + 2 * pad - r) // stride + 1
    shapes = (batch, c, h, h), (k, c, r, r), (batch, k, ho, ho)
    x, w, y = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    if layout == "NHWC":
        x, w, y = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for a in (x, w, y))
    x_desc, w_desc, y_desc = (
        miopyx.TensorDescriptor(dtype, a.shape, [s // a.itemsize for s in a.strides]) for a in (x, w, y))
    dx, dw, out = map(np.empty_like, (x, w, y))
    ours = (
        partial(handle.convolution_forward(x_desc, w_desc, conv, y_desc), x, w, out),
        partial(handle.convolution_backward_data(y_desc, w_desc, conv, x_desc), y, w, dx),
        partial(handle.convolution_backward_weights(y_desc, x_desc, conv, w_desc), y, x, dw),
    )
    flops = 2 * y.size * c * r * r
    if torch is None:
        return ours, None, flops
    tx, tw, ty = (torch.from_numpy(a).double() for a in (x, w, y))
    geometry = ([stride] * 2, [pad] * 2, [1] * 2, False, [0] * 2, 1)
    backward = partial(torch.ops.aten.convolution_backward, ty, tx, tw, None, *geometry)
    peers = (
        partial(torch.ops.aten.convolution, tx, tw, None, *geometry),
        partial(backward, [True, False, False]),
        partial(backward, [False, True, False]),
    )
    return ours, peers, flops


def name_of(layer) -> str:
    c, h, k, r, stride, _ = layer
    return f"{c}x{h}x{h} -> {k} {r}x{r} s{stride}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--type", choices=("float32", "float64"), default="float32")
    parser.add_argument("--layout", choices=("NCHW", "NHWC"), default="NCHW")
    parser.add_argument("--json")
    options = parser.parse_args()
    if torch is None:
        sys.exit("PyTorch is not installed")
    os.environ["MIOPYX_NUM_THREADS"] = str(options.threads)
    torch.set_num_threads(options.threads)
    handle = miopyx.Handle("host")
    rng = np.random.default_rng()
    rows = []
    print(f"{options.type}, {options.layout}")
    print(f"{'layer':28} {'direction':9} {'miopyx':>8} {'PyTorch':>8} {'ratio':>6}   GFLOP/s, batch {options.batch}, "
          f"{options.threads} threads")
    for layer in LAYERS:
        ours, peers, flops = prepare(handle, layer, options.batch, rng, options.type, options.layout)
        for direction, mine, theirs in zip(DIRECTIONS, ours, peers, strict=True):
            times = [(seconds(mine), seconds(theirs)) for _ in range(options.repeat)]
            rate, peer = (flops / statistics.median(t) * 1e-9 for t in zip(*times, strict=True))
            name = name_of(layer)
            rows.append({"layer": name, "direction": direction, "miopyx": rate, "torch": peer})
            print(f"{name:28} {direction:9} {rate:8.1f} {peer:8.1f} {rate / peer:6.2f}", flush=True)
    for direction in DIRECTIONS:
        mine, peer = (statistics.geometric_mean(r[side] for r in rows if r["direction"] == direction)
                      for side in ("miopyx", "torch"))
        print(f"{'geometric mean':28} {direction:9} {mine:8.1f} {peer:8.1f} {mine / peer:6.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(vars(options) | {"rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
