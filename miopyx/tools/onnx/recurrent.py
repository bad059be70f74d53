"""Recurrent layers.

ONNX has matrices of (directions, gates x hidden, ...), MIOpen one array in which each gate of each direction has a
place.  LSTM's gates are i o f c in ONNX and i f o c in MIOpen, GRU's z r h in both.  MIOpen's GRU applies the reset
gate behind the product, as ONNX's does with linear_before_reset.  A layer that goes backward alone is the second half
of one that goes both ways, whose first half has no weights.

What is left, other activations for one, is computed by onnx's own evaluator; what that would not look at is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from miopyx import (
    TensorDescriptor,
    enums,
    miopenCatForward,
    miopenGetRNNLayerBiasOffset,
    miopenGetRNNLayerParamOffset,
)
from miopyx.errors import BadParmError, MIOpenNotImplementedError
from miopyx.problem._rnn import RNNDescriptor, SeqTensorDescriptor

from .nodes import Node, Outside, Run, numbers_of
from .shapes import moving
from .values import Array, Value, tensor

__all__ = ["GRU", "LSTM", "RNN"]


class _Recurrent(Node):
    """X, W, R, B, sequence_lens, initial_h and of LSTM initial_c and P."""

    read = (4,)
    gates: ClassVar[tuple[int, ...]]  # for each of MIOpen's gates which it is in ONNX
    usual: ClassVar[tuple[str, ...]]  # activations of a direction

    def cell(self, inputs: Sequence[Any], a: SimpleNamespace) -> Any:
        """Return the miopenRNNMode_t.  May raise Outside."""
        raise NotImplementedError

    def of_a_direction(self, a: SimpleNamespace) -> tuple[str, ...]:
        """Return the activations of a direction; both have the same ones, or Outside is raised."""
        names = tuple([str(name).capitalize() for name in getattr(a, "activations", None) or self.usual])
        half = names[:len(self.usual)]
        if names not in (half, 2 * half) or getattr(a, "activation_alpha", None) or getattr(a, "activation_beta", None):
            raise Outside("other activations")
        return half

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x, w, r, b, lengths, h0, c0 = (*inputs, *[None] * 7)[:7]
        mode = self.cell(inputs, a)
        if getattr(a, "clip", None):
            raise Outside("sums that are clipped")
        way, batch_first = a.direction, bool(getattr(a, "layout", 0))
        count, hidden = len(self.gates), r.shape[-1]
        dirs, given = 1 if way == "forward" else 2, 2 if way == "bidirectional" else 1
        batch, steps = x.shape[:2] if batch_first else x.shape[1::-1]
        states = (batch, given, hidden) if batch_first else (given, batch, hidden)
        rows = count * hidden
        for name, value, meant in (("W", w, (given, rows, x.shape[2])), ("R", r, (given, rows, hidden)),
                                   ("B", b, (given, 2 * rows)), ("initial_h", h0, states), ("initial_c", c0, states)):
            if value is not None and (value.shape != meant or value.dtype != x.dtype):
                raise BadParmError("lengths or type", name, (value.dtype.name, value.shape), (x.dtype.name, meant))
        lens = numbers_of(lengths)
        desc = RNNDescriptor(hidden, 1, mode, dirs - 1, int(b is not None), 0, x.dtype.name)
        how = enums.miopenRNNDataBatchMajorPadded if batch_first else enums.miopenRNNDataSeqMajorPadded
        x_desc, y_desc = (SeqTensorDescriptor(x.dtype.name, how, steps, batch, width, lens)
                          for width in (x.shape[2], dirs * hidden))
        size = dirs * rows * (x.shape[2] + hidden + 2 * (b is not None))
        pack = self._packing(desc, tensor(x.dtype, (batch, x.shape[2])), size, given, way == "reverse")
        wanted = [i < len(self.onnx_node.output) and bool(self.onnx_node.output[i]) for i in range(3)]
        cells = self.op_type == "LSTM"
        plan = self.device.handle.rnn_forward(desc, x_desc, tensor(x.dtype, (size,)), y_desc, False, h0 is not None,
                                              cells and c0 is not None, wanted[1], cells and wanted[2])
        fixed = self.device.constant(pack(inputs)) if all(v is None or v.constant for v in (w, r, b)) else None
        table = None if x_desc.table is None else self.device.constant(x_desc.table)
        # Of a layer that goes backward alone the second half is taken.
        half = dirs - given
        outer = (batch, steps) if batch_first else (steps, batch)
        shape = (*outer, given, hidden) if batch_first else (steps, given, batch, hidden)
        row = dirs * hidden
        order = [steps * row, row, hidden, 1] if batch_first else [batch * row, hidden, row, 1]
        take_y = moving(self.device, x.dtype, shape, order, half * hidden, shape)[0]
        order = [hidden, batch * hidden, 1] if batch_first else [batch * hidden, hidden, 1]
        take_h = moving(self.device, x.dtype, states, order, half * batch * hidden, states)[0]
        give_h = self._giving(x.dtype, batch, given, dirs, hidden, batch_first)

        def run(*values: Any) -> tuple[Any, ...]:
            x, _, _, _, _, h0, c0 = (*values, *[None] * 7)[:7]
            y = self.device.empty((*outer, row), x.dtype)
            last = [self.device.empty((dirs, batch, hidden), x.dtype) if one else None for one in wanted[1:]]
            named = {"x": x, "w": fixed or self.device.wrap(pack(values)), "hx": give_h(h0), "cx": give_h(c0), "y": y,
                     "hy": last[0], "cy": last[1], "table": table}
            self.device.call(plan, *[named[name] for name in plan.buffers])
            taken = [y.reshaped(shape) if not half and (batch_first or dirs == 1) else take_y(y)]
            ends = [None if v is None else take_h(v) if half or batch_first else v for v in last]
            return (*taken, *ends)[:len(self.onnx_node.output)]

        return run, plan.solver.name

    def _packing(self, desc: RNNDescriptor, step: TensorDescriptor, size: int, given: int,
                 backward: bool) -> Callable[[Sequence[Any]], Array]:
        """Return a function from the node's inputs to MIOpen's parameters, of so many numbers."""
        hidden, count, found = desc.hidden_size or 0, len(self.gates), TensorDescriptor()
        places: list[tuple[int, int, int, int]] = []  # where, which input, its direction and first row
        for d in range(given):
            for own, gate in enumerate(self.gates):
                for part, number in ((1, own), (2, count + own)):
                    first = miopenGetRNNLayerParamOffset(desc, d + backward, step, number, found)
                    places.append((first, part, d, gate * hidden))
                for base in (0, count) if desc.has_bias else ():
                    first = miopenGetRNNLayerBiasOffset(desc, d + backward, step, base + own, found)
                    places.append((first, 3, d, (base + gate) * hidden))

        def pack(values: Sequence[Any]) -> Array:
            flat = np.zeros(size, values[0].dtype)
            for first, part, d, row in places:
                piece = values[part].host[d, row:row + hidden].reshape(-1)
                flat[first:first + piece.size] = piece
            return flat

        return pack

    def _giving(self, dtype: np.dtype[Any], batch: int, given: int, dirs: int, hidden: int,
                batch_first: bool) -> Callable[[Value | None], Value | None]:
        """Return a function from ONNX's first states to MIOpen's."""
        lens = (given, batch, hidden)
        turn = moving(self.device, dtype, lens, [hidden, given * hidden, 1], 0, lens)[0]
        one, both = tensor(dtype, (1, batch * hidden)), tensor(dtype, (2, batch * hidden))

        def give(value: Value | None) -> Value | None:
            if value is None:
                return None
            if batch_first:
                value = turn(value)
            if dirs > given:  # the first half may begin with anything
                whole = self.device.empty((dirs, batch, hidden), dtype)
                miopenCatForward(self.device.handle, 2, [one, one], [value.memory] * 2, both, whole.memory, 0)
                return whole
            return value

        return give

    def numpy(self, attributes: dict[str, Any]) -> Run:
        """Return the function in NumPy, of cells and sequences that onnx's evaluator knows: it looks at no others."""
        names = [str(name).capitalize() for name in attributes.get("activations") or ()]
        usual = list(self.usual)
        if names not in ([], usual, 2 * usual):
            raise MIOpenNotImplementedError("activations", f"{self.op_type}.activations", names, usual)
        for name in ("clip", "input_forget", "activation_alpha", "activation_beta"):
            if attributes.get(name):
                raise MIOpenNotImplementedError("kind of cell", f"{self.op_type}.{name}", attributes[name], "none")
        inner = super().numpy(attributes)

        def run(*inputs: Any) -> tuple[Any, ...]:
            lengths = inputs[4] if len(inputs) > 4 else None
            steps = inputs[0].shape[1 if attributes.get("layout") else 0]
            if isinstance(lengths, Value) and (lengths.host != steps).any():
                raise MIOpenNotImplementedError("sequences of several lengths", f"{self.op_type}.sequence_lens",
                                                np.unique(lengths.host).tolist(), steps)
            return inner(*inputs)

        return run


class RNN(_Recurrent):
    gates = (0,)
    usual = ("Tanh",)

    def cell(self, inputs: Sequence[Any], a: SimpleNamespace) -> Any:
        mode = {"Tanh": enums.miopenRNNTANH, "Relu": enums.miopenRNNRELU}.get(self.of_a_direction(a)[0])
        if mode is None:
            raise Outside("other activations")
        return mode


class LSTM(_Recurrent):
    gates = (0, 2, 1, 3)
    usual = ("Sigmoid", "Tanh", "Tanh")

    def cell(self, inputs: Sequence[Any], a: SimpleNamespace) -> Any:
        if self.of_a_direction(a) != self.usual:
            raise Outside("other activations")
        if a.input_forget or (len(inputs) > 7 and inputs[7] is not None):
            raise Outside("peepholes or coupled gates")
        return enums.miopenLSTM


class GRU(_Recurrent):
    gates = (0, 1, 2)
    usual = ("Sigmoid", "Tanh")

    def cell(self, inputs: Sequence[Any], a: SimpleNamespace) -> Any:
        if self.of_a_direction(a) != self.usual:
            raise Outside("other activations")
        if not a.linear_before_reset:
            raise Outside("a reset gate before the product")
        return enums.miopenGRU
