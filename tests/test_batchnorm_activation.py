"""Batch normalisation that an activation follows, against NumPy in longdouble and PyTorch's gradients in float64.

Data, memory and devices are those of test_batchnorm.py, and so are its bounds: with e an element's of what the batch
normalisation gives, v, and w the unit roundoff of the arithmetic,

    y         u |y| + the largest |act(v +- e) - act(v)| + 64 w (p |y| + w), and 64 w |v| for a power or TANH
    dv        |dy| times the largest |act'(v +- e) - act'(v)| + 64 w p (|act'(v)| + w), and 64 w p for LOGISTIC or TANH

with p = 1 + |alpha| + |beta| + |gamma|.  A sum's bound is that of test_batchnorm.py for exact dv, plus what the bounds
of dv make of it.  So an element so near a kink that rounding decides may be on either side of it, and no other.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_batchnorm import (
    CASES,
    FEW,
    GROWTH,
    PER_ACTIVATION,
    ROUNDOFF,
    SHAPES,
    SPATIAL,
    TYPES,
    WIDE,
    Example,
    Tensor,
    assert_close,
)

import miopyx
from miopyx import ActivationDescriptor, TensorDescriptor
from miopyx.errors import BadParmError, MIOpenError, UnknownError

PASTHRU, LOGISTIC, TANH, RELU, SOFTRELU, ABS, POWER, CLIPPEDRELU, LEAKYRELU, ELU, CLAMP = range(11)
# alpha, beta and gamma; a power's base is positive for nearly all of what batch normalisation gives, and not for all.
PARAMETERS = {TANH: (0.7, 1.3, 0.0), POWER: (3.0, 0.75, 1.5), CLIPPEDRELU: (0.8, 0.0, 0.0), LEAKYRELU: (0.2, 0.0, 0.0),
              ELU: (1.2, 0.0, 0.0), CLAMP: (-0.3, 0.7, 0.0)}
MODES = tuple(range(1, 11))


def descriptor(mode):
    return ActivationDescriptor(mode, *PARAMETERS.get(mode, (0.0, 0.0, 0.0)))


def eps_of(dtype):
    return 1e-4 if dtype == "float16" else 1e-6


def act(mode, v, eps):
    a, b, g = (WIDE(p) for p in PARAMETERS.get(mode, (0, 0, 0)))
    if mode == POWER:
        base = a + b * v
        return np.where(base > eps, np.where(base > eps, base, 1) ** g, 0)
    return {
        PASTHRU: lambda: v, LOGISTIC: lambda: 1 / (1 + np.exp(-v)), TANH: lambda: b * np.tanh(a * v),
        RELU: lambda: np.maximum(v, 0), SOFTRELU: lambda: np.logaddexp(0, v), ABS: lambda: np.abs(v),
        CLIPPEDRELU: lambda: np.clip(v, 0, a), LEAKYRELU: lambda: np.where(v > 0, v, a * v),
        ELU: lambda: np.where(v > 0, v, a * np.expm1(np.minimum(v, 0))), CLAMP: lambda: np.clip(v, a, b),
    }[mode]()


def slope(mode, v, eps):
    """The derivative; at a kink MIOpen's."""
    a, b, g = (WIDE(p) for p in PARAMETERS.get(mode, (0, 0, 0)))
    one = np.ones_like(v)
    if mode == POWER:
        base = a + b * v
        return np.where(base > eps, g * b * np.where(base > eps, base, 1) ** (g - 1), 0)
    return {
        PASTHRU: lambda: one, LOGISTIC: lambda: np.exp(-np.abs(v)) / (1 + np.exp(-np.abs(v))) ** 2,
        TANH: lambda: a * b * (1 - np.tanh(a * v) ** 2), RELU: lambda: np.where(v > 0, one, 0),
        SOFTRELU: lambda: 1 / (1 + np.exp(-v)), ABS: lambda: np.sign(v),
        CLIPPEDRELU: lambda: np.where((v > 0) & (v <= a), one, 0), LEAKYRELU: lambda: np.where(v > 0, one, a),
        ELU: lambda: np.where(v > 0, one, a * np.exp(np.minimum(v, 0))),
        CLAMP: lambda: np.where((v > a) & (v <= b), one, 0),
    }[mode]()


def within(function, mode, v, e, eps):
    """How far a function of numbers within e of v is from that of v, at most."""
    middle = function(mode, v, eps)
    return np.maximum(np.abs(function(mode, v - e, eps) - middle), np.abs(function(mode, v + e, eps) - middle))


class Activated(Example):
    """An example with an activation, by the functions that have one."""

    def __init__(self, mode, lens, dtype, rng, activation, layout="packed", parameters=None, **more):
        super().__init__(mode, lens, dtype, rng, layout, parameters, **more)
        self.activation, self.activ, self.eps = activation, descriptor(activation), eps_of(dtype)
        self.note += f" {self.activ.mode.name}"
        self.size = 1 + sum(abs(p) for p in PARAMETERS.get(activation, ()))  # of the numbers that formulas begin with

    def roundoff(self, handle):
        return ROUNDOFF["float64" if handle.device.is_host or self.x_desc.dtype == "float64" else "float32"]

    def y_bound(self, handle, v, rest):
        """Of act(v), where v's bound is that of `rest`."""
        w, e = self.roundoff(handle), GROWTH * self.roundoff(handle) * rest
        y = act(self.activation, v, self.eps)
        own = self.size * np.abs(y) + w + (np.abs(v) if self.activation in (POWER, TANH) else 0)
        return self.bound(handle, self.y_desc, y, own) + within(act, self.activation, v, e, self.eps)

    def train(self, handle, running=True, save=True, previous=True):
        """By V2 where old and new running statistics have buffers of their own; returns what was saved."""
        x, mean, variance, inv, m = self.statistics()
        scale, bias, f = self.scale.astype(WIDE), self.bias.astype(WIDE), self.factor
        tx, ty = Tensor(self.x_desc, self.x), Tensor(self.y_desc)
        ts, tb = Tensor(self.descs[0], self.scale), Tensor(self.descs[1], self.bias)
        saved = [Tensor(self.descs[2]), Tensor(self.descs[3])] if save else [None, None]
        old = [Tensor(self.descs[2], None if f == 1 else self.old_mean),
               Tensor(self.descs[3], None if f == 1 else self.old_variance)] if running else [None, None]
        new = [Tensor(self.descs[2]), Tensor(self.descs[3])] if running and previous else old
        data = self.arguments(handle, (tx, ty, ts, tb))
        head = (handle, self.mode, 1.0, 0.0, self.x_desc, data[0], self.y_desc, data[1], *self.descs, *data[2:], f)
        before = self.arguments(handle, old)
        if previous:
            miopyx.miopenBatchNormForwardTrainingActivation_V2(
                *head, *before, *self.arguments(handle, new), self.epsilon, *self.arguments(handle, saved), self.activ)
        else:
            miopyx.miopenBatchNormForwardTrainingActivation(
                *head, *before, self.epsilon, *self.arguments(handle, saved), self.activ)
        reach = self.reach(handle, x, mean)
        v = scale * (x - mean) * inv + bias
        assert_close(ty.values(handle), act(self.activation, v, self.eps),
                     self.y_bound(handle, v, np.abs(scale) * inv * reach + np.abs(bias)), f"y, {self.note}")
        for t, values in ((tx, self.x), (ts, self.scale), (tb, self.bias)):
            np.testing.assert_array_equal(t.values(handle), values.astype(np.float64))
        if save:
            assert_close(saved[0].values(handle), mean, self.bound(handle, self.descs[2], mean, reach), self.note)
            assert_close(saved[1].values(handle), inv, self.bound(handle, self.descs[3], inv, inv), self.note)
        if running:
            unbiased = variance * m / max(1, m - 1)
            for t, was, values, fresh, rest in (
                    (new[0], old[0], self.old_mean, mean, reach + np.abs(mean)),
                    (new[1], old[1], self.old_variance, unbiased, unbiased)):
                values = values.astype(WIDE)
                want = fresh if f == 1 else (1 - f) * values + f * fresh
                assert_close(t.values(handle), want, self.bound(
                    handle, t.desc, want, np.abs((1 - f) * values) + np.abs(f) * rest), f"running, {self.note}")
                if previous and f != 1:  # and the old ones stay
                    np.testing.assert_array_equal(was.values(handle), values.astype(np.float64))
        return tuple(saved)

    def infer(self, handle, inverse=False):
        x = self.x.astype(WIDE)
        scale, bias, mean, variance = (a.astype(WIDE)
                                       for a in (self.scale, self.bias, self.old_mean, self.old_variance))
        tensors = (Tensor(self.x_desc, self.x), Tensor(self.y_desc), Tensor(self.descs[0], self.scale),
                   Tensor(self.descs[1], self.bias), Tensor(self.descs[2], self.old_mean),
                   Tensor(self.descs[3], self.old_variance))
        data = self.arguments(handle, tensors)
        call, numbers = ((miopyx.miopenBatchNormForwardInferenceActivationInvVariance, ()) if inverse else
                         (miopyx.miopenBatchNormForwardInferenceActivation, (self.epsilon,)))
        call(handle, self.mode, 1.0, 0.0, self.x_desc, data[0], self.y_desc, data[1], *self.descs, *data[2:], *numbers,
             self.activ)
        inv = variance if inverse else 1 / np.sqrt(np.abs(variance + self.epsilon))
        v = scale * (x - mean) * inv + bias
        assert_close(tensors[1].values(handle), act(self.activation, v, self.eps),
                     self.y_bound(handle, v, np.abs(scale * inv * (x - mean)) + np.abs(bias)),
                     f"inference, {self.note}")

    def back(self, handle, saved=(None, None)):
        x, mean, _, inv, m = self.statistics()
        if saved[0] is not None:
            mean, inv = (t.values(handle).astype(WIDE) for t in saved)
        scale, bias, dy = (a.astype(WIDE) for a in (self.scale, self.bias, self.dy))
        tensors = (Tensor(self.x_desc, self.x), Tensor(self.y_desc, self.dy), Tensor(self.dx_desc),
                   Tensor(self.descs[0], self.scale), Tensor(self.descs[1], self.bias), Tensor(self.descs[0]),
                   Tensor(self.descs[1]), *saved)
        data = self.arguments(handle, tensors)
        miopyx.miopenBatchNormBackwardActivation(
            handle, self.mode, 1.0, 0.0, 1.0, 0.0, self.x_desc, data[0], self.y_desc, data[1], self.dx_desc, data[2],
            *self.descs, *data[3:7], self.epsilon, *data[7:], self.activ)
        w = self.roundoff(handle)
        reach = self.reach(handle, x, mean) * inv
        normal = (x - mean) * inv
        v = scale * normal + bias
        e = GROWTH * w * (np.abs(scale) * reach + np.abs(bias))
        steep = slope(self.activation, v, self.eps)
        dv = dy * steep
        own = GROWTH * w * self.size * (np.abs(steep) + w)
        lost = np.abs(dy) * (within(slope, self.activation, v, e, self.eps) + own)
        if self.activation in (LOGISTIC, TANH):  # differences of their results
            lost += np.abs(dy) * GROWTH * w * self.size

        def total(a):
            return a.sum(self.axes, keepdims=True)

        dbias, dscale = total(dv), total(dv * normal)
        dx = scale * inv / m * (m * dv - dbias - normal * dscale)
        size, slack = total(np.abs(dv)), total(lost)
        assert_close(tensors[6].values(handle), dbias, self.bound(handle, self.descs[1], dbias, size) + slack,
                     f"dbias, {self.note}")
        assert_close(tensors[5].values(handle), dscale, self.bound(handle, self.descs[0], dscale, reach * size)
                     + reach * slack, f"dscale, {self.note}")
        rest = np.abs(dv).max(self.axes, keepdims=True) + (1 + reach**2) * size / m
        assert_close(tensors[2].values(handle), dx, self.bound(handle, self.dx_desc, dx, np.abs(scale) * inv * rest)
                     + np.abs(scale) * inv * (lost + (1 + reach**2) * slack / m), f"dx, {self.note}")

    def check(self, handle):
        saved = self.train(handle)
        self.infer(handle)
        self.back(handle, saved)
        self.back(handle)


@pytest.fixture
def backends(device_name, handles, as_gpu):
    """Return the handles of a device: as what it is and, of one that is no GPU, as if it were one."""
    handle = handles(device_name)
    return [handle] if handle.device.is_host or handle.device.is_gpu else [handle, as_gpu(device_name)]


@pytest.mark.parametrize("activation", MODES)
@pytest.mark.parametrize("dtype", TYPES)
def test_the_host_computes_every_pass(handles, dtype, activation, rng):
    for lens in (SHAPES[0], SHAPES[5], *FEW):
        layout = str(rng.choice(["packed", "last", "gaps", "rows", "mixed"]))
        Activated(int(rng.integers(2)), lens, dtype, rng, activation, layout,
                  factor=float(rng.choice([0.1, 0.0, 1.0]))).check(handles("host"))


@pytest.mark.parametrize("activation", MODES)
def test_devices_compute_every_activation(opencl_name, handles, as_gpu, activation, rng, amount):
    """Each with a kernel of its own: a few of the cases that have others, for each kind of device."""
    for handle in (handles(opencl_name), as_gpu(opencl_name)):
        for i in rng.permutation(len(CASES))[:amount(1, len(CASES))]:
            mode, lens, layout = CASES[i]
            factor = float(rng.choice([0.1, 1.0]))
            Activated(mode, lens, "float32", rng, activation, layout, factor=factor).check(handle)


def test_gradients_that_read_results(backends, rng):
    """Every time, since there is no such thing in batch normalisation alone."""
    for handle in backends:
        for activation, lens in ((LOGISTIC, SHAPES[0]), (TANH, (5, 12, 7, 7))):
            Activated(SPATIAL, lens, "float32", rng, activation).back(handle)


@pytest.mark.long
def test_columns_that_are_settled_apart(opencl_name, as_gpu, rng):
    """Large tensors with channels last have a launch more on GPUs, which hands on what y is made of."""
    handle = as_gpu(opencl_name)
    example = Activated(SPATIAL, (64, 8, 100, 100), "float32", rng, TANH, "last")
    plan = handle.batch_norm_backward(SPATIAL, *(example.x_desc,) * 3, example.one, False, example.activ)
    assert any("bn_settle" in repr(step.spec) for step in plan.invoker.solution.steps)
    example.back(handle, example.train(handle))
    example.back(handle)


@pytest.mark.some(4)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_devices_compute_every_case(opencl_name, handles, as_gpu, case, rng):
    mode, lens, layout = CASES[case]
    for handle in (handles(opencl_name), as_gpu(opencl_name)):
        Activated(mode, lens, "float32", rng, int(rng.choice([TANH, RELU, LEAKYRELU])), layout).check(handle)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_devices_compute_every_type(opencl_name, handles, as_gpu, dtype, rng, amount):
    for handle in (handles(opencl_name), as_gpu(opencl_name)):
        if dtype == "float64" and not handle.device.fp64:
            continue
        for i in rng.permutation(len(CASES))[:amount(1, len(CASES))]:
            mode, lens, layout = CASES[i]
            example = Activated(mode, lens, dtype, rng, int(rng.choice(MODES)), layout)
            saved = example.train(handle)
            example.back(handle, saved)


def test_parameters_of_other_types(backends, rng):
    for handle in backends:
        kinds = ("float16", "bfloat16", "float32", "float16")
        example = Activated(SPATIAL, SHAPES[1], "float16", rng, ELU, parameters=kinds)
        example.back(handle, example.train(handle))


def test_what_is_wanted(backends, rng):
    """Running statistics moved in place and elsewhere, or none; saved ones or none."""
    for handle in backends:
        example = Activated(SPATIAL, SHAPES[0], "float32", rng, RELU)
        for running, save, previous in ((True, True, False), (False, True, True), (True, False, True),
                                        (False, False, False)):
            example.train(handle, running, save, previous)
        for example.factor in (1.0, 0.5, 0.0):
            example.train(handle)


def test_inverse_variances(backends, rng):
    for handle in backends:
        for activation in (PASTHRU, ABS):
            for lens, layout in ((SHAPES[0], "packed"), (SHAPES[1], "last"), ((5, 12, 7, 7), "packed")):
                example = Activated(SPATIAL, lens, "float32", rng, activation, layout)
                example.infer(handle, True)
                example.infer(handle)


def test_what_training_saved_serves_inference(backends, rng):
    """resultSaveInvVariance is an estimatedInvVariance: y comes out again."""
    for handle in backends:
        example = Activated(SPATIAL, SHAPES[0], "float32", rng, PASTHRU)
        desc, one = example.x_desc, example.one
        tensors = [Tensor(desc, example.x), Tensor(desc), Tensor(one, example.scale), Tensor(one, example.bias)]
        x, y, scale, bias = example.arguments(handle, tensors)
        saved = [Tensor(one), Tensor(one)]
        handle.batch_norm_training(SPATIAL, desc, desc, one, running=False)(
            x, y, scale, bias, None, None, *example.arguments(handle, saved))
        again = Tensor(desc)
        for t in saved:
            t.values(handle)
        miopyx.miopenBatchNormalizationForwardInferenceInvVariance(
            handle, SPATIAL, 1, 0, desc, x, desc, again.argument(handle), one, one, one, one, scale, bias,
            *example.arguments(handle, saved))
        np.testing.assert_allclose(again.values(handle), tensors[1].values(handle), atol=1e-5)


def test_no_estimates(backends, rng):
    """Those of the batch, with the epsilon of the call or 1e-5."""
    for handle in backends:
        example = Activated(SPATIAL, SHAPES[0], "float32", rng, TANH, deviation=0.004)  # so that epsilon matters
        desc, one = example.x_desc, example.one
        x, mean, variance, _, _ = example.statistics()
        for call, numbers, epsilon in ((miopyx.miopenBatchNormForwardInferenceActivation, (1e-3,), 1e-3),
                                       (miopyx.miopenBatchNormForwardInferenceActivationInvVariance, (), 1e-5)):
            tensors = [Tensor(desc, example.x), Tensor(desc), Tensor(one, example.scale), Tensor(one, example.bias)]
            data = example.arguments(handle, tensors)
            for one_given in (None, data[2]):
                four, rest = (one,) * 4, (*data[2:], one_given, None, *numbers, example.activ)
                call(handle, SPATIAL, 1, 0, desc, data[0], desc, data[1], *four, *rest)
                want = act(TANH, example.scale * (x - mean) / np.sqrt(variance + epsilon) + example.bias, 0)
                np.testing.assert_allclose(tensors[1].values(handle), want.astype(float), atol=1e-4)
                with pytest.raises(UnknownError):
                    call(handle, SPATIAL, 1, 0.5, desc, data[0], desc, data[1], *four, *rest)


def test_old_running_statistics_stay(backends, rng):
    """Without an activation: V3 gives V2's bits, elsewhere; with one object for both, in place."""
    for handle in backends:
        example = Example(SPATIAL, SHAPES[1], "float32", rng, "last", factor=0.25)
        desc, one = example.x_desc, example.one
        results = []
        for how in ("V2", "V3", "one"):
            tensors = [Tensor(desc, example.x), Tensor(desc), Tensor(one, example.scale), Tensor(one, example.bias)]
            data = example.arguments(handle, tensors)
            old = [Tensor(one, example.old_mean), Tensor(one, example.old_variance)]
            new, saved = ([Tensor(one), Tensor(one)] for _ in range(2))
            head = (handle, SPATIAL, 1, 0, desc, data[0], desc, data[1], one, one, one, one, *data[2:], 0.25)
            before, after = (example.arguments(handle, t) for t in (old, new))
            kept = example.arguments(handle, saved)
            if how == "V2":
                miopyx.miopenBatchNormalizationForwardTraining_V2(*head, *before, 1e-5, *kept)
            else:
                to = after if how == "V3" else before
                miopyx.miopenBatchNormalizationForwardTraining_V3(*head, *before, *to, 1e-5, *kept)
            if how == "V3":
                np.testing.assert_array_equal(old[0].values(handle), example.old_mean.astype(float))
                np.testing.assert_array_equal(old[1].values(handle), example.old_variance.astype(float))
            results.append([t.values(handle) for t in (tensors[1], *saved, *(new if how == "V3" else old))])
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                np.testing.assert_array_equal(a, b)


def test_no_activation_is_the_plain_function(backends, rng):
    """None and PASTHRU: the same solution, the same bits; the bias is not looked at."""
    for handle in backends:
        example = Example(SPATIAL, SHAPES[0], "float32", rng)
        desc, one = example.x_desc, example.one
        results = []
        for activ in ("plain", None, ActivationDescriptor()):
            tensors = [Tensor(desc, example.x), Tensor(desc, example.dy), Tensor(desc), Tensor(one, example.scale),
                       Tensor(one), Tensor(one)]
            data = example.arguments(handle, tensors)
            head = (handle, SPATIAL, 1, 0, 1, 0, desc, data[0], desc, data[1], desc, data[2], *(one,) * 4, data[3])
            if activ == "plain":
                miopyx.miopenBatchNormalizationBackward_V2(*head, *data[4:], 1e-5, None, None)
            else:
                miopyx.miopenBatchNormBackwardActivation(*head, None, *data[4:], 1e-5, None, None, activ)
            results.append([t.values(handle) for t in tensors[2:3] + tensors[4:]])
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                np.testing.assert_array_equal(a, b)
        plain, other = (handle.batch_norm_training(SPATIAL, desc, desc, one, activ_desc=activ)
                        for activ in (None, ActivationDescriptor()))
        assert plain.invoker is other.invoker


@pytest.mark.parametrize("layout", ["packed", "last"])
def test_results_may_lie_where_inputs_do(backends, layout, rng):
    shapes = (SHAPES[0], FEW[0]) if layout == "packed" else (SHAPES[1], FEW[2])
    for handle in backends:
        for lens in shapes:
            example = Activated(SPATIAL, lens, "float32", rng, TANH, layout)
            desc, one = example.x_desc, example.one
            parameters = [Tensor(one, a) for a in (example.scale, example.bias, example.old_mean, example.old_variance)]
            p = example.arguments(handle, parameters)
            out = [Tensor(one), Tensor(one)]
            d = example.arguments(handle, out)
            training = handle.batch_norm_training(SPATIAL, desc, desc, one, False, False, example.activ)
            inference = handle.batch_norm_inference(SPATIAL, desc, desc, one, example.activ)
            backward = handle.batch_norm_backward(SPATIAL, desc, desc, desc, one, False, example.activ)
            for plan, inputs, rest in (
                    (training, [example.x], (p[0], p[1], None, None, None, None)), (inference, [example.x], p),
                    (backward, [example.x, example.dy], (p[0], *d, None, None, p[1]))):
                results = []
                for place in (None, *range(len(inputs))):
                    tensors = [Tensor(desc, a) for a in inputs]
                    to = Tensor(desc) if place is None else tensors[place]
                    data = [t.argument(handle) for t in tensors]
                    plan(*data, to.argument(handle) if place is None else data[place], *rest)
                    results.append(to.values(handle))
                for other in results[1:]:
                    np.testing.assert_array_equal(results[0], other)


def test_numbers_come_with_each_call(backends, rng):
    """The activation's parameters are no part of the problem: another alpha prepares nothing anew."""
    for handle in backends:
        example = Activated(SPATIAL, SHAPES[0], "float32", rng, LEAKYRELU)
        example.check(handle)
        desc, one = example.x_desc, example.one
        other = ActivationDescriptor(LEAKYRELU, 0.5)
        plans = [handle.batch_norm_inference(SPATIAL, desc, desc, one, activ) for activ in (example.activ, other)]
        assert plans[0].invoker is plans[1].invoker
        assert plans[0].numbers == {"epsilon": 1e-5}
        ones = [Tensor(one, value).argument(handle) for value in (1.0, 0.0, 0.0, 1.0)]
        x = Tensor(desc, -1.0)
        for plan, want in zip(plans, (-0.2, -0.5), strict=True):
            y = Tensor(desc)
            plan(x.argument(handle), y.argument(handle), *ones, 0.0)
            np.testing.assert_allclose(y.values(handle), want, rtol=1e-6)
        miopyx.miopenSetActivationDescriptor(other, LEAKYRELU, 0.25, 0, 0)
        with pytest.raises(BadParmError, match="changed"):
            plans[1](x.argument(handle), Tensor(desc).argument(handle), *ones, 0.0)


def torchs(torch, mode, v):
    f, (a, b, g) = torch.nn.functional, PARAMETERS.get(mode, (0, 0, 0))
    return {
        LOGISTIC: lambda: torch.sigmoid(v), TANH: lambda: b * torch.tanh(a * v), RELU: lambda: f.relu(v),
        SOFTRELU: lambda: f.softplus(v, threshold=1000), ABS: lambda: v.abs(),
        POWER: lambda: torch.where(a + b * v > 1e-6, (a + b * v).clamp(min=1e-9) ** g, 0.0),
        CLIPPEDRELU: lambda: v.clamp(0, a), LEAKYRELU: lambda: f.leaky_relu(v, a), ELU: lambda: f.elu(v, a),
        CLAMP: lambda: v.clamp(a, b),
    }[mode]()


@pytest.mark.parametrize("activation", MODES)
@pytest.mark.parametrize("mode", [PER_ACTIVATION, SPATIAL])
def test_pytorch_agrees(handles, device_name, mode, activation, rng):
    """Gradients of autograd, in float64: 1e-9 of the largest, and no element is at a kink."""
    torch = pytest.importorskip("torch")
    handle = handles(device_name)
    if not handle.device.fp64 and not handle.device.is_host:
        pytest.skip("no float64")
    example = Activated(mode, (6, 9, 5, 7), "float64", rng, activation)
    desc, one = example.x_desc, example.one
    x, dy, scale, bias = (torch.from_numpy(a.copy()) for a in (example.x, example.dy, example.scale, example.bias))
    for a in (x, scale, bias):
        a.requires_grad_()
    axes = list(example.axes)
    mean, var = x.mean(axes, True), x.var(axes, correction=0, keepdim=True)
    y = torchs(torch, activation, (x - mean) / torch.sqrt(var + 1e-5) * scale + bias)
    y.backward(dy)
    tensors = [Tensor(desc, example.x), Tensor(desc), Tensor(one, example.scale), Tensor(one, example.bias)]
    data, saved = example.arguments(handle, tensors), [Tensor(one), Tensor(one)]
    handle.batch_norm_training(mode, desc, desc, one, False, activ_desc=example.activ)(
        *data, None, None, *example.arguments(handle, saved))
    for t in saved:
        t.values(handle)
    out = [Tensor(desc), Tensor(one), Tensor(one)]
    dx, dscale, dbias = example.arguments(handle, out)
    grad = Tensor(desc, example.dy)
    plan = handle.batch_norm_backward(mode, desc, desc, desc, one, activ_desc=example.activ)
    assert plan.buffers == ("x", "dy", "dx", "scale", "dscale", "dbias", "saved_mean", "saved_inv", "bias")
    plan(data[0], grad.argument(handle), dx, data[2], dscale, dbias, *example.arguments(handle, saved), data[3])
    for got, want in ((tensors[1], y.detach()), (out[0], x.grad), (out[1], scale.grad), (out[2], bias.grad)):
        want = want.numpy()
        np.testing.assert_allclose(got.values(handle), want, rtol=1e-9, atol=1e-9 * np.abs(want).max())


# Bad input


def test_bad_activations(handle):
    desc, one = TensorDescriptor("float32", (2, 3, 4, 5)), TensorDescriptor("float32", (1, 3, 1, 1))

    def memory(of):
        return Tensor(of, 1.0).argument(handle)

    gone = ActivationDescriptor(RELU)
    miopyx.miopenDestroyActivationDescriptor(gone)
    relu = ActivationDescriptor(RELU)
    x, y = memory(desc), memory(desc)
    p = [memory(one) for _ in range(6)]
    four = (one,) * 4
    forward = (handle, SPATIAL, 1, 0, desc, x, desc, y, *four, p[0], p[1])
    four_none = (None,) * 4
    for wrong in (gone, RELU, "relu", desc, object()):
        for call, rest in ((miopyx.miopenBatchNormForwardTrainingActivation, (0.1, None, None, 1e-5, None, None)),
                           (miopyx.miopenBatchNormForwardTrainingActivation_V2, (0.1, *four_none, 1e-5, None, None)),
                           (miopyx.miopenBatchNormForwardInferenceActivation, (p[2], p[3], 1e-5)),
                           (miopyx.miopenBatchNormForwardInferenceActivationInvVariance, (p[2], p[3]))):
            with pytest.raises(BadParmError, match="activDesc"):
                call(*forward, *rest, wrong)
        back = (handle, SPATIAL, 1, 0, 1, 0, desc, x, desc, y, desc, memory(desc), *four, p[0])
        with pytest.raises(BadParmError, match="activDesc"):
            miopyx.miopenBatchNormBackwardActivation(*back, p[1], p[2], p[3], 1e-5, None, None, wrong)
        for plan in (lambda: handle.batch_norm_inference(SPATIAL, desc, desc, one, wrong),  # noqa: B023
                     lambda: handle.batch_norm_training(SPATIAL, desc, desc, one, activ_desc=wrong),  # noqa: B023
                     lambda: handle.batch_norm_backward(SPATIAL, desc, desc, desc, one, activ_desc=wrong)):  # noqa: B023
            with pytest.raises(BadParmError, match="activ_desc"):
                plan()
    with pytest.raises(BadParmError, match="bnBias"):  # which the gradient of an activation needs
        miopyx.miopenBatchNormBackwardActivation(*back, None, p[2], p[3], 1e-5, None, None, relu)
    with pytest.raises(BadParmError, match="bnBias"):  # and what is written must not be
        miopyx.miopenBatchNormBackwardActivation(*back, p[3], p[2], p[3], 1e-5, None, None, relu)
    with pytest.raises(BadParmError):
        miopyx.miopenBatchNormBackwardActivation(*back, p[1], p[2], p[3], 1e-5, p[4], None, relu)
    # Old running statistics and new ones: all or none, and apart.
    for call, activ in ((miopyx.miopenBatchNormForwardTrainingActivation_V2, (relu,)),
                        (miopyx.miopenBatchNormalizationForwardTraining_V3, ())):
        for four_given in ((p[2], p[3], None, None), (None, None, p[4], p[5]), (p[2], None, p[4], p[5]),
                           (p[2], p[3], p[4], None), (p[2], p[3], p[2], p[4]), (p[2], p[3], p[3], p[2])):
            with pytest.raises(BadParmError):
                call(*forward, 0.1, *four_given, 1e-5, None, None, *activ)
        call(*forward, 0.1, *p[2:], 1e-5, None, None, *activ)
    for wrong in ({"alpha": 2.0}, {"beta": 1.0}):
        a, b = wrong.get("alpha", 1.0), wrong.get("beta", 0.0)
        with pytest.raises(UnknownError):
            miopyx.miopenBatchNormForwardTrainingActivation(
                handle, SPATIAL, a, b, *forward[4:], 0.1, None, None, 1e-5, None, None, relu)
        with pytest.raises(BadParmError):
            miopyx.miopenBatchNormalizationForwardInferenceInvVariance(
                handle, SPATIAL, a, b, *forward[4:], p[2], p[3])
    with pytest.raises(MIOpenError):
        miopyx.miopenBatchNormForwardInferenceActivation(*forward, p[2], p[3], None, relu)


def test_no_elements(handle):
    """y has none, sums are 0; running statistics cannot be moved elsewhere by nothing."""
    desc, one = TensorDescriptor("float32", (0, 3, 4, 5)), TensorDescriptor("float32", (1, 3, 1, 1))
    relu = ActivationDescriptor(RELU)
    empty = np.empty((0, 3, 4, 5), "f4")
    data = empty if handle.device.is_host or handle.device.shares_memory else handle.upload(np.zeros(1, "f4"))
    scale, bias, dscale, dbias = (Tensor(one, 1.0) for _ in range(4))
    s, b, ds, db = (t.argument(handle) for t in (scale, bias, dscale, dbias))
    miopyx.miopenBatchNormBackwardActivation(handle, SPATIAL, 1, 0, 1, 0, desc, data, desc, data, desc, data,
                                             *(one,) * 4, s, b, ds, db, 1e-5, None, None, relu)
    assert (dscale.values(handle) == 0).all()
    assert (dbias.values(handle) == 0).all()
    with pytest.raises(BadParmError, match="no elements"):
        miopyx.miopenBatchNormForwardTrainingActivation_V2(
            handle, SPATIAL, 1, 0, desc, data, desc, data, *(one,) * 4, s, b, 0.1, s, b, ds, db, 1e-5, None, None,
            relu)
