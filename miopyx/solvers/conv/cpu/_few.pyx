"""Forward convolutions of few channels on CPU devices, for packed NCW, NCHW and NCDHW tensors: a network's first layer.

A first step packs the filter, the second one pads x and splits its rows by the stride; the last one multiplies straight
from there, where implicit GEMM packs what each tile of outputs sees.
"""

from libc.stdint cimport int64_t

from miopyx._core cimport (
    BLOCK_TERMS, SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, is_streamed,
)
from miopyx.problem._descriptors cimport type_size
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport MX_FORWARD, MX_INT8, mx_conv_problem
from miopyx.solvers.conv._base cimport (
    DIRECT, ConvSolver, acc_size, acc_token, capped_product, capped_sum, is_packed, problem_bytes, spatial_size,
    sum_terms, vector_lanes,
)
from miopyx.solvers._tokens cimport real_token, type_token
from miopyx.solvers.conv._matmul cimport wide_scalars

cdef enum:
    CHANNELS_LIMIT = 4           # beyond these limits others are as fast
    FILTERS_LIMIT = 128
    LEAST_FILTERS = 4
    LEAST_WIDTH = 40             # of y
    INT_LIMIT = 0x7FFFFFFF       # elements of a split image
    LENGTH_LIMIT = 1 << 28       # of an axis, a pad or a filter with its dilation
    SPLIT_ROWS = 8               # that a work-item splits, as in the kernel
    GROUPS = 6                   # work-groups that a core has, if there can be as many
    ALIGNED = 64                 # bytes

# What the kernels are built for.
cdef struct tile_t:
    int64_t vec, rows, vectors


cdef tile_t _tile(Device dev, const mx_conv_problem* p) noexcept:
    """Sums that fill the registers: AVX-512 and NEON have 32, AVX2 has 16; others of 16 bytes count as NEON."""
    cdef tile_t t
    t.vec = vector_lanes(dev, acc_size(p))
    t.rows = 8 if dev.vector_bytes == 64 and p.w.len[0] > 4 else 4
    t.vectors = 6 if dev.vector_registers == 32 and t.rows == 4 and t.vec * acc_size(p) == dev.vector_bytes else 3
    return t


cdef int64_t _seen(const mx_conv_problem* p, int axis) noexcept nogil:
    """Elements along an axis of the padded x that outputs see."""
    return 1 + capped_sum(capped_product(p.y.len[2 + axis] - 1, p.step[axis]),
                          capped_product(p.w.len[2 + axis] - 1, p.dilation[axis]))


cdef int64_t _split(const mx_conv_problem* p, int64_t vec) noexcept nogil:
    """Elements of an image that is padded and split."""
    cdef int64_t reach = capped_product(p.w.len[4] - 1, p.dilation[2])
    cdef int64_t row = capped_product(p.step[2], up(p.y.len[4], vec) + reach // p.step[2])
    return capped_product(p.x.len[1], capped_product(capped_product(_seen(p, 0), _seen(p, 1)), row))


cdef int64_t _filters(const mx_conv_problem* p, const tile_t* t) noexcept nogil:
    """Bytes of the packed filter."""
    return up(capped_product(capped_product(up(p.w.len[0], t.rows) * acc_size(p), p.w.len[1]), spatial_size(&p.w)),
              ALIGNED)


cdef class CpuFewChannelsFwd(ConvSolver):
    """Forward, up to 4 channels: x is padded and split by the stride once, then multiplied in place."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1127, "CpuFewChannelsFwd", MX_FORWARD
        self.algorithm = DIRECT
        self.dynamic = self.deterministic = True

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef int i
        if not dev.is_cpu:
            return "needs a CPU device"
        if p.w.type == MX_INT8:
            return "data type"
        if p.groups != 1:
            return "groups"
        if p.w.len[1] > CHANNELS_LIMIT:
            return "many channels"
        if p.w.len[0] < LEAST_FILTERS or p.w.len[0] > FILTERS_LIMIT:
            return "few or many filters"
        if not (is_packed(&p.x) and is_packed(&p.w) and is_packed(&p.y)):
            return "tensors are not packed NCHW"
        if sum_terms(p) > BLOCK_TERMS:
            return "a large filter"    # one accumulator takes all terms
        if p.y.len[4] < LEAST_WIDTH:
            return "short rows"
        for i in range(3):
            # Nothing is read twice: others read it in place.
            if p.y.len[2 + i] > 1 and p.step[i] > capped_product(p.w.len[2 + i] - 1, p.dilation[i]) + 1:
                return "filters do not overlap"
            if max(p.x.len[2 + i], p.y.len[2 + i], p.pad[i], p.step[i], capped_product(
                    p.w.len[2 + i], p.dilation[i])) > LENGTH_LIMIT:
                return "a long axis"
        if _split(p, vector_lanes(dev, acc_size(p))) > INT_LIMIT or self.workspace_bytes(dev, p) > dev.max_alloc:
            return "workspace is beyond the limit"
        return None

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef tile_t t = _tile(dev, p)
        return capped_sum(_filters(p, &t), capped_product(capped_product(p.x.len[0], _split(p, t.vec)), acc_size(p)))

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        # Above FFT's where filters are short, whose index counts the products that it saves.  Rows are not shared.
        cdef tile_t t = _tile(dev, p)
        cdef double share = p.x.len[0] * p.y.len[2] * p.y.len[3] / <double> (GROUPS * dev.compute_units)
        return 1.8 * min(1.0, share) * p.y.len[4] / up(p.y.len[4], t.vec) * p.w.len[0] / up(p.w.len[0], t.rows)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef tile_t t = _tile(dev, p)
        cdef int64_t acc = acc_size(p), rows = p.y.len[2] * p.y.len[3], each
        cdef bint wide = wide_scalars(dev, p.y.type)
        cdef bint streamed = is_streamed(dev, 2 * p.y.len[0] * p.y.len[1] * spatial_size(&p.y) * type_size(
            <int> p.y.type))
        # Vectors of as many rows make whole tiles.
        each = max(1, min(t.vectors, p.x.len[0] * rows // (GROUPS * dev.compute_units)))
        problem = Arg.value_of(problem_bytes(p))
        packed = Arg.slot_of(SLOT_WORKSPACE, acc)
        columns = Arg.slot_of(SLOT_WORKSPACE, acc, _filters(p, &t))
        types = {"IN_TYPE": type_token(p.x.type), "OUT_TYPE": type_token(p.y.type), "ACC": acc_token(p),
                 "SCALAR": real_token(wide), "VEC": t.vec}
        few = {**types, "ROWS": t.rows, "N_VECTORS": t.vectors}
        return Solution([
            Step(KernelSpec("conv/cpu/implicit.cl", "pack_filters", KERNELS=1, BACKWARD=0,
                            W_TYPE=type_token(p.w.type), **types),
                 (Arg.slot_of(SLOT_W, type_size(<int> p.w.type)), packed, problem, Arg.int64(t.rows)),
                 (ceil_div(p.w.len[0], t.vec), 1, 1), (1, 1, 1)),
            Step(KernelSpec("conv/cpu/few.cl", "split", **few),
                 (Arg.slot_of(SLOT_X, type_size(<int> p.x.type)), columns, problem),
                 (ceil_div(_seen(p, 0) * _seen(p, 1), SPLIT_ROWS), p.x.len[1], p.x.len[0]), (1, 1, 1)),
            Step(KernelSpec("conv/cpu/few.cl", "multiply", **few),
                 (columns, packed, Arg.slot_of(SLOT_Y, type_size(<int> p.y.type)), problem, Arg.int64(each),
                  Arg.int64(streamed), Arg.alpha(wide), Arg.beta(wide)),
                 (ceil_div(rows, each), p.x.len[0], 1), (1, 1, 1)),
        ], self.workspace_bytes(dev, p), constant=1)
