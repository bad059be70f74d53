"""Convolutions as matrix products whose operands are gathered tile by tile into local memory, for any GPU.

Any strides, so every layout, any rank, groups, stride, dilation and type.  Backward data is one product for each phase
of the stride, the positions of dx of equal (position + pad) mod stride.  Backward weights splits its long sums
(split-K) where there are few tiles; the partial sums are added in a fixed order.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_DOUBLE, MX_FORWARD, MX_INT8, mx_conv_problem, mx_tensor,
)
from miopyx.solvers.conv._base cimport (
    GPU_TERMS, IMPLICIT_GEMM, INT_LIMIT, ConvSolver, acc_size, acc_token, capped_product, is_channels_last, span,
    spatial_size, stride_of, sum_terms,
)
from miopyx.solvers._tokens cimport real_token, type_token
from miopyx.solvers.conv._matmul cimport matmul_default, matmul_fits, matmul_refuses, matmul_table, wide_scalars
from miopyx.solvers.conv.nvidia._common cimport divisor, taps_of, taps_t

cdef enum:
    MARGIN = 1 << 12         # more than a tile
    REACH_LIMIT = 1 << 28    # of coordinates
    PHASES_LIMIT = 64
    TILE = 64                # rows and columns of a usual tile
    TILES = 512              # below which sums are split
    LEAST = 256              # terms of a split
    SUM_GROUP = 64

cdef int64_t _terms(const mx_conv_problem* p) noexcept nogil:
    """Terms of a sum of backward weights."""
    return p.y.len[0] * spatial_size(&p.y)


cdef int64_t _weights(const mx_conv_problem* p) noexcept nogil:
    return p.w.len[0] * p.w.len[1] * spatial_size(&p.w)


cdef int64_t _splits(const mx_conv_problem* p) noexcept nogil:
    """Into how many the sums of backward weights are split: by the problem alone."""
    cdef int64_t tiles = p.groups * ceil_div(p.w.len[0] // p.groups, TILE) * ceil_div(
        p.w.len[1] * spatial_size(&p.w), TILE)
    return max(1, min(TILES // tiles, _terms(p) // LEAST))


cdef void _set_grid(mx_gather* g, const mx_tensor* image, const int64_t* count) noexcept nogil:
    """The gathered image, and the grid of pixels of each."""
    cdef int i
    for i in range(3):
        g.len[i] = <int> image.len[2 + i]
        g.i_at[i] = <int> stride_of(image, 2 + i)
    g.i_n, g.i_c = <int> stride_of(image, 0), <int> stride_of(image, 1)
    g.h, g.w = <int> count[1], <int> count[2]
    g.hw = g.h * g.w
    g.pixels = <int> (count[0] * g.hw)
    g.by_pixels, g.by_hw, g.by_w = divisor(g.pixels), divisor(g.hw), divisor(g.w)


cdef void _set_taps(mx_gather* g, int64_t channels, const int64_t* count) noexcept nogil:
    g.channels, g.taps_w, g.taps_hw = <int> channels, <int> count[2], <int> (count[1] * count[2])
    g.taps = <int> (count[0] * g.taps_hw)
    g.by_channels, g.by_taps = divisor(max(1, channels)), divisor(max(1, g.taps))
    g.by_taps_w, g.by_taps_hw = divisor(max(1, g.taps_w)), divisor(max(1, g.taps_hw))


cdef tuple gathered_args(mx_gather* g, const mx_conv_problem* p, tuple slots, int64_t c_type, Arg alpha, Arg beta):
    """The arguments of a launch: image, other factor, result, all of one type but maybe the result."""
    cdef int size = <int> type_size(<int> p.w.type)
    return (Arg.slot_of(slots[0], size), Arg.slot_of(slots[1], size), Arg.slot_of(slots[2], type_size(<int> c_type)),
            struct_arg(g, sizeof(mx_gather)), alpha, beta)


cdef bint has_long_sums(const mx_conv_problem* p) noexcept nogil:
    """Whether some sum has more terms than one accumulator takes."""
    if p.direction == MX_BACKWARD_WEIGHTS:
        return ceil_div(_terms(p), _splits(p)) > GPU_TERMS
    return sum_terms(p) > GPU_TERMS


cdef class GatheringSolver(ConvSolver):
    """All but the kernel: three directions as products of gathered matrices, of which `product` launches one."""

    def __cinit__(self):
        self.algorithm = IMPLICIT_GEMM
        self.dynamic = self.deterministic = True

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef int i
        if not dev.is_gpu:
            return "needs a GPU"
        # Overlapping strides make a span smaller than the number of pixels, and tiles reach beyond the last one.
        if max(span(&p.x), span(&p.w), span(&p.y), _terms(p), p.x.len[0] * spatial_size(&p.x)) >= INT_LIMIT - MARGIN:
            return "a tensor is too large for 32-bit offsets"
        for i in range(3):
            if (p.pad[i] + max(p.x.len[2 + i], p.y.len[2 + i]) * p.step[i] > REACH_LIMIT
                    or p.w.len[2 + i] * p.dilation[i] > REACH_LIMIT):
                return "an axis is too long"
        if p.direction == MX_BACKWARD_DATA and capped_product(
                capped_product(p.step[0], p.step[1]), p.step[2]) > PHASES_LIMIT:
            return "a large stride"
        if self.workspace_bytes(dev, p) > dev.max_alloc:
            return "workspace is beyond the limit"
        return None

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef int64_t splits = _splits(p) if p.direction == MX_BACKWARD_WEIGHTS else 1
        return 0 if splits == 1 else capped_product(splits * acc_size(p), _weights(p))

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        # Behind GEMM's solvers for 1x1, before those that write a column matrix.
        return 0.5

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef double terms = sum_terms(p)
        if p.direction == MX_BACKWARD_WEIGHTS:
            return min(ceil_div(_terms(p), _splits(p)), <int64_t> GPU_TERMS) + _splits(p)
        return min(terms, <double> GPU_TERMS)

    cdef Step product(self, Device dev, const mx_conv_problem* p, mx_gather* g, tuple config, tuple slots,
                      int64_t c_type, bint last, Arg alpha, Arg beta):
        """One launch; `slots` are the image's, the other factor's and the result's; `last`: channels are contiguous."""
        raise NotImplementedError

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        if p.direction == MX_FORWARD:
            return self._forward(dev, p, config)
        if p.direction == MX_BACKWARD_DATA:
            return self._backward_data(dev, p, config)
        return self._backward_weights(dev, p, config)

    cdef Solution _forward(self, Device dev, const mx_conv_problem* p, tuple config):
        """One launch."""
        cdef mx_gather g
        cdef int i
        cdef bint wide = wide_scalars(dev, p.y.type)
        memset(&g, 0, sizeof(g))
        g.m, g.n, g.k = <int> (p.w.len[0] // p.groups), <int> _terms(p), <int> (p.w.len[1] * spatial_size(&p.w))
        g.splits, g.each = 1, g.k
        _set_grid(&g, &p.x, &p.y.len[2])
        _set_taps(&g, p.w.len[1], &p.w.len[2])
        for i in range(3):
            g.step[i], g.first[i], g.tap[i] = <int> p.step[i], -<int> p.pad[i], <int> p.dilation[i]
            g.f_at[i], g.c_at[i] = <int> stride_of(&p.w, 2 + i), <int> stride_of(&p.y, 2 + i)
        g.i_g = <int> (p.w.len[1] * stride_of(&p.x, 1))
        g.f_m, g.f_c, g.f_g = <int> stride_of(&p.w, 0), <int> stride_of(&p.w, 1), <int> (g.m * stride_of(&p.w, 0))
        g.c_m, g.c_n, g.c_g = <int> stride_of(&p.y, 1), <int> stride_of(&p.y, 0), <int> (g.m * stride_of(&p.y, 1))
        return Solution([self.product(dev, p, &g, config, (SLOT_X, SLOT_W, SLOT_Y), p.y.type,
                                      is_channels_last(&p.x), Arg.alpha(wide), Arg.beta(wide))])

    cdef Solution _backward_data(self, Device dev, const mx_conv_problem* p, tuple config):
        """One launch a phase of the stride."""
        cdef mx_gather g
        cdef taps_t taps[3]
        cdef int64_t count[3]
        cdef int64_t tap_count[3]
        cdef int64_t phase[3]
        cdef int64_t number
        cdef int i
        cdef bint wide = wide_scalars(dev, p.x.type), last = is_channels_last(&p.y)
        cdef list steps = []
        for number in range(p.step[0] * p.step[1] * p.step[2]):
            phase[0] = number // (p.step[1] * p.step[2])
            phase[1], phase[2] = number // p.step[2] % p.step[1], number % p.step[2]
            for i in range(3):
                taps[i] = taps_of(p, i, phase[i])
                tap_count[i] = taps[i].count
                count[i] = ceil_div(p.x.len[2 + i] - phase[i], p.step[i]) if phase[i] < p.x.len[2 + i] else 0
            if count[0] * count[1] * count[2] == 0:
                continue
            memset(&g, 0, sizeof(g))
            _set_grid(&g, &p.y, count)
            _set_taps(&g, p.w.len[0] // p.groups, tap_count)
            g.m, g.n, g.k = <int> p.w.len[1], <int> (p.x.len[0] * g.pixels), g.channels * g.taps
            g.splits, g.each = 1, g.k
            g.f_m, g.f_c, g.f_g = (
                <int> stride_of(&p.w, 1), <int> stride_of(&p.w, 0), <int> (g.channels * stride_of(&p.w, 0)))
            g.c_m, g.c_n, g.c_g = <int> stride_of(&p.x, 1), <int> stride_of(&p.x, 0), <int> (g.m * stride_of(&p.x, 1))
            g.i_g = <int> (g.channels * stride_of(&p.y, 1))
            for i in range(3):
                g.step[i], g.first[i], g.tap[i] = 1, <int> taps[i].start, <int> taps[i].move
                g.f_first += <int> (taps[i].first * stride_of(&p.w, 2 + i))
                g.f_at[i] = <int> (taps[i].every * stride_of(&p.w, 2 + i))
                g.c_first += <int> (phase[i] * stride_of(&p.x, 2 + i))
                g.c_at[i] = <int> (p.step[i] * stride_of(&p.x, 2 + i))
            steps.append(self.product(dev, p, &g, config, (SLOT_Y, SLOT_W, SLOT_X), p.x.type, last,
                                      Arg.alpha(wide), Arg.beta(wide)))
        return Solution(steps)

    cdef Solution _backward_weights(self, Device dev, const mx_conv_problem* p, tuple config):
        """Split-K where sums are long; a second launch adds the partial sums."""
        cdef mx_gather g
        cdef int i
        cdef bint wide = wide_scalars(dev, p.w.type)
        cdef int64_t weights = _weights(p), width = acc_size(p)
        memset(&g, 0, sizeof(g))
        g.m, g.n, g.k = <int> (p.w.len[0] // p.groups), <int> (p.w.len[1] * spatial_size(&p.w)), <int> _terms(p)
        g.each = <int> ceil_div(g.k, _splits(p))
        g.splits = <int> ceil_div(g.k, g.each)
        _set_grid(&g, &p.x, &p.y.len[2])
        _set_taps(&g, p.w.len[1], &p.w.len[2])
        for i in range(3):
            g.step[i], g.first[i], g.tap[i] = <int> p.step[i], -<int> p.pad[i], <int> p.dilation[i]
            g.f_at[i], g.c_at[i] = <int> stride_of(&p.y, 2 + i), <int> stride_of(&p.w, 2 + i)
        g.i_g = <int> (p.w.len[1] * stride_of(&p.x, 1))
        g.f_m, g.f_n, g.f_g = <int> stride_of(&p.y, 1), <int> stride_of(&p.y, 0), <int> (g.m * stride_of(&p.y, 1))
        g.c_m, g.c_c, g.c_g = <int> stride_of(&p.w, 0), <int> stride_of(&p.w, 1), <int> (g.m * stride_of(&p.w, 0))
        cdef bint last = is_channels_last(&p.x)
        if g.splits == 1:
            return Solution([self.product(dev, p, &g, config, (SLOT_X, SLOT_Y, SLOT_W), p.w.type, last,
                                          Arg.alpha(wide), Arg.beta(wide))])
        g.c_n, g.c_m, g.c_g, g.c_c = <int> weights, g.n, g.m * g.n, g.taps
        g.c_at[0], g.c_at[1], g.c_at[2] = g.taps_hw, g.taps_w, 1
        cdef int64_t partial_type = MX_DOUBLE if p.w.type == MX_DOUBLE else 1
        cdef Step product = self.product(dev, p, &g, config, (SLOT_X, SLOT_Y, SLOT_WORKSPACE), partial_type, last,
                                         Arg.real(1.0, wide), Arg.real(0.0, wide))
        spec = KernelSpec("conv/gpu/implicit.cl", "sum_partial", IMAGE_TYPE=type_token(partial_type),
                          C_TYPE=type_token(p.w.type), ACC=acc_token(p), SCALAR=real_token(wide))
        args = (Arg.slot_of(SLOT_WORKSPACE, width), Arg.slot_of(SLOT_W, type_size(<int> p.w.type)),
                struct_arg(&p.w, sizeof(mx_tensor)),
                Arg.int64(g.splits), Arg.alpha(wide), Arg.beta(wide))
        return Solution([product, Step(spec, args, (up(weights, SUM_GROUP),), (SUM_GROUP,))],
                        self.workspace_bytes(dev, p))


cdef class _ImplicitGpu(GatheringSolver):
    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = GatheringSolver.refuse(self, dev, p)
        return matmul_refuses(dev, p.w.type) if why is None else why

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return matmul_table(dev, NULL, p.w.type)

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        return matmul_fits(dev, NULL, p.w.type, config)

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        return matmul_default(dev, NULL, p.w.type)

    cdef Step product(self, Device dev, const mx_conv_problem* p, mx_gather* g, tuple config, tuple slots,
                      int64_t c_type, bint last, Arg alpha, Arg beta):
        cdef int64_t side, each_m, each_n, depth, items
        cdef const mx_tensor* image = &p.y if self.direction == MX_BACKWARD_DATA else &p.x
        cdef const mx_tensor* factor = &p.y if self.direction == MX_BACKWARD_WEIGHTS else &p.w
        side, each_m, each_n, depth = config
        items = side * side
        g.across, g.down = <int> ceil_div(g.n, side * each_n), <int> ceil_div(g.m, side * each_m)
        g.groups = <int> p.groups
        spec = KernelSpec(
            "conv/gpu/implicit.cl", "conv_implicit_gpu", IMAGE_TYPE=type_token(image.type),
            FACTOR_TYPE=type_token(factor.type), C_TYPE=type_token(c_type), ACC=acc_token(p),
            SCALAR=real_token(wide_scalars(dev, c_type)), DIRECTION=self.direction,
            CHANNELS_LAST=int(last), LONG_SUMS=int(p.w.type != MX_INT8 and g.each > GPU_TERMS), SIDE=side,
            EACH_M=each_m, EACH_N=each_n, DEPTH=depth)
        args = gathered_args(g, p, slots, c_type, alpha, beta)
        return Step(spec, args, (items * g.across * g.down * g.groups * g.splits,), (items,))


cdef class GpuImplicitGemmFwd(_ImplicitGpu):
    """Forward in one launch."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1161, "GpuImplicitGemmFwd", MX_FORWARD


cdef class GpuImplicitGemmBwd(_ImplicitGpu):
    """Backward data, one launch a phase of the stride."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1162, "GpuImplicitGemmBwd", MX_BACKWARD_DATA


cdef class GpuImplicitGemmWrw(_ImplicitGpu):
    """Backward weights, split-K where sums are long; a second launch adds the partial sums."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1163, "GpuImplicitGemmWrw", MX_BACKWARD_WEIGHTS
