"""Reductions: values, indices, types, memory, special numbers, and refusals.

Each element is compared with the formula in float64.  Kernels compute in float32 (float64 where a tensor or the
descriptor is), with roundoff v, and round once more, by u, to store.  A sum of n terms makes at most min(n, 1024) + 64
roundings, of which none is larger than v of the sum of |terms|; a product of n factors n + 4, each v of itself.
Extremes and indices are exact.
"""

from __future__ import annotations

import numpy as np
import pytest
from guarded import LAYOUTS, ROUNDOFF, Guarded, Tensor, strides_of

import miopyx
from miopyx import ReduceTensorDescriptor, TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError

TYPES = ("float32", "float16", "bfloat16", "float64")
ADD, MUL, MIN, MAX, AMAX, AVG, NORM1, NORM2, MUL_NO_ZEROS = OPS = range(9)
EXTREMES = (MIN, MAX, AMAX)
IGNORED, WINS = 0, 1


def terms_of(op, a):
    if op in (AMAX, NORM1):
        return np.abs(a)
    if op == NORM2:
        return a * a
    return np.where(a == 0, 1.0, a) if op == MUL_NO_ZEROS else a


def reduced(op, a, nan=WINS):
    """Results and indices over the last axis, in float64."""
    terms = terms_of(op, a)
    n = a.shape[-1]
    index = np.zeros(a.shape[:-1], np.int64)
    if op in EXTREMES:
        none = np.inf if op == MIN else -np.inf
        known = np.where(np.isnan(terms), none, terms)
        best = (known.min if op == MIN else known.max)(-1)
        match = (known == best[..., None]) & ~np.isnan(terms)
        index = np.where(match.any(-1), match.argmax(-1), 0)
        if nan == WINS:
            bad = np.isnan(terms)
            best = np.where(bad.any(-1), np.nan, best)
            index = np.where(bad.any(-1), bad.argmax(-1), index)
        return best, index
    if op in (MUL, MUL_NO_ZEROS):
        return terms.prod(-1), index
    total = terms.sum(-1)
    return total / n if op == AVG else np.sqrt(total) if op == NORM2 else total, index


def bound_of(op, a, want, u, v):
    n = a.shape[-1]
    if op in EXTREMES:
        return u * np.abs(want)
    if op in (MUL, MUL_NO_ZEROS):
        return (u + v * (n + 4)) * np.abs(want)
    size = np.abs(terms_of(op, a)).sum(-1)
    depth = min(n, 1024) + 64
    if op == NORM2:
        return (u + v * (depth / 2 + 2)) * np.abs(want)
    return u * np.abs(want) + v * (depth + 2) * size / (n if op == AVG else 1)


class Reduction:
    """A problem of miopenReduceTensor with its memory."""

    def __init__(self, handle, op, lens, axes, dtypes, rng, nan=WINS, indices=False, comp="float32", layout="packed",
                 c_layout="packed", shift=0, values=None, pattern=None):
        self.handle, self.op, self.lens, self.axes, self.nan = handle, op, lens, axes, nan
        self.desc = ReduceTensorDescriptor(op, comp, nan, int(indices), 0)
        self.wide = "float64" in (*dtypes, comp)
        self.dtypes = dtypes
        c_lens = tuple(1 if i in axes else n for i, n in enumerate(lens))
        if values is None:
            values = rng.standard_normal(lens)
            if op in (MUL, MUL_NO_ZEROS):
                values = 1 + values / 64
            if pattern is not None:
                values = pattern(values)
        self.a = Tensor(handle, TensorDescriptor(dtypes[0], lens, strides_of(lens, layout)), values, shift)
        self.c_desc = TensorDescriptor(dtypes[1], c_lens, strides_of(c_lens, c_layout))
        self.old = rng.standard_normal(c_lens)
        self.size = miopyx.miopenGetReductionIndicesSize(handle, self.desc, self.a.desc, self.c_desc)
        self.wanted = bool(indices and op in EXTREMES)
        assert self.size == (4 * int(np.prod(c_lens)) if self.wanted else 0)

    def rows(self, values):
        """Elements of a in the rows that become one, in the order of their axes."""
        kept = [i for i in range(len(self.lens)) if i not in self.axes]
        order = np.transpose(values, (*kept, *self.axes))
        return order.reshape(*(self.lens[i] for i in kept), -1)

    def run(self, alpha=1.0, beta=0.0):
        c = Tensor(self.handle, self.c_desc, self.old if beta else None)
        old = c.view().astype(np.float64) if beta else 0.0
        places = Guarded(self.handle, self.size, 0xFF) if self.wanted else None
        space = miopyx.miopenGetReductionWorkspaceSize(self.handle, self.desc, self.a.desc, self.c_desc)
        workspace = Guarded(self.handle, space, 0xFF)
        miopyx.miopenReduceTensor(self.handle, self.desc, places.argument() if places else None, self.size,
                                  workspace.argument() if space else None, space, alpha, self.a.desc, self.a.argument(),
                                  beta, c.desc, c.argument())
        self.handle.finish()
        workspace.fetch()
        return c, places, old

    def index_of(self, places):
        desc = self.c_desc
        given = places.fetch().view(np.int32)
        if desc.packed or not all(desc.lens):
            return np.lib.stride_tricks.as_strided(given, desc.lens, tuple(4 * s for s in desc.strides))
        return given.reshape(desc.lens)

    def check(self, alpha=1.0, beta=0.0):
        c, places, old = self.run(alpha, beta)
        a = self.rows(self.a.view().astype(np.float64))
        want, index = (v.reshape(self.c_desc.lens) for v in reduced(self.op, a, self.nan))
        u, v = ROUNDOFF[self.dtypes[1]], ROUNDOFF["float64" if self.wide else "float32"]
        got = c.values()
        with np.errstate(invalid="ignore"):  # infinities
            result = alpha * want + (beta * old if beta else 0)
            bound = bound_of(self.op, a, want.reshape(a.shape[:-1]), 0, v).reshape(self.c_desc.lens) * abs(alpha)
            bound = bound + u * np.abs(result) + 4 * v * (np.abs(alpha * want) + np.abs(beta * old)) + 2.0**-25
            if self.op in EXTREMES and (alpha, beta) == (1, 0):
                bound = u * np.abs(result)
            same = (got == result) | (np.isnan(got) & np.isnan(result))
            wrong = ~(same | (np.abs(got - result) <= bound))
        assert not wrong.any(), (f"{self}: {wrong.sum()} of {wrong.size} wrong, {got[wrong][:3]} for "
                                 f"{result[wrong][:3]}")
        if self.wanted:
            np.testing.assert_array_equal(self.index_of(places), index, err_msg=str(self))

    def __str__(self):
        return f"op {self.op} nan {self.nan} {self.lens} over {self.axes} {self.dtypes} {self.a.desc} {self.c_desc}"


def usable(handle, *dtypes):
    if "float64" in dtypes and not handle.device.fp64:
        pytest.skip("no double precision")


def few_values(values):
    """Equal numbers, zeros and infinities."""
    return np.round(values * 2) / 2


def random_problem(handle, op, rng, **how):
    rank = int(rng.integers(1, 6))
    lens = tuple(map(int, rng.integers(1, (3000, 90, 24, 11, 7)[rank - 1], rank)))
    count = int(rng.integers(1, rank + 1))
    axes = tuple(sorted(map(int, rng.choice(rank, count, replace=False))))
    chosen = {"dtypes": (TYPES[rng.integers(3)], TYPES[rng.integers(3)]), "indices": bool(rng.integers(2)),
              "layout": LAYOUTS[rng.integers(3)], "c_layout": LAYOUTS[rng.integers(3)],
              "nan": int(rng.integers(2)), "pattern": (None, few_values)[rng.integers(2)]} | how
    return Reduction(handle, op, lens, axes, rng=rng, **chosen)


@pytest.mark.parametrize("op", OPS)
def test_values(handle, op, rng, amount):
    for _ in range(amount(3, 25)):
        alpha, beta = ((1.0, 0.0), (1.0, 0.0), (-0.5, 0.0), (2.0, 1.5))[rng.integers(4)]
        random_problem(handle, op, rng).check(alpha, beta)


@pytest.mark.parametrize("op", OPS)
def test_gpu_kernels(gpu, op, rng, amount):
    for _ in range(amount(3, 20)):
        alpha, beta = ((1.0, 0.0), (1.0, 0.0), (-0.5, 0.0), (2.0, 1.5))[rng.integers(4)]
        random_problem(gpu, op, rng).check(alpha, beta)


@pytest.mark.parametrize("dtypes", [("float64", "float64"), ("float32", "float64"), ("float16", "float64")])
@pytest.mark.parametrize("on_gpu", [False, True])
def test_float64(handle, gpu, dtypes, on_gpu, rng):
    usable(handle, *dtypes)
    for op in (ADD, MUL, MAX, NORM2):
        random_problem(gpu if on_gpu else handle, op, rng, dtypes=dtypes).check()
        random_problem(gpu if on_gpu else handle, op, rng, comp="float64").check()


# Along, across, both with lines of several axes, columns that are no vectors, few and many of either.
SIZES = (
    ((70001,), (0,)), ((3, 40000), (1,)), ((40000, 3), (0,)), ((40000, 16), (0,)), ((9000, 100), (0,)),
    ((100, 900), (1,)), ((2000, 7), (1,)), ((5, 2000, 33), (1,)), ((6, 64, 30, 31), (0, 2, 3)),
    ((6, 31, 30, 64), (0, 1, 2)), ((4, 8, 9, 10, 16), (1, 3)), ((1, 3, 1), (0,)), ((300, 1100), (0,)),
    ((300, 2048), (0,)), ((16, 16), (0, 1)), ((2, 3, 4), (1, 2)), ((20, 9), (1,)), ((64, 49), (1,)),
    ((9, 37, 5), (2,)), ((3, 50, 2, 6), (2, 3)), ((70, 15), (1,)),
)


@pytest.mark.parametrize("op", [ADD, MAX, MUL])
@pytest.mark.parametrize(("lens", "axes"), SIZES, ids=str)
def test_sizes(handle, lens, axes, op, rng):
    Reduction(handle, op, lens, axes, (TYPES[rng.integers(3)],) * 2, rng, indices=True).check()


@pytest.mark.some(12)
@pytest.mark.parametrize("op", [ADD, MAX, MUL])
@pytest.mark.parametrize(("lens", "axes"), SIZES, ids=str)
def test_gpu_sizes(gpu, lens, axes, op, rng):
    Reduction(gpu, op, lens, axes, (TYPES[rng.integers(3)],) * 2, rng, indices=True).check()


@pytest.mark.parametrize(("lens", "axes"), [
    ((1 << 20,), (0,)), ((1 << 18, 4), (0,)), ((1 << 16, 16), (0,)), ((1 << 16, 3, 7), (0, 2)),
    ((1 << 15, 2, 40), (0, 2)), ((1 << 12, 2, 5, 30), (0, 2)),
])
def test_long_sums_of_equal_terms(handle, gpu, lens, axes, rng):
    """One accumulator would be off by 1,000 times the bound."""
    for where in (handle, gpu):
        Reduction(where, ADD, lens, axes, ("float32",) * 2, rng, values=np.full(lens, 0.1)).check()


def with_nans(values):
    rng = np.random.default_rng(5)
    values = few_values(values)
    values[rng.random(values.shape) < 0.15] = np.nan
    return values


@pytest.mark.parametrize("nan", [IGNORED, WINS])
@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("op", OPS)
def test_nans(handle, gpu, op, on_gpu, nan, rng):
    for lens, axes in (((40, 9), (0,)), ((40, 9), (1,)), ((5, 700), (1,)), ((700, 50), (0,)), ((3000,), (0,))):
        for indices in (True, False):  # kernels of their own
            Reduction(gpu if on_gpu else handle, op, lens, axes, ("float32",) * 2, rng, nan=nan, indices=indices,
                      pattern=with_nans).check()
    all_nan = Reduction(gpu if on_gpu else handle, op, (50, 30), (1,), ("float16",) * 2, rng, nan=nan, indices=True,
                        values=np.full((50, 30), np.nan))
    all_nan.check()


@pytest.mark.parametrize("on_gpu", [False, True])
def test_infinities(handle, gpu, on_gpu, rng):
    values = np.full((6, 300), -np.inf)
    values[1, 7] = np.inf
    values[2] = np.inf
    values[3, 150] = 3
    for op in EXTREMES:
        for axes in ((0,), (1,), (0, 1)):
            for nan in (IGNORED, WINS):
                Reduction(gpu if on_gpu else handle, op, (6, 300), axes, ("float32",) * 2, rng, indices=True, nan=nan,
                          values=values).check()
    values[4, 11] = np.nan
    for nan in (IGNORED, WINS):
        Reduction(gpu if on_gpu else handle, MAX, (6, 300), (1,), ("float32",) * 2, rng, indices=True, nan=nan,
                  values=values).check()


@pytest.mark.parametrize("on_gpu", [False, True])
def test_misaligned(handle, gpu, on_gpu, rng):
    """Buffers that begin an element behind a boundary."""
    for dtype, shift in (("float32", 4), ("float16", 2)):
        for lens, axes in (((8, 512), (1,)), ((512, 64), (0,)), ((4096,), (0,))):
            Reduction(gpu if on_gpu else handle, ADD, lens, axes, (dtype,) * 2, rng, shift=shift).check()


def test_empty(handle, gpu, rng):
    for where in (handle, gpu):
        for op, want in ((ADD, 0), (MUL, 1), (AVG, np.nan), (NORM2, 0)):
            c, _, _ = Reduction(where, op, (3, 0), (1,), ("float32",) * 2, rng).run()
            np.testing.assert_array_equal(c.values(), np.full((3, 1), want))
            c, _, old = Reduction(where, op, (3, 0), (1,), ("float32",) * 2, rng).run(2.0, 3.0)
            # terms of 2 and about 3
            np.testing.assert_allclose(c.values(), 2 * want + 3 * old, rtol=1e-6, atol=2.0**-20)
        Reduction(where, MAX, (0, 5), (1,), ("float32",) * 2, rng, indices=True).run()
        for op in EXTREMES:
            with pytest.raises(BadParmError, match="no elements"):
                Reduction(where, op, (3, 0), (1,), ("float32",) * 2, rng).run()


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_indices_of_another_type(host, rng, dtype):
    a, c = TensorDescriptor("float32", (2, 5)), TensorDescriptor("float32", (2, 1))
    plan = host.reduce_tensor(ReduceTensorDescriptor("max", indices="flattened"), a, c)
    with pytest.raises(BadParmError, match="indices"):
        plan(rng.standard_normal((2, 5), np.float32), np.zeros((2, 1), np.float32), np.zeros((2, 1), dtype))


def test_runs_are_alike(handle, gpu, rng):
    """Parts are joined in a fixed order."""
    for where in (handle, gpu):
        for lens, axes in (((300000,), (0,)), ((30000, 8), (0,))):
            problem = Reduction(where, ADD, lens, axes, ("float32",) * 2, rng)
            first = problem.run()[0].values()
            for _ in range(3):
                np.testing.assert_array_equal(problem.run()[0].values(), first)


def test_results_do_not_depend_on_threads(setting):
    results = []
    for threads in (1, 2, 5):
        setting(MIOPYX_NUM_THREADS=threads)
        with miopyx.Handle("host") as handle:
            rng = np.random.default_rng(2)
            results.append([Reduction(handle, ADD, lens, axes, ("float32",) * 2, rng).run()[0].values()
                            for lens, axes in (((400000,), (0,)), ((50000, 9), (0,)), ((40, 5000), (1,)))])
    for result in results[1:]:
        for one, first in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(one, first)


# One axis: miopenReduceCalculationForward, miopenReduceExtremeForward


class OneAxis:
    def __init__(self, handle, lens, dim, dtype, rng, pattern=None, layout="packed"):
        self.handle, self.lens, self.dim, self.dtype = handle, lens, dim, dtype
        values = 1 + rng.standard_normal(lens) / 32
        self.x = Tensor(handle, TensorDescriptor(dtype, lens, strides_of(lens, layout)),
                        pattern(values) if pattern else values)
        self.rest = lens[:dim] + lens[dim + 1:] or (1,)
        self.rows = np.moveaxis(self.x.view().astype(np.float64), dim, -1)

    def calculate(self, op, nan):
        y = Tensor(self.handle, TensorDescriptor(self.dtype, self.rest), None)
        size = miopyx.miopenGetReduceCalculationWorkspaceSize(self.handle, self.x.desc, self.dim, op, y.desc)
        workspace = Guarded(self.handle, size, 0xFF)
        miopyx.miopenReduceCalculationForward(self.handle, nan, workspace.argument() if size else None, size,
                                              self.x.desc, self.x.argument(), self.dim, op, y.desc, y.argument())
        self.handle.finish()
        workspace.fetch()
        rows = self.rows if nan == WINS else np.where(np.isnan(self.rows), 1.0 if op == 1 else 0.0, self.rows)
        which = MUL if op == 1 else ADD
        want, _ = reduced(which, rows)
        u, v = ROUNDOFF[self.dtype], ROUNDOFF["float64" if self.dtype == "float64" else "float32"]
        got, want = y.values(), want.reshape(self.rest)
        bound = bound_of(which, rows, want.reshape(rows.shape[:-1]), u, v).reshape(self.rest)
        assert np.array_equal(np.isnan(got), np.isnan(want))
        assert (np.isnan(want) | (np.abs(got - want) <= bound)).all()

    def extreme(self, op):
        y = Tensor(self.handle, TensorDescriptor(self.dtype, self.rest), None)
        index = Tensor(self.handle, TensorDescriptor("int32", self.rest), None)
        given = (y.desc, y.argument()) if op >= 3 else (None, None)
        miopyx.miopenReduceExtremeForward(self.handle, self.x.desc, self.x.argument(), self.dim, op, *given,
                                          index.desc, index.argument())
        self.handle.finish()
        want, place = reduced(MIN if op in (1, 3) else MAX, self.rows, IGNORED)
        first = np.isnan(self.rows[..., 0])
        np.testing.assert_array_equal(index.values(), np.where(first, 0, place).reshape(self.rest))
        if op >= 3:
            np.testing.assert_array_equal(y.values(), np.where(first, np.nan, want).reshape(self.rest))


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("pattern", [None, with_nans])
@pytest.mark.parametrize("nan", [IGNORED, WINS])
def test_calculation(handle, gpu, on_gpu, nan, pattern, rng, amount):
    for _ in range(amount(2, 8)):
        rank = int(rng.integers(1, 6))
        lens = tuple(map(int, rng.integers(1, (900, 60, 15, 8, 5)[rank - 1], rank)))
        problem = OneAxis(gpu if on_gpu else handle, lens, int(rng.integers(rank)), TYPES[rng.integers(3)], rng,
                          pattern, LAYOUTS[rng.integers(3)])
        for op in (1, 2):
            problem.calculate(op, nan)


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("pattern", [few_values, with_nans])
def test_extremes(handle, gpu, on_gpu, pattern, rng, amount):
    for _ in range(amount(2, 8)):
        rank = int(rng.integers(1, 6))
        lens = tuple(map(int, rng.integers(1, (9000, 200, 25, 10, 6)[rank - 1], rank)))
        problem = OneAxis(gpu if on_gpu else handle, lens, int(rng.integers(rank)), TYPES[rng.integers(3)], rng,
                          pattern, LAYOUTS[rng.integers(3)])
        for op in (1, 2, 3, 4):
            problem.extreme(op)


# Descriptors, plans and refusals

A, ROWS, COLUMNS = (TensorDescriptor("float32", lens) for lens in ((4, 6), (4, 1), (1, 6)))


def test_descriptor():
    desc = miopyx.miopenCreateReduceTensorDescriptor()
    assert desc.op is None
    with pytest.raises(BadParmError, match="never set"):
        miopyx.miopenGetReduceTensorDescriptor(desc)
    miopyx.miopenSetReduceTensorDescriptor(desc, 3, "float64", 1, 1, 0)
    assert miopyx.miopenGetReduceTensorDescriptor(desc) == (3, miopyx.miopenDouble, 1, 1, 0)
    for place, wrong in ((0, 9), (0, -1), (0, "xor"), (1, 77), (2, 2), (3, 2), (4, 4)):
        given = [0, 1, 0, 0, 0]
        given[place] = wrong
        with pytest.raises(BadParmError):
            miopyx.miopenSetReduceTensorDescriptor(desc, *given)
    for kind in (1, 2, 3):
        with pytest.raises(UnknownError, match="Only int32"):
            miopyx.miopenSetReduceTensorDescriptor(desc, 3, 1, 0, 1, kind)
        miopyx.miopenSetReduceTensorDescriptor(ReduceTensorDescriptor(), 3, 1, 0, 0, kind)
    assert miopyx.miopenGetReduceTensorDescriptor(desc) == (3, miopyx.miopenDouble, 1, 1, 0)
    miopyx.miopenDestroyReduceTensorDescriptor(desc)
    miopyx.miopenDestroyReduceTensorDescriptor(None)
    with pytest.raises(BadParmError):
        miopyx.miopenGetReduceTensorDescriptor(desc)


def reduce_call(handle, desc=None, a=A, c=ROWS, x=None, y=None, indices=None, size=0, workspace=None, space=0):
    desc = ReduceTensorDescriptor(0) if desc is None else desc
    x = np.zeros((4, 6), np.float32) if x is None else x
    y = np.zeros((4, 1), np.float32) if y is None else y
    miopyx.miopenReduceTensor(handle, desc, indices, size, workspace, space, 1, a, x, 0, c, y)


def test_refusals(host):
    extreme = ReduceTensorDescriptor(3, "float32", 0, 1)
    places = np.zeros(4, np.int32)
    for error, message, how in (
        (BadParmError, "reduceTensorDesc", {"desc": A}),
        (BadParmError, "never set", {"desc": ReduceTensorDescriptor()}),
        (UnknownError, "no axis", {"c": A}),
        (UnknownError, "neither 1", {"c": TensorDescriptor("float32", (4, 2))}),
        (UnknownError, "ranks", {"c": TensorDescriptor("float32", (4,))}),
        (UnknownError, "dimensions", {"a": TensorDescriptor("float32", (1,) * 6),
                                      "c": TensorDescriptor("float32", (1,) * 6)}),
        (MIOpenNotImplementedError, "data type", {"a": TensorDescriptor("int8", (4, 6))}),
        (MIOpenNotImplementedError, "data type", {"c": TensorDescriptor("int32", (4, 1))}),
        (MIOpenNotImplementedError, "reduceTensorCompType", {"desc": ReduceTensorDescriptor(0, "int32")}),
        (UnknownError, "indices size", {"desc": extreme, "indices": places, "size": 15}),
        (BadParmError, "indices", {"desc": extreme, "size": 16}),
        (BadParmError, "indices", {"desc": extreme, "indices": places[:3], "size": 16}),
        (BadParmError, "negative", {"size": -1}),
        (BadParmError, "negative size.*workspaceSizeInBytes", {"space": -1}),
        (BadParmError, "A", {"x": np.zeros((4, 5), np.float32)}),
        (BadParmError, "C", {"y": np.zeros((4, 1), np.float16)}),
    ):
        with pytest.raises(error, match=message):
            reduce_call(host, **how)
    memory = np.zeros((4, 6), np.float32)
    with pytest.raises(BadParmError, match="shares memory"):
        reduce_call(host, x=memory, y=memory[:, :1], c=TensorDescriptor("float32", (4, 1), (6, 1)))
    flat = np.zeros(64, np.float32)
    with pytest.raises(BadParmError, match="shares memory"):
        reduce_call(host, extreme, x=memory, y=flat[:4].reshape(4, 1), indices=flat[3:7].view(np.int32), size=16)
    with pytest.raises(UnknownError):
        miopyx.miopenGetReductionIndicesSize(host, extreme, A, A)
    assert miopyx.miopenGetReductionIndicesSize(host, extreme, A, ROWS) == 16
    assert miopyx.miopenGetReductionIndicesSize(host, ReduceTensorDescriptor(0, "float32", 0, 1), A, ROWS) == 0


def test_workspace_too_small(opencl_handle):
    desc, a, c = ReduceTensorDescriptor(0), TensorDescriptor("float32", (1 << 20,)), TensorDescriptor("float32", (1,))
    size = miopyx.miopenGetReductionWorkspaceSize(opencl_handle, desc, a, c)
    assert size > 0
    x, y, space = (opencl_handle.upload(np.zeros(n, np.float32)) for n in (1 << 20, 1, size))
    for given, what in ((space, size - 1), (None, 0)):
        with pytest.raises(UnknownError, match=r"orkspace") as raised:
            miopyx.miopenReduceTensor(opencl_handle, desc, None, 0, given, what, 1, a, x, 0, c, y)
        assert raised.value.parameter == "workspaceSizeInBytes"


def test_refusals_of_one_axis(host):
    x, y = np.zeros((4, 6), np.float32), np.zeros(4, np.float32)
    rest, places = TensorDescriptor("float32", (4,)), np.zeros(4, np.int32)
    where = TensorDescriptor("int32", (4,))
    for dim in (-1, 2, 5, 2**31 - 1):
        with pytest.raises(BadParmError, match="dim"):
            miopyx.miopenReduceCalculationForward(host, 0, None, 0, A, x, dim, 2, rest, y)
        with pytest.raises(BadParmError, match="dim"):
            miopyx.miopenReduceExtremeForward(host, A, x, dim, 3, rest, y, where, places)
    for op in (0, 3, -1):
        with pytest.raises(BadParmError, match="reduceCalculationOp"):
            miopyx.miopenReduceCalculationForward(host, 0, None, 0, A, x, 1, op, rest, y)
    for op in (0, 5):
        with pytest.raises(BadParmError, match="reduceExtremeOp"):
            miopyx.miopenReduceExtremeForward(host, A, x, 1, op, rest, y, where, places)
    with pytest.raises(BadParmError, match="nanPropagation"):
        miopyx.miopenReduceCalculationForward(host, 2, None, 0, A, x, 1, 2, rest, y)
    for bad in (ROWS, COLUMNS, TensorDescriptor("float32", (6,)), TensorDescriptor("float16", (4,))):
        with pytest.raises(BadParmError, match="reduceDesc"):
            miopyx.miopenReduceCalculationForward(host, 0, None, 0, A, x, 1, 2, bad, y)
        with pytest.raises(BadParmError, match="yDesc"):
            miopyx.miopenReduceExtremeForward(host, A, x, 1, 3, bad, y, where, places)
    for bad in (rest, TensorDescriptor("int32", (6,)), TensorDescriptor("int64", (4,)), None):
        with pytest.raises(BadParmError, match="indiceDesc"):
            miopyx.miopenReduceExtremeForward(host, A, x, 1, 1, None, None, bad, places)
    with pytest.raises(BadParmError, match="no elements"):
        miopyx.miopenReduceExtremeForward(host, TensorDescriptor("float32", (4, 0)), None, 1, 3, rest, y, where, places)
    with pytest.raises(BadParmError, match="yDesc"):
        miopyx.miopenReduceExtremeForward(host, A, x, 1, 3, None, None, where, places)
    # One dimension becomes one element.
    one, whole = TensorDescriptor("float32", (1,)), TensorDescriptor("float32", (4,))
    miopyx.miopenReduceCalculationForward(host, 1, None, 0, whole, np.ones(4, np.float32), 0, "sum", one, y[:1])
    assert y[0] == 4


def test_the_old_result_is_not_read(handle, gpu, rng):
    """C begins as NaN where beta is 0: every other test relies on that too."""
    for where in (handle, gpu):
        assert np.isfinite(Reduction(where, ADD, (40, 30), (1,), ("float32",) * 2, rng).run()[0].values()).all()


def test_plans(handle, rng):
    values = rng.standard_normal((4, 6)).astype(np.float32)
    x, y, rest = handle.upload(values), handle.empty(ROWS), handle.empty((4,), "float32")
    plan = handle.reduce_tensor(ReduceTensorDescriptor("mean"), A, ROWS)
    assert plan.buffers == ("A", "C")
    plan(x, y, alpha=2)
    np.testing.assert_allclose(handle.download(y).ravel(), 2 * values.mean(1), rtol=1e-5, atol=1e-6)
    places = handle.empty((4,), "int32")
    plan = handle.reduce_tensor(ReduceTensorDescriptor("max", indices="flattened"), A, ROWS)
    assert plan.buffers == ("A", "C", "indices")
    plan(x, y, places)
    np.testing.assert_array_equal(handle.download(places), values.argmax(1))
    one = TensorDescriptor("float32", (4,))
    handle.reduce_calculation(A, one, 1)(x, rest)
    np.testing.assert_allclose(handle.download(rest), values.sum(1), rtol=1e-5, atol=1e-6)
    where = TensorDescriptor("int32", (4,))
    plan = handle.reduce_extreme(A, None, where, 1, "argmin")
    assert plan.buffers == ("x", "indice")
    plan(x, places)
    np.testing.assert_array_equal(handle.download(places), values.argmin(1))
    handle.reduce_extreme(A, one, where, 1, "min")(x, rest, places)
    np.testing.assert_array_equal(handle.download(rest), values.min(1))
