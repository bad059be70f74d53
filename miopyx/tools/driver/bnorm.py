"""`bnorm`: batch normalisation, and an activation that follows it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

import miopyx

from . import activ, data
from .activ import Parameters
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
    Flag("activ_mode", "f", 0, f"the activation that follows: {activ.MODES}", range(11)),
    Flag("activ_alpha", "x", 1.0, "alpha of the activation"),
    Flag("activ_beta", "y", 1.0, "beta of the activation"),
    Flag("activ_gamma", "z", 1.0, "gamma of the activation"),
    Flag("inverse_variance", "I", 0, "inference takes the estimated variance as 1 / sqrt(variance + epsilon)", SWITCH),
    Flag("ping_pong_buffers", "Q", 0, "training writes running mean and variance beside the old ones", SWITCH),
))

EPSILON, FACTOR = 1e-5, 0.1
PARAMETERS = ("scale", "bias", "running_mean", "running_variance", "next_mean", "next_variance", "saved_mean",
              "saved_inv_variance", "dscale", "dbias")


class BatchNorm(Layer):
    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.backward = bool(command.number("back"))
        if self.backward and command.number("forw"):
            raise UsageError(f"-b 1 needs -F 0, not {command['forw']}: one direction at a time")
        self.inference = command.number("forw") == 2
        self.mode = command.number("mode")
        self.save, self.run = bool(command.number("save")), bool(command.number("run"))
        self.inverse, self.apart = bool(command.number("inverse_variance")), bool(command.number("ping_pong_buffers"))
        if self.inverse and not self.inference:
            raise UsageError("-I 1 needs -F 2: only inference is given a variance")
        if self.apart and (self.inference or self.backward or not self.run):
            raise UsageError("-Q 1 needs -F 1 -r 1: only training moves running statistics")
        self.activation = command.number("activ_mode")
        self.parameters: Parameters = (command.real("activ_alpha"), command.real("activ_beta"),
                                       command.real("activ_gamma"))
        self.epsilon = 1e-4 if self.dtype == "float16" else 1e-6  # of TANH and POWER, as MIOpen has it
        self.activ = miopyx.ActivationDescriptor(self.activation, *self.parameters) if self.activation else None
        self.desc = self.packed_tensor("x", "y", "dx")
        self.derived = miopyx.miopenCreateTensorDescriptor()
        miopyx.miopenDeriveBNTensorDescriptor(self.derived, self.desc, self.mode)
        if not command.operation.endswith("fp32") and self.dtype in ("float16", "bfloat16"):
            self.derived = miopyx.TensorDescriptor(self.dtype, self.derived.lens, self.derived.strides)
        for name in PARAMETERS:
            self.tensor(name, self.derived)
        self.tensor("dy", self.desc)  # made after what it depends on
        self.axes = (0, *range(2, self.desc.ndim)) if self.mode else (0,)
        self.count = prod(self.desc.lens[axis] for axis in self.axes)  # elements behind one mean
        self._made: dict[str, Doubles] = {}

    @property
    def layer(self) -> str:
        what = "backward" if self.backward else "inference" if self.inference else "training"
        mode = "spatial" if self.mode else "per activation"
        name = miopyx.miopenActivationMode_t(self.activation).name.removeprefix("miopenActivation").lower()
        then = f" {name}" if self.activation else ""
        return f"{self.command.operation} {what} {mode}{then} {'x'.join(map(str, self.desc.lens[1:]))}"

    def wanted(self, direction: Pass) -> bool:
        return True

    def passes(self) -> list[Pass]:
        bound = limit(self.dtype, 1e-4, 5e-4)
        # What statistics are computed from is read twice: before it can be used, a large tensor has left the caches.
        x, bn, then = self.desc, self.derived, self.activ
        saved, running = ("saved_mean", "saved_inv_variance"), ("running_mean", "running_variance")
        if self.backward:
            read = ("x", "dy", "scale", *(("bias",) if self.activation else ()), *(saved if self.save else ()))
            return [Pass("bwd", "Backward Batch Normalization", read, ("dx", "dscale", "dbias"), ("x", "dy", *read),
                         self._backward, lambda handle: handle.batch_norm_backward(
                             self.mode, x, x, x, bn, saved=self.save, activ_desc=then),
                         self._backward_reference, bound, axis=1)]
        if self.inference:
            read = ("x", "scale", "bias", *(running if self.run else ()))
            moved = read if self.run else ("x", *read)
            return [Pass("fwd", "Forward Inference Batch Normalization", read, ("y",), moved, self._inference,
                         lambda handle: (handle.batch_norm_inference(self.mode, x, x, bn, then)
                                         if self.run and not self.inverse else None),
                         self._inference_reference, bound, axis=1)]
        read = ("x", "scale", "bias", *(running if self.run else ()))
        moved = ("next_mean", "next_variance") if self.apart else running
        written = ("y", *(moved if self.run else ()), *(saved if self.save else ()))
        return [Pass("fwd", "Forward Training Batch Normalization", read, written, ("x", *read), self._training,
                     lambda handle: None if self.apart else handle.batch_norm_training(
                         self.mode, x, x, bn, running=self.run, save=self.save, activ_desc=then),
                     self._training_reference, bound, axis=1)]

    def _training(self, handle: Any, m: Mapping[str, Any]) -> None:
        head = (handle, self.mode, 1.0, 0.0, self.desc, m["x"], self.desc, m["y"])
        four, parameters = (self.derived,) * 4, (m["scale"], m["bias"], FACTOR)
        running, saved = (m.get("running_mean"), m.get("running_variance")), (m.get("saved_mean"),
                                                                              m.get("saved_inv_variance"))
        after = (m.get("next_mean"), m.get("next_variance"))
        if self.activ is not None and self.apart:
            miopyx.miopenBatchNormForwardTrainingActivation_V2(*head, *four, *parameters, *running, *after, EPSILON,
                                                               *saved, self.activ)
        elif self.activ is not None:
            miopyx.miopenBatchNormForwardTrainingActivation(*head, *four, *parameters, *running, EPSILON, *saved,
                                                            self.activ)
        elif self.apart:
            miopyx.miopenBatchNormalizationForwardTraining_V3(*head, *four, *parameters, *running, *after, EPSILON,
                                                              *saved)
        else:
            miopyx.miopenBatchNormalizationForwardTraining(*head, self.derived, *parameters, *running, EPSILON, *saved)

    def _inference(self, handle: Any, m: Mapping[str, Any]) -> None:
        head = (handle, self.mode, 1.0, 0.0, self.desc, m["x"], self.desc, m["y"])
        four = (self.derived,) * 4
        parameters = (m["scale"], m["bias"], m.get("running_mean"), m.get("running_variance"))
        if self.activ is not None and self.inverse:
            miopyx.miopenBatchNormForwardInferenceActivationInvVariance(*head, *four, *parameters, self.activ)
        elif self.activ is not None:
            miopyx.miopenBatchNormForwardInferenceActivation(*head, *four, *parameters, EPSILON, self.activ)
        elif self.inverse:
            miopyx.miopenBatchNormalizationForwardInferenceInvVariance(*head, *four, *parameters)
        else:
            miopyx.miopenBatchNormalizationForwardInference(*head, self.derived, *parameters, EPSILON)

    def _backward(self, handle: Any, m: Mapping[str, Any]) -> None:
        head = (handle, self.mode, 1.0, 0.0, 1.0, 0.0, self.desc, m["x"], self.desc, m["dy"], self.desc, m["dx"])
        gradients, saved = (m["dscale"], m["dbias"], EPSILON), (m.get("saved_mean"), m.get("saved_inv_variance"))
        if self.activ is not None:
            miopyx.miopenBatchNormBackwardActivation(*head, *(self.derived,) * 4, m["scale"], m["bias"], *gradients,
                                                     *saved, self.activ)
        else:
            miopyx.miopenBatchNormalizationBackward(*head, self.derived, m["scale"], *gradients, *saved)

    def values(self, name: str, generator: data.Generator) -> Array:
        """x and dy uniform in [-0.5, 0.5), x 0.25 more; factors and variances in [0.5, 1.5), biases and means in [-0.5,
        0.5); saved values are those of x.  A power's base shall be positive: factors in [0.05, 0.15) there, and biases
        in [0, 0.5).  dy is 0 where rounding decides on which side of an activation's kink x comes out."""
        if name == "x":
            values = self.uniform(name, generator, -0.25, 0.75)
        elif name.startswith("saved"):
            mean, inverse = self._statistics(self._made["x"])
            memory = self.memory[name]
            values = np.zeros(memory.span, memory.dtype)
            memory.view(values)[...] = mean if name == "saved_mean" else inverse
        elif name in ("scale", "bias") and self.activation == activ.POWER:
            values = self.uniform(name, generator, *((0.05, 0.15) if name == "scale" else (0.0, 0.5)))
        else:
            values = self.uniform(name, generator, *((0.5, 1.5) if name in ("scale", "running_variance")
                                                     else (-0.5, 0.5)))
        if self.activation and name == "dy":
            self.memory[name].view(values)[self._near_a_kink()] = 0
        elif name == "x" or (self.activation and self.backward):
            self._made[name] = self.memory[name].view(values).astype(np.float64)
        return values

    def _near_a_kink(self) -> Any:
        """Where what the activation was given is so near a kink of its that rounding decides."""
        v = self._normal(self._made)[0] * self._made["scale"] + self._made["bias"]
        kinks = {activ.RELU: (0,), activ.ABS: (0,), activ.LEAKYRELU: (0,), activ.ELU: (0,),
                 activ.CLIPPEDRELU: (0, self.parameters[0]),
                 activ.CLAMP: self.parameters[:2]}.get(self.activation, ())
        near = np.zeros(v.shape, bool)
        for kink in kinks:
            near |= np.abs(v - kink) < (1e-2 if self.dtype in ("float16", "bfloat16") else 1e-3)
        return near

    # ------------------------------------------------------------------------------------------------ references

    def _statistics(self, x: Doubles) -> tuple[Doubles, Doubles]:
        """Return the means and the inverse standard deviations."""
        mean = x.mean(self.axes, keepdims=True)
        variance = ((x - mean) ** 2).mean(self.axes, keepdims=True)
        return mean, 1 / np.sqrt(variance + EPSILON)

    def _normal(self, m: Mapping[str, Doubles]) -> tuple[Doubles, Doubles]:
        """Return (x - mean) inverse as the backward pass sees it, and the inverses."""
        mean, inverse = (m["saved_mean"], m["saved_inv_variance"]) if self.save else self._statistics(m["x"])
        return (m["x"] - mean) * inverse, inverse

    def _activated(self, v: Doubles) -> Doubles:
        return activ.activated(self.activation, self.parameters, self.epsilon, v)

    def _training_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        x = m["x"]
        mean, inverse = self._statistics(x)
        out = {"y": self._activated(m["scale"] * (x - mean) * inverse + m["bias"]), "saved_mean": mean,
               "saved_inv_variance": inverse}
        if self.run:
            unbiased = ((x - mean) ** 2).sum(self.axes, keepdims=True) / max(1, self.count - 1)
            names = ("next_mean", "next_variance") if self.apart else ("running_mean", "running_variance")
            out[names[0]] = (1 - FACTOR) * m["running_mean"] + FACTOR * mean
            out[names[1]] = (1 - FACTOR) * m["running_variance"] + FACTOR * unbiased
        return out

    def _inference_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        if not self.run:
            return {"y": self._training_reference(m)["y"]}
        variance = m["running_variance"]
        inverse = variance if self.inverse else 1 / np.sqrt(np.abs(variance + EPSILON))
        return {"y": self._activated(m["scale"] * (m["x"] - m["running_mean"]) * inverse + m["bias"])}

    def _backward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        dy = m["dy"]
        normal, inverse = self._normal(m)
        if self.activation:
            v = m["scale"] * normal + m["bias"]
            dy = activ.gradient(self.activation, self.parameters, self.epsilon, dy, v, self._activated(v))
        dscale, dbias = (dy * normal).sum(self.axes, keepdims=True), dy.sum(self.axes, keepdims=True)
        dx = m["scale"] * inverse / self.count * (self.count * dy - dbias - normal * dscale)
        return {"dx": dx, "dscale": dscale, "dbias": dbias}
