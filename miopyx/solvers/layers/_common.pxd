"""What the solvers of operations on floating-point tensors have in common."""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Problem, Solver, host_function
from miopyx.values._integers cimport ceil_div

# The floating-point types as kernels name them.
cdef dict TOKENS


cdef class HostLayer(Solver):
    cdef host_function function


cdef class OpenCLLayer(Solver):
    pass


cdef int64_t result_type(Problem problem) noexcept


cdef inline Arg struct_arg(const void* value, size_t size):
    """A struct that a kernel takes by value."""
    return Arg.value_of((<const unsigned char*> value)[:size])
