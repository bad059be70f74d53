"""Convolutions of signals for GPUs, every element against the host path, as solver_checks.py says.

On a CPU the kernels run as on a GPU: its DeviceInfo says that it is one.
"""

from __future__ import annotations

import numpy as np
import pytest
from cases_reader import ConvCase, conv_case
from solver_checks import Example, check_inf_and_nan, check_twice, on_a_gpu, problem_of, verify

import miopyx
from miopyx.solvers import registry

SOLVERS = tuple(registry.BY_NAME[name] for name in ("SignalFwd", "SignalBwd", "SignalWrw"))
TYPES = ("float32", "float16", "bfloat16")
LAYOUTS = ("packed", "packed with gaps")


def signal(n: int, groups: int, filters: int, width: int, taps: int, pad: int = 0, stride: int = 1,
           dilation: int = 1) -> ConvCase:
    """Return a case of one channel a group, `filters` of which meet it."""
    return conv_case(n, groups, groups * filters, (width,), (taps,), (pad,), (stride,), (dilation,), groups)


SHAPES = {
    "Mamba": signal(3, 5, 1, 2048, 4, 3),
    "Conformer": signal(2, 3, 1, 1500, 31, 15),
    "wav2vec": signal(2, 1, 70, 6003, 10, 0, 5),
    "aligned": signal(2, 3, 1, 1024, 5, 2),
    "one column": signal(3, 4, 1, 1, 1),
    "one column of x, more of y": signal(2, 3, 1, 1, 4, 3),
    "three columns": signal(5, 7, 1, 3, 3, 1),
    "pads wider than the signal": signal(2, 3, 1, 5, 3, 9),
    "two units and a few columns": signal(1, 2, 1, 3086, 3, 2),
    "64 taps": signal(2, 2, 1, 517, 64, 20),
    "41 taps": signal(1, 3, 1, 259, 41, 0),
    "1 tap": signal(2, 3, 1, 131, 1),
    "stride 2": signal(2, 3, 1, 1030, 4, 1, 2),
    "stride 2 without a pad, a rest": signal(2, 2, 1, 77, 2, 0, 3),
    "stride 3, 31 taps": signal(1, 3, 1, 2005, 31, 7, 3),
    "stride 4 of 64 taps": signal(1, 2, 1, 900, 64, 32, 4),
    "stride 5": signal(2, 2, 1, 3001, 9, 2, 5),
    "stride 16": signal(1, 2, 3, 5000, 3, 0, 16),
    "dilation 2": signal(2, 3, 1, 700, 7, 6, 1, 2),
    "dilation 3, stride 2": signal(2, 3, 1, 801, 5, 4, 2, 3),
    "dilation 17": signal(1, 3, 1, 1200, 13, 40, 1, 17),
    "a far tap": signal(1, 2, 1, 1300, 2, 0, 1, 1000),
    "2 filters": signal(2, 3, 2, 1100, 4, 3),
    "3 filters, stride 3": signal(1, 2, 3, 1100, 5, 2, 3),
    "9 filters, 64 taps": signal(1, 2, 9, 333, 64, 31),
    "9 filters, dilation 3": signal(2, 1, 9, 640, 10, 5, 1, 3),
    "600 filters": signal(1, 1, 600, 40, 20, 10, 2),
    "rows of an image": conv_case(2, 6, 6, (5, 130), (1, 7), (0, 3), groups=6),
    "rows of an image, 2 filters": conv_case(2, 3, 6, (4, 61), (1, 3), (0, 2), (1, 2), groups=3),
    "many lines": signal(70, 2, 1, 30, 3, 1),
    "many units": signal(2, 1, 1, 20011, 3, 1),
}


@pytest.fixture
def gpu(opencl_name, pretend):
    return pretend(opencl_name, kind="gpu", compute_units=1)


def cases(gpu: miopyx.Handle, rng: np.random.Generator) -> list[tuple[str, str, int]]:
    """Types, layouts and directions: all types on a GPU; a CPU takes seconds to build a kernel, so one a direction."""
    every = TYPES if on_a_gpu(gpu) else [TYPES[rng.integers(3)]]
    return [(dtype, LAYOUTS[rng.integers(2)], direction) for dtype in every for direction in range(3)]


@pytest.mark.some(6)
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(gpu, host, rng, name):
    """In buffers that begin at any element."""
    for dtype, layout, direction in cases(gpu, rng):
        example = Example(SHAPES[name], dtype, layout, rng, host, shift=int(rng.integers(4)), copied=True)
        check_twice(gpu, example, direction, SOLVERS[direction], rng)


@pytest.mark.some(4)
@pytest.mark.parametrize("number", range(40))
def test_random_shapes(gpu, host, rng, number):
    width, taps = int(rng.integers(1, 5001) ** rng.uniform(0.3, 1)), int(rng.integers(1, 65))
    stride, dilation, pad = int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(0, 40))
    width = max(width, (taps - 1) * dilation + 1 - 2 * pad, 1)
    filters = int(rng.integers(1, 10)) if rng.integers(2) else 1
    shape = signal(int(rng.integers(1, 4)), int(rng.integers(1, 5)), filters, width, taps, pad, stride, dilation)
    for direction in range(3):
        dtype, layout = TYPES[rng.integers(3)], LAYOUTS[rng.integers(2)]
        example = Example(shape, dtype, layout, rng, host, shift=int(rng.integers(4)), copied=True)
        check_twice(gpu, example, direction, SOLVERS[direction], rng)


@pytest.mark.some(2)
@pytest.mark.parametrize("name", ["Mamba", "wav2vec", "stride 2", "2 filters"])
def test_parts_on_a_large_gpu(opencl_name, pretend, host, rng, name):
    """As many as the workspace has room for, whose guards tell."""
    gpu = pretend(opencl_name, kind="gpu", compute_units=132)
    for direction in range(3):
        example = Example(SHAPES[name], "float32", "packed", rng, host, copied=True)
        verify(gpu, example, direction, example.run(gpu, direction, SOLVERS[direction]), SOLVERS[direction])


@pytest.mark.some(3)
@pytest.mark.parametrize("name", ["three columns", "stride 3, 31 taps", "2 filters", "dilation 3, stride 2",
                                  "dilation 17", "aligned", "9 filters, dilation 3"])
@pytest.mark.parametrize("direction", range(3))
def test_inf_and_nan_beside_padding(gpu, host, rng, direction, name):
    """What a tap does not meet must not count, infinite filters and gradients included."""
    example = Example(SHAPES[name], "float32", "packed", rng, host, copied=True)
    check_inf_and_nan(gpu, example, direction, SOLVERS[direction], rng, 1e-3)


@pytest.mark.parametrize("width", [2**20])
def test_sums_of_a_long_signal(gpu, host, rng, width):
    """More terms than an accumulator takes are split, though one compute unit would not ask for it."""
    for filters in (1, 3):
        example = Example(signal(1, 1, filters, width, 2), "float32", "packed", rng, host, copied=True)
        problem, solver = example.problem(2), SOLVERS[2]
        assert solver.error_bound(gpu.device, problem) < 6000 * 2.0**-24
        verify(gpu, example, 2, example.run(gpu, 2, solver), solver)


def test_what_is_refused(gpu):
    def why(case: ConvCase, dtype: str = "float32", direction: int = 0, layout: str = "packed") -> str | None:
        return SOLVERS[direction].why_not(gpu.device, problem_of(case, dtype, layout, direction))

    assert why(conv_case(1, 4, 4, (80,), (3,), groups=2)) == "several channels a group"
    assert why(conv_case(1, 4, 4, (8, 80), (3, 3), groups=4)) == "not a filter of one row"
    assert why(conv_case(1, 4, 4, (8, 80), (1, 3), stride=(2, 1), groups=4)) == "not a filter of one row"
    assert why(conv_case(1, 4, 4, (8, 80), (1, 3), pad=(1, 1), groups=4)) == "not a filter of one row"
    assert why(signal(1, 4, 1, 100, 65)) == "a large filter"
    assert why(signal(1, 4, 1, 100, 3, 0, 17)) == "a large stride"
    assert why(signal(1, 4, 1, 100, 3), layout="channels last") == "rows are not contiguous"
    assert why(signal(1, 1, 4097, 100, 3), direction=1) == "many filters a channel"
    assert why(signal(1, 1, 2, 2000, 2, 0, 1, 1000), direction=1) == "a large dilation"
    assert why(signal(1, 4, 1, 100, 3), "float64") in ("data type", "device has no double precision")
    for direction in range(3):
        assert why(signal(16, 512, 1, 32000, 31, 15), direction=direction) is None
        assert why(signal(16, 1, 512, 160000, 10, 0, 5), "float16", direction) is None
