"""What can run a problem: one walk over the registry, whose answers whoever chooses shares."""

from miopyx.values._guard cimport mx_guard, mx_guard_lock, mx_guard_unlock
from miopyx._core cimport Device, Offer, Solver
from miopyx.engine._handle cimport Handle
from miopyx.problem._problem cimport ConvProblem
from miopyx.solvers.conv._base cimport ConvSolver

from . import switches
from miopyx.solvers import registry

ANOTHER_DIRECTION = "another direction"


cdef class Refusal:
    """A solver that was not taken, and why."""

    def __init__(self, Solver solver not None, str why not None):
        self.solver, self.why = solver, why

    def __repr__(self):
        return f"{self.solver.name}: {self.why}"


cdef mx_guard _guard   # of what follows
cdef tuple _split = (None, ())  # a registry, and of each direction, on the host and elsewhere, who may run anything


cdef tuple those_of(int direction, bint on_host):
    """The registry's solvers but for those of another direction or of the other kind of device."""
    global _split
    cdef tuple everything = registry.CONV, split
    mx_guard_lock(&_guard)
    split = _split
    mx_guard_unlock(&_guard)
    if everything is not split[0]:
        split = everything, tuple([
            tuple([s for s in everything if _may(<Solver?> s, i // 2, i % 2)]) for i in range(6)])
        mx_guard_lock(&_guard)
        _old, _split = _split, split  # goes when the guard does
        mx_guard_unlock(&_guard)
    return <tuple> (<tuple> split[1])[2 * direction + on_host]


cdef bint _may(Solver solver, int direction, bint on_host) except -1:
    """Whether a solver may have an offer; one that is written in Python has to be asked."""
    if not isinstance(solver, ConvSolver):
        return True
    return (<ConvSolver> solver).direction == direction and (<ConvSolver> solver).on_host == on_host


cdef object _asked(Solver solver, Device device, ConvProblem problem):
    """An offer whose workspace is a buffer that the device can have or, as a text, why there is none."""
    cdef object answer = solver.offer(device, problem)
    if isinstance(answer, str):
        return answer
    if (<Offer?> answer).workspace > device.max_alloc and not device.is_host:
        return (f"needs {(<Offer> answer).workspace} bytes of workspace, buffers of the device have {device.max_alloc} "
                "at most")
    return answer


cdef class Survey:
    """What all solvers say of a problem on a handle's device, each asked when that is first needed, and once.

    One survey goes with a call: who ranks, times, searches or prepares takes the offers from it.  What the environment
    switches off is read when it begins.  Solvers of another direction or kind of device are asked for reasons alone.
    """

    def __init__(self, Handle handle not None, ConvProblem problem not None):
        self.handle, self.device, self.problem = handle, handle.device, problem
        self.solvers, self.off = those_of(problem.c.direction, self.device.is_host), switches.off()
        self.answers = [None] * len(self.solvers)

    cdef object answer_at(self, Py_ssize_t i):
        """The answer of solver i: an offer or, as a text, why not; what is off answers, too."""
        cdef object answer = self.answers[i]
        if answer is None:
            answer = self.answers[i] = _asked(<Solver> self.solvers[i], self.device, self.problem)
        return answer

    cdef object answer(self, Solver solver):
        """A solver's answer."""
        cdef Py_ssize_t i
        for i in range(len(self.solvers)):
            if self.solvers[i] is solver:
                return self.answer_at(i)
        return _asked(solver, self.device, self.problem)  # refused, or one that the registry knows by its id alone

    cdef Offer offer(self, Solver solver):
        """The offer of a solver that can run the problem and is not off, None of any other."""
        if self.off and solver in self.off:
            return None
        answer = self.answer(solver)
        return None if isinstance(answer, str) else <Offer?> answer

    cdef list able(self):
        """The offers of the solvers that can run the problem, in registry order."""
        cdef Py_ssize_t i
        cdef object answer
        cdef list found = []
        for i in range(len(self.solvers)):
            answer = self.answer_at(i)
            if not isinstance(answer, str) and (not self.off or self.solvers[i] not in self.off):
                found.append(answer)
        return found

    def applicable(self):
        """Return the offers of the solvers that can run the problem, in registry order."""
        return self.able()

    def refusals(self):
        """Return all other solvers with their reasons, in registry order."""
        cdef list found = []
        for solver in registry.CONV:
            answer = self.answer(solver)
            if isinstance(answer, str):
                found.append(Refusal(solver, answer))
            elif solver in self.off:
                found.append(Refusal(solver, self.off[solver]))
        return found
