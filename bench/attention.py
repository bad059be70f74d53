"""Times attention, forward and backward, beside PyTorch's scaled_dot_product_attention.

    python -P bench/attention.py                                     on the best CPU device, beside PyTorch on the CPU
    python -P bench/attention.py --device cuda:0 --dtype bfloat16    on a GPU, beside PyTorch on CUDA
    python -P bench/attention.py --only "512"                        shapes whose name has that
    python -P bench/attention.py --json OUT                          a record, too

Prints milliseconds of both, the medians of runs in turns, many calls enqueued before one wait, how many times as fast
as PyTorch, and billions of operations a second of both: 4 n h s t d forward, 10 n h s t d backward (PyTorch's
gradients, which include no forward pass), of a causal mask half of them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

import miopyx
from miopyx import MhaDescriptor, TensorDescriptor

sys.path.append(str(Path(__file__).parent))

import record

SHAPES = [  # n, h, s, d, causal
    (8, 12, 128, 64, False), (1, 12, 512, 64, False), (1, 8, 1024, 64, True), (2, 16, 256, 128, False),
    (1, 4, 2048, 64, False), (32, 8, 32, 32, False),
]
FORWARD = ("Q", "K", "V", "O", "M", "ZInv")
LONG = [  # of today's networks, for GPUs
    (16, 16, 512, 64, False), (8, 12, 1024, 64, True), (4, 32, 2048, 128, True), (2, 16, 4096, 64, False),
    (1, 24, 4096, 128, False),
]


def random(rng, shape, dtype):
    """Return numbers of a type as they are uploaded: of bfloat16 the bits."""
    values = np.resize(rng.standard_normal(1_000_003, np.float32), shape)
    return (values.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else values.astype(dtype)


def plan_of(handle, direction, tensors, types, mask):
    """Return the call of a solution on these buffers."""
    problem = miopyx.miopenCreateMhaProblem(MhaDescriptor(types["Q"].lens[3] ** -0.5), direction)
    arguments = []
    for name, buffer in tensors.items():
        miopyx.miopenSetProblemTensorDescriptor(problem, f"miopenTensorMha{name}", types[name])
        arguments.append((getattr(miopyx, f"miopenTensorMha{name}"), None, buffer))
    arguments.append((miopyx.miopenTensorMhaMask, None, mask))
    solution = miopyx.miopenFindSolutions(handle, problem, None, 1)[0]
    return lambda: miopyx.miopenRunSolution(handle, solution, len(arguments), arguments, None, 0)


def milliseconds(calls, waits, seconds=1.0):
    """Return the medians of calls that take turns."""
    counts = []
    for call, wait in zip(calls, waits, strict=True):
        for _ in range(2):
            began = perf_counter()
            call()
            wait()
        counts.append(max(1, int(0.01 / (perf_counter() - began))))
    times = [[] for _ in calls]
    end = perf_counter() + seconds
    while perf_counter() < end or len(times[0]) < 3:
        for call, wait, count, its in zip(calls, waits, counts, times, strict=True):
            began = perf_counter()
            for _ in range(count):
                call()
            wait()
            its.append((perf_counter() - began) / count * 1e3)
    return [statistics.median(its) for its in times]


def say(name, direction, mine, other, flops):
    """Print a line, and return it as a row of the record."""
    rates = "".join(f" {flops / time * 1e-6:10.1f}" for time in (mine, other))
    print(f"{name:24} {direction:8} {mine:9.3f} {other:9.3f} ms   x {other / mine:5.2f}  {rates} GF/s", flush=True)
    return {"shape": name, "direction": direction, "ms": mine, "torch_ms": other, "gflops": flops / mine * 1e-6}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device")
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--seconds", type=float, default=1.0)
    record.add_option(parser)
    args = parser.parse_args()
    rows = []
    import torch

    handle = miopyx.Handle(args.device) if args.device else miopyx.Handle()
    cuda = bool(args.device) and args.device.startswith("cuda")
    print(f"{handle.device.name}, {args.dtype}; PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    rng = np.random.default_rng(0)
    place = "cuda" if cuda else "cpu"
    wait = torch.cuda.synchronize if cuda else lambda: None
    for n, h, s, d, causal in SHAPES + LONG * cuda:
        name = f"{n} x {h} x {s} x {d}{' causal' if causal else ''}"
        if args.only not in name:
            continue
        types = dict.fromkeys(("Q", "K", "V", "O", "DO", "DQ", "DK", "DV"), TensorDescriptor(args.dtype, (n, h, s, d)))
        types |= dict.fromkeys(("M", "ZInv"), TensorDescriptor("float32", (n, h, s, 1)))
        t = {key: handle.upload(random(rng, types[key].lens, types[key].dtype)) for key in types}
        kind = getattr(torch, args.dtype)
        q, k, v, dy = (torch.randn(n, h, s, d, device=place, dtype=kind, requires_grad=i < 3) for i in range(4))
        attention = torch.nn.functional.scaled_dot_product_attention
        out = attention(q, k, v, is_causal=causal)

        def forward(q=q, k=k, v=v, causal=causal, attention=attention):
            with torch.no_grad():
                attention(q, k, v, is_causal=causal)

        def backward(out=out, q=q, k=k, v=v, dy=dy):
            torch.autograd.grad(out, (q, k, v), dy, retain_graph=True)

        mine, other = milliseconds([plan_of(handle, 0, {key: t[key] for key in FORWARD}, types, int(causal)), forward],
                                   [handle.finish, wait], args.seconds)
        flops = n * h * s * s * d * (0.5 if causal else 1)
        rows.append(say(name, "forward", mine, other, 4 * flops) | {"dtype": args.dtype})
        mine, other = milliseconds([plan_of(handle, 1, t, types, int(causal)), backward], [handle.finish, wait],
                                   args.seconds)
        rows.append(say(name, "backward", mine, other, 10 * flops) | {"dtype": args.dtype})
    record.write(args.json, handle, torch, rows)


if __name__ == "__main__":
    main()
