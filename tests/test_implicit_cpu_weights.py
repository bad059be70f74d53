"""Backward weights as an implicit GEMM on CPU devices, every element against the host path in float64.

What solver_checks.py checks, on random problems, for vectors of each size, and with every configuration.
"""

from __future__ import annotations

import numpy as np
import pytest
from cases_reader import ConvCase, conv_case
from guarded import Tensor
from solver_checks import Example, arguments, check, configurations_of, verify

from miopyx.solvers import registry

SOLVER = registry.BY_NAME["CpuImplicitGemmWrw"]
# One instruction set for each size of a vector register.
SETS = ("znver4", "haswell", "baseline")


def random_case(rng: np.random.Generator, spatial: int) -> ConvCase:
    """Any filter, or in one of three a 1x1 filter that leaves all alone; at most some millions of products."""
    while True:
        groups = int(rng.choice([1, 1, 1, 2, 3]))
        c, k = (groups * int(v) for v in rng.choice([1, 3, 5, 8, 16, 17, 33, 49, 65, 130], 2))
        lens = tuple(int(v) for v in rng.integers(1, (300, 24, 9)[spatial - 1], spatial))
        n = int(rng.choice([1, 2, 3, 7]))
        if rng.integers(3) == 0:
            case = conv_case(n, c, k, lens, groups=groups)
        else:
            taps = tuple(int(v) for v in rng.choice([1, 2, 3, 5, 7], spatial))
            pad, stride, dilation = (tuple(int(v) for v in rng.integers(low, high, spatial))
                                     for low, high in ((0, 2 + max(taps)), (1, 4), (1, 4)))
            case = conv_case(n, c, k, lens, taps, pad, stride, dilation, groups)
        if all(i + 2 * p > d * (f - 1) for i, p, d, f in zip(lens, case.pad, case.dilation, case.filter, strict=True)) \
                and case.products < 2e7:
            return case


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_random_problems(cpu, host, rng, spatial):
    for _ in range(25):
        check(cpu, Example(random_case(rng, spatial), "float32", "packed", rng, host), 2, SOLVER, rng)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types(cpu, host, rng, dtype):
    for _ in range(12):
        example = Example(random_case(rng, int(rng.integers(1, 4))), dtype, "packed", rng, host)
        if SOLVER.why_not(cpu.device, example.problem(2)) != "device has no double precision":
            check(cpu, example, 2, SOLVER, rng)


@pytest.mark.parametrize("isa", SETS)
def test_vectors_of_each_size(cpu, pretend, host, rng, isa):
    handle = pretend(cpu.device.name, isa=isa)
    assert handle.device.vector_bytes == 64 >> SETS.index(isa)
    for _ in range(12):
        check(handle, Example(random_case(rng, 2), "float32", "packed", rng, host), 2, SOLVER, rng)


SHAPES = {
    "few channels": conv_case(2, 3, 20, (37, 41), (7, 7), (3, 3), (2, 2)),
    "1x1": conv_case(4, 70, 50, (7, 7)),
    "1x1 with stride 2": conv_case(2, 70, 50, (75, 74), stride=(2, 2)),
    "more taps than sums": conv_case(2, 9, 5, (22, 23), (17, 9), (0, 1)),
    "rows longer than a panel": conv_case(1, 16, 8, (3, 700), (3, 3), (1, 1), dilation=(1, 2)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_configuration(cpu, host, rng, name):
    example = Example(SHAPES[name], "float32", "packed", rng, host)
    problem = example.problem(2)
    every = configurations_of(SOLVER, cpu.device, problem)
    assert len(every) >= 9
    for config in every:
        check(cpu, example, 2, SOLVER, rng, config)


def test_sums_do_not_depend_on_threads(cpu, host, rng):
    """The same bits every time, in parts too."""
    example = Example(SHAPES["1x1 with stride 2"], "float32", "packed", rng, host)
    plan = cpu.convolution_backward_weights(example.desc[2], example.desc[0], example.conv, example.desc[1], SOLVER.id)
    results = []
    for _ in range(20):
        inputs = [Tensor(cpu, d, v) for d, v in zip(example.desc, example.data, strict=True)]
        out = Tensor(cpu, example.desc[1], None)
        plan(*arguments(2, [t.argument() for t in inputs], out.argument()))
        cpu.finish()
        results.append(out.values())
        np.testing.assert_array_equal(results[-1], results[0])
    verify(cpu, example, 2, results[0], SOLVER)


def test_padding_is_not_multiplied(cpu, host, rng):
    """An infinity of dy reaches dw only at taps where it meets a pixel; the channels are enough for taps one by one."""
    example = Example(conv_case(2, 16, 5, (6, 7), (3, 3), (1, 1)), "float32", "packed", rng, host)
    example.data[2][1, 3, 0, 0] = np.inf
    got = example.run(cpu, 2, SOLVER)
    finite = np.ones(example.desc[1].lens, bool)
    finite[3, :, 1:, 1:] = False
    np.testing.assert_array_equal(np.isfinite(got), finite)
    assert np.isinf(got[~finite]).all()
