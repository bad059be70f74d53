"""What each find mode does where a problem is known and where it is not, counted in programs built and runs timed."""

import json

import numpy as np
import pytest
from problems import Problem, applicable, timed_solvers

import miopyx
from miopyx._core import Solver
from miopyx.choose import _costs, _model, _ranking, find, preparing, switches
from miopyx.choose._survey import Survey
from miopyx.database import records, store
from miopyx.errors import (
    AllocFailedError,
    BadParmError,
    GpuOperationsSkippedError,
    InvalidValueError,
    MIOpenNotImplementedError,
)
from miopyx.runtime import programs
from miopyx.solvers import registry

MODES = {"NORMAL": 1, "FAST": 2, "HYBRID": 3, "DYNAMIC_HYBRID": 5}


class Counts:
    """How many programs were built from source or binary, and how many runs were timed, since the last `take`."""

    def __init__(self):
        self.builds = self.runs = 0

    def take(self):
        taken = self.builds, self.runs
        self.builds = self.runs = 0
        return taken


@pytest.fixture
def counts(monkeypatch):
    counted = Counts()
    build, search = programs.build, find.find

    def build_counted(*args, **options):
        counted.builds += 1
        return build(*args, **options)

    def find_counted(handle, problem, run, *rest):
        def run_counted(invoker):
            counted.runs += 1
            return run(invoker)

        return search(handle, problem, run_counted, *rest)

    monkeypatch.setattr(programs, "build", build_counted)
    monkeypatch.setattr(find, "find", find_counted)
    return counted


pytestmark = pytest.mark.pairwise


def struct_of(problem, direction=0):
    return problem.struct(direction)


@pytest.fixture
def again(device_name, user_folder, any_costs):
    """Return a function that makes a fresh handle, as another process would have one."""
    made = []

    def fresh():
        store.forget()
        made.append(miopyx.Handle(device_name))
        return made[-1]

    yield fresh
    for handle in made:
        handle.destroy()


@pytest.mark.each
@pytest.mark.parametrize("direction", [0, 1, 2])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("by", ["environment", "descriptor"])
def test_hit(again, counts, rng, setting, mode, by, direction):
    first = Problem(again(), rng)
    setting(MIOPEN_FIND_MODE="NORMAL")
    everything = first.find(direction)
    measured = find.known(Survey(first.handle, struct_of(first, direction))).candidates
    assert counts.take()[1] > 0

    problem = Problem(again(), rng)
    if by == "environment":
        setting(MIOPEN_FIND_MODE=mode.lower())
    else:
        setting(MIOPEN_FIND_MODE="HYBRID" if mode == "NORMAL" else "NORMAL")
        miopyx.miopenSetConvolutionFindMode(problem.conv, MODES[mode])
    size = max(c.workspace for c in measured)
    results = problem.find(direction, size)
    builds, runs = counts.take()
    assert runs == 0
    if mode == "NORMAL":
        assert [r.algo for r in results] == [r.algo for r in everything]
    else:
        (result,) = results
        assert result.time == pytest.approx(measured[0].time, rel=1e-5)
        assert result.memory == measured[0].workspace
        steps = measured[0].solver.solution(problem.handle.device, struct_of(problem, direction)).steps
        assert builds <= len({(s.spec.file, s.spec.options) for s in steps if s.spec is not None})
    problem.poison(direction)
    problem.run(direction, results[0].algo, results[0].memory)
    problem.close(direction)
    problem.find(direction, size)
    assert counts.take() == (0, 0), "the same call again"


@pytest.mark.parametrize("mode", MODES)
def test_miss(again, counts, rng, setting, mode):
    handle = again()
    problem = Problem(handle, rng)
    setting(MIOPEN_FIND_MODE=mode)
    expected = _ranking.rank(Survey(handle, struct_of(problem)))[0]
    results = problem.find(0, size=1 << 24)
    builds, runs = counts.take()
    stored = store.of(handle.device.info).find(struct_of(problem))
    if mode == "FAST":
        assert runs == 0
        assert stored is None, "what was not measured is not stored"
        (result,) = results
        assert (result.algo, result.memory) == (expected.solver.algorithm, expected.workspace)
        assert result.time == pytest.approx(expected.time)
    else:
        solvers = timed_solvers(handle, struct_of(problem))
        specs = {(step.spec.file, step.spec.options) for s in solvers
                 for step in s.solution(handle.device, struct_of(problem)).steps if step.spec is not None}
        assert builds <= len(specs)
        assert all(handle.has_program(step.spec) for s in solvers
                   for step in s.solution(handle.device, struct_of(problem)).steps if step.spec is not None)
        assert runs >= 2 * len(solvers), "each is run once for warming up and timed once"
        assert runs <= (1 + find.RUNS) * len(solvers) + find.FINALISTS * find.RUNS
        record, source = stored
        assert source == "user"
        assert {item.solver for item in record.items} == {s.name for s in solvers}
        assert not record.partial
        assert record.stamp == store.of(handle.device.info).stamp
    problem.poison(0)
    problem.run(0, results[0].algo, results[0].memory)
    problem.close(0)


def test_dynamic_hybrid_times_dynamic_solvers_only(again, counts, rng, setting, monkeypatch):
    class Static(Solver):
        """A solver that would have to be compiled for each shape."""

        id, name = 999_999, "Static"

        def why_not(self, *_):
            return None

    handle = again()
    problem = Problem(handle, rng)
    monkeypatch.setattr(registry, "CONV", (Static(), *registry.CONV))
    record = find.find(handle, struct_of(problem), lambda _: 1.0, 1 << 24, find.DYNAMIC_HYBRID)
    assert "Static" not in {c.solver.name for c in record.candidates}
    assert any(r.solver.name == "Static" and "not dynamic" in r.why for r in record.skipped)
    assert store.of(handle.device.info).find(struct_of(problem))[0].partial


def write_record(handle, problem, stamp, solvers=None, partial=False, direction=0):
    """Put a record that looks as if it were measured into the user's database."""
    databases = store.of(handle.device.info)
    p = struct_of(problem, direction)
    items = [records.FindItem(s.name, 1.0 + i, s.workspace_size(handle.device, p), p.direction, s.algorithm)
             for i, s in enumerate(solvers if solvers is not None else timed_solvers(handle, p))]
    key = store._key.find_key(p)
    line = records.write_find(key, items, stamp, partial) if stamp else (
        records.plain(records.write_find(key, items, "x")))
    with open(databases.user_find.path, "ab") as file:
        file.write(line)


@pytest.mark.each
@pytest.mark.parametrize("flaw", ["none", "stamp", "foreign", "partial", "solver missing"])
def test_normal_trusts_whole_records_of_this_version_only(again, counts, rng, setting, flaw):
    handle = again()
    problem = Problem(handle, rng)
    setting(MIOPEN_FIND_MODE="NORMAL")
    problem.find(0, 1 << 24)  # makes the folder
    databases = store.of(handle.device.info)
    databases.user_find.path.unlink()
    solvers = timed_solvers(handle, struct_of(problem))
    stamp = {"stamp": "0_0_1_other/driver", "foreign": ""}.get(flaw, databases.stamp)
    if flaw == "solver missing" and len(solvers) == 1:
        pytest.skip("one solver only")
    write_record(handle, problem, stamp, solvers[1:] if flaw == "solver missing" else solvers, flaw == "partial")
    problem = Problem(again(), rng)
    counts.take()
    problem.find(0, 1 << 24)
    assert (counts.take()[1] == 0) == (flaw == "none")
    # The other modes take any record.
    setting(MIOPEN_FIND_MODE="HYBRID")
    if flaw != "none":
        databases.user_find.path.unlink()
        write_record(handle, problem, stamp, solvers[1:] if flaw == "solver missing" else solvers, flaw == "partial")
    problem = Problem(again(), rng)
    counts.take()
    (result,) = problem.find(0, 1 << 24)
    assert counts.take()[1] == 0
    assert result.time == 1.0


def test_a_record_is_a_hint(again, counts, rng, setting):
    """Unknown solvers, those that do not apply and those that are switched off do not count."""
    handle = again()
    problem = Problem(handle, rng)
    problem.find(0, 1 << 24)
    path = store.of(handle.device.info).user_find.path
    key = store._key.find_key(struct_of(problem))
    algo = b"miopenConvolutionFwdAlgoGEMM"
    path.write_bytes(key + b"=Removed:0.1,0," + algo + b";GemmBwdRest:0.2,0," + algo + b";GemmFwd1x1_0_1:0.3,0," + algo
                     + b"\n")
    fresh = again()
    assert _ranking.known(Survey(fresh, struct_of(problem))) is None
    counts.take()
    assert Problem(fresh, rng).find(0, 1 << 24)
    assert counts.take()[1] > 0


@pytest.mark.parametrize("mode", ["HYBRID", "DYNAMIC_HYBRID"])
def test_forced_fallback(again, counts, rng, setting, mode):
    setting(MIOPEN_FIND_MODE=mode, MIOPEN_DEBUG_FORCE_IMMED_MODE_FALLBACK="1")
    problem = Problem(again(), rng)
    expected = _ranking.rank(Survey(problem.handle, struct_of(problem)))[0]
    assert problem.call("GetWorkSpaceSize", 0) == expected.workspace
    (result,) = problem.find(0)
    assert counts.take()[1] == 0
    assert result.algo == expected.solver.algorithm
    setting(MIOPEN_DEBUG_FORCE_IMMED_MODE_FALLBACK="0")
    problem.find(0, 1 << 24)
    assert counts.take()[1] > 0
    setting(MIOPEN_DEBUG_FORCE_IMMED_MODE_FALLBACK="1")
    best = _ranking.known(Survey(problem.handle, struct_of(problem))).candidates[0]
    (result,) = problem.find(0, 1 << 24)
    assert (result.algo, result.time) == (best.solver.algorithm, best.time), "a hit is taken all the same"


def test_workspace_query(again, rng, setting):
    problem = Problem(again(), rng)
    p = struct_of(problem)
    most = max(s.workspace_size(problem.handle.device, p) for s in applicable(problem.handle, p))
    guess = _ranking.rank(Survey(problem.handle, p))[0].workspace
    for mode, expected in (("NORMAL", most), ("FAST", guess), ("HYBRID", most), ("DYNAMIC_HYBRID", most)):
        setting(MIOPEN_FIND_MODE=mode)
        assert problem.call("GetWorkSpaceSize", 0) == expected
    problem.find(0, most)
    best = _ranking.known(Survey(problem.handle, p)).candidates[0].workspace
    for mode, expected in (("NORMAL", most), ("FAST", best), ("HYBRID", best), ("DYNAMIC_HYBRID", best)):
        setting(MIOPEN_FIND_MODE=mode)
        assert problem.call("GetWorkSpaceSize", 0) == expected
    setting(MIOPEN_FIND_MODE="FAST", MIOPEN_FIND_ENFORCE="DB_UPDATE")
    assert problem.call("GetWorkSpaceSize", 0) == most, "enforcing makes the mode NORMAL"


def test_find_db_disabled(again, counts, rng, setting):
    setting(MIOPEN_DEBUG_DISABLE_FIND_DB="1")
    handle = again()
    problem = Problem(handle, rng)
    for _ in range(2):
        problem.find(0, 1 << 24)
        assert counts.take()[1] > 0, "every Find times"
    assert not store.of(handle.device.info).user_find.path.exists()
    setting(MIOPEN_DEBUG_DISABLE_FIND_DB="0")
    assert store.of(handle.device.info).find(struct_of(problem)) is None


def test_a_find_short_of_workspace(again, counts, rng, setting):
    """Kept in the handle, and in the database only if it may be."""
    setting(MIOPEN_FIND_MODE="NORMAL")
    handle = again()
    problem = Problem(handle, rng)
    if not any(s.workspace_size(handle.device, struct_of(problem)) for s in timed_solvers(handle, struct_of(problem))):
        pytest.skip("no solver needs workspace here")
    databases = store.of(handle.device.info)
    problem.find(0, size=0)
    assert databases.find(struct_of(problem)) is None
    counts.take()
    problem.find(0, size=0)
    assert counts.take()[1] == 0, "everything that fits is known"
    for mode in ("HYBRID", "DYNAMIC_HYBRID"):
        setting(MIOPEN_FIND_MODE=mode)
        assert problem.call("GetWorkSpaceSize", 0) > 0
    setting(MIOPEN_FIND_MODE="NORMAL")
    problem.find(0, size=1 << 24)
    assert counts.take()[1] > 0, "more fits now"
    assert not databases.find(struct_of(problem))[0].partial
    databases.user_find.path.unlink()
    setting(MIOPEN_FIND_CONV_INSUFFICIENT_WORKSPACE_ALLOW_FINDDB_UPDATE="1")
    problem = Problem(again(), rng)
    problem.find(0, size=0)
    assert store.of(handle.device.info).find(struct_of(problem))[0].partial


def test_budget(again, counts, rng, setting):
    handle = again()
    problem = Problem(handle, rng)
    function = miopyx.miopenFindConvolutionForwardAlgorithm
    size = problem.call("GetWorkSpaceSize", 0)
    results = function(handle, *problem.pairs(0), 5, problem.workspace(size), size, False, budget_ms=1e-3)
    assert len(results) == 1
    found = handle.found[struct_of(problem).key]
    assert len(found.candidates) == 1
    rest = {s.name for s in timed_solvers(handle, struct_of(problem))} - {found.candidates[0].solver.name}
    assert {r.solver.name for r in found.skipped if "budget" in r.why} == rest
    if rest:
        assert store.of(handle.device.info).find(struct_of(problem))[0].partial
        counts.take()
        problem = Problem(again(), rng)
        problem.find(0, size)
        assert counts.take()[1] > 0, "solvers that were not timed get their turn"
        assert not store.of(handle.device.info).find(struct_of(problem))[0].partial
    for bad in (0, -1.0, "soon", float("nan")):
        with pytest.raises(BadParmError, match="budget_ms"):
            function(handle, *problem.pairs(0), 5, None, 0, False, budget_ms=bad)


def test_bad_settings_of_a_search_are_the_callers(again, rng, setting):
    """They are said, and no solver is blamed for them."""
    problem = Problem(again(), rng)
    for name, text in (("MIOPEN_TUNING_PATIENCE", "abc"), ("MIOPEN_TUNING_TIME_MS_MAX", "-1"),
                       ("MIOPEN_DEBUG_TUNING_ITERATIONS_MAX", "many"), ("MIOPEN_COMPILE_PARALLEL_LEVEL", "-2")):
        setting(**{name: text})
        with pytest.raises(InvalidValueError, match=name):
            problem.find(0, 1 << 24)
        setting(**{name: "1"})
    assert problem.handle.found == {}


def test_a_passing_failure_is_not_for_good(again, rng, monkeypatch):
    """Memory that ran out while a solver was timed says nothing about the next time."""
    handle = again()
    problem = Problem(handle, rng)
    time = find._time
    unlucky = timed_solvers(handle, struct_of(problem))[0].name

    def short_of_memory(run, prepared, best):
        if prepared.solver.name == unlucky:
            raise AllocFailedError("no memory")
        return time(run, prepared, best)

    with monkeypatch.context() as patch:
        patch.setattr(find, "_time", short_of_memory)
        if handle.device.is_host:  # there is no other
            with pytest.raises(miopyx.UnknownError, match="no memory"):
                problem.find(0, 1 << 24)
        else:
            problem.find(0, 1 << 24)
            record = store.of(handle.device.info).find(struct_of(problem))[0]
            assert record.failed == []
            assert unlucky not in {item.solver for item in record.items}
    found = find.find(again(), struct_of(problem), lambda _: 1.0, 1 << 24, find.NORMAL)
    assert unlucky in {c.solver.name for c in found.candidates}


def test_fallback_switched_off(again, counts, rng, setting):
    setting(MIOPEN_DEBUG_CONV_IMMED_FALLBACK="0", MIOPEN_FIND_MODE="FAST")
    problem = Problem(again(), rng)
    with pytest.raises(miopyx.UnknownError):
        problem.find(0, 1 << 24)
    assert counts.take()[1] == 0


def test_compile_only(again, counts, rng, setting):
    setting(MIOPEN_DEBUG_COMPILE_ONLY="1")
    problem = Problem(again(), rng)
    with pytest.raises(GpuOperationsSkippedError):
        problem.find(0, 1 << 24)
    assert counts.take()[1] == 0
    assert problem.handle.found == {}
    setting(MIOPEN_DEBUG_COMPILE_ONLY="0")
    counts.take()
    problem.find(0, 1 << 24)
    builds, runs = counts.take()
    assert builds == 0, "everything was compiled"
    assert runs > 0


def test_only_solver_of_plans(again, rng, setting):
    """What is left to Find is left to plans; who asks for a solver by its id gets it."""
    handle = again()
    problem = Problem(handle, rng)
    able = applicable(handle, struct_of(problem))
    made = problem.x, problem.w, problem.conv, problem.y
    for chosen in (able[0], able[-1]):
        setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER=chosen.name)
        plan = handle.convolution_forward(*made)
        assert plan.solver is chosen
        assert len(able) == 1 or "MIOPEN_DEBUG_FIND_ONLY_SOLVER" in plan.explain()
        fused = handle.convolution_bias_activation_forward(problem.x, problem.w, problem.conv, None, None,
                                                           miopyx.ActivationDescriptor(), problem.y)
        assert fused.solver is chosen
        assert handle.convolution_forward(*made, solution_id=able[0].id).solver is able[0]
    setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER=next(s for s in registry.CONV if s not in able).id)
    handle.build_ahead([("forward", *made)])
    if handle.device.is_host:  # the reference for others stays
        assert handle.convolution_forward(*made).solver in able
        assert able[0].name in handle.convolution_forward(*made).explain()
    else:
        with pytest.raises(MIOpenNotImplementedError, match="MIOPEN_DEBUG_FIND_ONLY_SOLVER"):
            handle.convolution_forward(*made)
    setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER="NoSuchSolver")
    with pytest.raises(BadParmError, match="MIOPEN_DEBUG_FIND_ONLY_SOLVER"):
        handle.convolution_forward(*made)


def test_only_solver(again, counts, rng, setting):
    handle = again()
    problem = Problem(handle, rng)
    able = applicable(handle, struct_of(problem))
    chosen = able[-1]
    for text in (str(chosen.id), chosen.name, f" {chosen.name} ; 101 "):
        setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER=text, MIOPEN_FIND_MODE="NORMAL")
        results = problem.find(0, 1 << 24)
        assert [r.algo for r in results] == [chosen.algorithm]
        assert [c.solver for c in handle.found[struct_of(problem).key].candidates] == [chosen]
    for text in ("NoSuchSolver", "4711", "-1"):
        setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER=text)
        with pytest.raises(BadParmError, match="MIOPEN_DEBUG_FIND_ONLY_SOLVER"):
            problem.find(0, 1 << 24)
    assert problem.call("GetSolutionCount", 0) == len(able), "immediate mode is not concerned"
    assert store.of(handle.device.info).find(struct_of(problem)) is None, "what was tried out decides nothing"


SWITCHES = {
    "MIOPEN_DEBUG_CONV_GEMM": lambda s: s.algorithm == 0,
    "MIOPEN_DEBUG_CONV_DIRECT": lambda s: s.algorithm == 1,
    "MIOPEN_DEBUG_CONV_FFT": lambda s: s.algorithm == 2 or s.name == "FFTConvWrw",  # that is DIRECT to MIOpen
    "MIOPEN_DEBUG_CONV_WINOGRAD": lambda s: s.algorithm == 3,
    "MIOPEN_DEBUG_CONV_IMPLICIT_GEMM": lambda s: s.algorithm == 5,
    "MIOPEN_DEBUG_CONV_DIRECT_NAIVE_CONV_FWD": lambda s: s.id == 85,
    "MIOPEN_DEBUG_CONV_DIRECT_NAIVE_CONV_BWD": lambda s: s.id == 86,
    "MIOPEN_DEBUG_CONV_DIRECT_NAIVE_CONV_WRW": lambda s: s.id == 87,
    "MIOPEN_DEBUG_OPENCL_CONVOLUTIONS": lambda s: not s.on_host,
    "MIOPEN_DEBUG_GCN_ASM_KERNELS": lambda s: s.name.startswith("Nv"),
    "MIOPEN_DEBUG_AMD_ROCM_PRECOMPILED_BINARIES": lambda s: s.algorithm == 3,
}


@pytest.mark.parametrize("name", SWITCHES)
def test_switches_cover(setting, name):
    setting(MIOPYX_AMD_MATRIX_CORES="1")  # what is off by default
    assert all(switches.why_off(s) is None for s in registry.CONV)
    setting(**{name: "0"})
    assert {s.id for s in registry.CONV if switches.why_off(s)} == {s.id for s in registry.CONV if SWITCHES[name](s)}
    assert all(name in switches.why_off(s) for s in registry.CONV if SWITCHES[name](s))
    setting(**{name: "1"})
    assert all(switches.why_off(s) is None for s in registry.CONV)


@pytest.mark.parametrize("direction", [0, 1, 2])
def test_switched_off_everywhere(again, counts, rng, setting, direction):
    """An algorithm that is off is in no list, no workspace and no Find, known or not."""
    handle = again()
    problem = Problem(handle, rng)
    problem.find(direction, 1 << 24)
    best = _ranking.known(Survey(handle, struct_of(problem, direction))).candidates[0]
    name = {0: "GEMM", 1: "DIRECT", 2: "FFT", 3: "WINOGRAD", 5: "IMPLICIT_GEMM"}[best.solver.algorithm]
    setting(**{f"MIOPEN_DEBUG_CONV_{name}": "0"})
    for where in (handle, again()):
        problem = Problem(where, rng)
        left = [s for s in applicable(where, struct_of(problem, direction))]
        assert not any(s.algorithm == best.solver.algorithm for s in left)
        if not left:
            with pytest.raises(MIOpenNotImplementedError, match=name):
                problem.call("GetSolutionCount", direction)
            with pytest.raises(miopyx.UnknownError, match=name):
                problem.find(direction, 1 << 24)
            continue
        solutions = problem.call("GetSolution", direction, 20)
        assert solutions
        assert not any(s.algorithm == best.solver.algorithm for s in solutions)
        assert not any(r.algo == best.solver.algorithm for r in problem.find(direction, 1 << 24))
        assert problem.call("GetWorkSpaceSize", direction) in {
            s.workspace_size(where.device, struct_of(problem, direction)) for s in left}


def test_immediate_mode_from_the_database(again, counts, rng, setting):
    """A find in one process, immediate mode in the next: the record is used; nothing is timed, one solver is built."""
    problem = Problem(again(), rng)
    problem.find(0, 1 << 24)
    measured = _ranking.known(Survey(problem.handle, struct_of(problem))).candidates
    counts.take()
    problem = Problem(again(), rng)
    solutions = problem.call("GetSolution", 0, 20)
    assert counts.take() == (0, 0)
    assert [s.solution_id for s in solutions[:len(measured)]] == [c.solver.id for c in measured]
    np.testing.assert_allclose([s.time for s in solutions[:len(measured)]], [c.time for c in measured], rtol=1e-5)
    plan = problem.plan(0)
    assert plan.solver is measured[0].solver
    assert "from the user's find-db" in plan.explain()
    assert counts.take()[1] == 0
    setting(MIOPEN_DEBUG_CONV_IMMED_FALLBACK="0")
    assert problem.call("GetSolutionCount", 0) == len(measured)
    with pytest.raises(MIOpenNotImplementedError):
        problem.call("GetSolutionCount", 1)


def test_who_ranks_is_said(again, rng, setting):
    problem = Problem(again(), rng)
    device = problem.handle.device
    table, model = _costs.of(device), _model.of(device)
    for switch in ("1", "0"):
        setting(MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK=switch)
        why = ["models are switched off"] if switch == "0" else ["no model"] if model is None else []
        who = (f"the throughput index ({', '.join([*why, 'no cost table for this device'])})" if table is None else
               f"the cost table {table.path} ({'; '.join(['made up', *why])})")
        if switch == "1" and _ranking.by_model(Survey(problem.handle, struct_of(problem))):
            who = f"the model {model.path} ({model.about})"
        text = problem.plan(0).explain()
        assert f"chosen by {who}" in text
        unsure = _ranking.doubts(Survey(problem.handle, struct_of(problem)))
        assert text.count("\nunsure    ") == len(unsure)
        assert all(f"\nunsure    {path.name}: {doubt}\n" in text for path, doubt in unsure)


@pytest.mark.parametrize("text", ["sometimes", "HYBRID2", "1.5", "77", "0", "-1"])
def test_unknown_names_in_the_environment(again, rng, setting, text):
    problem = Problem(again(), rng)
    for name in ("MIOPEN_FIND_MODE", "MIOPEN_FIND_ENFORCE"):
        setting(MIOPEN_FIND_MODE="1", MIOPEN_FIND_ENFORCE="1")
        setting(**{name: text})
        with pytest.raises(InvalidValueError, match=name):
            problem.find(0, 1 << 24)


def test_numbers_in_the_environment(setting):
    conv = miopyx.ConvolutionDescriptor()
    for text, mode in (("1", 1), ("2", 2), ("3", 3), ("4", 1), ("5", 5), ("0x2", 2), ("fast", 2)):
        setting(MIOPEN_FIND_MODE=text)
        assert find.mode_of(0) == mode
        assert miopyx.miopenGetConvolutionFindMode(conv) == mode
    setting(MIOPEN_FIND_MODE="2")
    assert find.mode_of(3) == 3, "the descriptor's mode comes first"
    assert find.mode_of(4) == 1
    for text, enforced in (("NONE", False), ("1", False), ("search", True), ("5", True),
                           ("CLEAN", True)):
        setting(MIOPEN_FIND_ENFORCE=text)
        assert find.mode_of(2) == (1 if enforced else 2)


def test_measurements_as_json_lines(again, rng, setting, tmp_path):
    setting(MIOPYX_MEASUREMENTS=tmp_path / "times.jsonl")
    problem = Problem(again(), rng)
    problem.find(0, 1 << 24)
    problem.find(2, 1 << 24)
    lines = [json.loads(line) for line in (tmp_path / "times.jsonl").read_text().splitlines()]
    measured = [(d, c) for d in (0, 2) for c in problem.handle.found[struct_of(problem, d).key].candidates]
    assert sorted((e["direction"], e["solver"], e["time_ms"]) for e in lines) == sorted(
        (d, c.solver.name, c.time) for d, c in measured)
    for entry in lines:
        assert (entry["n"], entry["c"], entry["h"], entry["w"], entry["k"], entry["r"], entry["s"]) == (
            2, 6, 9, 8, 10, 3, 3)
        assert entry["device"] == problem.handle.device.name
        assert entry["runs"] >= 1
        assert preparing.parse_config(",".join(map(str, entry["config"]))) is not None or not entry["config"]
    setting(MIOPYX_MEASUREMENTS=tmp_path / "no" / "such" / "folder")
    assert Problem(again(), rng).find(1, 1 << 24), "a file that cannot be written changes nothing"
