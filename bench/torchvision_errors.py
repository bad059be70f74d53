"""torchvision's models with every convolution and batch norm by miopyx: errors against float64, beside PyTorch's own.

    python bench/torchvision_errors.py [--models resnet18 ...] [--device cpu] [--size 96] [--batch 4] [--repeat 3]
                                       [--json OUT]

Random weights and images, float32 without TF32.  A model runs forward and backward in training, dropout off, three
times: by PyTorch in float64, by PyTorch in float32, and with miopyx.torch enabled and every problem that miopyx can
compute given to it, whatever its time.  Errors are 2-norms of differences from float64, relative to the norm: of all
outputs, and of all parameters' gradients for a random gradient of the outputs; medians over `--repeat` inputs.  A last
column names models where miopyx's error is more than 1.5 times PyTorch's.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import torchvision
except ImportError as e:
    sys.exit(f"{e.name} is not installed")

MODELS = ("alexnet", "vgg11_bn", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "densenet121",
          "squeezenet1_1", "googlenet", "inception_v3", "mnasnet1_0", "mobilenet_v2", "mobilenet_v3_small",
          "shufflenet_v2_x1_0", "efficientnet_b0", "regnet_x_400mf", "regnet_y_400mf", "convnext_tiny", "r3d_18",
          "fcn_resnet50", "vit_b_16")
LEAST = {"inception_v3": 299, "vit_b_16": 224}  # images that a model takes
OUTLIER = 1.5


def made(name: str) -> torch.nn.Module:
    more = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    if name == "fcn_resnet50":
        more["weights_backbone"] = None
    model = torchvision.models.get_model(name, weights=None, **more)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout | torchvision.ops.StochasticDepth):
            part.p = 0.0
    for p in model.parameters():
        if p.dim() > 1 and not p.any():  # a head that starts with nothing
            torch.nn.init.normal_(p, std=0.02)
    return model.train()


def tensors(found: object) -> list[torch.Tensor]:
    """Return the tensors of a model's result."""
    if isinstance(found, torch.Tensor):
        return [found]
    values = found.values() if isinstance(found, dict) else found
    return [t for value in values if value is not None for t in tensors(value)]


def step(model: torch.nn.Module, x: torch.Tensor, dy: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return all outputs and all gradients, a row each, in float64; `dy` is made in the first call."""
    model.zero_grad()
    outputs = tensors(model(x))
    dy[:] = dy or [torch.randn_like(y) for y in outputs]
    torch.autograd.backward(outputs, [d.to(y.dtype) for d, y in zip(dy, outputs, strict=True)])
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return tuple(torch.cat([t.detach().double().flatten() for t in row]) for row in (outputs, gradients))


def errors(name: str, options: argparse.Namespace) -> dict:
    import miopyx.torch as ours
    from miopyx.torch import _layers, choice

    choice.recall = lambda info, key: None
    choice.measure = lambda info, key, *how: choice.Times(1.0, 2.0, "said")
    _layers.open_accounts(lambda family, device: None, lambda: None)  # nothing is given back
    size = max(options.size, LEAST.get(name, 0))
    sides = {"torch": [[], []], "miopyx": [[], []]}
    for _ in range(options.repeat):
        shape = (options.batch, 3, 8, size, size) if name == "r3d_18" else (options.batch, 3, size, size)
        x, model, dy = torch.randn(shape, device=options.device), made(name).to(options.device), []
        truth = step(copy.deepcopy(model).double(), x.double(), dy)
        for side, found in sides.items():
            with ours.enable() if side == "miopyx" else torch.enable_grad():
                got = step(copy.deepcopy(model), x, dy)
            for i in range(2):
                found[i].append((torch.linalg.norm(got[i] - truth[i]) / torch.linalg.norm(truth[i])).item())
    row = {"model": name, "size": size}
    for side, found in sides.items():
        row |= {f"{what} {side}": statistics.median(seen) for what, seen in zip(("y", "gradients"), found, strict=True)}
    return {**row, "problems": len(_layers.layers), "ours": sum(layer.ours for layer in _layers.layers),
            "refused": sorted({layer.why for layer in _layers.layers if layer.why})}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS])
    parser.add_argument("--device", default="cpu", help="of PyTorch")
    parser.add_argument("--size", type=int, default=96, help="of the images, where a model takes that")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    with tempfile.TemporaryDirectory(prefix="miopyx-bench-") as folder:
        os.environ.setdefault("MIOPEN_USER_DB_PATH", folder)
        print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, {options.device}, "
              f"batch {options.batch}")
        print(f"{'model':20} {'y miopyx':>9} {'torch':>9} {'dw miopyx':>9} {'torch':>9} {'ours':>12}")
        rows = []
        for name in options.models:
            row = errors(name, options)
            rows.append(row)
            worse = [what for what in ("y", "gradients") if row[f"{what} miopyx"] > OUTLIER * row[f"{what} torch"]]
            print(f"{name:20} {row['y miopyx']:9.1e} {row['y torch']:9.1e} {row['gradients miopyx']:9.1e} "
                  f"{row['gradients torch']:9.1e} {row['ours']:5} of {row['problems']:3}  {', '.join(worse)}",
                  flush=True)
            if options.json:
                head = {"torch": torch.__version__, "device": options.device, "batch": options.batch}
                Path(options.json).write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
