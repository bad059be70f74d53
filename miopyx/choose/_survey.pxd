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
    cdef tuple solvers                 # the registry's, of this direction and kind of device
    cdef list answers                  # of each, None as long as nobody asked
    cdef dict off                      # solver to what switches it off

    cdef object answer_at(self, Py_ssize_t i)
    cdef object answer(self, Solver solver)
    cdef Offer offer(self, Solver solver)
    cdef list able(self)
