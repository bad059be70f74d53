"""Times reductions and dropout beside PyTorch, on a CPU or a GPU.

    python -P bench/reductions.py                     # an OpenCL CPU device; ratios of medians of interleaved runs
    python -P bench/reductions.py --device cuda:0     # beside PyTorch, torch.compile and a copy of as many bytes
    python -P bench/reductions.py --json OUT          # a record, too

A ratio above 1 says that miopyx is faster.  Bytes are those that must move: A once, what is written once.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

import miopyx
from miopyx import DropoutDescriptor, ReduceTensorDescriptor, TensorDescriptor

sys.path.append(str(Path(__file__).parent))

import record

SIZES = [
    ("sum", (4096, 1024), (1,)), ("sum", (4096, 1024), (0,)), ("sum", (1 << 24,), (0,)), ("sum", (1 << 18,), (0,)),
    ("sum", (512, 1024), (1,)), ("sum", (512, 1024), (0,)), ("sum", (32, 256, 56, 56), (0, 2, 3)),
    ("sum", (32, 56, 56, 256), (0, 1, 2)), ("mean", (64, 512, 7, 7), (2, 3)), ("sum", (64, 64, 4096), (1,)),
    ("sum", (65536, 64), (1,)), ("sum", (65536, 64), (0,)), ("sum", (1 << 20, 8), (1,)), ("sum", (1 << 20, 3), (0,)),
    ("norm", (4096, 1024), (1,)), ("prod", (4096, 1024), (1,)), ("amax", (4096, 1024), (1,)),
    ("max", (4096, 1024), (1,)), ("max", (4096, 1024), (0,)), ("argmax", (4096, 1024), (1,)),
    ("argmax", (4096, 1024), (0,)), ("argmax", (1 << 24,), (0,)),
]
HALVES = [("sum", (4096, 4096), (1,)), ("sum", (4096, 4096), (0,)), ("sum", (1 << 24,), (0,)),
          ("max", (4096, 4096), (1,)), ("argmax", (4096, 4096), (1,))]
OPS = {"sum": 0, "prod": 1, "max": 3, "argmax": 3, "amax": 4, "mean": 5, "norm": 7}
DROPOUTS = [((1 << 22,), "float32"), ((1 << 24,), "float32"), ((1 << 24,), "bfloat16")]


def bits(values, dtype):
    return (values.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else values


def ours(handle, op, lens, axes, dtype, values):
    """Return a call."""
    a = TensorDescriptor(dtype, lens)
    c = TensorDescriptor(dtype, tuple(1 if i in axes else n for i, n in enumerate(lens)))
    desc = ReduceTensorDescriptor(OPS[op], "float32", 1, int(op == "argmax"))
    plan = handle.reduce_tensor(desc, a, c)
    given = [handle.upload(bits(values, dtype)), handle.empty(c)]
    if op == "argmax":
        given.append(handle.empty(c.lens, "int32"))
    return lambda: plan(*given)


def torchs(op, axes, x):
    """Return a function of PyTorch's."""
    import torch

    return {
        "sum": lambda v: v.sum(axes), "mean": lambda v: v.mean(axes), "prod": lambda v: v.prod(axes[0]),
        "max": lambda v: v.amax(axes), "amax": lambda v: torch.linalg.vector_norm(v, float("inf"), axes),
        "norm": lambda v: torch.linalg.vector_norm(v, 2, axes),
        "argmax": lambda v: v.max(axes[0]) if v.ndim > 1 else v.argmax(),
    }[op]


def dropouts(handle, lens, dtype, values):
    """Return calls of forward and backward."""
    x = TensorDescriptor(dtype, lens)
    size = miopyx.miopenDropoutGetStatesSize(handle)
    states = handle.upload(np.zeros(size, np.uint8))
    desc = DropoutDescriptor()
    miopyx.miopenSetDropoutDescriptor(desc, handle, 0.5, states, size, 1, False, True, 0)
    forward, backward = handle.dropout_forward(desc, x, x), handle.dropout_backward(desc, x, x)
    data, y, dx = handle.upload(bits(values, dtype)), handle.empty(x), handle.empty(x)
    mask = handle.empty((int(np.prod(lens)),), "int8")
    return (lambda: forward(data, y, mask, states)), (lambda: backward(y, dx, mask))


def medians(calls, wait, rounds, seconds=0.02, statistic=statistics.median):
    """Return the median microseconds of each call; the calls take turns."""
    counts, times = [], [[] for _ in calls]
    for call in calls:
        call()
        wait()
        began = perf_counter()
        call()
        wait()
        counts.append(max(1, int(seconds / max(perf_counter() - began, 1e-6))))
    for _ in range(rounds):
        for call, count, found in zip(calls, counts, times, strict=True):
            began = perf_counter()
            for _ in range(count):
                call()
            wait()
            found.append((perf_counter() - began) / count * 1e6)
    return [statistic(found) for found in times]


def show(name, lens, axes, dtype, times, nbytes, copy):
    """Print a line, and return it as a row of the record."""
    words = [f"{name:8} {dtype:8} {'x'.join(map(str, lens)):14} {','.join(map(str, axes)):6} "
             f"{times[0]:8.1f} us {nbytes / times[0] / 1e3:6.1f} GB/s"]
    words += [f"PyTorch {t:8.1f} us, ratio {t / times[0]:5.2f}" for t in times[1:2]]
    words += [f"compiled {t:8.1f} us, ratio {t / times[0]:5.2f}" for t in times[2:3]]
    if copy:
        words.append(f"{nbytes / times[0] / 1e3 / copy:4.2f} of a copy")
    print(" | ".join(words), flush=True)
    row = {"name": name, "dtype": dtype, "shape": "x".join(map(str, lens)), "axes": list(axes),
           **dict(zip(("us", "torch_us", "compiled_us"), times, strict=False)), "gb_s": nbytes / times[0] / 1e3}
    return row | ({"of_a_copy": row["gb_s"] / copy} if copy else {})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--least", action="store_true", help="the least of many short runs: for a busy machine")
    parser.add_argument("--only", default="", help="part of a line's name")
    record.add_option(parser)
    options = parser.parse_args()
    rows = []
    with miopyx.Handle(options.device or None) as handle:
        try:
            import torch
        except ImportError:
            torch = None
        gpu = options.device.startswith("cuda")
        how = {"seconds": 0.004, "statistic": min} if options.least else {}
        if torch is not None and not gpu:
            torch.set_num_threads(handle.device.compute_units)

        def wait():
            handle.finish()
            if gpu and torch is not None:
                torch.cuda.synchronize()

        def copy_rate(lens, dtype):
            desc = TensorDescriptor(dtype, lens)
            plan, one, two = handle.copy_tensor(desc, desc), handle.empty(desc), handle.empty(desc)
            return 2 * desc.nbytes / medians([lambda: plan(one, two)], wait, 5)[0] / 1e3
        cases = [(*size, "float32") for size in SIZES] + [(*size, "bfloat16") for size in HALVES]
        for op, lens, axes, dtype in cases:
            if options.only not in f"{op} {dtype} {'x'.join(map(str, lens))}":
                continue
            values = np.random.default_rng(0).standard_normal(lens, np.float32)
            calls = [ours(handle, op, lens, axes, dtype, values)]
            if torch is not None:
                x = torch.from_numpy(values).to("cuda" if gpu else "cpu").to(getattr(torch, dtype))
                function = torchs(op, axes, x)
                calls.append(lambda function=function, x=x: function(x))
                if gpu:
                    compiled = torch.compile(function, dynamic=False)
                    calls.append(lambda compiled=compiled, x=x: compiled(x))
            size = 4 if dtype == "float32" else 2
            result = int(np.prod([n for i, n in enumerate(lens) if i not in axes]))
            times = medians(calls, wait, options.rounds, **how)
            rows.append(show(op, lens, axes, dtype, times, values.size * size + result * size,
                             copy_rate(lens, dtype) if gpu else 0))
        for lens, dtype in DROPOUTS:
            if options.only not in f"dropout {dtype}":
                continue
            values = np.random.default_rng(0).standard_normal(lens, np.float32)
            forward, backward = dropouts(handle, lens, dtype, values)
            nbytes = values.size * (9 if dtype == "float32" else 5)
            theirs = [[], []]
            if torch is not None:
                x = torch.from_numpy(values).to("cuda" if gpu else "cpu").to(getattr(torch, dtype))
                _, mask = torch.ops.aten.native_dropout(x, 0.5, True)
                theirs = [[lambda x=x: torch.ops.aten.native_dropout(x, 0.5, True)],
                          [lambda x=x, mask=mask: torch.ops.aten.native_dropout_backward(x, mask, 2.0)]]
            for name, call, other in (("dropout", forward, theirs[0]), ("backward", backward, theirs[1])):
                times = medians([call, *other], wait, options.rounds, **how)
                rows.append(show(name, lens, (), dtype, times, nbytes, copy_rate(lens, dtype) if gpu else 0))
        record.write(options.json, handle, torch, rows)


if __name__ == "__main__":
    main()
