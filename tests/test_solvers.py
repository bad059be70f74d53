"""Every solver of the registry on every case that it accepts, against the host path in float64.

Inputs are fresh random numbers of the tensors' own type; the reference computes from the same numbers in float64.
Outputs are poisoned, guard bytes around every buffer and workspace must survive, and every element is checked against

    |error| <= (2 u + (K + 2) v) * sum |products|  (+ the same of beta * old output)

with u the unit roundoff of the type that is stored (twice, since MIOpen's workspaces hold intermediate results in it),
v that of the accumulator and K the number of products.  Solvers that compute in another domain (FFT, Winograd) spread
an error over a tile: for them the largest sum |products| of the tensor counts, and their transforms like 30 products
more.
"""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from cases_reader import ConvCase, conv_cases

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx._problem import ConvProblem
from miopyx.solvers import registry

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
DTYPE = {"float64": np.dtype("f8"), "float32": np.dtype("f4"), "float16": np.dtype("f2"),
         "bfloat16": np.dtype(ml_dtypes.bfloat16), "int8": np.dtype("i1"), "int32": np.dtype("i4"),
         **{name: np.dtype(getattr(ml_dtypes, name)) for name in ("float8_e4m3fnuz", "float8_e5m2fnuz")}}
GUARD = 64  # bytes
LAYOUTS = ("packed", "channels last", "padded")
DIRECTIONS = ("forward", "backward data", "backward weights")
TRANSFORMING = ("FFT", "Winograd")  # in names


def strides_of(lens: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Strides of a packed, channels-last or padded tensor."""
    order = [0, *range(2, len(lens)), 1] if layout == "channels last" else list(range(len(lens)))
    extra = 1 if layout == "padded" else 0
    strides, step = [0] * len(lens), 1 + extra
    for axis in reversed(order):
        strides[axis] = step
        step *= lens[axis] + extra
    return tuple(strides)


class Guarded:
    """Memory of a descriptor's bytes between two guards, on the host or, for devices of their own, copied there."""

    def __init__(self, handle: miopyx.Handle, nbytes: int, fill: int) -> None:
        self.handle, self.nbytes = handle, nbytes
        self.memory = np.full(GUARD + nbytes + GUARD, 0xA5, np.uint8)
        self.memory[GUARD:GUARD + nbytes] = fill

    def argument(self) -> object:
        inner = self.memory[GUARD:GUARD + self.nbytes]
        if self.handle.device.is_host or self.handle.device.shares_memory:
            return inner
        import pyopencl.array as cl_array

        self.buffer = self.handle.upload(self.memory)
        return cl_array.Array(self.handle.queue, (self.nbytes,), np.uint8, data=self.buffer, offset=GUARD)

    def fetch(self) -> np.ndarray:
        if hasattr(self, "buffer"):
            self.handle.download(self.buffer, self.memory)
        assert (self.memory[:GUARD] == 0xA5).all(), "wrote before a buffer"
        assert (self.memory[GUARD + self.nbytes:] == 0xA5).all(), "wrote behind a buffer"
        return self.memory[GUARD:GUARD + self.nbytes]


class Tensor(Guarded):
    def __init__(self, handle: miopyx.Handle, desc: TensorDescriptor, values: np.ndarray | None) -> None:
        super().__init__(handle, desc.nbytes, 0xFF)  # all ones: NaN in every floating type
        self.desc, self.dtype = desc, DTYPE[desc.dtype]
        self.addressed = np.zeros(desc.nbytes // self.dtype.itemsize, bool)
        np.lib.stride_tricks.as_strided(self.addressed, desc.lens, desc.strides)[...] = True
        if values is not None:
            self.view()[...] = values

    def view(self) -> np.ndarray:
        inner = self.memory[GUARD:GUARD + self.nbytes].view(self.dtype)
        return np.lib.stride_tricks.as_strided(
            inner, self.desc.lens, tuple(s * self.dtype.itemsize for s in self.desc.strides))

    def values(self) -> np.ndarray:
        """The tensor's elements in float64; holes between them must still be poison."""
        raw = self.fetch().reshape(-1, self.dtype.itemsize)
        assert (raw[~self.addressed] == 0xFF).all(), "wrote between the elements of a tensor"
        return self.view().astype(np.float64)


class Example:
    """One case with its data, and what each direction should give."""

    def __init__(self, case: ConvCase, dtype: str, layout: str, rng: np.random.Generator, host: miopyx.Handle) -> None:
        self.conv = ConvolutionDescriptor(case.pad, case.stride, case.dilation, int(case.transposed), case.groups,
                                          case.outpad)
        out = dtype if dtype != "int8" else "int32"
        x = TensorDescriptor(dtype, case.x_lens)
        w = TensorDescriptor(dtype, case.w_lens)
        lens = [case.x_lens, case.w_lens, self.conv.output_lens(x, w)]
        types = [dtype, dtype, out]
        self.desc = [TensorDescriptor(t, s, strides_of(s, layout)) for t, s in zip(types, lens, strict=True)]
        self.data = [self._random(t, s, rng) for t, s in zip(types, lens, strict=True)]
        wide = [TensorDescriptor("float64", s) for s in lens]
        self.truth, self.size = [], []
        for absolute in (False, True):
            values = [np.abs(d.astype(np.float64)) if absolute else d.astype(np.float64) for d in self.data]
            for direction in range(3):
                result = np.full(lens[(2, 0, 1)[direction]], np.nan)
                plan(host, direction, wide, self.conv)(*arguments(direction, values, result))
                (self.size if absolute else self.truth).append(result)
        taps = int(np.prod(case.filter))
        channels = self.desc[1].lens[1]
        self.terms = [channels * taps, self.desc[1].lens[0] // case.groups * taps,
                      case.n * int(np.prod(self.desc[2].lens[2:])) + case.n * int(np.prod(case.lens))]

    @staticmethod
    def _random(dtype: str, lens: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        if dtype.startswith("int"):
            return rng.integers(-128, 128, lens).astype(DTYPE[dtype])
        return rng.standard_normal(lens).astype(DTYPE[dtype])


def arguments(direction: int, values: list, result: object) -> tuple:
    """The three buffers of a direction as its functions take them; `result` takes the output's place."""
    x, w, y = values
    return ((x, w, result), (y, w, result), (y, x, result))[direction]


def plan(handle, direction, desc, conv, solution_id=None):
    x, w, y = desc
    if direction == 0:
        return handle.convolution_forward(x, w, conv, y, solution_id)
    if direction == 1:
        return handle.convolution_backward_data(y, w, conv, x, solution_id)
    return handle.convolution_backward_weights(y, x, conv, w, solution_id)


def immediate(handle, direction, desc, conv, buffers, workspace, size, solution_id):
    x, w, y = desc
    a, b, c = buffers
    if direction == 0:
        miopyx.miopenConvolutionForwardImmediate(handle, w, b, x, a, conv, y, c, workspace, size, solution_id)
    elif direction == 1:
        miopyx.miopenConvolutionBackwardDataImmediate(handle, y, a, w, b, conv, x, c, workspace, size, solution_id)
    else:
        miopyx.miopenConvolutionBackwardWeightsImmediate(handle, y, a, x, b, conv, w, c, workspace, size, solution_id)


@pytest.fixture
def host(handles):
    return handles("host")


worst: dict[tuple[str, str, str], float] = {}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize("case", conv_cases(), ids=lambda case: case.text.replace(" ", ","))
def test_every_solver_computes_the_case(handle, host, rng, case, dtype, layout):
    if layout != "packed" and case.tier != "smoke":
        return  # strides are the naive and host solvers' business alone: the smoke cases show it
    example = Example(case, dtype, layout, rng, host)
    for direction in range(3):
        output = (2, 0, 1)[direction]
        if dtype == "int8" and direction != 0:
            continue  # int8 computes forward only
        problem = ConvProblem(direction, *example.desc, example.conv)
        able = [s for s in registry.CONV if s.why_not(handle.device, problem) is None]
        assert able, f"no solver for {problem}"
        for solver in able:
            check(handle, example, problem, direction, output, solver, rng, dtype)


def check(handle, example, problem, direction, output, solver, rng, dtype):
    inputs = [Tensor(handle, d, v) for d, v in zip(example.desc, example.data, strict=True)]
    out = Tensor(handle, example.desc[output], None)
    size = solver.workspace_size(handle.device, problem)
    workspace = Guarded(handle, size, 0xFF)
    buffers = arguments(direction, [t.argument() for t in inputs], out.argument())
    immediate(handle, direction, example.desc, example.conv, buffers, workspace.argument() if size else None, size,
              solver.id)
    handle.finish()
    verify(example, direction, out.values(), 1.0, 0.0, 0.0, solver, dtype)
    workspace.fetch()
    for tensor, values in zip(inputs, example.data, strict=True):
        tensor.fetch()
        np.testing.assert_array_equal(tensor.view().view(f"V{tensor.dtype.itemsize}"),
                                      values.view(f"V{tensor.dtype.itemsize}"), "an input changed")
    if dtype == "int8":
        return
    alpha, beta = rng.uniform(-2, 2, 2)
    old = rng.standard_normal(example.desc[output].lens).astype(DTYPE[example.desc[output].dtype])
    out = Tensor(handle, example.desc[output], old)
    plan(handle, direction, example.desc, example.conv, solver.id)(
        *arguments(direction, [t.argument() for t in inputs], out.argument()), alpha=alpha, beta=beta)
    handle.finish()
    verify(example, direction, out.values(), alpha, beta, old.astype(np.float64), solver, dtype)


def verify(example, direction, got, alpha, beta, old, solver, dtype):
    want = alpha * example.truth[direction] + beta * old
    if dtype == "int8":
        want = want.astype(np.int64).astype(DTYPE[example.desc[(2, 0, 1)[direction]].dtype]).astype(np.float64)
        np.testing.assert_array_equal(got, want)
        return
    u, v = ROUNDOFF[dtype], ROUNDOFF["float64" if dtype == "float64" else "float32"]
    size, terms = example.size[direction], example.terms[direction] + 2
    if any(word in solver.name for word in TRANSFORMING):
        size, terms = np.full_like(size, size.max()), terms + 30
    size = abs(alpha) * size + abs(beta * old)
    bound = (2 * u + terms * v) * size + 2.0**-149
    if dtype == "float16":
        bound = bound + 2.0**-25  # subnormal results
    error = np.abs(got - want)
    assert np.isfinite(got).all(), f"{solver} left poison in the output"
    assert (error <= bound).all(), f"{solver}: {np.max(error / bound)} times the bound"
    key = (solver.name, dtype, DIRECTIONS[direction])
    worst[key] = max(worst.get(key, 0.0), float(np.max(error / np.maximum(size, 1e-300))) / u)


def test_every_solver_has_a_case(handle):
    """A solver that no case reaches is not tested; those of other hardware say that they need it."""
    reasons = {s.id: set() for s in registry.CONV if s.on_host == handle.device.is_host}
    for case in conv_cases():
        conv = ConvolutionDescriptor(case.pad, case.stride, case.dilation, int(case.transposed), case.groups,
                                     case.outpad)
        for dtype, layout in itertools.product(("float32", "float16", "int8"), ("packed", "channels last")):
            x, w = (TensorDescriptor(dtype, s, strides_of(s, layout)) for s in (case.x_lens, case.w_lens))
            lens = conv.output_lens(x, w)
            y = TensorDescriptor(dtype if dtype != "int8" else "int32", lens, strides_of(lens, layout))
            for direction in range(3 if dtype != "int8" else 1):
                problem = ConvProblem(direction, x, w, y, conv)
                for solver in registry.CONV:
                    if solver.id in reasons:
                        reasons[solver.id].add(solver.why_not(handle.device, problem))
    for number, why in reasons.items():
        missing_hardware = any(reason and reason.startswith("needs ") for reason in why)
        assert None in why or missing_hardware, f"no case reaches {registry.BY_ID[number]}: {why}"


def test_ids_and_names_are_unique():
    solvers = (*registry.CONV, *[s for others in registry.OTHERS.values() for s in others])
    assert len({s.id for s in solvers}) == len({s.name for s in solvers}) == len(solvers)
    assert all(s.id > 0 for s in solvers)
