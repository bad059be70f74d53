"""Floats rounded to halves where a convolution allows TF32: every element against float64, and how near TF32 that is.

The solvers need wgmma; other devices skip their tests.  Inputs, bounds and poison are solver_checks'.
"""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from cases_reader import conv_case
from solver_checks import (
    OUTPUT,
    Example,
    check,
    check_twice,
    configurations_of,
    descriptors,
    plan,
    problem_of,
)

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.problem._key import find_key, parse_find_key, parse_perf_key, perf_key
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.solvers.conv.nvidia import _tf32_direct

ATTRIBUTE = miopyx.MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE
FAMILIES = ("NvTf32", "NvWgmmaTf32", "NvHalves", "NvMmaTf32", "NvWgmmaTf32Nhwc")
SHAPES = {  # images, channels, filters, pixels, filter, pad, stride, dilation, groups
    "odd images": conv_case(5, 64, 72, (7, 7), (3, 3), (1, 1)),
    "odd images, 1x1": conv_case(9, 128, 320, (7, 7), (1, 1), (0, 0)),
    "long sums of odd images": conv_case(3, 512, 64, (7, 7), (3, 3), (1, 1)),
    "odd channels": conv_case(3, 65, 67, (7, 7), (3, 3), (1, 1)),
    "17 channels": conv_case(1, 17, 65, (7, 9), (3, 3), (1, 1), (2, 2)),
    "images of 4 times an odd number": conv_case(3, 64, 264, (14, 14), (1, 1), (0, 0)),
    "the same, 3x3": conv_case(2, 72, 130, (14, 14), (3, 3), (1, 1)),
    "of 2 times": conv_case(2, 64, 96, (6, 5), (3, 3), (1, 1)),
    "1x1 with a stride": conv_case(2, 64, 128, (28, 28), (1, 1), (0, 0), (2, 2)),
    "uneven strides": conv_case(2, 72, 64, (15, 16), (1, 1), (0, 0), (3, 2)),
    "3x3 with a stride": conv_case(2, 64, 96, (12, 10), (3, 3), (1, 1), (2, 2)),
    "a stride to 64 channels of odd images": conv_case(2, 64, 96, (11, 9), (3, 3), (1, 1), (2, 2)),
    "a stride to many channels": conv_case(2, 136, 64, (8, 12), (3, 3), (1, 1), (2, 2)),
    "64 channels": conv_case(2, 64, 64, (16, 20), (3, 3), (1, 1)),
    "64 channels, odd images": conv_case(3, 64, 40, (9, 13), (3, 3), (1, 1)),
    "groups": conv_case(2, 128, 64, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1), 4),
    "groups, 1x1 with a stride": conv_case(2, 128, 64, (8, 12), (1, 1), (0, 0), (2, 2), (1, 1), 2),
    "dilation": conv_case(3, 96, 64, (6, 6), (3, 3), (2, 2), (1, 1), (2, 2)),
    "single pixels": conv_case(33, 64, 65, (1, 1), (1, 1), (0, 0)),
    "many pixels, 1x1": conv_case(131, 264, 256, (8, 9), (1, 1), (0, 0)),
}
VOLUMES = {  # of NvHalves
    "3x3x3": conv_case(2, 64, 72, (4, 8, 6), (3, 3, 3), (1, 1, 1)),
    "strides": conv_case(2, 65, 96, (6, 8, 10), (3, 3, 3), (1, 1, 1), (2, 2, 2)),
    "1x1x1": conv_case(3, 64, 128, (4, 6, 8), (1, 1, 1), (0, 0, 0)),
}
PLAIN = conv_case(3, 72, 80, (6, 8), (3, 3), (1, 1))
POINTWISE = conv_case(3, 72, 80, (6, 8), (1, 1), (0, 0))
# The same with multiples of 32.
ROUND = {PLAIN: conv_case(3, 64, 96, (6, 8), (3, 3), (1, 1)), POINTWISE: conv_case(3, 64, 96, (6, 8), (1, 1), (0, 0))}
LAYOUTS = ("packed", "channels last")
CHANNELS_LAST = ("NvMmaTf32Wrw", "NvWgmmaTf32NhwcWrw")


@pytest.fixture
def gpu(handle):
    example = allowed(Example(PLAIN, "float32", "packed", np.random.default_rng(0), handle))
    if registry.BY_NAME["NvTf32Fwd"].why_not(handle.device, example.problem(0)) is not None:
        pytest.skip("needs a Hopper GPU")
    return handle


@pytest.fixture(params=range(3))
def direction(request):
    return request.param


@pytest.fixture(params=FAMILIES)
def solver(request, direction):
    name = request.param + ("Fwd", "Bwd", "Wrw")[direction]
    if name not in registry.BY_NAME:
        pytest.skip("no such solver")
    if name in CHANNELS_LAST and request.node.callspec.params.get("layout", "channels last") != "channels last":
        pytest.skip("test_what_is_not_channels_last")
    if name == "NvWgmmaTf32NhwcWrw" and request.getfixturevalue("gpu").device.info.cuda < 0:
        pytest.skip("OpenCL makes no tensor maps")
    if name == "NvWgmmaTf32Wrw" and (request.node.callspec.params.get("layout", LAYOUTS[0]) == LAYOUTS[1]
                                     or request.getfixturevalue("gpu").device.info.cuda < 0):
        pytest.skip("test_what_is_not_by_image")
    return registry.BY_NAME[name]


def taken(solver, case):
    """PLAIN or POINTWISE, or what the solver takes of their kind."""
    if solver.name == "NvWgmmaTf32NhwcWrw":
        return ROUND[case]
    return POINTWISE if solver.name == "NvWgmmaTf32Wrw" else case


def plain(solver):
    return taken(solver, PLAIN)


def allowed(example: Example) -> Example:
    """The example with factors that may be rounded."""
    miopyx.miopenSetConvolutionAttribute(example.conv, ATTRIBUTE, miopyx.miopenMathDefault)
    return example


def multiples(case) -> int:
    """What divides a group's channels and filters."""
    return math.gcd(case.x_lens[1], case.w_lens[0]) // case.groups


def by_image(case, layout) -> bool:
    """Whether the case is 1x1 without strides, images of pixels that tensor maps copy."""
    return (layout == "packed" and math.prod((*case.w_lens[2:], *case.stride)) == 1 and max(case.pad) == 0
            and math.prod(case.x_lens[2:]) % 4 == 0)


def inputs(example: Example, direction: int) -> list[np.ndarray]:
    return [data for i, data in enumerate(example.data) if i != OUTPUT[direction]]


@pytest.mark.parametrize("layout", ["packed", "padded", "channels last"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(gpu, host, rng, solver, name, layout, direction):
    example = allowed(Example(SHAPES[name], "float32", layout, rng, host, copied=True))
    if solver.why_not(gpu.device, example.problem(direction)) == "gaps between the rows of a filter":
        assert name == "groups"
        pytest.skip("no such strides")
    if solver.name in CHANNELS_LAST and multiples(SHAPES[name]) % (4 if solver.name == "NvMmaTf32Wrw" else 32):
        pytest.skip("test_what_is_not_channels_last")
    if solver.name == "NvWgmmaTf32Wrw" and not by_image(SHAPES[name], layout):
        pytest.skip("test_what_is_not_by_image")
    check_twice(gpu, example, direction, solver, rng)
    check(gpu, allowed(Example(SHAPES[name], "float32", layout, rng, host, shift=1, copied=True)), direction, solver,
          rng)


TILED = {  # of NvWgmmaTf32: few filters and slices, so that w stays in local memory, and many; groups; phases
    "64 filters": conv_case(3, 40, 64, (12, 20), (1, 1), (0, 0)),
    "256 filters": conv_case(2, 64, 256, (12, 14), (1, 1), (0, 0)),
    "many filters, odd images": conv_case(5, 36, 300, (7, 9), (1, 1), (0, 0)),
    "3x3": conv_case(2, 36, 260, (7, 8), (3, 3), (1, 1)),
    "3x3 of odd channels": conv_case(2, 19, 130, (9, 8), (3, 3), (1, 1)),
    "a stride, equal phases": conv_case(2, 132, 200, (8, 10), (3, 3), (1, 1), (2, 2)),
    "uneven strides": conv_case(2, 132, 140, (9, 11), (3, 4), (1, 2), (2, 3)),
    "a stride and dilation": conv_case(2, 68, 96, (13, 12), (3, 3), (2, 2), (2, 2), (3, 3)),
    "groups": conv_case(2, 3 * 20, 3 * 132, (6, 8), (3, 3), (1, 1), (1, 1), (1, 1), 3),
    "three channels": conv_case(2, 3, 64, (23, 24), (7, 7), (3, 3), (2, 2)),
    "many slices": conv_case(1, 416, 128, (5, 6), (3, 3), (1, 1)),
    "many tiles": conv_case(2, 4, 60, (96, 92), (1, 1), (0, 0)),
}


@pytest.mark.parametrize("layout", ["packed", "padded", "channels last"])
@pytest.mark.parametrize("name", TILED)
def test_every_tile(gpu, host, rng, name, layout):
    tiles = set()
    for way, solver in enumerate((registry.BY_NAME["NvWgmmaTf32Fwd"], registry.BY_NAME["NvWgmmaTf32Bwd"])):
        example = allowed(Example(TILED[name], "float32", layout, rng, host, copied=True))
        for config in configurations_of(solver, gpu.device, example.problem(way)):
            check(gpu, example, way, solver, rng, config)
            tiles.add(config)
    assert len(tiles) >= 2


MAPPED = {  # with channels last: what is copied by tensor maps
    "3x3": conv_case(3, 32, 64, (9, 11), (3, 3), (1, 1)),
    "3x3 with a stride": conv_case(2, 64, 96, (12, 13), (3, 3), (1, 1), (2, 2)),
    "uneven everything": conv_case(2, 96, 128, (15, 14), (5, 2), (3, 0), (3, 2), (2, 3)),
    "5x4 with strides, equal phases": conv_case(2, 32, 64, (12, 15), (5, 4), (1, 3), (2, 3)),
    "dilation, equal phases": conv_case(2, 64, 64, (12, 9), (3, 3), (3, 1), (2, 3), (3, 2)),
    "1x1": conv_case(5, 160, 64, (7, 7), (1, 1), (0, 0)),
    "1x1 with a stride": conv_case(2, 32, 160, (9, 8), (1, 1), (0, 0), (2, 1)),
    "filters that no map orders": conv_case(2, 64, 72, (9, 8), (3, 2), (1, 1)),
    "groups": conv_case(2, 192, 128, (6, 7), (3, 3), (1, 1), groups=2),
    "images smaller than a box": conv_case(40, 64, 288, (2, 3), (3, 3), (1, 1)),
    "one pixel an image": conv_case(140, 64, 256, (1, 1), (1, 1), (0, 0)),
}
PACKED = {  # likewise, from other layouts: x is brought to channels last first
    "runs of four pixels, two tiles": conv_case(3, 64, 96, (8, 10), (3, 3), (1, 1)),
    "odd images, all filters": conv_case(5, 96, 288, (7, 7), (1, 1), (0, 0)),
    "one image": conv_case(1, 32, 48, (3, 5), (3, 3), (1, 1)),
    "groups and a stride": conv_case(2, 192, 128, (9, 8), (3, 3), (1, 1), (2, 2), groups=2),
}
UNMAPPED = {  # what no map reaches, or only some phases'
    "a stride of 9": conv_case(1, 96, 64, (20, 5), (2, 1), (0, 0), (9, 1)),
    "far taps": conv_case(1, 32, 32, (11, 19), (3, 11), (1, 150), (1, 2), (1, 30)),
}


BY_MAPS = ("NvWgmmaTf32Fwd", "NvWgmmaTf32Bwd", "NvMmaTf32Wrw")


@pytest.mark.parametrize("way", range(3))
@pytest.mark.parametrize("name", MAPPED)
def test_copies_by_tensor_maps(gpu, host, rng, name, way):
    """Each tile, from memory that a map takes and from other memory."""
    if gpu.device.info.cuda < 0:
        pytest.skip("OpenCL makes no tensor maps")
    case, solver = MAPPED[name], registry.BY_NAME[BY_MAPS[way]]
    example = allowed(Example(case, "float32", "channels last", rng, host, copied=True))
    summed = (case.x_lens[1], case.w_lens[0], math.gcd(case.x_lens[1], case.w_lens[0]))[way] // case.groups
    for config in configurations_of(solver, gpu.device, example.problem(way)):
        steps = solver.solution(gpu.device, example.problem(way), config).steps
        mapped = [step for step in steps if step.unmapped is not None]
        assert bool(mapped) == (summed % 32 == 0)
        assert all("TENSOR_MAPS=1" in step.spec.options.split() for step in mapped)
        if way == 0 and case.w_lens[0] % 16 == 0:  # filters as they lie
            assert len(steps) == 1
            assert solver.workspace_size(gpu.device, example.problem(way)) == 0
        check(gpu, example, way, solver, rng, config)
    check(gpu, allowed(Example(case, "float32", "channels last", rng, host, shift=1, copied=True)), way, solver, rng)


@pytest.fixture
def packing():
    """x is packed first wherever that can be."""
    _tf32_direct.pack_floats(True)
    yield
    _tf32_direct.pack_floats()


@pytest.mark.parametrize("way", range(2))
@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("name", sorted({*MAPPED, *PACKED} - {"one pixel an image"}))  # which is channels last
def test_x_that_is_packed_first(gpu, host, rng, packing, name, layout, way):
    """Each tile, from aligned memory and from other memory."""
    if gpu.device.info.cuda < 0:
        pytest.skip("OpenCL makes no tensor maps")
    case, solver = {**MAPPED, **PACKED}[name], registry.BY_NAME[BY_MAPS[way]]
    summed = (case.x_lens[1], case.w_lens[0])[way] // case.groups
    for shift in (0, 1):
        example = allowed(Example(case, "float32", layout, rng, host, shift=shift, copied=True))
        configs = configurations_of(solver, gpu.device, example.problem(way))
        for config in configs if shift == 0 else configs[:1]:
            first, *others = solver.solution(gpu.device, example.problem(way), config).steps
            assert (first.spec.entry == "pack_floats") == (summed % 32 == 0)
            assert first.spec.entry != "pack_floats" or any(step.unmapped is not None for step in others)
            check(gpu, example, way, solver, rng, config)


def test_what_is_packed_first(gpu):
    """Where bytes are few beside products; nothing where x is channels last, or packing takes longer than it spares."""
    if gpu.device.info.cuda < 0:
        pytest.skip("OpenCL makes no tensor maps")
    for case, layout, way, packed in (
            (conv_case(256, 512, 2048, (7, 7), (1, 1), (0, 0)), "packed", 0, True),
            (conv_case(256, 512, 512, (7, 7), (3, 3), (1, 1)), "packed", 1, True),
            (conv_case(256, 64, 256, (56, 56), (1, 1), (0, 0)), "packed", 0, False),
            (conv_case(256, 512, 512, (7, 7), (3, 3), (1, 1)), "channels last", 0, False),
            (conv_case(256, 48, 512, (7, 7), (3, 3), (1, 1)), "packed", 0, False)):
        solver = registry.BY_NAME[BY_MAPS[way]]
        conv = case.conv()
        miopyx.miopenSetConvolutionAttribute(conv, ATTRIBUTE, miopyx.miopenMathDefault)
        problem = ConvProblem(way, *descriptors(case, "float32", layout), conv)
        solution = solver.solution(gpu.device, problem)
        assert (solution.steps[0].spec.entry == "pack_floats") == packed, (case, way)
        assert solver.workspace_size(gpu.device, problem) == solution.workspace


@pytest.mark.parametrize("way", range(2))
@pytest.mark.parametrize("name", UNMAPPED)
def test_what_no_map_reaches(gpu, host, rng, name, way):
    solver = registry.BY_NAME[BY_MAPS[way]]
    example = allowed(Example(UNMAPPED[name], "float32", "channels last", rng, host, copied=True))
    steps = solver.solution(gpu.device, example.problem(way)).steps
    assert not any("W_IN_PLACE=1" in step.spec.options.split() for step in steps)
    assert len({"K_IN_ORDER=1" in step.spec.options.split() for step in steps}) == 1
    check(gpu, example, way, solver, rng)


TURNED = {  # of NvWgmmaTf32NhwcWrw: tiles with padding, slices that end inside or go on behind an image
    "3x3": conv_case(3, 64, 64, (9, 11), (3, 3), (1, 1)),
    "all tiles": conv_case(5, 256, 256, (7, 9), (1, 1), (0, 0)),
    "3x3 with padding": conv_case(9, 96, 160, (7, 9), (3, 3), (1, 1)),
    "3x3 with a stride": conv_case(2, 64, 96, (12, 13), (3, 3), (1, 1), (2, 2)),
    "1x1 with a stride": conv_case(2, 64, 288, (9, 8), (1, 1), (0, 0), (2, 1)),
    "dilation": conv_case(2, 32, 96, (15, 14), (5, 2), (3, 0), (3, 2), (2, 3)),
    "groups": conv_case(2, 3 * 32, 3 * 96, (6, 8), (3, 3), (1, 1), (1, 1), (1, 1), 3),
    "few slices": conv_case(1, 352, 128, (5, 4), (3, 3), (1, 1)),
    "many slices": conv_case(7, 32, 64, (61, 31), (1, 1), (0, 0)),
    "one pixel an image": conv_case(140, 64, 288, (1, 1), (1, 1), (0, 0)),
    "a row": conv_case(2, 32, 64, (100,), (5,), (2,)),
    "a volume": conv_case(2, 32, 96, (4, 5, 6), (3, 2, 3), (1, 1, 1), (2, 1, 2), (1, 2, 1)),
}


@pytest.mark.parametrize("name", TURNED)
def test_weights_that_are_turned(gpu, host, rng, name):
    """Each tile, from memory that a map takes and from other memory."""
    if gpu.device.info.cuda < 0:
        pytest.skip("OpenCL makes no tensor maps")
    solver = registry.BY_NAME["NvWgmmaTf32NhwcWrw"]
    for shift in (0, 1):
        example = allowed(Example(TURNED[name], "float32", "channels last", rng, host, shift, copied=True))
        configs = configurations_of(solver, gpu.device, example.problem(2))
        assert len(configs) == 8 or name != "all tiles"
        for config in configs if shift == 0 else configs[::3]:
            step, _ = solver.solution(gpu.device, example.problem(2), config).steps
            assert "TENSOR_MAPS=1" in step.spec.options.split()
            assert step.unmapped is not None
            check(gpu, example, 2, solver, rng, config)
    check_twice(gpu, example, 2, solver, rng)


def test_turning_meets_no_bank_twice():
    """Eight lanes that go together, as tf32_weights_turned.cl shares 32 pixels of 32 channels among them."""
    seen = set()
    for eight in range(8):
        lanes = [(c, (eight ^ c >> 2) & 7) for c in range(8)]
        seen.update(lanes)
        for i in range(4):
            rows = [q // 2 * 8 + q % 2 + 2 * i for _, q in lanes]
            assert len({c ^ row % 8 for (c, _), row in zip(lanes, rows, strict=True)}) == 8
            rows = [c // 4 * 16 + c % 4 * 2 + i // 2 * 8 + i % 2 for c, _ in lanes]
            assert len({q ^ row % 8 for (_, q), row in zip(lanes, rows, strict=True)}) == 8
    assert len(seen) == 64


@pytest.mark.parametrize(("units", "name"), [(1, "all tiles"), (3, "3x3 with padding"), (5, "a volume")])
def test_turned_slices_of_few_groups(gpu, pretend, device_name, host, rng, units, name):
    """Rings that go round several times, and groups that go on from tile to tile."""
    if gpu.device.info.cuda < 0:
        pytest.skip("OpenCL makes no tensor maps")
    few, solver, streamed = pretend(device_name, compute_units=units), registry.BY_NAME["NvWgmmaTf32NhwcWrw"], set()
    for shift in (0, 1):
        example = allowed(Example(TURNED[name], "float32", "channels last", rng, host, shift, copied=True))
        configs = configurations_of(solver, few.device, example.problem(2))
        for config in configs if shift == 0 else configs[::3]:
            step, _ = solver.solution(few.device, example.problem(2), config).steps
            if "PERSISTENT=1" in step.spec.options.split():
                streamed.add(config)
            check(few, example, 2, solver, rng, config)
    assert len(streamed) >= 4 or units != 3, streamed


VOLUMES_BY_MAPS = (conv_case(2, 64, 96, (3, 4, 9), (3, 2, 3), (1, 0, 1)),
                   conv_case(1, 32, 64, (5, 6, 20), (3, 1, 2), (1, 0, 2), (2, 1, 2)))


@pytest.mark.parametrize("case", VOLUMES_BY_MAPS, ids=["3x2x3", "strides"])
def test_weights_of_volumes_by_tensor_maps(gpu, host, rng, case):
    if gpu.device.info.cuda < 0:
        pytest.skip("OpenCL makes no tensor maps")
    solver = registry.BY_NAME["NvMmaTf32Wrw"]
    for shift in (0, 1):
        example = allowed(Example(case, "float32", "channels last", rng, host, shift=shift, copied=True))
        for config in configurations_of(solver, gpu.device, example.problem(2)):
            assert solver.solution(gpu.device, example.problem(2), config).steps[0].unmapped is not None
            check(gpu, example, 2, solver, rng, config)


BY_IMAGE = {  # of NvWgmmaTf32Wrw: slices that end with their image or inside, tiles with padding
    "whole slices": conv_case(2, 64, 64, (8, 16), (1, 1), (0, 0)),
    "odd channels": conv_case(3, 65, 131, (14, 14), (1, 1), (0, 0)),
    "all tiles": conv_case(5, 260, 264, (7, 12), (1, 1), (0, 0)),
    "four pixels": conv_case(37, 33, 300, (2, 2), (1, 1), (0, 0)),
    "groups": conv_case(3, 3 * 36, 3 * 72, (6, 6), (1, 1), (0, 0), groups=3),
    "many slices": conv_case(9, 8, 12, (28, 61), (1, 1), (0, 0)),
    "a row": conv_case(2, 40, 72, (100,), (1,), (0,)),
    "a volume": conv_case(1, 72, 40, (3, 5, 4), (1, 1, 1), (0, 0, 0)),
}


@pytest.mark.parametrize("name", BY_IMAGE)
def test_weights_by_image(gpu, host, rng, name):
    """Each tile, from memory that a map takes and from other memory, with room between images and without."""
    if gpu.device.info.cuda < 0:
        pytest.skip("OpenCL makes no tensor maps")
    solver = registry.BY_NAME["NvWgmmaTf32Wrw"]
    for apart, shift in ((0, 0), (8, 0), (0, 1)):
        example = allowed(Example(BY_IMAGE[name], "float32", "packed", rng, host, shift, copied=True))
        if apart:
            example.desc = [TensorDescriptor("float32", d.lens, (d.strides[0] + apart, *d.strides[1:]))
                            for d in example.desc]
        configs = configurations_of(solver, gpu.device, example.problem(2))
        assert len(configs) == 7 or name != "all tiles"
        for config in configs if shift == 0 else configs[::3]:
            step, _ = solver.solution(gpu.device, example.problem(2), config).steps
            assert step.unmapped is not None
            check(gpu, example, 2, solver, rng, config)


def test_weights_by_image_of_nan_and_inf(gpu, host, rng):
    """One of another group, channel or filter is not seen, and behind an image there are zeros."""
    if gpu.device.info.cuda < 0:
        pytest.skip("OpenCL makes no tensor maps")
    solver = registry.BY_NAME["NvWgmmaTf32Wrw"]
    case = conv_case(3, 2 * 24, 2 * 40, (6, 6), (1, 1), (0, 0), groups=2)
    for bits in (0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF):
        for which in (0, 1):
            example = allowed(Example(case, "float32", "packed", rng, host, copied=True))
            marked = inputs(example, 2)[which]
            at = tuple(int(rng.integers(n)) for n in marked.shape)
            marked[at] = np.uint32(bits).view(np.float32)
            got = example.run(gpu, 2, solver)
            touched = np.zeros(case.w_lens, bool)
            if which:
                touched[at[1]] = True
            else:
                touched[at[1] // 24 * 40:at[1] // 24 * 40 + 40, at[1] % 24] = True
            assert np.array_equal(~np.isfinite(got), touched)


def test_what_is_not_by_image(gpu, host, rng):
    solver = registry.BY_NAME["NvWgmmaTf32Wrw"]
    if gpu.device.info.cuda < 0:
        problem = allowed(Example(BY_IMAGE["a row"], "float32", "packed", rng, host)).problem(2)
        assert solver.why_not(gpu.device, problem) == "needs tensor maps"
        return
    for case, layout in (
            (PLAIN, "packed"), (POINTWISE, "channels last"), (SHAPES["1x1 with a stride"], "packed"),
            (SHAPES["odd images, 1x1"], "packed")):
        problem = allowed(Example(case, "float32", layout, rng, host)).problem(2)
        assert solver.why_not(gpu.device, problem) == "not 1x1 of contiguous pixels"


@pytest.mark.parametrize("way", range(2))
def test_maps_round_to_nearest_and_keep_inf_and_nan(gpu, host, rng, way):
    """Numbers between two of TF32's; infinities, and NaNs of any bits, which poison their pixels alone."""
    if gpu.device.info.cuda < 0:
        pytest.skip("OpenCL makes no tensor maps")
    case, solver = conv_case(2, 64, 64, (5, 6), (1, 1), (0, 0)), registry.BY_NAME["NvWgmmaTf32" + ("Fwd", "Bwd")[way]]
    example = allowed(Example(case, "float32", "channels last", rng, host))
    read = example.data[0 if way == 0 else 2]  # x, or dy
    bits = read.view(np.uint32)
    bits[...] = bits & ~np.uint32(0x1fff) | rng.integers(0xffe, 0x1003, read.shape, np.uint32)
    check(gpu, example, way, solver, rng)
    w = example.data[1].copy()
    example.data[1][...] = (np.arange(64) == 0).reshape((64, 1, 1, 1) if way else (64, 1, 1))
    even = (bits + np.uint32(0xfff) + (bits >> 13 & 1)) & ~np.uint32(0x1fff)
    assert np.array_equal(example.run(gpu, way, solver), np.broadcast_to(even.view(np.float32)[:, :1], read.shape))
    example.data[1][...] = w
    odd = {(0, 1, 2, 3): 0x7f800000, (1, 5, 0, 0): 0x7f800001, (1, 9, 1, 1): 0xffffffff, (1, 33, 4, 5): 0x7fffffff,
           (0, 63, 4, 4): 0xff800000, (1, 0, 3, 3): 0x7f800fff}
    for at, value in odd.items():
        bits[at] = value
    got = example.run(gpu, way, solver)
    wrong = np.zeros((2, 5, 6), bool)
    for n, _, h, w in odd:
        wrong[n, h, w] = True
    assert np.isfinite(got.transpose(0, 2, 3, 1)[~wrong]).all()
    for (n, c, h, w), value in odd.items():
        if value & 0x7fffff:
            assert np.isnan(got[n, :, h, w]).all(), hex(value)
        else:
            factor = (example.data[1][:, c] if way == 0 else example.data[1][c])[:, 0, 0]
            assert np.array_equal(got[n, :, h, w], np.inf * np.float32(factor if value < 2**31 else -factor))


WEIGHTS = {  # of NvMmaTf32Wrw: tiles with padding, taps, strides, groups, slices that end inside, one tile and many
    "64 filters": conv_case(3, 64, 64, (12, 20), (1, 1), (0, 0)),
    "all tiles": conv_case(2, 260, 264, (7, 9), (1, 1), (0, 0)),
    "many slices": conv_case(7, 8, 64, (61, 31), (1, 1), (0, 0)),
    "3x3": conv_case(3, 36, 132, (9, 8), (3, 3), (1, 1)),
    "dilation": conv_case(2, 36, 72, (9, 8), (3, 3), (2, 3), (1, 1), (2, 3)),
    "3x3 with a stride": conv_case(2, 132, 72, (9, 11), (3, 3), (1, 1), (2, 2)),
    "1x1 with a stride": conv_case(2, 68, 128, (9, 8), (1, 1), (0, 0), (2, 2)),
    "1x1 with pads": conv_case(2, 32, 64, (5, 6), (1, 1), (1, 2)),
    "groups": conv_case(2, 3 * 20, 3 * 132, (6, 8), (3, 3), (1, 1), (1, 1), (1, 1), 3),
    "four channels": conv_case(2, 4, 64, (23, 24), (7, 7), (3, 3), (2, 2)),
    "many tiles": conv_case(2, 260, 132, (5, 6), (3, 5), (1, 2)),
    "a volume": conv_case(2, 68, 72, (4, 5, 6), (3, 2, 3), (1, 1, 1), (2, 1, 2), (1, 2, 1)),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_every_tile_of_weights(gpu, host, rng, name):
    solver, tiles = registry.BY_NAME["NvMmaTf32Wrw"], set()
    for shift in (0, 1):
        example = allowed(Example(WEIGHTS[name], "float32", "channels last", rng, host, shift=shift, copied=True))
        for config in configurations_of(solver, gpu.device, example.problem(2)):
            check(gpu, example, 2, solver, rng, config)
            tiles.add(config)
    assert len(tiles) >= 6 if name == "all tiles" else len(tiles) >= 1


def random_weights(rng, by):
    """Return a convolution of one to three axes, whose channels and filters are multiples."""
    def one_of(*values):
        return values[int(rng.integers(len(values)))]

    axes, groups = one_of(1, 2, 2, 3), one_of(1, 1, 1, 2, 3)
    longest = {1: (1, 2, 3, 15), 2: (1, 1, 2, 3, 5, *((15,) if by == 4 else ())), 3: (1, 1, 2, 3)}[axes]
    filter, stride, dilation = ([one_of(*some) for _ in range(axes)] for some in (longest, (1, 1, 2, 3), (1, 1, 2, 3)))
    pad = [one_of(0, (f - 1) * d // 2, f * d, f) for f, d in zip(filter, dilation, strict=True)]
    lens = [max(1, (f - 1) * d + 1 - 2 * p) + int(rng.integers(0, 70 if axes == 1 else 12 if axes == 2 else 5))
            for f, d, p in zip(filter, dilation, pad, strict=True)]
    most = 80 if by == 4 else 96
    return conv_case(one_of(1, 2, 5, 33 if by == 4 else 9), groups * by * int(rng.integers(1, most // by)),
                     groups * by * int(rng.integers(1, 2 * most // by)),
                     tuple(lens), tuple(filter), tuple(pad), tuple(stride), tuple(dilation), groups)


def spread(lens):
    """Return strides of channels that lie last, with gaps of four behind the channels and behind an image."""
    strides, step = [0] * len(lens), 1
    for axis in (1, *range(len(lens) - 1, 1, -1), 0):
        strides[axis] = step
        step = step * lens[axis] + (4 if axis in (1, 2) else 0)
    return tuple(strides)


@pytest.mark.parametrize(("name", "number"), [(CHANNELS_LAST[i % 3 == 2], i) for i in range(36)])
def test_random_weights(gpu, host, rng, name, number):
    """By each tile, from any address; with huge and tiny numbers; with Inf and NaN of any bits in both inputs."""
    solver, by = registry.BY_NAME[name], 4 if name == "NvMmaTf32Wrw" else 32
    if by == 32 and gpu.device.info.cuda < 0:
        pytest.skip("OpenCL makes no tensor maps")
    why = "few products in a sum"
    while why in ("few products in a sum", "not channels last as tensor maps have it"):
        case = random_weights(rng, by)
        example = allowed(Example(case, "float32", "channels last", rng, host, number % 4, copied=True))
        why = solver.why_not(gpu.device, example.problem(2))
    if number % 3 == 0 and by == 4:
        example.desc = [TensorDescriptor("float32", d.lens, spread(d.lens)) for d in example.desc]
    configs = configurations_of(solver, gpu.device, example.problem(2))
    check(gpu, example, 2, solver, rng, configs[int(rng.integers(len(configs)))])
    for data, power in zip(inputs(example, 2), rng.integers(-50, 50, 2), strict=True):
        data *= np.float32(2.0 ** power)
    example = reread(example)
    check(gpu, example, 2, solver, rng)
    odd = (0x7F800000, 0xFF800000, 0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFF801FFF)
    for bits in odd if by == 4 else odd[number % 2::2]:
        for which in (0, 1):
            marked = reread(example)
            flat = inputs(marked, 2)[which].reshape(-1)
            flat[rng.integers(0, flat.size, 2)] = np.uint32(bits).view(np.float32)
            with np.errstate(invalid="ignore"):
                want = marked.truth(2)
            got = marked.run(gpu, 2, solver)
            assert np.isnan(got[np.isnan(want)]).all(), hex(bits)
            infinite = np.isinf(want)
            assert ((got == want) | np.isnan(got))[infinite].all(), hex(bits)


def reread(example: Example) -> Example:
    """A copy with data of its own."""
    other = copy.copy(example)
    other.data, other._found = [d.copy() for d in example.data], {}
    return other


def test_what_is_not_channels_last(gpu, host, rng):
    solver = registry.BY_NAME["NvMmaTf32Wrw"]
    for layout, case in (("packed", PLAIN), ("padded", PLAIN), ("channels last", SHAPES["odd channels"]),
                         ("channels last with gaps", PLAIN)):
        problem = allowed(Example(case, "float32", layout, rng, host)).problem(2)
        assert solver.why_not(gpu.device, problem) == "not channels last by fours", layout
    solver = registry.BY_NAME["NvWgmmaTf32NhwcWrw"]
    if gpu.device.info.cuda < 0:
        problem = allowed(Example(ROUND[PLAIN], "float32", "channels last", rng, host)).problem(2)
        assert solver.why_not(gpu.device, problem) == "needs tensor maps"
        return
    for layout, case, why in (
            ("packed", ROUND[PLAIN], "not channels last as tensor maps have it"),
            ("channels last with gaps", ROUND[PLAIN], "not channels last as tensor maps have it"),
            ("channels last", UNMAPPED["a stride of 9"], "not channels last as tensor maps have it"),
            ("channels last", UNMAPPED["far taps"], "not channels last as tensor maps have it"),
            ("channels last", PLAIN, "channels or filters of a group are no multiples of 32")):
        problem = allowed(Example(case, "float32", layout, rng, host)).problem(2)
        assert solver.why_not(gpu.device, problem) == why, (layout, case)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", VOLUMES)
def test_every_volume(gpu, host, rng, solver, name, layout, direction):
    example = allowed(Example(VOLUMES[name], "float32", layout, rng, host, copied=True))
    if solver.name in CHANNELS_LAST and multiples(VOLUMES[name]) % (4 if solver.name == "NvMmaTf32Wrw" else 32):
        pytest.skip("test_what_is_not_channels_last")
    if solver.name == "NvWgmmaTf32Wrw" and name != "1x1x1":
        assert solver.why_not(gpu.device, example.problem(direction)) == "not 1x1 of contiguous pixels"
    elif not solver.name.startswith(("NvHalves", *CHANNELS_LAST, "NvWgmmaTf32Wrw")):
        assert solver.why_not(gpu.device, example.problem(direction)) == "three spatial axes"
    else:
        check_twice(gpu, example, direction, solver, rng)


def nearest(values: np.ndarray) -> np.ndarray:
    """Round to TF32, 11 bits, halves away from zero, as cvt.rna.tf32.f32 does."""
    return ((values.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def norms(example: Example, direction: int, got: np.ndarray) -> tuple[float, float]:
    """The norm of the error beside that of the result, and what rounding to TF32 alone makes of it."""
    want = example.truth(direction)
    rounded = Example(example.case, "float32", example.layout, np.random.default_rng(0), example.host)
    rounded.data = [nearest(data) for data in example.data]
    size = np.linalg.norm(want)
    return np.linalg.norm(got - want) / size, np.linalg.norm(rounded.truth(direction) - want) / size


@pytest.mark.parametrize("layout", LAYOUTS)
def test_errors_are_those_of_tf32(gpu, host, rng, solver, layout, direction):
    example = allowed(Example(plain(solver), "float32", layout, rng, host))
    ours, theirs = norms(example, direction, example.run(gpu, direction, solver))
    assert 1e-5 < theirs < 5e-4
    assert ours <= 1.1 * theirs


def scaled(example: Example, direction: int, rng: np.random.Generator, most: int) -> None:
    """Give each image and each filter, or each channel of backward weights, a size of its own; 2^-most to 2^most."""
    x, w, y = example.data
    for data, axis in ((x, 0), (w, 0)) if direction == 0 else ((y, 0), (w, 1)) if direction == 1 else ((x, 1), (y, 1)):
        shape = [data.shape[axis] if i == axis else 1 for i in range(4)]
        data *= 2.0 ** rng.integers(-most, most + 1, shape).astype(np.float32)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("most", [20, 60])
def test_images_and_channels_of_any_size(gpu, host, rng, solver, most, layout, direction):
    for case in (plain(solver), taken(solver, POINTWISE)):
        example = allowed(Example(case, "float32", layout, rng, host))
        scaled(example, direction, rng, most)
        check(gpu, example, direction, solver, rng)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sizes_whose_product_alone_fits(gpu, host, rng, solver, layout, direction):
    """What is multiplied has 2^110 and 2^-110, whichever comes first."""
    for size in (-110, 110):
        example = allowed(Example(plain(solver), "float32", layout, rng, host))
        for data, exponent in zip(inputs(example, direction), (size, -size), strict=True):
            data *= np.float32(2.0**exponent)
        check(gpu, example, direction, solver, rng)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("which", [0, 1])
def test_a_large_number_that_samples_miss(gpu, host, rng, solver, which, layout, direction):
    """What shares its scale has an error relative to it, all else none of it."""
    for size in (2.0**6, 2.0**10, 2.0**40, 2.0**100):
        like = plain(solver)
        case = conv_case(3, like.x_lens[1], like.w_lens[0], (30, 32), like.w_lens[2:], like.pad)
        example = allowed(Example(case, "float32", layout, rng, host))
        first, second = inputs(example, direction)[::1 if direction == 0 else -1]
        data, other = (first, second) if which == 0 else (second, first)
        place = np.unravel_index(rng.integers(data.size), data.shape)
        data[place] = size
        got, want = example.run(gpu, direction, solver), example.truth(direction)
        limit = (solver.error_bound(gpu.device, example.problem(direction))
                 * example.truth(direction, absolute=True))
        # Scales are of images and of filters, or channels, which are the output's first and second axis.
        row = place[((0, 0), (0, 1), (1, 1))[direction][which]]
        limit[(slice(None),) * which + (row,)] += 2.0**-32 * size * example.terms[direction] * np.abs(other).max()
        assert (np.abs(got - want) <= limit).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_zeros_and_the_smallest_numbers(gpu, host, rng, solver, layout, direction):
    for which in (0, 1):
        for size in (0.0, 2.0**-140 if solver.name.startswith("NvTf32") else 2.0**-90):
            example = allowed(Example(plain(solver), "float32", layout, rng, host))
            inputs(example, direction)[which][:] *= np.float32(size)
            check(gpu, example, direction, solver, rng)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", [PLAIN, POINTWISE], ids=["3x3", "1x1"])
def test_inf_and_nan(gpu, host, rng, solver, case, layout, direction):
    """They reach what depends on them; Inf beside padding makes NaN of more, but by NvHalves.

    The last NaN is the one that NVIDIA's arithmetic gives, which rounding must not carry over into a zero.
    """
    if case is PLAIN and plain(solver) is POINTWISE:
        pytest.skip("test_what_is_not_by_image")
    for value in (np.inf, -np.inf, np.nan, np.uint32(0x7FFFFFFF).view(np.float32)):
        for which in (0, 1):
            example = allowed(Example(taken(solver, case), "float32", layout, rng, host))
            flat = inputs(example, direction)[which].reshape(-1)
            flat[rng.integers(0, flat.size, 2)] = value
            with np.errstate(invalid="ignore"):
                want = example.truth(direction)
            got = example.run(gpu, direction, solver)
            assert not np.isfinite(got[~np.isfinite(want)]).any()
            if case is POINTWISE or solver.name.startswith("NvHalves"):
                np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
                np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
            finite = np.isfinite(got)
            assert finite.any()
            assert np.isfinite(want[finite]).all()
            np.testing.assert_allclose(got[finite], want[finite], atol=0.1 + 1e-3 * np.abs(want[finite]).max())


# Of any device


def test_the_attribute():
    conv = ConvolutionDescriptor((1, 1))
    assert miopyx.miopenGetConvolutionAttribute(conv, ATTRIBUTE) == miopyx.miopenMathPedantic
    same = ConvolutionDescriptor((1, 1))
    miopyx.miopenSetConvolutionAttribute(conv, "MATH_TYPE", miopyx.miopenMathDefault)
    assert miopyx.miopenGetConvolutionAttribute(conv, ATTRIBUTE) == miopyx.miopenMathDefault
    assert conv != same
    again = pickle.loads(pickle.dumps(conv))
    assert again == conv
    assert hash(again) == hash(conv)
    assert miopyx.miopenGetConvolutionAttribute(again, ATTRIBUTE) == miopyx.miopenMathDefault
    for value in (-1, 2):
        with pytest.raises(miopyx.BadParmError):
            miopyx.miopenSetConvolutionAttribute(conv, ATTRIBUTE, value)
    miopyx.miopenSetConvolutionAttribute(conv, ATTRIBUTE, miopyx.miopenMathPedantic)
    assert conv == same


def test_keys_differ(direction):
    strict = problem_of(PLAIN, "float32", direction=direction)
    conv = PLAIN.conv()
    miopyx.miopenSetConvolutionAttribute(conv, ATTRIBUTE, miopyx.miopenMathDefault)
    free = ConvProblem(direction, *descriptors(PLAIN, "float32"), conv)
    assert b"tf32" not in find_key(strict)
    assert find_key(free) == find_key(strict) + b"_tf32"
    assert perf_key(free) == perf_key(strict) + b"_tf32"
    assert parse_find_key(find_key(free)).key == free.key != strict.key
    assert parse_perf_key(perf_key(free)).key == free.key
    assert find_key(ConvProblem(direction, *descriptors(PLAIN, "float16"), conv)) == find_key(
        problem_of(PLAIN, "float16", direction=direction))


def test_strict_problems_are_refused(gpu, solver, direction):
    why = solver.why_not(gpu.device, problem_of(PLAIN, direction=direction))
    assert why == "factors are not to be rounded"


def test_bounds_are_those_of_two_rounded_factors(gpu, host, rng, solver, direction):
    bound = solver.error_bound(
        gpu.device, allowed(Example(PLAIN, "float32", "packed", rng, host)).problem(direction))
    assert 2.0**-10 < bound < 1.2 * 2.0**-10
    assert math.isfinite(bound)


def test_immediate_mode_takes_them_where_nothing_was_measured(gpu):
    """Of few pixels and many filters Winograd's weights are the faster ones, with exact factors; not of these."""
    case = conv_case(8, 320, 320, (64, 64), (3, 3), (1, 1))
    conv = case.conv()
    for value, names in ((miopyx.miopenMathDefault, FAMILIES), (miopyx.miopenMathPedantic, ("NvPair",))):
        miopyx.miopenSetConvolutionAttribute(conv, ATTRIBUTE, value)
        for direction in range(3):
            taken = plan(gpu, direction, descriptors(case, "float32"), conv).solver.name
            assert taken.startswith(names), (direction, taken)


def test_a_handle_allows_it_whatever_descriptors_say(gpu):
    x, w, y = descriptors(PLAIN, "float32")
    conv = PLAIN.conv()
    rounding = {registry.solver_id(name) for family in FAMILIES if (name := f"{family}Fwd") in registry.BY_NAME}

    def solutions():
        return {s.solution_id for s in miopyx.miopenConvolutionForwardGetSolution(gpu, w, x, conv, y, 99)}

    assert gpu.math_type == miopyx.miopenMathPedantic
    strict, before = solutions(), gpu.convolution_forward(x, w, conv, y)
    assert strict
    assert not strict & rounding
    gpu.math_type = miopyx.miopenMathDefault
    try:
        assert gpu.math_type == miopyx.miopenMathDefault
        assert solutions() & rounding
        taken = gpu.convolution_forward(x, w, conv, y, solution_id=next(iter(solutions() & rounding)))
        for value in (-1, 2, "x"):
            with pytest.raises(miopyx.BadParmError):
                gpu.math_type = value
    finally:
        gpu.math_type = miopyx.miopenMathPedantic
    assert solutions() == strict
    # Plans stay what they were made for.
    out = gpu.empty(y)
    for made in (before, taken):
        made(gpu.upload(np.ones(PLAIN.x_lens, np.float32)), gpu.upload(np.ones(PLAIN.w_lens, np.float32)), out)


def test_where_rounding_gains_nothing_the_attribute_changes_nothing(cpu):
    """Else strict records would be missed."""
    x, w, y = descriptors(PLAIN, "float32")
    buffers = [cpu.zeros(desc) for desc in (x, w, y)]
    conv, before = PLAIN.conv(), dict(cpu.found)
    for value in (miopyx.miopenMathPedantic, miopyx.miopenMathDefault):
        miopyx.miopenSetConvolutionAttribute(conv, ATTRIBUTE, value)
        size = miopyx.miopenConvolutionForwardGetWorkSpaceSize(cpu, w, x, conv, y)
        miopyx.miopenFindConvolutionForwardAlgorithm(cpu, x, buffers[0], w, buffers[1], conv, y, buffers[2], 1,
                                                     cpu.upload(np.zeros(size + 1, np.uint8)), size, False)
    assert len(cpu.found) == len(before) + 1
