"""Convolutions whose pads before and behind an axis differ: every solver that takes them, against float64.

What they should give is a convolution without pads of an x with zeros around it, or its gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from cases_reader import ConvCase, conv_case
from solver_checks import Example, check, plan

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.errors import BadParmError
from miopyx.problem._key import find_key, parse_find_key, parse_perf_key, perf_key
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

LAYOUTS = ("packed", "channels last")


@dataclass(frozen=True)
class Uneven(ConvCase):
    """A case with pads of its own behind each axis."""

    end: tuple[int, ...] = ()

    def conv(self) -> ConvolutionDescriptor:
        return ConvolutionDescriptor(self.pad, self.stride, self.dilation, int(self.transposed), self.groups,
                                     self.outpad, self.end)


def uneven(end, *args, **kwargs):
    return Uneven(**{name: value for name, value in vars(conv_case(*args, **kwargs)).items()
                     if name in ConvCase.__dataclass_fields__}, end=end)


CASES = {
    "same, stride 2": uneven((1, 1), 2, 16, 24, (14, 16), (3, 3), (0, 0), (2, 2)),
    "same, 4x4": uneven((2, 2), 2, 16, 16, (9, 8), (4, 4), (1, 1)),
    "same, 2x2": uneven((1, 1), 2, 16, 32, (8, 8), (2, 2), (0, 0)),
    "lower, 2x2": uneven((0, 0), 2, 16, 32, (8, 8), (2, 2), (1, 1)),
    "3x3, one side": uneven((2, 0), 2, 32, 32, (12, 13), (3, 3), (0, 2)),
    "3x3, none behind": uneven((0, 0), 2, 32, 32, (12, 13), (3, 3), (1, 1)),
    "first layer": uneven((3, 3), 2, 3, 16, (20, 22), (7, 7), (2, 2), (2, 2)),
    "5x5": uneven((3, 4), 1, 8, 16, (11, 10), (5, 5), (1, 0)),
    "dilated": uneven((3, 0), 2, 8, 8, (10, 12), (2, 3), (0, 2), dilation=(3, 2)),
    "1x1": uneven((1, 2), 2, 16, 16, (6, 7), (1, 1), (0, 1)),
    "1x1, stride 2": uneven((2, 1), 2, 16, 16, (6, 7), (1, 1), (0, 0), (2, 2)),
    "depthwise": uneven((1, 1), 2, 16, 16, (12, 14), (3, 3), (0, 0), (2, 2), groups=16),
    "depthwise, stride 1": uneven((2, 0), 2, 16, 16, (12, 14), (3, 3), (0, 1), groups=16),
    "groups": uneven((2, 2), 2, 32, 32, (9, 10), (3, 3), (1, 0), groups=4),
    "far": uneven((7, 0), 1, 8, 8, (5, 6), (3, 3), (0, 6)),
    "transposed": uneven((0, 1), 2, 8, 16, (6, 7), (3, 4), (1, 2), (2, 2), transposed=True),
    "transposed, outpad": uneven((2, 0), 2, 8, 16, (6, 7), (3, 3), (1, 1), (2, 3), outpad=(1, 1), transposed=True),
    "1-D": uneven((3,), 2, 8, 16, (13,), (4,), (0,), (2,)),
    "3-D": uneven((1, 0, 2), 1, 8, 8, (5, 6, 5), (3, 2, 3), (0, 1, 0), (1, 1, 2)),
}


def run(handle, case, layout, dtype, rng, host):
    """Check every solver on the host, and on a device, which builds them, three of each direction."""
    example = Example(case, dtype, layout, rng, host)
    for direction in range(3):
        able = [s for s in registry.CONV if s.why_not(handle.device, example.problem(direction)) is None]
        assert able
        for solver in able if handle.device.is_host else rng.permutation(np.array(able, object))[:3]:
            check(handle, example, direction, solver, rng)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_solvers(handle, case, layout, rng, host):
    if len(CASES[case].lens) != 1 or layout == "packed":
        run(handle, CASES[case], layout, "float32", rng, host)


@pytest.mark.some(1, host=8)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_types(handle, case, dtype, rng, host):
    run(handle, CASES[case], "packed", dtype, rng, host)


@pytest.mark.some(2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_kernels_of_gpus(gpu, case, layout, rng, host):
    if len(CASES[case].lens) != 1 or layout == "packed":
        run(gpu, CASES[case], layout, "float32", rng, host)


@pytest.mark.parametrize("case", [name for name, case in CASES.items() if not case.transposed])
def test_the_reference(host, case, rng):
    """The host path, which the others are compared with, against a convolution without pads of a padded x."""
    case = CASES[case]
    spatial = len(case.lens)
    around = [(0, 0), (0, 0), *zip(case.pad, case.end, strict=True)]
    inner = (slice(None), slice(None), *(slice(p, p + n) for p, n in zip(case.pad, case.lens, strict=True)))
    wide = replace(case, lens=tuple(p + n + e for p, n, e in zip(case.pad, case.lens, case.end, strict=True)),
                   pad=(0,) * spatial, end=(0,) * spatial)
    assert wide.y_lens == case.y_lens
    example = Example(case, "float64", "packed", rng, host)
    padded = Example(wide, "float64", "packed", rng, host)
    padded.data = [np.pad(example.data[0], around), *example.data[1:]]
    for direction in range(3):
        want = padded.truth(direction)
        got, size = example.truth(direction), padded.truth(direction, absolute=True)
        if direction == 1:
            want, size = want[inner], size[inner]
        assert (np.abs(got - want) <= 2.0**-50 * example.terms[direction] * size).all()


@pytest.mark.parametrize("case", [name for name, case in CASES.items() if case.transposed])
def test_the_transposed_reference(host, case, rng):
    """With pads at both ends a transposed convolution's output is the inner part of the one without any."""
    case = CASES[case]
    whole = replace(case, pad=(0, 0), end=(0, 0))
    inner = (slice(None), slice(None), *(slice(p, p + n) for p, n in zip(case.pad, case.y_lens[2:], strict=True)))
    example, other = (Example(c, "float64", "packed", rng, host) for c in (case, whole))
    other.data[:2] = example.data[:2]
    other.data[2] = np.zeros(whole.y_lens)
    other.data[2][inner] = example.data[2]
    for direction in range(3):
        want, size = other.truth(direction), other.truth(direction, absolute=True)
        if direction == 0:
            want, size = want[inner], size[inner]
        assert (np.abs(example.truth(direction) - want) <= 2.0**-50 * other.terms[direction] * size).all()


def test_equal_pads_are_the_same_problem():
    x, w = TensorDescriptor("float32", (2, 8, 9, 9)), TensorDescriptor("float32", (8, 8, 3, 3))
    plain, ends = ConvolutionDescriptor((1, 1)), ConvolutionDescriptor((1, 1), end_pads=(1, 1))
    y = TensorDescriptor("float32", plain.output_lens(x, w))
    assert ConvProblem(0, x, w, y, plain).key == ConvProblem(0, x, w, y, ends).key


def test_what_is_said(host):
    conv = ConvolutionDescriptor((0, 1), end_pads=(1, 0))
    assert (conv.pads, conv.end_pads) == ((0, 1), (1, 0))
    assert repr(conv).endswith("end_pads=(1, 0))")
    miopyx.miopenInitConvolutionNdDescriptor(conv, 3, (0, 1, 2), (1, 1, 1), (1, 1, 1), "conv", endPadA=(3, 4, 5))
    assert conv.end_pads == (3, 4, 5)
    for bad in ((-1, 0, 0), (1, 1), 5, (0, 0.5, 0)):
        with pytest.raises(BadParmError):
            miopyx.miopenInitConvolutionNdDescriptor(conv, 3, (0, 1, 2), (1, 1, 1), (1, 1, 1), "conv", endPadA=bad)
    assert conv.end_pads == (3, 4, 5)
    miopyx.miopenInitConvolutionDescriptor(conv, "conv", 1, 2, 1, 1, 1, 1)
    assert conv.end_pads == (1, 2)
    conv = ConvolutionDescriptor((0, 0), end_pads=(1, 1))
    x, w = TensorDescriptor("float32", (2, 8, 9, 9)), TensorDescriptor("float32", (8, 8, 3, 3))
    with pytest.raises(BadParmError, match="lengths"):
        plan(host, 0, [x, w, TensorDescriptor("float32", (2, 8, 7, 7))], conv)


@pytest.mark.parametrize("case", CASES)
def test_keys_name_the_problem(case, host, rng):
    """Output lengths, which keys have, say all that kernels need of the pads behind an axis."""
    for direction in range(3):
        problem = Example(CASES[case], "float32", "packed", rng, host).problem(direction)
        for write, read in ((find_key, parse_find_key), (perf_key, parse_perf_key)):
            assert read(write(problem)).key == problem.key
