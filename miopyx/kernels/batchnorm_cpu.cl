/* Batch normalisation on CPUs: one work-item a group, each with a large piece of work and explicit vectors.
 *
 * A unit of work is one channel, whose rows of x run along a reduced axis (LANES = 0), or up to PANEL values of the
 * innermost kept axis side by side (LANES = 1).  A row of a unit is read VEC elements at a time; they are neighbours in
 * memory where DENSE is 1, else collected.
 *   bn_whole      all of some units, one after the other: x (and dy) come from the cache when they are read again;
 *                 global: any number, the units, in inference times `parts`, are dealt out
 *   bn_moments    part of a unit: mean and sum of squares into the workspace;                    global: units * parts
 *   bn_gradients  part of a unit: sums of dy and dy (x - mean) into the workspace;               global: units * parts
 *   bn_finish     part of a unit: combines the parts' statistics and writes y or dx; the first part of a unit writes
 *                 the statistics, too;                                                           global: units * parts
 * PARTS = 0 for bn_whole, which has parts = 1 but for inference, else 1.  x may lie where y does, dy where dx does.
 */
#ifndef LANES
#define LANES 0
#endif
#ifndef DENSE
#define DENSE 0
#endif
#ifndef VEC /* elements of a vector */
#define VEC 16
#endif
#ifndef PANEL /* LANES = 1: values side by side */
#define PANEL 256
#endif
#ifndef BLOCK /* elements whose mean is taken before their squares: twice through the first cache */
#define BLOCK 4096
#endif
#include "batchnorm.h"

#define V MX_JOIN(ACC, VEC)
#if MX_TYPE(ACC) == MX_TYPE_double
#define MASK MX_JOIN(long, VEC)
#else
#define MASK MX_JOIN(int, VEC)
#endif
#if VEC == 16
#define NUMBERS ((MASK)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#elif VEC == 8
#define NUMBERS ((MASK)(0, 1, 2, 3, 4, 5, 6, 7))
#else
#error "VEC must be 8 or 16"
#endif

#define TO_V(v) MX_JOIN(convert_, V)(v)

/* VEC elements rounded to nearest even, as STORE does. */
#define VSTORE_half(p, i, v) MX_JOIN(MX_JOIN(vstore_half, VEC), _rte)(v, 0, (__global half *)((p) + (i)))
#define VSTORE_float(p, i, v) MX_JOIN(vstore, VEC)(MX_JOIN(convert_float, VEC)(v), 0, (p) + (i))
#define VSTORE_double(p, i, v) MX_JOIN(vstore, VEC)(MX_JOIN(convert_double, VEC)(v), 0, (p) + (i))
#define VSTORE_bfloat16(p, i, v) MX_JOIN(vstore, VEC)(to_bfloat16(v), 0, (p) + (i))
#define VSTORE(T) MX_JOIN(VSTORE_, T)

#if MX_TYPE(ACC) == MX_TYPE_float
#define U MX_JOIN(uint, VEC)
static inline MX_JOIN(ushort, VEC) to_bfloat16(V value)
{
    const U bits = MX_JOIN(as_, U)(value);
    const U rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return MX_JOIN(convert_ushort, VEC)(select(rounded, bits >> 16 | 0x40u, (bits & 0x7fffffffu) > 0x7f800000u));
}
#endif

/* `count` elements `step` apart, at most VEC; the other lanes are 0.  Not inline: compilers take long for many of these. */
#define SOME_OF(T, load, store)                                                                                     \
    static __attribute__((noinline)) V load(__global const STORAGE(T) *p, long step, long count)                    \
    {                                                                                                               \
        ACC some[VEC];                                                                                              \
        if (step == 1 && count == VEC)                                                                              \
            return TO_V(VLOAD(T)(p, 0));                                                                            \
        for (int i = 0; i < VEC; i++)                                                                               \
            some[i] = i < count ? (ACC)LOAD(T)(p, i * step) : (ACC)0;                                               \
        return MX_JOIN(vload, VEC)(0, some);                                                                        \
    }                                                                                                               \
    static __attribute__((noinline)) void store(__global STORAGE(T) *p, long step, long count, V v)                 \
    {                                                                                                               \
        ACC some[VEC];                                                                                              \
        if (step == 1 && count == VEC) {                                                                            \
            VSTORE(T)(p, 0, v);                                                                                     \
            return;                                                                                                 \
        }                                                                                                           \
        MX_JOIN(vstore, VEC)(v, 0, some);                                                                           \
        for (int i = 0; i < count; i++)                                                                             \
            STORE(T)(p, i * step, some[i]);                                                                         \
    }
SOME_OF(X_TYPE, load_x, store_x)

#if DENSE
#define STEP(t) 1L
#elif LANES
#define STEP(t) (b->w.kept_stride[t][3])
#else
#define STEP(t) (b->w.reduced_stride[t][3])
#endif

static inline V row_load(__global const STORAGE(X_TYPE) *p, long at, long step, long count)
{
    if (DENSE && count == VEC)
        return TO_V(VLOAD(X_TYPE)(p, at));
    return load_x(p + at, step, count);
}

static inline void row_store(__global STORAGE(X_TYPE) *p, long at, long step, long count, V v)
{
    if (DENSE && count == VEC)
        VSTORE(X_TYPE)(p, at, v);
    else
        store_x(p + at, step, count, v);
}

static inline ACC total(V v)
{
    ACC lanes[VEC];
    MX_JOIN(vstore, VEC)(v, 0, lanes);
    for (int width = VEC / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            lanes[i] += lanes[i + width];
    return lanes[0];
}

/* The numbers of a unit: scalars, or vectors of its lanes. */
#if LANES
#define COUNT (PANEL / VEC)
typedef V S;
SOME_OF(SCALE_TYPE, load_3, store_3)
SOME_OF(BIAS_TYPE, load_4, store_4)
SOME_OF(MEAN_TYPE, load_5, store_5)
SOME_OF(VARIANCE_TYPE, load_6, store_6)
SOME_OF(ACC, load_number, store_number)
#define PARAMETER(T, p, t, s, v) \
    (v = load_##t((p) + u->at[t] + (s) * VEC * b->w.kept_stride[t][3], b->w.kept_stride[t][3], SOME(s)))
#define SET_PARAMETER(T, p, t, s, v) \
    store_##t((p) + u->at[t] + (s) * VEC * b->w.kept_stride[t][3], b->w.kept_stride[t][3], SOME(s), v)
/* The workspace is packed. */
#define NUMBER(at, s, v) (v = load_number(b->space + (at) + u->lane + (s) * VEC, 1, SOME(s)))
#define SET_NUMBER(at, s, v) store_number(b->space + (at) + u->lane + (s) * VEC, 1, SOME(s), v)
/* Lanes of vector number s. */
#define SOME(s) min((long)VEC, u->count - (s) * VEC)
#else
#define COUNT 1
typedef ACC S;
#define PARAMETER(T, p, t, s, v) (v = LOAD(T)(p, u->at[t]))
#define SET_PARAMETER(T, p, t, s, v) STORE(T)(p, u->at[t], v)
#define NUMBER(at, s, v) (v = b->space[(at) + u->lane])
#define SET_NUMBER(at, s, v) (b->space[(at) + u->lane] = (v))
#endif

typedef struct {
    long lane;       /* the first one */
    long count;      /* lanes */
    int vectors;     /* of lanes */
    long at[7];      /* where the tensors begin */
    S shift[COUNT];
    S mean[COUNT];   /* less the shift */
    S inv[COUNT];    /* sum of squares, then 1 / sqrt(variance + epsilon) */
    S first[COUNT];  /* sum of dy; bias */
    S second[COUNT]; /* sum of dy (x - mean); scale */
} unit;

static inline long units(const bn *b)
{
#if LANES
    return b->w.kept[0] * b->w.kept[1] * b->w.kept[2] * ((b->w.kept[3] + PANEL - 1) / PANEL);
#else
    return b->width;
#endif
}

static inline void locate(const bn *b, unit *u, long index)
{
#if LANES
    const long panels = (b->w.kept[3] + PANEL - 1) / PANEL, first = index % panels * PANEL;
    const long line = index / panels;
    u->lane = line * b->w.kept[3] + first;
    u->count = min((long)PANEL, b->w.kept[3] - first);
    u->vectors = (int)((u->count + VEC - 1) / VEC);
    for (int t = 0; t < 7; t++)
        u->at[t] = bn_offset(b->w.kept, 3, line, b->w.kept_stride[t]) + first * b->w.kept_stride[t][3];
#else
    u->lane = index;
    u->count = u->vectors = 1;
    for (int t = 0; t < 7; t++)
        u->at[t] = bn_offset(b->w.kept, 4, index, b->w.kept_stride[t]);
#endif
}

/* Where part number `part` begins; rows are left whole where there are enough. */
static inline long part_start(const bn *b, long part)
{
#if LANES
    return b->elements * part / b->parts;
#else
    const long row = b->w.reduced[3], lines = b->elements / row;
    if (part == b->parts)
        return b->elements;
    return lines >= 4 * b->parts ? lines * part / b->parts * row : b->elements / 64 * part / b->parts * 64;
#endif
}

/* Chan's formula: `count` elements of this mean and sum of squares join `before` others. */
static inline void combine(S *mean, S *squares, ACC before, S new_mean, S new_squares, ACC count)
{
    const S d = new_mean - *mean;
    const ACC share = count / (before + count);
    *mean += d * share;
    *squares += new_squares + d * d * (before * share);
}

#if LANES

static inline long row_offset(const bn *b, int t, long row)
{
    return bn_offset(b->w.reduced, 4, row, b->w.reduced_stride[t]);
}

/* A row of x, vector by vector: BODY uses v, lanes number s of it. */
#define FOR_ROW(t, p, row, BODY)                                                             \
    do {                                                                                     \
        const long at_ = u->at[t] + row_offset(b, t, row);                                   \
        const int whole_ = (int)(u->count / VEC);                                            \
        for (int s = 0; s < whole_; s++) {                                                   \
            const V v = row_load(p, at_ + s * VEC * STEP(t), STEP(t), VEC);                  \
            BODY                                                                             \
        }                                                                                    \
        if (whole_ < u->vectors) {                                                           \
            const int s = whole_;                                                            \
            const V v = row_load(p, at_ + s * VEC * STEP(t), STEP(t), u->count - s * VEC);   \
            BODY                                                                             \
        }                                                                                    \
    } while (0)

static inline void set_shift(const bn *b, unit *u)
{
    FOR_ROW(0, b->x, 0, { u->shift[s] = v; });
}

static inline void sum_moments(const bn *b, unit *u, long from, long to)
{
    const long rows = max(8L, (long)BLOCK / (u->vectors * VEC));
    S sums[COUNT], squares[COUNT];
    for (int s = 0; s < u->vectors; s++)
        u->mean[s] = u->inv[s] = 0;
    for (long begin = from; begin < to; begin += rows) {
        const long end = min(begin + rows, to);
        const ACC count = end - begin;
        for (int s = 0; s < u->vectors; s++)
            sums[s] = squares[s] = 0;
        for (long row = begin; row < end; row++)
            FOR_ROW(0, b->x, row, { sums[s] += v - u->shift[s]; });
        for (int s = 0; s < u->vectors; s++)
            sums[s] /= count;
        for (long row = begin; row < end; row++)
            FOR_ROW(0, b->x, row, {
                const V d = (v - u->shift[s]) - sums[s];
                squares[s] += d * d;
            });
        for (int s = 0; s < u->vectors; s++)
            combine(&u->mean[s], &u->inv[s], begin - from, sums[s], squares[s], count);
    }
}

#if BACKWARD
static inline void sum_gradients(const bn *b, unit *u, long from, long to)
{
    const long rows = max(8L, (long)BLOCK / (u->vectors * VEC));
    S sums[COUNT], others[COUNT];
    for (int s = 0; s < u->vectors; s++)
        u->first[s] = u->second[s] = 0;
    for (long begin = from; begin < to; begin += rows) {
        for (int s = 0; s < u->vectors; s++)
            sums[s] = others[s] = 0;
        for (long row = begin; row < min(begin + rows, to); row++) {
            const long at = u->at[1] + row_offset(b, 1, row);
            FOR_ROW(0, b->x, row, {
                const V g = row_load(b->dy, at + s * VEC * STEP(1), STEP(1), SOME(s));
                sums[s] += g;
                others[s] += g * ((v - u->shift[s]) - u->mean[s]);
            });
        }
        for (int s = 0; s < u->vectors; s++) {
            u->first[s] += sums[s];
            u->second[s] += others[s];
        }
    }
}
#endif

/* Last row first: it was read last, and may be in the cache. */
static inline void write_rows(const bn *b, unit *u, long from, long to)
{
    for (long row = to - 1; row >= from; row--) {
        const long to_at = u->at[OUT] + row_offset(b, OUT, row);
#if BACKWARD
        const long at = u->at[1] + row_offset(b, 1, row);
        FOR_ROW(0, b->x, row, {
            const V g = row_load(b->dy, at + s * VEC * STEP(1), STEP(1), SOME(s));
            row_store(b->y, to_at + s * VEC * STEP(OUT), STEP(OUT), SOME(s),
                      u->inv[s] * ((g - u->first[s]) - ((v - u->shift[s]) - u->mean[s]) * u->second[s]));
        });
#else
        FOR_ROW(0, b->x, row, {
            row_store(b->y, to_at + s * VEC * STEP(OUT), STEP(OUT), SOME(s),
                      ((v - u->shift[s]) - u->mean[s]) * u->inv[s] + u->first[s]);
        });
#endif
    }
}

#else

/* Where row `line`, of those along the last axis, begins. */
static inline long row_offset(const bn *b, int t, long line)
{
    if (b->w.reduced[0] * b->w.reduced[1] == 1)
        return line * b->w.reduced_stride[t][2];
    return bn_offset(b->w.reduced, 3, line, b->w.reduced_stride[t]);
}

/* The elements from ... to - 1 of a channel, a piece of a row at a time: `count` of them from `column` on. */
#define FOR_PIECES(from, to)                                                                               \
    for (long q_ = (from), line = q_ / b->w.reduced[3], column = q_ - line * b->w.reduced[3], count;       \
         q_ < (to) && (count = min(b->w.reduced[3] - column, (to) - q_), true); q_ += count, column = 0, line++)

/* A piece of a row: FULL(i, k) takes the vector from i on, k = 0 ... 3 in turns; TAIL(i, some) the last, of which the
 * lanes `keep` are new.  Vectors overlap at the end, so that none is short in a row of VEC elements or more. */
#define FOR_VECTORS(FULL, TAIL)                                                                            \
    do {                                                                                                   \
        long i = 0;                                                                                        \
        for (; i + 4 * VEC <= count; i += 4 * VEC) {                                                       \
            FULL(i, 0);                                                                                    \
            FULL(i + VEC, 1);                                                                              \
            FULL(i + 2 * VEC, 2);                                                                          \
            FULL(i + 3 * VEC, 3);                                                                          \
        }                                                                                                  \
        for (; i + VEC <= count; i += VEC)                                                                 \
            FULL(i, 0);                                                                                    \
        if (i < count) {                                                                                   \
            const bool long_ = count >= VEC;                                                               \
            const MASK keep = long_ ? NUMBERS >= (MASK)(VEC - (count - i)) : NUMBERS < (MASK)count;        \
            TAIL((long_ ? count - VEC : 0), (long_ ? VEC : count));                                        \
        }                                                                                                  \
    } while (0)

#define X_VECTOR(i, some) row_load(b->x, at + (i) * STEP(0), STEP(0), some)

static inline void set_shift(const bn *b, unit *u)
{
    u->shift[0] = LOAD(X_TYPE)(b->x, u->at[0]);
}

static inline void sum_moments(const bn *b, unit *u, long from, long to)
{
    const long row = b->w.reduced[3], block = row < BLOCK ? BLOCK / row * row : BLOCK;
    const ACC shift = u->shift[0];
    u->mean[0] = u->inv[0] = 0;
    for (long begin = from; begin < to; begin += block) {
        const long end = min(begin + block, to);
        V s[4] = {(V)0, (V)0, (V)0, (V)0}, t[4] = {(V)0, (V)0, (V)0, (V)0};
        FOR_PIECES (begin, end) {
            const long at = u->at[0] + row_offset(b, 0, line) + column * STEP(0);
#define SUM(i, k) s[k] += X_VECTOR(i, VEC) - shift
#define SUM_TAIL(i, some) s[0] += select((V)0, X_VECTOR(i, some) - shift, keep)
            FOR_VECTORS(SUM, SUM_TAIL);
        }
        const ACC mean = total((s[0] + s[1]) + (s[2] + s[3])) / (end - begin);
        FOR_PIECES (begin, end) {
            const long at = u->at[0] + row_offset(b, 0, line) + column * STEP(0);
            V d;
#define SQUARE(i, k) d = (X_VECTOR(i, VEC) - shift) - mean, t[k] += d * d
#define SQUARE_TAIL(i, some) d = select((V)0, (X_VECTOR(i, some) - shift) - mean, keep), t[0] += d * d
            FOR_VECTORS(SQUARE, SQUARE_TAIL);
        }
        combine(&u->mean[0], &u->inv[0], begin - from, mean, total((t[0] + t[1]) + (t[2] + t[3])), end - begin);
    }
}

#if BACKWARD
static inline void sum_gradients(const bn *b, unit *u, long from, long to)
{
    const long row = b->w.reduced[3], block = row < BLOCK ? BLOCK / row * row : BLOCK;
    const ACC shift = u->shift[0], mean = u->mean[0];
    u->first[0] = u->second[0] = 0;
    for (long begin = from; begin < to; begin += block) {
        V s[4] = {(V)0, (V)0, (V)0, (V)0}, t[4] = {(V)0, (V)0, (V)0, (V)0};
        FOR_PIECES (begin, min(begin + block, to)) {
            const long at = u->at[0] + row_offset(b, 0, line) + column * STEP(0);
            const long dy_at = u->at[1] + row_offset(b, 1, line) + column * STEP(1);
            V g;
#define GRADIENT(i, k)                                              \
    g = row_load(b->dy, dy_at + (i) * STEP(1), STEP(1), VEC), s[k] += g, \
    t[k] += g * ((X_VECTOR(i, VEC) - shift) - mean)
#define GRADIENT_TAIL(i, some)                                                              \
    g = row_load(b->dy, dy_at + (i) * STEP(1), STEP(1), some), s[0] += select((V)0, g, keep), \
    t[0] += select((V)0, g * ((X_VECTOR(i, some) - shift) - mean), keep)
            FOR_VECTORS(GRADIENT, GRADIENT_TAIL);
        }
        u->first[0] += total((s[0] + s[1]) + (s[2] + s[3]));
        u->second[0] += total((t[0] + t[1]) + (t[2] + t[3]));
    }
}
#endif

static inline V result(const bn *b, const unit *u, long at, long dy_at, long some)
{
    const V d = (row_load(b->x, at, STEP(0), some) - u->shift[0]) - u->mean[0];
#if BACKWARD
    return u->inv[0] * ((row_load(b->dy, dy_at, STEP(1), some) - u->first[0]) - d * u->second[0]);
#else
    return d * u->inv[0] + u->first[0];
#endif
}

/* Last row first: it was read last, and may be in the cache. */
static inline void write_rows(const bn *b, unit *u, long from, long to)
{
    const long row = b->w.reduced[3];
    long line = (to - 1) / row;
    for (long end = to; end > from; line--) {
        const long begin = max(from, line * row), count = end - begin, column = begin - line * row;
        const long at = u->at[0] + row_offset(b, 0, line) + column * STEP(0);
        const long to_at = u->at[OUT] + row_offset(b, OUT, line) + column * STEP(OUT);
#if BACKWARD
        const long dy_at = u->at[1] + row_offset(b, 1, line) + column * STEP(1);
#else
        const long dy_at = 0;
#endif
        const long left = count % VEC, last = count - VEC;
        V tail;
        long i = 0;
        end = begin;
        if (left != 0 && last > 0) /* before any of it is overwritten, should y lie where x does */
            tail = result(b, u, at + last * STEP(0), dy_at + last * STEP(1), VEC);
        for (; i + VEC <= count; i += VEC)
            row_store(b->y, to_at + i * STEP(OUT), STEP(OUT), VEC,
                      result(b, u, at + i * STEP(0), dy_at + i * STEP(1), VEC));
        if (left != 0 && last > 0)
            row_store(b->y, to_at + last * STEP(OUT), STEP(OUT), VEC, tail);
        else if (left != 0)
            row_store(b->y, to_at, STEP(OUT), count, result(b, u, at, dy_at, count));
    }
}

#endif

/* What happens between the passes; the same for both kinds of units. */

#if TRAINING && RUNNING
static inline S moved(const bn *b, S old, S fresh)
{
    return ((ACC)1 - b->factor) * old + b->factor * fresh;
}
#endif

/* Mean and sum of squares are there. */
static inline void settle_moments(const bn *b, unit *u, bool write)
{
    for (int s = 0; s < u->vectors; s++) {
        const S squares = u->inv[s];
        u->inv[s] = (ACC)1 / sqrt(squares / (ACC)b->elements + b->epsilon);
#if TRAINING && RUNNING
        if (write) {
            S mean = u->shift[s] + u->mean[s], variance = squares / (ACC)max(1L, b->elements - 1), old;
            if (b->factor != 1) { /* else the old ones may be anything */
                PARAMETER(MEAN_TYPE, b->mean, 5, s, old);
                mean = moved(b, old, mean);
                PARAMETER(VARIANCE_TYPE, b->variance, 6, s, old);
                variance = moved(b, old, variance);
            }
            SET_PARAMETER(MEAN_TYPE, b->mean, 5, s, mean);
            SET_PARAMETER(VARIANCE_TYPE, b->variance, 6, s, variance);
        }
#endif
#if TRAINING && SAVE
        if (write) {
            SET_PARAMETER(MEAN_TYPE, b->saved_mean, 5, s, u->shift[s] + u->mean[s]);
            SET_PARAMETER(VARIANCE_TYPE, b->saved_inv, 6, s, u->inv[s]);
        }
#endif
    }
}

#if GIVEN
static inline void load_moments(const bn *b, unit *u)
{
    for (int s = 0; s < u->vectors; s++) {
        u->shift[s] = 0;
        PARAMETER(MEAN_TYPE, b->mean, 5, s, u->mean[s]);
        PARAMETER(VARIANCE_TYPE, b->variance, 6, s, u->inv[s]);
#if INFERENCE
        u->inv[s] = (ACC)1 / sqrt(fabs(u->inv[s] + b->epsilon));
#endif
    }
}
#endif

/* Sums are there; inv becomes the factor of the result. */
static inline void settle_gradients(const bn *b, unit *u, bool write)
{
    for (int s = 0; s < u->vectors; s++) {
        S scale;
        PARAMETER(SCALE_TYPE, b->scale, 3, s, scale);
#if BACKWARD
        const S dscale = u->second[s] * u->inv[s];
        if (write) {
            SET_PARAMETER(SCALE_TYPE, b->dscale, 3, s, dscale);
            SET_PARAMETER(BIAS_TYPE, b->bias, 4, s, u->first[s]);
        }
        u->first[s] /= (ACC)b->elements;
        u->second[s] = dscale * u->inv[s] / (ACC)b->elements;
#else
        PARAMETER(BIAS_TYPE, b->bias, 4, s, u->first[s]);
#endif
        u->inv[s] *= scale;
    }
}

#if !PARTS

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void bn_whole(BUFFERS, const bn_walk w, const long parts,
                                                                      const ACC factor, const ACC epsilon)
{
    BIND
    const long all = units(&b) * parts, items = get_num_groups(0), item = get_group_id(0);
    unit u;
    for (long index = all * item / items; index < all * (item + 1) / items; index++) {
        locate(&b, &u, index / parts);
#if GIVEN
        load_moments(&b, &u);
#else
        set_shift(&b, &u);
        sum_moments(&b, &u, 0, b.elements);
        settle_moments(&b, &u, true);
#endif
#if BACKWARD
        sum_gradients(&b, &u, 0, b.elements);
#endif
        settle_gradients(&b, &u, true);
        write_rows(&b, &u, part_start(&b, index % parts), part_start(&b, index % parts + 1));
    }
}

#endif

#if PARTS && !GIVEN

static inline void keep_moments(const bn *b, const unit *u, long part)
{
    for (int s = 0; s < u->vectors; s++) {
        if (part == 0)
            SET_NUMBER(0, s, u->shift[s]);
        SET_NUMBER(AT_MOMENTS(part), s, u->mean[s]);
        SET_NUMBER(AT_MOMENTS(part) + b->width, s, u->inv[s]);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void bn_moments(BUFFERS, const bn_walk w, const long parts,
                                                                        const ACC factor, const ACC epsilon)
{
    BIND
    const long part = get_group_id(0) % parts;
    unit u;
    locate(&b, &u, get_group_id(0) / parts);
    set_shift(&b, &u);
    sum_moments(&b, &u, part_start(&b, part), part_start(&b, part + 1));
    keep_moments(&b, &u, part);
}

/* Combine what bn_moments found. */
static inline void gather_moments(const bn *b, unit *u)
{
    for (int s = 0; s < u->vectors; s++) {
        NUMBER(0, s, u->shift[s]);
        u->mean[s] = u->inv[s] = 0;
    }
    for (long part = 0; part < b->parts; part++) {
        const long from = part_start(b, part), to = part_start(b, part + 1);
        for (int s = 0; s < u->vectors && from < to; s++) {
            S mean, squares;
            NUMBER(AT_MOMENTS(part), s, mean);
            NUMBER(AT_MOMENTS(part) + b->width, s, squares);
            combine(&u->mean[s], &u->inv[s], from, mean, squares, to - from);
        }
    }
}

#endif

#if PARTS && BACKWARD

static inline void keep_gradients(const bn *b, const unit *u, long part)
{
    for (int s = 0; s < u->vectors; s++) {
        SET_NUMBER(AT_GRADIENTS(part), s, u->first[s]);
        SET_NUMBER(AT_GRADIENTS(part) + b->width, s, u->second[s]);
    }
}

static inline void gather_gradients(const bn *b, unit *u)
{
    for (int s = 0; s < u->vectors; s++)
        u->first[s] = u->second[s] = 0;
    for (long part = 0; part < b->parts; part++)
        for (int s = 0; s < u->vectors; s++) {
            S sum, other;
            NUMBER(AT_GRADIENTS(part), s, sum);
            NUMBER(AT_GRADIENTS(part) + b->width, s, other);
            u->first[s] += sum;
            u->second[s] += other;
        }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void bn_gradients(BUFFERS, const bn_walk w, const long parts,
                                                                          const ACC factor, const ACC epsilon)
{
    BIND
    const long part = get_group_id(0) % parts;
    unit u;
    locate(&b, &u, get_group_id(0) / parts);
#if GIVEN
    load_moments(&b, &u);
#else
    gather_moments(&b, &u);
    settle_moments(&b, &u, false);
#endif
    sum_gradients(&b, &u, part_start(&b, part), part_start(&b, part + 1));
    keep_gradients(&b, &u, part);
}

#endif

#if PARTS

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void bn_finish(BUFFERS, const bn_walk w, const long parts,
                                                                       const ACC factor, const ACC epsilon)
{
    BIND
    const long part = get_group_id(0) % parts;
    unit u;
    locate(&b, &u, get_group_id(0) / parts);
#if GIVEN
    load_moments(&b, &u);
#else
    gather_moments(&b, &u);
    settle_moments(&b, &u, part == 0);
#endif
#if BACKWARD
    gather_gradients(&b, &u);
#endif
    settle_gradients(&b, &u, part == 0);
    write_rows(&b, &u, part_start(&b, part), part_start(&b, part + 1));
}

#endif
