"""What is known of the solvers that can run a problem, and in what order to try them.  Nothing is run here."""

cimport cython

from miopyx._core cimport Offer, Solver
from miopyx.database._records cimport FindItem
from miopyx.database._records cimport FindRecord as StoredRecord
from miopyx.problem._problem cimport ConvProblem
from miopyx.solvers.conv._base cimport ConvOffer
from ._costs cimport CostTable, table_of
from ._model cimport Model, models_of
from ._survey cimport Refusal, Survey

from pathlib import Path

from miopyx.values import config
from miopyx.database import store
from . import switches
from miopyx._core import MODELS_BUILT as _MODELS_BUILT
from miopyx.errors import BadParmError
from miopyx.solvers import registry

NO_SOLUTION = "Requested convolution is not supported or Immediate mode Fallback unsuccessful."


@cython.freelist(32)
cdef class Candidate:
    """A solver that can run a problem, and what is known of it.

    Parameters
    ----------
    offer : Offer
        The solver's.
    time : float
        Milliseconds.
    source : str
        "found" (by this handle), "user" or "system" (a database), "model" or "costs" (a predicted time), "index" (a
        rank), "forced".
    """

    def __init__(self, Offer offer not None, double time, str source not None):
        self.offer, self.solver, self.workspace = offer, offer.solver, offer.workspace
        self.time, self.source = time, source
        self.measured = source in ("found", "user", "system")
        self.predicted = source in ("model", "costs")

    cdef tuple _all(self):
        return self.solver, self.time, self.workspace, self.source

    def __eq__(self, other):
        return self._all() == (<Candidate> other)._all() if isinstance(other, Candidate) else NotImplemented

    def __hash__(self):
        return hash(self._all())

    def __repr__(self):
        return f"Candidate{self._all()}"


cdef class FindRecord:
    """Times of a problem's solvers, fastest first, and why others have none.

    Parameters
    ----------
    candidates : list of Candidate
    skipped : list of Refusal
    failed : list of Solver
        Those that could not be built or run; `skipped` has the reason.
    partial : bool
        A search that was restricted made it: solvers that apply may be missing.
    current : bool
        This build measured it, on this device and driver.
    """

    def __init__(self, list candidates not None, list skipped not None, list failed not None, bint partial=False,
                 bint current=True):
        self.candidates, self.skipped, self.failed = candidates, skipped, failed
        self.partial, self.current = partial, current


cdef bint _has(list candidates, Solver solver) noexcept:
    cdef Candidate c
    for c in candidates:
        if c.solver is solver:
            return True
    return False


cdef bint _by_time(Candidate a, Candidate b) noexcept:
    return a.time < b.time


cdef bint _by_rank(Candidate a, Candidate b) noexcept:
    """A last resort stays last, what was measured comes before what was estimated."""
    if a.solver.last_resort != b.solver.last_resort:
        return b.solver.last_resort
    if a.measured != b.measured:
        return a.measured
    return a.time < b.time


cdef int _sort(list candidates, bint (*before)(Candidate, Candidate) noexcept) except -1:
    """Sort a few candidates, equal ones as they stand: by insertion, most of them stand right."""
    cdef Py_ssize_t i, j
    cdef Candidate moved
    for i in range(1, len(candidates)):
        moved, j = candidates[i], i
        while j > 0 and before(moved, <Candidate> candidates[j - 1]):
            candidates[j] = candidates[j - 1]
            j -= 1
        candidates[j] = moved
    return 0


# What was measured


cdef FindRecord _known(Survey survey):
    """What was measured of a problem; where that has an epilogue, else what was of the convolution alone."""
    cdef FindRecord record = _known_of(survey, survey.problem)
    if record is None and survey.problem.c.fused.parts:
        record = _known_of(survey, survey.problem.unfused())
        if record is not None:
            record.current = False
            _add_launches(record.candidates)
            _sort(record.candidates, _by_time)
    return record


# What a launch over y adds to a solver's time, where its own store does not take an epilogue and nothing is measured.
cdef double LAUNCH_MORE = 1.3


cdef int _add_launches(list candidates) except -1:
    cdef Candidate c
    for c in candidates:
        if isinstance(c.offer, ConvOffer) and not (<ConvOffer> c.offer).one_store():
            c.time *= LAUNCH_MORE
    return 0


cdef Candidate _again(Survey survey, Candidate c):
    """What is known of a solver, with its offer for the survey's problem; None where it has none."""
    cdef Offer offer = survey.offer(c.solver)
    return None if offer is None else Candidate(offer, c.time, c.source)


cdef FindRecord _known_of(Survey survey, ConvProblem problem):
    cdef dict found = survey.handle.found
    cdef FindRecord mine = found.get(problem.key) if found else None
    cdef StoredRecord stored
    cdef FindItem item
    cdef Candidate c
    cdef Solver solver
    cdef Offer offer
    cdef list candidates = [], failed
    cdef dict by_name = registry.BY_NAME
    cdef str source
    if mine is not None:
        for c in mine.candidates:
            if c.solver not in survey.off:
                candidates.append(c if problem is survey.problem else _again(survey, c))
        candidates = [c for c in candidates if c is not None]
        return FindRecord(candidates, mine.skipped, mine.failed, mine.partial) if candidates else None
    database = store.of(survey.device.info)
    answer = database.find(problem)
    if answer is None:
        return None
    stored, source = answer
    for item in stored.items:
        solver = by_name.get(item.solver)
        if solver is None or item.direction != survey.problem.c.direction:
            continue
        offer = survey.offer(solver)
        if offer is not None:
            candidates.append(Candidate(offer, item.time, source))
    if not candidates:
        return None
    _sort(candidates, _by_time)
    failed = [by_name[name] for name in stored.failed if name in by_name]
    return FindRecord(candidates, [Refusal(solver, "failed when it was last tried") for solver in failed], failed,
                      stored.partial, stored.stamp == database.stamp)


def known(Survey survey not None):
    """Return what was measured of a problem: by this handle, else what the user's or the system's database has.

    A record is a hint: solvers that are unknown, switched off or do not apply are dropped, workspaces computed anew.
    None where nothing is left.
    """
    return _known(survey)


def covers(Survey survey not None, FindRecord record not None, workspace_size=None, bint dynamic_only=False):
    """Whether a record says something, a time or that it failed, of every solver that would be timed now."""
    cdef Offer o
    only = switches.only()
    found = [o for o in survey.able() if (only is None or o.solver.id in only) and (
        workspace_size is None or o.workspace <= workspace_size)]
    wanted = [o for o in found if not o.solver.last_resort] or found
    if dynamic_only:
        wanted = [o for o in wanted if o.solver.dynamic] or wanted
    if only is None:
        wanted = worth_timing(wanted)
    return all([_has(record.candidates, o.solver) or o.solver in record.failed for o in wanted])


# Ranking without measurements.  The first heuristic that has an answer gives the order.


cdef Candidate _estimated(Offer offer):
    """A candidate by its index, made without the constructor: choosing makes one of each that applies."""
    cdef Candidate made = Candidate.__new__(Candidate)
    made.offer, made.solver, made.workspace = offer, offer.solver, offer.workspace
    made.time, made.source, made.measured, made.predicted = 10.0 / offer.index, "index", False, False
    return made


cdef list _by_index(Survey survey):
    cdef Offer offer
    cdef list ranked = []
    for offer in survey.able():
        if offer.solver.dynamic and offer.index > 0:
            ranked.append(_estimated(offer))
    _sort(ranked, _by_time)
    return ranked


def by_index(Survey survey not None):
    """Return what can run a problem, best first by the throughput index.

    An index w stands for 10 / w milliseconds, as in MIOpen: a rank, not a prediction.  Only dynamic solvers with a
    known index take part.
    """
    return _by_index(survey)


# A cost table keeps Find from timing what it should take so many times the best, and more than so many microseconds.
HOPELESS = 2.0
HOPELESS_US = 75.0


cdef list _predicted(list offers):
    """Microseconds of some offers, -1 for last resorts; None without a table, or where it does not know one of them."""
    cdef CostTable table
    cdef Offer offer
    cdef double time
    cdef list times = []
    for offer in offers:
        time = -1
        if not offer.solver.last_resort:
            table = table_of(offer.device)
            if table is not None:
                time = table.time(offer)
            if time < 0:
                return None
        times.append(time)
    return times


cdef list _dynamic(Survey survey):
    cdef Offer offer
    return [offer for offer in survey.able() if offer.solver.dynamic]


cdef list _ranked(list offers, list times, str source, object model=None):
    """Candidates by predicted microseconds, -1 for last resorts, which go by their index."""
    cdef Candidate made
    cdef Offer offer
    cdef double time
    cdef list ranked = []
    for offer, time in zip(offers, times):
        if time >= 0:
            made = Candidate(offer, time * 1e-3, source)
            made.model = model
            ranked.append(made)
        elif offer.index > 0:
            ranked.append(_estimated(offer))
    _sort(ranked, _by_rank)
    return ranked


cdef list _by_costs(Survey survey):
    cdef list offers = _dynamic(survey)
    cdef list times = _predicted(offers)
    return [] if times is None else _ranked(offers, times, "costs")


def by_costs(Survey survey not None):
    """Return what can run a problem, best first by the times that the device's cost table predicts.

    Nothing where the device has no table, or it does not know one of the solvers.
    """
    return _by_costs(survey)


def worth_timing(list offers not None):
    """Return those of some offers, all of one survey, that Find should time.

    A device with a cost table leaves out what should take more than `HOPELESS` times the best of them, and more than
    `HOPELESS_US` microseconds: some solvers have a program of their own for nearly each problem, which is not built.
    """
    times = _predicted(offers)
    if times is None:
        return offers
    limit = max(HOPELESS * min([time for time in times if time >= 0], default=0), HOPELESS_US)
    return [offer for offer, time in zip(offers, times) if time <= limit]


cdef list _by_model(Survey survey):
    """By the first model that is sure."""
    cdef Model model
    cdef list offers = None, times
    if not models_asked():
        return []
    for model in models_of(survey.device):
        if offers is None:
            offers = _dynamic(survey)
        times = []
        if model.times(offers, times):
            return _ranked(offers, times, "model", model)
    return []


def spread(Candidate candidate not None):
    """Return how far a predicted time is off, as the spread of its logarithm; None for what is no prediction."""
    if candidate.source == "model":
        return (<Model?> candidate.model).error(candidate.offer)
    if candidate.source == "costs":
        return table_of(candidate.offer.device).spread(candidate.offer)
    return None


def by_model(Survey survey not None):
    """Return what can run a problem, best first by the times that the device's model predicts.

    Nothing where the device has no model, models are switched off, or all are unsure of the problem.
    """
    return _by_model(survey)


def models_asked():
    """Whether learned models may rank, by how this was built and by the environment."""
    return bool(_MODELS_BUILT and config.get("MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK"))


def doubts(Survey survey not None):
    """Return which models were asked about a problem in vain, and in words why each is unsure of it."""
    cdef Model model
    found = []
    for model in models_of(survey.device) if models_asked() else ():
        why = model.doubt(_dynamic(survey))
        if why is None:
            break
        found.append((Path(model.path), why))
    return found


def ranked_by(Survey survey not None):
    """Return who ranks what was not measured, for explanations."""
    cdef CostTable table = table_of(survey.device)
    cdef Model model
    cdef Offer o
    cdef list unknown, why = [], ranked = _by_model(survey)
    if ranked:
        model = (<Candidate> ranked[0]).model
        return f"the model {model.path} ({model.about})"
    if not _MODELS_BUILT:
        why.append("built without models")
    elif not models_asked():
        why.append("models are switched off")
    elif not models_of(survey.device):
        why.append("no model")
    if _by_costs(survey):
        return f"the cost table {table.path} ({'; '.join([table.about, *why])})"
    if table is None:
        why.append("no cost table for this device")
    else:
        unknown = [o.solver.name for o in survey.able() if not o.solver.last_resort and table.time(o) < 0]
        why.append(f"the cost table {table.path} lacks {', '.join(unknown)}")
    return f"the throughput index ({', '.join(why)})"


cdef list _rank(Survey survey):
    return _by_model(survey) or _by_costs(survey) or _by_index(survey)


def rank(Survey survey not None):
    """Return what can run a problem, best first, without any measurement of it."""
    return _rank(survey)


cdef list _fallback(Survey survey):
    return _rank(survey) if config.get("MIOPEN_DEBUG_CONV_IMMED_FALLBACK") else []


def fallback(Survey survey not None):
    """Return what `rank` says where MIOPEN_DEBUG_CONV_IMMED_FALLBACK lets it decide, else nothing."""
    return _fallback(survey)


# Both


cdef list best_first(Survey survey):
    """Everything that can run a problem: what was measured by its times, then the rest as `rank` orders it."""
    cdef FindRecord record = _known(survey)
    cdef list measured = record.candidates if record is not None else [], everything = list(measured)
    cdef Candidate c
    cdef list ranked = _fallback(survey)
    if survey.problem.c.fused.parts:
        _add_launches(ranked)
    for c in ranked:
        if not _has(measured, c.solver):
            everything.append(c)
    _sort(everything, _by_rank)
    return everything


def candidates(Survey survey not None):
    """Return everything that can run a problem, best first.

    What was measured comes first, by its times, then the rest as `rank` orders it.  A last resort stays last even where
    it was the only one that a search could run.
    """
    return best_first(survey)


def offer_of(Survey survey not None, solution_id):
    """Return the offer of the solver of an id, or raise BadParmError: unknown, or not applicable with the reason."""
    cdef Solver solver = registry.BY_ID.get(solution_id)
    if solver is None:
        raise BadParmError("unknown solution id", "solution_id", solution_id, "an id that GetSolution returned")
    answer = survey.answer(solver)
    if isinstance(answer, str):
        raise BadParmError(f"solution {solver.name} is not applicable to this problem: {answer}", "solution_id",
                           solution_id, "an id that GetSolution returned")
    return answer
