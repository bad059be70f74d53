# cython: cdivision=True
"""The gradient of a bias on the host: the sum of y over the axes that b lacks."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from miopyx.problem._descriptors cimport type_size
from miopyx.problem._grid cimport fill_grid, grid_offset
from ._common cimport ALLOC_FAILED, at_least, at_most, ceil_div
from ._kernels cimport kernels
from ._memory cimport Memory, bind, check_tensor
from ._pool cimport TASKS, acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks
from miopyx.values._types cimport MX_AXES, mx_bias_problem, mx_grid, mx_tensor

from miopyx.errors import AllocFailedError, BadParmError

cdef enum:
    ROW = 1024             # elements that are read at a time
    UNIT = 8192            # elements that are worth a unit of work
    BLOCK_BYTES = 512      # of a row that is cut, at least
    PIECE = 1024           # elements likewise


cdef struct bias_t:
    mx_bias_sums s
    const char* y
    int64_t type
    double* rows               # for each worker: ROW
    double* sums               # for each part: as many as b has elements


cdef void append_axis(mx_grid* to, int axis, const mx_grid* g, int from_axis) noexcept nogil:
    cdef int t
    to.len[axis] = g.len[from_axis]
    for t in range(2):
        to.stride[t][axis] = g.stride[t][from_axis]


cdef int fill_sums(mx_bias_sums* s, const mx_bias_problem* p, int64_t wanted) noexcept nogil:
    cdef const mx_tensor* tensors[2]
    cdef mx_grid g
    cdef int axis, line_axis = 3, rest_axis = 3
    cdef int64_t elements = 1, width = type_size(<int> p.y.type)
    tensors[0], tensors[1] = &p.y, &p.b
    fill_grid(&g, tensors, 2)
    memset(s, 0, sizeof(mx_bias_sums))
    s.k = s.m = s.line_count = s.rest_count = s.pieces = s.piece = s.parts = 1
    for axis in range(MX_AXES):
        s.lines.len[axis] = s.rest.len[axis] = 1
        elements *= g.len[axis]
    for axis in range(MX_AXES - 1, -1, -1):
        if g.len[axis] == 1:
            continue
        if g.stride[1][axis] == 0:
            if axis == MX_AXES - 1:
                s.m, s.m_y = g.len[axis], g.stride[0][axis]
            else:
                append_axis(&s.lines, line_axis, &g, axis)
                s.line_count *= g.len[axis]
                line_axis -= 1
        elif s.k_y == 0:
            s.k, s.k_y, s.k_b = g.len[axis], g.stride[0][axis], g.stride[1][axis]
        else:
            append_axis(&s.rest, rest_axis, &g, axis)
            s.rest_count *= g.len[axis]
            rest_axis -= 1
    wanted = at_least(1, at_most(wanted, elements // UNIT))
    # Blocks of k first, as far as they are worth reading: their sums need no second step.
    s.blocks = at_most(s.k, ceil_div(wanted, s.rest_count))
    if s.m == 1:
        s.blocks = at_least(1, at_most(s.blocks, s.k * width // BLOCK_BYTES))
    s.block = ceil_div(s.k, s.blocks)
    s.blocks = ceil_div(s.k, s.block)
    wanted = ceil_div(wanted, s.rest_count * s.blocks)
    s.piece = s.m
    if wanted > s.line_count:
        s.piece = at_least(at_most(PIECE, s.m), ceil_div(s.m, ceil_div(wanted, s.line_count)))
        s.pieces = ceil_div(s.m, s.piece)
    s.parts = at_most(wanted, s.line_count * s.pieces)
    return 0


cdef double row_sum(const double* row, int64_t n) noexcept nogil:
    cdef double s0 = 0, s1 = 0, s2 = 0, s3 = 0
    cdef int64_t i
    for i in range(0, n - 3, 4):
        s0 += row[i]
        s1 += row[i + 1]
        s2 += row[i + 2]
        s3 += row[i + 3]
    for i in range(n - n % 4, n):
        s0 += row[i]
    return (s0 + s1) + (s2 + s3)


cdef void sum_task(void* context, int64_t index, int worker) noexcept nogil:
    """One block of k over one part, in the order of memory."""
    cdef const bias_t* c = <const bias_t*> context
    cdef const mx_bias_sums* s = &c.s
    cdef int64_t part = index // (s.rest_count * s.blocks), rest = index // s.blocks % s.rest_count
    cdef int64_t first = index % s.blocks * s.block, n = at_most(s.block, s.k - first)
    cdef int64_t units = s.line_count * s.pieces, line, start, at, skipped, length, count, i, j
    cdef int64_t k
    cdef double* row = c.rows + worker * ROW
    cdef double* sums = c.sums + (part * s.rest_count + rest) * s.k + first
    memset(sums, 0, n * sizeof(double))
    start = grid_offset(&s.rest, 0, rest) + first * s.k_y
    for line in range(part * units // s.parts, (part + 1) * units // s.parts):
        skipped = line % s.pieces * s.piece
        at = start + grid_offset(&s.lines, 0, line // s.pieces) + skipped * s.m_y
        if s.m == 1:
            for i in range(ceil_div(n, ROW)):
                count = at_most(ROW, n - i * ROW)
                kernels.load_row(c.y, c.type, at + i * ROW * s.k_y, s.k_y, row, count)
                for j in range(count):
                    sums[i * ROW + j] += row[j]
            continue
        length = at_most(s.piece, s.m - skipped)
        for k in range(n):
            for i in range(ceil_div(length, ROW)):
                count = at_most(ROW, length - i * ROW)
                kernels.load_row(c.y, c.type, at + k * s.k_y + i * ROW * s.m_y, s.m_y, row, count)
                sums[k] += row_sum(row, count)


cdef int host_bias(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_bias_problem* p = <const mx_bias_problem*> problem
    cdef char* b = <char*> slots[0]
    cdef int64_t elements = 1, count, e, part, at
    cdef int axis, width
    cdef unsigned arithmetic
    cdef double total, old
    cdef bias_t c
    fill_sums(&c.s, p, TASKS)
    c.y, c.type = <const char*> slots[2], p.y.type
    for axis in range(MX_AXES):
        elements *= p.y.len[axis]
    count = c.s.rest_count * c.s.k
    width = acquire_threads(elements * 8.0, threads)
    c.rows = <double*> malloc((width * ROW + c.s.parts * count) * sizeof(double))
    if c.rows == NULL:
        release_threads(width)
        return ALLOC_FAILED
    c.sums = c.rows + width * ROW
    arithmetic = default_arithmetic()
    run_tasks(sum_task, &c, c.s.parts * c.s.rest_count * c.s.blocks, width)
    for e in range(count):
        total = 0
        for part in range(c.s.parts):
            total += c.sums[part * count + e]
        total *= scalars[0]
        at = grid_offset(&c.s.rest, 1, e // c.s.k) + e % c.s.k * c.s.k_b
        if scalars[1] != 0:
            kernels.load_row(b, p.b.type, at, 0, &old, 1)
            total += scalars[1] * old
        kernels.store_row(b, p.b.type, at, 1, &total, 1)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(c.rows)
    return 0


def run_bias(bytes problem not None, b, y, double alpha=1.0, double beta=0.0, int threads=0):
    """Sum y into a bias; arguments as for `_conv.run_conv`."""
    cdef mx_bias_problem p
    cdef void* slots[4]
    cdef double scalars[2]
    cdef int status, i
    if len(problem) != sizeof(mx_bias_problem):
        raise BadParmError("not an mx_bias_problem", "problem", f"{len(problem)} bytes",
                           f"{sizeof(mx_bias_problem)} bytes")
    memcpy(&p, <const char*> problem, sizeof(p))
    check_tensor(&p.y, "y", False)
    check_tensor(&p.b, "b", True)
    for i in range(MX_AXES):
        if p.b.len[i] != 1 and p.b.len[i] != p.y.len[i]:
            raise BadParmError("length is neither 1 nor y's", "b", p.b.len, p.y.len)
    cdef Memory mb = bind(b, &p.b, "b", True)
    cdef Memory my = bind(y, &p.y, "y", False)
    slots[0], slots[1], slots[2], slots[3] = mb.address, NULL, my.address, NULL
    scalars[0], scalars[1] = alpha, beta
    with nogil:
        status = host_bias(&p, slots, scalars, threads)
    if status != 0:
        raise AllocFailedError("no memory for partial sums", "problem", None)
