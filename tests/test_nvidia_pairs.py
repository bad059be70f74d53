"""Floats as pairs of halves: what Inf, NaN and a wide range of values come to, and how exact ordinary numbers are.

The solvers need wgmma; other devices skip these tests.  Shapes, strides and layouts are test_solvers' business.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases_reader import conv_case
from solver_checks import Example, check_twice, plan, problem_of

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

SOLVERS = ("NvPairsFwd", "NvPairsBwd", "NvPairsWrw")  # by direction
EACH = [*enumerate(SOLVERS), (2, "NvPairTapsWrw"), (2, "NvPairWinogradWrw")]
CASES = {  # n c h w, k r s, pad, stride
    "3x3": ((2, 72, 9, 9), (70, 72, 3, 3), 1, 1),
    "1x1": ((3, 130, 8, 8), (130, 130, 1, 1), 0, 1),
    "strided": ((2, 66, 10, 10), (70, 66, 3, 3), 1, 2),
    "few filters": ((3, 40, 7, 13), (30, 40, 3, 3), 1, 1),
    "volume": ((2, 40, 4, 6, 5), (70, 40, 3, 3, 3), 1, 1),
}

VOLUMES = {
    "3x3x3": conv_case(2, 64, 64, (6, 8, 10), (3, 3, 3), (1, 1, 1)),
    "3x3x3, many filters": conv_case(2, 72, 330, (4, 9, 7), (3, 3, 3), (1, 1, 1)),
    "3x3x3, many pixels": conv_case(3, 32, 136, (16, 24, 40), (3, 3, 3), (1, 1, 1)),
    "uneven filters and pads": conv_case(2, 64, 72, (7, 6, 9), (2, 3, 1), (1, 0, 2)),
    "strides": conv_case(2, 65, 96, (6, 8, 10), (3, 3, 3), (1, 1, 1), (2, 2, 2)),
    "strides and many filters": conv_case(2, 130, 72, (7, 9, 11), (3, 3, 3), (1, 1, 1), (2, 2, 2)),
    "strides of the planes": conv_case(2, 70, 64, (5, 9, 8), (3, 3, 3), (1, 1, 1), (1, 2, 2)),
    "strides of the depth": conv_case(2, 64, 72, (7, 6, 8), (3, 3, 3), (1, 1, 1), (2, 1, 1)),
    "planes of odd sizes in pairs of rows": conv_case(2, 64, 64, (3, 7, 10), (3, 3, 3), (1, 1, 1), (2, 2, 2)),
    "strides and dilations": conv_case(2, 40, 64, (11, 9, 12), (3, 4, 3), (2, 3, 3), (2, 2, 3), (1, 2, 2)),
    "strides that divide dilations": conv_case(2, 40, 64, (9, 8, 10), (3, 2, 3), (2, 1, 2), (2, 2, 2), (2, 2, 4)),
    "strides, many pixels": conv_case(4, 130, 40, (16, 24, 40), (3, 3, 3), (1, 1, 1), (2, 2, 2)),
    "strides and groups": conv_case(2, 128, 96, (5, 7, 6), (3, 3, 3), (1, 1, 1), (2, 2, 3), groups=2),
    "strides and groups at once": conv_case(2, 160, 96, (6, 4, 6), (3, 3, 3), (1, 1, 1), (2, 2, 3), groups=2),
    "strides beyond filters": conv_case(2, 64, 64, (7, 8, 9), (1, 2, 1), (0, 0, 0), (3, 3, 2)),
    "strides beyond planes": conv_case(2, 64, 64, (3, 2, 129), (3, 2, 2), (1, 0, 0), (4, 5, 2)),
    "one plane beside its filter": conv_case(2, 64, 64, (1, 6, 7), (1, 3, 3), (1, 1, 1), (3, 1, 1)),
    "dilations": conv_case(2, 40, 64, (9, 8, 7), (3, 2, 3), (2, 1, 3), (1, 1, 1), (2, 1, 3)),
    "groups": conv_case(2, 128, 64, (5, 6, 7), (3, 3, 3), (1, 1, 1), groups=4),
    "one plane": conv_case(2, 64, 64, (1, 9, 8), (3, 3, 3), (1, 1, 1)),
    "flat filters": conv_case(2, 64, 64, (5, 9, 8), (1, 3, 3), (0, 1, 1)),
    "along the depth": conv_case(2, 64, 72, (8, 6, 5), (3, 1, 1), (1, 0, 0)),
    "1x1x1": conv_case(3, 64, 128, (4, 6, 8)),
}
PLANES = {
    "uneven sides, phases one by one": conv_case(2, 66, 70, (10, 9), (3, 3), (1, 1), (2, 2)),
    "phases at once": conv_case(2, 66, 70, (10, 8), (4, 4), (1, 1), (2, 2)),
    "phases of several taps at once": conv_case(3, 80, 64, (8, 12), (5, 3), (2, 1), (2, 3), groups=2),
    "strides, and a dilation": conv_case(2, 40, 64, (9, 12), (3, 2), (2, 1), (2, 3), (2, 1)),
}
SHAPES = {**VOLUMES, **PLANES}


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(handle, host, rng, name, layout, direction):
    if registry.BY_NAME["NvPairsFwd"].why_not(handle.device, problem_of(VOLUMES["3x3x3"])) is not None:
        pytest.skip("needs a Hopper GPU")
    example = Example(SHAPES[name], "float32", layout, rng, host)
    check_twice(handle, example, direction, registry.BY_NAME[SOLVERS[direction]], rng)


# Of backward weights where taps share pixels.
SHARED = {
    "3x3": conv_case(3, 64, 64, (9, 11), (3, 3), (1, 1)),
    "uneven channels and filters": conv_case(2, 70, 137, (8, 8), (3, 3), (1, 1)),
    "several tiles of filters": conv_case(1, 32, 330, (10, 9), (3, 3), (1, 1)),
    "more than a block of positions": conv_case(2, 65, 66, (19, 30), (3, 3), (1, 1)),
    "no pads": conv_case(2, 64, 64, (9, 8), (3, 3)),
    "pads beyond the filter": conv_case(2, 40, 64, (5, 6), (3, 3), (4, 5)),
    "filters beyond the image": conv_case(4, 64, 64, (3, 2), (5, 5), (2, 3)),
    "5x5": conv_case(2, 64, 64, (12, 11), (5, 5), (2, 2)),
    "7x7": conv_case(2, 32, 64, (12, 11), (7, 7), (3, 3)),
    "1x3": conv_case(3, 64, 64, (7, 9), (1, 3), (0, 1)),
    "2x4": conv_case(2, 64, 72, (7, 9), (2, 4), (1, 0)),
    "dilations": conv_case(2, 64, 64, (13, 17), (3, 3), (2, 3), (1, 1), (2, 3)),
    "the largest dilation": conv_case(2, 64, 64, (11, 20), (3, 5), (1, 8), (1, 1), (1, 4)),
    "groups": conv_case(2, 128, 192, (9, 8), (3, 3), (1, 1), groups=2),
    "narrow groups": conv_case(3, 96, 48, (9, 8), (3, 3), (1, 1), groups=3),
    "many weights": conv_case(2, 264, 250, (4, 3), (3, 3), (1, 1)),
    "small images": conv_case(40, 64, 64, (4, 4), (3, 3), (1, 1)),
    "one row": conv_case(5, 64, 64, (1, 130), (1, 3), (0, 1)),
    "3x3x3": conv_case(2, 64, 64, (4, 7, 9), (3, 3, 3), (1, 1, 1)),
    "3x3x3, uneven": conv_case(1, 40, 200, (6, 5, 8), (3, 3, 3), (1, 0, 1)),
    "3x1x3 with dilations": conv_case(2, 64, 130, (7, 6, 9), (3, 1, 3), (2, 0, 3), (1, 1, 1), (2, 1, 3)),
    "2x3x5 with groups": conv_case(2, 128, 64, (5, 6, 7), (2, 3, 5), (1, 1, 2), groups=2),
    "flat filters in a volume": conv_case(1, 64, 64, (3, 9, 8), (1, 3, 3), (0, 1, 1)),
}


@pytest.mark.parametrize("layout", ["packed", "channels last", "padded"])
@pytest.mark.parametrize("name", SHARED)
def test_pixels_shared_by_taps(handle, host, rng, name, layout):
    if registry.BY_NAME["NvPairTapsWrw"].why_not(handle.device, problem_of(SHARED["3x3"], direction=2)) is not None:
        pytest.skip("needs a Hopper GPU")
    if len(SHARED[name].lens) == 3 and layout == "padded":
        pytest.skip("planes with gaps between them")
    example = Example(SHARED[name], "float32", layout, rng, host)
    check_twice(handle, example, 2, registry.BY_NAME["NvPairTapsWrw"], rng)


# Of backward weights by Winograd, in tiles of 2 x 2 of dy.
WINOGRAD = {
    "3x3": conv_case(3, 64, 64, (9, 11), (3, 3), (1, 1)),
    "uneven channels and filters": conv_case(2, 70, 137, (8, 8), (3, 3), (1, 1)),
    "tiles of two and of three chunks": conv_case(2, 260, 66, (6, 7), (3, 3), (1, 1)),
    "three chunks": conv_case(3, 192, 40, (9, 8), (3, 3), (1, 1)),
    "several tiles of filters": conv_case(1, 40, 330, (10, 9), (3, 3), (1, 1)),
    "splits": conv_case(9, 64, 64, (30, 31), (3, 3), (1, 1)),
    "no pads": conv_case(2, 64, 64, (9, 8), (3, 3)),
    "pads beyond the filter": conv_case(2, 40, 64, (5, 6), (3, 3), (4, 5)),
    "filters beyond the image": conv_case(9, 64, 64, (1, 2), (3, 3), (1, 1)),
    "groups": conv_case(2, 128, 192, (9, 8), (3, 3), (1, 1), groups=2),
    "uneven groups": conv_case(3, 210, 120, (9, 8), (3, 3), (1, 1), groups=3),
    "many weights": conv_case(2, 264, 250, (4, 3), (3, 3), (1, 1)),
    "small images": conv_case(70, 64, 64, (4, 4), (3, 3), (1, 1)),
    "one tile an image": conv_case(40, 64, 64, (3, 3), (3, 3)),
}


@pytest.mark.parametrize("layout", ["packed", "channels last", "padded"])
@pytest.mark.parametrize("name", WINOGRAD)
def test_winograd(handle, host, rng, name, layout):
    if registry.BY_NAME["NvPairWinogradWrw"].why_not(
            handle.device, problem_of(WINOGRAD["3x3"], direction=2)) is not None:
        pytest.skip("needs a Hopper GPU")
    example = Example(WINOGRAD[name], "float32", layout, rng, host)
    check_twice(handle, example, 2, registry.BY_NAME["NvPairWinogradWrw"], rng)


@pytest.mark.parametrize("layouts", [("NHWC", "NCHW", "NCHW"), ("NCHW", "NHWC", "NHWC"), ("NHWC", "NHWC", "NCHW")])
@pytest.mark.parametrize("name", ["uneven channels and filters", "splits"])
def test_winograd_of_several_layouts(handle, host, rng, name, layouts):
    """Of x, dw and dy: either operand of the products may be transposed."""
    solver = registry.BY_NAME["NvPairWinogradWrw"]
    if solver.why_not(handle.device, problem_of(WINOGRAD["3x3"], direction=2)) is not None:
        pytest.skip("needs a Hopper GPU")
    example = Example(WINOGRAD[name], "float32", "packed", rng, host)
    example.desc = [TensorDescriptor("float32", d.lens, layout=layout) for d, layout in
                    zip(example.desc, layouts, strict=True)]
    check_twice(handle, example, 2, solver, rng)


@pytest.mark.parametrize(("channels", "filters"), [(1, 1), (8, 64), (64, 8)])
def test_few_channels_are_not_padded_to_whole_chunks(handle, channels, filters):
    solver = registry.BY_NAME["NvPairTapsWrw"]
    if solver.why_not(handle.device, problem_of(SHARED["3x3"], direction=2)) is not None:
        pytest.skip("needs a Hopper GPU")
    case = conv_case(4, 8 * channels, 8 * filters, (14, 14), (5, 5), (2, 2), groups=8)
    assert solver.why_not(handle.device, problem_of(case, direction=2)) == "few channels a group"


class Problem:
    """One convolution in float32 with its operands, and what the host path makes of them in float64."""

    def __init__(self, handle: miopyx.Handle, case: str, rng: np.random.Generator, solver: str) -> None:
        x, w, pad, stride = CASES[case]
        if solver == "NvPairTapsWrw" and (stride != 1 or w[-1] < 3):
            pytest.skip("not a filter without a stride and with neighbouring taps")
        if solver == "NvPairWinogradWrw" and (stride != 1 or w[2:] != (3, 3)):
            pytest.skip("not a filter of 3x3 without a stride")
        self.solver, self.mixes_tiles = registry.solver_id(solver), registry.BY_NAME[solver].mixes_tiles
        self.handle, self.conv = handle, ConvolutionDescriptor(*((i,) * (len(x) - 2) for i in (pad, stride, 1)))
        y = self.conv.output_lens(TensorDescriptor("float32", x), TensorDescriptor("float32", w))
        self.lens = (x, w, tuple(y))
        self.data = [rng.standard_normal(lens).astype(np.float32) for lens in self.lens]

    def operands(self, direction: int) -> list[np.ndarray]:
        x, w, y = self.data
        return [[x, w], [y, w], [y, x]][direction]

    def plan(self, handle: miopyx.Handle, dtype: str, direction: int, solution_id: int | None):
        return plan(handle, direction, [TensorDescriptor(dtype, lens) for lens in self.lens], self.conv, solution_id)

    def run(self, direction: int) -> np.ndarray:
        out = np.full(self.lens[(2, 0, 1)[direction]], np.nan, np.float32)
        buffer = self.handle.upload(out)
        operands = [self.handle.upload(a) for a in self.operands(direction)]
        self.plan(self.handle, "float32", direction, self.solver)(*operands, buffer)
        self.handle.finish()
        self.handle.download(buffer, out)
        return out.astype(np.float64)

    def truth(self, host: miopyx.Handle, direction: int, absolute: bool = False) -> np.ndarray:
        out = np.full(self.lens[(2, 0, 1)[direction]], np.nan)
        operands = [np.abs(a) if absolute else a for a in self.operands(direction)]
        self.plan(host, "float64", direction, None)(*(a.astype(np.float64) for a in operands), out)
        return out

    def terms(self, direction: int) -> int:
        x, (k, c, *taps), y = self.lens
        return (c * math.prod(taps), k * math.prod(taps), x[0] * math.prod(y[2:]))[direction]


@pytest.fixture
def pairs(handle):
    """Skip where the solvers cannot run at all."""
    x = TensorDescriptor("float32", CASES["1x1"][0])
    w = TensorDescriptor("float32", CASES["1x1"][1])
    why = registry.BY_NAME["NvPairsFwd"].why_not(handle.device, ConvProblem(0, x, w, x, ConvolutionDescriptor()))
    if why is not None:
        pytest.skip(why)
    return handle


def bound(problem: Problem, host: miopyx.Handle, direction: int) -> np.ndarray:
    """What floats are allowed, one product's rounding after the other; where tiles are mixed, of the largest sum."""
    sums = problem.truth(host, direction, absolute=True)
    if problem.mixes_tiles:
        sums = np.full_like(sums, sums[np.isfinite(sums)].max())
    return (2.0**-23 + (problem.terms(direction) + 2) * 2.0**-24) * sums


@pytest.mark.parametrize(("direction", "solver"), EACH)
@pytest.mark.parametrize("case", CASES)
def test_inf_and_nan_come_out_as_floats_give_them(pairs, host, rng, case, direction, solver):
    for value in (np.inf, -np.inf, np.nan):
        for which in (0, 1):
            problem = Problem(pairs, case, rng, solver)
            operand = problem.operands(direction)[which]
            operand.reshape(-1)[rng.integers(0, operand.size, 3)] = value
            got, want = problem.run(direction), problem.truth(host, direction)
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
            finite = np.isfinite(want)
            limit = bound(problem, host, direction)
            assert (np.abs(got[finite] - want[finite]) <= limit[finite]).all()


@pytest.mark.parametrize(("direction", "solver"), EACH)
@pytest.mark.parametrize("case", CASES)
def test_numbers_of_any_size_keep_their_precision(pairs, host, rng, case, direction, solver):
    """A range of 2^29 within each operand, at sizes that are nowhere near 1, and of products at the least floats."""
    for sizes in ((-100, 50), (-40, 20), (0, 0), (40, -20), (100, -50), (-66, -60), (-60, -66)):
        problem = Problem(pairs, case, rng, solver)
        for which, operand in enumerate(problem.operands(direction)):
            exponents = rng.integers(-15, 15, operand.shape) + sizes[which]
            operand *= 2.0 ** exponents.astype(float)
        error = np.abs(problem.run(direction) - problem.truth(host, direction))
        assert (error <= bound(problem, host, direction) + 2.0**-140).all(), sizes


@pytest.mark.parametrize(("direction", "solver"), EACH)
@pytest.mark.parametrize("case", CASES)
def test_zeros_and_numbers_that_are_not_normal(pairs, host, rng, case, direction, solver):
    """Whole channels, filters and images of them, and some among others: there is no exponent to scale by."""
    for value in (0.0, 1e-40):
        problem = Problem(pairs, case, rng, solver)
        for operand in problem.operands(direction):
            operand[:, 1:64] = value
            operand[0] = value
            operand.reshape(-1)[rng.integers(0, operand.size, 9)] = value
        error = np.abs(problem.run(direction) - problem.truth(host, direction))
        assert (error <= bound(problem, host, direction) + problem.terms(direction) * 2.0**-123).all(), value
        problem.operands(direction)[0][:] = value
        error = np.abs(problem.run(direction) - problem.truth(host, direction))
        assert (error <= problem.terms(direction) * 2.0**-123).all(), value


@pytest.mark.parametrize(("direction", "solver"), EACH)
@pytest.mark.parametrize("case", CASES)
def test_ordinary_numbers_are_as_exact_as_floats(pairs, host, rng, case, direction, solver):
    problem = Problem(pairs, case, rng, solver)
    want = problem.truth(host, direction)
    assert np.linalg.norm(problem.run(direction) - want) <= 3e-7 * np.linalg.norm(want)


def test_sums_of_few_products_go_another_way(pairs):
    """A product alone may be off by more than a float's rounding."""
    x, w = TensorDescriptor("float32", (2, 15, 8, 8)), TensorDescriptor("float32", (64, 15, 1, 1))
    y = TensorDescriptor("float32", (2, 64, 8, 8))
    why = registry.BY_NAME["NvPairsFwd"].why_not(pairs.device, ConvProblem(0, x, w, y, ConvolutionDescriptor()))
    assert why == "too few products for pairs of halves"


@pytest.mark.parametrize("which", [0, 1], ids=["dy", "x"])
def test_a_value_that_only_some_sums_meet(pairs, host, rng, which):
    """Pixels beside a huge one have the precision of floats in sums that do not meet it."""
    for exponent in (10, 20, 27, 34, 127):
        problem = Problem(pairs, "3x3", rng, "NvPairTapsWrw")
        dy, x = problem.operands(2)
        one, other = (dy, x) if which == 0 else (x, dy)
        one[0, 0, 0, 0] = 2.0**exponent
        other[0, :, :2, :2] = 0
        error = np.abs(problem.run(2) - problem.truth(host, 2))
        assert (error <= bound(problem, host, 2)).all(), exponent
