/* Winograd convolutions with stride 1 for CPU devices: backward weights.
 *
 * The filter's gradient is what a filter as large as a tile of dy has to say about a tile of x: with TILE outputs and
 * TAPS taps in each other's places, the points are the same.  Both sides come transformed from winograd_tiles, x as
 * an input and dy as a filter; here they are multiplied, summed over all tiles, and transformed back.
 * NDRange: local (1, 1, 1), global
 *     winograd_weights:        (blocks of c * blocks of k, FUSED ? 1 : points, groups * taps along the depth)
 *     winograd_output: (vectors of c, k, groups * taps along the depth), after FUSED 0
 * Ownership: a work-item, alone in its group, sums BLOCK filters times VECTORS vectors of channels over all tiles in
 * their order, of one point or of all, so that results do not depend on the number of cores.
 * Memory: tiles of x and dy as [group][slice][block][point][tile][channel]; sums of FUSED 0 as
 * [group][tap along the depth][point][k][channel].
 * An Inf or NaN of an input reaches all taps of its channel's filters.
 */
#ifndef KERNELS /* what to build: 1 winograd_weights, 2 winograd_output */
#define KERNELS 3
#endif
#ifndef FUSED /* 1: a work-item has all points of its sums and stores the gradient itself */
#define FUSED 0
#endif
#ifndef BLOCK /* filters of a block, even */
#define BLOCK 64
#endif
#include "conv/cpu/winograd.h"

/* One filter's taps of VEC channels, at one place along the depth, from the sums of its points. */
NOINLINE void store_filter(const vec *sums, const int step, __global STORAGE(TYPE) *w, const mx_winograd *g, long group,
                        long tap_d, long k, long c, const SCALAR alpha, const SCALAR beta)
{
    const long filter = g->taps_d * TAPS, tap0 = tap_d * TAPS;
    const int lanes = (int)min(g->c - c, (long)VEC);
    vec t[TAPS_H * POINTS_W], taps[TAPS > VEC ? TAPS + VEC : VEC];
#pragma unroll
    for (int j = 0; j < POINTS_W; j++)
        output_transform(POINTS_H, TAPS_H, sums + j * step, POINTS_W * step, t + j, POINTS_W);
#pragma unroll
    for (int i = 0; i < TAPS_H; i++)
        output_transform(POINTS_W, TAPS_W, t + i * POINTS_W, 1, taps + i * TAPS_W, 1);
#if CHANNELS_LAST
    for (int i = 0; i < TAPS; i++)
        store_first(w + ((group * g->k + k) * filter + tap0 + i) * g->c + c, taps[i], lanes, alpha, beta);
#else
    store_lanes(w + ((group * g->k + k) * g->c + c) * filter + tap0, filter, lanes, TAPS, taps, alpha, beta);
#endif
}

#if KERNELS & 1

#if !FUSED
#define MOST_BLOCKS 256 /* of tiles, whose sums are added up before these are added to totals */
DEFINE_LONG_SUMS(vec)
#endif

#define FILTERS __global
#define A_ROW_STEP(row) 1
#define A_STEP(row) (row)
#include "conv/cpu/winograd_multiply.h"

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void winograd_weights(
    __global const ACC *restrict V, long V_offset, __global const ACC *restrict D, long D_offset,
#if FUSED
    __global STORAGE(TYPE) *restrict w, long w_offset, const mx_winograd g, const mx_winograd d,
    const SCALAR alpha, const SCALAR beta)
#else
    __global ACC *restrict M, long M_offset, const mx_winograd g, const mx_winograd d, long more)
#endif
{
    const long vectors = DIVIDE_UP(g.c, VEC), c_blocks = DIVIDE_UP(vectors, VECTORS);
    const long c_block = get_group_id(0) % c_blocks, k = get_group_id(0) / c_blocks * BLOCK;
    const long group = get_group_id(2) / g.taps_d, tap_d = get_group_id(2) % g.taps_d;
    const long v0 = c_block * vectors / c_blocks;
    const int used = (int)((c_block + 1) * vectors / c_blocks - v0);
    const long filters = min(g.k - k, (long)BLOCK), rows = max((filters + 1) / 2 * 2, 4L);
    const long blocks = DIVIDE_UP(g.tiles, g.block);
#if FUSED
    const int first = 0, last = POINTS;
#else
    const int first = get_group_id(1), last = first + 1;
#endif
    vec sums[(FUSED ? POINTS : 1) * POINT_SUMS];
#if !FUSED
    vec totals[POINT_SUMS * 3];
    long added = 0;
    int settled = 0;
#endif
    int any = 0;
    for (long slice = 0; slice < g.out_slices; slice++) {
        const long source = source_slice(&g, slice, tap_d);
        for (long block = 0; block < blocks && source >= 0; block++, any = 1) {
            const long depth = min(g.tiles - block * g.block, g.block);
#if !FUSED
            if (added++ == MOST_BLOCKS) {
                settle(settled, sums, totals, rows * VECTORS);
                settled++;
                added = 1;
            }
#endif
            const long x_at = ((group * g.slices + source) * blocks + block) * POINTS;
            const long y_at = ((group * g.out_slices + slice) * blocks + block) * POINTS;
            for (int e = first; e < last; e++)
                multiply(sums + (e - first) * POINT_SUMS, D + D_offset + (y_at + e) * d.point + k, d.row,
                         V + V_offset + (x_at + e) * g.point + v0 * VEC, g.row, depth, rows, used, any);
        }
    }
    for (int i = 0; i < (last - first) * POINT_SUMS && !any; i++)
        sums[i] = zero_vector();
#if FUSED
    for (int i = 0; i < filters; i++)
        for (int j = 0; j < used; j++)
            store_filter(sums + i * VECTORS + j, POINT_SUMS, w + w_offset, &g, group, tap_d, k + i, (v0 + j) * VEC,
                         alpha, beta);
#else
    if (settled > 0)
        complete(settled, sums, totals, rows * VECTORS);
    M += M_offset + ((get_group_id(2) * POINTS + first) * g.k + k) * g.row + v0 * VEC;
    for (int i = 0; i < filters; i++, M += g.row)
        for (int j = 0; j < used; j++) {
            const vec sum = sums[i * VECTORS + j];
            STORE_ACC(more ? LOAD_ACC(j, M) + sum : sum, j, M);
        }
#endif
}

#endif
#if KERNELS & 2

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void winograd_output(
    __global const ACC *restrict M, long M_offset, __global STORAGE(TYPE) *restrict w, long w_offset,
    const mx_winograd g, const SCALAR alpha, const SCALAR beta)
{
    const long c = get_group_id(0) * VEC, k = get_group_id(1);
    const long group = get_group_id(2) / g.taps_d, tap_d = get_group_id(2) % g.taps_d;
    vec sums[POINTS];
    M += M_offset + (get_group_id(2) * POINTS * g.k + k) * g.row + c;
    for (int e = 0; e < POINTS; e++, M += g.k * g.row)
        sums[e] = LOAD_ACC(0, M);
    store_filter(sums, 1, w + w_offset, &g, group, tap_d, k, c, alpha, beta);
}

#endif
