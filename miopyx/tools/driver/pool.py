"""`pool`: max and average pooling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

import miopyx

from . import data
from .data import Array
from .layer import FORWARD_FLAG, LAYOUTS, SWITCH, Layer, Pass, file_flags, limit, operations, packed, run_flags
from .options import Command, Family, Flag, UsageError, Value
from .problem import Sizes, pads, tensor
from .verify import Doubles

MODES = {"max": miopyx.miopenPoolingMax, "avg": miopyx.miopenPoolingAverage,
         "avg_in": miopyx.miopenPoolingAverageInclusive}
INDEX_TYPES = {"miopenIndexUint8": "uint8", "miopenIndexUint16": "uint16", "miopenIndexUint32": "uint32",
               "miopenIndexUint64": "uint64"}

FAMILY = Family("pool", "a pooling", operations("pool"), (
    Flag("input", "W", "100x3x32x32,NCHW", "the input: lengths, then a layout or strides (x between the numbers)"),
    Flag("dinput", "D", "", "the input's gradient; what is left out is the input's"),
    Flag("output", "O", "", "the output; lengths that are left out are computed, the layout is the input's"),
    Flag("doutput", "H", "", "the output's gradient; what is left out is the output's"),
    FORWARD_FLAG,
    Flag("win_d", "Z", 3, "depth of the window (3-D)"),
    Flag("win_h", "y", 3, "height of the window"),
    Flag("win_w", "x", 3, "width of the window"),
    Flag("pool_stride_d", "s", 1, "stride along the depth (3-D)"),
    Flag("pool_stride_h", "v", 1, "stride along the height"),
    Flag("pool_stride_w", "u", 1, "stride along the width"),
    Flag("pad_d", "o", 0, "padding on both sides along the depth (3-D)"),
    Flag("pad_h", "p", 0, "padding above and below"),
    Flag("pad_w", "q", 0, "padding left and right"),
    Flag("pad_val", "r", 0, "value of the padding", fixed="padding has no value"),
    Flag("index_position", "M", 0, "what max stores: 1 places in the image, 0 in the window; in 3-D 1 unless given",
         SWITCH),
    *run_flags(),
    Flag("print", "P", 1, "print the command line", SWITCH),
    Flag("mode", "m", "max", "max, avg (of the elements in the image) or avg_in (padding counts)", tuple(MODES)),
    Flag("pad_mode", "z", "default", "default: the pads given; same and valid compute them",
         ("default", "same", "valid")),
    Flag("index_type", "I", "miopenIndexUint8", "type of what max stores", tuple(INDEX_TYPES)),
    *file_flags(("in_data", "j"), ("out_data", "k"), ("dump_root", "l")),
))


def with_batch(command: Command, batch: Value) -> dict[str, Value]:
    """Return the flags that give a command another batch size."""
    flags: dict[str, Value] = {}
    for name in ("input", "dinput", "output", "doutput"):
        if name not in command.family.long:
            continue
        lens, comma, rest = command.text(name).partition(",")
        first, x, others = lens.partition("x")
        if x and first.isdigit():
            flags[name] = f"{batch}x{others}{comma}{rest}"
    return flags


class Pooling(Layer):
    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.x = self._described("input", None)
        self.window, self.stride = self._along("win_"), self._along("pool_stride_")
        self.pad = self._along("pad_")
        if command.text("pad_mode") != "default":
            self.pad = pads(command, self.x.lens[2:], self.window, self.stride, (1,) * len(self.window))
        self.max = command.text("mode") == "max"
        self.image = bool(command.number("index_position") if "index_position" in command.given
                          else len(self.window) == 3)
        self.pool = pool = miopyx.miopenCreatePoolingDescriptor()
        miopyx.miopenSetNdPoolingDescriptor(pool, MODES[command.text("mode")], len(self.window), self.window, self.pad,
                                            self.stride)
        index_type = command.text("index_type")
        miopyx.miopenSetPoolingIndexType(pool, getattr(miopyx, index_type))
        miopyx.miopenSetPoolingWorkSpaceIndexMode(
            pool, miopyx.miopenPoolingWorkspaceIndexImage if self.image else miopyx.miopenPoolingWorkspaceIndexMask)
        lens = tuple(miopyx.miopenGetPoolingNdForwardOutputDim(pool, self.x, self.x.ndim))
        self.y = self._described("output", self.x, lens)
        self.dx, self.dy = self._described("dinput", self.x), self._described("doutput", self.y)
        for name in ("x", "y", "dx", "dy"):
            self.tensor(name, getattr(self, name))
        self.saves = self.max and command.number("forw") != 1
        if self.saves:
            self.memory["workSpace"] = packed(INDEX_TYPES[index_type], self.y.lens)
        self.size = miopyx.miopenPoolingGetWorkSpaceSizeV2(pool, self.y) if self.saves else 0

    def _along(self, stem: str) -> Sizes:
        return tuple(self.command.number(stem + axis) for axis in "dhw"[5 - self.x.ndim:])

    def _described(self, flag: str, like: Any, computed: Sizes = ()) -> Any:
        """Return the descriptor of a flag such as 100x3x32x32,NCHW; `like` says what it leaves out."""
        text = self.command.text(flag)
        first, _, second = text.partition(",")
        try:
            # With nothing to be like, lengths must be there.
            lens = tuple(map(int, first.split("x"))) if first or like is None else computed or like.lens
            if second and second not in LAYOUTS:
                strides = tuple(map(int, second.split("x")))
                return miopyx.TensorDescriptor(self.dtype, lens, strides)
        except ValueError:
            raise UsageError(f"--{flag} {text}: not lengths and a layout or strides, as in 100x3x32x32,NCHW") from None
        if len(lens) not in (4, 5):
            raise UsageError(f"--{flag} {text}: 4 or 5 lengths make a tensor")
        if second or like is None:
            return tensor(self.dtype, second, lens)
        order = sorted(range(like.ndim), key=lambda axis: (-like.strides[axis], -like.lens[axis], axis))
        strides_of: dict[int, int] = {}
        step = 1
        for axis in reversed(order):
            strides_of[axis], step = step, step * lens[axis]
        return miopyx.TensorDescriptor(self.dtype, lens, [strides_of[axis] for axis in range(len(lens))])

    @property
    def layer(self) -> str:
        def same(values: Sizes) -> str:
            return "x".join(map(str, values if len(set(values)) > 1 else values[:1]))

        words = [self.command.operation, self.command.text("mode"), "x".join(map(str, self.x.lens[1:])),
                 "x".join(map(str, self.window)), f"s{same(self.stride)}"]
        return " ".join(words + ([f"p{same(self.pad)}"] if any(self.pad) else []))

    def passes(self) -> list[Pass]:
        bounds = {"fwd": limit(self.dtype, 1e-5, 5e-3), "bwd": limit(self.dtype, 1e-6, 5e-3)}
        stored = ("workSpace",) if self.saves else ()
        return [
            Pass("fwd", "Forward Pooling", ("x",), ("y", *stored), ("x",), self._forward,
                 lambda handle: handle.pooling_forward(self.pool, self.x, self.y, self.saves), self._forward_reference,
                 bounds["fwd"]),
            Pass("bwd", "Backward Pooling", ("dy", "x", "y", *stored), ("dx",), ("dy", *stored), self._backward,
                 lambda handle: handle.pooling_backward(self.pool, self.y, self.dy, self.x, self.dx),
                 self._backward_reference, bounds["bwd"]),
        ]

    def _forward(self, handle: Any, m: Mapping[str, Any]) -> None:
        miopyx.miopenPoolingForward(handle, self.pool, 1.0, self.x, m["x"], 0.0, self.y, m["y"], self.saves,
                                    m.get("workSpace"), self.size)

    def _backward(self, handle: Any, m: Mapping[str, Any]) -> None:
        miopyx.miopenPoolingBackward(handle, self.pool, 1.0, self.y, m["y"], self.dy, m["dy"], self.x, m["x"], 0.0,
                                     self.dx, m["dx"], m.get("workSpace"))

    def values(self, name: str, generator: data.Generator) -> Array:
        """x uniform in [0, 1), dy in [-0.5, 0.5)."""
        return self.uniform(name, generator, *((0.0, 1.0) if name == "x" else (-0.5, 0.5)))

    # ------------------------------------------------------------------------------------------------ references

    def _taps(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield each place of the window in scan order: its number, and where in a padded image windows have it."""
        for number, tap in enumerate(np.ndindex(*self.window)):
            yield number, (..., *(slice(t, t + (o - 1) * s + 1, s)
                                  for t, o, s in zip(tap, self.y.lens[2:], self.stride, strict=True)))

    def _padded(self, image: Array, filler: float) -> Doubles:
        """Return an image with everything around it that a window can touch."""
        around = [(p, max(0, (o - 1) * s + k - p - i)) for p, o, s, k, i in zip(
            self.pad, self.y.lens[2:], self.stride, self.window, self.x.lens[2:], strict=True)]
        return np.pad(image, [(0, 0), (0, 0), *around], constant_values=filler)

    def _divisors(self) -> Doubles:
        if self.command.text("mode") == "avg_in":
            return np.full(self.y.lens[2:], float(prod(self.window)))
        inside = self._padded(np.ones((1, 1, *self.x.lens[2:])), 0.0)
        counts: Doubles = np.add.reduce([inside[window] for _, window in self._taps()])[0, 0]
        return np.maximum(counts, 1.0)

    def _largest(self, x: Doubles) -> tuple[Doubles, Array]:
        """Return the first largest element of each window and its number."""
        padded = self._padded(x, -np.inf)
        best = np.full((*x.shape[:2], *self.y.lens[2:]), -np.inf)
        number = np.zeros(best.shape, np.int64)
        for tap, window in self._taps():
            better = padded[window] > best
            best[better], number[better] = padded[window][better], tap
        return best, number

    def _forward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        if not self.max:
            padded = self._padded(m["x"], 0.0)
            total = np.zeros((*m["x"].shape[:2], *self.y.lens[2:]))
            for _, window in self._taps():
                total += padded[window]
            return {"y": total / self._divisors()}
        y, number = self._largest(m["x"])
        if not self.image:
            return {"y": y, "workSpace": number}
        places = np.unravel_index(number, self.window)
        starts = np.meshgrid(*(np.arange(o) * s - p for o, s, p in zip(
            self.y.lens[2:], self.stride, self.pad, strict=True)), indexing="ij")
        at = tuple(place + start for place, start in zip(places, starts, strict=True))
        return {"y": y, "workSpace": np.ravel_multi_index(at, self.x.lens[2:])}

    def _backward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        dx = self._padded(np.zeros((*m["dy"].shape[:2], *self.x.lens[2:])), 0.0)
        if self.max:
            _, number = self._largest(m["x"])
            for tap, window in self._taps():
                dx[window] += np.where(number == tap, m["dy"], 0.0)
        else:
            share = m["dy"] / self._divisors()
            for _, window in self._taps():
                dx[window] += share
        inside: list[Any] = [slice(p, p + i) for p, i in zip(self.pad, self.x.lens[2:], strict=True)]
        return {"dx": dx[(..., *inside)]}


