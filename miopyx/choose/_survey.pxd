"""What can run a problem."""

from miopyx._core cimport Device, Offer, Solver
from miopyx.engine._handle cimport Handle
from miopyx.problem._problem cimport ConvProblem


cdef class Refusal:
    cdef readonly Solver solver
    cdef readonly str why


cdef class Survey:
    cdef readonly Handle handle
    cdef readonly Device device
    cdef readonly ConvProblem problem
    cdef dict offers                   # solver to its offer
    cdef dict off                      # solver to what switches it off

    cdef Offer offer(self, Solver solver)
    cdef str refusal(self, Solver solver)
    cdef list able(self)
