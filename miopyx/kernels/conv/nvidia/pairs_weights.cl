/* Backward weights with float operands as pairs of halves, or ROUNDED, by wgmma: partial sums of split-K over pixels.
 * Needs SM_90A.
 *
 *   partial[split][group][filter][(i, j, c)] = sum over the split's pixels of dy[pixel][filter] * x[pixel + (i, j)][c]
 *
 *              columns ->  BN         A work-group computes one tile of 128 filters x 128 columns for one split of
 *   filters  +--------+--------+      `slices` K-slices of 64 pixels.  A column block has `reduced` channels a tap, a
 *     BM     | tile 0 | tile 2 |      multiple of 64.
 *            +--------+--------+      Warpgroups 0, 1: consumers, 64 filters each.  Warpgroups 2, 3: producers, of dy
 *                                     and of x: rows of 64 pixels, two a work-item, scaled by their largest value.
 *
 * Grid: one axis, local 512, global 512 * tiles down * tiles across * groups * splits.
 * x and dy have any strides and are read in place.  Pixels i and i + 32 of a slice are neighbours in both operands.
 * Local memory: a ring of STAGES slices of pairs; two mbarriers a stage, full and empty.
 * Slices are added up in float.  A sum that is not finite is computed again, product by product, as floats give it.
 * Bound by: the producers' loads and conversions.
 */
#ifndef STAGES
#define STAGES 3
#endif
#ifndef AXES /* 2 or 3 */
#define AXES 2
#endif
#define X_TYPE float
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/wgmma.h"
#include "conv/nvidia/pairs.h"
#include "conv/nvidia/pairs_exactly.h"

#define BM 128
#define BN 128
#define DEPTH 64
#define Y_BYTES (MX_PARTS * BM * ROW_BYTES)
#define STAGE_BYTES (Y_BYTES + MX_PARTS * BN * ROW_BYTES)
#define CONSUMERS 2
#define PRODUCERS 2 /* of dy and of x */
#define THREADS (128 * (CONSUMERS + PRODUCERS))

#if AXES == 3
#define MX_PROBLEM mx_nv_volume
#define MX_GIVEN volume
#else
#define MX_PROBLEM mx_nv_conv
#define MX_GIVEN g
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_pairs_weights(
    __global const float *restrict X, long x_offset, __global const float *restrict Y, long y_offset,
    __global float *restrict partial, long partial_offset, const MX_PROBLEM MX_GIVEN, const int slices)
{
    __local uint4 stages[STAGES * STAGE_BYTES / 16] __attribute__((aligned(1024)));
    __local float inverses[STAGES][BM + BN]; /* what takes the products of a row, and of a column, back */
    __local ulong barriers[2 * STAGES]; /* full, empty */
    const int item = get_local_id(0), lane = item & 31, role = item >> 7, warp = item >> 5 & 3;
#if AXES == 3
    const mx_nv_conv g = volume.conv;
#endif
    const int columns = MX_BOTH(g.taps_h) * g.taps_w * g.reduced;
    MX_SPLIT_K_TILE(g.filters, columns, g.groups);
    const int own_slices = min(slices, (g.pixels + DEPTH - 1) / DEPTH - split * slices);
    const uint shared = mx_shared(stages), full = mx_shared(barriers), empty = full + 8 * STAGES;

    X += x_offset + (long)group * g.x_g;
    Y += y_offset + (long)group * g.y_g;
    if (item == 0)
        mx_ring_begin(full, STAGES, 128 * PRODUCERS, 4 * CONSUMERS);
    barrier(CLK_LOCAL_MEM_FENCE);

    if (role >= CONSUMERS) {
        MX_WG_FEWER(120);
        /* This warp has 32 filters, or 32 channels of one tap. */
        const bool of_y = role == CONSUMERS;
        const int k0 = m0 + warp * 32, column = n0 + warp * 32, tap = column / g.reduced, c0 = column - tap * g.reduced;
#if AXES == 3
        const int tap_row = tap / g.taps_w, tap_d = tap_row / MX_ROW(g.taps_h);
        const int dd = tap_d * MX_DEEP(g.tap_h) + MX_DEEP(g.first_h), dw = tap % g.taps_w * g.tap_w + g.first_w;
        const int dh = (tap_row - tap_d * MX_ROW(g.taps_h)) * MX_ROW(g.tap_h) + MX_ROW(g.first_h);
#else
        const int dh = tap / g.taps_w * g.tap_h + g.first_h, dw = tap % g.taps_w * g.tap_w + g.first_w;
#endif
        const bool wide = (((ulong)X | (ulong)Y) & 15) == 0;
        const int rest = of_y ? g.filters - k0 : column < columns ? g.channels - c0 : 0;
        const long step = (long)(of_y ? g.y_c : g.x_c) * 4;
        const uint bias = of_y ? 0 : 28, place = (of_y ? 0 : BM) + warp * 32;
        const uint to = shared + (of_y ? 0 : Y_BYTES) + warp * 32 * ROW_BYTES + lane * 4;
        const int end = min(g.pixels, (split * slices + own_slices) * DEPTH);
        int pixel = split * slices * DEPTH + lane;
        ulong from[2]; /* of the slice that is loaded */
        bool valid[2];
        uint a[32], b[32];
#if AXES == 3
#define LOCATE()                                                                                                       \
    _Pragma("unroll") for (int l = 0; l < 2; l++) {                                                                    \
        const int m = pixel + l * 32, n = mx_quotient(m, g.by_image), rest = m - n * (MX_BOTH(g.p) * g.q);             \
        const int row = mx_quotient(rest, g.by_row), q = rest - row * g.q, o = mx_quotient(row, volume.by_plane);      \
        const int p = row - o * MX_ROW(g.p), d = o * MX_DEEP(g.step_h) + dd, h = p * MX_ROW(g.step_h) + dh;            \
        const int w = q * g.step_w + dw;                                                                               \
        if (of_y) {                                                                                                    \
            valid[l] = m < end;                                                                                        \
            from[l] = (ulong)(Y + (valid[l] ? n * g.y_n + row * g.y_h + q * g.y_w + k0 * g.y_c : 0));                  \
        } else {                                                                                                       \
            valid[l] = m < end && (uint)d < (uint)MX_DEEP(g.h) && (uint)h < (uint)MX_ROW(g.h) && (uint)w < (uint)g.w;  \
            from[l] = (ulong)(X                                                                                        \
                + (valid[l] ? n * g.x_n + d * volume.x_d + h * g.x_h + w * g.x_w + c0 * g.x_c : 0));                   \
        }                                                                                                              \
    }                                                                                                                  \
    pixel += DEPTH;
#else
#define LOCATE()                                                                                                       \
    _Pragma("unroll") for (int l = 0; l < 2; l++) {                                                                    \
        const int m = pixel + l * 32, n = mx_quotient(m, g.by_image), rest = m - n * (g.p * g.q);                      \
        const int p = mx_quotient(rest, g.by_row), q = rest - p * g.q, h = p * g.step_h + dh, w = q * g.step_w + dw;   \
        if (of_y) {                                                                                                    \
            valid[l] = m < end;                                                                                        \
            from[l] = (ulong)(Y + (valid[l] ? n * g.y_n + p * g.y_h + q * g.y_w + k0 * g.y_c : 0));                    \
        } else {                                                                                                       \
            valid[l] = m < end && (uint)h < (uint)g.h && (uint)w < (uint)g.w;                                          \
            from[l] = (ulong)(X + (valid[l] ? n * g.x_n + h * g.x_h + w * g.x_w + c0 * g.x_c : 0));                    \
        }                                                                                                              \
    }                                                                                                                  \
    pixel += DEPTH;
#endif
#define LOAD_SLICE()                                                                                                  \
    if (AT_ONCE == 4 && wide && rest >= 32) {                                                                         \
        _Pragma("unroll") for (int i = 0; i < 32; i += 4) {                                                           \
            float four[4];                                                                                            \
            mx_fetch_four(four, &from[0], valid[0]);                                                                  \
            _Pragma("unroll") for (int l = 0; l < 4; l++) a[i + l] = as_uint(four[l]);                                \
            mx_fetch_four(four, &from[1], valid[1]);                                                                  \
            _Pragma("unroll") for (int l = 0; l < 4; l++) b[i + l] = as_uint(four[l]);                                \
        }                                                                                                             \
    } else if (AT_ONCE == 1 && rest >= 32) {                                                                          \
        _Pragma("unroll") for (int i = 0; i < 32; i++) {                                                              \
            a[i] = as_uint(mx_fetch(&from[0], step, valid[0]));                                                       \
            b[i] = as_uint(mx_fetch(&from[1], step, valid[1]));                                                       \
        }                                                                                                             \
    } else {                                                                                                          \
        _Pragma("unroll") for (int i = 0; i < 32; i++) {                                                              \
            a[i] = as_uint(mx_fetch(&from[0], step, valid[0] && i < rest));                                           \
            b[i] = as_uint(mx_fetch(&from[1], step, valid[1] && i < rest));                                           \
        }                                                                                                             \
    }
        LOCATE();
        LOAD_SLICE();
        int stage = 0, parity = 1;
        for (int slice = 0; slice < own_slices; slice++) {
            LOCATE();
            mx_barrier_wait(empty + 8 * stage, parity);
            const uint stage_to = to + stage * STAGE_BYTES;
#pragma unroll
            for (int i = 0; i < 32; i += 4) {
                uint e[4];
#pragma unroll
                for (int l = 0; l < 4; l++)
                    e[l] = max(mx_most(max(a[i + l] & 0x7fffffffu, b[i + l] & 0x7fffffffu)) >> 23, 29u);
#pragma unroll
                for (int l = 0; l < 4; l++) {
                    const float scale = mx_pair_scale(e[l]);
                    mx_store_pair((stage_to ^ (i + l & 7) << 4) + (i + l) * ROW_BYTES, 128 * ROW_BYTES,
                                  as_float(a[i + l]) * scale, as_float(b[i + l]) * scale);
                    inverses[stage][place + i + l] = as_float((e[l] - bias) << 23);
                }
            }
            LOAD_SLICE();
            mx_barrier_arrive(full + 8 * stage);
            if (++stage == STAGES)
                stage = 0, parity ^= 1;
        }
    } else {
        MX_WG_MORE(136);
        const ulong a_hi = mx_wg_matrix(shared + role * BLOCK_BYTES, BLOCK_BYTES);
        const ulong b_hi = mx_wg_matrix(shared + Y_BYTES, BLOCK_BYTES);
        const int row = role * 64 + warp * 16 + (lane >> 2), pair = (lane & 3) * 2;
        float sums[BN / 2];
#pragma unroll
        for (int j = 0; j < BN / 2; j++)
            sums[j] = 0;
        int stage = 0, parity = 0;
        for (int slice = 0; slice < own_slices; slice++) {
            float slice_sums[BN / 2];
            mx_barrier_wait(full + 8 * stage, parity);
            const uint at = stage * STAGE_BYTES >> 4;
            MX_MULTIPLY_PAIRS(MX_WGMMA_128, slice_sums, BN / 2, a_hi + at, a_hi + at + (BM * ROW_BYTES >> 4), b_hi + at,
                              b_hi + at + (BN * ROW_BYTES >> 4));
            const float above = inverses[stage][row], below = inverses[stage][row + 8];
#pragma unroll
            for (int j = 0; j < BN / 2; j += 4) {
                const float2 inverse = *(__local const float2 *)(inverses[stage] + BM + j * 2 + pair);
                sums[j] = fma(slice_sums[j] * above, inverse.x, sums[j]);
                sums[j + 1] = fma(slice_sums[j + 1] * above, inverse.y, sums[j + 1]);
                sums[j + 2] = fma(slice_sums[j + 2] * below, inverse.x, sums[j + 2]);
                sums[j + 3] = fma(slice_sums[j + 3] * below, inverse.y, sums[j + 3]);
            }
            asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
            if (lane == 0)
                mx_barrier_arrive(empty + 8 * stage);
            if (++stage == STAGES)
                stage = 0, parity ^= 1;
        }

        bool finite;
        MX_FINITE(finite, sums, BN / 2);
        if (!finite) {
            float copy[BN / 2];
#pragma unroll
            for (int j = 0; j < BN / 2; j++)
                copy[j] = sums[j];
#pragma unroll 1
            for (int j = 0; j < BN / 2; j++) {
                const int k = m0 + row + (j & 2) * 4, n = n0 + j / 4 * 8 + pair + (j & 1), tap = n / g.reduced;
                const int c = n - tap * g.reduced;
                if (k < g.filters && n < columns && c < g.channels && !(fabs(copy[j]) < INFINITY))
                    copy[j] = mx_exactly(X, Y, &MX_GIVEN, k, c, tap, split * slices * DEPTH,
                                         min(g.pixels, (split + 1) * slices * DEPTH));
            }
#pragma unroll
            for (int j = 0; j < BN / 2; j++)
                sums[j] = copy[j];
        }
        partial += partial_offset + ((long)split * g.groups + group) * g.filters * columns;
#pragma unroll
        for (int j = 0; j < BN / 2; j += 2) {
            const int k = m0 + row + (j & 2) * 4, n = n0 + j / 4 * 8 + pair;
            __global float *to = partial + (long)k * columns + n;
            if (k >= g.filters || n >= columns)
                continue;
            if (((ulong)partial & 7) == 0)
                *(__global float2 *)to = (float2)(sums[j], sums[j + 1]);
            else
                to[0] = sums[j], to[1] = sums[j + 1];
        }
    }
}
