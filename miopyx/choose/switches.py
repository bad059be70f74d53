"""Solvers that the environment switches off, by algorithm, by how they are written, or one by one."""

from __future__ import annotations

from functools import cache

from miopyx._core import Solver
from miopyx.errors import BadParmError
from miopyx.solvers import registry
from miopyx.solvers.conv._base import ConvSolver
from miopyx.values import config

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
        if solver is None and word.isascii() and word.isdigit():
            solver = registry.BY_ID.get(int(word))
        if solver is None:
            raise BadParmError("no such solver", "MIOPEN_DEBUG_FIND_ONLY_SOLVER", word, "an id or a name of a solver")
        ids.add(solver.id)
    return frozenset(ids)


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
