"""What the solvers for NVIDIA's tensor cores share: the problem as their kernels take it, and the sum of split-K."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, Arg, Device, KernelSpec, Step
from miopyx.values._integers cimport ceil_div, gcd, up
from miopyx.values._types cimport MX_BACKWARD_WEIGHTS, MX_FLOAT, MX_INT8, mx_conv_problem, mx_tensor
from miopyx.solvers.conv._base cimport (
    IMPLICIT_GEMM, INT_LIMIT, ConvSolver, span, spatial_size, stride_of, sum_terms, type_token,
)

cdef enum:
    SIDE_LIMIT = 4096      # of images, pads and filters: coordinates travel in 16 bits
    STEP = 16              # terms that an instruction adds to its accumulator
    CUT = 2                # roundings that one such addition counts for: it cuts off what does not fit
    SPLIT = 60             # of a float32 term: its factors as pairs, a product without low * low, a slice's own sum


cdef class _NvSolver(ConvSolver):
    def __cinit__(self):
        self.algorithm = IMPLICIT_GEMM
        self.dynamic = self.deterministic = self.assembly = True

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        """In 16 bits one accumulator takes all steps; float32 adds up sums of slices of at least STEP terms."""
        cdef double steps, parts = 0, terms = sum_terms(p)
        if p.direction == MX_BACKWARD_WEIGHTS:
            # Parts are added up in eight shares; there are more than fill the device only where sums are LONGEST.
            steps = min(terms, <double> LONGEST) / STEP + 1
            parts = min(max(16.0 * max(1, dev.compute_units), terms / LONGEST), terms / STEP) / 8 + 8
        else:
            steps = spatial_size(&p.w) * up(<int64_t> (terms / spatial_size(&p.w)), STEP) // STEP
        return (SPLIT + steps if p.w.type == MX_FLOAT else CUT * steps) + parts


cdef mx_divisor divisor(int64_t d) noexcept nogil:
    """What mx_quotient takes for d >= 1: exact for numerators below 2^31."""
    cdef mx_divisor by
    d = max(d, 1)
    by.shift = 0
    while (<int64_t> 1 << by.shift) < d:
        by.shift += 1
    by.magic = <unsigned int> (((<int64_t> 1 << (31 + by.shift)) + d - 1) // d)
    return by


cdef void set_grid(mx_nv_conv* g, int64_t images, int64_t p, int64_t q) noexcept nogil:
    """The pixels of the grid: `images` times p rows of q."""
    g.p, g.q = <int> p, <int> q
    g.pixels = <int> (images * p * q)
    g.by_image, g.by_row = divisor(p * q), divisor(q)


cdef bint divides(int64_t vector, const mx_nv_conv* g, bint last) noexcept nogil:
    """Whether runs of `vector` elements of y, along its channels or its pixels, stay whole and equally aligned."""
    if (g.y_first | g.y_g | g.y_n) % vector:
        return False
    if last:
        return g.y_c == 1 and (g.filters | g.y_h | g.y_w) % vector == 0
    return (g.y_w == 1 or g.p * g.q == 1) and (g.y_h == g.q or g.p == 1) and (g.y_c | g.p * g.q) % vector == 0


cdef void set_taps(mx_nv_conv* g, const mx_conv_problem* p) noexcept nogil:
    """The pixels of p.y, and the taps of each in p.x."""
    set_grid(g, p.y.len[0], p.y.len[3], p.y.len[4])
    g.taps_h, g.taps_w = <int> p.w.len[3], <int> p.w.len[4]
    g.step_h, g.step_w, g.tap_h, g.tap_w = <int> p.step[1], <int> p.step[2], <int> p.dilation[1], <int> p.dilation[2]
    g.first_h, g.first_w = -<int> p.pad[1], -<int> p.pad[2]


cdef void set_x(mx_nv_conv* g, const mx_tensor* x, int64_t channels, int64_t packed) noexcept nogil:
    """x, or its copy with `packed` of a group's `channels` contiguous where that is not zero."""
    g.h, g.w = <int> x.len[3], <int> x.len[4]
    if packed:
        g.x_c, g.x_g = 1, <int> packed
        g.x_w = g.groups * g.x_g
        g.x_h = g.x_w * g.w
        g.x_n = g.x_h * g.h
    else:
        g.x_n, g.x_c, g.x_h, g.x_w = (
            <int> stride_of(x, 0), <int> stride_of(x, 1), <int> stride_of(x, 3), <int> stride_of(x, 4))
        g.x_g = <int> (channels * x.stride[1]) if g.groups > 1 else 0


cdef void set_y(mx_nv_conv* g, const mx_tensor* y, int64_t filters) noexcept nogil:
    g.y_n, g.y_c, g.y_h, g.y_w = (
        <int> stride_of(y, 0), <int> stride_of(y, 1), <int> stride_of(y, 3), <int> stride_of(y, 4))
    g.y_g = <int> (filters * y.stride[1]) if g.groups > 1 else 0


cdef void set_packed_w(mx_nv_conv* g, int64_t reduced, int64_t taps_h, int64_t taps_w) noexcept nogil:
    g.w_w = <int> reduced
    g.w_h = g.w_w * <int> taps_w
    g.w_k = g.w_h * <int> taps_h
    g.w_g = g.w_k * g.filters


cdef void set_phase(mx_nv_conv* g, const mx_conv_problem* p, int64_t a, int64_t b) noexcept nogil:
    """The pixels of dx of phase (a, b) of the stride, and the taps of each in dy; g has w's strides as they are."""
    cdef taps_t th = taps_of(p, 1, a), tw = taps_of(p, 2, b)
    set_grid(g, p.x.len[0], (p.x.len[3] - a + p.step[1] - 1) // p.step[1],
             (p.x.len[4] - b + p.step[2] - 1) // p.step[2])
    g.step_h = g.step_w = 1
    g.taps_h, g.taps_w = <int> th.count, <int> tw.count
    if th.count == 0 or tw.count == 0:
        g.taps_h = g.taps_w = 0
    g.first_h, g.first_w, g.tap_h, g.tap_w = <int> th.start, <int> tw.start, <int> th.move, <int> tw.move
    g.w_first = <int> th.first * g.w_h + <int> tw.first * g.w_w
    g.w_h, g.w_w = <int> th.every * g.w_h, <int> tw.every * g.w_w


cdef taps_t taps_of(const mx_conv_problem* p, int axis, int64_t phase) noexcept nogil:
    cdef taps_t t
    cdef int64_t step = p.step[axis], dilation = p.dilation[axis], tap
    memset(&t, 0, sizeof(t))
    t.every = step // gcd(step, dilation)
    t.move = -(dilation * t.every // step)
    for tap in range(min(t.every, p.w.len[2 + axis])):
        if (phase + p.pad[axis] - tap * dilation) % step == 0:
            t.first = tap
            t.count = (p.w.len[2 + axis] - tap + t.every - 1) // t.every
            t.start = (phase + p.pad[axis] - tap * dilation) // step
            break
    return t


cdef int64_t weight_count(const mx_conv_problem* p) noexcept nogil:
    return p.w.len[0] * p.w.len[1] * p.w.len[3] * p.w.len[4]


cdef Arg struct_arg(const void* value, size_t size):
    """A struct that a kernel takes by value."""
    return Arg.value_of((<const unsigned char*> value)[:size])


cdef Arg int_arg(int64_t value):
    cdef int narrow = <int> value
    return struct_arg(&narrow, sizeof(narrow))


cdef Arg float_arg(float value):
    return struct_arg(&value, sizeof(value))


cdef Step sum_partial(const mx_conv_problem* p, int64_t splits, int64_t offset, int64_t pitch, int64_t c, int64_t tap):
    """Add the partial sums at byte `offset` of the workspace: rows of `pitch` elements, strides `c` and `tap`."""
    cdef int64_t shares = 8 if splits > 16 else 4 if splits > 8 else 1, width = 256 // shares
    cdef mx_nv_sum g
    g.rows, g.channels, g.taps_h, g.taps_w = (
        <int> p.w.len[0], <int> p.w.len[1], <int> p.w.len[3], <int> p.w.len[4])
    g.splits, g.pitch, g.partial_c, g.partial_tap = <int> splits, <int> pitch, <int> c, <int> tap
    g.w_k, g.w_c, g.w_h, g.w_w = (
        <int> stride_of(&p.w, 0), <int> stride_of(&p.w, 1), <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4))
    args = (Arg.slot_of(SLOT_WORKSPACE, 4, offset), Arg.slot_of(SLOT_W, 4 if p.w.type == MX_FLOAT else 2),
            struct_arg(&g, sizeof(g)), Arg.alpha(False), Arg.beta(False))
    return Step(KernelSpec("conv/nvidia/sum.cl", "sum_partial", X_TYPE=type_token(p.w.type), SHARES=shares), args,
                (ceil_div(weight_count(p), width) * 256,), (256,))


cdef bint tensor_cores(Device dev):
    """mma.sync on tf32 and bfloat16, cp.async: compute capability 8.0 and up, from NVIDIA's own compiler."""
    info = dev.info
    return (dev.is_gpu and info.runtime == "nvidia" and "cl_nv_device_attribute_query" in info.extensions
            and info.isa[2:].isdigit() and int(info.isa[2:]) >= 80)


cdef bint has_wgmma(Device dev):
    """wgmma, which later generations do not have."""
    return dev.info.isa[2:] == "90"


cdef str refuse_sizes(const mx_conv_problem* p, int64_t copied):
    """Why the kernels' coordinates and offsets cannot hold a problem's, or `copied` elements, or None."""
    cdef int i
    if p.spatial > 2:
        return "three spatial axes"
    for i in range(1, 3):
        if (max(p.x.len[2 + i], p.y.len[2 + i]) > SIDE_LIMIT or p.pad[i] > SIDE_LIMIT or p.step[i] > SIDE_LIMIT
                or (p.w.len[2 + i] - 1) * p.dilation[i] > SIDE_LIMIT):
            return "an axis is too long"
    if p.direction != MX_BACKWARD_WEIGHTS and p.w.type != MX_INT8 and sum_terms(p) > LONGEST:
        return "a long sum"
    # Overlapping strides make a span smaller than the number of pixels, and the last slice of a sum ends behind them.
    if (max(span(&p.x), span(&p.w), span(&p.y), copied) >= INT_LIMIT // 2
            or (p.direction == MX_BACKWARD_WEIGHTS and p.y.len[0] * p.y.len[3] * p.y.len[4] > INT_LIMIT // 4)):
        return "a tensor is too large for 32-bit offsets"
    return None
