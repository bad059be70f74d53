"""Implicit GEMM for CPU devices, channels last: x and y (n d h w c), filters (k z r s c), all packed.

Vectors hold output channels, the rows of a register tile are pixels.  Forward and backward data are one kernel: the
channels of an input pixel are broadcast from memory, the filters are packed first.  int8 is multiplied in pairs of
channels, of 16 bits each, two products by an instruction.  An input of another type than that of the sums is converted
by a step before, or, where the filter is one tap, by the work-items that read it.
Backward data takes the outputs by phases of the stride, so that no product with a zero between gradients is made.
Backward weights gathers the columns of x a block at a time; where dw has few tiles, its sums are split over the pixels
(split-K).

Forward with one group, few channels and no dilation, a row of the filter is one tap of all its channels; x gets its
padding for that.
"""

from libc.stdint cimport int64_t

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_DOUBLE, MX_FLOAT, MX_FORWARD, MX_INT8, mx_conv_problem, mx_tensor,
)
from miopyx.solvers.conv._base cimport (
    IMPLICIT_GEMM, ConvSolver, acc_size, acc_token, capped_product, capped_sum, in_blocks, is_packed_nhwc, spatial_size,
    sum_terms,
)
from miopyx.solvers._tokens cimport real_token, type_token
from miopyx.solvers.conv._matmul cimport wide_scalars

cdef enum:
    LONGEST_AXIS = 1 << 26
    MOST_CHANNELS = 1 << 18
    MOST_PHASES = 512
    LARGEST_BLOCK = 1024     # of a sum, and so of the zeros that stand for padding
    FEW_CHANNELS = 32        # rows of the filter are single taps where there are no more
    ITEMS = 32               # work-items that a device should have at least
    ENOUGH_ITEMS = 64        # more only repeat what a work-item begins with
    LEAST_SPLIT = 256         # pixels of a split of backward weights
    CACHE_LINE = 64
    CORE_CACHE = 1 << 20     # bytes of filters that a core keeps near
    MOST_VECTORS = 16        # of columns of a work-item of backward weights, whose sums stay in a core's cache
    ITEMS_A_CORE = 4         # that backward weights should leave; twice as many where work-items convert pixels
    LARGEST_CHUNK = 192      # filters of a work-item of backward weights; pixels of one forward
    SPARE = 16               # pixels, and elements of each, that a copy has beyond its own, as in the kernel
    LARGEST_COPY = 589824    # bytes of converted pixels of a work-item, which a core's second cache should hold

cdef tuple DATA = (("CHUNK", (48, 96, 192), 48), ("K_BLOCK", (128, 256, 512), 256))
cdef tuple WEIGHTS = (("K_CHUNK", (48, 96, LARGEST_CHUNK), LARGEST_CHUNK), ("P_BLOCK", (32, 64, 128), 128))

# A chunk of pixels reads all filters: those that no core keeps near are read for more pixels at once.
cdef tuple MANY_FILTERS = (192, 256)

cdef extern from "miopyx/kernels/conv/cpu/implicit_nhwc_args.h" nogil:
    ctypedef struct mx_nhwc:
        int images, groups, inputs, outputs, channels, in_pixel, out_pixel
        int in_len[3]
        int out_len[3]
        int taps[3]
        int pad[3]
        int step[3]
        int dilation[3]

# A convolution as the kernels see it, and what else steps are made of.
cdef struct shape_t:
    int64_t images, groups, inputs, outputs, channels, in_pixel, out_pixel
    int64_t[3] into, out, taps, pad, step, dilation
    int64_t vec, n_vectors, vectors, tiles    # along the outputs; of backward weights along taps and inputs
    int64_t left, right                       # pixels that are put beside x's rows
    bint converted                            # the input is copied to the workspace
    bint pairs                                # an input is two channels, of int8


cdef shape_t _shape(Device dev, const mx_conv_problem* p) noexcept:
    cdef shape_t s
    cdef const mx_tensor* x = &p.x
    cdef const mx_tensor* y = &p.y
    cdef int64_t lanes
    cdef int i
    cdef bint merged = (p.direction == MX_FORWARD and p.groups == 1 and p.dilation[2] == 1 and p.w.len[4] > 1
                        and p.x.len[1] <= FEW_CHANNELS)
    if p.direction == MX_BACKWARD_DATA:
        x, y = y, x
    s.images, s.groups = x.len[0], p.groups
    s.in_pixel, s.out_pixel = x.len[1], y.len[1]
    s.inputs, s.outputs = x.len[1] // p.groups, y.len[1] // p.groups
    s.channels, s.pairs = s.inputs, p.w.type == MX_INT8
    if s.pairs:
        s.inputs = ceil_div(s.channels, 2)
        s.in_pixel = s.groups * s.inputs
    for i in range(3):
        s.into[i], s.out[i], s.taps[i] = x.len[2 + i], y.len[2 + i], p.w.len[2 + i]
        s.pad[i], s.step[i], s.dilation[i] = p.pad[i], p.step[i], p.dilation[i]
    s.left = s.right = 0
    if merged:
        s.left = s.pad[2]
        s.right = max(0, (s.out[2] - 1) * s.step[2] + s.taps[2] - s.pad[2] - s.into[2])
        s.inputs *= s.taps[2]
        s.into[2] += s.left + s.right
        s.taps[2], s.pad[2] = 1, 0
    s.converted = p.direction != MX_BACKWARD_WEIGHTS and (
        s.left + s.right > 0 or (p.w.type != MX_FLOAT and p.w.type != MX_DOUBLE))
    lanes = s.outputs
    if p.direction == MX_BACKWARD_WEIGHTS:
        lanes = s.taps[0] * s.taps[1] * s.taps[2] * s.inputs
    s.vec = dev.vector_bytes // acc_size(p)
    s.n_vectors = 4 if dev.vector_registers == 32 else 2
    s.vectors = ceil_div(lanes, s.vec)
    s.tiles = ceil_div(s.vectors, s.n_vectors)
    return s


cdef Arg _nhwc(const shape_t* s):
    cdef mx_nhwc g
    cdef int i
    g.images, g.groups, g.inputs, g.outputs = <int> s.images, <int> s.groups, <int> s.inputs, <int> s.outputs
    g.channels, g.in_pixel, g.out_pixel = <int> s.channels, <int> s.in_pixel, <int> s.out_pixel
    for i in range(3):
        g.in_len[i], g.out_len[i], g.taps[i] = <int> s.into[i], <int> s.out[i], <int> s.taps[i]
        g.pad[i], g.step[i], g.dilation[i] = <int> s.pad[i], <int> s.step[i], <int> s.dilation[i]
    return struct_arg(&g, sizeof(g))


cdef int64_t _zeros(const shape_t* s) noexcept:
    """Elements of the row that stands for pixels in the padding."""
    return up(min(s.inputs, LARGEST_BLOCK), 16)


cdef int64_t _packed_bytes(const shape_t* s, int64_t size) noexcept:
    """The zeros and the packed filters, up to where the input may begin."""
    cdef int64_t depth = s.inputs * s.taps[0] * s.taps[1] * s.taps[2]
    cdef int64_t elements = capped_product(s.groups * s.vectors * s.vec, depth) + _zeros(s)
    return up(capped_product(elements, size), CACHE_LINE)


cdef int64_t _copied(const shape_t* s, int64_t chunk) noexcept:
    """Channels that work-items have room to convert, a power of two: fewer programs; 0 where a step before does."""
    cdef int64_t channels = 64
    if not s.converted or s.left + s.right > 0 or s.taps[0] * s.taps[1] * s.taps[2] != 1:
        return 0
    if s.pairs and s.inputs != ceil_div(s.channels, 2):  # a row of taps as one: each pixel's channels are paired
        return 0
    while channels < s.inputs:
        channels *= 2
    return channels if (chunk + SPARE) * (channels + SPARE) * 4 <= LARGEST_COPY else 0


cdef int64_t _input_elements(const shape_t* s, int64_t chunk) noexcept:
    """Of the input in the workspace."""
    if not s.converted or _copied(s, chunk) > 0:
        return 0
    return capped_product(s.images * s.in_pixel, s.into[0] * s.into[1] * s.into[2])


cdef tuple _values(tuple table):
    return tuple([(name, values) for name, values, _ in table])


cdef tuple _usual(tuple table):
    return tuple([usual for _, _, usual in table])


cdef dict _tuned(tuple table, tuple config):
    """A configuration by the names of its table."""
    return {name: value for (name, _, _), value in zip(table, config)}


cdef class _Nhwc(ConvSolver):
    def __cinit__(self):
        self.algorithm = IMPLICIT_GEMM
        self.dynamic = self.deterministic = True

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef int i
        cdef int64_t phases = 1
        if not dev.is_cpu:
            return "needs a CPU device"
        if not (is_packed_nhwc(&p.x) and is_packed_nhwc(&p.w) and is_packed_nhwc(&p.y)):
            return "tensors are not packed with channels last"
        if p.direction == MX_BACKWARD_DATA or p.direction == MX_BACKWARD_WEIGHTS:
            if p.w.type == MX_INT8:
                return "data type"
        for i in range(3):
            phases = capped_product(phases, p.step[i])
            if max(p.x.len[2 + i], p.y.len[2 + i], p.pad[i], p.step[i], p.w.len[2 + i] * p.dilation[i]) > LONGEST_AXIS:
                return "an axis is too long"
        if max(p.x.len[1], p.y.len[1], p.x.len[0], spatial_size(&p.w)) > MOST_CHANNELS:
            return "many channels, images or taps"
        if p.w.len[1] * spatial_size(&p.w) > LONGEST_AXIS:
            return "a large filter"
        if p.direction == MX_BACKWARD_DATA and phases > MOST_PHASES:
            return "a large stride"
        if self.workspace_bytes(dev, p) > dev.max_alloc:
            return "workspace is beyond the limit"
        return None

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        # How much of the vectors is used, and how long sums stay in registers; each group begins and ends anew.
        cdef shape_t s = _shape(dev, p)
        cdef int64_t lanes = s.outputs, depth = s.inputs
        if p.direction == MX_BACKWARD_WEIGHTS:
            lanes, depth = s.inputs * s.taps[0] * s.taps[1] * s.taps[2], min(s.outputs, 16)
        return (.97 if p.groups == 1 else .7) * lanes / (s.vectors * s.vec) * depth / (depth + 4.)

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        return _values(WEIGHTS if p.direction == MX_BACKWARD_WEIGHTS else DATA)

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        cdef int64_t size
        if p.direction == MX_BACKWARD_WEIGHTS:
            return _usual(WEIGHTS)
        size = acc_size(p) // 2 if p.w.type == MX_INT8 else acc_size(p)
        if p.w.len[0] * p.w.len[1] * spatial_size(&p.w) * size > CORE_CACHE:
            return MANY_FILTERS
        return _usual(DATA)


cdef class _NhwcData(_Nhwc):
    """Forward and backward data."""

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef shape_t s = _shape(dev, p)
        cdef int64_t size = acc_size(p)
        # Room for any configuration.
        return capped_sum(_packed_bytes(&s, size), capped_product(_input_elements(&s, LARGEST_CHUNK), size))

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef shape_t s = _shape(dev, p)
        cdef bint backward = p.direction == MX_BACKWARD_DATA, wide
        cdef int64_t size = acc_size(p), zeros = _zeros(&s), start = _packed_bytes(&s, size)
        cdef int64_t taps = s.taps[0] * s.taps[1] * s.taps[2], pixels, chunks, phases = 1, lines, length, items
        cdef int in_slot = SLOT_Y if backward else SLOT_X, out_slot = SLOT_X if backward else SLOT_Y
        cdef const mx_tensor* x = &p.y if backward else &p.x
        cdef const mx_tensor* y = &p.x if backward else &p.y
        cdef int i
        cdef dict tuned = _tuned(DATA, config)
        cdef int64_t copied = _copied(&s, tuned["CHUNK"])
        cdef Arg source = Arg.slot_of(in_slot, type_size(<int> x.type))
        both = {"ACC": acc_token(p), "VEC": s.vec, "BACKWARD": int(backward)}

        # As many work-items as there is use for: about 64 KB each.
        items = max(1, min(64, s.inputs * taps * s.vec * size * (s.vectors if backward else s.n_vectors) >> 16))
        packing = (
            Arg.slot_of(SLOT_W, type_size(<int> p.w.type)), Arg.slot_of(SLOT_WORKSPACE, size),
            Arg.int32(s.inputs if backward else s.outputs), Arg.int32(spatial_size(&p.w)),
            Arg.int32(s.outputs if backward else s.channels), Arg.int32(s.tiles), Arg.int64(zeros))
        steps = [Step(
            KernelSpec("conv/cpu/implicit_nhwc_pack.cl", "pack_filters", IN_TYPE=type_token(p.w.type), **both),
            packing, (1 if backward else s.tiles, items, s.groups), (1, 1, 1))]
        if s.converted and copied == 0:
            lines, length = s.images * s.into[0] * s.into[1], (s.into[2] - s.left - s.right) * s.in_pixel
            into = Arg.slot_of(SLOT_WORKSPACE, size, start)
            if s.pairs:
                args = (source, into, Arg.int64(lines), Arg.int32(s.into[2] - s.left - s.right), Arg.int32(s.groups),
                        Arg.int32(s.channels), Arg.int32(s.left), Arg.int32(s.right))
            else:
                if s.left + s.right == 0:
                    lines, length = 1, lines * length
                args = (source, into, Arg.int64(lines), Arg.int64(length), Arg.int64(s.left * s.in_pixel),
                        Arg.int64(s.right * s.in_pixel))
            items = max(1, min(64, lines * length >> 14))
            steps.append(Step(
                KernelSpec("conv/cpu/implicit_nhwc_pack.cl", "convert_pairs" if s.pairs else "convert",
                           IN_TYPE=type_token(x.type), **both),
                args, (items,), (1,)))
            source = into
        elif copied > 0:
            s.in_pixel = s.groups * s.channels

        pixels = s.images
        for i in range(3):
            pixels *= ceil_div(s.out[i], s.step[i]) if backward else s.out[i]
            phases *= s.step[i] if backward else 1
        chunks = max(ceil_div(pixels, <int64_t> tuned["CHUNK"]),
                     min(ceil_div(pixels, 16), ITEMS // (s.tiles * s.groups * phases)))
        wide = wide_scalars(dev, y.type)
        defines = {"SCALAR": real_token(wide), "OUT_TYPE": type_token(y.type),
                   "N_VECTORS": s.n_vectors, **tuned, **both}
        items = ENOUGH_ITEMS
        if copied > 0:  # work-items that share pixels convert them all
            items = min(items, 2 * ITEMS_A_CORE * dev.compute_units)
            defines.update(COPIED=copied, IN_TYPE=type_token(x.type))
        elif s.pairs:
            defines["IN_TYPE"] = "int32"
        steps.append(Step(
            KernelSpec("conv/cpu/implicit_nhwc.cl", "conv_nhwc", **defines),
            (source, Arg.slot_of(SLOT_WORKSPACE, size), Arg.slot_of(out_slot, type_size(<int> y.type)),
             _nhwc(&s), Arg.int64(zeros), Arg.alpha(wide), Arg.beta(wide)),
            (phases * max(1, min(s.tiles, items // (chunks * s.groups * phases))), chunks, s.groups), (1, 1, 1)))
        return Solution(steps, self.workspace_bytes(dev, p), constant=1)


cdef class CpuImplicitGemmNhwcFwd(_NhwcData):
    """Forward."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1124, "CpuImplicitGemmNhwcFwd", MX_FORWARD


cdef class CpuImplicitGemmNhwcBwd(_NhwcData):
    """Backward data, by phases of the stride."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1125, "CpuImplicitGemmNhwcBwd", MX_BACKWARD_DATA


cdef class CpuImplicitGemmNhwcWrw(_Nhwc):
    """Backward weights."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1126, "CpuImplicitGemmNhwcWrw", MX_BACKWARD_WEIGHTS

    cdef int64_t splits(self, const shape_t* s, int64_t chunk) noexcept:
        """Into how many the sums over pixels are split, whatever the device."""
        cdef int64_t pixels = s.images * s.out[0] * s.out[1] * s.out[2]
        cdef int64_t items = s.tiles * ceil_div(s.outputs, chunk) * s.groups
        return max(1, min(ceil_div(ITEMS, items), pixels // LEAST_SPLIT))

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        return in_blocks(sum_terms(p)) + ITEMS          # as many splits, at most

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        """Room for the most splits that any configuration takes."""
        cdef shape_t s = _shape(dev, p)
        cdef int64_t splits = self.splits(&s, LARGEST_CHUNK)
        if splits == 1:
            return 0
        return capped_product(splits, capped_product(p.w.len[0] * p.w.len[1], spatial_size(&p.w))) * (
            acc_size(p))

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef shape_t s = _shape(dev, p)
        cdef dict tuned = _tuned(WEIGHTS, config)
        cdef int64_t chunk = tuned["K_CHUNK"], splits = self.splits(&s, chunk), size = acc_size(p)
        cdef int64_t width = type_size(<int> p.w.type), elements = p.w.len[0] * p.w.len[1] * spatial_size(&p.w)
        cdef int64_t items, together
        cdef bint wide = p.w.type == MX_DOUBLE
        items = s.tiles * ceil_div(s.outputs, chunk) * s.groups * splits
        together = max(1, min(MOST_VECTORS // s.n_vectors, items // (ITEMS_A_CORE * dev.compute_units), s.tiles))
        defines = {"IN_TYPE": type_token(p.w.type), "ACC": real_token(wide), "VEC": s.vec,
                   "N_VECTORS": s.n_vectors, "SCALAR": real_token(wide), "TILES": together,
                   **tuned}
        # One split has no partial sums, and there may be no workspace.
        summed = Arg.slot_of(SLOT_WORKSPACE if splits > 1 else SLOT_W, size)
        steps = [Step(
            KernelSpec("conv/cpu/implicit_nhwc_weights.cl", "conv_nhwc_weights", **defines),
            (Arg.slot_of(SLOT_X, width), Arg.slot_of(SLOT_Y, width), summed, Arg.slot_of(SLOT_W, width),
             _nhwc(&s), Arg.alpha(wide), Arg.beta(wide)),
            (ceil_div(s.tiles, together), ceil_div(s.outputs, chunk), s.groups * splits), (1, 1, 1))]
        if splits > 1:
            steps.append(Step(
                KernelSpec("conv/cpu/implicit_nhwc_weights.cl", "sum_partial", **defines),
                (summed, Arg.slot_of(SLOT_W, width), Arg.int64(elements),
                 Arg.int32(splits), Arg.alpha(wide), Arg.beta(wide)),
                (max(1, min(64, elements >> 12)),), (1,)))
        return Solution(steps, self.workspace_bytes(dev, p))
