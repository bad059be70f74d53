/* Backward weights with float operands on tensor cores: partial sums of split-K over the pixels of x and dy.
 *
 *   partial[split][group][filter][(c, i, j)] = sum over the split's pixels of dy[pixel][filter] * x[pixel + (i, j)][c]
 *
 *              columns (c, i, j) ->  BN    A work-group computes one tile of BM filters x BN columns for one split:
 *   filters  +--------+--------+           `slices` K-slices of DEPTH pixels.  8 warps, each 64 x 32 in registers.
 *     BM     | tile 0 | tile 2 |           conv/nvidia/sum.cl adds the splits up in a fixed order.
 *            +--------+--------+
 *
 * Grid: one axis, local 256, global 256 * tiles down * tiles across * groups * splits.
 * x and dy have any strides; pairs of tf32 as in conv/nvidia/float.cl.
 * Local memory: a ring of STAGES K-slices, rows padded to PITCH words against bank conflicts.
 * Bound by: copies of 4 bytes, and three products for one.
 */
#define X_TYPE float
#ifndef WARPS_M /* a warp owns 64 filters x 32 columns */
#define WARPS_M 2
#endif
#include "include/common.h"
#include "conv/nvidia/ptx.h"

#define WARPS_N (8 / WARPS_M)
#define WM 64
#define WN 32
#define BM (WARPS_M * WM)
#define BN (WARPS_N * WN)
#define THREADS 256
#define DEPTH 16
#define PITCH 20 /* words */
#define STAGES 4
#define STAGE_WORDS ((BM + BN) * PITCH)
#define Y_ROWS (BM / 16)
#define X_ROWS (BN / 16)

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_weights(
    __global const float *restrict X, long x_offset, __global const float *restrict Y, long y_offset,
    __global float *restrict partial, long partial_offset, const mx_nv_conv g, const int slices)
{
    __local uint4 stages[STAGES * STAGE_WORDS / 4] __attribute__((aligned(128)));
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5, taps = g.taps_h * g.taps_w;
    const int columns = g.channels * taps;
    MX_SPLIT_K_TILE(g.filters, columns, g.groups);

    X += x_offset + (long)group * g.x_g;
    Y += y_offset + (long)group * g.y_g;
    const uint shared = mx_shared(stages);

    /* This work-item copies pixel item % 16 of every slice, for every 16th row and column. */
    const int row0 = item >> 4;
    const uint to = shared + (row0 * PITCH + (item & 15)) * 4;
    int column_at[X_ROWS], corner[X_ROWS]; /* offset of a column's channel and tap, its h and w with 16 bits each */
#pragma unroll
    for (int i = 0; i < X_ROWS; i++) {
        const int column = n0 + row0 + i * 16, c = column / taps, tap = column - c * taps;
        const int dh = tap / g.taps_w * g.tap_h, dw = tap % g.taps_w * g.tap_w;
        column_at[i] = c * g.x_c + dh * g.x_h + dw * g.x_w;
        corner[i] = column < columns ? dh << 16 | dw : 0x40000000;
    }
    int pixel = split * slices * DEPTH + (item & 15);
    int ahead_slices = min(slices, (g.pixels + DEPTH - 1) / DEPTH - split * slices);
    const int own_slices = ahead_slices;

#define COPY_SLICE()                                                                                                   \
    do {                                                                                                               \
        const int n = mx_quotient(pixel, g.by_image), rest = pixel - n * (g.p * g.q);                                  \
        const int p = mx_quotient(rest, g.by_row), q = rest - p * g.q;                                                 \
        const int h = p * g.step_h + g.first_h, w = q * g.step_w + g.first_w;                                          \
        const int y_at = n * g.y_n + p * g.y_h + q * g.y_w, x_at = n * g.x_n + h * g.x_h + w * g.x_w;                  \
        const bool inside = pixel < g.pixels;                                                                          \
        _Pragma("unroll") for (int i = 0; i < Y_ROWS; i++) {                                                           \
            const int k = m0 + row0 + i * 16;                                                                          \
            const bool valid = inside && k < g.filters;                                                                \
            MX_COPY4(stage_to + i * 16 * PITCH * 4, Y + (valid ? y_at + k * g.y_c : 0), valid);                        \
        }                                                                                                              \
        _Pragma("unroll") for (int i = 0; i < X_ROWS; i++) {                                                           \
            const bool valid = inside && (uint)(h + (corner[i] >> 16)) < (uint)g.h                                     \
                               && (uint)(w + (corner[i] & 0xffff)) < (uint)g.w;                                        \
            MX_COPY4(stage_to + (BM + i * 16) * PITCH * 4, X + (valid ? x_at + column_at[i] : 0), valid);              \
        }                                                                                                              \
        pixel += DEPTH;                                                                                                \
    } while (0)

    float sums[WM / 16][WN / 8][4];
    MX_EACH_SUM(i, j, l, 1)
        sums[i][j][l] = 0;
    const int warp_m = warp % WARPS_M * WM, warp_n = warp / WARPS_M * WN;
    const uint a_row = shared + ((warp_m + (lane & 15)) * PITCH + (lane >> 4) * 4) * 4;
    const uint b_row = shared + ((BM + warp_n + (lane & 7) + (lane >> 4) * 8) * PITCH + (lane >> 3 & 1) * 4) * 4;

    uint stage_to = to;
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
        stage_to = to + ahead * STAGE_WORDS * 4;
        if (ahead < own_slices)
            COPY_SLICE();
        MX_COMMIT();
    }
    for (int slice = 0; slice < own_slices; slice++) {
        MX_WAIT(STAGES - 2);
        barrier(CLK_LOCAL_MEM_FENCE);
        stage_to = to + (slice + STAGES - 1) % STAGES * STAGE_WORDS * 4;
        if (slice + STAGES - 1 < own_slices)
            COPY_SLICE();
        MX_COMMIT();
        const uint at = slice % STAGES * STAGE_WORDS * 4;
        float slice_sums[WM / 16][WN / 8][4];
        MX_EACH_SUM(i, j, l, 1)
            slice_sums[i][j][l] = 0;
#pragma unroll
        for (int k = 0; k < DEPTH / 8; k++) {
            uint b[WN / 8][2], b_hi[WN / 8][2], b_lo[WN / 8][2];
#pragma unroll
            for (int j = 0; j < WN / 16; j++)
                MX_LDMATRIX(b[2 * j][0], b[2 * j][1], b[2 * j + 1][0], b[2 * j + 1][1],
                            b_row + at + (j * 16 * PITCH + k * 8) * 4);
#pragma unroll
            for (int j = 0; j < WN / 8; j++)
#pragma unroll
                for (int l = 0; l < 2; l++)
                    MX_TF32_PAIR(b[j][l], b_hi[j][l], b_lo[j][l]);
#pragma unroll
            for (int i = 0; i < WM / 16; i++) {
                uint a[4], a_hi[4], a_lo[4];
                MX_LDMATRIX(a[0], a[1], a[2], a[3], a_row + at + (i * 16 * PITCH + k * 8) * 4);
#pragma unroll
                for (int l = 0; l < 4; l++)
                    MX_TF32_PAIR(a[l], a_hi[l], a_lo[l]);
#pragma unroll
                for (int j = 0; j < WN / 8; j++)
                    MX_MULTIPLY(slice_sums[i][j], a_lo, b_hi[j]);
#pragma unroll
                for (int j = 0; j < WN / 8; j++)
                    MX_MULTIPLY(slice_sums[i][j], a_hi, b_lo[j]);
#pragma unroll
                for (int j = 0; j < WN / 8; j++)
                    MX_MULTIPLY(slice_sums[i][j], a_hi, b_hi[j]);
            }
        }
        MX_EACH_SUM(i, j, l, 1)
            sums[i][j][l] += slice_sums[i][j][l];
    }

    partial += partial_offset + ((long)split * g.groups + group) * g.filters * columns;
    MX_EACH_SUM(i, j, l, 1) {
        const int m = m0 + warp_m + i * 16 + (l >> 1) * 8 + (lane >> 2);
        const int n = n0 + warp_n + j * 8 + (lane & 3) * 2 + (l & 1);
        if (m < g.filters && n < columns)
            partial[(long)m * columns + n] = sums[i][j][l];
    }
}
