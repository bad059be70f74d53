"""Convolution of OCP's float8 by Hopper's wgmma, channels last: what conv/nvidia/hopper.cl takes with 8 bits.

x (dy backward) is read as it lies where 16 bytes are 16 channels, else from a packed copy.  wgmma takes operands along
the summed axis only, so backward data packs w with filters innermost; forward takes k r s c as it is.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step
from miopyx.problem._descriptors cimport is_ocp8, type_size
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport MX_BACKWARD_DATA, MX_BFLOAT8, MX_FLOAT8, MX_FORWARD, mx_conv_problem, mx_tensor
from miopyx.solvers.conv._base cimport result_type, spatial_size, stride_of
from miopyx.solvers._tokens cimport type_token
from ._common cimport (
    ALIGN, NO_ROOM, WGMMA_PEAK, both, divides, has_wgmma, mx_nv_conv, refuse_sizes, set_taps, tensor_cores,
)
from ._int8 cimport pack_bytes
from ._mma cimport MAX_PHASES, NvImplicitGemmBwd, NvImplicitGemmFwd, only_read, operands, roles_t
from ._wgmma cimport (
    at_once, axes_of, choice_t, groups_of, hopper_args, interleaved_of, interleaves, slices_of, sort_phases, stages_of,
    time_of,
)

cdef enum:
    CHUNK = 16             # channels that are copied together
    SLICE = 128            # numbers of the summed axis
    STEP = 32              # of an instruction
    TILES_COUNT = 3
    # What an instruction's 32 products, the sum before and the sum behind lose, in roundings of a float: less than
    # 2^-13 of the largest each.
    LOST = (STEP + 2) << (24 - 13)

# A tile of the product, as wgmma's other solvers have it: 64 rows that a warpgroup owns, and warpgroups that multiply.
cdef struct tile_t:
    choice_t choice
    int rows, consumers

# By pixels and filters; times of an H100.
cdef enum:
    T192X128
    T128X128
    T256X64

cdef tile_t[TILES_COUNT] TILES
TILES[T192X128] = tile_t(choice_t(192, 128, 0, 0, 0.55, 0.91), 1, 3)
TILES[T128X128] = tile_t(choice_t(128, 128, 0, 0, 0.454, 0.69), 1, 2)
TILES[T256X64] = tile_t(choice_t(256, 64, 0, 0, 0.457, 0.64), 2, 2)

# What takes time: launches, megabytes of copies, of x and of y, microseconds by the table of tiles, rounds of tiles.
cdef struct float8_terms_t:
    double launch, packed, x, y, counted, rounds

cdef tuple FLOAT8_TERMS = ("launch", "packed", "x", "y", "counted", "rounds")


cdef roles_t _roles_of(const mx_conv_problem* p) noexcept nogil:
    cdef roles_t r
    memset(&r, 0, sizeof(r))
    r.size, r.y_size = 1, type_size(<int> result_type(p))
    if p.direction == MX_FORWARD:
        r.x, r.y, r.x_slot, r.y_slot = &p.x, &p.y, SLOT_X, SLOT_Y
        r.channels, r.filters = p.w.len[1], p.w.len[0] // p.groups
        r.w_row, r.w_reduced = p.w.stride[0], p.w.stride[1]
    else:
        r.x, r.y, r.x_slot, r.y_slot = &p.y, &p.x, SLOT_Y, SLOT_X
        r.channels, r.filters = p.w.len[0] // p.groups, p.w.len[1]
        r.w_row, r.w_reduced = p.w.stride[1], p.w.stride[0]
    r.groups, r.reduced = p.groups, up(r.channels, CHUNK)
    r.packs_w = (r.w_reduced != 1 or r.channels != r.reduced
                 or (r.w_row | stride_of(&p.w, 3) | stride_of(&p.w, 4)) % CHUNK != 0)
    r.packs_x = (r.x.stride[1] != 1 or r.channels != r.reduced
                 or (stride_of(r.x, 0) | stride_of(r.x, 3) | stride_of(r.x, 4)) % CHUNK != 0)
    r.folded, r.taps_across = r.reduced, p.w.len[4]
    if r.packs_w:
        r.workspace = up(p.groups * r.filters * r.reduced * p.w.len[3] * p.w.len[4], ALIGN)
    r.x_offset = r.y_offset = r.workspace
    if r.packs_x:
        r.workspace += up(r.x.len[0] * r.x.len[3] * r.x.len[4] * p.groups * r.reduced, ALIGN)
    return r


cdef bint _taps_are_images(const mx_conv_problem* p) noexcept nogil:
    """Whether backward data packs w tap by tap: channels lie closest, taps equally far from each other."""
    cdef const mx_tensor* w = &p.w
    return (p.direction == MX_BACKWARD_DATA and w.stride[1] == 1
            and (w.len[3] == 1 or w.len[4] == 1 or w.stride[3] == w.len[4] * w.stride[4]))


cdef list _packing(const mx_conv_problem* p, const roles_t* r):
    cdef mx_tensor w = p.w
    cdef list steps = []
    if r.packs_w and p.direction == MX_BACKWARD_DATA:
        # Channels of the copy are w's filters; its pixels are w's channels, and its images taps, or the other way.
        w.len[1], w.stride[1] = p.w.len[0], p.w.stride[0]
        w.len[0], w.stride[0] = p.w.len[1], p.w.stride[1]
        if _taps_are_images(p):
            w.len[0], w.stride[0] = p.w.len[3] * p.w.len[4], p.w.stride[4] if p.w.len[4] > 1 else p.w.stride[3]
            w.len[3], w.len[4], w.stride[4] = 1, p.w.len[1], p.w.stride[1]
        steps.append(pack_bytes(&w, SLOT_W, 0, p.groups, r.channels, r.reduced))
    elif r.packs_w:
        steps.append(pack_bytes(&w, SLOT_W, 0, 1, r.channels, r.reduced))
    if r.packs_x:
        steps.append(pack_bytes(r.x, r.x_slot, r.x_offset, p.groups, r.channels, r.reduced))
    return steps


cdef mx_nv_conv _operands_of(const mx_conv_problem* p, const roles_t* r) noexcept nogil:
    """Everything but the grid and the taps."""
    cdef mx_nv_conv g = operands(p, r)
    cdef int row = <int> (r.groups * r.reduced)
    if r.packs_w and p.direction == MX_BACKWARD_DATA:
        g.w_g = <int> r.reduced
        if _taps_are_images(p):
            g.w_k, g.w_w = row, row * <int> r.filters
        else:
            g.w_w, g.w_k = row, row * <int> (p.w.len[3] * p.w.len[4])
        g.w_h = g.w_w * <int> p.w.len[4]
    return g


cdef int64_t _widest(const roles_t* r, const mx_nv_conv* g) noexcept nogil:
    """Elements of y that are stored at once, 16 bytes at most."""
    cdef int64_t vector = 16 // r.y_size
    while vector > 1 and not (g.filters > 1 and divides(vector, g, True)):
        vector //= 2
    return vector


cdef int64_t _tiles(int i, const mx_nv_conv* g) noexcept nogil:
    """How many tiles of a kind a phase has."""
    return ceil_div(g.pixels, TILES[i].choice.pixels) * ceil_div(g.filters, TILES[i].choice.filters) * g.groups


cdef int64_t _groups(Device dev, int i, const mx_nv_conv* g, int phases) noexcept nogil:
    """How many groups of work-items a launch of such tiles has."""
    return groups_of(max(1, dev.compute_units), phases * _tiles(i, g), phases, interleaves(g, phases, 1))


cdef int _choose(Device dev, const mx_nv_conv* g, int phases) noexcept nogil:
    cdef double cost, best = -1
    cdef int i, chosen = T128X128
    for i in range(TILES_COUNT):
        if (g.filters <= 64) != (TILES[i].choice.filters == 64):
            continue
        cost = time_of(&TILES[i].choice, g, phases, _tiles(i, g), _groups(dev, i, g, phases), SLICE)
        if best < 0 or cost < best:
            best, chosen = cost, i
    return chosen


cdef Step _multiply(Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int phases, int tile,
                    int64_t first):
    """One launch; of `phases` with equal grids those with most taps come first."""
    cdef const choice_t* c
    cdef int64_t vector = 16
    cdef int i, chosen = tile if tile >= 0 else _choose(dev, g, phases)
    cdef int threads = 128 * TILES[chosen].consumers + 128
    cdef int64_t result = result_type(p)
    c = &TILES[chosen].choice
    for i in range(phases):
        vector = min(vector, _widest(r, &g[i]))
    cdef bint taps = both(g.taps_h) * g.taps_w > 1 and g.filters <= 64
    spec = KernelSpec(
        "conv/nvidia/hopper.cl", "conv_nvidia_hopper", SM_90A=1, X_TYPE=type_token(r.x.type),
        W_TYPE=type_token(p.w.type), Y_TYPE=type_token(result), AT_RANDOM=int(p.rounding != 0),
        VEC=vector, PIECE=vector * r.y_size, BP=c.pixels, BF=c.filters, PHASES=phases, WG_ROWS=TILES[chosen].rows,
        STAGES=stages_of(c, slices_of(g, SLICE), False, False), X_THROUGH_L1=int(taps),
        TAPS_INNER=int(taps and g.reduced % SLICE == 0), **axes_of(g),
        **interleaved_of(g, phases, 1),
    )
    cdef mx_nv_conv whole = _operands_of(p, r)
    return Step(spec, hopper_args(p, r, g, &whole, phases, c) + (Arg.int64(p.rounding), Arg.int64(first)),
                (_groups(dev, chosen, g, phases) * threads,), (threads,))


cdef void _count(Device dev, const mx_nv_conv* g, int phases, double* terms) noexcept:
    """Add a launch."""
    cdef float8_terms_t* t = <float8_terms_t*> terms
    cdef int chosen = _choose(dev, g, phases)
    cdef int64_t tiles = _tiles(chosen, g), groups = _groups(dev, chosen, g, phases)
    t.launch += 1
    t.counted += time_of(&TILES[chosen].choice, g, phases, tiles, groups, SLICE)
    t.rounds += ceil_div(phases * tiles, groups)


cdef void _count_packing(const roles_t* r, double* terms) noexcept:
    cdef float8_terms_t* t = <float8_terms_t*> terms
    t.launch += int(r.packs_w) + int(r.packs_x)
    t.packed = r.workspace * 1e-6
    t.x = r.x.len[0] * r.x.len[1] * <double> (r.x.len[3] * r.x.len[4]) * 1e-6
    t.y = r.y.len[0] * r.y.len[1] * <double> (r.y.len[3] * r.y.len[4]) * r.y_size * 1e-6


cdef str _refuse(Device dev, const mx_conv_problem* p, int64_t read):
    cdef int64_t longest = 10 if p.spatial > 2 else 15
    cdef const mx_tensor* y = &p.y if p.direction == MX_FORWARD else &p.x
    cdef mx_conv_problem folded
    cdef roles_t r
    cdef str why
    if not tensor_cores(dev) or not has_wgmma(dev):
        return "needs wgmma"
    if p.w.type == MX_FLOAT8 or p.w.type == MX_BFLOAT8:
        # Half of what OCP's codes are, but for NaN and for OCP's NaN and infinities, which are AMD's largest numbers.
        return "AMD's float8, whose NaN and largest numbers wgmma reads as others"
    if not is_ocp8(read) or not is_ocp8(p.w.type):
        return "data type"
    if y.len[1] > 1 and y.stride[1] != 1:
        return "the result is not channels last"
    if max(p.w.len[2], p.w.len[3], p.w.len[4]) > longest:
        return "filter size"
    folded = only_read(p)
    r = _roles_of(&folded)
    why = refuse_sizes(p, r.workspace, True, True)
    if why is not None:
        return why
    return NO_ROOM if r.workspace > dev.max_alloc else None


cdef double _roundings(const mx_conv_problem* p) noexcept:
    """Sums of wgmma, of so many instructions each, and their sum in float."""
    cdef mx_conv_problem read = only_read(p)
    cdef roles_t r = _roles_of(&read)
    cdef int64_t terms = r.reduced * spatial_size(&p.w)
    return <double> (ceil_div(min(SLICE, terms), STEP) * LOST) + ceil_div(terms, SLICE) + 2


cdef tuple _table():
    return (("TILE", tuple(range(TILES_COUNT))),)


cdef class NvFloat8Fwd(NvImplicitGemmFwd):
    """Forward of OCP's float8 by wgmma, sums promoted to float every 128 products."""

    def __cinit__(self):
        self.id, self.name, self.volumes, self.float8 = 1188, "NvFloat8Fwd", True, True
        self.peak = 2 * WGMMA_PEAK
        self.cost_names = FLOAT8_TERMS

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        return _refuse(dev, p, p.x.type)

    cdef roles_t roles(self, const mx_conv_problem* p) noexcept:
        return _roles_of(p)

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        return _roundings(p)

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef mx_conv_problem read = only_read(p)
        cdef roles_t r = _roles_of(&read)
        cdef mx_nv_conv g = _operands_of(&read, &r)
        set_taps(&g, &read)
        _count(dev, &g, 1, terms)
        _count_packing(&r, terms)

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return _table()

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        cdef mx_conv_problem read = only_read(p)
        cdef roles_t r = _roles_of(&read)
        cdef mx_nv_conv g = _operands_of(&read, &r)
        set_taps(&g, &read)
        return (_choose(dev, &g, 1),)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        return self.steps_from(dev, p, config, 0)

    cdef Solution steps_from(self, Device dev, const mx_conv_problem* p, tuple config, int64_t first):
        cdef mx_conv_problem read = only_read(p)
        cdef roles_t r = _roles_of(&read)
        cdef mx_nv_conv g = _operands_of(&read, &r)
        set_taps(&g, &read)
        return Solution(_packing(&read, &r) + [_multiply(dev, &read, &r, &g, 1, config[0] if config else -1, first)],
                        r.workspace, int(r.packs_w))


cdef class NvFloat8Bwd(NvImplicitGemmBwd):
    """Backward data of OCP's float8 by wgmma, one launch for phases of the stride of one size, after one that packs."""

    def __cinit__(self):
        self.id, self.name, self.volumes, self.float8 = 1189, "NvFloat8Bwd", True, True
        self.peak = 2 * WGMMA_PEAK
        self.cost_names = FLOAT8_TERMS

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        if p.step[0] * p.step[1] * p.step[2] > MAX_PHASES:
            return "too many phases of the stride"
        return _refuse(dev, p, p.y.type)

    cdef roles_t roles(self, const mx_conv_problem* p) noexcept:
        return _roles_of(p)

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        return _roundings(p)

    cdef mx_nv_conv operands_of(self, const mx_conv_problem* p, const roles_t* r) noexcept:
        return _operands_of(p, r)

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef mx_conv_problem read = only_read(p)
        cdef roles_t r = _roles_of(&read)
        cdef mx_nv_conv[MAX_PHASES] g
        cdef int i, count = self.phases(&read, &r, g)
        if at_once(&read, g, count):
            sort_phases(g, count)
            _count(dev, g, count, terms)
        else:
            for i in range(count):
                _count(dev, &g[i], 1, terms)
        _count_packing(&r, terms)

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return _table()

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        cdef mx_conv_problem read = only_read(p)
        cdef roles_t r = _roles_of(&read)
        cdef mx_nv_conv[MAX_PHASES] g
        cdef int count = self.phases(&read, &r, g)
        cdef bint together = at_once(&read, g, count)
        sort_phases(g, count)
        return (_choose(dev, g, count if together else 1),)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        return self.steps_from(dev, p, config, 0)

    cdef Solution steps_from(self, Device dev, const mx_conv_problem* p, tuple config, int64_t first):
        cdef mx_conv_problem read = only_read(p)
        cdef roles_t r = _roles_of(&read)
        cdef mx_nv_conv[MAX_PHASES] g
        cdef int i, count = self.phases(&read, &r, g), tile = config[0] if config else -1
        if at_once(&read, g, count):
            sort_phases(g, count)
            launches = [_multiply(dev, &read, &r, g, count, tile, first)]
        else:
            launches = [_multiply(dev, &read, &r, &g[i], 1, tile, first) for i in range(count)]
        return Solution(_packing(&read, &r) + launches, r.workspace, int(r.packs_w))
