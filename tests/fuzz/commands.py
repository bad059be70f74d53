"""Targets: command lines, lists and files of the driver, logs of commands, a fleet's workers, and ONNX models."""

from __future__ import annotations

import contextlib
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.targets import require, target

from miopyx.errors import MIOpenError
from miopyx.tools import cli
from miopyx.tools.driver import data as driver_data
from miopyx.tools.driver import families, listing
from miopyx.tools.driver.families import FAMILIES
from miopyx.tools.driver.options import Command, UsageError, parse_flags, parse_line
from miopyx.tools.driver.problem import Problem
from miopyx.tools.tune import sources

_WORDS = (b" -n 1", b" -F 1", b" -t 1", b" --input 1,2,3,4",
          *b"2147483647 9223372036854775807 1e308 nan 0x1 ''".split(), *(b"%b " % name.encode() for name in FAMILIES))


def _say(command: Command) -> None:
    """Say a command again: it must be read as the same."""
    again = parse_line(str(command), FAMILIES)
    require(again is not None and again.operation == command.operation and again.given == command.given,
            "another command", str(command))


def _look(work: Any) -> None:
    families.name(work), families.counts(work), families.facts(work)
    if isinstance(work, Problem):
        for direction in work.directions:
            work.computes(direction), work.geometry.flops


@target(*_WORDS)
def driver_line(data: bytes, _: Path) -> bool:
    """A command of MIOpenDriver's: refused, or made."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        command = parse_line(text, FAMILIES)
        if command is None:
            return False
        _say(command)
        work = families.make(command)
    except (UsageError, MIOpenError) as e:
        str(e).encode("utf-8", "surrogateescape")
        return False
    _look(work)
    return True


@target(b"--file", b"\0--json\0x", b"\0--batch\x002", b"\0-n\x001", b"\0--verbose")
def driver_arguments(data: bytes, _: Path) -> bool:
    """The words of a command line, behind the operation."""
    tokens = data.decode("utf-8", "surrogateescape").split("\0")
    found = False
    for family in dict.fromkeys(FAMILIES.values()):
        with contextlib.suppress(UsageError):
            flags = parse_flags(tokens, additions=True, family=family)
            found |= bool(flags)
    return found


@target(*(b"\0%b\0" % word for word in b"tune worker db info verify merge costs rates train doctor --budget 90s 10m 2h "
                                      b"--batch --dtype float16 --directions FBW --limit --jobs --json -o".split()))
def command_line(data: bytes, _: Path) -> bool:
    """The words behind `miopyx`: refused, with the words for it, or parsed."""
    try:
        given = cli._parsed(data.decode("utf-8", "surrogateescape").split("\0"))
    except SystemExit as e:
        require(e.code in (0, 2), "an exit code", e.code)
        return False
    if given.command == "tune":
        require(all(0 < time <= 3.6e7 for time in (given.budget or 1, given.limit)), "seconds", given)
        require(1 <= (given.batch or 1) < 2**31 and 0 <= (given.jobs or 0) <= 1024, "numbers", given)
    return True


@target(b"\xff\x7f", b"\0" * 4, b"\0\xfc")
def driver_data_file(data: bytes, folder: Path) -> bool:
    """A file of a tensor's elements, behind a byte for their type and one for their number: that many, or refused."""
    dtype, count = ("float32", "float16", "int8", "int32", "float64")[len(data) and data[0] % 5], sum(data[1:2])
    path, content = folder / "x.bin", data[2:]
    path.write_bytes(content)
    fits = len(content) == count * np.dtype(dtype).itemsize
    try:
        found = driver_data.read(str(path), "in_data", dtype, count)
    except UsageError:
        require(not fits, "refused", dtype, count)
        return False
    require(fits and found.dtype == dtype and found.tobytes() == content and found.flags.writeable, "other elements")
    return count > 0


@target(b"\nconv", b"\n# ", b"./bin/MIOpenDriver ", b"\xef\xbb\xbf", *_WORDS)
def driver_list(data: bytes, folder: Path) -> bool:
    """A list of commands, as the driver and `miopyx tune` read it."""
    path = folder / "list.txt"
    path.write_bytes(data)
    refused: list[Any] = []
    try:
        lines = listing.read(str(path), "conv", {}, None, refused)
    except UsageError:
        return False
    numbers = sorted([line.number for line in lines] + [one.line for one in refused])
    require(len(set(numbers)) == len(numbers), "a line that is run and refused", numbers)
    with contextlib.suppress(UsageError):
        for one in listing.read(str(path), "conv", {}, 3, []):
            _look(one.work)
    _wanted(sources.read([str(path)], [], sources.Options()))
    return bool(lines)


@target(b"MIOpenDriver ", b"miopyx-driver conv", b" # strides",
        b"MIOpen(OpenCL): Command [LogCmdConvolution] ", *_WORDS)
def log(data: bytes, folder: Path) -> bool:
    """A log of commands: what becomes a problem is one."""
    path = folder / "a.log"
    path.write_bytes(data)
    found = sources.read([], [str(path)], sources.Options())
    sources.read([], [str(path)], sources.Options(2, "float16", "nhwc", "FBW"))
    _wanted(found)
    return bool(found.wanted)


def _wanted(found: sources.Found) -> None:
    from miopyx.problem import _key

    for one in found.wanted:
        _key.parse_find_key(one.key.encode())
        require(one.weight > 0, "a weight", one)
    for line in found.refused:
        line.encode("utf-8", "surrogateescape")


@target(b'["host", 7, "pocl", "pocl-cpu_8", "0_1_0/1/x", true, 2]', b"[[[[", b"null", b"1e999", b"\\ud800")
def worker_name(data: bytes, _: Path) -> bool:
    """A worker's name, which whoever reaches a fleet's scheduler may give."""
    from miopyx.tools.tune import fleet

    about = fleet._about(fleet._NAME + data.decode("utf-8", "replace"))
    if about is None:
        return False
    lane = fleet.FleetLane(None, "tcp://127.0.0.1:1", about, 60.0)
    require(isinstance(lane.compilers, int) and lane.compilers >= 0, "compilers", lane.compilers)
    require(all(isinstance(text, str) for text in (lane.machine, lane.spec, *lane.device)), "texts", about)
    require(isinstance(lane.overlap, bool), "overlap", lane.overlap)
    hash((lane.name, lane.machine, lane.device))
    lane.name.encode()
    return True


# ONNX


@target(*b"Conv ConvTranspose MatMul Gemm strides pads dilations group auto_pad SAME_UPPER kernel_shape output_shape "
        b"transA".split(), b"\xff" * 9 + b"\x01")
def onnx_model(data: bytes, folder: Path) -> bool:
    """A model's file, as `miopyx tune` reads it."""
    path = folder / "a.onnx"
    path.write_bytes(data)
    try:
        found = sources.read([str(path)], [], sources.Options())
    except UsageError as e:
        str(e).encode("utf-8", "surrogateescape")
        return False
    _wanted(found)
    with contextlib.suppress(UsageError):
        _wanted(sources.read([str(path)], [], sources.Options(2, "float16", "nhwc", "FBW")))
    return bool(found.wanted)


_SMALL = 48       # of an attribute: what is computed stays small
_ELEMENTS = 4096  # of an input


@cache
def _ours() -> frozenset[str]:
    from miopyx.tools.onnx import evaluator

    return frozenset(node.__name__ for node in evaluator._NODES)


def _inputs(text: str) -> list[Any] | None:
    """Return arrays of ones, None where `text` is none of "21 float32:1,2,3,4 int64=0,1"."""
    found = []
    for word in text.split(" "):
        dtype, separator, numbers = word.partition(":")
        if not separator:
            dtype, separator, numbers = word.partition("=")
        if dtype not in ("float32", "float16", "float64", "int64", "int32", "int8", "uint8", "bool"):
            return None
        try:
            lens = [int(number) for number in numbers.split(",") if number]
        except ValueError:
            return None
        if separator == "=":
            if not all(abs(number) <= _SMALL for number in lens) or dtype != "int64":
                return None
            found.append(np.array(lens, dtype))
        elif len(lens) <= 6 and all(0 <= number <= _SMALL for number in lens) and np.prod(lens) <= _ELEMENTS:
            found.append(np.ones(lens, dtype))
        else:
            return None
    return found


def _behind_inputs(data: bytes, kind: Any) -> tuple[list[Any], Any] | None:
    """Return the inputs that stand on the first line, and the message of ONNX behind it; None for what is neither."""
    from google.protobuf.message import DecodeError

    head, _newline, body = data.partition(b"\n")
    inputs = _inputs(head.decode("ascii", "replace"))
    if inputs is None:
        return None
    try:
        return inputs, kind.FromString(body)
    except DecodeError:
        return None


_FEW = 6            # of a whole model's numbers: several nodes make more of them
_MOST_NODES = 8
_ALSO = frozenset(("Constant", "Not", "Sqrt", "Where", "Equal"))  # of those that NumPy computes


def _is_small(model: Any) -> bool:
    """Return whether a model's nodes and numbers are few, so that what it computes stays small."""
    graph = model.graph
    if len(graph.node) > _MOST_NODES or len(graph.initializer) > 12 or model.functions or graph.sparse_initializer:
        return False
    for node in graph.node:
        if node.op_type not in _ours() | _ALSO or node.domain not in ("", "ai.onnx"):
            return False
        for one in node.attribute:
            if one.HasField("g") or one.graphs or one.ref_attr_name or any(
                    abs(number) > _FEW for number in (one.i, *one.ints)):
                return False
    tensors = [*graph.initializer, *(one.t for node in graph.node for one in node.attribute if one.HasField("t"))]
    return all(len(one.dims) <= 6 and all(0 <= number <= _SMALL for number in one.dims)
               and np.prod(one.dims) <= _ELEMENTS and not one.external_data
               and all(abs(number) <= _FEW for number in one.int64_data) for one in tensors)


@target(*b"Conv BatchNormalization Relu Add MatMul Gemm Clip Mul LeakyRelu Transpose Reshape kernel_shape pads alpha "
        b"axis".split(), b"float32:1,2,3,3 ")
def onnx_run(data: bytes, _: Path) -> bool:
    """A model, on inputs whose types and lengths stand on a line before it: fused or not, it computes the same."""
    import onnx

    from miopyx.tools.onnx import Backend

    given = _behind_inputs(data, onnx.ModelProto)
    if given is None:
        return False
    inputs, model = given
    if not _is_small(model):
        return False
    found: list[Any] = []
    for fuse in (True, False):
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of NumPy on what is empty
                rep = Backend.prepare(model, fuse=fuse)
                outputs = rep.run(inputs)
        except (MIOpenError, onnx.checker.ValidationError) as e:
            str(e).encode("utf-8", "surrogateescape")
            found.append(None)
            continue
        repr(rep.ran), repr(rep.fusions)
        require(all(isinstance(one, np.ndarray) or one is None for one in outputs), "no arrays", outputs)
        found.append([None if one is None else (one.dtype, one.shape) for one in outputs])
    require(found[0] == found[1], "with fusions", *found)
    return found[0] is not None


@target(*b"kernel_shape strides pads dilations group auto_pad axis axes keepdims epsilon alpha ceil_mode direction "
        b"hidden_size perm storage_order int64=0,1".split(), b"float32:1,2,3,3 ")
def onnx_node(data: bytes, _: Path) -> bool:
    """A node with its attributes, on inputs whose types and lengths stand on a line before it."""
    import onnx

    from miopyx.tools.onnx import Backend

    given = _behind_inputs(data, onnx.NodeProto)
    if given is None:
        return False
    inputs, node = given
    if node.op_type not in _ours() or node.domain not in ("", "ai.onnx") or len(node.input) != len(inputs):
        return False
    for attribute in node.attribute:
        if attribute.HasField("g") or attribute.graphs or attribute.HasField("t") or attribute.ref_attr_name or any(
                abs(number) > _SMALL for number in (attribute.i, *attribute.ints)):
            return False
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of NumPy on what is empty
            outputs = Backend.run_node(node, inputs)
    except (MIOpenError, onnx.checker.ValidationError):
        return False
    require(all(isinstance(one, np.ndarray) or one is None for one in outputs), "no arrays", outputs)
    return True
