"""The throughput index: MIOpen's published figures, int8 by hand, and the Winograd model written a second time."""

import math

import numpy as np
import pytest

from miopyx import ConvolutionDescriptor, Handle, TensorDescriptor
from miopyx.errors import BadParmError
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.solvers.conv import _index

FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS = range(3)
POINTWISE, STRIDED, REST = ((1, 1), 1, 0), ((1, 1), 2, 0), ((3, 3), 1, 1)


def problem(direction, n=1, c=8, k=8, size=(8, 8), filter=(3, 3), stride=1, pad=0, groups=1, dilation=1,
            dtype="float32", y_dtype=None, mode=0):
    rank = len(size)
    conv = ConvolutionDescriptor((pad,) * rank, (stride,) * rank, (dilation,) * rank, groups=groups, mode=mode)
    x = TensorDescriptor(dtype, (n, c, *size))
    w = TensorDescriptor(dtype, (c, k // groups, *filter) if mode else (k, c // groups, *filter))
    y = TensorDescriptor(y_dtype or dtype, conv.output_lens(x, w))
    return ConvProblem(direction, x, w, y, conv)


def gemm(direction, shape, n=1, g=1, rounds=None, **more):
    filter, stride, pad = shape
    return _index.gemm(problem(direction, n, filter=filter, stride=stride, pad=pad, groups=g, **more), rounds or n)


# Products


@pytest.mark.parametrize(("direction", "shape", "n", "g", "index"), [
    (FORWARD, POINTWISE, 1, 1, .9), (FORWARD, POINTWISE, 1, 4, .855),
    (FORWARD, POINTWISE, 16, 1, .81), (FORWARD, POINTWISE, 16, 4, .7695),
    (FORWARD, STRIDED, 1, 1, .441), (FORWARD, STRIDED, 1, 4, .41895),
    (FORWARD, STRIDED, 16, 1, .441), (FORWARD, STRIDED, 16, 4, .41895),
    (FORWARD, REST, 1, 1, .36), (FORWARD, REST, 1, 4, .342),
    (FORWARD, REST, 16, 1, .2592), (FORWARD, REST, 16, 4, .24624),
    (BACKWARD_DATA, POINTWISE, 1, 1, .9), (BACKWARD_DATA, POINTWISE, 16, 1, .855),
    (BACKWARD_DATA, POINTWISE, 1, 4, .9), (BACKWARD_DATA, POINTWISE, 16, 4, .855),
    (BACKWARD_DATA, STRIDED, 1, 1, .41895), (BACKWARD_DATA, STRIDED, 16, 4, .3980025),
    (BACKWARD_DATA, REST, 1, 1, .36), (BACKWARD_DATA, REST, 1, 4, .342),
    (BACKWARD_DATA, REST, 16, 1, .2592), (BACKWARD_DATA, REST, 16, 4, .24624),
    (BACKWARD_WEIGHTS, POINTWISE, 1, 1, .63), (BACKWARD_WEIGHTS, POINTWISE, 1, 4, .567),
    (BACKWARD_WEIGHTS, POINTWISE, 16, 1, .567), (BACKWARD_WEIGHTS, POINTWISE, 16, 4, .5103),
    (BACKWARD_WEIGHTS, REST, 1, 1, .252), (BACKWARD_WEIGHTS, REST, 16, 1, .18144),
    (BACKWARD_WEIGHTS, REST, 16, 4, .172368), (BACKWARD_WEIGHTS, STRIDED, 1, 1, .252),
])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_published_figures(direction, shape, n, g, index, dtype):
    assert gemm(direction, shape, n, g, dtype=dtype) == pytest.approx(index, rel=1e-12)


@pytest.mark.parametrize(("shape", "n", "g", "y_dtype", "index"), [
    (POINTWISE, 1, 1, "int32", .9 * .7),                               # packed once
    (POINTWISE, 1, 4, "int32", .9 * .7),                               # groups cost nothing
    (POINTWISE, 1, 4, "float32", .9 * .7 * .95),                       # and converted
    (POINTWISE, 1, 1, "int8", .9 * .7 * .95),
    (POINTWISE, 16, 4, "float32", .81 * .63 * .95),                    # packed 16 times, converted once
    (STRIDED, 1, 1, "int32", .7 * .7 * .9 * .7),
    (STRIDED, 16, 4, "float32", .7 * .7 * .9 * .95 * .7 * .95),        # packed once for all images
    (REST, 1, 1, "int32", .9 * .4 * .7),
    (REST, 16, 4, "int8", .81 * .95 * .32 * .63 * .95),
])
def test_int8_by_hand(shape, n, g, y_dtype, index):
    assert gemm(FORWARD, shape, n, g, dtype="int8", y_dtype=y_dtype) == pytest.approx(index, rel=1e-12)


def test_int8_examples():
    assert gemm(FORWARD, POINTWISE, dtype="int8", y_dtype="int32") == pytest.approx(.63)
    assert gemm(FORWARD, POINTWISE, g=4, dtype="int8", y_dtype="float32") == pytest.approx(.5985)


def test_which_way_is_taken():
    # Stride 2 is a way of its own in 2-D only, and pads, longer filters and uneven strides need columns.
    for direction in (FORWARD, BACKWARD_DATA):
        for size in ((8,), (8, 8, 8)):
            ones = (1,) * len(size)
            assert _index.gemm(problem(direction, size=size, filter=ones, stride=2), 1) == pytest.approx(.36)
            unit = problem(direction, size=size, filter=ones)
            assert _index.gemm(unit, 1) == pytest.approx(.9)
        assert _index.gemm(problem(direction, filter=(1, 1), pad=1), 1) == pytest.approx(.36)
        assert _index.gemm(problem(direction, filter=(1, 3)), 1) == pytest.approx(.36)
        assert _index.gemm(problem(direction, filter=(1, 1), stride=3), 1) == pytest.approx(.36)


def test_columns_ignore_short_ways():
    for direction, base in ((FORWARD, 1), (BACKWARD_DATA, 1), (BACKWARD_WEIGHTS, .7)):
        for filter, stride, pad in (POINTWISE, STRIDED, REST):
            p = problem(direction, 16, filter=filter, stride=stride, pad=pad, groups=4)
            assert _index.columns(p, 1) == pytest.approx(.342 * base)
            assert _index.columns(p, 16) == pytest.approx(.24624 * base)


def test_transposed_problems_have_the_index_of_the_direction_they_compute():
    p = problem(FORWARD, 16, filter=(1, 1), mode=1)
    assert p.transposed
    assert _index.gemm(p, 16) == pytest.approx(.855)
    assert _index.gemm(problem(BACKWARD_DATA, 16, filter=(1, 1), mode=1), 16) == pytest.approx(.81)


def test_more_rounds_and_groups_never_help():
    rng = np.random.default_rng()
    for _ in range(200):
        direction, shape = int(rng.integers(3)), [POINTWISE, STRIDED, REST][rng.integers(3)]
        int8 = direction == FORWARD and rng.random() < .5
        kind = {"dtype": "int8", "y_dtype": str(rng.choice(["int8", "int32", "float32"]))} if int8 else {}
        n = int(rng.integers(2, 40))
        indices = [gemm(direction, shape, n, 1, rounds, **kind) for rounds in (1, 2, n, 2**62)]
        assert indices[0] >= indices[1] == indices[2] == indices[3] > 0
        assert indices[0] <= 1
        assert gemm(direction, shape, n, 2, **kind) <= gemm(direction, shape, n, 1, **kind)
        if int8:
            assert indices[0] < gemm(direction, shape, n, 1, 1)
            assert gemm(direction, shape, n, dtype="int8", y_dtype="int32") >= indices[2]


@pytest.mark.parametrize(("name", "direction", "shape"), [
    ("GemmFwd1x1_0_1", FORWARD, POINTWISE), ("GemmFwd1x1_0_2", FORWARD, STRIDED), ("GemmFwdRest", FORWARD, REST),
    ("GemmBwd1x1_stride1", BACKWARD_DATA, POINTWISE), ("GemmBwd1x1_stride2", BACKWARD_DATA, STRIDED),
    ("GemmBwdRest", BACKWARD_DATA, REST),
    ("GemmWrw1x1_stride1", BACKWARD_WEIGHTS, POINTWISE), ("GemmWrwUniversal", BACKWARD_WEIGHTS, REST),
    ("GemmWrwUniversal", BACKWARD_WEIGHTS, STRIDED),
])
def test_solvers_of_those_names_have_those_figures(name, direction, shape):
    filter, stride, pad = shape
    with Handle("host") as handle:
        for n in (1, 2, 16):
            for groups in (1, 4):
                p = problem(direction, n, filter=filter, stride=stride, pad=pad, groups=groups)
                assert registry.BY_NAME[name].wti(handle.device, p) == pytest.approx(_index.gemm(p, n), rel=1e-15)


def test_rounds_out_of_range():
    for function in (_index.gemm, _index.columns):
        for rounds in (0, -1):
            with pytest.raises(BadParmError) as caught:
                function(problem(FORWARD), rounds)
            assert (caught.value.parameter, caught.value.value) == ("rounds", rounds)


# Winograd

COSTS = {(2, "float32"): (23652, 648, 308, 2039), (2, "float16"): (28561, 872, 327, 1852),
         (3, "float32"): (37329, 950, 295, 6295), (3, "float16"): (41417, 799, 309, 4941)}


def up(a, b):
    return math.ceil(a / b) * b


def model(tile, units, dtype, n, c, k, r, s, oh, ow):
    """Index and loss at stride 1 without groups, in the words of the published description."""
    taps = 5 - tile
    macs = c * n * k * (s * ow) * (r * oh) / 1e6
    single = s <= taps
    s_factor = taps if single else 2 * taps
    rg, sg = up(r, taps), up(s, s_factor)
    c_factor = 2 if dtype == "float16" else 1
    cg = up(c, c_factor)
    works = math.ceil(k / 32) * math.ceil(n * math.ceil(oh / tile) * math.ceil(ow / tile) / 32)
    each = math.ceil(works / units)
    fe = each * (sg // s_factor) * (rg // taps)
    ph = fe * (cg // c_factor) * (1 if single else 2)
    start, c_fe, c_ph, c_be = COSTS[tile, dtype]
    cycles = (start + c_fe * fe + c_ph * ph + c_be * each) / 1e6
    index = -2 if cycles <= .1 else macs / (units * 64 * c_factor) / cycles
    return index, 1 - macs / (each * units * 32 * 32 * tile * tile * cg * rg * sg / 1e6)


def test_published_example():
    p = problem(FORWARD, 64, 256, 256, (28, 28), pad=1)
    assert _index.winograd(p, 60) == pytest.approx(29595.009 / (60 * 64) / 4.345007, rel=1e-7)
    assert _index.winograd(p, 60) == pytest.approx(1.77377, abs=5e-6)
    # 3136 works are 53 each for 60 units, of 32 channels, 32 tiles of 2 x 2, 256 input channels, 3 x 3 taps.
    assert _index.granularity_loss(p, 60) == pytest.approx(1 - 29595.009 / (53 * 60 * 9.437184), abs=1e-6)


def test_against_the_model_written_again():
    rng = np.random.default_rng()
    known = 0
    for _ in range(500):
        n, c, k = (int(v) for v in rng.integers(1, (33, 200, 200)))
        size, filter = tuple(int(v) for v in rng.integers(7, 60, 2)), tuple(int(v) for v in rng.integers(1, 8, 2))
        pad, direction = int(rng.integers(0, min(filter))), int(rng.integers(3))
        dtype, tile, units = str(rng.choice(["float32", "float16"])), int(rng.integers(2, 4)), int(rng.integers(1, 121))
        p = problem(direction, n, c, k, size, filter, 1, pad, dtype=dtype)
        oh, ow = (a + 2 * pad - b + 1 for a, b in zip(size, filter, strict=True))
        as_seen = ((n, c, k, *filter, oh, ow), (n, k, c, *filter, *size), (c, n, k, oh, ow, *filter))[direction]
        index, loss = model(tile, units, dtype, *as_seen)
        assert _index.winograd(p, units, tile) == pytest.approx(index, rel=1e-12), (p, tile, units)
        assert _index.granularity_loss(p, units, tile) == pytest.approx(loss, abs=1e-12), (p, tile, units)
        known += index > 0
    assert 100 < known < 500


def test_backward_data_is_forward_with_roles_swapped():
    # A 3x3 with pad 1 keeps the size: dx of C from K costs what y of C from K would.
    rng = np.random.default_rng()
    for _ in range(50):
        n, c, k, h, w = (int(v) for v in rng.integers((4, 16, 16, 8, 8), (32, 128, 128, 40, 40)))
        backward = problem(BACKWARD_DATA, n, c, k, (h, w), pad=1)
        forward = problem(FORWARD, n, k, c, (h, w), pad=1)
        for tile in (2, 3):
            assert _index.winograd(backward, 60, tile) == _index.winograd(forward, 60, tile)
            assert _index.granularity_loss(backward, 60, tile) == _index.granularity_loss(forward, 60, tile)
    assert _index.winograd(problem(FORWARD, 16, 128, 40, (28, 28), pad=1), 60) != _index.winograd(
        problem(BACKWARD_DATA, 16, 128, 40, (28, 28), pad=1), 60)


def test_outside_of_the_model():
    big = dict(n=32, c=64, k=64, size=(28, 28), pad=1)
    for direction in range(3):
        assert _index.winograd(problem(direction, **big), 60) > 0
        for other in (dict(groups=2), dict(stride=2), dict(dilation=2), dict(dtype="float64"), dict(dtype="bfloat16")):
            assert _index.winograd(problem(direction, **{**big, **other}), 60) == -2, other
        assert _index.winograd(problem(direction, 1, 1, 1, (4, 4)), 60) == -2  # hardly any work
        assert _index.winograd(problem(direction, 8, 64, 64, (400,), (3,)), 60) == -2
        assert _index.winograd(problem(direction, 8, 64, 64, (9, 9, 9), (3, 3, 3)), 60) == -2
        for other in (dict(stride=3), dict(dilation=2), dict(dtype="float64")):
            assert _index.granularity_loss(problem(direction, **{**big, **other}), 60) == 1
    int8 = problem(FORWARD, dtype="int8", y_dtype="int32", **big)
    assert (_index.winograd(int8, 60), _index.granularity_loss(int8, 60)) == (-2, 1)
    assert _index.granularity_loss(problem(BACKWARD_WEIGHTS, stride=2, **big), 60) == 1


def test_loss_with_strides_by_hand():
    # F(2,3), 3x3 of 48 -> 64 channels, 64 images, pad 1, stride 2: 28 x 28 to 14 x 14.
    shape = dict(n=64, c=48, k=64, size=(28, 28), stride=2, pad=1)
    # Forward: both filter sides count 6; 2 x (64 x 7 x 7 / 32 = 98) works on 60 units are 4 each.
    macs = 48 * 64 * 64 * 42 * 42 / 1e6
    grid = 4 * 60 * 32 * 32 * 4 * 48 * 6 * 6 / 1e6
    assert _index.granularity_loss(problem(FORWARD, **shape), 60) == pytest.approx(1 - macs / grid)
    # Backward: 16 channels a work; the pad as dx sees it is 1, which adds a row of tiles and no column:
    # ceil(29 / 4) = 8 by 7; half of each side's products are with zeros.  3 x (64 x 8 x 7 / 32 = 112) are 6 each.
    grid = 6 * 60 * 16 * 32 * 4 * 64 * 6 * 6 / 1e6
    assert _index.granularity_loss(problem(BACKWARD_DATA, **shape), 60) == pytest.approx(1 - macs / grid)
    # 7 taps along the height are one more than a multiple of 6: they count 9, not 12.
    tall = problem(FORWARD, 64, 32, 64, (29, 28), (7, 3), 2, 1)
    rows = (29 + 2 - 7) // 2 + 1
    works = 2 * math.ceil(64 * math.ceil(rows / 2) * 7 / 32)
    grid = math.ceil(works / 60) * 60 * 32 * 32 * 4 * 32 * 9 * 6 / 1e6
    assert _index.granularity_loss(tall, 60) == pytest.approx(1 - 32 * 64 * 64 * 42 * 7 * rows / 1e6 / grid)


def test_loss_with_groups():
    # Groups are dealt to u units each, u below the number of units; tried one by one here.
    rng = np.random.default_rng()
    for _ in range(50):
        units, groups = int(rng.integers(1, 121)), int(rng.integers(2, 9))
        n, c, k, size = (int(v) for v in rng.integers((1, 1, 1, 5), (17, 17, 65, 40)))
        p = problem(FORWARD, n, c * groups, k * groups, (size, size), pad=1, groups=groups)
        works = math.ceil(k / 32) * math.ceil(n * math.ceil(size / 2) ** 2 / 32)
        best = min(math.ceil(works / u) * math.ceil(groups * u / units) for u in range(1, max(2, units)))
        want = 1 - c * n * k * (3 * size) ** 2 / (best * units * 32 * 32 * 4 * c * 9)
        assert _index.granularity_loss(p, units) == pytest.approx(want, abs=1e-12)
        assert 1 - 1 / groups <= want < 1


def test_huge_lengths():
    # Products beyond 64 bits: a rank all the same.
    side = 2**29
    p = problem(BACKWARD_WEIGHTS, 1, 1, 1, (1, side), (1, side // 2))
    assert 0 < _index.winograd(p, 60) < 10
    p = problem(FORWARD, 2**12, 2**12, 2**12, (2**16, 2**16), (2**9, 2**9))
    assert 0 < _index.winograd(p, 60) < 10
    assert 0 <= _index.granularity_loss(p, 60) < .1


def test_winograd_arguments_out_of_range():
    for function in (_index.winograd, _index.granularity_loss):
        for name, value in (("compute_units", 0), ("compute_units", -5), ("compute_units", 65536), ("tile", 1),
                            ("tile", 4)):
            with pytest.raises(BadParmError) as caught:
                function(problem(FORWARD), **{"compute_units": 60, name: value})
            assert (caught.value.parameter, caught.value.value) == (name, value)
    assert _index.granularity_loss(problem(FORWARD, groups=2), 65535) > .99
