"""Batch, layer, group and RMS normalisation, LRN and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from miopyx import LRNDescriptor, TensorDescriptor, enums
from miopyx.errors import BadParmError

from .convolution import Epilogue
from .nodes import Node, Outside, Run, axis_of
from .pooling import four_or_five
from .values import Value, tensor

__all__ = ["LRN", "BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization",
           "LogSoftmax", "RMSNormalization", "Softmax"]


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of statistics and of parameters beside 16 bits."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


class BatchNormalization(Node):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.wide: dict[Value, Value] = {}  # constants of 16 bits in 32

    @property
    def training(self) -> bool:
        if self.opset >= 14:
            return bool(getattr(self, "training_mode", 0))
        if self.opset >= 7:
            return len(self.onnx_node.output) > 1
        return not getattr(self, "is_test", 0)

    @property
    def per_activation(self) -> bool:
        return self.opset < 9 and not getattr(self, "spatial", 1)

    def widened(self, value: Value, wide: np.dtype[Any]) -> Value:
        """Return a parameter in the type that functions take."""
        if value.dtype == wide:
            return value
        if not value.constant:
            return self.device.wrap(value.host.astype(wide))  # type: ignore[no-any-return]
        if value not in self.wide:
            self.wide[value] = self.device.constant(value.host.astype(wide))
        return self.wide[value]

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace, after: Epilogue | None = None) -> tuple[Run, str]:
        x = inputs[0]
        mode = enums.miopenBNPerActivation if self.per_activation else enums.miopenBNSpatial
        lens = four_or_five(x.shape)
        channels = (1, *lens[1:]) if self.per_activation else (1, lens[1], *[1] * (len(lens) - 2))
        wide = _wide(x.dtype)
        for name, value in zip(("scale", "B", "input_mean", "input_var"), inputs[1:5], strict=True):
            if value.size != prod(channels):
                raise BadParmError("number of parameters", name, value.shape, prod(channels))
        desc, bn_desc = tensor(x.dtype, lens), tensor(wide, channels)
        handle, epsilon = self.device.handle, float(a.epsilon)
        if not self.training:
            function = None if after is None or after.function is None else after.function.descriptor
            plan = handle.batch_norm_inference(mode, desc, desc, bn_desc, activ_desc=function)

            def infer(x: Value, *given: Value) -> tuple[Any, ...]:
                y = self.device.empty(x.shape, x.dtype)
                self.device.call(plan, x, y, *[self.widened(v, wide) for v in given], epsilon=epsilon)
                return (y,)

            return infer, plan.solver.name
        plan = handle.batch_norm_training(mode, desc, desc, bn_desc, running=True, save=False)
        m = lens[0] if self.per_activation else prod(lens) // lens[1]
        momentum, count = float(a.momentum), len(self.onnx_node.output)

        def train(x: Value, scale: Value, bias: Value, mean: Value, var: Value) -> tuple[Any, ...]:
            y = self.device.empty(x.shape, x.dtype)
            batch = [self.device.empty(mean.shape, wide) for _ in range(2)]
            self.device.call(plan, x, y, *[self.widened(v, wide) for v in (scale, bias)], *batch, None, None,
                             exp_avg_factor=1.0, epsilon=epsilon)
            # ONNX divides by m.
            news = [batch[0].host, batch[1].host * wide.type((m - 1) / m if m > 1 else 1)]
            moved = [momentum * old.host.astype(wide) + (1 - momentum) * new
                     for old, new in zip((mean, var), news, strict=True)]
            return (y, *(self.device.wrap(v.astype(mean.dtype)) for v in (*moved, *news)))[:count]

        return train, plan.solver.name


class LRN(Node):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        if a.bias == 0:
            raise Outside("bias 0")
        lens = (*x.shape[:2], 1, prod(x.shape[2:])) if x.ndim != 4 else x.shape
        lrn = LRNDescriptor(enums.miopenLRNCrossChannel, a.size, float(a.alpha), float(a.beta), float(a.bias))
        desc = tensor(x.dtype, lens)
        plan = self.device.handle.lrn_forward(lrn, desc, desc)

        def run(x: Value) -> tuple[Any, ...]:
            y = self.device.empty(x.shape, x.dtype)
            plan(*(x.memory, y.memory, None)[:len(plan.buffers)])
            return (y,)

        return run, plan.solver.name

    def numpy(self, attributes: dict[str, Any]) -> Run:
        a = SimpleNamespace(**attributes)

        def run(value: Value) -> tuple[Any, ...]:
            x = value.host
            squares = np.square(x, dtype=np.float64)
            before, channels = (a.size - 1) // 2, range(x.shape[1])
            sums = np.stack([squares[:, max(0, c - before):c - before + a.size].sum(axis=1) for c in channels], axis=1)
            return (self.device.wrap((x / (a.bias + a.alpha / a.size * sums) ** a.beta).astype(x.dtype)),)

        return run


class Softmax(Node):
    algorithm: ClassVar[str] = "MIOPEN_SOFTMAX_ACCURATE"

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        coerced = self.opset < 13  # older versions take all axes from `axis` on for one
        axis = axis_of(a.axis if self.is_set("axis") else 1 if coerced else -1, x.ndim, self.op_type, coerced)
        lens = (prod(x.shape[:axis]), prod(x.shape[axis:]) if coerced else x.shape[axis], 1,
                1 if coerced else prod(x.shape[axis + 1:]))
        desc = tensor(x.dtype, lens)
        plan = self.device.handle.softmax_forward(desc, desc, algorithm=getattr(enums, self.algorithm),
                                                  mode=enums.MIOPEN_SOFTMAX_MODE_CHANNEL)

        def run(x: Value) -> tuple[Any, ...]:
            y = self.device.empty(x.shape, x.dtype)
            self.device.call(plan, x, y)
            return (y,)

        return run, plan.solver.name


class LogSoftmax(Softmax):
    algorithm = "MIOPEN_SOFTMAX_LOG"


# Norms of each sample


class LayerNormalization(Node):
    """Mean and InvStdDev are float32, of float64 float64."""

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        if a.stash_type != 1:
            raise BadParmError("type of the arithmetic", "stash_type", a.stash_type, 1)
        axis = axis_of(a.axis, x.ndim, self.op_type)
        lens = (prod(x.shape[:axis]), prod(x.shape[axis:]))
        given = [None if v is None else self._parameter(v, x, axis, name)
                 for v, name in zip(inputs[1:3], ("Scale", "B"), strict=False)]
        outputs = [i < len(self.onnx_node.output) and bool(self.onnx_node.output[i]) for i in (1, 2)]
        wide = _wide(x.dtype)
        shape = (*x.shape[:axis], *[1] * (x.ndim - axis))
        plan = self.plan(tensor(x.dtype, lens), [v and tensor(v.dtype, (lens[1],)) for v in given],
                         [tensor(wide, (lens[0],)) if wanted else None for wanted in outputs])
        epsilon = float(a.epsilon)

        def run(x: Value, *parameters: Value | None) -> tuple[Any, ...]:
            y = self.device.empty(x.shape, x.dtype)
            statistics = [self.device.empty(shape, wide) if wanted else None for wanted in outputs]
            taken = [own if own is None or own.constant else self._parameter(v, x, axis, "")
                     for own, v in zip(given, parameters, strict=False) if v is not None]
            buffers = [x, *[v for v in taken if v is not None], y, *[v for v in statistics if v is not None]]
            self.device.call(plan, *buffers, epsilon=epsilon)
            return (y, *statistics)[:len(self.onnx_node.output)]

        return run, plan.solver.name

    def plan(self, desc: TensorDescriptor, parameters: list[Any], statistics: list[Any]) -> Any:
        weight, bias = (*parameters, None)[:2]
        return self.device.handle.layer_norm_forward(desc, desc, 1, weight, bias, *statistics)

    def _parameter(self, value: Value, x: Value, axis: int, name: str) -> Value:
        """Return weights with a number for each normalised element, of a type that functions take."""
        lens, wide = x.shape[axis:], _wide(x.dtype)
        if value.size == prod(lens) and value.dtype in (x.dtype, wide):
            return value
        try:
            whole = np.broadcast_to(value.host, lens)
        except ValueError:
            if prod(x.shape[:axis]) > 1 and value.ndim > len(lens):
                raise Outside("weights that differ from row to row") from None
            raise BadParmError("lengths of weights", name, value.shape, lens) from None
        array = np.ascontiguousarray(whole, whole.dtype if whole.dtype in (x.dtype, wide) else wide)
        return self.device.wrap(array, value.constant)  # type: ignore[no-any-return]


class RMSNormalization(LayerNormalization):
    def plan(self, desc: TensorDescriptor, parameters: list[Any], statistics: list[Any]) -> Any:
        return self.device.handle.t5_layer_norm_forward(desc, desc, parameters[0], None)


class GroupNormalization(Node):
    def groups(self, x: Value, a: SimpleNamespace) -> int:
        return int(a.num_groups)

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        if x.ndim < 3:
            raise BadParmError("rank of a group norm", "X", x.ndim, ">= 3")
        if getattr(a, "stash_type", 1) != 1:
            raise BadParmError("type of the arithmetic", "stash_type", a.stash_type, 1)
        groups, c = self.groups(x, a), x.shape[1]
        if groups < 1 or c % groups:
            raise BadParmError("groups do not divide the channels", "num_groups", groups, f"a divisor of {c}")
        each = groups if self.op_type == "GroupNormalization" and self.opset < 21 else c
        for name, value in zip(("scale", "bias"), inputs[1:3], strict=True):
            if value.shape != (each,) or value.dtype != x.dtype:
                raise BadParmError("a number for each channel or group", name, (value.dtype.name, value.shape),
                                   (x.dtype.name, (each,)))
        desc, parameter = tensor(x.dtype, (*x.shape[:2], prod(x.shape[2:]))), tensor(x.dtype, (c,))
        plan = self.device.handle.group_norm_forward(desc, desc, groups, parameter, parameter)
        epsilon = float(a.epsilon)
        repeated = [self.device.constant(np.repeat(v.host, c // each)) if v.constant and each != c else None
                    for v in inputs[1:3]]

        def run(x: Value, *given: Value) -> tuple[Any, ...]:
            y = self.device.empty(x.shape, x.dtype)
            taken = [v if each == c else own or self.device.wrap(np.repeat(v.host, c // each))
                     for own, v in zip(repeated, given, strict=True)]
            self.device.call(plan, x, *taken, y, epsilon=epsilon)
            return (y,)

        return run, plan.solver.name

    def numpy(self, attributes: dict[str, Any]) -> Run:
        """Return the function of what no solver takes: empty tensors, and types that are none of a norm's."""
        a = SimpleNamespace(**attributes)

        def run(x: Value, scale: Value, bias: Value) -> tuple[Any, ...]:
            if not isinstance(x, Value) or x.dtype.kind not in "fV":
                raise BadParmError("type of a group norm", "X", getattr(x, "dtype", type(x)), "a floating-point type")
            groups, wide = self.groups(x, a), _wide(x.dtype)
            rows = x.host.astype(wide).reshape(x.shape[0], groups, -1)
            mean, var = (f(rows, axis=2, keepdims=True) for f in (np.mean, np.var))
            y = ((rows - mean) / np.sqrt(var + a.epsilon)).reshape(x.shape)
            weight, shift = (np.repeat(v.host.astype(wide), x.shape[1] // v.size).reshape(-1, *[1] * (x.ndim - 2))
                             for v in (scale, bias))
            return (self.device.wrap((y * weight + shift).astype(x.dtype)),)

        return run


class InstanceNormalization(GroupNormalization):
    """A group norm of one channel a group."""

    def groups(self, x: Value, a: SimpleNamespace) -> int:
        return int(x.shape[1])
