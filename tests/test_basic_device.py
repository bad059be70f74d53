"""PoCL's device that runs in the calling thread, which it shows only where POCL_DEVICES names it."""

import os
import subprocess
import sys

import numpy as np
import pytest
from cases_reader import conv_cases
from problems import DIRECTIONS, Problem
from solver_checks import Example, check

import miopyx
from miopyx.database import paths
from miopyx.device import devices, icd
from miopyx.runtime import programs
from miopyx.solvers import registry
from miopyx.tools import cli

BASIC = next((info for info in devices.ranked() if "-basic_" in info.name), None)
needs_it = pytest.mark.skipif(BASIC is None, reason="PoCL offers no such device")


def usual():
    return next(info for info in devices.ranked() if info.library == BASIC.library and info.name != BASIC.name)


@needs_it
def test_it_is_a_device_of_its_own():
    other = usual()
    assert BASIC.name.rpartition("_")[0] != other.name.rpartition("_")[0]  # nor does it take the other's system files
    for ending in ("ufdb", "udb"):
        assert paths.user_file(BASIC, ending) != paths.user_file(other, ending)
    assert programs.header(BASIC, "conv/naive.cl", "") != programs.header(other, "conv/naive.cl", "")


@needs_it
def test_which_one_is_meant(capsys):
    assert devices.find("basic").name == devices.find(BASIC.name).name == BASIC.name
    assert devices.find("pocl").name == usual().name
    if usual().compute_units > 1:
        assert devices.candidates().index(usual()) < devices.candidates().index(BASIC)
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for info in (BASIC, usual()):
        assert any(info.name in line and "works" in line for line in lines)


@needs_it
@pytest.mark.some(1)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_calls_with_host_memory_and_buffers(handles, rng, direction):
    problem = Problem(handles(BASIC.name), rng)
    problem.poison(direction)
    plan = problem.plan(direction)
    plan(*problem.buffers(direction))
    problem.close(direction)
    x, w, y = (a.copy() for a in problem.host)
    plan(*((x, w, y), (y, w, x), (y, x, w))[direction])
    np.testing.assert_array_equal((y, x, w)[direction], problem.result(direction))


@needs_it
@pytest.mark.some(1)
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("case", conv_cases("smoke"), ids=lambda case: case.text.replace(" ", ","))
def test_solvers_run_on_it(handles, host, rng, case, layout):
    """The smoke cases in float32; everything runs on PoCL's usual device, which gets the same programs."""
    handle = handles(BASIC.name)
    example = Example(case, "float32", layout, rng, host)
    for direction in DIRECTIONS:
        problem = example.problem(direction)
        able = [s for s in registry.CONV if s.why_not(handle.device, problem) is None]
        assert able
        for solver in able:
            check(handle, example, direction, solver, rng)


def names_seen(**environment):
    code = "from miopyx.device import devices; print(*(info.name for info in devices.candidates()))"
    done = subprocess.run([sys.executable, "-P", "-c", code], env={**os.environ, **environment}, capture_output=True,
                          text=True, check=True)
    return done.stdout.split()


@needs_it
def test_the_users_choice_stands():
    assert not any("-basic_" in name for name in names_seen(POCL_DEVICES="pthread"))
    assert not any("-pthread_" in name for name in names_seen(POCL_DEVICES="basic"))


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a function that makes a library's file with drivers, and says whether PoCL may be asked for them."""

    def offers(library="libpocl.so.2.10.0", drivers=("basic", "pthread"), named=None):
        folder = tmp_path / f"lib{len(list(tmp_path.iterdir()))}"
        (folder / "pocl").mkdir(parents=True)
        (folder / library).touch()
        for driver in drivers:
            (folder / "pocl" / f"libpocl-devices-{driver}.so").touch()
        monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
        return [(folder / "pocl.icd", f"{folder / library if named is None else named}\n".encode())]

    return offers


def test_which_pocl_is_asked(installed):
    def answer(*args, **kwargs):
        return icd._offers_basic(installed(*args, **kwargs))

    assert answer()
    assert answer("libpocl.so.2.9.0", named="libpocl.so.2.9.0")
    assert not answer("libpocl.so.2.11.0")  # PoCL 4.0, whose drivers have other names
    assert not answer("libpocl.so")
    assert not answer(drivers=("pthread",))
    assert not answer(drivers=())
    assert not answer(drivers=("basic", "pthread", "cuda"))  # which naming two drivers would hide
    assert not answer(named="/nowhere/libpocl.so.2.10.0")
    assert not icd._offers_basic([])
    assert not icd._offers_basic([*installed(), *installed("libpocl.so.2.12.0")])


def test_the_variable_is_set_once(installed, monkeypatch):
    for before, after in ((None, "basic pthread"), ("pthread", "pthread"), ("", "")):
        monkeypatch.setattr(icd, "_runtimes", None)
        monkeypatch.setattr(icd, "_vendor_folder", lambda image: installed()[0][0])
        monkeypatch.setattr(icd, "_icd_files", lambda folder: installed())
        monkeypatch.setenv("POCL_DEVICES", before or "")
        if before is None:
            monkeypatch.delenv("POCL_DEVICES")
        icd.prepare("/nowhere/_cl.so")
        assert os.environ["POCL_DEVICES"] == after


@needs_it
def test_handles_of_both_side_by_side(handles, rng):
    one, two = Problem(handles(BASIC.name), rng), Problem(handles(usual().name), rng)
    plans = [one.plan(0), two.plan(0)]
    for problem, plan in zip((one, two, one), (*plans, plans[0]), strict=True):
        problem.poison(0)
        plan(*problem.buffers(0))
        problem.close(0)
    with pytest.raises(miopyx.errors.BadParmError, match="context"):
        plans[0](*two.buffers(0))
