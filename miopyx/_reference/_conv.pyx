# cython: cdivision=True
"""Convolutions on the host: geometry and the split into tasks.  The inner loops are in gemm_f64.c.

Each direction is a matrix product (gemm_f64.h) whose operands are packed on the fly from the tensors as they lie in
memory, whatever their types and strides:

    forward           out = y   rows k        columns (n, do, ho, wo)   sum over (c/g, z, r, s)
    backward data     out = x   rows c/g      columns positions         sum over (k/g, taps)       once for each phase
    backward weights  out = w   rows k/g      columns (c/g, z, r, s)    sum over (n, do, ho, wo)

Positions of x that have the same (position + pad) mod stride see the same filter taps.  Such a phase of backward data
is a dense product of its own, without products by zero.

The split into tasks, and with it the order of every sum, depends on the problem alone: results have the same bits for
any number of threads.  Sums are in float64; alpha, beta and the conversion to the output's type come once, at the end.
"""

import os

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from miopyx._reference._kernels cimport (
    MX_DENSE, MX_LANES_FILTER, MX_LANES_POSITIONS, MX_MAX_WIDTH, MX_ROW_PADDING, mx_choose_kernels,
    mx_default_arithmetic, mx_divide, mx_kernels, mx_operand, mx_pool_acquire, mx_pool_release, mx_pool_run,
    mx_restore_arithmetic, mx_run, mx_tap, mx_usable_cores,
)
from miopyx._types cimport (
    MX_AXES, MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_FORWARD, MX_HALF, MX_INT8,
    MX_INT32, MX_SPATIAL, mx_bias_problem, mx_conv_problem, mx_tensor,
)

from miopyx.errors import AllocFailedError, BadParmError, InvalidValueError

cdef enum:
    ALLOC_FAILED = 4
    SPECIAL = 1            # an operand that meets padding holds NaN or infinity
    TASKS = 32             # aim for so many tasks where the problem has too few blocks
    BLOCK = 96             # lanes of the larger operand in a task
    SMALL_BLOCK = 512      # lanes of the smaller operand in a pass
    PACKED_BYTES = 1 << 25  # packed values that are kept for all tasks of a pass

cdef double TASK_FLOPS = 2e6   # a sum is not split finer
cdef double POOL_FLOPS = 4e5   # below, waking threads costs more than they save

cdef const mx_kernels* kernels


cdef inline int64_t ceil_div(int64_t a, int64_t b) noexcept nogil:
    return (a + b - 1) // b


cdef inline int64_t at_most(int64_t a, int64_t b) noexcept nogil:
    return a if a < b else b


cdef int64_t greatest_divisor(int64_t a, int64_t b) noexcept nogil:
    while b != 0:
        a, b = b, a % b
    return a


cdef inline int64_t at_least(int64_t a, int64_t b) noexcept nogil:
    return a if a > b else b


# ---- The matrix product ----

cdef struct gemm_t:
    mx_operand a, b            # rows and columns of the output
    char* out
    int64_t out_type, row_stride
    # Columns: a grid as in mx_operand, or a table of offsets.
    int64_t count[4]
    int64_t jump[4]
    int64_t column_base
    const int64_t* column_offset
    int64_t groups, a_group, b_group, out_group   # elements from one group to the next
    double alpha, beta
    int width
    # The plan.  "Small" is the operand with fewer lanes: it is packed once for all tasks, each of which packs its own
    # block of the other one.
    bint small_is_a
    bint shared                # there are several blocks, so packing the small operand once pays
    bint partial               # tasks leave sums that a last pass adds up
    int64_t piece, pieces      # steps packed at a time, and how often
    int64_t block, blocks      # panels of the large operand in a task, and how many such blocks
    int64_t chunks             # parts that the sum is cut into
    # The pass that is running.
    int64_t group, group_count
    int64_t small, small_count
    int64_t first_piece, piece_count
    double* packed
    double* partials
    double* scratch
    int64_t scratch_size, local_size, rows_size, sums_size
    char* special              # one flag a worker


cdef inline int64_t piece_steps(const gemm_t* g, int64_t piece) noexcept nogil:
    return at_most(g.piece, g.a.steps - piece * g.piece)


cdef inline double* packed_piece(const gemm_t* g, int64_t group, int64_t piece, int width) noexcept nogil:
    """The small operand's panels of one piece; `group` and `piece` count from those of the pass."""
    cdef int64_t lanes = g.small_count * width
    cdef int64_t steps = at_most(g.piece_count * g.piece, g.a.steps - g.first_piece * g.piece)
    return g.packed + group * lanes * steps + piece * g.piece * lanes


cdef void pack_task(void* context, int64_t index, int worker) noexcept nogil:
    """Pack one panel of the small operand, all pieces of the pass."""
    cdef gemm_t* g = <gemm_t*> context
    cdef const mx_operand* small = &g.a if g.small_is_a else &g.b
    cdef int width = kernels.mr if g.small_is_a else kernels.nr
    cdef int64_t group = index // g.small_count, panel = index % g.small_count, piece, steps
    cdef int64_t offset = (g.group + group) * (g.a_group if g.small_is_a else g.b_group)
    cdef double* rows = g.scratch + worker * g.scratch_size
    for piece in range(g.piece_count):
        steps = piece_steps(g, g.first_piece + piece)
        g.special[worker] |= kernels.pack(
            small, offset, (g.small + panel) * width, (g.first_piece + piece) * g.piece, steps, width,
            packed_piece(g, group, piece, width) + panel * steps * width, rows)


cdef int64_t find_columns(const gemm_t* g, int64_t column, int64_t n, mx_run* runs) noexcept nogil:
    """Cut columns column ... column + n - 1 of the output into evenly spaced runs; returns how many."""
    cdef int64_t found = 0, done = 0, length, w = 0, h = 0, d = 0, image
    if g.column_offset != NULL:
        while done < n:
            runs[found].lane, runs[found].offset = done, g.column_offset[column + done]
            runs[found].stride = g.column_offset[column + done + 1] - runs[found].offset if done + 1 < n else 1
            length = 1
            while (done + length < n
                   and g.column_offset[column + done + length] == runs[found].offset + length * runs[found].stride):
                length += 1
            runs[found].len = length
            done += length
            found += 1
        return found
    image = mx_divide(mx_divide(mx_divide(column, g.count[3], &w), g.count[2], &h), g.count[1], &d)
    while done < n:
        length = at_most(g.count[3] - w, n - done)
        runs[found].lane, runs[found].len, runs[found].stride = done, length, g.jump[3]
        runs[found].offset = g.column_base + image * g.jump[0] + d * g.jump[1] + h * g.jump[2] + w * g.jump[3]
        found += 1
        done += length
        w = 0
        h += 1
        if h == g.count[2]:
            h = 0
            d += 1
            if d == g.count[1]:
                d = 0
                image += 1
    return found


cdef void multiply_task(void* context, int64_t index, int worker) noexcept nogil:
    """One block of the large operand times the small one of the pass, over one chunk of the sum."""
    cdef gemm_t* g = <gemm_t*> context
    cdef int mr = kernels.mr, nr = kernels.nr, rows, columns, large_width = nr if g.small_is_a else mr
    cdef int64_t block = index % g.blocks, chunk = index // g.blocks % g.chunks, group = index // g.blocks // g.chunks
    cdef int64_t large_lanes = g.b.lanes if g.small_is_a else g.a.lanes
    cdef int64_t first = block * g.block, count = at_most(g.block, ceil_div(large_lanes, large_width) - first)
    cdef int64_t row_panel = g.small if g.small_is_a else first, row_panels = g.small_count if g.small_is_a else count
    cdef int64_t column_panel = first if g.small_is_a else g.small
    cdef int64_t column_panels = count if g.small_is_a else g.small_count
    cdef int64_t a_offset = (g.group + group) * g.a_group, b_offset = (g.group + group) * g.b_group
    cdef int64_t out_offset = (g.group + group) * g.out_group
    cdef int64_t from_piece = chunk * g.piece_count // g.chunks, to_piece = (chunk + 1) * g.piece_count // g.chunks
    cdef int64_t piece = from_piece, start, steps, i, j, run_count = 0
    cdef double* transposed = g.scratch + worker * g.scratch_size
    cdef double* tile = transposed + g.rows_size
    cdef double* local_a = tile + mr * nr
    cdef double* local_b = local_a if g.small_is_a and g.shared else local_a + g.local_size
    cdef double* sums = transposed + g.scratch_size - g.sums_size
    cdef double* a
    cdef double* b
    cdef double* t
    cdef mx_run runs[MX_MAX_WIDTH]
    cdef bint last, add, single = not g.partial and g.pieces <= 1
    if from_piece == to_piece and g.pieces > 0:
        return
    if g.partial:
        sums = g.partials + ((group * g.blocks + block) * g.chunks + chunk) * g.block * g.small_count * mr * nr
    while True:  # once, too, where there is nothing to sum
        start = (g.first_piece + piece) * g.piece
        steps = at_most(g.piece, g.a.steps - start)
        last = not g.partial and piece + 1 >= to_piece
        add = piece > from_piece or g.first_piece > 0
        a, b = local_a, local_b
        if g.shared and g.small_is_a:
            a = packed_piece(g, group, piece, mr)
        else:
            for i in range(row_panels):
                g.special[worker] |= kernels.pack(&g.a, a_offset, (row_panel + i) * mr, start, steps, mr,
                                                  a + i * steps * mr, transposed)
        if g.shared and not g.small_is_a:
            b = packed_piece(g, group, piece, nr)
        for j in range(column_panels):
            t = b + j * steps * nr
            if not g.shared or g.small_is_a:
                t = b
                g.special[worker] |= kernels.pack(&g.b, b_offset, (column_panel + j) * nr, start, steps, nr, b,
                                                  transposed)
            columns = <int> at_most(nr, g.b.lanes - (column_panel + j) * nr)
            if last:
                run_count = find_columns(g, (column_panel + j) * nr, columns, runs)
            for i in range(row_panels):
                rows = <int> at_most(mr, g.a.lanes - (row_panel + i) * mr)
                if not single:
                    tile = sums + (j * row_panels + i) * mr * nr
                kernels.multiply(rows, columns, steps, a + i * steps * mr, t, tile, add)
                if last:
                    kernels.store(g.out, g.out_type, out_offset + (row_panel + i) * mr * g.row_stride, g.row_stride,
                                  rows, runs, run_count, tile, g.alpha, g.beta)
        piece += 1
        if piece >= to_piece:
            break


cdef void sum_task(void* context, int64_t index, int worker) noexcept nogil:
    """Add up the chunks of one column panel of a block, in order, and store it."""
    cdef gemm_t* g = <gemm_t*> context
    cdef int mr = kernels.mr, nr = kernels.nr, rows, columns, large_width = nr if g.small_is_a else mr
    cdef int64_t panels = g.block if g.small_is_a else g.small_count
    cdef int64_t j = index % panels, block = index // panels % g.blocks, group = index // panels // g.blocks
    cdef int64_t large_lanes = g.b.lanes if g.small_is_a else g.a.lanes
    cdef int64_t first = block * g.block, count = at_most(g.block, ceil_div(large_lanes, large_width) - first)
    cdef int64_t row_panel = g.small if g.small_is_a else first, row_panels = g.small_count if g.small_is_a else count
    cdef int64_t column_panel = (first if g.small_is_a else g.small) + j, i, chunk, row, e, run_count
    cdef int64_t chunk_size = g.block * g.small_count * mr * nr
    cdef double* sums = g.partials + (group * g.blocks + block) * g.chunks * chunk_size + j * row_panels * mr * nr
    cdef double* part
    cdef mx_run runs[MX_MAX_WIDTH]
    if g.small_is_a and j >= count:
        return
    columns = <int> at_most(nr, g.b.lanes - column_panel * nr)
    run_count = find_columns(g, column_panel * nr, columns, runs)
    for i in range(row_panels):
        rows = <int> at_most(mr, g.a.lanes - (row_panel + i) * mr)
        for chunk in range(1, g.chunks):
            part = sums + chunk * chunk_size
            for row in range(rows):
                for e in range(row * nr, row * nr + columns):
                    sums[e] += part[e]
        kernels.store(g.out, g.out_type, (g.group + group) * g.out_group + (row_panel + i) * mr * g.row_stride,
                      g.row_stride, rows, runs, run_count, sums, g.alpha, g.beta)
        sums += mr * nr


cdef int run_gemm(gemm_t* g) noexcept nogil:
    """Plan and run a product.  Returns 0, ALLOC_FAILED or, where a watched operand is not finite, SPECIAL."""
    cdef int64_t steps = g.a.steps, m = g.a.lanes, n = g.b.lanes, small, large, lanes, limit
    cdef int64_t small_panels, large_panels, partial_size = 0, packed_size = 0, groups_at_once
    cdef int small_width, large_width, status = 0, worker
    cdef double flops = 2.0 * m * n * steps
    cdef char* memory
    cdef double* base
    g.small_is_a = m <= n
    small, large = at_most(m, n), at_least(m, n)
    small_width = kernels.mr if g.small_is_a else kernels.nr
    large_width = kernels.nr if g.small_is_a else kernels.mr
    small_panels, large_panels = ceil_div(small, small_width), ceil_div(large, large_width)

    g.pieces = ceil_div(steps, kernels.kc)
    g.piece = ceil_div(ceil_div(steps, g.pieces), 8) * 8 if g.pieces > 0 else 0
    g.pieces = ceil_div(steps, g.piece) if g.pieces > 0 else 0

    # Tasks of products with few rows and a short sum (depthwise) get more columns, so that they are worth handing out.
    lanes = at_least(BLOCK, at_most(1024, <int64_t> (5e5 / (small * steps + 1))))
    g.block = lanes // large_width
    if g.groups * ceil_div(large_panels, g.block) < TASKS // 2:
        g.block = at_least(ceil_div(BLOCK // 2, large_width), ceil_div(g.block, 2))
    g.blocks = ceil_div(large_panels, g.block)
    g.block = ceil_div(large_panels, g.blocks)
    g.blocks = ceil_div(large_panels, g.block)
    g.shared = g.blocks > 1

    g.small_count, g.piece_count, g.chunks = small_panels, g.pieces, 1
    limit = PACKED_BYTES // (8 * small_width * at_least(steps, 1))  # panels
    g.partial = g.pieces > 1 and (g.groups * g.blocks < TASKS // 2
                                  or (g.shared and limit * small_width < at_most(small, 128)))
    if g.partial:
        groups_at_once = at_most(g.groups, ceil_div(TASKS, g.blocks))
        g.chunks = at_most(ceil_div(TASKS, groups_at_once * g.blocks), g.pieces)
        g.chunks = at_least(1, at_most(g.chunks, <int64_t> (flops * groups_at_once / TASK_FLOPS)))
        if g.shared:
            g.piece_count = at_most(g.pieces, at_least(
                1, PACKED_BYTES // (8 * small_width * small_panels * g.piece * groups_at_once)))
            g.chunks = at_most(g.chunks, g.piece_count)
        g.partial = g.chunks > 1 or g.piece_count < g.pieces
        partial_size = groups_at_once * g.blocks * g.chunks * g.block * small_panels * kernels.mr * kernels.nr
    if not g.partial:
        groups_at_once, partial_size = g.groups, 0
        if g.shared:
            g.small_count = at_least(1, at_most(at_most(small_panels, limit), SMALL_BLOCK // small_width))
            groups_at_once = 1
            if g.small_count == small_panels:
                groups_at_once = at_least(1, at_most(g.groups, limit // small_panels))
    if g.shared:
        packed_size = groups_at_once * g.small_count * small_width * at_most(steps, g.piece_count * g.piece)

    # Scratch of a worker: rows to transpose, a tile, its own packed panels, sums.
    g.rows_size = (g.piece + MX_ROW_PADDING) * at_least(kernels.mr, kernels.nr)
    g.local_size = g.piece * kernels.mr * (g.small_count if g.small_is_a and not g.shared else g.block)
    if g.small_is_a and g.shared:
        g.local_size = 0
    g.sums_size = 0
    if not g.partial and g.pieces > 1:
        g.sums_size = g.block * g.small_count * kernels.mr * kernels.nr
    g.scratch_size = g.rows_size + kernels.mr * kernels.nr + g.local_size + g.piece * kernels.nr + g.sums_size
    g.scratch_size = ceil_div(g.scratch_size, 8) * 8
    memory = <char*> malloc(
        64 + g.width + 8 * (packed_size + partial_size + g.width * g.scratch_size + 16))
    if memory == NULL:
        return ALLOC_FAILED
    base = <double*> (memory + (64 - <uintptr_t> memory % 64))
    g.scratch = base
    g.packed = base + g.width * g.scratch_size
    g.partials = g.packed + ceil_div(packed_size, 8) * 8
    g.special = <char*> (g.partials + partial_size)
    memset(g.special, 0, g.width)

    g.group = 0
    while g.group < g.groups:
        g.group_count = at_most(groups_at_once, g.groups - g.group)
        limit = g.small_count
        g.small = 0
        while g.small < small_panels:
            g.small_count = at_most(limit, small_panels - g.small)
            g.first_piece = 0
            lanes = g.piece_count
            while True:  # once, too, where there is nothing to sum
                g.piece_count = at_most(lanes, g.pieces - g.first_piece)
                if g.shared:
                    mx_pool_run(pack_task, g, g.group_count * g.small_count, g.width)
                mx_pool_run(multiply_task, g, g.group_count * g.blocks * g.chunks, g.width)
                g.first_piece += lanes
                if g.first_piece >= g.pieces:
                    break
            g.piece_count = lanes
            if g.partial:
                mx_pool_run(sum_task, g, g.group_count * g.blocks * (g.block if g.small_is_a else g.small_count),
                            g.width)
            g.small += limit
        g.small_count = limit
        g.group += g.group_count
    for worker in range(g.width):
        if g.special[worker]:
            status = SPECIAL
    free(memory)
    return status


# ---- Convolutions as products ----

cdef void merge_axes(int64_t* count, int64_t* jump) noexcept nogil:
    """Rewrite a grid with as few and as long rows as its strides allow; the order of positions stays."""
    cdef int64_t old_count[4]
    cdef int64_t old_jump[4]
    cdef int i, to = 4
    memcpy(old_count, count, sizeof(old_count))
    memcpy(old_jump, jump, sizeof(old_jump))
    for i in range(3, -1, -1):
        if old_count[i] == 1:
            continue
        if to < 4 and old_jump[i] == count[to] * jump[to]:
            count[to] *= old_count[i]
        else:
            to -= 1
            count[to], jump[to] = old_count[i], old_jump[i]
    for i in range(to):
        count[i], jump[i] = 1, 0


cdef void set_image(mx_operand* o, int kind, const mx_tensor* image, const void* data, const int64_t* count,
                    const int64_t* step, const mx_tap* taps, int64_t tap_count, int64_t channels,
                    bint tap_inner) noexcept nogil:
    """An image seen from `count` positions along d h w, `step` apart, through `taps`."""
    cdef int64_t t, low, high, positions = image.len[0]
    cdef int i
    memset(o, 0, sizeof(mx_operand))
    o.kind, o.type, o.data = kind, image.type, <const char*> data
    o.taps, o.tap, o.tap_inner = tap_count, taps, tap_inner
    o.channels, o.channel_stride = channels, image.stride[1]
    o.count[0], o.jump[0] = image.len[0], image.stride[0]
    for i in range(MX_SPATIAL):
        positions *= count[i]
        o.count[i + 1], o.jump[i + 1] = count[i], step[i] * image.stride[i + 2]
        o.step[i], o.size[i] = step[i], image.len[i + 2]
        for t in range(tap_count):
            low = taps[t].d if i == 0 else taps[t].h if i == 1 else taps[t].w
            high = low + (count[i] - 1) * step[i]
            if low < 0 or high >= o.size[i]:
                o.clipped = True
    if not o.clipped:
        merge_axes(o.count, o.jump)
    o.rows_first = o.jump[3] <= o.channel_stride
    if kind == MX_LANES_POSITIONS:
        o.lanes, o.steps = positions, tap_count * channels
    else:
        o.lanes, o.steps = tap_count * channels, positions


cdef void set_tap(mx_tap* tap, const mx_tensor* image, int64_t d, int64_t h, int64_t w) noexcept nogil:
    tap.d, tap.h, tap.w = d, h, w
    tap.offset = d * image.stride[2] + h * image.stride[3] + w * image.stride[4]


cdef void set_offsets(int64_t* table, const int64_t* tap_offset, int64_t taps, int64_t channels,
                      int64_t channel_stride, bint tap_inner) noexcept nogil:
    """The filter's element offset for each (tap, channel)."""
    cdef int64_t t, c
    for t in range(taps):
        for c in range(channels):
            table[c * taps + t if tap_inner else t * channels + c] = tap_offset[t] + c * channel_stride


cdef bint counts_up(const int64_t* table, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(1, n):
        if table[i] != table[i - 1] + 1:
            return False
    return True


cdef bint is_float(int64_t type) noexcept nogil:
    return type != MX_INT8 and type != MX_INT32


cdef bint taps_are_close(const mx_tensor* w, int64_t channel_stride) noexcept nogil:
    """Whether neighbouring taps are closer in memory than neighbouring channels."""
    cdef int i
    for i in range(2, MX_AXES):
        if w.len[i] > 1 and w.stride[i] < channel_stride:
            return True
    return False


cdef int multiply_images(const mx_conv_problem* p, void** slots, const double* scalars, int width) noexcept nogil:
    """Forward and backward weights, which see x through the same taps."""
    cdef bint forward = p.direction == MX_FORWARD, tap_inner
    cdef int64_t taps = p.w.len[2] * p.w.len[3] * p.w.len[4], filter_size = taps * p.w.len[1], z, r, s, t = 0
    cdef int64_t k = p.w.len[0] // p.groups
    cdef int64_t ones[3]
    cdef mx_tap origin
    cdef gemm_t g
    cdef int status
    cdef mx_tap* tap = <mx_tap*> malloc(taps * (sizeof(mx_tap) + sizeof(int64_t)) + filter_size * sizeof(int64_t))
    cdef int64_t* tap_offset
    cdef int64_t* offset
    if tap == NULL:
        return ALLOC_FAILED
    tap_offset = <int64_t*> (tap + taps)
    offset = tap_offset + taps
    for z in range(p.w.len[2]):
        for r in range(p.w.len[3]):
            for s in range(p.w.len[4]):
                set_tap(tap + t, &p.x, z * p.dilation[0] - p.pad[0], r * p.dilation[1] - p.pad[1],
                        s * p.dilation[2] - p.pad[2])
                tap_offset[t] = z * p.w.stride[2] + r * p.w.stride[3] + s * p.w.stride[4]
                t += 1
    tap_inner = taps_are_close(&p.w, p.w.stride[1])
    set_offsets(offset, tap_offset, taps, p.w.len[1], p.w.stride[1], tap_inner)
    memset(&g, 0, sizeof(g))
    g.groups, g.alpha, g.beta, g.width = p.groups, scalars[0], scalars[1], width
    set_image(&g.b, MX_LANES_POSITIONS if forward else MX_LANES_FILTER, &p.x, slots[0], &p.y.len[2], p.step, tap, taps,
              p.w.len[1], tap_inner)
    g.b_group = p.w.len[1] * p.x.stride[1]
    if forward:
        g.a.kind, g.a.type, g.a.data = MX_DENSE, p.w.type, <const char*> slots[1]
        g.a.lanes, g.a.steps = k, filter_size
        g.a.lane_stride, g.a.step_offset = p.w.stride[0], offset
        g.a.unit_steps = counts_up(offset, filter_size)
        g.a_group = k * p.w.stride[0]
        g.out, g.out_type, g.row_stride, g.out_group = <char*> slots[2], p.y.type, p.y.stride[1], k * p.y.stride[1]
        g.count[0], g.jump[0] = p.y.len[0], p.y.stride[0]
        memcpy(&g.count[1], &p.y.len[2], 3 * sizeof(int64_t))
        memcpy(&g.jump[1], &p.y.stride[2], 3 * sizeof(int64_t))
        merge_axes(g.count, g.jump)
    else:
        ones[0] = ones[1] = ones[2] = 1
        memset(&origin, 0, sizeof(origin))
        set_image(&g.a, MX_LANES_FILTER, &p.y, slots[2], &p.y.len[2], ones, &origin, 1, k, False)
        g.a_group = k * p.y.stride[1]
        g.out, g.out_type, g.row_stride, g.out_group = <char*> slots[1], p.w.type, p.w.stride[0], k * p.w.stride[0]
        g.column_offset = offset
    g.a.watch = g.b.clipped and is_float(g.a.type)
    status = run_gemm(&g)
    free(tap)
    return status


cdef struct clear_t:
    const mx_tensor* x
    char* data
    double* zeros
    int axis


cdef int multiply_phase(const mx_conv_problem* p, void** slots, const double* scalars, int width,
                        const int64_t* first, bint cleared, mx_tap* tap, int64_t* tap_offset,
                        int64_t* offset) noexcept nogil:
    """The positions first, first + stride, ... of x, which may have been cleared already."""
    cdef int64_t k = p.w.len[0] // p.groups, z, r, s, dz, dr, ds, taps = 0
    cdef int64_t ones[3]
    cdef bint tap_inner = taps_are_close(&p.w, p.w.stride[0])
    cdef int i
    cdef gemm_t g
    for z in range(p.w.len[2]):
        dz = first[0] + p.pad[0] - z * p.dilation[0]
        if dz % p.step[0] != 0:
            continue
        for r in range(p.w.len[3]):
            dr = first[1] + p.pad[1] - r * p.dilation[1]
            if dr % p.step[1] != 0:
                continue
            for s in range(p.w.len[4]):
                ds = first[2] + p.pad[2] - s * p.dilation[2]
                if ds % p.step[2] != 0:
                    continue
                set_tap(tap + taps, &p.y, dz // p.step[0], dr // p.step[1], ds // p.step[2])
                tap_offset[taps] = z * p.w.stride[2] + r * p.w.stride[3] + s * p.w.stride[4]
                taps += 1
    if taps == 0 and cleared:
        return 0
    set_offsets(offset, tap_offset, taps, k, p.w.stride[0], tap_inner)
    memset(&g, 0, sizeof(g))
    g.groups, g.alpha, g.beta, g.width = p.groups, scalars[0], scalars[1], width
    g.out, g.out_type = <char*> slots[0], p.x.type
    g.row_stride, g.out_group = p.x.stride[1], p.w.len[1] * p.x.stride[1]
    g.count[0], g.jump[0] = p.x.len[0], p.x.stride[0]
    for i in range(MX_SPATIAL):
        ones[i] = 1
        g.count[i + 1] = ceil_div(p.x.len[i + 2] - first[i], p.step[i])
        g.jump[i + 1] = p.step[i] * p.x.stride[i + 2]
        g.column_base += first[i] * p.x.stride[i + 2]
    set_image(&g.b, MX_LANES_POSITIONS, &p.y, slots[2], &g.count[1], ones, tap, taps, k, tap_inner)
    merge_axes(g.count, g.jump)
    g.b_group = k * p.y.stride[1]
    g.a.kind, g.a.type, g.a.data = MX_DENSE, p.w.type, <const char*> slots[1]
    g.a.lanes, g.a.steps = p.w.len[1], taps * k
    g.a.lane_stride, g.a.step_offset = p.w.stride[1], offset
    g.a.unit_steps = counts_up(offset, taps * k)
    g.a_group = k * p.w.stride[0]
    g.a.watch = g.b.clipped and is_float(p.w.type)
    return run_gemm(&g)


cdef void clear_task(void* context, int64_t index, int worker) noexcept nogil:
    """Fill one row of x with zeros."""
    cdef const clear_t* c = <const clear_t*> context
    cdef int64_t at = 0
    cdef int axis
    for axis in range(MX_AXES - 1, -1, -1):
        if axis != c.axis:
            at += index % c.x.len[axis] * c.x.stride[axis]
            index //= c.x.len[axis]
    kernels.store_row(c.data, c.x.type, at, c.x.stride[c.axis], c.zeros, c.x.len[c.axis])


cdef int clear(const mx_tensor* x, char* data, int width) noexcept nogil:
    """Fill x with zeros, along its densest axis."""
    cdef clear_t c
    cdef int64_t rows = 1
    cdef int axis
    c.x, c.data, c.axis = x, data, 4
    for axis in range(MX_AXES):
        if x.len[axis] > 1 and (x.len[c.axis] == 1 or x.stride[axis] < x.stride[c.axis]):
            c.axis = axis
    for axis in range(MX_AXES):
        rows *= x.len[axis] if axis != c.axis else 1
    c.zeros = <double*> calloc(x.len[c.axis], sizeof(double))
    if c.zeros == NULL:
        return ALLOC_FAILED
    mx_pool_run(clear_task, &c, rows, width)
    free(c.zeros)
    return 0


cdef int multiply_phases(const mx_conv_problem* p, void** slots, const double* scalars, int width) noexcept nogil:
    """Backward data: one product for each phase of the strides."""
    cdef int64_t taps = p.w.len[2] * p.w.len[3] * p.w.len[4]
    cdef int64_t first[3]
    cdef int64_t reached = 1
    cdef int status = 0, axis
    cdef bint cleared
    cdef mx_tap* tap = <mx_tap*> malloc(taps * (sizeof(mx_tap) + sizeof(int64_t) * (1 + p.w.len[0] // p.groups)))
    cdef int64_t* tap_offset
    if tap == NULL:
        return ALLOC_FAILED
    tap_offset = <int64_t*> (tap + taps)
    # Phases without taps would write a few elements of each cache line, once each: clear everything at once instead.
    for axis in range(MX_SPATIAL):
        reached *= at_most(p.w.len[axis + 2], p.step[axis] // greatest_divisor(p.step[axis], p.dilation[axis]))
    cleared = reached < p.step[0] * p.step[1] * p.step[2] and scalars[1] == 0 and scalars[0] * 0 == 0
    if cleared:
        status = clear(&p.x, <char*> slots[0], width)
    first[0] = 0
    while first[0] < at_most(p.step[0], p.x.len[2]) and status == 0:
        first[1] = 0
        while first[1] < at_most(p.step[1], p.x.len[3]) and status == 0:
            first[2] = 0
            while first[2] < at_most(p.step[2], p.x.len[4]) and status == 0:
                status = multiply_phase(p, slots, scalars, width, first, cleared, tap, tap_offset,
                                        tap_offset + taps)
                first[2] += 1
            first[1] += 1
        first[0] += 1
    free(tap)
    return status


# ---- NaN and infinity next to padding ----
#
# A position outside the image contributes nothing, but a packed zero times an infinite weight is NaN.  Where such
# values turn up, which packing notices, the whole output is computed again by loops that skip what is outside.

cdef struct direct_t:
    const mx_conv_problem* p
    const char* x
    const char* w
    const char* y
    char* out
    double alpha, beta
    double* rows               # for each worker: sums, two rows of operands
    int64_t row                # length of one of them


cdef double load(const char* data, int64_t type, int64_t offset) noexcept nogil:
    cdef double value
    kernels.load_row(data, type, offset, 0, &value, 1)
    return value


cdef void finish_row(const direct_t* c, const mx_tensor* t, int64_t offset, double* sums, double* old) noexcept nogil:
    cdef int64_t i, n = t.len[4]
    if c.beta != 0:
        kernels.load_row(c.out, t.type, offset, t.stride[4], old, n)
    for i in range(n):
        sums[i] *= c.alpha
        if c.beta != 0:
            sums[i] += c.beta * old[i]
    kernels.store_row(c.out, t.type, offset, t.stride[4], sums, n)


cdef bint inside(const mx_conv_problem* p, int64_t s, int64_t* lo, int64_t* hi) noexcept nogil:
    """The output columns [lo, hi) whose filter column s lies inside x."""
    cdef int64_t shift = s * p.dilation[2] - p.pad[2], last = p.x.len[4] - 1 - shift
    lo[0] = ceil_div(-shift, p.step[2]) if shift < 0 else 0
    hi[0] = at_most(p.y.len[4], last // p.step[2] + 1) if last >= 0 else 0
    return lo[0] < hi[0]


cdef void forward_row(void* context, int64_t index, int worker) noexcept nogil:
    cdef const direct_t* c = <const direct_t*> context
    cdef const mx_conv_problem* p = c.p
    cdef int64_t h = index % p.y.len[3], d = index // p.y.len[3] % p.y.len[2]
    cdef int64_t plane = index // (p.y.len[3] * p.y.len[2]), k = plane % p.y.len[1], n = plane // p.y.len[1]
    cdef int64_t group_channel = k // (p.w.len[0] // p.groups) * p.w.len[1], ch, z, r, s, xd, xh, lo, hi, i, at, wat
    cdef double* sums = c.rows + worker * 3 * c.row
    cdef double* row = sums + c.row
    cdef double weight
    memset(sums, 0, p.y.len[4] * sizeof(double))
    for ch in range(p.w.len[1]):
        for z in range(p.w.len[2]):
            xd = d * p.step[0] - p.pad[0] + z * p.dilation[0]
            if xd < 0 or xd >= p.x.len[2]:
                continue
            for r in range(p.w.len[3]):
                xh = h * p.step[1] - p.pad[1] + r * p.dilation[1]
                if xh < 0 or xh >= p.x.len[3]:
                    continue
                at = n * p.x.stride[0] + (group_channel + ch) * p.x.stride[1] + xd * p.x.stride[2] + xh * p.x.stride[3]
                wat = k * p.w.stride[0] + ch * p.w.stride[1] + z * p.w.stride[2] + r * p.w.stride[3]
                for s in range(p.w.len[4]):
                    if not inside(p, s, &lo, &hi):
                        continue
                    kernels.load_row(c.x, p.x.type,
                                     at + (lo * p.step[2] + s * p.dilation[2] - p.pad[2]) * p.x.stride[4],
                                     p.step[2] * p.x.stride[4], row, hi - lo)
                    weight = load(c.w, p.w.type, wat + s * p.w.stride[4])
                    for i in range(hi - lo):
                        sums[lo + i] += weight * row[i]
    finish_row(c, &p.y, n * p.y.stride[0] + k * p.y.stride[1] + d * p.y.stride[2] + h * p.y.stride[3], sums, row)


cdef void data_row(void* context, int64_t index, int worker) noexcept nogil:
    cdef const direct_t* c = <const direct_t*> context
    cdef const mx_conv_problem* p = c.p
    cdef int64_t h = index % p.x.len[3], d = index // p.x.len[3] % p.x.len[2]
    cdef int64_t plane = index // (p.x.len[3] * p.x.len[2]), ch = plane % p.x.len[1], n = plane // p.x.len[1]
    cdef int64_t per_group = p.w.len[0] // p.groups, k, first = ch // p.w.len[1] * per_group
    cdef int64_t z, r, s, yd, yh, lo, hi, i, at, wat
    cdef double* sums = c.rows + worker * 3 * c.row
    cdef double* row = sums + c.row
    cdef double* to
    cdef double weight
    memset(sums, 0, p.x.len[4] * sizeof(double))
    for k in range(first, first + per_group):
        for z in range(p.w.len[2]):
            yd = d + p.pad[0] - z * p.dilation[0]
            if yd < 0 or yd % p.step[0] or yd // p.step[0] >= p.y.len[2]:
                continue
            for r in range(p.w.len[3]):
                yh = h + p.pad[1] - r * p.dilation[1]
                if yh < 0 or yh % p.step[1] or yh // p.step[1] >= p.y.len[3]:
                    continue
                at = (n * p.y.stride[0] + k * p.y.stride[1] + yd // p.step[0] * p.y.stride[2]
                      + yh // p.step[1] * p.y.stride[3])
                wat = k * p.w.stride[0] + ch % p.w.len[1] * p.w.stride[1] + z * p.w.stride[2] + r * p.w.stride[3]
                for s in range(p.w.len[4]):
                    if not inside(p, s, &lo, &hi):
                        continue
                    kernels.load_row(c.y, p.y.type, at + lo * p.y.stride[4], p.y.stride[4], row, hi - lo)
                    weight = load(c.w, p.w.type, wat + s * p.w.stride[4])
                    to = sums + (lo * p.step[2] + s * p.dilation[2] - p.pad[2])
                    for i in range(hi - lo):
                        to[i * p.step[2]] += weight * row[i]
    finish_row(c, &p.x, n * p.x.stride[0] + ch * p.x.stride[1] + d * p.x.stride[2] + h * p.x.stride[3], sums, row)


cdef void weights_row(void* context, int64_t index, int worker) noexcept nogil:
    cdef const direct_t* c = <const direct_t*> context
    cdef const mx_conv_problem* p = c.p
    cdef int64_t r = index % p.w.len[3], z = index // p.w.len[3] % p.w.len[2]
    cdef int64_t plane = index // (p.w.len[3] * p.w.len[2]), ch = plane % p.w.len[1], k = plane // p.w.len[1]
    cdef int64_t channel = k // (p.w.len[0] // p.groups) * p.w.len[1] + ch, n, d, h, xd, xh, s, lo, hi, i
    cdef double* sums = c.rows + worker * 3 * c.row
    cdef double* row = sums + c.row
    cdef double* other = row + c.row
    memset(sums, 0, p.w.len[4] * sizeof(double))
    for n in range(p.y.len[0]):
        for d in range(p.y.len[2]):
            xd = d * p.step[0] - p.pad[0] + z * p.dilation[0]
            if xd < 0 or xd >= p.x.len[2]:
                continue
            for h in range(p.y.len[3]):
                xh = h * p.step[1] - p.pad[1] + r * p.dilation[1]
                if xh < 0 or xh >= p.x.len[3]:
                    continue
                kernels.load_row(c.y, p.y.type, n * p.y.stride[0] + k * p.y.stride[1] + d * p.y.stride[2]
                                 + h * p.y.stride[3], p.y.stride[4], row, p.y.len[4])
                for s in range(p.w.len[4]):
                    if not inside(p, s, &lo, &hi):
                        continue
                    kernels.load_row(c.x, p.x.type, n * p.x.stride[0] + channel * p.x.stride[1] + xd * p.x.stride[2]
                                     + xh * p.x.stride[3]
                                     + (lo * p.step[2] + s * p.dilation[2] - p.pad[2]) * p.x.stride[4],
                                     p.step[2] * p.x.stride[4], other, hi - lo)
                    for i in range(hi - lo):
                        sums[s] += row[lo + i] * other[i]
    finish_row(c, &p.w, k * p.w.stride[0] + ch * p.w.stride[1] + z * p.w.stride[2] + r * p.w.stride[3], sums, row)


cdef int convolve_directly(const mx_conv_problem* p, void** slots, const double* scalars, int width) noexcept nogil:
    cdef direct_t c
    cdef const mx_tensor* out = &p.y if p.direction == MX_FORWARD else &p.x
    if p.direction == MX_BACKWARD_WEIGHTS:
        out = &p.w
    c.p, c.alpha, c.beta = p, scalars[0], scalars[1]
    c.x, c.w, c.y = <const char*> slots[0], <const char*> slots[1], <const char*> slots[2]
    c.row = at_least(at_least(p.x.len[4], p.y.len[4]), p.w.len[4])
    c.rows = <double*> malloc(3 * width * c.row * sizeof(double))
    if c.rows == NULL:
        return ALLOC_FAILED
    if p.direction == MX_FORWARD:
        c.out = <char*> slots[2]
        mx_pool_run(forward_row, &c, out.len[0] * out.len[1] * out.len[2] * out.len[3], width)
    elif p.direction == MX_BACKWARD_DATA:
        c.out = <char*> slots[0]
        mx_pool_run(data_row, &c, out.len[0] * out.len[1] * out.len[2] * out.len[3], width)
    else:
        c.out = <char*> slots[1]
        mx_pool_run(weights_row, &c, out.len[0] * out.len[1] * out.len[2] * out.len[3], width)
    free(c.rows)
    return 0


cdef bint all_finite(const mx_tensor* t, const void* data) noexcept nogil:
    cdef int64_t a, b, c, d, e
    for a in range(t.len[0]):
        for b in range(t.len[1]):
            for c in range(t.len[2]):
                for d in range(t.len[3]):
                    for e in range(t.len[4]):
                        if load(<const char*> data, t.type, a * t.stride[0] + b * t.stride[1] + c * t.stride[2]
                                + d * t.stride[3] + e * t.stride[4]) * 0 != 0:
                            return False
    return True


cdef int host_conv(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_conv_problem* p = <const mx_conv_problem*> problem
    cdef double work = 2.0 * p.y.len[0] * p.y.len[1] * p.y.len[2] * p.y.len[3] * p.y.len[4] * (
        p.w.len[1] * p.w.len[2] * p.w.len[3] * p.w.len[4])
    cdef unsigned arithmetic = mx_default_arithmetic()
    cdef int status = 0, width = 1
    if work >= POOL_FLOPS:
        width = mx_pool_acquire(threads if threads > 0 else mx_usable_cores())
    # With beta the old output is lost once it is written, so look for values that need the other path beforehand.
    if scalars[1] != 0:
        if p.direction == MX_BACKWARD_WEIGHTS:
            status = 0 if all_finite(&p.y, slots[2]) else SPECIAL
        else:
            status = 0 if all_finite(&p.w, slots[1]) else SPECIAL
    if status == 0:
        if p.direction == MX_BACKWARD_DATA:
            status = multiply_phases(p, slots, scalars, width)
        else:
            status = multiply_images(p, slots, scalars, width)
    if status == SPECIAL:
        status = convolve_directly(p, slots, scalars, width)
    mx_pool_release(width)
    mx_restore_arithmetic(arithmetic)
    return status


# ---- Biases ----

cdef struct bias_t:
    const mx_bias_problem* p
    char* y
    char* b
    double alpha, beta
    int axis                   # along which rows are read
    int64_t row                # their length
    double* rows               # for each worker: two of them
    int64_t count[5]           # axes that a task walks through, row by row; 1 for the others
    int64_t lines, chunks      # backward: rows of a sum, and in how many parts it is cut
    double* partials


cdef int64_t offset_at(const mx_tensor* t, const int64_t* count, int64_t index) noexcept nogil:
    """The element offset of position `index` of the grid `count`; axes of length 1 in t stay where they are."""
    cdef int64_t at = 0, position
    cdef int axis
    for axis in range(MX_AXES - 1, -1, -1):
        position, index = index % count[axis], index // count[axis]
        if t.len[axis] > 1:
            at += position * t.stride[axis]
    return at


cdef void add_task(void* context, int64_t index, int worker) noexcept nogil:
    """Add the bias to one row of y."""
    cdef const bias_t* c = <const bias_t*> context
    cdef const mx_tensor* y = &c.p.y
    cdef const mx_tensor* b = &c.p.b
    cdef int64_t at = offset_at(y, c.count, index), i
    cdef double* row = c.rows + worker * 2 * c.row
    cdef double* bias = row + c.row
    kernels.load_row(c.y, y.type, at, y.stride[c.axis], row, c.row)
    kernels.load_row(c.b, b.type, offset_at(b, c.count, index), b.stride[c.axis] if b.len[c.axis] > 1 else 0, bias,
                     c.row)
    for i in range(c.row):
        bias[i] = c.alpha * (row[i] + bias[i])
        if c.beta != 0:
            bias[i] += c.beta * row[i]
    kernels.store_row(c.y, y.type, at, y.stride[c.axis], bias, c.row)


cdef void sum_rows_task(void* context, int64_t index, int worker) noexcept nogil:
    """One part of the sum for one element of b."""
    cdef const bias_t* c = <const bias_t*> context
    cdef const mx_tensor* y = &c.p.y
    cdef int64_t start = offset_at(y, c.p.b.len, index // c.chunks), chunk = index % c.chunks, line, i
    cdef double* row = c.rows + worker * 2 * c.row
    cdef double s0 = 0, s1 = 0, s2 = 0, s3 = 0
    for line in range(chunk * c.lines // c.chunks, (chunk + 1) * c.lines // c.chunks):
        kernels.load_row(c.y, y.type, start + offset_at(y, c.count, line), y.stride[c.axis], row, c.row)
        for i in range(0, c.row - 3, 4):
            s0 += row[i]
            s1 += row[i + 1]
            s2 += row[i + 2]
            s3 += row[i + 3]
        for i in range(c.row - c.row % 4, c.row):
            s0 += row[i]
    c.partials[index] = (s0 + s1) + (s2 + s3)


cdef void set_rows(bias_t* c, bint summed_only) noexcept nogil:
    """Choose the axis of rows, the densest one of some length, else the longest, and the axes left to walk through."""
    cdef const mx_tensor* y = &c.p.y
    cdef const mx_tensor* b = &c.p.b
    cdef int axis, best = -1
    for axis in range(MX_AXES - 1, -1, -1):
        c.count[axis] = 1 if summed_only and b.len[axis] > 1 else y.len[axis]
        if c.count[axis] >= 8 and (best < 0 or y.stride[axis] < y.stride[best]):
            best = axis
    if best < 0:
        best = MX_AXES - 1
        for axis in range(MX_AXES - 1, -1, -1):
            if c.count[axis] > c.count[best]:
                best = axis
    c.axis, c.row = best, c.count[best]
    c.count[best] = 1


cdef int host_bias(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_bias_problem* p = <const mx_bias_problem*> problem
    cdef int64_t elements = 1, sums = 1, lines = 1, i, j, at
    cdef int axis, width = 1
    cdef unsigned arithmetic
    cdef double total, old
    cdef bias_t c
    c.p, c.y, c.b, c.alpha, c.beta = p, <char*> slots[2], <char*> slots[0], scalars[0], scalars[1]
    set_rows(&c, p.direction != MX_FORWARD)
    for axis in range(MX_AXES):
        elements *= p.y.len[axis]
        sums *= p.b.len[axis]
        lines *= c.count[axis]
    c.lines = lines
    # Few sums are cut into parts, so that several threads find work.
    c.chunks = at_least(1, at_most(at_most(TASKS // sums, lines), elements // 65536))
    if elements * 8.0 >= POOL_FLOPS:
        width = mx_pool_acquire(threads if threads > 0 else mx_usable_cores())
    c.rows = <double*> malloc((2 * width * c.row + sums * c.chunks) * sizeof(double))
    if c.rows == NULL:
        mx_pool_release(width)
        return ALLOC_FAILED
    c.partials = c.rows + 2 * width * c.row
    arithmetic = mx_default_arithmetic()
    if p.direction == MX_FORWARD:
        mx_pool_run(add_task, &c, lines, width)
    else:
        mx_pool_run(sum_rows_task, &c, sums * c.chunks, width)
        for i in range(sums):
            total = c.partials[i * c.chunks]
            for j in range(1, c.chunks):
                total += c.partials[i * c.chunks + j]
            total *= c.alpha
            at = offset_at(&p.b, p.b.len, i)
            if c.beta != 0:
                kernels.load_row(c.b, p.b.type, at, 0, &old, 1)
                total += c.beta * old
            kernels.store_row(c.b, p.b.type, at, 1, &total, 1)
    mx_restore_arithmetic(arithmetic)
    mx_pool_release(width)
    free(c.rows)
    return 0


# ---- The Python face: tests, tools ----

cdef tuple TYPES = (MX_HALF, MX_FLOAT, MX_INT32, MX_INT8, MX_BFLOAT16, MX_DOUBLE)


cdef int64_t element_size(int64_t type) noexcept:
    return 8 if type == MX_DOUBLE else 4 if type == MX_FLOAT or type == MX_INT32 else 1 if type == MX_INT8 else 2


cdef int check_tensor(mx_tensor* t, str name, bint output) except -1:
    cdef int i
    cdef int64_t reach = 0
    if t.type not in TYPES:
        raise BadParmError("type is not one of the host path's", f"{name}.type", t.type, TYPES)
    for i in range(MX_AXES):
        if t.len[i] < 1 or t.stride[i] < 0:
            raise BadParmError("lengths or strides out of range", name, (t.len, t.stride), "lengths > 0, strides >= 0")
    if output:
        for stride, length in sorted([(t.stride[i], t.len[i]) for i in range(MX_AXES) if t.len[i] > 1]):
            if stride <= reach:
                raise BadParmError("strides of an output overlap", name, t.stride, f"> {reach} for length {length}")
            reach += stride * (length - 1)
    return 0


cdef int check_conv(mx_conv_problem* p) except -1:
    cdef int i
    if not MX_FORWARD <= p.direction <= MX_BACKWARD_WEIGHTS:
        raise BadParmError("unknown direction", "direction", p.direction, "0, 1, 2")
    check_tensor(&p.x, "x", p.direction == MX_BACKWARD_DATA)
    check_tensor(&p.w, "w", p.direction == MX_BACKWARD_WEIGHTS)
    check_tensor(&p.y, "y", p.direction == MX_FORWARD)
    if p.groups < 1 or p.w.len[0] % p.groups or p.w.len[1] * p.groups != p.x.len[1]:
        raise BadParmError("channels do not fit the groups", "groups", p.groups,
                           f"k {p.w.len[0]} % groups == 0, c/g {p.w.len[1]} * groups == c {p.x.len[1]}")
    if p.x.len[0] != p.y.len[0] or p.w.len[0] != p.y.len[1]:
        raise BadParmError("n or k differ", "y", (p.y.len[0], p.y.len[1]), (p.x.len[0], p.w.len[0]))
    for i in range(MX_SPATIAL):
        if p.pad[i] < 0 or p.step[i] < 1 or p.dilation[i] < 1:
            raise BadParmError("pad, stride or dilation out of range", "problem", (p.pad, p.step, p.dilation),
                               "pads >= 0, strides and dilations > 0")
    return 0


cdef class Memory:
    """The address of a caller's memory, held while it is used."""

    cdef void* address
    cdef Py_buffer view
    cdef bint held

    def __init__(self, data, need, str name, bint output):
        size = None
        interface = getattr(data, "__array_interface__", None)
        if isinstance(data, int):
            address = data
        elif interface is not None:
            address, readonly = interface["data"]
            if output and readonly:
                raise BadParmError("array is read-only", name, type(data).__name__, "a writable array")
            size = int(interface["typestr"][2:])
            strides = interface.get("strides")
            if strides is None:
                for length in interface["shape"]:
                    size *= length
            else:
                if min(strides, default=0) < 0 or 0 in interface["shape"]:
                    raise BadParmError("array is empty or runs backwards", name, strides, "strides >= 0")
                size += sum([(length - 1) * stride for length, stride in zip(interface["shape"], strides)])
        else:
            PyObject_GetBuffer(data, &self.view, PyBUF_WRITABLE if output else PyBUF_SIMPLE)
            self.held = True
            address, size = <uintptr_t> self.view.buf, self.view.len
        if size is not None and size < need:
            raise BadParmError("buffer is smaller than its tensor", name, f"{size} bytes", f">= {need} bytes")
        self.address = <void*> <uintptr_t> address

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef Memory bind(object data, const mx_tensor* t, str name, bint output):
    need = 1
    for i in range(MX_AXES):
        need += (t.len[i] - 1) * t.stride[i]
    return Memory(data, need * element_size(t.type), name, output)


def isa():
    """Return the instruction set of the inner loops in use: "baseline", "avx2" or "avx512"."""
    return kernels.name.decode()


def run_conv(bytes problem not None, x, w, y, double alpha=1.0, double beta=0.0, int threads=0):
    """Compute one tensor of a convolution from the other two.

    Parameters
    ----------
    problem : bytes
        An mx_conv_problem; its direction says which tensor is computed.
    x, w, y : array, buffer or int
        Objects with `__array_interface__` or the buffer protocol, taken as raw memory in the problem's layout, or
        addresses, whose size is the caller's business.
    alpha, beta : float
        out = alpha * convolution + beta * out; where beta is 0 the old values are not read.
    threads : int
        At most so many threads; 0: one a usable core.  The result does not depend on it.

    Raises
    ------
    BadParmError
        If the struct contradicts itself, or a buffer is too small or read-only.
    AllocFailedError
        If there is no memory for packed panels; nothing was written.
    """
    cdef mx_conv_problem p
    cdef void* slots[4]
    cdef double scalars[2]
    cdef int status
    if len(problem) != sizeof(mx_conv_problem):
        raise BadParmError("not an mx_conv_problem", "problem", f"{len(problem)} bytes",
                           f"{sizeof(mx_conv_problem)} bytes")
    memcpy(&p, <const char*> problem, sizeof(p))
    check_conv(&p)
    cdef Memory mx = bind(x, &p.x, "x", p.direction == MX_BACKWARD_DATA)
    cdef Memory mw = bind(w, &p.w, "w", p.direction == MX_BACKWARD_WEIGHTS)
    cdef Memory my = bind(y, &p.y, "y", p.direction == MX_FORWARD)
    slots[0], slots[1], slots[2], slots[3] = mx.address, mw.address, my.address, NULL
    scalars[0], scalars[1] = alpha, beta
    with nogil:
        status = host_conv(&p, slots, scalars, threads)
    if status != 0:
        raise AllocFailedError("no memory for packed panels", "problem", None)


def run_bias(bytes problem not None, b, y, double alpha=1.0, double beta=0.0, int threads=0):
    """Add a bias to y (direction 0) or sum y into a bias (direction 1); arguments as for `run_conv`."""
    cdef mx_bias_problem p
    cdef void* slots[4]
    cdef double scalars[2]
    cdef int status, i
    if len(problem) != sizeof(mx_bias_problem):
        raise BadParmError("not an mx_bias_problem", "problem", f"{len(problem)} bytes",
                           f"{sizeof(mx_bias_problem)} bytes")
    memcpy(&p, <const char*> problem, sizeof(p))
    if p.direction != MX_FORWARD and p.direction != MX_BACKWARD_DATA:
        raise BadParmError("unknown direction", "direction", p.direction, "0, 1")
    check_tensor(&p.y, "y", p.direction == MX_FORWARD)
    check_tensor(&p.b, "b", p.direction == MX_BACKWARD_DATA)
    for i in range(MX_AXES):
        if p.b.len[i] != 1 and p.b.len[i] != p.y.len[i]:
            raise BadParmError("length is neither 1 nor y's", "b", p.b.len, p.y.len)
    cdef Memory mb = bind(b, &p.b, "b", p.direction == MX_BACKWARD_DATA)
    cdef Memory my = bind(y, &p.y, "y", p.direction == MX_FORWARD)
    slots[0], slots[1], slots[2], slots[3] = mb.address, NULL, my.address, NULL
    scalars[0], scalars[1] = alpha, beta
    with nogil:
        status = host_bias(&p, slots, scalars, threads)
    if status != 0:
        raise AllocFailedError("no memory for partial sums", "problem", None)


cdef const mx_kernels* choose() except NULL:
    cdef const mx_kernels* chosen
    text = os.environ.get("MIOPYX_HOST_ISA", "")
    name = text.strip().lower().encode()
    chosen = mx_choose_kernels(<const char*> name if name else NULL)
    if chosen == NULL:
        raise InvalidValueError("no such variant", "MIOPYX_HOST_ISA", text, "baseline, avx2, avx512")
    return chosen


kernels = choose()
