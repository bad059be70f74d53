"""Convolutions of few channels, as images have, on NVIDIA's tensor cores, one and two spatial axes.

All taps and channels are one axis, of which little is padding; what kernels/conv/nvidia/few.h describes.  OCP's float8
is multiplied as halves, which hold its numbers exactly.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.problem._descriptors cimport is_ocp8, type_size
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_FLOAT, MX_FORWARD, MX_HALF, mx_conv_problem, mx_tensor,
)
from miopyx.solvers.conv._base cimport stride_of
from miopyx.solvers._tokens cimport type_token
from ._common cimport (
    LONGEST, MMA_PEAK, NO_ROOM, _NvSolver, divisor, has_wgmma, mx_divisor, refuse_sizes, sum_partial, tensor_cores,
)

cdef enum:
    FILTERS = 64           # of a work-group
    TILE_H = 8
    TILE_W = 16
    CHANNELS_LIMIT = 8
    LOCAL_MEM = 226 * 1024
    WEIGHTS = 0            # instead of a number of blocks: backward weights
    MOST_TILES = LONGEST >> 7  # by TILE_H * TILE_W: of a work-group that sums them

cdef extern from "miopyx/kernels/conv/nvidia/few_args.h" nogil:
    ctypedef struct mx_nv_few:
        int images, p, q
        int h, w, channels, filters
        int taps_h, taps_w, step_h, step_w, first_h, first_w, tap_h, tap_w
        int x_n, x_c, x_h
        int y_n, y_c, y_h, y_w
        int w_k, w_c, w_h, w_w
        int run
        int rows, lines, width, pitch
        int tiles, across, down, sets, workers
        mx_divisor by_run, by_rows, by_pitch, by_across, by_down

# What the kernels are compiled for.
cdef struct plan_t:
    bint last, paired, vector
    int64_t steps, tile_elements, local


cdef bint _channels_last(const mx_tensor* t) noexcept nogil:
    """Channels last, and the pixels of a row without gaps."""
    return (t.len[1] == 1 or t.stride[1] == 1) and (t.len[4] == 1 or t.stride[4] == t.len[1])


cdef bint _rows_contiguous(const mx_tensor* t) noexcept nogil:
    return t.len[4] == 1 or t.stride[4] == 1


cdef plan_t _plan(const mx_conv_problem* p, int64_t units, int64_t blocks, mx_nv_few* g) noexcept nogil:
    cdef plan_t k
    cdef int64_t size = 4 if p.w.type == MX_FLOAT else 2, depth = 32 // size, unit, resident, each
    memset(&k, 0, sizeof(k))
    memset(g, 0, sizeof(g[0]))
    # Where there is one channel its rows are runs, whatever y's layout: either kernel reads them.
    k.last = _channels_last(&p.x) and p.y.stride[1] == 1 and p.y.len[1] > 1
    g.images, g.p, g.q = <int> p.y.len[0], <int> p.y.len[3], <int> p.y.len[4]
    g.h, g.w, g.channels, g.filters = <int> p.x.len[3], <int> p.x.len[4], <int> p.w.len[1], <int> p.w.len[0]
    g.taps_h, g.taps_w = <int> p.w.len[3], <int> p.w.len[4]
    g.step_h, g.step_w, g.tap_h, g.tap_w = <int> p.step[1], <int> p.step[2], <int> p.dilation[1], <int> p.dilation[2]
    g.first_h, g.first_w = -<int> p.pad[1], -<int> p.pad[2]
    g.x_n, g.x_c, g.x_h = <int> stride_of(&p.x, 0), <int> stride_of(&p.x, 1), <int> stride_of(&p.x, 3)
    g.y_n, g.y_c, g.y_h, g.y_w = (
        <int> stride_of(&p.y, 0), <int> stride_of(&p.y, 1), <int> stride_of(&p.y, 3), <int> stride_of(&p.y, 4))
    g.w_k, g.w_c, g.w_h, g.w_w = (
        <int> stride_of(&p.w, 0), <int> stride_of(&p.w, 1), <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4))
    unit = g.channels if k.last else 1
    g.run = <int> (g.taps_w * unit)
    if size == 2:
        g.run += g.run % 2
    k.steps = ceil_div(g.run * g.taps_h * (1 if k.last else g.channels), depth)
    g.rows = (TILE_H - 1) * g.step_h + (g.taps_h - 1) * g.tap_h + 1
    g.lines = g.rows * (1 if k.last else g.channels)
    g.width = <int> (((TILE_W - 1) * g.step_w + (g.taps_w - 1) * g.tap_w + 1) * unit)
    g.pitch = <int> up(g.width + 1, 2)
    k.tile_elements = up(g.lines * <int64_t> g.pitch, 256)
    k.local = 2 * k.tile_elements * size + k.steps * depth * 8
    k.local += 2 * 18432 if blocks == WEIGHTS else k.steps * 4 * 512 * (size // 2)
    k.paired = size == 2 and g.step_w * unit % 2 == 0
    if k.last:
        k.vector = g.filters % 4 == 0 and (g.y_n | g.y_h | g.y_w) % 4 == 0
    else:
        k.vector = g.y_w == 1 and g.q % 4 == 0 and (g.y_n | g.y_h | g.y_c) % 4 == 0
    g.across, g.down = <int> ceil_div(g.q, TILE_W), <int> ceil_div(g.p, TILE_H)
    g.tiles = g.images * g.across * g.down
    g.sets = <int> ceil_div(g.filters, FILTERS)
    # As many groups at once as registers and local memory allow.
    resident = max(1, min(2 if blocks == WEIGHTS else 3 if blocks == 2 else 4, LOCAL_MEM // (k.local + 1024)))
    g.workers = <int> max(1, min(g.tiles, units * resident // g.sets))
    if blocks == WEIGHTS:
        g.workers = <int> max(g.workers, ceil_div(g.tiles, MOST_TILES))
    each = ceil_div(g.tiles, g.workers)
    g.workers = <int> ceil_div(g.tiles, each)
    g.by_run, g.by_rows, g.by_pitch = divisor(g.run), divisor(g.rows), divisor(g.pitch)
    g.by_across, g.by_down = divisor(g.across), divisor(g.down)
    return k


cdef bint _chunked(const plan_t* k, const mx_nv_few* g) noexcept nogil:
    """Whether backward weights read 8 elements of dy at once."""
    if k.last:
        return (g.filters | g.y_n | g.y_h | g.y_w) % 8 == 0
    return g.y_w == 1 and (g.q | g.y_n | g.y_h | g.y_c) % 8 == 0


# What takes time, as TERMS names it: tiles that a compute unit takes, their steps, thousands of elements of their
# images; megabytes of x, y, y stored piece by piece, and parts.
cdef struct terms_t:
    double launch, tiles, steps, room, x, y, narrow, parts

cdef tuple TERMS = ("launch", "tiles", "steps", "room", "x", "y", "narrow", "parts")


cdef class _NvFewChannels(_NvSolver):
    def __cinit__(self):
        self.cost_names = TERMS

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef terms_t* t = <terms_t*> terms
        cdef mx_nv_few g
        cdef bint weights = self.direction == MX_BACKWARD_WEIGHTS
        cdef plan_t k = _plan(p, max(1, dev.compute_units), WEIGHTS if weights else 2, &g)
        cdef int64_t each = ceil_div(g.tiles, g.workers)
        cdef int64_t units = max(1, dev.compute_units), at_once = (g.sets * g.workers + units - 1) // units
        t.launch = 2 if weights else 1
        t.tiles = each * at_once
        t.steps = each * at_once * k.steps
        t.room = each * at_once * k.tile_elements * 1e-3
        t.x = p.x.len[0] * p.x.len[1] * <double> (p.x.len[3] * p.x.len[4]) * type_size(<int> p.x.type) * 1e-6
        t.y = p.y.len[0] * p.y.len[1] * <double> (p.y.len[3] * p.y.len[4]) * type_size(<int> p.y.type) * 1e-6
        if not (_chunked(&k, &g) if weights else k.vector):
            t.narrow = t.y
        if weights:
            t.parts = self.workspace_bytes(dev, p) * 1e-6

    cdef bint _eight_bits(self, const mx_conv_problem* p) noexcept:
        """Whether it is forward of OCP's float8; AMD's types have other codes for NaN and for their largest numbers."""
        return self.direction == MX_FORWARD and is_ocp8(p.x.type) and is_ocp8(p.w.type)

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef mx_nv_few g
        cdef plan_t k
        cdef str why
        if not tensor_cores(dev) or not has_wgmma(dev):
            return "needs a Hopper GPU"
        if p.w.type != MX_HALF and p.w.type != MX_BFLOAT16 and p.w.type != MX_FLOAT and not self._eight_bits(p):
            return "data type"
        if p.groups > 1:
            return "several groups"
        if p.w.len[1] > CHANNELS_LIMIT:
            return "many channels"
        if p.w.type == MX_FLOAT and p.w.len[1] * p.w.len[3] * p.w.len[4] < 4:
            return "few products in a sum"  # each may be off by more than a float's rounding
        why = refuse_sizes(p, 0)
        if why is not None:
            return why
        if p.w.type != MX_FLOAT and p.w.len[4] > 1 and p.dilation[2] > 1:
            return "dilation"
        if p.w.len[3] * p.w.len[4] * p.w.len[1] > 1024 or p.step[1] * p.step[2] > 64 or max(
                p.dilation[1] * p.w.len[3], p.dilation[2] * p.w.len[4]) > 256:
            return "a large filter, stride or dilation"
        k = _plan(p, max(1, dev.compute_units), 2, &g)
        if not k.last and not (_rows_contiguous(&p.x) and _rows_contiguous(&p.y)):
            return "neither channels nor rows are contiguous"
        return "a large filter, stride or dilation" if k.local > LOCAL_MEM - 1024 else None

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        # Tiles have 8 x 16 pixels and 64 filters; above 4 channels there is less padding elsewhere.
        cdef double share = min(1.0, p.w.len[0] / 64.0) * min(1.0, p.y.len[3] / 8.0) * min(1.0, p.y.len[4] / 16.0)
        return MMA_PEAK * share if p.w.len[1] <= 4 else 0.5


cdef class NvFewChannelsFwd(_NvFewChannels):
    """Forward, few channels: implicit GEMM, persistent, resident weights; no workspace."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.float8 = 1118, "NvFewChannelsFwd", MX_FORWARD, True

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return (("BLOCKS", (2, 4)),)

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        return (2,)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        return self.steps_from(dev, p, config, 0)

    cdef Solution steps_from(self, Device dev, const mx_conv_problem* p, tuple config, int64_t first):
        cdef mx_nv_few g
        cdef plan_t k = _plan(p, max(1, dev.compute_units), config[0], &g)
        cdef bint eight = self._eight_bits(p)
        cdef int64_t items = 512 // <int64_t> config[0]
        types = {"W_TYPE": type_token(p.w.type), "Y_TYPE": type_token(p.y.type), "AT_RANDOM": int(p.rounding != 0)}
        spec = KernelSpec("conv/nvidia/few.cl", "conv_nvidia_few", X_TYPE=type_token(p.x.type),
                          CHANNELS_LAST=int(k.last), PAIRED=int(k.paired), VEC=4 if k.vector else 1, STEPS=k.steps,
                          TILE_ELEMENTS=k.tile_elements, BLOCKS=config[0], **(types if eight else {}))
        args = (Arg.slot_of(SLOT_X, type_size(<int> p.x.type)), Arg.slot_of(SLOT_W, type_size(<int> p.w.type)),
                Arg.slot_of(SLOT_Y, type_size(<int> p.y.type)), struct_arg(&g, sizeof(g)),
                *((Arg.int64(p.rounding), Arg.int64(first)) if eight else ()), Arg.alpha(False), Arg.beta(False))
        return Solution([Step(spec, args, (g.sets * g.workers * items,), (items,))])


cdef class NvFewChannelsWrw(_NvFewChannels):
    """Backward weights in 16 bits, few channels: split-K over tiles of pixels, a launch to add the partial sums."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1119, "NvFewChannelsWrw", MX_BACKWARD_WEIGHTS

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef mx_nv_few g
        cdef plan_t k
        cdef str why = _NvFewChannels.refuse(self, dev, p)
        if why is not None:
            return why
        if p.w.type == MX_FLOAT:
            return "data type"
        k = _plan(p, max(1, dev.compute_units), WEIGHTS, &g)
        if k.steps > 16 or k.local > LOCAL_MEM - 1024:
            return "a large filter, stride or dilation"
        return NO_ROOM if self.workspace_bytes(dev, p) > dev.max_alloc else None

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef mx_nv_few g
        _plan(p, max(1, dev.compute_units), WEIGHTS, &g)
        return g.workers * p.w.len[0] * p.w.len[1] * p.w.len[3] * p.w.len[4] * 4

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_nv_few g
        cdef plan_t k = _plan(p, max(1, dev.compute_units), WEIGHTS, &g)
        cdef int64_t columns = p.w.len[1] * p.w.len[3] * p.w.len[4]
        spec = KernelSpec("conv/nvidia/few_weights.cl", "conv_nvidia_few_weights", X_TYPE=type_token(p.w.type),
                          CHANNELS_LAST=int(k.last), CHUNKED=int(_chunked(&k, &g)), STEPS=k.steps,
                          TILE_ELEMENTS=k.tile_elements)
        args = (Arg.slot_of(SLOT_X, 2), Arg.slot_of(SLOT_Y, 2), Arg.slot_of(SLOT_WORKSPACE, 4),
                struct_arg(&g, sizeof(g)))
        return Solution([Step(spec, args, (g.sets * g.workers * 256,), (256,)),
                         sum_partial(p, g.workers, 0, columns, 1, p.w.len[1])], self.workspace_bytes(dev, p))
