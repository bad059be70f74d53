"""Depthwise weights by NVIDIA's tensor cores: every element of each shape.  Other devices skip these tests."""

from __future__ import annotations

import pytest
from cases_reader import grouped_case
from solver_checks import Example, check_inf_and_nan, check_twice, problem_of

from miopyx.solvers import registry

SOLVER = "NvDepthwiseWrw"


def case(n: int, channels: int, lens: tuple[int, int], taps: tuple[int, int], pad: tuple[int, int],
         stride: tuple[int, int] = (1, 1)):
    return grouped_case(n, channels, 1, 1, lens, taps, pad, stride)


CASES = {
    "7x7": case(3, 32, (11, 13), (7, 7), (3, 3)),
    "5x5": case(2, 16, (9, 20), (5, 5), (2, 2)),
    "5x5 with stride 2": case(3, 24, (12, 15), (5, 5), (2, 2), (2, 2)),
    "stride 2 of rows": case(2, 8, (13, 9), (7, 5), (3, 2), (2, 1)),
    "stride 2 of columns": case(2, 8, (9, 13), (5, 7), (2, 3), (1, 2)),
    "no pad": case(2, 8, (9, 9), (4, 4), (0, 0)),
    "large pads": case(1, 8, (6, 7), (5, 5), (4, 4)),
    "wide images": case(1, 8, (5, 70), (5, 5), (2, 2)),
    "wide images in parts": case(1, 8, (2, 100), (3, 7), (1, 3)),
    "13x13": case(1, 16, (6, 7), (13, 13), (6, 6)),
    "31x31": case(1, 8, (6, 5), (31, 31), (15, 15)),
    "a column": case(1, 8, (12, 2), (17, 1), (8, 0)),
    "more channels than a group has": case(1, 8 * 13, (6, 6), (5, 5), (2, 2)),
    "few rows a split": case(5, 8, (3, 6), (7, 7), (3, 3)),
}

@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_every_element(handle, host, rng, name, dtype):
    solver = registry.BY_NAME[SOLVER]
    if solver.why_not(handle.device, problem_of(CASES["7x7"], dtype, "channels last", 2)) is not None:
        pytest.skip("needs NVIDIA's tensor cores")
    for shift in range(2):
        check_twice(handle, Example(CASES[name], dtype, "channels last", rng, host, shift=shift), 2, solver, rng)
    check_inf_and_nan(handle, Example(CASES[name], dtype, "channels last", rng, host), 2, solver, rng, 1e-2)
