/* Backward weights with half or bfloat16 operands, or floats as TF32, by wgmma: partial sums, in float, of split-K over
 * pixels, or whole ones.  Needs SM_90A.
 *
 *   sum over a split's pixels of dy[pixel][filter] * x[pixel + (i, j)][c]; columns: `reduced` channels a tap
 *
 *   K-slices of 64 pixels, of floats 32 ->
 *   tile 0 |= group 0 =|= group 1 =|= group 2 =|      PERSISTENT 0: a work-group has `split_slices` slices of one tile,
 *   tile 1 |= group 3 =| ...                          next to each other or, with TOGETHER, one of each `splits`
 *   tile 0 |= group 0 =====|= group 1 =|              PERSISTENT 1 (stream-K): the slices of all tiles in a row,
 *   tile 1 |= group 1 =|= group 2 =====|              the next `split_slices` each, from tile to tile
 *
 * A tile is BM filters x BN columns.  Last warpgroup: the producer; the others: consumers, WG_ROWS * 64 filters each.
 * partial[slot][WG_ROWS][BN / 8][work-item][4], in the order of the consumers' registers (MX_WGMMA), one slot for each
 * group and tile it works on: slot is the group's number, plus the tile's if PERSISTENT.  conv/nvidia/hopper_sum.cl
 * adds them up.
 * DIRECT, not with PERSISTENT: a group that has all slices of a tile writes alpha * sum + beta * dw, filters w_k apart,
 * columns next to each other.  WHOLE: the first `whole` tiles have a group each; those behind them are split, and only
 * they have slots.
 * Grid: one axis, local THREADS, global THREADS * (tiles * splits, or ceil(tiles * slices / split_slices)).
 * x and dy are channels last (x_c == y_c == 1) with multiples of 8 channels; padding of `filters` to a multiple of 8
 * may be read.  With CONTIGUOUS_PIXELS (one tap, no stride) any number of channels; so many pixels of one are copied at
 * once, and images are multiples of them without gaps.  BY_IMAGE: a slice is of one image, whose last one is filled up
 * with zeros, so that tensor maps copy it.  Floats are taken by image only; they are rounded to nearest on the way.
 * Local memory: a ring of STAGES slices of BM / 64 + BN / 64, rounded up, blocks of 64 rows of 128 bytes, swizzled:
 * chunk c of row r is at c ^ (r % 8).  Two mbarriers a stage, full and empty.
 * Bound by: L2 for small tiles, tensor cores for large ones, memory where filters and columns are few.
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#ifndef CONTIGUOUS_PIXELS /* 4 or 8, so many are copied at once: x and dy have contiguous pixels */
#define CONTIGUOUS_PIXELS 0
#endif
#ifndef BY_IMAGE /* 1: with CONTIGUOUS_PIXELS, without TOGETHER */
#define BY_IMAGE 0
#endif
#ifndef FLAT /* 1: one tap without stride or padding, and x and dy without gaps between pixels */
#define FLAT 0
#endif
#ifndef AXES /* 2, or 3: neither FLAT nor CONTIGUOUS_PIXELS then */
#define AXES 2
#endif
#ifndef PERSISTENT
#define PERSISTENT 0
#endif
#ifndef TOGETHER /* 1: groups go through the pixels together, so that the L2 has what taps read again; not PERSISTENT */
#define TOGETHER 0
#endif
#ifndef BM /* filters of a tile: multiples of 64 */
#define BM 128
#endif
#ifndef BN /* columns of a tile: 64, 128, 144, 192 or 256 */
#define BN 256
#endif
#ifndef WG_ROWS /* of 64 filters that a warpgroup owns */
#define WG_ROWS 1
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef DIRECT
#define DIRECT 0
#endif
#ifndef WHOLE /* 1: needs DIRECT; without it all tiles are whole then */
#define WHOLE 0
#endif
#ifndef TENSOR_MAPS /* 1: one work-item copies, by maps of x and dy: with CONTIGUOUS_PIXELS by image, else `reduced` and
                     * `channels` are multiples of 64; 2: of dy alone, neither FLAT nor CONTIGUOUS_PIXELS */
#define TENSOR_MAPS 0
#endif
#ifndef X_THROUGH_L1 /* 1: x comes through the L1, since taps share much of it */
#define X_THROUGH_L1 0
#endif
#include "include/common.h"
#if MX_TYPE(X_TYPE) == MX_TYPE_float
#define MX_TF32
#if !BY_IMAGE || DIRECT
#error "floats are taken by image, and dw is written in 16 bits"
#endif
#endif
#if BY_IMAGE && (!CONTIGUOUS_PIXELS || TOGETHER)
#error "slices of one image follow each other, of contiguous pixels"
#endif
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/wgmma.h"

#define X_RUN (CONTIGUOUS_PIXELS == 4 ? 4 : 8)
#include "conv/nvidia/hopper.h"
#include "conv/nvidia/places.h"
#if TENSOR_MAPS
#include "conv/nvidia/tensor_maps.h"
#endif

#define Y_BLOCKS (BM / 64)
#define X_BLOCKS ((BN + 63) / 64)
#define STAGE_BYTES ((Y_BLOCKS + X_BLOCKS) * BLOCK_BYTES)
#define WN BN
#define CONSUMERS (Y_BLOCKS / WG_ROWS)
#define THREADS (128 * CONSUMERS + 128)
#define COPIES (DEPTH / ROWS_AT_ONCE)
#define RUNS (CONTIGUOUS_PIXELS ? DEPTH / CONTIGUOUS_PIXELS : 8) /* of a row of local memory, that are copied at once */
#define RUN_ROWS_AT_ONCE (128 / RUNS)
#define WGMMA MX_JOIN(MX_WGMMA_, WN)
#if CONTIGUOUS_PIXELS
#define TRANS "0, 0"
#define A_STEP 32 /* bytes to the next 16 pixels */
#else
#define TRANS "1, 1"
#define A_STEP (16 * ROW_BYTES)
#endif
#define B_STEP A_STEP
#define A_AT (stage * STAGE_BYTES)
#define B_AT A_AT

#if DIRECT
/* A tile's sums to dw, whose `filters` and `columns` from the tile's first on are inside. */
static inline void mx_store_weights(float (*sums)[WN / 2], __global ushort *to, int row, int filters, int columns,
                                    int w_k, float alpha, float beta)
{
    const int lane = get_local_id(0) & 31, quarter = lane & 3;
    const bool plain = alpha == 1 && beta == 0 && ((ulong)to & 15) == 0; /* w_k is a multiple of 8, and `columns` */
#pragma unroll
    for (int i = 0; i < 2 * WG_ROWS; i++) {
        const int k = row + i / 2 * 64 + i % 2 * 8;
        __global ushort *own = to + (long)k * w_k;
#pragma unroll
        for (int j = 0; j < WN / 8; j += 4) { /* 32 columns, of which four neighbouring lanes have each 4 pairs */
            const float *sum = sums[i / 2] + j * 4 + i % 2 * 2;
            if (plain && j + 4 <= WN / 8) {
                uint words[4];
#pragma unroll
                for (int l = 0; l < 4; l++)
                    MX_ROUND_PAIR(words[l], sum[l * 4], sum[l * 4 + 1]);
                const uint4 eight = mx_turn((uint4)(words[0], words[1], words[2], words[3]), lane);
                if (k < filters && (j + quarter) * 8 < columns)
                    *(__global uint4 *)(own + (j + quarter) * 8) = eight;
                continue;
            }
#pragma unroll
            for (int l = 0; l < min(4, WN / 8 - j); l++)
                if (k < filters && (j + l) * 8 < columns) {
                    const int column = (j + l) * 8 + quarter * 2;
                    STORE_MIXED(X_TYPE, (__global STORAGE(X_TYPE) *)own, column, sum[l * 4], alpha, beta);
                    STORE_MIXED(X_TYPE, (__global STORAGE(X_TYPE) *)own, column + 1, sum[l * 4 + 1], alpha, beta);
                }
        }
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_hopper_weights(
#if TENSOR_MAPS == 1
    const mx_tensor_map x_map, const mx_tensor_map y_map,
#elif TENSOR_MAPS
    __global const MX_OPERAND *restrict X, long x_offset, const mx_tensor_map y_map,
#else
    __global const MX_OPERAND *restrict X, long x_offset, __global const MX_OPERAND *restrict Y, long y_offset,
#endif
    __global float *restrict partial, long partial_offset, const MX_PROBLEM MX_GIVEN, const int split_slices
#if TOGETHER
    , const int splits
#endif
#if DIRECT
    , __global ushort *restrict W, long w_offset, const int w_k, const float alpha, const float beta
#endif
#if WHOLE
    , const int whole
#endif
)
{
    __local uint4 stages[STAGES * STAGE_BYTES / 16] __attribute__((aligned(1024)));
    __local ulong barriers[2 * STAGES]; /* full, empty */
#if !DIRECT || WHOLE
    MX_LET_NEXT_BEGIN(); /* what adds up */
#endif
#if AXES == 3
    const mx_nv_conv g = volume.conv;
#endif
    const int item = get_local_id(0), lane = item & 31, role = item >> 7;
    const int columns = MX_BOTH(g.taps_h) * g.taps_w * g.reduced;
    const int down = (g.filters + BM - 1) / BM, across = (columns + BN - 1) / BN, tiles = down * across * g.groups;
    const int number = get_group_id(0);
#if BY_IMAGE
    const int of_image = (g.p * g.q + DEPTH - 1) / DEPTH, slices = mx_quotient(g.pixels, g.by_image) * of_image;
#else
    const int slices = (g.pixels + DEPTH - 1) / DEPTH;
#endif
    /* The first tile and slice of this group, and how many slices it has. */
    int tile = PERSISTENT ? number * split_slices / slices : number % tiles;
#if TOGETHER
#define SLICE_STEP splits
    int first = number / tiles, left = (slices - first + splits - 1) / splits;
#else
#define SLICE_STEP 1
    int first = PERSISTENT ? number * split_slices - tile * slices : number / tiles * split_slices;
    int left = min(split_slices, PERSISTENT ? tiles * slices - number * split_slices : slices - first);
#endif
#if WHOLE
#define IS_WHOLE (split < 0)
    const int split = number - whole;
    tile = split < 0 ? number : whole + split % (tiles - whole);
    first = split < 0 ? 0 : split / (tiles - whole) * split_slices;
    left = split < 0 ? slices : min(split_slices, slices - first);
#else
#define IS_WHOLE true
#endif

#if TENSOR_MAPS != 1
    X += x_offset;
#endif
#if TENSOR_MAPS
    ulong y_map_at;
    MX_PARAMETER_AT(y_map_at, "conv_nvidia_hopper_weights", MX_TEXT(TENSOR_MAPS));
#else
    Y += y_offset;
#endif
    const uint shared = mx_shared(stages), full = mx_shared(barriers), empty = full + 8 * STAGES;
    if (item == 0) {
        mx_ring_begin(full, STAGES, TENSOR_MAPS == 1 ? 1 : TENSOR_MAPS ? 129 : 128, 4 * CONSUMERS);
        if (TENSOR_MAPS)
            MX_WG_PUBLISH(); /* the copies' proxy finds the barriers begun */
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    if (role == CONSUMERS) {
#if MANY_SUMS
        MX_WG_FEWER(PRODUCER_REGISTERS);
#endif
#if TENSOR_MAPS == 1
        if (item > 128 * CONSUMERS)
            left = 0;
        ulong x_map_at;
        MX_PARAMETER_AT(x_map_at, "conv_nvidia_hopper_weights", "0");
        int stage = 0, parity = 1;
        for (; left > 0; tile++, first = 0) {
            const int own = PERSISTENT ? min(left, slices - first) : left, end = first + own * SLICE_STEP;
            const int group = tile / (down * across), m0 = tile % down * BM, n0 = tile / down % across * BN;
            const int filter = group * g.filters + m0;
            left -= own;
#if BY_IMAGE
            int n = first / of_image, part = first - n * of_image; /* of the next slice */
            for (int slice = first; slice < end; slice++) {
                const uint at = shared + stage * STAGE_BYTES, arrived = full + 8 * stage;
                mx_barrier_wait(empty + 8 * stage, parity);
                mx_barrier_expect(arrived, (BM + BN) * ROW_BYTES);
                MX_COPY_CHANNELS(at, y_map_at, part * DEPTH, filter, n, arrived);
                MX_COPY_CHANNELS(at + Y_BLOCKS * BLOCK_BYTES, x_map_at, part * DEPTH, group * g.channels + n0, n, arrived);
                if (++part == of_image)
                    part = 0, n++;
                if (++stage == STAGES)
                    stage = 0, parity ^= 1;
            }
#else
            const int blocks = (min(columns - n0, BN) + 63) / 64;
            int channel[X_BLOCKS], tap_of[X_BLOCKS];
#pragma unroll
            for (int b = 0; b < X_BLOCKS; b++) {
                const int column = n0 + b * 64, tap = column / g.reduced, row = tap / g.taps_w;
#if AXES == 3
                const int tap_d = row / MX_ROW(g.taps_h), tap_h = row - tap_d * MX_ROW(g.taps_h);
#else
                const int tap_d = 0, tap_h = row;
#endif
                channel[b] = group * g.reduced + column - tap * g.reduced;
                tap_of[b] = mx_tap_of(tap_d, tap_h, tap - row * g.taps_w, &g);
            }
            for (int slice = first; slice < end; slice += SLICE_STEP) {
                const mx_pixel pixel = mx_pixel_of(slice * DEPTH, &MX_GIVEN);
                const uint at = shared + stage * STAGE_BYTES, arrived = full + 8 * stage;
                mx_barrier_wait(empty + 8 * stage, parity);
                mx_barrier_expect(arrived, (Y_BLOCKS + blocks) * BLOCK_BYTES);
#pragma unroll
                for (int b = 0; b < Y_BLOCKS; b++)
                    MX_COPY_ROWS(at + b * BLOCK_BYTES, y_map_at, filter + b * 64, slice * DEPTH, arrived);
#pragma unroll
                for (int b = 0; b < X_BLOCKS; b++)
                    if (b < blocks)
                        MX_COPY_PIXELS(at + (Y_BLOCKS + b) * BLOCK_BYTES, x_map_at, channel[b], pixel, tap_of[b], arrived);
                if (++stage == STAGES)
                    stage = 0, parity ^= 1;
            }
#endif
        }
#else
        /* Always run item % RUNS of every block, of rows item / RUNS + i * RUN_ROWS_AT_ONCE. */
#ifdef MX_TF32
        const bool aligned = false; /* what work-items copy they round, too */
#else
#if TENSOR_MAPS
        const ulong places_begin = (ulong)X;
#else
        const ulong places_begin = (ulong)X | (ulong)Y;
#endif
        const bool aligned = (places_begin & (2 * X_RUN - 1)) == 0;
#endif
        const int run = item % RUNS, row0 = (item & 127) / RUNS, chunk = run * 8 / RUNS;
        const uint to = shared + row0 * ROW_BYTES + ((chunk ^ (row0 & 7)) << 4) + run * (ROW_BYTES / RUNS) % 16;
        int stage = 0, parity = 1;
        for (; left > 0; tile++, first = 0) {
            const int own = PERSISTENT ? min(left, slices - first) : left, end = first + own * SLICE_STEP, group = tile / (down * across);
            const int m0 = tile % down * BM, n0 = tile / down % across * BN;
            const int y_group = group * g.y_g, x_group = group * g.x_g;
            left -= own;
#if CONTIGUOUS_PIXELS
#if !BY_IMAGE
            int pixel = first * DEPTH + run * CONTIGUOUS_PIXELS;
#endif
#else
#if !TENSOR_MAPS
            const int filters_left = g.filters - m0 - chunk * 8;
#endif
#if FLAT
            const int columns_left = min(columns, n0 + BN) - n0 - chunk * 8;
            int pixel = first * DEPTH + row0;
            __global const ushort *y_from = Y + (y_group + m0 + chunk * 8 + pixel * g.y_w);
            __global const ushort *x_from = X + (x_group + n0 + chunk * 8 + pixel * g.x_w);
#else
            int column_at[X_BLOCKS]; /* from a pixel's first tap on, and the tap */
            uint tap_of[X_BLOCKS];
#pragma unroll
            for (int b = 0; b < X_BLOCKS; b++) {
                const int column = n0 + b * 64 + chunk * 8, tap = column / g.reduced;
#if AXES == 3
                const int row = tap / g.taps_w, tap_w = tap - row * g.taps_w;
                const int tap_d = row / MX_ROW(g.taps_h), tap_h = row - tap_d * MX_ROW(g.taps_h);
                column_at[b] = column - tap * g.reduced + tap_d * MX_DEEP(g.tap_h) * volume.x_d
                               + tap_h * MX_ROW(g.tap_h) * g.x_h + tap_w * g.tap_w * g.x_w;
                tap_of[b] = column < min(columns, n0 + BN) ? MX_TAP_IN_DEPTH(tap_d, tap_h, tap_w) : MX_NO_TAP;
#else
                const int tap_h = tap / g.taps_w, tap_w = tap - tap_h * g.taps_w;
                column_at[b] = column - tap * g.reduced + tap_h * g.tap_h * g.x_h + tap_w * g.tap_w * g.x_w;
                tap_of[b] = column < min(columns, n0 + BN) ? MX_TAP(tap_h, tap_w) : MX_NO_TAP;
#endif
            }
#if !TENSOR_MAPS
            __global const ushort *y_filters = Y + (m0 + chunk * 8);
#endif
            /* Sixteen work-items of a warp find its pixels: lane l those of row l / 4 * ROWS_AT_ONCE + l % 4. */
            int pixel = first * DEPTH + (lane >> 2 & 3) * ROWS_AT_ONCE + (row0 & ~3) + (lane & 3);
            mx_nv_places places = mx_places(pixel, y_group, x_group, &MX_GIVEN);
#endif
#endif
            for (int slice = first; slice < end; slice += SLICE_STEP) {
                const uint at = to + stage * STAGE_BYTES;
#if CONTIGUOUS_PIXELS
#if BY_IMAGE
                const int n = slice / of_image, rest = (slice - n * of_image) * DEPTH + run * CONTIGUOUS_PIXELS;
                const bool inside = rest < g.p * g.q;
#else
                const int n = mx_quotient(pixel, g.by_image), rest = pixel - n * (g.p * g.q);
                const bool inside = pixel < g.pixels;
#endif
                const int y_at = y_group + n * g.y_n + rest, x_at = x_group + n * g.x_n + rest;
#define COPY_SLICE(COPY16X, COPY16)                                                                                   \
    do {                                                                                                              \
        _Pragma("unroll") for (int i = 0; i < BM / RUN_ROWS_AT_ONCE; i++) {                                           \
            const int k = m0 + row0 + i * RUN_ROWS_AT_ONCE;                                                           \
            COPY16(at + i * RUN_ROWS_AT_ONCE * ROW_BYTES, Y + (y_at + k * g.y_c), inside & (k < g.filters));          \
        }                                                                                                             \
        _Pragma("unroll") for (int i = 0; i < BN / RUN_ROWS_AT_ONCE; i++) {                                           \
            const int c = n0 + row0 + i * RUN_ROWS_AT_ONCE;                                                           \
            COPY16X(at + (BM + i * RUN_ROWS_AT_ONCE) * ROW_BYTES, X + (x_at + c * g.x_c), inside & (c < g.channels)); \
        }                                                                                                             \
    } while (0)
#else
/* Without `whole`, which says that nothing but taps is outside, each copy is asked. */
#if FLAT
#define COPY_ROW(COPY16X, COPY16, i, whole)                                                                           \
    const bool inside = pixel + (i)*ROWS_AT_ONCE < g.pixels;                                                          \
    _Pragma("unroll") for (int b = 0; b < Y_BLOCKS; b++)                                                              \
        COPY16(at + b * BLOCK_BYTES + (i)*ROWS_AT_ONCE * ROW_BYTES,                                                   \
               y_from + (long)g.y_w * ((i)*ROWS_AT_ONCE) + b * 64, (whole) || inside & (b * 64 < filters_left));      \
    _Pragma("unroll") for (int b = 0; b < X_BLOCKS; b++)                                                              \
        COPY16X(at + (Y_BLOCKS + b) * BLOCK_BYTES + (i)*ROWS_AT_ONCE * ROW_BYTES,                                     \
                x_from + (long)g.x_w * ((i)*ROWS_AT_ONCE) + b * 64, (whole) || inside & (b * 64 < columns_left));
#else
#if TENSOR_MAPS
#define COPY_ROW_OF_Y(COPY16, i, from, whole)
#else
#define COPY_ROW_OF_Y(COPY16, i, from, whole)                                                                         \
    const int y_at = mx_from_lane(places.y, from);                                                                    \
    _Pragma("unroll") for (int b = 0; b < Y_BLOCKS; b++)                                                              \
        COPY16(at + b * BLOCK_BYTES + (i)*ROWS_AT_ONCE * ROW_BYTES, y_filters + y_at + b * 64,                        \
               (whole) || (y_at >= 0) & (b * 64 < filters_left));
#endif
#define COPY_ROW(COPY16X, COPY16, i, whole)                                                                           \
    const int from = (i)*4 + (lane >> 3);                                                                             \
    const int x_at = mx_from_lane(places.x, from);                                                                    \
    const uint taps = mx_from_lane(places.taps, from);                                                                \
    COPY_ROW_OF_Y(COPY16, i, from, whole)                                                                             \
    _Pragma("unroll") for (int b = 0; b < X_BLOCKS; b++)                                                              \
        COPY16X(at + (Y_BLOCKS + b) * BLOCK_BYTES + (i)*ROWS_AT_ONCE * ROW_BYTES, X + (x_at + column_at[b]),          \
                (taps & tap_of[b]) == tap_of[b]);
#endif
#define COPY_SLICE_OF(COPY16X, COPY16, whole)                                                                         \
    _Pragma("unroll") for (int i = 0; i < COPIES; i++) {                                                              \
        COPY_ROW(COPY16X, COPY16, i, whole)                                                                           \
    }
#define COPY_SLICE(COPY16X, COPY16) COPY_SLICE_OF(COPY16X, COPY16, false)
                const bool whole = aligned && m0 + BM <= g.filters && (!FLAT || n0 + X_BLOCKS * 64 <= columns)
                                   && (slice + 1) * DEPTH <= g.pixels;
#endif
                mx_barrier_wait(empty + 8 * stage, parity);
#if TENSOR_MAPS
                if (item == 128 * CONSUMERS) {
                    const uint arrived = full + 8 * stage;
                    mx_barrier_expect(arrived, Y_BLOCKS * BLOCK_BYTES);
#pragma unroll
                    for (int b = 0; b < Y_BLOCKS; b++)
                        MX_COPY_ROWS(shared + stage * STAGE_BYTES + b * BLOCK_BYTES, y_map_at,
                                     group * g.filters + m0 + b * 64, slice * DEPTH, arrived);
                }
#endif
#if !CONTIGUOUS_PIXELS
                if (whole) {
                    COPY_SLICE_OF(MX_COPY_RUN_OF_X, MX_COPY_RUN, true);
                    mx_barrier_arrive_copied(full + 8 * stage);
                } else
#endif
                if (aligned) {
                    COPY_SLICE(MX_COPY_RUN_OF_X, MX_COPY_RUN);
                    mx_barrier_arrive_copied(full + 8 * stage);
                } else {
                    COPY_SLICE(MX_COPY_RUN_UNALIGNED, MX_COPY_RUN_UNALIGNED);
                    mx_barrier_arrive(full + 8 * stage);
                }
#if !BY_IMAGE
                pixel += DEPTH * SLICE_STEP;
#endif
#if FLAT
                y_from += g.y_w * DEPTH * SLICE_STEP;
                x_from += g.x_w * DEPTH * SLICE_STEP;
#elif !CONTIGUOUS_PIXELS
                places = mx_places(pixel, y_group, x_group, &MX_GIVEN); /* while the copies are under way */
#endif
                if (++stage == STAGES)
                    stage = 0, parity ^= 1;
            }
        }
#endif
    } else {
#if MANY_SUMS
        MX_WG_MORE(CONSUMER_REGISTERS);
#endif
        const ulong a_matrix = mx_wg_matrix(shared + role * WG_ROWS * BLOCK_BYTES, BLOCK_BYTES);
        const ulong b_matrix = mx_wg_matrix(shared + Y_BLOCKS * BLOCK_BYTES, BLOCK_BYTES);
        const int row = role * WG_ROWS * 64 + (item >> 5 & 3) * 16 + (lane >> 2);
        int stage = 0, parity = 0;
        for (; left > 0; tile++, first = 0) {
            const int own = PERSISTENT ? min(left, slices - first) : left;
            left -= own;
            float sums[WG_ROWS][WN / 2];
            MX_EACH_SUM_OF_GROUP(i, j)
                sums[i][j] = 0;
            uint before = 0;
            MX_MULTIPLY_SLICES(sums, own);
            MX_WG_WAIT(0);
            if (lane == 0)
                mx_barrier_arrive(before);
            MX_EACH_SUM_OF_GROUP(i, j)
                MX_WG_HOLD(sums[i][j]);

            const int m0 = tile % down * BM, n0 = tile / down % across * BN;
#if DIRECT
            if (IS_WHOLE) {
                const int group = tile / (down * across);
                mx_store_weights(sums, W + w_offset + (long)(group * g.filters + m0) * w_k + n0, row, g.filters - m0,
                                 columns - n0, w_k, alpha, beta);
                continue;
            }
#endif
#if WHOLE
            const long slot = split;
#else
            const long slot = PERSISTENT ? number + tile : number;
#endif
            __global float4 *to = (__global float4 *)(partial + partial_offset) + slot * (BM * BN / 4) + item;
#pragma unroll
            for (int i = 0; i < WG_ROWS; i++)
                if (m0 + row + i * 64 < g.filters)
#pragma unroll
                    for (int j = 0; j < BN / 8; j++)
                        if (n0 + j * 8 < columns)
                            to[(i * (BN / 8) + j) * (128 * CONSUMERS)] =
                                (float4)(sums[i][j * 4], sums[i][j * 4 + 1], sums[i][j * 4 + 2], sums[i][j * 4 + 3]);
        }
    }
}
