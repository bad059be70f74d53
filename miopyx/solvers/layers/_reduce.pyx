"""Reductions: on the host path, and as kernels for CPUs and for GPUs."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport (
    BLOCK_TERMS, SLOT_WORKSPACE, Arg, Device, KernelSpec, Problem, Solution, Step, struct_arg,
)
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._grid cimport grid_lines
from miopyx.host._reduce cimport host_reduce
from miopyx.values._types cimport MX_AXES, mx_grid, mx_reduce_problem, mx_tensor
from miopyx.problem._reduce cimport (
    REDUCE_A, REDUCE_C, REDUCE_INDEX, ReduceProblem, has, split_reduction,
)
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div

cdef extern from "layers/reduce_args.h":
    ctypedef struct mx_reduce:
        mx_grid kept, reduced
        int64_t count, length, parts, part, blocks, block

cdef enum:
    LAST = MX_AXES - 1
    # layers/reduce_cpu.cl's WHAT.
    ALONG = 0
    ACROSS = 1
    FINISH = 2
    SHARES = 4                 # work-groups of a CPU, for each core
    SHARE_BYTES = 1 << 15      # less is not worth another one
    PART = 1 << 13             # numbers of a part, at least
    BLOCK = 4096               # elements of c of a block of a CPU,
    LONG_BLOCK = 1024          # and of one of long sums, which has totals, too
    NARROW = 512               # and of one whose rows lie close together
    RISE = 4                   # rows that a CPU joins at a time, of narrow blocks
    NARROW_RISE = 8            # so many: those of wide ones want the same places of its cache
    TEAM = 256                 # work-items of a group of a GPU
    VECTORS = 4                # that a work-item of a GPU reads, before a group shares what becomes one,
    SCALARS = 8                # or numbers
    WIDE = 32                  # work-items side by side, where a GPU reads across


cdef int64_t _kernels_type(const mx_reduce_problem* p) noexcept:
    return p.c.type if has(p, REDUCE_C) else p.a.type


cdef class HostReduce(HostLayer):
    """Every reduction on the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1284, "HostReduce", host_reduce

    cpdef str why_not(self, Device dev, Problem problem):
        return None if dev.is_host else "runs on the host path only"


cdef dict _defines(const mx_reduce_problem* p):
    cdef str real = "double" if p.wide else "float"
    return {"OP": p.op, "NANS": p.nan, "VALUE": int(has(p, REDUCE_C)), "INDEXED": int(has(p, REDUCE_INDEX)),
            "A_TYPE": TOKENS[p.a.type], "C_TYPE": TOKENS[_kernels_type(p)], "ACC": real, "SCALAR": real}


cdef Step _step(str file, str entry, const mx_reduce_problem* p, const mx_reduce* s, dict defines, int64_t groups,
                int64_t local):
    """A launch; what is not there is not touched: a stands in for it."""
    cdef Arg a = Arg.slot_of(REDUCE_A, type_size(<int> p.a.type))
    cdef bint wide = p.wide
    args = (
        a, Arg.slot_of(REDUCE_C, type_size(<int> p.c.type)) if has(p, REDUCE_C) else a,
        Arg.slot_of(REDUCE_INDEX, 4) if has(p, REDUCE_INDEX) else a,
        Arg.slot_of(SLOT_WORKSPACE, 8 if wide else 4) if s.parts > 1 else a,
        struct_arg(s, sizeof(mx_reduce)), Arg.alpha(wide), Arg.beta(wide),
    )
    return Step(KernelSpec(f"layers/reduce_{file}.cl", entry, **defines), args, (groups * local,), (local,))


cdef int64_t _workspace(const mx_reduce_problem* p, const mx_reduce* s) noexcept:
    return s.parts * s.count * ((8 if p.wide else 4) + (4 if has(p, REDUCE_INDEX) else 0)) if s.parts > 1 else 0


cdef int _cut(mx_reduce* s, int64_t parts, int64_t step) noexcept:
    """Cut what becomes one element in about so many parts, whose length is a multiple of `step`."""
    s.part = ceil_div(ceil_div(s.length, max(parts, 1)), step) * step
    s.parts = max(1, ceil_div(s.length, s.part)) if s.part > 0 else 1
    return 0


cdef Solution _on_cpu(Device dev, const mx_reduce_problem* p, mx_reduce* s):
    cdef int64_t size = type_size(<int> p.a.type), lines = grid_lines(&s.kept), units, groups, vec, row
    cdef bint across = s.kept.len[LAST] > 1 and s.kept.stride[0][LAST] == 1, is_long
    cdef dict defines = _defines(p)
    cdef list steps
    defines["VEC"] = 8 if p.wide else 16
    groups = max(1, min(SHARES * dev.compute_units, s.count * s.length * size // SHARE_BYTES))
    s.block, s.blocks = s.kept.len[LAST], 1
    row = s.reduced.len[LAST]
    if across:
        # Before parts are cut: with them sums are no longer.
        is_long = (s.length // row + 2) * (row // RISE + NARROW_RISE) > BLOCK_TERMS
        s.blocks = ceil_div(s.kept.len[LAST], LONG_BLOCK if is_long else BLOCK)
        s.block = ceil_div(ceil_div(s.kept.len[LAST], s.blocks), 64) * 64
        s.blocks = ceil_div(s.kept.len[LAST], s.block)
        units = lines * s.blocks
        defines.update(WHAT=ACROSS, LONG=int(is_long), RISE=NARROW_RISE if s.block <= NARROW else RISE,
                       BLOCK=max(64, 1 << (min(s.block, s.kept.len[LAST]) - 1).bit_length()))
    else:
        units = s.count
        defines.update(WHAT=ALONG, DENSE=int(s.reduced.stride[0][LAST] == 1))
    _cut(s, 1, 1)
    if units < groups:
        _cut(s, min(ceil_div(groups, units), max(1, s.length * (s.block if across else 1) // PART)),
             8 if across else 64)
    defines["WHOLE"] = int(s.parts == 1)
    if not across:
        vec = <int64_t> defines["VEC"] if defines["DENSE"] else 1
        defines["LONG"] = int((s.part // row + 2) * ceil_div(min(row, s.part), vec) > BLOCK_TERMS)
        defines["SHORT"] = int(s.parts == 1 and s.length < <int64_t> defines["VEC"] and s.length == row)
    groups = max(1, min(groups, units * s.parts))
    steps = [_step("cpu", "reduce_across" if across else "reduce_along", p, s, defines, groups, 1)]
    if s.parts > 1:
        defines.update(WHAT=FINISH, WHOLE=1)
        for name in ("BLOCK", "DENSE", "LONG", "RISE", "SHORT"):
            defines.pop(name, None)
        groups = max(1, min(SHARES * dev.compute_units, s.count * s.parts // PART))
        steps.append(_step("cpu", "reduce_finish", p, s, defines, groups, 1))
    return Solution(steps, _workspace(p, s))


cdef int64_t _vector(const mx_reduce* s, int64_t size, bint across) noexcept:
    """Neighbours that a work-item of a GPU may read at once: all lines of a are made of such."""
    cdef int64_t vec = 16 // size
    cdef const mx_grid* along = &s.kept if across else &s.reduced
    cdef const mx_grid* other = &s.reduced if across else &s.kept
    cdef int axis
    cdef bint fits
    if along.stride[0][LAST] != 1:
        return 1
    while vec > 1:
        fits = along.len[LAST] % vec == 0
        for axis in range(MX_AXES):
            if axis < LAST and along.len[axis] > 1 and along.stride[0][axis] % vec:
                fits = False
            if other.len[axis] > 1 and other.stride[0][axis] % vec:
                fits = False
        if fits:
            break
        vec //= 2
    return vec


cdef int64_t _power(int64_t n, int64_t most) noexcept:
    """The least power of two that is n or more, at most `most`."""
    cdef int64_t power = 1
    while power < n and power < most:
        power *= 2
    return power


cdef Solution _on_gpu(Device dev, const mx_reduce_problem* p, mx_reduce* s):
    cdef int64_t size = type_size(<int> p.a.type), lines = grid_lines(&s.kept), units, local = TEAM, vec, deep, side
    cdef int64_t hold = VECTORS
    cdef int64_t wanted = 8 * dev.compute_units
    cdef bint across = s.kept.len[LAST] > 1 and s.kept.stride[0][LAST] == 1
    cdef dict defines = _defines(p)
    cdef list steps
    while local > dev.max_work_group:
        local //= 2
    vec = _vector(s, size, across)
    if vec < SCALARS // 2:
        hold = SCALARS
    s.block, s.blocks = s.kept.len[LAST], 1
    if across:
        side = _power(ceil_div(s.kept.len[LAST], vec), min(WIDE, local))
        deep = local // side
        s.block = side * vec
        s.blocks = ceil_div(s.kept.len[LAST], s.block)
        units = lines * s.blocks
    else:
        # Many small groups of work-items that read much, or where rows are few those that read less.
        for hold, local in ((2 * hold, max(1, local // 2)), (hold, local)):
            deep = _power(ceil_div(s.length, vec * hold), local)
            side = local // deep
            units = ceil_div(s.count, side)
            if units >= wanted:
                break
    # An accumulator takes BLOCK_TERMS numbers; a work-item of a part eight or more, where there are few groups.
    _cut(s, max(ceil_div(s.length, deep * BLOCK_TERMS * (1 if across else vec)),
                min(ceil_div(wanted, units), s.length // (deep * (8 if across else 4 * vec)))), 1 if across else vec)
    if not across and s.parts > 1:
        units = ceil_div(s.count * s.parts, side)
    elif across:
        units *= s.parts
    if not across and s.parts == 1 and hold > VECTORS and vec >= SCALARS // 2:
        defines["UNROLL"] = hold
    defines.update(VEC=vec, SIDE=side, DEEP=deep, WHAT=ACROSS if across else ALONG, WHOLE=int(s.parts == 1),
                   INDEX="int" if s.count * s.length < 1 << 30 else "long")
    steps = [_step("gpu", "reduce_across" if across else "reduce_along", p, s, defines, units, local)]
    if s.parts > 1:
        side = _power(s.count, min(WIDE, local))
        defines.update(VEC=1, SIDE=side, DEEP=local // side, WHAT=FINISH, WHOLE=1)
        steps.append(_step("gpu", "reduce_finish", p, s, defines, ceil_div(s.count, side), local))
    return Solution(steps, _workspace(p, s))


cdef class OpenCLReduce(OpenCLLayer):
    """Every reduction on OpenCL devices.

    Where a is dense along what is reduced, work-items read along it, otherwise across; where there are too few elements
    of c for that, the sums are cut in parts, which a second launch joins.
    """

    def __cinit__(self):
        self.id, self.name = 1283, "OpenCLReduce"

    cpdef str why_not(self, Device dev, Problem problem):
        cdef const mx_reduce_problem* p = &(<ReduceProblem> problem).c
        if dev.is_host:
            return "runs on OpenCL devices only"
        if p.wide and not dev.fp64:
            return "device has no double precision"
        return None

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        return self.solution(dev, problem).workspace

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_reduce_problem* p = &(<ReduceProblem> problem).c
        cdef const mx_tensor* result = &p.c if has(p, REDUCE_C) else &p.index
        cdef mx_reduce s
        cdef int axis
        memset(&s, 0, sizeof(s))
        split_reduction(p, &s.kept, &s.reduced)
        s.count, s.length, s.parts = grid_lines(&s.kept) * s.kept.len[LAST], 1, 1
        for axis in range(MX_AXES):
            if result.len[axis] == 1:
                s.length *= p.a.len[axis]
        return _on_cpu(dev, p, &s) if dev.is_cpu else _on_gpu(dev, p, &s)
