"""The k-th smallest number along an axis: its problem."""

from ._slots cimport SlotsProblem
from miopyx.values._types cimport mx_grid, mx_slots_problem

cdef enum:
    KTH_X = 0
    KTH_Y = 1
    KTH_INDICES = 2

# Numbers.
cdef enum:
    KTH_AXIS = 0           # of the input's five axes
    KTH_K = 1
    KTH_KEPT = 2           # the axis is there in the output, with length 1


cdef class KthProblem(SlotsProblem):
    pass


cdef int fill_rows(const mx_slots_problem* p, mx_grid* grid) noexcept nogil
