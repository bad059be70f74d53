"""Solvers that say they are deterministic give the same bits each time."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  the types' names
import numpy as np
import pytest
from solver_checks import arguments, plan

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

# c, k, length, filter, stride, groups, axes: sums long enough to be split, and groups of one channel.
SHAPES = {"3x3": (20, 24, 13, 3, 1, 1, 2), "1x1": (32, 40, 14, 1, 1, 1, 2), "strided": (12, 10, 15, 3, 2, 1, 2),
          "depthwise": (24, 24, 14, 3, 1, 24, 2), "grouped": (32, 32, 9, 3, 1, 2, 2),
          "long sum": (4, 5, 40, 3, 1, 1, 2), "3x3x3": (12, 10, 7, 3, 1, 1, 3)}
TYPES = ("float32", "float16", "bfloat16", "float64", "int8", "float8_e4m3fnuz")


def bits(handle, desc, fill):
    """Memory of a descriptor's size whose bytes are all `fill`."""
    return handle.upload(np.full(desc.nbytes, fill, np.uint8))


# Types differ in how values are read and written, not in the order of sums.
CASES = [(shape, "float32", layout) for shape in SHAPES for layout in ("nchw", "nhwc")]
CASES += [("3x3", dtype, "nchw") for dtype in TYPES if dtype != "float32"]


@pytest.mark.some(2)
@pytest.mark.parametrize(("shape", "dtype", "layout"), CASES)
def test_same_bits_each_time(handle, rng, amount, shape, dtype, layout):
    c, k, length, filter, stride, groups, axes = SHAPES[shape]
    conv = ConvolutionDescriptor((filter // 2,) * axes, (stride,) * axes, groups=groups)
    miopyx.miopenSetConvolutionAttribute(conv, miopyx.MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1)
    last = miopyx.miopenTensorNHWC if axes == 2 else miopyx.miopenTensorNDHWC
    order = {"layout": last} if layout == "nhwc" else {}
    x = TensorDescriptor(dtype, (2, c, *(length,) * axes), **order)
    w = TensorDescriptor(dtype, (k, c // groups, *(filter,) * axes), **order)
    y = TensorDescriptor("int32" if dtype == "int8" else dtype, conv.output_lens(x, w), **order)
    data = [rng.integers(-128, 128, d.lens) if dtype == "int8" else rng.standard_normal(d.lens) for d in (x, w, y)]
    data = [handle.upload(a.astype(d.dtype).view(np.uint8).ravel()) for a, d in zip(data, (x, w, y), strict=True)]
    directions = [0] if dtype == "int8" else rng.permutation(3)[:amount(1, 3)]
    for direction in map(int, directions):
        problem = ConvProblem(direction, x, w, y, conv)
        able = [s for s in registry.CONV if s.why_not(handle.device, problem) is None]
        assert able
        for solver in able:
            assert solver.deterministic, solver.name
            desc = (y, x, w)[direction]
            run = plan(handle, direction, (x, w, y), conv, solver.id)
            outputs = [bits(handle, desc, 0xFF), bits(handle, desc, 0x2A)]
            results = [np.empty(desc.nbytes, np.uint8) for _ in outputs]
            for number in range(amount(12, 100)):
                run(*arguments(direction, data, outputs[number > 0]))
                handle.finish()
                handle.download(outputs[number > 0], results[number > 0])
                assert np.array_equal(*results) or number == 0, f"{solver.name} {direction} {number}"
