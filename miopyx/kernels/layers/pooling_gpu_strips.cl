/* Pooling on GPUs by strips: two spatial axes, windows of up to 5 x 5, any strides in memory.
 *
 *   pooling_forward_strips     a work-item writes ROWS elements of y, one below the other.  It reads each row of x
 *                              once, for all windows that need it.
 *   pooling_backward_strips    a work-item writes ROWS x COLUMNS elements of dx, which begin at a multiple of the
 *                              strides: which windows contain which of them is known beforehand.
 *
 *       x:  . . . . .     row 0   window 0                  Grid:  work-items over n, c, strips along h, and w;
 *           . . . . .     row 1   window 0, 1                      LAST says whether c or w runs fastest.
 *           . . . . .     row 2   window 0, 1
 *           . . . . .     row 3            1  ...
 *
 * Local memory: none.
 * Parameters:   as layers/pooling_gpu.h; ROWS 4 as a rule, backward a multiple of STEP_H; PAIRED backward.
 * Bound by:     memory where a window's columns come from the cache.
 *
 * Every window meets the image.  What lies outside is read at the nearest place inside, so that loads need no branches:
 * for a maximum that is an element of the window anyway, and for a sum its bits are masked.
 */
#include "layers/pooling_gpu.h"

#if IS_KIND(forward_strips)
__kernel void pooling_forward_strips(FORWARD_BUFFERS,
#if SAVE
                                     __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                     const mx_pooling_problem p, const long block)
{
    const INDEX height = (INDEX)p.x.len[3], width = (INDEX)p.x.len[4];
    const INDEX rows = (INDEX)p.y.len[3], columns = (INDEX)p.y.len[4], channels = (INDEX)p.y.len[1];
    const block_t a = block_of((INDEX)get_global_id(0), channels, (rows + ROWS - 1) / ROWS, columns);
    if (a.n >= (INDEX)p.y.len[0])
        return;
    x += x_offset + a.n * p.x.stride[0] + a.c * p.x.stride[1];
    const INDEX h0 = a.h * (ROWS * STEP_H) - (INDEX)p.pad[1], w0 = a.w * STEP_W - (INDEX)p.pad[2];
    const INDEX line = (INDEX)p.x.stride[3];
    INDEX column[WINDOW], at[WINDOW];
    LANE there[WINDOW];
#pragma unroll
    for (int k = 0; k < WINDOW; k++) {
        column[k] = min(max(w0 + k, (INDEX)0), width - 1);
        at[k] = column[k] * (INDEX)p.x.stride[4];
        there[k] = column[k] == w0 + k ? -1 : 0;
    }
    ACC result[ROWS];
    INDEX found_h[ROWS], found_w[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        result[r] = NOTHING;
#if PROPAGATE /* the first taps in the image */
        found_h[r] = max(h0 + r * STEP_H, (INDEX)0);
        found_w[r] = column[0];
#else
        found_h[r] = found_w[r] = 0;
#endif
    }
#pragma unroll
    for (int i = 0; i < (ROWS - 1) * STEP_H + WINDOW_H; i++) {
        const INDEX h = min(max(h0 + i, (INDEX)0), height - 1);
        ACC value = NOTHING;
        INDEX found = PROPAGATE ? column[0] : 0;
#pragma unroll
        for (int k = 0; k < WINDOW; k++) {
            const ACC one = LOAD(TYPE)(x, h * line + at[k]);
            if (MODE != 0) {
                value += masked(one, there[k]);
            } else {
                found = ABOVE(one, value) ? column[k] : found;
                value = ABOVE(one, value) ? one : value;
            }
        }
        if (MODE != 0)
            value = masked(value, h == h0 + i ? -1 : 0);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (i >= r * STEP_H && i < r * STEP_H + WINDOW_H) {
                if (MODE != 0) {
                    result[r] += value;
                } else {
                    found_h[r] = ABOVE(value, result[r]) ? h : found_h[r];
                    found_w[r] = ABOVE(value, result[r]) ? found : found_w[r];
                    result[r] = ABOVE(value, result[r]) ? value : result[r];
                }
            }
    }
    y += y_offset + a.n * p.y.stride[0] + a.c * p.y.stride[1] + a.w * p.y.stride[4];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const INDEX h = a.h * ROWS + r, from = h0 + r * STEP_H;
        if (h < rows) {
            if (MODE == 1)
                result[r] /= (ACC)((min(from + WINDOW_H, height) - max(from, (INDEX)0)) *
                                   (min(w0 + WINDOW, width) - max(w0, (INDEX)0)));
            if (MODE == 2)
                result[r] /= (ACC)(WINDOW_H * WINDOW);
            STORE(TYPE)(y, h * p.y.stride[3], result[r]);
#if SAVE
            const INDEX code = IMAGE ? found_h[r] * width + found_w[r]
                                     : (found_h[r] - from) * WINDOW + found_w[r] - w0;
#if LIKE_Y
            indices[indices_offset + mx_offset(p.y, a.n, a.c, 0, h, a.w)] =
#else
            indices[indices_offset + ((a.n * (long)channels + a.c) * rows + h) * columns + a.w] =
#endif
                PROPAGATE || result[r] > -(ACC)INFINITY ? (INDEX_TYPE)code : (INDEX_TYPE)0;
#endif
        }
    }
}
#endif

#if IS_KIND(backward_strips)
#include "layers/pooling_gpu_spread.h"

/* Two neighbours at an even place. */
static inline void store_pair(__global STORAGE(TYPE) *p, long i, ACC low, ACC high)
{
    MX_JOIN(STORAGE(TYPE), 2) bits;
#if MX_TYPE(TYPE) == MX_TYPE_half
    vstore_half2_rte((float2)(low, high), 0, (__private half *)&bits);
#elif MX_TYPE(TYPE) == MX_TYPE_bfloat16
    bits = (ushort2)(mx_to_bfloat16(low), mx_to_bfloat16(high));
#else
    bits = (MX_JOIN(ACC, 2))(low, high);
#endif
    *(__global MX_JOIN(STORAGE(TYPE), 2) *)(p + i) = bits;
}

__kernel void pooling_backward_strips(BACKWARD_BUFFERS,
#if SAVE
                                      __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                      const mx_pooling_problem p, const long block)
{
    const INDEX height = (INDEX)p.x.len[3], width = (INDEX)p.x.len[4];
    const INDEX rows = (INDEX)p.y.len[3], columns = (INDEX)p.y.len[4], channels = (INDEX)p.y.len[1];
    const block_t a = block_of((INDEX)get_global_id(0), channels, (height + ROWS - 1) / ROWS,
                               (width + COLUMNS - 1) / COLUMNS);
    if (a.n >= (INDEX)p.x.len[0])
        return;
    dy += dy_offset + a.n * p.y.stride[0] + a.c * p.y.stride[1];
#if SAVE && LIKE_Y
    indices += indices_offset + a.n * p.y.stride[0] + a.c * p.y.stride[1];
#elif SAVE
    indices += indices_offset + (a.n * (long)channels + a.c) * rows * columns;
#endif
    const INDEX h0 = a.h * ROWS, w0 = a.w * COLUMNS;
    const INDEX j0 = a.h * (ROWS / STEP_H) - BEFORE_H, k0 = a.w * (COLUMNS / STEP_W) - BEFORE_W;
    const INDEX line = (INDEX)p.y.stride[3], step = (INDEX)p.y.stride[4];
    ACC sum[ROWS][COLUMNS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int s = 0; s < COLUMNS; s++)
            sum[r][s] = 0;
#pragma unroll
    for (int j = 0; j < ALONG_H; j++) {
        const INDEX h = min(max(j0 + j, (INDEX)0), rows - 1);
#pragma unroll
        for (int k = 0; k < ALONG_W; k++) {
            const INDEX w = min(max(k0 + k, (INDEX)0), columns - 1);
            const LANE there = h == j0 + j && w == k0 + k ? -1 : 0;
            const ACC value = masked(LOAD(TYPE)(dy, h * line + w * step), there);
#if SAVE
            spread(sum, j, k, value, indices[LIKE_Y ? h * line + w * step : h * columns + w], h0 * width + w0, width);
#else
            spread(sum, j, k, share_of(&p, value, h, w), 0, 0);
#endif
        }
    }
    dx += dx_offset + a.n * p.x.stride[0] + a.c * p.x.stride[1];
    const bool pairs = (PAIRED & (COLUMNS == 2) & ((ulong)dx % (2 * sizeof(STORAGE(TYPE))) == 0)) && w0 + 1 < width;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (h0 + r < height) {
            const long at = (h0 + r) * p.x.stride[3];
            if (pairs)
                store_pair(dx, at + w0, sum[r][0], sum[r][COLUMNS - 1]);
            else
#pragma unroll
                for (int s = 0; s < COLUMNS; s++)
                    if (w0 + s < width)
                        STORE(TYPE)(dx, at + (w0 + s) * p.x.stride[4], sum[r][s]);
        }
}
#endif
