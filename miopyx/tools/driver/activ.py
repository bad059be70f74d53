"""`activ`: the eleven activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

import miopyx

from . import data
from .data import Array
from .layer import FORWARD_FLAG, MORE_SIZE_FLAGS, Layer, Pass, elementwise_limit, operations, run_flags, size_flags
from .options import Command, Family, Flag
from .verify import Doubles

MODES = ("0 pass through, 1 logistic, 2 tanh, 3 ReLU, 4 soft ReLU, 5 abs, 6 power, 7 clipped ReLU, 8 leaky ReLU, "
         "9 ELU, 10 clamp")

FAMILY = Family("activ", "an activation", operations("activ"), (
    FORWARD_FLAG,
    *size_flags(100),
    *MORE_SIZE_FLAGS,
    Flag("mode", "m", 3, MODES, range(11)),
    Flag("alpha", "A", 1.0, "alpha of the activation"),
    Flag("beta", "B", 1.0, "beta of the activation"),
    Flag("gamma", "G", 1.0, "gamma of the activation"),
    *run_flags(),
))

Parameters: TypeAlias = tuple[float, float, float]  # alpha, beta and gamma

PASSTHROUGH, LOGISTIC, TANH, RELU, SOFTRELU, ABS, POWER, CLIPPEDRELU, LEAKYRELU, ELU, CLAMP = range(11)


class Activation(Layer):
    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.mode = command.number("mode")
        self.epsilon = 1e-4 if self.dtype == "float16" else 1e-6  # of TANH and POWER, as MIOpen has it
        self.parameters = a, b, g = command.real("alpha"), command.real("beta"), command.real("gamma")
        self.desc = self.packed_tensor("x", "y", "dx", "dy")
        self.activation = miopyx.miopenCreateActivationDescriptor()
        miopyx.miopenSetActivationDescriptor(self.activation, self.mode, a, b, g)

    @property
    def layer(self) -> str:
        name = miopyx.miopenActivationMode_t(self.mode).name.removeprefix("miopenActivation").lower()
        return f"{self.command.operation} {name} {'x'.join(map(str, self.desc.lens[1:]))}"

    def passes(self) -> list[Pass]:
        read = {PASSTHROUGH: (), LOGISTIC: ("y",), TANH: ("y",)}.get(self.mode, ("x",))
        bound, four = elementwise_limit(self.dtype), (self.desc,) * 4
        return [
            Pass("fwd", "Forward Activation", ("x",), ("y",), ("x",), self._forward,
                 lambda handle: handle.activation_forward(self.activation, *four[:2]), self._forward_reference, bound),
            Pass("bwd", "Backward Activation", ("y", "dy", "x"), ("dx",), ("dy", *read), self._backward,
                 lambda handle: handle.activation_backward(self.activation, *four), self._backward_reference, bound),
        ]

    def _forward(self, handle: Any, m: Mapping[str, Any]) -> None:
        miopyx.miopenActivationForward(handle, self.activation, 1.0, self.desc, m["x"], 0.0, self.desc, m["y"])

    def _backward(self, handle: Any, m: Mapping[str, Any]) -> None:
        miopyx.miopenActivationBackward(handle, self.activation, 1.0, self.desc, m["y"], self.desc, m["dy"], self.desc,
                                        m["x"], 0.0, self.desc, m["dx"])

    def values(self, name: str, generator: data.Generator) -> Array:
        """x uniform in [-4, 4), for the power in [0, 1), whose base shall be positive; dy in [-0.5, 0.5)."""
        if name == "dy":
            return self.uniform(name, generator, -0.5, 0.5)
        return self.uniform(name, generator, *((0.0, 1.0) if self.mode == POWER else (-4.0, 4.0)))

    def _forward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        return {"y": activated(self.mode, self.parameters, self.epsilon, m["x"])}

    def _backward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        return {"dx": gradient(self.mode, self.parameters, self.epsilon, m["dy"], m["x"], m["y"])}


def activated(mode: int, parameters: Parameters, epsilon: float, x: Doubles) -> Doubles:
    """Return what an activation makes of x."""
    a, b, g = parameters
    modes: dict[int, Callable[[], Doubles]] = {
        PASSTHROUGH: lambda: x,
        LOGISTIC: lambda: 1 / (1 + np.exp(-x)),
        TANH: lambda: b * np.tanh(a * x),
        RELU: lambda: np.maximum(x, 0),
        SOFTRELU: lambda: np.log1p(np.exp(x)),
        ABS: lambda: np.abs(x),
        POWER: lambda: np.where(a + b * x <= epsilon, 0.0, (a + b * x) ** g),
        CLIPPEDRELU: lambda: np.minimum(a, np.maximum(x, 0)),
        LEAKYRELU: lambda: np.where(x > 0, x, a * x),
        ELU: lambda: np.where(x > 0, x, a * np.expm1(x)),
        CLAMP: lambda: np.maximum(a, np.minimum(b, x)),
    }
    return modes[mode]()


def gradient(mode: int, parameters: Parameters, epsilon: float, dy: Doubles, x: Doubles, y: Doubles) -> Doubles:
    """Return the gradient of x, of which an activation made y."""
    a, b, g = parameters
    modes: dict[int, Callable[[], Doubles]] = {
        PASSTHROUGH: lambda: dy,
        LOGISTIC: lambda: dy * y * (1 - y),
        TANH: lambda: dy * a * (b - y * y / b) if abs(b) > epsilon else 0 * dy,
        RELU: lambda: np.where(x > 0, dy, 0.0),
        SOFTRELU: lambda: dy / (1 + np.exp(-x)),
        ABS: lambda: dy * np.sign(x),
        POWER: lambda: np.where(a + b * x <= epsilon, 0.0, dy * g * b * (a + b * x) ** (g - 1)),
        CLIPPEDRELU: lambda: np.where((x > 0) & (x <= a), dy, 0.0),
        LEAKYRELU: lambda: np.where(x > 0, dy, a * dy),
        ELU: lambda: np.where(x > 0, dy, dy * a * np.exp(x)),
        CLAMP: lambda: np.where((x > a) & (x <= b), dy, 0.0),
    }
    return modes[mode]()
