"""Reductions."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from miopyx import ReduceTensorDescriptor, enums

from .nodes import Node, Outside, Run, View, axis_of, numbers_of
from .values import Value, tensor

__all__ = ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
           "ReduceSumSquare"]


class _Reduce(Node):
    read = (1,)
    op: ClassVar[str]
    since: ClassVar[int] = 18  # the opset from which on the axes are an input

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        given = getattr(a, "axes", None) if self.opset < self.since else numbers_of((*inputs, None)[1])
        if not given and getattr(a, "noop_with_empty_axes", False):
            return self.nothing(x)
        axes = {axis_of(axis, x.ndim, self.op_type) for axis in given} if given else set(range(x.ndim))
        kept = [1 if i in axes else length for i, length in enumerate(x.shape)]
        shape = kept if a.keepdims else [length for i, length in enumerate(x.shape) if i not in axes]
        # Neighbours that share their fate are one axis.
        lens: list[int] = []
        reduced: list[bool] = []
        for i, length in enumerate(x.shape):
            if length == 1:
                continue
            if reduced and reduced[-1] == (i in axes):
                lens[-1] *= length
            else:
                lens.append(length)
                reduced.append(i in axes)
        if not any(reduced):
            lens, reduced = [*lens, 1], [*reduced, True]
        if len(lens) > 5:
            raise Outside(f"{len(lens)} axes that stay and go in turns")
        desc = ReduceTensorDescriptor(getattr(enums, f"MIOPEN_REDUCE_TENSOR_{self.op}"),
                                      nan_propagation=enums.MIOPEN_PROPAGATE_NAN)
        left = [1 if gone else length for length, gone in zip(lens, reduced, strict=True)]
        plan = self.device.handle.reduce_tensor(desc, tensor(x.dtype, lens), tensor(x.dtype, left))

        def run(x: Value, *_: Any) -> tuple[Any, ...]:
            y = self.device.empty(shape, x.dtype)
            self.device.call(plan, x, y)
            return (y,)

        return run, plan.solver.name

    def nothing(self, x: Value) -> tuple[Run, str]:
        """What no axis at all means."""
        raise View(x.shape)


class ReduceSum(_Reduce):
    op = "ADD"
    since = 13


class ReduceMean(_Reduce):
    op = "AVG"


class ReduceMax(_Reduce):
    op = "MAX"


class ReduceMin(_Reduce):
    op = "MIN"


class ReduceProd(_Reduce):
    op = "MUL"


class ReduceL1(_Reduce):
    op = "NORM1"

    def nothing(self, x: Value) -> tuple[Run, str]:
        raise Outside("no axis is reduced")


class ReduceL2(ReduceL1):
    op = "NORM2"


class ReduceLogSum(ReduceL1):
    """The sum, of which NumPy takes the logarithm."""

    op = "ADD"

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        if inputs[0].dtype.itemsize < 4:
            raise Outside("sums that are not rounded to 16 bits")
        inner, why = super().prepare(inputs, a)
        return lambda *given: (self.device.wrap(np.log(inner(*given)[0].host)),), f"{why}, log in NumPy"


class ReduceSumSquare(ReduceL1):
    op = "ADD"

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        if x.dtype.itemsize < 4:
            raise Outside("squares that are not rounded to 16 bits")
        inner, why = super().prepare(inputs, a)
        desc = tensor(x.dtype, (x.size,))
        square = self.device.handle.op_tensor(enums.miopenTensorOpMul, desc, desc, desc)

        def run(x: Value, *rest: Any) -> tuple[Any, ...]:
            y = self.device.empty(x.shape, x.dtype)
            self.device.call(square, x, x, y)
            return inner(y, *rest)

        return run, f"{square.solver.name}, {why}"
