"""Filters that meet x patch by patch: every element of each shape, layout and direction.  Needs a Hopper GPU."""

from __future__ import annotations

import pytest
from cases_reader import conv_case
from solver_checks import Example, check_twice, problem_of

from miopyx.solvers import registry

SOLVERS = ("NvPatchesFwd", "NvPatchesBwd", "NvPatchesWrw")
CASES = {  # images, channels, filters, lens, taps, pads, strides
    "16x16": conv_case(2, 3, 40, (32, 48), (16, 16), (0, 0), (16, 16)),
    "4x4": conv_case(3, 8, 72, (16, 12), (4, 4), (0, 0), (4, 4)),
    "2x2": conv_case(2, 34, 66, (6, 10), (2, 2), (0, 0), (2, 2)),
    "odd sides": conv_case(2, 9, 65, (9, 15), (3, 5), (0, 0), (3, 5)),
    "one channel": conv_case(2, 1, 64, (32, 16), (16, 8), (0, 0), (16, 8)),
    "rows": conv_case(2, 43, 64, (6, 7), (3, 1), (0, 0), (3, 1)),
    "columns": conv_case(2, 16, 64, (1, 24), (1, 8), (0, 0), (1, 8)),
    "whole images": conv_case(33, 16, 64, (7, 7), (7, 7), (0, 0), (3, 2)),
    "planes": conv_case(2, 3, 64, (4, 16, 24), (2, 8, 8), (0, 0, 0), (2, 8, 8)),
    "flat in planes": conv_case(2, 32, 40, (3, 4, 6), (1, 2, 2), (0, 0, 0), (1, 2, 2)),
}
NONE = {
    "a pad": conv_case(2, 16, 64, (15, 16), (2, 2), (1, 0), (2, 2)),
    "a remainder": conv_case(2, 16, 64, (17, 16), (2, 2), (0, 0), (2, 2)),
    "overlap": conv_case(2, 16, 64, (17, 16), (3, 2), (0, 0), (2, 2)),
    "gaps": conv_case(2, 16, 64, (18, 16), (2, 2), (0, 0), (4, 2)),
    "dilation": conv_case(2, 16, 64, (3, 16), (2, 2), (0, 0), (2, 2), (2, 1)),
    "1x1": conv_case(2, 16, 64, (8, 8), (1, 1), (0, 0)),
    "groups": conv_case(2, 32, 64, (8, 8), (2, 2), (0, 0), (2, 2), groups=2),
}


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_every_element(handle, host, rng, name, dtype, layout, direction):
    solver = registry.BY_NAME[SOLVERS[direction]]
    if solver.why_not(handle.device, problem_of(CASES["16x16"], dtype, layout, direction)) is not None:
        pytest.skip("needs a Hopper GPU")
    for shift in range(2):
        check_twice(handle, Example(CASES[name], dtype, layout, rng, host, shift=shift), direction, solver, rng)


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("name", NONE)
def test_what_are_no_patches(h200, name, direction):
    solver = registry.BY_NAME[SOLVERS[direction]]
    assert solver.why_not(h200.device, problem_of(NONE[name], "float32", "packed", direction)) == "no patches"


def test_what_other_solvers_do_as_well(h200):
    for channels, side, why in ((64, 2, "many channels"), (3, 4, "small patches")):
        case = conv_case(2, channels, 64, (16, 16), (side, side), (0, 0), (side, side))
        assert registry.BY_NAME[SOLVERS[0]].why_not(h200.device, problem_of(case)) == why
