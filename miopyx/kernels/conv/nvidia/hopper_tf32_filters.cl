/* Filters for conv/nvidia/hopper_tf32.cl: rounded to TF32, and in local memory's own order, so that a slice is one copy.
 *
 *     to[phase][group][block of BF filters][slice][BF rows of 32 floats]
 *
 * A slice has 32 numbers of K = (tap, channel); zeros behind the last filter and the last channel of the last tap.
 * Its rows are the columns of the product, of each 16 in the order in which a work-item has four neighbours; numbers of
 * a row are in the order in which a work-item of the product reads eight neighbours of x, or pairs (K_IN_PAIRS), or as
 * they are (K_IN_ORDER); chunk c of 16 bytes of row r is at c ^ (r % 8), the swizzle of wgmma.
 * Grid: one axis, local 256: 32 channels of 8 rows, all taps of all phases.
 * Bound by: launching; reading w, whose taps a work-item finds in the L1.
 */
#ifndef BF
#define BF 128
#endif
#ifndef K_IN_ORDER
#define K_IN_ORDER 0
#endif
#ifndef K_IN_PAIRS
#define K_IN_PAIRS 0
#endif
#define X_TYPE float
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/hopper_tf32_args.h"

/* Offsets within a slice, in floats, of a number of K, and of the filter of a block. */
static inline int mx_in_slice(int row, int k)
{
    /* K-steps of 8; lane k / 8 has 8 neighbours.  In pairs: step k / 8, of which lane k % 8 / 2 has two neighbours. */
    const int position = K_IN_ORDER ? k
                         : K_IN_PAIRS ? k / 8 * 8 + k % 2 * 4 + k % 8 / 2
                                      : (k % 8 / 2) * 8 + k % 2 * 4 + k / 8;
    return row * 32 + ((position / 4 ^ row % 8) * 4) + position % 4;
}

static inline int mx_column(int filter)
{
    return filter / 16 * 16 + filter % 4 / 2 * 8 + filter % 16 / 4 * 2 + filter % 2;
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void round_filters(
    __global const float *restrict from, long from_offset, __global float *restrict to, long to_offset,
    const mx_nv_tf32_filters g)
{
    const int item = get_local_id(0), across = (g.channels + 31) / 32, number = get_group_id(0);
    const int line = number / across, c = (number - line * across) * 32 + item % 32;
    const int filter_of_all = line * 8 + item / 32, group = mx_quotient(filter_of_all, g.by_rows);
    const int filter = filter_of_all - group * (g.blocks * BF), row = mx_column(filter % BF);
    const bool valid = filter < g.filters;
    if (group >= g.groups)
        return;
    from += from_offset + group * g.from_g + filter * g.from_k + c * g.from_c;
    to += to_offset;
#pragma unroll 1
    for (int phase = 0; phase < g.count; phase++) {
        const mx_nv_phase own = g.phases[phase];
        const int all = own.taps_h * own.taps_w * g.channels, slices = (all + 31) / 32;
        __global float *block = to + g.to[phase] + (long)(group * g.blocks + filter / BF) * slices * (BF * 32);
        int k = c;
        for (int i = 0; i < own.taps_h; i++)
            for (int j = 0; j < own.taps_w; j++) {
                if (c < g.channels) {
                    const float value = valid ? from[own.w_first + i * g.from_h + j * g.from_w] : 0.0f;
                    block[k / 32 * (BF * 32) + mx_in_slice(row, k % 32)] = as_float(mx_nearest(as_uint(value)));
                }
                k += g.channels;
            }
        if (all + c < slices * 32)
            block[(slices - 1) * (BF * 32) + mx_in_slice(row, (all + c) % 32)] = 0;
    }
}
