"""Depthwise and grouped convolutions on CPU devices, every element against the host path in float64.

Inputs are fresh random numbers; outputs, workspaces and what lies between elements are poisoned, and guard bytes around
every buffer must survive.  An error may be (2 u + (K + 2) v) * sum |products|, u the unit roundoff of what is stored, v
of what is summed in, K the number of products.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx._problem import ConvProblem
from miopyx.solvers import registry

NAMES = ("CpuGroupedFwd", "CpuGroupedBwd", "CpuGroupedWrw")
DTYPE = {"float64": np.dtype("f8"), "float32": np.dtype("f4"), "float16": np.dtype("f2"),
         "bfloat16": np.dtype(ml_dtypes.bfloat16)}
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
GUARD = 64  # bytes
LAYOUTS = ("rows", "channels last", "padded", "padded channels last")


@dataclass(frozen=True)
class Shape:
    """n images, groups, channels and filters of each; one entry an axis."""

    n: int
    groups: int
    inputs: int
    outputs: int
    image: tuple[int, ...]
    taps: tuple[int, ...] = (3, 3)
    pad: tuple[int, ...] = (1, 1)
    stride: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)

    @property
    def conv(self) -> ConvolutionDescriptor:
        return ConvolutionDescriptor(self.pad, self.stride, self.dilation, groups=self.groups)

    @property
    def lens(self) -> tuple[tuple[int, ...], ...]:
        x = (self.n, self.groups * self.inputs, *self.image)
        w = (self.groups * self.outputs, self.inputs, *self.taps)
        return x, w, tuple(self.conv.output_lens(TensorDescriptor("float32", x), TensorDescriptor("float32", w)))


SHAPES = {
    "3x3": Shape(2, 33, 1, 1, (14, 14)),
    "3x3 of wide rows": Shape(1, 3, 1, 1, (6, 150)),
    "3x3 of very wide rows": Shape(1, 2, 1, 1, (3, 1100)),
    "3x3 of odd sizes": Shape(3, 17, 1, 1, (9, 19)),
    "3x3 of a small image": Shape(5, 65, 1, 1, (7, 7)),
    "3x3 with stride 2": Shape(2, 20, 1, 1, (15, 38), stride=(2, 2)),
    "3x3 with stride 2, odd": Shape(2, 19, 1, 1, (11, 33), stride=(2, 2)),
    "3x3 with stride 2, narrow": Shape(3, 5, 1, 1, (9, 18), stride=(2, 2)),
    "3x3 without padding": Shape(2, 9, 1, 1, (12, 21), pad=(0, 0)),
    "5x5 with stride 2": Shape(2, 18, 1, 1, (14, 40), (5, 5), (2, 2), (2, 2)),
    "7x7": Shape(2, 17, 1, 1, (10, 20), (7, 7), (3, 3)),
    "5x5": Shape(1, 36, 1, 1, (13, 28), (5, 5), (2, 2)),
    "5x5 with stride 2 and dilation 2": Shape(2, 10, 1, 1, (17, 40), (5, 5), (3, 4), (2, 2), (2, 2)),
    "11x11": Shape(1, 6, 1, 1, (12, 23), (11, 11), (5, 5)),
    "uneven": Shape(2, 12, 1, 1, (18, 25), (3, 5), (1, 0), (1, 3), (2, 1)),
    "large strides": Shape(1, 5, 1, 1, (21, 30), (3, 4), (0, 2), (5, 4), (1, 3)),
    "pads beyond the filter": Shape(2, 18, 1, 1, (6, 5), (3, 2), (4, 5)),
    "an image smaller than the filter": Shape(2, 8, 1, 1, (2, 1), (5, 3), (2, 1)),
    "1x1": Shape(2, 9, 1, 1, (5, 6), (1, 1), (0, 0)),
    "one axis": Shape(3, 20, 1, 1, (70,), (5,), (2,), (1,), (1,)),
    "one axis of groups": Shape(2, 3, 4, 6, (70,), (3,), (1,), (2,), (1,)),
    "three axes": Shape(2, 17, 1, 1, (5, 6, 9), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "three axes of groups": Shape(1, 3, 3, 2, (6, 7, 8), (2, 3, 3), (1, 1, 1), (2, 1, 2), (2, 1, 1)),
    "3 filters a channel": Shape(2, 5, 1, 3, (9, 18)),
    "groups of 2": Shape(2, 9, 2, 2, (9, 21)),
    "groups of 4": Shape(2, 8, 4, 4, (9, 30)),
    "groups of 4 with stride 2": Shape(1, 6, 4, 4, (19, 22), stride=(2, 2)),
    "groups of 8": Shape(1, 5, 8, 8, (14, 14)),
    "groups of 16": Shape(2, 3, 16, 16, (7, 8)),
    "groups of 16 and 32": Shape(2, 2, 16, 32, (9, 14), (3, 2), (1, 0)),
    "groups of 32 and 16 with stride 2": Shape(1, 2, 32, 16, (12, 9), (3, 2), (1, 1), (2, 2)),
    "three axes of groups of 16": Shape(1, 2, 16, 16, (3, 4, 5), (3, 2, 2), (1, 1, 1), (1, 2, 1), (1, 1, 1)),
    "groups of 5 and 17": Shape(1, 2, 5, 17, (9, 11)),
    "one group, 3 and 12": Shape(1, 1, 3, 12, (20, 21), (7, 7), (3, 3), (2, 2)),
}


def strides_of(lens: tuple[int, ...], layout: str) -> tuple[int, ...]:
    order = [0, *range(2, len(lens)), 1] if layout.endswith("channels last") else list(range(len(lens)))
    strides, step = [0] * len(lens), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= lens[axis]
        if layout.startswith("padded"):
            step += 3
    return tuple(strides)


class Memory:
    """A tensor between two guards; all that is not its own stays 0xFF, NaN in every type."""

    def __init__(self, desc: TensorDescriptor, values: np.ndarray | None) -> None:
        self.desc, self.dtype = desc, DTYPE[desc.dtype]
        self.bytes = np.full(GUARD + desc.nbytes + GUARD, 0xFF, np.uint8)
        if values is not None:
            self.view()[...] = values

    def view(self) -> np.ndarray:
        elements = self.bytes[GUARD:GUARD + self.desc.nbytes].view(self.dtype)
        return np.lib.stride_tricks.as_strided(
            elements, self.desc.lens, [s * self.dtype.itemsize for s in self.desc.strides])

    def taken(self) -> np.ndarray:
        """The values; what is no element must still be as it was."""
        values = self.view().astype(np.float64)
        self.view().view(f"u{self.dtype.itemsize}")[...] = (1 << 8 * self.dtype.itemsize) - 1
        assert (self.bytes == 0xFF).all(), "wrote beside the elements of a tensor"
        return values


class Example:
    def __init__(self, shape: Shape, dtype: str, layout: str, direction: int, rng: np.random.Generator) -> None:
        self.shape, self.dtype, self.direction = shape, dtype, direction
        self.output = (2, 0, 1)[direction]
        self.desc = [TensorDescriptor(dtype, lens, strides_of(lens, layout)) for lens in shape.lens]
        self.data = [rng.standard_normal(lens).astype(DTYPE[dtype]) for lens in shape.lens]
        self.problem = ConvProblem(direction, *self.desc, shape.conv)
        self.solver = registry.BY_NAME[NAMES[direction]]

    def plan(self, handle: miopyx.Handle, desc: list[TensorDescriptor], solver: int | None):
        x, w, y = desc
        if self.direction == 0:
            return handle.convolution_forward(x, w, self.shape.conv, y, solver)
        if self.direction == 1:
            return handle.convolution_backward_data(y, w, self.shape.conv, x, solver)
        return handle.convolution_backward_weights(y, x, self.shape.conv, w, solver)

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
        taps = int(np.prod(self.shape.taps))
        return (self.shape.inputs * taps, self.shape.outputs * taps,
                self.shape.n * int(np.prod(self.shape.lens[2][2:])))[self.direction]

    def run(self, handle: miopyx.Handle, alpha: float = 1, beta: float = 0,
            old: np.ndarray | None = None) -> np.ndarray:
        memory = [Memory(d, old if i == self.output else v)
                  for i, (d, v) in enumerate(zip(self.desc, self.data, strict=True))]
        buffers = [m.bytes[GUARD:GUARD + m.desc.nbytes] for m in memory]
        self.plan(handle, self.desc, self.solver.id)(*self.order(buffers), alpha=alpha, beta=beta)
        handle.finish()
        return memory[self.output].taken()

    def check(self, host: miopyx.Handle, got: np.ndarray, alpha: float = 1, beta: float = 0,
              old: np.ndarray | float = 0) -> None:
        want = alpha * self.truth(host) + beta * old
        size = abs(alpha) * self.truth(host, absolute=True) + np.abs(beta * old)
        unit = ROUNDOFF["float64" if self.dtype == "float64" else "float32"]
        bound = (2 * ROUNDOFF[self.dtype] + (self.terms + 2) * unit) * size + 2.0**-149
        if self.dtype == "float16":
            bound = bound + 2.0**-25  # subnormal results
        error = np.abs(got - want)
        assert (error <= bound).all(), f"{self.problem}: {np.nanmax(error / bound)} times the bound"


@pytest.fixture
def cpu(opencl_name, handles):
    handle = handles(opencl_name)
    if not handle.device.is_cpu or not handle.device.shares_memory:
        pytest.skip("a CPU device's solvers")
    return handle


@pytest.fixture
def host(handles):
    return handles("host")


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(cpu, host, rng, name):
    """In float32 each direction in one layout of rows and one with channels last; now and then another type."""
    shape = SHAPES[name]
    cases = [("float32", LAYOUTS[2 * int(rng.integers(2)) + last], direction) for last in range(2)
             for direction in range(3)]
    if rng.integers(2):
        cases.append((list(DTYPE)[rng.integers(4)], LAYOUTS[rng.integers(4)], int(rng.integers(3))))
    for dtype, layout, direction in cases:
        if dtype == "float64" and not cpu.device.fp64:
            continue
        example = Example(shape, dtype, layout, direction, rng)
        assert example.solver.why_not(cpu.device, example.problem) is None
        got = example.run(cpu)
        example.check(host, got)
        np.testing.assert_array_equal(got, example.run(cpu), "not deterministic")
        alpha, beta = rng.uniform(-2, 2, 2)
        old = rng.standard_normal(shape.lens[example.output]).astype(DTYPE[dtype])
        example.check(host, example.run(cpu, alpha, beta, old), alpha, beta, old.astype(np.float64))


@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_an_infinity_stays_in_its_channel(cpu, host, rng, layout):
    """Forward and backward data: in what is read, one infinity changes what depends on it and nothing else."""
    for name in ("3x3 of odd sizes", "groups of 4 with stride 2"):
        for direction in range(2):
            example = Example(SHAPES[name], "float32", layout, direction, rng)
            read = example.data[(0, 2)[direction]]
            read.reshape(-1)[rng.integers(read.size)] = np.inf
            with np.errstate(invalid="ignore"):
                want = example.truth(host)
            got = example.run(cpu)
            np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
            finite = np.isfinite(want)
            np.testing.assert_allclose(got[finite], want[finite], rtol=1e-3, atol=1e-3)


def test_what_is_refused(cpu):
    def why(shape: Shape, dtype: str = "float32", strides: tuple | None = None) -> str | None:
        desc = [TensorDescriptor(dtype, lens) for lens in shape.lens]
        if strides is not None:
            desc[0] = TensorDescriptor(dtype, shape.lens[0], strides)
        return registry.BY_NAME["CpuGroupedFwd"].why_not(cpu.device, ConvProblem(0, *desc, shape.conv))

    assert why(Shape(1, 2, 8, 8, (8, 8))) is None
    assert why(Shape(1, 2, 65, 1, (8, 8))) == "many channels a group"
    assert why(Shape(1, 2, 1, 65, (8, 8))) == "many channels a group"
    assert why(Shape(1, 4, 1, 1, (32, 32), (17, 17))) == "a large filter"
    assert why(Shape(1, 4, 1, 1, (32, 32), stride=(9, 1))) == "a large stride, dilation, pad or length"
    assert why(Shape(1, 2, 64, 1, (600, 600), dilation=(200, 200))) == "a tile is too large"
    assert why(Shape(1, 2, 1, 1, (8, 8)), strides=(512, 256, 32, 2)) == "neither channels nor rows lie together"
    assert why(Shape(1, 2, 1, 1, (8, 8)), "int8") is not None
