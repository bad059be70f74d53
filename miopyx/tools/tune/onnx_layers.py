"""The convolutions of an ONNX model, by its inferred shapes; products with constant matrices are convolutions, too.

The bodies of If, Loop and Scan are read like the model itself, each once; the functions of a model are put in the place
of their calls before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import onnx
from onnx import AttributeProto, helper, inliner, shape_inference

from miopyx import ConvolutionDescriptor, enums
from miopyx.errors import BadParmError, MIOpenError

from ..driver.options import UsageError
from ..onnx.convolution import geometry, transposed_pads, window
from ..onnx.nodes import Outside

_Tensor = tuple[Sequence[int], Sequence[int] | None]
_Made = tuple[_Tensor, _Tensor, ConvolutionDescriptor]
Layer = tuple[str, str, _Tensor, _Tensor, ConvolutionDescriptor, bool]
_PRODUCTS = ("Gemm", "MatMul")
_READ = ("Conv", "ConvTranspose", *_PRODUCTS)
_ANY = re.compile("Conv(?!ert)")  # of any domain: ConvInteger, FusedConv and the like
_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_AN_AXIS = {"strides": 1, "dilations": 1, "kernel_shape": 1, "output_padding": 1, "output_shape": 1, "pads": 2}
_KINDS = {"auto_pad": "STRING", "group": "INT", "transA": "INT", "transB": "INT", **dict.fromkeys(_AN_AXIS, "INTS")}
_DEFAULTS = {"auto_pad": "NOTSET", "group": 1, "transA": 0, "transB": 0, **dict.fromkeys(_AN_AXIS)}


class _Scope(NamedTuple):
    """What names mean in a graph: type and lengths of the tensors whose lengths are known, and which are constants."""

    tensors: dict[str, tuple[int, list[int]]]
    constants: set[str]


def layers(path: Path, source: str, batch: int | None, refused: list[str]) -> Iterator[Layer]:
    """Yield the layers of a model; what makes no problem is added to `refused`, after the name `source`.

    Raises
    ------
    UsageError
        For a file that cannot be read, or is no model.
    """
    try:
        model = _load(path, batch)
    except OSError as e:
        raise UsageError(f"{path}: {e.strerror}") from None
    except Exception as e:  # whatever onnx and protobuf make of a file that is none of theirs
        why = str(e).strip().splitlines()
        raise UsageError(f"{path}: no ONNX model: {why[0] if why else type(e).__name__}") from None
    yield from _of_graph(model.graph, _Scope({}, set()), "", source, batch, refused)


def _load(path: Path, batch: int | None) -> Any:
    """Return a model without calls of its own functions, with all shapes that can be inferred."""
    model = onnx.load(path, load_external_data=False)
    if not model.HasField("graph"):
        raise ValueError("no graph in it")
    if model.functions:
        model = inliner.inline_local_functions(model)
    if batch:
        constants = {tensor.name for tensor in model.graph.initializer}
        for value in model.graph.input:
            dims = value.type.tensor_type.shape.dim
            if dims and value.name not in constants:
                dims[0].Clear()
                dims[0].dim_value = batch
        _forget(model.graph)
    return shape_inference.infer_shapes(model, data_prop=True)


def _forget(graph: Any, body: bool = False) -> None:
    """Drop the shapes that a file gives for results, which inference would believe: they have another batch size."""
    del graph.value_info[:]
    for value in (*graph.output, *(graph.input if body else ())):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for _, inner in _bodies(node):
            _forget(inner, body=True)


def _bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the graphs that a node runs, with the attributes' names."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        yield from ((attribute.name, body) for body in attribute.graphs)


def _of_graph(graph: Any, outer: _Scope, where: str, source: str, batch: int | None,
              refused: list[str]) -> Iterator[Layer]:
    """Yield the layers of a graph inside `outer`; `where` leads to it."""
    scope = _inside(graph, outer)
    for index, node in enumerate(graph.node):
        kind = _text(node.op_type)
        name = where + (_text(node.name) or f"{kind} {index}")
        for attribute, body in _bodies(node):
            yield from _of_graph(body, scope, f"{name}/{_text(attribute)}/", source, batch, refused)
        read = node.domain in ("", "ai.onnx") and kind in _READ
        if not read and not _ANY.search(kind):
            continue
        try:
            if not read:
                raise Outside(f"{kind} is not measured")
            layer = _layer(node, name, scope, batch)
        except (MIOpenError, Outside) as e:
            refused.append(f"{source}, {name}: {e}")
            continue
        if layer is not None:
            yield layer


def _inside(graph: Any, outer: _Scope) -> _Scope:
    """Return what names mean in a graph: its own ones hide those around it."""
    tensors, constants = dict(outer.tensors), set(outer.constants)
    for name in (*(value.name for value in graph.input), *(name for node in graph.node for name in node.output)):
        tensors.pop(name, None)
        constants.discard(name)
    for value in (*graph.output, *graph.value_info, *graph.input):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(dim.dim_value > 0 for dim in kind.shape.dim):
            tensors[value.name] = kind.elem_type, [dim.dim_value for dim in kind.shape.dim]
    for tensor in graph.initializer:
        tensors[tensor.name] = tensor.data_type, list(tensor.dims)
        constants.add(tensor.name)
    constants.update(name for node in graph.node if node.op_type == "Constant" for name in node.output)
    return _Scope(tensors, constants)


def _layer(node: Any, name: str, scope: _Scope, batch: int | None) -> Layer | None:
    """Return a node as a layer; None for a product of two tensors that change.

    Those are groups or images, as the shapes have it, which the model seldom fixes.
    """
    kind = node.op_type
    if len(node.input) < 2 or not all(node.input[:2]):
        raise BadParmError("fewer than two inputs", "input", list(node.input), "x and w")
    if kind in _PRODUCTS and node.input[1] not in scope.constants:
        return None
    try:
        (x_type, x), (w_type, w) = (scope.tensors[wanted] for wanted in node.input[:2])
    except KeyError as e:
        raise Outside(f"lengths of {e.args[0]!r} are not known"
                      + ("" if batch else "; --batch sets those of the inputs")) from None
    if x_type != w_type:
        raise BadParmError("types differ", "w", _name(w_type), _name(x_type))
    a = _attributes(node)
    return name, _name(x_type), *(_product(kind, x, w, a) if kind in _PRODUCTS else _convolution(kind, x, w, a)), \
        kind in _PRODUCTS


def _text(value: str | bytes) -> str:
    """Return a name of a file as it can be printed; protobuf has bytes where it is not UTF-8."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return "".join(c if c.isprintable() else "?" for c in text)


def _name(kind: int) -> str:
    try:
        return str(helper.tensor_dtype_to_np_dtype(kind).name)
    except (KeyError, TypeError):
        raise BadParmError("no element type", "elem_type", kind, "one of ONNX's") from None


def _attributes(node: Any) -> SimpleNamespace:
    """Return what a node says, checked for its type, and defaults."""
    a = SimpleNamespace(**_DEFAULTS)
    for attribute in node.attribute:
        wanted = _KINDS.get(attribute.name)
        if wanted is None:
            continue
        given = AttributeProto.AttributeType.Name(attribute.type)
        if given != wanted:
            raise BadParmError("attribute of another type", attribute.name, given, wanted)
        value = helper.get_attribute_value(attribute)
        setattr(a, attribute.name, _text(value) if isinstance(value, bytes) else value)
    if a.auto_pad not in _AUTO_PADS:
        raise BadParmError("no way to pad", "auto_pad", a.auto_pad, ", ".join(_AUTO_PADS))
    return a


def _convolution(kind: str, x: list[int], w: list[int], a: SimpleNamespace) -> _Made:
    n, strides, dilations = geometry(len(x), len(w), a)
    for name, each in _AN_AXIS.items():
        values = getattr(a, name)
        if values and len(values) != each * n:
            raise BadParmError("not as many numbers as axes want", name, list(values), f"{each * n} numbers")
    if min(*strides, *dilations) < 1:
        raise BadParmError("below 1", "strides, dilations", [*strides, *dilations], ">= 1")
    if a.kernel_shape and list(a.kernel_shape) != w[2:]:
        raise BadParmError("not the lengths of w", "kernel_shape", list(a.kernel_shape), w[2:])
    if a.group < 1 or x[1] != (w[1] * a.group if kind == "Conv" else w[0]) or w[0] % a.group:
        raise BadParmError("channels and groups do not fit", "w", (w, f"group {a.group}"), f"{x[1]} channels of x")
    if kind == "Conv":
        begin, end, _ = window(x[2:], w[2:], strides, dilations, a)
        extra, mode = [0] * n, enums.miopenConvolution
    else:
        begin, end, extra = transposed_pads(x[2:], w[2:], strides, dilations, a)
        mode = enums.miopenTranspose
    if min(*begin, *end) < 0:
        raise BadParmError("negative pads", "pads", [*begin, *end], ">= 0")
    return (x, None), (w, None), ConvolutionDescriptor(begin, strides, dilations, mode, a.group, extra, end)


def _product(kind: str, x: list[int], w: list[int], a: SimpleNamespace) -> _Made:
    """Return a product with a constant matrix as the backend computes it: rows are pixels, columns channels."""
    if len(w) != 2:
        raise BadParmError("rank of a matrix", "B", len(w), 2)
    if not x or (kind == "Gemm" and len(x) != 2):
        raise BadParmError("rank", "A", len(x), 2 if kind == "Gemm" else ">= 1")
    rows = x[::-1] if kind == "Gemm" and a.transA else x
    k, n = w[::-1] if kind == "Gemm" and a.transB else w
    if rows[-1] != k:
        raise BadParmError("rows and columns do not fit", "B", k, rows[-1])
    m = 1
    for length in rows[:-1]:
        m *= length
    return ((1, k, 1, m), (m * k, 1, m * k, k)), ((n, k, 1, 1), None), ConvolutionDescriptor((0, 0))
