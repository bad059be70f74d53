"""Runs a graph: onnx's evaluator, with our nodes, values that stay on the device, and chains of fused nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar

import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpFunction, OpRun

from miopyx.errors import BadParmError, MIOpenError

from . import convolution, elements, integers, matmul, norms, pooling, recurrent, reductions, shapes
from .fusion import Chain, Fusion, chains_of
from .nodes import Node
from .values import Device, Ran, lend, unwrap

__all__ = ["Evaluator", "evaluator_of"]

_NODES: tuple[type[Node], ...] = (
    convolution.Conv, convolution.ConvTranspose, integers.ConvInteger, integers.QLinearConv,
    matmul.Gemm, matmul.MatMul,
    pooling.MaxPool, pooling.AveragePool, pooling.GlobalMaxPool, pooling.GlobalAveragePool,
    norms.BatchNormalization, norms.LRN, norms.Softmax, norms.LogSoftmax, norms.LayerNormalization,
    norms.RMSNormalization, norms.GroupNormalization, norms.InstanceNormalization,
    reductions.ReduceSum, reductions.ReduceMean, reductions.ReduceMax, reductions.ReduceMin, reductions.ReduceProd,
    reductions.ReduceL1, reductions.ReduceL2, reductions.ReduceSumSquare, reductions.ReduceLogSum,
    elements.Relu, elements.LeakyRelu, elements.Elu, elements.Sigmoid, elements.Softplus, elements.Abs, elements.Tanh,
    elements.Clip, elements.HardSigmoid, elements.HardSwish, elements.Erf, elements.Gelu, elements.Add, elements.Sum,
    elements.Sub, elements.Mul, elements.Div, elements.Neg, elements.Cast, elements.Dropout,
    shapes.Identity, shapes.Reshape, shapes.Flatten, shapes.Squeeze, shapes.Unsqueeze, shapes.Shape, shapes.Transpose,
    shapes.Slice, shapes.Split, shapes.Gather, shapes.Concat, recurrent.LSTM, recurrent.GRU, recurrent.RNN,
)
_CONDITIONAL = frozenset({"If", "Loop"})  # their subgraphs take values as they are
# Whatever code of ours, onnx's or NumPy's says of attributes and shapes that do not go together.
_MISFITS = ArithmeticError, LookupError, RuntimeError, TypeError, ValueError


def _misfit(node: OpRun, error: Exception) -> BadParmError:
    return BadParmError(f"inputs or attributes that do not fit: {type(error).__name__}: {error}", "node",
                        f"{node.onnx_node.op_type} {node.onnx_node.name}".rstrip(), "a valid node")


def _graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [g for a in node.attribute for g in ([a.g] if a.HasField("g") else []) + list(a.graphs)]


def _read_inside(node: onnx.NodeProto) -> set[str]:
    """Return every name that the subgraphs of a node read or return, those of the graph around them among others."""
    names: set[str] = set()
    for graph in _graphs(node):
        names.update(output.name for output in graph.output)
        for inner in graph.node:
            names.update(inner.input)
            names |= _read_inside(inner)
    return names


class Evaluator(ReferenceEvaluator):
    """Each device has a class of these, since evaluators of functions and subgraphs are made by the class.

    Attributes
    ----------
    fusions : list of Fusion
    """

    device: ClassVar[Device]
    nodes: ClassVar[list[type[OpRun]]]
    fuses: ClassVar[bool]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "new_ops": self.nodes})
        self.constants: dict[str, Any] = {
            name: self.device.wrap(array, constant=True) for name, array in self.rt_inits_.items()}
        steps: list[OpRun] = []
        for node in self.rt_nodes_:
            if isinstance(node, OpFunction) or node.has_subgraph:
                node._check_and_fix_outputs = tuple  # onnx does not know our values
            if node.op_type == "Constant" and not node.domain and not node.has_linked_attribute:
                self.constants[node.output[0]] = self.device.wrap(node.run()[0], constant=True)
            else:
                steps.append(node)
        self.steps = self._steps(steps)

    def _steps(self, nodes: list[OpRun]) -> list[tuple[OpRun | Chain, set[str], set[str]]]:
        """Return what is run, the names that its subgraphs read, and the names that nobody reads any more."""
        inside = {id(node): _read_inside(node.onnx_node) for node in nodes}
        readers: dict[str, list[OpRun]] = defaultdict(list)
        for node in nodes:
            for name in [*node.input, *inside[id(node)]]:
                readers[name].append(node)
        names = set(self.input_names)
        found = chains_of(nodes, readers, self.output_names, self.constants.keys() - names) if self.fuses else []
        self.fusions: list[Fusion] = [chain.fusion for chain in found]
        last = {id(chain.members[-1].node): chain for chain in found if len(chain.members) > 1}
        fused = {id(member.node) for chain in last.values() for member in chain.members}
        order: list[OpRun | Chain] = [last.get(id(node), node) for node in nodes
                                      if id(node) in last or id(node) not in fused]
        steps: list[tuple[OpRun | Chain, set[str], set[str]]] = []
        alive = {*self.output_names, ""}
        for step in reversed(order):
            outer = set() if isinstance(step, Chain) else inside[id(step)]
            reads = step.reads if isinstance(step, Chain) else {*step.input, *outer}
            writes = {step.members[-1].node.output[0]} if isinstance(step, Chain) else set(step.output)
            steps.append((step, outer, (reads | writes) - alive))
            alive |= reads
        return steps[::-1]

    def run(self, output_names: Any, feed_inputs: Mapping[str, Any], attributes: Any = None,
            intermediate: bool = False, check_shape_annotations: bool | None = None, _bindings: Any = None) -> Any:
        """As the base class; arrays are returned to callers, values to the nodes around a subgraph or function."""
        device = self.device
        device.depth += 1
        try:
            results = self._execute(feed_inputs, attributes, intermediate)
        finally:
            device.depth -= 1
        take = lend if device.depth else unwrap
        if intermediate:
            return {name: take(value) for name, value in results.items()}
        names = self.output_names if output_names is None else output_names
        return [take(self._find(results, name)) for name in names]

    def _execute(self, feeds: Mapping[str, Any], attributes: Any, intermediate: bool) -> dict[str, Any]:
        results: dict[str, Any] = {"": None, **self.constants}
        results.update((name, self.device.wrap(value)) for name, value in feeds.items())

        def run_node(node: OpRun, results: dict[str, Any], outer: Collection[str] = ()) -> None:
            outputs = self._outputs(node, results, attributes, outer)
            results.update(zip(node.output, map(self.device.wrap, outputs), strict=False))

        for step, outer, done in self.steps:
            if isinstance(step, Chain):
                for name in step.reads:
                    self._find(results, name)
                try:
                    step.run(results, run_node, self.device)
                except MIOpenError:
                    raise
                except _MISFITS as e:
                    raise _misfit(step.head, e) from e
            else:
                run_node(step, results, outer)
            if not intermediate:
                for name in done:
                    results.pop(name, None)
        return results

    def _find(self, results: Mapping[str, Any], name: str) -> Any:
        try:
            return results[name]
        except KeyError:
            raise BadParmError("no value of this name", "inputs", name, f"inputs: {self.input_names}") from None

    def _outputs(self, node: OpRun, results: dict[str, Any], attributes: Any, outer: Collection[str]) -> Iterable[Any]:
        inputs = [self._find(results, name) for name in node.input]
        more: dict[str, Any] = {"linked_attributes": attributes} if node.has_linked_attribute and attributes else {}
        ours = isinstance(node, (Node, OpFunction))
        if node.need_context():
            context = {name: results[name] for name in outer if name in results}
            if node.op_type in _CONDITIONAL:  # which look at the condition and the count
                inputs, ours = [unwrap(value) if i < 2 else value for i, value in enumerate(inputs)], True
            else:
                context = {name: unwrap(value) for name, value in context.items()}
            more["context"] = context
        run: Callable[..., Iterable[Any]] = node.run
        try:
            outputs = run(*(inputs if ours else map(unwrap, inputs)), **more)
        except MIOpenError:
            raise
        except _MISFITS as e:
            raise _misfit(node, e) from e
        if not ours and not node.has_subgraph:  # of a node that contains others, those are noted
            self.device.ran.append(Ran(node.onnx_node, "numpy", "not an operation of MIOpen"))
        return outputs


def evaluator_of(device: Device, fuse: bool) -> type[Evaluator]:
    """Return the evaluator of a device, for graphs, their subgraphs and their functions."""
    nodes: list[type[OpRun]] = [type(node.__name__, (node,), {"device": device}) for node in _NODES]
    return type("Evaluator", (Evaluator,), {"device": device, "nodes": nodes, "fuses": fuse})
