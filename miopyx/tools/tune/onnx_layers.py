"""The convolutions of an ONNX model, by its inferred shapes; products with constant matrices are convolutions, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import helper, shape_inference

from miopyx import ConvolutionDescriptor, enums
from miopyx.errors import BadParmError, MIOpenError

from ..driver.options import UsageError
from ..onnx.convolution import geometry, transposed_pads, window
from ..onnx.nodes import Outside

_Tensor = tuple[Sequence[int], Sequence[int] | None]
_Made = tuple[_Tensor, _Tensor, ConvolutionDescriptor]
Layer = tuple[str, str, _Tensor, _Tensor, ConvolutionDescriptor, bool]
_DEFAULTS = {"auto_pad": "NOTSET", "pads": None, "strides": None, "dilations": None, "group": 1,
             "output_padding": None, "output_shape": None}


def layers(path: Path, batch: int | None, refused: list[str]) -> Iterator[Layer]:
    """Yield the layers of a model; nodes whose shapes are not known are counted in `refused`."""
    try:
        model = onnx.load(path, load_external_data=False)
        for value in model.graph.input:
            dims = value.type.tensor_type.shape.dim
            if batch and dims and value.name not in {tensor.name for tensor in model.graph.initializer}:
                dims[0].Clear()
                dims[0].dim_value = batch
        model = shape_inference.infer_shapes(model, data_prop=True)
    except OSError as e:
        raise UsageError(f"{path}: {e.strerror}") from None
    except (DecodeError, ValueError, RuntimeError) as e:
        raise UsageError(f"{path}: no ONNX model: {e}") from None
    shapes, constants = _shapes(model.graph)
    for index, node in enumerate(model.graph.node):
        if node.op_type not in ("Conv", "ConvTranspose", "Gemm", "MatMul") or node.domain not in ("", "ai.onnx"):
            continue
        name = node.name or f"{node.op_type} {index}"
        try:
            x, w = (shapes[wanted] for wanted in node.input[:2])
        except KeyError:
            refused.append(f"{path.name}, {name}: lengths are not known"
                           + ("" if batch else "; --batch sets those of the inputs"))
            continue
        given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        try:
            made = (_product(node.op_type, x[1], w[1], given) if node.op_type in ("Gemm", "MatMul")
                    else _convolution(node.op_type, x[1], w[1], given))
        except (MIOpenError, Outside) as e:
            refused.append(f"{path.name}, {name}: {e}")
            continue
        if node.op_type in ("Gemm", "MatMul") and node.input[1] not in constants:
            continue  # two tensors that change: groups or images, as the shapes have it, which the model seldom fixes
        yield (name, x[0], *made, node.op_type in ("Gemm", "MatMul"))


def _shapes(graph: Any) -> tuple[dict[str, tuple[str, list[int]]], set[str]]:
    """Return the type and the lengths of the tensors whose lengths are known, and the names of constants."""
    found: dict[str, tuple[str, list[int]]] = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(dim.dim_value > 0 for dim in kind.shape.dim):
            found[value.name] = _name(kind.elem_type), [dim.dim_value for dim in kind.shape.dim]
    for tensor in graph.initializer:
        found[tensor.name] = _name(tensor.data_type), list(tensor.dims)
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {name for node in graph.node if node.op_type == "Constant" for name in node.output}
    return found, constants


def _name(kind: int) -> str:
    return str(helper.tensor_dtype_to_np_dtype(kind).name)


def _convolution(kind: str, x: list[int], w: list[int], given: dict[str, Any]) -> _Made:
    a = SimpleNamespace(**{**_DEFAULTS, **given})
    if isinstance(a.auto_pad, bytes):
        a.auto_pad = a.auto_pad.decode()
    n, strides, dilations = geometry(len(x), len(w), a)
    if kind == "Conv":
        begin, end, _ = window(x[2:], w[2:], strides, dilations, a)
        extra, mode = [0] * n, enums.miopenConvolution
    else:
        begin, end, extra = transposed_pads(x[2:], w[2:], strides, dilations, a)
        mode = enums.miopenTranspose
    if min(*begin, *end) < 0:
        raise BadParmError("negative pads", "pads", [*begin, *end], ">= 0")
    return (x, None), (w, None), ConvolutionDescriptor(begin, strides, dilations, mode, a.group, extra, end)


def _product(kind: str, x: list[int], w: list[int], given: dict[str, Any]) -> _Made:
    """Return a product with a constant matrix as the backend computes it: rows are pixels, columns channels."""
    if len(w) != 2 or len(x) < 1:
        raise BadParmError("rank of a matrix", "B", len(w), 2)
    rows = x[::-1] if kind == "Gemm" and given.get("transA") else x
    k, n = w[::-1] if kind == "Gemm" and given.get("transB") else w
    m = 1
    for length in rows[:-1]:
        m *= length
    return ((1, k, 1, m), (m * k, 1, m * k, k)), ((n, k, 1, 1), None), ConvolutionDescriptor((0, 0))
