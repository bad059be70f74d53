"""Transposed convolutions whose output padding reaches beyond the stride, up to the dilation, against their definition.

    y[n, g K + k, s i + d r - p] += x[n, g C + c, i] w[g C + c, k, r]

in float64, every element of every solver in every direction; |error| <= (K + 4) u sum |products|, of the tensor's
largest such sum, times 30, for solvers that compute in another domain.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from guarded import ROUNDOFF
from solver_checks import needs_fp64, plan

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.choose._survey import Survey
from miopyx.problem._problem import ConvProblem

# x's and w's lengths, pads, strides, dilations, output pads, groups
CASES = {
    "2-D": ((2, 8, 5, 6), (8, 8, 3, 3), (1, 2), (1, 2), (3, 4), (2, 3), 1),
    "1x1": ((2, 16, 4, 4), (16, 16, 1, 1), (0, 0), (1, 1), (2, 2), (1, 1), 1),
    "1x1 stride 2": ((2, 8, 4, 5), (8, 8, 1, 1), (0, 0), (2, 2), (4, 4), (3, 2), 1),
    "far": ((1, 4, 5, 4), (4, 6, 2, 3), (0, 3), (1, 1), (5, 4), (4, 3), 1),
    "groups": ((2, 8, 4, 5), (8, 3, 3, 2), (2, 0), (2, 1), (3, 2), (2, 1), 2),
    "depthwise": ((2, 8, 6, 6), (8, 1, 3, 3), (2, 2), (1, 1), (2, 2), (1, 1), 8),
    "1-D": ((2, 6, 7), (6, 5, 3), (2,), (2,), (4,), (3,), 1),
    "3-D": ((1, 4, 3, 4, 3), (4, 4, 2, 2, 2), (0, 1, 0), (1, 1, 2), (2, 2, 3), (1, 1, 2), 1),
}


def term(shape, x, w, pads, strides, dilations, groups, direction):
    """The direction's result: y of x and w, dx of y's place `x` ..., by the formula, one tap after the other."""
    spatial = len(pads)
    lens = {"x": shape[0], "w": shape[1], "y": shape[2]}
    result = np.zeros(lens["yxw"[direction]])
    per_in, per_out = lens["w"][0] // groups, lens["w"][1]
    for g, tap in product(range(groups), product(*map(range, lens["w"][2:]))):
        cin, cout = slice(g * per_in, (g + 1) * per_in), slice(g * per_out, (g + 1) * per_out)
        weights = (cin, slice(None), *tap)
        inside, outside = [], []
        for axis in range(spatial):
            at = np.arange(lens["x"][2 + axis]) * strides[axis] + tap[axis] * dilations[axis] - pads[axis]
            good = (at >= 0) & (at < lens["y"][2 + axis])
            inside.append(np.flatnonzero(good))
            outside.append(at[good])
        xs = np.ix_(range(lens["x"][0]), range(lens["x"][1])[cin], *inside)
        ys = np.ix_(range(lens["x"][0]), range(lens["y"][1])[cout], *outside)
        if direction == 0:
            result[ys] += np.einsum("nc...,ck->nk...", x[xs], w[weights])
        elif direction == 1:
            result[xs] += np.einsum("nk...,ck->nc...", x[ys], w[weights])
        else:
            flat = x[xs].reshape(*x[xs].shape[:2], -1), w[ys].reshape(*w[ys].shape[:2], -1)
            result[weights] += np.einsum("ncp,nkp->ck", *flat)
    return result


@pytest.mark.some(3, host=99)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("case", CASES)
def test_beyond_the_stride(handle, rng, case, layout, dtype):
    needs_fp64(handle, dtype)
    x_lens, w_lens, pads, strides, dilations, output_pads, groups = CASES[case]
    conv = ConvolutionDescriptor(pads, strides, dilations, "transpose", groups, output_pads)
    y_lens = (x_lens[0], w_lens[1] * groups, *(
        s * (i - 1) + d * (r - 1) + 1 - 2 * p + extra
        for i, r, p, s, d, extra in zip(x_lens[2:], w_lens[2:], pads, strides, dilations, output_pads, strict=True)))

    def described(lens):
        if layout == "packed" or len(lens) == 3:
            return TensorDescriptor(dtype, lens)
        return TensorDescriptor(dtype, lens, layout="nhwc" if len(lens) == 4 else "ndhwc")

    desc = [described(lens) for lens in (x_lens, w_lens, y_lens)]
    assert conv.output_lens(desc[0], desc[1]) == y_lens
    memory = [np.empty(d.nbytes // np.dtype(dtype).itemsize, dtype) for d in desc]
    views = [np.lib.stride_tricks.as_strided(m, d.lens, [s * m.itemsize for s in d.strides])
             for m, d in zip(memory, desc, strict=True)]
    for view in views:
        view[...] = rng.standard_normal(view.shape)
    order = ((0, 1, 2), (2, 1, 0), (2, 0, 1))  # buffers of a direction's calls, the output last
    done = set()
    for direction in range(3):
        a, b, out = order[direction]
        first, second = (views[a], views[b]) if direction < 2 else (views[0], views[2])
        wide = [v.astype(np.float64) for v in (first, second)]
        truth, sums = (term((x_lens, w_lens, y_lens), *given, pads, strides, dilations, groups, direction)
                       for given in (wide, map(np.abs, wide)))
        count = x_lens[0] * int(np.prod(x_lens[2:])) if direction == 2 else max(w_lens) * int(np.prod(w_lens[2:]))
        problem = ConvProblem(direction, *desc, conv)
        for solver in [offer.solver for offer in Survey(handle, problem).applicable()]:
            buffers = [handle.upload(memory[i]) for i in (a, b)]
            target = np.full(memory[out].shape, np.nan, dtype)
            output = handle.upload(target)
            plan(handle, direction, desc, conv, solver.id)(*buffers, output)
            found = np.lib.stride_tricks.as_strided(handle.download(output, target), views[out].shape,
                                                    views[out].strides)
            spread = solver.mixes_tiles
            limit = (count + 4) * ROUNDOFF[dtype] * (30 * sums.max() if spread else sums) + 1e-300
            assert (np.abs(found - truth) <= limit).all(), (solver.name, direction, np.abs(found - truth).max())
            done.add((direction, solver.id))
    assert {direction for direction, _ in done} == {0, 1, 2}


def test_the_limit():
    for stride, dilation, extra in ((2, 1, 2), (1, 3, 3), (3, 2, 3), (1, 1, 1)):
        conv = ConvolutionDescriptor((0,), (stride,), (dilation,), "transpose", 1, (extra,))
        x, w = TensorDescriptor("float32", (1, 1, 4)), TensorDescriptor("float32", (1, 1, 2))
        with pytest.raises(miopyx.BadParmError, match="not below its stride or dilation"):
            conv.output_lens(x, w)
        miopyx.miopenSetTransposeConvNdOutputPadding(conv, 1, [extra - 1])
        assert conv.output_lens(x, w)[2] == stride * 3 + dilation + 1 + extra - 1
