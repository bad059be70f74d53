"""Targets: records, keys, the files of databases, their index, ledgers, and the commands that read all of them."""

from __future__ import annotations

import argparse
import bz2
import contextlib
import os
import struct
from pathlib import Path

from fuzz.targets import require, sealed_lines, target

from miopyx.database import records
from miopyx.database._system_file import RecordFile
from miopyx.database.user_file import UserFile
from miopyx.errors import BadParmError, MIOpenError
from miopyx.problem import _key
from miopyx.problem._problem import ConvProblem
from miopyx.tools import db
from miopyx.tools.tune import ledger

_STAMP = "0_1_0_12345678/1.0/host_1"
_NAMES = b"miopenConvolutionFwdAlgoGEMM", b"miopenConvolutionBwdDataAlgoWinograd", b"miopenTransposeBwdDataAlgoGEMM"


@target(*_NAMES, b"partial", b";!", b";@", b"inf", b"nan", b"1e-320", b"miopenConvolutionFwdAlgoDirect:a,1,2,b")
def find_items(data: bytes, _: Path) -> bool:
    """Items of a find-db record: what is written of them reads the same."""
    record = records.read_find(data)
    line = records.write_find(b"k", record.items, record.stamp, record.partial, record.failed)
    if b"\n" in line[:-1]:
        return False  # no line of a file is so
    require(records.classify(line[:-1]) is records.Kind.OURS, "what is written is not ours", line)
    again = records.read_find(records.split(line)[1])
    require([item.solver for item in again.items] == [item.solver for item in record.items], "solvers", line)
    for one, other in zip(record.items, again.items, strict=True):
        require(abs(one.time - other.time) <= 1e-5 * one.time + 1e-320, "times", line)
        require((one.workspace, one.direction, one.algorithm) == (other.workspace, other.direction, other.algorithm),
                "items", line)
    require((again.stamp, again.partial, again.failed, not again.skipped) == (
        records.clean(record.stamp), record.partial, record.failed, True), "marks", line)
    return bool(record.items)


@target(b";@", b";x:1,2")
def perf_items(data: bytes, _: Path) -> bool:
    """Items of a perf-db record."""
    values, stamp, _skipped = records.read_perf(data)
    line = records.write_perf(b"k", values, stamp)
    require(records.read_perf(records.split(line)[1]) == (values, records.clean(stamp), {}), "another record", line)
    return bool(values)


def _of_problem(problem: ConvProblem, read: object, write: object, key: bytes) -> None:
    require(write(problem) == key, "another key", key)
    again = read(write(problem))
    require(again.features == problem.features, "another problem", key)
    repr(problem), problem.flops, problem.empty, problem.key


@target(b"-NHWC-", b"-NCDHW", b"-FP32-F", b"-BF16", b"INT8INT32INT8", b"E4M3", b"_g2", b"_det", b"_tf32", b"_dim1",
        b"_e1zb1n1", b"_si", b"_sw", b"_so", b"9223372036854775807", b"x1x1")
def find_key(data: bytes, _: Path) -> bool:
    """A find-db key."""
    try:
        problem = _key.parse_find_key(data)
    except BadParmError:
        return False
    _of_problem(problem, _key.parse_find_key, _key.find_key, data)
    with contextlib.suppress(BadParmError):  # a perf key has less room for what contradicts itself
        _of_problem(_key.parse_perf_key(_key.perf_key(problem)), _key.parse_perf_key, _key.perf_key,
                    _key.perf_key(problem))
    return True


@target(b"xNHWCx", b"xFP32xF", b"_o", b"_dim1", b"_si", b"9223372036854775807")
def perf_key(data: bytes, _: Path) -> bool:
    """A key of the text perf-db."""
    try:
        problem = _key.parse_perf_key(data)
    except BadParmError:
        return False
    _of_problem(problem, _key.parse_perf_key, _key.perf_key, data)
    find = _key.find_key(problem)
    _of_problem(_key.parse_find_key(find), _key.parse_find_key, _key.find_key, find)
    return True


def _held(path: Path) -> dict[bytes, bytes]:
    file = UserFile(path)
    held = file.as_dict()
    for key, items in held.items():
        require(file.get(key) == items, "not what is listed", key)
    return held


@target(b"k=@s;x:1;#", b";#", b"=@removed;#", b"\r\n", b"=x:1", b"=@", b"a=x:1\na=y:2\n")
def user_file(data: bytes, folder: Path) -> bool:
    """A user's file: read, added to, compacted; each leaves the other records as they are."""
    path = folder / "user.txt"
    path.write_bytes(sealed_lines(data))
    held = _held(path)
    file = UserFile(path)
    line = records.write_perf(b"new key", {"solver": "1"}, _STAMP)
    require(file.update(b"new key", lambda _old: line), "not written")
    want = held | {b"new key": records.split(line)[1]}
    require(_held(path) == file.as_dict() == want, "other records after an addition")
    require(file.compact() and _held(path) == want, "other records after compaction")
    require(path.stat().st_size == sum(len(key) + len(items) + 2 for key, items in want.items()) + 10 * sum(
        records.classify(line) is records.Kind.OURS for line in path.read_bytes().split(b"\n")), "not compact")
    return len(held) > 1


def _lists(file: RecordFile) -> dict[bytes, bytes]:
    found = dict(file)
    require(len(file) == len(found), "another number of records", len(file))
    for key, items in found.items():
        require(file.get(key) == items, "not what is listed", key)
    require(file.get(b"not there") == found.get(b"not there"), "a record from nowhere")
    repr(file.skipped), file.index_bytes
    return found


@target(b"k=@s;x:1;#", b";#", b"=@removed;#", b"\r\n", b"=x:1", b"=@", b"a=x:1\na=y:2\n")
def system_file(data: bytes, folder: Path) -> bool:
    """A system's file: the same with a cached index and without, and as a user's file that says the same."""
    path, cache = folder / "system.txt", folder / "cache"
    text = sealed_lines(data)
    path.write_bytes(text)
    os.utime(path, (1, 1))  # long ago: nobody waits until a change would show
    held = RecordFile(path)
    require(held.problem == "", "a problem", held.problem)
    found = _lists(held)
    for _ in range(2):
        require(_lists(RecordFile(path, cache)) == found, "another content with an index")
    (folder / "user.txt").write_bytes(text + b"\n")
    require(_held(folder / "user.txt") == found, "another content as a user's file")
    return len(found) > 1


@target(b"BZh91AY&SY", b"\x17rE8P\x90")
def system_packed(data: bytes, folder: Path) -> bool:
    """A system's file in bzip2: its text, or a problem."""
    path = folder / "system.txt.bz2"
    path.write_bytes(data)
    os.utime(path, (1, 1))
    file = RecordFile(path)
    try:
        text = bz2.decompress(data) if data else b""
    except (OSError, ValueError):
        require(bool(file.problem) and not list(file), "damage that nobody saw")
        return False
    if not file.problem:  # bz2.decompress passes over what stands behind the last stream
        (folder / "plain.txt").write_bytes(text)
        require(_lists(file) == _lists(RecordFile(folder / "plain.txt")), "another text")
    return not file.problem


_HEADER = 17 * 8
_MASK = (1 << 64) - 1
_TEXT = b"".join(records.seal(b"%b=@s;solver:%d" % (key, i)) for i, key in enumerate(
    (b"a", b"4-7-7-3x3-5-7-7-1-1x1-1x1-1x1-0-NCHW-FP32-F", b"b-c", b"=" * 3))) + b"foreign=x:1\n\xff=y:2\nno record\n"


def _digest(data: bytes, seed: int) -> int:
    """As _system_file has it: a sum that fits is no obstacle to who forges an index."""
    def mix(h: int, at: int | None) -> int:
        word = len(data) if at is None else int.from_bytes(data[at:at + 8], "little")
        product = (h ^ word) * 0x9E3779B97F4A7C15
        return product & _MASK ^ product >> 64

    h = seed ^ len(data) * 0xD6E8FEB86659FD93 & _MASK
    for place in range(0, len(data) - 8, 8):
        h = mix(h, place)
    return mix(mix(h, max(0, len(data) - 8)), None)


def _forged(index: bytes, slots: bytes, end: bytes) -> bytes:
    words = list(struct.unpack_from("<17Q", index))
    words[10] = len(slots) // 8
    head = struct.pack("<17Q", *words)[:_HEADER - 8]
    return head + struct.pack("<Q", _digest(slots, _digest(head, 0x13198A2E03707344))) + slots + end


@target(struct.pack("<Q", 1 << 24), b"\xff" * 8)
def index(data: bytes, folder: Path) -> bool:
    """The index of a mapped file, whose sum fits: a wrong one hides records, and invents none."""
    path, cache = folder / "system.txt", folder / "cache"
    path.write_bytes(_TEXT)
    os.utime(path, (1, 1))
    want = _lists(RecordFile(path, cache))
    (file,) = cache.glob("*.index")
    good = file.read_bytes()
    end = os.fsencode(path)
    require(_forged(good, good[_HEADER:len(good) - len(end)], end) == good, "the sum is another")
    reached = False
    for text in (_forged(good, data[:len(data) // 8 * 8][:8 * len(_TEXT)], end), data + end, good[:_HEADER] + data):
        file.unlink(missing_ok=True)
        file.write_bytes(text)
        read = RecordFile(path, cache)
        reached |= file.read_bytes() == text
        for key, items in [*want.items(), *read]:
            require(read.get(key) in (None, items), "a wrong record", key)
        require(dict(read).items() <= want.items() | {(b"b-c", b"@s;solver:2")}, "a record that nobody wrote")
    return reached


_LEDGER_READS = ("devices", "counts", "asked_layers")


@target(b"SQLite format 3\0", b"CREATE TABLE ", b"result", b"measurement", b"mxtl", b"open", b"done")
def ledger_file(data: bytes, folder: Path) -> bool:
    """A ledger of `miopyx tune`: refused, or read and written to; in memory where the file fails."""
    path = folder / "ledger.sqlite"
    path.write_bytes(data)
    try:
        book = ledger.existing(path)
    except MIOpenError:
        return False
    try:
        for name in _LEDGER_READS:
            getattr(book, name)()
        for device, _ in book.devices():
            book.layers(device), book.find_lines(device), book.perf_lines(device), book.measurements(device)
            book.states(device, True), book.states(device, False)
        device = ledger.Device("host_1", _STAMP)
        key = "4-7-7-3x3-5-7-7-1-1x1-1x1-1x1-0-NCHW-FP32-F"
        book.asked([(key, "source", "layer", 2.0)])
        book.open(device, [key], False)
        book.record(key, False, {
            "device": device.name, "stamp": device.stamp, "find": "k=@s;x:1;#00000000", "perf": None, "partial": False,
            "before": None, "after": {"solver": "x", "config": "", "ms": 1.0}, "times": [{"a": 1}]})
        book.fail(device, key, True, "why")
        book.retry(device, [key], True)
        for device, _ in book.devices():
            book.layers(device), book.find_lines(device), book.perf_lines(device), book.measurements(device)
        return book.path is not None
    finally:
        book.close()


_ACTIONS = (
    (db.info, {"file": ["in"]}), (db.verify, {"file": "in", "examples": 2}), (db.lookup, {"file": "in", "key": "a"}),
    (db.merge, {"out": "out", "file": ["in", "in"]}), (db.export, {"file": "in", "out": "out", "device": ""}),
    (db.diff, {"a": "in", "b": "out", "examples": 2}),
    (db.write_page, {"file": "in", "out": "out", "list": [], "device": "", "tflops": None, "gbs": None}),
    (db.import_, {"file": "in", "device": "host", "replace": True}), (db.compact, {"file": "in"}))


@target(b";#", b"-NCHW-FP32-F=", b":0.5,0,miopenConvolutionFwdAlgoDirect", b"SQLite format 3\0", b"xNCHWxFP32xF=")
def db_commands(data: bytes, folder: Path) -> bool:
    """What `miopyx db` does with a file; each action prints, or says why not."""
    names = {"in": folder / "in.fdb.txt", "out": folder / "out.fdb.txt"}
    names["in"].write_bytes(sealed_lines(data))
    done = 0
    for run, given in _ACTIONS:
        given = {name: [names[one] for one in value] if isinstance(value, list) and value else names.get(value, value)
                 if isinstance(value, str) else value for name, value in given.items()}
        with contextlib.suppress(OSError, MIOpenError):
            result = run(argparse.Namespace(**given, json=False))
            for line in db._lines(result):
                line.encode("utf-8", "surrogateescape")
            done += 1
    return done > 5


@target(b" - nfs4 ", b"\\040", b"\\", b" / / rw")
def mounts(data: bytes, folder: Path) -> bool:
    """Linux's list of mounts."""
    from miopyx.database import paths

    text = data.decode("utf-8", "surrogateescape")
    return paths.is_network(folder, text) or paths.is_network(Path("/"), text) or b" - " in data


@target(b"gfx90a68.db.txt", b"nv-sm90_132.OpenCL.fdb.txt.bz2", b"_0", b"_999999.db.txt")
def file_names(data: bytes, _: Path) -> bool:
    """Names in the folder of the system's databases, and devices whose file is looked for."""
    from miopyx.database import paths

    name, _, stem = data.decode("utf-8", "surrogateescape").partition("\n")
    found = paths._units(name, stem)
    require(found is None or found >= 0, "number of units", found)
    return found is not None
