"""int8 convolutions forward on NVIDIA's tensor cores, one and two spatial axes.

x and w are read channels last, 16 channels at a time: in place where they are stored so, else from a packed copy.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport MX_FORWARD, MX_INT8, mx_conv_problem, mx_tensor
from miopyx.solvers.conv._base cimport stride_of
from miopyx.solvers._tokens cimport real_token, type_token
from miopyx.solvers.conv._matmul cimport wide_scalars
from ._mma cimport mx_nv_bytes, only_read
from ._common cimport (
    ALIGN, MMA_PEAK, NO_ROOM, _NvSolver, divides, divisor, mx_nv_conv, refuse_sizes, set_packed_w, set_taps, set_x,
    set_y, tensor_cores,
)

cdef enum:
    CHUNK = 16             # channels that are copied together
    DEPTH = 128            # of a slice

# What a work-group takes: pixels, filters, groups at once on a compute unit, and operations a microsecond of them.
cdef struct tile_t:
    int pixels, filters, resident
    double speed

cdef tile_t[3] TILES
TILES[0] = tile_t(128, 128, 2, 5.3e6)
TILES[1] = tile_t(128, 64, 3, 4.5e6)
TILES[2] = tile_t(64, 64, 3, 3.3e6)
cdef tuple TILE_DEFINES = ({}, {"WARPS_M": 4, "WARPS_N": 1, "WM": 32}, {"WM": 32, "WN": 32, "STAGES": 4})

cdef struct packing_t:
    bint x, w
    int64_t reduced, x_offset, workspace


cdef packing_t _packing(const mx_conv_problem* p) noexcept nogil:
    cdef packing_t k
    memset(&k, 0, sizeof(k))
    k.reduced = up(p.w.len[1], CHUNK)
    k.x = (p.x.stride[1] != 1 or k.reduced != p.w.len[1]
           or (stride_of(&p.x, 0) | stride_of(&p.x, 3) | stride_of(&p.x, 4)) % CHUNK != 0)
    k.w = (p.w.stride[1] != 1 or k.reduced != p.w.len[1]
           or (stride_of(&p.w, 0) | stride_of(&p.w, 3) | stride_of(&p.w, 4)) % CHUNK != 0)
    if k.w:
        k.x_offset = up(p.w.len[0] * p.w.len[3] * p.w.len[4] * k.reduced, ALIGN)
    k.workspace = k.x_offset
    if k.x:
        k.workspace += up(p.x.len[0] * p.x.len[3] * p.x.len[4] * p.groups * k.reduced, ALIGN)
    return k


cdef Step pack_bytes(const mx_tensor* t, int slot, int64_t to, int64_t groups, int64_t channels, int64_t reduced):
    """Copy a tensor with channels last to byte `to` of the workspace; `channels` are of one group."""
    cdef mx_nv_bytes g
    cdef int64_t pixels = t.len[3] * t.len[4]
    cdef int64_t tiles = ceil_div(pixels, 64) * ceil_div(reduced, 64) * groups * t.len[0]
    g.images, g.groups, g.pixels, g.w = <int> t.len[0], <int> groups, <int> pixels, <int> t.len[4]
    g.channels, g.reduced = <int> channels, <int> reduced
    g.from_n, g.from_c = <int> stride_of(t, 0), <int> stride_of(t, 1)
    g.from_g = <int> (channels * g.from_c)
    g.from_h, g.from_w = <int> stride_of(t, 3), <int> t.stride[4]
    g.by_w = divisor(g.w)
    args = (Arg.slot_of(slot, 1), Arg.slot_of(SLOT_WORKSPACE, 1, to),
            struct_arg(&g, sizeof(g)))
    return Step(KernelSpec("conv/nvidia/pack_bytes.cl", "pack_bytes"), args, (tiles * 256,), (256,))


cdef class NvInt8Fwd(_NvSolver):
    """int8 forward to int32, float32 or int8: implicit GEMM by mma.sync, after launches that pack."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1117, "NvInt8Fwd", MX_FORWARD

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why
        cdef packing_t k
        if not tensor_cores(dev):
            return "needs NVIDIA's tensor cores"
        if p.w.type != MX_INT8:
            return "data type"
        k = _packing(p)
        why = refuse_sizes(p, k.workspace)
        if why is not None:
            return why
        return NO_ROOM if k.workspace > dev.max_alloc else None

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef mx_conv_problem read = only_read(p)
        return _packing(&read).workspace

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        # The share of a tile that is not padding.
        cdef double share = p.w.len[1] / <double> up(p.w.len[1], CHUNK) * min(1.0, p.w.len[0] / (p.groups * 64.0))
        return MMA_PEAK * share

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem read = only_read(p)
        cdef packing_t k = _packing(&read)
        cdef mx_nv_conv g
        cdef int64_t tiles, best_tiles = 1, slices, at_once
        cdef double cost, best = -1
        cdef int i, chosen = 0
        p = &read
        memset(&g, 0, sizeof(g))
        set_taps(&g, p)
        g.filters, g.channels = <int> (p.w.len[0] // p.groups), <int> p.w.len[1]
        g.reduced, g.groups = <int> k.reduced, <int> p.groups
        set_x(&g, &p.x, g.channels, k.reduced if k.x else 0)
        if k.w:
            set_packed_w(&g, k.reduced, g.taps_h, g.taps_w)
        else:
            g.w_k, g.w_h, g.w_w = <int> stride_of(&p.w, 0), <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4)
            g.w_g = g.w_k * g.filters
        set_y(&g, &p.y, g.filters)

        cdef bint last = g.y_c == 1 and g.filters > 1, wide = wide_scalars(dev, p.y.type)
        slices = ceil_div(g.taps_h * g.taps_w * g.reduced, DEPTH)
        for i in range(3):
            tiles = (up(g.pixels, TILES[i].pixels) // TILES[i].pixels
                     * (up(g.filters, TILES[i].filters) // TILES[i].filters) * g.groups)
            at_once = max(1, dev.compute_units) * TILES[i].resident
            cost = (ceil_div(tiles, at_once) * TILES[i].resident
                    * (2.0 * slices * DEPTH * TILES[i].pixels * TILES[i].filters / TILES[i].speed + 1))
            if best < 0 or cost < best:
                best, best_tiles, chosen = cost, tiles, i
        steps = []
        if k.w:
            steps.append(pack_bytes(&p.w, SLOT_W, 0, 1, p.w.len[1], k.reduced))
        if k.x:
            steps.append(pack_bytes(&p.x, SLOT_X, k.x_offset, p.groups, p.w.len[1], k.reduced))
        spec = KernelSpec(
            "conv/nvidia/mma.cl", "conv_nvidia_mma", X_TYPE="int8", Y_TYPE=type_token(p.y.type), ACC="int",
            CHANNELS_LAST=int(last), VEC=4 if divides(4, &g, last) else 1, SCALAR=real_token(wide),
            **TILE_DEFINES[chosen])
        args = (
            Arg.slot_of(SLOT_WORKSPACE if k.x else SLOT_X, 1, k.x_offset if k.x else 0),
            Arg.slot_of(SLOT_WORKSPACE if k.w else SLOT_W, 1),
            Arg.slot_of(SLOT_Y, type_size(<int> p.y.type)), struct_arg(&g, sizeof(g)),
            Arg.alpha(wide), Arg.beta(wide),
        )
        steps.append(Step(spec, args, (best_tiles * 128,), (128,)))
        return Solution(steps, k.workspace)
