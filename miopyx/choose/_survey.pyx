"""What can run a problem: one walk over the registry, whose answers whoever chooses shares."""

from miopyx._core cimport Device, Offer, Solver
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


cdef class Survey:
    """All offers for a problem on a handle's device, each asked for when it is first needed, and once.

    One survey goes with a call: who ranks, times, searches or prepares takes the offers from it.  What the environment
    switches off is read when it begins.
    """

    def __init__(self, Handle handle not None, ConvProblem problem not None):
        self.handle, self.device, self.problem = handle, handle.device, problem
        self.offers, self.off = {}, switches.off()

    cdef Offer offer(self, Solver solver):
        """A solver's offer, which may refuse."""
        cdef object known = self.offers.get(solver)
        if known is None:
            known = self.offers[solver] = solver.offer(self.device, self.problem)
        return <Offer?> known

    cdef str refusal(self, Solver solver):
        """Why a solver is out of the question, None where it is not."""
        cdef str why = self.offer(solver).refusal
        return self.off.get(solver) if why is None and self.off else why

    cdef list able(self):
        """The offers of the solvers that can run the problem, in registry order."""
        cdef Solver solver
        cdef list found = []
        for solver in solvers():
            if self.refusal(solver) is None:
                found.append(self.offer(solver))
        return found

    def applicable(self):
        """Return the offers of the solvers that can run the problem, in registry order."""
        return self.able()

    def refusals(self):
        """Return all other solvers with their reasons, in registry order."""
        pairs = [(solver, self.refusal(solver)) for solver in solvers()]
        return [Refusal(solver, why) for solver, why in pairs if why is not None]
