# cython: cdivision=True
"""Reductions on the host, in float64.

A task has a block of neighbouring elements of c and a part of what becomes one of them.  It reads along the axis that
is denser in memory: a piece of the reduced elements at a time, or a row of as many elements as the block has.  The
parts' results are joined in their order; which parts there are depends on the problem alone.
"""

from libc.math cimport INFINITY, fabs, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

from miopyx.problem._grid cimport grid_lines, grid_offset
from ._common cimport ALLOC_FAILED, at_least, at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport TASKS, acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks
from miopyx.values._types cimport MX_AXES, mx_grid, mx_reduce_problem, mx_tensor
from miopyx.problem._reduce cimport (
    REDUCE_A, REDUCE_AMAX, REDUCE_AVG, REDUCE_C, REDUCE_INDEX, REDUCE_MAX, REDUCE_MIN, REDUCE_MUL,
    REDUCE_MUL_NO_ZEROS, REDUCE_NAN_FIRST, REDUCE_NAN_LEFT_OUT, REDUCE_NAN_WINS, REDUCE_NORM1, REDUCE_NORM2, has,
    is_extreme, split_reduction,
)

cdef enum:
    LAST = MX_AXES - 1
    PIECE = 1024           # numbers that are read at a time
    SHARE = 1 << 16        # reduced elements of a part


cdef struct reduce_t:
    const mx_reduce_problem* p
    mx_grid kept, reduced
    char* a
    char* c
    int32_t* index
    double alpha, beta
    int64_t count, length  # elements of c, and of a for each of them
    int64_t wide, blocks   # elements of c of a block, and blocks of a line of them
    int64_t parts, part
    bint across            # elements of c are denser than what becomes one of them
    double* rows           # for each worker: PIECE numbers that were read
    double* values         # for each part `count` results, and their flattened indices
    int64_t* places


cdef inline double identity(int64_t op) noexcept nogil:
    if op == REDUCE_MUL or op == REDUCE_MUL_NO_ZEROS:
        return 1
    if op == REDUCE_MIN:
        return INFINITY
    return -INFINITY if op == REDUCE_MAX or op == REDUCE_AMAX else 0


cdef inline bint is_product(int64_t op) noexcept nogil:
    return op == REDUCE_MUL or op == REDUCE_MUL_NO_ZEROS


cdef void prepare(const reduce_t* r, double* v, int64_t n) noexcept nogil:
    """What is done with a number before it is joined to others."""
    cdef int64_t i, op = r.p.op
    if op == REDUCE_AMAX or op == REDUCE_NORM1:
        for i in range(n):
            v[i] = fabs(v[i])
    elif op == REDUCE_NORM2:
        for i in range(n):
            v[i] *= v[i]
    elif op == REDUCE_MUL_NO_ZEROS:
        for i in range(n):
            v[i] = v[i] if v[i] != 0 else 1
    if r.p.nan == REDUCE_NAN_LEFT_OUT and not is_extreme(op):
        for i in range(n):
            v[i] = v[i] if v[i] == v[i] else identity(op)


cdef inline bint is_better(int64_t op, bint nan_wins, double v, int64_t i, double best, int64_t at) noexcept nogil:
    """Whether element i is the extreme rather than the best so far; of equal ones it is the first."""
    cdef bint sooner = i < at
    if nan_wins and (v != v or best != best):
        return v != v and (best == best or sooner)
    return v == best and sooner or (v < best if op == REDUCE_MIN else v > best)


cdef inline void join(const reduce_t* r, double v, int64_t i, double* best, int64_t* at) noexcept nogil:
    if is_product(r.p.op):
        best[0] *= v
    elif not is_extreme(r.p.op):
        best[0] += v
    elif is_better(r.p.op, r.p.nan == REDUCE_NAN_WINS, v, i, best[0], at[0]):
        best[0], at[0] = v, i


cdef double total_of(const double* v, int64_t n, bint product) noexcept nogil:
    """The sum, or the product, in eight chains."""
    cdef double s[8]
    cdef int64_t i
    cdef int j
    for j in range(8):
        s[j] = 1 if product else 0
    if product:
        for i in range(0, n - 7, 8):
            for j in range(8):
                s[j] *= v[i + j]
        for i in range(n - n % 8, n):
            s[i % 8] *= v[i]
        return ((s[0] * s[1]) * (s[2] * s[3])) * ((s[4] * s[5]) * (s[6] * s[7]))
    for i in range(0, n - 7, 8):
        for j in range(8):
            s[j] += v[i + j]
    for i in range(n - n % 8, n):
        s[i % 8] += v[i]
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))


cdef void reduce_along(const reduce_t* r, int64_t at, int64_t first, int64_t end, double* row, double* value,
                       int64_t* place) noexcept nogil:
    """Reduced elements first ... end - 1 of the element of c whose numbers begin at `at`."""
    cdef const mx_grid* g = &r.reduced
    cdef int64_t line, x, n, i, start, flat
    while first < end:
        line, x = first // g.len[LAST], first % g.len[LAST]
        n = at_most(at_most(g.len[LAST] - x, end - first), PIECE)
        start = at + grid_offset(g, 0, line) + x * g.stride[0][LAST]
        kernels.load_row(r.a, r.p.a.type, start, g.stride[0][LAST], row, n)
        prepare(r, row, n)
        if is_extreme(r.p.op):
            flat = grid_offset(g, 1, line) + x * g.stride[1][LAST]
            for i in range(n):
                join(r, row[i], flat + i * g.stride[1][LAST], value, place)
        else:
            join(r, total_of(row, n, is_product(r.p.op)), 0, value, place)
        first += n


cdef void reduce_across(const reduce_t* r, int64_t at, int64_t first, int64_t end, int64_t wide, double* row,
                        double* values, int64_t* places) noexcept nogil:
    """Reduced elements first ... end - 1 of `wide` neighbouring elements of c."""
    cdef const mx_grid* g = &r.reduced
    cdef int64_t line, x, i, flat
    for first in range(first, end):
        line, x = first // g.len[LAST], first % g.len[LAST]
        kernels.load_row(r.a, r.p.a.type, at + grid_offset(g, 0, line) + x * g.stride[0][LAST],
                         r.kept.stride[0][LAST], row, wide)
        prepare(r, row, wide)
        flat = grid_offset(g, 1, line) + x * g.stride[1][LAST]
        for i in range(wide):
            join(r, row[i], flat, values + i, places + i)


cdef void reduce_task(void* context, int64_t task, int worker) noexcept nogil:
    cdef const reduce_t* r = <const reduce_t*> context
    cdef int64_t part = task % r.parts, block = task // r.parts
    cdef int64_t line = block // r.blocks, from_c = block % r.blocks * r.wide, i
    cdef int64_t wide = at_most(r.wide, r.kept.len[LAST] - from_c)
    cdef int64_t first = part * r.part, end = at_most(r.length, first + r.part)
    cdef int64_t out = part * r.count + line * r.kept.len[LAST] + from_c
    cdef int64_t at = grid_offset(&r.kept, 0, line) + from_c * r.kept.stride[0][LAST]
    cdef double* values = r.values + out
    cdef int64_t* places = r.places + out
    cdef double* row = r.rows + worker * PIECE
    for i in range(wide):
        values[i], places[i] = identity(r.p.op), r.length
    if r.across:
        reduce_across(r, at, first, end, wide, row, values, places)
    else:
        for i in range(wide):
            reduce_along(r, at + i * r.kept.stride[0][LAST], first, end, row, values + i, places + i)


cdef void finish(const reduce_t* r, int64_t k) noexcept nogil:
    """Element k of c and its index, of the parts."""
    cdef const mx_grid* g = &r.kept
    cdef int64_t line = k // g.len[LAST], x = k % g.len[LAST], place = r.places[k], part, at
    cdef double value = r.values[k], other
    for part in range(1, r.parts):
        join(r, r.values[part * r.count + k], r.places[part * r.count + k], &value, &place)
    if r.p.op == REDUCE_AVG:
        value /= <double> r.length
    elif r.p.op == REDUCE_NORM2:
        value = sqrt(value)
    if r.p.nan == REDUCE_NAN_FIRST:
        kernels.load_row(r.a, r.p.a.type, grid_offset(g, 0, line) + x * g.stride[0][LAST], 1, &other, 1)
        if other != other:
            value, place = other, 0
    if r.c != NULL:
        at = grid_offset(g, 1, line) + x * g.stride[1][LAST]
        value *= r.alpha
        if r.beta != 0:
            kernels.load_row(r.c, r.p.c.type, at, 1, &other, 1)
            value += r.beta * other
        kernels.store_row(r.c, r.p.c.type, at, 1, &value, 1)
    if r.index != NULL:
        r.index[grid_offset(g, 2, line) + x * g.stride[2][LAST]] = <int32_t> (place if place < r.length else 0)


cdef void finish_task(void* context, int64_t task, int worker) noexcept nogil:
    cdef const reduce_t* r = <const reduce_t*> context
    cdef int64_t k
    for k in range(task * PIECE, at_most(task * PIECE + PIECE, r.count)):
        finish(r, k)


cdef int host_reduce(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_reduce_problem* p = <const mx_reduce_problem*> problem
    cdef const mx_tensor* result = &p.c if has(p, REDUCE_C) else &p.index
    cdef reduce_t r
    cdef unsigned arithmetic
    cdef int width, axis, status = 0
    cdef int64_t lines
    r.p, r.a, r.alpha, r.beta = p, <char*> slots[REDUCE_A], scalars[0], scalars[1]
    r.c = <char*> slots[REDUCE_C] if has(p, REDUCE_C) else NULL
    r.index = <int32_t*> slots[REDUCE_INDEX] if has(p, REDUCE_INDEX) else NULL
    split_reduction(p, &r.kept, &r.reduced)
    lines = grid_lines(&r.kept)
    r.count, r.length = lines * r.kept.len[LAST], 1
    for axis in range(MX_AXES):
        if result.len[axis] == 1:
            r.length *= p.a.len[axis]
    r.across = r.kept.len[LAST] > 1 and (r.reduced.len[LAST] == 1
                                         or r.kept.stride[0][LAST] < r.reduced.stride[0][LAST])
    r.parts = at_least(1, at_most(ceil_div(r.length, SHARE), ceil_div(4 * TASKS, r.count)))
    r.part = ceil_div(r.length, r.parts)
    if r.part > 0:
        r.parts = ceil_div(r.length, r.part)
    r.wide = at_most(r.kept.len[LAST], PIECE)
    while r.wide > 16 and lines * ceil_div(r.kept.len[LAST], r.wide) * r.parts < TASKS:
        r.wide = ceil_div(r.wide, 2)
    r.blocks = ceil_div(r.kept.len[LAST], r.wide)
    width = acquire_threads(4.0 * r.count * r.length, threads)
    r.rows = <double*> malloc(width * PIECE * sizeof(double))
    r.values = <double*> malloc(r.parts * r.count * sizeof(double))
    r.places = <int64_t*> malloc(r.parts * r.count * sizeof(int64_t))
    if r.rows == NULL or r.values == NULL or r.places == NULL:
        status = ALLOC_FAILED
    else:
        arithmetic = default_arithmetic()
        run_tasks(reduce_task, &r, lines * r.blocks * r.parts, width)
        run_tasks(finish_task, &r, ceil_div(r.count, PIECE), width)
        restore_arithmetic(arithmetic)
    release_threads(width)
    free(r.rows)
    free(r.values)
    free(r.places)
    return status
