"""What can run a problem."""

from miopyx._core cimport Device, Solver
from miopyx.problem._problem cimport ConvProblem


cdef class Refusal:
    cdef readonly Solver solver
    cdef readonly str why


cdef dict switched_off()
cdef str refusal(Device device, ConvProblem problem, Solver solver, dict off)
cdef list able(Device device, ConvProblem problem)
