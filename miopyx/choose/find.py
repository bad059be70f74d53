"""Find: take what is known of a problem, or time its solvers, as the find mode says.

All of this happens on the first call for a problem; afterwards the handle's invoker table answers.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from miopyx._core import KernelSpec, Offer, Solver
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
from miopyx.runtime import programs
from miopyx.values import _learnt, config
from miopyx.values.configurations import config_text

from . import switches
from ._ranking import Candidate, FindRecord, covers, fallback, known, rank, worth_timing
from ._survey import ANOTHER_DIRECTION, Refusal, Survey
from .explain import reasons
from .preparing import first_config, first_of, invoker, starting_config, tuned_config

if TYPE_CHECKING:
    from pathlib import Path

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


def mode_of_solutions(descriptor_mode: int) -> int:
    """Return the mode of Find 2.0, which is there to run solvers: NORMAL, unless somebody says another one."""
    return mode_of(descriptor_mode) if descriptor_mode or "MIOPEN_FIND_MODE" in os.environ else NORMAL


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
    survey = Survey(handle, problem)
    if enforced == DB_CLEAN:
        _forget_tuned(survey)
    if not search_asked and enforced in (NONE, DB_UPDATE) and not config.get("MIOPEN_DEBUG_COMPILE_ONLY"):
        record = _without_timing(survey, workspace_size, mode)
        if record is not None:
            return _registered(handle, record)
    tuned_anew = enforced in (DB_UPDATE, SEARCH_DB_UPDATE)
    return _registered(handle, time_solvers(
        survey, run, workspace_size, mode == DYNAMIC_HYBRID, search_asked, tuned_anew, budget_ms))


def _without_timing(survey: Survey, workspace_size: int, mode: int) -> FindRecord | None:
    """Return what a mode takes without timing anything, None where it wants to time."""
    record = None if config.get("MIOPEN_DEBUG_DISABLE_FIND_DB") else known(survey)
    only = switches.only()
    if record is not None:
        fitting = [c for c in record.candidates
                   if c.workspace <= workspace_size and (only is None or c.solver.id in only)]
        if not _trusted(survey, record, mode, workspace_size):
            fitting = []
        ready = _prepared(survey.handle, fitting, all_of_them=mode == NORMAL)
        if ready:
            return FindRecord(ready, record.skipped, record.failed, record.partial)
    if mode == FAST or (mode != NORMAL and config.get("MIOPEN_DEBUG_FORCE_IMMED_MODE_FALLBACK")):
        ranked = [c for c in fallback(survey) if only is None or c.solver.id in only]
        found = first_of(survey.handle, ranked, workspace_size)
        if found is not None:
            return FindRecord([found[1]], [], [], partial=True)
        raise _nothing(survey.refusals() + [_needs(c.offer, workspace_size) for c in ranked])
    return None


def _trusted(survey: Survey, record: FindRecord, mode: int, workspace_size: int | None) -> bool:
    """Whether a mode takes a record for what there is to know.

    NORMAL wants all solvers, timed by this build.  The others take any record, but one that a restricted search left
    must not decide over solvers that it was kept from timing.
    """
    if mode == NORMAL:
        if not record.current or (record.partial and record.candidates[0].source != "found"):
            return False
        return covers(survey, record, workspace_size)
    if mode == FAST:
        return not all(c.solver.last_resort for c in record.candidates) or covers(survey, record, workspace_size)
    return not record.partial or covers(survey, record, workspace_size, mode == DYNAMIC_HYBRID)


def _prepared(handle: Handle, ordered: list[Candidate], all_of_them: bool) -> list[Candidate]:
    """Return those of some candidates whose kernels build here, all or the first."""
    ready = []
    for candidate in ordered:
        try:
            invoker(handle, candidate.offer)
        except MIOpenError:
            continue
        ready.append(candidate)
        if not all_of_them:
            break
    return ready


def _registered(handle: Handle, record: FindRecord) -> FindRecord:
    """Let the functions that name an algorithm find the fastest solver of each."""
    for candidate in reversed(record.candidates):  # the fastest of an algorithm is registered last
        handle.register(invoker(handle, candidate.offer), algorithm_id(candidate.solver.algorithm))
    return record


def time_solvers(survey: Survey, run: Run, workspace_size: int, dynamic_only: bool = False, search: bool = False,
                 search_anew: bool = False, budget_ms: float | None = None) -> FindRecord:
    """Time every applicable solver, return the result, keep it in the handle and in the user's database.

    Solvers that need more than `workspace_size` bytes are skipped, naive ones are timed only when nothing else could
    run.
    """
    trial = _Trial(survey.handle, run, search, search_anew, budget_ms)
    pick = _pick(survey, workspace_size, dynamic_only)
    trial.skipped += pick.skipped
    usual, worthy = _worthy(pick, search)
    trial.time_all(worthy)
    if not config.get("MIOPEN_DEBUG_COMPILE_ONLY"):
        trial.time_otherwise([offer for offer in usual if offer not in worthy],
                             "too slow by the cost table: timed only when nothing better runs")
    trial.time_otherwise([offer for offer in pick.offers if offer.solver.last_resort],
                         "last resort: timed only when nothing else runs")
    if config.get("MIOPEN_DEBUG_COMPILE_ONLY"):
        raise GpuOperationsSkippedError("compiled and not run, as MIOPEN_DEBUG_COMPILE_ONLY asks")
    trial.search_all(worthy)
    if not trial.timed:
        raise _nothing(trial.skipped)
    timed = trial.in_order()
    trial.write_down(timed)
    record = FindRecord(timed, trial.skipped, trial.failed,
                        pick.partial or trial.cut_short or trial.unsure or pick.short_of_workspace)
    # As in MIOpen: with enough workspace another solver might be the fastest.  Nor is what somebody tries out alone.
    passing = switches.only() is not None or (pick.short_of_workspace and not config.get(
        "MIOPEN_FIND_CONV_INSUFFICIENT_WORKSPACE_ALLOW_FINDDB_UPDATE"))
    _keep(survey, record, passing)
    return record


class _Pick(NamedTuple):
    """Whom a Find times, the best guess first, and whom it passes over."""

    offers: list[Offer]
    skipped: list[Refusal]
    partial: bool  # some that could run were left out
    short_of_workspace: bool


def _pick(survey: Survey, workspace_size: int, dynamic_only: bool) -> _Pick:
    able = survey.applicable()
    skipped = [r for r in survey.refusals() if r.why != ANOTHER_DIRECTION]
    only, short_of_workspace, partial = switches.only(), False, False
    chosen: list[Offer] = []
    if dynamic_only and not any(o.solver.dynamic and not o.solver.last_resort for o in able):
        dynamic_only = False  # nothing but the last resort would be left
    for offer in able:
        if only is not None and offer.solver.id not in only:
            skipped.append(Refusal(offer.solver, "left out by MIOPEN_DEBUG_FIND_ONLY_SOLVER"))
            partial = True
        elif dynamic_only and not offer.solver.dynamic:
            skipped.append(Refusal(offer.solver, "not dynamic: DYNAMIC_HYBRID does not time it"))
            partial = True
        elif offer.workspace > workspace_size:
            skipped.append(_needs(offer, workspace_size))
            short_of_workspace = True
        else:
            chosen.append(offer)
    # The best guess first: it sets the mark for the cut-off, and is there if the time runs out.
    order = {c.solver.id: i for i, c in enumerate(rank(survey))}
    chosen.sort(key=lambda o: order.get(o.solver.id, len(order)))
    return _Pick(chosen, skipped, partial, short_of_workspace)


def _worthy(pick: _Pick, search: bool) -> tuple[list[Offer], list[Offer]]:
    """Return what is no last resort, and what of that is timed whatever comes of the rest."""
    usual = [offer for offer in pick.offers if not offer.solver.last_resort]
    return usual, usual if search or switches.only() is not None else worth_timing(usual)


def build_ahead(survey: Survey) -> int:
    """Build the programs of what `time_solvers` would time; return how many solvers could not be built.

    A Find in another process then meets them in the cache; those that are there already are not even loaded.
    """
    return len(_compile_ahead(survey.handle, _unbuilt(survey)))


def is_built(survey: Survey, is_cached: Callable[[str, str], bool]) -> bool:
    """Whether the cache has all that `build_ahead` would build, as `is_cached` says of a file and options."""
    return all(is_cached(spec.file, spec.options) for wanted in _ahead(survey).values() for spec in wanted)


def _ahead(survey: Survey) -> dict[int, set[KernelSpec]]:
    return _specs(survey.handle, _worthy(_pick(survey, sys.maxsize, False), False)[1])


def _unbuilt(survey: Survey) -> dict[int, set[KernelSpec]]:
    return {number: {spec for spec in wanted if not programs.is_cached(survey.device, spec.file, spec.options)}
            for number, wanted in _ahead(survey).items()}


def is_known(survey: Survey, search: bool) -> bool:
    """Whether a Find in NORMAL mode would time nothing; or a search nothing that is not tuned."""
    record = known(survey)
    if record is None or not _trusted(survey, record, NORMAL, None):
        return False
    return not search or not any(_untuned(offer) for offer in survey.applicable()
                                 if not offer.solver.last_resort and offer.solver not in record.failed)


class _Trial:
    """Times one offer after the other, and keeps what came out."""

    def __init__(self, handle: Handle, run: Run, search: bool, search_anew: bool, budget_ms: float | None) -> None:
        self.handle, self.run, self.search, self.search_anew = handle, run, search, search_anew
        self.budget_ms, self.began = budget_ms, perf_counter()
        self.timed: list[Candidate] = []
        self.measured: dict[Solver, tuple[tuple[int, ...], int]] = {}  # the configuration and the number of runs
        self.skipped: list[Refusal] = []
        self.failed: list[Solver] = []
        self.cut_short = False
        self.unsure = False  # a solver failed while it ran, and perhaps others after it for that reason alone

    def left_ms(self) -> float | None:
        """Return what is left of the budget, None where there is none."""
        return None if self.budget_ms is None else self.budget_ms - (perf_counter() - self.began) * 1e3

    def time_all(self, offers: list[Offer]) -> None:
        """Compile the programs of some offers side by side, then time them in turn."""
        broken = _compile_ahead(self.handle, _specs(self.handle, offers))
        if config.get("MIOPEN_DEBUG_COMPILE_ONLY"):
            return
        for offer in offers:
            left = self.left_ms()
            if offer.solver.id in broken:  # not tried again in this process, which its compiler may end
                self.skipped.append(Refusal(offer.solver, f"failed: {broken[offer.solver.id]}"))
                self._cannot_build(offer.solver)
            elif left is not None and left <= 0 and self.timed:
                self.skipped.append(Refusal(offer.solver, f"the budget of {self.budget_ms:g} ms was spent"))
                self.cut_short = True
            else:
                self.time(offer)

    def time_otherwise(self, offers: list[Offer], why: str) -> None:
        """Time some offers where nothing was timed so far; else say why they were passed over."""
        if self.timed:
            self.skipped += [Refusal(offer.solver, why) for offer in offers]
        else:
            self.time_all(offers)

    def time(self, offer: Offer) -> None:
        """Prepare an offer and time it."""
        prepared = None
        try:
            prepared = invoker(self.handle, offer)
            self._time(offer, prepared)
        except (InvalidValueError, BadParmError):
            raise  # the caller's, not the solver's
        except MIOpenError as e:
            self.skipped.append(Refusal(offer.solver, f"failed: {e}"))
            if prepared is None and not isinstance(e, AllocFailedError):
                self._cannot_build(offer.solver)
            else:
                self.unsure = True

    def _time(self, offer: Offer, prepared: Invoker) -> None:
        best = min((c.time for c in self.timed), default=float("inf"))
        time, runs = _time(self.run, prepared, best)
        self.measured[offer.solver] = prepared.config, runs
        self.timed.append(Candidate(offer, time, "found"))

    def search_all(self, offers: list[Offer]) -> None:
        """Search for the configurations of some offers, if that was asked for, until the budget is spent.

        Who is fast by the present configuration comes first; all were timed by it, so that a search that takes the
        whole budget leaves nobody without a time.
        """
        if not self.search:
            return
        times = {c.solver: c.time for c in self.timed}
        for offer in sorted(offers, key=lambda o: times.get(o.solver, math.inf)):
            left = self.left_ms()
            if left is not None and left <= 0:
                return
            if offer.solver in self.failed:
                continue
            try:
                prepared = _search(self.handle, offer, self.run, self.search_anew, left)
                if prepared is None or self.measured.get(offer.solver, (None,))[0] == prepared.config:
                    continue
                self.timed = [c for c in self.timed if c.solver is not offer.solver]
                self.skipped = [refusal for refusal in self.skipped if refusal.solver is not offer.solver]
                self._time(offer, prepared)
            except (InvalidValueError, BadParmError):
                raise
            except MIOpenError as e:
                self.unsure = True
                if offer.solver not in {c.solver for c in self.timed} | {refusal.solver for refusal in self.skipped}:
                    self.skipped.append(Refusal(offer.solver, f"failed: {e}"))

    def _cannot_build(self, solver: Solver) -> None:
        """Note what will not build the next time either, unless what ran before may have spoilt the device."""
        if not self.unsure:
            self.failed.append(solver)

    def in_order(self) -> list[Candidate]:
        """Return what was timed, the fastest first; those at the top run once more if there is time."""
        timed = sorted(self.timed, key=lambda c: c.time)
        left = self.left_ms()
        if left is not None and left <= 0:
            return timed
        try:
            return _run_off(self.handle, self.run, timed)
        except (InvalidValueError, BadParmError):
            raise
        except MIOpenError:
            self.unsure = True
            return timed

    def write_down(self, timed: list[Candidate]) -> None:
        """Add the times to the file of measurements, if there is one."""
        from . import measurements

        for c in timed:
            values, runs = self.measured[c.solver]
            measurements.write(c.offer, values, c.time, runs)


def _needs(offer: Offer, given: int) -> Refusal:
    return Refusal(offer.solver, f"needs {offer.workspace} bytes of workspace, {given} given")


def _nothing(refusals: list[Refusal]) -> UnknownError:
    return UnknownError(f"No suitable algorithm was found to execute the required convolution. {reasons(refusals)}")


def _keep(survey: Survey, record: FindRecord, passing: bool) -> None:
    """Put what was measured into the handle and the user's database, there only to correct a record if `passing`."""
    handle, problem = survey.handle, survey.problem
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


def time_one(run: Run, prepared: Invoker) -> float:
    """Return the milliseconds of an invoker as Find would time it alone."""
    return _time(run, prepared, float("inf"))[0]


def _run_off(handle: Handle, run: Run, timed: list[Candidate]) -> list[Candidate]:
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
            found.append(run(invoker(handle, candidate.offer)))
        if sum(map(sum, times)) > RUNS_MS * len(close):
            break
    close = [Candidate(c.offer, statistics.median(found), c.source)
             for c, found in zip(close, times, strict=True)]
    return sorted([*close, *timed[len(close):]], key=lambda c: c.time)


def _specs(handle: Handle, offers: list[Offer]) -> dict[int, set[KernelSpec]]:
    """Return the kernels that some offers need, by the ids of their solvers, where the handle has no invoker yet."""
    specs: dict[int, set[KernelSpec]] = {}
    for offer in offers:
        if handle.invoker(offer.problem, offer.solver.id) is None:
            solution = offer.solution(first_config(offer))
            specs[offer.solver.id] = {step.spec for step in solution.steps if step.spec is not None}
    return specs


def _compile_ahead(handle: Handle, specs: dict[int, set[KernelSpec]]) -> dict[int, str]:
    """Build some solvers' programs side by side; return why, for the ids of those that cannot be built."""
    from . import compiling

    failures = {(f.spec.file, f.spec.options): f.why for f in compiling.ahead(handle, set().union(*specs.values()))}
    return {number: failures[spec.file, spec.options] for number, wanted in specs.items() for spec in wanted
            if (spec.file, spec.options) in failures}


def _searches() -> Path | None:
    """Return the folder of what searches have tried."""
    cache = config.cache_dir()
    return None if cache is None else cache / "searches"


def _untuned(offer: Offer) -> bool:
    """Whether a search has something to look for: nothing is stored, or the search that stored it did not end."""
    from . import tuning

    return bool(offer.parameters()) and (tuned_config(offer) is None or tuning.unfinished(
        offer, _searches(), store.of(offer.device.info).stamp))


def _search(handle: Handle, offer: Offer, run: Run, anew: bool, left_ms: float | None) -> Invoker | None:
    """Look for the configuration of a solver that has one, keep it and return its invoker; None where nothing is new.

    One that is known is kept as it is, unless `anew`, or unless the search that found it has not come to its end.
    """
    from dataclasses import replace

    from . import compiling, measurements, tuning

    if not offer.parameters() or not (anew or _untuned(offer)):
        return None
    folder, database = _searches(), store.of(handle.device.info)
    build = database.stamp
    limits = tuning.Limits.from_environment()
    if left_ms is not None:
        limits = replace(limits, time_ms=min(limits.time_ms, max(left_ms, 0.0)))
    start = starting_config(offer)
    result = tuning.tune(handle, offer, run, start, ahead=compiling.ahead, folder=folder, build=build, limits=limits)
    for values, (time, runs) in result.measured.items():
        measurements.write(offer, values, time, runs)
    prepared = None
    compared = result.finished or result.config != (start or offer.default_config())
    if math.isfinite(result.time) and compared and isinstance(offer.problem, ConvProblem):
        database.store_tuned(offer.problem, offer.solver.name, config_text(result.config))
        prepared = Invoker(handle, offer, result.config)
        handle.register(prepared, offer.solver.id)
    if result.ended_by == "interrupted":
        raise KeyboardInterrupt
    return prepared


def _forget_tuned(survey: Survey) -> None:
    """Delete the configurations of a problem's solvers; the next invokers take the defaults."""
    handle = survey.handle
    store.of(handle.device.info).drop_tuned(survey.problem)
    for offer in survey.applicable():
        if handle.invoker(offer.problem, offer.solver.id) is not None and offer.parameters():
            handle.register(Invoker(handle, offer, first_config(offer)), offer.solver.id)


def workspace_size(handle: Handle, problem: ConvProblem, mode: int) -> int:
    """Return the bytes of workspace that Find wants in a mode.

    FAST: what its solver needs.  Hybrid modes: the same where the problem is known.  Otherwise the most that any solver
    that would be timed needs.
    """
    survey = Survey(handle, problem)
    if mode != NORMAL:
        record = None if config.get("MIOPEN_DEBUG_DISABLE_FIND_DB") else known(survey)
        if record is not None and _trusted(survey, record, mode, None):
            return record.candidates[0].workspace
        if mode == FAST or config.get("MIOPEN_DEBUG_FORCE_IMMED_MODE_FALLBACK"):
            ranked = fallback(survey)
            if ranked:
                return ranked[0].workspace
    able = survey.applicable()
    if not able:
        raise UnknownError(f"no solver for {problem!r}: {reasons(survey.refusals())}")
    dynamic = [o for o in able if o.solver.dynamic] if mode == DYNAMIC_HYBRID else []
    return max(offer.workspace for offer in dynamic or able)
