"""Times attention, forward and backward, beside PyTorch's scaled_dot_product_attention.

    python -P bench/attention.py                      on the best CPU device, beside PyTorch on the CPU
    python -P bench/attention.py --device cuda:0      on a GPU, beside PyTorch on CUDA
    python -P bench/attention.py --only "512"         shapes whose name has that

Prints milliseconds of both, the medians of runs in turns, how many times as fast as PyTorch, and billions of operations
a second by our time: 4 n h s t d forward, 10 n h s t d backward (PyTorch's gradients, which include no forward pass).
"""

from __future__ import annotations

import argparse
import statistics
from time import perf_counter

import numpy as np

import miopyx
from miopyx import MhaDescriptor, TensorDescriptor

SHAPES = [  # n, h, s, d, causal
    (8, 12, 128, 64, False), (1, 12, 512, 64, False), (1, 8, 1024, 64, True), (2, 16, 256, 128, False),
    (1, 4, 2048, 64, False), (32, 8, 32, 32, False),
]


def plan_of(handle, direction, tensors, mask):
    """Return the call of a solution on these tensors."""
    problem = miopyx.miopenCreateMhaProblem(MhaDescriptor(tensors["Q"].shape[3] ** -0.5), direction)
    arguments = []
    for name, values in tensors.items():
        miopyx.miopenSetProblemTensorDescriptor(problem, f"miopenTensorMha{name}", TensorDescriptor.of(values))
        arguments.append((getattr(miopyx, f"miopenTensorMha{name}"), None, handle.upload(values)))
    arguments.append((miopyx.miopenTensorMhaMask, None, mask))
    solution = miopyx.miopenFindSolutions(handle, problem, None, 1)[0]
    return lambda: miopyx.miopenRunSolution(handle, solution, len(arguments), arguments, None, 0)


def milliseconds(calls, waits, seconds=1.0):
    """Return the medians of calls that take turns."""
    for call, wait in zip(calls, waits, strict=True):
        call()
        wait()
    times = [[] for _ in calls]
    end = perf_counter() + seconds
    while perf_counter() < end or len(times[0]) < 3:
        for call, wait, its in zip(calls, waits, times, strict=True):
            began = perf_counter()
            call()
            wait()
            its.append((perf_counter() - began) * 1e3)
    return [statistics.median(its) for its in times]


def say(name, direction, mine, other, flops):
    ratio, rate = other / mine, flops / mine * 1e-6
    print(f"{name:24} {direction:8} {mine:9.3f} {other:9.3f} ms   x {ratio:5.2f}   {rate:8.1f} GF/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device")
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    import torch

    handle = miopyx.Handle(args.device) if args.device else miopyx.Handle()
    cuda = bool(args.device) and args.device.startswith("cuda")
    print(f"{handle.device.name}, {args.dtype}; PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    rng = np.random.default_rng(0)
    place = "cuda" if cuda else "cpu"
    wait = torch.cuda.synchronize if cuda else lambda: None
    for n, h, s, d, causal in SHAPES:
        name = f"{n} x {h} x {s} x {d}{' causal' if causal else ''}"
        if args.only not in name:
            continue
        t = {key: rng.standard_normal((n, h, s, d), np.float32).astype(args.dtype) for key in ("Q", "K", "V", "O")}
        t |= {key: np.zeros((n, h, s, 1), np.float32) for key in ("M", "ZInv")}
        q, k, v = (torch.tensor(t[key], device=place, requires_grad=True) for key in "QKV")
        attention = torch.nn.functional.scaled_dot_product_attention
        out = attention(q, k, v, is_causal=causal)
        dy = torch.randn_like(out)

        def forward(q=q, k=k, v=v, causal=causal, attention=attention):
            with torch.no_grad():
                attention(q, k, v, is_causal=causal)

        def backward(out=out, q=q, k=k, v=v, dy=dy):
            torch.autograd.grad(out, (q, k, v), dy, retain_graph=True)

        mine, other = milliseconds([plan_of(handle, 0, t, int(causal)), forward], [handle.finish, wait])
        flops = n * h * s * s * d * (0.5 if causal else 1)
        say(name, "forward", mine, other, 4 * flops)
        more = {key: rng.standard_normal((n, h, s, d), np.float32).astype(args.dtype)
                for key in ("DO", "DQ", "DK", "DV")}
        mine, other = milliseconds([plan_of(handle, 1, t | more, int(causal)), backward], [handle.finish, wait])
        say(name, "backward", mine, other, 10 * flops)


if __name__ == "__main__":
    main()
