"""Choosing: which solvers can run a problem, in what order to try them, and how fast they really are.

All of this happens on the first call for a problem; afterwards the handle's invoker table answers.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ._core import Handle, Invoker, Solver
from ._problem import BiasProblem, ConvProblem
from .errors import BadParmError, MIOpenError, MIOpenNotImplementedError, UnknownError
from .solvers import registry

NO_SOLUTION = "Requested convolution is not supported or Immediate mode Fallback unsuccessful."
# A candidate that is this many times slower than the best so far in its first timed run is not run again.
CUT_OFF = 3.0
RUNS = 5
RUNS_MS = 2000.0  # and no further run of a candidate once its runs took this long together


class Candidate(NamedTuple):
    """A solver that can run a problem, and what is known of it."""

    solver: Solver
    time: float  # milliseconds
    workspace: int  # bytes
    source: str  # "found" (measured by Find) or "index" (estimated from the throughput index)


class Refusal(NamedTuple):
    """A solver that was not taken, and why."""

    solver: Solver
    why: str


@dataclass
class FindRecord:
    """What one Find measured: every solver with its time, and why each other one was left out."""

    candidates: list[Candidate]
    skipped: list[Refusal]


def survey(handle: Handle, problem: ConvProblem) -> tuple[list[Solver], list[Refusal]]:
    """Return the solvers that can run `problem`, in registry order, and the others with their reasons."""
    able, refused = [], []
    for solver in registry.CONV:
        why = solver.why_not(handle.device, problem)
        if why is None:
            able.append(solver)
        else:
            refused.append(Refusal(solver, why))
    return able, refused


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


def candidates(handle: Handle, problem: ConvProblem) -> list[Candidate]:
    """Return everything that can run `problem`, best first.

    What Find measured comes first, by its times, then what it was not let run or did not need, by index.  A last
    resort stays last even where it was the only one that a search could run.
    """
    record = handle.found.get(problem.key)
    if record is None:
        return by_index(handle, problem)
    known = {c.solver.id for c in record.candidates}
    every = record.candidates + [c for c in by_index(handle, problem) if c.solver.id not in known]
    return sorted(every, key=lambda c: (c.solver.last_resort, c.source != "found", c.time))


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


def invoker(handle: Handle, problem: ConvProblem, solver: Solver) -> Invoker:
    """Return the prepared invoker of an applicable solver, compiling it if this handle has not yet."""
    ready = handle.invoker(problem, solver.id)
    if ready is None:
        ready = Invoker(handle, solver, problem)
        handle.register(ready, solver.id)
    return ready


def bias_invoker(handle: Handle, problem: BiasProblem) -> Invoker:
    """Return the prepared invoker of a bias operation: the first solver that applies."""
    for solver in registry.BIAS:
        if solver.why_not(handle.device, problem) is None:
            ready = handle.invoker(problem, solver.id)
            if ready is None:
                ready = Invoker(handle, solver, problem)
                handle.register(ready, solver.id)
            return ready
    raise MIOpenNotImplementedError("no bias solver for this type and device")


def first(handle: Handle, problem: ConvProblem, workspace_limit: int | None = None) -> tuple[Invoker, Candidate]:
    """Return the best candidate that can be prepared within a workspace limit.

    A candidate whose kernels do not build on this device is passed over; if none is left the last failure is raised.
    """
    failure: MIOpenError | None = None
    for candidate in candidates(handle, problem):
        if workspace_limit is not None and candidate.workspace > workspace_limit:
            continue
        try:
            return invoker(handle, problem, candidate.solver), candidate
        except MIOpenError as e:
            failure = e
    if failure is not None:
        raise failure
    reasons = "; ".join(f"{r.solver.name}: {r.why}" for r in survey(handle, problem)[1] if r.why != "another direction")
    raise MIOpenNotImplementedError(f"{NO_SOLUTION} {problem!r}: {reasons}")


def algorithm_id(algorithm: int) -> int:
    """Return the key under which a handle keeps the best invoker of an algorithm; solver ids are positive."""
    return -1 - algorithm


def search(handle: Handle, problem: ConvProblem, run: Callable[[Invoker], float], workspace_size: int) -> FindRecord:
    """Time every applicable solver, return the result and keep it in the handle.

    `run` executes an invoker once on the caller's buffers and returns its milliseconds.  Solvers that need more than
    `workspace_size` bytes are skipped, naive ones are timed only when nothing else could run.
    """
    able, skipped = survey(handle, problem)
    skipped = [r for r in skipped if r.why != "another direction"]
    timed: list[Candidate] = []
    ready: dict[int, Invoker] = {}
    for last_resort in (False, True):
        if last_resort and timed:
            skipped += [Refusal(s, "last resort: timed only when nothing else runs") for s in able if s.last_resort]
            break
        for solver in able:
            if solver.last_resort != last_resort:
                continue
            need = solver.workspace_size(handle.device, problem)
            if need > workspace_size:
                skipped.append(Refusal(solver, f"needs {need} bytes of workspace, {workspace_size} given"))
                continue
            try:
                prepared = invoker(handle, problem, solver)
                best = min((c.time for c in timed), default=float("inf"))
                timed.append(Candidate(solver, _time(run, prepared, best), need, "found"))
                ready[solver.id] = prepared
            except MIOpenError as e:
                skipped.append(Refusal(solver, f"failed: {e}"))
    if not timed:
        raise UnknownError("No suitable algorithm was found to execute the required convolution. "
                           + "; ".join(f"{r.solver.name}: {r.why}" for r in skipped))
    timed.sort(key=lambda c: c.time)
    for candidate in reversed(timed):  # the fastest of an algorithm is registered last
        handle.register(ready[candidate.solver.id], algorithm_id(candidate.solver.algorithm))
    # What an earlier search timed and this one was not let run is still the best that is known of it.
    known = {c.solver.id: c for c in handle.found[problem.key].candidates} if problem.key in handle.found else {}
    known.update((c.solver.id, c) for c in timed)
    handle.found[problem.key] = FindRecord(sorted(known.values(), key=lambda c: c.time), skipped)
    return FindRecord(timed, skipped)


def _time(run: Callable[[Invoker], float], prepared: Invoker, best: float) -> float:
    """Median milliseconds of a few runs after one that is discarded."""
    run(prepared)
    times = [run(prepared)]
    while len(times) < RUNS and times[0] <= CUT_OFF * best and sum(times) < RUNS_MS:
        times.append(run(prepared))
    return statistics.median(times)


def workspace_size(handle: Handle, problem: ConvProblem) -> int:
    """Return the bytes with which every applicable solver can run."""
    able = survey(handle, problem)[0]
    if not able:
        raise UnknownError(f"no solver for {problem!r}")
    return max(solver.workspace_size(handle.device, problem) for solver in able)


@dataclass(frozen=True)
class Explanation:
    """Why a plan runs what it runs."""

    problem: str
    device: str
    chosen: Candidate
    kernels: tuple[str, ...]
    others: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        origin = {"found": "measured by Find", "index": "estimated by the throughput index", "forced": "asked for"}
        c = self.chosen
        time = f", {c.time:.4g} ms" if c.source == "found" else ""
        lines = [
            f"{self.problem} on {self.device}",
            f"solver    {c.solver.id}/{c.solver.name} ({origin[c.source]}{time})",
            f"workspace {c.workspace} bytes",
            f"kernels   {', '.join(self.kernels)}",
        ]
        width = max((len(name) for name, _ in self.others), default=0)
        return "\n".join(lines + [f"not {name:<{width}}  {why}" for name, why in self.others])


def explain(handle: Handle, problem: ConvProblem, prepared: Invoker, chosen: Candidate,
            limit: int | None = None) -> Explanation:
    """Return which solver runs, from where, and for every other one why not."""
    others = [(f"{r.solver.id}/{r.solver.name}", r.why) for r in survey(handle, problem)[1]]
    seen = False
    for other in candidates(handle, problem):
        if other.solver is chosen.solver:
            seen = True
            continue
        known = f"{other.time:.4g} ms measured" if other.source == "found" else f"index {10 / other.time:.3g}"
        if limit is not None and other.workspace > limit:
            why = f"needs {other.workspace} bytes of workspace, the limit is {limit}"
        elif chosen.source == "forced":
            why = f"another was asked for ({known})"
        elif not seen:
            why = "could not be prepared on this device"
        elif other.solver.last_resort:
            why = f"last resort ({known})"
        else:
            why = f"ranks lower ({known})"
        others.append((f"{other.solver.id}/{other.solver.name}", why))
    launches = Counter(str(s.spec) if s.spec is not None else "host function" for s in prepared.solution.steps)
    kernels = tuple(name if count == 1 else f"{count} x {name}" for name, count in launches.items())
    return Explanation(repr(problem), handle.device.name, chosen, kernels, tuple(others))
