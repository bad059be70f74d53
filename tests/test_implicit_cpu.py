"""Implicit GEMM on CPU devices: what its packing, tiles and phases make special, every element against the host path.

Inputs, poison, guards and bounds are those of solver_checks.py; test_solvers walks over the common cases too.
"""

from __future__ import annotations

import numpy as np
import pytest
from cases_reader import ConvCase, conv_case
from solver_checks import Example, check, plan

import miopyx
from miopyx import TensorDescriptor
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

NAMES = ("CpuImplicitGemmFwd", "CpuImplicitGemmBwd")
TYPES = ("float32", "float16", "bfloat16", "float64", "int8")


def conv(text: str, *args, **more) -> ConvCase:
    return conv_case(*args, **more, text=text)


# Forward, a float32 filter is taken in place where groups of rows are full, which is 8 rows here.
CASES = [
    conv("1x1, images that share tiles", 5, 17, 33, (7, 7)),
    conv("1x1, a plane of one pixel", 19, 65, 9, (1, 1)),
    conv("1x1, rows in several chunks", 1, 40, 600, (9, 7)),
    conv("1x1, channels in several blocks", 2, 530, 5, (6, 9)),
    conv("1x1, channels in several blocks, filters in place", 2, 530, 16, (6, 9)),
    conv("1x1, stride 2", 3, 20, 12, (14, 13), stride=(2, 2)),
    conv("3x3", 2, 65, 17, (14, 14), (3, 3), (1, 1)),
    conv("3x3, filters in place", 2, 65, 24, (14, 14), (3, 3), (1, 1)),
    conv("3x3, stride 2, even", 2, 33, 20, (14, 14), (3, 3), (1, 1), (2, 2)),
    conv("3x3, stride 2, odd", 3, 5, 8, (13, 9), (3, 3), (1, 1), (2, 2)),
    conv("3x3, stride 2 along the width alone", 2, 6, 7, (5, 31), (3, 3), (1, 0), (1, 2)),
    conv("3x3, stride 2 along the height alone", 2, 6, 7, (31, 5), (3, 3), (0, 1), (2, 1)),
    conv("a width of one, stride 2", 2, 6, 7, (9, 1), (3, 1), (1, 0), (2, 2)),
    conv("strides beyond the filter", 2, 3, 9, (20, 23), (2, 3), (0, 1), (3, 5)),
    conv("strides beyond the image", 2, 3, 9, (4, 3), (2, 2), (0, 0), (7, 6)),
    conv("stride 3, where a row's last element is of the first phase", 2, 5, 9, (4, 7), (3, 3), (1, 1), (1, 3)),
    conv("stride 2, dilation 2: phases without taps", 2, 4, 9, (15, 16), (3, 3), (2, 2), (2, 2), (2, 2)),
    conv("stride 4, dilation 6", 1, 4, 9, (29, 31), (3, 3), (6, 5), (4, 4), (6, 6)),
    conv("7x7 of 3 channels", 2, 3, 24, (30, 29), (7, 7), (3, 3), (2, 2)),
    conv("1x7", 2, 12, 10, (9, 17), (1, 7), (0, 3)),
    conv("7x1", 2, 12, 10, (17, 9), (7, 1), (3, 0)),
    conv("more taps than a table holds", 1, 2, 3, (5, 40), (2, 19), (1, 9)),
    conv("more taps than a block", 1, 2, 3, (33, 34), (17, 18), (3, 3)),
    conv("more taps than a block, filters in place", 1, 2, 8, (33, 34), (17, 18), (3, 3)),
    conv("pads beyond the filter", 2, 3, 5, (4, 6), (3, 3), (7, 9)),
    conv("groups", 2, 15, 21, (9, 8), (3, 3), (1, 1), (1, 1), (2, 2), 3),
    conv("one channel a group", 2, 6, 6, (9, 8), (3, 3), (1, 1), (2, 2), (1, 1), 6),
    conv("1-D", 3, 7, 12, (50,), (5,), (2,), (2,), (3,)),
    conv("3-D", 1, 5, 9, (5, 6, 7), (3, 3, 3), (1, 1, 1)),
    conv("3-D, stride 2", 2, 5, 9, (5, 6, 7), (3, 2, 3), (1, 0, 1), (2, 2, 2)),
]
NAMED = {case.text: case for case in CASES}


def check_case(handle, host, rng, case: ConvCase, dtype: str) -> None:
    example = Example(case, dtype, "packed", rng, host)
    for direction in (0,) if dtype == "int8" else (0, 1):
        check(handle, example, direction, registry.BY_NAME[NAMES[direction]], rng)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text.replace(" ", "-"))
def test_case(cpu, host, rng, case):
    """In float32, and a few in another type: each has programs of its own, which take longer than the cases."""
    check_case(cpu, host, rng, case, "float32")
    if rng.integers(6) == 0:
        check_case(cpu, host, rng, case, str(rng.choice(TYPES[1:])))


def test_random_problems(cpu, host, rng):
    for _ in range(30):
        axes, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
        lens = rng.integers(1, (60, 20, 8)[axes - 1], axes)
        taps, stride = rng.choice([1, 2, 3, 5], axes), rng.choice([1, 1, 2, 3], axes)
        dilation, pad = rng.choice([1, 1, 2], axes), rng.choice([0, 1, 2, 6], axes)
        if (lens + 2 * pad < dilation * (taps - 1) + 1).any():
            continue
        case = conv("random", int(rng.choice([1, 2, 7])), groups * int(rng.integers(1, 40)),
                    groups * int(rng.integers(1, 40)), *(tuple(int(v) for v in a) for a in (
                        lens, taps, pad, stride, dilation)), groups)
        print(case)
        check_case(cpu, host, rng, case, "float32")


@pytest.mark.parametrize("isa", ["avx2", "sse2"])
def test_narrower_vectors(cpu, pretend, host, rng, isa):
    """The tiles of CPUs with other registers."""
    handle = pretend(cpu.device.name, isa=isa)
    assert handle.device.vector_bytes == {"avx2": 32, "sse2": 16}[isa]
    for case in (NAMED["3x3"], NAMED["7x7 of 3 channels"], NAMED["1x7"]):
        check_case(handle, host, rng, case, "float32")


@pytest.mark.parametrize("direction", range(2))
def test_inf_and_nan_reach_what_depends_on_them(cpu, host, rng, direction):
    for case in (NAMED["3x3"], NAMED["3x3, stride 2, even"], NAMED["3x3, filters in place"], CASES[0]):
        example = Example(case, "float32", "packed", rng, host)
        values = example.data[direction * 2].reshape(-1)
        values[[0, -1, rng.integers(values.size)]] = rng.permutation([np.inf, np.nan, -np.inf])
        with np.errstate(invalid="ignore"):
            want = example.truth(direction)
        got = example.run(cpu, direction, registry.BY_NAME[NAMES[direction]])
        finite = np.isfinite(want)
        assert not finite.all()
        np.testing.assert_array_equal(np.isfinite(got), finite)
        np.testing.assert_allclose(got[finite], want[finite], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_results_that_pass_the_caches(opencl_name, setting, host, rng, dtype):
    """The device is told that its caches hold nothing; planes that keep vectors aligned and others."""
    setting(MIOPYX_STREAM_BYTES=0)
    with miopyx.Handle(opencl_name) as handle:
        if not handle.device.is_cpu:
            pytest.skip("needs a CPU device")
        for case in (conv("aligned", 2, 9, 24, (16, 16), (3, 3), (1, 1)), NAMED["3x3"], NAMED["1x7"]):
            check_case(handle, host, rng, case, dtype)


def test_filters_in_place_need_no_workspace(cpu, rng):
    def needed(k, direction=0):
        desc = [TensorDescriptor("float32", s) for s in ((2, 32, 5, 5), (k, 32, 1, 1), (2, k, 5, 5))]
        problem = ConvProblem(direction, *desc, miopyx.ConvolutionDescriptor((0, 0)))
        return registry.BY_NAME[NAMES[direction]].workspace_size(cpu.device, problem)

    assert needed(64) == 0
    assert needed(65) >= 4 * 65 * 32
    assert needed(64, 1) == 4 * 64 * 32


def test_the_same_bits_every_time(cpu, rng):
    """Also with another number of images, which moves the tiles."""
    case, results = NAMED["3x3"], []
    x = rng.standard_normal((7, *case.x_lens[1:])).astype("f4")
    w = rng.standard_normal(case.w_lens).astype("f4")
    for n in (7, 7, 3):
        lens = ((n, *case.x_lens[1:]), case.w_lens, (n, case.k, *case.lens))
        y = np.full(lens[2], np.nan, "f4")
        plan(cpu, 0, [TensorDescriptor("float32", s) for s in lens], miopyx.ConvolutionDescriptor(
            case.pad, case.stride, case.dilation), registry.BY_NAME[NAMES[0]].id)(x[:n].copy(), w, y)
        cpu.finish()
        results.append(y)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0][:3], results[2])


def test_what_is_refused(cpu, handles):
    def why(strides=(200, 25, 5, 1), dev=cpu.device):
        image = TensorDescriptor("float32", (2, 8, 5, 5), strides)
        desc = (image, TensorDescriptor("float32", (8, 8, 1, 1)), image)
        return registry.BY_NAME[NAMES[0]].why_not(dev, ConvProblem(0, *desc, miopyx.ConvolutionDescriptor((0, 0))))

    assert why() is None
    assert why((200, 1, 40, 8)) == why((400, 50, 10, 2)) == "tensors are not packed NCHW"
    assert why(dev=handles("host").device) == "runs on OpenCL devices only"
    lens = (1, 4, 1 << 29)
    desc = [TensorDescriptor("float16", s) for s in (lens, (4, 4, 1), lens)]
    problem = ConvProblem(0, *desc, miopyx.ConvolutionDescriptor((0,), (1,), (1,)))
    assert registry.BY_NAME[NAMES[0]].why_not(cpu.device, problem) == "a long axis"
