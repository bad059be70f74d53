"""Convolution in 16 bits by Hopper's wgmma: what the kernels conv_nvidia_hopper*.cl take."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.values._integers cimport ceil_div, gcd, more_parts, up
from miopyx.values._types cimport MX_BACKWARD_DATA, MX_FLOAT, MX_FORWARD, MX_FUSED_Z, mx_conv_problem, mx_tensor
from miopyx.solvers.conv._base cimport INT_LIMIT, stride_of
from miopyx.solvers._tokens cimport type_token
from ._mma cimport (
    DEPTH, NARROW, NvImplicitGemmBwd, NvImplicitGemmFwd, NvImplicitGemmWrw, elements_of, in_place, megabytes,
    mx_nv_merged, mx_nv_scatter, mx_nv_stepped, only_read, operand_args, operands, split_k_operands, pack_for_split_k,
    pack_pixels, split_k_args, split_k_t, contiguous_pixels, roles_of, roles_t, unpacking, widest,
)
from ._common cimport (
    ALIGN, LONGEST, STEP, WGMMA_PEAK, both, deep as in_depth, divisor, has_wgmma, is_volume, mx_divisor, mx_nv_conv,
    RunsOffer, images_of, mx_nv_volume, may_begin_early, plane_rows, set_grid, set_packed_w, set_taps, volume,
)
from ._tensor_maps cimport has_maps, map_channels, map_filters, map_pixels, map_result, mapped, reach_of

cdef extern from "miopyx/kernels/conv/nvidia/hopper_args.h" nogil:
    ctypedef struct mx_nv_rows:
        mx_nv_conv conv
        int images, rows, pitch
        int low, span
        int tiles, group_tiles
        int planes, taps_d
        int d, step_d, first_d, tap_d
        int x_d, w_d, y_d
        mx_divisor by_planes

    ctypedef struct mx_nv_tile_sum:
        int channels, taps_w
        int filters, columns, reduced, folded, taps_across
        int down, across, tiles, slices, splits
        int first_tile
        int w_k, w_c, w_h, w_w
        mx_divisor by_down, by_across, by_reduced, by_folded, by_taps_across, by_split_slices

cdef enum:
    WEIGHT_TILES = 8
    MOST_MERGED = 64       # taps of phases of the stride that are filters
    MOST_TAPS = 15         # either way: a bit for each; or 30 of one row, see LONG_TAPS of conv/nvidia/hopper.h
    CHOICES_COUNT = 13
    SLICE = 64             # numbers of 16 bits of a slice
    ROW_BYTES = 128        # of local memory, a slice's
    LOCAL_BYTES = 225000   # likewise for the rings of conv/nvidia/hopper_rows.cl
    CACHED = 40000000      # bytes of x and dy that the L2 keeps

cdef int64_t _most_read_again = 2 * CACHED


def limit_read_again(int64_t most=2 * CACHED):
    """Let groups go through the planes of an x of more bytes together; for tests, which have no such tensors."""
    global _most_read_again
    _most_read_again = most


cdef int _only_choice = -1
cdef int _only_tile = -1


def limit_choices(int only=-1, int weights=-1):
    """Take this one of CHOICES wherever it is possible, and of TILES; for tests and benches."""
    global _only_choice, _only_tile
    _only_choice, _only_tile = only, weights


# What is read from memory, and of partial sums written and read, in bytes a microsecond.
cdef double MEMORY_SPEED = 4.2e6, PARTIAL_SPEED = 8e6
# Microseconds of the launch that adds up, beside those.
cdef double ADDING_UP = 4
# Elements of z that a work-group reads in a microsecond, beside what else it copies.
cdef double Z_SPEED = 16384

# Tiles of backward weights by their filters and columns.
cdef enum:
    W128X256
    W256X128
    W128X128
    W64X256
    W64X64
    W128X192
    W64X192
    W256X144

cdef tile_t[WEIGHT_TILES] TILES
TILES[W128X256] = tile_t(128, 256, 384, 1, DEPTH, 0.76, 3)
TILES[W256X128] = tile_t(256, 128, 384, 1, DEPTH, 0.74, 3)
TILES[W128X128] = tile_t(128, 128, 384, 1, DEPTH, 0.46, 3)
TILES[W64X256] = tile_t(64, 256, 256, 1, DEPTH, 0.52, 3)
TILES[W64X64] = tile_t(64, 64, 256, 3, DEPTH, 0.8, 4)
TILES[W128X192] = tile_t(128, 192, 384, 1, DEPTH, 0.61, 3)
TILES[W64X192] = tile_t(64, 192, 256, 1, DEPTH, 0.42, 4)
TILES[W256X144] = tile_t(256, 144, 384, 1, DEPTH, 0.85, 3)
cdef tuple TILE_DEFINES = (
    {"STAGES": 4}, {"STAGES": 4, "WG_ROWS": 2}, {"STAGES": 6}, {"STAGES": 5}, {"STAGES": 4}, {"STAGES": 5},
    {"STAGES": 6}, {"STAGES": 4, "WG_ROWS": 2})


# Tiles by their pixels and filters; RESIDENT: w stays in local memory.
cdef enum:
    T128X256
    T256X128
    T128X128
    T128X64
    T256X64
    T192X256
    T128X192
    T192X128
    T64X256_RESIDENT
    T64X128_RESIDENT
    T128X128_RESIDENT
    T128X64_RESIDENT
    T256X64_RESIDENT

cdef choice_t[CHOICES_COUNT] CHOICES
CHOICES[T128X256] = choice_t(128, 256, 0, 0, 0.79, 1.5)
CHOICES[T256X128] = choice_t(256, 128, 0, 0, 0.71, 2.2)
CHOICES[T128X128] = choice_t(128, 128, 1, 0, 0.43, 0.74)
CHOICES[T128X64] = choice_t(128, 64, 1, 0, 0.35, 0.6)
CHOICES[T256X64] = choice_t(256, 64, 0, 0, 0.55, 1.0)
CHOICES[T192X256] = choice_t(192, 256, 0, 0, 1.01, 3.25)
CHOICES[T128X192] = choice_t(128, 192, 0, 0, 0.58, 3.0)
CHOICES[T192X128] = choice_t(192, 128, 0, 0, 0.55, 2.6)
CHOICES[T64X256_RESIDENT] = choice_t(64, 256, 1, 1, 0.22, 0.9)
CHOICES[T64X128_RESIDENT] = choice_t(64, 128, 1, 1, 0.20, 0.35)
CHOICES[T128X128_RESIDENT] = choice_t(128, 128, 1, 1, 0.35, 0.95)
CHOICES[T128X64_RESIDENT] = choice_t(128, 64, 1, 1, 0.25, 0.6)
CHOICES[T256X64_RESIDENT] = choice_t(256, 64, 0, 1, 0.45, 1.0)
# The same tiles where tensor maps copy: of x and w, and of x and dy, which may be floats.
cdef choice_t[CHOICES_COUNT] MAPPED
cdef tile_t[WEIGHT_TILES] MAPPED_TILES, FLOAT_TILES


cdef int _set_mapped(dict choices, dict tiles) except -1:
    """Times of a slice and of a tile's end that differ from those of CHOICES and TILES."""
    cdef int i
    for i in range(CHOICES_COUNT):
        MAPPED[i] = CHOICES[i]
        MAPPED[i].slice, MAPPED[i].end = choices.get(i, (CHOICES[i].slice, CHOICES[i].end))
    for i in range(WEIGHT_TILES):
        MAPPED_TILES[i] = TILES[i]
        MAPPED_TILES[i].slice, MAPPED_TILES[i].end = tiles.get(i, (TILES[i].slice, TILES[i].end))
        FLOAT_TILES[i] = MAPPED_TILES[i]  # as many bytes, and as many clocks
        FLOAT_TILES[i].depth = DEPTH // 2
    return 0


_set_mapped(
    {T128X256: (0.628, 1.89), T256X128: (0.63, 1.84), T128X128: (0.323, 0.72), T128X64: (0.232, 0.4),
     T192X256: (0.917, 3.81), T128X192: (0.478, 1.9), T192X128: (0.534, 1.7), T64X256_RESIDENT: (0.346, 0.6),
     T64X128_RESIDENT: (0.215, 0.5), T128X128_RESIDENT: (0.286, 0.85), T128X64_RESIDENT: (0.207, 0.4)},
    {W128X256: (0.70, 2.6), W256X128: (0.76, 2.3), W128X128: (0.375, 1.85), W64X256: (0.406, 2.3), W64X64: (0.476, 1.6),
     W128X192: (0.541, 1.6), W64X192: (0.324, 2.2)})


# How conv/nvidia/hopper_rows.cl goes through positions, pixels with their padding.
cdef struct rows_t:
    bint used, local_epilogue                # see LOCAL_EPILOGUE
    bint turned                              # w is transposed and turned, see W_TRANSPOSED
    int64_t rows, pitch, low, span           # see the kernel
    int64_t filters, depths, blocks          # BF, DEPTHS and BLOCKS
    int64_t channels, positions              # CHANNELS and BP
    int64_t unit, stages                     # UNIT, zero but for volumes; STAGES
    bint kept                                # see KEPT
    int64_t planes, tiles                    # planes of y, tiles in all


cdef int64_t _side(int64_t x, int64_t y, int64_t first, int64_t last) noexcept nogil:
    """Positions along an axis of x, so that taps from `first` to `last` of y's pixels meet it or what is between."""
    return max(x + max(0, -first, y - 1 + last - (x - 1)), y)


cdef rows_t _rows_of(const mx_conv_problem* p, const roles_t* r, const mx_nv_conv* g) noexcept nogil:
    cdef rows_t o
    cdef bint deep = g.p >> 16 != 0
    cdef int64_t rows = g.p & 0xffff if deep else g.p, image = rows * g.q, images = p.x.len[0], position = 128
    cdef int64_t h = g.h & 0xffff if deep else g.h, taps_h = g.taps_h & 0xffff if deep else g.taps_h
    cdef int64_t tap_h = <short> g.tap_h if deep else g.tap_h, first_h = <short> g.first_h if deep else g.first_h
    cdef int64_t step_h = <short> g.step_h if deep else g.step_h, h0, h1, w0, w1, mirrored = 1, most = 24, left
    cdef int64_t taps_d = g.taps_h >> 16 if deep else 1, taps = taps_d * taps_h * g.taps_w
    memset(&o, 0, sizeof(o))
    if g.filters == 1 or g.filters > 64 or g.groups != 1:
        return o
    o.local_epilogue = g.y_c != 1 and not r.scaled
    o.turned = r.w_transposed and g.filters <= 32
    o.filters = 32 if g.filters <= 32 else 64
    o.channels, o.positions, o.planes = 64, 256, g.p >> 16 if deep else 1
    if r.narrow.used:
        if not r.narrow.whole_rows:
            return o
        o.rows, o.pitch = r.narrow.rows, r.narrow.chunks
        o.span, o.depths = r.narrow.span, ceil_div(g.taps_h * g.reduced, 64)
        position, mirrored, most = 16 * r.narrow.planes, 2, 32
    else:
        o.channels = 16 if g.reduced <= 16 else 32 if g.reduced <= 32 else 64
        if (taps < 2 or r.x_pixels or g.reduced > 64 or 4 * g.reduced < 3 * o.channels
                or step_h != 1 or g.step_w != 1 or r.scaled and (deep or g.reduced != 64)
                or deep and p.direction == MX_BACKWARD_DATA and max(p.step[0], p.step[1], p.step[2]) > 1):
            return o
        h0, w0 = min(0, (taps_h - 1) * tap_h) + first_h, min(0, (g.taps_w - 1) * g.tap_w) + g.first_w
        h1, w1 = max(0, (taps_h - 1) * tap_h) + first_h, max(0, (g.taps_w - 1) * g.tap_w) + g.first_w
        o.rows, o.pitch = _side(h, rows, h0, h1), _side(g.w, g.q, w0, w1)
        o.low = h0 * o.pitch + w0
        o.span = h1 * o.pitch + w1 - o.low
        o.depths = ceil_div(taps * o.channels, 64)
        position = 2 * o.channels
    left = -o.depths * o.filters * 128 - (512 * o.filters if o.local_epilogue else 0)
    if deep:
        left += GROUP_BYTES - o.depths * 64 // o.channels * 8
        # A tile that goes on from plane to plane, if there is room, else one that copies each of its units.
        o.kept = g.step_h >> 16 == 1 and abs(g.tap_h >> 16) == 1
        while True:
            o.unit = ceil_div(o.positions + o.span, 64)
            o.stages = min(8, left // (o.unit * 64 * position))
            if not o.kept or o.stages > taps_d:
                break
            o.kept, o.positions = o.positions == 256, 128 if o.positions == 256 else 256
        o.used = o.stages >= 2 and taps <= 128
    else:
        o.blocks = min(most, (LOCAL_BYTES + left) // (64 * position) - mirrored)
        o.used = r.narrow.used or o.blocks >= (255 + o.span) // 64 + 5
    o.tiles = ceil_div(images * o.rows * o.pitch, o.positions) * o.planes
    o.used = o.used and (r.narrow.used or o.rows * o.pitch <= 1.25 * image
                         and (o.unit == 0 or o.tiles * o.positions <= 1.4 * images * image * o.planes)
                         and (images + 1) * o.rows * o.pitch < INT_LIMIT)
    return o


cdef Step _multiply_rows(Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, const rows_t* o):
    cdef int64_t units = max(1, dev.compute_units), each = ceil_div(o.tiles, units), threads = 2 * o.positions + 128
    cdef list args = list(operand_args(r, g))
    cdef mx_nv_rows rows
    memset(&rows, 0, sizeof(rows))
    rows.conv = g[0]
    rows.taps_d = rows.planes = rows.d = rows.step_d = rows.tap_d = 1
    if g.p >> 16:
        rows.planes, rows.taps_d, rows.d, rows.step_d = g.p >> 16, g.taps_h >> 16, g.h >> 16, g.step_h >> 16
        rows.conv.p, rows.conv.taps_h, rows.conv.h = g.p & 0xffff, g.taps_h & 0xffff, g.h & 0xffff
        rows.conv.step_h, rows.conv.first_h, rows.conv.tap_h = <short> g.step_h, <short> g.first_h, <short> g.tap_h
        rows.first_d, rows.tap_d = g.first_h >> 16, g.tap_h >> 16
        rows.x_d, rows.y_d = g.x_h * <int> plane_rows(r.x), g.y_h * <int> plane_rows(r.y)
        rows.w_d = g.w_h * rows.conv.taps_h
        if rows.tap_d < 0:
            # Units are kept from plane to plane, of which the next tile's last is new.
            rows.conv.w_first += (rows.taps_d - 1) * rows.w_d
            rows.first_d += (rows.taps_d - 1) * rows.tap_d
            rows.w_d, rows.tap_d = -rows.w_d, -rows.tap_d
    rows.by_planes = divisor(rows.planes)
    rows.conv.by_image, rows.conv.by_row = divisor(o.rows * o.pitch), divisor(o.pitch)
    rows.images, rows.rows, rows.pitch = <int> p.x.len[0], <int> o.rows, <int> o.pitch
    rows.low, rows.span, rows.tiles, rows.group_tiles = <int> o.low, <int> o.span, <int> o.tiles, <int> each
    args[3] = struct_arg(&rows, sizeof(rows))
    if o.unit:
        ring = {"UNIT": o.unit, "KEPT": int(o.kept), "STAGES": o.stages, "BP": o.positions}
    else:
        ring = {"CHUNKS": r.narrow.taps if r.narrow.used else 0, "PLANES": r.narrow.planes if r.narrow.used else 1,
                "BLOCKS": o.blocks}
    spec = KernelSpec(
        "conv/nvidia/hopper_rows.cl", "conv_nvidia_hopper_rows", SM_90A=1, X_TYPE=_multiplied(p),
        VEC=_widest(r, g, True), BF=o.filters, CHANNELS=o.channels, DEPTHS=o.depths,
        W_TRANSPOSED=int(r.w_transposed), LOCAL_EPILOGUE=int(o.local_epilogue), **ring, **_scaled(r.scaled))
    return Step(spec, tuple(args) + _roots(r), (ceil_div(o.tiles, each) * threads,), (threads,))


cdef bint is_flat(const mx_nv_conv* g) noexcept nogil:
    """Whether pixel m of y reads pixel m of x alone, and x has no gaps between pixels."""
    return (g.p >> 16 == 0 and g.taps_h * g.taps_w == 1 and g.step_h == 1 and g.step_w == 1
            and g.first_h == 0 and g.first_w == 0
            and g.h == g.p and g.w == g.q and g.x_h == g.w * g.x_w and g.x_n == g.h * g.x_h)


# Which tile a launch takes, how many groups of work-items and stages, and the microseconds that were counted.
cdef struct chosen_t:
    int choice
    int64_t groups, stages, tiles
    double cost


cdef bint _shared(const mx_nv_conv* g) noexcept nogil:
    """Filters of 64: what taps of a plane share comes through the L1, and tiles of many pixels share most."""
    return (g.taps_h & 0xffff) * g.taps_w > 1 and g.filters <= 64


cdef int _by_maps(Device dev, const mx_conv_problem* p, const roles_t* r, const mx_nv_conv* g, int phases,
                  bint last) noexcept:
    """What the kernel copies by tensor maps, should there be some for how x and w lie: see its TENSOR_MAPS."""
    if (phases > 1 and (g.p >> 16 or r.x_pixels) or p.fused.parts or r.narrow.used or r.scaled and not last
            or g.reduced % SLICE or g.channels != g.reduced or not has_maps(dev)):
        return 0
    if r.x_pixels == 0 or both(g.p) * g.q % 64 == 0:
        return 1
    return 2 if r.x_pixels == 8 and g.filters >= 128 else 0  # with fewer it was slower


cdef double _end_of(const choice_t* c, int choice, const mx_conv_problem* p) noexcept nogil:
    """Microseconds of a tile's end, with z if there is one; two warpgroups that share columns wait for z in turn."""
    if not p.fused.parts & MX_FUSED_Z:
        return c.end
    return c.end + c.pixels * c.filters * (1.5 if choice == T192X256 else 1.0) / Z_SPEED


cdef chosen_t _choose(Device dev, const mx_conv_problem* p, const roles_t* r, const mx_nv_conv* g,
                      int phases) noexcept:
    cdef chosen_t best = _choose_among(dev, p, r, g, phases, _only_choice)
    return best if best.cost >= 0 else _choose_among(dev, p, r, g, phases, -1)


cdef chosen_t _choose_among(Device dev, const mx_conv_problem* p, const roles_t* r, const mx_nv_conv* g, int phases,
                            int only) noexcept:
    cdef bint last = g.y_c == 1 and g.filters > 1
    cdef int64_t units = max(1, dev.compute_units), slices = slices_of(g), down, across, groups, stages
    cdef bint shared = _shared(g), local_epilogue = not last and not r.scaled and both(g.p) * g.q % 64 != 0
    cdef const choice_t* table = &MAPPED[0] if _by_maps(dev, p, r, g, phases, last) else &CHOICES[0]
    cdef double cost
    cdef choice_t tile
    cdef chosen_t best = chosen_t(0, 1, 1, 1, -1)
    cdef int i
    for i in range(CHOICES_COUNT):
        if (i == T256X64 or i == T256X64_RESIDENT) != shared or only >= 0 and i != only:
            continue
        if i == T256X64_RESIDENT and not r.scaled:
            continue  # of 16 bits more stages are faster, and two warpgroups that copy
        if CHOICES[i].resident and (g.groups > 1 or phases > 1 or slices == 0 or not last):
            continue
        if i == T128X64_RESIDENT and g.filters > 64:
            continue
        if i == T128X128_RESIDENT and r.w_transposed or i == T192X256 and (r.x_pixels == 4 or local_epilogue):
            continue  # too long an end, too many addresses, columns that are no power of two
        if (i == T128X192 or i == T192X128) and not last:
            continue  # a warpgroup has 64 rows of the product, and these share none
        down = up(g.pixels, CHOICES[i].pixels) // CHOICES[i].pixels * g.groups
        across = up(g.filters, CHOICES[i].filters) // CHOICES[i].filters
        stages = stages_of(&CHOICES[i], slices, r.x_pixels != 0, local_epilogue)
        groups = groups_of(units, phases * down * across, phases, interleaves(g, phases, 2))
        if CHOICES[i].resident:
            # A group keeps its filters.
            groups = groups // across * across
        if stages < 3 or groups == 0:
            continue
        tile = table[i]
        tile.end = _end_of(&table[i], i, p)
        cost = time_of(&tile, g, phases, down * across, groups)
        if best.cost < 0 or cost < best.cost:
            best = chosen_t(i, groups, stages, phases * down * across, cost)
    return best


# What takes time, as DATA_TERMS names it: packing_terms_t first; microseconds by the table of choices, the same for
# filters of 64, for pixels read 4 at a time and without the last round's emptiness; rounds; y stored piece by piece;
# positions of conv/nvidia/hopper_rows.cl, and their depths.
cdef struct data_terms_t:
    double launch, packed, x, y, turned, counted, rounds, row_positions, row_depths, narrow, shared, unrounded, across

DATA_TERMS = ("launch", "packed", "x", "y", "turned", "counted", "rounds", "row_positions", "row_depths", "narrow",
              "shared", "unrounded", "across")
# Likewise of backward weights: slices and ends of tiles in microseconds by the table of tiles.
cdef struct weights_terms_t:
    double launch, counted, rounds, packed, x, y, parts, splits, narrow

WEIGHTS_TERMS = ("launch", "counted", "rounds", "packed", "x", "y", "parts", "splits", "narrow")


cdef void count_hopper(Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int phases,
                       double* terms) noexcept:
    """Add a launch: what its tiles take by the table of choices, or its positions."""
    cdef data_terms_t* t = <data_terms_t*> terms
    cdef rows_t whole
    cdef chosen_t best
    cdef int64_t units = max(1, dev.compute_units), tiles
    t.launch += 1
    if phases == 1:
        whole = _rows_of(p, r, g)
        if whole.used:
            tiles = ceil_div(whole.tiles * whole.positions // 256, units)
            t.row_positions += tiles
            t.row_depths += tiles * whole.depths
            return
    best = _choose(dev, p, r, g, phases)
    if _shared(g):
        t.shared += best.cost
    else:
        t.counted += best.cost
    t.rounds += ceil_div(best.tiles, best.groups)
    t.unrounded += best.cost * (<double> best.tiles / units / ceil_div(best.tiles, units))
    t.narrow += (g.pixels * <double> g.filters * g.groups * phases * 2e-6
                 * (8 // widest(g, g.y_c == 1 and g.filters > 1) - 1))
    if r.x_pixels == 4:
        t.across += best.cost


cdef str _multiplied(const mx_conv_problem* p):
    """The type of 16 bits whose products are added up."""
    return "half" if p.w.type == MX_FLOAT else type_token(p.w.type)


cdef int64_t _widest(const roles_t* r, const mx_nv_conv* g, bint last) noexcept nogil:
    """Elements of y that are stored at once: 16 bytes at most."""
    return min(16 // r.y_size, widest(g, last))


cdef dict _scaled(bint scaled):
    return {"SCALED": 1} if scaled else {}


cdef dict _long_taps(const mx_nv_conv* g):
    return {"LONG_TAPS": 1} if g.p >> 16 == 0 and g.taps_w > MOST_TAPS else {}


cdef tuple _roots(const roles_t* r):
    """Where the roots of the inverse scales are, of images and then of filters, if operands are scaled."""
    cdef int64_t images = r.x.len[0]
    if not r.scaled:
        return ()
    return roots_args(r.scales_offset, images, images + r.groups * r.filters)


cdef tuple roots_args(int64_t scales, int64_t first, int64_t all_scales):
    """`first` scales are of the first tensor; `scales`: where all begin in the workspace, in bytes."""
    return Arg.slot_of(SLOT_WORKSPACE, 4, scales + 8 * all_scales), Arg.int32(first)


cdef dict axes_of(const mx_nv_conv* g):
    return {"AXES": 3} if g.p >> 16 else {}


cdef dict _merged(const mx_conv_problem* p, const roles_t* r, const mx_nv_conv* g):
    if g.p >> 16 == 0 or g.filters == r.filters:
        return {}
    return {"MERGED": r.filters, "MERGED_D": p.step[0], "MERGED_H": p.step[1], "MERGED_W": p.step[2]}


cdef mx_nv_volume _volume(const mx_conv_problem* p, const roles_t* r, const mx_nv_conv* g,
                          const mx_nv_conv* whole) noexcept nogil:
    """`g` of a volume, with the strides along its depth; `whole` is g before the phases of the stride."""
    cdef mx_nv_volume v
    v.conv, v.by_plane = g[0], divisor(g.p & 0xffff)
    v.x_d, v.y_d = g.x_h * <int> plane_rows(r.x), whole.y_h * <int> plane_rows(r.y)
    v.w_d = whole.w_h * <int> plane_rows(&p.w)
    if p.direction == MX_BACKWARD_DATA:
        v.y_d *= <int> p.step[0]
        v.w_d *= <int> (p.step[0] // gcd(p.step[0], p.dilation[0]))
    if g.filters != whole.filters:  # phases of the stride
        v.w_d = g.w_h * (g.taps_h & 0xffff)
    return v


cdef Step multiply_hopper(Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int phases=1):
    """One launch; of `phases` with equal grids those with most taps come first."""
    cdef rows_t whole
    if phases == 1:
        whole = _rows_of(p, r, g)
        if whole.used:
            return _multiply_rows(dev, p, r, g, &whole)
    cdef bint last = g.y_c == 1 and g.filters > 1
    cdef int64_t slices = slices_of(g), vector = 8
    cdef bint shared = _shared(g), local_epilogue = not last and not r.scaled and both(g.p) * g.q % 64 != 0
    cdef int i
    cdef chosen_t best = _choose(dev, p, r, g, phases)
    cdef int chosen = best.choice
    for i in range(phases):
        vector = min(vector, _widest(r, &g[i], last))
    # 128 work-items multiply up to 192 rows of up to 256 columns, of 192 x 128 64 rows; 128 more copy.
    # Of smaller tiles, or with fewer slices, memory is the bound, and copying faster makes it slower.
    cdef bint flat = (CHOICES[chosen].resident and slices >= 4 and not r.x_pixels and is_flat(g)
                      and CHOICES[chosen].pixels * CHOICES[chosen].filters >= 128 * 128)
    rows = CHOICES[chosen].pixels if last else CHOICES[chosen].filters
    warpgroups = 1 if CHOICES[chosen].ping_pong else 3 if chosen == T192X128 else 2
    # Of filters of 64 what is copied bounds it.
    producers = 2 if chosen == T256X64 and not r.scaled and p.fused.parts == 0 else 1
    threads = 128 * ((2 if CHOICES[chosen].ping_pong else warpgroups) + producers)
    wg_columns = 2 if rows % (64 * warpgroups) else 1
    spec = KernelSpec(
        "conv/nvidia/hopper.cl", "conv_nvidia_hopper", SM_90A=1, X_TYPE=_multiplied(p), CHANNELS_LAST=int(last),
        VEC=vector, BP=CHOICES[chosen].pixels, BF=CHOICES[chosen].filters, PHASES=phases,
        WG_ROWS=rows * wg_columns // (64 * warpgroups), WG_COLUMNS=wg_columns, STAGES=best.stages,
        RESIDENT=slices if CHOICES[chosen].resident else 0, PING_PONG=CHOICES[chosen].ping_pong,
        X_THROUGH_L1=int(shared and r.scaled), TAPS_INNER=int(shared and g.reduced % 64 == 0), FLAT=int(flat),
        X_TRANSPOSED=int(r.x_pixels != 0), X_RUN=r.x_pixels or 8, W_TRANSPOSED=int(r.w_transposed),
        LOCAL_EPILOGUE=int(local_epilogue), **_scaled(r.scaled), **axes_of(g), **_long_taps(g), **_merged(p, r, g),
        **({"PRODUCERS": producers} if producers > 1 else {}),
        **interleaved_of(g, phases, 2),
    )
    cdef mx_nv_conv unphased = operands(p, r), reach, whole_grid
    args = hopper_args(p, r, g, &unphased, phases, &CHOICES[chosen]) + _roots(r)
    cdef KernelSpec unmapped = None
    cdef int by_maps = _by_maps(dev, p, r, g, phases, last)
    if by_maps:
        maps = _maps(p, r, g, phases, &unphased, &CHOICES[chosen], last)
        if maps is not None and phases > 1:
            reach, whole_grid = reach_of(g, phases), g[0]
            whole_grid.first_h, whole_grid.first_w, whole_grid.taps_h, whole_grid.taps_w = (
                reach.first_h, reach.first_w, 1, 1)
            args = hopper_args(p, r, &whole_grid, &unphased, phases, &CHOICES[chosen], g) + _roots(r)
        if maps is not None:
            spec, unmapped = spec.defining(f"-D TENSOR_MAPS={by_maps}"), spec
            x, args = args[:1], (mapped(args[0], maps[0]), mapped(args[1], maps[1])) + args[2:]
            if by_maps == 2:
                args, unmapped = x + args, unmapped.defining("-D X_AGAIN=1")
    return Step(spec, args, (best.groups * threads,), (threads,), 1, unmapped)


cdef tuple _maps(const mx_conv_problem* p, const roles_t* r, const mx_nv_conv* g, int phases, const mx_nv_conv* whole,
                 const choice_t* c, bint last):
    """Maps of x and w for tiles of a choice, None where there are none."""
    cdef mx_nv_volume v
    cdef mx_nv_conv reach, filters = g[0]
    cdef bytes x = None
    cdef int64_t image = both(g.p) * g.q
    if g.p >> 16:
        v = _volume(p, r, g, whole)
    else:
        v.x_d = v.w_d = 0
    if phases > 1:  # all taps of w
        reach = reach_of(g, phases)
        x = map_pixels(&reach, 0, c.pixels, 2)
        filters.w_first, filters.taps_h, filters.taps_w = 0, <int> p.w.len[3], <int> p.w.len[4]
        filters.w_h, filters.w_w = whole.w_h, whole.w_w
    elif not r.x_pixels:
        x = map_pixels(g, v.x_d, c.pixels, 2)
    elif g.groups == 1 or g.x_g == g.reduced * g.x_c:
        x = map_channels(image, g.groups * g.reduced, g.pixels // image, g.x_c, g.x_n, SLICE, 2)
    w = None if x is None else map_filters(&filters, v.w_d, r.w_transposed, last and not r.w_transposed, c.filters, 2)
    return None if w is None else (x, w)


cdef tuple hopper_args(const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, const mx_nv_conv* whole, int phases,
                       const choice_t* c, const mx_nv_conv* each=NULL):
    """What conv/nvidia/hopper.cl takes for tiles of a choice: the kernel has room for the phases that there are.

    They are `each`, or g.
    """
    cdef int64_t down = up(g.pixels, c.pixels) // c.pixels, across = up(g.filters, c.filters) // c.filters
    cdef mx_nv_tiles order = order_of_tiles(g if each == NULL else each, phases, down, across)
    cdef mx_nv_volume v
    args = operand_args(r, g)
    if g.p >> 16:
        v = _volume(p, r, g, whole)
        args = args[:3] + (struct_arg(&v, sizeof(v)),) + args[4:]
    return args[:4] + (struct_arg(&order, sizeof(order) - (MAX_PHASES - phases) * sizeof(mx_nv_phase)),) + args[4:]


cdef mx_nv_tiles order_of_tiles(const mx_nv_conv* g, int phases, int64_t down, int64_t across) noexcept nogil:
    """Of a launch, with `down` tiles of the same filters, `across` of the same pixels; phases are relative to `g`."""
    cdef mx_nv_tiles order
    cdef int i
    memset(&order, 0, sizeof(order))
    order.tiles, order.across, order.down = <int> (down * across * g.groups), <int> across, <int> down
    order.by_tiles, order.by_across, order.by_down = divisor(order.tiles), divisor(across), divisor(down)
    for i in range(phases):
        order.phases[i].taps_h, order.phases[i].taps_w = g[i].taps_h, g[i].taps_w
        order.phases[i].first_h, order.phases[i].first_w = g[i].first_h, g[i].first_w
        order.phases[i].w_first, order.phases[i].y_first = g[i].w_first - g.w_first, g[i].y_first - g.y_first
    return order


cdef double time_of(const choice_t* c, const mx_nv_conv* g, int phases, int64_t tiles, int64_t groups,
                    int64_t depth=SLICE) noexcept nogil:
    cdef double[MAX_PHASES] each
    cdef int i
    for i in range(phases):
        each[i] = slices_of(&g[i], depth) * c.slice + c.end
    return time_of_rounds(each, phases, tiles, groups, interleaves(g, phases, ROW_BYTES // depth))


cdef int64_t _most_kept = CACHED


def interleave_phases(int64_t beyond=CACHED):
    """Let phases of a stride follow each other tile by tile where x has more bytes; for tests and benches."""
    global _most_kept
    _most_kept = beyond


cdef bint interleaves(const mx_nv_conv* g, int phases, int64_t size) noexcept nogil:
    """Whether tiles of different phases are side by side: they read the same x, which the L2 does not keep.

    Else those of one phase are, which read the same w at about the same time, and the longest come first.
    """
    cdef int readers = 0, i
    for i in range(phases):
        readers += g[i].taps_h != 0
    return readers > 1 and g.pixels // (both(g.p) * g.q) * both(g.h) * g.w * g.groups * g.reduced * size > _most_kept


cdef dict interleaved_of(const mx_nv_conv* g, int phases, int64_t size):
    """What kernels are told of it."""
    return {"INTERLEAVED": 1} if interleaves(g, phases, size) else {}


cdef int64_t groups_of(int64_t units, int64_t tiles, int phases, bint interleaved) noexcept nogil:
    """Of work-items: as many as have a place, but so that each one meets all phases that are side by side."""
    cdef int64_t groups = min(tiles, units)
    while interleaved and groups < tiles and gcd(groups, phases) > 1:
        groups -= 1
    return groups


cdef double time_of_rounds(const double* each, int phases, int64_t tiles, int64_t groups,
                           bint interleaved) noexcept nogil:
    """How long the group takes that has most to do, when groups take tiles in turn, which take `each` in a phase."""
    cdef double longest = 0, own
    cdef int64_t group, before, after, rounds
    cdef int i
    if interleaved:
        rounds = ceil_div(phases * tiles, groups)
        for i in range(phases):
            longest += each[i] * (rounds // phases + (1 if i < rounds % phases else 0))
        return longest
    for group in range(groups):
        own, before = 0, 0
        for i in range(phases):
            after = ((i + 1) * tiles - group + groups - 1) // groups
            own += (after - before) * each[i]
            before = after
        longest = max(longest, own)
    return longest


cdef int64_t slices_of(const mx_nv_conv* g, int64_t depth=SLICE) noexcept nogil:
    """Slices of `depth` numbers of the summed axis."""
    return ceil_div(both(g.taps_h) * g.taps_w * g.reduced, depth)


cdef int64_t stages_of(const choice_t* c, int64_t slices, bint x_transposed, bint local_epilogue) noexcept nogil:
    """How many slices the ring has, so that all of a group fits into local memory."""
    cdef int64_t left = GROUP_BYTES - c.pixels * ((0 if x_transposed else 8) + (128 if local_epilogue else 0))
    cdef int64_t w = c.filters * 128
    if c.resident:
        return min(768 // c.pixels, (left - slices * w) // (c.pixels * 128))
    return min(8, left // (c.pixels * 128 + w))


cdef bint _gathers(const mx_conv_problem* p) noexcept nogil:
    """Whether x, of a 1x1 filter, has gaps between columns and would be read by contiguous pixels without them."""
    cdef mx_conv_problem o
    if (is_volume(p) or p.w.len[3] * p.w.len[4] != 1 or p.direction == MX_BACKWARD_DATA or p.x.len[4] == 1
            or p.x.stride[4] == 1 or p.x.stride[1] < p.x.stride[4] or in_place(&p.x, p.w.len[1])):
        return False
    o = _gathered(p)
    return contiguous_pixels(&o, &o.x) == 8 if p.direction == MX_FORWARD else (
        contiguous_pixels(&o, &o.x) != 0 and contiguous_pixels(&o, &o.y) != 0)


cdef mx_conv_problem _gathered(const mx_conv_problem* p) noexcept nogil:
    cdef mx_conv_problem o = p[0]
    _make_packed(&o.x)
    return o


cdef void _make_packed(mx_tensor* x) noexcept nogil:
    x.stride[4] = 1
    x.stride[3] = x.len[4]
    x.stride[1] = x.len[3] * x.stride[3]
    x.stride[0] = x.len[1] * x.stride[1]


cdef Step _gather_pixels(Device dev, const mx_conv_problem* p, const mx_conv_problem* read, int64_t at):
    """The step that brings x of `read`, packed, to byte `at` of the workspace."""
    cdef const mx_tensor* x = &read.x
    cdef int64_t vector = 8
    # Pairs of pixels, of which the first counts, are read where each row has whole ones.
    cdef bint pairs = x.stride[4] == 2 and p.x.stride[4] == 1 and p.x.len[4] == 2 * x.len[4]
    while pairs and (x.len[4] % vector or (stride_of(x, 0) | stride_of(x, 1) | stride_of(x, 3)) % (2 * vector)):
        vector //= 2
        pairs = vector > 0
    while not pairs and x.len[3] * x.len[4] % max(1, vector):
        vector //= 2
    args = (Arg.slot_of(SLOT_X, 2), Arg.slot_of(SLOT_WORKSPACE, 2, at))
    return _stepped(dev, read, x, x.len, 1, x.stride[4], max(1, vector), 2 if pairs else 1, "gather_pixels", args)


cdef Step _stepped(Device dev, const mx_conv_problem* p, const mx_tensor* strided, const int64_t* packed,
                   int64_t step_h, int64_t step_w, int64_t vector, int64_t step, str name, tuple slots,
                   tuple scaling=()):
    """gather_pixels or scatter_pixels, which writes a tensor of `strided`'s lengths from one of `packed` ones."""
    cdef int64_t h = strided.len[3], w = strided.len[4], planes = strided.len[0] * strided.len[1]
    cdef int64_t runs = h * w // vector, each
    cdef mx_nv_stepped g
    each = max(1, min(4, planes * runs // (max(1, dev.compute_units) * 2048)))
    g.planes, g.channels, g.h, g.w = <int> planes, <int> strided.len[1], <int> h, <int> w
    g.p, g.q, g.step_h, g.step_w = <int> packed[3], <int> packed[4], <int> step_h, <int> step_w
    g.stride_n, g.stride_c, g.stride_h = (
        <int> stride_of(strided, 0), <int> stride_of(strided, 1), <int> stride_of(strided, 3))
    g.item_planes = <int> each
    g.by_runs, g.by_row, g.by_channels = divisor(runs), divisor(w), divisor(strided.len[1])
    g.by_step_h, g.by_step_w = divisor(step_h), divisor(step_w)
    spec = KernelSpec("conv/nvidia/pack.cl", name, X_TYPE=type_token(p.w.type), VEC=vector, STEP=step)
    return Step(spec, slots + (struct_arg(&g, sizeof(g)),) + scaling,
                (up(ceil_div(planes, each) * runs, 256),), (256,))


cdef int64_t _packed_bytes(const mx_tensor* x) noexcept nogil:
    return up(x.len[0] * x.len[1] * x.len[3] * x.len[4] * 2, ALIGN)


cdef class NvWgmmaFwd(NvImplicitGemmFwd):
    """Forward in 16 bits by wgmma: persistent implicit GEMM, ping-pong or cooperative, after launches that pack."""

    def __cinit__(self):
        self.id, self.name, self.peak, self.volumes, self.long_rows = 1104, "NvWgmmaFwd", WGMMA_PEAK, True, True
        self.cost_names = DATA_TERMS

    cdef void count(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g,
                    double* terms) noexcept:
        count_hopper(dev, p, r, g, 1, terms)

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef data_terms_t* t = <data_terms_t*> terms
        cdef mx_conv_problem read = only_read(p), o
        cdef roles_t r
        cdef mx_nv_conv g
        if not _gathers(&read):
            NvImplicitGemmFwd.cost_terms(self, dev, p, terms)
            return
        o = _gathered(&read)
        r = roles_of(&o, True)
        g = operands(&o, &r)
        set_taps(&g, &o)
        self.count(dev, &o, &r, &g, terms)
        self.count_packing(&o, &r, terms)
        t.launch += 1
        t.packed += _packed_bytes(&o.x) * 1e-6

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = NvImplicitGemmFwd.refuse(self, dev, p)
        return _refuse_hopper(dev, p) if why is None else why

    cdef roles_t roles(self, const mx_conv_problem* p) noexcept:
        cdef roles_t r = roles_of(p, True)
        cdef mx_conv_problem o
        if _gathers(p):
            o = _gathered(p)
            r.workspace = roles_of(&o, True).workspace + _packed_bytes(&o.x)
        return r

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem read = only_read(p), o
        cdef roles_t r
        cdef mx_nv_conv g
        if not _gathers(&read):
            return NvImplicitGemmFwd.steps(self, dev, p, config)
        o = _gathered(&read)
        r = roles_of(&o, True)
        r.x_slot, r.x_at = SLOT_WORKSPACE, r.workspace
        g = operands(&o, &r)
        set_taps(&g, &o)
        return Solution([_gather_pixels(dev, p, &read, r.x_at)] + self.packing(dev, &o, &r)
                        + [self.multiply(dev, &o, &r, &g)], self.workspace_bytes(dev, p))

    cdef Step multiply(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g):
        return multiply_hopper(dev, p, r, g)


# Backward data with a stride: all phases of the stride are filters of one convolution.  Of two axes and few channels
# what it gives lies in the workspace before it is spread; of three, in place, it is stored where it belongs.
cdef struct merged_t:
    bint used, in_place
    int64_t filters                          # phases times channels, up to a multiple of 8
    int64_t o, p, q                          # positions of each phase, along the depth, down and across
    int64_t taps_d, taps_h, taps_w, first_d, first_h, first_w  # of dy, that any phase meets


cdef merged_t _merged_of(const mx_conv_problem* p) noexcept nogil:
    cdef merged_t m
    cdef int64_t e = p.step[0], a = p.step[1], b = p.step[2], down = plane_rows(&p.w), rows = plane_rows(&p.x), slices
    cdef double width
    memset(&m, 0, sizeof(m))
    m.in_place = is_volume(p)
    if (p.groups != 1 or e * a * b == 1 or p.dilation[0] != 1 and p.w.len[2] != 1 or p.dilation[1] != 1 and down != 1
            or p.dilation[2] != 1 and p.w.len[4] != 1):
        return m
    m.filters = up(e * a * b * p.w.len[1], 8)
    m.o, m.p, m.q = ceil_div(p.x.len[2], e), ceil_div(rows, a), ceil_div(p.x.len[4], b)
    # Phase r meets dy at (r + pad - tap) / stride from its place.
    m.first_d = ceil_div(p.pad[0] - p.w.len[2] + 1, e)
    m.first_h, m.first_w = ceil_div(p.pad[1] - down + 1, a), ceil_div(p.pad[2] - p.w.len[4] + 1, b)
    m.taps_d = ceil_div(p.pad[0], e) - m.first_d + 1
    m.taps_h, m.taps_w = ceil_div(p.pad[1], a) - m.first_h + 1, ceil_div(p.pad[2], b) - m.first_w + 1
    if not m.in_place:
        m.used = m.filters <= 64
        return m
    # Phases read dy once each, and multiply no zeros: microseconds of 256 pixels of each, by CHOICES.
    slices, width = ceil_div(p.w.len[0], SLICE), m.filters / 256.0
    m.used = (p.w.type != MX_FLOAT and p.fused.parts == 0 and p.w.len[1] % 8 == 0 and p.w.len[1] <= 64
              and p.x.len[2] % e == 0 and rows % a == 0 and p.x.len[4] % b == 0
              and m.taps_d * m.taps_h * m.taps_w <= MOST_MERGED and m.filters <= 512
              and m.taps_d * m.taps_h * m.taps_w * slices * max(0.55, 1.58 * width) + max(1.0, 3 * width)
              < 0.9 * (p.w.len[3] * p.w.len[4] * slices * 0.6 + e * a * b))
    return m


cdef bint _steps_over(const mx_conv_problem* p) noexcept nogil:
    """Whether most of dx is zero, since a 1x1 filter with a stride never meets it, and its pixels are contiguous."""
    cdef const mx_tensor* x = &p.x
    return (not is_volume(p) and p.w.len[3] * p.w.len[4] == 1 and p.step[1] * p.step[2] > 1
            and p.pad[1] == 0 and p.pad[2] == 0 and (x.len[4] == 1 or x.stride[4] == 1)
            and (x.len[3] == 1 or x.stride[3] == x.len[4])
            and x.len[3] * x.len[4] > 1 and x.stride[1] != 1)


cdef mx_conv_problem _without_steps(const mx_conv_problem* p) noexcept nogil:
    """The problem with a packed dx of those pixels only that its filter meets."""
    cdef mx_conv_problem o = p[0]
    o.step[1] = o.step[2] = 1
    o.x.len[3], o.x.len[4] = p.y.len[3], p.y.len[4]
    _make_packed(&o.x)
    return o


cdef Step _scatter_pixels(Device dev, const mx_conv_problem* p, int64_t at):
    """The step that brings those pixels from byte `at` of the workspace to dx."""
    cdef const mx_tensor* x = &p.x
    cdef int64_t vector = 8, together = x.len[3] * x.len[4] | stride_of(x, 0) | stride_of(x, 1)
    while together % vector:
        vector //= 2
    slots = Arg.slot_of(SLOT_WORKSPACE, 2, at), Arg.slot_of(SLOT_X, 2)
    return _stepped(dev, p, x, p.y.len, p.step[1], p.step[2], vector,
                    p.step[2] if x.len[4] % p.step[2] == 0 and vector % p.step[2] == 0 else 1, "scatter_pixels", slots,
                    (Arg.alpha(False), Arg.beta(False)))


cdef bint at_once(const mx_conv_problem* p, const mx_nv_conv* g, int count) noexcept nogil:
    """Whether phases of one size are one launch; two axes and few filters may go by rows, phase by phase."""
    return (1 < count <= MAX_PHASES and (g.filters > 64 or is_volume(p)) and p.x.len[2] % p.step[0] == 0
            and plane_rows(&p.x) % p.step[1] == 0 and p.x.len[4] % p.step[2] == 0)


cdef void sort_phases(mx_nv_conv* g, int count) noexcept nogil:
    """Those with most taps first."""
    cdef mx_nv_conv moved
    cdef int i, j
    for i in range(1, count):
        moved, j = g[i], i
        while j > 0 and slices_of(&g[j - 1]) < slices_of(&moved):
            g[j] = g[j - 1]
            j -= 1
        g[j] = moved


cdef mx_nv_conv _merged_operands(const mx_conv_problem* p, const roles_t* r, const merged_t* m) noexcept nogil:
    cdef mx_nv_conv g = operands(p, r)
    set_grid(&g, p.x.len[0], m.o * m.p, m.q)
    g.filters = <int> m.filters
    g.step_h = g.step_w = g.tap_h = g.tap_w = 1
    g.taps_h, g.taps_w, g.first_h, g.first_w = <int> m.taps_h, <int> m.taps_w, <int> m.first_h, <int> m.first_w
    set_packed_w(&g, r.reduced, m.taps_d * m.taps_h, m.taps_w)
    if m.in_place:
        g.p, g.h = in_depth(m.o, m.p), in_depth(p.y.len[2], plane_rows(&p.y))
        g.taps_h, g.first_h = in_depth(m.taps_d, m.taps_h), in_depth(m.first_d, m.first_h)
        g.step_h = g.tap_h = in_depth(1, 1)
        g.y_h, g.y_w = <int> p.step[1] * g.y_h, <int> p.step[2] * g.y_w
        return g
    g.y_first, g.y_c, g.y_w = 0, 1, <int> m.filters
    g.y_h = g.y_w * <int> m.q
    g.y_n = g.y_h * <int> m.p
    return g


cdef class NvWgmmaBwd(NvImplicitGemmBwd):
    """Backward data in 16 bits by wgmma: persistent implicit GEMM, one launch for phases of the stride of one size.

    With few channels all phases are one product, and of two axes a last launch spreads what it gives; likewise the
    pixels that a 1x1 filter with a stride meets, where pixels are contiguous.
    """

    def __cinit__(self):
        self.id, self.name, self.peak, self.volumes, self.long_rows = 1105, "NvWgmmaBwd", WGMMA_PEAK, True, True
        self.cost_names = DATA_TERMS

    cdef void count(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g,
                    double* terms) noexcept:
        count_hopper(dev, p, r, g, 1, terms)

    cdef void count_phases(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int count,
                           double* terms) noexcept:
        if not at_once(p, g, count):
            NvImplicitGemmBwd.count_phases(self, dev, p, r, g, count, terms)
            return
        sort_phases(g, count)
        count_hopper(dev, p, r, g, count, terms)

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef data_terms_t* t = <data_terms_t*> terms
        cdef mx_conv_problem read = only_read(p), met
        cdef merged_t m = _merged_of(&read)
        cdef roles_t r
        cdef mx_nv_conv g
        p = &read
        if not m.used and _steps_over(p):
            met = _without_steps(p)
            r = roles_of(&met, True)
            self.count_launches(dev, &met, &r, terms)
            t.launch += 1
            t.turned = _packed_bytes(&met.x) * 1e-6
            t.y = megabytes(&p.x)
        elif not m.used:
            NvImplicitGemmBwd.cost_terms(self, dev, p, terms)
        else:
            r = self.roles(p)
            g = _merged_operands(p, &r, &m)
            count_hopper(dev, p, &r, &g, 1, terms)
            t.launch += r.packs_x + (2 if r.unpacks_y or not m.in_place else 1)
            t.packed = r.y_offset * 1e-6
            t.x, t.y = megabytes(&p.y), megabytes(&p.x)
            t.turned = (r.workspace - r.y_offset) * 1e-6

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = NvImplicitGemmBwd.refuse(self, dev, p)
        return _refuse_hopper(dev, p) if why is None else why

    cdef int stores(self, Device dev, const mx_conv_problem* p) noexcept:
        # The workspace holds 16 bits, and what spreads or unpacks them rounds again where alpha and beta scale.
        cdef mx_conv_problem read = only_read(p)
        cdef merged_t m = _merged_of(&read)
        return 2 if m.used and not m.in_place or _steps_over(&read) or self.roles(&read).unpacks_y else 1

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef mx_conv_problem read = only_read(p)
        cdef merged_t m = _merged_of(&read)
        return self.peak * m.filters / 64.0 if m.used and not m.in_place else NvImplicitGemmBwd.index(self, dev, p)

    cdef roles_t roles(self, const mx_conv_problem* p) noexcept:
        cdef roles_t r = roles_of(p, True)
        cdef merged_t m = _merged_of(p)
        cdef mx_conv_problem met
        if not m.used and _steps_over(p):
            met = _without_steps(p)
            r.workspace = roles_of(&met, True).workspace + _packed_bytes(&met.x)
        if m.used:
            r.packs_w, r.w_transposed, r.unpacks_y = True, False, r.unpacks_y and m.in_place
            r.x_offset = up(m.filters * m.taps_d * m.taps_h * m.taps_w * r.reduced * 2, ALIGN)
            r.x_pixels = 0
            r.packs_x = not in_place(r.x, r.channels)
            r.y_offset = r.x_offset
            if r.packs_x:
                r.y_offset += up(r.x.len[0] * r.x.len[3] * r.x.len[4] * r.reduced * 2, ALIGN)
            r.workspace = r.y_offset
            if r.unpacks_y or not m.in_place:
                r.workspace += up(p.x.len[0] * m.o * m.p * m.q * m.filters * 2, ALIGN)
        return r

    cdef Step multiply(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g):
        return multiply_hopper(dev, p, r, g)

    cdef list multiply_phases(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int count):
        if not at_once(p, g, count):
            return NvImplicitGemmBwd.multiply_phases(self, dev, p, r, g, count)
        sort_phases(g, count)
        return [multiply_hopper(dev, p, r, g, count)]

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem read = only_read(p), met
        p = &read
        cdef merged_t m = _merged_of(p)
        cdef roles_t r
        cdef mx_nv_conv g
        cdef mx_nv_merged weights
        cdef mx_nv_scatter x
        cdef int64_t e = p.step[0], a = p.step[1], b = p.step[2], rows = plane_rows(&p.w)
        if not m.used and _steps_over(p):
            met = _without_steps(p)
            r = roles_of(&met, True)
            r.y_slot, r.y_at = SLOT_WORKSPACE, r.workspace
            return Solution(self.launches(dev, &met, &r) + [_scatter_pixels(dev, p, r.y_at)],
                            self.workspace_bytes(dev, p))
        if not m.used:
            return NvImplicitGemmBwd.steps(self, dev, p, config)
        r = self.roles(p)
        g = _merged_operands(p, &r, &m)
        if not m.in_place:
            r.unpacks_y = True
        weights.rows, weights.channels, weights.filters = <int> m.filters, <int> p.w.len[1], <int> r.channels
        weights.taps_d, weights.taps_h, weights.taps_w = <int> m.taps_d, <int> m.taps_h, <int> m.taps_w
        weights.reduced = <int> r.reduced
        weights.step_d, weights.step_h, weights.step_w = <int> e, <int> a, <int> b
        weights.shift_d, weights.shift_h, weights.shift_w = (
            <int> (p.pad[0] - e * m.first_d), <int> (p.pad[1] - a * m.first_h), <int> (p.pad[2] - b * m.first_w))
        weights.limit_d, weights.limit_h, weights.limit_w = <int> p.w.len[2], <int> rows, <int> p.w.len[4]
        weights.from_k, weights.from_c = <int> p.w.stride[0], <int> p.w.stride[1]
        weights.from_d, weights.from_h, weights.from_w = (
            <int> (rows * p.w.stride[3]), <int> p.w.stride[3], <int> p.w.stride[4])
        items = m.filters * m.taps_d * m.taps_h * m.taps_w * r.reduced
        x.images, x.h, x.w, x.channels = <int> p.x.len[0], <int> p.x.len[3], <int> p.x.len[4], <int> p.w.len[1]
        x.p, x.q, x.reduced, x.step_h, x.step_w = <int> m.p, <int> m.q, <int> m.filters, <int> a, <int> b
        x.to_n, x.to_c = <int> stride_of(&p.x, 0), <int> stride_of(&p.x, 1)
        x.to_h, x.to_w = <int> stride_of(&p.x, 3), <int> stride_of(&p.x, 4)
        token = type_token(p.w.type)
        steps = [Step(KernelSpec("conv/nvidia/pack.cl", "pack_merged_weights", X_TYPE=token),
                      (Arg.slot_of(SLOT_W, 2), Arg.slot_of(SLOT_WORKSPACE, 2), struct_arg(&weights, sizeof(weights))),
                      (up(items, 256),), (256,))]
        if r.packs_x:
            steps.append(pack_pixels(p, r.x, r.x_slot, r.channels, r.x_offset))
        steps.append(multiply_hopper(dev, p, &r, &g))
        if m.in_place:
            return Solution(steps + unpacking(p, &r), r.workspace)
        steps.append(Step(
            KernelSpec("conv/nvidia/pack.cl", "scatter_phases", X_TYPE=token),
            (Arg.slot_of(SLOT_WORKSPACE, 2, r.y_offset), Arg.slot_of(SLOT_X, 2), struct_arg(&x, sizeof(x)),
             Arg.alpha(False), Arg.beta(False)),
            (up(p.x.len[0] * m.p * a * m.q, 256),), (256,)))
        return Solution(steps, r.workspace)


cdef bint _columns_in_a_row(const mx_conv_problem* p, const split_k_t* s) noexcept nogil:
    """Whether a filter of dw is a row of what is multiplied, of which 8 can be stored at once."""
    cdef const int64_t* stride = p.w.stride
    return (p.w.type != MX_FLOAT and not s.narrow.used and s.reduced == p.w.len[1] and stride_of(&p.w, 1) == 1
            and stride_of(&p.w, 0) % 8 == 0
            and (p.w.len[4] == 1 or stride[4] == s.reduced)
            and (p.w.len[3] == 1 or stride[3] == s.reduced * p.w.len[4])
            and (p.w.len[2] == 1 or stride[2] == s.reduced * p.w.len[4] * p.w.len[3]))


cdef bint _weights_by_maps(Device dev, const mx_conv_problem* p, const split_k_t* s) noexcept:
    """Whether the kernel copies by tensor maps, should there be some for how x and dy lie.

    Of volumes only long rows and many filters gain: 256 at 16 x 16 x 16 55.8 -> 58.3, 64 at 64 x 64 x 64 259 -> 277,
    512 at 5 x 60 x 104 757 -> 696.
    """
    if s.narrow.used or not has_maps(dev):
        return False
    if s.contiguous_pixels:
        return s.by_image
    return (s.reduced % SLICE == 0 and s.reduced == p.w.len[1]
            and (not is_volume(p) or p.y.len[4] >= 64 and p.w.len[0] // p.groups >= 128))


cdef bint _fills_images(const mx_conv_problem* p, int64_t depth) noexcept nogil:
    """Whether slices that end with their image are few more than others."""
    cdef int64_t image = p.y.len[3] * p.y.len[4]
    return up(image, depth) * 8 <= image * 9


cdef const tile_t* float_tiles() noexcept nogil:
    """TILES_OF_PIXELS of them."""
    return &FLOAT_TILES[0]


cdef const tile_t* _tiles_of(Device dev, const mx_conv_problem* p, const split_k_t* s) noexcept:
    return &FLOAT_TILES[0] if s.size == 4 else &MAPPED_TILES[0] if _weights_by_maps(dev, p, s) else &TILES[0]


cdef int64_t _slices_of(const mx_conv_problem* p, const split_k_t* s, int64_t depth) noexcept nogil:
    """Slices of so many pixels."""
    cdef int64_t image = p.y.len[3] * p.y.len[4]
    return p.y.len[0] * ceil_div(image, depth) if s.by_image else ceil_div(p.y.len[0] * image, depth)


cdef split_k_t split_k_of(Device dev, const mx_conv_problem* p) noexcept:
    """The tile and the split-K of the pixels that should take least time.

    Either every work-group has one tile and `split_slices` slices of it, side by side with the other tiles' of the
    same pixels, or it goes on from tile to tile, which shares slices evenly but reads all of x and dy all the time, so
    that they should fit into the L2.  Partial sums are written and read; a group that has a whole tile needs none.
    Where there are more tiles than groups at once, those of the last round alone may be split.
    """
    cdef split_k_t s = split_k_operands(p, True)
    s.by_image = s.contiguous_pixels == 8 and _fills_images(p, SLICE) and has_maps(dev)
    # The copies of contiguous pixels need more registers than a tile of 256 x 144, the last, leaves.
    return split_k_among(dev, p, &s, _tiles_of(dev, p, &s), TILES_OF_PIXELS if s.contiguous_pixels else WEIGHT_TILES,
                         2 * (elements_of(&p.x) + elements_of(&p.y)), _columns_in_a_row(p, &s), _only_tile, True)


cdef split_k_t split_k_among(Device dev, const mx_conv_problem* p, const split_k_t* whole, const tile_t* tiles,
                             int count, int64_t read, bint in_a_row, int wanted=-1,
                             bint whole_tiles=False) noexcept:
    """The same of some tiles, or of the one `wanted`; `whole` lacks the split, x and dy have `read` bytes."""
    cdef split_k_t s = whole[0], t = whole[0]
    cdef int64_t units = max(1, dev.compute_units)
    cdef int64_t number, splits, at_once, slices, least, most
    cdef double cost, best = -1, part, end
    cdef int i
    for i in range(count):
        if wanted >= 0 and i != wanted:
            continue
        slices = _slices_of(p, whole, tiles[i].depth)
        least = ceil_div(slices * tiles[i].depth, LONGEST)
        number = (up(p.w.len[0] // p.groups, tiles[i].down) // tiles[i].down
                  * (up(s.columns, tiles[i].across) // tiles[i].across) * p.groups)
        at_once = units * tiles[i].resident
        part, end = tiles[i].down * tiles[i].across * 8 / PARTIAL_SPEED, tiles[i].end
        t.tile, t.tiles = i, number
        splits, most = least, max(least, min(4 * at_once // number + 2, ceil_div(slices, 2)))
        while splits <= most:
            t.split_slices = ceil_div(slices, splits)
            t.splits = ceil_div(slices, t.split_slices)
            t.groups = number * t.splits
            t.direct = in_a_row and t.splits == 1
            t.slots = 0 if t.direct else t.groups
            cost = max(ceil_div(t.groups, at_once) * (t.split_slices * tiles[i].slice + end),
                       read / MEMORY_SPEED + end) + t.slots * part + (0 if t.direct else ADDING_UP)
            if best < 0 or cost < best:
                best, s = cost, t
            splits = more_parts(slices, t.split_slices)
        if whole_tiles and in_a_row and read <= CACHED and number > at_once and number % at_once and least == 1:
            # As many whole tiles as fill the device once or more often, and the rest is split.
            t.whole, t.direct = number // at_once * at_once, True
            for splits in range(2, min(16, ceil_div(slices, 2)) + 1):
                t.split_slices = ceil_div(slices, splits)
                t.splits = ceil_div(slices, t.split_slices)
                t.slots = (number - t.whole) * t.splits
                t.groups = t.whole + t.slots
                cost = max(t.whole // at_once * (slices * tiles[i].slice + end)
                           + ceil_div(t.slots, at_once) * (t.split_slices * tiles[i].slice + end),
                           read / MEMORY_SPEED + end) + t.slots * part + ADDING_UP
                if best < 0 or cost < best:
                    best, s = cost, t
            t.whole = 0
        if read <= CACHED and number * slices < INT_LIMIT // 2 and least == 1:
            t.split_slices = (number * slices + at_once - 1) // at_once
            t.splits = 0
            t.groups = (number * slices + t.split_slices - 1) // t.split_slices
            t.direct, t.slots = False, t.groups + number
            cost = max(t.split_slices * tiles[i].slice + (t.split_slices // slices + 2) * end,
                       read / MEMORY_SPEED + end) + t.slots * part + ADDING_UP
            if best < 0 or cost < best:
                best, s = cost, t
    s.workspace = s.partial_offset + s.slots * tiles[s.tile].down * tiles[s.tile].across * 4
    return s


cdef bint _adds_up(const split_k_t* s) noexcept nogil:
    """Whether a launch adds up partial sums."""
    return not s.direct or s.whole


cdef void count_weights(Device dev, const mx_conv_problem* p, const split_k_t* s, double* terms) noexcept:
    count_tiles(dev, p, s, &_tiles_of(dev, p, s)[s.tile], terms)


cdef void count_tiles(Device dev, const mx_conv_problem* p, const split_k_t* s, const tile_t* tile,
                      double* terms) noexcept:
    cdef weights_terms_t* t = <weights_terms_t*> terms
    cdef int64_t at_once = max(1, dev.compute_units) * tile.resident, rounds = ceil_div(s.groups, at_once)
    t.launch = (1 + _adds_up(s) + 2 * s.scaled + s.narrow.used + (s.packs_y or s.packs_x and not s.narrow.used)
                + (s.x_slot == SLOT_WORKSPACE))
    if s.narrow.used:
        t.narrow = rounds * s.split_slices * tile.slice
    else:
        t.counted = rounds * s.split_slices * tile.slice
    if s.whole:
        rounds = ceil_div(s.slots, at_once)
        t.counted = (s.whole // at_once * _slices_of(p, s, tile.depth) + rounds * s.split_slices) * tile.slice
        rounds += s.whole // at_once
    t.rounds = rounds * tile.end
    t.packed = s.partial_offset * 1e-6
    if s.x_slot == SLOT_WORKSPACE:
        t.packed += 2 * megabytes(&p.x)
    t.x, t.y = megabytes(&p.x), megabytes(&p.y)
    t.parts = s.slots * tile.down * <double> tile.across * 4e-6
    t.splits = s.splits


# A run of images of backward weights: what it multiplies, by which split-K, before and after that was chosen, and where
# of a filter of 1x1 with a stride the copy of x is.
cdef struct run_t:
    mx_conv_problem p, read
    split_k_t whole, s
    bint gathers
    int64_t set_bytes, copy                  # of partial sums, one of each; of x's copy, in the workspace
    int64_t workspace


cdef run_t _run_of(Device dev, const mx_conv_problem* p, int64_t images) noexcept:
    """The first run, of so many images."""
    cdef run_t o
    cdef mx_conv_problem whole = images_of(p, images)
    o.p = only_read(&whole)
    o.gathers = _gathers(&o.p)
    o.read = _gathered(&o.p) if o.gathers else o.p
    o.whole = split_k_operands(&o.read, True)
    o.whole.by_image = o.whole.contiguous_pixels == 8 and _fills_images(&o.read, SLICE) and has_maps(dev)
    _split_run(dev, &o, _only_tile)
    o.set_bytes = o.s.tiles * TILES[o.s.tile].down * TILES[o.s.tile].across * 4
    o.copy = up(o.s.partial_offset + (1 + o.s.splits) * o.set_bytes, ALIGN)
    o.workspace = o.copy + (_packed_bytes(&o.read.x) if o.gathers else 0)
    return o


cdef void _split_run(Device dev, run_t* o, int wanted) noexcept:
    o.s = split_k_among(dev, &o.read, &o.whole, _tiles_of(dev, &o.read, &o.whole),
                        TILES_OF_PIXELS if o.whole.contiguous_pixels else WEIGHT_TILES,
                        max(CACHED + 1, 2 * (elements_of(&o.read.x) + elements_of(&o.read.y))), False, wanted)
    if o.gathers:
        o.s.x_slot, o.s.x_offset = SLOT_WORKSPACE, o.copy


cdef run_t _shorter(Device dev, const mx_conv_problem* p, const run_t* first, int64_t images) noexcept:
    """A run of no more images, which reads as the first one does, by its tile and from the same places."""
    cdef run_t o = first[0]
    cdef mx_conv_problem whole = images_of(p, images)
    cdef int64_t slices
    o.p = only_read(&whole)
    o.read = _gathered(&o.p) if o.gathers else o.p
    _split_run(dev, &o, first.s.tile)
    if o.s.splits > first.s.splits:  # there is room for as many
        slices = _slices_of(&o.read, &o.s, TILES[o.s.tile].depth)
        o.s.split_slices = ceil_div(slices, first.s.splits)
        o.s.splits = ceil_div(slices, o.s.split_slices)
        o.s.groups = o.s.slots = o.s.tiles * o.s.splits
    return o


cdef class _WeightRunsOffer(RunsOffer):
    """Backward weights in 16 bits in runs of images: partial sums of all runs are floats, and stored once."""

    cdef Solution steps(self, tuple config):
        cdef const mx_conv_problem* p = self.p
        cdef int64_t first
        cdef run_t longest = _run_of(self.device, p, self.images), run
        cdef int64_t at = longest.s.partial_offset, fours = longest.set_bytes // 16
        cdef mx_nv_conv g
        cdef Step step
        steps = []
        for first in range(0, p.x.len[0], self.images):
            run = _shorter(self.device, p, &longest, min(self.images, p.x.len[0] - first))
            run.s.partial_offset = at + longest.set_bytes  # behind the sum of those before
            own = [_gather_pixels(self.device, &run.p, &run.p, run.copy)] if run.gathers else []
            own += pack_for_split_k(&run.read, &run.s, &g)
            own.append(multiply_weights(self.device, &run.read, &run.s, &g))
            for step in own:
                steps.append(self.at(step, first))
            if first + self.images < p.x.len[0]:
                steps.append(Step(
                    KernelSpec("conv/nvidia/hopper_parts.cl", "add_parts"),
                    (Arg.slot_of(SLOT_WORKSPACE, 4, at), Arg.int32(fours), Arg.int32(run.s.splits),
                     Arg.int32(first == 0)), (fours,), (256,)))
        run.s.partial_offset, run.s.splits = at, run.s.splits + 1
        steps.append(sum_tiles_of(self.device, &run.read, &run.s))
        return Solution(steps, self.workspace)

    cdef void cost_terms(self, double* terms) noexcept:
        cdef run_t run = _run_of(self.device, self.p, self.images)
        cdef weights_terms_t* t = <weights_terms_t*> terms
        cdef double runs = self.p.x.len[0] / <double> self.images
        cdef int i
        count_weights(self.device, &run.read, &run.s, terms)
        cdef double launches = t.launch * ceil_div(self.p.x.len[0], self.images)
        for i in range(<int> (sizeof(weights_terms_t) // sizeof(double))):
            terms[i] *= runs
        t.launch = launches


cdef class NvWgmmaWrw(NvImplicitGemmWrw):
    """Backward weights in 16 bits by wgmma: split-K or stream-K over pixels, a launch to add what is partial."""

    def __cinit__(self):
        self.id, self.name, self.peak, self.volumes, self.long_rows = 1106, "NvWgmmaWrw", WGMMA_PEAK, True, True
        self.cost_names = WEIGHTS_TERMS

    cdef bint takes_runs(self, const mx_conv_problem* p) noexcept:
        return True

    cdef bint saves_workspace(self, const mx_conv_problem* p) noexcept:
        return True

    cdef RunsOffer new_runs(self):
        return _WeightRunsOffer.__new__(_WeightRunsOffer)

    cdef int64_t workspace_of_runs(self, Device dev, const mx_conv_problem* p, int64_t images) except -1:
        return _run_of(dev, p, images).workspace

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef mx_conv_problem read = only_read(p)
        cdef split_k_t s = self.split_k(dev, &read)
        count_weights(dev, &read, &s, terms)

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = NvImplicitGemmWrw.refuse(self, dev, p)
        return _refuse_hopper(dev, p) if why is None else why

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef mx_conv_problem read = only_read(p)
        cdef int64_t image = read.y.len[3] * read.y.len[4]
        cdef double counted = NvImplicitGemmWrw.roundings(self, dev, p)
        # The last step of an image is filled up.
        return counted * up(image, STEP) / image if self.split_k(dev, &read).by_image else counted

    cdef split_k_t split_k(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef mx_conv_problem o
        cdef split_k_t s
        if not _gathers(p):
            return split_k_of(dev, p)
        o = _gathered(p)
        s = split_k_of(dev, &o)
        s.x_slot, s.x_offset = SLOT_WORKSPACE, s.workspace
        s.workspace += _packed_bytes(&o.x)
        return s

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem read = only_read(p)
        cdef split_k_t s = self.split_k(dev, &read)
        cdef mx_nv_conv g
        steps = []
        if s.x_slot == SLOT_WORKSPACE:
            steps.append(_gather_pixels(dev, p, &read, s.x_offset))
            read = _gathered(&read)
        steps += pack_for_split_k(&read, &s, &g)
        steps.append(multiply_weights(dev, &read, &s, &g))
        if _adds_up(&s):
            steps.append(sum_tiles_of(dev, &read, &s))
        return Solution(steps, s.workspace)


cdef dict _direct(const split_k_t* s):
    return {"DIRECT": 1, **({"WHOLE": 1} if s.whole else {})} if s.direct else {}


cdef Step multiply_weights(Device dev, const mx_conv_problem* p, const split_k_t* s, const mx_nv_conv* g):
    cdef const tile_t* tile = &TILES[s.tile]
    cdef mx_nv_volume v
    v.x_d = v.y_d = 0
    # Where all taps are along the depth there is little to multiply, and planes are read again late.
    cdef bint together = (g.taps_h >> 16 > 1 and (g.taps_h & 0xffff) * g.taps_w == 1 and s.splits > 1
                          and 2 * elements_of(&p.x) > _most_read_again)
    spec = KernelSpec(
        "conv/nvidia/hopper_weights.cl", "conv_nvidia_hopper_weights", SM_90A=1,
        X_TYPE="float" if s.size == 4 else _multiplied(p), BM=tile.down,
        BN=tile.across, CONTIGUOUS_PIXELS=s.contiguous_pixels, PERSISTENT=int(s.splits == 0),
        FLAT=int(not s.contiguous_pixels and is_flat(g) and g.y_h == g.q * g.y_w and g.y_n == g.p * g.y_h),
        DILATED=int(g.p >> 16 == 0 and (g.tap_h != 1 or g.tap_w != 1)),
        X_THROUGH_L1=int(s.narrow.used), **_direct(s), **axes_of(g), **_long_taps(g), **TILE_DEFINES[s.tile],
        **({"TOGETHER": 1} if together else {}), **({"BY_IMAGE": 1} if s.by_image else {}))
    args = split_k_args(s, g)
    if together:
        args += (Arg.int32(s.splits),)
    if not _adds_up(s):
        args = args[:2] + (Arg.slot_of(SLOT_W, 2),) + args[3:]  # there are no partial sums
    if g.p >> 16:
        v = volume(g, &p.x, &p.y)
        args = args[:3] + (struct_arg(&v, sizeof(v)),) + args[4:]
    if s.direct:
        args += (Arg.slot_of(SLOT_W, 2), Arg.int32(stride_of(&p.w, 0)), Arg.alpha(False), Arg.beta(False))
    if s.whole:
        args += (Arg.int32(s.whole),)
    cdef KernelSpec unmapped = None
    if tile.across % SLICE == 0 and _weights_by_maps(dev, p, s):
        if s.by_image:
            x = map_channels(g.p * g.q, g.groups * g.channels, p.x.len[0], g.x_c, g.x_n, tile.across, s.size)
            y = map_channels(g.p * g.q, g.groups * g.filters, p.x.len[0], g.y_c, g.y_n, tile.down, s.size)
        else:
            x, y = map_pixels(g, v.x_d, SLICE, 2), map_result(g, v.y_d, SLICE, 2)
        if x is not None and y is not None:
            spec, unmapped = spec.defining("-D TENSOR_MAPS=1"), spec
            args = (mapped(args[0], x), mapped(args[1], y)) + args[2:]
    return Step(spec, args, (tile.threads * s.groups,), (tile.threads,), 1, unmapped)


cdef Step sum_tiles_of(Device dev, const mx_conv_problem* p, const split_k_t* s):
    defines = {"WG_ROWS": TILE_DEFINES[s.tile].get("WG_ROWS", 1), **_scaled(s.scaled)}
    return sum_tiles(dev, p, s, &_tiles_of(dev, p, s)[s.tile], defines)


cdef Step sum_tiles(Device dev, const mx_conv_problem* p, const split_k_t* s, const tile_t* tile, dict defines):
    cdef int64_t filters = p.w.len[0] // p.groups
    cdef int64_t folded = NARROW if s.narrow.used else s.reduced
    cdef int64_t taps_across = s.narrow.taps_across if s.narrow.used else p.w.len[4]
    cdef int64_t slices = _slices_of(p, s, tile.depth)
    cdef int64_t summed = s.splits if s.splits else ceil_div(slices, s.split_slices) + 1
    cdef int64_t shares = 8 if summed > 16 else 4 if summed > 8 else 1
    cdef mx_nv_tile_sum g
    g.channels, g.taps_w, g.filters, g.columns = (
        <int> p.w.len[1], <int> p.w.len[4], <int> filters, <int> s.columns)
    g.reduced, g.folded, g.taps_across = <int> s.reduced, <int> folded, <int> taps_across
    g.down, g.across = <int> ceil_div(filters, tile.down), <int> ceil_div(s.columns, tile.across)
    g.tiles, g.first_tile, g.slices, g.splits = <int> (s.tiles - s.whole), <int> s.whole, <int> slices, <int> s.splits
    g.w_k, g.w_c, g.w_h, g.w_w = (
        <int> stride_of(&p.w, 0), <int> stride_of(&p.w, 1), <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4))
    g.by_down, g.by_across, g.by_reduced = divisor(g.down), divisor(g.across), divisor(s.reduced)
    g.by_folded, g.by_taps_across, g.by_split_slices = divisor(folded), divisor(taps_across), divisor(s.split_slices)
    args = (Arg.slot_of(SLOT_WORKSPACE, 4, s.partial_offset), Arg.slot_of(SLOT_W, 4 if p.w.type == MX_FLOAT else 2),
            struct_arg(&g, sizeof(g)), Arg.alpha(False), Arg.beta(False))
    if s.scaled:
        args += roots_args(s.scales_offset, p.groups * p.w.len[1], p.groups * p.w.len[1] + p.w.len[0])
    spec = KernelSpec("conv/nvidia/hopper_sum.cl", "sum_tiles", X_TYPE=type_token(p.w.type), BM=tile.down,
                      BN=tile.across, SHARES=shares, **defines, **may_begin_early(dev))
    return Step(spec, args, ((s.tiles - s.whole) * tile.down * tile.across // 4 * shares,), (256,))


cdef str _refuse_hopper(Device dev, const mx_conv_problem* p):
    if not has_wgmma(dev):
        return "needs wgmma"
    cdef int64_t longest = 10 if p.spatial > 2 else MOST_TAPS if p.w.len[3] > 1 else 30
    if max(p.w.len[2], p.w.len[3], p.w.len[4]) > longest:
        return "filter size"
    return "data type" if p.w.type == MX_FLOAT else None
