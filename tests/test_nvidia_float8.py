"""OCP's float8 by Hopper's wgmma, every element: sums that are exact bit by bit, others within the stated bound.

Other devices skip these tests.  The bound: a sum of wgmma keeps 14 bits, so that each instruction of 32 products loses
less than 34 2^-13 of the sum of magnitudes; sums are promoted to float every 128.
"""

from __future__ import annotations

import importlib.util
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from cases_reader import case_of_line, conv_case
from float8_checks import (
    BYTES,
    E4M3,
    E5M2,
    MIXED,
    NEAREST,
    RESULTS,
    STOCHASTIC,
    Example,
    in_runs,
    neighbours,
    own_bound,
    rounded,
    same,
    whole,
    within,
)
from guarded import DTYPE, strides_of

import miopyx
from miopyx import TensorDescriptor
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.solvers.conv.nvidia import _common, _wgmma

SOLVERS = [registry.BY_NAME[name] for name in ("NvFloat8Fwd", "NvFloat8Bwd")]
SHAPES = {  # images, channels, filters, pixels, filter, pad, stride, dilation, groups
    "64 channels": conv_case(2, 64, 64, (16, 20), (3, 3), (1, 1)),
    "odd images": conv_case(5, 64, 80, (7, 7), (3, 3), (1, 1)),
    "odd images, 1x1": conv_case(9, 128, 320, (7, 7)),
    "long sums": conv_case(3, 512, 64, (7, 7), (3, 3), (1, 1)),
    "many filters": conv_case(1, 16, 400, (9, 9), (3, 3), (1, 1)),
    "many pixels, 1x1": conv_case(33, 272, 256, (8, 9)),
    "one slice": conv_case(40, 64, 256, (8, 8)),
    "two slices": conv_case(40, 256, 64, (8, 8)),
    "odd channels": conv_case(3, 65, 67, (7, 7), (3, 3), (1, 1)),
    "16 channels": conv_case(2, 16, 48, (9, 11), (3, 3), (1, 1)),
    "few channels": conv_case(2, 3, 64, (17, 17), (3, 3), (1, 1), (2, 2)),
    "1x1 with a stride": conv_case(2, 64, 128, (14, 14), (1, 1), (0, 0), (2, 2)),
    "uneven strides": conv_case(2, 80, 64, (15, 16), (1, 1), (0, 0), (3, 2)),
    "3x3 with a stride": conv_case(2, 64, 96, (12, 10), (3, 3), (1, 1), (2, 2)),
    "a stride to many channels": conv_case(2, 144, 64, (8, 12), (3, 3), (1, 1), (2, 2)),
    "groups": conv_case(2, 128, 64, (9, 9), (3, 3), (1, 1), groups=4),
    "groups of odd channels": conv_case(2, 40, 60, (6, 5), (3, 3), (1, 1), groups=4),
    "dilation": conv_case(3, 96, 64, (6, 6), (3, 3), (2, 2), (1, 1), (2, 2)),
    "single pixels": conv_case(3, 64, 65, (1, 1)),
    "one filter": conv_case(2, 32, 1, (5, 6), (3, 3), (1, 1)),
    "one axis": conv_case(2, 48, 72, (50,), (5,), (2,)),
    "transposed": conv_case(2, 64, 96, (6, 5), (3, 3), (1, 1), (2, 2), transposed=True),
    "3x3x3": conv_case(2, 32, 48, (4, 6, 7), (3, 3, 3), (1, 1, 1)),
    "3x3x3 with strides": conv_case(2, 48, 64, (6, 5, 8), (3, 3, 3), (1, 1, 1), (2, 2, 2)),
}
PLAIN = conv_case(3, 144, 160, (6, 8), (3, 3), (1, 1))
RUNS = [  # images of the second and the last are no multiple of 4 elements, which have one draw; runs of 4 and of one
    conv_case(7, 64, 80, (16, 15), (3, 3), (1, 1)),
    conv_case(23, 33, 35, (13, 15), (3, 3), (1, 1)),
    conv_case(9, 48, 64, (17, 18), (3, 3), (1, 1), (2, 2)),
    conv_case(5, 64, 96, (15, 15), (3, 3), (1, 1), groups=2),
    conv_case(5, 32, 48, (6, 8, 9), (3, 3, 3), (1, 1, 1)),
    conv_case(17, 17, 19, (19, 21)),
]


@pytest.fixture
def gpu(handle):
    desc = [TensorDescriptor(E4M3, s, strides_of(s, "channels last")) for s in PLAIN.all_lens]
    if SOLVERS[0].why_not(handle.device, ConvProblem(0, *desc, PLAIN.conv())) is not None:
        pytest.skip("needs a Hopper GPU")
    return handle


@pytest.fixture(params=(0, 1), ids=("forward", "data"))
def direction(request):
    return request.param


@pytest.mark.parametrize("layout", ["channels last", "packed"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_exactly(gpu, host, rng, name, layout, direction):
    """Sums of small whole numbers fit 14 bits; any address."""
    for types, shift in (((E4M3, E4M3, "float32"), 0), ((E5M2, E4M3, "float16"), 1), ((E4M3, E4M3, E4M3), 0)):
        example = Example(SHAPES[name], types, direction, host, layout).fill(whole(rng))
        solver = SOLVERS[1 - direction if SHAPES[name].transposed else direction]
        assert solver.why_not(gpu.device, example.problem) is None
        got = example.run(gpu, solver, shift=shift)
        same(got, rounded(example.truth(), types[2]), f"{types}, {shift}")
        np.testing.assert_array_equal(got.view(np.uint8), example.run(gpu, solver, shift=shift).view(np.uint8))


@pytest.mark.parametrize("types", MIXED, ids="-".join)
def test_every_mixture(gpu, host, rng, types, direction):
    example = Example(PLAIN, types, direction, host).fill(whole(rng))
    solver, want = SOLVERS[direction], example.truth()
    same(example.run(gpu, solver), rounded(want, types[2]))
    old = rounded(rng.integers(-8, 9, want.shape), types[2])
    for shift in (0, 1):
        same(example.run(gpu, solver, 0.5, -2.0, old, shift),
             rounded(0.5 * want - 2 * old.astype(np.float64), types[2]), f"alpha and beta, {shift}")


@pytest.mark.parametrize("name", ["64 channels", "many pixels, 1x1", "long sums", "3x3 with a stride", "one slice"])
def test_every_tile(gpu, host, rng, name, direction):
    solver = SOLVERS[direction]
    for types in ((E4M3, E4M3, "float32"), (E4M3, E5M2, E5M2)):
        example = Example(SHAPES[name], types, direction, host).fill(whole(rng))
        want = rounded(example.truth(), types[2])
        for tile in solver.parameters(gpu.device, example.problem)[0][1]:
            same(run_tile(gpu, example, solver, tile), want, f"tile {tile}")


def test_phases_side_by_side(gpu, host, rng):
    """Where the L2 does not keep what they share; exact sums."""
    example = Example(SHAPES["a stride to many channels"], (E4M3, E5M2, "float32"), 1, host).fill(whole(rng))
    try:
        _wgmma.interleave_phases(0)
        steps = SOLVERS[1].solution(gpu.device, example.problem).steps
        assert any("INTERLEAVED=1" in step.spec.options.split() for step in steps)
        same(example.run(gpu, SOLVERS[1]), rounded(example.truth(), "float32"))
    finally:
        _wgmma.interleave_phases()


def run_tile(gpu, example, solver, tile):
    from miopyx.engine._invoker import Invoker

    offer = solver.offer(gpu.device, example.problem)
    gpu.register(Invoker(gpu, offer, (tile,)), solver.id)
    try:
        return example.run(gpu, solver)
    finally:
        gpu.register(Invoker(gpu, offer, None), solver.id)


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("name", ["64 channels", "long sums", "many pixels, 1x1", "odd channels"])
def test_sums_of_random_numbers(gpu, host, rng, name, result, direction):
    """Between the roundings of truth plus and minus the bound; and on average far within it."""
    solver = SOLVERS[direction]
    for read in ((E4M3, E4M3), (E5M2, E4M3)):
        example = Example(SHAPES[name], (*read, result), direction, host).fill(rng.standard_normal)
        got, want, size = example.run(gpu, solver), example.truth(), example.truth(absolute=True)
        error = own_bound(solver, gpu, example) * size
        within(got, rounded(want - error, result).astype(np.float64), rounded(want + error, result).astype(np.float64),
               read)
        if result == "float32":
            rms = np.sqrt(np.mean((got - want)**2) / np.mean(want**2))
            assert rms < 2e-3, rms


@pytest.mark.parametrize("channels", [32, 128, 256, 1024])
def test_the_bound_is_that_of_the_formula(gpu, host, channels):
    """34 2^-13 for each 32 of the first 128; the worst that was thought of reaches 0.8 of it where nothing is added."""
    case = conv_case(2, channels, 128, (8, 8))
    example = Example(case, (E5M2, E5M2, "float32"), 0, host)
    bound = own_bound(SOLVERS[0], gpu, example)
    assert 1 <= bound / (34 * 2.0**-13 * min(channels, 128) / 32) <= 1.001

    def values(lens):  # one product of 1, the others below 2^-13: all of each is cut off
        found = np.full(lens, (1.75 if lens == case.x_lens else 1) * 2.0**-7)
        found[:, ::128] = 1
        return found

    example.fill(values)
    got, want, size = example.run(gpu, SOLVERS[0]), example.truth(), example.truth(absolute=True)
    error = np.abs(got - want)
    assert (error <= bound * size).all()
    if channels >= 128:
        assert error.max() > 0.001 * size.max()  # 14 bits, not 24: else the promotion would be for nothing


@pytest.mark.parametrize("case", RUNS)
def test_runs_of_images(gpu, host, rng, case, direction):
    """Of tensors that are too large at once: an element's place in the whole one decides how it is rounded."""
    solver = SOLVERS[direction]
    nearest = Example(case, (E4M3, E5M2, E4M3), direction, host).fill(whole(rng))
    drawn = [Example(case, (E5M2, E4M3, result), direction, host, mode=STOCHASTIC).fill(whole(rng)) for result in BYTES]
    read = drawn[1].data[2 * direction]
    read.reshape(-1)[::601] = np.inf  # what is not finite is rounded by itself
    old = rounded(rng.integers(-8, 9, drawn[0].desc[drawn[0].out].lens), E4M3)
    calls = [(example, alpha) for example in drawn for alpha in ((1,), (0.75 * 2.0**-9,))]
    calls.append((drawn[0], (0.5, 2.0**-4, old)))
    at_once = [example.run(gpu, solver, *scalars) for example, scalars in calls]
    with in_runs(gpu, solver, [nearest, *drawn], max(math.prod(lens) for lens in case.all_lens) * 3 // 5):
        same(nearest.run(gpu, solver), rounded(nearest.truth(), E4M3))
        for (example, scalars), want in zip(calls, at_once, strict=True):
            same(example.run(gpu, solver, *scalars), want, f"at random, {scalars[:2]}")


def test_runs_that_cannot_begin_where_draws_do(h200, direction):
    """Four neighbours have one draw, so a run of fewer images than four may not begin between them; and beyond 2^34
    elements draws come again with another seed."""
    def why(case, limit, mode=STOCHASTIC):
        desc = [TensorDescriptor(E4M3, s, strides_of(s, "channels last")) for s in case.all_lens]
        conv = case.conv()
        miopyx.miopenSetConvolutionAttribute(conv, miopyx.MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE, mode)
        _common.limit_elements(*limit)
        try:
            return SOLVERS[direction].why_not(h200.device, ConvProblem(direction, *desc, conv))
        finally:
            _common.limit_elements()

    odd = conv_case(3, 65, 65, (15, 15), (1, 1))
    assert "too large" in why(odd, (65 * 225 * 2,))
    assert why(odd, (65 * 225 * 2,), NEAREST) is None
    assert why(conv_case(3, 64, 64, (15, 15), (1, 1)), (64 * 225 * 2,)) is None
    huge = 1 << 14, 64, 64
    assert why(conv_case(*huge, (128, 128), (1, 1)), ()) is None
    assert "too large" in why(conv_case(*huge, (128, 129), (1, 1)), ())
    assert why(conv_case(*huge, (128, 129), (1, 1)), (), NEAREST) is None


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("read", BYTES)
def test_all_codes(gpu, host, read, result):
    """Each byte times 1 and 2: numbers, NaN, infinities, both zeros and what saturates."""
    codes = np.arange(256, dtype=np.uint8).view(DTYPE[read])
    example = Example(conv_case(1, 16, 16, (16, 16)), (read, read, result), 0, host)
    example.data[0][0, 0] = codes.reshape(16, 16)
    example.data[1][:, 0, 0, 0] = np.array([1, -1, 2, 0.5] * 4)
    with np.errstate(invalid="ignore"):
        want = example.data[1].astype(np.float64)[:, 0] * example.data[0].astype(np.float64)[0, 0][None]
        got = example.run(gpu, SOLVERS[0])[0]
        same(got, rounded(want, result))


@pytest.mark.parametrize("mode", [NEAREST, STOCHASTIC])
@pytest.mark.parametrize("result", BYTES)
def test_extreme_results(gpu, host, rng, result, mode, direction):
    """Large ones saturate, small ones lose bits and become zero, Inf and NaN stay what they are."""
    example = Example(PLAIN, (E5M2, E4M3, result), direction, host, mode=mode).fill(whole(rng))
    solver, want = SOLVERS[direction], example.truth()
    for alpha in (1e4, 2.0**-9, 2.0**-16, 1e-30):
        got = example.run(gpu, solver, alpha)
        exact = np.float64(np.float32(alpha)) * want
        if mode == NEAREST:
            same(got, rounded(np.float32(exact), result), str(alpha))
        else:
            low, high = neighbours(exact, result)
            within(got, low, high, alpha)
    # Not in w, which multiplies zeros beside the image: there it would be NaN.
    read = example.data[2 * direction]
    read.reshape(-1)[[0, 7, -1]] = [np.inf, np.nan, -np.inf]
    with np.errstate(invalid="ignore"):
        want = example.truth()
    got = example.run(gpu, solver).astype(np.float64)
    if result == E4M3:
        np.testing.assert_array_equal(np.isnan(got), ~np.isfinite(want))
    else:
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])


@pytest.mark.parametrize("name", ["64 channels", "groups", "groups of odd channels", "3x3 with a stride",
                                  "a stride to many channels", "3x3x3 with strides"])
@pytest.mark.parametrize("result", BYTES)
def test_stochastic_rounding_is_the_host_paths(gpu, host, rng, result, name, direction):
    """The same draw for the same element, as its offset and the seed say; a zero may have either sign."""
    example = Example(SHAPES[name], (E4M3, E4M3, result), direction, host, mode=STOCHASTIC).fill(whole(rng))
    on_host = registry.BY_NAME[("HostImplicitGemmFwd", "HostImplicitGemmBwd")[direction]]
    for alpha in (1, 0.75 * 2.0**-9, 0.75 * 2.0**-16):  # what floats hold, also below the least normal number
        got = example.run(gpu, SOLVERS[direction], alpha)
        same(got, example.run(host, on_host, alpha), f"alpha {alpha}")
        assert (got.astype(np.float64) != rounded(alpha * example.truth(), result).astype(np.float64)).mean() > 0.05


def test_amds_types_are_refused(gpu):
    lens = PLAIN.all_lens
    desc = [TensorDescriptor("float8_e4m3fnuz", s, strides_of(s, "channels last")) for s in lens]
    why = SOLVERS[0].why_not(gpu.device, ConvProblem(0, *desc, PLAIN.conv()))
    assert why == "AMD's float8, whose NaN and largest numbers wgmma reads as others"


def test_results_that_are_not_channels_last_are_refused(gpu):
    desc = [TensorDescriptor(E4M3, s) for s in PLAIN.all_lens]
    assert SOLVERS[0].why_not(gpu.device, ConvProblem(0, *desc, PLAIN.conv())) == "the result is not channels last"


def test_local_memory_is_within_what_there_is(cpu, pretend):
    """Of each tile, on a Hopper GPU that is only pretended: drivers refuse what is more, and report something else."""
    info = cpu.device.info
    handle = pretend(cpu.device.name, kind="gpu", runtime="nvidia", isa="sm90", compute_units=132, local_mem=49152,
                     extensions=info.extensions | {"cl_nv_device_attribute_query"})
    cases = list(SHAPES.values())
    for line in (Path(__file__).parent.parent / "bench" / "convolutions.txt").read_text().splitlines():
        if line.startswith("resnet50"):
            cases += [case_of_line(line.partition(" ")[2], n=n) for n in (1, 256)]
    sizes = {}
    for case, way in product(cases, (0, 1)):
        desc = [TensorDescriptor(E4M3, s, strides_of(s, "channels last")) for s in case.all_lens]
        problem = ConvProblem(way, *desc, case.conv())
        solver = SOLVERS[1 - way if case.transposed else way]
        assert solver.why_not(handle.device, problem) is None
        for tile in solver.parameters(handle.device, problem)[0][1]:
            for step in solver.solution(handle.device, problem, (tile,)).steps:
                if step.spec.file == "conv/nvidia/hopper.cl":
                    d = {name: int(value) for name, _, value in (
                        word.partition("=") for word in step.spec.options.split()) if value.isdigit()}
                    size = d["STAGES"] * (d["BP"] + d["BF"]) * 128
                    sizes[step.spec.options] = size + 8 * (2 * d["STAGES"] + 2) + 8 * d["BP"]
    assert len(sizes) > 10
    assert 200 * 1024 < max(sizes.values()) <= 226 * 1024


def test_the_bench(gpu, host, rng, monkeypatch):
    """bench/float8.py on a layer, each tile beside float16."""
    bench = Path(__file__).parent.parent / "bench"
    monkeypatch.syspath_prepend(str(bench))
    spec = importlib.util.spec_from_file_location("bench_float8", bench / "float8.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "TURNS", 1)
    monkeypatch.setattr(module, "CALLS", 1)
    rows = list(module.measure(gpu, host, conv_case(2, 64, 128, (6, 5), (3, 3), (1, 1)), "FB", rng, True))
    assert [row["direction"] for row in rows] == ["forward", "data"]
    for row in rows:
        assert 0 < row["error"] < 2e-3
        assert len([name for name in row if name.isdigit()]) == 3
        assert module.line_of(row)
    rows = list(module.measure(gpu, host, conv_case(2, 3, 64, (9, 8), (3, 3), (1, 1)), "FB", rng, True))
    assert [row["direction"] for row in rows] == ["forward"]
    assert rows[0]["error"] < 1e-5
    assert module.line_of(rows[0])
