/* Depthwise convolutions with large filters on GPUs, rows contiguous: y = alpha * x w + beta * y.  Backward data is the
 * same with the filter turned round, which the strides of w say.
 *
 * Grid: one axis, local GROUP, global GROUP * wide * high * channels * ceil(images / together).
 *
 *     q ->  TW                           A work-group: `across` times `down` tiles of `together` images of a channel,
 *     +----+----+----+                   whose pixels of x are in local memory, with zeros left and right.
 *   p | TH |    |    |  down             A work-item: TH x TW pixels of y.  A row of x is read once, WINDOW columns, and
 *     +----+----+----+                   meets up to TH rows of the filter, which are the same for all work-items.
 *         across
 *
 * Work-items with equal rows are neighbours, whatever their image is, so that rows above and below x cost nothing.  Each
 * row of the filter is summed by itself.  A filter that is not finite would make NaN of the zeros: then each product is
 * asked whether its pixel is inside.
 * Memory: PIXELS floats in local memory, and the filter.
 * Bound by: multiply-adds.
 */
#ifndef X_TYPE /* half, bfloat16 or float */
#define X_TYPE float
#endif
#ifndef TH /* rows and columns (TW) of a tile */
#define TH 4
#define TW 4
#endif
#ifndef R /* taps: rows; S: columns */
#define R 31
#define S 31
#endif
#ifndef STEP_H /* stride */
#define STEP_H 1
#define STEP_W 1
#endif
#ifndef TAP_H /* dilation */
#define TAP_H 1
#define TAP_W 1
#endif
#ifndef PIXELS /* floats in local memory, a multiple of 4 */
#define PIXELS 4928
#endif
#ifndef GROUP /* work-items */
#define GROUP 224
#endif
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"

#include "conv/gpu/depthwise_args.h"
#include "include/quotient.h"

#define FOURS(n) (((n) + 3) / 4 * 4)
#define ROWS ((TH - 1) * STEP_H + (R - 1) * TAP_H + 1)
#define WINDOW FOURS((TW - 1) * STEP_W + (S - 1) * TAP_W + 1)
#define FLAT FOURS(S) /* between the filter's rows */

/* `count` floats, a multiple of 4, four at once where `aligned`; not a function, whose loop would not know its count. */
#define TAKE(to, from, count, aligned)                                                                          \
    for (int i = 0; i < (count); i += 4)                                                                        \
        if (aligned) {                                                                                          \
            const float4 four = *(__local const float4 *)((from) + i);                                          \
            (to)[i] = four.x, (to)[i + 1] = four.y, (to)[i + 2] = four.z, (to)[i + 3] = four.w;                  \
        } else                                                                                                  \
            (to)[i] = (from)[i], (to)[i + 1] = (from)[i + 1], (to)[i + 2] = (from)[i + 2], (to)[i + 3] = (from)[i + 3]

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void conv_depthwise_large(
    __global const STORAGE(X_TYPE) *restrict x, long x_offset, __global const STORAGE(X_TYPE) *restrict w,
    long w_offset, __global STORAGE(X_TYPE) *restrict y, long y_offset, const mx_depthwise_large g,
    EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(y, y_offset);
    __local float pixels[PIXELS] __attribute__((aligned(16)));
    __local float weights[R * FLAT] __attribute__((aligned(16)));
    __local int odd;
    const int id = get_local_id(0);
    int rest = get_group_id(0) / g.wide;
    const int q0 = (get_group_id(0) - rest * g.wide) * g.across * TW;
    const int p0 = rest % g.high * g.down * TH;
    rest /= g.high;
    const int c = rest % g.channels, n0 = rest / g.channels * g.together;
    const int images = min(g.together, g.images - n0), size = g.rows * g.pitch;
    const int top = max(p0 * STEP_H + g.first_h, 0), left = q0 * STEP_W + g.first_w;

    x += x_offset + n0 * g.x_n + c * g.x_c, w += w_offset + c * g.w_k + g.w_first, y += y_offset + c * g.y_c;
    if (id == 0)
        odd = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = id; i < R * S; i += GROUP) {
        const int r = i / S, s = i % S;
        const float value = LOAD(X_TYPE)(w, r * g.w_r + s * g.w_s);
        weights[r * FLAT + s] = value;
        if (!isfinite(value))
            odd = 1;
    }
    /* Bits are masked, since a choice between a load and zero would become a branch that waits for each. */
#pragma unroll 4
    for (int i = id; i < images * size; i += GROUP) {
        const int line = mx_quotient(i, g.by_pitch), n = mx_quotient(line, g.by_rows);
        const int row = top + line - n * g.rows, col = left + i - line * g.pitch;
        const float value = LOAD(X_TYPE)(x, n * g.x_n + min(row, g.h - 1) * g.x_h + clamp(col, 0, g.w - 1));
        pixels[i] = as_float(as_uint(value) & (((row < g.h) & ((uint)col < (uint)g.w)) ? 0xffffffffu : 0u));
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    const int line = mx_quotient(id, g.by_across), down = mx_quotient(line, g.by_together);
    const int across = id - line * g.across, n = line - down * g.together;
    const int p = p0 + down * TH, q = q0 + across * TW;
    if (down >= g.down || n >= images || p >= g.p || q >= g.q)
        return;
    const int first = p * STEP_H + g.first_h, before = q * STEP_W + g.first_w;
    __local const float *image = pixels + n * size + (first - top) * g.pitch + across * TW * STEP_W;
    float out[TH][TW];
#pragma unroll
    for (int t = 0; t < TH; t++)
#pragma unroll
        for (int u = 0; u < TW; u++)
            out[t][u] = 0;
    if (odd)
#pragma unroll 1
        for (int row = max(-first, 0); row < min(ROWS, g.h - first); row++)
#pragma unroll 1
            for (int s = 0; s < S; s++)
#pragma unroll
                for (int t = 0; t < TH; t++) {
                    const int tap = row - t * STEP_H;
#pragma unroll
                    for (int u = 0; u < TW; u++) {
                        const int col = u * STEP_W + s * TAP_W;
                        if (tap >= 0 && tap <= (R - 1) * TAP_H && tap % TAP_H == 0 && (uint)(before + col) < (uint)g.w)
                            out[t][u] =
                                fma(image[row * g.pitch + col], weights[tap / TAP_H * FLAT + s], out[t][u]);
                    }
                }
    else
#pragma unroll 1
        for (int row = 0; row < ROWS; row++) {
            if ((uint)(first + row) >= (uint)g.h)
                continue;
            float in[WINDOW];
#pragma unroll
            TAKE(in, image + row * g.pitch, WINDOW, TW * STEP_W % 4 == 0);
#pragma unroll
            for (int t = 0; t < TH; t++) {
                const int tap = row - t * STEP_H;
                if (tap >= 0 && tap <= (R - 1) * TAP_H && tap % TAP_H == 0) {
                    float taps[FLAT], sums[TW];
#pragma unroll
                    TAKE(taps, weights + tap / TAP_H * FLAT, FLAT, true);
#pragma unroll
                    for (int s = 0; s < S; s++)
#pragma unroll
                        for (int u = 0; u < TW; u++)
                            sums[u] = s == 0 ? in[u * STEP_W] * taps[0]
                                             : fma(in[u * STEP_W + s * TAP_W], taps[s], sums[u]);
#pragma unroll
                    for (int u = 0; u < TW; u++)
                        out[t][u] += sums[u];
                }
            }
        }
    y += (n0 + n) * g.y_n;
#pragma unroll
    for (int t = 0; t < TH; t++) {
        OF_FILTER(c)
#pragma unroll
        for (int u = 0; u < TW; u++)
            if (p + t < g.p && q + u < g.q)
                STORE_ONE(X_TYPE, y, (p + t) * g.y_h + q + u, out[t][u]);
    }
}
