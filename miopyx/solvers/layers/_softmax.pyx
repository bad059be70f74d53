"""Softmax: on the host path and as kernels."""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Device, KernelSpec, Problem, Solution, Step, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._grid cimport grid_lines
from miopyx.host._softmax cimport host_softmax
from miopyx.values._types cimport MX_AXES, MX_DOUBLE, MX_SOFTMAX_FORWARD, mx_grid, mx_softmax_problem
from miopyx.solvers.conv.nvidia._common cimport tensor_cores
from miopyx.problem._softmax cimport LOG, SOFTMAX_DX, SOFTMAX_DY, SOFTMAX_X, SOFTMAX_Y, SoftmaxProblem, split_axes
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div, result_type

cdef enum:
    # As in layers/softmax.cl.
    ITEMS = 0
    ROWS = 1
    COLUMNS = 2
    GROUPS = 3
    WIDEST = 64
    KEPT = 3 << 12             # numbers of a block of columns forward, where that leaves room for a vector
    SMALLEST_SHARE = 1 << 11   # elements that are worth another work-group on a CPU
    SMALL = 1 << 16            # up to here there is one work-group to a core
    NUMBERS = 64               # that a work-item of an NVIDIA GPU holds in registers, at most
    FEWER = 48                 # that others' do: with 64 AMD's gfx1030 and some of Intel's spill
    HELD = 8                   # vectors that it holds, if that is enough
    NARROW = 4                 # numbers of a vector on others: with 8 gfx1030 takes 256 registers, or spills
    DEEPEST = 256              # work-items of a GPU that share a set
    MANY = 4096                # short sets that are worth a work-item each
    SHORT = 128                # sets that a small work-group computes on a GPU


cdef bint _dense(const mx_grid* grid, int count) noexcept:
    """Whether the last axis is contiguous in each tensor."""
    cdef int i
    for i in range(count):
        if grid.len[MX_AXES - 1] > 1 and grid.stride[i][MX_AXES - 1] != 1:
            return False
    return True


cdef bint _short(Device dev, const mx_softmax_problem* p, const mx_grid* inside, const mx_grid* outside, int tensors,
                 int width, dict defines) except -1:
    """The same for layers/softmax_gpu_short.cl: short contiguous sets that are no whole vectors."""
    cdef int64_t length = inside.len[MX_AXES - 1], local = DEEPEST
    cdef int64_t held = length * width * (1 if p.what == MX_SOFTMAX_FORWARD else 2)
    cdef int t
    if (length >= NUMBERS or length * width % 16 == 0 or grid_lines(inside) != 1 or grid_lines(outside) != 1
            or outside.len[MX_AXES - 1] < MANY or not _dense(inside, tensors)):
        return False
    for t in range(tensors):
        if outside.stride[t][MX_AXES - 1] != length:
            return False
    while local > 32 and local * held > 24 << 10:
        local //= 2
    if local > dev.max_work_group or local * held > dev.local_mem:
        return False
    defines.update(COUNT=length, LOCAL=local)
    return True


cdef bint _held(Device dev, const mx_softmax_problem* p, const mx_grid* inside, const mx_grid* outside, int tensors,
                int width, dict defines) except -1:
    """Add what layers/softmax_gpu.cl wants to the defines, if a set fits a group's registers."""
    cdef int64_t length = inside.len[MX_AXES - 1], vec = 16 // width, row = outside.len[MX_AXES - 1], deep, hold
    cdef int64_t local = min(DEEPEST, dev.max_work_group), most = NUMBERS, count
    cdef bint along = _dense(inside, tensors), fits = False
    cdef int t, axis
    if grid_lines(inside) != 1 or local != DEEPEST:
        return False
    if not tensor_cores(dev):
        vec, most = min(vec, <int64_t> NARROW), FEWER
    while True:
        fits = (length if along else row) % vec == 0
        for t in range(tensors):
            if not along:
                fits = fits and inside.stride[t][MX_AXES - 1] % vec == 0
                fits = fits and (vec == 1 or outside.stride[t][MX_AXES - 1] == 1)
            for axis in range(MX_AXES - 1 + along):
                fits = fits and (outside.len[axis] == 1 or outside.stride[t][axis] % vec == 0)
        if fits:
            break
        vec //= 2
    count = length // vec if along else length
    most = most // vec // (1 if p.what == MX_SOFTMAX_FORWARD else 2)
    hold = min(most, HELD)
    # Neighbours that read together have 64 bytes, if there are as many.
    deep = 8 if along else 1
    while deep * hold < count and deep < DEEPEST:
        deep *= 2
    if deep * hold < count:
        hold = most
    if deep * hold < count:
        if not along:
            return False
        local = deep = 2 * DEEPEST if dev.max_work_group >= 2 * DEEPEST else DEEPEST
        hold = 0
    else:
        hold = ceil_div(count, deep)
    defines.update(ALONG=int(along), VEC=vec, DEEP=deep, SIDE=local // deep, HOLD=hold)
    return True


cdef class HostSoftmax(HostLayer):
    """Either direction on the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1232, "HostSoftmax", host_softmax


cdef class OpenCLSoftmax(OpenCLLayer):
    """Either direction on OpenCL devices, in one launch.

    On CPUs by vectors along a contiguous set, or across neighbouring sets; on GPUs in registers where a set fits those
    of a group, else read again for each step.
    """

    def __cinit__(self):
        self.id, self.name = 1231, "OpenCLSoftmax"

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_softmax_problem* p = &(<SoftmaxProblem> problem).c
        cdef mx_grid inside, outside
        cdef int64_t type = result_type(problem)
        cdef int tensors = split_axes(p, &inside, &outside), form = ITEMS, width = type_size(<int> type)
        cdef int64_t length = inside.len[MX_AXES - 1] * grid_lines(&inside), local = 1, block = 1, groups
        cdef int64_t sets = outside.len[MX_AXES - 1] * grid_lines(&outside), units = sets, most
        cdef bint wide = type == MX_DOUBLE, forward = p.what == MX_SOFTMAX_FORWARD
        cdef bint single = grid_lines(&inside) == 1
        cdef int vector = 8 if wide else 16
        cdef str file = "layers/softmax.cl"
        cdef dict defines = {
            "T": TOKENS[type], "ACC": "double" if wide else "float", "SCALAR": "double" if wide else "float",
            "LOG": 1 if p.algorithm == LOG else 0, "INDEX": "int" if length * sets < 1 << 31 else "long",
        }
        if dev.is_cpu:
            if single and _dense(&inside, tensors) and length > 1:
                form = ROWS
            elif single and _dense(&outside, tensors):
                form = COLUMNS
                most = KEPT // (length * vector) if forward else WIDEST
                block = vector * max(1, min(<int64_t> WIDEST, most))
                # Narrower where there would be too few blocks for all cores.
                block = max(vector, min(block, sets // (4 * dev.compute_units) // vector * vector))
                units = ceil_div(outside.len[MX_AXES - 1], block) * grid_lines(&outside)
            if form != ITEMS:
                defines["VEC"] = vector
            most = dev.compute_units * (1 if length * sets <= SMALL else 4)
            groups = max(1, min(most, units, length * sets // SMALLEST_SHARE))
        elif length > 1 and _short(dev, p, &inside, &outside, tensors, width, defines):
            file, local = "layers/softmax_gpu_short.cl", defines["LOCAL"]
            groups = ceil_div(sets, local)
        elif length > 1 and _held(dev, p, &inside, &outside, tensors, width, defines):
            file, local = "layers/softmax_gpu.cl", defines["SIDE"] * defines["DEEP"]
            units = sets if defines["ALONG"] else sets // defines["VEC"]
            groups = ceil_div(units, defines["SIDE"])
        else:
            if length > 1 and (single and _dense(&inside, tensors) or sets < 1024 and length >= SHORT):
                form, groups = GROUPS, sets
                local = 32 if length <= SHORT else 256
                while local > dev.max_work_group:  # a power of two, as the kernel's tree wants it
                    local //= 2
                defines["LOCAL"] = local
            else:
                local = min(64, dev.max_work_group)
                groups = ceil_div(sets, local)
        if file == "layers/softmax.cl":
            defines["FORM"] = form
        if forward:
            args = [Arg.slot_of(SOFTMAX_X, width), Arg.slot_of(SOFTMAX_Y, width)]
        else:
            args = [Arg.slot_of(SOFTMAX_Y, width), Arg.slot_of(SOFTMAX_DY, width), Arg.slot_of(SOFTMAX_DX, width)]
        args += [struct_arg(&inside, sizeof(inside)), struct_arg(&outside, sizeof(outside)), Arg.int64(block),
                 Arg.alpha(wide), Arg.beta(wide)]
        spec = KernelSpec(file, "softmax_forward" if forward else "softmax_backward", **defines)
        return Solution([Step(spec, args, (groups * local,), (local,))])
