"""What is to be tuned: lists of MIOpenDriver's lines, logs of commands, ONNX models, exported PyTorch models.

Each becomes convolution problems in one direction, named by their find-db keys, with a weight: how often each occurs.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
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
_LOGGED = re.compile(r"\s*\S+\s.*\b(?:MIOpenDriver|miopyx-driver)\s")  # something stands before the command
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

    called = _called([*names, *logs])
    for name in names:
        source = called[name]
        end = Path(name).suffix.lower()
        if end == ".onnx":
            add(_of_onnx(Path(name), source, options, refused), source)
        elif end == ".pt2":
            add(_of_exported(Path(name), source, options, refused), source)
        else:
            add(_of_list(name, options, refused), source)
    for name in logs:
        add(_of_log(Path(name), options, refused), called[name])
    return Found([Wanted(key, weight, source, layer) for (key, source, layer), weight in counts.items()], refused)


def _called(names: Sequence[str]) -> dict[str, str]:
    """Return what each file is called: as much of the end of its path as no other one has."""
    paths = {name: Path(os.path.abspath(name)) for name in names}
    called = {}
    for name, path in paths.items():
        others = [other.parts for other in set(paths.values()) - {path}]
        count = next(n for n in range(1, len(path.parts) + 1) if all(path.parts[-n:] != parts[-n:] for parts in others))
        called[name] = str(Path(*path.parts[-count:]))
    return called


# Lists and logs


def _of_list(name: str, options: Options, refused: list[str]) -> Iterator[tuple[str, str]]:
    if Path(name).is_file():
        _check_size(Path(name))
    left: list[listing.Refused] = []
    lines = listing.read(name, "conv", {}, options.batch, left)
    if left:
        texts = dict(enumerate(_lines(Path(name)), 1)) if Path(name).is_file() else {}
        refused += [f"{name}, line {one.line}: " + ("a log's, which --from-log reads" if _LOGGED.match(
            texts.get(one.line, "")) else one.why) for one in left]
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
        if "forw" not in command.given:  # every command ends with it
            refused.append(f"{where}: cut off: no -F")
            continue
        if remark:  # strides of no layout and the like
            refused.append(f"{where}: no flag says {remark}")
            continue
        yield from _of_work(work, options, where, refused)


def _check_size(path: Path) -> None:
    if path.stat().st_size > _MOST_BYTES:
        raise UsageError(f"{path}: more than {_MOST_BYTES} bytes")


def _lines(path: Path) -> list[str]:
    try:
        _check_size(path)
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
            yield _problem(letter, x, w, y, work.conv), _name(work)
    except (UsageError, MIOpenError) as e:
        refused.append(f"{where}: {e}")


def _name(work: Problem) -> str:
    """Return a layer in short, with what tells it from another one of its list."""
    words = [f"n{work.descriptors['x'].lens[0]}", families.name(work)]
    pads, layout = work.geometry.pad, str(work.command.text("in_layout"))
    if any(pad != side // 2 for pad, side in zip(pads, work.geometry.filter, strict=True)):
        words.append("p" + "x".join(map(str, pads)))
    return " ".join([*words, *([layout] if layout not in ("", "NCHW", "NCDHW") else [])])


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
            yield _problem(letter, x, w, y, layer.conv), f"n{x.lens[0]} {layer.name}"
    except MIOpenError as e:
        refused.append(f"{where}, {layer.name}: {e}")


def _of_onnx(path: Path, source: str, options: Options, refused: list[str]) -> Iterator[tuple[str, str]]:
    try:
        from . import onnx_layers
    except ImportError:
        raise UsageError(f"{path}: needs the package onnx: pip install miopyx[onnx]") from None
    for layer in onnx_layers.layers(path, source, options.batch, refused):
        yield from _of_layer(_Layer(*layer), options, source, refused)


def _of_exported(path: Path, source: str, options: Options, refused: list[str]) -> Iterator[tuple[str, str]]:
    try:
        import torch
    except ImportError:
        raise UsageError(f"{path}: needs PyTorch, which is not installed") from None
    if not path.is_file():
        raise UsageError(f"{path}: {'not a regular file' if path.exists() else 'no such file'}")
    log = logging.getLogger("torch")
    level = log.level
    log.setLevel(logging.CRITICAL)  # it would print its own stack
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nor should it be refused where warnings are errors
            program = torch.export.load(path)
        batch = _Batch(options.batch, _first_axes(program))
    except Exception as e:  # whatever PyTorch makes of a file that is none of its own
        raise UsageError(f"{path}: torch.export.load finds no exported model there ({type(e).__name__})") from None
    finally:
        log.setLevel(level)
    # What runs under a condition, in a loop or without gradients is a module of its own.
    for where, module in program.graph_module.named_modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            kind = str(getattr(node.target, "overloadpacket", ""))
            if node.op != "call_function" or not _ANY.search(kind):
                continue
            name = f"{where}/{node.name}" if where else node.name
            try:
                layer = _convolution(kind, node, name, batch)
            except Exception as e:  # a broken file's nodes may lack anything
                refused.append(f"{source}, {name}: {e}")
                continue
            yield from _of_layer(layer, options, source, refused)


_ANY = re.compile("conv(?!ert)")  # of any namespace
_CONVOLUTIONS = frozenset(f"aten.{name}" for name in (
    "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"))


class _Batch(NamedTuple):
    """What --batch says, and axis 0 of the model's inputs: numbers, or expressions of what varies."""

    size: int | None
    given: frozenset[Any]

    def of(self, length: Any) -> int:
        """Return axis 0 of x."""
        varies = not isinstance(length, int)
        if self.size is None:
            if varies:
                raise ValueError(f"axis 0 of x varies ({length}); --batch sets that of the inputs")
            return int(length)
        if not varies and self.given and not any(isinstance(one, int) for one in self.given):
            return int(length)  # it does not depend on the inputs' axis 0, which varies
        if len(self.given) == 1:
            (one,) = self.given
            if not varies and length == one:
                return self.size
            if varies and not isinstance(one, int):
                made = length.node.expr.subs({one: self.size})
                if made.is_Integer and made > 0:
                    return int(made)
        raise ValueError(f"axis 0 of x ({length}) does not follow from --batch and axis 0 of the inputs "
                         f"({', '.join(sorted(map(str, self.given)))})")


def _first_axes(program: Any) -> frozenset[Any]:
    """Return axis 0 of a model's inputs that may be images, if there are any; else of all."""
    names = set(program.graph_signature.user_inputs)
    shapes: list[Any] = [getattr(node.meta.get("val"), "shape", ()) for node in program.graph.nodes
                         if node.op == "placeholder" and node.name in names]
    some = [shape for shape in shapes if len(shape) > 2] or [shape for shape in shapes if len(shape)]
    return frozenset(shape[0] if isinstance(shape[0], int) else shape[0].node.expr for shape in some)


def _tensor(node: Any, name: str, batch: _Batch | None = None) -> tuple[list[int], bool, str]:
    """Return the lengths, whether PyTorch takes it for channels last, and the type of what a node computes."""
    value = node.meta["val"]
    lens = []
    for axis, length in enumerate(value.shape):
        if batch is not None and axis == 0:
            lens.append(batch.of(length))
        elif isinstance(length, int):
            lens.append(length)
        else:
            raise ValueError(f"axis {axis} of {name} varies ({length})")
    strides = list(value.stride())
    if not all(isinstance(step, int) for step in strides):
        raise ValueError(f"strides of {name} vary ({tuple(strides)})")
    return lens, _is_channels_last(lens, strides), str(value.dtype).removeprefix("torch.")


def _is_channels_last(lens: Sequence[int], strides: Sequence[int]) -> bool:
    """Tensor.suggest_memory_format's rule: what may be both is C order."""
    if len(lens) not in (4, 5) or strides[1] == 0:
        return False
    least = 0
    for axis in (1, *range(len(lens) - 1, 1, -1), 0):
        if strides[axis] < least or (axis == 0 and least == strides[1]):
            return False
        least = strides[axis] * lens[axis]
    return True


def _numbers(values: Any, count: int) -> list[int]:
    """Return one number for each spatial axis of an argument that may have one for all."""
    numbers = list(values) if isinstance(values, Sequence) else [values]
    if not all(isinstance(n, int) for n in numbers):
        raise ValueError(f"arguments that vary ({values})")
    return numbers * count if len(numbers) == 1 else numbers


def _convolution(kind: str, node: Any, name: str, batch: _Batch) -> _Layer:
    """Return a call of one of `_CONVOLUTIONS` as a layer; arguments go by their names in its schema."""
    if kind not in _CONVOLUTIONS:
        raise ValueError(f"{kind} is not measured")
    schema = node.target._schema.arguments
    a = {one.name: one.default_value for one in schema if one.has_default_value()}
    a |= dict(zip((one.name for one in schema), node.args, strict=False)) | node.kwargs
    w, w_last, w_dtype = _tensor(a["weight"], "w")
    if len(a["input"].meta["val"].shape) != len(w):
        raise ValueError("x has no axis of the batch")
    x, x_last, dtype = _tensor(a["input"], "x", batch)
    if dtype != w_dtype:
        raise BadParmError("types differ", "w", w_dtype, dtype)
    count = len(w) - 2
    stride, dilation = _numbers(a["stride"], count), _numbers(a["dilation"], count)
    (groups,) = _numbers(a["groups"], 1)
    if a["padding"] == "same":
        total = [d * (k - 1) for d, k in zip(dilation, w[2:], strict=True)]
        begin, end = [t // 2 for t in total], [t - t // 2 for t in total]
    else:
        begin = end = [0] * count if a["padding"] == "valid" else _numbers(a["padding"], count)
    # PyTorch computes in channels last where x or w is that, else in C order, and copies what is otherwise.
    tensors = [(lens, list(_descriptor("float32", lens, "nhwc").strides) if x_last or w_last else None)
               for lens in (x, w)]
    if "transpose" in kind or a.get("transposed"):
        conv = ConvolutionDescriptor(begin, stride, dilation, enums.miopenTranspose, groups,
                                     _numbers(a["output_padding"], count), end)
    else:
        conv = ConvolutionDescriptor(begin, stride, dilation, groups=groups, end_pads=end)
    return _Layer(name, dtype, tensors[0], tensors[1], conv)
