"""Convolutions of few channels a group on NVIDIA's tensor cores, 16 bits with channels last, one and two spatial axes.

Channels are taken 16 at a time, with zeros between the groups; what kernels/conv/nvidia/grouped.h describes.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_FORWARD, MX_HALF, mx_conv_problem, mx_tensor,
)
from miopyx.solvers.conv._base cimport stride_of
from miopyx.solvers._tokens cimport type_token
from ._common cimport (
    LONGEST, MMA_PEAK, NO_ROOM, _NvSolver, divisor, has_wgmma, mx_divisor, refuse_sizes, sum_partial, taps_of, taps_t,
    tensor_cores,
)

cdef enum:
    GROUP = 256            # work-items of a work-group
    LOCAL_MEM = 226 * 1024
    MOST_LOCAL = 200 * 1024
    MOST_TAPS = 9          # of backward weights in registers
    WARP_PIXELS = 64       # of a tile, that a warp sums, at most

cdef extern from "miopyx/kernels/conv/nvidia/grouped_args.h" nogil:
    ctypedef struct mx_nv_grouped:
        int images, p, q
        int h, w
        int channels, group_channels
        int taps_h, taps_w, step_h, step_w, first_h, first_w, tap_h, tap_w
        int low_h, low_w
        int x_n, x_h, x_w
        int y_first, y_n, y_h, y_w
        int w_first, w_k, w_c, w_h, w_w
        int tile_n, tile_p, tile_q
        int rows, columns
        int tiles, across, down
        int sets, workers
        mx_divisor by_columns, by_rows, by_tile_q, by_tile_p, by_across, by_down, by_taps, by_taps_w

# What a launch is compiled for.
cdef struct tile_t:
    int64_t blocks, inner, steps, stages, slots
    int64_t local, resident        # bytes of local memory; work-groups at once on a compute unit


cdef bint _in_place(const mx_tensor* t) noexcept nogil:
    """Whether 8 channels can be copied at a time."""
    return (t.len[1] % 8 == 0 and t.stride[1] == 1
            and (stride_of(t, 0) | stride_of(t, 3) | stride_of(t, 4)) % 8 == 0)


cdef int64_t _read(int64_t tile, int64_t step, int64_t taps, int64_t tap) noexcept nogil:
    """How many rows of x a tile reads."""
    return (tile - 1) * step + (taps - 1) * max(tap, -tap) + 1 if taps > 0 else 0


cdef void _set_tile(mx_nv_grouped* g, int64_t n, int64_t p, int64_t q) noexcept nogil:
    g.tile_n, g.tile_p, g.tile_q = <int> n, <int> p, <int> q
    g.rows, g.columns = (
        <int> _read(p, g.step_h, g.taps_h, g.tap_h), <int> _read(q, g.step_w, g.taps_w, g.tap_w))
    g.down, g.across = <int> ceil_div(g.p, p), <int> ceil_div(g.q, q)
    g.tiles = <int> (ceil_div(g.images, n) * g.down * g.across)


cdef bint _choose_tile(mx_nv_grouped* g, tile_t* t, int64_t kept, int64_t beside) noexcept nogil:
    """The tile that should take least time; `kept` bytes of local memory hold no pixels, `beside` more a pixel of dy.

    A pixel that is read counts as half of one that is multiplied, whether it is used or not.
    """
    cdef int64_t pixels = 8 // t.blocks * t.steps * 16, pitch = 32 * t.blocks + 16, n, p, q, slots
    cdef int64_t most = ((MOST_LOCAL - kept) // t.stages - pixels * beside) // pitch // 128 * 128
    cdef double cost, best = -1
    cdef int64_t best_n = 0, best_p = 0, best_q = 0
    for q in range(1, min(g.q, pixels) + 1):
        p = min(g.p, pixels // q)
        while p > 0:
            p = (g.p + ceil_div(g.p, p) - 1) // (ceil_div(g.p, p))
            n = min(g.images, pixels // (p * q)) if p == g.p and q == g.q else 1
            _set_tile(g, n, p, q)
            slots = n * g.rows * g.columns
            if slots <= most:
                cost = <double> g.tiles * (slots + 2 * pixels)
                # Few work-groups on a compute unit do not hide each other's waiting.
                cost *= 1 + 0.09 * (kept + t.stages * (slots * pitch + pixels * beside)) / LOCAL_MEM
                if best < 0 or cost < best:
                    best, best_n, best_p, best_q = cost, n, p, q
            p //= 2
    if best < 0:
        return False
    _set_tile(g, best_n, best_p, best_q)
    slots = best_n * g.rows * g.columns
    t.slots = max(64, up(slots, 64 if slots <= 256 else 128))  # few kernels to build
    t.local = kept + t.stages * (t.slots * pitch + pixels * beside)
    g.by_columns, g.by_rows = divisor(max(1, g.columns)), divisor(max(1, g.rows))
    g.by_tile_q, g.by_tile_p = divisor(g.tile_q), divisor(g.tile_p)
    g.by_across, g.by_down = divisor(g.across), divisor(g.down)
    g.by_taps, g.by_taps_w = divisor(max(1, g.taps_h * g.taps_w)), divisor(max(1, g.taps_w))
    return True


cdef void _set_workers(
    mx_nv_grouped* g, const tile_t* t, int64_t units, int64_t shares, int64_t most
) noexcept nogil:
    """As many work-groups as run at once, or more if each had more than `most` tiles, each with as many as the next;
    `shares` of them have the same tiles."""
    cdef int64_t workers, each
    g.sets = <int> (up(g.channels, 16 * t.blocks) // (16 * t.blocks))
    workers = max(ceil_div(g.tiles, most), min(g.tiles, units * t.resident // (g.sets * shares)))
    each = ceil_div(g.tiles, workers)
    g.workers = <int> ceil_div(g.tiles, each)


cdef mx_nv_grouped _operands(const mx_conv_problem* p, const mx_tensor* x, const mx_tensor* y) noexcept nogil:
    """Everything but taps and tiles."""
    cdef mx_nv_grouped g
    memset(&g, 0, sizeof(g))
    g.images, g.h, g.w = <int> x.len[0], <int> x.len[3], <int> x.len[4]
    g.channels, g.group_channels = <int> x.len[1], <int> p.w.len[1]
    g.x_n, g.x_h, g.x_w = <int> stride_of(x, 0), <int> stride_of(x, 3), <int> stride_of(x, 4)
    g.y_n, g.y_h, g.y_w = <int> stride_of(y, 0), <int> stride_of(y, 3), <int> stride_of(y, 4)
    g.w_k, g.w_c = <int> p.w.stride[0], <int> stride_of(&p.w, 1)
    g.w_h, g.w_w = <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4)
    return g


cdef void _set_taps(mx_nv_grouped* g, const mx_conv_problem* p) noexcept nogil:
    """The grid is y's, each pixel meets all taps."""
    g.p, g.q = <int> p.y.len[3], <int> p.y.len[4]
    g.taps_h, g.taps_w = <int> p.w.len[3], <int> p.w.len[4]
    g.step_h, g.step_w, g.tap_h, g.tap_w = <int> p.step[1], <int> p.step[2], <int> p.dilation[1], <int> p.dilation[2]
    g.first_h, g.first_w = -<int> p.pad[1], -<int> p.pad[2]


cdef void _set_phase(mx_nv_grouped* g, const mx_conv_problem* p, int64_t a, int64_t b) noexcept nogil:
    """The grid is the pixels of x of phase (a, b) of the stride."""
    cdef taps_t th = taps_of(p, 1, a), tw = taps_of(p, 2, b)
    g.p, g.q = (
        <int> ((p.x.len[3] - a + p.step[1] - 1) // p.step[1]), <int> ((p.x.len[4] - b + p.step[2] - 1) // p.step[2]))
    g.step_h = g.step_w = 1
    if th.count > 0 and tw.count > 0:
        g.taps_h, g.taps_w = <int> th.count, <int> tw.count
    g.first_h, g.first_w, g.tap_h, g.tap_w = <int> th.start, <int> tw.start, <int> th.move, <int> tw.move
    g.low_h, g.low_w = <int> min(0, (th.count - 1) * th.move), <int> min(0, (tw.count - 1) * tw.move)
    g.w_first = <int> (th.first * g.w_h + tw.first * g.w_w)
    g.w_h, g.w_w = <int> (th.every * g.w_h), <int> (tw.every * g.w_w)
    g.y_first = <int> (a * g.y_h + b * g.y_w)
    g.y_h, g.y_w = <int> (p.step[1] * g.y_h), <int> (p.step[2] * g.y_w)


cdef class _NvGrouped(_NvSolver):
    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why
        cdef int64_t each = p.w.len[1]
        if not tensor_cores(dev) or not has_wgmma(dev):
            return "needs a Hopper GPU"
        if p.w.type != MX_HALF and p.w.type != MX_BFLOAT16:
            return "data type"
        if p.groups == 1:
            return "one group"
        if p.w.len[0] // p.groups != each or each > 32 or 32 % each != 0:
            return "channels and filters of a group"
        if not (_in_place(&p.x) and _in_place(&p.y)):
            return "not channels last, or channels are no multiple of 8"
        why = refuse_sizes(p, 0)
        if why is not None:
            return why
        if p.w.len[3] * p.w.len[4] > 121 or (self.direction == MX_BACKWARD_WEIGHTS and p.w.len[4] > MOST_TAPS):
            return "a large filter"
        if self.direction == MX_BACKWARD_DATA and p.step[1] * p.step[2] > 64:
            return "too many phases of the stride"
        return self.refuse_tiles(dev, p)

    cdef str refuse_tiles(self, Device dev, const mx_conv_problem* p):
        raise NotImplementedError

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        # Depthwise ones have a kernel of their own; 32 channels fill the tiles of wgmma.
        return MMA_PEAK if 1 < p.w.len[1] <= 16 else 0.6

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return (("STEPS", (2, 4)), ("STAGES", (1, 2)))

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        # What was fastest, see docs/h200/groups.md, or has room for the tiles.
        if self.direction == MX_BACKWARD_WEIGHTS and self.fits(dev, p, (4, 2)):
            return (4, 2)
        return (4, 1) if self.fits(dev, p, (4, 1)) else (2, 1)

    cdef tile_t tile_of(self, const mx_conv_problem* p, tuple config):
        cdef tile_t t
        memset(&t, 0, sizeof(t))
        t.blocks = 4 if p.x.len[1] > 32 else 2 if p.x.len[1] > 16 else 1
        t.inner = max(1, p.w.len[1] // 16)
        t.steps, t.stages = config
        return t

    cdef dict defines(self, const mx_conv_problem* p, const tile_t* t):
        return dict(X_TYPE=type_token(p.w.type), BLOCKS=t.blocks, IN_BLOCKS=t.inner, STEPS=t.steps, STAGES=t.stages,
                    SLOTS=t.slots)


cdef class _NvGroupedData(_NvGrouped):
    cdef str refuse_tiles(self, Device dev, const mx_conv_problem* p):
        return None if self.tiles_of(dev, p, self.default(dev, p), None) else "a large filter, stride or dilation"

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        return self.tiles_of(dev, p, config, None)

    cdef bint tiles_of(self, Device dev, const mx_conv_problem* p, tuple config, list steps) except -1:
        """Append the steps, if a list is given; False where a tile is too large."""
        cdef mx_nv_grouped whole, g
        cdef tile_t t
        cdef int64_t a, b, room
        cdef bint backward = self.direction == MX_BACKWARD_DATA
        cdef int x_slot = SLOT_Y if backward else SLOT_X, y_slot = SLOT_X if backward else SLOT_Y
        whole = _operands(p, &p.y, &p.x) if backward else _operands(p, &p.x, &p.y)
        for a in range(min(p.step[1], p.x.len[3]) if backward else 1):
            for b in range(min(p.step[2], p.x.len[4]) if backward else 1):
                g = whole
                if backward:
                    _set_phase(&g, p, a, b)
                else:
                    _set_taps(&g, p)
                t = self.tile_of(p, config)
                room = max(1, up(g.taps_h * g.taps_w, 9) if g.taps_h * g.taps_w > 4 else g.taps_h * g.taps_w)
                if not _choose_tile(&g, &t, t.blocks * t.inner * room * 512 + 2048, 0):
                    return False
                t.resident = max(1, min(4, LOCAL_MEM // (t.local + 1024)))
                _set_workers(&g, &t, max(1, dev.compute_units), 1, max(1, g.tiles))
                if steps is None:
                    continue
                spec = KernelSpec("conv/nvidia/grouped.cl", "conv_nvidia_grouped", TRANSPOSED=int(backward),
                                  TAPS=room, **self.defines(p, &t))
                args = (Arg.slot_of(x_slot, 2), Arg.slot_of(SLOT_W, 2), Arg.slot_of(y_slot, 2),
                        struct_arg(&g, sizeof(g)), Arg.alpha(False), Arg.beta(False))
                steps.append(Step(spec, args, (g.sets * g.workers * GROUP,), (GROUP,)))
        return True

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef list steps = []
        self.tiles_of(dev, p, config, steps)
        return Solution(steps)


cdef class NvGroupedFwd(_NvGroupedData):
    """Forward, few channels a group: implicit GEMM in blocks of 16 channels, persistent; no workspace."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1114, "NvGroupedFwd", MX_FORWARD


cdef class NvGroupedBwd(_NvGroupedData):
    """Backward data, few channels a group: implicit GEMM, one launch a phase of the stride; no workspace."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1115, "NvGroupedBwd", MX_BACKWARD_DATA


cdef class NvGroupedWrw(_NvGrouped):
    """Backward weights, few channels a group: split-K over tiles of pixels, and a launch that adds the partial sums."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1116, "NvGroupedWrw", MX_BACKWARD_WEIGHTS

    cdef str refuse_tiles(self, Device dev, const mx_conv_problem* p):
        cdef mx_nv_grouped g
        cdef tile_t t
        if not self.plan(dev, p, self.default(dev, p), &g, &t):
            return "a large filter, stride or dilation"
        return NO_ROOM if self.workspace_bytes(dev, p) > dev.max_alloc else None

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        cdef mx_nv_grouped g
        cdef tile_t t
        return self.plan(dev, p, config, &g, &t)

    cdef int64_t lines(self, const mx_conv_problem* p) noexcept:
        """Rows of the filter that a warp sums."""
        return min(p.w.len[3], max(1, MOST_TAPS // p.w.len[4]))

    cdef bint plan(self, Device dev, const mx_conv_problem* p, tuple config, mx_nv_grouped* g, tile_t* t) except -1:
        g[0] = _operands(p, &p.x, &p.y)
        _set_taps(g, p)
        t[0] = self.tile_of(p, config)
        if not _choose_tile(g, t, 8192, 32 * t.blocks + 16):
            return False
        t.resident = max(1, min(2, LOCAL_MEM // (t.local + 1024)))
        _set_workers(g, t, max(1, dev.compute_units), t.inner * (up(p.w.len[3], self.lines(p)) // self.lines(p)),
                     LONGEST // WARP_PIXELS)
        return True

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        """Room for the most partial sums that any configuration takes."""
        cdef mx_nv_grouped g
        cdef tile_t t
        cdef int64_t most = 1
        for config in ((2, 1), (2, 2), (4, 1), (4, 2)):
            if self.plan(dev, p, config, &g, &t):
                most = max(most, g.workers)
        return most * p.w.len[0] * p.w.len[1] * p.w.len[3] * p.w.len[4] * 4

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_nv_grouped g
        cdef tile_t t
        cdef int64_t lines = self.lines(p), columns = p.w.len[1] * p.w.len[3] * p.w.len[4]
        self.plan(dev, p, config, &g, &t)
        spec = KernelSpec("conv/nvidia/grouped_weights.cl", "conv_nvidia_grouped_weights", TAPS_W=p.w.len[4],
                          TAP_ROWS=lines, **self.defines(p, &t))
        args = (Arg.slot_of(SLOT_X, 2), Arg.slot_of(SLOT_Y, 2), Arg.slot_of(SLOT_WORKSPACE, 4),
                struct_arg(&g, sizeof(g)))
        groups = g.sets * t.inner * ceil_div(p.w.len[3], lines) * g.workers
        return Solution([Step(spec, args, (groups * GROUP,), (GROUP,)),
                         sum_partial(p, g.workers, 0, columns, 1, p.w.len[1])],
                        self.workspace_bytes(dev, p))
