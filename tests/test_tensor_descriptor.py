"""Tensor descriptors: what each function sets, returns and refuses, against strides that NumPy computes."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import miopyx
from miopyx import BadParmError, InvalidValueError, TensorDescriptor

BYTES = {"miopenHalf": 2, "miopenFloat": 4, "miopenInt32": 4, "miopenInt8": 1, "miopenBFloat16": 2,
         "miopenDouble": 8, "miopenFloat8": 1, "miopenBFloat8": 1, "miopenInt64": 8,
         "miopenFloat8_ocp": 1, "miopenBFloat8_ocp": 1}
TYPES = [getattr(miopyx, name) for name in BYTES]
INT_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
PLAIN = ("NCHW", "NHWC", "CHWN", "NCDHW", "NDHWC")
VECTORS = ("NCHWc4", "NCHWc8", "CHWNc4", "CHWNc8")


def created(*arguments):
    desc = miopyx.miopenCreateTensorDescriptor()
    if arguments:
        miopyx.miopenSetTensorDescriptor(desc, miopyx.miopenFloat, len(arguments), arguments, None)
    return desc


def packed(lens):
    return tuple(math.prod(lens[i + 1:]) for i in range(len(lens)))


def strides_in_order(order, lens):
    """Return the strides of a packed array whose axes lie in memory as `order` says; all in n c (d) h w order."""
    axes = ("ncdhw" if len(lens) == 5 else "nchw")
    length = dict(zip(axes, lens, strict=True))
    memory = np.empty([length[axis] for axis in order.lower()], "i1")
    step = dict(zip(order.lower(), memory.strides, strict=True))
    return tuple(step[axis] for axis in axes)


def test_new_descriptor_is_empty():
    desc = created()
    assert isinstance(desc, TensorDescriptor)
    assert miopyx.miopenGetTensorDescriptorSize(desc) == 0
    assert miopyx.miopenGetTensorDescriptor(desc) == (miopyx.miopenFloat, (), ())
    assert (desc.ndim, desc.lens, desc.strides, desc.nbytes, desc.layout) == (0, (), (), 0, None)
    assert repr(desc) == "<TensorDescriptor never set>"
    for read in (miopyx.miopenGetTensorNumBytes, miopyx.miopenGet4dTensorDescriptor):
        with pytest.raises(BadParmError):
            read(desc)
    with pytest.raises(BadParmError):
        miopyx.miopenSetTensorCastType(desc, miopyx.miopenFloat8)


@pytest.mark.parametrize("data_type", TYPES, ids=lambda t: t.name)
def test_4d(data_type):
    desc = created()
    assert miopyx.miopenSet4dTensorDescriptor(desc, data_type, 2, 3, 5, 7) is None
    assert miopyx.miopenGet4dTensorDescriptor(desc) == (data_type, 2, 3, 5, 7, 105, 35, 7, 1)
    assert miopyx.miopenGetTensorDescriptor(desc) == (data_type, (2, 3, 5, 7), (105, 35, 7, 1))
    assert miopyx.miopenGetTensorDescriptor(desc)[0] is data_type
    assert miopyx.miopenGetTensorDescriptorSize(desc) == 4
    assert miopyx.miopenGetTensorNumBytes(desc) == 210 * BYTES[data_type.name]
    assert (desc.packed, desc.layout, desc.data_type) == (True, miopyx.miopenTensorNCHW, data_type)


def test_4d_with_strides():
    desc = created()
    miopyx.miopenSet4dTensorDescriptorEx(desc, miopyx.miopenHalf, 2, 3, 5, 7, 1000, 1, 30, 4)
    assert miopyx.miopenGet4dTensorDescriptor(desc) == (miopyx.miopenHalf, 2, 3, 5, 7, 1000, 1, 30, 4)
    assert miopyx.miopenGetTensorNumBytes(desc) == 2 * (1000 + 2 + 120 + 24 + 1)
    assert not desc.packed
    assert desc.layout == miopyx.miopenTensorNHWC


@pytest.mark.parametrize("rank", range(1, 9))
@pytest.mark.parametrize("setter", [miopyx.miopenSetTensorDescriptor, miopyx.miopenSetTensorDescriptorV2])
def test_any_rank(setter, rank, seed):
    lens = tuple(random.Random(seed).choices(range(1, 20), k=rank))
    desc = created()
    setter(desc, miopyx.miopenDouble, rank, lens, None)
    assert miopyx.miopenGetTensorDescriptor(desc) == (miopyx.miopenDouble, lens, packed(lens))
    assert miopyx.miopenGetTensorDescriptorSize(desc) == rank
    assert miopyx.miopenGetTensorNumBytes(desc) == 8 * math.prod(lens)
    assert desc.packed


def test_strides_may_overlap_and_lie_in_any_order(seed):
    """Bytes are counted by visiting every element."""
    numbers = random.Random(seed)
    for _ in range(300):
        rank = numbers.randint(1, 5)
        lens = [numbers.randint(1, 4) for _ in range(rank)]
        strides = [numbers.randint(1, 40) for _ in range(rank)]
        desc = TensorDescriptor("int32", lens, strides)
        offsets = {sum(i * s for i, s in zip(index, strides, strict=True))
                   for index in itertools.product(*map(range, lens))}
        assert miopyx.miopenGetTensorDescriptor(desc) == (miopyx.miopenInt32, tuple(lens), tuple(strides))
        assert miopyx.miopenGetTensorNumBytes(desc) == desc.nbytes == 4 * (max(offsets) + 1)
        assert desc.packed == (max(offsets) + 1 == math.prod(lens))


@pytest.mark.parametrize("name", PLAIN)
def test_layout(name, seed):
    layout = getattr(miopyx, "miopenTensor" + name)
    numbers = random.Random(seed)
    for _ in range(50):
        lens = tuple(numbers.choices(range(2, 12), k=len(name)))
        desc = created()
        miopyx.miopenSetNdTensorDescriptorWithLayout(desc, miopyx.miopenFloat, layout, lens, len(lens))
        strides = strides_in_order(name, lens)
        assert miopyx.miopenGetTensorDescriptor(desc) == (miopyx.miopenFloat, lens, strides)
        assert miopyx.miopenGetTensorNumBytes(desc) == 4 * math.prod(lens)
        assert desc.packed
        assert desc.layout == layout
        again = TensorDescriptor("float32", lens, layout=layout)
        assert (again.lens, again.strides) == (lens, strides)


@pytest.mark.parametrize("name", VECTORS)
def test_vectorised_layout(name, seed):
    """c4 and c8 keep a vector of channels innermost, which the strides count; CHWNc4 also hands out c h w n."""
    order, vector = name[:4], int(name[-1])
    numbers = random.Random(seed)
    for _ in range(50):
        n, c, h, w = numbers.choices(range(1, 9), k=4)
        desc = created()
        layout = getattr(miopyx, "miopenTensor" + name)
        miopyx.miopenSetNdTensorDescriptorWithLayout(desc, miopyx.miopenInt8, layout, (n, c * vector, h, w), 4)
        lens = dict(n=n, c=c, h=h, w=w)
        strides = dict(zip("nchw", strides_in_order(order, (n, c, h, w)), strict=True))
        kept = order.lower()
        assert desc.lens == tuple(lens[axis] for axis in kept)
        assert desc.strides == tuple(vector * strides[axis] for axis in kept)
        assert miopyx.miopenGetTensorNumBytes(desc) == n * c * vector * h * w
        assert desc.packed


@pytest.mark.parametrize("name", VECTORS)
def test_vectorised_layout_needs_whole_vectors(name):
    for channels in (1, 2, 3, 5, 6, 7, 9, int(name[-1]) // 2, 0, -4, -8):
        desc = created(5, 6)
        with pytest.raises(BadParmError):
            miopyx.miopenSetNdTensorDescriptorWithLayout(
                desc, miopyx.miopenInt8, getattr(miopyx, "miopenTensor" + name), (1, channels, 1, 1), 4)
        assert desc.lens == (5, 6)


def expected_layout(strides):
    for name in ("NCHW", "NHWC", "NCDHW", "NDHWC", "CHWN"):
        if len(name) == len(strides):
            axes = "NCDHW" if len(name) == 5 else "NCHW"
            ordered = [strides[axes.index(axis)] for axis in name]
            if ordered == sorted(ordered, reverse=True):
                return getattr(miopyx, "miopenTensor" + name)
    return None


def test_layout_of_strides(seed):
    numbers = random.Random(seed)
    for _ in range(2000):
        rank = numbers.choice((1, 2, 3, 4, 4, 5, 5, 6))
        strides = tuple(numbers.choices((1, 2, 6, 6, 24), k=rank))
        assert TensorDescriptor("int8", (2,) * rank, strides).layout == expected_layout(strides)


# Refusals


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("length", [0, -1, -2**31])
def test_lengths_below_zero_and_strides_below_one(place, length):
    lens = [2, 3, 4, 5]
    lens[place] = length
    desc = created(5, 6)
    as_strides = (
        lambda: miopyx.miopenSet4dTensorDescriptorEx(desc, 1, 2, 3, 4, 5, *lens),
        lambda: miopyx.miopenSetTensorDescriptor(desc, 1, 4, [2, 3, 4, 5], lens),
        lambda: miopyx.miopenSetTensorDescriptorV2(desc, 1, 4, [2, 3, 4, 5], lens),
    )
    as_lengths = (
        lambda: miopyx.miopenSet4dTensorDescriptor(desc, 1, *lens),
        lambda: miopyx.miopenSet4dTensorDescriptorEx(desc, 1, *lens, 60, 20, 5, 1),
        lambda: miopyx.miopenSetTensorDescriptor(desc, 1, 4, lens, None),
        lambda: miopyx.miopenSetTensorDescriptorV2(desc, 1, 4, lens, None),
        lambda: miopyx.miopenSetNdTensorDescriptorWithLayout(desc, 1, miopyx.miopenTensorNHWC, lens, 4),
        lambda: miopyx.miopenSetNdTensorDescriptorWithLayout(desc, 1, miopyx.miopenTensorNCHW, lens, 4),
    )
    for call in (*as_strides, *(as_lengths if length < 0 else ())):
        with pytest.raises(BadParmError) as raised:
            call()
        assert raised.value.limit == (">= 1" if call in as_strides else ">= 0")
    assert miopyx.miopenGetTensorDescriptor(desc) == (miopyx.miopenFloat, (5, 6), (6, 1))


@pytest.mark.parametrize(("call", "parameter"), [
    (lambda: TensorDescriptor("float32", (1, -2)), "lens[1]"),
    (lambda: TensorDescriptor("float32", (1, "x")), "lens[1]"),
    (lambda: TensorDescriptor("float32", (1, 2), (0, 1)), "strides[0]"),
    (lambda: TensorDescriptor("float32", (1, 2), (1,)), "strides"),
    (lambda: TensorDescriptor("float32", (1 << 40, 1 << 40)), "lens"),
    (lambda: TensorDescriptor("float32", ()), "lens"),
    (lambda: TensorDescriptor("float32", (1,) * 9), "lens"),
    (lambda: TensorDescriptor("what", (1,)), "data_type"),
    (lambda: TensorDescriptor("int8", (1, 3, 1, 1), layout="NCHWc4"), "lens[1]"),
    (lambda: TensorDescriptor("float32", (1, 3, 1), layout="NCHW"), "lens"),
    (lambda: TensorDescriptor("float32", (1, 3, 1, 1), layout=99), "layout"),
    (lambda: miopyx.miopenSetTensorDescriptor(created(1), 1, 2, (1, -1), None), "dimsA[1]"),
    (lambda: miopyx.miopenSetTensorDescriptor(created(1), 1, 2, (1, 1), (1, 0)), "stridesA[1]"),
    (lambda: miopyx.miopenSetTensorDescriptor(created(1), 1, 2, (1, 1 << 40), None), "dimsA[1]"),
    (lambda: miopyx.miopenSetTensorDescriptorV2(created(1), 1, 2, (1 << 40, 1 << 40), (1, 1)), "dimsA"),
    (lambda: miopyx.miopenSetNdTensorDescriptorWithLayout(created(1), 1, "NCHW", (1, 1, 1, -1), 4), "lens[3]"),
    (lambda: miopyx.miopenSet4dTensorDescriptor(created(1), 1, 1, 1, -1, 1), "h"),
    (lambda: miopyx.miopenSet4dTensorDescriptorEx(created(1), 1, 1, 1, 1, 1, 1, 0, 1, 1), "cStride"),
    (lambda: miopyx.miopenSet4dTensorDescriptorEx(created(1), 1, 1, -1, 1, 1, 1, 1, 1, 1), "c"),
])
def test_errors_have_the_names_of_who_was_called(call, parameter):
    with pytest.raises((BadParmError, InvalidValueError)) as raised:
        call()
    assert raised.value.parameter == parameter
    assert raised.value.limit is not None


@pytest.mark.parametrize("setter", [miopyx.miopenSetTensorDescriptor, miopyx.miopenSetTensorDescriptorV2])
def test_number_of_dimensions(setter):
    desc = created(5, 6)
    for count in (0, -1, -2**31):
        with pytest.raises(InvalidValueError) as raised:
            setter(desc, 1, count, [], None)
        assert (raised.value.parameter, raised.value.value) == ("nbDims", count)
    for count in (9, 100, INT_MAX):
        with pytest.raises(BadParmError) as raised:
            setter(desc, 1, count, [1] * min(count, 100), None)
        assert (raised.value.parameter, raised.value.limit) == ("nbDims", "1 ... 8")
    with pytest.raises(InvalidValueError) as raised:
        setter(desc, 1, 2, None, None)
    assert raised.value.parameter == "dimsA"
    for dims, strides in (([1, 2, 3], None), ([1], None), ([1, 2], [1]), ([1, 2], [1, 2, 3])):
        with pytest.raises(BadParmError):
            setter(desc, 1, 2, dims, strides)
    assert desc.lens == (5, 6)


@pytest.mark.parametrize("layout", miopyx.miopenTensorLayout_t, ids=lambda m: m.name)
def test_layout_needs_its_number_of_dimensions(layout):
    right = 5 if layout in (miopyx.miopenTensorNCDHW, miopyx.miopenTensorNDHWC) else 4
    desc = created(5, 6)
    for count in set(range(1, 9)) - {right}:
        with pytest.raises(BadParmError) as raised:
            miopyx.miopenSetNdTensorDescriptorWithLayout(desc, 1, layout, [8] * count, count)
        assert raised.value.limit == right
    for lens, count in ((None, right), ([], 0), ([8] * right, 0), ([8] * right, -3)):
        with pytest.raises(InvalidValueError):
            miopyx.miopenSetNdTensorDescriptorWithLayout(desc, 1, layout, lens, count)
    with pytest.raises(BadParmError):
        miopyx.miopenSetNdTensorDescriptorWithLayout(desc, 1, layout, [8] * (right - 1), right)
    assert desc.lens == (5, 6)
    miopyx.miopenSetNdTensorDescriptorWithLayout(desc, 1, layout, [8] * right, right)


@pytest.mark.parametrize("layout", [-1, 9, 100, None, "NCWH", 1.0, True])
def test_unknown_layout(layout):
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenSetNdTensorDescriptorWithLayout(created(), 1, layout, [1, 1, 1, 1], 4)
    assert raised.value.parameter == "tensorLayout"


@pytest.mark.parametrize("desc", [None, 0, "desc", miopyx.ConvolutionDescriptor(), object(), TensorDescriptor])
def test_no_descriptor(desc):
    for call in (
        lambda: miopyx.miopenSet4dTensorDescriptor(desc, 1, 1, 1, 1, 1),
        lambda: miopyx.miopenSet4dTensorDescriptorEx(desc, 1, 1, 1, 1, 1, 1, 1, 1, 1),
        lambda: miopyx.miopenSetNdTensorDescriptorWithLayout(desc, 1, 0, [1, 1, 1, 1], 4),
        lambda: miopyx.miopenSetTensorDescriptor(desc, 1, 1, [1], None),
        lambda: miopyx.miopenSetTensorDescriptorV2(desc, 1, 1, [1], None),
        lambda: miopyx.miopenSetTensorCastType(desc, 7),
        lambda: miopyx.miopenGet4dTensorDescriptor(desc),
        lambda: miopyx.miopenGetTensorDescriptor(desc),
        lambda: miopyx.miopenGetTensorDescriptorSize(desc),
        lambda: miopyx.miopenGetTensorNumBytes(desc),
    ):
        with pytest.raises(BadParmError) as raised:
            call()
        assert raised.value.parameter == "tensorDesc"
    if desc is not None:
        with pytest.raises(BadParmError):
            miopyx.miopenDestroyTensorDescriptor(desc)


@pytest.mark.parametrize("lens", [(1,), (2, 3), (2, 3, 4), (2, 3, 4, 5, 6)])
def test_4d_getter_wants_four_dimensions(lens):
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenGet4dTensorDescriptor(created(*lens))
    assert (raised.value.value, raised.value.limit) == (len(lens), 4)


def test_cast_type():
    desc = created(2, 3)
    for data_type in TYPES:
        assert miopyx.miopenSetTensorCastType(desc, data_type) is None
    assert miopyx.miopenGetTensorDescriptor(desc) == (miopyx.miopenFloat, (2, 3), (3, 1))
    for wrong in (4, 10, -1):
        with pytest.raises(BadParmError) as raised:
            miopyx.miopenSetTensorCastType(desc, wrong)
        assert raised.value.parameter == "cast_type"


def test_cast_type_is_not_computed_with():
    x, w, y = created(1, 1, 2, 2), created(1, 1, 1, 1), created(1, 1, 2, 2)
    miopyx.miopenSetTensorCastType(x, miopyx.miopenFloat8)
    with miopyx.Handle("host") as handle, pytest.raises(miopyx.MIOpenNotImplementedError):
        miopyx.miopenConvolutionForwardGetSolutionCount(handle, w, x, miopyx.ConvolutionDescriptor(), y)
    # Setting the tensor anew drops its cast type.
    miopyx.miopenSet4dTensorDescriptor(x, miopyx.miopenFloat, 1, 1, 2, 2)
    with miopyx.Handle("host") as handle:
        assert miopyx.miopenConvolutionForwardGetSolutionCount(handle, w, x, miopyx.ConvolutionDescriptor(), y) > 0


def test_destroy():
    assert miopyx.miopenDestroyTensorDescriptor(None) is None
    desc = created(1, 2, 3, 4)
    assert miopyx.miopenDestroyTensorDescriptor(desc) is None
    for use in (
        miopyx.miopenGet4dTensorDescriptor,
        miopyx.miopenGetTensorDescriptor,
        miopyx.miopenGetTensorDescriptorSize,
        miopyx.miopenGetTensorNumBytes,
        lambda d: miopyx.miopenSetTensorCastType(d, 7),
        lambda d: miopyx.miopenSet4dTensorDescriptor(d, 1, 1, 1, 1, 1),
        lambda d: miopyx.miopenSetTensorDescriptor(d, 1, 1, [1], None),
    ):
        with pytest.raises(BadParmError):
            use(desc)


# Sizes


def test_sizes_of_32_bits():
    desc = created()
    miopyx.miopenSet4dTensorDescriptor(desc, miopyx.miopenInt8, 1, 1, INT_MAX, INT_MAX)
    assert miopyx.miopenGet4dTensorDescriptor(desc)[5:] == (INT_MAX**2, INT_MAX**2, INT_MAX, 1)
    assert miopyx.miopenGetTensorNumBytes(desc) == INT_MAX**2
    miopyx.miopenSet4dTensorDescriptorEx(desc, miopyx.miopenInt8, 1, 1, 2, INT_MAX, 1, 1, INT_MAX, INT_MAX)
    assert miopyx.miopenGetTensorNumBytes(desc) == INT_MAX + (INT_MAX - 1) * INT_MAX + 1
    for dims, strides in (([2**31], None), ([1], [2**31])):
        with pytest.raises(BadParmError):
            miopyx.miopenSetTensorDescriptor(desc, 1, 1, dims, strides)


def test_sizes_of_64_bits():
    desc = created()
    miopyx.miopenSetTensorDescriptorV2(desc, miopyx.miopenInt8, 1, [INT64_MAX], None)
    assert miopyx.miopenGetTensorDescriptor(desc)[1:] == ((INT64_MAX,), (1,))
    assert miopyx.miopenGetTensorNumBytes(desc) == INT64_MAX
    miopyx.miopenSetTensorDescriptorV2(desc, miopyx.miopenHalf, 3, [2**20, 2**20, 2**20], None)
    assert desc.strides == (2**40, 2**20, 1)
    assert miopyx.miopenGetTensorNumBytes(desc) == 2**61
    miopyx.miopenSetTensorDescriptorV2(desc, miopyx.miopenFloat, 2, [2, 3], [2**60, 2**33])
    assert miopyx.miopenGetTensorNumBytes(desc) == 4 * (2**60 + 2**34 + 1)
    miopyx.miopenSetTensorDescriptorV2(desc, miopyx.miopenFloat, 1, [1], [INT64_MAX])
    assert miopyx.miopenGetTensorNumBytes(desc) == 4


@pytest.mark.parametrize(("data_type", "dims", "strides"), [
    ("int8", [2**32, 2**31], None), ("int8", [2**63], None), ("int8", [2**21] * 3, None),
    ("float16", [2**62], None), ("float64", [2**60], None), ("int8", [3], [2**62]), ("int8", [2, 2], [2**62, 2**62]),
    ("int8", [INT64_MAX, 2], [1, 1]), ("int8", [INT64_MAX, 1], [2, 1]), ("float64", [2], [2**60]),
    ("int8", [2**32, 2**31], [1, 1]), ("int8", [2], [2**63 - 1]), ("int8", [1] * 7 + [2**64], None),
])
def test_sizes_beyond_64_bits(data_type, dims, strides):
    desc = created(5, 6)
    with pytest.raises(BadParmError):
        miopyx.miopenSetTensorDescriptorV2(desc, data_type, len(dims), dims, strides)
    assert miopyx.miopenGetTensorDescriptor(desc) == (miopyx.miopenFloat, (5, 6), (6, 1))


@pytest.mark.parametrize("lens", [(INT_MAX,) * 4, (2**16,) * 4, (1, INT_MAX, INT_MAX, 4), (INT_MAX, 4, INT_MAX, 1)])
def test_sizes_of_4d_beyond_64_bits(lens):
    desc = created(5, 6)
    for call in (
        lambda: miopyx.miopenSet4dTensorDescriptor(desc, miopyx.miopenInt8, *lens),
        lambda: miopyx.miopenSetTensorDescriptor(desc, miopyx.miopenInt8, 4, lens, None),
        lambda: miopyx.miopenSetNdTensorDescriptorWithLayout(desc, miopyx.miopenInt8, 1, lens, 4),
    ):
        with pytest.raises(BadParmError):
            call()
    assert desc.lens == (5, 6)


@given(st.sampled_from(TYPES),
       st.lists(st.tuples(st.integers(1, 2**70), st.integers(1, 2**70)), min_size=1, max_size=8))
def test_set_then_get(data_type, pairs):
    lens, strides = zip(*pairs, strict=True)
    size = BYTES[data_type.name]
    space = sum((length - 1) * stride for length, stride in pairs) + 1
    desc = created(5, 6)
    fits = max(*lens, *strides, size * space, size * math.prod(lens)) <= INT64_MAX
    if fits:
        miopyx.miopenSetTensorDescriptorV2(desc, data_type, len(lens), lens, strides)
        assert miopyx.miopenGetTensorDescriptor(desc) == (data_type, lens, strides)
        assert miopyx.miopenGetTensorNumBytes(desc) == size * space
    else:
        with pytest.raises(BadParmError):
            miopyx.miopenSetTensorDescriptorV2(desc, data_type, len(lens), lens, strides)
        assert desc.lens == (5, 6)


@given(st.sampled_from(TYPES), st.lists(st.integers(1, 300), min_size=4, max_size=4),
       st.lists(st.integers(1, INT_MAX), min_size=4, max_size=4))
def test_set_then_get_4d(data_type, lens, strides):
    desc = created()
    miopyx.miopenSet4dTensorDescriptorEx(desc, data_type, *lens, *strides)
    assert miopyx.miopenGet4dTensorDescriptor(desc) == (data_type, *lens, *strides)


# The Pythonic face


def test_constructor():
    assert TensorDescriptor().ndim == 0
    desc = TensorDescriptor("bfloat16", (2, 3, 4, 5))
    assert (desc.dtype, desc.data_type, desc.strides) == ("bfloat16", miopyx.miopenBFloat16, (60, 20, 5, 1))
    assert repr(desc) == "TensorDescriptor('bfloat16', (2, 3, 4, 5), strides=(60, 20, 5, 1))"
    desc = TensorDescriptor(data_type="int8", lens=[2, 3], strides=[1, 2])
    assert (desc.lens, desc.strides, desc.nbytes, desc.packed) == ((2, 3), (1, 2), 6, True)
    assert TensorDescriptor("int8", [2**40]).nbytes == 2**40


@pytest.mark.parametrize(("arguments", "error"), [
    (dict(lens=(1, 2)), BadParmError), (dict(strides=(1, 2)), BadParmError), (dict(layout=0), BadParmError),
    (dict(data_type=1), BadParmError), (dict(data_type=1, strides=[1]), BadParmError),
    (dict(data_type=1, lens=[1, 1, 1, 1], strides=[1, 1, 1, 1], layout=0), BadParmError),
    (dict(data_type=1, lens=[1, 2], strides=[1]), BadParmError), (dict(data_type=1, lens=5), BadParmError),
    (dict(data_type=1, lens=[1] * 9), BadParmError), (dict(data_type=1, lens=[-1]), BadParmError),
    (dict(data_type=1, lens=[1] * 5, layout=0), BadParmError), (dict(data_type=4, lens=[1]), BadParmError),
    (dict(data_type=1, lens=[]), InvalidValueError), (dict(foo=1), TypeError),
])
def test_constructor_refuses(arguments, error):
    with pytest.raises(error):
        TensorDescriptor(**arguments)


def test_attributes_are_read_only():
    desc = TensorDescriptor("int8", (2, 3))
    for name in ("ndim", "data_type", "dtype", "lens", "strides", "nbytes", "packed", "layout", "new"):
        with pytest.raises(AttributeError):
            setattr(desc, name, 1)
