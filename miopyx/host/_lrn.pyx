# cython: cdivision=True
"""Local response normalisation on the host, over channels or within them, forward and backward.

A task takes a sheet: some rows, which the window moves over, of some positions.  Rows are channels, or rows of an image
of which all columns are there.  The terms that windows sum are written down once, rows beside the tensor as zeros, and
summed by adding the sheet to itself, moved row by row.
"""

from libc.math cimport INFINITY, NAN, pow, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from miopyx.problem._grid cimport fill_grid, grid_lines, grid_offset
from ._common cimport ALLOC_FAILED, at_least, at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks
from miopyx.values._types cimport MX_AXES, MX_DOUBLE, MX_FLOAT, MX_LRN_BACKWARD, mx_grid, mx_lrn_problem, mx_tensor

cdef enum:
    WITHIN_CHANNEL = 0
    X = 0
    Y = 1
    DX = 2
    DY = 3
    SCALES = 4
    SHEET = 16384          # elements that a sheet should have


# How a tensor is walked: element of row r and position p is at + r * row + p * step.
cdef struct walk_t:
    char* data
    int64_t type, row, step


cdef struct lrn_t:
    const mx_lrn_problem* p
    walk_t walk[5]
    mx_grid grid               # what is left of x, y, dx, dy when rows and positions are taken out
    int64_t rows, positions
    int64_t before, after
    bint along_rows            # rows are neighbours in memory: sheets are read along them
    int64_t row_parts, position_parts
    double coefficient
    double* memory             # for each worker: `room` numbers
    int64_t room, height, width


cdef inline double power(double scale, double beta) noexcept nogil:
    """scale^-beta as exp(-beta log(scale)) has it."""
    if scale > 0:
        if beta == 0.75:
            return 1 / (sqrt(scale) * sqrt(sqrt(scale)))
        return pow(scale, -beta) if beta != 0 or scale < INFINITY else NAN
    if scale == 0:
        return INFINITY if beta > 0 else 0.0 if beta < 0 else NAN
    return NAN


cdef void load(const lrn_t* c, int which, int64_t line, int64_t row, int64_t rows, int64_t position, int64_t positions,
               double* to) noexcept nogil:
    """Read a sheet: row by row, or if it is read along rows, position by position."""
    cdef const walk_t* w = &c.walk[which]
    # Scales lie as y does.
    cdef int64_t at = grid_offset(&c.grid, Y if which == SCALES else which, line) + row * w.row + position * w.step, i
    if c.along_rows:
        for i in range(positions):
            kernels.load_row(w.data, w.type, at + i * w.step, w.row, to + i * rows, rows)
    else:
        for i in range(rows):
            kernels.load_row(w.data, w.type, at + i * w.row, w.step, to + i * positions, positions)


cdef void store(const lrn_t* c, int which, int64_t line, int64_t row, int64_t rows, int64_t position,
                int64_t positions, const double* values) noexcept nogil:
    cdef const walk_t* w = &c.walk[which]
    cdef int64_t at = grid_offset(&c.grid, Y if which == SCALES else which, line) + row * w.row + position * w.step, i
    if c.along_rows:
        for i in range(positions):
            kernels.store_row(w.data, w.type, at + i * w.step, w.row, values + i * rows, rows)
    else:
        for i in range(rows):
            kernels.store_row(w.data, w.type, at + i * w.row, w.step, values + i * positions, positions)


cdef void add_moved(const double* terms, double* sums, int64_t count, int64_t moves, int64_t step) noexcept nogil:
    """sums[i] = terms[i] + terms[i + step] + ..., `moves` terms."""
    cdef int64_t i, move
    for i in range(count):
        sums[i] = terms[i]
    for move in range(1, moves):
        for i in range(count):
            sums[i] += terms[i + move * step]


cdef void sheet_task(void* context, int64_t index, int worker) noexcept nogil:
    """Normalise a sheet.

    A sheet that is read along rows has one position, so that in either case neighbouring rows are one unit apart.
    """
    cdef const lrn_t* c = <const lrn_t*> context
    cdef bint backward = c.p.what == MX_LRN_BACKWARD
    cdef int64_t row_part = index % c.row_parts, position_part = index // c.row_parts % c.position_parts
    cdef int64_t line = index // c.row_parts // c.position_parts
    cdef int64_t begin = row_part * c.rows // c.row_parts, end = (row_part + 1) * c.rows // c.row_parts
    cdef int64_t first = position_part * c.positions // c.position_parts
    cdef int64_t last = (position_part + 1) * c.positions // c.position_parts
    cdef int64_t low = at_least(begin - c.before, 0), high = at_most(end + c.after, c.rows)
    cdef int64_t width = last - first, count = (end - begin) * width, i, j
    cdef int64_t read = (high - low) * width, beside = (low - (begin - c.before)) * width
    cdef double* terms = c.memory + worker * c.room
    cdef double* sums = terms + (c.height + c.before + c.after) * c.width
    cdef double* a = sums + c.height * c.width
    cdef double* b = a + (c.height + c.before + c.after) * c.width
    cdef double* line_terms = b + (c.height + c.before + c.after) * c.width
    # What the windows sum.
    memset(terms, 0, beside * sizeof(double))
    memset(terms + beside + read, 0, ((end + c.after - high) * width) * sizeof(double))
    load(c, DY if backward else X, line, low, high - low, first, width, terms + beside)
    if backward:
        load(c, Y, line, low, high - low, first, width, a)
        load(c, SCALES, line, low, high - low, first, width, b)
        for i in range(read):
            terms[beside + i] *= a[i] / b[i]
    else:
        for i in range(read):
            terms[beside + i] *= terms[beside + i]
    add_moved(terms, sums, count, c.before + c.after + 1, width)
    if c.p.mode == WITHIN_CHANNEL:  # the same along each row
        memset(line_terms, 0, (width + c.before + c.after) * sizeof(double))
        for j in range(end - begin):
            for i in range(width):
                line_terms[c.before + i] = sums[j * width + i]
            add_moved(line_terms, sums + j * width, width, c.before + c.after + 1, 1)
    load(c, X, line, begin, end - begin, first, width, a)
    if backward:
        load(c, SCALES, line, begin, end - begin, first, width, b)
        load(c, DY, line, begin, end - begin, first, width, terms)
        for i in range(count):
            a[i] = terms[i] * power(b[i], c.p.beta) - c.coefficient * a[i] * sums[i]
        store(c, DX, line, begin, end - begin, first, width, a)
        return
    for i in range(count):
        sums[i] = c.p.k + c.coefficient * sums[i]
    if c.p.save:
        store(c, SCALES, line, begin, end - begin, first, width, sums)
    for i in range(count):
        a[i] *= power(sums[i], c.p.beta)
    store(c, Y, line, begin, end - begin, first, width, a)


cdef int host_lrn(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_lrn_problem* p = <const mx_lrn_problem*> problem
    cdef bint backward = p.what == MX_LRN_BACKWARD, within = p.mode == WITHIN_CHANNEL
    cdef int count = 4 if backward else 2, width, i, axis = 3 if within else 1
    cdef int64_t before = (p.n - 1) // 2, after = p.n - 1 - (p.n - 1) // 2, reach, elements = 1
    cdef const mx_tensor* tensors[4]
    cdef const mx_tensor* outer_ptr[4]
    cdef mx_tensor outer[4]
    cdef double m = p.n
    cdef unsigned arithmetic
    cdef lrn_t c
    memset(&c, 0, sizeof(c))
    c.p = p
    tensors[0], tensors[1], tensors[2], tensors[3] = &p.x, &p.y, &p.dx, &p.dy
    c.along_rows = not within
    for i in range(count):
        outer[i] = tensors[i][0]
        outer[i].len[axis] = 1
        if within:
            outer[i].len[4] = 1
        outer_ptr[i] = &outer[i]
        c.walk[i].data, c.walk[i].type = <char*> slots[i], p.x.type
        c.walk[i].row = tensors[i].stride[axis]
        c.along_rows = c.along_rows and tensors[i].stride[1] == 1
    c.rows = p.x.len[axis]
    c.along_rows = c.along_rows and c.rows > 1
    fill_grid(&c.grid, outer_ptr, count)
    # The grid's last axis is the positions, unless those are the columns.
    for i in range(count):
        c.walk[i].step = tensors[i].stride[4] if within else c.grid.stride[i][4]
    c.positions = p.x.len[4] if within else c.grid.len[4]
    if within:  # back to an axis that grid_offset looks at: the grid has at most two
        for i in range(3, 5):
            c.grid.len[i - 1] = c.grid.len[i]
            for axis in range(count):
                c.grid.stride[axis][i - 1] = c.grid.stride[axis][i]
        c.grid.len[4] = 1
    c.walk[SCALES] = c.walk[Y]
    c.walk[SCALES].data = <char*> slots[SCALES]
    c.walk[SCALES].type = MX_DOUBLE if p.x.type == MX_DOUBLE else MX_FLOAT
    # No window reaches farther than the tensor does; backward it is mirrored.
    reach = at_least(c.rows, c.positions if within else 1) - 1
    before, after = at_most(before, reach), at_most(after, reach)
    c.before, c.after = (after, before) if backward else (before, after)
    c.coefficient = (2 * p.alpha * p.beta if backward else p.alpha) / (m * m if within else m)
    if within:
        c.position_parts = 1
        c.row_parts = at_least(1, at_most(c.rows // at_least(16, p.n), c.rows * c.positions // SHEET))
    else:
        c.row_parts = 1
        c.position_parts = c.positions if c.along_rows else at_most(
            c.positions, ceil_div(c.positions, at_least(8, SHEET // c.rows)))
    c.height, c.width = ceil_div(c.rows, c.row_parts), ceil_div(c.positions, c.position_parts)
    c.room = (4 * c.height + 3 * (c.before + c.after)) * c.width + c.before + c.after + c.width
    for i in range(MX_AXES):
        elements *= p.x.len[i]
    width = acquire_threads(elements * (40.0 + p.n), threads)
    c.memory = <double*> malloc(width * c.room * sizeof(double))
    if c.memory == NULL:
        release_threads(width)
        return ALLOC_FAILED
    arithmetic = default_arithmetic()
    run_tasks(sheet_task, &c, grid_lines(&c.grid) * c.position_parts * c.row_parts, width)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(c.memory)
    return 0
