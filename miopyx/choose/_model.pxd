"""A learned model: predicted times of solvers, by gradient-boosted trees over a cost table's."""

from libc.stdint cimport uint16_t, uint32_t

from miopyx._core cimport Device, Offer, Solver
from miopyx.solvers.conv._base cimport ConvOffer
from ._costs cimport CostTable
from ._survey cimport Survey

cdef enum:
    OF_PROBLEM = 38                    # numbers that say what a problem is, and on which device
    MOST_NUMBERS = 64                  # of a problem and a solver
    MOST_PARAMETERS = 8                # of a configuration that is predicted

# A node's right child stands `right` nodes behind it, its left child right behind it; a leaf's value is what it adds.
cdef struct node_t:
    float value
    uint16_t number, right


cdef class Trees:
    cdef readonly Solver solver
    cdef readonly double error         # of the predicted logarithm, on problems that were not fitted
    cdef uint32_t[::1] roots
    cdef node_t* nodes                 # of the whole model

    cdef double value(self, const float* numbers) noexcept nogil


cdef class Model:
    cdef readonly str path             # of the file, empty where it was made in memory
    cdef readonly str about            # where its times come from
    cdef readonly CostTable table      # what the trees correct
    cdef readonly double margin        # of errors, within which two candidates are equal
    cdef dict trees                    # solver's id to its Trees
    cdef dict starts                   # solver's id to the Trees of its configurations
    cdef readonly dict cards           # names of the GPUs that were fitted to their clocks and bandwidths
    cdef bytes data                    # what `nodes` lie in
    cdef float[OF_PROBLEM] low, high       # of the problems that were fitted

    cdef int _set(self, list lines, bytes nodes) except -1
    cdef Py_ssize_t _plant(self, Trees trees, int count, Py_ssize_t first, Py_ssize_t last) except -1
    cdef int _set_numbers(self, ConvOffer offer, float* number) except -1
    cdef double error_of(self, Trees trees, Offer offer) except? -2
    cdef bint _knows(self, const float* number) noexcept nogil
    cpdef tuple start(self, ConvOffer offer)
    cdef int times(self, list offers, list found) except -1


cdef tuple models_of(Device device)
