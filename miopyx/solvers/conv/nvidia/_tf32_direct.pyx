"""Convolution of float32 on TF32, straight from the tensors, where the problem allows that.

By Hopper's wgmma x is read as it lies, whatever its strides, with channels last by tensor maps, for which it is packed
first where that should be faster; a launch rounds the filters and brings them into the kernel's order, unless a map
does.  Backward weights read x and dy as they lie: with channels last by mma.sync, or by wgmma where one operand is
turned in local memory; 1x1 of contiguous pixels, whose summed axis is then contiguous, by wgmma.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport MX_FORWARD, mx_conv_problem, mx_tensor
from miopyx.solvers.conv._base cimport spatial_size, stride_of, sum_terms
from ._common cimport (
    ALIGN, CUT, LONGEST, ROUNDED, WGMMA_PEAK, divides, divisor, most_workspace, mx_divisor, mx_nv_conv, mx_nv_volume,
    set_taps, volume,
)
from ._mma cimport (
    NvImplicitGemmBwd, NvImplicitGemmFwd, NvImplicitGemmWrw, contiguous_pixels, elements_of, megabytes, mx_nv_pixels,
    only_read, operand_args, operands, roles_of, roles_t, set_split_k, split_k_t,
)
from ._tf32 cimport join_of_planes, joins, make_planes, phases_of_planes, refuse_tf32
from ._wgmma cimport (
    GROUP_BYTES, MAX_PHASES, TILES_OF_PIXELS, WEIGHTS_TERMS, axes_of, count_tiles, float_tiles, groups_of,
    interleaved_of, interleaves, is_flat, multiply_weights, mx_nv_phase, mx_nv_tiles, order_of_tiles, sort_phases,
    split_k_among, sum_tiles, sum_tiles_of, tile_t, time_of_rounds,
)
from ._tensor_maps cimport (
    map_channels, map_filters, map_pixels, map_result, map_stored, mapped, may_have_maps, reach_of,
)

cdef extern from "miopyx/kernels/conv/nvidia/hopper_tf32_args.h" nogil:
    ctypedef struct mx_nv_tf32_filters:
        int groups, filters, channels
        int blocks, count
        int from_g, from_k, from_c, from_h, from_w
        mx_divisor by_rows
        int to[16]
        mx_nv_phase phases[16]

cdef enum:
    DEPTH = 32             # numbers of K in a slice
    ADDED = 8              # products that an instruction adds to a sum
    CHOICES_COUNT = 8
    PACKED_PIXELS = 128    # of a tile of conv/nvidia/pack_floats.cl
    PACK_ITEMS = 256

# A tile: pixels, filters, whether it is ping-pong, whether w stays in local memory, what a slice takes in microseconds,
# also where x is copied in runs of pixels, and what a whole tile takes besides; both where a tensor map copies.
cdef struct choice_t:
    int pixels, filters, ping_pong, resident
    double slice, in_runs, end, mapped_slice, mapped_end

cdef choice_t[CHOICES_COUNT] CHOICES
CHOICES[0] = choice_t(128, 256, 0, 0, 0.75, 0.82, 3.50, 0.633, 3.63)
CHOICES[1] = choice_t(256, 128, 0, 0, 1.23, 1.12, 4.00, 0.65, 4.3)
CHOICES[2] = choice_t(128, 128, 1, 0, 0.56, 0.68, 1.50, 0.317, 1.79)
CHOICES[3] = choice_t(128, 64, 1, 0, 0.58, 0.62, 0.63, 0.26, 0.95)
CHOICES[4] = choice_t(256, 64, 0, 0, 0.99, 1.15, 1.65, 0.40, 2.1)
CHOICES[5] = choice_t(64, 256, 1, 0, 0.39, 0.56, 1.80, 0.355, 2.05)
CHOICES[6] = choice_t(64, 256, 1, 1, 0.39, 0.56, 1.20, 0.33, 1.73)
CHOICES[7] = choice_t(128, 128, 1, 1, 0.60, 0.66, 1.50, 0.31, 1.85)
cdef double MB_A_US = 4.1, PACK_US = 3  # of a copy, and what a launch that packs takes besides
cdef tuple TABLE = (("TILE", tuple(range(CHOICES_COUNT))),)


# What takes time: launches, megabytes of rounded filters, of x and of y, microseconds by the table of choices, rounds
# of tiles, megabytes of x copied float by float, of y stored float by float.
cdef struct terms_t:
    double launch, packed, x, y, counted, rounds, gathered, single

cdef tuple TERMS = ("launch", "packed", "x", "y", "counted", "rounds", "gathered", "single")

# How a launch reads and writes, and its tile.
cdef struct chosen_t:
    int choice, run, vector
    bint last, by_map, w_in_place, stores_by_map
    int64_t groups, stages, tiles
    double cost


cdef int64_t _slices(const mx_nv_conv* g) noexcept nogil:
    return ceil_div(g.taps_h * g.taps_w * <int64_t> g.reduced, DEPTH)


cdef int64_t _rows_of_filters(int64_t filters) noexcept nogil:
    """Filters of a group with those that fill up the largest tile."""
    return up(filters, 64 if filters <= 64 else 128 if filters <= 128 else 256)


cdef int _run_of(const mx_conv_problem* p, const roles_t* r) noexcept nogil:
    """How x is copied: X_RUN of conv/nvidia/hopper_tf32.cl."""
    cdef const mx_tensor* x = r.x
    if r.packs_x:
        return 0
    if (x.stride[1] == 1 and r.channels > 1 and r.channels % 4 == 0
            and (stride_of(x, 0) | stride_of(x, 3) | stride_of(x, 4)) % 4 == 0):
        return 0
    return 4 if contiguous_pixels(p, x) else 1


cdef bint _stores_by_map = True


def store_by_maps(bint allowed=True):
    """Whether results go to y by tensor maps; for tests and benches."""
    global _stores_by_map
    _stores_by_map = allowed


cdef int64_t _stages(const choice_t* c, int64_t slices, bint stores_by_map) noexcept nogil:
    cdef int64_t left = GROUP_BYTES - (33 << 10 if stores_by_map else c.pixels * 8)
    if c.resident:
        return min(8, (left - slices * c.filters * 128) // (c.pixels * 128))
    return min(8, left // ((c.pixels + c.filters) * 128))


cdef bytes _map_of_x(const mx_nv_conv* g, int phases, int64_t pixels):
    """For boxes of so many pixels, of a launch of so many phases; None where there is none."""
    cdef mx_nv_conv reach = reach_of(g, phases)
    return map_pixels(&reach, 0, pixels, 4)


cdef bint _by_maps(Device dev, const mx_conv_problem* p, const roles_t* r, const mx_nv_conv* g, int phases) noexcept:
    """Whether a launch copies x by a tensor map."""
    return (_run_of(p, r) == 0 and r.channels % DEPTH == 0 and may_have_maps(dev)
            and _map_of_x(g, phases, 64) is not None)


cdef bint _w_by_map(const mx_conv_problem* p, const roles_t* r, const mx_nv_conv* g) noexcept:
    """Where x is copied by a map: whether w is, too, and nothing is rounded before."""
    return p.direction == MX_FORWARD and r.w_reduced == 1 and map_filters(g, 0, False, True, 64, 4) is not None


cdef double _slice_time(const choice_t* c, const mx_nv_conv* g, int run, bint by_map) noexcept nogil:
    """Microseconds of a slice."""
    cdef double time = c.mapped_slice if by_map else c.in_runs if run else c.slice
    if run == 1 and g.step_w > 1:
        time *= 1 + c.pixels / 128.0  # every second pixel: twice the lines, which the L1 keeps for few pixels
    if run and g.reduced % DEPTH and c.pixels < 256:
        time *= 1.5  # what finds the next tap is shared by two pixels of a work-item with 256
    return time


cdef chosen_t _choose(Device dev, const mx_conv_problem* p, const roles_t* r, const mx_nv_conv* g, int phases,
                      int wanted=-1, int filters=0) noexcept:
    """The tile `wanted` where it can be, else the one that should take least time, of so many `filters` if not zero."""
    cdef chosen_t best = chosen_t(-1, _run_of(p, r), 1, g.y_c == 1 and g.filters > 1,
                                  _by_maps(dev, p, r, g, phases), False, False, 1, 1, 1, -1)
    cdef int64_t units = max(1, dev.compute_units), down, across, groups, stages, slices = _slices(g)
    cdef double[MAX_PHASES] each
    cdef double cost, slice
    cdef bint interleaved = interleaves(g, phases, 4)
    cdef int i, j
    best.w_in_place = best.by_map and _w_by_map(p, r, g)
    best.stores_by_map = (_stores_by_map and best.by_map and best.last and phases == 1 and g.y_first == 0
                          and (g.groups == 1 or g.filters % 32 == 0) and map_stored(g, 64) is not None)
    best.vector = 4 if best.last else 2 if best.run else 1
    for j in range(phases):
        while best.vector > 1 and not divides(best.vector, &g[j], best.last):
            best.vector //= 2
    for i in range(CHOICES_COUNT):
        if filters and CHOICES[i].filters != filters or _rows_of_filters(g.filters) % CHOICES[i].filters:
            continue
        if CHOICES[i].resident and (g.groups > 1 or phases > 1 or slices == 0):
            continue
        down = ceil_div(g.pixels, CHOICES[i].pixels) * g.groups
        across = ceil_div(g.filters, CHOICES[i].filters)
        stages = _stages(&CHOICES[i], slices, best.stores_by_map)
        groups = groups_of(units, phases * down * across, phases, interleaved)
        if CHOICES[i].resident:
            groups = groups // across * across  # a group keeps its filters
        if stages < 3 or groups == 0:
            continue
        slice = _slice_time(&CHOICES[i], g, best.run, best.by_map)
        for j in range(phases):
            each[j] = _slices(&g[j]) * slice + (CHOICES[i].mapped_end if best.by_map else CHOICES[i].end)
        cost = time_of_rounds(each, phases, down * across, groups, interleaved)
        if best.cost < 0 or cost < best.cost or i == wanted:
            best.choice, best.groups, best.stages, best.cost = i, groups, stages, cost
            best.tiles = phases * down * across
        if i == wanted:
            break
    return best


cdef bint _together(const mx_conv_problem* p, int count) noexcept nogil:
    """Whether all phases of the stride are one launch: they have equal grids."""
    return 1 < count <= MAX_PHASES and p.x.len[3] % p.step[1] == 0 and p.x.len[4] % p.step[2] == 0


cdef Step _multiply(const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int phases, const chosen_t* best):
    """One launch; of `phases` with equal grids; w_first is where in the rounded filters each begins."""
    cdef const choice_t* c = &CHOICES[best.choice]
    cdef mx_nv_tiles order = order_of_tiles(g, phases, ceil_div(g.pixels, c.pixels), ceil_div(g.filters, c.filters))
    spec = KernelSpec(
        "conv/nvidia/hopper_tf32.cl", "conv_nvidia_hopper_tf32", SM_90A=1, CHANNELS_LAST=int(best.last),
        VEC=best.vector, BP=c.pixels, BF=c.filters, PHASES=phases, STAGES=best.stages,
        RESIDENT=_slices(g) if c.resident else 0, PING_PONG=c.ping_pong, X_RUN=best.run,
        WHOLE_SLICES=int(g.reduced % DEPTH == 0), **_order_of_k(best),
        **interleaved_of(g, phases, 4))
    cdef mx_nv_conv whole = g[0], reach
    cdef KernelSpec unmapped = None
    if best.by_map:
        reach = reach_of(g, phases)
        whole.first_h, whole.first_w, whole.taps_h, whole.taps_w = reach.first_h, reach.first_w, 1, 1
    args = operand_args(r, &whole)
    w = args[1] if best.w_in_place else Arg.slot_of(SLOT_WORKSPACE, 4, g.w_first * 4)
    args = (args[0], w) + args[2:4] + (
        struct_arg(&order, sizeof(order) - (MAX_PHASES - phases) * sizeof(mx_nv_phase)),) + args[4:]
    if best.by_map:
        spec, unmapped = spec.defining("-D TENSOR_MAPS=1"), spec
        if best.w_in_place:
            w = mapped(w, map_filters(g, 0, False, True, c.filters, 4))
        y = (mapped(args[2], map_stored(g, 64)),) if best.stores_by_map else ()
        args = (mapped(args[0], map_pixels(&reach, 0, c.pixels, 4)), w, args[2], *y) + args[3:]
    return Step(spec, args, (best.groups * 384,), (384,), 1, unmapped)


cdef dict _order_of_k(const chosen_t* best):
    """Whoever copies by maps finds numbers of K as they lie, and so does the kernel for memory that none takes."""
    return {**({"K_IN_ORDER": 1} if best.by_map else {}), **({"W_IN_PLACE": 1} if best.w_in_place else {}),
            **({"STORE_MAP": 1} if best.stores_by_map else {})}


cdef roles_t _roles(const mx_conv_problem* p) noexcept nogil:
    """Nothing is packed but w, for which there is room whatever the tile and the phases of the stride are."""
    cdef roles_t r = roles_of(p, True)
    cdef int64_t phases = 1 if p.direction == MX_FORWARD else p.step[1] * p.step[2]
    r.packs_x = r.packs_w = r.unpacks_y = r.scaled = False
    r.size, r.reduced, r.x_offset = 4, r.channels, 0
    # Each tap is of one phase; each phase has up to a slice more.
    r.workspace = (p.groups * _rows_of_filters(r.filters) * 4
                   * (spatial_size(&p.w) * r.channels + phases * (DEPTH - 1)))
    if p.direction != MX_FORWARD and joins(p):
        make_planes(p, &r)
    return r


cdef void _pack_x(roles_t* r) noexcept nogil:
    """Let x be a copy behind the workspace, with channels last."""
    r.packs_x, r.x_offset = True, up(r.workspace, ALIGN)
    r.workspace = r.x_offset + elements_of(r.x) * 4


cdef Step _packing(const roles_t* r):
    """The launch that makes the copy."""
    cdef const mx_tensor* x = r.x
    cdef mx_nv_pixels g
    cdef int64_t image = x.len[3] * x.len[4], blocks = x.len[1] // DEPTH
    cdef int64_t n = stride_of(x, 0), c = stride_of(x, 1), h = stride_of(x, 3), w = stride_of(x, 4)
    cdef bint runs = ((x.len[4] == 1 or w == 1) and (x.len[3] == 1 or h == x.len[4]) and (image | n | c) % 4 == 0)
    memset(&g, 0, sizeof(g))
    g.images, g.h, g.w, g.channels, g.blocks = (
        <int> x.len[0], <int> x.len[3], <int> x.len[4], <int> x.len[1], <int> blocks)
    g.from_n, g.from_c, g.from_h, g.from_w = <int> n, <int> c, <int> h, <int> w
    g.by_image, g.by_row, g.by_blocks = divisor(image), divisor(x.len[4]), divisor(blocks)
    return Step(KernelSpec("conv/nvidia/pack_floats.cl", "pack_floats", RUN=4 if runs else 1),
                (Arg.slot_of(r.x_slot, 4, r.x_at), Arg.slot_of(SLOT_WORKSPACE, 4, r.x_offset),
                 struct_arg(&g, sizeof(g))),
                (ceil_div(x.len[0] * image, PACKED_PIXELS) * blocks * PACK_ITEMS,), (PACK_ITEMS,))


# Forward or backward data as launches take it: r points to p; g has each phase of the stride, of which `at_once`, one
# or all, are a launch.
cdef struct work_t:
    mx_conv_problem p
    roles_t r
    int count, at_once
    int64_t filters, planes  # bytes of the workspace
    mx_nv_conv[MAX_PHASES] g

cdef bint _packs_always = False


def pack_floats(bint always=False):
    """Pack x wherever that can be, not only where it should be faster; for tests and benches."""
    global _packs_always
    _packs_always = always


cdef void _fill(NvImplicitGemmBwd data, const mx_conv_problem* p, bint packs, work_t* o) noexcept:
    """The phases are of `data`, whose direction is backward, or None."""
    o.p = p[0]
    o.r = _roles(&o.p)
    o.filters = o.r.y_at if o.r.y_slot == SLOT_WORKSPACE else o.r.workspace
    o.planes = o.r.workspace - o.filters
    if packs:
        _pack_x(&o.r)
    if data is None:
        o.g[0], o.count = operands(&o.p, &o.r), 1
        set_taps(&o.g[0], &o.p)
    else:
        o.count = data.phases(&o.p, &o.r, o.g)
    o.at_once = o.count if _together(&o.p, o.count) else 1
    if o.at_once > 1:
        sort_phases(o.g, o.count)


cdef double _microseconds(Device dev, const work_t* o) noexcept:
    """What should bound it: tiles, or bytes; and packing."""
    cdef double x = megabytes(o.r.x), y = megabytes(o.r.y), tiles = 0
    cdef int i
    for i in range(o.count // o.at_once):
        tiles += _choose(dev, &o.p, &o.r, &o.g[i], o.at_once).cost
    return max(tiles, (x + y) / MB_A_US) + (PACK_US + 2 * x / MB_A_US if o.r.packs_x else 0)


cdef bint _only_x(Device dev, const work_t* o) noexcept:
    """Whether nothing of w is in the workspace."""
    return _by_maps(dev, &o.p, &o.r, o.g, 1) and _w_by_map(&o.p, &o.r, o.g)


cdef void _prepare(NvImplicitGemmBwd data, Device dev, const mx_conv_problem* p, work_t* o) noexcept:
    """Fill `o`, with x packed where maps then take it, an image has room, and it should take less time."""
    cdef mx_conv_problem read = only_read(p)
    cdef double in_place
    _fill(data, &read, False, o)
    if not may_have_maps(dev) or _run_of(&o.p, &o.r) == 0 or o.r.channels % DEPTH:
        return
    in_place = _microseconds(dev, o)
    _fill(data, &read, True, o)
    if not (_by_maps(dev, &o.p, &o.r, o.g, o.at_once)
            and o.filters + (o.r.workspace - o.filters) // o.p.x.len[0] <= most_workspace()
            and (_packs_always or _microseconds(dev, o) <= in_place)):
        _fill(data, &read, False, o)
    elif _only_x(dev, o):
        o.r.workspace -= o.r.x_offset
        o.r.x_offset = 0


cdef int64_t _workspace(Device dev, const work_t* o) noexcept:
    return o.r.workspace if o.r.packs_x or not _only_x(dev, o) else 0


cdef list _launches(Device dev, work_t* o, int wanted):
    """All steps, by tile `wanted` where it can be."""
    cdef const mx_conv_problem* p = &o.p
    cdef const roles_t* r = &o.r
    cdef mx_nv_conv* g = o.g
    cdef int count = o.count, at_once = o.at_once, launches = count // at_once, i, filters
    cdef mx_nv_tf32_filters f
    cdef chosen_t[MAX_PHASES] best
    cdef int64_t to = 0, blocks
    steps = [_packing(r)] if r.packs_x else []
    # All phases have filters of one block size.
    best[0] = _choose(dev, p, r, g, at_once, wanted)
    if best[0].w_in_place:
        steps.append(_multiply(p, r, g, 1, &best[0]))
        return steps
    filters = CHOICES[best[0].choice].filters
    for i in range(1, launches):
        best[i] = _choose(dev, p, r, &g[i], 1, wanted, filters)
        best[0].by_map = best[0].by_map and best[i].by_map
    for i in range(1, launches):  # filters are in one order
        best[i].by_map = best[0].by_map
        best[i].stores_by_map = best[i].stores_by_map and best[0].by_map
    blocks = ceil_div(r.filters, filters)
    memset(&f, 0, sizeof(f))
    f.groups, f.filters, f.channels = <int> p.groups, <int> r.filters, <int> r.channels
    f.blocks, f.count = <int> blocks, count
    f.from_g, f.from_k, f.from_c = g.w_g, <int> r.w_row, <int> r.w_reduced
    f.from_h, f.from_w = g.w_h, g.w_w
    f.by_rows = divisor(blocks * filters)
    for i in range(count):
        f.phases[i].taps_h, f.phases[i].taps_w, f.phases[i].w_first = g[i].taps_h, g[i].taps_w, g[i].w_first
        f.to[i] = g[i].w_first = <int> to
        to += p.groups * blocks * filters * _slices(&g[i]) * DEPTH
    steps.append(Step(
        KernelSpec("conv/nvidia/hopper_tf32_filters.cl", "round_filters", BF=filters, **_order_of_k(&best[0])),
        (Arg.slot_of(SLOT_W, 4), Arg.slot_of(SLOT_WORKSPACE, 4), struct_arg(&f, sizeof(f))),
        (p.groups * blocks * (filters // 8) * ceil_div(r.channels, 32) * 256,), (256,)))
    for i in range(launches):
        steps.append(_multiply(p, r, &g[i], at_once, &best[i]))
    if r.y_slot == SLOT_WORKSPACE:
        steps.append(join_of_planes(p, r))
    return steps


cdef int _tile_of(Device dev, const work_t* o, int wanted=-1) noexcept:
    """The tile of the first launch."""
    return _choose(dev, &o.p, &o.r, o.g, o.at_once, wanted).choice


cdef void _count(Device dev, const work_t* o, double* terms) noexcept:
    cdef terms_t* t = <terms_t*> terms
    cdef const mx_nv_conv* g
    cdef int at_once = o.at_once, i
    cdef chosen_t best
    if not _only_x(dev, o):
        t.launch = 1
        t.packed = o.filters * 1e-6
    for i in range(o.count // at_once):
        g = &o.g[i]
        best = _choose(dev, &o.p, &o.r, g, at_once)
        t.launch += 1
        t.counted += best.cost
        t.rounds += ceil_div(best.tiles, best.groups)
        if best.run == 1:
            t.gathered += best.tiles * CHOICES[best.choice].pixels * _slices(g) * DEPTH * 4e-6
        if best.vector == 1:
            t.single += o.g[0].pixels * <double> g.filters * g.groups * 4e-6 * at_once
    t.x, t.y = megabytes(o.r.x), megabytes(o.r.y)
    if o.planes:  # written and read
        t.launch += 1
        t.y += 2e-6 * o.planes
    if o.r.packs_x:
        t.launch += 1
        t.x *= 3


cdef double _roundings(const mx_conv_problem* p, const roles_t* r) noexcept nogil:
    """Of factors, and of steps of the tensor cores, which cut off what does not fit."""
    return ROUNDED + CUT * (ceil_div(<int64_t> sum_terms(p), ADDED) + 4)


cdef class NvWgmmaTf32Fwd(NvImplicitGemmFwd):
    """Forward on TF32 by wgmma: implicit GEMM of x as it lies or packed; w is rounded first where no map does."""

    def __cinit__(self):
        self.id, self.name, self.peak, self.long_rows = 1184, "NvWgmmaTf32Fwd", 2 * WGMMA_PEAK, True
        self.cost_names = TERMS

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = refuse_tf32(dev, p)
        return NvImplicitGemmFwd.refuse(self, dev, p) if why is None else why

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef roles_t r = _roles(p)
        return _roundings(p, &r)

    cdef roles_t roles(self, const mx_conv_problem* p) noexcept:
        return _roles(p)

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return self.peak * min(1.0, (p.w.len[0] // p.groups) / 64.0)

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef work_t o
        _prepare(None, dev, p, &o)
        _count(dev, &o, terms)

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return TABLE

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        cdef work_t o
        _prepare(None, dev, p, &o)
        return _tile_of(dev, &o, config[0]) == config[0]

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        cdef work_t o
        _prepare(None, dev, p, &o)
        return (_tile_of(dev, &o),)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef work_t o
        _prepare(None, dev, p, &o)
        return Solution(_launches(dev, &o, config[0] if config else -1), _workspace(dev, &o))

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef work_t o
        _prepare(None, dev, p, &o)
        return _workspace(dev, &o)


cdef class NvWgmmaTf32Bwd(NvImplicitGemmBwd):
    """Backward data on TF32 by wgmma, as NvWgmmaTf32Fwd: one launch for equal phases of a stride, NCHW's are joined."""

    def __cinit__(self):
        self.id, self.name, self.peak, self.long_rows = 1185, "NvWgmmaTf32Bwd", 2 * WGMMA_PEAK, True
        self.cost_names = TERMS

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = refuse_tf32(dev, p)
        if why is None and p.step[0] * p.step[1] * p.step[2] > MAX_PHASES:
            why = "too many phases of the stride"
        return NvImplicitGemmBwd.refuse(self, dev, p) if why is None else why

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef roles_t r = _roles(p)
        return _roundings(p, &r)

    cdef roles_t roles(self, const mx_conv_problem* p) noexcept:
        return _roles(p)

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return self.peak * min(1.0, p.w.len[1] / 64.0)

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef work_t o
        _prepare(self, dev, p, &o)
        _count(dev, &o, terms)

    cdef int phases(self, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g) noexcept:
        return phases_of_planes(p, r, g) if joins(p) else NvImplicitGemmBwd.phases(self, p, r, g)

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return TABLE

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        cdef work_t o
        _prepare(self, dev, p, &o)
        return _tile_of(dev, &o, config[0]) == config[0]

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        cdef work_t o
        _prepare(self, dev, p, &o)
        return (_tile_of(dev, &o),)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef work_t o
        _prepare(self, dev, p, &o)
        return Solution(_launches(dev, &o, config[0] if config else -1), _workspace(dev, &o))

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef work_t o
        _prepare(self, dev, p, &o)
        return _workspace(dev, &o)


cdef class _Weights(NvImplicitGemmWrw):
    """Backward weights of x and dy as they lie, by tiles that can be tuned."""

    cdef const tile_t* own
    cdef int count_of_tiles

    def __cinit__(self):
        self.volumes, self.long_rows, self.cost_names = True, True, WEIGHTS_TERMS

    cdef const tile_t* tiles(self, Device dev, const mx_conv_problem* p) noexcept:
        return self.own

    cdef split_k_t unsplit(self, const mx_conv_problem* p) noexcept:
        """How x and dy are read."""
        cdef split_k_t s
        memset(&s, 0, sizeof(s))
        s.x_slot, s.size, s.reduced = SLOT_X, 4, p.w.len[1]
        s.columns = s.reduced * p.w.len[3] * p.w.len[4]
        return s

    cdef split_k_t split(self, Device dev, const mx_conv_problem* p, int wanted=-1) noexcept:
        """By the tile `wanted`, or by the one that should take least time."""
        cdef split_k_t s = self.unsplit(p)
        return split_k_among(dev, p, &s, self.tiles(dev, p), self.count_of_tiles,
                             4 * (elements_of(&p.x) + elements_of(&p.y)), False, wanted)

    cdef bint fills(self, Device dev, const mx_conv_problem* p, int tile) noexcept:
        """Whether a tile is not more than half padding, but the smallest."""
        cdef const tile_t* t = &self.tiles(dev, p)[tile]
        return (t.down <= up(p.w.len[0] // p.groups, 64)
                and t.across <= up(p.w.len[1] * p.w.len[3] * p.w.len[4], 64))

    cdef int64_t copied(self, const mx_conv_problem* p) noexcept:
        return 0

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        """Of factors, of steps as _roundings, and of what is added up."""
        cdef double terms = sum_terms(p)
        return (ROUNDED + CUT * (min(terms, <double> LONGEST) / ADDED + 1)
                + min(max(16.0 * max(1, dev.compute_units), terms / LONGEST), terms / ADDED) / 8 + 8)

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        """Room for the partial sums of any tile."""
        cdef mx_conv_problem read = only_read(p)
        cdef int64_t most = 0
        cdef int i
        for i in range(self.count_of_tiles):
            if self.fills(dev, &read, i):
                most = max(most, self.split(dev, &read, i).workspace)
        return max(most, self.split(dev, &read).workspace)

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef mx_conv_problem read = only_read(p)
        cdef split_k_t s = self.split(dev, &read)
        count_tiles(dev, &read, &s, &self.tiles(dev, &read)[s.tile], terms)

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return (("TILE", tuple(range(self.count_of_tiles))),)

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        cdef mx_conv_problem read = only_read(p)
        return self.fills(dev, &read, config[0]) or config[0] == self.split(dev, &read).tile

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        cdef mx_conv_problem read = only_read(p)
        return (self.split(dev, &read).tile,)


cdef bint _has_map(const mx_tensor* t) noexcept:
    return map_channels(t.len[3] * t.len[4], t.len[1], t.len[0], stride_of(t, 1), stride_of(t, 0), 64, 4) is not None


cdef class NvWgmmaTf32Wrw(_Weights):
    """Backward weights on TF32 by wgmma: 1x1 of contiguous pixels, by tensor maps, so by CUDA's driver alone."""

    def __cinit__(self):
        self.id, self.name, self.peak = 1204, "NvWgmmaTf32Wrw", 3 * WGMMA_PEAK  # nothing is packed
        self.own, self.count_of_tiles = float_tiles(), TILES_OF_PIXELS

    cdef split_k_t unsplit(self, const mx_conv_problem* p) noexcept:
        cdef split_k_t s = _Weights.unsplit(self, p)
        s.contiguous_pixels, s.by_image = 4, True
        return s

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef int64_t image = spatial_size(&p.y)
        # The last step of an image is filled up.
        return ROUNDED + (_Weights.roundings(self, dev, p) - ROUNDED) * up(image, ADDED) / image

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef mx_conv_problem read = only_read(p)
        cdef str why = refuse_tf32(dev, p)
        if why is not None:
            return why
        if not may_have_maps(dev):
            return "needs tensor maps"
        if not (contiguous_pixels(&read, &read.x) and contiguous_pixels(&read, &read.y)
                and _has_map(&read.x) and _has_map(&read.y)):
            return "not 1x1 of contiguous pixels"
        return NvImplicitGemmWrw.refuse(self, dev, p)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem read = only_read(p)
        cdef split_k_t s = self.split(dev, &read, config[0] if config else -1)
        cdef mx_nv_conv g
        set_split_k(&read, &s, &g)
        return Solution([multiply_weights(dev, &read, &s, &g), sum_tiles_of(dev, &read, &s)],
                        self.workspace_bytes(dev, p))


cdef enum:
    WEIGHT_TILES = 6
    LONGEST_OF_VOLUME = 10  # taps along an axis of three: conv/nvidia/taps.h

# Tiles of NvMmaTf32Wrw.
cdef tile_t[WEIGHT_TILES] TILES
TILES[0] = tile_t(128, 256, 256, 1, 32, 1.55, 4)
TILES[1] = tile_t(256, 128, 256, 1, 32, 1.70, 4)
TILES[2] = tile_t(128, 128, 128, 2, 32, 1.70, 4)
TILES[3] = tile_t(64, 256, 128, 2, 16, 1.40, 4)
TILES[4] = tile_t(256, 64, 128, 2, 16, 1.40, 4)
TILES[5] = tile_t(64, 64, 128, 3, 32, 1.00, 4)
# The same where tensor maps copy.
cdef tile_t[WEIGHT_TILES] MAPPED_TILES


cdef int _set_mapped(tuple times) except -1:
    """Microseconds of a slice and of a tile's end, for each of TILES."""
    cdef int i
    for i in range(WEIGHT_TILES):
        MAPPED_TILES[i] = TILES[i]
        MAPPED_TILES[i].slice, MAPPED_TILES[i].end = times[i]
    return 0


_set_mapped(((1.50, 4), (1.50, 3), (1.46, 1), (0.955, 1), (0.94, 1), (0.69, 1)))
cdef tuple TILE_DEFINES = (
    {"STAGES": 4}, {"STAGES": 4}, {"STAGES": 3}, {"STAGES": 5}, {"STAGES": 5}, {"STAGES": 4, "WM": 32, "WN": 32})


cdef bint _by_fours(const mx_tensor* t, int64_t channels) noexcept nogil:
    """Whether a group's channels are next to each other and pixels begin at multiples of four floats."""
    return (t.stride[1] == 1 and channels % 4 == 0
            and (stride_of(t, 0) | stride_of(t, 2) | stride_of(t, 3) | stride_of(t, 4)) % 4 == 0)


cdef bint _weights_by_maps(Device dev, const mx_conv_problem* p) noexcept:
    """Whether the kernel copies by tensor maps, should there be some for how x and dy lie."""
    return p.w.len[1] % DEPTH == 0 and p.w.len[0] // p.groups % DEPTH == 0 and may_have_maps(dev)


cdef mx_nv_volume _volume_of(const mx_conv_problem* p, const mx_nv_conv* g) noexcept:
    """The problem with the strides of a volume, which are zero where there is none."""
    cdef mx_nv_volume v
    if g.p >> 16:
        return volume(g, &p.x, &p.y)
    memset(&v, 0, sizeof(v))
    return v


cdef tuple _map_tiles(const mx_conv_problem* p, const mx_nv_conv* g, int64_t depth):
    """Maps of x and dy for slices of so many pixels; None where one cannot be."""
    cdef mx_nv_volume v = _volume_of(p, g)
    x, y = map_pixels(g, v.x_d, depth, 4), map_result(g, v.y_d, depth, 4)
    return None if x is None or y is None else (x, y)


cdef int _dilated(const mx_nv_conv* g) noexcept nogil:
    return g.p >> 16 == 0 and (g.tap_h != 1 or g.tap_w != 1)


cdef Step _multiply_tiles(const mx_conv_problem* p, const split_k_t* s, const tile_t* tile, const mx_nv_conv* g,
                          KernelSpec spec, KernelSpec by_map):
    """Partial sums by one kernel, or by the other one, if any, where tensor maps copy."""
    cdef mx_nv_volume v = _volume_of(p, g)
    problem = struct_arg(&v, sizeof(v)) if g.p >> 16 else struct_arg(g, sizeof(g[0]))
    args = (Arg.slot_of(SLOT_X, 4), Arg.slot_of(SLOT_Y, 4), Arg.slot_of(SLOT_WORKSPACE, 4), problem,
            Arg.int32(s.split_slices))
    cdef tuple maps = None if by_map is None else _map_tiles(p, g, tile.depth)
    cdef KernelSpec unmapped = None
    if maps is not None:
        spec, unmapped = by_map, spec
        args = (mapped(args[0], maps[0]), mapped(args[1], maps[1])) + args[2:]
    return Step(spec, args, (tile.threads * s.groups,), (tile.threads,), 1, unmapped)


cdef class NvMmaTf32Wrw(_Weights):
    """Backward weights on TF32 by mma.sync: split-K or stream-K over pixels of x and dy as they lie, channels last."""

    def __cinit__(self):
        self.id, self.name, self.peak = 1203, "NvMmaTf32Wrw", WGMMA_PEAK
        self.own, self.count_of_tiles = &TILES[0], WEIGHT_TILES

    cdef const tile_t* tiles(self, Device dev, const mx_conv_problem* p) noexcept:
        return &MAPPED_TILES[0] if _weights_by_maps(dev, p) else self.own

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = refuse_tf32(dev, p)
        if why is not None:
            return why
        if p.spatial > 2 and max(p.w.len[2], p.w.len[3], p.w.len[4]) > LONGEST_OF_VOLUME:
            return "filter size"
        if not (_by_fours(&p.x, p.w.len[1]) and _by_fours(&p.y, p.w.len[0] // p.groups)):
            return "not channels last by fours"
        return NvImplicitGemmWrw.refuse(self, dev, p)

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        # Nothing is packed, which counts most where each number is used by one tap.
        return NvImplicitGemmWrw.index(self, dev, p) * (1.8 if spatial_size(&p.w) == 1 else 1.2)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem read = only_read(p)
        cdef split_k_t s = self.split(dev, &read, config[0] if config else -1)
        cdef const tile_t* tile = &TILES[s.tile]
        cdef mx_nv_conv g
        set_split_k(&read, &s, &g)
        spec = KernelSpec(
            "conv/nvidia/tf32_weights.cl", "conv_nvidia_tf32_weights", BM=tile.down, BN=tile.across, DEPTH=tile.depth,
            PERSISTENT=int(s.splits == 0),
            FLAT=int(is_flat(&g) and g.y_h == g.q * g.y_w and g.y_n == g.p * g.y_h),
            DILATED=_dilated(&g), **axes_of(&g), **TILE_DEFINES[s.tile])
        by_map = spec.defining("-D TENSOR_MAPS=1 -D SM_90A=1") if _weights_by_maps(dev, &read) else None
        return Solution([_multiply_tiles(&read, &s, tile, &g, spec, by_map),
                         sum_tiles(dev, &read, &s, tile, {"IN_ROWS": 1})], self.workspace_bytes(dev, p))


# Tiles of NvWgmmaTf32NhwcWrw, and how each is multiplied: conv/nvidia/tf32_weights_turned.cl.
cdef enum:
    TURNED_TILES = 8

cdef tile_t[TURNED_TILES] TURNED
TURNED[0] = tile_t(256, 128, 384, 1, DEPTH, 0.9, 2.3)
TURNED[1] = tile_t(128, 256, 384, 1, DEPTH, 0.95, 1.4)
TURNED[2] = tile_t(128, 256, 384, 1, DEPTH, 1.03, 1.5)
TURNED[3] = tile_t(128, 128, 384, 1, DEPTH, 0.78, 1)
TURNED[4] = tile_t(64, 256, 384, 1, DEPTH, 0.77, 1.7)
TURNED[5] = tile_t(256, 64, 384, 1, DEPTH, 0.7, 1)
TURNED[6] = tile_t(64, 128, 384, 1, DEPTH, 0.57, 1)
TURNED[7] = tile_t(64, 64, 256, 2, DEPTH, 0.565, 1)
cdef tuple TURNED_DEFINES = (
    {"STAGES": 4}, {"STAGES": 4, "TURN_Y": 1}, {"STAGES": 3, "WG_ROWS": 1}, {"STAGES": 6, "WG_ROWS": 1},
    {"STAGES": 5, "TURN_Y": 1}, {"STAGES": 5}, {"STAGES": 8, "WG_ROWS": 1, "TURN_Y": 1}, {"STAGES": 5, "WG_ROWS": 1})


cdef class NvWgmmaTf32NhwcWrw(_Weights):
    """Backward weights on TF32 by wgmma, channels last: one operand turned in local memory, by CUDA's driver alone."""

    def __cinit__(self):
        self.id, self.name, self.peak = 1205, "NvWgmmaTf32NhwcWrw", WGMMA_PEAK
        self.own, self.count_of_tiles = &TURNED[0], TURNED_TILES

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef mx_conv_problem read = only_read(p)
        cdef split_k_t s
        cdef mx_nv_conv g
        cdef str why = refuse_tf32(dev, p)
        if why is None and not may_have_maps(dev):
            why = "needs tensor maps"
        if why is None and p.spatial > 2 and max(p.w.len[2], p.w.len[3], p.w.len[4]) > LONGEST_OF_VOLUME:
            why = "filter size"
        if why is None and (p.w.len[1] % DEPTH or p.w.len[0] // p.groups % DEPTH):
            why = "channels or filters of a group are no multiples of 32"
        if why is None:
            why = NvImplicitGemmWrw.refuse(self, dev, p)
        if why is not None:
            return why
        s = self.unsplit(&read)
        set_split_k(&read, &s, &g)
        return "not channels last as tensor maps have it" if _map_tiles(&read, &g, DEPTH) is None else None

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem read = only_read(p)
        cdef split_k_t s = self.split(dev, &read, config[0] if config else -1)
        cdef const tile_t* tile = &TURNED[s.tile]
        cdef mx_nv_conv g
        set_split_k(&read, &s, &g)
        spec = KernelSpec(
            "conv/nvidia/tf32_weights_turned.cl", "conv_nvidia_tf32_weights_turned", SM_90A=1, BM=tile.down,
            BN=tile.across, PERSISTENT=int(s.splits == 0), DILATED=_dilated(&g), **axes_of(&g),
            **TURNED_DEFINES[s.tile])
        return Solution([_multiply_tiles(&read, &s, tile, &g, spec, spec.defining("-D TENSOR_MAPS=1")),
                         sum_tiles(dev, &read, &s, tile, {"IN_ROWS": 1})], self.workspace_bytes(dev, p))
