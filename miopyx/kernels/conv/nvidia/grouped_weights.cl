/* Backward weights of few channels a group in 16 bits on tensor cores: partial[worker][k][r][s][c], split-K over
 * tiles of pixels; conv/nvidia/sum.cl adds the workers up.  See conv/nvidia/grouped.h.
 *
 *   work-group (set, block of channels, TAP_ROWS rows of the filter, worker): over tiles worker, worker + workers, ...
 *   warp: one block of 16 filters x 16 channels for TAP_ROWS rows of the filter
 *
 * Grid: one axis, local 256, global 256 * sets * IN_BLOCKS * ceil(R / TAP_ROWS) * workers.
 * Local memory: STAGES times the pixels of x that a tile reads, with halo, and dy's, zeros outside the grid; both are
 * read transposed.
 * A sum that is not finite is computed again, since infinity times a zero outside x may have made it.
 * Bound by: memory.
 */
#ifndef TAPS_W /* columns of the filter */
#define TAPS_W 3
#endif
#ifndef TAP_ROWS
#define TAP_ROWS 3
#endif
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/grouped.h"

#define STAGE_BYTES ((SLOTS + PIXELS) * PITCH)
#define TAPS (TAP_ROWS * TAPS_W)

/* One sum over the tiles of a worker, without what is outside x. */
static inline float mx_exactly(__global const ushort *X, __global const ushort *Y, const mx_nv_grouped g, int worker,
                               int k, int c, int i, int j)
{
    float sum = 0;
#pragma unroll 1
    for (int tile = worker; tile < g.tiles; tile += g.workers) {
        const mx_nv_pixel corner = mx_corner(tile, g);
#pragma unroll 1
        for (int l = 0; l < g.tile_n * g.tile_p * g.tile_q; l++) {
            const mx_nv_pixel in = mx_within(l, g);
            const int p = corner.p + in.p, q = corner.q + in.q;
            const int h = p * g.step_h + g.first_h + i * g.tap_h, w = q * g.step_w + g.first_w + j * g.tap_w;
            if (mx_on_grid(l, corner, in, g) && (uint)h < (uint)g.h && (uint)w < (uint)g.w)
                sum = fma(LOAD(X_TYPE)(X, (corner.n + in.n) * g.x_n + h * g.x_h + w * g.x_w + c),
                          LOAD(X_TYPE)(Y, (corner.n + in.n) * g.y_n + p * g.y_h + q * g.y_w + k), sum);
        }
    }
    return sum;
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_grouped_weights(
    __global const ushort *restrict X, long x_offset, __global const ushort *restrict Y, long y_offset,
    __global float *restrict partial, long partial_offset, const mx_nv_grouped g)
{
    __local uint4 pixels[STAGES * STAGE_BYTES / 16] __attribute__((aligned(128)));
    __local float shares[WARPS][256] __attribute__((aligned(16)));
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
    const int lines = (g.taps_h + TAP_ROWS - 1) / TAP_ROWS;
    int group = get_group_id(0);
    const int set = group % g.sets;
    group /= g.sets;
    const int other = group % IN_BLOCKS;
    group /= IN_BLOCKS;
    const int line0 = group % lines * TAP_ROWS, worker = group / lines, channel0 = set * 16 * BLOCKS;
    const int block = warp % BLOCKS, pixel0 = warp / BLOCKS * (STEPS * 16), count = g.tile_n * g.tile_p * g.tile_q;

    X += x_offset;
    Y += y_offset + g.y_first;
    const bool aligned = (((ulong)X | (ulong)Y) & 15) == 0;
    const uint at = mx_shared(pixels);
    const int copied = channel0 + item % CHUNKS * 8;
    const uint to = at + item % CHUNKS * 16;
#define COPY_TILE_WITH(COPY16, stage, tile)                                                                     \
    do {                                                                                                        \
        MX_COPY_TILE(COPY16, to + (stage) * STAGE_BYTES, X, g, tile, copied);                                   \
        const mx_nv_pixel first = mx_corner(tile, g);                                                           \
        for (int i = item / CHUNKS; i < PIXELS; i += THREADS / CHUNKS) {                                        \
            const mx_nv_pixel in = mx_within(i, g);                                                             \
            const bool valid = copied < g.channels && mx_on_grid(i, first, in, g);                              \
            COPY16(to + (stage) * STAGE_BYTES + (SLOTS + i) * PITCH,                                            \
                   Y + (valid ? (first.n + in.n) * g.y_n + (first.p + in.p) * g.y_h + (first.q + in.q) * g.y_w  \
                                + copied : 0), valid);                                                          \
        }                                                                                                       \
    } while (0)
    COPY_TILE(0, worker);
    MX_COMMIT();

    uint base[STEPS]; /* where the lane's pixel of each sixteen begins, at the lowest tap of line0 */
    const int lowest = (line0 * g.tap_h - g.low_h) * g.columns - g.low_w;
#pragma unroll
    for (int m = 0; m < STEPS; m++) {
        const int i = pixel0 + m * 16 + (lane & 15);
        const mx_nv_pixel in = mx_within(i < count ? i : 0, g);
        base[m] = at + ((in.n * g.rows + in.p * g.step_h) * g.columns + in.q * g.step_w + lowest) * PITCH
                  + (block / IN_BLOCKS * IN_BLOCKS + other) * 32 + (lane >> 4) * 16;
    }
    const uint dy_base = at + (SLOTS + pixel0 + (lane & 7) + (lane >> 4) * 8) * PITCH + block * 32
                         + (lane >> 3 & 1) * 16;
    float sums[TAPS][2][4];
#pragma unroll
    for (int t = 0; t < TAPS; t++)
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int l = 0; l < 4; l++)
                sums[t][j][l] = 0;

    int stage = 0;
#pragma unroll 1
    for (int tile = worker; tile < g.tiles; tile += g.workers) {
        BEGIN_TILE();
#pragma unroll
        for (int m = 0; m < STEPS; m++) {
            if (pixel0 + m * 16 >= count)
                continue;
            uint a[4];
            MX_LDMATRIX_T(a[0], a[1], a[2], a[3], dy_base + stage * STAGE_BYTES + m * 16 * PITCH);
#pragma unroll
            for (int t = 0; t < TAPS; t++) {
                uint b[2][2];
                if (line0 + t / TAPS_W >= g.taps_h)
                    break;
                MX_LDMATRIX_T(b[0][0], b[0][1], b[1][0], b[1][1],
                              base[m] + stage * STAGE_BYTES
                                  + (t / TAPS_W * g.tap_h * g.columns + t % TAPS_W * g.tap_w) * PITCH);
                MX_MULTIPLY(sums[t][0], a, b[0]);
                MX_MULTIPLY(sums[t][1], a, b[1]);
            }
        }
        END_TILE();
    }

    /* The warps' sums of each tap, one after the other, of what is in a group. */
    const int taps = g.taps_h * TAPS_W, row = item >> 4, column = item & 15;
    partial += partial_offset + (long)worker * g.channels * g.group_channels * taps;
    ulong again = 0;
    int places[BLOCKS]; /* of the first tap's, -1 for what is in no group */
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        const int k = channel0 + b * 16 + row, c = channel0 + (b / IN_BLOCKS * IN_BLOCKS + other) * 16 + column;
        const int in_group = c - (k & -g.group_channels); /* `each` is a power of two */
        places[b] =
            k < g.channels && (uint)in_group < (uint)g.group_channels ? k * g.group_channels * taps + in_group : -1;
    }
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
        if (line0 + t / TAPS_W >= g.taps_h)
            break;
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int l = 0; l < 4; l += 2) {
                __local float *to_pair = shares[warp] + ((lane >> 2) + (l >> 1) * 8) * 16 + j * 8 + (lane & 3) * 2;
                *(__local float2 *)to_pair = (float2)(sums[t][j][l], sums[t][j][l + 1]);
            }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            if (places[b] < 0)
                continue;
            float sum = 0;
#pragma unroll
            for (int i = b; i < WARPS; i += BLOCKS)
                sum += shares[i][item];
            if (!isfinite(sum))
                again |= 1ul << (t * BLOCKS + b);
            else
                partial[places[b] + ((line0 + t / TAPS_W) * TAPS_W + t % TAPS_W) * g.group_channels] = sum;
        }
    }
#pragma unroll 1
    for (int i = 0; again != 0; i++, again >>= 1)
        if (again & 1) {
            const int b = i % BLOCKS, r = line0 + i / BLOCKS / TAPS_W, s = i / BLOCKS % TAPS_W;
            const int k = channel0 + b * 16 + row, c = channel0 + (b / IN_BLOCKS * IN_BLOCKS + other) * 16 + column;
            partial[(k * taps + r * TAPS_W + s) * g.group_channels + c - (k & -g.group_channels)] =
                mx_exactly(X, Y, g, worker, k, c, r, s);
        }
}
