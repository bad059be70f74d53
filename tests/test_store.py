"""The databases of a device: what is stored, whose record counts, and the text of records."""

import os
import random
from collections import Counter

import pytest
from problems import Problem

import miopyx
from miopyx.database import paths, records, store
from miopyx.database.records import FindItem, Kind
from miopyx.device import devices
from miopyx.problem import _key
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.tools import db

STAMP = "1_2_3_abc/driver"
ITEMS = [FindItem("GemmFwdRest", 0.25, 1024, 0, 0), FindItem("ConvDirectNaiveConvFwd", 1234.5678, 0, 0, 1)]


@pytest.fixture
def info():
    return devices.find("host")


@pytest.fixture
def databases(info, user_folder, tmp_path, setting):
    setting(MIOPEN_SYSTEM_DB_PATH=tmp_path / "system")
    store.forget()
    yield store.of(info)
    store.forget()


def a_problem(c=6, direction=0):
    with miopyx.Handle("host") as handle:
        problem = Problem(handle, random_generator(), x=(2, c, 9, 8))
    return ConvProblem(direction, problem.x, problem.w, problem.y, problem.conv)


def random_generator():
    import numpy as np

    return np.random.default_rng()


def line_of(problem, *items, stamp=STAMP, **options):
    return records.write_find(_key.find_key(problem), items, stamp, **options)


# Text


def test_a_written_line_byte_for_byte():
    line = records.write_find(b"1-2-F", ITEMS, STAMP)
    body = (b"1-2-F=@1_2_3_abc/driver;GemmFwdRest:0.25,1024,miopenConvolutionFwdAlgoGEMM;"
            b"ConvDirectNaiveConvFwd:1234.57,0,miopenConvolutionFwdAlgoDirect")
    import zlib

    assert line == body + b";#%08x\n" % zlib.crc32(body)
    assert records.classify(line[:-1]) is Kind.OURS
    assert records.plain(line) == body.replace(b"@1_2_3_abc/driver;", b"") + b"\n"
    assert records.classify(records.plain(line)[:-1]) is Kind.FOREIGN


@pytest.mark.parametrize("partial", [False, True])
def test_round_trip(partial):
    line = records.write_find(b"k-1", ITEMS, "Version 1; by=A:B", partial, failed=["X", "Y<1-2>"])
    record = records.read_find(records.split(line)[1])
    assert [(i.solver, i.workspace, i.direction, i.algorithm) for i in record.items] == [
        (i.solver, i.workspace, i.direction, i.algorithm) for i in ITEMS]
    assert [i.time for i in record.items] == pytest.approx([i.time for i in ITEMS], rel=1e-5)
    assert (record.stamp, record.partial, record.failed) == ("Version_1_by_A_B", partial, ["X", "Y<1-2>"])
    assert not record.skipped


@pytest.mark.parametrize(("text", "solver", "time", "workspace", "direction", "algorithm"), [
    ("GemmBwd1x1_stride1:0.84368,0,miopenConvolutionBwdDataAlgoGEMM", "GemmBwd1x1_stride1", 0.84368, 0, 1, 0),
    ("miopenConvolutionFwdAlgoFFT:fft,6.70813,856195072,miopenConvolutionFwdAlgoFFT,64x27x27", "fft", 6.70813,
     856195072, 0, 2),
    ("miopenConvolutionBwdWeightsAlgoWinograd:ConvWinograd3x3MultipassWrW<1-1-7-2>,1.05306e+05,1,x,<unused>",
     "ConvWinograd3x3MultipassWrW<1-1-7-2>", 105306.0, 1, 2, 3),
    ("miopenTransposeBwdDataAlgoGEMM:Old,1e-05,7,a,b", "Old", 1e-5, 7, 1, 0),
])
def test_both_forms(text, solver, time, workspace, direction, algorithm):
    (item,) = records.read_find(text.encode()).items
    assert item == FindItem(solver, time, workspace, direction, algorithm)


@pytest.mark.parametrize(("text", "reason"), [
    ("Solver", "no colon"), ("A:1,2", "number of values"), ("A:1,2,miopenConvolutionFwdAlgoGEMM,4", "number of values"),
    ("A:", "number of values"), ("miopenConvolutionFwdAlgoGEMM:A,1", "number of values"),
    ("A:1,2,miopenConvolutionBwdWeightsAlgoFFT", "unknown algorithm"), ("A:1,2,3", "unknown algorithm"),
    ("A:fast,2,miopenConvolutionFwdAlgoGEMM", "time is no number"),
    ("A:0,2,miopenConvolutionFwdAlgoGEMM", "time is not above zero"),
    ("A:-1,2,miopenConvolutionFwdAlgoGEMM", "time is not above zero"),
    ("A:nan,2,miopenConvolutionFwdAlgoGEMM", "time is not above zero"),
    ("A:inf,2,miopenConvolutionFwdAlgoGEMM", "time is not above zero"),
    ("A:1,-2,miopenConvolutionFwdAlgoGEMM", "workspace is no number of bytes"),
    ("A:1,2e3,miopenConvolutionFwdAlgoGEMM", "workspace is no number of bytes"),
    ("A:1," + "9" * 19 + ",miopenConvolutionFwdAlgoGEMM", "workspace is no number of bytes"),
    (":1,2,miopenConvolutionFwdAlgoGEMM", "no solver"),
    ("Good:2,2,miopenConvolutionFwdAlgoGEMM", "solver stands twice"),
])
def test_bad_items_are_counted_and_the_rest_is_read(text, reason):
    good = b"Good:1,0,miopenConvolutionFwdAlgoGEMM"
    record = records.read_find(good + b";" + text.encode() + b";Other:3,0,miopenConvolutionFwdAlgoDirect")
    assert [i.solver for i in record.items] == ["Good", "Other"]
    assert record.items[0].time == 1.0, "the first counts"
    assert record.skipped == Counter({reason: 1})


def test_every_single_byte_changed(seed):
    """No change of a byte passes for a record of ours, or for somebody else's with other content."""
    rng = random.Random(seed)
    line = records.write_find(b"1-2-F", ITEMS, STAMP, partial=True)[:-1]
    for i in range(len(line)):
        for value in {rng.randrange(256) for _ in range(20)} | set(b"\n;:=,#@!0f") - {line[i]}:
            if value == line[i]:
                continue
            changed = line[:i] + bytes([value]) + line[i + 1:]
            for part in changed.split(b"\n"):
                kind = records.classify(part)
                assert kind is not Kind.OURS
                assert kind is not Kind.FOREIGN or not records.split(part)[1], part


def test_every_truncation():
    line = records.write_find(b"1-2-F", ITEMS, STAMP)[:-1]
    for end in range(len(line)):
        kind = records.classify(line[:end])
        assert kind in (Kind.DAMAGED, Kind.MALFORMED) or (kind is Kind.FOREIGN and line[:end] == b"1-2-F=")


def test_perf_records():
    line = records.write_perf(b"2x3xF", {"A": "1,2", "B<1>": ""}, STAMP)
    assert records.read_perf(records.split(line)[1]) == ({"A": "1,2", "B<1>": ""}, STAMP, Counter())
    values, stamp, skipped = records.read_perf(b"A:1,2;nonsense;:3;A:4;B:x:y")
    assert (values, stamp) == ({"A": "1,2", "B": "x:y"}, "")
    assert skipped == Counter({"no colon": 1, "no solver": 1, "solver stands twice": 1})


# Whose record counts


def test_the_users_record_comes_before_the_systems(databases, info, tmp_path):
    problem, other = a_problem(6), a_problem(7)
    (tmp_path / "system").mkdir()
    path = tmp_path / "system" / f"{info.name}.Host.fdb.txt"
    path.write_bytes(records.plain(line_of(problem, ITEMS[0])) + line_of(other, ITEMS[0]))
    store.forget()
    databases = store.of(info)
    assert databases.find(problem)[1] == databases.find(other)[1] == "system"
    databases.store_find(problem, [ITEMS[1]], False, [])
    record, source = databases.find(problem)
    assert source == "user"
    assert [i.solver for i in record.items] == [ITEMS[1].solver], "records are not merged with the system's"
    assert databases.find(other)[1] == "system"
    assert databases.find(a_problem(8)) is None


def test_tuned_values_of_both_files(databases, info, tmp_path):
    problem = a_problem()
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / f"{info.name}.db.txt").write_bytes(_key.perf_key(problem) + b"=A:1;B:2\n")
    store.forget()
    databases = store.of(info)
    assert databases.tuned(problem) == {"A": "1", "B": "2"}
    databases.store_tuned(problem, "B", "3,4")
    databases.store_tuned(problem, "C", "5")
    assert databases.tuned(problem) == {"A": "1", "B": "3,4", "C": "5"}
    store.forget()
    assert store.of(info).tuned(problem) == {"A": "1", "B": "3,4", "C": "5"}, "another process"
    store.of(info).drop_tuned(problem)
    assert store.of(info).tuned(problem) == {"A": "1", "B": "2"}
    assert store.of(info).tuned(a_problem(9)) == {}


def test_stored_records_are_merged_within_a_build(databases, info):
    problem = a_problem()
    databases.store_find(problem, ITEMS, partial=False, failed=["Broken", "GemmFwdRest"])
    databases.store_find(problem, [FindItem("GemmFwdRest", 9.0, 1024, 0, 0)], partial=True, failed=["Worse"])
    record, _ = databases.find(problem)
    assert {(i.solver, i.time) for i in record.items} == {("GemmFwdRest", 9.0), ("ConvDirectNaiveConvFwd", 1234.57)}
    assert [i.time for i in record.items] == sorted(i.time for i in record.items)
    assert not record.partial, "it was whole and no less is known now"
    assert record.failed == ["Broken", "Worse"]
    assert record.stamp == databases.stamp


def test_another_builds_record_is_replaced(databases):
    problem = a_problem()
    databases.user_find.update(_key.find_key(problem), lambda old: line_of(problem, ITEMS[0]))
    assert databases.find(problem)[0].stamp == STAMP
    databases.store_find(problem, [ITEMS[1]], partial=True, failed=[])
    record, _ = databases.find(problem)
    assert [i.solver for i in record.items] == [ITEMS[1].solver]
    assert record.partial


def test_the_driver_is_in_the_stamp(databases, info):
    other = store.Databases(info._replace(driver_version="2 (rev; 1)"))
    assert other.stamp != databases.stamp
    assert other.stamp.endswith(f"/2_rev_1_/{info.name}")


def test_disabled(databases, setting):
    problem = a_problem()
    databases.store_find(problem, ITEMS, False, [])
    setting(MIOPEN_DEBUG_DISABLE_FIND_DB="1")
    assert databases.find(problem) is None
    databases.store_find(problem, [ITEMS[0]], False, [])
    setting(MIOPEN_DEBUG_DISABLE_FIND_DB="0")
    assert len(databases.find(problem)[0].items) == 2


def test_a_child_of_a_fork_reads_and_writes(databases, info):
    problem, other = a_problem(6), a_problem(7)
    databases.store_find(problem, ITEMS, False, [])
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            known = store.of(info).find(problem)
            store.of(info).store_find(other, ITEMS, False, [])
            code = 0 if known is not None else 2
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert databases.find(other) is not None, "what another process wrote is noticed"


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"=" * 100, b"a=" + b"b" * 100000, b"\xff\xfe\n\n;;;=;;;\n"])
def test_nonsense_in_the_files(info, user_folder, tmp_path, setting, content):
    setting(MIOPEN_SYSTEM_DB_PATH=tmp_path / "system")
    store.forget()
    databases = store.of(info)
    for path in (databases.user_find.path, databases.user_perf.path, tmp_path / "system" / f"{info.name}.Host.fdb.txt",
                 tmp_path / "system" / f"{info.name}.db.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    store.forget()
    databases = store.of(info)
    problem = a_problem()
    assert databases.find(problem) is None
    assert databases.tuned(problem) == {}
    databases.store_find(problem, ITEMS, False, [])
    assert len(databases.find(problem)[0].items) == 2
    store.forget()
    assert len(store.of(info).find(problem)[0].items) == 2


# What ships


@pytest.mark.parametrize("path", sorted((paths.PACKAGE / "db").glob("*db.txt*")), ids=lambda path: path.name)
def test_shipped_records(path):
    """Every line is sealed, names a problem and solvers that are ours; the devices it is for take it."""
    lines, left = db.winners([path])
    assert lines
    assert not left
    for key, line in lines.items():
        assert records.classify(line) is Kind.OURS
        problem = _key.parse_find_key(key)
        record = records.read_find(records.split(line)[1])
        assert not record.skipped
        assert not record.partial
        for item in record.items:
            solver = registry.BY_NAME[item.solver]
            assert (item.direction, item.algorithm) == (problem.direction, solver.algorithm)
    name, middle = path.name.split(".")[:2]
    found = devices.find("host")._replace(name=name, kind="host" if middle == "Host" else "gpu", driver_version="0")
    databases = store.Databases(found)
    key = next(iter(lines))
    assert databases.find(_key.parse_find_key(key))[1] == "system"
