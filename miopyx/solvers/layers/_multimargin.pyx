"""Multi-margin loss: on the host path, and as kernels."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_WORKSPACE, Arg, Device, KernelSpec, Problem, Solution, Step, struct_arg
from miopyx.host._multimargin cimport host_multimargin
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._multimargin cimport (
    MULTI_P, MULTI_REDUCTION, MULTI_TARGET, MULTI_WEIGHT, MULTI_X, MULTI_Y, MultiMarginProblem,
)
from miopyx.values._types cimport MX_AXES, MX_DOUBLE, MX_FLOAT, mx_bias_problem, mx_slots_problem, mx_tensor
from ._bias cimport sum_steps
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div

cdef extern from "layers/rows_args.h":
    ctypedef struct mx_margin_shape:
        int64_t rows, classes
        int64_t x_stride[2]
        int64_t target_stride, weight_stride, y_stride

cdef enum:
    NONE = 0
    MEAN = 2
    GROUPS = 4             # of a CPU, for each core
    SHARE = 1 << 13        # elements that are worth another one
    TEAM = 256             # work-items of a group of a GPU, at most


cdef class HostMultiMargin(HostLayer):
    """On the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1282, "HostMultiMargin", host_multimargin


cdef class OpenCLMultiMargin(OpenCLLayer):
    """On OpenCL devices: one launch, and those that sum the losses of all rows."""

    def __cinit__(self):
        self.id, self.name = 1281, "OpenCLMultiMargin"

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        return self.solution(dev, problem).workspace

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_slots_problem* p = &(<MultiMarginProblem> problem).c
        cdef const mx_tensor* x = &p.t[<int> MULTI_X]
        cdef mx_margin_shape s
        cdef mx_bias_problem sum
        cdef bint wide = x.type == MX_DOUBLE, reduced = p.number[<int> MULTI_REDUCTION] != NONE
        cdef int64_t local = 1, groups, size = type_size(<int> x.type), width = 8 if wide else 4, space = 0, vec = 1
        cdef int axis
        memset(&s, 0, sizeof(s))
        s.rows, s.classes, s.x_stride[0], s.x_stride[1] = x.len[0], x.len[1], x.stride[0], x.stride[1]
        s.target_stride, s.weight_stride = p.t[<int> MULTI_TARGET].stride[0], p.t[<int> MULTI_WEIGHT].stride[0]
        s.y_stride = 1 if reduced else p.t[<int> MULTI_Y].stride[0]
        if dev.is_cpu:
            groups = max(1, min(s.rows, GROUPS * dev.compute_units, s.rows * s.classes // SHARE))
            if s.x_stride[1] == 1 and s.classes >= 16:
                vec = 8 if wide else 16
        else:
            groups, local = s.rows, 32
            while 2 * local <= min(<int64_t> TEAM, dev.max_work_group) and 4 * local <= s.classes:
                local *= 2
        real = "double" if wide else "float"
        token = TOKENS[x.type]
        y = Arg.slot_of(MULTI_Y, size)
        if reduced:
            y = Arg.slot_of(SLOT_WORKSPACE, width)
            space = ceil_div(s.rows * width, 64) * 64
        spec = KernelSpec("layers/margin.cl", "margin_rows", T=token, Y_TYPE=real if reduced else token, ACC=real,
                          SCALAR=real, SQUARED=int(p.number[<int> MULTI_P] == 2), LOCAL=local, VEC=vec)
        args = (Arg.slot_of(MULTI_X, size), Arg.slot_of(MULTI_TARGET, 8), Arg.slot_of(MULTI_WEIGHT, size), y,
                struct_arg(&s, sizeof(s)), Arg.scalar_of(0, wide))
        steps = [Step(spec, args, (groups * local,), (local,))]
        if reduced:
            memset(&sum, 0, sizeof(sum))
            for axis in range(MX_AXES):
                sum.y.len[axis] = sum.b.len[axis] = 1
            sum.y.type, sum.y.len[0], sum.y.stride[0] = MX_DOUBLE if wide else MX_FLOAT, s.rows, 1
            sum.b.type = x.type
            more, behind = sum_steps(
                dev, &sum, Arg.slot_of(MULTI_Y, size), Arg.slot_of(SLOT_WORKSPACE, width), space,
                Arg.real(1.0 / s.rows if p.number[<int> MULTI_REDUCTION] == MEAN else 1, wide), Arg.real(0, wide))
            steps += more
            space += behind
        return Solution(steps, space)
