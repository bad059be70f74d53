# cython: cdivision=True
"""Softmax and its gradient on the host, in float64.

A task computes a block of neighbouring sets: its numbers are read set by set or place by place, whichever is denser in
memory, into a table with a row for each place of a set.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from miopyx.problem._grid cimport grid_lines, grid_offset
from ._common cimport ALLOC_FAILED, at_least, at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks
from miopyx.values._types cimport MX_AXES, MX_SOFTMAX_FORWARD, mx_grid, mx_softmax_problem
from miopyx.problem._softmax cimport LOG, SOFTMAX_DX, SOFTMAX_DY, SOFTMAX_X, SOFTMAX_Y, split_axes

cdef enum:
    LAST = MX_AXES - 1
    WIDEST = 64            # sets of a block


cdef struct softmax_t:
    mx_grid inside, outside   # tensors: the output, x or dy, y
    char* data[3]
    int64_t type, length, block, blocks
    bint forward, logarithm, by_set   # by_set: a set is denser than its neighbours
    double alpha, beta
    double* rows           # for each worker: three tables


cdef void read_table(const softmax_t* c, int t, int64_t line, int64_t first, int64_t wide,
                     double* table) noexcept nogil:
    """Read sets first ... first + wide - 1 of a line: table[place * wide + set], by_set table[set * length + place]."""
    cdef const mx_grid* inside = &c.inside
    cdef int64_t start = grid_offset(&c.outside, t, line) + first * c.outside.stride[t][LAST], i, j
    cdef int64_t row = inside.len[LAST]
    for i in range(grid_lines(inside)):
        if c.by_set:
            for j in range(wide):
                kernels.load_row(c.data[t], c.type,
                                 start + grid_offset(inside, t, i) + j * c.outside.stride[t][LAST],
                                 inside.stride[t][LAST], table + j * c.length + i * row, row)
        else:
            for j in range(row):
                kernels.load_row(c.data[t], c.type, start + grid_offset(inside, t, i) + j * inside.stride[t][LAST],
                                 c.outside.stride[t][LAST], table + (i * row + j) * wide, wide)


cdef void write_table(const softmax_t* c, int64_t line, int64_t first, int64_t wide, double* table,
                      double* old) noexcept nogil:
    """Write alpha * table + beta * output."""
    cdef const mx_grid* inside = &c.inside
    cdef int64_t start = grid_offset(&c.outside, 0, line) + first * c.outside.stride[0][LAST], i, j
    cdef int64_t row = inside.len[LAST]
    for i in range(wide * c.length):
        table[i] *= c.alpha
    if c.beta != 0:
        read_table(c, 0, line, first, wide, old)
        for i in range(wide * c.length):
            table[i] += c.beta * old[i]
    for i in range(grid_lines(inside)):
        if c.by_set:
            for j in range(wide):
                kernels.store_row(c.data[0], c.type,
                                  start + grid_offset(inside, 0, i) + j * c.outside.stride[0][LAST],
                                  inside.stride[0][LAST], table + j * c.length + i * row, row)
        else:
            for j in range(row):
                kernels.store_row(c.data[0], c.type, start + grid_offset(inside, 0, i) + j * inside.stride[0][LAST],
                                  c.outside.stride[0][LAST], table + (i * row + j) * wide, wide)


cdef void forward_set(const softmax_t* c, double* x, int64_t step) noexcept nogil:
    cdef double most = -INFINITY, total = 0
    cdef int64_t i
    for i in range(c.length):
        if x[i * step] > most:
            most = x[i * step]
    for i in range(c.length):
        x[i * step] -= most
        if c.logarithm:
            total += exp(x[i * step])
        else:
            x[i * step] = exp(x[i * step])
            total += x[i * step]
    if c.logarithm:
        total = log(total)
        for i in range(c.length):
            x[i * step] -= total
    else:
        for i in range(c.length):
            x[i * step] /= total


cdef void backward_set(const softmax_t* c, double* dy, const double* y, int64_t step) noexcept nogil:
    cdef double total = 0
    cdef int64_t i
    for i in range(c.length):
        total += dy[i * step] if c.logarithm else dy[i * step] * y[i * step]
    for i in range(c.length):
        if c.logarithm:
            dy[i * step] -= exp(y[i * step]) * total
        else:
            dy[i * step] = y[i * step] * (dy[i * step] - total)


cdef void softmax_task(void* context, int64_t index, int worker) noexcept nogil:
    cdef const softmax_t* c = <const softmax_t*> context
    cdef int64_t size = c.block * c.length, line = index // c.blocks, first = index % c.blocks * c.block
    cdef int64_t wide = at_most(c.block, c.outside.len[LAST] - first), j
    cdef int64_t step = 1 if c.by_set else wide, next_set = c.length if c.by_set else 1
    cdef double* table = c.rows + worker * 3 * size
    cdef double* second = table + size
    read_table(c, 1, line, first, wide, table)
    if not c.forward:
        read_table(c, 2, line, first, wide, second)
    for j in range(wide):
        if c.forward:
            forward_set(c, table + j * next_set, step)
        else:
            backward_set(c, table + j * next_set, second + j * next_set, step)
    write_table(c, line, first, wide, table, second + size)


cdef int host_softmax(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_softmax_problem* p = <const mx_softmax_problem*> problem
    cdef softmax_t c
    cdef unsigned arithmetic
    cdef int width
    cdef int64_t lines
    c.forward, c.logarithm = p.what == MX_SOFTMAX_FORWARD, p.algorithm == LOG
    c.alpha, c.beta = scalars[0], scalars[1]
    if c.forward:
        c.data[0], c.data[1], c.data[2] = <char*> slots[SOFTMAX_Y], <char*> slots[SOFTMAX_X], NULL
    else:
        c.data[0], c.data[1], c.data[2] = (<char*> slots[SOFTMAX_DX], <char*> slots[SOFTMAX_DY],
                                           <char*> slots[SOFTMAX_Y])
    split_axes(p, &c.inside, &c.outside)
    c.type, c.length = p.y.type, c.inside.len[LAST] * grid_lines(&c.inside)
    c.by_set = c.outside.len[LAST] == 1 or c.inside.stride[1][LAST] < c.outside.stride[1][LAST]
    c.block = at_most(c.outside.len[LAST], at_least(1, at_most(WIDEST, 16384 // c.length)))
    if c.block < 8 and c.length <= 1 << 16 and not c.by_set:  # reading sets beside each other uses whole cache lines
        c.block = at_most(c.outside.len[LAST], 8)
    c.blocks = ceil_div(c.outside.len[LAST], c.block)
    lines = grid_lines(&c.outside)
    width = acquire_threads(32.0 * lines * c.outside.len[LAST] * c.length, threads)
    c.rows = <double*> malloc(3 * width * c.block * c.length * sizeof(double))
    if c.rows == NULL:
        release_threads(width)
        return ALLOC_FAILED
    arithmetic = default_arithmetic()
    run_tasks(softmax_task, &c, lines * c.blocks, width)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(c.rows)
    return 0
