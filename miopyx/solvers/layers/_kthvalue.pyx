"""The k-th smallest number along an axis: on the host path, and as kernels."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport Arg, Device, KernelSpec, Problem, Solution, Step, struct_arg
from miopyx.host._kthvalue cimport host_kth
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._grid cimport grid_lines
from miopyx.problem._kthvalue cimport KTH_AXIS, KTH_INDICES, KTH_K, KTH_X, KTH_Y, KthProblem, fill_rows
from miopyx.values._types cimport MX_DOUBLE, mx_grid, mx_slots_problem
from ._common cimport TOKENS, HostLayer, OpenCLLayer

cdef extern from "layers/rows_args.h":
    ctypedef struct mx_kth_shape:
        mx_grid g
        int64_t rows, length, step, k

cdef enum:
    GROUPS = 4             # of a CPU, for each core
    SHARE = 1 << 12        # elements that are worth another one
    TEAM = 256             # work-items of a group of a GPU, at most


cdef class HostKth(HostLayer):
    """On the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1278, "HostKthValue", host_kth


cdef class OpenCLKth(OpenCLLayer):
    """On OpenCL devices, in one launch: a work-item or a work-group counts the bytes of a row's keys."""

    def __cinit__(self):
        self.id, self.name = 1277, "OpenCLKthValue"

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_slots_problem* p = &(<KthProblem> problem).c
        cdef mx_kth_shape s
        cdef int axis = <int> p.number[<int> KTH_AXIS]
        cdef int64_t local = 1, groups, size = type_size(<int> p.t[<int> KTH_X].type)
        memset(&s, 0, sizeof(s))
        fill_rows(p, &s.g)
        s.rows, s.length = grid_lines(&s.g) * s.g.len[4], p.t[<int> KTH_X].len[axis]
        s.step, s.k = p.t[<int> KTH_X].stride[axis], p.number[<int> KTH_K]
        if dev.is_cpu:
            groups = max(1, min(s.rows, GROUPS * dev.compute_units, s.rows * s.length // SHARE))
        else:
            groups, local = s.rows, 32
            while 2 * local <= min(<int64_t> TEAM, dev.max_work_group) and 4 * local <= s.length:
                local *= 2
        real = "double" if p.t[<int> KTH_X].type == MX_DOUBLE else "float"
        spec = KernelSpec("layers/kth.cl", "kth", T=TOKENS[p.t[<int> KTH_X].type], ACC=real, SCALAR=real, LOCAL=local)
        args = (Arg.slot_of(KTH_X, size), Arg.slot_of(KTH_Y, size), Arg.slot_of(KTH_INDICES, 8),
                struct_arg(&s, sizeof(s)))
        return Solution([Step(spec, args, (groups * local,), (local,))])
