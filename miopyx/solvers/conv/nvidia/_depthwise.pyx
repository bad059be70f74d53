"""Backward weights of depthwise convolutions with large filters, in 16 bits with channels last, on tensor cores."""

from libc.stdint cimport int64_t

from miopyx._core cimport SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_HALF, mx_conv_problem, mx_tensor
from miopyx.solvers.conv._base cimport DIRECT, is_channels_last, stride_of
from miopyx.solvers._tokens cimport type_token
from ._common cimport LONGEST, NO_ROOM, _NvSolver, divisor, mx_divisor, refuse_sizes, sum_partial, tensor_cores

cdef enum:
    OCTET = 8              # channels of a warp
    LEAST_TAPS = 16        # with fewer, multiplying in float is no bound
    SIDE_LIMIT = 32        # of a filter
    MOST_STEPS = 4         # sixteens of columns of a strip
    STAGE_STEPS = 8        # that a stage has of all rows together
    MOST_OCTETS = 6        # of a work-group
    MOST_THREADS = 256
    GROUP_BYTES = 100000   # of local memory
    UNIT_BYTES = 230000    # likewise of a compute unit
    UNIT_WARPS = 16        # that a compute unit has at once, by their registers

cdef extern from "miopyx/kernels/conv/nvidia/depthwise_args.h" nogil:
    ctypedef struct mx_nv_depthwise:
        int channels, sets
        int rows, each
        int p, q, h, w, strips
        int first_h, first_w
        int x_n, x_h, x_w, y_n, y_h, y_w
        mx_divisor by_image

# What the kernel is built for: work-items of a group and how many groups a compute unit has at once.
cdef struct tile_t:
    int64_t octets, rows, steps, threads, resident


# What takes time, as TERMS names it: rounds of work-groups over the places that they have, thousands of products of a
# warp in a row, megabytes read and of partial sums.
cdef struct cost_terms_t:
    double launch, rounds, products, read, parts

cdef tuple TERMS = ("launch", "rounds", "products", "read", "parts")


cdef int64_t _tap_rows(const mx_conv_problem* p) noexcept nogil:
    """Rows of dy that a row of x meets."""
    return ceil_div(p.w.len[3], p.step[1])


cdef int64_t _bytes(const mx_conv_problem* p, const tile_t* t) noexcept nogil:
    """Local memory of a work-group, as conv/nvidia/depthwise_weights.cl has it."""
    cdef int64_t columns = (16 * t.steps - 1) * p.step[2] + p.w.len[4]
    cdef int64_t ring = up(_tap_rows(p) - 1, t.rows) + 2 * t.rows
    return 16 * t.octets * (2 * t.rows * p.step[1] * (columns | 1) + ring * (16 * t.steps | 1))


cdef tile_t _tile(const mx_conv_problem* p) noexcept nogil:
    cdef tile_t t
    cdef int64_t blocks = ceil_div(p.w.len[4], 8), octets = p.x.len[1] // OCTET, parts, fitting
    parts = blocks if p.step[1] > 1 or _tap_rows(p) > 16 else ceil_div(blocks, 2)
    t.steps = ceil_div(ceil_div(p.y.len[4], ceil_div(p.y.len[4], 16 * MOST_STEPS)), 16)
    t.rows = max(1, STAGE_STEPS // t.steps)
    t.octets = min(MOST_OCTETS, MOST_THREADS // (32 * parts), octets)
    while t.octets > 1 and _bytes(p, &t) > GROUP_BYTES:
        t.octets -= 1
    # As few idle ones as can be.
    fitting = t.octets
    while octets % t.octets and 2 * (t.octets - 1) >= fitting:
        t.octets -= 1
    if octets % t.octets:
        t.octets = fitting
    t.threads = 32 * t.octets * parts
    t.resident = max(1, min(UNIT_BYTES // (_bytes(p, &t) + 1024), 32 * UNIT_WARPS // t.threads))
    return t


cdef mx_nv_depthwise _operands(Device dev, const mx_conv_problem* p, const tile_t* t) noexcept nogil:
    cdef mx_nv_depthwise g
    cdef int64_t rows = p.y.len[0] * p.y.len[3], places, splits, each, longest
    cdef int64_t behind = _tap_rows(p) - 1
    cdef double cost, best = -1
    g.channels, g.sets = <int> p.x.len[1], <int> ceil_div(p.x.len[1] // OCTET, t.octets)
    g.rows, g.p, g.q, g.h, g.w = <int> rows, <int> p.y.len[3], <int> p.y.len[4], <int> p.x.len[3], <int> p.x.len[4]
    g.strips = <int> ceil_div(p.y.len[4], 16 * t.steps)
    g.first_h, g.first_w = -<int> p.pad[1], -<int> p.pad[2]
    g.x_n, g.x_h, g.x_w = <int> stride_of(&p.x, 0), <int> stride_of(&p.x, 3), <int> stride_of(&p.x, 4)
    g.y_n, g.y_h, g.y_w = <int> stride_of(&p.y, 0), <int> stride_of(&p.y, 3), <int> stride_of(&p.y, 4)
    g.by_image = divisor(g.p)
    # Splits of equal rows; where one ends within an image, the rows of x that its last rows meet are read twice.
    places = max(1, dev.compute_units) * t.resident
    longest = max(1, LONGEST // p.y.len[4])
    g.each = <int> min(rows, longest)
    for splits in range(1, min(rows, 4 * places // g.sets + 1) + 1):
        each = ceil_div(rows, splits)
        if each > longest:
            continue
        cost = (each + (1 + each // g.p if each % g.p else 0) * behind / 2.0 + 8.0) * ceil_div(
            g.sets * ceil_div(rows, each), places)
        if best < 0 or cost < best:
            best, g.each = cost, <int> each
    return g


cdef class NvDepthwiseWrw(_NvSolver):
    """Backward weights, depthwise, in 16 bits: each channel's rows as matrix products, split-K, one more launch."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1194, "NvDepthwiseWrw", MX_BACKWARD_WEIGHTS
        self.algorithm = DIRECT
        self.cost_names = TERMS

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef cost_terms_t* o = <cost_terms_t*> terms
        cdef tile_t t = _tile(p)
        cdef mx_nv_depthwise g = _operands(dev, p, &t)
        cdef int64_t splits = ceil_div(g.rows, g.each), blocks = ceil_div(p.w.len[4], 8)
        cdef int64_t tall = p.step[1] * ceil_div(_tap_rows(p), 16), wide = 2 if blocks > 1 and tall == 1 else 1
        o.launch, o.rounds = 2, ceil_div(g.sets * splits, max(1, dev.compute_units) * t.resident)
        o.products = o.rounds * (g.each + _tap_rows(p) - 1) * g.strips * t.steps * tall * wide * 8e-3
        o.read = (p.x.len[0] * p.x.len[1] * 2e-6) * (
            p.x.len[3] * p.x.len[4] * 1.0 + p.y.len[3] * p.y.len[4])
        o.parts = splits * p.w.len[0] * p.w.len[3] * p.w.len[4] * 4e-6

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef tile_t t
        if not tensor_cores(dev):
            return "needs tensor cores"
        if p.w.type != MX_HALF and p.w.type != MX_BFLOAT16:
            return "data type"
        if p.groups == 1 or p.w.len[1] != 1 or p.w.len[0] != p.groups:
            return "not depthwise"
        why = refuse_sizes(p, 0)
        if why is not None:
            return why
        if p.w.len[3] * p.w.len[4] < LEAST_TAPS or max(p.w.len[3], p.w.len[4]) > SIDE_LIMIT:
            return "filter size"
        if max(p.step[1], p.step[2]) > 2 or (p.w.len[3] > 1 and p.dilation[1] != 1) or (
                p.w.len[4] > 1 and p.dilation[2] != 1):
            return "a large stride or dilation"
        if not (is_channels_last(&p.x) and is_channels_last(&p.y)) or (
                p.x.len[1] | _strides(&p.x) | _strides(&p.y)) % OCTET:
            return "channels are not contiguous in eights"
        t = _tile(p)
        if _bytes(p, &t) > GROUP_BYTES:
            return "local memory"
        return NO_ROOM if self.workspace_bytes(dev, p) > dev.max_alloc else None

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef tile_t t
        cdef mx_nv_depthwise g
        if p.x.len[1] < OCTET:
            return 0  # refused
        t = _tile(p)
        g = _operands(dev, p, &t)
        return ceil_div(g.rows, g.each) * p.w.len[0] * p.w.len[3] * p.w.len[4] * 4

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return 8  # twice that of the direct ones

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef tile_t t = _tile(p)
        cdef mx_nv_depthwise g = _operands(dev, p, &t)
        cdef int64_t taps = p.w.len[3] * p.w.len[4], splits = ceil_div(g.rows, g.each)
        spec = KernelSpec(
            "conv/nvidia/depthwise_weights.cl", "conv_nvidia_depthwise_weights", X_TYPE=type_token(p.w.type),
            R=p.w.len[3], S=p.w.len[4], STEP_H=p.step[1], STEP_W=p.step[2], OCTETS=t.octets, ROWS=t.rows,
            STEPS=t.steps)
        args = (Arg.slot_of(SLOT_X, 2), Arg.slot_of(SLOT_Y, 2), Arg.slot_of(SLOT_WORKSPACE, 4),
                struct_arg(&g, sizeof(g)))
        return Solution([Step(spec, args, (g.sets * splits * t.threads,), (t.threads,)),
                         sum_partial(p, splits, 0, taps, taps, 1)], self.workspace_bytes(dev, p))


cdef int64_t _strides(const mx_tensor* t) noexcept nogil:
    return stride_of(t, 0) | stride_of(t, 3) | stride_of(t, 4)
