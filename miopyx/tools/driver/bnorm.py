"""`bnorm`: batch normalisation."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

import miopyx

from . import data
from .data import Array
from .layer import LAYOUTS, PRINT_FLAG, SWITCH, Layer, Pass, limit, operations, run_flags, size_flags
from .options import Command, Family, Flag, UsageError
from .verify import Doubles

# Those that end in fp32 have parameters in float32; the others in the tensor's own type.
FAMILY = Family("bnorm", "a batch normalisation", {
    **operations("bnorm"), "bnormfp16fp32": "float16", "bnormbfp16fp32": "bfloat16"}, (
    Flag("forw", "F", 0, "forward: 0 off, 1 training, 2 inference; without -b 1, 0 means training", (0, 1, 2)),
    Flag("back", "b", 0, "backward: 0 off, 1 on; needs -F 0", SWITCH),
    *size_flags(32),
    Flag("in_d", "D", 0, "depth; 0: two spatial axes"),
    Flag("layout", "L", "", "layout of the tensors; empty: NCHW, with a depth NCDHW", LAYOUTS),
    Flag("alpha", "A", 1.0, "factor of the result", fixed="batch normalisation is not scaled"),
    Flag("beta", "B", 0.0, "factor of what was there", fixed="batch normalisation is not scaled"),
    *run_flags(1),
    PRINT_FLAG,
    Flag("mode", "m", 0, "0 per activation, 1 spatial", SWITCH),
    Flag("save", "s", 0, "training saves mean and inverse deviation, backward takes saved ones", SWITCH),
    Flag("run", "r", 0, "training keeps running mean and variance, inference takes estimated ones", SWITCH),
))

EPSILON, FACTOR = 1e-5, 0.1
PARAMETERS = ("scale", "bias", "running_mean", "running_variance", "saved_mean", "saved_inv_variance", "dscale",
              "dbias")


class BatchNorm(Layer):
    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.backward = bool(command.number("back"))
        if self.backward and command.number("forw"):
            raise UsageError(f"-b 1 needs -F 0, not {command['forw']}: one direction at a time")
        self.inference = command.number("forw") == 2
        self.mode = command.number("mode")
        self.save, self.run = bool(command.number("save")), bool(command.number("run"))
        self.desc = self.packed_tensor("x", "y", "dx", "dy")
        self.derived = miopyx.miopenCreateTensorDescriptor()
        miopyx.miopenDeriveBNTensorDescriptor(self.derived, self.desc, self.mode)
        if not command.operation.endswith("fp32") and self.dtype in ("float16", "bfloat16"):
            self.derived = miopyx.TensorDescriptor(self.dtype, self.derived.lens, self.derived.strides)
        for name in PARAMETERS:
            self.tensor(name, self.derived)
        self.axes = (0, *range(2, self.desc.ndim)) if self.mode else (0,)
        self.count = prod(self.desc.lens[axis] for axis in self.axes)  # elements behind one mean
        self._x: Array | None = None

    @property
    def layer(self) -> str:
        what = "backward" if self.backward else "inference" if self.inference else "training"
        mode = "spatial" if self.mode else "per activation"
        return f"{self.command.operation} {what} {mode} {'x'.join(map(str, self.desc.lens[1:]))}"

    def wanted(self, direction: Pass) -> bool:
        return True

    def passes(self) -> list[Pass]:
        bound = limit(self.dtype, 1e-4, 5e-4)
        # What statistics are computed from is read twice: before it can be used, a large tensor has left the caches.
        x, bn = self.desc, self.derived
        saved, running = ("saved_mean", "saved_inv_variance"), ("running_mean", "running_variance")
        if self.backward:
            read = ("x", "dy", "scale", *(saved if self.save else ()))
            return [Pass("bwd", "Backward Batch Normalization", read, ("dx", "dscale", "dbias"), ("x", "dy", *read),
                         self._backward,
                         lambda handle: handle.batch_norm_backward(self.mode, x, x, x, bn, saved=self.save),
                         self._backward_reference, bound, axis=1)]
        if self.inference:
            read = ("x", "scale", "bias", *(running if self.run else ()))
            moved = read if self.run else ("x", *read)
            return [Pass("fwd", "Forward Inference Batch Normalization", read, ("y",), moved, self._inference,
                         lambda handle: handle.batch_norm_inference(self.mode, x, x, bn) if self.run else None,
                         self._inference_reference, bound, axis=1)]
        read = ("x", "scale", "bias", *(running if self.run else ()))
        written = ("y", *(running if self.run else ()), *(saved if self.save else ()))
        return [Pass("fwd", "Forward Training Batch Normalization", read, written, ("x", *read), self._training,
                     lambda handle: handle.batch_norm_training(self.mode, x, x, bn, running=self.run, save=self.save),
                     self._training_reference, bound, axis=1)]

    def _training(self, handle: Any, m: Mapping[str, Any]) -> None:
        miopyx.miopenBatchNormalizationForwardTraining(
            handle, self.mode, 1.0, 0.0, self.desc, m["x"], self.desc, m["y"], self.derived, m["scale"], m["bias"],
            FACTOR, m.get("running_mean"), m.get("running_variance"), EPSILON, m.get("saved_mean"),
            m.get("saved_inv_variance"))

    def _inference(self, handle: Any, m: Mapping[str, Any]) -> None:
        miopyx.miopenBatchNormalizationForwardInference(
            handle, self.mode, 1.0, 0.0, self.desc, m["x"], self.desc, m["y"], self.derived, m["scale"], m["bias"],
            m.get("running_mean"), m.get("running_variance"), EPSILON)

    def _backward(self, handle: Any, m: Mapping[str, Any]) -> None:
        miopyx.miopenBatchNormalizationBackward(
            handle, self.mode, 1.0, 0.0, 1.0, 0.0, self.desc, m["x"], self.desc, m["dy"], self.desc, m["dx"],
            self.derived, m["scale"], m["dscale"], m["dbias"], EPSILON, m.get("saved_mean"),
            m.get("saved_inv_variance"))

    def values(self, name: str, generator: data.Generator) -> Array:
        """x and dy uniform in [-0.5, 0.5), x 0.25 more; factors and variances in [0.5, 1.5), biases and means in [-0.5,
        0.5); saved values are those of x."""
        if name == "x":
            self._x = self.uniform(name, generator, -0.25, 0.75)
            return self._x
        if name.startswith("saved"):
            assert self._x is not None
            mean, inverse = self._statistics(self.memory["x"].view(self._x).astype(np.float64))
            memory = self.memory[name]
            out = np.zeros(memory.span, memory.dtype)
            memory.view(out)[...] = mean if name == "saved_mean" else inverse
            return out
        return self.uniform(name, generator, *((0.5, 1.5) if name in ("scale", "running_variance") else (-0.5, 0.5)))

    # ------------------------------------------------------------------------------------------------ references

    def _statistics(self, x: Doubles) -> tuple[Doubles, Doubles]:
        """Return the means and the inverse standard deviations."""
        mean = x.mean(self.axes, keepdims=True)
        variance = ((x - mean) ** 2).mean(self.axes, keepdims=True)
        return mean, 1 / np.sqrt(variance + EPSILON)

    def _training_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        x = m["x"]
        mean, inverse = self._statistics(x)
        out = {"y": m["scale"] * (x - mean) * inverse + m["bias"], "saved_mean": mean, "saved_inv_variance": inverse}
        if self.run:
            unbiased = ((x - mean) ** 2).sum(self.axes, keepdims=True) / max(1, self.count - 1)
            out["running_mean"] = (1 - FACTOR) * m["running_mean"] + FACTOR * mean
            out["running_variance"] = (1 - FACTOR) * m["running_variance"] + FACTOR * unbiased
        return out

    def _inference_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        if not self.run:
            return {"y": self._training_reference(m)["y"]}
        inverse = 1 / np.sqrt(np.abs(m["running_variance"] + EPSILON))
        return {"y": m["scale"] * (m["x"] - m["running_mean"]) * inverse + m["bias"]}

    def _backward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        x, dy = m["x"], m["dy"]
        mean, inverse = ((m["saved_mean"], m["saved_inv_variance"]) if self.save else self._statistics(x))
        normal = (x - mean) * inverse
        dscale, dbias = (dy * normal).sum(self.axes, keepdims=True), dy.sum(self.axes, keepdims=True)
        dx = m["scale"] * inverse / self.count * (self.count * dy - dbias - normal * dscale)
        return {"dx": dx, "dscale": dscale, "dbias": dbias}
