"""What is to be tuned: lists of MIOpenDriver's lines, logs of commands, ONNX models, exported PyTorch models.

Each becomes convolution problems in one direction, named by their find-db keys, with a weight: how often each occurs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from miopyx import ConvolutionDescriptor, TensorDescriptor, enums
from miopyx.errors import BadParmError, MIOpenError
from miopyx.problem import _key
from miopyx.problem._problem import ConvProblem

from ..driver import families, listing
from ..driver.options import OPERATIONS, UsageError, parse_line
from ..driver.problem import Problem

DIRECTIONS = "FBW"
_SHORT = {"fwd": "F", "bwd": "B", "wrw": "W"}
_COMMAND = re.compile(r"\b(?:MIOpenDriver|miopyx-driver)\s+(\S.*)")
_OPERATION_OF = {dtype: operation for operation, dtype in OPERATIONS.items()}
_MOST_BYTES = 1 << 30  # of a log or list


class Wanted(NamedTuple):
    """A problem, how often it occurs, and what it is called where."""

    key: str
    weight: float
    source: str
    layer: str


class Options(NamedTuple):
    """What replaces what sources say; None or empty: nothing."""

    batch: int | None = None
    dtype: str = ""
    layout: str = ""
    directions: str = ""


class Found(NamedTuple):
    """The problems of some sources, those of one key and layer joined, and what was left out and why."""

    wanted: list[Wanted]
    refused: list[str]


def read(names: Sequence[str], logs: Sequence[str], options: Options) -> Found:
    """Return the problems of lists and models, by the ends of their names, and of logs.

    Raises
    ------
    UsageError, MIOpenError
        For a file that cannot be read; lines and nodes that make no problem are counted in `refused`.
    """
    refused: list[str] = []
    counts: dict[tuple[str, str, str], float] = {}

    def add(some: Iterable[tuple[str, str]], source: str) -> None:
        for key, layer in some:
            counts[key, source, layer] = counts.get((key, source, layer), 0) + 1

    for name in names:
        source = Path(name).name
        end = Path(name).suffix.lower()
        if end == ".onnx":
            add(_of_onnx(Path(name), source, options, refused), source)
        elif end == ".pt2":
            add(_of_exported(Path(name), options, refused), source)
        else:
            add(_of_list(name, options, refused), source)
    for name in logs:
        add(_of_log(Path(name), options, refused), Path(name).name)
    return Found([Wanted(key, weight, source, layer) for (key, source, layer), weight in counts.items()], refused)


# Lists and logs


def _of_list(name: str, options: Options, refused: list[str]) -> Iterator[tuple[str, str]]:
    left: list[listing.Refused] = []
    lines = listing.read(name, "conv", {}, options.batch, left)
    refused += [f"{name}, line {one.line}: {one.why}" for one in left]
    for line in lines:
        if isinstance(line.work, Problem):
            yield from _of_work(line.work, options, f"{name}, line {line.number}", refused)


def _of_log(path: Path, options: Options, refused: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the convolutions of a log; calls of other operations are measured by nobody, and passed over."""
    for number, line in enumerate(_lines(path), 1):
        found = _COMMAND.search(line)
        if not found:
            continue
        where = f"{path}, line {number}"
        text, _, remark = found[1].partition(" # ")
        try:
            command = parse_line(text, families.FAMILIES)
            if command is None:
                continue
            work = families.make(families.overridden(command, "conv", {}, options.batch))
        except (UsageError, MIOpenError) as e:
            refused.append(f"{where}: {e}")
            continue
        if not isinstance(work, Problem):
            continue
        if remark:  # strides of no layout and the like
            refused.append(f"{where}: no flag says {remark}")
            continue
        yield from _of_work(work, options, where, refused)


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path}: more than {_MOST_BYTES} bytes")
        return path.read_bytes().decode(errors="replace").splitlines()
    except OSError as e:
        raise UsageError(f"{path}: {e.strerror}") from None


def _of_work(work: Problem, options: Options, where: str, refused: list[str]) -> Iterator[tuple[str, str]]:
    command = work.command
    try:
        flags: dict[str, Any] = {}
        if options.layout:
            deep = command.number("spatial_dim") == 3
            word = {"nchw": "NCDHW" if deep else "NCHW", "nhwc": "NDHWC" if deep else "NHWC"}[options.layout]
            flags = dict.fromkeys(("in_layout", "fil_layout", "out_layout"), word)
        if flags or options.dtype:
            operation = _OPERATION_OF[options.dtype] if options.dtype else command.operation
            made = families.make(type(command)(operation, {**command.given, **flags}, command.family))
            assert isinstance(made, Problem)
            work = made
        letters = [_SHORT[direction.short] for direction in work.directions]
        for letter in options.directions or letters:
            x, w, y = (work.descriptors[name] for name in "xwy")
            yield _problem(letter, x, w, y, work.conv), families.name(work)
    except (UsageError, MIOpenError) as e:
        refused.append(f"{where}: {e}")


def _problem(letter: str, x: TensorDescriptor, w: TensorDescriptor, y: TensorDescriptor,
             conv: ConvolutionDescriptor) -> str:
    """Return the find-db key of a direction."""
    problem = ConvProblem(DIRECTIONS.index(letter), x, w, y, conv)
    if problem.empty:
        raise BadParmError("nothing to time", "problem", repr(problem), "tensors with elements")
    return _key.find_key(problem).decode()


def _descriptor(dtype: str, lens: Sequence[int], layout: str, strides: Sequence[int] | None = None) -> TensorDescriptor:
    if layout == "nhwc":
        dense, step = [0] * len(lens), 1
        for axis in (1, *range(len(lens) - 1, 1, -1), 0):
            dense[axis], step = step, step * lens[axis]
        return TensorDescriptor(dtype, lens, dense)
    return TensorDescriptor(dtype, lens, None if layout == "nchw" else strides)


# Models


class _Layer(NamedTuple):
    """A convolution of a model: its name, type, lengths and strides (None: packed) of x and w, and its parameters.

    `rows` says that it stands for a product of matrices, which has its layout from there.
    """

    name: str
    dtype: str
    x: tuple[Sequence[int], Sequence[int] | None]
    w: tuple[Sequence[int], Sequence[int] | None]
    conv: ConvolutionDescriptor
    rows: bool = False


def _of_layer(layer: _Layer, options: Options, where: str, refused: list[str]) -> Iterator[tuple[str, str]]:
    try:
        dtype, asked = options.dtype or layer.dtype, "" if layer.rows else options.layout
        x, w = (_descriptor(dtype, lens, asked, strides) for lens, strides in (layer.x, layer.w))
        dense = asked or ("nhwc" if layer.x[1] is not None and layer.x[1][1] == 1 else "")
        y = _descriptor("int32" if dtype == "int8" else dtype, layer.conv.output_lens(x, w), dense)
        for letter in options.directions or "F":
            yield _problem(letter, x, w, y, layer.conv), layer.name
    except MIOpenError as e:
        refused.append(f"{where}, {layer.name}: {e}")


def _of_onnx(path: Path, source: str, options: Options, refused: list[str]) -> Iterator[tuple[str, str]]:
    try:
        from . import onnx_layers
    except ImportError:
        raise UsageError(f"{path}: needs the package onnx: pip install miopyx[onnx]") from None
    for layer in onnx_layers.layers(path, source, options.batch, refused):
        yield from _of_layer(_Layer(*layer), options, source, refused)


def _of_exported(path: Path, options: Options, refused: list[str]) -> Iterator[tuple[str, str]]:
    try:
        import torch
    except ImportError:
        raise UsageError(f"{path}: needs PyTorch, which is not installed") from None
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    try:
        graph = torch.export.load(path).graph
    except Exception as e:  # whatever PyTorch makes of a file that is none of its own
        why = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise UsageError(f"{path}: no exported model: {why}") from None
    for node in graph.nodes:
        kind = str(getattr(node.target, "overloadpacket", ""))
        if not kind.startswith("aten.") or kind[5:] not in _ATEN:
            continue
        try:
            layer = _ATEN[kind[5:]](node, options.batch)
        except (MIOpenError, ValueError, TypeError, LookupError) as e:
            refused.append(f"{path.name}, {node.name}: {e}")
            continue
        yield from _of_layer(layer, options, path.name, refused)


def _tensor(node: Any, batch: int | None = None) -> tuple[tuple[Sequence[int], Sequence[int] | None], str]:
    """Return lengths, strides and type of what a node of a graph computes; a length that varies is `batch`."""
    import torch

    value = node.meta["val"]
    lens = [int(n) if isinstance(n, int) else batch or 1 for n in value.shape]
    if batch:
        lens[0] = batch
    last = value.is_contiguous(memory_format=torch.channels_last if value.ndim == 4 else torch.channels_last_3d) \
        if value.ndim in (4, 5) and not value.is_contiguous() else False
    strides = None
    if last:
        strides = list(_descriptor("float32", lens, "nhwc").strides)
    elif not value.is_contiguous():
        raise ValueError(f"strides {tuple(value.stride())}")
    return (lens, strides), str(value.dtype).removeprefix("torch.")


def _all(values: Any, count: int) -> list[int]:
    """Return one number for each spatial axis of an argument that may have one for all."""
    numbers = [values] if isinstance(values, int) else list(values)
    return [int(n) for n in (numbers * count if len(numbers) == 1 else numbers)]


def _argument(node: Any, place: int, default: Any) -> Any:
    return node.args[place] if len(node.args) > place else default


def _conv(node: Any, batch: int | None) -> _Layer:
    """conv1d, conv2d, conv3d(x, w, bias, stride, padding, dilation, groups)."""
    (x, dtype), (w, _) = _tensor(node.args[0], batch), _tensor(node.args[1])
    count = len(x[0]) - 2
    stride, dilation = (_all(_argument(node, place, 1), count) for place in (3, 5))
    given = _argument(node, 4, 0)
    if given == "same":
        total = [d * (k - 1) for d, k in zip(dilation, w[0][2:], strict=True)]
        begin, end = [t // 2 for t in total], [t - t // 2 for t in total]
    else:
        begin = end = [0] * count if given == "valid" else _all(given, count)
    return _Layer(node.name, dtype, x, w, ConvolutionDescriptor(
        begin, stride, dilation, groups=int(_argument(node, 6, 1)), end_pads=end))


def _conv_transpose(node: Any, batch: int | None) -> _Layer:
    """conv_transpose1d, 2d, 3d(x, w, bias, stride, padding, output_padding, groups, dilation)."""
    return _transposed(node, batch, (3, 4, 7, 5, 6))


def _convolution(node: Any, batch: int | None) -> _Layer:
    """convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups)."""
    if node.args[6]:
        return _transposed(node, batch, (3, 4, 5, 7, 8))
    (x, dtype), (w, _) = _tensor(node.args[0], batch), _tensor(node.args[1])
    count = len(x[0]) - 2
    stride, pads, dilation = (_all(node.args[place], count) for place in (3, 4, 5))
    return _Layer(node.name, dtype, x, w, ConvolutionDescriptor(pads, stride, dilation, groups=int(node.args[8])))


def _transposed(node: Any, batch: int | None, places: tuple[int, int, int, int, int]) -> _Layer:
    (x, dtype), (w, _) = _tensor(node.args[0], batch), _tensor(node.args[1])
    count = len(x[0]) - 2
    stride, pads, dilation, extra = (_all(_argument(node, place, default), count)
                                     for place, default in zip(places, (1, 0, 1, 0), strict=False))
    return _Layer(node.name, dtype, x, w, ConvolutionDescriptor(
        pads, stride, dilation, enums.miopenTranspose, int(_argument(node, places[4], 1)), extra))


_ATEN = {"conv1d": _conv, "conv2d": _conv, "conv3d": _conv, "convolution": _convolution,
         "conv_transpose1d": _conv_transpose, "conv_transpose2d": _conv_transpose, "conv_transpose3d": _conv_transpose}
