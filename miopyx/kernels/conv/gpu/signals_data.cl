/* Backward data of signals on GPUs, any stride: dx = alpha * dy w + beta * dx, one channel a group.
 *
 * Grid: one axis, local GROUP, global GROUP * units * channels.
 *
 *     A work-group: `own` columns of dx, and the POSITIONS = GROUP * COLUMNS columns of dy that meet them.
 *     A work-item: COLUMNS columns of dy, GROUP apart, which are read once, with S sums over all filters for each.
 *
 * The sums are then added to columns of dx in local memory, tap by tap: columns of dy meet different ones at a tap.  A
 * column of dy that is outside is read elsewhere, and its sums are not added.
 * Memory: WEIGHTS + (POSITIONS - 1) * STEP + REACH + 1 floats in local memory.
 * Bound by: reading dy.
 */
#ifndef X_TYPE /* half, bfloat16 or float */
#define X_TYPE float
#endif
#ifndef S /* taps, 1 to 64 */
#define S 10
#endif
#ifndef STEP /* stride */
#define STEP 5
#endif
#ifndef TAP /* dilation */
#define TAP 1
#endif
#ifndef COLUMNS /* of dy, of a work-item */
#define COLUMNS 2
#endif
#ifndef WEIGHTS /* floats of taps in local memory at once */
#define WEIGHTS 2048
#endif
#ifndef GROUP /* work-items */
#define GROUP 256
#endif
#include "include/common.h"

#include "conv/gpu/signals.h"

#define POSITIONS (GROUP * COLUMNS)
#define LENGTH ((POSITIONS - 1) * STEP + REACH + 1)
#define TOGETHER (WEIGHTS / FLAT) /* filters at once */

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void conv_signals_data(
    __global const STORAGE(X_TYPE) *restrict dy, long y_offset, __global const STORAGE(X_TYPE) *restrict w,
    long w_offset, __global STORAGE(X_TYPE) *restrict dx, long x_offset, const mx_signal g, const float alpha,
    const float beta)
{
    __local float weights[WEIGHTS] __attribute__((aligned(16)));
    __local float pixels[LENGTH];
    __local int odd; /* nobody asks: nothing here is multiplied by zeros */
    const int id = get_local_id(0), c = get_group_id(0) % g.channels;
    const mx_unit unit = mx_unit_of(get_group_id(0) / g.channels, g);
    const int from = unit.segment * g.own, before = from - g.first - REACH;
    const int q0 = before >= 0 ? before / STEP : -((STEP - 1 - before) / STEP);
    const int k0 = c * g.filters;
    dy += y_offset + k0 * g.y_c + unit.y, w += w_offset + k0 * g.w_k, dx += x_offset + c * g.x_c + unit.x;

    int at[COLUMNS];
    float sums[COLUMNS][S];
#pragma unroll
    for (int u = 0; u < COLUMNS; u++) {
        at[u] = clamp(q0 + id + u * GROUP, 0, g.q - 1);
#pragma unroll
        for (int s = 0; s < S; s++)
            sums[u][s] = 0;
    }
#pragma unroll 1
    for (int k = 0; k < g.filters; k += TOGETHER) {
        const int count = min(TOGETHER, g.filters - k);
        mx_taps(weights, &odd, w + k * g.w_k, g, count);
#pragma unroll 4
        for (int f = 0; f < count; f++, dy += g.y_c) {
            float out[COLUMNS];
#pragma unroll
            for (int u = 0; u < COLUMNS; u++)
                out[u] = LOAD(X_TYPE)(dy, at[u]);
#pragma unroll
            for (int i = 0; i < FLAT / 4; i++) {
                const float4 four = ((__local const float4 *)weights)[f * (FLAT / 4) + i];
                const float tap[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (4 * i + j < S)
#pragma unroll
                        for (int u = 0; u < COLUMNS; u++)
                            sums[u][4 * i + j] = fma(out[u], tap[j], sums[u][4 * i + j]);
            }
        }
    }

    for (int i = id; i < LENGTH; i += GROUP)
        pixels[i] = 0;
#pragma unroll
    for (int s = 0; s < S; s++) {
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int u = 0; u < COLUMNS; u++)
            if (at[u] == q0 + id + u * GROUP)
                pixels[(id + u * GROUP) * STEP + s * TAP] += sums[u][s];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = id; i < min(g.own, g.width - from); i += GROUP)
        STORE_MIXED(X_TYPE, dx, from + i, pixels[from + i - g.first - q0 * STEP], alpha, beta);
}
