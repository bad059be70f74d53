"""Times convolution, bias, addition and ReLU in one call beside PyTorch and cuDNN or oneDNN.

    python -P bench/fused.py [--device cuda:0] [--dtype float16] [--layout nhwc] [--batch 256] [--list resnet50]
                             [--compile]

A layer is y = relu(conv(x, w) + bias); the last 1x1 of ResNet's blocks, whose outputs are four times its inputs, is
relu(conv(x, w) + bias + z).  Weights are as after folding batch norm.  In turns, medians of --turns:

- `fused`: Handle.convolution_bias_activation_forward, with the solver that Find takes for the convolution alone; packed
  weights where the solver has such, as a network that is only run has them
- `apart`: the same convolution, then bias, addition and activation by functions of their own
- `eager`: PyTorch's conv2d, add_ and relu_
- `library`: cudnn_convolution_relu and cudnn_convolution_add_relu, on CPUs oneDNN's convolution with post-operations
- `compiled`: torch.compile of the eager lines, with --compile

TF32 is off.  `ratio` is the best of PyTorch's sides by `fused`.  Errors are norms, of the difference to float64 by that
of the true result.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

import miopyx
from miopyx import ActivationDescriptor, TensorDescriptor

sys.path.append(str(Path(__file__).parent))
from convolutions import layers

RELU = 3


def round_of(run, wait, least):
    """Return microseconds of a call, many enqueued before one wait, for `least` seconds or one call."""
    run()
    wait()
    began = perf_counter()
    run()
    wait()
    count = max(1, int(least / max(perf_counter() - began, 1e-6)))
    began = perf_counter()
    for _ in range(count):
        run()
    wait()
    return (perf_counter() - began) / count * 1e6


class Layer:
    """One layer with its data, as torch tensors that both sides read."""

    def __init__(self, case, args, handle):
        device = "cuda" if handle.device.is_gpu else "cpu"
        kind = getattr(torch, args.dtype)
        self.case, self.handle = case, handle
        self.adds = tuple(case.filter) == (1, 1) and case.k == 4 * case.c
        form = torch.channels_last if args.layout == "nhwc" else torch.contiguous_format

        def fresh(lens):
            return torch.randn(lens, device=device).to(kind).to(memory_format=form)
        self.x = fresh(case.x_lens)
        self.w = (fresh(case.w_lens) / np.prod(case.w_lens[1:]) ** 0.5).to(memory_format=form)
        self.z, self.y, self.sums = (fresh(case.y_lens) for _ in range(3))
        self.bias = torch.randn(case.k, device=device).to(kind)
        self.args = (tuple(case.stride), tuple(case.pad), tuple(case.dilation), case.groups)

    def eager(self):
        stride, pad, dilation, groups = self.args
        y = torch.nn.functional.conv2d(self.x, self.w, self.bias, stride, pad, dilation, groups)
        if self.adds:
            y += self.z
        return torch.relu_(y)

    def library(self):
        stride, pad, dilation, groups = self.args
        if self.x.is_cuda:
            if self.adds:
                return torch.cudnn_convolution_add_relu(self.x, self.w, self.z, 1.0, self.bias, stride, pad, dilation,
                                                        groups)
            return torch.cudnn_convolution_relu(self.x, self.w, self.bias, stride, pad, dilation, groups)
        if self.adds:
            return torch.ops.mkldnn._convolution_pointwise.binary(
                self.x, self.z, self.w, self.bias, pad, stride, dilation, groups, "add", 1.0, "relu", [], "")
        return torch.ops.mkldnn._convolution_pointwise(
            self.x, self.w, self.bias, pad, stride, dilation, groups, "relu", [], "")

    def truth(self):
        stride, pad, dilation, groups = self.args
        images = slice(None) if self.x.is_cuda else slice(1)
        y = torch.nn.functional.conv2d(self.x[images].double(), self.w.double(), self.bias.double(), stride, pad,
                                       dilation, groups)
        return torch.relu_(y + self.z[images].double() if self.adds else y)

    def plans(self):
        """Return our calls, fused and apart, and the fused plan."""
        handle = self.handle
        x, w, y = (TensorDescriptor(str(t.dtype).split(".")[1], t.shape, t.stride()) for t in (self.x, self.w, self.y))
        bias = TensorDescriptor(x.dtype, (1, self.case.k, 1, 1))
        conv = self.case.conv()
        relu = ActivationDescriptor(RELU)
        size = miopyx.miopenConvolutionForwardGetWorkSpaceSize(handle, w, x, conv, y)
        space = torch.empty(max(size, 1), dtype=torch.uint8, device=self.x.device)
        memory = {name: self.memory(getattr(self, name)) for name in ("x", "w", "z", "y", "bias", "sums")}
        miopyx.miopenFindConvolutionForwardAlgorithm(
            handle, x, memory["x"], w, memory["w"], conv, y, memory["sums"], 1, self.memory(space), size, False)
        fused = handle.convolution_bias_activation_forward(x, w, conv, y if self.adds else None, bias, relu, y)
        alone = handle.convolution_forward(x, w, conv, y)
        fused.pack(memory["w"])
        alone.pack(memory["w"])
        add = handle.op_tensor(0, y, bias, y)
        more = handle.op_tensor(0, y, y, y)
        active = handle.activation_forward(relu, y, y)
        given = [memory[name] for name in fused.buffers]

        def apart():
            alone(memory["x"], memory["w"], memory["sums"])
            add(memory["sums"], memory["bias"], memory["sums"])
            if self.adds:
                more(memory["sums"], memory["z"], memory["sums"])
            active(memory["sums"], memory["sums"])
        return lambda: fused(*given), apart, fused

    def memory(self, tensor):
        if self.x.is_cuda:
            return tensor
        return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default=None)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--layout", default="nchw", choices=("nchw", "nhwc"))
    parser.add_argument("--batch", type=int, default=None)
    parser.add_argument("--list", default="resnet50")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--build", metavar="I/N", help="only build the programs of every N-th layer, from the I-th on")
    parser.add_argument("--json", default=None)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    rows = []
    with miopyx.Handle(args.device) as handle, torch.inference_mode():
        gpu = handle.device.is_gpu
        if not gpu:
            torch.set_num_threads(handle.device.compute_units)
        for number, case in enumerate(layers(args.list, args.batch or (256 if gpu else 4), args.only)):
            if args.build and number % int(args.build.split("/")[1]) != int(args.build.split("/")[0]):
                continue
            layer = Layer(case, args, handle)
            fused, apart, plan = layer.plans()
            if args.build:
                continue
            sides = {"fused": fused, "apart": apart, "eager": layer.eager, "library": layer.library}
            if args.compile:
                torch._dynamo.reset()
                torch._inductor.config.freezing = not gpu
                compiled = torch.compile(layer.eager)
                sides["compiled"] = compiled
            theirs = torch.cuda.synchronize if gpu else lambda: None
            wait = {name: handle.finish if name in ("fused", "apart") else theirs for name in sides}
            times = {name: [] for name in sides}
            for _ in range(args.turns):
                for name, run in sides.items():
                    times[name].append(round_of(run, wait[name], 0.02 if gpu else 0.1))
            medians = {name: statistics.median(values) for name, values in times.items()}
            layer.y.fill_(float("nan"))
            if gpu:
                torch.cuda.synchronize()
            fused()
            handle.finish()
            true = layer.truth()
            errors = [float((got[:len(true)].double() - true).norm() / true.norm())
                      for got in (layer.y, layer.library())]
            best = min(value for name, value in medians.items() if name not in ("fused", "apart"))
            row = {"layer": case.text or str(case), "adds": layer.adds, "solver": plan.solver.name, **medians,
                   "ratio": best / medians["fused"], "errors": errors,
                   "one_launch": "fused_epilogue" not in plan.explain()}
            rows.append(row)
            words = " ".join(f"{name} {value:8.1f}" for name, value in medians.items())
            print(f"{row['layer'][:46]:46} {'add ' if layer.adds else ''}{plan.solver.name:18} {words} "
                  f"ratio {row['ratio']:.2f} errors {errors[0]:.1e} {errors[1]:.1e}", flush=True)
            del layer, fused, apart, plan, sides
    if not rows:
        return
    total = {name: sum(row[name] for row in rows) for name in rows[0] if isinstance(rows[0][name], float)
             and name != "ratio"}
    best = min(value for name, value in total.items() if name not in ("fused", "apart"))
    ratios = [row["ratio"] for row in rows]
    print(f"all layers, ms: {' '.join(f'{n} {v / 1e3:.2f}' for n, v in total.items())}; best of PyTorch's by fused "
          f"{best / total['fused']:.2f}, mean {np.exp(np.mean(np.log(ratios))):.2f}, least {min(ratios):.2f}, "
          f"apart by fused {total['apart'] / total['fused']:.2f}")
    if args.json:
        about = {**vars(args), "device": torch.cuda.get_device_name() if gpu else handle.device.name}
        Path(args.json).write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
