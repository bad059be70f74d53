"""Depthwise convolutions on CPU devices, and those with few channels a group: direct, one to three spatial axes.

A work-item copies a tile of a few groups' channels into private memory, padded, and computes from there; the kernels'
header says how.  Forward and backward data read filters that a first launch packed.  The sums of backward
weights are split, as often as the problem asks for; a second launch adds the partial sums in a fixed order.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_FORWARD, MX_HALF, mx_conv_problem,
    mx_tensor,
)
from miopyx.solvers.conv._base cimport (
    BLOCK_TERMS, DIRECT, GPU_TERMS, ConvSolver, acc_size, channels_contiguous, rows_contiguous, span, stride_of,
    sum_terms, vector_lanes,
)
from miopyx.solvers._tokens cimport real_token, type_token

cdef enum:
    ROWS = 0
    CHANNELS = 1
    TRANSPOSED = 2
    BLOCKS = 3
    CHANNELS_LIMIT = 64    # of a group
    TAPS_LIMIT = 256       # of a slice of the filter, as in the kernels' header
    DEPTH_LIMIT = 32
    TERMS_LIMIT = 4096     # inputs times taps
    STEP_LIMIT = 8
    LENGTH_LIMIT = 1 << 24
    BUFFER = 65536         # elements of what the kernels keep in private memory
    RESULTS = 32768
    SUMS = 4096
    DIRECT_SUMS = 512
    PER_ITEM = 16          # blocks of filters that a work-item packs
    SUM_FILTERS = 4
    TALL = 4               # rows at a time of depthwise convolutions that are read without a copy
    FILTER_LIMIT = 11      # of theirs in rows
    ITEMS = 32             # work-items of a launch, at least, where there is enough to do

_ROOMY = frozenset(("pocl", "intel"))  # runtimes whose work-items have a thread's whole stack

# Tunables.  TALL: as above; LOWS for backward data with strides, where a row of positions is two of dx.  PLANES:
# elements of a group's planes, which should stay in a cache.
cdef tuple TALLS = (2, 4, 7)
cdef tuple LOWS = (1, 2, 4)
cdef tuple PLANES = (3072, 6144, 12288, 24576, 49152)

cdef extern from "miopyx/kernels/conv/cpu/grouped_args.h" nogil:
    ctypedef struct mx_side:
        int64_t n, c, d, h, w, span
        int channels, depth, height, width

    ctypedef struct mx_planes:
        int step_h, step_w, pitch, sub, behind

    ctypedef struct mx_grouped:
        mx_side input, output
        mx_planes planes
        int groups, inputs, outputs, padded
        int backward
        int taps[3]
        int dilation[3]
        int step[3]
        int pad[3]
        int out_h, out_w
        int first_h, first_w
        int grid_h, grid_w, tiles_h, tiles_w, tile_h, tile_w, chunk
        int least_h, least_w
        int reach_h
        int together
        int splits

    ctypedef struct mx_filters:
        int64_t g, o, i, d, h, w
        int groups, outputs, inputs
        int taps[3]

    ctypedef struct mx_grouped_sum:
        int64_t k, c, d, h, w
        int filters, inputs
        int taps[3]
        int splits
        int64_t row

# How a problem is computed: elements of a vector and of a position, channels of what the struct calls one, register
# tile, struct.
cdef struct plan_t:
    int mode
    int64_t vec, each, unit, tile, wide
    bint fits
    int64_t chosen         # of what is tunable
    bint direct            # reads tensors without a copy: conv/cpu/depthwise.cl
    bint rows              # the same: conv/cpu/depthwise_rows.cl
    int64_t tall           # rows at a time then
    mx_grouped g


cdef mx_side _side(const mx_tensor* t) noexcept nogil:
    cdef mx_side s
    s.n, s.c, s.d, s.h, s.w = stride_of(t, 0), stride_of(t, 1), stride_of(t, 2), stride_of(t, 3), stride_of(t, 4)
    s.channels, s.depth, s.height, s.width = <int> t.len[1], <int> t.len[2], <int> t.len[3], <int> t.len[4]
    s.span = span(t)
    return s


cdef int64_t _images(const mx_conv_problem* p) noexcept nogil:
    return p.x.len[0]


cdef void _set_planes(plan_t* q, int64_t tile_h, int64_t tile_w) noexcept nogil:
    """The planes of a tile; the zeros between two rows serve both where a tile has whole rows."""
    cdef mx_grouped* g = &q.g
    cdef mx_planes* s = &g.planes
    cdef int64_t reach_w = (g.taps[2] - 1) * g.dilation[2], wide, lead, pitch, end
    if g.backward:
        reach_w //= g.out_w
    wide = (tile_w - 1) * s.step_w + reach_w + 1
    lead = -(<int64_t> g.first_w * s.step_w + g.least_w)
    pitch = max(wide, tile_w * s.step_w)
    if tile_w == g.grid_w:
        end = min(g.input.width + lead, wide)
        pitch = max(end, wide - max(lead, 0), tile_w * s.step_w)
    s.pitch = <int> min(ceil_div(pitch, s.step_w), LENGTH_LIMIT)
    s.behind = <int> max(0, min(ceil_div(wide, s.step_w), LENGTH_LIMIT) - s.pitch)
    if q.each == 1:
        s.behind = <int> (up(s.behind, q.vec) + q.vec)
    # Whole vectors of zeros are written.
    s.sub = <int> min(ceil_div((tile_h - 1) * s.step_h + g.reach_h, s.step_h) * s.pitch + s.behind
                      + (q.vec if q.each == 1 else 0), LENGTH_LIMIT)


cdef int64_t _planes_size(const plan_t* q) noexcept nogil:
    """Elements of a group's planes."""
    cdef const mx_planes* s = &q.g.planes
    return <int64_t> q.g.inputs * q.g.taps[0] * s.step_h * s.step_w * s.sub * q.each


cdef int64_t _results_size(const plan_t* q, int64_t rows) noexcept nogil:
    """Elements of what is computed of a group at once, or of dy for backward weights."""
    return <int64_t> q.g.padded * q.g.out_w * up(rows * q.g.planes.pitch * q.each + 2 * q.vec, q.vec)


cdef class _Grouped(ConvSolver):
    def __cinit__(self):
        self.algorithm = DIRECT
        self.dynamic = self.deterministic = True

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef plan_t q
        cdef int i
        if not dev.is_cpu:
            return "needs a CPU device"
        if p.w.type != MX_HALF and p.w.type != MX_BFLOAT16 and p.w.type != MX_FLOAT and p.w.type != MX_DOUBLE:
            return "data type"
        if max(p.w.len[1], p.w.len[0] // p.groups) > CHANNELS_LIMIT:
            return "many channels a group"
        if p.w.len[3] * p.w.len[4] > TAPS_LIMIT or p.w.len[2] > DEPTH_LIMIT:
            return "a large filter"
        if p.direction != MX_BACKWARD_WEIGHTS and sum_terms(p) > GPU_TERMS:
            return "a large filter"    # one accumulator takes all terms
        for i in range(3):
            if p.step[i] > STEP_LIMIT or p.dilation[i] > LENGTH_LIMIT or p.pad[i] > LENGTH_LIMIT or (
                    max(p.x.len[2 + i], p.y.len[2 + i]) > LENGTH_LIMIT):
                return "a large stride, dilation, pad or length"
        if max(p.x.len[1], p.w.len[0]) > LENGTH_LIMIT or p.x.len[0] > LENGTH_LIMIT:
            return "many channels or images"
        if not (channels_contiguous(&p.x) and channels_contiguous(&p.y)) and not (
                rows_contiguous(&p.x) and rows_contiguous(&p.y)):
            return "neither channels nor rows are contiguous"
        q = self.plan(dev, p, 0)
        return None if q.fits else "a tile is too large"

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef int64_t most = max(p.w.len[1], p.w.len[0] // p.groups)
        cdef bint last = channels_contiguous(&p.x) and channels_contiguous(&p.y)
        # With 16 channels a group, the lanes of other solvers are full too; but with channels last, not their tiles.
        if p.groups == 1:
            return 0.3
        return 0.99 if most <= 8 or (most <= 16 and (last or p.direction != MX_BACKWARD_WEIGHTS)) else 0.5

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        return sum_terms(p)

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        cdef plan_t q = self.plan(dev, p, 0)
        if q.rows or q.direct:
            return ("TALL", TALLS if q.tall >= TALL else LOWS),
        return ("PLANES", PLANES),

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        choice, = config    # TALL or PLANES
        return self.plan(dev, p, choice).fits

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        cdef plan_t q = self.plan(dev, p, 0)
        return q.chosen,

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        """The most that any configuration takes."""
        cdef plan_t q = self.plan(dev, p, 0)
        cdef int64_t most = self.workspace(p, &q), choice
        for choice in (TALLS if q.tall >= TALL else LOWS) if q.rows or q.direct else PLANES:
            q = self.plan(dev, p, choice)
            if q.fits:
                most = max(most, self.workspace(p, &q))
        return most

    cdef int64_t workspace(self, const mx_conv_problem* p, const plan_t* q) except -1:
        raise NotImplementedError

    cdef plan_t plan(self, Device dev, const mx_conv_problem* p, int64_t choice) noexcept:
        """How a problem is computed with a value of what is tunable, 0 for the default."""
        cdef plan_t q
        cdef mx_grouped* g = &q.g
        cdef const mx_tensor* x = &p.x
        cdef const mx_tensor* y = &p.y
        cdef int i
        cdef bint last, single, strided = False, both
        cdef int taps
        memset(&q, 0, sizeof(q))
        q.vec = vector_lanes(dev, acc_size(p))
        g.inputs, g.outputs, g.groups = <int> p.w.len[1], <int> (p.w.len[0] // p.groups), <int> p.groups
        if p.direction == MX_BACKWARD_DATA:
            x, y = y, x
            g.backward, g.inputs, g.outputs = 1, g.outputs, g.inputs
        last = channels_contiguous(x) and channels_contiguous(y) and not (
            rows_contiguous(x) and rows_contiguous(y) and x.len[1] == 1)
        q.mode = ROWS if not last else CHANNELS if g.inputs == 1 and g.outputs == 1 else TRANSPOSED
        if q.mode == TRANSPOSED and g.inputs % q.vec == 0 and g.outputs % q.vec == 0:
            q.mode = BLOCKS
        q.each = q.vec if q.mode == CHANNELS or q.mode == BLOCKS else 1
        q.unit = q.vec if q.mode == BLOCKS else 1
        g.inputs, g.outputs = <int> (g.inputs // q.unit), <int> (g.outputs // q.unit)
        if q.mode == CHANNELS:
            g.groups = <int> ceil_div(g.groups, q.vec)
        g.input, g.output = _side(x), _side(y)
        for i in range(3):
            g.taps[i], g.dilation[i], g.step[i], g.pad[i] = (
                <int> p.w.len[2 + i], <int> p.dilation[i], <int> p.step[i], <int> p.pad[i])
        g.planes.step_h = g.planes.step_w = g.out_h = g.out_w = 1
        g.grid_h, g.grid_w = g.output.height, g.output.width
        if g.backward:
            g.out_h, g.out_w = g.step[1], g.step[2]
            g.first_h, g.first_w = g.pad[1] // g.out_h, g.pad[2] // g.out_w
            g.grid_h = (g.output.height - 1 + g.pad[1]) // g.out_h - g.first_h + 1
            g.grid_w = (g.output.width - 1 + g.pad[2]) // g.out_w - g.first_w + 1
            g.least_h = -(((g.taps[1] - 1) * g.dilation[1]) // g.out_h)
            g.least_w = -(((g.taps[2] - 1) * g.dilation[2]) // g.out_w)
            g.reach_h = 1 - g.least_h
        else:
            g.planes.step_h, g.planes.step_w = g.step[1], g.step[2]
            g.least_h, g.least_w = -g.pad[1], -g.pad[2]
            g.reach_h = (g.taps[1] - 1) * g.dilation[1] + 1
        self.set_tile(dev, p, &q)
        # Common filters have programs of their own.
        taps = g.taps[2]
        single = q.unit == 1 and g.inputs == 1 and g.outputs == 1 and p.spatial == 2
        if single and taps == g.taps[1] and g.dilation[1] == 1:
            strided = max(g.step[1], g.step[2]) > 1
            q.direct = q.mode == CHANNELS and g.step[1] <= 2 and (
                taps == 3 or taps == 5 or (taps == 7 and not strided and p.direction != MX_BACKWARD_WEIGHTS))
            q.rows = (q.mode == ROWS and taps % 2 == 1 and 3 <= taps <= FILTER_LIMIT and g.grid_w > q.vec // 2
                      and p.direction != MX_BACKWARD_WEIGHTS)
            both = g.step[1] == 2 and g.step[2] == 2 and g.dilation[2] == 1
            if strided and g.backward:
                both = both and g.pad[1] == taps // 2 and g.pad[2] == taps // 2
                q.direct = q.direct and both
            if strided:
                q.rows = q.rows and both and taps <= 5
        if q.rows or q.direct:
            q.tall = 7 if q.rows and dev.vector_bytes >= 64 and not strided else TALL
            if strided and g.backward:
                q.tall = TALL // 2
                g.first_h = g.first_w = 0
                g.least_h = g.least_w = -(taps // 2 // 2)
                g.grid_h, g.grid_w = g.input.height, g.input.width
            q.chosen = q.tall = choice if choice > 0 else q.tall
            self.set_bands(p, &q)
        else:
            q.chosen = 49152 if q.mode == CHANNELS else 6144 if q.each * g.inputs * g.outputs == 1 else 12288
            q.chosen = choice if choice > 0 else q.chosen
            self.set_tiles(p, &q)
        return q

    cdef void set_bands(self, const mx_conv_problem* p, plan_t* q) noexcept:
        """The rows and vectors of channels, or channels, of a work-item that reads tensors without a copy."""
        cdef mx_grouped* g = &q.g
        cdef int64_t bands = ceil_div(g.grid_h, q.tall), sets
        q.fits = True
        g.together = <int> min(g.groups, 16)
        if q.rows:
            g.together = <int> max(1, min(g.together, g.groups * _images(p) // (2 * ITEMS)))
        sets = ceil_div(g.groups, g.together)
        g.together = <int> ceil_div(g.groups, sets)
        # Half the work-items and more have whole rows of tiles.
        g.tile_h = <int> (q.tall * max(1, min(bands, bands * sets * _images(p) // (2 * ITEMS))))
        g.tiles_h, g.tiles_w = <int> ceil_div(g.grid_h, g.tile_h), 1

    cdef KernelSpec direct(self, const mx_conv_problem* p, const plan_t* q, str entry):
        cdef dict tokens = dict(
            X_TYPE=type_token(p.w.type), ACC=real_token(p.w.type == MX_DOUBLE),
            SCALAR=real_token(p.w.type == MX_DOUBLE), VEC=q.vec, R=q.g.taps[1], S=q.g.taps[2],
            STEP=q.g.step[1], BACKWARD=q.g.backward, TALL=q.tall)
        if q.rows:
            return KernelSpec("conv/cpu/depthwise_rows.cl", entry, **tokens)
        return KernelSpec("conv/cpu/depthwise.cl", entry, WEIGHTS=int(p.direction == MX_BACKWARD_WEIGHTS), **tokens)

    cdef void set_tile(self, Device dev, const mx_conv_problem* p, plan_t* q) noexcept:
        """The register tile."""
        raise NotImplementedError

    cdef void set_tiles(self, const mx_conv_problem* p, plan_t* q) noexcept:
        """The tile of a work-item: whole rows, as many as suit the caches; several groups where they are small."""
        cdef mx_grouped* g = &q.g
        cdef int64_t room = q.chosen, w, h, chunk, most, units
        w = ceil_div(g.grid_w, ceil_div(g.grid_w, 128 if q.each > 1 else 512))
        while True:
            _set_planes(q, 1, w)
            if w <= 16 or (_planes_size(q) <= room and _results_size(q, 1) <= RESULTS // 2):
                break
            w = ceil_div(w, 2)
        g.tile_w, g.tiles_w = <int> w, <int> ceil_div(g.grid_w, w)
        q.fits = _planes_size(q) + 2 * q.vec <= BUFFER and _results_size(q, 1) + 2 * q.vec <= RESULTS
        if not q.fits:
            return
        # Rows: the planes grow by less than this with each.
        h = g.grid_h
        _set_planes(q, h, w)
        while h > 1 and _planes_size(q) > room:
            h = max(1, min(h - 1, h * room // _planes_size(q)))
            _set_planes(q, h, w)
        g.tiles_h = <int> ceil_div(g.grid_h, h)
        g.tile_h = <int> ceil_div(g.grid_h, g.tiles_h)
        g.tiles_h = <int> ceil_div(g.grid_h, g.tile_h)
        _set_planes(q, g.tile_h, w)
        # Groups: as many as fit, but enough work-items; TRANSPOSED ones make whole vectors of channels if they can.
        most = max(1, room // _planes_size(q))
        units = _images(p) * g.output.depth * g.tiles_h * g.tiles_w
        if q.mode == TRANSPOSED:
            most = max(most, min(ceil_div(q.vec, max(g.inputs, g.outputs)), (BUFFER - 2 * q.vec) // _planes_size(q)))
        most = min(most, max(1, g.groups * units // ITEMS), RESULTS // 2 // _results_size(q, 1))
        self.set_groups(q, max(1, most))
        g.together = <int> ceil_div(g.groups, ceil_div(g.groups, g.together))
        chunk = g.tile_h
        most = 4096 if g.inputs == 1 and g.outputs == 1 and q.unit == 1 else 8192
        while chunk > 1 and _results_size(q, chunk) * g.together > most:
            chunk = max(1, min(chunk - 1, chunk * most // (_results_size(q, chunk) * g.together)))
        g.chunk = <int> ceil_div(g.tile_h, ceil_div(g.tile_h, chunk))

    cdef void set_groups(self, plan_t* q, int64_t most) noexcept:
        q.g.together = <int> most

    cdef list tokens(self, Device dev, const mx_conv_problem* p, const plan_t* q):
        return [("X_TYPE", type_token(p.w.type)), ("ACC", real_token(p.w.type == MX_DOUBLE)),
                ("SCALAR", real_token(p.w.type == MX_DOUBLE)), ("VEC", q.vec), ("MODE", q.mode),
                ("TILE", q.tile), ("WIDE", q.wide)]


cdef class _GroupedData(_Grouped):
    cdef void set_tile(self, Device dev, const mx_conv_problem* p, plan_t* q) noexcept:
        cdef int64_t o = q.g.outputs
        cdef bint many = dev.vector_bytes >= 64    # registers: 32, else 16
        if q.mode == BLOCKS:
            q.tile, q.wide = 1, (14 if many else 10)
        elif q.mode == CHANNELS or o == 1:
            q.tile, q.wide = 1, 8
        elif o == 2:
            q.tile, q.wide = 2, (8 if many else 5)
        elif o <= 4 or not many or up(o, 8) > up(o, 4):
            q.tile, q.wide = 4, (6 if many else 3)
        else:
            q.tile, q.wide = 8, 3
        q.g.padded = <int> up(o, q.tile)

    cdef mx_filters filters(self, const mx_conv_problem* p, const plan_t* q) noexcept:
        cdef mx_filters f
        cdef int i, outputs = <int> (q.g.outputs * q.unit), inputs = <int> (q.g.inputs * q.unit)
        f.d, f.h, f.w = stride_of(&p.w, 2), stride_of(&p.w, 3), stride_of(&p.w, 4)
        f.g = outputs * p.w.stride[0]
        f.o, f.i = stride_of(&p.w, 0), stride_of(&p.w, 1)
        f.groups, f.outputs, f.inputs = q.g.groups, outputs, inputs
        if q.g.backward:
            f.g = inputs * p.w.stride[0]
            f.o, f.i = f.i, f.o
        if q.mode == CHANNELS:
            f.o, f.outputs, f.groups = p.w.stride[0], <int> p.groups, 1
        for i in range(3):
            f.taps[i] = q.g.taps[i]
        return f

    cdef bint packed(self, const mx_conv_problem* p, const plan_t* q) noexcept:
        """Whether w is stored as packing would write it."""
        cdef int64_t columns = p.w.len[4]
        return q.rows and type_size(<int> p.w.type) == acc_size(p) and (
            p.w.stride[4] == 1 and p.w.stride[3] == columns) and (
            p.w.stride[0] == columns * columns or p.w.len[0] == 1)

    cdef int64_t workspace(self, const mx_conv_problem* p, const plan_t* q) except -1:
        if self.packed(p, q):
            return 0
        return (<int64_t> q.g.groups * q.g.padded * q.each * q.g.inputs * q.unit
                * q.g.taps[0] * q.g.taps[1] * q.g.taps[2] * acc_size(p))

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        choice, = config    # TALL or PLANES
        cdef plan_t q = self.plan(dev, p, choice)
        cdef mx_filters f = self.filters(p, &q)
        cdef int64_t size = type_size(<int> p.w.type), acc = acc_size(p)
        cdef bint wide = p.w.type == MX_DOUBLE, packed = self.packed(p, &q)
        cdef dict tokens = dict(self.tokens(dev, p, &q))
        pack = KernelSpec("conv/cpu/grouped_pack.cl", "pack_weights", X_TYPE=tokens["X_TYPE"], ACC=tokens["ACC"],
                          LANES=q.each if q.each > 1 else q.tile)
        data = KernelSpec("conv/cpu/grouped.cl", "grouped_data", **tokens)
        if q.rows:
            data = self.direct(p, &q, "depthwise_rows")
        elif q.direct:
            data = self.direct(p, &q, "depthwise_data")
        cdef Step first = Step(pack, (
            Arg.slot_of(SLOT_W, size), Arg.slot_of(SLOT_WORKSPACE, acc),
            struct_arg(&f, sizeof(f))),
            (ceil_div(<int64_t> q.g.groups * q.g.padded // q.tile, PER_ITEM),), (1,))
        cdef Step second = Step(data, (
            Arg.slot_of(SLOT_Y if q.g.backward else SLOT_X, size),
            Arg.slot_of(SLOT_W if packed else SLOT_WORKSPACE, acc),
            Arg.slot_of(SLOT_X if q.g.backward else SLOT_Y, size),
            struct_arg(&q.g, sizeof(q.g)), Arg.alpha(wide), Arg.beta(wide)),
            (q.g.tiles_h * q.g.tiles_w, ceil_div(q.g.groups, q.g.together), _images(p) * q.g.output.depth), (1, 1, 1))
        if packed:
            return Solution([second], 0)
        return Solution([first, second], self.workspace_bytes(dev, p), constant=1)


cdef class CpuGroupedFwd(_GroupedData):
    """Forward; the workspace holds the packed filters."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1151, "CpuGroupedFwd", MX_FORWARD


cdef class CpuGroupedBwd(_GroupedData):
    """Backward data: with strides, each phase of dx has taps of its own."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1152, "CpuGroupedBwd", MX_BACKWARD_DATA


cdef class CpuGroupedWrw(_Grouped):
    """Backward weights, split-K over the batch; a second launch adds the partial sums in a fixed order."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1153, "CpuGroupedWrw", MX_BACKWARD_WEIGHTS

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        # A work-item has 1.4 MB.  Where it is several lanes of a vector, as on Mesa's llvmpipe, a thread's stack
        # overflows, and no query says how much there may be.
        if dev.is_cpu and dev.info.runtime not in _ROOMY:
            return "needs more private memory than the runtime may have"
        return _Grouped.refuse(self, dev, p)

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        # A tile gives a lane two blocks at most; 16 lanes are added in a tree, and up to ITEMS splits in a chain.
        return min(sum_terms(p), 2.0 * BLOCK_TERMS) + 4 + ITEMS

    cdef int64_t sums(self, const plan_t* q) noexcept:
        """Vectors of sums of a group."""
        return (<int64_t> q.g.padded * q.g.taps[0] * up(<int64_t> q.g.inputs * q.g.taps[1] * q.g.taps[2], q.wide)
                * q.unit)

    cdef void set_tile(self, Device dev, const mx_conv_problem* p, plan_t* q) noexcept:
        cdef int64_t o = q.g.outputs, terms = <int64_t> q.g.inputs * q.g.taps[1] * q.g.taps[2], most
        cdef bint many = dev.vector_bytes >= 64
        if q.mode == BLOCKS:
            q.tile, most = 1, 1
        elif q.mode == CHANNELS or o == 1:
            q.tile, most = 1, (25 if many else 10)
        elif o == 2:
            q.tile, most = 2, (12 if many else 6)
        elif o <= 4 or not many or up(o, 8) > up(o, 4):
            q.tile, most = 4, (6 if many else 3)
        else:
            q.tile, most = 8, 3
        # Blocks of equal size.
        q.wide = ceil_div(terms, ceil_div(terms, most))
        q.g.padded = <int> up(o, q.tile)

    cdef void set_groups(self, plan_t* q, int64_t most) noexcept:
        q.g.together = <int> max(1, min(most, SUMS // self.sums(q)))

    cdef void set_tiles(self, const mx_conv_problem* p, plan_t* q) noexcept:
        cdef int64_t sets, units
        if self.sums(q) > SUMS or <int64_t> q.g.inputs * q.g.taps[1] * q.g.taps[2] > TERMS_LIMIT:
            return
        _Grouped.set_tiles(self, p, q)
        if not q.fits:
            return
        units = _images(p) * q.g.output.depth * q.g.tiles_h * q.g.tiles_w
        sets = ceil_div(q.g.groups, q.g.together)
        q.g.splits = <int> max(1, min(units, ITEMS // sets))

    cdef void set_bands(self, const mx_conv_problem* p, plan_t* q) noexcept:
        cdef int64_t taps = q.g.taps[1] * q.g.taps[2], sets
        _Grouped.set_bands(self, p, q)
        q.g.together = <int> min(q.g.together, max(1, DIRECT_SUMS // taps))
        sets = ceil_div(q.g.groups, q.g.together)
        q.g.splits = <int> max(1, min(ceil_div(q.g.grid_h, q.tall) * _images(p), ITEMS // sets))

    cdef int64_t row(self, const mx_conv_problem* p, const plan_t* q) noexcept:
        """Elements of a split's partial sums."""
        return (<int64_t> q.g.groups * q.g.outputs * q.g.inputs * q.g.taps[0] * q.g.taps[1] * q.g.taps[2] * q.each
                * q.unit)

    cdef int64_t workspace(self, const mx_conv_problem* p, const plan_t* q) except -1:
        return q.g.splits * self.row(p, q) * acc_size(p)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        choice, = config    # TALL or PLANES
        cdef plan_t q = self.plan(dev, p, choice)
        cdef int images = <int> _images(p), i
        cdef int64_t size = type_size(<int> p.w.type), acc = acc_size(p)
        cdef bint wide = p.w.type == MX_DOUBLE
        cdef dict tokens = dict(self.tokens(dev, p, &q))
        cdef mx_grouped_sum s
        s.k, s.c, s.d, s.h, s.w = (stride_of(&p.w, 0), stride_of(&p.w, 1), stride_of(&p.w, 2), stride_of(&p.w, 3),
                                   stride_of(&p.w, 4))
        s.filters, s.inputs, s.splits, s.row = <int> p.w.len[0], <int> p.w.len[1], q.g.splits, self.row(p, &q)
        for i in range(3):
            s.taps[i] = q.g.taps[i]
        grouped = KernelSpec("conv/cpu/grouped_weights.cl", "grouped_weights", **tokens)
        add = KernelSpec("conv/cpu/grouped_sum.cl", "sum_partial", X_TYPE=tokens["X_TYPE"], ACC=tokens["ACC"],
                         SCALAR=tokens["SCALAR"], LANES=q.each)
        if q.direct:
            grouped = self.direct(p, &q, "depthwise_weights")
        cdef Step first = Step(grouped, (
            Arg.slot_of(SLOT_X, size), Arg.slot_of(SLOT_Y, size), Arg.slot_of(SLOT_WORKSPACE, acc),
            struct_arg(&q.g, sizeof(q.g)),
            struct_arg(&images, sizeof(images))),
            (ceil_div(q.g.groups, q.g.together), q.g.splits), (1, 1))
        cdef Step second = Step(add, (
            Arg.slot_of(SLOT_WORKSPACE, acc), Arg.slot_of(SLOT_W, size),
            struct_arg(&s, sizeof(s)), Arg.alpha(wide), Arg.beta(wide)),
            (ceil_div(p.w.len[0], SUM_FILTERS),), (1,))
        return Solution([first, second], self.workspace_bytes(dev, p))
