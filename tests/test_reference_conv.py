"""The host path against code that shares nothing with it: sums over shifted slices in NumPy, and PyTorch in float64."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from miopyx.errors import BadParmError
from miopyx.host import _bias, _conv

FORWARD, DATA, WEIGHTS = range(3)
TYPE = {"float16": 0, "float32": 1, "int32": 2, "int8": 3, "bfloat16": 5, "float64": 6}
DTYPE = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in TYPE}
GUARD = 64  # elements before and after every buffer


@dataclass(frozen=True)
class Case:
    """A convolution with three spatial axes; `x_dims` and `filter` count d h w."""

    direction: int
    n: int
    c: int
    k: int
    x_dims: tuple[int, int, int]
    filter: tuple[int, int, int]
    pad: tuple[int, int, int] = (0, 0, 0)
    step: tuple[int, int, int] = (1, 1, 1)
    dilation: tuple[int, int, int] = (1, 1, 1)
    groups: int = 1
    types: tuple[str, str, str] = ("float64", "float64", "float64")  # of x, w, y
    layouts: tuple[str, str, str] = ("NCHW", "NCHW", "NCHW")
    alpha: float = 1.0
    beta: float = 0.0
    threads: int = 2
    y_extra: tuple[int, int, int] = (0, 0, 0)

    @property
    def y_dims(self) -> tuple[int, int, int]:
        def length(i, f, p, s, d, extra):
            return max(1, int((i + 2 * p - 1 - d * (f - 1)) / s) + 1) + extra

        return tuple(map(length, self.x_dims, self.filter, self.pad, self.step, self.dilation, self.y_extra))

    @property
    def shapes(self):
        return ((self.n, self.c, *self.x_dims), (self.k, self.c // self.groups, *self.filter),
                (self.n, self.k, *self.y_dims))


def strides_of(shape, layout, rng):
    """Element strides: packed in the order of `layout`, or with gaps ("gaps") in a random order."""
    order = {"NCHW": (0, 1, 2, 3, 4), "NHWC": (0, 2, 3, 4, 1), "gaps": ()}[layout] or tuple(rng.permutation(5))
    strides, step = [0] * 5, 1 if layout != "gaps" else int(rng.integers(1, 3))
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
        if layout == "gaps":
            step += int(rng.integers(0, 4))
    return strides


class Tensor:
    """Memory with guards around it, and a view of the elements that a tensor addresses."""

    def __init__(self, shape, strides, dtype, rng, poison=False):
        span = 1 + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
        size = (span + 2 * GUARD) * dtype.itemsize
        self.bytes = rng.integers(0, 256, size, dtype=np.uint8)
        flat = self.bytes.view(dtype)
        self.inner = flat[GUARD:GUARD + span]
        self.view = as_strided(self.inner, shape, [s * dtype.itemsize for s in strides])
        if np.issubdtype(dtype, np.integer):
            low, high = (-128, 128) if dtype.itemsize == 1 else (-1000, 1000)
            self.view[...] = rng.integers(low, high, shape)
        else:
            self.view[...] = rng.standard_normal(shape).astype(dtype)
        if poison and not np.issubdtype(dtype, np.integer):
            self.view[...] = np.nan
        self.before = self.bytes.copy()

    def assert_rest_untouched(self):
        seen = np.zeros(self.bytes.size // self.view.itemsize, bool)
        strides = [s // self.view.itemsize for s in self.view.strides]
        as_strided(seen[GUARD:], self.view.shape, strides)[...] = True
        outside = ~np.repeat(seen, self.view.itemsize)
        np.testing.assert_array_equal(self.bytes[outside], self.before[outside])


def pack_problem(case: Case, strides, types=None) -> bytes:
    words = [case.direction, 3, case.groups, *case.pad, *case.step, *case.dilation, 0, 0, 0]
    for name, shape, stride in zip(types or case.types, case.shapes, strides, strict=True):
        words += [TYPE[name], *shape, *stride]
    words += [0] * 4  # no epilogue
    return np.array(words, dtype=np.int64).tobytes()


def valid(case: Case, axis: int, tap: int):
    """Output and input indices that filter index `tap` joins along an axis."""
    out = np.arange(case.y_dims[axis])
    inp = out * case.step[axis] - case.pad[axis] + tap * case.dilation[axis]
    inside = (inp >= 0) & (inp < case.x_dims[axis])
    return out[inside], inp[inside]


def expected(case: Case, x, w, y):
    """The convolution in float64, tap by tap; padded positions take no part."""
    g, n = case.groups, case.n
    xs, ws, ys = case.shapes
    x = np.asarray(x, np.float64).reshape(n, g, -1, *xs[2:])
    w = np.asarray(w, np.float64).reshape(g, -1, *ws[1:])
    y = np.asarray(y, np.float64).reshape(n, g, -1, *ys[2:])
    source = (x, w, y)[(2, 0, 1)[case.direction]]
    out = np.zeros_like(source)
    for taps in itertools.product(*map(range, case.filter)):
        pairs = [valid(case, axis, tap) for axis, tap in enumerate(taps)]
        if any(len(o) == 0 for o, _ in pairs):
            continue
        o, i = (np.ix_(*index) for index in zip(*pairs, strict=True))
        at_y, at_x, at_w = (slice(None),) * 3 + o, (slice(None),) * 3 + i, (..., *taps)
        if case.direction == FORWARD:
            out[at_y] += np.einsum("ngcdhw,gkc->ngkdhw", x[at_x], w[at_w])
        elif case.direction == DATA:
            out[at_x] += np.einsum("ngkdhw,gkc->ngcdhw", y[at_y], w[at_w])
        else:
            out[at_w] += np.einsum("ngcdhw,ngkdhw->gkc", x[at_x], y[at_y])
    return out.reshape(case.shapes[(2, 0, 1)[case.direction]])


def ulp(values, dtype):
    if dtype == np.float64 or dtype == np.float32:
        return np.spacing(np.abs(values).astype(dtype)).astype(np.float64)
    info = ml_dtypes.finfo(dtype)
    exponent = np.floor(np.log2(np.maximum(np.abs(values), float(info.smallest_normal))))
    return np.exp2(exponent) * float(info.eps)


def run_case(case: Case, seed: int, target=None):
    rng = np.random.default_rng(seed)
    role = (2, 0, 1)[case.direction]
    strides = [strides_of(s, lay, rng) for s, lay in zip(case.shapes, case.layouts, strict=True)]
    tensors = [Tensor(shape, stride, DTYPE[name], rng, poison=i == role and case.beta == 0)
               for i, (shape, stride, name) in enumerate(zip(case.shapes, strides, case.types, strict=True))]
    x, w, y = tensors
    old = tensors[role].view.astype(np.float64)
    inputs = [t.view.astype(np.float64) for t in tensors]
    inputs[role] = np.zeros(case.shapes[role])
    exact = expected(case, *inputs)
    scale = expected(case, *map(np.abs, inputs))
    run = target or _conv.run_conv
    run(pack_problem(case, strides), x.inner, w.inner, y.inner, case.alpha, case.beta, case.threads)
    for t in tensors:
        t.assert_rest_untouched()
    for i, t in enumerate(tensors):
        if i != role:
            np.testing.assert_array_equal(t.bytes, t.before)
    check_values(case, tensors[role].view, exact, scale, old)
    return tensors[role].view.copy()


def check_values(case, got, exact, scale, old):
    dtype = got.dtype
    want = case.alpha * exact + (case.beta * old if case.beta else 0)
    if np.issubdtype(dtype, np.integer):
        bits = dtype.itemsize * 8
        wrapped = np.trunc(want).astype(np.int64) & (2**bits - 1)
        np.testing.assert_array_equal(got.astype(np.int64) & (2**bits - 1), wrapped)
        return
    terms = {FORWARD: case.c // case.groups * np.prod(case.filter), DATA: case.k // case.groups * np.prod(case.filter),
             WEIGHTS: case.n * np.prod(case.y_dims)}[case.direction]
    bound = np.finfo(np.float64).eps * (4 + np.sqrt(terms) * 2) * (abs(case.alpha) * scale + abs(case.beta * old)
                                                                   if case.beta else abs(case.alpha) * scale)
    if dtype != np.float64:
        bound = np.where(bound > 0, bound, 0) + ulp(want, dtype)
    error = np.abs(got.astype(np.float64) - want)
    assert np.all(error <= bound), (case, float(np.nanmax(error - bound)), np.argwhere(~(error <= bound))[:4])


def random_case(rng: np.random.Generator) -> Case:
    spatial = int(rng.integers(1, 4))
    high = {1: 40, 2: 14, 3: 7}[spatial]

    def axes(low, top, missing):
        return (missing,) * (3 - spatial) + tuple(int(v) for v in rng.integers(low, top + 1, spatial))

    kind = rng.integers(4)
    groups, c, k = 1, int(rng.integers(1, 40)), int(rng.integers(1, 40))
    if kind == 0:
        groups = int(rng.integers(2, 5))
        c, k = groups * int(rng.integers(1, 9)), groups * int(rng.integers(1, 9))
    elif kind == 1:
        groups = c = int(rng.integers(1, 30))
        k = c * int(rng.integers(1, 3))
    floats = [("float64",) * 3] * 3 + [("float32",) * 3] * 2 + [("float16",) * 3, ("bfloat16",) * 3]
    direction = int(rng.integers(3))
    if direction != WEIGHTS:
        floats += [("int8", "int8", "int32"), ("int8", "int8", "float32"), ("int8", "int8", "int8")]
    types = floats[rng.integers(len(floats))]
    if direction == DATA:
        types = types[::-1] if types[0] == "int8" else types
        types = (types[0], "int8", "int8") if types[2] == "int8" else types
    layouts = tuple(str(v) for v in rng.choice(["NCHW", "NHWC", "gaps"], 3))
    if rng.integers(2):
        layouts = (layouts[0],) * 3
    alpha, beta = [(1.0, 0.0), (1.0, 0.0), (0.5, 0.0), (1.0, 1.0), (-1.25, 0.75), (0.0, 2.0), (0.0, 0.0)][
        rng.integers(7)]
    one = rng.integers(3) == 0
    return Case(
        direction, int(rng.integers(1, 4)), c, k, axes(1, high, 1), axes(1, 1 if one else 5, 1), axes(0, 3, 0),
        axes(1, 3, 1), axes(1, 3, 1), groups, types, layouts, alpha, beta, int(rng.choice([1, 2, 3])),
    )


@pytest.mark.parametrize("seed", range(300))
def test_random_configurations(seed):
    run_case(random_case(np.random.default_rng(seed)), seed)


def test_new_random_configurations(seed):
    for i in range(60):
        run_case(random_case(np.random.default_rng(seed + i)), seed + i)


# What random sizes do not reach: several passes over packed panels, sums cut into chunks, many groups.
LARGE = {
    "more rows than a pass holds": Case(FORWARD, 1, 7, 600, (1, 25, 25), (1, 1, 1)),
    "more columns than a pass holds": Case(FORWARD, 1, 7, 700, (1, 24, 24), (1, 1, 1), layouts=("NHWC",) * 3),
    "groups in several passes": Case(FORWARD, 1, 64 * 128, 64 * 64, (1, 10, 10), (1, 3, 3), (0, 1, 1), groups=64,
                                     types=("float32",) * 3),
    "long sum, few outputs": Case(FORWARD, 1, 700, 20, (1, 5, 5), (1, 3, 3), (0, 1, 1)),
    "long sum, one position": Case(FORWARD, 3, 5000, 50, (1, 1, 1), (1, 1, 1)),
    "long data sum": Case(DATA, 1, 24, 600, (1, 7, 7), (1, 3, 3), (0, 1, 1), (1, 2, 2), beta=0.5),
    "weights in two passes": Case(WEIGHTS, 1, 112, 90, (1, 224, 224), (1, 1, 1), types=("float32",) * 3),
    "weights in chunks": Case(WEIGHTS, 4, 24, 40, (1, 40, 40), (1, 3, 3), (0, 1, 1), beta=1.0),
    "weights, more rows than a pass holds": Case(WEIGHTS, 1, 100, 600, (1, 4, 4), (1, 3, 3), (0, 1, 1)),
    "depthwise": Case(FORWARD, 2, 96, 96, (1, 40, 40), (1, 3, 3), (0, 1, 1), groups=96, types=("float32",) * 3),
    "depthwise data": Case(DATA, 2, 96, 96, (1, 40, 40), (1, 3, 3), (0, 1, 1), (1, 2, 2), groups=96),
    "depthwise weights": Case(WEIGHTS, 2, 96, 96, (1, 40, 40), (1, 3, 3), (0, 1, 1), groups=96),
    "stem": Case(FORWARD, 1, 3, 64, (1, 63, 63), (1, 7, 7), (0, 3, 3), (1, 2, 2), types=("float32",) * 3),
    "stem weights": Case(WEIGHTS, 1, 3, 64, (1, 63, 63), (1, 7, 7), (0, 3, 3), (1, 2, 2)),
    "stem data": Case(DATA, 1, 3, 64, (1, 63, 64), (1, 7, 7), (0, 3, 3), (1, 2, 2), types=("float32",) * 3),
    "stem data, channels last": Case(DATA, 2, 3, 64, (1, 31, 32), (1, 7, 7), (0, 3, 3), (1, 2, 2), alpha=0.5,
                                     layouts=("NHWC",) * 3),
    "pointwise weights": Case(WEIGHTS, 3, 45, 70, (1, 13, 17), (1, 1, 1), types=("float32",) * 3),
    "pointwise data, strided": Case(DATA, 2, 70, 20, (1, 31, 33), (1, 1, 1), (0, 0, 0), (1, 2, 2),
                                    types=("float32",) * 3),
    "pointwise data, strided, with gaps": Case(DATA, 2, 17, 5, (3, 31, 33), (1, 1, 1), (0, 0, 0), (2, 2, 3),
                                               layouts=("gaps",) * 3),
    "data, filter rows side by side": Case(DATA, 2, 70, 75, (1, 9, 9), (1, 3, 3), (0, 1, 1), types=("float32",) * 3),
    "data, channels last": Case(DATA, 2, 40, 75, (1, 9, 11), (1, 3, 3), (0, 1, 1), types=("float16",) * 3,
                                layouts=("NHWC",) * 3),
    "data, y alone channels last": Case(DATA, 2, 40, 75, (1, 9, 11), (1, 3, 3), (0, 1, 1),
                                        layouts=("NCHW", "NCHW", "NHWC")),
    "few channels, dilated": Case(DATA, 2, 2, 9, (5, 9, 8), (2, 5, 4), (0, 6, 1), (1, 3, 2), (2, 1, 3)),
}


@pytest.mark.parametrize("name", LARGE)
def test_large(name):
    run_case(LARGE[name], 1)


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("case", [
    Case(FORWARD, 2, 3, 4, (1, 2, 3), (1, 7, 8)),
    Case(FORWARD, 2, 3, 4, (1, 2, 3), (1, 4, 5), (0, 0, 1), (1, 3, 2), (1, 4, 3)),
    Case(FORWARD, 1, 4, 4, (1, 1, 1), (2, 3, 3), (0, 1, 0), groups=2),
    Case(FORWARD, 2, 3, 5, (1, 6, 6), (1, 2, 2), (0, 0, 0), (1, 4, 5)),  # positions that no tap reaches
    Case(FORWARD, 2, 3, 5, (1, 9, 9), (1, 3, 3), (0, 2, 2), (1, 2, 4), (1, 2, 2)),  # gcd(stride, dilation) > 1
    Case(FORWARD, 2, 3, 5, (1, 9, 9), (1, 3, 3), (0, 9, 12), (1, 3, 3), (1, 6, 3)),  # whole rows of padding
    Case(FORWARD, 1, 2, 2, (1, 4, 4), (1, 2, 2), y_extra=(0, 2, 3)),  # y longer than the convolution reaches
], ids=str)
def test_filter_outside_the_image(case, direction):
    for beta, layout in ((0.0, "NCHW"), (0.5, "NHWC"), (0.0, "gaps")):
        run_case(replace(case, direction=direction, beta=beta, layouts=(layout,) * 3), 5)


@pytest.mark.parametrize("case", [
    Case(FORWARD, 2, 40, 50, (1, 20, 20), (1, 3, 3), (0, 1, 1)),
    Case(FORWARD, 1, 600, 20, (1, 6, 6), (1, 3, 3), (0, 1, 1)),
    Case(DATA, 2, 40, 50, (1, 20, 20), (1, 3, 3), (0, 1, 1), (1, 2, 2)),
    Case(DATA, 2, 3, 50, (1, 40, 40), (1, 7, 7), (0, 3, 3), (1, 2, 2)),
    Case(WEIGHTS, 2, 40, 50, (1, 20, 20), (1, 3, 3), (0, 1, 1)),
    Case(WEIGHTS, 4, 4, 6, (1, 60, 60), (1, 1, 1)),
    Case(WEIGHTS, 2, 64, 64, (1, 24, 24), (1, 3, 3), (0, 1, 1), groups=64),
], ids=str)
def test_same_bits_for_any_number_of_threads(case):
    one = run_case(replace(case, threads=1), 3)
    for threads in (2, 3, 8):
        assert run_case(replace(case, threads=threads), 3).tobytes() == one.tobytes()


def run_arrays(case: Case, x, w, y, target=None, **how):
    """Run packed NCHW arrays; y, x or w is overwritten."""
    strides = [strides_of(s, "NCHW", None) for s in case.shapes]
    types = [a.dtype.name for a in (x, w, y)]
    (target or _conv.run_conv)(pack_problem(case, strides, types), x, w, y, case.alpha, case.beta, case.threads, **how)


def test_pytorch():
    torch = pytest.importorskip("torch")
    for seed in range(60):
        rng = np.random.default_rng(seed)
        case = replace(random_case(rng), types=("float64",) * 3, alpha=1.0, beta=0.0)
        spatial = [(i + 2 * p - 1 - d * (f - 1)) // s + 1 for i, f, p, s, d in
                   zip(case.x_dims, case.filter, case.pad, case.step, case.dilation, strict=True)]
        if min(spatial) < 1:
            continue
        x, w, y = (rng.standard_normal(s) for s in case.shapes)
        tx, tw, ty = map(torch.from_numpy, (x.copy(), w.copy(), y.copy()))
        args = (list(case.step), list(case.pad), list(case.dilation), False, [0] * 3, case.groups)
        if case.direction == FORWARD:
            want, got = torch.ops.aten.convolution(tx, tw, None, *args), y
        else:
            mask = [case.direction == DATA, case.direction == WEIGHTS, False]
            want = torch.ops.aten.convolution_backward(ty, tx, tw, None, *args, mask)[case.direction - 1]
            got = x if case.direction == DATA else w
        got[...] = np.nan
        run_arrays(case, x, w, y)
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-12, atol=1e-11)


# ---- Values ----

def through(values, out):
    """What the host path makes of `values` in a 1x1 convolution with weight 1."""
    case = Case(FORWARD, 1, 1, 1, (1, 1, values.size), (1, 1, 1))
    y = np.zeros(values.size, DTYPE[out])
    run_arrays(case, values, np.ones(1), y)
    return y


@pytest.mark.parametrize("name", ["float16", "bfloat16", "int8", "float32", "int32"])
def test_every_value_is_read_exactly(name):
    dtype = DTYPE[name]
    if dtype.itemsize < 4:
        values = np.arange(256**dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)
    else:
        bits = np.concatenate([np.arange(0, 2**32, 65521), np.arange(64), 2**31 + np.arange(64), 2**23 - np.arange(9)])
        values = bits.astype(np.uint32).view(dtype)
    with np.errstate(invalid="ignore"):
        want = values.astype(np.float64)
    np.testing.assert_array_equal(through(values, "float64"), want)
    back = through(values, name)
    known = (want == want) & ((want != 0) | ~np.signbit(want))  # 0 + -0 is 0
    assert back[known].tobytes() == values[known].tobytes()
    np.testing.assert_array_equal(back.astype(np.float64), want)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_doubles_are_rounded_once(name):
    """Values at, just above and just below the middle of two neighbours: rounding through float gets these wrong."""
    dtype = DTYPE[name]
    bits = np.arange(2**15) if dtype.itemsize == 2 else np.arange(0, 2**31, 65521)
    low = bits.astype(f"u{dtype.itemsize}")
    largest = np.array(ml_dtypes.finfo(dtype).max if name == "bfloat16" else np.finfo(dtype).max, dtype)
    low = low[low < largest.view(low.dtype)]
    a, b = low.view(dtype).astype(np.float64), (low + 1).astype(low.dtype).view(dtype).astype(np.float64)
    middle = (a + b) / 2
    even = np.where(low & 1, low + 1, low)
    for sign in (1, -1):
        cases = [(middle, even), (np.nextafter(middle, 0), low), (np.nextafter(middle, np.inf), low + 1),
                 (middle * (1 + 2.0**-40), low + 1), (middle * (1 - 2.0**-40), low)]
        for values, want in cases:
            want = want.astype(low.dtype) | low.dtype.type(0 if sign > 0 else 1 << (8 * dtype.itemsize - 1))
            np.testing.assert_array_equal(through(sign * values, name).view(low.dtype), want)
    top = float(largest)
    step = top - float((largest.view(low.dtype) - 1).view(dtype).astype(np.float64))
    over = np.array([top + step * 0.499, top + step * 0.5, 1e300, np.inf, -np.inf, -top - step, np.nan, 5e-324, -0.0])
    got = through(over, name).astype(np.float64)
    np.testing.assert_array_equal(got, [top, np.inf, np.inf, np.inf, -np.inf, -np.inf, np.nan, 0, 0])


def test_integers_wrap_and_lose_their_fraction():
    values = np.array([2.9, -2.9, 2.0**31, -2.0**31 - 1, 2.0**40 + 5, 300, -129, 2.0**63, 1e300, np.nan, -np.inf])
    np.testing.assert_array_equal(through(values, "int32"), [2, -2, -2**31, 2**31 - 1, 5, 300, -129, 0, 0, 0, 0])
    np.testing.assert_array_equal(through(values, "int8"), [2, -2, 0, -1, 5, 44, 127, 0, 0, 0, 0])


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_padding_contributes_nothing_to_infinite_values(direction, beta):
    """Infinite or NaN values whose partner lies in the padding leave a result finite."""
    rng = np.random.default_rng(7)
    case = Case(direction, 2, 6, 4, (1, 8, 9), (1, 3, 3), (0, 1, 2), (1, 2, 1), groups=2, beta=beta)
    x, w, y = (rng.standard_normal(s) for s in case.shapes)
    role = (2, 0, 1)[direction]
    if direction == WEIGHTS:
        y[0, 1, 0, 0, 0], y[1, 2, 0, -1, -1] = np.inf, np.nan
    else:
        w[1, 1, 0, 0, 0], w[3, 2, 0, 2, 2] = -np.inf, np.nan
    old = (x, w, y)[role].copy()
    with np.errstate(invalid="ignore"):
        want = expected(case, *[np.zeros_like(a) if i == role else a for i, a in enumerate((x, w, y))])
        want = want + beta * old
    assert np.isnan(want).any()
    assert np.isfinite(want).any()
    run_arrays(case, x, w, y)
    np.testing.assert_allclose((x, w, y)[role], want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("where", ["w", "y"])
def test_infinite_values_reach_only_the_phases_that_see_them(where):
    """With few channels the phases of backward data are one product, with zeros that meet everything."""
    rng = np.random.default_rng(8)
    case = Case(DATA, 2, 3, 4, (1, 9, 12), (1, 5, 5), (0, 2, 2), (1, 2, 2))
    x, w, y = (rng.standard_normal(s) for s in case.shapes)
    if where == "w":
        w[1, 1, 0, 0, 3] = -np.inf
    else:
        y[1, 2, 0, 2, 3] = np.nan
    with np.errstate(invalid="ignore"):
        want = expected(case, np.zeros_like(x), w, y)
    assert not np.isfinite(want).all()
    assert np.isfinite(want).any()
    run_arrays(case, x, w, y)
    np.testing.assert_allclose(x, want, rtol=1e-12, atol=1e-13)


def test_alpha_zero_keeps_nan_and_beta_zero_reads_nothing():
    case = Case(FORWARD, 1, 1, 1, (1, 1, 4), (1, 1, 1), alpha=0.0)
    x, y = np.array([1.0, np.nan, np.inf, -2.0]), np.full(4, np.nan)
    run_arrays(case, x, np.ones(1), y)
    np.testing.assert_array_equal(y, [0, np.nan, np.nan, 0])


# ---- Threads, forks, variants ----

def test_callers_at_the_same_time():
    case = Case(FORWARD, 2, 30, 40, (1, 10, 10), (1, 3, 3), (0, 1, 1), threads=2)
    errors = []

    def work(seed):
        try:
            for _ in range(6):
                run_case(case, seed)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
                    reason="one core")
def test_workers_leave_the_callers_core_alone():
    run_case(Case(FORWARD, 2, 30, 40, (1, 20, 20), (1, 3, 3), (0, 1, 1), threads=2), 1)
    usable, masks = os.sched_getaffinity(0), []
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # gone since it was listed
            masks.append(os.sched_getaffinity(int(thread)))
    assert any(mask < usable and len(mask) == len(usable) - 1 for mask in masks)


def in_child(code, **env):
    """Run code that may use this module as `t`."""
    head = (f"import sys, importlib.util as u\nspec = u.spec_from_file_location('t', {__file__!r})\n"
            "t = sys.modules['t'] = u.module_from_spec(spec)\nspec.loader.exec_module(t)\n")
    done = subprocess.run([sys.executable, "-P", "-c", head + code], env={**os.environ, **env}, capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_child_of_a_fork_computes():
    in_child("""
import os
case = t.Case(t.FORWARD, 2, 30, 40, (1, 20, 20), (1, 3, 3), (0, 1, 1), threads=2)
t.run_case(case, 1)
for generation in range(3):
    pid = os.fork()
    if pid == 0:
        t.run_case(case, 2)
        t.run_case(t.replace(case, threads=4), 2)
        continue
    assert os.waitpid(pid, 0)[1] == 0
    break
t.run_case(case, 3)
""")


VARIANTS = ("baseline", "avx2", "avx512")


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants(variant):
    """Each instruction set, as far as the CPU has it; a better one than that falls back."""
    out = in_child("""
from miopyx.host._kernels import isa
print(isa())
for seed in range(1000, 1080):
    t.run_case(t.random_case(t.np.random.default_rng(seed)), seed)
for name in ("long sum, few outputs", "weights in chunks", "stem"):
    t.run_case(t.LARGE[name], 1)
for name in ("float16", "bfloat16", "float32"):
    t.test_every_value_is_read_exactly(name)
    t.test_doubles_are_rounded_once(name)
t.test_integers_wrap_and_lose_their_fraction()
t.test_padding_contributes_nothing_to_infinite_values(t.DATA, 0.0)
""", MIOPYX_HOST_ISA=variant)
    assert out in VARIANTS[:VARIANTS.index(variant) + 1]


def test_an_unknown_variant_counts_as_not_set():
    code = "from miopyx.host._kernels import isa; print(isa())"
    assert in_child(code, MIOPYX_HOST_ISA="sse9") == in_child(code, MIOPYX_HOST_ISA="")


def test_flushed_subnormals_are_not_flushed_here():
    torch = pytest.importorskip("torch")
    values = np.array([5e-324, 1e-310, 2.0**-1074 * 3])
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU does not flush")
    try:
        got = through(values, "float64")
    finally:
        torch.set_flush_denormal(False)
    assert got.tobytes() == values.tobytes()


# ---- Arguments ----

GOOD = Case(FORWARD, 1, 2, 3, (1, 4, 4), (1, 3, 3))


def edited(**fields):
    """The bytes of GOOD with words replaced: name is an index as w<i>."""
    words = np.frombuffer(pack_problem(GOOD, [strides_of(s, "NCHW", None) for s in GOOD.shapes]), np.int64).copy()
    for name, value in fields.items():
        words[int(name[1:])] = value
    return words.tobytes()


@pytest.mark.parametrize("problem", [
    b"", edited()[:-8], edited(w0=3), edited(w2=0), edited(w2=2), edited(w3=-1), edited(w6=0), edited(w9=0),
    edited(w15=4), edited(w16=0), edited(w16=2), edited(w21=-1), edited(w38=4), edited(w44=0), edited(w47=0),
    edited(w48=1),
], ids=range(16))
def test_structs_that_contradict_themselves(problem):
    x, w, y = (np.zeros(s) for s in GOOD.shapes)
    with pytest.raises(BadParmError):
        _conv.run_conv(problem, x, w, y)


def test_buffers():
    x, w, y = (np.zeros(s) for s in GOOD.shapes)
    _conv.run_conv(edited(), x.ctypes.data, bytearray(w.nbytes), y)
    for short in ((x[..., :-1].copy(), w, y), (x, w[:2], y), (x, w, bytearray(y.nbytes - 1))):
        with pytest.raises(BadParmError, match="smaller"):
            _conv.run_conv(edited(), *short)
    with pytest.raises(BadParmError, match="backwards"):
        _conv.run_conv(edited(), x[:, ::-1], w, y)
    y.flags.writeable = False
    with pytest.raises(BadParmError, match="read-only"):
        _conv.run_conv(edited(), x, w, y)
    with pytest.raises((BufferError, TypeError)):
        _conv.run_conv(edited(), x, w, bytes(y.nbytes))


# ---- Biases ----

def run_bias_case(shape, kept, dtype, layout, alpha, beta, threads, seed=0):
    rng = np.random.default_rng(seed)
    b_shape = tuple(length if axis in kept else 1 for axis, length in enumerate(shape))
    y_strides, b_strides = strides_of(shape, layout, rng), strides_of(b_shape, layout, rng)
    y = Tensor(shape, y_strides, DTYPE[dtype], rng)
    b = Tensor(b_shape, b_strides, DTYPE[dtype], rng, poison=beta == 0)
    words = [TYPE[dtype], *shape, *y_strides, TYPE[dtype], *b_shape, *b_strides]
    y64, b64 = y.view.astype(np.float64), b.view.astype(np.float64)
    _bias.run_bias(np.array(words, np.int64).tobytes(), b.inner, y.inner, alpha, beta, threads)
    y.assert_rest_untouched()
    b.assert_rest_untouched()
    eps = np.finfo(np.float64).eps
    summed = tuple(axis for axis in range(5) if axis not in kept)
    want = alpha * y64.sum(axis=summed, keepdims=True) + (beta * b64 if beta else 0)
    got, bound = b.view, 4 * eps * np.sqrt(y64.size) * (1 + abs(y64).sum(axis=summed, keepdims=True))
    if dtype != "float64":
        bound = bound + ulp(want, got.dtype)
    assert np.all(np.abs(got.astype(np.float64) - want) <= bound)
    return got.copy()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "gaps"])
@pytest.mark.parametrize(("shape", "kept"), [
    ((3, 5, 1, 6, 7), (1,)), ((2, 40, 3, 9, 11), (1,)), ((4, 3, 2, 5, 6), ()), ((2, 3, 4, 5, 6), (0, 1, 2, 3, 4)),
    ((2, 3, 1, 4, 9), (1, 4)), ((9, 12, 1, 1, 1), (1,)),
])
def test_bias(dtype, layout, shape, kept):
    for alpha, beta in ((1.0, 0.0), (-0.5, 2.0)):
        run_bias_case(shape, kept, dtype, layout, alpha, beta, 2)


@pytest.mark.parametrize("kept", [(1,), ()])
def test_bias_has_the_same_bits_for_any_number_of_threads(kept):
    one = run_bias_case((4, 6, 1, 150, 151), kept, "float32", "NCHW", 1.0, 0.0, 1)
    for threads in (2, 3, 8):
        again = run_bias_case((4, 6, 1, 150, 151), kept, "float32", "NCHW", 1.0, 0.0, threads)
        assert again.tobytes() == one.tobytes()
