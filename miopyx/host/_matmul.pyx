# cython: cdivision=True
"""A matrix product with operands that are packed on the fly: blocks, passes and tasks.

The split into tasks, and with it the order of every sum, depends on the problem alone: results have the same bits for
any number of threads.  Sums are in float64; alpha, beta and the conversion to the output's type come once, at the end.
The inner loops, packing among them, are in gemm_f64.c.
"""

from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from ._common cimport ALLOC_FAILED, SPECIAL, at_least, at_most, ceil_div
from ._kernels cimport MX_MAX_WIDTH, MX_ROW_PADDING, kernels, mx_divide, mx_operand, mx_run
from ._pool cimport TASKS, run_tasks

cdef enum:
    BLOCK = 96             # lanes of the larger operand in a task
    SMALL_BLOCK = 512      # lanes of the smaller operand in a pass
    PACKED_BYTES = 1 << 25  # packed values that are kept for all tasks of a pass

cdef double TASK_FLOPS = 2e6   # a sum is not split finer


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
                    kernels.store(g.out, g.out_type, g.rounding, out_offset + (row_panel + i) * mr * g.row_stride,
                                  g.row_stride, rows, runs, run_count, tile, g.alpha, g.beta)
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
        kernels.store(g.out, g.out_type, g.rounding,
                      (g.group + group) * g.out_group + (row_panel + i) * mr * g.row_stride, g.row_stride, rows, runs,
                      run_count, sums, g.alpha, g.beta)
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

    # Where few rows use a column panel, packing is much of the work: leave room in the cache for what is packed.
    g.pieces = ceil_div(steps, kernels.kc // 2 if g.small_is_a and small_panels <= 2 else kernels.kc)
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
                    run_tasks(pack_task, g, g.group_count * g.small_count, g.width)
                run_tasks(multiply_task, g, g.group_count * g.blocks * g.chunks, g.width)
                g.first_piece += lanes
                if g.first_piece >= g.pieces:
                    break
            g.piece_count = lanes
            if g.partial:
                run_tasks(sum_task, g, g.group_count * g.blocks * (g.block if g.small_is_a else g.small_count), g.width)
            g.small += limit
        g.small_count = limit
        g.group += g.group_count
    for worker in range(g.width):
        if g.special[worker]:
            status = SPECIAL
    free(memory)
    return status
