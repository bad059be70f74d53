"""Depthwise and grouped convolutions for GPUs, every element against the host path in float64.

On a CPU the kernels run as on a GPU: its DeviceInfo says that it is one.  Inputs are fresh random numbers, outputs and
workspaces are poisoned, and an error may be (2 u + (K + 2) v) * sum |products|, u the unit roundoff of what is stored,
v of float, K the number of products.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pyopencl.array as cl_array
import pytest

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor, device
from miopyx._invoker import Invoker
from miopyx._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.tuning import configurations

NAMES = ("DepthwiseFwd", "DepthwiseBwd", "DepthwiseWrw")
DTYPE = {"float32": np.dtype("f4"), "float16": np.dtype("f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


@dataclass(frozen=True)
class Shape:
    """groups, channels and filters of each; two numbers of an axis are height and width."""

    n: int
    groups: int
    inputs: int
    outputs: int
    image: tuple[int, int]
    taps: tuple[int, int] = (3, 3)
    pad: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)

    @property
    def conv(self) -> ConvolutionDescriptor:
        return ConvolutionDescriptor(self.pad, self.stride, self.dilation, groups=self.groups)

    @property
    def lens(self) -> tuple[tuple[int, ...], ...]:
        x = (self.n, self.groups * self.inputs, *self.image)
        w = (self.groups * self.outputs, self.inputs, *self.taps)
        return x, w, tuple(self.conv.output_lens(TensorDescriptor("float32", x), TensorDescriptor("float32", w)))


SHAPES = {
    "3x3": Shape(2, 24, 1, 1, (14, 14)),
    "3x3 of odd sizes": Shape(3, 17, 1, 1, (9, 11)),
    "3x3 with stride 2": Shape(2, 20, 1, 1, (15, 14), stride=(2, 2)),
    "3x3 with stride 2 and no pad": Shape(2, 12, 1, 1, (12, 9), pad=(0, 0), stride=(2, 2)),
    "5x5": Shape(1, 36, 1, 1, (7, 12), (5, 5), (2, 2)),
    "5x5 with stride 2": Shape(2, 10, 1, 1, (11, 13), (5, 5), (2, 2), (2, 2)),
    "7x7": Shape(1, 40, 1, 1, (9, 8), (7, 7), (3, 3)),
    "7x7 with stride 2": Shape(1, 16, 1, 1, (9, 12), (7, 7), (3, 3), (2, 2)),
    "11x11": Shape(1, 6, 1, 1, (12, 13), (11, 11), (5, 5)),
    "dilation 2": Shape(2, 8, 1, 1, (10, 11), pad=(2, 2), dilation=(2, 2)),
    "dilation 3, stride 2": Shape(1, 8, 1, 1, (13, 12), pad=(3, 2), stride=(2, 2), dilation=(3, 3)),
    "uneven": Shape(2, 12, 1, 1, (8, 15), (3, 5), (1, 0), (1, 3), (2, 1)),
    "1x1": Shape(2, 9, 1, 1, (5, 6), (1, 1), (0, 0)),
    "1x1 with stride 2": Shape(2, 8, 1, 1, (5, 6), (1, 1), (0, 0), (2, 2)),
    "an image smaller than the filter": Shape(2, 8, 1, 1, (2, 1), (5, 3), (2, 1)),
    "2 filters a channel": Shape(2, 8, 1, 2, (9, 10)),
    "3 filters a channel, stride 2": Shape(2, 5, 1, 3, (9, 8), stride=(2, 2)),
    "groups of 4": Shape(2, 8, 4, 4, (9, 10)),
    "groups of 4, stride 2": Shape(1, 6, 4, 4, (9, 10), stride=(2, 2)),
    "groups of 16": Shape(1, 3, 16, 16, (7, 8)),
    "groups of 3 and 5": Shape(2, 4, 3, 5, (6, 7), (3, 3), (1, 1)),
    "groups of 2 and 12, 5x5": Shape(1, 3, 2, 12, (6, 7), (5, 5), (2, 2)),
    "groups of 4, 7x7": Shape(1, 4, 4, 4, (8, 8), (7, 7), (3, 3)),
    "many channels": Shape(1, 300, 1, 1, (5, 6)),
    "tall": Shape(2, 12, 1, 1, (70, 5)),
    "tall 7x7": Shape(1, 8, 1, 1, (61, 7), (7, 7), (3, 3)),
    "tall 5x5 with dilation 2": Shape(1, 12, 1, 1, (90, 9), (5, 5), (4, 4), dilation=(2, 2)),
    "many images": Shape(40, 3, 1, 1, (6, 5)),
}
LAYOUTS = ("rows", "channels last", "padded")


def strides_of(lens: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Packed with rows closest, packed with channels closest, or rows with gaps between rows, channels and images."""
    order = (0, 2, 3, 1) if layout == "channels last" else (0, 1, 2, 3)
    strides, step = [0] * 4, 1
    for axis in reversed(order):
        strides[axis] = step
        step *= lens[axis] + (1 if layout == "padded" else 0)
    return tuple(strides)


class Example:
    """A problem with its data; `odd` puts every buffer at an odd element, where no vector begins."""

    def __init__(self, shape: Shape, dtype: str, layout: str, direction: int, rng: np.random.Generator,
                 odd: bool = False) -> None:
        self.shape, self.dtype, self.direction, self.odd = shape, dtype, direction, odd
        self.desc = [TensorDescriptor(dtype, lens, strides_of(lens, layout)) for lens in shape.lens]
        self.conv, self.output = shape.conv, (2, 0, 1)[direction]
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

    @property
    def terms(self) -> int:
        s, (_, _, p, q) = self.shape, self.shape.lens[2]
        return (s.inputs * s.taps[0] * s.taps[1], s.outputs * s.taps[0] * s.taps[1], s.n * p * q)[self.direction]

    def run(self, handle: miopyx.Handle, config: tuple | None = None) -> np.ndarray:
        """What the solver computes in poisoned memory, through the immediate mode with a poisoned workspace."""
        size = self.solver.workspace_size(handle.device, self.problem)
        space = handle.upload(np.full(size, 0xFF, np.uint8)) if size else None
        x, w, y = self.desc

        def call(a, b, c):
            if self.direction == 0:
                miopyx.miopenConvolutionForwardImmediate(handle, w, b, x, a, self.conv, y, c, space, size,
                                                         self.solver.id)
            elif self.direction == 1:
                miopyx.miopenConvolutionBackwardDataImmediate(handle, y, a, w, b, self.conv, x, c, space, size,
                                                              self.solver.id)
            else:
                miopyx.miopenConvolutionBackwardWeightsImmediate(handle, y, a, x, b, self.conv, w, c, space, size,
                                                                 self.solver.id)

        return self._called(handle, config, call, None)

    def run_mixed(self, handle: miopyx.Handle, alpha: float, beta: float, old: np.ndarray) -> np.ndarray:
        def call(*buffers):
            self.plan(handle, self.desc, self.solver.id)(*buffers, alpha=alpha, beta=beta)

        return self._called(handle, None, call, old)

    def _called(self, handle, config, call, old) -> np.ndarray:
        """The output; what lies between its elements and before it must stay as it was."""
        handle.register(Invoker(handle, self.solver, self.problem, config), self.solver.id)
        size = DTYPE[self.dtype].itemsize
        shift = size if self.odd else 0
        arrays = []
        for i, (desc, values) in enumerate(zip(self.desc, self.data, strict=True)):
            memory = np.full(shift + desc.nbytes, 0xFF, np.uint8)  # all ones: NaN
            if i != self.output or old is not None:
                self._view(memory, shift, i)[...] = old if i == self.output else values
            buffer = handle.upload(memory)
            arrays.append(cl_array.Array(handle.queue, (desc.nbytes,), np.uint8, data=buffer, offset=shift))
            if i == self.output:
                result, output = buffer, memory
        call(*self.order(arrays))
        handle.finish()
        handle.download(result, output)
        got = self._view(output, shift, self.output).astype(np.float64)
        self._view(output, shift, self.output).view(f"u{size}")[...] = (1 << 8 * size) - 1
        assert (output == 0xFF).all(), "wrote beside the elements of a tensor"
        return got

    def _view(self, memory: np.ndarray, shift: int, which: int) -> np.ndarray:
        elements = memory[shift:].view(DTYPE[self.dtype])
        desc = self.desc[which]
        return np.lib.stride_tricks.as_strided(elements, desc.lens, [s * elements.itemsize for s in desc.strides])


@pytest.fixture(scope="module")
def as_gpu():
    """Return a function from a device's name to a handle whose solvers take it for a GPU of one compute unit.

    So small images have long strips and few parts, as large ones have on a large device.
    """
    made = {}

    def handle_of(name):
        if name not in made:
            info = device.find(name)._replace(kind="gpu", compute_units=1)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(device, "find", lambda _: info)
                made[name] = miopyx.Handle(name)
        return made[name]

    yield handle_of
    for handle in made.values():
        handle.destroy()


@pytest.fixture
def gpu(opencl_name, as_gpu):
    return as_gpu(opencl_name)


@pytest.fixture
def host(handles):
    return handles("host")


def check(example: Example, host: miopyx.Handle, got: np.ndarray, alpha: float = 1, beta: float = 0,
          old: np.ndarray | float = 0) -> None:
    want = alpha * example.truth(host) + beta * old
    size = abs(alpha) * example.truth(host, absolute=True) + np.abs(beta * old)
    bound = (2 * ROUNDOFF[example.dtype] + (example.terms + 2) * 2.0**-24) * size + 2.0**-149
    if example.dtype == "float16":
        bound = bound + 2.0**-25  # subnormal results
    error = np.abs(got - want)
    assert (error <= bound).all(), f"{example.problem}: {np.nanmax(error / bound)} times the bound"


def cases(gpu: miopyx.Handle, rng: np.random.Generator, request) -> list[tuple[str, str, int]]:
    """Types, layouts and directions: all of them on a GPU; a CPU takes seconds to build a kernel, so a few or none."""
    every = [(dtype, layout, direction) for dtype in DTYPE for layout in LAYOUTS for direction in range(3)]
    if gpu.device.info.runtime != "pocl":
        return every
    count = rng.poisson(request.config.getoption("--configurations") / 400)
    return [every[i] for i in rng.permutation(len(every))[:count]]


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(gpu, host, rng, request, name):
    """Half of them in buffers that begin at an odd element."""
    for dtype, layout, direction in cases(gpu, rng, request):
        example = Example(SHAPES[name], dtype, layout, direction, rng, odd=bool(rng.integers(2)))
        assert example.solver.why_not(gpu.device, example.problem) is None
        got = example.run(gpu)
        check(example, host, got)
        np.testing.assert_array_equal(got, example.run(gpu), "not deterministic")
        alpha, beta = rng.uniform(-2, 2, 2)
        old = rng.standard_normal(example.shape.lens[example.output]).astype(DTYPE[dtype])
        check(example, host, example.run_mixed(gpu, alpha, beta, old), alpha, beta, old.astype(np.float64))


def test_any_configuration_computes_the_same(gpu, host, rng, request):
    """Of random shapes, a random one."""
    on_gpu = gpu.device.info.runtime != "pocl"
    for _ in range(100 if on_gpu else max(2, request.config.getoption("--configurations") // 100)):
        shape = list(SHAPES.values())[rng.integers(len(SHAPES))]
        example = Example(shape, list(DTYPE)[rng.integers(3)], LAYOUTS[rng.integers(3)], int(rng.integers(3)), rng)
        dev, problem, solver = gpu.device, example.problem, example.solver
        every = configurations(solver.parameters(dev, problem), lambda c: solver.accepts(dev, problem, c))  # noqa: B023
        assert solver.default_config(dev, problem) in every
        if not on_gpu:
            every = [c for c in every if c[0] * c[1] * c[2] <= 16] or every
        config = every[rng.integers(len(every))]
        print(problem, config)
        check(example, host, example.run(gpu, config))


@pytest.mark.parametrize("direction", range(3))
def test_inf_and_nan_beside_padding(gpu, host, rng, direction):
    """What a tap does not meet must not count, infinite filters and gradients included."""
    names = ("3x3 of odd sizes", "3x3 with stride 2", "groups of 4")
    every = [(name, layout) for name in names for layout in LAYOUTS[:2]]
    if gpu.device.info.runtime == "pocl":
        every = [every[rng.integers(len(every))]]
    for name, layout in every:
        for value in (np.inf, np.nan):
            example = Example(SHAPES[name], "float32", layout, direction, rng)
            for i in range(3):
                if i != example.output:
                    flat = example.data[i].reshape(-1)
                    flat[rng.integers(0, flat.size, 2)] = value
                    flat[[0, -1]] = -value
            with np.errstate(invalid="ignore"):
                want = example.truth(host)
            got = example.run(gpu)
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
            finite = np.isfinite(want)
            np.testing.assert_allclose(got[finite], want[finite], rtol=1e-3, atol=1e-3)


def test_what_is_refused(gpu):
    def why(shape: Shape, dtype: str = "float32", layout: str = "rows") -> str | None:
        desc = [TensorDescriptor(dtype, lens, strides_of(lens, layout)) for lens in shape.lens]
        return registry.BY_NAME["DepthwiseFwd"].why_not(gpu.device, ConvProblem(0, *desc, shape.conv))

    assert why(Shape(1, 1, 4, 4, (8, 8))) == "one group"
    assert why(Shape(1, 2, 64, 64, (8, 8))) == "many channels a group"
    assert why(Shape(1, 4, 1, 1, (16, 16), (13, 13))) == "a large filter"
    assert why(Shape(1, 4, 1, 1, (70, 70), dilation=(17, 17))) == "a large stride or dilation"
    assert why(Shape(1, 4, 1, 1, (8, 8)), "float64") in ("data type", "device has no double precision")
    assert why(Shape(1, 4, 1, 1, (8, 8))) is None
