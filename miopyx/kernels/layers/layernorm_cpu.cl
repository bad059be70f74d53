/* Layer norm, RMS norm and group norm on CPUs, and their gradients; layers/layernorm.h has the formulas.
 *
 *   part 0  | row ......... |     A work-item has an equal share of the rows, and goes over a row two or three times,
 *           | row ......... |     out of its cache.  A row is cut in vectors; the last one ends where the row ends, so
 *   part 1  | row ......... |     that it overlaps the one before: lanes that were there count once in sums and are
 *           | row ......... |     written twice with the same numbers.
 *
 *   norm_backward: part p sums dw and db of its rows in the workspace, at 2 p plane and (2 p + 1) plane; norm_finish of
 *   layers/layernorm_parts.cl adds those of all parts up, in their order.
 *
 * Grid:         `parts` groups of one work-item.
 * Local memory: none.
 * Parameters:   those of layers/layernorm.h; KEEP, HELD, below.
 * Bound by:     memory.
 */
#ifndef VEC
#define VEC 16
#endif
#ifndef KEEP /* 1: rows have at most HELD numbers, and x is converted once */
#define KEEP 0
#endif
#define HELD 16384
#include "layers/layernorm.h"
#include "include/vectors.h"

#if VEC == 16
#define LANES ((VI)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#elif VEC == 8
#define LANES ((VI)(0, 1, 2, 3, 4, 5, 6, 7))
#else
#error "VEC must be 8 or 16"
#endif
#define PART (64 * VEC) /* elements that a plain sum takes */
#define TO_V VJOIN(MX_JOIN(convert_, ACC))

/* Vectors of n elements: up to `whole` they follow each other, the last one begins at `last`; `fresh` are its lanes that
 * no other has.  Fewer than a vector are moved lane by lane. */
#define CUT(n)                                                                      \
    const bool few = (n) < VEC;                                                     \
    const long whole = (n) / VEC * VEC, last = few ? 0 : (n)-VEC;                   \
    const VI fresh = few ? LANES < (VI)(n) : LANES >= (VI)(VEC - ((n)-whole))

#define MOVES(name, TYPE)                                                                                  \
    static inline V name##_at(__global const STORAGE(TYPE) *p, long at)                                    \
    {                                                                                                      \
        return TO_V(VLOAD(TYPE)(p, at));                                                                   \
    }                                                                                                      \
    static inline V name##_last(__global const STORAGE(TYPE) *p, long last, long n)                        \
    {                                                                                                      \
        if (n >= VEC)                                                                                      \
            return name##_at(p, last);                                                                     \
        ACC lane[VEC];                                                                                     \
        for (int i = 0; i < VEC; i++)                                                                      \
            lane[i] = i < n ? (ACC)LOAD(TYPE)(p, i) : 0;                                                   \
        return VJOIN(vload)(0, lane);                                                                      \
    }
MOVES(x, T)
MOVES(p, P_TYPE)

static inline void put_last(__global STORAGE(T) *p, long last, long n, V value)
{
    if (n >= VEC) {
        VSTORE(T)(p, last, value);
        return;
    }
    ACC lane[VEC];
    VJOIN(vstore)(value, 0, lane);
    for (int i = 0; i < n; i++)
        STORE(T)(p, i, lane[i]);
}

#define EIGHT MX_JOIN(ACC, 8)
#define FOUR MX_JOIN(ACC, 4)
#define TWO MX_JOIN(ACC, 2)
static inline ACC fold(V v)
{
#if VEC == 16
    const EIGHT e = v.lo + v.hi;
#else
    const EIGHT e = v;
#endif
    const FOUR f = e.lo + e.hi;
    const TWO t = f.lo + f.hi;
    return t.x + t.y;
}

/* a and b: the sums of what TERMS(a, b, i) adds for the vector at i, over all whole vectors, cut into parts. */
#define SUM_VECTORS(a, b, TERMS)                                         \
    for (long i = 0; i < whole;) {                                       \
        const long end = min(i + PART, whole);                           \
        V a0 = (V)0, a1 = (V)0, a2 = (V)0, a3 = (V)0;                    \
        V b0 = (V)0, b1 = (V)0, b2 = (V)0, b3 = (V)0;                    \
        for (; i + 4 * VEC <= end; i += 4 * VEC) {                       \
            TERMS(a0, b0, i);                                            \
            TERMS(a1, b1, i + VEC);                                      \
            TERMS(a2, b2, i + 2 * VEC);                                  \
            TERMS(a3, b3, i + 3 * VEC);                                  \
        }                                                                \
        for (; i < end; i += VEC)                                        \
            TERMS(a0, b0, i);                                            \
        MX_TWO_SUM(V, a, a##_rest, (a0 + a1) + (a2 + a3));               \
        MX_TWO_SUM(V, b, b##_rest, (b0 + b1) + (b2 + b3));               \
    }
/* Memory that the next row needs: its addresses are known while this row is computed.  Beyond the last row they may be
 * anybody's, which a prefetch may name. */
#define PREFETCH(p) MX_PREFETCH(p, 0)
#define SUMS V a = (V)0, a_rest = (V)0, b = (V)0, b_rest = (V)0

/* Where y and dx may go past the caches. */
#define WRITE_VECTORS(p, RESULT)                                         \
    if (BEFORE_STREAM(p) == 0)                                           \
        for (long i = 0; i < whole; i += VEC)                            \
            VSTREAM(T)(p, i, RESULT(i));                                 \
    else                                                                 \
        for (long i = 0; i < whole; i += VEC)                            \
            VSTORE(T)(p, i, RESULT(i));

/* This group's share of the rows: from .x up to .y. */
static inline long2 share(long rows)
{
    const long me = get_group_id(0), groups = get_num_groups(0);
    return (long2)(me * rows / groups, (me + 1) * rows / groups);
}

#define KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void

/* x (+ x2) of a row. */
static inline V read(__global const STORAGE(T) *x, __global const STORAGE(T) *x2, long i)
{
    return ADD ? x_at(x, i) + x_at(x2, i) : x_at(x, i);
}
static inline V read_last(__global const STORAGE(T) *x, __global const STORAGE(T) *x2, long last, long n)
{
    return ADD ? x_last(x, last, n) + x_last(x2, last, n) : x_last(x, last, n);
}
static inline V read_first(__global const STORAGE(T) *x, __global const STORAGE(T) *x2, long i, ACC *held)
{
    const V v = read(x, x2, i);
    if (KEEP)
        VJOIN(vstore)(v, 0, held + i);
    return v;
}
#define AGAIN(i) (KEEP ? VJOIN(vload)(0, held + (i)) : read(x, x2, i))

/* The statistics of a row: .x is about the mean, .y what is left of it, .z rstd. */
static inline MX_JOIN(ACC, 4) statistics(__global const STORAGE(T) *x, __global const STORAGE(T) *x2, long n,
                                         ACC epsilon, ACC *held)
{
    CUT(n);
    SUMS;
    const V end = whole < n ? read_last(x, x2, last, n) : (V)0;
#if RMS
#define TERMS(a, b, i)                                  \
    do {                                                \
        const V v = read_first(x, x2, i, held);         \
        b += v * v;                                     \
    } while (0)
    SUM_VECTORS(a, b, TERMS)
#undef TERMS
    if (whole < n) {
        b += fresh ? end * end : (V)0;
        if (KEEP)
            VJOIN(vstore)(end, 0, held + last);
    }
    return (MX_JOIN(ACC, 4))(0, 0, rstd_of(fold(b + b_rest) / n, epsilon), 0);
#else
#define TERMS(a, b, i) a += read_first(x, x2, i, held)
    SUM_VECTORS(a, b, TERMS)
#undef TERMS
    if (whole < n) {
        a += fresh ? end : (V)0;
        if (KEEP)
            VJOIN(vstore)(end, 0, held + last);
    }
    const ACC m = fold(a + a_rest) / n;
    a = a_rest = (V)0;
#define TERMS(a, b, i)                                  \
    do {                                                \
        PREFETCH(x + n + (i));                          \
        const V d = AGAIN(i) - m;                       \
        a += d;                                         \
        b += d * d;                                     \
    } while (0)
    SUM_VECTORS(a, b, TERMS)
#undef TERMS
    if (whole < n) {
        const V d = fresh ? end - m : (V)0;
        a += d;
        b += d * d;
    }
    const ACC e = fold(a + a_rest) / n;
    return (MX_JOIN(ACC, 4))(m, e, rstd_of(fold(b + b_rest) / n - e * e, epsilon), 0);
#endif
}

/* n numbers with the weights at `weight`, or all with the first one (SPATIAL). */
static inline void normalise(__global const STORAGE(T) *x, __global const STORAGE(T) *x2,
                             __global const STORAGE(P_TYPE) *weight, __global const STORAGE(P_TYPE) *bias,
                             __global STORAGE(T) *y, long n, MX_JOIN(ACC, 4) row, const ACC *held)
{
    CUT(n);
    const V shift = row.y * row.z;
    const V w = WEIGHT && SPATIAL ? (V)(ACC)LOAD(P_TYPE)(weight, 0) : (V)1;
    const V b = BIAS && SPATIAL ? (V)(ACC)LOAD(P_TYPE)(bias, 0) : (V)0;
#define SCALED(v) (RMS ? (v)*row.z : ((v)-row.x) * row.z - shift)
#define AFFINE(v, w, b) (WEIGHT && BIAS ? (v) * (w) + (b) : WEIGHT ? (v) * (w) : BIAS ? (v) + (b) : (v))
#define RESULT(i) AFFINE(SCALED(AGAIN(i)), SPATIAL || !WEIGHT ? w : p_at(weight, i), SPATIAL || !BIAS ? b : p_at(bias, i))
    V end = (V)0;
    if (whole < n)
        end = AFFINE(SCALED(KEEP ? VJOIN(vload)(0, held + last) : read_last(x, x2, last, n)),
                     SPATIAL || !WEIGHT ? w : p_last(weight, last, n), SPATIAL || !BIAS ? b : p_last(bias, last, n));
    WRITE_VECTORS(y, RESULT)
#undef RESULT
    if (whole < n)
        put_last(y, last, n, end);
}

KERNEL norm_forward(FORWARD_ARGUMENTS)
{
#if KEEP
    ACC held[HELD + VEC]; /* a last vector of a segment may reach beyond a short row */
#else
    ACC *held = 0;
#endif
    const long2 mine = share(s.rows);
    const long n = s.length, channels = n / s.spatial;
    FORWARD_OFFSETS;
    for (long r = mine.x; r < mine.y; r++) {
        const long at = r * n, first = r % s.groups * channels;
        const MX_JOIN(ACC, 4) row = statistics(x + at, x2 + at, n, (ACC)epsilon, held);
        if (MEAN)
            STORE(S_TYPE)(mean, r, row.x + row.y);
        if (RSTD)
            STORE(S_TYPE)(rstd, r, row.z);
        if (SPATIAL)
            for (long c = 0; c < channels; c++) {
                const long from = at + c * s.spatial;
                normalise(x + from, x2 + from, weight + first + c, bias + first + c, y + from, s.spatial, row,
                          held + c * s.spatial);
            }
        else
            normalise(x + at, x2 + at, weight + first, bias + first, y + at, n, row, held);
    }
}

/* Sums of g and g xhat (SPATIAL: of dy and dy xhat) of n numbers; what they add to dw and db goes to pw and pb. */
static inline TWO sum_gradients(__global const STORAGE(T) *dy, __global const STORAGE(T) *x,
                                __global const STORAGE(T) *x2, __global const STORAGE(P_TYPE) *weight,
                                __global ACC *pw, __global ACC *pb, long n, ACC m, ACC scale)
{
    CUT(n);
    SUMS;
#define XHAT(v) (RMS ? (v)*scale : ((v)-m) * scale)
#define ADD_TO(p, at, v) VJOIN(vstore)(VJOIN(vload)(0, (p) + (at)) + (v), 0, (p) + (at))
#define TERMS(a, b, i)                                                         \
    do {                                                                       \
        const V d = x_at(dy, i), xhat = XHAT(read(x, x2, i));                  \
        const V g = WEIGHT && !SPATIAL ? d * p_at(weight, i) : d;              \
        a += g;                                                                \
        b += g * xhat;                                                         \
        if (DW && !SPATIAL)                                                    \
            ADD_TO(pw, i, d *xhat);                                            \
        if (DB && !SPATIAL)                                                    \
            ADD_TO(pb, i, d);                                                  \
    } while (0)
    SUM_VECTORS(a, b, TERMS)
#undef TERMS
    if (whole < n) {
        const V d = fresh ? x_last(dy, last, n) : (V)0, xhat = XHAT(read_last(x, x2, last, n));
        const V g = WEIGHT && !SPATIAL ? d * p_last(weight, last, n) : d;
        a += fresh ? g : (V)0;
        b += fresh ? g * xhat : (V)0;
        if (DW && !SPATIAL)
            ADD_TO(pw, last, fresh ? d * xhat : (V)0);
        if (DB && !SPATIAL)
            ADD_TO(pb, last, d);
    }
    return (TWO)(fold(a + a_rest), fold(b + b_rest));
}

/* dx of n numbers with the weights at `weight`, or all with the first one (SPATIAL); means of g and of g xhat. */
static inline void differentiate(__global const STORAGE(T) *dy, __global const STORAGE(T) *x,
                                 __global const STORAGE(T) *x2, __global const STORAGE(P_TYPE) *weight,
                                 __global STORAGE(T) *dx, long n, ACC m, ACC scale, TWO means)
{
    CUT(n);
    const V w = WEIGHT && SPATIAL ? (V)(ACC)LOAD(P_TYPE)(weight, 0) : (V)1;
#define GRADIENT(g, xhat) (RMS ? scale * ((g) - (xhat)*means.y) : scale * (((g)-means.x) - (xhat)*means.y))
#define RESULT(i) GRADIENT(WEIGHT ? x_at(dy, i) * (SPATIAL ? w : p_at(weight, i)) : x_at(dy, i), XHAT(read(x, x2, i)))
    V end = (V)0;
    if (whole < n) {
        const V d = x_last(dy, last, n);
        end = GRADIENT(WEIGHT ? d * (SPATIAL ? w : p_last(weight, last, n)) : d, XHAT(read_last(x, x2, last, n)));
    }
    WRITE_VECTORS(dx, RESULT)
#undef RESULT
    if (whole < n)
        put_last(dx, last, n, end);
}

KERNEL norm_backward(BACKWARD_ARGUMENTS)
{
    const long2 mine = share(s.rows);
    const long n = s.length, channels = n / s.spatial;
    BACKWARD_OFFSETS;
    __global ACC *pw = space + 2 * get_group_id(0) * s.plane, *pb = pw + s.plane;
    if (DW || DB)
        for (long c = 0; c < 2 * s.plane; c++)
            pw[c] = 0;
    for (long r = mine.x; r < mine.y; r++) {
        const long at = r * n, first = r % s.groups * channels;
        const ACC m = RMS ? 0 : (ACC)LOAD(S_TYPE)(mean, r), scale = (ACC)LOAD(S_TYPE)(rstd, r);
        TWO sums = (TWO)0;
        if (SPATIAL) {
            TWO total = (TWO)0, rest = (TWO)0;
            for (long c = 0; c < channels; c++) {
                const long from = at + c * s.spatial;
                sums = sum_gradients(dy + from, x + from, x2 + from, weight, pw, pb, s.spatial, m, scale);
                if (DW)
                    pw[first + c] += sums.y;
                if (DB)
                    pb[first + c] += sums.x;
                if (WEIGHT)
                    sums *= (ACC)LOAD(P_TYPE)(weight, first + c);
                MX_TWO_SUM(TWO, total, rest, sums);
            }
            sums = total + rest;
        } else
            sums = sum_gradients(dy + at, x + at, x2 + at, weight + first, pw + first, pb + first, n, m, scale);
        sums /= (ACC)n;
        if (SPATIAL)
            for (long c = 0; c < channels; c++) {
                const long from = at + c * s.spatial;
                differentiate(dy + from, x + from, x2 + from, weight + first + c, dx + from, s.spatial, m, scale, sums);
            }
        else
            differentiate(dy + at, x + at, x2 + at, weight + first, dx + at, n, m, scale, sums);
    }
}
