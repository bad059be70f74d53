/* Convolution of few channels a group in 16 bits on tensor cores, forward or backward data:
 * y = alpha * x w + beta * y.  See conv/nvidia/grouped.h.
 *
 *   work-group (set, worker): BLOCKS * 16 outputs, over tiles worker, worker + workers, ... of the grid
 *   warp: STEPS * 16 pixels x one block of 16 outputs; any filter and stride, since ldmatrix takes each pixel's address
 *
 * Grid: one axis, local 256, global 256 * sets * workers.
 * Local memory: STAGES times the pixels of x that a tile reads, with halo; the weights of all taps for the life of the
 * work-group (resident), outputs in an order that gives each work-item four neighbours.
 * A sum that is not finite is computed again, since infinity times a zero between groups or outside x may have made it.
 * Bound by: memory; by ldmatrix where there are many taps.
 */
#ifndef TRANSPOSED /* outputs are channels of w, not filters */
#define TRANSPOSED 0
#endif
#ifndef TAPS /* room for so many */
#define TAPS 9
#endif
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/grouped.h"

/* One sum, product after product, of what is inside x and the group. */
static inline float mx_exactly(__global const ushort *X, __global const ushort *W, const mx_nv_grouped g,
                               mx_nv_pixel at, int output)
{
    const int group = output / g.group_channels * g.group_channels;
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < g.taps_h; i++)
#pragma unroll 1
        for (int j = 0; j < g.taps_w; j++) {
            const int h = at.p * g.step_h + g.first_h + i * g.tap_h, w = at.q * g.step_w + g.first_w + j * g.tap_w;
            if ((uint)h >= (uint)g.h || (uint)w >= (uint)g.w)
                continue;
#pragma unroll 1
            for (int c = 0; c < g.group_channels; c++) {
                const int k = TRANSPOSED ? group + c : output, from = TRANSPOSED ? output - group : c;
                sum = fma(LOAD(X_TYPE)(X, at.n * g.x_n + h * g.x_h + w * g.x_w + group + c),
                          LOAD(X_TYPE)(W, k * g.w_k + from * g.w_c + i * g.w_h + j * g.w_w), sum);
            }
        }
    return sum;
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_grouped(
    __global const ushort *restrict X, long x_offset, __global const ushort *restrict W, long w_offset,
    __global ushort *restrict Y, long y_offset, const mx_nv_grouped g, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(Y, y_offset);
    __local uint4 pixels[STAGES * SLOTS * PITCH / 16] __attribute__((aligned(128)));
    __local uint4 weights[BLOCKS * IN_BLOCKS * TAPS * 32] __attribute__((aligned(128)));
    __local int places[PIXELS]; /* of the tile's pixels in y, -1 for what is not on the grid */
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
    const int set = get_group_id(0) % g.sets, worker = get_group_id(0) / g.sets, channel0 = set * 16 * BLOCKS;
    const int block = warp % BLOCKS, pixel0 = warp / BLOCKS * (STEPS * 16), taps = g.taps_h * g.taps_w;

    X += x_offset;
    W += w_offset + g.w_first;
    Y += y_offset + g.y_first;
    const bool aligned = ((ulong)X & 15) == 0, wide = ((ulong)Y & 7) == 0;
    const uint x_at = mx_shared(pixels), w_at = mx_shared(weights);
    const int copied = channel0 + item % CHUNKS * 8;
    const uint to = x_at + item % CHUNKS * 16;
#define COPY_TILE_WITH(COPY16, stage, tile) \
    MX_COPY_TILE(COPY16, to + (stage) * (SLOTS * PITCH), X, g, tile, copied)
    COPY_TILE(0, worker);
    MX_COMMIT();

    /* The weights: 16 rows, filters, of 16 channels a block and tap, 8 channels at a time. */
    const bool runs = g.group_channels >= 8 && g.w_c == 1 && (((ulong)W & 15) == 0)
                      && ((g.w_k | g.w_h | g.w_w) & 7) == 0;
#pragma unroll 2
    for (int i = item; i < BLOCKS * IN_BLOCKS * taps * 32; i += THREADS) {
        const int part = i & 1, row = i >> 1 & 15, b = mx_quotient(i >> 5, g.by_taps), tap = (i >> 5) - b * taps;
        const int tap_h = mx_quotient(tap, g.by_taps_w), own = channel0 / 16 + b / IN_BLOCKS;
        const int other = own / IN_BLOCKS * IN_BLOCKS + b % IN_BLOCKS;
        const int k = 16 * (TRANSPOSED ? other : own) + row, c = 16 * (TRANSPOSED ? own : other) + 8 * part;
        const int in_group = c - (k & -g.group_channels); /* of the first; `each` is a power of two */
        __global const ushort *from =
            W + k * g.w_k + tap_h * g.w_h + (tap - tap_h * g.taps_w) * g.w_w + in_group * g.w_c;
        uint pairs[4] = {0, 0, 0, 0};
        if (k < g.channels && in_group > -8 && in_group < g.group_channels) {
            if (runs) {
                const uint4 all = *(__global const uint4 *)from;
                pairs[0] = all.x, pairs[1] = all.y, pairs[2] = all.z, pairs[3] = all.w;
            } else
#pragma unroll
                for (int l = 0; l < 8; l++)
                    if ((uint)(in_group + l) < (uint)g.group_channels)
                        pairs[l / 2] |= (uint)from[l * g.w_c] << l % 2 * 16;
        }
        /* Output 4 t + 2 j + l of a block is column 2 t + l of the half j. */
        const int to_row = TRANSPOSED ? row : (row >> 1 & 1) * 8 + (row >> 2) * 2 + (row & 1);
        __local uint4 *to_line = weights + (i >> 5) * 32 + to_row * 2;
        const int swap = to_row >> 2 & 1;
        if (TRANSPOSED) {
            ((__local uint2 *)(to_line + swap))[part] = (uint2)(pairs[0], pairs[2]);
            ((__local uint2 *)(to_line + (1 ^ swap)))[part] = (uint2)(pairs[1], pairs[3]);
        } else
            to_line[part ^ swap] = (uint4)(pairs[0], pairs[1], pairs[2], pairs[3]);
    }

    uint base[STEPS]; /* where the lane's pixel of each sixteen begins, at the lowest tap */
#pragma unroll
    for (int m = 0; m < STEPS; m++) {
        const int i = pixel0 + m * 16 + (lane & 15);
        const mx_nv_pixel in = mx_within(i < g.tile_n * g.tile_p * g.tile_q ? i : 0, g);
        base[m] = x_at + ((in.n * g.rows + in.p * g.step_h) * g.columns + in.q * g.step_w) * PITCH
                  + block / IN_BLOCKS * IN_BLOCKS * 32 + (lane >> 4) * 16;
    }
    const int w_row = TRANSPOSED ? lane & 15 : (lane & 7) + (lane >> 4) * 8;
    const int w_chunk = TRANSPOSED ? lane >> 4 : lane >> 3 & 1;
    const uint w_base = w_at + block * IN_BLOCKS * taps * 512 + w_row * 32 + ((w_chunk ^ (w_row >> 2 & 1)) << 4);
    const int tap_pitch = g.tap_w * PITCH, line_pitch = g.tap_h * g.columns * PITCH - g.taps_w * tap_pitch;
    const int origin = -(g.low_h * g.columns + g.low_w) * PITCH;
    const int output = channel0 + block * 16 + (lane & 3) * 4;

    int stage = 0;
#pragma unroll 1
    for (int tile = worker; tile < g.tiles; tile += g.workers) {
        const mx_nv_pixel corner = mx_corner(tile, g);
        for (int i = item; i < PIXELS; i += THREADS) {
            const mx_nv_pixel in = mx_within(i, g);
            places[i] = mx_on_grid(i, corner, in, g) ? (corner.n + in.n) * g.y_n + (corner.p + in.p) * g.y_h
                                                           + (corner.q + in.q) * g.y_w
                                                     : -1;
        }
        BEGIN_TILE();

        float sums[STEPS][2][4];
#pragma unroll
        for (int m = 0; m < STEPS; m++)
#pragma unroll
            for (int j = 0; j < 2; j++)
#pragma unroll
                for (int l = 0; l < 4; l++)
                    sums[m][j][l] = 0;
        uint w_from = w_base;
#pragma unroll
        for (int b = 0; b < IN_BLOCKS; b++) {
            int at = origin + stage * (SLOTS * PITCH) + b * 32;
            for (int i = 0; i < g.taps_h; i++, at += line_pitch)
#pragma unroll 1
                for (int j = 0; j < g.taps_w; j++, at += tap_pitch, w_from += 512) {
                    uint a[STEPS][4], w[2][2];
                    if (TRANSPOSED)
                        MX_LDMATRIX_T(w[0][0], w[0][1], w[1][0], w[1][1], w_from);
                    else
                        MX_LDMATRIX(w[0][0], w[0][1], w[1][0], w[1][1], w_from);
#pragma unroll
                    for (int m = 0; m < STEPS; m++)
                        MX_LDMATRIX(a[m][0], a[m][1], a[m][2], a[m][3], base[m] + at);
#pragma unroll
                    for (int m = 0; m < STEPS; m++) {
                        MX_MULTIPLY(sums[m][0], a[m], w[0]);
                        MX_MULTIPLY(sums[m][1], a[m], w[1]);
                    }
                }
        }

        uint again = 0;
#pragma unroll
        for (int m = 0; m < STEPS; m++)
#pragma unroll
            for (int row = 0; row < 2; row++) {
                const int i = pixel0 + m * 16 + row * 8 + (lane >> 2), place = places[i];
                if (place < 0 || output >= g.channels)
                    continue;
                float v[4] = {sums[m][0][2 * row], sums[m][0][2 * row + 1], sums[m][1][2 * row],
                              sums[m][1][2 * row + 1]};
                if (!(fabs(v[0]) + fabs(v[1]) + fabs(v[2]) + fabs(v[3]) < INFINITY)) {
                    again |= 1u << (2 * m + row);
                    continue;
                }
                __global ushort *y = Y + place + output;
#pragma unroll
                for (int l = 0; l < 4; l++) {
                    OF_FILTER(output + l)
                    v[l] = SCALED_RESULT(v[l]);
                    if (beta != 0)
                        v[l] += beta * LOAD(X_TYPE)(OLD_RESULT(X_TYPE, y), l);
                    v[l] = FINAL_RESULT(v[l]);
                }
                uint2 four;
                MX_ROUND_PAIR(four.x, v[0], v[1]);
                MX_ROUND_PAIR(four.y, v[2], v[3]);
                if (wide)
                    *(__global uint2 *)y = four;
                else {
                    y[0] = (ushort)four.x, y[1] = (ushort)(four.x >> 16);
                    y[2] = (ushort)four.y, y[3] = (ushort)(four.y >> 16);
                }
            }
#pragma unroll 1
        for (int row = 0; again != 0; row++, again >>= 1)
            if (again & 1) {
                const int i = pixel0 + row * 8 + (lane >> 2);
                mx_nv_pixel at = mx_within(i, g);
                at.n += corner.n, at.p += corner.p, at.q += corner.q;
                __global ushort *y = Y + places[i] + output;
#pragma unroll 1
                for (int l = 0; l < 4; l++) {
                    OF_FILTER(output + l)
                    STORE_ONE(X_TYPE, y, l, mx_exactly(X, W, g, at, output + l));
                }
            }
        END_TILE();
    }
}
