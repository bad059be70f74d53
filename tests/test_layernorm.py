"""Layer norm, RMS norm and group norm, and their gradients: values, types, memory, special numbers, and refusals.

Each element is compared with the formula in float64.  Kernels compute in float32 (float64 for float64 tensors), with
roundoff v, and round once more, by u, to store.  x - mean is right to some v of itself and of the standard deviation,
however large the mean is, so y is right to some v of (|xhat| + 1) |weight| + |bias|.  A sum of n terms is cut in parts
and makes at most depth = min(n, 1024) / 16 + 32 roundings, of which none is larger than v of the sum of |terms|.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from guarded import ROUNDOFF, Guarded, Tensor

import miopyx
from miopyx import TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError
from miopyx.problem._layernorm import LayerNormProblem
from miopyx.solvers.layers._layernorm import OpenCLLayerNorm

TYPES = ("float32", "float16", "bfloat16", "float64")
LAYER, ADD, T5, GROUP = KINDS = ("layer", "add", "t5", "group")
PLAIN = {LAYER: 0, ADD: 2, T5: 4, GROUP: 0}
EPSILON = 1e-5


def depth_of(n):
    """Roundings of a sum of n terms."""
    return min(n, 1024) / 16 + 32


class Norm:
    """A problem with its memory; `number` is normalized_dim or num_groups.

    Attributes
    ----------
    shape : tuple
        x as (rows, channels of a row, elements of a channel) and weights as (rows or 1, channels, 1).
    """

    def __init__(self, handle, kind, dtype, lens, number, rng, affine=True, statistics=True, parameters=None,
                 shift=0, spread=1.0, centre=0.0):
        self.handle, self.kind, self.dtype, self.lens, self.number = handle, kind, dtype, lens, number
        self.affine, self.statistics, self.shift = affine, statistics, shift
        self.parameters = parameters or dtype
        if kind == GROUP:
            self.weight_lens, self.outer = (lens[1],), (lens[0], number)
            self.rows, channels = lens[0] * number, lens[1] // number
            self.shape = (self.rows, channels, int(np.prod(lens[2:])))
        else:
            if kind == T5:
                self.number = number = len(lens) - 1
            self.weight_lens, self.outer = lens[number:] or (1,), lens[:number] or (1,)
            self.rows = int(np.prod(lens[:number]))
            self.shape = (self.rows, int(np.prod(lens[number:])), 1)
        self.mode = PLAIN[kind] + affine
        self.x = self.tensor(lens, dtype, centre + spread * rng.standard_normal(lens))
        self.x2 = self.tensor(lens, dtype, rng.standard_normal(lens))
        self.weight, self.bias = (self.tensor(self.weight_lens, self.parameters, rng.standard_normal(self.weight_lens))
                                  for _ in range(2))
        self.dy = self.tensor(lens, dtype, rng.standard_normal(lens))

    def tensor(self, lens, dtype, values=None):
        return Tensor(self.handle, TensorDescriptor(dtype, lens), values, self.shift * np.dtype("u1").itemsize)

    def wide(self, tensor):
        return tensor.view().astype(np.float64).reshape(self.shape)

    def by_channel(self, tensor):
        """Weights or the like as (rows of a sample, channels of a row, 1), repeated for all samples."""
        values = tensor.view().astype(np.float64)
        rows = self.number if self.kind == GROUP else 1
        values = values.reshape(rows, self.shape[1], 1)
        return np.tile(values, (self.rows // rows, 1, 1))

    @property
    def input(self):
        return self.wide(self.x) + (self.wide(self.x2) if self.kind == ADD else 0)

    def roundoffs(self, dtype=None):
        return ROUNDOFF[dtype or self.dtype], ROUNDOFF["float64" if self.dtype == "float64" else "float32"]

    def moments(self):
        x = self.input
        mean = np.zeros((self.rows, 1, 1)) if self.kind == T5 else x.mean((1, 2), keepdims=True)
        variance = ((x - mean) ** 2).mean((1, 2), keepdims=True)
        return mean, variance

    def forward(self):
        """Run forward, check everything, keep mean and rstd."""
        out = self.tensor(self.lens, self.dtype)
        self.mean, self.rstd = (self.tensor(self.outer, self.parameters) for _ in range(2))
        self.call_forward(out, self.mean, self.rstd)
        mean, variance = self.moments()
        rstd = 1 / np.sqrt(variance + EPSILON)
        xhat = (self.input - mean) * rstd
        weight, bias = (self.by_channel(self.weight), self.by_channel(self.bias)) if self.affine else (1.0, 0.0)
        if self.kind == T5:
            bias = 0.0
        want = xhat * weight + bias
        u, v = self.roundoffs()
        n = self.shape[1] * self.shape[2]
        # x + x2 is rounded in the arithmetic's type, by v of itself.
        extra = v * np.abs(self.input) * rstd if self.kind == ADD else 0
        extra = extra + (extra.mean((1, 2), keepdims=True) if self.kind == ADD else 0)
        bound = u * np.abs(want) + (v * (depth_of(n) + 8) * (np.abs(xhat) + 1) + extra) * np.abs(weight)
        bound = bound + v * np.abs(bias) * 2 + 2.0**-24
        self.compare(out, want, bound, "y")
        if self.statistics:
            u, v = self.roundoffs(self.parameters)
            size = np.abs(self.input).mean((1, 2), keepdims=True)
            if self.kind != T5:
                self.compare(self.mean, mean, u * np.abs(mean) + v * depth_of(n) * size + 2.0**-24, "mean", (-1, 1, 1))
            self.compare(self.rstd, rstd, u * rstd + v * (depth_of(n) + 8 + size * rstd) * rstd, "rstd", (-1, 1, 1))

    def compare(self, tensor, want, bound, what, shape=None):
        got = tensor.values().reshape(shape or self.shape)
        wrong = ~(np.abs(got - want) <= bound)
        assert not wrong.any(), (f"{what} of {self.kind} {self.dtype} {self.lens} {self.number}: {wrong.sum()} of "
                                 f"{wrong.size} wrong, {got[wrong][:3]} for {want[wrong][:3]}")

    def call_forward(self, y, mean, rstd, x=None):
        x = x or self.x
        given = x.desc, x.argument() if x is not y else None
        output = y.argument()
        if x is y:
            given = x.desc, output
        weight, bias = self.weight, self.bias
        weights = (weight.desc, weight.argument(), bias.desc, bias.argument()) if self.affine else (None,) * 4
        kept = (mean.desc, mean.argument(), rstd.desc, rstd.argument()) if self.statistics else (None,) * 4
        h, m, n = self.handle, self.mode, self.number
        if self.kind == LAYER:
            miopyx.miopenLayerNormForward(h, m, *given, *weights, EPSILON, n, y.desc, output, *kept)
        elif self.kind == ADD:
            miopyx.miopenAddLayerNormForward(h, m, *given, self.x2.desc, self.x2.argument(), *weights, EPSILON, n,
                                             y.desc, output, *kept)
        elif self.kind == T5:
            miopyx.miopenT5LayerNormForward(h, m, *given, *weights[:2], EPSILON, y.desc, output, *kept[2:])
        else:
            miopyx.miopenGroupNormForward(h, m, *given, *weights, n, EPSILON, y.desc, output, *kept)

    def backward(self, sums=(True, True)):
        """Run backward from float64's statistics, rounded, and check everything."""
        mean, variance = self.moments()
        mean, rstd = (self.tensor(self.outer, self.parameters, v.reshape(self.outer))
                      for v in (mean, 1 / np.sqrt(variance + EPSILON)))
        dx = self.tensor(self.lens, self.dtype)
        dw, db = (self.tensor(self.weight_lens, self.parameters) if wanted else None for wanted in sums)
        self.call_backward(mean, rstd, dx, dw, db)
        self.check_backward(mean, rstd, dx, dw, db, self.input, self.wide(self.dy))

    def check_backward(self, mean, rstd, dx, dw, db, x, dy):
        m, s = (t.view().astype(np.float64).reshape(-1, 1, 1) for t in (mean, rstd))
        if self.kind == T5:
            m = np.zeros_like(s)
        n = self.shape[1] * self.shape[2]
        weight = self.by_channel(self.weight) if self.affine else 1.0
        xhat, g = (x - m) * s, dy * weight
        # As x - mean may be rounded, and x + x2.
        xhat_size = (np.abs(x - m) + (np.abs(x) if self.kind == ADD else 0)) * s
        first = 0 if self.kind == T5 else g.mean((1, 2), keepdims=True)
        second = (g * xhat).mean((1, 2), keepdims=True)
        want = s * (g - first - xhat * second)
        u, v = self.roundoffs()
        sizes = np.abs(g).mean((1, 2), keepdims=True), np.abs(g * xhat_size).mean((1, 2), keepdims=True)
        bound = u * np.abs(want) + 2.0**-24 + v * s * (
            8 * np.abs(g) + (depth_of(n) + 8) * (sizes[0] + xhat_size * sizes[1]))
        self.compare(dx, want, bound, "dx")
        u, v = self.roundoffs(self.parameters)
        per_weight = (-1, self.shape[1] * (self.number if self.kind == GROUP else 1))
        for tensor, terms, size, name in ((dw, dy * xhat, np.abs(dy) * xhat_size, "dw"), (db, dy, np.abs(dy), "db")):
            if tensor is None or (self.kind == T5 and name == "db"):
                continue
            want, size = (t.sum(2).reshape(per_weight).sum(0) for t in (terms, size))
            depth = depth_of(self.rows * self.shape[2] // (self.number if self.kind == GROUP else 1)) + 1024
            self.compare(tensor, want, u * np.abs(want) + v * depth * size / 16 + 2.0**-24, name, (-1,))

    def call_backward(self, mean, rstd, dx, dw, db, dy=None, x=None):
        given = {id(t): t.argument() for t in (dy or self.dy, x or self.x, self.x2, self.weight, mean, rstd, dx, dw, db)
                 if t is not None}

        def pair(tensor):
            return (tensor.desc, given[id(tensor)]) if tensor is not None else (None, None)
        dy, x = pair(dy or self.dy), pair(x or self.x)
        weight = pair(self.weight) if self.affine else (None, None)
        h, m, n = self.handle, self.mode, self.number
        mean, rstd, dx, dw, db = map(pair, (mean, rstd, dx, dw, db))
        sized, run, before, after = {
            LAYER: (miopyx.miopenGetLayerNormBackwardWorkspaceSize, miopyx.miopenLayerNormBackward,
                    (dy, x, weight, mean, rstd), (dx, dw, db)),
            ADD: (miopyx.miopenGetAddLayerNormBackwardWorkspaceSize, miopyx.miopenAddLayerNormBackward,
                  (dy, x, pair(self.x2), weight, mean, rstd), (dx, dw, db)),
            T5: (miopyx.miopenGetT5LayerNormBackwardWorkspaceSize, miopyx.miopenT5LayerNormBackward,
                 (dy, x, weight, rstd), (dx, dw)),
            GROUP: (miopyx.miopenGetGroupNormBackwardWorkspaceSize, miopyx.miopenGroupNormBackward,
                    (dy, x, weight, mean, rstd), (dx, dw, db)),
        }[self.kind]
        middle = () if self.kind == T5 else (n,)
        size = sized(h, m, *(d for d, _ in before), *middle, *(d for d, _ in after))
        workspace = Guarded(h, size, 0xFF)
        run(h, m, workspace.argument() if size else None, size, *sum(before, ()), *middle, *sum(after, ()))
        h.finish()
        workspace.fetch()


def lens_of(kind, rng):
    """Lengths and a number for a kind."""
    if kind == GROUP:
        groups = int(rng.integers(1, 5))
        rank = int(rng.integers(0, 4))
        return (int(rng.integers(1, 4)), groups * int(rng.integers(1, 6)),
                *map(int, rng.integers(1, (1, 40, 9, 5)[rank] + 1, rank))), groups
    rank = int(rng.integers(1, 6))
    lens = tuple(map(int, rng.integers(1, (300, 40, 14, 8, 6)[rank - 1], rank)))
    return lens, int(rng.integers(0, rank + 1))


def usable(handle, dtype):
    if dtype == "float64" and not handle.device.fp64:
        pytest.skip("no double precision")


def check_problem(handle, kind, dtype, lens, number, rng, **how):
    chosen = {"affine": bool(rng.integers(4)), "statistics": bool(rng.integers(4)),
              "parameters": ("float32", dtype)[rng.integers(2)], **how}
    norm = Norm(handle, kind, dtype, lens, number, rng, **chosen)
    norm.forward()
    norm.backward(((True, True), (True, True), (True, False), (False, True), (False, False))[rng.integers(5)])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_values(handle, kind, dtype, rng, amount):
    usable(handle, dtype)
    for _ in range(amount(2, 8)):
        check_problem(handle, kind, dtype, *lens_of(kind, rng), rng)


LENGTHS = (1, 2, 3, 31, 1023, 4097, 70001)


@pytest.mark.parametrize("length", LENGTHS)
def test_row_lengths(handle, length, rng):
    for kind, lens, number in ((LAYER, (5, length), 1), (ADD, (2, length), 1), (T5, (3, length), 0),
                               (LAYER, (length,), 0), (GROUP, (2, 6, length), 2)):
        check_problem(handle, kind, TYPES[rng.integers(3)], lens, number, rng)


@pytest.mark.parametrize("kind", KINDS)
def test_gpu_kernels(gpu, kind, rng, amount):
    for _ in range(amount(2, 6)):
        check_problem(gpu, kind, TYPES[rng.integers(4)], *lens_of(kind, rng), rng)


# Rows in registers, of one and of several work-items, and rows in parts; channels of whole vectors and of others.
GPU_SIZES = (
    (LAYER, (7, 8), 1), (LAYER, (37, 64), 1), (LAYER, (9, 1000), 1), (ADD, (3, 4096), 1), (T5, (6, 768), 0),
    (LAYER, (2, 16384), 1), (LAYER, (1, 40000), 1), (ADD, (2, 50001), 1), (GROUP, (2, 8, 6, 10), 2),
    (GROUP, (2, 6, 7, 5), 3), (GROUP, (3, 32), 8), (GROUP, (1, 4, 200, 100), 2), (T5, (300, 24), 0),
)


@pytest.mark.some(6)
@pytest.mark.parametrize(("kind", "lens", "number"), GPU_SIZES, ids=str)
def test_gpu_sizes(gpu, kind, lens, number, rng):
    check_problem(gpu, kind, TYPES[rng.integers(3)], lens, number, rng, affine=True)


CPU_SIZES = ((LAYER, (1, 70000), 1), (GROUP, (1, 6, 120, 61), 1), (GROUP, (1, 40000), 1), (T5, (1, 65536), 0),
             (LAYER, (3000, 20), 1), (GROUP, (4, 64, 7, 7), 32), (ADD, (40, 777), 1))


@pytest.mark.parametrize(("kind", "lens", "number"), CPU_SIZES, ids=str)
def test_few_and_many_rows(handle, kind, lens, number, rng):
    check_problem(handle, kind, TYPES[rng.integers(3)], lens, number, rng, affine=True)


@pytest.mark.parametrize("kind", KINDS)
def test_large_mean_and_small_variance(handle, gpu, kind, rng):
    """The square of the mean would leave nothing of the variance."""
    for where in (handle, gpu):
        for lens in ((4, 640, 1), (2, 20000, 1), (1, 40000, 3)):
            norm = Norm(where, kind, "float32", lens, 2 if kind == GROUP else 1, rng, centre=1e4, spread=0.01)
            norm.forward()
            norm.backward()


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("kind", [LAYER, GROUP])
def test_equal_numbers(handle, gpu, kind, on_gpu, rng):
    """The variance is 0, never below."""
    handle = gpu if on_gpu else handle
    norm = Norm(handle, kind, "float32", (3, 1000), 1, rng, spread=0.0, centre=1234.567)
    norm.forward()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_special_numbers_stay_in_their_row(handle, gpu, kind, bad, rng):
    for where in (handle, gpu):
        norm = Norm(where, kind, "float32", (6, 100), 1, rng)
        norm.x.view()[2, 41] = bad
        y = norm.tensor(norm.lens, "float32")
        mean, rstd = norm.tensor(norm.outer, "float32"), norm.tensor(norm.outer, "float32")
        norm.call_forward(y, mean, rstd)
        finite = np.isfinite(y.values().reshape(6, 100))
        assert finite[[0, 1, 3, 4, 5]].all()
        assert not finite[2, 41]
        mean.fetch()
        rstd.fetch()
        dx = norm.tensor(norm.lens, "float32")
        norm.call_backward(mean, rstd, dx, None, None)
        assert np.isfinite(dx.values().reshape(6, 100)[[0, 1, 3, 4, 5]]).all()


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_misaligned(handle, gpu, kind, on_gpu, rng):
    """Buffers that begin an element behind a boundary."""
    for dtype in ("float32", "float16"):
        shift = 4 if dtype == "float32" else 2
        lens = (3, 16, 8, 2) if kind == GROUP else (5, 256)
        norm = Norm(gpu if on_gpu else handle, kind, dtype, lens, 4 if kind == GROUP else 1, rng, shift=shift)
        norm.forward()
        norm.backward()


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lens", [(4, 37), (2, 40002), (3, 12, 5, 5)])
def test_in_place(handle, gpu, kind, lens, on_gpu, rng):
    handle = gpu if on_gpu else handle
    for where in ("x", "dy"):
        norm = Norm(handle, kind, "float32", lens, 1, rng)
        want, there = norm.tensor(lens, "float32"), norm.tensor(lens, "float32", norm.x.view())
        mean, rstd = norm.tensor(norm.outer, "float32"), norm.tensor(norm.outer, "float32")
        norm.call_forward(want, mean, rstd)
        norm.call_forward(there, mean, rstd, x=there)
        np.testing.assert_array_equal(there.values(), want.values())
        mean.fetch()
        rstd.fetch()
        x, dy = norm.input, norm.wide(norm.dy)
        dx = norm.x if where == "x" else norm.dy
        dw, db = norm.tensor(norm.weight_lens, "float32"), norm.tensor(norm.weight_lens, "float32")
        norm.call_backward(mean, rstd, dx, dw, db)
        norm.check_backward(mean, rstd, dx, dw, db, x, dy)


def test_torch(handle, rng):
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    for kind, lens, number in ((LAYER, (3, 5, 7), 1), (T5, (4, 9), 0), (GROUP, (2, 6, 3, 5), 3)):
        norm = Norm(handle, kind, "float32", lens, number, rng)
        leaf = torch.tensor(norm.x.view().copy(), requires_grad=True)
        weight, bias = (torch.tensor(t.view().copy(), requires_grad=True) for t in (norm.weight, norm.bias))
        if kind == LAYER:
            out = f.layer_norm(leaf, lens[number:], weight, bias, EPSILON)
        elif kind == T5:
            out = f.rms_norm(leaf, lens[-1:], weight, EPSILON)
        else:
            out = f.group_norm(leaf, number, weight, bias, EPSILON)
        out.backward(torch.tensor(norm.dy.view().copy()))
        y, mean, rstd = norm.tensor(lens, "float32"), norm.tensor(norm.outer, "float32"), norm.tensor(norm.outer,
                                                                                                       "float32")
        norm.call_forward(y, mean, rstd)
        np.testing.assert_allclose(y.values(), out.detach().numpy(), rtol=1e-5, atol=1e-5)
        mean.fetch()
        rstd.fetch()
        dx, dw, db = norm.tensor(lens, "float32"), *(norm.tensor(norm.weight_lens, "float32") for _ in range(2))
        norm.call_backward(mean, rstd, dx, dw, db if kind != T5 else None)
        np.testing.assert_allclose(dx.values(), leaf.grad.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(dw.values(), weight.grad.numpy(), rtol=1e-4, atol=1e-5)
        if kind != T5:
            np.testing.assert_allclose(db.values(), bias.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_results_do_not_depend_on_threads(setting, rng):
    values = rng.standard_normal((70, 300))
    results = []
    for threads in (1, 2, 5):
        setting(MIOPYX_NUM_THREADS=threads)
        with miopyx.Handle("host") as handle:
            norm = Norm(handle, LAYER, "float32", (70, 300), 1, np.random.default_rng(1))
            norm.x.view()[...] = values
            y, dx, mean, rstd = (norm.tensor(lens, "float32") for lens in ((70, 300), (70, 300), (70,), (70,)))
            dw, db = norm.tensor((300,), "float32"), norm.tensor((300,), "float32")
            norm.call_forward(y, mean, rstd)
            norm.call_backward(mean, rstd, dx, dw, db)
            results.append([t.values() for t in (y, dx, dw, db)])
    for result in results[1:]:
        for one, first in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(one, first)


def test_runs_are_alike(handle, gpu, rng):
    """Sums over rows have a fixed order."""
    for where in (handle, gpu):
        for kind in KINDS:
            norm = Norm(where, kind, "float32", (130, 96), 2 if kind == GROUP else 1, rng)
            mean, rstd, dx = (norm.tensor(lens, "float32") for lens in (norm.outer, norm.outer, norm.lens))
            norm.call_forward(dx, mean, rstd)
            mean.fetch()
            rstd.fetch()
            results = []
            for _ in range(3):
                dw, db = norm.tensor(norm.weight_lens, "float32"), norm.tensor(norm.weight_lens, "float32")
                norm.call_backward(mean, rstd, dx, dw, db if kind != T5 else None)
                results.append(dw.values())
            np.testing.assert_array_equal(results[0], results[1])
            np.testing.assert_array_equal(results[0], results[2])


# Plans and refusals

X = TensorDescriptor("float32", (4, 6, 5))
INNER, OUTER, ONE = (TensorDescriptor("float32", lens) for lens in ((6, 5), (4,), (6,)))
GROUPS = TensorDescriptor("float32", (4, 2))


def test_plans(handle, rng):
    norm = Norm(handle, LAYER, "float32", (4, 6, 5), 1, rng)
    plan = handle.layer_norm_forward(X, X, 1, INNER, INNER, OUTER, OUTER)
    assert plan.buffers == ("x", "weight", "bias", "y", "mean", "rstd")
    assert plan.numbers == {"epsilon": 1e-5}
    y, mean, rstd = norm.tensor((4, 6, 5), "float32"), norm.tensor((4,), "float32"), norm.tensor((4,), "float32")
    plan(*(t.argument() for t in (norm.x, norm.weight, norm.bias, y, mean, rstd)), 0.5)
    x = norm.input
    m, v = norm.moments()
    want = ((x - m) / np.sqrt(v + 0.5)).reshape(4, 6, 5) * norm.weight.view() + norm.bias.view()
    np.testing.assert_allclose(y.values(), want, rtol=1e-5, atol=1e-5)
    assert plan.solver.name in ("OpenCLLayerNorm", "HostLayerNorm")
    assert plan.solver.name in plan.explain()
    assert handle.layer_norm_forward(X, X, 1).buffers == ("x", "y")
    assert handle.add_layer_norm_forward(X, X, X, 1, INNER, None, None, OUTER).buffers == (
        "x", "x2", "weight", "y", "rstd")
    assert handle.layer_norm_backward(X, X, X, OUTER, OUTER, 1, INNER, INNER, INNER).buffers == (
        "dy", "x", "weight", "mean", "rstd", "dx", "dw", "db")
    assert handle.add_layer_norm_backward(X, X, X, X, OUTER, OUTER, 1, db_desc=INNER).buffers == (
        "dy", "x", "x2", "mean", "rstd", "dx", "db")
    rows = TensorDescriptor("float32", (4, 6))
    last = TensorDescriptor("float32", (5,))
    assert handle.t5_layer_norm_forward(X, X, last, rows).buffers == ("x", "weight", "y", "rstd")
    assert handle.t5_layer_norm_backward(X, X, X, rows, None, last).buffers == ("dy", "x", "rstd", "dx", "dw")
    assert handle.group_norm_forward(X, X, 2, ONE, ONE).buffers == ("x", "weight", "bias", "y")
    back = handle.group_norm_backward(X, X, X, GROUPS, GROUPS, 2, ONE, ONE, ONE)
    assert back.buffers == ("dy", "x", "weight", "mean", "rstd", "dx", "dw", "db")
    for epsilon in (-0.5, float("nan"), np.float32(-1)):
        with pytest.raises(BadParmError, match="epsilon"):
            plan(*(t.argument() for t in (norm.x, norm.weight, norm.bias, y, mean, rstd)), epsilon=epsilon)
    for wrong in (lambda: handle.layer_norm_forward(X, X, 4), lambda: handle.layer_norm_forward(X, None, 1),
                  lambda: handle.layer_norm_forward(X, X, 1, OUTER), lambda: handle.group_norm_forward(X, X, 4),
                  lambda: handle.layer_norm_backward(X, X, X, None, OUTER, 1),
                  lambda: handle.t5_layer_norm_forward(X, X, INNER), lambda: handle.layer_norm_forward(X, X, -1)):
        with pytest.raises(BadParmError):
            wrong()


def arguments(handle, **changed):
    """Return the arguments of LayerNormForward on good memory, with some changed."""
    data = [handle.upload(np.zeros(480, np.uint8)) for _ in range(6)]
    given = {"mode": 1, "xDesc": X, "x": data[0], "weightDesc": INNER, "weight": data[1], "biasDesc": INNER,
             "bias": data[2], "epsilon": 1e-5, "normalized_dim": 1, "yDesc": X, "y": data[3], "meanDesc": OUTER,
             "mean": data[4], "rstdDesc": OUTER, "rstd": data[5]}
    return {**given, **changed}


GONE = TensorDescriptor("float32", (4, 6, 5))
miopyx.miopenDestroyTensorDescriptor(GONE)


@pytest.mark.parametrize(("changed", "names"), [
    ({"mode": 2}, "mode"), ({"mode": 5}, "mode"), ({"mode": 6}, "mode"), ({"mode": -1}, "mode"),
    ({"mode": None}, "mode"), ({"mode": "nonsense"}, "mode"),
    ({"xDesc": None}, "xDesc"), ({"xDesc": GONE}, "xDesc"), ({"yDesc": TensorDescriptor()}, "yDesc"),
    ({"yDesc": TensorDescriptor("float16", (4, 6, 5))}, "yDesc"), ({"yDesc": INNER}, "yDesc"),
    ({"weightDesc": OUTER}, "weightDesc"), ({"biasDesc": X}, "biasDesc"), ({"weightDesc": None}, "weightDesc"),
    ({"weightDesc": TensorDescriptor("float16", (6, 5))}, "weightDesc"),
    ({"meanDesc": INNER}, "meanDesc"), ({"rstdDesc": TensorDescriptor("float64", (4,))}, "rstdDesc"),
    ({"rstdDesc": None}, "rstdDesc"), ({"epsilon": None}, "epsilon"), ({"epsilon": "1"}, "epsilon"),
    ({"epsilon": float("nan")}, "epsilon"), ({"epsilon": -1e-5}, "epsilon"),
    ({"normalized_dim": 4}, "normalized_dim"), ({"normalized_dim": -1}, "normalized_dim"),
    ({"normalized_dim": 10**6}, "normalized_dim"), ({"normalized_dim": None}, "normalized_dim"),
    ({"normalized_dim": 2}, "weightDesc"), ({"x": None}, "x"), ({"y": None}, "y"), ({"weight": None}, "weight"),
    ({"bias": None}, "bias"), ({"mean": "memory"}, "mean"), ({"x": np.zeros(119, "f4")}, "x"),
], ids=str)
def test_bad_arguments(handle, changed, names):
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenLayerNormForward(handle, **arguments(handle, **changed))
    assert raised.value.parameter == names


@pytest.mark.parametrize("epsilon", [-1e-30, float("nan"), -float("inf")])
def test_epsilons_of_every_norm(handle, epsilon):
    data = [handle.upload(np.zeros(480, np.uint8)) for _ in range(7)]
    last, rows = TensorDescriptor("float32", (5,)), TensorDescriptor("float32", (4, 6))
    for call in (
        lambda: miopyx.miopenAddLayerNormForward(
            handle, 3, X, data[0], X, data[1], INNER, data[2], INNER, data[3], epsilon, 1, X, data[4], OUTER, data[5],
            OUTER, data[6]),
        lambda: miopyx.miopenT5LayerNormForward(
            handle, 5, X, data[0], last, data[1], epsilon, X, data[2], rows, data[3]),
        lambda: miopyx.miopenGroupNormForward(
            handle, 1, X, data[0], ONE, data[1], ONE, data[2], 2, epsilon, X, data[3], GROUPS, data[4], GROUPS,
            data[5]),
    ):
        with pytest.raises(BadParmError) as raised:
            call()
        assert (raised.value.parameter, raised.value.limit) == ("epsilon", ">= 0")


def test_epsilon_may_be_0(handle):
    miopyx.miopenLayerNormForward(handle, **arguments(handle, epsilon=0))


def test_one_type_of_parameters(handle):
    x, half, single = TensorDescriptor("float16", (4, 6, 5)), TensorDescriptor("float16", (6, 5)), INNER
    with pytest.raises(BadParmError, match="type differs"):
        miopyx.miopenLayerNormForward(handle, **arguments(handle, xDesc=x, yDesc=x, weightDesc=half, biasDesc=single))


def test_what_is_not_implemented(handle):
    last = TensorDescriptor("float32", (4, 6, 5), (30, 1, 6))
    with pytest.raises(MIOpenNotImplementedError, match="packed"):
        miopyx.miopenLayerNormForward(handle, **arguments(handle, xDesc=last, yDesc=last))
    for dtype in ("int8", "int32", "float8_e4m3fnuz"):
        desc = TensorDescriptor(dtype, (4, 6, 5))
        with pytest.raises(MIOpenNotImplementedError):
            miopyx.miopenLayerNormForward(handle, **arguments(handle, mode=0, xDesc=desc, yDesc=desc))
    six = TensorDescriptor("float32", (1, 1, 1, 1, 1, 2))
    with pytest.raises(BadParmError, match="rank"):
        miopyx.miopenLayerNormForward(handle, **arguments(handle, mode=0, xDesc=six, yDesc=six))
    with pytest.raises(MIOpenNotImplementedError):
        handle.group_norm_forward(X, X, 1 << 20)


@pytest.mark.parametrize("groups", [0, 4, 7, -1, None, 1.5])
def test_groups_divide_the_channels(handle, groups):
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenGroupNormForward(handle, 0, X, None, None, None, None, None, groups, 1e-5, X, None, None, None,
                                      None, None)
    assert raised.value.parameter == "num_groups"
    row = TensorDescriptor("float32", (6,))
    with pytest.raises(BadParmError, match="rank"):
        handle.group_norm_forward(row, row, 1)


def test_workspace_and_shared_memory(handle):
    rows = TensorDescriptor("float32", (64, 50))
    weights, outer = TensorDescriptor("float32", (50,)), TensorDescriptor("float32", (64,))
    data = [handle.upload(np.zeros(12800, np.uint8)) for _ in range(8)]
    size = miopyx.miopenGetLayerNormBackwardWorkspaceSize(handle, 1, rows, rows, weights, outer, outer, 1, rows,
                                                          weights, weights)
    assert (size == 0) == handle.device.is_host

    def call(workspace, size, dx=data[5], dw=data[6]):
        miopyx.miopenLayerNormBackward(handle, 1, workspace, size, rows, data[0], rows, data[1], weights, data[2],
                                       outer, data[3], outer, data[4], 1, rows, dx, weights, dw, weights, data[7])
    workspace = handle.upload(np.zeros(max(size, 1), np.uint8))
    call(workspace, size)
    with pytest.raises(BadParmError, match="shares"):
        call(workspace, size, dw=data[1])
    with pytest.raises(BadParmError, match="shares"):
        call(workspace, size, dx=data[3])
    with pytest.raises(BadParmError):
        call(workspace, -1)
    if size:
        with pytest.raises(UnknownError, match="workspace"):
            call(workspace, size - 1)
        with pytest.raises(BadParmError):
            call(None, size)


@pytest.mark.parametrize("dtype", TYPES)
def test_tensors_without_elements(handle, dtype):
    """Gradients and statistics of nothing are 0."""
    usable(handle, dtype)
    for lens, number, inner, outer in (((0, 5), 1, (5,), (0,)), ((3, 0), 1, (0,), (3,))):
        x, weights, rows = (TensorDescriptor(dtype, one) for one in (lens, inner, outer))
        tensors = [Tensor(handle, desc, None) for desc in (weights, weights, rows, rows)]
        dw, db, mean, rstd = (t.argument() if t.desc.nbytes else None for t in tensors)
        miopyx.miopenLayerNormForward(handle, 0, x, None, None, None, None, None, 1e-5, number, x, None, rows, mean,
                                      rows, rstd)
        miopyx.miopenLayerNormBackward(handle, 0, None, 0, x, None, x, None, None, None, rows, mean, rows, rstd, number,
                                       x, None, weights, dw, weights, db)
        handle.finish()
        for tensor in tensors:
            if tensor.desc.nbytes:
                assert (tensor.values() == 0).all()


FORWARD, BACKWARD = 17, 18  # MX_NORM_FORWARD, MX_NORM_BACKWARD
# Bytes of local memory that a group may have, by compute capability (CUDA C++ Programming Guide, technical
# specifications).
GROUP_MEMORY = {"sm80": 163 << 10, "sm86": 99 << 10, "sm89": 99 << 10, "sm90": 227 << 10, "sm120": 99 << 10}


@pytest.mark.parametrize("isa", GROUP_MEMORY)
@pytest.mark.parametrize(("dtype", "length"), [
    ("float32", 4096), ("float32", 16384), ("float32", 40960), ("float32", 53248), ("float16", 4096),
    ("float16", 16384), ("bfloat16", 50000), ("bfloat16", 106496)])
def test_local_memory_of_nvidias(cpu, pretend, isa, dtype, length):
    """Rows on their way to local memory, and what else a group has there, fit each generation."""
    device = pretend(cpu.device.name, name=f"nv-{isa}_80", kind="gpu", runtime="nvidia", isa=isa, compute_units=80,
                     local_mem=49152, max_work_group_size=1024,
                     extensions=cpu.device.info.extensions | {"cl_nv_device_attribute_query"}).device
    x, w, rows = (TensorDescriptor(t, n) for t, n in ((dtype, (64, length)), (dtype, (length,)), ("float32", (64,))))
    for what, tensors in ((FORWARD, {"y": x, "bias": w}), (BACKWARD, {"dy": x, "dx": x, "dw": w, "db": w})):
        problem = LayerNormProblem(what, 0, 1, {"x": x, "weight": w, "mean": rows, "rstd": rows, **tensors})
        for step in OpenCLLayerNorm().solution(device, problem).steps:
            given = {name: int(n) for name, n in re.findall(r"-D (\w+)=(\d+)(?= |$)", step.spec.options)}
            deep, side, vec = given.get("DEEP", 1), given.get("SIDE", 1), given["VEC"]
            ring = given.get("STAGES", 0) * (2 if what == BACKWARD else 1) * given.get("HOLD", 0) * deep * side * 16
            sums = deep * side * (8 + 4 * vec * (side > 1 and what == BACKWARD)) + side * 16 * 8
            assert ring + sums <= GROUP_MEMORY[isa], (step.spec.entry, given)
