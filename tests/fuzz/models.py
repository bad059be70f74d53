"""Targets: what choices are made by: cost tables, models, rates, configurations, measurements; and saved solutions."""

from __future__ import annotations

import argparse
import contextlib
import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.targets import require, target

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx._core import Device, Offer
from miopyx.choose import _costs, _model, switches, tuning
from miopyx.database import paths, rates, solutions, store, tables
from miopyx.errors import BadParmError, InvalidValueError, MIOpenError, VersionMismatchError
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.solvers.layers import _rnn_nvidia
from miopyx.tools import costs
from miopyx.tools import rates as tool
from miopyx.values.configurations import config_text, parse_config

_DEVICES = "nv-sm90_132", "amd-gfx90a_104", "pocl-epyc-haswell-pthread_8"
# Type, lengths of x, channels of y, groups, whether channels are last.
_PROBLEMS = (("float32", (2, 16, 9, 9), 32, 1, False), ("float16", (4, 32, 14, 14), 64, 1, True),
             ("float32", (1, 8, 12, 12), 8, 8, False))


@cache
def _offers() -> tuple[tuple[Offer, ...], ...]:
    """Return the offers of some problems on devices that need not be here."""
    found = []
    for name in _DEVICES:
        device = Device(costs._pretended(name))
        for dtype, lens, k, groups, last in _PROBLEMS:
            c, h, wide = lens[1:]
            x = TensorDescriptor(dtype, lens, (c * h * wide, 1, wide * c, c) if last else None)
            conv = ConvolutionDescriptor((1, 1), groups=groups)
            w = TensorDescriptor(dtype, (k, c // groups, 3, 3))
            y = TensorDescriptor(dtype, conv.output_lens(x, w))
            for direction in range(3):
                problem = ConvProblem(direction, x, w, y, conv)
                offers = (solver.offer(device, problem) for solver in registry.CONV)
                found.append(tuple(offer for offer in offers if not isinstance(offer, str)))
    return tuple(found)


@cache
def _tunable() -> tuple[Offer, ...]:
    return tuple(offer for offers in _offers() for offer in offers if offer.parameters())


def _sealed(data: bytes) -> bytes:
    return data + b"#%08x\n" % zlib.crc32(data)


def _predictions(table: Any) -> None:
    for offers in _offers():
        for offer in offers:
            time = table.predict(offer)
            require(time is None or time >= 0, "a time", time)
            table.spread(offer)


@target(b"miopyx costs 1\n", b" 32 0.03 12 launch=2 ", b"=1e308", b"=nan", b"GemmFwdRest 0 ", b"\x0b", b"\xc2\x85")
def cost_table(data: bytes, folder: Path) -> bool:
    """A cost table: refused, or what is predicted is a time; written again it predicts the same."""
    path, read, texts = folder / "a.costs.txt", None, []
    for text in (data, _sealed(data)):
        path.write_bytes(text)
        with contextlib.suppress(InvalidValueError):
            read = _costs.read(path)
            _predictions(read)
            _, texts = tables.read(path, _costs.KIND, _costs.VERSION)
    if read is None:
        return False
    lines = [_costs.line_of(line.split(" ")) for line in texts]
    _costs.write(path, read.about, lines)
    again = _costs.read(path)
    require(again.about == read.about, "where it comes from", again.about)
    return bool(lines)


@target(b"miopyx model 2\n", b"\nend\n", b"\nmargin 0.5", b"\ntrees ConvDirectNaiveConvFwd 0.1 1 1", b"\xff\xff\xff",
        b"\0\0\x02\0", b"\ncost ", b"1e308")
def model(data: bytes, folder: Path) -> bool:
    """A learned model: refused, or it predicts times or nothing for whatever is offered."""
    path, found = folder / "a.model", None
    for text in (data, data + zlib.crc32(data).to_bytes(4, "little")):
        path.write_bytes(text)
        with contextlib.suppress(InvalidValueError):
            found = _model.read(path)
    if found is None:
        return False
    for offers in _offers():
        times = found.predict(list(offers))
        require(times is None or (len(times) == len(offers) and all(
            time >= 0 or time == -1 for time in times)), "times", times)
        for offer in offers:
            found.error(offer)
            start = found.start(offer)
            require(start is None or offer.accepts(start), "a configuration", start)
    return True


@target(b"miopyx rates 1\n", b"\nNvRNN ", b"=1e-308", b"=1e308",
        *(b" %b=" % name.encode() for name in _rnn_nvidia.RATES))
def rates_file(data: bytes, folder: Path) -> bool:
    """Rates of solvers: refused, or layers are shared out by them.  Where they are from may be any words."""
    path, found, words = folder / "a.rates.txt", None, data[:80].decode(errors="replace")
    rates.write(path, words, {"Another": {"x": 1.5}})
    require(rates.read(path) == (words.replace("\n", " "), {"Another": {"x": 1.5}}), "another file", words)
    for text in (data, _sealed(data)):
        path.write_bytes(text)
        with contextlib.suppress(InvalidValueError):
            found = rates.read(path)
    if found is None:
        return False
    about, lines = found
    rates.write(path, about, lines)
    again = rates.read(path)
    require(again[0] == about and again[1].keys() == lines.keys(), "another file when written", again)
    line = lines.get("NvRNN", {})
    if line.keys() >= set(_rnn_nvidia.RATES):
        for problem in _layers():
            team = _rnn_nvidia.team_of(problem, 132, line)
            require(team is None or team["time"] > 0, "a time", team)
    return bool(lines)


@cache
def _layers() -> tuple[Any, ...]:
    with miopyx.Handle("host") as host:
        return tuple(tool._plan(host, layer, 1)[0].invoker.problem for layer in tool.LAYERS[::9])


@target(b",", b"-1", b"999999999999999999", b"NvPairsFwd;", b":", b"GemmFwdRest", b"1;2")
def configuration(data: bytes, folder: Path) -> bool:
    """A configuration of a solver, as databases and the environment have it: refused, or a solution comes of it."""
    text = data.decode("utf-8", "surrogateescape")
    chosen, _ = switches._overrides.__wrapped__(text)
    with contextlib.suppress(BadParmError):
        switches._only.__wrapped__(text)
    taken = False
    for part in {text, *chosen.values()}:
        values = parse_config(part)
        if values is None:
            continue
        require(parse_config(config_text(values)) == values, "another configuration", values)
        for offer in _tunable():
            if offer.accepts(values):
                offer.solution(values)
                taken = True
    return taken


@target(b'{"config": "1,2", "ms": ', b"null", b"1e400", b"NaN", b"Infinity", b"[[", b"\n")
def tried(data: bytes, folder: Path) -> bool:
    """What a search that was stopped has left."""
    path = folder / "a.jsonl"
    path.write_bytes(data)
    default, others = (1, 2), [(3, 4), (5, 6), (7, -8)]
    record = tuning.Tried(path)
    times = record.load(default, others)
    require(set(times) <= set(others) and all(time > 0 for time in times.values()), "times", times)
    record.add((3, 4), 7.0)
    again = tuning.Tried(path).load(default, others)
    require((3, 4) in again and times.items() - {(3, 4): times.get((3, 4))}.items() <= again.items(), "after one more",
            again)
    return bool(times)


@target(b'"key": "', b'"config": []', b'"time_ms": ', b"1e400", b"true", b"null", b"nv-sm90_132", b'"solver": "',
        b"a/b/c", b"BZh91AY&SY", b"\\ud800", b"\\n")
def measurements(data: bytes, folder: Path) -> bool:
    """JSON lines of measured times, to the cost table that is fitted to them."""
    path, out = folder / "a.jsonl", folder / "a.costs.txt"
    path.write_bytes(data)
    with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
        try:
            costs.keys_of(path)
            problems, _, about, _ = costs.read_measurements(argparse.Namespace(file=[path], lists=[]))
        except MIOpenError:
            return False
        lines = costs.fit(problems)
        _costs.write(out, about, lines)
    require(_costs.read(out).about == about, "where it comes from", about)
    return True


# Saved solutions


@cache
def _host() -> miopyx.Handle:
    return miopyx.Handle("host")


def _solution_bytes(body: bytes) -> bytes:
    return b"miopyx solution 1\n%b\n%b" % (solutions._digest(body).encode(), body)


@target(b'"kind": "convolution"', b'"direction": 4', b'"parts": [', b'"tensors": {"1": [["set_tensor", 1, [',
        *b'"fused" "attention" "softmax" "activation" "set_tensor" "_set" null 1e400 -1'.split(), b'"batch norm"')
def solution(data: bytes, _: Path) -> bool:
    """Bytes of a saved solution: refused, or a solution that a handle runs or refuses; saved again it is the same."""
    texts = [data, _solution_bytes(data)]
    with contextlib.suppress(ValueError, RecursionError):
        fields = json.loads(data)
        if isinstance(fields, dict):
            fields |= {"build": paths.build(), "stamp": store.of(_host().device.info).stamp}
            texts.append(_solution_bytes(json.dumps(fields).encode()))
    found = False
    for text in texts:
        try:
            loaded = miopyx.miopenLoadSolution(text, len(text))
        except (InvalidValueError, VersionMismatchError):
            continue
        saved = miopyx.miopenSaveSolution(loaded)
        again = miopyx.miopenLoadSolution(saved, len(saved))
        require(miopyx.miopenSaveSolution(again) == saved, "another solution when saved again", saved)
        repr(loaded), miopyx.miopenGetSolutionWorkspaceSize(loaded), miopyx.miopenGetSolutionTime(loaded)
        miopyx.miopenGetSolutionSolverId(loaded)
        with contextlib.suppress(MIOpenError):
            miopyx.miopenRunSolution(_host(), loaded, 0, [], None, 0)
        found = True
    return found

