# cython: cdivision=True
"""Batch normalisation on the host: float64, two passes for the statistics.

Statistics are kept along some axes and taken over the others.  Where memory runs along a kept axis a block is a
piece of it, LANES of them side by side; else a block is one channel, whose rows run along a reduced axis.  A block is
one task that does everything, its data being in the cache still when they are read again.  Where there are few blocks
each is cut into chunks, and the passes follow one another.
"""

from libc.math cimport fabs, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from miopyx.problem._activation cimport LOGISTIC, TANH
from miopyx.problem._batchnorm cimport (
    BN_ALPHA, BN_BACK_BIAS, BN_BACK_DBIAS, BN_BACK_DSCALE, BN_BACK_DX, BN_BACK_INV, BN_BACK_MEAN, BN_BACK_SCALE,
    BN_BETA, BN_BIAS, BN_EPSILON, BN_FACTOR, BN_GAMMA, BN_MEAN, BN_OLD_MEAN, BN_OLD_VARIANCE, BN_SAVED_INV,
    BN_SAVED_MEAN, BN_SCALE, BN_VARIANCE,
)
from ._activation cimport activate, activation_gradient
from ._common cimport ALLOC_FAILED, at_least, at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport TASKS, acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks
from miopyx.values._types cimport (
    MX_AXES, MX_BN_BACKWARD, MX_BN_INFERENCE, MX_BN_TRAINING, MX_HALF, mx_batchnorm_problem, mx_tensor,
)

cdef enum:
    LANES = 256                # of a block, at most
    ROW = 2048                 # elements that are loaded at once, at most
    TERMS = 1024               # of a plain sum, at most; a total of such sums keeps what is rounded away
    ROWS = 3                   # that a worker has: x, dy, and what an activation was given
    KINDS = 8                  # numbers that are kept of each lane
    # which are these
    MEAN = 0
    INV = 1
    FIRST = 2                  # sum of dy; bias
    SECOND = 3                 # sum of dy (x - mean); scale
    TIMES = 4                  # scale * inv and
    PLUS = 5                   # bias, of the result whose gradient an activation's is turned into
    PART = 6                   # of a chunk: a sum
    PART_2 = 7                 # of a chunk: another one

cdef enum:
    X = 0
    Y = 1                      # dy backward
    DX = 2
    SCALE = 3
    BIAS = 4
    MEANS = 5
    VARIANCES = 6


cdef struct bn_t:
    const mx_batchnorm_problem* p
    bn_walk w
    const mx_tensor* tensor[7]
    char* data[3]              # x, y (dy), dx
    char* scale
    char* bias
    char* mean                 # running, estimated, or saved and given
    char* variance
    char* old_mean             # what running ones are moved from
    char* old_variance
    char* saved_mean           # to be written
    char* saved_inv
    char* dscale
    char* dbias
    double factor, epsilon
    double alpha, beta, gamma, eps  # the activation's
    bint lanes
    int axis_count             # how many of x, y, dx there are
    int64_t step[3]            # along the row
    int64_t pieces             # lanes: of the kept axis; rows: of a row
    int64_t segments           # rows, or pieces of them, that a block consists of
    int64_t elements           # that statistics are taken over
    int64_t blocks, chunks
    int64_t width              # lanes of all blocks
    double* numbers            # KINDS of each lane and, for PART and PART_2, each chunk
    double* rows               # of each worker
    int pass_                  # that the tasks do


cdef struct block_t:
    int64_t lane               # the first one
    int64_t count              # lanes
    int64_t at[7]              # where the tensors begin


cdef int add_axis(int64_t* length, int64_t* stride, int tensors, int64_t new_length, const int64_t* new_stride,
                  int last) noexcept nogil:
    """Put an axis before those from `last` on, or join it with the first of them; returns where axes begin then."""
    cdef int t
    cdef bint joined = last < 4
    if new_length == 1:
        return last
    for t in range(tensors):
        if last < 4 and new_stride[t] != stride[4 * t + last] * length[last]:
            joined = False
    if joined:
        length[last] *= new_length
        return last
    last -= 1
    length[last] = new_length
    for t in range(tensors):
        stride[4 * t + last] = new_stride[t]
    return last


cdef int64_t parameter_stride(const mx_tensor* t, const mx_tensor* x, int axis) noexcept nogil:
    """A parameter's stride along an axis of x; d and h may be a single axis of it."""
    if axis == 2 and x.len[2] > 1 and t.len[2] == 1 and t.len[3] == x.len[2] * x.len[3]:
        return t.stride[3] * x.len[3]
    return t.stride[axis]


cdef int fill_walk(bn_walk* walk, const mx_batchnorm_problem* p) noexcept nogil:
    """Write how the tensors of a problem are walked."""
    cdef const mx_tensor* tensor[7]
    cdef int order[5]
    cdef int64_t stride[7]
    cdef int i, j, t, axis, kept = 4, reduced = 4
    tensor[0], tensor[1], tensor[2] = &p.x, &p.y, &p.dx
    tensor[3], tensor[4], tensor[5], tensor[6] = &p.scale, &p.bias, &p.mean, &p.variance
    memset(walk, 0, sizeof(bn_walk))
    for i in range(4):
        walk.kept[i] = walk.reduced[i] = 1
    for i in range(MX_AXES):  # by x's strides, the largest first
        j = i
        while j > 0 and p.x.stride[order[j - 1]] < p.x.stride[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    for i in range(MX_AXES - 1, -1, -1):
        axis = order[i]
        for t in range(3):
            stride[t] = tensor[t].stride[axis]
        if axis == 1 or (axis > 1 and p.mode == 0):
            for t in range(3, BN_TENSORS):
                stride[t] = parameter_stride(tensor[t], &p.x, axis)
            kept = add_axis(walk.kept, &walk.kept_stride[0][0], BN_TENSORS, p.x.len[axis], stride, kept)
        else:
            reduced = add_axis(walk.reduced, &walk.reduced_stride[0][0], 3, p.x.len[axis], stride, reduced)
    return 0


cdef inline int64_t unflatten(const int64_t* length, int axes, int64_t index, const int64_t* stride) noexcept nogil:
    cdef int64_t at = 0
    cdef int axis
    for axis in range(axes - 1, -1, -1):
        if length[axis] > 1:
            at += index % length[axis] * stride[axis]
            index //= length[axis]
    return at


cdef void locate(const bn_t* c, int64_t index, block_t* b) noexcept nogil:
    cdef int64_t first
    cdef int t
    if not c.lanes:
        b.lane, b.count = index, 1
        for t in range(BN_TENSORS):
            b.at[t] = unflatten(c.w.kept, 4, index, c.w.kept_stride[t])
        return
    first = index % c.pieces * LANES
    index //= c.pieces
    b.lane = index * c.w.kept[3] + first
    b.count = at_most(LANES, c.w.kept[3] - first)
    for t in range(BN_TENSORS):
        b.at[t] = unflatten(c.w.kept, 3, index, c.w.kept_stride[t]) + first * c.w.kept_stride[t][3]


cdef inline int64_t segment(const bn_t* c, const block_t* b, int64_t index, int64_t* at) noexcept nogil:
    """Where a segment of a block lies in x, y and dx; returns its length."""
    cdef int64_t first = 0, count = b.count
    cdef int t
    if c.lanes:
        for t in range(c.axis_count):
            at[t] = b.at[t] + unflatten(c.w.reduced, 4, index, c.w.reduced_stride[t])
        return count
    if c.pieces > 1:
        first = index % c.pieces * ROW
        index //= c.pieces
    for t in range(c.axis_count):
        at[t] = b.at[t] + unflatten(c.w.reduced, 3, index, c.w.reduced_stride[t]) + first * c.step[t]
    return at_most(ROW, c.w.reduced[3] - first)


cdef inline void load(const bn_t* c, int t, int64_t at, double* row, int64_t count) noexcept nogil:
    kernels.load_row(c.data[t], c.tensor[t].type, at, c.step[t], row, count)


cdef inline void load_parameters(const bn_t* c, int t, const char* data, const block_t* b, double* to) noexcept nogil:
    kernels.load_row(data, c.tensor[t].type, b.at[t], c.w.kept_stride[t][3], to, b.count)


cdef inline void store_parameters(const bn_t* c, int t, char* data, const block_t* b,
                                  const double* values) noexcept nogil:
    kernels.store_row(data, c.tensor[t].type, b.at[t], c.w.kept_stride[t][3], values, b.count)


cdef void add_parts(const bn_t* c, const block_t* b, double* numbers, int64_t width, int kind, int to) noexcept nogil:
    """Add up the chunks' sums; numbers[to] takes the result."""
    cdef int64_t i, q
    for i in range(b.count):
        numbers[to * width + i] = numbers[kind * width + i]
    for q in range(1, c.chunks):
        for i in range(b.count):
            numbers[to * width + i] += numbers[(kind + 2 * q) * width + i]


cdef struct total_t:
    double sum
    double lost                # what its roundings took


cdef inline void settle(total_t* total, double* sum) noexcept nogil:
    """Add a plain sum to a total, and begin it anew."""
    cdef double t = total.sum + sum[0], z = t - total.sum
    total.lost += (total.sum - (t - z)) + (sum[0] - z)
    total.sum = t
    sum[0] = 0


cdef inline void settle_lanes(total_t* totals, double* sums, int64_t count, bint last) noexcept nogil:
    """`settle` every lane; the last time `sums` take the totals."""
    cdef int64_t i
    for i in range(count):
        settle(&totals[i], &sums[i])
        if last:
            sums[i] = totals[i].sum + totals[i].lost


# The passes over a chunk of a block.  `numbers` are those of the block's first lane, of which each kind takes `width`.

cdef void sum_values(const bn_t* c, const block_t* b, int64_t q, double* numbers, int64_t width, double* row,
                     bint squares) noexcept nogil:
    """Sum x or, once the mean is known, the squares of its distances from the mean."""
    cdef double* sums = numbers + (PART + 2 * q) * width
    cdef double* mean = numbers + MEAN * width
    cdef total_t totals[LANES]
    cdef int64_t at[3]
    cdef int64_t s, i, n, first = q * c.segments // c.chunks, end = (q + 1) * c.segments // c.chunks
    cdef double s0, s1, s2, s3, m = mean[0] if squares else 0
    memset(sums, 0, b.count * sizeof(double))
    memset(totals, 0, b.count * sizeof(total_t))
    for s in range(first, end):
        n = segment(c, b, s, at)
        load(c, X, at[0], row, n)
        if c.lanes and squares:
            for i in range(n):
                sums[i] += (row[i] - mean[i]) * (row[i] - mean[i])
        elif c.lanes:
            for i in range(n):
                sums[i] += row[i]
        else:
            if squares:
                for i in range(n):
                    row[i] = (row[i] - m) * (row[i] - m)
            s0 = s1 = s2 = s3 = 0
            for i in range(0, n - 3, 4):
                s0 += row[i]
                s1 += row[i + 1]
                s2 += row[i + 2]
                s3 += row[i + 3]
            for i in range(n - n % 4, n):
                s0 += row[i]
            sums[0] = (s0 + s1) + (s2 + s3)
        if not c.lanes or (s - first + 1) % TERMS == 0 or s == end - 1:
            settle_lanes(totals, sums, b.count, s == end - 1)


cdef void undo_activation(const bn_t* c, const double* x, double* dy, const double* mean, const double* times,
                          const double* plus, double* v, int64_t n) noexcept nogil:
    """Turn the gradient of an activation into that of what it was given, v = times (x - mean) + plus."""
    cdef double m = mean[0], t = times[0], p = plus[0]
    cdef int64_t i
    if c.lanes:
        for i in range(n):
            v[i] = times[i] * (x[i] - mean[i]) + plus[i]
    else:
        for i in range(n):
            v[i] = t * (x[i] - m) + p
    if c.p.activation == LOGISTIC or c.p.activation == TANH:  # whose gradient reads what they gave
        activate(c.p.activation, c.alpha, c.beta, c.gamma, c.eps, v, n)
    activation_gradient(c.p.activation, c.alpha, c.beta, c.gamma, c.eps, dy, v, n)


cdef inline void load_gradient(const bn_t* c, int64_t at, const double* x, double* dy, const double* numbers,
                               int64_t width, int64_t n) noexcept nogil:
    """dy of the batch normalisation's own result; behind it lies a row to work in."""
    load(c, Y, at, dy, n)
    if c.p.activation:
        undo_activation(c, x, dy, numbers + MEAN * width, numbers + TIMES * width, numbers + PLUS * width, dy + ROW, n)


cdef void sum_gradients(const bn_t* c, const block_t* b, int64_t q, double* numbers, int64_t width,
                        double* row) noexcept nogil:
    """Sum dy and dy (x - mean)."""
    cdef double* sums = numbers + (PART + 2 * q) * width
    cdef double* others = numbers + (PART_2 + 2 * q) * width
    cdef double* mean = numbers + MEAN * width
    cdef double* dy = row + ROW
    cdef total_t totals[2 * LANES]
    cdef int64_t at[3]
    cdef int64_t s, i, n, first = q * c.segments // c.chunks, end = (q + 1) * c.segments // c.chunks
    cdef double s0, s1, g0, g1, m = mean[0]
    memset(sums, 0, b.count * sizeof(double))
    memset(others, 0, b.count * sizeof(double))
    memset(totals, 0, b.count * sizeof(total_t))
    memset(totals + LANES, 0, b.count * sizeof(total_t))
    for s in range(first, end):
        n = segment(c, b, s, at)
        load(c, X, at[X], row, n)
        load_gradient(c, at[Y], row, dy, numbers, width, n)
        if c.lanes:
            for i in range(n):
                sums[i] += dy[i]
                others[i] += dy[i] * (row[i] - mean[i])
        else:
            s0 = s1 = g0 = g1 = 0
            for i in range(0, n - 1, 2):
                s0 += dy[i]
                s1 += dy[i + 1]
                g0 += dy[i] * (row[i] - m)
                g1 += dy[i + 1] * (row[i + 1] - m)
            if n % 2:
                s0 += dy[n - 1]
                g0 += dy[n - 1] * (row[n - 1] - m)
            sums[0], others[0] = s0 + s1, g0 + g1
        if not c.lanes or (s - first + 1) % TERMS == 0 or s == end - 1:
            settle_lanes(totals, sums, b.count, s == end - 1)
            settle_lanes(totals + LANES, others, b.count, s == end - 1)


cdef void write_results(const bn_t* c, const block_t* b, int64_t q, double* numbers, int64_t width,
                        double* row) noexcept nogil:
    """y = act(scale (x - mean) inv + bias), or, with the dy of what act was given,
    dx = scale inv (dy - sum dy / M - (x - mean) inv^2 sum dy (x - mean) / M).
    """
    cdef double* mean = numbers + MEAN * width
    cdef double* inv = numbers + INV * width
    cdef double* first = numbers + FIRST * width
    cdef double* second = numbers + SECOND * width
    cdef double* dy = row + ROW
    cdef int64_t at[3]
    cdef int64_t s, i, n
    cdef double m = mean[0], v = inv[0], f = first[0], g = second[0]
    cdef bint backward = c.p.what == MX_BN_BACKWARD
    for s in range(q * c.segments // c.chunks, (q + 1) * c.segments // c.chunks):
        n = segment(c, b, s, at)
        load(c, X, at[X], row, n)
        if backward:
            load_gradient(c, at[Y], row, dy, numbers, width, n)
            if c.lanes:
                for i in range(n):
                    dy[i] = inv[i] * (dy[i] - first[i] - (row[i] - mean[i]) * second[i])
            else:
                for i in range(n):
                    dy[i] = v * (dy[i] - f - (row[i] - m) * g)
            kernels.store_row(c.data[DX], c.p.dx.type, at[DX], c.step[DX], dy, n)
            continue
        if c.lanes:
            for i in range(n):
                row[i] = (row[i] - mean[i]) * inv[i] * second[i] + first[i]
        else:
            for i in range(n):
                row[i] = (row[i] - m) * v * g + f
        if c.p.activation:
            activate(c.p.activation, c.alpha, c.beta, c.gamma, c.eps, row, n)
        kernels.store_row(c.data[Y], c.p.y.type, at[Y], c.step[Y], row, n)


# What is done for a whole block between the passes.

cdef void settle_mean(const bn_t* c, const block_t* b, double* numbers, int64_t width) noexcept nogil:
    cdef int64_t i
    add_parts(c, b, numbers, width, PART, MEAN)
    for i in range(b.count):
        numbers[MEAN * width + i] /= c.elements


cdef void update(const bn_t* c, int t, const char* old, char* data, const block_t* b, const double* fresh, double by,
                 double* row) noexcept nogil:
    """Move running statistics from old ones towards new ones."""
    cdef double factor = c.factor
    cdef int64_t i
    if factor == 1:  # the old ones may be anything
        for i in range(b.count):
            row[i] = fresh[i] * by
    else:
        load_parameters(c, t, old, b, row)
        for i in range(b.count):
            row[i] = (1 - factor) * row[i] + factor * (fresh[i] * by)
    store_parameters(c, t, data, b, row)


cdef void settle_variance(const bn_t* c, const block_t* b, double* numbers, int64_t width, double* row) noexcept nogil:
    """The statistics are known: keep what is to be kept."""
    cdef double* mean = numbers + MEAN * width
    cdef double* inv = numbers + INV * width
    cdef int64_t i
    add_parts(c, b, numbers, width, PART, INV)
    for i in range(b.count):
        inv[i] /= c.elements
    if c.p.what == MX_BN_TRAINING and c.p.running:
        update(c, MEANS, c.old_mean, c.mean, b, mean, 1.0, row)
        update(c, VARIANCES, c.old_variance, c.variance, b, inv, <double> c.elements / at_least(1, c.elements - 1), row)
    for i in range(b.count):
        inv[i] = 1 / sqrt(inv[i] + c.epsilon)
    if c.p.what == MX_BN_TRAINING and c.p.save:
        store_parameters(c, MEANS, c.saved_mean, b, mean)
        store_parameters(c, VARIANCES, c.saved_inv, b, inv)


cdef void settle_coefficients(const bn_t* c, const block_t* b, double* numbers, int64_t width,
                              double* row) noexcept nogil:
    """What write_results needs beside mean and inv; backward, inv becomes scale * inv."""
    cdef double* inv = numbers + INV * width
    cdef double* first = numbers + FIRST * width
    cdef double* second = numbers + SECOND * width
    cdef int64_t i
    if c.p.what != MX_BN_BACKWARD:
        load_parameters(c, SCALE, c.scale, b, second)
        load_parameters(c, BIAS, c.bias, b, first)
        return
    add_parts(c, b, numbers, width, PART, FIRST)
    add_parts(c, b, numbers, width, PART_2, SECOND)
    store_parameters(c, BIAS, c.dbias, b, first)
    for i in range(b.count):
        row[i] = second[i] * inv[i]
    load_parameters(c, SCALE, c.scale, b, row + ROW)  # before dscale is written
    store_parameters(c, SCALE, c.dscale, b, row)
    for i in range(b.count):
        first[i] /= c.elements
        second[i] = second[i] * inv[i] * inv[i] / c.elements
        inv[i] *= row[ROW + i]


cdef void load_statistics(const bn_t* c, const block_t* b, double* numbers, int64_t width) noexcept nogil:
    cdef double* inv = numbers + INV * width
    cdef int64_t i
    load_parameters(c, MEANS, c.mean, b, numbers + MEAN * width)
    load_parameters(c, VARIANCES, c.variance, b, inv)
    if c.p.what == MX_BN_INFERENCE and not c.p.inverse:
        for i in range(b.count):
            inv[i] = 1 / sqrt(fabs(inv[i] + c.epsilon))


cdef void load_result(const bn_t* c, const block_t* b, double* numbers, int64_t width) noexcept nogil:
    """Backward, mean and inv being known: what was given to the activation, if there is one."""
    cdef double* inv = numbers + INV * width
    cdef double* times = numbers + TIMES * width
    cdef int64_t i
    if c.p.activation:
        load_parameters(c, SCALE, c.scale, b, times)
        load_parameters(c, BIAS, c.bias, b, numbers + PLUS * width)
        for i in range(b.count):
            times[i] *= inv[i]


cdef inline bint has_statistics(const bn_t* c) noexcept nogil:
    return c.p.what == MX_BN_INFERENCE or (c.p.what == MX_BN_BACKWARD and c.p.save)


cdef void block_task(void* context, int64_t index, int worker) noexcept nogil:
    """A whole block."""
    cdef const bn_t* c = <const bn_t*> context
    cdef double* numbers = c.numbers + worker * KINDS * LANES
    cdef double* row = c.rows + worker * ROWS * ROW
    cdef block_t b
    locate(c, index, &b)
    if has_statistics(c):
        load_statistics(c, &b, numbers, LANES)
    else:
        sum_values(c, &b, 0, numbers, LANES, row, False)
        settle_mean(c, &b, numbers, LANES)
        sum_values(c, &b, 0, numbers, LANES, row, True)
        settle_variance(c, &b, numbers, LANES, row)
    if c.p.what == MX_BN_BACKWARD:
        load_result(c, &b, numbers, LANES)
        sum_gradients(c, &b, 0, numbers, LANES, row)
    settle_coefficients(c, &b, numbers, LANES, row)
    write_results(c, &b, 0, numbers, LANES, row)


cdef void chunk_task(void* context, int64_t index, int worker) noexcept nogil:
    """One pass over one chunk of a block."""
    cdef const bn_t* c = <const bn_t*> context
    cdef double* row = c.rows + worker * ROWS * ROW
    cdef int64_t q = index % c.chunks
    cdef block_t b
    locate(c, index // c.chunks, &b)
    if c.pass_ < 2:
        sum_values(c, &b, q, c.numbers + b.lane, c.width, row, c.pass_ == 1)
    elif c.pass_ == 2:
        sum_gradients(c, &b, q, c.numbers + b.lane, c.width, row)
    else:
        write_results(c, &b, q, c.numbers + b.lane, c.width, row)


cdef void run_chunks(bn_t* c, int width) noexcept nogil:
    """Pass after pass."""
    cdef int64_t i
    cdef block_t b
    cdef int kind
    for kind in range(4):
        c.pass_ = kind
        if (kind < 2 and has_statistics(c)) or (kind == 2 and c.p.what != MX_BN_BACKWARD):
            continue
        if kind >= 2:
            for i in range(c.blocks):
                locate(c, i, &b)
                if has_statistics(c) and (kind == 2 or c.p.what == MX_BN_INFERENCE):
                    load_statistics(c, &b, c.numbers + b.lane, c.width)
                if kind == 2:
                    load_result(c, &b, c.numbers + b.lane, c.width)
                else:
                    settle_coefficients(c, &b, c.numbers + b.lane, c.width, c.rows)
        run_tasks(chunk_task, c, c.blocks * c.chunks, width)
        for i in range(c.blocks if kind < 2 else 0):
            locate(c, i, &b)
            if kind == 0:
                settle_mean(c, &b, c.numbers + b.lane, c.width)
            else:
                settle_variance(c, &b, c.numbers + b.lane, c.width, c.rows)


cdef int host_batchnorm(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_batchnorm_problem* p = <const mx_batchnorm_problem*> problem
    cdef int64_t kept = 1, elements = 1
    cdef int i, width
    cdef unsigned arithmetic
    cdef bn_t c
    memset(&c, 0, sizeof(c))
    c.p = p
    fill_walk(&c.w, p)
    c.tensor[0], c.tensor[1], c.tensor[2], c.tensor[3] = &p.x, &p.y, &p.dx, &p.scale
    c.tensor[4], c.tensor[5], c.tensor[6] = &p.bias, &p.mean, &p.variance
    c.data[0], c.data[1] = <char*> slots[0], <char*> slots[1]
    c.axis_count = 2
    if p.what == MX_BN_BACKWARD:
        c.data[2], c.scale = <char*> slots[BN_BACK_DX], <char*> slots[BN_BACK_SCALE]
        c.dscale, c.dbias = <char*> slots[BN_BACK_DSCALE], <char*> slots[BN_BACK_DBIAS]
        c.mean, c.variance = <char*> slots[BN_BACK_MEAN], <char*> slots[BN_BACK_INV]
        c.epsilon, c.axis_count = scalars[0], 3
        if p.activation:
            c.bias = <char*> slots[BN_BACK_BIAS]
    else:
        c.scale, c.bias = <char*> slots[BN_SCALE], <char*> slots[BN_BIAS]
        c.mean, c.variance = <char*> slots[BN_MEAN], <char*> slots[BN_VARIANCE]
        c.old_mean, c.old_variance = c.mean, c.variance
        if p.previous:
            c.old_mean, c.old_variance = <char*> slots[BN_OLD_MEAN], <char*> slots[BN_OLD_VARIANCE]
        if p.what == MX_BN_TRAINING:
            c.saved_mean, c.saved_inv = <char*> slots[BN_SAVED_MEAN], <char*> slots[BN_SAVED_INV]
            c.factor, c.epsilon = scalars[BN_FACTOR], scalars[BN_EPSILON]
        else:
            c.epsilon = scalars[0]
    c.alpha, c.beta, c.gamma = scalars[BN_ALPHA], scalars[BN_BETA], scalars[BN_GAMMA]
    c.eps = 1e-4 if p.x.type == MX_HALF else 1e-6
    for i in range(4):
        kept *= c.w.kept[i]
        elements *= c.w.reduced[i]
    c.elements = elements
    c.lanes = c.w.kept[3] > 1 and (c.w.reduced[3] == 1 or (
        c.w.kept[3] >= 8 and c.w.kept_stride[0][3] < c.w.reduced_stride[0][3]))
    for i in range(3):
        c.step[i] = c.w.kept_stride[i][3] if c.lanes else c.w.reduced_stride[i][3]
    if c.lanes:
        c.pieces = ceil_div(c.w.kept[3], LANES)
        c.blocks = kept // c.w.kept[3] * c.pieces
        c.segments = elements
    else:
        c.pieces = ceil_div(c.w.reduced[3], ROW)
        c.blocks = kept
        c.segments = elements // c.w.reduced[3] * c.pieces
    # Few blocks are cut, so that several threads find work; how depends on the problem alone.
    c.chunks = at_least(1, at_most(at_most(TASKS // c.blocks, c.segments), kept * elements // 65536))
    width = acquire_threads(kept * elements * 8.0, threads)
    c.width = LANES * width if c.chunks == 1 else kept
    c.rows = <double*> malloc((ROWS * ROW * width + c.width * (PART + 2 * c.chunks)) * sizeof(double))
    if c.rows == NULL:
        release_threads(width)
        return ALLOC_FAILED
    c.numbers = c.rows + ROWS * ROW * width
    arithmetic = default_arithmetic()
    if c.chunks == 1:
        run_tasks(block_task, &c, c.blocks, width)
    else:
        run_chunks(&c, width)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(c.rows)
    return 0
