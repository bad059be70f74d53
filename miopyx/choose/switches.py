"""What the environment says of solvers: which are off, alone on, or configured; and all that is wrong in it."""

from __future__ import annotations

import os
from functools import cache

from miopyx._core import Solver
from miopyx.errors import BadParmError
from miopyx.solvers import registry
from miopyx.solvers.conv._base import ConvSolver
from miopyx.values import config, logs
from miopyx.values.configurations import parse_config

# Which switch covers which solvers, beside those that a solver names itself.
_ALGORITHMS = ("GEMM", "DIRECT", "FFT", "WINOGRAD", "", "IMPLICIT_GEMM")  # by miopenConvAlgorithm_t
_WINOGRAD = 3


def why_off(solver: Solver) -> str | None:
    """Return which variable switches a solver off, None where none does."""
    return off().get(solver)


def only() -> frozenset[int] | None:
    """Return the ids that MIOPEN_DEBUG_FIND_ONLY_SOLVER leaves to Find, None where it is not set.

    Raises
    ------
    BadParmError
        For an id or a name that no convolution solver has.
    """
    return _only(config.get("MIOPEN_DEBUG_FIND_ONLY_SOLVER"))


@cache
def _only(text: str) -> frozenset[int] | None:
    words = [word.strip() for word in text.split(";") if word.strip()]
    if not words:
        return None
    ids = set()
    for word in words:
        solver = registry.BY_NAME.get(word)
        if solver is None and word.isascii() and word.isdigit() and len(word) < 10:
            solver = registry.BY_ID.get(int(word))
        if solver is None:
            raise BadParmError("no such solver", "MIOPEN_DEBUG_FIND_ONLY_SOLVER", word, "an id or a name of a solver")
        ids.add(solver.id)
    return frozenset(ids)


@cache
def _overrides(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return a text's solvers with their configurations, and its parts that say none."""
    chosen, wrong = {}, []
    for part in text.split(":"):
        name, separator, values = (word.strip() for word in part.partition(";"))
        if separator and name in registry.BY_NAME and parse_config(values) is not None:
            chosen[name] = values
        elif part.strip():
            wrong.append(part)
    return chosen, tuple(wrong)


def overrides() -> dict[str, str]:
    """Return the configurations that MIOPEN_DEBUG_PERFDB_OVERRIDE names; a part that says none is reported once."""
    chosen, wrong = _overrides(config.get("MIOPEN_DEBUG_PERFDB_OVERRIDE"))
    for part in wrong:
        logs.warn_once(("environment", part), "MIOPEN_DEBUG_PERFDB_OVERRIDE: %r is passed over; allowed: "
                       "Solver;values:Solver2;values, with names of solvers and integers between commas", part[:80],
                       function="config")
    return chosen


def review() -> None:
    """Report what is wrong in the environment, whatever will be read of it, once: at the first handle."""
    config.once("reviewed", _review)


def _review() -> bool:
    for name, why in config.wrong():
        logs.warn_once(("environment", name), "%s", why, function="config")
    overrides()
    try:
        only()
    except BadParmError as e:
        logs.warn_once(("environment", "MIOPEN_DEBUG_FIND_ONLY_SOLVER"), "%s", e, function="config")
    for name in ("MIOPEN_SYSTEM_DB_PATH", "MIOPEN_USER_DB_PATH"):
        given = config.get(name)
        folder = config.expanded(given)
        # os.path's functions raise nothing, whatever the name.
        if given and not os.path.isdir(folder) and (
                name == "MIOPEN_SYSTEM_DB_PATH" or os.path.exists(folder)):  # the user's own is made
            logs.warn_once(("environment", name), "%s = %r is no folder", name, given, function="config")
    return True


def off() -> dict[Solver, str]:
    """Return all solvers that are switched off, with the reason; not to be changed."""
    found: dict[Solver, str] = config.once("solvers that are off", _off_now)
    return found


_NAMES = (*(f"MIOPEN_DEBUG_CONV_{word}" for word in _ALGORITHMS if word), "MIOPEN_DEBUG_OPENCL_CONVOLUTIONS",
          "MIOPEN_DEBUG_GCN_ASM_KERNELS", "MIOPEN_DEBUG_AMD_ROCM_PRECOMPILED_BINARIES")


def _off_now() -> dict[Solver, str]:
    own = dict.fromkeys(solver.switch for solver in registry.CONV if solver.switch is not None)
    disabled = [name for name in (*_NAMES, *own) if not config.get(name)]
    found = {}
    for solver in registry.CONV:
        covering = [f"MIOPEN_DEBUG_CONV_{_ALGORITHMS[solver.algorithm]}", solver.switch]
        if isinstance(solver, ConvSolver) and not solver.on_host:
            covering.append("MIOPEN_DEBUG_OPENCL_CONVOLUTIONS")
        if solver.assembly:
            covering.append("MIOPEN_DEBUG_GCN_ASM_KERNELS")
        if solver.algorithm == _WINOGRAD:
            covering.append("MIOPEN_DEBUG_AMD_ROCM_PRECOMPILED_BINARIES")
        for name in covering:
            if name in disabled:
                found[solver] = f"switched off by {name}"
                break
    return found
