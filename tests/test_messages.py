"""What a newcomer reads: names in place of numbers, what is allowed, and reasons that are few enough to read."""

from __future__ import annotations

import enum
import inspect
import sys
import types

import ml_dtypes
import numpy as np
import pytest
from ids import shown

import miopyx as mi
from miopyx import enums

TYPES = {
    "float16": ["f2", "<f2", "half", "fp16", "f16", "Float16", np.float16, np.dtype("f2"), "miopenHalf"],
    "float32": ["f4", "=f4", "single", "fp32", "f32", np.float32, np.dtype(np.float32), "miopenFloat", 1],
    "float64": ["f8", "double", "fp64", "f64", np.float64],
    "bfloat16": ["bf16", "BF16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), "miopenBFloat16"],
    "int8": ["i1", "|i1", np.int8], "int32": ["i4", "i32", np.dtype("i4")], "int64": ["i8", np.int64],
    "float8_e4m3fnuz": ["float8", ml_dtypes.float8_e4m3fnuz, "miopenFloat8"],
    "float8_e5m2fnuz": ["bfloat8", "float8-e5m2-fnuz", ml_dtypes.float8_e5m2fnuz],
    "float8_e4m3fn": ["float8-e4m3-fn", "torch.float8_e4m3fn", ml_dtypes.float8_e4m3fn, "miopenFloat8_ocp", 1007],
    "float8_e5m2": ["torch.float8_e5m2", ml_dtypes.float8_e5m2, np.dtype(ml_dtypes.float8_e5m2), "miopenBFloat8_ocp"],
}


@pytest.mark.parametrize(("name", "given"), [(name, given) for name, some in TYPES.items() for given in some])
def test_types_by_what_they_are_called(name, given):
    assert mi.TensorDescriptor(given, (1, 2)).dtype == name


def test_types_of_torch():
    class dtype:
        def __str__(self):
            return "torch.bfloat16"

    assert mi.TensorDescriptor(dtype(), (1, 2)).dtype == "bfloat16"
    torch = pytest.importorskip("torch")
    for name in ("float16", "float32", "float64", "bfloat16", "int8", "int32", "int64", "float8_e4m3fn", "float8_e5m2",
                 "float8_e4m3fnuz", "float8_e5m2fnuz"):
        assert mi.TensorDescriptor(getattr(torch, name), (1, 2)).dtype == name


@pytest.mark.parametrize("given", ["f5", bool, "uint8", np.uint8, np.dtype("V3"), 3.5, None,
                                   "", "torch", object(), np.complex64, [], {}, 4, -1, 10])
def test_what_is_no_type_lists_those_there_are(given):
    with pytest.raises(mi.BadParmError) as raised:
        mi.miopenSet4dTensorDescriptor(mi.TensorDescriptor(), given, 1, 1, 1, 1)
    for name in TYPES:
        assert name in str(raised.value)
    assert raised.value.parameter == "dataType"


@pytest.mark.parametrize(("given", "meant"), [
    ("float", "float32"), (float, "float64"), ("int", "int32"), (int, "int64"), ("fp8", "float8_e4m3fnuz"),
    ("fp8", "float8_e4m3fn "), ("e5m2", "float8_e5m2 "), (ml_dtypes.float8_e4m3, "float8_e4m3fn ")])
def test_names_of_more_than_one_type_say_what_to_choose_from(given, meant):
    with pytest.raises(mi.BadParmError, match="a name of more than one type") as raised:
        mi.TensorDescriptor(given, (1, 2))
    assert meant in raised.value.limit


def test_channels_last():
    class memory_format:
        def __str__(self):
            return "torch.channels_last_3d"

    for given, lens, strides in (("channels_last", (2, 3, 4, 5), (60, 1, 15, 3)),
                                 (memory_format(), (2, 3, 2, 4, 5), (120, 1, 60, 15, 3))):
        assert mi.TensorDescriptor("f4", lens, layout=given).strides == strides
    with pytest.raises(mi.BadParmError, match="needs 4 dimensions"):
        mi.TensorDescriptor("f4", (2, 3, 4), layout="channels_last")


def test_problems_are_printed_with_names(host):
    """As `explain` and refusals show them."""
    x, y = mi.TensorDescriptor("f2", (1, 2, 4, 4)), mi.TensorDescriptor("f2", (1, 2, 2, 2))
    pool = mi.PoolingDescriptor("inclusive", (2, 2), (0, 0), (2, 2))
    conv, w = mi.ConvolutionDescriptor(), mi.TensorDescriptor("f2", (3, 2, 1, 1))
    for plan, words in (
            (host.pooling_forward(pool, x, y, False), ("<pooling forward, averageinclusive: ", ") float16, ")),
            (host.softmax_forward(x, x), ("<softmax forward, accurate, channel: ", ") float16>")),
            (host.activation_forward(mi.ActivationDescriptor("leaky", 0.1), x, x), (
                "<activation forward, leakyrelu: ", ") float16>")),
            (host.convolution_forward(x, w, conv, mi.TensorDescriptor("f2", (1, 3, 4, 4))), (
                "<forward: x (", ") float16, w"))):
        text = plan.explain()
        for word in words:
            assert word in text, text


def test_byte_orders():
    other = ">" if sys.byteorder == "little" else "<"
    for given in (f"{other}f4", np.dtype(f"{other}f4")):
        with pytest.raises(mi.BadParmError, match="byte order"):
            mi.TensorDescriptor(given, (1, 2))


X = mi.TensorDescriptor("float32", (2, 4, 6, 6))
TAKERS = {
    "miopenPoolingMode_t": (lambda v: mi.PoolingDescriptor(v, (2, 2)).pooling_mode,
                            {"max": 0, "MAX": 0, "average": 1, "avg": 1, "average_inclusive": 2,
                             "miopenPoolingMax": 0}),
    "miopenActivationMode_t": (lambda v: mi.ActivationDescriptor(v).mode,
                               {"relu": 3, "ReLU": 3, "leaky_relu": 8, "tanh": 2, "sigmoid": 1, "identity": 0,
                                "elu": 9}),
    "miopenTensorLayout_t": (lambda v: mi.TensorDescriptor("f4", (2, 3, 4, 5), layout=v).layout,
                             {"nchw": 0, "NHWC": 1, "chwn": 2}),
    "miopenConvolutionMode_t": (lambda v: mi.ConvolutionDescriptor(mode=v).convolution_mode,
                                {"convolution": 0, "transpose": 1, "transposed": 1}),
    "miopenLRNMode_t": (lambda v: mi.LRNDescriptor(v).mode, {"within_channel": 0, "cross": 1, "CrossChannel": 1}),
    "miopenSoftmaxAlgorithm_t": (lambda v: mi.SoftmaxDescriptor(algorithm=v).algorithm, {"fast": 0, "log": 2}),
    "miopenSoftmaxMode_t": (lambda v: mi.SoftmaxDescriptor(mode=v).mode, {"instance": 0, "channel": 1}),
    "miopenReduceTensorOp_t": (lambda v: mi.ReduceTensorDescriptor(v).op, {"add": 0, "sum": 0, "AVG": 5, "norm2": 7}),
    "miopenReduceTensorIndices_t": (lambda v: mi.ReduceTensorDescriptor("max", indices=v).indices,
                                    {"none": 0, "flattened_indices": 1}),
    "miopenIndicesType_t": (lambda v: mi.ReduceTensorDescriptor("add", indices_type=v).indices_type,
                            {"32bit_indices": 0, "uint8": 3}),
    "miopenRNGType_t": (lambda v: mi.DropoutDescriptor(0.5, rng_mode=v).rng_mode, {"pseudo_xorwow": 0, "xorwow": 0}),
    "miopenIndexType_t": (lambda v: mi.PoolingDescriptor("max", (2, 2), index_type=v).workspace_index_type,
                          {"uint8": 0, "uint64": 3}),
    "miopenPoolingWorkspaceIndexMode_t": (
        lambda v: mi.PoolingDescriptor("max", (2, 2), index_mode=v).workspace_index_mode, {"mask": 0, "image": 1}),
}


def _find_mode(value):
    conv = mi.ConvolutionDescriptor()
    mi.miopenSetConvolutionFindMode(conv, value)
    return mi.miopenGetConvolutionFindMode(conv)


def _attribute(value):
    conv = mi.ConvolutionDescriptor()
    mi.miopenSetConvolutionAttribute(conv, value, 1)
    return next(a for a in mi.miopenConvolutionAttrib_t if a < 3 and mi.miopenGetConvolutionAttribute(conv, a) == 1
                and (a != 2 or mi.miopenGetConvolutionAttribute(mi.ConvolutionDescriptor(), a) == 1))


TAKERS["miopenConvolutionFindMode_t"] = _find_mode, {"fast": 2, "dynamic_hybrid": 5, "NORMAL": 1}
TAKERS["miopenConvolutionAttrib_t"] = _attribute, {"deterministic": 1}


@pytest.mark.parametrize("name", TAKERS)
def test_members_by_what_they_are_called(name):
    take, names = TAKERS[name]
    for text, number in names.items():
        assert take(text) == number, text
        assert take(getattr(mi, name)(number)) == number
    for wrong in ("nonsense", "", 2.5, [], object(), 77, -1):
        with pytest.raises(mi.BadParmError) as raised:
            take(wrong)
        assert raised.value.limit == enums.allowed(name)
        assert raised.value.limit.endswith(f", or a {name}")


def test_members_of_calls_by_what_they_are_called(handle):
    a, b, c = (handle.upload(np.full(X.lens, v, np.float32)) for v in (3, 4, 0))
    mi.miopenOpTensor(handle, "mul", 1.0, X, a, 1.0, X, b, 0.0, X, c)
    assert (handle.download(c, np.empty(X.lens, np.float32)) == 12).all()
    with pytest.raises(mi.BadParmError, match="add, mul, min, max"):
        mi.miopenOpTensor(handle, "plus", 1.0, X, a, 1.0, X, b, 0.0, X, c)
    with pytest.raises(mi.BadParmError, match="peractivation, spatial"):
        mi.miopenDeriveBNTensorDescriptor(mi.TensorDescriptor(), X, "both")


def test_every_enumeration_that_is_taken_has_names_of_its_own():
    for name in enums._PREFIXES:
        folded = [enums._folded(m.removeprefix(enums._PREFIXES[name])) for m in enums._MEMBERS[name]]
        assert len(set(folded)) == len(folded)
        for member, number in enums._MEMBERS[name].items():
            assert enums.number_of(name, member) == number
            assert enums.number_of(name, member.removeprefix(enums._PREFIXES[name])) == number


def test_members_print_as_their_names_and_stay_numbers():
    member = mi.miopenPoolingAverage
    assert (str(member), f"{member}", f"{member:>24}", f"{member!r}") == (
        "miopenPoolingAverage", "miopenPoolingAverage", "    miopenPoolingAverage",
        "<miopenPoolingMode_t.miopenPoolingAverage: 1>")
    assert (f"{member:d}", f"{member:03d}", "%d" % member, int(member), member + 1, hash(member)) == (  # noqa: UP031
        "1", "001", "1", 1, 2, hash(1))
    assert isinstance(member, enum.IntEnum)
    assert member == 1


def test_descriptors_unset_set_and_destroyed_look_different():
    made = [(mi.TensorDescriptor, "float32", (1, 2)), (mi.PoolingDescriptor, "max", (2, 2)),
            (mi.LRNDescriptor, "cross"), (mi.ReduceTensorDescriptor, "add"), (mi.DropoutDescriptor, 0.5)]
    for kind, *arguments in made:
        unset, ready, gone = kind(), kind(*arguments), kind(*arguments)
        assert repr(unset) == f"<{kind.__name__} never set>"
        assert repr(ready).startswith(f"{kind.__name__}(")
        getattr(mi, f"miopenDestroy{kind.__name__}")(gone)
        assert repr(gone) == f"<destroyed {ready!r}>"
    conv = mi.ConvolutionDescriptor(mode="transpose")
    assert "mode='miopenTranspose'" in repr(conv)
    mi.miopenDestroyConvolutionDescriptor(conv)
    assert repr(conv).startswith("<destroyed ConvolutionDescriptor(")
    with pytest.raises(mi.BadParmError, match=r"never set \[tensorDesc = <TensorDescriptor never set>"):
        mi.miopenGetTensorNumBytes(mi.TensorDescriptor())


def a_plan(handle):
    w, conv = mi.TensorDescriptor("float32", (3, 4, 1, 1)), mi.ConvolutionDescriptor()
    y = mi.TensorDescriptor("float32", conv.output_lens(X, w))
    return handle.convolution_forward(X, w, conv, y), [np.ones(d.lens, np.float32) for d in (X, w, y)]


@pytest.mark.parametrize("workspace", [np.empty(8, np.uint8), np.empty(1, np.uint8), None,
                                       types.SimpleNamespace(int_ptr=64)], ids=["array", "one byte", "None", "buffer"])
def test_a_workspace_given_to_a_plan(workspace):
    with mi.Handle("host") as handle:
        plan, buffers = a_plan(handle)
        with pytest.raises(mi.BadParmError) as raised:
            plan(*buffers, workspace)
        assert "workspace is the handle's" in str(raised.value)
        assert raised.value.limit == "plan(x, w, y, alpha=1, beta=0)"
        with pytest.raises(TypeError, match=r"plan\(x, w, y, alpha=1, beta=0\) was called with 1 "):
            plan(buffers[0])
        plan(*buffers, np.float32(2), beta=np.array(0.0))
        assert (buffers[2] == 8).all()


def test_reasons_are_grouped(handle):
    plan, _ = a_plan(handle)
    lines = plan.explain().splitlines()
    refused = [line for line in lines if line.startswith("not ")]
    assert sum("another direction" in line for line in refused) == 1
    assert len(refused) < 45
    assert all(len(line) < 240 for line in lines)
    ints = mi.TensorDescriptor("int32", (1, 4, 2, 2))
    w, y = mi.TensorDescriptor("int32", (3, 4, 1, 1)), mi.TensorDescriptor("int32", (1, 3, 2, 2))
    for ask in (handle.convolution_forward, lambda *d: mi.miopenConvolutionForwardGetSolutionCount(
            handle, d[1], d[0], d[2], d[3])):
        with pytest.raises(mi.MIOpenNotImplementedError) as raised:
            ask(ints, w, mi.ConvolutionDescriptor(), y)
        reasons = str(raised.value).split("; ")
        assert 0 < len(reasons) < 12
        assert len({reason.split(": ", 1)[1] for reason in reasons[1:]}) == len(reasons) - 1
        assert any(" solvers: " in reason for reason in reasons)


def test_dir_shows_what_is_public():
    shown = set(dir(mi))
    assert set(mi.__all__) <= shown
    for name in ("Handle", "enums", "errors", "__version__", "miopenPoolingMax", "MIOpenError"):
        assert name in shown
    for name in shown - {"enums", "errors"}:
        assert name.startswith("__") or not name.startswith("_")
        assert not isinstance(getattr(mi, name), types.ModuleType) or name.startswith("__")


@pytest.mark.parametrize("given", [None, "abc", np.array([object()]), [[1], [2, 3]], {}], ids=shown)
def test_what_cannot_be_uploaded(handle, given):
    with pytest.raises(mi.BadParmError) as raised:
        handle.upload(given)
    assert raised.value.parameter == "array"


def test_what_cannot_be_downloaded(handle):
    memory, back = handle.upload(np.arange(12, dtype=np.float32)), np.empty(12, np.float32)
    fixed = np.zeros(12, np.float32)
    fixed.flags.writeable = False
    for array in ([0.0] * 12, fixed, np.empty(24, np.float32)[::2]):
        with pytest.raises(mi.BadParmError) as raised:
            handle.download(memory, array)
        assert raised.value.parameter == "array"
    for buffer in (None, [0.0], "x", np.empty(3, np.float32)):
        with pytest.raises(mi.BadParmError) as raised:
            handle.download(buffer, back)
        assert raised.value.parameter == "buffer"
    assert handle.download(memory, back) is back
    assert (back == np.arange(12)).all()


def test_a_misspelt_function_is_suggested():
    with pytest.raises(AttributeError) as raised:
        mi.miopenConvolutionFoward  # noqa: B018
    assert (raised.value.name, raised.value.obj) == ("miopenConvolutionFoward", mi)


# help()

FUNCTIONS = [name for name in dir(mi) if name.startswith("miopen") and isinstance(
    getattr(mi, name), types.BuiltinFunctionType | types.FunctionType | type(mi.miopenCreate))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_says_what_goes_in_and_what_may_go_wrong(name):
    text, call = getattr(mi, name).__doc__, getattr(mi, name)
    assert len(text.partition("\n")[0].split()) > 3
    if not inspect.signature(call).parameters:
        return
    for section in ("Parameters", *(("Raises",) if name != "miopenGetErrorString" else ())):
        assert f"{section}\n    {'-' * len(section)}\n" in text, section


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name.startswith(("miopenGet", "miopenDestroy"))])
def test_what_is_no_descriptor_is_told(name):
    call = getattr(mi, name)
    parameters = inspect.signature(call).parameters
    if parameters and name != "miopenGetErrorString":
        with pytest.raises(mi.BadParmError):
            call(*[object()] * len(parameters))
