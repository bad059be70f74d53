/* Batch normalisation on GPUs where kept values are neighbours in rows of memory, channels last mostly: x is a matrix
 * whose columns have the statistics.  layers/batchnorm.h has the formulas.
 *
 *         columns ->  TX * VEC      A unit is COLUMNS = TX * VEC columns.  A work-item reads VEC columns of one row in
 *            +------------------+   TY of its part, SETS rows at a time.  What is summed is cut into parts that take
 *     rows   | part 0 | TY rows |   turns, TY rows each, so that all work-groups walk through memory together.  What is
 *            | part 1 | TY rows |   written is cut into slices of neighbouring rows, the last ones first, which the
 *            | part 0 | TY rows |   cache may still have.
 *            +------------------+
 *
 *   bn_whole      everything, for a unit
 *   bn_moments    part of a unit: means and sums of squares into the workspace
 *   bn_gradients  part of a unit: sums of dy and dy (x - shift) into the workspace; with an activation dy is made of
 *                 all parts' moments, which each work-group gathers
 *   bn_settle     what the parts make together, and what y or dx is made with, into the workspace
 *   bn_finish     y or dx; SETTLED = 0: by what the work-group itself makes of the parts
 *
 * Grid:         work-groups, neighbours with neighbouring units: bn_whole units, ceil(columns / COLUMNS), in inference
 *               units * slices; bn_moments and bn_gradients units * parts; bn_settle units; bn_finish units * slices.
 *               Columns of a unit may differ from kernel to kernel; `side` is the parts' TY.  PARTS = 0 for bn_whole,
 *               else 1.
 * Local memory: two arrays of TX * TY * VEC elements of ACC, one of TX * TY, one of FACTORS * COLUMNS; bn_settle and
 *               bn_finish three of TX * TY instead of the first three.  The order of the sums is fixed.
 * Parameters:   TX, TY, VEC, SETS, SETTLED, below, and those of layers/batchnorm.h.  The workspace is that of
 *               layers/batchnorm.h, then FACTORS numbers of each column.
 * Bound by:     memory.
 * x may be where y is, dy where dx is.
 */
#ifndef TX /* powers of two; TY >= VEC */
#define TX 8
#endif
#ifndef TY
#define TY 32
#endif
#ifndef VEC
#define VEC 4
#endif
#ifndef SETS
#define SETS 4
#endif
#ifndef SETTLED
#define SETTLED 0
#endif
#include "layers/batchnorm.h"
#include "include/gpu_vectors.h"
#include "include/group_inline.h"

#if TX < 1 || TY < VEC || (TX & (TX - 1)) != 0 || (TY & (TY - 1)) != 0
#error "TX and TY must be powers of two, TY at least VEC"
#endif

#define COLUMNS (TX * VEC)
#define LOCAL (TX * TY)
#define ROWS (LOCAL / COLUMNS) /* work-items that join what there is of a column */

MX_GET(get, X_TYPE)
MX_PUT(put, X_TYPE)
typedef MX_RAW(X_TYPE) raw_t;
#define WIDE(bits) MX_WIDE(X_TYPE, bits)

/* y = (x - shift) * times + plus; dx = dy * times - (x - shift) * back + plus, where with an activation dy is the
 * gradient of (x - shift) * times + value */
enum { SHIFT, TIMES, PLUS, BACK, VALUE };
#if ACTIVATION_BACKWARD
#define FACTORS 5
#elif BACKWARD
#define FACTORS 4
#else
#define FACTORS 3
#endif
#define AT_FACTOR(b, i) ((b).width * (1 + (BACKWARD ? 4 : 2) * (b).parts + (i)))

/* Of a work-item. */
typedef struct {
    long column; /* the first one */
    int row;
    INDEX first, step, left; /* rows: the first one, from one to the next, and how many */
} area;

/* How many of `rows` rows a work-item has that takes one in `step`. */
static inline INDEX count_of(INDEX rows, INDEX first, INDEX step)
{
    return rows > first ? (rows - first + (step - 1)) / step : 0;
}

#define UNITS(b) (uint)(((b)->width + (COLUMNS - 1)) / COLUMNS)

static inline area area_of(const bn *b, uint unit)
{
    area a;
    a.column = (long)unit * COLUMNS + (int)get_local_id(0) % TX * VEC;
    a.row = (int)get_local_id(0) / TX;
    return a;
}

static inline area part_of(const bn *b, uint unit, INDEX part)
{
    area a = area_of(b, unit);
    a.first = part * TY + a.row;
    a.step = TY * (INDEX)b->parts;
    a.left = a.column < b->width ? count_of((INDEX)b->elements, a.first, a.step) : 0;
    return a;
}

static inline area slice_of(const bn *b, uint unit, uint slice, uint slices)
{
    area a = area_of(b, unit);
    const INDEX rows = (INDEX)b->elements, length = (rows + (INDEX)slices - 1) / (INDEX)slices;
    a.first = (INDEX)min((long)length * slice + a.row, (long)rows);
    a.step = TY;
    a.left = a.column < b->width ? count_of((INDEX)min((long)length * (slice + 1), (long)rows), a.first, TY) : 0;
    return a;
}

/* Rows of a part. */
static inline INDEX rows_of(const bn *b, INDEX part)
{
    const INDEX deep = (INDEX)b->side, cycle = deep * (INDEX)b->parts, rows = (INDEX)b->elements, full = rows / cycle;
    return full * deep + min(max(rows - full * cycle - part * deep, (INDEX)0), deep);
}

/* Chan's formula. */
static inline void combine(ACC *mean, ACC *squares, ACC *count, ACC new_mean, ACC new_squares, ACC more)
{
    if (more > 0) {
        const ACC share = more / (*count + more), d = new_mean - *mean;
        *mean += d * share;
        *squares += new_squares + d * d * (*count * share);
        *count += more;
    }
}

/* All ROWS work-items of a column have what they have together. */
GROUP_INLINE void join_moments(ACC *mean, ACC *squares, ACC count, __local ACC *local_1, __local ACC *local_2,
                         __local ACC *counts)
{
    const int me = (int)get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    local_1[me] = *mean;
    local_2[me] = *squares;
    counts[me] = count;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = ROWS / 2; half_way > 0; half_way /= 2) {
        if (me < half_way * COLUMNS) {
            const int other = me + half_way * COLUMNS;
            combine(mean, squares, &count, local_1[other], local_2[other], counts[other]);
            local_1[me] = *mean;
            local_2[me] = *squares;
            counts[me] = count;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    *mean = local_1[me % COLUMNS];
    *squares = local_2[me % COLUMNS];
}

GROUP_INLINE void join_sums(ACC *first, ACC *second, __local ACC *local_1, __local ACC *local_2)
{
    const int me = (int)get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    local_1[me] = *first;
    local_2[me] = *second;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = ROWS / 2; half_way > 0; half_way /= 2) {
        if (me < half_way * COLUMNS) {
            local_1[me] += local_1[me + half_way * COLUMNS];
            local_2[me] += local_2[me + half_way * COLUMNS];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    *first = local_1[me % COLUMNS];
    *second = local_2[me % COLUMNS];
}

#if !INFERENCE

/* Means, less the first row, and sums of squares of a work-item's rows. */
static inline void add_moments(const bn *b, const area *a, vec_t *mean, vec_t *squares, const bool aligned)
{
    const INDEX left = a->left;
    const long stride = b->w.reduced_stride[0][3], step = a->step * stride;
    __global const STORAGE(X_TYPE) *p = b->x + a->column + a->first * stride;
    vec_t sum = 0, other = 0, rest = 0, other_rest = 0;
    *mean = *squares = 0;
    if (left == 0)
        return;
    /* Of differences from its own first row, so that data far from zero cost no precision; then from the mean so far,
     * after twice as many rows each time, so that one odd element does not either. */
    vec_t pivot = get(p, aligned);
    INDEX rows = SETS;
    for (INDEX done = 0; done < left; done += SETS) {
        raw_t raw[SETS];
#pragma unroll
        for (int i = 0; i < SETS; i++)
            if (done + i < left)
                raw[i] = MX_RAW_LOAD(X_TYPE, p + i * step, aligned);
#pragma unroll
        for (int i = 0; i < SETS; i++)
            if (done + i < left) {
                const vec_t d = WIDE(raw[i]) - pivot;
                ADD_TERM(vec_t, sum, rest, d);
                ADD_TERM(vec_t, other, other_rest, d * d);
            }
        p += SETS * step;
        if (done + SETS == rows && rows < left) {
            const vec_t next = pivot + sum / (ACC)rows, moved = next - pivot;
            other = max(other - moved * (2 * sum - moved * (ACC)rows), (vec_t)0);
            sum -= moved * (ACC)rows;
            pivot = next;
            rows *= 2;
        }
    }
    const vec_t off = sum / (ACC)left;
    *mean = (pivot - get(b->x + a->column, aligned)) + off;
    *squares = max(other - sum * off, (vec_t)0);
}

/* Of a column; `me` takes every ROWS-th row of work-items. */
GROUP_INLINE void sum_moments(const bn *b, const area *a, ACC *mean, ACC *squares, __local ACC *local_1, __local ACC *local_2,
                        __local ACC *counts)
{
    const int me = (int)get_local_id(0);
    vec_t means, others;
    if (MX_ALIGNED(b->x))
        add_moments(b, a, &means, &others, true);
    else
        add_moments(b, a, &means, &others, false);
    barrier(CLK_LOCAL_MEM_FENCE);
    ((__local vec_t *)local_1)[me] = means;
    ((__local vec_t *)local_2)[me] = others;
    barrier(CLK_LOCAL_MEM_FENCE);
    ACC count = 0;
    *mean = *squares = 0;
    for (int row = me / COLUMNS; row < TY; row += ROWS) {
        const int at = row * COLUMNS + me % COLUMNS;
        combine(mean, squares, &count, local_1[at], local_2[at],
                count_of((INDEX)b->elements, a->first - a->row + row, a->step));
    }
    join_moments(mean, squares, count, local_1, local_2, counts);
}

#endif

#if BACKWARD

#define GRADIENT(g, d, factors) NORM_GRADIENT(b, g, (d) * factors[TIMES] + factors[VALUE])

static inline void add_gradients(const bn *b, const area *a, const vec_t factors[FACTORS], vec_t *first,
                                 vec_t *second, const bool aligned)
{
    const INDEX left = a->left;
    const long stride = b->w.reduced_stride[0][3], stride_dy = b->w.reduced_stride[1][3];
    const long step = a->step * stride, step_dy = a->step * stride_dy;
    __global const STORAGE(X_TYPE) *p = b->x + a->column + a->first * stride;
    __global const STORAGE(X_TYPE) *q = b->dy + a->column + a->first * stride_dy;
    vec_t rest = 0, other_rest = 0;
    *first = *second = 0;
    for (INDEX done = 0; done < left; done += SETS) {
        raw_t x[SETS], dy[SETS];
#pragma unroll
        for (int i = 0; i < SETS; i++)
            if (done + i < left) {
                x[i] = MX_RAW_LOAD(X_TYPE, p + i * step, aligned);
                dy[i] = MX_RAW_LOAD(X_TYPE, q + i * step_dy, aligned);
            }
#pragma unroll
        for (int i = 0; i < SETS; i++)
            if (done + i < left) {
                const vec_t each = GRADIENT(WIDE(dy[i]), WIDE(x[i]) - factors[SHIFT], factors);
                ADD_TERM(vec_t, *first, rest, each);
                ADD_TERM(vec_t, *second, other_rest, each * (WIDE(x[i]) - factors[SHIFT]));
            }
        p += SETS * step;
        q += SETS * step_dy;
    }
}

/* With an activation `factors` are those of y; without one they are set here, of which only the shift is needed. */
GROUP_INLINE void sum_gradients(const bn *b, const area *a, vec_t factors[FACTORS], ACC *first, ACC *second,
                          __local ACC *local_1, __local ACC *local_2)
{
    const int me = (int)get_local_id(0);
    vec_t firsts, seconds;
    const bool aligned = MX_ALIGNED(b->x) && MX_ALIGNED(b->dy);
#if !ACTIVATION_BACKWARD
    vec_t shift = 0;
    if (a->column < b->width) {
#if SAVE == 1
#pragma unroll
        for (int i = 0; i < VEC; i++)
            ((ACC *)&shift)[i] = LOAD(MEAN_TYPE)(b->mean, (a->column + i) * b->w.kept_stride[5][3]);
#else
        shift = get(b->x + a->column, false);
#endif
    }
    factors[SHIFT] = shift;
#endif
    if (aligned)
        add_gradients(b, a, factors, &firsts, &seconds, true);
    else
        add_gradients(b, a, factors, &firsts, &seconds, false);
    barrier(CLK_LOCAL_MEM_FENCE);
    ((__local vec_t *)local_1)[me] = firsts;
    ((__local vec_t *)local_2)[me] = seconds;
    barrier(CLK_LOCAL_MEM_FENCE);
    *first = *second = 0;
    for (int row = me / COLUMNS; row < TY; row += ROWS) {
        *first += local_1[row * COLUMNS + me % COLUMNS];
        *second += local_2[row * COLUMNS + me % COLUMNS];
    }
    join_sums(first, second, local_1, local_2);
}

#endif

/* What y or dx is made with, for column `at`; `write`: also the statistics, or the parameters' gradients.  `mean` is
 * less the shift, `first` and `second` are sums of dy and dy (x - shift). */
static inline void settle(const bn *b, long at, ACC shift, ACC mean, ACC squares, ACC first, ACC second, bool write,
                          ACC factors[FACTORS])
{
    const ACC scale = LOAD(SCALE_TYPE)(b->scale, at * b->w.kept_stride[3][3]);
    ACC inv;
    if (GIVEN(b)) {
        mean = 0;
        shift = LOAD(MEAN_TYPE)(b->mean, at * b->w.kept_stride[5][3]);
        inv = LOAD(VARIANCE_TYPE)(b->variance, at * b->w.kept_stride[6][3]);
#if INFERENCE
        inv = GIVEN_INV(b, inv);
#endif
    } else
        inv = 1 / sqrt(squares / (ACC)b->elements + b->epsilon);
#if TRAINING
    const long mean_at = at * b->w.kept_stride[5][3], variance_at = at * b->w.kept_stride[6][3];
    if (write && b->running) {
        ACC old_mean = 0, old_variance = 0;
        if (b->factor != 1) { /* else the old ones may be anything */
            old_mean = (1 - b->factor) * LOAD(MEAN_TYPE)(OLD_MEAN(b), mean_at);
            old_variance = (1 - b->factor) * LOAD(VARIANCE_TYPE)(OLD_VARIANCE(b), variance_at);
        }
        STORE(MEAN_TYPE)(b->mean, mean_at, old_mean + b->factor * (shift + mean));
        STORE(VARIANCE_TYPE)(b->variance, variance_at,
                             old_variance + b->factor * (squares / (ACC)max(1L, b->elements - 1)));
    }
    if (write && b->save) {
        STORE(MEAN_TYPE)(b->saved_mean, mean_at, shift + mean);
        STORE(VARIANCE_TYPE)(b->saved_inv, variance_at, inv);
    }
#endif
    factors[SHIFT] = shift;
    factors[TIMES] = inv * scale;
#if BACKWARD
    const ACC dscale = (second - mean * first) * inv;
    if (write) {
        STORE(SCALE_TYPE)(b->dscale, at * b->w.kept_stride[3][3], dscale);
        STORE(BIAS_TYPE)(b->bias, at * b->w.kept_stride[4][3], first);
    }
    factors[BACK] = inv * scale * (dscale * inv / (ACC)b->elements);
    factors[PLUS] = mean * factors[BACK] - inv * scale * (first / (ACC)b->elements);
#ifdef ACTIVATION
    factors[VALUE] = LOAD(BIAS_TYPE)(b->given_bias, at * b->w.kept_stride[4][3]) - mean * factors[TIMES];
#endif
#else
    factors[PLUS] = LOAD(BIAS_TYPE)(b->bias, at * b->w.kept_stride[4][3]) - mean * factors[TIMES];
#endif
}

static inline void write_rows(const bn *b, const area *a, const vec_t factors[FACTORS], const bool aligned)
{
    const INDEX left = a->left;
    const long stride = b->w.reduced_stride[0][3], stride_y = b->w.reduced_stride[OUT][3];
    const long step = TY * stride, step_y = TY * stride_y;
    __global const STORAGE(X_TYPE) *p = b->x + a->column + a->first * stride;
    __global STORAGE(X_TYPE) *to = b->y + a->column + a->first * stride_y;
#if BACKWARD
    const long stride_dy = b->w.reduced_stride[1][3], step_dy = TY * stride_dy;
    __global const STORAGE(X_TYPE) *q = b->dy + a->column + a->first * stride_dy;
#endif
    for (INDEX done = 0; done < left; done += SETS) {
        raw_t x[SETS];
#if BACKWARD
        raw_t dy[SETS];
#endif
#pragma unroll
        for (int i = 0; i < SETS; i++)
            if (done + i < left) {
                x[i] = MX_RAW_LOAD(X_TYPE, p + i * step, aligned);
#if BACKWARD
                dy[i] = MX_RAW_LOAD(X_TYPE, q + i * step_dy, aligned);
#endif
            }
#pragma unroll
        for (int i = 0; i < SETS; i++)
            if (done + i < left) {
                const vec_t d = WIDE(x[i]) - factors[SHIFT];
#if BACKWARD
                put(to + i * step_y,
                    GRADIENT(WIDE(dy[i]), d, factors) * factors[TIMES] + (factors[PLUS] - d * factors[BACK]), aligned);
#else
                put(to + i * step_y, ACTIVATED(b, d * factors[TIMES] + factors[PLUS]), aligned);
#endif
            }
        p += SETS * step;
        to += SETS * step_y;
#if BACKWARD
        q += SETS * step_dy;
#endif
    }
}

static inline void write_results(const bn *b, const area *a, const vec_t factors[FACTORS])
{
    bool aligned = MX_ALIGNED(b->x) && MX_ALIGNED(b->y);
#if BACKWARD
    aligned = aligned && MX_ALIGNED(b->dy);
#endif
    if (aligned)
        write_rows(b, a, factors, true);
    else
        write_rows(b, a, factors, false);
}

/* By way of local memory: work-item `me` has settled column `me` of the group. */
GROUP_INLINE void hand_round(const ACC mine[FACTORS], __local ACC *local_factors, vec_t factors[FACTORS])
{
    const int me = (int)get_local_id(0);
    if (me < COLUMNS)
#pragma unroll
        for (int i = 0; i < FACTORS; i++)
            local_factors[i * COLUMNS + me] = mine[i];
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int i = 0; i < FACTORS; i++)
        factors[i] = ((__local const vec_t *)(local_factors + i * COLUMNS))[me % TX];
}

#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
#define OF_VECTORS __attribute__((aligned(VEC * sizeof(ACC))))
#define SUMS                                                                            \
    __local ACC local_1[LOCAL * VEC] OF_VECTORS, local_2[LOCAL * VEC] OF_VECTORS;       \
    __local ACC counts[LOCAL]
#define GATHERS __local ACC local_1[LOCAL], local_2[LOCAL], counts[LOCAL]

#if !PARTS

KERNEL bn_whole(BUFFERS, NUMBERS_OF_A_CALL)
{
    __local ACC local_factors[FACTORS * COLUMNS] OF_VECTORS;
    BIND
    const uint units = UNITS(&b), unit = get_group_id(0) % units, slice = get_group_id(0) / units;
    const int me = (int)get_local_id(0);
    const long at = (long)unit * COLUMNS + me;
    ACC start = 0, average = 0, squares = 0, first = 0, second = 0, mine[FACTORS];
    vec_t factors[FACTORS];
#if !INFERENCE
    SUMS;
    const area all = part_of(&b, unit, 0);
    if (!GIVEN(&b))
        sum_moments(&b, &all, &average, &squares, local_1, local_2, counts);
#if BACKWARD
#ifdef ACTIVATION
    if (!GIVEN(&b) && me < COLUMNS && at < b.width)
        start = LOAD(X_TYPE)(b.x, at);
    if (me < COLUMNS && at < b.width)
        settle(&b, at, start, average, squares, 0, 0, false, mine);
    hand_round(mine, local_factors, factors);
#endif
    sum_gradients(&b, &all, factors, &first, &second, local_1, local_2);
#endif
#endif
    if (me < COLUMNS && at < b.width) {
        if (!GIVEN(&b))
            start = LOAD(X_TYPE)(b.x, at);
        settle(&b, at, start, average, squares, first, second, true, mine);
    }
    hand_round(mine, local_factors, factors);
    const area mine_to_write = slice_of(&b, unit, slice, get_num_groups(0) / units);
    write_results(&b, &mine_to_write, factors);
}

#else

#define GATHERED 8 /* parts that a work-item reads at once */

KERNEL bn_moments(BUFFERS, NUMBERS_OF_A_CALL)
{
    SUMS;
    BIND
    const uint units = UNITS(&b), unit = get_group_id(0) % units, part = get_group_id(0) / units;
    const area a = part_of(&b, unit, part);
    const int me = (int)get_local_id(0);
    const long at = (long)unit * COLUMNS + me;
    ACC average, squares;
    sum_moments(&b, &a, &average, &squares, local_1, local_2, counts);
    if (me < COLUMNS && at < b.width) {
        if (part == 0)
            b.space[at] = LOAD(X_TYPE)(b.x, at);
        b.space[b.width * (1 + 2 * (long)part) + at] = average;
        b.space[b.width * (2 + 2 * (long)part) + at] = squares;
    }
}

/* What is known of column `at`, from all parts; without `gradients` of the moments alone. */
GROUP_INLINE void gather(const bn *b, long at, const bool gradients, bool write, ACC mine[FACTORS], __local ACC *local_1,
                   __local ACC *local_2, __local ACC *counts)
{
    const int row = (int)get_local_id(0) / COLUMNS;
    const bool inside = at < b->width;
    const int last = (int)b->parts - 1;
    ACC mean = 0, squares = 0, first = 0, second = 0;
    if (!GIVEN(b)) {
        ACC count = 0;
        for (int part = row; inside && part <= last; part += GATHERED * ROWS) {
            ACC means[GATHERED], others[GATHERED]; /* read before the first is waited for */
#pragma unroll
            for (int i = 0; i < GATHERED; i++) {
                const long from = AT_MOMENTS(min(part + i * ROWS, last)) + at;
                means[i] = b->space[from];
                others[i] = b->space[from + b->width];
            }
#pragma unroll
            for (int i = 0; i < GATHERED; i++) {
                const int one = part + i * ROWS;
                combine(&mean, &squares, &count, means[i], others[i], one <= last ? rows_of(b, one) : 0);
            }
        }
        join_moments(&mean, &squares, count, local_1, local_2, counts);
    }
#if BACKWARD
    if (gradients) {
        for (int part = row; inside && part <= last; part += GATHERED * ROWS) {
            ACC firsts[GATHERED], seconds[GATHERED];
#pragma unroll
            for (int i = 0; i < GATHERED; i++) {
                const long from = AT_GRADIENTS(min(part + i * ROWS, last)) + at;
                firsts[i] = b->space[from];
                seconds[i] = b->space[from + b->width];
            }
#pragma unroll
            for (int i = 0; i < GATHERED; i++)
                if (part + i * ROWS <= last) {
                    first += firsts[i];
                    second += seconds[i];
                }
        }
        join_sums(&first, &second, local_1, local_2);
    }
#endif
    if (inside && row == 0)
        settle(b, at, GIVEN(b) ? (ACC)0 : b->space[at], mean, squares, first, second, write, mine);
}

#if BACKWARD

KERNEL bn_gradients(BUFFERS, NUMBERS_OF_A_CALL)
{
    SUMS;
    BIND
    const uint units = UNITS(&b), unit = get_group_id(0) % units, part = get_group_id(0) / units;
    const area a = part_of(&b, unit, part);
    const int me = (int)get_local_id(0);
    const long at = (long)unit * COLUMNS + me;
    ACC first, second;
    vec_t factors[FACTORS];
#ifdef ACTIVATION
    __local ACC local_factors[FACTORS * COLUMNS] OF_VECTORS;
    ACC mine[FACTORS];
    gather(&b, (long)unit * COLUMNS + me % COLUMNS, false, false, mine, local_1, local_2, counts);
    hand_round(mine, local_factors, factors);
#endif
    sum_gradients(&b, &a, factors, &first, &second, local_1, local_2);
    if (me < COLUMNS && at < b.width) {
        b.space[b.width * (1 + 2 * (b.parts + part)) + at] = first;
        b.space[b.width * (2 + 2 * (b.parts + part)) + at] = second;
    }
}

#endif

KERNEL bn_settle(BUFFERS, NUMBERS_OF_A_CALL)
{
    GATHERS;
    BIND
    const int me = (int)get_local_id(0);
    const long at = (long)get_group_id(0) * COLUMNS + me % COLUMNS;
    ACC mine[FACTORS];
    gather(&b, at, true, true, mine, local_1, local_2, counts);
    if (me < COLUMNS && at < b.width)
#pragma unroll
        for (int i = 0; i < FACTORS; i++)
            b.space[AT_FACTOR(b, i) + at] = mine[i];
}

KERNEL bn_finish(BUFFERS, NUMBERS_OF_A_CALL)
{
    BIND
    /* From the end on: what was read last is still in the cache. */
    const uint units = UNITS(&b), group = get_num_groups(0) - 1 - get_group_id(0), slices = get_num_groups(0) / units;
    const area a = slice_of(&b, group % units, group / units, slices);
    vec_t factors[FACTORS];
#if SETTLED
    if (a.column < b.width)
#pragma unroll
        for (int i = 0; i < FACTORS; i++) {
            __global const ACC *from = b.space + AT_FACTOR(b, i) + a.column;
#if VEC == 1
            factors[i] = *from;
#else
            factors[i] = MX_ALIGNED(b.space) ? *(__global const vec_t *)from : MX_V(vload)(0, from);
#endif
        }
#else
    GATHERS;
    __local ACC local_factors[FACTORS * COLUMNS] OF_VECTORS;
    ACC mine[FACTORS];
    gather(&b, (long)(group % units) * COLUMNS + get_local_id(0) % COLUMNS, true, group / units == 0, mine, local_1,
           local_2, counts);
    hand_round(mine, local_factors, factors);
#endif
    write_results(&b, &a, factors);
}

#endif
