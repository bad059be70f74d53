"""What the solvers of operations on floating-point tensors have in common."""

from libc.stdint cimport int64_t

from miopyx._core cimport Device, Problem, Solution, Solver, Step
from miopyx.values._types cimport MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_HALF

cdef dict TOKENS = {MX_HALF: "half", MX_FLOAT: "float", MX_DOUBLE: "double", MX_BFLOAT16: "bfloat16"}


cdef int64_t result_type(Problem problem) noexcept:
    """The data type that a problem computes."""
    return problem.tensor[problem.output].type


cdef class HostLayer(Solver):
    """One function of the host path.  A subclass sets id, name and function."""

    def __cinit__(self):
        self.algorithm = NO_ALGORITHM
        self.dynamic = self.deterministic = True

    cpdef str why_not(self, Device dev, Problem problem):
        if not dev.is_host:
            return "runs on the host path only"
        if result_type(problem) not in TOKENS:
            return "data type"
        return None

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef Step step = Step(None, (), ())
        step.function = self.function
        return Solution([step])


cdef class OpenCLLayer(Solver):
    """Kernels.  A subclass sets id and name, and overrides `solution`."""

    def __cinit__(self):
        self.algorithm = NO_ALGORITHM
        self.dynamic = self.deterministic = True

    cpdef str why_not(self, Device dev, Problem problem):
        cdef int64_t data_type = result_type(problem)
        if dev.is_host:
            return "runs on OpenCL devices only"
        if data_type not in TOKENS:
            return "data type"
        if data_type == MX_DOUBLE and not dev.fp64:
            return "device has no double precision"
        return None
