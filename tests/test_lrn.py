"""Local response normalisation against sums over shifted slices in NumPy, and against PyTorch's gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import miopyx
from miopyx import LRNDescriptor, TensorDescriptor
from miopyx.problem._lrn import LRNProblem

WITHIN, CROSS = 0, 1
DTYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in ("float16", "float32", "bfloat16", "float64")}
# Half of an ulp of 1: what rounding once costs at most, relative to the result.
ROUNDOFF = {"float16": 2.0**-11, "float32": 2.0**-24, "bfloat16": 2.0**-8, "float64": 2.0**-53}
TINIEST = {"float16": 2.0**-24, "float32": 2.0**-149, "bfloat16": 2.0**-133, "float64": 2.0**-1074}
GUARD = 32  # elements after every buffer


# The reference


def moved_sums(values, axis, before, after):
    """For each index i along an axis the sum over i - before ... i + after, as far as that is inside."""
    length = values.shape[axis]
    values = np.moveaxis(values, axis, 0)
    out = np.zeros_like(values)
    for move in range(max(-before, 1 - length), min(after, length - 1) + 1):
        low, high = max(0, -move), min(length, length - move)
        out[low:high] += values[low + move:high + move]
    return np.moveaxis(out, 0, axis)


def window_sums(values, mode, n, mirrored=False):
    before = (n - 1) // 2
    after = n - 1 - before
    if mirrored:
        before, after = after, before
    for axis in (1,) if mode == CROSS else (2, 3):
        values = moved_sums(values, axis, before, after)
    return values


def exact_forward(x, mode, n, alpha, beta, k):
    """Scales and y in float64."""
    scale = k + alpha / n**(1 if mode == CROSS else 2) * window_sums(x * x, mode, n)
    return scale, x * scale**-beta


def exact_backward(x, y, dy, scale, mode, n, alpha, beta):
    sums = window_sums(dy * y / scale, mode, n, mirrored=True)
    return dy * scale**-beta - 2 * alpha * beta / n**(1 if mode == CROSS else 2) * x * sums


# The operation on a device


@dataclass(frozen=True)
class Case:
    lens: tuple[int, ...]
    mode: int = CROSS
    n: int = 5
    alpha: float = 0.5
    beta: float = 0.75
    k: float = 1.0
    dtype: str = "float32"
    layouts: tuple[str, ...] = ("NCHW",) * 4  # of x, y, dx, dy
    save: bool = True


class Memory:
    """A tensor of any strides, on the host; what it does not address is to stay as it is."""

    def __init__(self, lens, layout, dtype, rng, values=None):
        order = {"NCHW": list(range(len(lens))), "NHWC": [0, *range(2, len(lens)), 1],
                 "CHWN": [*range(1, len(lens)), 0], "gaps": list(rng.permutation(len(lens)))}[layout]
        self.strides, step = [0] * len(lens), 1 if layout != "gaps" else int(rng.integers(1, 3))
        for axis in reversed(order):
            self.strides[axis] = step
            step = step * lens[axis] + (int(rng.integers(0, 4)) if layout == "gaps" else 0)
        span = 1 + sum((length - 1) * stride for length, stride in zip(lens, self.strides, strict=True))
        self.desc = TensorDescriptor(dtype.name, lens, self.strides)
        self.flat = np.full((span + GUARD) * dtype.itemsize, 0xFF, np.uint8).view(dtype)  # NaN in every type
        self.view = self.of(self.flat)
        if values is not None:
            self.view[...] = values.astype(dtype)
        self.buffer = None

    def of(self, flat):
        return as_strided(flat, self.desc.lens, [s * flat.itemsize for s in self.desc.strides])

    def upload(self, handle):
        self.buffer = handle.upload(self.flat.view(np.uint8))
        return self.buffer

    def result(self, handle):
        """What the device wrote, in float64; everything beside the tensor must be as it was."""
        back = handle.download(self.buffer, np.zeros_like(self.flat.view(np.uint8))).view(self.flat.dtype)
        values = self.of(back).astype(np.float64)
        self.of(back)[...] = self.view
        np.testing.assert_array_equal(back.view(np.uint8), self.flat.view(np.uint8), "wrote beside the tensor")
        return values


def assert_close(got, want, bound, note):
    wrong = ~(np.abs(got - want) <= bound)  # NaN is wrong
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(f"{note}: {wrong.sum()} of {wrong.size} wrong, first at {at}: {got[at]!r} is not "
                             f"{want[at]!r} within {bound[at]:.3g}")


def terms_of(case):
    """The most elements that a window holds."""
    if case.mode == CROSS:
        return min(case.n, 2 * case.lens[1] - 1)
    return min(case.n, 2 * case.lens[2] - 1) * min(case.n, 2 * case.lens[3] - 1)


def arithmetic(handle, case):
    """The roundoff of what a device computes in: float32, for float64 and on the host float64."""
    return ROUNDOFF["float64"] if handle.device.is_host or case.dtype == "float64" else ROUNDOFF["float32"]


def forward_bounds(case, s, want, u):
    """The largest errors of y and of the scales s.

    A square is rounded once, a sum of m terms m - 1 times, coefficients once each: the scale's error is (m + 4)
    roundoffs of the sum of its terms' magnitudes, which y has beta-fold, relative to the scale.  A power is good to 16
    ulp and carries beta's rounding.
    """
    m, kept = terms_of(case), "float64" if case.dtype == "float64" else "float32"
    magnitude = abs(case.k) + abs(s - case.k)
    relative = u * (abs(case.beta) * (m + 4) * magnitude / abs(s) + abs(case.beta * np.log(s)) + 40)
    return (abs(want) * (relative + ROUNDOFF[case.dtype]) + TINIEST[case.dtype],
            u * (m + 5) * magnitude + ROUNDOFF[kept] * abs(s))


def backward_sizes(case, x, y, dy, scale):
    """The magnitudes of the two terms of dx."""
    coefficient = 2 * case.alpha * case.beta / case.n**(1 if case.mode == CROSS else 2)
    return abs(dy * scale**-case.beta), abs(coefficient * x) * (
        window_sums(abs(dy * y / scale), case.mode, case.n, mirrored=True))


def backward_bound(case, want, scale, first, second, u):
    """As forward; a term is rounded twice and its division good to 2.5 ulp."""
    return u * ((45 + abs(case.beta * np.log(scale))) * first + (terms_of(case) + 12) * second) + (
        ROUNDOFF[case.dtype] * abs(want) + TINIEST[case.dtype])


def check_forward(handle, case, rng):
    """Run forward with poisoned outputs; return x, y and the scales as the device left them."""
    dtype = DTYPES[case.dtype]
    x = Memory(case.lens, case.layouts[0], dtype, rng, 2 * rng.standard_normal(case.lens))
    y = Memory(case.lens, case.layouts[1], dtype, rng)
    lrn = LRNDescriptor(case.mode, case.n, case.alpha, case.beta, case.k)
    size = miopyx.miopenLRNGetWorkSpaceSize(y.desc)
    assert size >= y.desc.nbytes * (8 if case.dtype == "float64" else 4) // dtype.itemsize
    scales = handle.upload(np.full(size, 0xFF, np.uint8))
    y.upload(handle)
    miopyx.miopenLRNForward(handle, lrn, 1, x.desc, x.upload(handle), 0, y.desc, y.buffer, case.save, scales)
    exact = x.view.astype(np.float64)
    s, want = exact_forward(exact, case.mode, case.n, case.alpha, case.beta, case.k)
    bound, scale_bound = forward_bounds(case, s, want, arithmetic(handle, case))
    note = f"{handle.device.name}, {case}"
    assert_close(y.result(handle), want, bound, f"y: {note}")
    if not case.save:
        left = handle.download(scales, np.zeros(size, np.uint8))
        assert (left == 0xFF).all(), "scales were written that nobody asked for"
        return None
    kept = np.dtype("float64" if case.dtype == "float64" else "float32")
    flat = handle.download(scales, np.zeros(size, np.uint8)).view(kept)
    found = as_strided(flat, case.lens, [stride * kept.itemsize for stride in y.strides]).astype(np.float64)
    assert_close(found, s, scale_bound, f"scales: {note}")
    return lrn, x, y, scales, found


def check_backward(handle, case, rng):
    """Run forward, then backward on what it stored."""
    lrn, x, y, scales, scale = check_forward(handle, case, rng)
    dtype = DTYPES[case.dtype]
    dx = Memory(case.lens, case.layouts[2], dtype, rng)
    dy = Memory(case.lens, case.layouts[3], dtype, rng, rng.standard_normal(case.lens))
    dx.upload(handle)
    miopyx.miopenLRNBackward(handle, lrn, None, y.desc, y.buffer, dy.desc, dy.upload(handle), x.desc, x.buffer, None,
                             dx.desc, dx.buffer, scales)
    y_values = y.of(handle.download(y.buffer, y.flat.copy().view(np.uint8)).view(dtype)).astype(np.float64)
    x_values, dy_values = x.view.astype(np.float64), dy.view.astype(np.float64)
    want = exact_backward(x_values, y_values, dy_values, scale, case.mode, case.n, case.alpha, case.beta)
    sizes = backward_sizes(case, x_values, y_values, dy_values, scale)
    bound = backward_bound(case, want, scale, *sizes, arithmetic(handle, case))
    assert_close(dx.result(handle), want, bound, f"dx: {handle.device.name}, {case}")


# Random problems


def random_case(rng, dtype, short=None):
    mode = int(rng.integers(2))
    cross5 = mode == CROSS and rng.random() < 0.25
    lens = (int(rng.integers(1, 4)), int(rng.integers(1, 40) if rng.random() < 0.7 else rng.integers(1, 5)),
            *(int(i) for i in rng.integers(1, 6 if cross5 else 12, 3 if cross5 else 2)))
    kinds = ["NCHW", "NHWC", "CHWN", "gaps"]
    layouts = [str(rng.choice(kinds))] * 4 if rng.random() < 0.6 else [str(i) for i in rng.choice(kinds, 4)]
    # Each power is a program of its own, on GPUs each short window, too: few of them.
    n = int(rng.choice([2, 5, 19] if short is None else [short, 19]))
    beta = 0.6 if dtype == "float32" else 0.75
    return Case(lens, mode, n, float(rng.uniform(0.1, 2)), beta, float(rng.uniform(0.5, 3)), dtype, tuple(layouts))


def how_many(request):
    return max(1, request.config.getoption("--configurations") // 200)


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_problems(handle, dtype, rng, request):
    for _ in range(6 * how_many(request)):
        check_backward(handle, random_case(rng, dtype), rng)


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_for_gpus(opencl_name, as_gpu, dtype, rng, amount, request):
    handle = as_gpu(opencl_name)
    assert handle.device.is_gpu
    for _ in range(amount(3, 8 * how_many(request))):
        check_backward(handle, random_case(rng, dtype, 4), rng)
    check_backward(handle, Case((2, 100, 3, 5), n=4, dtype=dtype), rng)  # channels in several parts
    for n in rng.permutation([1, 3, 4, 5])[:amount(2, 4)].tolist():
        check_backward(handle, Case((2, 40, 6, 4), n=n, dtype=dtype), rng)
        check_backward(handle, Case((2, 40, 5, 3), n=n, dtype=dtype, layouts=("NHWC",) * 4), rng)


@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0, 2.0, 0.3, -0.4, 0.0])
def test_powers(handle, beta, rng):
    check_backward(handle, Case((2, 7, 5, 6), beta=beta), rng)


@pytest.mark.parametrize("mode", [WITHIN, CROSS])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 16, 17, 40, 2**32 - 1])
def test_windows(handle, mode, n, rng):
    """Even ones reach one farther up; others are longer than the tensor."""
    check_backward(handle, Case((2, 6, 5, 7), mode, n, alpha=0.3 * min(n, 10)), rng)


# Fewer channels than the window, one of everything, rows and planes beyond a kernel's block, few long channels.
SHAPES = [
    Case((2, 2, 5, 7)), Case((2, 3, 4, 4), n=4), Case((1, 1, 1, 1)), Case((1, 1, 1, 1), WITHIN), Case((1, 64, 1, 1)),
    Case((3, 33, 29, 31)), Case((1, 3, 1, 1300)), Case((1, 150, 3, 3)), Case((2, 4, 60, 3), WITHIN),
    Case((1, 2, 9, 1100), WITHIN), Case((2, 5, 1, 17), WITHIN), Case((1, 2, 3, 2, 300)),
    Case((1, 2500, 2, 3), layouts=("NHWC",) * 4), Case((2, 64, 9, 7), layouts=("NHWC",) * 4),
    Case((2, 21, 3, 4, 5), layouts=("NHWC",) * 4), Case((2, 16, 9, 7), WITHIN, layouts=("NHWC",) * 4),
]


@pytest.mark.parametrize("case", SHAPES, ids=lambda c: f"{'cross' if c.mode else 'within'}-{c.lens}-{c.layouts[0]}")
def test_shapes(handle, case, rng):
    check_backward(handle, case, rng)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", [WITHIN, CROSS])
def test_without_scales(handle, mode, dtype, rng):
    """y is the same, and the workspace is neither needed nor touched."""
    case = Case((2, 6, 9, 8), mode, dtype=dtype, save=False)
    check_forward(handle, case, rng)
    x = Memory(case.lens, "NCHW", DTYPES[dtype], rng, rng.standard_normal(case.lens))
    results = []
    for save in (False, True):
        y = Memory(case.lens, "NCHW", DTYPES[dtype], rng)
        space = handle.upload(np.zeros(miopyx.miopenLRNGetWorkSpaceSize(y.desc), np.uint8)) if save else None
        miopyx.miopenLRNForward(handle, LRNDescriptor(mode, 5, 0.5, 0.75, 1), 1, x.desc, x.upload(handle), 0, y.desc,
                                y.upload(handle), save, space)
        results.append(y.result(handle))
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0, 2.0])
def test_scales_that_are_not_positive(handle, beta):
    """As exp(-beta log(scale)): a negative scale is NaN, 0 is infinity."""
    x = np.array([0, 1, 2, -1], "f4").reshape(1, 1, 2, 2)  # scales 1, 0, -3, 0
    desc = TensorDescriptor("float32", x.shape)
    y = handle.upload(np.zeros_like(x))
    miopyx.miopenLRNForward(handle, LRNDescriptor(CROSS, 1, -1, beta, 1), 1, desc, handle.upload(x), 0, desc, y, False,
                            None)
    np.testing.assert_array_equal(handle.download(y, np.empty_like(x)).ravel(), [0, np.inf, np.nan, -np.inf])


@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0, 0.6])
def test_extreme_values(handle, beta):
    """Huge, tiny, infinite and NaN elements reach their own windows only."""
    x = np.array([1e-30, 1, 1e15, 1, 1, np.inf, 1, 1, np.nan, 1, 3e-39, 1], "f4").reshape(1, 12, 1, 1)
    for width in (1, 20):
        wide = np.repeat(x, width, 3)
        desc = TensorDescriptor("float32", wide.shape)
        y = handle.upload(np.zeros_like(wide))
        miopyx.miopenLRNForward(handle, LRNDescriptor(CROSS, 3, 1, beta, 1), 1, desc, handle.upload(wide), 0, desc, y,
                                False, None)
        got = handle.download(y, np.empty_like(wide)).astype("f8")
        with np.errstate(all="ignore"):
            _, want = exact_forward(wide.astype("f8"), CROSS, 3, 1, beta, 1)
        want[np.isnan(wide)] = np.nan
        # 16 ulp of a power and its exponent's error: beta log(scale) is 50 at most.
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-37)


def test_threads_change_nothing(setting, rng):
    x = rng.standard_normal((3, 40, 31, 29)).astype("f4")
    found = []
    for threads in (1, 2, 5):
        setting(MIOPYX_NUM_THREADS=threads)
        with miopyx.Handle("host") as handle:
            desc = TensorDescriptor("float32", x.shape)
            for mode in (WITHIN, CROSS):
                y, space = np.empty_like(x), np.empty_like(x)
                handle.lrn_forward(LRNDescriptor(mode, 5, 0.3, 0.75, 1), desc, desc, True)(x, y, space)
                dx = np.empty_like(x)
                handle.lrn_backward(LRNDescriptor(mode, 5, 0.3, 0.75, 1), desc, desc, desc, desc)(y, x, x, dx, space)
                found.append((mode, y.tobytes(), dx.tobytes()))
    assert len(set(found)) == 2


# PyTorch


@pytest.mark.parametrize("n", [1, 3, 5, 7])
def test_against_torch(handle, n, rng):
    """Across channels and for odd n both have the same window."""
    torch = pytest.importorskip("torch")
    shape, alpha, beta, k = (2, 11, 6, 5), 0.7, 0.75, 1.5
    x, dy = rng.standard_normal(shape), rng.standard_normal(shape)
    tx = torch.from_numpy(x).requires_grad_()
    ty = torch.nn.functional.local_response_norm(tx, n, alpha, beta, k)
    ty.backward(torch.from_numpy(dy))
    desc = TensorDescriptor("float64", shape)
    lrn = LRNDescriptor(CROSS, n, alpha, beta, k)
    if not handle.device.is_host and not handle.device.fp64:
        pytest.skip("device has no double precision")
    x_data, y_data, dx_data = (handle.upload(a) for a in (x, np.full_like(x, np.nan), np.full_like(x, np.nan)))
    space = handle.upload(np.zeros(miopyx.miopenLRNGetWorkSpaceSize(desc), np.uint8))
    handle.lrn_forward(lrn, desc, desc, True)(x_data, y_data, space)
    handle.lrn_backward(lrn, desc, desc, desc, desc)(y_data, handle.upload(dy), x_data, dx_data, space)
    # Some ten roundings of numbers of order 1 on either side.
    np.testing.assert_allclose(handle.download(y_data, np.empty_like(x)), ty.detach().numpy(), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(handle.download(dx_data, np.empty_like(x)), tx.grad.numpy(), rtol=1e-13, atol=1e-14)


# Descriptors and sizes


def test_descriptor():
    desc = miopyx.miopenCreateLRNDescriptor()
    assert repr(desc) == "<LRNDescriptor never set>"
    assert desc.mode is None
    assert miopyx.miopenSetLRNDescriptor(desc, WITHIN, 7, 0.1, 0.5, 2) is None
    assert miopyx.miopenGetLRNDescriptor(desc) == (miopyx.miopenLRNWithinChannel, 7, 0.1, 0.5, 2.0)
    assert (desc.mode, desc.n, desc.alpha, desc.beta, desc.k) == miopyx.miopenGetLRNDescriptor(desc)
    assert eval(repr(desc)).n == 7
    assert miopyx.miopenDestroyLRNDescriptor(desc) is None
    assert miopyx.miopenDestroyLRNDescriptor(None) is None
    for use in (miopyx.miopenGetLRNDescriptor, lambda d: miopyx.miopenSetLRNDescriptor(d, 1, 5, 1, 1, 1)):
        with pytest.raises(miopyx.BadParmError, match="destroyed"):
            use(desc)


@pytest.mark.parametrize(("name", "values"), [
    ("mode", (2, 5, 1, 1, 1)), ("mode", (-1, 5, 1, 1, 1)), ("mode", ("crossed", 5, 1, 1, 1)),
    ("lrnN", (1, -1, 1, 1, 1)), ("lrnN", (1, 2**32, 1, 1, 1)), ("lrnN", (1, 5.0, 1, 1, 1)),
    ("lrnAlpha", (1, 5, math.nan, 1, 1)), ("lrnBeta", (1, 5, 1, math.inf, 1)), ("lrnK", (1, 5, 1, 1, "1")),
    ("lrnK", (1, 5, 1, 1, -math.inf)),
])
def test_settings_that_are_refused(name, values):
    desc = LRNDescriptor(1, 3, 0.25, 0.5, 2)
    with pytest.raises(miopyx.BadParmError) as raised:
        miopyx.miopenSetLRNDescriptor(desc, *values)
    assert raised.value.parameter == name
    assert miopyx.miopenGetLRNDescriptor(desc) == (miopyx.miopenLRNCrossChannel, 3, 0.25, 0.5, 2)


def test_workspace_size():
    size = miopyx.miopenLRNGetWorkSpaceSize
    assert size(TensorDescriptor("float32", (3, 4, 5, 6))) == 3 * 120 * 4
    assert size(TensorDescriptor("float16", (3, 4, 5, 6))) == 3 * 120 * 4
    assert size(TensorDescriptor("float64", (3, 4, 5, 6))) == 3 * 120 * 8
    assert size(TensorDescriptor("float32", (3, 4, 5, 6), (200, 40, 7, 1))) == 3 * 200 * 4
    assert size(TensorDescriptor("float32", (3, 4, 5, 6), (1, 90, 18, 3))) == 360 * 4  # n innermost
    with pytest.raises(miopyx.BadParmError):
        size(TensorDescriptor())
    with pytest.raises(miopyx.BadParmError):
        size(TensorDescriptor("float32", (2**31, 1, 1, 1), (2**31, 1, 1, 1)))


# Calls


LENS = (2, 4, 3, 5)
GOOD = LRNDescriptor(CROSS, 5, 1e-4, 0.75, 1)
DESC = TensorDescriptor("float32", LENS)


def arguments(handle, **changed):
    """The arguments of both directions, by name."""
    data = {name: handle.upload(np.ones(LENS, "f4")) for name in ("x", "y", "dx", "dy")}
    data["workSpace"] = handle.upload(np.ones(LENS, "f4").view(np.uint8))
    return {"handle": handle, "lrnDesc": GOOD, "alpha": 1, "xDesc": DESC, "beta": 0, "yDesc": DESC, "dxDesc": DESC,
            "dyDesc": DESC, "do_backward": True, **data, **changed}


def forward(handle, **changed):
    a = arguments(handle, **changed)
    miopyx.miopenLRNForward(*(a[name] for name in (
        "handle", "lrnDesc", "alpha", "xDesc", "x", "beta", "yDesc", "y", "do_backward", "workSpace")))


def backward(handle, **changed):
    a = arguments(handle, **changed)
    miopyx.miopenLRNBackward(*(a[name] for name in (
        "handle", "lrnDesc", "alpha", "yDesc", "y", "dyDesc", "dy", "xDesc", "x", "beta", "dxDesc", "dx",
        "workSpace")))


def tensor(dtype="float32", lens=LENS, strides=None):
    return TensorDescriptor(dtype, lens, strides)


REFUSED = [
    (miopyx.UnknownError, {"lrnDesc": LRNDescriptor(CROSS, 0)}, "lrnN"),
    (miopyx.UnknownError, {"lrnDesc": LRNDescriptor(WITHIN, 0)}, "lrnN"),
    (miopyx.UnknownError, {"lrnDesc": LRNDescriptor(CROSS, 5, k=0)}, "lrnK"),
    (miopyx.UnknownError, {"alpha": 2}, "alpha"),
    (miopyx.UnknownError, {"alpha": math.nan}, "alpha"),
    (miopyx.UnknownError, {"beta": 1}, "beta"),
    (miopyx.BadParmError, {"beta": "0"}, "beta"),
    (miopyx.BadParmError, {"lrnDesc": LRNDescriptor()}, "lrnDesc"),
    (miopyx.BadParmError, {"lrnDesc": None}, "lrnDesc"),
    (miopyx.BadParmError, {"lrnDesc": DESC}, "lrnDesc"),
    (miopyx.BadParmError, {"xDesc": None}, "xDesc"),
    (miopyx.BadParmError, {"xDesc": TensorDescriptor()}, "xDesc"),
    (miopyx.BadParmError, {"yDesc": TensorDescriptor()}, "yDesc"),
    (miopyx.BadParmError, {"yDesc": tensor("float16")}, "yDesc"),
    (miopyx.BadParmError, {"yDesc": tensor(lens=(2, 4, 5, 3))}, "yDesc"),
    (miopyx.BadParmError, {"x": None}, "x"),
    (miopyx.BadParmError, {"y": None}, "y"),
    (miopyx.BadParmError, {"workSpace": None}, "workSpace"),
]


@pytest.mark.parametrize(("error", "changed", "parameter"), REFUSED)
@pytest.mark.parametrize("call", [forward, backward])
def test_what_both_directions_refuse(handle, call, error, changed, parameter):
    with pytest.raises(error) as raised:
        call(handle, **changed)
    assert type(raised.value) is error
    assert raised.value.parameter == parameter


@pytest.mark.parametrize("call", [forward, backward])
def test_types_and_ranks_that_are_refused(handle, call):
    for dtype in ("int32", "int8"):
        same = dict.fromkeys(("xDesc", "yDesc", "dxDesc", "dyDesc"), tensor(dtype))
        with pytest.raises(miopyx.MIOpenNotImplementedError):
            call(handle, **same)
    for mode, ranks in ((CROSS, (1, 2, 3, 6)), (WITHIN, (1, 2, 3, 5))):
        for rank in ranks:
            same = dict.fromkeys(("xDesc", "yDesc", "dxDesc", "dyDesc"), tensor(lens=(2,) * rank))
            with pytest.raises(miopyx.UnknownError):
                call(handle, lrnDesc=LRNDescriptor(mode), **same)
    vectors = TensorDescriptor("float32", LENS, layout=miopyx.miopenTensorNCHWc4)
    with pytest.raises(miopyx.MIOpenNotImplementedError):
        call(handle, **dict.fromkeys(("xDesc", "yDesc", "dxDesc", "dyDesc"), vectors))


@pytest.mark.parametrize("flag", [2, -1, None, "yes", 1.0])
def test_do_backward_is_a_bool(handle, flag):
    with pytest.raises(miopyx.BadParmError) as raised:
        forward(handle, do_backward=flag)
    assert raised.value.parameter == "do_backward"


def test_scalars_may_be_missing(handle):
    forward(handle, alpha=None, beta=None)
    forward(handle, alpha=1.0, beta=0.0, do_backward=1)
    backward(handle, alpha=None, beta=0)


@pytest.mark.parametrize("call", [forward, backward])
def test_memory_that_is_refused(handle, call):
    small = handle.upload(np.ones(2 * 4 * 3 * 5 * 4 - 1, np.uint8))
    for name in ("x", "y", "workSpace", *(("dy", "dx") if call is backward else ())):
        with pytest.raises(miopyx.BadParmError) as raised:
            call(handle, **{name: small})
        assert raised.value.parameter == name
    one = handle.upload(np.ones(LENS, "f4").view(np.uint8))
    output = "dx" if call is backward else "y"
    for name in ("x", "workSpace", *(("dy", "y") if call is backward else ())):
        with pytest.raises(miopyx.BadParmError, match="shares memory"):
            call(handle, **{name: one, output: one})
    overlapping = tensor(strides=(20, 5, 5, 1))
    with pytest.raises(miopyx.BadParmError, match="overlap"):
        call(handle, **{f"{output}Desc": overlapping})


def test_calls_are_told_apart(new_handle, rng):
    """The same descriptors with and without scales, set anew, and again."""
    handle = new_handle
    x = rng.standard_normal(LENS).astype("f4")
    lrn = LRNDescriptor(CROSS, 3, 1, 0.75, 1)
    data, y = handle.upload(x), handle.upload(np.zeros_like(x))
    settings = [(CROSS, 3, False), (CROSS, 3, True), (WITHIN, 3, True), (CROSS, 2, True), (CROSS, 3, False)]
    for mode, n, save in settings * 2:
        miopyx.miopenSetLRNDescriptor(lrn, mode, n, 1, 0.75, 1)
        space = handle.upload(np.zeros(x.nbytes, np.uint8))
        miopyx.miopenLRNForward(handle, lrn, 1, DESC, data, 0, DESC, y, save, space)
        scale, want = exact_forward(x.astype("f8"), mode, n, 1, 0.75, 1)
        np.testing.assert_allclose(handle.download(y, np.empty_like(x)), want, rtol=1e-5)
        kept = handle.download(space, np.empty_like(x))
        np.testing.assert_allclose(kept, scale if save else np.zeros_like(x), rtol=1e-5)


def test_plans(handle, rng):
    x = rng.standard_normal(LENS).astype("f4")
    lrn = LRNDescriptor(CROSS, 3, 1, 0.75, 1)
    desc = TensorDescriptor("float32", LENS)
    plan = handle.lrn_forward(lrn, desc, desc)
    assert plan.buffers == ("x", "y")
    assert plan.numbers == {}
    assert "LRN" in plan.explain()
    with_scales = handle.lrn_forward(lrn, desc, desc, do_backward=True)
    assert with_scales.buffers == ("x", "y", "workSpace")
    gradient = handle.lrn_backward(lrn, desc, desc, desc, desc)
    assert gradient.buffers == ("y", "dy", "x", "dx", "workSpace")
    data, y, space = (handle.upload(a) for a in (x, np.zeros_like(x), np.zeros_like(x).view(np.uint8)))
    plan(data, y)
    _, want = exact_forward(x.astype("f8"), CROSS, 3, 1, 0.75, 1)
    np.testing.assert_allclose(handle.download(y, np.empty_like(x)), want, rtol=1e-5)
    with_scales(data, y, space)
    dx = handle.upload(np.zeros_like(x))
    gradient(y, data, data, dx, space)
    assert np.abs(handle.download(dx, np.empty_like(x))).max() > 0
    miopyx.miopenSetLRNDescriptor(lrn, CROSS, 5, 1, 0.75, 1)
    calls = ((plan, (data, y)), (with_scales, (data, y, space)), (gradient, (y, data, data, dx, space)))
    for changed, buffers in calls:
        with pytest.raises(miopyx.BadParmError, match="changed"):
            changed(*buffers)
    with pytest.raises(miopyx.UnknownError):
        handle.lrn_forward(LRNDescriptor(CROSS, 0), desc, desc)


def test_problem():
    problem = LRNProblem(GOOD, DESC, DESC)
    assert len({problem.key, LRNProblem(GOOD, DESC, DESC, save=True).key,
                LRNProblem(GOOD, DESC, DESC, DESC, DESC).key}) == 3
    assert "forward" in repr(problem)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scales_of_zero_spoil_no_neighbours(handle, dtype, rng):
    desc = TensorDescriptor(dtype, (1, 5, 3, 17))
    x = rng.integers(1, 4, desc.lens).astype(dtype)
    x[0, 2, 1, 3] = 1
    with np.errstate(divide="ignore"):
        want = x.astype(np.float64) * (x.astype(np.float64)**2 - 1)**-0.3
    y = handle.upload(np.full(desc.lens, np.nan, dtype))
    handle.lrn_forward(LRNDescriptor(1, 1, 1.0, 0.3, -1.0), desc, desc)(handle.upload(x), y)
    np.testing.assert_allclose(handle.download(y, np.empty(desc.lens, dtype)), want, rtol=8 * np.finfo(dtype).eps)
