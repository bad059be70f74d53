"""Pooling as solvers."""

from miopyx._core cimport Device, Solver
from miopyx._types cimport mx_pooling_problem


cdef class HostPooling(Solver):
    pass


cdef class OpenCLPooling(Solver):
    cdef str kind(self, Device dev, const mx_pooling_problem* p)
