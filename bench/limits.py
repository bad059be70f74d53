"""What an NVIDIA GPU reaches: large products by cuBLAS and a copy, both through PyTorch.

    python bench/limits.py [--json OUT]

Rates are operations a second of the best of several square products, bytes a second of a copy that reads half of them.
They are what `beside_cudnn.py --table` takes for the limits of convolutions: operations at the one rate, tensors, each
read or written once, at the other.  float32 counts as three products of halves, which is how it reaches more than the
device's float32 units give.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path

SIZES = (4096, 8192)
COPIED = 2 << 30  # bytes, half of them read
TURNS, CALLS = 5, 20
HALVES_A_FLOAT = 3


def seconds(torch, run: Callable[[], object]) -> float:
    """Return the time of a call among others, a median of turns."""
    found = []
    for _ in range(TURNS + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(CALLS):
            run()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) * 1e-3 / CALLS)
    return statistics.median(found[1:])  # the first turn warms up


def product(torch, name: str, size: int) -> Callable[[], object]:
    """Return a product of two square matrices of normal numbers."""
    wide = torch.float32 if name == "tf32" else torch.bfloat16 if name == "float8" else getattr(torch, name)
    a, b = (torch.randn(size, size, device="cuda").to(wide) for _ in range(2))
    if name != "float8":
        out = torch.empty_like(a)
        return lambda: torch.mm(a, b, out=out)
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t()  # which takes the second one's columns in a row
    one = torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)


def measure() -> dict[str, float]:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    found = {name: max(2 * size**3 / seconds(torch, product(torch, name, size)) for size in SIZES)
             for name in ("float16", "bfloat16", "tf32", "float8")}
    found["float32"] = found["float16"] / HALVES_A_FLOAT
    a, b = (torch.zeros(COPIED // 2, dtype=torch.uint8, device="cuda") for _ in range(2))
    found["copy"] = COPIED / seconds(torch, lambda: b.copy_(a))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure()
    for name, rate in found.items():
        print(f"{name:9} {rate * 1e-12:7.2f} {'TB/s' if name == 'copy' else 'TFLOP/s'}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
