# cython: cdivision=True
"""Operations on elements on the host, in float64: rows of operands as doubles, in pieces; kernels/layers/elements.h has
the formulas.  Terms that are summed go through an array of doubles."""

from libc.math cimport exp, expm1, fabs, fmax, log1p, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from miopyx.problem._descriptors cimport type_size
from miopyx.problem._elements cimport (
    ADAM_ADAMW, ADAM_AMSGRAD, ADAM_CORRECT, ADAM_FOUND, ADAM_MAXIMIZE, ADAM_SCALE, ADAM_STEP, ADAM_STEP_OUT,
    DECAY, EPSILON, OPERANDS, RATE, REDUCE_MEAN, ROOT, SIZE, SOME1, SOME2, TERM, operand_t, operands_of, sum_of,
)
from miopyx.problem._grid cimport join_axes
from miopyx.problem._slots cimport elements_of, given
from miopyx.values._types cimport (
    MX_ADAM, MX_ADAM_TRANSFORMERS, MX_DOUBLE, MX_GLU, MX_GLU_BACKWARD, MX_PRELU_BACKWARD, MX_ROPE,
    MX_ROPE_BACKWARD, MX_SOFT_MARGIN, MX_SOFT_MARGIN_BACKWARD, mx_bias_problem, mx_slots_problem, mx_tensor,
)
from ._bias cimport host_bias
from ._common cimport ALLOC_FAILED, at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport TASKS, acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks

cdef enum:
    PIECE = 1024           # elements of a row that are worked on at a time


cdef struct elements_t:
    const mx_slots_problem* p
    int inputs, count
    int64_t len[5]
    int64_t stride[OPERANDS][5]
    char* at[OPERANDS]
    int64_t type[OPERANDS]
    int64_t lines, pieces, tasks
    double number[7]       # Adam's; others: 1 or 1 / elements
    double scale
    bint skipped
    double* rows           # for each worker OPERANDS of PIECE


cdef void compute(const elements_t* c, double** r, int64_t n) noexcept nogil:
    """A piece of a row: operand k is r[k]."""
    cdef int64_t what = c.p.what, flags = c.p.flags, i
    cdef double t, z, p, g, m, v, most, root
    cdef const double* number = c.number
    cdef bint amsgrad = flags & ADAM_AMSGRAD != 0
    cdef int out = c.inputs
    if what == MX_GLU:
        for i in range(n):
            t = exp(-fabs(r[1][i]))
            r[2][i] = r[0][i] * ((1 if r[1][i] >= 0 else t) / (1 + t))
    elif what == MX_GLU_BACKWARD:
        for i in range(n):
            t = exp(-fabs(r[1][i]))
            r[3][i] = r[2][i] * ((1 if r[1][i] >= 0 else t) / (1 + t))
            r[4][i] = r[2][i] * r[0][i] * (t / ((1 + t) * (1 + t)))
    elif what == MX_PRELU_BACKWARD:
        for i in range(n):
            r[3][i] = r[1][i] if r[0][i] > 0 else r[2][i] * r[1][i]
            r[4][i] = 0 if r[0][i] > 0 else r[0][i] * r[1][i]
    elif what == MX_SOFT_MARGIN:
        for i in range(n):
            z = -r[0][i] * r[1][i]
            r[2][i] = (0 if z <= 0 else z) + log1p(exp(-fabs(z)))
    elif what == MX_SOFT_MARGIN_BACKWARD:
        for i in range(n):
            r[3][i] = -number[0] * r[2][i] * r[1][i] / (1 + exp(r[0][i] * r[1][i]))
    elif what == MX_ROPE:
        for i in range(n):
            r[6][i] = r[0][i] * r[2][i] - r[1][i] * r[4][i]
            r[7][i] = r[1][i] * r[3][i] + r[0][i] * r[5][i]
    elif what == MX_ROPE_BACKWARD:
        for i in range(n):
            r[6][i] = r[0][i] * r[2][i] + r[1][i] * r[5][i]
            r[7][i] = r[1][i] * r[3][i] - r[0][i] * r[4][i]
    else:
        for i in range(n):
            p, g, m, v = r[0][i], r[1][i], r[2][i], r[3][i]
            most = r[4][i] if amsgrad else 0
            if not c.skipped:
                g = (-g if flags & ADAM_MAXIMIZE else g) / c.scale
                if what == MX_ADAM and number[<int> DECAY] != 0:
                    if flags & ADAM_ADAMW:
                        p -= number[<int> RATE] * number[<int> DECAY] * p
                    else:
                        g += p * number[<int> DECAY]
                m += (g - m) * number[<int> SOME1]
                v += (g * g - v) * number[<int> SOME2]
                if what == MX_ADAM:
                    if amsgrad:
                        most = fmax(most, v)
                    root = sqrt(most if amsgrad else v) * number[<int> ROOT]
                    p -= number[<int> SIZE] * m / (root + number[<int> EPSILON])
                else:
                    p -= number[<int> SIZE] * m / (sqrt(v) + number[<int> EPSILON])
                    p -= p * (number[<int> RATE] * number[<int> DECAY])
            r[out][i], r[out + 1][i], r[out + 2][i] = p, m, v
            if amsgrad:
                r[out + 3][i] = most
            if c.count > out + 3 + amsgrad:
                r[out + 3 + amsgrad][i] = p


cdef void elements_task(void* context, int64_t index, int worker) noexcept nogil:
    cdef const elements_t* c = <const elements_t*> context
    cdef int64_t units = c.lines * c.pieces, unit, left, first, n
    cdef int64_t at[OPERANDS]
    cdef double* row[OPERANDS]
    cdef int k, axis
    for k in range(c.count):
        row[k] = c.rows + (worker * <int> OPERANDS + k) * <int> PIECE
    for unit in range(index * units // c.tasks, (index + 1) * units // c.tasks):
        left, first = unit // c.pieces, unit % c.pieces * PIECE
        n = at_most(PIECE, c.len[4] - first)
        for k in range(c.count):
            at[k] = first * c.stride[k][4]
        for axis in range(3, -1, -1):
            if c.len[axis] > 1:
                for k in range(c.count):
                    at[k] += left % c.len[axis] * c.stride[k][axis]
                left //= c.len[axis]
        for k in range(c.inputs):
            kernels.load_row(c.at[k], c.type[k], at[k], c.stride[k][4], row[k], n)
        compute(c, row, n)
        for k in range(c.inputs, c.count):
            kernels.store_row(c.at[k], c.type[k], at[k], c.stride[k][4], row[k], n)


cdef double number_at(const mx_slots_problem* p, void** slots, int slot) noexcept nogil:
    cdef double value
    kernels.load_row(<const char*> slots[slot], p.t[slot].type, 0, 1, &value, 1)
    return value


cdef double set_adam(elements_t* c, const mx_slots_problem* p, void** slots) noexcept nogil:
    """What is in memory; returns the counter's next number."""
    cdef double step = 0, first, second
    cdef double* number = c.number
    if given(p, ADAM_SCALE):
        c.scale = number_at(p, slots, ADAM_SCALE)
    c.skipped = given(p, ADAM_FOUND) and number_at(p, slots, ADAM_FOUND) != 0
    if given(p, ADAM_STEP):
        step = number_at(p, slots, ADAM_STEP) + 1
        first = -expm1(step * log1p(-number[<int> SOME1]))
        second = -expm1(step * log1p(-number[<int> SOME2]))
        if p.what == MX_ADAM:
            number[<int> SIZE], number[<int> ROOT] = number[<int> RATE] / first, 1 / sqrt(second)
        elif number[<int> SIZE] < 0:
            number[<int> SIZE] = number[<int> RATE]
            if p.flags & ADAM_CORRECT:
                number[<int> SIZE] *= sqrt(second) / first
    return step - c.skipped


cdef int host_elements(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_slots_problem* p = <const mx_slots_problem*> problem
    cdef operand_t operands[OPERANDS]
    cdef const mx_tensor* tensors[OPERANDS]
    cdef mx_bias_problem sum
    cdef elements_t c
    cdef void* sum_slots[4]
    cdef double sum_scalars[2]
    cdef int64_t elements = elements_of(&p.t[0])
    cdef bint adam = p.what == MX_ADAM or p.what == MX_ADAM_TRANSFORMERS
    cdef int k, width, status = 0, to = sum_of(p, &sum)
    cdef double step = 0
    cdef double* terms = NULL
    cdef unsigned arithmetic
    memset(&c, 0, sizeof(c))
    c.p, c.scale = p, 1
    c.count = operands_of(p, operands, &c.inputs)
    for k in range(7):
        c.number[k] = scalars[k]
    if adam:
        step = set_adam(&c, p, slots)
    else:
        c.number[0] = 1.0 / elements if p.number[0] == REDUCE_MEAN else 1
    if to != TERM:
        terms = <double*> malloc(elements * sizeof(double))
        if terms == NULL:
            return ALLOC_FAILED
        sum.y.type = MX_DOUBLE
    for k in range(c.count):
        if operands[k].slot == TERM:
            operands[k].t.type = MX_DOUBLE
            c.at[k] = <char*> terms
        else:
            c.at[k] = (<char*> slots[operands[k].slot]
                       + operands[k].offset * type_size(<int> operands[k].t.type))
        tensors[k], c.type[k] = &operands[k].t, operands[k].t.type
    join_axes(c.len, &c.stride[0][0], tensors, c.count)
    c.lines, c.pieces = c.len[0] * c.len[1] * c.len[2] * c.len[3], ceil_div(c.len[4], PIECE)
    c.tasks = at_most(c.lines * c.pieces, 4 * TASKS)
    width = acquire_threads(elements * (20.0 if adam else 12.0), threads)
    c.rows = <double*> malloc(width * <int> OPERANDS * <int> PIECE * sizeof(double))
    if c.rows == NULL:
        release_threads(width)
        free(terms)
        return ALLOC_FAILED
    arithmetic = default_arithmetic()
    if elements != 0:
        run_tasks(elements_task, &c, c.tasks, width)
    if given(p, ADAM_STEP) and adam:
        k = ADAM_STEP_OUT if given(p, ADAM_STEP_OUT) else ADAM_STEP
        kernels.store_row(<char*> slots[k], p.t[k].type, 0, 1, &step, 1)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(c.rows)
    if to != TERM:
        sum_slots[0], sum_slots[1], sum_slots[2], sum_slots[3] = slots[to], NULL, terms, NULL
        sum_scalars[0], sum_scalars[1] = c.number[0], 0
        status = host_bias(&sum, sum_slots, sum_scalars, threads)
        free(terms)
    return status
