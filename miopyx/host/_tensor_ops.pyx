# cython: cdivision=True
"""Element-wise operations on the host: rows as doubles, or as bits where nothing is computed."""

from libc.float cimport DBL_MAX, FLT_MAX
from libc.math cimport trunc
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from miopyx.problem._descriptors cimport type_size
from miopyx.problem._grid cimport fill_grid, grid_lines, grid_offset
from ._common cimport ALLOC_FAILED, at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport TASKS, acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks
from miopyx.values._types cimport (
    MX_BFLOAT16, MX_CAST_TENSOR, MX_FLOAT, MX_HALF, MX_INT8, MX_INT32, MX_OP_TENSOR, MX_SCALE_TENSOR, MX_SET_TENSOR,
    MX_TRANSFORM_TENSOR, mx_grid, mx_tensor, mx_tensor_problem,
)
from miopyx.problem._tensor_ops cimport TENSOR_CLAMP, TENSOR_COPY, TENSOR_IN_PLACE

ctypedef fused element_t:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

cdef enum:
    PIECE = 1024           # elements of a row that are worked on at a time: four rows of doubles fit the first cache
    TILE = 16              # of a transposition: a cache line of floats on both sides
    ADD = 0
    MUL = 1
    MIN = 2

# What tensors stand for in the grid.
cdef enum:
    C = 0
    A = 1
    B = 2

cdef struct tensor_t:
    const mx_tensor_problem* p
    mx_grid grid
    char* at[3]            # c, a, b
    int64_t type[3]
    double scalar[3]       # alpha1 or alpha, alpha2, beta
    uint64_t bits          # of a fill
    int64_t width          # bytes of an element of c
    int64_t lines, pieces, piece, tasks
    int turned             # the axis along which a is dense, where c is dense along the last one
    double* rows           # for each worker: three of PIECE


cdef void fill_row(element_t* c, int64_t step, int64_t n, element_t value) noexcept nogil:
    cdef int64_t i
    if step == 1:
        for i in range(n):
            c[i] = value
        return
    for i in range(n):
        c[i * step] = value


cdef void copy_row(element_t* c, int64_t c_step, const element_t* a, int64_t a_step, int64_t n) noexcept nogil:
    cdef int64_t i
    if c_step == 1 and a_step == 1:
        memcpy(c, a, n * sizeof(element_t))
        return
    for i in range(n):
        c[i * c_step] = a[i * a_step]


cdef void turn_block(element_t* c, int64_t c_step, const element_t* a, int64_t a_step, int64_t rows,
                     int64_t columns) noexcept nogil:
    """c[i c_step + j] = a[j a_step + i], tile by tile."""
    cdef int64_t tile, i, j
    for tile in range(ceil_div(columns, TILE)):
        for i in range(rows):
            for j in range(tile * TILE, at_most(tile * TILE + TILE, columns)):
                c[i * c_step + j] = a[j * a_step + i]


cdef void limit_row(double* row, int64_t n, int64_t type, bint clamp) noexcept nogil:
    """Let what is beyond a type be its nearest number.  NaN is 0 where there is none."""
    cdef double low, high
    cdef int64_t i
    if type == MX_INT8 or type == MX_INT32:
        if not clamp:
            return  # low bits are kept
        low = -128 if type == MX_INT8 else -2147483648.0
        high = 127 if type == MX_INT8 else 2147483647.0
        for i in range(n):
            row[i] = (high if row[i] > high else low if row[i] < low else trunc(row[i])) if row[i] == row[i] else 0
    elif clamp:
        high = 65504 if type == MX_HALF else 3.3895313892515355e38 if type == MX_BFLOAT16 \
            else FLT_MAX if type == MX_FLOAT else DBL_MAX
        for i in range(n):
            row[i] = high if row[i] > high else -high if row[i] < -high else row[i]


cdef void compute_row(const tensor_t* t, int64_t c_at, int64_t a_at, int64_t b_at, int64_t n, double* a) noexcept nogil:
    cdef const mx_grid* g = &t.grid
    cdef double* b = a + PIECE
    cdef double* c = b + PIECE
    cdef double alpha = t.scalar[0], alpha2 = t.scalar[1], beta = t.scalar[2]
    cdef int64_t i
    kernels.load_row(t.at[A], t.type[A], a_at, g.stride[A][4], a, n)
    if alpha != 1:
        for i in range(n):
            a[i] *= alpha
    if t.p.what == MX_OP_TENSOR:
        kernels.load_row(t.at[B], t.type[B], b_at, g.stride[B][4], b, n)
        if alpha2 != 1:
            for i in range(n):
                b[i] *= alpha2
        if t.p.op == ADD:
            for i in range(n):
                a[i] += b[i]
        elif t.p.op == MUL:
            for i in range(n):
                a[i] *= b[i]
        elif t.p.op == MIN:
            for i in range(n):
                a[i] = a[i] if a[i] < b[i] else b[i]
        else:
            for i in range(n):
                a[i] = a[i] if a[i] > b[i] else b[i]
    if beta != 0:
        kernels.load_row(t.at[C], t.type[C], c_at, g.stride[C][4], c, n)
        for i in range(n):
            a[i] += beta * c[i]
    if t.p.what != MX_CAST_TENSOR:
        if t.type[C] == MX_INT8 or t.type[C] == MX_INT32:
            limit_row(a, n, t.type[C], True)
    else:
        limit_row(a, n, t.type[C], t.p.flags & TENSOR_CLAMP != 0)
    kernels.store_row(t.at[C], t.type[C], c_at, g.stride[C][4], a, n)


cdef void move_row(const tensor_t* t, int64_t c_at, int64_t a_at, int64_t n) noexcept nogil:
    """Fill or copy a row."""
    cdef char* c = t.at[C] + c_at * t.width
    cdef char* a
    cdef int64_t c_step = t.grid.stride[C][4], a_step
    if t.p.what == MX_SET_TENSOR:
        if t.width == 1:
            fill_row[uint8_t](<uint8_t*> c, c_step, n, <uint8_t> t.bits)
        elif t.width == 2:
            fill_row[uint16_t](<uint16_t*> c, c_step, n, <uint16_t> t.bits)
        elif t.width == 4:
            fill_row[uint32_t](<uint32_t*> c, c_step, n, <uint32_t> t.bits)
        else:
            fill_row[uint64_t](<uint64_t*> c, c_step, n, t.bits)
        return
    a, a_step = t.at[A] + a_at * t.width, t.grid.stride[A][4]
    if t.width == 1:
        copy_row[uint8_t](<uint8_t*> c, c_step, <uint8_t*> a, a_step, n)
    elif t.width == 2:
        copy_row[uint16_t](<uint16_t*> c, c_step, <uint16_t*> a, a_step, n)
    elif t.width == 4:
        copy_row[uint32_t](<uint32_t*> c, c_step, <uint32_t*> a, a_step, n)
    else:
        copy_row[uint64_t](<uint64_t*> c, c_step, <uint64_t*> a, a_step, n)


cdef void rows_task(void* context, int64_t index, int worker) noexcept nogil:
    """A range of pieces of rows."""
    cdef const tensor_t* t = <const tensor_t*> context
    cdef const mx_grid* g = &t.grid
    cdef int64_t units = t.lines * t.pieces, unit, line, first, n
    cdef bint moves = t.p.what == MX_SET_TENSOR or t.p.flags & TENSOR_COPY != 0
    for unit in range(index * units // t.tasks, (index + 1) * units // t.tasks):
        line, first = unit // t.pieces, unit % t.pieces * t.piece
        n = at_most(t.piece, g.len[4] - first)
        if moves:
            move_row(t, grid_offset(g, C, line) + first * g.stride[C][4],
                     grid_offset(g, A, line) + first * g.stride[A][4], n)
        else:
            compute_row(t, grid_offset(g, C, line) + first * g.stride[C][4],
                        grid_offset(g, A, line) + first * g.stride[A][4],
                        grid_offset(g, B, line) + first * g.stride[B][4], n, t.rows + worker * 3 * PIECE)


cdef void turn_task(void* context, int64_t index, int worker) noexcept nogil:
    """A range of bands of TILE rows of c, all their columns; `pieces` bands make an image."""
    cdef const tensor_t* t = <const tensor_t*> context
    cdef const mx_grid* g = &t.grid
    cdef int64_t units = t.lines * t.pieces, unit, line, first, n
    cdef int64_t c_step = g.stride[C][t.turned], a_step = g.stride[A][4]
    cdef char* c
    cdef char* a
    for unit in range(index * units // t.tasks, (index + 1) * units // t.tasks):
        # The axis `turned` has length 1 in the lines that are counted here.
        line, first = unit // t.pieces, unit % t.pieces * t.piece
        n = at_most(t.piece, t.grid.len[t.turned] - first)
        c = t.at[C] + (line_offset(t, C, line) + first * c_step) * t.width
        a = t.at[A] + (line_offset(t, A, line) + first) * t.width
        if t.width == 1:
            turn_block[uint8_t](<uint8_t*> c, c_step, <uint8_t*> a, a_step, n, g.len[4])
        elif t.width == 2:
            turn_block[uint16_t](<uint16_t*> c, c_step, <uint16_t*> a, a_step, n, g.len[4])
        elif t.width == 4:
            turn_block[uint32_t](<uint32_t*> c, c_step, <uint32_t*> a, a_step, n, g.len[4])
        else:
            turn_block[uint64_t](<uint64_t*> c, c_step, <uint64_t*> a, a_step, n, g.len[4])


cdef int64_t line_offset(const tensor_t* t, int tensor, int64_t line) noexcept nogil:
    """As grid_offset, without the axis that is turned."""
    cdef int64_t at = 0
    cdef int axis
    for axis in range(3, -1, -1):
        if axis != t.turned:
            at += line % t.grid.len[axis] * t.grid.stride[tensor][axis]
            line //= t.grid.len[axis]
    return at


cdef int run(tensor_t* t, const mx_tensor* c, const mx_tensor* a, const mx_tensor* b, int threads) noexcept nogil:
    cdef const mx_tensor* tensors[3]
    cdef const mx_grid* g = &t.grid
    cdef int width, axis, count = 1
    cdef unsigned arithmetic
    cdef int64_t units
    cdef bint moves = t.p.what == MX_SET_TENSOR or t.p.flags & TENSOR_COPY != 0
    tensors[0] = c
    t.type[C], t.width = c.type, type_size(<int> c.type)
    if a != NULL:
        tensors[1], t.type[A], count = a, a.type, 2
    if b != NULL:
        tensors[2], t.type[B], count = b, b.type, 3
    fill_grid(&t.grid, tensors, count)
    t.lines, t.turned = grid_lines(g), -1
    if t.p.flags & TENSOR_COPY and g.stride[A][4] != 1 and g.stride[C][4] == 1:
        for axis in range(4):
            if g.len[axis] > 1 and g.stride[A][axis] == 1:
                t.turned = axis
    if t.turned >= 0:
        t.lines //= g.len[t.turned]
        t.piece = TILE
        t.pieces = ceil_div(g.len[t.turned], TILE)
    else:
        t.piece = 16 * PIECE if moves else PIECE
        t.pieces = ceil_div(g.len[4], t.piece)
    units = t.lines * t.pieces
    t.tasks = at_most(units, 4 * TASKS)
    width = acquire_threads(4.0 * t.lines * g.len[4] * (g.len[t.turned] if t.turned >= 0 else 1), threads)
    t.rows = NULL
    if not moves:
        t.rows = <double*> malloc(width * 3 * PIECE * sizeof(double))
        if t.rows == NULL:
            release_threads(width)
            return ALLOC_FAILED
    arithmetic = default_arithmetic()
    run_tasks(turn_task if t.turned >= 0 else rows_task, t, t.tasks, width)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(t.rows)
    return 0


cdef int host_tensor(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_tensor_problem* p = <const mx_tensor_problem*> problem
    cdef mx_tensor_problem filling
    cdef mx_tensor a, c
    cdef const mx_tensor* b = NULL
    cdef tensor_t t
    cdef int status
    cdef int64_t shared
    t.p = p
    t.at[A], t.at[B], t.at[C] = <char*> slots[0], <char*> slots[1], <char*> slots[2]
    t.scalar[0], t.scalar[1], t.scalar[2] = scalars[0], 1, 0
    t.bits = 0
    a, c = p.a, p.c
    if p.what == MX_OP_TENSOR:
        t.scalar[1], t.scalar[2], b = scalars[1], scalars[2], &p.b
    elif p.what == MX_TRANSFORM_TENSOR:
        t.scalar[2] = scalars[1]
    elif p.what == MX_SET_TENSOR:
        # Bits come in three numbers that a float holds exactly.
        t.bits = <uint64_t> scalars[0] | <uint64_t> scalars[1] << 22 | <uint64_t> scalars[2] << 44
        return run(&t, &c, NULL, NULL, threads)
    if p.what == MX_SCALE_TENSOR or p.flags & TENSOR_IN_PLACE:
        a, t.at[A] = c, t.at[C]
    if a.len[1] != c.len[1]:
        # Channels are added or left out.
        shared = at_most(a.len[1], c.len[1])
        if c.len[1] > shared:
            filling = p[0]
            filling.what, filling.flags = MX_SET_TENSOR, 0
            t.p = &filling
            t.at[C] += shared * c.stride[1] * type_size(<int> c.type)
            c.len[1] -= shared
            status = run(&t, &c, NULL, NULL, threads)
            if status != 0:
                return status
            t.p, t.at[C] = p, <char*> slots[2]
        a.len[1] = c.len[1] = shared
    return run(&t, &c, &a, b, threads)
