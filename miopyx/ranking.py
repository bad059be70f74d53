"""Which solvers can run a problem, what is known of them, and in what order to try them.  Nothing is run here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from . import config, databases, switches
from ._core import MODELS_BUILT, Solver
from ._handle import Handle
from ._problem import ConvProblem
from .errors import BadParmError
from .solvers import registry

NO_SOLUTION = "Requested convolution is not supported or Immediate mode Fallback unsuccessful."
ANOTHER_DIRECTION = "another direction"


class Candidate(NamedTuple):
    """A solver that can run a problem, and what is known of it."""

    solver: Solver
    time: float  # milliseconds
    workspace: int  # bytes
    source: str  # "found" (by this handle), "user" or "system" (a database), "index" (estimated), "forced"

    @property
    def measured(self) -> bool:
        return self.source in ("found", "user", "system")


class Refusal(NamedTuple):
    """A solver that was not taken, and why."""

    solver: Solver
    why: str


@dataclass
class FindRecord:
    """Times of a problem's solvers, fastest first, and why others have none.

    Attributes
    ----------
    failed : list of Solver
        Those that could not be built or run; `skipped` has the reason.
    partial : bool
        A search that was restricted made it: solvers that apply may be missing.
    current : bool
        This build measured it, on this device and driver.
    """

    candidates: list[Candidate]
    skipped: list[Refusal]
    failed: list[Solver]
    partial: bool = False
    current: bool = True


def survey(handle: Handle, problem: ConvProblem) -> tuple[list[Solver], list[Refusal]]:
    """Return the solvers that can run `problem`, in registry order, and the others with their reasons."""
    able, refused = [], []
    for solver in registry.CONV:
        why = solver.why_not(handle.device, problem) or switches.why_off(solver)
        if why is None:
            able.append(solver)
        else:
            refused.append(Refusal(solver, why))
    return able, refused


def known(handle: Handle, problem: ConvProblem) -> FindRecord | None:
    """Return what was measured of `problem`: by this handle, else what the user's or the system's database has.

    A record is a hint: solvers that are unknown, switched off or do not apply are dropped, workspaces computed anew.
    None where nothing is left.
    """
    mine = handle.found.get(problem.key)
    if mine is not None:
        candidates = [c for c in mine.candidates if switches.why_off(c.solver) is None]
        return FindRecord(candidates, mine.skipped, mine.failed, mine.partial) if candidates else None
    store = databases.of(handle.device.info)
    found = store.find(problem)
    if found is None:
        return None
    record, source = found
    candidates = []
    for item in record.items:
        solver = registry.BY_NAME.get(item.solver)
        if (solver is not None and item.direction == problem.direction
                and solver.why_not(handle.device, problem) is None and switches.why_off(solver) is None):
            size = solver.workspace_size(handle.device, problem)
            candidates.append(Candidate(solver, item.time, size, source))
    if not candidates:
        return None
    failed = [registry.BY_NAME[name] for name in record.failed if name in registry.BY_NAME]
    return FindRecord(sorted(candidates, key=lambda c: c.time),
                      [Refusal(solver, "failed when it was last tried") for solver in failed], failed,
                      record.partial, record.stamp == store.stamp)


def covers(handle: Handle, problem: ConvProblem, record: FindRecord, workspace_size: int | None = None,
           dynamic_only: bool = False) -> bool:
    """Whether a record says something, a time or that it failed, of every solver that would be timed now."""
    settled = {c.solver.id for c in record.candidates} | {s.id for s in record.failed}
    only = switches.only()
    able = [s for s in survey(handle, problem)[0] if (only is None or s.id in only) and (
        workspace_size is None or s.workspace_size(handle.device, problem) <= workspace_size)]
    wanted = [s for s in able if not s.last_resort] or able
    if dynamic_only:
        wanted = [s for s in wanted if s.dynamic] or wanted
    return all(solver.id in settled for solver in wanted)


# Ranking without measurements.  The first heuristic that has an answer gives the order.


def by_index(handle: Handle, problem: ConvProblem) -> list[Candidate]:
    """Return what can run `problem`, best first by the throughput index.

    An index w stands for 10 / w milliseconds, as in MIOpen: a rank, not a prediction.  Only dynamic solvers with a
    known index take part.
    """
    ranked = []
    for solver in survey(handle, problem)[0]:
        index = solver.wti(handle.device, problem)
        if solver.dynamic and index > 0:
            ranked.append(Candidate(solver, 10.0 / index, solver.workspace_size(handle.device, problem), "index"))
    return sorted(ranked, key=lambda c: c.time)


Heuristic = Callable[[Handle, ConvProblem], list[Candidate]]
MODELS: tuple[Heuristic, ...] = ()  # learned rankings; an empty answer means that the model does not know the problem


def models_asked() -> bool:
    """Whether learned models may rank, by how this was built and by the environment."""
    return bool(MODELS_BUILT and config.get("MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK"))


def rank(handle: Handle, problem: ConvProblem) -> list[Candidate]:
    """Return what can run `problem`, best first, without any measurement of it."""
    for heuristic in (*(MODELS if models_asked() else ()), by_index):
        ranked = heuristic(handle, problem)
        if ranked:
            return ranked
    return []


def fallback(handle: Handle, problem: ConvProblem) -> list[Candidate]:
    """Return what `rank` says where MIOPEN_DEBUG_CONV_IMMED_FALLBACK lets it decide, else nothing."""
    return rank(handle, problem) if config.get("MIOPEN_DEBUG_CONV_IMMED_FALLBACK") else []


def ranked_by() -> str:
    """Return who ranks what was not measured, for explanations."""
    if not MODELS_BUILT:
        return "the throughput index (built without models)"
    if not models_asked():
        return "the throughput index (models are switched off)"
    return "the throughput index (there is no model)"


def candidates(handle: Handle, problem: ConvProblem) -> list[Candidate]:
    """Return everything that can run `problem`, best first.

    What was measured comes first, by its times, then the rest as `rank` orders it.  A last resort stays last even where
    it was the only one that a search could run.
    """
    record = known(handle, problem)
    measured = record.candidates if record is not None else []
    seen = {c.solver.id for c in measured}
    rest = [c for c in fallback(handle, problem) if c.solver.id not in seen]
    return sorted(measured + rest, key=lambda c: (c.solver.last_resort, not c.measured, c.time))


def solver_for(handle: Handle, problem: ConvProblem, solution_id: int) -> Solver:
    """Return the solver of an id, or raise BadParmError: unknown, or not applicable with the reason."""
    solver = registry.BY_ID.get(solution_id)
    if solver is None:
        raise BadParmError("unknown solution id", "solution_id", solution_id, "an id that GetSolution returned")
    why = solver.why_not(handle.device, problem)
    if why is not None:
        raise BadParmError(f"solution {solver.name} is not applicable to this problem: {why}", "solution_id",
                           solution_id, "an id that GetSolution returned")
    return solver
