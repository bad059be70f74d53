"""From flags to a problem: sizes, descriptors, and the geometry that figures and checks are computed from."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

import miopyx

from .data import Array
from .options import OPERATIONS, Command, UsageError

Sizes = tuple[int, ...]


class Direction(NamedTuple):
    """A direction's names in functions, printed lines and tables, and the tensors its functions take, in order."""

    short: str
    bit: int
    function: str  # as in miopenConvolution<function>GetSolution
    title: str
    row: str
    verdict: str
    inputs: tuple[str, str]
    output: str

    @property
    def descriptors(self) -> tuple[str, str]:
        """Inputs as the queries and immediate mode take them: forward has w before x there, and only there."""
        return (self.inputs[1], self.inputs[0]) if self.short == "fwd" else self.inputs


DIRECTIONS = (
    Direction("fwd", 1, "Forward", "Forward Conv.", "fwd-conv", "Forward Convolution", ("x", "w"), "y"),
    Direction("bwd", 2, "BackwardData", "Backward Data Conv.", "bwdd-conv", "Backward Convolution Data", ("dy", "w"),
              "dx"),
    Direction("wrw", 4, "BackwardWeights", "Backward Weights Conv.", "bwdw-conv", "Backward Convolution Weights",
              ("dy", "x"), "dw"),
)


class Geometry(NamedTuple):
    """An untransposed convolution from a (n, c, *input) with w (k, c / groups, *filter) to b (n, k, *output)."""

    n: int
    c: int
    k: int
    input: Sizes
    output: Sizes
    filter: Sizes
    pad: Sizes
    stride: Sizes
    dilation: Sizes
    groups: int

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.n * self.c * self.k * prod(self.filter) * prod(self.output) // self.groups


@dataclass(frozen=True)
class Problem:
    """A command's convolution: its sizes, and descriptors by tensor (gradients have those of x, w and y)."""

    command: Command
    geometry: Geometry
    transpose: bool
    descriptors: dict[str, Any]
    conv: Any

    @property
    def directions(self) -> tuple[Direction, ...]:
        mask = self.command.number("forw")
        return tuple(d for d in DIRECTIONS if (mask & d.bit if mask else self.dtype != "int8" or d.short == "fwd"))

    @property
    def dtype(self) -> str:
        return OPERATIONS[self.command.operation]

    def computes(self, direction: Direction) -> str:
        """Return which of the geometry's tensors a direction computes: a, w or b."""
        if direction.short == "wrw":
            return "w"
        return "b" if (direction.short == "fwd") != self.transpose else "a"

    def role(self, tensor: str) -> str:
        """Return which of the geometry's tensors x, w, y or a gradient is: a, w or b."""
        if tensor in ("w", "dw"):
            return "w"
        return "a" if (tensor in ("x", "dx")) != self.transpose else "b"

    def elements(self, tensor: str) -> int:
        return prod(self.descriptors[tensor].lens)

    def view(self, tensor: str, flat: Array) -> Array:
        """Return a tensor's memory as an array indexed by n, c (d) h w, whatever its layout."""
        desc = self.descriptors[tensor]
        strides = [s * flat.itemsize for s in desc.strides]
        bits = flat.view(f"u{flat.itemsize}")  # NumPy knows no array of float8_e5m2 by its interface
        return np.lib.stride_tricks.as_strided(bits, desc.lens, strides).view(flat.dtype)


def make(command: Command) -> Problem:
    """Return the problem of a command.

    Raises
    ------
    UsageError
        For what flags cannot say together.
    MIOpenError
        For sizes that the descriptors do not take.
    """
    dtype, spatial = OPERATIONS[command.operation], command.number("spatial_dim")
    transpose = command.text("mode") == "trans"
    axes = "dhw"[3 - spatial:]

    def along(stem: str) -> Sizes:
        return tuple(command.number(stem + axis) for axis in axes)

    n, c, k, groups = (command.number(name) for name in ("batchsize", "in_channels", "out_channels", "group_count"))
    if command.operation == "convint8" and command.number("forw") > 1:
        raise UsageError("convint8 has the forward direction only (-F 1)")
    if command.number("wall") and not command.number("time"):
        raise UsageError("-w needs -t 1")
    if c % groups or k % groups:
        raise UsageError(f"-g {groups} does not divide -c {c} and -k {k}")
    if _has_bias(command) and (dtype == "int8" or dtype.startswith("float8")):
        raise UsageError("-b: the bias functions have no form of 8 bits")
    size, fil, stride, dilation = along("in_"), along("fil_"), along("conv_stride_"), along("dilation_")
    pad = along("pad_")
    if command.text("pad_mode") != "default":
        if transpose:
            raise UsageError(f"-z {command['pad_mode']} needs -m conv")
        pad = pads(command, size, fil, stride, dilation)

    x = tensor(dtype, command.text("in_layout"), (n, c, *size))
    w = tensor(dtype, command.text("fil_layout"), (c, k // groups, *fil) if transpose else (k, c // groups, *fil))
    conv = miopyx.miopenCreateConvolutionDescriptor()
    mode = miopyx.miopenTranspose if transpose else miopyx.miopenConvolution
    miopyx.miopenInitConvolutionNdDescriptor(conv, spatial, pad, stride, dilation, mode)
    miopyx.miopenSetConvolutionGroupCount(conv, groups)
    miopyx.miopenSetConvolutionAttribute(conv, "DETERMINISTIC", command.number("deterministic"))
    miopyx.miopenSetConvolutionAttribute(conv, "MATH_TYPE", command.number("math_type"))
    if transpose:
        miopyx.miopenSetTransposeConvNdOutputPadding(conv, spatial, along("trans_output_pad_"))
    out = miopyx.miopenGetConvolutionNdForwardOutputDim(conv, x, w)[1]
    y = tensor("int32" if dtype == "int8" else dtype, command.text("out_layout"), out)
    geometry = (Geometry(n, k, c, out[2:], size, fil, pad, stride, dilation, groups) if transpose else
                Geometry(n, c, k, size, out[2:], fil, pad, stride, dilation, groups))
    descriptors = {"x": x, "dx": x, "w": w, "dw": w, "y": y, "dy": y}
    if _has_bias(command):
        descriptors["b"] = tensor(dtype, "", (1, out[1], *(1,) * spatial))
    return Problem(command, geometry, transpose, descriptors, conv)


def _has_bias(command: Command) -> bool:
    return command.text("bias") == "1"


def tensor(dtype: str, layout: str, lens: Sizes) -> Any:
    """Return a packed tensor's descriptor; `layout` empty: NCHW or NCDHW.  One spatial axis is W of the layout's."""
    if len(lens) == 3:
        n, c, w = lens
        strides = {"NCHW": (c * w, w, 1), "NHWC": (c * w, 1, c), "CHWN": (1, w * n, n)}
        if layout and layout not in strides:
            raise UsageError(f"layout {layout} has three axes; of one there are {', '.join(strides)}")
        return miopyx.TensorDescriptor(dtype, lens, strides[layout or "NCHW"])
    desc = miopyx.miopenCreateTensorDescriptor()
    layout = layout or ("NCHW" if len(lens) == 4 else "NCDHW")
    miopyx.miopenSetNdTensorDescriptorWithLayout(desc, _TYPES[dtype],
                                                 miopyx.miopenTensorLayout_t[f"miopenTensor{layout}"], lens, len(lens))
    return desc


_TYPES = {
    "float16": miopyx.miopenHalf, "float32": miopyx.miopenFloat, "float64": miopyx.miopenDouble,
    "bfloat16": miopyx.miopenBFloat16, "int8": miopyx.miopenInt8, "int32": miopyx.miopenInt32,
    "float8_e4m3fnuz": miopyx.miopenFloat8, "float8_e5m2fnuz": miopyx.miopenBFloat8,
    "float8_e4m3fn": miopyx.miopenFloat8_ocp, "float8_e5m2": miopyx.miopenBFloat8_ocp,
}


def pads(command: Command, size: Sizes, fil: Sizes, stride: Sizes, dilation: Sizes) -> Sizes:
    """Return the pads of pad_mode same, whose outputs have ceil(in / stride) elements, or valid: none.

    The library pads both sides alike.  Where same would need one more zero at the far end than at the near one, there
    is no such convolution, and this says so instead of computing one with another output.
    """
    mode = command.text("pad_mode")
    if any(d != 1 for d in dilation):
        raise UsageError(f"-z {mode} needs dilations of 1")
    if mode != "same" or min(size + fil + stride) < 1:  # the descriptors will refuse those
        return (0,) * len(size)
    totals = [max((-(-i // s) - 1) * s + f - i, 0) for i, f, s in zip(size, fil, stride, strict=True)]
    if any(total % 2 for total in totals):
        raise UsageError("-z same would pad one side more than the other here "
                         f"({'x'.join(map(str, totals))} zeros in total), which the library cannot")
    return tuple(total // 2 for total in totals)
