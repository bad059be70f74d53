"""Element by element: activations, arithmetic, casts and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from math import erf, pi, prod, sqrt
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from miopyx import (
    ActivationDescriptor,
    enums,
    miopenCreateDropoutDescriptor,
    miopenDropoutGetStatesSize,
    miopenSetDropoutDescriptor,
)
from miopyx.errors import BadParmError

from .nodes import Node, Outside, Run, View, axis_of
from .values import FLOATS, Array, Value, tensor


class Function(NamedTuple):
    """An activation: the name of its mode behind `miopenActivation`, alpha and beta."""

    mode: str
    alpha: float = 0.0
    beta: float = 0.0

    @property
    def descriptor(self) -> ActivationDescriptor:
        return ActivationDescriptor(getattr(enums, f"miopenActivation{self.mode}"), self.alpha, self.beta)


class Activation(Node):
    mode: ClassVar[str]

    def function(self, inputs: Sequence[Any], a: SimpleNamespace) -> Function:
        """Return the node as an activation of MIOpen's, which inputs behind the first may say.  May raise Outside."""
        return Function(self.mode, float(getattr(a, "alpha", None) or 0))

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        desc = tensor(x.dtype, (1, 1, 1, x.size))
        plan = self.device.handle.activation_forward(self.function(inputs, a).descriptor, desc, desc)

        def run(x: Value, *_: Any) -> tuple[Any, ...]:
            y = self.device.empty(x.shape, x.dtype)
            self.device.call(plan, x, y)
            return (y,)

        return run, plan.solver.name


class Relu(Activation):
    mode = "RELU"


class LeakyRelu(Activation):
    mode = "LEAKYRELU"


class Elu(Activation):
    mode = "ELU"


class Sigmoid(Activation):
    mode = "LOGISTIC"


class Softplus(Activation):
    mode = "SOFTRELU"


class Abs(Activation):
    mode = "ABS"


class Tanh(Activation):
    def function(self, inputs: Sequence[Any], a: SimpleNamespace) -> Function:
        return Function("TANH", 1, 1)


class _Elements(Node):
    """What is put together of tensor operations."""

    def combine(self, op: str, dtype: np.dtype[Any], shape: Sequence[int], other: Sequence[int]) -> Any:
        """Return the plan of c = op(alpha1 a, alpha2 b), in which b, of lengths `other`, is repeated.

        Neighbouring axes are one where b has all of them or none, so that there are five at most.
        """
        other = (*[1] * (len(shape) - len(other)), *other)
        lens: list[int] = []
        few: list[int] = []
        for length, given in zip(shape, other, strict=True):
            if given not in (1, length):
                raise Outside("both are repeated")
            if lens and length != 1 and lens[-1] != 1 and (given == 1) == (few[-1] == 1):
                lens[-1] *= length
                few[-1] *= given
            elif length != 1:
                lens.append(length)
                few.append(given)
        if len(lens) > 5:
            raise Outside(f"{len(lens)} axes that are repeated in turns")
        desc = tensor(dtype, lens or [1])
        return self.device.handle.op_tensor(getattr(enums, f"miopenTensorOp{op}"), desc, tensor(dtype, few or [1]),
                                            desc)

    def activate(self, function: Function, dtype: np.dtype[Any], size: int) -> Any:
        desc = tensor(dtype, (1, 1, 1, size))
        return self.device.handle.activation_forward(function.descriptor, desc, desc)

    def scalar(self, number: float, dtype: np.dtype[Any]) -> Value:
        return self.device.constant(np.full(1, number, dtype))


class Clip(Activation, _Elements):
    read = (1, 2)

    def bounds(self, inputs: Sequence[Any], a: SimpleNamespace) -> list[Array | None]:
        given = ([getattr(a, "min", None), getattr(a, "max", None)] if self.opset < 11 else
                 [None if v is None else v.host for v in (*inputs[1:], None, None)[:2]])
        return [None if bound is None else np.array(bound, inputs[0].dtype).reshape(1) for bound in given]

    def function(self, inputs: Sequence[Any], a: SimpleNamespace) -> Function:
        low, high = self.bounds(inputs, a)
        if low is not None and high is not None and low[0] == 0 and 0 < high[0] < np.inf:
            return Function("CLIPPEDRELU", float(high[0]))
        if low is not None and low[0] == 0 and high is None:
            return Function("RELU")
        raise Outside("bounds of no activation")

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        low, high = self.bounds(inputs, a)
        if low is None and high is None:
            raise View(x.shape)
        if low is not None and high is not None and low[0] == 0 and 0 < high[0] < np.inf:
            return super().prepare(inputs, a)
        steps = [(self.combine(op, x.dtype, (x.size,), (1,)), self.device.constant(bound))
                 for op, bound in (("Max", low), ("Min", high)) if bound is not None]

        def run(x: Value, *_: Any) -> tuple[Any, ...]:
            y = self.device.empty(x.shape, x.dtype)
            for plan, bound in steps:
                self.device.call(plan, x, bound, y)
                x = y
            return (y,)

        return run, ", ".join(plan.solver.name for plan, _ in steps)


class HardSigmoid(_Elements):
    """min(1, max(0, alpha x + beta))."""

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        alpha, beta = float(a.alpha), self.scalar(a.beta, x.dtype)
        line, clip = self.combine("Add", x.dtype, (x.size,), (1,)), self.activate(Function("CLIPPEDRELU", 1), x.dtype,
                                                                                  x.size)

        def run(x: Value) -> tuple[Any, ...]:
            y = self.device.empty(x.shape, x.dtype)
            self.device.call(line, x, beta, y, alpha1=alpha)
            self.device.call(clip, y, y)
            return (y,)

        return run, f"{line.solver.name}, {clip.solver.name}"


class HardSwish(HardSigmoid):
    """x times the hard sigmoid of alpha 1/6, beta 1/2."""

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        inner, why = super().prepare(inputs, SimpleNamespace(alpha=1 / 6, beta=0.5))
        product = self.combine("Mul", inputs[0].dtype, (inputs[0].size,), (inputs[0].size,))

        def run(x: Value) -> tuple[Any, ...]:
            y, = inner(x)
            self.device.call(product, x, y, y)
            return (y,)

        return run, f"{why}, {product.solver.name}"


# erf x = tanh(x P(x^2)): the largest relative error on [0, 4] is the least that seven coefficients leave, 9.5e-8, and
# with sums in float32 2.4e-7.  Behind 4 both are 1.
_ERF = (1.1283792742452308, 0.10276905630477051, -0.0001918318809414712, -0.0006197837918153137, 8.76370222007861e-05,
        -5.668428773314761e-06, 1.4184969398455077e-07)


class Erf(_Elements):
    """In float32; 16 bits are cast."""

    types = frozenset({"float16", "bfloat16", "float32"})

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        return self.odd(inputs[0], _ERF, "TANH", False)

    def odd(self, x: Value, coefficients: Sequence[float], mode: str, times: bool) -> tuple[Run, str]:
        """Return run(x) of y = f(x P(x^2)), or x times that."""
        wide = np.dtype(np.float32)
        product = self.combine("Mul", wide, (x.size,), (x.size,))
        total = self.combine("Add", wide, (x.size,), (1,))
        end = self.activate(Function(mode, 1, 1), wide, x.size)
        scalars = [self.scalar(c, wide) for c in coefficients]
        casts = []
        if x.dtype != wide:
            descs = tensor(x.dtype, (x.size,)), tensor(wide, (x.size,))
            casts = [self.device.handle.cast_tensor(*descs), self.device.handle.cast_tensor(*descs[::-1])]
        call, empty = self.device.call, self.device.empty

        def run(x: Value) -> tuple[Any, ...]:
            y, square, result = empty(x.shape, wide), empty(x.shape, wide), empty(x.shape, x.dtype)
            given = x
            if casts:
                given = empty(x.shape, wide)
                call(casts[0], x, given)
            call(product, given, given, square)
            call(total, square, scalars[-2], y, alpha1=coefficients[-1])
            for c in scalars[-3::-1]:
                call(product, y, square, y)
                call(total, y, c, y)
            call(product, given, y, y)
            call(end, y, y)
            if times:
                call(product, given, y, y)
            if not casts:
                return (y,)
            call(casts[1], y, result)
            return (result,)

        return run, f"{product.solver.name}, {end.solver.name}"

    def numpy(self, attributes: dict[str, Any]) -> Run:
        return lambda x: (self.device.wrap(_erf(x.host.astype(np.float64)).astype(x.dtype)),)


def _erf(x: Array) -> Array:
    return np.array([erf(number) for number in x.flat]).reshape(x.shape)


class Gelu(Erf):
    """x times half of 1 + erf(x / sqrt 2), which is x times the logistic of 2 u P(u^2), or of its approximation."""

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        coefficients = [sqrt(2) * c / 2**i for i, c in enumerate(_ERF)]
        if self.by_tanh(a.approximate):
            coefficients = [2 * sqrt(2 / pi), 2 * sqrt(2 / pi) * 0.044715]
        return self.odd(inputs[0], coefficients, "LOGISTIC", True)

    def by_tanh(self, approximate: Any) -> bool:
        if approximate not in ("tanh", b"tanh", "none", b"none"):
            raise BadParmError("unknown approximation", "approximate", approximate, "none or tanh")
        return approximate in ("tanh", b"tanh")

    def numpy(self, attributes: dict[str, Any]) -> Run:
        by_tanh = self.by_tanh(attributes["approximate"])

        def run(value: Value) -> tuple[Any, ...]:
            x = value.host.astype(np.float64)
            inner = np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)) if by_tanh else _erf(x / sqrt(2))
            return (self.device.wrap((0.5 * x * (1 + inner)).astype(value.dtype)),)

        return run


class Add(_Elements):
    op: ClassVar[str] = "Add"
    sign: ClassVar[float] = 1
    function: ClassVar[np.ufunc] = np.add

    def aligned(self, shape: tuple[int, ...], other: tuple[int, ...], a: SimpleNamespace) -> tuple[int, ...]:
        """Return the lengths under which the second operand is repeated; before opset 7 an attribute says where."""
        axis = getattr(a, "axis", None) if self.opset < 7 else None
        if axis is None or other == shape:
            return other
        return (*other, *[1] * (len(shape) - len(other) - axis_of(axis, len(shape), self.op_type)))

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x, y = inputs
        if x.dtype != y.dtype:
            raise BadParmError("types differ", "B", y.dtype.name, x.dtype.name)
        other = self.aligned(x.shape, y.shape, a)
        try:
            shape = np.broadcast_shapes(x.shape, other)
        except ValueError:
            raise BadParmError("lengths differ", "B", y.shape, f"1 or those of {x.shape}") from None
        if prod(shape) == 0:
            raise Outside("empty tensor")
        swapped = x.shape != shape
        if swapped and other != shape:
            raise Outside("both are repeated")
        plan = self.combine(self.op, x.dtype, shape, x.shape if swapped else other)
        first, second = (self.sign, 1.0) if swapped else (1.0, self.sign)

        def run(x: Value, y: Value) -> tuple[Any, ...]:
            out = self.device.empty(shape, x.dtype)
            self.device.call(plan, *((y, x) if swapped else (x, y)), out, alpha1=first, alpha2=second)
            return (out,)

        return run, plan.solver.name

    def numpy(self, attributes: dict[str, Any]) -> Run:
        a = SimpleNamespace(**attributes)
        return lambda x, y: (self.device.wrap(type(self).function(
            x.host, y.host.reshape(self.aligned(x.shape, y.shape, a)))),)


class Sub(Add):
    sign = -1
    function = np.subtract


class Mul(Add):
    op = "Mul"
    function = np.multiply


class Sum(Add):
    """Of tensors of the same lengths, or of two."""

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        if len(inputs) == 1:
            raise View(inputs[0].shape)
        if len(inputs) > 2 and any(v.shape != inputs[0].shape for v in inputs):
            raise Outside("more than two tensors are repeated")
        inner, why = super().prepare(inputs[:2], a)

        def run(x: Value, *others: Value) -> tuple[Any, ...]:
            for other in others:
                x, = inner(x, other)
            return (x,)

        return run, why

    def numpy(self, attributes: dict[str, Any]) -> Run:
        return Node.numpy(self, attributes)


class Div(_Elements):
    """By a constant number: times its reciprocal."""

    read = (1,)

    def key(self, inputs: Sequence[Any]) -> object:
        constant = isinstance(inputs[1], Value) and inputs[1].size == 1 and inputs[1].on_host
        return super().key(inputs) if constant else super().key(inputs[:1]), inputs[1].shape, constant

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x, y = inputs
        if self.opset < 7 or y.size != 1 or not y.on_host or y.ndim > x.ndim:
            raise Outside("no function of MIOpen's divides by a tensor")
        divisor = float(y.host.reshape(()))
        smallest = float(np.finfo(x.dtype).smallest_normal) if x.dtype.name != "bfloat16" else 2.0**-126
        if not smallest <= abs(divisor) <= 0.25 / smallest:
            raise Outside("a divisor whose reciprocal is no normal number")
        desc = tensor(x.dtype, (x.size,))
        plan = self.device.handle.transform_tensor(desc, desc)

        def run(x: Value, _: Value) -> tuple[Any, ...]:
            out = self.device.empty(x.shape, x.dtype)
            self.device.call(plan, x, out, alpha=1 / divisor)
            return (out,)

        return run, plan.solver.name


class Neg(_Elements):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        desc = tensor(inputs[0].dtype, (inputs[0].size,))
        plan = self.device.handle.transform_tensor(desc, desc)

        def run(x: Value) -> tuple[Any, ...]:
            y = self.device.empty(x.shape, x.dtype)
            self.device.call(plan, x, y, alpha=-1.0)
            return (y,)

        return run, plan.solver.name


class Cast(Node):
    """Between floating-point types; the rest stays with NumPy, where it is."""

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        from onnx.helper import tensor_dtype_to_np_dtype

        x, to = inputs[0], np.dtype(tensor_dtype_to_np_dtype(a.to))
        if to.name not in FLOATS:
            raise Outside(f"{to.name} tensor")
        if to == x.dtype:
            raise View(x.shape)
        plan = self.device.handle.cast_tensor(tensor(x.dtype, (x.size,)), tensor(to, (x.size,)))

        def run(x: Value) -> tuple[Any, ...]:
            y = self.device.empty(x.shape, to)
            self.device.call(plan, x, y)
            return (y,)

        return run, plan.solver.name


class Dropout(_Elements):
    """Nothing but in training; there with a seed the mask of onnx's reference, else one of the device's generator."""

    read = (1, 2)

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        x = inputs[0]
        ratio, training = 0.5, False
        if self.opset >= 12:
            given = [None if v is None else v.host.item() for v in (*inputs[1:], None, None)[:2]]
            ratio, training = 0.5 if given[0] is None else float(given[0]), bool(given[1])
        elif self.opset < 7:
            ratio, training = float(a.ratio), not a.is_test
        if training and not 0 <= ratio < 1:
            raise BadParmError("share of elements that are dropped", "ratio", ratio, "0 <= ratio < 1")
        if training and ratio:
            return self._drawn(x, ratio) if a.seed is None else self._seeded(x, ratio, a.seed)
        if not self._wants_mask:
            raise View(x.shape)
        mask_type = np.bool_ if self.opset >= 10 else x.dtype
        return lambda x, *_: (x, self.device.wrap(np.ones(x.shape, mask_type))), "nothing is dropped"

    def _seeded(self, x: Value, ratio: float, seed: int) -> tuple[Run, str]:
        kept = np.random.RandomState(seed).uniform(0, 1.0, x.shape) >= ratio
        mask = self.device.constant(kept.astype(x.dtype))
        plan = self.combine("Mul", x.dtype, (x.size,), (x.size,))

        def run(x: Value, *_: Any) -> tuple[Any, ...]:
            y = self.device.empty(x.shape, x.dtype)
            self.device.call(plan, x, mask, y, alpha1=1 / (1 - ratio))
            return y, self.device.wrap(kept) if self._wants_mask else None

        return run, plan.solver.name

    def _drawn(self, x: Value, ratio: float) -> tuple[Run, str]:
        handle, desc, dropout = self.device.handle, tensor(x.dtype, (x.size,)), miopenCreateDropoutDescriptor()
        states = self.device.empty((miopenDropoutGetStatesSize(handle),), "uint8")
        seed = np.random.SeedSequence().generate_state(1, np.uint64).item()
        miopenSetDropoutDescriptor(dropout, handle, ratio, states.memory, states.size, seed, False, True, 0)
        plan = handle.dropout_forward(dropout, desc, desc)

        def run(x: Value, *_: Any) -> tuple[Any, ...]:
            y, mask = self.device.empty(x.shape, x.dtype), self.device.empty(x.shape, "uint8")
            self.device.call(plan, x, y, mask, states)
            return y, self.device.wrap(mask.host.astype(np.bool_)) if self._wants_mask else None

        return run, plan.solver.name

    @property
    def _wants_mask(self) -> bool:
        return len(self.onnx_node.output) > 1 and bool(self.onnx_node.output[1])
