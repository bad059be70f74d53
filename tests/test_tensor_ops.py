"""Tensor operations against NumPy in float64, element by element, on the host and every OpenCL device."""

from __future__ import annotations

import ctypes
import itertools
import math
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from guarded import part_of
from numpy.lib.stride_tricks import as_strided

import miopyx
from miopyx import BadParmError, MIOpenNotImplementedError, TensorDescriptor, UnknownError, enums
from miopyx.device import devices

FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = ("int8", "int32")
DTYPE = {name: np.dtype(getattr(ml_dtypes, name, name))
         for name in (*FLOATS, *INTEGERS, "int64", "float8_e4m3fnuz", "float8_e5m2fnuz")}
# Half of the distance between neighbours, relative to a number, of what is stored, and of the arithmetic.
UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53}
TINY = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133, "float64": 0}
OPS = {
    "Add": np.add, "Mul": np.multiply,
    "Min": lambda a, b: np.where(a < b, a, b), "Max": lambda a, b: np.where(a > b, a, b),
}
GUARD = 32


def pytest_generate_tests(metafunc):
    """Each device as it is, and OpenCL devices with the kernels for GPUs; PoCL's `basic` one with --long."""
    if "any_handle" in metafunc.fixturenames:
        names = metafunc.config.getoption("--device") or dict.fromkeys(
            info.name for info in devices.ranked() if metafunc.config.getoption("--long") or "-basic_" not in info.name)
        cases = [(name, gpu) for name in names for gpu in (False, True) if not (gpu and name.startswith("host"))]
        metafunc.parametrize("any_handle", cases, ids=lambda case: case[0] + " as a GPU" * case[1], indirect=True)


@pytest.fixture
def any_handle(request, handles, as_gpu):
    name, gpu = request.param
    return as_gpu(name) if gpu else handles(name)


@pytest.fixture(autouse=True)
def _no_warnings():
    """NumPy warns where the results that are compared with overflow, or are NaN."""
    with np.errstate(all="ignore"):
        yield


def packed(lens, order=None):
    strides, step = [0] * len(lens), 1
    for axis in reversed(order if order is not None else range(len(lens))):
        strides[axis] = step
        step *= lens[axis]
    return tuple(strides)


def any_strides(lens, rng):
    """Packed in any order of axes, the usual one most of the time, or with gaps."""
    order = rng.permutation(len(lens)) if rng.integers(2) else range(len(lens))
    if rng.integers(3):
        return packed(lens, order)
    strides, step = [0] * len(lens), int(rng.integers(1, 3))
    for axis in reversed(order):
        strides[axis] = step
        step = step * lens[axis] + int(rng.integers(3))
    return tuple(strides)


class Tensor:
    """A descriptor, memory with guards around it on the device, and what is expected there."""

    def __init__(self, handle, rng, dtype, lens, strides=None, values=None):
        self.handle, self.dtype = handle, DTYPE[dtype]
        self.desc = TensorDescriptor(dtype, lens, strides)
        width = self.dtype.itemsize
        span = self.desc.nbytes // width
        self.bytes = rng.integers(0, 256, (span + 2 * GUARD) * width, dtype=np.uint8)
        self.view = self._view(self.bytes)
        if values is not None:
            self.view[...] = values
        elif dtype in FLOATS:
            self.view[...] = rng.standard_normal(lens).astype(self.dtype)
        elif dtype in ("int8", "int32"):
            self.view[...] = rng.integers(-100, 100, lens)
        if handle.device.is_host:
            self.bytes = self.bytes.copy()
            self.view = self._view(self.bytes)
            self.data = self.bytes[GUARD * width:]
        else:
            self.buffer = handle.upload(self.bytes)
            size = self.bytes.size - GUARD * width
            if handle.device.info.cuda < 0 and GUARD * width % (handle.queue.device.mem_base_addr_align // 8) == 0:
                self.data = self.buffer.get_sub_region(GUARD * width, size)
            else:
                self.data = part_of(handle, self.buffer, GUARD * width, size)

    def _view(self, memory):
        width = self.dtype.itemsize
        inner = memory.view(self.dtype)[GUARD:]
        return as_strided(inner, self.desc.lens, [s * width for s in self.desc.strides])

    @property
    def wide(self):
        return self.view.astype(np.float64)

    def result(self):
        """The elements as they are now, once it was seen that nothing else changed."""
        before = self.before if self.handle.device.is_host else self.bytes
        now = self.bytes if self.handle.device.is_host else self.handle.download(self.buffer,
                                                                                np.empty_like(self.bytes))
        seen = np.zeros(self.bytes.size, bool)
        width = self.dtype.itemsize
        for byte in range(width):
            as_strided(seen[GUARD * width + byte:], self.desc.lens, [s * width for s in self.desc.strides])[...] = True
        np.testing.assert_array_equal(now[~seen], before[~seen])
        return self._view(now).copy()

    def keep(self):
        """Remember what is there: on the host a call changes the array itself."""
        self.before = self.bytes.copy()
        self.old = self.view.copy()
        return self.old.astype(np.float64)


def bound_of(want, terms, dtype, roundings=4, arithmetic=None):
    """Half a unit of the type, and `roundings` of the arithmetic times the terms' size.

    `terms` is the sum of the absolute values of what was added; each of alpha, the operation, beta and the sum rounds
    once.
    """
    arithmetic = arithmetic or (UNIT["float64"] if dtype == "float64" else UNIT["float32"])
    return UNIT[dtype] * np.abs(want) * (1 + 2.0**-10) + TINY[dtype] + roundings * arithmetic * terms


def within(got, want, terms, dtype, roundings=4, arithmetic=None):
    got = got.astype(np.float64)
    bound = bound_of(want, terms, dtype, roundings, arithmetic)
    right = (np.abs(got - want) <= bound) | (got == want) | (np.isnan(got) & np.isnan(want))
    assert right.all(), (dtype, got[~right][:5], np.broadcast_to(want, got.shape)[~right][:5])


def saturated(values, dtype):
    info = np.iinfo(dtype)
    values = np.trunc(np.nan_to_num(values, nan=0, posinf=1e300, neginf=-1e300))
    return np.clip(values, info.min, info.max)


def check_op(handle, rng, dtype, op, lens, strides, kept, alpha1, alpha2, beta, place="apart"):
    """`kept` are the axes that B has; `place` says whether C is A, or B, or neither."""
    a_strides, b_strides, c_strides = strides
    b_lens = tuple(n if axis in kept else 1 for axis, n in enumerate(lens))
    a = Tensor(handle, rng, dtype, lens, a_strides)
    b = Tensor(handle, rng, dtype, b_lens, b_strides)
    c = {"a": a, "b": b, "apart": None}[place] or Tensor(
        handle, rng, dtype, lens, c_strides, np.nan if beta == 0 and dtype in FLOATS else None)
    for tensor in (a, b, c):
        tensor.keep()
    wide_a, wide_b = a.old.astype(np.float64), b.old.astype(np.float64)
    miopyx.miopenOpTensor(handle, getattr(enums, f"miopenTensorOp{op}"), alpha1, a.desc, a.data, alpha2, b.desc, b.data,
                          beta, c.desc, c.data)
    got = c.result()
    x, y = alpha1 * wide_a, alpha2 * wide_b
    want = OPS[op](x, y)
    terms = np.abs(x * y) if op == "Mul" else np.abs(x) + np.abs(y)
    if beta != 0:
        old = beta * c.old.astype(np.float64)
        want, terms = want + old, terms + np.abs(old)
    if dtype in INTEGERS:
        np.testing.assert_array_equal(got, saturated(want, dtype))
    else:
        within(got, want, terms, dtype)
    for tensor in (a, b):
        if tensor is not c:
            np.testing.assert_array_equal(tensor.result().view(np.uint8), tensor.old.view(np.uint8))


SHAPES = [  # lengths, axes of B
    ((2, 5, 7, 6), (1,)), ((3, 40, 9, 11), (1,)), ((1, 3, 33, 35), (1,)), ((4, 17, 1, 1), (1,)),
    ((2, 6, 4, 5), (0, 1, 2, 3)), ((2, 3, 4, 50), (3,)), ((2, 3, 4, 5), ()), ((2, 3, 4, 5), (0, 2)), ((37,), (0,)),
    ((300,), ()), ((5, 70), (1,)), ((5, 70), (0,)), ((3, 4, 65), (1,)), ((2, 3, 4, 5, 6), (1,)),
    ((2, 3, 4, 5, 6), (2, 4)), ((1, 1, 1, 1, 1), ()), ((2, 8, 3, 4, 35), (1, 2, 3)),
]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_op(any_handle, rng, dtype, request):
    """A few shapes each, packed and with gaps, in place and out of place.

    The host computes all operations, other devices one of them, as each is a program of its own; all with
    --configurations 800.
    """
    count = 4 if any_handle.device.is_host else request.config.getoption("--configurations") // 200
    for op in rng.permutation(list(OPS))[:count]:
        check_shapes(any_handle, rng, dtype, op)


def check_shapes(any_handle, rng, dtype, op):
    for number in rng.permutation(len(SHAPES))[:4]:
        lens, kept = SHAPES[number]
        strides = [any_strides(lens, rng) for _ in range(3)]
        if rng.integers(2):
            strides = [packed(lens)] * 3
        b_lens = [n if axis in kept else 1 for axis, n in enumerate(lens)]
        strides[1] = strides[1] if tuple(b_lens) == lens else any_strides(b_lens, rng)
        whole = int(rng.integers(-3, 4)) or 1
        s, t = (whole, -whole) if dtype in INTEGERS else rng.standard_normal(2).astype("f4").astype("f8")
        for alpha1, alpha2, beta in ((1, 1, 0), (s, t, 0), (1, s, t)):
            check_op(any_handle, rng, dtype, op, lens, strides, kept, alpha1, alpha2, beta)
        check_op(any_handle, rng, dtype, op, lens, strides, kept, s, 1, t, "a")
        if len(kept) == len(lens):
            check_op(any_handle, rng, dtype, op, lens, strides, kept, s, 1, 0, "b")


@pytest.mark.parametrize("lens", [lens for lens, kept in SHAPES if kept == (1,) and len(lens) > 2])
@pytest.mark.parametrize("layout", ["channels last", "channels first"])
def test_bias_layouts(any_handle, rng, lens, layout):
    """What a convolution's bias is, in the layouts that are made fast."""
    strides = packed(lens, (0, *range(2, len(lens)), 1)) if layout == "channels last" else packed(lens)
    for place, beta in (("apart", 0), ("a", 0), ("a", 0.5)):
        check_op(any_handle, rng, "float32", "Add", lens, (strides, None, strides), (1,), 1, 1, beta, place)


def test_large_op(any_handle, rng):
    """Several work-items and pieces of rows."""
    for lens, kept in (((2, 3, 150, 151), (1,)), ((90_001,), ()), ((3, 30_000), (1,)), ((40, 64, 6, 6), (1,)),
                       ((20_000, 5), (1,)), ((3, 500, 7), (2,)), ((2, 3, 900, 24), (1, 3))):
        check_op(any_handle, rng, "float32", "Add", lens, (None, None, None), kept, 1, 1, 0)
        check_op(any_handle, rng, "float16", "Mul", lens, (None, None, None), kept, 1, 2, 1, "a")


def test_data_that_is_not_aligned(any_handle, rng, monkeypatch):
    monkeypatch.setitem(globals(), "GUARD", 33)
    for lens, kept in (((5, 8, 7, 7), (1,)), ((3, 8, 8, 8), (1,)), ((2, 5, 3, 37), (0, 1, 2, 3))):
        check_op(any_handle, rng, "float32", "Add", lens, (None, None, None), kept, 1, 1, 0)
        check_op(any_handle, rng, "float16", "Mul", lens, (None, None, None), kept, 1, 2, 1, "a")


def test_nan_of_ops(any_handle):
    """(a < b ? a : b): of a NaN and a number it is b, whichever of the two b is."""
    nan = math.nan
    a, b = np.array([nan, 1, nan, 2, -math.inf], "f4"), np.array([1, nan, nan, -3, 5], "f4")
    a, b = np.tile(a, 8), np.tile(b, 8)
    desc = TensorDescriptor("float32", a.shape)
    for op, want in (("Min", np.where(a < b, a, b)), ("Max", np.where(a > b, a, b)), ("Add", a + b)):
        c = any_handle.upload(np.zeros_like(a))
        miopyx.miopenOpTensor(any_handle, getattr(enums, f"miopenTensorOp{op}"), 1, desc, any_handle.upload(a), 1, desc,
                              any_handle.upload(b), 0, desc, c)
        np.testing.assert_array_equal(any_handle.download(c, np.empty_like(a)), want)


def test_overflow_and_subnormals(any_handle):
    """Results that a type holds only as infinity or as a subnormal number."""
    for dtype, values in (("float16", [60000, -60000, 2.0**-20, 2.0**-24, 65504]),
                          ("bfloat16", [3e38, -3e38, 2.0**-130, 2.0**-133, 1])):
        a = np.tile(np.array(values), 5).astype(DTYPE[dtype])
        desc = TensorDescriptor(dtype, a.shape)
        for alpha in (1, 0.5, 2):
            y = any_handle.upload(a)
            miopyx.miopenScaleTensor(any_handle, desc, y, alpha)
            want = (a.astype(np.float64) * alpha).astype(np.float32).astype(DTYPE[dtype])
            got = any_handle.download(y, np.empty_like(a))
            np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_16_bits_are_rounded_to_the_nearest_even(any_handle, rng, dtype):
    """Every code, beside one of like size: the bits that a sum has too many make ties and both kinds of others."""
    a = np.arange(1 << 16, dtype=np.uint16)
    b = (a + rng.integers(-1500, 1500, a.size)).astype(np.uint16) ^ (rng.integers(0, 2, a.size) << 15).astype(np.uint16)
    a, b = a.view(DTYPE[dtype])[:-5], b.view(DTYPE[dtype])[:-5]
    desc, c = TensorDescriptor(dtype, a.shape), any_handle.upload(np.zeros_like(a))
    miopyx.miopenOpTensor(any_handle, enums.miopenTensorOpAdd, 1, desc, any_handle.upload(a), 1, desc,
                          any_handle.upload(b), 0, desc, c)
    want = (a.astype(np.float32) + b.astype(np.float32)).astype(DTYPE[dtype])
    np.testing.assert_array_equal(any_handle.download(c, np.empty_like(a)).astype(np.float32), want.astype(np.float32))


# Filling


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "int64"])
def test_set(any_handle, rng, dtype):
    values = {"float32": (0, -0.0, 0.1, math.inf, math.nan, 3e38, np.float32(2)),
              "float64": (0.1, 1e308, math.nan, -0.0),
              "float16": (0.1, 65504, 65519.9, 2.0**-24, math.inf), "bfloat16": (0.1, 3.38e38, -math.inf, math.nan),
              "int8": (-128, 127, 0, 5.0, np.int8(3), ctypes.c_int8(-4)),
              "int32": (-2**31, 2**31 - 1, 2**24 + 1, 7.0), "int64": (-2**63, 2**63 - 1, 2**53 + 1, -1, -1234567890123)}
    for value in values[dtype]:
        lens = tuple(int(n) for n in rng.integers(1, 20, rng.integers(1, 6)))
        tensor = Tensor(any_handle, rng, dtype, lens, any_strides(lens, rng))
        tensor.keep()
        miopyx.miopenSetTensor(any_handle, tensor.desc, tensor.data, value)
        plain = getattr(value, "value", value)
        want = np.full(lens, plain, DTYPE[dtype])
        got = tensor.result()
        if dtype in FLOATS and math.isnan(plain):
            assert np.isnan(got.astype(np.float64)).all()
        else:
            np.testing.assert_array_equal(got.view(f"u{want.itemsize}"), want.view(f"u{want.itemsize}"))


@pytest.mark.parametrize(("dtype", "value"), [
    ("int8", 128), ("int8", -129), ("int8", 0.5), ("int8", math.nan), ("int32", 2**31), ("int32", math.inf),
    ("int64", 2**63), ("int64", 1e19), ("int64", 0.1), ("float16", 65520), ("float16", -1e9), ("bfloat16", 3.4e38),
    ("float32", 1e39), ("float32", "1"), ("float32", None), ("int32", "1"), ("int32", None), ("int32", True),
    ("float64", [1, 2]), ("int64", object()),
])
def test_set_refuses_what_a_type_cannot_hold(handle, dtype, value):
    y = np.full(4, 3, DTYPE[dtype])
    data = handle.upload(y)
    desc = TensorDescriptor(dtype, (4,))
    for call in (lambda: miopyx.miopenSetTensor(handle, desc, data, value), lambda: handle.set_tensor(desc, value)):
        with pytest.raises(BadParmError) as raised:
            call()
        assert raised.value.parameter == "alpha"
    np.testing.assert_array_equal(handle.download(data, np.empty_like(y)), y)


# Scaling


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_scale(any_handle, rng, dtype):
    for _ in range(5):
        lens = tuple(int(n) for n in rng.integers(1, 20, rng.integers(1, 6)))
        tensor = Tensor(any_handle, rng, dtype, lens, any_strides(lens, rng))
        old = tensor.keep()
        alpha = float(np.float32(rng.standard_normal() * 3))
        miopyx.miopenScaleTensor(any_handle, tensor.desc, tensor.data, alpha)
        want, got = alpha * old, tensor.result()
        if dtype == "int32":
            np.testing.assert_array_equal(got, saturated(want, dtype))
        elif dtype == "int8":  # a product rounds up to an integer in float32, or not
            assert (np.abs(got - saturated(want, dtype)) <= (np.abs(want - np.round(want)) < 1e-4)).all()
        else:
            within(got, want, np.abs(want), dtype, 1)


# Transforming and copying


@pytest.mark.parametrize("dtype", [*FLOATS, "int32"])
def test_transform(any_handle, rng, amount, dtype):
    for _ in range(6 if any_handle.device.is_host else amount(2, 6)):
        lens = tuple(int(n) for n in rng.integers(1, 40, rng.integers(1, 5)))
        x = Tensor(any_handle, rng, dtype, lens, any_strides(lens, rng))
        for alpha, beta in ((1, 0), (-2, 0), (0.5, 3)):
            y = Tensor(any_handle, rng, dtype, lens, any_strides(lens, rng),
                       np.nan if beta == 0 and dtype in FLOATS else None)
            old, wide = y.keep(), x.wide
            miopyx.miopenTransformTensor(any_handle, alpha, x.desc, x.data, beta, y.desc, y.data)
            want, got = alpha * wide + (beta * old if beta else 0), y.result()
            if dtype == "int32":
                np.testing.assert_array_equal(got, saturated(want, dtype))
            else:
                within(got, want, np.abs(alpha * wide) + (np.abs(beta * old) if beta else 0), dtype, 3)


@pytest.mark.parametrize(("function", "dtype"), [
    *itertools.product(["copy_tensor"], DTYPE),
    *itertools.product(["miopenTransformTensor"], [*FLOATS, *INTEGERS, "int64"]),
])
def test_copies_keep_every_bit(any_handle, rng, function, dtype):
    """NaN with any bits, and integers beyond float64's."""
    width = DTYPE[dtype].itemsize
    for _ in range(4):
        lens = tuple(int(n) for n in rng.integers(1, 24, rng.integers(1, 5)))
        raw = rng.integers(0, 256, (*lens, width), dtype=np.uint8).view(f"u{width}")[..., 0]
        x = Tensor(any_handle, rng, dtype, lens, any_strides(lens, rng), raw.view(DTYPE[dtype]))
        y = Tensor(any_handle, rng, dtype, lens, any_strides(lens, rng), 0)
        y.keep()
        if function == "copy_tensor":
            miopyx.copy_tensor(any_handle, x.desc, x.data, y.desc, y.data)
        else:
            miopyx.miopenTransformTensor(any_handle, 1, x.desc, x.data, 0, y.desc, y.data)
        np.testing.assert_array_equal(y.result().view(f"u{width}"), raw)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int8"])
@pytest.mark.parametrize("lens", [(2, 64, 15, 17), (1, 3, 40, 40), (3, 40, 1, 5), (2, 33, 3, 4, 6), (17, 31),
                                  (1, 600, 5, 30), (2, 300, 30, 1), (2, 512, 3, 12)])
def test_layouts(any_handle, rng, dtype, lens):
    """From channels first to last and back, by a call that copies and by a plan that may scale."""
    strides = [packed(lens), packed(lens, (0, *range(2, len(lens)), 1)) if len(lens) > 2 else packed(lens, (1, 0))]
    for x_strides, y_strides in (strides, strides[::-1]):
        x = Tensor(any_handle, rng, dtype, lens, x_strides)
        y = Tensor(any_handle, rng, dtype, lens, y_strides, 0)
        y.keep()
        miopyx.miopenTransformTensor(any_handle, 1, x.desc, x.data, 0, y.desc, y.data)
        np.testing.assert_array_equal(y.result(), x.view)
        for alpha, beta in [(1, 0)] + [(0.5, -1)] * (dtype in FLOATS):
            y = Tensor(any_handle, rng, dtype, lens, y_strides, None if beta else 0)
            old = y.keep()
            plan = any_handle.transform_tensor(x.desc, y.desc)
            plan(x.data, y.data, *([alpha, beta] if dtype in FLOATS else []))
            want = alpha * x.wide + beta * old
            if dtype in FLOATS:
                within(y.result(), want, np.abs(alpha * x.wide) + np.abs(beta * old), dtype, 3)
            else:
                np.testing.assert_array_equal(y.result(), want)


def test_every_half_survives_a_transposition(any_handle):
    """All bit patterns of 16 bits through the conversions of the plan, which does not copy."""
    x = np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)
    for dtype in ("float16", "bfloat16"):
        x_desc, y_desc = TensorDescriptor(dtype, x.shape), TensorDescriptor(dtype, x.shape, (1, 256))
        y = any_handle.upload(np.zeros_like(x).view(DTYPE[dtype]))
        any_handle.transform_tensor(x_desc, y_desc)(any_handle.upload(x.view(DTYPE[dtype])), y)
        got = any_handle.download(y, np.empty((256, 256), DTYPE[dtype])).astype(np.float64)
        np.testing.assert_array_equal(got.T, x.view(DTYPE[dtype]).astype(np.float64))


@pytest.mark.parametrize("x_channels", range(1, 9))
def test_channels_of_int8_are_padded(any_handle, rng, x_channels):
    y_channels = (x_channels + 3) // 4 * 4
    for lens in ((2, 5, 7), (3, 4, 5, 6), (1, 2, 3, 4, 5)):
        x_lens, y_lens = [(lens[0], channels, *lens[2:]) for channels in (x_channels, y_channels)]
        values = rng.integers(-128, 128, x_lens)
        x = Tensor(any_handle, rng, "int8", x_lens, any_strides(x_lens, rng), values)
        y = Tensor(any_handle, rng, "int8", y_lens, any_strides(y_lens, rng), 99)
        plan = any_handle.transform_tensor(x.desc, y.desc)
        for pad in (plan, lambda *data, x=x, y=y: miopyx.miopenTransformTensor(
                any_handle, 1.0, x.desc, data[0], 0.0, y.desc, data[1])):
            y = Tensor(any_handle, rng, "int8", y_lens, y.desc.strides, 99)
            y.keep()
            pad(x.data, y.data)
            wide = y.result()
            np.testing.assert_array_equal(wide[:, :x_channels], values)
            assert (wide[:, x_channels:] == 0).all()
        back = Tensor(any_handle, rng, "int8", x_lens, any_strides(x_lens, rng), 98)
        back.keep()
        y = Tensor(any_handle, rng, "int8", y_lens, any_strides(y_lens, rng), wide)
        miopyx.miopenTransformTensor(any_handle, 1.0, y.desc, y.data, 0.0, back.desc, back.data)
        np.testing.assert_array_equal(back.result(), values)


# Converting


def test_cast(any_handle, rng, request):
    """Some pairs of types; --configurations 3000 takes all of them, each of which is a program of its own."""
    pairs = list(itertools.product([*FLOATS, *INTEGERS], [*FLOATS, *INTEGERS], (False, True)))
    count = len(pairs) if any_handle.device.is_host else request.config.getoption("--configurations") // 40
    for number in rng.permutation(len(pairs))[:count]:
        check_cast(any_handle, rng, *pairs[number])


def check_cast(any_handle, rng, source, target, clamping):
    for alpha in (1, -0.75, 300):
        lens = tuple(int(n) for n in rng.integers(1, 25, rng.integers(1, 5)))
        if source in FLOATS:
            values = (rng.standard_normal(lens) * 10.0 ** rng.uniform(-3, 7, lens)).astype(DTYPE[source])
        else:
            info = np.iinfo(source)
            values = rng.integers(info.min, info.max + 1, lens)
        x = Tensor(any_handle, rng, source, lens, any_strides(lens, rng), values)
        y = Tensor(any_handle, rng, target, lens, any_strides(lens, rng), 0)
        y.keep()
        miopyx.cast_tensor(any_handle, alpha, clamping, x.desc, x.data, y.desc, y.data)
        got = y.result()
        exact = any(t in ("float64", "int32") for t in (source, target)) or any_handle.device.is_host
        wide = alpha * x.wide if exact else (np.float32(alpha) * x.view.astype(np.float32)).astype(np.float64)
        if target in INTEGERS:
            whole = np.trunc(np.where(np.isfinite(wide), wide, 0))
            if clamping:
                want = saturated(wide, target)
            else:
                bits = 8 * DTYPE[target].itemsize
                want = (whole.astype(np.int64) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
            np.testing.assert_array_equal(got, want)
        else:
            highest = float(ml_dtypes.finfo(DTYPE[target]).max)
            want = np.clip(wide, -highest, highest) if clamping else wide
            want = want.astype(DTYPE[target]).astype(np.float64)
            within(got, want, np.where(np.isfinite(want), np.abs(want), 0), target, 1, UNIT[target])


def test_cast_of_special_numbers(any_handle):
    x = np.tile(np.array([math.nan, math.inf, -math.inf, 1e30, -1e30, 2.0**62, 300.7, -300.7], "f4"), 3)
    source = TensorDescriptor("float32", x.shape)

    def cast(target, clamping):
        y = any_handle.upload(np.zeros(x.shape, DTYPE[target]))
        miopyx.cast_tensor(any_handle, 1, clamping, source, any_handle.upload(x), TensorDescriptor(target, x.shape), y)
        return any_handle.download(y, np.empty(x.shape, DTYPE[target]))[:8].astype(np.float64).tolist()

    assert cast("int8", True) == [0, 127, -128, 127, -128, 127, 127, -128]
    assert cast("int8", False) == [0, 0, 0, 0, 0, 0, 44, -44]
    assert cast("int32", True) == [0, 2**31 - 1, -2**31, 2**31 - 1, -2**31, 2**31 - 1, 300, -300]
    assert cast("int32", False) == [0, 0, 0, 0, 0, 0, 300, -300]
    half = cast("float16", True)
    assert math.isnan(half[0])
    assert half[1:6] == [65504, -65504, 65504, -65504, 65504]
    half = cast("float16", False)
    assert math.isnan(half[0])
    assert half[1:6] == [math.inf, -math.inf, math.inf, -math.inf, math.inf]
    highest = float(ml_dtypes.finfo("bfloat16").max)
    assert cast("bfloat16", True)[1:3] == [highest, -highest]
    assert cast("float32", True)[1:3] == [float(np.finfo("f4").max), -float(np.finfo("f4").max)]


# Plans


def test_plans(handle, rng):
    lens = (2, 6, 5, 4)
    a, b, c = (rng.standard_normal(n).astype("f4") for n in (lens, (1, 6, 1, 1), lens))
    full, flat = TensorDescriptor("float32", lens), TensorDescriptor("float32", b.shape)
    half = TensorDescriptor("float16", lens)
    plans = {
        "op": handle.op_tensor(enums.miopenTensorOpMul, full, flat, full), "set": handle.set_tensor(full, 2.5),
        "scale": handle.scale_tensor(full), "transform": handle.transform_tensor(full, full),
        "copy": handle.copy_tensor(full, full), "cast": handle.cast_tensor(full, half, clamping=True),
    }
    for _ in range(2):
        data_a, data_b, data_c = handle.upload(a), handle.upload(b), handle.upload(c)
        plans["op"](data_a, data_b, data_c, alpha1=2, beta=1)
        np.testing.assert_allclose(handle.download(data_c, np.empty_like(c)), 2 * a * b + c, rtol=1e-5, atol=1e-5)
        plans["set"](data_c)
        np.testing.assert_array_equal(handle.download(data_c, np.empty_like(c)), np.full(lens, 2.5))
        plans["scale"](data_c, -2)
        np.testing.assert_array_equal(handle.download(data_c, np.empty_like(c)), np.full(lens, -5.0))
        plans["transform"](data_a, data_c, 2, 1)
        np.testing.assert_allclose(handle.download(data_c, np.empty_like(c)), 2 * a - 5, rtol=1e-5, atol=1e-6)
        plans["copy"](data_a, data_c)
        np.testing.assert_array_equal(handle.download(data_c, np.empty_like(c)), a)
        data_half = handle.upload(np.zeros(lens, "f2"))
        plans["cast"](data_a, data_half, 100000)
        np.testing.assert_array_equal(handle.download(data_half, np.empty(lens, "f2")),
                                      np.clip(a * np.float32(100000), -65504, 65504).astype("f2"))
    assert plans["op"].buffers == ("A", "B", "C")
    assert plans["op"].numbers == {"alpha1": 1, "alpha2": 1, "beta": 0}
    assert plans["set"].numbers == {}
    assert "1201" in plans["op"].explain() or handle.device.is_host
    whole = TensorDescriptor("int64", lens)
    assert handle.transform_tensor(whole, whole).numbers == {}
    data = [handle.upload(np.zeros(lens, "i8")) for _ in range(2)]
    with pytest.raises(TypeError):
        handle.transform_tensor(whole, whole)(*data, 2)


def test_same_bits_for_any_number_of_threads(rng, setting):
    x = rng.standard_normal((3, 50, 40, 41)).astype("f4")
    straight, turned = desc(x.shape), desc(x.shape, strides=packed(x.shape, (0, 2, 3, 1)))
    results = set()
    for threads in (1, 2, 3):
        setting(MIOPYX_NUM_THREADS=threads)
        with miopyx.Handle("host") as handle:
            y = np.zeros(x.size, "f4")
            miopyx.miopenTransformTensor(handle, 0.1, straight, x, 0, turned, y)
            miopyx.miopenOpTensor(handle, 1, 0.3, turned, y, 0.7, straight, x, 0.2, turned, y)
            results.add(y.tobytes())
    assert len(results) == 1


# What is refused


def desc(lens, dtype="float32", strides=None):
    return TensorDescriptor(dtype, lens, strides)


@pytest.mark.parametrize(("error", "a", "b", "c"), [
    (UnknownError, desc((2, 3, 4, 4)), desc((1, 3, 1, 1)), desc((2, 3, 4, 5))),      # counts of A and C
    (UnknownError, desc((2, 3, 4, 4)), desc((1, 3, 1, 1), "float16"), desc((2, 3, 4, 4))),
    (UnknownError, desc((1,) * 6), desc((1,) * 6), desc((1,) * 6)),
    (UnknownError, desc((2, 3, 4)), desc((1, 3, 1, 1)), desc((2, 3, 4))),
    (UnknownError, desc((2, 3, 4, 4)), desc((1, 2, 1, 1)), desc((2, 3, 4, 4))),
    (UnknownError, desc((2, 3, 4, 4)), desc((1, 3, 4, 8)), desc((2, 3, 4, 4))),
    (BadParmError, desc((3, 2, 4, 4)), desc((1, 3, 1, 1)), desc((2, 3, 4, 4))),      # lengths of A
    (BadParmError, desc((6, 16)), desc((1, 3, 1, 1)), desc((2, 3, 4, 4))),
    (BadParmError, desc((2, 3, 4, 4), "float16"), desc((1, 3, 1, 1)), desc((2, 3, 4, 4))),
    (BadParmError, TensorDescriptor(), desc((1, 3, 1, 1)), desc((2, 3, 4, 4))),
    (BadParmError, desc((2, 3, 4, 4)), TensorDescriptor(), desc((2, 3, 4, 4))),
    (BadParmError, desc((2, 3, 4, 4)), desc((1, 3, 1, 1)), TensorDescriptor()),
    (BadParmError, None, desc((1, 3, 1, 1)), desc((2, 3, 4, 4))),
    (BadParmError, desc((2, 3, 4, 4)), None, desc((2, 3, 4, 4))),
    (BadParmError, desc((2, 3, 4, 4)), desc((1, 3, 1, 1)), None),
    (BadParmError, desc((2, 4)), desc((2, 4)), desc((2, 4), strides=(3, 1))),        # overlapping strides
    (MIOpenNotImplementedError, desc((2, 4), "int64"), desc((2, 4), "int64"), desc((2, 4), "int64")),
    (MIOpenNotImplementedError, *[TensorDescriptor("float32", (1, 4, 2, 2), layout=3)] * 3),
])
def test_op_refuses(handle, error, a, b, c):
    data = [handle.upload(np.full(256, 7, np.uint8)) for _ in range(3)]
    with pytest.raises(error):
        miopyx.miopenOpTensor(handle, 0, 1, a, data[0], 1, b, data[1], 0, c, data[2])
    assert (handle.download(data[2], np.empty(256, np.uint8)) == 7).all()
    with pytest.raises(error):
        handle.op_tensor(0, a, b, c)


def test_op_refuses_arguments(handle):
    one = desc((2, 3))
    x, y, z = (handle.upload(np.zeros((2, 3), "f4")) for _ in range(3))

    def op(number=0, alpha1=1, a=x, alpha2=1, b=y, beta=0, c=z):
        miopyx.miopenOpTensor(handle, number, alpha1, one, a, alpha2, one, b, beta, one, c)

    op()
    for name in ("a", "b", "c", "alpha1", "alpha2", "beta"):
        with pytest.raises(BadParmError):
            op(**{name: None})
    for number in (-1, 4, "subtract", None, 1.0, 2**40):
        with pytest.raises(BadParmError):
            op(number)
    small = handle.upload(np.zeros(5, "f4"))
    for name in ("a", "b", "c"):
        with pytest.raises(BadParmError):
            op(**{name: small})
    wrong = np.zeros((2, 3), "f2")
    with pytest.raises(BadParmError):
        op(c=wrong)


def test_memory_that_is_shared(handle, rng):
    """C may be A or B where the layouts agree, and must not touch them otherwise."""
    if handle.device.is_host:
        whole = np.zeros(64, "f4")
        at = lambda first: whole[first:first + 24]  # noqa: E731
    elif handle.device.info.cuda >= 0:
        buffer = handle.upload(np.zeros(64, "f4"))
        interface = buffer.__cuda_array_interface__
        begin = interface["data"][0]
        at = lambda first: SimpleNamespace(__cuda_array_interface__={  # noqa: E731
            **interface, "shape": (24,), "typestr": "<f4", "data": (begin + 4 * first, False)})
    else:
        import pyopencl.array

        buffer = handle.upload(np.zeros(64, "f4"))
        at = lambda first: pyopencl.array.Array(handle.queue, (24,), np.float32, data=buffer, offset=4 * first)  # noqa: E731
    apart = handle.upload(np.ones(24, "f4"))
    one, turned, flat = desc((4, 6)), desc((4, 6), strides=(1, 4)), desc((1, 6))
    miopyx.miopenOpTensor(handle, 0, 1, one, at(0), 1, one, apart, 0, one, at(0))
    miopyx.miopenOpTensor(handle, 0, 1, one, apart, 1, one, at(0), 0, one, at(0))
    miopyx.miopenOpTensor(handle, 0, 1, one, at(0), 1, one, at(0), 0, one, at(0))
    miopyx.miopenOpTensor(handle, 0, 1, one, apart, 1, one, apart, 0, one, at(0))
    for a, a_data, b, b_data in ((turned, at(0), one, apart), (one, at(4), one, apart), (one, apart, turned, at(0)),
                                 (one, apart, flat, at(0)), (one, apart, one, at(20))):
        with pytest.raises(BadParmError, match="shares memory"):
            miopyx.miopenOpTensor(handle, 0, 1, a, a_data, 1, b, b_data, 0, one, at(0))
    miopyx.miopenTransformTensor(handle, 2, one, at(0), 1, one, at(0))
    miopyx.cast_tensor(handle, 1, False, one, at(0), one, at(0))
    miopyx.copy_tensor(handle, one, at(0), one, at(0))
    for call in (lambda: miopyx.miopenTransformTensor(handle, 2, turned, at(0), 1, one, at(0)),
                 lambda: miopyx.copy_tensor(handle, one, at(2), one, at(0)),
                 lambda: miopyx.cast_tensor(handle, 1, False, desc((4, 6), "float16"), at(0), one, at(0))):
        with pytest.raises(BadParmError):
            call()


def test_set_and_scale_refuse(handle):
    y = handle.upload(np.zeros(64, np.uint8))
    for function in (miopyx.miopenSetTensor, miopyx.miopenScaleTensor):
        for arguments in ((None, y, 1), (TensorDescriptor(), y, 1), (desc((4,)), None, 1), (desc((17,)), y, 1),
                          (desc((4,)), y, None), (desc((4,)), y, "x"), (desc((2, 2), strides=(1, 1)), y, 1)):
            with pytest.raises(BadParmError):
                function(handle, *arguments)
        with pytest.raises(UnknownError):
            function(handle, desc((1,) * 6), y, 1)
        with pytest.raises(MIOpenNotImplementedError):
            function(handle, TensorDescriptor("float32", (1, 4, 2, 2), layout=3), y, 1)
    for dtype in ("int64", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        with pytest.raises(BadParmError):
            miopyx.miopenScaleTensor(handle, desc((4,), dtype), y, 1)
    for dtype in ("float8_e4m3fnuz", "float8_e5m2fnuz"):
        with pytest.raises(MIOpenNotImplementedError):
            miopyx.miopenSetTensor(handle, desc((4,), dtype), y, 1)


@pytest.mark.parametrize(("error", "x", "y", "alpha", "beta"), [
    (UnknownError, desc((2, 3)), desc((2, 3, 1)), 1, 0),
    (UnknownError, desc((2, 3)), desc((3, 3)), 1, 0),
    (UnknownError, desc((2, 3)), desc((2, 4)), 1, 0),
    (UnknownError, desc((2, 3)), desc((2, 3), "float16"), 1, 0),
    (UnknownError, desc((2, 3), "float8_e4m3fnuz"), desc((2, 3), "float8_e4m3fnuz"), 1, 0),
    (UnknownError, desc((1,) * 6), desc((1,) * 6), 1, 0),
    (UnknownError, desc((2, 3, 2), "int8"), desc((2, 5, 2), "int8"), 1, 0),      # no multiple of 4
    (UnknownError, desc((2, 3, 2), "int8"), desc((2, 8, 2), "int8"), 1, 0),      # more than the next one
    (UnknownError, desc((2, 7, 2), "int8"), desc((2, 5, 2), "int8"), 1, 0),
    (UnknownError, desc((2, 3, 2), "int8"), desc((1, 4, 2), "int8"), 1, 0),
    (UnknownError, desc((2, 3), "int8"), desc((2, 4), "int8"), 1, 0),            # rank 2 has no channels to pad
    (UnknownError, desc((2, 3, 2), "int32"), desc((2, 4, 2), "int32"), 1, 0),
    (MIOpenNotImplementedError, desc((2, 3, 2), "int8"), desc((2, 4, 2), "int8"), 2, 0),
    (MIOpenNotImplementedError, desc((2, 4, 2), "int8"), desc((2, 4, 2), "int8"), 1, 1),
    (MIOpenNotImplementedError, desc((2, 4), "int64"), desc((2, 4), "int64"), 1, 1),
    (BadParmError, desc((2, 4)), desc((2, 4), strides=(3, 1)), 1, 0),
    (BadParmError, None, desc((2, 4)), 1, 0), (BadParmError, desc((2, 4)), None, 1, 0),
    (BadParmError, TensorDescriptor(), desc((2, 4)), 1, 0), (BadParmError, desc((2, 4)), TensorDescriptor(), 1, 0),
    (BadParmError, desc((2, 4)), desc((2, 4)), None, 0), (BadParmError, desc((2, 4)), desc((2, 4)), 1, None),
    (MIOpenNotImplementedError, *[TensorDescriptor("float32", (1, 4, 2, 2), layout=3)] * 2, 1, 0),
])
def test_transform_refuses(handle, error, x, y, alpha, beta):
    data = [handle.upload(np.full(256, 7, np.uint8)) for _ in range(2)]
    with pytest.raises(error):
        miopyx.miopenTransformTensor(handle, alpha, x, data[0], beta, y, data[1])
    assert (handle.download(data[1], np.empty(256, np.uint8)) == 7).all()


def test_transform_refuses_memory(handle):
    x = handle.upload(np.zeros(8, "f4"))
    for a, b in ((None, x), (x, None), (handle.upload(np.zeros(3, "f4")), x)):
        with pytest.raises(BadParmError):
            miopyx.miopenTransformTensor(handle, 1, desc((8,)), a, 0, desc((8,)), b)


@pytest.mark.parametrize(("error", "source", "target"), [
    (BadParmError, desc((2, 3)), desc((2, 4))), (BadParmError, desc((2, 3)), desc((2, 3, 1))),
    (BadParmError, None, desc((2, 3))), (BadParmError, desc((2, 3)), None),
    (BadParmError, TensorDescriptor(), desc((2, 3))), (BadParmError, desc((2, 3)), TensorDescriptor()),
    (BadParmError, desc((2, 3)), desc((2, 3), strides=(1, 1))), (UnknownError, desc((1,) * 6), desc((1,) * 6)),
    (MIOpenNotImplementedError, *[TensorDescriptor("float32", (1, 4, 2, 2), layout=3)] * 2),
])
def test_copy_and_cast_refuse(handle, error, source, target):
    x, y = handle.upload(np.zeros(64, np.uint8)), handle.upload(np.zeros(64, np.uint8))
    with pytest.raises(error):
        miopyx.copy_tensor(handle, source, x, target, y)
    with pytest.raises(error):
        miopyx.cast_tensor(handle, 1, False, source, x, target, y)


def test_types_of_copy_and_cast(handle):
    x, y = handle.upload(np.zeros(64, np.uint8)), handle.upload(np.zeros(64, np.uint8))
    with pytest.raises(BadParmError):
        miopyx.copy_tensor(handle, desc((4,)), x, desc((4,), "int32"), y)
    for dtype in ("int64", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        for pair in ((desc((4,), dtype), desc((4,))), (desc((4,)), desc((4,), dtype))):
            with pytest.raises(BadParmError):
                miopyx.cast_tensor(handle, 1, False, pair[0], x, pair[1], y)
    for clamping in (None, 2, "yes", 0.5):
        with pytest.raises(BadParmError) as raised:
            miopyx.cast_tensor(handle, 1, clamping, desc((4,)), x, desc((4,)), y)
        assert raised.value.parameter == "clamping"
    with pytest.raises(BadParmError):
        miopyx.cast_tensor(handle, None, False, desc((4,)), x, desc((4,)), y)


def test_devices_without_double_precision(opencl_name):
    info = devices.find(opencl_name)._replace(fp64=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "find", lambda _: info)
        handle = miopyx.Handle(opencl_name)
    with handle:
        x = np.arange(40, dtype="f4")
        y = handle.upload(x)
        miopyx.miopenScaleTensor(handle, desc((40,)), y, 2)
        np.testing.assert_array_equal(handle.download(y, np.empty_like(x)), 2 * x)
        for dtype in ("float64", "int32"):
            with pytest.raises(MIOpenNotImplementedError, match="double"):
                miopyx.miopenScaleTensor(handle, desc((4,), dtype), handle.upload(np.zeros(4, dtype)), 2)
            data = handle.upload(np.zeros(4, dtype))
            miopyx.miopenSetTensor(handle, desc((4,), dtype), data, 3)
            np.testing.assert_array_equal(handle.download(data, np.empty(4, dtype)), [3] * 4)


# The gradient of a bias


@pytest.mark.parametrize("dtype", FLOATS)
def test_bias_gradient(any_handle, rng, amount, dtype):
    """Any axes kept, any layout; the sum of n terms in float64 or float32 rounds n times at most."""
    cases = (((2, 5, 7, 6), (1,)), ((3, 40, 9, 11), (1,)), ((1, 3, 60, 61), (1,)), ((6, 130, 3, 3), (1,)),
             ((2, 3, 4, 5, 6), (1,)), ((2, 3, 4, 5), (0, 1, 3)), ((2, 3, 4, 5), (0, 1, 2, 3)),
             ((70, 4), (1,)), ((2, 1, 4, 5), ()), ((2, 6, 40, 3), (1, 3)))
    few = len(cases) if any_handle.device.is_host else amount(5 if dtype == "float32" else 2, len(cases))
    for lens, kept in (cases[i] for i in rng.permutation(len(cases))[:few]):
        b_lens = tuple(n if axis in kept else 1 for axis, n in enumerate(lens))
        for strides in (None, packed(lens, (0, *range(2, len(lens)), 1)), any_strides(lens, rng)):
            y = Tensor(any_handle, rng, dtype, lens, strides)
            alpha, beta = ((1, 0), (0.5, -2))[rng.integers(2)]
            b = Tensor(any_handle, rng, dtype, b_lens, any_strides(b_lens, rng), np.nan if beta == 0 else None)
            old = b.keep()
            y.keep()
            miopyx.miopenConvolutionBackwardBias(any_handle, alpha, y.desc, y.data, beta, b.desc, b.data)
            axes = tuple(axis for axis in range(len(lens)) if axis not in kept)
            want = alpha * y.wide.sum(axes, keepdims=True) + (beta * old if beta else 0)
            terms = abs(alpha) * np.abs(y.wide).sum(axes, keepdims=True) + (np.abs(beta * old) if beta else 0)
            within(b.result(), want, terms, dtype, 4 + y.view.size // b.view.size)


def test_large_bias_gradient(any_handle, rng):
    """Few channels are summed in parts, many in one go; sums are float64's wherever a device has them.

    Else they are float32's, whose roundings mostly cancel: 2.1 of the largest were seen.
    """
    roundings = 2 if any_handle.device.fp64 else 128
    for lens in ((2, 3, 200, 201), (1, 1, 300, 300), (40, 300, 5, 5), (300, 64, 4, 3), (3, 1000, 3, 3),
                 (2, 24, 40, 40)):
        y = rng.standard_normal(lens).astype("f4") + np.float32(1)
        want = y.astype(np.float64).sum((0, 2, 3))
        turned = packed(lens, (0, 2, 3, 1))
        for strides, stored in ((None, y), (turned, y.transpose(0, 2, 3, 1).flatten())):
            db = any_handle.upload(np.full(lens[1], np.nan, "f4"))
            dy = any_handle.upload(stored)
            miopyx.miopenConvolutionBackwardBias(any_handle, 1, desc(lens, strides=strides), dy, 0,
                                                 desc((1, lens[1], 1, 1)), db)
            got = any_handle.download(db, np.empty(lens[1], "f4"))
            assert (np.abs(got - want) <= roundings * 2.0**-24 * np.abs(y).sum((0, 2, 3))).all()
