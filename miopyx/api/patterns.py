"""What runs an operation graph: single operations, a convolution with what follows it, attention.

A pattern names tensors; a graph matches where its operations and tensors can be named so, with what is between them
virtual.  What matches nothing is refused with what there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from miopyx.enums import miopenActivationMode_t as _Act
from miopyx.enums import (
    miopenDataType_t,
    miopenNanPropagation_t,
    miopenPointwiseMode_t,
    miopenReduceTensorOp_t,
    miopenRngDistribution_t,
    miopenTensorArgumentId_t,
)
from miopyx.errors import BadParmError, MIOpenError, MIOpenNotImplementedError
from miopyx.problem._activation import ActivationDescriptor
from miopyx.problem._descriptors import ConvolutionDescriptor, TensorDescriptor
from miopyx.problem._mha import MhaDescriptor
from miopyx.problem._reduce import ReduceTensorDescriptor
from miopyx.runtime._buffers import require_packed

from . import _activation, _convolution, _find2, _fusion, _reduce, _tensor_ops

if TYPE_CHECKING:
    from miopyx.engine._handle import Handle

    from ._graph import BackendDescriptor

_MOST = 99  # engines of a graph
# Where an operation's tensors are: inputs, then results, by the ends of their attributes' names.
_TENSORS = {
    "OPERATION_CONVOLUTION_FORWARD": ("OPERATION_CONVOLUTION_FORWARD", ("X", "W"), ("Y",)),
    "OPERATION_CONVOLUTION_BACKWARD_DATA": ("OPERATION_CONVOLUTION_BWD_DATA", ("DY", "W"), ("DX",)),
    "OPERATION_CONVOLUTION_BACKWARD_FILTER": ("OPERATION_CONVOLUTION_BWD_FILTER", ("DY", "X"), ("DW",)),
    "OPERATION_MATMUL": ("OPERATION_MATMUL", ("ADESC", "BDESC"), ("CDESC",)),
    "OPERATION_REDUCTION": ("OPERATION_REDUCTION", ("XDESC",), ("YDESC",)),
    "OPERATION_RESHAPE": ("OPERATION_RESHAPE", ("XDESC",), ("YDESC",)),
    "OPERATION_RNG": ("OPERATION_RNG", ("SEED", "OFFSET_DESC"), ("YDESC",)),
}
_BINARY = ("ADD", "ADD_SQUARE", "DIV", "MAX", "MIN", "MOD", "MUL", "POW", "SUB", "CMP_EQ", "CMP_NEQ", "CMP_GT",
           "CMP_GE",
           "CMP_LT", "CMP_LE", "LOGICAL_AND", "LOGICAL_OR")
_TENSOR_OPS = {"ADD": 0, "SUB": 0, "MUL": 1, "MIN": 2, "MAX": 3}  # miopenTensorOp_t
_LIMIT = ("one convolution, matmul, reduction or pointwise operation (add, sub, mul, min, max, identity, abs, relu, "
          "tanh, sigmoid, elu, softplus); a forward convolution with an add of z, an add of a bias and an activation, "
          "each at most once; MIOpen's forward and backward patterns of attention")


def _mode(op: BackendDescriptor) -> str:
    """Return what a pointwise operation does, without MIOPEN_POINTWISE_."""
    mode = op.value("OPERATION_POINTWISE_PW_DESCRIPTOR").value("POINTWISE_MODE")
    return miopenPointwiseMode_t(mode).name.removeprefix("MIOPEN_POINTWISE_")


def _operands(op: BackendDescriptor) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which attributes a pointwise operation reads and writes."""
    mode = _mode(op)
    if mode.endswith("_BWD"):
        by_y = op.value("OPERATION_POINTWISE_XDESC") is None
        return ("DYDESC", "YDESC" if by_y else "XDESC"), ("DXDESC",)
    if mode == "BINARY_SELECT":
        return ("XDESC", "BDESC", "TDESC"), ("YDESC",)
    return (("XDESC", "BDESC") if mode in _BINARY else ("XDESC",)), ("YDESC",)


def require_fit(op: BackendDescriptor) -> None:
    """Require that an operation's tensors fit each other, and that it asks for arithmetic that there is.

    Types are not compared here: what is between operations may be of any.

    Raises
    ------
    BadParmError
        Where a tensor is missing, or has other lengths than the operation gives it.
    MIOpenNotImplementedError
        For a compute type or a treatment of NaN that no function has.
    """
    if op.kind == "OPERATION_POINTWISE":
        for names in _operands(op):
            for name in names:
                if op.value(f"OPERATION_POINTWISE_{name}") is None:
                    raise BadParmError(f"a tensor of {_mode(op).lower()} is missing", "descriptor",
                                       f"MIOPEN_ATTR_OPERATION_POINTWISE_{name}",
                                       "one set by miopenBackendSetAttribute")
    reads, writes = _tensors(op)
    lens = {name: t.desc.lens for name, t in zip(_names(op), (*reads, *writes), strict=True)}
    if op.kind.startswith("OPERATION_CONVOLUTION"):
        _require_convolution(op, lens)
    elif op.kind == "OPERATION_MATMUL":
        _require_product(lens)
    elif op.kind == "OPERATION_RESHAPE":
        (_, x), (name, y) = lens.items()
        if math.prod(y) != math.prod(x):
            raise BadParmError("another number of elements than the operand's", name, y, x)
    elif op.kind == "OPERATION_REDUCTION":
        (_, x), (name, y) = lens.items()
        if math.prod(y) != 1 and (len(x) != len(y) or any(n not in (1, m) for m, n in zip(x, y, strict=True))):
            raise BadParmError("lengths are neither 1 nor the operand's", name, y, x)
    elif op.kind == "OPERATION_POINTWISE":
        _require_elements(op, lens)
        _require_nan(op)
    _require_compute_type(op)


def _names(op: BackendDescriptor) -> list[str]:
    """Return the attributes that name an operation's tensors, what it reads first."""
    prefix, reads, writes = (op.kind, *_operands(op)) if op.kind == "OPERATION_POINTWISE" else _TENSORS[op.kind]
    return [f"MIOPEN_ATTR_{prefix}_{name}" for name in (*reads, *writes)]


def _require_elements(op: BackendDescriptor, lens: dict[str, tuple[int, ...]]) -> None:
    """Require lengths of operands that are the result's; of two operands one may be repeated along an axis.

    A single number is repeated whatever its rank.
    """
    *reads, (result, y) = lens.items()
    repeats = _mode(op) in _BINARY
    if repeats:
        reads = [(name, (1,) * len(y) if math.prod(x) == 1 else x) for name, x in reads]
    for name, x in reads:
        if len(x) != len(y) or any(n != m and not (repeats and n == 1) for n, m in zip(x, y, strict=True)):
            raise BadParmError("lengths do not fit the result's", name, x, f"{y}{', or 1' if repeats else ''}")
    if repeats:
        (_, first), (_, second) = reads
        wanted = tuple(b if a == 1 else a for a, b in zip(first, second, strict=True))
        if y != wanted:
            raise BadParmError("lengths are not those of the operands", result, y, wanted)


def _require_product(lens: dict[str, tuple[int, ...]]) -> None:
    """Require lengths of c = a b, or of a b^T, with batches that may be repeated."""
    (_, a), (in_b, b), (in_c, c) = lens.items()
    for name, one in lens.items():
        if len(one) < 2:
            raise BadParmError("rank of a matrix", name, one, ">= 2")
    if b[-2] == a[-1]:
        n = b[-1]
    elif b[-1] == a[-1]:
        n = b[-2]
    else:
        raise BadParmError("lengths do not fit those of the left matrix", in_b, b, f"{a[-1]} rows, or as many columns")
    # With square matrices both products have the same lengths.
    more = len(b) - len(a)
    batch_a, batch_b = (1,) * more + a[:-2], (1,) * -more + b[:-2]
    for i, j in zip(batch_a, batch_b, strict=True):
        if i != j and 1 not in (i, j):
            raise BadParmError("batches do not fit those of the left matrix", in_b, b, f"{batch_a}, or 1")
    wanted = (*(j if i == 1 else i for i, j in zip(batch_a, batch_b, strict=True)), a[-2], n)
    if c != wanted:
        raise BadParmError("lengths are not the product's", in_c, c, wanted)


def _require_convolution(op: BackendDescriptor, lens: dict[str, tuple[int, ...]]) -> None:
    """Require the lengths of a convolution: x and w give y's."""
    prefix = _TENSORS[op.kind][0]
    conv = op.value(f"{prefix}_CONV_DESC")
    rank = conv.value("CONVOLUTION_SPATIAL_DIMS") + 2
    for name, its in lens.items():
        if len(its) != rank:
            raise BadParmError("rank is not the convolution's", name, its, rank)
    of = {name.removeprefix(f"MIOPEN_ATTR_{prefix}_").removeprefix("D"): name for name in lens}
    x, w = (op.value(of[role].removeprefix("MIOPEN_ATTR_")) for role in "XW")
    with _renamed(BadParmError, {"inputTensorDesc": of["X"], "filterDesc": of["W"]}):
        _, wanted = _convolution.miopenGetConvolutionNdForwardOutputDim(convolution_of(conv, x, w), x.desc, w.desc)
    if lens[of["Y"]] != wanted:
        raise BadParmError("lengths are not those of the convolution's output", of["Y"], lens[of["Y"]], wanted)


@contextmanager
def _renamed(error: type[MIOpenError], names: dict[str, str]) -> Iterator[None]:
    """Let what a function says of its parameters be said of attributes."""
    try:
        yield
    except MIOpenError as e:
        of = [names.get(one.partition(".")[0], one) for one in str(e.parameter).split(", ")]
        raise error(e.message, ", ".join(of), e.value, e.limit) from None


# Of each kind of operation the attribute for its descriptor, and that one's for the type that is computed with.
_COMPUTES = {
    "OPERATION_CONVOLUTION_FORWARD": ("OPERATION_CONVOLUTION_FORWARD_CONV_DESC", "CONVOLUTION_COMP_TYPE"),
    "OPERATION_CONVOLUTION_BACKWARD_DATA": ("OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC", "CONVOLUTION_COMP_TYPE"),
    "OPERATION_CONVOLUTION_BACKWARD_FILTER": ("OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC", "CONVOLUTION_COMP_TYPE"),
    "OPERATION_POINTWISE": ("OPERATION_POINTWISE_PW_DESCRIPTOR", "POINTWISE_MATH_PREC"),
    "OPERATION_MATMUL": ("OPERATION_MATMUL_DESC", "MATMUL_COMP_TYPE"),
    "OPERATION_REDUCTION": ("OPERATION_REDUCTION_DESC", "REDUCTION_COMP_TYPE"),
}
_WHOLE = frozenset({"int8", "int32", "int64"})
_SHORT = frozenset({"float16", "bfloat16"})


def _require_compute_type(op: BackendDescriptor) -> None:
    """Require the type that functions compute with, or one that has less: 16-bit tensors' own, float32 of float64."""
    if op.kind not in _COMPUTES:
        return
    desc, name = _COMPUTES[op.kind]
    asked = miopenDataType_t(op.value(desc).value(name))
    types = {str(t.desc.dtype) for t in _tensors(op)[0]}
    best = "float64" if "float64" in types else "int32" if types <= _WHOLE else "float32"
    fine = {best, *(types & _SHORT if best == "float32" else ("float32",) if best == "float64" else ())}
    if str(TensorDescriptor(asked, (1,)).dtype) not in fine:
        raise MIOpenNotImplementedError("not computed with this type", f"MIOPEN_ATTR_{name}", asked.name,
                                        " or ".join(sorted(fine)))


def _require_nan(op: BackendDescriptor) -> None:
    """Require that NaN is treated as was asked; where that was not set anything is fine."""
    pw = op.value("OPERATION_POINTWISE_PW_DESCRIPTOR")
    asked = pw.all_values("POINTWISE_NAN_PROPAGATION")
    if not asked:
        return
    propagates: bool | None = None
    if _mode(op) == "RELU_FWD":
        activation = activation_of(op)
        if activation is None:
            return
        propagates = activation.mode in (_Act.miopenActivationRELU, _Act.miopenActivationLEAKYRELU)
    elif _mode(op) not in ("MIN", "MAX"):
        return
    if asked[0] != propagates:
        limit = "not set" if propagates is None else f"not set, or {miopenNanPropagation_t(propagates).name}"
        raise MIOpenNotImplementedError(f"NaN is not treated so by {_mode(op).lower()}",
                                        "MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION",
                                        miopenNanPropagation_t(asked[0]).name, limit)


def _sign(op: BackendDescriptor) -> str:
    """Return an operation's name in patterns."""
    if op.kind == "OPERATION_POINTWISE":
        return _mode(op)
    if op.kind == "OPERATION_REDUCTION":
        number = op.value("OPERATION_REDUCTION_DESC").value("REDUCTION_OPERATOR")
        return "REDUCE_" + miopenReduceTensorOp_t(number).name.removeprefix("MIOPEN_REDUCE_TENSOR_")
    return str(op.kind).removeprefix("OPERATION_")


def _tensors(op: BackendDescriptor) -> tuple[list[BackendDescriptor], list[BackendDescriptor]]:
    """Return what an operation reads, and what it writes."""
    if op.kind == "OPERATION_POINTWISE":
        prefix, (reads, writes) = op.kind, _operands(op)
    else:
        prefix, reads, writes = _TENSORS[op.kind]
    return [op.value(f"{prefix}_{name}") for name in reads], [op.value(f"{prefix}_{name}") for name in writes]


class Prepared:
    """A graph that is ready on a handle."""

    def __init__(self, handle: Handle, tensors: list[BackendDescriptor], launch: Callable[[dict[int, Any]], None],
                 ignored: frozenset[int]) -> None:
        self.handle, self.launch, self.ignored, self.workspace = handle, launch, ignored, 0
        self.ids = {t.uid for t in tensors}

    def run(self, memory: dict[int, Any]) -> None:
        """Run on memory by ids."""
        for uid in self.ids - memory.keys():
            raise BadParmError("a tensor has no memory", "variantPack", uid, sorted(self.ids))
        for uid in memory.keys() - self.ids - self.ignored:
            raise BadParmError("no tensor of the graph", "variantPack", uid, sorted(self.ids))
        self.launch(memory)


class Engine:
    """One way to run a graph: tensors that have memory, and a function that prepares it on a handle.

    With `names`, of the parameters that its function calls them by, the attributes, it is prepared on the graph's
    handle at once: what cannot be prepared is no engine.
    """

    def __init__(self, tensors: list[BackendDescriptor],
                 ready: Callable[[Handle], Callable[[dict[int, Any]], None]],
                 ignored: frozenset[int] = frozenset(), on: Handle | None = None,
                 names: dict[str, str] | None = None) -> None:
        self.tensors, self.ready, self.ignored, self.first = tensors, ready, ignored, on
        if on is not None:
            with _renamed(MIOpenNotImplementedError, names or {}):
                self.launch = ready(on)

    def prepare(self, handle: Handle) -> Prepared:
        """Build what is needed."""
        launch = self.launch if handle is self.first else self.ready(handle)
        return Prepared(handle, self.tensors, launch, self.ignored)


def _of_plan(make: Callable[[Handle], Any], tensors: list[BackendDescriptor], on: Handle | None = None,
             names: dict[str, str] | None = None, **numbers: float) -> Engine:
    """Return the engine of a plan, whose buffers are those of `tensors`."""
    def ready(handle: Handle) -> Callable[[dict[int, Any]], None]:
        plan = make(handle)
        return lambda memory: plan(*(memory[t.uid] for t in tensors), **numbers)

    return Engine(tensors, ready, on=on, names=names)


def engines(graph: BackendDescriptor) -> list[Engine]:
    """Return what runs an operation graph, the best first.

    Raises
    ------
    BadParmError
        Where two operations write the same tensor, or two tensors have the same id.
    MIOpenNotImplementedError
        For a graph that nothing runs.
    """
    ops = graph.all_values("OPERATIONGRAPH_OPS")
    handle = graph.value("OPERATIONGRAPH_HANDLE")
    by_id: dict[int, BackendDescriptor] = {}
    read: set[int] = set()
    written: set[int] = set()
    for op in ops:
        reads, writes = _tensors(op)
        for t in (*reads, *writes):
            first = by_id.setdefault(t.uid, t)
            if first.desc != t.desc or first.virtual != t.virtual:
                raise BadParmError("two tensors have the same id", "MIOPEN_ATTR_TENSOR_UNIQUE_ID", t.uid,
                                   "ids of their own")
        read |= {t.uid for t in reads}
        for t in writes:
            if t.uid in written:
                raise BadParmError("written by two operations", "MIOPEN_ATTR_TENSOR_UNIQUE_ID", t.uid, "one operation")
            written.add(t.uid)
    found = None
    if len(ops) == 1:
        found = _single(ops[0], handle)
    elif any(op.kind == "OPERATION_CONVOLUTION_FORWARD" for op in ops):
        found = _fused(ops, handle)
    else:
        for pattern, direction in ((_FORWARD, 0), (_BACKWARD, 1)):
            if found is None and len(ops) == len(pattern):
                found = _attention(ops, pattern, direction, handle)
    if not found:
        kept = [t.uid for t in by_id.values() if t.uid in read & written and not t.value("TENSOR_IS_VIRTUAL")]
        why = f"; tensors between its operations are not virtual: {', '.join(map(str, kept))}" if kept else ""
        raise MIOpenNotImplementedError(f"nothing runs this graph{why}", "MIOPEN_ATTR_OPERATIONGRAPH_OPS",
                                        [_sign(op).lower() for op in ops], _LIMIT)
    return found


# Convolutions


def convolution_of(conv: BackendDescriptor, x: BackendDescriptor, w: BackendDescriptor) -> ConvolutionDescriptor:
    """Return the descriptor of a graph's convolution; tensors say how many groups there are."""
    channels, each = x.desc.lens[1], w.desc.lens[1]
    if each == 0 or channels % each:
        raise BadParmError("channels of x are no multiple of w's", "inputTensorDesc", x.desc.lens, w.desc.lens)
    desc = ConvolutionDescriptor(conv.all_values("CONVOLUTION_PRE_PADDINGS"),
                                 conv.all_values("CONVOLUTION_FILTER_STRIDES"),
                                 conv.all_values("CONVOLUTION_DILATIONS"),
                                 conv.value("CONVOLUTION_CONV_MODE"), groups=channels // each,
                                 end_pads=conv.all_values("CONVOLUTION_POST_PADDINGS"))
    return desc


def _single(op: BackendDescriptor, handle: Handle) -> list[Engine] | None:
    reads, writes = _tensors(op)
    tensors = [*reads, *writes]
    if any(t.virtual for t in tensors):
        raise BadParmError("virtual, and no other operation reads or writes it", "MIOPEN_ATTR_TENSOR_IS_VIRTUAL",
                           [t.uid for t in tensors if t.virtual], "no virtual tensor beside a single operation")
    if op.kind.startswith("OPERATION_CONVOLUTION"):
        return _convolutions(op, handle, reads, writes)
    if op.kind == "OPERATION_POINTWISE":
        return _pointwise(op, handle, tensors)
    if op.kind == "OPERATION_MATMUL":
        return _matmul(op, handle, tensors)
    if op.kind == "OPERATION_REDUCTION":
        of = op.value("OPERATION_REDUCTION_DESC")
        desc = ReduceTensorDescriptor(of.value("REDUCTION_OPERATOR"), of.value("REDUCTION_COMP_TYPE"), 1)
        return [_of_plan(lambda on: _reduce.plan_reduce_tensor(on, desc, tensors[0].desc, tensors[1].desc), tensors,
                         handle, dict(zip(("aDesc", "cDesc"), _names(op), strict=True)))]
    return None


def _convolutions(op: BackendDescriptor, handle: Handle, reads: list[BackendDescriptor],
                  writes: list[BackendDescriptor]) -> list[Engine]:
    """Return an engine of each solver, in the order of immediate mode."""
    prefix = _TENSORS[op.kind][0]
    numbers = {"alpha": op.value(f"{prefix}_ALPHA"), "beta": op.value(f"{prefix}_BETA")}
    tensors = [*reads, *writes]
    first, second, result = (t.desc for t in tensors)
    conv = op.value(f"{prefix}_CONV_DESC")
    plan: Any = _convolution.plan_forward
    with _renamed(MIOpenNotImplementedError, {f"{one.rpartition('_')[2].lower()}Desc": one for one in _names(op)}):
        if op.kind == "OPERATION_CONVOLUTION_FORWARD":
            desc = convolution_of(conv, tensors[0], tensors[1])
            found = _convolution.miopenConvolutionForwardGetSolution(handle, second, first, desc, result, _MOST)
        elif op.kind == "OPERATION_CONVOLUTION_BACKWARD_DATA":
            desc = convolution_of(conv, tensors[2], tensors[1])
            found = _convolution.miopenConvolutionBackwardDataGetSolution(handle, first, second, desc, result, _MOST)
            plan = _convolution.plan_backward_data
        else:
            desc = convolution_of(conv, tensors[1], tensors[2])
            found = _convolution.miopenConvolutionBackwardWeightsGetSolution(handle, first, second, desc, result, _MOST)
            plan = _convolution.plan_backward_weights

    def engine(solution: int) -> Engine:
        return _of_plan(lambda on: plan(on, first, second, desc, result, solution), tensors, **numbers)

    return [engine(one.solution_id) for one in found]


def _chain(ops: list[BackendDescriptor]) -> Iterator[BackendDescriptor]:
    """Yield the operations from the convolution on, each the only reader of the virtual result before it."""
    op = next(one for one in ops if one.kind == "OPERATION_CONVOLUTION_FORWARD")
    while True:
        yield op
        result = _tensors(op)[1][0]
        readers = [one for one in ops if any(t.uid == result.uid for t in _tensors(one)[0])]
        if len(readers) != 1 or not result.virtual:
            return
        op = readers[0]


def _fused(ops: list[BackendDescriptor], handle: Handle) -> list[Engine] | None:
    """Return engines of act(alpha1 conv(x, w) + alpha2 z + bias), of which each part may be missing."""
    order = list(_chain(ops))
    if len(order) != len(ops):
        return None
    conv = order[0]
    (x, w), (here,) = _tensors(conv)
    if conv.value("OPERATION_CONVOLUTION_FORWARD_BETA") != 0:
        return None
    # Where y has one pixel an addend may be either.
    parts = _epilogue(order, here, "z") or _epilogue(order, here, "bias")
    if parts is None:
        return None
    z, bias, activation, alpha1, alpha2, here, names = parts
    tensors = [x, w, *([z] if z else []), *([bias] if bias else []), here]
    if any(t.virtual for t in tensors):
        return None
    desc = convolution_of(conv.value("OPERATION_CONVOLUTION_FORWARD_CONV_DESC"), x, w)
    what = (x.desc, w.desc, desc, z.desc if z else None, bias.desc if bias else None,
            activation or ActivationDescriptor(), here.desc)

    def engine(solution: int) -> Engine:
        return _of_plan(lambda on: _fusion.plan_bias_activation(on, *what, solution), tensors, alpha1=alpha1,
                        alpha2=alpha2 if z else 0.0)

    with _renamed(MIOpenNotImplementedError, names):
        found = _fusion.fused_candidates(handle, *what, None)[:_MOST]
    return [engine(solution) for solution, _, _ in found]


def _epilogue(order: list[BackendDescriptor], here: BackendDescriptor, preferred: str) -> tuple[Any, ...] | None:
    """Return z, bias, activation, factors, result and names of what follows a convolution; None where it is more."""
    alpha1, alpha2 = order[0].value("OPERATION_CONVOLUTION_FORWARD_ALPHA"), 1.0
    z = bias = activation = None
    names = dict(zip(("xDesc", "wDesc", "yDesc"), _names(order[0]), strict=True))
    y = _tensors(order[-1])[1][0].desc
    for op in order[1:]:
        if op.kind != "OPERATION_POINTWISE" or activation is not None:
            return None
        reads, (result,) = _tensors(op)
        factors = [op.value("OPERATION_POINTWISE_ALPHA1"), op.value("OPERATION_POINTWISE_ALPHA2")]
        if _mode(op) == "ADD":
            at = 0 if reads[0].uid == here.uid else 1
            other, of_here, of_other = reads[1 - at], factors[at], factors[1 - at]
            if other.uid == here.uid or other.virtual:
                return None
            lens = other.desc.lens
            of_channels = len(lens) == len(y.lens) and lens == tuple(n if i == 1 else 1 for i, n in enumerate(y.lens))
            # What is before a z is scaled; a bias before it would be, too.
            may_be = {"z": z is None and (of_here == 1 or bias is None)
                      and (not of_channels or other.desc == y),
                      "bias": of_channels and bias is None and of_other == of_here == 1}
            if not any(may_be.values()):
                return None
            if may_be["z"] and (preferred == "z" or not may_be["bias"]):
                z, alpha1, alpha2 = other, alpha1 * of_here, of_other
                names["zDesc"] = _names(op)[1 - at]
            else:
                bias = other
                names["biasDesc"] = _names(op)[1 - at]
        else:
            activation = activation_of(op)
            if activation is None:
                return None
        here, names["yDesc"] = result, _names(op)[-1]
    return z, bias, activation, alpha1, alpha2, here, names


# Element by element


def activation_of(op: BackendDescriptor) -> ActivationDescriptor | None:
    """Return what a pointwise operation is as an activation, None where it is none."""
    pw, mode = op.value("OPERATION_POINTWISE_PW_DESCRIPTOR"), _mode(op)
    if op.value("OPERATION_POINTWISE_ALPHA1") != 1:
        return None
    if mode == "RELU_FWD":
        lower, upper = pw.value("POINTWISE_RELU_LOWER_CLIP"), pw.value("POINTWISE_RELU_UPPER_CLIP")
        slope = pw.value("POINTWISE_RELU_LOWER_CLIP_SLOPE")
        if slope != 0:
            plain = lower == 0 and math.isinf(upper)
            return ActivationDescriptor(_Act.miopenActivationLEAKYRELU, slope) if plain else None
        if lower == 0 and math.isinf(upper):
            return ActivationDescriptor(_Act.miopenActivationRELU)
        if lower == 0:
            return ActivationDescriptor(_Act.miopenActivationCLIPPEDRELU, upper)
        return ActivationDescriptor(_Act.miopenActivationCLAMP, lower, upper)
    if mode == "ELU_FWD":
        return ActivationDescriptor(_Act.miopenActivationELU, pw.value("POINTWISE_ELU_ALPHA"))
    if mode == "SOFTPLUS_FWD" and pw.value("POINTWISE_SOFTPLUS_BETA") != 1:
        return None
    of = {"TANH_FWD": "TANH", "SIGMOID_FWD": "LOGISTIC", "SOFTPLUS_FWD": "SOFTRELU", "ABS": "ABS",
          "IDENTITY": "PASTHRU"}
    return ActivationDescriptor(_Act[f"miopenActivation{of[mode]}"], 1.0, 1.0) if mode in of else None


def _pointwise(op: BackendDescriptor, handle: Handle, tensors: list[BackendDescriptor]) -> list[Engine] | None:
    mode, descs, names = _mode(op), [t.desc for t in tensors], _names(op)
    alpha1, alpha2 = op.value("OPERATION_POINTWISE_ALPHA1"), op.value("OPERATION_POINTWISE_ALPHA2")
    if mode in _TENSOR_OPS:
        if mode == "SUB":
            alpha2 = -alpha2
        # A number may be of any rank.
        descs = [TensorDescriptor(d.dtype, (1,) * len(descs[2].lens)) if math.prod(d.lens) == 1 else d for d in descs]
        # The second operand is the one that may be repeated.
        if descs[0].lens != descs[2].lens and descs[1].lens == descs[2].lens:
            tensors, descs = [tensors[1], tensors[0], tensors[2]], [descs[1], descs[0], descs[2]]
            alpha1, alpha2, names = alpha2, alpha1, [names[1], names[0], names[2]]
        return [_of_plan(lambda on: _tensor_ops.plan_op_tensor(on, _TENSOR_OPS[mode], *descs), tensors, handle,
                         dict(zip(("aDesc", "bDesc", "cDesc"), names, strict=True)), alpha1=alpha1, alpha2=alpha2,
                         beta=0.0)]
    of = dict(zip(("xDesc", "yDesc"), names, strict=False))
    if mode == "IDENTITY":
        return [_of_plan(lambda on: _tensor_ops.plan_transform_tensor(on, *descs), tensors, handle, of, alpha=alpha1,
                         beta=0.0)]
    activation = activation_of(op)
    if activation is None:
        return None
    return [_of_plan(lambda on: _activation.plan_activation_forward(on, activation, *descs), tensors, handle, of)]


# Products


def _matmul(op: BackendDescriptor, handle: Handle, tensors: list[BackendDescriptor]) -> list[Engine] | None:
    """Return the engine of c = a b, a batch at a time: a convolution of b by a with groups for the batch."""
    a, b, c = (t.desc for t in tensors)
    for name in ("GEMM_M_OVERRIDE_DESC", "GEMM_N_OVERRIDE_DESC", "GEMM_K_OVERRIDE_DESC"):
        if op.value(f"OPERATION_MATMUL_{name}") is not None:
            return None
    *batch, m, k = a.lens
    n = b.lens[-1]
    if k == 0:
        raise MIOpenNotImplementedError("a product of nothing", _names(op)[0], a.lens, "1 column or more")
    if b.lens != (*batch, k, n) or c.lens != (*batch, m, n):
        return None  # batches that are repeated, and b^T
    count = math.prod(batch)
    if not all(d.strides == TensorDescriptor(d.dtype, d.lens).strides for d in (a, b, c)):
        return None
    kind, result = a.dtype, c.dtype
    x, w = TensorDescriptor(b.dtype, (1, count * k, 1, n)), TensorDescriptor(kind, (count * m, k, 1, 1))
    y, conv = TensorDescriptor(result, (1, count * m, 1, n)), ConvolutionDescriptor((0, 0), groups=count)

    def ready(handle: Handle) -> Callable[[dict[int, Any]], None]:
        plan = _convolution.plan_forward(handle, x, w, conv, y)

        def launch(memory: dict[int, Any]) -> None:
            left, right, to = (_reshaped(memory[t.uid], name, t.desc, d.lens)
                               for name, t, d in zip("ABC", tensors, (w, x, y), strict=True))
            try:
                plan(right, left, to)
            except BadParmError as e:
                own = {"w": "A", "x": "B", "y": "C"}.get(str(e.parameter))
                if own is None:
                    raise
                raise BadParmError(e.message, own, e.value, e.limit) from None  # the caller knows of no convolution
        return launch

    return [Engine(tensors, ready, on=handle, names=dict(zip(("wDesc", "xDesc", "yDesc"), _names(op), strict=True)))]


def _reshaped(memory: Any, name: str, desc: TensorDescriptor, there: tuple[int, ...]) -> Any:
    """Return an array of a tensor's with a convolution's lengths, over the same memory; other memory has no lengths."""
    require_packed(memory, name, desc)
    shape, reshape = getattr(memory, "shape", None), getattr(memory, "reshape", None)
    if shape is None or reshape is None or isinstance(memory, type) or math.prod(shape) != math.prod(there):
        return memory
    return reshape(there)


# Attention.  Operations, what they read and write, as MIOpen's patterns have them: IDENTITY's alpha is the scale.

_NUMBERS = ("Descale", "Scale", "Dropout", "Amax", "inverse")  # have one element
_Pattern = tuple[tuple[str, tuple[str, ...], str], ...]
_FORWARD: _Pattern = (
    ("MATMUL", ("Q", "K"), "s0"), ("IDENTITY", ("s0",), "s1"), ("MUL", ("s1", "DescaleQ"), "s2"),
    ("MUL", ("s2", "DescaleK"), "s3"), ("REDUCE_MAX", ("s3",), "M"), ("SUB", ("s3", "M"), "sub"),
    ("EXP", ("sub",), "e"), ("REDUCE_ADD", ("e",), "sum"), ("RECIPROCAL", ("sum",), "ZInv"), ("MUL", ("e", "ZInv"),
                                                                                              "p0"),
    ("REDUCE_MAX", ("p0",), "AmaxS"), ("RNG", ("DropoutSeed", "DropoutOffset"), "rnd"), ("MUL", ("p0", "rnd"), "p1"),
    ("MUL", ("p1", "DropoutProbability"), "p2"), ("MUL", ("p2", "ScaleS"), "p3"), ("MATMUL", ("p3", "V"), "o0"),
    ("MUL", ("o0", "DescaleS"), "o1"), ("MUL", ("o1", "DescaleV"), "o2"), ("MUL", ("o2", "ScaleO"), "O"),
    ("REDUCE_MAX", ("o2",), "AmaxO"),
)
_BACKWARD: _Pattern = (
    ("RESHAPE", ("K",), "kt"), ("MATMUL", ("Q", "kt"), "s0"), ("IDENTITY", ("s0",), "s1"),
    ("MUL", ("s1", "DescaleQ"), "s2"), ("MUL", ("s2", "DescaleK"), "s3"), ("SUB", ("s3", "M"), "sub"),
    ("EXP", ("sub",), "e"), ("MUL", ("e", "ZInv"), "p0"), ("RNG", ("DropoutSeed", "DropoutOffset"), "rnd"),
    ("MUL", ("p0", "rnd"), "p1"), ("MUL", ("p1", "inverse"), "p2"), ("MUL", ("p2", "ScaleS"), "p3"),
    ("RESHAPE", ("p3",), "pt"), ("MATMUL", ("pt", "DO"), "v0"), ("MUL", ("v0", "DescaleS"), "v1"),
    ("MUL", ("v1", "DescaleDO"), "v2"), ("REDUCE_MAX", ("v2",), "AmaxDV"), ("MUL", ("v2", "ScaleDV"), "DV"),
    ("RESHAPE", ("V",), "vt"), ("MATMUL", ("DO", "vt"), "d0"), ("MUL", ("d0", "DescaleDO"), "d1"),
    ("MUL", ("d1", "DescaleV"), "d2"), ("MUL", ("d2", "rnd"), "d3"), ("MUL", ("d3", "DropoutProbability"), "d4"),
    ("MUL", ("DO", "DescaleDO"), "r0"), ("MUL", ("O", "DescaleO"), "r1"), ("MUL", ("r0", "r1"), "r2"),
    ("MUL", ("r2", "DropoutProbability"), "r3"), ("REDUCE_ADD", ("r3",), "delta"), ("SUB", ("d4", "delta"), "b0"),
    ("IDENTITY", ("b0",), "b1"), ("MUL", ("b1", "p2"), "b2"), ("REDUCE_MAX", ("b2",), "AmaxDS"),
    ("MUL", ("b2", "ScaleDS"), "b3"), ("MATMUL", ("b3", "K"), "q0"), ("MUL", ("q0", "DescaleDS"), "q1"),
    ("MUL", ("q1", "DescaleK"), "q2"), ("REDUCE_MAX", ("q2",), "AmaxDQ"), ("MUL", ("q2", "ScaleDQ"), "DQ"),
    ("RESHAPE", ("b3",), "bt"), ("MATMUL", ("bt", "Q"), "k0"), ("MUL", ("k0", "DescaleDS"), "k1"),
    ("MUL", ("k1", "DescaleQ"), "k2"), ("REDUCE_MAX", ("k2",), "AmaxDK"), ("MUL", ("k2", "ScaleDK"), "DK"),
)


def _looks_like(name: str, t: BackendDescriptor) -> bool:
    """Return whether a tensor has the type of a number, or the rank of an attention's tensor."""
    return t.desc.dtype in ("float32", "int64") if name.startswith(_NUMBERS) else len(t.desc.lens) == 4


def _named(ops: list[BackendDescriptor], pattern: _Pattern) -> dict[str, BackendDescriptor] | None:
    """Return the tensors of a graph by a pattern's names, None where it is another graph."""
    by_sign: dict[str, list[BackendDescriptor]] = {}
    for op in ops:
        by_sign.setdefault(_sign(op), []).append(op)
    if sorted(map(_sign, ops)) != sorted(sign for sign, _, _ in pattern):
        return None

    def bind(names: dict[str, BackendDescriptor], ids: dict[int, str], more: list[tuple[str,
                                                                                        BackendDescriptor]]) -> bool:
        for name, t in more:
            if name.startswith(_NUMBERS) and math.prod(t.desc.lens) != 1:
                return False
            # MIOpen's own graph has P for 1 / (1 - P), too.
            one = "DropoutProbability" if name == "inverse" else name
            if names.setdefault(name, t).uid != t.uid or ids.setdefault(t.uid, one) != one:
                return False
        return True

    def search(i: int, names: dict[str, BackendDescriptor], ids: dict[int, str],
               used: frozenset[int]) -> dict[str, BackendDescriptor] | None:
        if i == len(pattern):
            return names
        sign, reads, result = pattern[i]
        for op in by_sign[sign]:
            if id(op) in used:
                continue
            has, (to,) = _tensors(op)
            orders = (reads, reads[::-1]) if sign == "MUL" else (reads,)
            # O and its factor may both have one element: what looks like it is tried first.
            for order in sorted(orders, key=lambda names: -sum(map(_looks_like, names, has))):
                now, now_ids = dict(names), dict(ids)
                if bind(now, now_ids, [*zip(order, has, strict=True), (result, to)]):
                    found = search(i + 1, now, now_ids, used | {id(op)})
                    if found is not None:
                        return found
        return None

    return search(0, {}, {}, frozenset())


# Lengths of what is between, by the first letters of names: t rows of queries, u of keys, of depth d, and e of values.
_FORWARD_LENS = {"sum": "t1", "sub": "tu", "s": "tu", "e": "tu", "p": "tu", "rnd": "tu", "o": "te"}
_BACKWARD_LENS = {"kt": "du", "pt": "ut", "vt": "eu", "bt": "ut", "sub": "tu", "s": "tu", "e": "tu", "p": "tu",
                  "rnd": "tu", "delta": "t1", "d": "tu", "b": "tu", "r": "te", "q": "td", "k": "ud", "v": "ue"}


def _lens_fit(names: dict[str, BackendDescriptor], between: set[str], direction: int) -> bool:
    """Return whether what is between has the lengths of an attention."""
    q, k, v = (names[name].desc.lens for name in "QKV")
    if not len(q) == len(k) == len(v) == 4:
        return False
    of = {"1": 1, "t": q[2], "d": q[3], "u": k[2], "e": v[3]}
    lens = _BACKWARD_LENS if direction else _FORWARD_LENS
    for name in between:
        ends = next(ends for start, ends in lens.items() if name.startswith(start))
        if names[name].desc.lens != (*q[:2], of[ends[0]], of[ends[1]]):
            return False
    return True


def _plain(op: BackendDescriptor) -> bool:
    """Return whether an operation of an attention is what the pattern's is, beside its tensors."""
    if op.kind == "OPERATION_RNG":
        drawn = op.value("OPERATION_RNG_DESC").value("RNG_DISTRIBUTION")
        return bool(drawn == miopenRngDistribution_t.MIOPEN_RNG_DISTRIBUTION_BERNOULLI)
    if op.kind != "OPERATION_POINTWISE":
        return True
    scaled = _mode(op) != "IDENTITY" and op.value("OPERATION_POINTWISE_ALPHA1") != 1
    return not scaled and bool(op.value("OPERATION_POINTWISE_ALPHA2") == 1)


def _id_of(name: str) -> miopenTensorArgumentId_t:
    return miopenTensorArgumentId_t[f"miopenTensorMha{name}"]


def _attributes_of(ops: list[BackendDescriptor]) -> dict[int, str]:
    """Return what to call each tensor of some operations: the first attribute that has it, and its id."""
    found: dict[int, str] = {}
    for op in ops:
        reads, writes = _tensors(op)
        for attribute, t in zip(_names(op), (*reads, *writes), strict=True):
            found.setdefault(t.uid, f"{attribute} of tensor {t.uid}")
    return found


def _attention(ops: list[BackendDescriptor], pattern: _Pattern, direction: int,
               handle: Handle) -> list[Engine] | None:
    """Return the engine of MIOpen's patterns of attention, through Find 2.0."""
    names = _named(ops, pattern)
    if names is None or not all(map(_plain, ops)):
        return None
    between = {name for name in names if name[0].islower() and name != "inverse"}
    if any(names[name].virtual != (name in between) for name in names) or not _lens_fit(names, between, direction):
        return None
    scales = {op.value("OPERATION_POINTWISE_ALPHA1") for op in ops if _sign(op) == "IDENTITY"}
    if len(scales) != 1:
        raise BadParmError("two scales", "MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA1", sorted(scales),
                           "one of both identities")
    given = {name: t for name, t in names.items() if name not in between and name != "inverse"}
    with _renamed(BadParmError, {"scale": "MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA1"}):
        problem = _find2.miopenCreateMhaProblem(MhaDescriptor(scales.pop()), direction)
    for name, t in given.items():
        _find2.miopenSetProblemTensorDescriptor(problem, _id_of(name), t.desc)

    def ready(handle: Handle) -> Callable[[dict[int, Any]], None]:
        solution = _find2.miopenFindSolutions(handle, problem, None, 1)[0]

        def launch(memory: dict[int, Any]) -> None:
            arguments = [(_id_of(name), None, memory[t.uid]) for name, t in given.items()]
            _find2.miopenRunSolution(handle, solution, len(arguments), arguments, None, 0)
        return launch

    # A tensor of 1 / (1 - P) beside P is not read.
    ignored = frozenset({names["inverse"].uid} if "inverse" in names else ()) - {t.uid for t in given.values()}
    attributes = _attributes_of(ops)
    return [Engine(list(given.values()), ready, ignored, handle,
                   {f"Mha{name}": attributes[t.uid] for name, t in given.items()})]
