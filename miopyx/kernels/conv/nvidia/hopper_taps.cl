/* Backward weights with half or bfloat16 operands by wgmma, where three neighbouring taps share the pixels of x in local
 * memory: partial sums, in float, of split-K.  No stride.  Needs SM_90A.
 *
 *   partial[split][group][filter][(i, j, c)] = sum over the split's positions of dy[position][filter]
 *                                              * x[position + i * tap_h * pitch + j * tap_w][c]
 *
 *                64 channels a tap          A work-group computes one tile of 64 filters x three rows of the filter, which
 *   64 filters +-----+-----+-----+          have three taps each, of 64 channels, for `split_slices` K-slices of 64
 *              | j=0 | j=1 | j=2 |          positions of an image.
 *              +-----+-----+-----+          Warpgroups 0 to 2: consumers, a row each, where there are.
 *                                           Warpgroup 3: the producer.
 *
 * x and dy are channels last (x_c == y_c == 1) with multiples of 8 channels.
 * A matrix of three taps begins at the first one's row; the next tap's 64 channels are tap_w rows further on, which is
 * the matrix's leading dimension: a row is in local memory once.
 * Grid: one axis, local 512, global 512 * tiles down * tiles across * groups * splits.
 * Local memory: a ring of STAGES slices, swizzled: chunk c of row r is at c ^ (r % 8).  Two mbarriers a stage.
 * Bound by: the producers' instructions, and then the second-level cache.
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#ifndef AXES /* 2 or 3 */
#define AXES 2
#endif
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/wgmma.h"
#include "conv/nvidia/volume.h"
#include "conv/nvidia/hopper_taps_args.h"

#define STAGES 6
#define ROWS 3
#define TAPS 3
#define BN (TAPS * 64)
#define BM 64
#define DEPTH 64
#define ROWS_AT_ONCE 16 /* of the 128 work-items that copy */
#define BLOCK_BYTES (DEPTH * ROW_BYTES)
#define X_BYTES ((DEPTH + 8) * ROW_BYTES) /* with the halo of two taps */
#define STAGE_BYTES (BLOCK_BYTES + ROWS * X_BYTES)
#define CONSUMERS ROWS
#define THREADS (128 * (CONSUMERS + 1))
#define STEP_UNITS (16 * ROW_BYTES >> 4)

#if AXES == 3
#define PLANE_OF(row) mx_quotient(row, o.by_plane)
#define IN_PLANE(row, plane) ((row) - (plane) * o.plane_rows)
#define X_SLAB(d) ((d) * o.volume.x_d)
#define Y_SLAB(d) ((d) * o.volume.y_d)
#else
#define PLANE_OF(row) 0
#define IN_PLANE(row, plane) (row)
#define X_SLAB(d) 0
#define Y_SLAB(d) 0
#define MX_DEEP(member) 1
#define MX_ROW(member) (member)
#endif

/* slice's products of 16 positions are added. */
#define MULTIPLY(k) MX_WGMMA_192(sums, a + at + (k) * STEP_UNITS, b + at + (k) * STEP_UNITS, "1", "1, 1")

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_hopper_taps(
    __global const ushort *restrict X, long x_offset, __global const ushort *restrict Y, long y_offset,
    __global float *restrict partial, long partial_offset, const mx_nv_taps o, const int split_slices)
{
    __local uint4 stages[STAGES * STAGE_BYTES / 16] __attribute__((aligned(1024)));
    __local ulong barriers[2 * STAGES]; /* full, empty */
    const mx_nv_conv g = o.volume.conv;
    const int item = get_local_id(0), lane = item & 31, role = item >> 7, warp = item >> 5 & 3;
    const int tap_rows = MX_BOTH(g.taps_h);
    MX_SPLIT_K_TILE(g.filters, (tap_rows + ROWS - 1) / ROWS * o.x_chunks * BN, g.groups);
    const int chunk = n0 / BN % o.x_chunks, tap_row = n0 / BN / o.x_chunks * ROWS;
    const int images = g.pixels / (MX_BOTH(g.p) * g.q);
    const int first = split * split_slices, own = min(split_slices, images * o.slices - first);
    const int present = min(ROWS, tap_rows - tap_row);
    const uint shared = mx_shared(stages), full = mx_shared(barriers), empty = full + 8 * STAGES;

    if (item == 0)
        mx_ring_begin(full, STAGES, 128, 4 * present);
    barrier(CLK_LOCAL_MEM_FENCE);

    if (role == CONSUMERS) {
        MX_WG_FEWER(56);
        /* Always 16-byte unit item % 8 of a row, of rows item / 8 + i * ROWS_AT_ONCE. */
        const int unit = item & 7, row0 = (item & 127) >> 3;
        const uint to = shared + row0 * ROW_BYTES + ((unit ^ (row0 & 7)) << 4);
        const bool in_filters = m0 + unit * 8 < g.filters, in_channels = chunk * 64 + unit * 8 < g.channels;
        int d0[ROWS], h0[ROWS]; /* of each row of taps */
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int tap_d = (tap_row + r) / MX_ROW(g.taps_h), tap_h = tap_row + r - tap_d * MX_ROW(g.taps_h);
            d0[r] = AXES == 3 ? MX_DEEP(g.first_h) + tap_d * MX_DEEP(g.tap_h) : 0;
            h0[r] = MX_ROW(g.first_h) + tap_h * MX_ROW(g.tap_h);
        }
        const int x_rows = DEPTH + (TAPS - 1) * g.tap_w;
        const bool aligned = (((ulong)(X + x_offset) | (ulong)(Y + y_offset)) & 15) == 0;
        int n = first / o.slices, slice = first - n * o.slices, stage = 0, parity = 1;
        X += x_offset + (long)group * g.x_g + chunk * 64 + unit * 8;
        Y += y_offset + (long)group * g.y_g + m0 + unit * 8;
        for (int i = 0; i < own; i++) {
            const uint at = to + stage * STAGE_BYTES;
            __global const ushort *x_image = X + (long)n * g.x_n, *y_image = Y + (long)n * g.y_n;
            mx_barrier_wait(empty + 8 * stage, parity);
/* Five times 16 rows; what is behind the last row of x is not copied. */
#define COPY_SLICE(COPY)                                                                                               \
    _Pragma("unroll") for (int l = 0; l < 5; l++) {                                                                    \
        const int at_row = row0 + l * ROWS_AT_ONCE, position = slice * DEPTH + at_row;                                 \
        const int row = mx_quotient(position, o.by_pitch), q = position - row * o.pitch, w = q + g.first_w;            \
        const int plane = PLANE_OF(row), p = IN_PLANE(row, plane);                                                     \
        if (l < 4)                                                                                                     \
            COPY(at + l * ROWS_AT_ONCE * ROW_BYTES, y_image + (Y_SLAB(plane) + p * g.y_h + q * g.y_w),                 \
                 (plane < MX_DEEP(g.p)) & (p < MX_ROW(g.p)) & (q < g.q) & in_filters);                                 \
        if (l < 4 || at_row < x_rows)                                                                                  \
            _Pragma("unroll") for (int r = 0; r < ROWS; r++)                                                           \
                if (r < present) {                                                                                     \
                    const int d = plane + d0[r], h = p + h0[r];                                                        \
                    COPY(at + BLOCK_BYTES + r * X_BYTES + l * ROWS_AT_ONCE * ROW_BYTES,                                \
                         x_image + (X_SLAB(d) + h * g.x_h + w * g.x_w),                                                \
                         (AXES == 2 || (uint)d < (uint)MX_DEEP(g.h)) & ((uint)h < (uint)MX_ROW(g.h))                   \
                             & ((uint)w < (uint)g.w) & in_channels);                                                   \
                }                                                                                                      \
    }
            if (aligned) {
                COPY_SLICE(MX_COPY16);
                mx_barrier_arrive_copied(full + 8 * stage);
            } else {
                COPY_SLICE(mx_copy_halves);
                mx_barrier_arrive(full + 8 * stage);
            }
            if (++slice == o.slices)
                slice = 0, n++;
            if (++stage == STAGES)
                stage = 0, parity ^= 1;
        }
        return;
    }
    MX_WG_MORE(144);
    if (role >= present)
        return;
    const ulong a = mx_wg_matrix(shared, BLOCK_BYTES);
    const ulong b = mx_wg_matrix(shared + BLOCK_BYTES + role * X_BYTES, g.tap_w * ROW_BYTES);
    float sums[BN / 2];
#pragma unroll
    for (int j = 0; j < BN / 2; j++)
        sums[j] = 0;
    int slice = first - first / o.slices * o.slices, stage = 0, parity = 0;
    uint before = 0;
    for (int i = 0; i < own; i++) {
        const int steps = slice == o.slices - 1 ? o.last_steps : 4;
        const uint at = stage * STAGE_BYTES >> 4;
        mx_barrier_wait(full + 8 * stage, parity);
        MX_WG_PUBLISH();
        MX_WG_FENCE();
        if (steps == 4) {
#pragma unroll
            for (int k = 0; k < 4; k++)
                MULTIPLY(k);
        } else {
#pragma unroll 1
            for (int k = 0; k < steps; k++)
                MULTIPLY(k);
        }
        MX_WG_COMMIT();
        MX_WG_WAIT(1);
        if (lane == 0 && i > 0)
            mx_barrier_arrive(before);
        before = empty + 8 * stage;
        if (++slice == o.slices)
            slice = 0;
        if (++stage == STAGES)
            stage = 0, parity ^= 1;
    }
    MX_WG_WAIT(0);
#pragma unroll
    for (int j = 0; j < BN / 2; j++)
        MX_WG_HOLD(sums[j]);

    const int row = m0 + warp * 16 + (lane >> 2), pair = (lane & 3) * 2;
    const int reduced = o.x_chunks * 64, columns = MX_BOTH(g.taps_h) * TAPS * reduced;
    partial += partial_offset + ((long)split * g.groups + group) * g.filters * columns;
#pragma unroll
    for (int j = 0; j < BN / 2; j += 2) {
        const int k = row + (j & 2) * 4, tap = (tap_row + role) * TAPS + j / 32;
        __global float *to = partial + (long)k * columns + tap * reduced + chunk * 64 + j / 4 % 8 * 8 + pair;
        if (k >= g.filters)
            continue;
        if (((ulong)partial & 7) == 0)
            *(__global float2 *)to = (float2)(sums[j], sums[j + 1]);
        else
            to[0] = sums[j], to[1] = sums[j + 1];
    }
}
