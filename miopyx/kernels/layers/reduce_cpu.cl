/* Reductions on CPUs; layers/reduce.h has the formulas.
 *
 *   reduce_along    |--part--|--part--|    a is dense along what is reduced, or along nothing (DENSE = 0): a group has a
 *                                          range of elements of c, or of parts of them
 *   reduce_across   | block  | block  |    a is dense along c: a group has a range of blocks of neighbouring elements of
 *                   | block  | block  |    c, or of parts of them, and goes over the rows of a, RISE at a time
 *   reduce_finish                          joins the parts in their order
 *
 * Grid:         at most as many groups as there are pieces of work; local size 1.
 * Local memory: none; reduce_across has a block, of sums three times, in private memory.
 * Parameters:   those of layers/reduce.h; WHAT: 0 along, 1 across, 2 finish; DENSE; SHORT: a vector's lanes are elements
 *               of c, as few numbers become one; LONG: an accumulator would take more than BLOCK_TERMS; BLOCK: the
 *               longest block; RISE.
 * Bound by:     memory.
 */
#ifndef WHAT
#define WHAT 0
#endif
#ifndef DENSE
#define DENSE 1
#endif
#ifndef VEC
#define VEC 16
#endif
#ifndef SHORT
#define SHORT 0
#endif
#ifndef LONG
#define LONG 1
#endif
#ifndef RISE /* rows that are joined before they meet the block, 4 or 8 */
#define RISE 4
#endif
#ifndef BLOCK
#define BLOCK 1024
#endif
#include "layers/reduce.h"

#define VOF(T) MX_JOIN(T, VEC)
typedef VOF(ACC) V;
typedef VOF(SAME) M;
#if VEC == 16
#define LANES ((M)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#elif VEC == 8
#define LANES ((M)(0, 1, 2, 3, 4, 5, 6, 7))
#else
#error "VEC must be 8 or 16"
#endif

#define KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
/* This group's share of n: from .x up to .y. */
static inline long2 share(long n)
{
    const long me = get_group_id(0), groups = get_num_groups(0);
    return (long2)(me * n / groups, (me + 1) * n / groups);
}

#if MX_TYPE(A_TYPE) == MX_TYPE(ACC) || MX_TYPE(ACC) == MX_TYPE_float
#define GET(p, i) COUNTED(PREPARED(VLOAD(A_TYPE)(p, i)))
#else
#define GET(p, i) COUNTED(PREPARED(MX_JOIN(convert_, VOF(ACC))(VLOAD(A_TYPE)(p, i))))
#endif
static inline ACC get(__global const STORAGE(A_TYPE) *p, long i)
{
    const ACC v = (ACC)LOAD(A_TYPE)(p, i);
    const ACC w = PREPARED(v);
    return COUNTED(w);
}
static inline V get_vector(__global const STORAGE(A_TYPE) *p, long i)
{
    const V v = GET(p, i);
    return v;
}

/* VEC neighbours from element x of the line on. */
static inline void put_vector(__global const STORAGE(A_TYPE) *a, __global STORAGE(C_TYPE) *c, __global int *index,
                              const long a_step, const long c_step, const long i_step, V value, M place, ACC alpha,
                              ACC beta)
{
    if (NANS != 2 && c_step == 1 && i_step == 1 && beta == 0) {
        if (VALUE)
            VSTORE(C_TYPE)(c, 0, alpha * value);
        if (INDEXED)
            MX_JOIN(vstore, VEC)(MX_JOIN(convert_int, VEC)(place == (M)NOWHERE ? (M)0 : place), 0, index);
        return;
    }
    ACC values[VEC];
    SAME places[VEC];
    MX_JOIN(vstore, VEC)(value, 0, values);
    MX_JOIN(vstore, VEC)(place, 0, places);
    for (int k = 0; k < VEC; k++)
        put(a + k * a_step, c + k * c_step, index + k * i_step, values[k], places[k], alpha, beta);
}
#define PUT_VECTOR(x, value, place)                                                                               \
    put_vector(a + A_AT(x), c + C_AT(x), index + INDEX_AT(x), s.kept.stride[0][4], VALUE ? s.kept.stride[1][4] : 1, \
               INDEXED ? s.kept.stride[2][4] : 1, FINISHED(value), place, (ACC)alpha, (ACC)beta)
#if WHOLE
#define GIVE_VECTOR(x, value, place, part) PUT_VECTOR(x, value, place)
#else
#define GIVE_VECTOR(x, value, place, part)                                                  \
    do {                                                                                    \
        const long at_ = PART_AT(x, part);                                                  \
        MX_JOIN(vstore, VEC)(value, 0, space + at_);                                        \
        if (INDEXED)                                                                        \
            MX_JOIN(vstore, VEC)(MX_JOIN(convert_int, VEC)(place), 0, PLACES + at_);        \
    } while (0)
#endif

#if WHAT == 0

/* The numbers of a part: vectors of them, of sums a total that keeps what it rounds away, and single ones. */
typedef struct {
    V best, total, rest;
    M at;
    ACC one;
    SAME one_at;
} joined_t;

/* n numbers that lie `step` apart; the first one's flattened index, and how far those of others are. */
static inline void join_run(__global const STORAGE(A_TYPE) *p, long n, long step, long flat, long flat_step, joined_t *j)
{
#if !DENSE
    for (long i = 0; i < n;) {
        const long end = min(n, i + BLOCK_TERMS);
        for (; i < end; i++) {
            const ACC v = get(p, i * step);
            JOIN(SAME, j->one, j->one_at, v, (SAME)(flat + i * flat_step));
        }
#if SUM && LONG
        ACC total = j->total.s0, rest = j->rest.s0;
        MX_TWO_SUM(ACC, total, rest, j->one);
        j->total.s0 = total, j->rest.s0 = rest;
        j->one = 0;
#endif
    }
#else
    V b0 = j->best, b1 = (V)IDENTITY, b2 = (V)IDENTITY, b3 = (V)IDENTITY;
    M at0 = j->at, at1 = (M)NOWHERE, at2 = (M)NOWHERE, at3 = (M)NOWHERE;
#if INDEXED
    const M apart = LANES * (SAME)flat_step;
#define PLACE(i) ((SAME)(flat + (i) * flat_step) + apart)
#else
#define PLACE(i) (M)0
#endif
    long i = 0;
    while (i + VEC <= n) {
        const long end = min(n, i + BLOCK_TERMS / 4 * 4 * VEC);
        for (; i + 4 * VEC <= end; i += 4 * VEC) {
            const V v0 = get_vector(p, i), v1 = get_vector(p, i + VEC), v2 = get_vector(p, i + 2 * VEC);
            const V v3 = get_vector(p, i + 3 * VEC);
            JOIN(M, b0, at0, v0, PLACE(i));
            JOIN(M, b1, at1, v1, PLACE(i + VEC));
            JOIN(M, b2, at2, v2, PLACE(i + 2 * VEC));
            JOIN(M, b3, at3, v3, PLACE(i + 3 * VEC));
        }
        for (; i + VEC <= end; i += VEC) {
            const V v = get_vector(p, i);
            JOIN(M, b0, at0, v, PLACE(i));
        }
        JOIN(M, b0, at0, b1, at1);
        JOIN(M, b2, at2, b3, at3);
        JOIN(M, b0, at0, b2, at2);
#if SUM && LONG
        MX_TWO_SUM(V, j->total, j->rest, b0);
        b0 = (V)IDENTITY;
#endif
#if !EXTREME
        b1 = b2 = b3 = (V)IDENTITY;
#endif
    }
    if (i < n) {
        V w;
        M place;
        if (n >= VEC) { /* the last vector, of which some numbers were joined before */
            const M fresh = LANES >= (M)(SAME)(VEC - (n - i));
            const V v = get_vector(p, n - VEC);
            w = fresh ? v : (V)IDENTITY;
            place = fresh ? PLACE(n - VEC) : (M)NOWHERE;
        } else {
            ACC few[VEC];
            for (int k = 0; k < VEC; k++)
                few[k] = IDENTITY;
            for (int k = 0; k < n; k++)
                few[k] = get(p, k);
            w = MX_JOIN(vload, VEC)(0, few);
            place = LANES < (M)(SAME)n ? PLACE(0) : (M)NOWHERE;
        }
        JOIN(M, b0, at0, w, place);
#if SUM && LONG
        MX_TWO_SUM(V, j->total, j->rest, b0);
        b0 = (V)IDENTITY;
#endif
    }
    j->best = b0;
    j->at = at0;
#endif
}

#define WIDTH(T, n) MX_JOIN(T, n)
#if !INDEXED
static inline ACC lanes_joined(V v)
{
#if VEC == 16
    WIDTH(ACC, 8) e = v.lo;
    JOIN(WIDTH(SAME, 8), e, 0, v.hi, 0);
#else
    WIDTH(ACC, 8) e = v;
#endif
    WIDTH(ACC, 4) f = e.lo;
    JOIN(WIDTH(SAME, 4), f, 0, e.hi, 0);
    WIDTH(ACC, 2) t = f.lo;
    JOIN(WIDTH(SAME, 2), t, 0, f.hi, 0);
    ACC one = t.x;
    JOIN(SAME, one, 0, t.y, 0);
    return one;
}
#endif

static inline ACC fold(joined_t j, SAME *place)
{
#if SUM
    if (LONG) {
        MX_TWO_SUM(V, j.total, j.rest, j.best);
        j.best = MX_TOTAL(j.total, j.rest);
    }
    return lanes_joined(j.best) + j.one;
#elif INDEXED
    ACC best[VEC];
    SAME at[VEC];
    MX_JOIN(vstore, VEC)(j.best, 0, best);
    MX_JOIN(vstore, VEC)(j.at, 0, at);
    for (int i = 0; i < VEC; i++)
        JOIN(SAME, j.one, j.one_at, best[i], at[i]);
    *place = j.one_at;
    return j.one;
#else
    JOIN(SAME, j.one, j.one_at, lanes_joined(j.best), 0);
    return j.one;
#endif
}

KERNEL reduce_along(ARGUMENTS)
{
    OFFSETS;
    const long2 mine = share(s.count * s.parts);
    const long row = s.reduced.len[4], step = s.reduced.stride[0][4], flat_step = s.reduced.stride[1][4];
    const bool single = s.length == row; /* a single line, as most are */
    for (long unit = mine.x; unit < mine.y;) {
        const long line = unit / s.parts / s.kept.len[4];
        long x = unit / s.parts - line * s.kept.len[4], part = unit % s.parts;
        LINE(line);
        for (; unit < mine.y && x < s.kept.len[4]; unit++) {
            const long start = A_AT(x), end = min(s.length, (part + 1) * s.part);
#if SHORT
            if (x + VEC <= s.kept.len[4] && unit + VEC <= mine.y) {
                V best = (V)IDENTITY;
                M at = (M)NOWHERE;
                for (long i = 0; i < s.length; i++) {
                    ACC v[VEC];
                    for (int k = 0; k < VEC; k++)
                        v[k] = (ACC)LOAD(A_TYPE)(a, start + i * step + k * s.kept.stride[0][4]);
                    const V w = MX_JOIN(vload, VEC)(0, v), prepared = PREPARED(w), taken = COUNTED(prepared);
                    JOIN(M, best, at, taken, (M)(SAME)(i * flat_step));
                }
                GIVE_VECTOR(x, best, at, 0);
                unit += VEC - 1;
                x += VEC;
                continue;
            }
#endif
            joined_t j = {(V)IDENTITY, (V)0, (V)0, (M)NOWHERE, IDENTITY, NOWHERE};
            SAME place = NOWHERE;
            for (long first = part * s.part; first < end;) {
                const long of = single ? 0 : first / row, from = first - of * row, n = min(row - from, end - first);
                const long line_of = single ? 0 : mx_grid_offset(s.reduced, 0, of);
                const long flat = single || !INDEXED ? 0 : mx_grid_offset(s.reduced, 1, of);
                join_run(a + start + line_of + from * step, n, step, flat + from * flat_step, flat_step, &j);
                first += n;
            }
            const ACC value = fold(j, &place);
            GIVE(x, value, place, part);
            if (++part == s.parts) {
                part = 0;
                x++;
            }
        }
    }
}

#elif WHAT == 1

/* One block: a vector for each VEC elements of c, the last one ends with the block, so that it may share some with the
 * one before. */
#define VECTORS ((BLOCK + VEC - 1) / VEC)
#define STARTS_AT(v) min((long)(v) * VEC, wide - VEC)

KERNEL reduce_across(ARGUMENTS)
{
    OFFSETS;
    V best[VECTORS];
#if SUM && LONG
    V total[VECTORS], rest[VECTORS];
#endif
#if INDEXED
    M places[VECTORS];
#else
    M places[1];
#endif
#define AT(v) places[INDEXED ? (v) : 0]
    const long2 mine = share(s.count / s.kept.len[4] * s.blocks * s.parts);
    const long row = s.reduced.len[4], step = s.reduced.stride[0][4], flat_step = s.reduced.stride[1][4];
    for (long unit = mine.x; unit < mine.y; unit++) {
        const long part = unit % s.parts, block = unit / s.parts % s.blocks, line = unit / s.parts / s.blocks;
        const long x = block * s.block, wide = min(s.block, s.kept.len[4] - x);
        const long end = min(s.length, (part + 1) * s.part);
        LINE(line);
        const long start = a_line + x;
        if (wide < VEC) {
            for (long k = 0; k < wide; k++) {
                ACC one = IDENTITY, sum = 0, left = 0;
                SAME place = NOWHERE;
                long terms = 0;
                for (long first = part * s.part; first < end;) {
                    const long of = first / row, from = first - of * row, n = min(row - from, end - first);
                    __global const STORAGE(A_TYPE) *p = a + start + k + mx_grid_offset(s.reduced, 0, of) + from * step;
                    const long flat = mx_grid_offset(s.reduced, 1, of) + from * flat_step;
                    for (long i = 0; i < n; i++) {
                        const ACC v = get(p, i * step);
                        JOIN(SAME, one, place, v, (SAME)(flat + i * flat_step));
                        if (SUM && (++terms & (BLOCK_TERMS - 1)) == 0) {
                            MX_TWO_SUM(ACC, sum, left, one);
                            one = 0;
                        }
                    }
                    first += n;
                }
                if (SUM) {
                    MX_TWO_SUM(ACC, sum, left, one);
                    one = MX_TOTAL(sum, left);
                }
                GIVE(x + k, one, place, part);
            }
            continue;
        }
        const int vectors = (int)((wide + VEC - 1) / VEC);
        for (int v = 0; v < vectors; v++) {
            best[v] = (V)IDENTITY;
#if SUM && LONG
            total[v] = rest[v] = (V)0;
#endif
            AT(v) = (M)NOWHERE;
        }
        long terms = 0;
        for (long first = part * s.part; first < end;) {
            const long of = first / row, from = first - of * row, n = min(row - from, end - first);
            __global const STORAGE(A_TYPE) *p = a + start + mx_grid_offset(s.reduced, 0, of) + from * step;
            const long flat = mx_grid_offset(s.reduced, 1, of) + from * flat_step;
            long i = 0;
            for (; i + RISE <= n; i += RISE, p += RISE * step) {
                for (int v = 0; v < vectors; v++) {
                    const long at = STARTS_AT(v);
#define ROW(r) get_vector(p + (r) * step, at)
#if INDEXED
                    V b = best[v];
                    M m = places[v];
                    _Pragma("unroll") for (int r = 0; r < RISE; r++)
                    {
                        const V w = ROW(r);
                        JOIN(M, b, m, w, (M)(SAME)(flat + (i + r) * flat_step));
                    }
                    best[v] = b;
                    places[v] = m;
#elif EXTREME
                    /* Two of them, which overlap; both begin with a number, since nothing is better than a NaN. */
                    V b = best[v], odd = (V)IDENTITY;
                    _Pragma("unroll") for (int r = 0; r < RISE; r += 2)
                    {
                        const V w0 = ROW(r), w1 = ROW(r + 1);
                        JOIN(M, b, m, w0, 0);
                        JOIN(M, odd, m, w1, 0);
                    }
                    JOIN(M, b, m, odd, 0);
                    best[v] = b;
#else
                    V b0 = ROW(0), b1 = ROW(1), b2 = ROW(2), b3 = ROW(3), b = best[v];
#if RISE == 8
                    const V w4 = ROW(4), w5 = ROW(5), w6 = ROW(6), w7 = ROW(7);
                    JOIN(M, b0, m, w4, 0);
                    JOIN(M, b1, m, w5, 0);
                    JOIN(M, b2, m, w6, 0);
                    JOIN(M, b3, m, w7, 0);
#endif
                    JOIN(M, b0, m, b1, 0);
                    JOIN(M, b2, m, b3, 0);
                    JOIN(M, b0, m, b2, 0);
                    JOIN(M, b, m, b0, 0);
                    best[v] = b;
#endif
                }
#if SUM && LONG
                if (++terms % BLOCK_TERMS == 0)
                    for (int v = 0; v < vectors; v++) {
                        MX_TWO_SUM(V, total[v], rest[v], best[v]);
                        best[v] = (V)0;
                    }
#endif
            }
            for (; i < n; i++, p += step) {
                for (int v = 0; v < vectors; v++) {
                    const V w = get_vector(p, STARTS_AT(v));
                    JOIN(M, best[v], AT(v), w, (M)(SAME)(flat + i * flat_step));
                }
#if SUM && LONG
                if (++terms % BLOCK_TERMS == 0)
                    for (int v = 0; v < vectors; v++) {
                        MX_TWO_SUM(V, total[v], rest[v], best[v]);
                        best[v] = (V)0;
                    }
#endif
            }
            first += n;
        }
        for (int v = 0; v < vectors; v++) {
            V b = best[v];
#if SUM && LONG
            if (terms >= BLOCK_TERMS) {
                V t = total[v], r = rest[v];
                MX_TWO_SUM(V, t, r, b);
                b = MX_TOTAL(t, r);
            }
#endif
            const long at = STARTS_AT(v);
            if (at == (long)v * VEC) {
                GIVE_VECTOR(x + at, b, AT(v), part);
                continue;
            }
            ACC value[VEC];
            SAME place[VEC];
            MX_JOIN(vstore, VEC)(b, 0, value);
            MX_JOIN(vstore, VEC)(AT(v), 0, place);
            for (int k = (int)((long)v * VEC - at); k < VEC; k++)
                GIVE(x + at + k, value[k], place[k], part);
        }
    }
}

#else

#if SUM
#define JOIN_PART(T, MASK, best, rest, at, v, i) MX_TWO_SUM(T, best, rest, v)
#else
#define JOIN_PART(T, MASK, best, rest, at, v, i) JOIN(MASK, best, at, v, i)
#endif

KERNEL reduce_finish(ARGUMENTS)
{
    OFFSETS;
    const long2 mine = share(s.count);
    for (long k = mine.x; k < mine.y;) {
        const long line = k / s.kept.len[4], end = min(mine.y, (line + 1) * s.kept.len[4]);
        LINE(line);
        long x = k - line_at;
        for (; k + VEC <= end; k += VEC, x += VEC) {
            V value = (V)IDENTITY, rest = (V)0;
            M place = (M)NOWHERE;
            for (long part = 0; part < s.parts; part++) {
                const V v = MX_JOIN(vload, VEC)(0, space + PART_AT(x, part));
                const M at = INDEXED ? MX_JOIN(convert_, VOF(SAME))(MX_JOIN(vload, VEC)(0, PLACES + PART_AT(x, part)))
                                     : (M)NOWHERE;
                JOIN_PART(V, M, value, rest, place, v, at);
            }
            if (SUM)
                value = MX_TOTAL(value, rest);
            PUT_VECTOR(x, value, place);
        }
        for (; k < end; k++, x++) {
            ACC value = IDENTITY, rest = 0;
            SAME place = NOWHERE;
            for (long part = 0; part < s.parts; part++) {
                const ACC v = space[PART_AT(x, part)];
                const SAME at = INDEXED ? PLACES[PART_AT(x, part)] : NOWHERE;
                JOIN_PART(ACC, SAME, value, rest, place, v, at);
            }
            if (SUM)
                value = MX_TOTAL(value, rest);
            PUT(x, value, place);
        }
    }
}

#endif
