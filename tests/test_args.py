"""Python arguments to C values: what is an integer, a sequence, a real number; and 100,000 calls with nonsense."""

import ctypes
import inspect
import random
import tracemalloc
from collections import Counter
from functools import cache, partial

import ml_dtypes
import numpy as np
import pytest
from ids import shown
from problems import Problem

import miopyx
from miopyx import (
    ActivationDescriptor,
    BadParmError,
    ConvolutionDescriptor,
    MIOpenError,
    SoftmaxDescriptor,
    TensorDescriptor,
)
from miopyx.solvers import registry

INT_MAX = 2**31 - 1


class Index:
    """Something with __index__."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        if self.value is None:
            raise RuntimeError("no value")
        return self.value


class Number(int):
    pass


def tensor(*lens):
    return TensorDescriptor("float32", lens)


@pytest.mark.parametrize("value", [
    3, Number(3), Index(3), miopyx.miopenInt8, np.int8(3), np.uint8(3), np.int64(3), np.uint64(3), np.array(3),
], ids=shown)
def test_integers(value):
    desc = tensor(1)
    miopyx.miopenSet4dTensorDescriptor(desc, 1, value, 1, value, 1)
    assert desc.lens == (3, 1, 3, 1)
    assert all(type(length) is int for length in desc.lens)
    miopyx.miopenSetTensorDescriptor(desc, 1, 2, [value, value], (value, value))
    assert (desc.lens, desc.strides) == ((3, 3), (3, 3))


@pytest.mark.parametrize("value", [
    None, True, False, np.True_, 3.0, np.float32(3), "3", b"3", [3], (3,), {3}, np.array([3]), np.array([3, 3]), 3j,
    float("nan"), float("inf"), object(), int, Index(None), Index(2**31), 2**31, -2**31 - 1, 2**63, 2**64 + 3,
    -2**63 - 1, 10**100, np.uint64(2**63), np.int64(2**31), ml_dtypes.bfloat16(3),
], ids=shown)
def test_no_integers(value):
    desc = tensor(5, 6)
    for call in (
        lambda: miopyx.miopenSet4dTensorDescriptor(desc, 1, 1, 1, value, 1),
        lambda: miopyx.miopenSet4dTensorDescriptorEx(desc, 1, 1, 1, 1, 1, 1, 1, 1, value),
        lambda: miopyx.miopenSetTensorDescriptor(desc, 1, 2, [1, value], None),
        lambda: miopyx.miopenSetTensorDescriptor(desc, 1, value, [1, 1], None),
        lambda: miopyx.miopenSetConvolutionGroupCount(ConvolutionDescriptor(), value),
        lambda: miopyx.miopenSetConvolutionAttribute(ConvolutionDescriptor(), 0, value),
    ):
        with pytest.raises(BadParmError) as raised:
            call()
        assert raised.value.parameter
        assert raised.value.limit
    assert desc.lens == (5, 6)


def test_error_names_parameter_value_and_limit():
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenSet4dTensorDescriptor(tensor(1), 1, 1, 1, 2**31, 1)
    assert (raised.value.parameter, raised.value.value) == ("h", 2**31)
    assert raised.value.limit == f"{-2**31} ... {INT_MAX}"
    assert "h = 2147483648" in str(raised.value)


def test_error_about_an_integer_that_python_does_not_print():
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenSet4dTensorDescriptor(tensor(1), 1, 1, 1, 10**5000, 1)
    assert "integer out of range" in str(raised.value)


@pytest.mark.parametrize("values", [
    [2, 3, 4], (2, 3, 4), range(2, 5), np.array([2, 3, 4]), np.array([2, 3, 4], "u1"), np.array([2, 9, 3, 9, 4])[::2],
    [np.int32(2), Index(3), Number(4)],
], ids=shown)
def test_sequences(values):
    desc = tensor(1)
    miopyx.miopenSetTensorDescriptor(desc, 1, 3, values, None)
    assert desc.lens == (2, 3, 4)
    miopyx.miopenSetTensorDescriptorV2(desc, 1, 3, [1, 1, 1], values)
    assert desc.strides == (2, 3, 4)
    conv = ConvolutionDescriptor()
    miopyx.miopenInitConvolutionNdDescriptor(conv, 3, values, values, values, 0)
    assert (conv.pads, conv.strides, conv.dilations) == ((2, 3, 4),) * 3


@pytest.mark.parametrize("values", [
    [2, 3], [2, 3, 4, 5], [], "234", b"234", {2: 0, 3: 0, 4: 0}, 3, 2.5, object(), iter([2, 3, 4]),
    np.array([2.0, 3.0, 4.0]), np.ones((3, 3), int), [[2], [3], [4]], [2, 3, None], [2, True, 4], [2, 3, "4"],
    range(2**31), range(2**32 + 3), range(2**70), np.array([2, 3, 2**63], "u8"),
], ids=lambda values: shown(values)[:30])
def test_no_sequences(values):
    desc, conv = tensor(5, 6), ConvolutionDescriptor((1, 2, 3))
    for call in (
        lambda: miopyx.miopenSetTensorDescriptor(desc, 1, 3, values, None),
        lambda: miopyx.miopenSetTensorDescriptor(desc, 1, 3, [2, 3, 4], values),
        lambda: miopyx.miopenSetTensorDescriptorV2(desc, 1, 3, values, None),
        lambda: miopyx.miopenInitConvolutionNdDescriptor(conv, 3, values, [1, 1, 1], [1, 1, 1], 0),
        lambda: miopyx.miopenInitConvolutionNdDescriptor(conv, 3, [1, 1, 1], [1, 1, 1], values, 0),
        lambda: miopyx.miopenSetTransposeConvNdOutputPadding(conv, 3, values),
    ):
        with pytest.raises(BadParmError):
            call()
    assert (desc.lens, conv.pads, conv.output_pads) == ((5, 6), (1, 2, 3), (0, 0, 0))


@pytest.mark.parametrize("values", [range(10**6), range(2**32 - 1), range(2**32 + 2), range(2**70)],
                         ids=shown)
def test_constructors_refuse_long_sequences(values):
    tracemalloc.start()
    try:
        with pytest.raises(BadParmError):
            TensorDescriptor("float32", values)
        with pytest.raises(BadParmError):
            ConvolutionDescriptor(strides=values)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("given", [1, miopyx.miopenFloat, "float32", np.float32, np.dtype("f4"), np.int8(1)], ids=shown)
def test_data_type(given):
    assert TensorDescriptor(given, (1,)).data_type is miopyx.miopenFloat


@pytest.mark.parametrize(("name", "number"), [
    ("float16", 0), ("float32", 1), ("int32", 2), ("int8", 3), ("bfloat16", 5), ("float64", 6),
    ("float8_e4m3fnuz", 7), ("float8_e5m2fnuz", 8), ("int64", 9),
    ("float8_e4m3fn", 1007), ("float8_e5m2", 1008),
])
def test_data_type_by_name(name, number):
    known = getattr(ml_dtypes, name, None) or getattr(np, name)
    for given in (name, known, np.dtype(known), number):
        desc = TensorDescriptor(given, (1,))
        assert (desc.data_type, desc.dtype) == (number, name)


@pytest.mark.parametrize("given", [
    4, 10, -1, 2**40, None, True, 1.0, "float", "FLOAT33", "", np.uint8, np.dtype("c8"), [], {}, float("nan"), object(),
], ids=shown)
def test_no_data_type(given):
    desc = TensorDescriptor("int8", (5, 6))
    for call in (
        lambda: miopyx.miopenSet4dTensorDescriptor(desc, given, 1, 1, 1, 1),
        lambda: miopyx.miopenSet4dTensorDescriptorEx(desc, given, 1, 1, 1, 1, 1, 1, 1, 1),
        lambda: miopyx.miopenSetTensorDescriptor(desc, given, 1, [1], None),
        lambda: miopyx.miopenSetTensorDescriptorV2(desc, given, 1, [1], None),
        lambda: miopyx.miopenSetNdTensorDescriptorWithLayout(desc, given, 0, [1, 1, 1, 1], 4),
        lambda: miopyx.miopenSetTensorCastType(desc, given),
    ):
        with pytest.raises(BadParmError) as raised:
            call()
        assert raised.value.parameter in ("dataType", "cast_type")
    assert (desc.dtype, desc.lens) == ("int8", (5, 6))


def bias_call(alpha, beta):
    """Call ForwardBias on the host path and return y, which was 2, with b = 3."""
    handle, desc = miopyx.Handle("host"), TensorDescriptor("float64", (1, 1, 1, 1))
    y = np.full((1, 1, 1, 1), 2.0)
    miopyx.miopenConvolutionForwardBias(handle, alpha, desc, np.full((1, 1, 1, 1), 3.0), beta, desc, y)
    return y.item()


@pytest.mark.parametrize("scalar", [
    2, 2.0, np.float32(2), np.float16(2), np.int8(2), np.array(2.0), ml_dtypes.bfloat16(2),
], ids=shown)
def test_scalars(scalar):
    assert bias_call(scalar, 0) == 10
    assert bias_call(1, scalar) == 9


def test_scalars_as_c_callers_hold_them():
    assert bias_call(ctypes.c_float(2), ctypes.c_double(0)) == 10


@pytest.mark.parametrize("scalar", [
    None, "two", "2", b"2", [2.0], 2j, object(), np.array([1.0, 2.0]), {}, 10**400,
], ids=shown)
def test_no_scalars(scalar):
    for alpha, beta, name in ((scalar, 0, "alpha"), (1, scalar, "beta")):
        with pytest.raises(BadParmError) as raised:
            bias_call(alpha, beta)
        assert raised.value.parameter == name


# Numbers of calls that are made again and again


class Calls:
    """A convolution that is ready to be called on a handle, with each number that its calls take in turn."""

    def __init__(self, handle, rng):
        self.problem = problem = Problem(handle, rng, x=(1, 2, 5, 5), k=3)
        self.solution = max(problem.call("GetSolution", 0, 99), key=lambda s: s.workspace_size)
        self.found = problem.find(0)[0]
        self.space = max(self.solution.workspace_size, self.found.memory)
        self.memory = problem.workspace(self.space)
        self.want = problem.truth(0)
        self.plan = problem.plan(0)

    def immediate(self, size=None, solution_id=None):
        p, (x, w, y) = self.problem, self.problem.data
        miopyx.miopenConvolutionForwardImmediate(
            p.handle, p.w, w, p.x, x, p.conv, p.y, y, self.memory, self.space if size is None else size[0],
            self.solution.solution_id if solution_id is None else solution_id[0])

    def algorithm(self, algo=None, size=None, alpha=(1,), beta=(0,)):
        p, (x, w, y) = self.problem, self.problem.data
        miopyx.miopenConvolutionForward(
            p.handle, alpha[0], p.x, x, p.w, w, p.conv, self.found.algo if algo is None else algo[0], beta[0], p.y, y,
            self.memory, self.space if size is None else size[0])

    def find(self, count=(1,), size=None):
        p = self.problem
        found = miopyx.miopenFindConvolutionForwardAlgorithm(
            p.handle, *p.pairs(0), count[0], self.memory, self.space if size is None else size[0], False)
        assert 1 <= len(found) <= 5

    def is_right(self):
        np.testing.assert_allclose(self.problem.result(0), self.want, rtol=1e-5, atol=1e-4)


WRAPPED = [2**31, 2**32, 2**32 + 1, 2**63, 2**64, 2**64 + 1, -1, -2**31, -2**31 - 1, -2**63 - 1, 10**30,
           np.uint64(2**63), np.uint64(2**64 - 1), np.int64(-1), np.int8(-1)]
NOT_NUMBERS = [None, True, False, np.True_, np.bool_(False), 1.0, np.float32(1), "1", b"1", [1], np.array([1, 1])]


@pytest.mark.parametrize("value", [*WRAPPED, *NOT_NUMBERS], ids=shown)
def test_numbers_of_repeated_calls_are_never_wrapped(handle, rng, value):
    calls = Calls(handle, rng)
    problem, parameter = calls.problem, [value]
    enough = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and calls.space <= int(value) < 2**63
    immediate, found = calls.solution.workspace_size, calls.found.memory
    for name, call, allowed in (
        # A size beyond the buffer's is refused where the workspace is used, and is fine where it is not.
        ("workSpaceSize", lambda: calls.immediate(size=parameter), immediate == 0 and enough),
        ("workSpaceSize", lambda: calls.algorithm(size=parameter), found == 0 and enough),
        ("solution_id", lambda: calls.immediate(solution_id=parameter), False),
        ("algo", lambda: calls.algorithm(algo=parameter), False),
        ("requestAlgoCount", lambda: calls.find(count=parameter), False),
        ("maxSolutionCount", lambda: problem.call("GetSolution", 0, value), enough and int(value) >= 0),
        ("solution_id", lambda: problem.call("CompileSolution", 0, value), False),
        ("solution_id", lambda: problem.call("GetSolutionWorkspaceSize", 0, value), False),
        ("solution_id", lambda: problem.plan(0, solution_id=value) if value is not None else None, value is None),
        ("workspace_limit", lambda: problem.plan(0, workspace_limit=value), value is None or enough),
    ):
        if allowed:
            call()
            continue
        with pytest.raises(MIOpenError) as raised:
            call()
        assert raised.value.parameter in (name, "workSpace"), name
    problem.poison(0)
    calls.immediate()
    calls.is_right()


@pytest.mark.parametrize("kind", [int, np.int64, np.uint64, np.int32, np.uint16, Number, Index])
def test_numbers_of_repeated_calls_of_any_kind(handle, rng, kind):
    calls = Calls(handle, rng)
    problem = calls.problem
    if calls.space < 2**15:
        for call in (
            lambda: calls.immediate(size=[kind(calls.space)], solution_id=[kind(calls.solution.solution_id)]),
            lambda: calls.algorithm(algo=[kind(int(calls.found.algo))], size=[kind(calls.space)]),
            lambda: calls.algorithm(algo=[miopyx.miopenConvFwdAlgorithm_t(calls.found.algo)]),
        ):
            problem.poison(0)
            call()
            calls.is_right()
        calls.find(count=[kind(3)], size=[kind(calls.space)])
    assert len(problem.call("GetSolution", 0, kind(1))) == 1
    problem.plan(0, solution_id=kind(calls.solution.solution_id), workspace_limit=kind(calls.space))


@pytest.mark.parametrize("scalar", [2, 2.0, np.float64(2), np.float32(2), np.int8(2), np.uint64(2), np.array(2.0),
                                    ctypes.c_float(2), Number(2), ml_dtypes.bfloat16(2)], ids=shown)
def test_scalars_of_repeated_calls(handle, rng, scalar):
    calls = Calls(handle, rng)
    problem, old = calls.problem, calls.problem.host[2]
    for call in (lambda: calls.algorithm(alpha=[scalar], beta=[scalar]),
                 lambda: calls.plan(*problem.data, alpha=scalar, beta=scalar)):
        problem.reset()
        call()
        np.testing.assert_allclose(problem.result(0), 2 * calls.want + 2 * old, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("scalar", [None, "2", b"2", [2.0], (2,), 2j, object(), np.array([1.0, 2.0]), {}, 10**400, int],
                         ids=shown)
def test_no_scalars_of_repeated_calls(handle, rng, scalar):
    calls = Calls(handle, rng)
    x, w, y = calls.problem.data
    for name, call in (
        ("alpha", lambda: calls.algorithm(alpha=[scalar])), ("beta", lambda: calls.algorithm(beta=[scalar])),
        ("alpha", lambda: calls.plan(x, w, y, alpha=scalar)), ("beta", lambda: calls.plan(x, w, y, beta=scalar)),
    ):
        with pytest.raises(BadParmError) as raised:
            call()
        assert raised.value.parameter == name


@pytest.mark.parametrize("value", [*WRAPPED, *NOT_NUMBERS], ids=shown)
def test_numbers_of_descriptors_are_never_wrapped(value):
    """Each number in turn: a wrapped one must not hide behind another that is refused."""
    desc, conv = tensor(5, 6), ConvolutionDescriptor((3, 3))
    cases = [
        (miopyx.miopenSet4dTensorDescriptor, desc, (1, 2, 3, 4, 5)),
        (miopyx.miopenSet4dTensorDescriptorEx, desc, (1, 2, 3, 4, 5, 60, 20, 5, 1)),
        (miopyx.miopenInitConvolutionDescriptor, conv, (0, 1, 1, 1, 1, 1, 1)),
        (miopyx.miopenSetConvolutionGroupCount, conv, (2,)),
        (miopyx.miopenSetConvolutionFindMode, conv, (1,)),
        (miopyx.miopenSetConvolutionAttribute, conv, (1, 1)),
        (miopyx.miopenSetTransposeConvOutputPadding, conv, (1, 1)),
        (miopyx.miopenGetConvolutionNdDescriptor, conv, (2,)),
    ]
    before = desc.lens, conv.pads, conv.group_count
    for function, subject, good in cases:
        for i in range(len(good)):
            arguments = list(good)
            arguments[i] = value
            with pytest.raises(BadParmError):
                function(subject, *arguments)
            assert (desc.lens, conv.pads, conv.group_count) == before


# Nonsense


NUMBERS = [
    0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 16, 31, 224, 65535, -1, -2, 2**15, 2**16, 2**30, 2**31 - 1, 2**31, -2**31,
    -2**31 - 1, 2**32, 2**32 + 1, 2**62, 2**63 - 1, 2**63, -2**63, -2**63 - 1, 2**64, 10**100, 10**5000,
    Number(3), Index(4), Index(None), Index(2**70), np.int8(2), np.uint64(2**63), np.int64(-1), np.array(2),
    *miopyx.miopenDataType_t, *miopyx.miopenTensorLayout_t, *miopyx.miopenConvolutionMode_t,
]

# Descriptors by the parameters that take them; all others take tensors.
KINDS = {"convDesc": ConvolutionDescriptor, "poolDesc": miopyx.PoolingDescriptor,
         "activDesc": miopyx.ActivationDescriptor, "lrnDesc": miopyx.LRNDescriptor,
         "softmaxDesc": miopyx.SoftmaxDescriptor, "reduceTensorDesc": miopyx.ReduceTensorDescriptor,
         "dropoutDesc": partial(miopyx.DropoutDescriptor, 0.5), "ctcLossDesc": miopyx.CTCLossDescriptor,
         "mhaDesc": miopyx.MhaDescriptor,
         "rnnDesc": partial(miopyx.RNNDescriptor, 4, 2, "LSTM", 1),
         "seqTensorDesc": partial(miopyx.SeqTensorDescriptor, "float32", 2, 3, 2, 4)}


class Hostile:
    """Whatever is asked of it raises something that nobody expects."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __len__(self):
        raise ZeroDivisionError

    def __index__(self):
        raise KeyError("index")

    def __hash__(self):
        raise ValueError("hash")

    def __repr__(self):
        raise LookupError("repr")


OTHERS = [
    Hostile(), np.timedelta64(3, "s"), np.datetime64("2020-01-01"), np.array("text"), np.dtype(">f4"),
    None, True, False, np.True_, 0.0, 1.0, -0.0, 2.5, 1e300, float("nan"), float("inf"), np.float32(1), 1j, "", "1",
    "float32", "bfloat16", "host", b"\x01", [], (), {}, {1: 2}, set(), object(), type, int, np.float16, np.dtype("i1"),
    np.dtype("c16"), np.array([1, 2]), np.ones((2, 2)), print, ..., NotImplemented, range(2**70), range(2**32 - 1),
]
SENSIBLE = {
    **dict.fromkeys(("dataType", "cast_type", "data_type"), tuple(miopyx.miopenDataType_t)),
    **dict.fromkeys(("tensorLayout", "layout"), tuple(miopyx.miopenTensorLayout_t)),
    **dict.fromkeys(("c_mode", "mode"), tuple(miopyx.miopenConvolutionMode_t)),
    "attr": tuple(miopyx.miopenConvolutionAttrib_t), "value": (0, 1),
    "findMode": tuple(miopyx.miopenConvolutionFindMode_t), "error": tuple(miopyx.miopenStatus_t),
    **dict.fromkeys(("activAlpha", "activBeta", "activGamma", "lrnAlpha", "lrnBeta", "lrnK"), (0.5, 1, 2.0)),
    "index_type": tuple(miopyx.miopenIndexType_t), "workspace_index": (0, 1), "bn_mode": (0, 1), "algorithm": (0, 1, 2),
    "reduceTensorOp": tuple(miopyx.miopenReduceTensorOp_t), "reduceTensorCompType": (0, 1, 5, 6),
    **dict.fromkeys(("reduceTensorNanOpt", "reduceTensorIndices", "reduceTensorIndicesType"), (0, 0, 0, 1)),
    **dict.fromkeys(("inMode", "biasMode", "algo", "paddingMode"), (0, 1)), "rnnMode": (0, 1, 2, 3), "batchSize": (2,),
    **dict.fromkeys(("layer", "paramID", "biasID"), (0, 1, 2, 3)), "hsize": (4,), "nlayers": (1, 2),
    "sequenceLenArray": ([1, 1], [1, 0]), "paddingMarker": (None,),
    "lrnN": (1, 3, 5), **dict.fromkeys(("pad_h", "pad_w"), (0, 1)),
    **dict.fromkeys(("windowHeight", "windowWidth"), (2, 3)), "ceil_mode": (False, True), "divisor_override": (3, -1),
}


@cache
def saved_solution():
    problem, host = miopyx.miopenCreateConvProblem(ConvolutionDescriptor(), 0), miopyx.Handle("host")
    for number in (1, 2, 3):
        miopyx.miopenSetProblemTensorDescriptor(problem, number, TensorDescriptor("float32", (1, 1, 1, 1)))
    return miopyx.miopenSaveSolution(miopyx.miopenFindSolutions(host, problem, None, 1)[0])


def new_problem():
    return miopyx.miopenCreateConvProblem(ConvolutionDescriptor(), 0)


def new_plan():
    plan = miopyx.miopenCreateFusionPlan(0, TensorDescriptor("float32", (2, 4, 8, 8)))
    miopyx.miopenCreateOpConvForward(plan, ConvolutionDescriptor(), TensorDescriptor("float32", (6, 4, 3, 3)))
    return plan


def new_operator(name):
    plan = new_plan()
    makers = {"convOp": [lambda: miopyx.miopenFusionPlanGetOp(plan, 0)],
              "biasOp": [lambda: miopyx.miopenCreateOpBiasForward(plan, TensorDescriptor("float32", (1, 6, 1, 1)))],
              "activFwdOp": [lambda: miopyx.miopenCreateOpActivationForward(plan, 3)],
              "activBwdOp": [lambda: miopyx.miopenCreateOpActivationBackward(plan, 3)],
              "bnOp": [lambda: miopyx.miopenCreateOpBatchNormBackward(plan, 1),
                       lambda: miopyx.miopenCreateOpBatchNormForward(plan, 1, False),
                       lambda: miopyx.miopenCreateOpBatchNormInference(
                           plan, 1, TensorDescriptor("float32", (1, 6, 1, 1)))]}
    return random.choice(makers[name])()


def new_backend():
    """A descriptor of the graph API with all its attributes, finalised or not; or a tensor's, for Find 2.0."""
    if random.randrange(3) == 0:
        return TensorDescriptor("float32", (1, 1, 1, 1))
    made = miopyx.miopenBackendCreateDescriptor(miopyx.MIOPEN_BACKEND_MATMUL_DESCRIPTOR)
    miopyx.miopenBackendSetAttribute(made, miopyx.MIOPEN_ATTR_MATMUL_COMP_TYPE, miopyx.MIOPEN_TYPE_DATA_TYPE, 1, [1])
    if random.randrange(2):
        miopyx.miopenBackendFinalize(made)
    return made


# Objects of Find 2.0, of graphs and of fusion plans, new ones for each call, and what goes with them.
MAKERS = {
    "fusePlanDesc": new_plan, "args": miopyx.miopenCreateOperatorArgs, "fuseDirection": lambda: 0, "op_idx": lambda: 0,
    **{name: partial(new_operator, name) for name in ("convOp", "biasOp", "activFwdOp", "activBwdOp", "bnOp")},
    "wDesc": lambda: TensorDescriptor("float32", (6, 4, 3, 3)), "requestAlgoCount": lambda: 3,
    **dict.fromkeys(("alpha", "beta"), lambda: random.choice((None, 0.5, 1, 0))),
    **dict.fromkeys(("savedMean", "savedInvVariance", "runningMean", "runningVariance"), lambda: None),
    **dict.fromkeys(("problem", "problem1", "problem2"), new_problem), "options": miopyx.miopenCreateFindOptions,
    "solution": lambda: miopyx.miopenLoadSolution(saved_solution(), len(saved_solution())),
    "data": saved_solution, "size": lambda: len(saved_solution()), "direction": lambda: 0, "id": lambda: 1,
    "operatorDesc": lambda: random.choice((ConvolutionDescriptor, ActivationDescriptor, SoftmaxDescriptor,
                                           miopyx.MhaDescriptor))(),
    "runningMeanVariance": lambda: True, "descriptor": new_backend,
    "descriptorType": lambda: miopyx.MIOPEN_BACKEND_RNG_DESCRIPTOR, "sizeInBytes": lambda: 64,
    "attributeName": lambda: miopyx.MIOPEN_ATTR_MATMUL_COMP_TYPE, "arrayOfElements": lambda: [miopyx.miopenHalf],
    "attributeType": lambda: miopyx.MIOPEN_TYPE_DATA_TYPE, "scale": lambda: 0.5,
    **dict.fromkeys(("elementCount", "requestedElementCount"), lambda: 1),
    "attach": lambda: 1, "buffer": lambda: None, "solverId": lambda: registry.CONV[0].id,
}


def functions_of_descriptors():
    """Return the functions that take no handle, and the constructors, with the names of their parameters."""
    functions = [getattr(miopyx, name) for name in dir(miopyx) if name.startswith("miopen") and not name.endswith("_t")]
    parameters = {f: tuple(inspect.signature(f).parameters) for f in functions if callable(f)}
    found = {f: names for f, names in parameters.items()
             if not {"handle", "stream"} & set(names) and f is not miopyx.miopenCreate}
    found[TensorDescriptor] = ("data_type", "lens", "strides", "layout")
    found[ConvolutionDescriptor] = ("pads", "strides", "dilations", "mode", "groups", "output_pads", "end_pads")
    return found


def keywords_of(function):
    """Return how many parameters a function takes by name only: its last ones."""
    if isinstance(function, type):
        return 0
    return sum(p.kind is p.KEYWORD_ONLY for p in inspect.signature(function).parameters.values())


class Arguments:
    """Random arguments: sensible ones, so that calls get past the first checks, and nonsense among them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.tensors = [TensorDescriptor() for _ in range(4)]
        self.others = {name: [kind() for _ in range(4)] for name, kind in KINDS.items()}
        self.all = self.tensors + [d for owned in self.others.values() for d in owned]

    def of(self, function, names):
        pick = self.random.choice
        rank = pick((1, 2, 3, 4, 4, 4, 5))
        nonsense = pick((0, 0, 0.2, 0.5, 1))
        if "windowDimA" in names:  # of spatial axes, whatever tensors' functions call by these names
            names = [{"nbDims": "spatialDim", "windowDimA": "windows", "stridesA": "strides"}.get(n, n) for n in names]
        return [self.nonsense() if self.random.random() < nonsense else self.sensible(name, rank) for name in names]

    def sensible(self, name, rank):
        pick = self.random.choice
        if name in MAKERS:
            return MAKERS[name]()
        if name.endswith("Desc"):
            owner = self.others.get(name, self.tensors)
            place = self.random.randrange(len(owner))
            if self.random.random() < 0.05:  # a new one in the place of one that may be destroyed
                old = owner[place]
                owner[place] = KINDS.get(name, TensorDescriptor)()
                self.all = [owner[place] if d is old else d for d in self.all]
            return owner[place]
        if name in SENSIBLE:
            return pick(SENSIBLE[name])
        if name in ("nbDims", "num_lens"):
            return rank
        spatial = (rank + 1) // 2
        if name in ("spatialDim", "nbDimsRequested"):
            return spatial
        if name == "dims":
            return pick((4, 5))
        if name in ("dimsA", "stridesA", "lens"):
            return [pick((1, 1, 1, 2, 4, 8, 2**20)) for _ in range(rank)]
        if name in ("padA", "strideA", "dilationA", "adjA", "pads", "strides", "dilations", "output_pads", "windows",
                    "endPadA", "end_pads"):
            return [pick((1, 1, 2, 3)) for _ in range(spatial)]
        return pick((1, 1, 2, 3, 8, 224))

    def nonsense(self):
        pick, kind = self.random.choice, self.random.random()
        if kind < 0.4:
            return pick(NUMBERS)
        if kind < 0.65:
            return pick(OTHERS)
        if kind < 0.75:
            return [pick((1, 2, 3, 0, -1, 2**31 - 1, 2**62)) for _ in range(self.random.randrange(10))]
        if kind < 0.85:
            return tuple([pick(NUMBERS) for _ in range(self.random.randrange(6))])
        if kind < 0.9:
            return [pick(OTHERS) for _ in range(self.random.randrange(6))]
        return pick(self.all)


def snapshot(desc):
    if isinstance(desc, TensorDescriptor):
        return desc.data_type, desc.lens, desc.strides, desc.nbytes
    return repr(desc), getattr(desc, "find_mode", None)


def check_tensor(desc):
    """Check what must hold of any tensor descriptor, however it was made."""
    assert 0 <= desc.ndim <= 8
    assert len(desc.lens) == len(desc.strides) == desc.ndim
    if desc.ndim:
        assert min(desc.lens) >= 0
        assert min(desc.strides) >= 1
        size = np.dtype(getattr(ml_dtypes, desc.dtype, desc.dtype)).itemsize
        last = sum((length - 1) * stride for length, stride in zip(desc.lens, desc.strides, strict=True))
        assert desc.nbytes in ([size * (last + vector) for vector in (1, 4, 8)] if min(desc.lens) else [0])
        assert desc.nbytes < 2**63


def check_convolution(desc):
    assert len(desc.pads) == len(desc.strides) == len(desc.dilations) == len(desc.output_pads) == desc.spatial_dim <= 3
    assert all(0 <= pad <= INT_MAX for pad in desc.pads + desc.output_pads)
    assert all(1 <= value <= INT_MAX for value in (*desc.strides, *desc.dilations, desc.group_count))


def outcome(function, arguments, named):
    try:
        return function(*arguments, **named)
    except BaseException as e:
        return e


def test_nonsense_gives_results_or_errors(seed):
    functions = functions_of_descriptors()
    assert len(functions) >= 58
    keywords = {function: keywords_of(function) for function in functions}
    arguments = Arguments(seed)
    worked, refused = Counter(), Counter()
    for number in range(240_000):
        function = arguments.random.choice(list(functions))
        names = functions[function]
        given = arguments.of(function, names)
        count = len(names) - keywords[function]
        named = {name: value for name, value in zip(names[count:], given[count:], strict=True)
                 if arguments.random.random() < 0.3}
        given = given[:count]
        wrong_count = number % 100 == 0
        if wrong_count:
            given = given[:-1] if given and number % 200 == 0 and not isinstance(function, type) else [*given, 1]
        elif isinstance(function, type):  # their parameters have defaults
            given = given[:arguments.random.randrange(len(given) + 1)]
        before = [(d, snapshot(d)) for d in arguments.all if any(d is v for v in given)]
        result = outcome(function, given, named)
        call = function.__name__, tuple(given), named
        if isinstance(result, MIOpenError):
            refused[function] += 1
            assert str(result)
            assert all(snapshot(d) == old for d, old in before), f"{call!r} failed and changed its descriptor"
        elif wrong_count:
            assert isinstance(result, TypeError), call
            assert "argument" in str(result)
        else:
            assert not isinstance(result, BaseException), (call, result)
            worked[function] += 1
            for desc in (*given[:1], result):
                if isinstance(desc, TensorDescriptor):
                    check_tensor(desc)
                elif isinstance(desc, ConvolutionDescriptor):
                    check_convolution(desc)
    # Sensible calls came through, and everything that can refuse did.
    assert not [f.__name__ for f in functions if not worked[f]]
    assert not [f.__name__ for f, names in functions.items() if refused[f] < 20 and names not in ((), ("error",))]
