"""Multi-margin loss: its problem."""

from ._slots cimport SlotsProblem

cdef enum:
    MULTI_X = 0
    MULTI_TARGET = 1
    MULTI_WEIGHT = 2
    MULTI_Y = 3

# Numbers.
cdef enum:
    MULTI_REDUCTION = 0    # miopenLossReductionMode_t
    MULTI_P = 1


cdef class MultiMarginProblem(SlotsProblem):
    pass
