"""Activations and their gradients: values, strides, types, special numbers, memory, and what is refused.

Each element is compared with a formula in float64.  Kernels compute in float32 (float64 for float64 tensors) with
functions that are right to 3 units in the last place, a unit being at most 2 v with v the roundoff of the arithmetic,
and round once more, by u, to store:

    |error| <= u |result| + 10 v M + smallest

M is the size of the result, or of what is subtracted to get it, times the condition of a power.  `smallest` is what is
left of a number below the smallest normal one.  Parameters are numbers that float32 holds exactly.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest
from guarded import DTYPE, ROUNDOFF, Tensor

import miopyx
from miopyx import ActivationDescriptor, TensorDescriptor
from miopyx.engine._invoker import Invoker
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError

PASTHRU, LOGISTIC, TANH, RELU, SOFTRELU, ABS, POWER, CLIPPEDRELU, LEAKYRELU, ELU, CLAMP = range(11)
MODES = {m.name.removeprefix("miopenActivation"): int(m) for m in miopyx.miopenActivationMode_t}
TYPES = ("float32", "float16", "bfloat16", "float64")
LARGEST = {"float32": np.finfo("f4").max, "float16": 65504, "bfloat16": float.fromhex("0x1.fep127"),
           "float64": np.finfo("f8").max}
READS_Y, READS_X = (LOGISTIC, TANH), (RELU, SOFTRELU, ABS, POWER, CLIPPEDRELU, LEAKYRELU,
                                                        ELU, CLAMP)


def logistic(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


def forward(mode, x, a, b, g, eps):
    """Return the results and the sizes M of the error bound."""
    base = a + b * x
    y = {
        PASTHRU: lambda: x,
        LOGISTIC: lambda: logistic(x),
        TANH: lambda: b * np.tanh(a * x),
        RELU: lambda: np.where(x <= 0, 0.0, x),
        SOFTRELU: lambda: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
        ABS: lambda: np.abs(x),
        POWER: lambda: np.where(base <= eps, 0.0, np.abs(base) ** g),
        CLIPPEDRELU: lambda: np.fmin(a, np.fmax(x, 0)),
        LEAKYRELU: lambda: np.where(x > 0, x, a * x),
        ELU: lambda: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0))),
        CLAMP: lambda: np.fmax(a, np.fmin(b, x)),
    }[mode]()
    size = np.abs(y)
    if mode == POWER:
        size = power_size(y, base, a, b, x, g, eps)
    return y, size


def backward(mode, dy, x, y, a, b, g, eps):
    base = a + b * x
    slope, size = {
        PASTHRU: lambda: (1.0 + 0 * x, None),
        LOGISTIC: lambda: (y * (1 - y), np.abs(y) * (1 + np.abs(y))),
        TANH: lambda: (a * (b - y * y / b), np.abs(a) * (np.abs(b) + y * y / np.abs(b)))
        if abs(b) > eps else (0 * x, None),
        RELU: lambda: ((x > 0) * 1.0, None),
        SOFTRELU: lambda: (logistic(x), None),
        ABS: lambda: (np.sign(x), None),
        POWER: lambda: (np.where(base <= eps, 0.0, g * b * np.abs(base) ** (g - 1)), None),
        CLIPPEDRELU: lambda: (((x > 0) & (x <= a)) * 1.0, None),
        LEAKYRELU: lambda: (np.where(x > 0, 1.0, a), None),
        ELU: lambda: (np.where(x > 0, 1.0, a * np.exp(np.minimum(x, 0))), None),
        CLAMP: lambda: (((x > a) & (x <= b)) * 1.0, None),
    }[mode]()
    size = np.abs(slope) if size is None else size
    if mode == POWER:
        size = power_size(slope, base, a, b, x, g - 1, eps)
    return dy * slope, np.abs(dy) * size


def power_size(result, base, a, b, x, g, eps):
    """The base is rounded, which a power amplifies; near eps rounding decides whether the result is 0."""
    terms = abs(a) + np.abs(b * x)
    size = np.abs(result) * (1 + abs(g) * (terms / np.maximum(base, eps) + np.abs(np.log(np.maximum(base, eps)))))
    return np.where(np.abs(base - eps) < 1e-6 * terms, np.inf, size)


def bound_of(want, size, dtype):
    u, v = ROUNDOFF[dtype], ROUNDOFF["float64" if dtype == "float64" else "float32"]
    smallest = {"float16": 2.0**-24, "float64": 2.0**-1022}.get(dtype, 2.0**-126)
    return u * np.abs(want) + 10 * v * size + smallest


def check(got, want, size, dtype, note):
    bound = bound_of(want, size, dtype)
    overflows = np.isinf(got) & (np.sign(got) == np.sign(want)) & (np.abs(want) + bound >= LARGEST[dtype])
    wrong = ~((np.abs(got - want) <= bound) | overflows)
    assert not wrong.any(), (f"{note}: {np.count_nonzero(wrong)} of {wrong.size} wrong, such as {got[wrong][:3]} "
                             f"for {want[wrong][:3]}, bound {bound[wrong][:3]}")


def random_lens(rng):
    rank = int(rng.integers(1, 6))
    return tuple(int(v) for v in rng.integers(1, (300, 40, 12, 8, 6)[rank - 1], rank))


def random_desc(dtype, lens, rng):
    """Axes in a random order in memory, some of them with gaps."""
    order, step, strides = rng.permutation(len(lens)), 1 + int(rng.integers(3) == 0), [0] * len(lens)
    if rng.integers(2):
        order, step = np.arange(len(lens))[::-1], 1
    for axis in order:
        strides[axis] = step
        step = step * lens[axis] + int(rng.integers(4) == 0)
    return TensorDescriptor(dtype, lens, strides)


def values(dtype, lens, rng):
    """Both signs, sizes from small to where exponential functions saturate, and some zeros."""
    v = rng.standard_normal(lens) * rng.choice([0.1, 1.0, 8.0], lens)
    return np.where(rng.random(lens) < 0.02, 0, v).astype(DTYPE[dtype])


def parameters(mode, rng):
    a, b, g = (float(np.float32(v)) for v in rng.uniform(0.25, 1.75, 3))
    if mode == CLAMP and rng.integers(4):
        a -= 2  # else the limits may be the wrong way round
    if mode == POWER:
        b, g = float(np.float32(rng.uniform(-0.5, 0.5))), float(np.float32(rng.choice([-1.25, 0.5, 1, 2, 3, 3.3])))
    return a, b, g


def eps_of(dtype):
    return 1e-4 if dtype == "float16" else 1e-6


def run_forward(handle, mode, abg, x, y, calls=miopyx):
    calls.miopenActivationForward(handle, ActivationDescriptor(mode, *abg), 1, x.desc, x.argument(), 0, y.desc,
                                  y.argument())


def check_problem(handle, mode, dtype, lens, rng, random_strides=True, calls=miopyx):
    abg = parameters(mode, rng)
    xd, yd, dyd, dxd = (random_desc(dtype, lens, rng) if random_strides else TensorDescriptor(dtype, lens)
                        for _ in range(4))
    note = f"{mode} {abg} {xd} -> {yd}"
    x, y = Tensor(handle, xd, values(dtype, lens, rng)), Tensor(handle, yd, None)
    run_forward(handle, mode, abg, x, y, calls)
    wide = x.view().astype(np.float64)
    check(y.values(), *forward(mode, wide, *abg, eps_of(dtype)), dtype, note)

    dy, dx = Tensor(handle, dyd, values(dtype, lens, rng)), Tensor(handle, dxd, None)
    given = [t.argument() if mode in reads else None for t, reads in ((y, READS_Y), (x, READS_X))]
    calls.miopenActivationBackward(handle, ActivationDescriptor(mode, *abg), 1, yd, given[0], dyd, dy.argument(), xd,
                                   given[1], 0, dxd, dx.argument())
    result = y.view().astype(np.float64)
    slopes = backward(mode, dy.view().astype(np.float64), wide, result, *abg, eps_of(dtype))
    check(dx.values(), *slopes, dtype, f"gradient {note}")


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_values(handle, mode, rng, request):
    for dtype in ("float32", TYPES[rng.integers(1, 4)]):
        for _ in range(max(3, request.config.getoption("--configurations") // 40)):
            check_problem(handle, mode, dtype, random_lens(rng), rng)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_kernels_for_gpus(opencl_name, handles, as_gpu, mode, rng):
    handle = handles(opencl_name) if handles(opencl_name).device.is_gpu else as_gpu(opencl_name)
    dtype = TYPES[rng.integers(4)]
    for _ in range(3):
        check_problem(handle, mode, dtype, random_lens(rng), rng)
    check_problem(handle, mode, dtype, (3, 5, 40, 41), rng, random_strides=False)  # several groups of vectors


@pytest.mark.parametrize("dtype", TYPES)
def test_large_tensors(handle, dtype, rng):
    """Beyond one work-group, and beyond one chunk of the host's."""
    check_problem(handle, RELU, dtype, (3, 7, 113, 127), rng, random_strides=False)
    check_problem(handle, RELU, dtype, (2, 50000), rng)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_whole_range_of_float32(opencl_handle, mode, rng):
    """Numbers of every exponent and sign, whose formulas overflow and underflow."""
    bits = rng.integers(0, 2**32, 1 << 16, np.uint32).view("f4")
    x = bits[np.isfinite(bits)]
    desc = TensorDescriptor("float32", x.shape)
    abg = (1.0, 1.0, 0.75)
    given, y = Tensor(opencl_handle, desc, x), Tensor(opencl_handle, desc, None)
    run_forward(opencl_handle, mode, abg, given, y)
    want, size = forward(mode, x.astype(np.float64), *abg, 1e-6)
    check(y.values(), want, size, "float32", mode)


INF, NAN = float("inf"), float("nan")
SPECIAL = [NAN, INF, -INF, 0.0, -0.0]
EXPECTED = {
    PASTHRU: [NAN, INF, -INF, 0, 0], LOGISTIC: [NAN, 1, 0, 0.5, 0.5], TANH: [NAN, 2, -2, 0, 0],
    RELU: [NAN, INF, 0, 0, 0], SOFTRELU: [NAN, INF, 0, np.log(2), np.log(2)], ABS: [NAN, INF, INF, 0, 0],
    POWER: [NAN, INF, 0, 1, 1], CLIPPEDRELU: [0, 1, 0, 0, 0], LEAKYRELU: [NAN, INF, -INF, 0, 0],
    ELU: [NAN, INF, -1, 0, 0], CLAMP: [2, 2, -1, 0, 0],
}
SLOPES = {
    PASTHRU: [1, 1, 1, 1, 1], LOGISTIC: [NAN, 0, 0, 0.25, 0.25], TANH: [NAN, 0, 0, 2, 2], RELU: [0, 1, 0, 0, 0],
    SOFTRELU: [NAN, 1, 0, 0.5, 0.5], ABS: [0, 1, -1, 0, 0], POWER: [NAN, INF, 0, 3, 3], CLIPPEDRELU: [0, 0, 0, 0, 0],
    LEAKYRELU: [1, 1, 1, 1, 1], ELU: [NAN, 1, 0, 1, 1], CLAMP: [0, 0, 0, 1, 1],
}


@pytest.mark.each
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_special_numbers(handle, mode, dtype):
    """Twenty times, so that both the vectors of a kernel and its last elements meet them."""
    abg = {TANH: (1, 2, 0), POWER: (1, 1.5, 2), CLAMP: (-1, 2, 0)}.get(mode, (1, 1, 1))
    desc = TensorDescriptor(dtype, (20, 5))
    x, y = Tensor(handle, desc, np.tile(np.array(SPECIAL), (20, 1))), Tensor(handle, desc, None)
    run_forward(handle, mode, abg, x, y)
    tolerance = 4 * ROUNDOFF[dtype]
    np.testing.assert_allclose(y.values(), np.tile(np.array(EXPECTED[mode], "f8"), (20, 1)), rtol=tolerance)
    dy, dx = Tensor(handle, desc, np.ones((20, 5))), Tensor(handle, desc, None)
    miopyx.miopenActivationBackward(handle, ActivationDescriptor(mode, *abg), 1, desc, y.argument(), desc,
                                    dy.argument(), desc, x.argument(), 0, desc, dx.argument())
    np.testing.assert_allclose(dx.values(), np.tile(np.array(SLOPES[mode], "f8"), (20, 1)), rtol=tolerance)


def test_softrelu_of_large_half_precision_numbers(handle):
    x = np.array([-60000, -20, -11, 11.5, 20, 60000] * 3, "f2")
    desc = TensorDescriptor("float16", x.shape)
    given, y, dx = Tensor(handle, desc, x), Tensor(handle, desc, None), Tensor(handle, desc, None)
    run_forward(handle, SOFTRELU, (0, 0, 0), given, y)
    check(y.values(), *forward(SOFTRELU, x.astype("f8"), 0, 0, 0, 1e-4), "float16", "forward")
    dy = Tensor(handle, desc, np.ones(x.shape))
    handle.activation_backward(ActivationDescriptor(SOFTRELU), desc, desc, desc, desc)(
        None, dy.argument(), given.argument(), dx.argument())
    check(dx.values(), logistic(x.astype("f8")), logistic(x.astype("f8")), "float16", "backward")


def test_tanh_without_a_scale_has_no_slope(handle, rng):
    desc = TensorDescriptor("float32", (40,))
    y, dy, dx = (Tensor(handle, desc, v) for v in (rng.standard_normal(40), rng.standard_normal(40), None))
    handle.activation_backward(ActivationDescriptor(TANH, 1.0, 1e-6), desc, desc, desc, desc)(
        y.argument(), dy.argument(), None, dx.argument())
    np.testing.assert_array_equal(dx.values(), 0)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_in_place(handle, mode, rng):
    """dx may lie where y or x lies, too, if the mode reads it."""
    lens, abg = (3, 5, 7, 11), parameters(mode, rng)
    for desc in (TensorDescriptor("float32", lens), TensorDescriptor("float32", lens, (1155, 231, 33, 2))):
        x = values("float32", lens, rng)
        buffer = Tensor(handle, desc, x)
        argument = buffer.argument()
        activ = ActivationDescriptor(mode, *abg)
        miopyx.miopenActivationForward(handle, activ, 1, desc, argument, 0, desc, argument)
        want, size = forward(mode, x.astype("f8"), *abg, 1e-6)
        check(buffer.values(), want, size, "float32", "forward")
        y, dy = buffer.values().astype("f4"), values("float32", lens, rng)
        want, size = backward(mode, dy.astype("f8"), x.astype("f8"), y.astype("f8"), *abg, 1e-6)
        for where in ("dy", *(["y"] if mode in READS_Y else []), *(["x"] if mode in READS_X else [])):
            tensors = {"y": Tensor(handle, desc, y), "dy": Tensor(handle, desc, dy), "x": Tensor(handle, desc, x)}
            given = {name: tensor.argument() for name, tensor in tensors.items()}
            plan = handle.activation_backward(activ, desc, desc, desc, desc)
            plan(given["y"], given["dy"], given["x"], given[where])
            check(tensors[where].values(), want, size, "float32", f"dx over {where}")


def test_partly_shared_memory_is_refused(handle, rng):
    desc, other = TensorDescriptor("float32", (4, 8)), TensorDescriptor("float32", (4, 8), (1, 4))
    activ = ActivationDescriptor(RELU)
    memory = Tensor(handle, desc, rng.standard_normal((4, 8))).argument()
    with pytest.raises(BadParmError):  # the same memory, but not place by place
        miopyx.miopenActivationForward(handle, activ, 1, desc, memory, 0, other, memory)


def test_results_do_not_depend_on_threads(rng, setting):
    results = []
    for threads in (1, 2, 5):
        setting(MIOPYX_NUM_THREADS=threads)
        with miopyx.Handle("host") as handle:
            desc = TensorDescriptor("float32", (5, 40001))
            x, y = Tensor(handle, desc, np.sin(np.arange(5 * 40001)).reshape(5, 40001)), Tensor(handle, desc, None)
            run_forward(handle, TANH, (1, 1, 0), x, y)
            results.append(y.values())
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


# Against PyTorch's own gradients


def test_gradients_of_torch(handle, rng):
    torch = pytest.importorskip("torch")
    functions = {
        LOGISTIC: (torch.sigmoid, (0, 0, 0)), TANH: (lambda v: 1.7 * torch.tanh(0.3 * v), (0.3, 1.7, 0)),
        RELU: (torch.relu, (0, 0, 0)), SOFTRELU: (lambda v: torch.log1p(torch.exp(v)), (0, 0, 0)),
        ABS: (torch.abs, (0, 0, 0)), POWER: (lambda v: (0.5 + 0.25 * v.abs()) ** 2.5, (0.5, 0.25, 2.5)),
        CLIPPEDRELU: (lambda v: torch.clamp(v, 0, 1.5), (1.5, 0, 0)),
        LEAKYRELU: (lambda v: torch.nn.functional.leaky_relu(v, 0.125), (0.125, 0, 0)),
        ELU: (lambda v: torch.nn.functional.elu(v, 1.25), (1.25, 0, 0)), PASTHRU: (lambda v: v, (0, 0, 0)),
        CLAMP: (lambda v: torch.clamp(v, -0.5, 1.5), (-0.5, 1.5, 0)),
    }
    assert set(functions) == set(MODES.values())
    lens = (2, 3, 5, 7)
    desc = TensorDescriptor("float64", lens)
    if handle.device.is_host is False and not handle.device.fp64:
        desc = TensorDescriptor("float32", lens)
    for mode, (function, abg) in functions.items():
        x = rng.standard_normal(lens)
        x = np.abs(x) if mode == POWER else x
        leaf = torch.tensor(x, requires_grad=True)
        out = function(leaf)
        dy = rng.standard_normal(lens)
        out.backward(torch.tensor(dy))
        tensors = [Tensor(handle, desc, v) for v in (out.detach().numpy(), dy, x, None)]
        handle.activation_backward(ActivationDescriptor(mode, *abg), desc, desc, desc, desc)(
            *(t.argument() for t in tensors))
        tolerance = 1e-12 if desc.dtype == "float64" else 1e-5
        np.testing.assert_allclose(tensors[3].values(), leaf.grad.numpy(), rtol=tolerance, atol=tolerance)


# Descriptors and refusals


def test_descriptor():
    desc = miopyx.miopenCreateActivationDescriptor()
    assert miopyx.miopenGetActivationDescriptor(desc) == (miopyx.miopenActivationPASTHRU, 0, 0, 0)
    assert miopyx.miopenSetActivationDescriptor(desc, miopyx.miopenActivationELU, 1, 2.5, -3) is None
    assert miopyx.miopenGetActivationDescriptor(desc) == (miopyx.miopenActivationELU, 1, 2.5, -3)
    assert isinstance(desc.mode, miopyx.miopenActivationMode_t)
    assert repr(desc) == "ActivationDescriptor('miopenActivationELU', alpha=1.0, beta=2.5, gamma=-3.0)"
    for wrong in ((11, 1, 1, 1), (-1, 1, 1, 1), (None, 1, 1, 1), (True, 1, 1, 1), (1, "a", 1, 1), (1, 1, None, 1),
                  (1, 1, 1, [1])):
        with pytest.raises(BadParmError):
            miopyx.miopenSetActivationDescriptor(desc, *wrong)
        assert miopyx.miopenGetActivationDescriptor(desc) == (miopyx.miopenActivationELU, 1, 2.5, -3)
    miopyx.miopenDestroyActivationDescriptor(desc)
    miopyx.miopenDestroyActivationDescriptor(None)
    for call in (lambda: miopyx.miopenGetActivationDescriptor(desc),
                 lambda: miopyx.miopenSetActivationDescriptor(desc, 0, 0, 0, 0),
                 lambda: miopyx.miopenGetActivationDescriptor(TensorDescriptor()),
                 lambda: miopyx.miopenDestroyActivationDescriptor(TensorDescriptor())):
        with pytest.raises(BadParmError):
            call()


FULL = TensorDescriptor("float32", (2, 3, 4, 5))


def calls(handle, alpha=1, beta=0, x=FULL, y=FULL, dy=FULL, dx=FULL, activ=None):
    """Return the two calls with these arguments, on memory that is large enough."""
    activ = ActivationDescriptor(RELU) if activ is None else activ
    data = [handle.upload(np.zeros(4096, np.uint8)) for _ in range(4)]
    return [
        lambda: miopyx.miopenActivationForward(handle, activ, alpha, x, data[0], beta, y, data[1]),
        lambda: miopyx.miopenActivationBackward(handle, activ, alpha, y, data[0], dy, data[1], x, data[2], beta, dx,
                                                data[3]),
    ]


@pytest.mark.parametrize(("alpha", "beta"), [(2, 0), (1, 1), (0, 0), (0.5, 0.5), (NAN, 0), (1, NAN)])
def test_scaled_results_are_unknown(handle, alpha, beta):
    for call in calls(handle, alpha, beta):
        with pytest.raises(UnknownError):
            call()


@pytest.mark.parametrize("other", [
    TensorDescriptor("float32", (2, 3, 4, 6)), TensorDescriptor("float32", (2, 3, 5, 4)),
    TensorDescriptor("float32", (2, 3, 20)), TensorDescriptor("float16", (2, 3, 4, 5)),
    TensorDescriptor("bfloat16", (2, 3, 4, 5)),
], ids=repr)
def test_tensors_that_differ_have_no_solver(handle, other):
    for name in ("x", "y"):
        for call in calls(handle, **{name: other}):
            with pytest.raises(MIOpenNotImplementedError, match="No solver found"):
                call()
    for name in ("dy", "dx"):
        with pytest.raises(MIOpenNotImplementedError, match="No solver found"):
            calls(handle, **{name: other})[1]()


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float8_e4m3fnuz"])
def test_other_types_have_no_solver(handle, dtype):
    desc = TensorDescriptor(dtype, (2, 3))
    for call in calls(handle, x=desc, y=desc, dy=desc, dx=desc):
        with pytest.raises(MIOpenNotImplementedError) as refused:
            call()
        assert "runs on" not in str(refused.value), "solvers for elsewhere, which refuse the type, too"


def test_more_than_five_dimensions_have_no_solver(handle):
    desc = TensorDescriptor("float32", (1, 2, 1, 2, 1, 2))
    for call in calls(handle, x=desc, y=desc, dy=desc, dx=desc):
        with pytest.raises(MIOpenNotImplementedError, match="No solver found"):
            call()


def test_bad_descriptors(handle):
    gone = TensorDescriptor("float32", (2, 3, 4, 5))
    miopyx.miopenDestroyTensorDescriptor(gone)
    empty, overlapping = TensorDescriptor(), TensorDescriptor("float32", (2, 3, 4, 5), (1, 1, 1, 1))
    for wrong in (None, 1, gone, empty, ActivationDescriptor()):
        for name in ("x", "y", "dy", "dx"):
            for call in calls(handle, **{name: wrong} if wrong is not None else {name: "none"})[name in ("dy", "dx"):]:
                with pytest.raises(BadParmError):
                    call()
    destroyed = ActivationDescriptor(RELU)
    miopyx.miopenDestroyActivationDescriptor(destroyed)
    for wrong in (FULL, 3, destroyed):
        for call in calls(handle, activ=wrong):
            with pytest.raises(BadParmError):
                call()
    with pytest.raises(BadParmError, match="overlap"):
        calls(handle, y=overlapping)[0]()
    with pytest.raises(BadParmError, match="overlap"):
        calls(handle, dx=overlapping)[1]()


def test_missing_and_short_buffers(handle):
    activ, good = ActivationDescriptor(RELU), handle.upload(np.zeros(480, np.uint8))
    short = handle.upload(np.zeros(476, np.uint8))
    for bad in (None, short, "memory"):
        for x, y in ((bad, good), (good, bad)):
            with pytest.raises(BadParmError):
                miopyx.miopenActivationForward(handle, activ, 1, FULL, x, 0, FULL, y)
        for dy, x, dx in ((bad, good, good), (good, bad, good), (good, good, bad)):
            with pytest.raises(BadParmError):
                miopyx.miopenActivationBackward(handle, activ, 1, FULL, None, FULL, dy, FULL, x, 0, FULL, dx)


def test_plans(handle, rng):
    activ, x = ActivationDescriptor(LEAKYRELU, 0.5), values("float32", (2, 3, 4, 5), rng)
    plan = handle.activation_forward(activ, FULL, FULL)
    given, y = Tensor(handle, FULL, x), Tensor(handle, FULL, None)
    arguments = given.argument(), y.argument()
    for _ in range(3):
        plan(*arguments)
    check(y.values(), *forward(LEAKYRELU, x.astype("f8"), 0.5, 0, 0, 1e-6), "float32", "plan")
    assert plan.buffers == ("x", "y")
    assert plan.numbers == {}
    assert handle.activation_backward(activ, FULL, FULL, FULL, FULL).buffers == ("y", "dy", "x", "dx")
    assert plan.solver.name in ("OpenCLActivation", "HostActivation")
    assert plan.solver.name in plan.explain()
    miopyx.miopenSetActivationDescriptor(activ, LEAKYRELU, 0.5, 0, 0)
    plan(*arguments)  # the same again is no change
    miopyx.miopenSetActivationDescriptor(activ, LEAKYRELU, 0.25, 0, 0)
    with pytest.raises(BadParmError, match="changed"):
        plan(*arguments)
    miopyx.miopenSetActivationDescriptor(activ, LEAKYRELU, 0.5, 0, 0)
    plan(*arguments)


def test_plans_keep_their_numbers(handle, rng):
    """Plans of one descriptor share an invoker; what each keeps goes by the bits, NaN too."""
    activ, x = ActivationDescriptor(TANH, 0.5, 2), values("float32", (2, 3, 4, 5), rng)
    given, y, dy, dx = (Tensor(handle, FULL, v) for v in (x, None, values("float32", x.shape, rng), None))
    wide, slope = x.astype("f8"), dy.view().astype("f8")
    plans = {}
    for a, b in ((0.5, 2), (0.25, 3), (1, 1)):
        miopyx.miopenSetActivationDescriptor(activ, TANH, a, b, 0)
        plans[a, b] = (handle.activation_forward(activ, FULL, FULL),
                       handle.activation_backward(activ, FULL, FULL, FULL, FULL))
    assert len({id(there.invoker) for there, _ in plans.values()}) == 1
    assert len({id(back.invoker) for _, back in plans.values()}) == 1
    for chosen in (*plans, *plans):
        miopyx.miopenSetActivationDescriptor(activ, TANH, *chosen, 0)
        for (a, b), (there, back) in plans.items():
            result = y.argument()  # once: on devices with memory of their own each asking uploads anew
            buffers = (given.argument(), result), (result, dy.argument(), None, dx.argument())
            if (a, b) == chosen:
                there(*buffers[0])
                check(y.values(), *forward(TANH, wide, a, b, 0, 1e-6), "float32", f"plan {a} {b}")
                back(*buffers[1])
                check(dx.values(), *backward(TANH, slope, wide, y.view().astype("f8"), a, b, 0, 1e-6), "float32",
                      f"gradient, plan {a} {b}")
                continue
            for plan, arguments in zip((there, back), buffers, strict=True):
                with pytest.raises(BadParmError, match="changed"):
                    plan(*arguments)
    for changed in ((0.5, 2, 0), (1, 2, 0), (1, 1, 2), (NAN, 1, 0)):
        miopyx.miopenSetActivationDescriptor(activ, TANH, *changed)
        with pytest.raises(BadParmError, match="changed"):
            plans[1, 1][0](given.argument(), y.argument())
    miopyx.miopenSetActivationDescriptor(activ, LEAKYRELU, NAN, 0, 0)
    plan = handle.activation_forward(activ, FULL, FULL)
    miopyx.miopenSetActivationDescriptor(activ, LEAKYRELU, NAN, 0, 0)
    plan(given.argument(), y.argument())
    np.testing.assert_array_equal(np.isnan(y.values()), x <= 0)
    miopyx.miopenDestroyActivationDescriptor(activ)
    plan(given.argument(), y.argument())
    np.testing.assert_array_equal(np.isnan(y.values()), x <= 0)


def invokers():
    return sum(type(thing) is Invoker for thing in gc.get_objects())


def test_new_parameters_prepare_nothing(device_name, handles, as_gpu, rng):
    """A slope that changes with each step leaves nothing behind."""
    both = [handles(device_name)]
    if device_name != "host" and not both[0].device.is_gpu:
        both.append(as_gpu(device_name))
    desc = TensorDescriptor("float32", (1013,))
    x, slope = rng.integers(-64, 64, (2, 1013)) / 8
    activ = ActivationDescriptor(LEAKYRELU)
    for handle in both:
        tensors = [Tensor(handle, desc, v) for v in (x, None, slope, None)]
        memory = [t.argument() for t in tensors]
        before = invokers()
        # The products of these numbers are exact.
        for step, alpha in enumerate(rng.permutation(np.arange(-500, 500)) / 1024):
            miopyx.miopenSetActivationDescriptor(activ, LEAKYRELU, alpha, step, -step)
            miopyx.miopenActivationForward(handle, activ, 1, desc, memory[0], 0, desc, memory[1])
            miopyx.miopenActivationBackward(handle, activ, 1, desc, None, desc, memory[2], desc, memory[0], 0, desc,
                                            memory[3])
            if step == 0:
                assert invokers() == before + 2
            if step % 10 == 0 or step > 980:
                np.testing.assert_array_equal(tensors[1].values(), np.where(x > 0, x, alpha * x))
                np.testing.assert_array_equal(tensors[3].values(), np.where(x > 0, slope, alpha * slope))
        assert invokers() == before + 2


@pytest.mark.parametrize("mode", [TANH, POWER, CLIPPEDRELU, ELU, CLAMP])
def test_each_parameter_of_a_call_counts(handle, mode, rng):
    x = values("float32", FULL.lens, rng)
    given, y = Tensor(handle, FULL, x), Tensor(handle, FULL, None)
    for _ in range(20):
        abg = parameters(mode, rng)
        run_forward(handle, mode, abg, given, y)
        check(y.values(), *forward(mode, x.astype("f8"), *abg, 1e-6), "float32", f"{mode} {abg}")


def test_a_changed_descriptor_is_another_problem(handle, rng):
    activ, x = ActivationDescriptor(), values("float32", (2, 3, 4, 5), rng)
    for mode in (*MODES.values(), RELU):
        given, y = Tensor(handle, FULL, x), Tensor(handle, FULL, None)
        miopyx.miopenSetActivationDescriptor(activ, mode, 1, 1, 2)
        for _ in range(2):
            miopyx.miopenActivationForward(handle, activ, 1, FULL, given.argument(), 0, FULL, y.argument())
        check(y.values(), *forward(mode, x.astype("f8"), 1, 1, 2, 1e-6), "float32", mode)


@pytest.mark.parametrize("count", [1, 7, 16, 61])
@pytest.mark.parametrize("dtype", TYPES)
def test_power_beside_bases_of_zero(handle, dtype, count, rng):
    """What a power of 0 gives must not reach its neighbours, nor what stands behind the last element."""
    desc = TensorDescriptor(dtype, (count,))
    kind = np.dtype(DTYPE[dtype])
    values = rng.choice([0.0, 0.25, 1.0, 4.0], count)
    values[rng.integers(count)] = 4.0
    x, dy = handle.upload(values.astype(kind)), handle.upload(np.ones(count, kind))
    power = ActivationDescriptor(6, 0, 1, 0.5)
    for compute, want in (
            (lambda out: handle.activation_forward(power, desc, desc)(x, out), np.sqrt(values)),
            (lambda out: handle.activation_backward(power, *[desc] * 4)(None, dy, x, out),
             np.where(values > 0, 0.5 / np.sqrt(np.where(values > 0, values, 1)), 0))):
        out = handle.upload(np.full(count, np.nan, kind))
        compute(out)
        np.testing.assert_array_equal(handle.download(out, np.empty(count, kind)), want.astype(kind))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("mode", "numbers"), [(CLIPPEDRELU, (2, 1, 1)), (CLAMP, (0, 2, 1))])
def test_gradient_at_the_limits(handle, mode, numbers, dtype):
    """The gradient is dy at the upper limit itself and 0 at the lower one and outside: as MIOpen's 0 < x <= alpha."""
    desc = TensorDescriptor(dtype, (20, 5))
    x = np.tile(np.array([0, 0.5, 2, 2.5, -1]), (20, 1))
    tensors = [Tensor(handle, desc, v) for v in (np.minimum(np.maximum(x, 0), 2), np.full(x.shape, 3.0), x)]
    dx = Tensor(handle, desc, None)
    y, dy, x_there = tensors
    miopyx.miopenActivationBackward(handle, ActivationDescriptor(mode, *numbers), 1, desc, y.argument(), desc,
                                    dy.argument(), desc, x_there.argument(), 0, desc, dx.argument())
    np.testing.assert_array_equal(dx.values(), 3.0 * ((x > 0) & (x <= 2)))
