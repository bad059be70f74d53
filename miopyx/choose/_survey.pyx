"""What can run a problem: one walk over the registry, without an object for a solver that cannot."""

from miopyx._core cimport Device, Solver
from miopyx.engine._handle cimport Handle
from miopyx.problem._problem cimport ConvProblem

from . import switches
from miopyx.solvers import registry

ANOTHER_DIRECTION = "another direction"


cdef class Refusal:
    """A solver that was not taken, and why."""

    def __init__(self, Solver solver not None, str why not None):
        self.solver, self.why = solver, why

    def __repr__(self):
        return f"{self.solver.name}: {self.why}"


cdef dict switched_off():
    """What the environment switches off: solver to the reason."""
    return switches.off()


cdef str refusal(Device device, ConvProblem problem, Solver solver, dict off):
    """Why a solver is out of the question, None where it is not; `off` is what `switched_off` returned."""
    cdef str why = solver.why_not(device, problem)
    return off.get(solver) if why is None and off else why


cdef tuple _checked = None


cdef tuple solvers():
    """The registry, of which everything is a Solver."""
    global _checked
    cdef tuple found = registry.CONV
    if found is not _checked:
        for solver in found:
            <Solver?> solver
        _checked = found
    return found


cdef list able(Device device, ConvProblem problem):
    """The solvers that can run a problem, in registry order."""
    cdef tuple everything = solvers()
    cdef dict off = switched_off()
    cdef list found = []
    cdef Py_ssize_t i
    for i in range(len(everything)):
        if (<Solver> everything[i]).why_not(device, problem) is None:
            if not off or everything[i] not in off:
                found.append(everything[i])
    return found


def applicable(Handle handle not None, ConvProblem problem not None):
    """Return the solvers that can run `problem`, in registry order."""
    return able(handle.device, problem)


def refusals(Handle handle not None, ConvProblem problem not None):
    """Return all other solvers with their reasons, in registry order."""
    off = switched_off()
    pairs = [(solver, refusal(handle.device, problem, solver, off)) for solver in registry.CONV]
    return [Refusal(solver, why) for solver, why in pairs if why is not None]
