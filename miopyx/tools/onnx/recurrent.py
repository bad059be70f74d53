"""Recurrent layers: onnx's own evaluator computes them, and what it would leave out is refused."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from miopyx.errors import MIOpenNotImplementedError

from .nodes import Node, Outside, Run
from .values import Value

__all__ = ["GRU", "LSTM", "RNN"]


class _Recurrent(Node):
    activations_of_a_direction: ClassVar[tuple[str, ...]]

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        raise Outside("not an operation of this backend")

    def numpy(self, attributes: dict[str, Any]) -> Run:
        """Return the function in NumPy, of cells and sequences that onnx's evaluator knows: it looks at no others."""
        names = [str(name).capitalize() for name in attributes.get("activations") or ()]
        usual = list(self.activations_of_a_direction)
        if names not in ([], usual, 2 * usual):
            raise MIOpenNotImplementedError("activations", f"{self.op_type}.activations", names, usual)
        for name in ("clip", "input_forget", "activation_alpha", "activation_beta"):
            if attributes.get(name):
                raise MIOpenNotImplementedError("kind of cell", f"{self.op_type}.{name}", attributes[name], "none")
        inner = super().numpy(attributes)

        def run(*inputs: Any) -> tuple[Any, ...]:
            lengths = inputs[4] if len(inputs) > 4 else None
            steps = inputs[0].shape[1 if attributes.get("layout") else 0]
            if isinstance(lengths, Value) and (lengths.host != steps).any():
                raise MIOpenNotImplementedError("sequences of several lengths", f"{self.op_type}.sequence_lens",
                                                np.unique(lengths.host).tolist(), steps)
            return inner(*inputs)

        return run


class RNN(_Recurrent):
    activations_of_a_direction = ("Tanh",)


class LSTM(_Recurrent):
    activations_of_a_direction = ("Sigmoid", "Tanh", "Tanh")


class GRU(_Recurrent):
    activations_of_a_direction = ("Sigmoid", "Tanh")
