"""Implicit GEMM with channels last on CPU devices: random problems, configurations, Inf and NaN, what is refused.

Every element is checked against the host path in float64, as solver_checks.py says.
"""

from __future__ import annotations

import numpy as np
import pytest
from cases_reader import ConvCase, conv_case, grouped_case
from guarded import Tensor
from solver_checks import Example, arguments, check, configurations_of, plan, problem_of, verify

from miopyx.solvers import registry

NAMES = ("CpuImplicitGemmNhwcFwd", "CpuImplicitGemmNhwcBwd", "CpuImplicitGemmNhwcWrw")
TYPES = ("float64", "float32", "float16", "bfloat16", "int8")
CHANNELS = (1, 2, 3, 5, 15, 16, 17, 31, 33, 48, 63, 64, 65, 100, 130)


def case_of(n, c, k, lens, taps, pad=None, stride=None, dilation=None, groups=1) -> ConvCase:
    return grouped_case(n, groups, c, k, lens, taps, pad, stride, dilation)


SHAPES = {
    "1x1": case_of(3, 65, 130, (9, 7), (1, 1)),
    "1x1, stride 2": case_of(2, 33, 70, (9, 8), (1, 1), stride=(2, 2)),
    "3x3": case_of(2, 64, 64, (9, 10), (3, 3), (1, 1)),
    "3x3, stride 2": case_of(2, 17, 48, (11, 10), (3, 3), (1, 1), (2, 2)),
    "3x3, dilation 2": case_of(1, 20, 33, (12, 9), (3, 3), (2, 2), dilation=(2, 2)),
    "stem": case_of(2, 3, 64, (23, 22), (7, 7), (3, 3), (2, 2)),
    "one channel": case_of(2, 1, 5, (13, 12), (5, 3), (2, 1)),
    "channels beyond a block of the sum": case_of(1, 700, 20, (3, 4), (1, 3), (0, 1)),
    "stride and dilation share a factor": case_of(2, 7, 9, (15, 16), (4, 3), (3, 2), (4, 6), (2, 3)),
    "stride beyond the filter": case_of(2, 6, 20, (17, 13), (2, 1), (1, 0), (5, 3)),
    "pad beyond the filter": case_of(1, 18, 34, (4, 5), (2, 3), (5, 4)),
    "groups": case_of(2, 16, 24, (8, 9), (3, 3), (1, 1), groups=3),
    "groups, stride 2": case_of(2, 5, 35, (8, 9), (3, 2), (1, 1), (2, 1), groups=4),
    "1-D": case_of(2, 18, 40, (77,), (9,), (4,), (2,), (3,)),
    "1-D, a long row": case_of(1, 6, 5, (9000,), (3,), (1,)),  # converted in pieces
    "3-D": case_of(2, 9, 36, (5, 6, 7), (3, 2, 3), (1, 1, 0), (2, 1, 2), (1, 2, 1)),
    "several tiles of columns for a work-item": case_of(2, 460, 500, (18, 18), (1, 1)),
    "many images of one pixel": case_of(70, 21, 49, (1, 1), (1, 1)),
}


def run(handle, host, case, dtype, direction, rng):
    check(handle, Example(case, dtype, "channels last", rng, host), direction, registry.BY_NAME[NAMES[direction]], rng)


@pytest.mark.some(4)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(cpu, host, rng, name, dtype):
    for direction in range(1 if dtype == "int8" else 3):
        run(cpu, host, SHAPES[name], dtype, direction, rng)


def random_case(rng) -> ConvCase:
    while True:
        axes = int(rng.choice([1, 2, 2, 3]))
        lens = rng.integers(1, 7 if axes == 3 else 14, axes)
        taps, pad = rng.integers(1, 5, axes), rng.integers(0, 5, axes)
        stride, dilation = rng.integers(1, 4, axes), rng.integers(1, 4, axes)
        c, k = rng.choice(CHANNELS, 2)
        groups = int(rng.choice([1, 1, 2, 3])) if max(c, k) < 50 else 1
        if (lens + 2 * pad > dilation * (taps - 1)).all() and c * k * groups * taps.prod() < 50000:
            return case_of(int(rng.integers(1, 4)), int(c), int(k), *[tuple(map(int, v)) for v in (
                lens, taps, pad, stride, dilation)], groups)


def test_random_problems(cpu, host, rng, request):
    types = TYPES if cpu.device.fp64 else TYPES[1:]
    for _ in range(request.config.getoption("--configurations") // 4):
        case, dtype, direction = random_case(rng), types[rng.integers(len(types))], int(rng.integers(3))
        print(case, dtype, direction)
        run(cpu, host, case, dtype, 0 if dtype == "int8" else direction, rng)


@pytest.mark.parametrize("direction", range(3))
def test_configurations(cpu, host, rng, direction):
    """Any configuration computes the same as the default one, up to the order of its sums."""
    example = Example(SHAPES["3x3, stride 2"], "float32", "channels last", rng, host)
    problem, solver = example.problem(direction), registry.BY_NAME[NAMES[direction]]
    every = configurations_of(solver, cpu.device, problem)
    assert solver.default_config(cpu.device, problem) in every
    config = every[rng.integers(len(every))]
    print(config)
    verify(cpu, example, direction, example.run(cpu, direction, solver, config=config), solver)


CONVERTED = {
    "pieces of a sum": case_of(2, 300, 20, (7, 9), (1, 1)),
    "padding": case_of(2, 70, 40, (9, 6), (1, 1), pad=(1, 2)),
    "stride 2": case_of(3, 17, 90, (13, 12), (1, 1), stride=(2, 2)),
    "groups": case_of(2, 19, 33, (5, 6), (1, 1), groups=3),
    "many channels": case_of(1, 2100, 8, (3, 3), (1, 1)),  # a step before converts them
    "channels that one CHUNK has room for": case_of(1, 1000, 16, (14, 15), (1, 1)),
}


@pytest.mark.parametrize("direction", range(2))
@pytest.mark.parametrize("name", CONVERTED)
def test_who_reads_pixels_converts_them(cpu, host, rng, name, direction):
    """Filters of one tap, in every configuration and with any scale; its bits do not depend on CHUNK."""
    example = Example(CONVERTED[name], ("float16", "bfloat16")[rng.integers(2)], "channels last", rng, host)
    solver, found = registry.BY_NAME[NAMES[direction]], {}
    for config in configurations_of(solver, cpu.device, example.problem(direction)):
        got = example.run(cpu, direction, solver, config=config)
        verify(cpu, example, direction, got, solver)
        np.testing.assert_array_equal(got, found.setdefault(config[1], got))
    check(cpu, example, direction, solver, rng)


@pytest.mark.parametrize("direction", range(2))
def test_no_workspace_for_pixels_that_are_converted_where_they_are_read(cpu, direction):
    def size(name, dtype):
        problem = problem_of(CONVERTED[name], dtype, "channels last", direction)
        return registry.BY_NAME[NAMES[direction]].workspace_size(cpu.device, problem)

    assert all(size(name, "float16") == size(name, "float32") for name in ("padding", "stride 2", "groups"))
    assert (size("many channels", "bfloat16") > size("many channels", "float32")) == (direction == 0)


@pytest.mark.parametrize("direction", range(3))
def test_packed_filters(cpu, host, rng, direction):
    """Filters that were packed once serve later calls, whatever x and y hold."""
    example = Example(SHAPES["3x3"], "float32", "channels last", rng, host)
    solver = registry.BY_NAME[NAMES[direction]]
    inputs = [Tensor(cpu, d, v) for d, v in zip(example.desc, example.data, strict=True)]
    ready = plan(cpu, direction, example.desc, example.conv, solver.id)
    if direction != 2:
        ready.pack(inputs[1].argument())
    for _ in range(2):
        out = Tensor(cpu, example.desc[(2, 0, 1)[direction]], None)
        ready(*arguments(direction, [t.argument() for t in inputs], out.argument()))
        cpu.finish()
        verify(cpu, example, direction, out.values(), solver)


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("direction", range(2))
def test_inf_and_nan_of_pixels_stay_where_they_count(cpu, host, rng, direction, value):
    for name in ("3x3, stride 2", "stem", "groups"):
        example = Example(SHAPES[name], "float32", "channels last", rng, host)
        pixels = example.data[2 if direction else 0]
        pixels.reshape(-1)[[0, -1, pixels.size // 3]] = value
        with np.errstate(invalid="ignore"):
            want = example.truth(direction)
        got = example.run(cpu, direction, registry.BY_NAME[NAMES[direction]])
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])


def test_what_is_refused(cpu):
    def why(direction, layout="channels last", dtype="float32", stride=1):
        case = conv_case(2, 8, 4, (9, 9), (3, 3), (1, 1), (stride, stride))
        return registry.BY_NAME[NAMES[direction]].why_not(cpu.device, problem_of(case, dtype, layout, direction))

    assert all(why(d) is None for d in range(3))
    assert why(0, "packed") == why(1, "padded") == "tensors are not packed with channels last"
    assert why(0, dtype="int8") is None
    assert why(1, stride=40) == "a large stride"
