"""`lrn`: local response normalisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import miopyx

from . import data
from .data import Array
from .layer import FORWARD_FLAG, MORE_SIZE_FLAGS, PRINT_FLAG, Layer, Pass, limit, operations, run_flags, size_flags
from .options import Command, Family, Flag
from .verify import Doubles

FAMILY = Family("lrn", "a local response normalisation", operations("lrn"), (
    FORWARD_FLAG,
    *size_flags(100),
    *MORE_SIZE_FLAGS,
    Flag("lrnN", "N", 5, "channels or rows and columns of a window"),
    Flag("alpha", "A", 0.001, "alpha"),
    Flag("beta", "B", 0.75, "beta"),
    Flag("lrnK", "K", 1.0, "K"),
    *run_flags(),
    PRINT_FLAG,
    Flag("mode", "m", "within", "windows within a channel or cross channels", ("within", "cross")),
))


class LRN(Layer):
    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.cross = command.text("mode") == "cross"
        self.n = command.number("lrnN")
        self.alpha, self.beta, self.k = (command.real(name) for name in ("alpha", "beta", "lrnK"))
        self.desc = self.packed_tensor("x", "y", "dx", "dy")
        self.lrn = miopyx.miopenCreateLRNDescriptor()
        mode = miopyx.miopenLRNCrossChannel if self.cross else miopyx.miopenLRNWithinChannel
        miopyx.miopenSetLRNDescriptor(self.lrn, mode, self.n, self.alpha, self.beta, self.k)
        self.saves = command.number("forw") != 1
        if self.saves:
            self.raw["workSpace"] = miopyx.miopenLRNGetWorkSpaceSize(self.desc)

    @property
    def layer(self) -> str:
        mode, lens = self.command.text("mode"), "x".join(map(str, self.desc.lens[1:]))
        return f"{self.command.operation} {mode} {lens} n{self.n}"

    def passes(self) -> list[Pass]:
        stored = ("workSpace",) if self.saves else ()
        # MIOpenDriver's limits hold for float16 too, whose rounding alone is more.
        four = (self.desc,) * 4
        return [
            Pass("fwd", "Forward LRN", ("x",), ("y", *stored), ("x",), self._forward,
                 lambda handle: handle.lrn_forward(self.lrn, *four[:2], self.saves), self._forward_reference,
                 limit(self.dtype, 1.5e-4, 1.0)),
            Pass("bwd", "Backward LRN", ("y", "dy", "x", *stored), ("dx",), ("y", "dy", "x"), self._backward,
                 lambda handle: handle.lrn_backward(self.lrn, *four), self._backward_reference,
                 limit(self.dtype, 6e-5, 1.0)),
        ]

    def _forward(self, handle: Any, m: Mapping[str, Any]) -> None:
        miopyx.miopenLRNForward(handle, self.lrn, 1.0, self.desc, m["x"], 0.0, self.desc, m["y"], self.saves,
                                m.get("workSpace"))

    def _backward(self, handle: Any, m: Mapping[str, Any]) -> None:
        miopyx.miopenLRNBackward(handle, self.lrn, 1.0, self.desc, m["y"], self.desc, m["dy"], self.desc, m["x"], 0.0,
                                 self.desc, m["dx"], m["workSpace"])

    def values(self, name: str, generator: data.Generator) -> Array:
        """x uniform in [-1, 1), dy in [-0.5, 0.5)."""
        return self.uniform(name, generator, *((-1.0, 1.0) if name == "x" else (-0.5, 0.5)))

    # ------------------------------------------------------------------------------------------------ references

    def _window_sums(self, values: Doubles, mirrored: bool) -> Doubles:
        """Return the sums of the windows of all elements: (n - 1) // 2 before to the rest behind, or mirrored."""
        before = (self.n - 1) // 2
        behind = self.n - before - 1
        if mirrored:
            before, behind = behind, before
        for axis in (1,) if self.cross else (2, 3):
            around = [(before, behind) if i == axis else (0, 0) for i in range(values.ndim)]
            padded = np.pad(values, around)
            values = sum(np.moveaxis(np.moveaxis(padded, axis, 0)[i:i + values.shape[axis]], 0, axis)
                         for i in range(self.n))  # type: ignore[assignment]
        return values

    @property
    def _per_term(self) -> float:
        """Alpha over the elements of a window."""
        return self.alpha / (self.n if self.cross else self.n ** 2)

    def _scale(self, x: Doubles) -> Doubles:
        return self.k + self._per_term * self._window_sums(x * x, False)

    def _forward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        return {"y": m["x"] * self._scale(m["x"]) ** -self.beta}

    def _backward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        x, y, dy = m["x"], m["y"], m["dy"]
        scale = self._scale(x)
        sums = self._window_sums(dy * y / scale, True)
        return {"dx": dy * scale ** -self.beta - 2 * self._per_term * self.beta * x * sums}
