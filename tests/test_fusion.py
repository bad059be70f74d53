"""Convolutions with what follows them: every solver, every activation, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from cases_reader import conv_cases
from guarded import DTYPE, LAYOUTS, ROUNDOFF, Tensor
from solver_checks import Example, descriptors, problem_of

import miopyx
from miopyx import ActivationDescriptor, TensorDescriptor
from miopyx.solvers import registry

TYPES = ("float32", "float16", "bfloat16", "float64")
CASES = [pytest.param(case, dtype, layout, id=f"{layout}-{dtype}-{case.text.replace(' ', ',')}")
         for case in conv_cases() for dtype in TYPES for layout in LAYOUTS
         if layout == "packed" or case.tier == "smoke"]
MODES = 10
# alpha, beta, gamma of each mode; POWER's is continuous at its threshold.
NUMBERS = {2: (0.7, 1.3, 0.0), 6: (0.5, 0.4, 2.0), 7: (1.5, 0.0, 0.0), 8: (0.1, 0.0, 0.0), 9: (0.8, 0.0, 0.0)}


def activated(mode: int, v: np.ndarray, dtype: str) -> np.ndarray:
    """MIOpen's formulas in float64."""
    a, b, g = NUMBERS.get(mode, (0.0, 0.0, 0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        base = a + b * v
        power = np.where(base <= (1e-4 if dtype == "float16" else 1e-6), 0, np.abs(base) ** g)
        return (v, 1 / (1 + np.exp(-v)), b * np.tanh(a * v), np.maximum(v, 0), np.logaddexp(0, v), np.abs(v), power,
                np.clip(v, 0, a), np.where(v > 0, v, a * v), np.where(v > 0, v, a * np.expm1(v)))[mode]


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
        tensors = [Tensor(handle, d, v) for d, v in zip((x, w), self.example.data, strict=False)]
        out = Tensor(handle, y, self.z if in_place else None)
        z = [] if self.z is None else [out] if in_place else [Tensor(handle, y, self.z)]
        channels = [Tensor(handle, self.channel, v) for v in ([self.bias] if self.bias is not None else []) + self.norm]
        plan(*[t.argument() for t in (*tensors, *z, *channels, out)], *self.numbers)
        handle.finish()
        for tensor in (*tensors, *channels):
            tensor.fetch()
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
        assert (worst <= 0).all(), (solver, self.mode, self.parts, worst.max(), np.unravel_index(worst.argmax(), worst.shape))


def check(handle, example, solver, rng, mode=None):
    mode = int(rng.integers(MODES)) if mode is None else mode
    z, bias, norm, wide, in_place = (bool(v) for v in rng.integers(2, size=5))
    fused = Fused(example, rng, mode, z, bias, norm, wide)
    got = fused.run(handle, solver, z and in_place)
    fused.verify(got, solver, solver.error_bound(handle.device, example.problem(0)) + 16 * ROUNDOFF["float32"]
                 * (example.dtype != "float64") + 2 * ROUNDOFF[example.dtype])


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
