"""What the solvers of operations on floating-point tensors have in common."""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Problem, Solver, host_function
from miopyx.values._integers cimport ceil_div

cdef enum:
    NO_ALGORITHM = -1

# The floating-point types as kernels name them.
cdef dict TOKENS


cdef class HostLayer(Solver):
    cdef host_function function


cdef class OpenCLLayer(Solver):
    pass


cdef int64_t result_type(Problem problem) noexcept
