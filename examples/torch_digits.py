"""Train a small PyTorch network on scikit-learn's handwritten digits, by PyTorch alone and with miopyx enabled.

    pip install ".[examples]" torch          in the folder of the project
    python examples/torch_digits.py [--epochs 3] [--seed 0] [--side 32] [--report report.html]

Both trainings start with the same weights and see the same images in the same order; nothing of the network is changed.
Before the second one each convolution is measured once, and the faster of both sides has it from then on.
"""

import argparse
import sys
import time

try:
    import torch
    from sklearn.datasets import load_digits
except ImportError as e:
    sys.exit(f"{e.name} is not installed")
from torch import nn

import miopyx.torch

BATCH = 48


def load(side=32):
    """Return (images, labels) of the training and of the test, scaled up from 8 x 8; the split is always the same."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(2026))
    images = torch.tensor(digits.images, dtype=torch.float32)[order, None] / 16
    images = nn.functional.interpolate(images, size=(side, side), mode="bilinear")
    labels = torch.tensor(digits.target)[order]
    return (images[360:], labels[360:]), (images[:360], labels[:360])


def network():
    def stage(c, k):
        return nn.Conv2d(c, k, 3, padding=1, bias=False), nn.BatchNorm2d(k), nn.ReLU()

    return nn.Sequential(*stage(1, 32), *stage(32, 32), nn.MaxPool2d(2), *stage(32, 64), *stage(64, 64),
                         nn.MaxPool2d(2), *stage(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def train(images, labels, test, epochs, seed):
    """Return the seconds that training took, and the test accuracy."""
    torch.manual_seed(seed)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, 0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * (len(labels) // BATCH))
    began = time.perf_counter()
    for _ in range(epochs):
        for chosen in torch.randperm(len(labels))[:len(labels) // BATCH * BATCH].split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()
            schedule.step()
    seconds = time.perf_counter() - began
    with torch.no_grad():
        return seconds, (model.eval()(test[0]).argmax(1) == test[1]).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the first weights and the order of the images")
    parser.add_argument("--side", type=int, default=32, help="of the images, in pixels")
    parser.add_argument("--report", metavar="FILE", help="a page that says who ran each convolution")
    options = parser.parse_args()
    (images, labels), test = load(options.side)
    began = time.perf_counter()
    miopyx.torch.tune(network(), images[:BATCH], backward=True)
    print(f"measured in {time.perf_counter() - began:.1f} s")
    results = {"PyTorch alone": train(images, labels, test, options.epochs, options.seed)}
    with miopyx.torch.enable():
        results["with miopyx"] = train(images, labels, test, options.epochs, options.seed)
    for name, (seconds, accuracy) in results.items():
        print(f"{name}: {options.epochs} epochs in {seconds:.2f} s, test accuracy {accuracy:.1%}")
    print(miopyx.torch.report(html=options.report))


if __name__ == "__main__":
    main()
