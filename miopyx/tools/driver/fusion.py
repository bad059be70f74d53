"""`CBAInfer`: fusion plans for inference, a convolution with what follows it or a batch norm with an activation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import miopyx

from . import activ, data
from .data import Array
from .layer import LAYOUTS, Layer, Pass, limit, operations, run_flags, size_flags
from .options import Command, Family, Flag, UsageError
from .problem import pads, tensor
from .verify import Doubles

# The operators of each mode: convolution, bias, batch norm, activation.
MODES = ("cbna", "cna", "na", "cn", "cba", "ca", "cb")
_WORDS = {"c": "Convolution", "b": "Bias", "n": "BatchNorm", "a": "Activation"}
EPSILON = 1e-6  # batch norm's, as MIOpenDriver has it

FAMILY = Family("CBAInfer", "a fusion plan for inference", operations("CBAInfer"), (
    Flag("fusion_mode", "F", 0, ", ".join(f"{i} {mode}" for i, mode in enumerate(MODES)) +
         ": c convolution, b bias, n batch norm inference, a activation", range(len(MODES))),
    *size_flags(32),
    Flag("out_channels", "k", 32, "channels of the output"),
    Flag("group_count", "g", 1, "groups", range(1, 2**31)),
    Flag("fil_h", "y", 3, "height of the filter"),
    Flag("fil_w", "x", 3, "width of the filter"),
    Flag("conv_stride_h", "u", 1, "stride along the height"),
    Flag("conv_stride_w", "v", 1, "stride along the width"),
    Flag("pad_h", "p", 0, "zeros above and below"),
    Flag("pad_w", "q", 0, "zeros left and right"),
    Flag("pad_val", "r", 0, "value of the padding", fixed="padding is always 0"),
    Flag("dilation_h", "l", 1, "dilation along the height"),
    Flag("dilation_w", "j", 1, "dilation along the width"),
    Flag("pad_mode", "z", "conv", "conv or default: the pads given; same and valid compute them",
         ("conv", "default", "same", "valid")),
    Flag("layout", "", "", "layout of the tensors; empty: NCHW", LAYOUTS[:4]),
    Flag("activMode", "m", 3, activ.MODES, range(11)),
    Flag("alpha", "A", 1.0, "alpha of the activation"),
    Flag("beta", "B", 0.0, "beta of the activation"),
    Flag("gamma", "G", 1.0, "gamma of the activation"),
    Flag("bnMode", "M", 0, "0: batch norm per activation, which no convolution precedes here, 1: spatial; "
         "where it is not given, 1 behind a convolution", (0, 1)),
    *run_flags(1),
    Flag("dot_graph", "D", "", "file with the operators as a graph", fixed="plans are not drawn"),
))

NORM = ("scale", "shift", "mean", "variance")


class Fusion(Layer):
    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.mode = MODES[command.number("fusion_mode")]
        self.convolves, self.normalises = "c" in self.mode, "n" in self.mode
        self.spatial_norm = command.number("bnMode") if not self.convolves or "bnMode" in command.given else 1
        if self.convolves and self.normalises and not self.spatial_norm:
            raise UsageError(f"-M 0 -F {MODES.index(self.mode)}: behind a convolution batch norm is spatial (-M 1)")
        n, c, k, groups = (command.number(name) for name in ("batchsize", "in_channels", "out_channels", "group_count"))
        layout = command.text("layout")
        self.x = self.tensor("x", tensor(self.dtype, layout, (n, c, command.number("in_h"), command.number("in_w"))))
        self.activation = command.number("activMode") if "a" in self.mode else activ.PASSTHROUGH
        self.parameters = command.real("alpha"), command.real("beta"), command.real("gamma")
        self.activ = miopyx.ActivationDescriptor(self.activation, *self.parameters)
        self.y = self.x
        if self.convolves:
            if c % groups or k % groups:
                raise UsageError(f"-g {groups} does not divide -c {c} and -k {k}")
            self._convolution(c, k, groups, layout)
        self.tensor("y", self.y)
        if "b" in self.mode:
            self.bias = self.tensor("bias", tensor(self.dtype, "", (1, k, 1, 1)))
        if self.normalises:
            norm = miopyx.miopenCreateTensorDescriptor()
            miopyx.miopenDeriveBNTensorDescriptor(norm, self.y, self.spatial_norm)
            self.norm = miopyx.TensorDescriptor(self.dtype, norm.lens, norm.strides)
            for name in NORM:
                self.tensor(name, self.norm)
        self.plans: dict[Any, tuple[Any, Any]] = {}

    def _convolution(self, c: int, k: int, groups: int, layout: str) -> None:
        def along(stem: str) -> tuple[int, ...]:
            return self.command.number(f"{stem}_h"), self.command.number(f"{stem}_w")

        fil, stride, dilation, pad = along("fil"), along("conv_stride"), along("dilation"), along("pad")
        if self.command.text("pad_mode") in ("same", "valid"):
            pad = pads(self.command, self.x.lens[2:], fil, stride, dilation)
        self.w = self.tensor("w", tensor(self.dtype, layout, (k, c // groups, *fil)))
        self.conv = miopyx.ConvolutionDescriptor(pad, stride, dilation, groups=groups)
        self.y = tensor(self.dtype, layout, self.conv.output_lens(self.x, self.w))

    @property
    def layer(self) -> str:
        name = miopyx.miopenActivationMode_t(self.activation).name.removeprefix("miopenActivation").lower()
        words = [self.command.operation, self.mode, *([name] if "a" in self.mode else []),
                 "x".join(map(str, self.x.lens[1:]))]
        if self.convolves:
            words += ["->", str(self.y.lens[1]), "x".join(map(str, self.w.lens[2:]))]
        return " ".join(words)

    def wanted(self, direction: Pass) -> bool:
        return True

    def passes(self) -> list[Pass]:
        given = tuple(name for name in ("x", "w", "bias", *NORM) if name in self.memory)
        return [Pass("fwd", f"Fused {'+'.join(_WORDS[letter] for letter in self.mode)}", given, ("y",), given,
                     self._execute, self._plan, self._reference, limit(self.dtype, 1e-4, 5e-4), -1)]

    def _plan(self, handle: Any) -> Any:
        """Return the plan of the same, which names the solver."""
        if not self.convolves:
            return handle.batch_norm_inference(self.spatial_norm, self.x, self.y, self.norm, self.activ)
        return handle.convolution_bias_activation_forward(
            self.x, self.w, self.conv, None, self.bias if "b" in self.mode else None, self.activ, self.y,
            norm_desc=self.norm if self.normalises else None)

    def _execute(self, handle: Any, m: Mapping[str, Any]) -> None:
        if handle not in self.plans:
            self.plans[handle] = self._compiled(handle, m)
        plan, args = self.plans[handle]
        miopyx.miopenExecuteFusionPlan(handle, plan, self.x, m["x"], self.y, m["y"], args)

    def _compiled(self, handle: Any, m: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the fusion plan and its operators' arguments, the inputs in `m`."""
        plan = miopyx.miopenCreateFusionPlan(miopyx.miopenVerticalFusion, self.x)
        args = miopyx.miopenCreateOperatorArgs()
        if self.convolves:
            op = miopyx.miopenCreateOpConvForward(plan, self.conv, self.w)
            miopyx.miopenSetOpArgsConvForward(args, op, 1.0, 0.0, m["w"])
        if "b" in self.mode:
            op = miopyx.miopenCreateOpBiasForward(plan, self.bias)
            miopyx.miopenSetOpArgsBiasForward(args, op, 1.0, 0.0, m["bias"])
        if self.normalises:
            op = miopyx.miopenCreateOpBatchNormInference(plan, self.spatial_norm, self.norm)
            miopyx.miopenSetOpArgsBatchNormInference(args, op, 1.0, 0.0, m["scale"], m["shift"], m["mean"],
                                                     m["variance"], EPSILON)
        if "a" in self.mode:
            op = miopyx.miopenCreateOpActivationForward(plan, self.activation)
            miopyx.miopenSetOpArgsActivForward(args, op, 1.0, 0.0, *self.parameters)
        miopyx.miopenCompileFusionPlan(handle, plan)
        return plan, args

    def values(self, name: str, generator: data.Generator) -> Array:
        """Factors and variances uniform in [0.5, 1.5), all else in [-0.5, 0.5)."""
        return self.uniform(name, generator, *((0.5, 1.5) if name in ("scale", "variance") else (-0.5, 0.5)))

    def _reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        v = self._convolved(m["x"], m["w"]) if self.convolves else m["x"]
        if "bias" in m:
            v = v + m["bias"]
        if self.normalises:
            v = (v - m["mean"]) / np.sqrt(m["variance"] + EPSILON) * m["scale"] + m["shift"]
        epsilon = 1e-4 if self.dtype == "float16" else 1e-6  # of POWER, as MIOpen has it
        return {"y": activ.activated(self.activation, self.parameters, epsilon, v)}

    def _convolved(self, x: Doubles, w: Doubles) -> Doubles:
        """Return the convolution by its definition, a tap of the filter at a time."""
        groups, k, spatial = self.conv.group_count, w.shape[0], self.y.lens[2:]
        pad, stride, dilation = self.conv.pads, self.conv.strides, self.conv.dilations
        # What the last tap of the last output reads may lie behind the pads, where strides leave a rest.
        reach = [max(i + 2 * p, (o - 1) * s + (f - 1) * d + 1) for i, p, o, s, f, d in zip(
            x.shape[2:], pad, spatial, stride, w.shape[2:], dilation, strict=True)]
        padded = np.zeros((*x.shape[:2], *reach))
        padded[:, :, pad[0]:pad[0] + x.shape[2], pad[1]:pad[1] + x.shape[3]] = x
        filters = w.reshape(groups, k // groups, w.shape[1], *w.shape[2:])
        y = np.zeros((x.shape[0], groups, k // groups, spatial[0] * spatial[1]))
        for i, j in np.ndindex(*w.shape[2:]):
            rows, columns = (slice(t * d, t * d + (o - 1) * s + 1, s)
                             for t, d, o, s in zip((i, j), dilation, spatial, stride, strict=True))
            window = padded[:, :, rows, columns].reshape(x.shape[0], groups, w.shape[1], -1)
            y += filters[..., i, j] @ window
        return y.reshape(self.y.lens)
