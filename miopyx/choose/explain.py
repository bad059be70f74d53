"""Why a plan runs what it runs, and not something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from miopyx.engine._handle import Handle
from miopyx.engine._invoker import Invoker
from miopyx.problem._problem import ConvProblem, Problem
from miopyx.solvers import registry

from . import switches
from ._ranking import Candidate, candidates, doubts, ranked_by
from ._survey import ANOTHER_DIRECTION, Refusal, Survey

NAMED = 3  # solvers of one reason that are named, not counted


def grouped(refused: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return, for names and reasons, each reason once: the names where they are few, else how many, and the reason."""
    names: dict[str, list[str]] = {}
    for name, why in refused:
        names.setdefault(why, []).append(name)
    return [(", ".join(some) if len(some) <= NAMED else f"{len(some)} solvers", why) for why, some in names.items()]


def reasons(refused: Iterable[Refusal]) -> str:
    """Return why nothing could be taken, for a message; solvers of another direction need no word."""
    return "; ".join(f"{who}: {why}" for who, why in grouped(
        (r.solver.name, r.why) for r in refused if r.why != ANOTHER_DIRECTION))


class Explanation(NamedTuple):
    """What a plan runs, from where that is known, and for every other solver why not."""

    problem: str
    device: str
    chosen: Candidate
    origin: str
    config: tuple[int, ...]
    kernels: tuple[str, ...]
    others: tuple[tuple[str, str], ...]
    doubts: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        c = self.chosen
        time = f", {c.time:.4g} ms{'' if c.measured else ' predicted'}" if c.measured or c.predicted else ""
        lines = [
            f"{self.problem} on {self.device}",
            f"solver    {c.solver.id}/{c.solver.name} ({self.origin}{time})",
            *(f"unsure    {model}: {why}" for model, why in self.doubts),
            *([f"config    {','.join(map(str, self.config))}"] if self.config else []),
            f"workspace {c.workspace} bytes",
            f"kernels   {', '.join(self.kernels)}",
        ]
        others = grouped(self.others)
        width = min(max((len(names) for names, _ in others), default=0), 48)
        return "\n".join(lines + [f"not {names:<{width}}  {why}" for names, why in others])


def explain(handle: Handle, problem: ConvProblem, prepared: Invoker, chosen: Candidate,
            limit: int | None = None, learnt_since: bool = False) -> Explanation:
    """Return which solver runs, from where, and for every other one why not.

    `learnt_since` says that more may be known now than when the choice was made.
    """
    survey = Survey(handle, problem)
    others = [(f"{r.solver.id}/{r.solver.name}", r.why) for r in survey.refusals()]
    seen, only = False, None if chosen.source == "forced" else switches.only()
    if only is not None and chosen.solver.id not in only:
        only = None  # the host path's own, see preparing.allowed
    for other in candidates(survey):
        if other.solver is chosen.solver:
            seen = True
            continue
        about = _about(other)
        if limit is not None and other.workspace > limit:
            why = f"needs {other.workspace} bytes of workspace, the limit is {limit}"
        elif only is not None and other.solver.id not in only:
            why = f"left out by MIOPEN_DEBUG_FIND_ONLY_SOLVER ({about})"
        elif chosen.source == "forced":
            why = f"another was asked for ({about})"
        elif not seen and learnt_since:
            why = f"ranks higher by what was learnt since ({about})"
        elif not seen:
            why = "could not be prepared on this device"
        elif other.solver.last_resort:
            why = f"last resort ({about})"
        else:
            why = f"ranks lower ({about})"
        others.append((f"{other.solver.id}/{other.solver.name}", why))
    unsure = () if chosen.measured or chosen.source == "forced" else tuple(
        (path.name, why) for path, why in doubts(survey))
    origin = {"found": "measured by Find", "user": "from the user's find-db", "system": "from the system's find-db",
              "forced": "asked for"}.get(chosen.source) or f"chosen by {ranked_by(survey)}"
    launches = Counter(str(s.spec) if s.spec is not None else "host function" for s in prepared.solution.steps)
    kernels = tuple(name if count == 1 else f"{count} x {name}" for name, count in launches.items())
    return Explanation(repr(problem), handle.device.name, chosen, origin, prepared.config, kernels, tuple(others),
                       unsure)


def _about(candidate: Candidate) -> str:
    if candidate.measured:
        return f"{candidate.time:.4g} ms measured"
    if candidate.predicted:
        return f"{candidate.time:.4g} ms predicted"
    return f"index {10 / candidate.time:.3g}"


def explain_first(handle: Handle, problem: Problem, prepared: Invoker) -> str:
    """Return which solver runs an operation that is not a convolution, and why not those before it."""
    launches = Counter(str(s.spec) if s.spec is not None else "host function" for s in prepared.solution.steps)
    lines = [
        f"{problem!r} on {handle.device.name}",
        f"solver    {prepared.solver.id}/{prepared.solver.name} (the first that applies)",
        f"workspace {prepared.solution.workspace} bytes",
        f"kernels   {', '.join(name if n == 1 else f'{n} x {name}' for name, n in launches.items())}",
    ]
    for solver in registry.others(problem):
        if solver is not prepared.solver:
            why = solver.why_not(handle.device, problem) or "another one comes first"
            lines.append(f"not {solver.id}/{solver.name}  {why}")
    return "\n".join(lines)
