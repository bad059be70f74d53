"""What a call adds to a launch, held against what pyopencl adds in the same process: ratios that noise cannot turn.

`bench/` measures the same and more, in nanoseconds.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"
ATTEMPTS = 8  # one quiet moment is enough
# The most that a call may add to the raw C calls, as a part of what setting eight typed arguments and enqueueing add in
# pyopencl: about twice what is measured.
LIMITS = {"plan": 0.4, "immediate": 0.8, "forward": 0.8}


@pytest.fixture(scope="module")
def attempts():
    """Return the minima of several attempts, made in a process that takes PoCL's `basic` device where it can."""
    command = [sys.executable, str(BENCH / "ratios.py"), "--attempts", str(ATTEMPTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYOPENCL_NO_CACHE": "1"})
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    if "skip" in result:
        pytest.skip(result["skip"])
    return result["attempts"]


def part(times, call):
    """Return what `call` adds as a part of what pyopencl adds, infinite where noise hid that."""
    pyopencl = times["pyopencl, eight typed arguments"] - times["raw, eight arguments"]
    return (times[call] - times["raw"]) / pyopencl if pyopencl > 0 else float("inf")


@pytest.mark.parametrize("call", LIMITS)
def test_adds_less_than_pyopencl(attempts, call):
    best = min(attempts, key=lambda times: part(times, call))
    assert part(best, call) < LIMITS[call], f"{call} adds {part(best, call):.2f} times what pyopencl adds: {best}"


def test_a_plan_is_launched_faster_than_by_pyopencl(attempts):
    assert any(times["plan"] < times["pyopencl, eight typed arguments"] for times in attempts), attempts


# The benches themselves: what a stored result is for.

SMALL = """
from measuring import Loop

def test_small(row):
    row("a section", "a small call", Loop("f(e)", f=len, e=()), {"a peer": Loop("f(e)", f=abs, e=1)})
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Return a function that runs a small bench in the benches' setting, and returns its exit status and output."""
    pytest.importorskip("pytest_benchmark")
    file = tmp_path_factory.mktemp("bench") / "test_small.py"
    file.write_text(SMALL)

    def run(*options):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(BENCH), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-c", str(BENCH / "pytest.ini"), "-p", "conftest",
                   "--device=host", "--rounds=9", *options, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=file.parent)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture(scope="module")
def stored(bench, tmp_path_factory):
    """Return what a run stored as its result."""
    file = tmp_path_factory.mktemp("results") / "stored.json"
    status, text = bench(f"--benchmark-json={file}")
    assert status == 0, text
    assert "a small call" in text
    assert "a peer" in text
    return json.loads(file.read_text())


@pytest.mark.parametrize(("factor", "expected"), [(0.05, 1), (20, 0)])
def test_a_comparison_fails_where_a_bench_got_slower(bench, stored, tmp_path, factor, expected):
    (entry,) = stored["benchmarks"]
    file = tmp_path / "earlier.json"
    stats = {**entry["stats"], "median": entry["stats"]["median"] * factor}
    file.write_text(json.dumps({**stored, "benchmarks": [{**entry, "stats": stats}]}))
    status, text = bench(f"--benchmark-compare={file}", "--benchmark-compare-fail=median:50%")
    assert status == expected, text
    assert ("Performance has regressed" in text) == bool(expected)


def test_a_result_of_another_machine_is_not_compared(bench, stored, tmp_path):
    file = tmp_path / "other.json"
    file.write_text(json.dumps({**stored, "machine_info": {**stored["machine_info"], "cpu": "another"}}))
    status, text = bench(f"--benchmark-compare={file}", "--benchmark-compare-fail=median:50%")
    assert status == pytest.ExitCode.USAGE_ERROR, text
    assert "not compared" in text
    assert "cpu: now" in text
    assert "a small call" not in text
