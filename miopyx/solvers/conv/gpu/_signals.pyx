"""Convolutions of signals on GPUs: filters of one row, one input channel a group, rows contiguous.

Depthwise ones compute tiles of four columns from pixels in local memory; many filters on a channel, and large strides
and dilations, have neighbouring columns in neighbouring work-items.  Backward data of these adds what each column of
dy contributes in local memory.  Backward weights are split-K; a second launch adds the partial sums in a fixed order.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_FLOAT, MX_FORWARD, MX_HALF, mx_conv_problem,
)
from miopyx.solvers.conv._base cimport DIRECT, GPU_TERMS, ConvSolver, rows_contiguous, stride_of, sum_terms, terms_t
from miopyx.solvers._tokens cimport type_token
from miopyx.solvers.conv.nvidia._common cimport divisor, mx_divisor, refuse_sizes, sum_partial

cdef enum:
    GROUP = 256            # work-items of a work-group, without tiles
    TILES_LIMIT = 384      # of a work-group
    SUMS_TILES = 192       # where each has many sums
    WARP = 32
    TAPS_LIMIT = 64
    STEP_LIMIT = 16
    WINDOW_LIMIT = 80      # columns of x that a tile holds
    MANY = 16              # taps: more are many sums
    TILE_SUMS = 40         # of backward weights that a work-item with tiles holds
    IN_REGISTERS = 64      # columns of x of a work-item without tiles
    SUMS = 48              # of backward weights of a work-item without tiles
    FILTERS = 8            # of it
    AHEAD = 4              # columns of dy that it reads at once
    LOADS = 16             # of dy at once
    PARTS = 8              # of a work-group, with different filters
    WEIGHTS = 2048         # floats of taps in local memory
    POSITIONS = 512        # columns of dy of a unit of backward weights
    PIXELS = 8192          # floats of x in local memory
    BATCH = 8              # sums that are added in local memory at once
    SHORT = 64             # columns of a line that leaves most of a work-group idle
    # Work-groups a compute unit, where there are enough units.
    TILE_GROUPS = 48
    FILTER_GROUPS = 8
    WEIGHT_GROUPS = 24
    SPLIT_GROUPS = 12

cdef extern from "miopyx/kernels/conv/gpu/signals_args.h" nogil:
    ctypedef struct mx_signal:
        int channels, filters
        int units, segments
        int each, blocks
        int own
        int width, height, q, first
        int x_n, x_c, x_h, y_n, y_c, y_h
        int w_k, w_s, w_first
        mx_divisor by_segments, by_height

# How a work-group is made up.
cdef struct layout_t:
    bint tiles
    bint scatters          # backward data from columns of dy
    int64_t group
    int64_t columns        # of a work-item, GROUP apart; backward weights: of a unit
    int64_t filters        # of a work-item of backward weights
    int64_t lanes          # work-items with the same filters
    int64_t ahead          # columns of dy that a work-item of backward weights reads at once
    int64_t weights        # floats of taps in local memory
    int64_t local          # bytes of local memory


cdef int64_t _reach(const mx_conv_problem* p) noexcept nogil:
    return (p.w.len[4] - 1) * p.dilation[2]


cdef int64_t _room(int64_t floats) noexcept nogil:
    """Few sizes of local memory for taps, so that there are few programs."""
    cdef int64_t room = 256
    while room < min(floats, WEIGHTS):
        room *= 2
    return room


cdef int64_t _splits(int64_t units, int64_t blocks, int64_t groups) noexcept nogil:
    """Of all units, so that there are `groups` work-groups if that can be."""
    return max(1, min(units, ceil_div(groups, blocks)))


cdef void _set_segments(mx_signal* g, int64_t lines, int64_t segments) noexcept nogil:
    g.segments, g.units = <int> segments, <int> (lines * segments)
    g.by_segments = divisor(segments)


cdef class _Signal(ConvSolver):
    def __cinit__(self):
        self.algorithm = DIRECT
        self.dynamic = self.deterministic = True

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef layout_t form
        cdef str why
        if not dev.is_gpu or dev.max_work_group < GROUP:
            return "needs a GPU with large work-groups"
        if p.w.type != MX_HALF and p.w.type != MX_BFLOAT16 and p.w.type != MX_FLOAT:
            return "data type"
        if p.w.len[1] != 1:
            return "several channels a group"
        why = refuse_sizes(p, 0, False, True)
        if why is not None:
            return why
        if p.w.len[2] != 1 or p.w.len[3] != 1 or p.pad[1] != 0 or p.step[1] != 1:
            return "not a filter of one row"
        if p.w.len[4] > TAPS_LIMIT:
            return "a large filter"
        if not (rows_contiguous(&p.x) and rows_contiguous(&p.y)):
            return "rows are not contiguous"
        if p.step[2] > STEP_LIMIT:
            return "a large stride"
        form = self.layout(dev, p)
        if form.scatters and p.w.len[0] // p.groups > GPU_TERMS:
            return "many filters a channel"
        if form.scatters and 4 * self.shared(p) > 3 * form.columns * GROUP:  # units would mostly overlap
            return "a large dilation"
        if form.local > dev.local_mem:
            return "local memory"
        return None

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        # Beside direct solvers of images, 4.
        return 5 if min(p.x.len[4], p.y.len[4]) >= SHORT else 1

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        ConvSolver.cost_terms(self, dev, p, terms)
        (<terms_t*> terms).columns = 0  # each pixel is read once, not for each tap

    cdef int64_t shared(self, const mx_conv_problem* p) noexcept:
        """Columns of dy that are read for two neighbouring units of dx."""
        return ceil_div(_reach(p), p.step[2]) + 1

    cdef int64_t window(self, const mx_conv_problem* p) noexcept:
        """Columns of x that a tile reads, wherever they begin."""
        return up(4 + 3 * p.step[2] + _reach(p), 4)

    cdef void set_tiles(self, const mx_conv_problem* p, int64_t columns, int64_t most, layout_t* form) noexcept:
        """A work-group of `most` tiles or less: few idle ones and few units."""
        cdef int64_t tiles = ceil_div(columns + 3, 4), group, least = 0, spent
        form.tiles, form.columns, form.filters = True, 4, 1
        for group in range(WARP, most + 1, WARP):
            spent = ceil_div(tiles, group) * (group + WARP)
            if least == 0 or spent <= least:
                least, form.group = spent, group
        form.lanes = form.group
        form.local = 2 * 16 * (p.step[2] * (form.group - 1) + self.window(p) // 4) + 4 * up(p.w.len[4], 4) + 4

    cdef layout_t layout(self, Device dev, const mx_conv_problem* p) noexcept:
        """How a work-group is made up, which each direction's class says: data (forward, too) and weights."""
        raise NotImplementedError

    cdef mx_signal operands(self, const mx_conv_problem* p) noexcept:
        """Everything but units; x is what a channel has one of, y what it has a filter for each of."""
        cdef mx_signal g
        memset(&g, 0, sizeof(g))
        g.channels, g.filters, g.blocks = <int> p.groups, <int> (p.w.len[0] // p.groups), 1
        g.width, g.height, g.q, g.first = <int> p.x.len[4], <int> p.x.len[3], <int> p.y.len[4], -<int> p.pad[2]
        g.x_n, g.x_c, g.x_h = <int> stride_of(&p.x, 0), <int> stride_of(&p.x, 1), <int> stride_of(&p.x, 3)
        g.y_n, g.y_c, g.y_h = <int> stride_of(&p.y, 0), <int> stride_of(&p.y, 1), <int> stride_of(&p.y, 3)
        g.w_k, g.w_s = <int> stride_of(&p.w, 0), <int> stride_of(&p.w, 4)
        g.by_height = divisor(g.height)
        return g

    cdef KernelSpec kernel(self, const mx_conv_problem* p, str file, str entry, const layout_t* form, dict more):
        return KernelSpec(file, entry, X_TYPE=type_token(p.w.type), S=p.w.len[4], STEP=p.step[2], TAP=p.dilation[2],
                          GROUP=form.group, **more)


cdef class _SignalData(_Signal):
    cdef layout_t layout(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef layout_t form
        cdef bint backward = p.direction == MX_BACKWARD_DATA
        cdef int64_t filters = p.w.len[0] // p.groups, columns, needed
        memset(&form, 0, sizeof(form))
        columns = p.x.len[4] if backward else p.y.len[4]
        form.scatters = backward and (filters > 1 or p.step[2] > 1)
        if filters == 1 and not form.scatters and self.window(p) <= WINDOW_LIMIT:
            self.set_tiles(p, columns, min(TILES_LIMIT, dev.max_work_group), &form)
            return form
        form.weights = _room(filters * up(p.w.len[4], 4))
        if form.scatters:
            form.columns = 2 if 2 * p.w.len[4] <= IN_REGISTERS // 2 else 1
            # As few units as there must be, and work-groups that are not larger than these are.
            needed = max(1, form.columns * GROUP - self.shared(p)) * p.step[2]
            needed = ceil_div(ceil_div(columns, ceil_div(columns, needed)), p.step[2]) + self.shared(p)
        else:
            form.columns = max(1, min(4, IN_REGISTERS // p.w.len[4]))
            needed = ceil_div(columns, ceil_div(columns, form.columns * GROUP))
        form.group = min(GROUP, up(ceil_div(needed, form.columns), WARP))
        form.local = 4 * (form.weights + 1)
        if form.scatters:
            form.local += 4 * ((form.group * form.columns - 1) * p.step[2] + _reach(p) + 1)
        return form

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        # All filters at one tap, then all taps.
        if p.direction == MX_BACKWARD_DATA:
            return p.w.len[0] // p.groups + p.w.len[4]
        return sum_terms(p)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef layout_t form = self.layout(dev, p)
        cdef mx_signal g = self.operands(p)
        cdef bint backward = p.direction == MX_BACKWARD_DATA
        cdef int64_t size = 4 if p.w.type == MX_FLOAT else 2, units = max(1, dev.compute_units), most, groups
        cdef int64_t lines = p.x.len[0] * p.x.len[3], least
        if backward and not form.scatters:
            # Forward with the filter turned round.
            g.width, g.q, g.first = g.q, g.width, <int> (p.pad[2] - _reach(p))
            g.x_n, g.y_n, g.x_c, g.y_c, g.x_h, g.y_h = g.y_n, g.x_n, g.y_c, g.x_c, g.y_h, g.x_h
            g.w_first, g.w_s = <int> ((p.w.len[4] - 1) * g.w_s), -g.w_s
        if form.tiles:
            _set_segments(&g, lines, ceil_div(ceil_div(g.q + 3, 4), form.group))
            g.each = <int> max(1, min(g.units, <int64_t> g.units * g.channels // (TILE_GROUPS * units)))
            groups = ceil_div(g.units, g.each) * g.channels
            spec = self.kernel(p, "conv/gpu/signals.cl", "conv_signals", &form, {})
        elif form.scatters:
            g.own = <int> ((form.group * form.columns - self.shared(p)) * p.step[2])
            _set_segments(&g, lines, ceil_div(g.width, g.own))
            groups = <int64_t> g.units * g.channels
            spec = self.kernel(p, "conv/gpu/signals_data.cl", "conv_signals_data", &form,
                               {"COLUMNS": form.columns, "WEIGHTS": form.weights})
        else:
            _set_segments(&g, lines, ceil_div(g.q, form.group * form.columns))
            most = form.weights // up(p.w.len[4], 4)
            least = FILTER_GROUPS * units // (<int64_t> g.units * g.channels)
            g.blocks = <int> max(ceil_div(g.filters, most), min(least, g.filters // 8))
            g.each = <int> ceil_div(g.filters, g.blocks)
            g.blocks = <int> ceil_div(g.filters, g.each)
            groups = <int64_t> g.units * g.channels * g.blocks
            spec = self.kernel(p, "conv/gpu/signals_filters.cl", "conv_signals_filters", &form,
                               {"TW": form.columns, "WEIGHTS": form.weights})
        args = (Arg.slot_of(SLOT_Y if backward else SLOT_X, size), Arg.slot_of(SLOT_W, size),
                Arg.slot_of(SLOT_X if backward else SLOT_Y, size), struct_arg(&g, sizeof(g)), Arg.alpha(False),
                Arg.beta(False))
        return Solution([Step(spec, args, (groups * form.group,), (form.group,))])


cdef class SignalFwd(_SignalData):
    """Forward of signals, one channel a group and filters of one row, in one launch; no workspace."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1301, "SignalFwd", MX_FORWARD


cdef class SignalBwd(_SignalData):
    """Backward data of such signals in one launch, no workspace."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1302, "SignalBwd", MX_BACKWARD_DATA


cdef class SignalWrw(_Signal):
    """Backward weights of such signals, split-K over segments of lines; a second launch adds up in a fixed order."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1303, "SignalWrw", MX_BACKWARD_WEIGHTS

    cdef layout_t layout(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef layout_t form
        cdef int64_t filters = p.w.len[0] // p.groups, parts = 1, most, wide, step = p.step[2]
        memset(&form, 0, sizeof(form))
        if filters == 1 and p.w.len[4] <= TILE_SUMS and self.window(p) <= WINDOW_LIMIT:
            most = SUMS_TILES if p.w.len[4] > MANY else min(TILES_LIMIT, dev.max_work_group)
            self.set_tiles(p, p.y.len[4], most, &form)
        else:
            form.group = GROUP
            form.filters = max(1, min(min(filters, FILTERS), SUMS // p.w.len[4]))
            while parts < PARTS and parts * form.filters < filters:
                parts *= 2
            form.lanes = GROUP // parts
            most = min(POSITIONS, (PIXELS - _reach(p)) // step)
            form.ahead = max(1, min(AHEAD, LOADS // form.filters, most // form.lanes))
            wide = form.lanes * form.ahead
            most = max(1, most // wide) * wide
            form.columns = up(ceil_div(p.y.len[4], ceil_div(p.y.len[4], most)), wide)
            form.local = 4 * ((form.columns - 1) * step + _reach(p) + 1)
        form.local += 4 * min(BATCH, form.filters * p.w.len[4]) * form.group
        return form

    cdef mx_signal plan(self, Device dev, const mx_conv_problem* p, const layout_t* form) noexcept:
        """The operands; `each` is still the number of splits."""
        cdef mx_signal g = self.operands(p)
        cdef int64_t columns = p.y.len[4], splits
        _set_segments(&g, p.y.len[0] * p.y.len[3], ceil_div(ceil_div(columns + 3, 4), form.group) if form.tiles
                      else ceil_div(columns, form.columns))
        g.blocks = <int> ceil_div(g.filters, form.filters * (form.group // form.lanes))
        splits = _splits(g.units, <int64_t> g.channels * g.blocks,
                         (WEIGHT_GROUPS if form.tiles else SPLIT_GROUPS) * max(1, dev.compute_units))
        # And more where a work-item would sum too many terms.
        splits = max(splits, ceil_div(g.units, GPU_TERMS // self.terms(form)))
        g.each = <int> ceil_div(g.units, ceil_div(g.units, splits))
        g.each = <int> ceil_div(g.units, g.each)
        return g

    cdef int64_t terms(self, const layout_t* form) noexcept:
        """Of a work-item's sum in a unit."""
        return 4 if form.tiles else form.columns // form.lanes

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        # Units in a chain, work-items in a tree, splits in a chain.
        cdef layout_t form = self.layout(dev, p)
        cdef mx_signal g = self.plan(dev, p, &form)
        return min(sum_terms(p), ceil_div(g.units, g.each) * self.terms(&form)) + 9 + g.each

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef layout_t form
        if p.w.len[1] != 1 or p.w.len[3] != 1 or p.w.len[4] > TAPS_LIMIT or dev.max_work_group < GROUP:
            return 0  # refused
        form = self.layout(dev, p)
        return <int64_t> self.plan(dev, p, &form).each * p.w.len[0] * p.w.len[4] * 4

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef layout_t form = self.layout(dev, p)
        cdef mx_signal g = self.plan(dev, p, &form)
        cdef int64_t splits = g.each, size = 4 if p.w.type == MX_FLOAT else 2, taps = p.w.len[4], groups
        g.each = <int> ceil_div(g.units, splits)
        spec = self.kernel(p, "conv/gpu/signals_weights.cl", "conv_signals_weights", &form, {
            "TILES": int(form.tiles), "FILTERS": form.filters, "LANES": form.lanes, "POSITIONS": form.columns,
            **({} if form.tiles else {"AHEAD": form.ahead})})
        args = (Arg.slot_of(SLOT_X, size), Arg.slot_of(SLOT_Y, size), Arg.slot_of(SLOT_WORKSPACE, 4),
                struct_arg(&g, sizeof(g)))
        groups = splits * g.blocks * g.channels
        return Solution([Step(spec, args, (groups * form.group,), (form.group,)),
                         sum_partial(p, splits, 0, taps, taps, 1)], self.workspace_bytes(dev, p))
