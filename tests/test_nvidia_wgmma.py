"""Hopper's wgmma on tensors whose pixels lie closest, every element against the host path in float64.

Other devices skip these tests.  Inputs, bounds and poison are solver_checks'.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from cases_reader import case_of_line, conv_case
from guarded import strides_of
from solver_checks import OUTPUT, Example, check, check_twice, descriptors, plan, problem_of, verify

from miopyx import TensorDescriptor
from miopyx.problem._key import find_key, parse_find_key
from miopyx.solvers import registry
from miopyx.solvers.conv.nvidia import _wgmma

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
    "many pixels, 1x1": conv_case(131, 264, 256, (8, 9), (1, 1), (0, 0)),
    "640 filters": conv_case(8, 96, 640, (40, 11), (3, 3), (1, 1)),
    "192 filters": conv_case(5, 200, 192, (45, 71), (3, 3), (1, 1)),
}
# Of backward weights where taps share pixels; images, channels, filters, pixels, filter, pad, stride, dilation, groups.
SHARED = {
    "64 filters": conv_case(3, 64, 64, (9, 11), (3, 3), (1, 1)),
    "uneven channels and filters": conv_case(2, 72, 136, (8, 8), (3, 3), (1, 1)),
    "many filters": conv_case(1, 32, 328, (10, 9), (3, 3), (1, 1)),
    "more filters": conv_case(1, 64, 520, (6, 7), (3, 3), (1, 1)),
    "192 filters": conv_case(2, 64, 192, (6, 12), (3, 3), (1, 1)),
    "more than a block of positions": conv_case(2, 64, 72, (19, 30), (3, 3), (1, 1)),
    "no pads": conv_case(2, 64, 64, (9, 8), (3, 3)),
    "2x3": conv_case(2, 64, 72, (7, 9), (2, 3), (1, 0)),
    "5x3": conv_case(2, 64, 64, (12, 11), (5, 3), (2, 1)),
    "filters beyond the image": conv_case(4, 64, 64, (3, 2), (5, 3), (2, 3)),
    "the largest dilation": conv_case(2, 64, 64, (11, 20), (3, 3), (1, 4), (1, 1), (1, 4)),
    "2x3x3 with groups": conv_case(2, 128, 64, (5, 6, 7), (2, 3, 3), (1, 1, 2), groups=2),
    "pads beyond the filter": conv_case(2, 40, 64, (5, 6), (3, 3), (4, 5)),
    "dilations": conv_case(2, 64, 64, (13, 17), (3, 3), (2, 3), (1, 1), (2, 3)),
    "groups": conv_case(2, 128, 192, (9, 8), (3, 3), (1, 1), groups=2),
    "narrow groups": conv_case(3, 96, 48, (9, 8), (3, 3), (1, 1), groups=3),
    "small images": conv_case(40, 64, 64, (4, 4), (3, 3), (1, 1)),
    "3x3x3, shared": conv_case(2, 64, 64, (4, 7, 9), (3, 3, 3), (1, 1, 1)),
    "3x3x3, uneven": conv_case(1, 40, 264, (6, 5, 8), (3, 3, 3), (1, 0, 1)),
    "3x1x3 with dilations": conv_case(2, 64, 136, (7, 6, 9), (3, 1, 3), (2, 0, 3), (1, 1, 1), (2, 1, 3)),
    "flat filters in a volume": conv_case(2, 64, 64, (3, 9, 8), (1, 3, 3), (0, 1, 1)),
}
VOLUMES = {
    "3x3x3": conv_case(2, 64, 64, (6, 8, 10), (3, 3, 3), (1, 1, 1)),
    "3x3x3, many filters": conv_case(2, 64, 328, (4, 9, 8), (3, 3, 3), (1, 1, 1)),
    "3x3x3, many pixels": conv_case(3, 32, 136, (16, 24, 40), (3, 3, 3), (1, 1, 1)),
    "64 filters, many pixels": conv_case(2, 64, 64, (3, 21, 34), (3, 3, 3), (1, 1, 1)),
    "odd volumes": conv_case(3, 72, 96, (5, 7, 9), (3, 3, 3), (1, 1, 1)),
    "uneven filters and pads": conv_case(2, 64, 72, (7, 6, 9), (2, 3, 1), (1, 0, 2)),
    "odd channels of volumes": conv_case(2, 17, 65, (5, 7, 6), (3, 3, 3), (1, 1, 1)),
    "3 channels": conv_case(2, 3, 64, (9, 14, 16), (3, 5, 5), (1, 2, 2), (1, 2, 2)),
    "to 3 channels": conv_case(2, 64, 3, (5, 8, 8), (3, 3, 3), (1, 1, 1)),
    "strides": conv_case(2, 64, 96, (6, 8, 10), (3, 3, 3), (1, 1, 1), (2, 2, 2)),
    "strides, few channels": conv_case(2, 40, 128, (8, 6, 10), (3, 3, 3), (1, 1, 1), (2, 2, 2)),
    "strides, many channels": conv_case(2, 128, 64, (4, 8, 6), (4, 4, 4), (1, 1, 1), (2, 2, 2)),
    "odd strides": conv_case(2, 40, 64, (7, 9, 8), (3, 3, 3), (1, 0, 1), (2, 1, 3)),
    "dilations": conv_case(2, 64, 64, (9, 8, 7), (3, 2, 3), (2, 1, 3), (1, 1, 1), (2, 1, 3)),
    "strides and dilations": conv_case(1, 32, 72, (11, 10, 9), (3, 3, 3), (2, 2, 2), (2, 2, 2), (3, 2, 1)),
    "groups of volumes": conv_case(2, 128, 64, (5, 6, 7), (3, 3, 3), (1, 1, 1), groups=4),
    "one plane": conv_case(2, 64, 64, (1, 9, 8), (3, 3, 3), (1, 1, 1)),
    "one plane beside its filter": conv_case(2, 64, 64, (1, 6, 7), (1, 3, 3), (1, 1, 1), (3, 1, 1)),
    "one row": conv_case(2, 64, 64, (9, 1, 8), (3, 1, 3), (1, 0, 1)),
    "flat filters": conv_case(2, 64, 64, (5, 9, 8), (1, 3, 3), (0, 1, 1)),
    "along the depth": conv_case(2, 64, 72, (8, 6, 5), (3, 1, 1), (1, 0, 0)),
    "1x1x1": conv_case(3, 64, 128, (4, 6, 8)),
    "1x1x1 with strides": conv_case(2, 64, 128, (6, 7, 8), (1, 1, 1), (0, 0, 0), (2, 2, 2)),
    "1x1x1 with strides of an even volume": conv_case(2, 64, 128, (6, 8, 10), (1, 1, 1), (0, 0, 0), (2, 2, 2)),
    "1x1x1 with a stride of the depth": conv_case(2, 64, 128, (6, 7, 8), (1, 1, 1), (0, 0, 0), (2, 1, 1)),
    "ten taps": conv_case(1, 8, 72, (12, 5, 11), (10, 1, 10), (4, 0, 5)),
}


# Where one copy of x in local memory serves many taps; and options that say how.
ROWS = {
    "32 channels": (conv_case(3, 32, 64, (19, 23), (3, 3), (1, 1)), {"CHANNELS": 32}),
    "32 channels to 32": (conv_case(2, 32, 32, (21, 31), (3, 3), (1, 1)), {"CHANNELS": 32, "BF": 32}),
    "16 channels": (conv_case(3, 16, 40, (18, 22), (5, 3), (2, 1)), {"CHANNELS": 16}),
    "24 channels": (conv_case(2, 24, 64, (20, 19), (3, 3), (1, 1)), {"CHANNELS": 32}),
    "48 channels": (conv_case(2, 48, 56, (20, 19), (3, 3), (1, 1)), {"CHANNELS": 64}),
    "volume": (conv_case(2, 32, 64, (6, 21, 23), (3, 3, 3), (1, 1, 1)), {"CHANNELS": 32, "KEPT": 1}),
    "volumes to 32": (conv_case(2, 32, 32, (5, 20, 22), (3, 3, 3), (1, 1, 1)), {"CHANNELS": 32, "BF": 32, "KEPT": 1}),
    "volumes of 16 channels": (conv_case(2, 16, 16, (6, 19, 21), (3, 3, 3), (1, 1, 1)), {"CHANNELS": 16, "KEPT": 1}),
    "volumes of 64 channels": (conv_case(1, 64, 32, (3, 41, 62), (3, 3, 3), (1, 1, 1)), {"CHANNELS": 64, "KEPT": 0}),
    "long rows of volumes": (conv_case(1, 32, 64, (3, 9, 110), (3, 3, 3), (1, 1, 1)), {"CHANNELS": 32}),
    "stride of the depth": (conv_case(1, 32, 40, (9, 21, 23), (2, 3, 3), (1, 0, 1), (3, 1, 1)), {"KEPT": 0}),
    "dilation of the depth":
        (conv_case(1, 16, 40, (9, 20, 36), (3, 2, 3), (2, 0, 1), (1, 1, 1), (2, 1, 1)), {"KEPT": 0}),
    "along the depth": (conv_case(2, 64, 64, (9, 15, 16), (3, 1, 1), (1, 0, 0)), {"CHANNELS": 64, "KEPT": 1}),
}
# Backward data of volumes whose phases of the stride are filters, and how many channels of each.
MERGED = {
    "3x3x3": (conv_case(2, 32, 64, (8, 12, 10), (3, 3, 3), (1, 1, 1), (2, 2, 2)), 32),
    "as large as its stride": (conv_case(1, 64, 128, (6, 8, 10), (2, 2, 2), (0, 0, 0), (2, 2, 2)), 64),
    "uneven strides": (conv_case(2, 24, 40, (6, 9, 8), (2, 3, 3), (0, 1, 1), (2, 3, 1)), 24),
    "a stride of the depth": (conv_case(1, 16, 72, (9, 7, 12), (5, 3, 3), (2, 1, 1), (3, 1, 1)), 16),
    "few channels": (conv_case(2, 8, 64, (6, 8, 20), (3, 3, 3), (1, 1, 1), (2, 2, 2)), 8),
    "no pads": (conv_case(1, 32, 64, (8, 10, 12), (3, 3, 3), (0, 0, 0), (2, 2, 2)), 32),
    "a pad wider than the filter": (conv_case(1, 32, 64, (6, 6, 8), (2, 2, 2), (2, 2, 2), (2, 2, 2)), 32),
}


@pytest.fixture
def gpu(handle):
    if SOLVERS[0].why_not(handle.device, problem_of(SHAPES["64 channels"], "float16")) is not None:
        pytest.skip("needs a Hopper GPU")
    return handle


@pytest.mark.parametrize("layout", ["channels last", "channels last, unaligned"])
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_pixels_shared_by_taps(gpu, host, rng, dtype, name, layout):
    shift = 3 if "unaligned" in layout else 0
    check_twice(gpu, Example(SHARED[name], dtype, "channels last", rng, host, shift), 2,
                registry.BY_NAME["NvTapsWrw"], rng)


@pytest.mark.parametrize("direction", range(2))
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("name", ROWS)
def test_taps_that_share_rows(gpu, host, rng, name, layout, direction):
    case, wanted = ROWS[name]
    if direction == 0:
        steps = SOLVERS[0].solution(gpu.device, problem_of(case, "float16", layout)).steps
        options = next(step.spec.options for step in steps if "hopper_rows" in step.spec.file).split()
        assert {f"{option}={value}" for option, value in wanted.items()} <= set(options)
    every_way(gpu, host, rng, case, layout, direction)


@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("name", MERGED)
def test_phases_of_the_stride_as_filters(gpu, host, rng, name, layout):
    case, channels = MERGED[name]
    steps = SOLVERS[1].solution(gpu.device, problem_of(case, "float16", layout, 1)).steps
    assert any(f"MERGED={channels}" in step.spec.options.split() for step in steps)
    every_way(gpu, host, rng, case, layout, 1)


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("layout", ["packed", "padded", "channels last"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(gpu, host, rng, name, layout, direction):
    every_way(gpu, host, rng, SHAPES[name], layout, direction)


def every_way(gpu, host, rng, case, layout, direction):
    """In float16 from any address, too."""
    solver = SOLVERS[direction]
    check_twice(gpu, Example(case, "float16", layout, rng, host, copied=True), direction, solver, rng)
    for dtype, shift in (("float16", 1), ("bfloat16", 0)):
        check(gpu, Example(case, dtype, layout, rng, host, shift=shift, copied=True), direction, solver, rng)


# Of channels last what is copied by tensor maps: x and w, or of backward weights x and dy.
MAPPED = {
    "3x3": conv_case(3, 64, 128, (9, 11), (3, 3), (1, 1)),
    "3x3 with a stride": conv_case(2, 128, 64, (12, 13), (3, 3), (1, 1), (2, 2)),
    "uneven everything": conv_case(2, 64, 128, (15, 14), (5, 2), (3, 0), (3, 2), (2, 3)),
    "1x1": conv_case(5, 192, 64, (7, 7), (1, 1)),
    "1x1 with a stride": conv_case(2, 64, 160, (9, 8), (1, 1), (0, 0), (2, 1)),
    "groups": conv_case(2, 256, 128, (6, 7), (3, 3), (1, 1), groups=2),
    "images smaller than a box": conv_case(40, 64, 64, (2, 3), (3, 3), (1, 1)),
    "pads beyond the filter": conv_case(1, 64, 192, (5, 6), (2, 2), (4, 5)),
    "one pixel an image": conv_case(70, 64, 128, (1, 1), (1, 1)),
    "volume": conv_case(2, 64, 128, (3, 4, 66), (3, 3, 3), (1, 1, 1)),
    "volume with strides": conv_case(1, 128, 128, (5, 6, 130), (3, 2, 3), (1, 0, 1), (2, 1, 2)),
}


def are_mapped(gpu, example, direction):
    steps = SOLVERS[direction].solution(gpu.device, example.problem(direction)).steps
    return [step for step in steps if step.unmapped is not None]


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("name", MAPPED)
def test_copies_by_tensor_maps(gpu, host, rng, name, direction):
    if not gpu.device.info.cuda >= 0:
        pytest.skip("OpenCL makes no tensor maps")
    case = MAPPED[name]
    example = Example(case, "float16", "channels last", rng, host, copied=True)
    if direction != 1 or max(case.stride) == 1:
        step, = are_mapped(gpu, example, direction)
        assert "TENSOR_MAPS=1" in step.spec.options.split()
        assert step.unmapped.options == step.spec.options.replace(" -D TENSOR_MAPS=1", "")
    check_twice(gpu, example, direction, SOLVERS[direction], rng)


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("tile", range(13))
def test_every_tile_by_tensor_maps(gpu, host, rng, tile, direction):
    if not gpu.device.info.cuda >= 0:
        pytest.skip("OpenCL makes no tensor maps")
    example = Example(conv_case(2, 128, 320, (9, 21), (1, 3), (0, 1)), "bfloat16", "channels last", rng, host)
    try:
        _wgmma.limit_choices(tile, tile if tile < 7 else -1)
        assert are_mapped(gpu, example, direction)
        check(gpu, example, direction, SOLVERS[direction], rng)
    finally:
        _wgmma.limit_choices()


PHASES = {  # of one size, in one launch
    "3x3": conv_case(2, 96, 64, (12, 14), (3, 3), (1, 1), (2, 2)),
    "uneven": conv_case(2, 160, 128, (15, 14), (5, 2), (3, 0), (3, 2), (2, 3)),
    "dilation": conv_case(2, 96, 64, (12, 9), (3, 3), (3, 1), (2, 3), (3, 2)),
    "4x4": conv_case(3, 128, 64, (6, 10), (4, 4), (1, 1), (2, 2)),
    "groups": conv_case(2, 256, 128, (8, 6), (3, 3), (1, 1), (2, 2), groups=2),
    "more tiles than groups": conv_case(2, 576, 64, (64, 64), (3, 3), (1, 1), (2, 2)),
}


@pytest.fixture(params=[False, True], ids=["phase by phase", "interleaved"])
def interleaved(request):
    if request.param:
        _wgmma.interleave_phases(0)
    yield request.param
    _wgmma.interleave_phases()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", PHASES)
def test_phases_of_the_stride_by_tensor_maps(gpu, host, rng, interleaved, name, turned):
    """Filters as they lie, of either order, from memory that a map takes and from other memory."""
    if not gpu.device.info.cuda >= 0:
        pytest.skip("OpenCL makes no tensor maps")
    for shift in (0, 1):
        example = Example(PHASES[name], "float16", "channels last", rng, host, shift, copied=True)
        if turned:
            lens = example.desc[1].lens
            example.desc[1] = TensorDescriptor("float16", lens, strides_of(lens, "packed"))
        step, = are_mapped(gpu, example, 1)
        assert "TENSOR_MAPS=1" in step.spec.options.split()
        assert ("INTERLEAVED=1" in step.spec.options.split()) == interleaved
        check(gpu, example, 1, SOLVERS[1], rng)


# Of filters above 64: pixels, filters.
TILES_OF_PHASES = {0: (128, 256), 1: (256, 128), 2: (128, 128), 3: (128, 64), 5: (192, 256), 6: (128, 192),
                   7: (192, 128)}


@pytest.mark.parametrize("tile", TILES_OF_PHASES)
def test_every_tile_of_phases(gpu, host, rng, interleaved, tile):
    if not gpu.device.info.cuda >= 0:
        pytest.skip("OpenCL makes no tensor maps")
    example = Example(conv_case(2, 320, 128, (8, 18), (3, 3), (1, 1), (2, 2)), "bfloat16", "channels last", rng, host)
    try:
        _wgmma.limit_choices(tile)
        step, = are_mapped(gpu, example, 1)
        pixels, filters = TILES_OF_PHASES[tile]
        assert {f"BP={pixels}", f"BF={filters}"} <= set(step.spec.options.split())
        check(gpu, example, 1, SOLVERS[1], rng)
    finally:
        _wgmma.limit_choices()


# Of contiguous pixels and 1x1 filters: images of multiples of 64 pixels, and of 8, where some blocks cross images.
BY_IMAGE = {
    "x and w": (1, conv_case(3, 128, 192, (8, 24), (1, 1))),
    "x and w of groups": (1, conv_case(5, 2 * 64, 2 * 192, (8, 8), (1, 1), groups=2)),
    "blocks": (2, conv_case(5, 128, 192, (8, 14), (1, 1))),
    "blocks of three images": (2, conv_case(9, 192, 128, (4, 6), (1, 1))),
    "blocks of groups": (2, conv_case(4, 2 * 128, 2 * 192, (16, 17), (1, 1), groups=2)),
}


@pytest.mark.parametrize("result", ["packed", "channels last"])
@pytest.mark.parametrize("direction", range(2))
@pytest.mark.parametrize("tile", range(-1, 13))
@pytest.mark.parametrize("name", BY_IMAGE)
def test_contiguous_pixels_by_tensor_maps(gpu, host, rng, name, tile, direction, result):
    """From memory that maps take and from other memory."""
    if not gpu.device.info.cuda >= 0:
        pytest.skip("OpenCL makes no tensor maps")
    way, case = BY_IMAGE[name]
    case = replace(case, n=case.n + tile + 1)  # each tile's problems have their workspace
    for shift in (0, 1):
        example = Example(case, "bfloat16" if tile % 2 else "float16", "packed", rng, host, shift, True)
        if result != "packed":
            desc = example.desc[OUTPUT[direction]]
            example.desc[OUTPUT[direction]] = TensorDescriptor(desc.dtype, desc.lens, strides_of(desc.lens, result))
        _wgmma.limit_choices(tile)
        try:
            step, = are_mapped(gpu, example, direction)
            assert f"TENSOR_MAPS={way}" in step.spec.options.split()
            check(gpu, example, direction, SOLVERS[direction], rng)
        finally:
            _wgmma.limit_choices()


@pytest.mark.parametrize("direction", range(2))
def test_blocks_of_few_filters_need_no_maps(gpu, host, rng, direction):
    """Where blocks of pixels cross images and the weights have few rows, maps were slower."""
    if not gpu.device.info.cuda >= 0:
        pytest.skip("OpenCL makes no tensor maps")
    c, k = (128, 64) if direction == 0 else (64, 128)
    for columns, maps in ((14, 0), (16, 1)):
        example = Example(conv_case(5, c, k, (8, columns), (1, 1)), "float16", "packed", rng, host, copied=True)
        assert len(are_mapped(gpu, example, direction)) == maps
        check(gpu, example, direction, SOLVERS[direction], rng)


@pytest.mark.parametrize("tile", range(-1, 7))
def test_weights_by_image(gpu, host, rng, tile):
    """1x1 of contiguous pixels: slices end with their image; from memory that a map takes and from other memory."""
    if not gpu.device.info.cuda >= 0:
        pytest.skip("OpenCL makes no tensor maps")
    for case in (conv_case(4 + tile, 65, 131, (16, 20), (1, 1), (0, 0)),  # each tile's problems have their workspace
                 conv_case(4 + tile, 2 * 24, 2 * 72, (8, 8), (1, 1), (0, 0), groups=2)):
        for shift in (0, 1):
            example = Example(case, "bfloat16" if tile % 2 else "float16", "packed", rng, host, shift, True)
            _wgmma.limit_choices(weights=tile)
            try:
                step, = are_mapped(gpu, example, 2)
                assert "BY_IMAGE=1" in step.spec.options.split()
                check(gpu, example, 2, SOLVERS[2], rng)
            finally:
                _wgmma.limit_choices()


@pytest.mark.parametrize("direction", range(3))
def test_memory_that_no_map_takes(gpu, host, rng, direction):
    """One plan, memory that begins at a multiple of 16 bytes and elsewhere, in turns, with numbers that change."""
    if not gpu.device.info.cuda >= 0:
        pytest.skip("OpenCL makes no tensor maps")
    examples = [Example(MAPPED["3x3"], "float16", "channels last", rng, host, shift, True) for shift in (0, 1)]
    assert are_mapped(gpu, examples[0], direction)
    for i, example in enumerate([*examples, *examples, *examples]):
        alpha, beta = (1.5, 0.5) if i // 3 else (-0.5, 2.0)
        old = example.random_output(direction, rng)
        got = example.run(gpu, direction, SOLVERS[direction], alpha, beta, old)
        verify(gpu, example, direction, got, SOLVERS[direction], alpha, beta, old.astype(np.float64))


def test_maps_are_made_anew_for_other_memory_alone(gpu, rng, tmp_path, monkeypatch):
    if not gpu.device.info.cuda >= 0:
        pytest.skip("OpenCL makes no tensor maps")
    log = tmp_path / "log"
    x, w, y = descriptors(MAPPED["3x3"], "float16", "channels last")
    run = plan(gpu, 0, (x, w, y), MAPPED["3x3"].conv(), SOLVERS[0].id)
    buffers = [gpu.zeros(desc) for desc in (x, w, y, x)]
    monkeypatch.setenv("STUB_LOG", str(log))
    made = []
    for inputs in (0, 0, 3, 3, 0):
        log.write_text("")
        run(buffers[inputs], *buffers[1:3])
        made.append(log.read_text().count("cuTensorMapEncode"))
    if not any(made):
        pytest.skip("a driver that writes no log of its calls")
    assert made == [2, 0, 1, 0, 1]


def test_what_adds_up_may_begin_early(gpu, tmp_path, monkeypatch):
    """Weights of few tiles are partial sums, which a second launch adds up; of many each is stored whole."""
    if not gpu.device.info.cuda >= 0:
        pytest.skip("OpenCL has no such launches")
    log = tmp_path / "log"
    seen = []
    for case in (conv_case(8, 64, 64, (16, 17), (1, 1)), conv_case(1, 2048, 1024, (2, 32), (3, 3), (1, 1))):
        x, w, y = descriptors(case, "float16", "channels last")
        run = plan(gpu, 2, (x, w, y), case.conv(), SOLVERS[2].id)
        buffers = gpu.zeros(y), gpu.zeros(x), gpu.zeros(w)
        monkeypatch.setenv("STUB_LOG", str(log))
        log.write_text("")
        run(*buffers)
        monkeypatch.delenv("STUB_LOG")
        seen.append([line for line in log.read_text().splitlines() if "cuLaunchKernelEx" in line])
    if not any(seen):
        pytest.skip("a driver that writes no log of its calls")
    assert [line.split()[1:4] for line in seen[0]] == [["1", "6", "1"]]
    assert not seen[1]


@pytest.mark.parametrize("direction", range(3))
def test_a_driver_that_makes_no_map(gpu, host, rng, direction):
    path = next((line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libcuda.so" in line),
                None)
    stub = None if path is None else ctypes.CDLL(path)
    if stub is None or not hasattr(stub, "stub_fail"):
        pytest.skip("a driver of which calls fail is only pretended")
    example = Example(MAPPED["3x3"], "float16", "channels last", rng, host, copied=True)
    assert are_mapped(gpu, example, direction)
    for name in ("Im2col", "Tiled", ""):
        stub.stub_fail(f"cuTensorMapEncode{name}".encode(), 1, 1)
        got = example.run(gpu, direction, SOLVERS[direction])
        verify(gpu, example, direction, got, SOLVERS[direction])


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("gap", [0, 1, 4, 8])
def test_gaps_between_the_filters_of_dw(gpu, host, rng, gap, shift):
    """Whole tiles go there 16 bytes at a time, if each filter begins at a multiple of them."""
    example = Example(conv_case(1, 64, 520, (6, 7), (3, 3), (1, 1)), "float16", "channels last", rng, host, shift, True)
    w = example.desc[1]
    example.desc[1] = TensorDescriptor("float16", w.lens, (w.strides[0] + gap, *w.strides[1:]))
    steps = SOLVERS[2].solution(gpu.device, example.problem(2)).steps
    assert any("DIRECT=1" in step.spec.options for step in steps) == (gap % 8 == 0)
    check(gpu, example, 2, SOLVERS[2], rng)


@pytest.mark.long
def test_whole_tiles_before_those_that_are_split(gpu, host, rng):
    """135 tiles of 40 slices on 132 compute units."""
    case, solver = conv_case(10, 432, 1232, (16, 16), (3, 3), (1, 1)), SOLVERS[2]
    steps = solver.solution(gpu.device, problem_of(case, "float16", "channels last", 2)).steps
    assert len(steps) == 2
    assert "WHOLE=1" in steps[0].spec.options
    check(gpu, Example(case, "float16", "channels last", rng, host, copied=True), 2, solver, rng)


def test_splits_that_go_through_planes_together(gpu, host, rng):
    """As for an x that is larger than the L2."""
    case = conv_case(2, 144, 64, (9, 12, 13), (3, 1, 1), (1, 0, 0))
    example = Example(case, "bfloat16", "channels last", rng, host, copied=True)

    def together():
        return "TOGETHER=1" in SOLVERS[2].solution(gpu.device, example.problem(2)).steps[0].spec.options

    assert not together()
    try:
        _wgmma.limit_read_again(0)
        assert together()
        check_twice(gpu, example, 2, SOLVERS[2], rng)
    finally:
        _wgmma.limit_read_again()


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("name", VOLUMES)
def test_every_volume(gpu, host, rng, name, layout, direction):
    every_way(gpu, host, rng, VOLUMES[name], layout, direction)


LOCAL_MEMORY = 226 * 1024  # of a work-group, which the driver does not report


def local_memory(file: str, options: str) -> int:
    """Return the bytes of local memory that the arrays of a kernel have."""
    d = {name: int(value) for name, _, value in (word.partition("=") for word in options.split()) if value.isdigit()}
    if file == "conv/nvidia/hopper.cl":
        x, w = d["BP"] * 128, d["BF"] * 128
        size = d["STAGES"] * (x + (0 if d["RESIDENT"] else w)) + d["RESIDENT"] * w + 8 * (2 * d["STAGES"] + 2)
        size += 0 if d["X_TRANSPOSED"] else d["BP"] * 8 * d.get("PRODUCERS", 1)
        return size + d["LOCAL_EPILOGUE"] * 128 * d["BP"] // d["WG_COLUMNS"]
    if file == "conv/nvidia/hopper_rows.cl":
        position, mirrored = (16, 2) if d.get("CHUNKS") else (2 * d["CHANNELS"], 1)
        if "UNIT" in d:
            size = d["STAGES"] * (d["UNIT"] * 64 * position + 16) + d["DEPTHS"] * (d["BF"] * 128 + 512 // d["CHANNELS"])
            return size + d["LOCAL_EPILOGUE"] * d["BP"] // 64 * 128 * d["BF"]
        size = d["PLANES"] * (d["BLOCKS"] + mirrored) * 64 * position + d["DEPTHS"] * d["BF"] * 128 + 16 * d["BLOCKS"]
        size += 0 if d["CHUNKS"] else d["DEPTHS"] * 512 // d["CHANNELS"]
        return size + d["LOCAL_EPILOGUE"] * 4 * 128 * d["BF"]
    return d["STAGES"] * (d["BM"] // 64 + -(-d["BN"] // 64)) * 64 * 128 + 16 * d["STAGES"]


@pytest.mark.parametrize("layout", ["packed", "channels last"])
def test_local_memory_is_within_what_there_is(cpu, pretend, layout):
    """Of a Hopper GPU that is only pretended; the kernels' arrays are what a driver refuses, not what it reports."""
    info = cpu.device.info
    handle = pretend(cpu.device.name, kind="gpu", runtime="nvidia", isa="sm90", compute_units=132, local_mem=49152,
                     extensions=info.extensions | {"cl_nv_device_attribute_query"})
    cases = [*SHAPES.values(), *VOLUMES.values()]
    for line in (Path(__file__).parent.parent / "bench" / "convolutions.txt").read_text().splitlines():
        if line.startswith(("resnet50", "googlenet", "grouped")):
            cases += [case_of_line(line.partition(" ")[2], n=n) for n in (1, 32, 256)]
    seen = set()
    for case in cases:
        for direction, (solver, dtype) in product(range(3), (("NvWgmma", "float16"), ("NvTf32", "float32"))):
            problem = problem_of(case, dtype, layout, direction)
            if dtype == "float32":
                problem = parse_find_key(find_key(problem) + b"_tf32")
            solver = registry.BY_NAME[solver + ("Fwd", "Bwd", "Wrw")[direction]]
            if solver.why_not(handle.device, problem) is None:
                seen |= {(step.spec.file, step.spec.options) for step in solver.solution(handle.device, problem).steps}
    sizes = {spec: local_memory(*spec) for spec in seen if "SM_90A=1" in spec[1]}
    assert len(sizes) > 20
    assert max(sizes.values()) > 200 * 1024
    for spec, size in sizes.items():
        assert size <= LOCAL_MEMORY, spec
        if "hopper.cl" in spec[0] and "RESIDENT=0" not in spec[1]:  # RING_LEAVES
            assert size + (1024 if "BP=64 " in spec[1] else 512) <= LOCAL_MEMORY, spec
        if "hopper_rows" in spec[0]:
            assert size + 512 <= LOCAL_MEMORY, spec
