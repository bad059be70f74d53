"""Backward weights in 16 bits by Hopper's wgmma where neighbouring taps share pixels."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.values._integers cimport ceil_div, more_parts, up
from miopyx.values._types cimport MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_HALF, mx_conv_problem, mx_tensor
from ._common cimport (
    LONGEST, NO_ROOM, TOO_LARGE, WGMMA_PEAK, _NvSolver, divisor, folded, has_wgmma, is_volume, mx_divisor, mx_nv_conv,
    mx_nv_volume, plane_rows, refuse_sizes, set_taps, set_x, set_y, sum_partial, tensor_cores, volume,
)
from miopyx.solvers.conv._base cimport INT_LIMIT, is_channels_last, spatial_size, stride_of
from miopyx.solvers._tokens cimport type_token

cdef enum:
    CHUNK = 64             # channels, or filters, of a row in local memory
    DEPTH = 64             # positions of a slice
    K_STEP = 16
    TAPS = 3               # of a row of the filter
    TAP_LIMIT = 4          # of the dilation along a row: X_BYTES of conv/nvidia/hopper_taps.cl
    ROWS = 3               # of taps that a tile has
    THREADS = 512

cdef extern from "miopyx/kernels/conv/nvidia/hopper_taps_args.h" nogil:
    ctypedef struct mx_nv_taps:
        mx_nv_volume volume
        int pitch, plane_rows, x_chunks
        int slices, last_steps
        mx_divisor by_pitch, by_plane

# Tiles, splits of `each` slices, and columns with whole chunks a tap.
cdef struct split_t:
    int64_t tiles, splits, each, columns


# What takes time, as TERMS names it: rounds of tiles over the compute units and their slices; megabytes.
cdef struct cost_terms_t:
    double launch, rounds, slices, parts, x, y

cdef tuple TERMS = ("launch", "rounds", "slices", "parts", "x", "y")


cdef bint _whole(const mx_tensor* t) noexcept nogil:
    """Whether channels are contiguous in eights."""
    return is_channels_last(t) and (
        t.len[1] | stride_of(t, 0) | stride_of(t, 3) | stride_of(t, 4)) % 8 == 0


cdef mx_nv_taps _operands(const mx_conv_problem* p) noexcept nogil:
    cdef mx_nv_taps o
    cdef mx_nv_conv* g = &o.volume.conv
    cdef int64_t filters = p.w.len[0] // p.groups, channels = p.w.len[1], rows = plane_rows(&p.y), positions
    memset(&o, 0, sizeof(o))
    g.filters, g.channels, g.groups = <int> filters, <int> channels, <int> p.groups
    set_x(g, &p.x, channels, 0)
    set_y(g, &p.y, filters)
    set_taps(g, p)
    if is_volume(p):
        o.volume = volume(g, &p.x, &p.y)
    o.plane_rows = <int> (rows + (plane_rows(&p.w) - 1) * p.dilation[1])
    o.by_plane = divisor(o.plane_rows)
    o.pitch, o.by_pitch = g.q + (g.taps_w - 1) * g.tap_w, divisor(g.q + (g.taps_w - 1) * g.tap_w)
    o.x_chunks = <int> ceil_div(channels, CHUNK)
    positions = up(((p.y.len[2] - 1) * o.plane_rows + rows - 1) * o.pitch + g.q, K_STEP)
    o.slices = <int> ceil_div(positions, DEPTH)
    o.last_steps = <int> (positions - (o.slices - 1) * DEPTH) // K_STEP
    return o


cdef split_t _split(Device dev, const mx_conv_problem* p, const mx_nv_taps* o) noexcept:
    """The splits that should take least time: each takes 4 us to begin and end, and is written and read."""
    cdef split_t s
    cdef int64_t units = max(1, dev.compute_units), slices = p.y.len[0] * o.slices, least, most, splits, each
    cdef double cost, best = -1
    memset(&s, 0, sizeof(s))
    s.columns = o.x_chunks * CHUNK * p.w.len[3] * p.w.len[4]
    s.tiles = ceil_div(p.w.len[0] // p.groups, CHUNK) * ceil_div(p.w.len[3], ROWS) * o.x_chunks * p.groups
    least = max(1, ceil_div(slices * DEPTH, LONGEST))
    splits, most = least, max(least, min(4 * units // s.tiles + 2, ceil_div(slices, 2)))
    while splits <= most:
        each = ceil_div(slices, splits)
        cost = ceil_div(s.tiles * splits, units) * (each * 1.05 + 4) + splits * p.w.len[0] * s.columns * 8 / 3e6
        if best < 0 or cost < best:
            best, s.each = cost, each
        splits = more_parts(slices, each)
    s.splits = ceil_div(slices, s.each)
    return s


cdef class NvTapsWrw(_NvSolver):
    """Backward weights of three taps across, in 16 bits by wgmma, channels last: taps share pixels, split-K."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1187, "NvTapsWrw", MX_BACKWARD_WEIGHTS
        self.cost_names = TERMS

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef cost_terms_t* t = <cost_terms_t*> terms
        cdef mx_conv_problem f = folded(p)
        cdef mx_nv_taps o = _operands(&f)
        cdef split_t s = _split(dev, &f, &o)
        t.launch, t.rounds = 2, ceil_div(s.tiles * s.splits, max(1, dev.compute_units))
        t.slices = t.rounds * s.each
        t.parts = s.splits * p.w.len[0] * <double> s.columns * 4e-6
        t.x = p.x.len[0] * p.x.len[1] * <double> spatial_size(&p.x) * 2e-6
        t.y = p.y.len[0] * p.y.len[1] * <double> spatial_size(&p.y) * 2e-6

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        if not tensor_cores(dev) or not has_wgmma(dev):
            return "needs wgmma"
        if p.w.type != MX_HALF and p.w.type != MX_BFLOAT16:
            return "data type"
        why = refuse_sizes(p, 0, True, True)
        if why is not None:
            return why
        cdef mx_conv_problem f = folded(p)
        if f.step[0] != 1 or f.step[1] != 1 or f.step[2] != 1:
            return "a stride"
        if f.w.len[4] != TAPS or f.w.len[3] < 2:
            return "filter size"
        if f.dilation[2] > TAP_LIMIT:
            return "a large dilation"
        if not (_whole(&f.x) and _whole(&f.y)) or (p.w.len[1] | p.w.len[0] // p.groups) % 8:
            return "channels are not contiguous in eights"
        if (f.y.len[2] * (plane_rows(&f.y) + (plane_rows(&f.w) - 1) * f.dilation[1])
                * (f.y.len[4] + (f.w.len[4] - 1) * f.dilation[2]) * f.y.len[0] > INT_LIMIT // 4):
            return TOO_LARGE
        if self.workspace_bytes(dev, p) > min(dev.max_alloc, <int64_t> 4 * INT_LIMIT):
            return NO_ROOM
        return None

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef mx_conv_problem f = folded(p)
        cdef mx_nv_taps o = _operands(&f)
        cdef split_t s = _split(dev, &f, &o)
        return s.splits * p.w.len[0] * s.columns * 4

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return (WGMMA_PEAK * p.w.len[1] / <double> up(p.w.len[1], CHUNK)
                * min(1.0, p.w.len[0] // p.groups / <double> CHUNK))

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem f = folded(p)
        p = &f
        cdef mx_nv_taps o = _operands(p)
        cdef split_t s = _split(dev, p, &o)
        spec = KernelSpec("conv/nvidia/hopper_taps.cl", "conv_nvidia_hopper_taps", SM_90A=1,
                          X_TYPE=type_token(p.w.type), **({"AXES": 3} if is_volume(p) else {}))
        args = (Arg.slot_of(SLOT_X, 2), Arg.slot_of(SLOT_Y, 2), Arg.slot_of(SLOT_WORKSPACE, 4),
                struct_arg(&o, sizeof(o)), Arg.int32(s.each))
        return Solution([Step(spec, args, (THREADS * s.tiles * s.splits,), (THREADS,)),
                         sum_partial(p, s.splits, 0, s.columns, 1, o.x_chunks * CHUNK)],
                        s.splits * p.w.len[0] * s.columns * 4)
