"""Small convolutions on NVIDIA's tensor cores, one and two spatial axes: one launch, nothing is packed.

Operands are read in place, and the warps of a work-group share a small tile's sum, or several groups do, which needs
a workspace: kernels/conv/nvidia/small.cl.
"""

from libc.stdint cimport int64_t
from libc.math cimport sqrt
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg
from miopyx.problem._problem cimport ConvProblem
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_FLOAT, MX_FORWARD, MX_HALF, mx_conv_problem, mx_tensor,
)
from miopyx.solvers.conv._base cimport ConvOffer, is_pointwise, stride_of
from miopyx.solvers._tokens cimport type_token
from ._common cimport (
    LONGEST, NO_ROOM, TOO_LARGE, RunsOffer, _NvSolver, divisor, has_wgmma, images_of, mx_divisor, refuse_sizes,
    tensor_cores,
)

cdef enum:
    TAPS_LIMIT = 15        # along an axis: bits of a word
    ROWS = 16              # that blocks of pixels may fill
    SINGLE = 0             # how an operand is read, as the kernel calls it
    RUNS = 1
    PAIRS = 2
    IN_LOCAL = 3
    MIN_ENTRIES = 512       # entries of the table of k
    MAX_ENTRIES = 4608
    LOCAL_MEM = 98 * 1024  # of compute capability 8.6 and up
    HOPPER_MEM = 200 * 1024
    REGISTERS = 65536      # of a compute unit
    LAUNCH = 11200         # clocks from the end of a launch's work to the beginning of the next one's
    CLOCKS = 1750          # a microsecond
    LARGEST = 20000        # microseconds by the guess: nearly each problem takes a program of its own

# One launch and no packing pay where a problem is small, which the index does not know.
cdef double INDEX = 0.6
cdef str LARGE = "a large problem"

cdef extern from "miopyx/kernels/conv/nvidia/small_args.h" nogil:
    ctypedef struct mx_nv_small:
        int m, n, k, split_length
        int m_tiles, n_tiles, groups, splits
        int p, q, taps_h, taps_w, channels
        int h, w, step_h, step_w, first_h, first_w, tap_h, tap_w
        int x_g, x_n, x_c, x_h, x_w
        int filter_h, filter_w, place_h, place_w, row_h, row_w, turn_h, turn_w
        int a_g, a_m, a_k, a_n, a_h, a_w
        int block_h, block_w, outs
        int out_g, out_n, out_c, out_h, out_w, out_height, out_width
        int image_rows, tall, local_rows, local_c, local_h, local_w, line, line_first, chunks
        int local_a, local_a_k, piece
        int a_copied, b_copied
        mx_divisor by_places, by_chunks, by_image_rows, by_piece
        mx_divisor by_m_tiles, by_n_tiles, by_groups
        mx_divisor by_image, by_row, by_inner, by_taps_w, by_outs, by_block_w

# A work-group's tile: blocks of a warp along m and n, warps along m, n and k.
cdef struct tile_t:
    int mb, nb, warps_m, warps_n, warps_k

# What the kernel is compiled for, and its number of work-groups.
cdef struct plan_t:
    tile_t tile
    bint last, masked, m_contiguous, vector, inside
    bint long_sums         # if nothing fits: because of these
    int a_read, b_read, prefetch
    int a_chunk, b_chunk   # of IN_LOCAL: elements that are copied at once; 0: it cannot be
    int64_t local_words
    int64_t size, step_k, table_entries, splits, work_groups, workspace, units, local_mem
    double cost            # clocks, a guess

# One axis of forward or backward data: how pixels of x and taps of w follow from a block of pixels and a tap.
cdef struct axis_t:
    int64_t blocks, step, first, tap, taps, place, row, turn


cdef axis_t _axis(const mx_conv_problem* p, int axis, int64_t block) noexcept nogil:
    """`block` is a multiple of backward data's stride, and 1 where there is dilation."""
    cdef axis_t a
    cdef int64_t step = p.step[axis], dilation = p.dilation[axis], pad = p.pad[axis], taps = p.w.len[2 + axis], low
    if p.direction == MX_FORWARD:
        a = axis_t(ceil_div(p.y.len[2 + axis], block), block * step, -pad, dilation, taps, 0, -step, 1)
        if block > 1:
            a.taps += (block - 1) * step
    elif dilation > 1:
        a = axis_t(p.x.len[2 + axis], 1, pad - (taps - 1) * dilation, dilation, taps, taps - 1, 0, -1)
    else:
        low = -((taps - 1 - pad) // step) if taps - 1 >= pad else (pad - taps + step) // step
        a = axis_t(ceil_div(p.x.len[2 + axis], block), block // step, low, 1,
                   (block - 1 + pad) // step - low + 1, pad - low * step, 1, -step)
    return a


cdef bint _divides(int64_t number, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) noexcept nogil:
    return (a | b | c | d | e) % number == 0


cdef int64_t _chunk(int64_t size, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) noexcept nogil:
    """Elements of `size` bytes that can be copied at once where all of these are multiples of them; 0 if too few."""
    cdef int64_t number = 16 // size
    while (a | b | c | d | e) % number != 0:
        number //= 2
    return number if number * size >= 4 else 0


cdef void _set_local(mx_nv_small* g, plan_t* k) noexcept nogil:
    """What is copied of b into local memory, but for what the tile decides."""
    cdef int64_t unit = g.channels if k.last else 1, first, behind
    k.b_chunk = k.a_chunk = 0
    if k.size != 4 or k.b_read != SINGLE or g.x_w != unit or (k.last and g.groups > 1):
        return
    k.b_chunk = <int> _chunk(k.size, g.w * unit, g.x_h, g.x_n, 0 if k.last else g.x_c, g.x_g)
    if k.b_chunk == 0:
        return
    g.tall = (g.taps_h - 1) * g.tap_h + 1
    g.image_rows = (g.p - 1) * g.step_h + g.tall
    g.line, g.local_w = <int> (g.w * unit), <int> unit
    first = g.first_w * unit
    g.line_first = <int> (first - ((first % k.b_chunk) + k.b_chunk) % k.b_chunk)
    behind = ((g.q - 1) * <int64_t> g.step_w + (g.taps_w - 1) * <int64_t> g.tap_w + 1) * unit + first
    g.chunks = <int> ((behind - g.line_first + k.b_chunk - 1) // k.b_chunk)
    g.local_h = g.chunks * k.b_chunk
    if g.local_h * k.size > 96:   # rows in other banks
        g.local_h += <int> ((128 + 32 - g.local_h * k.size % 128) % 128 // k.size)


cdef bint _inside(const mx_conv_problem* p) noexcept nogil:
    """Whether no pixel of forward or backward weights reads outside of x."""
    cdef int i
    for i in range(1, 3):
        if p.pad[i] != 0 or (p.y.len[2 + i] - 1) * p.step[i] + (p.w.len[2 + i] - 1) * p.dilation[i] >= p.x.len[2 + i]:
            return False
    return True


cdef void _set_axes(mx_nv_small* g, plan_t* k, const mx_conv_problem* p, int64_t block_h,
                    int64_t block_w) noexcept nogil:
    """Forward and backward data: everything but the tile."""
    cdef bint forward = p.direction == MX_FORWARD
    cdef const mx_tensor* x = &p.x if forward else &p.y
    cdef const mx_tensor* y = &p.y if forward else &p.x
    cdef axis_t v = _axis(p, 1, block_h), u = _axis(p, 2, block_w)
    cdef int64_t run = 16 // k.size, taps
    memset(g, 0, sizeof(g[0]))
    g.groups = <int> p.groups
    g.p, g.q, g.taps_h, g.taps_w = <int> v.blocks, <int> u.blocks, <int> v.taps, <int> u.taps
    g.h, g.w = <int> x.len[3], <int> x.len[4]
    g.step_h, g.step_w, g.first_h, g.first_w, g.tap_h, g.tap_w = (
        <int> v.step, <int> u.step, <int> v.first, <int> u.first, <int> v.tap, <int> u.tap)
    g.filter_h, g.filter_w, g.place_h, g.place_w = <int> p.w.len[3], <int> p.w.len[4], <int> v.place, <int> u.place
    g.row_h, g.row_w, g.turn_h, g.turn_w = <int> v.row, <int> u.row, <int> v.turn, <int> u.turn
    g.x_n, g.x_c, g.x_h, g.x_w = (
        <int> stride_of(x, 0), <int> stride_of(x, 1), <int> stride_of(x, 3), <int> stride_of(x, 4))
    g.a_h, g.a_w = <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4)
    if forward:
        g.channels, g.outs = <int> p.w.len[1], <int> (p.w.len[0] // p.groups)
        g.a_m, g.a_k = <int> stride_of(&p.w, 0), <int> stride_of(&p.w, 1)
    else:
        g.channels, g.outs = <int> (p.w.len[0] // p.groups), <int> p.w.len[1]
        g.a_m, g.a_k = <int> stride_of(&p.w, 1), <int> stride_of(&p.w, 0)
    g.out_n, g.out_c, g.out_h, g.out_w = (
        <int> stride_of(y, 0), <int> stride_of(y, 1), <int> stride_of(y, 3), <int> stride_of(y, 4))
    g.out_height, g.out_width = <int> y.len[3], <int> y.len[4]
    if p.groups > 1:
        g.x_g, g.out_g = <int> (g.channels * x.stride[1]), <int> (g.outs * y.stride[1])
        g.a_g = <int> (p.w.len[0] // p.groups * p.w.stride[0])
    g.block_h, g.block_w = <int> block_h, <int> block_w
    taps = g.taps_h * g.taps_w
    g.m, g.n, g.k = <int> (g.outs * block_h * block_w), <int> (y.len[0] * g.p * g.q), <int> (g.channels * taps)
    k.m_contiguous = g.out_c == 1 and g.outs > 1
    if k.m_contiguous:
        k.vector = _divides(4, g.outs, g.out_n, g.out_h, g.out_w, g.out_g)
    else:
        k.vector = (block_h * block_w == 1 and (g.out_w == 1 or g.q == 1) and (g.out_h == g.q or g.p == 1)
                    and _divides(4, g.p * g.q, g.out_n, g.out_c, g.out_g, 0))
    k.masked = block_h * block_w > 1
    k.inside = (not k.masked and g.k % k.step_k == 0
                and (_inside(p) if forward else taps == 1 and p.pad[1] == 0 and p.pad[2] == 0))
    k.last = g.x_c == 1 and g.channels > 1
    k.a_read = k.b_read = SINGLE
    if k.last and g.channels % run == 0 and _divides(run, g.x_n, g.x_h, g.x_w, g.x_g, 0):
        k.b_read = RUNS
    if k.last or taps == 1:
        if g.a_k == 1 and g.channels % run == 0 and _divides(run, g.a_m, g.a_h, g.a_w, g.a_g, 0):
            k.a_read = RUNS
    elif (forward and not k.masked and (g.a_w == 1 or g.taps_w == 1) and (g.a_h == g.taps_w or g.taps_h == 1)
            and g.a_k == taps and _divides(run, g.k, g.a_m, g.a_g, 0, 0)):
        k.a_read = RUNS
    _set_local(g, k)
    if k.b_chunk > 0 and k.a_read == SINGLE and k.size == 4 and not k.last and g.a_w == 1 and g.a_h == g.filter_w:
        taps = g.filter_h * g.filter_w
        if forward and g.a_k == taps and g.a_m == taps * g.channels and g.channels > 1 and not k.masked:
            k.a_chunk = <int> _chunk(k.size, g.outs * g.a_m, 0, 0, 0, g.a_g)
        elif not forward and g.a_m == taps and g.a_k == taps * g.outs:
            k.a_chunk = <int> _chunk(k.size, g.channels * g.a_k, 0, 0, 0, g.a_g)
    if k.a_read == SINGLE and k.size == 2 and g.a_m == 1 and _divides(2, g.outs, g.a_k, g.a_h, g.a_w, g.a_g):
        k.a_read = PAIRS


cdef void _set_weights(mx_nv_small* g, plan_t* k, const mx_conv_problem* p) noexcept nogil:
    """Backward weights likewise."""
    cdef int64_t run = 16 // k.size, image = p.y.len[3] * p.y.len[4]
    cdef bint rows_closest
    memset(g, 0, sizeof(g[0]))
    g.groups = <int> p.groups
    g.p, g.q, g.taps_h, g.taps_w = <int> p.y.len[3], <int> p.y.len[4], <int> p.w.len[3], <int> p.w.len[4]
    g.h, g.w = <int> p.x.len[3], <int> p.x.len[4]
    g.step_h, g.step_w, g.first_h, g.first_w, g.tap_h, g.tap_w = (
        <int> p.step[1], <int> p.step[2], -<int> p.pad[1], -<int> p.pad[2], <int> p.dilation[1], <int> p.dilation[2])
    g.x_n, g.x_c, g.x_h, g.x_w = (
        <int> stride_of(&p.x, 0), <int> stride_of(&p.x, 1), <int> stride_of(&p.x, 3), <int> stride_of(&p.x, 4))
    g.a_n, g.a_m, g.a_h, g.a_w = (
        <int> stride_of(&p.y, 0), <int> stride_of(&p.y, 1), <int> stride_of(&p.y, 3), <int> stride_of(&p.y, 4))
    g.out_n, g.out_c, g.out_h, g.out_w = (
        <int> stride_of(&p.w, 0), <int> stride_of(&p.w, 1), <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4))
    g.a_k = g.a_w
    g.channels, g.outs, g.block_h, g.block_w = <int> p.w.len[1], <int> (p.w.len[0] // p.groups), 1, 1
    if p.groups > 1:
        g.x_g, g.a_g = <int> (g.channels * p.x.stride[1]), <int> (g.outs * p.y.stride[1])
        g.out_g = <int> (g.outs * p.w.stride[0])
    g.m, g.n, g.k = g.outs, <int> (g.channels * g.taps_h * g.taps_w), <int> (p.y.len[0] * image)
    k.masked = k.m_contiguous = False
    k.inside = g.k % k.step_k == 0 and _inside(p)
    k.last = g.x_c == 1 and g.channels > 1
    k.a_read = k.b_read = SINGLE
    if (image % run == 0 and (g.a_w == 1 or g.q == 1) and (g.a_h == g.q or g.p == 1)
            and _divides(run, g.a_n, g.a_m, g.a_g, 0, 0)):
        k.a_read = RUNS
    elif k.size == 2 and g.a_m == 1 and _divides(2, g.outs, g.a_n, g.a_h, g.a_w, g.a_g):
        k.a_read = PAIRS
    if k.last:
        k.vector = ((g.out_c == 1) and (g.out_w == g.channels or g.taps_w == 1)
                    and (g.out_h == g.channels * g.taps_w or g.taps_h == 1))
    else:
        k.vector = ((g.out_w == 1 or g.taps_w == 1) and (g.out_h == g.taps_w or g.taps_h == 1)
                    and (g.out_c == g.taps_h * g.taps_w or g.channels == 1))
    k.vector = k.vector and _divides(4, g.n, g.out_n, g.out_g, 0, 0)
    rows_closest = (g.x_w == 1 or g.q == 1) and (g.x_h == g.q or g.p == 1)
    if (k.a_read == RUNS and is_pointwise(p, 1) and rows_closest and _divides(run, g.x_n, g.x_c, g.x_g, 0, 0)):
        k.b_read = RUNS
    elif k.size == 2 and k.last and _divides(2, g.channels, g.x_n, g.x_h, g.x_w, g.x_g):
        k.b_read = PAIRS
    _set_local(g, k)
    if k.b_chunk == 1:     # 4 bytes at once: slower than what it saves
        k.b_chunk = 0


cdef int64_t _registers(const plan_t* k, const tile_t* t) noexcept nogil:
    cdef int64_t registers = 34 + 4 * t.mb * t.nb + 2 * t.mb * (2 if k.masked else 1) + 2 * t.nb
    registers += (8 * t.mb + 4 * t.nb) * ((2 if k.size == 4 else 1) + k.prefetch)
    if k.size == 4:
        registers += 4 * t.nb
    return registers


cdef int64_t _local_bytes(const tile_t* t, int64_t table_entries, int64_t local_words) noexcept nogil:
    cdef int64_t wide = 8 * t.nb * t.warps_n, high = 16 * t.mb * t.warps_m
    return (table_entries * 12 + 4 * max(local_words, t.warps_k * max(high * (wide + 36), wide * (high + 36)))
            + 16 * (wide + high) + 16)


cdef void _settle_local(mx_nv_small* g, plan_t* k, const tile_t* t, bint weights) noexcept nogil:
    """What lies in local memory, of this tile's size."""
    cdef int64_t wide = 8 * t.nb * t.warps_n, high = 16 * t.mb * t.warps_m, taps = g.taps_h * g.taps_w, channels
    cdef int64_t pixels = min(g.split_length if weights else wide, g.k if weights else g.n), rows, images, words, number
    rows = min((pixels - 1) // g.q + 2, (g.k if weights else g.n) // g.q)
    if pixels == 1 or g.q % pixels == 0:
        rows = 1
    elif pixels % g.q == 0 and (wide % g.q == 0 or pixels == g.n or weights) and (not weights
                                                                                  or g.split_length % g.q == 0
                                                                                  or pixels == g.k):
        rows = pixels // g.q
    images = min((rows + g.p - 2) // g.p + 1, (g.k if weights else g.n) // (g.p * <int64_t> g.q))
    g.local_rows = <int> min((rows - 1) * g.step_h + g.tall + (images - 1) * max(0, g.tall - g.step_h),
                             (g.k if weights else g.n) // (g.p * <int64_t> g.q) * g.image_rows)
    g.local_c = g.local_rows * g.local_h if not k.last else 1
    number = wide if weights else g.split_length
    channels = 1 if k.last else min(g.channels, (number - 1) // taps + 2 if number % taps != 0 else number // taps)
    words = (channels * g.local_rows * <int64_t> g.local_h * k.size + 15) // 16 * 4
    g.local_a = <int> words
    if k.a_read == IN_LOCAL:
        g.piece, g.local_a_k, number = 0, g.a_k, channels * g.a_k
        if g.a_m > g.a_k:
            g.piece, number = -1, high * g.a_m
        elif g.m_tiles > 1 and not k.masked:
            g.piece = <int> (high * g.a_m)
            g.local_a_k = g.piece + 4
            number = channels * g.local_a_k
        words += number + 4
    k.local_words = up(words, 2048)


cdef int64_t _entries(const plan_t* k, int64_t each) noexcept nogil:
    """Entries of the table: a power of two times the least, or the most."""
    cdef int64_t entries = each // (16 // k.size if k.b_read == RUNS else 1), table_entries = MIN_ENTRIES
    while table_entries < entries and table_entries < MAX_ENTRIES:
        table_entries *= 2
    return min(table_entries, MAX_ENTRIES)


cdef bint _tile_fits(const plan_t* k, const tile_t* t) noexcept nogil:
    cdef int64_t warps = t.warps_m * t.warps_n * t.warps_k
    if warps < 4 or warps > 16 or (k.b_read == PAIRS and t.nb % 2 != 0):
        return False
    return _registers(k, t) <= min(250, REGISTERS // (32 * warps))


cdef double _bytes(const mx_nv_small* g, const plan_t* k, int64_t high, int64_t wide, bint weights) noexcept nogil:
    """Bytes of both operands that a work-group reads, each once."""
    cdef int64_t taps = g.taps_h * g.taps_w, each = min(g.split_length, g.k), image = g.p * <int64_t> g.q
    cdef double a = <double> min(high, g.m) * each, channels, rows, columns = g.w
    if weights:
        channels = g.channels if k.last else min(<double> g.channels, (wide - 1.0) / taps + 1)
        rows = (min(<double> g.h, max(1.0, <double> each / g.q) * g.step_h + g.taps_h - 1) if each < image
                else <double> each / image * g.h)
        return (a + channels * rows * columns) * k.size
    if k.masked:
        a = min(a, <double> g.outs * g.filter_h * g.filter_w * each / taps)
    channels = g.channels if k.last else min(<double> g.channels, <double> each / taps + 1)
    if k.b_read == IN_LOCAL:
        rows = g.local_rows
    else:
        rows = ceil_div(wide, g.q) * g.step_h + (g.taps_h - 1) * g.tap_h + 1 - g.step_h
        if wide < g.q:
            columns = min(columns, (wide - 1.0) * g.step_w + (g.taps_w - 1) * g.tap_w + 1)
    return (a + channels * rows * columns) * k.size


cdef bint _settle(mx_nv_small* g, plan_t* k, const tile_t* t, int64_t splits, bint near, bint weights) noexcept nogil:
    """Take a tile and a number of splits, and guess the clocks; False where local memory does not hold them.

    A step of a warp takes its instructions' issue slots and its products' time on the tensor cores, or waits for
    memory; and all that is read comes through the second-level cache.
    """
    cdef int64_t wide = 8 * t.nb * t.warps_n, high = 16 * t.mb * t.warps_m, warps = t.warps_m * t.warps_n * t.warps_k
    cdef int64_t resident, rounds, tiles
    cdef int64_t steps = ceil_div(g.k, k.step_k), each
    cdef double slots, products, step, a, b, turns, cost, wait, issue, l2
    k.tile, k.workspace = t[0], 0
    each = ceil_div(steps, splits)
    g.split_length = <int> (each * k.step_k)
    k.splits = ceil_div(steps, each)
    g.m_tiles, g.n_tiles = <int> ceil_div(g.m, high), <int> ceil_div(g.n, wide)
    g.splits = <int> k.splits
    k.work_groups = g.m_tiles * <int64_t> g.n_tiles * g.groups * k.splits
    k.table_entries, k.local_words = _entries(k, g.split_length), 0
    if near:
        k.b_read = IN_LOCAL
        if k.a_read == SINGLE and k.a_chunk > 0 and (
                g.a_m >= g.a_k or g.m_tiles == 1 or (g.a_k | (high * g.a_m)) % k.a_chunk == 0):
            k.a_read = IN_LOCAL
        _settle_local(g, k, t, weights)
    if _local_bytes(t, k.table_entries, k.local_words) > k.local_mem:
        return False
    resident = max(1, min(min(REGISTERS // (32 * warps * max(32, _registers(k, t))), 2048 // (32 * warps)),
                          k.local_mem // _local_bytes(t, k.table_entries, k.local_words)))
    rounds = ceil_div(k.work_groups, k.units)
    resident = min(resident, rounds)
    rounds = ceil_div(rounds, resident)
    turns = ceil_div(each, t.warps_k)
    if k.splits > 1:
        tiles = k.work_groups // k.splits
        k.workspace = ceil_div(tiles, 2) * 16 + k.work_groups * high * wide * 4
    if k.size == 4:  # within 6 % in the mean of 105 tiles of 15 problems on an H200
        a = 2 * t.mb * (3.0 if k.a_read == RUNS else (8.0 if k.a_read == IN_LOCAL else 16.0) * (1 + 0.5 * k.masked))
        b = t.nb * ((7.0 - 4 * k.inside) if k.b_read == RUNS else 10.0 if k.b_read == IN_LOCAL else 20.0)
        slots = 1.1 * (20 + a + b + 32 * t.mb + 16 * t.nb + 10 * t.mb * t.nb)
        products = 6 * 7.1 * t.mb * t.nb
        issue = resident * warps / 4.0 * (slots + products)
        wait = (230 if k.a_read == IN_LOCAL and near else 310 + 70.0 / k.prefetch) + slots + products
        l2 = resident * _bytes(g, k, high, wide, weights) / 41
        step = turns * sqrt(issue * issue + wait * wait)
        if not near:
            cost = sqrt(step * step + l2 * l2)
        else:  # what is copied comes first
            a = resident * (k.local_words * 4.0 if k.a_read != IN_LOCAL else 41 * l2) / 41
            a = min(a, l2)
            cost = a + sqrt(step * step + (l2 - a) * (l2 - a))
        cost = rounds * (2060 + cost + resident * high * wide * (4 * t.warps_k + 125) / 470.0)
        if resident > 2 and weights:  # some begin and store while others compute
            cost *= 0.9
        if k.splits > 1:
            cost += 2500 + 250 * k.splits + k.splits * high * wide * 4 / 14.0
    else:
        a = 2 * t.mb * (2 if k.a_read == RUNS else 14 if k.a_read == PAIRS else 28 + 8 * k.masked)
        b = t.nb * (5 if k.b_read == RUNS else 18 if k.b_read == PAIRS else 44)
        slots = 12 + a + b + 2 * t.mb * t.nb
        products = 2 * 5.8 * t.mb * t.nb
        step = max(600.0, resident * warps / 4.0 * max(slots, products))
        cost = rounds * (turns * step + 1500
                         + resident * (high * wide * (2 * t.warps_k + 40) + k.table_entries * 20) / 128.0)
        # The counted clocks were too few over 47 problems, by how the operands are read.
        if k.a_read == SINGLE or k.b_read == SINGLE:
            cost *= 2.45
        else:
            cost *= 2.15 if k.a_read == RUNS else 3.0 if k.b_read == RUNS else 4.0
        if k.splits > 1:
            cost += 6000 + 100 * k.splits + k.splits * high * wide * 4 / 14.0
    k.cost = cost + LAUNCH
    return True


cdef plan_t _plan(Device dev, const mx_conv_problem* p, mx_nv_small* g) noexcept:
    """The tile, the block of pixels and the splits that should take least time; a negative cost where none fits."""
    cdef plan_t k, best
    cdef mx_nv_small trial
    cdef tile_t t
    cdef int64_t block_h, block_w, least_h = 1, least_w = 1, splits, outs, tiles
    cdef bint weights = p.direction == MX_BACKWARD_WEIGHTS, fits, long_sums = False
    cdef int i, j, warps, o, full, near, ahead, a_read, b_read
    memset(&k, 0, sizeof(k))
    memset(&best, 0, sizeof(best))
    best.cost = -1
    k.prefetch = 1
    k.size = 4 if p.w.type == MX_FLOAT else 2
    k.step_k = 64 // k.size
    k.units, k.local_mem = max(1, dev.compute_units), HOPPER_MEM if has_wgmma(dev) else LOCAL_MEM
    outs = p.w.len[1] if p.direction == MX_BACKWARD_DATA else p.w.len[0] // p.groups
    if p.direction == MX_BACKWARD_DATA:
        least_h, least_w = p.step[1], p.step[2]
    for o in range(7):     # 1 x 1, 1 x 2, 2 x 2 and so on times the stride
        block_h, block_w = least_h << (o // 2), least_w << ceil_div(o, 2)
        if o > 0 and (weights or outs * block_h * block_w > ROWS or block_h > 8 * least_h):
            break
        if o > 0 and ((block_h > 1 and p.dilation[1] > 1) or (block_w > 1 and p.dilation[2] > 1)):
            break
        if weights:
            _set_weights(&trial, &k, p)
        else:
            _set_axes(&trial, &k, p, block_h, block_w)
        a_read, b_read = k.a_read, k.b_read
        if trial.taps_h > TAPS_LIMIT or trial.taps_w > TAPS_LIMIT:
            break
        for i in range(7):
            for j in range(3):
                for warps in range(60):
                    t = tile_t(1 << j, i + 1, 1 << (warps // 20), 1 << (warps // 5 % 4), 1 << (warps % 5))
                    if j + warps // 20 > 0 and trial.m <= 8 << (j + warps // 20):
                        continue
                    # Many groups hide each other's waiting, and need registers.
                    tiles = ((trial.m + 16 * t.mb * t.warps_m - 1) // (16 * t.mb * t.warps_m)
                             * ((trial.n + 8 * t.nb * t.warps_n - 1) // (8 * t.nb * t.warps_n)) * trial.groups)
                    ahead = 3 if k.size == 4 and tiles <= 2 * k.units else 1
                    k.prefetch = ahead
                    while ahead > 0 and not _tile_fits(&k, &t):
                        ahead -= 1
                        k.prefetch = ahead
                    if ahead == 0:
                        continue
                    tiles = 0
                    for full in range(4):  # one part, or groups for all compute units once, twice ...
                        splits = max(1, full * k.units // tiles) if full > 0 else 1
                        if full > 0 and splits == 1:
                            continue
                        for near in range(2 if k.b_chunk > 0 else 1):
                            k.a_read, k.b_read, k.prefetch = a_read, b_read, 1 if near else ahead
                            fits = _settle(&trial, &k, &t, splits, near, weights)
                            if full == 0:
                                tiles = k.work_groups
                            if fits and k.splits * <double> LONGEST * t.warps_k < trial.k:
                                long_sums, fits = True, False
                            if fits and (best.cost < 0 or k.cost < best.cost):
                                best, g[0] = k, trial
    if best.cost < 0:
        best.long_sums = long_sums
        return best
    g.by_m_tiles, g.by_n_tiles, g.by_groups = divisor(g.m_tiles), divisor(g.n_tiles), divisor(g.groups)
    g.by_image, g.by_row = divisor(g.p * <int64_t> g.q), divisor(g.q)
    g.by_inner = divisor(max(1, g.channels if best.last else g.taps_h * g.taps_w))
    if best.b_read == IN_LOCAL:
        warps = best.tile.warps_m * best.tile.warps_n * best.tile.warps_k
        tiles = g.local_rows * g.chunks
        g.b_copied, g.by_places, g.by_chunks = <int> max(1, 32 * warps // tiles), divisor(tiles), divisor(g.chunks)
        g.by_image_rows = divisor(g.image_rows)
        tiles = max(1, g.piece // max(1, best.a_chunk))
        g.a_copied, g.by_piece = <int> (max(1, 32 * warps // tiles) if g.piece > 0 else 1), divisor(tiles)
    g.by_taps_w, g.by_outs, g.by_block_w = divisor(max(1, g.taps_w)), divisor(g.outs), divisor(g.block_w)
    return best


# What takes time, as TERMS names it: a launch; the guess, by how operands are read; and what the guess is made of.
cdef struct terms_t:
    double launch, single, rows, near, runs, pairs, rounds, steps, blocks, round_bytes, read, parts, splits, outputs

cdef tuple TERMS = ("launch", "single", "rows", "near", "runs", "pairs", "rounds", "steps", "blocks", "round_bytes",
                    "read", "parts", "splits", "outputs")


cdef str _refusal(Device dev, const mx_conv_problem* p):
    """Why no plan is worth making, or None."""
    cdef int i
    if not tensor_cores(dev):
        return "needs NVIDIA's tensor cores"
    if p.w.type != MX_HALF and p.w.type != MX_BFLOAT16 and p.w.type != MX_FLOAT:
        return "data type"
    why = refuse_sizes(p, 0)
    if why is not None:
        return why
    for i in range(1, 3):
        if p.direction == MX_BACKWARD_DATA and p.step[i] > 1 and p.dilation[i] > 1:
            return "stride and dilation"
    return None


cdef class _SmallOffer(ConvOffer):
    """The plan of a problem and the struct that the kernel takes."""

    cdef mx_nv_small g
    cdef plan_t k

    cdef str judge(self):
        """Return why the plan cannot be run, or should not, or None."""
        cdef const mx_conv_problem* p = self.p
        cdef const plan_t* k = &self.k
        if k.cost < 0:
            return "a long sum" if k.long_sums else "a large filter or stride"
        if p.w.type == MX_FLOAT and (self.g.k if p.direction == MX_BACKWARD_WEIGHTS else
                                     self.g.channels * self.g.filter_h * self.g.filter_w) < 4:
            return "few products in a sum"  # each may be off by more than a float's rounding
        if k.cost > LARGEST * CLOCKS:
            return LARGE
        return NO_ROOM if k.workspace > self.device.max_alloc else None

    cdef void cost_terms(self, double* terms) noexcept:
        cdef terms_t* t = <terms_t*> terms
        cdef const plan_t* k = &self.k
        cdef double own = (k.cost - LAUNCH) / CLOCKS
        cdef int64_t high = 16 * k.tile.mb * k.tile.warps_m, wide = 8 * k.tile.nb * k.tile.warps_n
        cdef int64_t threads = 32 * k.tile.warps_m * k.tile.warps_n * k.tile.warps_k
        cdef int64_t steps = (self.g.split_length + k.step_k * k.tile.warps_k - 1) // (k.step_k * k.tile.warps_k)
        cdef double rounds = ceil_div(k.work_groups, k.units)
        cdef double read = _bytes(&self.g, k, high, wide, self.p.direction == MX_BACKWARD_WEIGHTS)
        t.launch = 1
        t.single = own if k.a_read == SINGLE and k.b_read == SINGLE else 0
        t.rows = own if k.a_read == RUNS and k.b_read == SINGLE else 0
        t.near = own if k.b_read == IN_LOCAL else 0
        t.runs = own if k.b_read == RUNS else 0
        t.pairs = own if k.b_read != IN_LOCAL and k.b_read != RUNS and (k.a_read == PAIRS or k.b_read == PAIRS) else 0
        t.rounds = rounds
        t.steps = rounds * steps * (threads // 32)
        t.blocks = rounds * steps * k.tile.mb * k.tile.nb * (threads // 32)
        t.round_bytes = rounds * read * 1e-6
        t.read = k.work_groups * read * 1e-6
        t.parts = k.workspace * 1e-6
        t.splits = k.splits - 1
        t.outputs = k.work_groups * <double> high * wide * 1e-6

    cdef Solution steps(self, tuple config):
        cdef const mx_conv_problem* p = self.p
        cdef const plan_t* k = &self.k
        cdef bint weights = p.direction == MX_BACKWARD_WEIGHTS
        cdef bint parts = k.splits > 1
        cdef int64_t threads = 32 * k.tile.warps_m * k.tile.warps_n * k.tile.warps_k
        cdef int size = <int> k.size
        near = {}
        if k.b_read == IN_LOCAL:
            near = dict(A_CHUNK=max(k.a_chunk, 1), B_CHUNK=k.b_chunk, LOCAL_WORDS=k.local_words)
        spec = KernelSpec("conv/nvidia/small.cl", "conv_nvidia_small", X_TYPE=type_token(p.w.type),
                          WEIGHTS=int(weights), SPLIT_K=int(parts), CHANNELS_LAST=int(k.last),
                          A_READ=k.a_read, B_READ=k.b_read,
                          INSIDE=int(k.inside if k.b_read != IN_LOCAL else self.g.k % k.step_k == 0),
                          MASKED=int(k.masked),
                          M_CONTIGUOUS=int(k.m_contiguous), VEC=4 if k.vector else 1, MB=k.tile.mb, NB=k.tile.nb,
                          WARPS_M=k.tile.warps_m, WARPS_N=k.tile.warps_n, WARPS_K=k.tile.warps_k,
                          TABLE_ENTRIES=k.table_entries,
                          PREFETCH=k.prefetch, **near)
        if weights:
            slots = SLOT_Y, SLOT_X, SLOT_W
        elif p.direction == MX_FORWARD:
            slots = SLOT_W, SLOT_X, SLOT_Y
        else:
            slots = SLOT_W, SLOT_Y, SLOT_X
        args = (Arg.slot_of(slots[0], size), Arg.slot_of(slots[1], size),
                Arg.slot_of(slots[2], size),
                struct_arg(&self.g, sizeof(self.g)), Arg.alpha(False), Arg.beta(False))
        if parts:
            args += Arg.slot_of(SLOT_WORKSPACE, 4), Arg.ticket()
        return Solution([Step(spec, args, (k.work_groups * threads,), (threads,))], k.workspace)


cdef class _NvSmall(_NvSolver):
    def __cinit__(self):
        self.cost_names = TERMS

    cdef _SmallOffer planned(self, Device dev, const mx_conv_problem* p):
        """Return the offer of a problem, or of a run of its images, that is not judged yet."""
        cdef _SmallOffer offer = _SmallOffer.__new__(_SmallOffer)
        offer.solver, offer.device, offer.p = self, dev, p
        offer.k = _plan(dev, p, &offer.g)
        offer.index, offer.workspace = INDEX, offer.k.workspace
        return offer

    cdef object consider(self, Device dev, ConvProblem problem):
        cdef _SmallOffer offer
        cdef str why = _refusal(dev, &problem.c)
        if why is TOO_LARGE:
            return self.in_runs(dev, problem)
        if why is not None:
            return why
        offer = self.planned(dev, &problem.c)
        offer.problem = problem
        why = offer.judge()
        return offer if why is None else why

    cdef object in_runs(self, Device dev, ConvProblem problem):
        """Return the offer to take a problem in runs of images, or why none is made."""
        cdef mx_conv_problem run
        answer = _NvSolver.consider(self, dev, problem)
        if not isinstance(answer, RunsOffer):
            return answer
        run = images_of(&problem.c, (<RunsOffer> answer).images)
        if self.planned(dev, &run).k.cost * (problem.c.x.len[0] / <double> run.x.len[0]) > LARGEST * <double> CLOCKS:
            return LARGE
        return answer

    # Of a run of images, and of what is refused: a problem that is taken at once plans once, in its offer.

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef str why = _refusal(dev, p)
        return self.planned(dev, p).judge() if why is None else why

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        return self.planned(dev, p).workspace if _refusal(dev, p) is None else 0

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return INDEX

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        self.planned(dev, p).cost_terms(terms)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        return self.planned(dev, p).steps(config)

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef mx_nv_small g
        cdef plan_t k
        cdef mx_conv_problem run = p[0]
        cdef int64_t runs = 0
        if _refusal(dev, p) is TOO_LARGE:
            run = images_of(p, max(1, self.run_of_images(dev, p)))
            if self.direction == MX_BACKWARD_WEIGHTS:
                runs = ceil_div(p.x.len[0], run.x.len[0])
        k = _plan(dev, &run, &g)
        # A warp's steps as the others', then the warps' sums, then the groups', and of weights the runs'.
        return _NvSolver.roundings(self, dev, p) + k.tile.warps_k + k.splits + runs


cdef class NvSmallFwd(_NvSmall):
    """Forward in one launch."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1181, "NvSmallFwd", MX_FORWARD


cdef class NvSmallBwd(_NvSmall):
    """Backward data in one launch, whatever the stride."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1182, "NvSmallBwd", MX_BACKWARD_DATA


cdef class NvSmallWrw(_NvSmall):
    """Backward weights in one launch."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1183, "NvSmallWrw", MX_BACKWARD_WEIGHTS
