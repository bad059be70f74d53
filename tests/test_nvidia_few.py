"""Few channels on NVIDIA's tensor cores, every element against the host path in float64.

Other devices skip these tests.  Inputs, bounds and poison are test_depthwise's.
"""

from __future__ import annotations

import pytest
from cases_reader import grouped_case
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
