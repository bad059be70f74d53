"""torch.ops.miopyx: convolutions that are ours whatever they take, for models that ask for them by name.

    convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups)
    convolution_backward_data(dy, w, size, stride, padding, dilation, transposed, output_padding, groups)
    convolution_backward_weights(dy, x, size, stride, padding, dilation, transposed, output_padding, groups)

Arguments are those of ``aten::convolution``; `size` has the lengths of the gradient.  A convolution is linear in x and
in w, so the three are each other's gradients, and any of them can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import _convolution
from ._dispatch import Differentiable

NUMBERS = ("SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, "
           "SymInt groups")
_Numbers = tuple[Any, ...]

library = torch.library.Library("miopyx", "DEF")
library.define(f"convolution(Tensor x, Tensor w, Tensor? bias, {NUMBERS}) -> Tensor")
library.define(f"convolution_backward_data(Tensor dy, Tensor w, SymInt[] size, {NUMBERS}) -> Tensor")
library.define(f"convolution_backward_weights(Tensor dy, Tensor x, SymInt[] size, {NUMBERS}) -> Tensor")
for device in ("CPU", "CUDA"):
    library.impl("convolution", _convolution.forward, device)
    library.impl("convolution_backward_data", _convolution.backward_data, device)
    library.impl("convolution_backward_weights", _convolution.backward_weights, device)

_forward = torch.ops.miopyx.convolution.default
_data = torch.ops.miopyx.convolution_backward_data.default
_weights = torch.ops.miopyx.convolution_backward_weights.default


# Shapes, for compilers


def like(x: torch.Tensor, lens: Sequence[Any]) -> torch.Tensor:
    """Return an empty tensor in the order of x's axes: channels last where x has that, else C order."""
    if (x.dim() > 2 and not x.is_contiguous() and x.size(1) != 1 and x.stride(1) == 1
            and all(x.stride(i) >= x.stride(i + 1) for i in range(2, x.dim() - 1))):
        return x.new_empty((lens[0], *lens[2:], lens[1])).movedim(-1, 1)
    return x.new_empty(lens)


@torch.library.register_fake("miopyx::convolution", lib=library)
def fake_convolution(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, stride: Sequence[Any],
                  padding: Sequence[Any], dilation: Sequence[Any], transposed: bool, output_padding: Sequence[Any],
                  groups: Any) -> torch.Tensor:
    torch._check(x.dim() == len(stride) + 2 and w.dim() == x.dim(), lambda: "x and w have two axes beside the strides'")
    spatial = []
    for i in range(len(stride)):
        reach = dilation[i] * (w.size(2 + i) - 1) + 1
        spatial.append((x.size(2 + i) - 1) * stride[i] - 2 * padding[i] + reach + output_padding[i] if transposed
                       else (x.size(2 + i) + 2 * padding[i] - reach) // stride[i] + 1)
    return like(x, (x.size(0), w.size(1) * groups if transposed else w.size(0), *spatial))


@torch.library.register_fake("miopyx::convolution_backward_data", lib=library)
def _fake_data(dy: torch.Tensor, w: torch.Tensor, size: Sequence[Any], *numbers: Any) -> torch.Tensor:
    return like(dy, size)


@torch.library.register_fake("miopyx::convolution_backward_weights", lib=library)
def _fake_weights(dy: torch.Tensor, x: torch.Tensor, size: Sequence[Any], *numbers: Any) -> torch.Tensor:
    return like(x, size)


# Gradients


class _Linear(torch.autograd.Function):
    """One of the three: linear in its two tensors.  Subclasses say which, and whose gradients the others are."""

    op: Any
    gradients: Any  # of (result's gradient, first, second, numbers), each None where it is not wanted

    @classmethod
    def forward(cls, ctx: Any, first: torch.Tensor, second: torch.Tensor, third: Any, *numbers: Any) -> torch.Tensor:
        ctx.save_for_backward(first, second)
        ctx.third, ctx.numbers = third is not None, numbers
        with torch._C._AutoDispatchBelowAutograd():
            return cls.op(first, second, third, *numbers)

    @classmethod
    def backward(cls, ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
        first, second = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        one, other = cls.gradients
        bias = cls is _Forward and ctx.third and wanted[2]
        return (one(g, first, second, ctx.numbers) if wanted[0] else None,
                other(g, first, second, ctx.numbers) if wanted[1] else None,
                g.sum((0, *range(2, g.dim()))) if bias else None, *(None,) * len(ctx.numbers))


class _Forward(_Linear):
    op = _forward
    gradients = (lambda g, x, w, numbers: _data(g, w, x.shape, *numbers),
                 lambda g, x, w, numbers: _weights(g, x, w.shape, *numbers))


class _Data(_Linear):
    op = _data
    gradients = (lambda g, dy, w, numbers: _forward(g, w, None, *numbers),
                 lambda g, dy, w, numbers: _weights(dy, g, w.shape, *numbers))


class _Weights(_Linear):
    op = _weights
    gradients = (lambda g, dy, x, numbers: _forward(x, g, None, *numbers),
                 lambda g, dy, x, numbers: _data(dy, g, x.shape, *numbers))


for name, function, compute, tensors in (
        ("convolution", _Forward, _convolution.forward, 3),
        ("convolution_backward_data", _Data, _convolution.backward_data, 2),
        ("convolution_backward_weights", _Weights, _convolution.backward_weights, 2)):
    library.impl(name, Differentiable(function, compute, tensors), "Autograd")


def autocast(name: str, tensors: int) -> None:
    """Let an operator compute in autocast's type, as PyTorch's own convolutions do; it takes `tensors` tensors."""
    op = getattr(torch.ops.miopyx, name).default

    def compute(*args: Any) -> Any:
        dtype = torch.get_autocast_dtype(args[0].device.type)
        cast = [t.to(dtype) if t is not None and t.dtype == torch.float32 else t for t in args[:tensors]]
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return op(*cast, *args[tensors:])

    for key in ("AutocastCPU", "AutocastCUDA"):
        library.impl(name, compute, key)


_AUTOCAST = (torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
             | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA))
autocast("convolution", 3)
