"""From a solver to an invoker: its configuration looked up, its programs built, the result kept in the handle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from miopyx._core import KernelSpec, Offer
from miopyx.database import store
from miopyx.engine._handle import Handle
from miopyx.engine._invoker import Invoker
from miopyx.errors import BadParmError, MIOpenError, MIOpenNotImplementedError, UnknownError
from miopyx.problem._problem import ConvProblem, Problem
from miopyx.solvers import registry
from miopyx.values import logs
from miopyx.values.configurations import parse_config

from . import _model, switches
from ._ranking import NO_SOLUTION, Candidate, candidates, models_asked
from ._survey import Refusal, Survey
from .explain import grouped, reasons

if TYPE_CHECKING:
    from collections.abc import Iterator

    from miopyx._core import Solution


def tuned_config(offer: Offer) -> tuple[int, ...] | None:
    """Return the configuration that a search found, None for the solver's default.

    A stored text that does not parse or that the solver does not accept is a hint that misleads: it is passed over.
    """
    if not isinstance(offer.problem, ConvProblem) or not offer.parameters():
        return None
    name = offer.solver.name
    stored = switches.overrides().get(name)
    if stored is None:
        stored = store.of(offer.device.info).tuned(offer.problem).get(name)
    if stored is None:
        return None
    values = parse_config(stored)
    if values is None or not offer.accepts(values):
        logs.warn_once((name, stored), "%s takes its default configuration: %r is none of its own", name, stored[:80],
                       function="tuned_config")
        return None
    return values


def first_config(offer: Offer) -> tuple[int, ...] | None:
    """Return the configuration that a solver takes before anybody searches: what an earlier search found, else what the
    device's model predicts, else None, the solver's default.
    """
    tuned = tuned_config(offer)
    return starting_config(offer) if tuned is None else tuned


def starting_config(offer: Offer) -> tuple[int, ...] | None:
    """Return the configuration that the device's model predicts to be the fastest, None for the solver's default."""
    return _model.start(offer) if offer.parameters() and models_asked() else None


def invoker(handle: Handle, offer: Offer) -> Invoker:
    """Return the prepared invoker of an offer, compiling it if this handle has not yet."""
    ready = handle.invoker(offer.problem, offer.solver.id)
    if ready is None:
        ready = Invoker(handle, offer, first_config(offer))
        handle.register(ready, offer.solver.id)
    return ready


def with_config(handle: Handle, made: Invoker, values: tuple[int, ...]) -> Invoker:
    """Return an invoker of the same problem and solver with another configuration, which the handle does not keep.

    Raises
    ------
    BadParmError
        Where the solver has no such configuration.
    """
    offer = made.solver.offer(handle.device, made.problem)
    if isinstance(offer, str) or not offer.accepts(values):
        raise BadParmError("not a configuration of the solver", "solution", values, f"one of {made.solver.name}'s")
    return Invoker(handle, offer, values)


def first_applicable(handle: Handle, problem: Problem) -> Invoker:
    """Return the prepared invoker of an operation that is not a convolution: of the first solver that applies.

    Where one does not build on this device the next one is taken; where all fail the last failure is raised.
    """
    failure: MIOpenError | None = None
    refused = []
    for solver in registry.others(problem):
        offer = solver.offer(handle.device, problem)
        if isinstance(offer, str):
            refused.append((solver.name, offer))
            continue
        try:
            return Invoker(handle, _with_parts(handle, offer))
        except MIOpenError as e:
            failure = e
    if failure is not None:
        raise failure
    # That others run elsewhere would send a reader there, where the same reason is given.
    here = [(who, why) for who, why in refused if not (why.startswith("runs on ") and why.endswith(" only"))]
    raise MIOpenNotImplementedError(f"No solver found. {problem!r}: "
                                    + "; ".join(f"{who}: {why}" for who, why in grouped(here or refused)))


def workspace(handle: Handle, problem: Problem) -> int:
    """Return the bytes that are enough for whatever `first_applicable` takes; no program is built."""
    offers = [solver.offer(handle.device, problem) for solver in registry.others(problem)]
    sizes = [_with_parts(handle, offer).solution().workspace for offer in offers if not isinstance(offer, str)]
    # Where no workspace is a buffer that the device can have, the call itself says so.
    return max([size for size in sizes if size <= handle.device.max_alloc] or sizes, default=0)


def _with_parts(handle: Handle, offer: Offer) -> Offer:
    """Give each part of an offer, a problem within a problem, the steps that this handle would take for it alone."""
    for part in offer.parts or ():
        for solution in _solutions(handle, part.problem):
            if part.take(solution):
                break
        else:
            raise MIOpenNotImplementedError(f"No solver found for a part of {offer.problem!r}: {part.problem!r}")
    return offer


def _solutions(handle: Handle, problem: Problem) -> Iterator[Solution]:
    """Yield solutions of a problem, the best first; of convolutions those with programs for any length first."""
    if not isinstance(problem, ConvProblem):
        for solver in registry.others(problem):
            offer = solver.offer(handle.device, problem)
            if not isinstance(offer, str):
                yield offer.solution()
        return
    for candidate in sorted(candidates(Survey(handle, problem)), key=lambda c: not c.solver.dynamic):
        yield candidate.offer.solution(first_config(candidate.offer))


def allowed(survey: Survey) -> list[Candidate]:
    """Return the candidates that MIOPEN_DEBUG_FIND_ONLY_SOLVER leaves to plans.

    The host path, by which others are verified, keeps its own where none of them is named.

    Raises
    ------
    BadParmError
        Where the variable has an id or a name that no convolution solver has.
    """
    ordered, only = candidates(survey), switches.only()
    if only is None:
        return ordered
    left = [c for c in ordered if c.solver.id in only]
    return left if left or not survey.device.is_host else ordered


def _nothing(survey: Survey) -> MIOpenNotImplementedError:
    """Return the error that says why no solver is taken."""
    left_out = [Refusal(c.solver, "left out by MIOPEN_DEBUG_FIND_ONLY_SOLVER") for c in candidates(survey)]
    return MIOpenNotImplementedError(f"{NO_SOLUTION} {survey.problem!r}: {reasons(survey.refusals() + left_out)}")


def best_of(handle: Handle, problem: ConvProblem, algorithm: int | None = None,
            workspace_limit: int | None = None) -> tuple[Invoker, Candidate]:
    """Return the best candidate of an algorithm that can be prepared within a workspace limit.

    Raises
    ------
    MIOpenNotImplementedError
        Where no solver of the algorithm runs the problem; the message has the reasons.
    UnknownError
        Where all that do need more workspace.
    """
    survey = Survey(handle, problem)
    able = [c for c in allowed(survey) if algorithm is None or c.solver.algorithm == algorithm]
    if not able:
        raise _nothing(survey) if algorithm is None else MIOpenNotImplementedError(
            f"{NO_SOLUTION} {problem!r}: no solver of algorithm {algorithm} takes it")
    ready = first_of(handle, able, workspace_limit)
    if ready is None:
        raise UnknownError("workspace is smaller than any solution needs", "workspaceSizeInBytes", workspace_limit,
                           f">= {min(c.workspace for c in able)} bytes")
    return ready


def build_ahead(handle: Handle, problems: list[ConvProblem]) -> None:
    """Build the programs of each problem's first candidate, all at once; what fails is for `first` to report."""
    from . import compiling

    specs: list[KernelSpec | None] = []
    for problem in problems:
        ordered = allowed(Survey(handle, problem))
        if ordered and handle.invoker(problem, ordered[0].solver.id) is None:
            offer = ordered[0].offer
            specs += [step.spec for step in offer.solution(first_config(offer)).steps]
    compiling.ahead(handle, specs)


def first(handle: Handle, problem: ConvProblem, workspace_limit: int | None = None) -> tuple[Invoker, Candidate]:
    """Return the best candidate that can be prepared within a workspace limit.

    A candidate whose kernels do not build on this device is passed over; if none is left the last failure is raised.
    """
    survey = Survey(handle, problem)
    ready = first_of(handle, allowed(survey), workspace_limit)
    if ready is not None:
        return ready
    raise _nothing(survey)


def first_of(handle: Handle, ordered: list[Candidate],
             workspace_limit: int | None) -> tuple[Invoker, Candidate] | None:
    """Return the first of some candidates that can be prepared within a workspace limit, None where none fits.

    Where all that fit fail the last failure is raised.
    """
    failure: MIOpenError | None = None
    for candidate in ordered:
        if workspace_limit is not None and candidate.workspace > workspace_limit:
            continue
        try:
            return invoker(handle, candidate.offer), candidate
        except MIOpenError as e:
            failure = e
    if failure is not None:
        raise failure
    return None
