"""What is known of the solvers that can run a problem, and in what order to try them.  Nothing is run here."""

from libc.stdint cimport int64_t

from miopyx._core cimport Device, Solver
from miopyx.engine._handle cimport Handle
from miopyx.problem._problem cimport ConvProblem
from miopyx.database._records cimport FindItem
from miopyx.database._records cimport FindRecord as StoredRecord
from ._costs cimport CostTable, table_of
from ._survey cimport Refusal, able, refusal, switched_off

from miopyx.values import config
from miopyx.database import store as databases
from . import switches
from miopyx._core import MODELS_BUILT as _MODELS_BUILT
from miopyx.errors import BadParmError
from miopyx.solvers import registry

NO_SOLUTION = "Requested convolution is not supported or Immediate mode Fallback unsuccessful."


cdef class Candidate:
    """A solver that can run a problem, and what is known of it.

    Parameters
    ----------
    solver : Solver
    time : float
        Milliseconds.
    workspace : int
        Bytes.
    source : str
        "found" (by this handle), "user" or "system" (a database), "costs" or "index" (estimated), "forced".
    """

    def __init__(self, Solver solver not None, double time, int64_t workspace, str source not None):
        self.solver, self.time, self.workspace, self.source = solver, time, workspace, source
        self.measured = source in ("found", "user", "system")

    cdef tuple _all(self):
        return self.solver, self.time, self.workspace, self.source

    def __eq__(self, other):
        return self._all() == (<Candidate> other)._all() if isinstance(other, Candidate) else NotImplemented

    def __hash__(self):
        return hash(self._all())

    def __repr__(self):
        return f"Candidate{self._all()}"


cdef Candidate _candidate(Solver solver, double time, int64_t workspace, str source, bint measured):
    cdef Candidate c = Candidate.__new__(Candidate)
    c.solver, c.time, c.workspace, c.source, c.measured = solver, time, workspace, source, measured
    return c


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


cdef FindRecord _known(Handle handle, ConvProblem problem):
    cdef FindRecord mine = handle.found.get(problem.key) if handle.found else None
    cdef StoredRecord stored
    cdef FindItem item
    cdef Candidate c
    cdef Solver solver
    cdef list candidates = [], failed
    cdef dict off = switched_off(), by_name = registry.BY_NAME
    cdef str source
    if mine is not None:
        for c in mine.candidates:
            if not off or c.solver not in off:
                candidates.append(c)
        return FindRecord(candidates, mine.skipped, mine.failed, mine.partial) if candidates else None
    store = databases.of(handle.device.info)
    found = store.find(problem)
    if found is None:
        return None
    stored, source = found
    for item in stored.items:
        solver = by_name.get(item.solver)
        if (solver is not None and item.direction == problem.c.direction
                and refusal(handle.device, problem, solver, off) is None):
            candidates.append(_candidate(solver, item.time, solver.workspace_size(handle.device, problem), source,
                                         True))
    if not candidates:
        return None
    _sort(candidates, _by_time)
    failed = [by_name[name] for name in stored.failed if name in by_name]
    return FindRecord(candidates, [Refusal(solver, "failed when it was last tried") for solver in failed], failed,
                      stored.partial, stored.stamp == store.stamp)


def known(Handle handle not None, ConvProblem problem not None):
    """Return what was measured of `problem`: by this handle, else what the user's or the system's database has.

    A record is a hint: solvers that are unknown, switched off or do not apply are dropped, workspaces computed anew.
    None where nothing is left.
    """
    return _known(handle, problem)


def covers(Handle handle not None, ConvProblem problem not None, FindRecord record not None, workspace_size=None,
           bint dynamic_only=False):
    """Whether a record says something, a time or that it failed, of every solver that would be timed now."""
    cdef Solver s
    only = switches.only()
    found = [s for s in able(handle.device, problem) if (only is None or s.id in only) and (
        workspace_size is None or s.workspace_size(handle.device, problem) <= workspace_size)]
    wanted = [s for s in found if not s.last_resort] or found
    if dynamic_only:
        wanted = [s for s in wanted if s.dynamic] or wanted
    if only is None:
        wanted = worth_timing(handle, problem, wanted)
    return all([_has(record.candidates, s) or s in record.failed for s in wanted])


# Ranking without measurements.  The first heuristic that has an answer gives the order.


cdef list _by_index(Handle handle, ConvProblem problem):
    cdef Device device = handle.device
    cdef Solver solver
    cdef double index
    cdef list ranked = []
    for solver in able(device, problem):
        if solver.dynamic:
            index = solver.wti(device, problem)
            if index > 0:
                ranked.append(_candidate(solver, 10.0 / index, solver.workspace_size(device, problem), "index", False))
    _sort(ranked, _by_time)
    return ranked


def by_index(Handle handle not None, ConvProblem problem not None):
    """Return what can run `problem`, best first by the throughput index.

    An index w stands for 10 / w milliseconds, as in MIOpen: a rank, not a prediction.  Only dynamic solvers with a
    known index take part.
    """
    return _by_index(handle, problem)


# A cost table keeps Find from timing what it should take so many times the best, and more than so many microseconds.
HOPELESS = 2.0
HOPELESS_US = 75.0


cdef list _predicted(Handle handle, ConvProblem problem, list solvers, CostTable table):
    """Microseconds of some solvers, -1 for last resorts; None where the table does not know one of the others."""
    cdef Solver solver
    cdef double time
    cdef list times = []
    for solver in solvers:
        time = -1 if solver.last_resort else table.time(handle.device, problem, solver)
        if time < 0 and not solver.last_resort:
            return None
        times.append(time)
    return times


cdef list _by_costs(Handle handle, ConvProblem problem):
    cdef CostTable table = table_of(handle.device)
    cdef Device device = handle.device
    cdef Solver solver
    cdef list solvers, times, ranked = []
    cdef Py_ssize_t i
    cdef double index
    if table is None:
        return ranked
    solvers = [s for s in able(device, problem) if (<Solver> s).dynamic]
    times = _predicted(handle, problem, solvers, table)
    if times is None:
        return ranked
    for i in range(len(solvers)):
        solver = solvers[i]
        if not solver.last_resort:
            ranked.append(_candidate(solver, <double> times[i] * 1e-3, solver.workspace_size(device, problem), "costs",
                                     False))
            continue
        index = solver.wti(device, problem)
        if index > 0:
            ranked.append(_candidate(solver, 10.0 / index, solver.workspace_size(device, problem), "index", False))
    _sort(ranked, _by_rank)
    return ranked


def by_costs(Handle handle not None, ConvProblem problem not None):
    """Return what can run `problem`, best first by the times that the device's cost table predicts.

    Nothing where the device has no table, or it does not know one of the solvers.
    """
    return _by_costs(handle, problem)


def worth_timing(Handle handle not None, ConvProblem problem not None, list solvers not None):
    """Return those of some applicable solvers that Find should time.

    A device with a cost table leaves out what should take more than `HOPELESS` times the best of them, and more than
    `HOPELESS_US` microseconds: some solvers have a program of their own for nearly each problem, which is not built.
    """
    cdef CostTable table = table_of(handle.device)
    cdef list times = None if table is None else _predicted(handle, problem, solvers, table)
    if times is None:
        return solvers
    limit = max(HOPELESS * min([time for time in times if time >= 0], default=0), HOPELESS_US)
    return [solver for solver, time in zip(solvers, times) if time <= limit]


MODELS = ()  # learned rankings; an empty answer means that the model does not know the problem


def models_asked():
    """Whether learned models may rank, by how this was built and by the environment."""
    return bool(_MODELS_BUILT and config.get("MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK"))


def ranked_by(Handle handle not None, ConvProblem problem not None):
    """Return who ranks what was not measured of `problem`, for explanations."""
    if _by_costs(handle, problem):
        table = table_of(handle.device)
        return f"the cost table {table.path} ({table.about})"
    if not _MODELS_BUILT:
        return "the throughput index (built without models)"
    if not models_asked():
        return "the throughput index (models are switched off)"
    return "the throughput index (there is no model)"


cdef list _rank(Handle handle, ConvProblem problem):
    if MODELS and models_asked():
        for model in MODELS:
            ranked = model(handle, problem)
            if ranked:
                return ranked
    return _by_costs(handle, problem) or _by_index(handle, problem)


def rank(Handle handle not None, ConvProblem problem not None):
    """Return what can run `problem`, best first, without any measurement of it."""
    return _rank(handle, problem)


cdef list _fallback(Handle handle, ConvProblem problem):
    return _rank(handle, problem) if config.get("MIOPEN_DEBUG_CONV_IMMED_FALLBACK") else []


def fallback(Handle handle not None, ConvProblem problem not None):
    """Return what `rank` says where MIOPEN_DEBUG_CONV_IMMED_FALLBACK lets it decide, else nothing."""
    return _fallback(handle, problem)


# Both


cdef list best_first(Handle handle, ConvProblem problem):
    """Everything that can run a problem: what was measured by its times, then the rest as `rank` orders it."""
    cdef FindRecord record = _known(handle, problem)
    cdef list measured = record.candidates if record is not None else [], everything = list(measured)
    cdef Candidate c
    for c in _fallback(handle, problem):
        if not _has(measured, c.solver):
            everything.append(c)
    _sort(everything, _by_rank)
    return everything


def candidates(Handle handle not None, ConvProblem problem not None):
    """Return everything that can run `problem`, best first.

    What was measured comes first, by its times, then the rest as `rank` orders it.  A last resort stays last even where
    it was the only one that a search could run.
    """
    return best_first(handle, problem)


def solver_for(Handle handle not None, ConvProblem problem not None, solution_id):
    """Return the solver of an id, or raise BadParmError: unknown, or not applicable with the reason."""
    cdef Solver solver = registry.BY_ID.get(solution_id)
    if solver is None:
        raise BadParmError("unknown solution id", "solution_id", solution_id, "an id that GetSolution returned")
    why = solver.why_not(handle.device, problem)
    if why is not None:
        raise BadParmError(f"solution {solver.name} is not applicable to this problem: {why}", "solution_id",
                           solution_id, "an id that GetSolution returned")
    return solver
