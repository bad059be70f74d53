"""Winograd for any GPU: 3x3 filters with stride 1 in tiles of 2x2 or 4x4 outputs, any strides of the tensors.

Filters and tiles are transformed into the workspace, multiplied point by point as matrices over the channels, and
transformed back.  Backward data is forward with the filter flipped; backward weights takes tiles of dy for filters and
sums over all of them.  Batches whose tiles would take too much room go in rounds.  An Inf or NaN reaches all outputs of
its tiles.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_DOUBLE, MX_FLOAT, MX_FORWARD, MX_INT8, mx_conv_problem, mx_tensor,
)
from miopyx.solvers.conv._base cimport (
    GPU_TERMS, INT_LIMIT, WINOGRAD, ConvSolver, acc_size, capped_product, is_channels_last, span, stride_of, sum_terms,
)
from miopyx.solvers._tokens cimport real_token, type_token
from miopyx.solvers.conv._matmul cimport (
    matmul, matmul_default, matmul_fits, matmul_refuses, matmul_table, mx_gemm, operand, wide_scalars,
)

cdef enum:
    TAPS = 3
    TRANSFORMS = 30          # roundings of the transforms, relative to the largest sum, as on CPUs
    GROUP = 64
    ROUND_BYTES = 256 << 20  # of transformed tiles, one image's at least

cdef extern from "miopyx/kernels/conv/gpu/winograd_args.h" nogil:
    ctypedef struct mx_window:
        int images, channels, tiles_h, tiles_w
        int h, w, pad_h, pad_w
        int move
        int t_n, t_c, t_h, t_w
        int point, tile, channel

cdef mx_window _window(const mx_tensor* t, int64_t images, int64_t pad_h, int64_t pad_w) noexcept nogil:
    cdef mx_window g
    memset(&g, 0, sizeof(g))
    g.images, g.channels = <int> images, <int> t.len[1]
    g.h, g.w, g.pad_h, g.pad_w = <int> t.len[3], <int> t.len[4], <int> pad_h, <int> pad_w
    g.t_n, g.t_c = <int> stride_of(t, 0), <int> stride_of(t, 1)
    g.t_h, g.t_w = <int> stride_of(t, 3), <int> stride_of(t, 4)
    return g


# What takes time, as TERMS names it: launches, megabytes of transformed operands, thousands of products that a compute
# unit takes one after the other, 10^9 products.
cdef struct terms_t:
    double launch, w, inputs, outputs, depth, products

cdef tuple TERMS = ("launch", "w", "inputs", "outputs", "depth", "products")


cdef class _WinogradGpu(ConvSolver):
    cdef int64_t edge    # outputs of a tile along a side

    def __cinit__(self):
        self.cost_names = TERMS
        self.algorithm = WINOGRAD
        self.dynamic = self.deterministic = self.mixes_tiles = True

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        if not dev.is_gpu:
            return "needs a GPU"
        if p.w.type == MX_INT8:
            return "data type"
        if p.spatial != 2 or p.w.len[3] != TAPS or p.w.len[4] != TAPS:
            return "not a 3x3 filter"
        if p.step[1] != 1 or p.step[2] != 1 or p.dilation[1] != 1 or p.dilation[2] != 1:
            return "stride or dilation"
        if max(span(&p.x), span(&p.w), span(&p.y)) >= INT_LIMIT or max(p.pad[1], p.pad[2]) >= INT_LIMIT // 4:
            return "a tensor is too large for 32-bit offsets"
        if self.elements(p, 1) >= INT_LIMIT or self.workspace_bytes(dev, p) > dev.max_alloc:
            return "workspace is beyond the limit"
        return matmul_refuses(dev, p.w.type)

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        # Few channels do not pay for the transforms.
        if min(p.w.len[1], p.w.len[0] // p.groups) < 16:
            return 0.1
        return 0.7 if self.edge == 4 else 0.6

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef terms_t* t = <terms_t*> terms
        cdef int64_t points = (self.edge + TAPS - 1) * (self.edge + TAPS - 1), units = max(1, dev.compute_units)
        cdef int64_t tiles = p.x.len[0] * self.tiles(p), each = self.images(dev, p), rounds, groups
        cdef int64_t filters = p.w.len[0] // p.groups, channels = p.w.len[1], size = acc_size(p)
        rounds = ceil_div(p.x.len[0], each)
        each = min(each, p.x.len[0]) * self.tiles(p)
        t.launch = 1 + 3 * rounds
        t.w = self.weights_bytes(p) * 1e-6
        t.inputs = points * tiles * <double> p.x.len[1] * size * 1e-6
        t.outputs = points * tiles * <double> p.y.len[1] * size * 1e-6
        if self.direction == MX_BACKWARD_WEIGHTS:
            groups = ceil_div(filters, 64) * ceil_div(channels, 64) * points * p.groups
            t.depth = rounds * ceil_div(groups, units) * each * 1e-3
        else:
            if self.direction == MX_BACKWARD_DATA:
                filters, channels = channels, filters
            groups = ceil_div(filters, 64) * ceil_div(each, 64) * points * p.groups
            t.depth = rounds * ceil_div(groups, units) * channels * 1e-3
        t.products = points * tiles * <double> p.w.len[0] * p.w.len[1] * 1e-9

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef double terms = sum_terms(p)
        cdef int64_t images = self.images(dev, p)
        if self.direction == MX_BACKWARD_WEIGHTS:   # launches are added up, too
            return TRANSFORMS + min(terms, <double> GPU_TERMS) + ceil_div(p.x.len[0], images)
        return TRANSFORMS + min(terms / (TAPS * TAPS), <double> GPU_TERMS)

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return matmul_table(dev, NULL, p.w.type)

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        return matmul_fits(dev, NULL, p.w.type, config)

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        return matmul_default(dev, NULL, p.w.type)

    cdef int64_t tiles(self, const mx_conv_problem* p) noexcept:
        """Tiles of an image: of what is written, or for backward weights of dy."""
        cdef const mx_tensor* t = &p.x if self.direction == MX_BACKWARD_DATA else &p.y
        return ceil_div(t.len[3], self.edge) * ceil_div(t.len[4], self.edge)

    cdef int64_t elements(self, const mx_conv_problem* p, int64_t images) noexcept:
        """Of the largest of the three transformed operands."""
        cdef int64_t points = (self.edge + TAPS - 1) * (self.edge + TAPS - 1)
        return points * max(p.w.len[0] * p.w.len[1], capped_product(
            images * self.tiles(p), max(p.x.len[1], p.y.len[1])))

    cdef int64_t images(self, Device dev, const mx_conv_problem* p) noexcept:
        """Images of a round."""
        cdef int64_t points = (self.edge + TAPS - 1) * (self.edge + TAPS - 1)
        cdef int64_t each = points * self.tiles(p) * (p.x.len[1] + p.y.len[1]) * acc_size(p)
        cdef int64_t images = max(1, min(p.x.len[0], min(ROUND_BYTES, dev.max_alloc // 4) // each))
        return min(images, INT_LIMIT // max(1, self.elements(p, 1)))

    cdef int64_t weights_bytes(self, const mx_conv_problem* p) noexcept:
        cdef int64_t points = (self.edge + TAPS - 1) * (self.edge + TAPS - 1)
        return up(points * p.w.len[0] * p.w.len[1] * acc_size(p), 256)

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef int64_t points = (self.edge + TAPS - 1) * (self.edge + TAPS - 1)
        cdef int64_t tiles = self.images(dev, p) * self.tiles(p)
        return self.weights_bytes(p) + up(points * tiles * p.x.len[1] * acc_size(p), 256) + up(
            points * tiles * p.y.len[1] * acc_size(p), 256)

    cdef void place(self, mx_window* g, int64_t tile, int64_t channel) noexcept:
        """Set the order of transformed tiles in the workspace."""
        g.tile, g.channel = <int> tile, <int> channel
        g.point = <int> (g.images * g.tiles_h * g.tiles_w * g.channels)

    cdef Step transform(self, Device dev, const mx_conv_problem* p, str entry, mx_window* g, int64_t side,
                        Arg source, Arg target, int64_t data_type, bint flip, bint last, tuple scalars):
        cdef int64_t items = <int64_t> g.images * g.tiles_h * g.tiles_w * g.channels
        spec = KernelSpec(
            "conv/gpu/winograd.cl", entry, X_TYPE=type_token(data_type), TILE=self.edge, SIDE=side, FLIP=int(flip),
            CHANNELS_LAST=int(last), ACC=real_token(p.w.type == MX_DOUBLE),
            SCALAR=real_token(wide_scalars(dev, data_type)))
        args = (source, target, struct_arg(g, sizeof(mx_window)), *scalars)
        return Step(spec, args, (up(items, GROUP),), (GROUP,))


cdef class _WinogradGpuData(_WinogradGpu):
    """Forward and backward data: the tiles of an image times the filters."""

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef bint back = self.direction == MX_BACKWARD_DATA, wide = wide_scalars(dev, p.x.type)
        cdef bint last = is_channels_last(&p.x) and is_channels_last(&p.y)
        cdef const mx_tensor* source = &p.y if back else &p.x
        cdef const mx_tensor* target = &p.x if back else &p.y
        cdef int64_t side = self.edge + TAPS - 1, each = self.images(dev, p), first, images, tiles, size = acc_size(p)
        cdef int64_t read = source.len[1] // p.groups, written = target.len[1] // p.groups
        cdef int64_t pad_h = TAPS - 1 - p.pad[1] if back else p.pad[1]
        cdef int64_t pad_w = TAPS - 1 - p.pad[2] if back else p.pad[2]
        cdef int64_t at_source = self.weights_bytes(p), at_target, acc_type = MX_DOUBLE if size == 8 else MX_FLOAT
        cdef mx_gemm g
        cdef mx_window filters = _window(&p.w, p.w.len[0], 0, 0), inputs, outputs
        filters.tiles_h = filters.tiles_w = filters.move = 1
        self.place(&filters, p.w.len[1], 1)
        at_target = at_source + up(side * side * each * self.tiles(p) * source.len[1] * size, 256)
        cdef list steps = [self.transform(
            dev, p, "winograd_inputs", &filters, TAPS, Arg.slot_of(SLOT_W, type_size(<int> p.w.type)),
            Arg.slot_of(SLOT_WORKSPACE, size), p.w.type, back, True, ())]
        for first in range(0, source.len[0], each):
            images = min(each, source.len[0] - first)
            inputs, outputs = _window(source, images, pad_h, pad_w), _window(target, images, 0, 0)
            inputs.tiles_h = outputs.tiles_h = <int> ceil_div(target.len[3], self.edge)
            inputs.tiles_w = outputs.tiles_w = <int> ceil_div(target.len[4], self.edge)
            inputs.move = outputs.move = <int> self.edge
            tiles = images * self.tiles(p)
            memset(&g, 0, sizeof(g))
            g.images, g.groups, g.reduce = side * side, p.groups, 1
            if last:
                # Channels are contiguous: rows of the product are tiles.
                self.place(&inputs, source.len[1], 1)
                self.place(&outputs, target.len[1], 1)
                g.m, g.n, g.k = tiles, written, read
                g.a_m, g.a_k, g.a_g, g.a_i = source.len[1], 1, read, inputs.point
                g.b_k, g.b_n = filters.tile if back else 1, 1 if back else filters.tile
                g.b_g, g.b_i = (read if back else written) * filters.tile, filters.point
                g.c_m, g.c_n, g.c_g, g.c_i = target.len[1], 1, written, outputs.point
            else:
                self.place(&inputs, 1, tiles)
                self.place(&outputs, 1, tiles)
                g.m, g.n, g.k = written, tiles, read
                g.a_m, g.a_k = 1 if back else filters.tile, filters.tile if back else 1
                g.a_g, g.a_i = (read if back else written) * filters.tile, filters.point
                g.b_k, g.b_n, g.b_g, g.b_i = tiles, 1, read * tiles, inputs.point
                g.c_m, g.c_n, g.c_g, g.c_i = tiles, 1, written * tiles, outputs.point
            steps.append(self.transform(
                dev, p, "winograd_inputs", &inputs, side,
                Arg.slot_of(SLOT_Y if back else SLOT_X, type_size(<int> source.type),
                            first * stride_of(source, 0) * type_size(<int> source.type)),
                Arg.slot_of(SLOT_WORKSPACE, size, at_source), source.type, False, last, ()))
            weights, data = operand(SLOT_WORKSPACE, acc_type), operand(SLOT_WORKSPACE, acc_type, at_source)
            steps.append(matmul(
                dev, &g, data if last else weights, weights if last else data,
                operand(SLOT_WORKSPACE, acc_type, at_target), Arg.real(1.0, size == 8), Arg.real(0.0, size == 8),
                config))
            steps.append(self.transform(
                dev, p, "winograd_outputs", &outputs, self.edge, Arg.slot_of(SLOT_WORKSPACE, size, at_target),
                Arg.slot_of(SLOT_X if back else SLOT_Y, type_size(<int> target.type),
                            first * stride_of(target, 0) * type_size(<int> target.type)),
                target.type, False, last, (Arg.alpha(wide), Arg.beta(wide))))
        return Solution(steps, self.workspace_bytes(dev, p), 1)


cdef class _WinogradGpuWeights(_WinogradGpu):
    """Backward weights: tiles of x times tiles of dy, summed over all of them."""

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef bint last = is_channels_last(&p.x) and is_channels_last(&p.y), wide = wide_scalars(dev, p.w.type)
        cdef int64_t side = self.edge + TAPS - 1, each = self.images(dev, p), first, images, tiles, size = acc_size(p)
        cdef int64_t at_x = self.weights_bytes(p), at_y, acc_type = MX_DOUBLE if size == 8 else MX_FLOAT
        cdef int64_t c = p.w.len[1], k = p.w.len[0] // p.groups, value_size = type_size(<int> p.x.type)
        cdef mx_gemm g
        cdef mx_window weights = _window(&p.w, p.w.len[0], 0, 0), x, y
        cdef list steps = []
        weights.tiles_h = weights.tiles_w = weights.move = 1
        self.place(&weights, c, 1)
        at_y = at_x + up(side * side * each * self.tiles(p) * p.x.len[1] * size, 256)
        for first in range(0, p.x.len[0], each):
            images = min(each, p.x.len[0] - first)
            x, y = _window(&p.x, images, p.pad[1], p.pad[2]), _window(&p.y, images, 0, 0)
            x.tiles_h = y.tiles_h = <int> ceil_div(p.y.len[3], self.edge)
            x.tiles_w = y.tiles_w = <int> ceil_div(p.y.len[4], self.edge)
            x.move = y.move = <int> self.edge
            tiles = images * self.tiles(p)
            self.place(&x, p.x.len[1] if last else 1, 1 if last else tiles)
            self.place(&y, p.y.len[1] if last else 1, 1 if last else tiles)
            memset(&g, 0, sizeof(g))
            g.images, g.groups, g.reduce = side * side, p.groups, 1
            g.m, g.n, g.k = k, c, tiles
            g.a_m, g.a_k, g.a_g, g.a_i = y.channel, y.tile, k * y.channel, y.point
            g.b_k, g.b_n, g.b_g, g.b_i = x.tile, x.channel, c * x.channel, x.point
            g.c_m, g.c_n, g.c_g, g.c_i = c, 1, k * c, weights.point
            steps.append(self.transform(
                dev, p, "winograd_inputs", &x, side,
                Arg.slot_of(SLOT_X, value_size, first * stride_of(&p.x, 0) * value_size),
                Arg.slot_of(SLOT_WORKSPACE, size, at_x), p.x.type, False, last, ()))
            steps.append(self.transform(
                dev, p, "winograd_inputs", &y, self.edge,
                Arg.slot_of(SLOT_Y, value_size, first * stride_of(&p.y, 0) * value_size),
                Arg.slot_of(SLOT_WORKSPACE, size, at_y), p.y.type, False, last, ()))
            # The rounds' sums add up in the workspace.
            steps.append(matmul(
                dev, &g, operand(SLOT_WORKSPACE, acc_type, at_y), operand(SLOT_WORKSPACE, acc_type, at_x),
                operand(SLOT_WORKSPACE, acc_type), Arg.real(1.0, size == 8), Arg.real(1.0 if first else 0.0, size == 8),
                config))
        steps.append(self.transform(
            dev, p, "winograd_outputs", &weights, TAPS, Arg.slot_of(SLOT_WORKSPACE, size),
            Arg.slot_of(SLOT_W, value_size), p.w.type, False, True, (Arg.alpha(wide), Arg.beta(wide))))
        return Solution(steps, self.workspace_bytes(dev, p))


cdef class GpuWinogradF2Fwd(_WinogradGpuData):
    """Forward in tiles of 2x2."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.edge = 1171, "GpuWinogradF2Fwd", MX_FORWARD, 2


cdef class GpuWinogradF2Bwd(_WinogradGpuData):
    """Backward data in tiles of 2x2."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.edge = 1172, "GpuWinogradF2Bwd", MX_BACKWARD_DATA, 2


cdef class GpuWinogradF2Wrw(_WinogradGpuWeights):
    """Backward weights from tiles of 2x2 of dy."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.edge = 1173, "GpuWinogradF2Wrw", MX_BACKWARD_WEIGHTS, 2


cdef class GpuWinogradF4Fwd(_WinogradGpuData):
    """Forward in tiles of 4x4."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.edge = 1174, "GpuWinogradF4Fwd", MX_FORWARD, 4


cdef class GpuWinogradF4Bwd(_WinogradGpuData):
    """Backward data in tiles of 4x4."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.edge = 1175, "GpuWinogradF4Bwd", MX_BACKWARD_DATA, 4


cdef class GpuWinogradF4Wrw(_WinogradGpuWeights):
    """Backward weights from tiles of 4x4 of dy."""

    def __cinit__(self):
        self.id, self.name, self.direction, self.edge = 1176, "GpuWinogradF4Wrw", MX_BACKWARD_WEIGHTS, 4
