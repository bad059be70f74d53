"""Layer norm, RMS norm and group norm: on the host path, and as kernels for CPUs and for GPUs."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport (
    BLOCK_TERMS, SLOT_WORKSPACE, Arg, Device, KernelSpec, Problem, Solution, Step, is_streamed, struct_arg,
)
from miopyx.problem._descriptors cimport type_size
from miopyx.host._layernorm cimport host_layernorm
from miopyx.values._types cimport MX_DOUBLE, MX_NORM_BACKWARD, mx_layernorm_problem
from miopyx.problem._layernorm cimport (
    LN_BACK_DB, LN_BACK_DW, LN_BACK_WEIGHT, LN_BACK_X, LN_BACK_X2, LN_BIAS, LN_MEAN, LN_RSTD, LN_WEIGHT, LN_X, LN_X2,
    LayerNormProblem, has,
)
from miopyx.solvers.conv.nvidia._common cimport has_wgmma, tensor_cores
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div

cdef extern from "layers/layernorm_args.h":
    ctypedef struct mx_norm_shape:
        int64_t rows, length, groups, spatial, parts, part, columns, plane

cdef enum:
    KEPT = 16384               # numbers of a row that a CPU keeps, as HELD of layers/layernorm_cpu.cl
    SHARE = 1 << 11            # elements that are worth another work-group on a CPU
    SHARES = 4                 # work-groups for each core of a CPU,
    GPU_SHARES = 16            # for each unit of a GPU
    CPU_PART = 1 << 14         # elements of a part of a row on CPUs, at least
    GPU_PART = 1 << 13         # and on GPUs
    TEAM = 256                 # work-items of a group of a GPU, unless a row needs more,
    ROWS_TEAM = 128            # and where no columns are summed
    BYTES = 64                 # of a row that a work-item of a GPU holds,
    MOST_BYTES = 128           # at most
    NUMBERS = 16               # that it holds where it sums columns, too
    HALVES = 2                 # bytes of 16-bit numbers
    LARGEST = 1024             # work-items of a group,
    LARGEST_ELSEWHERE = 256    # and where nobody measured that: 128 registers for each do not hold what it should
    STAGED = 512               # work-items of a group whose rows are on their way into local memory
    HOPPER_MEM = 226 << 10     # local memory of a group, of compute capability 9.0
    LOCAL_MEM = 96 << 10       # and of others
    SUMS_MEM = 25 << 10        # of it for sums
    MOST_ROWS = 1 << 30        # of kernels that count them with 32 bits
    SMALLEST = 32              # work-items of a group that sums a channel
    WIDE = 8                   # columns that a group of a GPU adds up


cdef class HostLayerNorm(HostLayer):
    """Either direction on the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1262, "HostLayerNorm", host_layernorm


# What kernels of whole rows alone are told.
cdef frozenset ROWS_ALONE = frozenset(("KEEP", "HOLD", "SIDE", "FULL", "STAGES", "BACK"))


cdef dict _defines(const mx_layernorm_problem* p):
    cdef bint back = p.what == MX_NORM_BACKWARD
    cdef bint wide = p.x.type == MX_DOUBLE
    cdef dict defines = {
        "T": TOKENS[p.x.type], "ACC": "double" if wide else "float", "SCALAR": "double" if wide else "float",
        "RMS": p.rms, "ADD": int(has(p, LN_BACK_X2 if back else LN_X2)),
        "WEIGHT": int(has(p, LN_BACK_WEIGHT if back else LN_WEIGHT)), "SPATIAL": int(p.spatial > 1),
    }
    weight = p.weight.type if p.weight.len[0] else p.bias.type if p.bias.len[0] else p.x.type
    statistics = p.rstd.type if p.rstd.len[0] else p.mean.type if p.mean.len[0] else p.x.type
    defines.update(P_TYPE=TOKENS[weight], S_TYPE=TOKENS[statistics])
    if back:
        defines.update(DW=int(has(p, LN_BACK_DW)), DB=int(has(p, LN_BACK_DB)))
    else:
        defines.update(BIAS=int(has(p, LN_BIAS)), MEAN=int(has(p, LN_MEAN)), RSTD=int(has(p, LN_RSTD)))
    return defines


cdef tuple _arguments(LayerNormProblem problem, const mx_norm_shape* shape, bint space, int64_t offset=0):
    """The arguments of every kernel of a direction, as layers/layernorm.h lists them; `offset` is the workspace's."""
    cdef const mx_layernorm_problem* p = &problem.c
    cdef bint wide = p.x.type == MX_DOUBLE, back = p.what == MX_NORM_BACKWARD
    cdef int slot
    cdef list args = []
    cdef Arg x = Arg.slot_of(LN_BACK_X if back else LN_X, type_size(<int> p.x.type))
    for slot in range(problem.count):  # what is not there is not touched: x stands in for it
        args.append(Arg.slot_of(slot, type_size(<int> problem.tensor[slot].type)) if has(p, slot) else x)
    args.append(Arg.slot_of(SLOT_WORKSPACE, 8 if wide else 4, offset) if space else x)
    args.append(struct_arg(shape, sizeof(mx_norm_shape)))
    if not back:
        args.append(Arg.scalar_of(0, wide))
    return tuple(args)


cdef Step _step(str file, str entry, dict defines, tuple args, int64_t groups, int64_t local):
    return Step(KernelSpec(f"layers/layernorm_{file}.cl", entry, **defines), args, (groups * local,), (local,))


cdef Step _finish(Device dev, LayerNormProblem problem, mx_norm_shape* shape, dict defines, int64_t parts):
    """The launch that adds up `parts` parts of dw and db."""
    cdef mx_norm_shape s = shape[0]
    s.parts = parts
    cdef int64_t local = 1 if dev.is_cpu else min(TEAM, dev.max_work_group)
    cdef int64_t groups = ceil_div(s.columns, WIDE)
    if dev.is_cpu:
        groups = max(1, min(dev.compute_units, s.columns * parts // SHARE))
    defines = {name: value for name, value in defines.items() if name not in ROWS_ALONE}
    defines.update(DEEP=local, VEC=8 if problem.c.x.type == MX_DOUBLE else 16)
    if not dev.is_cpu:
        defines.update(VEC=1, WIDE=WIDE)
    return _step("parts", "norm_finish", defines, _arguments(problem, &s, True), groups, local)


cdef Solution _in_parts(Device dev, LayerNormProblem problem, mx_norm_shape* s, dict defines, int64_t vec,
                        int64_t local):
    """Rows that many groups share."""
    cdef const mx_layernorm_problem* p = &problem.c
    cdef int64_t width = 8 if p.x.type == MX_DOUBLE else 4, smallest = CPU_PART if dev.is_cpu else GPU_PART
    cdef int64_t most = (SHARES if dev.is_cpu else GPU_SHARES) * dev.compute_units
    cdef int64_t wanted = max(1, most // p.rows), samples = p.rows // p.groups, blocks, sums
    cdef int64_t columns_parts = 0, at = 0, few
    cdef bint back = p.what == MX_NORM_BACKWARD, spatial = p.spatial > 1
    cdef list steps = []
    cdef mx_norm_shape columns = s[0]
    defines = {name: value for name, value in defines.items() if name != "STAGES"}
    defines.update(DEEP=local, VEC=vec)
    wanted = max(1, min(wanted, p.length // smallest))
    s.part = ceil_div(ceil_div(p.length, wanted), vec) * vec
    s.parts = ceil_div(p.length, s.part)
    if not back:
        defines["MOMENTS"] = 1
        args = _arguments(problem, s, True)
        return Solution([_step("parts", "norm_moments", defines, args, p.rows * s.parts, local),
                         _step("parts", "norm_normalise", defines, args, p.rows * s.parts, local)],
                        3 * width * p.rows * s.parts)
    if spatial:  # the sums of channels are those of dw and db
        args = _arguments(problem, s, True)
        few = local
        while few > SMALLEST and few // 2 * vec >= p.spatial:
            few //= 2
        steps = [_step("parts", "norm_sums", dict(defines, DEEP=few), args, p.rows * (p.length // p.spatial), few),
                 _step("parts", "norm_gradient", defines, args, p.rows * s.parts, local)]
        if defines["DW"] or defines["DB"]:
            steps.append(_finish(dev, problem, s, defines, samples))
        return Solution(steps, 2 * samples * s.plane * width)
    if defines["DW"] or defines["DB"]:  # before dx is written, which may be dy or x
        blocks = ceil_div(s.columns, local * vec)
        columns_parts = max(ceil_div(samples, BLOCK_TERMS),
                            min(samples, most // blocks, max(1, samples // 4)))
        columns.parts = columns_parts
        steps = [_step("parts", "norm_columns", defines, _arguments(problem, &columns, True), blocks * columns_parts,
                       local),
                 _finish(dev, problem, s, defines, columns_parts)]
        at = 2 * columns_parts * s.plane
    sums = 2 * p.rows * s.parts
    args = _arguments(problem, s, True, at)
    steps += [_step("parts", "norm_sums", defines, args, p.rows * s.parts, local),
              _step("parts", "norm_gradient", defines, args, p.rows * s.parts, local)]
    return Solution(steps, (at + sums) * width)


cdef Solution _on_cpu(Device dev, LayerNormProblem problem, mx_norm_shape* s):
    cdef const mx_layernorm_problem* p = &problem.c
    cdef bint back = p.what == MX_NORM_BACKWARD, wide = p.x.type == MX_DOUBLE, sums
    cdef int64_t vec = 8 if wide else 16, groups, size = type_size(<int> p.x.type)
    cdef dict defines = _defines(p)
    cdef list steps
    if p.rows < dev.compute_units and p.length >= 2 * CPU_PART:
        return _in_parts(dev, problem, s, defines, vec, 1)
    defines["VEC"] = vec
    if is_streamed(dev, p.rows * p.length * size):
        defines["STREAM"] = 1
    groups = max(1, min(SHARES * dev.compute_units, p.rows, p.rows * p.length // SHARE))
    if not back:
        if p.length <= KEPT and (defines["T"] != defines["ACC"] or defines["ADD"]):
            defines["KEEP"] = 1
        return Solution([_step("cpu", "norm_forward", defines, _arguments(problem, s, False), groups, 1)])
    sums = defines["DW"] or defines["DB"]
    if sums:  # each part begins with zeros, and has few terms
        groups = max(1, min(dev.compute_units, groups, p.rows // 4))
        groups = max(groups, ceil_div(p.rows, p.groups * BLOCK_TERMS))
    steps = [_step("cpu", "norm_backward", defines, _arguments(problem, s, sums), groups, 1)]
    if sums:
        steps.append(_finish(dev, problem, s, defines, groups))
    return Solution(steps, 2 * groups * s.plane * (8 if wide else 4) if sums else 0)


cdef int64_t _power_of_two(int64_t n) noexcept:
    """The largest that is not above n."""
    while n & (n - 1):
        n &= n - 1
    return n


cdef Solution _on_gpu(Device dev, LayerNormProblem problem, mx_norm_shape* s):
    cdef const mx_layernorm_problem* p = &problem.c
    cdef bint back = p.what == MX_NORM_BACKWARD
    cdef int64_t size = type_size(<int> p.x.type), vec = 16 // size
    cdef int64_t most = _power_of_two(min(LARGEST if tensor_cores(dev) else LARGEST_ELSEWHERE, dev.max_work_group))
    cdef int64_t local = min(TEAM, most), deep = 8, hold, count
    cdef int64_t room = (HOPPER_MEM if has_wgmma(dev) else LOCAL_MEM) - SUMS_MEM
    cdef dict defines = _defines(p)
    cdef bint sums = back and (defines["DW"] or defines["DB"]), copies
    while p.length % vec or (p.spatial > 1 and p.spatial % vec):
        vec //= 2
    copies = tensor_cores(dev) and most >= STAGED and vec * size == 16 and not defines["ADD"]
    count = p.length // vec
    if sums:
        hold = max(1, NUMBERS // (2 if size == 8 else 1) // vec)
        # Two stages of two tensors, or one of rows that are twice as long.
        copies = copies and (size == HALVES or STAGED * hold < count) and 4 * STAGED * hold * 16 <= room
        if copies:
            local = most = STAGED
            defines["STAGES"] = 2
            if most * hold < count:
                hold *= 2
                defines["STAGES"] = 1
        elif not tensor_cores(dev) and most * hold < count and not defines["ADD"]:
            hold *= 2
        while deep * hold < count and deep < most:
            deep *= 2
    else:
        hold = BYTES // (vec * size)
        while deep * hold < count and deep < local:
            deep *= 2
        local = min(ROWS_TEAM, most)
        if deep * hold < count:
            hold *= MOST_BYTES // BYTES
        while deep * hold < count and deep < most:
            deep *= 2
        if deep * hold < count and copies and not back and deep * ceil_div(count, deep) * 16 <= room:
            defines["STAGES"] = 1
            hold = ceil_div(count, deep)
    if deep * hold < count or p.rows > MOST_ROWS or (sums and (p.spatial > 1 or p.groups > 1)):
        return _in_parts(dev, problem, s, defines, vec, min(TEAM, most))
    hold = ceil_div(count, deep)
    local = max(local, deep)
    defines.update(VEC=vec, DEEP=deep, SIDE=local // deep, HOLD=hold, FULL=int(count == deep * hold),
                   BACK=int(back))
    groups = ceil_div(p.rows, local // deep)
    if not back:
        return Solution([_step("gpu", "norm_forward", defines, _arguments(problem, s, False), groups, local)])
    if sums:
        groups = max(min(groups, dev.compute_units * (1 if copies else max(1, 2 * TEAM // local))),
                     ceil_div(p.rows, BLOCK_TERMS * (local // deep)))
    steps = [_step("gpu", "norm_backward", defines, _arguments(problem, s, sums), groups, local)]
    if sums:
        steps.append(_finish(dev, problem, s, defines, groups))
    return Solution(steps, 2 * groups * s.plane * (8 if size == 8 else 4) if sums else 0)


cdef class OpenCLLayerNorm(OpenCLLayer):
    """Either direction on OpenCL devices.

    On CPUs a work-item has some rows, on GPUs a work-group has one or more in its registers; backward each adds up what
    its rows give to the gradients of weights and biases, and a second launch adds these sums.  Rows that are too long
    or too few for that are cut in parts.
    """

    def __cinit__(self):
        self.id, self.name = 1261, "OpenCLLayerNorm"

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        return self.solution(dev, problem).workspace

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef LayerNormProblem asked = <LayerNormProblem> problem
        cdef const mx_layernorm_problem* p = &asked.c
        cdef mx_norm_shape s
        memset(&s, 0, sizeof(s))
        s.rows, s.length, s.groups, s.spatial, s.parts = p.rows, p.length, p.groups, p.spatial, 1
        s.columns = p.groups * (p.length // p.spatial)
        s.plane = ceil_div(s.columns, 16) * 16 + 16
        return _on_cpu(dev, asked, &s) if dev.is_cpu else _on_gpu(dev, asked, &s)
