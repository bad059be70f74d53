/* Implicit GEMM of floats as they lie, by wgmma on TF32: y = alpha * x w + beta * y.  Needs SM_90A.
 *
 *   y[pixel][filter] = sum over K = (tap, channel) of x[pixel + tap][channel] * w[filter][tap][channel]
 *
 * Rows of the product are BP pixels, columns BF filters; persistent, as conv/nvidia/hopper.cl: the last warpgroup copies
 * slices of 32 numbers of K into a ring, the two others share a tile's pixels, or each has its own tile (PING_PONG).
 *
 *   w   [slice][BF rows of 32], rounded and in order before (conv/nvidia/hopper_tf32_filters.cl): one copy a slice, from
 *       which wgmma reads.  Or as it lies (W_IN_PLACE), by a map that brings filters into that order.  RESIDENT
 *       slices, all of them, stay in local memory; `across` divides the groups then.
 *   x   float by float as it lies.  With TENSOR_MAPS copies round it to TF32, and wgmma takes it from local memory.
 *       Else wgmma would cut what it takes from there, so a work-item loads its part of x, rounds it, and wgmma takes
 *       it from registers: of one of two sets in turn, while products with the other are under way.  The order is free:
 *         X_RUN 0       channels are contiguous: rows of 32 channels a pixel, 16 bytes copied at once, chunk c of row r
 *                       at c ^ (r % 8).  Channels and strides are multiples of 4.
 *         X_RUN 4, 1    rows of BP pixels a channel, so many copied at once; bytes of row r at b ^ (r / 8 * 32).  4: one
 *                       tap, whole images without gaps.  1: any strides.
 *       K-step s takes channels 8 t + 2 s and the next of lane t's eight, so that neighbours are loaded together; with
 *       K_IN_ORDER channels 8 s and the next seven, as with TENSOR_MAPS.
 *   y   CHANNELS_LAST: a work-item stores 4 neighbouring filters of a pixel, in pieces of VEC.  Else neighbouring lanes
 *       have neighbouring pixels; with VEC 2 a work-item has two, and a warp stores whole sectors (not with X_RUN 0).
 *
 * Grid: one axis, local 384, global 384 * any number.
 * Backward data with a stride may take all phases of the stride in one launch (PHASES) if they have equal grids.
 * Bound by: tensor cores for tiles of 128 x 256 and long K; without TENSOR_MAPS loading and rounding x, which stands
 * between products; memory for 1x1.
 */
#define X_TYPE float
#ifndef CHANNELS_LAST /* 1: y is channels last */
#define CHANNELS_LAST 1
#endif
#ifndef BP /* 64 (PING_PONG), 128 or 256 */
#define BP 128
#endif
#ifndef BF /* 64, 128 or 256 */
#define BF 128
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef RESIDENT
#define RESIDENT 0
#endif
#ifndef PING_PONG
#define PING_PONG 0
#endif
#ifndef VEC
#define VEC 1
#endif
#ifndef X_RUN
#define X_RUN 0
#endif
#ifndef WHOLE_SLICES /* 1: channels are a multiple of 32, so that a slice has one tap */
#define WHOLE_SLICES 0
#endif
#ifndef PHASES
#define PHASES 1
#endif
#ifndef TENSOR_MAPS /* 1: one work-item copies, x by a map of it; X_RUN is 0, `channels` a multiple of 32, and g has one
                     * tap, the lowest of all phases' */
#define TENSOR_MAPS 0
#endif
#ifndef K_IN_ORDER /* w has numbers of K as they are; X_RUN is 0 */
#define K_IN_ORDER TENSOR_MAPS
#endif
#ifndef W_IN_PLACE /* 1: w as it lies, channels contiguous, multiples of 16 filters; K_IN_ORDER; copies round it */
#define W_IN_PLACE 0
#endif
#define AXES 2
#define X_THROUGH_L1 0
#define MX_TF32
#define WG_ROWS (BP / (PING_PONG ? 64 : 128)) /* of 64 rows that a warpgroup owns */
#define WN BF
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/hopper_args.h"
#include "conv/nvidia/wgmma.h"
#include "conv/nvidia/wgmma_tf32.h"
#include "conv/nvidia/hopper.h"
#include "conv/nvidia/hopper_tiles.h"
#if TENSOR_MAPS
#include "conv/nvidia/tensor_maps.h"
#endif

#define WGMMA_TF32 MX_JOIN(MX_TF32_, BF)
#define X_BYTES (BP * ROW_BYTES)
#define W_BYTES (BF * ROW_BYTES)
#define STAGE_BYTES (X_BYTES + (RESIDENT ? 0 : W_BYTES))
#define RING_BYTES (STAGES * STAGE_BYTES)
#define W_AT(stage, slice) (RESIDENT ? RING_BYTES + (slice) * W_BYTES : (stage) * STAGE_BYTES + X_BYTES)
#define SLICES(tile) (((tile).phase.taps_h * (tile).phase.taps_w * g.reduced + DEPTH - 1) / DEPTH)
#define PIXEL_PAIRS (!CHANNELS_LAST && VEC == 2)
#if PIXEL_PAIRS && X_RUN == 0
#error "pairs of pixels come from rows of pixels"
#endif
/* 128 sums, two sets of 16 pixels and addresses: registers move from the warpgroup that copies. */
#define MORE_REGISTERS (WG_ROWS * WN >= 256)
#if TENSOR_MAPS
/* As MX_MULTIPLY_SLICES has it. */
#define WGMMA MX_JOIN(MX_WGMMA_, BF)
#define TRANS
#define A_AT (stage * STAGE_BYTES)
#define B_AT W_AT(stage, slice)
#define A_STEP 32
#define B_STEP 32
#endif

/* How x's runs of pixels are shared by the 128 work-items that copy: each has PLACES, of every AT_ONCEth channel. */
#if X_RUN
#define RUNS (BP / X_RUN)
#define PLACES (RUNS > 128 ? RUNS / 128 : 1)
#define AT_ONCE (RUNS < 128 ? 128 / RUNS : 1)
#define PIXEL_BYTES (BP * 4) /* of a row */
#if WHOLE_SLICES
#define EACH_CHANNEL _Pragma("unroll")
#else
#define EACH_CHANNEL _Pragma("unroll 1")
#endif
#else
#define PLACES (BP / ROWS_AT_ONCE) /* pixels of a work-item, always the same chunk */
#define AT_ONCE 32
#endif
#define NEXT_TAP()                                                    \
    while (c >= g.reduced && tap_h < own.phase.taps_h) {              \
        c -= g.reduced;                                               \
        if (++tap_w == own.phase.taps_w)                              \
            tap_w = 0, tap_h++;                                       \
    }
#define TAP (tap_h < own.phase.taps_h ? MX_TAP(tap_h, tap_w) : MX_NO_TAP)

/* 16 bytes, at whatever address. */
static inline void mx_copy_singly(uint to, __global const float *from, bool valid)
{
#pragma unroll 1
    for (int i = 0; i < 4; i++)
        MX_COPY4(to + 4 * i, from + i, valid);
}
#if X_RUN == 1
#define COPY_X MX_COPY4
#define COPY_X_SINGLY MX_COPY4
#else
#define COPY_X MX_COPY16
#define COPY_X_SINGLY mx_copy_singly
#endif

/* Of 16 columns of the product: a work-item has four neighbours, see conv/nvidia/hopper_tf32_filters.cl. */
static inline int mx_filter_of_column(int column)
{
    return column / 16 * 16 + column % 8 / 2 * 4 + column / 8 % 2 * 2 + column % 2;
}

/* A work-item's part of 64 pixels: a[k-step][register]; `from`: its first row's numbers. */
static inline __attribute__((always_inline)) void mx_load_pixels(uint (*a)[4], uint from)
{
#if K_IN_ORDER
#pragma unroll
    for (int i = 0; i < 16; i++) { /* of a k-step the upper and the lower pixel, a channel and the fourth behind it */
        uint v;
        asm volatile("ld.shared.u32 %0, [%1];"
                     : "=r"(v) : "r"((from ^ (i / 2 << 4)) + i % 2 * 8 * ROW_BYTES) : "memory");
        a[i / 4][i % 4] = mx_nearest(v);
    }
#elif X_RUN == 0
#pragma unroll
    for (int i = 0; i < 4; i++) { /* the upper and the lower pixel, four channels and four more */
        uint v[4];
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                     : "r"((from ^ i / 2 * 16) + i % 2 * 8 * ROW_BYTES) : "memory");
#pragma unroll
        for (int l = 0; l < 4; l++)
            a[i / 2 * 2 + l / 2][l % 2 * 2 + i % 2] = mx_nearest(v[l]);
    }
#else
#pragma unroll
    for (int i = 0; i < 8; i++) { /* the lane's channels */
        uint v[2];
#if PIXEL_PAIRS
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                     : "=r"(v[0]), "=r"(v[1]) : "r"(from + i * PIXEL_BYTES) : "memory");
#else
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v[0]) : "r"(from + i * PIXEL_BYTES) : "memory");
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v[1]) : "r"((from ^ 32) + i * PIXEL_BYTES) : "memory");
#endif
        a[i / 2][i % 2 * 2] = mx_nearest(v[0]);
        a[i / 2][i % 2 * 2 + 1] = mx_nearest(v[1]);
    }
#endif
}

#define MX_PIECE MX_JOIN(MX_PIECE_, VEC)
#define MX_PIECE_1 float
#define MX_PIECE_2 float2
#define MX_PIECE_4 float4
/* Neighbours in y. */
typedef union {
    float each[VEC];
    MX_PIECE all;
} mx_floats;

/* `wide`: y is aligned; `plain`: so it is, and alpha is 1 and beta 0. */
static inline void mx_store_run(mx_floats run, __global float *to, float alpha, float beta, bool plain, bool wide)
{
    if (!plain)
#pragma unroll
        for (int e = 0; e < VEC; e++)
            run.each[e] = alpha * run.each[e] + (beta != 0 ? beta * to[e] : 0.0f);
    if (wide)
        *(__global MX_PIECE *)to = run.all;
    else
#pragma unroll
        for (int e = 0; e < VEC; e++)
            to[e] = run.each[e];
}

/* Inlined twice, so that what usually runs is short. */
static inline __attribute__((always_inline)) void mx_store_sums(
    float (*sums)[WN / 2], __global float *y, int m0, int n0, const mx_nv_conv *g, float alpha, float beta, bool plain,
    int warpgroup)
{
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5 & 3;
    const int row0 = m0 + warpgroup * (WG_ROWS * 64) + warp * 16 + (lane >> 2) * (PIXEL_PAIRS ? 2 : 1);
    const int filter0 = n0 + (lane & 3) * 4;
    const bool wide = plain || ((ulong)y & (4 * VEC - 1)) == 0;
    int pixel_at[2 * WG_ROWS]; /* offsets in y, -1: none */
#pragma unroll
    for (int i = 0; i < 2 * WG_ROWS; i++)
        pixel_at[i] = mx_pixel_in_y(row0 + i / 2 * 64 + i % 2 * (PIXEL_PAIRS ? 1 : 8), g);
#pragma unroll
    for (int j = 0; j < WN / 2; j += 8) { /* 16 filters, of which four neighbouring lanes have 4 each */
        const int filter = filter0 + j * 2;
#if CHANNELS_LAST
#pragma unroll
        for (int l = 0; l < 4; l += VEC) { /* VEC divides the filters */
            if (filter + l < g->filters)
#pragma unroll
                for (int i = 0; i < 2 * WG_ROWS; i++) {
                    mx_floats run;
#pragma unroll
                    for (int e = 0; e < VEC; e++)
                        run.each[e] = sums[i / 2][j + (l + e) / 2 * 4 + (l + e) % 2 + i % 2 * 2];
                    if (pixel_at[i] >= 0)
                        mx_store_run(run, y + pixel_at[i] + filter + l, alpha, beta, plain, wide);
                }
        }
#else
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (filter + e < g->filters) {
                __global float *to = y + (filter + e) * g->y_c;
#pragma unroll
                for (int i = 0; i < 2 * WG_ROWS; i += VEC) { /* VEC divides the pixels of an image */
                    const float *sum = sums[i / 2] + j + e / 2 * 4 + e % 2 + i % 2 * 2;
                    mx_floats run;
#pragma unroll
                    for (int l = 0; l < VEC; l++)
                        run.each[l] = sum[2 * l];
                    if (pixel_at[i] >= 0)
                        mx_store_run(run, to + pixel_at[i], alpha, beta, plain, wide);
                }
            }
#endif
    }
}

__kernel __attribute__((reqd_work_group_size(384, 1, 1))) void conv_nvidia_hopper_tf32(
#if TENSOR_MAPS
    const mx_tensor_map x_map,
#else
    __global const float *restrict X, long x_offset,
#endif
#if TENSOR_MAPS && W_IN_PLACE
    const mx_tensor_map w_map,
#else
    __global const float *restrict W, long w_offset,
#endif
    __global float *restrict Y, long y_offset,
    const mx_nv_conv g, const mx_nv_tiles order, const float alpha, const float beta)
{
    __local uint4 stages[(RING_BYTES + RESIDENT * W_BYTES) / 16] __attribute__((aligned(1024)));
    __local ulong barriers[2 * STAGES + 2]; /* full, empty, and whose turn it is */
#if X_RUN == 0 && !TENSOR_MAPS
    /* The offset of each pixel's first tap, and which of its taps are inside. */
    __local int2 places[PLACES][ROWS_AT_ONCE];
#endif
    const int item = get_local_id(0), lane = item & 31, role = item >> 7, tiles = PHASES * order.tiles;

    Y += y_offset + g.y_first;
#if !(TENSOR_MAPS && W_IN_PLACE)
    W += w_offset;
    const bool w_aligned = ((ulong)W & 15) == 0;
#endif
#if !TENSOR_MAPS
    X += x_offset;
    const bool aligned = X_RUN == 1 || ((ulong)X & 15) == 0;
#endif
    const uint shared = mx_shared(stages);
    const uint full = mx_shared(barriers), empty = full + 8 * STAGES, turn = empty + 8 * STAGES;
    if (item == 0) {
        mx_ring_begin(full, STAGES, TENSOR_MAPS ? 1 : 128, PING_PONG ? 4 : 8);
        mx_barrier_begin(turn, 4);
        mx_barrier_begin(turn + 8, 4);
        if (TENSOR_MAPS)
            MX_WG_PUBLISH(); /* the copies' proxy finds the barriers begun */
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (role == 2) {
#if MORE_REGISTERS
        MX_WG_FEWER(PRODUCER_REGISTERS);
#endif
        const int copier = item & 127;
        int stage = 0, parity = 1;
        bool has_filters = false;
#if TENSOR_MAPS
        ulong x_map_at;
        MX_PARAMETER_AT(x_map_at, "conv_nvidia_hopper_tf32", "0");
#if W_IN_PLACE
        ulong w_map_at;
        MX_PARAMETER_AT(w_map_at, "conv_nvidia_hopper_tf32", "1");
#endif
#elif X_RUN == 0
        const int row0 = copier >> 3, first = (copier & 7) * 4;
        const uint x_to = shared + row0 * ROW_BYTES + (((copier & 7) ^ (row0 & 7)) << 4);
#else
        const int run = copier % (RUNS / PLACES), first = copier / (RUNS / PLACES);
        const uint x_to = shared + first * PIXEL_BYTES;
#endif
        /* With TENSOR_MAPS one work-item does it all. */
        for (int tile = TENSOR_MAPS && copier > 0 ? tiles : get_group_id(0); tile < tiles; tile += get_num_groups(0)) {
            const mx_nv_tile own = mx_tile(tile, &order);
            const int slices = SLICES(own);
            if (slices == 0)
                continue;
#if !W_IN_PLACE
            __global const float *filters = W + own.phase.w_first
                                            + (long)(own.group * order.across + own.n0 / BF) * slices * (BF * DEPTH);
#endif
#if TENSOR_MAPS
            const mx_pixel pixel = mx_pixel_of(own.m0, &g);
            int c = 0, tap_h = 0, tap_w = 0; /* what is copied next */
#else
            const int group_at = own.group * g.x_g;
            int c = first, tap_h = 0, tap_w = 0; /* what is copied next */
#if X_RUN == 0
            asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
            for (int i = copier & 7; i < PLACES; i += 8) {
                const int m = own.m0 + row0 + i * ROWS_AT_ONCE;
#else
            int2 places[PLACES];
#pragma unroll
            for (int i = 0; i < PLACES; i++) {
                const int m = own.m0 + (run + i * 128) * X_RUN;
#endif
                const int n = mx_quotient(m, g.by_image), rest = m - n * (g.p * g.q);
                const int p = mx_quotient(rest, g.by_row), q = rest - p * g.q;
                const int h = p * g.step_h + own.phase.first_h, w = q * g.step_w + own.phase.first_w;
                const int2 place = (int2)(
                    group_at + n * g.x_n + h * g.x_h + w * g.x_w,
                    m < g.pixels ? mx_taps_inside(h, w, own.phase.taps_h, own.phase.taps_w, &g) : 0);
#if X_RUN == 0
                places[i][row0] = place;
            }
            asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
#else
                places[i] = place;
            }
#endif
            NEXT_TAP();
#endif
            for (int slice = 0; slice < slices; slice++) {
                const uint bar = full + 8 * stage;
                mx_barrier_wait(empty + 8 * stage, parity);
                if (!has_filters) {
                    const uint w_to = shared + W_AT(stage, slice);
#if W_IN_PLACE
                    const int column = g.w_first + tap_h * g.w_h + tap_w * g.w_w;
#if TENSOR_MAPS
                    mx_barrier_expect_more(bar, W_BYTES);
                    MX_COPY_ROW_BLOCKS(w_to, w_map_at, column + c, (own.group * g.filters + own.n0) / 16, bar);
#else
                    __global const float *from = W + own.group * g.w_g + column + (c - first);
                    for (int i = copier; i < BF * DEPTH; i += 128) {
                        const int row = i / DEPTH, k = i % DEPTH, filter = own.n0 + mx_filter_of_column(row);
                        const float value = filter < g.filters ? from[filter * g.w_k + k] : 0.0f;
                        ((__local uint *)stages)[(w_to - shared) / 4 + row * DEPTH + ((k / 4 ^ row % 8) * 4 + k % 4)] =
                            mx_nearest(as_uint(value));
                    }
                    MX_WG_PUBLISH();
#endif
#else
                    __global const float *from = filters + slice * (BF * DEPTH);
                    if (!w_aligned) {
                        for (int i = copier; i < BF * DEPTH; i += TENSOR_MAPS ? 1 : 128)
                            ((__local float *)stages)[(w_to - shared) / 4 + i] = from[i];
                        MX_WG_PUBLISH();
                    } else if (copier == 0) {
                        mx_barrier_expect_more(bar, W_BYTES);
                        mx_bulk_copy(w_to, (__global const uint4 *)from, W_BYTES, bar);
                    }
#endif
                }
#if TENSOR_MAPS
                mx_barrier_expect(bar, X_BYTES);
                MX_COPY_PIXELS(shared + stage * STAGE_BYTES, x_map_at, own.group * g.reduced + c, pixel,
                               MX_TAP_OF_PHASE(tap_h, tap_w, own.phase, g), bar);
                c += DEPTH;
                NEXT_TAP();
#else
#if X_RUN == 0
#define COPY_PIXELS(COPY)                                                                                             \
    const uint tap = TAP, to = x_to + stage * STAGE_BYTES;                                                            \
    __global const float *from = X + (tap_h * g.tap_h * g.x_h + tap_w * g.tap_w * g.x_w + c);                         \
    _Pragma("unroll") for (int i = 0; i < PLACES; i++) {                                                              \
        const int2 place = places[i][row0];                                                                           \
        COPY(to + i * ROWS_AT_ONCE * ROW_BYTES, from + place.x, (place.y & tap) == tap);                              \
    }                                                                                                                 \
    c += DEPTH;                                                                                                       \
    NEXT_TAP()
#else
#define COPY_PIXELS(COPY)                                                                                             \
    _Pragma("unroll") for (int high = 0; high < 4; high++) {                                                          \
        const uint to = x_to + stage * STAGE_BYTES + high * (8 * PIXEL_BYTES);                                        \
        EACH_CHANNEL for (int low = 0; low < 8; low += AT_ONCE) {                                                     \
            const uint tap = TAP;                                                                                     \
            __global const float *from = X + (tap_h * g.tap_h * g.x_h + tap_w * g.tap_w * g.x_w + c * g.x_c);         \
            _Pragma("unroll") for (int i = 0; i < PLACES; i++)                                                        \
                COPY(to + low * PIXEL_BYTES + ((run + i * 128) * (X_RUN * 4) ^ high << 5), from + places[i].x,        \
                     (places[i].y & tap) == tap);                                                                     \
            c += AT_ONCE;                                                                                             \
            if (!WHOLE_SLICES)                                                                                        \
                NEXT_TAP();                                                                                           \
        }                                                                                                             \
    }                                                                                                                 \
    if (WHOLE_SLICES)                                                                                                 \
        NEXT_TAP()
#endif
                if (aligned) {
                    COPY_PIXELS(COPY_X);
                } else {
                    COPY_PIXELS(COPY_X_SINGLY);
                }
                if (W_IN_PLACE) {
                    MX_COMMIT();
                    MX_WAIT(0);
                    mx_barrier_arrive(bar); /* which orders what was stored, too */
                } else
                    mx_barrier_arrive_copied(bar);
#endif
                if (++stage == STAGES)
                    stage = 0, parity ^= 1;
            }
            has_filters = RESIDENT;
        }
    } else {
#if MORE_REGISTERS
        MX_WG_MORE(CONSUMER_REGISTERS);
#endif
        const int warpgroup = PING_PONG ? 0 : role, row = warpgroup * (WG_ROWS * 64) + (item >> 5 & 3) * 16;
        const int upper = lane >> 2, quarter = lane & 3;
#if X_RUN == 0
#define BLOCK_OF_X (64 * ROW_BYTES)
        const uint pixels = shared + (row + upper) * ROW_BYTES
                            + (K_IN_ORDER ? (upper << 4) + quarter * 4 : (2 * quarter ^ upper) << 4);
#else
#define BLOCK_OF_X 256
        const uint pixels = shared + quarter * (8 * PIXEL_BYTES)
                            + ((row + upper * (PIXEL_PAIRS ? 2 : 1)) * 4 ^ quarter << 5);
#endif
        const ulong b_matrix = mx_wg_matrix(shared, BLOCK_BYTES);
#if TENSOR_MAPS
        const ulong a_matrix = mx_wg_matrix(shared + warpgroup * WG_ROWS * BLOCK_BYTES, BLOCK_BYTES);
#endif
        int turns = role; /* the very first tile waits for no one */
        int stage = 0, parity = 0, skip = PING_PONG && role == 1 ? SLICES(mx_tile(get_group_id(0), &order)) : 0;
        for (int tile = get_group_id(0) + (PING_PONG ? role * get_num_groups(0) : 0); tile < tiles;
             tile += (PING_PONG ? 2 : 1) * get_num_groups(0)) {
            while (skip >= STAGES)
                skip -= STAGES, parity ^= 1;
            stage += skip;
            if (stage >= STAGES)
                stage -= STAGES, parity ^= 1;
            const mx_nv_tile own = mx_tile(tile, &order);
            const int slices = SLICES(own);
            float sums[WG_ROWS][WN / 2];
#if !TENSOR_MAPS
            uint a[4][4], other[4][4]; /* pixels: one set is loaded while wgmma reads the other */
#endif
            MX_EACH_SUM_OF_GROUP(i, j)
                sums[i][j] = 0;
            uint before = 0; /* the barrier of the stage whose products are under way */
            if (PING_PONG && turns > 0)
                mx_barrier_wait(turn + 8 * role, turns - 1 & 1);
            turns++;
#define BEGIN_SLICE()                          \
    mx_barrier_wait(full + 8 * stage, parity); \
    MX_WG_PUBLISH()
/* 64 pixels of the slice; nothing is under way but these afterwards. */
#define MULTIPLY(a, i)                                                                                                \
    mx_load_pixels(a, pixels + stage * STAGE_BYTES + (i)*BLOCK_OF_X);                                                 \
    MX_WG_FENCE();                                                                                                    \
    _Pragma("unroll") for (int k = 0; k < 4; k++)                                                                     \
        WGMMA_TF32(sums[i], (a)[k], b_matrix + ((W_AT(stage, slice) + k * 32) >> 4));                                 \
    MX_WG_COMMIT();                                                                                                   \
    MX_WG_WAIT(1)
#define RELEASE()                      \
    if (lane == 0 && slice > 0)        \
        mx_barrier_arrive(before);     \
    before = empty + 8 * stage
#define NEXT_STAGE()        \
    if (++stage == STAGES)  \
        stage = 0, parity ^= 1
#if TENSOR_MAPS
            MX_MULTIPLY_SLICES(sums, slices);
#elif WG_ROWS == 1
            for (int slice = 0; slice < slices; slice++) {
                BEGIN_SLICE();
                MULTIPLY(a, 0);
                RELEASE();
                NEXT_STAGE();
                if (++slice == slices)
                    break;
                BEGIN_SLICE();
                MULTIPLY(other, 0);
                RELEASE();
                NEXT_STAGE();
            }
#else
            for (int slice = 0; slice < slices; slice++) {
                BEGIN_SLICE();
                MULTIPLY(a, 0);
                RELEASE();
                MULTIPLY(other, 1);
                NEXT_STAGE();
            }
#endif
            if (PING_PONG && lane == 0)
                mx_barrier_arrive(turn + 8 * (1 - role));
            MX_WG_WAIT(0);
            if (lane == 0 && slices > 0)
                mx_barrier_arrive(before);
            /* What the other has in between. */
            skip = PING_PONG && tile + get_num_groups(0) < tiles ? SLICES(mx_tile(tile + get_num_groups(0), &order)) : 0;
            MX_EACH_SUM_OF_GROUP(i, j)
                MX_WG_HOLD(sums[i][j]);

            __global float *y = Y + own.phase.y_first + (long)own.group * g.y_g;
            if (alpha == 1 && beta == 0 && ((ulong)y & (4 * VEC - 1)) == 0)
                mx_store_sums(sums, y, own.m0, own.n0, &g, alpha, beta, true, warpgroup);
            else
                mx_store_sums(sums, y, own.m0, own.n0, &g, alpha, beta, false, warpgroup);
        }
    }
}
