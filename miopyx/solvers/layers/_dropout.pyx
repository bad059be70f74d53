"""Dropout: on the host path, and as kernels for CPUs and for GPUs."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport Arg, Device, KernelSpec, Problem, Solution, Step, is_streamed, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._grid cimport grid_lines
from miopyx.host._dropout cimport host_dropout, host_states
from miopyx.values._types cimport MX_AXES, MX_DOUBLE, MX_DROPOUT_STATES, mx_dropout_problem, mx_grid
from miopyx.problem._dropout cimport (
    DROPOUT_DRAWN, DROPOUT_GIVEN, DROPOUT_MASK, DROPOUT_PLACES, DROPOUT_STATES, DROPOUT_X, DROPOUT_Y, DropoutProblem,
    least_of, scale_of, walk_dropout,
)
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div

cdef extern from "layers/dropout_args.h":
    ctypedef struct mx_dropout:
        mx_grid g
        int64_t count

cdef enum:
    LAST = MX_AXES - 1
    UNROLL = 4                 # vectors that a work-item of a GPU reads at once where the mask is given
    MOST_GROUPS = 1 << 20      # of a GPU
    SHARES = 4                 # work-groups of a CPU, for each core
    SHARE = 1 << 12            # elements that are worth another one
    BLOCK = 64                 # that a CPU draws at once
    TEAM = 256                 # work-items of a group of a GPU


cdef class HostDropout(HostLayer):
    """Both directions, and the states, on the host path."""

    def __cinit__(self):
        self.id, self.name = 1286, "HostDropout"

    cpdef str why_not(self, Device dev, Problem problem):
        return None if dev.is_host else "runs on the host path only"

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef Step step = Step(None, (), ())
        step.function = host_states if (<DropoutProblem> problem).c.what == MX_DROPOUT_STATES else host_dropout
        return Solution([step])


cdef class OpenCLDropout(OpenCLLayer):
    """Both directions, and the states, on OpenCL devices, each in one launch."""

    def __cinit__(self):
        self.id, self.name = 1285, "OpenCLDropout"

    cpdef str why_not(self, Device dev, Problem problem):
        if dev.is_host:
            return "runs on OpenCL devices only"
        if (<DropoutProblem> problem).c.x.type == MX_DOUBLE and not dev.fp64:
            return "device has no double precision"
        return None

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_dropout_problem* p = &(<DropoutProblem> problem).c
        cdef mx_dropout s
        cdef bint wide = p.x.type == MX_DOUBLE, drawn = p.mask != DROPOUT_GIVEN, dense
        cdef int64_t size = type_size(<int> p.x.type), groups, local = 1, vec = 8 if size == 2 else 4
        cdef str file = f"layers/dropout_{'cpu' if dev.is_cpu else 'gpu'}.cl", real = "double" if wide else "float"
        cdef Arg x = Arg.slot_of(DROPOUT_X, size)
        cdef dict defines = {}
        if not dev.is_cpu:
            local = TEAM
            while local > dev.max_work_group:
                local //= 2
            defines["LOCAL"] = local
        if p.what == MX_DROPOUT_STATES:
            args = (Arg.slot_of(DROPOUT_STATES, 8), *[Arg.scalar_of(i, False) for i in range(3)])
            return Solution([Step(KernelSpec(file, "dropout_states", **defines), args, (local,), (local,))])
        memset(&s, 0, sizeof(s))
        walk_dropout(p, &s.g)
        s.count = grid_lines(&s.g) * s.g.len[LAST]
        defines.update(T=TOKENS[p.x.type], ACC=real, SCALAR=real, MASKS=p.mask, EVOLVES=int(p.evolves))
        if dev.is_cpu:
            defines["STREAM"] = int(is_streamed(dev, 2 * s.count * size))
            groups = max(1, min(SHARES * dev.compute_units, s.count // SHARE, ceil_div(s.count, BLOCK)))
        else:
            dense = s.g.len[LAST] == s.count and s.g.stride[1][LAST] == 1 and s.g.stride[2][LAST] == 1
            groups = ceil_div(ceil_div(s.count, vec), local * (1 if drawn else UNROLL))
            defines.update(VEC=vec, DENSE=int(dense), UNROLL=UNROLL)
        groups = min(groups, DROPOUT_PLACES if drawn else MOST_GROUPS)
        # What is not there is not touched: x stands in for it.
        args = (
            x, Arg.slot_of(DROPOUT_Y, size),
            Arg.slot_of(DROPOUT_MASK, 1) if p.mask != DROPOUT_DRAWN else x,
            Arg.slot_of(DROPOUT_STATES, 8) if p.mask != DROPOUT_GIVEN else x,
            struct_arg(&s, sizeof(s)), Arg.int32(least_of(p.p)), Arg.real(scale_of(p.p), wide),
        )
        return Solution([Step(KernelSpec(file, "dropout_apply", **defines), args, (groups * local,), (local,))])
