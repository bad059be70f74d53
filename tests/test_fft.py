"""FFT convolutions on CPUs, and as on GPUs, every element against the host path in float64, as solver_checks.py says.

Buffers begin at a boundary or an element behind it.
"""

from __future__ import annotations

import numpy as np
import pytest
from cases_reader import ConvCase, conv_case
from guarded import LAYOUTS
from solver_checks import Example, check_twice, configurations_of, on_a_gpu, problem_of, verify

from miopyx.solvers import registry

SOLVERS = tuple(registry.BY_NAME[name] for name in ("FFTConvFwd", "FFTConvBwd", "FFTConvWrw"))

SHAPES = {
    "5x5": conv_case(2, 17, 5, (14, 15), (5, 5), (2, 2)),
    "5x5 of one channel": conv_case(3, 1, 3, (23, 19), (5, 5), (0, 2)),
    "7x7": conv_case(1, 65, 18, (26, 11), (7, 7), (3, 3)),
    "7x7 in groups": conv_case(2, 12, 51, (12, 17), (7, 7), (3, 3), groups=3),
    "7x7 with stride 2": conv_case(2, 3, 17, (31, 29), (7, 7), (3, 3), (2, 2)),
    "11x11": conv_case(2, 5, 16, (27, 25), (11, 11), (5, 5)),
    "5x5 with dilation": conv_case(2, 17, 3, (25, 29), (5, 5), (4, 6), dilation=(2, 3)),
    "pads that leave a corner one tap": conv_case(1, 16, 5, (9, 8), (5, 3), (4, 2)),
    "many images": conv_case(40, 20, 33, (13, 12), (5, 5), (2, 2)),
    "31 along rows": conv_case(3, 17, 20, (100,), (31,), (15,)),
    "1x9": conv_case(2, 5, 17, (3, 40), (1, 9), (0, 4)),
    "1x31 with stride 2": conv_case(1, 5, 17, (7, 61), (1, 31), (0, 14), (1, 2)),
}


def example_of(case: ConvCase, dtype: str, layout: str, rng: np.random.Generator, host) -> Example:
    return Example(case, dtype, layout, rng, host, shift=int(rng.integers(2)), copied=True)


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(cpu, host, rng, name, layout, direction):
    check_twice(cpu, example_of(SHAPES[name], "float32", layout, rng, host), direction, SOLVERS[direction], rng)


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_every_type(cpu, host, rng, dtype, direction):
    if dtype == "float64" and not cpu.device.fp64:
        pytest.skip("no double precision")
    for layout in LAYOUTS:
        check_twice(cpu, example_of(SHAPES["5x5"], dtype, layout, rng, host), direction, SOLVERS[direction], rng)


@pytest.mark.parametrize("isa", ["avx2", "sse2"])
def test_narrower_vectors(cpu, pretend, host, rng, isa):
    """Squares of two to eight elements are turned."""
    handle = pretend(cpu.device.name, isa=isa)
    for dtype in ("float32", "float64"):
        for direction in range(3):
            example = example_of(SHAPES["5x5"], dtype, "packed", rng, host)
            check_twice(handle, example, direction, SOLVERS[direction], rng)


def test_as_on_gpus(gpu, host, rng):
    """A CPU takes seconds to build these kernels: one of the kinds of transform in a random direction."""
    names = SHAPES if on_a_gpu(gpu) else [str(rng.choice(["5x5", "31 along rows"]))]
    for name in names:
        for direction in range(3) if names is SHAPES else [int(rng.integers(3))]:
            for layout in LAYOUTS if names is SHAPES else LAYOUTS[:2]:
                example = example_of(SHAPES[name], "float32", layout, rng, host)
                check_twice(gpu, example, direction, SOLVERS[direction], rng)


@pytest.mark.parametrize("direction", range(3))
def test_other_transforms_compute_the_same(cpu, host, rng, direction):
    example, solver = example_of(SHAPES["11x11"], "float32", "packed", rng, host), SOLVERS[direction]
    dev, problem = cpu.device, example.problem(direction)
    every = configurations_of(solver, dev, problem)
    assert solver.default_config(dev, problem) in every
    got = example.run(cpu, direction, solver, config=every[rng.integers(len(every))])
    verify(cpu, example, direction, got, solver)


def test_more_tiles_than_are_taken_at_once(cpu, host, rng):
    """Their spectra fill the bounded workspace several times, and backward weights adds up the parts."""
    example = example_of(conv_case(10, 40, 48, (56, 57), (5, 5), (2, 2)), "float32", "packed", rng, host)
    for direction, solver in enumerate(SOLVERS):
        assert len(solver.solution(cpu.device, example.problem(direction)).steps) > 5
        verify(cpu, example, direction, example.run(cpu, direction, solver), solver)


def test_error_is_no_more_than_a_direct_sum_has(cpu, host, rng):
    example = example_of(conv_case(2, 32, 32, (30, 30), (7, 7), (3, 3)), "float32", "packed", rng, host)
    x, w, y = example.data
    padded, direct = np.pad(x, ((0, 0), (0, 0), (3, 3), (3, 3))), np.zeros_like(y)
    for c, r, s in np.ndindex(32, 7, 7):
        direct += w[:, c, r, s].reshape(1, -1, 1, 1) * padded[:, c:c + 1, r:r + 30, s:s + 30]
    want = example.truth(0)
    assert np.linalg.norm(example.run(cpu, 0, SOLVERS[0]) - want) <= 1.5 * np.linalg.norm(direct - want)


def test_what_is_refused(cpu):
    def why(*case) -> str | None:
        return SOLVERS[0].why_not(cpu.device, problem_of(conv_case(*case)))

    assert why(1, 16, 16, (28, 28), (1, 1), (0, 0)) == "saves no products"
    assert why(1, 16, 16, (3, 3), (3, 3), (0, 0)) == "saves no products"
    assert why(1, 16, 16, (90, 90), (65, 65), (32, 32)) == "filter or workspace is too large"
    assert why(1, 16, 16, (28, 28), (5, 5), (5, 2)) == "some results are no sum of products"
    assert why(1, 16, 16, (28, 28), (5, 5), (4, 2)) is None


def test_results_without_products_are_left_to_others(cpu, host, rng):
    """They are zeros, which an inverse transform does not give."""
    refused = 0
    for _ in range(300):
        axes = [rng.integers(low, high, 2) for low, high in ((1, 24), (2, 8), (0, 9), (1, 4), (1, 4))]
        image, taps, pad, stride, dilation = (tuple(map(int, axis)) for axis in axes)
        if any(i + 2 * p <= (t - 1) * d for i, p, t, d in zip(image, pad, taps, dilation, strict=True)):
            continue
        direction = int(rng.integers(3))
        example = example_of(conv_case(2, 3, 4, image, taps, pad, stride, dilation), "float32", "packed", rng, host)
        why = SOLVERS[direction].why_not(cpu.device, example.problem(direction))
        if why != "saves no products":
            zeros = (example.truth(direction, absolute=True) == 0).any()
            assert (why == "some results are no sum of products") == zeros, example.problem(direction)
            refused += zeros
    assert refused
