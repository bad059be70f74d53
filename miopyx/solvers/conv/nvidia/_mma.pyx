"""Convolution on NVIDIA's tensor cores by mma.sync as implicit GEMM, one and two spatial axes.

Operands of 16 bits are read channels last: in place where they are stored so, else from a packed copy in the
workspace; floats are read in place, any strides.  Weights are packed unless their reduced axis is contiguous.
Backward data is a forward convolution of dy for every phase of the stride, with the taps that meet it.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.values._integers cimport ceil_div, more_parts, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_FLOAT, MX_FORWARD, MX_HALF, mx_conv_problem, mx_tensor,
)
from miopyx.solvers.conv._base cimport is_pointwise, stride_of
from miopyx.solvers._tokens cimport type_token
from ._common cimport (
    ALIGN, LONGEST, MMA_PEAK, NO_ROOM, _NvSolver, divides, divisor, folded, is_volume, mx_nv_conv, plane_rows,
    refuse_sizes, set_packed_w, set_phase, set_taps, set_x, set_y, sum_partial, tensor_cores, weight_count,
)

cdef enum:
    PIXELS = 128           # of a tile of pack_pixels and unpack_pixels
    OVERHEAD = 24          # of a tile of float backward weights, in slices: filling the ring, writing the partial sums


cdef bint in_place(const mx_tensor* t, int64_t channels) noexcept nogil:
    """Whether channels of 16 bits can be copied 8 at a time: contiguous, and every stride a multiple of 16 bytes."""
    return t.stride[1] == 1 and channels % 8 == 0 and (stride_of(t, 0) | stride_of(t, 3) | stride_of(t, 4)) % 8 == 0


cdef int contiguous_pixels(const mx_conv_problem* p, const mx_tensor* t) noexcept nogil:
    """How many pixels of a 1x1 convolution are copied at a time, 8, 4 or 0: contiguous, whole images, aligned."""
    cdef int64_t together = t.len[3] * t.len[4] | stride_of(t, 0) | stride_of(t, 1)
    if (not is_volume(p) and is_pointwise(p, 1) and (t.len[4] == 1 or t.stride[4] == 1)
            and (t.len[3] == 1 or t.stride[3] == t.len[4])):
        return 8 if together % 8 == 0 else 4 if together % 4 == 0 else 0
    return 0


cdef mx_conv_problem only_read(const mx_conv_problem* p) noexcept nogil:
    """The problem with the pixels of x that a 1x1 filter steps over left out, volumes folded."""
    cdef mx_conv_problem o = folded(p)
    cdef int i
    if (p.direction != MX_BACKWARD_DATA and not is_volume(&o) and o.w.len[3] * o.w.len[4] == 1 and p.pad[1] == 0
            and p.pad[2] == 0):
        for i in range(1, 3):
            o.x.len[2 + i] = o.y.len[2 + i]
            o.x.stride[2 + i] *= p.step[i]
            o.step[i] = 1
    return o


cdef narrow_t narrow_of(const mx_conv_problem* p, bint whole_rows) noexcept nogil:
    """How x of few channels is copied; `whole_rows` as conv/nvidia/hopper_rows.cl wants it, if it takes the problem."""
    cdef narrow_t n
    memset(&n, 0, sizeof(n))
    n.used = not is_volume(p) and p.groups == 1 and p.w.len[1] <= NARROW and p.w.len[4] > 1
    n.taps = ceil_div(p.w.len[4], 2)
    n.chunk_step = 2 if p.step[2] % 2 == 0 and p.dilation[2] == 1 else 1
    n.step, n.tap = p.step[2] // n.chunk_step, 2 * p.dilation[2] // n.chunk_step
    n.planes = p.step[1] if whole_rows else 1
    n.rows = p.y.len[3] + (p.w.len[3] - 1) * p.dilation[1] // n.planes
    n.chunks = p.y.len[4] + (up(n.taps, 2) - 1) * n.tap
    n.span = (p.w.len[3] - 1) * p.dilation[1] // n.planes * n.chunks + (up(n.taps, 2) - 1) * n.tap
    n.whole_rows = (whole_rows and n.step == 1 and p.step[1] <= 2 and n.tap <= 32 and n.span <= MOST_SPAN
                    and p.w.len[0] > 1 and p.w.len[0] <= 64 and p.w.len[3] * n.taps <= 64
                    and n.rows * n.chunks <= 1.25 * p.y.len[3] * p.y.len[4])
    if n.whole_rows:
        n.taps = up(n.taps, 2)
    else:
        n.planes = 1
        n.rows = (p.y.len[3] - 1) * p.step[1] + (p.w.len[3] - 1) * p.dilation[1] + 1
        n.chunks = (p.y.len[4] - 1) * n.step + (n.taps - 1) * n.tap + 1
    # The chunks of all taps in a row count as channels of one tap where they are contiguous.
    n.taps_across = 1 if n.whole_rows or n.tap == 1 else n.taps
    n.reduced = 8 * (n.taps if n.taps_across == 1 else 1)
    n.bytes = up(p.x.len[0] * n.planes * n.rows * n.chunks * 16, ALIGN)
    return n


cdef Step pack_narrow(const mx_conv_problem* p, const narrow_t* n, int64_t to):
    cdef const mx_tensor* x = &p.x
    cdef mx_nv_narrow g
    g.images, g.channels, g.h, g.w = <int> x.len[0], <int> p.w.len[1], <int> x.len[3], <int> x.len[4]
    g.planes, g.rows, g.chunks = <int> n.planes, <int> n.rows, <int> n.chunks
    g.chunk_step, g.pixel_step = <int> n.chunk_step, <int> p.dilation[2]
    g.pad_h, g.pad_w = <int> p.pad[1], <int> p.pad[2]
    g.from_n, g.from_c, g.from_h, g.from_w = (
        <int> stride_of(x, 0), <int> stride_of(x, 1), <int> stride_of(x, 3), <int> stride_of(x, 4))
    args = (Arg.slot_of(SLOT_X, 2), Arg.slot_of(SLOT_WORKSPACE, 2, to), struct_arg(&g, sizeof(g)))
    return Step(KernelSpec("conv/nvidia/pack.cl", "pack_narrow", X_TYPE=type_token(p.w.type)), args,
                (up(x.len[0] * n.planes * n.rows * n.chunks, 256),), (256,))


cdef void set_narrow(mx_nv_conv* g, const narrow_t* n) noexcept nogil:
    """The taps and x as pack_narrow leaves them; what else g has stays."""
    g.channels = g.reduced = <int> n.reduced
    g.taps_w, g.step_w, g.tap_w = <int> n.taps_across, <int> n.step, <int> n.tap
    g.first_h = g.first_w = 0
    g.h, g.w = <int> n.rows, <int> n.chunks
    g.x_g, g.x_c, g.x_w = 0, 1, 8
    g.x_h = 8 * g.w
    g.x_n = g.x_h * g.h


cdef int64_t scales_bytes(int64_t count) noexcept nogil:
    """What conv/nvidia/tf32_pack.cl keeps of so many scales."""
    return up((3 * count + 1) * 4, ALIGN)


cdef roles_t roles_of(const mx_conv_problem* p, bint wgmma) noexcept nogil:
    cdef roles_t r
    cdef bint scaled = wgmma and p.w.type == MX_FLOAT
    cdef int64_t multiple = 4 if p.w.type == MX_FLOAT and not scaled else 8
    memset(&r, 0, sizeof(r))
    r.scaled, r.y_size = scaled, 4 if p.w.type == MX_FLOAT else 2
    r.size = 2 if scaled else r.y_size
    if p.direction == MX_FORWARD:
        r.x, r.y, r.x_slot, r.y_slot = &p.x, &p.y, SLOT_X, SLOT_Y
        r.channels, r.filters = p.w.len[1], p.w.len[0] // p.groups
        r.w_row, r.w_reduced = p.w.stride[0], p.w.stride[1]
    else:
        r.x, r.y, r.x_slot, r.y_slot = &p.y, &p.x, SLOT_Y, SLOT_X
        r.channels, r.filters = p.w.len[0] // p.groups, p.w.len[1]
        r.w_row, r.w_reduced = p.w.stride[1], p.w.stride[0]
    r.groups, r.reduced = p.groups, up(r.channels, multiple)
    # In place, 16 bytes are copied at a time: every stride is a multiple of them.
    r.packs_w = (r.w_reduced != 1 or r.channels != r.reduced
                 or (r.w_row | stride_of(&p.w, 3) | stride_of(&p.w, 4)) % multiple != 0)
    r.packs_x = p.w.type != MX_FLOAT and not in_place(r.x, r.channels)
    if wgmma:
        r.x_pixels = contiguous_pixels(p, r.x) if r.packs_x else 0
        r.packs_x = r.packs_x and not r.x_pixels
        r.w_transposed = (r.packs_w and r.w_row == 1 and r.filters % 8 == 0 and r.channels % 64 == 0
                          and (r.w_reduced | stride_of(&p.w, 0) | stride_of(&p.w, 3) | stride_of(&p.w, 4)) % 8 == 0)
        r.packs_w = r.packs_w and not r.w_transposed
    r.folded, r.taps_across = r.reduced, p.w.len[4]
    if scaled:
        r.packs_x = r.packs_w = True
        r.x_pixels, r.w_transposed = 0, False
    elif wgmma and p.direction == MX_FORWARD:
        r.narrow = narrow_of(p, True)
    if r.narrow.used:
        r.packs_x = r.packs_w = True
        r.x_pixels, r.w_transposed = 0, False
        r.reduced, r.folded, r.taps_across = r.narrow.reduced, NARROW, r.narrow.taps_across
    if r.packs_w:
        r.workspace = up(p.groups * r.filters * r.reduced * p.w.len[3] * r.taps_across * r.size, ALIGN)
    r.x_offset = r.workspace
    if r.narrow.used:
        r.workspace += r.narrow.bytes
    elif r.packs_x:
        r.workspace += up(r.x.len[0] * r.x.len[3] * r.x.len[4] * p.groups * r.reduced * r.size, ALIGN)
    # Every second pixel of 16 bits is slow to store, but not with its channels beside it.
    r.unpacks_y = (wgmma and not scaled and r.y.stride[1] != 1 and (r.filters >= 8 or is_volume(p))
                   and p.direction == MX_BACKWARD_DATA and p.step[0] * p.step[1] * p.step[2] > 1)
    if scaled:
        r.scales_offset = r.workspace
        r.workspace += scales_bytes(r.x.len[0] + p.groups * r.filters)
    r.y_offset = r.workspace
    if r.unpacks_y:
        r.workspace += up(r.y.len[0] * r.y.len[3] * r.y.len[4] * up(r.y.len[1], 8) * r.size, ALIGN)
    return r


cdef Step _pack_weights(const mx_conv_problem* p, const roles_t* r):
    cdef int64_t items = p.groups * r.filters * r.reduced * p.w.len[3] * r.taps_across
    cdef mx_nv_weights g
    g.groups, g.rows, g.taps_h, g.taps_w = <int> p.groups, <int> r.filters, <int> p.w.len[3], <int> r.taps_across
    g.channels, g.reduced, g.folded, g.limit = <int> r.channels, <int> r.reduced, <int> r.folded, <int> p.w.len[4]
    g.from_g, g.from_row, g.from_c = (
        <int> (p.w.len[0] // p.groups * p.w.stride[0]), <int> r.w_row, <int> r.w_reduced)
    g.from_h, g.from_w = <int> p.w.stride[3], <int> p.w.stride[4]
    args = (Arg.slot_of(SLOT_W, <int> r.size), Arg.slot_of(SLOT_WORKSPACE, <int> r.size), struct_arg(&g, sizeof(g)))
    return Step(KernelSpec("conv/nvidia/pack.cl", "pack_weights", X_TYPE=type_token(p.w.type)), args,
                (up(items, 256),), (256,))


cdef class _Pixels:
    """A tensor of 16 bits that is copied with channels last, as kernels/conv/nvidia/pack.cl takes it."""
    cdef int slot, run
    cdef int64_t to, tiles
    cdef mx_nv_pixels geometry

    def __init__(self, int slot, int64_t to, tuple lens, int64_t reduced, tuple strides):
        """`lens` are images, groups, h, w and channels of a group, `strides` those of n, g, c, h and w."""
        cdef int64_t images, groups, h, w, channels, n, g, c, sh, sw, together, pixels = PIXELS, blocks
        images, groups, h, w, channels = lens
        n, g, c, sh, sw = strides
        cdef int64_t image = h * w
        together = image | n | g | c
        self.slot, self.to, self.run = slot, to, 1
        if (w == 1 or sw == 1) and (h == 1 or sh == w):
            if together % 8 == 0:
                self.run = 8
            elif image % 2 and image <= PIXELS and c == image and (channels * image | n | g) % 8 == 0:
                self.run, pixels = 0, PIXELS // image * image
            elif together % 4 == 0:
                self.run = 4
            elif together % 2 == 0:
                self.run = 2
        blocks = groups * ceil_div(reduced, 64)
        self.tiles = ceil_div(images * image, pixels) * blocks
        cdef mx_nv_pixels* o = &self.geometry
        o.images, o.groups, o.h, o.w = <int> images, <int> groups, <int> h, <int> w
        o.channels, o.reduced, o.tile_pixels, o.blocks = <int> channels, <int> reduced, <int> pixels, <int> blocks
        o.from_n, o.from_g, o.from_c, o.from_h, o.from_w = <int> n, <int> g, <int> c, <int> sh, <int> sw
        o.by_image, o.by_row, o.by_blocks = divisor(image), divisor(w), divisor(blocks)

    cdef Arg argument(self):
        return struct_arg(&self.geometry, sizeof(self.geometry))

    cdef tuple args(self):
        return (Arg.slot_of(self.slot, 2), Arg.slot_of(SLOT_WORKSPACE, 2, self.to), self.argument())


cdef _Pixels _pixels_of(const mx_tensor* x, int slot, int64_t groups, int64_t channels, int64_t to):
    """`channels` are of one group."""
    return _Pixels(slot, to, (x.len[0], groups, x.len[3], x.len[4], channels), up(channels, 8),
                   (stride_of(x, 0), channels * x.stride[1] if groups > 1 else 0, stride_of(x, 1), stride_of(x, 3),
                    stride_of(x, 4)))


cdef _Pixels _pixels_of_weights(const mx_conv_problem* p, const roles_t* r):
    """Weights as images of their taps; for backward data each group's are one image of channels and taps."""
    cdef const mx_tensor* w = &p.w
    cdef int64_t n = stride_of(w, 0), c = stride_of(w, 1), h = stride_of(w, 3), s = stride_of(w, 4)
    if p.direction == MX_FORWARD:
        return _Pixels(SLOT_W, 0, (w.len[0], 1, w.len[3], w.len[4], r.channels), r.reduced, (n, 0, c, h, s))
    return _Pixels(SLOT_W, 0, (p.groups, 1, r.filters, w.len[3] * w.len[4], r.channels), r.reduced,
                   (r.channels * n if p.groups > 1 else 0, 0, n, c, s if w.len[4] > 1 else h))


cdef bint _taps_are_a_run(const mx_tensor* w) noexcept nogil:
    return w.len[3] == 1 or w.len[4] == 1 or w.stride[3] == w.len[4] * w.stride[4]


cdef list _pack(const mx_conv_problem* p, list tensors):
    """The step, if any, that copies up to two tensors."""
    cdef _Pixels first, second
    token = type_token(p.w.type)
    if not tensors:
        return []
    first = tensors[0]
    if len(tensors) == 1:
        spec = KernelSpec("conv/nvidia/pack.cl", "pack_pixels", X_TYPE=token, RUN=first.run)
        return [Step(spec, first.args(), (first.tiles * 256,), (256,))]
    second = tensors[1]
    spec = KernelSpec("conv/nvidia/pack.cl", "pack_two", X_TYPE=token, RUN=first.run, SECOND_RUN=second.run)
    args = first.args() + second.args() + (Arg.int32(first.tiles),)
    return [Step(spec, args, ((first.tiles + second.tiles) * 256,), (256,))]


cdef Step pack_pixels(const mx_conv_problem* p, const mx_tensor* x, int slot, int64_t channels, int64_t to):
    """Copy a tensor of 16 bits to byte `to` of the workspace; `channels` are of one group."""
    return _pack(p, [_pixels_of(x, slot, p.groups, channels, to)])[0]


cdef list unpacking(const mx_conv_problem* p, const roles_t* r):
    """The step, if any, that copies y out of the workspace, where it is channels last."""
    cdef _Pixels y
    if not r.unpacks_y:
        return []
    y = _pixels_of(r.y, r.y_slot, 1, r.y.len[1], r.y_offset)
    spec = KernelSpec("conv/nvidia/pack.cl", "unpack_pixels", X_TYPE=type_token(p.w.type), RUN=y.run)
    args = (Arg.slot_of(SLOT_WORKSPACE, 2, r.y_offset), Arg.slot_of(r.y_slot, 2), y.argument(),
            Arg.alpha(False), Arg.beta(False))
    return [Step(spec, args, (y.tiles * 256,), (256,))]


cdef mx_nv_conv operands(const mx_conv_problem* p, const roles_t* r) noexcept nogil:
    """Everything but the grid and the taps."""
    cdef mx_nv_conv g
    cdef const mx_tensor* y = r.y
    memset(&g, 0, sizeof(g))
    g.filters, g.channels, g.reduced, g.groups = <int> r.filters, <int> r.channels, <int> r.reduced, <int> p.groups
    set_x(&g, r.x, r.channels, r.reduced if r.packs_x else 0)
    if r.packs_w:
        set_packed_w(&g, r.reduced, p.w.len[3], r.taps_across)
    else:
        g.w_k = <int> (r.w_reduced if r.w_transposed else r.w_row)
        g.w_h, g.w_w = <int> p.w.stride[3], <int> p.w.stride[4]
        g.w_g = <int> (p.w.len[0] // p.groups * p.w.stride[0])
    set_y(&g, y, r.filters)
    if r.unpacks_y:
        g.y_c, g.y_g, g.y_w = 1, <int> r.filters, <int> up(y.len[1], 8)
        g.y_h = g.y_w * <int> y.len[4]
        g.y_n = g.y_h * <int> y.len[3]
    return g


cdef int64_t widest(const mx_nv_conv* g, bint last) noexcept nogil:
    """How many elements of 16 bits of y can be stored at once."""
    cdef int64_t vector = 8
    while not divides(vector, g, last) and vector > 1:
        vector //= 2
    return vector


cdef tuple operand_args(const roles_t* r, mx_nv_conv* g):
    return (
        Arg.slot_of(SLOT_WORKSPACE if r.packs_x else r.x_slot, <int> r.size, r.x_offset if r.packs_x else r.x_at),
        Arg.slot_of(SLOT_WORKSPACE if r.packs_w else SLOT_W, <int> r.size),
        Arg.slot_of(SLOT_WORKSPACE if r.unpacks_y else r.y_slot, <int> r.y_size, r.y_offset if r.unpacks_y else r.y_at),
        struct_arg(g, sizeof(g[0])),
    ) + ((Arg.real(1, False), Arg.real(0, False)) if r.unpacks_y or r.y_slot == SLOT_WORKSPACE
         else (Arg.alpha(False), Arg.beta(False)))


cdef Step _multiply(const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g):
    cdef int64_t pixels_tile, filters_tile, vector
    cdef bint last = g.y_c == 1 and g.filters > 1
    defines = {}
    if p.w.type == MX_FLOAT:
        name = "float"
        vector = 2 if divides(2, g, False) else 1
        if g.filters <= 64 or g.taps_h * g.taps_w * g.reduced <= 128:
            # Few products a tile: several small groups a compute unit hide each other's beginnings and ends.
            filters_tile, pixels_tile, threads = 64, 128, 128
            defines.update(WARPS_M=1, WARPS_N=4, INTERLEAVE=2)
        else:
            filters_tile, pixels_tile, threads = 128, 128, 256
    else:
        name = "mma"
        vector = widest(g, last)
        filters_tile, pixels_tile, threads = 128, 128, 128
        if g.filters <= 64:
            filters_tile = 64
            defines.update(WARPS_M=4, WARPS_N=1, WM=32)
        defines.update(X_TYPE=type_token(p.w.type), CHANNELS_LAST=int(last))
    groups = (ceil_div(g.pixels, pixels_tile)) * ceil_div(g.filters, filters_tile) * g.groups
    return Step(KernelSpec(f"conv/nvidia/{name}.cl", f"conv_nvidia_{name}", VEC=vector, **defines), operand_args(r, g),
                (groups * threads,), (threads,))


# What takes time, as DATA_TERMS names it: first what `count_packing` counts, launches and megabytes; rounds over the
# compute units of tiles with 64 or 128 filters, and their slices.
cdef struct data_terms_t:
    double launch, packed, x, y, turned, small_rounds, small_slices, large_rounds, large_slices, tap_bytes, flow
    double narrow, strided

cdef tuple DATA_TERMS = ("launch", "packed", "x", "y", "turned", "small_rounds", "small_slices", "large_rounds",
                         "large_slices", "tap_bytes", "flow", "narrow", "strided")
# Likewise of backward weights.
cdef struct weights_terms_t:
    double launch, small_rounds, small_slices, large_rounds, large_slices, packed, x, y, parts, splits

cdef tuple WEIGHTS_TERMS = ("launch", "small_rounds", "small_slices", "large_rounds", "large_slices", "packed", "x",
                            "y", "parts", "splits")


cdef double megabytes(const mx_tensor* t) noexcept nogil:
    return t.len[0] * t.len[1] * <double> (t.len[3] * t.len[4]) * (4e-6 if t.type == MX_FLOAT else 2e-6)


cdef int64_t _products(const mx_conv_problem* p) noexcept nogil:
    """Of a sum."""
    if p.direction == MX_BACKWARD_WEIGHTS:
        return p.y.len[0] * p.y.len[3] * p.y.len[4]
    return (p.w.len[1] if p.direction == MX_FORWARD else p.w.len[0] // p.groups) * p.w.len[3] * p.w.len[4]


cdef class _NvImplicitGemm(_NvSolver):
    def __cinit__(self):
        self.peak = MMA_PEAK
        self.cost_names = DATA_TERMS

    cdef void count(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g,
                    double* terms) noexcept:
        """Add a launch: rounds of its tiles over the compute units, their slices."""
        cdef data_terms_t* t = <data_terms_t*> terms
        cdef int64_t units = max(1, dev.compute_units), filters_tile = 128, reduced = g.taps_h * g.taps_w * g.reduced
        if g.filters <= 64 or r.size == 4 and reduced <= 128:
            filters_tile = 64
        cdef int64_t groups = ceil_div(g.pixels, 128) * ceil_div(g.filters, filters_tile) * g.groups
        cdef int64_t rounds = ceil_div(groups, units), slices = ceil_div(reduced, 16)
        t.launch += 1
        if filters_tile == 64:
            t.small_rounds += rounds
            t.small_slices += rounds * slices
        else:
            t.large_rounds += rounds
            t.large_slices += rounds * slices
        t.tap_bytes += up(g.pixels, 128) * <double> (g.groups * slices) * 16 * r.size * 1e-6
        t.flow += max(1, <double> groups / units) * slices * filters_tile / 128
        if not divides(2, g, g.y_c == 1 and g.filters > 1):
            t.narrow += g.pixels * <double> g.filters * g.groups * r.size * 1e-6
        if g.y_c != 1 and g.y_w > 1:
            t.strided += g.pixels * <double> g.filters * g.groups * r.size * 1e-6

    cdef void count_packing(self, const mx_conv_problem* p, const roles_t* r, double* terms) noexcept:
        cdef packing_terms_t* t = <packing_terms_t*> terms
        # As `packing`: images of 16 bits are packed together.
        cdef bint as_pixels = r.packs_w and r.size == 2 and not r.narrow.used and _taps_are_a_run(&p.w)
        t.launch += (r.packs_w and not as_pixels) + r.narrow.used + (as_pixels or r.packs_x and not r.narrow.used)
        t.packed = (r.y_offset if r.unpacks_y else r.workspace) * 1e-6
        t.x, t.y = megabytes(r.x), megabytes(r.y)
        if r.unpacks_y:
            t.launch += 1
            t.turned = (r.workspace - r.y_offset) * 1e-6

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why
        if not tensor_cores(dev):
            return "needs NVIDIA's tensor cores"
        if p.w.type != MX_HALF and p.w.type != MX_BFLOAT16 and p.w.type != MX_FLOAT:
            return "data type"
        if p.w.type == MX_FLOAT and _products(p) < 4:
            return "few products in a sum"  # each may be off by more than a float's rounding
        why = refuse_sizes(p, self.copied(p), self.volumes, self.long_rows)
        if why is not None:
            return why
        if self.workspace_bytes(dev, p) > dev.max_alloc:
            return NO_ROOM
        return None

    cdef int64_t copied(self, const mx_conv_problem* p) noexcept:
        """Elements of the packed copies."""
        cdef mx_conv_problem read = only_read(p)
        cdef roles_t r = self.roles(&read)
        return r.workspace // r.size

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef mx_conv_problem read = only_read(p)
        return self.roles(&read).workspace

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef roles_t r = self.roles(p)
        # The share of a tile that is not padding.
        return self.peak * <double> r.channels / r.folded * min(1.0, r.filters / 64.0)

    cdef roles_t roles(self, const mx_conv_problem* p) noexcept:
        return roles_of(p, False)

    cdef Step multiply(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g):
        return _multiply(p, r, g)

    cdef list packing(self, Device dev, const mx_conv_problem* p, const roles_t* r):
        steps, tensors = [], []
        if r.packs_w and r.size == 2 and not r.narrow.used and _taps_are_a_run(&p.w):
            tensors.append(_pixels_of_weights(p, r))
        elif r.packs_w:
            steps.append(_pack_weights(p, r))
        if r.narrow.used:
            steps.append(pack_narrow(p, &r.narrow, r.x_offset))
        elif r.packs_x:
            tensors.append(_pixels_of(r.x, r.x_slot, p.groups, r.channels, r.x_offset))
        return steps + _pack(p, tensors)


cdef class NvImplicitGemmFwd(_NvImplicitGemm):
    """Forward: implicit GEMM by mma.sync, after launches that pack."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1101, "NvImplicitGemmFwd", MX_FORWARD

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef mx_conv_problem read = only_read(p)
        cdef roles_t r = self.roles(&read)
        cdef mx_nv_conv g = operands(&read, &r)
        set_taps(&g, &read)
        if r.narrow.used:
            set_narrow(&g, &r.narrow)
        self.count(dev, &read, &r, &g, terms)
        self.count_packing(&read, &r, terms)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem read = only_read(p)
        cdef roles_t r = self.roles(&read)
        cdef mx_nv_conv g = operands(&read, &r)
        set_taps(&g, &read)
        if r.narrow.used:
            set_narrow(&g, &r.narrow)
        p = &read
        return Solution(self.packing(dev, p, &r) + [self.multiply(dev, p, &r, &g)], r.workspace)


cdef class NvImplicitGemmBwd(_NvImplicitGemm):
    """Backward data: implicit GEMM by mma.sync, one launch a phase of the stride, after those that pack."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1102, "NvImplicitGemmBwd", MX_BACKWARD_DATA

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        if p.step[0] * p.step[1] * p.step[2] > MAX_PHASES:
            return "too many phases of the stride"
        return _NvImplicitGemm.refuse(self, dev, p)

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef roles_t r = self.roles(p)
        self.count_launches(dev, p, &r, terms)

    cdef void count_launches(self, Device dev, const mx_conv_problem* p, const roles_t* r, double* terms) noexcept:
        cdef mx_nv_conv[MAX_PHASES] g
        cdef int count = self.phases(p, r, g)
        self.count_phases(dev, p, r, g, count, terms)
        self.count_packing(p, r, terms)

    cdef void count_phases(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int count,
                           double* terms) noexcept:
        cdef int i
        for i in range(count):
            self.count(dev, p, r, &g[i], terms)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef roles_t r = self.roles(p)
        return Solution(self.launches(dev, p, &r), r.workspace)

    cdef list launches(self, Device dev, const mx_conv_problem* p, const roles_t* r):
        """All steps."""
        cdef mx_nv_conv[MAX_PHASES] g
        cdef int count = self.phases(p, r, g)
        return self.packing(dev, p, r) + self.multiply_phases(dev, p, r, g, count) + unpacking(p, r)

    cdef mx_nv_conv operands_of(self, const mx_conv_problem* p, const roles_t* r) noexcept:
        return operands(p, r)

    cdef int phases(self, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g) noexcept:
        """Fill `g` with each phase of the stride, return how many there are."""
        cdef mx_nv_conv whole = self.operands_of(p, r)
        cdef int64_t o, a, b, rows = plane_rows(&p.x)
        cdef int count = 0
        for o in range(min(p.step[0], p.x.len[2])):
            for a in range(min(p.step[1], rows)):
                for b in range(min(p.step[2], p.x.len[4])):
                    g[count] = whole
                    set_phase(&g[count], p, o, a, b)
                    g[count].y_first = <int> ((o * rows + a) * whole.y_h + b * whole.y_w)
                    g[count].y_h, g[count].y_w = <int> p.step[1] * whole.y_h, <int> p.step[2] * whole.y_w
                    count += 1
        return count

    cdef list multiply_phases(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int count):
        cdef int i
        return [self.multiply(dev, p, r, &g[i]) for i in range(count)]


# A tile of backward weights in 16 bits: filters, columns, work-items of a group and groups at once on a compute unit.
cdef struct tile_t:
    int down, across, threads, resident

cdef tile_t[2] TILES
TILES[0] = tile_t(128, 128, 128, 2)
TILES[1] = tile_t(64, 64, 128, 3)
cdef tuple TILE_DEFINES = ({}, {"WM": 32, "WN": 32, "STAGES": 4})


cdef int64_t elements_of(const mx_tensor* t) noexcept nogil:
    """Elements of a tensor of two axes."""
    return t.len[0] * t.len[1] * t.len[3] * t.len[4]


cdef split_k_t split_k_operands(const mx_conv_problem* p, bint wgmma) noexcept nogil:
    """How backward weights in 16 bits read x and dy, and where in the workspace the partial sums begin."""
    cdef split_k_t s
    cdef int64_t filters = p.w.len[0] // p.groups
    memset(&s, 0, sizeof(s))
    s.x_slot, s.size = SLOT_X, 2
    s.packs_x, s.packs_y = not in_place(&p.x, p.w.len[1]), not in_place(&p.y, filters)
    if wgmma and (s.packs_x or s.packs_y):
        s.contiguous_pixels = min(contiguous_pixels(p, &p.x), contiguous_pixels(p, &p.y))
    if wgmma and p.w.type == MX_FLOAT:
        s.scaled = s.packs_x = s.packs_y = True
        s.contiguous_pixels = 0
    s.packs_x, s.packs_y = s.packs_x and s.contiguous_pixels == 0, s.packs_y and s.contiguous_pixels == 0
    s.reduced = up(p.w.len[1], 8)
    s.columns = s.reduced * p.w.len[3] * p.w.len[4]
    if wgmma and not s.scaled:
        s.narrow = narrow_of(p, False)
    if s.narrow.used:
        s.packs_x, s.reduced = True, s.narrow.reduced
        s.columns = s.reduced * p.w.len[3] * s.narrow.taps_across
        s.y_offset = s.narrow.bytes
    elif s.packs_x:
        s.y_offset = up(p.x.len[0] * p.x.len[3] * p.x.len[4] * p.groups * s.reduced * 2, ALIGN)
    s.partial_offset = s.y_offset
    if s.packs_y:
        s.partial_offset += up(p.y.len[0] * p.y.len[3] * p.y.len[4] * p.groups * up(filters, 8) * 2, ALIGN)
    if s.scaled:
        s.scales_offset = s.partial_offset
        s.partial_offset += scales_bytes(p.groups * p.w.len[1] + p.w.len[0])
    return s


cdef split_k_t _split_k_of(Device dev, const mx_conv_problem* p) noexcept:
    """The tile and the splits that should take least time.

    A compute unit works through ceil(tiles * splits / groups at once) of them, bound by its products (2.9e6 operations
    a microsecond) or by what it reads from the L2 (42 KB); each takes 3 us to begin and end.  Partial sums
    are written and read.
    """
    cdef split_k_t s = split_k_operands(p, False)
    cdef int64_t filters = p.w.len[0] // p.groups, slices = ceil_div(p.y.len[0] * p.y.len[3] * p.y.len[4], DEPTH)
    cdef int64_t units = max(1, dev.compute_units), at_once, number, splits, each, least, most
    cdef double slice, cost, best = -1
    cdef int i
    for i in range(2):
        number = (up(filters, TILES[i].down) // TILES[i].down) * (up(s.columns, TILES[i].across) // TILES[i].across)
        number *= p.groups
        at_once = units * TILES[i].resident
        slice = TILES[i].resident * max(2.0 * DEPTH * TILES[i].down * TILES[i].across / 2.9e6,
                                        2.0 * DEPTH * (TILES[i].down + TILES[i].across) / 42e3)
        least = ceil_div(slices * DEPTH, LONGEST)
        splits, most = least, max(least, min(4 * at_once // number + 2, ceil_div(slices, 2)))
        while splits <= most:
            each = ceil_div(slices, splits)
            cost = ((number * splits + at_once - 1) // at_once) * (each * slice + 3)
            cost += splits * p.w.len[0] * s.columns * 8 / 3e6
            if best < 0 or cost < best:
                best, s.tile, s.tiles, s.split_slices = cost, i, number, each
            splits = more_parts(slices, each)
    s.splits = ceil_div(slices, s.split_slices)
    s.workspace = s.partial_offset + s.splits * p.w.len[0] * s.columns * 4
    return s


cdef void set_split_k(const mx_conv_problem* p, const split_k_t* s, mx_nv_conv* g) noexcept nogil:
    """Fill g with the problem."""
    cdef mx_nv_conv y
    memset(g, 0, sizeof(g[0]))
    memset(&y, 0, sizeof(y))
    g.filters, g.channels, g.groups = <int> (p.w.len[0] // p.groups), <int> p.w.len[1], <int> p.groups
    y.groups, g.reduced = g.groups, <int> s.reduced
    set_x(g, &p.x, g.channels, up(g.channels, 8) if s.packs_x else 0)
    set_taps(g, p)
    set_x(&y, &p.y, g.filters, up(g.filters, 8) if s.packs_y else 0)
    g.y_g, g.y_n, g.y_c, g.y_h, g.y_w = y.x_g, y.x_n, y.x_c, y.x_h, y.x_w
    if s.narrow.used:
        set_narrow(g, &s.narrow)


cdef list pack_for_split_k(const mx_conv_problem* p, const split_k_t* s, mx_nv_conv* g):
    """The steps that pack x and dy; fills g with the problem."""
    set_split_k(p, s, g)
    steps, tensors = [], []
    if s.narrow.used:
        steps.append(pack_narrow(p, &s.narrow, s.x_offset))
    elif s.packs_x:
        tensors.append(_pixels_of(&p.x, SLOT_X, p.groups, p.w.len[1], s.x_offset))
    if s.packs_y:
        tensors.append(_pixels_of(&p.y, SLOT_Y, p.groups, g.filters, s.y_offset))
    return steps + _pack(p, tensors)


cdef tuple split_k_args(const split_k_t* s, const mx_nv_conv* g):
    return (Arg.slot_of(SLOT_WORKSPACE if s.packs_x else s.x_slot, s.size, s.x_offset),
            Arg.slot_of(SLOT_WORKSPACE if s.packs_y else SLOT_Y, s.size, s.y_offset if s.packs_y else 0),
            Arg.slot_of(SLOT_WORKSPACE, 4, s.partial_offset),
            struct_arg(g, sizeof(g[0])), Arg.int32(s.split_slices))


cdef Solution _weights_of_halves(const mx_conv_problem* p, const split_k_t* s):
    cdef mx_nv_conv g
    cdef list steps = pack_for_split_k(p, s, &g)
    cdef const tile_t* tile = &TILES[s.tile]
    spec = KernelSpec("conv/nvidia/half_weights.cl", "conv_nvidia_half_weights", X_TYPE=type_token(p.w.type),
                      BM=tile.down, BN=tile.across, **TILE_DEFINES[s.tile])
    steps.append(Step(spec, split_k_args(s, &g), (tile.threads * s.tiles * s.splits,), (tile.threads,)))
    steps.append(sum_partial(p, s.splits, s.partial_offset, s.columns, 1, s.reduced))
    return Solution(steps, s.workspace)


cdef class NvImplicitGemmWrw(_NvImplicitGemm):
    """Backward weights: implicit GEMM by mma.sync, split-K over pixels, and a launch that adds the partial sums."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1103, "NvImplicitGemmWrw", MX_BACKWARD_WEIGHTS
        self.cost_names = WEIGHTS_TERMS

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        cdef weights_terms_t* t = <weights_terms_t*> terms
        cdef mx_conv_problem read = only_read(p)
        cdef split_k_t s
        cdef int64_t units = max(1, dev.compute_units), rounds
        cdef int64_t each
        cdef bint small
        t.launch = 2
        if p.w.type == MX_FLOAT:
            t.splits = _splits(dev, p)
            t.parts = t.splits * weight_count(p) * 4e-6
            rounds = (_weight_tiles(p) * <int64_t> t.splits + units - 1) // units
            small, each = p.w.len[0] // p.groups <= 64, _split_slices(dev, p)
        else:
            s = _split_k_of(dev, &read)
            t.splits = s.splits
            t.parts = (s.workspace - s.partial_offset) * 1e-6
            t.packed = s.partial_offset * 1e-6
            t.launch += 1 if s.packs_x or s.packs_y else 0
            rounds = (s.tiles * s.splits + units * TILES[s.tile].resident - 1) // (units * TILES[s.tile].resident)
            small, each = s.tile == 1, s.split_slices
        if small:
            t.small_rounds, t.small_slices = rounds, rounds * each
        else:
            t.large_rounds, t.large_slices = rounds, rounds * each
        t.x, t.y = megabytes(&read.x), megabytes(&read.y)

    cdef split_k_t split_k(self, Device dev, const mx_conv_problem* p) noexcept:
        return _split_k_of(dev, p)

    cdef int64_t copied(self, const mx_conv_problem* p) noexcept:
        if p.w.type == MX_FLOAT:
            return 0
        cdef mx_conv_problem read = only_read(p)
        p = &read
        return max(p.x.len[0] * p.x.len[3] * p.x.len[4] * p.groups * up(p.w.len[1], 8),
                   p.y.len[0] * p.y.len[3] * p.y.len[4] * p.groups * up(p.w.len[0] // p.groups, 8),
                   p.w.len[0] * p.w.len[3] * p.w.len[4] * up(p.w.len[1], 8), narrow_of(p, False).bytes // 2)

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        if p.w.type == MX_FLOAT:
            return _splits(dev, p) * weight_count(p) * 4
        cdef mx_conv_problem read = only_read(p)
        return self.split_k(dev, &read).workspace

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return (self.peak * min(1.0, p.w.len[0] // p.groups / 64.0)
                * min(1.0, p.w.len[1] * p.w.len[3] * p.w.len[4] / 64.0))

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef split_k_t s
        cdef mx_nv_conv g
        cdef mx_conv_problem read = only_read(p)
        cdef int64_t splits, taps = p.w.len[3] * p.w.len[4]
        if p.w.type != MX_FLOAT:
            s = self.split_k(dev, &read)
            return _weights_of_halves(&read, &s)
        splits = _splits(dev, p)
        memset(&g, 0, sizeof(g))
        set_taps(&g, p)
        g.filters, g.channels, g.groups = <int> (p.w.len[0] // p.groups), <int> p.w.len[1], <int> p.groups
        set_x(&g, &p.x, g.channels, 0)
        set_y(&g, &p.y, g.filters)
        spec = KernelSpec("conv/nvidia/weights.cl", "conv_nvidia_weights", WARPS_M=1 if g.filters <= 64 else 2)
        args = (Arg.slot_of(SLOT_X, 4), Arg.slot_of(SLOT_Y, 4), Arg.slot_of(SLOT_WORKSPACE, 4),
                struct_arg(&g, sizeof(g)),
                Arg.int32(_split_slices(dev, p)))
        return Solution([
            Step(spec, args, (256 * splits * _weight_tiles(p),), (256,)),
            sum_partial(p, splits, 0, p.w.len[1] * taps, taps, 1),
        ], splits * weight_count(p) * 4)


cdef int64_t _weight_tiles(const mx_conv_problem* p) noexcept nogil:
    cdef int64_t filters = p.w.len[0] // p.groups, columns = p.w.len[1] * p.w.len[3] * p.w.len[4]
    cdef int64_t down = 64 if filters <= 64 else 128, across = 256 if filters <= 64 else 128
    return ceil_div(filters, down) * ceil_div(columns, across) * p.groups


cdef int64_t _split_slices(Device dev, const mx_conv_problem* p) noexcept:
    """Slices of 16 pixels of a split, so that the tiles of all splits fill the device evenly.

    A compute unit works through ceil(tiles * splits / units) of them; beginning and ending one costs OVERHEAD slices.
    """
    cdef int64_t slices = ceil_div(p.y.len[0] * p.y.len[3] * p.y.len[4], 16), tiles = _weight_tiles(p)
    cdef int64_t units = max(1, dev.compute_units), splits, each, cost, best = 0, best_each = slices
    cdef int64_t least = ceil_div(slices * 16, LONGEST), most
    splits, most = least, max(least, min(4 * units // tiles + 2, ceil_div(slices, OVERHEAD)))
    while splits <= most:
        each = ceil_div(slices, splits)
        cost = (tiles * splits + units - 1) // units * (each + OVERHEAD)
        if best == 0 or cost < best:
            best, best_each = cost, each
        splits = more_parts(slices, each)
    return best_each


cdef int64_t _splits(Device dev, const mx_conv_problem* p) noexcept:
    cdef int64_t slices = ceil_div(p.y.len[0] * p.y.len[3] * p.y.len[4], 16), each = _split_slices(dev, p)
    return ceil_div(slices, each)
