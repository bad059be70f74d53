"""The two bias operations of the convolution API: on the host path and as kernels."""

from libc.stdint cimport int64_t

from miopyx._core cimport SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Problem, Solution, Solver, Step
from miopyx._descriptors cimport type_size
from miopyx._problem cimport BiasProblem
from miopyx._reference._bias cimport host_bias
from miopyx._types cimport (
    MX_AXES, MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_FORWARD, MX_HALF, mx_bias_problem,
)

cdef enum:
    NO_ALGORITHM = -1

cdef dict TOKENS = {MX_HALF: "half", MX_FLOAT: "float", MX_DOUBLE: "double", MX_BFLOAT16: "bfloat16"}


cdef class HostBias(Solver):
    """Either direction on the host path."""

    def __cinit__(self):
        self.id, self.name, self.algorithm = 1021, "HostBias", NO_ALGORITHM
        self.dynamic = self.deterministic = True

    cpdef str why_not(self, Device dev, Problem problem):
        if not dev.is_host:
            return "runs on the host path only"
        if (<BiasProblem> problem).c.y.type not in TOKENS:
            return "data type"
        return None

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef Step step = Step(None, (), ())
        step.function = host_bias
        return Solution([step])


cdef class OpenCLBias(Solver):
    """Either direction on OpenCL devices."""

    def __cinit__(self):
        self.id, self.name, self.algorithm = 1022, "OpenCLBias", NO_ALGORITHM
        self.dynamic = self.deterministic = True

    cpdef str why_not(self, Device dev, Problem problem):
        if dev.is_host:
            return "runs on OpenCL devices only"
        data_type = (<BiasProblem> problem).c.y.type
        if data_type not in TOKENS:
            return "data type"
        if data_type == MX_DOUBLE and not dev.fp64:
            return "device has no double precision"
        return None

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_bias_problem* p = &(<BiasProblem> problem).c
        cdef bint wide = p.y.type == MX_DOUBLE, forward = p.direction == MX_FORWARD
        cdef int64_t local = 256, items = 1
        cdef int i
        cdef dict defines
        while local > dev.max_work_group:  # a power of two, as the kernel's tree wants it
            local //= 2
        defines = {
            "Y_TYPE": TOKENS[p.y.type], "ACC": "double" if dev.fp64 else "float",
            "SCALAR": "double" if wide else "float", "ROWS": 1 if dev.is_cpu else 0, "LOCAL": local,
        }
        args = (
            Arg.slot_of(SLOT_X, type_size(<int> p.b.type)), Arg.slot_of(SLOT_Y, type_size(<int> p.y.type)),
            Arg.value_of((<const unsigned char*> p)[:sizeof(mx_bias_problem)]), Arg.alpha(wide), Arg.beta(wide),
        )
        if forward and dev.is_cpu:
            items, local = p.y.len[0] * p.y.len[1], 1
        elif forward:
            for i in range(MX_AXES):
                items *= p.y.len[i]
            items = (items + local - 1) // local * local
        else:
            for i in range(MX_AXES):
                items *= p.b.len[i]
            local = 1 if dev.is_cpu else local
            items *= local
        spec = KernelSpec("conv_bias.cl", "bias_forward" if forward else "bias_backward", **defines)
        return Solution([Step(spec, args, (items,), (local,))])
