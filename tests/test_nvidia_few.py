"""Few channels on NVIDIA's tensor cores, every element against the host path in float64.

Other devices skip these tests.  Inputs, bounds and poison are test_depthwise's, of float8 those of float8_checks.
"""

from __future__ import annotations

import math

import float8_checks
import numpy as np
import pytest
from cases_reader import grouped_case
from float8_checks import (
    BYTES,
    E4M3,
    E5M2,
    MIXED,
    NEAREST,
    RESULTS,
    STOCHASTIC,
    in_runs,
    own_bound,
    rounded,
    same,
    whole,
    within,
)
from guarded import DTYPE
from solver_checks import Example, check_inf_and_nan, check_twice, problem_of, verify

from miopyx.solvers import registry

SOLVERS = {0: registry.BY_NAME["NvFewChannelsFwd"], 2: registry.BY_NAME["NvFewChannelsWrw"]}
SHAPES = {  # images, 1 group, channels, filters
    "7x7 with stride 2": grouped_case(2, 1, 3, 64, (41, 52), (7, 7), (3, 3), (2, 2)),
    "3x3": grouped_case(3, 1, 3, 72, (20, 33)),
    "odd sizes": grouped_case(2, 1, 3, 17, (19, 23), (5, 3), (2, 1)),
    "one channel": grouped_case(2, 1, 1, 32, (28, 28), (5, 5), (2, 2)),
    "4 channels, 1x1": grouped_case(2, 1, 4, 130, (9, 16), (1, 1), (0, 0)),
    "8 channels, stride 3": grouped_case(1, 1, 8, 40, (30, 31), (3, 3), (0, 1), (3, 3)),
    "5 channels, uneven": grouped_case(1, 1, 5, 33, (15, 40), (3, 5), (1, 2), (1, 2), (2, 1)),
    "8x8 with stride 4": grouped_case(1, 1, 3, 64, (63, 70), (8, 8), (2, 2), (4, 4)),
    "small images": grouped_case(9, 1, 2, 24, (5, 3), pad=(2, 3)),
    "two filters": grouped_case(1, 1, 3, 2, (17, 18)),
}


@pytest.fixture
def gpu(handle):
    if SOLVERS[0].why_not(handle.device, problem_of(SHAPES["3x3"], "float16")) is not None:
        pytest.skip("needs a Hopper GPU")
    return handle


@pytest.mark.parametrize("direction", SOLVERS)
@pytest.mark.parametrize("layout", ["packed", "channels last", "packed with gaps"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(gpu, host, rng, name, layout, direction):
    """Half of them in buffers that begin at an odd element."""
    for dtype in ("float32", "float16", "bfloat16") if direction == 0 else ("float16", "bfloat16"):
        example = Example(SHAPES[name], dtype, layout, rng, host, shift=int(rng.integers(2)), copied=True)
        check_twice(gpu, example, direction, SOLVERS[direction], rng)
        for config in ((2,), (4,)) if direction == 0 else ():
            verify(gpu, example, direction, example.run(gpu, direction, SOLVERS[direction], config=config),
                   SOLVERS[direction])


def test_dilation(gpu, host, rng):
    case = grouped_case(2, 1, 3, 32, (20, 21), pad=(2, 3), stride=(1, 2), dilation=(2, 3))
    for layout in ("packed", "channels last"):
        check_twice(gpu, Example(case, "float32", layout, rng, host, copied=True), 0, SOLVERS[0], rng)
        assert SOLVERS[0].why_not(gpu.device, problem_of(case, "float16", layout)) == "dilation"


@pytest.mark.parametrize("direction", SOLVERS)
def test_inf_and_nan(gpu, host, rng, direction):
    """Beside padding, and beside other runs, which both are zeros to the tensor cores."""
    for name in ("3x3", "odd sizes", "7x7 with stride 2"):
        for layout in ("packed", "channels last"):
            for dtype in ("float32", "float16") if direction == 0 else ("float16",):
                example = Example(SHAPES[name], dtype, layout, rng, host, copied=True)
                check_inf_and_nan(gpu, example, direction, SOLVERS[direction], rng, 1e-2)


def of_float8(name, types, host, layout="channels last", mode=NEAREST):
    case = SHAPES[name] if isinstance(name, str) else name
    return float8_checks.Example(case, types, 0, host, layout, mode, layout)


@pytest.mark.parametrize("layout", ["packed", "channels last", "packed with gaps"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_of_float8_exactly(gpu, host, rng, name, layout):
    """Sums of small whole numbers; any address."""
    for types, shift in (((E4M3, E4M3, "float32"), 0), ((E5M2, E4M3, "float16"), 1), ((E4M3, E5M2, E4M3), 0),
                         ((E5M2, E5M2, E5M2), 1)):
        example = of_float8(name, types, host, layout).fill(whole(rng))
        assert SOLVERS[0].why_not(gpu.device, example.problem) is None
        got = example.run(gpu, SOLVERS[0], shift=shift)
        same(got, rounded(example.truth(), types[2]), f"{types}, {shift}")
        np.testing.assert_array_equal(got.view(np.uint8), example.run(gpu, SOLVERS[0], shift=shift).view(np.uint8))


@pytest.mark.parametrize("types", MIXED, ids="-".join)
def test_every_mixture_of_float8(gpu, host, rng, types):
    for layout in ("packed", "channels last"):
        example = of_float8("odd sizes", types, host, layout).fill(whole(rng))
        want = example.truth()
        old = rounded(rng.integers(-8, 9, want.shape), types[2])
        for shift in (0, 1):
            same(example.run(gpu, SOLVERS[0], 0.5, -2.0, old, shift),
                 rounded(0.5 * want - 2 * old.astype(np.float64), types[2]), f"{layout}, {shift}")


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("name", ["7x7 with stride 2", "8 channels, stride 3", "8x8 with stride 4"])
def test_sums_of_random_float8(gpu, host, rng, name, result):
    """Products are exact and sums those of 16 bits: far nearer than what wgmma keeps of float8."""
    for read in ((E4M3, E4M3), (E5M2, E4M3)):
        example = of_float8(name, (*read, result), host, "packed").fill(rng.standard_normal)
        got, want, size = example.run(gpu, SOLVERS[0]), example.truth(), example.truth(absolute=True)
        bound = own_bound(SOLVERS[0], gpu, example)
        assert bound < 1e-5
        within(got, rounded(want - bound * size, result).astype(np.float64),
               rounded(want + bound * size, result).astype(np.float64), read)


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("read", BYTES)
def test_all_codes_of_float8(gpu, host, read, result):
    """Each byte, of x and of w, times 1 and others: subnormal numbers, NaN, infinities, both zeros."""
    codes = np.arange(256, dtype=np.uint8).view(DTYPE[read])
    numbers = np.array([1, -1, 2, 0.5])
    for layout in ("packed", "channels last"):
        by_x = of_float8(grouped_case(1, 1, 1, 4, (16, 16), (1, 1), (0, 0)), (read, read, result), host, layout)
        by_x.data[0][0, 0], by_x.data[1][:, 0, 0, 0] = codes.reshape(16, 16), numbers
        by_w = of_float8(grouped_case(1, 1, 1, 256, (2, 2), (1, 1), (0, 0)), (read, read, result), host, layout)
        by_w.data[0][0, 0], by_w.data[1][:, 0, 0, 0] = numbers.reshape(2, 2), codes
        for example in (by_x, by_w):
            with np.errstate(invalid="ignore"):
                want = np.einsum("nchw,kc->nkhw", example.data[0].astype(np.float64),
                                 example.data[1].astype(np.float64)[:, :, 0, 0])
                same(example.run(gpu, SOLVERS[0]), rounded(want, result), layout)


@pytest.mark.parametrize("result", BYTES)
def test_float8_beside_padding(gpu, host, rng, result):
    """NaN and Inf reach what reads them and nothing else, though tensor cores multiply zeros by them."""
    example = of_float8("7x7 with stride 2", (E5M2, E5M2, result), host).fill(whole(rng))
    for read in (0, 1):
        example.data[read].reshape(-1)[[0, 17, -1]] = [np.inf, np.nan, -np.inf]
    with np.errstate(invalid="ignore"):
        want = example.truth()
    got = example.run(gpu, SOLVERS[0]).astype(np.float64)
    lost = ~np.isfinite(want) if result == E4M3 else np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), lost)
    np.testing.assert_array_equal(got[~lost], rounded(want, result).astype(np.float64)[~lost])


@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("name", ["3x3", "odd sizes", "two filters"])
@pytest.mark.parametrize("result", BYTES)
def test_stochastic_rounding_is_the_host_paths(gpu, host, rng, result, name, layout):
    """The same draw for the same element, as its offset and the seed say; a zero may have either sign."""
    example = of_float8(name, (E4M3, E4M3, result), host, layout, STOCHASTIC).fill(whole(rng))
    on_host = registry.BY_NAME["HostImplicitGemmFwd"]
    for alpha in (1, 0.75 * 2.0**-9, 0.75 * 2.0**-16):
        got = example.run(gpu, SOLVERS[0], alpha)
        same(got, example.run(host, on_host, alpha), f"alpha {alpha}")


@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("filters", [24, 27])  # images of the latter are no multiple of 4 elements, which have one draw
def test_runs_of_float8(gpu, host, rng, filters, layout):
    """Of tensors that are too large at once: an element's place in the whole one decides how it is rounded."""
    case = grouped_case(11, 1, 3, filters, (19, 33))
    nearest, wide, first, second = (
        float8_checks.Example(case, (E5M2, E4M3, result), 0, host, layout, mode, layout).fill(whole(rng))
        for result, mode in ((E4M3, NEAREST), ("float32", STOCHASTIC), (E4M3, STOCHASTIC), (E5M2, STOCHASTIC)))
    second.data[0].reshape(-1)[::501] = np.inf
    calls = [(example, alpha) for example in (first, second) for alpha in (1, 0.75 * 2.0**-9)]
    at_once = [example.run(gpu, SOLVERS[0], alpha) for example, alpha in calls]
    with in_runs(gpu, SOLVERS[0], [nearest, wide, first, second], math.prod(case.y_lens) * 3 // 5):
        same(nearest.run(gpu, SOLVERS[0]), rounded(nearest.truth(), E4M3))
        same(wide.run(gpu, SOLVERS[0]), rounded(wide.truth(), "float32"), "in float32 nothing is at random")
        for (example, alpha), want in zip(calls, at_once, strict=True):
            same(example.run(gpu, SOLVERS[0], alpha), want, f"at random, alpha {alpha}")


def test_amds_float8_is_refused(gpu):
    assert SOLVERS[0].why_not(gpu.device, problem_of(SHAPES["3x3"], "float8_e4m3fnuz")) == "data type"
