"""Find: take what is known of a problem, or time its solvers, as the find mode says.

All of this happens on the first call for a problem; afterwards the handle's invoker table answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter

from miopyx._core import KernelSpec, Solver
from miopyx.database import store
from miopyx.database.records import FindItem
from miopyx.engine._handle import Handle
from miopyx.engine._invoker import Invoker
from miopyx.errors import (
    AllocFailedError,
    BadParmError,
    GpuOperationsSkippedError,
    InvalidValueError,
    MIOpenError,
    UnknownError,
)
from miopyx.problem._problem import ConvProblem
from miopyx.values import _learnt, config
from miopyx.values.configurations import config_text

from . import switches
from ._ranking import Candidate, FindRecord, covers, fallback, known, rank, worth_timing
from ._survey import ANOTHER_DIRECTION, Refusal, applicable, refusals
from .preparing import first_of, invoker, tuned_config

NORMAL, FAST, HYBRID, DYNAMIC_HYBRID = 1, 2, 3, 5  # miopenConvolutionFindMode_t
# MIOPEN_FIND_ENFORCE
NONE, DB_UPDATE, SEARCH, SEARCH_DB_UPDATE, DB_CLEAN = 1, 2, 3, 4, 5
_SEARCH_SETTINGS = ("MIOPEN_DEBUG_TUNING_ITERATIONS_MAX", "MIOPEN_TUNING_TIME_MS_MAX", "MIOPEN_TUNING_PATIENCE",
                    "MIOPEN_COMPILE_PARALLEL_LEVEL")
# A candidate that is this many times slower than the best so far in its first timed run is not run again.
CUT_OFF = 3.0
RUNS = 5
RUNS_MS = 2000.0  # and no further run of a candidate once its runs took this long together
# At the end so many of the fastest run once more, in turns, if their times are so many times the fastest's at most.
FINALISTS = 3
CLOSE = 1.5

Run = Callable[[Invoker], float]  # executes an invoker on the caller's buffers, returns milliseconds of the device


def mode_of(descriptor_mode: int) -> int:
    """Return the find mode that counts: the descriptor's (0: none) or the environment's; an enforced one is NORMAL."""
    if config.get("MIOPEN_FIND_ENFORCE") != NONE:
        return NORMAL
    mode: int = descriptor_mode or config.get("MIOPEN_FIND_MODE")
    return mode if mode in (FAST, HYBRID, DYNAMIC_HYBRID) else NORMAL


def always_acts() -> bool:
    """Whether the environment makes every Find do something, whatever is known."""
    return bool(config.get("MIOPEN_FIND_ENFORCE") != NONE or config.get("MIOPEN_DEBUG_COMPILE_ONLY"))


def algorithm_id(algorithm: int) -> int:
    """Return the key under which a handle keeps the best invoker of an algorithm; solver ids are positive."""
    return -1 - algorithm


def find(handle: Handle, problem: ConvProblem, run: Run, workspace_size: int, mode: int, exhaustive: bool = False,
         budget_ms: float | None = None) -> FindRecord:
    """Return solvers that are ready to run, fastest first, as the find mode asks.

    NORMAL returns all that is known where that is everything, and times all solvers otherwise.  FAST and the hybrid
    modes return the best that is known; where nothing is, FAST takes the best by rank, HYBRID times all solvers,
    DYNAMIC_HYBRID the dynamic ones.  An exhaustive search always times.

    Parameters
    ----------
    workspace_size : int
        Bytes; what needs more is left out.
    mode : int
        What `mode_of` returned.
    exhaustive : bool
        Search for the configuration of each solver that has one and is not tuned for this problem.
    budget_ms : float, optional
        Milliseconds after which nothing new is timed.
    """
    enforced = config.get("MIOPEN_FIND_ENFORCE")
    # What is wrong with a setting is said before anything is run or stored.
    switches.only()
    for setting in _SEARCH_SETTINGS:
        config.get(setting)
    store.of(handle.device.info).refresh()
    search_asked = exhaustive or enforced in (SEARCH, SEARCH_DB_UPDATE)
    if enforced == DB_CLEAN:
        _forget_tuned(handle, problem)
    if not search_asked and enforced in (NONE, DB_UPDATE) and not config.get("MIOPEN_DEBUG_COMPILE_ONLY"):
        record = _without_timing(handle, problem, workspace_size, mode)
        if record is not None:
            return _registered(handle, problem, record)
    tuned_anew = enforced in (DB_UPDATE, SEARCH_DB_UPDATE)
    return _registered(handle, problem, time_solvers(
        handle, problem, run, workspace_size, mode == DYNAMIC_HYBRID, search_asked, tuned_anew, budget_ms))


def _without_timing(handle: Handle, problem: ConvProblem, workspace_size: int, mode: int) -> FindRecord | None:
    """Return what a mode takes without timing anything, None where it wants to time."""
    record = None if config.get("MIOPEN_DEBUG_DISABLE_FIND_DB") else known(handle, problem)
    only = switches.only()
    if record is not None:
        fitting = [c for c in record.candidates
                   if c.workspace <= workspace_size and (only is None or c.solver.id in only)]
        if not _trusted(handle, problem, record, mode, workspace_size):
            fitting = []
        ready = _prepared(handle, problem, fitting, all_of_them=mode == NORMAL)
        if ready:
            return FindRecord(ready, record.skipped, record.failed, record.partial)
    if mode == FAST or (mode != NORMAL and config.get("MIOPEN_DEBUG_FORCE_IMMED_MODE_FALLBACK")):
        ranked = [c for c in fallback(handle, problem) if only is None or c.solver.id in only]
        found = first_of(handle, problem, ranked, workspace_size)
        if found is not None:
            return FindRecord([found[1]], [], [], partial=True)
        raise _nothing(refusals(handle, problem) + [_needs(c.solver, c.workspace, workspace_size) for c in ranked])
    return None


def _trusted(handle: Handle, problem: ConvProblem, record: FindRecord, mode: int, workspace_size: int | None) -> bool:
    """Whether a mode takes a record for what there is to know.

    NORMAL wants all solvers, timed by this build.  The others take any record, but one that a restricted search left
    must not decide over solvers that it was kept from timing.
    """
    if mode == NORMAL:
        if not record.current or (record.partial and record.candidates[0].source != "found"):
            return False
        return covers(handle, problem, record, workspace_size)
    if mode == FAST:
        return not all(c.solver.last_resort for c in record.candidates) or covers(
            handle, problem, record, workspace_size)
    return not record.partial or covers(handle, problem, record, workspace_size, mode == DYNAMIC_HYBRID)


def _prepared(handle: Handle, problem: ConvProblem, ordered: list[Candidate], all_of_them: bool) -> list[Candidate]:
    """Return those of some candidates whose kernels build here, all or the first."""
    ready = []
    for candidate in ordered:
        try:
            invoker(handle, problem, candidate.solver)
        except MIOpenError:
            continue
        ready.append(candidate)
        if not all_of_them:
            break
    return ready


def _registered(handle: Handle, problem: ConvProblem, record: FindRecord) -> FindRecord:
    """Let the functions that name an algorithm find the fastest solver of each."""
    for candidate in reversed(record.candidates):  # the fastest of an algorithm is registered last
        handle.register(invoker(handle, problem, candidate.solver), algorithm_id(candidate.solver.algorithm))
    return record


def time_solvers(handle: Handle, problem: ConvProblem, run: Run, workspace_size: int, dynamic_only: bool = False,
                 search: bool = False, search_anew: bool = False, budget_ms: float | None = None) -> FindRecord:
    """Time every applicable solver, return the result, keep it in the handle and in the user's database.

    Solvers that need more than `workspace_size` bytes are skipped, naive ones are timed only when nothing else could
    run.
    """
    from . import measurements

    began = perf_counter()
    able = applicable(handle, problem)
    skipped = [r for r in refusals(handle, problem) if r.why != ANOTHER_DIRECTION]
    only, short_of_workspace, partial = switches.only(), False, False
    chosen: list[Solver] = []
    if dynamic_only and not any(s.dynamic and not s.last_resort for s in able):
        dynamic_only = False  # nothing but the last resort would be left
    for solver in able:
        need = solver.workspace_size(handle.device, problem)
        if only is not None and solver.id not in only:
            skipped.append(Refusal(solver, "left out by MIOPEN_DEBUG_FIND_ONLY_SOLVER"))
            partial = True
        elif dynamic_only and not solver.dynamic:
            skipped.append(Refusal(solver, "not dynamic: DYNAMIC_HYBRID does not time it"))
            partial = True
        elif need > workspace_size:
            skipped.append(_needs(solver, need, workspace_size))
            short_of_workspace = True
        else:
            chosen.append(solver)
    # The best guess first: it sets the mark for the cut-off, and is there if the time runs out.
    order = {c.solver.id: i for i, c in enumerate(rank(handle, problem))}
    chosen.sort(key=lambda s: (s.last_resort, order.get(s.id, len(order))))

    timed: list[Candidate] = []
    measured: dict[Solver, tuple[tuple[int, ...], int]] = {}
    failed: list[Solver] = []
    usual = [s for s in chosen if not s.last_resort]
    worthy = usual if search or only is not None else worth_timing(handle, problem, usual)
    slow = [s for s in usual if s not in worthy]
    compile_only = config.get("MIOPEN_DEBUG_COMPILE_ONLY")
    for group, otherwise in (
            (worthy, ""), (slow, "too slow by the cost table: timed only when nothing better runs"),
            ([s for s in chosen if s.last_resort], "last resort: timed only when nothing else runs")):
        if otherwise and (timed or (compile_only and group is slow)):
            skipped += [Refusal(s, otherwise) for s in group]
            continue
        broken = _compile_ahead(handle, problem, group)
        if compile_only:
            continue
        for solver in group:
            if solver.id in broken:  # not tried again in this process, which its compiler may end
                skipped.append(Refusal(solver, f"failed: {broken[solver.id]}"))
                failed.append(solver)
                continue
            left = None if budget_ms is None else budget_ms - (perf_counter() - began) * 1e3
            if left is not None and left <= 0 and timed:
                skipped.append(Refusal(solver, f"the budget of {budget_ms:g} ms was spent"))
                partial = True
                continue
            prepared = None
            try:
                prepared = invoker(handle, problem, solver)
                if search:
                    prepared = _search(handle, problem, solver, run, search_anew, left) or prepared
                best = min((c.time for c in timed), default=float("inf"))
                time, runs = _time(run, prepared, best)
                measured[solver] = prepared.config, runs
                timed.append(Candidate(solver, time, solver.workspace_size(handle.device, problem), "found"))
            except (InvalidValueError, BadParmError):
                raise  # the caller's, not the solver's
            except MIOpenError as e:
                skipped.append(Refusal(solver, f"failed: {e}"))
                if prepared is None and not isinstance(e, AllocFailedError):
                    failed.append(solver)  # what does not build will not build the next time
    if compile_only:
        raise GpuOperationsSkippedError("compiled and not run, as MIOPEN_DEBUG_COMPILE_ONLY asks")
    if not timed:
        raise _nothing(skipped)
    timed.sort(key=lambda c: c.time)
    if budget_ms is None or (perf_counter() - began) * 1e3 < budget_ms:
        timed = _run_off(handle, problem, run, timed)
    for c in timed:
        measurements.write(handle, problem, c.solver, measured[c.solver][0], c.time, measured[c.solver][1])
    record = FindRecord(timed, skipped, failed, partial or short_of_workspace)
    # As in MIOpen: with enough workspace another solver might be the fastest.  Nor is what somebody tries out alone.
    passing = only is not None or (short_of_workspace and not config.get(
        "MIOPEN_FIND_CONV_INSUFFICIENT_WORKSPACE_ALLOW_FINDDB_UPDATE"))
    _keep(handle, problem, record, passing)
    return record


def _needs(solver: Solver, need: int, given: int) -> Refusal:
    return Refusal(solver, f"needs {need} bytes of workspace, {given} given")


def _nothing(refusals: list[Refusal]) -> UnknownError:
    return UnknownError("No suitable algorithm was found to execute the required convolution. " + "; ".join(
        f"{r.solver.name}: {r.why}" for r in refusals if r.why != ANOTHER_DIRECTION))


def _keep(handle: Handle, problem: ConvProblem, record: FindRecord, passing: bool) -> None:
    """Put what was measured into the handle and the user's database, there only to correct a record if `passing`."""
    # What an earlier search timed and this one was not let run is still the best that is known of it.
    before = handle.found.get(problem.key)
    merged = {c.solver.id: c for c in before.candidates} if before is not None else {}
    merged.update((c.solver.id, c) for c in record.candidates)
    ordered = sorted(merged.values(), key=lambda c: c.time)
    handle.found[problem.key] = FindRecord(ordered, record.skipped, record.failed,
                                           record.partial and (before is None or before.partial))
    _learnt.learn()
    items = [FindItem(c.solver.name, c.time, c.workspace, problem.direction, c.solver.algorithm)
             for c in record.candidates]
    failed = [solver.name for solver in record.failed]
    store.of(handle.device.info).store_find(problem, items, record.partial, failed, known_only=passing)


def _time(run: Run, prepared: Invoker, best: float) -> tuple[float, int]:
    """Return the median milliseconds of a few runs after one that is discarded, and how many they were."""
    import statistics

    run(prepared)
    times = [run(prepared)]
    while len(times) < RUNS and times[0] <= CUT_OFF * best and sum(times) < RUNS_MS:
        times.append(run(prepared))
    return statistics.median(times), len(times)


def _run_off(handle: Handle, problem: ConvProblem, run: Run, timed: list[Candidate]) -> list[Candidate]:
    """Return candidates in the order of their times, those close to the fastest timed once more, in turns.

    Candidates that were timed one after the other may have met a machine that was busy with something else.
    """
    import statistics

    close = [c for c in timed if c.time <= CLOSE * timed[0].time][:FINALISTS]
    if len(close) < 2:
        return timed
    times: list[list[float]] = [[] for _ in close]
    for _ in range(RUNS):
        for candidate, found in zip(close, times, strict=True):
            found.append(run(invoker(handle, problem, candidate.solver)))
        if sum(map(sum, times)) > RUNS_MS * len(close):
            break
    close = [Candidate(c.solver, statistics.median(found), c.workspace, c.source)
             for c, found in zip(close, times, strict=True)]
    return sorted([*close, *timed[len(close):]], key=lambda c: c.time)


def _compile_ahead(handle: Handle, problem: ConvProblem, solvers: list[Solver]) -> dict[int, str]:
    """Build the programs of some solvers side by side; return why, for the ids of those that cannot be built."""
    from . import compiling

    specs: dict[int, set[KernelSpec]] = {}
    for solver in solvers:
        if handle.invoker(problem, solver.id) is None:
            solution = solver.solution(handle.device, problem, tuned_config(handle, problem, solver))
            specs[solver.id] = {step.spec for step in solution.steps if step.spec is not None}
    failures = {(f.spec.file, f.spec.options): f.why for f in compiling.ahead(handle, set().union(*specs.values()))}
    return {number: failures[spec.file, spec.options] for number, wanted in specs.items() for spec in wanted
            if (spec.file, spec.options) in failures}


def _search(handle: Handle, problem: ConvProblem, solver: Solver, run: Run, anew: bool,
            left_ms: float | None) -> Invoker | None:
    """Look for the configuration of a solver that has one, keep it and return its invoker; None where nothing is new.

    One that is known is kept as it is, unless `anew`, or unless the search that found it has not come to its end.
    """
    from dataclasses import replace

    from . import compiling, measurements, tuning

    if not solver.parameters(handle.device, problem):
        return None
    cache = config.cache_dir()
    folder = None if cache is None else cache / "searches"
    build = store.of(handle.device.info).stamp
    if not anew and tuned_config(handle, problem, solver) is not None and not tuning.unfinished(
            handle, problem, solver, folder, build):
        return None
    limits = tuning.Limits.from_environment()
    if left_ms is not None:
        limits = replace(limits, time_ms=min(limits.time_ms, max(left_ms, 0.0)))
    result = tuning.tune(handle, problem, solver, run, ahead=compiling.ahead, folder=folder, build=build, limits=limits)
    for values, (time, runs) in result.measured.items():
        measurements.write(handle, problem, solver, values, time, runs)
    prepared = None
    compared = result.finished or result.config != solver.default_config(handle.device, problem)
    if math.isfinite(result.time) and compared:
        store.of(handle.device.info).store_tuned(problem, solver.name, config_text(result.config))
        prepared = Invoker(handle, solver, problem, result.config)
        handle.register(prepared, solver.id)
    if result.ended_by == "interrupted":
        raise KeyboardInterrupt
    return prepared


def _forget_tuned(handle: Handle, problem: ConvProblem) -> None:
    """Delete the configurations of a problem's solvers; the next invokers take the defaults."""
    store.of(handle.device.info).drop_tuned(problem)
    for solver in applicable(handle, problem):
        if handle.invoker(problem, solver.id) is not None and solver.parameters(handle.device, problem):
            handle.register(Invoker(handle, solver, problem, tuned_config(handle, problem, solver)), solver.id)


def workspace_size(handle: Handle, problem: ConvProblem, mode: int) -> int:
    """Return the bytes of workspace that Find wants in a mode.

    FAST: what its solver needs.  Hybrid modes: the same where the problem is known.  Otherwise the most that any solver
    that would be timed needs.
    """
    if mode != NORMAL:
        record = None if config.get("MIOPEN_DEBUG_DISABLE_FIND_DB") else known(handle, problem)
        if record is not None and _trusted(handle, problem, record, mode, None):
            return record.candidates[0].workspace
        if mode == FAST or config.get("MIOPEN_DEBUG_FORCE_IMMED_MODE_FALLBACK"):
            ranked = fallback(handle, problem)
            if ranked:
                return ranked[0].workspace
    able = applicable(handle, problem)
    if not able:
        raise UnknownError(f"no solver for {problem!r}: " + "; ".join(
            f"{r.solver.name}: {r.why}" for r in refusals(handle, problem) if r.why != ANOTHER_DIRECTION))
    dynamic = [s for s in able if s.dynamic] if mode == DYNAMIC_HYBRID else []
    return max(solver.workspace_size(handle.device, problem) for solver in dynamic or able)
