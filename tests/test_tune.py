"""`miopyx tune` on one machine: sources, the ledger, children that die, the scheduler, the command."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tune_clock

from miopyx import ConvolutionDescriptor, Handle, TensorDescriptor
from miopyx.choose import child, find
from miopyx.choose._survey import Survey
from miopyx.database import records, store
from miopyx.database.records import FindItem
from miopyx.device import devices
from miopyx.errors import BadParmError, MIOpenError, UnknownError
from miopyx.problem import _key
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.tools import cli, tune
from miopyx.tools.driver.options import UsageError
from miopyx.tools.tune import ledger as ledgers
from miopyx.tools.tune import measure, show, sources, work
from miopyx.tools.tune import station as station_module
from miopyx.tools.tune.ledger import DONE, FAILED, OPEN, VERSION, Device, Ledger, existing
from miopyx.tools.tune.station import Station
from miopyx.tools.tune.work import TRIES, LocalLane, LocalLanes, Scheduler, outliers

LIST = """# a comment
./bin/MIOpenDriver conv -n 1 -c 4 -H 7 -W 7 -k 5 -y 3 -x 3 -p 1 -q 1 -F 1
MIOpenDriver conv -n 1 -c 4 -H 7 -W 7 -k 5 -y 3 -x 3 -p 1 -q 1 -F 1
conv -n 2 -c 4 -H 7 -W 7 -k 5 -y 1 -x 1 -F 3
activ -n 1 -c 4 -H 8 -W 8 -m 3
"""
TWICE = "4-7-7-3x3-5-7-7-1-1x1-1x1-1x1-0-NCHW-FP32-F"
ONCE = ("4-7-7-1x1-5-7-7-2-0x0-1x1-1x1-0-NCHW-FP32-F", "5-7-7-1x1-4-7-7-2-0x0-1x1-1x1-0-NCHW-FP32-B")
CLOCK = "tune_clock:clock"
DEVICE = Device("some_2", "build/driver/some_2")


@pytest.fixture
def listed(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text(LIST)
    return path


def keys_of(found):
    counts = {}
    for one in found.wanted:
        counts[one.key] = counts.get(one.key, 0) + one.weight
    return counts


# Sources


def test_a_list_is_counted(listed):
    found = sources.read([str(listed)], [], sources.Options())
    assert keys_of(found) == {TWICE: 2, ONCE[0]: 1, ONCE[1]: 1}
    assert not found.refused
    assert {one.source for one in found.wanted} == {"list.txt"}


def test_options_replace_what_lines_say(listed):
    found = sources.read([str(listed)], [], sources.Options(8, "float16", "nhwc", "W"))
    assert keys_of(found) == {"5-7-7-3x3-4-7-7-8-1x1-1x1-1x1-0-NHWC-NHWC-NHWC-FP16-W": 2,
                              "5-7-7-1x1-4-7-7-8-0x0-1x1-1x1-0-NHWC-NHWC-NHWC-FP16-W": 1}


def test_lines_that_cannot_be_are_counted(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text("conv -n 1 -c 4 -H 7 -W 7 -k 5 -g 3\nconv --nonsense 3\nconv -c 4 -H 7 -W 7 -k 5\n")
    found = sources.read([str(path)], [], sources.Options(directions="F"))
    assert len(found.wanted) == 1
    assert ["line 1" in found.refused[0], "line 2" in found.refused[1], len(found.refused)] == [True, True, 2]
    with pytest.raises(UsageError, match="No such file"):
        sources.read([str(tmp_path / "nothing.txt")], [], sources.Options())


def test_a_log_is_what_was_called(tmp_path, opencl_name):
    log = tmp_path / "log.txt"
    code = """
import numpy as np, miopyx as mi
with mi.Handle("host") as handle:
    x, w = mi.TensorDescriptor("float32", (1, 4, 7, 7)), mi.TensorDescriptor("float32", (5, 4, 3, 3))
    conv = mi.ConvolutionDescriptor((1, 1))
    y = mi.TensorDescriptor("float32", (1, 5, 7, 7))
    a, b, c = (np.ones(d.lens, np.float32) for d in (x, w, y))
    for _ in range(3):
        mi.miopenFindConvolutionForwardAlgorithm(handle, x, a, w, b, conv, y, c, 1, None, 0, False)
    odd = mi.TensorDescriptor("float32", (1, 4, 7, 7), (400, 100, 14, 2))
    mi.miopenConvolutionForwardGetSolutionCount(handle, w, odd, conv, y)
    mi.miopenFindConvolutionForwardAlgorithm(handle, odd, np.ones(400, np.float32), w, b, conv, y, c, 1, None, 0, False)
    handle.math_type = mi.miopenMathDefault
    mi.miopenFindConvolutionForwardAlgorithm(handle, x, a, w, b, conv, y, c, 1, None, 0, False)
    x, w, y = (mi.TensorDescriptor("float8_e5m2", lens) for lens in ((1, 4, 7), (5, 4, 3), (1, 5, 7)))
    handle.convolution_forward(x, w, mi.ConvolutionDescriptor((1,)), y)(*(handle.zeros(d) for d in (x, w, y)))
"""
    with log.open("wb") as file:
        subprocess.run([sys.executable, "-P", "-c", code], stderr=file, check=True,
                       env={**os.environ, "MIOPEN_ENABLE_LOGGING_CMD": "1"})
    found = sources.read([], [str(log)], sources.Options())
    assert keys_of(found) == {TWICE: 3, f"{TWICE}_tf32": 1, "4-1-7-1x3-5-1-7-1-0x1-1x1-1x1-0-NCHW-E5M2-F_dim1": 1}
    assert len(found.refused) == 1
    assert "no flag says strides of x" in found.refused[0]


def test_an_onnx_model(tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    def constant(name, *lens):
        return numpy_helper.from_array(np.ones(lens, np.float32), name)

    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["a"], name="first", pads=[1, 1, 1, 1]),
         helper.make_node("Relu", ["a"], ["b"]),
         helper.make_node("Conv", ["b", "w2"], ["c"], auto_pad="SAME_UPPER", strides=[2, 2]),
         helper.make_node("ConvTranspose", ["c", "w3"], ["d"], strides=[2, 2]),
         helper.make_node("Flatten", ["d"], ["e"]),
         helper.make_node("Gemm", ["e", "m"], ["y"], transB=1)],
        "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 7, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [constant("w", 5, 4, 3, 3), constant("w2", 6, 5, 3, 3), constant("w3", 6, 2, 2, 2), constant("m", 3, 128)])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph), path)
    found = sources.read([str(path)], [], sources.Options())
    assert not found.wanted
    assert "--batch" in found.refused[0]
    found = sources.read([str(path)], [], sources.Options(batch=1))
    assert not found.refused
    assert {one.layer.removeprefix("n1 "): one.key for one in found.wanted} == {
        "first": TWICE,
        "Conv 2": "5-7-7-3x3-6-4-4-1-1x1-2x2-1x1-0-NCHW-FP32-F",
        "ConvTranspose 3": "6-4-4-2x2-2-8-8-1-0x0-2x2-1x1-0-NCHW-FP32-B",
        "Gemm 5": "128-1-1-1x1-3-1-1-1-0x0-1x1-1x1-0-NCHW-FP32-F"}
    assert len(keys_of(sources.read([str(path)], [], sources.Options(2, "float16", "", "FBW")))) == 12
    for content in (b"nonsense", b"", bytes(range(256)) * 9):
        path.write_bytes(content)
        with contextlib.suppress(UsageError):
            assert not sources.read([str(path)], [], sources.Options()).wanted


def test_an_exported_model(tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(
        torch.nn.Conv2d(4, 5, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(5, 6, 3, padding="same", groups=1),
        torch.nn.ConvTranspose2d(6, 2, 2, stride=2)).eval()
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(model, (torch.randn(1, 4, 7, 7),)), path)
    found = sources.read([str(path)], [], sources.Options())
    assert not found.refused
    assert sorted(keys_of(found)) == sorted([
        TWICE, "5-7-7-3x3-6-7-7-1-1x1-1x1-1x1-0-NCHW-FP32-F", "6-7-7-2x2-2-14-14-1-0x0-2x2-1x1-0-NCHW-FP32-B"])
    path.write_bytes(b"nonsense")
    with pytest.raises(UsageError, match="no exported model"):
        sources.read([str(path)], [], sources.Options())


@pytest.mark.parametrize(("name", "module", "words"), [("a.pt2", "torch", "needs PyTorch"),
                                                       ("a.onnx", "onnx", r"pip install miopyx\[onnx\]")])
def test_what_is_not_installed_is_said(tmp_path, monkeypatch, name, module, words):
    for loaded in [loaded for loaded in sys.modules if loaded == "miopyx.tools.tune.onnx_layers"]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.delattr("miopyx.tools.tune.onnx_layers", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=words):
        sources.read([str(tmp_path / name)], [], sources.Options())


# The ledger


def result_of(key=TWICE, ms=1.0, device=DEVICE, **more):
    line = records.write_find(key.encode(), [], device.stamp).decode()
    return {"device": device.name, "stamp": device.stamp, "before": {"solver": "A", "ms": 2.0},
            "after": {"solver": "B", "config": "1,2", "ms": ms}, "partial": False, "find": line, "perf": None,
            "times": [{"solver": "B", "time_ms": ms}], **more}


def test_a_result_counts_once(tmp_path):
    ledger = Ledger(tmp_path / "a" / "ledger.sqlite3")
    ledger.asked([(TWICE, "list", "layer", 2.0), (TWICE, "list", "layer", 3.0)])
    ledger.open(DEVICE, [TWICE, ONCE[0]], False)
    ledger.attempt(DEVICE, TWICE, False, "measure", "me", 1.0, "lost", "gone")
    assert ledger.record(TWICE, False, result_of())
    for other in (result_of(), result_of(ms=9.0)):
        assert not ledger.record(TWICE, False, other)
    assert ledger.record(TWICE, True, result_of()), "a search is another task"
    ledger.fail(DEVICE, TWICE, False, "too late to fail")
    ledger.fail(DEVICE, ONCE[0], False, "why not")
    ledger.close()
    ledger = existing(tmp_path / "a" / "ledger.sqlite3")
    assert ledger.counts() == {"device": 1, "problem": 2, "asked": 1, "task": 3, "attempt": 5, "result": 2,
                               "measurement": 2}
    assert ledger.states(DEVICE, False) == {TWICE: (DONE, ""), ONCE[0]: (FAILED, "why not")}
    assert [json.loads(line)["time_ms"] for line in ledger.measurements(DEVICE)] == [1.0, 1.0]
    ledger.retry(DEVICE, [TWICE, ONCE[0]], False)
    assert ledger.states(DEVICE, False) == {TWICE: (DONE, ""), ONCE[0]: (OPEN, "")}
    assert not ledger.states(Device("some_2", "another build"), False)
    ledger.close()


def test_a_whole_result_replaces_a_partial_one():
    ledger = Ledger(None)
    assert ledger.record(TWICE, False, result_of(ms=3.0, partial=True))
    assert not ledger.record(TWICE, False, result_of(ms=2.5, partial=True))
    assert ledger.states(DEVICE, False) == {TWICE: (OPEN, "")}
    assert ledger.record(TWICE, False, result_of(ms=2.0))
    assert not ledger.record(TWICE, False, result_of(ms=1.0, partial=True))
    assert ledger.states(DEVICE, False) == {TWICE: (DONE, "")}
    assert [json.loads(line)["time_ms"] for line in ledger.measurements(DEVICE)] == [2.0]
    assert ledger.counts()["result"] == 1


def test_a_partial_result_with_more_solvers_replaces_one_with_fewer():
    def partial(count, ms):
        items = [FindItem(f"S{i}", ms + i, 0, 0, 0) for i in range(count)]
        line = records.write_find(TWICE.encode(), items, DEVICE.stamp, True).decode()
        return result_of(ms=ms, partial=True, find=line)

    ledger = Ledger(None)
    for count, ms, new in ((2, 3.0, True), (2, 3.0, False), (1, 2.0, False), (2, 2.5, True), (4, 4.0, True)):
        assert ledger.record(TWICE, False, partial(count, ms)) == new
    assert ledger.find_lines(DEVICE) == [partial(4, 4.0)["find"].encode()]
    assert [json.loads(line)["time_ms"] for line in ledger.measurements(DEVICE)] == [4.0]
    assert ledger.record(TWICE, False, result_of(ms=2.0))
    ledger.again(DEVICE, [TWICE], False)
    ledger.record(TWICE, True, partial(5, 1.0))
    assert not ledger.record(TWICE, False, partial(5, 1.0)), "a whole one is not given for it"
    assert [row[6] for row in ledger.layers(DEVICE)] == [2.0], "and stands before others as before"
    assert ledger.states(DEVICE, False) == {TWICE: (OPEN, "")}
    assert ledger.record(TWICE, False, result_of(ms=9.0))
    assert not ledger.record(TWICE, False, result_of(ms=1.0))
    assert [row[6] for row in ledger.layers(DEVICE)] == [9.0]


def broken_ledgers(folder):
    """Yield files that are no ledgers of ours."""
    path = folder / "noise.sqlite3"
    path.write_bytes(os.urandom(5000))
    yield path
    path = folder / "other.sqlite3"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE something (a)")
        db.commit()
    yield path
    path = folder / "newer.sqlite3"
    Ledger(path).close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    yield path
    path = folder / "torn.sqlite3"
    ledger = Ledger(path)
    for i in range(200):
        ledger.record(f"{i}-7-7-3x3-5-7-7-1-1x1-1x1-1x1-0-NCHW-FP32-F", False, result_of())
    ledger.close()
    content = path.read_bytes()
    path.write_bytes(content[:len(content) // 2])
    yield path
    path = folder / "folder.sqlite3"
    path.mkdir()
    yield path


def test_a_broken_ledger_stops_nothing(tmp_path, caplog):
    for path in broken_ledgers(tmp_path):
        caplog.clear()
        ledger = Ledger(path)
        assert ledger.path is None
        assert "is not used" in caplog.text
        assert ledger.record(TWICE, False, result_of())
        assert ledger.counts()["result"] == 1
        ledger.close()
        with pytest.raises(MIOpenError):
            existing(path)
    with pytest.raises(BadParmError):
        existing(tmp_path / "nothing")


@contextlib.contextmanager
def powerless():
    """Be nobody for a while where this process may write everywhere."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(("file", "folder"), [(0o644, 0o555), (0o444, 0o777)])
@pytest.mark.parametrize("live", [False, True])
def test_a_ledger_that_cannot_be_written_is_read(file, folder, live, capsys):
    """In a folder or mount that cannot be written to, or somebody else's, while its owner writes or not."""
    with tempfile.TemporaryDirectory() as place:  # pytest's folders are its user's alone
        path = Path(place) / "a ledger%20?.sqlite3"
        ledger = Ledger(path)
        ledger.record(TWICE, False, result_of())
        if not live:
            ledger.close()
        os.chmod(path, file)
        os.chmod(place, folder)
        files = sorted(os.listdir(place))
        try:
            with powerless():
                assert cli.main(["db", "info", str(path), "--json"]) == 0
                with contextlib.closing(existing(path)) as book:
                    assert book.find_lines(DEVICE) == [result_of()["find"].encode()]
        finally:
            os.chmod(place, 0o755)
            ledger.close()
        assert sorted(os.listdir(place)) in (files, ["a ledger%20?.sqlite3"]), "nothing stays that keeps its owner out"
        assert str(path) in json.loads(capsys.readouterr().out)


def test_a_log_that_cannot_be_read_is_said(tmp_path):
    """Of a ledger that was copied while somebody wrote: what is in its -wal alone is not passed over."""
    with tempfile.TemporaryDirectory() as place:
        ledger = Ledger(tmp_path / "a.sqlite3")
        ledger.record(TWICE, False, result_of())
        for end in ("", "-wal"):
            shutil.copy(f"{ledger.path}{end}", place)
        ledger.close()
        os.chmod(place, 0o555)
        with powerless(), pytest.raises(BadParmError, match="cannot be read"):
            existing(Path(place) / "a.sqlite3")
        os.chmod(place, 0o755)
        with contextlib.closing(existing(Path(place) / "a.sqlite3")) as book:
            assert book.counts()["result"] == 1


def test_a_ledger_that_fails_later_stops_nothing(tmp_path, caplog):
    ledger = Ledger(tmp_path / "ledger.sqlite3")
    ledger.record(TWICE, False, result_of())
    ledger._db.execute("DROP TABLE result")
    ledger.record(ONCE[0], False, result_of(ONCE[0]))
    assert "is not used" in caplog.text
    assert ledger.record(ONCE[1], False, result_of(ONCE[1]))
    ledger.close()


@contextlib.contextmanager
def locked(path):
    """Keep others from writing a ledger."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


def test_a_ledger_that_somebody_holds_stops_nothing(tmp_path, caplog, monkeypatch):
    """What could not be written is in memory, too."""
    monkeypatch.setattr(ledgers, "_BUSY_SECONDS", 0.1)
    ledger = Ledger(tmp_path / "ledger.sqlite3")
    with locked(ledger.path):
        assert ledger.record(TWICE, False, result_of())
    assert "is not used" in caplog.text
    assert ledger.path is None
    assert [line.decode() for line in ledger.find_lines(DEVICE)] == [result_of()["find"]]
    ledger.close()


def test_the_only_place_of_results_is_waited_for(tmp_path, caplog, monkeypatch):
    """Of a fleet: a ledger that fails for a while loses nothing, one that fails for good is an error."""
    monkeypatch.setattr(ledgers, "_BUSY_SECONDS", 0.1)
    monkeypatch.setattr(ledgers, "_AGAIN_SECONDS", 0.1)
    path = tmp_path / "ledger.sqlite3"
    ledger = Ledger(path, only=True)
    holder = locked(path)
    holder.__enter__()
    with ThreadPoolExecutor(1) as executor:
        writing = executor.submit(lambda: Ledger(path, only=True).record(TWICE, False, result_of()))
        time.sleep(1)
        assert not writing.done()
        holder.__exit__(None, None, None)
        assert writing.result()
    assert "tried again" in caplog.text
    assert ledger.counts()["result"] == 1
    monkeypatch.setattr(ledgers, "_PATIENCE_SECONDS", 0.5)
    with locked(path), pytest.raises(UnknownError, match="only place"):
        ledger.record(ONCE[0], False, result_of(ONCE[0]))
    ledger.close()
    noise = tmp_path / "noise.sqlite3"
    noise.write_bytes(os.urandom(5000))
    with pytest.raises(UnknownError, match="only place"):
        Ledger(noise, only=True)


def test_two_writers(tmp_path):
    """At a time: each result is new to one of them, and nobody fails."""
    start = threading.Barrier(2)

    def write(_):
        ledger = Ledger(tmp_path / "ledger.sqlite3")
        start.wait()
        new = [ledger.record(key, False, result_of(key)) for key in many(100)]
        assert ledger.path is not None
        ledger.close()
        return new

    with ThreadPoolExecutor(2) as executor:
        first, second = executor.map(write, range(2))
    assert all(one != other for one, other in zip(first, second, strict=True))
    ledger = existing(tmp_path / "ledger.sqlite3")
    assert ledger.counts()["result"] == ledger.counts()["task"] == 100
    assert ledger.counts()["attempt"] == 200
    ledger.close()


def test_a_partial_search_does_not_stand_before_a_whole_result():
    ledger = Ledger(None)
    line = records.write_find(TWICE.encode(), [], DEVICE.stamp, True).decode()
    ledger.record(TWICE, True, result_of(ms=3.0, partial=True, find=line))
    assert ledger.find_lines(DEVICE) == [line.encode()]
    ledger.record(TWICE, False, result_of(ms=2.0))
    assert ledger.find_lines(DEVICE) == [result_of()["find"].encode()]
    assert [row[6] for row in ledger.layers(DEVICE)] == [2.0]
    ledger.record(TWICE, True, result_of(ms=1.0))
    assert [row[6] for row in ledger.layers(DEVICE)] == [1.0]


def test_names_need_not_be_utf8(tmp_path):
    name = os.fsdecode(b"caf\xe9.txt")
    ledger = Ledger(tmp_path / "ledger.sqlite3")
    ledger.asked([(TWICE, name, f"layer of {name}", 2.0)])
    ledger.attempt(DEVICE, TWICE, False, "measure", name, 1.0, "lost", name)
    ledger.record(TWICE, False, result_of())
    assert ledger.layers(DEVICE)[0][2] == r"caf\udce9.txt"
    assert ledger.path is not None
    ledger.close()


def test_exports_of_a_ledger(tmp_path, user_folder, capsys):
    lanes = LocalLanes([LocalLane("host", 0, 60.0, CLOCK)])
    path = tmp_path / "ledger.sqlite3"
    ledger = Ledger(path)
    Scheduler(lanes, ledger, dict.fromkeys([TWICE, *ONCE], 1.0), Nobody()).run()
    lanes.close()
    ledger.close()
    for ending, count in ((".fdb.txt", 3), (".jsonl", 3), (".fdb.txt.bz2", 3)):
        out = tmp_path / f"out{ending}"
        assert cli.main(["db", "export", str(path), str(out), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["records"] == count
    assert cli.main(["db", "verify", str(tmp_path / "out.fdb.txt")]) == 0
    host = devices.find("host")
    for line in (tmp_path / "out.fdb.txt").read_bytes().splitlines():
        key, items = records.split(line)
        assert store.of(host).user_find.get(key) == items, "the user's database has the same record"
        times = {item.solver: item.time for item in records.read_find(items).items}
        assert times == {solver: pytest.approx(tune_clock.clock(key.decode(), solver, (), 0), rel=1e-5)
                         for solver in times}
    for arguments, words in (((path, tmp_path / "out.txt"), "what shall be written? [OUT = '/"),
                             ((path, tmp_path / "a.jsonl", "--device", "other"), "no such device"),
                             ((path, tmp_path / "out.db.txt"), "miopyx tune --exhaustive")):
        assert cli.main(["db", "export", *map(str, arguments)]) == 2
        assert words in capsys.readouterr().err
        assert not arguments[1].exists()


def test_ledgers_are_databases(tmp_path, capsys):
    """merge, diff and the like take them as they take their exports; of several devices one must be named."""
    def db(*arguments):
        code = cli.main(["db", *map(str, arguments), "--json"])
        out, err = capsys.readouterr()
        return json.loads(out) if code == 0 else (code, err)

    paths = [tmp_path / name for name in ("a.sqlite3", "b.sqlite3")]
    for path, keys, ms in zip(paths, ([TWICE, ONCE[0]], [TWICE]), (1.0, 2.0), strict=True):
        ledger = Ledger(path)
        for key in keys:
            item = FindItem("ConvDirectNaiveConvFwd", ms, 0, 0, 1)
            line = records.write_find(key.encode(), [item], DEVICE.stamp).decode()
            ledger.record(key, False, result_of(key, ms, find=line))
        ledger.close()
    for path in paths:
        assert db("export", path, path.with_suffix(".fdb.txt"))["records"]
    exports = [path.with_suffix(".fdb.txt") for path in paths]
    assert db("diff", *paths) == db("diff", *exports)
    assert db("diff", *paths)["find-db"]["milliseconds"] == {"A": 1.0, "B": 2.0}
    written = [db("merge", tmp_path / f"{i}.txt", *files)["records"] for i, files in enumerate((paths, exports))]
    assert written == [2, 2]
    assert (tmp_path / "0.txt").read_bytes() == (tmp_path / "1.txt").read_bytes()
    assert db("info", paths[0])[str(paths[0])]["records"] == db("verify", paths[0])["records"] == 2
    content = paths[0].read_bytes()
    assert db("compact", paths[0])[0] == 2
    assert paths[0].read_bytes() == content
    ledger = Ledger(paths[0])
    ledger.record(TWICE, False, result_of(device=Device("other_1", "stamp")))
    ledger.close()
    code, err = db("merge", tmp_path / "out.txt", *paths)
    assert (code, "several devices" in err, (tmp_path / "out.txt").exists()) == (2, True, False)


# Children


def test_a_station(user_folder):
    station = Station("host", CLOCK)
    about = station.run("describe", 60)["done"]
    assert about["device"] == devices.find("host").name
    looked = station.run("look", 60, keys=[TWICE, "nonsense"], search=False)["done"]
    assert looked[0]["known"] is False
    assert looked[0]["gain_ms"] > 0
    assert "number of fields" in looked[1]["why"] or "key" in looked[1]["why"]
    result = station.run("measure", 60, key=TWICE, search=False)["done"]
    solver = result["after"]["solver"]
    assert result["after"]["ms"] == tune_clock.clock(TWICE, solver, (), 0)
    assert result["before"]["solver"] == solver
    assert station.run("time", 60, key=TWICE, solver=solver)["done"] == {"ms": result["after"]["ms"]}
    assert "why" in station.run("time", 60, key=TWICE, solver="nonsense")
    assert station.run("look", 60, keys=[TWICE], search=False)["done"][0]["known"] is True
    assert "why" in station.run("measure", 60, key="nonsense", search=False)
    os.kill(about["pid"], signal.SIGKILL)
    assert "SIGKILL" in station.run("measure", 60, key=TWICE, search=False)["died"]
    assert station.run("describe", 60)["done"]["pid"] != about["pid"]
    station.close()
    with pytest.raises(MIOpenError):
        Station("no such device").run("describe", 60)


def poisoned(key, solver, _config, ms):
    """Once a certain problem ran nothing runs any more in its process, as after some errors of a GPU."""
    if key == ONCE[0] or hasattr(poisoned, "by"):
        poisoned.by = key
        raise UnknownError("an illegal address")
    return tune_clock.clock(key, solver, (), ms)


def spoilt_by_the_second(key, solver, _config, ms):
    """The second solver that runs spoils its process."""
    seen = spoilt_by_the_second.__dict__.setdefault("seen", [])
    if solver not in seen:
        seen.append(solver)
    if len(seen) > 1:
        raise UnknownError("an illegal address")
    return tune_clock.clock(key, solver, (), ms)


def test_an_error_of_the_device_is_not_the_next_problems(user_folder):
    lanes = LocalLanes([LocalLane("host", 0, 60.0, "test_tune:poisoned")])
    ledger = Ledger(None)
    summary = Scheduler(lanes, ledger, dict.fromkeys([TWICE, *ONCE], 1.0), Nobody()).run()
    lanes.close()
    assert sorted(key for key, _ in summary.results) == sorted([TWICE, ONCE[1]])
    (key, why), = summary.failed
    assert key == ONCE[0]
    assert "an illegal address" in why
    assert ledger._rows("SELECT count(*) FROM attempt WHERE outcome = 'died'")[0][0] == TRIES


def test_what_failed_after_another_solver_is_not_known(user_folder, opencl_name):
    """The solvers that a device's error kept from being timed stay to be timed."""
    station = Station(opencl_name, "test_tune:spoilt_by_the_second")
    first = station.run("describe", 60)["done"]["pid"]
    result = station.run("measure", 60, key=TWICE, search=False)["done"]
    assert result["partial"]
    assert records.read_find(records.split(result["find"].encode())[1]).failed == []
    assert station.run("look", 60, keys=[TWICE], search=False)["done"][0]["known"] is False
    assert station.run("describe", 60)["done"]["pid"] != first
    station.close()


def test_after_a_failed_run_nothing_is_certain(monkeypatch):
    """What does not build then may build the next time, and what was timed before counts."""
    def fail(*_):
        raise UnknownError("an illegal address")

    monkeypatch.setattr(find, "invoker", fail)
    monkeypatch.setattr(find, "_run_off", fail)
    one, other = list(registry.BY_NAME.values())[:2]
    trial = find._Trial(None, fail, False, False, None)
    trial.time(SimpleNamespace(solver=one))
    assert (trial.failed, trial.unsure) == ([one], False)
    trial.timed = [SimpleNamespace(time=2.0), SimpleNamespace(time=1.0)]
    assert [timed.time for timed in trial.in_order()] == [1.0, 2.0]
    assert trial.unsure
    trial.time(SimpleNamespace(solver=other))
    assert trial.failed == [one]


def test_what_is_refused_keeps_its_child(user_folder):
    station = Station("host", CLOCK)
    first = station.run("describe", 60)["done"]["pid"]
    assert "why" in station.run("measure", 60, key="nonsense", search=False)
    assert station.run("describe", 60)["done"]["pid"] == first
    station.close()


def test_a_child_that_was_ended_as_it_answered_costs_nothing(user_folder, monkeypatch):
    class Late(threading.Timer):
        """Has fired when it is cancelled, and takes a while."""

        def cancel(self):
            super().cancel()
            self.firing = threading.Thread(target=lambda: time.sleep(0.2) or self.function())
            self.firing.start()

        def join(self, timeout=None):
            super().join(timeout)
            self.firing.join(timeout)

    station = Station("host", CLOCK)
    station.run("describe", 60)
    with monkeypatch.context() as patch:
        patch.setattr(child.threading, "Timer", Late)
        assert "done" in station.run("describe", 60)
    time.sleep(0.5)
    assert "done" in station.run("measure", 60, key=TWICE, search=False)
    station.close()


def test_two_processes_measure_once(user_folder):
    first, second = Station("host", CLOCK), Station("host", CLOCK)
    second.run("look", 60, keys=[TWICE], search=False)
    assert "find" in first.run("measure", 60, key=TWICE, search=False, again=False)["done"]
    assert second.run("measure", 60, key=TWICE, search=False, again=False) == {"done": {"known": True}}
    assert "find" in second.run("measure", 60, key=TWICE, search=False, again=True)["done"]
    first.close()
    second.close()


def test_a_child_that_dies_as_it_opens_is_started_once_more(user_folder, monkeypatch):
    class Killed(child.Child):
        left = 1

        def ask(self, *arguments):
            if Killed.left:
                Killed.left -= 1
                self.kill()
            return super().ask(*arguments)

    monkeypatch.setattr(station_module, "Child", Killed)
    station = Station("host", CLOCK)
    assert "done" in station.run("describe", 60)
    station.close()
    Killed.left = 2
    with pytest.raises(UnknownError, match="SIGKILL"):
        station.run("describe", 60)


def test_a_lane_that_is_closed_does_not_wait_for_a_child_that_starts(user_folder, monkeypatch):
    """Between two children there is nobody to end."""
    station = Station("host", "test_tune:endless")
    opening, going = threading.Event(), threading.Event()
    ask = child.Child.ask

    def slowly(self, *arguments):
        opening.set()
        assert going.wait(20)
        return ask(self, *arguments)

    monkeypatch.setattr(child.Child, "ask", slowly)
    with ThreadPoolExecutor(1) as executor:
        asked = executor.submit(station.run, "measure", 60, key=TWICE, search=False)
        assert opening.wait(20)
        station.kill()
        going.set()
        with pytest.raises(UnknownError, match="SIGKILL"):
            asked.result(timeout=20)
    with pytest.raises(UnknownError, match="was ended"):
        station.run("describe", 60)
    station.close()


def test_many_that_compile_use_each_core_once(user_folder, monkeypatch):
    started = []

    class Noted(child.Child):
        def __init__(self, command, name, environment=None):
            started.append(environment)
            super().__init__(command, name, environment)

    monkeypatch.setattr(station_module, "Child", Noted)
    for compilers, level in ((2, {"MIOPEN_COMPILE_PARALLEL_LEVEL": "1"}), (1, {})):
        lane = LocalLane("host", compilers, 60.0)
        lane.submit("compile", key=TWICE).result()
        lane.close()
        assert started == [{}, level]
        started.clear()


def test_a_program_is_looked_for_in_the_cache_once(user_folder, monkeypatch):
    """Until it is there."""
    there, asked = {"a"}, []
    monkeypatch.setattr(measure.programs, "is_cached", lambda _, file, options: asked.append(file) or file in there)
    with Handle("host") as handle:
        bench = SimpleNamespace(handle=handle, built=set())
        for _ in range(3):
            assert measure.Bench._is_cached(bench, "a", "")
            assert not measure.Bench._is_cached(bench, "b", "")
        assert asked == ["a", "b", "b", "b"]
        there.add("b")
        assert measure.Bench._is_cached(bench, "b", "")


class FakeBuffer:
    def __init__(self, size, some):
        self.size, self.some = size, some


class FakeHandle:
    """A device that has room for so many bytes at a time."""

    def __init__(self, room, most=1 << 20):
        self.device = SimpleNamespace(info=SimpleNamespace(max_alloc=most, global_mem=room))
        self.held = weakref.WeakSet()

    def repeated(self, array, size):
        if sum(one.size for one in self.held) + size > self.device.info.global_mem:
            raise UnknownError("no room")
        buffer = FakeBuffer(size, array)
        self.held.add(buffer)
        return buffer


def test_memory_grows_by_powers_of_two():
    handle = FakeHandle(1 << 20)
    memory = measure._Memory(handle)
    sizes = [memory.get("x", size, "float32").size for size in (100, 128, 129, 50, 60_000, 70_000)]
    assert sizes == [128, 128, 256, 256, 65536, 70_000], "what is large is as large as it must be"
    assert memory.get("w", 5, "float32").size == 8
    assert memory.get("x", 5, "int8").size == 8
    assert {type(one) for one in memory.get("x", 5, "int8").some.tolist()} == {int}
    assert len(set(memory.get("w", 5, "float32").some[:100].tolist())) > 50
    assert memory.get("w", 5000, "float8_e4m3fn").some.astype(np.float32).std() > 0.5


def test_memory_that_is_short():
    """What other problems needed goes, and what was to grow does not."""
    handle = FakeHandle(1 << 20)
    memory = measure._Memory(handle)
    memory.get("x", 500_000, "float32")
    memory.get("y", 400_000, "float32")
    assert memory.get("x", 40_000, "float16").size == 65536
    buffer = memory.get("w", 600_000, "float32")
    assert buffer.size == 600_000
    assert list(memory.held) == [("w", "float32")]
    with pytest.raises(UnknownError, match="no room"):
        memory.get("w", 2 << 20, "float32")


def test_lanes_open_side_by_side(user_folder, monkeypatch):
    meet = threading.Barrier(3, timeout=20)
    closed = []

    class Lane:
        unkept = ""

        def __init__(self, device, compilers, limit):
            meet.wait()
            self.name, self.compilers = device, compilers
            if device == "bad":
                raise UnknownError("it does not open")
            if device == "full":
                self.unkept = "no room"

        def close(self):
            closed.append(self.name)

    monkeypatch.setattr(work, "LocalLane", Lane)
    monkeypatch.setattr(devices, "find", lambda name: None)

    def opened(*names):
        return tune._lanes(SimpleNamespace(scheduler=None, device=names, jobs=7), 60.0)

    lanes = opened("a", "b", "c").alive()
    assert [(lane.name, lane.compilers) for lane in lanes] == [("a", 2), ("b", 2), ("c", 3)]
    for names, words in ((("a", "bad", "c"), "does not open"), (("a", "b", "full"), "nothing would be kept: no room")):
        with pytest.raises(UnknownError, match=words):
            opened(*names)
        assert sorted(closed) == [name for name in names if name != "bad"]
        closed.clear()


def test_what_waits_for_a_measurement_has_less_time(user_folder):
    lane = LocalLane("host", 0, 60.0, CLOCK)
    given = []
    lane._measuring.run = lambda job, limit, **arguments: given.append(arguments) or time.sleep(0.1)
    futures = [lane.submit("measure", key=TWICE, budget_ms=budget) for budget in (1000.0, 1000.0, 150.0, None)]
    for future in futures:
        future.result()
    lane.close()
    first, second, third, fourth = (one["budget_ms"] for one in given)
    assert first > 950
    assert 700 < second < 905
    assert (third, fourth) == (1.0, None)


def test_what_cannot_be_looked_up_is_not_built(user_folder, monkeypatch):
    """One problem's error does not spoil the look of the others."""
    def fail(*_):
        raise UnknownError("no such file")

    monkeypatch.setattr(measure.find, "is_built", fail)
    with Handle("host") as handle:
        looked = measure.Bench.look(SimpleNamespace(
            handle=handle, _look=lambda *of: measure.Bench._look(SimpleNamespace(
                handle=handle, _gain=lambda *_: 1.0, _is_cached=None), *of)), [TWICE, ONCE[0]], False)
    assert looked == [{"known": False, "gain_ms": 1.0, "built": False}] * 2


def test_a_measurement_that_takes_too_long_ends_its_child(user_folder):
    station = Station("host", "test_tune:endless")
    began = time.monotonic()
    answer = station.run("measure", 1, key=TWICE, search=False)
    assert "no answer within 1 s" in answer["died"]
    assert time.monotonic() - began < 30
    station.close()


def endless(*_):
    time.sleep(600)


def test_a_child_ends_with_its_parent(user_folder):
    code = f"""
import os, sys, threading, time
sys.path.insert(0, {os.path.dirname(__file__)!r})
from miopyx.tools.tune.station import Station
station = Station("host", "test_tune:endless")
print(station.run("describe", 60)["done"]["pid"], flush=True)
threading.Thread(target=station.run, args=("measure", 600), kwargs={{"key": {TWICE!r}, "search": False}}).start()
time.sleep(1)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    child = int(done.stdout)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the child lives on")


def test_gains_are_larger_where_the_guess_is_worse():
    def gain(times, spread):
        candidates = [SimpleNamespace(time=t, measured=False, predicted=True, spread=spread) for t in times]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measure._ranking, "spread", lambda candidate: candidate.spread)
            return measure.Bench._gain(None, SimpleNamespace(problem=None), candidates)

    assert gain([1.0, 1.1], 0.3) > gain([1.0, 1.1], 0.1) > gain([1.0, 3.0], 0.1) >= 0
    assert gain([2.0, 2.2], 0.3) == pytest.approx(2 * gain([1.0, 1.1], 0.3))


# The scheduler


class Nobody:
    def __init__(self):
        self.totals, self.ended = 0, []

    def total(self, tasks):
        self.totals += tasks

    def done(self, device, key, result, why):
        self.ended.append((key, why))


class FakeLane:
    """A lane whose jobs are functions of the test's, in threads."""

    depth = 2
    rest = None
    machine = ""

    def __init__(self, name, behaviour=None, overlap=True, compilers=2, ms=1.0, built=lambda key: False):
        self.ms, self.built = ms, built
        self.name, self.device, self.overlap, self.compilers = name, DEVICE, overlap, compilers
        self.behaviour = behaviour or (lambda key: {"done": result_of(key)})
        self.one, self.many = ThreadPoolExecutor(1), ThreadPoolExecutor(compilers or 1)
        self.measured, self.log, self.most = [], [], 0
        self.given = self.together = 0
        self.closed = False

    def submit(self, job, **arguments):
        if job in ("look", "time"):
            future = Future()
            future.set_result({"done": {"ms": self.ms} if job == "time" else [
                {"known": False, "gain_ms": float(key.split("-")[0]), "built": self.built(key)}
                for key in arguments["keys"]]})
            return future
        if job == "compile":
            return self.many.submit(self.compile, arguments["key"])
        self.given += 1
        self.most = max(self.most, self.given)
        return self.one.submit(self.measure, arguments["key"])

    def compile(self, key):
        self.together += self.given > 0
        self.log.append(("compile", key))
        return {"done": {"failed": 0}}

    def measure(self, key):
        self.log.append(("measure", key))
        try:
            answer = self.behaviour(key)
            if "done" in answer:
                self.measured.append(key)
            return answer
        finally:
            self.given -= 1

    def close(self):
        self.closed = True


class FakeLanes:
    def __init__(self, lanes):
        self.lanes = list(lanes)

    def alive(self):
        return list(self.lanes)

    def close(self):
        pass


def many(count):
    return {f"{i + 1}-7-7-3x3-5-7-7-1-1x1-1x1-1x1-0-NCHW-FP32-F": 1.0 for i in range(count)}


def test_devices_of_a_kind_are_compared():
    lanes = [FakeLane(name, ms=ms) for name, ms in zip("abcd", (1.0, 1.01, 1.3, 0.99), strict=True)]
    ledger = Ledger(None)
    summary = Scheduler(FakeLanes(lanes), ledger, many(12), Nobody()).run()
    assert list(summary.clocks) == [DEVICE]
    assert list(summary.clocks[DEVICE].values()) == [1.0, 1.01, 1.3, 0.99]
    assert [line.split(":")[0] for line in outliers(summary.clocks[DEVICE])] == ["c #2"]
    assert "29% slower" in outliers(summary.clocks[DEVICE])[0]
    assert ledger._rows("SELECT count(*) FROM clock")[0][0] == 4
    assert not Scheduler(FakeLanes([FakeLane("a")]), ledger, many(12), Nobody()).run().clocks


@pytest.mark.parametrize(("times", "words"), [
    ({"a": 1.0, "b": 1.12}, ["b: 12% slower than a"]), ({"a": 1.09, "b": 1.0}, ["a: 9% slower than b"]),
    ({"a": 1.0, "b": 1.04}, []), ({"a": 1.0}, []), ({}, []), ({"a": 0.0, "b": 0.0}, []),
    ({"a": 1.0, "b": 1.0, "c": 0.9}, ["c: 10% faster than the median of 3 devices"])])
def test_who_is_off_the_others(times, words):
    assert outliers(times) == words


@pytest.mark.parametrize("overlap", [False, True])
def test_best_first_and_compiled_before(overlap):
    lane = FakeLane("a", lambda key: time.sleep(0.005) or {"done": result_of(key)}, overlap=overlap)
    ledger, watcher = Ledger(None), Nobody()
    weights = many(40)
    summary = Scheduler(FakeLanes([lane]), ledger, weights, watcher).run()
    assert len(summary.results) == len(lane.measured) == watcher.totals == len(watcher.ended) == 40
    assert (summary.ended_by, summary.left, summary.failed) == ("all", 0, [])
    for key in weights:
        assert lane.log.index(("compile", key)) < lane.log.index(("measure", key))
    first = [int(key.split("-")[0]) for key in lane.measured[:10]]
    assert min(first) > 20, f"{first}: the most promising first"
    if not overlap:  # never one while the other runs
        jobs = [job for job, _ in lane.log]
        turns = [job for i, job in enumerate(jobs) if i == 0 or jobs[i - 1] != job]
        assert turns == ["compile", "measure"] * 5
        assert not lane.together
    assert ledger.counts()["attempt"] == 40
    assert lane.most <= lane.depth


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("databases", [False, True])
def test_what_is_built_needs_no_compiler(overlap, databases):
    """On one machine: it is measured at once, the rest is compiled; on a fleet each machine has a cache of its own."""
    lane = FakeLane("a", lambda key: time.sleep(0.005) or {"done": result_of(key)}, overlap=overlap,
                    built=lambda key: int(key.split("-")[0]) % 3 > 0)
    weights = many(30)
    summary = Scheduler(FakeLanes([lane]), Ledger(None), weights, Nobody(), databases=databases).run()
    assert sorted(lane.measured) == sorted(weights)
    assert (len(summary.results), summary.left) == (30, 0)
    compiled = sorted(key for job, key in lane.log if job == "compile")
    assert compiled == sorted(key for key in weights if not (databases and lane.built(key)))
    for key in compiled:
        assert lane.log.index(("compile", key)) < lane.log.index(("measure", key))
    if databases:
        assert lane.built(lane.measured[0]), "nothing waits for the compiler"
    if not overlap:
        assert not lane.together


@pytest.mark.parametrize("kinds", [((False, 0), (False, 2)), ((False, 2), (False, 2)), ((False, 0), (True, 2)),
                                   ((False, 2), (True, 0)), ((True, 2), (False, 0))])
def test_a_cpu_measures_while_nothing_is_compiled(kinds):
    """By any lane of the machine; on another one somebody may."""
    now, disturbed, lock = {"measure": 0, "compile": 0}, [], threading.Lock()

    def busy(job, key):
        with lock:
            now[job] += 1
            if now["measure"] and now["compile"]:
                disturbed.append(key)
        time.sleep(0.003)
        with lock:
            now[job] -= 1

    lanes = []
    for i, (overlap, compilers) in enumerate(kinds):
        def measured(key, overlap=overlap):
            if not overlap:
                busy("measure", key)
            return {"done": result_of(key)}

        lane = FakeLane("ab"[i], measured, overlap=overlap, compilers=compilers)
        lane.device = Device(f"some_{i}", "stamp")
        lane.compile = lambda key: busy("compile", key) or {"done": {"failed": 0}}
        lanes.append(lane)
    scheduler = Scheduler(FakeLanes(lanes), Ledger(None), many(40), Nobody())
    assert len(scheduler.run().results) == 80
    assert not disturbed
    assert [len(lane.measured) for lane in lanes] == [40, 40]
    lanes[1].machine = "another"
    assert scheduler._may(lanes[0], "measure")


def test_compilers_and_a_cpu_take_turns():
    """Neither waits for the other's end."""
    lanes = [FakeLane("cpu", overlap=False, compilers=0), FakeLane("gpu", compilers=2)]
    order = []
    for lane, job in zip(lanes, ("measure", "compile"), strict=True):
        lane.device = Device(lane.name, "stamp")
        do = getattr(lane, job)
        setattr(lane, job, lambda key, do=do, job=job: order.append(job) or do(key))
    assert len(Scheduler(FakeLanes(lanes), Ledger(None), many(20), Nobody()).run().results) == 40
    turns = [job for i, job in enumerate(order) if i == 0 or order[i - 1] != job]
    assert len(turns) > 8, turns


def test_lanes_share_and_nothing_is_measured_twice():
    lanes = [FakeLane(name, lambda key: time.sleep(0.01) or {"done": result_of(key)}) for name in "abc"]
    summary = Scheduler(FakeLanes(lanes), Ledger(None), many(60), Nobody()).run()
    assert len(summary.results) == 60
    assert sorted(key for lane in lanes for key in lane.measured) == sorted(many(60))
    assert all(lane.measured for lane in lanes)


def test_a_lane_that_goes_loses_nothing():
    gate = threading.Event()

    def stuck(key):
        gate.wait(20)
        return {"done": result_of(key, ms=5.0)}

    good, bad = FakeLane("good"), FakeLane("bad", stuck)
    lanes = FakeLanes([bad])
    threading.Timer(0.5, lambda: setattr(lanes, "lanes", [good])).start()
    ledger = Ledger(None)
    summary = Scheduler(lanes, ledger, many(10), Nobody(), databases=False).run()
    assert len(summary.results) == 10
    assert len(good.measured) == 10
    assert summary.lost >= 2
    assert not summary.failed
    gate.set()
    assert ledger.counts()["result"] == 10
    assert ledger._rows("SELECT count(*) FROM attempt WHERE outcome = 'lost'")[0][0] >= 1


def test_a_lane_that_breaks_is_left():
    def broken(_):
        raise UnknownError("the device fell off")

    good, bad = FakeLane("good", lambda key: time.sleep(0.02) or {"done": result_of(key)}), FakeLane("bad", broken)
    summary = Scheduler(FakeLanes([bad, good]), Ledger(None), many(10), Nobody()).run()
    assert len(summary.results) == 10
    assert bad.closed
    with pytest.raises(UnknownError, match="fell off"):
        Scheduler(FakeLanes([FakeLane("bad", broken)]), Ledger(None), many(3), Nobody()).run()


def test_a_worker_that_fails_is_asked_again(caplog, monkeypatch):
    """Of a fleet: a job that raised does not take its worker away for good."""
    monkeypatch.setattr(work, "_POLL_SECONDS", 0.02)
    times = []

    def at_first(key):
        times.append(time.monotonic())
        if len(times) <= 2:
            raise UnknownError("the device fell off")
        return {"done": result_of(key)}

    lane, ledger = FakeLane("a", at_first), Ledger(None)
    lane.rest, lane.depth = 0.2, 1
    summary = Scheduler(FakeLanes([lane]), ledger, many(5), Nobody(), databases=False).run()
    assert (len(summary.results), summary.failed, summary.left) == (5, [], 0)
    assert times[1] - times[0] >= 0.2
    assert times[2] - times[1] >= 0.4, "longer and longer"
    assert "the device fell off; it is used again in 0.4 s" in caplog.text


def test_a_device_that_fails_for_good_ends_its_kind():
    """On one machine nobody else comes: its problems are left, and the others are measured."""
    def broken(_):
        raise UnknownError("the device fell off")

    good, bad = FakeLane("good"), FakeLane("bad", broken)
    bad.device = Device("other_1", "stamp")
    summary = Scheduler(FakeLanes([bad, good]), Ledger(None), many(5), Nobody()).run()
    assert (len(summary.results), summary.left) == (5, 5)


def test_problems_that_nobody_is_there_for_are_said_once(caplog, monkeypatch):
    monkeypatch.setattr(work, "_ALONE_SECONDS", 0.5)
    monkeypatch.setattr(work, "_POLL_SECONDS", 0.1)
    gate = threading.Event()
    lanes = FakeLanes([])
    steps = [(2.0, [FakeLane("gone", lambda key: gate.wait(20))]), (2.5, []), (5.0, [FakeLane("good")])]
    for seconds, there in steps:
        threading.Timer(seconds, lambda there=there: setattr(lanes, "lanes", there)).start()
    summary = Scheduler(lanes, Ledger(None), many(7), Nobody(), databases=False).run()
    gate.set()
    assert len(summary.results) == 7
    assert [record.getMessage() for record in caplog.records] == [
        "7 problems wait: there is no worker", f"7 problems wait: there is no worker for {DEVICE.name}"]


class Lost(Future):
    """What is done, and whose worker went before it was fetched, as dask has it."""

    def __init__(self):
        super().__init__()
        self.set_result(None)

    def result(self, timeout=None):
        assert timeout is not None, "nobody will ever answer"
        raise TimeoutError(f"timed out after {timeout} s")


def test_a_lane_that_breaks_rests_though_another_of_its_jobs_was_done():
    lane = FakeLane("a", compilers=0)
    lane.rest = 60.0
    scheduler = Scheduler(FakeLanes([lane]), Ledger(None), many(2), Nobody(), databases=False)
    scheduler._meet([lane])
    hand = scheduler.hands[id(lane)]
    scheduler._fill(hand)
    scheduler._land([scheduler.events.get(timeout=20)])
    scheduler._fill(hand)
    first, second = (scheduler.events.get(timeout=20) for _ in range(2))
    scheduler.flights[first].future = Lost()
    scheduler._land([first])
    scheduler._meet([lane])
    assert second not in scheduler.flights
    assert not scheduler.hands
    assert (len(scheduler.summary.results), scheduler.summary.lost) == (1, 1)


def test_a_result_that_does_not_come_is_measured_again():
    class Forgetful(FakeLane):
        rest = 0.1

        def submit(self, job, **arguments):
            if job == "measure" and not self.given:
                self.given += 1
                return Lost()
            return super().submit(job, **arguments)

    lane = Forgetful("a")
    summary = Scheduler(FakeLanes([lane]), Ledger(None), many(5), Nobody(), databases=False).run()
    assert (len(summary.results), summary.left) == (5, 0)
    assert summary.lost


def test_what_a_lane_finished_before_it_went_counts():
    quick, good = FakeLane("quick", compilers=0), FakeLane("good")
    ledger = Ledger(None)
    scheduler = Scheduler(FakeLanes([good]), ledger, many(1), Nobody(), databases=False)
    scheduler._meet([quick])
    hand = scheduler.hands[id(quick)]
    scheduler._fill(hand)
    scheduler._land([scheduler.events.get(timeout=20)])
    scheduler._fill(hand)
    scheduler.events.get(timeout=20)  # it is done, and nobody saw it yet
    scheduler._meet([good])
    assert scheduler.summary.lost == 0
    assert len(scheduler.run().results) == ledger.counts()["result"] == 1
    assert not good.measured


def test_an_interrupt_takes_what_has_arrived():
    """Results that are there and were not looked at yet when somebody interrupts."""
    class Interrupting(Nobody):
        def done(self, device, key, result, why):
            super().done(device, key, result, why)
            if len(self.ended) == 1:
                until = time.monotonic() + 20
                while len(lane.measured) < 2 and time.monotonic() < until:
                    time.sleep(0.01)
                time.sleep(0.1)
                raise KeyboardInterrupt

    lane, ledger = FakeLane("a", compilers=0), Ledger(None)
    summary = Scheduler(FakeLanes([lane]), ledger, many(9), Interrupting()).run()
    assert summary.ended_by == "interrupted"
    assert ledger.counts()["result"] == len(lane.measured) >= 2


def test_counts_add_up_however_early_it_is_interrupted():
    lane = FakeLane("a")
    submit, looks = lane.submit, []

    def look(job, **arguments):
        looks.append(job)
        if len(looks) == 2:
            raise KeyboardInterrupt
        return submit(job, **arguments)

    def nobody():
        raise KeyboardInterrupt

    lane.submit = look
    assert Scheduler(FakeLanes([lane]), Ledger(None), many(250), Nobody()).run().left == 250
    assert Scheduler(SimpleNamespace(alive=nobody), Ledger(None), many(250), Nobody()).run().left == 250


def test_what_another_process_measured_meanwhile_is_known():
    lane = FakeLane("a", lambda key: {"done": {"known": True} if key.startswith("1-") else result_of(key)})
    watcher = Nobody()
    summary = Scheduler(FakeLanes([lane]), Ledger(None), many(3), watcher).run()
    assert (summary.known, len(summary.results), summary.left, len(watcher.ended)) == (1, 2, 0, 3)


@pytest.mark.parametrize(("options", "again"), [({}, False), ({"again": True}, True), ({"databases": False}, True)])
def test_whether_a_problem_is_known_by_now_is_asked(options, again):
    lane, asked = FakeLane("a"), []
    submit = lane.submit

    def noted(job, **arguments):
        asked.extend([arguments["again"]] if job == "measure" else [])
        return submit(job, **arguments)

    lane.submit = noted
    Scheduler(FakeLanes([lane]), Ledger(None), many(3), Nobody(), **options).run()
    assert asked == [again] * 3


def test_a_problem_that_kills_is_left_after_two_tries():
    def deadly(key):
        if key.startswith("3-"):
            return {"died": "the measuring process died with SIGSEGV"}
        return {"why": "refused"} if key.startswith("4-") else {"done": result_of(key)}

    lane, ledger, weights = FakeLane("a", deadly), Ledger(None), many(6)
    summary = Scheduler(FakeLanes([lane]), ledger, weights, Nobody()).run()
    assert len(summary.results) == 4
    assert sorted(why for _, why in summary.failed) == ["refused", "the measuring process died with SIGSEGV"]
    assert sum(key.startswith("3-") for job, key in lane.log if job == "measure") == TRIES
    assert sum(key.startswith("4-") for job, key in lane.log if job == "measure") == 1
    tried = list(lane.log)
    again = Scheduler(FakeLanes([lane]), ledger, weights, Nobody(), databases=False).run()
    assert (len(again.results), again.known, len(again.failed)) == (0, 4, 2)
    assert lane.log == tried, "nor in another run"
    one = next(key for key in weights if key.startswith("3-"))
    retried = Scheduler(FakeLanes([FakeLane("b")]), ledger, {one: 1.0}, Nobody(), databases=False, retry=True).run()
    assert len(retried.results) == 1
    assert [state for state, _ in ledger.states(DEVICE, False).values()].count(FAILED) == 1, "of another list"


def test_retry_of_the_command(listed, tmp_path, capsys, monkeypatch, user_folder):
    lanes = [FakeLane("a", lambda key: {"why": "refused"}), FakeLane("b"), FakeLane("c")]
    for lane, more, measured in zip(lanes, ([], [], ["--retry"]), (3, 0, 3), strict=True):
        monkeypatch.setattr(tune, "_lanes", lambda *_, lane=lane: FakeLanes([lane]))
        cli.main(["tune", str(listed), "--ledger", str(tmp_path / "ledger"), *more, "--json"])
        assert sum(job == "measure" for job, _ in lane.log) == measured
        assert len(json.loads(capsys.readouterr().out)["failed"]) == (0 if more else 3)


def test_what_is_done_again_is_that_of_the_list_and_device():
    ledger, other = Ledger(None), Device("other_1", "build/driver/other_1")
    for key in [TWICE, *ONCE]:
        for device in (DEVICE, other):
            ledger.record(key, False, result_of(key, device=device))
    states = ledger.states(other, False)
    ledger.fail(other, "4-7-7-1x1-5-7-7-3-0x0-1x1-1x1-0-NCHW-FP32-F", False, "kills")
    lane = FakeLane("a", lambda key: {"done": result_of(key, ms=0.5)})
    found = Scheduler(FakeLanes([lane]), ledger, {TWICE: 1.0}, Nobody(), databases=False, again=True, retry=True).run()
    assert [(key, result["after"]["ms"]) for key, result in found.results] == [(TWICE, 0.5)]
    assert {row[0]: row[6] for row in ledger.layers(DEVICE)} == {TWICE: 0.5, ONCE[0]: 1.0, ONCE[1]: 1.0}
    assert {key: state for key, state in ledger.states(other, False).items() if key in states} == states
    assert (FAILED, "kills") in ledger.states(other, False).values()
    assert set(ledger.states(DEVICE, False).values()) == {(DONE, "")}


def test_the_budget_ends_it():
    lane = FakeLane("a", lambda key: time.sleep(0.05) or {"done": result_of(key)})
    summary = Scheduler(FakeLanes([lane]), Ledger(None), many(500), Nobody(), budget=0.5).run()
    assert summary.ended_by == "budget"
    assert 2 <= len(summary.results) < 30
    assert summary.left == 500 - len(summary.results)


def test_what_is_not_begun_at_the_budget_is_left():
    """Of a worker nobody knows whether it began."""
    for databases in (True, False):
        lane = FakeLane("a", lambda key: time.sleep(0.3) or {"done": result_of(key)})
        summary = Scheduler(FakeLanes([lane]), Ledger(None), many(20), Nobody(), budget=0.5, databases=databases).run()
        measured = 2 if databases else 3
        assert (summary.ended_by, len(summary.results), summary.left) == ("budget", measured, 20 - measured)


def test_at_the_end_who_is_idle_helps():
    """One lane takes long for what it does: the other does what it was given beside that."""
    lanes = [FakeLane("slow", lambda key: time.sleep(1) or {"done": result_of(key)}),
             FakeLane("quick", lambda key: {"done": result_of(key)})]
    ledger = Ledger(None)
    summary = Scheduler(FakeLanes(lanes), ledger, many(30), Nobody()).run()
    assert (len(summary.results), summary.left, summary.lost) == (30, 0, 0)
    assert len(lanes[0].measured) == 1
    assert len(lanes[1].measured) == 29


def test_results_that_come_together_are_one_write(monkeypatch):
    """Each waits for the disk; none is lost or counted twice."""
    ledger, together = Ledger(None), []

    def slowly(rows, search):
        together.append(len(rows))
        time.sleep(0.02)
        return Ledger.record_all(ledger, rows, search)

    monkeypatch.setattr(ledger, "record_all", slowly)
    lanes = [FakeLane(name, lambda key: time.sleep(0.001) or {"done": result_of(key)}, built=lambda _: True)
             for name in "ab"]
    summary = Scheduler(FakeLanes(lanes), ledger, many(40), Nobody()).run()
    assert len(summary.results) == len({key for key, _ in summary.results}) == sum(together) == 40
    assert ledger.counts()["result"] == ledger.counts()["attempt"] == 40
    assert max(together) > 1


def test_the_ledger_says_how_long_a_measurement_took():
    """Without the time that it waited for the one before."""
    lane = FakeLane("a", lambda key: time.sleep(0.2) or {"done": result_of(key)})
    ledger = Ledger(None)
    Scheduler(FakeLanes([lane]), ledger, many(6), Nobody()).run()
    seconds = [row[0] for row in ledger._rows("SELECT seconds FROM attempt WHERE job = 'measure'")]
    assert len(seconds) == 6
    assert min(seconds) > 0.19
    assert max(seconds) < 0.36


# The command


def run(*arguments, code=0, **environment):
    done = subprocess.run([sys.executable, "-P", "-m", "miopyx", "tune", *map(str, arguments)],
                          env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


def test_names_of_files_need_not_be_utf8(tmp_path, user_folder):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    with open(name, "w") as file:
        file.write(LIST)
    done = run(name, "--device", "host", "--ledger", f"{name}.sqlite3", PYTHONIOENCODING="utf-8:strict")
    assert "3 measured" in done.stdout
    assert r"caf\udce9.sqlite3" in done.stdout


def test_clocks_of_kinds_of_one_name(listed, tmp_path, capsys, monkeypatch, user_folder):
    """Another driver makes another kind."""
    kinds = [DEVICE, Device(DEVICE.name, "another stamp")]
    lanes = [FakeLane(name, ms=ms) for name, ms in zip("abcd", (1.0, 2.0, 3.0, 4.0), strict=True)]
    for lane, kind in zip(lanes, kinds * 2, strict=True):
        lane.device = kind
        lane.behaviour = lambda key, kind=kind: {"done": result_of(key, device=kind)}
    monkeypatch.setattr(tune, "_lanes", lambda *_: FakeLanes(lanes))
    assert cli.main(["tune", str(listed), "--ledger", str(tmp_path / "ledger"), "--json"]) == 0
    clocks = json.loads(capsys.readouterr().out)["clocks"]
    assert [(one["name"], one["stamp"], list(one["ms"].values())) for one in clocks] == [
        (*kinds[0], [1.0, 3.0]), (*kinds[1], [2.0, 4.0])]


def test_a_second_run_does_nothing(listed, user_folder):
    first = json.loads(run(listed, "--device", "host", "--json").stdout)
    assert (first["problems"], first["measured"], first["known"], first["failed"]) == (3, 3, 0, [])
    assert {row["weight"] for row in first["layers"]} == {1, 2}
    assert all(row["before"] > 0 < row["after"] for row in first["layers"])
    with contextlib.closing(existing(user_folder / "tune.sqlite3")) as ledger:
        before = ledger.counts()
    second = run(listed, "--device", "host")
    assert "3 problems: 0 measured, 3 known before (--again measures them, too), 0 failed, 0 left" in second.stdout
    with contextlib.closing(existing(user_folder / "tune.sqlite3")) as ledger:
        assert ledger.counts() == before
    with Handle("host") as handle:
        problem = _key.parse_find_key(TWICE.encode())
        assert find.is_known(Survey(handle, problem), False)


def test_again(listed, user_folder, tmp_path):
    """What the databases know is measured, too, into a ledger that has never heard of it."""
    run(listed, "--device", "host")
    ledger, times = tmp_path / "new.sqlite3", tmp_path / "times.jsonl"
    known = json.loads(run(listed, "--device", "host", "--ledger", ledger, "--json").stdout)
    assert (known["measured"], known["known"]) == (0, 3)
    for _ in range(2):  # and again what the ledger has
        found = json.loads(run(listed, "--device", "host", "--ledger", ledger, "--again", "--json",
                               MIOPYX_MEASUREMENTS=times).stdout)
        assert (found["measured"], found["known"], found["left"]) == (3, 0, 0)
    with contextlib.closing(existing(ledger)) as book:
        counts = book.counts()
        assert (counts["result"], counts["attempt"]) == (3, 6)
        assert set(book.states(book.devices()[0][0], False).values()) == {("done", "")}
    assert len({json.loads(line)["key"] for line in times.read_text().splitlines()}) == 3


def test_what_no_memory_could_hold_fails_at_once(tmp_path, user_folder):
    path = tmp_path / "large.txt"
    path.write_text("conv -n 99999 -c 9999 -H 999 -W 999 -k 999 -y 3 -x 3 -F 1\n")
    began = time.monotonic()
    done = run(path, "--device", "host", "--json", code=1)
    assert time.monotonic() - began < 30
    (failed,) = json.loads(done.stdout)["failed"]
    assert "a tensor would not fit" in failed["why"]
    assert "bytes" in failed["why"]


def test_rows_are_told_apart(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("".join(f"conv -n {n} -c 8 -H 12 -W 12 -k 16 -y 3 -x 3 {more} -F 1\n" for n, more in (
        (1, "-p 1 -q 1"), (4, "-p 1 -q 1"), (4, ""), (4, "-p 1 -q 1 -I NHWC -O NHWC -f NHWC"))))
    names = [one.layer for one in sources.read([str(path)], [], sources.Options()).wanted]
    assert names == ["n1 8x12x12 -> 16 3x3 s1", "n4 8x12x12 -> 16 3x3 s1", "n4 8x12x12 -> 16 3x3 s1 p0x0",
                     "n4 8x12x12 -> 16 3x3 s1 NHWC"]


def test_on_a_device_with_programs(listed, user_folder, opencl_name):
    found = json.loads(run(listed, "--device", opencl_name, "--json").stdout)
    assert (found["measured"], found["failed"]) == (3, [])
    found = json.loads(run(listed, "--device", opencl_name, "--json").stdout)
    assert (found["measured"], found["known"]) == (0, 3)


def test_a_search(listed, user_folder, opencl_name):
    limits = {"MIOPEN_DEBUG_TUNING_ITERATIONS_MAX": "2"}
    found = json.loads(run(listed, "--device", opencl_name, "--exhaustive", "--json", **limits).stdout)
    assert (found["measured"], found["failed"]) == (3, [])
    with contextlib.closing(existing(user_folder / "tune.sqlite3")) as ledger:
        (device, _), = ledger.devices()
        assert ledger.perf_lines(device)
    found = json.loads(run(listed, "--device", opencl_name, "--exhaustive", "--json", **limits).stdout)
    assert (found["measured"], found["known"]) == (0, 3)


def test_an_interrupt_keeps_everything(tmp_path, user_folder):
    path = tmp_path / "long.txt"
    path.write_text("".join(f"conv -n 1 -c {c} -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1\n" for c in range(1, 200)))
    process = subprocess.Popen([sys.executable, "-P", "-m", "miopyx", "tune", str(path), "--device", "host"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(3):
        process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted" in out
    measured = int(out.partition(" problems: ")[2].split()[0])
    assert 3 <= measured < 199
    with contextlib.closing(existing(user_folder / "tune.sqlite3")) as ledger:
        assert ledger.counts()["result"] == measured
    files = list(user_folder.glob("*.ufdb.txt"))
    # One may have been measured and written by the child, and not have been told any more.
    assert measured <= len(files[0].read_bytes().splitlines()) <= measured + 1
    rest = json.loads(run(path, "--device", "host", "--json", "--budget", "1s").stdout)
    assert measured <= rest["known"] <= measured + 1


@pytest.mark.parametrize(("arguments", "words"), [
    ([], "what shall be tuned"), (["no such list"], "No such file"),
    (["resnet50", "--device", "nonsense"], "'nonsense'; allowed: gpu, cpu, host"),
    (["resnet50", "--device", "host", "--ledger", "/no/such/place/a"], "no such folder"),
    (["--from-log", "nowhere"], "No such file"), (["a.onnx"], "a.onnx"), (["a.pt2"], "a.pt2"),
    (["resnet50", "--budget", "soon"], "no time"), (["resnet50", "--limit", "400000h"], "longer than 10000h"),
    (["resnet50", "--batch", "0"], "no number"),
    (["resnet50", "--dtype", "int3"], "none of bfloat16"),
    (["resnet50", "--directions", "X"], "letters"), (["resnet50", "--jobs", "-1"], "no number"),
    (["resnet50", "--scheduler", "tcp://127.0.0.1:1", "--device", "host"], "beside --scheduler")])
def test_bad_input_is_code_2(arguments, words, capsys, monkeypatch, tmp_path, user_folder):
    monkeypatch.chdir(tmp_path)
    try:
        code = cli.main(["tune", *arguments])
    except SystemExit as e:
        code = e.code
    assert code == 2
    assert words in capsys.readouterr().err


def test_a_broken_ledger_of_the_command(listed, user_folder, tmp_path):
    path = tmp_path / "broken"
    path.write_bytes(os.urandom(4096))
    found = json.loads(run(listed, "--device", "host", "--ledger", path, "--json").stdout)
    assert (found["measured"], found["ledger"]) == (3, None)
    assert json.loads(run(listed, "--device", "host", "--ledger", path, "--json").stdout)["known"] == 3


def test_a_search_that_the_budget_ends(user_folder, opencl_name):
    """What was timed counts, and is done again; before and after were measured alike."""
    station = Station(opencl_name)
    result = station.run("measure", 60, key=TWICE, search=True, budget_ms=1.0)["done"]
    station.close()
    assert result["partial"]
    before, after = result["before"], result["after"]
    assert before["solver"] in result["find"], "who is first by prediction is timed first"
    if (before["solver"], before["config"]) == (after["solver"], after["config"]):
        assert before["ms"] == after["ms"]
    (row,) = show.rows([sources.Wanted(TWICE, 1.0, "list", "layer")], [(TWICE, result)])
    assert "partial" in show.table([row])[1]
    summary = work.Summary(results=[(TWICE, result)])
    assert any("1 of those measured in part" in line for line in tune._words(summary, 1, 0, None))


def test_rows_of_two_files_have_their_names():
    wanted = [sources.Wanted(TWICE, 1.0, source, "layer") for source in ("a.txt", "b.txt")]
    assert [line.split()[2] for line in show.table(show.rows(wanted, [(TWICE, result_of())]))] == [
        "source", "a.txt", "b.txt", "4"]
    assert "source" not in show.table(show.rows(wanted[:1], [(TWICE, result_of())]))[0]


def test_a_good_record_is_not_replaced_in_silence(user_folder):
    station = Station("host", CLOCK)
    results = [station.run("measure", 60, key=TWICE, search=False)["done"] for _ in range(2)]
    station.close()
    assert [one["before"]["known_ms"] for one in results] == [None, results[0]["after"]["ms"]]
    results[1]["after"]["ms"] *= 1.2
    lines = tune._words(work.Summary(results=[(TWICE, one) for one in results]), 1, 0, None)
    assert lines[1].startswith("1 slower than what was known")
    assert lines[2].startswith(TWICE)
    assert len(lines) == 3


def test_an_interrupt_elsewhere_is_a_line(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "report", interrupted)
    assert cli.main(["doctor"]) == 130
    assert capsys.readouterr().err == "miopyx: interrupted\n"


def test_sources_on_both_sides_of_an_option(listed, tmp_path, monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(tune, "_run", lambda arguments: seen.append(arguments.source) or 0)
    assert cli.main(["tune", "a.pt2", "--batch", "4", "b.onnx", "--json", "c"]) == 0
    assert seen == [["a.pt2", "b.onnx", "c"]]
    for arguments in (["tune", "a", "--budgett", "3"], ["doctor", "a"]):
        with pytest.raises(SystemExit):
            cli.main(arguments)
        assert "unrecognized arguments" in capsys.readouterr().err


def test_a_folder_that_keeps_nothing_ends_it_before(listed, user_folder, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    done = run(listed, "--device", "host", "--ledger", tmp_path / "ledger", code=2, MIOPEN_USER_DB_PATH=str(file))
    assert "nothing would be kept" in done.stderr
    assert not (tmp_path / "ledger").exists(), "nothing began"


def test_a_result_that_is_not_kept_is_said_once(user_folder, caplog):
    result = {**result_of(TWICE), "unkept": "the disk is full"}
    Scheduler(FakeLanes([FakeLane("a", lambda key: {"done": result})]), Ledger(None), many(5), Nobody()).run()
    assert [record.getMessage() for record in caplog.records] == [
        "results are not in the user's databases: the disk is full"]
    with Handle("host") as handle:
        database, problem = store.of(handle.device.info), _key.parse_find_key(TWICE.encode())
        assert not database.why_unkept()
        user_folder.joinpath(database.user_find.path.name + ".lock").unlink()
        user_folder.joinpath(database.user_find.path.name + ".lock").mkdir()
        database.store_find(problem, [FindItem("ConvHostDirectFwd", 1.0, 0, 0, 1)], False, [])
        assert "cannot be written" in database.why_unkept(problem)


def test_the_table_sums_up():
    wanted = [sources.Wanted(key, 2.0, "list", f"layer {key}") for key in many(60)]
    rows = show.rows(wanted, [(key, result_of(key, ms=1.0)) for key in many(60)])
    lines = show.table(rows)
    assert len(lines) == 1 + show._ROWS + 2
    assert lines[-1].split() == ["all", "120", "240", "120", "2.00x"]
    assert "20 more" in lines[-2]
    assert "A -> B" in lines[1]


@pytest.mark.parametrize("cache", ["another", "0"])
def test_two_that_tune_take_turns(user_folder, tmp_path, monkeypatch, cache):
    """While somebody measures on the device a measurement waits, and its limit does not count meanwhile.

    Whatever folders the two use.
    """
    with Handle("host") as handle, measure._device_lock(handle):
        monkeypatch.setenv("MIOPYX_CACHE_DIR", str(tmp_path / cache))
        monkeypatch.setenv("MIOPYX_CACHE", "0" if cache == "0" else "1")
        station = Station("host", CLOCK)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            station.run("measure", 2, key=TWICE, search=False)))
        thread.start()
        thread.join(4)
        assert thread.is_alive()
    thread.join(60)
    assert "done" in answers[0]
    station.close()


def test_a_device_has_one_lock_in_all_runtimes():
    host = devices.find("host")
    cuda = host._replace(kind="gpu", name="nv-sm90_132", cuda=1, bus="0000:3b:00")
    opencl = host._replace(kind="gpu", name="nv-sm90_132", platform_index=2, device_index=5, handle=SimpleNamespace(
        pci_bus_id_nv=0x3b, pci_slot_id_nv=0, pci_domain_id_nv=0))
    assert measure._place(cuda) == measure._place(opencl) == "pci-0000-3b-00"
    assert measure._place(cuda._replace(bus="0000:3c:00")) != measure._place(cuda)
    other = opencl._replace(handle=None, name="a b/../c_1")
    assert measure._place(other) == "a-b----c-1-2-5"
    assert measure._place(other._replace(kind="cpu")) == measure._place(host) == "cpu"


def test_a_lock_that_all_users_share(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "_lock_folder", lambda: tmp_path / "locks")
    with Handle("host") as handle:
        with measure._device_lock(handle) as why:
            assert "No such file" in why, "no lock, and no error"
        (tmp_path / "locks").mkdir()
        path = tmp_path / "locks" / "miopyx-measuring-cpu.lock"
        before = os.umask(0o077)
        try:
            with measure._device_lock(handle) as why:
                assert why == ""
        finally:
            os.umask(before)
        assert path.stat().st_mode & 0o777 == 0o666
        path.unlink()
        path.symlink_to(tmp_path / "victim")
        with measure._device_lock(handle) as why:
            assert str(path) in why
        assert not (tmp_path / "victim").exists()
        path.unlink()
        os.mkfifo(path)
        with measure._device_lock(handle) as why:
            assert "not a plain file" in why


def test_what_is_not_locked_is_said_once(user_folder, monkeypatch, caplog):
    ask = child.Child.ask

    def unlocked(self, seconds, request, payload=b""):
        why, answer = ask(self, seconds, request, payload)
        return why, b'"others may measure"' if request.get("job") == "wait" else answer

    monkeypatch.setattr(child.Child, "ask", unlocked)
    station = Station("host", CLOCK)
    for key in ONCE:
        assert "done" in station.run("measure", 60, key=key, search=False)
    station.close()
    assert caplog.text.count("others may measure") == 1


def test_a_lock_file_that_is_tidied_away(tmp_path):
    """Who waited for it then waits for the one that the others lock."""
    path = tmp_path / "lock"
    first = measure._locked(path)
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(measure._locked, path)
        time.sleep(0.3)
        path.unlink()
        second = measure._locked(path)
        os.close(first)
        time.sleep(0.3)
        assert not waiting.done()
        os.close(second)
        os.close(waiting.result(timeout=20))


def test_a_problem_of_no_solver_fails_once(user_folder, tmp_path, monkeypatch):
    """What the device cannot run is said, not tried again and again."""
    conv = ConvolutionDescriptor((0, 0))
    x, w = TensorDescriptor("float32", (1, 2, 4, 4)), TensorDescriptor("float32", (3, 2, 1, 1))
    key = _key.find_key(ConvProblem(0, x, w, TensorDescriptor("float32", (1, 3, 4, 4)), conv)).decode()
    ledger = Ledger(tmp_path / "ledger.sqlite3")
    asked = []
    monkeypatch.setenv("MIOPEN_DEBUG_FIND_ONLY_SOLVER", "ConvDirectNaiveConvFwd")
    for databases in (True, True, False):
        lane = LocalLane("host", 0, 60.0, CLOCK)
        submit = lane.submit
        monkeypatch.setattr(lane, "submit", lambda job, submit=submit, **of: asked.append(job) or submit(job, **of))
        summary = Scheduler(LocalLanes([lane]), ledger, {key: 1.0}, Nobody(), databases=databases).run()
        lane.close()
        (failed, why), = summary.failed
        assert (failed, summary.results) == (key, [])
        assert "left out by MIOPEN_DEBUG_FIND_ONLY_SOLVER" in why
    assert asked == ["look", "measure"], "in the first run alone, and once"
    ledger.close()
