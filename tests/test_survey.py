"""What can run a problem: the walk over the registry against each solver's own answer, and what is switched off."""

import os
import subprocess
import sys
from collections import Counter

import pytest
from problems import applicable, refusals
from random_layers import random_layer

from miopyx import ConvolutionDescriptor, Solver, TensorDescriptor
from miopyx.choose import switches
from miopyx.errors import BadParmError, InvalidValueError
from miopyx.problem._bias import BiasProblem
from miopyx.solvers import registry
from miopyx.values import config

PROBLEMS = 2000
SWITCHES = [name for name in config.VARIABLES if name.startswith((
    "MIOPEN_DEBUG_CONV_DIRECT", "MIOPEN_DEBUG_CONV_GEMM", "MIOPEN_DEBUG_CONV_IMPLICIT", "MIOPEN_DEBUG_OPENCL",
    "MIOPEN_DEBUG_GCN"))]


def pairs(handle, problem):
    """Both answers of the survey, as one."""
    able, refused = applicable(handle, problem), refusals(handle, problem)
    assert len(able) + len(refused) == len(registry.CONV)
    both = {**dict.fromkeys(able), **{r.solver: r.why for r in refused}}
    for part in (able, [r.solver for r in refused]):
        assert part == [s for s in registry.CONV if s in part], "not in registry order"
    return both


def test_the_survey_is_what_each_solver_says(handle, rng):
    seen = Counter()
    for _ in range(PROBLEMS):
        problem = random_layer(rng)
        assert pairs(handle, problem) == {s: s.why_not(handle.device, problem) for s in registry.CONV}
        seen.update(s.name for s in applicable(handle, problem))
    # Those of this kind of device and of no particular hardware have all had their turn.
    elsewhere = ("Amd", "Nv", *(("Cpu", "Signal") if handle.device.is_gpu else ("Gpu", "Depthwise", "Signal")))
    expected = {s.name for s in registry.CONV if s.on_host == handle.device.is_host
                and not s.name.startswith(elsewhere)}
    assert expected <= set(seen)


def test_switches_are_read_again_once_they_are_forgotten(handle, rng, setting):
    assert len(SWITCHES) > 6
    for _ in range(30):
        off = {name: str(int(rng.integers(2))) for name in SWITCHES}
        setting(**off)
        covered = switches.off()
        for _ in range(10):
            problem = random_layer(rng)
            assert pairs(handle, problem) == {
                s: s.why_not(handle.device, problem) or covered.get(s) for s in registry.CONV}
        assert all(switches.why_off(s) == covered.get(s) for s in registry.CONV)
    setting(**dict.fromkeys(SWITCHES, "0"))
    assert applicable(handle, problem) == []
    setting(**dict.fromkeys(SWITCHES, "1"))
    assert applicable(handle, problem)


def test_values_count_for_the_life_of_the_process(handle, rng, setting, monkeypatch):
    problem = random_layer(rng)
    before = pairs(handle, problem)
    for name in SWITCHES:
        monkeypatch.setenv(name, "0")
    assert pairs(handle, problem) == before
    config.forget()
    assert None not in pairs(handle, problem).values()


def test_a_switch_that_does_not_parse(handle, rng, setting):
    setting(MIOPEN_DEBUG_CONV_GEMM="maybe")
    for ask in (applicable, refusals):
        with pytest.raises(InvalidValueError, match="MIOPEN_DEBUG_CONV_GEMM"):
            ask(handle, random_layer(rng))


class Picky(Solver):
    """A solver written in Python."""

    answer = None

    def why_not(self, dev, problem):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_solver_written_in_python_takes_part(handle, rng, monkeypatch):
    mine, problem = Picky(), random_layer(rng)
    before = applicable(handle, problem)
    monkeypatch.setattr(registry, "CONV", (*registry.CONV, mine))
    assert applicable(handle, problem) == [*before, mine]
    mine.answer = "not today"
    assert applicable(handle, problem) == before
    assert [r.why for r in refusals(handle, problem) if r.solver is mine] == ["not today"]
    mine.answer = ZeroDivisionError("mine")
    for ask in (applicable, refusals):
        with pytest.raises(ZeroDivisionError, match="mine"):
            ask(handle, problem)


def test_nothing_but_solvers_is_asked(handle, rng, monkeypatch):
    assert set(switches.off().values()) == {"switched off by MIOPYX_AMD_MATRIX_CORES"}
    monkeypatch.setattr(registry, "CONV", (*registry.CONV, object()))
    for ask in (applicable, refusals):
        with pytest.raises(TypeError):
            ask(handle, random_layer(rng))


def test_what_is_no_problem_of_a_solver(handle, rng):
    """Solvers are within reach (`plan.solver`): a wrong argument is an error there, too."""
    b, problem = TensorDescriptor("float32", (1, 4, 1, 1)), random_layer(rng)
    bias = BiasProblem(b, TensorDescriptor("float32", (2, 4, 5, 5)))
    for solver in registry.CONV:
        for ask in (solver.offer, solver.why_not, solver.workspace_size, solver.wti, solver.parameters,
                    solver.default_config, solver.solution):
            for dev, asked in ((handle.device, bias), (handle.device, None), (None, problem), (None, None)):
                with pytest.raises(BadParmError):
                    ask(dev, asked)
    for wrong in (None, bias, ConvolutionDescriptor(), 5):
        for ask in (applicable, refusals):
            with pytest.raises(TypeError):
                ask(handle, wrong)
            with pytest.raises(TypeError):
                ask(wrong, problem)


def test_bad_switches_of_a_new_process():
    """The first survey of a process, with a switch set from the start."""
    code = ("import miopyx\nfrom miopyx import ConvolutionDescriptor as C, TensorDescriptor as T\n"
            "from miopyx.choose._survey import Survey\nfrom miopyx.problem._problem import ConvProblem\n"
            "d = T('float32', (1, 1, 4, 4)); w = T('float32', (1, 1, 1, 1))\n"
            "h = miopyx.Handle('host')\np = ConvProblem(0, d, w, d, C())\n"
            "s = Survey(h, p)\nprint(len(s.applicable()), {r.why for r in s.refusals() if r.solver.on_host "
            "and r.solver.direction == 0})")
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "MIOPEN_DEBUG_CONV_IMPLICIT_GEMM": "0"})
    assert done.stdout == "0 {'switched off by MIOPEN_DEBUG_CONV_IMPLICIT_GEMM'}\n"
