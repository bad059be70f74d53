"""Backward weights in float32 by Hopper's wgmma where neighbouring taps share pixels.

As in `_pairs` a float is a pair of halves, but x and dy are packed once for all taps, with the pads of x, and each
channel has one scale: down to 2^-17 of the channel's largest that keeps 22 bits, and below it the error stays under
2^-40 of the largest.  Channels whose largest is far above their middle are computed product by product, slowly.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.values._integers cimport ceil_div, more_parts, up
from miopyx.values._types cimport MX_BACKWARD_WEIGHTS, MX_FLOAT, mx_conv_problem, mx_tensor
from ._common cimport (
    ALIGN, LONGEST, NO_ROOM, WGMMA_PEAK, _NvSolver, channels_last_options, divisor, folded, has_wgmma, is_volume,
    mx_divisor, mx_nv_conv, mx_nv_volume, plane_rows, refuse_sizes, set_taps, set_x, set_y, sum_partial, tensor_cores,
    volume,
)
from miopyx.solvers.conv._base cimport INT_LIMIT, stride_of

cdef enum:
    CHUNK = 64             # channels, or filters, of a packed row
    DEPTH = 64             # positions of a slice
    K_STEP = 16
    TAPS = 3               # of a tile
    BM = 128               # with one row of taps
    THREADS = 384
    PACK_THREADS = 256
    SEEN_BYTES = 12        # mx_seen of conv/nvidia/pairs_taps_pack.cl
    LEAST = 16             # products of a sum: a product alone may be off by three times float's last place
    LEAST_CHANNELS = 16    # and filters, of a group: fewer would be packed as 64
    TAP_LIMIT = 4          # of the dilation along a row: X_ROWS of conv/nvidia/pairs_taps.cl

# Of a slice's time, what one with half of its consumers saves.
cdef double HALF = 0.38

cdef extern from "miopyx/kernels/conv/nvidia/pairs_taps_args.h" nogil:
    ctypedef struct mx_nv_packed:
        int images, groups, channels, chunks
        int d, h, w
        int first_d, first_h, first_w
        int n, g, c, slab, row, column
        int positions, blocks
        int parts
        mx_divisor by_blocks

    ctypedef struct mx_nv_pack_taps:
        mx_nv_packed x, y
        int largest_parts[2]
        mx_divisor by_pitch, by_plane
        int pitch, plane_rows

    ctypedef struct mx_nv_pair_taps:
        mx_nv_volume volume
        int pitch, plane, x_chunks, y_chunks, x_positions, y_positions
        int slices, last_steps
        int tap_groups

# Tiles, splits of `each` slices, and where things are in the workspace, in bytes.
cdef struct layout_t:
    int64_t rows                             # of three taps that a tile has, with 128 filters or 64
    int64_t tiles, halves, splits, each, columns
    int64_t largest, inverses, x_packed, y_packed, workspace


# What takes time, as TERMS names it: rounds of tiles over the compute units and their slices, the last one's of a tile
# with half of its consumers not counted in full; megabytes.
cdef struct cost_terms_t:
    double launch, rounds, slices, parts, x, y

cdef tuple TERMS = ("launch", "rounds", "slices", "parts", "x", "y")


cdef mx_nv_packed _packed(const mx_tensor* t, int64_t groups, int64_t channels, int64_t positions) noexcept nogil:
    """Of a tensor of `folded`, whose pixels begin at position 0."""
    cdef mx_nv_packed s
    memset(&s, 0, sizeof(s))
    s.images, s.groups, s.channels = <int> t.len[0], <int> groups, <int> channels
    s.chunks = <int> ceil_div(channels, CHUNK)
    s.d, s.h, s.w = <int> t.len[2], <int> plane_rows(t), <int> t.len[4]
    s.n, s.c, s.row, s.column = (
        <int> stride_of(t, 0), <int> stride_of(t, 1), <int> stride_of(t, 3), <int> stride_of(t, 4))
    s.slab = s.row * s.h
    s.g = <int> (channels * t.stride[1]) if groups > 1 else 0
    s.positions, s.blocks = <int> positions, <int> ceil_div(positions, DEPTH)
    s.by_blocks = divisor(s.blocks)
    return s


cdef void _share(Device dev, mx_nv_pack_taps* o, int64_t groups_a_unit) noexcept:
    """Give each chunk's blocks to so many work-groups that the device has `groups_a_unit` for each compute unit."""
    cdef int64_t chunks = (o.x.chunks + o.y.chunks) * <int64_t> o.x.groups
    cdef int64_t parts = max(1, ceil_div(groups_a_unit * max(1, dev.compute_units), chunks))
    o.x.parts = <int> min(parts, <int64_t> o.x.images * o.x.blocks)
    o.y.parts = <int> min(parts, <int64_t> o.y.images * o.y.blocks)


cdef int64_t _work_groups(const mx_nv_pack_taps* o) noexcept nogil:
    return <int64_t> o.x.groups * (o.x.chunks * o.x.parts + o.y.chunks * o.y.parts)


cdef void _split(Device dev, const mx_conv_problem* p, const mx_nv_pair_taps* o, layout_t* s) noexcept:
    """The tiles and splits that should take least time: each takes 4 us to begin and end, and is written and read."""
    cdef int64_t units = max(1, dev.compute_units), all_slices = p.y.len[0] * o.slices
    cdef int64_t tap_rows = p.w.len[2] * plane_rows(&p.w) * o.tap_groups, least, most, rows, tiles, halves, splits, each
    cdef double cost, best = -1
    least = max(1, ceil_div(all_slices * DEPTH, LONGEST))
    for rows in range(1, 3):
        # Of a tile's two consumers the last may have nothing to do.
        if rows == 1:
            tiles, halves = (o.y_chunks + 1) // 2 * tap_rows, o.y_chunks % 2 * tap_rows
        else:
            tiles, halves = o.y_chunks * ((tap_rows + 1) // 2), o.y_chunks * (tap_rows % 2)
        tiles *= o.x_chunks * p.groups
        halves *= o.x_chunks * p.groups
        splits, most = least, max(least, min(4 * units // tiles + 2, ceil_div(all_slices, 2)))
        while splits <= most:
            each = ceil_div(all_slices, splits)
            cost = ceil_div(tiles * splits, units) * (1.7 * each * (1 - HALF * halves / tiles) + 4)
            cost += splits * p.w.len[0] * s.columns * 8 / 3e6
            if best < 0 or cost < best:
                best, s.rows, s.tiles, s.halves, s.each = cost, rows, tiles, halves, each
            splits = more_parts(all_slices, each)
    s.splits = ceil_div(all_slices, s.each)


cdef layout_t _plan(Device dev, const mx_conv_problem* p, mx_nv_pair_taps* o, mx_nv_pack_taps* pack) noexcept:
    """Fill what the launches take, `pack` as the first launch takes it, of a problem of `folded`."""
    cdef layout_t s
    cdef mx_nv_conv* g = &o.volume.conv
    cdef int64_t filters = p.w.len[0] // p.groups, channels = p.w.len[1], taps_d = p.w.len[2], taps_h = plane_rows(&p.w)
    cdef int64_t rows = plane_rows(&p.y), all_rows = rows + (taps_h - 1) * p.dilation[1], of_y, of_x, plane
    memset(o, 0, sizeof(o[0]))
    memset(pack, 0, sizeof(pack[0]))
    memset(&s, 0, sizeof(s))
    g.filters, g.channels, g.groups = <int> filters, <int> channels, <int> p.groups
    set_x(g, &p.x, channels, 0)
    set_y(g, &p.y, filters)
    set_taps(g, p)
    if is_volume(p):
        o.volume = volume(g, &p.x, &p.y)
    o.pitch = g.q + (g.taps_w - 1) * g.tap_w
    plane = all_rows * o.pitch
    o.tap_groups = <int> ceil_div(g.taps_w, TAPS)
    of_y = up((p.y.len[2] - 1) * plane + (rows - 1) * o.pitch + g.q, K_STEP)
    of_x = up(of_y + (taps_d - 1) * p.dilation[0] * plane + (taps_h - 1) * p.dilation[1] * o.pitch
              + (o.tap_groups * TAPS - 1) * g.tap_w, 8)
    if of_x * p.x.len[0] > INT_LIMIT // 8:
        s.workspace = <int64_t> 1 << 62
        return s
    o.plane, o.y_positions, o.x_positions = <int> plane, <int> of_y, <int> of_x
    o.slices = <int> ceil_div(of_y, DEPTH)
    o.last_steps = <int> (of_y - (o.slices - 1) * DEPTH) // K_STEP
    pack.x = _packed(&p.x, p.groups, channels, of_x)
    pack.y = _packed(&p.y, p.groups, filters, of_y)
    pack.x.first_d, pack.x.first_h, pack.x.first_w = -<int> p.pad[0], -<int> p.pad[1], -<int> p.pad[2]
    pack.pitch, pack.by_pitch = o.pitch, divisor(o.pitch)
    pack.plane_rows, pack.by_plane = <int> all_rows, divisor(all_rows)
    o.x_chunks, o.y_chunks = pack.x.chunks, pack.y.chunks
    _share(dev, pack, 4)
    pack.largest_parts[0], pack.largest_parts[1] = pack.x.parts, pack.y.parts
    s.columns = o.x_chunks * CHUNK * taps_d * taps_h * g.taps_w
    _split(dev, p, o, &s)
    s.largest = up(s.splits * p.w.len[0] * s.columns * 4, ALIGN)
    s.inverses = s.largest + up(_work_groups(pack) * CHUNK * SEEN_BYTES, ALIGN)
    s.x_packed = s.inverses + up((pack.x.chunks + pack.y.chunks) * p.groups * CHUNK * 4, ALIGN)
    # Packed copies begin at a multiple of 16 bytes, wherever the workspace does.
    s.y_packed = s.x_packed + p.x.len[0] * p.groups * o.x_chunks * of_x * CHUNK * 4
    s.workspace = s.y_packed + p.x.len[0] * p.groups * o.y_chunks * of_y * CHUNK * 4 + ALIGN
    return s


cdef class NvPairTapsWrw(_NvSolver):
    """Backward weights in float32 by wgmma on packed pairs of halves: three neighbouring taps share pixels, split-K."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1186, "NvPairTapsWrw", MX_BACKWARD_WEIGHTS
        self.cost_names = TERMS

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef cost_terms_t* t = <cost_terms_t*> terms
        cdef mx_conv_problem f = folded(p)
        cdef mx_nv_pair_taps o
        cdef mx_nv_pack_taps pack
        cdef layout_t s = _plan(dev, &f, &o, &pack)
        t.launch, t.rounds = 4, ceil_div(s.tiles * s.splits, max(1, dev.compute_units))
        t.slices = t.rounds * s.each * (1 - HALF * s.halves / s.tiles)
        t.parts = s.splits * p.w.len[0] * <double> s.columns * 4e-6
        t.x = p.x.len[0] * p.groups * <double> o.x_chunks * o.x_positions * CHUNK * 4e-6
        t.y = p.x.len[0] * p.groups * <double> o.y_chunks * o.y_positions * CHUNK * 4e-6

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        if not tensor_cores(dev) or not has_wgmma(dev):
            return "needs wgmma"
        if p.w.type != MX_FLOAT:
            return "data type"
        if p.y.len[0] * p.y.len[2] * p.y.len[3] * p.y.len[4] < LEAST:
            return "too few products for pairs of halves"
        if min(p.w.len[1], p.w.len[0] // p.groups) < LEAST_CHANNELS:
            return "few channels a group"
        why = refuse_sizes(p, 0, True, True)
        if why is not None:
            return why
        cdef mx_conv_problem f = folded(p)
        if f.step[0] != 1 or f.step[1] != 1 or f.step[2] != 1:
            return "a stride"
        if f.w.len[4] < TAPS:
            return "filter size"
        if f.dilation[2] > TAP_LIMIT:
            return "a large dilation"
        if self.workspace_bytes(dev, p) > min(dev.max_alloc, <int64_t> 4 * INT_LIMIT):
            return NO_ROOM
        return None

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef mx_conv_problem f = folded(p)
        cdef mx_nv_pair_taps o
        cdef mx_nv_pack_taps pack
        return _plan(dev, &f, &o, &pack).workspace

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return (WGMMA_PEAK * p.w.len[1] / <double> up(p.w.len[1], CHUNK)
                * min(1.0, p.w.len[0] // p.groups / <double> BM))

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem f = folded(p)
        p = &f
        cdef mx_nv_pair_taps o
        cdef mx_nv_pack_taps pack
        cdef layout_t s = _plan(dev, p, &o, &pack)
        x, y = Arg.slot_of(SLOT_X, 4), Arg.slot_of(SLOT_Y, 4)
        largest, inverses = Arg.slot_of(SLOT_WORKSPACE, 4, s.largest), Arg.slot_of(SLOT_WORKSPACE, 4, s.inverses)
        packed = (Arg.slot_of(SLOT_WORKSPACE, 4, s.x_packed), Arg.slot_of(SLOT_WORKSPACE, 4, s.y_packed))
        last = channels_last_options(p)
        axes = {"AXES": 3} if is_volume(p) else {}
        last.update(axes)
        steps = [Step(KernelSpec("conv/nvidia/pairs_taps_pack.cl", "pairs_largest", **last),
                      (x, y, largest, struct_arg(&pack, sizeof(pack))),
                      (_work_groups(&pack) * PACK_THREADS,), (PACK_THREADS,))]
        _share(dev, &pack, 8)
        steps += [
            Step(KernelSpec("conv/nvidia/pairs_taps_pack.cl", "pairs_pack", **last),
                 (x, y, largest, inverses, *packed, struct_arg(&pack, sizeof(pack))),
                 (_work_groups(&pack) * PACK_THREADS,), (PACK_THREADS,)),
            Step(KernelSpec("conv/nvidia/pairs_taps.cl", "conv_nvidia_pairs_taps", SM_90A=1, ROWS=s.rows,
                            **axes),
                 (x, y, *packed, inverses, Arg.slot_of(SLOT_WORKSPACE, 4), struct_arg(&o, sizeof(o)),
                  Arg.int32(s.each)),
                 (THREADS * s.tiles * s.splits,), (THREADS,)),
            sum_partial(p, s.splits, 0, s.columns, 1, o.x_chunks * CHUNK)]
        return Solution(steps, s.workspace)
