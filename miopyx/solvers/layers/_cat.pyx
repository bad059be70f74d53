"""Concatenation: on the host path, and as copies on OpenCL devices."""

from libc.stdint cimport int64_t

from miopyx._core cimport Device, Problem, Solution
from miopyx.host._cat cimport host_cat
from miopyx.problem._cat cimport CatProblem
from miopyx.problem._slots cimport elements_of
from miopyx.values._types cimport mx_tensor
from ._common cimport HostLayer, OpenCLLayer
from ._tensor_ops cimport copy_step


cdef class HostCat(HostLayer):
    """On the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1272, "HostCat", host_cat

    cpdef str why_not(self, Device dev, Problem problem):
        return None if dev.is_host else "runs on the host path only"


cdef class OpenCLCat(OpenCLLayer):
    """On OpenCL devices: a launch of layers/tensor_ops.cl for each tensor."""

    def __cinit__(self):
        self.id, self.name = 1271, "OpenCLCat"

    cpdef str why_not(self, Device dev, Problem problem):
        return "runs on OpenCL devices only" if dev.is_host else None

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef CatProblem asked = <CatProblem> problem
        cdef int i, axis = <int> asked.c.number[0]
        cdef mx_tensor y
        cdef int64_t place = 0
        cdef list steps = []
        for i in range(asked.output):
            y = asked.c.t[asked.output]
            y.len[axis] = asked.c.t[i].len[axis]
            if elements_of(&y) != 0:
                steps.append(copy_step(dev, &asked.c.t[i], i, &y, asked.output, place * y.stride[axis]))
            place += y.len[axis]
        return Solution(steps)
