"""Backward weights for CPU devices as an implicit GEMM: packed NCHW and its like, any filter, stride, dilation, groups.

The kernels are explained in kernels/conv/cpu/implicit_weights.cl.  Tensors that are not of the type of the sums are
converted first.  Taps skip what is outside the image, except where there are so few channels a group that each
row of a tile has a tap of its own: then x is copied with its padding, and 0 times an infinity of dy is NaN, as it is
with a column matrix.
"""

import itertools
from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport MX_BACKWARD_WEIGHTS, MX_DOUBLE, MX_FLOAT, mx_conv_problem
from miopyx.solvers.conv._base cimport (
    IMPLICIT_GEMM, ConvSolver, capped_product, capped_sum, in_blocks, is_packed, spatial_size, sum_terms, vector_lanes,
)
from miopyx.solvers._tokens cimport real_token, type_token
from miopyx.solvers.conv._matmul cimport wide_scalars

cdef enum:
    N_VECTORS = 3
    WORK_GROUPS = 16     # at least so many, by split-K over the positions if need be
    ALIGNMENT = 64       # bytes, of what is in the workspace
    PACKING = 13         # rows of products that take as long as to transpose a lane
    COPYING = 20         # lanes of products that take as long as to convert a row
    PANEL_BYTES = 48 << 10  # of a filter of one tap, where x and dy are read once

cdef tuple ONE = (0,), BOTH = (0, 1), DEPTHS = (128, 256, 512), SUMS = (128, 256, 512)

cdef extern from "miopyx/kernels/conv/cpu/implicit_weights_args.h" nogil:
    ctypedef struct mx_weights:
        int64_t lanes, rows
        int64_t chunk_rows, chunk_taps
        int64_t depth
        int64_t images, u_n, v_n
        int64_t out_len[3]
        int64_t in_len[3]
        int64_t taps[3]
        int64_t inner[3]
        int64_t pad[3]
        int64_t step[3]
        int64_t dilation[3]
        int64_t lanes_last

    ctypedef struct mx_copy:
        int64_t to_len[3]
        int64_t from_len[3]
        int64_t before[3]
        int64_t step[3]

# What the host knows beside them.
cdef struct plan_t:
    mx_weights g
    mx_copy copy
    bint copied                          # V is: converted, sampled or padded
    int64_t vec, tile_rows
    int64_t planes                       # channels of V, all groups
    int64_t chunks, splits
    int64_t copy_bytes, partial_bytes


cdef inline int64_t _volume(const int64_t* a) noexcept nogil:
    return capped_product(capped_product(a[0], a[1]), a[2])


cdef inline int64_t _accumulator(const mx_conv_problem* p) noexcept nogil:
    return MX_DOUBLE if p.w.type == MX_DOUBLE else MX_FLOAT


cdef bint _is_plain(const mx_conv_problem* p) noexcept nogil:
    """Whether every pixel of x meets one of y alone: then the tensors may change places."""
    cdef int i
    for i in range(3):
        if p.w.len[2 + i] != 1 or p.step[i] != 1 or p.pad[i] != 0 or p.x.len[2 + i] != p.y.len[2 + i]:
            return False
    return True


cdef void _join_axes(mx_weights* g) noexcept nogil:
    """Join the last axis to the one before where the filter leaves it alone, for long rows."""
    cdef int _turn
    for _turn in range(2):
        if (g.taps[2] != 1 or g.step[2] != 1 or g.pad[2] != 0 or g.in_len[2] != g.out_len[2] or g.step[1] != 1):
            return
        g.out_len[2] *= g.out_len[1]
        g.pad[2], g.dilation[2] = g.pad[1] * g.in_len[2], g.dilation[1] * g.in_len[2]
        g.in_len[2] *= g.in_len[1]
        g.taps[2] = g.taps[1]
        g.out_len[1], g.in_len[1], g.taps[1] = g.out_len[0], g.in_len[0], g.taps[0]
        g.pad[1], g.step[1], g.dilation[1] = g.pad[0], g.step[0], g.dilation[0]
        g.out_len[0] = g.in_len[0] = g.taps[0] = g.step[0] = g.dilation[0] = 1
        g.pad[0] = 0


cdef void _set_axes(plan_t* t, const mx_conv_problem* p) noexcept nogil:
    """Extents, and what is copied how."""
    cdef mx_weights* g = &t.g
    cdef bint sampled = False
    cdef int i
    for i in range(3):
        g.out_len[i], g.in_len[i], g.taps[i], g.inner[i] = p.y.len[2 + i], p.x.len[2 + i], p.w.len[2 + i], 1
        g.pad[i], g.step[i], g.dilation[i] = p.pad[i], p.step[i], p.dilation[i]
        t.copy.from_len[i], t.copy.step[i] = g.in_len[i], 1
        sampled |= g.step[i] != 1 and g.out_len[i] > 1
    t.copied = p.w.type != _accumulator(p)
    if sampled and _volume(g.taps) == 1 and g.pad[0] == 0 and g.pad[1] == 0 and g.pad[2] == 0:
        t.copied = True
        for i in range(3):
            t.copy.step[i] = g.step[i]
            g.in_len[i], g.step[i] = g.out_len[i], 1
    elif _volume(g.taps) > 1 and 4 * up(g.rows, t.tile_rows) > 5 * g.rows:
        t.copied = True
        g.rows *= _volume(g.taps)
        for i in range(3):
            t.copy.before[i] = g.pad[i]
            g.in_len[i] = (g.out_len[i] - 1) * g.step[i] + (g.taps[i] - 1) * g.dilation[i] + 1
            g.inner[i] = g.taps[i]
            g.taps[i] = 1
            g.pad[i] = 0
    for i in range(3):
        t.copy.to_len[i] = g.in_len[i]
    if _volume(g.inner) == 1:
        _join_axes(g)


cdef plan_t _plan(Device dev, const mx_conv_problem* p, bint lanes_last, int64_t depth, int64_t sums) noexcept:
    cdef plan_t t
    cdef mx_weights* g = &t.g
    cdef int64_t taps, row_tiles, area, positions, size = type_size(<int> _accumulator(p)), k = p.w.len[0] // p.groups
    memset(&t, 0, sizeof(t))
    t.vec = _vec(dev, p)
    t.tile_rows = 8 if dev.vector_bytes == 64 else 4
    g.lanes_last = lanes_last
    g.lanes, g.rows = (p.w.len[1], k) if lanes_last else (k, p.w.len[1])
    t.planes = g.rows * p.groups
    _set_axes(&t, p)
    area = spatial_size(&p.y)
    g.images, g.u_n = p.x.len[0], g.lanes * p.groups * area
    g.v_n = capped_product(t.planes, _volume(g.in_len))

    # Taps and rows of a work-item: all taps where that can be, and whole tiles, dealt evenly.
    taps = _volume(g.taps)
    g.chunk_taps = ceil_div(taps, ceil_div(taps, sums // t.tile_rows))
    g.chunk_rows = sums // g.chunk_taps // t.tile_rows
    row_tiles = ceil_div(g.rows, t.tile_rows)
    g.chunk_rows = ceil_div(row_tiles, ceil_div(row_tiles, g.chunk_rows)) * t.tile_rows
    t.chunks = (ceil_div(ceil_div(g.lanes, t.vec), N_VECTORS) * ceil_div(g.rows, g.chunk_rows)
                * ceil_div(taps, g.chunk_taps))

    # Whole images in a panel, or equal shares of them.
    positions = g.images * area
    g.depth = depth // area * area if area <= depth else up(ceil_div(positions, ceil_div(positions, depth)), 16)
    t.splits = min(ceil_div(positions, g.depth), ceil_div(WORK_GROUPS, t.chunks * p.groups))

    if t.copied:
        t.copy_bytes = capped_product(ceil_div(capped_product(g.images, g.v_n), ALIGNMENT), ALIGNMENT * size)
    if t.splits > 1:
        t.partial_bytes = capped_product(t.splits * t.chunks * p.groups,
                                         g.chunk_rows * g.chunk_taps * N_VECTORS * t.vec * size)
    return t


cdef plan_t _tuned(Device dev, const mx_conv_problem* p, tuple config) noexcept:
    """The plan of a configuration, see `table`."""
    lanes_last, depth, sums = config
    return _plan(dev, p, lanes_last, depth, sums)


cdef int64_t _vec(Device dev, const mx_conv_problem* p) noexcept:
    return vector_lanes(dev, type_size(<int> _accumulator(p)))


cdef double _cost(int64_t lanes, int64_t rows, int64_t vec, bint converted) noexcept:
    """Products of a group and position, tiles' edges included, and what is done to each lane and row.

    One vector of lanes alone leaves the processor waiting for memory and for sums.
    """
    cdef int64_t vectors = ceil_div(lanes, vec)
    cdef double products = <double> vectors * vec * (up(rows, 8) + PACKING) * (1.5 if vectors == 1 else 1.0)
    return products + (COPYING * rows if converted else 0)


cdef class CpuImplicitGemmWrw(ConvSolver):
    """Sums of tiles, filters by channels and taps, over panels of positions; split-K where tiles are few."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1123, "CpuImplicitGemmWrw", MX_BACKWARD_WEIGHTS
        self.algorithm = IMPLICIT_GEMM
        self.dynamic = self.deterministic = True

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        if not dev.is_cpu:
            return "needs a CPU device"
        if not (is_packed(&p.x) and is_packed(&p.w) and is_packed(&p.y)):
            return "tensors are not packed NCHW"
        if not self.fits(dev, p, self.default(dev, p)):
            return "workspace is beyond the limit"
        return None

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        """The most that any configuration takes."""
        cdef int64_t most = 0
        cdef plan_t t
        cdef tuple lasts, depths, sums
        (_, lasts), (_, depths), (_, sums) = self.table(dev, p)
        for config in itertools.product(lasts, depths, sums):
            t = _tuned(dev, p, config)
            if capped_sum(t.copy_bytes, t.partial_bytes) <= dev.max_alloc:
                most = max(most, t.copy_bytes + t.partial_bytes)
        return most

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef int64_t k = p.w.len[0] // p.groups, taps = spatial_size(&p.w), vec = _vec(dev, p)
        # Without what converting costs: the models that ship have learned from this number.
        cdef double cost = _cost(k, p.w.len[1] * taps, vec, False)
        if _is_plain(p):
            cost = min(cost, _cost(p.w.len[1], k, vec, False))
        return .9 * k * p.w.len[1] * taps / cost

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        return in_blocks(sum_terms(p)) + WORK_GROUPS    # as many splits, at most

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return ("LANES_LAST", BOTH if _is_plain(p) else ONE), ("DEPTH", DEPTHS), ("SUMS", SUMS)

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        cdef plan_t t = _tuned(dev, p, config)
        return capped_sum(t.copy_bytes, t.partial_bytes) <= dev.max_alloc

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        cdef int64_t c = p.w.len[1], k = p.w.len[0] // p.groups, vec = _vec(dev, p)
        cdef bint last = False, converted = p.w.type != _accumulator(p)
        if _is_plain(p):
            # dw of small images costs much beside their products: its rows are written faster if lanes are neighbours.
            last = _cost(c, k, vec, converted) < _cost(k, c, vec, converted) * (
                1.2 if spatial_size(&p.y) <= 64 else 1.0)
        if spatial_size(&p.w) == 1:
            return int(last), min(512, PANEL_BYTES // (N_VECTORS * dev.vector_bytes)), 256
        return int(last), 256, 512

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef plan_t t = _tuned(dev, p, config)
        cdef bint wide = wide_scalars(dev, p.w.type)
        cdef int64_t size = type_size(<int> p.x.type), wide_size = type_size(<int> _accumulator(p))
        cdef int u = SLOT_X if t.g.lanes_last else SLOT_Y, v = SLOT_Y if t.g.lanes_last else SLOT_X
        token, acc = type_token(p.w.type), type_token(_accumulator(p))
        defines = {
            "U_TYPE": token, "ACC": acc, "SCALAR": real_token(wide), "VEC": t.vec,
            "TILE_ROWS": t.tile_rows, "N_VECTORS": N_VECTORS,
        }
        g = struct_arg(&t.g, sizeof(mx_weights))
        w = Arg.slot_of(SLOT_W, size)
        partial = Arg.slot_of(SLOT_WORKSPACE, wide_size, t.copy_bytes) if t.splits > 1 else w
        copy = Arg.slot_of(SLOT_WORKSPACE, wide_size)
        steps = []
        if t.copied:
            steps.append(Step(KernelSpec("conv/cpu/implicit_weights.cl", "copy_rows", **defines),
                              (Arg.slot_of(v, size), copy,
                               struct_arg(&t.copy, sizeof(mx_copy))),
                              (t.planes, t.g.images), (1, 1)))
        steps.append(Step(KernelSpec("conv/cpu/implicit_weights.cl", "weights", **defines),
                          (Arg.slot_of(u, size), copy if t.copied else Arg.slot_of(v, size), w, partial, g,
                           Arg.alpha(wide), Arg.beta(wide)), (t.chunks, t.splits, p.groups), (1, 1, 1)))
        if t.splits > 1:
            pieces = t.chunks * ceil_div(t.g.chunk_rows * t.g.chunk_taps, t.vec)
            steps.append(Step(KernelSpec("conv/cpu/implicit_weights.cl", "sum_partial", **defines),
                              (partial, w, g, Arg.int64(t.chunks),
                               Arg.int64(t.splits), Arg.alpha(wide), Arg.beta(wide)),
                              (pieces, 1, p.groups), (1, 1, 1)))
        return Solution(steps, self.workspace_bytes(dev, p))
