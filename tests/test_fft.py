"""FFT convolutions on CPUs, and as on GPUs, every element against the host path in float64.

Inputs are fresh random numbers; outputs, workspaces and what lies between a tensor's elements are poisoned.  An error
may be 2 u of the sum of the products' magnitudes, u the unit roundoff of what is stored, and, since a transform spreads
an error over its tile, 12 v of the largest such sum, v of what is computed in.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pyopencl.array as cl_array
import pytest

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx._invoker import Invoker
from miopyx._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.tuning import configurations

NAMES = ("FFTConvFwd", "FFTConvBwd", "FFTConvWrw")
DTYPE = {"float32": np.dtype("f4"), "float64": np.dtype("f8"), "float16": np.dtype("f2"),
         "bfloat16": np.dtype(ml_dtypes.bfloat16)}
ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53, "float16": 2.0**-11, "bfloat16": 2.0**-8}
LAYOUTS = ("packed", "channels last", "padded")
GUARD = 64  # bytes


@dataclass(frozen=True)
class Shape:
    """Channels of all groups; two numbers of an axis are height and width, one is a convolution along rows."""

    n: int
    channels: int
    filters: int
    image: tuple[int, ...]
    taps: tuple[int, ...]
    pad: tuple[int, ...]
    stride: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1

    @property
    def conv(self) -> ConvolutionDescriptor:
        axes = len(self.image)
        return ConvolutionDescriptor(self.pad, self.stride[:axes], self.dilation[:axes], groups=self.groups)

    @property
    def lens(self) -> tuple[tuple[int, ...], ...]:
        x = (self.n, self.channels, *self.image)
        w = (self.filters, self.channels // self.groups, *self.taps)
        return x, w, tuple(self.conv.output_lens(TensorDescriptor("float32", x), TensorDescriptor("float32", w)))


SHAPES = {
    "5x5": Shape(2, 17, 5, (14, 15), (5, 5), (2, 2)),
    "5x5 of one channel": Shape(3, 1, 3, (23, 19), (5, 5), (0, 2)),
    "7x7": Shape(1, 65, 18, (26, 11), (7, 7), (3, 3)),
    "7x7 in groups": Shape(2, 12, 51, (12, 17), (7, 7), (3, 3), groups=3),
    "7x7 with stride 2": Shape(2, 3, 17, (31, 29), (7, 7), (3, 3), (2, 2)),
    "11x11": Shape(2, 5, 16, (27, 25), (11, 11), (5, 5)),
    "5x5 with dilation": Shape(2, 17, 3, (25, 29), (5, 5), (4, 6), (1, 1), (2, 3)),
    "pads that leave a corner one tap": Shape(1, 16, 5, (9, 8), (5, 3), (4, 2)),
    "many images": Shape(40, 20, 33, (13, 12), (5, 5), (2, 2)),
    "31 along rows": Shape(3, 17, 20, (100,), (31,), (15,)),
    "1x9": Shape(2, 5, 17, (3, 40), (1, 9), (0, 4)),
    "1x31 with stride 2": Shape(1, 5, 17, (7, 61), (1, 31), (0, 14), (1, 2)),
}


def strides_of(lens: tuple[int, ...], layout: str) -> tuple[int, ...]:
    order = (0, *range(2, len(lens)), 1) if layout == "channels last" else range(len(lens))
    gap = layout == "padded"
    strides, step = [0] * len(lens), 1 + gap
    for axis in reversed(tuple(order)):
        strides[axis] = step
        step *= lens[axis] + gap
    return tuple(strides)


class Example:
    """A problem with its data; buffers begin `shift` elements behind a boundary."""

    def __init__(self, shape: Shape, dtype: str, layout: str, direction: int, rng: np.random.Generator) -> None:
        self.shape, self.dtype, self.direction = shape, dtype, direction
        self.desc = [TensorDescriptor(dtype, lens, strides_of(lens, layout)) for lens in shape.lens]
        self.conv, self.output, self.shift = shape.conv, (2, 0, 1)[direction], int(rng.integers(2))
        self.data = [rng.standard_normal(lens).astype(DTYPE[dtype]) for lens in shape.lens]
        self.problem = ConvProblem(direction, *self.desc, self.conv)
        self.solver = registry.BY_NAME[NAMES[direction]]

    def plan(self, handle: miopyx.Handle, desc: list[TensorDescriptor], solver: int | None):
        x, w, y = desc
        if self.direction == 0:
            return handle.convolution_forward(x, w, self.conv, y, solver)
        if self.direction == 1:
            return handle.convolution_backward_data(y, w, self.conv, x, solver)
        return handle.convolution_backward_weights(y, x, self.conv, w, solver)

    def order(self, buffers: list) -> list:
        x, w, y = buffers
        return [[x, w, y], [y, w, x], [y, x, w]][self.direction]

    def truth(self, host: miopyx.Handle, absolute: bool = False) -> np.ndarray:
        wide = [TensorDescriptor("float64", lens) for lens in self.shape.lens]
        values = [(np.abs(d) if absolute else d).astype(np.float64) for d in self.data]
        values[self.output] = np.full(self.shape.lens[self.output], np.nan)
        self.plan(host, wide, None)(*self.order(values))
        return values[self.output]

    def run(self, handle: miopyx.Handle, config: tuple | None = None, alpha: float = 1, beta: float = 0,
            old: np.ndarray | None = None) -> np.ndarray:
        handle.register(Invoker(handle, self.solver, self.problem, config), self.solver.id)
        size = DTYPE[self.dtype].itemsize
        begin, arrays = GUARD + self.shift * size, []
        for i, (desc, values) in enumerate(zip(self.desc, self.data, strict=True)):
            memory = np.full(begin + desc.nbytes + GUARD, 0xFF, np.uint8)  # all ones: NaN
            if i != self.output or old is not None:
                self._view(memory, begin, i)[...] = old if i == self.output else values
            buffer = handle.upload(memory)
            arrays.append(cl_array.Array(handle.queue, (desc.nbytes,), np.uint8, data=buffer, offset=begin))
            if i == self.output:
                result, output = buffer, memory
        bytes_ = self.solver.workspace_size(handle.device, self.problem)
        space = handle.upload(np.full(bytes_ + GUARD, 0xFF, np.uint8))
        if alpha == 1 and beta == 0:
            self._immediate(handle, self.order(arrays), space, bytes_)
        else:
            self.plan(handle, self.desc, self.solver.id)(*self.order(arrays), alpha=alpha, beta=beta)
        handle.finish()
        behind = np.empty(bytes_ + GUARD, np.uint8)
        handle.download(space, behind)
        assert (behind[bytes_:] == 0xFF).all(), "wrote behind the workspace"
        handle.download(result, output)
        got = self._view(output, begin, self.output).astype(np.float64)
        self._view(output, begin, self.output).view(f"u{size}")[...] = (1 << 8 * size) - 1
        assert (output == 0xFF).all(), "wrote beside the elements of a tensor"
        return got

    def _immediate(self, handle: miopyx.Handle, buffers: list, space: object, size: int) -> None:
        (a, b, c), (x, w, y), number = buffers, self.desc, self.solver.id
        if self.direction == 0:
            miopyx.miopenConvolutionForwardImmediate(handle, w, b, x, a, self.conv, y, c, space, size, number)
        elif self.direction == 1:
            miopyx.miopenConvolutionBackwardDataImmediate(handle, y, a, w, b, self.conv, x, c, space, size, number)
        else:
            miopyx.miopenConvolutionBackwardWeightsImmediate(handle, y, a, x, b, self.conv, w, c, space, size, number)

    def _view(self, memory: np.ndarray, begin: int, which: int) -> np.ndarray:
        desc, item = self.desc[which], DTYPE[self.dtype]
        elements = memory[begin:begin + desc.nbytes].view(item)
        return np.lib.stride_tricks.as_strided(elements, desc.lens, [s * item.itemsize for s in desc.strides])


@pytest.fixture
def host(handles):
    return handles("host")


@pytest.fixture
def cpu(opencl_handle):
    if not opencl_handle.device.is_cpu:
        pytest.skip("a GPU: test_as_on_gpus is its test")
    return opencl_handle


@pytest.fixture
def gpu(opencl_name, as_gpu):
    return as_gpu(opencl_name)


def check(example: Example, host: miopyx.Handle, got: np.ndarray, alpha: float = 1, beta: float = 0,
          old: np.ndarray | float = 0) -> None:
    want = alpha * example.truth(host) + beta * old
    size = abs(alpha) * example.truth(host, absolute=True) + np.abs(beta * old)
    computed = ROUNDOFF["float64" if example.dtype == "float64" else "float32"]
    bound = 2 * ROUNDOFF[example.dtype] * size + 12 * computed * size.max()
    if example.dtype == "float16":
        bound = bound + 2.0**-25  # subnormal results
    error = np.abs(got - want)
    assert (error <= bound).all(), f"{example.problem}: {np.max(error / bound)} times the bound"


def check_all(example: Example, handle: miopyx.Handle, host: miopyx.Handle, rng: np.random.Generator) -> None:
    got = example.run(handle)
    check(example, host, got)
    np.testing.assert_array_equal(got, example.run(handle), "not deterministic")
    alpha, beta = rng.uniform(-2, 2, 2)
    old = rng.standard_normal(got.shape).astype(DTYPE[example.dtype])
    check(example, host, example.run(handle, None, alpha, beta, old), alpha, beta, old.astype(np.float64))


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(cpu, host, rng, name, layout, direction):
    example = Example(SHAPES[name], "float32", layout, direction, rng)
    assert example.solver.why_not(cpu.device, example.problem) is None
    check_all(example, cpu, host, rng)


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_every_type(cpu, host, rng, dtype, direction):
    if dtype == "float64" and not cpu.device.fp64:
        pytest.skip("no double precision")
    for layout in LAYOUTS:
        check_all(Example(SHAPES["5x5"], dtype, layout, direction, rng), cpu, host, rng)


def test_as_on_gpus(gpu, host, rng):
    """A CPU takes seconds to build these kernels: one shape of each kind of transform in a random direction."""
    names = SHAPES if gpu.device.info.runtime != "pocl" else ("5x5", "31 along rows")
    for name in names:
        for direction in range(3) if names is SHAPES else [int(rng.integers(3))]:
            for layout in LAYOUTS if names is SHAPES else LAYOUTS[:2]:
                example = Example(SHAPES[name], "float32", layout, direction, rng)
                assert example.solver.why_not(gpu.device, example.problem) is None
                check_all(example, gpu, host, rng)


@pytest.mark.parametrize("direction", range(3))
def test_other_transforms_compute_the_same(cpu, host, rng, direction):
    example = Example(SHAPES["11x11"], "float32", "packed", direction, rng)
    dev, problem, solver = cpu.device, example.problem, example.solver
    every = configurations(solver.parameters(dev, problem), lambda c: solver.accepts(dev, problem, c))
    assert solver.default_config(dev, problem) in every
    check(example, host, example.run(cpu, every[rng.integers(len(every))]))


def test_more_tiles_than_are_taken_at_once(cpu, host, rng):
    """Their spectra fill the bounded workspace several times, and backward weights adds up the parts."""
    shape = Shape(10, 40, 48, (56, 57), (5, 5), (2, 2))
    for direction in range(3):
        example = Example(shape, "float32", "packed", direction, rng)
        assert len(example.solver.solution(cpu.device, example.problem).steps) > 5
        check(example, host, example.run(cpu))


def test_error_is_no_more_than_a_direct_sum_has(cpu, host, rng):
    shape = Shape(2, 32, 32, (30, 30), (7, 7), (3, 3))
    example = Example(shape, "float32", "packed", 0, rng)
    x, w, _ = example.data
    padded, direct = np.pad(x, ((0, 0), (0, 0), (3, 3), (3, 3))), np.zeros(shape.lens[2], np.float32)
    for c, r, s in np.ndindex(32, 7, 7):
        direct += w[:, c, r, s].reshape(1, -1, 1, 1) * padded[:, c:c + 1, r:r + 30, s:s + 30]
    want = example.truth(host)
    assert np.linalg.norm(example.run(cpu) - want) <= 1.5 * np.linalg.norm(direct - want)


def test_what_is_refused(cpu):
    def why(shape: Shape) -> str | None:
        desc = [TensorDescriptor("float32", lens) for lens in shape.lens]
        return registry.BY_NAME["FFTConvFwd"].why_not(cpu.device, ConvProblem(0, *desc, shape.conv))

    assert why(Shape(1, 16, 16, (28, 28), (1, 1), (0, 0))) == "saves no products"
    assert why(Shape(1, 16, 16, (3, 3), (3, 3), (0, 0))) == "saves no products"
    assert why(Shape(1, 16, 16, (90, 90), (65, 65), (32, 32))) == "filter or workspace is too large"
    assert why(Shape(1, 16, 16, (28, 28), (5, 5), (5, 2))) == "some results are no sum of products"
    assert why(Shape(1, 16, 16, (28, 28), (5, 5), (4, 2))) is None


def test_results_without_products_are_left_to_others(cpu, host, rng):
    """They are zeros, which an inverse transform does not give."""
    refused = 0
    for _ in range(300):
        axes = [rng.integers(low, high, 2) for low, high in ((1, 24), (2, 8), (0, 9), (1, 4), (1, 4))]
        image, taps, pad, stride, dilation = (tuple(map(int, axis)) for axis in axes)
        if any(i + 2 * p <= (t - 1) * d for i, p, t, d in zip(image, pad, taps, dilation, strict=True)):
            continue
        example = Example(Shape(2, 3, 4, image, taps, pad, stride, dilation), "float32", "packed",
                          int(rng.integers(3)), rng)
        why = example.solver.why_not(cpu.device, example.problem)
        if why != "saves no products":
            zeros = (example.truth(host, absolute=True) == 0).any()
            assert (why == "some results are no sum of products") == zeros, example.problem
            refused += zeros
    assert refused
