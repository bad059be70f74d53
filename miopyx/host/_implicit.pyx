# cython: cdivision=True
"""Convolutions as matrix products, whose operands are the tensors as they lie in memory, of any types and strides.

    forward           out = y   rows k        columns (n, do, ho, wo)   sum over (c/g, z, r, s)
    backward data     out = x   rows c/g      columns positions         sum over (k/g, taps)       once for each phase
    backward weights  out = w   rows k/g      columns (c/g, z, r, s)    sum over (n, do, ho, wo)

Positions of x that have the same (position + pad) mod stride see the same filter taps.  Such a phase of backward data
is a dense product of its own, without products by zero.  With few channels a product has too few rows for what its
columns cost to pack: there the rows of all phases are one product, with zeros where a phase does not see a tap.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from ._common cimport ALLOC_FAILED, at_most, ceil_div
from ._kernels cimport MX_DENSE, MX_LANES_FILTER, MX_LANES_POSITIONS, kernels, mx_operand, mx_run, mx_tap
from ._matmul cimport gemm_t, run_gemm
from ._pool cimport run_tasks
from miopyx.values._types cimport (
    MX_AXES, MX_DOUBLE, MX_FORWARD, MX_INT8, MX_INT32, MX_SPATIAL, mx_conv_problem, mx_tensor,
)

cdef enum:
    CLEAR_PIECE = 1 << 13  # elements that a task fills with zeros
    CELL_BYTES = 1 << 28   # what joined phases may take until they are spread


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
    tap_inner = p.x.stride[1] > 1 and taps_are_close(&p.w, p.w.stride[1])
    set_offsets(offset, tap_offset, taps, p.w.len[1], p.w.stride[1], tap_inner)
    memset(&g, 0, sizeof(g))
    g.groups, g.alpha, g.beta, g.width = p.groups, scalars[0], scalars[1], width
    g.rounding = p.rounding
    set_image(&g.b, MX_LANES_POSITIONS if forward else MX_LANES_FILTER, &p.x, slots[0], &p.y.len[2], p.step, tap, taps,
              p.w.len[1], tap_inner)
    g.b_group = p.w.len[1] * p.x.stride[1]
    if forward:
        g.a.kind, g.a.type, g.a.data = MX_DENSE, p.w.type, <const char*> slots[1]
        g.a.lanes, g.a.steps = k, filter_size
        g.a.lane_stride, g.a.step_offset = p.w.stride[0], offset
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


cdef int multiply_phase(const mx_conv_problem* p, void** slots, const double* scalars, int width,
                        const int64_t* first, bint cleared, mx_tap* tap, int64_t* tap_offset,
                        int64_t* offset) noexcept nogil:
    """The positions first, first + stride, ... of x, which may have been cleared already."""
    cdef int64_t k = p.w.len[0] // p.groups, z, r, s, dz, dr, ds, taps = 0
    cdef int64_t ones[3]
    cdef bint tap_inner = p.y.stride[1] > 1 and taps_are_close(&p.w, p.w.stride[0])
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
    g.rounding = p.rounding
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
    g.a_group = k * p.w.stride[0]
    g.a.watch = g.b.clipped and is_float(p.w.type)
    return run_gemm(&g)


cdef struct clear_t:
    const mx_tensor* x
    char* data
    double* zeros
    # Axes by their strides, merged where one continues the other; the first is cut into pieces.
    int64_t count[MX_AXES]
    int64_t stride[MX_AXES]
    int64_t pieces


cdef void clear_task(void* context, int64_t index, int worker) noexcept nogil:
    """Fill one piece of a row of x with zeros."""
    cdef const clear_t* c = <const clear_t*> context
    cdef int64_t first = index % c.pieces * CLEAR_PIECE, at = first * c.stride[0]
    cdef int axis
    index //= c.pieces
    for axis in range(1, MX_AXES):
        at += index % c.count[axis] * c.stride[axis]
        index //= c.count[axis]
    kernels.store_row(c.data, c.x.type, at, c.stride[0], c.zeros, at_most(CLEAR_PIECE, c.count[0] - first))


cdef int clear(const mx_tensor* x, char* data, int width) noexcept nogil:
    """Fill x with zeros, in rows as long as its strides allow."""
    cdef clear_t c
    cdef int64_t tasks
    cdef int axis, j, _nth, last = -1
    cdef bint taken[MX_AXES]
    c.x, c.data = x, data
    for axis in range(MX_AXES):
        taken[axis] = x.len[axis] == 1
        c.count[axis], c.stride[axis] = 1, 1
    for _nth in range(MX_AXES):
        axis = -1
        for j in range(MX_AXES):
            if not taken[j] and (axis < 0 or x.stride[j] < x.stride[axis]):
                axis = j
        if axis < 0:
            break
        taken[axis] = True
        if last >= 0 and x.stride[axis] == c.stride[last] * c.count[last]:
            c.count[last] *= x.len[axis]
        else:
            last += 1
            c.count[last], c.stride[last] = x.len[axis], x.stride[axis]
    tasks = c.pieces = ceil_div(c.count[0], CLEAR_PIECE)
    for axis in range(1, MX_AXES):
        tasks *= c.count[axis]
    c.zeros = <double*> calloc(at_most(CLEAR_PIECE, c.count[0]), sizeof(double))
    if c.zeros == NULL:
        return ALLOC_FAILED
    run_tasks(clear_task, &c, tasks, width)
    free(c.zeros)
    return 0


cdef int64_t greatest_divisor(int64_t a, int64_t b) noexcept nogil:
    while b != 0:
        a, b = b, a % b
    return a


# Backward data with joined phases.  A cell is one position of each phase: those of x that share (position // stride).
cdef struct cells_t:
    const mx_conv_problem* p
    char* out
    double alpha
    int64_t count[3]           # cells along d h w
    int64_t low[3]             # where the window of y that a cell sees begins, from the cell's own place
    int64_t window[3]
    int64_t cells              # of all images
    double* sums               # rows (phase, channel) of cells


cdef bint join_phases(const mx_conv_problem* p, const double* scalars, cells_t* c) noexcept nogil:
    """Whether joining pays, and what the cells are."""
    cdef int64_t phases = 1, taps = 1, window = 1, low, high
    cdef int i
    c.p, c.alpha, c.cells = p, scalars[0], p.x.len[0]
    for i in range(MX_SPATIAL):
        c.count[i] = ceil_div(p.x.len[i + 2], p.step[i])
        # Tap z of phase f sees y at (f + pad - z dilation) / stride from the cell, where that is whole.
        low = p.pad[i] - (p.w.len[i + 2] - 1) * p.dilation[i]
        high = p.step[i] - 1 + p.pad[i]
        c.low[i] = ceil_div(low, p.step[i]) if low >= 0 else -(-low // p.step[i])
        c.window[i] = high // p.step[i] - c.low[i] + 1
        c.cells *= c.count[i]
        phases *= p.step[i]
        window *= c.window[i]
        taps *= p.w.len[i + 2]
        if phases > 64 or window > 4096:
            return False
    return (scalars[1] == 0 and p.groups == 1 and phases > 1 and p.x.len[1] < kernels.mr
            and 2 * taps >= phases * window and c.cells * phases * p.x.len[1] <= CELL_BYTES // 8)


cdef void spread_task(void* context, int64_t index, int worker) noexcept nogil:
    """Write one row of x along w."""
    cdef const cells_t* c = <const cells_t*> context
    cdef const mx_conv_problem* p = c.p
    cdef int64_t h = index % p.x.len[3], d = index // p.x.len[3] % p.x.len[2]
    cdef int64_t plane = index // (p.x.len[3] * p.x.len[2]), ch = plane % p.x.len[1], n = plane // p.x.len[1]
    cdef int64_t at = n * p.x.stride[0] + ch * p.x.stride[1] + d * p.x.stride[2] + h * p.x.stride[3], w, phase, cell
    cdef mx_run run
    cell = ((n * c.count[0] + d // p.step[0]) * c.count[1] + h // p.step[1]) * c.count[2]
    for w in range(at_most(p.step[2], p.x.len[4])):
        phase = (d % p.step[0] * p.step[1] + h % p.step[1]) * p.step[2] + w
        run.lane, run.offset, run.stride = 0, 0, p.step[2] * p.x.stride[4]
        run.len = ceil_div(p.x.len[4] - w, p.step[2])
        kernels.store(c.out, p.x.type, p.rounding, at + w * p.x.stride[4], run.stride, 1, &run, 1,
                      c.sums + (phase * p.x.len[1] + ch) * c.cells + cell, c.alpha, 0)


cdef int multiply_cells(const mx_conv_problem* p, void** slots, int width, cells_t* c) noexcept nogil:
    cdef int64_t taps = c.window[0] * c.window[1] * c.window[2], k = p.w.len[0], channels = p.x.len[1]
    cdef int64_t rows = p.step[0] * p.step[1] * p.step[2] * channels, steps = taps * k, row, phase, ch, t, at, i
    cdef int64_t ones[3]
    cdef int64_t place[3]
    cdef int64_t first[3]
    cdef int axis, status
    cdef bint seen
    cdef gemm_t g
    cdef mx_tap* tap = <mx_tap*> malloc(taps * sizeof(mx_tap) + steps * sizeof(int64_t))
    cdef double* memory = <double*> calloc(rows * (steps + c.cells), sizeof(double))
    cdef int64_t* offset = <int64_t*> (tap + taps)
    if tap == NULL or memory == NULL:
        free(tap)
        free(memory)
        return ALLOC_FAILED
    c.out, c.sums = <char*> slots[0], memory + rows * steps
    for t in range(taps):
        set_tap(tap + t, &p.y, c.low[0] + t // (c.window[1] * c.window[2]), c.low[1] + t // c.window[2] % c.window[1],
                c.low[2] + t % c.window[2])
    for i in range(steps):
        offset[i] = i
    for row in range(rows):
        phase, ch = row // channels, row % channels
        first[0], first[1] = phase // (p.step[1] * p.step[2]), phase // p.step[2] % p.step[1]
        first[2] = phase % p.step[2]
        for t in range(taps):
            place[0], place[1], place[2] = tap[t].d, tap[t].h, tap[t].w
            at, seen = ch * p.w.stride[1], True
            for axis in range(MX_SPATIAL):
                i = first[axis] + p.pad[axis] - place[axis] * p.step[axis]
                seen = seen and i >= 0 and i % p.dilation[axis] == 0 and i // p.dilation[axis] < p.w.len[axis + 2]
                at += i // p.dilation[axis] * p.w.stride[axis + 2]
            if seen:
                kernels.load_row(<const char*> slots[1], p.w.type, at, p.w.stride[0], memory + row * steps + t * k, k)
    memset(&g, 0, sizeof(g))
    g.groups, g.alpha, g.width = 1, 1, width
    g.out, g.out_type, g.row_stride = <char*> c.sums, MX_DOUBLE, c.cells
    ones[0] = ones[1] = ones[2] = 1
    set_image(&g.b, MX_LANES_POSITIONS, &p.y, slots[2], c.count, ones, tap, taps, k, False)
    for axis in range(3):
        g.count[axis] = 1
    g.count[3], g.jump[3] = c.cells, 1
    g.a.kind, g.a.type, g.a.data = MX_DENSE, MX_DOUBLE, <const char*> memory
    g.a.lanes, g.a.steps, g.a.lane_stride, g.a.step_offset = rows, steps, steps, offset
    g.a.watch = g.b.watch = is_float(p.w.type)  # zeros meet everything here
    status = run_gemm(&g)
    if status == 0:
        run_tasks(spread_task, c, p.x.len[0] * channels * p.x.len[2] * p.x.len[3], width)
    free(tap)
    free(memory)
    return status


cdef int multiply_phases(const mx_conv_problem* p, void** slots, const double* scalars, int width) noexcept nogil:
    """Backward data: one product for each phase of the strides."""
    cdef int64_t taps = p.w.len[2] * p.w.len[3] * p.w.len[4]
    cdef int64_t first[3]
    cdef int64_t reached = 1
    cdef int status = 0, axis
    cdef bint cleared
    cdef cells_t cells
    cdef mx_tap* tap
    cdef int64_t* tap_offset
    if join_phases(p, scalars, &cells):
        return multiply_cells(p, slots, width, &cells)
    tap = <mx_tap*> malloc(taps * (sizeof(mx_tap) + sizeof(int64_t) * (1 + p.w.len[0] // p.groups)))
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
