# cython: cdivision=True
"""The k-th smallest number along an axis on the host: by the bytes of keys, from the highest one on, among those
numbers that still count."""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from miopyx.problem._grid cimport grid_lines, grid_offset
from miopyx.problem._kthvalue cimport KTH_AXIS, KTH_INDICES, KTH_K, KTH_X, KTH_Y, fill_rows
from miopyx.values._types cimport mx_grid, mx_slots_problem
from ._common cimport ALLOC_FAILED, at_most
from ._kernels cimport kernels
from ._pool cimport TASKS, acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks


cdef struct kth_t:
    mx_grid grid
    char* x
    char* y
    int64_t* indices
    int64_t type, length, step, k, rows, tasks
    double* numbers        # for each worker twice `length`: a row, and keys


cdef inline uint64_t key_of(double value) noexcept nogil:
    cdef uint64_t bits
    if value != value:
        return <uint64_t> -1
    if value == 0:
        return <uint64_t> 1 << 63
    memcpy(&bits, &value, 8)
    return ~bits if bits >> 63 else bits | <uint64_t> 1 << 63


cdef void kth_task(void* context, int64_t index, int worker) noexcept nogil:
    cdef const kth_t* c = <const kth_t*> context
    cdef double* row = c.numbers + 2 * worker * c.length
    cdef uint64_t* keys = <uint64_t*> (row + c.length)
    cdef int64_t counts[256]
    cdef int64_t r, line, last, i, n, rest
    cdef uint64_t byte, key = 0
    cdef int shift
    for r in range(index * c.rows // c.tasks, (index + 1) * c.rows // c.tasks):
        last, line = r % c.grid.len[4], r // c.grid.len[4]
        kernels.load_row(c.x, c.type, grid_offset(&c.grid, 0, line) + last * c.grid.stride[0][4], c.step, row, c.length)
        for i in range(c.length):
            keys[i] = key_of(row[i])
        n, rest = c.length, c.k
        for shift in range(56, -8, -8):
            memset(counts, 0, sizeof(counts))
            for i in range(n):
                counts[keys[i] >> shift & 255] += 1
            byte = 0
            while counts[byte] < rest:
                rest -= counts[byte]
                byte += 1
            last = 0  # those that still count come first
            for i in range(n):
                if keys[i] >> shift & 255 == byte:
                    keys[last] = keys[i]
                    last += 1
            n = last
        key = keys[0]
        i = 0
        while key_of(row[i]) != key:
            i += 1
        last = r % c.grid.len[4]
        kernels.store_row(c.y, c.type, grid_offset(&c.grid, 1, line) + last * c.grid.stride[1][4], 1, row + i, 1)
        c.indices[grid_offset(&c.grid, 2, line) + last * c.grid.stride[2][4]] = i


cdef int host_kth(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_slots_problem* p = <const mx_slots_problem*> problem
    cdef kth_t c
    cdef int width
    cdef unsigned arithmetic
    fill_rows(p, &c.grid)
    c.x, c.y, c.indices = <char*> slots[<int> KTH_X], <char*> slots[<int> KTH_Y], <int64_t*> slots[<int> KTH_INDICES]
    c.type, c.k = p.t[<int> KTH_X].type, p.number[<int> KTH_K]
    c.length, c.step = p.t[<int> KTH_X].len[p.number[<int> KTH_AXIS]], p.t[<int> KTH_X].stride[p.number[<int> KTH_AXIS]]
    c.rows = grid_lines(&c.grid) * c.grid.len[4]
    c.tasks = at_most(c.rows, 4 * TASKS)
    width = acquire_threads(c.rows * c.length * 20.0, threads)
    c.numbers = <double*> malloc(2 * width * c.length * sizeof(double))
    if c.numbers == NULL:
        release_threads(width)
        return ALLOC_FAILED
    arithmetic = default_arithmetic()
    run_tasks(kth_task, &c, c.tasks, width)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(c.numbers)
    return 0
