# cython: cdivision=True
"""Multi-margin loss on the host, in float64: rows in pieces, then the sum of their losses."""

from libc.math cimport NAN
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from miopyx.problem._multimargin cimport MULTI_P, MULTI_REDUCTION, MULTI_TARGET, MULTI_WEIGHT, MULTI_X, MULTI_Y
from miopyx.values._types cimport mx_slots_problem
from ._common cimport ALLOC_FAILED, at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport TASKS, acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks

cdef enum:
    PIECE = 1024           # classes that are read at a time
    NONE = 0
    MEAN = 2


cdef struct margin_t:
    const mx_slots_problem* p
    void** slots
    int64_t rows, classes, tasks
    double margin
    double* loss           # of each row
    double* numbers        # for each worker PIECE


cdef void margin_task(void* context, int64_t index, int worker) noexcept nogil:
    cdef const margin_t* c = <const margin_t*> context
    cdef const mx_slots_problem* p = c.p
    cdef double* row = c.numbers + worker * <int> PIECE
    cdef const int64_t* stride = p.t[<int> MULTI_X].stride
    cdef const char* x = <const char*> c.slots[<int> MULTI_X]
    cdef int64_t n, piece, first, count, i, target
    cdef double base, weight, total, t
    for n in range(index * c.rows // c.tasks, (index + 1) * c.rows // c.tasks):
        target = (<int64_t*> c.slots[<int> MULTI_TARGET])[n * p.t[<int> MULTI_TARGET].stride[0]]
        if target < 0 or target >= c.classes:
            c.loss[n] = NAN
            continue
        kernels.load_row(x, p.t[<int> MULTI_X].type, n * stride[0] + target * stride[1], 1, &base, 1)
        kernels.load_row(<const char*> c.slots[<int> MULTI_WEIGHT], p.t[<int> MULTI_WEIGHT].type,
                         target * p.t[<int> MULTI_WEIGHT].stride[0], 1, &weight, 1)
        total = 0
        for piece in range(ceil_div(c.classes, PIECE)):
            first = piece * PIECE
            count = at_most(PIECE, c.classes - first)
            kernels.load_row(x, p.t[<int> MULTI_X].type, n * stride[0] + first * stride[1], stride[1], row, count)
            for i in range(count):
                t = c.margin - base + row[i]
                if t < 0 or first + i == target:
                    continue
                total += t * t if p.number[<int> MULTI_P] == 2 else t
        c.loss[n] = weight * total / c.classes


cdef int host_multimargin(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_slots_problem* p = <const mx_slots_problem*> problem
    cdef margin_t c
    cdef int width
    cdef unsigned arithmetic
    cdef double total = 0
    cdef int64_t n
    c.p, c.slots, c.margin = p, slots, scalars[0]
    c.rows, c.classes = p.t[<int> MULTI_X].len[0], p.t[<int> MULTI_X].len[1]
    c.tasks = at_most(c.rows, 4 * TASKS)
    width = acquire_threads(c.rows * c.classes * 6.0, threads)
    c.loss = <double*> malloc((c.rows + width * <int> PIECE) * sizeof(double))
    if c.loss == NULL:
        release_threads(width)
        return ALLOC_FAILED
    c.numbers = c.loss + c.rows
    arithmetic = default_arithmetic()
    run_tasks(margin_task, &c, c.tasks, width)
    if p.number[<int> MULTI_REDUCTION] == NONE:
        kernels.store_row(<char*> slots[<int> MULTI_Y], p.t[<int> MULTI_Y].type, 0, p.t[<int> MULTI_Y].stride[0],
                          c.loss, c.rows)
    else:
        for n in range(c.rows):
            total += c.loss[n]
        if p.number[<int> MULTI_REDUCTION] == MEAN:
            total /= c.rows
        kernels.store_row(<char*> slots[<int> MULTI_Y], p.t[<int> MULTI_Y].type, 0, 1, &total, 1)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(c.loss)
    return 0
