/* Winograd's transforms for GPUs: F(TILE, 3) in two dimensions, and F(3, TILE) for backward weights.
 *
 * Toom and Cook: a filter with r taps over n inputs, POINTS = TILE + 3 - 1 of them, gives n - r + 1 outputs as
 *     output_transform(filter_transform(filter) * input_transform(inputs))
 * with products at POINTS points: 0, +-A, with TILE 4 also +-B, and infinity.  With M(t) the product of (t - q) over
 * the finite points q,
 *     input_transform:  row q holds the coefficients of M(t) / (t - q), the last row those of M(t);
 *     filter_transform: row q holds 1, q, q^2 ... / M'(q), the last row the last coefficient alone;
 *     output_transform: output i sums q^i times the product at q; the last output also takes the product at infinity.
 * A = 5/8 and B = 3/2 (1 for TILE 2) are exact and halve the rounding errors of the usual 1 and 2.
 * Grid: one axis, a work-item for each tile of a channel, rounded up to any local size.
 *
 *     x -> winograd_inputs ->+
 *                            +-> conv/gpu/gemm.cl, POINTS^2 products over channels -> winograd_outputs -> y
 *     w -> winograd_inputs ->+
 *
 * Memory: no local memory; a window and its points are in registers.  Pixels outside of the image count as zeros.
 * Bound by: memory; each transformed tile has POINTS^2 elements of ACC for TILE^2 pixels.
 */
#ifndef X_TYPE /* storage type of the tensor */
#define X_TYPE float
#endif
#ifndef TILE /* outputs a side: 2 or 4 */
#define TILE 4
#endif
#ifndef SIDE /* of the window that is read (POINTS: as inputs; 2 to 4: as filters) or written (2 to 4) */
#define SIDE 6
#endif
#ifndef FLIP /* of a filter: backward data */
#define FLIP 0
#endif
#ifndef CHANNELS_LAST /* neighbouring work-items take neighbouring channels, else tiles */
#define CHANNELS_LAST 0
#endif
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"
#include "conv/gpu/winograd_args.h"

#define POINTS (TILE + 2)
#if TILE == 4
#define A ((ACC)0.625)
#define B ((ACC)1.5)
#define A2 ((ACC)0.390625)
#define B2 ((ACC)2.25)
#elif TILE != 2
#error "TILE must be 2 or 4"
#endif

typedef struct {
    int n, c, h, w, at; /* image, channel, first pixel, place in the workspace */
    bool inside;
} window;

static inline window window_of(const mx_window *g)
{
    window v;
    const int tiles = g->tiles_h * g->tiles_w, all = tiles * g->images, i = (int)get_global_id(0);
    v.c = CHANNELS_LAST ? i % g->channels : i / all;
    const int tile = CHANNELS_LAST ? i / g->channels : i % all, of = tile % tiles;
    v.n = tile / tiles;
    v.h = of / g->tiles_w * g->move - g->pad_h;
    v.w = of % g->tiles_w * g->move - g->pad_w;
    v.at = tile * g->tile + v.c * g->channel;
    v.inside = tile < all && v.c < g->channels;
    return v;
}

/* to[POINTS] = input_transform(v[POINTS]) */
static inline void input_transform(const ACC *v, ACC *to)
{
#if TILE == 2
    to[0] = v[2] - v[0];
    to[1] = v[1] + v[2];
    to[2] = v[2] - v[1];
    to[3] = v[3] - v[1];
#else
    /* M = t (t^2 - A^2)(t^2 - B^2) */
    const ACC even_a = v[4] - B2 * v[2], odd_a = v[3] - B2 * v[1];
    const ACC even_b = v[4] - A2 * v[2], odd_b = v[3] - A2 * v[1];
    to[0] = v[4] - (A2 + B2) * v[2] + A2 * B2 * v[0];
    to[1] = even_a + A * odd_a;
    to[2] = even_a - A * odd_a;
    to[3] = even_b + B * odd_b;
    to[4] = even_b - B * odd_b;
    to[5] = v[5] - (A2 + B2) * v[3] + A2 * B2 * v[1];
#endif
}

/* to[POINTS] = filter_transform(v[count]), count 2 to 4 */
static inline void filter_transform(const ACC *v, int count, ACC *to)
{
    ACC even = v[0], odd = v[1], scale;
#if TILE == 2
    to[0] = -v[0];
    if (count > 2)
        even += v[2];
    to[1] = (ACC)0.5 * (even + odd);
    to[2] = (ACC)0.5 * (even - odd);
#else
    to[0] = v[0] * ((ACC)1 / (A2 * B2));
    scale = (ACC)1 / (2 * A2 * (A2 - B2));
    even = count > 2 ? v[0] + A2 * v[2] : v[0];
    odd = A * (count > 3 ? v[1] + A2 * v[3] : v[1]);
    to[1] = (even + odd) * scale;
    to[2] = (even - odd) * scale;
    scale = (ACC)1 / (2 * B2 * (B2 - A2));
    even = count > 2 ? v[0] + B2 * v[2] : v[0];
    odd = B * (count > 3 ? v[1] + B2 * v[3] : v[1]);
    to[3] = (even + odd) * scale;
    to[4] = (even - odd) * scale;
#endif
    to[POINTS - 1] = v[count - 1];
}

/* to[count] = output_transform(v[POINTS]), count 2 to 4 */
static inline void output_transform(const ACC *v, int count, ACC *to)
{
    const ACC sum_a = v[1] + v[2], difference_a = v[1] - v[2];
#if TILE == 2
    to[0] = v[0] + sum_a;
    to[1] = difference_a;
    if (count > 2)
        to[2] = sum_a;
#else
    const ACC sum_b = v[3] + v[4], difference_b = v[3] - v[4];
    to[0] = v[0] + sum_a + sum_b;
    to[1] = A * difference_a + B * difference_b;
    if (count > 2)
        to[2] = A2 * sum_a + B2 * sum_b;
    if (count > 3)
        to[3] = A2 * A * difference_a + B2 * B * difference_b;
#endif
    to[count - 1] += v[POINTS - 1];
}

/* Both transforms of inputs: of tiles of an image (SIDE == POINTS), and of filters or tiles in their place. */
__kernel void winograd_inputs(__global const STORAGE(X_TYPE) *restrict x, long x_offset, __global ACC *restrict to,
                              long to_offset, const mx_window g)
{
    const window at = window_of(&g);
    if (!at.inside)
        return;
    x += x_offset + (long)at.n * g.t_n + (long)at.c * g.t_c;
    ACC half_way[SIDE][POINTS];
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        ACC row[SIDE];
        const int h = at.h + (FLIP ? SIDE - 1 - i : i);
#pragma unroll
        for (int j = 0; j < SIDE; j++) {
            const int w = at.w + (FLIP ? SIDE - 1 - j : j);
            row[j] = 0;
            if ((uint)h < (uint)g.h && (uint)w < (uint)g.w)
                row[j] = (ACC)LOAD(X_TYPE)(x, (long)h * g.t_h + (long)w * g.t_w);
        }
#if SIDE == POINTS
        input_transform(row, half_way[i]);
#else
        filter_transform(row, SIDE, half_way[i]);
#endif
    }
    to += to_offset + at.at;
#pragma unroll
    for (int j = 0; j < POINTS; j++) {
        ACC column[SIDE], points[POINTS];
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            column[i] = half_way[i][j];
#if SIDE == POINTS
        input_transform(column, points);
#else
        filter_transform(column, SIDE, points);
#endif
#pragma unroll
        for (int i = 0; i < POINTS; i++)
            to[(long)(i * POINTS + j) * g.point] = points[i];
    }
}

__kernel void winograd_outputs(__global const ACC *restrict from, long from_offset,
                               __global STORAGE(X_TYPE) *restrict y, long y_offset,
                               const mx_window g, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(y, y_offset);
    const window at = window_of(&g);
    if (!at.inside)
        return;
    from += from_offset + at.at;
    ACC half_way[SIDE][POINTS];
#pragma unroll
    for (int j = 0; j < POINTS; j++) {
        ACC points[POINTS], column[SIDE];
#pragma unroll
        for (int i = 0; i < POINTS; i++)
            points[i] = from[(long)(i * POINTS + j) * g.point];
        output_transform(points, SIDE, column);
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            half_way[i][j] = column[i];
    }
    y += y_offset + (long)at.n * g.t_n + (long)at.c * g.t_c;
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        OF_FILTER(at.c)
        ACC row[SIDE];
        output_transform(half_way[i], SIDE, row);
#pragma unroll
        for (int j = 0; j < SIDE; j++)
            if (at.h + i < g.h && at.w + j < g.w)
                STORE_ONE(X_TYPE, y, (long)(at.h + i) * g.t_h + (long)(at.w + j) * g.t_w, row[j]);
    }
}
