/* The sum of what conv_nvidia_hopper_weights.cl leaves, in order: dw = alpha * sum + beta * dw.
 *
 * parts[slot][BM][BN]; those of a tile are `tiles` apart, `splits` of them, or where `splits` is zero beside each other
 * (ON_AND_ON).  Column (tap * reduced + c) of a row: `folded` channels of each of reduced / folded taps beside each
 * other in a row of taps, of which those behind the last are zeros.
 * 256 / SHARES neighbouring runs of four columns and SHARES of the parts a group of work-items: each share is added up
 * in order, then the shares.
 * NDRange: one axis, local 256, global SHARES * (rows * columns / 4, up to a multiple of 256 / SHARES).
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 256
#endif
#ifndef SHARES /* 1 to 8; many parts need many work-items for each element */
#define SHARES 1
#endif
#include "common.h"
#include "conv_nvidia.h"

typedef struct {
    int rows, channels, taps_w; /* of dw */
    int filters, runs, reduced, folded, taps_across; /* of a group; runs of four columns in a row, taps in a row */
    int down, across, tiles, slices, splits;
    int w_k, w_c, w_h, w_w; /* strides */
    int turned; /* taps, where dw has its taps closest: neighbours take those of 32 channels; else 0 */
    mx_nv_divisor by_runs, by_filters, by_reduced, by_folded, by_taps_across, by_each, by_turned; /* 8 * turned */
} mx_nv_tiles;

#define WIDTH (256 / SHARES)

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void sum_tiles(
    __global const float *restrict parts, long parts_offset, __global STORAGE(X_TYPE) *restrict W, long w_offset,
    const mx_nv_tiles g, const float alpha, const float beta)
{
    __local float4 shares[SHARES][WIDTH];
    const int at = get_group_id(0) * WIDTH + get_local_id(0) % WIDTH, share = get_local_id(0) / WIDTH;
    const int row = mx_quotient(at, g.by_runs);
    int column = (at - row * g.runs) * 4;
    if (g.turned) {
        const int block = mx_quotient(column / 4, g.by_turned), inner = column / 4 - block * 8 * g.turned;
        column = inner / 8 * g.reduced + block * 32 + inner % 8 * 4;
    }
    const bool inside = row < g.rows;
    float4 sum = (float4)(0, 0, 0, 0);
    if (inside) {
        const int group = mx_quotient(row, g.by_filters), k = row - group * g.filters;
        const int tile = (group * g.across + column / BN) * g.down + k / BM;
        int first = tile, count = g.splits;
        if (count == 0) {
            const int begin = mx_quotient(tile * g.slices, g.by_each);
            first = begin + tile;
            count = mx_quotient((tile + 1) * g.slices - 1, g.by_each) - begin + 1;
        }
        const long step = (long)(g.splits ? g.tiles : 1) * (BM * BN);
        const int own = (count + SHARES - 1) / SHARES, end = min((share + 1) * own, count);
        parts += parts_offset + (long)first * (BM * BN) + k % BM * BN + column % BN;
#pragma unroll 4
        for (int i = share * own; i < end; i++)
            sum += *(__global const float4 *)(parts + i * step);
    }
#if SHARES > 1
    shares[share][get_local_id(0) % WIDTH] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (share != 0)
        return;
    for (int i = 1; i < SHARES; i++)
        sum += shares[i][get_local_id(0)];
#endif
    if (!inside)
        return;
    W += w_offset + (long)row * g.w_k;
    const float sums[4] = {sum.x, sum.y, sum.z, sum.w};
    const int all = mx_quotient(column, g.by_reduced), within = column - all * g.reduced;
    const int h = mx_quotient(all, g.by_taps_across), fold = mx_quotient(within, g.by_folded);
    const int w = (all - h * g.taps_across) * mx_quotient(g.reduced, g.by_folded) + fold, c = within - fold * g.folded;
    W += (long)h * g.w_h + (long)w * g.w_w + (long)c * g.w_c;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (w < g.taps_w && c + i < g.channels)
            STORE_MIXED(X_TYPE, W, i * g.w_c, sums[i], alpha, beta);
}
