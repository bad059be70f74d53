# cython: cdivision=True
"""The gradient of indexing on the host, in float64; kernels/layers/getitem.cl says how."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

from miopyx.problem._descriptors cimport type_size
from miopyx.problem._getitem cimport (
    ITEM_COUNT, ITEM_DX, ITEM_DY, ITEM_ERROR, ITEM_INDEX, ITEM_OFFSET, fill_item, item_t,
)
from miopyx.problem._grid cimport grid_lines, grid_offset
from miopyx.values._types cimport MX_INT64, mx_slots_problem
from ._common cimport ALLOC_FAILED, at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport TASKS, acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks

cdef enum:
    PIECE = 512            # elements of a row that are summed at a time


cdef struct run_t:
    item_t item
    char* dx
    const char* dy
    int64_t type, tasks, outers, inners
    bint indexed
    int64_t* places
    int64_t* links
    int64_t* heads
    double* numbers        # for each worker two of PIECE


cdef void add_task(void* context, int64_t index, int worker) noexcept nogil:
    cdef const run_t* c = <const run_t*> context
    cdef const item_t* item = &c.item
    cdef double* total = c.numbers + 2 * worker * <int> PIECE
    cdef double* row = total + PIECE
    cdef int64_t units = item.count * c.outers * c.inners, unit, inner, outer, item_at, next, to, from_
    cdef int64_t place, piece, first, n, i
    cdef int k
    for unit in range(index * units // c.tasks, (index + 1) * units // c.tasks):
        inner, outer, item_at = unit % c.inners, unit // c.inners % c.outers, unit // c.inners // c.outers
        to = grid_offset(&item.inner, 0, inner) + grid_offset(&item.outer, 0, outer // item.outer.len[4])
        to += outer % item.outer.len[4] * item.outer.stride[0][4]
        from_ = grid_offset(&item.inner, 1, inner) + grid_offset(&item.outer, 1, outer // item.outer.len[4])
        from_ += outer % item.outer.len[4] * item.outer.stride[1][4]
        if c.indexed:
            place = c.places[item_at]
            if place < 0 or c.heads[place] != item_at:
                continue
            for k in range(4, -1, -1):
                if item.len[k] > 0:
                    to += place % item.len[k] * item.stride[k]
                    place //= item.len[k]
        for piece in range(ceil_div(item.inner.len[4], PIECE)):
            first = piece * PIECE
            n = at_most(PIECE, item.inner.len[4] - first)
            kernels.load_row(c.dx, c.type, to + first * item.inner.stride[0][4], item.inner.stride[0][4], total, n)
            next = item_at
            while next >= 0:
                kernels.load_row(c.dy, c.type, from_ + next * item.dy_step + first * item.inner.stride[1][4],
                                 item.inner.stride[1][4], row, n)
                for i in range(n):
                    total[i] += row[i]
                next = c.links[next] if c.indexed else -1
            kernels.store_row(c.dx, c.type, to + first * item.inner.stride[0][4], item.inner.stride[0][4], total, n)


cdef void find_places(run_t* c, const mx_slots_problem* p, void** slots) noexcept nogil:
    """The lists of those that add to a place, in their order."""
    cdef int64_t at, value, place
    cdef int k
    cdef bint wrong
    for place in range(c.item.places):
        c.heads[place] = -1
    for at in range(c.item.count - 1, -1, -1):
        place, wrong = 0, False
        for k in range(<int> p.number[<int> ITEM_COUNT]):
            if p.t[<int> ITEM_INDEX].type == MX_INT64:
                value = (<int64_t*> slots[<int> ITEM_INDEX + k])[at * c.item.index_stride[k]]
            else:
                value = (<int32_t*> slots[<int> ITEM_INDEX + k])[at * c.item.index_stride[k]]
            if value < 0:
                value += c.item.len[k]
            if value < 0 or value >= c.item.len[k]:
                (<int32_t*> slots[<int> ITEM_ERROR])[k * p.t[<int> ITEM_ERROR].stride[0]] = -1
                wrong = True
            place = place * c.item.len[k] + value
        c.places[at] = -1 if wrong else place
        if not wrong:
            c.links[at] = c.heads[place]
            c.heads[place] = at


cdef int host_getitem(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_slots_problem* p = <const mx_slots_problem*> problem
    cdef run_t c
    cdef int width
    cdef unsigned arithmetic
    cdef int64_t units
    fill_item(p, &c.item)
    c.type, c.indexed = p.t[<int> ITEM_DX].type, p.number[<int> ITEM_COUNT] > 0
    c.dx = <char*> slots[<int> ITEM_DX] + p.number[<int> ITEM_OFFSET] * type_size(<int> c.type)
    c.dy = <const char*> slots[<int> ITEM_DY]
    c.outers, c.inners = grid_lines(&c.item.outer) * c.item.outer.len[4], grid_lines(&c.item.inner)
    units = c.item.count * c.outers * c.inners
    c.tasks = at_most(units, 4 * TASKS)
    width = acquire_threads(units * c.item.inner.len[4] * 4.0, threads)
    c.numbers = <double*> malloc(2 * width * <int> PIECE * sizeof(double))
    c.places = <int64_t*> malloc((2 * c.item.count + c.item.places) * sizeof(int64_t)) if c.indexed else NULL
    if c.numbers == NULL or (c.indexed and c.places == NULL):
        release_threads(width)
        free(c.numbers)
        free(c.places)
        return ALLOC_FAILED
    if c.indexed:
        c.links = c.places + c.item.count
        c.heads = c.links + c.item.count
        find_places(&c, p, slots)
    arithmetic = default_arithmetic()
    run_tasks(add_task, &c, c.tasks, width)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(c.numbers)
    free(c.places)
    return 0
