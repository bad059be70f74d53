"""Operations on arrays, against NumPy's in float64."""

import math

import numpy as np
import pytest

import miopyx
from miopyx import BadParmError, Handle, MIOpenError, functional

U = {"float32": 2.0**-24, "float64": 2.0**-53, "float16": 2.0**-11}


def windows(x, window, stride, padding, dilation, fill):
    """Return x's windows, (n, c, output ..., window ...)."""
    axes = len(window)
    x = np.pad(x, [(0, 0), (0, 0), *(p if isinstance(p, tuple) else (p, p) for p in padding)], constant_values=fill)
    reach = [d * (r - 1) + 1 for d, r in zip(dilation, window, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, 2 + axes)))
    steps = [slice(None, None, s) for s in stride]
    return seen[(slice(None),) * 2 + tuple(steps) + tuple(slice(None, None, d) for d in dilation)]


def convolution(x, w, bias, stride, padding, dilation, groups):
    axes = x.ndim - 2
    seen = windows(x, w.shape[2:], stride, padding, dilation, 0)
    k = w.shape[0] // groups
    parts = []
    for g in range(groups):
        one = seen[:, g * w.shape[1]:(g + 1) * w.shape[1]]
        parts.append(np.tensordot(one, w[g * k:(g + 1) * k], ([1, *range(2 + axes, 2 + 2 * axes)],
                                                              [1, *range(2, 2 + axes)])))
    y = np.moveaxis(np.concatenate(parts, -1), -1, 1)
    return y if bias is None else y + bias.reshape(-1, *(1,) * axes)


def spread(x, stride):
    """Return x with zeros between its elements."""
    out = np.zeros((*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True))))
    out[(slice(None),) * 2 + tuple(slice(None, None, s) for s in stride)] = x
    return out


def transposed(x, w, bias, stride, padding, more, dilation, groups):
    axes = x.ndim - 2
    reach = [d * (r - 1) for d, r in zip(dilation, w.shape[2:], strict=True)]
    wide = spread(x, stride)
    wide = np.pad(wide, [(0, 0), (0, 0), *((r - p, r - p + m) for r, p, m in zip(reach, padding, more, strict=True))])
    turned = w[(slice(None),) * 2 + (slice(None, None, -1),) * axes]
    c = w.shape[0] // groups
    turned = np.concatenate([turned[g * c:(g + 1) * c].swapaxes(0, 1) for g in range(groups)])
    return convolution(wide, turned, bias, (1,) * axes, (0,) * axes, dilation, groups)


def close(got, want, dtype, terms):
    assert got.dtype == dtype
    assert got.shape == want.shape
    assert (np.abs(got.astype(np.float64) - want) <= U[dtype] * (4 * np.abs(want) + terms)).all()


def values(rng, shape, dtype, layout="c"):
    x = rng.standard_normal(shape).astype(dtype)
    if layout == "last":
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    elif layout == "gaps":
        room = np.full((*shape[:-1], 2 * shape[-1]), np.nan, dtype)
        room[..., ::2] = x
        x = room[..., ::2]
    return x


@pytest.fixture(params=["host", "default"])
def on(request, host):
    return host if request.param == "host" else None


@pytest.mark.some(9)
@pytest.mark.parametrize("layout", ["c", "last", "gaps"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutions(on, rng, axes, dtype, layout):
    call = {1: miopyx.conv1d, 2: miopyx.conv2d, 3: miopyx.conv3d}[axes]
    for _ in range(4):
        groups, stride, dilation = (int(rng.integers(1, 4)) for _ in range(3))
        c, k = groups * int(rng.integers(1, 4)), groups * int(rng.integers(1, 4))
        window = tuple(map(int, rng.integers(1, 4, axes)))
        padding = int(rng.integers(0, 3))
        x = values(rng, (2, c, *map(int, rng.integers(8, 12, axes))), dtype, layout)
        w, bias = values(rng, (k, c // groups, *window), dtype), values(rng, (k,), dtype)
        given = None if rng.integers(2) else bias
        want = convolution(*(v.astype(np.float64) for v in (x, w)), given, (stride,) * axes, (padding,) * axes,
                           (dilation,) * axes, groups)
        got = call(x, w, given, stride, [padding] * axes, dilation, groups, handle=on)
        close(got, want, dtype, 64 * (1 + c * math.prod(window)))
        if layout == "last" and got.shape[1] > 1 and c > 1:
            assert got.strides[1] == got.itemsize
        out = np.full_like(want, np.nan, dtype)
        assert call(x, w, given, stride, padding, dilation, groups, out=out, handle=on) is out
        close(out, want, dtype, 64 * (1 + c * math.prod(window)))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_transposed_convolutions(on, rng, axes):
    call = {1: miopyx.conv_transpose1d, 2: miopyx.conv_transpose2d, 3: miopyx.conv_transpose3d}[axes]
    for groups, stride, dilation, padding, more in ((1, 2, 1, 1, 1), (2, 1, 2, 0, 0), (1, 3, 1, 0, 2)):
        x = values(rng, (2, 2 * groups, *map(int, rng.integers(4, 7, axes))), "float32")
        w = values(rng, (2 * groups, 3, *(3,) * axes), "float32")
        bias = values(rng, (3 * groups,), "float32")
        want = transposed(x.astype(float), w.astype(float), bias, *((v,) * axes for v in (
            stride, padding, more, dilation)), groups)
        got = call(x, w, bias, stride, padding, more, groups, dilation, handle=on)
        close(got, want, "float32", 64 * (2 * 3**axes))


FOLLOWS = (
    (None, lambda v: v), ("relu", lambda v: np.maximum(v, 0)), (miopyx.miopenActivationABS, np.abs),
    (miopyx.ActivationDescriptor("leaky", 0.25), lambda v: np.where(v > 0, v, v / 4)),
    (miopyx.ActivationDescriptor("leaky", 0.5), lambda v: np.where(v > 0, v, v / 2)),
    (miopyx.ActivationDescriptor("clamp", -0.5, 0.75), lambda v: np.clip(v, -0.5, 0.75)))


@pytest.mark.some(4, host=9)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutions_with_what_follows(on, rng, axes, dtype):
    """All activations are continuous and none is steeper than 1: they make no error larger."""
    call = {1: miopyx.conv1d, 2: miopyx.conv2d, 3: miopyx.conv3d}[axes]
    back = {1: miopyx.conv_transpose1d, 2: miopyx.conv_transpose2d, 3: miopyx.conv_transpose3d}[axes]
    for i in rng.permutation(len(FOLLOWS))[:2 if on is None else 6]:
        follows, act = FOLLOWS[i]
        layout, z_layout = (str(rng.choice(["c", "last"])) for _ in range(2))
        x, w = values(rng, (2, 4, *(7,) * axes), dtype, layout), values(rng, (6, 4, *(3,) * axes), dtype)
        one = "float32" if dtype == "float16" and i % 2 else dtype
        bias = values(rng, (6,), one) if rng.integers(2) else None
        wide = [v.astype(np.float64) for v in (x, w)]
        ones, zeros = (1,) * axes, (0,) * axes
        want = convolution(*wide, None if bias is None else bias.astype(np.float64), ones, ones, ones, 1)
        terms = 64 * (2 + w[0].size)
        if follows is not None:
            close(call(x, w, bias, padding=1, activation=follows, handle=on), act(want), dtype, terms)
        z = values(rng, want.shape, dtype, z_layout)
        want = act(want + z.astype(np.float64))
        y = call(x, w, bias, padding=1, z=z, activation=follows, handle=on)
        close(y, want, dtype, terms)
        assert y.strides == z.strides
        out = np.full_like(z, np.nan)
        assert call(x, w, bias, padding=1, z=z, activation=follows, out=out, handle=on) is out
        close(out, want, dtype, terms)
        assert call(x, w, bias, padding=1, z=z, activation=follows, out=z, handle=on) is z
        close(z, want, dtype, terms)
        turned = np.ascontiguousarray(w.swapaxes(0, 1))
        want = transposed(wide[0], turned.astype(np.float64), bias if bias is None else bias.astype(np.float64), ones,
                          zeros, zeros, ones, 1)
        z = values(rng, want.shape, dtype)
        got = back(x, turned, bias, z=z, activation=follows, handle=on)
        close(got, act(want + z.astype(np.float64)), dtype, terms)


def test_what_follows_is_part_of_what_is_kept(host, rng):
    """Calls that differ in what follows alone are different calls; a repeated one prepares nothing."""
    x, w, bias = (values(rng, lens, "float64") for lens in ((1, 2, 5, 5), (3, 2, 1, 1), (3,)))
    plain = np.einsum("nchw,kc->nkhw", x, w[:, :, 0, 0])
    z = values(rng, plain.shape, "float64")
    with Handle("host") as handle:
        for _ in range(3):
            for b in (None, bias):
                for added in (None, z):
                    for follows, act in FOLLOWS:
                        v = plain + (0 if b is None else b.reshape(-1, 1, 1)) + (0 if added is None else added)
                        got = miopyx.conv2d(x, w, b, z=added, activation=follows, handle=handle)
                        np.testing.assert_allclose(got, act(v), rtol=1e-12, atol=1e-12)


def test_convolutions_with_what_follows_as_pytorch_has_them(on):
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    for layout in (torch.contiguous_format, torch.channels_last):
        x, z = (torch.randn(2, n, 12, 9).to(memory_format=layout) for n in (8, 16))
        w, bias = torch.randn(16, 4, 3, 3), torch.randn(16)
        for follows, theirs in ((None, lambda v: v), ("relu", f.relu), ("sigmoid", torch.sigmoid),
                                (miopyx.ActivationDescriptor("elu", 0.7), lambda v: f.elu(v, 0.7))):
            y = miopyx.conv2d(x, w, bias, padding=1, groups=2, z=z, activation=follows, handle=on)
            want = theirs(f.conv2d(x.double(), w.double(), bias.double(), padding=1, groups=2) + z.double())
            assert isinstance(y, torch.Tensor)
            assert y.stride() == z.stride()
            torch.testing.assert_close(y.double(), want, rtol=1e-5, atol=1e-4)
        with pytest.raises(BadParmError, match="gradient"):
            miopyx.conv2d(x, w, z=torch.zeros(2, 16, 10, 7, requires_grad=True), groups=2, handle=on)


@pytest.mark.parametrize("layout", ["c", "last", "gaps"])
@pytest.mark.parametrize("axes", [2, 3])
def test_pooling(on, rng, axes, layout):
    biggest, mean = ((miopyx.max_pool2d, miopyx.avg_pool2d) if axes == 2 else (miopyx.max_pool3d, miopyx.avg_pool3d))
    x = values(rng, (2, 3, *map(int, rng.integers(6, 9, axes))), "float32", layout)
    ones, inner = (1,) * axes, tuple(range(-axes, 0))
    close(biggest(x, 2, handle=on), windows(x.astype(float), (2,) * axes, (2,) * axes, (0,) * axes, ones, 0).max(inner),
          "float32", 0)
    close(biggest(x, 3, [1] * axes, 1, handle=on),
          windows(x.astype(float), (3,) * axes, ones, ones, ones, -np.inf).max(inner), "float32", 0)
    seen = windows(x.astype(float), (3,) * axes, (2,) * axes, ones, ones, 0).sum(inner)
    close(mean(x, 3, 2, 1, handle=on), seen / 3**axes, "float32", 27)
    count = windows(np.ones(x.shape), (3,) * axes, (2,) * axes, ones, ones, 0).sum(inner)
    close(mean(x, 3, 2, 1, False, False, handle=on), seen / count, "float32", 27)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_pads_of_either_end(on, rng, axes):
    call = {1: miopyx.conv1d, 2: miopyx.conv2d, 3: miopyx.conv3d}[axes]
    back = {1: miopyx.conv_transpose1d, 2: miopyx.conv_transpose2d, 3: miopyx.conv_transpose3d}[axes]
    ones = (1,) * axes
    for _ in range(4):
        x = values(rng, (2, 3, *map(int, rng.integers(6, 9, axes))), "float32")
        w = values(rng, (4, 3, *map(int, rng.integers(1, 5, axes))), "float32")
        dilation = tuple(map(int, rng.integers(1, 4, axes)))
        reach = [d * (r - 1) for d, r in zip(dilation, w.shape[2:], strict=True)]
        same = [(r // 2, r - r // 2) for r in reach]
        want = convolution(x.astype(float), w.astype(float), None, ones, same, dilation, 1)
        assert want.shape[2:] == x.shape[2:]
        terms = 64 * w[0].size
        close(call(x, w, None, 1, "same", dilation, handle=on), want, "float32", terms)
        pairs = [tuple(map(int, rng.integers(0, 4, 2))) for _ in range(axes)]
        pairs = [(p, e + r) for (p, e), r in zip(pairs, reach, strict=True)]  # whatever the filter, something is left
        close(call(x, w, None, 2, pairs, dilation, handle=on),
              convolution(x.astype(float), w.astype(float), None, (2,) * axes, pairs, dilation, 1), "float32", terms)
        w = w.swapaxes(0, 1).copy()
        whole = transposed(x.astype(float), w.astype(float), None, (2,) * axes, (0,) * axes, (0,) * axes, ones, 1)
        cut = [(int(rng.integers(0, 3)), int(rng.integers(0, 3))) for _ in range(axes)]
        inner = tuple(slice(p, n - e) for (p, e), n in zip(cut, whole.shape[2:], strict=True))
        close(back(x, w, None, 2, cut, handle=on), whole[(slice(None),) * 2 + inner], "float32", 64 * w[:, 0].size)


@pytest.mark.parametrize("axes", [2, 3])
def test_windows_of_pooling(on, rng, axes):
    biggest, mean = ((miopyx.max_pool2d, miopyx.avg_pool2d) if axes == 2 else (miopyx.max_pool3d, miopyx.avg_pool3d))
    inner, ones, twos, threes = tuple(range(-axes, 0)), (1,) * axes, (2,) * axes, (3,) * axes
    for n, behind in ((6, 2), (8, 1)):
        x = values(rng, (2, 3, *(n,) * axes), "float32")
        pairs = [(1, 2), (0, 1), (2, 0)][:axes]
        close(biggest(x, 3, 2, pairs, 2, handle=on),
              windows(x.astype(float), threes, twos, pairs, twos, -np.inf).max(inner), "float32", 0)
        # Rounded up, a window of 6 reaches one beyond its pads; one more of 8 would begin behind x.
        wide = [(1, behind)] * axes
        want = windows(x.astype(float), threes, threes, wide, ones, -np.inf).max(inner)
        close(biggest(x, 3, 3, 1, ceil_mode=True, handle=on), want, "float32", 0)
        seen = windows(x.astype(float), threes, threes, wide, ones, 0).sum(inner)
        close(mean(x, 3, 3, 1, True, divisor_override=-5, handle=on), seen / -5, "float32", 27)
        image = np.pad(np.ones(x.shape), [(0, 0)] * 2 + [(1, 1)] * axes, constant_values=1)
        count = windows(image, threes, threes, [(0, behind - 1)] * axes, ones, 0).sum(inner)
        close(mean(x, 3, 3, 1, True, handle=on), seen / count, "float32", 27)


def test_arrays_without_elements(on):
    x, w = np.ones((0, 3, 6, 6), np.float32), np.ones((4, 3, 3, 3), np.float32)
    for y, lens in [
        (miopyx.conv2d(x, w, np.ones(4, "f4"), handle=on), (0, 4, 4, 4)),
        (miopyx.conv_transpose2d(x, w.swapaxes(0, 1).copy(), handle=on), (0, 4, 8, 8)),
        (miopyx.max_pool2d(x, 2, handle=on), (0, 3, 3, 3)), (miopyx.avg_pool2d(x, 2, handle=on), (0, 3, 3, 3)),
        (miopyx.batch_norm(x, np.zeros(3, "f4"), np.ones(3, "f4"), handle=on), (0, 3, 6, 6)),
        (miopyx.local_response_norm(x, 3, handle=on), (0, 3, 6, 6)),
    ]:
        assert (y.shape, y.dtype) == (lens, np.float32)
    for lens in ((0,), (0, 3), (3, 0), (2, 0, 3), (2, 3, 4, 0, 5), (0, 0)):
        for layout in ("c", "gaps"):
            x = np.zeros((*lens[:-1], 2 * lens[-1]), np.float32)[..., ::2] if layout == "gaps" else np.zeros(lens, "f4")
            assert miopyx.relu(x, handle=on).shape == miopyx.softmax(x, 0, handle=on).shape == lens


ACTIVATIONS = {
    "relu": (miopyx.relu, (), lambda x: np.maximum(x, 0)), "relu6": (miopyx.relu6, (), lambda x: np.clip(x, 0, 6)),
    "leaky": (miopyx.leaky_relu, (0.25,), lambda x: np.where(x < 0, x / 4, x)),
    "elu": (miopyx.elu, (2.0,), lambda x: np.where(x < 0, 2 * np.expm1(x), x)),
    "sigmoid": (miopyx.sigmoid, (), lambda x: 1 / (1 + np.exp(-x))), "tanh": (miopyx.tanh, (), np.tanh),
    "softplus": (miopyx.softplus, (), lambda x: np.logaddexp(x, 0)),
    "abs": (miopyx.activation, ("abs",), np.abs),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(on, rng, name):
    call, arguments, want = ACTIVATIONS[name]
    for shape, layout in (((5,), "c"), ((3, 4), "gaps"), ((2, 3, 4, 5), "last"), ((2, 3, 4, 5, 2, 2), "c"), ((), "c"),
                          ((2, 3, 4, 5), "gaps"), ((1, 3, 1, 2, 2), "gaps")):
        x = 4 * values(rng, shape, "float32", layout) if shape else np.array(0.5, np.float32)
        close(call(x, *arguments, handle=on), want(x.astype(float)), "float32", 32)
        out = np.full(shape, np.nan, np.float32)
        assert call(x, *arguments, out=out, handle=on) is out
        close(out, want(x.astype(float)), "float32", 32)
    same = np.linspace(-3, 3, 20, dtype=np.float32)
    before = same.astype(float)
    close(call(same, *arguments, out=same, handle=on), want(before), "float32", 32)


def test_softmax(on, rng):
    for shape, layout in (((7,), "c"), ((4, 6), "c"), ((4, 6), "gaps"), ((2, 5, 3, 4), "c"), ((2, 5, 3, 4), "last"),
                          ((2, 5, 3, 4), "gaps"), ((2, 3, 2, 3, 2, 2), "c"), ((2, 1, 3, 1, 2), "c")):
        x = values(rng, shape, "float32", layout)
        for axis in range(-len(shape), len(shape)):
            e = np.exp(x.astype(float) - x.max(axis, keepdims=True))
            close(miopyx.softmax(x, axis, handle=on), e / e.sum(axis, keepdims=True), "float32", 16)
            close(miopyx.log_softmax(x, axis, handle=on), np.log(e / e.sum(axis, keepdims=True)), "float32", 32)
    out = np.full((4, 6), np.nan, np.float32)
    x = values(rng, (4, 6), "float32")
    e = np.exp(x.astype(float))
    close(miopyx.softmax(x, out=out, handle=on), e / e.sum(1, keepdims=True), "float32", 16)


def test_response_norm(on, rng):
    x = values(rng, (2, 7, 3, 4), "float32", "last")
    squares = np.pad(x.astype(float)**2, [(0, 0), (2, 2), (0, 0), (0, 0)])
    total = sum(squares[:, i:i + 7] for i in range(5))
    close(miopyx.local_response_norm(x, 5, 0.5, 0.75, 2.0, handle=on), x * (2 + 0.1 * total)**-0.75, "float32", 64)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (2, 3, 4, 5), (2, 3, 2, 3, 4)])
def test_batch_norm(on, rng, shape):
    x, axes, wide = values(rng, shape, "float32"), (0, *range(2, len(shape))), (-1, *(1,) * (len(shape) - 2))
    weight, bias, mean = (values(rng, (3,), "float32") for _ in range(3))
    var = np.abs(values(rng, (3,), "float32")) + 0.5

    def want(m, v, w=1.0, b=0.0):
        w, b = np.broadcast_to(w, 3).astype(float), np.broadcast_to(b, 3).astype(float)
        return ((x - m.reshape(wide).astype(float)) / np.sqrt(v.reshape(wide) + 1e-3) * w.reshape(wide)
                + b.reshape(wide))

    close(miopyx.batch_norm(x, mean, var, weight, bias, eps=1e-3, handle=on), want(mean, var, weight, bias), "float32",
          64)
    close(miopyx.batch_norm(x, mean, var, None, bias, eps=1e-3, handle=on), want(mean, var, 1, bias), "float32", 64)
    ours, its = x.astype(float).mean(axes), x.astype(float).var(axes)
    moved = mean.copy(), var.copy()
    got = miopyx.batch_norm(x, *moved, weight, bias, True, 0.25, 1e-3, handle=on)
    close(got, want(ours, its, weight, bias), "float32", 128)
    v = want(mean, var, weight, bias)
    for follows, result in (("relu", np.maximum(v, 0)), (miopyx.miopenActivationABS, np.abs(v)),
                            (miopyx.ActivationDescriptor("leakyrelu", 0.25), np.where(v > 0, v, 0.25 * v)),
                            (miopyx.ActivationDescriptor("leakyrelu", 0.5), np.where(v > 0, v, 0.5 * v)), (None, v)):
        got = miopyx.batch_norm(x, mean, var, weight, bias, eps=1e-3, activation=follows, handle=on)
        close(got, result, "float32", 64)
    close(miopyx.batch_norm(x, None, None, weight, bias, True, eps=1e-3, activation="relu", handle=on),
          np.maximum(want(ours, its, weight, bias), 0), "float32", 128)
    with pytest.raises(miopyx.BadParmError):
        miopyx.batch_norm(x, mean, var, activation="gelu", handle=on)
    count = x.size // 3
    np.testing.assert_allclose(moved[0], 0.75 * mean + 0.25 * ours, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moved[1], 0.75 * var + 0.25 * its * count / (count - 1), rtol=1e-5)
    close(miopyx.batch_norm(x, None, None, training=True, eps=1e-3, handle=on), want(ours, its), "float32", 128)


def test_integers(host, rng):
    x, w = (rng.integers(-128, 128, s, np.int8) for s in ((1, 4, 6, 6), (3, 4, 3, 3)))
    got = miopyx.conv2d(x, w, rng.integers(-9, 9, 3, np.int32) * 0, handle=host)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, convolution(x.astype(np.int64), w.astype(np.int64), None, (1, 1), (0, 0),
                                                   (1, 1), 1))


def test_results_are_their_librarys(on, rng):
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 4, 9, 8).to(memory_format=torch.channels_last)
    w, b = torch.randn(6, 4, 3, 3), torch.randn(6)
    y = miopyx.conv2d(x, w, b, 2, 1, handle=on)
    assert isinstance(y, torch.Tensor)
    assert y.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(y.double(), torch.nn.functional.conv2d(x.double(), w.double(), b.double(), 2, 1),
                               rtol=1e-5, atol=1e-5)
    with pytest.raises(BadParmError, match="gradient"):
        miopyx.conv2d(x, w.requires_grad_(), b)
    with torch.no_grad():
        miopyx.conv2d(x, w, b)
    half = miopyx.relu(x.bfloat16())
    assert half.dtype == torch.bfloat16
    assert (half == x.bfloat16().relu()).all()


def test_pyopencl_arrays(handle, rng):
    array = pytest.importorskip("pyopencl.array")
    if not isinstance(handle.queue, pytest.importorskip("pyopencl").CommandQueue):
        pytest.skip("no queue of OpenCL")
    x, w, b = (values(rng, s, "float32") for s in ((2, 4, 9, 8), (6, 4, 3, 3), (6,)))
    dx, dw, db = (array.to_device(handle.queue, v) for v in (x, w, b))
    y = miopyx.conv2d(dx, dw, db, padding=1)
    want = convolution(x.astype(float), w.astype(float), b, (1, 1), (1, 1), (1, 1), 1)
    close(y.get(), want, "float32", 64 * 37)
    close(miopyx.relu(y).get(), np.maximum(want, 0), "float32", 64 * 37)


def test_a_call_is_kept(host, rng):
    """The second call makes no plan, another type, layout or number makes one."""
    made = []

    class Counting(Handle):
        def convolution_forward(self, *arguments, **named):
            made.append(arguments)
            return super().convolution_forward(*arguments, **named)

    handle = Counting("host")
    x, w = values(rng, (1, 2, 6, 6), "float32"), values(rng, (2, 2, 3, 3), "float32")
    for _ in range(3):
        miopyx.conv2d(x, w, handle=handle)
        miopyx.conv2d(x.copy(), w, None, (1, 1), handle=handle)
    assert len(made) == 1
    miopyx.conv2d(x, w, stride=2, handle=handle)
    miopyx.conv2d(x, w, padding=1, handle=handle)
    miopyx.conv2d(values(rng, x.shape, "float32", "last"), w, handle=handle)
    miopyx.conv2d(x.astype("f8"), w.astype("f8"), handle=handle)
    assert len(made) == 5
    handle.destroy()
    with pytest.raises(BadParmError, match="destroyed"):
        miopyx.conv2d(x, w, handle=handle)


def test_what_does_not_fit_is_refused(host):
    x, w = np.ones((1, 2, 6, 6), np.float32), np.ones((2, 2, 3, 3), np.float32)
    out = np.ones((1, 2, 4, 4), np.float32)
    for call, why in [
        (lambda: miopyx.conv2d(x[0], w), "4 axes"), (lambda: miopyx.conv2d(x, w.astype("f8")), "several types"),
        (lambda: miopyx.conv2d(x, w, np.ones(3, "f4")), "one element a filter"),
        (lambda: miopyx.conv2d(x, w, stride=(1, 2, 3)), "number of values"),
        (lambda: miopyx.conv2d(x[:, :, :2], w), "beyond the padded image"),
        (lambda: miopyx.conv2d(x, w, stride=0), "stride"), (lambda: miopyx.conv2d(x, w, padding="full"), "padding"),
        (lambda: miopyx.conv2d(x, w, None, 2, "same"), "with strides"),
        (lambda: miopyx.conv2d(x, w[0], padding="same"), "4 axes"),
        (lambda: miopyx.conv_transpose2d(x, w, padding="same"), "padding"),
        (lambda: miopyx.conv2d(x, w, padding=((1, 1), 1)), "pair an axis"),
        (lambda: miopyx.conv2d(x, w, padding=(1, (1, 1))), "padding"),
        (lambda: miopyx.conv2d(x, w, padding=((1, 1),)), "number of values"),
        (lambda: miopyx.conv2d(x, w, padding=((1, -1), (0, 0))), "negative pad"),
        (lambda: miopyx.avg_pool2d(x, 2, divisor_override=0), "divisor of 0"),
        (lambda: miopyx.batch_norm(x, None, None, training=True, eps=-1e-5), "negative"),
        (lambda: miopyx.batch_norm(x, None, None, training=True, eps=float("nan")), "not a number"),
        (lambda: miopyx.max_pool2d(x, 2, dilation=0), "dilation"),
        (lambda: miopyx.max_pool2d(x, 2, ceil_mode="yes"), "ceil_mode"),
        (lambda: miopyx.max_pool2d(x, 2, padding=((0, 2), (0, 0))), "pad out of range"),
        (lambda: miopyx.conv2d(x, w, groups=3), "group number"), (lambda: miopyx.conv2d(x > 0, w), "not computed with"),
        (lambda: miopyx.conv2d(x, w, out=out[:, :, :3]), "lengths and type"),
        (lambda: miopyx.conv2d(x, w, out=out.astype("f8")), "lengths and type"),
        (lambda: miopyx.conv2d(x, w, out=np.broadcast_to(out[:, :1], out.shape)), "expanded|read-only"),
        (lambda: miopyx.conv2d(x, w, handle=3), "not a handle"), (lambda: miopyx.conv2d(5, w), "not an array"),
        (lambda: miopyx.conv2d(x, w, activation="gelu"), "gelu"),
        (lambda: miopyx.conv2d(x, w, activation=3.5), "mode"),
        (lambda: miopyx.conv2d(x, w, z=out[:, :, :3]), "z.*lengths|lengths.*z"),
        (lambda: miopyx.conv2d(x, w, z=out.astype("f8")), "lengths and type"),
        (lambda: miopyx.conv2d(x, w, np.ones(3, "f4"), activation="relu"), "one element a filter"),
        (lambda: miopyx.conv2d(x, w, np.ones(2, "f8"), activation="relu"), "one element a filter"),
        (lambda: miopyx.conv2d(x, w, z=np.moveaxis(np.ones((1, 4, 4, 2), "f4"), 3, 1), out=out), "otherwise"),
        (lambda: miopyx.conv2d(x, w, z=np.broadcast_to(out[:, :1], out.shape)), "expanded"),
        (lambda: miopyx.conv2d(x.astype("i1"), w.astype("i1"), activation="relu"), "fused"),
        (lambda: miopyx.softmax(x, 4), "no axis"), (lambda: miopyx.softmax(x, -5), "no axis"),
        (lambda: miopyx.batch_norm(x, None, None), "no statistics"),
        (lambda: miopyx.batch_norm(x, np.ones(3, "f4"), np.ones(3, "f4")), "one element a channel"),
        (lambda: miopyx.batch_norm(x, np.ones(2, "f4"), np.ones(2, "f8")), "several types"),
        (lambda: miopyx.max_pool2d(x, 7), "window|7"), (lambda: miopyx.activation(x, "nonsense"), "nonsense"),
        (lambda: miopyx.relu(np.ones(3, "M8[s]")), "not computed with"), (lambda: miopyx.relu(None), "null|array"),
    ]:
        with pytest.raises(MIOpenError, match=why):
            call()


def test_names_at_the_top(host):
    assert set(miopyx._ON_ARRAYS) == set(functional.__all__)
    for name in functional.__all__:
        assert getattr(miopyx, name) is getattr(functional, name)
        assert getattr(functional, name).__doc__


def test_what_another_thread_sets_meanwhile_is_not_kept(host, rng, monkeypatch):
    """A call that began before `math_type` was set may end as it began; those behind it are prepared anew."""
    from miopyx.choose import preparing

    first, prepared = preparing.first, []

    def slowly(handle, *arguments):
        ready = first(handle, *arguments)
        if not prepared:
            handle.math_type = miopyx.miopenMathPedantic
        prepared.append(ready)
        return ready

    monkeypatch.setattr(preparing, "first", slowly)
    with Handle("host") as handle:
        x, w = rng.standard_normal((1, 2, 5, 6)), rng.standard_normal((3, 2, 2, 3))
        results = [functional.conv2d(x, w, handle=handle) for _ in range(3)]
    assert len(prepared) == 2
    assert all((one == results[0]).all() for one in results)


@pytest.mark.parametrize(("function", "arguments", "parameter"), [
    ("conv2d", {"stride": 0}, "stride[0]"), ("conv2d", {"padding": -1}, "padding[0]"),
    ("conv2d", {"groups": 3}, "groups"), ("conv2d", {"dilation": (1, 0)}, "dilation[1]"),
    ("conv_transpose2d", {"groups": 3}, "groups"),
    ("conv_transpose2d", {"stride": 2, "output_padding": (0, 2)}, "output_padding[1]"),
])
def test_errors_name_the_arguments_of_the_call(function, arguments, parameter):
    x, w = np.ones((1, 4, 5, 5), np.float32), np.ones((4, 4, 3, 3), np.float32)
    with pytest.raises(BadParmError) as raised:
        getattr(miopyx, function)(x, w, **arguments)
    assert raised.value.parameter == parameter
