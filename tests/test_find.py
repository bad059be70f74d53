"""Find, and running with the algorithms that it returned."""

import numpy as np
import pytest
from problems import DIRECTIONS, NAMES, Problem, applicable, timed_solvers

import miopyx
from miopyx import TensorDescriptor
from miopyx.choose import find
from miopyx.choose._ranking import Candidate
from miopyx.choose._survey import Survey
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError
from miopyx.solvers import registry

pytestmark = [pytest.mark.pairwise, pytest.mark.usefixtures("any_costs")]


def record_of(problem, direction):
    return problem.handle.found[problem.struct(direction).key]


@pytest.mark.some(2, host=6)
@pytest.mark.parametrize("direction", DIRECTIONS, ids=NAMES)
@pytest.mark.parametrize("mode", [0, 1], ids=["conv", "trans"])
def test_find_then_run(new_handle, rng, direction, mode):
    problem = Problem(new_handle, rng, mode=mode)
    with pytest.raises(UnknownError, match="No invoker was registered"):
        problem.run(direction, 1, 0)
    results = problem.find(direction)
    assert results
    assert [r.time for r in results] == sorted(r.time for r in results)
    assert all(r.time > 0 for r in results)
    assert len({r.algo for r in results}) == len(results), "one result an algorithm"
    assert results[0].fwd_algo == results[0].algo if direction == 0 else True
    for result in results:
        for alpha, beta in ((1, 0), (-0.5, 0), (2.0, 1.5)):
            problem.reset()
            if beta == 0:
                problem.poison(direction)
            problem.run(direction, result.algo, result.memory, alpha, beta)
            problem.close(direction, alpha, beta)


@pytest.mark.parametrize("direction", DIRECTIONS, ids=NAMES)
def test_every_solver_is_timed_or_has_a_reason(new_handle, rng, direction):
    problem = Problem(new_handle, rng)
    problem.find(direction)
    record = record_of(problem, direction)
    of_direction = [s for s in registry.CONV
                    if s.why_not(new_handle.device, problem.struct(direction)) != "another direction"]
    assert {c.solver for c in record.candidates} == set(timed_solvers(new_handle, problem.struct(direction)))
    assert {c.solver.id for c in record.candidates} | {r.solver.id for r in record.skipped} == {
        s.id for s in of_direction}
    assert all(r.why for r in record.skipped)
    assert all(c.time > 0 and c.source == "found" for c in record.candidates)


def test_naive_is_timed_only_alone(new_handle, rng, setting):
    problem = Problem(new_handle, rng)
    problem.find(0)
    record = record_of(problem, 0)
    if new_handle.device.is_host:
        assert [c.solver.name for c in record.candidates] == ["HostImplicitGemmFwd"]
    else:
        assert not any(c.solver.last_resort for c in record.candidates)
        assert any(r.solver.last_resort and "last resort" in r.why for r in record.skipped)
        before = record.candidates
        asked = problem.struct(0)
        if any(not s.last_resort and s.workspace_size(new_handle.device, asked) == 0
               for s in applicable(new_handle, asked)):
            setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER="ConvDirectNaiveConvFwd")
        (result,) = problem.find(0, size=0)  # where the rest needs workspace, that is enough
        assert result.algo == 1
        assert result.memory == 0
        after = record_of(problem, 0).candidates
        assert [c for c in after if not c.solver.last_resort] == before, "a restricted search made us forget"
        assert any(c.solver.last_resort for c in after)


def test_find_obeys_the_workspace(new_handle, rng):
    problem = Problem(new_handle, rng)
    need = problem.call("GetWorkSpaceSize", 0)
    for size in (0, need // 2, need):
        assert all(r.memory <= size for r in problem.find(0, size=size))
        if need and size == 0:
            assert any("bytes of workspace" in r.why for r in record_of(problem, 0).skipped)


def test_results_rank_immediate_mode_and_plans(new_handle, rng):
    problem = Problem(new_handle, rng)
    guess = problem.call("GetSolution", 0, 99)
    problem.find(0)
    found = problem.call("GetSolution", 0, 99)
    record = record_of(problem, 0)
    measured = [c.solver.id for c in record.candidates]
    assert [s.solution_id for s in found][:len(measured)] == measured
    assert {s.solution_id for s in found} == {s.solution_id for s in guess}, "nothing that can run is lost"
    plan = problem.plan(0)
    assert plan.solver is record.candidates[0].solver
    assert "measured by Find" in plan.explain()


def test_a_restricted_find_does_not_make_naive_the_favourite(new_handle, rng):
    problem = Problem(new_handle, rng)
    before = problem.call("GetSolution", 0, 99)
    problem.find(0, size=0)
    after = problem.call("GetSolution", 0, 99)
    assert {s.solution_id for s in before} == {s.solution_id for s in after}
    timed = [c.solver.id for c in record_of(problem, 0).candidates if not c.solver.last_resort]
    first = timed[0] if timed else before[0].solution_id
    assert len(before) == 1 or not registry.BY_ID[first].last_resort
    assert after[0].solution_id == first
    assert problem.plan(0).solver.id == first


@pytest.mark.parametrize("direction", DIRECTIONS, ids=NAMES)
def test_find_checks_its_arguments_before_it_runs_anything(new_handle, rng, direction, monkeypatch):
    monkeypatch.setattr(find, "find", lambda *a: pytest.fail("searched"))
    problem = Problem(new_handle, rng)
    good = list(problem.pairs(direction))
    function = getattr(miopyx, f"miopenFindConvolution{NAMES[direction]}Algorithm")
    for which in (1, 3, 6):
        bad = list(good)
        bad[which] = new_handle.upload(np.zeros(5, np.float32))
        with pytest.raises(BadParmError, match="too small"):
            function(new_handle, *bad, 1, None, 0, False)
    for workspace, size in ((None, 100), (new_handle.upload(np.zeros(10, np.uint8)), 100)):
        with pytest.raises(BadParmError, match="workSpace"):
            function(new_handle, *good, 1, workspace, size, False)
    with pytest.raises(BadParmError, match="workSpaceSize"):
        function(new_handle, *good, 1, None, -1, False)
    with pytest.raises(BadParmError, match="exhaustiveSearch"):
        function(new_handle, *good, 1, None, 0, "nonsense")


def test_request_count(new_handle, rng):
    problem = Problem(new_handle, rng, filter=(1, 1), pads=(0, 0))
    assert len(problem.find(0, count=1)) == 1
    for count in (0, -3):
        with pytest.raises(BadParmError, match="requestAlgoCount"):
            problem.find(0, count=count)


@pytest.mark.parametrize("direction", DIRECTIONS, ids=NAMES)
@pytest.mark.parametrize("which", [1, 3, 6])
def test_null_buffers(new_handle, rng, direction, which):
    problem = Problem(new_handle, rng)
    arguments = list(problem.pairs(direction))
    arguments[which] = None
    function = getattr(miopyx, f"miopenFindConvolution{NAMES[direction]}Algorithm")
    with pytest.raises(BadParmError, match="null"):
        function(new_handle, *arguments, 1, None, 0, False)


def test_unknown_algorithm(new_handle, rng):
    problem = Problem(new_handle, rng)
    for algo in (-1, 4, 6, 99):
        with pytest.raises(BadParmError, match="no miopenConvFwdAlgorithm_t"):
            problem.run(0, algo, 0)
    with pytest.raises(BadParmError):
        problem.run(2, 2, 0)  # there is no FFT for weights


def test_workspace_too_small_at_run_time(new_handle, rng):
    problem = Problem(new_handle, rng)
    wanting = [result for result in problem.find(0) if result.memory]
    if not wanting:
        pytest.skip("no algorithm needs workspace here")
    for result in wanting:
        with pytest.raises(UnknownError, match="workspace is smaller"):
            problem.run(0, result.algo, result.memory - 1)
        a, x, b, w, conv, c, y = problem.pairs(0)
        with pytest.raises(BadParmError, match="workSpace"):  # says it is large enough, is not
            miopyx.miopenConvolutionForward(new_handle, 1.0, a, x, b, w, conv, result.algo, 0.0, c, y,
                                            problem.workspace(result.memory - 1), result.memory)
        with pytest.raises(BadParmError, match="workSpace"):
            miopyx.miopenConvolutionForward(new_handle, 1.0, a, x, b, w, conv, result.algo, 0.0, c, y, None,
                                            result.memory)


def test_a_candidate_far_behind_is_run_once_more_only():
    runs = []

    def run(prepared):
        runs.append(prepared)
        return 10.0

    assert find._time(run, "slow", best=1.0) == (10.0, 1)
    assert len(runs) == 2
    runs.clear()
    assert find._time(run, "fast", best=9.0) == (10.0, find.RUNS)
    assert len(runs) == 1 + find.RUNS


def test_the_fastest_run_in_turns_at_the_end(new_handle, rng, monkeypatch):
    """One that met a busy machine when it was its turn alone still wins; what is far behind is left alone."""
    if new_handle.device.is_host:
        pytest.skip("the host has one solver a direction")
    offers = Survey(new_handle, Problem(new_handle, rng).struct(0)).applicable()[:4]
    able = [o.solver for o in offers]
    timed = [Candidate(o, time, "found") for o, time in zip(offers, (1.0, 1.2, 1.4, 9.0), strict=True)]
    runs = []
    monkeypatch.setattr(find, "invoker", lambda handle, offer: offer.solver)

    def run(solver):
        runs.append(solver)
        return {able[0]: 1.1, able[1]: 0.7, able[2]: 1.3}[solver]

    order = find._run_off(new_handle, run, timed)
    assert [(c.solver, c.time) for c in order] == [(able[1], 0.7), (able[0], 1.1), (able[2], 1.3), (able[3], 9.0)]
    assert runs == able[:3] * find.RUNS


def test_a_failing_candidate_is_skipped_with_its_reason(new_handle, rng, monkeypatch):
    if new_handle.device.is_host:
        pytest.skip("the host has one solver a direction")
    problem = Problem(new_handle, rng)
    real, unlucky = find.invoker, timed_solvers(new_handle, problem.struct(0))[0]

    def fail_for_one(handle, offer):
        if offer.solver is unlucky:
            raise UnknownError("build failed")
        return real(handle, offer)

    monkeypatch.setattr(find, "invoker", fail_for_one)
    assert problem.find(0)
    record = record_of(problem, 0)
    assert unlucky not in {c.solver for c in record.candidates}
    assert any(r.solver is unlucky and "build failed" in r.why for r in record.skipped)


def test_nothing_applies(new_handle, rng):
    problem = Problem(new_handle, rng)
    x = TensorDescriptor("int32", problem.x.lens)
    w = TensorDescriptor("int32", problem.w.lens)
    y = TensorDescriptor("int32", problem.y.lens)
    data = [new_handle.upload(np.zeros(d.lens, np.int32)) for d in (x, w, y)]
    with pytest.raises(UnknownError):
        miopyx.miopenConvolutionForwardGetWorkSpaceSize(new_handle, w, x, problem.conv, y)
    with pytest.raises(UnknownError, match="No suitable algorithm"):
        miopyx.miopenFindConvolutionForwardAlgorithm(
            new_handle, x, data[0], w, data[1], problem.conv, y, data[2], 1, None, 0, False)
    with pytest.raises(MIOpenNotImplementedError, match="not supported"):
        miopyx.miopenConvolutionForwardGetSolutionCount(new_handle, w, x, problem.conv, y)
    assert miopyx.miopenConvolutionForwardGetSolution(new_handle, w, x, problem.conv, y, 5) == []


def test_profiling(new_handle, rng):
    problem = Problem(new_handle, rng)
    miopyx.miopenEnableProfiling(new_handle, True)
    problem.plan(0)(*problem.buffers(0))
    assert miopyx.miopenGetKernelTime(new_handle) > 0
    miopyx.miopenEnableProfiling(new_handle, False)


def test_find_on_a_queue_without_profiling(opencl_name, rng):
    if opencl_name.startswith("cuda"):
        pytest.skip("a stream has no such property")
    import pyopencl

    context = pyopencl.Context([miopyx.device.devices.find(opencl_name).handle])
    queue = pyopencl.CommandQueue(context)
    handle = miopyx.miopenCreateWithStream(queue)
    problem = Problem(handle, rng)
    with pytest.raises(BadParmError, match="PROFILING"):
        miopyx.miopenEnableProfiling(handle, True)
    assert problem.find(0)[0].time > 0
    assert miopyx.miopenGetStream(handle) is queue
    problem.plan(0)(*problem.buffers(0))
    problem.close(0)
    other = pyopencl.CommandQueue(context)
    miopyx.miopenSetStream(handle, other)
    assert miopyx.miopenGetStream(handle) is other
    problem.poison(0)
    problem.plan(0)(*problem.buffers(0))
    problem.close(0)
    with pytest.raises(UnknownError, match="nullptr"):
        miopyx.miopenSetStream(handle, None)
    out_of_order = pyopencl.CommandQueue(
        context, properties=pyopencl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    with pytest.raises(BadParmError, match="order"):
        miopyx.miopenSetStream(handle, out_of_order)
    np.testing.assert_equal(miopyx.miopenGetStream(handle) is other, True)
