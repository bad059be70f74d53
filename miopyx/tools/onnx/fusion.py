"""Which nodes become one call.

A chain begins with Conv, ConvTranspose, Gemm or MatMul, or with BatchNormalization of given statistics, and goes on
with what alone reads the result so far:

    Conv, ConvTranspose     BatchNormalization, then Add, then an activation, each or none
    Gemm, MatMul            Add, then an activation, each or none
    BatchNormalization      an activation

Two Adds may follow, of a constant for each channel or column and of a whole tensor.  What is decided here is what the
graph says.  Lengths and types are known when a chain is run: where they do not allow all of it, it is cut there, and
the rest runs node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import onnx
from onnx.reference.op_run import OpRun

from miopyx.errors import MIOpenNotImplementedError

from .convolution import Conv, Epilogue, Norm
from .elements import Activation, Clip
from .matmul import Gemm, MatMul
from .nodes import Node, Outside, Run
from .norms import BatchNormalization
from .values import Device, Ran, Value

__all__ = ["Chain", "Fusion", "Member", "chains_of"]

_HEADS = (Conv, Gemm, MatMul, BatchNormalization)


class Fusion:
    """A node that others may be fused into.

    Attributes
    ----------
    nodes : tuple of onnx.NodeProto
        The nodes that run as one call, in their order; one alone where none was fused.  What lengths and types do not
        allow leaves it when the model is run.
    why : str
        Why the node behind them is not among them.
    """

    def __init__(self, nodes: Sequence[onnx.NodeProto], why: str) -> None:
        self.nodes, self.why = tuple(nodes), why

    def __str__(self) -> str:
        return f"{self.nodes[0].output[0]}: {' + '.join(node.op_type for node in self.nodes)}; {self.why}"

    def __repr__(self) -> str:
        return f"<Fusion {self}>"


class Member(NamedTuple):
    """A node of a chain: what it is there, and the other tensor that an Add reads."""

    node: Node
    kind: str
    other: str = ""


class Chain:
    """Nodes that run as one call where lengths and types allow it."""

    def __init__(self, members: Sequence[Member], why: str) -> None:
        self.members = list(members)
        self.why = why
        self.fusion = Fusion([member.node.onnx_node for member in members], why)
        self.prepared: dict[object, tuple[int, Run | None, str, str]] = {}

    @property
    def head(self) -> Node:
        return self.members[0].node

    @property
    def reads(self) -> set[str]:
        """The names of what comes from outside the chain."""
        inner = {member.node.output[0] for member in self.members[:-1]}
        return {name for member in self.members for name in member.node.input} - inner

    def run(self, results: dict[str, Any], run_node: Callable[[OpRun, dict[str, Any]], None], device: Device) -> None:
        """Add what the nodes give to `results`, but what is not stored."""
        head = [results[name] for name in self.head.input]
        others = [[results[name] for name in member.node.input[1:]] if member.kind != "Add" else [results[member.other]]
                  for member in self.members[1:]]
        key = self.head.key(head), *(v.key if isinstance(v, Value) else None for values in others for v in values)
        step = self.prepared.get(key)
        if step is None:
            step = self.prepared[key] = self._prepare(head, others)
        count, run, solver, why = step
        self.fusion.nodes = tuple([member.node.onnx_node for member in self.members[:count]])
        self.fusion.why = why
        if run is not None:
            if isinstance(self.head, BatchNormalization):
                value, = run(*head)
            else:
                norm = [v for member, values in zip(self.members[1:], others, strict=True) if member.kind == "norm"
                        for v in values]
                added = [values[0] for member, values in zip(self.members[1:count], others, strict=False)
                         if member.kind == "Add"]
                value, = run(*head, *[None] * (3 - len(head)), norm, added)
            device.ran.append(Ran(self.head.onnx_node, "miopyx", solver))
            device.ran += [Ran(member.node.onnx_node, "fused", f"into {self.head.output[0]}")
                           for member in self.members[1:count]]
            results[self.members[count - 1].node.output[0]] = value
        for member in self.members[count if run is not None else 0:]:
            run_node(member.node, results)

    def _prepare(self, head: Sequence[Any], others: Sequence[Sequence[Any]]) -> tuple[int, Run | None, str, str]:
        """Return how many nodes are one call, the call, its solver, and why it ends; no call for the head alone."""
        why = self.why
        for count in range(len(self.members), 1, -1):
            try:
                self.head.require(head)
                after = self._epilogue(head, others, count)
                run, solver = self.head.prepare(head, self.head.attributes, after)  # type: ignore[call-arg]
                return count, run, solver, why
            except (Outside, MIOpenNotImplementedError) as e:
                why = f"{self.members[count - 1].node.op_type}: {e}"
        return 1, None, "", why

    def _epilogue(self, head: Sequence[Any], others: Sequence[Sequence[Any]], count: int) -> Epilogue:
        norm, added, function = None, [], None
        for member, values in zip(self.members[1:count], others, strict=False):
            if member.kind == "norm":
                norm = Norm((values[0], values[1], values[2], values[3]), float(member.node.attributes.epsilon))
            elif member.kind == "Add":
                added.append(values[0])
            else:
                assert isinstance(member.node, Activation)
                function = member.node.function([head[0], *values], member.node.attributes)
        return Epilogue(norm, tuple(added), function)


def chains_of(nodes: Sequence[OpRun], readers: Mapping[str, Sequence[OpRun]], outputs: Collection[str],
              constants: Collection[str]) -> list[Chain]:
    """Return the chains of a graph, one for each node that others may be fused into.

    Parameters
    ----------
    nodes : sequence of OpRun
        In the order of the graph.
    readers : dict
        The nodes that read a name, one entry for each time.
    outputs, constants : collection of str
        Names of what is returned, and of what is the same in every run.
    """
    taken: dict[int, str] = {}
    found = []
    for head in nodes:
        if not isinstance(head, _HEADS) or id(head) in taken:
            continue
        members, why = [Member(head, "head")], _unfit(head)
        while not why:
            member, why = _next(members, readers, outputs, constants, taken)
            if member is not None:
                members.append(member)
        for member in members:
            taken[id(member.node)] = head.output[0]
        found.append(Chain(members, why))
    return found


def _unfit(head: Node) -> str:
    """Return why nothing can follow a node."""
    if head.has_linked_attribute:
        return "its attributes belong to a function's caller"
    if isinstance(head, BatchNormalization):
        return _moving(head)
    return ""


def _moving(node: BatchNormalization) -> str:
    if node.training:
        return "BatchNormalization computes its statistics"
    return "BatchNormalization has parameters for each activation" if node.per_activation else ""


def _next(members: Sequence[Member], readers: Mapping[str, Sequence[OpRun]], outputs: Collection[str],
          constants: Collection[str], taken: Mapping[int, str]) -> tuple[Member | None, str]:
    """Return the next member of a chain, or None and why there is none."""
    name, head = members[-1].node.output[0], members[0].node
    kinds = [member.kind for member in members]
    if kinds[-1] == "activation":
        return None, "an activation is the end"
    if name in outputs:
        return None, f"{name} is an output"
    found = readers.get(name, ())
    if len(found) != 1:
        return None, f"{name} is read {len(found)} times" if found else f"nothing reads {name}"
    node = found[0]
    if id(node) in taken:
        return None, f"{node.op_type} follows {taken[id(node)]}"
    if not isinstance(node, Node) or node.has_linked_attribute:
        return None, f"{node.op_type} cannot follow"
    if isinstance(node, Activation):
        changing = set(node.input[1:]) - {"", *constants}
        if node.input[0] != name or (isinstance(node, Clip) and changing):
            return None, f"{node.op_type} has bounds that may change"
        return Member(node, "activation"), ""
    if isinstance(node, BatchNormalization) and isinstance(head, Conv) and len(members) == 1:
        why = _moving(node) or ("" if node.input[0] == name else f"{name} is no image of BatchNormalization")
        return (None, why) if why else (Member(node, "norm"), "")
    adds = node.op_type in ("Add", "Sum") and len(node.input) == 2
    if adds and not isinstance(head, BatchNormalization) and kinds.count("Add") < 2:
        return Member(node, "Add", node.input[1] if node.input[0] == name else node.input[0]), ""
    return None, f"{node.op_type} cannot follow"
