"""Predicted times: what a solver counts of a problem, by the cost table of the device's family."""

from miopyx._core cimport Device, Solver
from miopyx.problem._problem cimport ConvProblem


cdef class CostTable:
    cdef readonly str path             # of the file, empty where it was made in memory
    cdef readonly str about            # where its times come from
    cdef dict rows                     # solver's id and wide or not, to its Row

    cdef double time(self, Device device, ConvProblem problem, Solver solver) except? -2


cdef CostTable table_of(Device device)
