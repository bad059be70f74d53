"""What moves elements, or only gives them other lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from miopyx import TensorDescriptor, miopenCatForward
from miopyx.errors import BadParmError

from .nodes import Node, Outside, Run, View, axis_of, numbers_of
from .values import Device, Value, tensor

__all__ = ["Concat", "Flatten", "Gather", "Identity", "Reshape", "Shape", "Slice", "Split", "Squeeze", "Transpose",
           "Unsqueeze", "transposing"]


def _steps(shape: Sequence[int]) -> list[int]:
    return [prod(shape[i + 1:]) for i in range(len(shape))]


def moving(device: Device, dtype: np.dtype[Any], lens: Sequence[int], steps: Sequence[int], first: int,
           shape: Sequence[int]) -> tuple[Callable[[Value], Value], str]:
    """Return a copy of the elements that lie `steps` apart from `first` on, and the solver's name.

    Axes that lie one behind the other are one, so that there are five at most.
    """
    joined: list[tuple[int, int]] = []
    for length, step in zip(lens, steps, strict=True):
        if length == 1:
            continue
        if joined and joined[-1][1] == length * step:
            joined[-1] = joined[-1][0] * length, step
        else:
            joined.append((length, step))
    joined = joined or [(1, 1)]
    if len(joined) > 5:
        raise Outside(f"{len(joined)} axes in another order")
    few = [length for length, _ in joined]
    plan = device.handle.transform_tensor(TensorDescriptor(dtype.name, few, [step for _, step in joined]),
                                          tensor(dtype, few))

    def move(x: Value) -> Value:
        y = device.empty(shape, dtype)
        plan(x.part(first), y.memory)
        return y

    return move, plan.solver.name


def transposing(device: Device, x: Value, order: Sequence[int]) -> Callable[[Value], Value]:
    """Return what transposes values like `x`."""
    steps = _steps(x.shape)
    lens = [x.shape[i] for i in order]
    return moving(device, x.dtype, lens, [steps[i] for i in order], 0, lens)[0]


class _Lengths(Node):
    """The same elements under other lengths, whatever their type."""

    def require(self, inputs: Sequence[Any]) -> None:
        if not isinstance(inputs[0], Value):
            raise Outside("not a tensor")

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        shape = self.lengths(inputs[0].shape, inputs, a)
        if prod(shape) != inputs[0].size:
            raise BadParmError("another number of elements", "shape", tuple(shape), f"{inputs[0].size} elements")
        raise View(shape)

    def lengths(self, shape: tuple[int, ...], inputs: Sequence[Any], a: SimpleNamespace) -> Sequence[int]:
        raise NotImplementedError


class Identity(_Lengths):
    def lengths(self, shape: tuple[int, ...], inputs: Sequence[Any], a: SimpleNamespace) -> Sequence[int]:
        return shape


class Flatten(_Lengths):
    def lengths(self, shape: tuple[int, ...], inputs: Sequence[Any], a: SimpleNamespace) -> Sequence[int]:
        axis = axis_of(a.axis, len(shape), self.op_type, ends=True)
        return prod(shape[:axis]), prod(shape[axis:])


class Reshape(_Lengths):
    read = (1,)

    def lengths(self, shape: tuple[int, ...], inputs: Sequence[Any], a: SimpleNamespace) -> Sequence[int]:
        wanted = list(a.shape) if self.opset < 5 else numbers_of(inputs[1]) or []
        if not getattr(a, "allowzero", 0):
            if any(length == 0 and i >= len(shape) for i, length in enumerate(wanted)):
                raise BadParmError("copies the length of an axis that is not there", "shape", wanted, shape)
            wanted = [length or shape[i] for i, length in enumerate(wanted)]
        if wanted.count(-1) > 1:
            raise BadParmError("more than one length is open", "shape", wanted, "one -1")
        if -1 in wanted:
            known = -prod(wanted)
            wanted[wanted.index(-1)] = prod(shape) // known if known else 0
        return wanted


class Squeeze(_Lengths):
    read = (1,)

    def axes_of(self, inputs: Sequence[Any], a: SimpleNamespace) -> list[int] | None:
        given = getattr(a, "axes", None)
        return (None if given is None else list(given)) if self.opset < 13 else numbers_of((*inputs, None)[1])

    def lengths(self, shape: tuple[int, ...], inputs: Sequence[Any], a: SimpleNamespace) -> Sequence[int]:
        axes = self.axes_of(inputs, a)
        if axes is None:
            return [length for length in shape if length != 1]
        gone = {axis_of(axis, len(shape), self.op_type) for axis in axes}
        if any(shape[axis] != 1 for axis in gone):
            raise BadParmError("axes whose length is not 1", "axes", axes, shape)
        return [length for i, length in enumerate(shape) if i not in gone]


class Unsqueeze(Squeeze):
    def lengths(self, shape: tuple[int, ...], inputs: Sequence[Any], a: SimpleNamespace) -> Sequence[int]:
        axes = self.axes_of(inputs, a) or []
        rank = len(shape) + len(axes)
        new = {axis_of(axis, rank, self.op_type) for axis in axes}
        if len(new) != len(axes):
            raise BadParmError("an axis twice", "axes", axes, "distinct ones")
        rest = iter(shape)
        return [1 if i in new else next(rest) for i in range(rank)]


class Shape(Node):
    """The lengths alone: the tensor stays where it is."""

    def require(self, inputs: Sequence[Any]) -> None:
        if not isinstance(inputs[0], Value):
            raise Outside("not a tensor")

    def _prepare(self, inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Run, str, str]:
        a = SimpleNamespace(**attributes)
        shape = inputs[0].shape[getattr(a, "start", None) or 0:getattr(a, "end", None)]
        return lambda _: (self.device.wrap(np.array(shape, np.int64)),), "view", "lengths alone"


class Transpose(Node):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        order = list(a.perm) if a.perm else list(range(x.ndim))[::-1]
        if sorted(order) != list(range(x.ndim)):
            raise BadParmError("no order of the axes", "perm", order, f"each of 0 ... {x.ndim - 1} once")
        lens = [x.shape[i] for i in order]
        long = [i for i in order if x.shape[i] != 1]
        if long == sorted(long):
            raise View(lens)
        steps = _steps(x.shape)
        move, why = moving(self.device, x.dtype, lens, [steps[i] for i in order], 0, lens)
        return lambda x: (move(x),), why


class Slice(Node):
    read = (1, 2, 3, 4)

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        if self.opset < 10:
            starts, ends, axes, steps = list(a.starts), list(a.ends), a.axes, None
        else:
            starts, ends = numbers_of(inputs[1]) or [], numbers_of(inputs[2]) or []
            axes, steps = (numbers_of(v) for v in (*inputs[3:], None, None)[:2])
        axes = list(range(len(starts))) if axes is None else [axis_of(i, x.ndim, self.op_type) for i in axes]
        lens, apart, first = list(x.shape), _steps(x.shape), 0
        for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(starts), strict=True):
            taken = range(x.shape[axis])[slice(start, end, step)]
            if step < 1:
                raise Outside("steps backwards")
            if not taken:
                raise Outside("empty tensor")
            first += taken[0] * apart[axis]
            lens[axis], apart[axis] = len(taken), apart[axis] * step
        if lens == list(x.shape):
            raise View(x.shape)
        move, why = moving(self.device, x.dtype, lens, apart, first, lens)
        return lambda x, *_: (move(x),), why


class Split(Node):
    read = (1,)

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        axis = axis_of(a.axis, x.ndim, self.op_type)
        length, count = x.shape[axis], len(self.onnx_node.output)
        parts = getattr(a, "split", None) if self.opset < 13 else numbers_of((*inputs, None)[1])
        if parts is None:
            size = -(-length // count)
            parts = [min(size, length - i * size) for i in range(count)]
        if sum(parts) != length or min(parts) < 0 or len(parts) != count:
            raise BadParmError("lengths of the parts", "split", list(parts), f"{count} with the sum {length}")
        if min(parts) == 0:
            raise Outside("empty tensor")
        steps, first, moves = _steps(x.shape), 0, []
        for part in parts:
            lens = [*x.shape[:axis], part, *x.shape[axis + 1:]]
            moves.append(moving(self.device, x.dtype, lens, steps, first * steps[axis], lens))
            first += part
        return lambda x, *_: tuple([move(x) for move, _ in moves]), moves[0][1]


class Gather(Node):
    """One place of an axis; many are gathered by NumPy."""

    read = (1,)

    def require(self, inputs: Sequence[Any]) -> None:
        super().require(inputs)
        if inputs[1].size != 1:
            raise Outside("no function of MIOpen's gathers")

    def key(self, inputs: Sequence[Any]) -> object:
        return super().key(inputs) if inputs[1].size == 1 else (inputs[0].key, inputs[1].shape)

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x, places = inputs
        axis, place = axis_of(a.axis, x.ndim, self.op_type), int(places.host.reshape(()))
        if not -x.shape[axis] <= place < x.shape[axis]:
            raise BadParmError("an index beyond the axis", "indices", place, f"an axis of {x.shape[axis]}")
        steps = _steps(x.shape)
        lens = [*x.shape[:axis], 1, *x.shape[axis + 1:]]
        shape = [*x.shape[:axis], *places.shape, *x.shape[axis + 1:]]
        move, why = moving(self.device, x.dtype, lens, steps, place % x.shape[axis] * steps[axis], shape)
        return lambda x, _: (move(x),), why


class Concat(Node):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        axis = axis_of(a.axis if self.opset >= 4 or self.is_set("axis") else 1, x.ndim, self.op_type)
        for i, other in enumerate(inputs):
            if other.dtype != x.dtype or other.ndim != x.ndim or any(
                    p != q for k, (p, q) in enumerate(zip(other.shape, x.shape, strict=True)) if k != axis):
                raise BadParmError("types or lengths differ", f"inputs[{i}]", (other.dtype.name, other.shape),
                                   (x.dtype.name, x.shape))
        if len(inputs) == 1:
            raise View(x.shape)
        shape = [*x.shape[:axis], sum(v.shape[axis] for v in inputs), *x.shape[axis + 1:]]
        rows = prod(x.shape[:axis])
        full = [i for i, v in enumerate(inputs) if v.size]
        if len(full) > 15:
            raise Outside(f"{len(full)} tensors, of which a call takes 15")
        descs = [tensor(x.dtype, (rows, inputs[i].size // rows)) for i in full]
        whole, handle = tensor(x.dtype, (rows, prod(shape) // rows)), self.device.handle

        def run(*values: Value) -> tuple[Any, ...]:
            y = self.device.empty(shape, x.dtype)
            miopenCatForward(handle, len(descs), descs, [values[i].memory for i in full], whole, y.memory, 1)
            return (y,)

        return run, "cat"
