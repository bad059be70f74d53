"""PyTorch's own kernels of CPUs, by ways that let other threads of Python run.

A kernel that `torch.library.get_kernel` lends is called with Python's lock held, which matters where it takes long.  An
operator that PyTorch calls by its name lets go of the lock; since the names that are taken would lead back, these are
others that do the same: variants that write to a given result, and newer names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten


def _writing(op: Callable[..., Any], **results: torch.dtype | None) -> Callable[..., Any]:
    """Return a call of a variant that resizes results without elements: their names and types, None for x's."""
    def call(_: object, x: torch.Tensor, *rest: Any) -> Any:
        return op(x, *rest, **{name: torch.empty(0, dtype=dtype or x.dtype, device="cpu")
                               for name, dtype in results.items()})
    return call


def _softmax_backward(op: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(_: object, dy: torch.Tensor, y: torch.Tensor, dim: int, dtype: torch.dtype) -> Any:
        return op(dy, y, dim, dtype, **{name: torch.empty(0, dtype=dtype, device="cpu")})
    return call


def _batch_norm(keys: object, x: torch.Tensor, w: Any, b: Any, mean: Any, var: Any, *rest: Any) -> Any:
    if mean is None and var is None:
        return _aten._native_batch_norm_legit.no_stats(x, w, b, *rest)
    if mean is None or var is None:
        return NotImplemented
    return _aten._native_batch_norm_legit.default(x, w, b, mean, var, *rest)


def _batch_norm_backward(keys: object, dy: torch.Tensor, x: torch.Tensor, w: Any, mean: Any, var: Any,
                         saved_mean: Any, saved_inverse: Any, training: bool, epsilon: float,
                         mask: list[bool]) -> Any:
    if w is None:
        return NotImplemented
    reserve = torch.empty(0, dtype=torch.uint8, device="cpu")
    found = _aten.batch_norm_backward.default(dy, x, w, mean, var, saved_mean, saved_inverse, training, epsilon, mask,
                                              reserve)
    return tuple(gradient if wanted else None for gradient, wanted in zip(found, mask, strict=True))


# What takes an operator's set of dispatch keys and arguments; NotImplemented where it cannot.
CALLS: dict[str, Callable[..., Any]] = {
    "native_batch_norm": _batch_norm,
    "native_batch_norm_backward": _batch_norm_backward,
    "_softmax": _writing(_aten._softmax.out, out=None),
    "_log_softmax": _writing(_aten._log_softmax.out, out=None),
    "_softmax_backward_data": _softmax_backward(_aten._softmax_backward_data.out, "grad_input"),
    "_log_softmax_backward_data": _softmax_backward(_aten._log_softmax_backward_data.out, "out"),
    **{f"avg_pool{n}d": _writing(getattr(_aten, f"avg_pool{n}d").out, out=None) for n in (2, 3)},
    **{f"avg_pool{n}d_backward": _writing(getattr(_aten, f"avg_pool{n}d_backward").grad_input, grad_input=None)
       for n in (2, 3)},
    **{f"max_pool{n}d_with_indices": _writing(getattr(_aten, f"max_pool{n}d_with_indices").out, out=None,
                                              indices=torch.int64) for n in (2, 3)},
    **{f"max_pool{n}d_with_indices_backward": _writing(getattr(_aten, f"max_pool{n}d_with_indices_backward").grad_input,
                                                       grad_input=None) for n in (2, 3)},
}
