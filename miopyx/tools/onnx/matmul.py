"""Products of matrices, as convolutions of one pixel windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.errors import BadParmError

from .convolution import Epilogue, convolve
from .nodes import Node, Outside, Run
from .shapes import transposing
from .values import Value, tensor

__all__ = ["Gemm", "MatMul"]


def _rows(dtype: np.dtype[Any], m: int, columns: int) -> TensorDescriptor:
    """Return m rows of a matrix as pixels, whose channels lie side by side."""
    return TensorDescriptor(dtype.name, (1, columns, 1, m), (m * columns, 1, m * columns, columns))


class _Product(Node):
    def linear(self, m: int, k: int, n: int, w: Value, bias: Value | None, after: Epilogue, shape: Sequence[int],
               alpha1: float = 1.0, alpha2: float = 1.0) -> tuple[Run, str]:
        """Return run(a, w, bias, (), added) of a w^T + bias, and the solver's name; a has m rows, w n, both of k."""
        if w.size == 0 or m == 0:
            raise Outside("empty tensor")
        added = tuple([_as_rows(v, shape, m, n) for v in after.added])
        return convolve(self, _rows(w.dtype, m, k), tensor(w.dtype, (n, k, 1, 1)), ConvolutionDescriptor((0, 0)),
                        _rows(w.dtype, m, n), w, bias, Epilogue(None, added, after.function), shape, alpha1, alpha2)


def _as_rows(value: Value, shape: Sequence[int], m: int, n: int) -> Value:
    """Return what is added to a product under the lengths of its convolution; a vector belongs to the columns."""
    if value.shape == tuple(shape):
        lens: tuple[int, ...] = (1, n, 1, m)
    elif value.size == n and value.shape[-1:] == (n,) and value.ndim <= len(shape):
        lens = (1, n, 1, 1)
    elif value.size == 1 and value.ndim <= len(shape):
        lens = (1, 1, 1, 1)
    else:
        raise Outside(f"adds {value.dtype.name} of {value.shape} to {tuple(shape)}")
    return value.named(lens)


class MatMul(_Product):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace, after: Epilogue | None = None) -> tuple[Run, str]:
        x, y = inputs
        if y.dtype != x.dtype:
            raise BadParmError("types differ", "B", y.dtype.name, x.dtype.name)
        if y.size == 0:
            raise Outside("empty tensor")
        if x.ndim == 0 or y.ndim == 0:
            raise BadParmError("a product of numbers", "A, B", (x.shape, y.shape), "at least one axis")
        left = (1, *x.shape) if x.ndim == 1 else x.shape
        right = (*y.shape, 1) if y.ndim == 1 else y.shape
        (m, k), n = left[-2:], right[-1]
        if right[-2] != k:
            raise BadParmError("lengths of the axis that is summed differ", "B", y.shape, f"{k} numbers to sum")
        batch = np.broadcast_shapes(left[:-2], right[:-2])
        shape = (*batch, *([] if x.ndim == 1 else [m]), *([] if y.ndim == 1 else [n]))
        if len(right) == 2 and y.constant:
            # The numbers of B are the weights, and rows of A pixels: what follows has a number for each column.
            w = self.device.constant(np.ascontiguousarray(y.host.T))
            inner, why = self.linear(prod(left[:-1]), k, n, w, None, after or Epilogue(), shape)
            return lambda x, _y, *rest: inner(x, w, *rest), why
        # B is the image, and A the weights, so that nothing is transposed.
        after = after or Epilogue()
        if any(v.shape != shape for v in after.added):
            raise Outside("adds a tensor of other lengths to a product of two that change")
        groups = prod(left[:-2])
        if prod(right[:-2]) == 1:
            images, groups, m = 1, 1, groups * m
        elif groups == 1:
            images = prod(right[:-2])
        elif left[:-2] == right[:-2]:
            images = 1
        else:
            raise Outside("matrices are repeated")
        x_desc = tensor(x.dtype, (images, groups * k, 1, n))
        w_desc = tensor(x.dtype, (groups * m, k, 1, 1))
        y_desc = tensor(x.dtype, (images, groups * m, 1, n))
        added = tuple([v.named(y_desc.lens) for v in after.added])
        inner, why = convolve(self, x_desc, w_desc, ConvolutionDescriptor((0, 0), groups=groups), y_desc, x, None,
                              Epilogue(None, added, after.function), shape)
        return lambda x, y, *rest: inner(y, x, *rest), why


class Gemm(_Product):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace, after: Epilogue | None = None) -> tuple[Run, str]:
        x, y, c = (*inputs, None)[:3]
        for name, value in (("A", x), ("B", y)):
            if value.ndim != 2:
                raise BadParmError("rank of a matrix", name, value.ndim, 2)
            if value.dtype != x.dtype:
                raise BadParmError("types differ", name, value.dtype.name, x.dtype.name)
        (m, k), (n, inside) = (x.shape[::-1] if a.transA else x.shape), (y.shape if a.transB else y.shape[::-1])
        if inside != k:
            raise BadParmError("lengths of the axis that is summed differ", "B", y.shape, f"{k} numbers to sum")
        after, c = after or Epilogue(), None if a.beta == 0 else c
        as_row = c is not None and c.shape in ((n,), (1, n)) and (c.constant or a.beta == 1)
        bias, added, row, whole = None, after.added, None, None
        if c is not None:
            if self.opset < 7 and not getattr(a, "broadcast", 0) and c.shape != (m, n):
                raise BadParmError("lengths are not the product's", "C", c.shape, (m, n))
            if c.dtype != x.dtype:
                raise BadParmError("types differ", "C", c.dtype.name, x.dtype.name)
            if as_row:
                bias = row = self._times(c, a.beta) if c.constant else c
            elif added:
                raise Outside("C is no row of constants, and another tensor is added")
            else:
                whole = self._whole(c, m, n)
                added = (whole,)
        # The rows of B, or of its transpose, are the weights.
        weights = y if a.transB else self._transposed(y) if y.constant else Value(self.device, (n, k), x.dtype)
        inner, why = self.linear(m, k, n, weights, bias, Epilogue(None, added, after.function), (m, n), float(a.alpha),
                                 float(a.beta) if whole is not None else 1.0)
        turn_x = transposing(self.device, x, (1, 0)) if a.transA else None
        turn_y = transposing(self.device, y, (1, 0)) if not a.transB and not y.constant else None

        def run(x: Value, y: Value, given: Value | None = None, norm: Sequence[Value] = (),
                added: Sequence[Value] = ()) -> tuple[Any, ...]:
            x = x if turn_x is None else turn_x(x)
            y = weights if weights.constant else y if turn_y is None else turn_y(y)
            if whole is not None and given is not None:
                added = (whole if whole.constant else self._whole(given, m, n),)
            return inner(x, y, row if row is not None and row.constant else given if as_row else None, norm, added)

        return run, why

    def _times(self, value: Value, factor: float) -> Value:
        return self.device.constant((value.host.astype(np.float64) * factor).astype(value.dtype))

    def _transposed(self, value: Value) -> Value:
        return self.device.constant(np.ascontiguousarray(value.host.T))

    def _whole(self, value: Value, m: int, n: int) -> Value:
        """Return C with all its elements."""
        if value.shape == (m, n):
            return value
        try:
            array = np.ascontiguousarray(np.broadcast_to(value.host, (m, n)))
        except ValueError:
            raise BadParmError("lengths", "C", value.shape, f"1 or those of {(m, n)}") from None
        return self.device.constant(array) if value.constant else self.device.wrap(array)
