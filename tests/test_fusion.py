"""Convolutions with what follows them: every solver, every activation, against float64."""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest
from cases_reader import conv_case, conv_cases
from guarded import DTYPE, LAYOUTS, ROUNDOFF, Tensor
from solver_checks import Example

import miopyx
from miopyx import ActivationDescriptor, TensorDescriptor
from miopyx.choose import preparing
from miopyx.choose._ranking import Candidate, FindRecord
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.solvers.conv.nvidia import _wgmma
from miopyx.values import _learnt

TYPES = ("float32", "float16", "bfloat16", "float64")
CASES = [pytest.param(case, dtype, layout, id=f"{layout}-{dtype}-{case.text.replace(' ', ',')}")
         for case in conv_cases() for dtype in TYPES for layout in LAYOUTS
         if layout == "packed" or case.tier == "smoke"]
MODES = 11
# alpha, beta, gamma of each mode; POWER's is continuous at its threshold.
NUMBERS = {2: (0.7, 1.3, 0.0), 6: (0.5, 0.4, 2.0), 7: (1.5, 0.0, 0.0), 8: (0.1, 0.0, 0.0), 9: (0.8, 0.0, 0.0),
           10: (-0.4, 1.1, 0.0)}


def activated(mode: int, v: np.ndarray, dtype: str) -> np.ndarray:
    """MIOpen's formulas in float64."""
    a, b, g = NUMBERS.get(mode, (0.0, 0.0, 0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        base = a + b * v
        power = np.where(base <= (1e-4 if dtype == "float16" else 1e-6), 0, np.abs(base) ** g)
        return (v, 1 / (1 + np.exp(-v)), b * np.tanh(a * v), np.maximum(v, 0), np.logaddexp(0, v), np.abs(v), power,
                np.clip(v, 0, a), np.where(v > 0, v, a * v), np.where(v > 0, v, a * np.expm1(v)),
                np.clip(v, a, b))[mode]


class Fused:
    """An epilogue with its data, for the output of an example."""

    def __init__(self, example: Example, rng: np.random.Generator, mode: int, z: bool, bias: bool, norm: bool,
                 wide: bool) -> None:
        self.example, self.mode, self.parts = example, mode, (z, bias, norm)
        self.y = example.desc[2]
        k, dtype = self.y.lens[1], example.dtype
        small = "float32" if wide and dtype in ("float16", "bfloat16") else dtype
        shape = (1, k, *[1] * (len(self.y.lens) - 2))
        self.channel = TensorDescriptor(small, shape)
        self.activation = ActivationDescriptor(mode, *NUMBERS.get(mode, (0.0, 0.0, 0.0)))
        self.numbers = rng.uniform(-2, 2, 2) if z else (float(rng.uniform(-2, 2)), 0.0)
        self.z = rng.standard_normal(self.y.lens).astype(DTYPE[dtype]) if z else None
        self.bias = rng.standard_normal(shape).astype(DTYPE[small]) if bias else None
        self.norm = [] if not norm else [
            rng.standard_normal(shape).astype(DTYPE[small]), rng.standard_normal(shape).astype(DTYPE[small]),
            rng.standard_normal(shape).astype(DTYPE[small]), rng.uniform(0.2, 2, shape).astype(DTYPE[small])]
        self.epsilon = 1e-3

    def plan(self, handle, solution_id=None):
        z, bias, norm = self.parts
        x, w, y = self.example.desc
        return handle.convolution_bias_activation_forward(
            x, w, self.example.conv, y if z else None, self.channel if bias else None, self.activation, y, solution_id,
            norm_desc=self.channel if norm else None, epsilon=self.epsilon)

    def run(self, handle, solver, in_place: bool) -> np.ndarray:
        plan = self.plan(handle, solver.id)
        x, w, y = self.example.desc
        place = {"shift": self.example.shift * DTYPE[self.example.dtype].itemsize}
        tensors = [Tensor(handle, d, v, **place) for d, v in zip((x, w), self.example.data, strict=False)]
        out = Tensor(handle, y, self.z if in_place else None, **place)
        z = [] if self.z is None else [out] if in_place else [Tensor(handle, y, self.z, **place)]
        channels = [Tensor(handle, self.channel, v) for v in ([self.bias] if self.bias is not None else []) + self.norm]
        plan(*[t.argument() for t in (*tensors, *z, *channels, out)], *self.numbers)
        handle.finish()
        given = [*self.example.data[:2], *([self.bias] if self.bias is not None else []), *self.norm]
        for tensor, values in zip((*tensors, *channels), given, strict=True):
            tensor.fetch()
            kind = f"V{tensor.dtype.itemsize}"
            np.testing.assert_array_equal(tensor.view().view(kind), values.view(kind), "an input changed")
        return out.values()

    def verify(self, got: np.ndarray, solver, bound: float) -> None:
        alpha, beta = self.numbers
        size = abs(alpha) * self.example.truth(0, absolute=True)
        if solver.mixes_tiles:
            inputs = [np.abs(d.astype(np.float64)).max() for d in self.example.data[:2]]
            size = np.full_like(size, max(size.max(), abs(alpha) * np.prod(inputs)))
        value = alpha * self.example.truth(0)
        scale = 1.0
        if self.bias is not None:
            value, size = value + self.bias.astype(np.float64), size + np.abs(self.bias.astype(np.float64))
        if self.norm:
            gain, shift, mean, variance = (v.astype(np.float64) for v in self.norm)
            scale = gain / np.sqrt(variance + self.epsilon)
            value, size = (value - mean) * scale + shift, (size + np.abs(mean)) * np.abs(scale) + np.abs(shift)
        if self.z is not None:
            value, size = value + beta * self.z.astype(np.float64), size + np.abs(beta * self.z.astype(np.float64))
        error = bound * size + np.finfo(np.float32).tiny
        want = activated(self.mode, value, self.example.dtype)
        near = [np.abs(activated(self.mode, value + s * error, self.example.dtype) - want) for s in (-1, 1)]
        tolerance = np.maximum(*near) + (error if self.mode == 5 else 0)
        kind = self.example.dtype
        arithmetic = 1e-15 if kind == "float64" else 4e-7
        tolerance = tolerance + (ROUNDOFF[kind] + arithmetic) * np.abs(want) + (6e-8 if kind == "float16" else 1e-37)
        if kind == "float16":  # beyond its range a result is infinite
            beyond = np.abs(want) + tolerance >= 65520
            assert (np.isinf(got) | (np.abs(got) > 65000) | ~beyond).all(), solver
            got, want = np.where(beyond, 0, got), np.where(beyond, 0, want)
        worst = np.abs(got - want) - tolerance
        assert not np.isnan(got).any(), solver
        assert (worst <= 0).all(), (solver, self.mode, self.parts, worst.max(), worst.argmax())


def error_of(handle, example, solver):
    return (solver.error_bound(handle.device, example.problem(0))
            + 16 * ROUNDOFF["float32"] * (example.dtype != "float64") + 2 * ROUNDOFF[example.dtype])


def check(handle, example, solver, rng, mode=None):
    mode = int(rng.integers(MODES)) if mode is None else mode
    z, bias, norm, wide, in_place = (bool(v) for v in rng.integers(2, size=5))
    fused = Fused(example, rng, mode, z, bias, norm, wide)
    got = fused.run(handle, solver, z and in_place)
    fused.verify(got, solver, error_of(handle, example, solver))


@pytest.mark.some(24, host=60)
@pytest.mark.parametrize(("case", "dtype", "layout"), CASES)
def test_every_solver_computes_what_follows(handle, host, rng, case, dtype, layout):
    if dtype == "float64" and not handle.device.fp64:
        pytest.skip("no double precision")
    example = Example(case, dtype, layout, rng, host)
    able = [s for s in registry.CONV if s.why_not(handle.device, example.problem(0)) is None]
    assert able
    for solver in able:
        check(handle, example, solver, rng)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_additions_that_pass_the_caches(opencl_name, setting, host, rng, dtype, in_place):
    """The device is told that its caches hold nothing; planes that keep vectors aligned and others."""
    setting(MIOPYX_STREAM_BYTES=0)
    solver = registry.BY_NAME["CpuImplicitGemmFwd"]
    with miopyx.Handle(opencl_name) as handle:
        if not handle.device.is_cpu:
            pytest.skip("CPUs' caches are passed by stores of their own")
        if dtype == "float64" and not handle.device.fp64:
            pytest.skip("no double precision")
        for case in (conv_case(2, 9, 24, (16, 16), (3, 3), (1, 1)), conv_case(3, 64, 36, (12, 12)),
                     conv_case(2, 5, 21, (7, 9), (3, 3), (1, 1))):
            example = Example(case, dtype, "packed", rng, host)
            fused = Fused(example, rng, 3, True, True, False, True)
            fused.verify(fused.run(handle, solver, in_place), solver, error_of(handle, example, solver))


# Of wgmma, channels last, where 8 neighbours of y are stored at once: z comes into local memory as slices of the ring.
# Each has other tiles; images, channels, filters, pixels, filter, pad, stride.
RESIDUAL = {
    "64 channels to 256": conv_case(67, 64, 256, (12, 13)),
    "128 channels to 512": conv_case(5, 128, 512, (13, 12)),
    "256 channels to 1024": conv_case(3, 256, 1024, (14, 14)),
    "512 channels to 2048": conv_case(23, 512, 2048, (7, 7)),
    "3x3 to 256": conv_case(3, 72, 256, (9, 10), (3, 3), (1, 1)),
    "3x3 to 640": conv_case(8, 96, 640, (40, 11), (3, 3), (1, 1)),
    "3x3 to 192": conv_case(5, 200, 192, (45, 71), (3, 3), (1, 1)),
    "3x3 to 128": conv_case(3, 128, 128, (14, 14), (3, 3), (1, 1)),
    "to 40": conv_case(3, 136, 40, (9, 9), (3, 3), (1, 1), (2, 2)),
    "64 channels, rows": conv_case(3, 64, 64, (14, 15), (3, 3), (1, 1)),
    "3 channels": conv_case(3, 3, 64, (20, 21), (7, 7), (3, 3), (2, 2)),
    "groups": conv_case(2, 128, 160, (9, 9), (3, 3), (1, 1), groups=2),
    "transposed": conv_case(2, 96, 64, (9, 8), (4, 4), (1, 1), (2, 2), transposed=True),
    "transposed, no taps for some": conv_case(3, 96, 72, (9, 8), (1, 1), (0, 0), (2, 2), transposed=True,
                                              outpad=(1, 1)),
    "volume": conv_case(2, 96, 136, (5, 7, 8), (3, 3, 3), (1, 1, 1)),
    "filters that are no multiple of 8": conv_case(3, 64, 68, (9, 9)),
}


def check_residuals(handle, host, rng, case, dtype, few=False):
    """A bias, a batch norm or neither of any type, z beside y or y itself, at any address, or multiplied by zero."""
    solver = registry.BY_NAME["NvWgmmaBwd" if case.transposed else "NvWgmmaFwd"]
    example = Example(case, dtype, "channels last", rng, host)
    if solver.why_not(handle.device, example.problem(0)) is not None:
        pytest.skip("needs a Hopper GPU")
    bound = solver.error_bound(handle.device, example.problem(0)) + 16 * ROUNDOFF["float32"] + 2 * ROUNDOFF[dtype]
    ways = [(True, True, False, None, 0, False), (True, False, True, None, 0, True), (True, True, False, 0.0, 0, False),
            (True, True, bool(rng.integers(2)), None, int(rng.integers(1, 8)), bool(rng.integers(2))),
            (False, True, bool(rng.integers(2)), None, 0, False)]
    for z, bias, norm, beta, shift, in_place in ways[3:] if few else ways:
        example.shift = shift
        fused = Fused(example, rng, int(rng.choice([0, 3, 8])), z, bias, norm, bool(rng.integers(2)))
        if beta is not None:
            fused.numbers = (fused.numbers[0], beta)
        fused.verify(fused.run(handle, solver, in_place), solver, bound)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", RESIDUAL)
def test_residuals_by_wgmma(handle, host, rng, name, dtype):
    check_residuals(handle, host, rng, RESIDUAL[name], dtype)


@pytest.mark.parametrize("choice", range(13))
def test_residuals_by_every_tile(handle, host, rng, choice):
    """Of wgmma; each with a number of images of its own, since a handle keeps what it has made for a problem."""
    try:
        _wgmma.limit_choices(choice)
        for c, k in ((64, 256), (136, 264)):
            check_residuals(handle, host, rng, conv_case(2 + choice, c, k, (9, 10)), "float16", few=True)
    finally:
        _wgmma.limit_choices()


@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("way", range(4))
def test_what_follows_filters_as_rows_of_the_product(handle, host, rng, way, layout):
    """Of wgmma: each filter is of two rows of work-items."""
    solver = registry.BY_NAME["NvWgmmaFwd"]
    try:
        _wgmma.limit_choices(rows=way)
        for case in (conv_case(2 + way, 64, 64, (19, 23), (3, 3), (1, 1)),
                     conv_case(2, 64, 40, (4, 30, 31 + way), (3, 3, 3), (1, 1, 1))):
            example = Example(case, "float16", layout, rng, host)
            if solver.why_not(handle.device, example.problem(0)) is not None:
                pytest.skip("needs a Hopper GPU")
            bound = (solver.error_bound(handle.device, example.problem(0)) + 16 * ROUNDOFF["float32"]
                     + 2 * ROUNDOFF["float16"])
            for bias, norm, mode in ((True, False, 3), (False, False, 8), (True, True, 0), (True, False, 3)):
                fused = Fused(example, rng, mode, False, bias, norm, bool(rng.integers(2)))
                fused.verify(fused.run(handle, solver, False), solver, bound)
                example.shift = int(rng.integers(1, 8))
    finally:
        _wgmma.limit_choices()


def random_memory(handle, rng, desc, positive=False):
    values = rng.uniform(0.5, 2, desc.lens) if positive else rng.standard_normal(desc.lens)
    return Tensor(handle, desc, values.astype(DTYPE[desc.dtype]))


def layer(handle, rng, dtype="float32", lens=(2, 5, 7, 6), k=6, groups=1):
    """A 3x3 convolution: descriptors, and memory by name."""
    conv = miopyx.ConvolutionDescriptor((1, 1), (1, 1), (1, 1), groups=groups)
    desc = {"x": TensorDescriptor(dtype, lens), "w": TensorDescriptor(dtype, (k, lens[1] // groups, 3, 3)),
            "y": TensorDescriptor(dtype, (lens[0], k, *lens[2:])), "channel": TensorDescriptor(dtype, (1, k, 1, 1))}
    data = {name: random_memory(handle, rng, desc[name]) for name in "xw"}
    data |= {"z": random_memory(handle, rng, desc["y"])}
    data |= {name: random_memory(handle, rng, desc["channel"], name == "variance")
             for name in ("bias", "scale", "shift", "mean", "variance")}
    return conv, desc, data


def convolved(host, conv, desc, data):
    """The convolution in float64."""
    x, w, y = (TensorDescriptor("float64", desc[name].lens) for name in "xwy")
    out = np.full(y.lens, np.nan)
    host.convolution_forward(x, w, conv, y)(data["x"].values(), data["w"].values(), out)
    return out


def run_cba(handle, conv, desc, data, out, activ, alpha1=1.0, alpha2=0.0, algo=None, z=True, bias=True, size=0,
            workspace=None):
    algo = (5 if handle.device.is_host else 1) if algo is None else algo
    miopyx.miopenConvolutionBiasActivationForward(
        handle, alpha1, desc["x"], data["x"].argument(), desc["w"], data["w"].argument(), conv, algo, workspace, size,
        alpha2, desc["y"] if z else None, data["z"].argument() if z else None, desc["channel"],
        data["bias"].argument() if bias else None, activ, desc["y"], out.argument())
    handle.finish()
    return out.values()


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


def test_one_call(handle, host, rng):
    conv, desc, data = layer(handle, rng)
    size = miopyx.miopenConvolutionForwardGetWorkSpaceSize(handle, desc["w"], desc["x"], conv, desc["y"])
    workspace = handle.empty((max(size, 1),), "int8") if not handle.device.is_host else None
    c = convolved(host, conv, desc, data)
    able = {solver.algorithm for solver in registry.CONV
            if solver.why_not(handle.device, ConvProblem(0, desc["x"], desc["w"], desc["y"], conv)) is None}
    with pytest.raises(miopyx.MIOpenNotImplementedError, match="algorithm"):
        run_cba(handle, conv, desc, data, Tensor(handle, desc["y"], None), ActivationDescriptor(3),
                algo=min({0, 1, 2, 3, 5} - able))
    for algo in sorted(able):
        for alpha1, alpha2, z, bias, mode in ((1.0, 0.0, False, True, 3), (None, None, True, True, 0),
                                              (0.7, -1.3, True, False, 8), (2.0, 1.0, True, True, 1)):
            activ = ActivationDescriptor(mode, *NUMBERS.get(mode, (0, 0, 0)))
            out = Tensor(handle, desc["y"], None)
            got = run_cba(handle, conv, desc, data, out, activ, alpha1, alpha2, algo, z, bias, size, workspace)
            value = (1 if alpha1 is None else alpha1) * c + (0 if alpha2 is None else alpha2) * data["z"].values() * z
            close(got, activated(mode, value + (data["bias"].values() if bias else 0), "float32"))


def test_a_call_that_was_made_before(handle, host, rng):
    """The same descriptors again with other memory and numbers, an activation that was set anew, less workspace."""
    conv, desc, data = layer(handle, rng)
    activ = ActivationDescriptor("leaky", 0.25)
    algo = int(handle.convolution_bias_activation_forward(
        desc["x"], desc["w"], conv, None, desc["channel"], activ, desc["y"], workspace_limit=0).solver.algorithm)
    for slope in (0.25, 0.5):
        miopyx.miopenSetActivationDescriptor(activ, "leaky", slope, 0.0, 0.0)
        for alpha in (1.0, 3.0):
            data["x"] = random_memory(handle, rng, desc["x"])
            got = run_cba(handle, conv, desc, data, Tensor(handle, desc["y"], None), activ, alpha, algo=algo, z=False)
            value = alpha * convolved(host, conv, desc, data) + data["bias"].values()
            close(got, np.where(value > 0, value, slope * value))


def test_what_the_one_call_refuses(handle, rng):
    conv, desc, data = layer(handle, rng)
    relu, out = ActivationDescriptor(3), Tensor(handle, desc["y"], None)
    y = desc["y"]
    last = TensorDescriptor("float32", y.lens, (y.lens[1] * y.lens[2] * y.lens[3], 1, y.lens[3] * y.lens[1], y.lens[1]))
    for changed, kind, word in (
            ({"channel": TensorDescriptor("float32", (1, 7, 1, 1))}, miopyx.BadParmError, "biasDesc"),
            ({"channel": TensorDescriptor("float16", (1, 6, 1, 1))}, miopyx.BadParmError, "biasDesc"),
            ({"channel": TensorDescriptor("float32", (6,))}, miopyx.BadParmError, "biasDesc"),
            ({"channel": TensorDescriptor("float32", (1, 6, 1, 1), (12, 2, 1, 1))},
             miopyx.MIOpenNotImplementedError, "biasDesc")):
        with pytest.raises(kind, match=word):
            run_cba(handle, conv, {**desc, **changed}, data, out, relu)
    for z, kind in ((last, miopyx.MIOpenNotImplementedError), (desc["x"], miopyx.BadParmError),
                    (TensorDescriptor("float16", y.lens), miopyx.BadParmError)):
        with pytest.raises(kind, match="zDesc"):
            handle.convolution_bias_activation_forward(desc["x"], desc["w"], conv, z, None, relu, y)
    with pytest.raises(miopyx.BadParmError, match="algo"):
        run_cba(handle, conv, desc, data, out, relu, algo=17)
    bytes_of = {name: TensorDescriptor("int8" if name in "xw" else "int32", d.lens) for name, d in desc.items()}
    with pytest.raises(miopyx.MIOpenNotImplementedError, match="float32"):
        handle.convolution_bias_activation_forward(bytes_of["x"], bytes_of["w"], conv, None, None, relu, bytes_of["y"])
    data["bias"] = random_memory(handle, rng, TensorDescriptor("float32", (1, 3, 1, 1)))
    with pytest.raises(miopyx.BadParmError, match="bias"):  # a buffer that is too small
        run_cba(handle, conv, desc, data, out, relu, z=False)


def test_plans_follow_their_descriptors(handle, host, rng):
    conv, desc, data = layer(handle, rng)
    relu = ActivationDescriptor(3)
    plan = handle.convolution_bias_activation_forward(
        desc["x"], desc["w"], conv, None, desc["channel"], relu, desc["y"])
    assert plan.buffers == ("x", "w", "bias", "y")
    assert "then bias" in plan.explain()
    out = Tensor(handle, desc["y"], None)
    plan(*[data[name].argument() for name in ("x", "w", "bias")], out.argument())
    handle.finish()
    close(out.values(), np.maximum(convolved(host, conv, desc, data) + data["bias"].values(), 0))
    miopyx.miopenSetActivationDescriptor(relu, "tanh", 1.0, 1.0, 0.0)
    with pytest.raises(miopyx.BadParmError, match="activation_desc"):
        plan(*[data[name].argument() for name in ("x", "w", "bias")], out.argument())


def test_packed_weights(opencl_handle, host, rng):
    conv, desc, data = layer(opencl_handle, rng, lens=(2, 32, 9, 9), k=48)
    plan = opencl_handle.convolution_bias_activation_forward(
        desc["x"], desc["w"], conv, None, desc["channel"], ActivationDescriptor(3), desc["y"])
    plan.pack(data["w"].argument())
    out = Tensor(opencl_handle, desc["y"], None)
    plan(*[data[name].argument() for name in ("x", "w", "bias")], out.argument())
    opencl_handle.finish()
    close(out.values(), np.maximum(convolved(host, conv, desc, data) + data["bias"].values(), 0))


def test_find_measures_the_convolution_alone(handle, rng):
    """What Find learnt of a convolution orders the solvers of the fused call."""
    conv, desc, data = layer(handle, rng, lens=(1, 16, 12, 12), k=16)
    out = Tensor(handle, desc["y"], None)
    size = miopyx.miopenConvolutionForwardGetWorkSpaceSize(handle, desc["w"], desc["x"], conv, desc["y"])
    workspace = handle.empty((max(size, 1),), "int8") if size else None
    miopyx.miopenFindConvolutionForwardAlgorithm(
        handle, desc["x"], data["x"].argument(), desc["w"], data["w"].argument(), conv, desc["y"], out.argument(), 1,
        workspace, size, False)
    alone = handle.convolution_forward(desc["x"], desc["w"], conv, desc["y"])
    fused = handle.convolution_bias_activation_forward(
        desc["x"], desc["w"], conv, None, desc["channel"], ActivationDescriptor(3), desc["y"])
    if "fused_epilogue" not in fused.explain():
        assert fused.solver.id == alone.solver.id


def fusion_plan(conv, desc, norm=True, mode=3):
    plan = miopyx.miopenCreateFusionPlan(0, desc["x"])
    ops = {"conv": miopyx.miopenCreateOpConvForward(plan, conv, desc["w"]),
           "bias": miopyx.miopenCreateOpBiasForward(plan, desc["channel"])}
    if norm:
        ops["norm"] = miopyx.miopenCreateOpBatchNormInference(plan, 1, desc["channel"])
    ops["activ"] = miopyx.miopenCreateOpActivationForward(plan, mode)
    return plan, ops


def arguments_of(data, ops, epsilon=1e-3, numbers=(0.0, 0.0, 0.0)):
    args = miopyx.miopenCreateOperatorArgs()
    miopyx.miopenSetOpArgsConvForward(args, ops["conv"], 1.0, 0.0, data["w"].argument())
    miopyx.miopenSetOpArgsBiasForward(args, ops["bias"], 1.0, 0.0, data["bias"].argument())
    if "norm" in ops:
        miopyx.miopenSetOpArgsBatchNormInference(
            args, ops["norm"], None, None, *[data[name].argument() for name in ("scale", "shift", "mean", "variance")],
            epsilon)
    miopyx.miopenSetOpArgsActivForward(args, ops["activ"], 1.0, 0.0, *numbers)
    return args


@pytest.mark.parametrize("compiled", [True, False])
def test_fusion_plans(handle, host, rng, compiled):
    conv, desc, data = layer(handle, rng)
    plan, ops = fusion_plan(conv, desc)
    assert miopyx.miopenFusionPlanGetOp(plan, 2) is ops["norm"]
    if compiled:
        miopyx.miopenCompileFusionPlan(handle, plan)
    algorithms = miopyx.miopenFusionPlanConvolutionGetAlgo(plan, 10)
    assert algorithms
    assert len(set(algorithms)) == len(algorithms)
    args = arguments_of(data, ops)
    gain = data["scale"].values() / np.sqrt(data["variance"].values().astype(np.float64) + 1e-3)
    value = (convolved(host, conv, desc, data) + data["bias"].values() - data["mean"].values()) * gain
    want = np.maximum(value + data["shift"].values(), 0)
    for algorithm in (None, *algorithms):
        if algorithm is not None:
            miopyx.miopenFusionPlanConvolutionSetAlgo(plan, algorithm)
            assert miopyx.miopenFusionPlanGetWorkSpaceSize(handle, plan, algorithm) >= 0
        for _ in range(2):
            out = Tensor(handle, desc["y"], None)
            try:
                miopyx.miopenExecuteFusionPlan(handle, plan, desc["x"], data["x"].argument(), desc["y"], out.argument(),
                                               args)
            except miopyx.MIOpenNotImplementedError:
                assert not compiled
                assert algorithm is not None
                break
            handle.finish()
            close(out.values(), want)
    miopyx.miopenDestroyOperatorArgs(args)
    with pytest.raises(miopyx.BadParmError, match="args"):
        miopyx.miopenExecuteFusionPlan(handle, plan, desc["x"], data["x"].argument(), desc["y"], out.argument(), args)
    miopyx.miopenDestroyFusionPlan(plan)
    with pytest.raises(miopyx.BadParmError, match="fusePlanDesc"):
        miopyx.miopenCompileFusionPlan(handle, plan)


def test_links_that_break(handle, rng):
    conv, desc, data = layer(handle, rng)
    makers = {
        "conv": lambda plan: miopyx.miopenCreateOpConvForward(plan, conv, desc["w"]),
        "bias": lambda plan: miopyx.miopenCreateOpBiasForward(plan, desc["channel"]),
        "norm": lambda plan: miopyx.miopenCreateOpBatchNormInference(plan, 1, desc["channel"]),
        "train": lambda plan: miopyx.miopenCreateOpBatchNormForward(plan, 1, True),
        "back": lambda plan: miopyx.miopenCreateOpBatchNormBackward(plan, 1),
        "activ": lambda plan: miopyx.miopenCreateOpActivationForward(plan, 3),
        "activ back": lambda plan: miopyx.miopenCreateOpActivationBackward(plan, 3),
        "each": lambda plan: miopyx.miopenCreateOpBatchNormInference(plan, 0, desc["channel"])}
    for kinds, message in (
            (("bias", "activ"), "begins with bias"), (("conv", "activ", "bias"), "bias forward cannot follow"),
            (("conv", "bias", "bias"), "cannot follow bias"), (("conv", "train"), "batch norm training"),
            (("norm", "bias"), "bias forward cannot follow batch norm"), (("activ",), "begins with activ"),
            (("conv", "each"), "by activation"), (("train", "activ back"), "activation backward"),
            (("back", "activ"), "cannot follow batch norm backward"),
            (("norm", "activ", "bias"), "bias forward cannot follow activation forward"),
            (("train", "activ", "activ"), "activation forward cannot follow activation forward"),
            (("activ back", "back", "conv"), "convolution forward cannot follow batch norm backward"),
            (("activ back",), "nothing follows activation backward")):
        plan = miopyx.miopenCreateFusionPlan(0, desc["x"])
        for kind in kinds:
            makers[kind](plan)
        with pytest.raises(miopyx.UnsupportedOpError, match=message):
            miopyx.miopenCompileFusionPlan(handle, plan)
    empty = miopyx.miopenCreateFusionPlan(0, desc["x"])
    with pytest.raises(miopyx.BadParmError, match="without operators"):
        miopyx.miopenCompileFusionPlan(handle, empty)
    for index in (0, -1):
        with pytest.raises(miopyx.BadParmError, match="without operators"):
            miopyx.miopenFusionPlanGetOp(empty, index)
    makers["norm"](empty)
    for index in (1, -1):
        with pytest.raises(miopyx.BadParmError, match="0 to 0"):
            miopyx.miopenFusionPlanGetOp(empty, index)
    with pytest.raises(miopyx.UnsupportedOpError, match="without a convolution"):
        miopyx.miopenFusionPlanConvolutionSetAlgo(empty, 1)
    with pytest.raises(miopyx.MIOpenNotImplementedError):
        miopyx.miopenCreateFusionPlan(1, desc["x"])
    plan, ops = fusion_plan(conv, desc)
    args = arguments_of(data, ops)
    del ops["norm"]
    other = arguments_of(data, ops)
    out = Tensor(handle, desc["y"], None).argument()
    with pytest.raises(miopyx.BadParmError, match="without arguments"):
        miopyx.miopenExecuteFusionPlan(handle, plan, desc["x"], data["x"].argument(), desc["y"], out, other)
    with pytest.raises(miopyx.BadParmError, match="plan's input"):
        miopyx.miopenExecuteFusionPlan(handle, plan, desc["y"], data["z"].argument(), desc["y"], out, args)
    with pytest.raises(miopyx.BadParmError, match="convOp"):
        miopyx.miopenSetOpArgsConvForward(args, ops["bias"], 1.0, 0.0, data["w"].argument())
    with pytest.raises(miopyx.BadParmError, match="beta"):
        miopyx.miopenSetOpArgsBiasForward(args, ops["bias"], 1.0, 1.0, data["bias"].argument())


@pytest.mark.parametrize("activates", [True, False])
def test_batch_norm_plans(handle, rng, activates):
    """Inference, training and gradients by plans give what their functions give."""
    x = TensorDescriptor("float32", (3, 4, 5, 6))
    norm = TensorDescriptor("float32", (1, 4, 1, 1))
    data = {name: random_memory(handle, rng, x) for name in ("x", "dy")}
    data |= {name: random_memory(handle, rng, norm, name == "variance")
             for name in ("scale", "bias", "mean", "variance")}
    leaky = ActivationDescriptor("leaky", 0.2)
    follows = leaky if activates else None

    def plan_of(make, *activation):
        plan = miopyx.miopenCreateFusionPlan(0, x)
        op = make(plan)
        activ = activation[0](plan, "leaky") if activates else None
        miopyx.miopenCompileFusionPlan(handle, plan)
        args = miopyx.miopenCreateOperatorArgs()
        return plan, op, activ, args

    def execute(plan, given, args):
        out = Tensor(handle, x, None)
        miopyx.miopenExecuteFusionPlan(handle, plan, x, data[given].argument(), x, out.argument(), args)
        handle.finish()
        return out.values()

    four = [data[name].argument() for name in ("scale", "bias", "mean", "variance")]
    plan, op, activ, args = plan_of(lambda plan: miopyx.miopenCreateOpBatchNormInference(plan, 1, norm),
                                    miopyx.miopenCreateOpActivationForward)
    with pytest.raises(miopyx.BadParmError, match="epsilon"):
        miopyx.miopenSetOpArgsBatchNormInference(args, op, 1.0, 0.0, *four, -1e-3)
    miopyx.miopenSetOpArgsBatchNormInference(args, op, 1.0, 0.0, *four, 1e-3)
    if activates:
        miopyx.miopenSetOpArgsActivForward(args, activ, 1.0, 0.0, 0.2, 0.0, 0.0)
    want = Tensor(handle, x, None)
    miopyx.miopenBatchNormForwardInferenceActivation(handle, 1, 1.0, 0.0, x, data["x"].argument(), x, want.argument(),
                                                     norm, norm, norm, norm, *four, 1e-3, follows)
    handle.finish()
    np.testing.assert_array_equal(execute(plan, "x", args), want.values())
    assert miopyx.miopenFusionPlanGetWorkSpaceSize(handle, plan, 1) == 0
    with pytest.raises(miopyx.UnsupportedOpError):
        miopyx.miopenFusionPlanConvolutionGetAlgo(plan, 3)

    plan, op, activ, args = plan_of(lambda plan: miopyx.miopenCreateOpBatchNormForward(plan, 1, True),
                                    miopyx.miopenCreateOpActivationForward)
    mine, theirs = ([Tensor(handle, norm, np.zeros(norm.lens, np.float32)) for _ in range(4)] for _ in range(2))
    miopyx.miopenSetOpArgsBatchNormForward(args, op, 1.0, 0.0, *four[:2], *[t.argument() for t in mine], 0.5, 1e-3)
    if activates:
        miopyx.miopenSetOpArgsActivForward(args, activ, 1.0, 0.0, 0.2, 0.0, 0.0)
    saved, running = [t.argument() for t in theirs[:2]], [t.argument() for t in theirs[2:]]
    miopyx.miopenBatchNormForwardTrainingActivation(
        handle, 1, 1.0, 0.0, x, data["x"].argument(), x, want.argument(), norm, norm, norm, norm, *four[:2], 0.5,
        *running, 1e-3, *saved, follows)
    handle.finish()
    np.testing.assert_array_equal(execute(plan, "x", args), want.values())
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(a.values(), b.values())
    with pytest.raises(miopyx.BadParmError, match="running"):
        miopyx.miopenSetOpArgsBatchNormForward(args, op, 1.0, 0.0, *four[:2], None, None, None, None, 0.5, 1e-3)

    plan, op, activ, args = plan_of(lambda plan: miopyx.miopenCreateOpBatchNormBackward(plan, 1),
                                    miopyx.miopenCreateOpActivationBackward)
    mine, theirs = ([Tensor(handle, norm, None) for _ in range(2)] for _ in range(2))
    miopyx.miopenSetOpArgsBatchNormBackward(args, op, 1.0, 0.0, data["x"].argument(), *four[:2],
                                            *[t.argument() for t in mine], None, None)
    if activates:
        miopyx.miopenSetOpArgsActivBackward(args, activ, 1.0, 0.0, None, None, 0.2, 0.0, 0.0)
    miopyx.miopenBatchNormBackwardActivation(
        handle, 1, 1.0, 0.0, 1.0, 0.0, x, data["x"].argument(), x, data["dy"].argument(), x, want.argument(), norm,
        norm, norm, norm, *four[:2], *[t.argument() for t in theirs], 1e-5, None, None, follows)
    handle.finish()
    np.testing.assert_array_equal(execute(plan, "dy", args), want.values())
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(a.values(), b.values())


def test_arguments_set_by_a_buffer_that_is_asked_for_its_memory():
    """What a plan took of its arguments lives until it ran, whatever they are set to meanwhile."""
    host = miopyx.Handle("host")
    x_desc, w_desc, b_desc = (TensorDescriptor("float32", n) for n in ((1, 8, 6, 6), (4, 8, 1, 1), (1, 4, 1, 1)))
    y_desc = TensorDescriptor("float32", (1, 4, 6, 6))
    plan = miopyx.miopenCreateFusionPlan(0, x_desc)
    conv = miopyx.miopenCreateOpConvForward(plan, miopyx.ConvolutionDescriptor(), w_desc)
    bias = miopyx.miopenCreateOpBiasForward(plan, b_desc)
    args = miopyx.miopenCreateOperatorArgs()
    miopyx.miopenSetOpArgsConvForward(args, conv, 1, 0, np.ones((4, 8, 1, 1), np.float32))
    miopyx.miopenSetOpArgsBiasForward(args, bias, 1, 0, np.ones((1, 4, 1, 1), np.float32))
    x, y = np.ones((1, 8, 6, 6), np.float32), np.zeros((1, 4, 6, 6), np.float32)

    class Asked:
        @property
        def __array_interface__(self):
            miopyx.miopenSetOpArgsConvForward(args, conv, 1, 0, None)
            return x.__array_interface__

    miopyx.miopenExecuteFusionPlan(host, plan, x_desc, Asked(), y_desc, y, args)
    np.testing.assert_array_equal(y, 9)


def test_plan_without_an_input():
    plan = miopyx.FusionPlanDescriptor.__new__(miopyx.FusionPlanDescriptor)
    with pytest.raises(miopyx.BadParmError, match="miopenCreateFusionPlan"):
        miopyx.miopenCreateOpActivationForward(plan, 3)


def test_compiling_again_follows_find(handle):
    rng = np.random.default_rng()
    x_desc, w_desc = TensorDescriptor("float32", (2, 16, 20, 20)), TensorDescriptor("float32", (16, 16, 3, 3))
    conv, relu = miopyx.ConvolutionDescriptor((1, 1)), ActivationDescriptor("relu")
    x, w = (handle.upload(rng.standard_normal(d.lens, np.float32)) for d in (x_desc, w_desc))
    y = handle.empty(x_desc.lens)
    plan = miopyx.miopenCreateFusionPlan(0, x_desc)
    op = miopyx.miopenCreateOpConvForward(plan, conv, w_desc)
    activation = miopyx.miopenCreateOpActivationForward(plan, relu.mode)
    args = miopyx.miopenCreateOperatorArgs()
    miopyx.miopenSetOpArgsConvForward(args, op, 1, 0, w)
    miopyx.miopenSetOpArgsActivForward(args, activation, 1, 0, 0, 0, 0)

    def run():
        miopyx.miopenCompileFusionPlan(handle, plan)
        miopyx.miopenExecuteFusionPlan(handle, plan, x_desc, x, x_desc, y, args)
        return handle.download(y, np.empty(x_desc.lens, np.float32))
    run()
    size = miopyx.miopenConvolutionForwardGetWorkSpaceSize(handle, w_desc, x_desc, conv, x_desc)
    space = handle.empty((max(size, 1),), "int8")
    miopyx.miopenFindConvolutionForwardAlgorithm(handle, x_desc, x, w_desc, w, conv, x_desc, y, 1, space, size, True)
    after = run()
    chosen = handle.convolution_bias_activation_forward(x_desc, w_desc, conv, None, None, relu, x_desc)
    chosen(x, w, y)
    np.testing.assert_array_equal(after, handle.download(y, np.empty(x_desc.lens, np.float32)))
    (best,) = miopyx.miopenFusionPlanConvolutionGetAlgo(plan, 1)
    assert best == chosen.solver.algorithm


def test_operators_end_with_their_plan(handle, rng):
    conv, desc, data = layer(handle, rng)
    plan, ops = fusion_plan(conv, desc)
    arguments_of(data, ops)
    miopyx.miopenDestroyFusionPlan(plan)
    for name in ops:
        with pytest.raises(miopyx.BadParmError, match="plan was destroyed"):
            arguments_of(data, {**fusion_plan(conv, desc)[1], name: ops[name]})


def test_plans_compare_by_content_and_arguments_do_not(handle, host, rng):
    conv, desc, data = layer(handle, rng)
    plan, ops = fusion_plan(conv, desc)
    same, other = fusion_plan(conv, desc)[0], fusion_plan(conv, desc, norm=False)[0]
    assert plan == same
    assert hash(plan) == hash(same)
    assert plan != other
    miopyx.miopenFusionPlanConvolutionSetAlgo(same, 5 if handle.device.is_host else 1)
    assert plan != same
    for again in (copy.copy(same), copy.deepcopy(same), pickle.loads(pickle.dumps(same))):
        assert again == same
        assert again is not same
        with pytest.raises(miopyx.BadParmError, match="without arguments"):  # its operators are its own
            miopyx.miopenExecuteFusionPlan(handle, again, desc["x"], data["x"].argument(), desc["y"],
                                           data["z"].argument(), arguments_of(data, ops))
    again = copy.copy(plan)
    args = arguments_of(data, dict(zip(ops, (miopyx.miopenFusionPlanGetOp(again, i) for i in range(4)), strict=True)))
    outs = [Tensor(handle, desc["y"], None) for _ in range(2)]
    for which, given, out in ((again, args, outs[0]), (plan, arguments_of(data, ops), outs[1])):
        miopyx.miopenExecuteFusionPlan(handle, which, desc["x"], data["x"].argument(), desc["y"], out.argument(), given)
    handle.finish()
    np.testing.assert_array_equal(*[out.values() for out in outs])
    for make in (lambda p: miopyx.miopenCreateOpBatchNormForward(p, 1, True),
                 lambda p: miopyx.miopenCreateOpBatchNormForward(p, 1, False),
                 lambda p: miopyx.miopenCreateOpBatchNormBackward(p, 0),
                 lambda p: miopyx.miopenCreateOpActivationBackward(p, 3)):
        each = [miopyx.miopenCreateFusionPlan(0, desc["x"]) for _ in range(2)]
        for p in each:
            make(p)
        assert each[0] == each[1] == copy.copy(each[0])
        assert each[0] != plan
    miopyx.miopenDestroyFusionPlan(other)
    for thing in (other, args, ops["conv"]):
        for double in (copy.copy, pickle.dumps):
            with pytest.raises(TypeError):
                double(thing)
    empty = [miopyx.miopenCreateOperatorArgs() for _ in range(2)]
    assert empty[0] != empty[1]
    assert empty[0] == empty[0]
    assert len({*empty, args, args}) == 3


def test_images_of_one_pixel(handle, rng, monkeypatch):
    """Of one pixel packed and channels last are the same places: the plan compiles for the layout that strides name."""
    conv = miopyx.ConvolutionDescriptor((1, 1))
    y_lens = (2, 6, 3, 3)
    first, last = (TensorDescriptor("float32", y_lens, strides) for strides in (None, (54, 1, 18, 6)))
    for strides, y in (((5, 1, 1, 1), first), ((5, 1, 5, 5), last)):
        x = TensorDescriptor("float32", (2, 5, 1, 1), strides)
        w = TensorDescriptor("float32", (6, 5, 1, 1), strides)
        plan = miopyx.miopenCreateFusionPlan(0, x)
        op = miopyx.miopenCreateOpConvForward(plan, conv, w)
        here = miopyx.Handle(handle.device.name)
        miopyx.miopenCompileFusionPlan(here, plan)
        args = miopyx.miopenCreateOperatorArgs()
        data = {name: random_memory(here, rng, d) for name, d in (("x", x), ("w", w))}
        miopyx.miopenSetOpArgsConvForward(args, op, 1.0, 0.0, data["w"].argument())
        for out_desc in (y, last if y is first else first):
            out = Tensor(here, out_desc, None)
            with monkeypatch.context() as m:
                if out_desc is y:
                    m.setattr(preparing, "best_of", None)  # what was compiled is what runs
                miopyx.miopenExecuteFusionPlan(here, plan, x, data["x"].argument(), out_desc, out.argument(), args)
            here.finish()
            want = np.zeros(y_lens)
            want[:, :, 1, 1] = data["x"].values()[:, :, 0, 0].astype(float) @ data["w"].values()[:, :, 0, 0].T
            close(out.values(), want)


def test_one_call_follows_find(handle, rng, monkeypatch):
    """After a Find the same call takes the solver that it found best, and what was chosen is kept until the next."""
    conv, desc, data = layer(handle, rng, lens=(1, 16, 12, 12), k=16)
    relu, out = ActivationDescriptor(3), Tensor(handle, desc["y"], None)
    problem = ConvProblem(0, desc["x"], desc["w"], desc["y"], conv)
    free = [s for s in registry.CONV if s.why_not(handle.device, problem) is None
            and handle.convolution_forward(desc["x"], desc["w"], conv, desc["y"], s.id).workspace == 0]
    algo = next(a for a in {s.algorithm for s in free})
    solvers = [s for s in free if s.algorithm == algo]
    chosen = []
    best_of = preparing.best_of
    monkeypatch.setattr(preparing, "best_of", lambda *given: chosen.append(best_of(*given)) or chosen[-1])
    for best in solvers:
        handle.found[problem.key] = FindRecord(
            [Candidate(s.offer(handle.device, problem), 1.0 + (s is not best), "measured")
             for s in sorted(solvers, key=lambda s: s is not best)], [], [])
        _learnt.learn()
        for _ in range(3):
            run_cba(handle, conv, desc, data, out, relu, z=False, algo=int(algo))
        assert chosen[-1][0].solver.id == best.id
    assert len(chosen) == len(solvers)


def test_workspace_of_one_call(handle, host, rng):
    """A plan names the algorithm and the workspace with which the function runs the same solver."""
    conv, desc, data = layer(handle, rng, lens=(2, 16, 11, 9), k=24)
    relu, c = ActivationDescriptor(3), convolved(host, conv, desc, data)
    for solver in registry.CONV:
        if solver.why_not(handle.device, ConvProblem(0, desc["x"], desc["w"], desc["y"], conv)) is not None:
            continue
        plan = handle.convolution_bias_activation_forward(
            desc["x"], desc["w"], conv, desc["y"], desc["channel"], relu, desc["y"], solver.id)
        workspace = handle.empty((plan.workspace,), "int8") if plan.workspace else None
        out = Tensor(handle, desc["y"], None)
        got = run_cba(handle, conv, desc, data, out, relu, 1.0, 2.0, int(solver.algorithm), size=plan.workspace,
                      workspace=workspace)
        close(got, np.maximum(c + 2 * data["z"].values() + data["bias"].values(), 0))


@pytest.mark.parametrize("make", [lambda: miopyx.miopenCreateFusionPlan(0, TensorDescriptor("float32", (1, 2, 3, 4))),
                                  miopyx.miopenCreateOperatorArgs, lambda: TensorDescriptor("float32", (1, 2, 3, 4)),
                                  lambda: miopyx.RNNDescriptor(6, 1, "gru")])
def test_texts_keep_nothing(make):
    """They are made of a copy."""
    thing = make()
    grown = []
    for _ in range(2):
        before = sys.getallocatedblocks()
        for _ in range(1000):
            repr(thing)
        grown.append(sys.getallocatedblocks() - before)
    assert grown[1] < 500
