/* Backward weights of few channels in 16 bits on tensor cores: partial[worker][k][tap][c], split-K over tiles of
 * pixels; conv/nvidia/sum.cl adds the workers up.  See conv/nvidia/few.h.
 *
 *   work-group (set, worker): 64 filters x all of K, over tiles worker, worker + workers, ... of 8 x 16 pixels
 *   warp: 64 filters x EACH * 8 of K, a row of 16 pixels at a time
 *
 * Grid: one axis, local 256, global 256 * sets * workers.
 * Local memory: two stages of x's pixels of a tile, with halo, and of dy's, zeros outside y, in y's layout.
 * A sum that is not finite is computed again, since infinity times a zero outside x may have made it.
 * Bound by: reading dy.
 */
#ifndef CHUNKED /* 8 neighbours of dy are all inside it or all outside, and 16-byte aligned */
#define CHUNKED 1
#endif
#define THREADS 256
#ifndef X_TYPE
#define X_TYPE half
#endif
#ifndef STEPS
#define STEPS 10
#endif
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/few.h"

#define EACH ((2 * STEPS + 7) / 8)
#define PIXELS (TILE_H * TILE_W)
#define PITCH (CHANNELS_LAST ? 144 : 272) /* bytes of a pixel's filters, or of a filter's pixels */
#define DY_BYTES (CHANNELS_LAST ? PIXELS * 144 : 64 * 272)

/* One sum over the tiles of a worker, without what is outside x. */
static inline float mx_exactly(__global const ushort *X, __global const ushort *Y, const mx_nv_few g, int worker,
                               int k, int c, int i, int j)
{
    float sum = 0;
#pragma unroll 1
    for (int tile = worker; tile < g.tiles; tile += g.workers) {
        const int line = mx_quotient(tile, g.by_across), n = mx_quotient(line, g.by_down);
#pragma unroll 1
        for (int l = 0; l < PIXELS; l++) {
            const int p = (line - n * g.down) * TILE_H + l / TILE_W, q = (tile - line * g.across) * TILE_W + l % TILE_W;
            const int h = p * g.step_h + g.first_h + i * g.tap_h, w = q * g.step_w + g.first_w + j * g.tap_w;
            if (p < g.p && q < g.q && (uint)h < (uint)g.h && (uint)w < (uint)g.w)
                sum = fma(LOAD(X_TYPE)(X, n * g.x_n + c * g.x_c + h * g.x_h + (CHANNELS_LAST ? w * g.channels : w)),
                          LOAD(X_TYPE)(Y, n * g.y_n + k * g.y_c + p * g.y_h + q * g.y_w), sum);
        }
    }
    return sum;
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_few_weights(
    __global const ushort *restrict X, long x_offset, __global const ushort *restrict Y, long y_offset,
    __global float *restrict partial, long partial_offset, const mx_nv_few g)
{
    __local ushort pixels[2][TILE_ELEMENTS] __attribute__((aligned(16)));
    __local uint4 gradients[2][DY_BYTES / 16] __attribute__((aligned(128)));
    __local int in_x[STEPS * 16], in_w[STEPS * 16];
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5, t = lane & 3, row8 = lane >> 2;
    const int set = get_group_id(0) % g.sets, worker = get_group_id(0) / g.sets, filter0 = set * 64;
    const int unit = CHANNELS_LAST ? g.channels : 1, taps = g.taps_h * g.taps_w;

    X += x_offset, Y += y_offset;
    const uint pixels_at = mx_shared(pixels), dy_at = mx_shared(gradients);
    const bool chunked = CHUNKED && ((ulong)Y & 15) == 0;
    /* Eight filters of a pixel, or eight pixels of a filter. */
#define COPY_DY(stage, number)                                                                                         \
    do {                                                                                                               \
        const int tile_ = (number), line_ = mx_quotient(tile_, g.by_across), n = mx_quotient(line_, g.by_down);        \
        const int p0 = (line_ - n * g.down) * TILE_H, q0 = (tile_ - line_ * g.across) * TILE_W;                        \
        _Pragma("unroll 1") for (int i = item; i < 8 * PIXELS; i += THREADS)                                           \
        {                                                                                                              \
            const int pixel = CHANNELS_LAST ? i >> 3 : (i & 15) * 8, filter = CHANNELS_LAST ? (i & 7) * 8 : i >> 4;    \
            const int p = p0 + pixel / TILE_W, q = q0 + pixel % TILE_W, k = filter0 + filter;                          \
            const bool some = p < g.p && q < g.q && k < g.filters;                                                     \
            __global const ushort *from = Y + (some ? n * g.y_n + p * g.y_h + q * g.y_w + k * g.y_c : 0);              \
            const uint to = dy_at + (stage)*DY_BYTES                                                                   \
                            + (CHANNELS_LAST ? pixel * PITCH + filter * 2 : filter * PITCH + pixel * 2);               \
            if (chunked)                                                                                               \
                MX_COPY16(to, from, some);                                                                             \
            else                                                                                                       \
                _Pragma("unroll 1") for (int l = 0; l < 8; l++)                                                        \
                {                                                                                                      \
                    const bool valid = some && (CHANNELS_LAST ? k + l < g.filters : q + l < g.q);                      \
                    const ushort value = valid ? from[l * (CHANNELS_LAST ? g.y_c : g.y_w)] : (ushort)0;                \
                    asm volatile("st.shared.b16 [%0], %1;" ::"r"(to + 2 * l), "h"(value) : "memory");                  \
                }                                                                                                      \
        }                                                                                                              \
    } while (0)
    COPY_DY(0, worker);
    MX_COMMIT();
    MX_COPY_X(0, worker);
    MX_LIST_K(in_x, in_w, 1, g.taps_w * g.channels, g.channels);
    MX_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);

    const int first = warp * EACH * 8, next_row = g.step_h * g.pitch, pixel_step = g.step_w * unit;
    int base[EACH];
    float sums[EACH][4][4];
#pragma unroll
    for (int b = 0; b < EACH; b++) {
        const int k = first + b * 8 + row8;
        base[b] = (k < STEPS * 16 ? in_x[k] : 0) + 2 * t * pixel_step;
#pragma unroll
        for (int i = 0; i < 16; i++)
            sums[b][i >> 2][i & 3] = 0;
    }
    const uint a_base = dy_at + (CHANNELS_LAST ? ((lane & 7) + (lane >> 4) * 8) * PITCH + (lane >> 3 & 1) * 16
                                      : (lane & 15) * PITCH + (lane >> 4) * 16);
    int stage = 0;
#pragma unroll 1
    for (int tile = worker; tile < g.tiles; tile += g.workers, stage ^= 1) {
        if (tile + g.workers < g.tiles) {
            COPY_DY(stage ^ 1, tile + g.workers);
            MX_COMMIT();
            MX_COPY_X(stage ^ 1, tile + g.workers);
        }
        if (first < STEPS * 16) {
            __local const ushort *from = pixels[stage];
            uint a_at = a_base + stage * DY_BYTES;
#pragma unroll 1
            for (int row = 0; row < TILE_H; row++, from += next_row, a_at += CHANNELS_LAST ? 16 * PITCH : 32) {
                uint a[4][4];
#pragma unroll
                for (int m = 0; m < 4; m++)
                    if (CHANNELS_LAST)
                        MX_LDMATRIX_T(a[m][0], a[m][1], a[m][2], a[m][3], a_at + m * 32);
                    else
                        MX_LDMATRIX(a[m][0], a[m][1], a[m][2], a[m][3], a_at + m * 16 * PITCH);
#pragma unroll
                for (int b = 0; b < EACH; b++) {
                    __local const ushort *one = from + base[b];
                    const uint b0 = (uint)one[0] | (uint)one[pixel_step] << 16;
                    const uint b1 = (uint)one[8 * pixel_step] | (uint)one[9 * pixel_step] << 16;
#pragma unroll
                    for (int m = 0; m < 4; m++)
                        MX_ADD_PRODUCT(sums[b][m], a[m][0], a[m][1], a[m][2], a[m][3], b0, b1);
                }
            }
        }
        MX_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    partial += partial_offset + (long)worker * g.filters * taps * g.channels;
    ulong again = 0;
#pragma unroll
    for (int b = 0; b < EACH; b++)
#pragma unroll
        for (int m = 0; m < 4; m++)
#pragma unroll
            for (int l = 0; l < 4; l++) {
                const int column = first + b * 8 + 2 * t + (l & 1), k = filter0 + m * 16 + row8 + 8 * (l >> 1);
                const int at = column < STEPS * 16 ? in_w[column] : -1;
                if (at < 0 || k >= g.filters)
                    continue;
                if (isfinite(sums[b][m][l]))
                    partial[k * taps * g.channels + at] = sums[b][m][l];
                else
                    again |= 1ul << (b * 16 + m * 4 + l);
            }
#pragma unroll 1
    for (int i = 0; again != 0; i++, again >>= 1)
        if (again & 1) {
            const int column = first + (i >> 4) * 8 + 2 * t + (i & 1);
            const int k = filter0 + (i >> 2 & 3) * 16 + row8 + 8 * (i >> 1 & 1), at = in_w[column];
            const int tap = at / g.channels;
            partial[k * taps * g.channels + at] =
                mx_exactly(X, Y, g, worker, k, at - tap * g.channels, tap / g.taps_w, tap % g.taps_w);
        }
}
