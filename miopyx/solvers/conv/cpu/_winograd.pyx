"""Winograd convolutions on CPU devices: stride 1, packed, channels first or last.

F2 has 4 points an axis, which is F(2, 3) for three taps; F4 has 6: F(4, 3) for three, F(2, 5) for five.  An axis
without taps has one.  The depth of three spatial axes is not transformed: its taps are summed.  Where a problem has few
tiles, filters are transformed by the work-items that multiply them and never stored.

An Inf or NaN among the inputs reaches all outputs of its tile, also those that do not depend on it.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._problem cimport ConvProblem
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_FORWARD, MX_HALF, mx_conv_problem,
    mx_tensor,
)
from miopyx.solvers.conv._base cimport (
    WINOGRAD, ConvOffer, ConvSolver, acc_size, capped_product, capped_sum, image_bytes, is_packed, is_packed_nhwc,
    set_offer, spatial_size, sum_terms, vector_lanes,
)
from miopyx.solvers._tokens cimport real_token, type_token

cdef enum:
    RUN = 16                   # of conv/cpu/winograd.h, as the next two
    LARGEST_DILATION = 8
    LARGEST_TAPS = 5
    LARGEST_BLOCK = 64         # tiles whose sums a work-item holds, as in the kernel
    LEAST_BLOCK = 16
    WEIGHTS_ROWS = 64          # filters of a work-item of backward weights that has one point
    WEIGHTS_ROWS_FUSED = 32    # or all
    FILTER_DEPTH = 32          # channels whose filters are transformed together
    DEPTH = 128                # that are summed before these sums are added up, at most
    MOST_BLOCKS = 256          # of tiles, whose sums one accumulator takes, as in kernels/conv/cpu/winograd_weights.cl
    LARGEST_SUM = 1 << 16      # channels, times taps along the depth
    TRANSFORMS = 30            # roundings of the transforms, relative to the largest sum, as they were measured
    # Work-items there must be for some to do all points of a block; no matter how many cores: it changes rounding.
    FUSED_BLOCKS = 4
    FUSED_WEIGHTS = 16
    LEAST_SUM = 8              # products, below which single elements would show the transforms' rounding errors
    UNITS = 4                  # work-items that a core should have
    TILE_COST = 24             # of transforming a value of a tile, in products
    FILTER_COST = 10
    FIVE_COST = 48000          # of each point of backward weights for filters of 5x5, whatever there is to do
    LEAST_SLICES = 4           # of outputs in a round, since the tiles of those beside them are made anew
    SLICE_COST = 16            # of reading a transformed filter again, for another slice, in products

# Tunables.  BLOCK: tiles whose sums a work-item holds, or that backward weights keeps together.  ROUND_MIB: size of the
# transformed tiles of a round, at least those of an image or of LEAST_SLICES of its slices; they should stay in a
# cache.  A round of backward weights adds to sums in memory.
cdef tuple BLOCKS = (16, 32, 64)
cdef tuple WEIGHTS_BLOCKS = (64, 128, 256)
cdef tuple ROUNDS = (1, 2, 4)
cdef tuple WEIGHTS_ROUNDS = (4, 8, 16)
cdef tuple USUAL = (32, 4)               # BLOCK, ROUND_MIB
cdef tuple USUAL_WEIGHTS = (128, 16)

cdef extern from "miopyx/kernels/conv/cpu/winograd_args.h" nogil:
    ctypedef struct mx_winograd:
        int64_t groups, c, k
        int64_t tiles_h, tiles_w, tiles
        int64_t block
        int64_t dilation_h, dilation_w, pad_h, pad_w
        int64_t images, h, w
        int64_t out_h, out_w
        int64_t row, point
        int64_t flip
        int64_t taps_d, dilation_d, pad_d
        int64_t depth, slice, slices
        int64_t out_depth, out_slice, out_slices

# How a problem is computed: g describes its largest round, d the tiles of dy for backward weights.
cdef struct plan_t:
    mx_winograd g, d
    int64_t points_h, points_w, taps_h, taps_w
    int64_t vec, vectors, acc              # acc: bytes of a product
    int64_t rounds, blocks
    bint fused, last                       # last: channels are
    int64_t filters, tiles, more           # bytes: transformed filters or their sums, tiles, tiles of dy


cdef inline bint _all_packed(const mx_conv_problem* p) noexcept nogil:
    return is_packed(&p.x) and is_packed(&p.w) and is_packed(&p.y)


cdef inline bint _all_last(const mx_conv_problem* p) noexcept nogil:
    return is_packed_nhwc(&p.x) and is_packed_nhwc(&p.w) and is_packed_nhwc(&p.y)


cdef inline int64_t _tile(int64_t points, int64_t taps) noexcept nogil:
    return points - taps + 1


cdef inline int64_t _along(int64_t length, int64_t tile, int64_t dilation) noexcept nogil:
    """Tiles along an axis."""
    return dilation * ceil_div(ceil_div(length, dilation), tile)


cdef plan_t _plan(Device dev, const mx_conv_problem* p, int64_t points, int64_t block, int64_t round_mib) noexcept:
    cdef plan_t a
    cdef mx_winograd* g = &a.g
    cdef const mx_tensor* source = &p.x
    cdef const mx_tensor* cover = &p.y
    cdef int64_t image, images, halo, slices, k_blocks, c_blocks, unit = 4
    cdef int64_t x_slice, dy_slice  # bytes of the tiles of an image's slice
    cdef bint backward = p.direction == MX_BACKWARD_DATA, weights = p.direction == MX_BACKWARD_WEIGHTS
    memset(&a, 0, sizeof(a))
    a.taps_h, a.taps_w = p.w.len[3], p.w.len[4]
    # The formula stands for larger filters too, which `judge` refuses.
    a.points_h = max(points, a.taps_h) if a.taps_h > 1 else 1
    a.points_w = max(points, a.taps_w) if a.taps_w > 1 else 1
    a.acc = acc_size(p)
    a.vec = vector_lanes(dev, a.acc)
    a.vectors = 4 if dev.vector_bytes == 64 else 2
    a.last = not _all_packed(p)
    g.groups, g.c, g.k = p.groups, p.w.len[1], p.w.len[0] // p.groups
    g.dilation_h = p.dilation[1] if a.taps_h > 1 else 1
    g.dilation_w = p.dilation[2] if a.taps_w > 1 else 1
    g.pad_h, g.pad_w = p.pad[1], p.pad[2]
    g.taps_d, g.dilation_d, g.pad_d = p.w.len[2], p.dilation[0], p.pad[0]
    if backward:
        source, cover = cover, source
        g.c, g.k, g.flip = g.k, g.c, 1
        g.pad_h, g.pad_w = g.dilation_h * (a.taps_h - 1) - g.pad_h, g.dilation_w * (a.taps_w - 1) - g.pad_w
        g.pad_d = g.dilation_d * (g.taps_d - 1) - g.pad_d
    g.depth, g.out_depth = source.len[2], cover.len[2]
    g.h, g.w, g.out_h, g.out_w = source.len[3], source.len[4], cover.len[3], cover.len[4]
    g.tiles_h = _along(g.out_h, _tile(a.points_h, a.taps_h), g.dilation_h)
    g.tiles_w = _along(g.out_w, _tile(a.points_w, a.taps_w), g.dilation_w)
    g.row = up(g.c, a.vec)
    a.d = a.g
    a.d.c, a.d.row = g.k, up(g.k, a.vec)
    a.d.h, a.d.w, a.d.pad_h, a.d.pad_w = g.out_h, g.out_w, 0, 0
    a.d.depth = g.out_depth

    points = a.points_h * a.points_w
    x_slice = capped_product(g.tiles_h * g.tiles_w, capped_product(p.groups * points * a.acc, g.row))
    dy_slice = capped_product(
        g.tiles_h * g.tiles_w, capped_product(p.groups * points * a.acc, a.d.row)) if weights else 0
    image = capped_sum(capped_product(x_slice, g.depth), capped_product(dy_slice, g.out_depth))
    images = min(source.len[0], max(1, (round_mib << 20) // max(image, 1)))
    a.rounds = ceil_div(source.len[0], images)
    g.images = a.d.images = ceil_div(source.len[0], a.rounds)
    slices, halo = g.out_depth, g.dilation_d * (g.taps_d - 1)
    if image > round_mib << 20:
        slices = ((round_mib << 20) - capped_product(x_slice, halo)) // max(capped_sum(x_slice, dy_slice), 1)
        slices = min(g.out_depth, max(LEAST_SLICES, halo, slices))
    g.out_slices = ceil_div(g.out_depth, ceil_div(g.out_depth, slices))
    a.rounds *= ceil_div(g.out_depth, g.out_slices)
    g.slices = min(g.depth, g.out_slices + halo)
    a.d.slices = g.out_slices
    g.tiles = a.d.tiles = g.images * g.tiles_h * g.tiles_w

    k_blocks, c_blocks = ceil_div(ceil_div(g.k, a.vec), a.vectors), ceil_div(ceil_div(g.c, a.vec), a.vectors)
    if weights:
        a.fused = (a.rounds == 1 and ceil_div(g.k, WEIGHTS_ROWS_FUSED) * c_blocks * p.groups >= FUSED_WEIGHTS
                   and ceil_div(g.tiles, block) * g.out_slices <= MOST_BLOCKS)
        a.blocks = ceil_div(g.tiles, block)
        a.filters = 0 if a.fused else capped_product(p.groups * g.taps_d * g.k, capped_product(points * a.acc, g.row))
    else:
        a.fused = (g.tiles <= LARGEST_BLOCK and k_blocks * p.groups >= FUSED_BLOCKS and g.out_depth == 1
                   and g.taps_d == 1)
        a.blocks = 1 if a.fused else max(ceil_div(g.tiles, block), min(
            ceil_div(UNITS * dev.compute_units, k_blocks * p.groups * g.out_slices), g.tiles // LEAST_BLOCK))
        a.filters = 0 if a.fused else capped_product(
            p.groups * k_blocks * g.taps_d, capped_product(points * a.vec * a.acc, g.c * a.vectors + 1))
        unit = g.dilation_w * (1 if g.dilation_w % 4 == 0 else 2 if g.dilation_w % 2 == 0 else 4)
    # Even numbers of tiles, in which neighbours that are less than the dilation apart are together.
    g.block = a.d.block = up(ceil_div(g.tiles, a.blocks), unit)
    a.blocks = ceil_div(g.tiles, g.block)
    g.point = capped_sum(capped_product(g.block, g.row), a.vec)
    a.d.point = capped_sum(capped_product(g.block, a.d.row), a.vec)
    a.tiles = capped_product(capped_product(p.groups * g.slices, a.blocks), capped_product(points * a.acc, g.point))
    a.more = capped_product(
        capped_product(p.groups * g.out_slices, a.blocks), capped_product(points * a.acc, a.d.point)) if weights else 0
    return a


cdef plan_t _usual(Device dev, const mx_conv_problem* p, int64_t points) noexcept:
    """With the defaults of what is tunable."""
    block, round_mib = USUAL_WEIGHTS if p.direction == MX_BACKWARD_WEIGHTS else USUAL
    return _plan(dev, p, points, block, round_mib)


cdef int64_t _bytes(const plan_t* a) noexcept nogil:
    """Workspace."""
    return capped_sum(capped_sum(a.filters, a.tiles), a.more)


cdef bint _can(Device dev, const plan_t* a, bint weights) noexcept:
    """Whether there is the workspace, and a work-item holds a block, which is rounded up to units of dilated tiles."""
    return (weights or a.g.block <= LARGEST_BLOCK) and _bytes(a) <= dev.max_alloc


cdef mx_winograd _round(const mx_winograd* g, int64_t images, int64_t out_slice) noexcept nogil:
    """Of some images the slices of outputs from `out_slice` on, and those slices that they read."""
    cdef mx_winograd r = g[0]
    r.images = images
    r.tiles = images * g.tiles_h * g.tiles_w
    r.out_slice, r.out_slices = out_slice, min(g.out_slices, g.out_depth - out_slice)
    r.slice = min(max(0, out_slice - g.pad_d), g.depth)
    r.slices = max(0, min(g.depth, out_slice + r.out_slices - g.pad_d + g.dilation_d * (g.taps_d - 1)) - r.slice)
    return r


cdef mx_winograd _round_of_dy(const mx_winograd* d, const mx_winograd* g) noexcept nogil:
    """What `_round` chose, where it is dy whose tiles are made."""
    cdef mx_winograd r = d[0]
    r.images, r.tiles, r.slice, r.slices = g.images, g.tiles, g.out_slice, g.out_slices
    return r


cdef list _rounds(const mx_winograd* g, int64_t images):
    """The first image and the first slice of outputs of each."""
    cdef int64_t n, s
    return [(n, s) for n in range(0, images, g.images) for s in range(0, g.out_depth, g.out_slices)]


cdef int64_t _most_bytes(Device dev, const mx_conv_problem* p, int64_t points, const plan_t* usual) except -1:
    """The most that any configuration takes."""
    cdef plan_t a
    cdef bint weights = p.direction == MX_BACKWARD_WEIGHTS
    cdef int64_t most = _bytes(usual), block, round_mib
    if usual.fused and not weights:
        return most
    for block in WEIGHTS_BLOCKS if weights else BLOCKS:
        for round_mib in WEIGHTS_ROUNDS if weights else ROUNDS:
            a = _plan(dev, p, points, block, round_mib)
            if _can(dev, &a, weights):
                most = max(most, _bytes(&a))
    return most


cdef double _index(const mx_conv_problem* p, const plan_t* a) noexcept:
    """Products of a direct convolution over what is done here, all in vectors."""
    cdef double tiles = <double> a.g.tiles_h * a.g.tiles_w * p.x.len[0]
    cdef double c = a.g.c, k = a.g.k, c_vectors = ceil_div(a.g.c, a.vec), k_vectors = ceil_div(a.g.k, a.vec)
    cdef double out_depth = a.g.out_depth, depth = <double> ceil_div(a.g.out_depth, a.g.out_slices) * a.g.slices
    cdef double direct = (<double> p.x.len[0] * p.groups * a.taps_h * a.taps_w * c * k / a.vec
                          * a.g.out_h * a.g.out_w * out_depth * a.g.taps_d)
    cdef double filters = c * k_vectors, products = tiles * c * k_vectors
    if p.direction == MX_BACKWARD_WEIGHTS:
        direct = direct / a.g.out_h / a.g.out_w * p.y.len[3] * p.y.len[4]
        filters, products = k * c_vectors, tiles * k * c_vectors
        if a.taps_h * a.taps_w == 25:
            products += <double> FIVE_COST / p.groups
    return .9 * direct / (p.groups * a.points_h * a.points_w * (
        a.g.taps_d * (products * out_depth + filters * (FILTER_COST + SLICE_COST * (out_depth - 1)))
        + TILE_COST * tiles * (c_vectors * depth + k_vectors * out_depth)))


cdef Arg _shape(const mx_winograd* g):
    return struct_arg(g, sizeof(mx_winograd))


cdef class _Winograd(ConvSolver):
    cdef int64_t points

    def __cinit__(self):
        self.algorithm = WINOGRAD
        self.dynamic = self.deterministic = self.mixes_tiles = True

    cdef object consider(self, Device dev, ConvProblem problem):
        cdef plan_t a
        cdef str why = self.judge(dev, &problem.c, &a)
        cdef ConvOffer offer
        if why is not None:
            return why
        offer = ConvOffer.__new__(ConvOffer)
        set_offer(offer, self, dev, problem)
        offer.index, offer.workspace = _index(&problem.c, &a), _most_bytes(dev, &problem.c, self.points, &a)
        return offer

    cdef str judge(self, Device dev, const mx_conv_problem* p, plan_t* a):
        """Return why the solver cannot take the problem, or None and its usual plan."""
        cdef int i
        cdef int64_t products
        if not dev.is_cpu:
            return "needs a CPU device"
        if p.w.type not in (MX_FLOAT, MX_HALF, MX_BFLOAT16) and not (p.w.type == MX_DOUBLE and self.points == 4):
            return "data type"
        if p.x.type != p.w.type or p.y.type != p.w.type:
            return "data type"
        if not _all_packed(p) and not _all_last(p):
            return "tensors are neither packed NCHW nor packed NHWC"
        for i in range(3 - p.spatial, 3):
            if p.step[i] != 1:
                return "not a stride of 1"
            if i > 0 and p.w.len[2 + i] > min(LARGEST_TAPS, self.points - 1):
                return "a large filter"
            if p.w.len[2 + i] > 1 and p.dilation[i] > LARGEST_DILATION:
                return "a large dilation"
        if p.w.len[3] == 1 and p.w.len[4] == 1:
            return "a filter of one tap along the height and the width"
        if p.direction == MX_BACKWARD_WEIGHTS:
            products = p.y.len[0] * spatial_size(&p.y)
        else:
            products = p.w.len[1] if p.direction == MX_FORWARD else p.w.len[0] // p.groups
        if products < LEAST_SUM:
            return "too few channels" if p.direction != MX_BACKWARD_WEIGHTS else "too few pixels"
        a[0] = _usual(dev, p, self.points)
        if _bytes(a) > dev.max_alloc:
            return "workspace is beyond the limit"
        if p.direction != MX_BACKWARD_WEIGHTS and products * p.w.len[2] > LARGEST_SUM:
            return "many channels"
        return None

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef double terms = sum_terms(p)
        cdef plan_t a
        if p.direction != MX_BACKWARD_WEIGHTS:
            terms /= p.w.len[3] * p.w.len[4]
            return TRANSFORMS + min(terms, <double> DEPTH) + terms / FILTER_DEPTH
        # Blocks of 256 tiles at most, sums of these, and rounds, of which tuning may make four times as many.
        a = _usual(dev, p, self.points)
        return TRANSFORMS + min(terms, 256.0) + min(2 * a.blocks * a.g.out_slices, <int64_t> MOST_BLOCKS) + 4 * a.rounds

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef plan_t a = _usual(dev, p, self.points)
        return _most_bytes(dev, p, self.points, &a)

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef plan_t a = _usual(dev, p, self.points)
        return _index(p, &a)

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        if p.direction == MX_BACKWARD_WEIGHTS:
            return ("BLOCK", WEIGHTS_BLOCKS), ("ROUND_MIB", WEIGHTS_ROUNDS)
        return () if _usual(dev, p, self.points).fused else (("BLOCK", BLOCKS), ("ROUND_MIB", ROUNDS))

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        cdef plan_t a = self.plan(dev, p, config)
        return _can(dev, &a, p.direction == MX_BACKWARD_WEIGHTS)

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        if p.direction == MX_BACKWARD_WEIGHTS:
            return USUAL_WEIGHTS
        return () if _usual(dev, p, self.points).fused else USUAL

    cdef plan_t plan(self, Device dev, const mx_conv_problem* p, tuple config) noexcept:
        if not config:
            return _usual(dev, p, self.points)
        block, round_mib = config
        return _plan(dev, p, self.points, block, round_mib)

    cdef KernelSpec spec(self, const mx_conv_problem* p, const plan_t* a, str file, str entry, dict more):
        return KernelSpec(
            file, entry, TYPE=type_token(p.w.type), ACC=real_token(a.acc == 8),
            SCALAR=real_token(a.acc == 8), VEC=a.vec, VECTORS=a.vectors, CHANNELS_LAST=int(a.last),
            POINTS_H=a.points_h, POINTS_W=a.points_w, TAPS_H=a.taps_h, TAPS_W=a.taps_w, **more)

    cdef Step transform_tiles(self, const mx_conv_problem* p, const plan_t* a, const mx_winograd* g, int slot,
                              int64_t offset, int64_t to, bint as_filter):
        """The tiles of x, or `as_filter` of dy for backward weights, to an offset of the workspace."""
        cdef int64_t run = RUN // g.dilation_w * g.dilation_w
        spec = self.spec(p, a, "conv/cpu/winograd.cl", "winograd_tiles",
                         {"KERNELS": 1, "FILTER_TRANSFORM": int(as_filter)})
        args = (Arg.slot_of(slot, type_size(<int> p.w.type), offset), Arg.slot_of(SLOT_WORKSPACE, <int> a.acc, to),
                _shape(g))
        return Step(spec, args, (g.images * g.tiles_h * ceil_div(g.tiles_w, run), ceil_div(g.c, a.vec),
                                 g.groups * g.slices), (1, 1, 1))


cdef class _WinogradData(_Winograd):
    """Forward, and backward data as a forward convolution of dy."""

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef plan_t a = self.plan(dev, p, config)
        cdef const mx_tensor* source = &p.x
        cdef const mx_tensor* result = &p.y
        cdef int source_slot = SLOT_X, result_slot = SLOT_Y
        cdef int size = type_size(<int> p.w.type)
        cdef bint wide = a.acc == 8
        cdef int64_t n, s, k_blocks = ceil_div(ceil_div(a.g.k, a.vec), a.vectors)
        cdef mx_winograd g
        if p.direction == MX_BACKWARD_DATA:
            source, result = result, source
            source_slot, result_slot = result_slot, source_slot
        steps = []
        if not a.fused:
            spec = self.spec(p, &a, "conv/cpu/winograd.cl", "winograd_filters", {"KERNELS": 2})
            args = (Arg.slot_of(SLOT_W, size), Arg.slot_of(SLOT_WORKSPACE, <int> a.acc), _shape(&a.g))
            steps.append(Step(spec, args, (ceil_div(a.g.k, a.vec), ceil_div(a.g.c, FILTER_DEPTH),
                                           a.g.groups * a.g.taps_d), (1, 1, 1)))
        spec = self.spec(p, &a, "conv/cpu/winograd.cl", "winograd_multiply",
                         {"KERNELS": 4, "FUSED": int(a.fused), "BLOCK": LARGEST_BLOCK, "FILTER_DEPTH": FILTER_DEPTH})
        for n, s in _rounds(&a.g, source.len[0]):
            g = _round(&a.g, min(a.g.images, source.len[0] - n), s)
            if g.slices > 0:
                steps.append(self.transform_tiles(p, &a, &g, source_slot, image_bytes(source, n), a.filters, False))
            args = (Arg.slot_of(SLOT_WORKSPACE, <int> a.acc, a.filters),
                    Arg.slot_of(SLOT_W, size) if a.fused else Arg.slot_of(SLOT_WORKSPACE, <int> a.acc),
                    Arg.slot_of(result_slot, size, image_bytes(result, n)), _shape(&g), Arg.alpha(wide),
                    Arg.beta(wide))
            steps.append(Step(spec, args, (ceil_div(g.tiles, g.block), k_blocks, g.groups * g.out_slices), (1, 1, 1)))
        return Solution(steps, self.workspace_bytes(dev, p), constant=0 if a.fused else 1)


cdef class _WinogradWeights(_Winograd):
    """Backward weights: tiles of x against tiles of dy."""

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef plan_t a = self.plan(dev, p, config)
        cdef int size = type_size(<int> p.w.type)
        cdef bint wide = a.acc == 8
        cdef int64_t n, s, rows = WEIGHTS_ROWS_FUSED if a.fused else WEIGHTS_ROWS
        cdef int64_t blocks = ceil_div(ceil_div(a.g.c, a.vec), a.vectors) * ceil_div(a.g.k, rows)
        cdef mx_winograd g, d
        cdef Arg weights = Arg.slot_of(SLOT_W, size)
        spec = self.spec(p, &a, "conv/cpu/winograd_weights.cl", "winograd_weights",
                         {"KERNELS": 1, "FUSED": int(a.fused), "BLOCK": rows})
        steps = []
        for n, s in _rounds(&a.g, p.x.len[0]):
            g = _round(&a.g, min(a.g.images, p.x.len[0] - n), s)
            d = _round_of_dy(&a.d, &g)
            if g.slices > 0:
                steps.append(self.transform_tiles(p, &a, &g, SLOT_X, image_bytes(&p.x, n), a.filters, False))
            steps.append(self.transform_tiles(p, &a, &d, SLOT_Y, image_bytes(&p.y, n), a.filters + a.tiles, True))
            args = (Arg.slot_of(SLOT_WORKSPACE, <int> a.acc, a.filters),
                    Arg.slot_of(SLOT_WORKSPACE, <int> a.acc, a.filters + a.tiles),
                    weights if a.fused else Arg.slot_of(SLOT_WORKSPACE, <int> a.acc), _shape(&g), _shape(&d))
            args += (Arg.alpha(wide), Arg.beta(wide)) if a.fused else (Arg.int64(n + s > 0),)
            steps.append(Step(spec, args, (blocks, 1 if a.fused else a.points_h * a.points_w, g.groups * g.taps_d),
                              (1, 1, 1)))
        if not a.fused:
            spec = self.spec(p, &a, "conv/cpu/winograd_weights.cl", "winograd_output", {"KERNELS": 2})
            args = (Arg.slot_of(SLOT_WORKSPACE, <int> a.acc), weights, _shape(&a.g), Arg.alpha(wide), Arg.beta(wide))
            steps.append(Step(spec, args, (ceil_div(a.g.c, a.vec), a.g.k, a.g.groups * a.g.taps_d), (1, 1, 1)))
        return Solution(steps, self.workspace_bytes(dev, p))


cdef class CpuWinogradF2Fwd(_WinogradData):
    """Forward with 4 points an axis."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.points = 1131, "CpuWinogradF2Fwd", MX_FORWARD, 4


cdef class CpuWinogradF2Bwd(_WinogradData):
    """Backward data with 4 points an axis."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.points = 1132, "CpuWinogradF2Bwd", MX_BACKWARD_DATA, 4


cdef class CpuWinogradF2Wrw(_WinogradWeights):
    """Backward weights with 4 points an axis."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.points = 1133, "CpuWinogradF2Wrw", MX_BACKWARD_WEIGHTS, 4


cdef class CpuWinogradF4Fwd(_WinogradData):
    """Forward with 6 points an axis."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.points = 1134, "CpuWinogradF4Fwd", MX_FORWARD, 6


cdef class CpuWinogradF4Bwd(_WinogradData):
    """Backward data with 6 points an axis."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.points = 1135, "CpuWinogradF4Bwd", MX_BACKWARD_DATA, 6


cdef class CpuWinogradF4Wrw(_WinogradWeights):
    """Backward weights with 6 points an axis."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.points = 1136, "CpuWinogradF4Wrw", MX_BACKWARD_WEIGHTS, 6
