/* Implicit GEMM of int8 on NVIDIA's tensor cores, sums in int32, all bits exact: y = alpha * x w + beta * y.
 *
 * x has its channels closest, so 16 bytes are 16 channels of one pixel; `channels` and `reduced` are the same multiple
 * of 16.  Else the kernel pack_bytes copies it first, and weights likewise.  Otherwise as conv_nvidia_half.cl.
 * NDRange: one axis, local 128, global 128 * ceil(pixels / BM) * ceil(filters / BN) * groups.
 * Local memory: STAGES slices of BM + BN rows of 128 bytes; the finished tile reuses it.
 * A 16-byte chunk c of row r lies at chunk c ^ (r % 8): copies and ldmatrix meet every bank once.
 */
#ifndef Y_TYPE
#define Y_TYPE int32
#endif
#ifndef WARPS_M /* warps along the pixels; a warp owns WM pixels x WN filters */
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
#ifndef VEC /* elements of y that are stored at once where y's address allows: 1 or 4 */
#define VEC 1
#endif
#define ACC int
#include "common.h"
#include "conv_nvidia.h"

typedef struct {
    int images, groups, pixels, w, channels, reduced;
    int from_n, from_g, from_c, from_h, from_w;
    mx_nv_divisor by_w;
} mx_nv_bytes;

#define SIDE 64
#define PACK_PITCH (SIDE / 4 + 1)

/* to[image][pixel][group][reduced] from any strides, zeros behind the channels, through tiles of 64 pixels x 64
 * channels; weights are images of taps.  Local 256, global 256 * ceil(pixels / 64) * ceil(reduced / 64) * groups *
 * images.  `to` begins at a multiple of 16 bytes.
 */
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void pack_bytes(
    __global const char *restrict from, long from_offset, __global char *restrict to, long to_offset,
    const mx_nv_bytes g)
{
    __local uint tile[SIDE * PACK_PITCH]; /* four channels a word */
    const int item = get_local_id(0), across = (g.pixels + SIDE - 1) / SIDE, down = (g.reduced + SIDE - 1) / SIDE;
    int i = get_group_id(0);
    const int p0 = i % across * SIDE;
    i /= across;
    const int c0 = i % down * SIDE;
    i /= down;
    const int group = i % g.groups, image = i / g.groups;
    from += from_offset + (long)image * g.from_n + (long)group * g.from_g;

    /* Four pixels of four channels each: four words, one a channel, which become four, one a pixel. */
    const int pixel = item % 16 * 4, channel = item / 16 * 4;
    uint rows[4];
    const bool words = g.from_w == 1 && (g.from_h == g.w || g.pixels == g.w) && ((ulong)from & 3) == 0
                       && g.from_c % 4 == 0 && p0 + pixel + 4 <= g.pixels;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int c = c0 + channel + j;
        rows[j] = 0;
        if (c < g.channels) {
            if (words)
                rows[j] = *(__global const uint *)(from + (long)c * g.from_c + p0 + pixel);
            else
                for (int l = 0; l < 4; l++) {
                    const int p = p0 + pixel + l, h = mx_quotient(p, g.by_w);
                    if (p < g.pixels)
                        rows[j] |= (uint)(uchar)from[(long)c * g.from_c + h * g.from_h + (p - h * g.w) * g.from_w]
                                   << 8 * l;
                }
        }
    }
#pragma unroll
    for (int l = 0; l < 4; l++)
        tile[(pixel + l) * PACK_PITCH + channel / 4] =
            (rows[0] >> 8 * l & 255) | (rows[1] >> 8 * l & 255) << 8 | (rows[2] >> 8 * l & 255) << 16
            | (rows[3] >> 8 * l & 255) << 24;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int c = item % 4 * 16, p = item / 4;
    if (c0 + c >= g.reduced || p0 + p >= g.pixels)
        return;
    __local const uint *line = tile + p * PACK_PITCH + c / 4;
    to += to_offset + (((long)image * g.pixels + p0 + p) * g.groups + group) * g.reduced + c0 + c;
    *(__global uint4 *)to = (uint4)(line[0], line[1], line[2], line[3]);
}

#ifndef WM
#define WM 64
#endif
#ifndef WN
#define WN 64
#endif
#define BM (WARPS_M * WM)
#define BN (WARPS_N * WN)
#define THREADS (32 * WARPS_M * WARPS_N)
#define DEPTH 128
#define ROW_BYTES 128
#define STAGE_BYTES ((BM + BN) * ROW_BYTES)
#define ROWS_AT_ONCE (THREADS / 8)
#define X_ROWS (BM / ROWS_AT_ONCE)
#define W_ROWS (BN / ROWS_AT_ONCE)
#define PITCH ((LAST ? BN : BM) + 4)
#define OUT_BYTES (4 * PITCH * (LAST ? BM : BN))
#define LOCAL_BYTES (STAGES * STAGE_BYTES > OUT_BYTES ? STAGES * STAGE_BYTES : OUT_BYTES)
#define MMA "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"

#if VEC == 4
#define VECTOR MX_JOIN(MX_VECTOR_, Y_TYPE)
#define MX_VECTOR_int32 int4
#define MX_VECTOR_float float4
#define MX_VECTOR_int8 char4
#define CONVERT MX_JOIN(MX_CONVERT_, Y_TYPE)
#define MX_CONVERT_int32(v) (v)
#define MX_CONVERT_float(v) convert_float4(v)
#define MX_CONVERT_int8(v) convert_char4(v)
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_int8(
    __global const char *restrict X, long x_offset, __global const char *restrict W, long w_offset,
    __global STORAGE(Y_TYPE) *restrict Y, long y_offset, const mx_nv_conv g, const SCALAR alpha, const SCALAR beta)
{
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
        const int n = mx_quotient(m, g.image), rest = m - n * (g.p * g.q), p = mx_quotient(rest, g.row);
        const int h = p * g.step_h + g.first_h, w = (rest - p * g.q) * g.step_w + g.first_w;
        base[i] = n * g.x_n + h * g.x_h + w * g.x_w;
        corner[i] = m < g.pixels ? (int)((uint)h << 16 | (w & 0xffff)) : (int)0xc0000000;
    }
    for (int i = item; i < BM; i += THREADS) {
        const int m = m0 + i, n = mx_quotient(m, g.image), rest = m - n * (g.p * g.q), p = mx_quotient(rest, g.row);
        places[i] = m < g.pixels ? n * g.y_n + p * g.y_h + (rest - p * g.q) * g.y_w : -1;
    }
    const uint to = shared + row0 * ROW_BYTES + ((chunk ^ (row0 & 7)) << 4);
    int c = chunk * 16, tap_h = 0, tap_w = 0; /* what it copies next */
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
/* For tensors that do not begin at a multiple of 16 bytes: little code, for it lies amid what runs fast. */
#define COPY_BYTES(to_, from_, valid_)                                                       \
    do {                                                                                     \
        const uint to16 = (to_);                                                             \
        __global const char *from16 = (from_);                                               \
        _Pragma("unroll 1") for (int b = 0; b < 16; b++)                                     \
        {                                                                                    \
            const uint value = (valid_) ? (uint)(uchar)from16[b] : 0u;                       \
            asm volatile("st.shared.u8 [%0], %1;" ::"r"(to16 + b), "r"(value) : "memory");   \
        }                                                                                    \
    } while (0)

    const int slices_all = (g.taps_h * g.taps_w * g.reduced + DEPTH - 1) / DEPTH;
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
        if (ahead < slices_all) {
            if (aligned)
                COPY_SLICE(MX_COPY16, ahead);
            else
                COPY_SLICE(COPY_BYTES, ahead);
        }
        MX_COMMIT();
    }

    const int warp_m = warp % WARPS_M * WM, warp_n = warp / WARPS_M * WN, swizzle = lane & 7;
    const uint a_row = shared + (warp_m + (lane & 15)) * ROW_BYTES;
    const uint b_row = shared + (BM + warp_n + (lane & 7) + (lane >> 4) * 8) * ROW_BYTES;
    const int a_chunk = lane >> 4, b_chunk = lane >> 3 & 1;
    int sums[WM / 16][WN / 8][4];
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
                COPY_SLICE(COPY_BYTES, fill);
        }
        MX_COMMIT();
        fill = fill == STAGES - 1 ? 0 : fill + 1;
        const uint at = stage * STAGE_BYTES;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
#pragma unroll
        for (int k = 0; k < DEPTH / 32; k++) {
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
                                 : "+r"(sums[i][j][0]), "+r"(sums[i][j][1]), "+r"(sums[i][j][2]), "+r"(sums[i][j][3])
                                 : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
        }
    }
    MX_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);

    /* Lay the tile out as y has it. */
    __local int *out = (__local int *)slices;
#pragma unroll
    for (int i = 0; i < WM / 16; i++)
#pragma unroll
        for (int j = 0; j < WN / 8; j++)
#pragma unroll
            for (int l = 0; l < 4; l++) {
                const int m = warp_m + i * 16 + (l >> 1) * 8 + (lane >> 2);
                const int n = warp_n + j * 8 + (lane & 3) * 2 + (l & 1);
                out[LAST ? m * PITCH + n : n * PITCH + m] = sums[i][j][l];
            }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int along = LAST ? BN : BM;
    const bool plain = alpha == 1 && beta == 0, wide = plain && ((ulong)Y & (VEC * sizeof(*Y) - 1)) == 0;
    for (int i = item; i < BM * BN / VEC; i += THREADS) {
        const int major = i / (along / VEC), minor = i % (along / VEC) * VEC;
        const int m = LAST ? major : minor, n = LAST ? minor : major;
        const int place = places[m];
        if (place < 0 || n0 + n >= g.filters)
            continue; /* VEC divides the filters, or the pixels of an image, so that no vector is cut */
        __global STORAGE(Y_TYPE) *y = Y + place + (long)(n0 + n) * g.y_c;
        __local const int *from = out + major * PITCH + minor;
#if VEC == 4
        if (wide) {
            *(__global VECTOR *)y = CONVERT(*(__local const int4 *)from);
            continue;
        }
#endif
        for (int l = 0; l < VEC; l++)
            STORE_MIXED(Y_TYPE, y, l, from[l], alpha, beta);
    }
}
