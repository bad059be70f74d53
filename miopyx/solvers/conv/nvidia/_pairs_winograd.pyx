"""Backward weights of 3x3 in float32 by Winograd on Hopper's wgmma.

F(3x3, 2x2): a tile of 2x2 pixels of dy meets one of 4x4 of x in 16 products instead of 36.  What was transformed is
written once, as pairs of halves, and multiplied as 16 matrices; in runs of tiles that keep to the workspace.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport (
    SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg,
)
from miopyx.values._integers cimport ceil_div, more_parts, up
from miopyx.values._types cimport MX_BACKWARD_WEIGHTS, MX_FLOAT, mx_conv_problem, mx_tensor
from ._common cimport (
    ALIGN, LONGEST, NO_ROOM, SPLIT, WGMMA_PEAK, _NvSolver, channels_last_options, divisor, has_wgmma, most_workspace,
    mx_divisor, mx_nv_conv, mx_nv_sum, refuse_sizes, set_taps, set_x, set_y, tensor_cores,
)
from miopyx.solvers.conv._base cimport INT_LIMIT, WINOGRAD, stride_of, sum_terms

cdef enum:
    TAPS = 3
    TILE = 2               # pixels of dy along a side
    POINTS = 16
    CHUNK = 64             # channels, or filters, of a packed block
    DEPTH = 64             # tiles of a slice
    BLOCK_BYTES = CHUNK * DEPTH * 2 * 2  # of a slice's 64 channels as pairs
    LEAST = 16             # products of a sum: a product alone may be off by three times float's last place
    LEAST_CHANNELS = 16    # and filters, of a group: fewer would be packed as 64
    PACK_THREADS = 256
    THREADS = 384
    ROWS = 4               # filters that a work-group of winograd_weights has
    BUSY = 8               # work-groups a compute unit that transform tiles
    MOST_SHARES = 8
    TRANSFORMS = 30        # roundings of the transforms, relative to the largest sum
    PART = 4096            # terms of a chain of plain products, which are for what is not finite
    # How many times a tile's largest error is that of its four plain products a weight: the largest sums of a row of
    # A^T, B^T and G are 3, 2 and 1, each taken twice.
    SPREAD = 9

# Of a slice's time, what one with half of its consumers saves.
cdef double HALF = 0.38

cdef extern from "miopyx/kernels/conv/nvidia/pairs_winograd_args.h" nogil:
    ctypedef struct mx_nv_tiled:
        int channels, chunks
        int h, w
        int first_h, first_w
        int n, g, c, row, column

    ctypedef struct mx_nv_winograd:
        mx_nv_conv conv
        mx_nv_tiled x, y
        mx_nv_sum sum
        int groups, tiles
        int first_tile, slices
        int shares
        int image_tiles, row_tiles
        mx_divisor by_image_tiles, by_row_tiles

# Chunks that a tile of the products has across, splits of `each` slices of a run, and where things are in the
# workspace, in bytes.
cdef struct layout_t:
    int64_t columns, tiles, halves, splits, each
    int64_t slices, run                      # of all tiles, of a run
    int64_t parts                            # partial sums of all runs
    int64_t x_packed, y_packed, workspace


# What takes time, as TERMS names it: rounds of tiles over the compute units and their slices of 64 columns, those with
# half of their consumers not counted in full; megabytes.
cdef struct cost_terms_t:
    double launch, rounds, slices, parts, x, y

cdef tuple TERMS = ("launch", "rounds", "slices", "parts", "x", "y")


cdef void _split(Device dev, const mx_nv_winograd* o, layout_t* s) noexcept:
    """The width of tiles and the splits that should take least time: each takes 4 us to begin and end."""
    cdef int64_t units = max(1, dev.compute_units), least = max(1, ceil_div(<int64_t> o.slices * DEPTH, LONGEST))
    cdef int64_t columns, tiles, halves, splits, most, each
    cdef double cost, best = -1
    for columns in range(2, 4):
        tiles = ceil_div(o.x.chunks, columns) * POINTS * o.groups
        halves = o.y.chunks % 2 * tiles
        tiles *= ceil_div(o.y.chunks, 2)
        splits, most = least, max(least, min(4 * units // tiles + 2, ceil_div(o.slices, 2)))
        while splits <= most:
            each = ceil_div(o.slices, splits)
            cost = ceil_div(tiles * splits, units) * ((0.2 + 0.55 * columns) * each * (1 - HALF * halves / tiles) + 4)
            cost += splits * POINTS * o.sum.rows * <double> o.sum.pitch * 8 / 3e6
            if best < 0 or cost < best:
                best, s.columns, s.tiles, s.halves, s.each = cost, columns, tiles, halves, each
            splits = more_parts(o.slices, each)
    s.splits = ceil_div(o.slices, s.each)


cdef mx_nv_tiled _tiled(const mx_tensor* t, int64_t groups, int64_t channels) noexcept nogil:
    cdef mx_nv_tiled s
    memset(&s, 0, sizeof(s))
    s.channels, s.chunks = <int> channels, <int> ceil_div(channels, CHUNK)
    s.h, s.w = <int> t.len[3], <int> t.len[4]
    s.n, s.c, s.row, s.column = (
        <int> stride_of(t, 0), <int> stride_of(t, 1), <int> stride_of(t, 3), <int> stride_of(t, 4))
    s.g = <int> (channels * t.stride[1]) if groups > 1 else 0
    return s


cdef int64_t _packed_bytes(const mx_nv_winograd* o, const mx_nv_tiled* t) noexcept nogil:
    """Of all points as pairs, and the inverses of their scales."""
    return o.groups * t.chunks * <int64_t> o.slices * (POINTS * BLOCK_BYTES + CHUNK * 4)


cdef layout_t _plan(Device dev, const mx_conv_problem* p, mx_nv_winograd* o) noexcept:
    """Fill what the launches take."""
    cdef layout_t s
    cdef mx_nv_conv* g = &o.conv
    cdef int64_t filters = p.w.len[0] // p.groups, channels = p.w.len[1], work, runs, all_tiles
    cdef int64_t tiles_h = ceil_div(p.y.len[3], TILE), tiles_w = ceil_div(p.y.len[4], TILE)
    memset(o, 0, sizeof(o[0]))
    memset(&s, 0, sizeof(s))
    g.filters, g.channels, g.groups = <int> filters, <int> channels, <int> p.groups
    set_x(g, &p.x, channels, 0)
    set_y(g, &p.y, filters)
    set_taps(g, p)
    o.x, o.y = _tiled(&p.x, p.groups, channels), _tiled(&p.y, p.groups, filters)
    o.x.first_h, o.x.first_w = -<int> p.pad[1], -<int> p.pad[2]
    o.groups = <int> p.groups
    all_tiles = p.y.len[0] * tiles_h * tiles_w
    if all_tiles >= INT_LIMIT // 2 or p.w.len[0] * up(channels, CHUNK) >= INT_LIMIT:
        s.workspace, s.tiles, s.splits, s.each, s.slices, s.run = <int64_t> 1 << 62, 1, 1, 1, 1, 1
        return s
    o.tiles = <int> all_tiles
    o.image_tiles, o.row_tiles = <int> (tiles_h * tiles_w), <int> tiles_w
    o.by_image_tiles, o.by_row_tiles = divisor(tiles_h * tiles_w), divisor(tiles_w)
    o.sum.rows, o.sum.pitch = <int> p.w.len[0], o.x.chunks * CHUNK
    o.sum.w_k, o.sum.w_c, o.sum.w_h, o.sum.w_w = (
        <int> stride_of(&p.w, 0), <int> stride_of(&p.w, 1), <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4))
    s.slices = max(1, ceil_div(all_tiles, DEPTH))
    o.slices = <int> s.slices
    runs = 1 + (_packed_bytes(o, &o.x) + _packed_bytes(o, &o.y)) // (most_workspace() + 1)
    while True:
        s.run = ceil_div(s.slices, runs)
        o.slices = <int> s.run
        _split(dev, o, &s)
        s.parts = s.slices // s.run * s.splits + ceil_div(s.slices % s.run, s.each)
        # Packed copies begin at a multiple of 16 bytes, wherever the workspace does.
        s.x_packed = up(s.parts * POINTS * p.w.len[0] * o.sum.pitch * 4, ALIGN)
        s.y_packed = s.x_packed + _packed_bytes(o, &o.x)
        s.workspace = s.y_packed + _packed_bytes(o, &o.y) + ALIGN
        if s.workspace <= most_workspace() or s.run == 1 or s.x_packed > most_workspace():
            break
        runs = max(runs + 1, ceil_div(s.slices, s.run - 1))
    o.sum.splits = <int> s.parts
    o.shares = 1
    work = s.run * p.groups * (o.x.chunks + o.y.chunks)
    while o.shares < MOST_SHARES and work * o.shares < BUSY * max(1, dev.compute_units):
        o.shares *= 2
    return s


cdef class NvPairWinogradWrw(_NvSolver):
    """Backward weights of 3x3 in float32 by Winograd's F(3x3, 2x2): wgmma on pairs of halves, split-K."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1206, "NvPairWinogradWrw", MX_BACKWARD_WEIGHTS
        self.algorithm, self.mixes_tiles = WINOGRAD, True
        self.cost_names = TERMS

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef cost_terms_t* t = <cost_terms_t*> terms
        cdef mx_nv_winograd o
        cdef layout_t s = _plan(dev, p, &o)
        cdef int64_t units = max(1, dev.compute_units), left = s.slices % s.run
        t.launch = 1 + 2 * ceil_div(s.slices, s.run)
        t.rounds = s.slices // s.run * ceil_div(s.tiles * s.splits, units) + ceil_div(
            s.tiles * ceil_div(left, s.each), units)
        t.slices = t.rounds * s.each * s.columns * (1 - HALF * s.halves / s.tiles)
        t.parts = s.parts * POINTS * p.w.len[0] * <double> o.sum.pitch * 4e-6
        o.slices = <int> s.slices
        t.x, t.y = _packed_bytes(&o, &o.x) * 1e-6, _packed_bytes(&o, &o.y) * 1e-6

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        """A point's sums are of tiles, slice after slice, then part after part."""
        cdef mx_nv_winograd o
        cdef layout_t s = _plan(dev, p, &o)
        cdef double terms = sum_terms(p)
        return max(SPREAD * (SPLIT + s.each + s.parts) + TRANSFORMS, min(terms, <double> PART) + terms / PART)

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        if not tensor_cores(dev) or not has_wgmma(dev):
            return "needs wgmma"
        if p.w.type != MX_FLOAT:
            return "data type"
        if p.spatial != 2 or p.w.len[3] != TAPS or p.w.len[4] != TAPS:
            return "not a 3x3 filter"
        if p.step[1] != 1 or p.step[2] != 1 or p.dilation[1] != 1 or p.dilation[2] != 1:
            return "stride or dilation"
        if p.y.len[0] * p.y.len[3] * p.y.len[4] < LEAST:
            return "too few products for pairs of halves"
        if min(p.w.len[1], p.w.len[0] // p.groups) < LEAST_CHANNELS:
            return "few channels a group"
        why = refuse_sizes(p, 0)
        if why is not None:
            return why
        # Other solvers take less.
        if self.workspace_bytes(dev, p) > min(dev.max_alloc, most_workspace()):
            return NO_ROOM
        return None

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef mx_nv_winograd o
        return _plan(dev, p, &o).workspace

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef int64_t filters = p.w.len[0] // p.groups, channels = p.w.len[1]
        cdef double met = p.y.len[3] * p.y.len[4] / <double> (
            TILE * TILE * ceil_div(p.y.len[3], TILE) * ceil_div(p.y.len[4], TILE))
        # Writing and reading what was transformed takes as long as some 200 channels' products.
        return (2 * WGMMA_PEAK * met * channels / <double> up(channels, CHUNK) * filters / <double> up(filters, CHUNK)
                / (1 + 200 / <double> min(channels, filters)))

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_nv_winograd o
        cdef layout_t s = _plan(dev, p, &o)
        cdef int64_t first, splits, part = POINTS * p.w.len[0] * o.sum.pitch * 4, done = 0
        x, y = Arg.slot_of(SLOT_X, 4), Arg.slot_of(SLOT_Y, 4)
        packed = (Arg.slot_of(SLOT_WORKSPACE, 4, s.x_packed), Arg.slot_of(SLOT_WORKSPACE, 4, s.y_packed))
        options = {"SM_90A": 1, "COLUMNS": s.columns, **channels_last_options(p)}
        cdef str file = "conv/nvidia/pairs_winograd.cl"
        steps = []
        for first in range(0, s.slices, s.run):
            o.first_tile, o.slices = <int> (first * DEPTH), <int> min(s.run, s.slices - first)
            splits = ceil_div(o.slices, s.each)
            steps += [
                Step(KernelSpec(file, "winograd_tiles", **options), (x, y, *packed, struct_arg(&o, sizeof(o))),
                     (<int64_t> o.slices * o.shares * p.groups * (o.x.chunks + o.y.chunks) * PACK_THREADS,),
                     (PACK_THREADS,)),
                Step(KernelSpec(file, "winograd_products", **options),
                     (*packed, Arg.slot_of(SLOT_WORKSPACE, 4, done * part), struct_arg(&o, sizeof(o)),
                      Arg.int32(s.each)), (THREADS * s.tiles * splits,), (THREADS,))]
            done += splits
        steps.append(
            Step(KernelSpec(file, "winograd_weights", **options),
                 (x, y, Arg.slot_of(SLOT_WORKSPACE, 4), Arg.slot_of(SLOT_W, 4), struct_arg(&o, sizeof(o)),
                  Arg.alpha(False), Arg.beta(False)),
                 (ceil_div(p.w.len[0], ROWS) * o.x.chunks * PACK_THREADS,), (PACK_THREADS,)))
        return Solution(steps, s.workspace)
