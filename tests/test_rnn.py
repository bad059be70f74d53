"""Recurrent layers: values and gradients, layouts, lengths, dropout, parameters, and refusals.

Results are compared with the formulas in float64, written out below, and with PyTorch.  Weights are uniform within
1 / sqrt(hidden), for which an error of a state does not grow from step to step.  A step stores its state and what it
keeps once each, with roundoff u, and sums K products with roundoff v; so a number is right to
(2 + steps layers) (4 u + 2 v sqrt(K)) times the largest of its tensor, or of the weights where a tensor of few numbers
has none but differences.  ReLU's gradient depends on a sign, so its pre-activations keep away from 0.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from guarded import DTYPE, ROUNDOFF, Guarded

import miopyx
from miopyx import DropoutDescriptor, RNNDescriptor, SeqTensorDescriptor, TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError

TYPES = ("float32", "float16", "bfloat16", "float64")
RELU, TANH, LSTM, GRU = range(4)
GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}
PACKED, STEPS, SEQUENCES = 1, 2, 3


def logistic(x):
    return 1 / (1 + np.exp(-x))


class Layers:
    """The formulas in float64, of arrays (steps, sequences, numbers) whose sequences have `lengths`."""

    def __init__(self, mode, inputs, hidden, layers, dirs, bias, w, skip=False, masks=None, scale=1.0):
        self.mode, self.hidden, self.layers, self.dirs = mode, hidden, layers, dirs
        self.masks, self.scale = masks, scale
        self.skip, self.lines, self.matrices, self.biases = skip, GATES[mode] * hidden, {}, {}
        at = 0
        for layer in range(layers):
            for recurrent in (False, True):
                width = hidden if recurrent else (0 if skip else inputs) if layer == 0 else dirs * hidden
                for d in range(dirs):
                    self.matrices[layer, d, recurrent] = at, (self.lines, width)
                    at += self.lines * width
        for layer in range(layers):
            for recurrent in (False, True):
                for d in range(dirs):
                    self.biases[layer, d, recurrent] = at if bias else None
                    at += self.lines if bias else 0
        self.count, self.w = at, w

    def matrix(self, *which):
        at, lens = self.matrices[which]
        return self.w[at:at + lens[0] * lens[1]].reshape(lens)

    def bias(self, *which):
        at = self.biases[which]
        return np.zeros(self.lines) if at is None else self.w[at:at + self.lines]

    def run(self, x, hx, cx, lengths, dy, dhy, dcy):
        """Return all results by name."""
        steps, batch = x.shape[:2]
        n, results = self.hidden, {}
        hy, cy, kept, inputs = np.array(hx), np.array(cx), {}, x
        alive = np.arange(steps)[:, None] < np.asarray(lengths)[None]
        for layer in range(self.layers):
            out = np.zeros((steps, batch, self.dirs * n))
            into = inputs
            if layer and self.masks is not None:
                into = inputs * self.masks[layer - 1] * self.scale
            for d in range(self.dirs):
                state = layer * self.dirs + d
                r, b, rb = self.matrix(layer, d, True), self.bias(layer, d, False), self.bias(layer, d, True)
                h, c = hy[state].copy(), cy[state].copy()
                for t in reversed(range(steps)) if d else range(steps):
                    on = alive[t][:, None]
                    a = (np.tile(into[t], GATES[self.mode]) if self.skip and layer == 0
                         else into[t] @ self.matrix(layer, d, False).T) + b
                    s = h @ r.T + rb
                    parts = [(a + s)[:, g * n:(g + 1) * n] for g in range(GATES[self.mode])]
                    new_c, q = c, s[:, -n:]
                    if self.mode == LSTM:
                        gate = [*(logistic(v) for v in parts[:3]), np.tanh(parts[3])]
                        new_c = gate[1] * c + gate[0] * gate[3]
                        new = gate[2] * np.tanh(new_c)
                    elif self.mode == GRU:
                        gate = [logistic(parts[0]), logistic(parts[1])]
                        gate.append(np.tanh(a[:, 2 * n:] + gate[1] * q))
                        new = (1 - gate[0]) * gate[2] + gate[0] * h
                    else:
                        gate = []
                        new = np.tanh(parts[0]) if self.mode == TANH else np.maximum(parts[0], 0)
                    kept[layer, d, t] = gate, q, h, c, new_c, new, into[t]
                    h, c = np.where(on, new, h), np.where(on, new_c, c)
                    out[t][:, d * n:(d + 1) * n] = np.where(on, new, 0)
                hy[state], cy[state] = h, c
            inputs = out
        results |= {"y": inputs, "hy": hy, "cy": cy}
        dw, dhx, dcx, above = np.zeros(self.count), np.array(dhy), np.array(dcy), dy * alive[:, :, None]
        for layer in reversed(range(self.layers)):
            wide = x.shape[2] if layer == 0 else self.dirs * n
            below = np.zeros((steps, batch, wide))
            for d in range(self.dirs):
                state = layer * self.dirs + d
                dh, dc = dhx[state], dcx[state]
                for t in range(steps) if d else reversed(range(steps)):
                    on = alive[t][:, None]
                    gate, q, h, c, new_c, new, into = kept[layer, d, t]
                    g = dh + above[t][:, d * n:(d + 1) * n]
                    more, more_c = 0, dc
                    if self.mode == LSTM:
                        tc = np.tanh(new_c)
                        g_c = dc + g * gate[2] * (1 - tc * tc)
                        deltas = [g_c * gate[3] * gate[0] * (1 - gate[0]), g_c * c * gate[1] * (1 - gate[1]),
                                  g * tc * gate[2] * (1 - gate[2]), g_c * gate[0] * (1 - gate[3] ** 2)]
                        inner, more_c = deltas, g_c * gate[1]
                    elif self.mode == GRU:
                        last = g * (1 - gate[0]) * (1 - gate[2] ** 2)
                        deltas = [g * (h - gate[2]) * gate[0] * (1 - gate[0]), last * q * gate[1] * (1 - gate[1]), last]
                        inner, more = [*deltas[:2], last * gate[1]], g * gate[0]
                    else:
                        deltas = inner = [g * (1 - new * new) if self.mode == TANH else g * (new > 0)]
                    delta, inner = (np.where(on, np.concatenate(v, 1), 0) for v in (deltas, inner))
                    if self.skip and layer == 0:
                        below[t] += delta.reshape(batch, -1, n).sum(1)
                    else:
                        below[t] += delta @ self.matrix(layer, d, False)
                        self.add(dw, self.matrices[layer, d, False], delta.T @ into)
                    self.add(dw, self.matrices[layer, d, True], inner.T @ h)
                    for recurrent, v in ((False, delta), (True, inner)):
                        at = self.biases[layer, d, recurrent]
                        if at is not None:
                            dw[at:at + self.lines] += v.sum(0)
                    dh = np.where(on, inner @ self.matrix(layer, d, True) + more, dh)
                    dc = np.where(on, more_c, dc)
                dhx[state], dcx[state] = dh, dc
            if layer and self.masks is not None:
                below = below * self.masks[layer - 1] * self.scale
            above = below
        return results | {"dx": above, "dhx": dhx, "dcx": dcx, "dw": dw}

    @staticmethod
    def add(dw, place, values):
        at, lens = place
        dw[at:at + lens[0] * lens[1]] += values.ravel()


class Case:
    """A stack of layers on a device, its memory poisoned and guarded."""

    def __init__(self, handle, dtype, rng, mode=LSTM, inputs=5, hidden=7, layers=1, dirs=1, bias=1, lengths=(4, 4, 4),
                 layout=PACKED, states=True, skip=False, dropout=None, longest=None):
        if dtype == "float64" and not handle.device.fp64:
            pytest.skip("no double precision")
        if skip:
            inputs = hidden
        self.handle, self.dtype, self.mode, self.layout, self.lengths = handle, dtype, mode, layout, list(lengths)
        self.layers, self.dirs, self.states = layers, dirs, states
        self.rnn = RNNDescriptor(hidden, layers, mode, dirs - 1, bias, int(skip), dtype, dropout)
        self.batch, self.steps = len(lengths), longest or max(lengths)
        self.x_desc = SeqTensorDescriptor(dtype, layout, self.steps, self.batch, inputs, lengths)
        self.y_desc = SeqTensorDescriptor(dtype, layout, self.steps, self.batch, dirs * hidden, lengths)
        self.h_desc = TensorDescriptor(dtype, (layers * dirs, self.batch, hidden))
        self.step = TensorDescriptor(dtype, (self.batch, inputs))
        kind = DTYPE[dtype]
        shape = Layers(mode, inputs, hidden, layers, dirs, bias, None, skip)
        w = rng.uniform(-1, 1, shape.count) * hidden**-0.5
        if mode == RELU and bias:
            for (_, _, recurrent), at in shape.biases.items():
                w[at:at + hidden] = 0 if recurrent else np.where(np.arange(hidden) % 3, 1, -1) * 3.0
            w[:min(shape.biases.values())] *= 0.3
        self.host = {"w": w.astype(kind)}
        for name, lens in (("x", (self.steps, self.batch, inputs)), ("dy", (self.steps, self.batch, dirs * hidden)),
                           *((name, self.h_desc.lens) for name in ("hx", "cx", "dhy", "dcy"))):
            self.host[name] = rng.uniform(-1, 1, lens).astype(kind)
        self.model = Layers(mode, inputs, hidden, layers, dirs, bias, self.host["w"].astype(np.float64), skip)
        self.terms = max(inputs, dirs * hidden) + hidden

    def rows(self, a, poison=False):
        """An array (steps, sequences, numbers) as it lies in memory."""
        a = np.array(a)
        if poison:
            a.view(f"u{a.itemsize}")[~(np.arange(self.steps)[:, None] < np.array(self.lengths)[None])] = -1 % 2**(
                8 * a.itemsize)
        if self.layout == STEPS:
            return a
        if self.layout == SEQUENCES:
            return a.swapaxes(0, 1).copy()
        if min(self.lengths) == max(self.lengths):
            return a[:max(self.lengths)]
        return np.concatenate([a[t, :sum(n > t for n in self.lengths)] for t in range(max(self.lengths))])

    def memory(self, lens, values=None):
        nbytes = int(np.prod(lens)) * DTYPE[self.dtype].itemsize
        made = Guarded(self.handle, nbytes, 0xFF)
        made.lens = tuple(lens)
        if values is not None:
            made.inner[...] = np.ascontiguousarray(values).view(np.uint8).ravel()
        return made

    def argument(self, made):
        """An array of its type where the memory is the host's, else bytes of the device."""
        if not hasattr(made, "given"):
            made.given = (made.inner.view(DTYPE[self.dtype]).reshape(made.lens) if made.in_place else made.argument())
        return made.given

    def value(self, name):
        made = self.device[name]
        return made.fetch().view(DTYPE[self.dtype]).astype(np.float64).reshape(made.lens)

    def begin(self):
        given = {"hx": self.states, "cx": self.states, "dhy": self.states, "dcy": self.states}
        self.device = {"x": self.memory(self.x_desc.shape, self.rows(self.host["x"], True)),
                       "dy": self.memory(self.y_desc.shape, self.rows(self.host["dy"], True)),
                       "w": self.memory(self.host["w"].shape, self.host["w"]),
                       "y": self.memory(self.y_desc.shape), "dx": self.memory(self.x_desc.shape),
                       "dw": self.memory(self.host["w"].shape)}
        for name, there in given.items():
            self.device[name] = self.memory(self.h_desc.lens, self.host[name]) if there else None
        for name in ("hy", "cy", "dhx", "dcx"):
            self.device[name] = self.memory(self.h_desc.lens)
        self.space_size, self.reserve_size = miopyx.miopenGetRNNTempSpaceSizes(self.handle, self.rnn, self.x_desc, 0)
        self.inference_size, none = miopyx.miopenGetRNNTempSpaceSizes(self.handle, self.rnn, self.x_desc, "inference")
        assert none == 0
        self.space_size = max(self.space_size, self.inference_size)
        self.space, self.reserve = (Guarded(self.handle, max(n, 1), 0xFF) for n in (self.space_size, self.reserve_size))
        self.scratch, self.kept = self.space.argument(), self.reserve.argument()

    def of(self, *names):
        return [None if self.device[name] is None else self.argument(self.device[name]) for name in names]

    def forward(self, training=True):
        x, hx, hy, cx, cy, y, w = self.of("x", "hx", "hy", "cx", "cy", "y", "w")
        size = self.space_size if training else self.inference_size
        miopyx.miopenRNNForward(self.handle, self.rnn, 0 if training else 1, self.x_desc, x, self.h_desc, hx, hy,
                                self.h_desc, cx, cy, self.y_desc, y, w, self.host["w"].nbytes, self.scratch, size,
                                self.kept if training else None, self.reserve_size if training else 0)

    def backward(self):
        y, dy, hx, dhy, dhx, cx, dcy, dcx, dx, w, x, dw = self.of("y", "dy", "hx", "dhy", "dhx", "cx", "dcy", "dcx",
                                                                  "dx", "w", "x", "dw")
        miopyx.miopenRNNBackwardSeqData(self.handle, self.rnn, self.y_desc, y, dy, self.h_desc, hx, dhy, dhx,
                                        self.h_desc, cx, dcy, dcx, self.x_desc, dx, w, self.host["w"].nbytes,
                                        self.scratch, self.space_size, self.kept, self.reserve_size)
        miopyx.miopenRNNBackwardWeightsSeqTensor(self.handle, self.rnn, self.x_desc, x, self.h_desc, hx, self.y_desc, y,
                                                 dw, self.host["w"].nbytes, self.scratch, self.space_size, self.kept,
                                                 self.reserve_size)

    def reference(self):
        none = np.zeros(self.h_desc.lens)
        given = {name: self.host[name].astype(np.float64) for name in ("x", "dy", "hx", "cx", "dhy", "dcy")}
        if not self.states:
            given |= dict.fromkeys(("hx", "cx", "dhy", "dcy"), none)
        true = self.model.run(given["x"], given["hx"], given["cx"], self.lengths, given["dy"], given["dhy"],
                              given["dcy"])
        for name in ("y", "dx"):
            true[name] = self.rows(true[name])
        return true

    def bound(self):
        u, v = ROUNDOFF[self.dtype], ROUNDOFF["float64" if self.dtype == "float64" else "float32"]
        return (2 + max(self.lengths) * self.layers) * (4 * u + 2 * v * self.terms**0.5)

    def compare(self, names, true=None):
        self.handle.finish()
        self.space.fetch()
        self.reserve.fetch()
        true = true or self.reference()
        for name in names:
            if name in ("cy", "dcx") and self.mode != LSTM:
                assert np.isnan(self.value(name)).all(), f"{name} is LSTM's"
                continue
            got, want = self.value(name), true[name].reshape(self.device[name].lens)
            size = max(np.abs(want).max(), np.abs(self.host["w"].astype(np.float64)).max())
            limit = self.bound() * size + 2.0**-23 * (self.dtype in ("float16", "bfloat16"))
            wrong = ~(np.abs(got - want) <= limit)
            assert not wrong.any(), (name, self.rnn, self.x_desc, int(wrong.sum()), wrong.size,
                                     float(np.abs(got - want)[~np.isnan(got)].max(initial=0)), float(limit))

    def check(self):
        self.begin()
        self.forward(training=False)
        true = self.reference()
        self.compare(("y", "hy", "cy"), true)
        self.begin()
        self.forward()
        self.backward()
        self.compare(("y", "hy", "cy", "dx", "dhx", "dcx", "dw"), true)


UNEVEN = (6, 5, 5, 2, 1)
MIXED = (2, 7, 3, 7, 1, 4)
SHAPES = [
    {"inputs": 3, "hidden": 4, "lengths": (3, 3)},
    {"layers": 2},
    {"layers": 2, "dirs": 2, "lengths": (3, 3)},
    {"inputs": 6, "hidden": 9, "layers": 2, "dirs": 2, "bias": 0, "lengths": UNEVEN, "states": False},
    {"hidden": 33, "dirs": 2, "lengths": UNEVEN},
    {"inputs": 8, "hidden": 20, "layers": 2, "dirs": 2, "lengths": MIXED, "layout": STEPS},
    {"inputs": 8, "hidden": 20, "lengths": MIXED, "layout": SEQUENCES},
    {"hidden": 65, "inputs": 17, "lengths": (5,) * 9, "layout": SEQUENCES},
    {"lengths": (3, 3, 3), "layout": STEPS, "longest": 5},
    {"lengths": (2, 0, 3), "layout": SEQUENCES, "longest": 4, "dirs": 2},
    {"inputs": 40, "hidden": 130, "dirs": 2, "lengths": (6,)},
    {"inputs": 2, "hidden": 2, "lengths": (2,) * 37},
    {"hidden": 6, "skip": True, "dirs": 2, "layers": 2, "lengths": (4, 3, 3)},
    {"hidden": 6, "skip": True, "bias": 0, "lengths": (4, 3, 3)},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mode", range(4))
def test_float32(handle, rng, mode, shape):
    Case(handle, "float32", rng, mode, **shape).check()


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("dtype", TYPES[1:])
def test_other_types(handle, rng, mode, dtype, amount):
    for i in rng.permutation(len(SHAPES))[:amount(3, len(SHAPES))]:
        shape = SHAPES[i]
        if mode == RELU and not shape.get("bias", 1):
            shape = {**shape, "bias": 1}
        Case(handle, dtype, rng, mode, **shape).check()


@pytest.mark.parametrize("mode", [LSTM, GRU])
def test_a_large_state_of_one_sequence(handle, rng, mode):
    """Cores share the units of each step; a sum is longer than one accumulator takes."""
    Case(handle, "float32", rng, mode, 24, 1100, 1, 1, 1, (3,)).check()


@pytest.mark.parametrize("lengths", [(5,) * 7, UNEVEN])
@pytest.mark.parametrize("mode", [RELU, LSTM, GRU])
def test_large_states_in_two_directions(handle, rng, mode, lengths):
    """Cores that share the units take one direction after the other; more and fewer sequences from step to step."""
    Case(handle, "float32", rng, mode, 24, 500, 2, 2, 1, lengths).check()


@pytest.mark.parametrize("isa", ["avx2", "sse2"])
def test_narrower_vectors(opencl_handle, pretend, rng, isa):
    """The tiles of CPUs with other registers, of sequences that cores have for themselves, and of shared units."""
    if not opencl_handle.device.is_cpu:
        pytest.skip("solvers for CPUs")
    handle = pretend(opencl_handle.device.name, isa=isa)
    for mode in (TANH, LSTM, GRU):
        Case(handle, "float32", rng, mode, 5, 21, 1, 2, 1, UNEVEN).check()
        Case(handle, "float32", rng, mode, 24, 500, 1, 1, 1, (3,) * 7).check()


def test_random_ones(handle, rng, amount):
    for _ in range(amount(4, 60)):
        batch = int(rng.integers(1, 9))
        lengths = rng.integers(1, 8, batch)
        layout = int(rng.integers(1, 4))
        if layout == PACKED:
            lengths = -np.sort(-lengths)
        Case(handle, "float32", rng, int(rng.integers(1, 4)), int(rng.integers(1, 40)), int(rng.integers(1, 40)),
             int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(2)), [int(n) for n in lengths], layout,
             bool(rng.integers(2))).check()


def test_against_pytorch(handle, rng):
    torch = pytest.importorskip("torch")
    case = Case(handle, "float32", rng, GRU, 6, 10, 2, 2, 1, UNEVEN)
    case.begin()
    case.forward()
    case.backward()
    handle.finish()
    order = [1, 0, 2]  # PyTorch's gates by miopen.h's
    layer = torch.nn.GRU(6, 10, 2, bidirectional=True, dtype=torch.float64)
    model = case.model

    def gates(array):
        return np.concatenate([array.reshape(3, 10, -1)[g] for g in order]).reshape(array.shape)
    with torch.no_grad():
        for name, value in layer.named_parameters():
            kind, _, place = name.partition("_l")
            which = int(place[0]), int(place.endswith("reverse")), kind.endswith("hh")
            source = model.matrix(*which) if kind.startswith("weight") else model.bias(*which)
            value.copy_(torch.from_numpy(gates(source)))
    x = torch.from_numpy(case.host["x"].astype(np.float64)).requires_grad_()
    hx = torch.from_numpy(case.host["hx"].astype(np.float64)).requires_grad_()
    y, hy = layer(torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(UNEVEN)), hx)
    dy, dhy = (case.host[name].astype(np.float64) for name in ("dy", "dhy"))
    loss = (y.data * torch.from_numpy(case.rows(dy))).sum() + (hy * torch.from_numpy(dhy)).sum()
    loss.backward()
    for name, want in (("y", y.data), ("hy", hy), ("dx", case.rows(x.grad.numpy())), ("dhx", hx.grad)):
        np.testing.assert_allclose(case.value(name), np.asarray(want.detach() if hasattr(want, "detach") else want),
                                   atol=case.bound() * 4)
    for name, value in layer.named_parameters():
        kind, _, place = name.partition("_l")
        which = int(place[0]), int(place.endswith("reverse")), kind.endswith("hh")
        grad = value.grad.numpy()
        back = np.concatenate([grad.reshape(3, 10, -1)[order.index(g)] for g in range(3)]).reshape(grad.shape)
        dw = case.value("dw")
        if kind.startswith("weight"):
            at, lens = model.matrices[which]
            mine = dw[at:at + lens[0] * lens[1]].reshape(lens)
        else:
            mine = dw[model.biases[which]:][:30]
        np.testing.assert_allclose(mine, back, atol=case.bound() * np.abs(grad).max() + 1e-6)


def check_steps(case):
    """The functions that take a descriptor for each step compute the same bits; no sequence is empty."""
    handle, mode, padded, dtype = case.handle, case.mode, case.layout == STEPS, case.dtype
    steps, (inputs, outputs) = max(case.lengths), (desc.shape[-1] for desc in (case.x_desc, case.y_desc))
    case.begin()
    case.forward()
    case.backward()
    case.compare(("y", "hy", "cy", "dx", "dhx", "dcx", "dw"))
    names = ("y", "hy", "dx", "dhx", "dw", *(("cy", "dcx") if mode == LSTM else ()))
    first = {name: case.value(name).copy() for name in names}
    case.begin()
    if padded:
        miopyx.miopenSetRNNPaddingMode(case.rnn, "WithPadding")
    assert miopyx.miopenGetRNNPaddingMode(case.rnn) == int(padded)
    sizes = [sum(n > t for n in case.lengths) for t in range(steps)]
    xs, ys = ([TensorDescriptor(dtype, (n, width)) for n in sizes] for width in (inputs, outputs))
    w_desc = TensorDescriptor()
    miopyx.miopenGetRNNParamsDescriptor(handle, case.rnn, xs[0], w_desc, dtype)
    assert np.prod(w_desc.lens) == case.model.count
    assert miopyx.miopenGetRNNParamsSize(handle, case.rnn, xs[0], dtype) == case.host["w"].nbytes
    rows = steps * case.batch if padded else sum(sizes)
    assert miopyx.miopenGetRNNInputTensorSize(handle, case.rnn, steps, xs) == rows * inputs * DTYPE[dtype].itemsize
    assert miopyx.miopenGetRNNHiddenTensorSize(handle, case.rnn, steps, xs) == case.h_desc.nbytes
    space = miopyx.miopenGetRNNWorkspaceSize(handle, case.rnn, steps, xs)
    reserve = miopyx.miopenGetRNNTrainingReserveSize(handle, case.rnn, steps, xs)
    assert reserve <= case.reserve_size
    h = case.h_desc
    spaces = [Guarded(handle, max(n, 1), 0xFF) for n in (space, reserve)]
    scratch, kept = (one.argument() for one in spaces)
    x, hx, hy, cx, cy, y, w, dy, dhy, dhx, dcy, dcx, dx, dw = case.of(
        "x", "hx", "hy", "cx", "cy", "y", "w", "dy", "dhy", "dhx", "dcy", "dcx", "dx", "dw")
    miopyx.miopenRNNForwardInference(handle, case.rnn, steps, xs, x, h, hx, h, cx, w_desc, w, ys, y, h, hy, h, cy,
                                     scratch, space)
    handle.finish()
    case.compare(("y", "hy", "cy"))
    miopyx.miopenRNNForwardTraining(handle, case.rnn, steps, xs, x, h, hx, h, cx, w_desc, w, ys, y, h, hy, h, cy,
                                    scratch, space, kept, reserve)
    miopyx.miopenRNNBackwardData(handle, case.rnn, steps, ys, y, ys, dy, h, dhy, h, dcy, w_desc, w, h, hx, h, cx, xs,
                                 dx, h, dhx, h, dcx, scratch, space, kept, reserve)
    miopyx.miopenRNNBackwardWeights(handle, case.rnn, steps, xs, x, h, hx, ys, y, w_desc, dw, scratch, space, kept,
                                    reserve)
    handle.finish()
    for one in spaces:
        one.fetch()
    for name in names:
        assert (case.value(name) == first[name]).all(), name


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("mode", [TANH, LSTM, GRU])
def test_a_descriptor_for_each_step(handle, rng, mode, padded):
    check_steps(Case(handle, "float32", rng, mode, 5, 8, 2, 2, 1, UNEVEN, STEPS if padded else PACKED))


def check_dropout(handle, rng, evolves, dtype="float32", mode=LSTM, p=0.4, hidden=10, dirs=2, lengths=UNEVEN):
    """The masks are those of miopenDropoutForward with the same states; lengths do not grow."""
    size = miopyx.miopenDropoutGetStatesSize(handle)
    rows, width, masks, steps = sum(lengths), dirs * hidden, [], max(lengths)
    states = handle.zeros((size,), "int8")
    drop = DropoutDescriptor()
    miopyx.miopenSetDropoutDescriptor(drop, handle, p, states, size, 7, False, evolves, 0)
    line = TensorDescriptor("float32", (rows * width,))
    mask = handle.zeros((rows * width,), "int8")
    ones, out = handle.upload(np.ones(rows * width, np.float32)), handle.empty(line)
    for _ in range(2):
        miopyx.miopenDropoutForward(handle, drop, line, line, ones, line, out, mask, rows * width)
        flat = np.asarray(handle.download(mask)).reshape(rows, width)
        full = np.zeros((steps, len(lengths), width))
        at = 0
        for t in range(steps):
            n = sum(length > t for length in lengths)
            full[t, :n] = flat[at:at + n]
            at += n
        masks.append(full)
    assert rows * width < 64 or not 0.1 < p < 0.9 or (masks[0] == masks[1]).all() != evolves
    miopyx.miopenSetDropoutDescriptor(drop, handle, p, states, size, 7, False, evolves, 0)
    case = Case(handle, dtype, rng, mode, 5, hidden, 3, dirs, 1, lengths, dropout=drop)
    case.model.masks, case.model.scale = masks, 1 / (1 - np.float32(p))
    case.begin()
    case.forward()
    case.backward()
    case.compare(("y", "hy", "cy", "dx", "dhx", "dcx", "dw"))
    case.model.masks = None
    case.begin()
    case.forward(training=False)  # nothing is dropped
    case.compare(("y", "hy", "cy"))


@pytest.mark.parametrize("evolves", [False, True])
def test_dropout_between_layers(handle, rng, evolves):
    check_dropout(handle, rng, evolves)


def test_gradients_may_be_computed_twice(handle, rng):
    case = Case(handle, "float32", rng, GRU, 5, 9, 2, 1, 1, UNEVEN)
    case.begin()
    case.forward()
    case.backward()
    case.backward()
    case.compare(("dx", "dhx", "dw"))


def test_plans(handle, rng):
    case = Case(handle, "float32", rng, LSTM, 5, 9, 2, 2, 1, (4, 4, 4))
    case.begin()
    w_desc = TensorDescriptor("float32", (case.model.count,))
    plan = handle.rnn_forward(case.rnn, case.x_desc, w_desc, case.y_desc)
    assert plan.buffers == ("x", "w", "hx", "cx", "y", "hy", "cy")
    plan(*case.of(*plan.buffers))
    case.compare(("y", "hy", "cy"))
    case.begin()
    given = case.of(*plan.buffers)
    plan.pack(given[1])
    plan(*given)
    case.compare(("y", "hy", "cy"))
    case.begin()
    forward = handle.rnn_forward(case.rnn, case.x_desc, w_desc, case.y_desc, training=True)
    data = handle.rnn_backward_data(case.rnn, case.y_desc, w_desc, case.x_desc)
    weights = handle.rnn_backward_weights(case.rnn, case.x_desc, case.y_desc, w_desc)
    for each in (forward, data, weights):
        each(*[case.kept if name == "reserve" else case.of(name)[0] for name in each.buffers])
        assert "RNN" in each.explain()
    case.compare(("y", "hy", "cy", "dx", "dhx", "dcx", "dw"))
    uneven = Case(handle, "float32", rng, TANH, 5, 9, lengths=MIXED, layout=STEPS)
    uneven.begin()
    w_desc = TensorDescriptor("float32", (uneven.model.count,))
    plan = handle.rnn_forward(uneven.rnn, uneven.x_desc, w_desc, uneven.y_desc, hy=False)
    assert plan.buffers == ("x", "w", "hx", "y", "table")
    plan(*uneven.of("x", "w", "hx", "y"), handle.upload(uneven.x_desc.table))
    uneven.compare(("y",))


@pytest.mark.parametrize("mode", [TANH, LSTM, GRU])
def test_parameters(handle, rng, mode):
    case = Case(handle, "float32", rng, mode, 5, 6, 2, 2)
    rnn, step, w_desc, part = case.rnn, case.step, TensorDescriptor(), TensorDescriptor()
    miopyx.miopenGetRNNParamsDescriptor(handle, rnn, step, w_desc, "float32")
    w = handle.upload(case.host["w"].reshape(w_desc.lens))
    gates = GATES[mode]
    for layer in range(4):
        for number in range(2 * gates):
            at, lens = case.model.matrices[layer // 2, layer % 2, number >= gates]
            at += number % gates * 6 * lens[1]
            assert miopyx.miopenGetRNNLayerParamOffset(rnn, layer, step, number, part) == at
            assert part == TensorDescriptor("float32", (6, lens[1]))
            assert miopyx.miopenGetRNNLayerParamSize(handle, rnn, layer, step, number) == 24 * lens[1]
            out = handle.zeros(part)
            miopyx.miopenGetRNNLayerParam(handle, rnn, layer, step, w_desc, w, number, part, out)
            values = np.asarray(handle.download(out))
            assert (values.ravel() == case.host["w"][at:at + 6 * lens[1]]).all()
            new = handle.upload(values + 1)
            miopyx.miopenSetRNNLayerParam(handle, rnn, layer, step, w_desc, w, number, part, new)
            at = case.model.biases[layer // 2, layer % 2, number >= gates] + number % gates * 6
            assert miopyx.miopenGetRNNLayerBiasOffset(rnn, layer, step, number, part) == at
            assert part == TensorDescriptor("float32", (6,))
            assert miopyx.miopenGetRNNLayerBiasSize(handle, rnn, layer, number) == 24
            out = handle.zeros(part)
            miopyx.miopenGetRNNLayerBias(handle, rnn, layer, step, w_desc, w, number, part, out)
            values = np.asarray(handle.download(out))
            assert (values == case.host["w"][at:at + 6]).all()
            new = handle.upload(values + 1)
            miopyx.miopenSetRNNLayerBias(handle, rnn, layer, step, w_desc, w, number, part, new)
    assert (np.asarray(handle.download(w)).ravel() == case.host["w"] + 1).all()
    miopyx.miopenGetRNNLayerParam(handle, rnn, 0, step, w_desc, w, 0, part, None)
    assert part.lens == (6, 5)
    for bad in (
        lambda: miopyx.miopenGetRNNLayerParamOffset(rnn, 4, step, 0, part),
        lambda: miopyx.miopenGetRNNLayerParamOffset(rnn, 0, step, 2 * gates, part),
        lambda: miopyx.miopenGetRNNLayerBiasOffset(rnn, -1, step, 0, part),
        lambda: miopyx.miopenSetRNNLayerParam(handle, rnn, 0, step, w_desc, w, 0, TensorDescriptor("float32", (6, 6)),
                                              out),
        lambda: miopyx.miopenGetRNNLayerParam(handle, rnn, 0, step, TensorDescriptor("float32", (3, 3)), w, 0, part,
                                              None),
        lambda: miopyx.miopenGetRNNLayerParamOffset(rnn, 0, TensorDescriptor("float16", (3, 5)), 0, part),
    ):
        with pytest.raises(BadParmError):
            bad()


def test_parameters_of_layers_that_lack_some(handle):
    skipping = RNNDescriptor(6, 2, LSTM, 0, 0, "skip")
    step, part = TensorDescriptor("float32", (3, 6)), TensorDescriptor()
    assert miopyx.miopenGetRNNLayerParamSize(handle, skipping, 0, step, 3) == 0
    assert miopyx.miopenGetRNNLayerParamSize(handle, skipping, 0, step, 4) == 144
    assert miopyx.miopenGetRNNLayerParamOffset(skipping, 0, step, 4, part) == 0
    assert miopyx.miopenGetRNNParamsSize(handle, skipping, step, "float32") == 4 * 24 * (6 + 12)
    with pytest.raises(BadParmError, match="null in input skip mode"):
        miopyx.miopenGetRNNLayerParamOffset(skipping, 0, step, 3, part)
    with pytest.raises(BadParmError, match="no biases"):
        miopyx.miopenGetRNNLayerBiasOffset(skipping, 0, step, 0, part)
    with pytest.raises(BadParmError, match="shoud be same"):
        miopyx.miopenGetRNNParamsSize(handle, skipping, TensorDescriptor("float32", (3, 5)), "float32")
    with pytest.raises(BadParmError, match="type mismatch"):
        miopyx.miopenGetRNNParamsSize(handle, skipping, step, "float16")


def test_descriptors():
    rnn = miopyx.miopenCreateRNNDescriptor()
    with pytest.raises(BadParmError, match="never set"):
        miopyx.miopenGetRNNDescriptor(rnn)
    miopyx.miopenSetRNNDescriptor(rnn, 12, 3, "linear", "bidirectional", "LSTM", "withBias", "default", "float16")
    assert miopyx.miopenGetRNNDescriptor(rnn) == (LSTM, 0, 0, 1, 1, 12, 3)
    drop = DropoutDescriptor(0.25)
    miopyx.miopenSetRNNDescriptor_V2(rnn, 5, 1, drop, 1, 0, miopyx.miopenGRU, 0, 1, "float32")
    assert miopyx.miopenGetRNNDescriptor_V2(rnn) == (5, 1, drop, 1, 0, GRU, 0, 1, miopyx.miopenFloat)
    assert (rnn.hidden_size, rnn.layer_count, rnn.bidirectional, rnn.has_bias, rnn.skips_input) == (5, 1, False, False,
                                                                                                    True)
    assert (rnn.rnn_mode, rnn.rnn_algorithm, rnn.padding_mode, rnn.dropout_descriptor) == (GRU, 1, 0, drop)
    plain = RNNDescriptor(8, 2, "relu", 1)
    plain.set_padding_mode(1)
    for made in (copy.copy(plain), pickle.loads(pickle.dumps(plain))):
        assert made == plain
        assert made.padding_mode == 1
    assert "miopenRNNRELU" in repr(plain)
    for name in ("miopenRNNbidirection", "miopenRNNwithBias", "miopenRNNlinear", "miopenFloat", "miopenRNNdefault"):
        assert repr(name) in repr(plain)
    before = repr(rnn)
    for bad in ((0, 1, 0, 0, 2, 0, 0, 1), (4, 0, 0, 0, 2, 0, 0, 1), (4, 1, 2, 0, 2, 0, 0, 1), (4, 1, 0, 2, 2, 0, 0, 1),
                (4, 1, 0, 0, 4, 0, 0, 1), (4, 1, 0, 0, 2, 2, 0, 1), (4, 1, 0, 0, 2, 0, 2, 1)):
        with pytest.raises(BadParmError):
            miopyx.miopenSetRNNDescriptor(rnn, *bad)
    with pytest.raises(MIOpenNotImplementedError):
        miopyx.miopenSetRNNDescriptor(rnn, 4, 1, 0, 0, 2, 0, 0, "int8")
    assert repr(rnn) == before
    miopyx.miopenDestroyRNNDescriptor(rnn)
    with pytest.raises(BadParmError, match="destroyed"):
        miopyx.miopenGetRNNPaddingMode(rnn)


def test_descriptors_of_sequences():
    desc = miopyx.miopenCreateSeqTensorDescriptor()
    with pytest.raises(BadParmError, match="never set"):
        miopyx.miopenGetRNNDataSeqTensorDescriptor(desc, 0)
    miopyx.miopenSetRNNDataSeqTensorDescriptor(desc, "float32", "SeqMajorPadded", 7, 3, 4, [2, 7, 0], None)
    assert miopyx.miopenGetRNNDataSeqTensorDescriptor(desc, 2) == (1, STEPS, 7, 3, 4, [2, 7], None)
    assert miopyx.miopenGetRNNDataSeqTensorDescriptor(desc, None)[5] == [2, 7, 0]
    assert desc.shape == (7, 3, 4)
    assert (desc.data_type, desc.base_layout, desc.sequence_lengths) == (1, STEPS, [2, 7, 0])
    assert desc.table.tolist() == [0, 2, 4, 5, 6, 7, 8, 9, 1, 0, 2, 1, 0, 2]
    assert SeqTensorDescriptor("float32", PACKED, 4, 3, 2, [4, 2, 2]).shape == (8, 2)
    assert SeqTensorDescriptor("float32", PACKED, 5, 3, 2, [4, 4, 4]).shape == (4, 3, 2)
    assert SeqTensorDescriptor("float32", SEQUENCES, 5, 3, 2, [1, 4, 4]).shape == (3, 5, 2)
    for made in (copy.copy(desc), pickle.loads(pickle.dumps(desc))):
        assert made == desc
        assert made.shape == desc.shape
    before = repr(desc)
    for bad in ((0, STEPS, 7, 3, 4, [8, 7, 1]), (1, STEPS, 7, 3, 4, [1, 1]), (1, STEPS, 7, 3, 4, [0, 0, 0]),
                (1, STEPS, 7, 3, 4, [-1, 2, 2]), (1, 0, 7, 3, 4, [2, 2, 2]), (1, 4, 7, 3, 4, [2, 2, 2]),
                (1, STEPS, 0, 3, 4, [2, 2, 2]), (1, STEPS, 7, 0, 4, []), (1, STEPS, 7, 3, 0, [2, 2, 2]),
                (1, STEPS, 7, 3, 4, "222"), (1, STEPS, 7, 3, 4, None), (1, STEPS, 7, 3, 4, [2.0, 2.0, 2.0])):
        with pytest.raises(BadParmError):
            miopyx.miopenSetRNNDataSeqTensorDescriptor(desc, *bad, None)
    with pytest.raises(BadParmError, match="longer than the one before"):
        miopyx.miopenSetRNNDataSeqTensorDescriptor(desc, 1, PACKED, 7, 3, 4, [2, 3, 1], None)
    with pytest.raises(BadParmError, match="not used"):
        miopyx.miopenSetRNNDataSeqTensorDescriptor(desc, 1, STEPS, 7, 3, 4, [2, 3, 1], 0)
    assert repr(desc) == before
    miopyx.miopenDestroySeqTensorDescriptor(desc)
    with pytest.raises(BadParmError, match="destroyed"):
        miopyx.miopenGetRNNDataSeqTensorDescriptor(desc, 0)


def test_refusals(handle, rng):
    case = Case(handle, "float32", rng, LSTM, 5, 6, 2)
    case.begin()
    x, hx, hy, cx, cy, y, w = case.of("x", "hx", "hy", "cx", "cy", "y", "w")
    good = {"rnn": case.rnn, "mode": 0, "xd": case.x_desc, "x": x, "hd": case.h_desc, "hx": hx, "hy": hy,
            "cd": case.h_desc, "cx": cx, "cy": cy, "yd": case.y_desc, "y": y, "w": w, "wn": case.host["w"].nbytes,
            "s": case.scratch, "sn": case.space_size, "r": case.kept, "rn": case.reserve_size}
    half = RNNDescriptor(6, 2, LSTM, 0, 1, 0, "float16")
    wrong = [
        ({"rnn": half}, BadParmError), ({"rnn": RNNDescriptor()}, BadParmError), ({"mode": 2}, BadParmError),
        ({"xd": SeqTensorDescriptor("float32", PACKED, 3, 3, 5)}, BadParmError),
        ({"yd": SeqTensorDescriptor("float32", PACKED, 4, 3, 7)}, BadParmError),
        ({"yd": SeqTensorDescriptor("float32", SEQUENCES, 4, 3, 6)}, BadParmError),
        ({"xd": TensorDescriptor("float32", (4, 3, 5))}, BadParmError),
        ({"hd": TensorDescriptor("float32", (2, 3, 7))}, BadParmError),
        ({"hd": TensorDescriptor("float32", (1, 3, 6))}, BadParmError),
        ({"cd": TensorDescriptor("float16", (2, 3, 6))}, BadParmError),
        ({"wn": case.host["w"].nbytes - 1}, UnknownError), ({"sn": 0}, UnknownError),
        ({"rn": case.reserve_size // 2}, UnknownError), ({"x": None}, BadParmError), ({"w": None}, BadParmError),
        ({"y": None}, BadParmError), ({"r": None}, BadParmError), ({"y": x, "x": x}, BadParmError),
    ]
    if not case.space_size or handle.device.is_host:
        wrong = [(change, error) for change, error in wrong if "sn" not in change]
    for change, error in wrong:
        try:
            miopyx.miopenRNNForward(handle, *(good | change).values())
        except error:
            continue
        pytest.fail(f"no {error.__name__}: {change}")
    for change, parameter in (({"sn": -1}, "workSpaceNumBytes"), ({"rn": -1}, "reserveSpaceNumBytes"),
                              ({"rn": 0}, "reserveSpaceNumBytes"), ({"wn": 0}, "weightSpaceSize"),
                              ({"sn": None}, "workSpaceNumBytes"), ({"hy": hx}, "hy"), ({"cy": cx}, "cy"),
                              *([({"sn": 0}, "workSpaceNumBytes")] if case.space_size else [])):
        with pytest.raises(miopyx.MIOpenError) as raised:
            miopyx.miopenRNNForward(handle, *(good | change).values())
        assert raised.value.parameter in (parameter, {"hy": "hx", "cy": "cx"}.get(parameter)), change
    assert np.isnan(case.value("y")).all()
    steps = [TensorDescriptor("float32", (n, 5)) for n in (3, 2, 3)]
    for bad in (lambda: miopyx.miopenGetRNNWorkspaceSize(handle, case.rnn, 3, steps),
                lambda: miopyx.miopenGetRNNWorkspaceSize(handle, case.rnn, 4, steps[:2]),
                lambda: miopyx.miopenGetRNNWorkspaceSize(handle, case.rnn, 0, steps),
                lambda: miopyx.miopenGetRNNWorkspaceSize(handle, case.rnn, 1, steps[0]),
                lambda: miopyx.miopenGetRNNInputTensorSize(handle, half, 2, steps),
                lambda: miopyx.miopenGetRNNWorkspaceSize(
                    handle, case.rnn, 2, [steps[0], TensorDescriptor("float32", (3, 6))])):
        with pytest.raises(BadParmError):
            bad()


def test_the_size_for_the_longest_sequences_is_enough_for_shorter_ones(handle, rng):
    rnn = RNNDescriptor(16, 1, GRU)
    for layout in (PACKED, STEPS, SEQUENCES):
        space, reserve = miopyx.miopenGetRNNTempSpaceSizes(
            handle, rnn, SeqTensorDescriptor("float32", layout, 20, 4, 64), "training")
        for _ in range(5):
            lengths = -np.sort(-rng.integers(1, 21, 4))
            shorter = SeqTensorDescriptor("float32", layout, 20, 4, 64, lengths)
            less = miopyx.miopenGetRNNTempSpaceSizes(handle, rnn, shorter, "training")
            steps = miopyx.miopenGetRNNTempSpaceSizes(handle, rnn, shorter, "inference")
            assert less[0] <= space, lengths
            assert steps[0] <= space, lengths
            assert less[1] <= reserve


def test_plans_see_that_dropout_changed(handle):
    size = miopyx.miopenDropoutGetStatesSize(handle)
    states, drop = handle.zeros((size,), "int8"), DropoutDescriptor()
    miopyx.miopenSetDropoutDescriptor(drop, handle, 0.5, states, size, 7, False, False, 0)
    rnn = RNNDescriptor(7, 2, LSTM, dropout=drop)
    x, y = (SeqTensorDescriptor("float32", PACKED, 4, 3, n) for n in (5, 7))
    w = TensorDescriptor()
    miopyx.miopenGetRNNParamsDescriptor(handle, rnn, TensorDescriptor("float32", (3, 5)), w, "float32")
    plan = handle.rnn_forward(rnn, x, w, y, training=True)
    miopyx.miopenSetDropoutDescriptor(drop, handle, 0.25, states, size, 7, False, False, 0)
    with pytest.raises(BadParmError, match="dropout_desc"):
        plan(*[None] * len(plan.buffers))
    miopyx.miopenDestroyDropoutDescriptor(drop)
    with pytest.raises(BadParmError, match="destroyed"):
        handle.rnn_forward(rnn, x, w, y, training=True)


def test_infinite_states_stay_infinite(handle):
    """Whatever the number of units: what fills vectors up is nobody's number."""
    for hidden in (5, 7, 16):
        rnn = RNNDescriptor(hidden, 1, RELU, bias=0)
        x, y = (SeqTensorDescriptor("float32", PACKED, 4, 3, n) for n in (5, hidden))
        w, out = handle.upload(np.full(hidden * (5 + hidden), 0.1, np.float32)), handle.zeros(y.shape)
        big = handle.upload(np.full(x.shape, np.inf, np.float32))
        plan = handle.rnn_forward(rnn, x, TensorDescriptor("float32", (hidden * (5 + hidden),)), y, hx=False, hy=False)
        plan(big, w, out)
        assert np.isinf(np.asarray(handle.download(out))).all(), hidden


def test_tables_lead_nowhere_else(handle, rng):
    """A table of other lengths computes something else, in the same memory; the descriptor's own cannot be written."""
    lengths, other = (4, 3, 2, 1), SeqTensorDescriptor("float32", PACKED, 4, 4, 5, [4, 4, 4, 3])
    case = Case(handle, "float32", rng, TANH, 5, 7, lengths=lengths)
    with pytest.raises(ValueError, match="read-only"):
        case.x_desc.table[1] = 1 << 28
    w_desc = TensorDescriptor("float32", (case.model.count,))
    plan = handle.rnn_forward(case.rnn, case.x_desc, w_desc, case.y_desc)
    wrong = np.full(13, 1 << 28, np.int32), np.full(13, -1, np.int32), np.arange(13, dtype=np.int32)
    for table in (other.table, *wrong):
        case.begin()
        plan(*case.of("x", "w", "hx", "y", "hy"), handle.upload(table))
        handle.finish()
        for name in ("x", "w", "hx", "y", "hy"):
            case.device[name].fetch()
    if handle.device.is_host:
        with pytest.raises(BadParmError):
            plan(*case.of("x", "w", "hx", "y", "hy"), case.x_desc.table.astype(np.int64))


def test_sizes_that_64_bits_cannot_hold(handle):
    wide = TensorDescriptor("float64", (1 << 20, (1 << 31) - 1))
    with pytest.raises(BadParmError):
        miopyx.miopenGetRNNInputTensorSize(handle, RNNDescriptor(1, data_type="float64"), 1024, [wide] * 1024)
    most = RNNDescriptor((1 << 31) - 1, (1 << 31) - 1, data_type="float64")
    with pytest.raises(BadParmError):
        miopyx.miopenGetRNNHiddenTensorSize(handle, most, 1, [TensorDescriptor("float64", (4, 5))])
    wide, x, y = (1 << 31) - 1, SeqTensorDescriptor("float32", STEPS, 2, 1, 3), np.zeros(8, np.float32)
    huge = RNNDescriptor(wide, 1, LSTM)  # the numbers of its parameters fit 64 bits, their bytes do not
    with pytest.raises(BadParmError):
        miopyx.miopenGetRNNParamsSize(handle, huge, TensorDescriptor("float32", (1, 3)), "float32")
    with pytest.raises(BadParmError):
        miopyx.miopenRNNForward(handle, huge, 1, x, y, None, None, None, None, None, None, x, y, y, 1 << 62, None, 0,
                                None, 0)
    with pytest.raises(BadParmError):
        SeqTensorDescriptor("float32", STEPS, 1 << 30, 1 << 10, 1 << 22, [1] * 1024)
    for most in (1 << 24) + 1, (1 << 31) - 1:  # before any memory is taken for so many lengths
        for steps, batch in ((1, most), (most, 1)):
            with pytest.raises(BadParmError):
                SeqTensorDescriptor("float32", STEPS, steps, batch, 1)
        with pytest.raises(BadParmError):
            miopyx.miopenGetRNNWorkspaceSize(handle, RNNDescriptor(3), 1, [TensorDescriptor("float32", (most, 2))])
