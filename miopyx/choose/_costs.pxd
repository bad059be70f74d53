"""Predicted times: what a solver counts of a problem, by the cost table of the device's family."""

from miopyx._core cimport Device, Offer
from miopyx.solvers.conv._base cimport MOST_TERMS


cdef class _Row:
    cdef double[MOST_TERMS] costs
    cdef double spread


cdef class CostTable:
    cdef readonly str path             # of the file, empty where it was made in memory
    cdef readonly str about            # where its times come from
    cdef dict rows                     # solver's id and wide or not, to its Row

    cdef _Row row(self, Offer offer)
    cdef double time(self, Offer offer) except? -2
    cdef double time_of(self, Offer offer, double* terms) except? -2
    cdef double spread_of(self, Offer offer) except? -2


cdef CostTable table_of(Device device)
