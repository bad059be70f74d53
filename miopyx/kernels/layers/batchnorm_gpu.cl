/* Batch normalisation on GPUs, any strides: a work-group of TX x TY work-items takes TX kept values that are
 * neighbours, and part of the axes that statistics are taken over.  layers/batchnorm.h has the formulas.
 *
 *         kept values ->  TX          Each of the TY rows of work-items reads every TY-th vector of the part.
 *               +------------------+  Vectors are of VEC elements of a reduced axis, and neighbours read neighbours:
 *            TY | vectors, strided |  either memory runs along that axis and a work-group has one kept value
 *               +------------------+  (TX = 1), or VEC = 1 and there are TX of them.
 *
 *   bn_whole      everything, for a unit of kept values
 *   bn_moments    part of a unit: mean and sum of squares into the workspace
 *   bn_gradients  part of a unit: sums of dy and dy (x - mean) into the workspace
 *   bn_finish     part of a unit: combines the parts' statistics and writes y or dx; a unit's first part writes the
 *                 statistics, too
 *
 * Grid:         work-groups: bn_whole units, ceil(kept / TX), in inference units * parts; the others units * parts.
 *               PARTS = 0 for bn_whole, whose parts are 1 but for inference, else 1.
 * Local memory: three arrays of TX * TY elements of ACC.  The order of the sums is fixed.
 * Parameters:   TX, TY, FLAT, VEC, SETS, below, and those of layers/batchnorm.h.
 * Bound by:     memory; with few units by the latency of launches.
 * x may be where y is, dy where dx is.
 */
#ifndef TX /* powers of two */
#define TX 32
#endif
#ifndef TY
#define TY 8
#endif
#ifndef FLAT /* two reduced axes at most, and every place in the tensors fits INDEX: no divisions in loops */
#define FLAT 0
#endif
#ifndef VEC /* elements that a work-item reads at once; 1 where FLAT = 0 */
#define VEC 1
#endif
#ifndef SETS /* vectors that a work-item has under way; it takes their mean before their squares */
#define SETS 8
#endif
#include "layers/batchnorm.h"
#include "include/gpu_vectors.h"
#include "include/group_inline.h"

#if TX < 1 || TY < 1 || (TX & (TX - 1)) != 0 || (TY & (TY - 1)) != 0
#error "TX and TY must be powers of two"
#endif
#if VEC > 1 && (!FLAT || TX > 1)
#error "vectors are of a reduced axis that is innermost"
#endif

MX_GET(get, X_TYPE)
MX_PUT(put, X_TYPE)

typedef struct {
    long lane;      /* the first kept value */
    bool inside;    /* there is such a one */
    int row;        /* of work-items */
    int column;
    long at[7];     /* where the tensors begin */
    ACC shift;
    ACC mean;     /* less the shift */
    ACC inv;      /* sum of squares, then 1 / sqrt(variance + epsilon) */
    ACC first;    /* sum of dy; bias */
    ACC second;   /* sum of dy (x - mean); scale */
#if ACTIVATION_BACKWARD
    ACC times;    /* scale / sqrt(variance + epsilon) */
    ACC plus;     /* bias */
#endif
} unit;

/* The gradient of what a batch normalisation made of x, which is d from the mean. */
#define GRADIENT(g, d) NORM_GRADIENT(b, g, (d) * u->times + u->plus)
#define FROM_MEAN(x) (((x) - u->shift) - u->mean)

/* Arrays of the arguments are indexed by constants alone: otherwise each work-item makes a copy of them in memory,
 * which costs more than the rest. */
static inline unit locate(const bn *b, INDEX index)
{
    unit u;
    u.column = (int)get_local_id(0) % TX;
    u.row = (int)get_local_id(0) / TX;
    u.lane = (long)index * TX + u.column;
    u.inside = u.lane < b->width;
    long i0 = 0, i1 = 0, i2 = 0, i3 = u.inside ? u.lane : 0;
    if (b->w.kept[2] > 1) {
        i2 = (INDEX)i3 / (INDEX)b->w.kept[3];
        i3 -= i2 * b->w.kept[3];
        i1 = (INDEX)i2 / (INDEX)b->w.kept[2];
        i2 -= i1 * b->w.kept[2];
        i0 = (INDEX)i1 / (INDEX)b->w.kept[1];
        i1 -= i0 * b->w.kept[1];
    }
#define KEPT_AT(t)                                                                  \
    (u.at[t] = i0 * b->w.kept_stride[t][0] + i1 * b->w.kept_stride[t][1] +          \
               i2 * b->w.kept_stride[t][2] + i3 * b->w.kept_stride[t][3])
    KEPT_AT(0);
    KEPT_AT(1);
    KEPT_AT(2);
    KEPT_AT(3);
    KEPT_AT(4);
    KEPT_AT(5);
    KEPT_AT(6);
    return u;
}

/* Vectors before a part. */
static inline INDEX part_start(const bn *b, long part)
{
    const INDEX vectors = (INDEX)b->elements / VEC, length = (vectors + (INDEX)b->parts - 1) / (INDEX)b->parts;
    return (INDEX)min((long)length * part, (long)vectors);
}

/* Where a vector of a unit lies; the next one of a work-item is TY further. */
typedef struct {
#if FLAT
    INDEX line, x;           /* x: vectors */
    INDEX row;               /* vectors of a line */
    INDEX step_line, step_x; /* the same of TY */
#else
    INDEX index;
#endif
} place;

static inline place place_of(const bn *b, INDEX index)
{
    place p;
#if FLAT
    p.row = (INDEX)(b->w.reduced[3] / VEC);
    p.line = index / p.row;
    p.x = index - p.line * p.row;
    p.step_line = TY / p.row;
    p.step_x = TY - p.step_line * p.row;
#else
    p.index = index;
#endif
    return p;
}

static inline void move_on(place *p)
{
#if FLAT
    p->x += p->step_x;
    p->line += p->step_line;
    if (p->x >= p->row) {
        p->x -= p->row;
        p->line++;
    }
#else
    p->index += TY;
#endif
}

/* In elements, from the first one of the unit on; FLAT = 0: of any axes. */
static inline long offset_of(const bn *b, int t, const place *p)
{
#if FLAT
    return p->line * (INDEX)b->w.reduced_stride[t][2] + p->x * (INDEX)(VEC * b->w.reduced_stride[t][3]);
#else
    const INDEX l1 = (INDEX)b->w.reduced[1], l2 = (INDEX)b->w.reduced[2], l3 = (INDEX)b->w.reduced[3];
    const INDEX i2 = p->index / l3, i1 = i2 / l2, i0 = i1 / l1;
    return i0 * b->w.reduced_stride[t][0] + (i1 - i0 * l1) * b->w.reduced_stride[t][1] +
           (i2 - i1 * l2) * b->w.reduced_stride[t][2] + (p->index - i2 * l3) * b->w.reduced_stride[t][3];
#endif
}

/* How many of the vectors [from, to) are this work-item's. */
static inline INDEX count_of(const unit *u, INDEX from, INDEX to)
{
    const INDEX first = from + u->row;
    return u->inside && first < to ? (to - first + (TY - 1)) / TY : 0;
}

/* Chan's formula: `count` elements of this mean and sum of squares join `before` others. */
static inline void combine(ACC *mean, ACC *squares, ACC before, ACC new_mean, ACC new_squares, ACC count)
{
    if (count > 0) {
        const ACC share = count / (before + count);
        const ACC d = new_mean - *mean;
        *mean += d * share;
        *squares += new_squares + d * d * (before * share);
    }
}

/* Combine what the rows of work-items found: each has u->mean and u->inv of `count` elements; then all have those of
 * all elements. */
GROUP_INLINE void join_moments(unit *u, ACC count, __local ACC *means, __local ACC *squares,
                                __local ACC *counts)
{
    const int me = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    means[me] = u->mean;
    squares[me] = u->inv;
    counts[me] = count;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = TY / 2; half_way > 0; half_way /= 2) {
        if (u->row < half_way) {
            const int other = me + half_way * TX;
            ACC mean = means[me], square = squares[me];
            combine(&mean, &square, counts[me], means[other], squares[other], counts[other]);
            means[me] = mean;
            squares[me] = square;
            counts[me] += counts[other];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    u->mean = means[u->column];
    u->inv = squares[u->column];
}

GROUP_INLINE void join_sums(unit *u, __local ACC *sums, __local ACC *others)
{
    const int me = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[me] = u->first;
    others[me] = u->second;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = TY / 2; half_way > 0; half_way /= 2) {
        if (u->row < half_way) {
            sums[me] += sums[me + half_way * TX];
            others[me] += others[me + half_way * TX];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    u->first = sums[u->column];
    u->second = others[u->column];
}

static inline void set_shift(const bn *b, unit *u)
{
    u->shift = 0;
    if (u->inside)
        u->shift = LOAD(X_TYPE)(b->x, u->at[0]);
}

/* The next `there` vectors of a work-item join its moments. */
static inline void add_moments(const bn *b, unit *u, ACC *count, place *p, const int there, const bool aligned)
{
    vec_t held[SETS], sums = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < SETS; i++) {
        held[i] = 0;
        if (i < there) {
            held[i] = get(b->x + u->at[0] + offset_of(b, 0, p), aligned) - u->shift;
            move_on(p);
        }
        sums += held[i];
    }
    const ACC number = there * VEC;
    const ACC mean = mx_sum_of_lanes(sums) * (1 / number);
#pragma unroll
    for (int i = 0; i < SETS; i++) {
        const vec_t d = held[i] - mean;
        if (i < there)
            squares += d * d;
    }
    combine(&u->mean, &u->inv, *count, mean, mx_sum_of_lanes(squares), number);
    *count += number;
}

static inline ACC add_all_moments(const bn *b, unit *u, INDEX from, INDEX to, const bool aligned)
{
    ACC count = 0;
    INDEX left = count_of(u, from, to);
    place p = place_of(b, from + u->row);
    for (; left >= SETS; left -= SETS)
        add_moments(b, u, &count, &p, SETS, aligned);
    if (left > 0)
        add_moments(b, u, &count, &p, (int)left, aligned);
    return count;
}

GROUP_INLINE void sum_moments(const bn *b, unit *u, INDEX from, INDEX to, __local ACC *means,
                               __local ACC *squares, __local ACC *counts)
{
    ACC count;
    u->mean = u->inv = 0;
    if (VEC > 1 && MX_ALIGNED(b->x))
        count = add_all_moments(b, u, from, to, true);
    else
        count = add_all_moments(b, u, from, to, false);
    join_moments(u, count, means, squares, counts);
}

static inline void settle_moments(const bn *b, unit *u, bool write)
{
    const ACC squares = u->inv;
    u->inv = 1 / sqrt(squares / (ACC)b->elements + b->epsilon);
    write = write && u->inside && u->row == 0;
#if TRAINING
    if (write && b->running) {
        ACC mean = u->shift + u->mean, variance = squares / (ACC)max(1L, b->elements - 1);
        if (b->factor != 1) { /* else the old ones may be anything */
            mean = (1 - b->factor) * LOAD(MEAN_TYPE)(OLD_MEAN(b), u->at[5]) + b->factor * mean;
            variance = (1 - b->factor) * LOAD(VARIANCE_TYPE)(OLD_VARIANCE(b), u->at[6]) + b->factor * variance;
        }
        STORE(MEAN_TYPE)(b->mean, u->at[5], mean);
        STORE(VARIANCE_TYPE)(b->variance, u->at[6], variance);
    }
    if (write && b->save) {
        STORE(MEAN_TYPE)(b->saved_mean, u->at[5], u->shift + u->mean);
        STORE(VARIANCE_TYPE)(b->saved_inv, u->at[6], u->inv);
    }
#endif
}

static inline void load_moments(const bn *b, unit *u)
{
    u->shift = 0;
    u->mean = u->inv = 1;
    if (u->inside) {
        u->mean = LOAD(MEAN_TYPE)(b->mean, u->at[5]);
        u->inv = LOAD(VARIANCE_TYPE)(b->variance, u->at[6]);
    }
#if INFERENCE
    u->inv = GIVEN_INV(b, u->inv);
#endif
}

#if ACTIVATION_BACKWARD
/* Mean and inverse deviation are there: what the batch normalisation made of x. */
static inline void load_result(const bn *b, unit *u)
{
    u->times = u->plus = 0;
    if (u->inside) {
        u->times = u->inv * LOAD(SCALE_TYPE)(b->scale, u->at[3]);
        u->plus = LOAD(BIAS_TYPE)(b->given_bias, u->at[4]);
    }
}
#else
#define load_result(b, u)
#endif

#if BACKWARD

static inline void add_gradients(const bn *b, unit *u, INDEX from, INDEX to, const bool aligned)
{
    vec_t first = 0, second = 0, rest = 0, other_rest = 0;
    INDEX left = count_of(u, from, to);
    place p = place_of(b, from + u->row);
    while (left > 0) {
        vec_t x[SETS], g[SETS];
#pragma unroll
        for (int i = 0; i < SETS; i++) {
            x[i] = g[i] = 0;
            if (i < left) {
                x[i] = get(b->x + u->at[0] + offset_of(b, 0, &p), aligned);
                g[i] = get(b->dy + u->at[1] + offset_of(b, 1, &p), aligned);
                move_on(&p);
            }
        }
#pragma unroll
        for (int i = 0; i < SETS; i++)
            if (i < left) {
                const vec_t each = GRADIENT(g[i], FROM_MEAN(x[i]));
                ADD_TERM(vec_t, first, rest, each);
                ADD_TERM(vec_t, second, other_rest, each * FROM_MEAN(x[i]));
            }
        left -= SETS;
    }
    u->first = mx_sum_of_lanes(first);
    u->second = mx_sum_of_lanes(second);
}

GROUP_INLINE void sum_gradients(const bn *b, unit *u, INDEX from, INDEX to, __local ACC *sums,
                                 __local ACC *others)
{
    if (VEC > 1 && MX_ALIGNED(b->x) && MX_ALIGNED(b->dy))
        add_gradients(b, u, from, to, true);
    else
        add_gradients(b, u, from, to, false);
    join_sums(u, sums, others);
}

#endif

static inline void write_all(const bn *b, const unit *u, INDEX from, INDEX to, const bool aligned)
{
    INDEX left = count_of(u, from, to);
    place p = place_of(b, from + u->row);
    while (left > 0) {
        vec_t x[SETS];
        long at[SETS];
#if BACKWARD
        vec_t g[SETS];
#endif
#pragma unroll
        for (int i = 0; i < SETS; i++)
            if (i < left) {
                at[i] = u->at[OUT] + offset_of(b, OUT, &p);
                x[i] = get(b->x + u->at[0] + offset_of(b, 0, &p), aligned);
#if BACKWARD
                g[i] = get(b->dy + u->at[1] + offset_of(b, 1, &p), aligned);
#endif
                move_on(&p);
            }
#pragma unroll
        for (int i = 0; i < SETS; i++)
            if (i < left) {
                const vec_t d = FROM_MEAN(x[i]);
#if BACKWARD
                put(b->y + at[i], u->inv * ((GRADIENT(g[i], d) - u->first) - d * u->second), aligned);
#else
                put(b->y + at[i], ACTIVATED(b, d * u->inv + u->first), aligned);
#endif
            }
        left -= SETS;
    }
}

static inline void write_results(const bn *b, unit *u, INDEX from, INDEX to, bool write)
{
    if (!u->inside)
        return;
    const ACC scale = LOAD(SCALE_TYPE)(b->scale, u->at[3]);
#if BACKWARD
    const ACC dscale = u->second * u->inv;
    if (write && u->row == 0) {
        STORE(SCALE_TYPE)(b->dscale, u->at[3], dscale);
        STORE(BIAS_TYPE)(b->bias, u->at[4], u->first);
    }
    u->first /= (ACC)b->elements;
    u->second = dscale * u->inv / (ACC)b->elements;
#else
    u->first = LOAD(BIAS_TYPE)(b->bias, u->at[4]);
#endif
    u->inv *= scale;
    bool aligned = MX_ALIGNED(b->x) && MX_ALIGNED(b->y);
#if BACKWARD
    aligned = aligned && MX_ALIGNED(b->dy);
#endif
    if (VEC > 1 && aligned)
        write_all(b, u, from, to, true);
    else
        write_all(b, u, from, to, false);
}

#define KERNEL __kernel __attribute__((reqd_work_group_size(TX * TY, 1, 1))) void
#define LOCAL_ARRAYS __local ACC local_1[TX * TY], local_2[TX * TY], local_3[TX * TY]

#if !PARTS

KERNEL bn_whole(BUFFERS, NUMBERS_OF_A_CALL)
{
    LOCAL_ARRAYS;
    BIND
    const long part = (uint)get_group_id(0) % (uint)parts;
    unit u = locate(&b, (uint)get_group_id(0) / (uint)parts);
    if (GIVEN(&b))
        load_moments(&b, &u);
    else {
        set_shift(&b, &u);
        sum_moments(&b, &u, 0, part_start(&b, b.parts), local_1, local_2, local_3);
        settle_moments(&b, &u, true);
    }
#if BACKWARD
    load_result(&b, &u);
    sum_gradients(&b, &u, 0, part_start(&b, b.parts), local_1, local_2);
#endif
    write_results(&b, &u, part_start(&b, part), part_start(&b, part + 1), true);
}

#endif

#if PARTS

#define GATHERED 4 /* parts that a work-item reads at once */

static inline void keep_moments(const bn *b, const unit *u, long part)
{
    if (!u->inside || u->row != 0)
        return;
    if (part == 0)
        b->space[u->lane] = u->shift;
    b->space[AT_MOMENTS(part) + u->lane] = u->mean;
    b->space[AT_MOMENTS(part) + b->width + u->lane] = u->inv;
}

/* Combine what bn_moments found. */
GROUP_INLINE void gather_moments(const bn *b, unit *u, __local ACC *means, __local ACC *squares,
                                  __local ACC *counts)
{
    ACC mean = 0, square = 0;
    ACC count = 0;
    u->shift = 0;
    if (u->inside)
        u->shift = b->space[u->lane];
    for (long part = u->row; u->inside && part < b->parts; part += GATHERED * TY) {
        ACC means_of[GATHERED], squares_of[GATHERED]; /* read before the first is waited for */
#pragma unroll
        for (int i = 0; i < GATHERED; i++) {
            const long at = min(part + i * TY, b->parts - 1);
            means_of[i] = b->space[AT_MOMENTS(at) + u->lane];
            squares_of[i] = b->space[AT_MOMENTS(at) + b->width + u->lane];
        }
#pragma unroll
        for (int i = 0; i < GATHERED; i++) {
            const long at = part + i * TY;
            const ACC more = at < b->parts ? (part_start(b, at + 1) - part_start(b, at)) * VEC : 0;
            combine(&mean, &square, count, means_of[i], squares_of[i], more);
            count += more;
        }
    }
    u->mean = mean;
    u->inv = square;
    join_moments(u, count, means, squares, counts);
}

KERNEL bn_moments(BUFFERS, NUMBERS_OF_A_CALL)
{
    LOCAL_ARRAYS;
    BIND
    const long part = (uint)get_group_id(0) % (uint)parts;
    unit u = locate(&b, (uint)get_group_id(0) / (uint)parts);
    set_shift(&b, &u);
    sum_moments(&b, &u, part_start(&b, part), part_start(&b, part + 1), local_1, local_2, local_3);
    keep_moments(&b, &u, part);
}

#endif

#if PARTS && BACKWARD

static inline void keep_gradients(const bn *b, const unit *u, long part)
{
    if (!u->inside || u->row != 0)
        return;
    b->space[AT_GRADIENTS(part) + u->lane] = u->first;
    b->space[AT_GRADIENTS(part) + b->width + u->lane] = u->second;
}

GROUP_INLINE void gather_gradients(const bn *b, unit *u, __local ACC *sums, __local ACC *others)
{
    u->first = u->second = 0;
    for (long part = u->row; u->inside && part < b->parts; part += GATHERED * TY) {
        ACC firsts[GATHERED], seconds[GATHERED];
#pragma unroll
        for (int i = 0; i < GATHERED; i++) {
            const long at = min(part + i * TY, b->parts - 1);
            firsts[i] = b->space[AT_GRADIENTS(at) + u->lane];
            seconds[i] = b->space[AT_GRADIENTS(at) + b->width + u->lane];
        }
#pragma unroll
        for (int i = 0; i < GATHERED; i++)
            if (part + i * TY < b->parts) {
                u->first += firsts[i];
                u->second += seconds[i];
            }
    }
    join_sums(u, sums, others);
}

KERNEL bn_gradients(BUFFERS, NUMBERS_OF_A_CALL)
{
    LOCAL_ARRAYS;
    BIND
    const long part = (uint)get_group_id(0) % (uint)parts;
    unit u = locate(&b, (uint)get_group_id(0) / (uint)parts);
    if (GIVEN(&b))
        load_moments(&b, &u);
    else {
        gather_moments(&b, &u, local_1, local_2, local_3);
        settle_moments(&b, &u, false);
    }
    load_result(&b, &u);
    sum_gradients(&b, &u, part_start(&b, part), part_start(&b, part + 1), local_1, local_2);
    keep_gradients(&b, &u, part);
}

#endif

#if PARTS

KERNEL bn_finish(BUFFERS, NUMBERS_OF_A_CALL)
{
    LOCAL_ARRAYS;
    BIND
    /* From the end on: what was read last is still in the cache. */
    const uint group = get_num_groups(0) - 1 - get_group_id(0);
    const long part = group % (uint)parts;
    unit u = locate(&b, group / (uint)parts);
    if (GIVEN(&b))
        load_moments(&b, &u);
    else {
        gather_moments(&b, &u, local_1, local_2, local_3);
        settle_moments(&b, &u, part == 0);
    }
#if BACKWARD
    load_result(&b, &u);
    gather_gradients(&b, &u, local_1, local_2);
#endif
    write_results(&b, &u, part_start(&b, part), part_start(&b, part + 1), part == 0);
}

#endif
