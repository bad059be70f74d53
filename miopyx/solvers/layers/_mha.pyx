"""Attention: on the host path, and as kernels for CPUs and for GPUs."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_WORKSPACE, Arg, Device, KernelSpec, Problem, Solution, Step, struct_arg
from miopyx.host._mha cimport host_mha
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._mha cimport (
    MHA_AMAX_DQ, MHA_AMAX_DS, MHA_AMAX_O, MHA_AMAX_S, MHA_BIAS, MHA_DESCALE_Q, MHA_DK, MHA_DO,
    MHA_DQ, MHA_DV, MHA_K, MHA_M, MHA_MASK, MHA_O, MHA_OFFSET, MHA_PROBABILITY, MHA_Q, MHA_SCALE, MHA_SCALE_DV,
    MHA_SCALE_O, MHA_SEED, MHA_V, MHA_Z_INV, MhaProblem, mha_has,
)
from miopyx.values._integers cimport up
from miopyx.values._types cimport MX_DOUBLE, MX_MHA_FORWARD, mx_mha_problem, mx_tensor
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div

cdef enum:
    TABLE = 128            # bytes of the workspace before the deltas
    DELTAS = 64            # alignment of what follows
    PANELS = 512 << 10     # bytes that a work-item of a CPU holds, if that leaves whole vectors
    LANES = 4              # vectors of rows of a block, at most
    LONG = 6               # where three are multiplied side by side
    SPEED_OF_2 = 6         # of products with two of them side by side, beside those with three
    SPEED_OF_3 = 7
    BLOCK = 64             # keys of a tile, at most
    ROW = 64               # numbers that a row of dq's sums is rounded up to, at most
    HEADS = 8              # of a core, if not all cores have as many
    MOST_SUMS = 64 << 20   # bytes of dq's sums
    ITEMS = 256            # of a group of a GPU
    CHUNK = 16
    NUMBERS = 15           # numbers in memory, as in layers/mha.h


cdef class HostMha(HostLayer):
    """On the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1296, "HostMha", host_mha


cdef class OpenCLMha(OpenCLLayer):
    """On OpenCL devices: scores live in tiles alone, backward computes them again."""

    def __cinit__(self):
        self.id, self.name = 1295, "OpenCLMha"

    cpdef str why_not(self, Device dev, Problem problem):
        if not dev.is_host and not dev.is_cpu and (dev.max_work_group < ITEMS
                                                   or _gpu_local(dev, &(<MhaProblem> problem).c, NULL,
                                                                 NULL) > dev.local_mem):
            return "work-groups or local memory too small"
        return OpenCLLayer.why_not(self, dev, problem)

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        return self.solution(dev, problem).workspace

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef MhaSteps o = MhaSteps(problem)
        cdef const mx_mha_problem* p = o.p
        cdef const mx_mha_shape* a = &o.a
        cdef int64_t lanes, tile = 0, columns = 0, slices, groups
        cdef bint whole = dev.is_cpu and not o.forward and _whole_heads(dev, a, o.real)
        if dev.is_cpu:
            o.file = "layers/mha_cpu.cl"
            lanes = _cpu_lanes(dev, a, o.forward, o.real, o.defines)
            if whole:
                o.defines["WITH_DQ"] = 1
        else:
            o.file = "layers/mha_gpu.cl"
            _gpu_local(dev, p, &tile, &columns)
            lanes = tile
            o.defines.update(TILE=tile, COLUMNS=columns)
        o.begin()
        if o.forward:
            o.steps.append(_step(dev, o, "mha_forward", o.forward_args(), a.all * ceil_div(a.rows, lanes),
                                 _slices(a.width, columns)))
            return Solution(o.steps, o.workspace)
        delta = o.space(a.all * a.rows * o.real, o.real)
        groups = min(a.all * a.rows, 4 * dev.compute_units) if dev.is_cpu else ceil_div(a.all * a.rows, 64)
        o.add("mha_delta", (Arg.slot_of(MHA_O, o.size), Arg.slot_of(MHA_DO, o.size), delta, o.table,
                            struct_arg(a, sizeof(mx_mha_shape))), groups, 1 if dev.is_cpu else 64)
        if whole:
            sums = o.space(_sums_bytes(a, o.real), o.real)
            o.steps.append(_step(dev, o, "mha_dkv", o.gradients_args(delta, sums), a.all, 1))
            return Solution(o.steps, o.workspace)
        o.steps.append(_step(dev, o, "mha_dq", o.dq_args(delta), a.all * ceil_div(a.rows, lanes),
                             _slices(a.depth, columns)))
        slices = max(_slices(a.depth, columns), _slices(a.width, columns))
        o.steps.append(_step(dev, o, "mha_dkv", o.dkv_args(delta), a.all * ceil_div(a.keys, lanes), slices))
        return Solution(o.steps, o.workspace)


cdef class MhaSteps:
    """What the launches of a problem have in common: definitions, arguments, the one that takes numbers together."""

    def __init__(self, MhaProblem problem):
        cdef const mx_mha_problem* p = &problem.c
        cdef bint wide = p.t[<int> MHA_Q].type == MX_DOUBLE
        cdef int first, last
        cdef int64_t size, real = 8 if wide else 4
        self.p, self.problem, self.forward = p, problem, p.what == MX_MHA_FORWARD
        self.size = size = type_size(<int> p.t[<int> MHA_Q].type)
        self.real = real
        first = MHA_AMAX_S if self.forward else MHA_AMAX_DQ
        last = MHA_AMAX_O if self.forward else MHA_AMAX_DS
        self.given = p.has >> MHA_DESCALE_Q & (
            (1 << ((MHA_SCALE_O if self.forward else MHA_SCALE_DV) - MHA_DESCALE_Q + 1)) - 1)
        self.most = p.has >> first & ((1 << (last - first + 1)) - 1)
        _fill(p, &self.a)
        self.defines = {
            "T": TOKENS[p.t[<int> MHA_Q].type], "REAL": "double" if wide else "float",
            "ACC": "double" if wide else "float", "SCALAR": "double" if wide else "float",
            "NUMBERS": int(self.given != 0), "DROPS": int(mha_has(p, MHA_PROBABILITY)),
            "BIASED": int(mha_has(p, MHA_BIAS)), "AMAX": int(self.most != 0), "AMAX_AT": first, "DEPTH": self.a.depth,
            "WIDTH": self.a.width,
        }
        self.steps = []
        self.workspace = TABLE if self.given or self.most or not self.forward else 0
        # What is not given stands for something else, and is not touched.
        self.rest = Arg.slot_of(MHA_Q, size)
        self.table = Arg.slot_of(SLOT_WORKSPACE, 1) if self.workspace else self.rest
        self.tensors = [Arg.slot_of(MHA_Q, size), Arg.slot_of(MHA_K, size), Arg.slot_of(MHA_V, size),
                        Arg.slot_of(MHA_BIAS, real) if mha_has(p, MHA_BIAS) else self.rest]
        self.saved = [Arg.slot_of(slot, real) if mha_has(p, slot) else self.rest for slot in (MHA_M, MHA_Z_INV)]
        self.amax = [Arg.slot_of(slot, 4) if mha_has(p, slot) else self.rest for slot in range(first, last + 1)]
        self.last = [self.table, struct_arg(&self.a, sizeof(mx_mha_shape)), Arg.scalar_of(MHA_SCALE, wide),
                     Arg.scalar_of(MHA_MASK, wide)]

    cdef int begin(self) except -1:
        """The launch before the others, where numbers are in memory or the largest are wanted."""
        cdef int64_t given = self.given | self.most << NUMBERS
        cdef list args = []
        cdef int i, slot
        if given == 0:
            return 0
        for i in range(NUMBERS + 4):
            slot = MHA_DESCALE_Q + i if i < NUMBERS else (MHA_AMAX_S if self.forward else MHA_AMAX_DQ) + i - NUMBERS
            args.append(Arg.slot_of(slot, 8 if slot in (MHA_SEED, MHA_OFFSET) else 4) if given >> i & 1 else self.rest)
        return self.add("mha_numbers", (*args, self.table, Arg.int64(given)), 1, 1)

    cdef int add(self, str entry, object args, int64_t groups, int64_t items) except -1:
        """A launch of groups of so many work-items."""
        self.steps.append(Step(KernelSpec(self.file, entry, **self.defines), args, (groups * items,), (items,)))
        return 0

    cdef Arg space(self, int64_t bytes, int64_t width):
        """More of the workspace."""
        cdef Arg where = Arg.slot_of(SLOT_WORKSPACE, width, self.workspace)
        self.workspace += ceil_div(bytes, DELTAS) * DELTAS
        return where

    cdef list forward_args(self):
        return [*self.tensors, Arg.slot_of(MHA_O, self.size), *self.saved, *self.amax, *self.last]

    cdef list dq_args(self, Arg delta):
        return [*self.tensors, *self.saved, Arg.slot_of(MHA_DO, self.size), delta, Arg.slot_of(MHA_DQ, self.size),
                self.amax[0], self.amax[3], *self.last]

    cdef list dkv_args(self, Arg delta, tuple more=()):
        return [*self.tensors, *self.saved, Arg.slot_of(MHA_DO, self.size), delta, Arg.slot_of(MHA_DK, self.size),
                Arg.slot_of(MHA_DV, self.size), self.amax[1], self.amax[2], *more, *self.last]

    cdef list gradients_args(self, Arg delta, Arg sums):
        """Of mha_dkv WITH_DQ."""
        return self.dkv_args(delta, (sums, Arg.slot_of(MHA_DQ, self.size), self.amax[0], self.amax[3]))


cdef int64_t _slices(int64_t width, int64_t columns) noexcept:
    return 1 if columns == 0 else ceil_div(width, 16 * columns)


cdef Step _step(Device dev, MhaSteps o, str entry, list args, int64_t groups, int64_t slices):
    spec = KernelSpec(o.file, entry, **o.defines)
    if dev.is_cpu:
        return Step(spec, args, (groups,), (1,))
    return Step(spec, args, (groups * ITEMS, slices), (ITEMS, 1))


cdef int64_t _cpu_lanes(Device dev, const mx_mha_shape* a, bint forward, int64_t real, dict defines) except -1:
    """Choose the blocks of a CPU; returns the rows of one."""
    cdef int64_t vec = max(4, min(16, dev.vector_bytes // real)), side = LANES, block = BLOCK
    cdef int64_t many = a.rows if forward else max(a.rows, a.keys), panels = a.depth + a.width + (1 if forward else 2)
    cdef bint few = dev.vector_registers < 32  # 4 x 4 sums fit 32, 4 x 3 fit 16
    if few and up(many, LONG * vec) * SPEED_OF_2 <= up(many, LANES * vec) * SPEED_OF_3:
        side = LONG
    while side > 1 and ((side // 2) * vec >= many or a.all * ceil_div(many, side * vec) < dev.compute_units):
        side //= 2
    while (side * vec + block) * panels * real > PANELS and (side > 1 or block > 16):
        if block > 16:
            block //= 2
        else:
            side //= 2
    defines.update(VEC=vec, SIDE=3 if side % 3 == 0 else min(side, 2) if few else side, LANES=side * vec, BLOCK=block)
    return side * vec


cdef bint _whole_heads(Device dev, const mx_mha_shape* a, int64_t real) noexcept:
    """Whether a CPU's work-items have whole heads, so that each sums dq alone: they occupy the cores, and sums fit."""
    cdef int64_t units = max(1, dev.compute_units)
    return ((a.all % units == 0 or a.all >= HEADS * units)
            and _sums_bytes(a, real) <= MOST_SUMS)


cdef int64_t _sums_bytes(const mx_mha_shape* a, int64_t real) noexcept:
    return a.all * up(a.rows, 4) * up(a.depth, ROW) * real


cdef int64_t _gpu_local(Device dev, const mx_mha_problem* p, int64_t* tile, int64_t* columns) noexcept:
    """Choose the tiles of a GPU, in narrower slices where local memory is small; returns the bytes that they take."""
    cdef bint wide = p.t[<int> MHA_Q].type == MX_DOUBLE, forward = p.what == MX_MHA_FORWARD
    cdef int64_t longest = p.t[<int> MHA_V].len[4], side = 32 if wide else 64, each, fixed, limit
    if not forward:
        longest = max(longest, p.t[<int> MHA_Q].len[4])
    fixed, limit = side * (side + 1) + 2 * CHUNK * (side + 1) + 11 * side + 16, dev.local_mem // (8 if wide else 4)
    each = max(1, min(8, ceil_div(longest, 16), (limit - fixed) // (CHUNK * 16)))
    if tile != NULL:
        tile[0], columns[0] = side, each
    return (8 if wide else 4) * (fixed + CHUNK * 16 * each)


cdef mx_mha_strides _strides(const mx_mha_problem* p, int slot) noexcept:
    """A tensor's strides, 0 where it is repeated."""
    cdef const mx_tensor* t = &p.t[slot]
    cdef mx_mha_strides s
    s.n, s.h = t.stride[0] if t.len[0] > 1 else 0, t.stride[1] if t.len[1] > 1 else 0
    s.s, s.d = t.stride[3] if t.len[3] > 1 else 0, t.stride[4] if t.len[4] > 1 else 0
    return s


cdef int _fill(const mx_mha_problem* p, mx_mha_shape* a) noexcept:
    cdef const mx_tensor* q = &p.t[<int> MHA_Q]
    memset(a, 0, sizeof(mx_mha_shape))
    a.heads, a.all, a.rows, a.depth = q.len[1], q.len[0] * q.len[1], q.len[3], q.len[4]
    a.keys, a.width = p.t[<int> MHA_K].len[3], p.t[<int> MHA_V].len[4]
    a.groups_of_four, a.has = ceil_div(a.keys, 4), p.has
    a.q, a.k, a.v, a.bias = _strides(p, MHA_Q), _strides(p, MHA_K), _strides(p, MHA_V), _strides(p, MHA_BIAS)
    a.o, a.m, a.z_inv, a.d_o = _strides(p, MHA_O), _strides(p, MHA_M), _strides(p, MHA_Z_INV), _strides(p, MHA_DO)
    a.dq, a.dk, a.dv = _strides(p, MHA_DQ), _strides(p, MHA_DK), _strides(p, MHA_DV)
    return 0
