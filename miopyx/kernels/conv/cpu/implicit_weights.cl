/* Backward weights as an implicit GEMM for CPU devices, tensors packed with contiguous rows (NCW, NCHW, NCDHW):
 * dw[lane][row] = alpha * sum over positions of U[lane][position] * V[row][position] + beta * dw, a group at a time.
 *
 * U is transposed while it is copied to panels of DEPTH positions by N_VECTORS vectors of lanes; V's elements are
 * broadcast from memory.  Either U is dy, lanes are filters, and a row is a channel of x at one tap; or, for 1x1
 * filters, U is x, lanes are channels, and a row is a filter (`lanes_last`).
 * Taps are taken one after the other, each with the positions that it meets inside the image, so nothing is multiplied
 * with padding (`taps`); or, for few channels, each row has its own tap (`inner`) and V is a copy with the padding in
 * it.  copy_rows makes it, converts what is not ACC, and samples what a 1x1 filter with strides meets.
 * Grid: local (1, 1, 1).
 *
 *     lanes ->  N_VECTORS * VEC        weights: (chunks, splits, groups), chunks of lanes times rows times taps
 *     +------------------------+       A work-item: SUMS rows times taps over the positions of a split (split-K),
 *     |  TILE_ROWS x N_VECTORS | SUMS  in one fixed order
 *     |  ...                   |       sum_partial: (chunks * pieces of VEC sums, 1, groups); adds the splits in order
 *     +------------------------+       copy_rows: (channels, images, 1)
 *
 * How many splits there are depends on the problem alone.
 * Memory: no local memory; panel, sums and totals are private.  Nothing outside the tensors is read: edges repeat what
 * is inside, and are not stored.
 * Bound by: multiply-adds; transposing U where rows are few; storing dw where images are small.
 */
#ifndef U_TYPE /* storage types */
#define U_TYPE float
#endif
#ifndef V_TYPE /* of what copy_rows reads; `weights` reads ACC where there is a copy */
#define V_TYPE U_TYPE
#endif
#ifndef W_TYPE
#define W_TYPE U_TYPE
#endif
#ifndef ACC /* type of products and sums: double where the tensors are double */
#define ACC float
#endif
#ifndef VEC /* ACC elements in a vector register: 4, 8 or 16 */
#define VEC 16
#endif
#ifndef TILE_ROWS /* rows of a tile; 8 x 3 sums, a row of the panel and a broadcast fill 32 vector registers */
#define TILE_ROWS 8
#endif
#ifndef N_VECTORS /* vectors of lanes of a tile, 1 to 4 */
#define N_VECTORS 3
#endif
#ifndef DEPTH /* positions of a panel, at most */
#define DEPTH 512
#endif
#ifndef SUMS /* rows times taps of a work-item, at most, in whole tiles */
#define SUMS 512
#endif
#include "include/common.h"
#include "conv/cpu/implicit_weights_args.h"

#if VEC != 4 && VEC != 8 && VEC != 16
#error "VEC must be 4, 8 or 16"
#endif
#if N_VECTORS < 1 || N_VECTORS > 4 || TILE_ROWS < 1 || SUMS < TILE_ROWS || DEPTH < VEC || DEPTH > BLOCK_TERMS
#error "TILE_ROWS, N_VECTORS, SUMS or DEPTH out of range"
#endif

#include "conv/cpu/counts.h"
#include "conv/cpu/register_tile.h"

typedef MX_JOIN(ACC, VEC) vec;
#define TO_VEC MX_JOIN(convert_, MX_JOIN(ACC, VEC))
#define LOAD_VEC MX_JOIN(vload, VEC)
#define STORE_VEC MX_JOIN(vstore, VEC)
DEFINE_LONG_SUMS(vec)

static inline long volume(const long *a)
{
    return a[0] * a[1] * a[2];
}

/* ACC elements of a chunk's partial sums: [rows][taps][used vectors][VEC] with room for N_VECTORS. */
static inline long partial_size(const mx_weights *g)
{
    return g->chunk_rows * g->chunk_taps * (N_VECTORS * VEC);
}

/* Elements of dw. */
static inline long group_size(const mx_weights *g)
{
    return g->lanes * g->rows * volume(g->taps);
}

/* What a work-item computes, by group id 0. */
typedef struct {
    long lane, lanes;             /* the first, how many there are from it on */
    int used;                     /* vectors */
    long row, rows, tap, taps;
} mx_chunk;

NOINLINE mx_chunk chunk_of(const mx_weights *g, long id)
{
    mx_chunk c;
    const long vectors = (g->lanes + VEC - 1) / VEC, tiles = (vectors + N_VECTORS - 1) / N_VECTORS;
    const long all_taps = volume(g->taps), tap_chunks = (all_taps + g->chunk_taps - 1) / g->chunk_taps;
    const long row_chunks = (g->rows + g->chunk_rows - 1) / g->chunk_rows;
    const long tap_chunk = id % tap_chunks, row_chunk = id / tap_chunks % row_chunks;
    const long tile = id / tap_chunks / row_chunks;
    const long v0 = tile * vectors / tiles, v1 = (tile + 1) * vectors / tiles;
    c.lane = v0 * VEC;
    c.used = (int)(v1 - v0);
    c.lanes = min(g->lanes, v1 * VEC) - c.lane;
    c.row = row_chunk * g->chunk_rows;
    c.rows = min(g->rows - c.row, g->chunk_rows);
    c.tap = tap_chunk * g->chunk_taps;
    c.taps = min(all_taps - c.tap, g->chunk_taps);
    return c;
}

/* Transposition of VEC rows: four columns of them at a time are loaded as four vectors, each of pieces of every fourth
 * row, whose fours are then transposed inside of the vectors. */
#if VEC == 16
#define PIECES(FOUR, i) (vec)(FOUR(i), FOUR((i) + 4), FOUR((i) + 8), FOUR((i) + 12))
#define LOW_PAIRS s014589cd
#define HIGH_PAIRS s2367abef
#elif VEC == 8
#define PIECES(FOUR, i) (vec)(FOUR(i), FOUR((i) + 4))
#define LOW_PAIRS s0145
#define HIGH_PAIRS s2367
#else
#define PIECES(FOUR, i) FOUR(i)
#define LOW_PAIRS s01
#define HIGH_PAIRS s23
#endif
#define ZIP(low, high, a, b)        \
    do {                            \
        low.even = a.LOW_PAIRS;     \
        low.odd = b.LOW_PAIRS;      \
        high.even = a.HIGH_PAIRS;   \
        high.odd = b.HIGH_PAIRS;    \
    } while (0)
#define FOUR_COLUMNS(to, FOUR)                                              \
    do {                                                                    \
        const vec r0_ = PIECES(FOUR, 0), r1_ = PIECES(FOUR, 1);             \
        const vec r2_ = PIECES(FOUR, 2), r3_ = PIECES(FOUR, 3);             \
        vec a_, b_, c_, d_;                                                 \
        ZIP(a_, b_, r0_, r2_);                                              \
        ZIP(c_, d_, r1_, r3_);                                              \
        ZIP((to)[0], (to)[1], a_, c_);                                      \
        ZIP((to)[2], (to)[3], b_, d_);                                      \
    } while (0)

/* Four elements of global memory as ACC. */
#define FOUR_half(p) mx_load_half4(p)
#define FOUR_float(p) vload4(0, p)
#define FOUR_double(p) vload4(0, p)
#define FOUR_bfloat16(p) as_float4(convert_uint4(vload4(0, p)) << 16)

/* panel[count][used vectors] = positions p ... p + count - 1 of one image of U, whose lanes have a stride of `area`;
 * `lane` has their offsets. */
NOINLINE void pack(vec *restrict panel, __global const STORAGE(U_TYPE) *restrict U, const long *restrict lane, int used,
                   long p, long count, long area)
{
    if (area < VEC) {
        for (long i = 0; i < count; i++)
            for (int j = 0; j < used * VEC; j++)
                ((ACC *)panel)[i * used * VEC + j] = LOAD(U_TYPE)(U, lane[j] + p + i);
        return;
    }
    for (int j = 0; j < used; j++, lane += VEC)
        for (long i = 0; i < count; i += VEC) {
            /* The last positions of an image are loaded together with some before them. */
            const long at = min(p + i, area - VEC);
            const int skip = (int)(p + i - at), end = (int)min((long)VEC, count - i + skip);
            vec *to = panel + i * used + j;
#define U_FOUR(l) MX_JOIN(FOUR_, U_TYPE)(U + lane[l] + at + q)
            if (skip == 0 && end == VEC) {
#pragma unroll
                for (int q = 0; q < VEC; q += 4) {
                    vec v[4];
                    FOUR_COLUMNS(v, U_FOUR);
#pragma unroll
                    for (int l = 0; l < 4; l++)
                        STORE_VEC(v[l], (q + l) * used, (ACC *)to);
                }
            } else
                for (int q = 0; q < end; q += 4) {
                    vec v[4];
                    FOUR_COLUMNS(v, U_FOUR);
                    for (int l = max(skip - q, 0); l < min(4, end - q); l++)
                        STORE_VEC(v[l], (q + l - skip) * used, (ACC *)to);
                }
        }
}

/* Positions next to each other that a tap sees inside of one row of an image. */
typedef struct {
    long at;           /* the first one's pixel in V */
    int from, count;   /* the first one's place in the panel; how many there are */
} mx_run;

/* Those of positions p0 ... p1 - 1 at a tap; returns how many. */
NOINLINE int runs_of(mx_run *restrict runs, const mx_weights *g, long tap, long p0, long p1)
{
    const long ts = tap % g->taps[2], tr = tap / g->taps[2] % g->taps[1], tz = tap / g->taps[2] / g->taps[1];
    const long d0 = tz * g->dilation[0] - g->pad[0], h0 = tr * g->dilation[1] - g->pad[1];
    const long w0 = ts * g->dilation[2] - g->pad[2];
    const long2 inside = mx_inside(w0, g->step[2], g->in_len[2], g->out_len[2]);
    long line = p0 / g->out_len[2];
    long w = p0 - line * g->out_len[2], h = line % g->out_len[1], d = line / g->out_len[1] % g->out_len[0];
    long n = line / g->out_len[1] / g->out_len[0];
    int many = 0;
    for (long p = p0; p < p1;) {
        const long end = min(g->out_len[2], w + p1 - p);
        const long di = d * g->step[0] + d0, hi = h * g->step[1] + h0;
        const long a = max(w, inside.x), b = min(end, inside.y);
        if (a < b && di >= 0 && di < g->in_len[0] && hi >= 0 && hi < g->in_len[1]) {
            runs[many].at = n * g->v_n + (di * g->in_len[1] + hi) * g->in_len[2] + a * g->step[2] + w0;
            runs[many].from = (int)(p - p0 + a - w);
            runs[many++].count = (int)(b - a);
        }
        p += end - w;
        w = 0;
        if (++h == g->out_len[1]) {
            h = 0;
            if (++d == g->out_len[0])
                d = 0, n++;
        }
    }
    return many;
}

/* sums[row][COUNT vectors] += V[row] * panel over the positions of the runs. */
#define DEFINE_MULTIPLY(COUNT)                                                                   \
    NOINLINE void multiply_##COUNT(vec *restrict sums, long sums_row, const vec *restrict panel, \
                                   __global const ACC *restrict V, const long *restrict row,     \
                                   const mx_run *restrict runs, int many, long step)             \
    {                                                                                            \
        vec s[TILE_ROWS][COUNT];                                                                 \
        FOR_TILE(TILE_ROWS, COUNT, s[i][j] = LOAD_VEC(j, (const ACC *)(sums + i * sums_row));)   \
        for (int r = 0; r < many; r++) {                                                         \
            __global const ACC *v = V + runs[r].at;                                              \
            const vec *u = panel + (long)runs[r].from * COUNT;                                   \
            const int count = runs[r].count;                                                     \
            _Pragma("unroll 2") for (int p = 0; p < count; p++, v += step, u += COUNT)           \
                OUTER_PRODUCT(TILE_ROWS, COUNT, s, v[row[i]], u[j])                              \
        }                                                                                        \
        FOR_TILE(TILE_ROWS, COUNT, sums[i * sums_row + j] = s[i][j];)                            \
    }
FOR_COUNTS(DEFINE_MULTIPLY)

/* w[i] = alpha * v + beta * w[i], ... a vector of them. */
static inline void store_vector(__global STORAGE(W_TYPE) *w, long i, vec v, SCALAR alpha, SCALAR beta)
{
    v *= (vec)((ACC)alpha);
    if (beta != 0)
        v += (vec)((ACC)beta) * TO_VEC(VLOAD(W_TYPE)(w, i));
    VSTORE(W_TYPE)(w, i, v);
}

/* Stores the sums first ... first + count - 1 of a chunk, which are at `sums`. */
NOINLINE void store(__global STORAGE(W_TYPE) *restrict W, const vec *restrict sums, const mx_weights *g,
                    const mx_chunk *c, long first, long count, SCALAR alpha, SCALAR beta)
{
    const long taps = volume(g->taps), rows = g->rows * taps, all_lanes = g->lanes;
    const int used = c->used;
    const bool lanes_last = g->lanes_last != 0;
    /* In dw, from a lane to the next and from a sum to the next. */
    const long next_lane = lanes_last ? 1 : rows, next = lanes_last ? all_lanes : 1;
    while (count > 0) {
        /* Sums of all taps are contiguous in dw as here; else those of a row are. */
        const long row = c->row + first / c->taps, tap = c->tap + first % c->taps;
        const int some = (int)min(min(count, (long)VEC), c->taps == taps ? (long)VEC : c->tap + c->taps - tap);
        for (int j = 0; j < used; j++) {
            const long lane = c->lane + j * VEC;
            const int lanes = (int)min(all_lanes - lane, (long)VEC);
            __global STORAGE(W_TYPE) *w = W + lane * next_lane + (row * taps + tap) * next;
            const ACC *from = (const ACC *)(sums + j);
#define SUMS_FOUR(i) vload4(0, from + (i) * used * VEC + q)
            if (lanes_last && lanes == VEC)
                for (int i = 0; i < some; i++)
                    store_vector(w, i * next, sums[i * used + j], alpha, beta);
            else if (!lanes_last && some == VEC)
                for (int q = 0; q < lanes; q += 4) {
                    vec v[4];
                    FOUR_COLUMNS(v, SUMS_FOUR);
                    for (int l = 0; l < min(lanes - q, 4); l++)
                        store_vector(w, (q + l) * next_lane, v[l], alpha, beta);
                }
            else
                for (int l = 0; l < lanes; l++)
                    for (int i = 0; i < some; i++)
                        STORE_MIXED(W_TYPE, w, l * next_lane + i * next, from[i * used * VEC + l], alpha, beta);
        }
        sums += some * used;
        first += some;
        count -= some;
    }
}

/* Brings in what a tile will be stored to, so that the stores at the end do not wait for memory.  A tile at a tap asks
 * for a share of what all taps store to. */
#define PREFETCH(p) MX_PREFETCH(p, 1)
static inline void prefetch(__global STORAGE(W_TYPE) *W, const mx_weights *g, const mx_chunk *c, long i, long tap)
{
    const long taps = volume(g->taps);
    if (g->lanes_last)
        for (int r = 0; r < TILE_ROWS; r++)
            for (int j = 0; j < c->used; j++)
                PREFETCH(W + (c->row + i + r) * g->lanes + c->lane + j * VEC);
    else {
        W += (c->lane * g->rows + c->row + i) * taps + c->tap + tap * TILE_ROWS;
        for (long l = 0; l < c->lanes; l++)
            PREFETCH(W + l * g->rows * taps);
    }
}

/* The sums of a chunk over one split of `splits`: to W, or to `partial` where there are several. */
NOINLINE void sum(__global const STORAGE(U_TYPE) *restrict U, __global const ACC *restrict V,
                  __global STORAGE(W_TYPE) *restrict W, __global ACC *restrict partial, const mx_weights *g,
                  const mx_chunk *c, long split, long splits, SCALAR alpha, SCALAR beta)
{
    const long area = volume(g->out_len), pixels = volume(g->in_len), inner = volume(g->inner);
    const long positions = g->images * area, blocks = (positions + g->depth - 1) / g->depth;
    vec panel[DEPTH * N_VECTORS], sums[SUMS * N_VECTORS], totals[SUMS * N_VECTORS * 3];
    long lane[VEC * N_VECTORS], row[SUMS];
    mx_run runs[DEPTH];

    U += c->lane * area;
    for (int i = 0; i < VEC * N_VECTORS; i++)
        lane[i] = min((long)i, c->lanes - 1) * area;
    const long tile_rows = (c->rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    for (long i = 0; i < tile_rows; i++) {
        const long at = c->row + min(i, c->rows - 1), t = at % inner;
        const long ts = t % g->inner[2], tr = t / g->inner[2] % g->inner[1], tz = t / g->inner[2] / g->inner[1];
        row[i] = at / inner * pixels
            + (tz * g->dilation[0] * g->in_len[1] + tr * g->dilation[1]) * g->in_len[2] + ts * g->dilation[2];
    }
    for (long i = 0; i < tile_rows * c->taps * c->used; i++)
        STORE_VEC((vec)((ACC)0), i, (ACC *)sums);
    long terms = 0;
    int settled = 0;

    for (long block = split * blocks / splits; block < (split + 1) * blocks / splits; block++) {
        const long p0 = block * g->depth, p1 = min(p0 + g->depth, positions);
        if (terms + p1 - p0 > BLOCK_TERMS) {
            settle(settled, sums, totals, tile_rows * c->taps * c->used);
            settled++;
            terms = 0;
        }
        terms += p1 - p0;
        for (long p = p0; p < p1;) {
            const long image = p / area, at = p - image * area, some = min(p1 - p, area - at);
            pack(panel + (p - p0) * c->used, U + image * g->u_n, lane, c->used, at, some, area);
            p += some;
        }
        for (long tap = 0; tap < c->taps; tap++) {
            const int many = runs_of(runs, g, c->tap + tap, p0, p1);
            const long next = c->taps * c->used;
            for (long i = 0; many > 0 && i < c->rows; i += TILE_ROWS) {
                vec *s = sums + i * next + tap * c->used;
                if (splits == 1 && block + 1 == blocks)
                    prefetch(W, g, c, i, tap);
#define MULTIPLY_CASE(COUNT)                                                  \
    case COUNT:                                                               \
        multiply_##COUNT(s, next, panel, V, row + i, runs, many, g->step[2]); \
        break;
                switch (c->used) {
                    FOR_COUNTS(MULTIPLY_CASE)
                }
            }
        }
    }
    if (settled > 0)
        complete(settled, sums, totals, tile_rows * c->taps * c->used);
    if (splits == 1)
        store(W, sums, g, c, 0, c->rows * c->taps, alpha, beta);
    else
        for (long i = 0; i < c->rows * c->taps * c->used; i++)
            STORE_VEC(sums[i], i, partial);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void weights(
    __global const STORAGE(U_TYPE) *restrict U, long u_offset,
    __global const ACC *restrict V, long v_offset,
    __global STORAGE(W_TYPE) *restrict W, long w_offset,
    __global ACC *restrict partial, long partial_offset,
    const mx_weights g, const SCALAR alpha, const SCALAR beta)
{
    const mx_chunk c = chunk_of(&g, get_group_id(0));
    const long split = get_group_id(1), group = get_group_id(2), splits = get_num_groups(1);
    U += u_offset + group * g.lanes * volume(g.out_len);
    V += v_offset + group * (g.rows / volume(g.inner)) * volume(g.in_len);
    W += w_offset + group * group_size(&g);
    /* [group][chunk][split], see partial_size. */
    partial += partial_offset + ((group * get_num_groups(0) + get_group_id(0)) * splits + split) * partial_size(&g);
    sum(U, V, W, partial, &g, &c, split, splits, alpha, beta);
}

/* dw from its partial sums: VEC sums of a chunk, from `first` on. */
NOINLINE void sum_some(__global const ACC *restrict partial, __global STORAGE(W_TYPE) *restrict W, const mx_weights *g,
                       const mx_chunk *c, long first, long splits, SCALAR alpha, SCALAR beta)
{
    const long some = min(c->rows * c->taps - first, (long)VEC);
    if (some <= 0)
        return;
    partial += first * c->used * VEC;
    vec sums[VEC * N_VECTORS];
    for (long i = 0; i < some * c->used; i++)
        sums[i] = LOAD_VEC(i, partial);
    for (long split = 1; split < splits; split++)
        for (long i = 0; i < some * c->used; i++)
            sums[i] += LOAD_VEC(i, partial + split * partial_size(g));
    store(W, sums, g, c, first, some, alpha, beta);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void sum_partial(
    __global const ACC *restrict partial, long partial_offset,
    __global STORAGE(W_TYPE) *restrict W, long w_offset,
    const mx_weights g, const long chunks, const long splits, const SCALAR alpha, const SCALAR beta)
{
    const long chunk = get_group_id(0) % chunks, group = get_group_id(2);
    const mx_chunk c = chunk_of(&g, chunk);
    sum_some(partial + partial_offset + (group * chunks + chunk) * splits * partial_size(&g),
             W + w_offset + group * group_size(&g), &g, &c, get_group_id(0) / chunks * VEC, splits, alpha, beta);
}

/* One channel of an image of V as ACC: padded, or sampled, or as it is. */
NOINLINE void copy_plane(__global const STORAGE(V_TYPE) *restrict V, __global ACC *restrict to, const mx_copy *c)
{
    const long step = c->step[2];
    const long2 inside = mx_inside(-c->before[2], step, c->from_len[2], c->to_len[2]);
    for (long d = 0; d < c->to_len[0]; d++)
        for (long h = 0; h < c->to_len[1]; h++, to += c->to_len[2]) {
            const long di = d * c->step[0] - c->before[0], hi = h * c->step[1] - c->before[1];
            const bool exists = di >= 0 && di < c->from_len[0] && hi >= 0 && hi < c->from_len[1];
            const long end = exists ? inside.y : 0;
            __global const STORAGE(V_TYPE) *from = V + (di * c->from_len[1] + hi) * c->from_len[2] - c->before[2];
            long w = 0;
            for (; w < (exists ? min(inside.x, c->to_len[2]) : c->to_len[2]); w++)
                to[w] = 0;
            if (step == 1)
                for (; w + VEC <= end; w += VEC)
                    STORE_VEC(TO_VEC(VLOAD(V_TYPE)(from, w)), 0, to + w);
            else if (step == 2)
                for (; w + VEC < end; w += VEC) {
                    const vec a = TO_VEC(VLOAD(V_TYPE)(from, 2 * w)), b = TO_VEC(VLOAD(V_TYPE)(from, 2 * w + VEC));
                    STORE_VEC((vec)(a.even, b.even), 0, to + w);
                }
            for (; w < end; w++)
                to[w] = LOAD(V_TYPE)(from, w * step);
            for (; w < c->to_len[2]; w++)
                to[w] = 0;
        }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void copy_rows(
    __global const STORAGE(V_TYPE) *restrict V, long v_offset,
    __global ACC *restrict to, long to_offset,
    const mx_copy c)
{
    const long plane = get_group_id(1) * get_num_groups(0) + get_group_id(0);
    copy_plane(V + v_offset + plane * volume(c.from_len), to + to_offset + plane * volume(c.to_len), &c);
}
