/* The sum of split-K's partial sums of backward weights: dw = alpha * sum + beta * dw, in a fixed order on any device.
 *
 *   partial[split][row][tap * partial_tap + c * partial_c], rows of all groups, `pitch` elements each.
 *
 *   work-group:  SHARES rows of work-items  x  256 / SHARES neighbouring elements of dw
 *                share s adds up splits s * n .. (s + 1) * n - 1 in order; then share 0 adds up the shares in order.
 *
 * sum_partial_turned: where channels are neighbours among the partial sums (partial_c is 1) and taps are in dw.
 *   work-group:  a row's 64 channels with all taps; sums are added up as they lie and go to dw by local memory
 *
 * Grid: one axis, local 256, global SHARES * (elements of dw, up to a multiple of 256 / SHARES), or
 * 256 * rows * (channels / 64, rounded up).
 * Local memory: one float a work-item, or 64 channels of MOST_TAPS.
 * Bound by: memory; each partial sum is read once.
 */
#ifndef X_TYPE
#define X_TYPE float
#endif
#ifndef SHARES /* 1 to 8; many splits need many work-items for each element */
#define SHARES 1
#endif
#include "include/common.h"
#include "conv/nvidia/conv_args.h"


#define WIDTH (256 / SHARES)

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void sum_partial(
    __global const float *restrict partial, long partial_offset, __global STORAGE(X_TYPE) *restrict W, long w_offset,
    const mx_nv_sum g, const float alpha, const float beta)
{
    __local float shares[SHARES][WIDTH];
    const int taps = g.taps_h * g.taps_w, columns = g.channels * taps, all = g.rows * columns;
    const int at = get_group_id(0) * WIDTH + get_local_id(0) % WIDTH, share = get_local_id(0) / WIDTH;
    /* Neighbours among the elements are neighbours among the partial sums. */
    int c, tap, row = at / columns;
    const int column = at - row * columns;
    if (g.partial_c == 1) {
        tap = column / g.channels;
        c = column - tap * g.channels;
    } else {
        c = column / taps;
        tap = column - c * taps;
    }
    float sum = 0;
    if (at < all) {
        const long step = (long)g.rows * g.pitch;
        partial += partial_offset + (long)row * g.pitch + tap * g.partial_tap + c * g.partial_c;
        const int each = (g.splits + SHARES - 1) / SHARES, end = min((share + 1) * each, g.splits);
#pragma unroll 8
        for (int i = share * each; i < end; i++)
            sum += partial[i * step];
    }
    shares[share][get_local_id(0) % WIDTH] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (share != 0 || at >= all)
        return;
    for (int i = 1; i < SHARES; i++)
        sum += shares[i][get_local_id(0)];
    W += w_offset;
    const long place = (long)row * g.w_k + (long)c * g.w_c + tap / g.taps_w * g.w_h + tap % g.taps_w * g.w_w;
    STORE_MIXED(X_TYPE, W, place, sum, alpha, beta);
}

#define MOST_TAPS 27
#define PITCH 65

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void sum_partial_turned(
    __global const float *restrict partial, long partial_offset, __global STORAGE(X_TYPE) *restrict W, long w_offset,
    const mx_nv_sum g, const float alpha, const float beta)
{
    __local float sums[MOST_TAPS * PITCH];
    const int item = get_local_id(0), taps = g.taps_h * g.taps_w, chunks = (g.channels + 63) / 64;
    const int row = get_group_id(0) / chunks, c0 = (get_group_id(0) - row * chunks) * 64;
    const int count = min(64, g.channels - c0), c = item & 63;
    const long step = (long)g.rows * g.pitch;
    partial += partial_offset + (long)row * g.pitch + c0 + c;
    for (int tap = item >> 6; tap < taps; tap += 4) {
        float sum = 0;
        if (c < count)
#pragma unroll 4
            for (int i = 0; i < g.splits; i++)
                sum += partial[i * step + tap * g.partial_tap];
        sums[tap * PITCH + c] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    W += w_offset + (long)row * g.w_k + (long)c0 * g.w_c;
    for (int i = item; i < count * taps; i += 256) {
        const int own = i / taps, tap = i - own * taps;
        const long place = (long)own * g.w_c + tap / g.taps_w * g.w_h + tap % g.taps_w * g.w_w;
        STORE_MIXED(X_TYPE, W, place, sums[tap * PITCH + own], alpha, beta);
    }
}
