"""What PyTorch's operators take for tensors of one element, alone and with miopyx.torch enabled, whoever runs them.

    python bench/torch_overhead.py [--device cpu] [--calls 2000] [--repeat 7]

Per operator four columns, microseconds of a call by the clock around `--calls` of them in a row, the least of
`--repeat` such rows: PyTorch alone; with a kernel in Python in its place that does nothing but call PyTorch's, which is
what PyTorch itself takes to get there; enabled, where the problem is PyTorch's; and enabled, where it is miopyx's.  The
last two say how much that is more than PyTorch alone.  On CUDA that is the host's time: the device does less.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

try:
    import torch
except ImportError:
    sys.exit("PyTorch is not installed")
import miopyx.torch
from miopyx.torch import _layers, choice

F = torch.nn.functional


def calls(device: str) -> dict[str, tuple[str, Callable[[], Any]]]:
    """Return what is timed: the operator in aten, and a call."""
    with torch.device(device):
        x, w, p = torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1), torch.ones(1)
        mean, var, dy = torch.zeros(1), torch.ones(1), torch.ones(1, 1, 1, 1)
        pair = torch.ones(2, 1, 1, 1)  # statistics want more than one element
    backward = torch.ops.aten.convolution_backward.default
    norm = torch.ops.aten.native_batch_norm.default
    saved = norm(pair, p, p, mean.clone(), var.clone(), True, 0.1, 1e-5)[1:]
    gradients = torch.ops.aten.native_batch_norm_backward.default
    ones, zeros = [1, 1], [0, 0]
    return {
        "convolution": ("convolution", lambda: F.conv2d(x, w)),
        "convolution with bias": ("convolution", lambda: F.conv2d(x, w, p)),
        "its two gradients": ("convolution_backward", lambda: backward(
            dy, x, w, None, ones, zeros, ones, False, zeros, 1, [True, True, False])),
        "batch norm, inference": ("native_batch_norm", lambda: norm(x, p, p, mean, var, False, 0.1, 1e-5)),
        "batch norm, training": ("native_batch_norm", lambda: norm(pair, p, p, mean, var, True, 0.1, 1e-5)),
        "its gradients": ("native_batch_norm_backward", lambda: gradients(
            pair, pair, p, mean, var, *saved, True, 1e-5, [True, True, True])),
        "average": ("avg_pool2d", lambda: F.avg_pool2d(x, 1)),
        "softmax": ("_softmax", lambda: torch.ops.aten._softmax.default(x, 1, False)),
    }


def least(call: Callable[[], Any], count: int, repeat: int, wait: Callable[[], Any]) -> float:
    """Return microseconds of a call."""
    found = []
    for _ in range(repeat + 1):
        wait()
        began = time.perf_counter()
        for _ in range(count):
            call()
        found.append((time.perf_counter() - began) / count * 1e6)
        wait()
    return min(found[1:])


@contextlib.contextmanager
def passed_on(name: str, device: str) -> Iterator[None]:
    """Put a kernel in Python in an operator's place that calls PyTorch's."""
    kernel = torch.library.get_kernel(f"aten::{name}", device.upper())
    library = torch.library.Library("aten", "IMPL")
    if name == "convolution":  # which has no kernel of its own for a device
        library.impl(name, lambda *args: torch._convolution(*args, False, False, True, False), device.upper())
    else:
        library.impl(name, lambda keys, *args: kernel.call_boxed(keys, *args), device.upper(), with_keyset=True)
    try:
        yield
    finally:
        library._destroy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    choice.recall = lambda info, key: None
    _layers.open_accounts(lambda family, device: None, lambda: None)  # nothing is given back
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None

    def timed(call: Callable[[], Any]) -> float:
        return least(call, options.calls, options.repeat, wait)

    def enabled(call: Callable[[], Any], ours: bool) -> float:
        times = choice.Times(1.0, 2.0, "said") if ours else choice.Times(2.0, 1.0, "said")
        choice.measure = lambda info, key, *how: times
        _layers.forget()
        with miopyx.torch.enable():
            found = timed(call)
        if any(layer.ours != ours for layer in _layers.layers):
            return float("nan")
        return found

    device = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"PyTorch {torch.__version__}, {device}")
    print(f"{'operator':24} {'PyTorch':>8} {'passed on':>10} {'enabled, PyTorch':>18} {'enabled, miopyx':>18}")
    with torch.no_grad():
        for what, (name, call) in calls(options.device).items():
            alone = timed(call)
            with passed_on(name, options.device):
                through = timed(call)
            theirs, ours = enabled(call, False), enabled(call, True)
            print(f"{what:24} {alone:8.1f} {through:10.1f} {theirs:9.1f} {theirs - alone:+8.1f} {ours:9.1f} "
                  f"{ours - alone:+8.1f}", flush=True)


if __name__ == "__main__":
    main()
