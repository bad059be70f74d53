/* Backward weights of signals on GPUs: partial[split][k][s] = sum over the units of a split of dy x; split-K, another
 * launch adds the splits.
 *
 * Grid: one axis, local GROUP, global GROUP * channels * blocks * ceil(units / each).
 *
 *     A work-group: `each` units of a channel, whose pixels are in local memory.
 *     With TILES a work-item has four neighbouring columns of dy, and one filter; the next unit is on its way then.
 *     Else LANES work-items go over POSITIONS columns of dy for FILTERS filters each, GROUP / LANES times that in all.
 *
 * The work-items' sums are then added in local memory, always in the same order.  Zeros stand for what is outside; a
 * sum that is not finite is computed anew without them, since it may be a NaN that zero times infinity made.
 * Memory: 8 * CHUNKS floats, or POSITIONS * STEP + REACH, and BATCH * GROUP of them for sums.
 * Bound by: reading dy.
 */
#ifndef X_TYPE /* half, bfloat16 or float */
#define X_TYPE float
#endif
#ifndef S /* taps, 1 to 64 */
#define S 4
#endif
#ifndef STEP /* stride */
#define STEP 1
#endif
#ifndef TAP /* dilation */
#define TAP 1
#endif
#ifndef TILES /* FILTERS = 1, LANES = GROUP */
#define TILES 1
#endif
#ifndef FILTERS /* of a work-item */
#define FILTERS 1
#endif
#ifndef LANES /* a power of two without TILES */
#define LANES 256
#endif
#ifndef AHEAD /* columns of dy that a work-item reads at once, without TILES */
#define AHEAD 4
#endif
#ifndef POSITIONS /* of a unit, a multiple of LANES * AHEAD */
#define POSITIONS 512
#endif
#ifndef GROUP /* work-items */
#define GROUP 256
#endif
#if TILES
#define TILED
#endif
#include "include/common.h"

#include "conv/gpu/signals.h"

#define SUMS (FILTERS * S)
#define BATCH (SUMS < 8 ? SUMS : 8) /* sums that are added in local memory at once */

#if TILES

static inline __attribute__((always_inline)) void mx_products(float sums[S], __local const float4 *from,
                                                              const float4 dy, const int shift)
{
    const float out[4] = {dy.x, dy.y, dy.z, dy.w};
    float in[WINDOW];
    mx_window(in, from);
#pragma unroll
    for (int s = 0; s < S; s++)
#pragma unroll
        for (int u = 0; u < 4; u++)
            sums[s] = fma(in[shift + u * STEP + s * TAP], out[u], sums[s]);
}

#else

/* Columns of a unit of work-item `lane`, from q0 on in dy; `inside`: all of them are. */
static inline __attribute__((always_inline)) void mx_columns_of(float sums[FILTERS][S], __local const float *pixels,
                                                                __global const STORAGE(X_TYPE) *dy,
                                                                const int filter[FILTERS], int lane, int q0, int width,
                                                                const bool inside)
{
#pragma unroll 1
    for (int i = lane; i < POSITIONS; i += AHEAD * LANES) {
        float out[AHEAD][FILTERS];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
#pragma unroll
            for (int f = 0; f < FILTERS; f++)
                out[a][f] = inside ? LOAD(X_TYPE)(dy + filter[f], q0 + i + a * LANES)
                                   : mx_element(dy + filter[f], q0 + i + a * LANES, width);
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
#pragma unroll
            for (int s = 0; s < S; s++) {
                const float in = pixels[(i + a * LANES) * STEP + s * TAP];
#pragma unroll
                for (int f = 0; f < FILTERS; f++)
                    sums[f][s] = fma(in, out[a][f], sums[f][s]);
            }
    }
}

#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void conv_signals_weights(
    __global const STORAGE(X_TYPE) *restrict x, long x_offset, __global const STORAGE(X_TYPE) *restrict dy,
    long y_offset, __global float *restrict partial, long partial_offset, const mx_signal g)
{
    __local float shared[BATCH][GROUP];
    const int id = get_local_id(0), lane = id % LANES;
    const int c = get_group_id(0) % g.channels, rest = get_group_id(0) / g.channels;
    const int split = rest / g.blocks, k0 = ((rest - split * g.blocks) * (GROUP / LANES) + id / LANES) * FILTERS;
    const int start = split * g.each, end = min(start + g.each, g.units);
    x += x_offset + c * g.x_c, dy += y_offset + c * g.filters * g.y_c;

    float sums[FILTERS][S];
#pragma unroll
    for (int f = 0; f < FILTERS; f++)
#pragma unroll
        for (int s = 0; s < S; s++)
            sums[f][s] = 0;
#if TILES
    __local float4 pixels[2][CHUNKS];
    const int x_low = (int)((size_t)x / sizeof(*x) & 3), y_low = (int)((size_t)dy / sizeof(*dy) & 3);
    FOUR held[HELD], held_y;
    mx_tiles next = mx_tiles_of(start, g, x_low, y_low);
    mx_fetch(held, x, next, g.width);
    held_y = mx_four(dy + next.y, next.q + 4 * id, g.q);
#pragma unroll 1
    for (int unit = start; unit < end; unit++) {
        const int shift = next.shift;
        const float4 out = FLOATS(held_y);
        __local float4 *here = pixels[unit & 1];
        mx_spread(here, held);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (unit + 1 < end) {
            next = mx_tiles_of(unit + 1, g, x_low, y_low);
            mx_fetch(held, x, next, g.width);
            held_y = mx_four(dy + next.y, next.q + 4 * id, g.q);
        }
        here += id * STEP;
#define PRODUCTS(shift) mx_products(sums[0], here, out, shift)
        SHIFTED(shift, PRODUCTS)
    }
#else
    __local float pixels[(POSITIONS - 1) * STEP + REACH + 1];
    int filter[FILTERS];
#pragma unroll
    for (int f = 0; f < FILTERS; f++)
        filter[f] = min(k0 + f, g.filters - 1) * g.y_c;
#pragma unroll 1
    for (int unit = start; unit < end; unit++) {
        const mx_unit u = mx_unit_of(unit, g);
        const int q0 = u.segment * POSITIONS;
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 4
        for (int i = id; i < (POSITIONS - 1) * STEP + REACH + 1; i += GROUP)
            pixels[i] = mx_element(x + u.x, q0 * STEP + g.first + i, g.width);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (q0 + POSITIONS <= g.q)
            mx_columns_of(sums, pixels, dy + u.y, filter, lane, q0, g.q, true);
        else
            mx_columns_of(sums, pixels, dy + u.y, filter, lane, q0, g.q, false);
    }
#endif

    partial += partial_offset + (long)(split * g.channels + c) * g.filters * S;
#pragma unroll
    for (int b = 0; b < SUMS; b += BATCH) {
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            if (b + i < SUMS)
                shared[i][id] = sums[(b + i) / S][(b + i) % S];
        for (int left = LANES; left > 1;) {
            const int half_left = (left + 1) / 2;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (lane + half_left < left)
#pragma unroll
                for (int i = 0; i < BATCH; i++)
                    shared[i][id] += shared[i][id + half_left];
            left = half_left;
        }
        /* The sums of a batch are where lane 0 wrote them: lane i writes the i-th. */
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = lane; i < min(BATCH, SUMS - b); i += LANES) {
            const int k = k0 + (b + i) / S, s = (b + i) % S;
            if (k < g.filters) {
                float sum = shared[i][id - lane];
                if (!isfinite(sum)) {
                    sum = 0;
                    for (int unit = start; unit < end; unit++) {
                        const mx_unit u = mx_unit_of(unit, g);
#if TILES
                        const int from = mx_tiles_of(unit, g, x_low, y_low).q, to = from + 4 * GROUP;
#else
                        const int from = u.segment * POSITIONS, to = from + POSITIONS;
#endif
                        sum = mx_exactly(x + u.x, dy + k * g.y_c + u.y, g, from, to, s, sum);
                    }
                }
                partial[k * S + s] = sum;
            }
        }
    }
}
