"""Random graphs of every pattern that runs, graphs that are nearly one of them, and attributes."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import drawn
import numpy as np
import pytest
import test_activation
import test_fusion
import test_graph
import test_mha
from drawn import HOST, length, one_of, some_convolution, some_lens, some_type
from guarded import LAYOUTS, ROUNDOFF, Tensor
from random_first import any_tensor, now
from solver_checks import OUTPUT, Example, verify
from test_graph import get, graph_of, make, matmul, pack, pointwise, reduction
from test_tensor_ops import OPS, within

import miopyx
from miopyx import MIOpenError, TensorDescriptor
from miopyx.enums import miopenActivationMode_t as _Act
from miopyx.solvers import registry

# Of an activation's mode: the operation, and attributes by the numbers alpha, beta and gamma.
ACTIVATIONS = {
    "PASTHRU": ("IDENTITY", lambda *_: {}), "LOGISTIC": ("SIGMOID_FWD", lambda *_: {}),
    "RELU": ("RELU_FWD", lambda *_: {}), "SOFTRELU": ("SOFTPLUS_FWD", lambda *_: {}), "ABS": ("ABS", lambda *_: {}),
    "CLIPPEDRELU": ("RELU_FWD", lambda a, *_: {"RELU_UPPER_CLIP": a}),
    "LEAKYRELU": ("RELU_FWD", lambda a, *_: {"RELU_LOWER_CLIP_SLOPE": a}),
    "ELU": ("ELU_FWD", lambda a, *_: {"ELU_ALPHA": a}),
    "CLAMP": ("RELU_FWD", lambda a, b, _: {"RELU_LOWER_CLIP": a, "RELU_UPPER_CLIP": b}),
}


def require_limit(error):
    """An error says what is wrong and what would not be."""
    if not error.parameter or error.limit is None:
        raise AssertionError(f"without a parameter or a limit: {error}") from error


def described(desc, virtual=False):
    """A tensor of the graph API like a descriptor."""
    return test_graph.tensor(desc.lens, virtual, desc.dtype, strides=desc.strides)


def any_plan(handle, graph, rng):
    """The plan of one of a graph's engines."""
    heuristics = make("ENGINEHEUR", [("ENGINEHEUR_OPERATION_GRAPH", "BACKEND_DESCRIPTOR", graph),
                                     ("ENGINEHEUR_MODE", "HEUR_MODE", "MIOPEN_HEUR_MODE_INSTANT")])
    count, configs = get(heuristics, "ENGINEHEUR_RESULTS", "BACKEND_DESCRIPTOR", 99)
    assert count == len(configs) == get(graph, "OPERATIONGRAPH_ENGINE_GLOBAL_COUNT", "INT64")[1][0] >= 1
    at = int(rng.integers(count))
    if rng.integers(2):
        return make("EXECUTION_PLAN", [("EXECUTION_PLAN_ENGINE_CONFIG", "BACKEND_DESCRIPTOR", configs[at])])
    engine = make("ENGINE", [("ENGINE_OPERATION_GRAPH", "BACKEND_DESCRIPTOR", graph),
                             ("ENGINE_GLOBAL_INDEX", "INT64", at)])
    config = make("ENGINECFG", [("ENGINECFG_ENGINE", "BACKEND_DESCRIPTOR", engine)])
    return make("EXECUTION_PLAN", [("EXECUTION_PLAN_HANDLE", "HANDLE", handle),
                                   ("EXECUTION_PLAN_ENGINE_CONFIG", "BACKEND_DESCRIPTOR", config)])


def execute(handle, graph, tensors, rng, unread=None):
    """Run a graph on memory: (tensor of the graph, guarded.Tensor); wrong packs before, not of an `unread` tensor."""
    plan = any_plan(handle, graph, rng)
    memory = {t.uid: one.argument() for t, one in tensors}
    while rng.random() < 0.4:
        wrong_pack(handle, plan, [pair for pair in tensors if pair[0] is not unread], memory, rng)
    uids = list(memory)
    rng.shuffle(uids)
    miopyx.miopenBackendExecute(handle, plan, pack({uid: memory[uid] for uid in uids}))
    handle.finish()


def wrong_pack(handle, plan, tensors, memory, rng):
    """A tensor's memory is something else, missing, or another tensor's: refused without harm, or computed."""
    before = [one.inner.copy() for _, one in tensors]
    changed, (t, one) = dict(memory), tensors[int(rng.integers(len(tensors)))]
    kind = int(rng.integers(6))
    if kind == 0:
        del changed[t.uid]
    elif kind == 1:
        changed[10**9] = changed[t.uid]
    elif kind == 2:
        changed[t.uid] = changed[tensors[int(rng.integers(len(tensors)))][0].uid]
    else:
        changed[t.uid] = drawn.another(changed[t.uid], list(memory.values()), rng)
    given = changed.get(t.uid)
    try:
        miopyx.miopenBackendExecute(handle, plan, pack(changed))
    except MIOpenError as error:
        require_limit(error)
        handle.finish()
        for (_, its), bytes_ in zip(tensors, before, strict=True):
            np.testing.assert_array_equal(its.inner, bytes_, "refused, and memory changed")
    else:
        handle.finish()
        assert kind > 1, "an id too few or too many was taken"
        assert not (isinstance(given, np.ndarray) and given.nbytes < one.desc.nbytes), "short memory was taken"
        for (_, its), bytes_ in zip(tensors, before, strict=True):
            its.inner[...] = bytes_


# One operation


def run_activation(handle, rng):
    name = one_of(rng, *ACTIVATIONS)
    mode, (sign, settings) = _Act[f"miopenActivation{name}"], ACTIVATIONS[name]
    numbers = test_activation.parameters(mode, rng)
    dtype, lens = some_type(handle, rng), some_lens(rng)
    x, y = any_tensor(handle, rng, dtype, lens, test_activation.values(dtype, lens, rng)), any_tensor(
        handle, rng, dtype, lens)
    tx, ty = described(x.desc), described(y.desc)
    execute(handle, graph_of(handle, pointwise(sign, tx, ty, **settings(*numbers))), [(tx, x), (ty, y)], rng)
    test_activation.check(y.values(), *test_activation.forward(
        mode, now(x), *numbers, test_activation.eps_of(dtype)), dtype, f"{name} {numbers}")


def run_scaled_identity(handle, rng):
    dtype, lens, alpha = some_type(handle, rng), some_lens(rng, 1, 4), one_of(rng, -2.0, 0.5)
    x, y = any_tensor(handle, rng, dtype, lens, rng.standard_normal(lens)), any_tensor(handle, rng, dtype, lens)
    tx, ty = described(x.desc), described(y.desc)
    execute(handle, graph_of(handle, pointwise("IDENTITY", tx, ty, alpha1=alpha)), [(tx, x), (ty, y)], rng)
    within(y.values(), alpha * now(x), np.abs(alpha * now(x)), dtype)


def run_binary(handle, rng):
    """Of the operands one may have lengths of 1, whichever it is."""
    dtype, lens, op = some_type(handle, rng), some_lens(rng), one_of(rng, *test_graph.BINARY)
    small = tuple(n if rng.integers(2) else 1 for n in lens)
    factors = [one_of(rng, 1.0, float(np.float32(rng.standard_normal()))) for _ in range(2)]
    a, b = (any_tensor(handle, rng, dtype, s, rng.standard_normal(s)) for s in (lens, small))
    operands = [a, b] if rng.integers(2) else [b, a]
    y = any_tensor(handle, rng, dtype, lens)
    parts = [described(t.desc) for t in (*operands, y)]
    graph = graph_of(handle, pointwise(op, *parts, alpha1=factors[0], alpha2=factors[1]))
    execute(handle, graph, list(zip(parts, (*operands, y), strict=True)), rng)
    first, second = (f * now(t) for f, t in zip(factors, operands, strict=True))
    want = first - second if op == "SUB" else OPS[op.capitalize()](first, second)
    within(y.values(), want, np.abs(first * second) if op == "MUL" else np.abs(first) + np.abs(second), dtype)


REDUCE = {"ADD": np.sum, "MIN": np.min, "MAX": np.max, "AVG": np.mean, "MUL": np.prod,
          "AMAX": lambda v, *a, **k: np.max(np.abs(v), *a, **k), "NORM1": lambda v, *a, **k: np.sum(np.abs(v), *a, **k),
          "NORM2": lambda v, *a, **k: np.sqrt(np.sum(v * v, *a, **k))}


def run_reduction(handle, rng):
    dtype, lens, op = some_type(handle, rng), some_lens(rng), one_of(rng, *REDUCE)
    axes = tuple(sorted(int(i) for i in rng.choice(len(lens), int(rng.integers(1, len(lens) + 1)), replace=False)))
    values = 2.0 ** rng.uniform(-0.01, 0.01, lens) if op == "MUL" else rng.standard_normal(lens)
    x = any_tensor(handle, rng, dtype, lens, values)
    y = any_tensor(handle, rng, dtype, tuple(1 if i in axes else n for i, n in enumerate(lens)))
    tx, ty = described(x.desc), described(y.desc)
    execute(handle, graph_of(handle, reduction(op, tx, ty)), [(tx, x), (ty, y)], rng)
    want = REDUCE[op](now(x), axes, keepdims=True)
    count = math.prod(lens[i] for i in axes)
    size = np.abs(want) if op == "MUL" else np.sum(np.abs(now(x)), axes, keepdims=True)
    within(y.values(), want, size, dtype, 4 + min(2 * count, 1200))


def run_product(handle, rng):
    dtype = some_type(handle, rng)
    batch = some_lens(rng, 0, 3, 30)
    m, k, n = length(rng, 40), length(rng, 60), length(rng, 40)
    shapes = (*batch, m, k), (*batch, k, n), (*batch, m, n)
    a, b = (Tensor(handle, TensorDescriptor(dtype, s), rng.standard_normal(s)) for s in shapes[:2])
    c = Tensor(handle, TensorDescriptor(dtype, shapes[2]), None)
    parts = [described(t.desc) for t in (a, b, c)]
    execute(handle, graph_of(handle, matmul(*parts)), list(zip(parts, (a, b, c), strict=True)), rng)
    within(c.values(), now(a) @ now(b), np.abs(now(a)) @ np.abs(now(b)), dtype, 2 * k + 8)


def convolution_of(example):
    conv, n = example.conv, len(example.case.lens)
    return make("CONVOLUTION", [
        ("CONVOLUTION_COMP_TYPE", "DATA_TYPE", "float32"), ("CONVOLUTION_CONV_MODE", "CONVOLUTION_MODE", 0),
        ("CONVOLUTION_SPATIAL_DIMS", "INT64", n), ("CONVOLUTION_DILATIONS", "INT64", list(conv.dilations)),
        ("CONVOLUTION_FILTER_STRIDES", "INT64", list(conv.strides)),
        ("CONVOLUTION_PRE_PADDINGS", "INT64", list(conv.pads)), ("CONVOLUTION_POST_PADDINGS", "INT64",
                                                                list(conv.pads))])


def loosest(handle, example, direction):
    """Who says of a solver what holds for all: which engine has which nobody says."""
    able = [s for s in registry.CONV if s.why_not(handle.device, example.problem(direction)) is None]
    bound = max(s.error_bound(handle.device, example.problem(direction)) for s in able)
    return SimpleNamespace(mixes_tiles=any(s.mixes_tiles for s in able), error_bound=lambda *_: bound, name="engines")


OPERATION = (("OPERATION_CONVOLUTION_FORWARD", "OPERATION_CONVOLUTION_FORWARD", ("X", "W", "Y")),
             ("OPERATION_CONVOLUTION_BACKWARD_DATA", "OPERATION_CONVOLUTION_BWD_DATA", ("DX", "W", "DY")),
             ("OPERATION_CONVOLUTION_BACKWARD_FILTER", "OPERATION_CONVOLUTION_BWD_FILTER", ("X", "DW", "DY")))


def run_plain_convolution(handle, rng):
    example = Example(some_convolution(rng, 9), some_type(handle, rng), one_of(rng, *LAYOUTS), rng, HOST())
    direction = int(rng.integers(3))
    kind, prefix, names = OPERATION[direction]
    alpha, beta = one_of(rng, (1.0, 0.0), (1.0, 0.0), (-0.7, 0.0), (0.5, 1.25))
    old = example.random_output(direction, rng) if beta else None
    tensors = [Tensor(handle, desc, values) for desc, values in zip(example.desc, example.data, strict=True)]
    out = tensors[OUTPUT[direction]] = Tensor(handle, example.desc[OUTPUT[direction]], old)
    parts = [described(t.desc) for t in tensors]
    op = make(kind, [*((f"{prefix}_{name}", "BACKEND_DESCRIPTOR", t) for name, t in zip(names, parts, strict=True)),
                     (f"{prefix}_CONV_DESC", "BACKEND_DESCRIPTOR", convolution_of(example)),
                     (f"{prefix}_ALPHA", "FLOAT", alpha), (f"{prefix}_BETA", "DOUBLE", beta)])
    execute(handle, graph_of(handle, op), list(zip(parts, tensors, strict=True)), rng)
    verify(handle, example, direction, out.values(), loosest(handle, example, direction), alpha, beta,
           0.0 if old is None else old.astype(np.float64))


def run_graph(handle, rng):
    """One operation."""
    one_of(rng, run_activation, run_scaled_identity, run_binary, run_reduction, run_product, run_plain_convolution)(
        handle, rng)


# A convolution with what follows it


def run_convolution(handle, rng):
    """z, a bias and an activation, each or not, in any order that runs."""
    example = Example(some_convolution(rng, 9), some_type(handle, rng), one_of(rng, *LAYOUTS), rng, HOST())
    parts = [name for name in ("z", "bias") if rng.integers(3)]
    rng.shuffle(parts)
    activation = one_of(rng, *ACTIVATIONS) if rng.integers(3) or not parts else None
    mode = int(_Act[f"miopenActivation{activation}"]) if activation else 0
    fused = test_fusion.Fused(example, rng, mode, "z" in parts, "bias" in parts, False, bool(rng.integers(2)))
    memory = [Tensor(handle, desc, values) for desc, values in zip(example.desc[:2], example.data, strict=False)]
    real = [described(t.desc) for t in memory]
    names = [*parts, *(["activation"] if activation else [])]
    alpha, of_here = float(rng.uniform(-2, 2)), 1.0
    here = described(fused.y, virtual=True)
    p, ops = "OPERATION_CONVOLUTION_FORWARD", []
    ops.append(make(p, [(f"{p}_X", "BACKEND_DESCRIPTOR", real[0]), (f"{p}_W", "BACKEND_DESCRIPTOR", real[1]),
                        (f"{p}_Y", "BACKEND_DESCRIPTOR", here),
                        (f"{p}_CONV_DESC", "BACKEND_DESCRIPTOR", convolution_of(example)),
                        (f"{p}_ALPHA", "FLOAT", alpha)]))
    beta = float(fused.numbers[1])
    for i, name in enumerate(names):
        after = described(fused.y, virtual=i + 1 < len(names))
        if name == "activation":
            sign, settings = ACTIVATIONS[activation]
            ops.append(pointwise(sign, here, after, **settings(*test_fusion.NUMBERS.get(mode, (0.0, 0.0, 0.0)))))
        else:
            desc, values = (fused.y, fused.z) if name == "z" else (fused.channel, fused.bias)
            memory.append(Tensor(handle, desc, values))
            real.append(described(desc))
            if name == "z" and i == 0:
                of_here = one_of(rng, 1.0, 0.5)
            operands = [(here, of_here if name == "z" else 1.0), (real[-1], beta if name == "z" else 1.0)]
            if rng.integers(2):
                operands.reverse()
            (first, alpha1), (second, alpha2) = operands
            ops.append(pointwise("ADD", first, second, after, alpha1=alpha1, alpha2=alpha2))
        here = after
    fused.numbers = alpha * of_here, beta
    out = Tensor(handle, fused.y, None)
    rng.shuffle(ops)
    execute(handle, graph_of(handle, *ops), [*zip(real, memory, strict=True), (here, out)], rng)
    solver = loosest(handle, example, 0)
    fused.verify(out.values(), solver, solver.error_bound() + 16 * ROUNDOFF["float32"] * (
        example.dtype != "float64") + 2 * ROUNDOFF[example.dtype])


# Attention


class Parts(test_graph.Parts):
    """Graphs of an attention's own tensors; operands of products of elements stand in any order.

    `change` is None, or what to do otherwise at operation `at`: for graphs that are no attention.
    """

    def __init__(self, attention, change=None, at=0):
        super().__init__({name: t.desc.lens for name, t in attention.t.items()}, attention.scale)
        self.attention, self.change, self.at, self.done = attention, change, at, False

    def __getitem__(self, name):
        if name not in self.t:
            its = self.attention.t.get(name)
            self.t[name] = test_graph.tensor((1, 1)) if its is None else described(its.desc)
        return self.t[name]

    def now(self, *changes):
        """Whether the next operation is the one to change, in one of these ways."""
        if len(self.ops) + self.done * (self.change == "drop") == self.at and self.change in changes and not self.done:
            self.done = True
            return True
        return False

    def pw(self, mode, x, b=None, to=None, alpha1=None):
        x, b = (self[one] if isinstance(one, str) else one for one in (x, b))
        if self.now("mode"):
            mode = {"MUL": "ADD", "SUB": "ADD", "EXP": "ABS", "IDENTITY": "ABS", "RECIPROCAL": "EXP"}[mode]
        if mode != "IDENTITY" and self.now("alpha"):
            alpha1 = 2.0
        if x.virtual and self.now("input"):
            x = test_graph.tensor(x.desc.lens)
        if mode == "MUL" and self.attention.rng.integers(2):
            y = super().pw(mode, b, x, to or self.like(x), alpha1)
        else:
            y = super().pw(mode, x, b, to, alpha1)
        return self.changed(y)

    def like(self, x):
        name = f"between {len(self.t)}"
        self.t[name] = test_graph.tensor(x.desc.lens, virtual=True)
        return name

    def changed(self, y):
        """Behind an operation."""
        before = len(self.ops) - 1
        if self.change == "drop" and before == self.at and not self.done:
            self.done = True
            self.ops.pop()
        if self.change == "twice" and before == self.at and not self.done:
            self.done = True
            self.ops.append(pointwise("EXP", y, test_graph.tensor(y.desc.lens)))
        return y

    def product(self, a, b, lens):
        if self.now("lens"):
            lens = (*lens[:3], lens[3] + 1)
        return self.changed(super().product(a, b, lens))

    def turn(self, x, lens):
        if self.now("lens"):
            lens = (*lens[:3], lens[3] + 1)
        return self.changed(super().turn(x, lens))

    def reduce(self, op, x, to=None):
        if self.now("mode"):
            op = {"ADD": "MAX", "MAX": "ADD"}[op]
        if self.now("input"):
            x = test_graph.tensor(x.desc.lens)
        return self.changed(super().reduce(op, x, to))

    def drawn(self):
        self.rng_settings = test_graph.NORMAL if self.now("mode") else ()
        return self.changed(super().drawn())


class Attention(test_mha.Attention):
    """Attention whose solutions are graphs; `change` and `at` as in Parts, for one that is refused."""

    change, at = None, 0

    def run(self, direction, names):
        parts = Parts(self, self.change, self.at)
        inverse = one_of(self.rng, "DropoutProbability", "inverse")
        try:
            parts = parts.forward() if direction == test_mha.FORWARD else parts.backward(inverse)
        except MIOpenError as error:  # lengths are wrong with the operation, not with the graph
            if self.change != "lens":
                raise
            require_limit(error)
            return
        self.rng.shuffle(parts.ops)
        if self.change is not None:
            assert parts.done or self.at >= len(parts.ops) or self.change in ("lens", "alpha", "input", "mode")
            if not parts.done:
                return
            with pytest.raises(MIOpenError):
                parts.graph(self.handle)
            return
        tensors = [(parts[name], self.t[name]) for name in names]
        if direction != test_mha.FORWARD and inverse == "inverse" and self.rng.integers(2):
            one = Tensor(self.handle, parts["inverse"].desc, 1.0)
            tensors.append((parts["inverse"], one))
        execute(self.handle, parts.graph(self.handle), tensors, self.rng, parts["inverse"])


def some_attention(handle, rng, most=40):
    shape = (length(rng, 3), length(rng, 3), *(length(rng, most) for _ in range(4)))
    return Attention(handle, some_type(handle, rng), shape, rng, scaled=True, layout=one_of(rng, *LAYOUTS, "any"),
                     dropout=(0.3, int(rng.integers(1 << 62)), int(rng.integers(1 << 40))),
                     scale=one_of(rng, None, 1.0, -0.3))


def run_attention(handle, rng):
    one = some_attention(handle, rng)
    one.forward()
    one.check_forward()
    one.backward()
    one.check_backward()


# Graphs that may be none


def run_other(handle, rng):
    """An attention with one thing changed is refused; what is taken of other graphs gives what its operations say."""
    if not rng.integers(3):
        one = some_attention(handle, rng, 5)
        one.change = one_of(rng, "drop", "twice", "mode", "alpha", "input", "lens")
        one.at = int(rng.integers(20))
        one.forward()
        one.at = int(rng.integers(45))
        one.backward()
        return
    run_chain(handle, rng)


UNARY = {"RELU_FWD": lambda v: np.maximum(v, 0), "SIGMOID_FWD": lambda v: 1 / (1 + np.exp(-v)), "ABS": np.abs,
         "TANH_FWD": np.tanh, "IDENTITY": lambda v: v, "EXP": np.exp}


def run_chain(handle, rng):
    """A convolution or none and random operations, with some tensors that are not virtual or read twice."""
    lens = (length(rng, 2), length(rng, 3), length(rng, 6), length(rng, 6))
    k = length(rng, 4)
    values, tensors = {}, {}

    def real(lens, given=None):
        t = test_graph.tensor(lens)
        values[t.uid] = rng.standard_normal(lens).astype("f4").astype("f8") if given is None else given
        tensors[t.uid] = t
        return t

    x, w, out_lens = real(lens), real((k, lens[1], 3, 3)), (lens[0], k, *lens[2:])
    results, ops, size = {}, [], 1.0
    count = int(rng.integers(0, 4))
    virtual = bool(count) != (rng.random() < 0.1)
    here = test_graph.tensor(out_lens, virtual)
    alpha, beta = one_of(rng, (1.0, 0.0), (0.5, 0.0), (1.0, 1.0))
    if rng.integers(5):
        ops.append(test_graph.forward(x, w, here, alpha=alpha, beta=beta))
        value = alpha * test_graph.convolve(values[x.uid], values[w.uid])
        size = np.abs(test_graph.convolve(np.abs(values[x.uid]), np.abs(values[w.uid]))).max()
        if not virtual:
            results[here.uid] = here
        if beta:
            old = rng.standard_normal(out_lens).astype("f4").astype("f8")
            values[here.uid] = old
            value = value + beta * old
    else:
        here = real(out_lens)
        value = values[here.uid]
    known = [(here, value)]
    for i in range(count):
        last = i + 1 == count
        mode = one_of(rng, "ADD", "ADD", "ADD", "SUB", "MUL", *UNARY)
        after = test_graph.tensor(out_lens, virtual=last == (rng.random() < 0.07))
        source, value = known[-1] if rng.integers(8) else known[int(rng.integers(len(known)))]
        factors = [one_of(rng, 1.0, 1.0, -0.5) for _ in range(2)]
        if mode in UNARY:
            ops.append(pointwise(mode, source, after, alpha1=factors[0]))
            value = UNARY[mode](factors[0] * value)
        else:
            other = one_of(rng, real((1, k, 1, 1)), real(out_lens), real(out_lens), source)
            of_other = value if other is source else values[other.uid]
            pair = [(source, value), (other, of_other)]
            if rng.integers(2):
                pair.reverse()
            ops.append(pointwise(mode, pair[0][0], pair[1][0], after, alpha1=factors[0], alpha2=factors[1]))
            first, second = (f * v for f, (_, v) in zip(factors, pair, strict=True))
            value = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}[mode](first, second)
        if not after.virtual:
            results[after.uid] = after
        known.append((after, value))
        size = max(size, np.abs(value).max())
    if not ops:
        return
    rng.shuffle(ops)
    try:
        graph = graph_of(handle, *ops)
        plan = any_plan(handle, graph, rng)
    except MIOpenError as error:
        require_limit(error)
        return
    asked = {t.uid: t for op in ops for t in read_and_written(op) if not t.virtual}
    memory = {uid: Tensor(handle, t.desc, values.get(uid)) for uid, t in asked.items()}
    miopyx.miopenBackendExecute(handle, plan, pack({uid: one.argument() for uid, one in memory.items()}))
    handle.finish()
    truth = {t.uid: value for t, value in known}
    for uid in results:
        got = memory[uid].values()
        assert np.isfinite(got).all()
        assert np.abs(got - truth[uid]).max() <= 1e-3 * max(size, 1), "not what the operations say"


def read_and_written(op):
    """The tensors of an operation."""
    names = {"OPERATION_CONVOLUTION_FORWARD": ("X", "W", "Y"), "OPERATION_POINTWISE": ("XDESC", "BDESC", "YDESC")}
    found = (op.value(f"{op.kind}_{name}") for name in names[op.kind])
    return [t for t in found if t is not None]


# Attributes


def valid(handle):
    """Attributes of a descriptor of each kind, and what it is made of."""
    t = [test_graph.tensor((2, 3, 4, 4)) for _ in range(3)]
    w = test_graph.tensor((3, 3, 3, 3))
    of = {kind: make(kind, attributes) for kind, attributes in SIMPLE.items()}
    pw = "OPERATION_POINTWISE"
    absolute = pointwise("ABS", t[0], t[1])
    graph = graph_of(handle, absolute)
    engine = make("ENGINE", [("ENGINE_OPERATION_GRAPH", "BACKEND_DESCRIPTOR", graph),
                             ("ENGINE_GLOBAL_INDEX", "INT64", 0)])
    config = make("ENGINECFG", [("ENGINECFG_ENGINE", "BACKEND_DESCRIPTOR", engine)])
    descriptor = "BACKEND_DESCRIPTOR"
    forward, seed = "OPERATION_CONVOLUTION_FORWARD", test_graph.tensor((1,), dtype="int64")
    return {
        **SIMPLE,
        forward: [(f"{forward}_X", descriptor, t[0]), (f"{forward}_W", descriptor, w), (f"{forward}_Y", descriptor,
                                                                                         t[1]),
                  (f"{forward}_CONV_DESC", descriptor, of["CONVOLUTION"]), (f"{forward}_ALPHA", "FLOAT", 1.0),
                  (f"{forward}_BETA", "DOUBLE", 0.0)],
        pw: [(f"{pw}_PW_DESCRIPTOR", descriptor, of["POINTWISE"]), (f"{pw}_XDESC", descriptor, t[0]),
             (f"{pw}_YDESC", descriptor, t[1]), (f"{pw}_ALPHA1", "FLOAT", 1.0)],
        "OPERATION_MATMUL": [("OPERATION_MATMUL_DESC", descriptor, of["MATMUL"]),
                             *((f"OPERATION_MATMUL_{n}DESC", descriptor, one)
                               for n, one in zip("ABC", t, strict=True))],
        "OPERATION_REDUCTION": [("OPERATION_REDUCTION_DESC", descriptor, of["REDUCTION"]),
                                ("OPERATION_REDUCTION_XDESC", descriptor, t[0]),
                                ("OPERATION_REDUCTION_YDESC", descriptor, t[1])],
        "OPERATION_RNG": [("OPERATION_RNG_DESC", descriptor, of["RNG"]), ("OPERATION_RNG_SEED", descriptor, seed),
                          ("OPERATION_RNG_OFFSET_DESC", descriptor, seed), ("OPERATION_RNG_YDESC", descriptor, t[0])],
        "OPERATIONGRAPH": [("OPERATIONGRAPH_HANDLE", "HANDLE", handle), ("OPERATIONGRAPH_OPS", descriptor, absolute)],
        "ENGINE": [("ENGINE_OPERATION_GRAPH", descriptor, graph), ("ENGINE_GLOBAL_INDEX", "INT64", 0)],
        "ENGINECFG": [("ENGINECFG_ENGINE", descriptor, engine)],
        "ENGINEHEUR": [("ENGINEHEUR_OPERATION_GRAPH", descriptor, graph), ("ENGINEHEUR_MODE", "HEUR_MODE", 0)],
        "EXECUTION_PLAN": [("EXECUTION_PLAN_HANDLE", "HANDLE", handle), ("EXECUTION_PLAN_ENGINE_CONFIG", descriptor,
                                                                         config)],
        "VARIANT_PACK": [("VARIANT_PACK_UNIQUE_IDS", "INT64", [t[0].uid, t[1].uid]),
                         ("VARIANT_PACK_DATA_POINTERS", "VOID_PTR", [np.zeros(96, "f4"), np.zeros(96, "f4")])],
    }


SIMPLE = {
    "TENSOR": [("TENSOR_UNIQUE_ID", "INT64", 1), ("TENSOR_DATA_TYPE", "DATA_TYPE", "float32"),
               ("TENSOR_DIMENSIONS", "INT64", [2, 3]), ("TENSOR_STRIDES", "INT64", [3, 1]),
               ("TENSOR_IS_VIRTUAL", "BOOLEAN", False), ("TENSOR_BYTE_ALIGNMENT", "INT64", 16)],
    "CONVOLUTION": [("CONVOLUTION_COMP_TYPE", "DATA_TYPE", "float32"), ("CONVOLUTION_CONV_MODE", "CONVOLUTION_MODE", 0),
                    ("CONVOLUTION_SPATIAL_DIMS", "INT64", 2),
                    *((f"CONVOLUTION_{name}", "INT64", [1, 1]) for name in (
                        "DILATIONS", "FILTER_STRIDES", "PRE_PADDINGS", "POST_PADDINGS"))],
    "POINTWISE": [("POINTWISE_MODE", "POINTWISE_MODE", "MIOPEN_POINTWISE_RELU_FWD"),
                  ("POINTWISE_MATH_PREC", "DATA_TYPE", "float32"), ("POINTWISE_RELU_UPPER_CLIP", "FLOAT", 6.0),
                  ("POINTWISE_RELU_LOWER_CLIP", "FLOAT", 0.0), ("POINTWISE_NAN_PROPAGATION", "NAN_PROPOGATION", 1),
                  ("POINTWISE_AXIS", "INT64", 1)],
    "MATMUL": [("MATMUL_COMP_TYPE", "DATA_TYPE", "float32")],
    "REDUCTION": [("REDUCTION_OPERATOR", "REDUCTION_OPERATOR_TYPE", 0),
                  ("REDUCTION_COMP_TYPE", "DATA_TYPE", "float32")],
    "RNG": [("RNG_DISTRIBUTION", "RNG_DISTRIBUTION", 0), ("RNG_BERNOULLI_DIST_PROBABILITY", "DOUBLE", 0.5),
            ("RNG_NORMAL_DIST_MEAN", "DOUBLE", 0.0)],
}


def run_attributes(handle, rng):
    """A descriptor with one attribute that is another: refused with a MIOpenError at one of the calls, or taken."""
    kinds = valid(handle)
    everything = sorted({name for of in kinds.values() for name, *_ in of})
    for _ in range(5):
        kind = one_of(rng, *kinds)
        attributes = [[f"MIOPEN_ATTR_{name}", f"MIOPEN_TYPE_{of}", given if isinstance(given, list) else [given]]
                      for name, of, given in kinds[kind]]
        at, what = int(rng.integers(len(attributes))), int(rng.integers(5))
        name, of, elements = attributes[at]
        count = len(elements)
        if what == 0:
            attributes[at][0] = one_of(rng, f"MIOPEN_ATTR_{one_of(rng, *everything)}", int(rng.integers(5000)), "x",
                                       None)
        elif what == 1:
            attributes[at][1] = one_of(rng, "MIOPEN_TYPE_INT64", "MIOPEN_TYPE_BACKEND_DESCRIPTOR", 999, None,
                                       "MIOPEN_TYPE_FLOAT", int(rng.integers(30)))
        elif what == 2:
            count = drawn.another(count, (), rng)
        else:
            attributes[at][2] = drawn.another(elements, [elements], rng)
            size = len(attributes[at][2]) if isinstance(attributes[at][2], list | tuple) else 1
            count = one_of(rng, size, size, count)
        one = miopyx.miopenBackendCreateDescriptor(f"MIOPEN_BACKEND_{kind}_DESCRIPTOR")
        try:
            for i, (name, of, elements) in enumerate(attributes):
                try:
                    miopyx.miopenBackendSetAttribute(one, name, of, count if i == at else len(elements), elements)
                except MIOpenError:
                    assert i == at, "an attribute was refused that is right"
            miopyx.miopenBackendFinalize(one)
            for (name, of, _), most in itertools.product(attributes, (0, 1, 9)):
                number, found = miopyx.miopenBackendGetAttribute(one, name, of, most)
                assert len(found) == min(number, most)
        except MIOpenError as error:
            require_limit(error)
        repr(one)
