"""What all nodes share: what is prepared is kept, and NumPy computes what MIOpen's functions cannot express."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import onnx
from onnx.reference.op_run import OpRun
from onnx.reference.ops._op_list import load_op

from miopyx.errors import BadParmError, MIOpenNotImplementedError

from .values import FLOATS, Device, Ran, Value, unwrap

Run = Callable[..., tuple[Any, ...]]


class Outside(Exception):
    """What MIOpen's functions cannot express; the text says what."""


class View(Exception):
    """Nothing is to be computed: the result has the elements of the first input under other lengths."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)


class Node(OpRun):
    """A node that miopyx computes where it can.  What it prepares for inputs of some shapes and types is kept.

    Attributes
    ----------
    types : frozenset of str
        The types of its first input that it computes.
    read : tuple of int
        Positions of the inputs whose values are needed to prepare: sizes, axes, bounds.
    """

    device: ClassVar[Device]
    types: ClassVar[frozenset[str]] = FLOATS
    read: ClassVar[tuple[int, ...]] = ()

    def __init__(self, onnx_node: onnx.NodeProto, run_params: dict[str, Any], schema: Any = None) -> None:
        super().__init__(onnx_node, run_params, schema)
        self.opset: int = run_params["opsets"].get("", 1)
        self.prepared: dict[object, tuple[Run, str, str]] = {}

    def _check_and_fix_outputs(self, res: tuple[Any, ...]) -> tuple[Any, ...]:
        return res  # values, which onnx does not know

    def _run(self, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        key = self.key(inputs), repr(sorted(attributes.items())) if self.has_linked_attribute else None
        step = self.prepared.get(key)
        if step is None:
            step = self.prepared[key] = self._prepare(inputs, attributes)
        run, where, why = step
        outputs = run(*inputs)
        self.device.ran.append(Ran(self.onnx_node, where, why))
        return outputs

    def _prepare(self, inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Run, str, str]:
        try:
            self.require(inputs)
            run, why = self.prepare(inputs, SimpleNamespace(**attributes))
            return run, "miopyx", why
        except View as e:
            shape = e.shape
            return lambda x, *_: (x.reshaped(shape),), "view", "nothing to compute"
        except (Outside, MIOpenNotImplementedError) as e:
            return self.numpy(attributes), "numpy", str(e)

    def require(self, inputs: Sequence[Any]) -> None:
        """Raise Outside where the first input is nothing for miopyx."""
        x = inputs[0]
        if not isinstance(x, Value):
            raise Outside("not a tensor")
        if x.dtype.name not in self.types:
            raise Outside(f"{x.dtype.name} tensor")
        if x.size == 0:
            raise Outside("empty tensor")

    def key(self, inputs: Sequence[Any]) -> object:
        """Return what `prepare` depends on besides the attributes."""
        known: list[object] = [a.key if isinstance(a, Value) else type(a) for a in inputs]
        known += [inputs[i].host.tobytes() for i in self.read if i < len(inputs) and inputs[i] is not None]
        return tuple(known)

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[Run, str]:
        """Return a function from inputs to outputs, and the names of the solvers that it runs.

        May raise Outside, or View.
        """
        raise NotImplementedError

    def numpy(self, attributes: dict[str, Any]) -> Run:
        """Return the function in NumPy."""
        node = load_op("", self.op_type, self.opset)(self.onnx_node, self.run_params)
        given = {name: attributes.get(name, getattr(node, name)) for name in node.attributes_names_}

        def run(*inputs: Any) -> tuple[Any, ...]:
            arrays = map(unwrap, inputs)
            outputs = node._run(*arrays, **given) if self.has_linked_attribute else node.run(*arrays)
            return tuple([self.device.wrap(y) for y in outputs])

        return run

    def is_set(self, attribute: str) -> bool:
        """Whether the node has the attribute; what OpRun fills in is the default of the newest version."""
        return any(a.name == attribute for a in self.onnx_node.attribute)

    @property
    def attributes(self) -> SimpleNamespace:
        """The attributes of a node that takes none from a function around it."""
        return SimpleNamespace(**{name: getattr(self, name) for name in self.attributes_names_})


def axis_of(axis: int, rank: int, name: str, ends: bool = False) -> int:
    """Return an axis counted from the front; `ends`: the one behind the last counts, too."""
    if not -rank <= axis < rank + ends:
        raise BadParmError(f"{name} over an axis that is not there", "axis", axis, f"{-rank} ... {rank - (not ends)}")
    return axis + rank if axis < 0 else axis


def numbers_of(value: Value | None) -> list[int] | None:
    """Return what an input of integers says."""
    return None if value is None else [int(i) for i in np.atleast_1d(value.host)]
