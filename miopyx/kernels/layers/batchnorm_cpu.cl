/* Batch normalisation on CPUs: one work-item a work-group, each with much work and explicit vectors.
 * layers/batchnorm.h has the formulas, the arguments and the workspace.
 *
 *   LANES = 0:  x  n |====row of VEC====|..|    a number (mean and so on) for each row's channel, SIDE channels at most
 *   LANES = 1:  x  pixel |c c c ... VEC|..|     a vector of numbers for VEC channels, SIDE such vectors at most
 *
 *   A unit of work is up to `side` values of the innermost kept axis.  A row is read VEC elements at a time, which are
 *   neighbours in memory where DENSE is 1, else collected.
 *   bn_whole      all of some units, one after the other: x (and dy) come from the cache when they are read again
 *   bn_moments    part of a unit: mean and sum of squares into the workspace
 *   bn_gradients  part of a unit: sums of dy and dy (x - mean) into the workspace
 *   bn_finish     part of a unit: combines the parts' statistics and writes y or dx; a unit's first part writes the
 *                 statistics, too
 *
 * Grid:         local size 1; bn_whole any number, to which units, in inference units * parts, are dealt out; the
 *               others units * parts.  PARTS = 0 for bn_whole, whose parts are 1 but for inference, else 1.
 * Local memory: none.
 * Parameters:   LANES, DENSE, VEC, SIDE, BLOCK, FITS, below, and those of layers/batchnorm.h.
 * Bound by:     memory: bn_whole reads x once from memory where a unit fits the second cache (FITS).
 * x may be where y is, dy where dx is.
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
#ifndef SIDE /* numbers of a unit */
#define SIDE 16
#endif
#ifndef BLOCK /* elements of a channel that are summed before sums are combined */
#define BLOCK 4096
#endif
#ifndef FITS /* elements that the second cache surely holds */
#define FITS 131072
#endif
#include "layers/batchnorm.h"

#ifndef ACTIVATION
typedef MX_JOIN(ACC, VEC) V;
#endif
#if MX_TYPE(ACC) == MX_TYPE_double
#define MASK MX_JOIN(long, VEC)
#else
#define MASK MX_JOIN(int, VEC)
#endif
/* Which element of a vector a lane has: of a whole dense one of x and its like, and of others. */
#define X_LANE(i) (DENSE ? ELEMENT_OF_LANE(X_TYPE, i) : (i))
#define SOME_LANE(i) (i)
#define FOUR_OF(at, i) at(i), at((i) + 1), at((i) + 2), at((i) + 3)
#if VEC == 16
#define NUMBERS(at) ((MASK)(FOUR_OF(at, 0), FOUR_OF(at, 4), FOUR_OF(at, 8), FOUR_OF(at, 12)))
#elif VEC == 8
#define NUMBERS(at) ((MASK)(FOUR_OF(at, 0), FOUR_OF(at, 4)))
#else
#error "VEC must be 8 or 16"
#endif

#define TO_V(v) MX_JOIN(MX_JOIN(convert_, ACC), VEC)(v)

/* `count` elements `step` apart, at most VEC; the other lanes are 0; `at`: which element of a whole vector a lane has.
 * Not inline: compilers take long for many of these. */
#define SOME_OF(T, load, store, at)                                                                                 \
    static __attribute__((noinline)) V load(__global const STORAGE(T) *p, long step, long count)                    \
    {                                                                                                               \
        ACC some[VEC];                                                                                              \
        if (step == 1 && count == VEC && at(1) == 1)                                                                \
            return TO_V(VLOAD(T)(p, 0));                                                                            \
        for (int i = 0; i < VEC; i++)                                                                               \
            some[i] = i < count ? (ACC)LOAD(T)(p, (count == VEC ? at(i) : i) * step) : (ACC)0;                      \
        return MX_JOIN(vload, VEC)(0, some);                                                                        \
    }                                                                                                               \
    static __attribute__((noinline)) void store(__global STORAGE(T) *p, long step, long count, V v)                 \
    {                                                                                                               \
        ACC some[VEC];                                                                                              \
        if (step == 1 && count == VEC && at(1) == 1) {                                                              \
            VSTORE(T)(p, 0, v);                                                                                     \
            return;                                                                                                 \
        }                                                                                                           \
        MX_JOIN(vstore, VEC)(v, 0, some);                                                                           \
        for (int i = 0; i < count; i++)                                                                             \
            STORE(T)(p, (count == VEC ? at(i) : i) * step, some[i]);                                                \
    }
SOME_OF(X_TYPE, load_x, store_x, SOME_LANE)

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
        return TO_V(VLOAD_ANY_ORDER(X_TYPE)(p, at));
    return load_x(p + at, step, count);
}

static inline void row_store(__global STORAGE(X_TYPE) *p, long at, long step, long count, V v)
{
    if (!DENSE || count != VEC)
        store_x(p + at, step, count, v);
#ifdef MX_STREAMS
    else if (BEFORE_STREAM(p + at) == 0)
        VSTREAM_ANY_ORDER(X_TYPE)(p, at, v);
#endif
    else
        VSTORE_ANY_ORDER(X_TYPE)(p, at, v);
}

/* The numbers of a unit: number s is a scalar, or a vector of lanes. */
#if LANES
typedef V S;
#define WIDTH VEC
SOME_OF(SCALE_TYPE, load_3, store_3, X_LANE)
SOME_OF(BIAS_TYPE, load_4, store_4, X_LANE)
SOME_OF(MEAN_TYPE, load_5, store_5, X_LANE)
SOME_OF(VARIANCE_TYPE, load_6, store_6, X_LANE)
SOME_OF(ACC, load_number, store_number, X_LANE)
/* Lanes of vector number s. */
#define SOME(s) min((long)VEC, u->count - (s) * VEC)
#define PARAMETER(T, p, t, s, v) \
    (v = load_##t((p) + u->at[t] + (s) * VEC * b->w.kept_stride[t][3], b->w.kept_stride[t][3], SOME(s)))
#define SET_PARAMETER(T, p, t, s, v) \
    store_##t((p) + u->at[t] + (s) * VEC * b->w.kept_stride[t][3], b->w.kept_stride[t][3], SOME(s), v)
/* The workspace is packed. */
#define NUMBER(at, s, v) (v = load_number(b->space + (at) + u->lane + (s) * VEC, 1, SOME(s)))
#define SET_NUMBER(at, s, v) store_number(b->space + (at) + u->lane + (s) * VEC, 1, SOME(s), v)
#else
typedef ACC S;
#define WIDTH 1
#define PARAMETER(T, p, t, s, v) (v = LOAD(T)(p, u->at[t] + (s) * b->w.kept_stride[t][3]))
#define SET_PARAMETER(T, p, t, s, v) STORE(T)(p, u->at[t] + (s) * b->w.kept_stride[t][3], v)
#define NUMBER(at, s, v) (v = b->space[(at) + u->lane + (s)])
#define SET_NUMBER(at, s, v) (b->space[(at) + u->lane + (s)] = (v))
#endif

typedef struct {
    long lane;      /* the first kept value */
    long count;     /* kept values */
    int numbers;    /* count / WIDTH, rounded up */
    long at[7];     /* where the tensors begin */
    S shift[SIDE];
    S mean[SIDE];   /* less the shift */
    S inv[SIDE];    /* sum of squares, then 1 / sqrt(variance + epsilon) */
    S first[SIDE];  /* sum of dy; bias */
    S second[SIDE]; /* sum of dy (x - mean); scale */
#if ACTIVATION_BACKWARD
    S times[SIDE];  /* scale / sqrt(variance + epsilon) */
    S plus[SIDE];   /* bias */
#endif
} unit;

/* The gradient of what a batch normalisation made of number s, which is d from the mean. */
#define GRADIENT(g, d, s) NORM_GRADIENT(b, g, (d) * u->times[s] + u->plus[s])
#define FROM_MEAN(v, s) (((v) - u->shift[s]) - u->mean[s])

static inline long units(const bn *b)
{
    return b->w.kept[0] * b->w.kept[1] * b->w.kept[2] * ((b->w.kept[3] + b->side - 1) / b->side);
}

static inline void locate(const bn *b, unit *u, long index)
{
    const long pieces = (b->w.kept[3] + b->side - 1) / b->side, line = index / pieces;
    const long first = (index - line * pieces) * b->side;
    u->lane = line * b->w.kept[3] + first;
    u->count = min(b->side, b->w.kept[3] - first);
    u->numbers = (int)((u->count + WIDTH - 1) / WIDTH);
    for (int t = 0; t < 7; t++)
        u->at[t] = bn_offset(b->w.kept, 3, line, b->w.kept_stride[t]) + first * b->w.kept_stride[t][3];
}

/* Where part number `part` begins; rows are left whole where there are enough. */
static inline long part_start(const bn *b, long part)
{
    if (part == 0)
        return 0;
    if (part == b->parts)
        return b->elements;
#if LANES
    return b->elements * part / b->parts;
#else
    const long row = b->w.reduced[3], lines = b->elements / row;
    return lines % b->parts == 0 || lines >= 4 * b->parts ? lines * part / b->parts * row : b->elements / 64 * part / b->parts * 64;
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

/* Whether to write from the end: what was read last may still be in a cache that does not hold everything. */
static inline bool last_first(const bn *b, const unit *u)
{
    return !INFERENCE && b->elements * u->count > FITS;
}

#if LANES

static inline long row_offset(const bn *b, int t, long row)
{
    return bn_offset(b->w.reduced, 4, row, b->w.reduced_stride[t]);
}

/* A row of x, vector by vector: BODY uses v, lanes number s of it, of which there are `some`. */
#define FOR_ROW(row, BODY)                                                                   \
    do {                                                                                     \
        const long at_ = u->at[0] + row_offset(b, 0, row), some = VEC;                       \
        const int whole_ = (int)(u->count / VEC);                                            \
        for (int s = 0; s < whole_; s++) {                                                   \
            const V v = row_load(b->x, at_ + s * VEC * STEP(0), STEP(0), VEC);               \
            BODY                                                                             \
        }                                                                                    \
        if (whole_ < u->numbers) {                                                           \
            const int s = whole_;                                                            \
            const long some = u->count - s * VEC;                                            \
            const V v = row_load(b->x, at_ + s * VEC * STEP(0), STEP(0), some);              \
            BODY                                                                             \
        }                                                                                    \
    } while (0)

/* The mean of a few elements. */
static inline void set_shift(const bn *b, unit *u)
{
    const long rows = min(8L, b->elements);
    for (int s = 0; s < u->numbers; s++)
        u->shift[s] = 0;
    for (long row = 0; row < rows; row++)
        FOR_ROW(row, { u->shift[s] += v; });
    for (int s = 0; s < u->numbers; s++)
        u->shift[s] /= (ACC)rows;
}

static inline void sum_moments(const bn *b, unit *u, long from, long to)
{
    const long rows = BLOCK / 64;
    S sums[SIDE], squares[SIDE];
    for (int s = 0; s < u->numbers; s++)
        u->mean[s] = u->inv[s] = 0;
    for (long begin = from; begin < to; begin += rows) {
        const long end = min(begin + rows, to);
        const ACC count = end - begin;
        bool exact = true;
        for (int s = 0; s < u->numbers; s++)
            sums[s] = squares[s] = 0;
        for (long row = begin; row < end; row++)
            FOR_ROW(row, {
                const V d = v - u->shift[s];
                sums[s] += d;
                squares[s] += d * d;
            });
        for (int s = 0; s < u->numbers; s++) {
            const V square = sums[s] * (sums[s] / count);
            squares[s] -= square;
            exact = exact && all(square <= FAR * squares[s]);
            sums[s] /= count;
        }
        if (!exact) {
            for (int s = 0; s < u->numbers; s++)
                squares[s] = 0;
            for (long row = begin; row < end; row++)
                FOR_ROW(row, {
                    const V d = (v - u->shift[s]) - sums[s];
                    squares[s] += d * d;
                });
        }
        for (int s = 0; s < u->numbers; s++)
            combine(&u->mean[s], &u->inv[s], begin - from, sums[s], squares[s], count);
    }
}

#if BACKWARD
static inline void sum_gradients(const bn *b, unit *u, long from, long to)
{
    const long rows = BLOCK / 64;
    S sums[SIDE], others[SIDE], rests[SIDE], other_rests[SIDE];
    for (int s = 0; s < u->numbers; s++)
        u->first[s] = u->second[s] = rests[s] = other_rests[s] = 0;
    for (long begin = from; begin < to; begin += rows) {
        for (int s = 0; s < u->numbers; s++)
            sums[s] = others[s] = 0;
        for (long row = begin; row < min(begin + rows, to); row++) {
            const long at = u->at[1] + row_offset(b, 1, row);
            FOR_ROW(row, {
                const V g = row_load(b->dy, at + s * VEC * STEP(1), STEP(1), some);
                const V n = GRADIENT(g, FROM_MEAN(v, s), s);
                sums[s] += n;
                others[s] += n * FROM_MEAN(v, s);
            });
        }
        for (int s = 0; s < u->numbers; s++) {
            MX_TWO_SUM(S, u->first[s], rests[s], sums[s]);
            MX_TWO_SUM(S, u->second[s], other_rests[s], others[s]);
        }
    }
}
#endif

static inline void write_rows(const bn *b, unit *u, long from, long to)
{
    const bool backwards = last_first(b, u);
    for (long i = from; i < to; i++) {
        const long row = backwards ? to - 1 - (i - from) : i;
        const long to_at = u->at[OUT] + row_offset(b, OUT, row);
#if BACKWARD
        const long at = u->at[1] + row_offset(b, 1, row);
        FOR_ROW(row, {
            const V g = row_load(b->dy, at + s * VEC * STEP(1), STEP(1), some);
            row_store(b->y, to_at + s * VEC * STEP(OUT), STEP(OUT), some,
                      u->inv[s] * ((GRADIENT(g, FROM_MEAN(v, s), s) - u->first[s]) - FROM_MEAN(v, s) * u->second[s]));
        });
#else
        FOR_ROW(row, {
            row_store(b->y, to_at + s * VEC * STEP(OUT), STEP(OUT), some,
                      ACTIVATED(b, FROM_MEAN(v, s) * u->inv[s] + u->first[s]));
        });
#endif
    }
}

#else

static inline ACC total(V v)
{
#if VEC == 16
    const MX_JOIN(ACC, 8) a = v.lo + v.hi;
#else
    const V a = v;
#endif
    const MX_JOIN(ACC, 4) c = a.lo + a.hi;
    const MX_JOIN(ACC, 2) d = c.lo + c.hi;
    return d.x + d.y;
}

/* Where row `line`, of those along the last axis, begins. */
static inline long row_offset(const bn *b, int t, long line)
{
    return bn_offset(b->w.reduced, 3, line, b->w.reduced_stride[t]);
}

/* The elements from ... to - 1 of each channel, a piece of a row at a time: `count` of them from `column` on. */
#define FOR_PIECES(from, to)                                                                               \
    for (long q_ = (from), line = q_ / b->w.reduced[3], column = q_ - line * b->w.reduced[3], count;       \
         q_ < (to) && (count = min(b->w.reduced[3] - column, (to) - q_), true); q_ += count, column = 0, line++)

/* The vectors of a piece of a row: EACH(i, k, some) takes that of the elements from i on, k = 0 ... 3 in turns.  Vectors
 * overlap at the end, so that none is short in a row of VEC elements or more; LAST(i, k, some) takes the last one, of
 * which the lanes `keep` are new. */
#define FOR_VECTORS(EACH, LAST)                                                                            \
    do {                                                                                                   \
        long i = 0;                                                                                        \
        for (; i + 4 * VEC <= count; i += 4 * VEC) {                                                       \
            EACH(i, 0, VEC);                                                                               \
            EACH(i + VEC, 1, VEC);                                                                         \
            EACH(i + 2 * VEC, 2, VEC);                                                                     \
            EACH(i + 3 * VEC, 3, VEC);                                                                     \
        }                                                                                                  \
        for (; i + VEC <= count; i += VEC)                                                                 \
            EACH(i, 1, VEC);                                                                               \
        if (i < count) {                                                                                   \
            if (count >= VEC) {                                                                            \
                const MASK keep = NUMBERS(X_LANE) >= (MASK)(VEC - (count - i));                            \
                LAST(count - VEC, 2, VEC);                                                                 \
            }                                                                                              \
            else {                                                                                         \
                const MASK keep = NUMBERS(SOME_LANE) < (MASK)count;                                        \
                LAST(0, 2, count);                                                                         \
            }                                                                                              \
        }                                                                                                  \
    } while (0)

#define ZERO {(V)0, (V)0, (V)0, (V)0}
#define SUM(v) ((v[0] + v[1]) + (v[2] + v[3]))
/* The element i behind `at`, of channel s. */
#define X_VECTOR(i, some) (row_load(b->x, at + (i) * STEP(0), STEP(0), some) - shift)
#define DY_VECTOR(i, some) row_load(b->dy, dy_at + (i) * STEP(1), STEP(1), some)

/* The mean of a few elements. */
static inline void set_shift(const bn *b, unit *u)
{
    const long count = min((long)VEC, b->w.reduced[3]);
    for (int s = 0; s < u->numbers; s++)
        u->shift[s] = total(row_load(b->x, u->at[0] + s * b->w.kept_stride[0][3], STEP(0), count)) / (ACC)count;
}

static inline ACC sum_squares(const bn *b, const unit *u, int s, long begin, long end, ACC mean)
{
    const ACC shift = u->shift[s];
    V q[4] = ZERO;
    FOR_PIECES (begin, end) {
        const long at = u->at[0] + s * b->w.kept_stride[0][3] + row_offset(b, 0, line) + column * STEP(0);
        V d;
#define EACH_SQUARE(i, k, some) d = X_VECTOR(i, some) - mean, q[k] += d * d
#define LAST_SQUARE(i, k, some) d = select((V)0, X_VECTOR(i, some) - mean, keep), q[k] += d * d
        FOR_VECTORS(EACH_SQUARE, LAST_SQUARE);
    }
    return total(SUM(q));
}

static inline void sum_moments(const bn *b, unit *u, long from, long to)
{
    /* Short rows fill one vector each, so a lane's terms are as many as the rows: 256 at most. */
    const long row = b->w.reduced[3], block = row < BLOCK ? min((long)BLOCK / row, 256L) * row : BLOCK;
    V sums[SIDE], squares[SIDE];
    for (int s = 0; s < u->numbers; s++)
        u->mean[s] = u->inv[s] = 0;
    for (long begin = from; begin < to; begin += block) {
        const long end = min(begin + block, to);
        for (int s = 0; s < u->numbers; s++)
            sums[s] = squares[s] = 0;
        FOR_PIECES (begin, end) {
            const long start = u->at[0] + row_offset(b, 0, line) + column * STEP(0);
            for (int s = 0; s < u->numbers; s++) {
                const long at = start + s * b->w.kept_stride[0][3];
                const ACC shift = u->shift[s];
                V p[4] = ZERO, q[4] = ZERO, d;
#define EACH_X(i, k, some) d = X_VECTOR(i, some), p[k] += d, q[k] += d * d
#define LAST_X(i, k, some) d = select((V)0, X_VECTOR(i, some), keep), p[k] += d, q[k] += d * d
                FOR_VECTORS(EACH_X, LAST_X);
                sums[s] += SUM(p);
                squares[s] += SUM(q);
            }
        }
        for (int s = 0; s < u->numbers; s++) {
            const ACC sum = total(sums[s]), mean = sum / (end - begin), square = sum * mean;
            ACC q = total(squares[s]) - square;
            if (!(square <= FAR * q))
                q = sum_squares(b, u, s, begin, end, mean);
            combine(&u->mean[s], &u->inv[s], begin - from, mean, q, end - begin);
        }
    }
}

#if BACKWARD
static inline void sum_gradients(const bn *b, unit *u, long from, long to)
{
    const long row = b->w.reduced[3], block = row < BLOCK ? min((long)BLOCK / row, 256L) * row : BLOCK;
    V sums[SIDE], others[SIDE];
    ACC rests[SIDE], other_rests[SIDE];
    for (int s = 0; s < u->numbers; s++)
        u->first[s] = u->second[s] = rests[s] = other_rests[s] = 0;
    for (long begin = from; begin < to; begin += block) {
        for (int s = 0; s < u->numbers; s++)
            sums[s] = others[s] = 0;
        FOR_PIECES (begin, min(begin + block, to)) {
            const long start = u->at[0] + row_offset(b, 0, line) + column * STEP(0);
            const long dy_start = u->at[1] + row_offset(b, 1, line) + column * STEP(1);
            for (int s = 0; s < u->numbers; s++) {
                const long at = start + s * b->w.kept_stride[0][3], dy_at = dy_start + s * b->w.kept_stride[1][3];
                const ACC shift = u->shift[s], mean = u->mean[s];
                V p[4] = ZERO, q[4] = ZERO, g;
#if ACTIVATION_BACKWARD
                V d;
#define TAKE_DY(i, some) d = X_VECTOR(i, some) - mean, g = GRADIENT(DY_VECTOR(i, some), d, s)
#define X_OF_DY(i, some) d
#else
#define TAKE_DY(i, some) g = DY_VECTOR(i, some)
#define X_OF_DY(i, some) (X_VECTOR(i, some) - mean)
#endif
#define EACH_DY(i, k, some) TAKE_DY(i, some), p[k] += g, q[k] += g * X_OF_DY(i, some)
#define LAST_DY(i, k, some) \
    TAKE_DY(i, some), p[k] += select((V)0, g, keep), q[k] += select((V)0, g * X_OF_DY(i, some), keep)
                FOR_VECTORS(EACH_DY, LAST_DY);
                sums[s] += SUM(p);
                others[s] += SUM(q);
            }
        }
        for (int s = 0; s < u->numbers; s++) {
            MX_TWO_SUM(ACC, u->first[s], rests[s], total(sums[s]));
            MX_TWO_SUM(ACC, u->second[s], other_rests[s], total(others[s]));
        }
    }
}
#endif

static inline void write_rows(const bn *b, unit *u, long from, long to)
{
    const long row = b->w.reduced[3], first_line = from / row, lines = from < to ? (to - 1) / row - first_line + 1 : 0;
    const bool backwards = last_first(b, u);
    for (long number = 0; number < lines; number++) {
        const long line = first_line + (backwards ? lines - 1 - number : number), begin = max(from, line * row);
        const long count = min(to, (line + 1) * row) - begin, column = begin - line * row;
        const long start = u->at[0] + row_offset(b, 0, line) + column * STEP(0);
        const long to_start = u->at[OUT] + row_offset(b, OUT, line) + column * STEP(OUT);
#if BACKWARD
        const long dy_start = u->at[1] + row_offset(b, 1, line) + column * STEP(1);
#endif
        const long left = count % VEC, last = count - VEC;
        for (int s = 0; s < u->numbers; s++) {
            const long at = start + s * b->w.kept_stride[0][3], to_at = to_start + s * b->w.kept_stride[OUT][3];
            const ACC shift = u->shift[s], mean = u->mean[s], inv = u->inv[s], first = u->first[s];
            V tail = 0;
            long i = 0;
#if BACKWARD
            const long dy_at = dy_start + s * b->w.kept_stride[1][3];
            const ACC second = u->second[s];
#if ACTIVATION_BACKWARD
            V d;
#define RESULT(i, some) \
    (d = X_VECTOR(i, some) - mean, inv * ((GRADIENT(DY_VECTOR(i, some), d, s) - first) - d * second))
#else
#define RESULT(i, some) (inv * ((DY_VECTOR(i, some) - first) - (X_VECTOR(i, some) - mean) * second))
#endif
#else
#define RESULT(i, some) ACTIVATED(b, (X_VECTOR(i, some) - mean) * inv + first)
#endif
            if (left != 0 && last > 0) /* before any of it is overwritten, should y lie where x does */
                tail = RESULT(last, VEC);
            for (; i + VEC <= count; i += VEC)
                row_store(b->y, to_at + i * STEP(OUT), STEP(OUT), VEC, RESULT(i, VEC));
            if (left != 0 && last > 0)
                row_store(b->y, to_at + last * STEP(OUT), STEP(OUT), VEC, tail);
            else if (left != 0)
                row_store(b->y, to_at, STEP(OUT), count, RESULT(0, count));
        }
    }
}

#endif

/* What happens between the passes; the same for rows and lanes. */

#if TRAINING
static inline S moved(const bn *b, S old, S fresh)
{
    return ((ACC)1 - b->factor) * old + b->factor * fresh;
}
#endif

/* Mean and sum of squares are there. */
static inline void settle_moments(const bn *b, unit *u, bool write)
{
    for (int s = 0; s < u->numbers; s++) {
        const S squares = u->inv[s];
        u->inv[s] = (ACC)1 / sqrt(squares / (ACC)b->elements + b->epsilon);
#if TRAINING
        if (write && b->running) {
            S mean = u->shift[s] + u->mean[s], variance = squares / (ACC)max(1L, b->elements - 1), old;
            if (b->factor != 1) { /* else the old ones may be anything */
                PARAMETER(MEAN_TYPE, OLD_MEAN(b), 5, s, old);
                mean = moved(b, old, mean);
                PARAMETER(VARIANCE_TYPE, OLD_VARIANCE(b), 6, s, old);
                variance = moved(b, old, variance);
            }
            SET_PARAMETER(MEAN_TYPE, b->mean, 5, s, mean);
            SET_PARAMETER(VARIANCE_TYPE, b->variance, 6, s, variance);
        }
        if (write && b->save) {
            SET_PARAMETER(MEAN_TYPE, b->saved_mean, 5, s, u->shift[s] + u->mean[s]);
            SET_PARAMETER(VARIANCE_TYPE, b->saved_inv, 6, s, u->inv[s]);
        }
#endif
    }
}

static inline void load_moments(const bn *b, unit *u)
{
    for (int s = 0; s < u->numbers; s++) {
        u->shift[s] = 0;
        PARAMETER(MEAN_TYPE, b->mean, 5, s, u->mean[s]);
        PARAMETER(VARIANCE_TYPE, b->variance, 6, s, u->inv[s]);
#if INFERENCE
        u->inv[s] = GIVEN_INV(b, u->inv[s]);
#endif
    }
}

#if ACTIVATION_BACKWARD
/* Mean and inverse deviation are there: what the batch normalisation made of x. */
static inline void load_result(const bn *b, unit *u)
{
    for (int s = 0; s < u->numbers; s++) {
        S scale;
        PARAMETER(SCALE_TYPE, b->scale, 3, s, scale);
        PARAMETER(BIAS_TYPE, b->given_bias, 4, s, u->plus[s]);
        u->times[s] = u->inv[s] * scale;
    }
}
#else
#define load_result(b, u)
#endif

/* Sums are there; inv becomes the factor of the result. */
static inline void settle_gradients(const bn *b, unit *u, bool write)
{
    for (int s = 0; s < u->numbers; s++) {
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

#define KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void

#if !PARTS

KERNEL bn_whole(BUFFERS, NUMBERS_OF_A_CALL)
{
    BIND
    const long every = units(&b) * parts, items = get_num_groups(0), item = get_group_id(0);
    unit u;
    for (long index = every * item / items; index < every * (item + 1) / items; index++) {
        const long part = parts == 1 ? 0 : index % parts;
        locate(&b, &u, parts == 1 ? index : index / parts);
        if (GIVEN(&b))
            load_moments(&b, &u);
        else {
            set_shift(&b, &u);
            sum_moments(&b, &u, 0, b.elements);
            settle_moments(&b, &u, true);
        }
#if BACKWARD
        load_result(&b, &u);
        sum_gradients(&b, &u, 0, b.elements);
#endif
        settle_gradients(&b, &u, true);
        write_rows(&b, &u, part_start(&b, part), part_start(&b, part + 1));
    }
}

#endif

#if PARTS

static inline void keep_moments(const bn *b, const unit *u, long part)
{
    for (int s = 0; s < u->numbers; s++) {
        if (part == 0)
            SET_NUMBER(0, s, u->shift[s]);
        SET_NUMBER(AT_MOMENTS(part), s, u->mean[s]);
        SET_NUMBER(AT_MOMENTS(part) + b->width, s, u->inv[s]);
    }
}

/* Combine what bn_moments found. */
static inline void gather_moments(const bn *b, unit *u)
{
    for (int s = 0; s < u->numbers; s++) {
        NUMBER(0, s, u->shift[s]);
        u->mean[s] = u->inv[s] = 0;
    }
    for (long part = 0; part < b->parts; part++) {
        const long from = part_start(b, part), to = part_start(b, part + 1);
        for (int s = 0; s < u->numbers && from < to; s++) {
            S mean, squares;
            NUMBER(AT_MOMENTS(part), s, mean);
            NUMBER(AT_MOMENTS(part) + b->width, s, squares);
            combine(&u->mean[s], &u->inv[s], from, mean, squares, to - from);
        }
    }
}

KERNEL bn_moments(BUFFERS, NUMBERS_OF_A_CALL)
{
    BIND
    const long part = get_group_id(0) % parts;
    unit u;
    locate(&b, &u, get_group_id(0) / parts);
    set_shift(&b, &u);
    sum_moments(&b, &u, part_start(&b, part), part_start(&b, part + 1));
    keep_moments(&b, &u, part);
}

#endif

#if PARTS && BACKWARD

static inline void keep_gradients(const bn *b, const unit *u, long part)
{
    for (int s = 0; s < u->numbers; s++) {
        SET_NUMBER(AT_GRADIENTS(part), s, u->first[s]);
        SET_NUMBER(AT_GRADIENTS(part) + b->width, s, u->second[s]);
    }
}

static inline void gather_gradients(const bn *b, unit *u)
{
    S rests[SIDE], other_rests[SIDE];
    for (int s = 0; s < u->numbers; s++)
        u->first[s] = u->second[s] = rests[s] = other_rests[s] = 0;
    for (long part = 0; part < b->parts; part++)
        for (int s = 0; s < u->numbers; s++) {
            S sum, other;
            NUMBER(AT_GRADIENTS(part), s, sum);
            NUMBER(AT_GRADIENTS(part) + b->width, s, other);
            MX_TWO_SUM(S, u->first[s], rests[s], sum);
            MX_TWO_SUM(S, u->second[s], other_rests[s], other);
        }
}

KERNEL bn_gradients(BUFFERS, NUMBERS_OF_A_CALL)
{
    BIND
    const long part = get_group_id(0) % parts;
    unit u;
    locate(&b, &u, get_group_id(0) / parts);
    if (GIVEN(&b))
        load_moments(&b, &u);
    else {
        gather_moments(&b, &u);
        settle_moments(&b, &u, false);
    }
    load_result(&b, &u);
    sum_gradients(&b, &u, part_start(&b, part), part_start(&b, part + 1));
    keep_gradients(&b, &u, part);
}

#endif

#if PARTS

KERNEL bn_finish(BUFFERS, NUMBERS_OF_A_CALL)
{
    BIND
    const long part = get_group_id(0) % parts;
    unit u;
    locate(&b, &u, get_group_id(0) / parts);
    if (GIVEN(&b))
        load_moments(&b, &u);
    else {
        gather_moments(&b, &u);
        settle_moments(&b, &u, part == 0);
    }
#if BACKWARD
    load_result(&b, &u);
    gather_gradients(&b, &u);
#endif
    settle_gradients(&b, &u, part == 0);
    write_rows(&b, &u, part_start(&b, part), part_start(&b, part + 1));
}

#endif
