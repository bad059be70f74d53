"""The order in which solvers are tried, against the rules written again; and records that say anything at all."""

import pytest
from problems import applicable
from random_layers import random_layer

from miopyx._core import Offer
from miopyx.choose import _ranking
from miopyx.choose._ranking import Candidate, FindRecord
from miopyx.choose._survey import Refusal, Survey
from miopyx.database import records, store
from miopyx.database.records import FindItem
from miopyx.errors import BadParmError
from miopyx.problem import _key
from miopyx.solvers import registry

PROBLEMS = 60
pytestmark = pytest.mark.usefixtures("system_folder")  # cost tables have test_costs.py


@pytest.fixture
def databases(new_handle):
    store.forget()
    yield store.of(new_handle.device.info)
    store.forget()


def random_items(rng, problem):
    """Items of solvers of either direction and of nobody, in any order, some with the same time."""
    names = [s.name for s in registry.CONV if s.direction == problem.direction] + ["Nobody"]
    picked = rng.permutation(names)[:int(rng.integers(1, len(names) + 1))]
    other = (problem.direction + 1) % 3
    return [FindItem(str(name), float(rng.choice([0.25, 1.5, 2.0, 1e-3])), int(rng.integers(1 << 20)),
                     other if rng.integers(8) == 0 else problem.direction, 0) for name in picked]


def write(databases, problem, items, stamp=None, **options):
    line = records.write_find(_key.find_key(problem), items, databases.stamp if stamp is None else stamp, **options)
    assert databases.user_find.update(_key.find_key(problem), lambda _: line)


def by_index(handle, problem):
    """What the index says, by its words."""
    able = [(10 / s.wti(handle.device, problem), s.workspace_size(handle.device, problem), s)
            for s in registry.CONV if s.why_not(handle.device, problem) is None and s.dynamic
            and s.wti(handle.device, problem) > 0]
    return sorted(able, key=lambda entry: entry[0])


def expected(handle, problem, items, source):
    """Time, workspace, name and source of each candidate, best first."""
    able = {s.name: s for s in registry.CONV if s.why_not(handle.device, problem) is None}
    measured = [(i.time, able[i.solver].workspace_size(handle.device, problem), i.solver, source)
                for i in items if i.solver in able and i.direction == problem.direction]
    names = {entry[2] for entry in measured}
    rest = [(time, size, s.name, "index") for time, size, s in by_index(handle, problem) if s.name not in names]
    measured.sort(key=lambda entry: entry[0])
    return sorted(measured + rest, key=lambda entry: (able[entry[2]].last_resort, entry[3] == "index", entry[0]))


def as_written(candidates):
    return [(c.time, c.workspace, c.solver.name, c.source) for c in candidates]


def test_candidates_of_random_records(new_handle, databases, rng):
    found = 0
    for problem in {_key.find_key(p): p for p in (random_layer(rng) for _ in range(PROBLEMS))}.values():
        assert as_written(_ranking.candidates(Survey(new_handle, problem))) == expected(new_handle, problem, [], "user")
        assert as_written(_ranking.rank(Survey(new_handle, problem))) == [
            (time, size, s.name, "index") for time, size, s in by_index(new_handle, problem)]
        items = random_items(rng, problem)
        write(databases, problem, items)
        candidates = _ranking.candidates(Survey(new_handle, problem))
        assert as_written(candidates) == expected(new_handle, problem, items, "user")
        assert [c.measured for c in candidates] == [c.source == "user" for c in candidates]
        known = _ranking.known(Survey(new_handle, problem))
        order = [item.solver for item in items]
        measured = sorted((c for c in candidates if c.measured), key=lambda c: (c.time, order.index(c.solver.name)))
        assert (known.candidates if known else []) == measured
        found += known is not None
    assert found > PROBLEMS // 4


def test_what_the_handle_found_comes_first(new_handle, databases, rng):
    for _ in range(PROBLEMS):
        problem = random_layer(rng)
        able = applicable(new_handle, problem)
        if not able:
            continue
        write(databases, problem, random_items(rng, problem))
        times = sorted(float(t) for t in rng.uniform(0.1, 9, len(able)))
        offers = [s.offer(new_handle.device, problem) for s in rng.permutation(able)]
        mine = [Candidate(o, t, "found") for o, t in zip(offers, times, strict=True)]
        new_handle.found[problem.key] = FindRecord(mine, [], [], partial=True)
        known = _ranking.known(Survey(new_handle, problem))
        assert known.candidates == mine
        assert (known.partial, known.current) == (True, True)
        assert _ranking.candidates(Survey(new_handle, problem)) == sorted(mine, key=lambda c: c.solver.last_resort)


def test_what_a_record_says_of_itself(new_handle, databases, rng):
    problem = next(p for p in iter(lambda: random_layer(rng), None) if applicable(new_handle, p))
    best = applicable(new_handle, problem)[0]
    items = [FindItem(best.name, 1.0, 0, problem.direction, best.algorithm)]
    other = next(s for s in registry.CONV if s is not best)
    for partial in (False, True):
        for stamp, current in ((databases.stamp, True), ("somebody", False)):
            write(databases, problem, items, stamp, partial=partial, failed=[other.name, "Nobody"])
            known = _ranking.known(Survey(new_handle, problem))
            assert (known.partial, known.current) == (partial, current)
            assert known.failed == [other]
            assert [(r.solver, r.why) for r in known.skipped] == [(other, "failed when it was last tried")]


def test_covers(new_handle, rng):
    """Against its words: everything that would be timed now is settled."""
    yes = 0
    for _ in range(PROBLEMS * 4):
        problem = random_layer(rng)
        device, able = new_handle.device, applicable(new_handle, problem)
        sizes = [s.workspace_size(device, problem) for s in able]
        limit = None if rng.integers(2) else int(rng.choice([0, *sizes, *(size - 1 for size in sizes if size)]))
        settled = [s for s in able if rng.integers(4)]
        failed = [s for s in settled if rng.integers(3) == 0]
        record = FindRecord([Candidate(s.offer(device, problem), 1.0, "user") for s in settled if s not in failed], [],
                            failed)
        wanted = [s for s, size in zip(able, sizes, strict=True) if limit is None or size <= limit]
        wanted = [s for s in wanted if not s.last_resort] or wanted
        covered = all(s in settled for s in wanted)
        assert _ranking.covers(Survey(new_handle, problem), record, limit) == covered
        assert _ranking.covers(Survey(new_handle, problem), record, limit, True) == covered, "all of ours are dynamic"
        yes += covered and bool(wanted)
    assert yes > PROBLEMS // 4


def test_covers_looks_at_the_only_solver(new_handle, rng, setting):
    problem = next(p for p in iter(lambda: random_layer(rng), None) if applicable(new_handle, p))
    able = applicable(new_handle, problem)
    nothing = FindRecord([], [], [])
    assert not _ranking.covers(Survey(new_handle, problem), nothing)
    setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER=able[0].id)
    assert not _ranking.covers(Survey(new_handle, problem), nothing)
    assert _ranking.covers(Survey(new_handle, problem), FindRecord([], [], [able[0]]))
    setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER=next(s for s in registry.CONV if s not in able).id)
    assert _ranking.covers(Survey(new_handle, problem), nothing), "nothing would be timed"


def test_solver_for(handle, rng):
    for _ in range(PROBLEMS):
        problem = random_layer(rng)
        for solver in registry.CONV:
            why = solver.why_not(handle.device, problem)
            if why is None:
                assert _ranking.offer_of(Survey(handle, problem), solver.id).solver is solver
                continue
            with pytest.raises(BadParmError, match="not applicable") as caught:
                _ranking.offer_of(Survey(handle, problem), solver.id)
            assert why in str(caught.value)
    for unknown in (0, -1, 1 << 40):
        with pytest.raises(BadParmError, match="unknown solution id"):
            _ranking.offer_of(Survey(handle, problem), unknown)


def test_values(host, rng):
    """Candidates and items are compared by what they hold."""
    device, problem = host.device, random_layer(rng)
    one, two, small = (Offer(s, device, problem, workspace=size)
                       for s, size in zip((*registry.CONV[:2], registry.CONV[0]), (1 << 40, 1 << 40, 1), strict=True))
    for make, fields, others in (
            (Candidate, (one, 1.5, "user"), (two, 2.5, "found")), (Candidate, (one, 1.5, "user"), (small,)),
            (FindItem, ("A", 1.5, 1 << 40, 1, 5), ("B", 2.5, 1, 2, 0))):
        value = make(*fields)
        assert value == make(*fields)
        assert hash(value) == hash(make(*fields))
        assert value != fields
        for i, other in enumerate(others):
            assert value != make(*fields[:i], other, *fields[i + 1:])
        assert all(str(field) in repr(value) for field in fields if field is not one)
    assert f"{one.solver!r}, 1.5, {1 << 40}, 'user'" in repr(Candidate(one, 1.5, "user"))
    assert [Candidate(one, 1, s).measured for s in ("found", "user", "system", "index", "forced")] == [
        True, True, True, False, False]
    assert repr(Refusal(one.solver, "why")) == f"{one.solver.name}: why"
    for wrong in ((None, 1.0, "user"), (one, 1.0, None), (one, "1", "user"), (one.solver, 1.0, "user")):
        with pytest.raises((TypeError, OverflowError)):
            Candidate(*wrong)


def test_wrong_arguments(handle, rng):
    problem = random_layer(rng)
    for ask in (_ranking.known, _ranking.by_index, _ranking.rank, _ranking.fallback, _ranking.candidates):
        for arguments in ((None, problem), (handle, None), (handle, 5), (problem, handle)):
            with pytest.raises(TypeError):
                ask(*arguments)
