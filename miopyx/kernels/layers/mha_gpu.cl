/* Attention on GPUs; layers/mha.h has the formulas.
 *
 *   mha_forward, mha_dq   a group has TILE rows and walks the keys, TILE at a time
 *   mha_dkv               a group has TILE keys and walks the rows
 *
 * A work-item (x, y) of 16 x 16 has MICRO x MICRO scores of a tile, of its rows y + 16 i and columns x + 16 j, and MICRO x
 * COLUMNS sums of each result, of the columns x + 16 j of a slice of it.  Factors go through local memory, CHUNK numbers
 * of each row at a time; a tile of p or ds goes through it whole.  Heads longer than a slice have groups for each slice,
 * which compute the scores again.
 *
 * Grid:         groups of 256 work-items, (tiles x heads, slices); mha_numbers one work-item, mha_delta one a row.
 * Local memory: TILE * (TILE + 1) + CHUNK * (2 TILE + 2) + CHUNK * 16 * COLUMNS numbers and a few for each row.
 * Parameters:   those of layers/mha.h, DEPTH, WIDTH, TILE, COLUMNS.
 * Bound by:     multiplications.
 */
#ifndef TILE
#define TILE 64
#endif
#ifndef COLUMNS /* of a result, of a work-item */
#define COLUMNS 4
#endif
#ifndef DEPTH
#define DEPTH 64
#endif
#ifndef WIDTH
#define WIDTH 64
#endif
#include "layers/mha.h"
#include "include/group_inline.h"

#if TILE % 16 != 0 || 256 % TILE != 0
#error "TILE must be a multiple of 16 that divides 256"
#endif
#define ITEMS 256
#define MICRO (TILE / 16)
#if MICRO * MICRO > 32
#error "a work-item's scores have 32 bits"
#endif
#define CHUNK 16
#define PARTS (ITEMS / TILE) /* work-items of a row while it is summed up */
#define PART (TILE / PARTS)
#define SLICE (16 * COLUMNS)
#define STRIDE (TILE + 1)
#if MX_TYPE(REAL) == MX_TYPE_double /* all of a chunk take twice the registers */
#define FEW_AT_A_TIME _Pragma("unroll 2")
#else
#define FEW_AT_A_TIME
#endif
/* What is not unrolled keeps its sums in memory. */
#define EACH(i, count) _Pragma("unroll") for (int i = 0; i < count; i++)
#define KERNEL __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)

#define BLOCK_OF(all)                                                                                     \
    const long blocks = ((all) + TILE - 1) / TILE, group = get_group_id(0), head = group / blocks;        \
    const long first = (blocks - 1 - group % blocks) * TILE;                                              \
    const int count = (int)min((all) - first, (long)TILE), me = (int)get_local_id(0), x = me % 16, y = me / 16; \
    const int slice = (int)get_group_id(1) * SLICE;                                                       \
    const bool causal = mask != 0;                                                                        \
    HEAD_OFFSETS

#include "layers/mha_numbers.h"

/* A gradient of what was `kept`; what is dropped adds nothing, should it be infinite. */
#define REACHED(gradient, kept) ((kept) != 0 ? (gradient) * (kept) : (ACC)0)

/* Whether dropout keeps an element. */
static inline bool is_kept(__global const uchar *table, const mx_mha_shape a, const long head, const long row,
                           const long key)
{
#if DROPS
    const ulong counter = COUNTER(head, row) + key / 4;
    uint one = (uint)counter, two = (uint)(counter >> 32), three = (uint)MASKS_AT, four = (uint)(MASKS_AT >> 32);
    PHILOX(uint, one, two, three, four, SEED);
    const uint word = key % 4 == 0 ? one : key % 4 == 1 ? two : key % 4 == 2 ? three : four;
    return (ACC)(word >> 8) >= DROPPED * (ACC)16777216;
#else
    return true;
#endif
}

/* What is kept is multiplied by this. */
#if DROPS
#define OF_KEPT ((ACC)1 / ((ACC)1 - DROPPED))
#else
#define OF_KEPT ((ACC)1)
#endif

/* A bit for each score (i, j) of a work-item, of row + row_i i + row_j j and of the key likewise: the generator is too
 * long to unroll, and a loop over scores that is not unrolled would keep them in memory. */
static inline uint kept_bits(__global const uchar *table, const mx_mha_shape a, const long head, const long row,
                             const int row_i, const int row_j, const long key, const int key_i, const int key_j)
{
    uint bits = 0;
#if DROPS
    for (int e = 0; e < MICRO * MICRO; e++) {
        const int i = e / MICRO, j = e % MICRO;
        bits |= (uint)is_kept(table, a, head, row + i * row_i + j * row_j, key + i * key_i + j * key_j) << e;
    }
#endif
    return bits;
}
#define KEPT(bits, i, j) (DROPS && !((bits) >> ((i) * MICRO + (j)) & 1) ? (ACC)0 : OF_KEPT)

/* sum[i][j] = the products of rows y + 16 i of one tensor and x + 16 j of another, which have `count` rows each. */
GROUP_INLINE void multiply(__global const STORAGE(T) *p, const long p_from, const mx_mha_strides p_t,
                            const int p_count, __global const STORAGE(T) *r, const long r_from,
                            const mx_mha_strides r_t, const int r_count, const int depth,
                            __local ACC (*restrict left)[STRIDE], __local ACC (*restrict right)[STRIDE],
                            ACC sum[MICRO][MICRO])
{
    const int me = (int)get_local_id(0), x = me % 16, y = me / 16;
    EACH(i, MICRO)
        EACH(j, MICRO)
            sum[i][j] = 0;
    for (int start = 0; start < depth; start += CHUNK) {
        BARRIER;
        for (int i = y; i < TILE; i += 16) {
            const int d = start + x;
            left[x][i] = i < p_count && d < depth ? (ACC)LOAD(T)(p, p_from + i * p_t.s + d * p_t.d) : (ACC)0;
            right[x][i] = i < r_count && d < depth ? (ACC)LOAD(T)(r, r_from + i * r_t.s + d * r_t.d) : (ACC)0;
        }
        BARRIER;
        FEW_AT_A_TIME for (int d = 0; d < CHUNK; d++) {
            ACC one[MICRO], two[MICRO];
            EACH(i, MICRO)
                one[i] = left[d][y + 16 * i], two[i] = right[d][x + 16 * i];
            EACH(i, MICRO)
                EACH(j, MICRO)
                    sum[i][j] += one[i] * two[j];
        }
    }
}

/* sum[i][j] += row y + 16 i of a tile times columns slice + x + 16 j of `count` rows of a tensor. */
GROUP_INLINE void add_products(__local ACC (*restrict tile)[STRIDE], __global const STORAGE(T) *p, const long from,
                                const mx_mha_strides t, const int count, const int slice, const int width,
                                __local ACC (*restrict rows)[SLICE], ACC sum[MICRO][COLUMNS])
{
    const int me = (int)get_local_id(0), x = me % 16, y = me / 16;
    for (int start = 0; start < count; start += CHUNK) {
        BARRIER;
        for (int i = me; i < CHUNK * SLICE; i += ITEMS) {
            const int row = start + i / SLICE, d = slice + i % SLICE;
            rows[i / SLICE][i % SLICE] = row < count && d < width ? (ACC)LOAD(T)(p, from + row * t.s + d * t.d) : (ACC)0;
        }
        BARRIER;
        FEW_AT_A_TIME for (int k = 0; k < CHUNK; k++) {
            ACC one[MICRO];
            EACH(i, MICRO)
                one[i] = tile[y + 16 * i][start + k];
            EACH(j, COLUMNS) {
                const ACC two = rows[k][x + 16 * j];
                EACH(i, MICRO)
                    sum[i][j] += one[i] * two;
            }
        }
    }
}

/* Store what a work-item has of a result; returns the bits of its largest number before `scale`. */
static inline uint put(ACC sum[MICRO][COLUMNS], __global STORAGE(T) *p, const long from, const mx_mha_strides t,
                       const int count, const int slice, const int width, const ACC descale, const ACC scale)
{
    const int me = (int)get_local_id(0), x = me % 16, y = me / 16;
    uint most = 0;
    EACH(i, MICRO)
        EACH(j, COLUMNS) {
            const int row = y + 16 * i, d = slice + x + 16 * j;
            if (row < count && d < width) {
                const ACC value = sum[i][j] * descale;
                most = max(most, as_uint((float)value) & 0x7fffffffu);
                STORE(T)(p, from + row * t.s + d * t.d, value * scale);
            }
        }
    return most;
}

/* The largest of a group's numbers joins those of the others. */
GROUP_INLINE void join(__global float *amax, const uint mine, __local uint *most)
{
    BARRIER;
    if (get_local_id(0) == 0)
        *most = 0;
    BARRIER;
    atomic_max(most, mine);
    BARRIER;
    if (get_local_id(0) == 0)
        largest(amax, as_float(*most));
}

KERNEL mha_forward(TENSORS, __global STORAGE(T) *o, long o_offset, SAVED, __global float *amax_s, long amax_s_offset,
                   __global float *amax_o, long amax_o_offset, REST)
{
    __local ACC tile[TILE][STRIDE], left[CHUNK][STRIDE], right[CHUNK][STRIDE], rows[CHUNK][SLICE];
    __local ACC high[TILE], total[TILE], factor[TILE], part[PARTS][TILE];
    __local uint most;
    BLOCK_OF(a.rows);
    const ACC of_scores = (ACC)scale * NUMBER(DESCALE_Q) * NUMBER(DESCALE_K);
    const long end = causal ? min(a.keys, first + count) : a.keys;
    const int row = me % TILE, mine = me / TILE * PART;
    ACC out[MICRO][COLUMNS];
    EACH(i, MICRO)
        EACH(j, COLUMNS)
            out[i][j] = 0;
    if (me < TILE)
        high[me] = -(ACC)INFINITY, total[me] = 0;
    for (long j0 = 0; j0 < end; j0 += TILE) {
        const int keys = (int)min(a.keys - j0, (long)TILE);
        ACC s[MICRO][MICRO];
        multiply(q, q_offset + first * a.q.s, a.q, count, k, k_offset + j0 * a.k.s, a.k, keys, DEPTH, left, right, s);
        EACH(i, MICRO)
            EACH(j, MICRO) {
                const int r = y + 16 * i, c = x + 16 * j;
                ACC own_bias = 0;
#if BIASED
                if (r < count && c < keys)
                    own_bias = (ACC)LOAD(REAL)(bias, bias_offset + (first + r) * a.bias.s + (j0 + c) * a.bias.d);
#endif
                tile[r][c] = c >= keys || (causal && j0 + c > first + r) ? -(ACC)INFINITY : fma(s[i][j], of_scores, own_bias);
            }
        BARRIER;
        ACC top_of = -(ACC)INFINITY;
        for (int c = 0; c < PART; c++)
            top_of = tile[row][mine + c] > top_of ? tile[row][mine + c] : top_of;
        part[me / TILE][row] = top_of;
        BARRIER;
        ACC top_now = high[row];
        for (int c = 0; c < PARTS; c++)
            top_now = part[c][row] > top_now ? part[c][row] : top_now;
        const ACC base = top_now == -(ACC)INFINITY ? (ACC)0 : top_now;
        ACC sum = 0;
        for (int c = 0; c < PART; c++) {
            const ACC p = exp(tile[row][mine + c] - base);
            sum += p;
            tile[row][mine + c] = p * (is_kept(table, a, head, first + row, j0 + mine + c) ? OF_KEPT : (ACC)0);
        }
        BARRIER;
        part[me / TILE][row] = sum;
        BARRIER;
        if (me < TILE) {
            factor[me] = exp(high[me] - base);
            high[me] = top_now;
            ACC more = 0;
            for (int c = 0; c < PARTS; c++)
                more += part[c][me];
            total[me] = total[me] * factor[me] + more;
        }
        BARRIER;
        ACC added[MICRO][COLUMNS];
        EACH(i, MICRO)
            EACH(j, COLUMNS)
                added[i][j] = 0;
        add_products(tile, v, v_offset + j0 * a.v.s, a.v, keys, slice, WIDTH, rows, added);
        EACH(i, MICRO)
            EACH(j, COLUMNS)
                out[i][j] = out[i][j] * factor[y + 16 * i] + added[i][j];
    }
    BARRIER;
    const ACC of_s = NUMBER(SCALE_S) * NUMBER(DESCALE_S) * NUMBER(DESCALE_V);
    EACH(i, MICRO)
        EACH(j, COLUMNS)
            out[i][j] = out[i][j] / total[y + 16 * i];
    const uint most_o = put(out, o, o_offset + head_offset(a.o, head, a.heads) + first * a.o.s, a.o, count, slice, WIDTH,
                            of_s, NUMBER(SCALE_O));
    uint most_s = 0;
    if (me < count) {
        const ACC z = (ACC)1 / total[me];
        most_s = as_uint((float)z) & 0x7fffffffu;
        if (HAS_M && slice == 0)
            STORE(REAL)(top, top_offset + (first + me) * a.m.s, high[me]);
        if (HAS_Z && slice == 0)
            STORE(REAL)(inverse, inverse_offset + (first + me) * a.z_inv.s, z);
    }
    if (AMAX && HAS_AMAX(0)) /* a row's largest number is e^0 ZInv */
        join(amax_s + amax_s_offset, most_s, &most);
    if (AMAX && HAS_AMAX(1))
        join(amax_o + amax_o_offset, most_o, &most);
}

__kernel void mha_delta(__global const STORAGE(T) *o, long o_offset, __global const STORAGE(T) *d_o, long do_offset,
                        __global ACC *delta, long delta_offset, __global uchar *table, long table_offset,
                        const mx_mha_shape a)
{
    const long i = get_global_id(0), head = i / a.rows, row = i % a.rows;
    table += table_offset;
    if (i >= a.all * a.rows)
        return;
    const long from = o_offset + head_offset(a.o, head, a.heads) + row * a.o.s;
    const long d_from = do_offset + head_offset(a.d_o, head, a.heads) + row * a.d_o.s;
    ACC sum = 0;
    for (long d = 0; d < WIDTH; d++)
        sum += (ACC)LOAD(T)(o, from + d * a.o.d) * (ACC)LOAD(T)(d_o, d_from + d * a.d_o.d);
    delta[delta_offset + i] = sum * NUMBER(DESCALE_O) * NUMBER(DESCALE_DO);
}

/* p of a score, which fma rounds as the forward pass did before it took M.  A compiler may contract a product and the
 * difference to M into one fma, across statements, too, and then p of the largest score is not 1. */
static inline ACC probability(const ACC score, const ACC of_scores, __global const STORAGE(REAL) *bias, const long bias_at,
                              __global const STORAGE(REAL) *top, const long top_at,
                              __global const STORAGE(REAL) *inverse, const long inverse_at)
{
#if BIASED
    const ACC value = fma(score, of_scores, (ACC)LOAD(REAL)(bias, bias_at));
#else
    const ACC value = fma(score, of_scores, (ACC)0); /* a product, rounded */
#endif
    return exp(value - (ACC)LOAD(REAL)(top, top_at)) * (ACC)LOAD(REAL)(inverse, inverse_at);
}
#define PROBABILITY_OF(score, row, key)                                                                            \
    probability(score, of_scores, bias, bias_offset + (row) * a.bias.s + (key) * a.bias.d, top,                    \
                top_offset + (row) * a.m.s, inverse, inverse_offset + (row) * a.z_inv.s)

/* Of the backward passes: whether row and key of a tile are there and not masked; ds of p and of dp. */
#define REACHES(r, rows_left, c, keys_left, row, key) ((r) < (rows_left) && (c) < (keys_left) && !(causal && (key) > (row)))
#define GRADIENT_OF(p, dp, kept, row) \
    ((p) * (REACHED((dp) * to_p, kept) - delta[delta_offset + head * a.rows + (row)]) * (ACC)scale)

KERNEL mha_dq(TENSORS, SAVED, __global const STORAGE(T) *d_o, long do_offset, __global const ACC *delta,
              long delta_offset, __global STORAGE(T) *dq, long dq_offset, __global float *amax_dq, long amax_dq_offset,
              __global float *amax_ds, long amax_ds_offset, REST)
{
    __local ACC tile[TILE][STRIDE], left[CHUNK][STRIDE], right[CHUNK][STRIDE], rows[CHUNK][SLICE];
    __local uint most;
    BLOCK_OF(a.rows);
    const ACC of_scores = (ACC)scale * NUMBER(DESCALE_Q) * NUMBER(DESCALE_K);
    const ACC to_p = NUMBER(DESCALE_DO) * NUMBER(DESCALE_V);
    const long end = causal ? min(a.keys, first + count) : a.keys;
    uint most_ds = 0;
    ACC out[MICRO][COLUMNS];
    EACH(i, MICRO)
        EACH(j, COLUMNS)
            out[i][j] = 0;
    do_offset += head_offset(a.d_o, head, a.heads);
    for (long j0 = 0; j0 < end; j0 += TILE) {
        const int keys = (int)min(a.keys - j0, (long)TILE);
        const uint bits = kept_bits(table, a, head, first + y, 16, 0, j0 + x, 0, 16);
        ACC s[MICRO][MICRO], t[MICRO][MICRO];
        multiply(q, q_offset + first * a.q.s, a.q, count, k, k_offset + j0 * a.k.s, a.k, keys, DEPTH, left, right, s);
        EACH(i, MICRO)
            EACH(j, MICRO)
                s[i][j] = REACHES(y + 16 * i, count, x + 16 * j, keys, first + y + 16 * i, j0 + x + 16 * j)
                    ? PROBABILITY_OF(s[i][j], first + y + 16 * i, j0 + x + 16 * j) : (ACC)0;
        multiply(d_o, do_offset + first * a.d_o.s, a.d_o, count, v, v_offset + j0 * a.v.s, a.v, keys, WIDTH, left, right,
                 t);
        EACH(i, MICRO)
            EACH(j, MICRO) {
                const int r = y + 16 * i, c = x + 16 * j;
                ACC ds = 0;
                if (REACHES(r, count, c, keys, first + r, j0 + c)) {
                    ds = GRADIENT_OF(s[i][j], t[i][j], KEPT(bits, i, j), first + r);
                    most_ds = max(most_ds, as_uint((float)ds) & 0x7fffffffu);
                }
                tile[r][c] = ds * NUMBER(SCALE_DS);
            }
        add_products(tile, k, k_offset + j0 * a.k.s, a.k, keys, slice, DEPTH, rows, out);
    }
    const uint most_dq = put(out, dq, dq_offset + head_offset(a.dq, head, a.heads) + first * a.dq.s, a.dq, count, slice,
                             DEPTH, NUMBER(DESCALE_DS) * NUMBER(DESCALE_K), NUMBER(SCALE_DQ));
    if (AMAX && HAS_AMAX(0))
        join(amax_dq + amax_dq_offset, most_dq, &most);
    if (AMAX && HAS_AMAX(3))
        join(amax_ds + amax_ds_offset, most_ds, &most);
}

/* Tiles lie with keys as rows. */
KERNEL mha_dkv(TENSORS, SAVED, __global const STORAGE(T) *d_o, long do_offset, __global const ACC *delta,
               long delta_offset, __global STORAGE(T) *dk, long dk_offset, __global STORAGE(T) *dv, long dv_offset,
               __global float *amax_dk, long amax_dk_offset, __global float *amax_dv, long amax_dv_offset, REST)
{
    __local ACC tile[TILE][STRIDE], left[CHUNK][STRIDE], right[CHUNK][STRIDE], rows[CHUNK][SLICE];
    __local uint most;
    BLOCK_OF(a.keys);
    const ACC of_scores = (ACC)scale * NUMBER(DESCALE_Q) * NUMBER(DESCALE_K);
    const ACC to_p = NUMBER(DESCALE_DO) * NUMBER(DESCALE_V);
    ACC out_k[MICRO][COLUMNS], out_v[MICRO][COLUMNS];
    EACH(i, MICRO)
        EACH(j, COLUMNS)
            out_k[i][j] = out_v[i][j] = 0;
    do_offset += head_offset(a.d_o, head, a.heads);
    for (long i0 = causal ? first / TILE * TILE : 0; i0 < a.rows; i0 += TILE) {
        const int number = (int)min(a.rows - i0, (long)TILE);
        const uint bits = kept_bits(table, a, head, i0 + x, 0, 16, first + y, 16, 0);
        ACC s[MICRO][MICRO], t[MICRO][MICRO];
        multiply(k, k_offset + first * a.k.s, a.k, count, q, q_offset + i0 * a.q.s, a.q, number, DEPTH, left, right, s);
        EACH(i, MICRO)
            EACH(j, MICRO)
                s[i][j] = REACHES(y + 16 * i, count, x + 16 * j, number, i0 + x + 16 * j, first + y + 16 * i)
                    ? PROBABILITY_OF(s[i][j], i0 + x + 16 * j, first + y + 16 * i) : (ACC)0;
        multiply(v, v_offset + first * a.v.s, a.v, count, d_o, do_offset + i0 * a.d_o.s, a.d_o, number, WIDTH, left,
                 right, t);
        EACH(i, MICRO)
            EACH(j, MICRO) {
                const int r = y + 16 * i, c = x + 16 * j;
                ACC p = 0, ds = 0;
                if (REACHES(r, count, c, number, i0 + c, first + r)) {
                    const ACC kept = KEPT(bits, i, j);
                    ds = GRADIENT_OF(s[i][j], t[i][j], kept, i0 + c);
                    p = s[i][j] * kept;
                }
                tile[r][c] = p * NUMBER(SCALE_S);
                t[i][j] = ds * NUMBER(SCALE_DS);
            }
        add_products(tile, d_o, do_offset + i0 * a.d_o.s, a.d_o, number, slice, WIDTH, rows, out_v);
        BARRIER;
        EACH(i, MICRO)
            EACH(j, MICRO)
                tile[y + 16 * i][x + 16 * j] = t[i][j];
        add_products(tile, q, q_offset + i0 * a.q.s, a.q, number, slice, DEPTH, rows, out_k);
    }
    const uint most_dk = put(out_k, dk, dk_offset + head_offset(a.dk, head, a.heads) + first * a.dk.s, a.dk, count,
                             slice, DEPTH, NUMBER(DESCALE_DS) * NUMBER(DESCALE_Q), NUMBER(SCALE_DK));
    const uint most_dv = put(out_v, dv, dv_offset + head_offset(a.dv, head, a.heads) + first * a.dv.s, a.dv, count,
                             slice, WIDTH, NUMBER(DESCALE_S) * NUMBER(DESCALE_DO), NUMBER(SCALE_DV));
    if (AMAX && HAS_AMAX(1))
        join(amax_dk + amax_dk_offset, most_dk, &most);
    if (AMAX && HAS_AMAX(2))
        join(amax_dv + amax_dv_offset, most_dv, &most);
}
