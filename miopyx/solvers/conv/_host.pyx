"""The host path: implicit GEMM in float64, any type, strides and rank (see miopyx/host)."""

from miopyx._core cimport Device, Solution, Step
from miopyx.host._conv cimport host_conv
from miopyx.values._types cimport MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_DOUBLE, MX_FORWARD, mx_conv_problem
from ._base cimport IMPLICIT_GEMM, ConvSolver, sum_terms

cdef class _HostImplicitGemm(ConvSolver):
    def __cinit__(self):
        self.algorithm = IMPLICIT_GEMM
        self.dynamic = self.deterministic = self.on_host = self.float8 = True

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        return None

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return 1.0

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        return sum_terms(p) * (1.0 if p.w.type == MX_DOUBLE else 2.0 ** -29)   # in float64 all the time

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef Step step = Step(None, (), ())
        step.function = host_conv
        return Solution([step])


cdef class HostImplicitGemmFwd(_HostImplicitGemm):
    """Forward on the host path."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1001, "HostImplicitGemmFwd", MX_FORWARD


cdef class HostImplicitGemmBwd(_HostImplicitGemm):
    """Backward data on the host path."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1002, "HostImplicitGemmBwd", MX_BACKWARD_DATA


cdef class HostImplicitGemmWrw(_HostImplicitGemm):
    """Backward weights on the host path."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1003, "HostImplicitGemmWrw", MX_BACKWARD_WEIGHTS
