/* Backward weights of convolutions with channels last for CPU devices:
 * dw[k][tap, c] = alpha * sum over pixels of dy[pixel][k] * x[pixel at tap][c] + beta * dw.
 *
 * Shape: any (mx_nhwc, forward: `in` is x, `out` dy).  All tensors are packed.
 * Grid: local (1, 1, 1).
 *
 *     (tap, c) ->  N_VECTORS * VEC     conv_nhwc_weights: (shares of tiles, chunks of filters, groups * splits)
 *     +----------------------+         A work-item: up to TILES tiles of columns x up to K_CHUNK filters over its
 *   k |  ROWS x V vectors    | K_CHUNK split's pixels (split-K).  Of P_BLOCK pixels it copies the gradients once, then
 *     |  ...                 |         gathers the columns of each tile and multiplies all filters by them.  ROWS
 *     +----------------------+ x TILES gradients are broadcast.
 *                                      sum_partial: (pieces of dw); adds the splits in order
 *
 * Columns are taps and channels in one, so that few channels fill vectors too.  The number of splits is the problem's
 * alone; a single split is stored to dw at once.
 * Memory: partial sums of several splits in the workspace as ACC; no local memory; the sums, P_BLOCK columns and
 * gradients are private and stay in a core's second cache.
 * Tuning: K_CHUNK may change the number of splits, and so the last bits; P_BLOCK and TILES change none.
 * Pixels in the padding are zeros, so an infinite gradient makes NaN there, as it does for the GEMM solvers.
 * Bound by: multiply-adds; reading dy where TILES is small, gathering columns where filters are few.
 */
#ifndef IN_TYPE /* storage type of x, dy and dw */
#define IN_TYPE float
#endif
#ifndef VEC /* ACC elements in a vector register: 2, 4, 8 or 16 */
#define VEC 16
#endif
#ifndef N_VECTORS /* vectors of columns side by side: 4 with 32 registers, 2 with 16 */
#define N_VECTORS 4
#endif
#ifndef K_CHUNK /* filters of a work-item, a multiple of 48 */
#define K_CHUNK 96
#endif
#ifndef TILES /* of columns of a work-item, at most */
#define TILES 4
#endif
#ifndef P_BLOCK /* pixels at a time, a divisor of BLOCK_TERMS */
#define P_BLOCK 64
#endif
#include "include/common.h"
#include "conv/cpu/implicit_nhwc.h"
#include "conv/cpu/register_tile.h"

#if K_CHUNK % 48 != 0 || P_BLOCK < 1 || BLOCK_TERMS % P_BLOCK != 0
#error "K_CHUNK or P_BLOCK out of range"
#endif

#define ROWS_1 (N_VECTORS > 2 ? 16 : 12)
#define ROWS_2 (N_VECTORS > 2 ? 12 : 6)
#define ROWS_3 8
#define ROWS_4 6
#define ROWS_OF(used) ((used) == 1 ? ROWS_1 : (used) == 2 ? ROWS_2 : (used) == 3 ? ROWS_3 : ROWS_4)
#define DEAL 24                 /* filters that chunks are made of */
#define UNITS (N_VECTORS * VEC) /* of a tile, at most */
#define SUMS (K_CHUNK * N_VECTORS) /* vectors of a tile */
#define PADDED(tile) ((filters + ROWS_OF((tile).used) - 1) / ROWS_OF((tile).used) * ROWS_OF((tile).used))
#define TO_VEC MX_JOIN(MX_JOIN(convert_, ACC), VEC)

/* sums[ROWS][V] = or += sum over `depth` pixels of a[p * K_CHUNK + i] * b[p * V + j]. */
#define DEFINE_MULTIPLY(V, ROWS)                                                    \
    NOINLINE void multiply_##V(bool add, vec *restrict sums, const ACC *restrict a, \
                               const ACC *restrict b, int depth)                    \
    {                                                                               \
        vec s[ROWS][V];                                                             \
        FOR_TILE(ROWS, V, s[i][j] = add ? sums[i * V + j] : (vec)((ACC)0);)         \
        for (long p = 0; p < depth; p++) {                                          \
            vec right[V];                                                           \
            _Pragma("unroll") for (int j = 0; j < V; j++)                           \
                right[j] = LOAD_VEC(b + (p * V + j) * VEC);                         \
            OUTER_PRODUCT(ROWS, V, s, a[p * K_CHUNK + i], right[j])                 \
        }                                                                           \
        FOR_TILE(ROWS, V, sums[i * V + j] = s[i][j];)                               \
    }
DEFINE_LONG_SUMS(vec)
DEFINE_MULTIPLY(1, ROWS_1)
DEFINE_MULTIPLY(2, ROWS_2)
#if N_VECTORS > 2
DEFINE_MULTIPLY(3, ROWS_3)
DEFINE_MULTIPLY(4, ROWS_4)
#endif

/* to[0 ... count) = the elements at p, of which `readable` exist; whole vectors, so that up to VEC - 1 more are
 * written. */
#if MX_TYPE(IN_TYPE) == MX_TYPE(ACC)
/* vload16 becomes four loads of a quarter where what was loaded is stored at once. */
typedef vec loose __attribute__((aligned(sizeof(ACC))));
#define READ(p) *(__global const loose *)(p)
#define PUT(v, p) *(loose *)(p) = v
#define WRITE(p, v) *(__global loose *)(p) = v
#else
#define READ(p) TO_VEC(VLOAD(IN_TYPE)(p, 0))
#define PUT(v, p) STORE_VEC(v, p)
#define WRITE(p, v) VSTORE(IN_TYPE)(p, 0, v)
#endif

static inline void copy(ACC *restrict to, __global const STORAGE(IN_TYPE) *restrict p, int count, long readable)
{
    if ((count + VEC - 1) / VEC * VEC <= readable) {
        for (int i = 0; i < count; i += VEC)
            PUT(READ(p + i), to + i);
        return;
    }
    for (int i = 0; i < count; i += VEC)
        STORE_VEC(load_first(p + i, (int)min(count - i, VEC)), to + i);
}

static inline void clear(ACC *restrict to, int count)
{
    for (int i = 0; i < count; i += VEC)
        STORE_VEC((vec)((ACC)0), to + i);
}

/* `count` rows of V vectors at a stride of `step`. */
#define DEFINE_COPY_ROWS(V)                                                                                       \
    static inline void copy_rows_##V(ACC *restrict to, __global const STORAGE(IN_TYPE) *restrict p, int count,    \
                                     long step)                                                                   \
    {                                                                                                             \
        for (int i = 0; i < count; i++, p += step, to += V * VEC)                                                 \
            _Pragma("unroll") for (int j = 0; j < V; j++)                                                         \
                PUT(READ(p + j * VEC), to + j * VEC);                                      \
    }
DEFINE_COPY_ROWS(1)
DEFINE_COPY_ROWS(2)
#if N_VECTORS > 2
DEFINE_COPY_ROWS(3)
DEFINE_COPY_ROWS(4)
#endif

/* A tile of columns: the part that it has of each unit, columns `left` to `right`, and the pixel of the unit's first
 * tap.  Taps whose pixels of x are contiguous are one unit. */
typedef struct {
    int j0, used, width, units;
    bool plain; /* one unit, of which the tile has whole vectors */
    int left[UNITS], right[UNITS], shift_d[UNITS], shift_h[UNITS], shift_w[UNITS];
} tile_t;

/* Taps of a unit: channels that fill a tile alone are copied faster tap by tap. */
static inline int together_of(const mx_nhwc g)
{
    return g.dilation[2] == 1 && g.groups == 1 && g.inputs < UNITS ? g.taps[2] : 1;
}

NOINLINE void find_units(tile_t *t, const mx_nhwc *geometry, long tile, long tiles)
{
    const mx_nhwc g = *geometry;
    const int columns = g.taps[0] * g.taps[1] * g.taps[2] * g.inputs, vectors = (columns + VEC - 1) / VEC;
    const int together = together_of(g), unit = together * g.inputs, v0 = (int)(tile * vectors / tiles);
    t->j0 = v0 * VEC;
    t->used = (int)((tile + 1) * vectors / tiles) - v0;
    t->width = t->used * VEC;
    const int j1 = min(t->j0 + t->width, columns), first_unit = t->j0 / unit;
    t->units = (j1 - 1) / unit - first_unit + 1;
    for (int i = 0; i < t->units; i++) {
        const int u = first_unit + i, row = together > 1 ? u : u / g.taps[2];
        t->left[i] = max(0, t->j0 - u * unit);
        t->right[i] = min(unit, j1 - u * unit);
        t->shift_d[i] = row / g.taps[1] * g.dilation[0] - g.pad[0];
        t->shift_h[i] = row % g.taps[1] * g.dilation[1] - g.pad[1];
        t->shift_w[i] = (together > 1 ? 0 : u % g.taps[2]) * g.dilation[2] - g.pad[2];
    }
    t->plain = t->units == 1 && together == 1 && t->right[0] - t->left[0] == t->width;
}

/* From a row of dy to the one behind it. */
static inline void next_row(const mx_nhwc *g, int *h, int *d, long *n)
{
    if (++*h < g->out_len[1])
        return;
    *h = 0;
    if (++*d == g->out_len[0]) {
        *d = 0;
        ++*n;
    }
}

/* panel[depth][width] = the tile's columns of the pixels from p on; `first` is the group's first channel. */
NOINLINE void gather(ACC *restrict panel, __global const STORAGE(IN_TYPE) *restrict x, const tile_t *t,
                     const mx_nhwc *geometry, long first, long p, int depth)
{
    const mx_nhwc g = *geometry;
    const int together = together_of(g), used = t->used, width = t->width, units = t->units;
    const long x_size = (long)g.images * g.in_len[0] * g.in_len[1] * g.in_len[2] * g.in_pixel;
    int w = (int)(p % g.out_len[2]), h = (int)(p / g.out_len[2] % g.out_len[1]);
    int d = (int)(p / g.out_len[2] / g.out_len[1] % g.out_len[0]);
    long n = p / g.out_len[2] / g.out_len[1] / g.out_len[0];
    long line[UNITS];
    for (int i = 0; i < depth;) {
        /* A run of pixels in one row of dy. */
        const int run = min(g.out_len[2] - w, depth - i);
        for (int u = 0; u < units; u++) {
            const int xd = d * g.step[0] + t->shift_d[u], xh = h * g.step[1] + t->shift_h[u];
            line[u] = (uint)xd < (uint)g.in_len[0] && (uint)xh < (uint)g.in_len[1]
                ? ((n * g.in_len[0] + xd) * g.in_len[1] + xh) * g.in_len[2] * g.in_pixel
                    + first : -1;
        }
        ACC *to = panel + i * width;
        if (t->plain) {
            const int xw = w * g.step[2] + t->shift_w[0], step = g.step[2];
            int from = xw < 0 ? min(run, (step - 1 - xw) / step) : 0;
            int after = xw < g.in_len[2] ? min(run, (g.in_len[2] - 1 - xw) / step + 1) : 0;
            if (line[0] < 0 || after < from)
                from = after = run;
            clear(to, from * width);
            __global const STORAGE(IN_TYPE) *there = x + line[0] + (long)(xw + from * step) * g.in_pixel + t->left[0];
            if (used == 1)
                copy_rows_1(to + from * width, there, after - from, (long)step * g.in_pixel);
            if (used == 2)
                copy_rows_2(to + from * width, there, after - from, (long)step * g.in_pixel);
#if N_VECTORS > 2
            if (used == 3)
                copy_rows_3(to + from * width, there, after - from, (long)step * g.in_pixel);
            if (used == 4)
                copy_rows_4(to + from * width, there, after - from, (long)step * g.in_pixel);
#endif
            clear(to + after * width, (run - after) * width);
        } else
            for (int r = 0; r < run; r++, to += width) {
                ACC *row = to;
                for (int u = 0; u < units; u++) {
                    const int xw = (w + r) * g.step[2] + t->shift_w[u], length = t->right[u] - t->left[u];
                    if (line[u] < 0)
                        clear(row, length);
                    else if (xw >= 0 && xw + together <= g.in_len[2]) {
                        const long there = line[u] + (long)xw * g.in_pixel + t->left[u];
                        copy(row, x + there, length, x_size - there);
                    } else {
                        /* Taps s0 to s1 meet x; a unit's have the stride in_pixel, which is `inputs` then. */
                        const int s0 = clamp(-xw, 0, together), s1 = clamp(g.in_len[2] - xw, s0, together);
                        const int from = clamp(s0 * g.inputs, t->left[u], t->right[u]) - t->left[u];
                        const int after = clamp(s1 * g.inputs - t->left[u], from, length);
                        const long there = line[u] + (long)xw * g.in_pixel + t->left[u] + from;
                        clear(row, from);
                        if (after > from)
                            copy(row + from, x + there, after - from, x_size - there);
                        clear(row + after, length - after);
                    }
                    row += length;
                }
            }
        i += run;
        w += run;
        if (w == g.out_len[2]) {
            w = 0;
            next_row(geometry, &h, &d, &n);
        }
    }
}

/* Brings in what a tile of whole vectors will be gathered from, of `depth` pixels from p on: in each pixel a line of
 * the cache, which no processor sees coming. */
NOINLINE void prefetch_columns(__global const STORAGE(IN_TYPE) *restrict x, const tile_t *t,
                               const mx_nhwc *geometry, long first, long p, int depth)
{
    const mx_nhwc g = *geometry;
    int w = (int)(p % g.out_len[2]), h = (int)(p / g.out_len[2] % g.out_len[1]);
    int d = (int)(p / g.out_len[2] / g.out_len[1] % g.out_len[0]);
    long n = p / g.out_len[2] / g.out_len[1] / g.out_len[0];
    for (int i = 0; i < depth;) {
        const int run = min(g.out_len[2] - w, depth - i);
        const int xd = d * g.step[0] + t->shift_d[0], xh = h * g.step[1] + t->shift_h[0];
        if ((uint)xd < (uint)g.in_len[0] && (uint)xh < (uint)g.in_len[1]) {
            const long line = ((n * g.in_len[0] + xd) * g.in_len[1] + xh) * g.in_len[2];
            for (int r = 0; r < run; r++)
                MX_PREFETCH(x + (line + (w + r) * g.step[2] + t->shift_w[0]) * g.in_pixel + first + t->left[0], 0);
        }
        i += run;
        w = 0;
        next_row(geometry, &h, &d, &n);
    }
}

static inline void prefetch_gradients(__global const STORAGE(IN_TYPE) *restrict dy, int filters)
{
    for (int k = 0; k < filters; k += 64 / (int)sizeof(*dy))
        MX_PREFETCH(dy + k, 0);
}

/* Some tiles of columns of a chunk of filters, over the pixels of one split of a group. */
NOINLINE void sum_tiles(__global const STORAGE(IN_TYPE) *restrict x, __global const STORAGE(IN_TYPE) *restrict dy,
                        __global ACC *restrict partial, __global STORAGE(IN_TYPE) *restrict dw,
                        const mx_nhwc *geometry, const SCALAR alpha, const SCALAR beta, int item, int items,
                        int chunk, int chunks, int group_split, int group_splits)
{
    const mx_nhwc g = *geometry;
    const int columns = g.taps[0] * g.taps[1] * g.taps[2] * g.inputs, vectors = (columns + VEC - 1) / VEC;
    const int tiles = (vectors + N_VECTORS - 1) / N_VECTORS, first_tile = (int)((long)item * tiles / items);
    const int mine = (int)((long)(item + 1) * tiles / items) - first_tile;
    const int group = group_split % g.groups, split = group_split / g.groups, splits = group_splits / g.groups;
    const int deals = (g.outputs + DEAL - 1) / DEAL, k0 = (int)((long)chunk * deals / chunks) * DEAL;
    const int filters = min((int)((long)(chunk + 1) * deals / chunks) * DEAL, g.outputs) - k0;
    const long pixels = (long)g.images * g.out_len[0] * g.out_len[1] * g.out_len[2];
    const long end = (split + 1) * pixels / splits;
    if (filters <= 0)
        return;

    tile_t units[TILES];
    vec sums[TILES * SUMS], totals[TILES * SUMS * 3];
    ACC gradients[P_BLOCK * K_CHUNK + VEC], panel[P_BLOCK * N_VECTORS * VEC + VEC];
    for (int i = 0; i < mine; i++)
        find_units(units + i, geometry, first_tile + i, tiles);
    int terms = 0;
    bool add = false;
    int settled = 0;
    for (long p = split * pixels / splits; p < end; p += P_BLOCK) {
        const int depth = (int)min(end - p, (long)P_BLOCK);
        if (terms + depth > BLOCK_TERMS) {
            for (int i = 0; i < mine; i++)
                settle(settled, sums + i * SUMS, totals + i * SUMS * 3, PADDED(units[i]) * units[i].used);
            settled++;
            terms = 0;
        }
        terms += depth;
        for (int i = 0; i < depth; i++) {
            const long at = (p + i) * g.out_pixel + (long)group * g.outputs + k0;
            copy(gradients + i * K_CHUNK, dy + at, filters, pixels * g.out_pixel - at);
        }
        const long next = p + P_BLOCK;
        const int ahead = (int)clamp(end - next, 0L, (long)P_BLOCK);
        for (int i = 0; i < mine; i++) {
            const int used = units[i].used, rows = ROWS_OF(used);
            gather(panel, x, units + i, geometry, (long)group * g.inputs, p, depth);
            for (int k = 0; k < filters; k += rows) {
                /* A share of the next block, so that it is there when its turn comes. */
                const int share = ahead * min(k + rows, filters) / filters;
                const int from = ahead * k / filters;
                if (from < share && units[i].plain)
                    prefetch_columns(x, units + i, geometry, (long)group * g.inputs, next + from, share - from);
                for (int row = (i * ahead + from) / mine; row < (i * ahead + share) / mine; row++)
                    prefetch_gradients(dy + (next + row) * g.out_pixel + (long)group * g.outputs + k0, filters);
                vec *s = sums + i * SUMS + k * used;
                if (used == 1)
                    multiply_1(add, s, gradients + k, panel, depth);
                if (used == 2)
                    multiply_2(add, s, gradients + k, panel, depth);
#if N_VECTORS > 2
                if (used == 3)
                    multiply_3(add, s, gradients + k, panel, depth);
                if (used == 4)
                    multiply_4(add, s, gradients + k, panel, depth);
#endif
            }
        }
        add = true;
    }

    for (int i = 0; i < mine; i++) {
        const int used = units[i].used, j0 = units[i].j0, count = min(units[i].width, columns - j0);
        if (settled > 0)
            complete(settled, sums + i * SUMS, totals + i * SUMS * 3, PADDED(units[i]) * used);
        for (int k = 0; k < filters; k++) {
            const vec *s = sums + i * SUMS + k * used;
            const long at = ((long)group * g.outputs + k0 + k) * columns + j0;
            const ACC *lanes = (const ACC *)s;
            int j = 0;
            if (splits > 1) {
                __global ACC *to = partial + (long)split * g.groups * g.outputs * columns + at;
                for (; j + VEC <= count; j += VEC)
                    STORE_VEC(s[j / VEC], to + j);
                for (; j < count; j++)
                    to[j] = lanes[j];
            } else {
                __global STORAGE(IN_TYPE) *to = dw + at;
                for (; j + VEC <= count; j += VEC)
                    if (beta != 0)
                        WRITE(to + j, (ACC)alpha * s[j / VEC] + (ACC)beta * READ(to + j));
                    else
                        WRITE(to + j, (ACC)alpha * s[j / VEC]);
                for (; j < count; j++)
                    STORE_MIXED(IN_TYPE, to, j, lanes[j], alpha, beta);
            }
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_nhwc_weights(
    __global const STORAGE(IN_TYPE) *restrict x, long x_offset, __global const STORAGE(IN_TYPE) *restrict dy,
    long dy_offset, __global ACC *restrict partial, long partial_offset, __global STORAGE(IN_TYPE) *restrict dw,
    long dw_offset, const mx_nhwc g, const SCALAR alpha, const SCALAR beta)
{
    sum_tiles(x + x_offset, dy + dy_offset, partial + partial_offset, dw + dw_offset, &g, alpha, beta,
              get_group_id(0), get_num_groups(0), get_group_id(1), get_num_groups(1), get_group_id(2),
              get_num_groups(2));
}

/* A piece of dw from its partial sums. */
NOINLINE void sum_piece(__global const ACC *restrict partial, __global STORAGE(IN_TYPE) *restrict dw,
                        long elements, int splits, const SCALAR alpha, const SCALAR beta, long piece, long pieces)
{
    const long vectors = elements / VEC;
    for (long v = vectors * piece / pieces; v < vectors * (piece + 1) / pieces; v++) {
        vec sum = (vec)((ACC)0);
        for (int split = 0; split < splits; split++)
            sum += LOAD_VEC(partial + split * elements + v * VEC);
        if (beta != 0)
            VSTORE(IN_TYPE)(dw, v * VEC, (ACC)alpha * sum + (ACC)beta * TO_VEC(VLOAD(IN_TYPE)(dw, v * VEC)));
        else
            VSTORE(IN_TYPE)(dw, v * VEC, (ACC)alpha * sum);
    }
    if (piece == 0)
        for (long i = vectors * VEC; i < elements; i++) {
            ACC sum = 0;
            for (int split = 0; split < splits; split++)
                sum += partial[split * elements + i];
            STORE_MIXED(IN_TYPE, dw, i, sum, alpha, beta);
        }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void sum_partial(
    __global const ACC *restrict partial, long partial_offset, __global STORAGE(IN_TYPE) *restrict dw,
    long dw_offset, long elements, int splits, const SCALAR alpha, const SCALAR beta)
{
    sum_piece(partial + partial_offset, dw + dw_offset, elements, splits, alpha, beta, get_group_id(0),
              get_num_groups(0));
}
