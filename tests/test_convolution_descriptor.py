"""Convolution descriptors: what each function sets, returns and refuses; output lengths against a second formula."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import miopyx
from miopyx import BadParmError, ConvolutionDescriptor, TensorDescriptor, UnknownError
from miopyx.problem._problem import ConvProblem

INT_MAX = 2**31 - 1
CONVOLUTION, TRANSPOSE = miopyx.miopenConvolution, miopyx.miopenTranspose


def created(spatial=2, mode=CONVOLUTION, pad=0, stride=1, dilation=1):
    desc = miopyx.miopenCreateConvolutionDescriptor()
    miopyx.miopenInitConvolutionNdDescriptor(
        desc, spatial, [pad] * spatial, [stride] * spatial, [dilation] * spatial, mode)
    return desc


def tensor(*lens, data_type="float32"):
    return TensorDescriptor(data_type, lens)


def state(desc):
    return (desc.spatial_dim, desc.pads, desc.strides, desc.dilations, desc.output_pads, desc.group_count,
            desc.convolution_mode, desc.find_mode,
            *[miopyx.miopenGetConvolutionAttribute(desc, a) for a in miopyx.miopenConvolutionAttrib_t])


DEFAULT = (2, (0, 0), (1, 1), (1, 1), (0, 0), 1, CONVOLUTION, None, -1, 0, 1, 1)


def test_new_descriptor():
    desc = miopyx.miopenCreateConvolutionDescriptor()
    assert isinstance(desc, ConvolutionDescriptor)
    assert state(desc) == DEFAULT
    assert miopyx.miopenGetConvolutionDescriptor(desc) == (CONVOLUTION, 0, 0, 1, 1, 1, 1)
    assert miopyx.miopenGetConvolutionSpatialDim(desc) == 2
    assert miopyx.miopenGetConvolutionGroupCount(desc) == 1
    assert miopyx.miopenGetConvolutionFindMode(desc) == miopyx.miopenConvolutionFindModeDynamicHybrid


def test_init_2d():
    desc = miopyx.miopenCreateConvolutionDescriptor()
    assert miopyx.miopenInitConvolutionDescriptor(desc, TRANSPOSE, 0, 1, 2, 3, 4, 5) is None
    assert miopyx.miopenGetConvolutionDescriptor(desc) == (TRANSPOSE, 0, 1, 2, 3, 4, 5)
    assert miopyx.miopenGetConvolutionNdDescriptor(desc, 2) == (2, (0, 1), (2, 3), (4, 5), TRANSPOSE)
    assert type(miopyx.miopenGetConvolutionDescriptor(desc)[0]) is miopyx.miopenConvolutionMode_t


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_init_nd(spatial):
    pads, strides, dilations = [0, 1, 2][:spatial], (3, 4, 5)[:spatial], range(6, 6 + spatial)
    desc = miopyx.miopenCreateConvolutionDescriptor()
    assert miopyx.miopenInitConvolutionNdDescriptor(desc, spatial, pads, strides, dilations, TRANSPOSE) is None
    full = (spatial, tuple(pads), strides, tuple(dilations), TRANSPOSE)
    assert miopyx.miopenGetConvolutionSpatialDim(desc) == spatial
    for requested in range(spatial + 1):
        assert miopyx.miopenGetConvolutionNdDescriptor(desc, requested) == (
            spatial, *[part[:requested] for part in full[1:4]], TRANSPOSE)
    for requested in (spatial + 1, 100, INT_MAX):
        with pytest.raises(UnknownError) as raised:
            miopyx.miopenGetConvolutionNdDescriptor(desc, requested)
        assert (raised.value.value, raised.value.limit) == (requested, spatial)
    with pytest.raises(BadParmError):
        miopyx.miopenGetConvolutionNdDescriptor(desc, -1)


@pytest.mark.parametrize(("given_mode", "kept"), [
    (miopyx.miopenConvolution, CONVOLUTION), (miopyx.miopenTranspose, TRANSPOSE),
    (miopyx.miopenGroupConv, CONVOLUTION), (miopyx.miopenDepthwise, CONVOLUTION), (1, TRANSPOSE),
])
def test_modes(given_mode, kept):
    for desc in (created(2, given_mode), created(3, given_mode)):
        assert miopyx.miopenGetConvolutionNdDescriptor(desc, 0)[-1] is kept
    desc = miopyx.miopenCreateConvolutionDescriptor()
    miopyx.miopenInitConvolutionDescriptor(desc, given_mode, 0, 0, 1, 1, 1, 1)
    assert miopyx.miopenGetConvolutionDescriptor(desc)[0] is kept


def test_init_starts_over():
    """In MIOpen it assigns a new descriptor: nothing of the old one is left."""
    desc = created(3, TRANSPOSE, 1, 3, 2)
    for again in (
        lambda: miopyx.miopenInitConvolutionDescriptor(desc, CONVOLUTION, 0, 0, 1, 1, 1, 1),
        lambda: miopyx.miopenInitConvolutionNdDescriptor(desc, 2, [0, 0], [1, 1], [1, 1], CONVOLUTION),
    ):
        miopyx.miopenSetConvolutionGroupCount(desc, 4)
        miopyx.miopenSetTransposeConvNdOutputPadding(desc, desc.spatial_dim, [2] * desc.spatial_dim)
        miopyx.miopenSetConvolutionAttribute(desc, miopyx.MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1)
        miopyx.miopenSetConvolutionFindMode(desc, miopyx.miopenConvolutionFindModeFast)
        again()
        assert state(desc) == DEFAULT


@pytest.mark.parametrize(("place", "value"), [
    (0, -1), (0, 4), (0, 100), (0, None), (0, "convex"), *[(i, -1) for i in range(1, 7)],
    *[(i, 0) for i in range(3, 7)],
    *[(i, -2**31) for i in range(1, 7)], *[(i, 2**31) for i in range(7)], (1, None), (3, 1.0), (5, True),
])
def test_init_refuses_and_keeps_the_old_state(place, value):
    arguments = [CONVOLUTION, 0, 0, 1, 1, 1, 1]
    arguments[place] = value
    mode, pads, strides, dilations = arguments[0], arguments[1:3], arguments[3:5], arguments[5:]
    desc = created(3, TRANSPOSE, 1, 3, 2)
    miopyx.miopenSetConvolutionGroupCount(desc, 4)
    miopyx.miopenSetTransposeConvNdOutputPadding(desc, 3, [0, 1, 2])
    before = state(desc)
    for call in (
        lambda: miopyx.miopenInitConvolutionDescriptor(desc, *arguments),
        lambda: miopyx.miopenInitConvolutionNdDescriptor(desc, 2, pads, strides, dilations, mode),
        lambda: ConvolutionDescriptor(pads, strides, dilations, mode),
    ):
        with pytest.raises(BadParmError) as raised:
            call()
        assert raised.value.parameter
    assert state(desc) == before


@pytest.mark.parametrize(("call", "parameter"), [
    (lambda: ConvolutionDescriptor((0, -1)), "pads[1]"),
    (lambda: ConvolutionDescriptor((0, 0), end_pads=(-1, 0)), "end_pads[0]"),
    (lambda: ConvolutionDescriptor(strides=(1, 0)), "strides[1]"),
    (lambda: ConvolutionDescriptor(dilations=(1, "x")), "dilations[1]"),
    (lambda: ConvolutionDescriptor((1, 1), strides=(1,)), "strides"),
    (lambda: ConvolutionDescriptor(strides=(1,) * 9), "strides"),
    (lambda: ConvolutionDescriptor(mode=9), "mode"),
    (lambda: ConvolutionDescriptor(groups=0), "groups"),
    (lambda: ConvolutionDescriptor(output_pads=(0, -1)), "output_pads[1]"),
    (lambda: miopyx.miopenInitConvolutionNdDescriptor(created(), 2, (0, -1), (1, 1), (1, 1), 0), "padA[1]"),
    (lambda: miopyx.miopenInitConvolutionNdDescriptor(created(), 2, (0, 0), (0, 1), (1, 1), 0), "strideA[0]"),
    (lambda: miopyx.miopenInitConvolutionNdDescriptor(created(), 2, (0, 0), (1, 1), (1, 2.5), 0), "dilationA[1]"),
    (lambda: miopyx.miopenInitConvolutionNdDescriptor(created(), 2, (0, 0), (1, 1), (1, 1), 0, endPadA=(0, -1)),
     "endPadA[1]"),
    (lambda: miopyx.miopenInitConvolutionDescriptor(created(), 0, 0, -1, 1, 1, 1, 1), "pad_w"),
    (lambda: miopyx.miopenInitConvolutionDescriptor(created(), 0, 0, 0, 0, 1, 1, 1), "stride_h"),
    (lambda: miopyx.miopenInitConvolutionDescriptor(created(), 0, 0, 0, 1, 1, 1, 0), "dilation_w"),
    (lambda: miopyx.miopenSetTransposeConvOutputPadding(created(), 0, -1), "adj_w"),
    (lambda: miopyx.miopenSetTransposeConvNdOutputPadding(created(), 2, (-1, 0)), "adjA[0]"),
    (lambda: created().output_lens(tensor(1, 1, 0, 1), tensor(1, 1, 1, 1)), "x.lens[2]"),
    (lambda: created().output_lens(tensor(1, 2, 1, 1), tensor(1, 1, 1, 1)), "w"),
    (lambda: created().output_lens(tensor(1, 1, 1, 1), None), "w"),
])
def test_errors_have_the_names_of_who_was_called(call, parameter):
    with pytest.raises(BadParmError) as raised:
        call()
    assert raised.value.parameter == parameter
    assert raised.value.limit is not None


@pytest.mark.parametrize("spatial", [0, -1, 4, 100, INT_MAX, -2**31, None, 2.0])
def test_number_of_spatial_dimensions(spatial):
    desc = created(3)
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenInitConvolutionNdDescriptor(desc, spatial, [0] * 4, [1] * 4, [1] * 4, CONVOLUTION)
    assert raised.value.parameter == "spatialDim"
    assert desc.spatial_dim == 3


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("values", [None, [], [1], [1, 1, 1], 1, "11"])
def test_init_nd_wants_arrays(place, values):
    arrays = [[1, 1], [1, 1], [1, 1]]
    arrays[place] = values
    desc = created(3)
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenInitConvolutionNdDescriptor(desc, 2, *arrays, CONVOLUTION)
    assert raised.value.parameter == ("padA", "strideA", "dilationA")[place]
    assert desc.spatial_dim == 3


@pytest.mark.parametrize("spatial", [1, 3])
def test_2d_functions_want_2d(spatial):
    desc = created(spatial)
    x = tensor(*[1] * (spatial + 2))
    for call in (
        lambda: miopyx.miopenGetConvolutionDescriptor(desc),
        lambda: miopyx.miopenSetTransposeConvOutputPadding(desc, 0, 0),
        lambda: miopyx.miopenGetConvolutionForwardOutputDim(desc, x, x),
    ):
        with pytest.raises(UnknownError):
            call()


def test_group_count():
    desc = created()
    for count in (1, 2, 32, INT_MAX):
        assert miopyx.miopenSetConvolutionGroupCount(desc, count) is None
        assert miopyx.miopenGetConvolutionGroupCount(desc) == count
    for count in (0, -1, -2**31):
        with pytest.raises(BadParmError) as raised:
            miopyx.miopenSetConvolutionGroupCount(desc, count)
        assert (raised.value.parameter, raised.value.value) == ("groupCount", count)
    assert miopyx.miopenGetConvolutionGroupCount(desc) == INT_MAX


def test_output_padding():
    desc = created()
    assert miopyx.miopenSetTransposeConvOutputPadding(desc, 3, 4) is None  # limited by the strides only when used
    assert desc.output_pads == (3, 4)
    assert miopyx.miopenSetTransposeConvNdOutputPadding(desc, 2, [1, 2]) is None
    assert desc.output_pads == (1, 2)
    for spatial in (1, 3, 0, -1):
        with pytest.raises(UnknownError) as raised:
            miopyx.miopenSetTransposeConvNdOutputPadding(desc, spatial, [0] * 3)
        assert (raised.value.value, raised.value.limit) == (spatial, 2)
    for call in (
        lambda: miopyx.miopenSetTransposeConvOutputPadding(desc, 0, -1),
        lambda: miopyx.miopenSetTransposeConvOutputPadding(desc, -1, 0),
        lambda: miopyx.miopenSetTransposeConvOutputPadding(desc, 0, 2**31),
        lambda: miopyx.miopenSetTransposeConvNdOutputPadding(desc, 2, [0, -1]),
        lambda: miopyx.miopenSetTransposeConvNdOutputPadding(desc, 2, [0]),
        lambda: miopyx.miopenSetTransposeConvNdOutputPadding(desc, 2, None),
    ):
        with pytest.raises(BadParmError):
            call()
    assert desc.output_pads == (1, 2)
    for spatial in (1, 3):
        desc = created(spatial)
        miopyx.miopenSetTransposeConvNdOutputPadding(desc, spatial, range(spatial))
        assert desc.output_pads == tuple(range(spatial))


@pytest.mark.parametrize(("attribute", "good", "bad"), [
    (miopyx.MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL, (-1, 0, 1), (-2, 2, 100)),
    (miopyx.MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, (0, 1), (-1, 2)),
    (miopyx.MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE, (0, 1), (-1, 2)),
    (miopyx.MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE, (0, 1), (-1, 2)),
])
def test_attributes(attribute, good, bad, monkeypatch):
    monkeypatch.setenv("MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC", "1")  # the getter returns what was stored
    desc = created()
    others = [a for a in miopyx.miopenConvolutionAttrib_t if a is not attribute]
    before = [miopyx.miopenGetConvolutionAttribute(desc, a) for a in others]
    for value in (*good, good[0]):
        assert miopyx.miopenSetConvolutionAttribute(desc, attribute, value) is None
        assert miopyx.miopenGetConvolutionAttribute(desc, attribute) == value
    for value in bad:
        with pytest.raises(BadParmError) as raised:
            miopyx.miopenSetConvolutionAttribute(desc, attribute, value)
        assert (raised.value.parameter, raised.value.value) == ("value", value)
    assert miopyx.miopenGetConvolutionAttribute(desc, attribute) == good[0]
    assert [miopyx.miopenGetConvolutionAttribute(desc, a) for a in others] == before


@pytest.mark.parametrize("attribute", [-1, 4, 100, None, "DETERMINED"])
def test_unknown_attributes(attribute):
    for call in (
        lambda: miopyx.miopenSetConvolutionAttribute(created(), attribute, 0),
        lambda: miopyx.miopenGetConvolutionAttribute(created(), attribute),
    ):
        with pytest.raises(BadParmError) as raised:
            call()
        assert raised.value.parameter == "attr"


def test_find_mode():
    desc = created()
    for mode in miopyx.miopenConvolutionFindMode_t:
        assert miopyx.miopenSetConvolutionFindMode(desc, int(mode)) is None
        assert miopyx.miopenGetConvolutionFindMode(desc) is mode
        assert desc.find_mode is mode
    for mode in (0, 6, -1, None):
        with pytest.raises(BadParmError) as raised:
            miopyx.miopenSetConvolutionFindMode(desc, mode)
        assert raised.value.parameter == "findMode"
    assert desc.find_mode is miopyx.miopenConvolutionFindModeDynamicHybrid


def calls(desc):
    """Return a call of every function with `desc` as its convolution descriptor."""
    x = tensor(1, 1, 1, 1)
    return (
        lambda: miopyx.miopenInitConvolutionDescriptor(desc, 0, 0, 0, 1, 1, 1, 1),
        lambda: miopyx.miopenInitConvolutionNdDescriptor(desc, 1, [0], [1], [1], 0),
        lambda: miopyx.miopenGetConvolutionSpatialDim(desc),
        lambda: miopyx.miopenGetConvolutionDescriptor(desc),
        lambda: miopyx.miopenGetConvolutionNdDescriptor(desc, 0),
        lambda: miopyx.miopenSetConvolutionGroupCount(desc, 1),
        lambda: miopyx.miopenGetConvolutionGroupCount(desc),
        lambda: miopyx.miopenSetTransposeConvOutputPadding(desc, 0, 0),
        lambda: miopyx.miopenSetTransposeConvNdOutputPadding(desc, 2, [0, 0]),
        lambda: miopyx.miopenGetConvolutionForwardOutputDim(desc, x, x),
        lambda: miopyx.miopenGetConvolutionNdForwardOutputDim(desc, x, x),
        lambda: miopyx.miopenSetConvolutionAttribute(desc, 0, 0),
        lambda: miopyx.miopenGetConvolutionAttribute(desc, 0),
        lambda: miopyx.miopenSetConvolutionFindMode(desc, 1),
        lambda: miopyx.miopenGetConvolutionFindMode(desc),
    )


@pytest.mark.parametrize("desc", [None, 0, "desc", TensorDescriptor(), object(), ConvolutionDescriptor])
def test_no_descriptor(desc):
    for call in calls(desc):
        with pytest.raises(BadParmError) as raised:
            call()
        assert raised.value.parameter == "convDesc"
    if desc is not None:
        with pytest.raises(BadParmError):
            miopyx.miopenDestroyConvolutionDescriptor(desc)


def test_destroy():
    assert miopyx.miopenDestroyConvolutionDescriptor(None) is None
    desc = created()
    for call in calls(desc):
        call()
        miopyx.miopenInitConvolutionDescriptor(desc, 0, 0, 0, 1, 1, 1, 1)
    assert miopyx.miopenDestroyConvolutionDescriptor(desc) is None
    for call in calls(desc):
        with pytest.raises(BadParmError):
            call()


# Output lengths


def truncated(a, b):
    """Return a / b as C divides integers: toward zero."""
    return abs(a) // b if a >= 0 else -(abs(a) // b)


def expected_lens(desc, x, w):
    lens = []
    for i, (length, taps) in enumerate(zip(x[2:], w[2:], strict=True)):
        reach = 1 + desc.dilations[i] * (taps - 1)
        if desc.convolution_mode == TRANSPOSE:
            out = desc.strides[i] * (length - 1) + reach - 2 * desc.pads[i] + desc.output_pads[i]
        else:
            out = truncated(length - reach + 2 * desc.pads[i], desc.strides[i]) + 1
        lens.append(max(1, out))
    return (x[0], w[1] * desc.group_count if desc.convolution_mode == TRANSPOSE else w[0], *lens)


def test_well_known_layers():
    conv = created(2, CONVOLUTION, 3, 2)
    x, w = tensor(256, 3, 224, 224), tensor(64, 3, 7, 7)
    assert miopyx.miopenGetConvolutionForwardOutputDim(conv, x, w) == (256, 64, 112, 112)
    assert miopyx.miopenGetConvolutionNdForwardOutputDim(conv, x, w) == (4, (256, 64, 112, 112))
    assert conv.output_lens(x, w) == (256, 64, 112, 112)
    miopyx.miopenInitConvolutionDescriptor(conv, TRANSPOSE, 1, 1, 2, 2, 1, 1)
    miopyx.miopenSetTransposeConvOutputPadding(conv, 1, 0)
    x, w = tensor(1, 64, 28, 28), tensor(64, 32, 3, 3)
    assert miopyx.miopenGetConvolutionForwardOutputDim(conv, x, w) == (1, 32, 56, 55)
    conv = created(3, CONVOLUTION, 1)
    x, w = tensor(1, 3, 16, 112, 112, data_type="int8"), tensor(64, 3, 3, 3, 3, data_type="int8")
    assert miopyx.miopenGetConvolutionNdForwardOutputDim(conv, x, w) == (5, (1, 64, 16, 112, 112))
    conv = created(1, CONVOLUTION, 0, 1, 3)
    assert miopyx.miopenGetConvolutionNdForwardOutputDim(conv, tensor(2, 3, 10), tensor(4, 3, 4)) == (3, (2, 4, 1))


@pytest.mark.parametrize("stride", [1, 2, 3, 6, 7, 100])
def test_filter_beyond_the_input_gives_one(stride):
    """(2 - 8) / stride + 1 is at most 1 however it is rounded, and never less is returned."""
    conv = created(2, CONVOLUTION, 0, stride)
    assert miopyx.miopenGetConvolutionForwardOutputDim(conv, tensor(1, 1, 2, 2), tensor(1, 1, 8, 8)) == (1, 1, 1, 1)
    conv = created(2, TRANSPOSE, 9, stride)
    assert miopyx.miopenGetConvolutionForwardOutputDim(conv, tensor(1, 1, 1, 1), tensor(1, 1, 3, 3)) == (1, 1, 1, 1)


def random_layer(numbers):
    spatial, mode = numbers.choice((1, 2, 2, 3)), numbers.choice((CONVOLUTION, TRANSPOSE))
    groups = numbers.choice((1, 1, 2, 3, 8))
    strides = [numbers.choice((1, 1, 2, 3, 4, 7)) for _ in range(spatial)]
    conv = ConvolutionDescriptor(
        [numbers.choice((0, 0, 1, 2, 3, 9)) for _ in range(spatial)], strides,
        [numbers.choice((1, 1, 2, 3, 5)) for _ in range(spatial)], mode, groups,
        [numbers.randrange(stride) for stride in strides] if mode == TRANSPOSE else None)
    c, k = groups * numbers.randint(1, 5), groups * numbers.randint(1, 5)
    x = (numbers.randint(1, 9), c, *[numbers.choice((1, 2, 3, 7, 8, 28, 31)) for _ in range(spatial)])
    taps = [numbers.choice((1, 1, 2, 3, 5, 7, 11)) for _ in range(spatial)]
    w = (c, k // groups, *taps) if mode == TRANSPOSE else (k, c // groups, *taps)
    return conv, x, w


def test_output_lengths_of_random_layers(seed):
    numbers = random.Random(seed)
    clamped = 0
    for _ in range(5000):
        conv, x, w = random_layer(numbers)
        expected = expected_lens(conv, x, w)
        tensors = tensor(*x), tensor(*w)
        clamped += 1 in expected[2:]
        assert miopyx.miopenGetConvolutionNdForwardOutputDim(conv, *tensors) == (len(x), expected), (conv, x, w)
        assert conv.output_lens(*tensors) == expected
        if conv.spatial_dim == 2:
            assert miopyx.miopenGetConvolutionForwardOutputDim(conv, *tensors) == expected
    assert clamped > 100


def test_strides_and_layouts_of_the_tensors_do_not_matter():
    conv = created(2, CONVOLUTION, 1)
    x = TensorDescriptor("float16", (2, 3, 9, 9), layout=miopyx.miopenTensorNHWC)
    w = TensorDescriptor("float16", (4, 3, 3, 3), (1000, 100, 10, 3))
    assert miopyx.miopenGetConvolutionForwardOutputDim(conv, x, w) == (2, 4, 9, 9)


def test_vectorised_filters_count_vectors():
    x = TensorDescriptor("int8", (1, 8, 5, 5), layout=miopyx.miopenTensorNCHWc4)
    w = TensorDescriptor("int8", (16, 8, 3, 3), layout=miopyx.miopenTensorNCHWc4)
    assert miopyx.miopenGetConvolutionForwardOutputDim(created(), x, w) == (1, 4, 3, 3)


def channels_fit(mode, groups, x, w):
    """Return whether MIOpen's query takes the channels; it derives the groups from x and w, not from the descriptor."""
    if mode == TRANSPOSE:
        return x[1] == w[0] and (groups == 1 or w[0] % groups == 0)
    if groups == 1:
        return x[1] == w[1]
    return x[1] % w[1] == 0 and w[0] % (x[1] // w[1]) == 0


def test_channels_and_groups(seed):
    numbers = random.Random(seed)
    fitting = 0
    for _ in range(5000):
        mode, groups = numbers.choice((CONVOLUTION, TRANSPOSE)), numbers.randint(1, 4)
        conv = ConvolutionDescriptor(mode=mode, groups=groups)
        x, w = ((numbers.randint(1, 12), numbers.choice((1, 2, 3, 4, 6, 8, 12)), 3, 3) for _ in range(2))
        if numbers.random() < 0.5:
            w = (x[1], *w[1:]) if mode == TRANSPOSE else (w[0], max(1, x[1] // groups), *w[2:])
        if channels_fit(mode, groups, x, w):
            fitting += 1
            assert conv.output_lens(tensor(*x), tensor(*w)) == expected_lens(conv, x, w)
        else:
            for query in (miopyx.miopenGetConvolutionForwardOutputDim, miopyx.miopenGetConvolutionNdForwardOutputDim):
                with pytest.raises(BadParmError) as raised:
                    query(conv, tensor(*x), tensor(*w))
                assert raised.value.parameter in ("filterDesc", "groupCount")
    assert 500 < fitting < 4500


def test_query_refuses():
    conv, x, w = created(), tensor(1, 2, 3, 3), tensor(1, 2, 3, 3)
    for other in (None, 0, conv, TensorDescriptor()):
        for pair in ((other, w), (x, other)):
            for query in (miopyx.miopenGetConvolutionForwardOutputDim, miopyx.miopenGetConvolutionNdForwardOutputDim):
                with pytest.raises(BadParmError):
                    query(conv, *pair)
    for other in (tensor(1, 2, 3), tensor(1, 2, 3, 3, 3), tensor(1)):
        for pair in ((other, w), (x, other)):
            with pytest.raises(BadParmError):
                miopyx.miopenGetConvolutionNdForwardOutputDim(conv, *pair)
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenGetConvolutionForwardOutputDim(conv, x, tensor(1, 2, 3, 3, data_type="float16"))
    assert (raised.value.value, raised.value.limit) == ("float16", "float32")


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_output_pad_must_be_below_its_stride(spatial):
    x, w = tensor(*[1] * (spatial + 2)), tensor(*[1] * (spatial + 2))
    for axis in range(spatial):
        conv = created(spatial, TRANSPOSE, 0, 2)
        pads = [0] * spatial
        pads[axis] = 1
        miopyx.miopenSetTransposeConvNdOutputPadding(conv, spatial, pads)
        assert conv.output_lens(x, w)[2 + axis] == 2
        pads[axis] = 2
        miopyx.miopenSetTransposeConvNdOutputPadding(conv, spatial, pads)
        with pytest.raises(BadParmError) as raised:
            miopyx.miopenGetConvolutionNdForwardOutputDim(conv, x, w)
        assert (raised.value.value, raised.value.limit) == (2, "< 2")
        # It means nothing to an ordinary convolution.
        conv = ConvolutionDescriptor(strides=[2] * spatial, output_pads=pads)
        assert conv.output_lens(x, w) == (1,) * (spatial + 2)


def test_lengths_beyond_32_bits():
    x, w = TensorDescriptor("int8", (1, 1, 1, 2**40)), TensorDescriptor("int8", (1, 1, 1, 2**33))
    assert created().output_lens(x, w) == (1, 1, 1, 2**40 - 2**33 + 1)
    assert created(2, TRANSPOSE, 0, 2**20).output_lens(x, w) == (1, 1, 1, 2**20 * (2**40 - 1) + 2**33)
    with pytest.raises(BadParmError):
        created(2, TRANSPOSE, 0, 2**24).output_lens(x, w)
    with pytest.raises(BadParmError):
        created(2, CONVOLUTION, 0, 1, INT_MAX).output_lens(x, w)


@given(st.integers(1, 3).flatmap(lambda n: st.tuples(
    *[st.lists(st.integers(low, INT_MAX), min_size=n, max_size=n) for low in (0, 1, 1, 0)])),
    st.sampled_from([CONVOLUTION, TRANSPOSE]), st.integers(1, INT_MAX))
def test_set_then_get(arrays, mode, groups):
    pads, strides, dilations, output_pads = map(tuple, arrays)
    spatial = len(pads)
    desc = miopyx.miopenCreateConvolutionDescriptor()
    miopyx.miopenInitConvolutionNdDescriptor(desc, spatial, pads, strides, dilations, mode)
    miopyx.miopenSetConvolutionGroupCount(desc, groups)
    miopyx.miopenSetTransposeConvNdOutputPadding(desc, spatial, output_pads)
    assert miopyx.miopenGetConvolutionNdDescriptor(desc, spatial) == (spatial, pads, strides, dilations, mode)
    assert (miopyx.miopenGetConvolutionGroupCount(desc), desc.output_pads) == (groups, output_pads)
    again = ConvolutionDescriptor(pads, strides, dilations, mode, groups, output_pads)
    assert state(again) == state(desc)


@given(st.tuples(*[st.integers(1, INT_MAX)] * 4), st.tuples(*[st.integers(0, INT_MAX)] * 2),
       st.tuples(*[st.integers(1, INT_MAX)] * 2), st.sampled_from([CONVOLUTION, TRANSPOSE]))
def test_any_sizes(lens, pads, strides, mode):
    """Nothing wraps: what fits 64 bits is right, what does not is refused."""
    conv = ConvolutionDescriptor(pads, strides, mode=mode)
    x, w = (1, 1, *lens[:2]), (1, 1, *lens[2:])
    if math.prod(x) < 2**63 and math.prod(w) < 2**63:
        assert conv.output_lens(TensorDescriptor("int8", x), TensorDescriptor("int8", w)) == expected_lens(conv, x, w)


# The Pythonic face


def test_constructor():
    assert state(ConvolutionDescriptor()) == DEFAULT
    desc = ConvolutionDescriptor(strides=(2, 3, 4))
    assert state(desc)[:5] == (3, (0, 0, 0), (2, 3, 4), (1, 1, 1), (0, 0, 0))
    desc = ConvolutionDescriptor([1], [2], [3], TRANSPOSE, 4, [1])
    assert state(desc)[:7] == (1, (1,), (2,), (3,), (1,), 4, TRANSPOSE)
    assert repr(desc) == ("ConvolutionDescriptor(pads=(1,), strides=(2,), dilations=(3,), mode='miopenTranspose', "
                          "groups=4, output_pads=(1,))")
    for attribute, value in (("DETERMINISTIC", 1), ("MATH_TYPE", "default"), ("FP8_ROUNDING_MODE", "standard")):
        miopyx.miopenSetConvolutionAttribute(desc, attribute, value)
    assert repr(desc).endswith("output_pads=(1,)) with DETERMINISTIC=1, FP8_ROUNDING_MODE=0, MATH_TYPE=0")


@pytest.mark.parametrize(("attribute", "word", "enumeration"), [
    ("FP8_ROUNDING_MODE", "standard", "miopenF8RoundingMode"), ("MATH_TYPE", "default", "miopenMath"),
])
def test_an_attribute_that_is_an_enumeration_takes_its_words(attribute, word, enumeration):
    desc = ConvolutionDescriptor()
    assert miopyx.miopenGetConvolutionAttribute(desc, attribute) == 1
    miopyx.miopenSetConvolutionAttribute(desc, attribute, word)
    assert miopyx.miopenGetConvolutionAttribute(desc, attribute) == 0
    for wrong in (2, -1, "tf32", None):
        with pytest.raises(miopyx.MIOpenError, match=f"value = .*allowed: .*{enumeration}"):
            miopyx.miopenSetConvolutionAttribute(desc, attribute, wrong)
    assert miopyx.miopenGetConvolutionAttribute(desc, attribute) == 0


@pytest.mark.parametrize("arguments", [
    dict(pads=[]), dict(pads=[0] * 4), dict(pads=0), dict(pads=[-1]), dict(strides=[0]), dict(dilations=[0]),
    dict(pads=[0, 0], strides=[1]), dict(strides=[1], dilations=[1, 1]), dict(mode=4), dict(mode=None),
    dict(groups=0), dict(groups=None), dict(output_pads=[-1, 0]), dict(pads=[1], output_pads=[0, 0]), dict(pads="11"),
])
def test_constructor_refuses(arguments):
    with pytest.raises(BadParmError):
        ConvolutionDescriptor(**arguments)


def test_attributes_are_read_only():
    desc = ConvolutionDescriptor()
    for name in ("spatial_dim", "pads", "strides", "dilations", "output_pads", "group_count", "convolution_mode",
                 "find_mode", "new"):
        with pytest.raises(AttributeError):
            setattr(desc, name, 1)


def test_a_problem_names_its_attributes():
    """What two problems of the same tensors may differ in."""
    def text(dtype, *attributes):
        conv = ConvolutionDescriptor()
        for name, value in attributes:
            miopyx.miopenSetConvolutionAttribute(conv, name, value)
        desc = [TensorDescriptor(dtype, lens) for lens in ((1, 4, 5, 5), (8, 4, 3, 3), (1, 8, 3, 3))]
        return repr(ConvProblem(0, *desc, conv)).partition("groups 1")[2]

    assert text("float32") == ">"
    assert text("float32", ("MATH_TYPE", "default"), ("DETERMINISTIC", 1)) == ", deterministic, factors may be rounded>"
    assert text("float8_e4m3fn") == ", rounded at random>"
    assert text("float8_e4m3fn", ("FP8_ROUNDING_MODE", "standard")) == ">"
