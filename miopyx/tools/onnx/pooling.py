"""Pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from miopyx import PoolingDescriptor, enums

from .convolution import window
from .nodes import Node, Outside, Run
from .values import FLOATS, Value, tensor

__all__ = ["AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "four_or_five"]


def four_or_five(shape: Sequence[int]) -> tuple[int, ...]:
    """Return n, c and space of a tensor as lengths that MIOpen's 4-D and 5-D functions take."""
    shape = (*shape, 1)[:2] if len(shape) < 2 else tuple(shape)
    return shape if len(shape) in (4, 5) else (*shape[:2], 1, prod(shape[2:]))


_Pooled = Callable[[Value], tuple[Value, Value | None]]


class _Pool(Node):
    mode: ClassVar[str] = "miopenPoolingMax"

    def pool(self, dtype: np.dtype[Any], lens: Sequence[int], reaches: Sequence[int], mode: str, shape: Sequence[int],
             indices: bool = False, **more: Any) -> tuple[_Pooled, tuple[int, ...], str]:
        """Return run(x) -> (y of lengths `shape`, indices in the image or None), y's lengths and the solver's name."""
        desc = PoolingDescriptor(getattr(enums, mode), reaches, index_type=enums.miopenIndexUint64,
                                 index_mode=enums.miopenPoolingWorkspaceIndexImage, **more)
        x_desc = tensor(dtype, lens)
        y_desc = tensor(dtype, desc.output_lens(x_desc))
        plan = self.device.handle.pooling_forward(desc, x_desc, y_desc, do_backward=indices)

        def run(x: Value) -> tuple[Value, Value | None]:
            y = self.device.empty(shape, dtype)
            if not indices:
                plan(*(x.memory, y.memory, None)[:len(plan.buffers)])
                return y, None
            places = self.device.empty(y_desc.lens, np.dtype(np.int64))
            plan(x.memory, y.memory, places.bytes)
            return y, places

        return run, y_desc.lens, plan.solver.name


class MaxPool(_Pool):
    types = FLOATS | {"int8", "uint8"}

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        n = x.ndim - 2
        if not 1 <= n <= 3:
            raise Outside(f"{n} spatial axes")
        strides, dilations = a.strides or [1] * n, getattr(a, "dilations", None) or [1] * n
        begin, end, out = window(x.shape[2:], a.kernel_shape, strides, dilations, a, bool(getattr(a, "ceil_mode", 0)))
        space, reaches, steps, apart, first, last = (
            [fill] * (n == 1) + list(values) for fill, values in
            ((1, x.shape[2:]), (1, a.kernel_shape), (1, strides), (1, dilations), (0, begin), (0, end)))
        spans = [(k - 1) * d for k, d in zip(reaches, apart, strict=True)]
        last = [min(e, r) for e, r in zip(last, spans, strict=True)]  # strides may leave more of the pads out
        if min(*first, *last) < 0 or any(b > r for b, r in zip(first, spans, strict=True)):
            raise Outside("pads that a window fits into, or negative ones")
        lens, shape = (*x.shape[:2], *space), (*x.shape[:2], *out)
        dtype = x.dtype if x.dtype.name in FLOATS else np.dtype(np.float32)
        indices = len(self.onnx_node.output) > 1 and bool(self.onnx_node.output[1])
        mode = "miopenPoolingAverageInclusive" if getattr(a, "count_include_pad", 0) else self.mode
        inner, found, why = self.pool(dtype, lens, reaches, mode, shape, indices, pads=first, end_pads=last,
                                      strides=steps, dilations=apart, ceil_mode=bool(getattr(a, "ceil_mode", 0)))
        if found[-n:] != tuple(out):
            raise Outside("pads that a window fits into, or negative ones")

        def run(x: Value) -> tuple[Any, ...]:
            y, places = inner(x if x.dtype == dtype else self.device.wrap(x.host.astype(dtype)))
            if y.dtype != x.dtype:
                y = self.device.wrap(y.host.astype(x.dtype))
            if len(self.onnx_node.output) == 1:
                return (y,)
            if places is None:
                return y, None
            at = places.host
            if a.storage_order:
                at = np.ravel_multi_index(np.unravel_index(at, space)[::-1], space[::-1])
            image = np.arange(prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * len(space))
            return y, self.device.wrap((at + image * prod(space)).reshape(y.shape))

        return run, why


class AveragePool(MaxPool):
    mode = "miopenPoolingAverage"
    types = FLOATS


class GlobalMaxPool(_Pool):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        lens = four_or_five(x.shape)
        inner, _, why = self.pool(x.dtype, lens, lens[2:], self.mode, (*x.shape[:2], *[1] * (x.ndim - 2)))
        return lambda x: inner(x)[:1], why


class GlobalAveragePool(GlobalMaxPool):
    mode = "miopenPoolingAverage"
