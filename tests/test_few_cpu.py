"""Few channels on CPU devices: what splitting by the stride, tiles and tails make special, against the host path.

Inputs, poison, guards and bounds are those of solver_checks.py; test_solvers walks over the common cases too.
"""

from __future__ import annotations

import numpy as np
import pytest
import test_fusion
from cases_reader import ConvCase, conv_case
from guarded import Pages
from solver_checks import Example, check, check_inf_and_nan, plan, problem_of
from test_end_pads import uneven

import miopyx
from miopyx import TensorDescriptor
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

SOLVER = registry.BY_NAME["CpuFewChannelsFwd"]
TYPES = ("float32", "float16", "bfloat16", "float64")


def conv(text: str, *args, **more) -> ConvCase:
    return conv_case(*args, **more, text=text)


# Rows of y have 40 elements at least.
CASES = [
    conv("7x7 with stride 2", 2, 3, 24, (30, 84), (7, 7), (3, 3), (2, 2)),
    conv("7x7 with stride 2, whole vectors", 2, 3, 16, (13, 96), (7, 7), (3, 3), (2, 2)),
    conv("7x7 with stride 2, odd", 3, 3, 17, (31, 95), (7, 7), (3, 3), (2, 2)),
    conv("11x11 with stride 4", 1, 3, 9, (67, 181), (11, 11), (2, 2), (4, 4)),
    conv("3x3", 2, 3, 8, (13, 64), (3, 3), (1, 1)),
    conv("3x3, odd, without padding", 2, 3, 5, (13, 59), (3, 3)),
    conv("3x3 with stride 2", 5, 3, 32, (14, 101), (3, 3), (1, 1), (2, 2)),
    conv("3x3 with stride 2 and 128 filters", 1, 3, 128, (25, 83), (3, 3), (1, 1), (2, 2)),
    conv("one channel", 2, 1, 6, (28, 50), (5, 5), (2, 2)),
    conv("4 filters of 2 channels", 2, 2, 4, (9, 46), (4, 4), (1, 1)),
    conv("1x1", 3, 3, 12, (7, 49), (1, 1)),
    conv("strides of the filter's lengths", 3, 4, 7, (16, 150), (2, 3), (0, 0), (2, 3)),
    conv("a stride beyond the height", 12, 3, 9, (4, 43), (2, 2), (0, 0), (7, 1)),
    conv("stride 2 along the width alone", 3, 3, 7, (5, 91), (3, 3), (1, 0), (1, 2)),
    conv("stride 2 along the height alone", 2, 3, 7, (31, 45), (3, 3), (0, 1), (2, 1)),
    conv("dilation 2", 2, 3, 9, (15, 46), (3, 3), (2, 2), (1, 1), (2, 2)),
    conv("stride 2, dilation 3", 2, 3, 9, (25, 86), (3, 4), (3, 4), (2, 2), (3, 3)),
    conv("stride 4, dilation 6", 2, 4, 9, (29, 171), (3, 3), (6, 5), (4, 4), (6, 6)),
    conv("pads beyond the filter", 2, 3, 5, (4, 36), (3, 3), (7, 9)),
    conv("pads beyond the filter, stride 2", 2, 3, 5, (4, 66), (3, 3), (7, 12), (2, 2)),
    conv("an image smaller than the filter", 7, 3, 5, (2, 1), (5, 3), (2, 21)),
    conv("as many products as one sum takes", 1, 4, 5, (27, 57), (16, 16)),
    conv("1-D", 13, 2, 12, (150,), (9,), (4,), (2,)),
    conv("3-D", 1, 3, 9, (5, 6, 47), (3, 3, 3), (1, 1, 1)),
    conv("3-D with strides and dilation", 2, 2, 5, (7, 8, 89), (3, 2, 3), (1, 0, 2), (2, 1, 2), (1, 2, 2)),
]
NAMED = {case.text: case for case in CASES}


def check_case(handle, host, rng, case: ConvCase, dtype: str, **place) -> None:
    check(handle, Example(case, dtype, "packed", rng, host, **place), 0, SOLVER, rng)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text.replace(" ", "-"))
def test_case(cpu, host, rng, case):
    """In float32 from an odd place, and a few in another type: each has programs of its own."""
    check_case(cpu, host, rng, case, "float32", shift=int(rng.integers(4)))
    if rng.integers(4) == 0:
        check_case(cpu, host, rng, case, str(rng.choice(TYPES[1:])))


UNEVEN = (
    uneven((2, 3), 2, 3, 9, (20, 102), (7, 7), (3, 3), (2, 2)), uneven((0, 4), 2, 3, 5, (9, 45), (3, 3), (2, 0)),
    uneven((3, 1), 2, 2, 5, (9, 93), (3, 4), (0, 5), (1, 2), (2, 2)),
)


def test_random_problems(cpu, host, rng):
    done = 0
    while done < 25:
        axes = int(rng.integers(1, 4))
        lens = np.append(rng.integers(1, (2, 30, 8)[axes - 1], axes - 1), rng.integers(40, 250))
        taps, stride = rng.choice([1, 2, 3, 5, 7], axes), rng.choice([1, 1, 2, 3, 5], axes)
        dilation, pad = rng.choice([1, 1, 2, 4], axes), rng.choice([0, 1, 2, 6], axes)
        if (lens + 2 * pad < dilation * (taps - 1) + 1).any():
            continue
        if lens[-1] + 2 * pad[-1] - dilation[-1] * (taps[-1] - 1) - 1 < 39 * stride[-1]:
            continue
        case = conv("random", int(rng.choice([1, 2, 12])), int(rng.integers(1, 5)), int(rng.integers(4, 40)), *(
            tuple(int(v) for v in a) for a in (lens, taps, pad, stride, dilation)))
        why = SOLVER.why_not(cpu.device, problem_of(case))
        assert why in (None, "a large filter", "filters do not overlap")
        if why is None:
            print(case)
            check_case(cpu, host, rng, case, "float32", shift=int(rng.integers(4)))
            done += 1


@pytest.mark.parametrize("against", ["end", "begin"])
def test_nothing_beside_the_buffers_is_touched(cpu, host, rng, monkeypatch, against):
    """Buffers and workspace end, or begin, at pages that fault."""
    monkeypatch.setattr(Pages, "against", against)
    for name in ("7x7 with stride 2, odd", "3x3, odd, without padding", "strides of the filter's lengths",
                 "stride 4, dilation 6"):
        check_case(cpu, host, rng, NAMED[name], "float32")


@pytest.mark.parametrize("case", UNEVEN, ids=lambda case: str(case.end))
def test_pads_of_both_ends(cpu, host, rng, case):
    check_case(cpu, host, rng, case, "float32")


@pytest.mark.parametrize("isa", ["avx2", "sse2", "avx512"])
def test_other_vectors(cpu, pretend, host, rng, isa):
    """The tiles of CPUs with other registers."""
    handle = pretend(cpu.device.name, isa=isa)
    assert handle.device.vector_bytes == {"avx512": 64, "avx2": 32, "sse2": 16}[isa]
    for name in ("7x7 with stride 2", "3x3, odd, without padding", "4 filters of 2 channels"):
        check_case(handle, host, rng, NAMED[name], "float32")


def test_inf_and_nan_reach_what_depends_on_them(cpu, host, rng):
    """Without padding, whose zeros meet the filter's."""
    for name in ("3x3, odd, without padding", "strides of the filter's lengths"):
        check_inf_and_nan(cpu, Example(NAMED[name], "float32", "packed", rng, host), 0, SOLVER, rng, 1e-3)


@pytest.mark.parametrize("dtype", TYPES)
def test_results_that_pass_the_caches(opencl_name, setting, host, rng, dtype):
    """The device is told that its caches hold nothing; rows that keep vectors aligned and others."""
    setting(MIOPYX_STREAM_BYTES=0)
    with miopyx.Handle(opencl_name) as handle:
        if not handle.device.is_cpu:
            pytest.skip("needs a CPU device")
        for name in ("7x7 with stride 2, whole vectors", "3x3", "7x7 with stride 2, odd"):
            check_case(handle, host, rng, NAMED[name], dtype)


def test_what_follows_a_convolution(cpu, host, rng):
    for name in ("7x7 with stride 2", "7x7 with stride 2, whole vectors"):
        test_fusion.check(cpu, Example(NAMED[name], "float32", "packed", rng, host), SOLVER, rng)


def test_the_same_bits_every_time(cpu, rng):
    """Also with another number of images, which moves the rows of work-items."""
    case, results = NAMED["7x7 with stride 2"], []
    x = rng.standard_normal((7, *case.x_lens[1:])).astype("f4")
    w = rng.standard_normal(case.w_lens).astype("f4")
    for n in (7, 7, 2):
        lens = ((n, *case.x_lens[1:]), case.w_lens, (n, *case.y_lens[1:]))
        y = np.full(lens[2], np.nan, "f4")
        plan(cpu, 0, [TensorDescriptor("float32", s) for s in lens], case.conv(), SOLVER.id)(x[:n].copy(), w, y)
        cpu.finish()
        results.append(y)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0][:2], results[2])


def test_the_workspace_is_what_outputs_see(cpu):
    """x with its padding, in whole vectors of outputs, and the filter in whole tiles."""
    size = SOLVER.workspace_size(cpu.device, problem_of(conv("", 4, 3, 64, (224, 224), (7, 7), (3, 3), (2, 2))))
    seen, lanes = 111 * 2 + 7, max(4, cpu.device.vector_bytes // 4)
    columns = -(-112 // lanes) * lanes + 3
    assert size == 4 * (64 * 147 + 4 * 3 * seen * 2 * columns)


def test_what_is_refused(cpu, handles):
    def why(dev=cpu.device, c=3, r=3, k=4, groups=1, strides=None, dtype="float32", length=41, stride=1):
        lens = (2, c * groups, length, length)
        desc = (TensorDescriptor(dtype, lens, strides), TensorDescriptor(dtype, (k * groups, c, r, r)))
        descriptor = miopyx.ConvolutionDescriptor((r // 2, r // 2), (stride, stride), groups=groups)
        y = TensorDescriptor("int32" if dtype == "int8" else dtype, descriptor.output_lens(*desc))
        return SOLVER.why_not(dev, ConvProblem(0, *desc, y, descriptor))

    assert why() is None
    assert why(strides=(5043, 1, 123, 3)) == why(strides=(9000, 3000, 50, 1)) == "tensors are not packed NCHW"
    assert why(groups=2) == "groups"
    assert why(c=5) == "many channels"
    assert why(k=3) == why(k=129) == "few or many filters"
    assert why(r=19) == "a large filter"
    assert why(length=39) == "short rows"
    assert why(r=1, stride=2, length=90) == "filters do not overlap"
    assert why(dtype="int8") == "data type"
    assert why(length=1 << 15) == "workspace is beyond the limit"
    assert why(dev=handles("host").device) == "runs on OpenCL devices only"
    lens = (1 << 10, 1, 1 << 29)
    desc = [TensorDescriptor("float16", s) for s in (lens, (4, 1, 1), (1 << 10, 4, 1 << 29))]
    problem = ConvProblem(0, *desc, miopyx.ConvolutionDescriptor((0,), (1,), (1,)))
    assert SOLVER.why_not(cpu.device, problem) == "a long axis"
