"""Pooling as solvers."""

from miopyx._core cimport Device
from miopyx.values._types cimport mx_pooling_asked
from ._common cimport HostLayer, OpenCLLayer


cdef class HostPooling(HostLayer):
    pass


cdef class OpenCLPooling(OpenCLLayer):
    cdef str kind(self, Device dev, const mx_pooling_asked* asked)
