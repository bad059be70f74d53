/* Many filters on one channel, signals on GPUs: y = alpha * x w + beta * y; any stride and dilation.
 *
 * Grid: one axis, local GROUP, global GROUP * units * blocks * channels.
 *
 *     A work-group: GROUP * TW columns of a line of y, for `each` filters of a channel, whose taps are in local memory.
 *     A work-item: TW columns, GROUP apart.  What they meet of x stays in registers; one filter after the other.
 *
 * Memory: WEIGHTS floats in local memory; neighbouring work-items write neighbouring elements.
 * Bound by: writing y.
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
#ifndef TW /* columns of a work-item */
#define TW 4
#endif
#ifndef WEIGHTS /* floats of taps in local memory: `each` filters, each a multiple of 4 */
#define WEIGHTS 2048
#endif
#ifndef GROUP /* work-items */
#define GROUP 256
#endif
#include "include/common.h"

#include "conv/gpu/signals.h"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void conv_signals_filters(
    __global const STORAGE(X_TYPE) *restrict x, long x_offset, __global const STORAGE(X_TYPE) *restrict w,
    long w_offset, __global STORAGE(X_TYPE) *restrict y, long y_offset, const mx_signal g, const float alpha,
    const float beta)
{
    __local float weights[WEIGHTS] __attribute__((aligned(16)));
    __local int odd;
    const int rest = get_group_id(0) / g.blocks, c = rest % g.channels;
    const int k0 = (get_group_id(0) - rest * g.blocks) * g.each, count = min(g.each, g.filters - k0);
    const mx_unit unit = mx_unit_of(rest / g.channels, g);
    const int q0 = unit.segment * GROUP * TW + get_local_id(0), k = c * g.filters + k0;
    x += x_offset + c * g.x_c + unit.x, y += y_offset + k * g.y_c + unit.y + q0;

    float in[TW][S];
#pragma unroll
    for (int u = 0; u < TW; u++)
#pragma unroll
        for (int s = 0; s < S; s++)
            in[u][s] = mx_element(x, (q0 + u * GROUP) * STEP + g.first + s * TAP, g.width);
    mx_taps(weights, &odd, w + w_offset + k * g.w_k + g.w_first, g, count);
    if (odd) {
#pragma unroll 1
        for (int f = 0; f < count; f++, y += g.y_c)
#pragma unroll
            for (int u = 0; u < TW; u++) {
                float sum = 0;
#pragma unroll
                for (int s = 0; s < S; s++)
                    if ((uint)((q0 + u * GROUP) * STEP + g.first + s * TAP) < (uint)g.width)
                        sum = fma(in[u][s], weights[f * FLAT + s], sum);
                if (q0 + u * GROUP < g.q)
                    STORE_MIXED(X_TYPE, y, u * GROUP, sum, alpha, beta);
            }
        return;
    }
#pragma unroll 2
    for (int f = 0; f < count; f++, y += g.y_c) {
        float sums[TW];
#pragma unroll
        for (int u = 0; u < TW; u++)
            sums[u] = 0;
#pragma unroll
        for (int i = 0; i < FLAT / 4; i++) {
            const float4 four = ((__local const float4 *)weights)[f * (FLAT / 4) + i];
            const float tap[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (4 * i + j < S)
#pragma unroll
                    for (int u = 0; u < TW; u++)
                        sums[u] = fma(in[u][4 * i + j], tap[j], sums[u]);
        }
#pragma unroll
        for (int u = 0; u < TW; u++)
            if (q0 + u * GROUP < g.q)
                STORE_MIXED(X_TYPE, y, u * GROUP, sums[u], alpha, beta);
    }
}
