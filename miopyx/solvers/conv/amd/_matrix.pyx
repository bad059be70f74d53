"""Convolutions on AMD's matrix cores: MFMA of CDNA 2 and 3, WMMA of RDNA 3, with gathered operands.

The matrices, and how problems are taken apart, are those of `solvers/conv/gpu/_implicit`; the kernel is another.
float32 stays float32 (MFMA multiplies it as it is).  CDNA 2's instructions for half take numbers below 2^-14 as zeros,
so half is widened to float32 there; bfloat16 has float32's range.

Nobody has timed these: they are off until MIOPYX_AMD_MATRIX_CORES is 1.
"""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Device, KernelSpec, Step
from miopyx.values._integers cimport ceil_div
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_FLOAT, MX_FORWARD, MX_HALF, mx_conv_problem, mx_tensor,
)
from miopyx.solvers.conv._base cimport GPU_TERMS, is_channels_last, spatial_size
from miopyx.solvers._tokens cimport real_token, type_token
from miopyx.solvers.conv._matmul cimport wide_scalars
from miopyx.solvers.conv.gpu._implicit cimport GatheringSolver, gathered_args, has_long_sums, mx_gather

# Kinds of matrix cores: of RDNA 3, of CDNA 3, of CDNA 2, which takes small halves for zeros.
cdef enum:
    NONE
    WMMA
    MFMA
    MFMA_FLUSHES

# Registers of a lane, so that none is spilled: for sums, and totals where these are long; for what it loads of a slice.
cdef enum:
    MFMA_SUMS = 64
    WMMA_SUMS = 32
    LOADS = 16
    CUT = 2        # roundings that an instruction's addition counts for: whether it rounds or cuts off is not said

cdef dict KINDS = {"gfx90a": MFMA_FLUSHES, "gfx942": MFMA, "gfx1100": WMMA, "gfx1101": WMMA, "gfx1102": WMMA,
                   "gfx1103": WMMA}

cdef tuple TABLE = (
    ("SIDE", (16, 32)), ("WAVES_M", (1, 2, 4)), ("WAVES_N", (1, 2, 4)), ("TILES_M", (1, 2, 4)), ("TILES_N", (1, 2, 4)),
    ("DEPTH", (16, 32, 64)),
)


# Default tiles from large to small: side, waves along m and n, tiles of a wave along m and n, depth.
cdef tuple MFMA_TILES = (
    (32, 2, 2, 2, 2, 32), (32, 2, 2, 2, 1, 32), (32, 2, 2, 1, 1, 32), (16, 2, 2, 1, 1, 32), (16, 1, 1, 1, 1, 16))
cdef tuple WMMA_TILES = ((16, 2, 4, 2, 2, 32), (16, 2, 4, 2, 1, 32), (16, 2, 2, 2, 1, 32), (16, 2, 2, 1, 1, 32),
                         (16, 1, 1, 1, 1, 16))


cdef int _kind(Device dev):
    return KINDS.get(dev.info.isa, NONE) if dev.is_gpu and dev.info.runtime == "amd" else NONE


cdef int _wave(int kind) noexcept:
    return 32 if kind == WMMA else 64


cdef bint _widens(int kind, const mx_conv_problem* p) noexcept:
    """Whether the factors are float32 in local memory."""
    return p.w.type == MX_FLOAT or (p.w.type == MX_HALF and kind == MFMA_FLUSHES)


cdef int64_t _run(bint side_by_side, int64_t length, int64_t whole) noexcept nogil:
    """Elements that are loaded at once: `whole`, where runs of that length follow each other, else one."""
    return whole if side_by_side and length % whole == 0 else 1


cdef bint _image_in_runs(int kind, const mx_conv_problem* p) noexcept:
    """Whether whole runs of the image's channels follow each other, whatever the phase of a stride."""
    cdef const mx_tensor* image = &p.y if p.direction == MX_BACKWARD_DATA else &p.x
    return is_channels_last(image) and (image.len[1] // p.groups) % (4 if _widens(kind, p) else 8) == 0


cdef class _AmdMatrix(GatheringSolver):
    @property
    def switch(self):
        return "MIOPYX_AMD_MATRIX_CORES"

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef int kind = _kind(dev)
        if kind == NONE:
            return "needs matrix cores of AMD's that are known"
        if p.w.type not in (MX_FLOAT, MX_HALF, MX_BFLOAT16) or (p.w.type == MX_FLOAT and kind == WMMA):
            return "data type"
        if self.default(dev, p) is None:
            return "too small work-groups or local memory"
        return GatheringSolver.refuse(self, dev, p)

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return 0.6  # before the same without matrix cores; nobody has measured either

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        return CUT * GatheringSolver.roundings(self, dev, p)

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return TABLE

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        cdef int64_t side, waves_m, waves_n, tiles_m, tiles_n, depth, items, sums, size, run, rows, columns
        cdef int kind = _kind(dev)
        side, waves_m, waves_n, tiles_m, tiles_n, depth = config
        if kind == WMMA and side != 16:
            return False
        size = 4 if _widens(kind, p) else 2
        run = 16 // size
        items, rows, columns = _wave(kind) * waves_m * waves_n, waves_m * tiles_m * side, waves_n * tiles_n * side
        sums = tiles_m * tiles_n * side * side // _wave(kind) * (3 if has_long_sums(p) else 1)
        # Runs of single elements take an address and a place in the image each.
        if (rows + columns) * depth > LOADS * items * (run if _image_in_runs(kind, p) else 1):
            return False
        return (items <= dev.max_work_group and sums <= (WMMA_SUMS if kind == WMMA else MFMA_SUMS)
                and depth % (16 if kind == WMMA else 64 // side * run) == 0
                # Every work-item loads as many whole runs of a slice as any other, along either axis.
                and items % depth == 0 and items % rows == 0 and items % columns == 0
                and min(rows, columns) * depth % (run * items) == 0
                and (rows + columns) * (depth + run) * size <= dev.local_mem)

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        """The largest tile of which a product fills half at least, and that gives every compute unit one."""
        cdef int64_t m = p.w.len[0] // p.groups, n = p.y.len[0] * spatial_size(&p.y), rows, columns
        cdef tuple config, last = None
        if p.direction == MX_BACKWARD_DATA:
            m, n = p.w.len[1], p.x.len[0] * spatial_size(&p.x)
        elif p.direction == MX_BACKWARD_WEIGHTS:
            n = p.w.len[1] * spatial_size(&p.w)
        for config in (WMMA_TILES if _kind(dev) == WMMA else MFMA_TILES):
            if not self.fits(dev, p, config):
                continue
            last = config
            rows, columns = config[0] * config[1] * config[3], config[0] * config[2] * config[4]
            if (2 * m > rows and 2 * n > columns
                    and p.groups * ceil_div(m, rows) * ceil_div(n, columns) >= dev.compute_units):
                break
        return last

    cdef Step product(self, Device dev, const mx_conv_problem* p, mx_gather* g, tuple config, tuple slots,
                      int64_t c_type, bint last, Arg alpha, Arg beta):
        cdef int64_t side, waves_m, waves_n, tiles_m, tiles_n, depth, items, whole, a_run, b_run
        cdef int kind = _kind(dev)
        cdef bint wide = _widens(kind, p)
        side, waves_m, waves_n, tiles_m, tiles_n, depth = config
        items = _wave(kind) * waves_m * waves_n
        whole = 4 if wide else 8
        if p.direction == MX_BACKWARD_WEIGHTS:
            a_run, b_run = _run(last and g.f_m == 1, g.m, whole), _run(last and g.i_c == 1, g.channels, whole)
        elif last:
            a_run, b_run = _run(g.f_c == 1, g.channels, whole), _run(g.i_c == 1, g.channels, whole)
        else:
            a_run, b_run = _run(g.f_at[2] == 1 and g.f_at[1] == g.taps_w and g.f_at[0] == g.taps_hw
                                and g.f_c == g.taps, g.k, whole), 1
        g.across, g.down = <int> ceil_div(g.n, waves_n * tiles_n * side), <int> ceil_div(g.m, waves_m * tiles_m * side)
        g.groups = <int> p.groups
        spec = KernelSpec(
            "conv/amd/matrix.cl", "conv_matrix", IMAGE_TYPE=type_token(p.w.type), C_TYPE=type_token(c_type),
            OPERAND="float" if wide else type_token(p.w.type), SCALAR=real_token(wide_scalars(dev, c_type)),
            DIRECTION=p.direction, CHANNELS_LAST=int(last), LONG_SUMS=int(g.each > GPU_TERMS), MFMA=int(kind != WMMA),
            SIDE=side, WAVES_M=waves_m, WAVES_N=waves_n, TILES_M=tiles_m, TILES_N=tiles_n, DEPTH=depth, A_RUN=a_run,
            B_RUN=b_run)
        return Step(spec, gathered_args(g, p, slots, c_type, alpha, beta),
                    (items * g.across * g.down * g.groups * g.splits,), (items,))


cdef class AmdMatrixFwd(_AmdMatrix):
    """Forward in one launch."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1401, "AmdMatrixFwd", MX_FORWARD


cdef class AmdMatrixBwd(_AmdMatrix):
    """Backward data, one launch a phase of the stride."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1402, "AmdMatrixBwd", MX_BACKWARD_DATA


cdef class AmdMatrixWrw(_AmdMatrix):
    """Backward weights, split-K where sums are long; a second launch adds the partial sums."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1403, "AmdMatrixWrw", MX_BACKWARD_WEIGHTS
