/* Implicit GEMM with operands of 16 or 8 bits by wgmma, sums in float: y = alpha * x w + beta * y.  Needs SM_90A.
 *
 *   y[pixel][filter] = sum over K = (tap, channel) of x[pixel + tap][channel] * w[filter][tap][channel]
 *
 *              filters ->  BF          Persistent: as many work-groups as run at once, each from tile to tile.
 *            +--------+--------+       Last warpgroup: the producer, fills the ring across tiles without a pause.
 *   pixels   | tile 0 | tile 1 |       The others: consumers.  Either they share a tile,
 *     BP     +--------+--------+           warpgroup 0: rows 0..   warpgroup 1: rows ROWS / 2..  (or halves of columns)
 *            | tile 2 | tile 3 |       or each has its own (PING_PONG): one multiplies while the other stores.
 *
 * Rows of the product are pixels where y is channels last (CHANNELS_LAST), else filters: a work-item's sums are
 * neighbours in y either way.
 * Grid: one axis, local THREADS, global THREADS * any number.
 * A K-slice is DEPTH numbers of K for BP pixels and BF filters, a row of 128 bytes each: 64 of 16 bits, 128 of 8 bits
 * (conv/nvidia/hopper_float8.h).  x is channels last (x_c == 1), and `channels` and `reduced` the same multiple of CHUNK,
 * 16 bytes.  Or an operand of 16 bits is transposed, and a slice has 64 rows of K for each 64 of them:
 *     X_TRANSPOSED: 16 bytes are 8 pixels of one channel; one tap, no stride, images of multiples of X_RUN pixels
 *     without gaps, copied X_RUN at a time.
 *     W_TRANSPOSED: 16 bytes are 8 filters; multiples of 8 filters and 64 channels; w_k: one channel to the next.
 * Backward data with a stride may take all phases of the stride in one launch (PHASES): they differ in their taps and
 * in where they begin.  Or phases are filters, of MERGED channels each, a multiple of 8, and a pixel of the grid is one of
 * each phase, of which there are MERGED_D, MERGED_H and MERGED_W along the axes; AXES is 3 and y channels last then.
 * Local memory: a ring of STAGES slices, then the RESIDENT slices of w, swizzled: chunk c of row r is at c ^ (r % 8).
 * Two mbarriers a stage, full and empty.
 * Bound by: tensor cores for tiles of 128 x 256 and long K; the producer's copies for small tiles; memory for 1x1.
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#ifndef CHANNELS_LAST /* 1: y is channels last, 0: its pixels */
#define CHANNELS_LAST 1
#endif
#ifndef BP
#define BP 128
#endif
#ifndef BF
#define BF 128
#endif
#ifndef WG_ROWS /* of 64 rows of the product that a warpgroup owns */
#define WG_ROWS 1
#endif
#ifndef WG_COLUMNS /* 2: two warpgroups share the columns of the product */
#define WG_COLUMNS 1
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef RESIDENT /* slices of w, all of them, that stay in local memory; `across` divides the number of groups */
#define RESIDENT 0
#endif
#ifndef PING_PONG
#define PING_PONG 0
#endif
#ifndef VEC /* elements of y that are stored at once where y's address allows: 1, 2, 4 or 8 */
#define VEC 1
#endif
#ifndef TAPS_INNER /* 1: all taps of 64 channels, then the next 64; `reduced` is a multiple of 64 */
#define TAPS_INNER 0
#endif
#ifndef X_THROUGH_L1 /* 1: x comes through the L1, since taps share much of it */
#define X_THROUGH_L1 0
#endif
#ifndef TENSOR_MAPS /* 1: one work-item copies, by maps of x and w; `reduced` and `channels` are multiples of 64; with
                     * PHASES g has one tap, the lowest of all phases', and two axes; without W_TRANSPOSED there are
                     * multiples of 32 filters, neither z nor a bias is a slice, and with X_TRANSPOSED images have
                     * multiples of 64 pixels.  2, with X_TRANSPOSED, where they have multiples of 8: all work-items copy
                     * blocks of pixels in which an image ends and another one begins */
#define TENSOR_MAPS 0
#endif
#ifndef X_AGAIN /* 1, without maps: takes what a kernel with TENSOR_MAPS 2 takes */
#define X_AGAIN 0
#endif
#ifndef FLAT /* 1: one tap without stride or padding, and x without gaps between pixels; not X_TRANSPOSED */
#define FLAT 0
#endif
#ifndef X_TRANSPOSED
#define X_TRANSPOSED 0
#endif
#ifndef X_RUN /* 4 or 8 */
#define X_RUN 8
#endif
#ifndef W_TRANSPOSED
#define W_TRANSPOSED 0
#endif
#ifndef LOCAL_EPILOGUE /* 1: y has contiguous pixels and gets them through local memory, not from registers */
#define LOCAL_EPILOGUE 0
#endif
#ifndef SCALED /* 1: halves times powers of four, y is float, with the roots of the inverse scales */
#define SCALED 0
#endif
#ifndef AXES /* 2, or 3: neither FLAT nor X_TRANSPOSED then */
#define AXES 2
#endif
#ifndef PRODUCERS /* 2: two warpgroups copy slices in turns, which a bias or z as slices do not know */
#define PRODUCERS 1
#endif
#ifndef PHASES /* of backward data's stride, whose tiles follow each other; they have equal grids */
#define PHASES 1
#endif
#ifndef MERGED /* channels of phases that are filters; 0: filters are filters */
#define MERGED 0
#endif
#if TENSOR_MAPS == 2 && (!X_TRANSPOSED || PHASES > 1 || PRODUCERS > 1)
#error "blocks that cross images are for one tap, whose x is transposed"
#endif
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/hopper_args.h"
#if EIGHT_BITS /* pixels are rows: channels last */
#define A_TYPE X_TYPE
#define B_TYPE W_TYPE
#endif
#include "conv/nvidia/wgmma.h"
#include "conv/nvidia/hopper.h"

#if CHANNELS_LAST
#define ROWS BP
#define COLUMNS BF
#else
#define ROWS BF
#define COLUMNS BP
#endif
#if WG_COLUMNS == 1
#define WN COLUMNS
#else
#define WN 128 /* of 256, the only ones that are shared */
#endif
#define WGMMA MX_JOIN(MX_WGMMA_, WN)
#define WARPGROUPS (ROWS / WG_ROWS / 64 * WG_COLUMNS)
#define CONSUMERS (PING_PONG ? 2 : WARPGROUPS)
#define THREADS (128 * (CONSUMERS + PRODUCERS))
#define W_BYTES (BF * ROW_BYTES)
#define STAGE_BYTES (BP * ROW_BYTES + (RESIDENT ? 0 : W_BYTES))
#define RING_BYTES (STAGES * STAGE_BYTES)
#define X_ROWS (BP / ROWS_AT_ONCE)
#define W_ROWS (BF / ROWS_AT_ONCE)
#define X_BLOCKS (BP / 64)
#define W_BLOCKS (BF / 64)

#if CHANNELS_LAST
#define A_TRANSPOSED X_TRANSPOSED
#define B_TRANSPOSED W_TRANSPOSED
#else
#define A_TRANSPOSED W_TRANSPOSED
#define B_TRANSPOSED X_TRANSPOSED
#endif
#define TRANS MX_TEXT(A_TRANSPOSED) ", " MX_TEXT(B_TRANSPOSED)
#define A_STEP (A_TRANSPOSED ? 16 * ROW_BYTES : 32) /* bytes to the next 16 numbers of the reduced axis */
#define B_STEP (B_TRANSPOSED ? 16 * ROW_BYTES : 32)
#define W_AT (RESIDENT ? slice * W_BYTES : stage * STAGE_BYTES)
#define A_AT (CHANNELS_LAST ? stage * STAGE_BYTES : W_AT)
#define B_AT (CHANNELS_LAST ? W_AT : stage * STAGE_BYTES)

#define RUNS (64 / X_RUN) /* of a row of 64 pixels */
#define RUN_ROWS_AT_ONCE (128 / RUNS)

#include "conv/nvidia/hopper_tiles.h"
#if TENSOR_MAPS
#include "conv/nvidia/tensor_maps.h"
#endif

/* z (include/epilogue.h) as slices of the ring behind those of its tile, where 16 bytes of it are 8 neighbours of y.  The
 * ring has more stages than these and a bias take, so that a warpgroup whose turn it is never waits for a stage's parity
 * two rounds ahead. */
#define Z_ROOM ((RESIDENT ? BP : BP + BF) / BP) /* blocks of 64 columns that a stage has room for */
#define Z_BLOCKS (Z_ROOM < BF / 64 ? Z_ROOM : BF / 64)
#define Z_STAGES ((BF / 64 + Z_BLOCKS - 1) / Z_BLOCKS)
#if defined(FUSED_Z) && CHANNELS_LAST && !SCALED && !X_TRANSPOSED && !EIGHT_BITS && VEC == 8           \
    && STAGES > Z_STAGES + 1 && (WG_COLUMNS == 1 || Z_BLOCKS * 64 == WN)
#define Z_SLICES Z_STAGES
#else
#define Z_SLICES 0
#endif
/* Where a bias, or a batch norm's numbers, of filters that are columns come from: see conv/nvidia/columns.h. */
#if defined(EPILOGUE) && CHANNELS_LAST && !SCALED && !RESIDENT && defined(BIAS_TYPE) && !defined(NORM_TYPE)
#define COLUMN_SLICES 1
#else
#define COLUMN_SLICES 0
#endif
#define RING_LEAVES (BP > 64 ? 512 : 1024) /* bytes at least, of resident tiles */
#if COLUMN_SLICES || RESIDENT && WN * (defined(NORM_TYPE) ? 8 : 4) <= RING_LEAVES
#define COLUMNS_IN_LOCAL 1
#else
#define COLUMNS_IN_LOCAL 0
#endif
#define COLUMNS_AS_FLOATS RESIDENT /* 16 bits cost resident tiles 3 to 6 % more */
/* All of a tile in the ring. */
#define RING_SLICES(tile) (SLICES(tile) + COLUMN_SLICES + Z_SLICES)

#define SLICES(tile) ((MX_BOTH((tile).phase.taps_h) * (tile).phase.taps_w * g.reduced + DEPTH - 1) / DEPTH)

#define PERMUTE_FILTERS (CHANNELS_LAST && !W_TRANSPOSED) /* where the columns are filters that are copied one by one */
#define PERMUTE_PIXELS (SCALED && !CHANNELS_LAST)
#if EIGHT_BITS
#define SCALE_COLUMNS 0
#include "conv/nvidia/hopper_float8.h"
#else
#include "conv/nvidia/hopper_store.h"
#endif
#if LOCAL_EPILOGUE
#include "conv/nvidia/hopper_runs.h"
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_hopper(
#if TENSOR_MAPS != 1
    __global const MX_OPERAND *restrict X, long x_offset,
#endif
#if TENSOR_MAPS
    const mx_tensor_map x_map, const mx_tensor_map w_map,
#else
#if X_AGAIN
    __global const MX_OPERAND *x_again, long x_again_offset,
#endif
    __global const MX_OPERAND *restrict W, long w_offset,
#endif
    __global MX_STORED *restrict Y, long y_offset, const MX_PROBLEM MX_GIVEN, const mx_nv_tiles order, const float alpha,
    const float beta
#if SCALED
    , __global const float *restrict roots, long roots_offset, const int filter_roots_at
#elif EIGHT_BITS
    , const long rounding, const long part_at
#endif
    EPILOGUE_MORE)
{
    EPILOGUE_BEGIN(Y, y_offset);
    __local uint4 stages[(RING_BYTES + RESIDENT * W_BYTES) / 16] __attribute__((aligned(1024)));
    __local ulong barriers[2 * STAGES + 2]; /* full, empty, and whose turn it is */
#if SCALE_COLUMNS && HAS_COLUMNS && COLUMNS_IN_LOCAL && RESIDENT
    __local uint4 columns[COLUMN_BYTES * WN / 16];
    const uint columns_at = mx_shared(columns);
#endif
#if LOCAL_EPILOGUE
    __local uint4 runs[4 * CONSUMERS * RUN_BYTES / 16] __attribute__((aligned(128)));
#endif
#if AXES == 3
    const mx_nv_conv g = volume.conv;
#endif
    const int item = get_local_id(0), lane = item & 31, role = item >> 7;
    const int tiles = PHASES * order.tiles;

    Y += y_offset + g.y_first;
#if SCALED
    roots += roots_offset;
#endif
    const uint shared = mx_shared(stages);
    int copy_tile = get_group_id(0); /* what is copied next */
#if TENSOR_MAPS != 1
    X += x_offset;
#if TENSOR_MAPS
    const bool aligned = true; /* else there were no map */
#else
    W += w_offset + g.w_first;
    const bool aligned = (((ulong)X & (2 * X_RUN - 1)) | ((ulong)W & 15)) == 0;
#endif

    /* Copies: always chunk item % 8 of rows item / 8 + i * ROWS_AT_ONCE. */
    const int chunk = item & 7, row0 = (item & 127) >> 3;
    /* With PERMUTE_... the other 16 of 32 rows are 4 rows further on, so their chunks swap with the 4th; of 64 rows, of
     * which 8 bits have 16 neighbours in y, 2, 4 and 6. */
    const int x_row0 = PERMUTE_PIXELS ? mx_permuted(row0) : row0;
    const uint to = shared + x_row0 * ROW_BYTES + ((chunk ^ (x_row0 & 7)) << 4);
    const int w_row0 = PERMUTE_FILTERS ? mx_permuted(row0) : row0;
    const uint w_to = shared + w_row0 * ROW_BYTES + ((chunk ^ (w_row0 & 7)) << 4);
#if X_TRANSPOSED
    /* Neighbours copy neighbouring pixels: always run item % RUNS of rows item / RUNS + i * RUN_ROWS_AT_ONCE. */
    const int run = item % RUNS, run_row0 = (item & 127) / RUNS;
    const uint x_to = shared + run_row0 * ROW_BYTES + ((run * X_RUN / 8 ^ (run_row0 & 7)) << 4) + run * 2 * X_RUN % 16;
    int base[X_BLOCKS]; /* -1: none */
#elif FLAT
    int base, pixels_left; /* the first pixel of each row of copiers */
#endif
#if !X_TRANSPOSED && (!FLAT || Z_SLICES)
    /* The offset of each pixel's first tap, and which of its taps are inside: two pixels of each row of copiers. */
#if PRODUCERS > 1
    __local int4 all_places[PRODUCERS][X_ROWS / 2][ROWS_AT_ONCE];
    __local int4(*const places)[ROWS_AT_ONCE] = all_places[role & 1];
#else
    __local int4 places[X_ROWS / 2][ROWS_AT_ONCE];
#endif
#endif
    int w_base, filters_left;
    bool has_filters = false;
    int c, tap_h, tap_w; /* likewise */

#if AXES == 3
    int tap_d = 0;
#define TAPS_D MX_DEEP(own.phase.taps_h)
#define TAPS_H MX_ROW(own.phase.taps_h)
#define TAP MX_TAP_IN_DEPTH(tap_d, tap_h, tap_w)
#define ROWS_IN_X (tap_d * MX_DEEP(g.tap_h) * volume.x_d + tap_h * MX_ROW(g.tap_h) * g.x_h)
#define ROWS_IN_W (tap_d * volume.w_d + tap_h * g.w_h)
#if TAPS_INNER
#define NEXT_SLICE()                                                                                                  \
    if (++tap_w == own.phase.taps_w) {                                                                                \
        tap_w = 0;                                                                                                    \
        if (++tap_h == TAPS_H) {                                                                                      \
            tap_h = 0;                                                                                                \
            if (++tap_d == TAPS_D)                                                                                    \
                tap_d = 0, c += DEPTH;                                                                                 \
        }                                                                                                             \
    }
#define SOME true
#else
#define NEXT_SLICE()                                                                                                  \
    c += DEPTH;                                                                                                       \
    while (c >= g.reduced && tap_d < TAPS_D) {                                                                        \
        c -= g.reduced;                                                                                               \
        if (++tap_w == own.phase.taps_w) {                                                                            \
            tap_w = 0;                                                                                                \
            if (++tap_h == TAPS_H)                                                                                    \
                tap_h = 0, tap_d++;                                                                                   \
        }                                                                                                             \
    }
#define SOME (tap_d < TAPS_D)
#endif
#else
#define TAP MX_TAP(tap_h, tap_w)
#define ROWS_IN_X tap_h * g.tap_h * g.x_h
#define ROWS_IN_W tap_h * g.w_h
#if TAPS_INNER
#define NEXT_SLICE()                                                                                                  \
    if (++tap_w == own.phase.taps_w) {                                                                              \
        tap_w = 0;                                                                                                    \
        if (++tap_h == own.phase.taps_h)                                                                            \
            tap_h = 0, c += DEPTH;                                                                                    \
    }
#define SOME true
#else
#define NEXT_SLICE()                                                                                                  \
    c += DEPTH;                                                                                                       \
    while (c >= g.reduced && tap_h < own.phase.taps_h) {                                                            \
        c -= g.reduced;                                                                                               \
        if (++tap_w == own.phase.taps_w)                                                                            \
            tap_w = 0, tap_h++;                                                                                       \
    }
#define SOME (tap_h < own.phase.taps_h)
#endif
#endif

/* The offsets of a tile's pixels, at their first tap. */
#if X_TRANSPOSED
#define BEGIN_PIXELS(group, m0)                                                                                        \
    _Pragma("unroll") for (int b = 0; b < X_BLOCKS; b++) {                                                             \
        const int m = (m0) + b * 64 + run * X_RUN, n = mx_quotient(m, g.by_image);                                     \
        base[b] = m < g.pixels ? (group)*g.x_g + n * g.x_n + m - n * (g.p * g.q) : -1;                                 \
    }
#if TENSOR_MAPS
#define COPY_PIXELS(COPY16, stage, slice)                                                                              \
    _Pragma("unroll") for (int b = 0; b < X_BLOCKS; b++)                                                               \
        if (!by_map[b])                                                                                                \
            _Pragma("unroll") for (int i = 0; i < 64 / RUN_ROWS_AT_ONCE; i++)                                          \
                COPY16(x_to + (stage)*STAGE_BYTES + b * BLOCK_BYTES + i * RUN_ROWS_AT_ONCE * ROW_BYTES,                \
                       X + (base[b] + ((slice)*64 + run_row0 + i * RUN_ROWS_AT_ONCE) * g.x_c), base[b] >= 0);
#else
#define COPY_PIXELS(COPY16, stage, slice)                                                                             \
    _Pragma("unroll") for (int i = 0; i < 64 / RUN_ROWS_AT_ONCE; i++) {                                               \
        const int channel = (slice)*64 + run_row0 + i * RUN_ROWS_AT_ONCE;                                             \
        _Pragma("unroll") for (int b = 0; b < X_BLOCKS; b++) {                                                        \
            const bool valid = (base[b] >= 0) & (channel < g.channels);                                               \
            COPY16(x_to + (stage)*STAGE_BYTES + b * BLOCK_BYTES + i * RUN_ROWS_AT_ONCE * ROW_BYTES,                   \
                   X + (base[b] + channel * g.x_c), valid);                                                           \
        }                                                                                                             \
    }
#endif
#elif FLAT
#define BEGIN_PIXELS(group, m0)                                                                                       \
    base = (group)*g.x_g + ((m0) + row0) * g.x_w;                                                                     \
    pixels_left = g.pixels - (m0)-row0;
#define COPY_PIXELS(COPY16, stage, slice)                                                                             \
    const int some_pixels = SOME ? pixels_left : 0;                                                                   \
    x_from += base;                                                                                                   \
    _Pragma("unroll") for (int i = 0; i < X_ROWS; i++)                                                                \
        COPY16(to + (stage)*STAGE_BYTES + i * ROWS_AT_ONCE * ROW_BYTES, x_from + (long)g.x_w * (i * ROWS_AT_ONCE),    \
               i * ROWS_AT_ONCE < some_pixels);
#else
#if AXES == 3
#define BEGIN_PIXELS(group, m0)                                                                                        \
    tap_d = 0;                                                                                                         \
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");                                                            \
    for (int i = chunk; i < X_ROWS; i += 8) {                                                                          \
        const int m = (m0) + row0 + i * ROWS_AT_ONCE, n = mx_quotient(m, g.by_image);                                  \
        const int rest = m - n * (MX_BOTH(g.p) * g.q), row = mx_quotient(rest, g.by_row), q = rest - row * g.q;        \
        const int o = mx_quotient(row, volume.by_plane), p = row - o * MX_ROW(g.p);                                    \
        const int d = o * MX_DEEP(g.step_h) + MX_DEEP(own.phase.first_h);                                              \
        const int h = p * MX_ROW(g.step_h) + MX_ROW(own.phase.first_h), w = q * g.step_w + own.phase.first_w;          \
        ((__local int2 *)places[i / 2])[row0 * 2 + i % 2] = (int2)(                                                    \
            (group)*g.x_g + n * g.x_n + d * volume.x_d + h * g.x_h + w * g.x_w,                                        \
            m < g.pixels ? mx_taps_in_depth(d, h, w, own.phase.taps_h, own.phase.taps_w, &g) : 0);                     \
    }                                                                                                                  \
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
#else
#define BEGIN_PIXELS(group, m0)                                                                                        \
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");                                                            \
    for (int i = chunk; i < X_ROWS; i += 8) {                                                                          \
        const int m = (m0) + row0 + i * ROWS_AT_ONCE, n = mx_quotient(m, g.by_image), rest = m - n * (g.p * g.q);      \
        const int p = mx_quotient(rest, g.by_row), q = rest - p * g.q;                                                 \
        const int h = p * g.step_h + own.phase.first_h, w = q * g.step_w + own.phase.first_w;                          \
        ((__local int2 *)places[i / 2])[row0 * 2 + i % 2] =                                                            \
            (int2)((group)*g.x_g + n * g.x_n + h * g.x_h + w * g.x_w,                                                  \
                   m < g.pixels ? mx_taps_inside(h, w, own.phase.taps_h, own.phase.taps_w, &g) : 0);                   \
    }                                                                                                                  \
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
#endif
/* The next four pixels' places come from local memory before the copies of these four. */
#define COPY_PIXELS(COPY16, stage, slice)                                                                             \
    const uint at = to + (stage)*STAGE_BYTES;                                                                         \
    int4 place = places[0][row0], place_2 = places[1][row0];                                                          \
    _Pragma("unroll") for (int i = 0; i < X_ROWS; i += 4) {                                                           \
        const int after = i + 4 < X_ROWS ? i / 2 + 2 : 0;                                                             \
        const int4 next = places[after][row0], next_2 = places[after + 1][row0];                                      \
        COPY_PIXEL(COPY16, at, i, place.x, place.y)                                                                   \
        COPY_PIXEL(COPY16, at, i + 1, place.z, place.w)                                                               \
        COPY_PIXEL(COPY16, at, i + 2, place_2.x, place_2.y)                                                           \
        COPY_PIXEL(COPY16, at, i + 3, place_2.z, place_2.w)                                                           \
        place = next, place_2 = next_2;                                                                               \
    }
#define COPY_PIXEL(COPY16, at, i, place, inside)                                                                        \
    COPY16(((at) ^ (PERMUTE_PIXELS ? (i) % 2 * 64 : 0))                                                                \
               + (PERMUTE_PIXELS ? (i) / 2 * 32 + (i) % 2 * 4 : (i)*ROWS_AT_ONCE) * ROW_BYTES,                         \
           x_from + (place), ((inside)&tap) == tap);
#endif
#if W_TRANSPOSED
#define COPY_FILTERS(COPY16, at)                                                                                      \
    _Pragma("unroll") for (int i = 0; i < 64 / ROWS_AT_ONCE; i++)                                                     \
        _Pragma("unroll") for (int b = 0; b < W_BLOCKS; b++)                                                          \
            COPY16((at) + b * BLOCK_BYTES + i * ROWS_AT_ONCE * ROW_BYTES,                                             \
                   w_from + b * 64 + (long)w_k * (i * ROWS_AT_ONCE), b * 64 < some_left);
#else
#define COPY_FILTERS(COPY16, at)                                                                                       \
    _Pragma("unroll") for (int i = 0; i < W_ROWS; i++)                                                                 \
        COPY16(((at) + (PERMUTE_FILTERS ? MX_PERMUTED_ROWS(i) : i * ROWS_AT_ONCE) * ROW_BYTES)                        \
                   ^ (PERMUTE_FILTERS ? MX_PERMUTED_CHUNKS(i) : 0),                                                   \
               w_from + (long)w_k * (i * ROWS_AT_ONCE), i * ROWS_AT_ONCE < some_left);
#endif
#define BEGIN_TILE()                                                                                                   \
    do {                                                                                                               \
        const int filter = own.n0 + (W_TRANSPOSED ? chunk * 8 : row0);                                                 \
        BEGIN_PIXELS(own.group, own.m0);                                                                               \
        filters_left = g.filters - filter;                                                                             \
        w_base = own.phase.w_first + own.group * g.w_g                                                                 \
                 + (W_TRANSPOSED ? filter + (row0 - chunk * 8) * g.w_k : filter * g.w_k);                              \
        c = chunk * CHUNK - (TAPS_INNER ? 0 : DEPTH), tap_h = tap_w = 0;                                               \
        if (!TAPS_INNER)                                                                                               \
            NEXT_SLICE();                                                                                              \
    } while (0)
/* What is not copied is not read either, wherever its address points. */
#define COPY_SLICE(COPY16X, COPY16, stage, slice)                                                                      \
    do {                                                                                                               \
        const uint tap = SOME ? TAP : MX_NO_TAP;                                                                       \
        __global const MX_OPERAND *x_from = X + (ROWS_IN_X + tap_w * g.tap_w * g.x_w + c);                             \
        COPY_PIXELS(COPY16X, stage, slice)                                                                             \
        COPY_SLICE_OF_W(COPY16, stage, slice)                                                                          \
    } while (0)
#if TENSOR_MAPS
#define COPY_SLICE_OF_W(COPY16, stage, slice)
#else
#define COPY_SLICE_OF_W(COPY16, stage, slice)                                                                          \
    if (!has_filters) {                                                                                                \
        int some_left = SOME ? filters_left : 0, w_k = g.w_k;                                                          \
        MX_OPAQUE(some_left);                                                                                          \
        MX_OPAQUE(w_k);                                                                                                \
        __global const MX_OPERAND *w_from =                                                                            \
            W + (w_base + ROWS_IN_W + tap_w * g.w_w + (W_TRANSPOSED ? c * g.w_k : c));                                 \
        COPY_FILTERS(COPY16, w_to + FILTERS_AT(stage, slice))                                                          \
    }
#endif

#if Z_SLICES
/* Where a tile's pixels are in y, as BEGIN_PIXELS has them in x, which are not needed any more. */
#define BEGIN_Z(own)                                                                                                   \
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");                                                            \
    for (int i = chunk; i < X_ROWS; i += 8)                                                                            \
        ((__local int2 *)places[i / 2])[row0 * 2 + i % 2].x =                                                          \
            mx_pixel_in_y((own).m0 + row0 + i * ROWS_AT_ONCE, &MX_GIVEN);                                              \
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
/* Zeros where beta is 0. */
#define COPY_Z(COPY16, stage, slice)                                                                                   \
    _Pragma("unroll 1") for (int b = (slice)*Z_BLOCKS; b < min((slice)*Z_BLOCKS + Z_BLOCKS, BF / 64); b++)             \
    {                                                                                                                  \
        const uint at = z_to + (stage)*STAGE_BYTES + (b - (slice)*Z_BLOCKS) * Z_BLOCK_BYTES;                           \
        const bool some = beta != 0 && b * 64 < z_left;                                                                \
        _Pragma("unroll") for (int i = 0; i < X_ROWS; i += 2)                                                          \
        {                                                                                                              \
            const int4 rows = places[i / 2][row0];                                                                     \
            COPY16(at + i * ROWS_AT_ONCE * ROW_BYTES, z_from + b * 64 + rows.x, some & (rows.x >= 0));                 \
            COPY16(at + (i + 1) * ROWS_AT_ONCE * ROW_BYTES, z_from + b * 64 + rows.z, some & (rows.z >= 0));           \
        }                                                                                                              \
    }
    const uint z_to = shared + row0 * ROW_BYTES + ((chunk ^ (row0 & 1) << 2) << 4);
#endif
#endif

#define FILTERS_AT(stage, slice) (RESIDENT ? RING_BYTES + (slice)*W_BYTES : (stage)*STAGE_BYTES + BP * ROW_BYTES)
#if TENSOR_MAPS
/* The filters of a tile, a slice's channels from `channel` on, `tap` further in each row of w. */
#if W_TRANSPOSED
#define COPY_FILTERS_BY_MAP(to, tap, channel, arrived)                                                                 \
    _Pragma("unroll") for (int b = 0; b < W_BLOCKS; b++)                                                               \
        MX_COPY_ROWS((to) + b * BLOCK_BYTES, w_map_at, (tap) + own.n0 + b * 64, own.group * g.reduced + (channel), arrived)
#elif PERMUTE_FILTERS
#define COPY_FILTERS_BY_MAP(to, tap, channel, arrived)                                                                 \
    MX_COPY_ROW_BLOCKS(to, w_map_at, (tap) + (channel), (own.group * g.filters + own.n0) / 32, arrived)
#else
#define COPY_FILTERS_BY_MAP(to, tap, channel, arrived)                                                                 \
    MX_COPY_ROWS(to, w_map_at, (tap) + (channel), own.group * g.filters + own.n0, arrived)
#endif
    ulong x_map_at, w_map_at;
#if TENSOR_MAPS == 1
    MX_PARAMETER_AT(x_map_at, "conv_nvidia_hopper", "0");
    MX_PARAMETER_AT(w_map_at, "conv_nvidia_hopper", "1");
#else
    MX_PARAMETER_AT(x_map_at, "conv_nvidia_hopper", "2");
    MX_PARAMETER_AT(w_map_at, "conv_nvidia_hopper", "3");
#endif
#endif

    const uint full = mx_shared(barriers), empty = full + 8 * STAGES, turn = empty + 8 * STAGES;
    if (item == 0) {
        mx_ring_begin(full, STAGES, TENSOR_MAPS == 1 ? 1 : TENSOR_MAPS == 2 ? 129 : 128, PING_PONG ? 4 : 4 * CONSUMERS);
        mx_barrier_begin(turn, 4);
        mx_barrier_begin(turn + 8, 4);
        if (TENSOR_MAPS)
            MX_WG_PUBLISH(); /* the copies' proxy finds the barriers begun */
    }
#if SCALE_COLUMNS && HAS_COLUMNS && COLUMNS_IN_LOCAL && RESIDENT
    mx_put_columns(columns_at, 0, mx_tile(get_group_id(0), &order).n0, WN, g.filters, item, THREADS, EPILOGUE_ARGS);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (role >= CONSUMERS) {
#if MANY_SUMS
        MX_WG_FEWER(PRODUCER_REGISTERS);
#endif
        int stage = 0, parity = 1;
#if TENSOR_MAPS == 1
#if PHASES > 1
#define MAPPED_TAP MX_TAP_OF_PHASE(tap_h, tap_w, own.phase, g)
#else
#define MAPPED_TAP mx_tap_of(tap_d, tap_h, tap_w, &g)
#endif
        if (item > 128 * CONSUMERS)
            copy_tile = tiles;
        bool has_filters = false;
        for (; copy_tile < tiles; copy_tile += get_num_groups(0)) {
            const mx_nv_tile own = mx_tile(copy_tile, &order);
#if X_TRANSPOSED
            int image[X_BLOCKS], first[X_BLOCKS];
#pragma unroll
            for (int b = 0; b < X_BLOCKS; b++) {
                image[b] = mx_quotient(own.m0 + b * 64, g.by_image);
                first[b] = own.m0 + b * 64 - image[b] * (g.p * g.q);
            }
#else
            const mx_pixel pixel = mx_pixel_of(own.m0, &MX_GIVEN);
#endif
            const int slices_all = SLICES(own);
            int c = 0, tap_d = 0, tap_h = 0, tap_w = 0;
            for (int slice = 0; slice < slices_all; slice++) {
                const uint at = shared + stage * STAGE_BYTES, arrived = full + 8 * stage;
                mx_barrier_wait(empty + 8 * stage, parity);
                mx_barrier_expect(arrived, BP * ROW_BYTES + (has_filters ? 0 : W_BYTES));
#if X_TRANSPOSED
#pragma unroll
                for (int b = 0; b < X_BLOCKS; b++)
                    MX_COPY_CHANNELS(at + b * BLOCK_BYTES, x_map_at, first[b], own.group * g.reduced + c, image[b],
                                     arrived);
#else
                MX_COPY_PIXELS(at, x_map_at, own.group * g.reduced + c, pixel, MAPPED_TAP, arrived);
#endif
                if (!has_filters) {
                    COPY_FILTERS_BY_MAP(shared + FILTERS_AT(stage, slice),
                                        own.phase.w_first + MX_TAP_IN_W(tap_d, tap_h, tap_w), c, arrived);
                }
#if TAPS_INNER
                if (MX_NEXT_TAP(own.phase, tap_d, tap_h, tap_w))
                    c += DEPTH;
#else
                c += DEPTH;
                if (c == g.reduced) {
                    c = 0;
                    MX_NEXT_TAP(own.phase, tap_d, tap_h, tap_w);
                }
#endif
                if (++stage == STAGES)
                    stage = 0, parity ^= 1;
            }
            has_filters = RESIDENT;
        }
#else
#if PRODUCERS > 1
        int turn_of = CONSUMERS; /* the producer of the next slice */
#endif
        for (; copy_tile < tiles; copy_tile += get_num_groups(0)) {
            const mx_nv_tile own = mx_tile(copy_tile, &order);
            const int slices_all = SLICES(own);
            if (slices_all + COLUMN_SLICES + Z_SLICES == 0)
                continue;
            BEGIN_TILE();
#if TENSOR_MAPS
            /* Behind the last image the map gives zeros. */
            int image[X_BLOCKS], first[X_BLOCKS], blocks_by_map = 0;
            bool by_map[X_BLOCKS];
#pragma unroll
            for (int b = 0; b < X_BLOCKS; b++) {
                const int m = own.m0 + b * 64;
                image[b] = mx_quotient(m, g.by_image);
                first[b] = m - image[b] * (g.p * g.q);
                by_map[b] = first[b] + 64 <= g.p * g.q || (image[b] + 1) * (g.p * g.q) >= g.pixels;
                blocks_by_map += by_map[b];
            }
#endif
            for (int slice = 0; slice < slices_all; slice++) {
#if PRODUCERS > 1
                turn_of ^= 1;
                if ((turn_of ^ role) & 1) {
                    NEXT_SLICE();
                    if (++stage == STAGES)
                        stage = 0, parity ^= 1;
                    continue;
                }
#endif
                mx_barrier_wait(empty + 8 * stage, parity);
#if TENSOR_MAPS
                if (item == 128 * CONSUMERS) {
                    mx_barrier_expect(full + 8 * stage, blocks_by_map * BLOCK_BYTES + (has_filters ? 0 : W_BYTES));
#pragma unroll
                    for (int b = 0; b < X_BLOCKS; b++)
                        if (by_map[b])
                            MX_COPY_CHANNELS(shared + stage * STAGE_BYTES + b * BLOCK_BYTES, x_map_at, first[b],
                                             own.group * g.reduced + slice * DEPTH, image[b], full + 8 * stage);
                    if (!has_filters) {
                        COPY_FILTERS_BY_MAP(shared + FILTERS_AT(stage, slice), g.w_first, slice * DEPTH, full + 8 * stage);
                    }
                }
#endif
                if (aligned) {
                    COPY_SLICE(MX_COPY_RUN_OF_X, MX_COPY16, stage, slice);
                    mx_barrier_arrive_copied(full + 8 * stage);
                } else {
                    COPY_SLICE(MX_COPY_RUN_UNALIGNED, MX_COPY_UNALIGNED, stage, slice);
                    mx_barrier_arrive(full + 8 * stage);
                }
                NEXT_SLICE();
                if (++stage == STAGES)
                    stage = 0, parity ^= 1;
            }
            has_filters = RESIDENT;
#if COLUMN_SLICES
            mx_barrier_wait(empty + 8 * stage, parity);
            const long first_filter = (long)own.group * g.filters;
            __global const STORAGE(BIAS_TYPE) *bias_from = epilogue->bias + (first_filter + own.n0);
            if (((ulong)bias_from & 15) == 0) {
                const int first = (item & 127) * (16 / COLUMN_BYTES);
                const int bytes = clamp((g.filters - own.n0 - first) * COLUMN_BYTES, 0, 16);
                if (first < BF)
                    MX_COPY_FIRST(shared + stage * STAGE_BYTES + first * COLUMN_BYTES, bias_from + first, bytes);
                mx_barrier_arrive_copied(full + 8 * stage);
            } else {
                mx_put_columns(shared + stage * STAGE_BYTES, first_filter, own.n0, BF, g.filters, item & 127, 128,
                               EPILOGUE_ARGS);
                mx_barrier_arrive(full + 8 * stage);
            }
            if (++stage == STAGES)
                stage = 0, parity ^= 1;
#endif
#if Z_SLICES
            BEGIN_Z(own);
            __global const ushort *z_from =
                OLD_RESULT(X_TYPE, Y + own.phase.y_first + (long)own.group * g.y_g) + own.n0 + chunk * 8;
            const int z_left = g.filters - own.n0 - chunk * 8;
            const bool z_aligned = ((ulong)z_from & 15) == 0;
#pragma unroll 1
            for (int slice = 0; slice < Z_SLICES; slice++) {
                mx_barrier_wait(empty + 8 * stage, parity);
                if (z_aligned) {
                    COPY_Z(MX_COPY16, stage, slice);
                    mx_barrier_arrive_copied(full + 8 * stage);
                } else {
                    COPY_Z(mx_copy_halves, stage, slice);
                    mx_barrier_arrive(full + 8 * stage);
                }
                if (++stage == STAGES)
                    stage = 0, parity ^= 1;
            }
#endif
        }
#endif
    } else {
#if MANY_SUMS
        MX_WG_MORE(CONSUMER_REGISTERS);
#endif
        const int warpgroup = PING_PONG ? 0 : role / WG_COLUMNS, column0 = PING_PONG ? 0 : role % WG_COLUMNS * WN;
        const uint pixels_at = shared, filters_at = shared + (RESIDENT ? RING_BYTES : BP * ROW_BYTES);
        const ulong a_matrix =
            mx_wg_matrix((CHANNELS_LAST ? pixels_at : filters_at) + warpgroup * WG_ROWS * BLOCK_BYTES, BLOCK_BYTES);
        const ulong b_matrix =
            mx_wg_matrix((CHANNELS_LAST ? filters_at : pixels_at) + column0 * ROW_BYTES, BLOCK_BYTES);
        int turns = role; /* the very first tile waits for no one */
        int stage = 0, parity = 0, skip = PING_PONG && role == 1 ? RING_SLICES(mx_tile(get_group_id(0), &order)) : 0;
        for (int tile = get_group_id(0) + (PING_PONG ? role * get_num_groups(0) : 0); tile < tiles;
             tile += (PING_PONG ? 2 : 1) * get_num_groups(0)) {
            while (skip >= STAGES)
                skip -= STAGES, parity ^= 1;
            stage += skip;
            if (stage >= STAGES)
                stage -= STAGES, parity ^= 1;
            const mx_nv_tile own = mx_tile(tile, &order);
            const int slices_all = SLICES(own);
            float sums[WG_ROWS][WN / 2];
            MX_EACH_SUM_OF_GROUP(i, j)
                sums[i][j] = 0;
#if defined(FUSED_Z) && !SCALED && !Z_SLICES /* a tile ahead it was slower */
            if (beta != 0)
                mx_prefetch_tile(Y + own.phase.y_first + (long)own.group * g.y_g,
                                 own.m0 + (CHANNELS_LAST ? 0 : column0), own.n0 + (CHANNELS_LAST ? column0 : 0),
                                 &MX_GIVEN, warpgroup, epilogue);
#endif
            uint before = 0;
            if (PING_PONG && turns > 0)
                mx_barrier_wait(turn + 8 * role, turns - 1 & 1);
            turns++;
            MX_MULTIPLY_SLICES(sums, slices_all);
            if (PING_PONG && lane == 0)
                mx_barrier_arrive(turn + 8 * (1 - role));
#if SCALE_COLUMNS && HAS_COLUMNS && !COLUMNS_IN_LOCAL
            const mx_columns own_columns =
                mx_load_columns((long)own.group * g.filters, own.n0 + column0, g.filters, EPILOGUE_ARGS);
#endif
            MX_WG_WAIT(0);
            if (lane == 0 && slices_all > 0)
                mx_barrier_arrive(before);
            /* What the other has in between. */
            skip = PING_PONG && tile + get_num_groups(0) < tiles
                       ? RING_SLICES(mx_tile(tile + get_num_groups(0), &order)) : 0;
            MX_EACH_SUM_OF_GROUP(i, j)
                MX_WG_HOLD(sums[i][j]);

            __global MX_STORED *y = Y + own.phase.y_first + (long)own.group * g.y_g;
            const int m0 = own.m0 + (CHANNELS_LAST ? 0 : column0), n0 = own.n0 + (CHANNELS_LAST ? column0 : 0);
            const long first_filter = (long)own.group * MX_CONV(&MX_GIVEN)->filters;
#if SCALED
#define MX_STORE_MORE , roots, roots + filter_roots_at + own.group * g.filters MX_STORE_ARGS(first_filter)
#elif EIGHT_BITS
#define MX_STORE_MORE , rounding, part_at, g.y_first + own.phase.y_first + own.group * g.y_g
#else
#define MX_STORE_MORE MX_STORE_ARGS(first_filter)
#endif
#if COLUMN_SLICES
#define MX_COLUMNS 0, shared + stage * STAGE_BYTES + column0 * COLUMN_BYTES
            mx_barrier_wait(full + 8 * stage, parity);
            mx_scale_columns(sums, lane, alpha, MX_COLUMNS);
            asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
            if (lane == 0)
                mx_barrier_arrive(empty + 8 * stage);
            if (++stage == STAGES)
                stage = 0, parity ^= 1;
#elif SCALE_COLUMNS
#if !HAS_COLUMNS
#define MX_COLUMNS 0, 0
#elif COLUMNS_IN_LOCAL
#define MX_COLUMNS 0, columns_at
#else
#define MX_COLUMNS &own_columns, 0
#endif
            if (!Z_SLICES)
                mx_scale_columns(sums, lane, alpha, MX_COLUMNS);
#endif
#if Z_SLICES
            mx_store_with_z(sums, y, m0, n0, &MX_GIVEN, warpgroup, shared, full, &stage, &parity, MX_COLUMNS,
                            EPILOGUE_ARGS);
#else
#if defined(EPILOGUE) && !SCALED
#pragma unroll
            for (int i = 0; i < WG_ROWS; i++) {
#if !CHANNELS_LAST
                MX_SCALE_ROWS(sums[i], WN / 2, first_filter,
                              n0 + warpgroup * WG_ROWS * 64 + i * 64 + (item >> 5 & 3) * 16 + (lane >> 2),
                              MX_CONV(&MX_GIVEN)->filters)
#endif
                MX_FINISH(sums[i], WN / 2)
            }
#endif
#ifdef EPILOGUE
            const bool plainly = MX_PLAIN_EPILOGUE && ((ulong)y & (sizeof(MX_STORED) * VEC - 1)) == 0;
#else
            const bool plainly = alpha == 1 && beta == 0 && ((ulong)y & (sizeof(MX_STORED) * VEC - 1)) == 0;
#endif
            if (plainly)
#if LOCAL_EPILOGUE
                mx_store_runs(sums, y, m0, n0, &MX_GIVEN, warpgroup, mx_shared(runs) + (item >> 5) * RUN_BYTES);
#else
                mx_store_tile(sums, y, m0, n0, &MX_GIVEN, alpha, beta, true, warpgroup MX_STORE_MORE);
#endif
            else
                mx_store_tile(sums, y, m0, n0, &MX_GIVEN, MX_STORE_ALPHA, beta, false, warpgroup MX_STORE_MORE);
#endif
        }
    }
}
