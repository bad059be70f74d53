"""onnx's interface of backends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.backend.base

from miopyx import Handle
from miopyx.device import devices
from miopyx.errors import BadParmError, MIOpenError

from .evaluator import evaluator_of
from .fusion import Fusion
from .values import Array, Device, Ran

__all__ = ["Backend", "BackendRep"]


@cache
def _shared_handle(name: str) -> Handle:
    return Handle(name)


def _device_name(device: str) -> str:
    return "host" if device in ("CPU", "CPU:0") else device


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Let what onnx makes of a model that its checker lets pass be an error of ours: names that are no text, types."""
    try:
        yield
    except (LookupError, TypeError, ValueError) as e:
        if isinstance(e, MIOpenError):
            raise
        raise BadParmError(f"no valid model: {e}", "model", type(e).__name__, "an ONNX model") from e


class BackendRep(onnx.backend.base.BackendRep):
    """A model that was prepared to run on a device; for one thread at a time.

    Attributes
    ----------
    handle : Handle
    evaluator : onnx.reference.ReferenceEvaluator
        What runs the nodes; its ``run(None, feeds, intermediate=True)`` returns every value of the graph but those
        between nodes that were fused.
    ran : list of Ran
        The nodes of the last run in their order, those of functions and subgraphs included.
    fusions : list of Fusion
        The nodes of the graph that others may be fused into, with those that were, and why no more.
    uploads, downloads : int
        How many tensors went to a device with memory of its own in all runs so far, and how many came back.
    """

    def __init__(self, proto: Any, device: str | Handle = "CPU", fuse: bool = True, **kwargs: Any) -> None:
        self.handle = device if isinstance(device, Handle) else _shared_handle(_device_name(device))
        self._device = Device(self.handle)
        self.evaluator = evaluator_of(self._device, fuse)(proto, **kwargs)
        graph = proto.graph if isinstance(proto, onnx.ModelProto) else proto
        self._declared = {one.name: one.type.tensor_type for one in getattr(graph, "input", ())
                          if isinstance(one, onnx.ValueInfoProto) and one.type.HasField("tensor_type")}
        self._outputs = onnx.backend.base.namedtupledict("Outputs", self.evaluator.output_names)

    @property
    def ran(self) -> list[Ran]:
        return self._device.ran

    @property
    def fusions(self) -> list[Fusion]:
        return self.evaluator.fusions

    @property
    def uploads(self) -> int:
        return self._device.uploads

    @property
    def downloads(self) -> int:
        return self._device.downloads

    def run(self, inputs: Mapping[str, Any] | Sequence[Any] | Array, **kwargs: Any) -> tuple[Any, ...]:
        """Return the model's outputs, by position or name.

        Parameters
        ----------
        inputs : dict or sequence
            Arrays by name, or in the order of the model's inputs; those with an initialiser may be left out.

        Raises
        ------
        MIOpenError
            For inputs that are missing, are not what the graph declares, or do not fit the nodes that read them.
        """
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, Mapping):
            names = [name for name in dict.fromkeys(self.evaluator.input_names) if name]
            if len(inputs) < len(names):
                names = [name for name in names if name not in self.evaluator.rt_inits_]
            if len(inputs) != len(names):
                raise BadParmError("not the model's inputs", "inputs", len(inputs), f"{len(names)}: {', '.join(names)}")
            inputs = dict(zip(names, inputs, strict=True))
        with _refused():
            _require_declared(self._declared, inputs)
        self._device.begin()
        return self._outputs(*self.evaluator.run(None, inputs))


def _require_declared(declared: Mapping[str, onnx.TypeProto.Tensor], inputs: Mapping[str, Any]) -> None:
    """Require inputs of the types and lengths that a graph declares.

    A length by a name is free, but the same wherever the name stands; one without a name is free.
    """
    named: dict[str, tuple[int, str]] = {}
    for name, of in declared.items():
        if name not in inputs or inputs[name] is None:
            continue
        given = np.asarray(inputs[name])
        if of.elem_type not in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
            wanted = onnx.helper.tensor_dtype_to_np_dtype(of.elem_type)
            if given.dtype != wanted:
                raise BadParmError("another type than the graph declares", name, str(given.dtype), str(wanted))
        if not of.HasField("shape"):
            continue
        dims = of.shape.dim
        if given.ndim != len(dims):
            raise BadParmError("another rank than the graph declares", name, given.shape, f"{len(dims)} dimensions")
        for axis, (length, dim) in enumerate(zip(given.shape, dims, strict=True)):
            if dim.HasField("dim_value") and length != dim.dim_value:
                raise BadParmError("another length than the graph declares", f"{name}.shape[{axis}]", length,
                                   dim.dim_value)
            if dim.dim_param:
                first, where = named.setdefault(dim.dim_param, (length, f"{name}.shape[{axis}]"))
                if length != first:
                    raise BadParmError(f"another {dim.dim_param} than elsewhere", f"{name}.shape[{axis}]", length,
                                       f"{first}, as {where}")


class Backend(onnx.backend.base.Backend):
    """Runs ONNX models.

    A device is ``"CPU"`` (the host path), a name that `Handle` takes, or a Handle.
    """

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str | Handle = "CPU", fuse: bool = True,
                **kwargs: Any) -> BackendRep:
        """Return `model`, checked and ready to run on `device`; `fuse`: whether nodes may become one call."""
        with _refused():
            super().prepare(model, "CPU", **kwargs)
            return BackendRep(model, device, fuse)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str | Handle = "CPU", outputs_info: Any = None,
                 **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs of one node; keyword ``opset_version`` says what it means (default: the newest)."""
        opset = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        graph = onnx.GraphProto(node=[node], name="node")
        with _refused():
            super().run_node(node, inputs, "CPU", outputs_info, **kwargs)
            graph.input.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(node.input) if name)
            graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
            made = BackendRep(graph, device, opsets={"": opset})
        return made.run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether `device` names a device that works here."""
        try:
            devices.find(_device_name(device))
        except MIOpenError:
            return False
        return True
