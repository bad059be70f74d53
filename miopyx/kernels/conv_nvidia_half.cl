/* Implicit GEMM with half or bfloat16 operands on NVIDIA's tensor cores, sums in float: y = alpha * x w + beta * y.
 *
 * x has its channels closest (x_c == 1), so 16 bytes are 8 channels of one pixel; `channels` and `reduced` are the same
 * multiple of 8.  Nothing like a column matrix exists: each chunk is copied from where it lies, or as zeros.
 * NDRange: one axis, local THREADS, global THREADS * ceil(pixels / BM) * ceil(filters / BN) * groups.
 * Local memory: STAGES slices of BM + BN rows of 128 bytes; the finished tile reuses it.
 * A 16-byte chunk c of row r lies at chunk c ^ (r % 8): copies and ldmatrix meet every bank once.
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#ifndef WARPS_M /* warps along the pixels; a warp owns WM pixels x 64 filters */
#define WARPS_M 2
#endif
#ifndef WARPS_N
#define WARPS_N 2
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef LAST /* 1: y has its channels closest, 0: its pixels */
#define LAST 1
#endif
#ifndef VEC /* elements of y that are stored at once where y's address allows: 1, 2, 4 or 8 */
#define VEC 1
#endif
#define ACC float
#include "common.h"
#include "conv_nvidia.h"

#ifndef WM
#define WM 64 /* pixels of a warp */
#endif
#define WN 64
#define BM (WARPS_M * WM)
#define BN (WARPS_N * WN)
#define THREADS (32 * WARPS_M * WARPS_N)
#define DEPTH 64
#define ROW_BYTES 128
#define STAGE_BYTES ((BM + BN) * ROW_BYTES)
#define ROWS_AT_ONCE (THREADS / 8)
#define X_ROWS (BM / ROWS_AT_ONCE)
#define W_ROWS (BN / ROWS_AT_ONCE)
#define PITCH_LAST (BN + 8)
#define PITCH_FIRST (BM + 8)

#if MX_TYPE(X_TYPE) == MX_TYPE_half
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#define NARROW "cvt.rn.f16x2.f32"
#else
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define NARROW "cvt.rn.bf16x2.f32"
#endif

#if VEC == 8
#define VECTOR uint4
#elif VEC == 4
#define VECTOR uint2
#elif VEC == 2
#define VECTOR uint
#else
#define VECTOR ushort
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_half(
    __global const ushort *restrict X, long x_offset, __global const ushort *restrict W, long w_offset,
    __global ushort *restrict Y, long y_offset, const mx_nv_conv g, const float alpha, const float beta)
{
    __local uint4 slices[STAGES * STAGE_BYTES / 16] __attribute__((aligned(128)));
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
        const int n = m / (g.p * g.q), rest = m - n * (g.p * g.q), p = rest / g.q, q = rest - p * g.q;
        const int h = p * g.step_h + g.first_h, w = q * g.step_w + g.first_w;
        base[i] = n * g.x_n + h * g.x_h + w * g.x_w;
        corner[i] = m < g.pixels ? (int)((uint)h << 16 | (w & 0xffff)) : (int)0xc0000000;
    }
    for (int i = item; i < BM; i += THREADS) {
        const int m = m0 + i, n = m / (g.p * g.q), rest = m - n * (g.p * g.q), p = rest / g.q, q = rest - p * g.q;
        places[i] = m < g.pixels ? n * g.y_n + p * g.y_h + q * g.y_w : -1;
    }
    const uint to = shared + row0 * ROW_BYTES + ((chunk ^ (row0 & 7)) << 4);
    int c = chunk * 8, tap_h = 0, tap_w = 0; /* what it copies next */
    while (c >= g.reduced && tap_h < g.taps_h) {
        c -= g.reduced;
        if (++tap_w == g.taps_w)
            tap_w = 0, tap_h++;
    }

#define COPY_SLICE(COPY16, stage)                                                                              \
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
        while (c >= g.reduced && tap_h < g.taps_h) {                                                           \
            c -= g.reduced;                                                                                    \
            if (++tap_w == g.taps_w)                                                                           \
                tap_w = 0, tap_h++;                                                                            \
        }                                                                                                      \
    } while (0)

    const int slices_all = (g.taps_h * g.taps_w * g.reduced + DEPTH - 1) / DEPTH;
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
        if (ahead < slices_all) {
            if (aligned)
                COPY_SLICE(MX_COPY16, ahead);
            else
                COPY_SLICE(mx_copy_halves, ahead);
        }
        MX_COMMIT();
    }

    const int warp_m = warp % WARPS_M * WM, warp_n = warp / WARPS_M * WN, swizzle = lane & 7;
    const uint a_row = shared + (warp_m + (lane & 15)) * ROW_BYTES;
    const uint b_row = shared + (BM + warp_n + (lane & 7) + (lane >> 4) * 8) * ROW_BYTES;
    const int a_chunk = lane >> 4, b_chunk = lane >> 3 & 1;
    float sums[WM / 16][WN / 8][4];
#pragma unroll
    for (int i = 0; i < WM / 16; i++)
#pragma unroll
        for (int j = 0; j < WN / 8; j++)
#pragma unroll
            for (int l = 0; l < 4; l++)
                sums[i][j][l] = 0;

    int stage = 0, fill = STAGES - 1;
    for (int slice = 0; slice < slices_all; slice++) {
        MX_WAIT(STAGES - 2);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (slice + STAGES - 1 < slices_all) {
            if (aligned)
                COPY_SLICE(MX_COPY16, fill);
            else
                COPY_SLICE(mx_copy_halves, fill);
        }
        MX_COMMIT();
        fill = fill == STAGES - 1 ? 0 : fill + 1;
        const uint at = stage * STAGE_BYTES;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
#pragma unroll
        for (int k = 0; k < DEPTH / 16; k++) {
            uint a[WM / 16][4], b[WN / 8][2];
            const uint a_at = a_row + at + ((2 * k + a_chunk ^ swizzle) << 4);
            const uint b_at = b_row + at + ((2 * k + b_chunk ^ swizzle) << 4);
#pragma unroll
            for (int i = 0; i < WM / 16; i++)
                MX_LDMATRIX(a[i][0], a[i][1], a[i][2], a[i][3], a_at + i * 16 * ROW_BYTES);
#pragma unroll
            for (int j = 0; j < WN / 16; j++)
                MX_LDMATRIX(b[2 * j][0], b[2 * j][1], b[2 * j + 1][0], b[2 * j + 1][1], b_at + j * 16 * ROW_BYTES);
#pragma unroll
            for (int i = 0; i < WM / 16; i++)
#pragma unroll
                for (int j = 0; j < WN / 8; j++)
                    asm volatile(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(sums[i][j][0]), "+f"(sums[i][j][1]), "+f"(sums[i][j][2]), "+f"(sums[i][j][3])
                                 : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
        }
    }
    MX_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);

    /* Scale, with the old values where they count, and lay the tile out as y has it. */
    __local ushort *out = (__local ushort *)slices;
#pragma unroll
    for (int i = 0; i < WM / 16; i++)
#pragma unroll
        for (int j = 0; j < WN / 8; j++)
#pragma unroll
            for (int l = 0; l < 4; l += 2) {
                const int m = warp_m + i * 16 + (l << 2) + (lane >> 2), n = warp_n + j * 8 + (lane & 3) * 2;
                float first = alpha * sums[i][j][l], second = alpha * sums[i][j][l + 1];
                if (beta != 0) {
                    const int place = places[m];
                    if (place >= 0 && n0 + n < g.filters)
                        first += beta * LOAD(X_TYPE)(Y, place + (long)(n0 + n) * g.y_c);
                    if (place >= 0 && n0 + n + 1 < g.filters)
                        second += beta * LOAD(X_TYPE)(Y, place + (long)(n0 + n + 1) * g.y_c);
                }
                uint pair;
                asm(NARROW " %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
                if (LAST)
                    *(__local uint *)(out + m * PITCH_LAST + n) = pair;
                else {
                    out[n * PITCH_FIRST + m] = (ushort)pair;
                    out[(n + 1) * PITCH_FIRST + m] = (ushort)(pair >> 16);
                }
            }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int along = LAST ? BN : BM, pitch = LAST ? PITCH_LAST : PITCH_FIRST;
    const bool wide = ((ulong)Y & (2 * VEC - 1)) == 0;
    for (int i = item; i < BM * BN / VEC; i += THREADS) {
        const int major = i / (along / VEC), minor = i % (along / VEC) * VEC;
        const int m = LAST ? major : minor, n = LAST ? minor : major;
        const int place = places[m];
        if (place < 0 || n0 + n >= g.filters)
            continue; /* VEC divides the filters, or the pixels of an image, so that no vector is cut */
        __global ushort *y = Y + place + (long)(n0 + n) * g.y_c;
        if (wide)
            *(__global VECTOR *)y = *(__local VECTOR *)(out + major * pitch + minor);
        else
            for (int l = 0; l < VEC; l++)
                y[l] = out[major * pitch + minor + l];
    }
}
