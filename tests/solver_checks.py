"""One solver on one convolution, against the host path in float64.

Inputs are fresh random numbers of the tensors' own type; the reference computes from the same numbers in float64.
Outputs are poisoned, guard bytes around every buffer and workspace must survive, and every element is checked against

    |error| <= solver.error_bound * (sum of |alpha * products| + |beta * old output|)  (+ underflow)

Solvers whose errors belong to tiles say so (`mixes_tiles`): then the largest such sum of the tensor counts, and what a
tile may hold that no output has.
"""

from __future__ import annotations

import numpy as np
import pytest
from cases_reader import ConvCase
from guarded import DTYPE, ROUNDOFF, Guarded, Tensor, strides_of

import miopyx
from miopyx import TensorDescriptor
from miopyx.choose.tuning import configurations
from miopyx.engine._invoker import Invoker
from miopyx.problem._problem import ConvProblem

DIRECTIONS = ("forward", "backward data", "backward weights")
OUTPUT = (2, 0, 1)  # of x, w and y, what each direction computes

worst: dict[tuple[str, str, str], float] = {}


def needs_fp64(handle: miopyx.Handle, dtype: str) -> None:
    """Skip a test in float64 on a device that has none."""
    if dtype == "float64" and not (handle.device.is_host or handle.device.fp64):
        pytest.skip("no double precision")


def on_a_gpu(handle: miopyx.Handle) -> bool:
    """Return whether kernels run on a GPU, not on a CPU that is taken for one."""
    import pyopencl as cl

    info = handle.device.info
    return info.cuda >= 0 or bool(info.handle.type & cl.device_type.GPU)


def descriptors(case: ConvCase, dtype: str, layout: str = "packed") -> list[TensorDescriptor]:
    """x, w and y; int8 gives int32."""
    types = (dtype, dtype, "int32" if dtype == "int8" else dtype)
    return [TensorDescriptor(t, s, strides_of(s, layout)) for t, s in zip(types, case.all_lens, strict=True)]


def problem_of(case: ConvCase, dtype: str = "float32", layout: str = "packed", direction: int = 0) -> ConvProblem:
    return ConvProblem(direction, *descriptors(case, dtype, layout), case.conv())


def arguments(direction: int, values: list, result: object) -> tuple:
    """The three buffers of a direction as its functions take them; `result` takes the output's place."""
    x, w, y = values
    return ((x, w, result), (y, w, result), (y, x, result))[direction]


def plan(handle, direction, desc, conv, solution_id=None, **options):
    x, w, y = desc
    if direction == 0:
        return handle.convolution_forward(x, w, conv, y, solution_id, **options)
    if direction == 1:
        return handle.convolution_backward_data(y, w, conv, x, solution_id, **options)
    return handle.convolution_backward_weights(y, x, conv, w, solution_id, **options)


def immediate(handle, direction, desc, conv, buffers, workspace, size, solution_id):
    x, w, y = desc
    a, b, c = buffers
    if direction == 0:
        miopyx.miopenConvolutionForwardImmediate(handle, w, b, x, a, conv, y, c, workspace, size, solution_id)
    elif direction == 1:
        miopyx.miopenConvolutionBackwardDataImmediate(handle, y, a, w, b, conv, x, c, workspace, size, solution_id)
    else:
        miopyx.miopenConvolutionBackwardWeightsImmediate(handle, y, a, x, b, conv, w, c, workspace, size, solution_id)


def configurations_of(solver, device, problem: ConvProblem) -> list[tuple[int, ...]]:
    """All that the solver's table allows for a problem."""
    return configurations(solver.parameters(device, problem), lambda c: solver.accepts(device, problem, c))


class Example:
    """One case with its data, and what each direction should give of it as it stands at the first question.

    Buffers begin `shift` elements behind a boundary; `copied` as in Guarded.
    """

    def __init__(self, case: ConvCase, dtype: str, layout: str, rng: np.random.Generator, host: miopyx.Handle,
                 shift: int = 0, copied: bool = False) -> None:
        self.case, self.dtype, self.layout, self.conv, self.host = case, dtype, layout, case.conv(), host
        self.shift, self.copied = shift, copied
        self.desc = descriptors(case, dtype, layout)
        self.data = [self._random(d.dtype, d.lens, rng) for d in self.desc]
        self._found: dict[tuple[int, bool], np.ndarray] = {}
        taps, pixels = int(np.prod(case.filter)), case.lens if case.transposed else case.y_lens[2:]
        sums = case.w_lens[1] * taps, case.w_lens[0] // case.groups * taps
        self.terms = (*(reversed(sums) if case.transposed else sums), case.n * int(np.prod(pixels)))

    @staticmethod
    def _random(dtype: str, lens: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        if dtype.startswith("int"):
            return rng.integers(-128, 128, lens).astype(DTYPE[dtype])
        return rng.standard_normal(lens).astype(DTYPE[dtype])

    def problem(self, direction: int) -> ConvProblem:
        return ConvProblem(direction, *self.desc, self.conv)

    def truth(self, direction: int, absolute: bool = False) -> np.ndarray:
        """The result in float64; `absolute`: of the data's magnitudes."""
        if (direction, absolute) not in self._found:
            wide = [TensorDescriptor("float64", d.lens) for d in self.desc]
            values = [np.abs(d.astype(np.float64)) if absolute else d.astype(np.float64) for d in self.data]
            result = np.full(wide[OUTPUT[direction]].lens, np.nan)
            plan(self.host, direction, wide, self.conv)(*arguments(direction, values, result))
            self._found[direction, absolute] = result
        return self._found[direction, absolute]

    def random_output(self, direction: int, rng: np.random.Generator) -> np.ndarray:
        desc = self.desc[OUTPUT[direction]]
        return self._random(desc.dtype, desc.lens, rng)

    def run(self, handle: miopyx.Handle, direction: int, solver, alpha: float = 1.0, beta: float = 0.0,
            old: np.ndarray | None = None, config: tuple | None = None) -> np.ndarray:
        """What a solver, maybe with a configuration, computes in poisoned memory, or in `old`.

        By the solver's id with a workspace of its own; with alpha and beta as a plan.
        """
        problem, output = self.problem(direction), OUTPUT[direction]
        if config is not None or handle.invoker(problem, solver.id) is not None:
            # What an earlier test let the handle keep may be what that test limited solvers to.
            handle.register(Invoker(handle, solver.offer(handle.device, problem), config), solver.id)
        place = {"shift": self.shift * DTYPE[self.dtype].itemsize, "copied": self.copied}
        inputs = [Tensor(handle, d, v, **place) for d, v in zip(self.desc, self.data, strict=True)]
        out = Tensor(handle, self.desc[output], old, **place)
        buffers = arguments(direction, [t.argument() for t in inputs], out.argument())
        if alpha == 1 and beta == 0:
            size = solver.workspace_size(handle.device, problem)
            workspace = Guarded(handle, size, 0xFF, copied=self.copied)
            immediate(handle, direction, self.desc, self.conv, buffers, workspace.argument() if size else None, size,
                      solver.id)
            handle.finish()
            workspace.fetch()
        else:
            plan(handle, direction, self.desc, self.conv, solver.id)(*buffers, alpha=alpha, beta=beta)
            handle.finish()
        if config is not None:  # the default one again
            handle.register(Invoker(handle, solver.offer(handle.device, problem), None), solver.id)
        for tensor, values in zip(inputs, self.data, strict=True):
            tensor.fetch()
            kind = f"V{tensor.dtype.itemsize}"
            np.testing.assert_array_equal(tensor.view().view(kind), values.view(kind), "an input changed")
        return out.values()


def check(handle, example: Example, direction: int, solver, rng: np.random.Generator,
          config: tuple | None = None) -> np.ndarray:
    """Check a solver that must take the problem: alone, and with alpha and beta; return its result alone."""
    needs_fp64(handle, example.dtype)
    assert solver.why_not(handle.device, example.problem(direction)) is None, example.problem(direction)
    got = example.run(handle, direction, solver, config=config)
    verify(handle, example, direction, got, solver)
    alpha, beta = rng.uniform(-2, 2, 2)
    old = example.random_output(direction, rng)
    mixed = example.run(handle, direction, solver, alpha, beta, old, config)
    verify(handle, example, direction, mixed, solver, alpha, beta, old.astype(np.float64))
    return got


def check_twice(handle, example: Example, direction: int, solver, rng: np.random.Generator) -> None:
    """The same, and another call gives the same bits."""
    got = check(handle, example, direction, solver, rng)
    np.testing.assert_array_equal(got, example.run(handle, direction, solver), "not deterministic")


def check_inf_and_nan(handle, example: Example, direction: int, solver, rng: np.random.Generator,
                      tolerance: float) -> None:
    """Put Inf, then NaN into both inputs, corners included: they reach what depends on them and nothing else.

    `tolerance` is that of the finite results.
    """
    clean = example.data
    for value in (np.inf, np.nan):
        example = Example(example.case, example.dtype, example.layout, rng, example.host, example.shift, example.copied)
        example.data = [d.copy() for d in clean]
        for i in range(3):
            if i != OUTPUT[direction]:
                flat = example.data[i].reshape(-1)
                flat[rng.integers(0, flat.size, 2)] = value
                flat[[0, -1]] = -value
        with np.errstate(invalid="ignore"):
            want = example.truth(direction)
        got = example.run(handle, direction, solver)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
        finite = np.isfinite(want)
        np.testing.assert_allclose(got[finite], want[finite], rtol=tolerance, atol=tolerance)


def verify(handle, example: Example, direction: int, got: np.ndarray, solver, alpha: float = 1.0, beta: float = 0.0,
           old: np.ndarray | float = 0.0) -> None:
    want = alpha * example.truth(direction) + beta * old
    if example.dtype == "int8":
        if alpha == 1 and beta == 0:
            want = want.astype(np.int64).astype(DTYPE[example.desc[OUTPUT[direction]].dtype]).astype(np.float64)
            np.testing.assert_array_equal(got, want)
        else:  # in float32, then to one of the two nearest integers
            size = abs(alpha) * example.truth(direction, absolute=True) + abs(beta * old)
            assert (np.abs(got - want) <= 1 + 4 * ROUNDOFF["float32"] * size).all(), solver
        return
    size = example.truth(direction, absolute=True)
    if solver.mixes_tiles:
        inputs = [np.abs(d.astype(np.float64)).max() for i, d in enumerate(example.data) if i != OUTPUT[direction]]
        size = np.full_like(size, max(size.max(), np.prod(inputs)))
    size = abs(alpha) * size + abs(beta * old)
    bound = solver.error_bound(handle.device, example.problem(direction)) * size + 2.0**-149
    if example.dtype == "float16":
        bound = bound + 2.0**-25  # subnormal results
    error = np.abs(got - want)
    assert np.isfinite(got).all(), f"{solver} left poison in the output"
    assert (error <= bound).all(), f"{solver}: {np.max(error / bound)} times the bound of {example.problem(direction)}"
    key = (solver.name, example.dtype, DIRECTIONS[direction])
    relative = float(np.max(error / np.maximum(size, 1e-300))) / ROUNDOFF[example.dtype]
    worst[key] = max(worst.get(key, 0.0), relative)
