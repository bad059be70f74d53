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
            w = self.device.constant(np.ascontiguousarray(y.host.T) if y.ndim == 2 else y.host)
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
        if y.dtype != x.dtype:
            raise BadParmError("types differ", "B", y.dtype.name, x.dtype.name)
        (m, k), (n, inside) = (x.shape[::-1] if a.transA else x.shape), (y.shape if a.transB else y.shape[::-1])
        if inside != k:
            raise BadParmError("lengths of the axis that is summed differ", "B", y.shape, f"{k} numbers to sum")
        if k == 0:
            raise Outside("empty tensor")
        after, bias, fixed = after or Epilogue(), None, None
        alpha, beta = float(a.alpha), float(a.beta)
        added = after.added
        as_bias = False
        if c is not None and beta != 0:
            if self.opset < 7 and not getattr(a, "broadcast", 0) and c.shape != (m, n):
                raise BadParmError("lengths are not the product's", "C", c.shape, (m, n))
            if c.dtype != x.dtype or c.ndim > 2:
                raise Outside(f"C is a {c.dtype.name} tensor of {c.shape}")
            if c.constant and (c.shape in ((n,), (1, n)) or c.size == 1):
                wide = np.broadcast_to(c.host.reshape(-1), n).astype(np.float64) * beta
                fixed = bias = self.device.constant(wide.astype(x.dtype))
            elif c.shape in ((n,), (1, n)) and beta == 1 and n > 1:
                bias, as_bias = c, True
            else:
                if added:
                    raise Outside("C is a matrix, and another is added")
                added = (c if c.shape == (m, n) else self.device.wrap(np.broadcast_to(c.host, (m, n))),)
        turn_x = transposing(self.device, x, (1, 0)) if a.transA else None
        turn_y = None if a.transB else transposing(self.device, y, (1, 0)) if not y.constant else None
        w = self.device.constant(np.ascontiguousarray(y.host.T)) if y.constant and not a.transB else None
        stands = w or (y if a.transB else None)
        inner, why = self.linear(m, k, n, stands or self.device.empty((n, k), x.dtype), bias,
                                 Epilogue(None, added, after.function), (m, n), alpha,
                                 beta if added is not after.added else 1.0)
        taken = added is not after.added

        def run(x: Value, y: Value, c: Value | None = None, norm: Sequence[Value] = (),
                added: Sequence[Value] = ()) -> tuple[Any, ...]:
            if turn_x is not None:
                x = turn_x(x)
            y = w if w is not None else y if turn_y is None else turn_y(y)
            if taken:
                assert c is not None
                added = (c if c.shape == (m, n) else self.device.wrap(np.ascontiguousarray(
                    np.broadcast_to(c.host, (m, n)))),)
            return inner(x, y, fixed or (c if as_bias else None), norm, added)

        return run, why
