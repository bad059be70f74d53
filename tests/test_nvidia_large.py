"""Tensors with more elements than the kernels' offsets can hold, which NVIDIA's solvers take in runs of images.

The limit is lowered here: no element lies beyond 2^31, but all else is as for tensors that large.  Inputs, bounds and
poison are solver_checks'.
"""

from __future__ import annotations

import math

import pytest
from cases_reader import ConvCase, conv_case
from solver_checks import Example, check, descriptors, problem_of

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.solvers.conv.nvidia import _common, _tf32_direct, _wgmma

# float8 has its own, in test_nvidia_float8.
SOLVERS = [solver for solver in registry.CONV
           if isinstance(solver, _common._NvSolver) and not solver.name.startswith("NvFloat8")]
CASES = [  # with types and layouts
    (conv_case(7, 64, 72, (16, 15), (3, 3), (1, 1)), "float32", "packed"),
    (conv_case(7, 64, 72, (16, 15), (3, 3), (1, 1)), "float16", "channels last"),
    (conv_case(7, 64, 64, (14, 16), (1, 1), (0, 0)), "bfloat16", "packed"),
    (conv_case(7, 64, 72, (16, 15), (3, 3), (1, 1), (2, 2)), "float16", "packed"),
    (conv_case(7, 64, 72, (16, 15), (3, 3), (1, 1), (2, 2)), "float32", "channels last"),
    (conv_case(6, 64, 64, (5, 9, 8), (3, 3, 3), (1, 1, 1)), "float32", "packed"),
    (conv_case(9, 3, 64, (31, 33), (7, 7), (3, 3), (2, 2)), "float32", "packed"),
    (conv_case(9, 3, 64, (31, 33), (7, 7), (3, 3), (2, 2)), "float16", "packed"),
    (conv_case(9, 64, 64, (12, 13), (3, 3), (1, 1), groups=16), "float16", "channels last"),
    (conv_case(9, 32, 32, (15, 18), (5, 5), (2, 2), groups=32), "float16", "channels last"),
    (conv_case(5, 16, 64, (32, 32), (4, 4), (0, 0), (4, 4)), "float32", "packed"),
    (conv_case(7, 64, 64, (16, 15), (3, 3), (1, 1)), "int8", "channels last"),
    (conv_case(7, 64, 72, (16, 15), (3, 3), (1, 1)), "float32, TF32", "packed"),
    (conv_case(7, 64, 72, (16, 15), (3, 3), (1, 1)), "float32, TF32", "channels last"),
    (conv_case(7, 64, 96, (16, 15), (3, 3), (1, 1)), "float32, TF32", "channels last"),
    (conv_case(7, 64, 96, (16, 16), (1, 1), (0, 0)), "float32, TF32", "packed"),
]


def elements(case: ConvCase) -> list[int]:
    return [math.prod(lens) for lens in case.all_lens]


def problem(solver, number: int) -> ConvProblem:
    case, dtype, layout = CASES[number]
    return ConvProblem(solver.direction, *descriptors(case, dtype.split(",")[0], layout), conv(number))


def conv(number: int) -> ConvolutionDescriptor:
    made = CASES[number][0].conv()
    if "TF32" in CASES[number][1]:
        miopyx.miopenSetConvolutionAttribute(made, "MATH_TYPE", miopyx.miopenMathDefault)
    return made


def takes(solver, device, number: int) -> bool:
    return (CASES[number][1] != "int8" or solver.direction == 0) and (
        solver.why_not(device, problem(solver, number)) is None)


@pytest.fixture
def limit():
    yield _common.limit_elements
    _common.limit_elements()


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_runs_of_images(handle, host, rng, limit, solver):
    numbers = [number for number in range(len(CASES)) if takes(solver, handle.device, number)]
    if not numbers and handle.device.info.runtime != "nvidia":
        pytest.skip("needs an NVIDIA GPU")
    done = 0
    for number in numbers:
        case, dtype, layout = CASES[number]
        at_once = len(solver.solution(handle.device, problem(solver, number)).steps)
        x, w, y = elements(case)
        for part in (2, 3, 4):  # copies count, too, and those of weights are no smaller for fewer images
            limit(max(w + 1, max(x, y) * part // 5))
            if solver.direction == 2 and "float32" not in dtype and solver.name != "NvWgmmaWrw":
                assert not takes(solver, handle.device, number), "16 bits would be rounded after each run"
                done += 1
                break
            if takes(solver, handle.device, number):
                steps = len(solver.solution(handle.device, problem(solver, number)).steps)
                # Weights in 16 bits are added up once.
                assert steps >= (2 * at_once if solver.name != "NvWgmmaWrw" else at_once + 1), case
                example = Example(case, dtype.split(",")[0], layout, rng, host)
                example.conv = conv(number)
                check(handle, example, solver.direction, solver, rng)
                done += 1
                break
        limit()
    assert done > 0


def test_one_image_that_is_too_large(handle, limit):
    refused = set()
    for solver in SOLVERS:
        case = conv_case(1, 64, 64, (16, 16), (3, 3), (1, 1))
        one = problem_of(case, "float32", "packed", solver.direction)
        if solver.why_not(handle.device, one) is None:
            limit(elements(case)[0])
            refused.add(solver.why_not(handle.device, one))
            limit()
    if not refused:
        pytest.skip("needs an NVIDIA GPU")
    assert refused == {"a tensor is too large for 32-bit offsets"}


def test_small_solvers_take_no_more_in_runs(h200):
    """What takes long by their guess is refused at any number of images, and the reason is the one that holds."""
    def why(name, images, channels, pixels):
        solver, case = registry.BY_NAME[name], conv_case(images, channels, 64, (pixels, pixels), (3, 3), (1, 1))
        return solver.why_not(h200.device, problem_of(case, "float32", "packed", solver.direction))

    found = [why("NvSmallFwd", images, 64, 32) for images in (5000, 10000, 16000, 17000, 20000, 40000)]
    assert found[0] is None
    assert found[-1] == "a large problem"
    assert found == sorted(found, key=lambda reason: reason is not None)
    for name in ("NvSmallFwd", "NvSmallBwd", "NvSmallWrw"):
        assert why(name, 352, 3, 224) is None  # a first layer, 2^30 elements


WANT = [  # what is taken in runs for its workspace
    ("NvPairsBwd", "float32", conv_case(256, 128, 128, (56, 56), (3, 3), (1, 1), (2, 2))),
    ("NvPairTapsWrw", "float32", conv_case(256, 64, 64, (56, 56), (3, 3), (1, 1))),
    ("NvPairWinogradWrw", "float32", conv_case(256, 128, 128, (28, 28), (3, 3), (1, 1))),
    ("NvWgmmaWrw", "float16", conv_case(256, 3, 64, (224, 224), (7, 7), (3, 3), (2, 2))),
    ("NvWgmmaWrw", "bfloat16", conv_case(4, 32, 64, (96, 96, 96), (3, 3, 3), (1, 1, 1))),
    ("NvWgmmaWrw", "float16", conv_case(512, 64, 64, (224, 224), (3, 3), (1, 1))),
]


@pytest.mark.parametrize(("name", "dtype", "case"), WANT)
def test_256_mb_where_runs_help(h200, name, dtype, case):
    """All at once these would take 392 MB to 6 GB; the last has tensors of more than 2^30 elements besides."""
    device, solver = h200.device, registry.BY_NAME[name]
    asked = problem_of(case, dtype, "packed", solver.direction)
    try:
        _common.limit_workspace(1 << 50)
        whole, steps = solver.workspace_size(device, asked), len(solver.solution(device, asked).steps)
    finally:
        _common.limit_workspace()
    assert whole > 256 << 20
    assert solver.workspace_size(device, asked) <= 256 << 20
    assert len(solver.solution(device, asked).steps) > steps


SAVING = [  # the same with small images and as small a limit
    ("NvPairsBwd", "float32", conv_case(7, 64, 72, (16, 15), (3, 3), (1, 1), (2, 2))),
    ("NvPairTapsWrw", "float32", conv_case(7, 64, 72, (16, 15), (3, 3), (1, 1))),
    ("NvPairWinogradWrw", "float32", conv_case(9, 64, 72, (26, 25), (3, 3), (1, 1))),
    ("NvWgmmaWrw", "float16", conv_case(7, 64, 72, (26, 25), (3, 3), (1, 1))),
    ("NvWgmmaWrw", "bfloat16", conv_case(9, 3, 40, (34, 35), (5, 5), (2, 2), (2, 2))),
    ("NvWgmmaWrw", "float16", conv_case(5, 64, 64, (56, 56), (1, 1), (0, 0), (2, 2))),  # pixels are gathered
    ("NvWgmmaWrw", "float16", conv_case(3, 20, 24, (9, 10, 11), (3, 3, 3), (1, 1, 1))),
]


@pytest.mark.parametrize("tile", [-1, 0, 7])
@pytest.mark.parametrize("apart", [0, 2])
def test_runs_of_images_that_are_apart(handle, host, rng, limit, apart, tile):
    """The last run is one image, which could be read by runs of pixels that others cannot."""
    solver = registry.BY_NAME["NvWgmmaWrw"]
    case = conv_case(3, 144, 256, (8, 8), (1, 1), (0, 0))
    example = Example(case, "float16", "packed", rng, host)
    lens, strides = example.desc[apart].lens, example.desc[apart].strides
    example.desc[apart] = TensorDescriptor("float16", lens, (strides[0] + 1, *strides[1:]))
    if solver.why_not(handle.device, example.problem(2)) is not None:
        pytest.skip("needs a Hopper GPU")
    x, w, y = elements(case)
    limit(max(w + 1, max(x, y) * 7 // 10 + 2))
    try:
        _wgmma.limit_choices(weights=tile)
        assert len(solver.solution(handle.device, example.problem(2)).steps) > 4
        check(handle, example, 2, solver, rng)
    finally:
        _wgmma.limit_choices()


@pytest.mark.parametrize("name", ["NvWgmmaTf32Fwd", "NvWgmmaTf32Bwd"])
def test_runs_whose_x_is_packed(handle, host, rng, name):
    solver = registry.BY_NAME[name]
    case = conv_case(7, 32, 32, (40, 38), (3, 3), (1, 1), (2, 2))
    example = Example(case, "float32", "packed", rng, host)
    miopyx.miopenSetConvolutionAttribute(example.conv, "MATH_TYPE", miopyx.miopenMathDefault)
    if solver.why_not(handle.device, example.problem(solver.direction)) is not None or handle.device.info.cuda < 0:
        pytest.skip("needs tensor maps")
    try:
        _tf32_direct.pack_floats(True)
        _common.limit_workspace(solver.workspace_size(handle.device, example.problem(solver.direction)) * 3 // 4)
        steps = solver.solution(handle.device, example.problem(solver.direction)).steps
        assert len([step for step in steps if step.spec.entry == "pack_floats"]) >= 2
        check(handle, example, solver.direction, solver, rng)
    finally:
        _tf32_direct.pack_floats()
        _common.limit_workspace()


@pytest.mark.parametrize(("name", "dtype", "case"), SAVING)
def test_runs_for_their_workspace(handle, host, rng, name, dtype, case):
    solver = registry.BY_NAME[name]
    asked = problem_of(case, dtype, "packed", solver.direction)
    if solver.why_not(handle.device, asked) is not None:
        pytest.skip("needs an NVIDIA GPU")
    whole, steps = (solver.workspace_size(handle.device, asked), len(solver.solution(handle.device, asked).steps))
    try:
        _common.limit_workspace(whole * 3 // 4)
        assert solver.workspace_size(handle.device, asked) <= whole * 3 // 4
        runs = len(solver.solution(handle.device, asked).steps)
        # In 16 bits, and by Winograd, what runs made is added up once.
        assert runs == 2 * steps if dtype == "float32" and not solver.mixes_tiles else runs > steps
        check(handle, Example(case, dtype, "packed", rng, host), solver.direction, solver, rng)
    finally:
        _common.limit_workspace()
