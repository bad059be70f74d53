"""Depthwise and grouped convolutions on CPU devices, every element against the host path, as solver_checks.py says."""

from __future__ import annotations

import numpy as np
import pytest
from cases_reader import ConvCase, grouped_case
from guarded import ROUNDOFF
from solver_checks import Example, check_twice, descriptors

from miopyx import TensorDescriptor
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

LITTLE = "needs more private memory than the runtime may have"
SOLVERS = tuple(registry.BY_NAME[name] for name in ("CpuGroupedFwd", "CpuGroupedBwd", "CpuGroupedWrw"))
LAYOUTS = ("packed", "channels last", "packed with gaps", "channels last with gaps")

SHAPES = {
    "3x3": grouped_case(2, 33, 1, 1, (14, 14)),
    "3x3 of wide rows": grouped_case(1, 3, 1, 1, (6, 150)),
    "3x3 of very wide rows": grouped_case(1, 2, 1, 1, (3, 1100)),
    "3x3 of odd sizes": grouped_case(3, 17, 1, 1, (9, 19)),
    "3x3 of a small image": grouped_case(5, 65, 1, 1, (7, 7)),
    "3x3 with stride 2": grouped_case(2, 20, 1, 1, (15, 38), stride=(2, 2)),
    "3x3 with stride 2, odd": grouped_case(2, 19, 1, 1, (11, 33), stride=(2, 2)),
    "3x3 with stride 2, narrow": grouped_case(3, 5, 1, 1, (9, 18), stride=(2, 2)),
    "3x3 without padding": grouped_case(2, 9, 1, 1, (12, 21), pad=(0, 0)),
    "5x5 with stride 2": grouped_case(2, 18, 1, 1, (14, 40), (5, 5), (2, 2), (2, 2)),
    "7x7": grouped_case(2, 17, 1, 1, (10, 20), (7, 7), (3, 3)),
    "5x5": grouped_case(1, 36, 1, 1, (13, 28), (5, 5), (2, 2)),
    "5x5 with stride 2 and dilation 2": grouped_case(2, 10, 1, 1, (17, 40), (5, 5), (3, 4), (2, 2), (2, 2)),
    "11x11": grouped_case(1, 6, 1, 1, (12, 23), (11, 11), (5, 5)),
    "uneven": grouped_case(2, 12, 1, 1, (18, 25), (3, 5), (1, 0), (1, 3), (2, 1)),
    "large strides": grouped_case(1, 5, 1, 1, (21, 30), (3, 4), (0, 2), (5, 4), (1, 3)),
    "pads beyond the filter": grouped_case(2, 18, 1, 1, (6, 5), (3, 2), (4, 5)),
    "an image smaller than the filter": grouped_case(2, 8, 1, 1, (2, 1), (5, 3), (2, 1)),
    "1x1": grouped_case(2, 9, 1, 1, (5, 6), (1, 1), (0, 0)),
    "one axis": grouped_case(3, 20, 1, 1, (70,), (5,), (2,), (1,), (1,)),
    "one axis of groups": grouped_case(2, 3, 4, 6, (70,), (3,), (1,), (2,), (1,)),
    "three axes": grouped_case(2, 17, 1, 1, (5, 6, 9), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "three axes of groups": grouped_case(1, 3, 3, 2, (6, 7, 8), (2, 3, 3), (1, 1, 1), (2, 1, 2), (2, 1, 1)),
    "3 filters a channel": grouped_case(2, 5, 1, 3, (9, 18)),
    "groups of 2": grouped_case(2, 9, 2, 2, (9, 21)),
    "groups of 4": grouped_case(2, 8, 4, 4, (9, 30)),
    "groups of 4 with stride 2": grouped_case(1, 6, 4, 4, (19, 22), stride=(2, 2)),
    "groups of 8": grouped_case(1, 5, 8, 8, (14, 14)),
    "groups of 16": grouped_case(2, 3, 16, 16, (7, 8)),
    "groups of 16 and 32": grouped_case(2, 2, 16, 32, (9, 14), (3, 2), (1, 0)),
    "groups of 32 and 16 with stride 2": grouped_case(1, 2, 32, 16, (12, 9), (3, 2), (1, 1), (2, 2)),
    "three axes of groups of 16": grouped_case(1, 2, 16, 16, (3, 4, 5), (3, 2, 2), (1, 1, 1), (1, 2, 1), (1, 1, 1)),
    "groups of 5 and 17": grouped_case(1, 2, 5, 17, (9, 11)),
    "one group, 3 and 12": grouped_case(1, 1, 3, 12, (20, 21), (7, 7), (3, 3), (2, 2)),
}


@pytest.mark.some(5)
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(cpu, host, rng, amount, name):
    """In float32 each direction in one layout of rows and one with channels last; now and then another type.

    Without --long each direction in one of the two.
    """
    shape = SHAPES[name]
    lasts = {direction: rng.permutation(2)[:amount(1, 2)] for direction in range(3)}
    cases = [("float32", LAYOUTS[2 * int(rng.integers(2)) + last], direction) for direction in range(3)
             for last in lasts[direction]]
    if rng.integers(2):
        cases.append((list(ROUNDOFF)[rng.integers(4)], LAYOUTS[rng.integers(4)], int(rng.integers(3))))
    for dtype, layout, direction in cases:
        if dtype == "float64" and not cpu.device.fp64:
            continue
        example = Example(shape, dtype, layout, rng, host)
        if SOLVERS[direction].why_not(cpu.device, example.problem(direction)) != LITTLE:
            check_twice(cpu, example, direction, SOLVERS[direction], rng)


@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_an_infinity_stays_in_its_channel(cpu, host, rng, layout):
    """Forward and backward data: in what is read, one infinity changes what depends on it and nothing else."""
    for name in ("3x3 of odd sizes", "groups of 4 with stride 2"):
        for direction in range(2):
            example = Example(SHAPES[name], "float32", layout, rng, host)
            read = example.data[(0, 2)[direction]]
            read.reshape(-1)[rng.integers(read.size)] = np.inf
            with np.errstate(invalid="ignore"):
                want = example.truth(direction)
            got = example.run(cpu, direction, SOLVERS[direction])
            np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
            finite = np.isfinite(want)
            np.testing.assert_allclose(got[finite], want[finite], rtol=1e-3, atol=1e-3)


def test_weights_want_private_memory(cpu, pretend):
    """Of a thread's stack, which Mesa's llvmpipe shares out to the lanes of a vector."""
    for runtime, why in (("pocl", None), ("intel", None), ("other", LITTLE)):
        dev = pretend(cpu.device.name, runtime=runtime).device
        problem = ConvProblem(2, *descriptors(SHAPES["groups of 5 and 17"], "float32"),
                              SHAPES["groups of 5 and 17"].conv())
        assert SOLVERS[2].why_not(dev, problem) == why


def test_what_is_refused(cpu):
    def why(case: ConvCase, dtype: str = "float32", strides: tuple | None = None) -> str | None:
        desc = descriptors(case, dtype)
        if strides is not None:
            desc[0] = TensorDescriptor(dtype, case.x_lens, strides)
        return SOLVERS[0].why_not(cpu.device, ConvProblem(0, *desc, case.conv()))

    assert why(grouped_case(1, 2, 8, 8, (8, 8))) is None
    assert why(grouped_case(1, 2, 65, 1, (8, 8))) == "many channels a group"
    assert why(grouped_case(1, 2, 1, 65, (8, 8))) == "many channels a group"
    assert why(grouped_case(1, 4, 1, 1, (32, 32), (17, 17))) == "a large filter"
    assert why(grouped_case(1, 4, 1, 1, (32, 32), stride=(9, 1))) == "a large stride, dilation, pad or length"
    assert why(grouped_case(1, 2, 64, 1, (600, 600), dilation=(200, 200))) == "a tile is too large"
    gaps = why(grouped_case(1, 2, 1, 1, (8, 8)), strides=(512, 256, 32, 2))
    assert gaps == "neither channels nor rows are contiguous"
    assert why(grouped_case(1, 2, 1, 1, (8, 8)), "int8") is not None
