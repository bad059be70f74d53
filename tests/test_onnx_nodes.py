"""Nodes of ONNX beyond convolutions' and pooling's: random ones against NumPy in float64, and what is refused."""

import itertools
from math import erf, prod

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_runs import DTYPES, FLOOR, U, integers, run, unit_of_sums

from miopyx import BadParmError, MIOpenError
from miopyx.onnx import BackendRep


def normal(rng, shape, dtype):
    return rng.standard_normal(shape).astype(DTYPES[dtype])


def is_rounded(got, truth, dtype, times=1, **words):
    """Every element of `got` is the truth rounded to the type, subnormal numbers too, at most so many times."""
    np.testing.assert_allclose(got.astype(float), truth, rtol=times * U[dtype], atol=FLOOR[dtype], **words)


# Products of matrices: sums of small integers are exact, and rounded once to the type


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("a", "b"), [
    ((5, 7), (7, 4)), ((7,), (7, 4)), ((5, 7), (7,)), ((7,), (7,)), ((2, 3, 5, 7), (7, 4)), ((2, 3, 5, 7), (7,)),
    ((3, 5, 7), (3, 7, 4)), ((2, 3, 5, 7), (2, 3, 7, 4)), ((5, 7), (2, 3, 7, 4)), ((7,), (3, 7, 4)), ((1, 1), (1, 9)),
])
@pytest.mark.pairwise
def test_products(handle, rng, dtype, a, b):
    a, b = integers(rng, a, dtype), integers(rng, b, dtype)
    truth = np.matmul(a.astype(float), b.astype(float))
    for constants in ((), (0,), (1,)):
        got, = run("MatMul", handle, [a, b], constants=constants)
        assert got.dtype == a.dtype
        assert got.shape == truth.shape
        is_rounded(got, truth, dtype)


def test_products_of_matrices_that_are_repeated(handle, rng):
    a, b = (integers(rng, shape, "float32") for shape in ((3, 1, 5, 7), (1, 2, 7, 4)))
    np.testing.assert_array_equal(run("MatMul", handle, [a, b], where="numpy")[0], a @ b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gemm(handle, rng, dtype, amount):
    m, k, n = 5, 7, 4
    cases = list(itertools.product((0, 1), (0, 1), (None, (n,), (1, n), (m, n), (m, 1), (1, 1), (), (1,)),
                                   (1.0, 0.5), (1.0, 2.0, 0.0), (True, False)))
    for i in rng.choice(len(cases), amount(30, len(cases)), replace=False):
        turn_a, turn_b, shape, alpha, beta, constant = cases[i]
        a, b = integers(rng, (k, m) if turn_a else (m, k), dtype), integers(rng, (n, k) if turn_b else (k, n), dtype)
        c = None if shape is None else integers(rng, shape, dtype)
        left, right = (x.astype(float).T if turn else x.astype(float) for x, turn in ((a, turn_a), (b, turn_b)))
        truth = alpha * (left @ right) + (0 if c is None else beta * c.astype(float))
        got, = run("Gemm", handle, [a, b] if c is None else [a, b, c], transA=turn_a, transB=turn_b, alpha=alpha,
                   beta=beta, constants=((1,) if c is None else (1, 2)) if constant else ())
        assert got.dtype == a.dtype
        is_rounded(got, truth, dtype, err_msg=str(cases[i]))


# Convolutions of integers are exact


def integer_layer(rng, x_type, w_type):
    """Return a random convolution of integers, its zero points, and the sums in int64."""
    n = int(rng.integers(1, 4))
    groups, kernel = int(rng.integers(1, 3)), rng.integers(1, 4, n)
    c, k = groups * int(rng.integers(1, 4)), groups * int(rng.integers(1, 4))
    strides, dilations = rng.integers(1, 3, n), rng.integers(1, 3, n)
    begin, end = rng.integers(0, 3, n), rng.integers(0, 3, n)
    reach = (kernel - 1) * dilations + 1
    lens = rng.integers(5, 9, n)
    limits = [np.iinfo(t) for t in (x_type, w_type)]
    x, w = (rng.integers(i.min, i.max + 1, shape).astype(i.dtype) for i, shape in
            zip(limits, ((2, c, *lens), (k, c // groups, *kernel)), strict=True))
    p = None if rng.random() < 0.3 else rng.integers(limits[0].min, limits[0].max + 1, ()).astype(x_type)
    q = None if rng.random() < 0.3 else rng.integers(limits[1].min, limits[1].max + 1,
                                                     () if rng.random() < 0.5 else k).astype(w_type)
    wide = x.astype(np.int64) - (0 if p is None else np.int64(p))
    wide = np.pad(wide, [(0, 0), (0, 0), *zip(begin, end, strict=True)])
    weights = w.astype(np.int64) - (0 if q is None else q.astype(np.int64).reshape(-1, *[1] * (n + 1)))
    out = (lens + begin + end - reach) // strides + 1
    y = np.zeros((2, k, *out), np.int64)
    for j in np.ndindex(*kernel):
        part = wide[:, :, *(slice(j[i] * dilations[i], j[i] * dilations[i] + (out[i] - 1) * strides[i] + 1, strides[i])
                            for i in range(n))]
        for g in range(groups):
            cs, ks = (slice(g * (m // groups), (g + 1) * (m // groups)) for m in (c, k))
            y[:, ks] += np.einsum("nc...,kc->nk...", part[:, cs], weights[ks][:, :, *j])
    told = {"strides": strides.tolist(), "dilations": dilations.tolist(), "pads": [*begin.tolist(), *end.tolist()],
            "group": groups, "kernel_shape": kernel.tolist()}
    return x, w, p, q, y, told


@pytest.mark.parametrize("x_type", ["int8", "uint8"])
@pytest.mark.parametrize("w_type", ["int8", "uint8"])
def test_convolutions_of_integers(handle, rng, amount, x_type, w_type):
    for _ in range(20 if handle.device.is_host else amount(4, 20)):
        x, w, p, q, y, told = integer_layer(rng, x_type, w_type)
        for constants in ((), (1,)):
            got, = run("ConvInteger", handle, [x, w, p, q], constants=constants, **told)
            assert got.dtype == np.int32
            np.testing.assert_array_equal(got, y)


@pytest.mark.parametrize("x_type", ["int8", "uint8"])
@pytest.mark.parametrize("y_type", ["int8", "uint8"])
def test_quantised_convolutions(handle, rng, amount, x_type, y_type):
    """Within half a step, and what float32 scales are off by, of the exact number; beyond the type its ends."""
    for _ in range(10 if handle.device.is_host else amount(3, 10)):
        x, w, p, q, y, told = integer_layer(rng, x_type, "int8")
        p, q = (np.zeros((), t) if zero is None else zero for zero, t in ((p, x_type), (q, np.int8)))
        k = w.shape[0]
        bias = rng.integers(-1000, 1000, k).astype(np.int32) if rng.random() < 0.5 else None
        x_scale, y_scale = (np.float32(rng.uniform(0.01, 0.1)) for _ in range(2))
        w_scale = rng.uniform(0.001, 0.01, k if q.ndim else ()).astype(np.float32)
        limits = np.iinfo(y_type)
        zero = rng.integers(limits.min, limits.max + 1, ()).astype(y_type)
        each = (-1, *[1] * (x.ndim - 2))
        sums = y + (0 if bias is None else bias.astype(np.int64).reshape(each))
        exact = sums * (float(x_scale) * np.reshape(w_scale, each if q.ndim else ()).astype(float) / float(y_scale))
        exact += int(zero)
        got, = run("QLinearConv", handle, [x, np.asarray(x_scale), p, w, w_scale, q, np.asarray(y_scale), zero,
                                           *([] if bias is None else [bias])], constants=(3,), **told)
        assert got.dtype == np.dtype(y_type)
        off = np.abs(got.astype(float) - np.clip(exact, limits.min, limits.max))
        assert (off <= 0.5 + 4 * U["float32"] * np.abs(exact)).all()


# Norms


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
def test_norms_of_rows(handle, rng, dtype, op, amount):
    v = unit_of_sums(dtype)
    shapes = [((6, 40), -1), ((2, 3, 5, 8), 2), ((2, 3, 40), -1), ((4, 2, 3, 2, 2, 3), 1), ((7,), 0)]
    for i in rng.choice(len(shapes), amount(2, 5), replace=False):
        shape, axis = shapes[i]
        rows = shape[axis % len(shape):]
        axes = tuple(range(axis % len(shape), len(shape)))
        epsilon = float(np.float32(1e-3))
        x, scale, bias = normal(rng, shape, dtype), normal(rng, rows, dtype), normal(rng, rows, dtype)
        if len(rows) > 1 and rng.random() < 0.5:  # weights may be repeated
            scale = scale[..., :1]
        wide = x.astype(float)
        mean = wide.mean(axis=axes, keepdims=True) if op == "LayerNormalization" else np.zeros(1)
        rstd = 1 / np.sqrt(((wide - mean)**2).mean(axis=axes, keepdims=True) + epsilon)
        shift = bias.astype(float) if op == "LayerNormalization" else 0.0
        y = (wide - mean) * rstd * scale.astype(float) + shift
        terms = (np.abs(wide) + np.abs(mean)) * rstd * np.abs(scale.astype(float)) + np.abs(shift)
        inputs, outputs = ([x, scale, bias], 3) if op == "LayerNormalization" else ([x, scale], 1)
        for constants in ((), tuple(range(1, len(inputs)))):
            got = run(op, handle, inputs, 23, outputs, constants=constants, axis=axis, epsilon=epsilon)
            assert got[0].dtype == x.dtype
            # Each term is rounded a few times, and the result once.
            bound = 2 * U[dtype] * np.abs(y) + 32 * v * terms + FLOOR[dtype]
            assert (np.abs(got[0].astype(float) - y) <= bound).all()
        if outputs == 3:
            assert got[1].shape == got[2].shape == rstd.shape
            np.testing.assert_allclose(got[1], mean, rtol=0, atol=32 * v * np.abs(wide).max())
            np.testing.assert_allclose(got[2], rstd, rtol=64 * v)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("op", "opset"), [("GroupNormalization", 18), ("GroupNormalization", 21),
                                           ("InstanceNormalization", 6)])
def test_norms_of_groups(handle, rng, dtype, op, opset):
    v = unit_of_sums(dtype)
    for shape in ((2, 6, 5), (3, 6, 4, 5), (1, 6, 2, 2, 3, 2)):
        groups = 3 if op == "GroupNormalization" else 6
        given = groups if opset == 18 else 6
        x, scale, bias = normal(rng, shape, dtype), normal(rng, given, dtype), normal(rng, given, dtype)
        rows = x.astype(float).reshape(shape[0], groups, -1)
        epsilon = float(np.float32(1e-2))
        mean, rstd = rows.mean(axis=2, keepdims=True), 1 / np.sqrt(rows.var(axis=2, keepdims=True) + epsilon)
        weight, shift = (np.repeat(a.astype(float), 6 // given).reshape(-1, *[1] * (len(shape) - 2))
                         for a in (scale, bias))
        y = ((rows - mean) * rstd).reshape(shape) * weight + shift
        terms = ((np.abs(rows) + np.abs(mean)) * rstd).reshape(shape) * np.abs(weight) + np.abs(shift)
        attributes = {"num_groups": groups} if op == "GroupNormalization" else {}
        for constants in ((), (1, 2)):
            got, = run(op, handle, [x, scale, bias], opset, constants=constants, epsilon=epsilon, **attributes)
            assert got.dtype == x.dtype
            bound = 2 * U[dtype] * np.abs(y) + 32 * v * terms + FLOOR[dtype]
            assert (np.abs(got.astype(float) - y) <= bound).all()


# Reductions


REDUCTIONS = {
    "ReduceSum": (np.sum, 13), "ReduceMean": (np.mean, 18), "ReduceProd": (np.prod, 18), "ReduceMax": (np.max, 18),
    "ReduceMin": (np.min, 18), "ReduceL1": (lambda x, **more: np.abs(x).sum(**more), 18),
    "ReduceL2": (lambda x, **more: np.sqrt((x**2).sum(**more)), 18),
    "ReduceSumSquare": (lambda x, **more: (x**2).sum(**more), 18),
    "ReduceLogSum": (lambda x, **more: np.log(x.sum(**more)), 18),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.pairwise
def test_reductions(handle, rng, amount, op, dtype):
    function, since = REDUCTIONS[op]
    v = unit_of_sums(dtype)
    where = "numpy" if op in ("ReduceSumSquare", "ReduceLogSum") and U[dtype] > U["float32"] else "miopyx"
    for _ in range(6 if handle.device.is_host else amount(2, 6)):
        shape = tuple(int(i) for i in rng.integers(1, 6, int(rng.integers(1, 6))))
        axes = sorted(int(i) for i in rng.choice(len(shape), int(rng.integers(1, len(shape) + 1)), replace=False))
        keep = int(rng.integers(0, 2))
        x = rng.uniform(0.5, 1.5, shape).astype(DTYPES[dtype])
        if op not in ("ReduceProd", "ReduceLogSum"):
            x = x * rng.choice([-1, 1], shape).astype(x.dtype)
        truth = function(x.astype(float), axis=tuple(axes), keepdims=bool(keep))
        terms = prod(shape[i] for i in axes) * 1.5
        given = [int(i - len(shape) * rng.integers(0, 2)) for i in axes]
        bound = 2 * U[dtype] * np.abs(truth) + (8 + terms) * v * (np.abs(truth) if op == "ReduceProd" else 2.5 * terms)
        bound += FLOOR[dtype]
        for opset in (since - 1, since):
            inputs = [x] if opset < since else [x, np.array(given)]
            told = {"axes": [i % len(shape) for i in given]} if opset < since else {}
            got, = run(op, handle, inputs, opset, where=where, keepdims=keep, **told)
            assert got.dtype == x.dtype
            assert got.shape == truth.shape
            if where == "numpy":  # which computes in 16 bits
                np.testing.assert_allclose(got.astype(float), truth, rtol=terms * U[dtype], atol=terms * U[dtype])
            else:
                assert (np.abs(got.astype(float) - truth) <= bound).all()


def test_reductions_at_the_ends(handle):
    x = np.array([[1, np.nan, 3], [np.inf, 2, -np.inf]], np.float32)
    for op, truth in (("ReduceMax", [np.nan, np.inf]), ("ReduceMin", [np.nan, -np.inf])):
        np.testing.assert_array_equal(run(op, handle, [x], 17, axes=[1], keepdims=0)[0], truth)
    np.testing.assert_array_equal(run("ReduceSum", handle, [x[:, :0], np.array([1])], where="numpy")[0], [[0], [0]])
    for op, noop, where in (("ReduceSum", 1, "view"), ("ReduceMean", 1, "view"), ("ReduceSum", 0, "miopyx")):
        got, = run(op, handle, [x[:, 2:]], 18, where=where, noop_with_empty_axes=noop)
        np.testing.assert_array_equal(got, x[:, 2:] if noop else [[-np.inf]])


# Element by element


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
@pytest.mark.pairwise
def test_arithmetic(handle, rng, dtype, op):
    function = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[op]
    for a, b in (((3, 4, 5), (3, 4, 5)), ((3, 4, 5), (4, 1)), ((4, 1), (3, 4, 5)), ((), (3, 4)), ((3, 4), ()),
                 ((2, 3, 2, 3, 2, 3, 2), (2, 3, 2, 3, 2, 3, 2)), ((2, 3, 2, 3, 2, 3), (3, 2, 3)), ((1, 5), (5,))):
        x, y = normal(rng, a, dtype), normal(rng, b, dtype)
        truth = function(x.astype(float), y.astype(float))
        got, = run(op, handle, [x, y])
        assert got.dtype == x.dtype
        is_rounded(got, truth, dtype)
    x, y = normal(rng, (2, 3, 4, 5), dtype), normal(rng, (3, 4), dtype)  # before opset 7 an attribute aligned them
    got, = run(op, handle, [x, y], 6, broadcast=1, axis=1)
    is_rounded(got, function(x.astype(float), y.astype(float)[..., None]), dtype)
    small, more = np.arange(6).reshape(2, 3), np.arange(2)
    got, = run(op, handle, [small, more], 6, where="numpy", broadcast=1, axis=0)
    np.testing.assert_array_equal(got, function(small, more[:, None]))


def test_operands_that_are_both_repeated(handle, rng):
    x, y = normal(rng, (3, 1), "float32"), normal(rng, (1, 4), "float32")
    np.testing.assert_array_equal(run("Add", handle, [x, y], where="numpy")[0], x + y)
    x, y = normal(rng, (2, 3, 2, 3, 2, 3), "float32"), normal(rng, (2, 1, 2, 1, 2, 1), "float32")
    np.testing.assert_array_equal(run("Mul", handle, [x, y], where="numpy")[0], x * y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_division_and_signs(handle, rng, dtype):
    x = normal(rng, (3, 4, 5), dtype)
    for divisor in (8.0, -3.0, 1e-3):
        y = np.array(divisor).astype(x.dtype)
        for constants in ((), (1,)):
            got, = run("Div", handle, [x, y], constants=constants)
            # The reciprocal is rounded, too.
            is_rounded(got, x.astype(float) / float(y), dtype, 2)
    got, = run("Div", handle, [x, x], where="numpy")
    np.testing.assert_array_equal(got.astype(float), np.ones(x.shape))
    np.testing.assert_array_equal(run("Neg", handle, [x])[0], -x)
    got, = run("Sum", handle, [x, x, -x, x])
    is_rounded(got, 2 * x.astype(float), dtype, 4)
    with np.errstate(divide="ignore"):
        got, = run("Div", handle, [x, np.zeros(1, x.dtype)], where="numpy")
    assert np.isinf(got.astype(float)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_hard_sigmoids_and_gelu(handle, rng, dtype):
    x = (4 * rng.standard_normal((3, 50))).astype(DTYPES[dtype])
    wide, u, v = x.astype(float), U[dtype], unit_of_sums(dtype)
    got, = run("HardSigmoid", handle, [x], alpha=0.3, beta=0.4)
    beta = float(np.float32(0.4).astype(x.dtype))
    line = float(np.float32(0.3)) * wide + beta
    assert (np.abs(got.astype(float) - np.clip(line, 0, 1)) <= 2 * u * (np.abs(line) + beta)).all()
    got, = run("HardSwish", handle, [x])
    inner = wide / 6 + 0.5
    bound = 4 * u * np.abs(wide) * (np.abs(inner) + 0.5) + FLOOR[dtype]
    assert (np.abs(got.astype(float) - wide * np.clip(inner, 0, 1)) <= bound).all()
    tanh = wide / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    where = "miopyx" if dtype != "float64" else "numpy"
    got, = run("Gelu", handle, [x], where=where, approximate="tanh")
    # The argument of the exponential is up to 20 here, and the error of it is relative.
    slope = 2 + np.abs(1.6 * (wide + 0.13 * wide**3))
    # Logistics below float32's normal numbers are 0, and NumPy's way by tanh loses what 1 + tanh cancels.
    lost = U["float64"] * 8 if where == "numpy" else 2.0**-126
    bound = (2 * u + 8 * v * slope) * np.abs(tanh) + FLOOR[dtype] + lost * np.abs(wide)
    assert (np.abs(got.astype(float) - tanh) <= bound).all()
    got, = run("Gelu", handle, [x], where=where)
    exact = 0.5 * wide * (1 + np.array([erf(a / np.sqrt(2)) for a in wide.flat]).reshape(wide.shape))
    assert (np.abs(got.astype(float) - exact) <= 2 * u * np.abs(exact) + 8 * v * np.abs(wide) + FLOOR[dtype]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_erf(handle, rng, dtype):
    """Within eight units of float32, as much relative to the result, at every size of x."""
    numbers = np.concatenate([rng.uniform(-6, 6, 3000), 10.0**rng.uniform(-30, 30, 300), [0, 30, -30, 3e38]])
    with np.errstate(over="ignore"):
        x = numbers.astype(DTYPES[dtype])
    got, = run("Erf", handle, [x], where="numpy" if dtype == "float64" else "miopyx")
    assert got.dtype == x.dtype
    y = np.array([erf(number) for number in x.astype(float)])
    assert (np.abs(got.astype(float) - y) <= (U[dtype] + 8 * U["float32"]) * np.abs(y) + FLOOR[dtype]).all()
    ends = np.array([np.inf, -np.inf, np.nan, -0.0]).astype(x.dtype)
    got, = run("Erf", handle, [ends], where="numpy" if dtype == "float64" else "miopyx")
    np.testing.assert_array_equal(got.astype(float), [1, -1, np.nan, 0])


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_casts(handle, rng, source, target):
    numbers = np.concatenate([rng.standard_normal(100), 10.0**rng.uniform(-50, 50, 100),
                              [0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 65504, 65519, 65520, 2.0**-24, 2.0**-25, 3e38]])
    with np.errstate(over="ignore"):
        x = numbers.astype(DTYPES[source])
        truth = x.astype(DTYPES[target])
    got, = run("Cast", handle, [x], where="view" if source == target else "miopyx",
               to=helper.np_dtype_to_tensor_dtype(DTYPES[target]))
    assert got.dtype == truth.dtype
    np.testing.assert_array_equal(got.astype(float), truth.astype(float))
    np.testing.assert_array_equal(np.signbit(got.astype(float)[~np.isnan(numbers)]),
                                  np.signbit(truth.astype(float)[~np.isnan(numbers)]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout(handle, rng, dtype):
    x = normal(rng, (40, 50), dtype)
    np.testing.assert_array_equal(run("Dropout", handle, [x], where="view")[0], x)
    y, mask = run("Dropout", handle, [x], outputs=2)
    np.testing.assert_array_equal(y, x)
    assert mask.all()
    ratio, training = np.array(0.25, np.float32), np.array(True)
    for seed in (None, 7):
        y, mask = run("Dropout", handle, [x, ratio, training], outputs=2, seed=seed)
        assert mask.dtype == np.bool_
        # Of 2,000 elements so many are kept that chance gives another number once in 10^12 times.
        assert abs(mask.mean() - 0.75) < 7 * np.sqrt(0.25 * 0.75 / 2000)
        is_rounded(y, np.where(mask, x.astype(float) / 0.75, 0), dtype, 2)
    np.testing.assert_array_equal(mask, np.random.RandomState(7).uniform(0, 1, x.shape) >= 0.25)
    y, mask = run("Dropout", handle, [x, np.array(0, np.float32), training], outputs=2)
    np.testing.assert_array_equal(y, x)
    with pytest.raises(BadParmError, match="ratio"):
        run("Dropout", handle, [x, np.array(1, np.float32), training])


def test_each_run_drops_other_elements(handle, rng):
    node = helper.make_node("Dropout", ["x", "r", "t"], ["y", "mask"])
    graph = helper.make_graph([node], "drop", [onnx.ValueInfoProto(name=name) for name in node.input],
                              [onnx.ValueInfoProto(name=name) for name in node.output])
    rep = BackendRep(graph, handle, opsets={"": 22})
    inputs = [normal(rng, 500, "float32"), np.array(0.5, np.float32), np.array(True)]
    masks = [rep.run(inputs)[1] for _ in range(3)]
    assert all((a != b).any() for a, b in itertools.combinations(masks, 2))


# What moves elements is exact, on devices with memory of their own, too


@pytest.mark.parametrize("dtype", [*DTYPES, "int64"])
def test_moves(handle, rng, amount, dtype):
    check_moves(handle, rng, amount(3, 10), dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_moves_on_a_device_with_memory_of_its_own(gpu, rng, amount, dtype):
    assert not gpu.device.shares_memory
    check_moves(gpu, rng, amount(3, 10), dtype)


def check_moves(mover, rng, count, dtype):
    ours = dtype in DTYPES
    for _ in range(count):
        shape = tuple(int(i) for i in rng.integers(1, 5, int(rng.integers(1, 6))))
        x = (integers(rng, shape, dtype) if ours else rng.integers(-9, 9, shape)) + 0
        x.flat[:] = np.arange(x.size).astype(x.dtype)
        order = [int(i) for i in rng.permutation(x.ndim)]
        truth = x.transpose(order)
        places = [i for i in order if shape[i] > 1]
        where = "numpy" if not ours else "view" if places == sorted(places) else "miopyx"
        np.testing.assert_array_equal(run("Transpose", mover, [x], perm=order, where=where)[0], truth)
        axis = int(rng.integers(0, x.ndim))
        length = shape[axis]
        start, step = int(rng.integers(0, length)), int(rng.integers(1, 3))
        cut = [slice(None)] * x.ndim
        cut[axis] = slice(start, None, step)
        where = "numpy" if not ours else "view" if x[tuple(cut)].shape == shape else "miopyx"
        got, = run("Slice", mover, [x, *map(np.array, ([start], [1 << 40], [axis - x.ndim], [step]))], where=where)
        np.testing.assert_array_equal(got, x[tuple(cut)])
        if length > 1:
            parts = [start, length - start] if start else [1, length - 1]
            got = run("Split", mover, [x, np.array(parts)], outputs=2, axis=axis, where="miopyx" if ours else "numpy")
            for part, meant in zip(got, np.split(x, [parts[0]], axis), strict=True):
                np.testing.assert_array_equal(part, meant)
        for place in (start, np.array(start - length), np.array([[start]])):
            place = np.asarray(place)
            got, = run("Gather", mover, [x, place], axis=axis, where="miopyx" if ours else "numpy")
            np.testing.assert_array_equal(got, x.take(place, axis))
        count = int(rng.choice([2, 5, 15]))
        got, = run("Concat", mover, [x] * count, axis=axis - x.ndim, where="miopyx" if ours else "numpy")
        np.testing.assert_array_equal(got, np.concatenate([x] * count, axis))
        for op, inputs, meant in (
                ("Reshape", [x, np.array([-1, x.shape[-1]])], x.reshape(-1, x.shape[-1])),
                ("Reshape", [x, np.array([0] * x.ndim)], x), ("Flatten", [x], x.reshape(x.shape[0], -1)),
                ("Unsqueeze", [x, np.array([0, -1])], x[None, ..., None]), ("Squeeze", [x], x.squeeze()),
                ("Identity", [x], x), ("Shape", [x], np.array(shape))):
            np.testing.assert_array_equal(run(op, mover, inputs, where="view")[0], meant)


def test_what_moves_in_numpy(handle, rng):
    x = normal(rng, (2, 3, 4), "float32")
    got, = run("Slice", handle, [x, *map(np.array, ([-1], [-9], [1], [-1]))], where="numpy")
    np.testing.assert_array_equal(got, x[:, ::-1])
    got, = run("Gather", handle, [x, np.array([1, 0, 1])], where="numpy", axis=2)
    np.testing.assert_array_equal(got, x[:, :, [1, 0, 1]])
    np.testing.assert_array_equal(run("Concat", handle, [x] * 16, where="numpy", axis=0)[0], np.concatenate([x] * 16))
    wide = normal(rng, (2, 3, 2, 3, 2, 3), "float32")
    np.testing.assert_array_equal(run("Transpose", handle, [wide], where="numpy")[0], wide.T)


# What is refused says what was wrong


X = np.ones((2, 3, 4), np.float32)
BAD = {
    "product": ("MatMul", [X, np.ones((5, 2), np.float32)], {}, "B"),
    "product of numbers": ("MatMul", [X, np.ones((), np.float32)], {}, "A, B"),
    "product of types": ("MatMul", [X, np.ones((4, 2))], {}, "B"),
    "gemm": ("Gemm", [X[0], np.ones((5, 2), np.float32)], {}, "B"),
    "gemm's bias": ("Gemm", [X[0], np.ones((4, 2), np.float32), np.ones(3, np.float32)], {}, "C"),
    "bias": ("Conv", [X, np.ones((5, 3, 1), np.float32), np.ones(5)], {}, "B"),
    "gemm's rank": ("Gemm", [X, np.ones((4, 2), np.float32)], {}, "A"),
    "types": ("Add", [X, np.ones(4)], {}, "B"),
    "lengths": ("Mul", [X, np.ones(3, np.float32)], {}, "B"),
    "order": ("Transpose", [X], {"perm": [0, 0, 1]}, "perm"),
    "reshape": ("Reshape", [X, np.array([5, 5])], {}, "shape"),
    "open lengths": ("Reshape", [X, np.array([-1, -1])], {}, "shape"),
    "an axis that is not there": ("Reshape", [X, np.array([2, 3, 4, 0])], {}, "shape"),
    "squeeze": ("Squeeze", [X, np.array([1])], {}, "axes"),
    "unsqueeze": ("Unsqueeze", [X, np.array([1, 1])], {}, "axes"),
    "axis": ("Softmax", [X], {"axis": 3}, "axis"),
    "axis of a sum": ("ReduceSum", [X, np.array([3])], {}, "axis"),
    "split": ("Split", [X, np.array([1, 2])], {"axis": 2}, "split"),
    "gather": ("Gather", [X, np.array(3)], {"axis": 1}, "indices"),
    "concat": ("Concat", [X, X[:1]], {"axis": 2}, "inputs[1]"),
    "scale": ("LayerNormalization", [X, np.ones(3, np.float32)], {}, "Scale"),
    "groups": ("GroupNormalization", [X, *[np.ones(3, np.float32)] * 2], {"num_groups": 2}, "num_groups"),
    "one for each channel": ("GroupNormalization", [X, *[np.ones(2, np.float32)] * 2], {"num_groups": 3}, "scale"),
    "batch norm": ("BatchNormalization", [X, *[np.ones(2, np.float32)] * 4], {}, "scale"),
    "window": ("Conv", [X, np.ones((1, 3, 5), np.float32)], {}, "kernel_shape"),
    "rank of weights": ("Conv", [X, np.ones((1, 3, 1, 1), np.float32)], {}, "W"),
    "zero point": ("ConvInteger", [X.astype(np.int8), np.ones((1, 3, 1), np.int8), np.zeros((), np.uint8)], {},
                   "x_zero_point"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_refused(host, case):
    op, inputs, attributes, parameter = BAD[case]
    with pytest.raises(MIOpenError) as caught:
        run(op, host, inputs, 21, outputs=2 if op == "Split" else 1, **attributes)
    assert caught.value.parameter == parameter
    assert caught.value.limit is not None


def test_inputs_that_are_missing(host):
    node = helper.make_node("Add", ["x", "y"], ["z"])
    graph = helper.make_graph([node], "add", [onnx.ValueInfoProto(name=name) for name in node.input],
                              [onnx.ValueInfoProto(name="z")])
    rep = BackendRep(graph, host, opsets={"": 22})
    with pytest.raises(BadParmError, match="y"):
        rep.run({"x": X})


def test_bytes_in_another_order(handle, rng):
    x = normal(rng, (3, 4), "float32")
    np.testing.assert_array_equal(run("Relu", handle, [x.astype(x.dtype.newbyteorder())])[0], np.maximum(x, 0))
