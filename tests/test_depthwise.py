"""Depthwise and grouped convolutions for GPUs, every element against the host path, as solver_checks.py says.

On a CPU the kernels run as on a GPU: its DeviceInfo says that it is one, of one compute unit, so that small images have
long strips and few parts, as large ones have on a large device.
"""

from __future__ import annotations

import numpy as np
import nvidia_programs
import pytest
from cases_reader import ConvCase, grouped_case
from solver_checks import (
    Example,
    check_inf_and_nan,
    check_twice,
    configurations_of,
    on_a_gpu,
    problem_of,
    verify,
)

import miopyx
from miopyx.solvers import registry

SOLVERS = tuple(registry.BY_NAME[name] for name in ("DepthwiseFwd", "DepthwiseBwd", "DepthwiseWrw"))
TYPES = ("float32", "float16", "bfloat16")
LAYOUTS = ("packed", "channels last", "packed with gaps")

SHAPES = {
    "3x3": grouped_case(2, 24, 1, 1, (14, 14)),
    "3x3 of odd sizes": grouped_case(3, 17, 1, 1, (9, 11)),
    "3x3 with stride 2": grouped_case(2, 20, 1, 1, (15, 14), stride=(2, 2)),
    "3x3 with stride 2 and no pad": grouped_case(2, 12, 1, 1, (12, 9), pad=(0, 0), stride=(2, 2)),
    "5x5": grouped_case(1, 36, 1, 1, (7, 12), (5, 5), (2, 2)),
    "5x5 with stride 2": grouped_case(2, 10, 1, 1, (11, 13), (5, 5), (2, 2), (2, 2)),
    "7x7": grouped_case(1, 40, 1, 1, (9, 8), (7, 7), (3, 3)),
    "7x7 with stride 2": grouped_case(1, 16, 1, 1, (9, 12), (7, 7), (3, 3), (2, 2)),
    "11x11": grouped_case(1, 6, 1, 1, (12, 13), (11, 11), (5, 5)),
    "dilation 2": grouped_case(2, 8, 1, 1, (10, 11), pad=(2, 2), dilation=(2, 2)),
    "dilation 3, stride 2": grouped_case(1, 8, 1, 1, (13, 12), pad=(3, 2), stride=(2, 2), dilation=(3, 3)),
    "uneven": grouped_case(2, 12, 1, 1, (8, 15), (3, 5), (1, 0), (1, 3), (2, 1)),
    "1x1": grouped_case(2, 9, 1, 1, (5, 6), (1, 1), (0, 0)),
    "1x1 with stride 2": grouped_case(2, 8, 1, 1, (5, 6), (1, 1), (0, 0), (2, 2)),
    "an image smaller than the filter": grouped_case(2, 8, 1, 1, (2, 1), (5, 3), (2, 1)),
    "2 filters a channel": grouped_case(2, 8, 1, 2, (9, 10)),
    "3 filters a channel, stride 2": grouped_case(2, 5, 1, 3, (9, 8), stride=(2, 2)),
    "groups of 4": grouped_case(2, 8, 4, 4, (9, 10)),
    "groups of 4, stride 2": grouped_case(1, 6, 4, 4, (9, 10), stride=(2, 2)),
    "groups of 16": grouped_case(1, 3, 16, 16, (7, 8)),
    "groups of 3 and 5": grouped_case(2, 4, 3, 5, (6, 7), (3, 3), (1, 1)),
    "groups of 2 and 12, 5x5": grouped_case(1, 3, 2, 12, (6, 7), (5, 5), (2, 2)),
    "groups of 4, 7x7": grouped_case(1, 4, 4, 4, (8, 8), (7, 7), (3, 3)),
    "many channels": grouped_case(1, 300, 1, 1, (5, 6)),
    "tall": grouped_case(2, 12, 1, 1, (70, 5)),
    "tall 7x7": grouped_case(1, 8, 1, 1, (61, 7), (7, 7), (3, 3)),
    "tall 5x5 with dilation 2": grouped_case(1, 12, 1, 1, (90, 9), (5, 5), (4, 4), dilation=(2, 2)),
    "many images": grouped_case(40, 3, 1, 1, (6, 5)),
    "31x31": grouped_case(2, 4, 1, 1, (33, 38), (31, 31), (15, 15)),
    "13x13 of many images": grouped_case(21, 2, 1, 1, (9, 6), (13, 13), (6, 6)),
    "13x14 with stride 2": grouped_case(2, 6, 1, 1, (31, 30), (13, 14), (6, 5), (2, 2)),
    "15x13 with dilations": grouped_case(1, 6, 1, 1, (34, 42), (15, 13), (5, 18), dilation=(2, 3)),
    "32 taps of a line": grouped_case(3, 6, 1, 1, (1, 90), (1, 32), (0, 7)),
    "wide 12x12 of no pad": grouped_case(1, 2, 1, 1, (90, 140), (12, 12), (0, 0)),
}

# Tiles (VEC, TH, TW) of an H200, and of GPUs whose compilers load a whole tile at once, where they are smaller.
TILES = {
    "7x7": (grouped_case(2, 8, 1, 1, (9, 14), (7, 7), (3, 3)), "float16", "channels last", 0, (2, 1, 7), (2, 1, 4)),
    "1x31": (grouped_case(2, 8, 1, 1, (3, 40), (1, 31), (0, 15)), "bfloat16", "channels last", 0, (4, 1, 8), (2, 1, 8)),
    "groups of 8": (grouped_case(2, 3, 8, 8, (7, 9)), "float32", "channels last", 0, (8, 2, 2), (8, 1, 2)),
    "groups of 8, backward": (
        grouped_case(2, 3, 8, 8, (7, 9)), "float32", "channels last", 1, (8, 2, 2), (8, 1, 2)),
    "groups of 4": (grouped_case(2, 3, 4, 4, (7, 9)), "float32", "channels last", 0, (4, 4, 4), (4, 1, 4)),
    "5x5 weights": (
        grouped_case(3, 4, 1, 1, (11, 18), (5, 5), (2, 2)), "float16", "packed", 2, (1, 1, 8), (1, 2, 4)),
}


@pytest.fixture
def gpu(opencl_name, pretend):
    return pretend(opencl_name, kind="gpu", compute_units=1)


def cases(gpu: miopyx.Handle, rng: np.random.Generator) -> list[tuple[str, str, int]]:
    """Types, layouts and directions: all of them on a GPU; a CPU takes seconds to build a kernel, so one."""
    every = [(dtype, layout, direction) for dtype in TYPES for layout in LAYOUTS for direction in range(3)]
    return every if on_a_gpu(gpu) else [every[rng.integers(len(every))]]


@pytest.mark.some(6)
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(gpu, host, rng, name):
    """Half of them in buffers that begin at an odd element."""
    for dtype, layout, direction in cases(gpu, rng):
        example = Example(SHAPES[name], dtype, layout, rng, host, shift=int(rng.integers(2)), copied=True)
        check_twice(gpu, example, direction, SOLVERS[direction], rng)


@pytest.mark.parametrize("name", TILES)
def test_tiles_that_registers_hold(gpu, host, rng, name):
    """`tests/test_gpu_programs.py` has AMD's compiler say that they do."""
    case, dtype, layout, direction, nvidia, whole = TILES[name]
    solver, problem = SOLVERS[direction], problem_of(case, dtype, layout, direction)
    assert solver.default_config(nvidia_programs.pretended(), problem) == nvidia
    if gpu.device.info.runtime == "nvidia":
        return
    assert solver.default_config(gpu.device, problem) == whole
    check_twice(gpu, Example(case, dtype, layout, rng, host, shift=int(rng.integers(2)), copied=True), direction,
                solver, rng)


@pytest.mark.parametrize(("case", "dtype", "layout", "direction", "tile"), [
    (grouped_case(2, 8, 1, 1, (9, 14)), "float32", "channels last", 0, (2, 1, 4)),
    (grouped_case(2, 8, 1, 1, (9, 14)), "float16", "channels last", 1, (2, 1, 7)),
    (grouped_case(2, 8, 1, 1, (9, 14)), "float32", "channels last", 2, (4, 1, 2)),
    (grouped_case(2, 8, 1, 1, (9, 14), (5, 5), (2, 2)), "float32", "channels last", 0, (2, 1, 2)),
    (grouped_case(2, 8, 1, 1, (9, 14), (5, 5), (2, 2)), "bfloat16", "packed", 0, (1, 1, 4)),
    (grouped_case(2, 8, 1, 1, (9, 14), (7, 7), (3, 3)), "float16", "channels last", 0, (2, 1, 8)),
    (grouped_case(2, 8, 1, 1, (9, 14), (7, 7), (3, 3)), "float32", "packed", 2, (1, 4, 1)),
], ids=str)
def test_tiles_of_half_the_registers(opencl_name, pretend, host, rng, case, dtype, layout, direction, tile):
    """Those of Intel's GPUs, likewise."""
    gpu = pretend(opencl_name, kind="gpu", runtime="other", compute_units=1,
                  extensions=frozenset({"cl_intel_required_subgroup_size"}))
    solver = SOLVERS[direction]
    assert gpu.device.work_item_registers == 128
    assert solver.default_config(gpu.device, problem_of(case, dtype, layout, direction)) == tile
    check_twice(gpu, Example(case, dtype, layout, rng, host, shift=int(rng.integers(2)), copied=True), direction,
                solver, rng)


def test_any_configuration_computes_the_same(gpu, host, rng, request):
    """Of random shapes, a random one."""
    on_gpu = on_a_gpu(gpu)
    for _ in range(100 if on_gpu else max(2, request.config.getoption("--configurations") // 100)):
        shape = list(SHAPES.values())[rng.integers(len(SHAPES))]
        direction = int(rng.integers(3))
        example = Example(shape, TYPES[rng.integers(3)], LAYOUTS[rng.integers(3)], rng, host, copied=True)
        dev, problem, solver = gpu.device, example.problem(direction), SOLVERS[direction]
        every = configurations_of(solver, dev, problem)
        assert solver.default_config(dev, problem) in every
        if not on_gpu:
            every = [c for c in every if c[0] * c[1] * c[2] <= 16] or every
        config = every[rng.integers(len(every))]
        print(problem, config)
        verify(gpu, example, direction, example.run(gpu, direction, solver, config=config), solver)


def test_strips_that_leave_rows_of_the_filter_to_others(gpu, host, rng):
    """Eight channels of 3x3 are more sums than a work-item keeps: two share the filter's rows."""
    example = Example(grouped_case(2, 64, 1, 1, (12, 13)), "float16", "channels last", rng, host, copied=True)
    solver, problem = SOLVERS[2], example.problem(2)
    assert (8, 1, 1) in configurations_of(solver, gpu.device, problem)
    verify(gpu, example, 2, example.run(gpu, 2, solver, config=(8, 1, 1)), solver)


@pytest.mark.parametrize("direction", [0, 2])
def test_rows_of_more_words_than_a_mask_has_bits(gpu, host, rng, direction):
    config = 1, 1, 7
    example = Example(grouped_case(2, 2, 1, 1, (20, 60), (5, 5), (0, 1), (5, 5)), "float16", "channels last", rng, host,
                      copied=True)
    solver = SOLVERS[direction]
    assert config in configurations_of(solver, gpu.device, example.problem(direction))
    verify(gpu, example, direction, example.run(gpu, direction, solver, config=config), solver)


@pytest.mark.parametrize(("images", "side"), [(64, 14), (1, 38)])
def test_parts_on_a_large_gpu(opencl_name, pretend, host, rng, images, side):
    """As many as the workspace has room for, whose guards tell."""
    gpu = pretend(opencl_name, kind="gpu", compute_units=132)
    case = grouped_case(images, 144 if images > 1 else 192, 1, 1, (side, side), stride=(2, 2))
    example = Example(case, "float16", "channels last", rng, host, copied=True)
    verify(gpu, example, 2, example.run(gpu, 2, SOLVERS[2]), SOLVERS[2])


@pytest.mark.parametrize("kilobytes", [32, 48])
def test_local_memory_that_is_enough_without_rows_on_their_way(opencl_name, pretend, kilobytes):
    """A device with less of it takes tiles, and refuses none of these."""
    device = pretend(opencl_name, kind="gpu", local_mem=kilobytes << 10).device
    for side in (3, 5, 7):
        for step in (1, 2, 3, 4):
            case = grouped_case(8, 128, 1, 1, (56, 56), (side, side), (side // 2, side // 2), (step, step))
            for dtype in TYPES:
                for layout in LAYOUTS:
                    for direction in range(3):
                        assert SOLVERS[direction].why_not(device, problem_of(case, dtype, layout, direction)) is None


@pytest.mark.some(2)
@pytest.mark.parametrize("direction", range(3))
def test_inf_and_nan_beside_padding(gpu, host, rng, direction):
    """What a tap does not meet must not count, infinite filters and gradients included."""
    names = ("3x3 of odd sizes", "3x3 with stride 2", "groups of 4", "13x13 of many images")
    every = [(name, layout) for name in names for layout in LAYOUTS[:2]]
    if not on_a_gpu(gpu):
        every = [every[rng.integers(len(every))]]
    for name, layout in every:
        example = Example(SHAPES[name], "float32", layout, rng, host, copied=True)
        check_inf_and_nan(gpu, example, direction, SOLVERS[direction], rng, 1e-3)


def test_what_is_refused(gpu):
    def why(case: ConvCase, dtype: str = "float32") -> str | None:
        return SOLVERS[0].why_not(gpu.device, problem_of(case, dtype))

    assert why(grouped_case(1, 1, 4, 4, (8, 8))) == "one group"
    assert why(grouped_case(1, 2, 64, 64, (8, 8))) == "many channels a group"
    assert why(grouped_case(1, 4, 1, 1, (40, 40), (33, 33))) == "a large filter"
    assert why(grouped_case(1, 4, 1, 1, (70, 70), dilation=(17, 17))) == "a large stride or dilation"
    assert why(grouped_case(1, 4, 1, 1, (8, 8)), "float64") in ("data type", "device has no double precision")
    assert why(grouped_case(1, 4, 1, 1, (8, 8))) is None
