"""torch.ops.miopyx: the layers between convolutions, ours whatever they take.

    batch_norm_training(x, weight, bias, running_mean, running_var, momentum, eps) -> (y, mean, inverse)
    batch_norm_inference(x, weight, bias, mean, var, eps) -> y
    batch_norm_backward(dy, x, weight, mean, inverse, eps) -> (dx, dw, db)
    max_pool(x, kernel_size, stride, padding, dilation, ceil_mode) -> y
    max_pool_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode) -> (y, indices)
    max_pool_backward(dy, indices, size, kernel_size, stride, padding, dilation, ceil_mode) -> dx
    avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) -> y
    avg_pool_backward(dy, size, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) -> dx
    softmax(x, dim) -> y
    log_softmax(x, dim) -> y
    softmax_backward(dy, y, dim) -> dx
    log_softmax_backward(dy, y, dim) -> dx
    local_response_norm(x, size, alpha, beta, k) -> (y, scale)
    local_response_norm_backward(dy, x, y, scale, size, alpha, beta, k) -> dx
    activation(x, mode, alpha, beta, gamma) -> y
    activation_backward(dy, x, y, mode, alpha, beta, gamma) -> dx
    convolution_activation(x, w, bias, z, mode, alpha, beta, gamma, stride, padding, dilation, transposed,
                           output_padding, groups) -> y

Arguments are those of PyTorch's functions of these names; `activation` takes the names and numbers of
miopenActivationMode_t, `size` of a gradient is the lengths of x.  Batch norm's parameters are float32, float64 for
float64; it moves running_mean and running_var.  `inverse` is 1 / sqrt(variance + eps), `scale` what the gradient wants.
convolution_activation is act(convolution(...) + z) in one call, where bias and z may be None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from miopyx.problem._activation import ActivationDescriptor

from . import _activation, _batch_norm, _convolution, _pooling, _softmax
from ._dispatch import Differentiable
from .ops import NUMBERS, autocast, fake_convolution, library, like

_POOL = "SymInt[] kernel_size, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool ceil_mode"
_AVERAGE = ("SymInt[] kernel_size, SymInt[] stride, SymInt[] padding, bool ceil_mode, bool count_include_pad, "
            "int? divisor_override")
_LRN = "int size, float alpha, float beta, float k"
_ACTIVATION = "str mode, float alpha, float beta, float gamma"

# What they take and return, and their kernels.
_OPERATORS: dict[str, Callable[..., Any]] = {
    "batch_norm_training(Tensor x, Tensor? weight, Tensor? bias, Tensor(a!)? running_mean, Tensor(b!)? running_var, "
    "float momentum, float eps) -> (Tensor, Tensor, Tensor)": _batch_norm.training,
    "batch_norm_inference(Tensor x, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps) -> Tensor":
        _batch_norm.inference,
    "batch_norm_backward(Tensor dy, Tensor x, Tensor? weight, Tensor mean, Tensor inverse, float eps) -> "
    "(Tensor, Tensor, Tensor)": _batch_norm.backward,
    f"max_pool(Tensor x, {_POOL}) -> Tensor": _pooling.max_pool,
    f"max_pool_with_indices(Tensor x, {_POOL}) -> (Tensor, Tensor)": _pooling.max_pool_with_indices,
    f"max_pool_backward(Tensor dy, Tensor indices, SymInt[] size, {_POOL}) -> Tensor": _pooling.max_pool_backward,
    f"avg_pool(Tensor x, {_AVERAGE}) -> Tensor": _pooling.avg_pool,
    f"avg_pool_backward(Tensor dy, SymInt[] size, {_AVERAGE}) -> Tensor": _pooling.avg_pool_backward,
    "softmax(Tensor x, int dim) -> Tensor": _softmax.forward,
    "log_softmax(Tensor x, int dim) -> Tensor": _softmax.log_forward,
    "softmax_backward(Tensor dy, Tensor y, int dim) -> Tensor": _softmax.backward,
    "log_softmax_backward(Tensor dy, Tensor y, int dim) -> Tensor": _softmax.log_backward,
    f"local_response_norm(Tensor x, {_LRN}) -> (Tensor, Tensor)": _activation.normalise,
    f"local_response_norm_backward(Tensor dy, Tensor x, Tensor y, Tensor scale, {_LRN}) -> Tensor":
        _activation.normalise_backward,
    f"activation(Tensor x, {_ACTIVATION}) -> Tensor": _activation.forward,
    f"activation_backward(Tensor dy, Tensor x, Tensor y, {_ACTIVATION}) -> Tensor": _activation.backward,
    f"convolution_activation(Tensor x, Tensor w, Tensor? bias, Tensor? z, {_ACTIVATION}, {NUMBERS}) -> Tensor":
        _convolution.forward_activated,
}
_kernels: dict[str, Callable[..., Any]] = {}
for schema, kernel in _OPERATORS.items():
    name = library.define(schema)
    _kernels[name] = kernel
    for device in ("CPU", "CUDA"):
        library.impl(name, kernel, device)

_ops = torch.ops.miopyx


# Shapes, for compilers


def _parameters(x: Tensor) -> Tensor:
    return x.new_empty(x.size(1), dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)


def _fake_training(x: Tensor, *others: Any) -> tuple[Tensor, ...]:
    return like(x, x.shape), _parameters(x), _parameters(x)


def _fake_inference(x: Tensor, *others: Any) -> Tensor:
    return like(x, x.shape)


def _fake_norm_backward(dy: Tensor, x: Tensor, *others: Any) -> tuple[Tensor, ...]:
    return like(x, x.shape), _parameters(x), _parameters(x)


def _pooled(x: Tensor, kernel_size: Sequence[Any], stride: Sequence[Any], padding: Sequence[Any],
            dilation: Sequence[Any], ceil_mode: bool) -> list[Any]:
    torch._check(x.dim() == len(kernel_size) + 2, lambda: "x has two axes beside the window's")
    lens = [x.size(0), x.size(1)]
    for i in range(len(kernel_size)):
        step = (stride or kernel_size)[i]
        rest = x.size(2 + i) + 2 * padding[i] - dilation[i] * (kernel_size[i] - 1) - 1
        count = (rest + (step - 1 if ceil_mode else 0)) // step + 1
        if ceil_mode and (count - 1) * step >= x.size(2 + i) + padding[i]:
            count = count - 1  # the last window begins behind x
        lens.append(count)
    return lens


def _fake_max(x: Tensor, *numbers: Any) -> Tensor:
    return like(x, _pooled(x, *numbers))


def _fake_max_with_indices(x: Tensor, *numbers: Any) -> tuple[Tensor, Tensor]:
    y = like(x, _pooled(x, *numbers))
    return y, torch.empty_like(y, dtype=torch.int64)


def _fake_max_backward(dy: Tensor, indices: Tensor, size: Sequence[Any], *numbers: Any) -> Tensor:
    return like(dy, size)


def _fake_average(x: Tensor, kernel_size: Sequence[Any], stride: Sequence[Any], padding: Sequence[Any],
                  ceil_mode: bool, *others: Any) -> Tensor:
    return like(x, _pooled(x, kernel_size, stride, padding, [1] * len(kernel_size), ceil_mode))


def _fake_average_backward(dy: Tensor, size: Sequence[Any], *numbers: Any) -> Tensor:
    return like(dy, size)


def _fake_first(x: Tensor, *others: Any) -> Tensor:
    return torch.empty_like(x)


def _fake_second(dy: Tensor, x: Tensor, *others: Any) -> Tensor:
    return torch.empty_like(x)


def _fake_response(x: Tensor, *numbers: Any) -> tuple[Tensor, Tensor]:
    y = like(x, x.shape)
    return y, torch.empty_like(y, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)


def _fake_response_backward(dy: Tensor, x: Tensor, *others: Any) -> Tensor:
    return like(x, x.shape)


def _fake_activated(x: Tensor, w: Tensor, bias: Tensor | None, z: Tensor | None, mode: str, alpha: float, beta: float,
                    gamma: float, *numbers: Any) -> Tensor:
    y = fake_convolution(x, w, bias, *numbers)
    return y if z is None else torch.empty_like(z)


_FAKES: dict[str, Callable[..., Any]] = {
    "batch_norm_training": _fake_training, "batch_norm_inference": _fake_inference,
    "batch_norm_backward": _fake_norm_backward, "max_pool": _fake_max, "max_pool_with_indices": _fake_max_with_indices,
    "max_pool_backward": _fake_max_backward, "avg_pool": _fake_average, "avg_pool_backward": _fake_average_backward,
    "softmax": _fake_first, "log_softmax": _fake_first, "softmax_backward": _fake_second,
    "log_softmax_backward": _fake_second, "local_response_norm": _fake_response,
    "local_response_norm_backward": _fake_response_backward, "activation": _fake_first,
    "activation_backward": _fake_second, "convolution_activation": _fake_activated,
}
for name, fake in _FAKES.items():
    torch.library.register_fake(f"miopyx::{name}", fake, lib=library)


# Gradients


class _Function(torch.autograd.Function):
    """An operator with a gradient.  `forward` runs the operator below autograd and keeps what the gradient takes."""

    op: Any

    @classmethod
    def below(cls, *args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return cls.op(*args)


class _Training(_Function):
    op = _ops.batch_norm_training.default

    @classmethod
    def forward(cls, ctx: Any, x: Tensor, weight: Any, bias: Any, mean: Any, var: Any, momentum: float,
                eps: float) -> Any:
        found = cls.below(x, weight, bias, mean, var, momentum, eps)
        ctx.save_for_backward(x, weight, *found[1:])
        ctx.mark_non_differentiable(*found[1:])
        ctx.eps = eps
        return found

    @classmethod
    @once_differentiable
    def backward(cls, ctx: Any, dy: Tensor, *others: Any) -> tuple[Any, ...]:
        x, weight, mean, inverse = ctx.saved_tensors
        found = _ops.batch_norm_backward(dy, x, weight, mean, inverse, ctx.eps)
        return *(g if wanted else None for g, wanted in zip(found, ctx.needs_input_grad, strict=False)), *(None,) * 4


class _Inference(_Function):
    op = _ops.batch_norm_inference.default

    @classmethod
    def forward(cls, ctx: Any, x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, eps: float) -> Any:
        ctx.save_for_backward(x, weight, mean, var)
        ctx.eps = eps
        return cls.below(x, weight, bias, mean, var, eps)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        x, weight, mean, var = ctx.saved_tensors
        lens, rest = (1, -1, *(1,) * (x.dim() - 2)), [0, *range(2, x.dim())]
        inverse = (var + ctx.eps).rsqrt()
        scale = inverse if weight is None else inverse * weight
        dx, dw, db, *_ = ctx.needs_input_grad
        g = dy.to(inverse.dtype)
        centred = x.to(inverse.dtype) - mean.view(lens)
        return ((g * scale.view(lens)).to(x.dtype) if dx else None,
                (g * centred).sum(rest) * inverse if dw else None, g.sum(rest) if db else None, None, None, None)


class _Max(_Function):
    op = _ops.max_pool_with_indices.default

    @classmethod
    def forward(cls, ctx: Any, x: Tensor, *numbers: Any) -> Any:
        y, indices = cls.below(x, *numbers)
        ctx.save_for_backward(indices)
        ctx.mark_non_differentiable(indices)
        ctx.size, ctx.numbers = x.shape, numbers
        return y, indices

    @classmethod
    @once_differentiable
    def backward(cls, ctx: Any, dy: Tensor, *others: Any) -> tuple[Any, ...]:
        indices, = ctx.saved_tensors
        return _ops.max_pool_backward(dy, indices, ctx.size, *ctx.numbers), *(None,) * len(ctx.numbers)


class _MaxAlone(_Max):
    op = _ops.max_pool.default

    @classmethod
    def forward(cls, ctx: Any, x: Tensor, *numbers: Any) -> Any:
        return _Max.forward(ctx, x, *numbers)[0]

    @classmethod
    def apply(cls, *args: Any) -> Any:
        return _Max.apply(*args)[0]


class _Average(_Function):
    """Linear, so it and its gradient are each other's."""

    op = _ops.avg_pool.default

    @classmethod
    def forward(cls, ctx: Any, x: Tensor, *numbers: Any) -> Any:
        ctx.size, ctx.numbers = x.shape, numbers
        return cls.below(x, *numbers)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        return _ops.avg_pool_backward(dy, ctx.size, *ctx.numbers), *(None,) * len(ctx.numbers)


class _AverageBackward(_Function):
    op = _ops.avg_pool_backward.default

    @classmethod
    def forward(cls, ctx: Any, dy: Tensor, size: Any, *numbers: Any) -> Any:
        ctx.numbers = numbers
        return cls.below(dy, size, *numbers)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        return _ops.avg_pool(g, *ctx.numbers), None, *(None,) * len(ctx.numbers)


class _Softmax(_Function):
    op = _ops.softmax.default
    gradient = _ops.softmax_backward.default

    @classmethod
    def forward(cls, ctx: Any, x: Tensor, dim: int) -> Any:
        y = cls.below(x, dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @classmethod
    @once_differentiable
    def backward(cls, ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        y, = ctx.saved_tensors
        return cls.gradient(dy, y, ctx.dim), None


class _LogSoftmax(_Softmax):
    op = _ops.log_softmax.default
    gradient = _ops.log_softmax_backward.default


class _Response(_Function):
    op = _ops.local_response_norm.default

    @classmethod
    def forward(cls, ctx: Any, x: Tensor, *numbers: Any) -> Any:
        y, scale = cls.below(x, *numbers)
        ctx.save_for_backward(x, y, scale)
        ctx.mark_non_differentiable(scale)
        ctx.numbers = numbers
        return y, scale

    @classmethod
    @once_differentiable
    def backward(cls, ctx: Any, dy: Tensor, *others: Any) -> tuple[Any, ...]:
        return _ops.local_response_norm_backward(dy, *ctx.saved_tensors, *ctx.numbers), *(None,) * 4


class _Activation(_Function):
    op = _ops.activation.default

    @classmethod
    def forward(cls, ctx: Any, x: Tensor, *numbers: Any) -> Any:
        y = cls.below(x, *numbers)
        ctx.save_for_backward(x, y)
        ctx.numbers = numbers
        return y

    @classmethod
    @once_differentiable
    def backward(cls, ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        return _ops.activation_backward(dy, *ctx.saved_tensors, *ctx.numbers), *(None,) * 4


class _Activated(_Function):
    """What the activation was given is computed again where its gradient is not to be had from its result."""

    op = _ops.convolution_activation.default

    @classmethod
    def forward(cls, ctx: Any, x: Tensor, w: Tensor, bias: Any, z: Any, *numbers: Any) -> Any:
        y = cls.below(x, w, bias, z, *numbers)
        ctx.save_for_backward(x, w, bias, z, y)
        ctx.activation, ctx.numbers = numbers[:4], numbers[4:]
        return y

    @classmethod
    @once_differentiable
    def backward(cls, ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        x, w, bias, z, y = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        if int(ActivationDescriptor(*ctx.activation).mode) in _FROM_RESULT:
            given = y
        else:
            given = _ops.convolution(x, w, bias, *ctx.numbers)
            given = given if z is None else given + z
        g = _ops.activation_backward(dy, given, y, *ctx.activation)
        return (_ops.convolution_backward_data(g, w, x.shape, *ctx.numbers) if wanted[0] else None,
                _ops.convolution_backward_weights(g, x, w.shape, *ctx.numbers) if wanted[1] else None,
                g.sum((0, *range(2, g.dim()))).to(bias.dtype) if wanted[2] else None, g if wanted[3] else None,
                *(None,) * (4 + len(ctx.numbers)))


# PASTHRU, LOGISTIC, TANH and RELU: their gradients are those at the result.
_FROM_RESULT = frozenset((0, 1, 2, 3))
autocast("convolution_activation", 4)

for function, tensors in ((_Training, 5), (_Inference, 5), (_Max, 1), (_MaxAlone, 1), (_Average, 1),
                          (_AverageBackward, 1), (_Softmax, 1), (_LogSoftmax, 1), (_Response, 1), (_Activation, 1),
                          (_Activated, 4)):
    name = function.op._schema.name.partition("::")[2]
    library.impl(name, Differentiable(function, _kernels[name], tensors), "Autograd")
