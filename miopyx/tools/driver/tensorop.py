"""`tensorop`: operations on tensors' elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import miopyx

from . import data
from .data import Array
from .layer import MORE_SIZE_FLAGS, Layer, Pass, elementwise_limit, operations, run_flags, size_flags
from .options import Command, Family, Flag, UsageError
from .verify import Doubles

FAMILY = Family("tensorop", "an operation on tensors", operations("tensorop"), (
    Flag("forw", "F", 1, "means nothing"),
    *size_flags(64),
    *MORE_SIZE_FLAGS,
    Flag("b_lens", "", "", "lengths of B, which is broadcast along those of 1, as in 1x3x1x1; empty: those of A and C"),
    Flag("alpha1", "A", 1.0, "factor of A"),
    Flag("alpha2", "B", 1.0, "factor of B"),
    Flag("beta", "G", 0.0, "factor of what was in C, which is added"),
    *run_flags(),
    Flag("tensor_op", "o", 0, "0 set, 1 scale, 2 add, 3 multiply, 4 minimum, 5 maximum", range(6)),
    Flag("tensor_val", "v", 1.0, "the value to set, or the factor to scale with"),
))
SET, SCALE, ADD, MULTIPLY, MINIMUM, MAXIMUM = range(6)


class TensorOp(Layer):
    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.op, self.value = command.number("tensor_op"), command.real("tensor_val")
        self.scalars = tuple(command.real(name) for name in ("alpha1", "alpha2", "beta"))
        self.desc = self.packed_tensor("C", "A")
        self.b = self.desc
        if command.text("b_lens"):
            try:
                lens = tuple(map(int, command.text("b_lens").split("x")))
            except ValueError:
                raise UsageError(f"--b_lens {command['b_lens']}: not lengths, as in 1x3x1x1") from None
            self.b = miopyx.TensorDescriptor(self.dtype, lens)
        self.tensor("B", self.b)

    @property
    def layer(self) -> str:
        name = ("set", "scale", "add", "mul", "min", "max")[self.op]
        b = f" {'x'.join(map(str, self.b.lens))}" if self.b.lens != self.desc.lens and self.op >= ADD else ""
        return f"{self.command.operation} {name} {'x'.join(map(str, self.desc.lens[1:]))}{b}"

    def wanted(self, direction: Pass) -> bool:
        return True

    def passes(self) -> list[Pass]:
        if self.op >= ADD:
            read: tuple[str, ...] = ("A", "B", *(["C"] if self.scalars[2] else []))
        else:
            read = ("C",) if self.op == SCALE else ()
        return [Pass("fwd", "Tensor Op", read, ("C",), read, self._call, self._plan, self._reference,
                     elementwise_limit(self.dtype))]

    def _plan(self, handle: Any) -> Any:
        if self.op >= ADD:
            return handle.op_tensor(self.op - ADD, self.desc, self.b, self.desc)
        return handle.scale_tensor(self.desc) if self.op == SCALE else handle.set_tensor(self.desc, self.value)

    def _call(self, handle: Any, m: Mapping[str, Any]) -> None:
        if self.op == SET:
            miopyx.miopenSetTensor(handle, self.desc, m["C"], self.value)
        elif self.op == SCALE:
            miopyx.miopenScaleTensor(handle, self.desc, m["C"], self.value)
        else:
            alpha1, alpha2, beta = self.scalars
            miopyx.miopenOpTensor(handle, self.op - ADD, alpha1, self.desc, m["A"], alpha2, self.b, m["B"], beta,
                                  self.desc, m["C"])

    def values(self, name: str, generator: data.Generator) -> Array:
        """All uniform in [-2, 2)."""
        return self.uniform(name, generator, -2.0, 2.0)

    def _reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        if self.op == SET:
            return {"C": np.float64(self.value)}  # type: ignore[dict-item]  # broadcast
        if self.op == SCALE:
            return {"C": m["C"] * self.value}
        alpha1, alpha2, beta = self.scalars
        a, b = alpha1 * m["A"], alpha2 * m["B"]
        result = {ADD: np.add, MULTIPLY: np.multiply, MINIMUM: np.minimum, MAXIMUM: np.maximum}[self.op](a, b)
        return {"C": result + (beta * m["C"] if "C" in m else 0.0)}
