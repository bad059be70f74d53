"""`layernorm`, `addlayernorm`, `t5layernorm` and `groupnorm`: norms over parts of each sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

import miopyx

from . import data
from .data import Array
from .layer import FORWARD_FLAG, MORE_SIZE_FLAGS, Layer, Pass, limit, operations, run_flags, size_flags
from .options import Command, Family, Flag, UsageError
from .problem import Sizes
from .reduce import numbers
from .verify import Doubles

_EPSILON = Flag("eps", "e", 0.00001, "what is added to the variance")
_DIM = Flag("normalized_dim", "o", 3, "the first axis that is normalised", range(6))
_FORWARD = replace(FORWARD_FLAG, default=1)


_SIZES = (Flag("input", "X", "100x3x32x32", "lengths of the tensor; where it is not given those of -n, -c, -H and -W"),
          *size_flags(100), MORE_SIZE_FLAGS[0])


def _family(name: str, title: str, modes: tuple[int, int], *flags: Flag, default: int = 0) -> Family:
    mode = Flag("mode", "m", modes[default], f"{modes[0]}: without weights, {modes[1]}: with weights", modes)
    return Family(name, title, operations(name), (*flags, _EPSILON, mode, *run_flags()))


LAYER_FAMILY = _family("layernorm", "a layer norm", (0, 1), _FORWARD, _DIM, *_SIZES)
ADD_FAMILY = _family("addlayernorm", "a layer norm of a sum", (2, 3), _FORWARD, _DIM, *_SIZES)
T5_FAMILY = _family("t5layernorm", "an RMS norm", (4, 5), FORWARD_FLAG, *_SIZES, default=1)
GROUP_FAMILY = _family(
    "groupnorm", "a group norm", (0, 1), _FORWARD,
    Flag("num_groups", "g", 4, "groups of channels", range(1, 2**31)), Flag("batchsize", "n", 32, "samples"),
    Flag("in_channels", "c", 32, "channels"), Flag("in_d", "D", 14, "depth; 0: two spatial axes"),
    Flag("in_h", "H", 14, "height; 0: one spatial axis, with -D 0"), Flag("in_w", "W", 14, "width"))


class LayerNorm(Layer):
    """A layer norm, and what the other families have in common with it."""

    method = "layer_norm"
    second = False  # x2 is added to x
    means = True

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.affine = bool(command.number("mode") % 2)
        self.epsilon = command.real("eps")
        self.number, inner, outer = self._shape()
        self.desc = self._packed(self.lens(), "x", "y", "dx", "dy", *(("x2",) if self.second else ()))
        self.inner = self._packed(inner, "dw", *(("db",) if self.means else ()))
        if self.affine:
            self._packed(inner, "weight", *(("bias",) if self.means else ()))
        self.outer = self._packed(outer, "rstd", *(("mean",) if self.means else ()))
        self.plans: dict[tuple[Any, str], Any] = {}

    def lens(self) -> Sizes:
        return numbers(self.command, "input", "x") if "input" in self.command.given else super().lens()

    def _packed(self, lens: Sizes, *names: str) -> Any:
        desc = miopyx.TensorDescriptor(self.dtype, lens)
        for name in names:
            self.tensor(name, desc)
        return desc

    def _shape(self) -> tuple[int, Sizes, Sizes]:
        """Return normalized_dim or the like, and the lengths of weights and of statistics."""
        lens, dim = self.lens(), self.command.number("normalized_dim")
        if dim > len(lens):
            raise UsageError(f"normalized_dim is {dim}: the tensor has {len(lens)} dimensions")
        self.rows = prod(lens[:dim]), prod(lens[dim:]), 1
        return dim, lens[dim:] or (1,), lens[:dim] or (1,)

    @property
    def layer(self) -> str:
        words = [self.command.operation, "weights" if self.affine else "plain", str(self.number),
                 "x".join(map(str, self.desc.lens[1:]))]
        return " ".join(words)

    def _there(self, *names: str) -> tuple[str, ...]:
        return tuple(name for name in names if name in self.memory)

    def passes(self) -> list[Pass]:
        bound = limit(self.dtype, 1e-4, 5e-2)
        given = self._there("x", "x2", "weight", "bias")
        back = self._there("dy", "x", "x2", "weight", "mean", "rstd")
        return [
            Pass("fwd", f"Forward {self.title}", given, self._there("y", "mean", "rstd"), given, self._forward,
                 self._forward_plan, self._forward_reference, bound, -1),
            Pass("bwd", f"Backward {self.title}", back, self._there("dx", "dw", "db"), back, self._backward,
                 self._backward_plan, self._backward_reference, bound, -1),
        ]

    @property
    def title(self) -> str:
        return {"layer_norm": "LayerNorm", "add_layer_norm": "AddLayerNorm", "t5_layer_norm": "T5LayerNorm",
                "group_norm": "GroupNorm"}[self.method]

    def _weights(self, *names: str) -> dict[str, Any]:
        return {f"{name}_desc": self.inner for name in self._there(*names)}

    def _forward_plan(self, handle: Any) -> Any:
        tensors = (self.desc,) * (3 if self.second else 2)
        statistics = {f"{name}_desc": self.outer for name in self._there("mean", "rstd")}
        numbers = (self.number,) if self.means else ()
        return getattr(handle, f"{self.method}_forward")(*tensors, *numbers, **self._weights("weight", "bias"),
                                                         **statistics)

    def _backward_plan(self, handle: Any) -> Any:
        tensors = (self.desc,) * (4 if self.second else 3)
        numbers = (self.outer, self.outer, self.number) if self.means else (self.outer,)
        return getattr(handle, f"{self.method}_backward")(*tensors, *numbers, **self._weights("weight", "dw", "db"))

    def _run(self, name: str, handle: Any, m: Mapping[str, Any], *numbers: float) -> None:
        key = handle, name
        if key not in self.plans:
            self.plans[key] = getattr(self, f"_{name}_plan")(handle)
        plan = self.plans[key]
        plan(*(m[buffer] for buffer in plan.buffers), *numbers)

    def _forward(self, handle: Any, m: Mapping[str, Any]) -> None:
        self._run("forward", handle, m, self.epsilon)

    def _backward(self, handle: Any, m: Mapping[str, Any]) -> None:
        self._run("backward", handle, m)

    def values(self, name: str, generator: data.Generator) -> Array:
        """Uniform in [-0.5, 0.5)."""
        return self.uniform(name, generator, -0.5, 0.5)

    def _cut(self, values: Array) -> Array:
        """A tensor as rows, channels of a row, elements of a channel."""
        return values.reshape(self.rows)

    def _per_channel(self, values: Array) -> Array:
        """Weights likewise, for all rows."""
        some = values.reshape(-1, self.rows[1], 1)
        return np.tile(some, (self.rows[0] // len(some), 1, 1))

    def _input(self, m: Mapping[str, Doubles]) -> Array:
        return self._cut(m["x"] + m["x2"] if self.second else m["x"])

    def _forward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        x = self._input(m)
        mean = x.mean((1, 2), keepdims=True) if self.means else np.zeros((len(x), 1, 1))
        rstd = 1 / np.sqrt(((x - mean) ** 2).mean((1, 2), keepdims=True) + self.epsilon)
        y = (x - mean) * rstd
        if "weight" in m:
            y = y * self._per_channel(m["weight"])
        if "bias" in m:
            y = y + self._per_channel(m["bias"])
        found = {"y": y.reshape(self.desc.lens), "rstd": rstd.reshape(self.outer.lens)}
        return {**found, "mean": mean.reshape(self.outer.lens)} if self.means else found

    def _backward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        dy, rstd = self._cut(m["dy"]), m["rstd"].reshape(-1, 1, 1)
        xhat = (self._input(m) - (m["mean"].reshape(-1, 1, 1) if self.means else 0)) * rstd
        g = dy * self._per_channel(m["weight"]) if "weight" in m else dy
        first = g.mean((1, 2), keepdims=True) if self.means else 0
        dx = rstd * (g - first - xhat * (g * xhat).mean((1, 2), keepdims=True))
        columns = -1, prod(self.inner.lens)
        sums = {"dw": (dy * xhat).sum(2).reshape(columns).sum(0).reshape(self.inner.lens)}
        if self.means:
            sums["db"] = dy.sum(2).reshape(columns).sum(0).reshape(self.inner.lens)
        return {"dx": dx.reshape(self.desc.lens), **sums}


class AddLayerNorm(LayerNorm):
    method = "add_layer_norm"
    second = True


class T5LayerNorm(LayerNorm):
    method = "t5_layer_norm"
    means = False

    def _shape(self) -> tuple[int, Sizes, Sizes]:
        lens = self.lens()
        self.rows = prod(lens[:-1]), lens[-1], 1
        return len(lens) - 1, lens[-1:], lens[:-1] or (1,)


class GroupNorm(LayerNorm):
    method = "group_norm"

    def lens(self) -> Sizes:
        spatial = [self.command.number(name) for name in ("in_d", "in_h")]
        return (self.command.number("batchsize"), self.command.number("in_channels"),
                *spatial[0 if spatial[0] else 1 if spatial[1] else 2:], self.command.number("in_w"))

    def _shape(self) -> tuple[int, Sizes, Sizes]:
        lens, groups = self.lens(), self.command.number("num_groups")
        if lens[1] % groups:
            raise UsageError(f"num_groups is {groups}: that does not divide {lens[1]} channels")
        self.rows = lens[0] * groups, lens[1] // groups, prod(lens[2:])
        return groups, lens[1:2], (lens[0], groups)
