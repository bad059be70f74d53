"""Winograd for any GPU, on every OpenCL device as if it were one; GPUs run it in test_solvers, too."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cases_reader import ConvCase, conv_case
from guarded import LAYOUTS
from solver_checks import Example, check, problem_of

from miopyx.solvers.conv.gpu import _winograd as winograd

SOLVERS = {
    2: (winograd.GpuWinogradF2Fwd(), winograd.GpuWinogradF2Bwd(), winograd.GpuWinogradF2Wrw()),
    4: (winograd.GpuWinogradF4Fwd(), winograd.GpuWinogradF4Bwd(), winograd.GpuWinogradF4Wrw()),
}
# Norm-wise errors, in units of a direct float32 sum's, that each tile may have.
SHARE = {2: 2.0, 4: 5.0}


def random_case(rng, channels=(1, 3, 5, 17, 65)) -> ConvCase:
    pad = tuple(int(v) for v in rng.integers(0, 5, 2))
    lens = tuple(int(v) for v in rng.integers(3, 20, 2))
    groups = int(rng.integers(1, 4))
    c, k = (groups * int(rng.choice(channels)) for _ in range(2))
    return conv_case(int(rng.integers(1, 4)), c, k, lens, (3, 3), pad, groups=groups,
                     transposed=bool(rng.integers(4) == 0) and max(pad) < 3)


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("tile", [2, 4])
def test_random_problems(gpu, host, rng, tile, direction):
    for number in range(9):
        example = Example(random_case(rng), "float32", LAYOUTS[number % 3], rng, host)
        check(gpu, example, direction, SOLVERS[tile][example.problem(direction).direction], rng)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types(gpu, host, rng, dtype):
    direction, tile = int(rng.integers(3)), int(rng.choice([2, 4]))
    for layout in LAYOUTS[:2]:
        example = Example(random_case(rng), dtype, layout, rng, host)
        problem = example.problem(direction)
        solver = SOLVERS[tile][problem.direction]
        if solver.why_not(gpu.device, problem) is None:
            check(gpu, example, direction, solver, rng)


@pytest.mark.parametrize("direction", range(3))
def test_batches_in_parts(opencl_name, pretend, host, rng, direction):
    """On a GPU with little memory."""
    gpu, case = pretend(opencl_name, kind="gpu", max_alloc=1 << 20), conv_case(7, 9, 11, (13, 14), (3, 3), (1, 1))
    for layout in LAYOUTS[:2]:
        example = Example(case, "float32", layout, rng, host)
        solver = SOLVERS[4][direction]
        assert len(solver.solution(gpu.device, example.problem(direction)).steps) > 4
        check(gpu, example, direction, solver, rng)


@pytest.mark.parametrize("tile", [2, 4])
def test_errors_beside_a_direct_sum(gpu, host, rng, tile):
    """Norm-wise, on standard normal data, the tile may cost a few times what one float32 sum after the other does."""
    example = Example(conv_case(2, 64, 32, (17, 18), (3, 3), (1, 1)), "float32", "packed", rng, host)
    for direction in range(3):
        got, truth = example.run(gpu, direction, SOLVERS[tile][direction]), example.truth(direction)
        error = np.linalg.norm(got - truth) / np.linalg.norm(truth)
        assert error < 2e-6, direction
        # A sum of K float32 products in a row errs by some sqrt(K) / 2 roundoffs of its random terms.
        direct = 2.0**-24 * np.sqrt(example.terms[direction]) / 2
        assert error < SHARE[tile] * max(direct, 2.0**-23), (direction, error / direct)


def test_what_is_refused(gpu, rng):
    for change in ({"filter": (5, 3)}, {"stride": (1, 2)}, {"dilation": (2, 2)}):
        case = dataclasses.replace(random_case(rng), pad=(2, 2), transposed=False, **change)
        assert all(SOLVERS[tile][0].why_not(gpu.device, problem_of(case)) is not None for tile in SOLVERS)
