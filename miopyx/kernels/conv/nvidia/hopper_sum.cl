/* The sum of the partial sums of conv/nvidia/hopper_weights.cl and conv/nvidia/tf32_weights.cl, in order:
 * dw = alpha * sum + beta * dw.
 *
 *   partial[slot][WG_ROWS][BN / 8][work-item][4]; a tile's slots are `tiles` slots from one to the next, `splits` of
 *   them, or next to each other where `splits` is zero (PERSISTENT).  Tiles are those from `first_tile` on.
 *
 *   work-group:  SHARES rows of work-items  x  256 / SHARES neighbouring fours of sums
 *                each share adds up its slots in order, then share 0 adds up the shares.
 *
 * IN_ROWS: partial[slot][BM][BN], and four neighbouring columns of a row are of one tap.
 *
 * Column tap * reduced + c: a tap of the product is reduced / folded taps of w in a row, `folded` channels each; those
 * behind the last are zeros.
 * Grid: one axis, local 256, global SHARES * tiles * BM * BN / 4.
 * Bound by: memory; each partial sum is read once.
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
#ifndef SCALED /* 1: X_TYPE is float, what was multiplied was scaled, with the roots of the inverse scales of channels */
#define SCALED 0
#endif
#ifndef IN_ROWS
#define IN_ROWS 0
#endif
#ifndef WG_ROWS
#define WG_ROWS 1
#endif
#ifndef DEPENDENT /* 1: groups begin while the launch that wrote `partial` ends */
#define DEPENDENT 0
#endif
#ifndef SHARES /* 1 to 8; many partial sums need many work-items for each element */
#define SHARES 1
#endif
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/hopper_args.h"

#define WIDTH (256 / SHARES)
#define FOURS (BM * BN / 4) /* of a tile */
#define ITEMS (BM / WG_ROWS * 2) /* that multiplied it */

#if DEPENDENT /* memory that is written while groups wait is not read-only */
#define PARTIAL __global float *
#else
#define PARTIAL __global const float *restrict
#endif

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void sum_tiles(
    PARTIAL partial, long partial_offset, __global STORAGE(X_TYPE) *restrict W, long w_offset,
    const mx_nv_tile_sum g, const float alpha, const float beta
#if SCALED
    , __global const float *restrict roots, long roots_offset, const int filter_roots_at
#endif
)
{
    __local float4 shares[SHARES][WIDTH];
    const int at = get_group_id(0) * WIDTH + get_local_id(0) % WIDTH, share = get_local_id(0) / WIDTH;
    const int number = at / FOURS, tile = number + g.first_tile, above = mx_quotient(tile, g.by_down);
    const int group = mx_quotient(above, g.by_across);
#if IN_ROWS
    const int four = at % FOURS, k = (tile - above * g.down) * BM + four / (BN / 4);
    const int column = (above - group * g.across) * BN + four % (BN / 4) * 4;
#else
    /* Eight neighbours hold the same columns of two rows, and four times eight the next columns. */
    const int item = at % 8 + at % FOURS / 32 % (ITEMS / 8) * 8;
    const int i = at / 8 % 4 + at % FOURS / 32 / (ITEMS / 8) * 4;
    const int four = i * ITEMS + item;
    const int k = (tile - above * g.down) * BM + item / 128 * (WG_ROWS * 64) + i / (BN / 8) * 64 + item / 32 % 4 * 16
                  + item % 32 / 4;
    const int column = (above - group * g.across) * BN + i % (BN / 8) * 8 + item % 4 * 2;
#endif
    const bool inside = k < g.filters && column < g.columns;
    float4 sum = (float4)(0, 0, 0, 0);
#if DEPENDENT
    MX_WAIT_FOR_LAST();
#endif
    if (inside) {
        int first = number, count = g.splits;
        if (count == 0) {
            const int begin = mx_quotient(tile * g.slices, g.by_split_slices);
            first = begin + number;
            count = mx_quotient((tile + 1) * g.slices - 1, g.by_split_slices) - begin + 1;
        }
        const long step = (long)(g.splits ? g.tiles : 1) * FOURS;
        const int own = (count + SHARES - 1) / SHARES, end = min((share + 1) * own, count);
        __global const float4 *from =
            (__global const float4 *)(partial + partial_offset) + (long)first * FOURS + four;
#pragma unroll 4
        for (int split = share * own; split < end; split++)
            sum += from[split * step];
    }
#if SHARES > 1
    shares[share][get_local_id(0) % WIDTH] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (share != 0)
        return;
    for (int other = 1; other < SHARES; other++)
        sum += shares[other][get_local_id(0)];
#endif
    if (!inside)
        return;
    const int all = mx_quotient(column, g.by_reduced), within = column - all * g.reduced;
    const int h = mx_quotient(all, g.by_taps_across), fold = mx_quotient(within, g.by_folded);
    const int w = (all - h * g.taps_across) * mx_quotient(g.reduced, g.by_folded) + fold, c = within - fold * g.folded;
    W += w_offset + (long)(group * g.filters + k) * g.w_k + (long)h * g.w_h + (long)w * g.w_w + (long)c * g.w_c;
#if SCALED
    const float unscaled[4] = {sum.x, sum.y, sum.z, sum.w};
    roots += roots_offset;
    for (int l = 0; l < 4; l++)
        if (c + l % 2 < g.channels && k + l / 2 * 8 < g.filters && w < g.taps_w) {
            const float root = roots[filter_roots_at + group * g.filters + k + l / 2 * 8]
                               * roots[group * g.channels + c + l % 2];
            STORE_MIXED(X_TYPE, W, (long)(l / 2 * 8) * g.w_k + l % 2 * g.w_c, unscaled[l] * root * root, alpha, beta);
        }
#elif IN_ROWS
    if (g.w_c == 1 && beta == 0 && ((ulong)W & 15) == 0) {
        *(__global float4 *)W = alpha * sum;
        return;
    }
    const float sums[4] = {sum.x, sum.y, sum.z, sum.w};
    for (int l = 0; l < 4; l++)
        STORE_MIXED(X_TYPE, W, l * g.w_c, sums[l], alpha, beta);
#else
    const float sums[4] = {alpha * sum.x, alpha * sum.y, alpha * sum.z, alpha * sum.w};
    const bool pairs = g.w_c == 1 && c + 1 < g.channels && beta == 0
                       && (((ulong)W | g.w_k * sizeof(*W)) & (2 * sizeof(*W) - 1)) == 0;
#pragma unroll
    for (int l = 0; l < 4; l += 2) {
        __global STORAGE(X_TYPE) *to = W + (long)(l * 4) * g.w_k;
        if (w >= g.taps_w || k + l * 4 >= g.filters)
            continue;
        if (pairs) {
#if MX_TYPE(X_TYPE) == MX_TYPE_float
            *(__global float2 *)to = (float2)(sums[l], sums[l + 1]);
#else
            uint word;
            MX_ROUND_PAIR(word, sums[l], sums[l + 1]);
            *(__global uint *)to = word;
#endif
        } else {
            for (int e = 0; e < 2; e++)
                if (c + e < g.channels)
                    STORE_MIXED(X_TYPE, to, e * g.w_c, sums[l + e], 1, beta);
        }
    }
#endif
}
