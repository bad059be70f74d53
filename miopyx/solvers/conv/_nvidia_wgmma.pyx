"""Convolution in 16 bits by Hopper's wgmma: what kernels/conv_nvidia_hopper.cl and conv_nvidia_half_weights.cl take."""

from libc.stdint cimport int64_t

from miopyx._core cimport Device, KernelSpec, Solution, Step
from miopyx._types cimport MX_FLOAT, mx_conv_problem
from miopyx.solvers.conv._base cimport type_token
from miopyx.solvers.conv._nvidia cimport (
    NvImplicitGemmBwd, NvImplicitGemmFwd, NvImplicitGemmWrw, choose_parts, only_read, operand_args, parts_t, roles_of,
    roles_t, tile_t, weights_of_halves, widest,
)
from miopyx.solvers.conv._nvidia_common cimport has_wgmma, mx_nv_conv, up

cdef tile_t[4] WGMMA_TILES
WGMMA_TILES[0] = tile_t(128, 256, 256, 1)
WGMMA_TILES[1] = tile_t(128, 128, 256, 1)
WGMMA_TILES[2] = tile_t(64, 256, 128, 1)
WGMMA_TILES[3] = tile_t(64, 64, 128, 3)
cdef tuple WGMMA_TILE_DEFINES = ({"STAGES": 4}, {"STAGES": 6}, {"STAGES": 5}, {"STAGES": 4})

# What wgmma multiplies in one go: pixels and filters of a tile, what a slice and a whole tile take in microseconds.
cdef struct choice_t:
    int pixels, filters, in_turns
    double slice, end

cdef choice_t[5] CHOICES
CHOICES[0] = choice_t(128, 256, 0, 0.79, 1.9)
CHOICES[1] = choice_t(256, 128, 0, 0.80, 2.3)
CHOICES[2] = choice_t(128, 128, 1, 0.48, 1.2)
CHOICES[3] = choice_t(128, 64, 1, 0.35, 0.6)
CHOICES[4] = choice_t(256, 64, 0, 0.55, 1.0)
cdef tuple CHOICE_STAGES = (4, 4, 6, 4, 5)


cdef Step _multiply_hopper(Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g):
    cdef bint last = g.y_c == 1 and g.filters > 1
    cdef int64_t units = max(1, dev.compute_units), slices = up(g.taps_h * g.taps_w * g.reduced, 64) // 64
    cdef int64_t tiles, best_tiles = 1, threads
    cdef bint shared = g.taps_h * g.taps_w > 1 and g.filters <= 64
    cdef double cost, best = -1
    cdef int i, chosen = 0
    for i in range(5):
        # Filters of 64: what taps share comes through the first-level cache, and tiles of many pixels share most.
        if (i == 4) != shared:
            continue
        tiles = (up(g.pixels, CHOICES[i].pixels) // CHOICES[i].pixels * g.groups
                 * (up(g.filters, CHOICES[i].filters) // CHOICES[i].filters))
        cost = ((tiles + units - 1) // units) * (slices * CHOICES[i].slice + CHOICES[i].end)
        if best < 0 or cost < best:
            best, best_tiles, chosen = cost, tiles, i
    # 128 work-items multiply 64 rows, or 128, of up to 256 columns; 128 more copy.
    rows = CHOICES[chosen].pixels if last else CHOICES[chosen].filters
    wg_rows = max(1, rows // 64 if CHOICES[chosen].in_turns else rows // 128)
    threads = 384 if CHOICES[chosen].in_turns else rows // wg_rows * 2 + 128
    spec = KernelSpec(
        "conv_nvidia_hopper.cl", "conv_nvidia_hopper", SM_90A=1, X_TYPE=type_token(p.w.type), LAST=int(last),
        VEC=widest(g, last), BP=CHOICES[chosen].pixels, BF=CHOICES[chosen].filters, WG_ROWS=wg_rows,
        STAGES=CHOICE_STAGES[chosen], IN_TURNS=CHOICES[chosen].in_turns, NEAR=int(shared),
        TAPS_INNER=int(shared and g.reduced % 64 == 0), X_ACROSS=int(r.x_across), W_ACROSS=int(r.w_across),
    )
    return Step(spec, operand_args(r, g), (min(best_tiles, units) * threads,), (threads,))


cdef class NvWgmmaFwd(NvImplicitGemmFwd):
    """Forward in 16 bits by Hopper's wgmma, in one launch after those that pack."""

    def __cinit__(self):
        self.id, self.name = 1104, "NvWgmmaFwd"

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = NvImplicitGemmFwd.refuse(self, dev, p)
        return _refuse_hopper(dev, p) if why is None else why

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return NvImplicitGemmFwd.index(self, dev, p) + 0.01

    cdef roles_t roles(self, const mx_conv_problem* p) noexcept:
        return roles_of(p, True)

    cdef Step multiply(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g):
        return _multiply_hopper(dev, p, r, g)


cdef class NvWgmmaBwd(NvImplicitGemmBwd):
    """Backward data in 16 bits by Hopper's wgmma: a launch for every residue of the stride, after those that pack."""

    def __cinit__(self):
        self.id, self.name = 1105, "NvWgmmaBwd"

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = NvImplicitGemmBwd.refuse(self, dev, p)
        return _refuse_hopper(dev, p) if why is None else why

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return NvImplicitGemmBwd.index(self, dev, p) + 0.01

    cdef roles_t roles(self, const mx_conv_problem* p) noexcept:
        return roles_of(p, True)

    cdef Step multiply(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g):
        return _multiply_hopper(dev, p, r, g)


cdef class NvWgmmaWrw(NvImplicitGemmWrw):
    """Backward weights in 16 bits by Hopper's wgmma: parts of the pixels side by side, added up by a last launch."""

    def __cinit__(self):
        self.id, self.name = 1106, "NvWgmmaWrw"

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = NvImplicitGemmWrw.refuse(self, dev, p)
        return _refuse_hopper(dev, p) if why is None else why

    cdef parts_t parts(self, Device dev, const mx_conv_problem* p) noexcept:
        return choose_parts(dev, p, WGMMA_TILES, 4, 4.9e6, True)

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return NvImplicitGemmWrw.index(self, dev, p) + 0.01

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem read = only_read(p)
        cdef parts_t s = self.parts(dev, &read)
        return weights_of_halves(&read, &s, &WGMMA_TILES[s.tile], dict(
            WGMMA_TILE_DEFINES[s.tile], SM_90A=1, PIXELS_CLOSEST=int(s.pixels_closest)))


cdef str _refuse_hopper(Device dev, const mx_conv_problem* p):
    if not has_wgmma(dev):
        return "needs wgmma"
    return "data type" if p.w.type == MX_FLOAT else None
