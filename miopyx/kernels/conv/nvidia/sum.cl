/* The sum of split-K's partial sums of backward weights: dw = alpha * sum + beta * dw, in a fixed order on any device.
 *
 *   partial[split][row][tap * partial_tap + c * partial_c], rows of all groups, `pitch` elements each.
 *
 *   work-group:  SHARES rows of work-items  x  256 / SHARES neighbouring elements of dw
 *                share s adds up splits s * n .. (s + 1) * n - 1 in order; then share 0 adds up the shares in order.
 *
 * Grid: one axis, local 256, global SHARES * (elements of dw, up to a multiple of 256 / SHARES).
 * Local memory: one float a work-item.
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
