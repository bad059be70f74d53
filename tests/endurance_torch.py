"""Trains a small network for thousands of steps with miopyx.torch enabled, and says whether memory grew.

    python tests/endurance_torch.py [STEPS] [--device cuda]

Every problem that is computed is ours: convolutions of several kinds, batch norm, averages and softmax, with autograd,
a checkpoint and an optimiser.  Memory is the process's, and PyTorch's of the device; the exit status is 1 if either is
more than a little above what it was after a tenth of the steps.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit("PyTorch is not installed")
from torch import nn
from torch.utils.checkpoint import checkpoint

import miopyx.torch
from miopyx.torch import _layers, choice

GROWTH = 8 << 20  # bytes of the process: pools of allocators, which fill up slowly


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.begin = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2))
        self.middle = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ConvTranspose2d(8, 6, 2, 2))
        self.end = nn.Sequential(nn.Conv2d(6, 4, 1), nn.Flatten(), nn.Linear(4 * 8 * 8, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(self.end(checkpoint(self.middle, self.begin(x), use_reentrant=False)), 1)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def run(steps: int, device: str) -> tuple[list[int], list[int]]:
    """Return the bytes of the process and of the device, after a tenth of the steps and at the end."""
    choice.recall = lambda info, key: None
    choice.measure = lambda info, key, *how: choice.Times(1.0, 2.0, "said")
    _layers.open_accounts(lambda family, device: None, lambda: None)  # nothing is given back
    torch.manual_seed(0)
    with torch.device(device):
        model = Network()
        x, labels = torch.randn(4, 3, 8, 8), torch.arange(4) % 5
    descent = torch.optim.SGD(model.parameters(), lr=0.01)
    process, of_device = [], []
    with miopyx.torch.enable():
        for step in range(1, steps + 1):
            descent.zero_grad()
            nn.functional.nll_loss(model(x), labels).backward()
            descent.step()
            if step in (max(1, steps // 10), steps):
                process.append(resident())
                of_device.append(torch.cuda.memory_allocated() if x.is_cuda else 0)
    ours = [layer.ours for layer in _layers.layers]
    print(f"{sum(ours)} of {len(ours)} problems ours, {sum(layer.runs for layer in _layers.layers)} runs")
    if not all(ours):
        sys.exit("some problems are not computed")
    return process, of_device


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", type=int, nargs="?", default=10_000)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    process, of_device = run(options.steps, options.device)
    print(f"process {process[0] >> 10} KiB and {process[1] >> 10}, device {of_device[0]} bytes and {of_device[1]}")
    return int(process[1] > process[0] + GROWTH or of_device[1] > of_device[0])


if __name__ == "__main__":
    sys.exit(main())
