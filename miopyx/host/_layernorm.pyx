# cython: cdivision=True
"""Layer norm, RMS norm and group norm on the host, and their gradients, in float64.

A task computes a range of rows, which it reads piece by piece.  Backward each task sums what its rows give to the
gradients of weights and biases; the sums are added up in the order of the tasks, which depend on the problem alone.
"""

from libc.math cimport sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from ._common cimport ALLOC_FAILED, at_least, at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport TASKS, acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks
from miopyx.values._types cimport MX_NORM_BACKWARD, mx_layernorm_problem
from miopyx.problem._layernorm cimport (
    LN_BACK_DB, LN_BACK_DW, LN_BACK_DX, LN_BACK_DY, LN_BACK_MEAN, LN_BACK_RSTD, LN_BACK_WEIGHT, LN_BACK_X, LN_BACK_X2,
    LN_BIAS, LN_MEAN, LN_RSTD, LN_WEIGHT, LN_X, LN_X2, LN_Y, has,
)

cdef enum:
    PIECE = 2048           # elements of a row that are converted at a time
    LONGEST = 1 << 14      # elements of a row that is converted once
    ROWS = 64              # rows of a task at most, forward


cdef struct norm_t:
    const mx_layernorm_problem* p
    char* x
    char* x2
    char* weight
    char* bias
    char* y                # dx backward
    char* dy
    char* mean
    char* rstd
    double epsilon
    int64_t tasks, columns, room
    double* weights        # all of them, and biases, in float64; NULL for none
    double* biases
    double* rows           # for each worker `room` numbers, two arrays backward and one more
    double* sums           # for each task those of dw and of db; NULL: neither is wanted
    bint dw, db


cdef inline void load(const norm_t* c, int64_t at, double* row, double* other, int64_t n) noexcept nogil:
    """x, or x + x2."""
    cdef int64_t i
    kernels.load_row(c.x, c.p.x.type, at, 1, row, n)
    if c.x2 != NULL:
        kernels.load_row(c.x2, c.p.x.type, at, 1, other, n)
        for i in range(n):
            row[i] += other[i]


cdef inline double sum_of(const double* v, int64_t n) noexcept nogil:
    cdef double s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0
    cdef int64_t i
    for i in range(0, n - 7, 8):
        s0 += v[i]
        s1 += v[i + 1]
        s2 += v[i + 2]
        s3 += v[i + 3]
        s4 += v[i + 4]
        s5 += v[i + 5]
        s6 += v[i + 6]
        s7 += v[i + 7]
    for i in range(n - n % 8, n):
        s0 += v[i]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


cdef inline double squares_of(const double* v, double m, int64_t n) noexcept nogil:
    cdef double s0 = 0, s1 = 0, s2 = 0, s3 = 0
    cdef int64_t i
    for i in range(0, n - 3, 4):
        s0 += (v[i] - m) * (v[i] - m)
        s1 += (v[i + 1] - m) * (v[i + 1] - m)
        s2 += (v[i + 2] - m) * (v[i + 2] - m)
        s3 += (v[i + 3] - m) * (v[i + 3] - m)
    for i in range(n - n % 4, n):
        s0 += (v[i] - m) * (v[i] - m)
    return (s0 + s1) + (s2 + s3)


cdef inline int64_t weight_run(const norm_t* c, int64_t r, int64_t from_, int64_t end, int64_t* at) noexcept nogil:
    """Elements of row r from `from_` on that have consecutive weights, or one (spatial); `at` is the first weight."""
    cdef int64_t spatial = c.p.spatial, channel
    at[0] = r % c.p.groups * (c.p.length // spatial)
    if spatial == 1:
        at[0] += from_
        return end - from_
    channel = from_ // spatial
    at[0] += channel
    return at_most(end, (channel + 1) * spatial) - from_


cdef void forward_row(const norm_t* c, int64_t r, double* row, double* other) noexcept nogil:
    cdef const mx_layernorm_problem* p = c.p
    cdef int64_t n = p.length, start = r * n, at, i, j, run, first
    cdef bint whole = n <= LONGEST
    cdef int64_t piece = n if whole else <int64_t> PIECE, pieces = ceil_div(n, piece), count, k
    cdef double m = 0, s = 0, w, b
    if not p.rms:
        for k in range(pieces):
            at = k * piece
            count = at_most(piece, n - at)
            load(c, start + at, row, other, count)
            m += sum_of(row, count)
        m /= n
    elif whole:
        load(c, start, row, other, n)
    for k in range(pieces):
        at = k * piece
        count = at_most(piece, n - at)
        if not whole:
            load(c, start + at, row, other, count)
        s += squares_of(row, m, count)
    s = 1 / sqrt(s / n + c.epsilon)
    if c.mean != NULL:
        kernels.store_row(c.mean, p.mean.type, r, 1, &m, 1)
    if c.rstd != NULL:
        kernels.store_row(c.rstd, p.rstd.type, r, 1, &s, 1)
    for k in range(pieces):
        at = k * piece
        count = at_most(piece, n - at)
        if not whole:
            load(c, start + at, row, other, count)
        i = 0
        while i < count:
            run = weight_run(c, r, at + i, at + count, &first)
            if p.spatial > 1:
                w = c.weights[first] if c.weights != NULL else 1
                b = c.biases[first] if c.biases != NULL else 0
                for j in range(i, i + run):
                    row[j] = (row[j] - m) * s * w + b
            elif c.weights != NULL and c.biases != NULL:
                for j in range(run):
                    row[j] = (row[j] - m) * s * c.weights[first + j] + c.biases[first + j]
            else:
                for j in range(run):
                    row[j] = (row[j] - m) * s
                for j in range(run if c.weights != NULL else 0):
                    row[j] *= c.weights[first + j]
                for j in range(run if c.biases != NULL else 0):
                    row[j] += c.biases[first + j]
            i += run
        kernels.store_row(c.y, p.x.type, start + at, 1, row, count)


cdef void backward_row(const norm_t* c, int64_t r, double* row, double* dy, double* other, double* dw,
                       double* db) noexcept nogil:
    """`dw` and `db` are this task's sums, NULL for none."""
    cdef const mx_layernorm_problem* p = c.p
    cdef int64_t n = p.length, start = r * n, at, i, j, run, first
    cdef bint whole = n <= LONGEST
    cdef int64_t piece = n if whole else <int64_t> PIECE, pieces = ceil_div(n, piece), count, k
    cdef double m = 0, s, w, a0, a1, b0, b1, a = 0, b = 0, g
    cdef double* x
    cdef double* d
    if not p.rms:
        kernels.load_row(c.mean, p.mean.type, r, 1, &m, 1)
    kernels.load_row(c.rstd, p.rstd.type, r, 1, &s, 1)
    for k in range(pieces):
        at = k * piece
        count = at_most(piece, n - at)
        load(c, start + at, row, other, count)
        kernels.load_row(c.dy, p.x.type, start + at, 1, dy, count)
        for i in range(count):
            row[i] = (row[i] - m) * s
        i = 0
        while i < count:
            run = weight_run(c, r, at + i, at + count, &first)
            x, d = row + i, dy + i
            if dw != NULL and p.spatial == 1:
                for j in range(run):
                    dw[first + j] += d[j] * x[j]
            if db != NULL and p.spatial == 1:
                for j in range(run):
                    db[first + j] += d[j]
            if c.weights != NULL and p.spatial == 1:
                for j in range(run):
                    d[j] *= c.weights[first + j]
            a0 = a1 = b0 = b1 = 0
            for j in range(0, run - 1, 2):
                a0 += d[j]
                a1 += d[j + 1]
                b0 += d[j] * x[j]
                b1 += d[j + 1] * x[j + 1]
            if run % 2:
                a0 += d[run - 1]
                b0 += d[run - 1] * x[run - 1]
            a0 += a1
            b0 += b1
            if p.spatial > 1:
                if dw != NULL:
                    dw[first] += b0
                if db != NULL:
                    db[first] += a0
                if c.weights != NULL:
                    w = c.weights[first]
                    a0 *= w
                    b0 *= w
                    for j in range(run):
                        d[j] *= w
            a += a0
            b += b0
            i += run
    a = 0 if p.rms else a / n
    b /= n
    for k in range(pieces):
        at = k * piece
        count = at_most(piece, n - at)
        if not whole:
            load(c, start + at, row, other, count)
            kernels.load_row(c.dy, p.x.type, start + at, 1, dy, count)
            for i in range(count):
                row[i] = (row[i] - m) * s
            i = 0
            while i < count and c.weights != NULL:
                run = weight_run(c, r, at + i, at + count, &first)
                for j in range(run):
                    dy[i + j] *= c.weights[first + j if p.spatial == 1 else first]
                i += run
        for i in range(count):
            g = dy[i] - a - row[i] * b
            dy[i] = g * s
        kernels.store_row(c.y, p.x.type, start + at, 1, dy, count)


cdef void norm_task(void* context, int64_t index, int worker) noexcept nogil:
    cdef const norm_t* c = <const norm_t*> context
    cdef double* row = c.rows + worker * 3 * c.room
    cdef double* dw = NULL
    cdef double* db = NULL
    cdef int64_t r
    if c.sums != NULL:
        if c.dw:
            dw = c.sums + 2 * index * c.columns
        if c.db:
            db = c.sums + (2 * index + 1) * c.columns
    for r in range(index * c.p.rows // c.tasks, (index + 1) * c.p.rows // c.tasks):
        if c.p.what == MX_NORM_BACKWARD:
            backward_row(c, r, row, row + c.room, row + 2 * c.room, dw, db)
        else:
            forward_row(c, r, row, row + c.room)


cdef void write_sums(norm_t* c, int which, char* to, int64_t type) noexcept nogil:
    """Add up the tasks' sums of dw (0) or db (1), and write them."""
    cdef double* total = c.sums + which * c.columns
    cdef double* part
    cdef int64_t i, t
    for t in range(1, c.tasks):
        part = c.sums + (2 * t + which) * c.columns
        for i in range(c.columns):
            total[i] += part[i]
    kernels.store_row(to, type, 0, 1, total, c.columns)


cdef int host_layernorm(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_layernorm_problem* p = <const mx_layernorm_problem*> problem
    cdef norm_t c
    cdef bint back = p.what == MX_NORM_BACKWARD
    cdef int64_t numbers
    cdef int width
    cdef unsigned arithmetic
    memset(&c, 0, sizeof(c))
    c.p, c.epsilon = p, scalars[0]
    if back:
        c.dy, c.x, c.y = <char*> slots[LN_BACK_DY], <char*> slots[LN_BACK_X], <char*> slots[LN_BACK_DX]
        c.x2 = <char*> slots[LN_BACK_X2] if has(p, LN_BACK_X2) else NULL
        c.weight = <char*> slots[LN_BACK_WEIGHT] if has(p, LN_BACK_WEIGHT) else NULL
        c.mean, c.rstd = <char*> slots[LN_BACK_MEAN], <char*> slots[LN_BACK_RSTD]
        c.dw, c.db = has(p, LN_BACK_DW), has(p, LN_BACK_DB)
    else:
        c.x, c.y = <char*> slots[LN_X], <char*> slots[LN_Y]
        c.x2 = <char*> slots[LN_X2] if has(p, LN_X2) else NULL
        c.weight = <char*> slots[LN_WEIGHT] if has(p, LN_WEIGHT) else NULL
        c.bias = <char*> slots[LN_BIAS] if has(p, LN_BIAS) else NULL
        c.mean = <char*> slots[LN_MEAN] if has(p, LN_MEAN) else NULL
        c.rstd = <char*> slots[LN_RSTD] if has(p, LN_RSTD) else NULL
    c.columns = p.groups * (p.length // p.spatial)
    c.room = p.length if p.length <= LONGEST else <int64_t> PIECE
    c.tasks = at_most(p.rows, at_least(TASKS, 0 if back else ceil_div(p.rows, ROWS)))
    c.tasks = at_least(1, at_most(c.tasks, p.rows * p.length // 4096))
    width = acquire_threads(p.rows * p.length * (12.0 if back else 8.0), threads)
    numbers = 3 * width * c.room + (c.columns if c.weight != NULL else 0) + (c.columns if c.bias != NULL else 0)
    if c.dw or c.db:
        numbers += 2 * c.tasks * c.columns
    c.rows = <double*> malloc(numbers * sizeof(double))
    if c.rows == NULL:
        release_threads(width)
        return ALLOC_FAILED
    arithmetic = default_arithmetic()
    numbers = 3 * width * c.room
    if c.weight != NULL:
        c.weights = c.rows + numbers
        kernels.load_row(c.weight, p.weight.type, 0, 1, c.weights, c.columns)
        numbers += c.columns
    if c.bias != NULL:
        c.biases = c.rows + numbers
        kernels.load_row(c.bias, p.bias.type, 0, 1, c.biases, c.columns)
        numbers += c.columns
    if c.dw or c.db:
        c.sums = c.rows + numbers
        memset(c.sums, 0, 2 * c.tasks * c.columns * sizeof(double))
    run_tasks(norm_task, &c, c.tasks, width)
    if c.dw:
        write_sums(&c, 0, <char*> slots[LN_BACK_DW], p.weight.type)
    if c.db:
        write_sums(&c, 1, <char*> slots[LN_BACK_DB], p.bias.type)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(c.rows)
    return 0
