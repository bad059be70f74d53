"""Benches of bench/, as far as they go without a GPU."""

import importlib
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCH = Path(__file__).parent.parent / "bench"

REPORT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    0 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 161 registers, used 16 barriers, 196736 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 1 barriers
"""


@pytest.fixture
def bench(monkeypatch):
    pytest.importorskip("pyopencl")
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.delenv("CUDA_CACHE_DISABLE", raising=False)
    return importlib.import_module


def test_what_ptxas_reports_is_read(bench):
    assert bench("registers").kernels_of(REPORT) == {
        "first": {"registers": 161, "local_memory": 196736, "spilled": 12},
        "second": {"registers": 30, "local_memory": 0, "spilled": 0}}


@pytest.mark.usefixtures("keep_programs")
def test_entries_of_the_cache_are_those_of_the_device(bench, opencl_handle, monkeypatch):
    """A program that was just built is found with its binary; a damaged entry is not."""
    from miopyx.runtime import programs
    from miopyx.values import config

    monkeypatch.setattr(programs, "_later", {})  # what other tests left takes minutes to write
    programs.build(opencl_handle.device, "layers/activation.cl", "-D TYPE=float")
    programs.store()
    # One of a kernel that another build had.
    made = next(path for path in Path(config.cache_dir(), "programs").glob("*/*.bin")
                if b"\nfile: 'layers/activation.cl'" in path.read_bytes())
    other = made.with_name("0" * len(made.stem) + ".bin")
    other.write_bytes(made.read_bytes().replace(b"layers/activation.cl", b"layers/no_kernel_it.cl", 1))
    found = {(file, options) for file, options, _ in bench("registers").entries(opencl_handle.device.info)}
    assert ("layers/activation.cl", "-D TYPE=float") in found
    for path in Path(config.cache_dir(), "programs").glob("*/*.bin"):
        data = path.read_bytes()
        if b"\nfile: 'layers/activation.cl'" in data:
            path.write_bytes(data[:-1])
    found = {file for file, _, _ in bench("registers").entries(opencl_handle.device.info)}
    assert "layers/activation.cl" not in found


def test_find_lists_fills_a_find_db(tmp_path, bench, opencl_handle, keep_programs):
    commands = tmp_path / "list.txt"
    commands.write_text("conv -n 2 -c 8 -H 7 -W 7 -k 4 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -F 0\n"
                        "convfp16 -n 1 -c 4 -H 5 -W 5 -k 4 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -F 1\n")
    database, cache = tmp_path / "db", tmp_path / "cache"
    database.mkdir()

    def run(*options):
        done = subprocess.run(
            [sys.executable, str(BENCH / "find_lists.py"), str(commands), *options, "--device",
             opencl_handle.device.name], capture_output=True, text=True, check=False,
            env={**os.environ, "MIOPEN_USER_DB_PATH": str(database), "MIOPYX_CACHE_DIR": str(cache)})
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    built = [re.search(r"(\d+) of (\d+) programs", run("--build", "--share", share)) for share in ("1/2", "2/2")]
    assert sum(int(one[1]) for one in built) == int(built[0][2]) > 2
    kept = sorted(cache.rglob("*.bin"))
    assert len(kept) == int(built[0][2])
    for share, expected in (("1/2", "2 of 2"), ("2/2", "2 of 2"), ("1/1", "4 of 4")):
        assert f"{expected} problems" in run("--share", share)
    assert sorted(cache.rglob("*.bin")) == kept, "Find built nothing more"
    (file,) = database.glob("*.ufdb.txt")
    keys = {line.split("=")[0] for line in file.read_text().splitlines()}
    assert {key[-4:] for key in keys} == {"32-F", "32-B", "32-W", "16-F"}


def test_restamp_keeps_what_the_records_timed(tmp_path, bench, opencl_handle, capsys):
    """Records are the new build's where solvers and programs are the same, and only there."""
    restamp = bench("restamp")
    database = tmp_path / "one.fdb.txt"
    keys = [f"8-{size}-{size}-3x3-4-{size}-{size}-2-1x1-1x1-1x1-0-NCHW-FP32-F".encode() for size in (7, 9, 11)]
    name = next(s.name for s in restamp.registry.CONV if not s.last_resort and not isinstance(
        s.offer(opencl_handle.device, restamp.parse_find_key(keys[0])), str))
    item = restamp.records.FindItem(name, 0.25, 0, 0, 1)
    stamps = (restamp.paths.build(), restamp.paths.build(), "0_0_9_older")
    lines = [restamp.records.write_find(key, [item], f"{stamp}/driver/device")
             for key, stamp in zip(keys, stamps, strict=True)]
    database.write_bytes(b"".join(lines))

    def run(*arguments):
        done = subprocess.run([sys.executable, str(BENCH / "restamp.py"), *map(str, arguments)], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def programs(out, *options):
        run("programs", database, out, "--device", opencl_handle.device.name, "--processes", 1, *options)
        return json.loads(out.read_text())

    old, new = tmp_path / "old.json", tmp_path / "new.json"
    before = programs(old)
    assert set(before["records"]) == {key.decode() for key in keys}
    assert all(row[name] for row in before["records"].values())
    assert not before["binaries"]
    # Another build, whose kernels have other texts: the programs must be built to be compared.
    after = {**before, "build": "0_0_9_newer", "texts": {file: "another" for file in before["texts"]}}
    new.write_text(json.dumps(after))
    assert "another program" in run("stamp", database, old, new)
    assert database.read_bytes() == b"".join(lines)
    before = programs(old, "--beside", new)
    assert len(before["binaries"]) == len({tuple(s) for row in before["records"].values() for s in row[name]})
    assert not any(made.startswith("failed") for _, _, made in before["binaries"])
    after["binaries"] = before["binaries"]
    second = before["records"][keys[1].decode()][name]
    changed = {**after, "records": {**after["records"], keys[1].decode(): {**after["records"][keys[1].decode()],
                                                                           "Another": None}}}
    new.write_text(json.dumps(changed))
    said = run("stamp", database, old, new)
    assert second
    assert "1  stamped" in said
    assert "1  other solvers: Another" in said
    assert "1  measured by another build" in said
    there = database.read_bytes().splitlines(keepends=True)
    assert there[1:] == lines[1:]
    assert there[0] == restamp.records.write_find(keys[0], [item], "0_0_9_newer/driver/device")


def test_records_that_lack_a_faster_solver(bench):
    """By predicted times; what failed counts as known, and a record of failures alone stays."""
    restamp = bench("restamp")
    names = ("NvPairWinogradWrw", "NvPairTapsWrw", "ConvDirectNaiveConvWrw")
    ranked = [SimpleNamespace(solver=restamp.registry.BY_NAME[name], time=time)
              for name, time in zip(names, (0.1, 0.2, 0.01), strict=True)]

    def asked(known, by=1.1, failed=(), only=None):
        items = [restamp.records.FindItem(name, time, 0, 1, i) for i, (name, time) in enumerate(known.items())]
        line = restamp.records.write_find(b"key", items, "stamp", False, failed)
        return restamp.unknown_and_faster(ranked, restamp.records.split(line.rstrip(b"\n"))[1], by, only)

    winograd, taps, _ = names
    assert asked({taps: 0.2}) == winograd
    assert asked({taps: 0.2}, by=2.1) == ""
    assert asked({taps: 0.2}, only=[taps]) == ""
    assert asked({taps: 0.2}, failed=[winograd]) == ""
    assert asked({taps: 0.2, winograd: 0.3}) == ""
    assert asked({"GemmWrwUniversal": 0.15}) == winograd
    assert asked({}, failed=[taps]) == ""


def test_prune(tmp_path, bench, h200, monkeypatch):
    """What was timed with another workspace is out; a record that lacks the faster solver then, too."""
    restamp = bench("restamp")
    monkeypatch.setattr(restamp, "handle", h200, raising=False)
    monkeypatch.setattr(restamp, "start", lambda name: None)
    key = b"512-7-7-3x3-512-7-7-256-1x1-1x1-1x1-0-NCHW-FP32-W"
    problem = restamp.parse_find_key(key)
    size = {name: restamp.registry.BY_NAME[name].workspace_size(h200.device, problem)
            for name in ("NvPairWinogradWrw", "NvPairTapsWrw", "NvPairsWrw")}

    def left(times, moved=None, by=1.1):
        items = [restamp.records.FindItem(name, time, size[name] + 16 * (name == moved), 2, 3)
                 for name, time in times.items()]
        file = tmp_path / "nv-sm90_132.OpenCL.fdb.txt"
        file.write_bytes(restamp.records.write_find(key, items, "build/driver/device"))
        restamp.prune(SimpleNamespace(file=file, device=None, by=by, solver=None))
        return [item.solver for line in file.read_bytes().splitlines()
                for item in restamp.records.read_find(restamp.records.split(line)[1]).items]

    times = {"NvPairWinogradWrw": 0.3, "NvPairTapsWrw": 0.5, "NvPairsWrw": 0.7}
    assert left(times) == list(times)
    assert left(times, "NvPairsWrw") == ["NvPairWinogradWrw", "NvPairTapsWrw"]
    assert left(times, "NvPairWinogradWrw") == []
    assert left({"NvPairsWrw": 0.1}, "NvPairsWrw", by=100) == []
    assert not (tmp_path / "nv-sm90_132.OpenCL.fdb.txt").read_bytes()
    assert left(times, "NvPairWinogradWrw", by=100) == ["NvPairTapsWrw", "NvPairsWrw"]


def test_programs_are_compared_without_names_and_comments(bench):
    restamp = bench("restamp")
    ptx = (b".version 8.4\n.target sm_90\n.visible .entry f(\n.param .u64 f_param_0\n)\n{\n// why\nmov.u32 %r1, 1;\n"
           b"//@wgmma.fence;\nret;\n}\n\0")
    renamed = ptx.replace(b"f_param_0", b"g_param_0").replace(b".entry f(", b".entry g(").replace(b"// why\n", b"")
    assert restamp.plain(renamed).split() == restamp.plain(ptx).split()
    assert restamp.plain(ptx.replace(b"%r1, 1", b"%r1, 2")) != restamp.plain(ptx)
    assert restamp.plain(ptx.replace(b"//@wgmma.fence;\n", b"")) != restamp.plain(ptx)
    assert restamp.plain(b"\x7fELF") == b"\x7fELF"
    texts = {restamp.text_digest(file) for file in ("conv/naive.cl", "conv/im2col.cl", "conv/naive.cl")}
    assert len(texts) == 2


def test_runs_are_put_together(bench):
    first = {"layer": "a", "miopyx": 1.0, "torch": 2.0, "miopyx_best": 0.9, "torch_best": 1.9, "error": 1.0,
             "torch_error": 3.0}
    runs = [[{**first, "miopyx": ours, "error": error}] for ours, error in ((1.0, 1.0), (4.0, math.nan), (2.0, 0.5))]
    (row,) = bench("beside_cudnn").together(runs)
    assert row["miopyx"] == 2.0
    assert math.isnan(row["error"])
    assert row["ratios"] == [2.0, 0.5, 1.0]


def test_the_table_beside_cudnn(tmp_path, bench, capsys):
    row = {"flops": 2e9, "bytes": 4e8, "miopyx": 1e-3, "error": 1e-7, "torch_error": 2e-7, "miopyx_sync": 2e-3}
    rows = [{**row, "direction": way, "torch": factor * 1e-3, "torch_sync": factor * 1e-3}
            for way in ("forward", "data", "weights") for factor in (1.0, 4.0)]
    rows[0] |= {"workspace": 300 << 20, "torch_workspace": 400 << 20}
    (tmp_path / "small-float32-nchw.json").write_text(json.dumps({"dtype": "float32", "rows": rows}))
    # Half of the time for the operations; then a quarter for the bytes, where operations take none.
    for rate, copy, part, alone in ((4e12, 1e13, "0.50", "1.00"), (1e15, 1.6e12, "0.25", "0.25")):
        (tmp_path / "limits.json").write_text(json.dumps({"float32": rate, "copy": copy, "wgmma float16": 1.5 * rate}))
        bench("beside_cudnn").table(tmp_path, ["small-float32-nchw"])
        lines = capsys.readouterr().out.splitlines()
        assert len({line.count("|") for line in lines}) == 1
        assert lines[2] == ("| small-float32-nchw | 2 | 2.00 | 2.00 | 2.00 | 1.00 | 2.0 / 2.0 / 2.0 | "
                            f"1.0 / 1.0 / 1.0 | {part} / {part} / {part} | {alone} / {alone} / {alone} | none | "
                            "1.0e-07 / 1.0e-07 / 1.0e-07 | 2.0e-07 / 2.0e-07 / 2.0e-07 |")
        assert lines[3].startswith("| small-float32-nchw, waited for | 2 | 1.00 | 1.00 | 1.00 | 0.50 |")
    rows[1] |= {"workspace": 500 << 20, "torch_workspace": 400 << 20}
    (tmp_path / "small-float32-nchw.json").write_text(json.dumps({"dtype": "float32", "rows": rows}))
    bench("beside_cudnn").table(tmp_path, ["small-float32-nchw"])
    assert "| 500 (400) MB |" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "small", "options", "figures"), [
    ("norms", {"SIZES": [("layer", (4, 8), "float32"), ("t5", (4, 8), "float32")]}, ["--device", "host"],
     {"copy_gb_s", "forward_us", "backward_of_a_copy"}),
    ("elementwise", {"SIZES": {"tiny": (4, 8)}}, ["--device", "host", "--only", "rope,glu"], {"us", "gb_s"}),
    ("reductions", {"SIZES": [("sum", (4, 8), (1,))], "HALVES": [], "DROPOUTS": [((16,), "float32")]},
     ["--device", "host", "--rounds", "1", "--least"], {"us", "gb_s"}),
    ("attention", {"SHAPES": [(1, 1, 8, 4, False)]}, ["--device", "host", "--seconds", "0"],
     {"ms", "torch_ms", "gflops"}),
])
def test_benches_write_records(tmp_path, bench, monkeypatch, name, small, options, figures):
    if name == "attention":
        pytest.importorskip("torch")
    module = bench(name)
    for constant, value in small.items():
        monkeypatch.setattr(module, constant, value)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *options, "--json", str(tmp_path / "record")])
    module.main()
    found = json.loads((tmp_path / "record").read_text())
    assert found["device"]
    assert found["fingerprint"]["machine"]
    assert len(found["rows"]) >= 1 + (name != "elementwise")
    for row in found["rows"]:
        assert figures <= row.keys()
        assert all(row[one] > 0 for one in figures)
