"""Convolutions through discrete Fourier transforms of overlapping tiles, for large filters on CPUs and GPUs.

Overlap-save: an image is cut into tiles of 16 to 64 pixels a side that overlap by the filter's extent.  Their spectra
are multiplied by the filters', a matrix product over channels for each frequency, and what comes back from the
transform is right where nothing wrapped around.  A dilated filter is a large one; a strided convolution is a dense one
of which some is stored, or whose gradient has zeros between.  Backward weights multiplies the spectra of both tensors
and sums over tiles.  One and two spatial axes, any strides in memory.

What a tile's results depend on spreads over the tile: rounding errors do, and an Inf or NaN does.

Spectra of tiles are made, used and overwritten by those of the next tiles, so that they stay in a CPU's cache.
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
from ._base cimport DIRECT, FFT, GPU_TERMS, ConvOffer, ConvSolver, acc_size, set_offer, span, stride_of
from .nvidia._common cimport tensor_cores
from miopyx.solvers._tokens cimport real_token, type_token

cdef enum:
    LARGEST = 64                 # points of a transform
    LARGEST_FEW = 32             # where twice as many numbers do not fit a GPU's registers
    REGISTERS = 256              # of a work-item there; of half of them transforms take half as many points
    LINE = 64                    # bytes of a cache line
    LOCAL_BYTES = 48 << 10       # of local memory on GPUs
    ITEMS = 128                  # work-items of a GPU's group for a transform
    SIDE = 16                    # and of a product, each side
    EACH_M = 4
    EACH_N = 2
    TILE_ROWS = 6                # a CPU's register tile: complex sums
    PRODUCTS = 64                # work-groups of a product, at least, where there is so much work
    CPU_SPECTRA = 16 << 20       # bytes of tiles' spectra at a time
    GPU_SPECTRA = 256 << 20
    LEAST_TILES = 48             # at a time: each time all of the filters' spectra are read
    MOST_TILES = 2048            # that backward weights sums in one accumulator
    TRANSFORMS = 12              # roundings of the transforms, relative to the largest sum, as they were measured

cdef int64_t WORKSPACE_LIMIT = 4 << 30
cdef double LEAST_INDEX = 0.02       # above a last resort's

cdef extern from "miopyx/kernels/conv/fft_args.h" nogil:
    ctypedef struct mx_fft_tiles:
        int64_t rows, first, across, down, channels, blocks
        int64_t n, g, c, h, w, height, width
        int64_t step_h, step_w, start_h, start_w, tile_h, tile_w, window_h, window_w, skip_h, skip_w
        int64_t frequency, row, size, conjugate

    ctypedef struct mx_fft_product:
        int64_t m, n, k
        int64_t lanes, low, high, depth, a_k, a_run
        int64_t b_k, c_m
        int64_t a_g, b_g, c_g, a_f, b_f, c_f
        int64_t chunks, add

# How a problem is cut: transforms, tiles, channels of a group in blocks of lanes.
cdef struct plan_t:
    int64_t h, w                        # points of the transforms
    int64_t lanes, frequencies
    int64_t extent_h, extent_w          # of the dilated filter
    int64_t tile_h, tile_w              # results of a tile
    int64_t down, across, tiles         # tiles of an image, and of the batch
    int64_t inputs, outputs             # channels of a group
    int64_t input_blocks, output_blocks
    int64_t each                        # tiles at a time
    int64_t size                        # bytes of a number in a spectrum
    int64_t filters, first, second      # bytes of the filters' spectra, and of `each` tiles' of the two tensors


cdef int64_t _lanes(Device dev, const mx_conv_problem* p, int64_t h, int64_t w) noexcept:
    """Channels of a block; 0 where the device's local memory is too small."""
    cdef int64_t size = acc_size(p), lanes = 32 if h == 1 else 16
    if dev.is_cpu:
        return dev.vector_bytes // size
    while lanes >= 8:
        if lanes * (w // 2 + 1) * max(h, 2) * 2 * size <= min(LOCAL_BYTES, dev.local_mem):
            return lanes
        lanes //= 2
    return 0


cdef int64_t _spectra(const mx_conv_problem* p, const plan_t* q, int64_t rows, int64_t blocks) noexcept nogil:
    """Elements from one frequency to the next: an odd number of lines, which are in different sets of a cache."""
    cdef int64_t line = LINE // q.size
    return (ceil_div(rows * p.groups * blocks * 2 * q.lanes, line) | 1) * line


cdef int64_t _bytes(const mx_conv_problem* p, const plan_t* q, int64_t rows, int64_t blocks) noexcept nogil:
    return q.frequencies * _spectra(p, q, rows, blocks) * q.size


cdef plan_t _plan(Device dev, const mx_conv_problem* p, int64_t h, int64_t w) noexcept:
    """The problem with transforms of h x w; `lanes` is 0 where that does not work."""
    cdef plan_t q
    cdef int64_t dense_h, dense_w, limit, one
    memset(&q, 0, sizeof(q))
    q.h, q.w = h, w
    q.extent_h, q.extent_w = (p.w.len[3] - 1) * p.dilation[1] + 1, (p.w.len[4] - 1) * p.dilation[2] + 1
    q.tile_h, q.tile_w = h - q.extent_h + 1, w - q.extent_w + 1
    if q.tile_h < 1 or q.tile_w < 1:
        return q
    q.size = acc_size(p)
    q.frequencies = w // 2 + 1 if h == 1 else (w // 2 - 1) * h + 2 * (h // 2 + 1)
    if p.direction == MX_BACKWARD_DATA:
        dense_h, dense_w = p.x.len[3], p.x.len[4]
    else:
        dense_h, dense_w = (p.y.len[3] - 1) * p.step[1] + 1, (p.y.len[4] - 1) * p.step[2] + 1
    q.down, q.across = ceil_div(dense_h, q.tile_h), ceil_div(dense_w, q.tile_w)
    q.tiles = p.x.len[0] * q.down * q.across
    q.inputs, q.outputs = p.w.len[1], p.w.len[0] // p.groups
    if p.direction == MX_BACKWARD_DATA:
        q.inputs, q.outputs = q.outputs, q.inputs
    q.lanes = _lanes(dev, p, h, w)
    if q.lanes == 0:
        return q
    q.input_blocks, q.output_blocks = ceil_div(q.inputs, q.lanes), ceil_div(q.outputs, q.lanes)
    limit = CPU_SPECTRA if dev.is_cpu else GPU_SPECTRA
    one = q.frequencies * p.groups * (q.input_blocks + q.output_blocks) * 2 * q.lanes * q.size
    q.each = min(q.tiles, max(LEAST_TILES, limit // one))
    if p.direction == MX_BACKWARD_WEIGHTS:
        q.each = min(q.each, MOST_TILES)
    # Equal rounds, and whole pairs of tiles and rows of register tiles.
    q.each = min(q.tiles, up(ceil_div(q.tiles, ceil_div(q.tiles, q.each)), TILE_ROWS))
    q.first = _bytes(p, &q, q.each, q.input_blocks)
    q.second = _bytes(p, &q, q.each, q.output_blocks)
    q.filters = _bytes(p, &q, q.outputs if p.direction == MX_BACKWARD_WEIGHTS else q.inputs,
                       q.input_blocks if p.direction == MX_BACKWARD_WEIGHTS else q.output_blocks)
    return q


cdef int64_t _workspace(const plan_t* q) noexcept nogil:
    return q.filters + q.first + q.second


# What a solution costs, in instructions on vectors: it chooses the transforms, and ranks the solvers.


cdef double _points(int64_t n) noexcept nogil:
    """A complex transform of n points."""
    cdef int64_t i = n
    cdef double log = 0
    while i > 1:
        i //= 2
        log += 1
    return n * (2 + 2.5 * log)


cdef double _transform(const plan_t* q) noexcept nogil:
    """A tile's, one block of channels."""
    if q.h == 1:
        return _points(q.w) / 2 + 6 * q.w
    return q.h / 2 * _points(q.w) + (q.w / 2 + 1) * _points(q.h) + 7 * q.h * q.w


cdef double _cost(const mx_conv_problem* p, const plan_t* q) noexcept nogil:
    cdef bint weights = p.direction == MX_BACKWARD_WEIGHTS
    cdef double products = 4.0 * q.frequencies * p.groups * q.tiles * (
        <double> q.outputs * q.input_blocks if weights else <double> q.inputs * q.output_blocks)
    cdef double tiles = <double> q.tiles * p.groups * (q.input_blocks + q.output_blocks)
    cdef double filters = <double> p.groups * (
        q.outputs * q.input_blocks if weights else q.inputs * q.output_blocks)
    return 1.2 * products + 2 * _transform(q) * (tiles + filters) + 16.0 * q.frequencies * filters


cdef double _direct(const mx_conv_problem* p) noexcept nogil:
    """Products of a direct convolution."""
    return (<double> p.y.len[0] * p.y.len[1] * p.y.len[3] * p.y.len[4]) * p.w.len[1] * p.w.len[3] * p.w.len[4]


cdef bint _meets(const mx_conv_problem* p, int axis, int64_t result) noexcept nogil:
    """Whether any product goes into the elements of a result with this index along an axis."""
    cdef int64_t step = p.step[axis], dilation = p.dilation[axis], taps = p.w.len[2 + axis], i, at
    if p.direction == MX_BACKWARD_WEIGHTS:
        at = p.pad[axis] - result * dilation                # o * step >= at, and < at + x's length
        i = ceil_div(at, step) if at > 0 else 0
        return i < p.y.len[2 + axis] and i * step < at + p.x.len[2 + axis]
    for i in range(taps):
        if p.direction == MX_FORWARD:
            at = result * step - p.pad[axis] + i * dilation
            if 0 <= at < p.x.len[2 + axis]:
                return True
        else:
            at = result + p.pad[axis] - i * dilation
            if at >= 0 and at % step == 0 and at // step < p.y.len[2 + axis]:
                return True
    return False


cdef bint _all_meet(const mx_conv_problem* p, int axis) noexcept nogil:
    """Far from both ends every result is like its neighbours."""
    cdef const mx_tensor* t = &p.y if p.direction == MX_FORWARD else &p.x
    cdef int64_t length = p.w.len[2 + axis] if p.direction == MX_BACKWARD_WEIGHTS else t.len[2 + axis]
    cdef int64_t edge = p.w.len[2 + axis] * p.dilation[axis] + p.pad[axis] + p.step[axis], i
    for i in range(min(length, edge)):
        if not _meets(p, axis, i) or not _meets(p, axis, length - 1 - i):
            return False
    return True


cdef plan_t _best(Device dev, const mx_conv_problem* p) noexcept:
    """The cheapest transforms, square ones where there are two axes; `lanes` is 0 where there are none."""
    cdef plan_t best, q
    cdef int64_t w = 16
    cdef double cost, least = -1
    # 64 complex doubles are 256 registers.
    cdef bint few = dev.is_gpu and not tensor_cores(dev) and (
        p.w.type == MX_DOUBLE or dev.work_item_registers < REGISTERS)
    cdef int64_t largest = LARGEST_FEW * min(dev.work_item_registers, REGISTERS) // REGISTERS if few else LARGEST
    memset(&best, 0, sizeof(best))
    while w <= LARGEST and not (w > largest and least >= 0):
        q = _plan(dev, p, 1 if p.w.len[3] == 1 else w, w)
        if q.lanes > 0 and _workspace(&q) <= min(dev.max_alloc, WORKSPACE_LIMIT):
            cost = _cost(p, &q)
            if least < 0 or cost < least:
                least, best = cost, q
        w *= 2
    return best


cdef plan_t _tuned(Device dev, const mx_conv_problem* p, tuple config) noexcept:
    """The problem as a configuration says, see `table`."""
    cdef int64_t h, w
    h, w = config
    return _plan(dev, p, h, w)


# Steps


cdef mx_fft_tiles _tiles(const mx_conv_problem* p, const plan_t* q, const mx_tensor* t, bint result) noexcept:
    """Tiles of x or y, which is read or, if `result`, written."""
    cdef mx_fft_tiles g
    cdef bint is_x = t == &p.x, backward = p.direction == MX_BACKWARD_DATA
    memset(&g, 0, sizeof(g))
    g.across, g.down = q.across, q.down
    g.channels = t.len[1] // p.groups
    g.blocks = ceil_div(g.channels, q.lanes)
    g.n, g.c, g.h, g.w = stride_of(t, 0), stride_of(t, 1), stride_of(t, 3), stride_of(t, 4)
    g.g = g.channels * g.c
    g.height, g.width = t.len[3], t.len[4]
    g.step_h = 1 if is_x else p.step[1]
    g.step_w = 1 if is_x else p.step[2]
    g.tile_h, g.tile_w = q.tile_h, q.tile_w
    g.window_h, g.window_w = q.tile_h, q.tile_w
    if result:
        if backward:
            g.skip_h, g.skip_w = q.extent_h - 1, q.extent_w - 1
    elif backward:
        g.start_h, g.start_w = p.pad[1] - q.extent_h + 1, p.pad[2] - q.extent_w + 1
        g.window_h, g.window_w = q.h, q.w
    elif is_x:
        g.start_h, g.start_w = -p.pad[1], -p.pad[2]
        g.window_h, g.window_w = q.h, q.w
    g.size = span(t)
    return g


cdef mx_fft_tiles _filters(const mx_conv_problem* p, const plan_t* q) noexcept:
    """Filters as tiles: rows are the channels that a product sums over, or backward weights' outputs."""
    cdef mx_fft_tiles g
    cdef bint by_output = p.direction == MX_FORWARD      # lanes are w's first axis
    memset(&g, 0, sizeof(g))
    g.across = g.down = 1
    g.n, g.c = stride_of(&p.w, 1 if by_output else 0), stride_of(&p.w, 0 if by_output else 1)
    g.h, g.w = stride_of(&p.w, 3), stride_of(&p.w, 4)
    g.g = p.w.len[0] // p.groups * stride_of(&p.w, 0)
    g.rows = p.w.len[1] if by_output else p.w.len[0] // p.groups
    g.channels = p.w.len[0] // p.groups if by_output else p.w.len[1]
    g.blocks = ceil_div(g.channels, q.lanes)
    g.height, g.width = p.w.len[3], p.w.len[4]
    g.step_h, g.step_w = p.dilation[1], p.dilation[2]
    g.tile_h, g.tile_w = q.extent_h, q.extent_w
    g.window_h, g.window_w = q.extent_h, q.extent_w
    _set_spectra(&g, p, q, g.rows)
    g.size = span(&p.w)
    return g


cdef void _set_spectra(mx_fft_tiles* g, const mx_conv_problem* p, const plan_t* q, int64_t rows) noexcept:
    g.row = p.groups * g.blocks * 2 * q.lanes
    g.frequency = _spectra(p, q, rows, g.blocks)


cdef Step _transform_step(Device dev, const mx_conv_problem* p, const plan_t* q, const mx_fft_tiles* g, int slot,
                          int64_t space, bint inverse):
    cdef int64_t workers = 1 if dev.is_cpu or q.h == 1 else ITEMS // q.lanes
    cdef int64_t items = 1 if dev.is_cpu else q.lanes * workers
    cdef bint wide = p.w.type == MX_DOUBLE
    defines = {"X_TYPE": type_token(p.w.type), "ACC": real_token(wide), "VEC": q.lanes, "FFT_H": q.h,
               "FFT_W": q.w, "ON_GPU": int(not dev.is_cpu), "WORKERS": workers}
    tensor = Arg.slot_of(slot, type_size(<int> p.w.type))
    spectra = Arg.slot_of(SLOT_WORKSPACE, q.size, space)
    shape = struct_arg(g, sizeof(mx_fft_tiles))
    groups = (ceil_div(g.rows, 2 if q.h == 1 else 1) * items, g.blocks, p.groups)
    if inverse:
        spec = KernelSpec("conv/fft_inverse.cl", "fft_inverse", SCALAR=real_token(wide), **defines)
        args = (spectra, tensor, shape, Arg.alpha(wide), Arg.beta(wide))
    else:
        spec = KernelSpec("conv/fft_forward.cl", "fft_forward", **defines)
        args = (tensor, spectra, shape)
    return Step(spec, args, groups, (items, 1, 1))


cdef Step _product_step(Device dev, const mx_conv_problem* p, const plan_t* q, mx_fft_product* g, int64_t a,
                        int64_t b, int64_t c):
    cdef int64_t vectors = 2 if dev.vector_bytes == 64 else 1
    defines = {"ACC": real_token(p.w.type == MX_DOUBLE), "VEC": q.lanes, "ON_GPU": int(not dev.is_cpu)}
    if dev.is_cpu:
        g.chunks = min(ceil_div(g.m, TILE_ROWS), ceil_div(PRODUCTS, q.frequencies * p.groups))
        defines.update(TILE_ROWS=TILE_ROWS, N_VECTORS=vectors)
        size, local = (q.frequencies, g.chunks, p.groups), (1, 1, 1)
    else:
        defines.update(EACH_M=EACH_M, EACH_N=EACH_N)
        size = (q.frequencies * ceil_div(g.n, SIDE * EACH_N) * SIDE * SIDE, ceil_div(g.m, SIDE * EACH_M), p.groups)
        local = (SIDE * SIDE, 1, 1)
    args = (Arg.slot_of(SLOT_WORKSPACE, q.size, a), Arg.slot_of(SLOT_WORKSPACE, q.size, b),
            Arg.slot_of(SLOT_WORKSPACE, q.size, c),
            struct_arg(g, sizeof(mx_fft_product)))
    return Step(KernelSpec("conv/fft_product.cl", "fft_product", **defines), args, size, local)


cdef double _index(Device dev, const mx_conv_problem* p, const plan_t* q) noexcept:
    # On a CPU with AVX-512, layers of 14 to 56 pixels a side took 1.1 to 1.6 times the cost counted: the rest comes
    # from the caches.  GPUs were not measured.
    return max(LEAST_INDEX, _direct(p) / q.lanes / _cost(p, q) / (1.45 if dev.is_cpu else 6))


# What takes time, as TERMS names it: launches, millions of vector instructions, megabytes of spectra, 10^9 products.
cdef struct terms_t:
    double launch, instructions, transforms, filters, spectra, products

cdef tuple TERMS = ("launch", "instructions", "transforms", "filters", "spectra", "products")


cdef class _Fft(ConvSolver):
    def __cinit__(self):
        self.cost_names = TERMS
        self.algorithm = FFT
        self.dynamic = self.deterministic = self.mixes_tiles = True

    cdef object consider(self, Device dev, ConvProblem problem):
        cdef plan_t q
        cdef str why = self.judge(dev, &problem.c, &q)
        cdef ConvOffer offer
        if why is not None:
            return why
        offer = ConvOffer.__new__(ConvOffer)
        set_offer(offer, self, dev, problem)
        offer.index, offer.workspace = _index(dev, &problem.c, &q), _workspace(&q)
        return offer

    cdef str judge(self, Device dev, const mx_conv_problem* p, plan_t* q):
        """Return why the solver cannot take the problem, or None and its plan."""
        if p.spatial > 2:
            return "three spatial axes"
        if p.w.type not in (MX_HALF, MX_BFLOAT16, MX_FLOAT, MX_DOUBLE):
            return "data type"
        if not dev.is_cpu and dev.max_work_group < SIDE * SIDE:
            return "needs larger work-groups"
        q[0] = _best(dev, p)
        if q.lanes == 0:
            return "filter or workspace is too large"
        if 4.0 * q.frequencies * q.tiles * q.inputs * q.outputs * p.groups > _direct(p):
            return "saves no products"
        if p.direction != MX_BACKWARD_WEIGHTS and q.inputs > GPU_TERMS:
            return "many channels"                           # which one accumulator would take
        if not _all_meet(p, 1) or not _all_meet(p, 2):
            return "some results are no sum of products"     # and would come out as noise instead of zeros
        return None

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef plan_t q = _best(dev, p)
        return _workspace(&q)

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef plan_t q = _best(dev, p)
        return _index(dev, p, &q)

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef terms_t* t = <terms_t*> terms
        cdef plan_t q = _best(dev, p)
        cdef double rounds = ceil_div(q.tiles, max(1, q.each))
        cdef double blocks = <double> q.tiles * p.groups * (q.input_blocks + q.output_blocks)
        t.launch = 1 + 3 * rounds
        t.instructions = _cost(p, &q) * 1e-6
        t.transforms = blocks * _transform(&q) * 1e-6
        t.filters = q.filters * 1e-6
        t.spectra = rounds * (q.first + q.second) * 1e-6
        t.products = _direct(p) * 1e-9

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef plan_t q = _best(dev, p)
        if p.direction == MX_BACKWARD_WEIGHTS:
            # Launches are added up too, of which other transforms have at most twice as many.
            return TRANSFORMS + q.each + 2 * ceil_div(q.tiles, q.each)
        return TRANSFORMS + q.inputs

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        if p.w.len[3] == 1:
            return ("FFT_H", (1,)), ("FFT_W", (16, 32, 64))
        return ("FFT_H", (16, 32, 64)), ("FFT_W", (16, 32, 64))

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        """Whether the filter fits such transforms, and they the workspace."""
        cdef plan_t q = _tuned(dev, p, config)
        return q.lanes > 0 and _workspace(&q) <= self.workspace_bytes(dev, p)

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        cdef plan_t q = _best(dev, p)
        return q.h, q.w


cdef class _FftData(_Fft):
    """Forward, and backward data, which is a convolution where the other is a correlation."""

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef plan_t q = _tuned(dev, p, config)
        cdef bint backward = p.direction == MX_BACKWARD_DATA
        cdef mx_fft_tiles w = _filters(p, &q)
        cdef mx_fft_tiles x = _tiles(p, &q, &p.y if backward else &p.x, False)
        cdef mx_fft_tiles y = _tiles(p, &q, &p.x if backward else &p.y, True)
        cdef mx_fft_product g
        cdef int64_t first
        memset(&g, 0, sizeof(g))
        _set_spectra(&x, p, &q, q.each)
        _set_spectra(&y, p, &q, q.each)
        g.n, g.k = q.outputs, q.inputs
        g.lanes, g.high = 1, x.row
        g.depth, g.a_k, g.a_run = q.lanes, 1, 2 * q.lanes
        g.b_k, g.c_m = w.row, y.row
        g.a_g, g.b_g, g.c_g = x.blocks * 2 * q.lanes, w.blocks * 2 * q.lanes, y.blocks * 2 * q.lanes
        g.a_f, g.b_f, g.c_f = x.frequency, w.frequency, y.frequency
        w.conjugate = not backward
        steps = [_transform_step(dev, p, &q, &w, SLOT_W, 0, False)]
        for first in range(0, q.tiles, q.each):
            x.first = y.first = first
            x.rows = y.rows = g.m = min(q.each, q.tiles - first)
            steps += [
                _transform_step(dev, p, &q, &x, SLOT_Y if backward else SLOT_X, q.filters, False),
                _product_step(dev, p, &q, &g, q.filters, 0, q.filters + q.first),
                _transform_step(dev, p, &q, &y, SLOT_X if backward else SLOT_Y, q.filters + q.first, True),
            ]
        return Solution(steps, _workspace(&q), constant=1)


cdef class FftFwd(_FftData):
    """Forward: filters' conjugate spectra times the tiles' of x."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1141, "FFTConvFwd", MX_FORWARD


cdef class FftBwd(_FftData):
    """Backward data: filters' spectra times the tiles' of dy."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1142, "FFTConvBwd", MX_BACKWARD_DATA


cdef class FftWrw(_Fft):
    """Backward weights: conjugate spectra of dy times those of x, summed over tiles."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1143, "FFTConvWrw", MX_BACKWARD_WEIGHTS
        self.algorithm = DIRECT  # miopenConvBwdWeightsAlgorithm_t has no FFT

    @property
    def switch(self):
        return "MIOPEN_DEBUG_CONV_FFT"

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef plan_t q = _tuned(dev, p, config)
        cdef mx_fft_tiles w = _filters(p, &q), x = _tiles(p, &q, &p.x, False), y = _tiles(p, &q, &p.y, False)
        cdef mx_fft_product g
        cdef int64_t first
        memset(&g, 0, sizeof(g))
        _set_spectra(&x, p, &q, q.each)
        _set_spectra(&y, p, &q, q.each)
        g.m, g.n = q.outputs, q.inputs
        g.lanes, g.low, g.high = q.lanes, 1, 2 * q.lanes
        g.a_k, g.b_k, g.c_m = y.row, x.row, w.row
        g.a_g, g.b_g, g.c_g = y.blocks * 2 * q.lanes, x.blocks * 2 * q.lanes, w.blocks * 2 * q.lanes
        g.a_f, g.b_f, g.c_f = y.frequency, x.frequency, w.frequency
        y.conjugate = True
        steps = []
        for first in range(0, q.tiles, q.each):
            x.first = y.first = first
            x.rows = y.rows = g.k = g.depth = min(q.each, q.tiles - first)
            g.add = first > 0
            steps += [
                _transform_step(dev, p, &q, &x, SLOT_X, q.filters, False),
                _transform_step(dev, p, &q, &y, SLOT_Y, q.filters + q.first, False),
                _product_step(dev, p, &q, &g, q.filters + q.first, q.filters, 0),
            ]
        steps.append(_transform_step(dev, p, &q, &w, SLOT_W, 0, True))
        return Solution(steps, _workspace(&q))
