"""`rnn` and `rnn_seq`: recurrent layers, with a descriptor for each step and with sequence tensors."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import miopyx

from . import data
from .data import Array
from .dropout import philox
from .layer import SWITCH, Layer, Pass, file_flags, limit, operations, packed, run_flags
from .options import Command, Family, Flag, UsageError
from .problem import Sizes
from .verify import Doubles

_api: Any = miopyx  # arguments come as lists, which type checkers do not count
_MODES = ("relu", "tanh", "lstm", "gru")
_GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}
_PACKED, _STEPS, _SEQUENCES = 1, 2, 3  # miopenRNNBaseLayout_t
_SIZE = range(1, 2**31)

_LAYER_FLAGS = (
    Flag("forw", "F", 0, "directions: 1 forward + 2 backward data + 4 backward weights; 0 all", range(8)),
    Flag("fwdtype", "c", 0, "0: training; 1: inference, which has no other direction", SWITCH),
    Flag("mode", "m", "tanh", "the cell", _MODES),
    Flag("num_layer", "l", 1, "layers", _SIZE),
    Flag("hid_h", "H", 32, "length of a state", _SIZE),
    Flag("bidirection", "r", 0, "1: forward and backward in time", SWITCH),
    Flag("bias", "b", "", "1: with biases", ("", "0", "1")),
    Flag("inputmode", "p", 0, "1: the first layer has no weights for its inputs", SWITCH),
    Flag("rnnalgo", "a", 0, "miopenRNNAlgo_t; changes nothing", SWITCH),
    Flag("datatype", "f", 1, "type", fixed="the operation's name says the type"),
    Flag("use_dropout", "U", 0, "1: drop elements between layers", SWITCH),
    Flag("dropout", "P", 0.0, "the probability that an element becomes 0"),
    Flag("seed_low", "L", 0, "low 32 bits of the seed", range(2**32)),
    Flag("seed_high", "M", 0, "high 32 bits of the seed", range(2**32)),
    *(flag for flag in run_flags(1) if flag.name != "wall"),
    Flag("wall", "w", 0, "print times, wall-clock times too (1, 2 or 3, which here mean the same)", range(4)),
    *file_flags(("dump_output", "o")),
)
FAMILY = Family("rnn", "recurrent layers", operations("rnn"), (
    Flag("batchsize", "n", "4", "sequences at each step, as in 4,3,1; the last number counts for the other steps"),
    Flag("seq_len", "k", 1, "steps", _SIZE),
    Flag("in_h", "W", 32, "length of an input", _SIZE),
    Flag("use_padding", "q", 0, "1: steps of fewer sequences are padded", SWITCH),
    *_LAYER_FLAGS,
))
SEQ_FAMILY = Family("rnn_seq", "recurrent layers of sequence tensors", operations("rnn_seq"), (
    Flag("batch_size", "n", 4, "sequences", _SIZE),
    Flag("seq_len", "k", 10, "steps of the longest sequence", _SIZE),
    Flag("seq_len_array", "K", "",
         "steps of each sequence, as in 9,7,2; the last number counts for the others; empty: all have the most"),
    Flag("in_vec", "W", 32, "length of an input", _SIZE),
    Flag("io_layout", "I", _PACKED, "1: steps, not padded; 2: steps, padded; 3: sequences, padded",
         (_PACKED, _STEPS, _SEQUENCES)),
    *_LAYER_FLAGS,
))


def _numbers(command: Command, flag: str, least: int) -> list[int]:
    text = command.text(flag)
    try:
        found = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise UsageError(f"--{flag} {text}: no whole numbers between ','") from None
    if any(n < least for n in found):
        raise UsageError(f"--{flag} {text}: numbers from {least} on")
    return found


def _logistic(x: Doubles) -> Doubles:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


class Cell(NamedTuple):
    """What one step of a cell leaves for its gradients."""

    gates: list[Any]
    recurrent: Any  # what GRU's reset gate multiplies
    h: Any
    c: Any
    new_c: Any
    new: Any
    into: Any


class Stack:
    """The definition of recurrent layers in float64, of arrays (steps, sequences, numbers).

    Attributes
    ----------
    matrices, biases : dict
        By layer, direction and whether it multiplies the state: where among the parameters it begins, and its lengths.
    count : int
        Parameters.
    """

    def __init__(self, mode: str, inputs: int, hidden: int, layers: int, dirs: int, bias: bool, skip: bool) -> None:
        self.mode, self.hidden, self.layers, self.dirs, self.skip = mode, hidden, layers, dirs, skip
        self.gates = _GATES[mode]
        self.matrices: dict[tuple[int, int, bool], tuple[int, Sizes]] = {}
        self.biases: dict[tuple[int, int, bool], tuple[int, Sizes]] = {}
        lines, at = self.gates * hidden, 0
        order = [(layer, d, recurrent) for layer in range(layers) for recurrent in (False, True) for d in range(dirs)]
        for layer, d, recurrent in order:
            width = hidden if recurrent else dirs * hidden if layer else 0 if skip else inputs
            self.matrices[layer, d, recurrent] = at, (lines, width)
            at += lines * width
        for which in order if bias else ():
            self.biases[which] = at, (lines,)
            at += lines
        self.count = at

    @staticmethod
    def _part(w: Any, place: tuple[int, Sizes]) -> Any:
        """A view of what lies at a place."""
        at, lens = place
        return w[at:at + int(np.prod(lens))].reshape(lens)

    def _bias(self, w: Doubles, *which: Any) -> Any:
        return self._part(w, self.biases[which]) if which in self.biases else 0.0

    def forward(self, x: Doubles, w: Doubles, hx: Doubles, cx: Doubles, alive: Any, scales: Any,
                ) -> tuple[Doubles, Doubles, Doubles, dict[tuple[int, int, int], Cell]]:
        """Return y, hy, cy and what the steps leave.

        `alive` says which sequences have a step, `scales` what multiplies the inputs of all layers but the first.
        """
        hy, cy, kept, inputs, n = np.empty_like(hx), np.empty_like(cx), {}, x, self.hidden
        for layer in range(self.layers):
            into = inputs * scales if layer else inputs
            out = np.zeros((*x.shape[:2], self.dirs * n))
            for d in range(self.dirs):
                state = layer * self.dirs + d
                h, c, matrix = hx[state], cx[state], self._part(w, self.matrices[layer, d, True])
                if layer == 0 and self.skip:
                    a = np.tile(into, self.gates)
                else:
                    a = into @ self._part(w, self.matrices[layer, d, False]).T
                a = a + self._bias(w, layer, d, False)
                for t in reversed(range(len(x))) if d else range(len(x)):
                    s = h @ matrix.T + self._bias(w, layer, d, True)
                    cell = self._step(a[t], s, h, c, into[t])
                    kept[layer, d, t] = cell
                    on = alive[t][:, None]
                    h, c = np.where(on, cell.new, h), np.where(on, cell.new_c, c)
                    out[t][:, d * n:(d + 1) * n] = np.where(on, cell.new, 0.0)
                hy[state], cy[state] = h, c
            inputs = out
        return inputs, hy, cy, kept

    def _step(self, a: Doubles, s: Doubles, h: Doubles, c: Doubles, into: Doubles) -> Cell:
        """One step, of what the inputs and the state add to each gate."""
        first, second = np.split(a, self.gates, 1), np.split(s, self.gates, 1)
        sums = [one + other for one, other in zip(first, second, strict=True)]
        if self.mode == "lstm":  # input, forget, output, candidate
            gates = [*map(_logistic, sums[:3]), np.tanh(sums[3])]
            new_c = gates[1] * c + gates[0] * gates[3]
            return Cell(gates, None, h, c, new_c, gates[2] * np.tanh(new_c), into)
        if self.mode == "gru":  # update, reset, candidate
            z, r = map(_logistic, sums[:2])
            candidate = np.tanh(first[2] + r * second[2])
            return Cell([z, r, candidate], second[2], h, c, c, (1 - z) * candidate + z * h, into)
        return Cell([], None, h, c, c, np.tanh(sums[0]) if self.mode == "tanh" else np.maximum(sums[0], 0), into)

    def backward(self, kept: Mapping[tuple[int, int, int], Cell], w: Doubles, dy: Doubles, dhy: Doubles, dcy: Doubles,
                 inputs: int, alive: Any, scales: Any) -> dict[str, Array]:
        """Return dx, dhx, dcx and dw."""
        dw, above, n = np.zeros(self.count), dy, self.hidden
        dhx, dcx = np.empty_like(dhy), np.empty_like(dcy)
        for layer in reversed(range(self.layers)):
            below = np.zeros((*dy.shape[:2], self.dirs * n if layer else inputs))
            for d in range(self.dirs):
                state = layer * self.dirs + d
                dh, dc, matrix = dhy[state], dcy[state], self._part(w, self.matrices[layer, d, True])
                for t in range(len(dy)) if d else reversed(range(len(dy))):
                    cell, on = kept[layer, d, t], alive[t][:, None]
                    outer, inner, more, more_c = self._step_back(cell, dh + above[t][:, d * n:(d + 1) * n], dc)
                    outer, inner = (np.where(on, np.concatenate(some, 1), 0.0) for some in (outer, inner))
                    if layer == 0 and self.skip:
                        below[t] += outer.reshape(len(outer), self.gates, n).sum(1)
                    else:
                        place = self.matrices[layer, d, False]
                        below[t] += outer @ self._part(w, place)
                        self._part(dw, place)[...] += outer.T @ cell.into
                    self._part(dw, self.matrices[layer, d, True])[...] += inner.T @ cell.h
                    for recurrent, some in ((False, outer), (True, inner)):
                        if self.biases:
                            self._part(dw, self.biases[layer, d, recurrent])[...] += some.sum(0)
                    dh, dc = np.where(on, inner @ matrix + more, dh), np.where(on, more_c, dc)
                dhx[state], dcx[state] = dh, dc
            above = below * scales if layer else below
        return {"dx": above, "dhx": dhx, "dcx": dcx, "dw": dw}

    def _step_back(self, cell: Cell, g: Doubles, dc: Doubles) -> tuple[Any, Any, Any, Any]:
        """Gradients of what inputs and state add to each gate, and the state's and the cell's beside them."""
        if self.mode == "lstm":
            i, f, o, candidate = cell.gates
            outside = np.tanh(cell.new_c)
            g_c = dc + g * o * (1 - outside * outside)
            deltas = [g_c * candidate * i * (1 - i), g_c * cell.c * f * (1 - f), g * outside * o * (1 - o),
                      g_c * i * (1 - candidate * candidate)]
            return deltas, deltas, 0.0, g_c * f
        if self.mode == "gru":
            z, r, candidate = cell.gates
            last = g * (1 - z) * (1 - candidate * candidate)
            both = [g * (cell.h - candidate) * z * (1 - z), last * cell.recurrent * r * (1 - r)]
            return [*both, last], [*both, last * r], g * z, dc
        deltas = [g * (1 - cell.new * cell.new if self.mode == "tanh" else cell.new > 0)]
        return deltas, deltas, 0.0, dc


class Recurrent(Layer):
    """What both families have in common."""

    input_flag = "in_h"

    def __init__(self, command: Command) -> None:
        if command.number("wall"):  # there -w alone asks for times
            command = command.overridden("conv", {"time": 1})
        super().__init__(command)
        self.mode, self.inference = command.text("mode"), bool(command.number("fwdtype"))
        if self.inference and command.number("forw") not in (0, 1):
            raise UsageError("-c 1: inference has the forward direction alone")
        self.inputs, self.hidden = command.number(self.input_flag), command.number("hid_h")
        self.layers, self.dirs = command.number("num_layer"), command.number("bidirection") + 1
        self.skip, bias = bool(command.number("inputmode")), command.text("bias") == "1"
        if self.skip and self.inputs != self.hidden:
            raise UsageError(f"-p 1: an input has {self.inputs} numbers, a state {self.hidden}")
        self.drop, self.p = None, command.real("dropout")
        self.seed = command.number("seed_low") | command.number("seed_high") << 32
        if command.number("use_dropout"):
            self.drop = miopyx.DropoutDescriptor(self.p, None, 0, self.seed)
        self.rnn = miopyx.RNNDescriptor(self.hidden, self.layers, _MODES.index(self.mode), self.dirs - 1, int(bias),
                                        int(self.skip), self.dtype, self.drop, command.number("rnnalgo"))
        self.stack = Stack(self.mode, self.inputs, self.hidden, self.layers, self.dirs, bias, self.skip)
        layout, self.steps, self.lengths = self._sequences()
        self.layout = layout
        self.x, self.y = (miopyx.SeqTensorDescriptor(self.dtype, layout, self.steps, len(self.lengths), vector,
                                                     self.lengths)
                          for vector in (self.inputs, self.dirs * self.hidden))
        self.h = miopyx.TensorDescriptor(self.dtype, (self.layers * self.dirs, len(self.lengths), self.hidden))
        self.w = miopyx.TensorDescriptor(self.dtype, (self.stack.count,))
        for names, lens in ((("x", "dx"), self.x.shape), (("w", "dw"), self.w.lens), (("y", "dy"), self.y.shape),
                            (self._states("hx", "cx", "hy", "cy", "dhx", "dcx", "dhy", "dcy"), self.h.lens)):
            for name in names:
                self.memory[name] = packed(self.dtype, tuple(lens))
        self.alive = np.arange(self.steps)[:, None] < np.array(self.lengths)[None]
        self.handle: Any = None

    def _sequences(self) -> tuple[int, int, list[int]]:
        """Return the layout, the most steps and each sequence's."""
        raise NotImplementedError

    def _states(self, *names: str) -> tuple[str, ...]:
        """Those that the cell has: cells are LSTM's."""
        return tuple(name for name in names if "c" not in name or self.mode == "lstm")

    @property
    def layer(self) -> str:
        words = [self.command.operation, self.mode, f"{self.layers}x{self.dirs}",
                 f"{self.steps}x{len(self.lengths)}x{self.inputs}", str(self.hidden)]
        return " ".join(words)

    def wanted(self, direction: Pass) -> bool:
        forw = self.command.number("forw")
        return not forw or bool(forw & {"fwd": 1, "bwd": 2, "wrw": 4}[direction.short])

    def passes(self) -> list[Pass]:
        given = "x", "w", *self._states("hx", "cx")
        back = *given, "dy", *self._states("dhy", "dcy")
        bound = self._limit()
        passes = [
            Pass("fwd", "Forward RNN", given, ("y", *self._states("hy", "cy")), given, self._forward,
                 lambda handle: handle.rnn_forward(self.rnn, self.x, self.w, self.y, not self.inference),
                 self._forward_reference, bound, -1),
            Pass("bwd", "Backward RNN Data", back, ("dx", *self._states("dhx", "dcx")),
                 ("w", "dy", *self._states("hx", "cx", "dhy", "dcy")), self._backward_data,
                 lambda handle: handle.rnn_backward_data(self.rnn, self.y, self.w, self.x),
                 self._backward_reference, bound, -1),
            Pass("wrw", "Backward RNN Weights", back, ("dw",), ("x", "hx", "y"), self._backward_weights,
                 lambda handle: handle.rnn_backward_weights(self.rnn, self.x, self.y, self.w),
                 self._backward_reference, bound, -1),
        ]
        return passes[:1] if self.inference else passes

    def _limit(self) -> float:
        """The same for all lengths: with these parameters a state forgets its errors."""
        return limit(self.dtype, 1e-6, 1e-3)

    def values(self, name: str, generator: data.Generator) -> Array:
        """Uniform in [-1, 1); parameters so small that an error does not grow from step to step.

        ReLU's gradient depends on a sign that roundoff must not change: inputs are positive, and the parameters of one
        unit are of one sign.
        """
        if self.mode == "relu" and name in ("x", "hx"):
            return self.uniform(name, generator, 0.25, 1)
        if name != "w":
            return self.uniform(name, generator, -1, 1)
        if self.mode != "relu":
            return self.uniform(name, generator, -self.hidden**-0.5, self.hidden**-0.5)
        values = self.uniform(name, generator, 0.25, 1)
        signs = np.where((np.arange(self.hidden) % 3 == 2) & (not self.skip), -1, 1)
        for at, lens in (*self.stack.matrices.values(), *self.stack.biases.values()):
            some = values[at:at + int(np.prod(lens))].reshape(lens)
            some *= np.asarray(signs.reshape(-1, *(1,) * (len(lens) - 1)) / (2 * max(1, lens[-1])), values.dtype)
        return values

    # Calls

    def _begin(self, handle: Any) -> None:
        """Give a handle its reserve space, which one pass leaves for the next, and let the states of dropout begin."""
        if self.handle is handle:
            return
        if self.drop is not None:
            size = miopyx.miopenDropoutGetStatesSize(handle)
            states = handle.upload(np.zeros(size, np.uint8))
            miopyx.miopenSetDropoutDescriptor(self.drop, handle, self.p, states, size, self.seed, False, False, 0)
        sizes = self._space_sizes(handle)
        self.space, self.reserve = ((handle.upload(np.full(max(size, 1), 0xA5, np.uint8)), size) for size in sizes)
        self.handle = handle

    def _space_sizes(self, handle: Any) -> tuple[int, int]:
        raise NotImplementedError

    def _forward(self, handle: Any, m: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _backward_data(self, handle: Any, m: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _backward_weights(self, handle: Any, m: Mapping[str, Any]) -> None:
        raise NotImplementedError

    # Reference

    def _full(self, rows: Doubles) -> Doubles:
        """What lies in memory as (steps, sequences, numbers); 0 where a sequence has no step."""
        if self.layout == _SEQUENCES:
            rows = rows.swapaxes(0, 1)
        if self.layout != _PACKED:
            return np.where(self.alive[:, :, None], rows, 0.0)
        full = np.zeros((*self.alive.shape, rows.shape[-1]))
        full[self.alive] = rows.reshape(-1, rows.shape[-1])
        return full

    def _rows(self, full: Doubles, lens: Sizes) -> Array:
        """The inverse."""
        if self.layout == _PACKED:
            return np.asarray(full[self.alive].reshape(lens))
        return full.swapaxes(0, 1) if self.layout == _SEQUENCES else full

    def _scales(self) -> Any:
        """What multiplies the inputs of all layers but the first: all draw from the same states."""
        if self.drop is None:
            return 1.0
        order = np.argsort(-np.array(self.lengths), kind="stable")
        width, p = self.dirs * self.hidden, float(np.float32(self.p))
        scales = np.zeros((*self.alive.shape, width))
        words = philox(int(self.alive.sum()) * width, self.seed) >> np.uint64(8)
        stays = (words >= np.floor(np.float32(self.p) * 2.0**24)).reshape(-1, width)
        sorted_scales = np.zeros_like(scales)
        sorted_scales[self.alive[:, order]] = stays / (1 - p) if p < 1 else 0.0
        scales[:, order] = sorted_scales
        return scales

    def _run_forward(self, m: Mapping[str, Doubles]) -> Any:
        none = np.zeros(self.h.lens)
        scales = 1.0 if self.inference else self._scales()
        return *self.stack.forward(self._full(m["x"]), m["w"], m["hx"], m.get("cx", none), self.alive, scales), scales

    def _forward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        y, hy, cy, _, _ = self._run_forward(m)
        return {"y": self._rows(y, self.memory["y"].lens), "hy": hy, "cy": cy}

    def _backward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        *_, kept, scales = self._run_forward(m)
        found = self.stack.backward(kept, m["w"], self._full(m["dy"]), m["dhy"], m.get("dcy", np.zeros(self.h.lens)),
                                    self.inputs, self.alive, scales)
        return {**found, "dx": self._rows(found["dx"], self.memory["dx"].lens)}


class RNN(Recurrent):
    """Functions that take a descriptor for each step."""

    def _sequences(self) -> tuple[int, int, list[int]]:
        steps, batches = self.command.number("seq_len"), _numbers(self.command, "batchsize", 1)
        if not batches:
            raise UsageError("--batchsize: how many sequences?")
        self.batches = [*batches[:steps], *batches[-1:] * (steps - len(batches))]
        if any(later > before for before, later in pairwise(self.batches)):
            raise UsageError(f"--batchsize {self.command.text('batchsize')}: a step has more sequences than the one "
                             "before")
        if self.command.number("use_padding"):
            self.rnn.set_padding_mode(1)
        return (_STEPS if self.command.number("use_padding") else _PACKED), steps, [
            sum(n > i for n in self.batches) for i in range(self.batches[0])]

    def _each(self, vector: int) -> list[Any]:
        return [miopyx.TensorDescriptor(self.dtype, (n, vector)) for n in self.batches]

    def _begin(self, handle: Any) -> None:
        if self.handle is not handle:
            self.xs, self.ys = self._each(self.inputs), self._each(self.dirs * self.hidden)
        super()._begin(handle)

    def _space_sizes(self, handle: Any) -> tuple[int, int]:
        given = handle, self.rnn, self.steps, self.xs
        return _api.miopenGetRNNWorkspaceSize(*given), _api.miopenGetRNNTrainingReserveSize(*given)

    def _forward(self, handle: Any, m: Mapping[str, Any]) -> None:
        self._begin(handle)
        h = self.h
        given = (handle, self.rnn, self.steps, self.xs, m["x"], h, m["hx"], h, m.get("cx"), self.w, m["w"], self.ys,
                 m["y"], h, m["hy"], h, m.get("cy"), *self.space)
        if self.inference:
            _api.miopenRNNForwardInference(*given)
        else:
            _api.miopenRNNForwardTraining(*given, *self.reserve)

    def _backward_data(self, handle: Any, m: Mapping[str, Any]) -> None:
        self._begin(handle)
        h = self.h
        _api.miopenRNNBackwardData(
            handle, self.rnn, self.steps, self.ys, m["y"], self.ys, m["dy"], h, m["dhy"], h, m.get("dcy"), self.w,
            m["w"], h, m["hx"], h, m.get("cx"), self.xs, m["dx"], h, m["dhx"], h, m.get("dcx"), *self.space,
            *self.reserve)

    def _backward_weights(self, handle: Any, m: Mapping[str, Any]) -> None:
        self._begin(handle)
        _api.miopenRNNBackwardWeights(handle, self.rnn, self.steps, self.xs, m["x"], self.h, m["hx"], self.ys, m["y"],
                                      self.w, m["dw"], *self.space, *self.reserve)


class RNNSeq(Recurrent):
    """Functions that take sequence tensors."""

    input_flag = "in_vec"

    def _sequences(self) -> tuple[int, int, list[int]]:
        layout, steps, batch = (self.command.number(flag) for flag in ("io_layout", "seq_len", "batch_size"))
        given, text = _numbers(self.command, "seq_len_array", 0), self.command.text("seq_len_array")
        if len(given) > batch:
            raise UsageError(f"--seq_len_array {text}: there are {batch} sequences")
        if any(n > steps for n in given):
            raise UsageError(f"--seq_len_array {text}: the longest sequence has {steps} steps")
        lengths = [*given, *(given[-1:] or [steps]) * (batch - len(given))]
        if layout == _PACKED and any(b > a for a, b in pairwise(lengths)):
            raise UsageError(f"--seq_len_array {text}: a sequence that is longer than the one before needs padding")
        return layout, steps, lengths

    def _space_sizes(self, handle: Any) -> tuple[int, int]:
        sizes: tuple[int, int] = _api.miopenGetRNNTempSpaceSizes(handle, self.rnn, self.x, int(self.inference))
        return sizes

    @property
    def _weights_size(self) -> int:
        return self.memory["w"].nbytes

    def _forward(self, handle: Any, m: Mapping[str, Any]) -> None:
        self._begin(handle)
        _api.miopenRNNForward(
            handle, self.rnn, int(self.inference), self.x, m["x"], self.h, m["hx"], m["hy"], self.h, m.get("cx"),
            m.get("cy"), self.y, m["y"], m["w"], self._weights_size, *self.space, *self.reserve)

    def _backward_data(self, handle: Any, m: Mapping[str, Any]) -> None:
        self._begin(handle)
        _api.miopenRNNBackwardSeqData(
            handle, self.rnn, self.y, m["y"], m["dy"], self.h, m["hx"], m["dhy"], m["dhx"], self.h, m.get("cx"),
            m.get("dcy"), m.get("dcx"), self.x, m["dx"], m["w"], self._weights_size, *self.space, *self.reserve)

    def _backward_weights(self, handle: Any, m: Mapping[str, Any]) -> None:
        self._begin(handle)
        _api.miopenRNNBackwardWeightsSeqTensor(
            handle, self.rnn, self.x, m["x"], self.h, m["hx"], self.y, m["y"], m["dw"], self._weights_size, *self.space,
            *self.reserve)


LAYERS: dict[Family, type[Layer]] = {FAMILY: RNN, SEQ_FAMILY: RNNSeq}
