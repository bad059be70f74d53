/* Implicit GEMM with float operands on tensor cores: y = alpha * x w + beta * y.
 *
 * A float is a pair of tf32 numbers, hi + lo, and a product is lo hi + hi lo + hi hi.  Tensor cores truncate when they
 * add, so a sum starts anew every K-slice, small terms first, and is added to a float sum, which rounds.
 *
 *              pixels ->  BN             A work-group computes one tile of BM filters x BN pixels of one group;
 *   filters  +--------+--------+         WARPS_M x WARPS_N warps, each 64 x 32 of it in registers.
 *     BM     | tile 0 | tile 2 |
 *            +--------+--------+
 *            | tile 1 | tile 3 |
 *
 * Grid: one axis, local THREADS, global THREADS * ceil(filters / BM) * ceil(pixels / BN) * groups.
 * x has any strides and is copied 4 bytes at a time; channels from `channels` to `reduced`, a multiple of 4, are zeros.
 * Local memory: a ring of STAGES K-slices of 16; rows are padded (W_PITCH, X_PITCH) so that banks do not conflict.
 * Bound by: three products for one, and the integer work of splitting; 229 registers.
 */
#ifndef WARPS_M /* a warp owns 64 filters x 32 pixels */
#define WARPS_M 2
#endif
#ifndef WARPS_N
#define WARPS_N 4
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef INTERLEAVE /* rows of fragments whose products are interleaved: 2 takes 60 registers less */
#define INTERLEAVE 1
#endif
#ifndef VEC /* elements of y that are stored at once where y's address allows: 1 or 2 */
#define VEC 1
#endif
#define X_TYPE float
#include "include/common.h"
#include "conv/nvidia/ptx.h"

#define WM 64
#define WN 32
#define BM (WARPS_M * WM)
#define BN (WARPS_N * WN)
#define THREADS (32 * WARPS_M * WARPS_N)
#define DEPTH 16
#define W_PITCH 20 /* words: 8 rows begin in different banks, 16 bytes each */
#define X_PITCH (BN + 8)
#define STAGE_BYTES ((BM * W_PITCH + DEPTH * X_PITCH) * 4)
#define W_COPIES (BM * 4 / THREADS)
#define X_SHARE (THREADS / BN) /* work-items that share a pixel's column */
#define X_BLOCKS (DEPTH / X_SHARE / 4) /* of 4 channels, a work-item */

static inline void mx_copy_slowly(uint to, __global const float *from, bool valid)
{
    for (int i = 0; i < 4; i++)
        MX_COPY4(to + 4 * i, from + i, valid);
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_float(
    __global const float *restrict X, long x_offset, __global const float *restrict W, long w_offset,
    __global float *restrict Y, long y_offset, const mx_nv_conv g, const float alpha, const float beta)
{
    __local uint4 slices[STAGES * STAGE_BYTES / 16] __attribute__((aligned(128)));
    __local int places[BN];
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
    const int down = (g.filters + BM - 1) / BM, across = (g.pixels + BN - 1) / BN;
    int tile = get_group_id(0);
    const int m0 = tile % down * BM;
    tile /= down;
    const int n0 = tile % across * BN, group = tile / across;

    X += x_offset + (long)group * g.x_g;
    W += w_offset + g.w_first + (long)group * g.w_g;
    Y += y_offset + g.y_first + (long)group * g.y_g;
    const bool aligned = ((ulong)W & 15) == 0;
    const uint shared = mx_shared(slices);

    /* Weights: chunk item % 4 of every row item / 4 + i * THREADS / 4.  Pixels: one column, X_BLOCKS * 4 channels. */
    const int row = item >> 2, column = item % BN, share = item / BN;
    const uint w_to = shared + (row * W_PITCH + (item & 3) * 4) * 4;
    const uint x_to = shared + (BM * W_PITCH + share * X_BLOCKS * 4 * X_PITCH + column) * 4;
    int h, w, base;
    bool inside;
    {
        const int m = n0 + column, n = m / (g.p * g.q), rest = m - n * (g.p * g.q), p = rest / g.q, q = rest - p * g.q;
        inside = m < g.pixels;
        h = p * g.step_h + g.first_h, w = q * g.step_w + g.first_w;
        base = n * g.x_n + h * g.x_h + w * g.x_w;
        if (share == 0)
            places[column] = inside ? n * g.y_n + p * g.y_h + q * g.y_w : -1;
    }
    int wc = (item & 3) * 4, w_tap_h = 0, w_tap_w = 0;
    MX_SKIP_TAPS(wc, w_tap_h, w_tap_w);
    int xc[X_BLOCKS], x_tap_h[X_BLOCKS], x_tap_w[X_BLOCKS];
#pragma unroll
    for (int i = 0; i < X_BLOCKS; i++) {
        xc[i] = (share * X_BLOCKS + i) * 4, x_tap_h[i] = x_tap_w[i] = 0;
        MX_SKIP_TAPS(xc[i], x_tap_h[i], x_tap_w[i]);
    }

#define COPY_SLICE(stage)                                                                               \
    do {                                                                                                \
        _Pragma("unroll") for (int i = 0; i < W_COPIES; i++) {                                          \
            const int k = m0 + row + i * (THREADS / 4);                                                 \
            const bool valid = k < g.filters && w_tap_h < g.taps_h;                                     \
            __global const float *from = W + (valid ? k * g.w_k + w_tap_h * g.w_h + w_tap_w * g.w_w + wc : 0); \
            if (aligned)                                                                                \
                MX_COPY16(w_to + (stage)*STAGE_BYTES + i * (THREADS / 4) * W_PITCH * 4, from, valid);   \
            else                                                                                        \
                mx_copy_slowly(w_to + (stage)*STAGE_BYTES + i * (THREADS / 4) * W_PITCH * 4, from, valid); \
        }                                                                                               \
        wc += DEPTH;                                                                                    \
        MX_SKIP_TAPS(wc, w_tap_h, w_tap_w);                                                             \
        _Pragma("unroll") for (int i = 0; i < X_BLOCKS; i++) {                                          \
            const int dh = x_tap_h[i] * g.tap_h, dw = x_tap_w[i] * g.tap_w;                             \
            const bool meets = inside && x_tap_h[i] < g.taps_h && (uint)(h + dh) < (uint)g.h            \
                               && (uint)(w + dw) < (uint)g.w;                                           \
            const int at = base + dh * g.x_h + dw * g.x_w + xc[i] * g.x_c;                              \
            _Pragma("unroll") for (int l = 0; l < 4; l++) {                                             \
                const bool valid = meets && xc[i] + l < g.channels;                                     \
                MX_COPY4(x_to + (stage)*STAGE_BYTES + (i * 4 + l) * X_PITCH * 4,                        \
                         X + (valid ? at + l * g.x_c : 0), valid);                                      \
            }                                                                                           \
            xc[i] += DEPTH;                                                                             \
            MX_SKIP_TAPS(xc[i], x_tap_h[i], x_tap_w[i]);                                                \
        }                                                                                               \
    } while (0)

    const int slices_all = (g.taps_h * g.taps_w * g.reduced + DEPTH - 1) / DEPTH;
    MX_BEGIN_SLICES(slices_all);

    const int warp_m = warp % WARPS_M * WM, warp_n = warp / WARPS_M * WN;
    const uint a_row = shared + ((warp_m + (lane & 15)) * W_PITCH + (lane >> 4) * 4) * 4;
    const int b_at = BM * W_PITCH + (lane & 3) * X_PITCH + warp_n + (lane >> 2);
    float sums[WM / 16][WN / 8][4];
    MX_EACH_SUM(i, j, l, 1)
        sums[i][j][l] = 0;

    for (int slice = 0; slice < slices_all; slice++) {
        MX_NEXT_SLICE(slice, slices_all);
        const uint a_at = a_row + stage * STAGE_BYTES;
        __local const uint *b_from = (__local const uint *)slices + stage * (STAGE_BYTES / 4) + b_at;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        float slice_sums[WM / 16][WN / 8][4];
#pragma unroll
        for (int k = 0; k < DEPTH / 8; k++) {
            uint b_hi[WN / 8][2], b_lo[WN / 8][2];
#pragma unroll
            for (int j = 0; j < WN / 8; j++)
#pragma unroll
                for (int l = 0; l < 2; l++) {
                    const uint value = b_from[(k * 8 + l * 4) * X_PITCH + j * 8];
                    MX_TF32_PAIR(value, b_hi[j][l], b_lo[j][l]);
                }
#pragma unroll
            for (int i = 0; i < WM / 16; i += INTERLEAVE) {
                uint a_hi[INTERLEAVE][4], a_lo[INTERLEAVE][4];
#pragma unroll
                for (int o = 0; o < INTERLEAVE; o++) {
                    uint a[4];
                    MX_LDMATRIX(a[0], a[1], a[2], a[3], a_at + ((i + o) * 16 * W_PITCH + k * 8) * 4);
#pragma unroll
                    for (int l = 0; l < 4; l++)
                        MX_TF32_PAIR(a[l], a_hi[o][l], a_lo[o][l]);
                }
#pragma unroll
                for (int o = 0; o < INTERLEAVE; o++)
#pragma unroll
                    for (int j = 0; j < WN / 8; j++) {
                        const uint *a = a_lo[o], *b = b_hi[j];
                        if (k == 0)
                            MX_PRODUCT(slice_sums[i + o][j], a[0], a[1], a[2], a[3], b[0], b[1]);
                        else
                            MX_MULTIPLY(slice_sums[i + o][j], a, b);
                    }
#pragma unroll
                for (int o = 0; o < INTERLEAVE; o++)
#pragma unroll
                    for (int j = 0; j < WN / 8; j++)
                        MX_MULTIPLY(slice_sums[i + o][j], a_hi[o], b_lo[j]);
#pragma unroll
                for (int o = 0; o < INTERLEAVE; o++)
#pragma unroll
                    for (int j = 0; j < WN / 8; j++)
                        MX_MULTIPLY(slice_sums[i + o][j], a_hi[o], b_hi[j]);
            }
        }
        MX_EACH_SUM(i, j, l, 1)
            sums[i][j][l] += slice_sums[i][j][l];
    }

    if (slices_all == 0)
        barrier(CLK_LOCAL_MEM_FENCE); /* `places`: no slice waited for it */
    const bool wide = VEC == 2 && ((ulong)Y & 7) == 0;
    MX_EACH_SUM(i, j, l, 2) {
        const int m = m0 + warp_m + i * 16 + (l << 2) + (lane >> 2), n = warp_n + j * 8 + (lane & 3) * 2;
        const int first = places[n], second = places[n + 1];
        if (m >= g.filters || first < 0)
            continue;
        __global float *y = Y + (long)m * g.y_c;
        float2 result;
        result.x = alpha * sums[i][j][l], result.y = alpha * sums[i][j][l + 1];
        if (wide) { /* VEC divides the pixels of an image */
            if (beta != 0)
                result.x += beta * y[first], result.y += beta * y[first + 1];
            *(__global float2 *)(y + first) = result;
        } else {
            if (beta != 0)
                result.x += beta * y[first];
            y[first] = result.x;
            if (second >= 0) {
                if (beta != 0)
                    result.y += beta * y[second];
                y[second] = result.y;
            }
        }
    }
}
