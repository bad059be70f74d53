"""Pooling against sums and maxima over shifted slices in NumPy, and against PyTorch's gradients.

Maxima and their indices must be exact.  A sum of t terms that are rounded to the arithmetic's type and then to the
tensor's has an error of at most

    |error| <= (t + 3) v * sum |terms| + u |result| + half the smallest number of the tensor's type

with v the unit roundoff of the arithmetic (float32, float64 for float64) and u that of the tensor; 3 covers divisors.
Outputs and the workspace are poisoned before each run, guards around them must survive, every element is looked at.
"""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from guarded import DTYPE, ROUNDOFF, Guarded, Tensor, strides_of

import miopyx
from miopyx import PoolingDescriptor, TensorDescriptor

MAX, AVERAGE, INCLUSIVE = range(3)
MASK, IMAGE = range(2)
INDEX = [np.dtype("u1"), np.dtype("u2"), np.dtype("u4"), np.dtype("u8")]
TINY = {"float64": 0.0, "float32": 2.0**-150, "float16": 2.0**-25, "bfloat16": 2.0**-134}
FLOATS = list(ROUNDOFF)


# The reference


def tap_places(pool, tap, x_lens, y_lens):
    """Return the output places and the input places that a tap of the window joins, as index arrays."""
    outs, ins = [], []
    for axis, k in enumerate(tap):
        out = np.arange(y_lens[2 + axis])
        at = out * pool.strides[axis] - pool.pads[axis] + k
        inside = (at >= 0) & (at < x_lens[2 + axis])
        outs.append(out[inside])
        ins.append(at[inside])
    return np.ix_(*outs), np.ix_(*ins)


def taps(pool):
    return itertools.product(*map(range, pool.windows))


def index_of(pool, tap, ins, x_lens):
    """Return the index of each input place as this tap sees it."""
    if pool.workspace_index_mode == MASK:
        return np.ravel_multi_index(tap, pool.windows)
    return np.ravel_multi_index(ins, x_lens[2:])


def divisors(pool, x_lens, y_lens):
    count = np.zeros(y_lens[2:])
    for tap in taps(pool):
        count[tap_places(pool, tap, x_lens, y_lens)[0]] += 1
    return np.full_like(count, np.prod(pool.windows)) if pool.pooling_mode == INCLUSIVE else count


def forward_reference(pool, x, y_lens):
    """Return y and the indices (None for averages) of x in float64."""
    if pool.pooling_mode == MAX:
        y, indices = np.full(y_lens, -np.inf), np.zeros(y_lens, np.uint64)
        for tap in taps(pool):
            out, ins = tap_places(pool, tap, x.shape, y_lens)
            value, old = x[(..., *ins)], y[(..., *out)]
            above = value > old
            y[(..., *out)] = np.where(above, value, old)
            place = np.broadcast_to(index_of(pool, tap, ins, x.shape), above.shape)
            indices[(..., *out)] = np.where(above, place, indices[(..., *out)])
        return y, indices
    y = np.zeros(y_lens)
    for tap in taps(pool):
        out, ins = tap_places(pool, tap, x.shape, y_lens)
        y[(..., *out)] += x[(..., *ins)]
    return y / divisors(pool, x.shape, y_lens), None


def backward_reference(pool, dy, indices, x_lens):
    dx = np.zeros(x_lens)
    if pool.pooling_mode != MAX:
        dy = dy / divisors(pool, x_lens, dy.shape)
    for tap in taps(pool):
        out, ins = tap_places(pool, tap, x_lens, dy.shape)
        term = dy[(..., *out)]
        if pool.pooling_mode == MAX:
            term = np.where(indices[(..., *out)] == index_of(pool, tap, ins, x_lens), term, 0)
        dx[(..., *ins)] += term
    return dx


# Running


def bound_of(want, size, terms, dtype):
    u, v = ROUNDOFF[dtype], ROUNDOFF["float64" if dtype == "float64" else "float32"]
    return (terms + 3) * v * size + u * np.abs(want) + TINY[dtype]


def check_sum(got, want, size, terms, dtype, note):
    bound = bound_of(want, size, terms, dtype)
    error = np.abs(got - want)
    assert np.isfinite(got).all(), f"poison was left: {note}"
    assert (error <= bound).all(), f"{np.max(error / np.maximum(bound, 1e-300))} times the bound: {note}"


def check_pooling(handle, pool, x_desc, y_desc, rng, values=None):
    """Forward with and without indices, and backward, through functions and plans."""
    dtype, note = x_desc.dtype, f"{pool} {x_desc} {y_desc} on {handle}"
    maximum = pool.pooling_mode == MAX
    if values is None:  # few different numbers: many maxima are met twice
        values = rng.integers(-8, 9, x_desc.lens) if rng.integers(2) else rng.standard_normal(x_desc.lens)
    values = values.astype(DTYPE[dtype])
    exact = values.astype(np.float64)
    want, indices = forward_reference(pool, exact, y_desc.lens)
    size = None if maximum else forward_reference(pool, np.abs(exact), y_desc.lens)[0]
    index_type = INDEX[pool.workspace_index_type]
    nbytes = miopyx.miopenPoolingGetWorkSpaceSizeV2(pool, y_desc)
    assert nbytes == (want.size * index_type.itemsize if maximum else 0)

    def check_forward(y):
        got = y.values()
        if maximum:
            np.testing.assert_array_equal(got, want, note)
        else:
            check_sum(got, want, size, np.prod(pool.windows), dtype, note)

    x, y = Tensor(handle, x_desc, values), Tensor(handle, y_desc, None)
    handle.pooling_forward(pool, x_desc, y_desc)(x.argument(), y.argument())
    handle.finish()
    check_forward(y)
    y, space = Tensor(handle, y_desc, None), Guarded(handle, nbytes, 0xFF)
    miopyx.miopenPoolingForward(handle, pool, 1, x_desc, x.argument(), 0, y_desc, y.argument(), True,
                                space.argument() if nbytes else None, nbytes)
    handle.finish()
    check_forward(y)
    if maximum:
        np.testing.assert_array_equal(space.fetch().view(index_type).reshape(want.shape), indices, note)
    np.testing.assert_array_equal(x.values(), exact, "an input changed")

    dy_values = rng.standard_normal(y_desc.lens).astype(DTYPE[dtype])
    dy, dx = Tensor(handle, y_desc, dy_values), Tensor(handle, x_desc, None)
    exact = dy_values.astype(np.float64)
    miopyx.miopenPoolingBackward(handle, pool, 1.0, y_desc, None, y_desc, dy.argument(), x_desc, None, 0.0, x_desc,
                                 dx.argument(), space.argument() if nbytes else None)
    handle.finish()
    check_sum(dx.values(), backward_reference(pool, exact, indices, x_desc.lens),
              backward_reference(pool, np.abs(exact), indices, x_desc.lens), np.prod(pool.windows), dtype, note)
    if maximum:
        np.testing.assert_array_equal(space.fetch().view(index_type).reshape(want.shape), indices, note)
    again = Tensor(handle, x_desc, None)
    plan = handle.pooling_backward(pool, y_desc, y_desc, x_desc, x_desc)
    plan(*(dy.argument(), again.argument(), space.argument())[:3 if maximum else 2])
    handle.finish()
    np.testing.assert_array_equal(again.values(), dx.values(), f"not the same twice: {note}")


def random_strides(lens, rng):
    """Strides of a random order of the axes, with gaps."""
    strides, step = [0] * len(lens), int(rng.integers(1, 3))
    for axis in rng.permutation(len(lens)):
        strides[axis] = step
        step = step * lens[axis] + int(rng.integers(0, 3))
    return tuple(strides)


def random_problem(rng, dtype, layouts=("packed", "packed", "channels last", "padded", "random")):
    """Return a random descriptor and those of x and y."""
    spatial = int(rng.choice([2, 2, 3]))
    most = 60 if spatial == 2 and rng.integers(3) else 20 if spatial == 2 else 9
    while True:
        lens = tuple(int(v) for v in rng.integers(1, most, spatial))
        windows = tuple(int(v) for v in rng.integers(1, 6, spatial))
        strides = tuple(int(v) for v in rng.choice([1, 1, 2, 2, 3], spatial))
        if rng.integers(4) == 0:
            windows = (int(rng.integers(1, 4)),) * spatial
        if rng.integers(8) == 0:  # one window for all
            windows = lens
        pads = tuple(int(rng.integers(0, w)) if rng.integers(2) else 0 for w in windows)
        if all(i + 2 * p >= w for i, p, w in zip(lens, pads, windows, strict=True)) and np.prod(windows) < 200:
            break
    pool = PoolingDescriptor(int(rng.choice([MAX, MAX, AVERAGE, INCLUSIVE])), windows, pads, strides,
                             int(rng.integers(1, 4)), int(rng.integers(2)))
    if pool.workspace_index_mode == MASK or np.prod(lens) < 255:
        miopyx.miopenSetPoolingIndexType(pool, int(rng.integers(4)))
    x = (int(rng.integers(1, 4)), int(rng.integers(1, 40)), *lens)
    y = pool.output_lens(TensorDescriptor(dtype, x))
    both = str(rng.choice(layouts))
    descs = []
    for shape in (x, y):
        layout = both if rng.integers(4) else str(rng.choice(layouts))
        strides = random_strides(shape, rng) if layout == "random" else strides_of(shape, layout)
        descs.append(TensorDescriptor(dtype, shape, strides))
    return pool, *descs


@pytest.mark.parametrize("dtype", FLOATS)
def test_random_problems_on_the_host(host, rng, dtype, request):
    for _ in range(max(1, request.config.getoption("--configurations") // 4)):
        check_pooling(host, *random_problem(rng, dtype), rng)


@pytest.mark.parametrize("dtype", FLOATS)
def test_random_problems_on_devices(opencl_handle, rng, dtype, request):
    """Few by default: most of them need programs that were not built before."""
    for _ in range(max(1, request.config.getoption("--configurations") // 200)):
        check_pooling(opencl_handle, *random_problem(rng, dtype), rng)


# Mode, x, windows, pads, strides, indices' type, their mode
SHAPES = {
    "ResNet's stem": (MAX, (1, 3, 112, 112), (3, 3), (1, 1), (2, 2), 0, MASK),
    "GoogLeNet's": (MAX, (2, 5, 56, 56), (3, 3), (0, 0), (2, 2), 0, MASK),
    "inception's": (MAX, (2, 5, 28, 28), (3, 3), (1, 1), (1, 1), 0, MASK),
    "inception's in small images": (MAX, (2, 7, 7, 7), (3, 3), (1, 1), (1, 1), 0, MASK),
    "inception's average": (INCLUSIVE, (2, 5, 35, 35), (3, 3), (1, 1), (1, 1), 0, MASK),
    "global average": (AVERAGE, (3, 17, 7, 7), (7, 7), (0, 0), (1, 1), 0, MASK),
    "global maximum": (MAX, (3, 17, 13, 13), (13, 13), (0, 0), (1, 1), 1, IMAGE),
    "DenseNet's": (AVERAGE, (2, 5, 56, 56), (2, 2), (0, 0), (2, 2), 0, MASK),
}
ELSEWHERE = {
    "one position": (MAX, (1, 1, 1, 1), (1, 1), (0, 0), (1, 1), 0, MASK),
    "pads at both ends": (AVERAGE, (1, 3, 40, 41), (5, 5), (2, 2), (1, 1), 0, MASK),
    "windows apart": (MAX, (2, 3, 41, 47), (2, 2), (1, 1), (5, 5), 1, IMAGE),
    "3-D, mask": (MAX, (1, 3, 8, 20, 20), (2, 3, 3), (1, 1, 1), (2, 2, 2), 0, MASK),
    "3-D, image": (MAX, (1, 3, 8, 20, 20), (3, 3, 3), (0, 1, 1), (1, 1, 1), 2, IMAGE),
    "3-D, average": (AVERAGE, (1, 3, 8, 20, 20), (3, 3, 3), (0, 1, 1), (1, 2, 2), 0, MASK),
    "one window, wide pads": (MAX, (2, 3, 5, 3), (9, 7), (4, 4), (3, 3), 3, MASK),
    "one window, wide pads, average": (AVERAGE, (2, 3, 5, 3), (9, 7), (4, 4), (3, 3), 0, MASK),
}


def problem_of(shape, dtype, layout="packed"):
    mode, x, windows, pads, strides, index_type, index_mode = shape
    pool = PoolingDescriptor(mode, windows, pads, strides, index_type, index_mode)
    y = pool.output_lens(TensorDescriptor(dtype, x))
    return (pool, *(TensorDescriptor(dtype, lens, strides_of(lens, layout)) for lens in (x, y)))


@pytest.mark.some(8, host=99)
@pytest.mark.parametrize("name", [*SHAPES, *ELSEWHERE])
def test_shapes(handle, rng, name):
    check_pooling(handle, *problem_of({**SHAPES, **ELSEWHERE}[name], "float32"), rng)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("mode", [MAX, AVERAGE])
def test_channels_last(handle, rng, mode, dtype):
    check_pooling(handle, *problem_of((mode, (2, 21, 9, 70), (3, 3), (1, 1), (2, 1), 1, mode), dtype, "channels last"),
                  rng)


def test_both_layouts_give_the_same_workspace(handle, rng):
    """What one layout left is read by a backward pass in another: indices are packed in n c h w order."""
    pool, x, y = problem_of((MAX, (2, 19, 11, 13), (3, 3), (1, 1), (2, 2), 0, MASK), "float32")
    _, x_last, y_last = problem_of((MAX, (2, 19, 11, 13), (3, 3), (1, 1), (2, 2), 0, MASK), "float32", "channels last")
    values = rng.standard_normal(x.lens).astype("f4")
    kept = []
    for x_desc, y_desc in ((x, y), (x_last, y_last)):
        space = Guarded(handle, miopyx.miopenPoolingGetWorkSpaceSizeV2(pool, y_desc), 0xFF)
        out = Tensor(handle, y_desc, None)
        handle.pooling_forward(pool, x_desc, y_desc, True)(
            Tensor(handle, x_desc, values).argument(), out.argument(), space.argument())
        handle.finish()
        kept.append(space.fetch().copy())
    np.testing.assert_array_equal(*kept)


@pytest.mark.each
@pytest.mark.parametrize("gap", [1, 2, 4])
@pytest.mark.parametrize("mode", [MAX, AVERAGE])
def test_rows_with_gaps_on_gpus(opencl_name, as_gpu, rng, mode, gap):
    """In one tensor, so that only the other one's rows are made of vectors."""
    for step in (1, 2):
        for gapped in (1, 2):
            every = list(problem_of((mode, (2, 3, 8, 16), (3, 3), (1, 1), (step, step), 0, MASK), "float32"))
            n, c, h, w = every[gapped].lens
            row = w + gap
            every[gapped] = TensorDescriptor("float32", (n, c, h, w), (c * h * row, h * row, row, 1))
            check_pooling(as_gpu(opencl_name), *every, rng)


@pytest.mark.some(1)
@pytest.mark.parametrize("mode", [MAX, AVERAGE, INCLUSIVE])
def test_kernels_for_gpus(opencl_name, as_gpu, rng, mode, amount, request):
    handle = as_gpu(opencl_name)

    def some(cases, few):
        return [cases[i] for i in rng.permutation(len(cases))[:amount(few, len(cases))]]

    for layout in ("packed", "channels last"):
        check_pooling(handle, *problem_of((mode, (2, 9, 13, 12), (3, 2), (1, 0), (2, 1), 0, mode % 2), "float32",
                                          layout), rng)
    check_pooling(handle, *problem_of((mode, (2, 9, 13, 12), (15, 14), (1, 2), (1, 3), 1, MASK), "float32"), rng)
    every = [((2, 3, 12, 14), (3, 3), (1, 1), (2, 2), "float16"), ((2, 2, 9, 11), (3, 3), (1, 1), (1, 1), "bfloat16"),
             ((1, 3, 7, 8), (2, 2), (0, 0), (2, 2), "float32"), ((1, 2, 17, 16), (5, 4), (2, 3), (3, 4), "float32"),
             ((2, 9, 10, 9), (1, 5), (0, 4), (4, 1), "float64"), ((3, 5, 7, 7), (7, 7), (0, 0), (1, 1), "float16"),
             ((2, 3, 3, 3), (5, 5), (1, 1), (1, 1), "float32")]
    for shape, window, pad, step, dtype in some(every, 3):
        if dtype == "float64" and not handle.device.fp64:
            continue
        index_mode = [MASK, IMAGE][int(rng.integers(2))]
        check_pooling(handle, *problem_of((mode, shape, window, pad, step, int(rng.integers(1, 4)), index_mode), dtype),
                      rng)
    # Vectors of channels, of columns, and of whole images.
    every = [("channels last", (2, 24, 9, 14), (3, 3), (1, 1), (2, 2)),
             ("channels last", (1, 40, 7, 6), (3, 3), (1, 1), (1, 1)),
             ("channels last", (2, 20, 8, 11), (2, 3), (0, 2), (2, 1)),
             ("channels last", (3, 72, 5, 4), (5, 4), (0, 0), (1, 1)),
             ("packed", (2, 3, 9, 16), (3, 3), (1, 1), (2, 2)), ("packed", (2, 2, 7, 12), (3, 3), (1, 1), (1, 1)),
             ("packed", (1, 3, 10, 16), (2, 2), (0, 0), (2, 2)), ("packed", (2, 2, 6, 8), (3, 5), (0, 2), (1, 1))]
    for layout, shape, window, pad, step in some(every[:4], 2) + some(every[4:], 2):
        dtype = ("float32", "float16", "bfloat16")[rng.integers(3)]
        problem = (mode, shape, window, pad, step, 0, [MASK, IMAGE][int(rng.integers(2))])
        check_pooling(handle, *problem_of(problem, dtype, layout), rng)
    for _ in range(max(1, request.config.getoption("--configurations") // 200)):
        check_pooling(handle, *random_problem(rng, str(rng.choice(FLOATS))), rng)


def test_values_that_are_no_numbers(handle, rng):
    """NaN is never a maximum, -inf is one, and where nothing is above -inf the index is 0."""
    for shape in ((1, 2, 20, 40), (1, 16, 20, 40)):
        values = rng.choice([-np.inf, -np.inf, np.inf, np.nan, 1.0, -1.0, 0.0, -3.4e38], shape)
        values[0, 0, 2:9, 3:30] = -np.inf
        values[0, 1, 2:9, 3:30] = np.nan
        layout = "channels last" if shape[1] == 16 else "packed"
        pool, x_desc, y_desc = problem_of((MAX, shape, (3, 3), (1, 1), (1, 1), 1, IMAGE), "float32", layout)
        check_pooling(handle, pool, x_desc, y_desc, rng, values)
        want, indices = forward_reference(pool, values, y_desc.lens)
        assert (indices[0, :2, 4:7, 5:27] == 0).all()
        assert (want[0, :2, 4:7, 5:27] == -np.inf).all()
    pool, x_desc, y_desc = problem_of((MAX, (2, 3, 5, 7), (5, 7), (0, 0), (1, 1), 0, MASK), "float32")
    check_pooling(handle, pool, x_desc, y_desc, rng, np.full(x_desc.lens, np.nan))


def test_averages_keep_inf_and_nan_to_their_windows(handle, rng):
    pool, x_desc, y_desc = problem_of((AVERAGE, (1, 2, 20, 40), (3, 3), (1, 1), (1, 1), 0, MASK), "float32")
    values = rng.standard_normal(x_desc.lens)
    values[0, 0, 0, 39], values[0, 0, 7, 0], values[0, 1, 19, 39] = np.nan, np.inf, -np.inf
    x, y = Tensor(handle, x_desc, values.astype("f4")), Tensor(handle, y_desc, None)
    handle.pooling_forward(pool, x_desc, y_desc)(x.argument(), y.argument())
    handle.finish()
    np.testing.assert_allclose(y.values(), forward_reference(pool, values, y_desc.lens)[0], 1e-5, 1e-6)


@pytest.mark.parametrize("shape", [(MAX, (2, 3, 33, 35), (3, 3), (1, 1), (2, 2), 2, IMAGE),
                                   (MAX, (2, 3, 33, 35), (3, 3), (1, 1), (2, 2), 0, MASK),
                                   (MAX, (2, 3, 33, 35), (3, 3), (0, 0), (2, 2), 3, IMAGE),
                                   (MAX, (2, 3, 33, 35), (3, 4), (2, 1), (2, 3), 0, MASK),
                                   (MAX, (2, 3, 5, 9, 8), (3, 3, 2), (1, 1, 1), (2, 2, 2), 1, MASK),
                                   (MAX, (2, 3, 5, 9, 8), (3, 2, 3), (1, 0, 2), (2, 3, 2), 1, IMAGE),
                                   (MAX, (2, 16, 9, 9), (3, 3), (1, 1), (1, 1), 0, MASK),
                                   (MAX, (2, 16, 9, 9), (3, 3), (1, 1), (2, 2), 0, IMAGE),
                                   (MAX, (2, 3, 6, 6), (6, 6), (0, 0), (1, 1), 2, MASK)], ids=str)
def test_a_workspace_of_garbage(handle, rng, shape):
    """Only indices that name an element of their window count, and nothing outside dx is written."""
    pool, x_desc, y_desc = problem_of(shape, "float32", "channels last" if shape[1][1] == 16 else "packed")
    index_type = INDEX[pool.workspace_index_type]
    near = np.prod(pool.windows) if shape[-1] == MASK else np.prod(x_desc.lens[2:])
    indices = np.where(rng.integers(2, size=y_desc.lens), rng.integers(0, near + 2, y_desc.lens),
                       rng.integers(0, 2**31 - 1, y_desc.lens)).astype(index_type)
    space = Guarded(handle, indices.nbytes, 0)
    space.inner[...] = indices.view("u1").reshape(-1)
    values = rng.standard_normal(y_desc.lens).astype("f4")
    dy, dx = Tensor(handle, y_desc, values), Tensor(handle, x_desc, None)
    handle.pooling_backward(pool, y_desc, y_desc, x_desc, x_desc)(dy.argument(), dx.argument(), space.argument())
    handle.finish()
    exact = values.astype("f8")
    check_sum(dx.values(), backward_reference(pool, exact, indices, x_desc.lens),
              backward_reference(pool, np.abs(exact), indices, x_desc.lens), np.prod(pool.windows), "float32", shape)


HALVED = [(112, 112), (33, 35), (14, 14), (13, 7), (2, 90), (1, 1), (17, 31), (29, 64)]


@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("lens", HALVED, ids=str)
def test_halving(handle, rng, lens, layout):
    """Windows of 3 x 3 and strides of 2, whose gradient some kernels know, at all kinds of ends of rows."""
    x = (2, 3 if layout == "packed" else 19, *lens)
    for pads in ((1, 1), (0, 0)):
        if min(lens) + 2 * min(pads) >= 3:
            check_pooling(handle, *problem_of((MAX, x, (3, 3), pads, (2, 2), 0, MASK), "float32", layout), rng)


@pytest.mark.parametrize(("dtype", "index_type", "mode"), [("float16", 1, IMAGE), ("bfloat16", 2, MASK),
                                                           ("float64", 3, IMAGE)])
def test_halving_in_other_types(handle, rng, dtype, index_type, mode):
    check_pooling(handle, *problem_of((MAX, (2, 3, 33, 35), (3, 3), (1, 1), (2, 2), index_type, mode), dtype), rng)


@pytest.mark.some(3, host=9)
@pytest.mark.parametrize(("lens", "windows", "pads", "strides", "mode"), [
    ((15, 16), (3, 3), (1, 1), (1, 1), IMAGE), ((20, 300), (3, 3), (1, 1), (2, 2), MASK),
    ((21, 23), (4, 2), (3, 1), (1, 2), MASK), ((20, 19), (1, 2), (0, 0), (3, 2), MASK),
    ((14, 14), (3, 3), (2, 2), (2, 2), IMAGE)], ids=str)
def test_channels_last_with_small_indices(handle, rng, lens, windows, pads, strides, mode):
    """Indices of 8 bits, in which channels run slowest, in all kinds of windows."""
    dtype = str(rng.choice(["float32", "float16"]))
    check_pooling(handle, *problem_of((MAX, (2, 37, *lens), windows, pads, strides, 0, mode), dtype, "channels last"),
                  rng)


@pytest.mark.parametrize(("mode", "x", "windows", "pads"), [
    (AVERAGE, (3, 149, 7, 7), (7, 7), (0, 0)), (INCLUSIVE, (2, 261, 3, 5), (7, 9), (3, 2)),
    (AVERAGE, (2, 9, 6, 5), (6, 5), (0, 0)), (MAX, (2, 150, 4, 6), (5, 7), (1, 1)),
    (AVERAGE, (2, 128, 2, 3, 4), (2, 3, 4), (0, 0, 0))], ids=str)
def test_global_with_channels_last(handle, rng, mode, x, windows, pads):
    dtype = str(rng.choice(["float32", "float16"]))
    check_pooling(handle, *problem_of((mode, x, windows, pads, windows, 0, MASK), dtype, "channels last"), rng)


def test_against_torch(handle, rng):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    for mode, k, s, p in ((MAX, 3, 2, 1), (MAX, 3, 1, 1), (INCLUSIVE, 3, 1, 1), (AVERAGE, 2, 2, 0), (AVERAGE, 5, 1, 2)):
        x_desc = TensorDescriptor("float32", (2, 4, int(rng.integers(35, 60)), int(rng.integers(35, 60))))
        pool = PoolingDescriptor(mode, (k, k), (p, p), (s, s))
        y_desc = TensorDescriptor("float32", pool.output_lens(x_desc))
        x = torch.tensor(rng.standard_normal(x_desc.lens), requires_grad=True)
        y = (functional.max_pool2d(x, k, s, p) if mode == MAX else
             functional.avg_pool2d(x, k, s, p, count_include_pad=mode == INCLUSIVE))
        dy_values = rng.standard_normal(y_desc.lens)
        y.backward(torch.tensor(dy_values))
        x_data = handle.upload(x.detach().numpy().astype("f4"))
        y_data, dx_data = (handle.upload(np.full(d.lens, np.nan, "f4")) for d in (y_desc, x_desc))
        space = [handle.upload(np.zeros(y_desc.lens, "u1"))] if mode == MAX else []
        handle.pooling_forward(pool, x_desc, y_desc, True)(x_data, y_data, *space)
        handle.pooling_backward(pool, y_desc, y_desc, x_desc, x_desc)(
            handle.upload(dy_values.astype("f4")), dx_data, *space)
        # A sum of at most 25 numbers around 1, each rounded: 28 roundoffs of a size below 100.
        got = handle.download(y_data, np.empty(y_desc.lens, "f4"))
        np.testing.assert_allclose(got, y.detach().numpy(), 0, 28 * 100 * 2.0**-24)
        got = handle.download(dx_data, np.empty(x_desc.lens, "f4"))
        np.testing.assert_allclose(got, x.grad.numpy(), 0, 28 * 100 * 2.0**-24)


def test_threads_do_not_change_the_host_result(setting, rng):
    pool, x_desc, y_desc = problem_of((AVERAGE, (2, 32, 40, 40), (3, 3), (1, 1), (1, 1), 0, MASK), "float32")
    x, results = rng.standard_normal(x_desc.lens).astype("f4"), []
    for threads in (1, 2, 3):
        setting(MIOPYX_NUM_THREADS=threads)
        y = np.full(y_desc.lens, np.nan, "f4")
        with miopyx.Handle("host") as handle:
            handle.pooling_forward(pool, x_desc, y_desc)(x, y)
        results.append(y)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_a_handle_is_shared_by_threads(handle, rng):
    pool, x_desc, y_desc = problem_of(SHAPES["inception's"], "float32")
    plan = handle.pooling_forward(pool, x_desc, y_desc)
    x = rng.standard_normal((4, *x_desc.lens)).astype("f4")
    wrong = []

    def work(i):
        source, want = handle.upload(x[i]), forward_reference(pool, x[i].astype("f8"), y_desc.lens)[0]
        for _ in range(5):
            target = handle.upload(np.full(y_desc.lens, np.nan, "f4"))
            plan(source, target)
            if not np.array_equal(handle.download(target, np.empty(y_desc.lens, "f4")), want):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_one_descriptor_many_calls(handle, rng):
    """Calls that differ in what no descriptor says, and in a descriptor that is set anew, are not mixed up."""
    pool, x_desc, y_desc = problem_of((MAX, (1, 2, 56, 56), (2, 2), (0, 0), (2, 2), 0, MASK), "float32")
    for _ in range(2):
        check_pooling(handle, pool, x_desc, y_desc, rng)
        miopyx.miopenSet2dPoolingDescriptor(pool, AVERAGE, 2, 2, 0, 0, 2, 2)
        check_pooling(handle, pool, x_desc, y_desc, rng)
        miopyx.miopenSet2dPoolingDescriptor(pool, MAX, 2, 2, 0, 0, 2, 2)
        miopyx.miopenSetPoolingIndexType(pool, 2)
        miopyx.miopenSetPoolingWorkSpaceIndexMode(pool, IMAGE)
        check_pooling(handle, pool, x_desc, y_desc, rng)
        miopyx.miopenSet2dPoolingDescriptor(pool, MAX, 2, 2, 0, 0, 2, 2)


# Descriptors


def test_descriptor():
    pool = miopyx.miopenCreatePoolingDescriptor()
    assert isinstance(pool, PoolingDescriptor)
    assert repr(pool) == "<PoolingDescriptor never set>"
    assert pool.spatial_dim == 0
    assert miopyx.miopenGetPoolingIndexType(pool) is miopyx.miopenIndexUint8
    assert miopyx.miopenGetPoolingWorkSpaceIndexMode(pool) is miopyx.miopenPoolingWorkspaceIndexMask
    assert miopyx.miopenSet2dPoolingDescriptor(pool, miopyx.miopenPoolingAverage, 5, 4, 3, 2, 1, 7) is None
    assert miopyx.miopenGet2dPoolingDescriptor(pool) == (miopyx.miopenPoolingAverage, 5, 4, 3, 2, 1, 7)
    assert miopyx.miopenGetNdPoolingDescriptor(pool, 2) == (miopyx.miopenPoolingAverage, 2, (5, 4), (3, 2), (1, 7))
    assert miopyx.miopenGetNdPoolingDescriptor(pool, 1) == (miopyx.miopenPoolingAverage, 2, (5,), (3,), (1,))
    assert miopyx.miopenSetPoolingIndexType(pool, miopyx.miopenIndexUint64) is None
    assert miopyx.miopenSetPoolingWorkSpaceIndexMode(pool, miopyx.miopenPoolingWorkspaceIndexImage) is None
    assert miopyx.miopenGetPoolingIndexType(pool) is miopyx.miopenIndexUint64
    assert miopyx.miopenGetPoolingWorkSpaceIndexMode(pool) is miopyx.miopenPoolingWorkspaceIndexImage
    assert repr(pool) == ("PoolingDescriptor(mode='miopenPoolingAverage', windows=(5, 4), pads=(3, 2), strides=(1, 7), "
                          "index_type='miopenIndexUint64', "
                          "index_mode='miopenPoolingWorkspaceIndexImage')")
    miopyx.miopenSetNdPoolingDescriptor(pool, miopyx.miopenPoolingMax, 3, (2, 3, 4), (0, 1, 2), (3, 2, 1))
    assert miopyx.miopenGetNdPoolingDescriptor(pool, 3) == (miopyx.miopenPoolingMax, 3, (2, 3, 4), (0, 1, 2), (3, 2, 1))
    assert miopyx.miopenGetPoolingIndexType(pool) is miopyx.miopenIndexUint8
    assert miopyx.miopenGetPoolingWorkSpaceIndexMode(pool) is miopyx.miopenPoolingWorkspaceIndexImage
    miopyx.miopenSetNdPoolingDescriptor(pool, miopyx.miopenPoolingMax, 2, np.array([2, 3]), [0, 1], (3, 2))
    assert miopyx.miopenGetPoolingWorkSpaceIndexMode(pool) is miopyx.miopenPoolingWorkspaceIndexMask
    assert miopyx.miopenDestroyPoolingDescriptor(pool) is None
    assert miopyx.miopenDestroyPoolingDescriptor(None) is None
    with pytest.raises(miopyx.BadParmError, match="destroyed"):
        miopyx.miopenGet2dPoolingDescriptor(pool)


def test_constructor():
    pool = PoolingDescriptor(windows=(3, 2))
    assert (pool.pooling_mode, pool.windows, pool.pads, pool.strides) == (MAX, (3, 2), (0, 0), (1, 1))
    assert pool.spatial_dim == 2
    assert PoolingDescriptor(1).pooling_mode is miopyx.miopenPoolingAverage
    for wrong in ({"pads": (1, 1)}, {"strides": (1, 1)}, {"windows": 3}, {"windows": (3,)}, {"windows": (1,) * 4},
                  {"windows": (3, 3), "pads": (1,)}, {"mode": 3}, {"windows": (3, 3), "index_type": 4}):
        with pytest.raises(miopyx.BadParmError):
            PoolingDescriptor(**wrong)


@pytest.mark.parametrize(("arguments", "parameter"), [
    ((3, 3, 3, 1, 1, 2, 2), "mode"), ((-1, 3, 3, 1, 1, 2, 2), "mode"), ((True, 3, 3, 1, 1, 2, 2), "mode"),
    ((0, 0, 3, 0, 1, 2, 2), "windowHeight, windowWidth[0]"), ((0, 3, -1, 0, 0, 2, 2), "windowHeight, windowWidth[1]"),
    ((0, 3, 3, -1, 1, 2, 2), "pad_h, pad_w[0]"), ((0, 3, 3, 1, 3, 2, 2), "pad_h, pad_w[1]"),
    ((0, 3, 3, 1, 1, 0, 2), "stride_h, stride_w[0]"), ((0, 3, 3, 1, 1, 2, -2), "stride_h, stride_w[1]"),
    ((0, 3.0, 3, 1, 1, 2, 2), "windowHeight, windowWidth[0]"),
    ((0, 3, 3, 1, 1, 2, 2**31), "stride_h, stride_w[1]"),
])
def test_a_failing_setter_changes_nothing(arguments, parameter):
    pool = PoolingDescriptor(AVERAGE, (4, 5), (1, 2), (2, 1), 2, IMAGE)
    before = repr(pool)
    with pytest.raises(miopyx.BadParmError) as raised:
        miopyx.miopenSet2dPoolingDescriptor(pool, *arguments)
    assert raised.value.parameter == parameter
    assert repr(pool) == before


@pytest.mark.parametrize(("call", "error"), [
    (lambda p: miopyx.miopenSetNdPoolingDescriptor(p, 0, 1, (3,), (0,), (1,)), miopyx.BadParmError),
    (lambda p: miopyx.miopenSetNdPoolingDescriptor(p, 0, 4, (3,) * 4, (0,) * 4, (1,) * 4), miopyx.BadParmError),
    (lambda p: miopyx.miopenSetNdPoolingDescriptor(p, 0, 2, (3, 3, 3), (0, 0), (1, 1)), miopyx.BadParmError),
    (lambda p: miopyx.miopenSetNdPoolingDescriptor(p, 0, 2, None, (0, 0), (1, 1)), miopyx.BadParmError),
    (lambda p: miopyx.miopenSetPoolingIndexType(p, 4), miopyx.BadParmError),
    (lambda p: miopyx.miopenSetPoolingIndexType(p, -1), miopyx.BadParmError),
    (lambda p: miopyx.miopenSetPoolingWorkSpaceIndexMode(p, 2), miopyx.BadParmError),
    (lambda p: miopyx.miopenGetNdPoolingDescriptor(p, 4), miopyx.UnknownError),
    (lambda p: miopyx.miopenGetNdPoolingDescriptor(p, -1), miopyx.BadParmError),
    (lambda p: miopyx.miopenGet2dPoolingDescriptor(PoolingDescriptor(0, (1, 1, 1))), miopyx.BadParmError),
    (lambda p: miopyx.miopenGet2dPoolingDescriptor(PoolingDescriptor()), miopyx.BadParmError),
    (lambda p: miopyx.miopenGet2dPoolingDescriptor(None), miopyx.BadParmError),
    (lambda p: miopyx.miopenGetPoolingIndexType(TensorDescriptor()), miopyx.BadParmError),
])
def test_refused_by_setters_and_getters(call, error):
    pool = PoolingDescriptor(AVERAGE, (4, 5), (1, 2), (2, 1), 2, IMAGE)
    before = repr(pool)
    with pytest.raises(error):
        call(pool)
    assert repr(pool) == before


def test_output_dims():
    pool = PoolingDescriptor(MAX, (3, 2), (1, 0), (2, 3))
    x = TensorDescriptor("float32", (4, 5, 10, 11))
    assert miopyx.miopenGetPoolingForwardOutputDim(pool, x) == (4, 5, 5, 4)
    assert miopyx.miopenGetPoolingNdForwardOutputDim(pool, x, 4) == (4, 5, 5, 4) == pool.output_lens(x)
    # A window larger than the padded input counts as one output.
    small = TensorDescriptor("float32", (4, 5, 10, 1))
    assert miopyx.miopenGetPoolingForwardOutputDim(pool, small) == (4, 5, 5, 1)
    cube, deep = PoolingDescriptor(MAX, (2, 2, 2), None, (2, 2, 2)), TensorDescriptor("float32", (1, 2, 4, 5, 6))
    assert miopyx.miopenGetPoolingNdForwardOutputDim(cube, deep, 5) == (1, 2, 2, 2, 3)
    for call in (lambda: miopyx.miopenGetPoolingForwardOutputDim(cube, deep),
                 lambda: miopyx.miopenGetPoolingForwardOutputDim(pool, deep),
                 lambda: miopyx.miopenGetPoolingForwardOutputDim(pool, TensorDescriptor()),
                 lambda: miopyx.miopenGetPoolingForwardOutputDim(PoolingDescriptor(), x),
                 lambda: miopyx.miopenGetPoolingForwardOutputDim(pool, None),
                 lambda: miopyx.miopenGetPoolingNdForwardOutputDim(pool, x, 5),
                 lambda: miopyx.miopenGetPoolingNdForwardOutputDim(pool, x, 2)):
        with pytest.raises(miopyx.BadParmError):
            call()


def test_workspace_sizes():
    y = TensorDescriptor("float16", (2, 3, 4, 5), (120, 40, 10, 2))
    assert miopyx.miopenPoolingGetWorkSpaceSize(y) == 120
    for index_type, size in enumerate((1, 2, 4, 8)):
        assert miopyx.miopenPoolingGetWorkSpaceSizeV2(PoolingDescriptor(MAX, (2, 2), index_type=index_type),
                                                      y) == 120 * size
    assert miopyx.miopenPoolingGetWorkSpaceSizeV2(PoolingDescriptor(AVERAGE, (2, 2)), y) == 0
    with pytest.raises(miopyx.BadParmError):
        miopyx.miopenPoolingGetWorkSpaceSize(TensorDescriptor())
    with pytest.raises(miopyx.BadParmError):
        miopyx.miopenPoolingGetWorkSpaceSizeV2(None, y)


# What the operations refuse

X, Y = TensorDescriptor("float32", (2, 3, 8, 8)), TensorDescriptor("float32", (2, 3, 4, 4))
POOL = PoolingDescriptor(MAX, (2, 2), (0, 0), (2, 2))


def forward(handle, pool=POOL, x_desc=X, y_desc=Y, alpha=1, beta=0, save=True, **replaced):
    """Run forward on fresh buffers that fit, or what replaces them."""
    given = {"x": np.ones(x_desc.nbytes, "u1").view(DTYPE[x_desc.dtype]),
             "y": np.full(y_desc.nbytes, 0xFF, "u1").view(DTYPE[y_desc.dtype]),
             "space": np.zeros(8 * max(1, int(np.prod(y_desc.lens))), "u1")}
    given = {name: replaced.get(name, handle.upload(value)) for name, value in given.items()}
    size = replaced.get("size", 8 * int(np.prod(y_desc.lens)))
    miopyx.miopenPoolingForward(handle, pool, alpha, x_desc, given["x"], beta, y_desc, given["y"], save,
                                given["space"], size)


def backward(handle, pool=POOL, x_desc=X, y_desc=Y, alpha=1, beta=0, y_other=None, x_other=None, **replaced):
    given = {"dy": np.ones(y_desc.nbytes, "u1").view(DTYPE[y_desc.dtype]),
             "dx": np.full(x_desc.nbytes, 0xFF, "u1").view(DTYPE[x_desc.dtype]),
             "space": np.zeros(8 * max(1, int(np.prod(y_desc.lens))), "u1")}
    given = {name: replaced.get(name, handle.upload(value)) for name, value in given.items()}
    miopyx.miopenPoolingBackward(handle, pool, alpha, y_other or y_desc, None, y_desc, given["dy"], x_other or x_desc,
                                 None, beta, x_desc, given["dx"], given["space"])


def tensor(dtype, *lens):
    return TensorDescriptor(dtype, lens)


BOTH = {
    "alpha": ({"alpha": 2}, miopyx.UnknownError, "alpha"),
    "beta": ({"beta": 0.5}, miopyx.UnknownError, "beta"),
    "a text for alpha": ({"alpha": "1"}, miopyx.BadParmError, "alpha"),
    "three dimensions": ({"x_desc": tensor("float32", 2, 3, 8), "y_desc": tensor("float32", 2, 3, 4)},
                         miopyx.UnknownError, None),
    "six dimensions": ({"x_desc": tensor("float32", 2, 3, 8, 8, 1, 1)}, miopyx.UnknownError, None),
    "rank of the descriptor": ({"x_desc": tensor("float32", 2, 3, 1, 8, 8)}, miopyx.BadParmError, None),
    "rank of y": ({"y_desc": tensor("float32", 2, 3, 1, 4, 4)}, miopyx.BadParmError, None),
    "lengths of y": ({"y_desc": tensor("float32", 2, 3, 4, 5)}, miopyx.BadParmError, None),
    "channels of y": ({"y_desc": tensor("float32", 2, 4, 4, 4)}, miopyx.BadParmError, None),
    "types differ": ({"y_desc": tensor("float16", 2, 3, 4, 4)}, miopyx.MIOpenNotImplementedError, None),
    "int8": ({"x_desc": tensor("int8", 2, 3, 8, 8), "y_desc": tensor("int8", 2, 3, 4, 4)},
             miopyx.MIOpenNotImplementedError, None),
    "window beyond the padded input": ({"pool": PoolingDescriptor(MAX, (2, 9), (0, 0), (2, 2)),
                                        "y_desc": tensor("float32", 2, 3, 4, 1)}, miopyx.BadParmError, None),
    "empty pooling descriptor": ({"pool": PoolingDescriptor()}, miopyx.BadParmError, "poolDesc"),
    "no pooling descriptor": ({"pool": None}, miopyx.BadParmError, "poolDesc"),
    "index type, mask": ({"pool": PoolingDescriptor(MAX, (15, 17), index_type=0),
                          "x_desc": tensor("float32", 1, 1, 15, 17), "y_desc": tensor("float32", 1, 1, 1, 1)},
                         miopyx.UnknownError, "poolDesc"),
    "index type, image": ({"pool": PoolingDescriptor(MAX, (1, 1), index_type=1, index_mode=IMAGE),
                           "x_desc": tensor("float32", 1, 1, 255, 257), "y_desc": tensor("float32", 1, 1, 255, 257)},
                          miopyx.UnknownError, "poolDesc"),
}


@pytest.mark.parametrize("name", BOTH)
def test_refused_both_ways(handle, name):
    changed, error, parameter = BOTH[name]
    for run in (forward, backward):
        with pytest.raises(error) as raised:
            run(handle, **changed)
        assert type(raised.value) is error
        assert parameter is None or raised.value.parameter == parameter
    if "alpha" not in changed and "beta" not in changed:
        pool, x, y = (changed.get(k, v) for k, v in (("pool", POOL), ("x_desc", X), ("y_desc", Y)))
        with pytest.raises(error):
            handle.pooling_forward(pool, x, y, True)
        with pytest.raises(error):
            handle.pooling_backward(pool, y, y, x, x)


FORWARD = {
    "no workspace": ({"space": None}, miopyx.UnknownError, "workSpace"),
    "workspace too small": ({"size": 95}, miopyx.BadParmError, "workSpaceSize"),
    "workspace too small for its type": ({"pool": PoolingDescriptor(MAX, (2, 2), (0, 0), (2, 2), 2), "size": 383},
                                         miopyx.BadParmError, "workSpaceSize"),
    "workspace of negative size": ({"size": -1}, miopyx.BadParmError, "workSpaceSize"),
    "do_backward is no bool": ({"save": "yes"}, miopyx.BadParmError, "do_backward"),
    "no x": ({"x": None}, miopyx.BadParmError, "x"),
    "no y": ({"y": None}, miopyx.BadParmError, "y"),
    "strides of y overlap": ({"y_desc": TensorDescriptor("float32", Y.lens, (48, 16, 4, 4))}, miopyx.BadParmError,
                             "yDesc"),
}


@pytest.mark.parametrize("name", FORWARD)
def test_refused_forward(handle, name):
    changed, error, parameter = FORWARD[name]
    with pytest.raises(error) as raised:
        forward(handle, **changed)
    assert type(raised.value) is error
    assert raised.value.parameter == parameter


BACKWARD = {
    "no workspace": ({"space": None}, miopyx.BadParmError, "workSpace"),
    "no dy": ({"dy": None}, miopyx.BadParmError, "dy"),
    "no dx": ({"dx": None}, miopyx.BadParmError, "dx"),
    "another y": ({"y_other": tensor("float32", 2, 3, 4, 5)}, miopyx.BadParmError, "yDesc"),
    "another x": ({"x_other": tensor("float32", 2, 3, 8)}, miopyx.BadParmError, "xDesc"),
    "strides of dx overlap": ({"x_desc": TensorDescriptor("float32", X.lens, (192, 64, 8, 8))}, miopyx.BadParmError,
                              "dxDesc"),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_refused_backward(handle, name):
    changed, error, parameter = BACKWARD[name]
    with pytest.raises(error) as raised:
        backward(handle, **changed)
    assert type(raised.value) is error
    assert raised.value.parameter == parameter


def test_refused_buffers(handle):
    space = handle.upload(np.zeros(95, "u1"))
    for run in (forward, backward):
        with pytest.raises(miopyx.BadParmError) as raised:
            run(handle, space=space)
        assert raised.value.parameter == "workSpace"
    shared = handle.upload(np.zeros(X.lens, "f4"))
    with pytest.raises(miopyx.BadParmError, match="shares memory"):
        forward(handle, x=shared, y=shared)
    with pytest.raises(miopyx.BadParmError, match="shares memory"):
        forward(handle, x=shared, space=shared)
    with pytest.raises(miopyx.BadParmError, match="shares memory"):
        backward(handle, dx=shared, space=shared)


def test_a_workspace_beside_the_grid_of_its_indices(opencl_handle):
    """A buffer's offset counts elements in a kernel; what cannot be counted so is refused."""
    import pyopencl.array as cl_array

    if opencl_handle.device.info.cuda >= 0:
        pytest.skip("by pyopencl")
    pool = PoolingDescriptor(MAX, (2, 2), (0, 0), (2, 2), 2)
    space = cl_array.zeros(opencl_handle.queue, (500,), np.uint8)[1:]
    for run in (forward, backward):
        with pytest.raises(miopyx.BadParmError, match="misaligned"):
            run(opencl_handle, pool=pool, space=space)


def test_largest_volumes_of_index_types(handle, rng):
    """The largest number of the type stays unused."""
    check_pooling(handle, *problem_of((MAX, (2, 2, 2, 127), (2, 127), (0, 0), (1, 1), 0, MASK), "float32"), rng)
    check_pooling(handle, *problem_of((MAX, (1, 2, 2, 127), (1, 2), (0, 0), (1, 1), 0, IMAGE), "float32"), rng)


def test_averages_take_no_workspace(handle):
    pool = PoolingDescriptor(AVERAGE, (2, 2), (0, 0), (2, 2))
    forward(handle, pool=pool, space=None, size=0)
    forward(handle, pool=pool, space=object(), size=None)
    backward(handle, pool=pool, space=None)
    forward(handle, save=False, space=None, size=0)
    forward(handle, save=0, space=None, size=0)
    assert handle.pooling_forward(pool, X, Y, True).buffers == ("x", "y")
    assert handle.pooling_forward(POOL, X, Y, True).buffers == ("x", "y", "workSpace")
    assert handle.pooling_backward(POOL, Y, Y, X, X).buffers == ("dy", "dx", "workSpace")
    assert handle.pooling_backward(pool, Y, Y, X, X).buffers == ("dy", "dx")


def test_a_plan_of_another_mode(handle):
    pool = PoolingDescriptor(MAX, (2, 2), (0, 0), (2, 2))
    plan = handle.pooling_forward(pool, X, Y)
    x, y = (handle.upload(np.zeros(d.lens, "f4")) for d in (X, Y))
    plan(x, y)
    miopyx.miopenSetPoolingIndexType(pool, 3)  # without indices that changes nothing
    plan(x, y)
    miopyx.miopenSet2dPoolingDescriptor(pool, AVERAGE, 2, 2, 0, 0, 2, 2)
    with pytest.raises(miopyx.BadParmError) as raised:
        plan(x, y)
    assert raised.value.parameter == "pool_desc"
    assert "Pooling" in plan.explain()


@pytest.mark.parametrize("wrong", [np.array([1, 2]), "1", None, object()])
def test_scalars_that_are_no_numbers(handle, wrong):
    pool, x = PoolingDescriptor(0, (2, 2), (0, 0), (2, 2)), TensorDescriptor("float32", (1, 1, 4, 4))
    y = TensorDescriptor("float32", (1, 1, 2, 2))
    data, result = (handle.upload(np.zeros(d.lens, np.float32)) for d in (x, y))
    for alpha, beta in ((wrong, 0), (1, wrong)):
        with pytest.raises(miopyx.BadParmError):
            miopyx.miopenPoolingForward(handle, pool, alpha, x, data, beta, y, result, False, None, 0)
