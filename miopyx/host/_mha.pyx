# cython: cdivision=True
"""Attention and its gradients on the host, in float64.

A block of rows of scores is computed whole, ROWS beside each other, and kept until its results are: as many numbers as
there are keys, for each of them.
"""

from libc.math cimport INFINITY, exp, fabs, fmax, fmin
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from miopyx.problem._mha cimport (
    MHA_AMAX_DQ, MHA_AMAX_S, MHA_BIAS, MHA_DESCALE_DO,
    MHA_DESCALE_DS, MHA_DESCALE_K, MHA_DESCALE_O, MHA_DESCALE_Q, MHA_DESCALE_S, MHA_DESCALE_V, MHA_DK, MHA_DO, MHA_DQ,
    MHA_DV, MHA_K, MHA_M, MHA_MASK, MHA_O, MHA_OFFSET, MHA_PROBABILITY, MHA_Q, MHA_SCALE, MHA_SCALE_DK, MHA_SCALE_DQ,
    MHA_SCALE_DS, MHA_SCALE_DV, MHA_SCALE_O, MHA_SCALE_S, MHA_SEED, MHA_V, MHA_Z_INV, mha_has,
)
from miopyx.values._types cimport MX_MHA_BACKWARD, mx_mha_problem, mx_tensor
from ._common cimport ALLOC_FAILED, at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks

cdef extern from "miopyx/host/philox.h" nogil:
    void mx_philox(uint64_t counter, uint64_t masks, uint64_t seed, uint32_t* words)

cdef enum:
    ROWS = 32              # of a block
    AMAX = 4               # largest numbers of a worker


cdef struct mha_t:
    const mx_mha_problem* p
    void** slots
    int64_t heads, rows, keys, depth, width, blocks
    bint causal, drops
    double given_scale     # the descriptor's
    double scale           # of products of q and k: descaled, too
    double of_s            # of what multiplies v
    double least           # random numbers of 24 bits below it are dropped
    double kept            # factor of what is not
    uint64_t seed, offset
    int64_t room           # numbers of a worker
    double* numbers
    double* largest        # AMAX of each worker


cdef double number(const mx_mha_problem* p, void** slots, int slot, double rest) noexcept nogil:
    return (<const float*> slots[slot])[0] if mha_has(p, slot) else rest


cdef void load(const mha_t* c, int slot, int64_t head, int64_t row, double* to, int64_t count) noexcept nogil:
    cdef const mx_tensor* t = &c.p.t[slot]
    cdef int64_t h = t.len[1]
    cdef int64_t heads = c.p.t[<int> MHA_Q].len[1]
    kernels.load_row(<const char*> c.slots[slot], t.type,
                     (head // heads if t.len[0] > 1 else 0) * t.stride[0] + (head % heads if h > 1 else 0) * t.stride[1]
                     + (row if t.len[3] > 1 else 0) * t.stride[3], t.stride[4], to, count)


cdef void store(const mha_t* c, int slot, int64_t head, int64_t row, const double* numbers,
                int64_t count) noexcept nogil:
    cdef const mx_tensor* t = &c.p.t[slot]
    kernels.store_row(<char*> c.slots[slot], t.type, head // t.len[1] * t.stride[0] + head % t.len[1] * t.stride[1]
                      + row * t.stride[3], t.stride[4], numbers, count)


cdef void load_columns(const mha_t* c, int slot, int64_t head, int64_t first, int64_t wide, double* table,
                       double* row, int64_t count) noexcept nogil:
    """Rows first ... as the columns of table[count][ROWS]; those behind the last are 0."""
    cdef int64_t r, d
    memset(table, 0, count * ROWS * sizeof(double))
    for r in range(wide):
        load(c, slot, head, first + r, row, count)
        for d in range(count):
            table[d * ROWS + r] = row[d]


cdef void multiply(const double* row, const double* columns, int64_t count, double* sums) noexcept nogil:
    """sums[ROWS] = the products of a row and all columns."""
    cdef int64_t d, r
    for r in range(ROWS):
        sums[r] = 0
    for d in range(count):
        for r in range(ROWS):
            sums[r] += row[d] * columns[d * ROWS + r]


cdef void scores(const mha_t* c, int64_t head, int64_t first, int64_t wide, const double* q, const double* key,
                 int64_t j, double* s) noexcept nogil:
    """s[ROWS] = the scores of key j."""
    cdef double bias
    cdef int64_t r
    multiply(key, q, c.depth, s)
    for r in range(ROWS):
        s[r] *= c.scale
        if r < wide:
            if c.causal and j > first + r:
                s[r] = -INFINITY
            elif mha_has(c.p, MHA_BIAS):
                load_bias(c, head, first + r, j, &bias)
                s[r] += bias


cdef inline void load_bias(const mha_t* c, int64_t head, int64_t row, int64_t j, double* bias) noexcept nogil:
    cdef const mx_tensor* t = &c.p.t[<int> MHA_BIAS]
    cdef int64_t heads = c.p.t[<int> MHA_Q].len[1]
    cdef int64_t at = ((head // heads if t.len[0] > 1 else 0) * t.stride[0]
                       + (head % heads if t.len[1] > 1 else 0) * t.stride[1]
                       + (row if t.len[3] > 1 else 0) * t.stride[3] + (j if t.len[4] > 1 else 0) * t.stride[4])
    kernels.load_row(<const char*> c.slots[<int> MHA_BIAS], t.type, at, 1, bias, 1)


cdef inline double factor(const mha_t* c, int64_t head, int64_t row, int64_t j) noexcept nogil:
    """Of an element of the mask: 0 where it is dropped."""
    cdef uint32_t words[4]
    if not c.drops:
        return 1
    mx_philox(<uint64_t> ((head * c.rows + row) * ceil_div(c.keys, 4) + j // 4), c.offset, c.seed, words)
    return c.kept if <double> (words[j % 4] >> 8) >= c.least else 0


cdef inline void most(double* largest, double value) noexcept nogil:
    """The larger one; NaN is the largest."""
    if not fabs(value) <= largest[0]:
        if largest[0] == largest[0]:
            largest[0] = fabs(value)


cdef void forward_task(void* context, int64_t index, int worker) noexcept nogil:
    cdef const mha_t* c = <const mha_t*> context
    cdef int64_t head = index // c.blocks, first = index % c.blocks * ROWS, j, r, d
    cdef int64_t wide = at_most(ROWS, c.rows - first), last = c.keys
    cdef double* row = c.numbers + worker * c.room
    cdef double* q = row + c.depth + c.width
    cdef double* out = q + c.depth * ROWS
    cdef double* s = out + c.width * ROWS
    cdef double[ROWS] top
    cdef double[ROWS] base
    cdef double[ROWS] total
    cdef double value, scale_o = number(c.p, c.slots, MHA_SCALE_O, 1)
    cdef double to_o = number(c.p, c.slots, MHA_DESCALE_S, 1) * number(c.p, c.slots, MHA_DESCALE_V, 1)
    load_columns(c, MHA_Q, head, first, wide, q, row, c.depth)
    if c.causal:
        last = at_most(last, first + wide)
    for r in range(ROWS):
        top[r], total[r] = -INFINITY, 0
    for j in range(last):
        load(c, MHA_K, head, j, row, c.depth)
        scores(c, head, first, wide, q, row, j, s + j * ROWS)
        for r in range(ROWS):
            if not s[j * ROWS + r] <= top[r] and top[r] == top[r]:
                top[r] = s[j * ROWS + r]
    for r in range(wide):
        base[r] = top[r]
        if mha_has(c.p, MHA_M):
            # What the backward pass will read: its p are rounded by no more than those here.
            store(c, MHA_M, head, first + r, &top[r], 1)
            load(c, MHA_M, head, first + r, &base[r], 1)
        if fabs(base[r]) == INFINITY:
            base[r] = 0 if top[r] == -INFINITY else top[r]
    for j in range(last):
        for r in range(wide):
            value = exp(s[j * ROWS + r] - base[r])
            total[r] += value
            s[j * ROWS + r] = value
    memset(out, 0, ROWS * c.width * sizeof(double))
    for j in range(last):
        load(c, MHA_V, head, j, row, c.width)
        for r in range(wide):
            value = s[j * ROWS + r] * factor(c, head, first + r, j) * c.of_s
            for d in range(c.width):
                out[r * c.width + d] += value * row[d]
    for r in range(wide):
        for d in range(c.width):
            out[r * c.width + d] *= to_o / total[r]
            most(c.largest + worker * AMAX + 1, out[r * c.width + d])
            out[r * c.width + d] *= scale_o
        store(c, MHA_O, head, first + r, out + r * c.width, c.width)
        value = 1 / total[r]
        most(c.largest + worker * AMAX, value * exp(top[r] - base[r]))
        if mha_has(c.p, MHA_Z_INV):
            store(c, MHA_Z_INV, head, first + r, &value, 1)


cdef void backward_task(void* context, int64_t head, int worker) noexcept nogil:
    cdef const mha_t* c = <const mha_t*> context
    cdef int64_t block, first, j, r, d, wide, last
    cdef double* row = c.numbers + worker * c.room
    cdef double* q = row + c.depth + c.width
    cdef double* dy = q + c.depth * ROWS           # of dO
    cdef double* dq = dy + c.width * ROWS
    cdef double* dk = dq + c.depth * ROWS
    cdef double* dv = dk + c.depth * c.keys
    cdef double* s
    cdef double[ROWS] score
    cdef double[ROWS] product
    cdef double[ROWS] top
    cdef double[ROWS] inverse
    cdef double[ROWS] delta
    cdef double* largest = c.largest + worker * AMAX
    cdef double p, kept, ds, value
    cdef double descale_dy = number(c.p, c.slots, MHA_DESCALE_DO, 1)
    cdef double to_p = descale_dy * number(c.p, c.slots, MHA_DESCALE_V, 1)
    cdef double to_delta = descale_dy * number(c.p, c.slots, MHA_DESCALE_O, 1)
    cdef double scale_ds = number(c.p, c.slots, MHA_SCALE_DS, 1), descale_ds = number(c.p, c.slots, MHA_DESCALE_DS, 1)
    cdef double to_dq = descale_ds * number(c.p, c.slots, MHA_DESCALE_K, 1)
    cdef double to_dk = descale_ds * number(c.p, c.slots, MHA_DESCALE_Q, 1)
    cdef double to_dv = number(c.p, c.slots, MHA_DESCALE_S, 1) * descale_dy
    memset(dk, 0, c.keys * (c.depth + c.width) * sizeof(double))
    for block in range(c.blocks):
        first = block * ROWS
        wide = at_most(ROWS, c.rows - first)
        last = at_most(c.keys, first + wide) if c.causal else c.keys
        load_columns(c, MHA_Q, head, first, wide, q, row, c.depth)
        load_columns(c, MHA_DO, head, first, wide, dy, row, c.width)
        memset(dq, 0, ROWS * c.depth * sizeof(double))
        for r in range(wide):
            load(c, MHA_M, head, first + r, &top[r], 1)
            load(c, MHA_Z_INV, head, first + r, &inverse[r], 1)
            load(c, MHA_O, head, first + r, row, c.width)
            delta[r] = 0
            for d in range(c.width):
                delta[r] += row[d] * dy[d * ROWS + r]
            delta[r] *= to_delta
        for j in range(last):
            load(c, MHA_K, head, j, row, c.depth)
            load(c, MHA_V, head, j, row + c.depth, c.width)
            scores(c, head, first, wide, q, row, j, score)
            multiply(row + c.depth, dy, c.width, product)
            for r in range(wide):
                if c.causal and j > first + r:
                    continue
                p = exp(score[r] - top[r]) * inverse[r]
                kept = factor(c, head, first + r, j)
                value = p * kept * c.of_s
                s = dv + j * c.width
                for d in range(c.width):
                    s[d] += value * dy[d * ROWS + r]
                ds = p * (product[r] * to_p * kept - delta[r]) * c.given_scale
                most(largest + 3, ds)
                ds *= scale_ds
                s = dk + j * c.depth
                for d in range(c.depth):
                    s[d] += ds * q[d * ROWS + r]
                    dq[r * c.depth + d] += ds * row[d]
        for r in range(wide):
            finish(c, MHA_DQ, head, first + r, dq + r * c.depth, c.depth, to_dq,
                   number(c.p, c.slots, MHA_SCALE_DQ, 1), largest)
    for j in range(c.keys):
        finish(c, MHA_DK, head, j, dk + j * c.depth, c.depth, to_dk, number(c.p, c.slots, MHA_SCALE_DK, 1), largest + 1)
        finish(c, MHA_DV, head, j, dv + j * c.width, c.width, to_dv, number(c.p, c.slots, MHA_SCALE_DV, 1), largest + 2)


cdef void finish(const mha_t* c, int slot, int64_t head, int64_t row, double* numbers, int64_t count, double descale,
                 double scale, double* largest) noexcept nogil:
    cdef int64_t d
    for d in range(count):
        numbers[d] *= descale
        most(largest, numbers[d])
        numbers[d] *= scale
    store(c, slot, head, row, numbers, count)


cdef int host_mha(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_mha_problem* p = <const mx_mha_problem*> problem
    cdef mha_t c
    cdef const mx_tensor* q = &p.t[<int> MHA_Q]
    cdef bint backward = p.what == MX_MHA_BACKWARD
    cdef int width, i, slot, at
    cdef unsigned arithmetic
    cdef double value, probability
    c.p, c.slots = p, slots
    c.heads, c.rows, c.depth = q.len[0] * q.len[1], q.len[3], q.len[4]
    c.keys, c.width = p.t[<int> MHA_K].len[3], p.t[<int> MHA_V].len[4]
    c.blocks = ceil_div(c.rows, ROWS)
    c.causal = scalars[<int> MHA_MASK] != 0
    c.given_scale = scalars[<int> MHA_SCALE]
    c.scale = (c.given_scale * number(p, slots, MHA_DESCALE_Q, 1) * number(p, slots, MHA_DESCALE_K, 1))
    c.of_s = number(p, slots, MHA_SCALE_S, 1)
    c.drops, c.seed, c.offset, c.least, c.kept = False, 0, 0, 0, 1
    if mha_has(p, MHA_PROBABILITY):
        probability = fmin(fmax(number(p, slots, MHA_PROBABILITY, 0), 0), 1)  # NaN is 0
        c.drops = probability > 0
        c.seed, c.offset = (<const uint64_t*> slots[<int> MHA_SEED])[0], (<const uint64_t*> slots[<int> MHA_OFFSET])[0]
        c.least, c.kept = probability * 16777216.0, 1 / (1 - probability)
    c.room = (c.depth + c.width) * (1 + ROWS)
    c.room += c.depth * ROWS + c.keys * (c.depth + c.width) if backward else c.keys * ROWS
    width = acquire_threads(4.0 * c.heads * c.rows * c.keys * (c.depth + c.width), threads)
    c.numbers = <double*> malloc((c.room + AMAX) * width * sizeof(double))
    if c.numbers == NULL:
        release_threads(width)
        return ALLOC_FAILED
    c.largest = c.numbers + c.room * width
    memset(c.largest, 0, AMAX * width * sizeof(double))
    arithmetic = default_arithmetic()
    if backward:
        run_tasks(backward_task, &c, c.heads, width)
    else:
        run_tasks(forward_task, &c, c.heads * c.blocks, width)
    restore_arithmetic(arithmetic)
    release_threads(width)
    for slot in range(AMAX if backward else 2):
        at = (MHA_AMAX_DQ if backward else MHA_AMAX_S) + slot  # they follow each other
        if mha_has(p, at):
            value = 0
            for i in range(width):
                most(&value, c.largest[i * AMAX + slot])
            (<float*> slots[at])[0] = <float> value
    free(c.numbers)
    return 0
