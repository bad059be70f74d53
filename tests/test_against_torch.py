"""The host path against PyTorch in float64 on random configurations.

    pytest tests/test_against_torch.py --configurations 2000

runs as many as wanted and prints the largest error of each type and direction, in units of that type's roundoff times
the sum of absolute products (float16: of half its smallest number, if that is more).  Needs PyTorch, which the package
does not: without it this file is skipped, and test_reference_conv.py compares with NumPy.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor

torch = pytest.importorskip("torch")
functional = torch.nn.functional

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
DTYPE = {"float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def random_configuration(rng):
    """Return (dtype, x lens, w lens, keyword arguments of ConvolutionDescriptor, layout) of a valid convolution."""
    while True:
        spatial = int(rng.choice([1, 2, 2, 2, 3]))
        groups = int(rng.choice([1, 1, 1, 2, 3, 8]))
        n, cg, kg = (int(v) for v in rng.integers(1, [4, 7, 7]))
        filters, strides, dilations = (tuple(int(v) for v in rng.integers(1, m, spatial)) for m in (5, 4, 4))
        pads = tuple(int(v) for v in rng.integers(0, 5, spatial))
        lens = tuple(int(v) for v in rng.integers(1, 15 if spatial < 3 else 9, spatial))
        transposed = bool(rng.random() < 0.3)
        outpads = tuple(int(rng.integers(0, s)) for s in strides) if transposed else (0,) * spatial
        reach = [1 + d * (f - 1) for d, f in zip(dilations, filters, strict=True)]
        if transposed:
            out = [s * (i - 1) + r - 2 * p + o
                   for s, i, r, p, o in zip(strides, lens, reach, pads, outpads, strict=True)]
        else:
            out = [i + 2 * p - r + 1 for i, p, r in zip(lens, pads, reach, strict=True)]
        if min(out) < 1:  # PyTorch refuses what MIOpen clamps; test_reference_conv.py has those
            continue
        c = cg * groups
        w = (c, kg, *filters) if transposed else (kg * groups, cg, *filters)
        keywords = dict(pads=pads, strides=strides, dilations=dilations, groups=groups, mode=int(transposed),
                        output_pads=outpads)
        return str(rng.choice(list(DTYPE))), (n, c, *lens), w, keywords, str(rng.choice(["first", "last", "holes"]))


def place(values, layout):
    """Return an array of the same values laid out in memory as asked."""
    if layout == "last":
        axes = (0, *range(2, values.ndim), 1)
        return np.ascontiguousarray(values.transpose(axes)).transpose(np.argsort(axes))
    if layout == "holes":
        wide = np.zeros([2 * v for v in values.shape], values.dtype)
        inner = wide[tuple(slice(None, None, 2) for _ in values.shape)]
        inner[...] = values
        return inner
    return values


def reference(x, w, dy, keywords):
    """Return y, dx and dw by PyTorch in float64; dy None means ones of y's shape."""
    x, w = (torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, w))
    spatial = x.ndim - 2
    common = dict(stride=keywords["strides"], padding=keywords["pads"], dilation=keywords["dilations"],
                  groups=keywords["groups"])
    if keywords["mode"]:
        call = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[spatial - 1]
        y = call(x, w, output_padding=keywords["output_pads"], **common)
    else:
        y = (functional.conv1d, functional.conv2d, functional.conv3d)[spatial - 1](x, w, **common)
    y.backward(torch.ones_like(y) if dy is None else torch.tensor(dy, dtype=torch.float64))
    return y.detach().numpy(), x.grad.numpy(), w.grad.numpy()


def check_int8(rng, handle, conv, x_lens, w_lens, y_lens, keywords):
    """int8 to int32 must be exact; float64 sums of such products are."""
    x, w = (rng.integers(-128, 128, s).astype(np.int8) for s in (x_lens, w_lens))
    want = reference(x.astype(np.float64), w.astype(np.float64), None, keywords)[0]
    y = np.full(y_lens, 0x55555555, np.int32)
    x_desc, w_desc, y_desc = (TensorDescriptor(a.dtype, a.shape) for a in (x, w, y))
    handle.convolution_forward(x_desc, w_desc, conv, y_desc)(x, w, y)
    np.testing.assert_array_equal(y, want)


def test_random_configurations(rng, pytestconfig, capsys):
    handle = miopyx.Handle("host")
    worst: dict[tuple[str, str], float] = {}
    count, integers = pytestconfig.getoption("--configurations"), 0
    for _ in range(count):
        dtype, x_lens, w_lens, keywords, layout = random_configuration(rng)
        conv = ConvolutionDescriptor(**keywords)
        y_lens = conv.output_lens(TensorDescriptor(dtype, x_lens), TensorDescriptor(dtype, w_lens))
        x, w, dy = (rng.standard_normal(s).astype(DTYPE[dtype]) for s in (x_lens, w_lens, y_lens))
        exact = reference(*(a.astype(np.float64) for a in (x, w, dy)), keywords)
        size = reference(*(np.abs(a.astype(np.float64)) for a in (x, w, dy)), keywords)
        arrays = [place(a, layout) for a in (x, w, dy)]
        results = [place(np.full(s, np.nan, DTYPE[dtype]), layout) for s in (y_lens, x_lens, w_lens)]
        x_desc, w_desc, y_desc = (
            TensorDescriptor(dtype, a.shape, [max(s // a.itemsize, 1) for s in a.strides]) for a in arrays)
        alpha, beta = (1.0, 0.0) if rng.random() < 0.5 else rng.uniform(-2, 2, 2)
        if beta:
            for result, old in zip(results, (dy, x, w), strict=True):
                result[...] = old
            olds = [a.astype(np.float64) for a in (dy, x, w)]
            exact = [alpha * e + beta * o for e, o in zip(exact, olds, strict=True)]
            size = [abs(alpha) * s + abs(beta * o) for s, o in zip(size, olds, strict=True)]
        scalars = {"alpha": alpha, "beta": beta}
        handle.convolution_forward(x_desc, w_desc, conv, y_desc)(arrays[0], arrays[1], results[0], **scalars)
        handle.convolution_backward_data(y_desc, w_desc, conv, x_desc)(arrays[2], arrays[1], results[1], **scalars)
        handle.convolution_backward_weights(y_desc, x_desc, conv, w_desc)(arrays[2], arrays[0], results[2], **scalars)
        if rng.random() < 0.2:
            check_int8(rng, handle, conv, x_lens, w_lens, y_lens, keywords)
            integers += 1
        for direction, got, want, bound in zip(("forward", "data", "weights"), results, exact, size, strict=True):
            got = got.astype(np.float64)
            assert np.isfinite(got).all(), (dtype, x_lens, w_lens, keywords, layout, direction)
            # Rounded once: half an ulp of the result; float64 sums differ in their order instead.
            limit = ROUNDOFF[dtype] * (bound * 64 if dtype == "float64" else np.abs(want) + bound * 2.0**-40)
            error = np.abs(got - want)
            assert (error <= limit + 2.0**-25 * (dtype == "float16")).all(), (
                dtype, x_lens, w_lens, keywords, layout, direction, error.max())
            unit = np.maximum(ROUNDOFF[dtype] * bound, 2.0**-25 if dtype == "float16" else 1e-300)
            worst[dtype, direction] = max(worst.get((dtype, direction), 0.0), float(np.max(error / unit)))
    with capsys.disabled():
        print(f"\n{count} configurations; largest error in units of roundoff x sum |products|:")
        for (dtype, direction), value in sorted(worst.items()):
            print(f"  {dtype:9} {direction:8} {value:.3f}")
        print(f"  int8 to int32, {integers} of them: exact")
