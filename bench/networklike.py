"""Random convolutions that are like networks' layers, as MIOpenDriver's command lines, for `bench/find_lists.py`.

    python bench/networklike.py 3000 --batches 1 2 4 8 --layouts NCHW NHWC > random.txt
    python bench/networklike.py --of LIST... --batches 1 4 --layouts NCHW NHWC > lists.txt

With `--of` the layers of lists, each once for every batch and layout, in place of random ones.  Filters, strides,
channels and sizes are those that networks have, in their proportions; no direction takes more than `--products` 10^9
products.
"""

from __future__ import annotations

import argparse
from math import prod
from typing import NamedTuple

import numpy as np

from miopyx.tools.driver import listing

CHANNELS = (16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640, 672, 768, 832,
            960, 1024, 1280, 1536, 2048)
SIZES = (7, 8, 10, 13, 14, 16, 17, 19, 20, 24, 27, 28, 32, 35, 38, 40, 48, 56, 64, 71, 75, 80, 96, 112, 128, 150, 160,
         224)
# Filters with their shares, in percent.
SQUARE = {1: 38, 3: 38, 5: 6, 7: 3}
LONG = ((1, 7), (7, 1), (1, 3), (3, 1), (1, 5), (5, 1))  # 4
DEPTHWISE = 8  # of 3x3, 5x5 and 7x7
GROUPED = 3    # of 3x3
MOST_BYTES = 1 << 29


class Layer(NamedTuple):
    """A convolution, square strides and dilations."""

    c: int
    h: int
    w: int
    k: int
    r: int
    s: int
    pad: tuple[int, int]
    stride: int = 1
    dilation: int = 1
    groups: int = 1

    def products(self, n: int) -> float:
        """Return the products of a direction, in 10^9."""
        return n * prod(self.y) * self.k * self.c // self.groups * self.r * self.s * 1e-9

    @property
    def y(self) -> tuple[int, ...]:
        """Return the size of an output image."""
        return tuple((size + 2 * pad - self.dilation * (taps - 1) - 1) // self.stride + 1
                     for size, pad, taps in zip((self.h, self.w), self.pad, (self.r, self.s), strict=True))

    def bytes(self, n: int) -> int:
        """Return the bytes of x, w and y in single precision."""
        return 4 * (n * self.c * self.h * self.w + n * self.k * prod(self.y)
                    + self.k * self.c // self.groups * self.r * self.s)

    def line(self, n: int, layout: str, direction: int) -> str:
        """Return a command line of MIOpenDriver."""
        return (f"./bin/MIOpenDriver conv -n {n} -c {self.c} -H {self.h} -W {self.w} -k {self.k} -y {self.r} "
                f"-x {self.s} -p {self.pad[0]} -q {self.pad[1]} -u {self.stride} -v {self.stride} -l {self.dilation} "
                f"-j {self.dilation} -g {self.groups} -m conv -F {direction} -I {layout} -f {layout} -O {layout}")


def draw(rng: np.random.Generator) -> Layer:
    """Return a random layer."""
    kind, size = rng.integers(100), int(rng.choice(SIZES))
    h, w = size, size if rng.random() < 0.9 else int(rng.choice(SIZES))
    c, k = (int(rng.choice(CHANNELS)) for _ in range(2))
    first = rng.random() < 0.05
    stride = 2 if rng.random() < 0.15 else 1
    for taps, share in SQUARE.items():
        if kind < share:
            dilation = int(rng.choice((2, 4))) if taps == 3 and stride == 1 and rng.random() < 0.06 else 1
            pad = dilation * (taps // 2) if rng.random() < 0.9 else 0
            return Layer(3 if first else c, h, w, k, taps, taps, (pad, pad), stride, dilation)
        kind -= share
    if kind < DEPTHWISE:
        taps = int(rng.choice((3, 3, 5, 7)))
        return Layer(c, h, w, c, taps, taps, (taps // 2,) * 2, stride, 1, c)
    if kind < DEPTHWISE + GROUPED:
        groups = int(rng.choice([g for g in (2, 4, 8, 16, 32) if c % g == 0]))
        return Layer(c, h, w, c, 3, 3, (1, 1), stride, 1, groups)
    r, s = LONG[rng.integers(len(LONG))]
    return Layer(c, h, w, k, r, s, (r // 2, s // 2))


def of_lists(paths: list[str]) -> list[Layer]:
    """Return the layers of lists, 2-D ones with square strides, each once."""
    found: dict[Layer, None] = {}
    for path in paths:
        for line in listing.read(path, "conv", {}):
            conv = getattr(line.work, "conv", None)
            if conv is None or len(set(conv.strides)) > 1 or len(set(conv.dilations)) > 1 or len(conv.pads) != 2:
                continue
            (_, c, h, w), (k, _, r, s) = (line.work.descriptors[name].lens for name in "xw")
            pad_h, pad_w = conv.pads
            found[Layer(c, h, w, k, r, s, (pad_h, pad_w), conv.strides[0], conv.dilations[0],
                        conv.group_count)] = None
    return list(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=0)
    parser.add_argument("--of", nargs="+", default=[], metavar="LIST")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--layouts", nargs="+", default=["NCHW", "NHWC"])
    parser.add_argument("--products", type=float, default=3.0, help="10^9 of a direction, at most")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)

    def fits(layer: Layer, n: int) -> bool:
        return min(layer.y) > 0 and layer.products(n) <= options.products and layer.bytes(n) <= MOST_BYTES

    lines: dict[str, None] = {}
    for layer in of_lists(options.of) if options.of else ():
        for n in options.batches:
            for layout in options.layouts:
                if fits(layer, n):
                    lines |= dict.fromkeys(layer.line(n, layout, direction) for direction in (1, 2, 4))
    while len(lines) < options.count:
        layer, n = draw(rng), int(rng.choice(options.batches))
        if fits(layer, n):
            lines[layer.line(n, str(rng.choice(options.layouts)), int(rng.choice((1, 2, 4))))] = None
    print(*rng.permutation([*lines]), sep="\n")


if __name__ == "__main__":
    main()
