"""Batch normalisation against NumPy in float64 and PyTorch's gradients, on the host and on every OpenCL device.

OpenCL devices are taken for GPUs, too, so that both kinds of kernels run.  Outputs are poisoned, memory around and
between the elements must stay as it is, and every element is checked.  With u the unit roundoff of what is stored and v
that of the arithmetic, R = max |x - mean| of a channel, inv its 1 / sqrt(variance + epsilon) and 64 for the additions
that one element goes through (a sum is a tree of vectors, blocks and parts, and errors have random signs):

    mean      u |mean| + 64 v R
    inv       u |inv| + 64 v |inv|
    y         u |y| + 64 v (|scale| inv R + |bias|)
    dbias     u |dbias| + 64 v sum |dy|
    dscale    u |dscale| + 64 v inv R sum |dy|
    dx        u |dx| + 64 v |scale| inv (max |dy| + (1 + (inv R)^2) sum |dy| / M)

None of these grows with |mean|: data far from zero must come out as exactly as data around it.  (On the host path, in
float64 whatever the data are, R also has |mean| / 32.)
"""

from __future__ import annotations

import functools
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from guarded import between_guards, part_of

import miopyx
from miopyx import TensorDescriptor
from miopyx.errors import BadParmError, MIOpenError, MIOpenNotImplementedError, UnknownError

PER_ACTIVATION, SPATIAL = 0, 1
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
TINY = {"float64": 0.0, "float32": 0.0, "float16": 2.0**-25, "bfloat16": 0.0}  # half of the smallest number
DTYPE = {"float64": np.dtype("f8"), "float32": np.dtype("f4"), "float16": np.dtype("f2"),
         "bfloat16": np.dtype(ml_dtypes.bfloat16)}
TYPES = tuple(DTYPE)
WIDE = np.longdouble  # of what should come out: float64 data is to be better than NumPy's float64
GUARD = 64  # bytes
GROWTH = 64


@pytest.fixture
def backends(device_name, handles, as_gpu):
    """Return the handles of a device: as what it is and, of one that is no GPU, as if it were one."""
    handle = handles(device_name)
    return [handle] if handle.device.is_host or handle.device.is_gpu else [handle, as_gpu(device_name)]


def strides_of(lens, layout, rng):
    """Strides of a packed or channels-last tensor, or of one with gaps, its axes in any order."""
    order = {"packed": range(len(lens)), "last": (0, *range(2, len(lens)), 1), "rows": range(len(lens))}.get(layout)
    order = tuple(rng.permutation(len(lens))) if order is None else order
    strides, step = [0] * len(lens), 1 if layout != "gaps" else int(rng.integers(1, 3))
    for axis in reversed(order):
        strides[axis] = step
        step *= lens[axis]
        if layout == "gaps" or (layout == "rows" and axis == len(lens) - 1):
            step += int(rng.integers(0, 4))
    return tuple(strides)


class Tensor:
    """Memory of a descriptor between two guards, all ones (NaN) but for its values; on the device while it is used."""

    def __init__(self, desc, values=None):
        self.desc, self.dtype = desc, DTYPE[desc.dtype]
        self.memory, self.begin = between_guards(desc.nbytes, GUARD)
        self.inner()[...] = 0xFF
        self.addressed = np.zeros(desc.nbytes // self.dtype.itemsize, bool)
        np.lib.stride_tricks.as_strided(self.addressed, desc.lens, desc.strides)[...] = True
        if values is not None:
            self.view()[...] = values
        self.buffer = None

    def inner(self):
        return self.memory[self.begin:self.begin + self.desc.nbytes]

    def view(self):
        return np.lib.stride_tricks.as_strided(self.inner().view(self.dtype), self.desc.lens,
                                               tuple(s * self.dtype.itemsize for s in self.desc.strides))

    def argument(self, handle):
        self.buffer = None
        if handle.device.is_host or handle.device.shares_memory:
            return self.inner()
        self.buffer = handle.upload(self.memory)
        return part_of(handle, self.buffer, self.begin, self.desc.nbytes)

    def values(self, handle):
        """The elements in float64, once it was looked at what lies around and between them."""
        if self.buffer is not None:
            handle.download(self.buffer, self.memory)
        assert (self.memory[:self.begin] == 0xA5).all()
        assert (self.memory[self.begin + self.desc.nbytes:] == 0xA5).all()
        assert (self.inner().reshape(-1, self.dtype.itemsize)[~self.addressed] == 0xFF).all()
        return self.view().astype(np.float64)


def assert_close(got, want, bound, note):
    assert np.isfinite(want).all()
    worse = ~(np.abs(got - want) <= bound)  # a NaN is worse
    if worse.any():
        at = tuple(np.argwhere(worse)[0])
        bound = np.broadcast_to(bound, want.shape)
        raise AssertionError(f"{note}: {worse.sum()} of {worse.size} elements, first {at}: got {got[at]!r}, "
                             f"want {want[at]!r} +- {bound[at]:.3g}")


class Example:
    """A problem, its data, and what each pass should give; `calls` has the functions."""

    calls = miopyx

    def __init__(self, mode, lens, dtype, rng, layout="packed", parameters=None, mean=0.0, deviation=1.0,
                 epsilon=1e-5, factor=0.1):
        self.mode, self.epsilon, self.factor = mode, epsilon, factor
        self.note = f"mode {mode} {lens} {dtype} {layout} {parameters}"
        layouts = (layout,) * 3 if layout != "mixed" else ("packed", "last", "gaps")
        self.x_desc, self.y_desc, self.dx_desc = (TensorDescriptor(dtype, lens, strides_of(lens, one, rng))
                                                  for one in layouts)
        derived = TensorDescriptor()
        miopyx.miopenDeriveBNTensorDescriptor(derived, self.x_desc, mode)
        types = parameters or (derived.dtype,) * 4
        # of scale, bias, means, variances
        self.descs = [TensorDescriptor(t, derived.lens, strides_of(derived.lens, layouts[0], rng)
                                       if layout in ("gaps", "mixed") else None) for t in types]
        self.one = derived if parameters is None and layout not in ("gaps", "mixed") else None
        self.axes = (0, *range(2, len(lens))) if mode == SPATIAL else (0,)

        def random(desc, low=None):
            values = rng.standard_normal(desc.lens)
            return (values if low is None else low + np.abs(values)).astype(DTYPE[desc.dtype])

        self.x = (mean + deviation * rng.standard_normal(lens)).astype(DTYPE[dtype])
        self.dy = rng.standard_normal(lens).astype(DTYPE[dtype])
        self.scale, self.bias, self.old_mean = (random(d) for d in self.descs[:3])
        self.old_variance = random(self.descs[3], 0.25)

    def bound(self, handle, desc, want, rest):
        v = ROUNDOFF["float64" if handle.device.is_host or self.x_desc.dtype == "float64" else "float32"]
        # Statistics go through the type that they are kept in only where they are stored.
        return ROUNDOFF[desc.dtype] * np.abs(want) + TINY[desc.dtype] + GROWTH * v * rest

    def reach(self, handle, x, mean):
        """R; the host path, float64 whatever the tensors are, rounds its means, which costs it a part of |mean|."""
        rounded = 2 * np.abs(mean) / GROWTH if handle.device.is_host else 0
        return np.abs(x - mean).max(self.axes, keepdims=True) + rounded

    def arguments(self, handle, tensors):
        return [None if t is None else t.argument(handle) for t in tensors]

    def statistics(self):
        x = self.x.astype(WIDE)
        mean = x.mean(self.axes, keepdims=True)
        variance = ((x - mean) ** 2).mean(self.axes, keepdims=True)
        return x, mean, variance, 1 / np.sqrt(variance + self.epsilon), x.size // mean.size

    def train(self, handle, running=True, save=True):
        """Check training; returns what it saved, as tensors, None for what it did not."""
        x, mean, variance, inv, m = self.statistics()
        scale, bias = self.scale.astype(WIDE), self.bias.astype(WIDE)
        tx, ty = Tensor(self.x_desc, self.x), Tensor(self.y_desc)
        ts, tb = Tensor(self.descs[0], self.scale), Tensor(self.descs[1], self.bias)
        f, old = self.factor, f"{self.note} f {self.factor}"
        # f = 1 must not read what was there before: it may be anything.
        trm, trv = ((Tensor(self.descs[2], None if f == 1 else self.old_mean),
                     Tensor(self.descs[3], None if f == 1 else self.old_variance)) if running else (None, None))
        tsm, tsi = (Tensor(self.descs[2]), Tensor(self.descs[3])) if save else (None, None)
        data = self.arguments(handle, (tx, ty, ts, tb, trm, trv, tsm, tsi))
        if self.one is not None:
            self.calls.miopenBatchNormalizationForwardTraining(
                handle, self.mode, 1.0, 0.0, self.x_desc, data[0], self.y_desc, data[1], self.one, data[2], data[3], f,
                data[4], data[5], self.epsilon, data[6], data[7])
        else:
            self.calls.miopenBatchNormalizationForwardTraining_V2(
                handle, self.mode, 1, 0, self.x_desc, data[0], self.y_desc, data[1], *self.descs, data[2], data[3], f,
                data[4], data[5], self.epsilon, data[6], data[7])
        reach = self.reach(handle, x, mean)
        want = scale * (x - mean) * inv + bias
        assert_close(ty.values(handle), want,
                     self.bound(handle, self.y_desc, want, np.abs(scale) * inv * reach + np.abs(bias)), f"y, {old}")
        for t, values in ((tx, self.x), (ts, self.scale), (tb, self.bias)):
            np.testing.assert_array_equal(t.values(handle), values.astype(np.float64))
        if save:
            assert_close(tsm.values(handle), mean, self.bound(handle, self.descs[2], mean, reach), f"mean, {old}")
            assert_close(tsi.values(handle), inv, self.bound(handle, self.descs[3], inv, inv), f"inv, {old}")
        if running:
            unbiased = variance * m / max(1, m - 1)
            for t, before, new, rest in ((trm, self.old_mean, mean, reach + np.abs(mean)),
                                         (trv, self.old_variance, unbiased, unbiased)):
                before = before.astype(WIDE)
                want = new if f == 1 else (1 - f) * before + f * new
                assert_close(t.values(handle), want,
                             self.bound(handle, t.desc, want, np.abs((1 - f) * before) + np.abs(f) * rest),
                             f"running, {old}")
        return tsm, tsi

    def infer(self, handle):
        x = self.x.astype(WIDE)
        scale, bias, mean, variance = (a.astype(WIDE)
                                       for a in (self.scale, self.bias, self.old_mean, self.old_variance))
        tensors = (Tensor(self.x_desc, self.x), Tensor(self.y_desc), Tensor(self.descs[0], self.scale),
                   Tensor(self.descs[1], self.bias), Tensor(self.descs[2], self.old_mean),
                   Tensor(self.descs[3], self.old_variance))
        data = self.arguments(handle, tensors)
        if self.one is not None:
            self.calls.miopenBatchNormalizationForwardInference(
                handle, self.mode, 1.0, 0.0, self.x_desc, data[0], self.y_desc, data[1], self.one, *data[2:],
                self.epsilon)
        else:
            self.calls.miopenBatchNormalizationForwardInference_V2(
                handle, self.mode, 1.0, 0.0, self.x_desc, data[0], self.y_desc, data[1], *self.descs, *data[2:],
                self.epsilon)
        inv = 1 / np.sqrt(np.abs(variance + self.epsilon))
        want = scale * (x - mean) * inv + bias
        rest = np.abs(scale) * inv * np.abs(x - mean) + np.abs(bias)
        assert_close(tensors[1].values(handle), want, self.bound(handle, self.y_desc, want, rest),
                     f"inference, {self.note}")

    def back(self, handle, saved=(None, None)):
        """Check the backward pass with what training saved, or with (None, None)."""
        x, mean, _, inv, m = self.statistics()
        if saved[0] is not None:
            mean, inv = (t.values(handle).astype(WIDE) for t in saved)  # what it is given
        scale, dy = self.scale.astype(WIDE), self.dy.astype(WIDE)
        tensors = (Tensor(self.x_desc, self.x), Tensor(self.y_desc, self.dy), Tensor(self.dx_desc),
                   Tensor(self.descs[0], self.scale), Tensor(self.descs[0]), Tensor(self.descs[1]), *saved)
        data = self.arguments(handle, tensors)
        descs = self.x_desc, data[0], self.y_desc, data[1], self.dx_desc, data[2]
        if self.one is not None:
            self.calls.miopenBatchNormalizationBackward(handle, self.mode, 1.0, 0.0, 1.0, 0.0, *descs, self.one,
                                                        *data[3:6], self.epsilon, *data[6:])
        else:
            self.calls.miopenBatchNormalizationBackward_V2(handle, self.mode, 1.0, 0.0, 1.0, 0.0, *descs, *self.descs,
                                                           *data[3:6], self.epsilon, *data[6:])
        normal = (x - mean) * inv
        dbias, dscale = (a.sum(self.axes, keepdims=True) for a in (dy, dy * normal))
        dx = scale * inv / m * (m * dy - dbias - normal * dscale)
        reach = self.reach(handle, x, mean) * inv
        total = np.abs(dy).sum(self.axes, keepdims=True)
        assert_close(tensors[5].values(handle), dbias, self.bound(handle, self.descs[1], dbias, total),
                     f"dbias, {self.note}")
        assert_close(tensors[4].values(handle), dscale, self.bound(handle, self.descs[0], dscale, reach * total),
                     f"dscale, {self.note}")
        rest = np.abs(scale) * inv * (np.abs(dy).max(self.axes, keepdims=True) + (1 + reach**2) * total / m)
        assert_close(tensors[2].values(handle), dx, self.bound(handle, self.dx_desc, dx, rest), f"dx, {self.note}")

    def check(self, handle):
        saved = self.train(handle)
        self.infer(handle)
        self.back(handle, saved)
        self.back(handle)


# Rows and lanes, each whole and in parts, short rows, tails, one element, several axes that do not join.
SHAPES = [(2, 37, 9, 11), (4, 70, 6, 7), (3, 33, 2, 5), (2, 40, 5), (1, 20, 1, 1), (3, 18, 3, 5, 7), (6, 300, 2, 3)]
FEW = [(3, 2, 70, 65), (1, 3, 100, 90), (2, 17, 45, 51)]  # channels


@pytest.mark.parametrize("dtype", TYPES)
def test_the_host_computes_every_pass(handles, dtype, rng, request):
    for _ in range(max(1, request.config.getoption("--configurations") // 50)):
        for lens in SHAPES + FEW:
            layout = str(rng.choice(["packed", "last", "gaps", "rows", "mixed"]))
            Example(int(rng.integers(2)), lens, dtype, rng, layout,
                    factor=float(rng.choice([0.1, 0.0, 1.0]))).check(handles("host"))


# Whole channels or parts of them, rows or values side by side, dense or not: each needs kernels of its own, which take
# time to compile.  So the types, whose loads and stores are the same everywhere, are tried one pass a time.
CASES = [
    (SPATIAL, SHAPES[0], "packed"), (SPATIAL, SHAPES[1], "last"), (SPATIAL, SHAPES[2], "gaps"),
    (PER_ACTIVATION, SHAPES[1], "packed"), (SPATIAL, FEW[0], "packed"), (SPATIAL, FEW[2], "last"),
    (PER_ACTIVATION, SHAPES[5], "mixed"), (SPATIAL, (5, 12, 7, 7), "packed"), (SPATIAL, (7, 24, 9, 5), "last"),
    (SPATIAL, (5, 6, 4, 7), "packed"), (SPATIAL, (43, 3, 6, 8), "packed"),
]


@pytest.mark.some(3)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_devices_compute_every_pass(opencl_name, handles, as_gpu, case, rng):
    mode, lens, layout = CASES[case]
    # Half of the cases, others each time, for the kernels of GPUs: compiling takes most of the time of these tests.
    for handle in (handles(opencl_name), *([as_gpu(opencl_name)] if rng.integers(2) else [])):
        Example(mode, lens, "float32", rng, layout, factor=float(rng.choice([0.1, 1.0]))).check(handle)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_devices_compute_every_type(opencl_name, handles, as_gpu, dtype, rng, request):
    for handle in (handles(opencl_name), as_gpu(opencl_name)):
        if dtype == "float64" and not handle.device.fp64:
            continue
        count = max(1, request.config.getoption("--configurations") // 200)
        for mode, lens, layout in (CASES[i] for i in rng.permutation(len(CASES))[:count]):
            example = Example(mode, lens, dtype, rng, layout)
            for one in rng.permutation(3)[:count]:
                if one == 0:
                    example.train(handle)
                elif one == 1:
                    example.infer(handle)
                else:
                    example.back(handle)


def test_devices_compute_any_shape(opencl_name, handles, as_gpu, rng, request):
    """With the kernels of test_devices_compute_every_pass alone: new shapes compile nothing."""
    for _ in range(max(1, request.config.getoption("--configurations") // 40)):
        handle = [handles(opencl_name), as_gpu(opencl_name)][int(rng.integers(2))]
        rank = int(rng.integers(3, 6))
        lens = tuple(int(n) for n in (rng.integers(1, 9), rng.integers(1, 90), *rng.integers(1, 14, rank - 2)))
        Example(int(rng.integers(2)), lens, "float32", rng, str(rng.choice(["packed", "last"]))).check(handle)


def test_data_that_is_not_aligned(backends, rng, amount, monkeypatch):
    monkeypatch.setitem(globals(), "GUARD", 68)
    for handle in backends:
        for _, lens, layout in (CASES[-4:][i] for i in rng.permutation(4)[:amount(2, 4)]):
            Example(SPATIAL, lens, "float32", rng, layout).check(handle)
        Example(SPATIAL, CASES[-1][1], "float16", rng, "packed").check(handle)


def test_data_far_from_zero(backends, rng):
    """Mean 1000 and deviation 0.01 of float32: sums of squares would hold nothing but rounding errors."""
    cases = ((SHAPES[0], "packed"), (FEW[0], "packed"), (SHAPES[1], "last"), (FEW[2], "last"))
    for number, handle in enumerate(backends):
        for lens, layout in (cases[i] for i in (rng.permutation(4)[:2] if number else range(4))):
            Example(SPATIAL, lens, "float32", rng, layout, mean=1000.0, deviation=0.01, epsilon=1e-12).check(handle)


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_rows_of_two(backends, dtype, rng):
    """Many rows of a few elements that do not join: no lane may add them all."""
    for handle in backends:
        for _ in range(3):
            Example(SPATIAL, (26, 1, 68, 2), dtype, rng, "rows").check(handle)


def test_a_first_element_that_is_far_off(backends, rng):
    """The shift that sums are taken from is an element of the channel: a bad one must not matter much."""
    for handle in backends:
        for lens, layout in ((SHAPES[0], "packed"), (SHAPES[1], "last"), ((2, 64, 56, 56), "last")):
            example = Example(SPATIAL, lens, "float32", rng, layout, mean=100.0)
            example.x[0, :, 0, 0] = -3000.0
            inv = example.statistics()[3]
            saved = example.train(handle)
            np.testing.assert_allclose(saved[1].values(handle), inv, rtol=1e-5)


def test_constant_channels(backends):
    """Variance 0: y is the bias, and nothing is NaN."""
    for handle in backends:
        desc, bn = TensorDescriptor("float32", (2, 40, 5, 7)), TensorDescriptor("float32", (1, 40, 1, 1))
        x = Tensor(desc, np.full(desc.lens, 12345.678, np.float32))
        y, scale, bias = Tensor(desc), Tensor(bn, 2.0), Tensor(bn, 0.75)
        miopyx.miopenBatchNormalizationForwardTraining(
            handle, SPATIAL, 1, 0, desc, x.argument(handle), desc, y.argument(handle), bn, scale.argument(handle),
            bias.argument(handle), 0.1, None, None, 1e-5, None, None)
        assert (y.values(handle) == 0.75).all()


def test_special_values_stay_in_their_channel(backends, rng):
    for handle in backends:
        for layout in ("packed", "last"):
            example = Example(SPATIAL, SHAPES[0 if layout == "packed" else 1], "float32", rng, layout)
            lens = example.x.shape
            example.x[1, 7, 2, 3], example.x[0, 11, 0, 0] = np.nan, np.inf
            tensors = (Tensor(example.x_desc, example.x), Tensor(example.y_desc), Tensor(example.descs[0], 1.0),
                       Tensor(example.descs[0], 0.0), None, None, Tensor(example.descs[0]), Tensor(example.descs[0]))
            handle.batch_norm_training(SPATIAL, example.x_desc, example.y_desc, example.one, running=False)(
                *example.arguments(handle, tensors))
            y, mean = tensors[1].values(handle), tensors[6].values(handle).reshape(-1)
            bad = np.isnan(y).reshape(lens[0], lens[1], -1)
            assert bad[:, [7, 11]].all()
            assert not np.delete(bad, [7, 11], 1).any()
            assert np.isnan(mean[7])
            assert not np.isfinite(mean[11])


def test_epsilon_and_factor_come_with_each_call(backends, rng):
    for handle in backends:
        example = Example(SPATIAL, SHAPES[0], "float32", rng)
        for example.factor, example.epsilon in ((0.1, 1e-5), (1.0, 0.5), (0.75, 2.0), (0.1, 1e-5), (0.0, 0.0)):
            saved = example.train(handle)
            example.infer(handle)
            example.back(handle, saved)
            example.back(handle)


def test_what_is_not_wanted_is_not_written(backends, rng):
    for handle in backends:
        example = Example(SPATIAL, SHAPES[0], "float32", rng)
        for running in (False, True):
            for save in (False, True):
                example.train(handle, running, save)


def test_one_element_has_no_unbiased_variance(backends, rng):
    """M = 1: the running variance takes the variance itself, 0."""
    for handle in backends:
        for mode, lens in ((SPATIAL, (1, 20, 1, 1)), (PER_ACTIVATION, (1, 5, 3, 4))):
            Example(mode, lens, "float32", rng, factor=0.5).train(handle)


def test_inference_without_estimates_takes_those_of_the_batch(backends, rng):
    for handle in backends:
        example = Example(SPATIAL, SHAPES[0], "float32", rng)
        x, mean, _, inv, _ = example.statistics()
        want = example.scale * (x - mean) * inv + example.bias
        for given in ((None, None), (example.old_mean, None), (None, example.old_variance)):
            tensors = [Tensor(example.x_desc, example.x), Tensor(example.y_desc)]
            tensors += [None if a is None else Tensor(example.one, a) for a in (example.scale, example.bias, *given)]
            x_data, y_data, *data = example.arguments(handle, tensors)
            data = (example.x_desc, x_data, example.y_desc, y_data, example.one, *data, 1e-5)
            miopyx.miopenBatchNormalizationForwardInference(handle, SPATIAL, 1.0, 0.0, *data)
            with pytest.raises(UnknownError):  # what training says to a scaled result
                miopyx.miopenBatchNormalizationForwardInference(handle, SPATIAL, 1.0, 0.5, *data)
            np.testing.assert_allclose(tensors[1].values(handle), want, atol=1e-4)


def test_a_negative_variance_counts_by_its_size(backends, rng):
    for handle in backends:
        example = Example(SPATIAL, SHAPES[0], "float32", rng)
        example.old_variance = -example.old_variance
        example.infer(handle)


@pytest.mark.parametrize("layout", ["packed", "last"])
def test_results_may_lie_where_inputs_do(backends, layout, rng):
    shapes = (SHAPES[0], FEW[0]) if layout == "packed" else (SHAPES[1], FEW[2])
    for number, handle in enumerate(backends):
        for lens in shapes if not number else shapes[:1]:
            example = Example(SPATIAL, lens, "float32", rng, layout)
            desc, one = example.x_desc, example.one
            parameters = [Tensor(one, a) for a in (example.scale, example.bias, example.old_mean, example.old_variance)]
            p = example.arguments(handle, parameters)

            training = handle.batch_norm_training(SPATIAL, desc, desc, one, running=False, save=False)
            inference = handle.batch_norm_inference(SPATIAL, desc, desc, one)
            backward = handle.batch_norm_backward(SPATIAL, desc, desc, desc, one, saved=False)
            for plan, inputs, rest in (
                    (training, [example.x], (p[0], p[1], None, None, None, None)), (inference, [example.x], p),
                    (backward, [example.x, example.dy], (*p[:3], None, None))):
                results = []
                for place in (None, *range(len(inputs))):  # apart from the inputs, and in the place of each of them
                    tensors = [Tensor(desc, a) for a in inputs]
                    out = Tensor(desc) if place is None else tensors[place]
                    data = [t.argument(handle) for t in tensors]
                    plan(*data, out.argument(handle) if place is None else data[place], *rest)
                    results.append(out.values(handle))
                for other in results[1:]:
                    np.testing.assert_array_equal(results[0], other)


def test_types_of_parameters_may_differ(backends, rng):
    """Where x has 16 bits: each of the four descriptors has a type of its own."""
    types = ("float32", "float16", "bfloat16")
    for handle in backends:
        for _ in range(10 if handle.device.is_host else 1):
            kinds = tuple(str(t) for t in rng.choice(types, 4))
            example = Example(SPATIAL, SHAPES[1], str(rng.choice(types[1:])), rng, parameters=kinds)
            saved = example.train(handle)
            if handle.device.is_host:
                example.infer(handle)
                example.back(handle, saved)
    mixed = ("float32", "float64", "float32", "float64")
    if handle.device.is_host or handle.device.fp64:
        Example(SPATIAL, SHAPES[1], "float64", rng, parameters=mixed).train(handle)


def test_five_dimensions_with_four_of_parameters(backends, rng):
    """As MIOpen wants it: d and h are one axis of the parameters."""
    lens = (2, 19, 3, 4, 5)
    for handle in backends:
        for mode, merged in ((SPATIAL, (1, 19, 1, 1)), (PER_ACTIVATION, (1, 19, 12, 5))):
            example = Example(mode, lens, "float32", rng)
            four, five = TensorDescriptor("float32", merged), example.one
            results = []
            for desc in (four, five):
                tensors = [Tensor(example.x_desc, example.x), Tensor(example.y_desc),
                           *(Tensor(desc, a.reshape(desc.lens)) for a in (example.scale, example.bias)),
                           *(Tensor(desc) for _ in range(4))]
                handle.batch_norm_training(mode, example.x_desc, example.y_desc, desc)(
                    *example.arguments(handle, tensors), 1.0)
                results.append([t.values(handle).reshape(-1) for t in tensors])
            for a, b in zip(*results, strict=True):
                np.testing.assert_array_equal(a, b)
            example.check(handle)


def test_arrays_of_both_ranks(handles, rng):
    """The array of a parameter may have its descriptor's rank, whichever was used before, or a single axis."""
    host = handles("host")
    desc = TensorDescriptor("float32", (2, 3, 1, 4, 5))
    x = rng.standard_normal(desc.lens).astype("f4")
    for lens in ((1, 3, 1, 1), (1, 3, 1, 1, 1), (1, 3, 1, 1)):
        bn = TensorDescriptor("float32", lens)
        plan, y = host.batch_norm_inference(SPATIAL, desc, desc, bn), np.full_like(x, np.nan)
        plan(x, y, *(np.ones(lens, "f4") for _ in range(4)), 0.0)
        np.testing.assert_allclose(y, x, atol=1e-6)
        y[...] = np.nan
        plan(x, y, *(np.ones(3, "f4") for _ in range(4)), 0.0)
        np.testing.assert_allclose(y, x, atol=1e-6)
        with pytest.raises(BadParmError):
            plan(x, y, *(np.ones(2, "f4") for _ in range(4)))


@pytest.mark.parametrize("mode", [PER_ACTIVATION, SPATIAL])
def test_pytorch_agrees(backends, mode, rng):
    torch = pytest.importorskip("torch")
    for handle in backends:
        for lens, layout in ((SHAPES[0], "packed"), (SHAPES[1], "last")):
            example = Example(mode, lens, "float32", rng, layout)
            desc, one = example.x_desc, example.one
            x, dy, scale, bias = (torch.from_numpy(a.astype("f8"))
                                  for a in (example.x, example.dy, example.scale, example.bias))
            for a in (x, scale, bias):
                a.requires_grad_()
            if mode == SPATIAL:
                y = torch.nn.functional.batch_norm(x, None, None, scale.reshape(-1), bias.reshape(-1), True, 0.1, 1e-5)
            else:
                y = ((x - x.mean(0, True)) / torch.sqrt(x.var(0, correction=0, keepdim=True) + 1e-5) * scale) + bias
            y.backward(dy)
            tensors = [Tensor(desc, example.x), Tensor(desc), Tensor(one, example.scale), Tensor(one, example.bias),
                       None, None, Tensor(one), Tensor(one)]
            handle.batch_norm_training(mode, desc, desc, one, running=False)(*example.arguments(handle, tensors))
            saved = [t.values(handle) is not None and t for t in tensors[6:]]
            back = [Tensor(desc, example.x), Tensor(desc, example.dy), Tensor(desc), Tensor(one, example.scale),
                    Tensor(one), Tensor(one), *saved]
            handle.batch_norm_backward(mode, desc, desc, desc, one)(*example.arguments(handle, back))
            # Sums of M terms of size 1 in float32; per activation inv is up to 1 / sqrt(epsilon).
            size = float(np.abs(x.grad.numpy()).max())
            for got, want, scaled in ((tensors[1], y.detach(), 1.0), (back[2], x.grad, size),
                                      (back[4], scale.grad, 1.0), (back[5], bias.grad, 1.0)):
                np.testing.assert_allclose(got.values(handle), want.numpy(), rtol=1e-4, atol=2e-4 * scaled)


def test_the_same_bits_every_time(backends, rng):
    for handle in backends:
        example = Example(SPATIAL, FEW[0], "float32", rng)
        results = []
        for _ in range(2):
            tensors = [Tensor(example.x_desc, example.x), Tensor(example.x_desc, example.dy), Tensor(example.x_desc),
                       Tensor(example.one, example.scale), Tensor(example.one), Tensor(example.one), None, None]
            handle.batch_norm_backward(SPATIAL, *(example.x_desc,) * 3, example.one, saved=False)(
                *example.arguments(handle, tensors))
            results.append([t.values(handle) for t in tensors[2:6]])
        for a, b in zip(*results, strict=True):
            np.testing.assert_array_equal(a, b)


THREADS = """
import hashlib, numpy as np, miopyx
rng, digest = np.random.default_rng(3), hashlib.sha256()
host = miopyx.Handle("host")
for lens, last in (((4, 3, 90, 101), 0), ((2, 70, 40, 41), 1), ((2, 70, 40, 41), 0)):
    strides = (lens[1] * lens[2] * lens[3], 1, lens[1] * lens[3], lens[1]) if last else None
    desc, bn = miopyx.TensorDescriptor("float32", lens, strides), miopyx.TensorDescriptor("float32", (1, lens[1], 1, 1))
    x, dy, out = (rng.standard_normal(desc.nbytes // 4).astype("f4").view("u1") for _ in range(3))
    p = [rng.standard_normal(lens[1]).astype("f4").view("u1") for _ in range(6)]
    host.batch_norm_training(1, desc, desc, bn)(x, out, *p)
    digest.update(out); [digest.update(a) for a in p]
    host.batch_norm_backward(1, desc, desc, desc, bn, saved=False)(x, dy, out, p[0], p[1], p[2], None, None)
    digest.update(out); [digest.update(a) for a in p]
print(digest.hexdigest())
"""


def test_the_host_has_the_same_bits_for_any_number_of_threads(setting):
    digests = set()
    for threads in (1, 2, 5):
        setting(MIOPYX_NUM_THREADS=threads)
        digests.add(subprocess.run([sys.executable, "-P", "-c", THREADS], check=True, capture_output=True).stdout)
    assert len(digests) == 1


def test_plans_are_like_calls(backends, rng):
    for handle in backends:
        example = Example(SPATIAL, SHAPES[0], "float32", rng)
        desc, one = example.x_desc, example.one
        plan = handle.batch_norm_training(SPATIAL, desc, desc, one)
        assert plan.numbers == {"exp_avg_factor": 0.1, "epsilon": 1e-5}
        assert "BatchNorm" in plan.solver.name
        assert plan.solver.name in plan.explain()
        results = []
        for call in (plan, None):
            tensors = [Tensor(desc, example.x), Tensor(desc), Tensor(one, example.scale), Tensor(one, example.bias),
                       Tensor(one, example.old_mean), Tensor(one, example.old_variance), Tensor(one), Tensor(one)]
            data = example.arguments(handle, tensors)
            if call is not None:
                call(*data, 0.25, epsilon=0.125)
            else:
                miopyx.miopenBatchNormalizationForwardTraining(
                    handle, SPATIAL, 1.0, 0.0, desc, data[0], desc, data[1], one, data[2], data[3], 0.25, data[4],
                    data[5], 0.125, data[6], data[7])
            results.append([t.values(handle) for t in tensors])
        for a, b in zip(*results, strict=True):
            np.testing.assert_array_equal(a, b)
        assert handle.batch_norm_inference(SPATIAL, desc, desc, one).numbers == {"epsilon": 1e-5}
        assert handle.batch_norm_backward(SPATIAL, desc, desc, desc, one).buffers == (
            "x", "dy", "dx", "scale", "dscale", "dbias", "saved_mean", "saved_inv")


def test_a_plan_is_for_its_descriptors(handles, rng):
    host = handles("host")
    desc, bn = TensorDescriptor("float32", (2, 3, 4, 5)), TensorDescriptor("float32", (1, 3, 1, 1))
    plan = host.batch_norm_inference(SPATIAL, desc, desc, bn)
    x, p = rng.standard_normal(desc.lens).astype("f4"), np.ones(bn.lens, "f4")
    y = np.full_like(x, np.nan)
    plan(x, y, p, p, p, p)
    miopyx.miopenSet4dTensorDescriptor(bn, 1, 1, 3, 1, 1)  # the same
    plan(x, y, p, p, p, p)
    miopyx.miopenSet4dTensorDescriptor(desc, 1, 1, 3, 4, 5)
    with pytest.raises(BadParmError, match="changed"):
        plan(x, y, p, p, p, p)


# Descriptors


@pytest.mark.parametrize("lens", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("dtype", TYPES)
def test_derived_descriptors(lens, dtype):
    x, derived = TensorDescriptor(dtype, lens, strides_of(lens, "last", None)), TensorDescriptor()
    assert miopyx.miopenDeriveBNTensorDescriptor(derived, x, miopyx.miopenBNSpatial) is None
    assert derived.lens == (1, lens[1], *[1] * (len(lens) - 2))
    assert derived.packed
    assert derived.dtype == ("float64" if dtype == "float64" else "float32")
    miopyx.miopenDeriveBNTensorDescriptor(derived, x, 0)
    assert derived.lens == (1, *lens[1:])
    assert derived.strides == TensorDescriptor("float32", derived.lens).strides


def test_descriptors_that_cannot_be_derived():
    derived, good = TensorDescriptor("float16", (1, 2, 3)), TensorDescriptor("float32", (1, 2, 3, 4))
    for x, mode, error in ((TensorDescriptor("float32", (2, 3)), 1, BadParmError),
                           (TensorDescriptor(), 1, BadParmError),
                           (TensorDescriptor("float32", (1,) * 6), 1, UnknownError), (None, 1, BadParmError),
                           (good, 2, BadParmError), (good, -1, BadParmError), (good, "spatially", MIOpenError)):
        with pytest.raises(error):
            miopyx.miopenDeriveBNTensorDescriptor(derived, x, mode)
        assert derived.lens == (1, 2, 3)
        assert derived.dtype == "float16"
    with pytest.raises(BadParmError):
        miopyx.miopenDeriveBNTensorDescriptor(None, good, 1)


# Bad input


class Call:
    """Arguments of the functions that can be changed one by one."""

    def __init__(self, handle):
        self.handle = handle
        self.lens = (2, 3, 4, 5)
        desc, bn = TensorDescriptor("float32", self.lens), TensorDescriptor("float32", (1, 3, 1, 1))
        self.values = dict.fromkeys(("xDesc", "yDesc", "dyDesc", "dxDesc"), desc)
        self.values |= dict.fromkeys(("bn", "scaleDesc", "biasDesc", "meanDesc", "varianceDesc"), bn)
        self.values |= {name: np.zeros(self.lens, "f4") for name in ("x", "y", "dy", "dx")}
        self.values |= {name: np.ones(bn.lens, "f4") for name in (
            "scale", "bias", "mean", "variance", "saved_mean", "saved_inv", "dscale", "dbias")}
        self.values |= {"mode": SPATIAL, "alpha": 1.0, "beta": 0.0, "alpha2": 1.0, "beta2": 0.0, "epsilon": 1e-5,
                        "factor": 0.1, "handle": handle}

    def __call__(self, what, **changes):
        unknown = set(changes) - set(self.values)
        assert not unknown
        v = {**self.values, **changes}
        if self.handle.device.is_host or self.handle.device.shares_memory:
            data = v
        else:  # the same array is the same buffer
            sent = {}
            data = {k: sent.setdefault(id(a), self.handle.upload(a)) if isinstance(a, np.ndarray) else a
                    for k, a in v.items()}
        four = "scaleDesc", "biasDesc", "meanDesc", "varianceDesc"
        bn = [data[n] for n in (four if what.endswith("V2") else ["bn"])]
        head = [data[n] for n in ("handle", "mode", "alpha", "beta")]
        x = [data[n] for n in ("xDesc", "x")]
        if what.startswith("Backward"):
            tail = [data[n] for n in ("scale", "dscale", "dbias", "epsilon", "saved_mean", "saved_inv")]
            middle = [data[n] for n in ("alpha2", "beta2")] + x + [data[n] for n in ("dyDesc", "dy", "dxDesc", "dx")]
        else:
            middle = x + [data[n] for n in ("yDesc", "y")]
            names = ("scale", "bias", "mean", "variance", "epsilon") if "Inference" in what else (
                "scale", "bias", "factor", "mean", "variance", "epsilon", "saved_mean", "saved_inv")
            tail = [data[n] for n in names]
        getattr(miopyx, f"miopenBatchNormalization{what}")(*head, *middle, *bn, *tail)


FORWARD = ("ForwardTraining", "ForwardTraining_V2", "ForwardInference", "ForwardInference_V2")
BACK = ("Backward", "Backward_V2")


def describe(lens, dtype="float32", strides=None):
    return TensorDescriptor(dtype, lens, strides)


def refused(error, call, what, changes):
    try:
        call(what, **changes)
    except error:
        return
    pytest.fail(f"{what} accepted {changes}")


def test_good_input_is_good(handle):
    for what in FORWARD + BACK:
        Call(handle)(what)


@pytest.mark.parametrize("what", FORWARD + BACK)
def test_bad_input(handle, what):
    call = Call(handle)
    back, v2 = what.startswith("Backward"), what.endswith("V2")
    other = "dyDesc" if back else "yDesc"
    out, out_desc = ("dx", "dxDesc") if back else ("y", "yDesc")
    buffers = ("x", "dy", "dx", "scale", "dscale", "dbias") if back else ("x", "y", "scale", "bias")
    bad = [{name: None} for name in (*buffers, "handle", "xDesc", other)]
    bad += [{"mode": 2}, {"mode": -1}, {"mode": 0}]  # the descriptors are those of the spatial mode
    bad += [{"epsilon": -1e-5}, {"epsilon": float("nan")}]
    bad += [{name: TensorDescriptor()} for name in ("xDesc", other)]
    # ranks, types, lengths
    bad += [{other: describe((2, 3, 20))}, {other: describe((2, 3, 4, 5), "float16")}, {other: describe((2, 3, 5, 4))},
            {"xDesc": describe((2, 3))}, {other: describe((2, 3, 4, 5, 1))}]
    if back:
        bad += [{"dxDesc": describe((2, 3, 20))}, {"dxDesc": describe((2, 3, 4, 5), "float64")},
                {"dxDesc": describe((2, 3, 4, 4))}, {"dxDesc": None}]
    two = describe((2, 3))
    bad.append({"xDesc": two, other: two} | ({"dxDesc": two} if back else {}))
    for name in ("scaleDesc", "biasDesc", "meanDesc", "varianceDesc") if v2 else ("bn",):
        bad += [{name: value} for value in (
            None, TensorDescriptor(), describe((3,)), describe((1, 3, 1)), describe((1, 3, 1, 1, 1)),
            describe((1, 4, 1, 1)), describe((2, 3, 1, 1)), describe((1, 3, 4, 5)), describe((1, 3, 1, 1), "float16"),
            describe((1, 3, 1, 1), "float64"), describe((1, 3, 1, 1), "int32"))]
    # strides of outputs that overlap
    bad.append({out_desc: describe((2, 3, 4, 5), strides=(60, 20, 1, 1))})
    # memory: too short, of another type, of another shape, shared, not writable
    bad += [{out: np.zeros(119, "f4")}, {"x": np.zeros((2, 3, 4, 5), "f8")}, {"x": np.zeros((2, 3, 5, 4), "f4")}]
    bad += [{"scale": call.values[out]}, {out: call.values["scale"]}]
    if back:
        bad += [{"dscale": call.values["scale"]}, {"dscale": call.values["dbias"]}, {"saved_mean": None},
                {"saved_inv": None}]
    if "Training" in what:
        bad += [{"mean": None}, {"variance": None}, {"saved_mean": None}, {"saved_inv": None},
                {"mean": call.values["saved_mean"]}, {"variance": call.values["scale"]}]
    scalars = [{"alpha": 2.0}, {"beta": 1.0}, {"alpha": 0.0}, {"alpha": float("nan")}]
    if back:
        scalars += [{"alpha2": 0.5}, {"beta2": 0.5}]
    for changes in bad:
        if not (handle.device.is_host or handle.device.shares_memory) and any(
                isinstance(a, np.ndarray) and n == "x" for n, a in changes.items()):
            continue  # a buffer has neither type nor shape
        refused(BadParmError, call, what, changes)
    for changes in scalars:
        refused(UnknownError if "Training" in what else BadParmError, call, what, changes)
    for changes in ({"alpha": None}, {"beta": "0"}, {"epsilon": None}, *([{"factor": "x"}] if "Tra" in what else [])):
        refused(MIOpenError, call, what, changes)
    call(what)  # nothing of it stuck


@pytest.mark.parametrize("what", FORWARD + BACK)
def test_what_nobody_computes(handles, what):
    call, names = Call(handles("host")), ("xDesc", "dyDesc", "dxDesc") if what.startswith("B") else ("xDesc", "yDesc")
    six = describe((2, 3, 1, 1, 4, 5))
    with pytest.raises(UnknownError):
        call(what, **dict.fromkeys(names, six))
    bn = dict.fromkeys(("bn", "scaleDesc", "biasDesc", "meanDesc", "varianceDesc"), describe((1, 3, 1, 1)))
    for dtype in ("int32", "int8", "float8_e4m3fnuz"):
        with pytest.raises((BadParmError, MIOpenNotImplementedError)):
            call(what, **dict.fromkeys(names, describe((2, 3, 4, 5), dtype)), **bn)
    vectors = TensorDescriptor("float32", (2, 4, 4, 5), layout=3)
    with pytest.raises(MIOpenNotImplementedError):
        call(what, **dict.fromkeys(names, vectors))


def test_destroyed_things(handles):
    call = Call(handles("host"))
    gone = describe((2, 3, 4, 5))
    miopyx.miopenDestroyTensorDescriptor(gone)
    with pytest.raises(BadParmError, match="destroyed"):
        call("ForwardInference", xDesc=gone)
    with pytest.raises(BadParmError, match="destroyed"):
        miopyx.miopenDeriveBNTensorDescriptor(gone, describe((2, 3, 4, 5)), 1)
    with miopyx.Handle("host") as handle:
        other = Call(handle)
    with pytest.raises(BadParmError):
        other("ForwardTraining")


@pytest.mark.parametrize("wrong", ["yes", None, 2, np.array([1, 2]), float("nan")])
def test_flags_of_plans(device_name, handles, wrong):
    handle, x = handles(device_name), TensorDescriptor("float32", (2, 3, 4, 5))
    derived = TensorDescriptor()
    miopyx.miopenDeriveBNTensorDescriptor(derived, x, SPATIAL)
    train = functools.partial(handle.batch_norm_training, SPATIAL, x, x, derived)
    for plan, flag in ((train, "running"), (train, "save"),
                       (functools.partial(handle.batch_norm_backward, SPATIAL, x, x, x, derived), "saved")):
        with pytest.raises(BadParmError, match=flag):
            plan(**{flag: wrong})
        assert plan(**{flag: 0}) is not None
