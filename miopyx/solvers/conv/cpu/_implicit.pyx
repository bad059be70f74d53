"""Implicit GEMM on CPU devices, forward and backward data, for packed NCW, NCHW and NCDHW tensors.

The last step multiplies the filter by what the outputs see, which it packs block by block.  The filter is packed by a
step before, but where rows of products read it in order anyway: forward, in the type of the sums.
"""

from libc.stdint cimport int64_t

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, is_streamed
from miopyx.problem._descriptors cimport type_size
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_DOUBLE, MX_FLOAT, MX_FORWARD, MX_INT8, mx_conv_problem, mx_tensor,
)
from miopyx.solvers.conv._base cimport (
    IMPLICIT_GEMM, ConvSolver, acc_size, acc_token, capped_product, is_packed, problem_bytes, spatial_size,
    vector_lanes,
)
from miopyx.solvers._tokens cimport real_token, type_token
from miopyx.solvers.conv._matmul cimport wide_scalars

cdef enum:
    LENGTH_LIMIT = 1 << 28       # of an axis, a pad or a filter with its dilation: coordinates are 32 bits wide
    PACKED_CHANNELS = 16         # of a work-group that packs backward data's filter, as in the kernel
    MAX_ROWS = 512               # of a work-group
    LEAST_ROWS = 32              # of a work-group: fewer would not pay for what it packs
    PANEL_BYTES = 28 * 1024      # of a first-level cache

# Tunables: taps and channels that are packed at a time, and work-groups that a core has, if there can be as many.
cdef tuple K_BLOCKS = (128, 256, 512)
cdef tuple GROUPS = (2, 6, 12, 24)

# What the kernels are built for.
cdef struct tile_t:
    int64_t vec, rows, vectors
    int64_t tiles  # side by side


cdef const mx_tensor* _in(const mx_conv_problem* p) noexcept nogil:
    return &p.x if p.direction == MX_FORWARD else &p.y


cdef const mx_tensor* _out(const mx_conv_problem* p) noexcept nogil:
    return &p.y if p.direction == MX_FORWARD else &p.x


cdef int64_t _rows(const mx_conv_problem* p) noexcept nogil:
    """Channels of a group's output."""
    return _out(p).len[1] // p.groups


cdef int64_t _depth(const mx_conv_problem* p) noexcept nogil:
    """Products of a row: channels of a group's input times taps."""
    return _in(p).len[1] // p.groups * spatial_size(&p.w)


cdef bint _pairs(const mx_conv_problem* p) noexcept nogil:
    return p.direction == MX_BACKWARD_DATA and p.step[2] == 2


cdef tile_t _tile(Device dev, const mx_conv_problem* p) noexcept:
    """Sums that fill the registers."""
    cdef tile_t t
    t.vec = vector_lanes(dev, acc_size(p))
    t.rows = 8 if dev.vector_bytes == 64 and _rows(p) > 4 else 4
    t.vectors = 6 if dev.vector_registers == 32 and t.rows == 4 and t.vec * (
        acc_size(p)) == dev.vector_bytes else 3
    if p.w.type == MX_INT8 and dev.vector_registers < 32:
        t.vectors = 2  # two products at once pass through a register of their own
    # A tile of short vectors is no whole number of cache lines, two or three are: results leave the caches sooner.
    t.tiles = 3 if t.vectors == 2 else 2
    if dev.vector_bytes == 64 or t.tiles * _depth(p) * t.vectors * t.vec * acc_size(p) > PANEL_BYTES:
        t.tiles = 1
    return t


cdef bint _in_place(Device dev, const mx_conv_problem* p) noexcept:
    """Whether a row's products take the filter as it is."""
    return p.direction == MX_FORWARD and (p.w.type == MX_FLOAT or p.w.type == MX_DOUBLE) and _rows(p) % _tile(
        dev, p).rows == 0


cdef class _CpuImplicitGemm(ConvSolver):
    def __cinit__(self):
        self.algorithm = IMPLICIT_GEMM
        self.dynamic = self.deterministic = True

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef int i
        if not dev.is_cpu:
            return "needs a CPU device"
        if not (is_packed(&p.x) and is_packed(&p.w) and is_packed(&p.y)):
            return "tensors are not packed NCHW"
        for i in range(3):
            if max(p.x.len[2 + i], p.y.len[2 + i], p.pad[i], p.step[i], capped_product(
                    p.w.len[2 + i], p.dilation[i])) > LENGTH_LIMIT:
                return "a long axis"
        if p.w.type == MX_INT8 and 2 * spatial_size(&p.w) > K_BLOCKS[0]:
            return "a large filter"  # blocks of the sum are two channels' taps at least
        if self.workspace_bytes(dev, p) > dev.max_alloc:
            return "workspace is beyond the limit"
        return None

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef tile_t t = _tile(dev, p)
        cdef int64_t rows = p.groups * up(_rows(p), t.rows)
        if _in_place(dev, p):
            return 0
        return capped_product(capped_product(rows, ceil_div(_depth(p), 2 if p.w.type == MX_INT8 else 1)), acc_size(p))

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        # Rows of tiles that do not exist are computed, and short sums are stored more often than long ones.
        cdef tile_t t = _tile(dev, p)
        cdef double rows = _rows(p), depth = _depth(p)
        cdef double index = .95 * rows / (up(_rows(p), t.rows))
        if p.direction == MX_FORWARD or spatial_size(&p.w) > 1:
            return index * depth / (depth + 16)
        # Whole runs of memory are packed, for which few rows do not pay.
        return index * depth / (depth + 2) * rows / (rows + 8)

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return ("K_BLOCK", K_BLOCKS), ("GROUPS", GROUPS)

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        return 256, 6

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef tile_t t = _tile(dev, p)
        cdef int64_t k_block, groups
        cdef const mx_tensor* x = _in(p)
        cdef const mx_tensor* y = _out(p)
        cdef bint pairs = _pairs(p), wide = wide_scalars(dev, y.type)
        cdef int64_t positions = x.len[0], phases = 1, tiles, chunks, i, most = 128 if pairs else MAX_ROWS
        cdef int64_t blocks = ceil_div(_rows(p), t.rows), acc = acc_size(p)
        k_block, groups = config
        for i in range(3):
            if self.direction == MX_FORWARD:
                positions *= y.len[2 + i]
            else:
                positions *= ceil_div(y.len[2 + i], p.step[i])
                phases *= 1 if i == 2 and pairs else min(p.step[i], y.len[2 + i])
        tiles = ceil_div(ceil_div(positions, t.vec), t.vectors * t.tiles)
        chunks = min(ceil_div(groups * dev.compute_units, tiles * phases * p.groups),
                     ceil_div(blocks * t.rows, LEAST_ROWS))
        chunks = max(ceil_div(blocks * t.rows, most), chunks)
        cdef bint in_place = _in_place(dev, p)
        cdef bint streamed = is_streamed(dev, 2 * y.len[0] * y.len[1] * spatial_size(y) * type_size(<int> y.type))
        types = {
            "IN_TYPE": type_token(x.type), "W_TYPE": type_token(p.w.type), "OUT_TYPE": type_token(y.type),
            "ACC": acc_token(p),
            "SCALAR": real_token(wide), "BACKWARD": int(self.direction == MX_BACKWARD_DATA),
            "VEC": t.vec,
        }
        defines = {**types, "ROWS": t.rows, "N_VECTORS": t.vectors, "TILES": t.tiles}
        problem = Arg.value_of(problem_bytes(p))
        packed = Arg.slot_of(SLOT_WORKSPACE, acc)
        filters = Arg.slot_of(SLOT_W, type_size(<int> p.w.type))
        pack = Step(
            KernelSpec("conv/cpu/implicit.cl", "pack_filters", KERNELS=1, **types),
            (filters, packed, problem, Arg.int64(t.rows)),
            (ceil_div(_rows(p), t.vec) if self.direction == MX_FORWARD else
             ceil_div(x.len[1] // p.groups, PACKED_CHANNELS), p.groups, 1), (1, 1, 1))
        convolve = Step(
            KernelSpec("conv/cpu/implicit.cl", "convolve", KERNELS=2, MAX_ROWS=MAX_ROWS, K_BLOCK=k_block, **defines),
            (Arg.slot_of(SLOT_X if self.direction == MX_FORWARD else SLOT_Y, type_size(<int> x.type)),
             filters if in_place else packed,
             Arg.slot_of(SLOT_Y if self.direction == MX_FORWARD else SLOT_X, type_size(<int> y.type)), problem,
             Arg.int64(tiles), Arg.int64(chunks), Arg.int64(in_place), Arg.int64(pairs), Arg.int64(streamed),
             Arg.alpha(wide), Arg.beta(wide)),
            (phases * tiles * chunks, p.groups, 1), (1, 1, 1))
        if in_place:
            return Solution([convolve])
        return Solution([pack, convolve], self.workspace_bytes(dev, p), constant=1)


cdef class CpuImplicitGemmFwd(_CpuImplicitGemm):
    """Forward."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1121, "CpuImplicitGemmFwd", MX_FORWARD


cdef class CpuImplicitGemmBwd(_CpuImplicitGemm):
    """Backward data."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1122, "CpuImplicitGemmBwd", MX_BACKWARD_DATA

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        return "data type" if p.w.type == MX_INT8 else _CpuImplicitGemm.refuse(self, dev, p)
