"""Times layer norm, RMS norm and group norm on a GPU beside PyTorch, torch.compile and a copy of as many bytes.

    python -P bench/norms.py --device cuda:0
    python -P bench/norms.py --device cuda:0 --compile      # beside torch.compile, too: half a minute a row
    python -P bench/norms.py --device cuda:0 --json OUT     # a record, too

Prints microseconds, the bytes that must move by the time (GB/s), and its share of what a copy reaches.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import miopyx
from miopyx import TensorDescriptor

sys.path.append(str(Path(__file__).parent))

import record
from record import microseconds

SIZES = [
    *[("layer", (4096, n), dtype) for dtype in ("float32", "bfloat16") for n in (1024, 2048, 4096, 8192, 16384)],
    ("layer", (32768, 768), "bfloat16"), ("layer", (65536, 64), "float32"), ("layer", (32, 150528), "float32"),
    ("t5", (4096, 4096), "bfloat16"), ("group", (8, 320, 64, 64), "float32"), ("group", (8, 320, 64, 64), "bfloat16"),
]
GROUPS = 32


def ours(handle, kind, lens, dtype):
    """Return calls of forward and backward."""
    weights = lens[1:2] if kind == "group" else lens[1:]
    outer = (lens[0], GROUPS) if kind == "group" else lens[:1]
    x, w, s = (TensorDescriptor(t, n) for t, n in ((dtype, lens), (dtype, weights), ("float32", outer)))

    def memory(desc):
        values = np.random.default_rng(0).standard_normal(int(np.prod(desc.lens)), np.float32)
        bits = (values.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" and desc is not s else values
        return handle.upload(bits)
    data = {name: memory(x) for name in ("x", "y", "dy", "dx")}
    data |= {name: memory(w) for name in ("weight", "bias", "dw", "db")}
    data |= {name: memory(s) for name in ("mean", "rstd")}
    if kind == "layer":
        plans = (handle.layer_norm_forward(x, x, 1, w, w, s, s), handle.layer_norm_backward(x, x, x, s, s, 1, w, w, w))
    elif kind == "t5":
        plans = handle.t5_layer_norm_forward(x, x, w, s), handle.t5_layer_norm_backward(x, x, x, s, w, w)
    else:
        plans = (handle.group_norm_forward(x, x, GROUPS, w, w, s, s),
                 handle.group_norm_backward(x, x, x, s, s, GROUPS, w, w, w))
    calls = [lambda plan=plan, given=[data[name] for name in plan.buffers]: plan(*given) for plan in plans]
    copy = handle.copy_tensor(x, x)
    return [*calls, lambda: copy(data["x"], data["y"])]


def torchs(kind, lens, dtype, device="cuda"):
    """Return PyTorch's forward and backward by its own operators, and its copy."""
    import torch

    aten = torch.ops.aten
    x, dy, y = (torch.randn(lens, device=device, dtype=getattr(torch, dtype)) for _ in range(3))
    weights = lens[1:2] if kind == "group" else lens[1:]
    w, b = (torch.randn(weights, device=device, dtype=x.dtype) for _ in range(2))
    if kind == "group":
        n, c, pixels = lens[0], lens[1], int(np.prod(lens[2:]))
        _, mean, rstd = aten.native_group_norm(x, w, b, n, c, pixels, GROUPS, 1e-5)
        runs = (lambda: aten.native_group_norm(x, w, b, n, c, pixels, GROUPS, 1e-5),
                lambda: aten.native_group_norm_backward(dy, x, mean, rstd, w, n, c, pixels, GROUPS, [True] * 3))
    elif kind == "layer":
        _, mean, rstd = aten.native_layer_norm(x, weights, w, b, 1e-5)
        runs = (lambda: aten.native_layer_norm(x, weights, w, b, 1e-5),
                lambda: aten.native_layer_norm_backward(dy, x, weights, mean, rstd, w, b, [True] * 3))
    else:
        leaf, scale = x.clone().requires_grad_(), w.clone().requires_grad_()
        out = torch.nn.functional.rms_norm(leaf, weights, scale, 1e-5)
        runs = (lambda: torch.nn.functional.rms_norm(x, weights, w, 1e-5),
                lambda: torch.autograd.grad(out, (leaf, scale), dy, retain_graph=True))
    return [*runs, lambda: y.copy_(x)]


def compiled(kind, lens, dtype, device="cuda"):
    """Return torch.compile's forward, as training needs it, and backward."""
    import torch

    functional = torch.nn.functional
    torch.compiler.reset()
    weights = lens[1:2] if kind == "group" else lens[1:]
    x, *w = (torch.randn(n, device=device, dtype=getattr(torch, dtype), requires_grad=True)
             for n in (lens, *[weights] * (1 if kind == "t5" else 2)))
    dy = torch.randn(lens, device=device, dtype=x.dtype)
    norm = torch.compile({
        "group": lambda x, w, b: functional.group_norm(x, GROUPS, w, b, 1e-5),
        "layer": lambda x, w, b: functional.layer_norm(x, weights, w, b, 1e-5),
        "t5": lambda x, w: functional.rms_norm(x, weights, w, 1e-5),
    }[kind])
    out = norm(x, *w)
    return [lambda: norm(x, *w), lambda: torch.autograd.grad(out, (x, *w), dy, retain_graph=True)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--compile", action="store_true")
    record.add_option(parser)
    options = parser.parse_args()
    rows = []
    with miopyx.Handle(options.device) as handle:
        try:
            import torch

            there = torch.cuda.is_available()
        except ImportError:
            torch, there = None, False
        for kind, lens, dtype in SIZES:
            mine = [microseconds(run, handle.finish) for run in ours(handle, kind, lens, dtype)]
            theirs, fused = [float("nan")] * 3, []
            if there:
                theirs = [microseconds(run, torch.cuda.synchronize) for run in torchs(kind, lens, dtype)]
                if options.compile:
                    fused = [microseconds(run, torch.cuda.synchronize) for run in compiled(kind, lens, dtype)]
            nbytes = int(np.prod(lens)) * (4 if dtype == "float32" else 2)
            copy = 2 * nbytes / min(mine[2], theirs[2] if there else mine[2]) / 1e3
            row = {"kind": kind, "dtype": dtype, "shape": "x".join(map(str, lens)), "copy_gb_s": copy}
            words = [f"{kind:5} {dtype:8} {'x'.join(map(str, lens)):14} copy {copy:5.0f} GB/s"]
            for name, i, tensors in (("forward", 0, 2), ("backward", 1, 3)):
                rate = tensors * nbytes / mine[i] / 1e3
                row |= {f"{name}_us": mine[i], f"{name}_of_a_copy": rate / copy}
                row |= {f"{name}_torch_us": theirs[i]} if there else {}
                row |= {f"{name}_compiled_us": fused[i]} if fused else {}
                words.append(f"{name} {mine[i]:7.1f} us {rate:5.0f} GB/s {rate / copy:4.2f} of a copy, "
                             f"PyTorch {theirs[i]:7.1f} us" + (f", compiled {fused[i]:7.1f} us" if fused else ""))
            rows.append(row)
            print(" | ".join(words), flush=True)
        record.write(options.json, handle, torch, rows)


if __name__ == "__main__":
    main()
