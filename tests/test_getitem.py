"""The gradient of indexing: values, duplicates, axes, slices, indices below 0 and beyond an axis, and refusals.

Sums are compared with NumPy's add.at in float64: what goes to one place is summed in float32 (float64 for float64
tensors), with roundoff v, keeping what additions round away, and rounded once, by u.
"""

from __future__ import annotations

import numpy as np
import pytest
from guarded import DTYPE, ROUNDOFF, Tensor, strides_of

import miopyx
from miopyx import TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError

DTYPE.setdefault("int64", np.dtype("i8"))
TYPES = ("float32", "float16", "bfloat16", "float64")
LAYOUTS = ("packed", "channels last", "padded")


def check(handle, dtype, lens, start, count, length, rng, kind="int32", slices=(), offset=0, layouts=("packed",),
          spread=None):
    """Add to a tensor of `lens` along `count` axes from `start` on; indices are drawn from `spread` places."""
    if dtype == "float64" and not handle.device.fp64:
        pytest.skip("no double precision")

    def tensor(kind, lens, values=None):
        layout = layouts[rng.integers(len(layouts))] if len(lens) > 2 else "packed"
        return Tensor(handle, TensorDescriptor(kind, lens, strides_of(lens, layout)), values)
    dx = tensor(dtype, lens, rng.standard_normal(lens))
    want, size = dx.view().astype(np.float64), np.abs(dx.view().astype(np.float64))
    cut = [slice(None)] * len(lens)
    for axis, first, last, step in slices:
        cut[axis] = slice(first, last, step)
    views = [array[tuple(cut)][offset:] for array in (want, size)]
    seen = views[0].shape
    indices = [rng.integers(-n, n, length) if spread is None else rng.integers(0, min(spread, n), length)
               for n in seen[start:start + count]]
    shape = (*seen[:start], length, *seen[start + count:]) if count else seen
    dy = tensor(dtype, shape, rng.standard_normal(shape))
    tensors = [tensor(kind, (length,), values) for values in indices]
    error = tensor("int32", (count,), 0) if count else None
    miopyx.miopenGetitemBackward(
        handle, None, 0, dy.desc, dy.argument(), count, [t.desc for t in tensors], [t.argument() for t in tensors],
        dx.desc, dx.argument(), error.desc if count else None, error.argument() if count else None, count,
        list(range(start, start + count)), len(slices), [v for one in slices for v in one], offset)
    handle.finish()
    place = (slice(None),) * start + tuple(indices) if count else (Ellipsis,)
    np.add.at(views[0], place, dy.view().astype(np.float64))
    np.add.at(views[1], place, np.abs(dy.view().astype(np.float64)))
    u, v = ROUNDOFF[dtype], ROUNDOFF["float64" if dtype == "float64" else "float32"]
    got = dx.values()
    wrong = ~(np.abs(got - want) <= u * np.abs(want) + 4 * v * size + 2.0**-24)
    assert not wrong.any(), (dtype, lens, start, count, length, wrong.sum(), got[wrong][:3], want[wrong][:3])
    if count:
        assert (error.values() == 0).all()


def any_problem(handle, dtype, rng):
    rank = int(rng.integers(1, 6))
    lens = tuple(int(v) for v in rng.integers(2, (400, 60, 20, 9, 6)[rank - 1], rank))
    count = int(rng.integers(0, rank + 1))
    start = int(rng.integers(0, rank - count + 1))
    slices = []
    if rng.integers(2):
        axis = int(rng.integers(rank))
        first = int(rng.integers(0, lens[axis] - 1))
        slices.append((axis, first, int(rng.integers(first + 1, lens[axis] + 1)), int(rng.integers(1, 4))))
    offset = 0 if any(axis == 0 for axis, *_ in slices) else int(rng.integers(0, 2))
    check(handle, dtype, lens, start, count, int(rng.integers(1, 300)), rng, str(rng.choice(["int32", "int64"])),
          slices, offset, LAYOUTS)


@pytest.mark.parametrize("dtype", TYPES)
def test_values(handle, dtype, rng, amount):
    for _ in range(amount(3, 12)):
        any_problem(handle, dtype, rng)


@pytest.mark.parametrize("dtype", TYPES)
def test_gpu_kernels(gpu, dtype, rng, amount):
    for _ in range(amount(2, 8)):
        any_problem(gpu, dtype, rng)


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("spread", [1, 3, 40])
def test_duplicates(handle, gpu, spread, on_gpu, rng):
    """Many go to few places, more than a group has work-items."""
    where = gpu if on_gpu else handle
    check(where, "float32", (40, 70), 0, 1, 1000, rng, spread=spread)
    check(where, "float16", (5, 50, 33), 1, 1, 700, rng, spread=spread)
    check(where, "float32", (9, 8, 300), 0, 2, 777, rng, spread=spread)


def test_runs_are_alike(handle, gpu, rng):
    for where in (handle, gpu):
        indices, dy = rng.integers(0, 5, 900).astype("i4"), rng.standard_normal((900, 30)).astype("f4")
        results = []
        for _ in range(3):
            dx, error = where.upload(np.zeros((7, 30), "f4")), where.upload(np.zeros(1, "i4"))
            descs = [TensorDescriptor("float32", (900, 30)), TensorDescriptor("float32", (7, 30)),
                     TensorDescriptor("int32", (900,)), TensorDescriptor("int32", (1,))]
            miopyx.miopenGetitemBackward(where, None, 0, descs[0], where.upload(dy), 1, [descs[2]],
                                         [where.upload(indices)], descs[1], dx, descs[3], error, 1, [0], 0, None, 0)
            out = np.empty((7, 30), "f4")
            where.download(dx, out)
            results.append(out)
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("on_gpu", [False, True])
def test_indices_beyond_an_axis(handle, gpu, on_gpu):
    where = gpu if on_gpu else handle
    rows, columns = np.array([0, 4, 1, -5], "i4"), np.array([1, 1, 7, 2], "i4")
    dy, dx, error = np.ones((4, 3), "f4"), np.zeros((4, 6, 3), "f4"), np.full(3, 9, "i4")
    arrays = {"dy": dy, "dx": dx, "error": error, "r": rows, "c": columns}
    memory = {name: where.upload(a) for name, a in arrays.items()}
    d = {name: TensorDescriptor.of(a) for name, a in (("dy", dy), ("dx", dx), ("error", error), ("r", rows))}
    miopyx.miopenGetitemBackward(where, None, 0, d["dy"], memory["dy"], 2, [d["r"], d["r"]], [memory["r"], memory["c"]],
                                 d["dx"], memory["dx"], d["error"], memory["error"], 2, [0, 1], 0, None, 0)
    where.download(memory["dx"], dx)
    where.download(memory["error"], error)
    np.testing.assert_array_equal(error, [-1, -1, 9])
    want = np.zeros((4, 6, 3))
    want[0, 1] = 1
    np.testing.assert_array_equal(dx, want)


def test_torch(handle, rng):
    torch = pytest.importorskip("torch")
    x = torch.zeros((6, 5, 4), requires_grad=True)
    rows, columns = rng.integers(0, 6, 20), rng.integers(0, 5, 20)
    dy = rng.standard_normal((20, 4)).astype("f4")
    x[torch.tensor(rows), torch.tensor(columns)].backward(torch.tensor(dy))
    dx, index = handle.upload(np.zeros((6, 5, 4), "f4")), TensorDescriptor("int64", (20,))
    miopyx.miopenGetitemBackward(
        handle, None, 0, TensorDescriptor.of(dy), handle.upload(dy), 2, [index, index],
        [handle.upload(rows), handle.upload(columns)], TensorDescriptor("float32", (6, 5, 4)), dx,
        TensorDescriptor("int32", (2,)), handle.upload(np.zeros(2, "i4")), 2, [0, 1], 0, None, 0)
    out = np.empty((6, 5, 4), "f4")
    handle.download(dx, out)
    np.testing.assert_allclose(out, x.grad.numpy(), rtol=1e-5, atol=1e-6)


DY, DX, INDEX, ERROR = (TensorDescriptor(kind, lens) for kind, lens in (
    ("float32", (9, 6)), ("float32", (4, 6)), ("int32", (9,)), ("int32", (1,))))


@pytest.mark.parametrize(("change", "parameter"), [
    ({2: TensorDescriptor("float32", (9, 5))}, "dyDesc"), ({2: TensorDescriptor("float16", (9, 6))}, "dyDesc"),
    ({4: 2}, "indexDescs"), ({4: -1}, "indexCount"), ({4: 6}, "indexCount"), ({5: None}, "indexDescs"),
    ({5: [None]}, "indexDescs[0]"), ({5: [TensorDescriptor("int8", (9,))]}, "indexDescs[0]"),
    ({5: [TensorDescriptor("int32", (3, 3))]}, "indexDescs[0]"), ({6: [None]}, "indexs[0]"), ({9: None}, "errorDesc"),
    ({9: TensorDescriptor("float32", (1,))}, "errorDesc"), ({10: None}, "error"), ({11: 2}, "dims"),
    ({11: 2, 12: [0, 1]}, "dimCount"), ({12: [2]}, "dims[0]"), ({12: [-1]}, "dims[0]"), ({12: "0"}, "dims"),
    ({13: 1}, "slices"), ({13: 1, 14: [2, 0, 1, 1]}, "slices[0]"), ({13: 1, 14: [0, 5, 6, 1]}, "slices[1]"),
    ({13: 1, 14: [0, 2, 1, 1]}, "slices[2]"), ({13: 1, 14: [0, 0, 4, 0]}, "slices[3]"), ({15: -1}, "offset"),
    ({15: 5}, "offset"), ({1: -1}, "workspaceSizeInBytes"), ({12: [1]}, "dyDesc"),
])
def test_refusals(host, change, parameter):
    dx = np.zeros((4, 6), "f4")
    given = [None, 0, DY, np.ones((9, 6), "f4"), 1, [INDEX], [np.zeros(9, "i4")], DX, dx, ERROR, np.zeros(1, "i4"), 1,
             [0], 0, None, 0]
    for place, value in change.items():
        given[place] = value
    wrong = MIOpenNotImplementedError if change.get(4) == 6 else BadParmError
    with pytest.raises(wrong) as raised:
        miopyx.miopenGetitemBackward(host, *given)
    assert raised.value.parameter == parameter
    assert raised.value.limit
    assert (dx == 0).all()
    assert miopyx.miopenGetGetitemWorkspaceSize(host, 1, [INDEX]) == 0
