"""Convolutions of 8-bit integers: the products and sums on the device, zero points and scales in NumPy.

MIOpen's int8 is signed, so what is unsigned is taken 128 less, and its zero point too.  Then

    sum (x - p) (w - q) = sum x w - p sum w - q sum x + K p q

over the K elements of a window, where the sums of x are a convolution with ones, done only where q is not 0.  Pads are
p, put around x where p is not 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from miopyx import ConvolutionDescriptor
from miopyx.errors import BadParmError

from .convolution import fit, geometry, window
from .nodes import Node, Run
from .values import Array, Value, tensor

__all__ = ["ConvInteger", "QLinearConv"]

_INTEGERS = frozenset({"int8", "uint8"})


def _signed(array: Array) -> Array:
    """Return 8-bit integers less 128 where they are unsigned."""
    return array if array.dtype == np.int8 else (array ^ np.uint8(128)).view(np.int8)


def _zero_point(value: Value | None, like: Value, name: str, counts: Sequence[int]) -> Array:
    """Return one zero point, or one of each channel, for integers made signed."""
    if value is None:
        return np.array([0 if like.dtype == np.int8 else -128], np.int32)
    if value.dtype != like.dtype or value.size not in counts:
        raise BadParmError("type or number of zero points", name, (value.dtype.name, value.shape),
                           (like.dtype.name, tuple(counts)))
    return _signed(value.host.reshape(-1)).astype(np.int32)


class ConvInteger(Node):
    types = _INTEGERS

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x, w = inputs[:2]
        inner, why = self.sums(x, w, a)
        k = w.shape[0]

        def run(x: Value, w: Value, p: Value | None = None, q: Value | None = None) -> tuple[Any, ...]:
            return (self.device.wrap(inner(x, w, _zero_point(p, x, "x_zero_point", (1,)),
                                           _zero_point(q, w, "w_zero_point", (1, k)))),)

        return run, why

    def sums(self, x: Value, w: Value, a: SimpleNamespace) -> tuple[Callable[..., Array], str]:
        """Return run(x, w, zero point of x, those of w) -> int32 sums, and the names of the solvers."""
        if w.dtype.name not in _INTEGERS:
            raise BadParmError("type of the weights", "w", w.dtype.name, "int8 or uint8")
        n, strides, dilations = geometry(x.ndim, w.ndim, a)
        begin, end, _ = window(x.shape[2:], w.shape[2:], strides, dilations, a)
        conv = ConvolutionDescriptor([0] * n, strides, dilations, groups=a.group)
        lens = [length + b + e for length, b, e in zip(x.shape[2:], begin, end, strict=True)]
        x_desc, signed, sums = tensor(np.dtype(np.int8), (*x.shape[:2], *lens)), np.dtype(np.int8), np.dtype(np.int32)
        w_desc, ones_desc = tensor(signed, w.shape), tensor(signed, (a.group, *w.shape[1:]))
        y_desc, s_desc = (tensor(sums, conv.output_lens(x_desc, desc)) for desc in (w_desc, ones_desc))
        device, k, terms = self.device, w.shape[0], prod(w.shape[1:])
        plan = device.handle.convolution_forward(x_desc, w_desc, conv, y_desc)
        totals: list[Any] = []  # the plan of the sums of x, and its weights, once they are needed
        weights = device.constant(_signed(w.host)) if w.constant else None
        if weights is not None:
            plan.pack(weights.memory)

        def run(x: Value, w: Value, p: Array, q: Array) -> Array:
            image = _signed(x.host)
            if any(begin) or any(end):
                image = fit(image, begin, end, int(p[0]))
            taken, y = device.wrap(image), device.empty(y_desc.lens, sums)
            used = weights or device.wrap(_signed(w.host))
            device.call(plan, taken, used, y)
            result = y.host
            each = (k, *[1] * n)
            if p[0]:
                result -= p[0] * used.host.sum(axis=tuple(range(1, n + 2)), dtype=np.int32).reshape(each)
            if q.any():
                if not totals:
                    totals.append(device.handle.convolution_forward(x_desc, ones_desc, conv, s_desc))
                    totals.append(device.constant(np.ones(ones_desc.lens, np.int8)))
                s = device.empty(s_desc.lens, sums)
                device.call(totals[0], taken, totals[1], s)
                less = np.repeat(s.host - np.int32(terms) * p[0], k // s_desc.lens[1], axis=1)
                result -= less * np.broadcast_to(q, k).reshape(each)
            return result

        return run, plan.solver.name


class QLinearConv(ConvInteger):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x, w = inputs[0], inputs[3]
        inner, why = self.sums(x, w, a)
        k, each = w.shape[0], (w.shape[0], *[1] * (x.ndim - 2))
        to = x.dtype if inputs[7] is None else inputs[7].dtype
        for name, value, counts in (("x_scale", inputs[1], (1,)), ("w_scale", inputs[4], (1, k)),
                                    ("y_scale", inputs[6], (1,)), ("B", (*inputs, None)[8], (k,))):
            if value is not None and value.size not in counts:
                raise BadParmError("how many numbers", name, value.shape, counts)
        if to.name not in _INTEGERS:
            raise BadParmError("type of the result", "y_zero_point", to.name, "int8 or uint8")
        limits = np.iinfo(to)

        def run(x: Value, x_scale: Value, x_zero: Value | None, w: Value, w_scale: Value, w_zero: Value | None,
                y_scale: Value, y_zero: Value | None, bias: Value | None = None) -> tuple[Any, ...]:
            sums = inner(x, w, _zero_point(x_zero, x, "x_zero_point", (1,)),
                         _zero_point(w_zero, w, "w_zero_point", (1, k)))
            if bias is not None:
                sums += bias.host.reshape(each)
            scale, factors, last = (v.host.reshape(-1) for v in (x_scale, w_scale, y_scale))
            factor = np.broadcast_to(scale * factors / last, k).reshape(each)
            result = np.rint(sums * factor.astype(np.float64))
            if y_zero is not None:
                result += y_zero.host.reshape(())
            return (self.device.wrap(np.clip(result, limits.min, limits.max).astype(to)),)

        return run, why
