"""Targets: command lines and lists of the driver, logs of commands, and ONNX models."""

from __future__ import annotations

import contextlib
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.targets import require, target

from miopyx.errors import MIOpenError
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


@target(*b"kernel_shape strides pads dilations group auto_pad axis axes keepdims epsilon alpha ceil_mode direction "
        b"hidden_size perm storage_order int64=0,1".split(), b"float32:1,2,3,3 ")
def onnx_node(data: bytes, _: Path) -> bool:
    """A node with its attributes, on inputs whose types and lengths stand on a line before it."""
    import onnx
    from google.protobuf.message import DecodeError

    from miopyx.tools.onnx import Backend

    head, _newline, body = data.partition(b"\n")
    inputs = _inputs(head.decode("ascii", "replace"))
    if inputs is None:
        return False
    try:
        node = onnx.NodeProto.FromString(body)
    except DecodeError:
        return False
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
