/* Backward weights with float operands as pairs of halves by wgmma, where three neighbouring taps share the pixels of x
 * in local memory: partial sums of split-K.  No stride.  Needs SM_90A.
 *
 *   partial[split][group][filter][(i, j, c)] = sum over the split's positions of dy[position][filter]
 *                                              * x[position + i * tap_h * pitch + j * tap_w][c]
 *
 *              64 channels a tap            A work-group computes one tile of 128 filters x three taps of 64 channels,
 *   filters  +-------+-------+-------+      or with ROWS 2 of 64 filters x twice as many, for `split_slices` K-slices of
 *     BM     | j     | j + 1 | j + 2 |      64 positions of an image.
 *            +-------+-------+-------+      Warpgroups 0, 1: consumers, 64 filters or three taps each, where there are.
 *                                           Warpgroup 2: one work-item copies in bulk.
 *
 * x and dy are packed by conv/nvidia/pairs_taps_pack.cl; X and Y, as they lie, are read only where a sum is not finite.
 * A matrix of three taps begins at the first one's row; the next tap's 64 channels are tap_w rows further on, which is
 * the matrix's leading dimension: a row is in local memory once.
 * Grid: one axis, local 384, global 384 * tiles down * tiles across * groups * splits.
 * Local memory: a ring of STAGES slices of pairs; two mbarriers a stage, full and empty.
 * Bound by: tensor cores, and nearly as much by the second-level cache: 50 KB a slice.
 */
#ifndef ROWS /* 1, or 2: of three taps, each of the filter's rows having one or more */
#define ROWS 1
#endif
#ifndef STAGES
#define STAGES (ROWS == 2 ? 3 : 4)
#endif
#ifndef AXES /* 2 or 3 */
#define AXES 2
#endif
#define X_TYPE float
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/wgmma.h"
#include "conv/nvidia/pairs.h"
#include "conv/nvidia/pairs_exactly.h"
#include "conv/nvidia/pairs_taps_args.h"

#define BM (128 / ROWS)
#define TAPS 3
#define BN (TAPS * 64)
#define DEPTH 64
#define X_ROWS (DEPTH + 16) /* with the halo of two taps, from a multiple of 8 on */
#define X_BYTES (X_ROWS * ROW_BYTES)
#define Y_BYTES (2 * BM / 64 * BLOCK_BYTES)
#define STAGE_BYTES (Y_BYTES + 2 * ROWS * X_BYTES)
#define CONSUMERS 2
#define THREADS (128 * (CONSUMERS + 1))
#define STEP_BYTES (16 * ROW_BYTES)

#if AXES == 3
#define MX_GIVEN &o.volume
#else
#define MX_GIVEN &g
#endif

/* slice_sums (64 filters x BN) = or += 16 positions' products. */
#define MULTIPLY(a, b, keep) MX_WGMMA_192(slice_sums, a, b, keep, "1, 1")

/* How far from dy's position on is x of a row's first tap. */
static inline int mx_first_tap(int taps_at, const mx_nv_pair_taps *o)
{
    const mx_nv_conv *g = &o->volume.conv;
    const int row = taps_at / o->tap_groups, tap_w = (taps_at - row * o->tap_groups) * TAPS;
#if AXES == 3
    const int tap_d = row / MX_ROW(g->taps_h), tap_h = row - tap_d * MX_ROW(g->taps_h);
    return tap_d * MX_DEEP(g->tap_h) * o->plane + tap_h * MX_ROW(g->tap_h) * o->pitch + tap_w * g->tap_w;
#else
    return row * g->tap_h * o->pitch + tap_w * g->tap_w;
#endif
}

/* The pixels of dy before slice `slice` of all, whose positions end somewhere in a row. */
static inline int mx_pixels_before(int slice, const mx_nv_pair_taps *o)
{
    const mx_nv_conv *g = &o->volume.conv;
    const int n = slice / o->slices, position = (slice - n * o->slices) * DEPTH;
#if AXES == 3
    const int d = position / o->plane, rest = position - d * o->plane, rows = MX_ROW(g->p);
    const int before = (n * MX_DEEP(g->p) + d) * rows;
#else
    const int rest = position, rows = g->p, before = n * rows;
#endif
    const int p = min(rest / o->pitch, rows);
    return (before + p) * g->q + (p == rows ? 0 : min(rest - p * o->pitch, g->q));
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_pairs_taps(
    __global const float *restrict X, long x_offset, __global const float *restrict Y, long y_offset,
    __global float *restrict x_packed, long x_packed_offset, __global float *restrict y_packed, long y_packed_offset,
    __global const float *restrict inverses, long inverses_offset, __global float *restrict partial,
    long partial_offset, const mx_nv_pair_taps o, const int split_slices)
{
    __local uint4 stages[STAGES * STAGE_BYTES / 16] __attribute__((aligned(1024)));
    __local ulong barriers[2 * STAGES]; /* full, empty */
    const mx_nv_conv g = o.volume.conv;
    const int item = get_local_id(0), lane = item & 31, role = item >> 7, warp = item >> 5 & 3;
    const int tap_rows = MX_BOTH(g.taps_h) * o.tap_groups;
    MX_SPLIT_K_TILE(o.y_chunks * 64, (tap_rows + ROWS - 1) / ROWS * o.x_chunks * BN, g.groups);
    const int chunk = n0 / BN % o.x_chunks, taps_at = n0 / BN / o.x_chunks * ROWS; /* of all rows of three taps */
    const int images = g.pixels / (MX_BOTH(g.p) * g.q);
    const int first = split * split_slices, own = min(split_slices, images * o.slices - first);
    const int present = min(CONSUMERS, ROWS == 2 ? tap_rows - taps_at : o.y_chunks - m0 / 64);
    const int y_blocks = ROWS == 2 ? 1 : present, x_blocks = ROWS == 2 ? present : 1;
    const uint shared = mx_shared(stages), full = mx_shared(barriers), empty = full + 8 * STAGES;

    if (item == 0)
        mx_ring_begin(full, STAGES, 1, 4 * present);
    barrier(CLK_LOCAL_MEM_FENCE);

    if (role == CONSUMERS) {
        MX_WG_FEWER(24);
        if (item != 128 * CONSUMERS)
            return;
        __global const uint4 *x_from = mx_packed(x_packed + x_packed_offset)
            + ((long)group * o.x_chunks + chunk) * (2L * o.x_positions * 8);
        __global const uint4 *y_from = mx_packed(y_packed + y_packed_offset)
            + ((long)group * o.y_chunks + m0 / 64) * (2L * o.y_positions * 8);
        const long x_image = (long)g.groups * o.x_chunks * (2L * o.x_positions * 8);
        const long y_image = (long)g.groups * o.y_chunks * (2L * o.y_positions * 8);
        int tap_at[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            tap_at[r] = mx_first_tap(taps_at + r, &o);
        int n = first / o.slices, slice = first - n * o.slices, stage = 0, parity = 1;
        x_from += n * x_image;
        y_from += n * y_image;
        for (int i = 0; i < own; i++) {
            const int y_rows = (slice == o.slices - 1 ? o.last_steps : 4) * 16;
            int begin[ROWS], x_rows[ROWS], rows = 2 * y_blocks * y_rows;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                begin[r] = slice * DEPTH + tap_at[r];
                x_rows[r] = (begin[r] & 7) + y_rows + (TAPS - 1) * g.tap_w + 7 & ~7;
                rows += r < x_blocks ? 2 * x_rows[r] : 0;
            }
            const uint to = shared + stage * STAGE_BYTES, bar = full + 8 * stage;
            mx_barrier_wait(empty + 8 * stage, parity);
            mx_barrier_expect_more(bar, rows * ROW_BYTES);
            for (int b = 0; b < 2 * y_blocks; b++) /* hi and lo of each */
                mx_bulk_copy(to + b * BLOCK_BYTES, y_from + ((long)b * o.y_positions + slice * DEPTH) * 8,
                             y_rows * ROW_BYTES, bar);
#pragma unroll
            for (int b = 0; b < 2 * ROWS; b++)
                if (b / 2 < x_blocks)
                    mx_bulk_copy(to + Y_BYTES + b * X_BYTES,
                                 x_from + ((long)(b % 2) * o.x_positions + (begin[b / 2] & ~7)) * 8,
                                 x_rows[b / 2] * ROW_BYTES, bar);
            mx_barrier_arrive(bar);
            if (++slice == o.slices) {
                slice = 0;
                x_from += x_image;
                y_from += y_image;
            }
            if (++stage == STAGES)
                stage = 0, parity ^= 1;
        }
        return;
    }
    MX_WG_MORE(240);
    if (role >= present)
        return;
    const int y_block = ROWS == 2 ? 0 : role, x_block = ROWS == 2 ? role : 0, own_taps = taps_at + x_block;
    const ulong a_hi = mx_wg_matrix(shared + 2 * y_block * BLOCK_BYTES, BLOCK_BYTES), a_lo = a_hi + (BLOCK_BYTES >> 4);
    const ulong b_matrix = mx_wg_matrix(shared + Y_BYTES + 2 * x_block * X_BYTES, g.tap_w * ROW_BYTES);
    const int row = m0 + y_block * 64 + warp * 16 + (lane >> 2), pair = (lane & 3) * 2;
    const int tap_at = mx_first_tap(own_taps, &o);
    float sums[BN / 2];
#pragma unroll
    for (int j = 0; j < BN / 2; j++)
        sums[j] = 0;
    int slice = first - first / o.slices * o.slices, stage = 0, parity = 0;
    for (int i = 0; i < own; i++) {
        float slice_sums[BN / 2];
        const int steps = slice == o.slices - 1 ? o.last_steps : 4, begin = slice * DEPTH + tap_at;
        const uint at = stage * STAGE_BYTES >> 4;
        const ulong b_hi = b_matrix + at + (begin & 7) * (ROW_BYTES >> 4), b_lo = b_hi + (X_BYTES >> 4);
        mx_barrier_wait(full + 8 * stage, parity);
        MX_WG_FENCE();
        /* What is small comes first. */
        MULTIPLY(a_lo + at, b_hi, "0");
        MULTIPLY(a_hi + at, b_lo, "1");
        if (steps == 4) {
#pragma unroll
            for (int k = 1; k < 4; k++) {
                MULTIPLY(a_lo + at + k * (STEP_BYTES >> 4), b_hi + k * (STEP_BYTES >> 4), "1");
                MULTIPLY(a_hi + at + k * (STEP_BYTES >> 4), b_lo + k * (STEP_BYTES >> 4), "1");
            }
#pragma unroll
            for (int k = 0; k < 4; k++)
                MULTIPLY(a_hi + at + k * (STEP_BYTES >> 4), b_hi + k * (STEP_BYTES >> 4), "1");
        } else {
#pragma unroll 1
            for (int k = 1; k < steps; k++) {
                MULTIPLY(a_lo + at + k * (STEP_BYTES >> 4), b_hi + k * (STEP_BYTES >> 4), "1");
                MULTIPLY(a_hi + at + k * (STEP_BYTES >> 4), b_lo + k * (STEP_BYTES >> 4), "1");
            }
#pragma unroll 1
            for (int k = 0; k < steps; k++)
                MULTIPLY(a_hi + at + k * (STEP_BYTES >> 4), b_hi + k * (STEP_BYTES >> 4), "1");
        }
        MX_WG_COMMIT();
        MX_WG_WAIT(0);
        if (lane == 0)
            mx_barrier_arrive(empty + 8 * stage);
#pragma unroll
        for (int j = 0; j < BN / 2; j++) {
            MX_WG_HOLD(slice_sums[j]);
            sums[j] += slice_sums[j];
        }
        if (++slice == o.slices)
            slice = 0;
        if (++stage == STAGES)
            stage = 0, parity ^= 1;
    }

    inverses += inverses_offset + (group * o.x_chunks + chunk) * 64;
    __global const float *y_inverses = inverses
        + (g.groups - group) * o.x_chunks * 64 - chunk * 64 + group * o.y_chunks * 64;
    const float above = y_inverses[row], below = y_inverses[row + 8];
#pragma unroll
    for (int j = 0; j < BN / 2; j += 4) {
        const float left = inverses[j * 2 % 64 + pair], right = inverses[j * 2 % 64 + pair + 1];
        sums[j] *= above, sums[j + 1] *= above, sums[j + 2] *= below, sums[j + 3] *= below;
        sums[j] *= left, sums[j + 1] *= right, sums[j + 2] *= left, sums[j + 3] *= right;
    }
    const int tap_row = own_taps / o.tap_groups, tap_w0 = (own_taps - tap_row * o.tap_groups) * TAPS;
    const int taps = min(TAPS, g.taps_w - tap_w0), tap0 = tap_row * g.taps_w + tap_w0;
    bool finite;
    MX_FINITE(finite, sums, BN / 2);
    if (!finite) {
        float copy[BN / 2];
        const int pixel = mx_pixels_before(first, &o), pixel_end = mx_pixels_before(first + own, &o);
#pragma unroll
        for (int j = 0; j < BN / 2; j++)
            copy[j] = sums[j];
#pragma unroll 1
        for (int j = 0; j < BN / 2; j++) {
            const int k = row + (j & 2) * 4, column = j / 4 * 8 + pair + (j & 1), c = chunk * 64 + column % 64;
            if (k < g.filters && column / 64 < taps && c < g.channels && !(fabs(copy[j]) < INFINITY))
                copy[j] = mx_exactly(X + x_offset + (long)group * g.x_g, Y + y_offset + (long)group * g.y_g, MX_GIVEN,
                                     k, c, tap0 + column / 64, pixel, pixel_end);
        }
#pragma unroll
        for (int j = 0; j < BN / 2; j++)
            sums[j] = copy[j];
    }
    const int reduced = o.x_chunks * 64, columns = MX_BOTH(g.taps_h) * g.taps_w * reduced;
    partial += partial_offset + ((long)split * g.groups + group) * g.filters * columns;
#pragma unroll
    for (int j = 0; j < BN / 2; j += 2) {
        const int k = row + (j & 2) * 4, tap = j / 32;
        __global float *to = partial + (long)k * columns + (tap0 + tap) * reduced + chunk * 64 + j / 4 % 8 * 8 + pair;
        if (k >= g.filters || tap >= taps)
            continue;
        if (((ulong)partial & 7) == 0)
            *(__global float2 *)to = (float2)(sums[j], sums[j + 1]);
        else
            to[0] = sums[j], to[1] = sums[j + 1];
    }
}
