"""Few channels a group on NVIDIA's tensor cores, every element against the host path in float64.

Other devices skip these tests.  Inputs, bounds and poison are test_depthwise's.
"""

from __future__ import annotations

import pytest
from cases_reader import grouped_case
from solver_checks import Example, check_inf_and_nan, check_twice, configurations_of, problem_of, verify

from miopyx.solvers import registry

SOLVERS = tuple(registry.BY_NAME[name] for name in ("NvGroupedFwd", "NvGroupedBwd", "NvGroupedWrw"))
SHAPES = {
    "groups of 4": grouped_case(2, 32, 4, 4, (9, 11)),
    "groups of 8": grouped_case(3, 8, 8, 8, (14, 14)),
    "groups of 16": grouped_case(2, 5, 16, 16, (14, 13)),
    "groups of 32": grouped_case(2, 3, 32, 32, (10, 7)),
    "groups of 2": grouped_case(1, 12, 2, 2, (17, 20)),
    "depthwise": grouped_case(2, 72, 1, 1, (15, 9)),
    "8 channels": grouped_case(5, 2, 4, 4, (6, 5)),
    "stride 2": grouped_case(2, 16, 4, 4, (15, 14), stride=(2, 2)),
    "stride 2 and no pad": grouped_case(2, 4, 16, 16, (12, 9), pad=(0, 0), stride=(2, 2)),
    "stride 3, 2x2": grouped_case(2, 8, 8, 8, (13, 11), (2, 2), (0, 1), (3, 3)),
    "5x5": grouped_case(1, 9, 8, 8, (12, 12), (5, 5), (2, 2)),
    "7x7 with stride 2": grouped_case(1, 16, 4, 4, (13, 16), (7, 7), (3, 3), (2, 2)),
    "dilation 2": grouped_case(2, 4, 16, 16, (10, 11), pad=(2, 2), dilation=(2, 2)),
    "dilation 3, stride 2": grouped_case(1, 2, 32, 32, (13, 12), pad=(3, 2), stride=(2, 2), dilation=(3, 3)),
    "uneven": grouped_case(2, 12, 4, 4, (8, 15), (3, 5), (1, 0), (1, 3), (2, 1)),
    "1x1": grouped_case(2, 4, 8, 8, (5, 6), (1, 1), (0, 0)),
    "1x1 with stride 2": grouped_case(2, 8, 4, 4, (5, 6), (1, 1), (0, 0), (2, 2)),
    "an image smaller than the filter": grouped_case(2, 8, 4, 4, (2, 1), (5, 3), (2, 1)),
    "many images": grouped_case(40, 4, 16, 16, (5, 4)),
    "long rows": grouped_case(1, 8, 4, 4, (3, 300)),
}


@pytest.fixture
def gpu(handle):
    if SOLVERS[0].why_not(handle.device, problem_of(SHAPES["groups of 4"], "float16", "channels last")) is not None:
        pytest.skip("needs a Hopper GPU")
    return handle


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(gpu, host, rng, name, direction):
    """Half of them in buffers that begin at an odd element; every configuration."""
    solver = SOLVERS[direction]
    for dtype in ("float16", "bfloat16"):
        example = Example(SHAPES[name], dtype, "channels last", rng, host, shift=int(rng.integers(2)), copied=True)
        check_twice(gpu, example, direction, solver, rng)
        for config in configurations_of(solver, gpu.device, example.problem(direction)) if dtype == "float16" else ():
            verify(gpu, example, direction, example.run(gpu, direction, solver, config=config), solver)


@pytest.mark.parametrize("direction", range(3))
def test_inf_and_nan(gpu, host, rng, direction):
    """Beside padding and beside other groups, which both are zeros to the tensor cores."""
    for name in ("groups of 4", "groups of 32", "stride 2", "depthwise"):
        example = Example(SHAPES[name], "float16", "channels last", rng, host, copied=True)
        check_inf_and_nan(gpu, example, direction, SOLVERS[direction], rng, 1e-2)
