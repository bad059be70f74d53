/* Backward weights of floats on TF32 by mma.sync, x and dy as they lie: partial sums of split-K over pixels.
 *
 *   sum over a split's pixels of dy[pixel][filter] * x[pixel + (i, j)][c]; columns: `reduced` channels a tap
 *
 * wgmma takes floats only with the summed axis contiguous, which here is the pixels; mma.sync has its operands in
 * registers, in any order.  Splits and tiles are as in conv/nvidia/hopper_weights.cl (PERSISTENT).
 *
 * Grid: one axis, local THREADS, global THREADS * (tiles * splits, or ceil(tiles * slices / split_slices)).
 * x and dy have their channels last, with multiples of 4 channels a group, and of 4 floats from pixel to pixel.
 * Local memory: a ring of STAGES slices of DEPTH pixels; a row is a pixel's filters, or columns, and 8 floats that keep
 * four rows in different banks.  Work-items read two neighbouring filters at once, so a warp's filters are not in the
 * order of mma.sync: filters 2 g and 2 g + 1 of each 16 are rows g and g + 8.
 * partial[slot][BM][BN]; conv/nvidia/hopper_sum.cl adds them up (IN_ROWS).
 * Rounding: half of what the tensor core cuts is added first.
 * With TENSOR_MAPS copies round on the way, and `reduced` and filters of a group are multiples of 32.  A slice is then
 * blocks of DEPTH pixels, first of dy, then of x, rows of 32 floats: chunk c of 16 bytes of row r is at c ^ (r % 8).
 * Products are summed over pixels in any order: lane t of four has pixels 2 t and 2 t + 1 of eight, whose chunks are in
 * different banks, and also neighbouring columns at once.
 * Bound by: mma.sync (two thirds of wgmma's rate), memory where filters and columns are few.
 */
#define X_TYPE float
#ifndef FLAT /* 1: one tap without stride or padding, and x and dy without gaps between pixels */
#define FLAT 0
#endif
#ifndef AXES /* 2, or 3: not FLAT then */
#define AXES 2
#endif
#ifndef PERSISTENT
#define PERSISTENT 0
#endif
#ifndef BM /* filters of a tile */
#define BM 128
#endif
#ifndef BN /* columns of a tile */
#define BN 128
#endif
#ifndef WM /* filters of a warp: multiples of 32 */
#define WM 64
#endif
#ifndef WN /* columns of a warp: multiples of 32 */
#define WN 64
#endif
#ifndef DEPTH /* pixels of a slice */
#define DEPTH 32
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef TENSOR_MAPS /* 1: lanes of the first warp copy, by maps of x and dy; needs SM_90A */
#define TENSOR_MAPS 0
#endif
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/taps.h"
#include "conv/nvidia/places.h"

#define WARPS (BM / WM * (BN / WN))
#define THREADS (32 * WARPS)
#if TENSOR_MAPS
#include "conv/nvidia/wgmma.h"
#include "conv/nvidia/tensor_maps.h"
#include "conv/nvidia/tf32_weights_blocks.h"
#include "conv/nvidia/tf32_weights_mapped.h"
#else
#define Y_PITCH (BM + 8) /* words */
#define X_PITCH (BN + 8)
#define STAGE_WORDS (DEPTH * (Y_PITCH + X_PITCH))
#define OWN_ROWS (DEPTH / WARPS) /* pixels of a slice that a warp copies */
#define STEP_ROWS (8 / WARPS)    /* of these while 8 are multiplied */
#define COPIES(width) (STEP_ROWS * (width) / 128)
#define X_BLOCKS (BN > 128 ? BN / 128 : 1)

static inline void mx_copy_four_floats(uint to, __global const float *from, bool valid, bool aligned)
{
    if (aligned) {
        MX_COPY16(to, from, valid);
    } else {
#pragma unroll 1
        for (int i = 0; i < 4; i++)
            MX_COPY4(to + 4 * i, from + i, valid);
    }
}

#define GATHERED 2 /* neighbouring filters that a work-item reads at once; columns one by one */

/* To the nearest number of 11 bits, halves away from zero, once the tensor core has cut the others off.  A NaN would
 * become zero so, or infinite where only its lowest bits tell: it becomes the one that keeps its upper bits. */
static inline uint mx_for_cutting(uint bits)
{
    asm("{ .reg .pred number; setp.num.f32 number, %0, %0; @number add.u32 %0, %0, 0x1000; "
        "@!number mov.u32 %0, 0x7fffffff; }" : "+r"(bits));
    return bits;
}

/* A warp's fragments of 8 pixels. */
static inline __attribute__((always_inline)) void mx_load_step(
    uint (*a)[4], uint (*b)[2], __local const uint *a_from, __local const uint *b_from)
{
#pragma unroll
    for (int k = 0; k < 2; k++) { /* four pixels each */
#pragma unroll
        for (int i = 0; i < WM / 16; i++) {
            const uint2 v = *(__local const uint2 *)(a_from + k * 4 * Y_PITCH + i * 16);
            a[i][k * 2] = mx_for_cutting(v.x), a[i][k * 2 + 1] = mx_for_cutting(v.y);
        }
#pragma unroll
        for (int j = 0; j < WN / 8; j++)
            b[j][k] = mx_for_cutting(b_from[k * 4 * X_PITCH + j * 8]);
    }
}

static inline __attribute__((always_inline)) void mx_weights(
    __global const float *X, __global const float *Y, __global float *partial, const MX_PROBLEM MX_GIVEN,
    const int split_slices, __local uint4 *stages, const bool aligned)
{
#if AXES == 3
    const mx_nv_conv g = volume.conv;
#endif
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
    const int columns = MX_BOTH(g.taps_h) * g.taps_w * g.reduced;
    const int down = (g.filters + BM - 1) / BM, across = (columns + BN - 1) / BN, tiles = down * across * g.groups;
    const int slices = (g.pixels + DEPTH - 1) / DEPTH, number = get_group_id(0);
    /* The first tile and slice of this group, and how many slices it has. */
    int tile = PERSISTENT ? number * split_slices / slices : number % tiles;
    int first = PERSISTENT ? number * split_slices - tile * slices : number / tiles * split_slices;
    int left = min(split_slices, PERSISTENT ? tiles * slices - number * split_slices : slices - first);

    const int warp_m = warp % (BM / WM) * WM, warp_n = warp / (BM / WM) * WN;
    __local const uint *a_from = (__local const uint *)stages + (lane & 3) * Y_PITCH + warp_m + (lane >> 2) * GATHERED;
    __local const uint *b_from =
        (__local const uint *)stages + DEPTH * Y_PITCH + (lane & 3) * X_PITCH + warp_n + (lane >> 2);
    const uint shared = mx_shared(stages);

    for (; left > 0; tile++, first = 0) {
        const int end = first + min(left, slices - first), group = tile / (down * across);
        const int m0 = tile % down * BM, n0 = tile / down % across * BN;
        const int y_group = group * g.y_g, x_group = group * g.x_g, end_pixel = min(g.pixels, end * DEPTH);
        left -= end - first;
        int column_at[X_BLOCKS]; /* from a pixel's first tap on, and the tap */
        uint tap_of[X_BLOCKS];
#pragma unroll
        for (int b = 0; b < X_BLOCKS; b++) {
            const int column = n0 + (b * 32 + lane) % (BN / 4) * 4, tap = FLAT ? 0 : column / g.reduced;
#if AXES == 3
            const int row = tap / g.taps_w, tap_w = tap - row * g.taps_w;
            const int tap_d = row / MX_ROW(g.taps_h), tap_h = row - tap_d * MX_ROW(g.taps_h);
            column_at[b] = column - tap * g.reduced + tap_d * MX_DEEP(g.tap_h) * volume.x_d
                           + tap_h * MX_ROW(g.tap_h) * g.x_h + tap_w * g.tap_w * g.x_w;
            tap_of[b] = column < columns ? MX_TAP_IN_DEPTH(tap_d, tap_h, tap_w) : MX_NO_TAP;
#else
            const int tap_h = tap / g.taps_w, tap_w = tap - tap_h * g.taps_w;
            column_at[b] = column - tap * g.reduced + tap_h * g.tap_h * g.x_h + tap_w * g.tap_w * g.x_w;
            tap_of[b] = column < columns ? MX_TAP(tap_h, tap_w) : MX_NO_TAP;
#endif
        }
        int pixel = first * DEPTH + warp * OWN_ROWS; /* the first of the warp in the next slice to copy */
        int fill = 0;

/* Lane l finds the warp's pixel l % OWN_ROWS; no pixel behind the split's last. */
#if FLAT
#define PLACE_SLICE()
#define PLACE_IN_Y(row)                                                                                            \
    const int y_at = pixel + (row) < end_pixel ? y_group + (pixel + (row)) * g.y_w : -1
#define PLACE_IN_X(row)                                                                                            \
    const int x_at = x_group + (pixel + (row)) * g.x_w;                                                            \
    const uint taps = pixel + (row) < end_pixel ? MX_TAP(0, 0) : 0
#else
        mx_nv_places places;
#define PLACE_SLICE()                                                                                              \
    do {                                                                                                           \
        const int own = pixel + lane % OWN_ROWS;                                                                   \
        places = mx_places(own < end_pixel ? own : g.pixels, y_group, x_group, &MX_GIVEN);                         \
    } while (0)
#define PLACE_IN_Y(row) const int y_at = mx_from_lane(places.y, row)
#define PLACE_IN_X(row)                                                                                            \
    const int x_at = mx_from_lane(places.x, row);                                                                  \
    const uint taps = mx_from_lane(places.taps, row)
#endif
#define COPY_STEP(step)                                                                                            \
    do {                                                                                                           \
        const uint y_to = shared + (fill * STAGE_WORDS + warp * OWN_ROWS * Y_PITCH) * 4;                           \
        const uint x_to = shared + (fill * STAGE_WORDS + DEPTH * Y_PITCH + warp * OWN_ROWS * X_PITCH) * 4;         \
        _Pragma("unroll") for (int i = 0; i < COPIES(BM); i++) {                                                   \
            const int row = (step) * STEP_ROWS + (i * 32 + lane) / (BM / 4), k = (i * 32 + lane) % (BM / 4) * 4;   \
            PLACE_IN_Y(row);                                                                                       \
            mx_copy_four_floats(y_to + (row * Y_PITCH + k) * 4, Y + (y_at + m0 + k),                               \
                                y_at >= 0 & m0 + k < g.filters, aligned);                                          \
        }                                                                                                          \
        _Pragma("unroll") for (int i = 0; i < COPIES(BN); i++) {                                                   \
            const int row = (step) * STEP_ROWS + (i * 32 + lane) / (BN / 4), c = (i * 32 + lane) % (BN / 4) * 4;   \
            PLACE_IN_X(row);                                                                                       \
            const uint tap = tap_of[i % X_BLOCKS];                                                                 \
            mx_copy_four_floats(x_to + (row * X_PITCH + c) * 4, X + (x_at + column_at[i % X_BLOCKS]),              \
                                (taps & tap) == tap, aligned);                                                     \
        }                                                                                                          \
    } while (0)
#define NEXT_SLICE()                                                                                               \
    do {                                                                                                           \
        pixel += DEPTH;                                                                                            \
        fill = fill == STAGES - 1 ? 0 : fill + 1;                                                                  \
        PLACE_SLICE();                                                                                             \
    } while (0)

#define LOAD_STEP(a, b, step)                                                                                      \
    mx_load_step(a, b, a_from + stage * STAGE_WORDS + (step) * 8 * Y_PITCH,                                        \
                 b_from + stage * STAGE_WORDS + (step) * 8 * X_PITCH)

        PLACE_SLICE();
#pragma unroll 1
        for (int ahead = 0; ahead < STAGES - 1; ahead++) {
#pragma unroll
            for (int step = 0; step < DEPTH / 8; step++)
                COPY_STEP(step);
            MX_COMMIT();
            NEXT_SLICE();
        }
        float sums[WM / 16][WN / 8][4];
        MX_EACH_SUM(i, j, l, 1)
            sums[i][j][l] = 0;
        int stage = 0;
#pragma unroll 1
        for (int slice = first; slice < end; slice++) {
            MX_WAIT(STAGES - 2);
            barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
            for (int step = 0; step < DEPTH / 8; step++) {
                uint a[WM / 16][4], b[WN / 8][2];
                LOAD_STEP(a, b, step);
                COPY_STEP(step);
                MX_EACH_PRODUCT(i, j)
                    MX_MULTIPLY(sums[i][j], a[i], b[j]);
            }
            MX_COMMIT();
            NEXT_SLICE();
            stage = stage == STAGES - 1 ? 0 : stage + 1;
        }
        if (PERSISTENT && left > 0) {
            MX_WAIT(0);
            barrier(CLK_LOCAL_MEM_FENCE);
        }

        const long slot = PERSISTENT ? number + tile : number;
        const int m = warp_m + (lane >> 2) * GATHERED, n = warp_n + (lane & 3) * 2;
        __global float *to = partial + slot * (BM * BN) + m * BN + n;
#pragma unroll
        for (int i = 0; i < WM / 16; i++)
#pragma unroll
            for (int j = 0; j < WN / 8; j++)
#pragma unroll
                for (int l = 0; l < 4; l += 2) {
                    const int row = i * 16 + l / 2, column = j * 8;
                    if (m0 + m + row < g.filters && n0 + n + column < columns)
                        *(__global float2 *)(to + row * BN + column) = (float2)(sums[i][j][l], sums[i][j][l + 1]);
                }
    }
}

#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_tf32_weights(
#if TENSOR_MAPS
    const mx_tensor_map x_map, const mx_tensor_map y_map,
#else
    __global const float *restrict X, long x_offset, __global const float *restrict Y, long y_offset,
#endif
    __global float *restrict partial, long partial_offset, const MX_PROBLEM MX_GIVEN, const int split_slices)
{
#if TENSOR_MAPS
    __local uint4 stages[STAGES * STAGE_BYTES / 16] __attribute__((aligned(1024)));
    __local ulong barriers[2 * STAGES]; /* full, empty */
    ulong x_map_at, y_map_at;
    MX_PARAMETER_AT(x_map_at, "conv_nvidia_tf32_weights", "0");
    MX_PARAMETER_AT(y_map_at, "conv_nvidia_tf32_weights", "1");
    mx_weights(x_map_at, y_map_at, partial + partial_offset, &MX_GIVEN, split_slices, stages, barriers);
#else
    __local uint4 stages[STAGES * STAGE_WORDS / 4] __attribute__((aligned(128)));
    X += x_offset;
    Y += y_offset;
    partial += partial_offset;
    if ((((ulong)X | (ulong)Y) & 15) == 0)
        mx_weights(X, Y, partial, MX_GIVEN, split_slices, stages, true);
    else
        mx_weights(X, Y, partial, MX_GIVEN, split_slices, stages, false);
#endif
}
