/* Batch normalisation on GPUs: a group of TX * TY work-items takes kept values that lie side by side, and part of the
 * axes that statistics are taken over, of which each of the TY rows of work-items reads every TY-th vector.
 *
 * Vectors are of VEC elements, and neighbours read neighbours: with LANES = 0 memory runs along a reduced axis and a
 * group has one kept value (TX = 1, or VEC = 1 and TX kept values), with LANES = 1 along the kept ones, of which a
 * group has TX * VEC.
 *   bn_whole      everything, for a unit of kept values;                 groups: units; in inference, units * parts
 *   bn_moments    part of a unit: mean and sum of squares into the workspace;                    groups: units * parts
 *   bn_gradients  part of a unit: sums of dy and dy (x - mean) into the workspace;               groups: units * parts
 *   bn_finish     part of a unit: combines the parts' statistics and writes y or dx; the first part of a unit writes
 *                 the statistics, too;                                                           groups: units * parts
 * Units are ceil(kept / (TX * VEC)), or with LANES = 0 ceil(kept / TX).  PARTS = 0 for bn_whole, which has parts = 1
 * but for inference, else 1.  x may lie where y does, dy where dx does.
 * Local memory: arrays of TX * TY elements, two of own_t and one of ACC.  The order of the sums is fixed.
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
#ifndef LANES /* 1: they are kept values, 0: of the innermost reduced axis; then 1 where TX > 1 */
#define LANES 0
#endif
#ifndef SETS /* vectors that a work-item has under way; it takes their mean before their squares */
#define SETS 8
#endif
#include "batchnorm.h"
#include "gpu_vectors.h"

#if TX < 1 || TY < 1 || (TX & (TX - 1)) != 0 || (TY & (TY - 1)) != 0
#error "TX and TY must be powers of two"
#endif
#if VEC > 1 && (!FLAT || (TX > 1 && !LANES))
#error "vectors are of kept values, or of a reduced axis that is innermost"
#endif

MX_GET(get, X_TYPE)
MX_PUT(put, X_TYPE)

/* A number of each kept value of a work-item, and how many elements of one a vector has. */
#if LANES
typedef vec_t own_t;
#define OWN VEC
#define OWN_FROM(p) MX_V(vload)(0, p)
#define ALONG 1
#define OWN_SUM(v) (v)
#else
typedef ACC own_t;
#define OWN 1
#define OWN_FROM(p) (*(p))
#define ALONG VEC
#define OWN_SUM(v) mx_sum_of_lanes(v)
#endif

/* Those of a parameter, `step` apart. */
#define OWN_LOAD(T, value, p, at, step)                                    \
    do {                                                                   \
        own_t all;                                                         \
        if ((step) == 1 && MX_TYPE(T) == MX_TYPE(ACC))                     \
            all = OWN_FROM((__global const ACC *)(p) + (at));              \
        else                                                               \
            _Pragma("unroll") for (int lane = 0; lane < OWN; lane++)       \
                ((ACC *)&all)[lane] = LOAD(T)(p, (at) + lane * (step));    \
        (value) = all;                                                     \
    } while (0)
#define OWN_STORE(T, p, at, step, value)                                   \
    do {                                                                   \
        const own_t all = (value);                                         \
        _Pragma("unroll") for (int lane = 0; lane < OWN; lane++)           \
            STORE(T)(p, (at) + lane * (step), ((const ACC *)&all)[lane]);  \
    } while (0)

typedef struct {
    long lane;      /* the first kept value */
    bool inside;    /* there is such a one */
    int row;        /* of work-items */
    int column;
    long at[7];     /* where the tensors begin */
    own_t shift;
    own_t mean;     /* less the shift */
    own_t inv;      /* sum of squares, then 1 / sqrt(variance + epsilon) */
    own_t first;    /* sum of dy; bias */
    own_t second;   /* sum of dy (x - mean); scale */
} unit;

/* Arrays of the arguments are indexed by constants alone: otherwise each work-item makes a copy of them in memory,
 * which costs more than the rest. */
static inline unit locate(const bn *b, INDEX index)
{
    unit u;
    u.column = (int)get_local_id(0) % TX;
    u.row = (int)get_local_id(0) / TX;
    u.lane = ((long)index * TX + u.column) * OWN;
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
    const INDEX vectors = (INDEX)b->elements / ALONG, length = (vectors + (INDEX)b->parts - 1) / (INDEX)b->parts;
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
    p.row = (INDEX)(b->w.reduced[3] / ALONG);
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
    return p->line * (INDEX)b->w.reduced_stride[t][2] + p->x * (INDEX)(ALONG * b->w.reduced_stride[t][3]);
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
static inline void combine(own_t *mean, own_t *squares, ACC before, own_t new_mean, own_t new_squares, ACC count)
{
    if (count > 0) {
        const ACC share = count / (before + count);
        const own_t d = new_mean - *mean;
        *mean += d * share;
        *squares += new_squares + d * d * (before * share);
    }
}

/* Combine what the rows of work-items found: each has u->mean and u->inv of `count` elements; then all have those of
 * all elements. */
static inline void join_moments(unit *u, ACC count, __local own_t *means, __local own_t *squares,
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
            own_t mean = means[me], square = squares[me];
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

static inline void join_sums(unit *u, __local own_t *sums, __local own_t *others)
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
        OWN_LOAD(X_TYPE, u->shift, b->x, u->at[0], b->w.kept_stride[0][3]);
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
    const ACC number = there * ALONG;
    const own_t mean = OWN_SUM(sums) * (1 / number);
#pragma unroll
    for (int i = 0; i < SETS; i++) {
        const vec_t d = held[i] - mean;
        if (i < there)
            squares += d * d;
    }
    combine(&u->mean, &u->inv, *count, mean, OWN_SUM(squares), number);
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

static inline void sum_moments(const bn *b, unit *u, INDEX from, INDEX to, __local own_t *means,
                               __local own_t *squares, __local ACC *counts)
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
    const own_t squares = u->inv;
    u->inv = 1 / sqrt(squares / (ACC)b->elements + b->epsilon);
    write = write && u->inside && u->row == 0;
#if TRAINING
    const long mean_step = b->w.kept_stride[5][3], variance_step = b->w.kept_stride[6][3];
    if (write && b->running) {
        own_t mean = u->shift + u->mean, variance = squares / (ACC)max(1L, b->elements - 1);
        if (b->factor != 1) { /* else the old ones may be anything */
            own_t old;
            OWN_LOAD(MEAN_TYPE, old, b->mean, u->at[5], mean_step);
            mean = (1 - b->factor) * old + b->factor * mean;
            OWN_LOAD(VARIANCE_TYPE, old, b->variance, u->at[6], variance_step);
            variance = (1 - b->factor) * old + b->factor * variance;
        }
        OWN_STORE(MEAN_TYPE, b->mean, u->at[5], mean_step, mean);
        OWN_STORE(VARIANCE_TYPE, b->variance, u->at[6], variance_step, variance);
    }
    if (write && b->save) {
        OWN_STORE(MEAN_TYPE, b->saved_mean, u->at[5], mean_step, u->shift + u->mean);
        OWN_STORE(VARIANCE_TYPE, b->saved_inv, u->at[6], variance_step, u->inv);
    }
#endif
}

static inline void load_moments(const bn *b, unit *u)
{
    u->shift = 0;
    u->mean = u->inv = 1;
    if (u->inside) {
        OWN_LOAD(MEAN_TYPE, u->mean, b->mean, u->at[5], b->w.kept_stride[5][3]);
        OWN_LOAD(VARIANCE_TYPE, u->inv, b->variance, u->at[6], b->w.kept_stride[6][3]);
    }
#if INFERENCE
    u->inv = 1 / sqrt(fabs(u->inv + b->epsilon));
#endif
}

#if BACKWARD

static inline void add_gradients(const bn *b, unit *u, INDEX from, INDEX to, const bool aligned)
{
    vec_t first = 0, second = 0;
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
                first += g[i];
                second += g[i] * ((x[i] - u->shift) - u->mean);
            }
        left -= SETS;
    }
    u->first = OWN_SUM(first);
    u->second = OWN_SUM(second);
}

static inline void sum_gradients(const bn *b, unit *u, INDEX from, INDEX to, __local own_t *sums,
                                 __local own_t *others)
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
                const vec_t d = (x[i] - u->shift) - u->mean;
#if BACKWARD
                put(b->y + at[i], u->inv * ((g[i] - u->first) - d * u->second), aligned);
#else
                put(b->y + at[i], d * u->inv + u->first, aligned);
#endif
            }
        left -= SETS;
    }
}

static inline void write_results(const bn *b, unit *u, INDEX from, INDEX to, bool write)
{
    if (!u->inside)
        return;
    own_t scale;
    OWN_LOAD(SCALE_TYPE, scale, b->scale, u->at[3], b->w.kept_stride[3][3]);
#if BACKWARD
    const own_t dscale = u->second * u->inv;
    if (write && u->row == 0) {
        OWN_STORE(SCALE_TYPE, b->dscale, u->at[3], b->w.kept_stride[3][3], dscale);
        OWN_STORE(BIAS_TYPE, b->bias, u->at[4], b->w.kept_stride[4][3], u->first);
    }
    u->first /= (ACC)b->elements;
    u->second = dscale * u->inv / (ACC)b->elements;
#else
    OWN_LOAD(BIAS_TYPE, u->first, b->bias, u->at[4], b->w.kept_stride[4][3]);
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
#define LOCAL_ARRAYS __local own_t local_1[TX * TY], local_2[TX * TY]; __local ACC local_3[TX * TY]

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
    sum_gradients(&b, &u, 0, part_start(&b, b.parts), local_1, local_2);
#endif
    write_results(&b, &u, part_start(&b, part), part_start(&b, part + 1), true);
}

#endif

#if PARTS

#define GATHERED (OWN > 4 ? 2 : 4) /* parts that a work-item reads at once */
#if OWN == 1
#define KEPT(at) b->space[at]
#define KEEP(at, v) (b->space[at] = (v))
#else
#define KEPT(at) MX_V(vload)(0, b->space + (at))
#define KEEP(at, v) MX_V(vstore)(v, 0, b->space + (at))
#endif

static inline void keep_moments(const bn *b, const unit *u, long part)
{
    if (!u->inside || u->row != 0)
        return;
    if (part == 0)
        KEEP(u->lane, u->shift);
    KEEP(AT_MOMENTS(part) + u->lane, u->mean);
    KEEP(AT_MOMENTS(part) + b->width + u->lane, u->inv);
}

/* Combine what bn_moments found. */
static inline void gather_moments(const bn *b, unit *u, __local own_t *means, __local own_t *squares,
                                  __local ACC *counts)
{
    own_t mean = 0, square = 0;
    ACC count = 0;
    u->shift = 0;
    if (u->inside)
        u->shift = KEPT(u->lane);
    for (long part = u->row; u->inside && part < b->parts; part += GATHERED * TY) {
        own_t means_of[GATHERED], squares_of[GATHERED]; /* read before the first is waited for */
#pragma unroll
        for (int i = 0; i < GATHERED; i++) {
            const long at = min(part + i * TY, b->parts - 1);
            means_of[i] = KEPT(AT_MOMENTS(at) + u->lane);
            squares_of[i] = KEPT(AT_MOMENTS(at) + b->width + u->lane);
        }
#pragma unroll
        for (int i = 0; i < GATHERED; i++) {
            const long at = part + i * TY;
            const ACC more = at < b->parts ? (part_start(b, at + 1) - part_start(b, at)) * ALONG : 0;
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
    KEEP(AT_GRADIENTS(part) + u->lane, u->first);
    KEEP(AT_GRADIENTS(part) + b->width + u->lane, u->second);
}

static inline void gather_gradients(const bn *b, unit *u, __local own_t *sums, __local own_t *others)
{
    u->first = u->second = 0;
    for (long part = u->row; u->inside && part < b->parts; part += GATHERED * TY) {
        own_t firsts[GATHERED], seconds[GATHERED];
#pragma unroll
        for (int i = 0; i < GATHERED; i++) {
            const long at = min(part + i * TY, b->parts - 1);
            firsts[i] = KEPT(AT_GRADIENTS(at) + u->lane);
            seconds[i] = KEPT(AT_GRADIENTS(at) + b->width + u->lane);
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
    gather_gradients(&b, &u, local_1, local_2);
#endif
    write_results(&b, &u, part_start(&b, part), part_start(&b, part + 1), part == 0);
}

#endif
