"""Few channels on NVIDIA's tensor cores, every element against the host path in float64.

Other devices skip these tests.  Inputs, bounds and poison are test_depthwise's.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_depthwise import DTYPE, Example, Shape, check

from miopyx.solvers import registry

NAMES = ("NvFewChannelsFwd", None, "NvFewChannelsWrw")
SHAPES = {  # images, 1 group, channels, filters
    "7x7 with stride 2": Shape(2, 1, 3, 64, (41, 52), (7, 7), (3, 3), (2, 2)),
    "3x3": Shape(3, 1, 3, 72, (20, 33)),
    "odd sizes": Shape(2, 1, 3, 17, (19, 23), (5, 3), (2, 1)),
    "one channel": Shape(2, 1, 1, 32, (28, 28), (5, 5), (2, 2)),
    "4 channels, 1x1": Shape(2, 1, 4, 130, (9, 16), (1, 1), (0, 0)),
    "8 channels, stride 3": Shape(1, 1, 8, 40, (30, 31), (3, 3), (0, 1), (3, 3)),
    "5 channels, uneven": Shape(1, 1, 5, 33, (15, 40), (3, 5), (1, 2), (1, 2), (2, 1)),
    "8x8 with stride 4": Shape(1, 1, 3, 64, (63, 70), (8, 8), (2, 2), (4, 4)),
    "small images": Shape(9, 1, 2, 24, (5, 3), pad=(2, 3)),
    "two filters": Shape(1, 1, 3, 2, (17, 18)),
}


class Few(Example):
    def __init__(self, shape: Shape, dtype: str, layout: str, direction: int, rng: np.random.Generator,
                 odd: bool = False) -> None:
        super().__init__(shape, dtype, layout, direction, rng, odd)
        self.solver = registry.BY_NAME[NAMES[direction]]


@pytest.fixture
def gpu(handle):
    example = Few(SHAPES["3x3"], "float16", "rows", 0, np.random.default_rng(1))
    if example.solver.why_not(handle.device, example.problem) is not None:
        pytest.skip("needs a Hopper GPU")
    return handle


@pytest.mark.parametrize("direction", [0, 2])
@pytest.mark.parametrize("layout", ["rows", "channels last", "padded"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(gpu, handles, rng, name, layout, direction):
    """Half of them in buffers that begin at an odd element."""
    for dtype in DTYPE if direction == 0 else ("float16", "bfloat16"):
        example = Few(SHAPES[name], dtype, layout, direction, rng, odd=bool(rng.integers(2)))
        assert example.solver.why_not(gpu.device, example.problem) is None
        for config in ((2,), (4,)) if direction == 0 else ((),):
            check(example, handles("host"), example.run(gpu, config))
        np.testing.assert_array_equal(example.run(gpu), example.run(gpu), "not deterministic")
        alpha, beta = rng.uniform(-2, 2, 2)
        old = rng.standard_normal(example.shape.lens[example.output]).astype(DTYPE[dtype])
        check(example, handles("host"), example.run_mixed(gpu, alpha, beta, old), alpha, beta, old.astype(np.float64))


def test_dilation(gpu, handles, rng):
    shape = Shape(2, 1, 3, 32, (20, 21), pad=(2, 3), stride=(1, 2), dilation=(2, 3))
    for layout in ("rows", "channels last"):
        example = Few(shape, "float32", layout, 0, rng)
        check(example, handles("host"), example.run(gpu))
        example = Few(shape, "float16", layout, 0, rng)
        assert example.solver.why_not(gpu.device, example.problem) == "dilation"


@pytest.mark.parametrize("direction", [0, 2])
def test_inf_and_nan(gpu, handles, rng, direction):
    """Beside padding, and beside other runs, which both are zeros to the tensor cores."""
    for name in ("3x3", "odd sizes", "7x7 with stride 2"):
        for layout in ("rows", "channels last"):
            for dtype in ("float32", "float16") if direction == 0 else ("float16",):
                for value in (np.inf, np.nan):
                    example = Few(SHAPES[name], dtype, layout, direction, rng)
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
