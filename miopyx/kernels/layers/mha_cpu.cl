/* Attention on CPUs; layers/mha.h has the formulas.
 *
 *            LANES rows of q                 A work-item has a block of LANES rows (mha_forward, mha_dq) or of LANES keys
 *           +---------------+                (mha_dkv), each in a lane of its vectors, and walks the other ones in tiles
 *   BLOCK   |  s, then p    | <- k tile      of BLOCK.  So a row's maximum and sum are element by element, and tiles of
 *   keys    +---------------+                k, v, q and do are used as they lie in memory, number by number.
 *           |  o            | <- v tile
 *
 *   mha_numbers    numbers in memory come together; the largest numbers begin at 0
 *   mha_forward    o, M, ZInv
 *   mha_delta      delta of each row
 *   mha_dq         dq
 *   mha_dkv        dk and dv; WITH_DQ: and dq, so that a tile's scores are computed once
 *
 * Grid:       groups of one work-item: mha_numbers one, mha_delta any, else one a block (WITH_DQ: a head), heads apart.
 * Parameters: those of layers/mha.h, DEPTH, WIDTH, BLOCK (a multiple of 4), LANES (of VEC * SIDE), VEC, SIDE, WITH_DQ.
 * Bound by:   multiplications; the products of a tile are 4 x SIDE vectors of sums in registers.
 */
#ifndef VEC
#define VEC 16
#endif
#ifndef SIDE /* vectors of sums beside each other */
#define SIDE 4
#endif
#ifndef LANES
#define LANES 64
#endif
#ifndef BLOCK
#define BLOCK 64
#endif
#ifndef WITH_DQ
#define WITH_DQ 0
#endif
#ifndef DEPTH /* d of q and k */
#define DEPTH 64
#endif
#ifndef WIDTH /* d of v */
#define WIDTH 64
#endif
#include "layers/mha.h"
#include "include/functions.h"

#if BLOCK % 4 != 0 || LANES % (VEC * SIDE) != 0
#error "BLOCK must be a multiple of 4, LANES one of VEC * SIDE"
#endif
#define KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
#define LINE (LANES / VEC) /* vectors of all lanes */
#define PADDED(n) (((n) + 3) / 4 * 4)
#define DEEP PADDED(DEPTH)
#define WIDE PADDED(WIDTH)
#define AS_ACC VJOIN(MX_JOIN(convert_, ACC))
#define MAX(a, b) ((a) > (b) ? (a) : (b)) /* of a number and NaN: b */
#define MINUS_INF ((V)(-(ACC)INFINITY))

#define vec V
#include "conv/cpu/register_tile.h"

/* c[count][LANES] = factor * a[count][step] b[depth][LANES]; count is a multiple of 4.  The factor comes last, so that
 * scores have the same bits in both passes, whichever of q and k is in lanes. */
NOINLINE void multiply(const ACC *restrict a, const long step, const long depth, const V *restrict b,
                       const ACC factor, V *restrict c, const long count)
{
    for (long y = 0; y < count; y += 4)
        for (long at = 0; at < LINE; at += SIDE) {
            V sum[4][SIDE];
            const ACC *left = a + y * step, *right = (const ACC *)(b + at);
            FOR_TILE(4, SIDE, sum[i][j] = (V)(ACC)0;)
            for (long d = 0; d < depth; d++, left++, right += LANES) {
                V lane[SIDE];
                FOR_TILE(1, SIDE, lane[j] = VJOIN(vload)(j, right);)
                OUTER_PRODUCT(4, SIDE, sum, left[i * step], lane[j])
            }
            FOR_TILE(4, SIDE, c[(y + i) * LINE + at + j] = sum[i][j] * factor;)
        }
}

/* c[step][LANES] = c factor[LANES] + the transposed a[count][step] times b[count][LANES]; step is a multiple of 4. */
NOINLINE void add_products(const ACC *restrict a, const long step, const V *restrict b, const V *restrict factor,
                           V *restrict c, const long count)
{
    for (long d = 0; d < step; d += 4)
        for (long at = 0; at < LINE; at += SIDE) {
            V sum[4][SIDE];
            const ACC *left = a + d, *right = (const ACC *)(b + at);
            FOR_TILE(4, SIDE, sum[i][j] = (V)(ACC)0;)
            for (long y = 0; y < count; y++, left += step, right += LANES) {
                V lane[SIDE];
                FOR_TILE(1, SIDE, lane[j] = VJOIN(vload)(j, right);)
                OUTER_PRODUCT(4, SIDE, sum, left[i], lane[j])
            }
            V *to = c + d * LINE + at;
            FOR_TILE(4, SIDE, to[i * LINE + j] = to[i * LINE + j] * factor[at + j] + sum[i][j];)
        }
}

/* Rows of a tensor as a[all][padded]; what is behind `count` rows and `columns` is 0. */
NOINLINE void take_rows(__global const STORAGE(T) *p, long from, const long row, const long step, const long count,
                        const long columns, const long all, const long padded, ACC *restrict a)
{
    for (long i = 0; i < all; i++, from += row, a += padded) {
        long d = 0;
        if (i < count) {
            if (step == 1)
                for (; d + VEC <= columns; d += VEC)
                    VJOIN(vstore)(VLOAD(T)(p, from + d), 0, a + d);
            for (; d < columns; d++)
                a[d] = (ACC)LOAD(T)(p, from + d * step);
        }
        for (; d < padded; d++)
            a[d] = 0;
    }
}

/* Rows of a tensor as the lanes of b[padded][LANES]. */
NOINLINE void take_lanes(__global const STORAGE(T) *p, long from, const long row, const long step, const long count,
                         const long columns, const long padded, V *restrict b)
{
    ACC *to = (ACC *)b;
    for (long d = 0; d < padded; d++)
        for (long i = 0; i < LANES; i++)
            to[d * LANES + i] = d < columns && i < count ? (ACC)LOAD(T)(p, from + i * row + d * step) : (ACC)0;
}

/* Lanes as rows of a tensor; returns the bits of the largest number before `scale`. */
NOINLINE uint put_lanes(const V *restrict b, __global STORAGE(T) *p, long from, const long row, const long step,
                        const long count, const long columns, const ACC descale, const ACC scale)
{
    const ACC *source = (const ACC *)b;
    uint most = 0;
    for (long i = 0; i < count; i++)
        for (long d = 0; d < columns; d++) {
            const ACC value = source[d * LANES + i] * descale;
            if (AMAX)
                most = max(most, as_uint((float)value) & 0x7fffffffu);
            STORE(T)(p, from + i * row + d * step, value * scale);
        }
    return most;
}

/* What begins each kernel: the block's head and its first row or key of `all`. */
#define BLOCK_OF(all)                                                                                     \
    const long blocks = ((all) + LANES - 1) / LANES, me = get_group_id(0), head = me / blocks;            \
    const long first = (blocks - 1 - me % blocks) * LANES, lanes = min((all) - first, (long)LANES);       \
    const bool causal = mask != 0;                                                                        \
    HEAD_OFFSETS
#if DROPS
#define DROPOUT                                                                                               \
    const ACC least = DROPPED * (ACC)16777216, kept = (ACC)1 / ((ACC)1 - DROPPED)
typedef VJOIN(uint) U;
typedef VJOIN(ulong) UL;
#define KEPT(words) (AS_ACC((words) >> 8u) >= (V)least)
#else
#define DROPOUT
#endif

/* The scores of a tile of keys from `j` on in s[BLOCK][LANES], bias and mask joined. */
NOINLINE void join(V *restrict s, __global const STORAGE(REAL) *bias, const long bias_offset, const mx_mha_strides t,
                   const long first, const long lanes, const long j, const long keys, const bool causal)
{
    ACC *score = (ACC *)s;
    for (long y = 0; y < BLOCK; y++)
        for (long x = 0; x < LANES; x++) {
#if BIASED
            if (x < lanes && y < keys)
                score[y * LANES + x] += (ACC)LOAD(REAL)(bias, bias_offset + (first + x) * t.s + (j + y) * t.d);
#endif
            if (y >= keys || (causal && j + y > first + x))
                score[y * LANES + x] = -(ACC)INFINITY;
        }
}

#if DROPS
/* p = what dropout leaves of it, by lanes of rows: four keys have a counter of each row. */
NOINLINE void drop_by_rows(V *restrict p, const ulong counter, const ulong rows_apart, const ulong seed,
                           const ulong masks, const ACC least, const ACC kept)
{
    for (long y = 0; y < BLOCK; y += 4)
        for (long x = 0; x < LINE; x++) {
            ulong counts[VEC];
            for (int i = 0; i < VEC; i++)
                counts[i] = counter + (x * VEC + i) * rows_apart + y / 4;
            const UL count = VJOIN(vload)(0, counts);
            U one = VJOIN(convert_uint)(count), two = VJOIN(convert_uint)(count >> (UL)32);
            U three = (U)(uint)masks, four = (U)(uint)(masks >> 32);
            PHILOX(U, one, two, three, four, seed);
            p[y * LINE + x] = KEPT(one) ? p[y * LINE + x] * kept : (V)(ACC)0;
            p[(y + 1) * LINE + x] = KEPT(two) ? p[(y + 1) * LINE + x] * kept : (V)(ACC)0;
            p[(y + 2) * LINE + x] = KEPT(three) ? p[(y + 2) * LINE + x] * kept : (V)(ACC)0;
            p[(y + 3) * LINE + x] = KEPT(four) ? p[(y + 3) * LINE + x] * kept : (V)(ACC)0;
        }
}

/* The factors of a row's mask from a counter on, by lanes of keys. */
NOINLINE void drop_by_keys(V *restrict factor, const ulong counter, const ulong seed, const ulong masks,
                           const ACC least, const ACC kept)
{
    ACC *to = (ACC *)factor;
    for (long x = 0; x < LANES; x += 4) {
        uint one = (uint)(counter + x / 4), two = (uint)((counter + x / 4) >> 32);
        uint three = (uint)masks, four = (uint)(masks >> 32);
        PHILOX(uint, one, two, three, four, seed);
        to[x] = (ACC)(one >> 8) >= least ? kept : (ACC)0;
        to[x + 1] = (ACC)(two >> 8) >= least ? kept : (ACC)0;
        to[x + 2] = (ACC)(three >> 8) >= least ? kept : (ACC)0;
        to[x + 3] = (ACC)(four >> 8) >= least ? kept : (ACC)0;
    }
}
#endif

#include "layers/mha_numbers.h"
#define TO_SCORES ((ACC)scale * NUMBER(DESCALE_Q) * NUMBER(DESCALE_K))

/* p = e^(s - top) of a tile; top, total and the factor of what was summed before change. */
NOINLINE void normalise(V *restrict s, V *restrict top, V *restrict total, V *restrict factor)
{
    for (long x = 0; x < LINE; x++) {
        V most = top[x], sum = (V)(ACC)0;
        for (long y = 0; y < BLOCK; y++)
            most = MAX(most, VJOIN(vload)(y * LINE + x, (const ACC *)s));
        const V base = most == MINUS_INF ? (V)(ACC)0 : most;
        for (long y = 0; y < BLOCK; y++) {
            const V p = mx_exp_below(VJOIN(vload)(y * LINE + x, (const ACC *)s) - base);
            sum += p;
            s[y * LINE + x] = p;
        }
        factor[x] = mx_exp_below(top[x] - base);
        total[x] = total[x] * factor[x] + sum;
        top[x] = most;
    }
}

KERNEL mha_forward(TENSORS, __global STORAGE(T) *o, long o_offset, SAVED, __global float *amax_s, long amax_s_offset,
                   __global float *amax_o, long amax_o_offset, REST)
{
    V lane_q[DEEP * LINE], s[BLOCK * LINE], out[WIDE * LINE], highest[LINE], total[LINE], factor[LINE];
    ACC panel[BLOCK * MAX(DEEP, WIDE)];
    BLOCK_OF(a.rows);
    DROPOUT;
    const long end = causal ? min(a.keys, first + lanes) : a.keys;
    take_lanes(q, q_offset + first * a.q.s, a.q.s, a.q.d, lanes, DEPTH, DEEP, lane_q);
    for (long x = 0; x < LINE; x++)
        highest[x] = MINUS_INF, total[x] = (V)(ACC)0;
    for (long i = 0; i < WIDE * LINE; i++)
        out[i] = (V)(ACC)0;
    for (long j = 0; j < end; j += BLOCK) {
        const long keys = min(a.keys - j, (long)BLOCK);
        take_rows(k, k_offset + j * a.k.s, a.k.s, a.k.d, keys, DEPTH, BLOCK, DEEP, panel);
        multiply(panel, DEEP, DEPTH, lane_q, TO_SCORES, s, BLOCK);
        if (BIASED || keys < BLOCK || (causal && j + BLOCK > first))
            join(s, bias, bias_offset, a.bias, first, lanes, j, keys, causal);
        normalise(s, highest, total, factor);
#if DROPS
        drop_by_rows(s, COUNTER(head, first) + j / 4, a.groups_of_four, SEED, MASKS_AT, least, kept);
#endif
        take_rows(v, v_offset + j * a.v.s, a.v.s, a.v.d, keys, WIDTH, BLOCK, WIDE, panel);
        add_products(panel, WIDE, s, factor, out, keys);
    }
    const ACC of_s = NUMBER(SCALE_S) * NUMBER(DESCALE_S) * NUMBER(DESCALE_V);
    for (long x = 0; x < LINE; x++)
        total[x] = (V)(ACC)1 / total[x];
    for (long d = 0; d < WIDE; d++)
        for (long x = 0; x < LINE; x++)
            out[d * LINE + x] *= total[x];
    const uint most = put_lanes(out, o, o_offset + head_offset(a.o, head, a.heads) + first * a.o.s, a.o.s, a.o.d, lanes,
                                WIDTH, of_s, NUMBER(SCALE_O));
    uint most_s = 0;
    for (long i = 0; i < lanes; i++) {
        const ACC z = ((const ACC *)total)[i];
        most_s = max(most_s, as_uint((float)z) & 0x7fffffffu);
        if (HAS_M)
            STORE(REAL)(top, top_offset + (first + i) * a.m.s, ((const ACC *)highest)[i]);
        if (HAS_Z)
            STORE(REAL)(inverse, inverse_offset + (first + i) * a.z_inv.s, z);
    }
    if (AMAX && HAS_AMAX(0)) /* a row's largest number is e^0 ZInv */
        largest(amax_s + amax_s_offset, as_float(most_s));
    if (AMAX && HAS_AMAX(1))
        largest(amax_o + amax_o_offset, as_float(most));
}

KERNEL mha_delta(__global const STORAGE(T) *o, long o_offset, __global const STORAGE(T) *d_o, long do_offset,
                 __global ACC *delta, long delta_offset, __global uchar *table, long table_offset,
                 const mx_mha_shape a)
{
    table += table_offset;
    const long me = get_group_id(0), groups = get_num_groups(0), all = a.all * a.rows;
    const ACC scale = NUMBER(DESCALE_O) * NUMBER(DESCALE_DO);
    for (long i = me * all / groups; i < (me + 1) * all / groups; i++) {
        const long head = i / a.rows, row = i % a.rows;
        const long from = o_offset + head_offset(a.o, head, a.heads) + row * a.o.s;
        const long d_from = do_offset + head_offset(a.d_o, head, a.heads) + row * a.d_o.s;
        V lanes = (V)(ACC)0;
        ACC sum = 0;
        long d = 0;
        if (a.o.d == 1 && a.d_o.d == 1)
            for (; d + VEC <= WIDTH; d += VEC)
                lanes += VLOAD(T)(o, from + d) * VLOAD(T)(d_o, d_from + d);
        for (; d < WIDTH; d++)
            sum += (ACC)LOAD(T)(o, from + d * a.o.d) * (ACC)LOAD(T)(d_o, d_from + d * a.d_o.d);
        ACC part[VEC];
        VJOIN(vstore)(lanes, 0, part);
        for (int x = 0; x < VEC; x++)
            sum += part[x];
        delta[delta_offset + i] = sum * scale;
    }
}

/* Of a tile: s = p mask's factor times `of_s`, t = ds.  Lanes are rows: top, inverse and delta are those of lanes. */
KERNEL mha_dq(TENSORS, SAVED, __global const STORAGE(T) *d_o, long do_offset, __global const ACC *delta,
              long delta_offset, __global STORAGE(T) *dq, long dq_offset, __global float *amax_dq, long amax_dq_offset,
              __global float *amax_ds, long amax_ds_offset, REST)
{
    V lane_q[DEEP * LINE], lane_do[WIDE * LINE], s[BLOCK * LINE], t[BLOCK * LINE], out[DEEP * LINE];
    V highest[LINE], inv[LINE], row_delta[LINE], one[LINE];
    ACC panel[BLOCK * DEEP], panel_v[BLOCK * WIDE];
    BLOCK_OF(a.rows);
    DROPOUT;
    const long end = causal ? min(a.keys, first + lanes) : a.keys;
    const ACC to_p = NUMBER(DESCALE_DO) * NUMBER(DESCALE_V);
    VI most = (VI)0; /* bits: NaN is the largest */
    take_lanes(q, q_offset + first * a.q.s, a.q.s, a.q.d, lanes, DEPTH, DEEP, lane_q);
    take_lanes(d_o, do_offset + head_offset(a.d_o, head, a.heads) + first * a.d_o.s, a.d_o.s, a.d_o.d, lanes, WIDTH,
               WIDE, lane_do);
    for (long i = 0; i < LANES; i++) {
        ((ACC *)highest)[i] = i < lanes ? (ACC)LOAD(REAL)(top, top_offset + (first + i) * a.m.s) : (ACC)0;
        ((ACC *)inv)[i] = i < lanes ? (ACC)LOAD(REAL)(inverse, inverse_offset + (first + i) * a.z_inv.s) : (ACC)0;
        ((ACC *)row_delta)[i] = i < lanes ? delta[delta_offset + head * a.rows + first + i] : (ACC)0;
        ((ACC *)one)[i] = 1;
    }
    for (long i = 0; i < DEEP * LINE; i++)
        out[i] = (V)(ACC)0;
    for (long j = 0; j < end; j += BLOCK) {
        const long keys = min(a.keys - j, (long)BLOCK);
        take_rows(k, k_offset + j * a.k.s, a.k.s, a.k.d, keys, DEPTH, BLOCK, DEEP, panel);
        take_rows(v, v_offset + j * a.v.s, a.v.s, a.v.d, keys, WIDTH, BLOCK, WIDE, panel_v);
        multiply(panel, DEEP, DEPTH, lane_q, TO_SCORES, s, PADDED(keys));
        multiply(panel_v, WIDE, WIDTH, lane_do, to_p, t, PADDED(keys));
        if (BIASED || keys < BLOCK || (causal && j + BLOCK > first))
            join(s, bias, bias_offset, a.bias, first, lanes, j, keys, causal);
#if DROPS
        drop_by_rows(t, COUNTER(head, first) + j / 4, a.groups_of_four, SEED, MASKS_AT, least, kept);
#endif
        for (long y = 0; y < keys; y++)
            for (long x = 0; x < LINE; x++) {
                const V p = mx_exp(VJOIN(vload)(y * LINE + x, (const ACC *)s) - highest[x]) * inv[x];
                const V ds = p * (t[y * LINE + x] - row_delta[x]) * (ACC)scale;
                most = AMAX ? max(AS_VI(fabs(ds)), most) : most;
                s[y * LINE + x] = ds * NUMBER(SCALE_DS);
            }
        add_products(panel, DEEP, s, one, out, keys);
    }
    const uint most_dq = put_lanes(out, dq, dq_offset + head_offset(a.dq, head, a.heads) + first * a.dq.s, a.dq.s,
                                   a.dq.d, lanes, DEPTH, NUMBER(DESCALE_DS) * NUMBER(DESCALE_K), NUMBER(SCALE_DQ));
    if (AMAX && HAS_AMAX(0))
        largest(amax_dq + amax_dq_offset, as_float(most_dq));
    if (AMAX && HAS_AMAX(3))
        for (int x = 0; x < VEC; x++)
            largest(amax_ds + amax_ds_offset, (float)((const ACC *)&most)[x]);
}

#if WITH_DQ
#define ROW_SIDE (SIDE == 3 ? 2 : SIDE) /* vectors of a row of dq beside each other: its length is no multiple of 3 */
#define ROW ((DEPTH + ROW_SIDE * VEC - 1) / (ROW_SIDE * VEC) * (ROW_SIDE * VEC))

/* sums[count][ROW] += a[count][LANES] b[depth][ROW]; count is a multiple of 4. */
NOINLINE void add_rows(const ACC *restrict a, const ACC *restrict b, const long depth, __global ACC *restrict sums,
                       const long count)
{
    for (long y = 0; y < count; y += 4)
        for (long at = 0; at < ROW; at += ROW_SIDE * VEC) {
            V sum[4][ROW_SIDE];
            const ACC *left = a + y * LANES, *right = b + at;
            __global ACC *to = sums + y * ROW + at;
            FOR_TILE(4, ROW_SIDE, sum[i][j] = VJOIN(vload)(j, to + i * ROW);)
            for (long x = 0; x < depth; x++, left++, right += ROW) {
                V row[ROW_SIDE];
                FOR_TILE(1, ROW_SIDE, row[j] = VJOIN(vload)(j, right);)
                OUTER_PRODUCT(4, ROW_SIDE, sum, left[i * LANES], row[j])
            }
            FOR_TILE(4, ROW_SIDE, VJOIN(vstore)(sum[i][j], j, to + i * ROW);)
        }
}
#endif

/* Lanes are keys.  `sums`: of dq, PADDED(rows) x ROW a head. */
KERNEL mha_dkv(TENSORS, SAVED, __global const STORAGE(T) *d_o, long do_offset, __global const ACC *delta,
               long delta_offset, __global STORAGE(T) *dk, long dk_offset, __global STORAGE(T) *dv, long dv_offset,
               __global float *amax_dk, long amax_dk_offset, __global float *amax_dv, long amax_dv_offset,
#if WITH_DQ
               __global ACC *sums, long sums_offset, __global STORAGE(T) *dq, long dq_offset, __global float *amax_dq,
               long amax_dq_offset, __global float *amax_ds, long amax_ds_offset,
#endif
               REST)
{
    V lane_k[DEEP * LINE], lane_v[WIDE * LINE], s[BLOCK * LINE], t[BLOCK * LINE];
    V out_k[DEEP * LINE], out_v[WIDE * LINE], one[LINE], factor[LINE];
    ACC panel[BLOCK * DEEP], panel_do[BLOCK * WIDE];
#if WITH_DQ
    ACC panel_k[LANES * ROW];
    const long head = get_group_id(0);
    const bool causal = mask != 0;
    VI most = (VI)0; /* bits: NaN is the largest */
    HEAD_OFFSETS;
    sums += sums_offset + head * PADDED(a.rows) * ROW;
    for (long i = 0; i < PADDED(a.rows) * ROW; i++)
        sums[i] = 0;
#else
    BLOCK_OF(a.keys);
#endif
    DROPOUT;
    uint most_dk = 0, most_dv = 0;
    do_offset += head_offset(a.d_o, head, a.heads);
#if WITH_DQ
    for (long first = 0; first < a.keys; first += LANES) {
    const long lanes = min(a.keys - first, (long)LANES);
    take_rows(k, k_offset + first * a.k.s, a.k.s, a.k.d, lanes, DEPTH, LANES, ROW, panel_k);
#endif
    take_lanes(k, k_offset + first * a.k.s, a.k.s, a.k.d, lanes, DEPTH, DEEP, lane_k);
    take_lanes(v, v_offset + first * a.v.s, a.v.s, a.v.d, lanes, WIDTH, WIDE, lane_v);
    for (long i = 0; i < DEEP * LINE; i++)
        out_k[i] = (V)(ACC)0;
    for (long i = 0; i < WIDE * LINE; i++)
        out_v[i] = (V)(ACC)0;
    for (long x = 0; x < LINE; x++)
        one[x] = factor[x] = (V)(ACC)1;
    for (long i = causal ? first / BLOCK * BLOCK : 0; i < a.rows; i += BLOCK) {
        const long rows = min(a.rows - i, (long)BLOCK);
        take_rows(q, q_offset + i * a.q.s, a.q.s, a.q.d, rows, DEPTH, BLOCK, DEEP, panel);
        take_rows(d_o, do_offset + i * a.d_o.s, a.d_o.s, a.d_o.d, rows, WIDTH, BLOCK, WIDE, panel_do);
        multiply(panel, DEEP, DEPTH, lane_k, TO_SCORES, s, PADDED(rows));
        multiply(panel_do, WIDE, WIDTH, lane_v, NUMBER(DESCALE_DO) * NUMBER(DESCALE_V), t, PADDED(rows));
        for (long y = 0; y < rows; y++) {
            const long row = i + y;
            const ACC high = (ACC)LOAD(REAL)(top, top_offset + row * a.m.s);
            const ACC inv = (ACC)LOAD(REAL)(inverse, inverse_offset + row * a.z_inv.s);
            const ACC of_row = delta[delta_offset + head * a.rows + row];
#if DROPS
            drop_by_keys(factor, COUNTER(head, row) + first / 4, SEED, MASKS_AT, least, kept);
#endif
#if BIASED
            for (long x = 0; x < lanes; x++)
                ((ACC *)s)[y * LANES + x] +=
                    (ACC)LOAD(REAL)(bias, bias_offset + row * a.bias.s + (first + x) * a.bias.d);
#endif
            if (causal && row < first + LANES)
                for (long x = max(0L, row + 1 - first); x < LANES; x++)
                    ((ACC *)s)[y * LANES + x] = -(ACC)INFINITY;
            for (long x = WITH_DQ ? lanes : LANES; x < LANES; x++)
                ((ACC *)s)[y * LANES + x] = -(ACC)INFINITY;
            for (long x = 0; x < LINE; x++) {
                const V p = mx_exp(VJOIN(vload)(y * LINE + x, (const ACC *)s) - high) * inv;
                /* What is dropped adds nothing, should it be infinite. */
                const V kept = factor[x] != (V)((ACC)0) ? t[y * LINE + x] * factor[x] : (V)((ACC)0);
                const V ds = p * (kept - of_row) * (ACC)scale;
#if WITH_DQ
                most = AMAX ? max(AS_VI(fabs(ds)), most) : most;
#endif
                s[y * LINE + x] = p * factor[x] * NUMBER(SCALE_S);
                t[y * LINE + x] = ds * NUMBER(SCALE_DS);
            }
        }
        add_products(panel_do, WIDE, s, one, out_v, rows);
        add_products(panel, DEEP, t, one, out_k, rows);
#if WITH_DQ
        add_rows((const ACC *)t, panel_k, lanes, sums + i * ROW, PADDED(rows));
#endif
    }
    most_dk = max(most_dk, put_lanes(out_k, dk, dk_offset + head_offset(a.dk, head, a.heads) + first * a.dk.s, a.dk.s,
                                     a.dk.d, lanes, DEPTH, NUMBER(DESCALE_DS) * NUMBER(DESCALE_Q), NUMBER(SCALE_DK)));
    most_dv = max(most_dv, put_lanes(out_v, dv, dv_offset + head_offset(a.dv, head, a.heads) + first * a.dv.s, a.dv.s,
                                     a.dv.d, lanes, WIDTH, NUMBER(DESCALE_S) * NUMBER(DESCALE_DO), NUMBER(SCALE_DV)));
#if WITH_DQ
    }
    uint most_dq = 0;
    dq_offset += head_offset(a.dq, head, a.heads);
    for (long i = 0; i < a.rows; i++)
        for (long d = 0; d < DEPTH; d++) {
            const ACC value = sums[i * ROW + d] * NUMBER(DESCALE_DS) * NUMBER(DESCALE_K);
            most_dq = max(most_dq, as_uint((float)value) & 0x7fffffffu);
            STORE(T)(dq, dq_offset + i * a.dq.s + d * a.dq.d, value * NUMBER(SCALE_DQ));
        }
    if (AMAX && HAS_AMAX(0))
        largest(amax_dq + amax_dq_offset, as_float(most_dq));
    if (AMAX && HAS_AMAX(3))
        for (int x = 0; x < VEC; x++)
            largest(amax_ds + amax_ds_offset, (float)((const ACC *)&most)[x]);
#endif
    if (AMAX && HAS_AMAX(1))
        largest(amax_dk + amax_dk_offset, as_float(most_dk));
    if (AMAX && HAS_AMAX(2))
        largest(amax_dv + amax_dv_offset, as_float(most_dv));
}
