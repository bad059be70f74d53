"""Convolution in float32 by Hopper's wgmma: each float as a pair of halves, three products of 16 bits for one.

A value times a power of two is hi + lo / 2048 with 11 bits each; the scale is that of the largest of 64 values that
are summed together (of a whole filter, for the weights of forward and backward data).  Down to 2^-29 of the largest
that keeps all of a float's bits but two, and below it the error stays under 2^-50 of the largest.  Slices of 64 are
added up in float.  A sum that is not finite is computed anew by plain multiplication: Inf and NaN come out as floats
give them, but slowly.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.values._integers cimport ceil_div, gcd, more_parts, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_FLOAT, MX_FORWARD, mx_conv_problem, mx_tensor,
)
from ._common cimport (
    ALIGN, LONGEST, NO_ROOM, ROUNDED, WGMMA_PEAK, _NvSolver, both, deep, divides, divisor, folded, has_wgmma,
    is_volume, mx_divisor, mx_nv_conv, mx_nv_volume, plane_rows, refuse_sizes, set_phase, set_taps, set_x, set_y,
    sum_partial, taps_of, taps_t, tensor_cores, volume,
)
from miopyx.solvers.conv._base cimport INT_LIMIT, stride_of

cdef enum:
    DEPTH = 64             # of a slice: channels, or pixels of backward weights
    TILE = 128             # pixels, or columns of backward weights
    LEAST = 16             # products of a sum: a product alone may be off by three times float's last place
    BLOCK_BYTES = 16384    # 64 filters by 64 channels as pairs
    THREADS = 512
    MAX_PHASES = 64        # of backward data's stride: PHASES of conv/nvidia/pairs_args.h

# Phases of two axes are one launch where that takes so much of their time: with a volume's kernel slices take longer.
cdef double SHARED = 0.85

cdef extern from "miopyx/kernels/conv/nvidia/pairs_args.h" nogil:
    ctypedef struct mx_nv_pairs:
        mx_nv_conv g
        int w_c
        int tap, tap_row, tap_column, taps

    ctypedef struct mx_nv_pair_phase:
        int taps_h, taps_w, first_h, first_w, tap, w_first, number

    ctypedef struct mx_nv_deep_pairs:
        mx_nv_pairs rows
        int x_d, w_d, y_d, tap_plane
        int y_phase
        mx_divisor by_plane
        mx_nv_pair_phase phases[64]

    ctypedef struct mx_nv_filters:
        int rows, channels, taps_h, taps_w
        int from_g, from_row, from_c, from_h, from_w

    ctypedef struct mx_nv_phases:
        int images, channels, rows, columns
        int y_n, y_c, y_h, y_w
        int step_h, step_w, plane_rows, plane_columns
        int vector, plane
        mx_divisor by_columns, by_rows, by_channels, by_step_h, by_step_w
        uint64_t met_h, met_w

    ctypedef struct mx_nv_deep_phases:
        mx_nv_phases rows
        int step_d, y_rows, phase_rows
        mx_divisor by_plane, by_step_d
        uint64_t met_d

cdef sides_t sides_of(const mx_conv_problem* p) noexcept nogil:
    cdef sides_t s
    cdef int64_t phase, joined = 1, met
    cdef int axis
    memset(&s, 0, sizeof(s))
    if p.direction == MX_FORWARD:
        s.x, s.y, s.x_slot, s.y_slot = &p.x, &p.y, SLOT_X, SLOT_Y
        s.channels, s.filters = p.w.len[1], p.w.len[0] // p.groups
        s.w_row, s.w_reduced = stride_of(&p.w, 0), stride_of(&p.w, 1)
    else:
        s.x, s.y, s.x_slot, s.y_slot = &p.y, &p.x, SLOT_Y, SLOT_X
        s.channels, s.filters = p.w.len[0] // p.groups, p.w.len[1]
        s.w_row, s.w_reduced = stride_of(&p.w, 1), stride_of(&p.w, 0)
    s.packs = up(p.groups * s.filters * 4, ALIGN)
    # The packed weights begin at a multiple of 16 bytes, wherever the workspace does.
    s.planes = s.packs + ALIGN + (p.groups * ceil_div(s.filters, 64) * p.w.len[3] * p.w.len[4]
                                  * ceil_div(s.channels, DEPTH) * BLOCK_BYTES)
    s.workspace = s.planes
    if p.direction != MX_BACKWARD_DATA:
        return s
    for axis in range(3):
        met = 0
        for phase in range(min(p.step[axis], plane_rows(&p.x) if axis == 1 else p.x.len[2 + axis])):
            if taps_of(p, axis, phase).count > 0:
                s.met[axis] |= <uint64_t> 1 << phase
                met += 1
        joined *= met
    s.joins = p.step[0] * p.step[1] * p.step[2] > 1
    if s.joins:
        s.phase_planes, s.phase_rows = ceil_div(p.x.len[2], p.step[0]), ceil_div(plane_rows(&p.x), p.step[1])
        s.phase_columns = ceil_div(p.x.len[4], p.step[2])
        s.phase_bytes = p.x.len[0] * p.x.len[1] * s.phase_planes * s.phase_rows * s.phase_columns * 4
        s.workspace += joined * s.phase_bytes
    return s


cdef mx_nv_pairs _operands(const mx_conv_problem* p, const sides_t* s) noexcept nogil:
    """Everything but the grid and the taps."""
    cdef mx_nv_pairs o
    memset(&o, 0, sizeof(o))
    o.g.filters, o.g.channels, o.g.groups = <int> s.filters, <int> s.channels, <int> p.groups
    o.g.reduced = <int> up(s.channels, DEPTH)
    set_x(&o.g, s.x, s.channels, 0)
    set_y(&o.g, s.y, s.filters)
    o.g.w_k, o.w_c = <int> s.w_row, <int> s.w_reduced
    o.g.w_h, o.g.w_w = <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4)
    o.g.w_g = <int> (p.w.len[0] // p.groups * p.w.stride[0])
    o.taps, o.tap_row, o.tap_column = <int> (p.w.len[3] * p.w.len[4]), <int> p.w.len[4], 1
    return o


cdef Step _pack(const mx_conv_problem* p, const sides_t* s):
    cdef mx_nv_filters g
    g.rows, g.channels, g.taps_h, g.taps_w = <int> s.filters, <int> s.channels, <int> p.w.len[3], <int> p.w.len[4]
    g.from_g, g.from_row, g.from_c = (
        <int> (p.w.len[0] // p.groups * p.w.stride[0]), <int> s.w_row, <int> s.w_reduced)
    g.from_h, g.from_w = <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4)
    args = (Arg.slot_of(SLOT_W, 4), Arg.slot_of(SLOT_WORKSPACE, 4, s.packs), Arg.slot_of(SLOT_WORKSPACE, 4),
            struct_arg(&g, sizeof(g)))
    return Step(KernelSpec("conv/nvidia/pairs_pack.cl", "pack_pairs"), args,
                (p.groups * up(s.filters, 64) * 128,), (128,))


# The tiles of a launch with 64 and with 128 filters, their slices on average, and which takes less time.
cdef struct tiles_t:
    int64_t few, many
    double slices
    bint widely


cdef int64_t _taps(const mx_nv_conv* g) noexcept nogil:
    return both(g.taps_h) * g.taps_w


cdef tiles_t _tiles(Device dev, const mx_nv_pairs* o, int phases, bint rounded) noexcept:
    cdef tiles_t t
    cdef const mx_nv_conv* g = &o.g
    cdef int64_t down = ceil_div(g.pixels, TILE) * g.groups * phases, slices = 0
    cdef double many
    cdef int i
    for i in range(phases):
        slices += _taps(&o[i].g) * g.reduced // DEPTH
    t.few, t.many, t.slices = down * ceil_div(g.filters, 64), down * ceil_div(g.filters, 128), slices / <double> phases
    t.widely = True
    many = _microseconds(dev, &t, rounded)
    t.widely = False
    t.widely = many <= _microseconds(dev, &t, rounded)
    return t


cdef double _microseconds(Device dev, const tiles_t* t, bint rounded) noexcept:
    """Of all rounds: each has slices, a beginning and an end."""
    cdef int64_t units = max(1, dev.compute_units)
    if t.widely:
        return ceil_div(t.many, units) * ((1.2 if rounded else 1.6) * t.slices + 2.4)
    return ceil_div(t.few, units) * ((1.0 if rounded else 1.15) * t.slices + 1.7)


cdef void _most_taps_first(const mx_nv_pairs* o, int phases, int* order) noexcept nogil:
    cdef int i, j
    for i in range(phases):
        j = i
        while j > 0 and _taps(&o[order[j - 1]].g) < _taps(&o[i].g):
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


cdef bint _by_fours(const mx_tensor* t, int64_t channels) noexcept nogil:
    """Whether four contiguous channels of floats begin at multiples of 16 bytes, where the tensor does."""
    return (channels % 4 == 0 and t.stride[1] == 1
            and (stride_of(t, 0) | stride_of(t, 2) | stride_of(t, 3) | stride_of(t, 4)) % 4 == 0)


cdef Step _multiply(Device dev, const mx_conv_problem* p, const sides_t* s, mx_nv_pairs* o, int phases, int64_t to,
                    bint rounded):
    """`to`: where y begins in the workspace, in bytes, if it is there.  `phases` of equal grids, with their planes."""
    cdef const mx_nv_conv* g = &o.g
    cdef int[MAX_PHASES] order
    cdef int64_t units = max(1, dev.compute_units)
    cdef tiles_t t = _tiles(dev, o, phases, rounded)
    cdef int i
    cdef int64_t rows = g.p & 0xffff, planes = g.p >> 16, every = 1
    cdef bint even = divides(2, g, False)
    cdef mx_nv_deep_pairs v
    defines = {"BF": 128, "STAGES": 3} if t.widely else {"BF": 64, "STAGES": 4}
    if rounded:
        defines["ROUNDED"], defines["STAGES"] = 1, 2 * defines["STAGES"]
    if _by_fours(s.x, g.channels):
        defines["AT_ONCE"] = 4
    problem = struct_arg(o, sizeof(o[0]))
    if planes > 0:
        if p.direction == MX_BACKWARD_DATA:
            every = p.step[0] // gcd(p.step[0], p.dilation[0])
        v.rows, v.by_plane = o[0], divisor(rows)
        v.tap_plane = <int> (every * plane_rows(&p.w) * p.w.len[4])
        v.x_d, v.w_d = g.x_h * <int> plane_rows(s.x), <int> (every * plane_rows(&p.w) * stride_of(&p.w, 3))
        v.y_d = g.y_h * <int> (s.phase_rows if s.joins else plane_rows(s.y))
        # Two neighbours may be the last of a plane and the first of the next.
        even = even and (planes == 1 or v.y_d == rows * g.y_h or (rows * g.q | v.y_d) % 2 == 0)
        v.y_phase = <int> (s.phase_bytes // 4)
        _most_taps_first(o, phases, order)
        for i in range(phases):
            g = &o[order[i]].g
            v.phases[i].taps_h, v.phases[i].taps_w = g.taps_h, g.taps_w
            v.phases[i].first_h, v.phases[i].first_w = g.first_h, g.first_w
            v.phases[i].tap, v.phases[i].w_first, v.phases[i].number = o[order[i]].tap, g.w_first, order[i]
        # The kernel has room for the phases that there are.
        problem = struct_arg(&v, sizeof(v) - (MAX_PHASES - phases) * sizeof(mx_nv_pair_phase))
        defines["AXES"], defines["PHASES"] = 3, phases
    spec = KernelSpec("conv/nvidia/pairs.cl", "conv_nvidia_pairs", SM_90A=1, VEC=2 if even else 1, **defines)
    args = (Arg.slot_of(s.x_slot, 4), Arg.slot_of(SLOT_W, 4), Arg.slot_of(SLOT_WORKSPACE, 4, s.packs),
            Arg.slot_of(SLOT_WORKSPACE, 4), Arg.slot_of(SLOT_WORKSPACE if s.joins else s.y_slot, 4, to),
            problem,
            Arg.real(1, False) if s.joins else Arg.alpha(False),
            Arg.real(0, False) if s.joins else Arg.beta(False))
    return Step(spec, args, (min(t.many if t.widely else t.few, units) * THREADS,), (THREADS,))


# What takes time, as DATA_TERMS names it: rounds over the compute units of tiles with 64 or 128 filters, their slices;
# megabytes; slices that channels do not fill.
cdef struct data_terms_t:
    double launch, few_rounds, few_slices, many_rounds, many_slices, packed, x, y, planes, partial, narrow

cdef tuple DATA_TERMS = ("launch", "few_rounds", "few_slices", "many_rounds", "many_slices", "packed", "x", "y",
                         "planes", "partial", "narrow")
# Likewise of backward weights, as WEIGHTS_TERMS names it.
cdef struct weights_terms_t:
    double launch, rounds, slices, parts, x, y, splits

cdef tuple WEIGHTS_TERMS = ("launch", "rounds", "slices", "parts", "x", "y", "splits")


cdef double _megabytes(const mx_tensor* t) noexcept nogil:
    return t.len[0] * t.len[1] * <double> (t.len[3] * t.len[4]) * 4e-6


cdef void _count(Device dev, const mx_nv_pairs* o, int phases, double* terms, bint rounded) noexcept:
    """Add a launch's rounds of tiles over the compute units and their slices."""
    cdef data_terms_t* t = <data_terms_t*> terms
    cdef const mx_nv_conv* g = &o.g
    cdef tiles_t tiles = _tiles(dev, o, phases, rounded)
    cdef int64_t units = max(1, dev.compute_units), rounds = ceil_div(tiles.many if tiles.widely else tiles.few, units)
    t.launch += 1
    if tiles.widely:
        t.many_rounds += rounds
        t.many_slices += rounds * tiles.slices
    else:
        t.few_rounds += rounds
        t.few_slices += rounds * tiles.slices
    if g.channels % DEPTH:
        t.partial += rounds * tiles.slices / (g.reduced // DEPTH)
    if not divides(2, g, False):
        t.narrow += g.pixels * <double> g.filters * g.groups * phases * 4e-6


cdef class _NvPairs(_NvSolver):
    cdef bint rounded      # takes hi alone of each pair, where the problem allows that

    def __cinit__(self):
        self.cost_names = DATA_TERMS

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        if not tensor_cores(dev) or not has_wgmma(dev):
            return "needs wgmma"
        if self.rounded and not p.tf32:
            return "factors are not to be rounded"
        if p.w.type != MX_FLOAT:
            return "data type"
        if self.products(p) < LEAST:
            return "too few products for pairs of halves"
        why = refuse_sizes(p, 0, True, True)
        if why is not None:
            return why
        if self.workspace_bytes(dev, p) > min(dev.max_alloc, <int64_t> 4 * INT_LIMIT):
            return NO_ROOM
        return None

    cdef int64_t products(self, const mx_conv_problem* p) noexcept:
        """Of an element of the output, at least, padding aside."""
        return sides_of(p).channels  # the same of a volume that is not folded

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef mx_conv_problem f = folded(p)
        return sides_of(&f).workspace

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        return _NvSolver.roundings(self, dev, p) + (ROUNDED if self.rounded else 0)

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef sides_t s = sides_of(p)
        # Slices have 64 channels where the solvers by mma.sync have 4.
        return ((1.5 if self.rounded else 1) * WGMMA_PEAK * s.channels / <double> up(s.channels, DEPTH)
                * min(1.0, s.filters / 64.0))


cdef class NvPairsFwd(_NvPairs):
    """Forward in float32 by wgmma on pairs of halves: persistent implicit GEMM, after a launch that packs weights."""

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef data_terms_t* t = <data_terms_t*> terms
        cdef mx_conv_problem f = folded(p)
        p = &f
        cdef sides_t s = sides_of(p)
        cdef mx_nv_pairs o = _operands(p, &s)
        set_taps(&o.g, p)
        _count(dev, &o, 1, terms, self.rounded)
        t.launch += 1
        t.packed, t.x, t.y = s.planes * 1e-6, _megabytes(&p.x), _megabytes(&p.y)

    def __cinit__(self):
        self.id, self.name, self.direction = 1107, "NvPairsFwd", MX_FORWARD

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem f = folded(p)
        p = &f
        cdef sides_t s = sides_of(p)
        cdef mx_nv_pairs o = _operands(p, &s)
        set_taps(&o.g, p)
        return Solution([_pack(p, &s), _multiply(dev, p, &s, &o, 1, 0, self.rounded)], s.workspace)


cdef int _phases(const mx_conv_problem* p, const sides_t* s, const mx_nv_pairs* whole, mx_nv_pairs* o) noexcept nogil:
    """Fill `o` with the phases of the stride that have taps, return how many there are."""
    cdef taps_t td, th, tw
    cdef int64_t d, h, w
    cdef int count = 0
    for d in range(p.step[0]):
        for h in range(p.step[1]):
            for w in range(p.step[2]):
                if s.met[0] >> d & s.met[1] >> h & s.met[2] >> w & 1:
                    td, th, tw = taps_of(p, 0, d), taps_of(p, 1, h), taps_of(p, 2, w)
                    o[count] = whole[0]
                    set_phase(&o[count].g, p, d, h, w)
                    o[count].tap = <int> ((td.first * plane_rows(&p.w) + th.first) * whole.tap_row + tw.first)
                    o[count].tap_row, o[count].tap_column = <int> (th.every * whole.tap_row), <int> tw.every
                    count += 1
    return count


cdef bint _at_once(Device dev, const mx_conv_problem* p, mx_nv_pairs* o, int count, bint rounded) noexcept:
    """Whether `count` phases, of one size, are one launch: of a volume, or where their tiles share rounds.

    Then those of two axes become a volume's.
    """
    cdef tiles_t t = _tiles(dev, o, count, rounded), one
    cdef double apart = 0
    cdef int i
    if (count == 1 or p.x.len[2] % p.step[0] != 0 or plane_rows(&p.x) % p.step[1] != 0
            or p.x.len[4] % p.step[2] != 0):
        return False
    if is_volume(p):
        return True
    for i in range(count):
        one = _tiles(dev, &o[i], 1, rounded)
        apart += _microseconds(dev, &one, rounded)
    if _microseconds(dev, &t, rounded) > SHARED * apart:
        return False
    for i in range(count):
        _deepen(&o[i].g)
    return True


cdef void _deepen(mx_nv_conv* g) noexcept nogil:
    """Give a problem of two axes a plane."""
    g.p, g.h, g.taps_h, g.step_h = deep(1, g.p), deep(1, g.h), deep(1, g.taps_h), deep(1, g.step_h)
    g.first_h, g.tap_h = deep(0, g.first_h), deep(1, g.tap_h)


cdef Step join_of_phases(const mx_conv_problem* p, const sides_t* s):
    cdef mx_nv_deep_phases v
    cdef mx_nv_phases g
    cdef dict defines = {}
    memset(&g, 0, sizeof(g))
    g.vector = 2 if p.x.len[4] % 2 == 0 else 1
    g.channels, g.rows, g.columns = <int> p.x.len[1], <int> p.x.len[3], <int> p.x.len[4]
    g.images = <int> (p.x.len[0] * p.x.len[1])
    g.y_n, g.y_c, g.y_h, g.y_w = (
        <int> stride_of(&p.x, 0), <int> stride_of(&p.x, 1), <int> stride_of(&p.x, 3), <int> stride_of(&p.x, 4))
    g.step_h, g.step_w = <int> p.step[1], <int> p.step[2]
    g.plane_rows, g.plane_columns = <int> (s.phase_planes * s.phase_rows), <int> s.phase_columns
    g.plane = <int> (s.phase_bytes // 4)
    g.by_columns, g.by_rows, g.by_channels = divisor(g.columns // g.vector), divisor(g.rows), divisor(g.channels)
    g.by_step_h, g.by_step_w, g.met_h, g.met_w = divisor(g.step_h), divisor(g.step_w), s.met[1], s.met[2]
    problem = struct_arg(&g, sizeof(g))
    if is_volume(p):
        v.rows, v.met_d = g, s.met[0]
        v.step_d, v.y_rows, v.phase_rows = <int> p.step[0], <int> plane_rows(&p.x), <int> s.phase_rows
        v.by_plane, v.by_step_d = divisor(v.y_rows), divisor(v.step_d)
        defines, problem = {"AXES": 3}, struct_arg(&v, sizeof(v))
    args = (Arg.slot_of(SLOT_WORKSPACE, 4, s.planes), Arg.slot_of(SLOT_X, 4), problem,
            Arg.alpha(False), Arg.beta(False))
    return Step(KernelSpec("conv/nvidia/pairs_pack.cl", "join_phases", **defines), args,
                (up(p.x.len[4] // g.vector * p.x.len[3] * ceil_div(g.images, 8), 256),), (256,))


cdef class NvPairsBwd(_NvPairs):
    """Backward data in float32 by wgmma on pairs of halves: a launch for each phase of the stride, one to join.

    Phases of one size are one launch: a volume's, and those of two axes whose tiles fill no round by themselves.
    """

    def __cinit__(self):
        self.id, self.name, self.direction = 1108, "NvPairsBwd", MX_BACKWARD_DATA

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        if p.step[0] * p.step[1] * p.step[2] > MAX_PHASES:
            return "too many phases of the stride"
        return _NvPairs.refuse(self, dev, p)

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef data_terms_t* t = <data_terms_t*> terms
        cdef mx_conv_problem f = folded(p)
        p = &f
        cdef sides_t s = sides_of(p)
        cdef mx_nv_pairs whole = _operands(p, &s)
        cdef mx_nv_pairs[MAX_PHASES] o
        cdef int i, count = _phases(p, &s, &whole, o)
        if _at_once(dev, p, o, count, self.rounded):
            _count(dev, o, count, terms, self.rounded)
        else:
            for i in range(count):
                _count(dev, &o[i], 1, terms, self.rounded)
        t.launch += 2 if s.joins else 1
        t.packed, t.x, t.y = s.planes * 1e-6, _megabytes(&p.y), _megabytes(&p.x)
        t.planes = (s.workspace - s.planes) * 1e-6

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem f = folded(p)
        p = &f
        cdef sides_t s = sides_of(p)
        cdef mx_nv_pairs whole = _operands(p, &s)
        cdef mx_nv_conv* g = &whole.g
        cdef mx_nv_pairs[MAX_PHASES] o
        cdef int64_t to = s.planes if s.joins else 0
        cdef int i, count
        if s.joins:
            g.y_w, g.y_h, g.y_c = (
                1, <int> s.phase_columns, <int> (s.phase_planes * s.phase_rows * s.phase_columns))
            g.y_n, g.y_g = <int> p.x.len[1] * g.y_c, <int> s.filters * g.y_c
        steps = [_pack(p, &s)]
        count = _phases(p, &s, &whole, o)
        if _at_once(dev, p, o, count, self.rounded):
            steps.append(_multiply(dev, p, &s, o, count, to, self.rounded))
        else:
            for i in range(count):
                steps.append(_multiply(dev, p, &s, &o[i], 1, to + i * s.phase_bytes, self.rounded))
        if s.joins:
            steps.append(join_of_phases(p, &s))
        return Solution(steps, s.workspace)


# Backward weights: columns with `reduced` channels a tap, tiles, and splits of `split_slices` slices.
cdef struct splits_t:
    int64_t reduced, columns, tiles, splits, split_slices


cdef splits_t _split(Device dev, const mx_conv_problem* p, bint rounded) noexcept:
    """The splits that should take least time: each takes 4 us to begin and end, and is written and read."""
    cdef splits_t s
    cdef int64_t slices = ceil_div(p.y.len[0] * p.y.len[3] * p.y.len[4], DEPTH)
    cdef int64_t units = max(1, dev.compute_units), splits, each
    cdef double cost, best = -1
    s.reduced = up(p.w.len[1], 64)
    s.columns = s.reduced * p.w.len[3] * p.w.len[4]
    s.tiles = ceil_div(p.w.len[0] // p.groups, 128) * ceil_div(s.columns, TILE) * p.groups
    cdef int64_t least = ceil_div(slices * DEPTH, LONGEST), most
    splits, most = least, max(least, min(4 * units // s.tiles + 2, ceil_div(slices, 2)))
    while splits <= most:
        each = ceil_div(slices, splits)
        cost = (s.tiles * splits + units - 1) // units * (each * (1.6 if rounded else 2.3) + 4)
        cost += splits * p.w.len[0] * s.columns * 8 / 3e6
        if best < 0 or cost < best:
            best, s.split_slices = cost, each
        splits = more_parts(slices, each)
    s.splits = ceil_div(slices, s.split_slices)
    return s


cdef class NvPairsWrw(_NvPairs):
    """Backward weights in float32 by wgmma on pairs of halves: split-K, and a launch to add the partial sums."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1109, "NvPairsWrw", MX_BACKWARD_WEIGHTS
        self.cost_names = WEIGHTS_TERMS

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef weights_terms_t* t = <weights_terms_t*> terms
        cdef mx_conv_problem f = folded(p)
        p = &f
        cdef splits_t s = _split(dev, p, self.rounded)
        cdef int64_t units = max(1, dev.compute_units), rounds = (s.tiles * s.splits + units - 1) // units
        t.launch, t.rounds, t.slices = 2, rounds, rounds * s.split_slices
        t.parts = s.splits * p.w.len[0] * <double> s.columns * 4e-6
        t.x, t.y, t.splits = _megabytes(&p.x), _megabytes(&p.y), s.splits

    cdef int64_t products(self, const mx_conv_problem* p) noexcept:
        return p.y.len[0] * p.y.len[2] * p.y.len[3] * p.y.len[4]

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef mx_conv_problem f = folded(p)
        cdef splits_t s = _split(dev, &f, self.rounded)
        return s.splits * p.w.len[0] * s.columns * 4

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return ((1.5 if self.rounded else 1) * WGMMA_PEAK * p.w.len[1] / <double> up(p.w.len[1], 64)
                * min(1.0, p.w.len[0] // p.groups / 128.0))

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem f = folded(p)
        p = &f
        cdef splits_t s = _split(dev, p, self.rounded)
        cdef mx_nv_conv g
        cdef mx_nv_volume v
        memset(&g, 0, sizeof(g))
        g.filters, g.channels, g.groups = <int> (p.w.len[0] // p.groups), <int> p.w.len[1], <int> p.groups
        g.reduced = <int> s.reduced
        set_x(&g, &p.x, p.w.len[1], 0)
        set_y(&g, &p.y, g.filters)
        set_taps(&g, p)
        defines, problem = {"ROUNDED": 1, "STAGES": 6} if self.rounded else {}, struct_arg(&g, sizeof(g))
        if _by_fours(&p.x, g.channels) and _by_fours(&p.y, g.filters):
            defines["AT_ONCE"] = 4
        if is_volume(p):
            v = volume(&g, &p.x, &p.y)
            defines["AXES"], problem = 3, struct_arg(&v, sizeof(v))
        args = (Arg.slot_of(SLOT_X, 4), Arg.slot_of(SLOT_Y, 4), Arg.slot_of(SLOT_WORKSPACE, 4), problem,
                Arg.int32(s.split_slices))
        return Solution([
            Step(KernelSpec("conv/nvidia/pairs_weights.cl", "conv_nvidia_pairs_weights", SM_90A=1, **defines), args,
                 (THREADS * s.tiles * s.splits,), (THREADS,)),
            sum_partial(p, s.splits, 0, s.columns, 1, s.reduced),
        ], self.workspace_bytes(dev, p))


cdef class NvHalvesFwd(NvPairsFwd):
    """NvPairsFwd with one product for three, where factors may be rounded."""

    def __cinit__(self):
        self.id, self.name, self.rounded = 1198, "NvHalvesFwd", True


cdef class NvHalvesBwd(NvPairsBwd):
    """NvPairsBwd with one product for three, where factors may be rounded."""

    def __cinit__(self):
        self.id, self.name, self.rounded = 1199, "NvHalvesBwd", True


cdef class NvHalvesWrw(NvPairsWrw):
    """NvPairsWrw with one product for three, where factors may be rounded."""

    def __cinit__(self):
        self.id, self.name, self.rounded = 1200, "NvHalvesWrw", True
