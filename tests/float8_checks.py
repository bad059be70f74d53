"""Convolutions of OCP's float8 beside float64: tensors have types of their own, and results are rounded."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import product

import ml_dtypes
import numpy as np
from guarded import DTYPE, Guarded, Tensor, strides_of
from solver_checks import OUTPUT, arguments, immediate, plan

import miopyx
from miopyx import TensorDescriptor
from miopyx.engine._invoker import Invoker
from miopyx.problem._problem import ConvProblem
from miopyx.solvers.conv.nvidia import _common

E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"
BYTES = (E4M3, E5M2)
RESULTS = (*BYTES, "float16", "bfloat16", "float32")
MIXED = [(a, w, y) for a, w, y in product(BYTES, BYTES, RESULTS)]
NEAREST, STOCHASTIC = 0, 1


class Example:
    """A case whose two tensors that are read, and whose result, have types of their own."""

    def __init__(self, case, types, direction, host, layout="channels last", mode=NEAREST, result="channels last"):
        """`types`: of x (dy backward), of w, of the result.  `layout`: of what is read; `result`: of the result."""
        self.host, self.conv, self.out = host, case.conv(), OUTPUT[direction]
        self.direction, self.result = direction, types[2]
        miopyx.miopenSetConvolutionAttribute(self.conv, miopyx.MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE, mode)
        names = (types[0], types[1], types[2]) if direction == 0 else (types[2], types[1], types[0])
        self.desc = [TensorDescriptor(t, s, strides_of(s, result if i == self.out else layout))
                     for i, (t, s) in enumerate(zip(names, case.all_lens, strict=True))]
        self.problem = ConvProblem(direction, *self.desc, self.conv)
        self.data = [np.zeros(d.lens, DTYPE[d.dtype]) for d in self.desc]

    def fill(self, values):
        """Read what `values` gives for each shape, rounded."""
        for i, desc in enumerate(self.desc):
            if i != self.out:
                with np.errstate(over="ignore"):
                    self.data[i] = values(desc.lens).astype(np.float32).astype(DTYPE[desc.dtype])
        return self

    def truth(self, absolute=False):
        wide = [TensorDescriptor("float64", d.lens) for d in self.desc]
        values = [np.abs(d.astype(np.float64)) if absolute else d.astype(np.float64) for d in self.data]
        result = np.full(wide[self.out].lens, np.nan)
        with np.errstate(invalid="ignore"):
            plan(self.host, self.direction, wide, self.conv)(*arguments(self.direction, values, result))
        return result

    def run(self, handle, solver, alpha=1.0, beta=0.0, old=None, shift=0):
        """The bits of the result, in poisoned memory or in `old`; buffers begin `shift` elements behind a boundary."""
        inputs = [Tensor(handle, d, v, shift * DTYPE[d.dtype].itemsize, True)
                  for d, v in zip(self.desc, self.data, strict=True)]
        out = Tensor(handle, self.desc[self.out], old, shift * DTYPE[self.result].itemsize, True)
        buffers = arguments(self.direction, [t.argument() for t in inputs], out.argument())
        if alpha == 1 and beta == 0:
            size = solver.workspace_size(handle.device, self.problem)
            workspace = Guarded(handle, size, 0xFF, copied=True)
            immediate(handle, self.direction, self.desc, self.conv, buffers,
                      workspace.argument() if size else None, size, solver.id)
            handle.finish()
            workspace.fetch()
        else:
            plan(handle, self.direction, self.desc, self.conv, solver.id)(*buffers, alpha=alpha, beta=beta)
            handle.finish()
        for tensor in inputs:
            tensor.fetch()
        out.values()  # looks at guards and gaps
        return out.view().copy()


@contextmanager
def in_runs(handle, solver, examples, most):
    """Let a solver take examples in runs of images, since no tensor may have more than `most` elements."""
    def register():
        for example in examples:
            handle.register(Invoker(handle, solver.offer(handle.device, example.problem), None), solver.id)

    def steps():
        return [len(solver.solution(handle.device, example.problem).steps) for example in examples]

    at_once = steps()
    _common.limit_elements(most)
    try:
        assert all(runs > one for runs, one in zip(steps(), at_once, strict=True))
        register()  # a plan may be there
        yield
    finally:
        _common.limit_elements()
        register()


def rounded(values, name):
    """To nearest; what is finite stays so, and an infinity becomes NaN where the type has none."""
    values = np.asarray(values, np.float64)
    if name not in BYTES:
        with np.errstate(over="ignore"):
            return values.astype(np.float32).astype(DTYPE[name])
    top = float(ml_dtypes.finfo(DTYPE[name]).max)
    found = np.where(np.isfinite(values), np.clip(values, -top, top), values).astype(DTYPE[name])
    return found


def same(got, want, what=""):
    """Bit for bit, but for the sign of zero and the codes of NaN."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(got, want, what)


def whole(rng, most=3):
    return lambda lens: rng.integers(-most, most + 1, lens)


def within(got, low, high, what):
    got = got.astype(np.float64)
    assert np.isfinite(got).all(), f"{what}: poison in the result"
    assert ((low <= got) & (got <= high)).all(), (
        what, np.argwhere(~((low <= got) & (got <= high)))[:4].tolist())


def own_bound(solver, gpu, example):
    """What wgmma and the sums of floats lose, without the rounding of the result."""
    wide = Example.__new__(Example)
    wide.__dict__.update(example.__dict__)
    wide.desc = list(example.desc)
    desc = example.desc[example.out]
    wide.desc[example.out] = TensorDescriptor("float32", desc.lens, desc.strides)
    return solver.error_bound(gpu.device, ConvProblem(example.direction, *wide.desc, example.conv))


def neighbours(exact, name):
    """The two values of a type that a number lies between."""
    grid = np.unique(np.arange(256, dtype=np.uint8).view(DTYPE[name]).astype(np.float64))
    grid = grid[np.isfinite(grid)]
    exact = np.clip(exact, grid[0], grid[-1])
    return grid[np.searchsorted(grid, exact, "right") - 1], grid[np.searchsorted(grid, exact, "left")]
