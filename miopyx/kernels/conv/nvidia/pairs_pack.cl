/* Before and after conv/nvidia/pairs.cl.
 *
 * pack_pairs: weights into pairs of halves, in blocks of 64 rows as local memory has them.
 *     packed[group][block][tap][K-slice of 64 channels][hi, lo][row of 64][64 halves], zeros behind the last row and
 *     channel; scales[group][row] undoes the row's power of two.  Rows: filters; channels for backward data.
 *     Grid: one axis, local 128, global 128 * groups * rows, rows up to a multiple of 64: a work-group has one row.
 * join_phases: dx of a strided convolution from one packed plane a phase of the stride, zeros for phases without taps.
 *     Grid: one axis, local 256, global columns / vector * rows * ceil(images / IMAGES) or more: a work-item has
 *     `vector` neighbours at the same place of IMAGES images.
 * Both are bound by memory.
 */
#ifndef AXES /* 2 or 3 */
#define AXES 2
#endif
#define X_TYPE float
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/pairs.h"
#include "conv/nvidia/pairs_args.h"

__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void pack_pairs(
    __global const float *restrict W, long w_offset, __global float *restrict packs, long packs_offset,
    __global float *restrict scales, long scales_offset, const mx_nv_filters g)
{
    __local float mosts[128];
    const int item = get_local_id(0), block = get_group_id(0) / 64, r = get_group_id(0) % 64;
    const int blocks = (g.rows + 63) / 64, group = block / blocks, row = (block - group * blocks) * 64 + r;
    const int taps = g.taps_h * g.taps_w, c_slices = (g.channels + 63) / 64;

    W += w_offset + (long)group * g.from_g + (long)row * g.from_row;
    __global uint4 *packed = mx_packed(packs + packs_offset);
    float most = 0;
    if (row < g.rows)
        for (int i = item; i < taps * g.channels; i += 128) {
            const int c = i / taps, tap = i - c * taps, h = tap / g.taps_w;
            most = fmax(most, fabs(W[(long)c * g.from_c + h * g.from_h + (tap - h * g.taps_w) * g.from_w]));
        }
    mosts[item] = most;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = 64; half_way > 0; half_way /= 2) {
        if (item < half_way)
            mosts[item] = fmax(mosts[item], mosts[item + half_way]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const uint e = max(as_uint(mosts[0]) >> 23, 29u);
    const float scale = mx_pair_scale(e);
    if (item == 0 && row < g.rows)
        scales[scales_offset + group * g.rows + row] = as_float(e << 23);
    for (int i = item; i < taps * c_slices * 8; i += 128) {
        const int tap = i / (c_slices * 8), chunk = i - tap * c_slices * 8, h = tap / g.taps_w;
        __global const float *from = W + h * g.from_h + (tap - h * g.taps_w) * g.from_w;
        uint2 pairs[4];
#pragma unroll
        for (int l = 0; l < 4; l++) {
            const int c = chunk * 8 + l * 2;
            pairs[l] = mx_pair(row < g.rows && c < g.channels ? from[(long)c * g.from_c] * scale : 0.0f,
                               row < g.rows && c + 1 < g.channels ? from[(long)(c + 1) * g.from_c] * scale : 0.0f);
        }
        __global uint4 *to = packed + ((long)(block * taps + tap) * c_slices + chunk / 8) * (2 * BLOCK_BYTES / 16)
                             + r * (ROW_BYTES / 16) + ((chunk ^ r) & 7);
        to[0] = (uint4)(pairs[0].x, pairs[1].x, pairs[2].x, pairs[3].x);
        to[BLOCK_BYTES / 16] = (uint4)(pairs[0].y, pairs[1].y, pairs[2].y, pairs[3].y);
    }
}

#define IMAGES 8 /* of a work-item, at the same place */

#if AXES == 3
#define MX_PHASES mx_nv_deep_phases
#define MX_GIVEN volume
#else
#define MX_PHASES mx_nv_phases
#define MX_GIVEN g
#endif

/* Backward data with a stride: y[n][c][h][w] from planes[phase][n][c][h / step_h][w / step_w], one for each phase
 * that has products, row by row; zeros for the others.  Likewise along the depth. */
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void join_phases(
    __global const float *restrict planes, long planes_offset, __global float *restrict Y, long y_offset,
    const MX_PHASES MX_GIVEN, const float alpha, const float beta)
{
#if AXES == 3
    const mx_nv_phases g = volume.rows;
#endif
    const int i = get_global_id(0), above = mx_quotient(i, g.by_columns), column = i * g.vector - above * g.columns;
    const int block = mx_quotient(above, g.by_rows), row = above - block * g.rows;
#if AXES == 3
    const int plane = mx_quotient(row, volume.by_plane), h = row - plane * volume.y_rows;
    const int depth = mx_quotient(plane, volume.by_step_d), l = plane - depth * volume.step_d;
    const int in_plane = mx_quotient(h, g.by_step_h), a = h - in_plane * g.step_h;
    const int p = depth * volume.phase_rows + in_plane, before = popcount(volume.met_d & (1ul << l) - 1);
    const int first = (before * (int)popcount(g.met_h) + (int)popcount(g.met_h & (1ul << a) - 1))
                      * (int)popcount(g.met_w);
#define MET_ROW (volume.met_d >> l & g.met_h >> a & 1)
#else
    const int p = mx_quotient(row, g.by_step_h), a = row - p * g.step_h;
    const int first = (int)popcount(g.met_h & (1ul << a) - 1) * (int)popcount(g.met_w);
#define MET_ROW (g.met_h >> a & 1)
#endif
    long from[2];
    bool met[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const int w = column + e, q = mx_quotient(w, g.by_step_w), b = w - q * g.step_w;
        met[e] = e < g.vector && MET_ROW && (g.met_w >> b & 1);
        from[e] = planes_offset + (long)(first + (int)popcount(g.met_w & (1ul << b) - 1)) * g.plane
                  + p * g.plane_columns + q;
    }
    Y += y_offset + row * g.y_h + column * g.y_w;
    const bool plainly = alpha == 1 && beta == 0 && g.vector == 2 && g.y_w == 1
                         && (((ulong)Y & 7) | ((g.y_n | g.y_c) & 1)) == 0;
#pragma unroll
    for (int l = 0; l < IMAGES; l++) {
        const int image = block * IMAGES + l, n = mx_quotient(image, g.by_channels);
        if (image >= g.images)
            return;
        const long at = (long)image * g.plane_rows * g.plane_columns;
        const float2 value = (float2)(met[0] ? planes[from[0] + at] : 0.0f, met[1] ? planes[from[1] + at] : 0.0f);
        __global float *y = Y + (long)n * g.y_n + (image - n * g.channels) * g.y_c;
        if (plainly) {
            *(__global float2 *)y = value;
            continue;
        }
        STORE_MIXED(float, y, 0, value.x, alpha, beta);
        if (g.vector == 2)
            STORE_MIXED(float, y, g.y_w, value.y, alpha, beta);
    }
}
