"""Hopper's wgmma on tensors whose pixels lie closest, every element against the host path in float64.

Other devices skip these tests.  Inputs, bounds and poison are solver_checks'.
"""

from __future__ import annotations

import pytest
from cases_reader import conv_case
from solver_checks import Example, check, check_twice, problem_of

from miopyx.solvers import registry

SOLVERS = [registry.BY_NAME[name] for name in ("NvWgmmaFwd", "NvWgmmaBwd", "NvWgmmaWrw")]
SHAPES = {  # images, channels, filters, pixels, filter, pad, stride, dilation, groups
    "odd images": conv_case(5, 64, 72, (7, 7), (3, 3), (1, 1)),
    "odd images, 1x1": conv_case(9, 128, 320, (7, 7), (1, 1), (0, 0)),
    "long sums of odd images": conv_case(3, 512, 64, (7, 7), (3, 3), (1, 1)),
    "odd channels": conv_case(3, 65, 67, (7, 7), (3, 3), (1, 1)),
    "few channels": conv_case(2, 3, 64, (17, 17), (3, 3), (1, 1), (2, 2)),
    "17 channels": conv_case(1, 17, 65, (5, 9), (3, 3), (1, 1), (2, 2)),
    "images of 4 times an odd number": conv_case(3, 64, 264, (14, 14), (1, 1), (0, 0)),
    "the same, 3x3": conv_case(2, 72, 130, (14, 14), (3, 3), (1, 1)),
    "of 2 times": conv_case(2, 64, 96, (6, 5), (3, 3), (1, 1)),
    "1x1 with a stride": conv_case(2, 64, 128, (28, 28), (1, 1), (0, 0), (2, 2)),
    "the same to odd images": conv_case(2, 64, 128, (14, 14), (1, 1), (0, 0), (2, 2)),
    "uneven strides": conv_case(2, 72, 64, (15, 16), (1, 1), (0, 0), (3, 2)),
    "stride along one axis": conv_case(1, 64, 64, (8, 8), (1, 1), (0, 0), (2, 1)),
    "3x3 with a stride": conv_case(2, 64, 96, (12, 10), (3, 3), (1, 1), (2, 2)),
    "64 channels": conv_case(2, 64, 64, (16, 20), (3, 3), (1, 1)),
    "64 channels, odd images": conv_case(3, 64, 40, (9, 13), (3, 3), (1, 1)),
    "groups": conv_case(2, 128, 64, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1), 4),
    "groups, 1x1 with a stride": conv_case(2, 128, 64, (8, 12), (1, 1), (0, 0), (2, 2), (1, 1), 2),
    "dilation": conv_case(3, 96, 64, (6, 6), (3, 3), (2, 2), (1, 1), (2, 2)),
    "single pixels": conv_case(3, 64, 65, (1, 1), (1, 1), (0, 0)),
}


@pytest.fixture
def gpu(handle):
    if SOLVERS[0].why_not(handle.device, problem_of(SHAPES["64 channels"], "float16")) is not None:
        pytest.skip("needs a Hopper GPU")
    return handle


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("layout", ["packed", "padded", "channels last"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(gpu, host, rng, name, layout, direction):
    """In float16 from any address, too."""
    solver = SOLVERS[direction]
    check_twice(gpu, Example(SHAPES[name], "float16", layout, rng, host, copied=True), direction, solver, rng)
    for dtype, shift in (("float16", 1), ("bfloat16", 0)):
        check(gpu, Example(SHAPES[name], dtype, layout, rng, host, shift=shift, copied=True), direction, solver, rng)
