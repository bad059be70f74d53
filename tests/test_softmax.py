"""Softmax, its logarithm and the gradients: values, strides, types, special numbers, memory, and what is refused.

Each element is compared with a formula in float64.  Kernels compute in float32 (float64 for float64 tensors), with
roundoff v, and round once more, by u, to store.  Sums of n terms are cut in parts of 64, which makes

    depth = min(n, 64 + n / 64) + 4

roundings, each v of the sum of |terms|.  The exponent x - max is rounded before e is raised to it, which costs
v |x - max| of the power.  A power just above the smallest normal number may count as 0.
"""

from __future__ import annotations

import numpy as np
import pytest
from guarded import ROUNDOFF, Tensor
from test_activation import NAN, TYPES, random_desc

import miopyx
from miopyx import SoftmaxDescriptor, TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError

FAST, ACCURATE, LOG = range(3)
INSTANCE, CHANNEL = range(2)
CASES = [(algorithm, mode) for algorithm in range(3) for mode in range(2)]


def axes_of(mode, lens):
    return (1,) if mode == CHANNEL else tuple(range(1, len(lens)))


def depth_of(axes, lens):
    n = int(np.prod([lens[axis] for axis in axes]))
    return min(n, 64 + n / 64) + 4


def forward(x, algorithm, axes):
    """Return the results and what v is to be multiplied with."""
    depth = depth_of(axes, x.shape)
    v = x - x.max(axes, keepdims=True)
    powers = np.exp(v)
    total = powers.sum(axes, keepdims=True)
    of_sum = depth + 4 + (powers * np.abs(v)).sum(axes, keepdims=True) / total
    if algorithm == LOG:
        y = v - np.log(total)
        return y, np.abs(v) + of_sum + 5 * np.log(total) + 2 * np.abs(y)
    y = powers / total
    return y, y * (np.abs(v) + 6 + of_sum)


def backward(y, dy, algorithm, axes):
    depth = depth_of(axes, y.shape)
    factor, terms = (np.exp(y), dy) if algorithm == LOG else (y, dy * y)
    total, size = terms.sum(axes, keepdims=True), np.abs(terms).sum(axes, keepdims=True)
    if algorithm == LOG:
        return dy - factor * total, 3 * np.abs(dy) + factor * (8 * np.abs(total) + (depth + 1) * size)
    return factor * (dy - total), np.abs(factor) * (4 * np.abs(dy) + 4 * np.abs(total) + (depth + 1) * size)


def bound_of(want, result, size, dtype, alpha):
    """`want` is alpha * result, to which beta * old may be added."""
    u, v = ROUNDOFF[dtype], ROUNDOFF["float64" if dtype == "float64" else "float32"]
    smallest = {"float16": 2.0**-24, "float64": 2.0**-1022}.get(dtype, 2.0**-125) * max(1, abs(alpha))
    return u * np.abs(want) + v * (abs(alpha) * size + 3 * np.abs(want) + 3 * np.abs(want - alpha * result)) + smallest


def check(got, result, size, dtype, alpha, old, beta, note):
    want = alpha * result + (beta * old if beta else 0)
    bound = bound_of(want, result, size, dtype, alpha)
    wrong = ~(np.abs(got - want) <= bound)
    assert not wrong.any(), (f"{note}: {np.count_nonzero(wrong)} of {wrong.size} wrong, such as {got[wrong][:3]} "
                             f"for {want[wrong][:3]}, bound {bound[wrong][:3]}")


def channels_last(dtype, lens):
    strides, step = [0] * len(lens), 1
    for axis in (1, *range(len(lens) - 1, 1, -1), 0):
        strides[axis] = step
        step *= lens[axis]
    return TensorDescriptor(dtype, lens, strides)


def check_problem(handle, algorithm, mode, dtype, lens, rng, make=None, calls=miopyx):
    make = make or (random_desc, lambda t, s, _: TensorDescriptor(t, s),
                    lambda t, s, _: channels_last(t, s))[rng.integers(3)]
    xd, yd, dxd = (make(dtype, lens, rng) for _ in range(3))
    axes = axes_of(mode, lens)
    alpha, beta = ((1.0, 0.0), (float(np.float32(rng.uniform(-2, 2))), float(np.float32(rng.uniform(-1, 1)))))[
        rng.integers(2)]
    note = f"{algorithm} {mode} {alpha} {beta} {xd} -> {yd}"
    old = rng.standard_normal(lens).astype("f4") if beta else None
    x, y = Tensor(handle, xd, rng.standard_normal(lens) * rng.choice([1, 5, 20])), Tensor(handle, yd, old)
    old = y.view().astype(np.float64) if beta else 0
    calls.miopenSoftmaxForward_V2(handle, alpha, xd, x.argument(), beta, yd, y.argument(), algorithm, mode)
    wide = x.view().astype(np.float64)
    check(y.values(), *forward(wide, algorithm, axes), dtype, alpha, old, beta, note)

    old = rng.standard_normal(lens).astype("f4") if beta else None
    y = Tensor(handle, yd, forward(wide, algorithm, axes)[0])
    dy, dx = Tensor(handle, yd, rng.standard_normal(lens)), Tensor(handle, dxd, old)
    old = dx.view().astype(np.float64) if beta else 0
    calls.miopenSoftmaxBackward_V2(handle, alpha, yd, y.argument(), yd, dy.argument(), beta, dxd, dx.argument(),
                                   algorithm, mode)
    want = backward(y.view().astype(np.float64), dy.view().astype(np.float64), algorithm, axes)
    check(dx.values(), *want, dtype, alpha, old, beta, f"gradient {note}")


def random_lens(rng):
    rank = int(rng.integers(2, 6))
    return tuple(int(v) for v in rng.integers(1, (40, 20, 12, 7)[rank - 2], rank))


@pytest.mark.parametrize(("algorithm", "mode"), CASES)
def test_values(handle, algorithm, mode, rng, request):
    dtype = ("float32", TYPES[rng.integers(4)])[rng.integers(2)]
    for _ in range(max(4, request.config.getoption("--configurations") // 40)):
        check_problem(handle, algorithm, mode, dtype, random_lens(rng), rng)


@pytest.mark.parametrize("mode", [INSTANCE, CHANNEL])
def test_kernels_for_gpus(opencl_name, handles, as_gpu, mode, rng, amount):
    handle = handles(opencl_name) if handles(opencl_name).device.is_gpu else as_gpu(opencl_name)
    dtype, algorithm = TYPES[rng.integers(4)], int(rng.integers(1, 3))
    for lens in (random_lens(rng), random_lens(rng), (2, 150, 13, 9)):
        check_problem(handle, algorithm, mode, dtype, lens, rng)
    last = [(2, 21, 6, 8), (3, 40, 4, 4), (2, 2304, 3, 5)]
    for lens in (last[i] for i in rng.permutation(3)[:amount(2, 3)]):
        make = (TensorDescriptor, channels_last)[rng.integers(2)]
        check_problem(handle, algorithm, mode, dtype, lens, rng, lambda t, s, _, make=make: make(t, s))
    if mode == CHANNEL:  # enough short sets for a work-item each
        for lens in ((2, 21, 47, 53), (1, 5, 65, 67)):
            check_problem(handle, algorithm, mode, dtype, lens, rng, lambda t, s, _: channels_last(t, s))


# The forms of the kernels, at the sizes where they change: sets too long to be kept, blocks of columns with a rest, and
# strides that no form but the general one takes.
FORMS = {
    "rows": ((5, 1000), TensorDescriptor), "rows with a rest": ((3, 37), TensorDescriptor),
    "long rows": ((2, 16400), TensorDescriptor), "short rows": ((2, 21, 9, 31), channels_last),
    "columns": ((2, 21, 40, 50), TensorDescriptor), "many channels": ((1, 1100, 3, 7), TensorDescriptor),
    "kept at most": ((1, 1024, 2, 9), TensorDescriptor), "one place": ((3, 40, 1, 1), channels_last),
    "one channel": ((4, 1, 6, 5), TensorDescriptor),
}


@pytest.mark.some(4, host=9)
@pytest.mark.parametrize(("lens", "make"), FORMS.values(), ids=FORMS)
def test_forms(handle, lens, make, rng):
    dtype = ("float32", TYPES[rng.integers(4)])[rng.integers(2)]
    for algorithm, mode in ((ACCURATE, CHANNEL), (LOG, INSTANCE), (LOG, CHANNEL)):
        check_problem(handle, algorithm, mode, dtype, lens, rng, lambda t, s, _: make(t, s))


def test_long_sets_of_equal_numbers(handle):
    """Plain sums of 32 bits would add the same rounding error again and again."""
    n = 1 << 20
    desc = TensorDescriptor("float32", (1, n))
    x, y = Tensor(handle, desc, np.full((1, n), 0.3)), Tensor(handle, desc, None)
    handle.softmax_forward(desc, desc)(x.argument(), y.argument())
    np.testing.assert_allclose(y.values(), 1 / n, rtol=1e-5)
    dx = Tensor(handle, desc, None)
    ones = np.full((1, n), 0.1, "f4")
    handle.softmax_backward(desc, desc, desc, LOG)(y.argument(), Tensor(handle, desc, ones).argument(), dx.argument())
    want = ones[0, 0].astype("f8") * (1 - n * np.exp(y.values()))
    np.testing.assert_allclose(dx.values(), want, rtol=1e-5)


@pytest.mark.parametrize("algorithm", range(3))
@pytest.mark.parametrize(("lens", "axis"), [((3, 40), 1), ((2, 5, 8, 3), 1)])
def test_special_numbers(handle, algorithm, lens, axis):
    desc = TensorDescriptor("float32", lens)

    def run(x):
        given, y = Tensor(handle, desc, x), Tensor(handle, desc, None)
        miopyx.miopenSoftmaxForward_V2(handle, 1, desc, given.argument(), 0, desc, y.argument(), algorithm, CHANNEL)
        y = y.values()
        return np.exp(y) if algorithm == LOG else y

    n = lens[axis]
    np.testing.assert_allclose(run(np.full(lens, 1e4)), 1 / n, rtol=1e-5)  # e^1e4 overflows
    np.testing.assert_allclose(run(np.full(lens, -1e30)), 1 / n, rtol=1e-5)
    x = np.zeros(lens)
    x[:, ::2] = -np.inf
    want = np.zeros(lens)
    want[:, 1::2] = 1 / (n // 2)
    np.testing.assert_allclose(run(x), want, rtol=1e-5)
    for bad in (np.nan, np.inf):
        x = np.zeros(lens)
        x[0, 3] = bad
        y = run(x)
        assert np.isnan(y[0, 3]).all()
        np.testing.assert_allclose(y[1:], 1 / n, rtol=1e-5)
        if bad != np.inf:
            assert np.isnan(y[0]).all(), "each sum with NaN in it is NaN"
    assert np.isnan(run(np.full(lens, -np.inf))).all()


@pytest.mark.parametrize(("algorithm", "mode"), CASES)
def test_in_place(handle, algorithm, mode, rng):
    lens = (2, 5, 4, 7)
    for desc in (TensorDescriptor("float32", lens), channels_last("float32", lens),
                 TensorDescriptor("float32", lens, (300, 60, 14, 2))):
        x = rng.standard_normal(lens)
        buffer = Tensor(handle, desc, x)
        argument = buffer.argument()
        wide = buffer.view().astype("f8")
        handle.softmax_forward(desc, desc, algorithm, mode)(argument, argument)
        axes = axes_of(mode, lens)
        check(buffer.values(), *forward(wide, algorithm, axes), "float32", 1, 0, 0, "forward")
        y = buffer.values()
        for where in (0, 1):
            tensors = [Tensor(handle, desc, y), Tensor(handle, desc, rng.standard_normal(lens))]
            dy = tensors[1].view().astype("f8")
            given = [tensor.argument() for tensor in tensors]
            handle.softmax_backward(desc, desc, desc, algorithm, mode)(*given, given[where])
            check(tensors[where].values(), *backward(y, dy, algorithm, axes), "float32", 1, 0, 0, "backward")


def test_the_short_forms_are_accurate_over_channels(handle, rng):
    lens = (3, 6, 2, 2)
    desc = TensorDescriptor("float32", lens)
    x, y, dy, dx = (Tensor(handle, desc, rng.standard_normal(lens)) for _ in range(4))
    old = y.view().astype("f8"), dx.view().astype("f8")
    miopyx.miopenSoftmaxForward(handle, 0.5, desc, x.argument(), 2, desc, y.argument())
    wide = x.view().astype("f8")
    check(y.values(), *forward(wide, ACCURATE, (1,)), "float32", 0.5, old[0], 2, "forward")
    miopyx.miopenSoftmaxBackward(handle, 0.5, desc, y.argument(), desc, dy.argument(), 2, desc, dx.argument())
    want = backward(y.values(), dy.view().astype("f8"), ACCURATE, (1,))
    check(dx.values(), *want, "float32", 0.5, old[1], 2, "backward")


def test_torch(handle, rng):
    torch = pytest.importorskip("torch")
    dtype = "float64" if handle.device.is_host or handle.device.fp64 else "float32"
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    lens = (3, 7, 5, 4)
    desc = TensorDescriptor(dtype, lens)
    for algorithm, mode in CASES:
        leaf = torch.tensor(rng.standard_normal(lens), requires_grad=True)
        flat = leaf if mode == CHANNEL else leaf.reshape(lens[0], -1)
        out = (torch.log_softmax if algorithm == LOG else torch.softmax)(flat, 1).reshape(lens)
        dy = rng.standard_normal(lens)
        out.backward(torch.tensor(dy))
        x, y, dyt, dx = (Tensor(handle, desc, v) for v in (leaf.detach().numpy(), None, dy, None))
        handle.softmax_forward(desc, desc, algorithm, mode)(x.argument(), y.argument())
        np.testing.assert_allclose(y.values(), out.detach().numpy(), rtol=tolerance, atol=tolerance)
        handle.softmax_backward(desc, desc, desc, algorithm, mode)(y.argument(), dyt.argument(), dx.argument())
        np.testing.assert_allclose(dx.values(), leaf.grad.numpy(), rtol=tolerance, atol=tolerance)


def test_results_do_not_depend_on_threads(setting):
    results = []
    for threads in (1, 2, 5):
        setting(MIOPYX_NUM_THREADS=threads)
        with miopyx.Handle("host") as handle:
            desc = TensorDescriptor("float32", (3, 21, 70, 33))
            x, y = Tensor(handle, desc, np.sin(np.arange(145530)).reshape(desc.lens)), Tensor(handle, desc, None)
            handle.softmax_forward(desc, desc)(x.argument(), y.argument())
            results.append(y.values())
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


# Descriptors and refusals


def test_descriptor():
    desc = miopyx.miopenCreateSoftmaxDescriptor()
    assert miopyx.miopenGetSoftmaxDescriptor(desc) == (1, 0, ACCURATE, CHANNEL)
    assert miopyx.miopenSetSoftmaxDescriptor(desc, 0.5, -2, LOG, INSTANCE) is None
    assert miopyx.miopenGetSoftmaxDescriptor(desc) == (0.5, -2, miopyx.MIOPEN_SOFTMAX_LOG,
                                                       miopyx.MIOPEN_SOFTMAX_MODE_INSTANCE)
    assert isinstance(desc.algorithm, miopyx.miopenSoftmaxAlgorithm_t)
    assert isinstance(desc.mode, miopyx.miopenSoftmaxMode_t)
    assert repr(desc) == ("SoftmaxDescriptor(alpha=0.5, beta=-2.0, algorithm='MIOPEN_SOFTMAX_LOG', "
                          "mode='MIOPEN_SOFTMAX_MODE_INSTANCE')")
    for wrong in ((1, 0, 3, 0), (1, 0, -1, 0), (1, 0, 0, 2), (1, 0, 0, -1), ("a", 0, 0, 0), (1, None, 0, 0),
                  (1, 0, True, 0), (1, 0, 0, None)):
        with pytest.raises(BadParmError):
            miopyx.miopenSetSoftmaxDescriptor(desc, *wrong)
        assert miopyx.miopenGetSoftmaxDescriptor(desc) == (0.5, -2, LOG, INSTANCE)
    for wrong in (None, TensorDescriptor()):
        with pytest.raises(BadParmError):
            miopyx.miopenGetSoftmaxDescriptor(wrong)
        with pytest.raises(BadParmError):
            miopyx.miopenSetSoftmaxDescriptor(wrong, 1, 0, 0, 0)
    assert repr(SoftmaxDescriptor()) == repr(miopyx.miopenCreateSoftmaxDescriptor())


FULL = TensorDescriptor("float32", (2, 3, 4, 5))


def calls(handle, alpha=1, beta=0, algorithm=1, mode=1, x=FULL, y=FULL, dy=FULL, dx=FULL):
    """Return the two calls with these arguments, on memory that is large enough."""
    data = [handle.upload(np.zeros(4096, np.uint8)) for _ in range(3)]
    return [
        lambda: miopyx.miopenSoftmaxForward_V2(handle, alpha, x, data[0], beta, y, data[1], algorithm, mode),
        lambda: miopyx.miopenSoftmaxBackward_V2(handle, alpha, y, data[0], dy, data[1], beta, dx, data[2], algorithm,
                                                mode),
    ]


@pytest.mark.parametrize("other", [
    TensorDescriptor("float32", (2, 3, 4, 6)), TensorDescriptor("float32", (2, 3, 5, 4)),
    TensorDescriptor("float32", (2, 3, 20)), TensorDescriptor("float16", (2, 3, 4, 5)),
], ids=repr)
def test_tensors_that_differ_are_refused(handle, other):
    for which, name in ((0, "x"), (0, "y"), (1, "y"), (1, "dy"), (1, "dx")):
        with pytest.raises(BadParmError):
            calls(handle, **{name: other})[which]()


def test_y_and_dy_have_the_same_strides(handle):
    for name in ("y", "dy"):
        with pytest.raises(BadParmError, match="strides"):
            calls(handle, **{name: channels_last("float32", (2, 3, 4, 5))})[1]()


@pytest.mark.parametrize("lens", [(5,), (1, 2, 1, 2, 1, 2)])
def test_other_ranks_are_refused(handle, lens):
    desc = TensorDescriptor("float32", lens)
    for call in calls(handle, x=desc, y=desc, dy=desc, dx=desc):
        with pytest.raises(BadParmError, match="rank"):
            call()


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float8_e4m3fnuz"])
def test_other_types_have_no_solver(handle, dtype):
    desc = TensorDescriptor(dtype, (2, 3))
    for call in calls(handle, x=desc, y=desc, dy=desc, dx=desc):
        with pytest.raises(MIOpenNotImplementedError):
            call()


@pytest.mark.parametrize("wrong", [{"algorithm": 3}, {"algorithm": -1}, {"mode": 2}, {"mode": None}, {"alpha": None},
                                   {"beta": "1"}, {"algorithm": 0.0}], ids=repr)
def test_bad_numbers(handle, wrong):
    for call in calls(handle, **wrong):
        with pytest.raises(BadParmError) as raised:
            call()
        assert raised.value.parameter in wrong


def test_bad_descriptors(handle):
    gone = TensorDescriptor("float32", (2, 3, 4, 5))
    miopyx.miopenDestroyTensorDescriptor(gone)
    for wrong in ("none", None, gone, TensorDescriptor(), SoftmaxDescriptor()):
        for which, name in ((0, "x"), (0, "y"), (1, "y"), (1, "dy"), (1, "dx")):
            with pytest.raises(BadParmError):
                calls(handle, **{name: wrong})[which]()
    overlapping = TensorDescriptor("float32", (2, 3, 4, 5), (1, 1, 1, 1))
    for which, name in ((0, "y"), (1, "dx")):
        with pytest.raises(BadParmError, match="overlap"):
            calls(handle, **{name: overlapping})[which]()


def test_missing_short_and_shared_buffers(handle):
    good, other, third = (handle.upload(np.zeros(480, np.uint8)) for _ in range(3))
    short = handle.upload(np.zeros(476, np.uint8))
    forward, back = handle.softmax_forward(FULL, FULL), handle.softmax_backward(FULL, FULL, FULL)
    for bad in (None, short, "memory"):
        for x, y in ((bad, good), (good, bad)):
            with pytest.raises(BadParmError):
                forward(x, y)
        for y, dy, dx in ((bad, good, other), (good, bad, other), (good, other, bad)):
            with pytest.raises(BadParmError):
                back(y, dy, dx)
    last = channels_last("float32", (2, 3, 4, 5))
    with pytest.raises(BadParmError, match="shares"):
        handle.softmax_forward(FULL, last)(good, good)
    with pytest.raises(BadParmError, match="shares"):
        handle.softmax_backward(FULL, FULL, last)(good, other, other)
    handle.softmax_backward(FULL, FULL, last)(good, other, third)


def test_plans(handle, rng):
    x = rng.standard_normal((2, 3, 4, 5))
    desc = TensorDescriptor("float32", (2, 3, 4, 5))
    plan = handle.softmax_forward(desc, desc)
    given, y = Tensor(handle, desc, x), Tensor(handle, desc, None)
    arguments = given.argument(), y.argument()
    plan(*arguments)
    want, size = forward(given.view().astype("f8"), ACCURATE, (1,))
    check(y.values(), want, size, "float32", 1, 0, 0, "plan")
    plan(*arguments, 2, 1)
    check(y.values(), 3 * want, 5 * size, "float32", 1, 0, 0, "plan")
    assert plan.buffers == ("x", "y")
    assert plan.numbers == {"alpha": 1.0, "beta": 0.0}
    assert handle.softmax_backward(desc, desc, desc).buffers == ("y", "dy", "dx")
    assert plan.solver.name in ("OpenCLSoftmax", "HostSoftmax")
    assert plan.solver.name in plan.explain()
    miopyx.miopenSet4dTensorDescriptor(desc, 1, 2, 3, 5, 4)
    with pytest.raises(BadParmError, match="changed"):
        plan(*arguments)
    for wrong in ((FULL, FULL, 3), (FULL, FULL, 0, 2), (None, FULL), (FULL, 1)):
        with pytest.raises(BadParmError):
            handle.softmax_forward(*wrong)
        with pytest.raises(BadParmError):
            handle.softmax_backward(FULL, *wrong)


def test_an_old_result_that_is_not_read_may_be_anything(handle, rng):
    x = rng.standard_normal((2, 3, 4, 5))
    given, y = Tensor(handle, FULL, x), Tensor(handle, FULL, np.full(FULL.lens, NAN))
    miopyx.miopenSoftmaxForward(handle, 1, FULL, given.argument(), 0, FULL, y.argument())
    want, size = forward(given.view().astype("f8"), ACCURATE, (1,))
    check(y.values(), want, size, "float32", 1, 0, 0, "beta 0")
