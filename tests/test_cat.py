"""Concatenation: every element and type by its bits, strides, axes, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from guarded import DTYPE, Tensor, strides_of

import miopyx
from miopyx import TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError

LAYOUTS = ("packed", "channels last", "padded", "packed with gaps")


def bits(tensor):
    return tensor.view().view(f"u{tensor.dtype.itemsize}")


def check(handle, dtype, lens, axis, parts, rng, layouts=("packed",)):
    """Concatenate tensors of `parts` along an axis."""
    def make(length, values=True):
        mine = (*lens[:axis], length, *lens[axis + 1:])
        layout = layouts[rng.integers(len(layouts))]
        strides = strides_of(mine, layout if len(mine) > 2 else "packed") if length else None
        desc = TensorDescriptor(dtype, mine, strides)
        tensor = Tensor(handle, desc, None)
        if values:
            kind = np.dtype(f"u{tensor.dtype.itemsize}")
            bits(tensor)[...] = rng.integers(0, 1 << 8 * kind.itemsize, mine, kind, endpoint=False)
        return tensor

    xs, y = [make(length) for length in parts], make(sum(parts), False)
    miopyx.miopenCatForward(handle, len(xs), [x.desc for x in xs], [x.argument() for x in xs], y.desc, y.argument(),
                            axis)
    handle.finish()
    with np.errstate(invalid="ignore"):
        y.values()  # holes and guards
    np.testing.assert_array_equal(bits(y), np.concatenate([bits(x) for x in xs], axis))


@pytest.mark.parametrize("dtype", [*DTYPE, "int64"])
def test_types(handle, dtype, rng):
    DTYPE.setdefault("int64", np.dtype("i8"))
    check(handle, dtype, (3, 4, 5), 1, (2, 1, 7), rng, LAYOUTS)


def test_shapes(handle, gpu, rng, amount):
    for where in (handle, gpu):
        for _ in range(amount(4, 16)):
            rank = int(rng.integers(1, 6))
            lens = tuple(int(v) for v in rng.integers(1, (400, 40, 14, 8, 6)[rank - 1], rank))
            axis, count = int(rng.integers(0, rank)), int(rng.integers(1, 16))
            check(where, "float32", lens, axis, [int(v) for v in rng.integers(0, 9, count - 1)] + [3], rng, LAYOUTS)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_large(handle, axis, rng):
    check(handle, "float16", (64, 65, 66), axis, (64, 3, 40), rng)


X, Y = TensorDescriptor("float32", (2, 3, 4)), TensorDescriptor("float32", (2, 6, 4))


@pytest.mark.parametrize(("change", "parameter"), [
    ({"dim": 0}, "xDescs[0]"), ({"dim": 3}, "dim"), ({"dim": -1}, "dim"), ({"dim": 5}, "dim"), ({"dim": None}, "dim"),
    ({"count": 1}, "xDescs"), ({"count": 0}, "xCount"), ({"count": -1}, "xCount"), ({"count": 16}, "xCount"),
    ({"descs": None}, "xDescs"), ({"descs": [X, None]}, "xDescs[1]"), ({"xs": 3}, "xs"), ({"y": X}, "yDesc"),
    ({"descs": [X, TensorDescriptor("float16", (2, 3, 4))]}, "xDescs[1]"),
    ({"descs": [X, TensorDescriptor("float32", (2, 3))]}, "xDescs[1]"),
    ({"descs": [X, TensorDescriptor("float32", (2, 3, 5))]}, "xDescs[1]"),
    ({"y": TensorDescriptor("float32", (2, 6, 4), (24, 4, 2))}, "yDesc"),
    ({"y": TensorDescriptor()}, "yDesc"), ({"memory": "none"}, "xs[1]"), ({"memory": "short"}, "xs[1]"),
    ({"memory": "shared"}, "xs[1]"),
])
def test_refusals(host, change, parameter):
    x, z, y = np.ones((2, 3, 4), "f4"), np.ones((2, 3, 4), "f4"), np.full((2, 6, 4), 7, "f4")
    xs = {"none": [x, None], "short": [x, z[:1]], "shared": [x, y.reshape(-1)[:24].reshape(2, 3, 4)]}.get(
        change.get("memory"), [x, z])
    wrong = MIOpenNotImplementedError if change.get("count") == 16 else BadParmError
    with pytest.raises(wrong) as raised:
        miopyx.miopenCatForward(host, change.get("count", 2), change.get("descs", [X, X]), change.get("xs", xs),
                                change.get("y", Y), y, change.get("dim", 1))
    assert raised.value.parameter == parameter
    assert raised.value.limit
    assert (y == 7).all()
