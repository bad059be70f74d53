/* Backward weights of floats on TF32 by wgmma, x and dy with channels last: partial sums of split-K over pixels.  Needs
 * SM_90A.
 *
 *   sum over a split's pixels of dy[pixel][filter] * x[pixel + (i, j)][c]; columns: `reduced` channels a tap
 *
 * wgmma takes floats from local memory only with the summed axis, the pixels, contiguous, and both have channels so.  A
 * warpgroup turns one of them within local memory: x, or dy (TURN_Y), the narrower one.  The other one is loaded into
 * registers, where the order is free.  Tiles, splits and partial[slot][BM][BN] are as in conv/nvidia/tf32_weights.cl
 * (PERSISTENT); conv/nvidia/hopper_sum.cl adds them up (IN_ROWS).
 *
 *   maps -> raw ring of STAGES -> last warpgroup -> turned ring of TURNS -> wgmma, WG_ROWS * 64 rows of a warpgroup
 *                             `-> registers, of the next slice while wgmma is under way -^
 *
 *   raw     conv/nvidia/tf32_weights_blocks.h
 *   turned  a row of DEPTH pixels for each of WN columns of the product, swizzled as wgmma reads them.  The summed axis
 *           has pixels 0, 2, 4, 6, then 1, 3, 5, 7 of each eight, as mx_load_pairs has them.  A lane stores four
 *           neighbours, so of 16 neighbours number 4 t + 2 h + e is column 8 h + 2 t + e of the product.
 *   rows    of 16 neighbours of the operand in registers 2 g and 2 g + 1 are rows g and g + 8 of the product.
 *
 * Grid: one axis, local THREADS, global THREADS * (tiles * splits, or ceil(tiles * slices / split_slices)).
 * Without TENSOR_MAPS, for memory that none takes, the last warpgroup copies and rounds float by float.
 * Bound by: local memory, for a slice of 256 x 128 1408 clocks (copies 384, turning 256, registers 256, wgmma 512) beside
 * 1024 of products; memory where filters and columns are few.
 */
#define X_TYPE float
#ifndef AXES
#define AXES 2
#endif
#ifndef PERSISTENT
#define PERSISTENT 0
#endif
#ifndef BM /* filters of a tile */
#define BM 256
#endif
#ifndef BN /* columns of a tile */
#define BN 128
#endif
#ifndef TURN_Y /* 1: dy is turned, so that rows of the product are columns of dw */
#define TURN_Y 0
#endif
#ifndef WG_ROWS /* of 64 rows of the product that a warpgroup owns */
#define WG_ROWS 2
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef TURNS
#define TURNS 2
#endif
#ifndef TENSOR_MAPS
#define TENSOR_MAPS 0
#endif
#define DEPTH 32 /* pixels of a slice */
#define MX_TF32
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/taps.h"
#include "conv/nvidia/places.h"
#include "conv/nvidia/wgmma.h"
#include "conv/nvidia/wgmma_tf32.h"
#include "conv/nvidia/tensor_maps.h"
#include "conv/nvidia/tf32_weights_blocks.h"

/* The product has ROWS rows, from registers, and WN columns, turned: 64, 128 or 256. */
#if TURN_Y
#define ROWS BN
#define WN BM
#define ROWS_AT (Y_BLOCKS * BLOCK_BYTES) /* in a stage */
#define UNTURNED_AT 0
#else
#define ROWS BM
#define WN BN
#define ROWS_AT 0
#define UNTURNED_AT (Y_BLOCKS * BLOCK_BYTES)
#endif
#define CONSUMERS (ROWS / (64 * WG_ROWS))
#define THREADS (128 * CONSUMERS + 128)
#define TURNED_BYTES (WN * ROW_BYTES)
#define RING_BYTES (STAGES * STAGE_BYTES)
#define WGMMA_TF32 MX_JOIN(MX_TF32_, WN)
#define FOURS (WN / 64)             /* of pixels by four channels, that a work-item turns */
#define AT_ONCE (FOURS > 1 ? 2 : 1) /* of these in registers */
/* 384 work-items have 168 registers each when they begin.  Consumers have two sets of rows besides 128 sums. */
#define MORE_REGISTERS (WG_ROWS * WN >= 256)
#define CONSUMER_REGISTERS (WG_ROWS == 2 ? 224 : 200)
#define PRODUCER_REGISTERS (504 - 2 * CONSUMER_REGISTERS)

/* A slice in the raw ring and one in the turned one. */
#define NEXT(stage, parity, stages) \
    if (++(stage) == (stages))      \
    (stage) = 0, (parity) ^= 1

/* A warp arrives, once its lanes have read or written what they do before. */
#define RELEASE(barrier_at)                                     \
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");     \
    if (lane == 0)                                              \
    mx_barrier_arrive(barrier_at)

#if !TENSOR_MAPS
/* A warp's eight pixels of a slice, rounded. */
static inline void mx_copy_rounded(uint to, __global const float *X, __global const float *Y, const mx_tile_blocks *own,
                                   int columns, int slice, int lane, int row0, const MX_PROBLEM *MX_GIVEN)
{
#if AXES == 3
    const mx_nv_conv *const g = &volume->conv;
#endif
    const mx_nv_places places =
        mx_places(slice * DEPTH + row0 + (lane & 7), own->group * g->y_g, own->group * g->x_g, MX_GIVEN);
#pragma unroll 1
    for (int row = 0; row < 8; row++) {
        const int y_at = mx_from_lane(places.y, row), x_at = mx_from_lane(places.x, row);
        const uint taps = mx_from_lane(places.taps, row);
#pragma unroll 1
        for (int chunk = lane; chunk < (BM + BN) / 4; chunk += 32) {
            const uint at = to + chunk / 8 * BLOCK_BYTES + (row0 + row) * ROW_BYTES + ((chunk % 8 ^ row) << 4);
            const int k = own->m0 + chunk * 4, column = own->n0 + (chunk - BM / 4) * 4;
            if (chunk < BM / 4) {
                mx_copy_nearest(at, Y + (y_at + k), y_at >= 0 & k < g->filters);
                continue;
            }
            const int over = column / g->reduced, down = over / g->taps_w, tap_w = over - down * g->taps_w;
#if AXES == 3
            const int tap_d = down / MX_ROW(g->taps_h), tap_h = down - tap_d * MX_ROW(g->taps_h);
            const uint tap = MX_TAP_IN_DEPTH(tap_d, tap_h, tap_w);
            const int far = tap_d * MX_DEEP(g->tap_h) * volume->x_d + tap_h * MX_ROW(g->tap_h) * g->x_h;
#else
            const uint tap = MX_TAP(down, tap_w);
            const int far = down * g->tap_h * g->x_h;
#endif
            mx_copy_nearest(at, X + (x_at + far + tap_w * g->tap_w * g->x_w + column - over * g->reduced),
                            column < columns && (taps & tap) == tap);
        }
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_tf32_weights_turned(
#if TENSOR_MAPS
    const mx_tensor_map x_map, const mx_tensor_map y_map,
#else
    __global const float *restrict X, long x_offset, __global const float *restrict Y, long y_offset,
#endif
    __global float *restrict partial, long partial_offset, const MX_PROBLEM MX_GIVEN, const int split_slices)
{
    __local uint4 stages[(RING_BYTES + TURNS * TURNED_BYTES) / 16] __attribute__((aligned(1024)));
    __local ulong barriers[2 * (STAGES + TURNS)]; /* full and empty, of stages and of what is turned */
    MX_LET_NEXT_BEGIN(); /* what adds up */
#if AXES == 3
    const mx_nv_conv g = volume.conv;
#endif
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5 & 3, role = item >> 7;
    const int columns = MX_BOTH(g.taps_h) * g.taps_w * g.reduced;
    const int down = (g.filters + BM - 1) / BM, across = (columns + BN - 1) / BN, tiles = down * across * g.groups;
    const int slices = (g.pixels + DEPTH - 1) / DEPTH, number = get_group_id(0);
    /* The first tile and slice of this group, and how many slices it has. */
    int tile = PERSISTENT ? number * split_slices / slices : number % tiles;
    int first = PERSISTENT ? number * split_slices - tile * slices : number / tiles * split_slices;
    int left = min(split_slices, PERSISTENT ? tiles * slices - number * split_slices : slices - first);

    const uint shared = mx_shared(stages), full = mx_shared(barriers), empty = full + 8 * STAGES;
    const uint turned_full = empty + 8 * STAGES, turned_empty = turned_full + 8 * TURNS;
    int stage = 0, parity = 0, turn = 0, turn_parity = 0;
    if (item == 0) {
        mx_ring_begin(full, STAGES, TENSOR_MAPS ? 1 : 4, 4 * CONSUMERS + 4);
        mx_ring_begin(turned_full, TURNS, 4, 4 * CONSUMERS);
        if (TENSOR_MAPS)
            MX_WG_PUBLISH(); /* the copies' proxy finds the barriers begun */
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    if (role == CONSUMERS) {
#if MORE_REGISTERS
        MX_WG_FEWER(PRODUCER_REGISTERS);
#endif
        /* Eight lanes that go together have chunks c = 0 to 7 of four channels and chunks q of four pixels with
         * q = (c / 4) ^ (a number of theirs).  The chunks that they read together are c ^ (q % 2) ^ 2 k, those that they
         * write q ^ 2 (c % 4) ^ (a number): either are eight different ones. */
        const int eight = item >> 3 & 15, c = item & 7, q = (eight ^ c >> 2) & 7;
        const uint from = shared + UNTURNED_AT + eight / 8 * BLOCK_BYTES + (q / 2 * 8 + q % 2) * ROW_BYTES
                          + ((c ^ q % 2) << 4);
        const uint to = shared + RING_BYTES + eight / 8 * BLOCK_BYTES + (c / 4 * 16 + c % 4 * 2) * ROW_BYTES
                        + ((q ^ c % 4 * 2) << 4);
        int slice = first; /* to be copied next */
        bool copies = true;
#if TENSOR_MAPS
        ulong x_map_at, y_map_at;
        MX_PARAMETER_AT(x_map_at, "conv_nvidia_tf32_weights_turned", "0");
        MX_PARAMETER_AT(y_map_at, "conv_nvidia_tf32_weights_turned", "1");
        copies = warp == 0;
#else
        X += x_offset;
        Y += y_offset;
#endif
        mx_tile_blocks own = mx_blocks_of(tile, down, across, columns, lane, &g);
        parity = 1;
#pragma unroll 1
        for (int n = -STAGES; n < left; n++) { /* slice n is turned, then slice n + STAGES copied to where it was */
            if (n >= 0) {
                const uint raw = from + stage * STAGE_BYTES, turned = to + turn * TURNED_BYTES;
                mx_barrier_wait(full + 8 * stage, parity);
#pragma unroll
                for (int i = 0; i < FOURS; i += AT_ONCE) {
                    uint v[AT_ONCE][4][4];
#pragma unroll
                    for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
                        for (int k = 0; k < 4; k++) /* every second pixel of eight */
                            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                                         : "=r"(v[j][k][0]), "=r"(v[j][k][1]), "=r"(v[j][k][2]), "=r"(v[j][k][3])
                                         : "r"((raw ^ k << 5) + k * 2 * ROW_BYTES + (i + j) * 2 * BLOCK_BYTES)
                                         : "memory");
                    if (i + AT_ONCE == FOURS) {
                        RELEASE(empty + 8 * stage);
                    }
                    if (i == 0)
                        mx_barrier_wait(turned_empty + 8 * turn, turn_parity ^ 1);
#pragma unroll
                    for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
                        for (int l = 0; l < 4; l++) /* channels */
                            asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                                         ::"r"((turned ^ l % 2 << 4) + (l / 2 * 8 + l % 2) * ROW_BYTES
                                               + (i + j) * 2 * BLOCK_BYTES),
                                         "r"(v[j][0][l]), "r"(v[j][1][l]), "r"(v[j][2][l]), "r"(v[j][3][l])
                                         : "memory");
                }
                MX_WG_PUBLISH();
                RELEASE(turned_full + 8 * turn);
                NEXT(turn, turn_parity, TURNS);
            }
            if (copies && n + STAGES < left) {
                const uint at = shared + stage * STAGE_BYTES;
                mx_barrier_wait(empty + 8 * stage, parity);
#if TENSOR_MAPS
                mx_copy_blocks(at, full + 8 * stage, &own, slice, lane, x_map_at, y_map_at, &MX_GIVEN);
#else
                mx_copy_rounded(at, X, Y, &own, columns, slice, lane, warp * 8, &MX_GIVEN);
                RELEASE(full + 8 * stage);
#endif
                if (++slice == slices && PERSISTENT) {
                    slice = 0;
                    own = mx_blocks_of(++tile, down, across, columns, lane, &g);
                }
            }
            NEXT(stage, parity, STAGES);
        }
    } else {
#if MORE_REGISTERS
        MX_WG_MORE(CONSUMER_REGISTERS);
#endif
        const int row = (role * 4 + warp) * (16 * WG_ROWS); /* the warp's first */
        const uint rows_from = shared + ROWS_AT + row / 32 * BLOCK_BYTES + (mx_at(lane) ^ row % 32 / 16 * 64);
        const ulong matrix = mx_wg_matrix(shared + RING_BYTES, 0);
        for (; left > 0; tile++, first = 0) {
            int count = min(left, slices - first);
            left -= count;
            float sums[WG_ROWS][WN / 2];
            uint a[WG_ROWS][STEPS][4], other[WG_ROWS][STEPS][4];
            uint before = 0; /* the barrier of what products under way read */
#pragma unroll
            for (int i = 0; i < WG_ROWS; i++)
#pragma unroll
                for (int j = 0; j < WN / 2; j++)
                    sums[i][j] = 0;
/* The next slice's rows.  Products that read the same registers are done. */
#define LOAD_ROWS(a)                                                                                                  \
    do {                                                                                                              \
        mx_barrier_wait(full + 8 * stage, parity);                                                                    \
        _Pragma("unroll") for (int step = 0; step < STEPS; step++)                                                    \
            _Pragma("unroll") for (int i = 0; i < WG_ROWS; i++) {                                                     \
                uint2 pairs[2];                                                                                       \
                mx_load_pairs(pairs, rows_from + stage * STAGE_BYTES, step, i);                                       \
                (a)[i][step][0] = pairs[0].x, (a)[i][step][1] = pairs[0].y;                                           \
                (a)[i][step][2] = pairs[1].x, (a)[i][step][3] = pairs[1].y;                                           \
            }                                                                                                         \
        RELEASE(empty + 8 * stage);                                                                                   \
        NEXT(stage, parity, STAGES);                                                                                  \
    } while (0)
/* The next slice's products; nothing is under way but these afterwards. */
#define MULTIPLY(a)                                                                                                   \
    do {                                                                                                              \
        mx_barrier_wait(turned_full + 8 * turn, turn_parity);                                                         \
        MX_WG_FENCE();                                                                                                \
        _Pragma("unroll") for (int step = 0; step < STEPS; step++)                                                    \
            _Pragma("unroll") for (int i = 0; i < WG_ROWS; i++)                                                       \
                WGMMA_TF32(sums[i], (a)[i][step], matrix + ((turn * TURNED_BYTES + step * 32) >> 4));                 \
        MX_WG_COMMIT();                                                                                               \
        MX_WG_WAIT(1);                                                                                                \
        if (lane == 0 && before)                                                                                      \
            mx_barrier_arrive(before);                                                                                \
        before = turned_empty + 8 * turn;                                                                             \
        NEXT(turn, turn_parity, TURNS);                                                                               \
    } while (0)
            LOAD_ROWS(a);
            for (;;) {
                MULTIPLY(a);
                if (--count == 0)
                    break;
                LOAD_ROWS(other);
                MULTIPLY(other);
                if (--count == 0)
                    break;
                LOAD_ROWS(a);
            }
            MX_WG_WAIT(0);
            if (lane == 0)
                mx_barrier_arrive(before);
#pragma unroll
            for (int i = 0; i < WG_ROWS; i++)
#pragma unroll
                for (int j = 0; j < WN / 2; j++)
                    MX_WG_HOLD(sums[i][j]);

            const int m0 = tile % down * BM, n0 = tile / down % across * BN;
            const long slot = PERSISTENT ? number + tile : number;
            const int own_row = row + (lane >> 2) * 2, own_column = (lane & 3) * 4;
            __global float *to = partial + partial_offset + slot * (BM * BN);
#pragma unroll
            for (int i = 0; i < WG_ROWS; i++)
#pragma unroll
                for (int j = 0; j < WN / 16; j++) {
                    const float *sum = sums[i] + j * 8;
                    const int r = own_row + i * 16, n = own_column + j * 16;
#if TURN_Y
#pragma unroll
                    for (int l = 0; l < 4; l++)
                        if (m0 + n + l < g.filters && n0 + r < columns)
                            *(__global float2 *)(to + (n + l) * BN + r) =
                                (float2)(sum[l / 2 * 4 + l % 2], sum[l / 2 * 4 + l % 2 + 2]);
#else
#pragma unroll
                    for (int l = 0; l < 2; l++)
                        if (m0 + r + l < g.filters && n0 + n < columns)
                            *(__global float4 *)(to + (r + l) * BN + n) =
                                (float4)(sum[2 * l], sum[2 * l + 1], sum[2 * l + 4], sum[2 * l + 5]);
#endif
                }
        }
    }
}
