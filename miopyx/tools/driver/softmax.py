"""`softmax`: softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import miopyx

from . import data
from .data import Array
from .layer import FORWARD_FLAG, MORE_SIZE_FLAGS, Layer, Pass, limit, operations, run_flags, size_flags
from .options import Command, Family, Flag
from .verify import Doubles

FAMILY = Family("softmax", "a softmax", operations("softmax"), (
    FORWARD_FLAG,
    *size_flags(100),
    *MORE_SIZE_FLAGS,
    Flag("alpha", "A", 1.0, "factor of the result"),
    Flag("beta", "B", 0.0, "factor of what was there, which is added"),
    Flag("algorithm", "a", 1, "0 fast, 1 accurate, 2 logarithm", range(3)),
    Flag("mode", "m", 1, "0: over each image, 1: over the channels of each pixel", (0, 1)),
    *run_flags(),
))
LOG = 2


class Softmax(Layer):
    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.scalars = command.real("alpha"), command.real("beta")
        self.algorithm, self.mode = command.number("algorithm"), command.number("mode")
        self.desc = self.packed_tensor("x", "y", "dx", "dy")
        self.axes = (1,) if self.mode else tuple(range(1, self.desc.ndim))

    @property
    def layer(self) -> str:
        words = [self.command.operation, ("fast", "accurate", "log")[self.algorithm],
                 "channel" if self.mode else "instance", "x".join(map(str, self.desc.lens[1:]))]
        return " ".join(words)

    def passes(self) -> list[Pass]:
        bound, three = limit(self.dtype, 1e-3, 5e-2), (self.desc,) * 3
        y, dx = (("y",), ("dx",)) if self.scalars[1] else ((), ())
        chosen = {"algorithm": self.algorithm, "mode": self.mode}
        return [
            Pass("fwd", "Forward Softmax", ("x", *y), ("y",), ("x", *y), self._forward,
                 lambda handle: handle.softmax_forward(*three[:2], **chosen), self._forward_reference, bound),
            Pass("bwd", "Backward Softmax", ("y", "dy", *dx), ("dx",), ("y", "dy", *dx), self._backward,
                 lambda handle: handle.softmax_backward(*three, **chosen), self._backward_reference, bound),
        ]

    def _forward(self, handle: Any, m: Mapping[str, Any]) -> None:
        alpha, beta = self.scalars
        miopyx.miopenSoftmaxForward_V2(handle, alpha, self.desc, m["x"], beta, self.desc, m["y"], self.algorithm,
                                       self.mode)

    def _backward(self, handle: Any, m: Mapping[str, Any]) -> None:
        alpha, beta = self.scalars
        miopyx.miopenSoftmaxBackward_V2(handle, alpha, self.desc, m["y"], self.desc, m["dy"], beta, self.desc, m["dx"],
                                        self.algorithm, self.mode)

    def values(self, name: str, generator: data.Generator) -> Array:
        """x uniform in [-4, 4), all else in [-0.5, 0.5)."""
        return self.uniform(name, generator, *((-4.0, 4.0) if name == "x" else (-0.5, 0.5)))

    def _scaled(self, result: Array, before: Array | None) -> Array:
        alpha, beta = self.scalars
        return alpha * result + (beta * before if before is not None else 0.0)

    def _forward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        shifted = m["x"] - m["x"].max(self.axes, keepdims=True)
        total = np.exp(shifted).sum(self.axes, keepdims=True)
        result = shifted - np.log(total) if self.algorithm == LOG else np.exp(shifted) / total
        return {"y": self._scaled(result, m.get("y"))}

    def _backward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        y, dy = m["y"], m["dy"]
        if self.algorithm == LOG:
            result = dy - np.exp(y) * dy.sum(self.axes, keepdims=True)
        else:
            result = y * (dy - (dy * y).sum(self.axes, keepdims=True))
        return {"dx": self._scaled(result, m.get("dx"))}
