"""Convolutions as networks have them, drawn at random: for tests of what is chosen."""

from __future__ import annotations

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.problem._problem import ConvProblem


def channels_last(desc):
    """The same tensor with its channels closest."""
    lens, strides, stride = desc.lens, [0] * len(desc.lens), 1
    for axis in (1, *range(len(lens) - 1, 1, -1), 0):
        strides[axis] = stride
        stride *= lens[axis]
    return TensorDescriptor(desc.dtype, lens, tuple(strides))


def random_layer(rng):
    """Return a problem: 1x1 or not, packed or channels last, one to three axes, any type, seldom too large to run."""
    def one_of(*values):
        return values[int(rng.integers(len(values)))]

    spatial = one_of(1, 2, 2, 2, 3)
    groups, dtype = one_of(1, 1, 1, 2), one_of("float32", "float32", "float16", "bfloat16", "float64", "int8")
    out = one_of("int32", "float32", "int8") if dtype == "int8" else dtype
    filter = (one_of(1, 1, 3, 5),) * spatial
    conv = ConvolutionDescriptor((one_of(0, filter[0] // 2),) * spatial, (one_of(1, 1, 2, 3),) * spatial,
                                 (one_of(1, 1, 1, 2),) * spatial, groups=groups)
    if one_of(0, 0, 1):
        miopyx.miopenSetConvolutionAttribute(conv, 1, 1)
    c, k = groups * one_of(1, 8, 32), groups * one_of(1, 8, 64)
    n = one_of(1, 2, 32, 32, 1 << 20)  # a workspace of the last is beyond all limits
    x = TensorDescriptor(dtype, (n, c, *(int(v) for v in rng.integers(9, 57, spatial))))
    w = TensorDescriptor(dtype, (k, c // groups, *filter))
    y = TensorDescriptor(out, conv.output_lens(x, w))
    if one_of(0, 1):
        x, w, y = (channels_last(desc) for desc in (x, w, y))
    return ConvProblem(0 if dtype == "int8" else one_of(0, 1, 2), x, w, y, conv)
