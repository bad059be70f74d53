"""Database keys: MIOpen's where MIOpen has one, never the same for two problems, and read back to what they name."""

from __future__ import annotations

import numpy as np
import pytest

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.errors import BadParmError
from miopyx.problem._key import find_key, parse_find_key, parse_perf_key, perf_key
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

ROUNDS = 2000
LETTERS = {3: "NCW", 4: "NCHW", 5: "NCDHW"}
DTYPES = ("float32", "float16", "bfloat16", "float64", "float8_e4m3fnuz", "float8_e5m2fnuz",
          "float8_e4m3fn", "float8_e5m2", "int32", "int64")


def strides_of(lens, layout, gap=()):
    """Strides of a layout; `gap` holds what is left free after each axis, from the innermost."""
    letters, strides, stride = LETTERS[len(lens)], [0] * len(lens), 1
    gap = list(gap)
    for letter in reversed(layout):
        axis = letters.index(letter)
        strides[axis] = stride
        stride = stride * lens[axis] + (gap.pop(0) if gap else 0)
    return tuple(strides)


def make(direction, x, k, filter, pads, steps, dilations=None, groups=1, layouts=None, dtype="float32", y_type=None,
         mode=0, deterministic=0, gaps=((), (), ()), output_pads=None, y_spatial=None):
    """Make a problem out of descriptors; `layouts` and `gaps` belong to x, w and y."""
    default = LETTERS[len(x)]
    layouts = layouts or (default, default, default)
    conv = ConvolutionDescriptor(pads, steps, dilations, mode, groups, output_pads)
    miopyx.miopenSetConvolutionAttribute(conv, 1, deterministic)
    w = (x[1], k // groups, *filter) if mode else (k, x[1] // groups, *filter)
    xd = TensorDescriptor(dtype, x, strides_of(x, layouts[0], gaps[0]))
    wd = TensorDescriptor(dtype, w, strides_of(w, layouts[1], gaps[1]))
    y = conv.output_lens(xd, wd)
    yd = TensorDescriptor(y_type or dtype, y, strides_of(y, layouts[2], gaps[2]))
    return ConvProblem(direction, xd, wd, yd, conv)


NHWC, NDHWC = ("NHWC",) * 3, ("NDHWC",) * 3

# Keys of MIOpen's own files, and what a caller asks for to get them.  Arguments: direction (0 forward, 1 backward data,
# 2 backward weights), lengths of x, filters, filter lengths, pads, strides.
WORKED = {
    "64-27-27-5x5-192-27-27-512-2x2-1x1-1x1-0-NCHW-FP32-F": (
        (0, (512, 64, 27, 27), 192, (5, 5), (2, 2), (1, 1)), {}),
    "256-56-56-3x3-256-28-28-32-1x1-2x2-1x1-0-NCHW-FP32-F_g32": (
        (0, (32, 256, 56, 56), 256, (3, 3), (1, 1), (2, 2)), {"groups": 32}),
    "2048-7-7-1x1-1024-13-13-2-0x0-2x2-1x1-0-NCHW-FP16-B": (
        (1, (2, 1024, 13, 13), 2048, (1, 1), (0, 0), (2, 2)), {"dtype": "float16"}),
    "1024-14-14-1x1-2048-7-7-1024-0x0-2x2-1x1-0-NHWC-NHWC-NHWC-BF16-F": (
        (0, (1024, 1024, 14, 14), 2048, (1, 1), (0, 0), (2, 2)), {"dtype": "bfloat16", "layouts": NHWC}),
    "128-1-28-28-1x1x1-512-1-28-28-256-0x0x0-1x1x1-1x1x1-0-NCDHW-FP32-B": (
        (1, (256, 512, 1, 28, 28), 128, (1, 1, 1), (0, 0, 0), (1, 1, 1)), {}),
    "1024-1-14-14-1x3x3-1024-1-14-14-1-0x1x1-1x1x1-1x1x1-0-NCDHW-FP16-B_g32": (
        (1, (1, 1024, 1, 14, 14), 1024, (1, 3, 3), (0, 1, 1), (1, 1, 1)), {"dtype": "float16", "groups": 32}),
    "1-3-3-3x3-2-5-5-32-0x0-1x1-1x1-0-NCHW-FP16-W": (
        (2, (32, 2, 5, 5), 1, (3, 3), (0, 0), (1, 1)), {"dtype": "float16"}),
    "128-17-17-1x7-128-17-17-128-0x3-1x1-1x1-0-NCHW-BF16-W": (
        (2, (128, 128, 17, 17), 128, (1, 7), (0, 3), (1, 1)), {"dtype": "bfloat16"}),
    "16-8-8-3x3-32-8-8-4-2x2-1x1-2x2-0-NCHW-INT8INT8INT32-F": (
        (0, (4, 16, 8, 8), 32, (3, 3), (2, 2), (1, 1), (2, 2)), {"dtype": "int8", "y_type": "int32"}),
    "16-8-8-1x1-32-8-8-4-0x0-1x1-1x1-0-NCHW-INT8-F": (
        (0, (4, 16, 8, 8), 32, (1, 1), (0, 0), (1, 1)), {"dtype": "int8", "y_type": "int8"}),
    "32-8-8-1x1-16-8-8-4-0x0-1x1-1x1-0-NCHW-INT32INT8INT8-B": (
        (1, (4, 16, 8, 8), 32, (1, 1), (0, 0), (1, 1)), {"dtype": "int8", "y_type": "int32"}),
    "16-4-6-8-1x3x3-32-4-6-8-2-0x1x1-1x1x1-1x1x1-0-NDHWC-NDHWC-NDHWC-FP32-F": (
        (0, (2, 16, 4, 6, 8), 32, (1, 3, 3), (0, 1, 1), (1, 1, 1)), {"layouts": NDHWC}),
    "16-6-8-3x3-32-6-8-2-1x1-1x1-1x1-0-CHWN-CHWN-CHWN-FP32-F": (
        (0, (2, 16, 6, 8), 32, (3, 3), (1, 1), (1, 1)), {"layouts": ("CHWN",) * 3}),
    # A transposed convolution, 8 channels of 11x11 from 16 of 5x5: backward data of the convolution the other way.
    "16-5-5-3x3-8-11-11-2-0x0-2x2-1x1-0-NCHW-FP32-B": (
        (0, (2, 16, 5, 5), 8, (3, 3), (0, 0), (2, 2)), {"mode": 1}),
}


@pytest.mark.parametrize("key", WORKED)
def test_keys_are_miopens(key):
    arguments, options = WORKED[key]
    problem = make(*arguments, **options)
    assert find_key(problem) == key.encode()
    read = parse_find_key(key.encode())
    assert normal(read) == normal(problem)
    assert (read.direction, read.flops) == (problem.direction, problem.flops)


@pytest.mark.parametrize(("key", "perf"), [
    ("64-27-27-5x5-192-27-27-512-2x2-1x1-1x1-0-NCHW-FP32-F",
     "2x64x27x27x1x5x5x1x192x512x2x2x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"),
    ("256-56-56-3x3-256-28-28-32-1x1-2x2-1x1-0-NCHW-FP32-F_g32",
     "2x256x56x56x1x3x3x1x256x32x1x1x0x2x2x0x1x1x0x0x32xNCHWxFP32xF"),
    ("1024-14-14-1x1-2048-7-7-1024-0x0-2x2-1x1-0-NHWC-NHWC-NHWC-BF16-F",
     "2x1024x14x14x1x1x1x1x2048x1024x0x0x0x2x2x0x1x1x0x0x1xNHWCxBF16xF"),
    ("16-4-6-8-2x3x5-32-5-6-8-7-1x1x2-1x1x1-1x1x1-0-NCDHW-FP16-F_g4",
     "3x16x6x8x4x3x5x2x32x7x1x2x1x1x1x1x1x1x1x0x4xNCDHWxFP16xF"),
    # Of the lengths that lead to 7 with a stride of 2, the largest is not written.
    ("2048-7-7-1x1-1024-14-14-2-0x0-2x2-1x1-0-NCHW-FP16-B",
     "2x2048x7x7x1x1x1x1x1024x2x0x0x0x2x2x0x1x1x0x0x1xNCHWxFP16xB"),
    ("2048-7-7-1x1-1024-13-14-2-0x0-2x2-1x1-0-NCHW-FP16-W",
     "2x2048x7x7x1x1x1x1x1024x2x0x0x0x2x2x0x1x1x0x0x1xNCHWxFP16xW_o13x14"),
])
def test_perf_keys(key, perf):
    problem = parse_find_key(key.encode())
    assert perf_key(problem) == perf.encode()
    assert normal(parse_perf_key(perf.encode())) == normal(problem)


def test_a_layout_is_what_all_three_tensors_can_be_seen_as():
    """Axes of length 1 say nothing about it."""

    def layout(*arguments, **options):
        return find_key(make(*arguments, **options)).decode().split("1x1-0-")[1]

    flat = (0, (4, 16, 1, 1), 8, (1, 1), (0, 0), (1, 1))
    assert layout(*flat, layouts=NHWC) == "NCHW-FP32-F"
    assert layout(*flat, layouts=("CHWN", "NHWC", "NHWC")) == "CHWN-NHWC-NHWC-FP32-F".replace("NHWC", "NCHW")
    image = (0, (4, 16, 8, 8), 8, (3, 3), (1, 1), (1, 1))
    assert layout(*image, layouts=("NHWC", "NCHW", "NHWC")) == "NHWC-NCHW-NHWC-FP32-F"
    assert layout(*image[:3], (1, 1), (0, 0), (1, 1), layouts=("NHWC", "NCHW", "NHWC")) == "NHWC-NHWC-NHWC-FP32-F"
    assert layout(*image, layouts=("NCHW", "HWCN", "CNHW")) == "NCHW-HWCN-CNHW-FP32-F"
    # In and out are exchanged backward.
    assert layout(1, *image[1:], layouts=("NHWC", "NCHW", "CHWN")) == "CHWN-NCHW-NHWC-FP32-B"
    # One channel: neither x nor a filter tell NCHW and NHWC apart, y does.
    assert layout(0, (4, 1, 8, 8), *image[2:], layouts=("NCHW", "NHWC", "NHWC")) == "NHWC-NHWC-NHWC-FP32-F"
    assert layout(0, (4, 1, 8, 8), *image[2:], layouts=("NHWC", "NHWC", "NCHW")) == "NCHW-FP32-F"


def test_what_miopens_key_leaves_out_is_appended():
    image = (0, (4, 16, 8, 8), 8, (3, 3), (1, 1), (1, 1))
    plain = find_key(make(*image))
    assert find_key(make(*image, deterministic=1)) == plain + b"_det"
    assert find_key(make(*image, gaps=((2,), (), ()))) == plain + b"_si1280x80x10x1"
    assert find_key(make(*image, gaps=((), (), (0, 8)))) == plain + b"_so576x72x8x1"
    assert find_key(make(1, *image[1:], gaps=((2,), (), ()))) == (
        b"8-8-8-3x3-16-8-8-4-1x1-1x1-1x1-0-NCHW-FP32-B_so1280x80x10x1")
    assert find_key(make(*image, layouts=NHWC, gaps=((), (0, 0, 5), ()))) == (
        plain.replace(b"NCHW", b"NHWC-NHWC-NHWC") + b"_sw149x1x48x16")
    # No filter has a place beyond its only one along an axis of length 1.
    assert find_key(make(0, (4, 16, 1, 8), 8, (1, 3), (0, 1), (1, 1), gaps=((2,), (), ()))) == (
        b"16-1-8-1x3-8-1-8-4-0x1-1x1-1x1-0-NCHW-FP32-F_si160x10x0x1")
    row = (0, (4, 16, 9), 8, (3,), (1,), (1,))
    flat = find_key(make(0, (4, 16, 1, 9), 8, (1, 3), (0, 1), (1, 1)))
    assert find_key(make(*row)) == flat + b"_dim1"
    assert find_key(make(*row, groups=2, deterministic=1, gaps=((1,), (), (3,)))) == (
        flat + b"_g2_det_dim1_si160x10x1_so96x12x1")
    # The perf key names the layout of in alone.
    mixed = make(*image, layouts=("NHWC", "NCHW", "NHWC"))
    assert perf_key(mixed) == b"2x16x8x8x1x3x3x1x8x4x1x1x0x1x1x0x1x1x0x0x1xNHWCxFP32xF_sw144x9x3x1"


# Random problems


def normal(problem):
    """The struct, as numbers, without strides that mean nothing."""
    words = np.frombuffer(problem.key, np.int64).copy()
    tensors = words[-37:-4].reshape(3, 11)  # behind them stands what follows the convolution
    tensors[:, 6:][tensors[:, 1:6] == 1] = 0
    return words.tolist()


def random_problem(rng):
    """Any problem that descriptors can ask for, small numbers and ones preferred."""
    spatial = int(rng.integers(1, 4))
    mode = int(rng.integers(2))
    letters = LETTERS[spatial + 2]
    pick = rng.integers

    def some(low, high):
        return tuple(int(v) for v in pick(low, high, spatial))

    while True:
        groups = int(rng.choice([1, 1, 2, 3]))
        common = "".join(rng.permutation(list(letters))) if pick(4) == 0 else letters
        common = {0: common, 1: common, 2: letters[0] + letters[2:] + "C"}[int(pick(3))]
        layouts = [common if pick(4) else "".join(rng.permutation(list(letters))) for _ in range(3)]
        gaps = [tuple(int(v) for v in pick(0, 3, spatial + 2)) if pick(6) == 0 else () for _ in range(3)]
        direction, dtype, y_type = int(pick(3)), str(rng.choice(DTYPES)), None
        if direction < 2 and not mode and pick(5) == 0:
            dtype, y_type = "int8", str(rng.choice(["int8", "int32", "float32"]))
        steps = some(1, 4)
        try:
            return make(direction, (int(pick(1, 4)), groups * int(pick(1, 5)), *some(1, 9)), groups * int(pick(1, 5)),
                        some(1, 4), some(0, 3), steps, some(1, 3), groups, layouts, dtype, y_type, mode,
                        int(pick(2)), gaps, tuple(int(pick(s)) for s in steps) if mode else None)
        except BadParmError:
            continue  # a gap that lets the output's elements overlap


def test_keys_of_random_problems_are_read_back(rng):
    """What a key names is the problem it was made from, so no two problems have one key."""
    for _ in range(ROUNDS):
        problem = random_problem(rng)
        for write, read in ((find_key, parse_find_key), (perf_key, parse_perf_key)):
            key = write(problem)
            again = read(key)
            assert normal(again) == normal(problem), key
            assert write(again) == key
            assert not set(key) & set(b";:=,\n\r\0 ")
            assert key.isascii()


def test_strides_along_axes_of_one_element_mean_nothing(rng):
    for _ in range(ROUNDS // 4):
        lens = tuple(int(v) for v in rng.choice([1, 1, 2, 3], 4))
        strides = strides_of(lens, "".join(rng.permutation(list("NCHW"))))
        others = tuple(s if n > 1 else int(rng.integers(1, 1000)) for n, s in zip(lens, strides, strict=True))
        conv = ConvolutionDescriptor((0, 0))
        w = TensorDescriptor("float32", (5, lens[1], 1, 1))
        y = TensorDescriptor("float32", (lens[0], 5, *lens[2:]))
        a, b = (ConvProblem(0, TensorDescriptor("float32", lens, s), w, y, conv) for s in (strides, others))
        assert (find_key(a), perf_key(a)) == (find_key(b), perf_key(b))


def test_the_longest_keys(rng):
    big = 2**31 - 1
    conv = ConvolutionDescriptor((big,) * 3, (big,) * 3, (big,) * 3)
    lens = (2**6, 2**6, 2**6, 2**6, 2**6)
    strides = tuple(2**52 + int(v) for v in rng.integers(1, 2**50, 5))
    x = TensorDescriptor("int8", lens, strides)
    y = TensorDescriptor("int32", conv.output_lens(x, x))
    problem = ConvProblem(0, x, x, y, conv)
    assert 300 < len(find_key(problem)) < 1024
    assert 300 < len(perf_key(problem)) < 1024
    assert normal(parse_find_key(find_key(problem))) == normal(problem)
    most = 2**63 - 1
    key = f"{most}-1-1-1x1-1-1-1-1-0x0-1x1-1x1-0-NCHW-INT8-F".encode()
    assert find_key(parse_find_key(key)) == key


# Damaged and foreign keys

GOOD = b"64-27-28-5x5-192-27-28-512-2x2-1x1-1x1-0-NCHW-FP32-F"
DEEP = b"16-4-6-8-1x3x3-32-4-6-8-2-0x1x1-1x1x1-1x1x1-0-NDHWC-NDHWC-NDHWC-FP32-F_g4"


@pytest.mark.parametrize(("old", "new", "reason"), [
    (GOOD, b"256-14-14-4-1x1x1-1024-14-14-4-4-0x0-1x1x1-1x1x1-0-NCHW-FP32-B", "3-D filter beside 2-D pads"),
    (GOOD, b"", "number of fields"),
    (GOOD, b"-" * 14, "number of fields"),
    (b"-FP32-F", b"", "number of fields"),
    (b"2x2", b"2x2x2", "fields of different ranks"),
    (b"5x5", b"5", "number of fields"),
    (b"5x5", b"5x", "not a number"),
    (b"64", b"0x40", "not a number"),
    (b"64", b"-64", "number of fields"),
    (b"64", b"+64", "not a number"),
    (b"64", "٦٤".encode(), "not a number"),
    (b"64", b"0", "number is too small"),
    (b"64", b"064", "not how its problem is written"),
    (b"64", b"9223372036854775808", "number beyond 63 bits"),
    (b"512", b"9" * 5000, "number beyond 63 bits"),
    (b"64", b"10000000000000000000", "number beyond 63 bits"),  # small again without its last digit
    (b"64-27", b"4611686018427387904-27", "tensor beyond 63 bits"),
    (b"2x2", b"2x2147483648", "number beyond 31 bits"),
    (b"1x1-1x1", b"0x1-1x1", "number is too small"),
    (b"1x1-1x1", b"1x1-1x0", "number is too small"),
    (b"-0-NCHW", b"-1-NCHW", "bias"),
    (b"NCHW", b"NHWC", "not how its problem is written"),
    (b"NCHW", b"NCHW-NCHW-NCHW", "not how its problem is written"),
    (b"NCHW", b"NCHWc", "vectorised layout"),
    (b"NCHW", b"NCDHW", "layout of another rank"),
    (b"NCHW", b"NCWW", "unknown layout"),
    (b"NCHW", b"nchw", "unknown layout"),
    (b"NCHW", b"", "unknown layout"),
    (b"FP32", b"FP33", "unknown data type"),
    (b"FP32", b"FP32FP32", "unknown data type"),
    (b"FP32", b"FP32FP32FP32", "not how its problem is written"),
    (b"FP32", b"FP32FP16FP32", "data types that no convolution has together"),
    (b"FP32-F", b"INT32INT8INT8-F", "data types that no convolution has together"),
    (b"32-F", b"32-G", "unknown direction or suffix"),
    (b"32-F", b"32-F_x3", "unknown direction or suffix"),
    (b"32-F", b"32-F_g3", "channels not divisible by groups"),
    (b"32-F", b"32-F_g1", "not how its problem is written"),
    (b"32-F", b"32-F_g0", "number is too small"),
    (b"32-F", b"32-F_g4_ciFP8_cwFP8", "cast types"),
    (b"32-F", b"32-F_dim1", "two spatial axes in a problem of one"),
    (b"32-F", b"32-F_si9x9x9", "strides of another rank"),
    (b"32-F", b"32-F_si48384x756x28x1", "not how its problem is written"),
    (b"32-F", b"32-F_si48384x756x28xx", "strides of another rank"),
    (b"32-F", b"32-F_si0x756x28x1", "number is too small"),
    (b"32-F", b"32-F_si9223372036854775807x756x28x1", "tensor beyond 63 bits"),
    # 511 times this stride is 1 modulo 2^64.
    (b"32-F", b"32-F_si9205322385119247871x756x28x1", "tensor beyond 63 bits"),
    (b"32-F", b"32-F_o27x28", "not how its problem is written"),
    (b"32-F", b"32-F\n", "unknown direction or suffix"),
    (b"32-F", b"32-F\0", "unknown direction or suffix"),
])
def test_refusals(old, new, reason):
    with pytest.raises(BadParmError) as caught:
        parse_find_key(GOOD.replace(old, new))
    assert (caught.value.message, caught.value.parameter) == (reason, "key")
    assert isinstance(caught.value, ValueError)


def test_a_key_is_bytes():
    for read in (parse_find_key, parse_perf_key):
        for value in (GOOD.decode(), None, 3, bytearray(GOOD)):
            with pytest.raises(BadParmError, match="not bytes"):
                read(value)
    for write in (find_key, perf_key):
        with pytest.raises(TypeError):
            write(None)


def test_lengths_of_the_output_may_contradict_the_formula():
    """Old files have such keys; they are looked up, not run."""
    key = b"128-10-10-3x3-256-5-5-100-0x0-2x2-1x1-0-NCHW-BF16-F"
    assert find_key(parse_find_key(key)) == key
    perf = perf_key(parse_find_key(key))
    assert perf.endswith(b"_o5x5")
    assert find_key(parse_perf_key(perf)) == key


def test_damaged_keys_are_refused_or_name_what_they_say(rng):
    strange = list(b"0123456789xxx---_gdetimsowNCHWFPBT16\n\0;:=,.+ \xff\xc3")
    for seed in (GOOD, DEEP, find_key(random_problem(rng)), find_key(random_problem(rng))):
        for key, read, write in ((seed, parse_find_key, find_key),
                                 (perf_key(parse_find_key(seed)), parse_perf_key, perf_key)):
            texts = [key[:i] for i in range(len(key))] + [key[i:] for i in range(1, len(key))]
            for _ in range(ROUNDS // 2):
                damaged = bytearray(key)
                for _ in range(int(rng.integers(1, 4))):
                    at = int(rng.integers(len(damaged) + 1))
                    damaged[at:at + int(rng.integers(3))] = bytes(rng.choice(strange, int(rng.integers(3))).tolist())
                texts.append(bytes(damaged))
            accepted = 0
            for text in texts:
                try:
                    problem = read(text)
                except BadParmError:
                    continue
                assert write(problem) == text
                assert repr(problem)
                accepted += text != key
            assert accepted > 0  # or the damage never met a digit


@pytest.mark.parametrize(("key", "solver", "workspace"), [
    ("64-27-27-5x5-192-27-27-512-2x2-1x1-1x1-0-NCHW-FP32-F", "GemmFwdRest", 4665600),
    ("256-56-56-3x3-256-28-28-32-1x1-2x2-1x1-0-NCHW-FP32-F_g32", "GemmFwdRest", 7225344),
    ("2048-7-7-1x1-1024-13-13-2-0x0-2x2-1x1-0-NCHW-FP16-B", "GemmBwd1x1_stride2", 602112),
    ("128-1-28-28-1x1x1-512-1-28-28-256-0x0x0-1x1x1-1x1x1-0-NCDHW-FP32-B", "GemmBwd1x1_stride1", 0),
    ("1024-1-14-14-1x3x3-1024-1-14-14-1-0x1x1-1x1x1-1x1x1-0-NCDHW-FP16-B_g32", "GemmBwdRest", 7225344),
    ("1-1-1-3x3-2-3-3-128-0x0-2x2-1x1-0-NCHW-FP32-W", "GemmWrwUniversal", 72),
])
def test_workspaces_of_records(key, solver, workspace):
    """A problem out of a key is one to ask solvers about."""
    with miopyx.Handle("host") as host:
        assert registry.BY_NAME[solver].workspace_size(host.device, parse_find_key(key.encode())) == workspace
