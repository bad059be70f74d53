"""Exhaustive search through Find: what it stores, who uses it, and what MIOPEN_FIND_ENFORCE makes of it."""

import shutil

import pytest
from problems import Problem, applicable

import miopyx
from miopyx.choose import find, tuning
from miopyx.database import records, store
from miopyx.problem import _key
from miopyx.problem._problem import ConvProblem
from miopyx.values import config
from miopyx.values.configurations import config_text, parse_config


def struct_of(problem, direction=0):
    return ConvProblem(direction, problem.x, problem.w, problem.y, problem.conv)


@pytest.fixture
def again(opencl_name, user_folder, keep_programs, setting, tmp_path):
    """Return a function that makes a fresh handle, as another process would have one; searches are short."""
    setting(MIOPEN_DEBUG_TUNING_ITERATIONS_MAX="3", MIOPEN_COMPILE_PARALLEL_LEVEL="1")
    shutil.rmtree(config.cache_dir() / "searches", ignore_errors=True)  # what another test did not end
    made = []

    def fresh():
        store.forget()
        made.append(miopyx.Handle(opencl_name))
        return made[-1]

    yield fresh
    for handle in made:
        handle.destroy()


@pytest.fixture
def searches(monkeypatch):
    """Return the solvers that were searched, in order."""
    searched = []
    tune = tuning.tune

    def counted(handle, offer, *rest, **options):
        searched.append(offer.solver)
        return tune(handle, offer, *rest, **options)

    monkeypatch.setattr(tuning, "tune", counted)
    return searched


def exhaustive(problem, direction=0, flag=True):
    size = 1 << 24
    function = (miopyx.miopenFindConvolutionForwardAlgorithm, miopyx.miopenFindConvolutionBackwardDataAlgorithm,
                miopyx.miopenFindConvolutionBackwardWeightsAlgorithm)[direction]
    return function(problem.handle, *problem.pairs(direction), 9, problem.workspace(size), size, flag)


def tunable(problem, direction=0):
    p = struct_of(problem, direction)
    return [s for s in applicable(problem.handle, p)
            if not s.last_resort and s.parameters(problem.handle.device, p)]


@pytest.mark.some(1)
@pytest.mark.parametrize("direction", [0, 1, 2])
def test_searched_stored_and_used(again, searches, rng, direction):
    problem = Problem(again(), rng)
    solvers = tunable(problem, direction)
    assert solvers, "no solver can be tuned"
    results = exhaustive(problem, direction)
    assert set(searches) == set(solvers)
    searches.clear()
    stored = store.of(problem.handle.device.info).tuned(struct_of(problem, direction))
    assert set(stored) == {s.name for s in solvers}
    for handle in (problem.handle, again()):  # this process and the next
        problem = Problem(handle, rng)
        for solver in solvers:
            plan = problem.plan(direction, solution_id=solver.id)
            assert plan.invoker.config == parse_config(stored[solver.name])
            assert f"config    {stored[solver.name]}" in plan.explain()
            problem.poison(direction)
            plan(*problem.buffers(direction))
            problem.close(direction)
            problem.reset()
    problem.find(direction)
    problem.poison(direction)
    problem.run(direction, results[0].algo, 1 << 24)
    problem.close(direction)
    assert exhaustive(problem, direction)
    assert not searches, "what is tuned is not searched again"


def with_choice(problem):
    """The first solver that can be tuned and has more than one configuration here."""
    return next(s for s in tunable(problem) if another(problem, s) is not None)


def put(problem, solver, text, direction=0):
    store.of(problem.handle.device.info).store_tuned(struct_of(problem, direction), solver.name, text)


def another(problem, solver):
    """A configuration of a solver that is not its default, None where it has one only."""
    device, p = problem.handle.device, struct_of(problem)
    default = solver.default_config(device, p)
    every = tuning.configurations(solver.parameters(device, p), lambda c: solver.accepts(device, p, c))
    return next((c for c in every if c != default), None)


def test_override_and_bad_values(again, rng, setting, caplog):
    problem = Problem(again(), rng)
    solver = with_choice(problem)
    device, p = problem.handle.device, struct_of(problem)
    default, other = solver.default_config(device, p), another(problem, solver)
    put(problem, solver, config_text(other))
    assert Problem(again(), rng).plan(0, solution_id=solver.id).invoker.config == other
    for bad in ("", "1,2,x", "1", "99999,99999,99999", "-1", "1;2", "1.5,2"):
        put(problem, solver, bad.replace(";", ","))
        problem = Problem(again(), rng)
        assert problem.plan(0, solution_id=solver.id).invoker.config == default, bad
    setting(MIOPEN_DEBUG_PERFDB_OVERRIDE=f"{solver.name};{config_text(other)}:Nobody;1")
    assert Problem(again(), rng).plan(0, solution_id=solver.id).invoker.config == other
    setting(MIOPEN_DEBUG_PERFDB_OVERRIDE="nonsense")
    assert Problem(again(), rng).plan(0, solution_id=solver.id).invoker.config == default


@pytest.mark.some(2, host=8)
@pytest.mark.parametrize(("value", "flag", "searched"), [
    ("NONE", False, False), ("NONE", True, False), ("DB_UPDATE", False, False), ("DB_UPDATE", True, True),
    ("SEARCH", False, False), ("SEARCH_DB_UPDATE", False, True), ("DB_CLEAN", False, False), ("DB_CLEAN", True, True),
])
def test_enforce_where_something_is_tuned(again, searches, rng, setting, value, flag, searched):
    problem = Problem(again(), rng)
    solver = with_choice(problem)
    other = config_text(another(problem, solver))
    for each in tunable(problem):
        put(problem, each, config_text(another(problem, each) or each.default_config(problem.handle.device,
                                                                                    struct_of(problem))))
    setting(MIOPEN_FIND_ENFORCE=value)
    problem = Problem(again(), rng)
    exhaustive(problem, flag=flag)
    assert (solver in searches) == searched
    stored = store.of(problem.handle.device.info).tuned(struct_of(problem)).get(solver.name)
    if value == "DB_CLEAN" and not flag:
        assert stored is None
    elif not searched:
        assert stored == other
    expected = parse_config(stored) if stored else solver.default_config(
        problem.handle.device, struct_of(problem))
    assert problem.plan(0, solution_id=solver.id).invoker.config == expected


@pytest.mark.some(3, host=5)
@pytest.mark.parametrize(("value", "flag", "searched"), [
    ("NONE", False, False), ("NONE", True, True), ("DB_UPDATE", False, False), ("SEARCH", False, True),
    ("SEARCH_DB_UPDATE", False, True),
])
def test_enforce_where_nothing_is_tuned(again, searches, rng, setting, value, flag, searched):
    setting(MIOPEN_FIND_ENFORCE=value)
    problem = Problem(again(), rng)
    exhaustive(problem, flag=flag)
    assert bool(searches) == searched
    assert bool(store.of(problem.handle.device.info).tuned(struct_of(problem))) == searched


def test_a_known_problem_is_searched_when_that_is_asked_for(again, searches, rng):
    problem = Problem(again(), rng)
    problem.find(0)
    exhaustive(problem)
    assert set(searches) == set(tunable(problem))


def test_a_search_that_was_stopped_goes_on(again, searches, rng, setting):
    setting(MIOPEN_DEBUG_TUNING_ITERATIONS_MAX="0")
    problem = Problem(again(), rng)
    solver = with_choice(problem)
    setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER=solver.name, MIOPEN_TUNING_TIME_MS_MAX="1")
    exhaustive(problem)
    assert searches == [solver]
    searches.clear()
    setting(MIOPEN_TUNING_TIME_MS_MAX="7200000", MIOPEN_TUNING_PATIENCE="1")
    exhaustive(Problem(again(), rng))
    assert searches == [solver], "the search was not at its end"
    assert solver.name in store.of(problem.handle.device.info).tuned(struct_of(problem))
    exhaustive(Problem(again(), rng))
    assert searches == [solver], "it is now"


def test_interrupted(again, rng, monkeypatch):
    """Ctrl-C ends the search and the Find, and keeps what was found."""
    problem = Problem(again(), rng)
    solver = with_choice(problem)

    def interrupted(handle, offer, *rest, **options):
        config = another(problem, offer.solver) or offer.default_config()
        return tuning.Result(config, 1.0, 2.0, 1, 0, 9, "interrupted", {config: 1.0}, {config: (1.0, 1)})

    monkeypatch.setattr(tuning, "tune", interrupted)
    with pytest.raises(KeyboardInterrupt):
        exhaustive(problem)
    assert len(store.of(problem.handle.device.info).tuned(struct_of(problem))) == 1
    assert problem.plan(0, solution_id=solver.id) is not None


def test_nothing_works_in_a_search(again, rng, monkeypatch):
    problem = Problem(again(), rng)
    infinite = float("inf")

    def hopeless(handle, offer, *rest, **options):
        return tuning.Result(offer.default_config(), infinite, infinite, 5, 5, 5, "all", {}, {})

    monkeypatch.setattr(tuning, "tune", hopeless)
    assert exhaustive(problem), "the defaults are timed all the same"
    assert store.of(problem.handle.device.info).tuned(struct_of(problem)) == {}


def test_the_user_perf_db_is_miopens_text(again, rng):
    problem = Problem(again(), rng)
    exhaustive(problem)
    path = store.of(problem.handle.device.info).user_perf.path
    line = path.read_bytes().splitlines()[-1]
    key, items = records.split(line)
    assert key == _key.perf_key(struct_of(problem))
    assert key == b"2x6x9x8x1x3x3x1x10x2x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
    values, stamp, skipped = records.read_perf(items)
    assert stamp == store.of(problem.handle.device.info).stamp
    assert not skipped
    assert set(values) == {s.name for s in tunable(problem)}


def test_the_host_has_nothing_to_tune(user_folder, rng):
    with miopyx.Handle("host") as handle:
        problem = Problem(handle, rng)
        assert not tunable(problem)
        assert exhaustive(problem)
        assert not store.of(handle.device.info).user_perf.path.exists()


def test_limits_of_a_budget(again, rng, monkeypatch):
    """A time budget is the search's too."""
    problem = Problem(again(), rng)
    limits = []
    tune = tuning.tune

    def recorded(*args, **options):
        limits.append(options["limits"])
        return tune(*args, **options)

    monkeypatch.setattr(tuning, "tune", recorded)
    p = struct_of(problem)
    find.find(problem.handle, p, lambda _: 1.0, 1 << 24, find.NORMAL, True, 60e3)
    assert limits
    assert all(0 <= limit.time_ms <= 60e3 for limit in limits), "the environment allows hours"


def test_a_budget_that_a_search_takes_leaves_nobody_untimed(again, rng, monkeypatch):
    """All are timed first; then the search that promises most begins."""
    problem = Problem(again(), rng)
    solvers = tunable(problem)
    ms = {solver: 9.0 - i for i, solver in enumerate(solvers)}
    searched = []

    def endless(handle, offer, *rest, **options):
        searched.append(offer.solver)
        return tuning.Result(offer.default_config(), 1.0, 1.0, 1, 0, 9, "time", {}, {})

    monkeypatch.setattr(tuning, "tune", endless)
    monkeypatch.setattr(find._Trial, "left_ms", lambda _: 0.0 if searched else 1e6)
    record = find.find(problem.handle, struct_of(problem), lambda invoker: ms.get(invoker.solver, 9.0), 1 << 24,
                       find.NORMAL, True, 1e6)
    assert searched == solvers[-1:]
    assert set(solvers) <= {c.solver for c in record.candidates}
    assert not record.partial


def test_a_configuration_that_a_search_finds_is_timed(again, rng, monkeypatch):
    problem = Problem(again(), rng)
    solver = with_choice(problem)
    other = another(problem, solver)

    def finds(handle, offer, *rest, **options):
        config = other if offer.solver is solver else offer.default_config()
        return tuning.Result(config, 1.0, 2.0, 2, 0, 2, "all", {}, {})

    monkeypatch.setattr(tuning, "tune", finds)
    record = find.find(problem.handle, struct_of(problem), lambda invoker: 1.0 if invoker.config == other and
                       invoker.solver is solver else 9.0, 1 << 24, find.NORMAL, True)
    assert [c.solver for c in record.candidates].count(solver) == 1
    assert (record.candidates[0].solver, record.candidates[0].time) == (solver, 1.0)
