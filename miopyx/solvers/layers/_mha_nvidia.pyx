"""Attention of 16 bits on NVIDIA's tensor cores."""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Device, Problem, Solution, struct_arg
from miopyx.problem._mha cimport MHA_DO, MHA_K, MHA_O, MHA_Q, MHA_V, MhaProblem
from miopyx.solvers.conv.nvidia._common cimport has_wgmma, tensor_cores
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport MX_BFLOAT16, MX_HALF
from ._common cimport OpenCLLayer
from ._mha cimport MhaSteps, mx_mha_shape

cdef enum:
    LONGEST = 256          # d of a head: the sums of its row are in registers
    MOST_GROUPS = 0x7fffffff
    MULTIPLE = 64          # rows of L and delta, as layers/mha_nvidia.cl has it
    LOCAL_MEM = 98 << 10   # of compute capability 8.6 and up
    HOPPER_MEM = 226 << 10
    # Kernels.
    FORWARD = 0
    DQ = 1
    DKV = 2

# What a kernel is compiled for.
cdef struct tile_t:
    int64_t warps, tiles, others, step
    bint keep, wgmma

cdef tuple _only = (None, None, None)


def only_tiles(forward=None, dq=None, dkv=None):
    """Take these tiles alone, for tests: warps, tiles, others, step, whether rows are kept and whether by wgmma.

    None: the best.
    """
    global _only
    _only = (forward, dq, dkv)


cdef tile_t _tile(int what, const mx_mha_shape* a, int64_t units, bint hopper):
    """The tile of a kernel."""
    cdef tile_t t
    cdef int64_t deep = up(max(a.depth, a.width), 16), rows = a.keys if what == DKV else a.rows
    if _only[what] is not None:
        t.warps, t.tiles, t.others, t.step, t.keep, t.wgmma = _only[what]
        return t
    t.warps, t.tiles, t.others, t.step, t.keep = 4, 1, 64, 64, False
    t.wgmma = hopper and rows > 32 and deep <= 128
    if t.wgmma:  # as measured on an H200
        if what == FORWARD and deep <= 64:
            if a.keys >= 2048:
                t.others = t.step = 128
        elif what == FORWARD:
            if a.all * ceil_div(rows, 192) >= units:
                t.warps, t.others, t.step = 12, 128, 128
        elif what == DKV and a.all * ceil_div(rows, 128) >= units:
            t.warps = 8
    elif rows <= 32:
        t.warps, t.step = 2, 64 if what == FORWARD else 32
    elif what == FORWARD:
        t.tiles = 2 if deep <= 128 else 1
        t.keep = t.tiles * deep <= 128
        if deep > 64:
            t.others = t.step = 32
    else:
        t.tiles = 2 if what == DKV and deep <= 64 else 1
        t.step, t.keep = 32 if deep <= 128 else 16, what == DQ and deep <= 64
    if t.tiles == 2 and a.all * ceil_div(rows, t.warps * 32) < units:
        t.tiles = 1
    while _local(what, a, &t) > (HOPPER_MEM if hopper else LOCAL_MEM) and (t.others > 16 or t.warps > 1):
        if t.others > 16:
            t.others //= 2
        else:
            t.warps //= 2
    t.step = min(t.step, t.others)
    return t


cdef int64_t _local(int what, const mx_mha_shape* a, const tile_t* t) noexcept:
    """Bytes of local memory."""
    cdef int64_t panel = 64 if t.wgmma else 16, gap = 0 if t.wgmma else 16, own = 16 * t.tiles * t.warps
    cdef int64_t deep = up(a.depth, panel) * 2 + gap, wide = up(a.width, panel) * 2 + gap
    return own * (deep + (0 if what == FORWARD else wide)) + 2 * t.others * (deep + wide + 8)


cdef class NvMha(OpenCLLayer):
    """Scores stay in registers, as sums of one product and factors of the next."""

    def __cinit__(self):
        self.id, self.name, self.assembly = 1297, "NvMha", True

    cpdef str why_not(self, Device dev, Problem problem):
        cdef MhaProblem mha = <MhaProblem> problem
        if not tensor_cores(dev):
            return "needs tensor cores of NVIDIA's"
        if mha.c.t[<int> MHA_Q].type not in (MX_HALF, MX_BFLOAT16):
            return "data type"
        if max(mha.c.t[<int> MHA_Q].len[4], mha.c.t[<int> MHA_V].len[4]) > LONGEST:
            return "heads are too long"
        if (mha.c.t[<int> MHA_Q].len[0] * mha.c.t[<int> MHA_Q].len[1]
                > MOST_GROUPS // ceil_div(max(mha.c.t[<int> MHA_Q].len[3], mha.c.t[<int> MHA_K].len[3]), 16)):
            return "too many rows for a launch"
        return OpenCLLayer.why_not(self, dev, problem)

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        return self.solution(dev, problem).workspace

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef MhaSteps o = MhaSteps(problem)
        cdef const mx_mha_shape* a = &o.a
        o.file = "layers/mha_nvidia.cl"
        self.take(dev, o, FORWARD if o.forward else DQ)
        o.begin()
        if o.forward:
            self.launch(o, "mha_forward", o.forward_args(), a.rows)
            return Solution(o.steps, o.workspace)
        of_rows = o.space(a.all * up(a.rows, MULTIPLE) * 8, 4)
        o.add("mha_delta", (Arg.slot_of(MHA_O, 2), Arg.slot_of(MHA_DO, 2), *o.saved, of_rows, o.table,
                            struct_arg(a, sizeof(mx_mha_shape))), a.all * up(a.rows, MULTIPLE) // 32, 256)
        self.launch(o, "mha_dq", o.dq_args(of_rows), a.rows)
        self.take(dev, o, DKV)
        self.launch(o, "mha_dkv", o.dkv_args(of_rows), a.keys)
        return Solution(o.steps, o.workspace)

    cdef int take(self, Device dev, MhaSteps o, int what) except -1:
        cdef tile_t t = _tile(what, &o.a, dev.compute_units, has_wgmma(dev))
        o.defines.update(WHAT=what, WARPS=t.warps, TILES=t.tiles, OTHERS=t.others, STEP=t.step, KEEP=int(t.keep))
        o.defines.pop("SM_90A", None)
        if t.wgmma:
            o.defines["SM_90A"] = 1
        return 0

    cdef int launch(self, MhaSteps o, str entry, list args, int64_t rows) except -1:
        cdef int64_t warps = o.defines["WARPS"], own = 16 * warps * <int64_t> o.defines["TILES"]
        return o.add(entry, args, o.a.all * ceil_div(rows, own), 32 * warps)
