"""Convolution of float32 by Hopper's wgmma with factors rounded to halves, where the problem allows that.

Each operand is packed with its channels last, times a power of four for each image and each filter (backward weights:
each channel of x and of dy), so that no half overflows.  Halves have the 11 bits of TF32; numbers below 2^-21 of the
largest that shares their scale have fewer, where TF32 has all.  Then the kernels of 16 bits multiply, and store floats.
"""

from libc.stdint cimport int64_t

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_WEIGHTS, MX_FLOAT, MX_FORWARD, mx_conv_problem, mx_tensor,
)
from miopyx.solvers.conv._base cimport spatial_size, stride_of, sum_terms
from ._common cimport (
    CUT, LONGEST, ROUNDED, STEP, WGMMA_PEAK, divisor, has_wgmma, mx_nv_conv, set_phase,
)
from ._mma cimport (
    NvImplicitGemmBwd, NvImplicitGemmFwd, NvImplicitGemmWrw, _NvImplicitGemm, megabytes, mx_nv_pixels, mx_nv_sampled,
    mx_nv_scaled, only_read, operands, packing_terms_t, roles_of, roles_t, set_split_k, split_k_t,
)
from ._pairs cimport join_of_phases, sides_of, sides_t
from ._wgmma cimport (
    DATA_TERMS, WEIGHTS_TERMS, at_once, count_hopper, count_weights, multiply_hopper, multiply_weights, sort_phases,
    split_k_of, sum_tiles_of,
)

cdef enum:
    LEAST = 16             # products of a sum: fewer may meet only what is below its scale's 11 bits
    LONGEST_FILTER = 15    # along an axis: bits of a word say which taps are inside
    PIXELS = 128           # of a tile of pack_scaled
    PACK_ITEMS = 256

# What numbers of a tensor share a scale.
cdef enum:
    OF_IMAGE
    OF_ROW                 # of an image
    OF_CHANNEL


cdef class _Floats:
    """A tensor of floats as conv/nvidia/tf32_pack.cl takes it, its scales behind `first` others."""
    cdef int slot, run, scale
    cdef int64_t to
    cdef mx_nv_scaled geometry
    cdef mx_nv_sampled sampled

    def __init__(self, int slot, int64_t to, tuple lens, int64_t reduced, tuple strides, int scale, int64_t first):
        """`lens` are images, groups, h, w and channels of a group, `strides` those of n, g, c, h and w."""
        cdef int64_t images, groups, h, w, channels, n, g, c, sh, sw
        images, groups, h, w, channels = lens
        n, g, c, sh, sw = strides
        self.slot, self.to, self.scale = slot, to, scale
        # Of a row with a scale of its own, runs might reach into the next.
        if c == 1 and channels % 8 == 0 and (n | g | sh | sw) % 4 == 0:
            self.run = 0
        elif ((w == 1 or sw == 1) and (h == 1 or sh == w) and (h * w | n | g | c) % 4 == 0
                and (scale != OF_ROW or w % 4 == 0)):
            self.run = 4
        else:
            self.run = 1
        cdef int64_t blocks = groups * ceil_div(reduced, 64)
        cdef mx_nv_pixels* o = &self.geometry.pixels
        o.images, o.groups, o.h, o.w = <int> images, <int> groups, <int> h, <int> w
        o.channels, o.reduced, o.tile_pixels, o.blocks = <int> channels, <int> reduced, PIXELS, <int> blocks
        o.from_n, o.from_g, o.from_c, o.from_h, o.from_w = <int> n, <int> g, <int> c, <int> sh, <int> sw
        o.by_image, o.by_row, o.by_blocks = divisor(h * w), divisor(w), divisor(blocks)
        self.geometry.tiles, self.geometry.first = <int> (ceil_div(images * h * w, PIXELS) * blocks), <int> first
        self.geometry.by_n = self.geometry.by_h = self.geometry.by_c = 0
        axes = {"n": (images, n), "c": (groups * channels, c), "h": (h, sh), "w": (w, sw)}
        if scale == OF_CHANNEL:
            self.geometry.by_c = 1
            outer, inner = axes.pop("c"), (1, 0)
        else:
            outer, inner = axes.pop("n"), (1, 0)
            self.geometry.by_n = 1
            if scale == OF_ROW:
                inner = axes.pop("h")
                self.geometry.by_n, self.geometry.by_h = <int> h, 1
        cdef mx_nv_sampled* s = &self.sampled
        s.scales, s.inner, s.from_outer, s.from_inner = outer[0] * inner[0], inner[0], outer[1], inner[1]
        lines = [(1, 0), *sorted(axes.values(), key=lambda axis: -axis[1] if axis[0] > 1 else -INT_MOST)][-3:]
        (s.planes, s.from_plane), (s.rows, s.from_row), (s.columns, s.from_column) = lines
        s.by_inner, s.by_rows, s.by_columns = divisor(s.inner), divisor(s.rows), divisor(s.columns)


cdef int64_t INT_MOST = 0x7FFFFFFF


cdef _Floats _tensor(const mx_tensor* x, int slot, int64_t groups, int64_t channels, int64_t to, int scale,
                     int64_t first):
    """`channels` are of one group."""
    return _Floats(slot, to, (x.len[0], groups, x.len[3], x.len[4], channels), up(channels, 8),
                   (stride_of(x, 0), channels * x.stride[1] if groups > 1 else 0, x.stride[1], stride_of(x, 3),
                    stride_of(x, 4)), scale, first)


cdef _Floats _weights(const mx_conv_problem* p, const roles_t* r):
    """Weights as images of their taps; those of groups, for backward data, as an image each of channels and taps."""
    cdef const mx_tensor* w = &p.w
    cdef int64_t n = stride_of(w, 0), c = w.stride[1], h = stride_of(w, 3), s = stride_of(w, 4), first = r.x.len[0]
    if p.direction == MX_FORWARD:
        return _Floats(SLOT_W, 0, (w.len[0], 1, w.len[3], w.len[4], r.channels), r.reduced, (n, 0, c, h, s), OF_IMAGE,
                       first)
    if p.groups == 1:
        return _Floats(SLOT_W, 0, (r.filters, 1, w.len[3], w.len[4], r.channels), r.reduced,
                       (stride_of(w, 1), 0, w.stride[0], h, s), OF_IMAGE, first)
    return _Floats(SLOT_W, 0, (p.groups, 1, r.filters, w.len[3] * w.len[4], r.channels), r.reduced,
                   (r.channels * n if p.groups > 1 else 0, 0, w.stride[0], stride_of(w, 1),
                    s if w.len[4] > 1 else h), OF_ROW, first)


cdef list _pack(Device dev, _Floats x, _Floats other, int64_t scales):
    """The steps that copy two tensors, and their scales to byte `scales` of the workspace."""
    cdef int64_t total = x.sampled.scales + other.sampled.scales, tiles = x.geometry.tiles + other.geometry.tiles
    # A group looks at its tiles only where a number was too large.
    cdef int64_t again = min(tiles, 2 * max(1, dev.compute_units))
    kept = Arg.slot_of(SLOT_WORKSPACE, 4, scales)
    defines = {"RUN": x.run, "SECOND_RUN": other.run, "BY_CHANNEL": int(x.scale == OF_CHANNEL),
               "SECOND_BY_CHANNEL": int(other.scale == OF_CHANNEL)}
    file = "conv/nvidia/tf32_pack.cl"
    args = (Arg.slot_of(x.slot, 4), Arg.slot_of(SLOT_WORKSPACE, 2, x.to),
            struct_arg(&x.geometry, sizeof(x.geometry)), Arg.slot_of(other.slot, 4),
            Arg.slot_of(SLOT_WORKSPACE, 2, other.to), struct_arg(&other.geometry, sizeof(other.geometry)), kept,
            Arg.int32(total))
    return [
        Step(KernelSpec(file, "sample_scales", **defines),
             (Arg.slot_of(x.slot, 4), Arg.slot_of(other.slot, 4), kept, struct_arg(&x.sampled, sizeof(x.sampled)),
              struct_arg(&other.sampled, sizeof(other.sampled))), (total * PACK_ITEMS,), (PACK_ITEMS,)),
        Step(KernelSpec(file, "pack_scaled", **defines), args, (tiles * PACK_ITEMS,), (PACK_ITEMS,)),
        Step(KernelSpec(file, "pack_scaled", AGAIN=1, **defines), args, (again * PACK_ITEMS,), (PACK_ITEMS,)),
    ]


cdef str refuse_tf32(Device dev, const mx_conv_problem* p):
    """Why no direction takes the problem, or None."""
    if not has_wgmma(dev):
        return "needs wgmma"
    if p.w.type != MX_FLOAT:
        return "data type"
    if not p.tf32:
        return "factors are not to be rounded"
    if max(p.w.len[3], p.w.len[4]) > LONGEST_FILTER:
        return "filter size"
    return None


cdef double _roundings(const mx_conv_problem* p, double parts) noexcept nogil:
    """Of factors, and of steps of the tensor cores, which cut off what does not fit."""
    cdef double terms = sum_terms(p), taps = spatial_size(&p.w), steps
    if p.direction == MX_BACKWARD_WEIGHTS:
        steps = min(terms, <double> LONGEST) / STEP + 1
    else:
        steps = taps * up(<int64_t> (terms / taps), STEP) // STEP
    return ROUNDED + CUT * steps + parts


cdef double _worth(const mx_conv_problem* p, bint narrow) noexcept nogil:
    """What is left of the index where each number is used `narrow`ly: then packing takes as long as all else."""
    return 0.6 if spatial_size(&p.w) == 1 and narrow else 1.0


cdef void _count_packing(const mx_conv_problem* p, const roles_t* r, double* terms) noexcept:
    cdef packing_terms_t* t = <packing_terms_t*> terms
    t.launch += 3
    t.packed = r.workspace * 1e-6
    t.x, t.y = megabytes(r.x), megabytes(r.y)


cdef class NvTf32Fwd(NvImplicitGemmFwd):
    """Forward of floats as halves by wgmma: sampling of scales, packing, then as NvWgmmaFwd."""

    def __cinit__(self):
        self.id, self.name, self.peak, self.long_rows = 1195, "NvTf32Fwd", 2 * WGMMA_PEAK, True
        self.cost_names = DATA_TERMS

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = refuse_tf32(dev, p)
        if why is None and p.w.len[1] * spatial_size(&p.w) < LEAST:
            why = "few products in a sum"
        return NvImplicitGemmFwd.refuse(self, dev, p) if why is None else why

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        return _roundings(p, 0)

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return _NvImplicitGemm.index(self, dev, p) * _worth(p, self.roles(p).filters <= 256)

    cdef void count(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g,
                    double* terms) noexcept:
        count_hopper(dev, p, r, g, 1, terms)

    cdef void count_packing(self, const mx_conv_problem* p, const roles_t* r, double* terms) noexcept:
        _count_packing(p, r, terms)

    cdef roles_t roles(self, const mx_conv_problem* p) noexcept:
        return roles_of(p, True)

    cdef list packing(self, Device dev, const mx_conv_problem* p, const roles_t* r):
        return _pack(dev, _tensor(r.x, r.x_slot, p.groups, r.channels, r.x_offset, OF_IMAGE, 0), _weights(p, r),
                     r.scales_offset)

    cdef Step multiply(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g):
        return multiply_hopper(dev, p, r, g)


cdef bint joins(const mx_conv_problem* p) noexcept nogil:
    """Whether each phase of the stride goes to a plane of its own first: every second pixel is slow to store."""
    return p.step[1] * p.step[2] > 1 and p.x.stride[1] != 1


cdef void make_planes(const mx_conv_problem* p, roles_t* r) noexcept nogil:
    """Room for the planes behind the workspace, to which y goes."""
    cdef sides_t s = sides_of(p)
    r.y_slot, r.y_at = SLOT_WORKSPACE, r.workspace
    r.workspace += s.workspace - s.planes


cdef int phases_of_planes(const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g) noexcept nogil:
    """The phases that have taps, each to its plane."""
    cdef mx_nv_conv whole = operands(p, r)
    cdef sides_t s = sides_of(p)
    cdef int64_t a, b
    cdef int count = 0
    whole.y_w, whole.y_h, whole.y_c = 1, <int> s.phase_columns, <int> (s.phase_rows * s.phase_columns)
    whole.y_n, whole.y_g = <int> p.x.len[1] * whole.y_c, <int> r.filters * whole.y_c
    for a in range(p.step[1]):
        for b in range(p.step[2]):
            if s.met[1] >> a & s.met[2] >> b & 1:
                g[count] = whole
                set_phase(&g[count], p, 0, a, b)
                g[count].y_first = <int> (count * s.phase_bytes // 4)
                count += 1
    return count


cdef Step join_of_planes(const mx_conv_problem* p, const roles_t* r):
    """The launch that brings the planes to dx."""
    cdef sides_t s = sides_of(p)
    s.planes = r.y_at
    return join_of_phases(p, &s)


cdef class NvTf32Bwd(NvImplicitGemmBwd):
    """Backward data of floats as halves by wgmma, as NvTf32Fwd; of NCHW with a stride a launch joins its phases."""

    def __cinit__(self):
        self.id, self.name, self.peak, self.long_rows = 1196, "NvTf32Bwd", 2 * WGMMA_PEAK, True
        self.cost_names = DATA_TERMS

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = refuse_tf32(dev, p)
        if (why is None and p.groups > 1 and p.w.len[3] > 1 and p.w.len[4] > 1
                and p.w.stride[3] != p.w.len[4] * p.w.stride[4]):
            why = "gaps between the rows of a filter"
        if why is None and p.w.len[0] // p.groups < LEAST:
            why = "few products in a sum"
        return NvImplicitGemmBwd.refuse(self, dev, p) if why is None else why

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        return _roundings(p, 0)

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return _NvImplicitGemm.index(self, dev, p) * _worth(p, self.roles(p).filters <= 256)

    cdef void count(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g,
                    double* terms) noexcept:
        count_hopper(dev, p, r, g, 1, terms)

    cdef void count_packing(self, const mx_conv_problem* p, const roles_t* r, double* terms) noexcept:
        _count_packing(p, r, terms)

    cdef roles_t roles(self, const mx_conv_problem* p) noexcept:
        cdef roles_t r = roles_of(p, True)
        if joins(p):
            make_planes(p, &r)
        return r

    cdef list packing(self, Device dev, const mx_conv_problem* p, const roles_t* r):
        return _pack(dev, _tensor(r.x, r.x_slot, p.groups, r.channels, r.x_offset, OF_IMAGE, 0), _weights(p, r),
                     r.scales_offset)

    cdef Step multiply(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g):
        return multiply_hopper(dev, p, r, g)

    cdef int phases(self, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g) noexcept:
        return phases_of_planes(p, r, g) if joins(p) else NvImplicitGemmBwd.phases(self, p, r, g)

    cdef list multiply_phases(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int count):
        if not at_once(p, g, count):
            return NvImplicitGemmBwd.multiply_phases(self, dev, p, r, g, count)
        sort_phases(g, count)
        return [multiply_hopper(dev, p, r, g, count)]

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem read = only_read(p)
        cdef roles_t r = self.roles(&read)
        steps = self.launches(dev, &read, &r)
        if joins(&read):
            steps.append(join_of_planes(&read, &r))
        return Solution(steps, r.workspace)


cdef class NvTf32Wrw(NvImplicitGemmWrw):
    """Backward weights of floats as halves by wgmma: scales of channels, packing, then as NvWgmmaWrw."""

    def __cinit__(self):
        self.id, self.name, self.peak, self.long_rows = 1197, "NvTf32Wrw", 2 * WGMMA_PEAK, True
        self.cost_names = WEIGHTS_TERMS

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = refuse_tf32(dev, p)
        if why is None and p.y.len[0] * spatial_size(&p.y) < LEAST:
            why = "few products in a sum"
        return NvImplicitGemmWrw.refuse(self, dev, p) if why is None else why

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return NvImplicitGemmWrw.index(self, dev, p) * _worth(p, p.w.len[0] * p.w.len[1] <= 1 << 18)

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef mx_conv_problem read = only_read(p)
        return split_k_of(dev, &read).workspace

    cdef int64_t copied(self, const mx_conv_problem* p) noexcept:
        return max(p.x.len[0] * p.x.len[3] * p.x.len[4] * p.groups * up(p.w.len[1], 8),
                   p.y.len[0] * p.y.len[3] * p.y.len[4] * p.groups * up(p.w.len[0] // p.groups, 8))

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef double terms = sum_terms(p)
        return _roundings(p, min(max(16.0 * max(1, dev.compute_units), terms / LONGEST), terms / STEP) / 8 + 8)

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef mx_conv_problem read = only_read(p)
        cdef split_k_t s = split_k_of(dev, &read)
        count_weights(dev, &read, &s, terms)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem read = only_read(p)
        cdef split_k_t s = split_k_of(dev, &read)
        cdef mx_nv_conv g
        set_split_k(&read, &s, &g)
        steps = _pack(
            dev, _tensor(&read.x, SLOT_X, p.groups, p.w.len[1], s.x_offset, OF_CHANNEL, 0),
            _tensor(&read.y, SLOT_Y, p.groups, g.filters, s.y_offset, OF_CHANNEL, p.groups * p.w.len[1]),
            s.scales_offset)
        return Solution([*steps, multiply_weights(dev, &read, &s, &g), sum_tiles_of(dev, &read, &s)], s.workspace)
