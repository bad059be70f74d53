/* Implicit GEMM with operands of 16 or 8 bits by mma.sync: y = alpha * x w + beta * y.
 *
 *   y[pixel][filter] = sum over K = (tap, channel) of x[pixel + tap][channel] * w[filter][tap][channel]
 *
 *              filters ->  BN                  A work-group computes one tile of BM pixels x BN filters of one group;
 *            +--------+--------+               WARPS_M x WARPS_N warps, each WM x WN of it in registers.
 *   pixels   | tile 0 | tile 1 |               Neighbouring work-groups take the same pixels and the next filters,
 *     BM     +--------+--------+               so that they share x in L2.
 *            | tile 2 | tile 3 |
 *
 * Grid: one axis, local THREADS, global THREADS * ceil(pixels / BM) * ceil(filters / BN) * groups.
 * K is walked in K-slices of DEPTH; all work-items copy a slice (cp.async) while an earlier one is multiplied.
 * x is channels last (x_c == 1): 16 bytes are CHUNK channels of one pixel, `channels` and `reduced` the same multiple
 * of CHUNK; else conv/nvidia/pack.cl copies x, and w, first.  There is no column matrix: each chunk is read in place,
 * or is zeros.
 * Local memory: a ring of STAGES slices, BM + BN rows of 128 bytes, swizzled: chunk c of row r is at c ^ (r % 8), so
 * that copies and ldmatrix meet every bank once.  The epilogue stages the tile there in y's layout.
 * Sums: float for half and bfloat16; int, exact, for int8.
 * Bound by: tensor cores where K is long (254 registers, 2 work-groups a compute unit); by L2 where it is short.
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#ifndef Y_TYPE /* int8: int32, float or int8 */
#define Y_TYPE X_TYPE
#endif
#ifndef WARPS_M /* warps along the pixels; a warp owns WM pixels x WN filters */
#define WARPS_M 2
#endif
#ifndef WARPS_N
#define WARPS_N 2
#endif
#ifndef WM
#define WM 64
#endif
#ifndef WN
#define WN 64
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef CHANNELS_LAST /* 1: y is channels last, 0: its pixels */
#define CHANNELS_LAST 1
#endif
#ifndef VEC /* elements of y that are stored at once where y's address allows: 1, 2, 4 or 8; int8: 1 or 4 */
#define VEC 1
#endif
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"
#include "conv/nvidia/ptx.h"

#define CHUNK (MX_INTEGER_ACC ? 16 : 8)
#define BM (WARPS_M * WM)
#define BN (WARPS_N * WN)
#define THREADS (32 * WARPS_M * WARPS_N)
#define DEPTH (8 * CHUNK)
#define STAGE_BYTES ((BM + BN) * ROW_BYTES)
#define ROWS_AT_ONCE (THREADS / 8)
#define X_ROWS (BM / ROWS_AT_ONCE)
#define W_ROWS (BN / ROWS_AT_ONCE)
#if MX_INTEGER_ACC
#define OUT int
#define COPY_UNALIGNED mx_copy_bytes
#define QUOTIENT(n, d, by) mx_quotient(n, by)
/* Four elements of y, and what makes them of four sums. */
#define QUAD MX_JOIN(MX_QUAD_, Y_TYPE)
#define MX_QUAD_int32 int4
#define MX_QUAD_float float4
#define MX_QUAD_int8 char4
#define CONVERT MX_JOIN(MX_CONVERT_, Y_TYPE)
#define MX_CONVERT_int32(v) (v)
#define MX_CONVERT_float(v) convert_float4(v)
#define MX_CONVERT_int8(v) convert_char4(v)
#else
#define OUT ushort
#define COPY_UNALIGNED mx_copy_halves
#define QUOTIENT(n, d, by) ((n) / (d)) /* all registers are taken, and 12 bytes spilled: nothing else was timed */
#endif
#define PITCH ((CHANNELS_LAST ? BN : BM) + (int)(16 / sizeof(OUT)))
#define OUT_BYTES ((int)sizeof(OUT) * PITCH * (CHANNELS_LAST ? BM : BN))
#define LOCAL_BYTES (STAGES * STAGE_BYTES > OUT_BYTES ? STAGES * STAGE_BYTES : OUT_BYTES)

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_mma(
    __global const STORAGE(X_TYPE) *restrict X, long x_offset, __global const STORAGE(X_TYPE) *restrict W,
    long w_offset, __global STORAGE(Y_TYPE) *restrict Y, long y_offset, const mx_nv_conv g,
    EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(Y, y_offset);
    __local uint4 slices[LOCAL_BYTES / 16] __attribute__((aligned(128)));
    __local int places[BM]; /* of the tile's pixels in y, -1 behind the last */
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
    const int down = (g.pixels + BM - 1) / BM, across = (g.filters + BN - 1) / BN;
    int tile = get_group_id(0);
    const int n0 = tile % across * BN;
    tile /= across;
    const int m0 = tile % down * BM, group = tile / down;

    X += x_offset + (long)group * g.x_g;
    W += w_offset + g.w_first + (long)group * g.w_g;
    Y += y_offset + g.y_first + (long)group * g.y_g;
    const bool aligned = (((ulong)X | (ulong)W) & 15) == 0;
    const uint shared = mx_shared(slices);

    /* Which rows this work-item copies: always chunk item % 8 of them. */
    const int chunk = item & 7, row0 = item >> 3;
    int base[X_ROWS], corner[X_ROWS]; /* the first tap: its offset, and its h and w, 16 bits each */
#pragma unroll
    for (int i = 0; i < X_ROWS; i++) {
        const int m = m0 + row0 + i * ROWS_AT_ONCE;
        const int n = QUOTIENT(m, g.p * g.q, g.by_image), rest = m - n * (g.p * g.q), p = QUOTIENT(rest, g.q, g.by_row);
        const int q = rest - p * g.q, h = p * g.step_h + g.first_h, w = q * g.step_w + g.first_w;
        base[i] = n * g.x_n + h * g.x_h + w * g.x_w;
        corner[i] = m < g.pixels ? (int)((uint)h << 16 | (w & 0xffff)) : (int)0xc0000000;
    }
    for (int i = item; i < BM; i += THREADS) {
        const int m = m0 + i;
        const int n = QUOTIENT(m, g.p * g.q, g.by_image), rest = m - n * (g.p * g.q), p = QUOTIENT(rest, g.q, g.by_row);
        const int q = rest - p * g.q;
        places[i] = m < g.pixels ? n * g.y_n + p * g.y_h + q * g.y_w : -1;
    }
    const uint to = shared + row0 * ROW_BYTES + ((chunk ^ (row0 & 7)) << 4);
    int c = chunk * CHUNK, tap_h = 0, tap_w = 0; /* what it copies next */
    MX_SKIP_TAPS(c, tap_h, tap_w);

#define COPY_SLICE_BY(COPY16, stage)                                                                           \
    do {                                                                                                       \
        const bool some = tap_h < g.taps_h;                                                                    \
        const int dh = tap_h * g.tap_h, dw = tap_w * g.tap_w;                                                  \
        const int x_at = dh * g.x_h + dw * g.x_w + c, w_at = tap_h * g.w_h + tap_w * g.w_w + c;                \
        _Pragma("unroll") for (int i = 0; i < X_ROWS; i++) {                                                   \
            const bool valid = some && (uint)((corner[i] >> 16) + dh) < (uint)g.h                              \
                               && (uint)((short)corner[i] + dw) < (uint)g.w;                                   \
            COPY16(to + (stage)*STAGE_BYTES + i * ROWS_AT_ONCE * ROW_BYTES, X + (valid ? base[i] + x_at : 0),  \
                   valid);                                                                                     \
        }                                                                                                      \
        _Pragma("unroll") for (int i = 0; i < W_ROWS; i++) {                                                   \
            const int k = n0 + row0 + i * ROWS_AT_ONCE;                                                        \
            const bool valid = some && k < g.filters;                                                          \
            COPY16(to + (stage)*STAGE_BYTES + (BM + i * ROWS_AT_ONCE) * ROW_BYTES,                             \
                   W + (valid ? k * g.w_k + w_at : 0), valid);                                                 \
        }                                                                                                      \
        c += DEPTH;                                                                                            \
        MX_SKIP_TAPS(c, tap_h, tap_w);                                                                         \
    } while (0)
#define COPY_SLICE(stage)                               \
    do {                                                \
        if (aligned)                                    \
            COPY_SLICE_BY(MX_COPY16, stage);            \
        else                                            \
            COPY_SLICE_BY(COPY_UNALIGNED, stage);       \
    } while (0)

    const int slices_all = (g.taps_h * g.taps_w * g.reduced + DEPTH - 1) / DEPTH;
    MX_BEGIN_SLICES(slices_all);

    const int warp_m = warp % WARPS_M * WM, warp_n = warp / WARPS_M * WN, swizzle = lane & 7;
    const uint a_row = shared + (warp_m + (lane & 15)) * ROW_BYTES;
    const uint b_row = shared + (BM + warp_n + (lane & 7) + (lane >> 4) * 8) * ROW_BYTES;
    const int a_chunk = lane >> 4, b_chunk = lane >> 3 & 1;
    ACC sums[WM / 16][WN / 8][4];
    MX_EACH_SUM(i, j, l, 1)
        sums[i][j][l] = 0;

    for (int slice = 0; slice < slices_all; slice++) {
        MX_NEXT_SLICE(slice, slices_all);
        const uint at = stage * STAGE_BYTES;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
#pragma unroll
        for (int k = 0; k < ROW_BYTES / 32; k++) {
            uint a[WM / 16][4], b[WN / 8][2];
            const uint a_at = a_row + at + ((2 * k + a_chunk ^ swizzle) << 4);
            const uint b_at = b_row + at + ((2 * k + b_chunk ^ swizzle) << 4);
#pragma unroll
            for (int i = 0; i < WM / 16; i++)
                MX_LDMATRIX(a[i][0], a[i][1], a[i][2], a[i][3], a_at + i * 16 * ROW_BYTES);
#pragma unroll
            for (int j = 0; j < WN / 16; j++)
                MX_LDMATRIX(b[2 * j][0], b[2 * j][1], b[2 * j + 1][0], b[2 * j + 1][1], b_at + j * 16 * ROW_BYTES);
            MX_EACH_PRODUCT(i, j)
                MX_MULTIPLY(sums[i][j], a[i], b[j]);
        }
    }
    MX_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);

    /* Lay the tile out as y has it, halves scaled, with the old values where they count. */
    __local OUT *out = (__local OUT *)slices;
#if MX_INTEGER_ACC
    MX_EACH_SUM(i, j, l, 1) {
        const int m = warp_m + i * 16 + (l >> 1) * 8 + (lane >> 2), n = warp_n + j * 8 + (lane & 3) * 2 + (l & 1);
        out[CHANNELS_LAST ? m * PITCH + n : n * PITCH + m] = sums[i][j][l];
    }
#else
    MX_EACH_SUM(i, j, l, 2) {
        const int m = warp_m + i * 16 + (l << 2) + (lane >> 2), n = warp_n + j * 8 + (lane & 3) * 2;
        float two[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            OF_FILTER((long)group * g.filters + min(n0 + n + e, g.filters - 1))
            two[e] = SCALED_RESULT(sums[i][j][l + e]);
            if (beta != 0) {
                const int place = places[m];
                if (place >= 0 && n0 + n + e < g.filters)
                    two[e] += beta * LOAD(X_TYPE)(OLD_RESULT(X_TYPE, Y), place + (long)(n0 + n + e) * g.y_c);
            }
            two[e] = FINAL_RESULT(two[e]);
        }
        uint pair;
        MX_ROUND_PAIR(pair, two[0], two[1]);
        if (CHANNELS_LAST)
            *(__local uint *)(out + m * PITCH + n) = pair;
        else {
            out[n * PITCH + m] = (ushort)pair;
            out[(n + 1) * PITCH + m] = (ushort)(pair >> 16);
        }
    }
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    const int along = CHANNELS_LAST ? BN : BM;
    const bool wide = (!MX_INTEGER_ACC || (alpha == 1 && beta == 0)) && ((ulong)Y & (VEC * sizeof(*Y) - 1)) == 0;
    for (int i = item; i < BM * BN / VEC; i += THREADS) {
        const int major = i / (along / VEC), minor = i % (along / VEC) * VEC;
        const int m = CHANNELS_LAST ? major : minor, n = CHANNELS_LAST ? minor : major;
        const int place = places[m];
        if (place < 0 || n0 + n >= g.filters)
            continue; /* VEC divides the filters, or the pixels of an image, so that no vector is cut */
        __global STORAGE(Y_TYPE) *y = Y + place + (long)(n0 + n) * g.y_c;
#if MX_INTEGER_ACC
        __local const int *from = out + major * PITCH + minor;
        if (VEC == 4 && wide)
            *(__global QUAD *)y = CONVERT(*(__local const int4 *)from);
        else
            for (int l = 0; l < VEC; l++)
                STORE_MIXED(Y_TYPE, y, l, from[l], alpha, beta);
#else
        if (wide)
            *(__global VECTOR *)y = *(__local const VECTOR *)(out + major * PITCH + minor);
        else
            for (int l = 0; l < VEC; l++)
                y[l] = out[major * PITCH + minor + l];
#endif
    }
}
