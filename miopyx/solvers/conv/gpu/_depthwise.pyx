"""Depthwise convolutions on GPUs, and those with few channels a group: direct, one and two spatial axes.

A work-item computes VEC channels of TH x TW pixels at a time from pixels that it reads once; the filters are in local
memory.  With channels last the channels of neighbouring work-items are neighbours, otherwise the pixels are.  Backward
weights are split-K; a second launch adds the partial sums in a fixed order.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.values._integers cimport ceil_div, gcd, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_FLOAT, MX_FORWARD, MX_HALF, mx_conv_problem, mx_tensor,
)
from miopyx.solvers.conv._base cimport (
    DIRECT, GPU_TERMS, INT_LIMIT, ConvSolver, channels_contiguous, rows_contiguous, stride_of, sum_terms, terms_t,
)
from miopyx.solvers._tokens cimport type_token
from miopyx.solvers.conv.nvidia._common cimport divisor, mx_divisor, refuse_sizes, sum_partial, tensor_cores

cdef enum:
    GROUP = 256            # work-items of a work-group
    SIDE_LIMIT = 32        # of a filter
    SMALL_SIDE = 11        # larger filters have pixels in local memory, where rows are contiguous
    LARGE_ACROSS = 16      # tiles of a work-group side by side then, at most
    LARGE_SUMS = 64        # of a work-item
    CHANNELS_LIMIT = 32    # of a group
    COLUMNS_LIMIT = 64     # of x that a work-item holds of a row
    REGISTERS = 216        # of 256 that a work-item fills where compilers load a whole tile at once
    WHOLE_LIMIT = 144      # numbers of backward weights that it holds there
    WHOLE_SUMS = 40        # sums of them, with a stride, where strips are walked row by row
    UNROLLED = 25          # taps of a filter whose rows are not in a loop
    WEIGHTS_LIMIT = 8192   # floats in local memory
    SUMS_LIMIT = 50        # of backward weights that a work-item holds
    SUMS_TOGETHER = 32     # of them that a work-group adds up at once
    ROLL_SUMS_TOGETHER = 8  # where it walks row by row
    ROLL_GROUP = 128       # work-items of a work-group, where strips are walked row by row
    ROLL_GROUPS = 12       # work-groups a compute unit there
    LONG = 16              # rows of such a strip, at least
    SHORT = 4              # where there are few strips
    NARROW = 28            # columns of images whose strips are wide then
    ROLL_SIDE = 7          # of a filter
    ROLL_SUMS = 112        # of a work-item
    WHOLE_ROLL_SUMS = 96   # of the default one, where compilers load a whole tile at once
    MASK_BITS = 32         # what is moved of a row, a bit each
    ROLL_PRODUCTS = 1024   # of backward weights that are written out
    WHOLE_PRODUCTS = 640   # of pairs of columns there; of more, AMD's compiler (gfx90a, gfx942) keeps sums in memory
    REGISTERS_ALL = 256    # that a work-item has where these limits were found
    FEW_ROLL_NUMBERS = 64  # sums and pixels where it has fewer: of more Intel's compiler keeps sums in memory
    FEW_ROLL_PRODUCTS = 512  # and of more of these, written out
    RING = 6               # rows of x that it has room for in local memory, if they are not long
    RING_BYTES = 36 * 1024  # of a work-group
    GROUPS = 8             # work-groups a compute unit, where strips are long enough for a choice
    LANES = 32             # blocks of channels of a work-group, at most
    LANES_OF_GROUPS = 8    # where they share a group's inputs: then 128 bytes of filters at once
    LANES_OF_WEIGHTS = 64

cdef extern from "miopyx/kernels/conv/gpu/depthwise_args.h" nogil:
    ctypedef struct mx_depthwise:
        int lanes, items, blocks, sets
        int strips, across, down, chunks
        int each
        int outputs, inputs
        int h, w, p, q
        int first_h, first_w, skip_h, skip_w
        int x_n, x_c, x_h, x_w, y_n, y_c, y_h, y_w
        int w_g, w_o, w_i, w_r, w_s
        mx_divisor by_lanes, by_across, by_down
    ctypedef struct mx_depthwise_large:
        int images, channels
        int across, down, together
        int wide, high
        int rows, pitch
        int h, w, p, q, first_h, first_w
        int x_n, x_c, x_h, y_n, y_c, y_h
        int w_k, w_r, w_s, w_first
        mx_divisor by_pitch, by_rows, by_across, by_together

# A problem as the kernels see it: x is read and y written, or for backward weights read too.
cdef struct shape_t:
    const mx_tensor* x
    const mx_tensor* y
    int64_t inputs, outputs        # channels of a group
    bint last, depthwise, loop
    bint rolls                     # strips may be walked row by row
    bint large                     # conv/gpu/depthwise_large.cl
    bint whole                     # tiles are loaded at once: anywhere but on NVIDIA, whose compiler was measured
    int64_t per                    # columns that are moved at once then
    int64_t widest                 # channels that one work-item may take
    int64_t registers              # that it has

# What a work-item takes, and how many there are in a work-group.
cdef struct tile_t:
    int64_t vec, th, tw, inputs
    bint roll
    int64_t group


cdef int64_t _vector(int64_t channels, const mx_tensor* t) noexcept nogil:
    """The largest of 8, 4, 2, 1 channels that vectors of a tensor with channels last can have."""
    cdef int64_t all = channels | stride_of(t, 0) | stride_of(t, 3) | stride_of(t, 4)
    return 8 if all % 8 == 0 else 4 if all % 4 == 0 else 2 if all % 2 == 0 else 1


cdef int64_t _divisor_of(int64_t channels) noexcept nogil:
    return 8 if channels % 8 == 0 else 4 if channels % 4 == 0 else 2 if channels % 2 == 0 else 1


cdef int64_t _share(int64_t limit, const shape_t* s) noexcept nogil:
    """A limit of what registers hold, for as many as there are."""
    return limit * s.registers // REGISTERS_ALL


cdef shape_t _shape(const mx_conv_problem* p, int64_t registers) noexcept nogil:
    cdef shape_t s
    cdef bint backward = p.direction == MX_BACKWARD_DATA
    memset(&s, 0, sizeof(s))
    s.registers = registers
    s.x, s.y = &p.x, &p.y
    s.inputs, s.outputs = p.w.len[1], p.w.len[0] // p.groups
    if backward:
        s.x, s.y = s.y, s.x
        s.inputs, s.outputs = s.outputs, s.inputs
    s.depthwise = s.inputs == 1 and s.outputs == 1
    # Where there is one channel, or one pixel, either may be; the rows of NCHW are wider than its channels.
    s.last = channels_contiguous(s.x) and channels_contiguous(s.y) and not (
        rows_contiguous(s.x) and rows_contiguous(s.y) and s.x.len[1] == 1)
    s.loop = p.w.len[3] * p.w.len[4] > UNROLLED
    s.large = (s.depthwise and not s.last and max(p.w.len[3], p.w.len[4]) > SMALL_SIDE
               and p.direction != MX_BACKWARD_WEIGHTS and (not backward or (p.step[1] == 1 and p.step[2] == 1)))
    s.per = 1 if s.last or p.w.type == MX_FLOAT else 2
    s.rolls = _may_roll(p, &s)
    if s.depthwise:
        s.widest = min(_vector(p.x.len[1], s.x), _vector(p.x.len[1], s.y)) if s.last else 1
    else:
        s.widest = min(_divisor_of(s.outputs), _vector(s.y.len[1], s.y)) if s.last else _divisor_of(s.outputs)
    return s


cdef int64_t _unit(const mx_conv_problem* p, int64_t tw) noexcept nogil:
    """The step from one column to the next that a tile reads."""
    if p.direction == MX_BACKWARD_DATA:
        return p.dilation[2] if tw == 1 and p.step[2] == 1 else 1
    return p.dilation[2] if tw == 1 else gcd(p.step[2], p.dilation[2])


cdef int64_t _read(const mx_conv_problem* p, int axis, int64_t tile, int64_t taps, int64_t unit) noexcept nogil:
    """How many rows or columns of x a tile reads."""
    cdef int64_t step = p.step[axis], reach = (taps - 1) * p.dilation[axis]
    if p.direction == MX_BACKWARD_DATA:
        return ((tile - 1) // step + reach // step) // unit + 1
    return ((tile - 1) * step + reach) // unit + 1


cdef bint _pairs(const mx_tensor* t) noexcept nogil:
    """Whether a tensor's rows consist of pairs of neighbours."""
    return (t.len[4] | stride_of(t, 0) | stride_of(t, 1) | stride_of(t, 3)) % 2 == 0


cdef bint _may_roll(const mx_conv_problem* p, const shape_t* s) noexcept nogil:
    """Whether strips may be walked row by row; float32 of NCHW is no faster so."""
    return (s.depthwise and p.dilation[1] == 1 and p.dilation[2] == 1 and 1 < p.w.len[3] <= ROLL_SIDE
            and p.w.len[4] <= ROLL_SIDE and (s.last or (s.per == 2 and _pairs(s.x) and _pairs(s.y)))
            and (p.direction != MX_BACKWARD_DATA or (p.step[1] == 1 and p.step[2] == 1)))


cdef bint _sevens(const mx_conv_problem* p, const shape_t* s) noexcept nogil:
    """Whether strips of 7 columns may be better than those of 4, and have few columns outside."""
    return (s.last and p.w.type != MX_FLOAT and p.step[1] == 1 and p.step[2] == 1
            and 8 * up(s.y.len[4], 7) <= 9 * up(s.y.len[4], 4))


cdef int64_t _odd(const mx_conv_problem* p, const shape_t* s) noexcept nogil:
    """How many columns before those that a strip wants its first pair of columns begins."""
    return (p.pad[2] + (p.w.len[4] - 1 if p.direction == MX_BACKWARD_DATA else 0)) % s.per


cdef int64_t _columns(const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept nogil:
    """How many columns of x a row of a strip has, all that are moved."""
    return up((t.tw - 1) * p.step[2] + p.w.len[4] + _odd(p, s), s.per)


cdef bint _rolls(const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept nogil:
    """Whether they are: a tile is a row of few pixels then."""
    cdef int64_t keep = (p.w.len[3] - 1) // p.step[1] + 1, sums = keep * t.tw * t.vec
    if s.registers < REGISTERS_ALL and (
            sums + _columns(p, s, t) * t.vec > FEW_ROLL_NUMBERS or sums * p.w.len[3] * p.w.len[4] > FEW_ROLL_PRODUCTS):
        return False
    return (s.rolls and t.th == 1 and t.tw % s.per == 0 and sums <= ROLL_SUMS
            and _columns(p, s, t) <= MASK_BITS * s.per and t.vec * (4 if p.w.type == MX_FLOAT else 2) <= 16)


cdef bint _strip(const mx_conv_problem* p, const shape_t* s, tile_t* to) noexcept nogil:
    """The default tile of a strip that is walked row by row; False, and nothing, where too few registers hold one."""
    cdef tile_t t = to[0]
    cdef bint small = p.w.len[3] * p.w.len[4] <= 9
    t.vec, t.th, t.tw = min(4 if small else 2, s.widest), 1, (4 if s.last else 8)
    if _sevens(p, s) and (s.y.len[4] <= NARROW or not small) and (
            not s.whole or p.w.len[3] * 7 * t.vec <= WHOLE_ROLL_SUMS):
        t.tw = 7
    while s.registers < REGISTERS_ALL and not _rolls(p, s, &t):
        if t.vec > 2 or t.tw == s.per:
            t.vec //= 2
        else:
            t.tw = up(t.tw // 2, s.per)
        if t.tw * t.vec <= s.per:  # one column is no strip
            return False
    to[0] = t
    return True


cdef int64_t _row_bytes(const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept nogil:
    """Local memory for a row of all strips of a work-group."""
    cdef int64_t columns = _columns(p, s, t)
    if p.direction == MX_BACKWARD_WEIGHTS:
        columns += t.tw
    return columns * t.vec * t.group * (4 if p.w.type == MX_FLOAT else 2)


cdef int64_t _ring(Device dev, const mx_conv_problem* p, const shape_t* s, const tile_t* t, int64_t rest) noexcept:
    """How many rows there is room for, beside the `rest` of local memory."""
    return max(2, min(RING, min(RING_BYTES, dev.local_mem - rest) // _row_bytes(p, s, t)))


cdef int64_t _lanes(const shape_t* s, const tile_t* t, int64_t blocks, int64_t taps) noexcept nogil:
    """How many blocks of channels a work-group takes: as few idle ones as can be."""
    cdef int64_t most = 1, lanes, sets
    if not s.last:
        return 1
    most = LANES if s.depthwise else LANES_OF_GROUPS
    while most > 1 and taps * s.inputs * most * t.vec > WEIGHTS_LIMIT:
        most //= 2
    if blocks <= most:
        return blocks
    for lanes in range(most, most // 2, -1):
        sets = ceil_div(blocks, lanes)
        if sets * lanes == blocks:
            return lanes
    return most


cdef void _set_operands(mx_depthwise* g, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept nogil:
    """Everything but the strips and what belongs to a direction."""
    memset(g, 0, sizeof(mx_depthwise))
    g.outputs, g.inputs = <int> s.outputs, <int> s.inputs
    g.h, g.w, g.p, g.q = <int> s.x.len[3], <int> s.x.len[4], <int> s.y.len[3], <int> s.y.len[4]
    g.x_n, g.x_c, g.x_h, g.x_w = (
        <int> stride_of(s.x, 0), <int> stride_of(s.x, 1), <int> stride_of(s.x, 3), <int> stride_of(s.x, 4))
    g.y_n, g.y_c, g.y_h, g.y_w = (
        <int> stride_of(s.y, 0), <int> stride_of(s.y, 1), <int> stride_of(s.y, 3), <int> stride_of(s.y, 4))


cdef void _set_strips(
    mx_depthwise* g, const tile_t* t, int64_t lanes, int64_t blocks, int64_t images, int64_t groups, int64_t least
) noexcept nogil:
    """Strips of all images, as long as `groups` work-groups, or as many as there can be, allow."""
    cdef int64_t rows = ceil_div(g.p + g.skip_h, t.th), one
    g.lanes, g.items, g.blocks = <int> lanes, <int> (t.group // lanes), <int> blocks
    g.sets = <int> ceil_div(blocks, lanes)
    g.across = <int> ceil_div(g.q + g.skip_w, t.tw)
    one = max(1, g.sets * images * g.across // g.items)
    g.chunks = <int> max(1, min(rows, rows * one // groups))
    if g.chunks < least:
        g.chunks = <int> (min(rows, least) if t.roll else 1)
    g.down = <int> ceil_div(rows, g.chunks)
    g.chunks = <int> ceil_div(rows, g.down)
    g.strips = <int> (images * g.down * g.across)
    g.by_lanes, g.by_across, g.by_down = divisor(lanes), divisor(g.across), divisor(g.down)


cdef int64_t _window(const mx_conv_problem* p, int64_t tw) noexcept nogil:
    """Columns of x that a tile reads, as conv/gpu/depthwise_large.cl has them."""
    return up((tw - 1) * p.step[2] + (p.w.len[4] - 1) * p.dilation[2] + 1, 4)


cdef mx_depthwise_large _large(Device dev, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept nogil:
    """The operands: as many tiles in a work-group as it and local memory have room for; none `together` for none."""
    cdef mx_depthwise_large g
    cdef bint backward = p.direction == MX_BACKWARD_DATA
    cdef int64_t tall = (p.w.len[3] - 1) * p.dilation[1], long_ = (p.w.len[4] - 1) * p.dilation[2]
    cdef int64_t columns = ceil_div(s.y.len[4], t.tw), lines = ceil_div(s.y.len[3], t.th), fitting
    cdef int64_t room = dev.local_mem // 4 - p.w.len[3] * up(p.w.len[4], 4) - 4
    memset(&g, 0, sizeof(g))
    g.images, g.channels = <int> s.y.len[0], <int> s.y.len[1]
    g.h, g.w, g.p, g.q = <int> s.x.len[3], <int> s.x.len[4], <int> s.y.len[3], <int> s.y.len[4]
    g.x_n, g.x_c, g.x_h = <int> stride_of(s.x, 0), <int> stride_of(s.x, 1), <int> stride_of(s.x, 3)
    g.y_n, g.y_c, g.y_h = <int> stride_of(s.y, 0), <int> stride_of(s.y, 1), <int> stride_of(s.y, 3)
    g.w_k, g.w_r, g.w_s = <int> p.w.stride[0], <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4)
    g.first_h, g.first_w = -<int> p.pad[1], -<int> p.pad[2]
    if backward:
        g.w_first = <int> ((p.w.len[3] - 1) * g.w_r + (p.w.len[4] - 1) * g.w_s)
        g.w_r, g.w_s = -g.w_r, -g.w_s
        g.first_h, g.first_w = <int> (p.pad[1] - tall), <int> (p.pad[2] - long_)
    g.wide = <int> ceil_div(columns, LARGE_ACROSS)
    g.high = <int> ceil_div(lines, GROUP // ceil_div(columns, g.wide))
    while True:
        g.across, g.down = <int> ceil_div(columns, g.wide), <int> ceil_div(lines, g.high)
        g.pitch = <int> up((g.across - 1) * t.tw * p.step[2] + _window(p, t.tw), 4)
        g.rows = <int> min((g.down * t.th - 1) * p.step[1] + tall + 1, g.h)
        fitting = room // (g.pitch * g.rows)
        if fitting > 0 or (g.across == 1 and g.down == 1):
            break
        if g.down > 1:
            g.high = <int> ceil_div(lines, g.down - 1)
        else:
            g.wide = <int> ceil_div(columns, g.across - 1)
    g.together = <int> min(min(g.images, fitting), GROUP // (g.across * g.down))
    if g.together:
        g.by_pitch, g.by_rows = divisor(g.pitch), divisor(g.rows)
        g.by_across, g.by_together = divisor(g.across), divisor(g.together)
    return g


cdef class _Depthwise(ConvSolver):
    def __cinit__(self):
        self.algorithm = DIRECT
        self.dynamic = self.deterministic = True

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef shape_t s
        cdef tile_t t
        cdef str why
        if not dev.is_gpu or dev.max_work_group < GROUP:
            return "needs a GPU with large work-groups"
        if p.w.type != MX_HALF and p.w.type != MX_BFLOAT16 and p.w.type != MX_FLOAT:
            return "data type"
        if p.groups == 1:
            return "one group"
        why = refuse_sizes(p, 0)
        if why is not None:
            return why
        s = self.shape(dev, p)
        if max(s.inputs, s.outputs) > CHANNELS_LIMIT:
            return "many channels a group"
        if max(p.w.len[3], p.w.len[4]) > SIDE_LIMIT or s.inputs * p.w.len[3] * p.w.len[4] > WEIGHTS_LIMIT // 8:
            return "a large filter"
        if not s.last and not (rows_contiguous(&p.x) and rows_contiguous(&p.y)):
            return "neither channels nor rows are contiguous"
        if max(p.step[1], p.step[2]) > 8 or max(p.dilation[1], p.dilation[2]) > 16:
            return "a large stride or dilation"
        t = self.tile_of(p, &s)
        if not self.holds(p, &s, &t):
            return "a large stride or dilation"
        if not self.has_room(dev, p, &s, &t):
            return "local memory"
        return None

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        # With few channels a group, tiles of other solvers are mostly padding, those of tensor cores, too.
        return 4 if max(p.w.len[1], p.w.len[0] // p.groups) <= (16 if p.w.type == MX_FLOAT else 8) else 0.5

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        return sum_terms(p)    # which `refuse` limits

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        cdef tuple own = self.default(dev, p)
        return (("VEC", (1, 2, 4, 8)), ("TH", tuple(sorted({1, 2, 4, 8, own[1]}))),
                ("TW", tuple(sorted({1, 2, 4, 7, 8, own[2]}))))

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        cdef shape_t s = self.shape(dev, p)
        cdef tile_t t = self.tile(p, &s, config)
        return config == self.default(dev, p) or (
            self.holds(p, &s, &t) and self.has_room(dev, p, &s, &t))

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        cdef shape_t s = self.shape(dev, p)
        cdef tile_t t = self.tile_of(p, &s)
        return (t.vec, t.th, t.tw)

    cdef int64_t local_bytes(self, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        """Local memory of a work-group, but for rows of strips."""
        raise NotImplementedError

    cdef bint has_room(self, Device dev, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        """Whether a work-group's local memory is enough."""
        return self.local_bytes(p, s, t) + (2 * _row_bytes(p, s, t) if t.roll else 0) <= dev.local_mem

    cdef shape_t shape(self, Device dev, const mx_conv_problem* p) noexcept:
        """The problem as this device's kernels see it: rows on their way need local memory."""
        cdef shape_t s = _shape(p, dev.work_item_registers)
        cdef tile_t t
        s.whole = not tensor_cores(dev)
        if s.rolls:
            t = self.tile_of(p, &s)
            s.rolls = t.roll and self.has_room(dev, p, &s, &t)
        return s

    cdef int64_t inputs_of(self, const shape_t* s, int64_t vec) noexcept:
        """How many inputs are read at once."""
        if s.depthwise:
            return vec
        return min(2, _divisor_of(s.inputs), _vector(s.x.len[1], s.x)) if s.last else 1

    cdef bint rolls(self, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        """Whether strips are walked row by row."""
        return _rolls(p, s, t)

    cdef dict roll_options(self, Device dev, const mx_conv_problem* p, const shape_t* s, const tile_t* t):
        if not t.roll:
            return {"ROLL": 0}
        return {"ROLL": 1, "RING": _ring(dev, p, s, t, self.local_bytes(p, s, t)), "ODD": _odd(p, s), "GROUP": t.group}

    cdef tile_t tile(self, const mx_conv_problem* p, const shape_t* s, tuple config):
        cdef tile_t t
        t.vec, t.th, t.tw = config
        t.inputs = self.inputs_of(s, t.vec)
        self.set_group(p, s, &t)
        return t

    cdef void set_group(self, const mx_conv_problem* p, const shape_t* s, tile_t* t) noexcept:
        t.roll = self.rolls(p, s, t)
        t.group = ROLL_GROUP if t.roll else GROUP

    cdef bint holds(self, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        """Whether a tile suits the problem and the registers."""
        raise NotImplementedError

    cdef bint suits(self, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        """Whether it is small enough for the default one, where compilers load it whole."""
        raise NotImplementedError

    cdef tile_t tile_of(self, const mx_conv_problem* p, const shape_t* s) noexcept:
        raise NotImplementedError


cdef class _DepthwiseData(_Depthwise):
    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        ConvSolver.cost_terms(self, dev, p, terms)
        if self.shape(dev, p).large:
            (<terms_t*> terms).columns = 0    # each pixel is read once, not for each tap

    cdef int64_t weights(self, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        """How many a work-group holds in local memory."""
        cdef int64_t taps = p.w.len[3] * p.w.len[4], count = 256
        cdef int64_t needed = taps * s.inputs * _lanes(s, t, s.y.len[1] // t.vec, taps) * t.vec
        while count < min(needed, 1024):
            count *= 2
        return up(max(needed, count), min(count, 1024))

    cdef int64_t local_bytes(self, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        return 4 * self.weights(p, s, t) + 4

    cdef bint holds(self, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        cdef int64_t columns = _read(p, 2, t.tw, p.w.len[4], _unit(p, t.tw)), rows
        if s.large:
            return t.vec == 1 and t.th * t.tw <= LARGE_SUMS and _window(p, t.tw) <= COLUMNS_LIMIT
        if t.vec > s.widest or t.th * t.tw * t.vec > 128 or columns > COLUMNS_LIMIT:
            return False
        if p.direction == MX_BACKWARD_DATA and (t.tw % p.step[2] != 0 or (t.th % p.step[1] != 0 and not s.loop)):
            return False
        if s.loop:
            return t.th == 1 and t.tw * t.vec <= 32
        rows = _read(p, 1, t.th, p.w.len[3], 1)
        return min(rows, t.th * p.w.len[3]) * min(columns, t.tw * p.w.len[4]) * t.inputs <= 256

    cdef bint suits(self, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        cdef int64_t columns = _read(p, 2, t.tw, p.w.len[4], _unit(p, t.tw))
        cdef int64_t sums = t.th * t.tw * t.vec, most = _share(REGISTERS, s), read, taps
        if not self.holds(p, s, t):
            return False
        if not s.whole or s.large or self.rolls(p, s, t):
            return True
        # Of each that is read the address and the conversions, of each sum itself; as AMD's compiler was seen to do it.
        if s.loop:
            return columns * (2 + t.inputs + (0 if p.w.type == MX_FLOAT else t.inputs // 2)) + sums <= most
        read = _read(p, 1, t.th, p.w.len[3], 1) * columns
        if s.depthwise:
            return read * (4 + t.inputs) + sums <= most
        # Filters too are read ahead where nothing is converted.
        taps = p.w.len[3] * p.w.len[4] * t.inputs * t.vec if p.w.type == MX_FLOAT else 0
        return read * (2 + 3 * t.inputs) + taps // 2 + sums <= most

    cdef tile_t tile_of(self, const mx_conv_problem* p, const shape_t* s) noexcept:
        cdef tile_t t
        cdef bint backward = p.direction == MX_BACKWARD_DATA
        # What was fastest, see docs/h200/groups.md.
        t.vec = min(4, s.widest)
        if s.rolls and _strip(p, s, &t):
            pass  # t is it
        elif s.large:
            t.vec, t.th, t.tw = 1, 4, 4
        elif s.loop:
            t.vec, t.th, t.tw = min(2, s.widest), 1, (8 if s.last else 4)
            if s.depthwise and p.w.len[4] > SMALL_SIDE and p.w.type != MX_FLOAT:
                t.vec = min(4, s.widest)
        elif not s.depthwise:
            t.vec = s.widest
            t.th, t.tw = (2, 2) if t.vec == 8 else (4, 4) if s.last else (4, 2)
        elif s.last:
            t.th, t.tw = 2, (2 if p.w.len[4] <= 3 and (not backward or p.step[2] == 1) else 4)
        else:
            t.th, t.tw = (8 if p.w.len[3] <= 3 else 4), 2
        t.inputs = self.inputs_of(s, t.vec)
        if backward and not s.large:
            t.tw = up(t.tw, p.step[2])
            if not s.loop:
                t.th = up(t.th, p.step[1])
        while s.whole and s.loop and s.depthwise and t.vec > 1 and self.holds(p, s, &t) and not self.suits(p, s, &t):
            t.vec //= 2
            t.inputs = self.inputs_of(s, t.vec)
        # Strides and dilations make tiles read more than they should hold: smaller ones then.
        while not self.suits(p, s, &t):
            if t.th > (p.step[1] if backward and not s.loop else 1):
                t.th = up(ceil_div(t.th, 2), p.step[1] if backward else 1)
            elif t.tw > (p.step[2] if backward else 1):
                t.tw = up(ceil_div(t.tw, 2), p.step[2] if backward else 1)
            elif t.vec > 1:
                t.vec //= 2
                t.inputs = self.inputs_of(s, t.vec)
            else:
                break
        self.set_group(p, s, &t)
        return t

    cdef bint has_room(self, Device dev, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        if s.large:
            return _large(dev, p, s, t).together > 0
        return _Depthwise.has_room(self, dev, p, s, t)

    cdef Solution large_steps(self, Device dev, const mx_conv_problem* p, const shape_t* s, const tile_t* t):
        cdef mx_depthwise_large g = _large(dev, p, s, t)
        cdef bint backward = p.direction == MX_BACKWARD_DATA
        cdef int64_t size = 4 if p.w.type == MX_FLOAT else 2, group = up(g.across * g.down * g.together, 32)
        spec = KernelSpec(
            "conv/gpu/depthwise_large.cl", "conv_depthwise_large", X_TYPE=type_token(p.w.type), TH=t.th, TW=t.tw,
            R=p.w.len[3], S=p.w.len[4], STEP_H=p.step[1], STEP_W=p.step[2], TAP_H=p.dilation[1], TAP_W=p.dilation[2],
            PIXELS=g.together * g.rows * g.pitch, GROUP=group)
        args = (Arg.slot_of(SLOT_Y if backward else SLOT_X, size), Arg.slot_of(SLOT_W, size),
                Arg.slot_of(SLOT_X if backward else SLOT_Y, size),
                struct_arg(&g, sizeof(g)), Arg.alpha(False), Arg.beta(False))
        groups = g.wide * g.high * g.channels * ceil_div(g.images, g.together)
        return Solution([Step(spec, args, (groups * group,), (group,))])

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef shape_t s = self.shape(dev, p)
        cdef tile_t t = self.tile(p, &s, config)
        if s.large:
            return self.large_steps(dev, p, &s, &t)
        cdef mx_depthwise g
        cdef bint backward = p.direction == MX_BACKWARD_DATA, carries
        cdef int64_t taps = p.w.len[3] * p.w.len[4], lanes, blocks
        cdef int64_t size = 4 if p.w.type == MX_FLOAT else 2
        _set_operands(&g, p, &s, &t)
        blocks = s.y.len[1] // t.vec
        lanes = _lanes(&s, &t, blocks, taps)
        if backward:
            g.skip_h, g.skip_w = 0 if s.loop else <int> (p.pad[1] % p.step[1]), <int> (p.pad[2] % p.step[2])
            g.first_h, g.first_w = <int> (p.pad[1] if s.loop else p.pad[1] // p.step[1]), <int> (p.pad[2] // p.step[2])
            g.w_o, g.w_i = <int> p.w.stride[1], <int> p.w.stride[0]
        else:
            g.first_h, g.first_w = -<int> p.pad[1], -<int> p.pad[2]
            g.w_o, g.w_i = <int> p.w.stride[0], <int> p.w.stride[1]
        g.w_g = <int> (p.w.len[0] // p.groups * p.w.stride[0])
        g.w_r, g.w_s = <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4)
        # A strip of fewer than four tiles is not worth what it takes to go down one.
        carries = s.depthwise and s.last and not s.loop and not t.roll and p.step[1] == 1
        if t.roll:
            # Long strips, if there are enough of them.
            _set_strips(&g, &t, lanes, blocks, s.y.len[0], ROLL_GROUPS * max(1, dev.compute_units), LONG)
            if g.sets * ceil_div(g.strips, g.items) < dev.compute_units:
                _set_strips(&g, &t, lanes, blocks, s.y.len[0], max(1, dev.compute_units), SHORT)
        else:
            _set_strips(&g, &t, lanes, blocks, s.y.len[0], GROUPS * max(1, dev.compute_units),
                        4 if carries else 2 if s.loop and s.last else INT_LIMIT)
        spec = KernelSpec(
            "conv/gpu/depthwise.cl", "conv_depthwise", X_TYPE=type_token(p.w.type), CHANNELS_LAST=int(s.last),
            BACKWARD=int(backward), DEPTHWISE=int(s.depthwise), VEC=t.vec, IN=t.inputs, TH=t.th, TW=t.tw,
            R=p.w.len[3], S=p.w.len[4], STEP_H=p.step[1], STEP_W=p.step[2], TAP_H=p.dilation[1], TAP_W=p.dilation[2],
            UNIT=_unit(p, t.tw), LOOP=int(s.loop and not t.roll), CHUNKED=int(g.chunks > 1 and not t.roll),
            CARRY=int(carries and g.chunks > 1),
            WEIGHTS=self.weights(p, &s, &t), **self.roll_options(dev, p, &s, &t))
        args = (Arg.slot_of(SLOT_Y if backward else SLOT_X, size), Arg.slot_of(SLOT_W, size),
                Arg.slot_of(SLOT_X if backward else SLOT_Y, size),
                struct_arg(&g, sizeof(g)), Arg.alpha(False), Arg.beta(False))
        return Solution([Step(spec, args, (g.sets * ceil_div(g.strips, g.items) * t.group,), (t.group,))])


cdef class DepthwiseFwd(_DepthwiseData):
    """Forward in one launch, no workspace."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1111, "DepthwiseFwd", MX_FORWARD


cdef class DepthwiseBwd(_DepthwiseData):
    """Backward data in one launch: which taps meet a pixel is known when the kernel is built."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1112, "DepthwiseBwd", MX_BACKWARD_DATA


cdef class DepthwiseWrw(_Depthwise):
    """Backward weights, split-K over the batch's tiles; a second launch adds the partial sums in a fixed order."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1113, "DepthwiseWrw", MX_BACKWARD_WEIGHTS

    cdef int64_t inputs_of(self, const shape_t* s, int64_t vec) noexcept:
        return vec if s.depthwise else 1

    cdef int64_t local_bytes(self, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        return 4 * (ROLL_SUMS_TOGETHER if t.roll else SUMS_TOGETHER) * t.group

    cdef int64_t rows(self, const mx_conv_problem* p, const shape_t* s, int64_t vec) noexcept:
        """Rows of the filter that a work-item sums."""
        return min(p.w.len[3], max(1, _share(SUMS_LIMIT, s) // (p.w.len[4] * vec)))

    cdef bint rolls(self, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        """A work-item sums all rows of the filter then, and all of its products are written out."""
        return (s.registers == REGISTERS_ALL and _rolls(p, s, t) and self.rows(p, s, t.vec) == p.w.len[3]
                and p.w.len[3] * p.w.len[3] * p.w.len[4] * t.tw * t.vec <= ROLL_PRODUCTS)

    cdef bint holds(self, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        cdef int64_t columns = _read(p, 2, t.tw, p.w.len[4], _unit(p, t.tw)), taps = self.rows(p, s, t.vec), rows
        if t.vec > s.widest or t.th * t.tw * t.vec > 64 or columns > COLUMNS_LIMIT:
            return False
        if taps * p.w.len[4] * t.vec > 64:
            return False
        rows = _read(p, 1, t.th, taps, 1)
        return min(rows, t.th * taps) * min(columns, t.tw * p.w.len[4]) * t.inputs <= 192

    cdef bint suits(self, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        cdef int64_t columns = _read(p, 2, t.tw, p.w.len[4], _unit(p, t.tw)), taps = self.rows(p, s, t.vec)
        cdef int64_t rows = _read(p, 1, t.th, taps, 1)
        return self.holds(p, s, t) and (
            not s.whole or min(rows, t.th * taps) * min(columns, t.tw * p.w.len[4]) * t.inputs
            + (taps * p.w.len[4] + t.th * t.tw) * t.vec <= _share(WHOLE_LIMIT, s))

    cdef tile_t tile_of(self, const mx_conv_problem* p, const shape_t* s) noexcept:
        cdef tile_t t
        cdef int64_t products
        # What was fastest, see docs/h200/groups.md.
        t.vec, t.th, t.tw = min(2, s.widest), 1, (4 if s.last else 8)
        if _sevens(p, s) and p.w.len[3] <= 3:
            t.tw = 7
        elif s.last and p.step[1] > 1 and p.w.type != MX_FLOAT:
            t.vec, t.tw = min(4, s.widest), 2
        if s.whole and p.step[1] > 1 and p.w.len[3] * p.w.len[4] * t.vec > WHOLE_SUMS:
            t.vec = 1
        t.inputs = self.inputs_of(s, t.vec)
        products = ((p.w.len[3] - 1) // p.step[1] + 1) * p.w.len[3] * p.w.len[4] * t.tw * t.vec
        if self.rolls(p, s, &t) and self.holds(p, s, &t) and not (
                s.whole and s.per > 1 and products > WHOLE_PRODUCTS):
            self.set_group(p, s, &t)
            return t
        t.vec = min(4, s.widest)
        if not s.depthwise or p.step[2] > 1:
            t.th, t.tw = 2, 2
        elif s.loop:
            t.vec, t.th, t.tw = 1, (4 if s.last else 8), (2 if s.last else 1)
            if p.w.len[4] > SMALL_SIDE:
                # What registers have room for.
                t.vec, t.th, t.tw = (min(2, s.widest) if p.w.type != MX_FLOAT else 1), 1, 4
        elif s.last:
            t.vec, t.th, t.tw = (t.vec if p.w.len[4] <= 3 else min(2, s.widest)), 2, 4
        else:
            t.th, t.tw = (8, 2) if p.w.len[3] <= 3 else (2, 4)
        t.inputs = self.inputs_of(s, t.vec)
        while not self.suits(p, s, &t):
            if self.rows(p, s, t.vec) * p.w.len[4] * t.vec > 64 and t.vec > 1:
                t.vec //= 2
                t.inputs = self.inputs_of(s, t.vec)
            elif t.th > 1:
                t.th //= 2
            elif t.tw > 1:
                t.tw //= 2
            elif t.vec > 1:
                t.vec //= 2
                t.inputs = self.inputs_of(s, t.vec)
            else:
                break
        self.set_group(p, s, &t)
        return t

    cdef mx_depthwise plan(self, Device dev, const mx_conv_problem* p, const shape_t* s, const tile_t* t) noexcept:
        """The operands; `each` is a limit of the splits here."""
        cdef mx_depthwise g
        cdef int64_t blocks = p.w.len[0] // t.vec * (1 if s.depthwise else s.inputs)
        cdef int64_t groups, rows, lanes, wanted, rounds, needed
        cdef tile_t least = t[0]
        least.th = least.tw = 1
        _set_operands(&g, p, s, t)
        g.first_h, g.first_w = -<int> p.pad[1], -<int> p.pad[2]
        lanes = self.lanes_of(s, blocks)
        groups = max(1, dev.compute_units)
        groups *= 4 if not s.last and not t.roll else 1 if s.depthwise and t.vec >= 4 and not t.roll else 2
        rows = up(p.w.len[3], self.rows(p, s, t.vec)) // self.rows(p, s, t.vec)
        # Strips that are walked row by row are as long as can be.
        wanted = max(1, groups // 2 if t.roll else groups // rows)
        # The workspace has room for the splits of the least tile.
        _set_strips(&g, &least, lanes, blocks, p.y.len[0], wanted, 1)
        rounds = ceil_div(g.strips, g.items)
        # And more than fill the device where a work-item would sum too many terms.
        needed = ceil_div(rounds * g.chunks, GPU_TERMS)
        _set_strips(&g, t, lanes, blocks, p.y.len[0], wanted, 1)
        rounds = min(rounds, ceil_div(g.strips, g.items))
        # As many groups as the device works on at once: more would only leave more partial sums to add.
        g.each = <int> max(1, min(max(needed, groups // (g.sets * rows)), rounds))
        return g

    cdef int64_t lanes_of(self, const shape_t* s, int64_t blocks) noexcept:
        cdef int64_t lanes
        if not s.last:
            return 1
        if blocks <= LANES_OF_WEIGHTS:
            return blocks
        for lanes in range(LANES_OF_WEIGHTS, LANES_OF_WEIGHTS // 2, -1):
            if blocks % lanes == 0:
                return lanes
        return LANES_OF_WEIGHTS

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        # Of whole strips a work-item has GPU_TERMS, and one more; work-items' sums are added in a tree, then splits.
        cdef shape_t s = self.shape(dev, p)
        cdef tile_t t = self.tile_of(p, &s)
        cdef mx_depthwise g = self.plan(dev, p, &s, &t)
        cdef double strip = <double> g.chunks * t.th * t.tw, rounds = ceil_div(g.strips, g.items)
        return min(sum_terms(p), (rounds / g.each + 1) * strip) + 8 + g.each

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        """Room for the most splits that any configuration takes."""
        cdef shape_t s = self.shape(dev, p)
        cdef tile_t t
        cdef mx_depthwise g
        cdef int64_t most = 0
        for t.roll in range(1 + s.rolls):
            t.group = ROLL_GROUP if t.roll else GROUP
            t.vec, t.th, t.tw = 1, 1, 1
            while t.vec <= s.widest:
                g = self.plan(dev, p, &s, &t)
                most = max(most, g.each)
                t.vec *= 2
        return most * p.w.len[0] * p.w.len[1] * p.w.len[3] * p.w.len[4] * 4

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef shape_t s = self.shape(dev, p)
        cdef tile_t t = self.tile(p, &s, config)
        cdef mx_depthwise g
        cdef int64_t rows, rounds, splits, columns = p.w.len[1] * p.w.len[3] * p.w.len[4]
        cdef int64_t size = 4 if p.w.type == MX_FLOAT else 2
        rows = self.rows(p, &s, t.vec)
        g = self.plan(dev, p, &s, &t)
        rounds = ceil_div(g.strips, g.items)
        g.each = <int> (ceil_div(rounds, g.each) * g.items)
        splits = ceil_div(g.strips, g.each)
        spec = KernelSpec(
            "conv/gpu/depthwise_weights.cl", "conv_depthwise_weights", X_TYPE=type_token(p.w.type),
            CHANNELS_LAST=int(s.last), DEPTHWISE=int(s.depthwise), VEC=t.vec, TH=t.th, TW=t.tw, R=p.w.len[3],
            S=p.w.len[4], RR=rows, STEP_H=p.step[1], STEP_W=p.step[2], TAP_H=p.dilation[1], TAP_W=p.dilation[2],
            UNIT=_unit(p, t.tw), **self.roll_options(dev, p, &s, &t))
        args = (Arg.slot_of(SLOT_X, size), Arg.slot_of(SLOT_Y, size), Arg.slot_of(SLOT_WORKSPACE, 4),
                struct_arg(&g, sizeof(g)))
        groups = g.sets * ceil_div(p.w.len[3], rows) * splits
        return Solution([Step(spec, args, (groups * t.group,), (t.group,)),
                         sum_partial(p, splits, 0, columns, p.w.len[3] * p.w.len[4], 1)], self.workspace_bytes(dev, p))
