# cython: cdivision=True
"""Biases on the host: y + b, and the sum of y over the axes that b lacks."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from miopyx._reference._common cimport ALLOC_FAILED, at_least, at_most
from miopyx._reference._kernels cimport kernels
from miopyx._reference._memory cimport Memory, bind, check_tensor
from miopyx._reference._pool cimport (
    TASKS, acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks,
)
from miopyx._types cimport MX_AXES, MX_BACKWARD_DATA, MX_FORWARD, mx_bias_problem, mx_tensor

from miopyx.errors import AllocFailedError, BadParmError


cdef struct bias_t:
    const mx_bias_problem* p
    char* y
    char* b
    double alpha, beta
    int axis                   # along which rows are read
    int64_t row                # their length
    double* rows               # for each worker: two of them
    int64_t count[5]           # axes that a task walks through, row by row; 1 for the others
    int64_t lines, chunks      # backward: rows of a sum, and in how many parts it is cut
    double* partials


cdef int64_t offset_at(const mx_tensor* t, const int64_t* count, int64_t index) noexcept nogil:
    """The element offset of position `index` of the grid `count`; axes of length 1 in t stay where they are."""
    cdef int64_t at = 0, position
    cdef int axis
    for axis in range(MX_AXES - 1, -1, -1):
        position, index = index % count[axis], index // count[axis]
        if t.len[axis] > 1:
            at += position * t.stride[axis]
    return at


cdef void add_task(void* context, int64_t index, int worker) noexcept nogil:
    """Add the bias to one row of y."""
    cdef const bias_t* c = <const bias_t*> context
    cdef const mx_tensor* y = &c.p.y
    cdef const mx_tensor* b = &c.p.b
    cdef int64_t at = offset_at(y, c.count, index), i
    cdef double* row = c.rows + worker * 2 * c.row
    cdef double* bias = row + c.row
    kernels.load_row(c.y, y.type, at, y.stride[c.axis], row, c.row)
    kernels.load_row(c.b, b.type, offset_at(b, c.count, index), b.stride[c.axis] if b.len[c.axis] > 1 else 0, bias,
                     c.row)
    for i in range(c.row):
        bias[i] = c.alpha * (row[i] + bias[i])
        if c.beta != 0:
            bias[i] += c.beta * row[i]
    kernels.store_row(c.y, y.type, at, y.stride[c.axis], bias, c.row)


cdef void sum_rows_task(void* context, int64_t index, int worker) noexcept nogil:
    """One part of the sum for one element of b."""
    cdef const bias_t* c = <const bias_t*> context
    cdef const mx_tensor* y = &c.p.y
    cdef int64_t start = offset_at(y, c.p.b.len, index // c.chunks), chunk = index % c.chunks, line, i
    cdef double* row = c.rows + worker * 2 * c.row
    cdef double s0 = 0, s1 = 0, s2 = 0, s3 = 0
    for line in range(chunk * c.lines // c.chunks, (chunk + 1) * c.lines // c.chunks):
        kernels.load_row(c.y, y.type, start + offset_at(y, c.count, line), y.stride[c.axis], row, c.row)
        for i in range(0, c.row - 3, 4):
            s0 += row[i]
            s1 += row[i + 1]
            s2 += row[i + 2]
            s3 += row[i + 3]
        for i in range(c.row - c.row % 4, c.row):
            s0 += row[i]
    c.partials[index] = (s0 + s1) + (s2 + s3)


cdef void set_rows(bias_t* c, bint summed_only) noexcept nogil:
    """Choose the axis of rows, the densest one of some length, else the longest, and the axes left to walk through."""
    cdef const mx_tensor* y = &c.p.y
    cdef const mx_tensor* b = &c.p.b
    cdef int axis, best = -1
    for axis in range(MX_AXES - 1, -1, -1):
        c.count[axis] = 1 if summed_only and b.len[axis] > 1 else y.len[axis]
        if c.count[axis] >= 8 and (best < 0 or y.stride[axis] < y.stride[best]):
            best = axis
    if best < 0:
        best = MX_AXES - 1
        for axis in range(MX_AXES - 1, -1, -1):
            if c.count[axis] > c.count[best]:
                best = axis
    c.axis, c.row = best, c.count[best]
    c.count[best] = 1


cdef int host_bias(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_bias_problem* p = <const mx_bias_problem*> problem
    cdef int64_t elements = 1, sums = 1, lines = 1, i, j, at
    cdef int axis, width
    cdef unsigned arithmetic
    cdef double total, old
    cdef bias_t c
    c.p, c.y, c.b, c.alpha, c.beta = p, <char*> slots[2], <char*> slots[0], scalars[0], scalars[1]
    set_rows(&c, p.direction != MX_FORWARD)
    for axis in range(MX_AXES):
        elements *= p.y.len[axis]
        sums *= p.b.len[axis]
        lines *= c.count[axis]
    c.lines = lines
    # Few sums are cut into parts, so that several threads find work.
    c.chunks = at_least(1, at_most(at_most(TASKS // sums, lines), elements // 65536))
    width = acquire_threads(elements * 8.0, threads)
    c.rows = <double*> malloc((2 * width * c.row + sums * c.chunks) * sizeof(double))
    if c.rows == NULL:
        release_threads(width)
        return ALLOC_FAILED
    c.partials = c.rows + 2 * width * c.row
    arithmetic = default_arithmetic()
    if p.direction == MX_FORWARD:
        run_tasks(add_task, &c, lines, width)
    else:
        run_tasks(sum_rows_task, &c, sums * c.chunks, width)
        for i in range(sums):
            total = c.partials[i * c.chunks]
            for j in range(1, c.chunks):
                total += c.partials[i * c.chunks + j]
            total *= c.alpha
            at = offset_at(&p.b, p.b.len, i)
            if c.beta != 0:
                kernels.load_row(c.b, p.b.type, at, 0, &old, 1)
                total += c.beta * old
            kernels.store_row(c.b, p.b.type, at, 1, &total, 1)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(c.rows)
    return 0


def run_bias(bytes problem not None, b, y, double alpha=1.0, double beta=0.0, int threads=0):
    """Add a bias to y (direction 0) or sum y into a bias (direction 1); arguments as for `_conv.run_conv`."""
    cdef mx_bias_problem p
    cdef void* slots[4]
    cdef double scalars[2]
    cdef int status, i
    if len(problem) != sizeof(mx_bias_problem):
        raise BadParmError("not an mx_bias_problem", "problem", f"{len(problem)} bytes",
                           f"{sizeof(mx_bias_problem)} bytes")
    memcpy(&p, <const char*> problem, sizeof(p))
    if p.direction != MX_FORWARD and p.direction != MX_BACKWARD_DATA:
        raise BadParmError("unknown direction", "direction", p.direction, "0, 1")
    check_tensor(&p.y, "y", p.direction == MX_FORWARD)
    check_tensor(&p.b, "b", p.direction == MX_BACKWARD_DATA)
    for i in range(MX_AXES):
        if p.b.len[i] != 1 and p.b.len[i] != p.y.len[i]:
            raise BadParmError("length is neither 1 nor y's", "b", p.b.len, p.y.len)
    cdef Memory mb = bind(b, &p.b, "b", p.direction == MX_BACKWARD_DATA)
    cdef Memory my = bind(y, &p.y, "y", p.direction == MX_FORWARD)
    slots[0], slots[1], slots[2], slots[3] = mb.address, NULL, my.address, NULL
    scalars[0], scalars[1] = alpha, beta
    with nogil:
        status = host_bias(&p, slots, scalars, threads)
    if status != 0:
        raise AllocFailedError("no memory for partial sums", "problem", None)
