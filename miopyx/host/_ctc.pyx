# cython: cdivision=True
"""CTC loss and its gradient on the host, in float64; kernels/layers/ctc.h says how."""

from libc.math cimport INFINITY, NAN, exp, fmax, log
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

from miopyx.problem._ctc cimport (
    CTC_BLANK, CTC_GRADIENTS, CTC_LABELS, CTC_LOSSES, CTC_PROBS, CTC_SOFTMAX, CTC_TABLE, mark_of,
)
from miopyx.values._types cimport mx_slots_problem
from ._common cimport ALLOC_FAILED
from ._kernels cimport kernels
from ._pool cimport acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks


cdef struct ctc_t:
    const mx_slots_problem* p
    char* x
    char* dx
    char* losses
    const int32_t* table
    int64_t steps, classes, blank, labels
    int32_t mark
    bint softmax
    int64_t room           # numbers of a worker
    double* numbers


cdef inline double log_sum(double a, double b, double c) noexcept nogil:
    cdef double most = fmax(fmax(a, b), c)
    if most == -INFINITY:
        return a + b + c  # NaN stays
    return most + log(exp(a - most) + exp(b - most) + exp(c - most))


cdef void load(const ctc_t* c, int64_t n, int64_t t, double* row) noexcept nogil:
    """The logarithms of a step's probabilities."""
    cdef const int64_t* stride = c.p.t[<int> CTC_PROBS].stride
    cdef double most = -INFINITY, total = 0
    cdef int64_t i
    kernels.load_row(c.x, c.p.t[<int> CTC_PROBS].type, t * stride[0] + n * stride[1], stride[4], row, c.classes)
    if not c.softmax:
        return
    for i in range(c.classes):
        most = fmax(most, row[i])
    for i in range(c.classes):
        total += exp(row[i] - most)
    total = most + log(total)
    for i in range(c.classes):
        row[i] -= total


cdef inline int64_t class_of(const ctc_t* c, const int32_t* label, int64_t s) noexcept nogil:
    """A state's class: labels stand between blanks."""
    return max(0, min(<int64_t> label[s // 2], c.classes - 1)) if s % 2 == 1 else c.blank


cdef void sample(void* context, int64_t n, int worker) noexcept nogil:
    cdef const ctc_t* c = <const ctc_t*> context
    cdef const int64_t* stride = c.p.t[<int> CTC_GRADIENTS].stride
    cdef int64_t type = c.p.t[<int> CTC_PROBS].type
    cdef const int32_t* mine = c.table + n * (3 + 2 * c.labels)
    # A plan's table may hold anything: nothing beyond the tensors is read or written.
    cdef bint fits = mine[2] == c.mark
    cdef int64_t steps = max(0, min(<int64_t> mine[0], c.steps)) if fits else c.steps
    cdef int64_t count = max(0, min(<int64_t> mine[1], c.labels)) if fits else 0
    cdef int64_t states = 2 * count + 1, t, s, i
    cdef const int32_t* label = mine + 3
    cdef double* row = c.numbers + worker * c.room
    cdef double* grad = row + c.classes
    cdef double* after = grad + c.classes      # of the next step
    cdef double* new = after + 2 * c.labels + 1
    cdef double* before = new + 2 * c.labels + 1
    cdef double* here
    cdef double* swap
    cdef double loss, all_, most
    # From the first step on.
    for t in range(steps):
        load(c, n, t, row)
        here = before + t * states
        for s in range(states):
            if t == 0:
                here[s] = -INFINITY if s > 1 else 0 if fits else NAN
            else:
                here[s] = log_sum(here[s - states], here[s - states - 1] if s > 0 else -INFINITY,
                                  here[s - states - 2] if s % 2 == 1 and s > 1 and label[s // 2] != label[s // 2 - 1]
                                  else -INFINITY)
            here[s] += row[class_of(c, label, s)]
    if steps == 0:
        loss = NAN if not fits else 0 if count == 0 else INFINITY
    else:
        here = before + (steps - 1) * states
        loss = -log_sum(here[states - 1], here[states - 2] if count else -INFINITY, -INFINITY)
    kernels.store_row(c.losses, type, n, 1, &loss, 1)
    # And back: `after` has after + e of the next step.
    for t in range(c.steps - 1, -1, -1):
        if t >= steps:
            for i in range(c.classes):
                grad[i] = 0
            kernels.store_row(c.dx, type, t * stride[0] + n * stride[1], stride[4], grad, c.classes)
            continue
        load(c, n, t, row)
        here = before + t * states
        for i in range(c.classes):
            grad[i] = 0
        most = -INFINITY
        for s in range(states):
            if t == steps - 1:
                new[s] = 0 if s >= states - 2 else -INFINITY
            else:
                new[s] = log_sum(after[s], after[s + 1] if s + 1 < states else -INFINITY,
                                 after[s + 2] if s % 2 == 1 and s + 2 < states and label[s // 2] != label[s // 2 + 1]
                                 else -INFINITY)
            here[s] += new[s]
            most = fmax(most, here[s])
            new[s] += row[class_of(c, label, s)]
        all_ = 0
        for s in range(states):
            here[s] = exp(here[s] - most)
            all_ += here[s]
            grad[class_of(c, label, s)] += here[s]
        for i in range(c.classes):
            if c.softmax:
                grad[i] = exp(row[i]) - grad[i] / all_
            else:
                grad[i] = -grad[i] / all_ * exp(-row[i]) if grad[i] != 0 else all_ * 0
        kernels.store_row(c.dx, type, t * stride[0] + n * stride[1], stride[4], grad, c.classes)
        swap = after
        after = new
        new = swap


cdef int host_ctc(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_slots_problem* p = <const mx_slots_problem*> problem
    cdef ctc_t c
    cdef int64_t samples = p.t[<int> CTC_PROBS].len[1]
    cdef int width
    cdef unsigned arithmetic
    c.p, c.x, c.dx = p, <char*> slots[<int> CTC_PROBS], <char*> slots[<int> CTC_GRADIENTS]
    c.losses, c.table = <char*> slots[<int> CTC_LOSSES], <const int32_t*> slots[<int> CTC_TABLE]
    c.steps, c.classes = p.t[<int> CTC_PROBS].len[0], p.t[<int> CTC_PROBS].len[4]
    c.blank, c.softmax = p.number[<int> CTC_BLANK], p.number[<int> CTC_SOFTMAX] != 0
    c.labels = p.number[<int> CTC_LABELS]
    c.mark = mark_of(p, c.labels)
    c.room = 2 * c.classes + (2 + c.steps) * (2 * c.labels + 1)
    width = acquire_threads(samples * c.steps * (100.0 * c.labels + 20.0 * c.classes), threads)
    c.numbers = <double*> malloc(width * c.room * sizeof(double))
    if c.numbers == NULL:
        release_threads(width)
        return ALLOC_FAILED
    arithmetic = default_arithmetic()
    run_tasks(sample, &c, samples, width)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(c.numbers)
    return 0
