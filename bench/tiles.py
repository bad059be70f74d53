"""Every configuration of chosen solvers beside cuDNN: one process, one table.

    python bench/tiles.py [--solvers NvWgmma,NvWgmmaTf32] [--dtype float32] [--tf32] [--network resnet50] [--batch 256]
                          [--layouts nhwc,nchw] [--directions forward,data,weights] [--only filter=1x1] [--json OUT]

A line for each layer and direction: microseconds of cuDNN, then of each solver and configuration with its error if that
is not as usual; the fastest has a star, the configuration taken untuned a d.  Errors are norms relative to cuDNN's in
float32 without TF32.  --tf32 allows factors of 11 bits, of cuDNN too.  Programs are built ahead.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from pathlib import Path

import torch

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.choose import compiling
from miopyx.choose.tuning import configurations
from miopyx.engine._invoker import Invoker
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

WAYS = ("forward", "data", "weights")
USUAL = {"float32": 4e-4, "float16": 4e-4, "bfloat16": 4e-3}  # a larger error is printed
LEAST_S = 0.006  # of a measurement


def layers(network: str, only: str) -> list[dict]:
    found = []
    for line in (Path(__file__).parent / "convolutions.txt").read_text().splitlines():
        name, *fields = line.split() or [""]
        if name != network or not re.search(only, line):
            continue
        options = dict(field.split("=") for field in fields)
        axes = options["in"].count("x") + 1
        each = {k: tuple(map(int, options[k].split("x"))) if k in options else (default,) * axes
                for k, default in (("in", 0), ("filter", 1), ("pad", 0), ("stride", 1), ("dilation", 1))}
        found.append({"name": line[len(network) + 1:], "n": int(options.get("n", 0)), "c": int(options["c"]),
                      "k": int(options["k"]), "groups": int(options.get("groups", 1)), **each})
    return found


def microseconds(run) -> float:
    for _ in range(2):
        run()
    times = []
    calls = 1
    while len(times) < 3:
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(calls):
            run()
        last.record()
        last.synchronize()
        took = first.elapsed_time(last) * 1e-3
        if calls == 1 and took < LEAST_S:
            calls = max(2, min(200, int(LEAST_S / max(took, 1e-6))))
            continue
        times.append(took / calls * 1e6)
    return statistics.median(times)


class Problem:
    """A layer's tensors, and cuDNN on them."""

    def __init__(self, layer: dict, batch: int, layout: str, way: int, options: argparse.Namespace,
                 device: str = "cuda") -> None:
        self.way, self.layer = way, layer
        batch = layer["n"] or batch
        form = (torch.contiguous_format if layout != "nhwc" else
                torch.channels_last_3d if len(layer["in"]) == 3 else torch.channels_last)
        lens = [n + 2 * p - d * (f - 1) - 1 for n, p, d, f in zip(
            layer["in"], layer["pad"], layer["dilation"], layer["filter"], strict=True)]
        out = [n // s + 1 for n, s in zip(lens, layer["stride"], strict=True)]
        shapes = ((batch, layer["c"], *layer["in"]),
                  (layer["k"], layer["c"] // layer["groups"], *layer["filter"]), (batch, layer["k"], *out))
        self.x, self.w, self.y = (torch.randn(s, device=device).to(getattr(torch, options.dtype))
                                  .contiguous(memory_format=form) for s in shapes)
        self.desc = [TensorDescriptor(options.dtype, t.shape, t.stride()) for t in (self.x, self.w, self.y)]
        self.conv = ConvolutionDescriptor(layer["pad"], layer["stride"], layer["dilation"], groups=layer["groups"])
        if options.tf32:
            miopyx.miopenSetConvolutionAttribute(self.conv, "MATH_TYPE", miopyx.miopenMathDefault)
        self.problem = ConvProblem(way, *self.desc, self.conv)
        self.output = (self.y, self.x, self.w)[way]
        self.out = torch.empty_like(self.output)

    def cudnn(self, *, exact: bool = False) -> torch.Tensor:
        x, w, y = (t.float() if exact else t for t in (self.x, self.w, self.y))
        geometry = (*(self.layer[name] for name in ("stride", "pad", "dilation")), False,
                    (0,) * len(self.layer["pad"]), self.layer["groups"])
        if self.way == 0:
            return torch.ops.aten.convolution(x, w, None, *geometry)
        return torch.ops.aten.convolution_backward(y, x, w, None, *geometry,
                                                   [self.way == 1, self.way == 2, False])[self.way - 1]

    def plan(self, handle, solver):
        x, w, y = self.desc
        if self.way == 0:
            plan = handle.convolution_forward(x, w, self.conv, y, solver.id)
            return lambda: plan(self.x, self.w, self.out)
        if self.way == 1:
            plan = handle.convolution_backward_data(y, w, self.conv, x, solver.id)
            return lambda: plan(self.y, self.w, self.out)
        plan = handle.convolution_backward_weights(y, x, self.conv, w, solver.id)
        return lambda: plan(self.y, self.x, self.out)


def variants(handle, problem: ConvProblem, solvers: list) -> list[tuple]:
    """Solver, offer and configuration."""
    found = []
    for solver in solvers:
        offer = solver.offer(handle.device, problem)
        if isinstance(offer, str):
            continue
        found += [(solver, offer, config) for config in configurations(
            solver.parameters(handle.device, problem), lambda c, s=solver: s.accepts(handle.device, problem, c))]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--solvers", default="Nv", help="beginnings of names")
    parser.add_argument("--dtype", choices=USUAL, default="float32")
    parser.add_argument("--tf32", action="store_true", help="factors of 11 bits")
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--layouts", default="nhwc,nchw")
    parser.add_argument("--directions", default="forward,data")
    parser.add_argument("--only", default="", help="layers whose line matches this")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    begun = time.monotonic()
    handle = miopyx.Handle(stream=torch.cuda.current_stream())
    names = tuple(options.solvers.split(","))
    work = [(layer, layout, WAYS.index(way)) for layout in options.layouts.split(",")
            for way in options.directions.split(",") for layer in layers(options.network, options.only)]
    ends = {0: "Fwd", 1: "Bwd", 2: "Wrw"}
    solvers = {way: [s for s in registry.CONV if s.name.startswith(names) and s.name.endswith(end)]
               for way, end in ends.items()}
    specs = set()
    for layer, layout, way in work:
        problem = Problem(layer, options.batch, layout, way, options, "meta").problem
        for _, offer, config in variants(handle, problem, solvers[way]):
            specs.update(step.spec for step in offer.solution(config).steps)
    for failure in compiling.ahead(handle, specs):
        print("NOT BUILT", failure.spec, failure.why)
    print(f"{len(specs)} programs and kernels ready after {time.monotonic() - begun:.0f} s; "
          f"{torch.cuda.get_device_name()}, cuDNN {torch.backends.cudnn.version()}")
    rows = []
    for layer, layout, way in work:
        p = Problem(layer, options.batch, layout, way, options)
        torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = False
        truth = p.cudnn(exact=True)
        size = truth.double().norm()
        torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = options.tf32, True
        times = {"cudnn": microseconds(p.cudnn)}
        errors = {"cudnn": float((p.cudnn() - truth).double().norm() / size)}
        for solver, offer, config in variants(handle, p.problem, solvers[way]):
            name = solver.name[:-3] + "".join(f":{value}" for value in config)
            if config == solver.default_config(handle.device, p.problem) and config:
                name += "d"
            try:
                handle.register(Invoker(handle, offer, config or None), solver.id)
                run = p.plan(handle, solver)
                p.out.fill_(float("nan"))
                run()
                torch.cuda.synchronize()
                errors[name] = float((p.out - truth).double().norm() / size)
                times[name] = microseconds(run)
            except miopyx.MIOpenError as e:
                print("FAILED", layer["name"], layout, WAYS[way], name, str(e)[:300])
        handle.forget_calls()
        best = min((n for n in times if n != "cudnn"), key=times.get, default=None)
        if best is None:
            continue
        text = " ".join(f"{'*' if n == best else ''}{n} {times[n]:.0f}"
                        + ("" if errors[n] < USUAL[options.dtype] else f"(ERR {errors[n]:.1e})") for n in times)
        print(f"{layout} {WAYS[way]} {layer['name']} | {times['cudnn'] / times[best]:.2f} | {text}", flush=True)
        rows.append({"layer": layer["name"], "layout": layout, "direction": WAYS[way], "times": times,
                     "errors": errors})
    for layout in options.layouts.split(","):
        for way in options.directions.split(","):
            same = [r for r in rows if r["layout"] == layout and r["direction"] == way]
            ratios = [r["times"]["cudnn"] / min(t for n, t in r["times"].items() if n != "cudnn") for r in same]
            if ratios:
                print(f"{layout} {way}: {statistics.geometric_mean(ratios):.3f} of cuDNN, least {min(ratios):.2f}; "
                      f"largest error {max(e for r in same for e in r['errors'].values()):.1e}, "
                      f"cuDNN's {max(r['errors']['cudnn'] for r in same):.1e}")
    print(f"{time.monotonic() - begun:.0f} s in all")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=0) + "\n")


if __name__ == "__main__":
    main()
