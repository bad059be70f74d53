"""`reduce`, `reducecalculation` and `reduceextreme`: what becomes of the elements along some axes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

import miopyx

from . import data
from .data import Array
from .layer import SWITCH, Layer, Pass, file_flags, limit, operations, packed, run_flags
from .options import Command, Family, Flag, UsageError
from .problem import Sizes
from .verify import Doubles

ADD, MUL, MIN, MAX, AMAX, AVG, NORM1, NORM2, MUL_NO_ZEROS = OPS = range(9)
EXTREMES = (MIN, MAX, AMAX)
ARGMIN, ARGMAX = 1, 2

_FORWARD = Flag("forw", "F", 1, "forward is all there is", (1,))
_DIM = "the axis that is reduced"


def _one_axis(name: str, title: str, lens: str, dim: int, *flags: Flag) -> Family:
    return Family(name, title, operations(name), (
        _FORWARD, Flag("input", "X", lens, "lengths of the tensor"), Flag("DimToReduce", "R", dim, _DIM, range(5)),
        *flags, *run_flags()))


TENSOR_FAMILY = Family("reduce", "a reduction", operations("reduce"), (
    _FORWARD,
    Flag("DimLengths", "D", "100,60,16,240", "lengths of the tensor"),
    Flag("DimsToReduce", "R", "0,2", "the axes that are reduced"),
    Flag("ReduceOp", "O", 0, "0 sum, 1 product, 2 minimum, 3 maximum, 4 maximum of magnitudes, 5 mean, 6 sum of "
         "magnitudes, 7 root of the sum of squares, 8 product of what is not 0", OPS),
    Flag("CompType", "C", 1, "what is computed in, a miopenDataType_t", (0, 1, 5, 6)),
    Flag("NanPropagation", "N", 0, "whether a NaN becomes the result of 2 to 4", SWITCH),
    Flag("IndicesUsed", "I", 0, "whether 2 to 4 give indices, too", SWITCH),
    Flag("alpha", "A", 1.0, "factor of the result"),
    Flag("beta", "B", 0.0, "factor of what was there, which is added"),
    *run_flags(1),
    *file_flags(("in_data", "d"), ("dump_output", "o")),
))
CALCULATION_FAMILY = _one_axis(
    "reducecalculation", "a sum or a product along an axis", "256x4x8732", 1,
    Flag("NanPropagation", "N", 0, "whether a NaN becomes the result", SWITCH),
    Flag("ReduceCalculationOp", "O", 2, "1 product, 2 sum", (1, 2)))
EXTREME_FAMILY = _one_axis(
    "reduceextreme", "a minimum or a maximum along an axis", "21x500x375", 0,
    Flag("ReduceExtremeOp", "O", 1, "1 index of the minimum, 2 of the maximum, 3 minimum and index, 4 maximum",
         range(1, 5)))


def numbers(command: Command, flag: str, separator: str) -> Sizes:
    """Return a flag's list of integers."""
    try:
        return tuple(map(int, command.text(flag).split(separator)))
    except ValueError:
        raise UsageError(f"--{flag} {command[flag]}: not integers, as in "
                         f"{command.family.long[flag].default}") from None


class Reduction(Layer):
    """What the three have in common: `op` by the numbers of `reduce`, and `axes`."""

    title: str

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.op, self.axes, lens = self._asked()
        if not all(0 <= axis < len(lens) for axis in self.axes) or len(set(self.axes)) < len(self.axes):
            raise UsageError(f"axes {', '.join(map(str, self.axes))}: the tensor has {len(lens)}, the first is 0")
        self.desc = self.tensor("x", miopyx.TensorDescriptor(self.dtype, lens))
        self.c_lens = self._result(lens)
        self.c_desc = miopyx.TensorDescriptor(self.dtype, self.c_lens)

    def _asked(self) -> tuple[int, Sizes, Sizes]:
        """Return the operation, the axes and the tensor's lengths."""
        op = {"ReduceCalculationOp": (MUL, ADD), "ReduceExtremeOp": (MIN, MAX, MIN, MAX)}
        name = next(name for name in op if name in self.command.family.long)
        return (op[name][self.command.number(name) - 1], (self.command.number("DimToReduce"),),
                numbers(self.command, "input", "x"))

    def _result(self, lens: Sizes) -> Sizes:
        return tuple(n for i, n in enumerate(lens) if i not in self.axes) or (1,)

    @property
    def layer(self) -> str:
        word = ("sum", "prod", "min", "max", "amax", "avg", "norm1", "norm2", "mul_no_zeros")[self.op]
        return f"{self.command.operation} {word} {'x'.join(map(str, self.desc.lens))} over {self._axes_text()}"

    def _axes_text(self) -> str:
        return ",".join(map(str, self.axes))

    def _add_index(self) -> None:
        self.memory["index"] = packed("int32", self.c_lens)

    def _outputs(self) -> tuple[str, ...]:
        return tuple(name for name in ("y", "index") if name in self.memory)

    def passes(self) -> list[Pass]:
        bound = limit(self.dtype, 1e-4, 5e-2)
        given = self._inputs()
        return [Pass("fwd", f"Forward {self.title}", given, self._outputs(), given, self._call, self._plan,
                     self._reference, bound, -1)]

    def _inputs(self) -> tuple[str, ...]:
        return ("x",)

    def _plan(self, handle: Any) -> Any:
        raise NotImplementedError

    def _call(self, handle: Any, m: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _workspace(self, handle: Any, size: int) -> Any:
        """Memory of a size, made once for a handle."""
        if size and ("workspace" not in self.raw or self.kept[0] is not handle):
            self.raw["workspace"] = size
            self.kept: tuple[Any, Any] = handle, handle.upload(np.zeros(size, np.uint8))
        return self.kept[1] if size else None

    def values(self, name: str, generator: data.Generator) -> Array:
        """Uniform in [-0.5, 0.5), factors in [0.9, 1.1)."""
        product = self.op in (MUL, MUL_NO_ZEROS)
        return self.uniform(name, generator, *((0.9, 1.1) if product else (-0.5, 0.5)))

    def _terms(self, x: Doubles) -> Array:
        """The reduced elements of each result in a row."""
        kept = [i for i in range(x.ndim) if i not in self.axes]
        rows = np.transpose(x, (*kept, *sorted(self.axes)))
        rows = rows.reshape(prod(self.c_lens), -1)
        return np.abs(rows) if self.op in (AMAX, NORM1) else rows

    def _reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        rows = self._terms(m["x"])
        index = (rows.argmin if self.op == MIN else rows.argmax)(1)
        if self.op in EXTREMES:
            result = rows.min(1) if self.op == MIN else rows.max(1)
        elif self.op in (MUL, MUL_NO_ZEROS):
            result = np.where(rows == 0, 1.0, rows).prod(1) if self.op == MUL_NO_ZEROS else rows.prod(1)
        else:
            result = (rows * rows if self.op == NORM2 else rows).sum(1)
            result = result / rows.shape[1] if self.op == AVG else np.sqrt(result) if self.op == NORM2 else result
        return {"y": self._mixed(result.reshape(self.c_lens), m), "index": index.reshape(self.c_lens)}

    def _mixed(self, result: Array, m: Mapping[str, Doubles]) -> Array:
        return result


class ReduceTensor(Reduction):
    title = "Reduce"

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.scalars = command.real("alpha"), command.real("beta")
        self.tensor("y", self.c_desc)
        wanted = bool(command.number("IndicesUsed")) and self.op in EXTREMES
        if wanted:
            self._add_index()
        self.reduce_desc = miopyx.ReduceTensorDescriptor(self.op, command.number("CompType"),
                                                         command.number("NanPropagation"), int(wanted))

    def _asked(self) -> tuple[int, Sizes, Sizes]:
        return (self.command.number("ReduceOp"), numbers(self.command, "DimsToReduce", ","),
                numbers(self.command, "DimLengths", ","))

    def _result(self, lens: Sizes) -> Sizes:
        return tuple(1 if i in self.axes else n for i, n in enumerate(lens))

    def _inputs(self) -> tuple[str, ...]:
        return ("x", "y") if self.scalars[1] else ("x",)

    def _plan(self, handle: Any) -> Any:
        return handle.reduce_tensor(self.reduce_desc, self.desc, self.c_desc)

    def _call(self, handle: Any, m: Mapping[str, Any]) -> None:
        size = miopyx.miopenGetReductionWorkspaceSize(handle, self.reduce_desc, self.desc, self.c_desc)
        indices = miopyx.miopenGetReductionIndicesSize(handle, self.reduce_desc, self.desc, self.c_desc)
        alpha, beta = self.scalars
        miopyx.miopenReduceTensor(handle, self.reduce_desc, m.get("index"), indices, self._workspace(handle, size),
                                  size, alpha, self.desc, m["x"], beta, self.c_desc, m["y"])

    def _mixed(self, result: Array, m: Mapping[str, Doubles]) -> Array:
        alpha, beta = self.scalars
        return alpha * result + (beta * m["y"] if "y" in m else 0.0)


class ReduceCalculation(Reduction):
    title = "Reduce Calculation"

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.tensor("y", self.c_desc)
        self.given = command.number("ReduceCalculationOp"), command.number("NanPropagation")

    def _plan(self, handle: Any) -> Any:
        return handle.reduce_calculation(self.desc, self.c_desc, self.axes[0], *self.given)

    def _call(self, handle: Any, m: Mapping[str, Any]) -> None:
        op, nan = self.given
        size = miopyx.miopenGetReduceCalculationWorkspaceSize(handle, self.desc, self.axes[0], op, self.c_desc)
        miopyx.miopenReduceCalculationForward(handle, nan, self._workspace(handle, size), size, self.desc, m["x"],
                                              self.axes[0], op, self.c_desc, m["y"])


class ReduceExtreme(Reduction):
    title = "Reduce Extreme"

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.given = command.number("ReduceExtremeOp")
        if self.given > ARGMAX:
            self.tensor("y", self.c_desc)
        self._add_index()
        self.index_desc = miopyx.TensorDescriptor("int32", self.c_lens)

    def _plan(self, handle: Any) -> Any:
        return handle.reduce_extreme(self.desc, self.c_desc, self.index_desc, self.axes[0], self.given)

    def _call(self, handle: Any, m: Mapping[str, Any]) -> None:
        miopyx.miopenReduceExtremeForward(handle, self.desc, m["x"], self.axes[0], self.given, self.c_desc, m.get("y"),
                                          self.index_desc, m["index"])
