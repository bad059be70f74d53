"""Pooling as solvers."""

from miopyx._core cimport Device
from miopyx._types cimport mx_pooling_problem
from miopyx.solvers._layers cimport HostLayer, OpenCLLayer


cdef class HostPooling(HostLayer):
    pass


cdef class OpenCLPooling(OpenCLLayer):
    cdef str kind(self, Device dev, const mx_pooling_problem* p)
