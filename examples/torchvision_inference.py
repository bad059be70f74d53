"""Classify images by a network of torchvision's, by PyTorch alone and with miopyx enabled, and compare times.

    pip install . torch torchvision          in the folder of the project
    python examples/torchvision_inference.py [--model resnet50] [--batch 16] [--size 224] [--device cpu]
                                             [--weights FILE.pth]

The network is not touched.  Before the second side each of its layers is measured once, and the faster of both sides
has it from then on.  Without `--weights`, a state dictionary, they are random, and so are the images: times are the
same.  Both sides take turns, and the medians are printed, with how far the results are apart.
"""

import argparse
import statistics
import sys
import time

try:
    import torch
    from torchvision import models
except ImportError as e:
    sys.exit(f"{e.name} is not installed")

import miopyx.torch


def load(name, weights, device):
    """Return the network, in evaluation mode."""
    more = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    model = models.get_model(name, weights=None, **more)
    if weights:
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return model.eval().to(device)


def seconds(model, images, calls):
    """Return how long a call takes, of several in a row."""
    model(images)
    if images.is_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        found = model(images)
    if images.is_cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50", choices=models.list_models(models), metavar="NAME")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=224, help="of the images")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--weights", metavar="FILE", help="a state dictionary")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--calls", type=int, default=3, help="of a turn")
    options = parser.parse_args()
    model = load(options.model, options.weights, options.device)
    images = torch.randn(options.batch, 3, options.size, options.size, device=options.device)
    with torch.inference_mode():
        miopyx.torch.tune(model, images)
        alone, ours = [], []
        for _ in range(options.turns):
            took, wanted = seconds(model, images, options.calls)
            alone.append(took)
            with miopyx.torch.enable():
                took, found = seconds(model, images, options.calls)
            ours.append(took)
    print(miopyx.torch.report())
    alone, ours = statistics.median(alone), statistics.median(ours)
    print(f"PyTorch alone {alone * 1e3:.1f} ms, with miopyx {ours * 1e3:.1f} ms: {alone / ours:.2f} times as fast")
    apart = (found - wanted).abs().max() / wanted.abs().max()
    print(f"results are apart by {apart:.1e} of the largest, {(found.argmax(1) == wanted.argmax(1)).sum()} of "
          f"{options.batch} classes are the same")


if __name__ == "__main__":
    main()
