# cython: cdivision=True
"""Dropout on the host: the masks of kernels/layers/dropout.h, which says where they come from.

A task has a range of pieces of rows.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from miopyx.problem._grid cimport grid_lines, grid_offset
from ._common cimport ALLOC_FAILED, at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport TASKS, acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks
from miopyx.values._types cimport MX_AXES, mx_dropout_problem, mx_grid
from miopyx.problem._dropout cimport (
    DROPOUT_GIVEN, DROPOUT_KEPT, DROPOUT_MASK, DROPOUT_PLACES, DROPOUT_STATES, DROPOUT_X, DROPOUT_Y,
    least_of, scale_of, walk_dropout,
)

cdef enum:
    LAST = MX_AXES - 1
    PIECE = 1024           # elements of a row at a time

cdef struct dropout_t:
    const mx_dropout_problem* p
    mx_grid grid               # tensors: the elements' numbers, x, y
    char* x
    char* y
    uint8_t* mask
    uint64_t seed, masks
    uint32_t least
    double scale
    int64_t lines, pieces, tasks
    double* rows               # for each worker PIECE numbers


cdef void dropout_task(void* context, int64_t task, int worker) noexcept nogil:
    cdef const dropout_t* d = <const dropout_t*> context
    cdef const mx_grid* g = &d.grid
    cdef int64_t units = d.lines * d.pieces, unit, line, first, n, i, number
    cdef double* row = d.rows + worker * PIECE
    cdef uint32_t words[4]
    cdef bint stays
    for unit in range(task * units // d.tasks, (task + 1) * units // d.tasks):
        line, first = unit // d.pieces, unit % d.pieces * PIECE
        n = at_most(PIECE, g.len[LAST] - first)
        kernels.load_row(d.x, d.p.x.type, grid_offset(g, 1, line) + first * g.stride[1][LAST], g.stride[1][LAST], row,
                         n)
        number = line * g.len[LAST] + first
        for i in range(n):
            if d.p.mask == DROPOUT_GIVEN:
                stays = d.mask[number + i] != 0
            else:
                if i == 0 or (number + i) % 4 == 0:
                    mx_philox(<uint64_t> ((number + i) // 4), d.masks, d.seed, words)
                stays = words[(number + i) % 4] >> 8 >= d.least
                if d.p.mask == DROPOUT_KEPT:
                    d.mask[number + i] = stays
            row[i] = row[i] * d.scale if stays else 0
        kernels.store_row(d.y, d.p.y.type, grid_offset(g, 2, line) + first * g.stride[2][LAST], g.stride[2][LAST], row,
                          n)


cdef int host_dropout(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_dropout_problem* p = <const mx_dropout_problem*> problem
    cdef uint64_t* states = <uint64_t*> slots[DROPOUT_STATES]
    cdef dropout_t d
    cdef unsigned arithmetic
    cdef int width
    d.p, d.x, d.y, d.mask = p, <char*> slots[DROPOUT_X], <char*> slots[DROPOUT_Y], <uint8_t*> slots[DROPOUT_MASK]
    d.least, d.scale, d.seed, d.masks = <uint32_t> least_of(p.p), scale_of(p.p), 0, 0
    walk_dropout(p, &d.grid)
    d.lines, d.pieces = grid_lines(&d.grid), ceil_div(d.grid.len[LAST], PIECE)
    d.tasks = at_most(d.lines * d.pieces, 4 * TASKS)
    width = acquire_threads(16.0 * d.lines * d.grid.len[LAST], threads)
    d.rows = <double*> malloc(width * PIECE * sizeof(double))
    if d.rows == NULL:
        release_threads(width)
        return ALLOC_FAILED
    if p.mask != DROPOUT_GIVEN:
        d.seed = states[0]
        d.masks = mx_take_mask(states, p.evolves) - d.seed
    arithmetic = default_arithmetic()
    run_tasks(dropout_task, &d, d.tasks, width)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(d.rows)
    if p.evolves:
        mx_tell_places(states, DROPOUT_PLACES)
    return 0


cdef int host_states(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef uint64_t* states = <uint64_t*> slots[DROPOUT_STATES]
    cdef uint64_t seed = <uint64_t> scalars[0] | <uint64_t> scalars[1] << 22 | <uint64_t> scalars[2] << 44
    cdef int64_t place
    for place in range(2 * DROPOUT_PLACES):
        states[place] = seed
    return 0
