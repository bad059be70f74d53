"""CTC loss: on the host path, and as kernels for CPUs and for GPUs."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_WORKSPACE, Arg, Device, KernelSpec, Problem, Solution, Step, struct_arg
from miopyx.host._ctc cimport host_ctc
from miopyx.problem._ctc cimport (
    CTC_BLANK, CTC_GRADIENTS, CTC_LABELS, CTC_LOSSES, CTC_PROBS, CTC_SOFTMAX, CTC_TABLE, CTCProblem, mark_of,
)
from miopyx.problem._descriptors cimport type_size
from miopyx.values._types cimport MX_DOUBLE, mx_tensor
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div

cdef extern from "layers/ctc_args.h":
    ctypedef struct mx_ctc_shape:
        int64_t steps, samples, classes
        int64_t x_stride[3]
        int64_t dx_stride[3]
        int64_t blank, mark, labels, side, sums, before, after, held

cdef enum:
    GROUPS = 4                 # of a CPU, for each core
    SHARE = 1 << 11            # classes that are worth another one
    TEAM = 256                 # work-items of a group of a GPU, at most,
    SMALLEST = 32              # and at least
    LANES = 16                 # a row's sides are whole vectors; so much is read beyond the last one


cdef class HostCTC(HostLayer):
    """On the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1274, "HostCTC", host_ctc


cdef class OpenCLCTC(OpenCLLayer):
    """On OpenCL devices: log-sums of the classes, paths from both ends, gradients of each step."""

    def __cinit__(self):
        self.id, self.name = 1273, "OpenCLCTC"

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        return self.solution(dev, problem).workspace

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef CTCProblem asked = <CTCProblem> problem
        cdef const mx_tensor* x = &asked.c.t[<int> CTC_PROBS]
        cdef const mx_tensor* dx = &asked.c.t[<int> CTC_GRADIENTS]
        cdef mx_ctc_shape s
        cdef bint wide = x.type == MX_DOUBLE, softmax = asked.c.number[<int> CTC_SOFTMAX] != 0
        cdef int64_t width = 8 if wide else 4, size = type_size(<int> x.type), rows, local, items, end
        cdef int i
        cdef dict defines = {"T": TOKENS[x.type], "ACC": "double" if wide else "float",
                             "SCALAR": "double" if wide else "float", "SOFTMAX": int(softmax)}
        memset(&s, 0, sizeof(s))
        s.steps, s.samples, s.classes = x.len[0], x.len[1], x.len[4]
        for i, axis in enumerate((0, 1, 4)):
            s.x_stride[i], s.dx_stride[i] = x.stride[<int> axis], dx.stride[<int> axis]
        s.blank, s.labels = asked.c.number[<int> CTC_BLANK], asked.c.number[<int> CTC_LABELS]
        s.mark = mark_of(&asked.c, s.labels)
        s.side = ceil_div(s.labels + 1, LANES) * LANES
        rows = s.steps * s.samples
        s.before = ceil_div(rows, LANES) * LANES if softmax else 0
        s.after = s.before + rows * 2 * s.side
        s.held = s.after + rows * 2 * s.side
        end = s.held + s.samples * 8 * s.side + LANES
        if dev.is_cpu:
            file, local = "layers/ctc_cpu.cl", 1
            defines["VEC"] = 8 if wide else 16
            rows = max(1, min(rows, GROUPS * dev.compute_units, rows * s.classes // SHARE))
            items = 1
        else:
            file, local = "layers/ctc_gpu.cl", SMALLEST
            items = SMALLEST
            while items < s.labels + 1 and 2 * items <= min(TEAM, dev.max_work_group):
                items *= 2
            while local < s.classes and 2 * local <= min(TEAM, dev.max_work_group):
                local *= 2
            if 4 * s.side * width <= 24 << 10 and (4 * s.side + TEAM) * width <= dev.local_mem:
                defines.update(HELD=1, SIDE=s.side)
        args = (
            Arg.slot_of(CTC_PROBS, size), Arg.slot_of(CTC_TABLE, 4), Arg.slot_of(CTC_LOSSES, size),
            Arg.slot_of(CTC_GRADIENTS, size), Arg.slot_of(SLOT_WORKSPACE, width), struct_arg(&s, sizeof(s)),
        )
        steps = []
        if softmax and rows:
            steps.append(_step(file, "ctc_sums", dict(defines), args, rows, local))
        steps.append(_step(file, "ctc_paths", dict(defines), args, 2 * s.samples, items))
        if rows:
            steps.append(_step(file, "ctc_gradient", dict(defines), args, rows, local))
        return Solution(steps, end * width)


cdef Step _step(str file, str entry, dict defines, tuple args, int64_t groups, int64_t local):
    if local > 1:
        defines["LOCAL"] = local
    return Step(KernelSpec(file, entry, **defines), args, (groups * local,), (local,))
