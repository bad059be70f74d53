"""Whole models in PyTorch, alone and with miopyx.torch enabled, in one process and in turns.

    python bench/torch_models.py [--models resnet50 mobilenet_v3 ...] [--inference 1 16] [--training 4] [--size 224]
                                 [--device cpu] [--dtype float32] [--amp float16] [--tf32] [--layout nchw] [--graph]
                                 [--tune [SECONDS]] [--db FOLDER] [--threads N] [--repeat 3] [--warm N] [--plain]
                                 [--profile [ROWS]] [--json OUT]

ResNet-50 v1.5, MobileNet-v3-large, EfficientNet-B0, ConvNeXt-T, a U-Net of 32 channels, the same in three axes, and
the decoder of Stable Diffusion's VAE, with random weights, and the running statistics of a random batch.  `--size` is
that of the images; volumes have half of it, latent images an eighth.  A training step is forward, backward and SGD with
momentum, without dropout; `--amp` is autocast, and for float16 a GradScaler.  `--graph` replays CUDA graphs of both
sides, without a GradScaler, which asks the device.  Without `--tf32` float32 is strict on both.  `--tune` measures
first which problems are faster by miopyx; without it the first steps do, within 2 seconds, as in any program.  What was
found goes to FOLDER (default: a new one), where the next run reads it.  `--warm` calls come before any time is taken:
what gains nothing was given back to PyTorch by then, as in a program that runs for more than seconds.

Per model and batch it prints milliseconds of both by medians over the turns, their ratio, PyTorch's by miopyx's, the
same ratio of each side's best turn, how many of the problems were miopyx's, and the largest errors of both against
float64: of a result's elements, or of all parameters' gradients, relative to the largest one (`--plain`: none).
`--profile` adds where each side's time goes by PyTorch's profiler: milliseconds of a call, on the device that computes,
of the operators that take most.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit("PyTorch is not installed")
from torch import nn

BLOCK_S = 0.2    # about how long a side runs before it is the other's turn
SETTLE_S = 0.02  # before that: PyTorch's threads spin on the cores for a while after their last call


def unit(c: int, k: int, size: int = 1, stride: int = 1, groups: int = 1, then: type[nn.Module] = nn.Identity,
         eps: float = 1e-5) -> nn.Sequential:
    """A convolution, batch norm and an activation."""
    return nn.Sequential(nn.Conv2d(c, k, size, stride, size // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(k, eps), then())


class Residual(nn.Module):
    """What is added to its input, or to what a projection makes of it."""

    def __init__(self, body: nn.Module, then: nn.Module | None = None, project: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.then, self.project = body, then or nn.Identity(), project or nn.Identity()

    def forward(self, x):
        return self.then(self.body(x) + self.project(x))


def resnet50() -> nn.Module:
    layers, c = [unit(3, 64, 7, 2, then=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for i in range(depth):
            stride = 2 if i == 0 and stage else 1
            body = nn.Sequential(unit(c, width, then=nn.ReLU), unit(width, width, 3, stride, then=nn.ReLU),
                                 unit(width, 4 * width))
            layers.append(Residual(body, nn.ReLU(), unit(c, 4 * width, 1, stride) if i == 0 else None))
            c = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 1000))


class Squeeze(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, c: int, inner: int, act: type[nn.Module], gate: type[nn.Module]) -> None:
        super().__init__()
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, inner, 1), act(), nn.Conv2d(inner, c, 1),
                                   gate())

    def forward(self, x):
        return x * self.scale(x)


def inverted(c: int, wide: int, k: int, size: int, stride: int, act: type[nn.Module], squeeze: nn.Module | None,
             eps: float) -> nn.Module:
    """An inverted bottleneck: wider, depthwise, narrower."""
    parts = [unit(c, wide, then=act, eps=eps)] if wide != c else []
    parts.append(unit(wide, wide, size, stride, wide, act, eps))
    parts += [squeeze] if squeeze else []
    body = nn.Sequential(*parts, unit(wide, k, eps=eps))
    return Residual(body) if stride == 1 and c == k else body


def mobilenet_v3() -> nn.Module:
    r, h = nn.ReLU, nn.Hardswish
    layers, c = [unit(3, 16, 3, 2, then=h, eps=1e-3)], 16
    for size, wide, k, squeezed, act, stride in (
            (3, 16, 16, 0, r, 1), (3, 64, 24, 0, r, 2), (3, 72, 24, 0, r, 1), (5, 72, 40, 1, r, 2),
            (5, 120, 40, 1, r, 1), (5, 120, 40, 1, r, 1), (3, 240, 80, 0, h, 2), (3, 200, 80, 0, h, 1),
            (3, 184, 80, 0, h, 1), (3, 184, 80, 0, h, 1), (3, 480, 112, 1, h, 1), (3, 672, 112, 1, h, 1),
            (5, 672, 160, 1, h, 2), (5, 960, 160, 1, h, 1), (5, 960, 160, 1, h, 1)):
        inner = (wide // 4 + 4) // 8 * 8  # the nearest multiple, but not a tenth less
        inner += 8 if inner < 0.9 * (wide // 4) else 0
        squeeze = Squeeze(wide, inner, nn.ReLU, nn.Hardsigmoid) if squeezed else None
        layers.append(inverted(c, wide, k, size, stride, act, squeeze, 1e-3))
        c = k
    return nn.Sequential(*layers, unit(c, 960, then=h, eps=1e-3), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(960, 1280), h(), nn.Linear(1280, 1000))


def efficientnet_b0() -> nn.Module:
    layers, c = [unit(3, 32, 3, 2, then=nn.SiLU)], 32
    for times, k, count, stride, size in ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
                                          (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)):
        for i in range(count):
            squeeze = Squeeze(times * c, c // 4, nn.SiLU, nn.Sigmoid)
            layers.append(inverted(c, times * c, k, size, stride if i == 0 else 1, nn.SiLU, squeeze, 1e-5))
            c = k
    return nn.Sequential(*layers, unit(c, 1280, then=nn.SiLU), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(1280, 1000))


class Turn(nn.Module):
    """Another order of axes."""

    def __init__(self, *order: int) -> None:
        super().__init__()
        self.order = order

    def forward(self, x):
        return x.permute(self.order)


class Scale(nn.Module):
    """A factor for each channel, the last axis."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.full((c,), 1e-6))

    def forward(self, x):
        return x * self.factor


def norm(c: int) -> nn.Sequential:
    return nn.Sequential(Turn(0, 2, 3, 1), nn.LayerNorm(c, 1e-6), Turn(0, 3, 1, 2))


def convnext() -> nn.Module:
    layers, c = [nn.Conv2d(3, 96, 4, 4), norm(96)], 96
    for stage, depth in enumerate((3, 3, 9, 3)):
        if stage:
            layers += [norm(c), nn.Conv2d(c, 2 * c, 2, 2)]
            c *= 2
        layers += [Residual(nn.Sequential(nn.Conv2d(c, c, 7, padding=3, groups=c), Turn(0, 2, 3, 1),
                                          nn.LayerNorm(c, 1e-6), nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c),
                                          Scale(c), Turn(0, 3, 1, 2))) for _ in range(depth)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), norm(c), nn.Flatten(), nn.Linear(c, 1000))


class UNet(nn.Module):
    """Four steps down and up again, 32 channels at the top."""

    def __init__(self) -> None:
        super().__init__()
        widths = [32, 64, 128, 256, 512]
        self.down = nn.ModuleList(self._pair(c, k) for c, k in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * k, k, 2, 2) for k in reversed(widths[:-1]))
        self.join = nn.ModuleList(self._pair(2 * k, k) for k in reversed(widths[:-1]))
        self.last = nn.Conv2d(32, 2, 1)

    @staticmethod
    def _pair(c: int, k: int) -> nn.Sequential:
        return nn.Sequential(unit(c, k, 3, then=nn.ReLU), unit(k, k, 3, then=nn.ReLU))

    def forward(self, x):
        kept = []
        for i, down in enumerate(self.down):
            x = down(nn.functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat((kept.pop(), up(x)), 1))
        return self.last(x)


class UNet3d(nn.Module):
    """Three steps down and up again, 32 channels at the top."""

    def __init__(self) -> None:
        super().__init__()
        widths = [32, 64, 128, 256]
        self.down = nn.ModuleList(self._pair(c, k) for c, k in zip([1, *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose3d(2 * k, k, 2, 2) for k in reversed(widths[:-1]))
        self.join = nn.ModuleList(self._pair(2 * k, k) for k in reversed(widths[:-1]))
        self.last = nn.Conv3d(32, 3, 1)

    @staticmethod
    def _pair(c: int, k: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv3d(c, k, 3, 1, 1, bias=False), nn.BatchNorm3d(k), nn.ReLU(),
                             nn.Conv3d(k, k, 3, 1, 1, bias=False), nn.BatchNorm3d(k), nn.ReLU())

    def forward(self, x):
        kept = []
        for i, down in enumerate(self.down):
            x = down(nn.functional.max_pool3d(x, 2) if i else x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat((kept.pop(), up(x)), 1))
        return self.last(x)


class Attention(nn.Module):
    """Of an image's pixels to each other, one head."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.norm, self.all, self.out = nn.GroupNorm(32, c, 1e-6), nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x):
        q, k, v = self.all(self.norm(x).flatten(2).mT).chunk(3, -1)
        return x + self.out(nn.functional.scaled_dot_product_attention(q, k, v)).mT.reshape(x.shape)


def smooth(c: int, k: int) -> nn.Module:
    body = nn.Sequential(nn.GroupNorm(32, c, 1e-6), nn.SiLU(), nn.Conv2d(c, k, 3, 1, 1), nn.GroupNorm(32, k, 1e-6),
                         nn.SiLU(), nn.Conv2d(k, k, 3, 1, 1))
    return Residual(body, project=nn.Conv2d(c, k, 1) if c != k else None)


def vae_decoder() -> nn.Module:
    layers = [nn.Conv2d(4, 4, 1), nn.Conv2d(4, 512, 3, 1, 1), smooth(512, 512), Attention(512), smooth(512, 512)]
    c = 512
    for i, k in enumerate((512, 512, 256, 128)):
        if i:
            layers += [nn.Upsample(scale_factor=2.0), nn.Conv2d(c, c, 3, 1, 1)]
        layers += [smooth(c, k), smooth(k, k), smooth(k, k)]
        c = k
    return nn.Sequential(*layers, nn.GroupNorm(32, c, 1e-6), nn.SiLU(), nn.Conv2d(c, 3, 3, 1, 1))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "resnet50": resnet50, "mobilenet_v3": mobilenet_v3, "efficientnet_b0": efficientnet_b0, "convnext": convnext,
    "unet": UNet, "unet3d": UNet3d, "vae_decoder": vae_decoder}


def example(name: str, batch: int, size: int) -> torch.Tensor:
    """Return a random input."""
    if name == "unet3d":
        return torch.randn(batch, 1, min(32, size // 2), size // 2, size // 2)
    return torch.randn(batch, 4, size // 8, size // 8) if name == "vae_decoder" else torch.randn(batch, 3, size, size)


def settled(model: nn.Module, x: torch.Tensor) -> nn.Module:
    """Give a model the running statistics of a few images: with those that it starts with numbers would vanish."""
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d | nn.BatchNorm3d):
            part.momentum = 1.0
    with torch.no_grad():
        model.train()(torch.randn(4, *x.shape[1:]).to(x))
    return model


def inference(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return model(x)


class Step:
    """A training step; gradients stay where they are until the next one."""

    def __init__(self, model: nn.Module, x: torch.Tensor, amp: torch.dtype | None = None, scale: bool = True) -> None:
        self.model, self.x, self.amp = model, x, amp
        self.optimizer = torch.optim.SGD(model.parameters(), 1e-4, 0.9)
        self.scaler = torch.amp.GradScaler(x.device.type, enabled=scale and amp is torch.float16)
        with torch.no_grad():
            count = self._forward().numel()
        self.dy = torch.linspace(-1, 1, count, device=x.device) / count

    def _forward(self) -> torch.Tensor:
        with torch.autocast(self.x.device.type, self.amp, enabled=self.amp is not None):
            return self.model(self.x)

    def gradients(self) -> list[torch.Tensor]:
        self.optimizer.zero_grad()
        y = self._forward()
        self.scaler.scale((y * self.dy.reshape(y.shape).to(y.dtype)).sum()).backward()
        return [p.grad for p in self.model.parameters()]

    def __call__(self) -> None:
        self.gradients()
        self.scaler.step(self.optimizer)
        self.scaler.update()


def error(found: list[torch.Tensor], truth: list[torch.Tensor], scale: float = 1.0) -> float:
    largest = max(b.abs().max().item() for b in truth)
    return max((a.double() / scale - b).abs().max().item() for a, b in zip(found, truth, strict=True)) / largest


def block(run: Callable[[], object], calls: int, wait: Callable[[], object]) -> float:
    """Return the seconds of a call; the first one after the other side's turn is not counted."""
    run()
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    wait()
    return (time.perf_counter() - start) / calls


def captured(run: Callable[[], object]) -> Callable[[], None]:
    """Return the replay of a CUDA graph of a call."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def profiled(run: Callable[[], object], wait: Callable[[], object], on_cuda: bool) -> dict[str, tuple[int, float]]:
    """Return how often a call runs each operator, and for how many milliseconds without what that calls."""
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA] if on_cuda else [kinds.CPU]) as profiler:
        run()
        wait()
    found = {}
    for event in profiler.key_averages():
        ms = (event.self_device_time_total if on_cuda else event.self_cpu_time_total) / 1e3
        if event.device_type == torch.autograd.DeviceType.CPU and ms and not event.key.startswith("cuda"):
            found[event.key] = event.count, ms
    return found


def profile_lines(sides: tuple[dict[str, tuple[int, float]], ...], most: int) -> Iterator[str]:
    """Yield a table: operators, their calls, milliseconds enabled and alone."""
    nothing = 0, 0.0
    names = sorted({*sides[0], *sides[1]}, key=lambda name: -max(side.get(name, nothing)[1] for side in sides))
    yield f"{'  operator':44} {'calls':>11} {'ms':>9} {'alone':>9}"
    for name in names[:most]:
        (calls, ms), (calls_alone, alone) = (side.get(name, nothing) for side in sides)
        yield f"  {name[:42]:42} {f'{calls}, {calls_alone}':>11} {ms:9.2f} {alone:9.2f}"
    enabled, alone = (sum(ms for _, ms in side.values()) for side in sides)
    yield f"  {'all':54} {enabled:9.2f} {alone:9.2f}"


def measure(name: str, mode: str, batch: int, options: argparse.Namespace) -> dict:
    """Return a row of the table."""
    import miopyx.torch as ours
    from miopyx.torch import _layers, override

    dtype, amp = getattr(torch, options.dtype), getattr(torch, options.amp) if options.amp else None
    three = name == "unet3d"
    layout = torch.contiguous_format
    if options.layout == "nhwc":
        layout = torch.channels_last_3d if three else torch.channels_last
    x = example(name, batch, options.size).to(options.device, dtype, memory_format=layout)
    model = settled(MODELS[name]().to(options.device, dtype, memory_format=layout), x).train(mode == "training")
    step = Step(model, x, amp, not options.graph) if mode == "training" else None
    wait = torch.cuda.synchronize if x.is_cuda else lambda: None

    def forward() -> torch.Tensor:
        with torch.autocast(x.device.type, amp, enabled=amp is not None):
            return inference(model, x)

    run = step or forward
    _layers.forget()
    override._take_again()
    if options.tune:
        began = time.perf_counter()
        with torch.set_grad_enabled(mode == "training"), torch.autocast(x.device.type, amp, enabled=amp is not None):
            ours.tune(model, x, seconds=options.tune, backward=mode == "training")
        print(f"{name} {mode} {batch}: tuned in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    row = {"model": name, "mode": mode, "batch": batch}
    if not options.plain:
        exact, wide = copy.deepcopy(model).double(), x.double()
        call, scale = (step.gradients, step.scaler.get_scale()) if step else (lambda: [forward()], 1.0)
        truth = Step(exact, wide).gradients() if step else [inference(exact, wide)]
        row["error torch"] = error(call(), truth, scale)
        with ours.enable():
            row["error"] = error(call(), truth, scale)
        del exact, wide, truth
    sides = [run, run]
    if options.graph:
        sides[1] = captured(run)
        with ours.enable():
            sides[0] = captured(run)
    times: tuple[list[float], list[float]] = [], []
    with ours.enable():
        block(sides[0], 2 + options.warm, wait)  # whatever is measured is measured now
    calls = max(1, math.ceil(BLOCK_S / block(sides[1], 1, wait)))
    settle = 0.0 if x.is_cuda else SETTLE_S
    for _ in range(options.repeat):
        time.sleep(settle)
        times[1].append(block(sides[1], calls, wait))
        with ours.enable():
            time.sleep(settle)
            times[0].append(block(sides[0], calls, wait))
    if options.profile:
        with ours.enable():
            enabled = profiled(sides[0], wait, x.is_cuda)
        row["profile"], row["profile torch"] = enabled, profiled(sides[1], wait, x.is_cuda)
    return {**row, "convolutions": len(_layers.layers), "ours": sum(layer.ours for layer in _layers.layers),
            "seconds": times[0], "seconds torch": times[1]}


def line_of(row: dict) -> str:
    ours, theirs = row["seconds"], row["seconds torch"]
    median, peer = statistics.median(ours), statistics.median(theirs)
    errors = f" {row['error']:8.1e} {row['error torch']:8.1e}" if "error" in row else ""
    return (f"{row['model']:16} {row['mode']:9} {row['batch']:5} {median * 1e3:9.1f} {peer * 1e3:9.1f} "
            f"{peer / median:6.2f} {min(theirs) / min(ours):6.2f} {row['ours']:4} of {row['convolutions']:4}{errors}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS])
    parser.add_argument("--inference", nargs="*", type=int, default=[1, 16], metavar="BATCH")
    parser.add_argument("--training", nargs="*", type=int, default=[4], metavar="BATCH")
    parser.add_argument("--size", type=int, default=224, help="of the images, a multiple of 32")
    parser.add_argument("--device", default="cpu", help="of PyTorch")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16", "float64"])
    parser.add_argument("--amp", choices=["float16", "bfloat16"], help="autocast's type")
    parser.add_argument("--tf32", action="store_true", help="factors of 11 bits, where PyTorch's kernels like that")
    parser.add_argument("--graph", action="store_true", help="CUDA graphs of both sides")
    parser.add_argument("--layout", default="nchw", choices=["nchw", "nhwc"])
    parser.add_argument("--tune", nargs="?", type=float, const=600.0, metavar="SECONDS", help="for each row; 600")
    parser.add_argument("--db", metavar="FOLDER", help="where choices are kept (default: a new folder)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of PyTorch")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--warm", type=int, default=0, metavar="N", help="calls of the enabled side before all times")
    parser.add_argument("--plain", action="store_true", help="times only, no errors")
    parser.add_argument("--profile", nargs="?", type=int, const=12, metavar="ROWS", help="operators' times; 12")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(time.time_ns())
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.tf32
    if options.graph and not options.device.startswith("cuda"):
        parser.error("--graph: a device of CUDA")
    with tempfile.TemporaryDirectory(prefix="miopyx-bench-") as folder:
        os.environ["MIOPEN_USER_DB_PATH"] = options.db or folder

        from fingerprint import fingerprint

        settings = {name: getattr(options, name) for name in
                    ("size", "device", "dtype", "amp", "tf32", "layout", "graph", "threads", "repeat")}
        head = {**settings, "torch": torch.__version__, "fingerprint": fingerprint() if options.json else None}
        device = torch.cuda.get_device_name(options.device) if options.device.startswith("cuda") else "CPU"
        dtype = f"{options.dtype}{f', autocast {options.amp}' if options.amp else ''}{', TF32' * options.tf32}"
        print(f"PyTorch {torch.__version__}, {device}, {options.threads} threads, {dtype}, {options.layout}, images of "
              f"{options.size}{', graphs' * options.graph}; load {os.getloadavg()[0]:.1f}")
        print(f"{'model':16} {'':9} batch {'ms':>9} {'alone':>9} {'ratio':>6} {'best':>6} {'ours':>12}"
              f"{'' if options.plain else '    error    alone'}")
        rows = []
        for name in options.models:
            for mode in ("inference", "training"):
                for batch in getattr(options, mode):
                    rows.append(measure(name, mode, batch, options))
                    print(line_of(rows[-1]), flush=True)
                    if options.profile:
                        print("\n".join(profile_lines((rows[-1]["profile"], rows[-1]["profile torch"]),
                                                       options.profile)), flush=True)
                    if options.json:  # whoever stops it keeps these
                        Path(options.json).write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n",
                                                      encoding="utf-8")


if __name__ == "__main__":
    main()
