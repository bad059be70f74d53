"""Few channels a group on NVIDIA's tensor cores, every element against the host path in float64.

Other devices skip these tests.  Inputs, bounds and poison are test_depthwise's.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_depthwise import DTYPE, Example, Shape, check

from miopyx.solvers import registry
from miopyx.tuning import configurations

NAMES = ("NvGroupedFwd", "NvGroupedBwd", "NvGroupedWrw")
SHAPES = {
    "groups of 4": Shape(2, 32, 4, 4, (9, 11)),
    "groups of 8": Shape(3, 8, 8, 8, (14, 14)),
    "groups of 16": Shape(2, 5, 16, 16, (14, 13)),
    "groups of 32": Shape(2, 3, 32, 32, (10, 7)),
    "groups of 2": Shape(1, 12, 2, 2, (17, 20)),
    "depthwise": Shape(2, 72, 1, 1, (15, 9)),
    "8 channels": Shape(5, 2, 4, 4, (6, 5)),
    "stride 2": Shape(2, 16, 4, 4, (15, 14), stride=(2, 2)),
    "stride 2 and no pad": Shape(2, 4, 16, 16, (12, 9), pad=(0, 0), stride=(2, 2)),
    "stride 3, 2x2": Shape(2, 8, 8, 8, (13, 11), (2, 2), (0, 1), (3, 3)),
    "5x5": Shape(1, 9, 8, 8, (12, 12), (5, 5), (2, 2)),
    "7x7 with stride 2": Shape(1, 16, 4, 4, (13, 16), (7, 7), (3, 3), (2, 2)),
    "dilation 2": Shape(2, 4, 16, 16, (10, 11), pad=(2, 2), dilation=(2, 2)),
    "dilation 3, stride 2": Shape(1, 2, 32, 32, (13, 12), pad=(3, 2), stride=(2, 2), dilation=(3, 3)),
    "uneven": Shape(2, 12, 4, 4, (8, 15), (3, 5), (1, 0), (1, 3), (2, 1)),
    "1x1": Shape(2, 4, 8, 8, (5, 6), (1, 1), (0, 0)),
    "1x1 with stride 2": Shape(2, 8, 4, 4, (5, 6), (1, 1), (0, 0), (2, 2)),
    "an image smaller than the filter": Shape(2, 8, 4, 4, (2, 1), (5, 3), (2, 1)),
    "many images": Shape(40, 4, 16, 16, (5, 4)),
    "long rows": Shape(1, 8, 4, 4, (3, 300)),
}


class Grouped(Example):
    def __init__(self, shape: Shape, dtype: str, direction: int, rng: np.random.Generator, odd: bool = False) -> None:
        super().__init__(shape, dtype, "channels last", direction, rng, odd)
        self.solver = registry.BY_NAME[NAMES[direction]]


@pytest.fixture
def gpu(handle):
    example = Grouped(SHAPES["groups of 4"], "float16", 0, np.random.default_rng(1))
    if example.solver.why_not(handle.device, example.problem) is not None:
        pytest.skip("needs a Hopper GPU")
    return handle


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(gpu, handles, rng, name, direction):
    """Half of them in buffers that begin at an odd element; every configuration."""
    for dtype in ("float16", "bfloat16"):
        example = Grouped(SHAPES[name], dtype, direction, rng, odd=bool(rng.integers(2)))
        dev, problem, solver = gpu.device, example.problem, example.solver
        assert solver.why_not(dev, problem) is None
        every = configurations(solver.parameters(dev, problem), lambda c: solver.accepts(dev, problem, c))  # noqa: B023
        for config in every if dtype == "float16" else every[:1]:
            check(example, handles("host"), example.run(gpu, config))
        np.testing.assert_array_equal(example.run(gpu), example.run(gpu), "not deterministic")
        alpha, beta = rng.uniform(-2, 2, 2)
        old = rng.standard_normal(example.shape.lens[example.output]).astype(DTYPE[dtype])
        check(example, handles("host"), example.run_mixed(gpu, alpha, beta, old), alpha, beta, old.astype(np.float64))


@pytest.mark.parametrize("direction", range(3))
def test_inf_and_nan(gpu, handles, rng, direction):
    """Beside padding and beside other groups, which both are zeros to the tensor cores."""
    for name in ("groups of 4", "groups of 32", "stride 2", "depthwise"):
        for value in (np.inf, np.nan):
            example = Grouped(SHAPES[name], "float16", direction, rng)
            for i in range(3):
                if i != example.output:
                    flat = example.data[i].reshape(-1)
                    flat[rng.integers(0, flat.size, 2)] = value
                    flat[[0, -1]] = -value
            with np.errstate(invalid="ignore"):
                want = example.truth(handles("host"))
            got = example.run(gpu)
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
            finite = np.isfinite(want)
            np.testing.assert_allclose(got[finite], want[finite], rtol=1e-2, atol=1e-2)
