"""The k-th smallest numbers: values and first places, types, axes, strides, ties, special numbers, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from guarded import DTYPE, Tensor, strides_of

import miopyx
from miopyx import TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError

DTYPE.setdefault("int64", np.dtype("i8"))
TYPES = ("float32", "float16", "bfloat16", "float64")
LAYOUTS = ("packed", "channels last", "padded")


def check(handle, dtype, lens, dim, k, rng, kept=False, values=None, layouts=("packed",)):
    if dtype == "float64" and not handle.device.fp64:
        pytest.skip("no double precision")

    def tensor(kind, lens, values=None):
        layout = layouts[rng.integers(len(layouts))] if len(lens) > 2 else "packed"
        return Tensor(handle, TensorDescriptor(kind, lens, strides_of(lens, layout)), values)
    axis = dim % len(lens)
    out = (*lens[:axis], *((1,) if kept or len(lens) == 1 else ()), *lens[axis + 1:])
    x = tensor(dtype, lens, rng.standard_normal(lens) if values is None else values)
    y, indices = tensor(dtype, out), tensor("int64", out)
    miopyx.miopenKthvalueForward(handle, x.desc, x.argument(), y.desc, y.argument(), indices.desc, indices.argument(),
                                 k, dim, kept)
    handle.finish()
    numbers = x.view().astype(np.float64)
    places = np.argsort(np.where(numbers == 0, 0.0, numbers), axis, kind="stable")  # NaN last, as here
    ordered = np.take_along_axis(numbers, places, axis)
    want = np.take(ordered, k - 1, axis)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(y.values().reshape(want.shape), want)
    # The first of equal ones.
    same = np.expand_dims(want, axis)
    first = np.argmax((numbers == same) | np.isnan(numbers) & np.isnan(same), axis)
    indices.fetch()
    np.testing.assert_array_equal(indices.view().reshape(first.shape), first)


@pytest.mark.parametrize("dtype", TYPES)
def test_values(handle, dtype, rng, amount):
    for _ in range(amount(3, 10)):
        rank = int(rng.integers(1, 6))
        lens = tuple(int(v) for v in rng.integers(1, (3000, 80, 18, 8, 6)[rank - 1], rank))
        dim = int(rng.integers(-rank, rank))
        check(handle, dtype, lens, dim, int(rng.integers(1, lens[dim] + 1)), rng, bool(rng.integers(2)),
              layouts=LAYOUTS)


@pytest.mark.parametrize("dtype", TYPES)
def test_gpu_kernels(gpu, dtype, rng):
    for lens, dim in (((5, 700), 1), ((700, 5), 0), ((2, 3, 40), 2), ((3, 9), -1)):
        check(gpu, dtype, lens, dim, int(rng.integers(1, lens[dim] + 1)), rng)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_ties_and_zeros(handle, gpu, on_gpu, rng):
    where = gpu if on_gpu else handle
    values = rng.integers(-2, 3, (20, 90)) * np.where(rng.random((20, 90)) < 0.5, 1.0, -1.0)
    for k in (1, 30, 45, 60, 90):
        check(where, "float32", (20, 90), 1, k, rng, values=values)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_special_numbers(handle, gpu, on_gpu, rng):
    values = rng.standard_normal((6, 50))
    values[rng.random((6, 50)) < 0.3] = np.nan
    values[rng.random((6, 50)) < 0.2] = -np.inf
    values[rng.random((6, 50)) < 0.2] = np.inf
    for dtype in TYPES[:3]:
        for k in (1, 20, 35, 50):
            check(gpu if on_gpu else handle, dtype, (6, 50), 1, k, rng, values=values)


def test_torch(handle, rng):
    torch = pytest.importorskip("torch")
    x = rng.standard_normal((7, 33)).astype("f4")
    y, indices = np.empty(7, "f4"), np.empty(7, "i8")
    memory = [handle.upload(a) for a in (x, y, indices)]
    descs = [TensorDescriptor.of(a) for a in (x, y, indices)]
    miopyx.miopenKthvalueForward(handle, *(v for pair in zip(descs, memory, strict=True) for v in pair), 12, -1,
                                 False)
    handle.download(memory[1], y)
    handle.download(memory[2], indices)
    want = torch.kthvalue(torch.tensor(x), 12)
    np.testing.assert_array_equal(y, want.values.numpy())
    np.testing.assert_array_equal(indices, want.indices.numpy())


X, Y, PLACES = (TensorDescriptor(kind, lens) for kind, lens in (
    ("float32", (4, 6)), ("float32", (4,)), ("int64", (4,))))


@pytest.mark.parametrize(("change", "parameter"), [
    ({"k": 0}, "k"), ({"k": 7}, "k"), ({"k": -1}, "k"), ({"k": 1.0}, "k"), ({"k": 2**40}, "k"), ({"dim": 2}, "dim"),
    ({"dim": -3}, "dim"), ({"dim": 9}, "dim"), ({"kept": True}, "outputDesc"), ({"kept": 2}, "keepDim"),
    ({"dim": 0}, "outputDesc"), ({"y": X}, "outputDesc"), ({"y": TensorDescriptor("float16", (4,))}, "outputDesc"),
    ({"i": TensorDescriptor("int32", (4,))}, "indicesDesc"), ({"i": TensorDescriptor("int64", (6,))}, "indicesDesc"),
    ({"x": None}, "inputDesc"),
])
def test_refusals(host, change, parameter):
    x, y, indices = np.ones((4, 6), "f4"), np.full(4, 7, "f4"), np.full(4, 7, "i8")
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenKthvalueForward(host, change.get("x", X), x, change.get("y", Y), y, change.get("i", PLACES),
                                     indices, change.get("k", 1), change.get("dim", 1), change.get("kept", False))
    assert raised.value.parameter == parameter
    assert raised.value.limit
    assert (y == 7).all()
    integers, result = TensorDescriptor("int32", (4, 6)), TensorDescriptor("int32", (4,))
    with pytest.raises(MIOpenNotImplementedError):
        miopyx.miopenKthvalueForward(host, integers, x, result, y, PLACES, indices, 1, 1, False)
