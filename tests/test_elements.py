"""GLU, PReLU, soft margin loss, rotary embeddings: values, types, strides, memory, special numbers, and refusals.

Each element is compared with the formula in float64.  Kernels compute in float32 (float64 for float64 tensors), with
roundoff v, and round once more, by u, to store: an element of a handful of operations is right to u of itself and 16 v
of the sum of its terms' magnitudes.  A sum of n terms adds 2 v + v min(n, 1024) / 16 of the sum of |terms|.
"""

from __future__ import annotations

import numpy as np
import pytest
from guarded import ROUNDOFF, Guarded, Tensor, strides_of

import miopyx
from miopyx import TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError

TYPES = ("float32", "float16", "bfloat16", "float64")
LAYOUTS = ("packed", "channels last", "padded", "packed with gaps", "channels last with gaps")
NONE, SUM, MEAN = range(3)


class Maker:
    """Makes tensors of one type, each in a layout of its own, and checks results."""

    def __init__(self, handle, dtype, rng, layouts=LAYOUTS, shift=0):
        if dtype == "float64" and not handle.device.fp64:
            pytest.skip("no double precision")
        self.handle, self.dtype, self.rng, self.layouts, self.shift = handle, dtype, rng, layouts, shift

    def tensor(self, lens, values=None, dtype=None, layout=None):
        layout = layout or self.layouts[self.rng.integers(len(self.layouts))]
        desc = TensorDescriptor(dtype or self.dtype, lens, strides_of(lens, layout if len(lens) > 2 else "packed"))
        size = np.dtype("u1").itemsize
        return Tensor(self.handle, desc, values, self.shift * size)

    def random(self, lens, dtype=None, scale=1.0):
        return self.tensor(lens, scale * self.rng.standard_normal(lens), dtype)

    def near(self, tensor, want, terms, what, steps=16):
        u = ROUNDOFF[tensor.desc.dtype]
        v = ROUNDOFF["float64" if self.dtype == "float64" else "float32"]
        got = tensor.values()
        wrong = ~(np.abs(got - want) <= u * np.abs(want) + steps * v * terms + 2.0**-24)
        assert not wrong.any(), f"{what}: {wrong.sum()} of {wrong.size}, {got[wrong][:3]} for {want[wrong][:3]}"


def wide(tensor):
    return tensor.view().astype(np.float64)


def sigmoid(b):
    return np.exp(-np.logaddexp(0, -b))


def sized(m, size, call):
    space = Guarded(m.handle, size, 0xFF) if size else None
    call(space.argument() if size else None, size)
    m.handle.finish()
    if size:
        space.fetch()


def some_lens(rng, even=None):
    rank = int(rng.integers(1, 6))
    lens = [int(v) for v in rng.integers(1, (5000, 90, 20, 9, 6)[rank - 1], rank)]
    axis = int(rng.integers(0, rank)) if even is None else rank - 1
    lens[axis] += lens[axis] % 2
    return tuple(lens), axis


def glu(m, lens, axis, spread=1.0):
    half = (*lens[:axis], lens[axis] // 2, *lens[axis + 1:])
    x, y, dy, dx = m.random(lens, scale=spread), m.tensor(half), m.random(half), m.tensor(lens)
    miopyx.miopenGLUForward(m.handle, x.desc, x.argument(), y.desc, y.argument(), axis)
    a, b = np.split(wide(x), 2, axis)
    m.near(y, a * sigmoid(b), np.abs(a * sigmoid(b)), f"glu {m.dtype} {lens} {axis}")
    miopyx.miopenGLUBackward(m.handle, x.desc, x.argument(), dy.desc, dy.argument(), dx.desc, dx.argument(), axis)
    d, s = wide(dy), sigmoid(b)
    want = np.concatenate([d * s, d * a * s * sigmoid(-b)], axis)
    m.near(dx, want, np.abs(want), f"glu backward {m.dtype} {lens} {axis}")


def prelu(m, lens, channels, gradient=None):
    weights = lens[1] if channels else 1
    x, dy, w = m.random(lens), m.random(lens, gradient), m.random((weights,))
    dx, dw = m.tensor(lens), m.tensor((weights,))
    given = x.desc, x.argument(), w.desc, w.argument(), dy.desc, dy.argument(), dx.desc, dx.argument(), dw.desc
    out = dw.argument()
    size = miopyx.miopenGetPReLUBackwardWorkspaceSize(m.handle, x.desc, w.desc)
    sized(m, size, lambda space, n: miopyx.miopenPReLUBackward(m.handle, space, n, *given, out))
    a, d = wide(x), wide(dy)
    b = wide(w).reshape(1, -1, *(1,) * (len(lens) - 2)) if channels else wide(w)[0]
    want = np.where(a > 0, d, b * d)
    m.near(dx, want, np.abs(want), f"prelu {m.dtype} {lens}")
    terms = np.where(a > 0, 0, a * d)
    axes = tuple(i for i in range(len(lens)) if i != 1 or not channels)
    total, size = terms.sum(axes), np.abs(terms).sum(axes)
    m.near(dw, np.atleast_1d(total), np.atleast_1d(size), f"prelu's weights {m.dtype} {lens}",
           4 + min(a.size, 1024) / 16)


def soft_margin(m, lens, reduction, spread=1.0):
    x, t = m.random(lens, scale=spread), m.tensor(lens, np.where(m.rng.random(lens) < 0.5, -1.0, 1.0))
    y = m.tensor(lens if reduction == NONE else (1,))
    given = x.desc, x.argument(), t.desc, t.argument(), y.desc, y.argument(), reduction
    size = miopyx.miopenGetSoftMarginLossForwardWorkspaceSize(m.handle, x.desc, t.desc, y.desc, reduction)
    assert size == 0 or reduction != NONE
    sized(m, size, lambda space, n: miopyx.miopenSoftMarginLossForward(m.handle, *given, space, n))
    z = -wide(x) * wide(t)
    loss = np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))
    if reduction == NONE:
        m.near(y, loss, loss + np.abs(z), f"soft margin {m.dtype} {lens}")
    else:
        total = loss.sum() / (loss.size if reduction == MEAN else 1)
        m.near(y, np.full(1, total), total, f"soft margin {m.dtype} {lens} {reduction}", 24 + min(z.size, 1024) / 16)
    dy, dx = m.random(lens), m.tensor(lens)
    miopyx.miopenSoftMarginLossBackward(m.handle, x.desc, x.argument(), t.desc, t.argument(), dy.desc, dy.argument(),
                                        dx.desc, dx.argument(), reduction)
    want = -wide(dy) * wide(t) * sigmoid(z) / (z.size if reduction == MEAN else 1)
    m.near(dx, want, np.abs(want) * (1 + np.abs(z)), f"soft margin backward {m.dtype} {lens} {reduction}")


def rotated(x, cos, sin, back):
    want, terms = np.empty_like(x), np.empty_like(x)
    even, odd = x[..., ::2], x[..., 1::2]
    if back:
        pairs = (even * cos[..., ::2], odd * sin[..., 1::2]), (odd * cos[..., 1::2], -even * sin[..., ::2])
    else:
        pairs = (even * cos[..., ::2], -odd * sin[..., ::2]), (odd * cos[..., 1::2], even * sin[..., 1::2])
    for part, (first, second) in enumerate(pairs):
        want[..., part::2], terms[..., part::2] = first + second, np.abs(first) + np.abs(second)
    return want, terms


def rope(m, lens, angles=None):
    angles = angles or lens[int(m.rng.integers(0, len(lens))):]
    x, cos, sin = m.random(lens), m.random(angles), m.random(angles)
    for back, function in enumerate((miopyx.miopenRoPEForward, miopyx.miopenRoPEBackward)):
        y = m.tensor(lens)
        function(m.handle, x.desc, x.argument(), cos.desc, cos.argument(), sin.desc, sin.argument(), y.desc,
                 y.argument())
        m.near(y, *rotated(wide(x), wide(cos), wide(sin), back), f"rope {m.dtype} {lens} {angles} {back}")


def one_of_each(m):
    glu(m, *some_lens(m.rng))
    lens, _ = some_lens(m.rng)
    prelu(m, lens, len(lens) > 1 and bool(m.rng.integers(2)))
    soft_margin(m, some_lens(m.rng)[0], int(m.rng.integers(3)))
    rope(m, some_lens(m.rng, True)[0])


@pytest.mark.parametrize("dtype", TYPES)
def test_values(handle, dtype, rng, amount):
    for _ in range(amount(2, 8)):
        one_of_each(Maker(handle, dtype, rng))


@pytest.mark.parametrize("dtype", TYPES)
def test_gpu_kernels(gpu, dtype, rng, amount):
    for _ in range(amount(2, 8)):
        one_of_each(Maker(gpu, dtype, rng, ("packed",) if rng.integers(2) else LAYOUTS))


SIZES = (((64, 48), 0), ((7, 96, 33), 1), ((2, 6, 5000), 1), ((3, 40, 8, 8), 1), ((30000,), 0), ((2, 3, 4, 5, 6), 4))


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize(("lens", "axis"), SIZES, ids=str)
def test_sizes(handle, gpu, lens, axis, on_gpu, rng):
    m = Maker(gpu if on_gpu else handle, TYPES[rng.integers(3)], rng, ("packed", "channels last"))
    glu(m, lens, axis)
    prelu(m, lens, len(lens) > 1)
    prelu(m, lens, False)
    soft_margin(m, lens, SUM)
    if lens[-1] % 2 == 0:
        rope(m, lens, lens[-1:])


@pytest.mark.parametrize("on_gpu", [False, True])
def test_misaligned(handle, gpu, on_gpu, rng):
    """Buffers that begin an element behind a boundary."""
    for dtype, shift in (("float32", 4), ("float16", 2)):
        m = Maker(gpu if on_gpu else handle, dtype, rng, ("packed",), shift)
        glu(m, (6, 64), 1)
        prelu(m, (6, 4, 64), True)
        soft_margin(m, (6, 64), MEAN)
        rope(m, (2, 6, 64), (6, 64))


def test_gradients_of_another_type(handle, gpu, rng):
    for where in (handle, gpu):
        prelu(Maker(where, "float16", rng), (3, 5, 17), True, "float32")


@pytest.mark.parametrize("on_gpu", [False, True])
def test_far_from_zero(handle, gpu, on_gpu, rng):
    """Nothing overflows on the way."""
    m = Maker(gpu if on_gpu else handle, "float32", rng)
    glu(m, (4, 64), 1, 200.0)
    soft_margin(m, (4, 64), NONE, 200.0)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_in_place(handle, gpu, on_gpu, rng):
    m = Maker(gpu if on_gpu else handle, "float32", rng, ("packed",))
    x, dy, w, dw = m.random((4, 6, 10)), m.random((4, 3, 10)), m.random((6,)), m.tensor((6,))
    before, memory = wide(x), x.argument()
    miopyx.miopenGLUBackward(m.handle, x.desc, memory, dy.desc, dy.argument(), x.desc, memory, 1)
    a, b = np.split(before, 2, 1)
    want = np.concatenate([wide(dy) * sigmoid(b), wide(dy) * a * sigmoid(b) * sigmoid(-b)], 1)
    m.near(x, want, np.abs(want), "glu in place")
    x, dy = m.random((4, 6, 10)), m.random((4, 6, 10))
    a, d, memory = wide(x), wide(dy), dy.argument()
    size = miopyx.miopenGetPReLUBackwardWorkspaceSize(m.handle, x.desc, w.desc)
    sized(m, size, lambda space, n: miopyx.miopenPReLUBackward(
        m.handle, space, n, x.desc, x.argument(), w.desc, w.argument(), dy.desc, memory, dy.desc, memory, dw.desc,
        dw.argument()))
    m.near(dy, np.where(a > 0, d, wide(w).reshape(1, 6, 1) * d), np.abs(d) * 4, "prelu in place")
    cos, sin, memory = m.random((10,)), m.random((10,)), x.argument()
    miopyx.miopenRoPEForward(m.handle, x.desc, memory, cos.desc, cos.argument(), sin.desc, sin.argument(), x.desc,
                             memory)
    m.near(x, *rotated(a, wide(cos), wide(sin), False), "rope in place")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_special_numbers_stay_where_they_are(handle, gpu, bad, rng):
    for where in (handle, gpu):
        m = Maker(where, "float32", rng, ("packed",))
        x, t, y = m.random((6, 40)), m.tensor((6, 40), 1.0), m.tensor((6, 40))
        x.view()[2, 7] = bad
        miopyx.miopenSoftMarginLossForward(m.handle, x.desc, x.argument(), t.desc, t.argument(), y.desc, y.argument(),
                                           NONE, None, 0)
        got = y.values()
        assert np.isfinite(np.delete(got.ravel(), 2 * 40 + 7)).all()
        np.testing.assert_equal(got[2, 7], {"inf": 0.0, "-inf": np.inf}.get(str(bad), np.nan))


def test_runs_are_alike(handle, gpu, rng):
    for where in (handle, gpu):
        m = Maker(where, "float32", rng, ("packed",))
        x, dy, w, dx = m.random((40, 16, 33)), m.random((40, 16, 33)), m.random((16,)), m.tensor((40, 16, 33))
        results = []
        for _ in range(3):
            dw = m.tensor((16,))
            given = [v for t in (x, w, dy, dx, dw) for v in (t.desc, t.argument())]
            size = miopyx.miopenGetPReLUBackwardWorkspaceSize(m.handle, x.desc, w.desc)
            sized(m, size, lambda space, n, h=where, given=given: miopyx.miopenPReLUBackward(h, space, n, *given))
            results.append(dw.values())
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])


def test_torch(handle, rng):
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    m = Maker(handle, "float32", rng, ("packed",))
    x, dy, dx = m.random((3, 6, 8)), m.random((3, 3, 8)), m.tensor((3, 6, 8))
    leaf = torch.tensor(x.view().copy(), requires_grad=True)
    f.glu(leaf, 1).backward(torch.tensor(dy.view().copy()))
    miopyx.miopenGLUBackward(handle, x.desc, x.argument(), dy.desc, dy.argument(), dx.desc, dx.argument(), 1)
    np.testing.assert_allclose(dx.values(), leaf.grad.numpy(), rtol=1e-5, atol=1e-6)
    w, dy, dx, dw = m.random((6,)), m.random((3, 6, 8)), m.tensor((3, 6, 8)), m.tensor((6,))
    leaf, weight = (torch.tensor(t.view().copy(), requires_grad=True) for t in (x, w))
    f.prelu(leaf, weight).backward(torch.tensor(dy.view().copy()))
    size = miopyx.miopenGetPReLUBackwardWorkspaceSize(handle, x.desc, w.desc)
    sized(m, size, lambda space, n: miopyx.miopenPReLUBackward(
        handle, space, n, x.desc, x.argument(), w.desc, w.argument(), dy.desc, dy.argument(), dx.desc, dx.argument(),
        dw.desc, dw.argument()))
    np.testing.assert_allclose(dx.values(), leaf.grad.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dw.values(), weight.grad.numpy(), rtol=1e-5, atol=1e-5)
    t, y = m.tensor((3, 6, 8), np.sign(rng.standard_normal((3, 6, 8)))), m.tensor((1,))
    loss = f.soft_margin_loss(torch.tensor(x.view().copy()), torch.tensor(t.view().copy()))
    size = miopyx.miopenGetSoftMarginLossForwardWorkspaceSize(handle, x.desc, t.desc, y.desc, MEAN)
    sized(m, size, lambda space, n: miopyx.miopenSoftMarginLossForward(
        handle, x.desc, x.argument(), t.desc, t.argument(), y.desc, y.argument(), MEAN, space, n))
    np.testing.assert_allclose(y.values()[0], loss.item(), rtol=1e-5)


def test_nothing(handle):
    x, one = TensorDescriptor("float32", (0, 4)), TensorDescriptor("float32", (1,))
    w, dw, y = (handle.upload(np.full(1, 7, "f4")) for _ in range(3))
    miopyx.miopenPReLUBackward(handle, None, 0, x, None, one, w, x, None, x, None, one, dw)
    miopyx.miopenSoftMarginLossForward(handle, x, None, x, None, one, y, SUM, None, 0)
    miopyx.miopenGLUForward(handle, x, None, TensorDescriptor("float32", (0, 2)), None, 1)
    for memory in (dw, y):
        out = np.empty(1, "f4")
        handle.download(memory, out)
        assert out[0] == 0
    with pytest.raises(BadParmError):
        miopyx.miopenSoftMarginLossForward(handle, x, None, x, None, one, y, MEAN, None, 0)


def desc(*lens, dtype="float32"):
    return TensorDescriptor(dtype, lens)


A, ONE = desc(4, 6), desc(1)
GLU, PRELU, SOFT, ROPE = (miopyx.miopenGLUForward, miopyx.miopenPReLUBackward, miopyx.miopenSoftMarginLossForward,
                          miopyx.miopenRoPEForward)
WRONG = (
    (GLU, (A, 0, desc(4, 3), 0, 2), "dim"), (GLU, (A, 0, desc(4, 3), 0, -1), "dim"),
    (GLU, (A, 0, A, 0, 1), "outputDesc"), (GLU, (desc(4, 5), 0, desc(4, 2), 0, 1), "inputDesc.lens[1]"),
    (GLU, (A, 0, desc(4, 3, dtype="float16"), 0, 1), "outputDesc"),
    (GLU, (A, 0, None, 0, 1), "outputDesc"), (GLU, (TensorDescriptor(), 0, A, 0, 1), "inputDesc"),
    (PRELU, (None, 0, A, 0, desc(4), 0, A, 0, A, 0, desc(4), 0), "weightDesc"),
    (PRELU, (None, 0, A, 0, desc(6, 1), 0, A, 0, A, 0, desc(6), 0), "weightDesc"),
    (PRELU, (None, 0, A, 0, desc(6), 0, A, 0, A, 0, ONE, 0), "dweightDesc"),
    (PRELU, (None, 0, A, 0, desc(6), 0, desc(6, 4), 0, A, 0, desc(6), 0), "doutputDesc"),
    (PRELU, (None, 0, A, 0, desc(6), 0, A, 0, desc(4, 6, dtype="float16"), 0, desc(6), 0), "dinputDesc"),
    (SOFT, (A, 0, A, 0, ONE, 0, 0, None, 0), "outputDesc"), (SOFT, (A, 0, A, 0, A, 0, 1, None, 0), "outputDesc"),
    (SOFT, (A, 0, desc(6, 4), 0, A, 0, 0, None, 0), "targetDesc"), (SOFT, (A, 0, A, 0, A, 0, 3, None, 0), "reduction"),
    (SOFT, (A, 0, A, 0, A, 0, "median", None, 0), "reduction"),
    (ROPE, (A, 0, desc(4), 0, desc(4), 0, A, 0), "cosDesc"), (ROPE, (A, 0, desc(6), 0, ONE, 0, A, 0), "sinDesc"),
    (ROPE, (desc(4, 5), 0, desc(5), 0, desc(5), 0, desc(4, 5), 0), "xDesc"),
    (ROPE, (A, 0, ONE, 0, ONE, 0, A, 0), "cosDesc"),
    (ROPE, (A, 0, A, 0, A, 0, desc(6, 4), 0), "yDesc"),
    (ROPE, (A, 0, A, 0, A, 0, TensorDescriptor("float32", (4, 6), (3, 1)), 0), "yDesc"),
)


@pytest.mark.parametrize(("function", "given", "parameter"), WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_refusals(host, function, given, parameter):
    with pytest.raises(BadParmError) as raised:
        function(host, *given)
    assert raised.value.parameter == parameter
    assert raised.value.limit


def test_other_refusals(handle):
    integers, memory = desc(4, 6, dtype="int32"), handle.upload(np.zeros(24, "f4"))
    with pytest.raises(MIOpenNotImplementedError):
        miopyx.miopenGLUForward(handle, integers, memory, desc(4, 3, dtype="int32"), memory, 1)
    with pytest.raises(MIOpenNotImplementedError):
        miopyx.miopenRoPEForward(handle, integers, memory, integers, memory, integers, memory, integers, memory)
    with pytest.raises(BadParmError):  # output and input share memory
        miopyx.miopenGLUForward(handle, A, memory, desc(4, 3), memory, 1)
    with pytest.raises(BadParmError):  # too small
        miopyx.miopenGLUForward(handle, A, handle.upload(np.zeros(23, "f4")), desc(4, 3), memory, 1)
    size = miopyx.miopenGetSoftMarginLossForwardWorkspaceSize(handle, A, A, ONE, SUM)
    if size:
        with pytest.raises(UnknownError):
            miopyx.miopenSoftMarginLossForward(handle, A, memory, A, memory, ONE, handle.upload(np.zeros(1, "f4")), SUM,
                                               None, 0)
