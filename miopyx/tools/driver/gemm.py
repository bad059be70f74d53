"""`gemm`: products of matrices, which convolutions of 1x1 compute, a group for each matrix of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import miopyx

from . import data
from .data import Array
from .layer import SWITCH, Layer, Pass, limit, operations, packed, run_flags
from .options import Command, Family, Flag
from .verify import Doubles

_SIZE = range(1, 2**31)
FAMILY = Family("gemm", "products of matrices", operations("gemm"), (
    Flag("forw", "F", 1, "means nothing: there is one direction", (0, 1)),
    Flag("batch_count", "b", 1, "products", _SIZE),
    Flag("isColMajor", "C", 0, "columns lie in a row, not rows", SWITCH),
    Flag("a_h", "m", 256, "rows of A as it is used", _SIZE),
    Flag("a_w", "k", 256, "columns of A, and rows of B", _SIZE),
    Flag("b_w", "n", 256, "columns of B", _SIZE),
    Flag("alpha", "A", 1.0, "factor of the product"),
    Flag("beta", "B", 0.0, "factor of what was there, which is added"),
    Flag("transA", "u", 0, "A lies transposed", SWITCH),
    Flag("transB", "v", 0, "B lies transposed", SWITCH),
    *run_flags(),
))
Run = Callable[[Mapping[str, Any]], None]


class Gemm(Layer):
    """C = alpha A B + beta C; in columns the same memory holds C^T = alpha B^T A^T + beta C^T in rows."""

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        m, k, n, self.batch = (command.number(name) for name in ("a_h", "a_w", "b_w", "batch_count"))
        self.scalars = command.real("alpha"), command.real("beta")
        left, right = ("A", command.number("transA")), ("B", command.number("transB"))
        if command.number("isColMajor"):
            left, right, m, n = right, left, n, m
        (self.left, self.turned), (self.right, self.turned_right) = left, right
        self.m, self.k, self.n = m, k, n
        for name, rows, columns, turned in ((self.left, m, k, self.turned), (self.right, k, n, self.turned_right),
                                            ("C", m, n, 0)):
            lens = (self.batch, columns, rows) if turned else (self.batch, rows, columns)
            self.memory[name] = packed(self.dtype, lens)
        self.ready: dict[Any, tuple[Any, Run]] = {}

    @property
    def layer(self) -> str:
        return f"{self.command.operation} {self.batch}x{self.m}x{self.n}x{self.k}"

    def wanted(self, direction: Pass) -> bool:
        return True

    def values(self, name: str, generator: data.Generator) -> Array:
        return self.uniform(name, generator, *((0.0, 1.0) if name == "A" else (-0.5, 0.5)))

    def passes(self) -> list[Pass]:
        before = ("C",) if self.scalars[1] else ()
        inputs = ("A", "B", *before)
        return [Pass("fwd", "Forward GEMM", inputs, ("C",), inputs, lambda handle, m: self._prepared(handle)[1](m),
                     lambda handle: self._prepared(handle)[0], self._reference, limit(self.dtype, 1.5e-6, 8.2e-3))]

    def _prepared(self, handle: Any) -> tuple[Any, Run]:
        if handle not in self.ready:
            self.ready[handle] = self._prepare(handle)
        return self.ready[handle]

    def _prepare(self, handle: Any) -> tuple[Any, Run]:
        """Return the convolution's plan, and what runs the product."""
        b, m, k, n, scalars = self.batch, self.m, self.k, self.n, self.scalars
        conv = miopyx.ConvolutionDescriptor((0, 0), groups=b)

        def image(rows: int, columns: int) -> Any:
            return miopyx.TensorDescriptor(self.dtype, (1, b * rows, 1, columns))

        def filters(rows: int, columns: int) -> Any:
            return miopyx.TensorDescriptor(self.dtype, (b * rows, columns, 1, 1))

        if self.turned and not self.turned_right:
            plan = handle.convolution_backward_data(image(k, n), filters(k, m), conv, image(m, n))
            return plan, lambda given: plan(given[self.right], given[self.left], given["C"], *scalars)
        if not self.turned_right:
            plan = handle.convolution_forward(image(k, n), filters(m, k), conv, image(m, n))
            return plan, lambda given: plan(given[self.right], given[self.left], given["C"], *scalars)
        plan = handle.convolution_backward_weights(image(m, k), image(n, k), conv, filters(m, n))
        if not self.turned:
            return plan, lambda given: plan(given[self.left], given[self.right], given["C"], *scalars)
        # Nothing multiplies two transposed matrices: one is turned before.
        lies = miopyx.TensorDescriptor(self.dtype, (b, m, k), (m * k, 1, m))
        turned = miopyx.TensorDescriptor(self.dtype, (b, m, k))
        turn, straight = handle.transform_tensor(lies, turned), handle.empty(turned)

        def run(given: Mapping[str, Any]) -> None:
            turn(given[self.left], straight)
            plan(straight, given[self.right], given["C"], *scalars)
        return plan, run

    def _reference(self, given: Mapping[str, Doubles]) -> dict[str, Array]:
        left = given[self.left].swapaxes(1, 2) if self.turned else given[self.left]
        right = given[self.right].swapaxes(1, 2) if self.turned_right else given[self.right]
        alpha, beta = self.scalars
        return {"C": alpha * (left @ right) + (beta * given["C"] if beta else 0.0)}
