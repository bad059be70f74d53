"""Concatenation: its problem."""

from ._slots cimport SlotsProblem


cdef class CatProblem(SlotsProblem):
    pass
