/* Depthwise convolutions of signals on GPUs, one filter a channel, tiles of four columns: y = alpha * x w + beta * y.
 * Backward data with stride 1 is the same with the filter turned round, which the strides of w say.
 *
 * Grid: one axis, local GROUP, global GROUP * channels * ceil(units / each).
 *
 *      q ->  4            A work-group: GROUP tiles of a line of a channel, one unit after the other; the next one's
 *     +----+----+----+    pixels are on their way into registers meanwhile.
 *     |    |    |    |    A work-item: four columns of y.  The columns of x that they meet are read from local
 *     +----+----+----+    memory, once, the taps by all work-items of a warp alike.
 *
 * Memory: 8 * CHUNKS floats in local memory, and the filter; x and y four elements at once, aligned.
 * Bound by: memory; long filters by multiply-adds.
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
#ifndef GROUP /* work-items */
#define GROUP 256
#endif
#define TILED
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"

#include "conv/gpu/signals.h"

static inline __attribute__((always_inline)) void mx_sums(float out[4], __local const float4 *from,
                                                          __local const float4 *taps, const int shift)
{
    float in[WINDOW];
    mx_window(in, from);
#pragma unroll
    for (int i = 0; i < FLAT / 4; i++) {
        const float4 four = taps[i];
        const float tap[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (4 * i + j < S)
#pragma unroll
                for (int u = 0; u < 4; u++)
                    out[u] = fma(in[shift + u * STEP + (4 * i + j) * TAP], tap[j], out[u]);
    }
}

/* Tiles are aligned in y; z may be otherwise. */
#ifdef FUSED_Z
#define OLD_IS_ALIGNED(to) ((size_t)OLD_RESULT(X_TYPE, to) % sizeof(FOUR) == 0)
#else
#define OLD_IS_ALIGNED(to) true
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void conv_signals(
    __global const STORAGE(X_TYPE) *restrict x, long x_offset, __global const STORAGE(X_TYPE) *restrict w,
    long w_offset, __global STORAGE(X_TYPE) *restrict y, long y_offset, const mx_signal g, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(y, y_offset);
    __local float4 pixels[2][CHUNKS];
    __local float weights[FLAT] __attribute__((aligned(16)));
    __local int odd;
    const int id = get_local_id(0), c = get_group_id(0) % g.channels;
    const int start = get_group_id(0) / g.channels * g.each, end = min(start + g.each, g.units);
    x += x_offset + c * g.x_c, y += y_offset + c * g.y_c;
    const int x_low = (int)((size_t)x / sizeof(*x) & 3), y_low = (int)((size_t)y / sizeof(*y) & 3);

    FOUR held[HELD];
    mx_tiles next = mx_tiles_of(start, g, x_low, y_low);
    mx_fetch(held, x, next, g.width);
    mx_taps(weights, &odd, w + w_offset + c * g.w_k + g.w_first, g, 1);
#pragma unroll 1
    for (int unit = start; unit < end; unit++) {
        const mx_tiles t = next;
        __local float4 *here = pixels[unit & 1];
        mx_spread(here, held);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (unit + 1 < end) {
            next = mx_tiles_of(unit + 1, g, x_low, y_low);
            mx_fetch(held, x, next, g.width);
        }
        const int q = t.q + 4 * id;
        if (q <= -4 || q >= g.q)
            continue;
        float out[4] = {0, 0, 0, 0};
        here += id * STEP;
        if (odd)
#pragma unroll 1
            for (int s = 0; s < S; s++)
#pragma unroll
                for (int u = 0; u < 4; u++) {
                    if ((uint)((q + u) * STEP + g.first + s * TAP) < (uint)g.width)
                        out[u] = fma(((__local const float *)here)[t.shift + u * STEP + s * TAP], weights[s], out[u]);
                }
        else {
#define SUMS(shift) mx_sums(out, here, (__local const float4 *)weights, shift)
            SHIFTED(t.shift, SUMS)
        }
        __global STORAGE(X_TYPE) *to = y + t.y + q;
        OF_FILTER(c)
        if (q >= 0 && q + 4 <= g.q && OLD_IS_ALIGNED(to)) {
            float4 sums = SCALED_RESULT((float4)(out[0], out[1], out[2], out[3]));
            if (beta != 0) {
                const FOUR old = *(__global const FOUR *)OLD_RESULT(X_TYPE, to);
                sums += beta * FLOATS(old);
            }
            *(__global FOUR *)to =
                WORDS(FINAL_RESULT(sums.x), FINAL_RESULT(sums.y), FINAL_RESULT(sums.z), FINAL_RESULT(sums.w));
        } else
#pragma unroll
            for (int u = 0; u < 4; u++)
                if ((uint)(q + u) < (uint)g.q)
                    STORE_ONE(X_TYPE, to, u, out[u]);
    }
}
