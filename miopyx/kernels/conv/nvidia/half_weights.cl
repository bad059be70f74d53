/* Backward weights with half or bfloat16 operands by mma.sync: partial sums, in float, of split-K over pixels.
 *
 *   partial[split][group][filter][(i, j, c)] = sum over the split's pixels of dy[pixel][filter] * x[pixel + (i, j)][c]
 *
 *              columns (i, j, c) ->  BN    A work-group computes one tile of BM filters x BN columns for one split:
 *   filters  +--------+--------+           `slices` K-slices of DEPTH pixels.  A warp has WM x WN of it in registers.
 *     BM     | tile 0 | tile 2 |           A column block has `reduced` channels a tap.
 *            +--------+--------+           conv/nvidia/sum.cl adds the splits up in a fixed order.
 *
 * Grid: one axis, local THREADS, global THREADS * tiles down * tiles across * groups * splits.
 * x and dy are channels last (x_c == y_c == 1) with multiples of 8 channels: 16 bytes are 8 channels of one pixel.
 * Padding of `filters` to a multiple of 8 may be read.  Both operands are transposed (a row is one pixel's channels);
 * ldmatrix turns them on the way to mma.sync.
 * Local memory: a ring of STAGES slices of BM / 64 + BN / 64 blocks of DEPTH rows of 64 channels, swizzled: chunk c of
 * row r is at c ^ (r % 8).  `places` holds the offsets of the next slice's pixels.
 * Bound by: L2 (42 KB a microsecond and compute unit) for small tiles, tensor cores for large ones.
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#ifndef BM /* filters of a tile: multiples of 64 */
#define BM 128
#endif
#ifndef BN /* columns of a tile: multiples of 64 */
#define BN 128
#endif
#ifndef STAGES
#define STAGES 3
#endif
#include "include/common.h"
#include "conv/nvidia/ptx.h"

#define DEPTH 64
#define BLOCK_BYTES (DEPTH * ROW_BYTES)
#define Y_BLOCKS (BM / 64)
#define X_BLOCKS (BN / 64)
#define STAGE_BYTES ((Y_BLOCKS + X_BLOCKS) * BLOCK_BYTES)
#ifndef WM /* a warp owns WM x WN */
#define WM 64
#endif
#ifndef WN
#define WN 64
#endif
#define THREADS (BM / WM * (BN / WN) * 32)
#define PREFETCH (STAGES - 1)
#define ROWS_AT_ONCE (THREADS / 8)
#define COPIES ((DEPTH + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE)

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_half_weights(
    __global const ushort *restrict X, long x_offset, __global const ushort *restrict Y, long y_offset,
    __global float *restrict partial, long partial_offset, const mx_nv_conv g, const int slices)
{
    __local uint4 stages[STAGES * STAGE_BYTES / 16] __attribute__((aligned(1024)));
    __local int4 places[2][DEPTH]; /* of dy (-1: none), of x at the first tap, its h and w with 16 bits each;
                                    * without a pixel h is so low that no column's tap reaches x (mx_column_in_x) */
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
    const int columns = g.taps_h * g.taps_w * g.reduced;
    MX_SPLIT_K_TILE(g.filters, columns, g.groups);

    X += x_offset + (long)group * g.x_g;
    Y += y_offset + (long)group * g.y_g;
    const bool aligned = (((ulong)X | (ulong)Y) & 15) == 0;
    const uint shared = mx_shared(stages);

    /* This work-item copies chunk item % 8 of every block, of rows item / 8 + i * ROWS_AT_ONCE. */
    const int chunk = item & 7, row0 = item >> 3;
    const uint to = shared + row0 * ROW_BYTES + ((chunk ^ (row0 & 7)) << 4);
    int2 column_at[X_BLOCKS];
#pragma unroll
    for (int b = 0; b < X_BLOCKS; b++)
        column_at[b] = mx_column_in_x(n0 + b * 64 + chunk * 8, columns, &g);
    const int own_slices = min(slices, (g.pixels + DEPTH - 1) / DEPTH - split * slices);
    int pixel = split * slices * DEPTH + item;

#define PLACE_SLICE(number)                                                                                            \
    do {                                                                                                               \
        if (item < DEPTH) {                                                                                            \
            const int n = mx_quotient(pixel, g.by_image), rest = pixel - n * (g.p * g.q);                              \
            const int p = mx_quotient(rest, g.by_row), q = rest - p * g.q;                                             \
            const int h = p * g.step_h + g.first_h, w = q * g.step_w + g.first_w;                                      \
            const bool inside = pixel < g.pixels;                                                                      \
            places[(number)&1][item] =                                                                                 \
                (int4)(inside ? n * g.y_n + p * g.y_h + q * g.y_w : -1, n * g.x_n + h * g.x_h + w * g.x_w,             \
                       inside ? (int)((uint)h << 16 | (w & 0xffff)) : (int)0x80000000, 0);                             \
            pixel += DEPTH;                                                                                            \
        }                                                                                                              \
    } while (0)
#define COPY_SLICE_BY(COPY16, number, stage)                                                                          \
    do {                                                                                                              \
        _Pragma("unroll") for (int i = 0; i < COPIES; i++) {                                                          \
            if (DEPTH % ROWS_AT_ONCE != 0 && row0 + i * ROWS_AT_ONCE >= DEPTH)                                        \
                break;                                                                                                \
            const int4 place = places[(number)&1][row0 + i * ROWS_AT_ONCE];                                           \
            const uint at = to + (stage)*STAGE_BYTES + i * ROWS_AT_ONCE * ROW_BYTES;                                  \
            _Pragma("unroll") for (int b = 0; b < Y_BLOCKS; b++) {                                                    \
                const int k = m0 + b * 64 + chunk * 8;                                                                \
                const bool valid = place.x >= 0 && k < g.filters;                                                     \
                COPY16(at + b * BLOCK_BYTES, Y + (valid ? place.x + k : 0), valid);                                   \
            }                                                                                                         \
            _Pragma("unroll") for (int b = 0; b < X_BLOCKS; b++) {                                                    \
                const bool valid = (uint)((place.z >> 16) + (column_at[b].y >> 16)) < (uint)g.h                       \
                                   && (uint)((short)place.z + (column_at[b].y & 0xffff)) < (uint)g.w;                 \
                COPY16(at + (Y_BLOCKS + b) * BLOCK_BYTES, X + (valid ? place.y + column_at[b].x : 0), valid);         \
            }                                                                                                         \
        }                                                                                                             \
    } while (0)
#define COPY_SLICE(number, stage)                                                                                     \
    do {                                                                                                              \
        if (aligned)                                                                                                  \
            COPY_SLICE_BY(MX_COPY16, number, stage);                                                                  \
        else                                                                                                          \
            COPY_SLICE_BY(mx_copy_halves, number, stage);                                                             \
    } while (0)

    PLACE_SLICE(0);
    for (int ahead = 0; ahead < PREFETCH; ahead++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        PLACE_SLICE(ahead + 1);
        if (ahead < own_slices)
            COPY_SLICE(ahead, ahead);
        MX_COMMIT();
    }

    const int warp_m = warp % (BM / WM) * WM, warp_n = warp / (BM / WM) * WN, swizzle = lane & 7;
    const uint a_row = shared + warp_m / 64 * BLOCK_BYTES + ((lane & 7) + (lane >> 4) * 8) * ROW_BYTES;
    const uint b_row = shared + (Y_BLOCKS + warp_n / 64) * BLOCK_BYTES + (lane & 15) * ROW_BYTES;
    const int a_chunk = (lane >> 3 & 1) + warp_m % 64 / 8, b_chunk = (lane >> 4) + warp_n % 64 / 8;
    float sums[WM / 16][WN / 8][4];
    MX_EACH_SUM(i, j, l, 1)
        sums[i][j][l] = 0;

    int stage = 0, fill = PREFETCH;
    for (int slice = 0; slice < own_slices; slice++) {
        MX_WAIT(PREFETCH - 1);
        barrier(CLK_LOCAL_MEM_FENCE);
        PLACE_SLICE(slice + PREFETCH + 1);
        if (slice + PREFETCH < own_slices)
            COPY_SLICE(slice + PREFETCH, fill);
        MX_COMMIT();
        fill = fill == STAGES - 1 ? 0 : fill + 1;
        const uint at = stage * STAGE_BYTES;
#pragma unroll
        for (int k = 0; k < DEPTH / 16; k++) {
            uint a[WM / 16][4], b[WN / 8][2];
#pragma unroll
            for (int i = 0; i < WM / 16; i++)
                MX_LDMATRIX_T(a[i][0], a[i][1], a[i][2], a[i][3],
                              a_row + at + k * 16 * ROW_BYTES + ((2 * i + a_chunk ^ swizzle) << 4));
#pragma unroll
            for (int j = 0; j < WN / 16; j++)
                MX_LDMATRIX_T(b[2 * j][0], b[2 * j][1], b[2 * j + 1][0], b[2 * j + 1][1],
                              b_row + at + k * 16 * ROW_BYTES + ((2 * j + b_chunk ^ swizzle) << 4));
            MX_EACH_PRODUCT(i, j)
                MX_MULTIPLY(sums[i][j], a[i], b[j]);
        }
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }

    partial += partial_offset + ((long)split * g.groups + group) * g.filters * columns;
    const int m_first = m0 + warp_m + (lane >> 2), n_first = n0 + warp_n + (lane & 3) * 2;
    MX_EACH_SUM(i, j, l, 2) {
        const int m = m_first + i * 16 + l * 4, n = n_first + j * 8;
        if (m < g.filters && n < columns)
            *(__global float2 *)(partial + (long)m * columns + n) = (float2)(sums[i][j][l], sums[i][j][l + 1]);
    }
}
