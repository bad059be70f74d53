"""The graph API: attributes and their checks, and graphs that run: each result against float64."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from guarded import DTYPE, Tensor
from test_mha import mask_of

import miopyx
from miopyx import TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError, NotInitializedError, UnsupportedOpError

DTYPE.setdefault("int64", np.dtype("i8"))
COUNT = itertools.count(100)


def make(kind, attributes=(), finalize=True):
    """A descriptor of a kind with attributes: (name, type, elements)."""
    made = miopyx.miopenBackendCreateDescriptor(f"MIOPEN_BACKEND_{kind}_DESCRIPTOR")
    for name, of, elements in attributes:
        elements = elements if isinstance(elements, (list, tuple)) else [elements]
        miopyx.miopenBackendSetAttribute(made, f"MIOPEN_ATTR_{name}", f"MIOPEN_TYPE_{of}", len(elements), elements)
    if finalize:
        miopyx.miopenBackendFinalize(made)
    return made


def tensor(lens, virtual=False, dtype="float32", uid=None, strides=None):
    strides = TensorDescriptor(dtype, lens).strides if strides is None else strides
    return make("TENSOR", [
        ("TENSOR_UNIQUE_ID", "INT64", next(COUNT) if uid is None else uid), ("TENSOR_DATA_TYPE", "DATA_TYPE", dtype),
        ("TENSOR_DIMENSIONS", "INT64", lens), ("TENSOR_STRIDES", "INT64", strides),
        ("TENSOR_IS_VIRTUAL", "BOOLEAN", virtual)])


def convolution(pads=(1, 1), strides=(1, 1), end_pads=None, computes="float32"):
    n = len(pads)
    return make("CONVOLUTION", [
        ("CONVOLUTION_COMP_TYPE", "DATA_TYPE", computes), ("CONVOLUTION_CONV_MODE", "CONVOLUTION_MODE", 0),
        ("CONVOLUTION_SPATIAL_DIMS", "INT64", n), ("CONVOLUTION_DILATIONS", "INT64", [1] * n),
        ("CONVOLUTION_FILTER_STRIDES", "INT64", strides), ("CONVOLUTION_PRE_PADDINGS", "INT64", pads),
        ("CONVOLUTION_POST_PADDINGS", "INT64", pads if end_pads is None else end_pads)])


def forward(x, w, y, conv=None, alpha=1.0, beta=0.0):
    p = "OPERATION_CONVOLUTION_FORWARD"
    return make(p, [(f"{p}_X", "BACKEND_DESCRIPTOR", x), (f"{p}_W", "BACKEND_DESCRIPTOR", w),
                    (f"{p}_Y", "BACKEND_DESCRIPTOR", y), (f"{p}_CONV_DESC", "BACKEND_DESCRIPTOR", conv
                                                          or convolution()),
                    (f"{p}_ALPHA", "FLOAT", alpha), (f"{p}_BETA", "DOUBLE", beta)])


def pointwise(mode, *tensors, alpha1=1.0, alpha2=1.0, computes="float32", nan=None, **settings):
    """x [b] y of a mode."""
    pw = make("POINTWISE", [("POINTWISE_MODE", "POINTWISE_MODE", f"MIOPEN_POINTWISE_{mode}"),
                            ("POINTWISE_MATH_PREC", "DATA_TYPE", computes),
                            *([] if nan is None else [("POINTWISE_NAN_PROPAGATION", "NAN_PROPOGATION", nan)]),
                            *((f"POINTWISE_{name}", "FLOAT", value) for name, value in settings.items())])
    p, names = "OPERATION_POINTWISE", ("XDESC", "YDESC") if len(tensors) == 2 else ("XDESC", "BDESC", "YDESC")
    return make(p, [(f"{p}_PW_DESCRIPTOR", "BACKEND_DESCRIPTOR", pw), (f"{p}_ALPHA1", "FLOAT", alpha1),
                    (f"{p}_ALPHA2", "FLOAT", alpha2),
                    *((f"{p}_{name}", "BACKEND_DESCRIPTOR", t) for name, t in zip(names, tensors, strict=True))])


def reduction(op, x, y, computes="float32"):
    of = make("REDUCTION", [("REDUCTION_OPERATOR", "REDUCTION_OPERATOR_TYPE", f"MIOPEN_REDUCE_TENSOR_{op}"),
                            ("REDUCTION_COMP_TYPE", "DATA_TYPE", computes)])
    p = "OPERATION_REDUCTION"
    return make(p, [(f"{p}_DESC", "BACKEND_DESCRIPTOR", of), (f"{p}_XDESC", "BACKEND_DESCRIPTOR", x),
                    (f"{p}_YDESC", "BACKEND_DESCRIPTOR", y)])


def matmul(a, b, c, computes="float32"):
    of = make("MATMUL", [("MATMUL_COMP_TYPE", "DATA_TYPE", computes)])
    p = "OPERATION_MATMUL"
    return make(p, [(f"{p}_DESC", "BACKEND_DESCRIPTOR", of), *((f"{p}_{name}", "BACKEND_DESCRIPTOR", t) for name, t in (
        ("ADESC", a), ("BDESC", b), ("CDESC", c)))])


def reshape(x, y):
    return make("OPERATION_RESHAPE", [("OPERATION_RESHAPE_XDESC", "BACKEND_DESCRIPTOR", x),
                                      ("OPERATION_RESHAPE_YDESC", "BACKEND_DESCRIPTOR", y)])


def rng_of(seed, offset, y, settings=()):
    of = make("RNG", [("RNG_BERNOULLI_DIST_PROBABILITY", "DOUBLE", 0.5), *settings])
    p = "OPERATION_RNG"
    return make(p, [(f"{p}_DESC", "BACKEND_DESCRIPTOR", of), (f"{p}_SEED", "BACKEND_DESCRIPTOR", seed),
                    (f"{p}_OFFSET_DESC", "BACKEND_DESCRIPTOR", offset), (f"{p}_YDESC", "BACKEND_DESCRIPTOR", y)])


def graph_of(handle, *ops):
    return make("OPERATIONGRAPH", [("OPERATIONGRAPH_HANDLE", "HANDLE", handle),
                                   ("OPERATIONGRAPH_OPS", "BACKEND_DESCRIPTOR", list(ops))])


def get(descriptor, name, of, count=1):
    return miopyx.miopenBackendGetAttribute(descriptor, f"MIOPEN_ATTR_{name}", f"MIOPEN_TYPE_{of}", count)


def plans(handle, graph, most=2):
    """Execution plans of a graph's engines, by heuristics."""
    heur = make("ENGINEHEUR", [("ENGINEHEUR_OPERATION_GRAPH", "BACKEND_DESCRIPTOR", graph),
                               ("ENGINEHEUR_MODE", "HEUR_MODE", "MIOPEN_HEUR_MODE_INSTANT")])
    count, configs = get(heur, "ENGINEHEUR_RESULTS", "BACKEND_DESCRIPTOR", most)
    assert count == get(graph, "OPERATIONGRAPH_ENGINE_GLOBAL_COUNT", "INT64")[1][0] >= 1
    assert len(configs) == min(count, most)
    return [make("EXECUTION_PLAN", [("EXECUTION_PLAN_HANDLE", "HANDLE", handle),
                                    ("EXECUTION_PLAN_ENGINE_CONFIG", "BACKEND_DESCRIPTOR", config)])
            for config in configs]


def pack(memory):
    return make("VARIANT_PACK", [("VARIANT_PACK_UNIQUE_IDS", "INT64", list(memory)),
                                 ("VARIANT_PACK_DATA_POINTERS", "VOID_PTR", list(memory.values())),
                                 ("VARIANT_PACK_WORKSPACE", "VOID_PTR", [None])])


def results(handle, graph, inputs, outputs, most=2):
    """What each of a graph's first engines makes of its inputs, in float64."""
    for plan in plans(handle, graph, most):
        assert get(plan, "EXECUTION_PLAN_WORKSPACE_SIZE", "INT64")[1][0] >= 0
        poisoned = [Tensor(handle, t.desc, None) for t in outputs]
        memory = {t.uid: handle.upload(values) for t, values in inputs}
        memory |= {t.uid: one.argument() for t, one in zip(outputs, poisoned, strict=True)}
        miopyx.miopenBackendExecute(handle, plan, pack(memory))
        handle.finish()
        yield [one.values() for one in poisoned]


def convolve(x, w):
    padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwrs,kcrs->nkhw", windows, w.astype("f8"))


def near(got, want, terms):
    """Within 2e-4 of the largest sum of magnitudes: Winograd's tiles are the worst of the solvers."""
    assert np.isfinite(got).all()
    assert np.abs(got - want).max() <= 2e-4 * terms.max()


def test_convolutions(handle, rng):
    """Three directions, with alpha."""
    n, c, k, h, v = (int(i) for i in rng.integers(2, 8, 5))
    x, w = rng.standard_normal((n, c, h, v), np.float32), rng.standard_normal((k, c, 3, 3), np.float32)
    dy = rng.standard_normal((n, k, h, v), np.float32)
    tx, tw, ty = tensor(x.shape), tensor(w.shape), tensor(dy.shape)
    magnitudes = convolve(np.abs(x), np.abs(w))
    for got, in results(handle, graph_of(handle, forward(tx, tw, ty, alpha=0.5)), [(tx, x), (tw, w)], [ty]):
        near(got, 0.5 * convolve(x, w), magnitudes)
    p = "OPERATION_CONVOLUTION_BWD_DATA"
    op = make("OPERATION_CONVOLUTION_BACKWARD_DATA", [
        (f"{p}_DX", "BACKEND_DESCRIPTOR", tx), (f"{p}_W", "BACKEND_DESCRIPTOR", tw), (f"{p}_DY", "BACKEND_DESCRIPTOR",
                                                                                      ty),
        (f"{p}_CONV_DESC", "BACKEND_DESCRIPTOR", convolution())])
    flipped = w[:, :, ::-1, ::-1].swapaxes(0, 1)
    for got, in results(handle, graph_of(handle, op), [(ty, dy), (tw, w)], [tx]):
        near(got, convolve(dy, flipped), convolve(np.abs(dy), np.abs(flipped)))
    p = "OPERATION_CONVOLUTION_BWD_FILTER"
    op = make("OPERATION_CONVOLUTION_BACKWARD_FILTER", [
        (f"{p}_X", "BACKEND_DESCRIPTOR", tx), (f"{p}_DW", "BACKEND_DESCRIPTOR", tw), (f"{p}_DY", "BACKEND_DESCRIPTOR",
                                                                                      ty),
        (f"{p}_CONV_DESC", "BACKEND_DESCRIPTOR", convolution())])

    def weights(x, dy):
        padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (h, v), (2, 3))
        return np.einsum("ncrshw,nkhw->kcrs", windows, dy.astype("f8"))

    for got, in results(handle, graph_of(handle, op), [(ty, dy), (tx, x)], [tw]):
        near(got, weights(x, dy), weights(np.abs(x), np.abs(dy)))


@pytest.mark.parametrize("parts", ["z bias relu", "bias z relu", "bias relu", "z", "relu", "bias clip"])
def test_convolutions_with_what_follows(handle, rng, parts):
    """MIOpen's pattern, add + add + relu, in any order, and parts of it."""
    x, w = rng.standard_normal((2, 3, 6, 5), np.float32), rng.standard_normal((4, 3, 3, 3), np.float32)
    z, bias = rng.standard_normal((2, 4, 6, 5), np.float32), rng.standard_normal((1, 4, 1, 1), np.float32)
    tx, tw = tensor(x.shape), tensor(w.shape)
    names = parts.split()
    here, inputs = tensor(z.shape, virtual=True), [(tx, x), (tw, w)]
    want, terms, ops = convolve(x, w), convolve(np.abs(x), np.abs(w)) + 5, [forward(tx, tw, here)]
    for i, name in enumerate(names):
        after = tensor(z.shape, virtual=i + 1 < len(names))
        if name in ("z", "bias"):
            values, scale = (z, 0.5) if name == "z" else (bias, 1.0)
            other = tensor(values.shape)
            inputs.append((other, values))
            want = want + scale * values
            operands = [(here, 1.0), (other, scale)]
            if rng.integers(2):
                operands.reverse()
            (first, alpha1), (second, alpha2) = operands
            ops.append(pointwise("ADD", first, second, after, alpha1=alpha1, alpha2=alpha2))
        elif name == "relu":
            want = np.maximum(want, 0)
            ops.append(pointwise("RELU_FWD", here, after))
        else:
            want = np.clip(want, 0, 1.5)
            ops.append(pointwise("RELU_FWD", here, after, RELU_UPPER_CLIP=1.5))
        here = after
    rng.shuffle(ops)
    for got, in results(handle, graph_of(handle, *ops), inputs, [here]):
        near(got, want, terms)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("order", ["z bias", "bias z"])
def test_one_pixel(handle, rng, dtype, order):
    """An addend has the lengths of y and of a bias: the order, factors, types and strides say what it is."""
    x, w = rng.standard_normal((1, 3, 3, 3)), rng.standard_normal((4, 3, 3, 3))
    z, bias = rng.standard_normal((1, 4, 1, 1)), rng.standard_normal((1, 4, 1, 1))
    x, w, z, bias = (a.astype(DTYPE[dtype]) for a in (x, w, z, bias))
    tx, tw = tensor(x.shape, dtype=dtype), tensor(w.shape, dtype=dtype)
    for kind, strides in ((dtype, None), ("float32", (8, 2, 2, 2)), (dtype, (8, 2, 2, 2))):
        tz, ty = (tensor(z.shape, dtype=dtype, strides=strides) for _ in range(2))
        tb = tensor(bias.shape, dtype=kind)
        here, ops = tensor(z.shape, True, dtype), []
        ops.append(forward(tx, tw, here, convolution((0, 0))))
        for i, name in enumerate(order.split()):
            after = tensor(z.shape, True, dtype) if i == 0 else ty
            ops.append(pointwise("ADD", here, tz if name == "z" else tb, after, alpha2=0.5 if name == "z" else 1.0))
            here = after
        memory = [(tx, Tensor(handle, tx.desc, x)), (tw, Tensor(handle, tw.desc, w)), (tz, Tensor(handle, tz.desc, z)),
                  (tb, Tensor(handle, tb.desc, bias)), (ty, Tensor(handle, ty.desc, None))]
        plan = plans(handle, graph_of(handle, *ops))[0]
        miopyx.miopenBackendExecute(handle, plan, pack({t.uid: one.argument() for t, one in memory}))
        handle.finish()
        want = np.einsum("kcrs,ncrs->nk", w.astype("f8"), x.astype("f8"))[..., None, None] + 0.5 * z + bias
        np.testing.assert_allclose(memory[-1][1].values(), want, rtol=5e-3, atol=5e-2 if dtype == "float16" else 1e-4)


UNARY = {"TANH_FWD": np.tanh, "SIGMOID_FWD": lambda v: 1 / (1 + np.exp(-v)), "ABS": np.abs, "IDENTITY": lambda v: v,
         "RELU_FWD": lambda v: np.maximum(v, 0), "ELU_FWD": lambda v: np.where(v > 0, v, np.expm1(v)),
         "SOFTPLUS_FWD": lambda v: np.log1p(np.exp(v))}
BINARY = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "MIN": np.minimum, "MAX": np.maximum}


def test_pointwise(handle, rng):
    lens = tuple(int(v) for v in rng.integers(1, 7, 4))
    x, b = rng.standard_normal(lens, np.float32), rng.standard_normal((1, lens[1], 1, 1), np.float32)
    for mode, function in UNARY.items():
        tx, ty = tensor(lens), tensor(lens)
        for got, in results(handle, graph_of(handle, pointwise(mode, tx, ty)), [(tx, x)], [ty]):
            np.testing.assert_allclose(got, function(x.astype("f8")), rtol=1e-6, atol=1e-6)
    for mode, function in BINARY.items():
        for swapped in (False, True):
            tx, tb, ty = tensor(lens), tensor(b.shape), tensor(lens)
            operands = [(tx, x), (tb, b)]
            if swapped:
                operands.reverse()
            op = pointwise(mode, operands[0][0], operands[1][0], ty, alpha1=0.5, alpha2=3.0)
            want = function(0.5 * operands[0][1].astype("f8"), 3.0 * operands[1][1].astype("f8"))
            for got, in results(handle, graph_of(handle, op), operands, [ty]):
                np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("number", [(1,), (1, 1, 1, 1)])
@pytest.mark.parametrize("first", [False, True])
def test_numbers_of_any_rank(handle, rng, number, first):
    """The operation takes them, so the graph does."""
    x, b, y = tensor((4, 5)), tensor(number), tensor((4, 5))
    a, c = rng.standard_normal((4, 5)).astype("f4"), rng.standard_normal(number).astype("f4")
    graph = graph_of(handle, pointwise("MUL", *((b, x) if first else (x, b)), y))
    for (got,) in results(handle, graph, [(x, a), (b, c)], [y]):
        np.testing.assert_allclose(got, a * c.item(), rtol=1e-6)


def test_products_and_reductions(handle, rng):
    b, h, m, k, n = (int(v) for v in rng.integers(1, 9, 5))
    left, right = rng.standard_normal((b, h, m, k), np.float32), rng.standard_normal((b, h, k, n), np.float32)
    ta, tb, tc = tensor(left.shape), tensor(right.shape), tensor((b, h, m, n))
    for got, in results(handle, graph_of(handle, matmul(ta, tb, tc)), [(ta, left), (tb, right)], [tc]):
        np.testing.assert_allclose(got, left.astype("f8") @ right.astype("f8"), rtol=1e-5, atol=1e-5)
    for op, function in (("ADD", np.sum), ("MAX", np.max), ("MIN", np.min), ("AVG", np.mean)):
        ty = tensor((b, h, m, 1))
        for got, in results(handle, graph_of(handle, reduction(op, ta, ty)), [(ta, left)], [ty]):
            np.testing.assert_allclose(got, function(left.astype("f8"), 3, keepdims=True), rtol=1e-5, atol=1e-5)


def test_products_of_arrays_of_another_layout(host, rng):
    """A copy would take the result: arrays that cannot be reshaped in place are refused."""
    x, y = rng.standard_normal((4, 6, 5), np.float32), rng.standard_normal((4, 5, 3), np.float32)
    ta, tb, tc = tensor(x.shape), tensor(y.shape), tensor((4, 6, 3))
    plan, = plans(host, graph_of(host, matmul(ta, tb, tc)))

    def run(a, b, c):
        miopyx.miopenBackendExecute(host, plan, pack({ta.uid: a, tb.uid: b, tc.uid: c}))

    def empty():
        return np.zeros((4, 6, 3), np.float32)

    for wrong in (np.asfortranarray(empty()), np.zeros((4, 7, 3), np.float32)[:, :6],
                  np.zeros((4, 6, 6), np.float32)[..., ::2], np.zeros((4, 3, 6), np.float32).swapaxes(1, 2)):
        assert "another layout" in str(refused(BadParmError, "C", run, x, y, wrong))
    refused(BadParmError, "C", run, x, y, np.zeros((4, 3, 6), np.float32))
    refused(BadParmError, "C", run, x, y, np.zeros((6, 4, 6), np.float32)[..., ::2])
    refused(BadParmError, "C", run, x, y, empty().astype("f8"))
    refused(BadParmError, "B", run, x, None, empty())
    refused(BadParmError, "A", run, np.asfortranarray(x), y, empty())
    refused(BadParmError, "B", run, x, np.repeat(y, 2, 2)[..., ::2], empty())
    # Another shape of the same memory is fine, and so are raw bytes, and any stride of one element.
    for c in (empty(), np.zeros(72, np.float32), np.zeros(72 * 4, np.uint8), np.zeros((24, 3), np.float32)):
        run(x, y, c)
        near(c.view("f4").reshape(4, 6, 3).astype("f8"), x.astype("f8") @ y, np.abs(x).astype("f8") @ np.abs(y))


def test_products_of_torch_arrays_of_another_layout(host):
    torch = pytest.importorskip("torch")
    ta, tb, tc = tensor((2, 3, 4)), tensor((2, 4, 5)), tensor((2, 3, 5))
    plan, = plans(host, graph_of(host, matmul(ta, tb, tc)))
    x, y, c = torch.ones(2, 3, 4), torch.ones(2, 4, 5), torch.zeros(2, 3, 5)
    for wrong in ({tc.uid: torch.zeros(2, 5, 3).mT}, {ta.uid: torch.ones(2, 4, 3).mT}):
        memory = {ta.uid: x, tb.uid: y, tc.uid: c, **wrong}
        refused(BadParmError, "C" if tc.uid in wrong else "A", miopyx.miopenBackendExecute, host, plan, pack(memory))
    miopyx.miopenBackendExecute(host, plan, pack({ta.uid: x, tb.uid: y, tc.uid: c}))
    assert bool((c == 4).all())


class Parts:
    """The graphs of MIOpen's tests of attention; tensors are real where a name is in `lens`."""

    def __init__(self, lens, scale, rng_settings=(), **alphas):
        self.lens, self.scale, self.rng_settings, self.alphas = lens, scale, rng_settings, alphas
        self.t, self.ops = {}, []
        (n, h, s, d), (*_, t, w) = lens["Q"], lens["V"]
        self.square, self.rows = (n, h, s, t), (n, h, s, 1)
        self.turned = {"K": (n, h, d, t), "V": (n, h, w, t), "p": (n, h, t, s)}

    def __getitem__(self, name):
        if name not in self.t:
            whole = name in ("DropoutSeed", "DropoutOffset")
            self.t[name] = tensor(self.lens[name], dtype="int64" if whole else "float32")
        return self.t[name]

    def pw(self, mode, x, b=None, to=None, alpha1=None):
        """A pointwise operation, whose result is like x and virtual where no name is given."""
        x, b = (self[one] if isinstance(one, str) else one for one in (x, b))
        y = self[to] if to else tensor(x.desc.lens, virtual=True)
        alpha1 = self.alphas.get(mode, 1.0) if alpha1 is None else alpha1
        self.ops.append(pointwise(mode, x, *([] if b is None else [b]), y, alpha1=alpha1,
                                  alpha2=self.alphas.get(f"{mode}2", 1.0)))
        return y

    def muls(self, x, *names):
        for name in names:
            x = self.pw("MUL", x, name)
        return x

    def product(self, a, b, lens):
        y = tensor(lens, virtual=True)
        self.ops.append(matmul(*(self[one] if isinstance(one, str) else one for one in (a, b)), y))
        return y

    def turn(self, x, lens):
        y = tensor(lens, virtual=True)
        self.ops.append(reshape(self[x] if isinstance(x, str) else x, y))
        return y

    def reduce(self, op, x, to=None):
        y = self[to] if to else tensor(self.rows, virtual=True)
        self.ops.append(reduction(op, x, y))
        return y

    def drawn(self):
        y = tensor(self.square, virtual=True)
        self.ops.append(rng_of(self["DropoutSeed"], self["DropoutOffset"], y, self.rng_settings))
        return y

    def forward(self):
        s = self.pw("IDENTITY", self.product("Q", "K", self.square), alpha1=self.scale)
        s = self.muls(s, "DescaleQ", "DescaleK")
        self.reduce("MAX", s, "M")
        e = self.pw("EXP", self.pw("SUB", s, "M"))
        self.pw("RECIPROCAL", self.reduce("ADD", e), to="ZInv")
        p = self.muls(e, "ZInv")
        self.reduce("MAX", p, "AmaxS")
        p = self.muls(p, self.drawn(), "DropoutProbability", "ScaleS")
        o = self.muls(self.product(p, "V", self.lens["O"]), "DescaleS", "DescaleV")
        self.reduce("MAX", o, "AmaxO")
        self.pw("MUL", o, "ScaleO", "O")
        return self

    def backward(self, inverse="DropoutProbability"):
        s = self.pw("IDENTITY", self.product("Q", self.turn("K", self.turned["K"]), self.square), alpha1=self.scale)
        s = self.muls(s, "DescaleQ", "DescaleK")
        p, rnd = self.muls(self.pw("EXP", self.pw("SUB", s, "M")), "ZInv"), self.drawn()
        p = self.muls(p, rnd, inverse)
        v = self.product(self.turn(self.muls(p, "ScaleS"), self.turned["p"]), "DO", self.lens["V"])
        v = self.muls(v, "DescaleS", "DescaleDO")
        self.reduce("MAX", v, "AmaxDV")
        self.pw("MUL", v, "ScaleDV", "DV")
        d = self.product("DO", self.turn("V", self.turned["V"]), self.square)
        d = self.muls(d, "DescaleDO", "DescaleV", rnd, "DropoutProbability")
        r = self.muls(self.muls("DO", "DescaleDO"), self.muls("O", "DescaleO"), "DropoutProbability")
        b = self.pw("IDENTITY", self.pw("SUB", d, self.reduce("ADD", r)), alpha1=self.scale)
        b = self.muls(b, p)
        self.reduce("MAX", b, "AmaxDS")
        b = self.muls(b, "ScaleDS")
        q = self.muls(self.product(b, "K", self.lens["Q"]), "DescaleDS", "DescaleK")
        self.reduce("MAX", q, "AmaxDQ")
        self.pw("MUL", q, "ScaleDQ", "DQ")
        k = self.muls(self.product(self.turn(b, self.turned["p"]), "Q", self.lens["K"]), "DescaleDS", "DescaleQ")
        self.reduce("MAX", k, "AmaxDK")
        self.pw("MUL", k, "ScaleDK", "DK")
        return self

    def graph(self, handle):
        return graph_of(handle, *self.ops)


def small_attention():
    lens, rows, one = (1, 2, 5, 3), (1, 2, 5, 1), (1, 1, 1, 1)
    return {**dict.fromkeys(("Q", "K", "V", "O"), lens), "M": rows, "ZInv": rows, **dict.fromkeys(
        ("DescaleQ", "DescaleK", "DescaleV", "DescaleS", "ScaleS", "ScaleO", "AmaxS", "AmaxO", "DropoutProbability",
         "DropoutSeed", "DropoutOffset"), one)}


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_attention_of_one_element(host, rank):
    """O and its factor have one element each: O is the one of rank 4."""
    one, number = (1, 1, 1, 1), (1,) * rank
    lens = {**dict.fromkeys(("Q", "K", "V", "O", "DO", "M", "ZInv", "DQ", "DK", "DV"), one), **dict.fromkeys((
        "DescaleQ", "DescaleK", "DescaleV", "DescaleS", "ScaleS", "DescaleO", "DescaleDO", "DescaleDS", "ScaleDS",
        "ScaleDQ", "ScaleDK", "ScaleDV", "AmaxDQ", "AmaxDK", "AmaxDV", "AmaxDS", "DropoutProbability", "DropoutSeed",
        "DropoutOffset"), number)}
    for turn in (1, -1):
        parts = Parts(lens, 0.5)
        parts.t["r1"], muls = tensor(one, virtual=True), parts.muls
        parts.muls = lambda x, *names, muls=muls, parts=parts, turn=turn: (
            parts.pw("MUL", *("O", "DescaleO")[::turn], "r1") if x == "O" else muls(x, *names))
        for plan in plans(host, parts.backward().graph(host)):
            assert get(plan, "EXECUTION_PLAN_WORKSPACE_SIZE", "INT64") == (1, [0])


NORMAL = [("RNG_DISTRIBUTION", "RNG_DISTRIBUTION", "MIOPEN_RNG_DISTRIBUTION_NORMAL")]


@pytest.mark.parametrize("more", [
    {"MUL": 100.0}, {"SUB": 7.0}, {"MUL2": 2.0}, {"IDENTITY2": 2.0},
    {"rng_settings": NORMAL}], ids=lambda more: next(iter(more)))
def test_what_is_no_attention(host, more):
    assert Parts(small_attention(), 0.5).forward().graph(host).finalized
    parts = Parts(small_attention(), 0.5, **more).forward()
    refused(MIOpenNotImplementedError, "MIOPEN_ATTR_OPERATIONGRAPH_OPS", parts.graph, host)


@pytest.mark.parametrize(("name", "dtype", "attribute"), [
    ("K", "float16", "MATMUL_BDESC"), ("Q", "float16", "MATMUL_BDESC"), ("O", "float64", "POINTWISE_YDESC"),
    ("M", "float64", "REDUCTION_YDESC"), ("ScaleS", "float64", "POINTWISE_BDESC"),
    ("DropoutSeed", "int32", "RNG_SEED")])
def test_types_of_an_attention_are_checked_with_the_graph(host, name, dtype, attribute):
    """And said of the graph's own tensors."""
    parts = Parts(small_attention(), 0.5)
    parts.t[name] = tensor(parts.lens[name], dtype=dtype)
    parts.forward()
    named = parts["K"] if name == "Q" else parts[name]  # K is compared with Q
    refused(MIOpenNotImplementedError, f"MIOPEN_ATTR_OPERATION_{attribute} of tensor {named.uid}", parts.graph, host)


def test_scales_that_are_no_number(host):
    refused(BadParmError, "MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA1", Parts(small_attention(), math.nan).forward().graph,
            host)


@pytest.mark.parametrize("probability", [1.0, -0.1, 7.0, math.nan])
def test_probabilities(probability):
    refused(BadParmError, "MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY", make, "RNG", [
        ("RNG_BERNOULLI_DIST_PROBABILITY", "DOUBLE", probability)])


def test_plans_keep_what_they_were_made_of(host):
    a, b, c = tensor((2, 3, 4)), tensor((2, 4, 5)), tensor((2, 3, 5))
    ids, op = (a.uid, b.uid, c.uid), matmul(a, b, c)
    graph = graph_of(host, op)
    plan, = plans(host, graph)
    again = make("OPERATION_RESHAPE", [("OPERATION_RESHAPE_XDESC", "BACKEND_DESCRIPTOR", a)], finalize=False)
    for one in (a, op, graph):
        miopyx.miopenBackendInitialize(one, "MIOPEN_BACKEND_MATMUL_DESCRIPTOR", 0)
    miopyx.miopenSetTensorDescriptor(b.desc, "float32", 1, [9], [1])
    out = np.zeros((2, 3, 5), np.float32)
    memory = dict(zip(ids, (np.ones((2, 3, 4), "f4"), np.ones((2, 4, 5), "f4"), out), strict=True))
    miopyx.miopenBackendExecute(host, plan, pack(memory))
    assert (out == 4).all()
    for name in ("uid", "desc", "virtual"):
        refused(BadParmError, "descriptor", getattr, op, name)
        refused(NotInitializedError, "descriptor", getattr, make("TENSOR", finalize=False), name)
    miopyx.miopenBackendSetAttribute(again, "MIOPEN_ATTR_OPERATION_RESHAPE_YDESC", "MIOPEN_TYPE_BACKEND_DESCRIPTOR", 1,
                                     [c])
    refused(BadParmError, "MIOPEN_ATTR_OPERATION_RESHAPE_XDESC", miopyx.miopenBackendFinalize, again)


def test_attention(handle, rng):
    """MIOpen's forward and backward patterns, with dropout and scales, beside float64."""
    n, h, s, d, scale, probability, seed, offset = 2, 2, 20, 8, 0.3, 0.4, 77, 5
    one = (1, 1, 1, 1)
    tensors, rows = (n, h, s, d), (n, h, s, 1)
    q, k, v, dy = (rng.standard_normal(tensors, np.float32) for _ in range(4))
    numbers = {name: np.full(one, rng.uniform(0.5, 2), "f4") for name in (
        "DescaleQ", "DescaleK", "DescaleV", "DescaleS", "ScaleS", "ScaleO", "DescaleDO", "DescaleO", "DescaleDS",
        "ScaleDS",
        "ScaleDV", "ScaleDQ", "ScaleDK")}
    dropout = {"DropoutProbability": np.full(one, probability, "f4"), "DropoutSeed": np.full(one, seed, "i8"),
               "DropoutOffset": np.full(one, offset, "i8")}
    f = {name: float(value.item()) for name, value in numbers.items()}
    inputs = {"Q": q, "K": k, "V": v, **{name: numbers[name] for name in (
        "DescaleQ", "DescaleK", "DescaleV", "DescaleS", "ScaleS", "ScaleO")}, **dropout}
    lens = {**{name: a.shape for name, a in inputs.items()}, "O": tensors, "M": rows, "ZInv": rows, "AmaxS": one,
            "AmaxO": one}
    parts = Parts(lens, scale).forward()
    rng.shuffle(parts.ops)
    graph = parts.graph(handle)
    outputs = ("O", "M", "ZInv", "AmaxS", "AmaxO")
    got = next(results(handle, graph, [(parts[name], a) for name, a in inputs.items()], [parts[name]
                                                                                         for name in outputs]))
    scores = q.astype("f8") @ k.astype("f8").swapaxes(2, 3) * (scale * f["DescaleQ"] * f["DescaleK"])
    top = scores.max(3, keepdims=True)
    e = np.exp(scores - top)
    inverse = 1 / e.sum(3, keepdims=True)
    p, mask = e * inverse, mask_of(n, h, s, s, probability, seed, offset)
    o = (p * mask) @ v.astype("f8") * (f["ScaleS"] * f["DescaleS"] * f["DescaleV"])
    for value, want in zip(got, (o * f["ScaleO"], top, inverse, p.max(), np.abs(o).max()), strict=True):
        np.testing.assert_allclose(value.reshape(np.shape(want)), want, rtol=1e-4, atol=1e-4)

    given = {"Q": q, "K": k, "V": v, "O": o.astype("f4"), "DO": dy, "M": top.astype("f4"), "ZInv": inverse.astype("f4"),
             **dropout, **{name: value for name, value in numbers.items() if name != "ScaleO"}}
    lens = {**{name: a.shape for name, a in given.items()}, "DQ": tensors, "DK": tensors, "DV": tensors,
            **dict.fromkeys(("AmaxDQ", "AmaxDK", "AmaxDV", "AmaxDS", "inverse"), one)}
    outputs = ("DQ", "DK", "DV", "AmaxDS")
    runs = []
    for inverse in ("DropoutProbability", "inverse"):  # MIOpen's test has P there, too
        parts = Parts(lens, scale).backward(inverse)
        rng.shuffle(parts.ops)
        memory = {**given, "inverse": np.full(one, 1 / (1 - probability), "f4")} if inverse == "inverse" else given
        more = [parts[name] for name in (*outputs, "AmaxDQ", "AmaxDK", "AmaxDV")]
        runs.append(next(results(handle, parts.graph(handle), [(parts[name], a) for name, a in memory.items()], more)))
    dp = dy.astype("f8") @ v.astype("f8").swapaxes(2, 3) * (f["DescaleDO"] * f["DescaleV"]) * mask
    delta = (dy.astype("f8") * given["O"]).sum(3, keepdims=True) * (f["DescaleDO"] * f["DescaleO"])
    ds = p * (dp - delta) * scale
    to = f["ScaleDS"] * f["DescaleDS"]
    want = (ds @ k * (to * f["DescaleK"] * f["ScaleDQ"]), ds.swapaxes(2, 3) @ q * (to * f["DescaleQ"] * f["ScaleDK"]),
            (p * mask).swapaxes(2, 3) @ dy * (f["ScaleS"] * f["DescaleS"] * f["DescaleDO"] * f["ScaleDV"]),
            np.abs(ds).max())
    for value, wanted in [pair for got in runs for pair in zip(got, want, strict=False)]:
        np.testing.assert_allclose(value.reshape(np.shape(wanted)), wanted, rtol=1e-3, atol=1e-3)


# Attributes


def test_attributes_come_back(host):
    t = tensor((2, 3, 4, 5), uid=7)
    assert get(t, "TENSOR_UNIQUE_ID", "INT64") == (1, [7])
    assert get(t, "TENSOR_DIMENSIONS", "INT64", 9) == (4, [2, 3, 4, 5])
    assert get(t, "TENSOR_STRIDES", "INT64", 2) == (4, [60, 20])
    assert get(t, "TENSOR_DATA_TYPE", "DATA_TYPE") == (1, [miopyx.miopenFloat])
    assert get(t, "TENSOR_IS_VIRTUAL", "BOOLEAN") == (1, [False])
    assert get(t, "TENSOR_BYTE_ALIGNMENT", "INT64") == (0, [])
    y = tensor((2, 3, 4, 5))
    op = pointwise("RELU_FWD", t, y)
    assert get(op, "OPERATION_POINTWISE_ALPHA1", "DOUBLE") == (1, [1.0])
    assert get(op, "OPERATION_POINTWISE_XDESC", "BACKEND_DESCRIPTOR")[1][0] is t
    graph = graph_of(host, op)
    assert get(graph, "OPERATIONGRAPH_HANDLE", "HANDLE")[1][0] is host
    engine = make("ENGINE", [("ENGINE_OPERATION_GRAPH", "BACKEND_DESCRIPTOR", graph), ("ENGINE_GLOBAL_INDEX", "INT64",
                                                                                       0)])
    assert get(engine, "ENGINE_KNOB_INFO", "BACKEND_DESCRIPTOR", 5) == (0, [])
    config = make("ENGINECFG", [("ENGINECFG_ENGINE", "BACKEND_DESCRIPTOR", engine)])
    assert get(config, "ENGINECFG_INTERMEDIATE_INFO", "BACKEND_DESCRIPTOR", 1) == (0, [])
    plan = make("EXECUTION_PLAN", [("EXECUTION_PLAN_ENGINE_CONFIG", "BACKEND_DESCRIPTOR", config)])
    x, out = np.linspace(-1, 1, 120, dtype="f4").reshape(2, 3, 4, 5), np.full((2, 3, 4, 5), np.nan, "f4")
    miopyx.miopenBackendExecute(host, plan, pack({7: x, y.uid: out}))
    np.testing.assert_array_equal(out, np.maximum(x, 0))


def refused(error, parameter, call, *args):
    with pytest.raises(error) as raised:
        call(*args)
    assert raised.value.parameter == parameter
    assert raised.value.status == error.status
    assert raised.value.limit is not None
    return raised.value


def test_refused_attributes(host):
    setter, bad = miopyx.miopenBackendSetAttribute, BadParmError
    t = make("TENSOR", finalize=False)
    dims, ints = "MIOPEN_ATTR_TENSOR_DIMENSIONS", "MIOPEN_TYPE_INT64"
    refused(bad, "attributeName", setter, t, "MIOPEN_ATTR_MATMUL_COMP_TYPE", ints, 1, [1])
    refused(bad, "attributeName", setter, t, 12345, ints, 1, [1])
    refused(bad, "attributeType", setter, t, dims, "MIOPEN_TYPE_DOUBLE", 1, [1.0])
    refused(bad, "attributeType", setter, t, dims, 999, 1, [1])
    refused(bad, "elementCount", setter, t, dims, ints, 0, [])
    refused(bad, "elementCount", setter, t, dims, ints, 3, [1, 2])
    refused(bad, "elementCount", setter, t, "MIOPEN_ATTR_TENSOR_UNIQUE_ID", ints, 2, [1, 2])
    refused(bad, "arrayOfElements", setter, t, dims, ints, 1, ["x"])
    refused(bad, "descriptor", setter, None, dims, ints, 1, [1])
    refused(NotInitializedError, "descriptor", miopyx.miopenBackendGetAttribute, t, dims, ints, 1)
    refused(bad, "descriptor", miopyx.miopenBackendFinalize, t)
    done = tensor((1, 2))
    refused(NotInitializedError, "descriptor", setter, done, dims, ints, 1, [1])
    refused(NotInitializedError, "descriptor", miopyx.miopenBackendFinalize, done)
    refused(bad, "requestedElementCount", miopyx.miopenBackendGetAttribute, done, dims, ints, -1)
    conv = make("OPERATION_MATMUL", finalize=False)
    refused(bad, "arrayOfElements", setter, conv, "MIOPEN_ATTR_OPERATION_MATMUL_ADESC",
            "MIOPEN_TYPE_BACKEND_DESCRIPTOR", 1, [t])
    refused(bad, "arrayOfElements", setter, conv, "MIOPEN_ATTR_OPERATION_MATMUL_DESC",
            "MIOPEN_TYPE_BACKEND_DESCRIPTOR", 1,
            [done])
    graph = make("OPERATIONGRAPH", finalize=False)
    refused(bad, "attributeName", setter, graph, "MIOPEN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT", ints, 1, [1])
    refused(bad, "descriptorType", miopyx.miopenBackendCreateDescriptor, 999)
    refused(MIOpenNotImplementedError, "descriptorType", miopyx.miopenBackendCreateDescriptor,
            miopyx.MIOPEN_BACKEND_RESAMPLE_DESCRIPTOR)
    refused(bad, "sizeInBytes", miopyx.miopenBackendInitialize, done, "MIOPEN_BACKEND_RNG_DESCRIPTOR", -1)
    miopyx.miopenBackendInitialize(done, "MIOPEN_BACKEND_RNG_DESCRIPTOR", 64)
    assert (done.kind, done.finalized) == ("RNG", False)
    miopyx.miopenBackendDestroyDescriptor(done)
    refused(bad, "descriptor", miopyx.miopenBackendDestroyDescriptor, done)
    with pytest.raises(BadParmError, match=r"lens|stride|dims|length"):
        make("TENSOR", [("TENSOR_UNIQUE_ID", "INT64", 1), ("TENSOR_DATA_TYPE", "DATA_TYPE", 1),
                        ("TENSOR_DIMENSIONS", "INT64", [2, 3]), ("TENSOR_STRIDES", "INT64", [1])])
    with pytest.raises(BadParmError, match="one number a spatial axis"):
        convolution((1, 1), (1, 1), (1,))
    with pytest.raises(BadParmError, match="BDESC"):
        pointwise("ADD", tensor((1, 2)), tensor((1, 2)))


def test_refused_graphs(host):
    x, y, z, w = tensor((2, 3)), tensor((2, 3)), tensor((2, 3)), tensor((2, 3), virtual=True)
    for mode in ("ERF", "GELU_FWD", "SIN"):
        refused(MIOpenNotImplementedError, "MIOPEN_ATTR_OPERATIONGRAPH_OPS", graph_of, host, pointwise(mode, x, y))
    refused(MIOpenNotImplementedError, "MIOPEN_ATTR_OPERATIONGRAPH_OPS", graph_of, host, pointwise("ABS", x, w),
            pointwise("TANH_FWD", w, y))
    refused(BadParmError, "MIOPEN_ATTR_TENSOR_UNIQUE_ID", graph_of, host, pointwise("ABS", x, y), pointwise("ABS", z,
                                                                                                            y))
    refused(BadParmError, "MIOPEN_ATTR_TENSOR_IS_VIRTUAL", graph_of, host, pointwise("ABS", x, w))
    refused(BadParmError, "MIOPEN_ATTR_TENSOR_UNIQUE_ID", graph_of, host, pointwise(
        "ABS", tensor((2, 3), uid=5), tensor((2, 3), uid=5, dtype="float16")))
    refused(BadParmError, "MIOPEN_ATTR_TENSOR_UNIQUE_ID", graph_of, host, pointwise("ABS", x, tensor((2, 3), uid=6)),
            pointwise("ABS", tensor((2, 3), uid=6, virtual=True), y))
    op = pointwise("ABS", x, y)
    refused(BadParmError, "arrayOfElements", graph_of, host, op, op)
    # A value between that somebody else reads, or has memory, is not fused away.
    cx, cw, here, out = tensor((1, 2, 4, 4)), tensor((2, 2, 3, 3)), tensor((1, 2, 4, 4)), tensor((1, 2, 4, 4))
    why = refused(MIOpenNotImplementedError, "MIOPEN_ATTR_OPERATIONGRAPH_OPS", graph_of, host, forward(cx, cw, here),
                  pointwise("RELU_FWD", here, out))
    assert f"not virtual: {here.uid}" in str(why)


def backward_data(dy, w, dx):
    p = "OPERATION_CONVOLUTION_BWD_DATA"
    return make("OPERATION_CONVOLUTION_BACKWARD_DATA", [
        (f"{p}_DX", "BACKEND_DESCRIPTOR", dx), (f"{p}_W", "BACKEND_DESCRIPTOR", w),
        (f"{p}_DY", "BACKEND_DESCRIPTOR", dy), (f"{p}_CONV_DESC", "BACKEND_DESCRIPTOR", convolution())])


PW, CONV, DATA = "OPERATION_POINTWISE_", "OPERATION_CONVOLUTION_FORWARD_", "OPERATION_CONVOLUTION_BWD_DATA_"


@pytest.mark.parametrize(("make_it", "lens", "attribute", "value", "limit"), [
    # An operand may be repeated along an axis, of two operands one.
    (pointwise, ("ADD", (2, 3), (2, 4), (2, 3)), f"{PW}BDESC", (2, 4), "(2, 3), or 1"),
    (pointwise, ("ADD", (2, 3), (3,), (2, 3)), f"{PW}BDESC", (3,), "(2, 3), or 1"),
    (pointwise, ("MUL", (2, 1), (2, 1), (2, 3)), f"{PW}YDESC", (2, 3), (2, 1)),
    (pointwise, ("RELU_FWD", (2, 1), (2, 3)), f"{PW}XDESC", (2, 1), "(2, 3)"),
    (pointwise, ("IDENTITY", (3, 2), (2, 3)), f"{PW}XDESC", (3, 2), "(2, 3)"),
    (matmul, ((2, 3), (4, 5), (2, 5)), "OPERATION_MATMUL_BDESC", (4, 5), "3 rows, or as many columns"),
    (matmul, ((2, 3), (2, 3), (2, 3)), "OPERATION_MATMUL_CDESC", (2, 3), (2, 2)),
    (matmul, ((2, 3), (3,), (2, 3)), "OPERATION_MATMUL_BDESC", (3,), ">= 2"),
    (matmul, ((4, 2, 3), (5, 3, 4), (4, 2, 4)), "OPERATION_MATMUL_BDESC", (5, 3, 4), "(4,), or 1"),
    (matmul, ((4, 2, 3), (3, 4), (2, 4)), "OPERATION_MATMUL_CDESC", (2, 4), (4, 2, 4)),
    (reduction, ("ADD", (2, 3), (2, 2)), "OPERATION_REDUCTION_YDESC", (2, 2), (2, 3)),
    (reshape, ((2, 3), (2, 4)), "OPERATION_RESHAPE_YDESC", (2, 4), (2, 3)),
    (forward, ((2, 3, 6, 5), (4, 3, 3, 3), (2, 4, 5, 5)), f"{CONV}Y", (2, 4, 5, 5), (2, 4, 6, 5)),
    (forward, ((2,), (4, 3, 3, 3), (2, 4, 5, 5)), f"{CONV}X", (2,), 4),
    (forward, ((2, 5, 6, 5), (4, 3, 3, 3), (2, 4, 6, 5)), f"{CONV}X", (2, 5, 6, 5), (4, 3, 3, 3)),
    (backward_data, ((2, 5, 6, 5), (4, 3, 3, 3), (2, 3, 6, 5)), f"{DATA}DY", (2, 5, 6, 5), (2, 4, 6, 5)),
])
def test_lengths_are_checked_with_the_operation(make_it, lens, attribute, value, limit):
    mode, lens = [one for one in lens if isinstance(one, str)], [one for one in lens if not isinstance(one, str)]
    error = refused(BadParmError, f"MIOPEN_ATTR_{attribute}", make_it, *mode, *map(tensor, lens))
    assert (error.value, error.limit) == (value, limit)


def test_lengths_that_fit():
    """What MIOpen has: repeated operands, b^T, repeated batches."""
    for lens in (((2, 1), (2, 3), (2, 3)), ((1, 3), (2, 1), (2, 3)), ((0, 3), (1, 3), (0, 3))):
        assert pointwise("ADD", *map(tensor, lens)).finalized
    for lens in (((2, 3), (4, 3), (2, 4)), ((5, 2, 3), (3, 4), (5, 2, 4)), ((1, 2, 3), (5, 3, 4), (5, 2, 4))):
        assert matmul(*map(tensor, lens)).finalized
    assert reshape(tensor((2, 3, 4)), tensor((6, 4))).finalized


def test_what_is_not_computed_is_said_with_the_graph(host):
    """Types between operations are free; a graph of such that no function has is refused, not its plan."""
    x, half = tensor((2, 3)), tensor((2, 3), dtype="float16")
    for op, attribute in (
            (pointwise("RELU_FWD", x, half), f"{PW}XDESC"), (pointwise("ADD", x, tensor((2, 3)), half), f"{PW}BDESC"),
            (pointwise("ADD", tensor((2, 1)), tensor((1, 3)), x), f"{PW}XDESC"),
            (matmul(x, tensor((3, 4)), tensor((2, 4), dtype="float16")), "OPERATION_MATMUL_CDESC")):
        refused(MIOpenNotImplementedError, f"MIOPEN_ATTR_{attribute}", graph_of, host, op)
    refused(MIOpenNotImplementedError, "MIOPEN_ATTR_OPERATION_MATMUL_ADESC", graph_of, host,
            matmul(tensor((2, 0)), tensor((0, 4)), tensor((2, 4))))
    for lens in (((2, 3), (4, 3), (2, 4)), ((5, 2, 3), (3, 4), (5, 2, 4))):  # b^T alone, and a repeated batch
        refused(MIOpenNotImplementedError, "MIOPEN_ATTR_OPERATIONGRAPH_OPS", graph_of, host, matmul(*map(tensor, lens)))


@pytest.mark.parametrize(("lens", "dtype"), [((1, 4, 6, 5), "float32"), ((2, 4, 6, 1), "float32"),
                                             ((2, 4, 6, 5), "float16")])
def test_a_z_that_is_not_computed(host, lens, dtype):
    here, y = tensor((2, 4, 6, 5), virtual=True), tensor((2, 4, 6, 5))
    conv, add = forward(tensor((2, 3, 6, 5)), tensor((4, 3, 3, 3)), here), pointwise(
        "ADD", here, tensor(lens, dtype=dtype), y)
    refused(MIOpenNotImplementedError, f"MIOPEN_ATTR_{PW}BDESC", graph_of, host, conv, add)


def test_compute_types(host):
    """float32, of float64 and of integers their own; one that has less of it is what they get at least."""
    of = {dtype: tensor((2, 2), dtype=dtype) for dtype in ("float32", "float64", "float16", "bfloat16", "int32")}
    fine = {("float32", "float32"), ("float64", "float64"), ("float64", "float32"), ("float16", "float32"),
            ("float16", "float16"), ("bfloat16", "float32"), ("bfloat16", "bfloat16"), ("int32", "int32")}
    for dtype, t in of.items():
        for computes in of:
            for attribute, make_it in (
                    ("POINTWISE_MATH_PREC", partial(pointwise, "ADD", t, t, t, computes=computes)),
                    ("MATMUL_COMP_TYPE", partial(matmul, t, t, t, computes)),
                    ("REDUCTION_COMP_TYPE", partial(reduction, "ADD", t, t, computes))):
                if (dtype, computes) in fine:
                    assert make_it().finalized
                else:
                    refused(MIOpenNotImplementedError, f"MIOPEN_ATTR_{attribute}", make_it)
    image, w = (tensor(lens) for lens in ((1, 2, 3, 3), (2, 2, 3, 3)))
    refused(MIOpenNotImplementedError, "MIOPEN_ATTR_CONVOLUTION_COMP_TYPE", forward, image, w, image,
            convolution(computes="float64"))


def test_nan_propagation(host):
    """What was asked for is what is computed."""
    x, given = tensor((1, 4)), np.array([[np.nan, -1, 2, 9]], "f4")
    asked = {("RELU_FWD", 1): {}, ("RELU_FWD", 0): {"RELU_UPPER_CLIP": 5.0}, ("TANH_FWD", 0): {}, ("TANH_FWD", 1): {}}
    for (mode, nan), settings in asked.items():
        y = tensor((1, 4))
        for got, in results(host, graph_of(host, pointwise(mode, x, y, nan=nan, **settings)), [(x, given)], [y]):
            assert np.isnan(got[0, 0]) == (mode == "TANH_FWD" or nan)
    for mode, nan, settings in (("RELU_FWD", 0, {}), ("RELU_FWD", 1, {"RELU_UPPER_CLIP": 5.0}),
                                ("RELU_FWD", 0, {"RELU_LOWER_CLIP_SLOPE": 0.5})):
        refused(MIOpenNotImplementedError, "MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION", partial(
            pointwise, mode, x, tensor((1, 4)), nan=nan, **settings))
    for nan in (0, 1):
        refused(MIOpenNotImplementedError, "MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION", partial(
            pointwise, "MAX", x, x, tensor((1, 4)), nan=nan))


def test_elements_as_an_array():
    made = make("TENSOR", [("TENSOR_UNIQUE_ID", "INT64", 1), ("TENSOR_DATA_TYPE", "DATA_TYPE", "float32")],
                finalize=False)
    for name, values in (("DIMENSIONS", (2, 3)), ("STRIDES", (3, 1))):
        miopyx.miopenBackendSetAttribute(made, f"MIOPEN_ATTR_TENSOR_{name}", "MIOPEN_TYPE_INT64", 2, np.array(values))
    miopyx.miopenBackendFinalize(made)
    assert get(made, "TENSOR_STRIDES", "INT64", 2) == (2, [3, 1])


def test_refused_runs(handle):
    x, y = tensor((2, 3)), tensor((2, 3))
    graph = graph_of(handle, pointwise("ABS", x, y))
    refused(BadParmError, "MIOPEN_ATTR_ENGINE_GLOBAL_INDEX", make, "ENGINE", [
        ("ENGINE_OPERATION_GRAPH", "BACKEND_DESCRIPTOR", graph), ("ENGINE_GLOBAL_INDEX", "INT64", 1)])
    plan, = plans(handle, graph)
    a, out = np.ones((2, 3), "f4"), np.full((2, 3), 7, "f4")
    memory, result = handle.upload(a), handle.upload(out)
    execute = miopyx.miopenBackendExecute
    refused(BadParmError, "variantPack", execute, handle, plan, pack({x.uid: memory}))
    refused(BadParmError, "variantPack", execute, handle, plan, pack({x.uid: memory, y.uid: result, 99999: memory}))
    refused(BadParmError, "executionPlan", execute, handle, graph, pack({x.uid: memory, y.uid: result}))
    unfinished = make("VARIANT_PACK", finalize=False)
    refused(BadParmError, "variantPack", execute, handle, plan, unfinished)
    with miopyx.Handle("host") as other:
        refused(BadParmError, "handle", execute, other, plan, pack({x.uid: memory, y.uid: result}))
    with pytest.raises(BadParmError):
        execute(handle, plan, pack({x.uid: memory, y.uid: None}))
    with pytest.raises(BadParmError, match="each id"):
        make("VARIANT_PACK", [("VARIANT_PACK_UNIQUE_IDS", "INT64", [1, 2]), ("VARIANT_PACK_DATA_POINTERS", "VOID_PTR",
                                                                             [a])])
    with pytest.raises((BadParmError, UnsupportedOpError)):
        make("ENGINECFG", [("ENGINECFG_KNOB_CHOICES", "BACKEND_DESCRIPTOR", [x])])
    assert (handle.download(result, out) == 7).all()
    assert math.isfinite(get(plan, "EXECUTION_PLAN_WORKSPACE_SIZE", "INT64")[1][0])
