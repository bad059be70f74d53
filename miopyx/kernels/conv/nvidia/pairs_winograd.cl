/* Backward weights of 3x3 with float operands by Winograd's F(3x3, 2x2): 16 products for 36, of pairs of halves by
 * wgmma.  No stride, no dilation.  Needs SM_90A.
 *
 *   dw = A^T (sum over tiles of (G dy G^T) . (B^T x B)) A
 *
 *         | 1  0 -1  0 |        | 1    0   |          | 1  1  1  0 |
 *   B^T = | 0  1  1  0 |    G = | 1/2  1/2 |    A^T = | 0  1 -1  0 |     for the points 0, 1, -1 and infinity
 *         | 0 -1  1  0 |        | 1/2 -1/2 |          | 0  1  1  1 |
 *         | 0 -1  0  1 |        | 0    1   |
 *
 * Three kernels:
 *   winograd_tiles:     tiles of x and of dy, transformed, as pairs of halves
 *   winograd_products:  partial[split][point][group][filter][channel], a matrix product over the tiles for each point
 *   winograd_weights:   dw, transformed back; what is not finite is computed anew, product by product
 *
 * A slice's channel has one scale for all points, a power of two, which the products take back where they add the slice
 * up.  A point times it is hi + lo: down to 2^-17 of the largest 22 bits are kept, below that an error of 2^-40 of it.
 */
#ifndef X_LAST /* 1: x has channels last */
#define X_LAST 0
#endif
#ifndef Y_LAST
#define Y_LAST 0
#endif
#ifndef COLUMNS /* chunks of 64 channels that a work-group of winograd_products has: 2 or 3 */
#define COLUMNS 3
#endif
#define X_TYPE float
#define AXES 2
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/wgmma.h"
#include "conv/nvidia/pairs.h"
#include "conv/nvidia/pairs_exactly.h"
#include "conv/nvidia/pairs_winograd_args.h"

#define POINTS 16
#define CHUNK_WORDS (BLOCK_BYTES / 4) /* of 64 channels x 64 tiles, hi or lo */
#define WARPS 8
#define LEAST_EXPONENT 15u /* of a largest, below which it has the scale of this one, a normal number */
#define INVERSE_BIAS 14 /* a scale's exponent is 268 - e, an inverse's e - 14: both together take both scales back */

/* Of a tile of 4 x 4 values of x: B^T x B. */
static inline void mx_winograd_x(float v[16])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float a = v[i], b = v[4 + i], c = v[8 + i], d = v[12 + i];
        v[i] = a - c, v[4 + i] = b + c, v[8 + i] = c - b, v[12 + i] = d - b;
    }
#pragma unroll
    for (int i = 0; i < 16; i += 4) {
        const float a = v[i], b = v[i + 1], c = v[i + 2], d = v[i + 3];
        v[i] = a - c, v[i + 1] = b + c, v[i + 2] = c - b, v[i + 3] = d - b;
    }
}

/* Of a tile of 2 x 2 values of dy, which are v[0], v[1], v[4] and v[5]: G dy G^T. */
static inline void mx_winograd_y(float v[16])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float a = v[i], b = v[4 + i];
        v[4 + i] = 0.5f * (a + b), v[8 + i] = 0.5f * (a - b), v[12 + i] = b;
    }
#pragma unroll
    for (int i = 0; i < 16; i += 4) {
        const float a = v[i], b = v[i + 1];
        v[i + 1] = 0.5f * (a + b), v[i + 2] = 0.5f * (a - b), v[i + 3] = b;
    }
}

/* Where a tile of 4 x 4 pixels of x or 2 x 2 of dy begins, in elements, and a bit for each pixel that there is; row i's
 * are from 4 i on. */
static inline int2 mx_tile_place(const mx_nv_tiled s, int tile, const mx_nv_winograd *o, int side)
{
    const int n = mx_quotient(tile, o->by_image_tiles), rest = tile - n * o->image_tiles;
    const int row = mx_quotient(rest, o->by_row_tiles), column = rest - row * o->row_tiles;
    const int h = 2 * row + s.first_h, w = 2 * column + s.first_w;
    int inside = 0, columns = 0;
#pragma unroll
    for (int j = 0; j < side; j++)
        columns |= (uint)(w + j) < (uint)s.w ? 1 << j : 0;
#pragma unroll
    for (int i = 0; i < side; i++)
        inside |= (uint)(h + i) < (uint)s.h ? columns << 4 * i : 0;
    return (int2)(n * s.n + h * s.row + w * s.column, tile < o->tiles ? inside : 0);
}

/* The points of a tile. */
static inline void mx_load_tile(float v[16], __global const float *from, int2 place, const mx_nv_tiled s, int side)
{
#pragma unroll
    for (int i = 0; i < side; i++)
#pragma unroll
        for (int j = 0; j < side; j++)
            v[4 * i + j] = place.y >> (4 * i + j) & 1 ? from[place.x + i * s.row + j * s.column] : 0;
    if (side == 4)
        mx_winograd_x(v);
    else
        mx_winograd_y(v);
}

/* The largest finite one of `most` and a tile's points, as bits. */
static inline uint mx_largest_point(uint most, const float v[16])
{
#pragma unroll
    for (int point = 0; point < POINTS; point++) {
        const uint value = as_uint(v[point]) & 0x7fffffffu;
        most = max(most, value < 0x7f800000u ? value : 0); /* beside Inf others keep their precision */
    }
    return most;
}

/* A work-group has one slice of 64 tiles and one chunk of 64 channels, or a share of its rows; a warp has a row: a
 * channel with its tiles, or with `last` a tile with its channels, each lane two of them that are neighbours.  Of
 * channels last each share computes all points of the slice first, for their largest. */
static inline void mx_pack_tiles(__global const float *from, __global uint *packed, const mx_nv_tiled s, int group,
                                 int chunk, int slice, int share, const mx_nv_winograd *o, int side, bool last,
                                 __local uint *largest)
{
    const int warp = get_local_id(0) >> 5, lane = get_local_id(0) & 31, rows = 64 / o->shares, c = 2 * lane;
    const int lo = s.chunks * CHUNK_WORDS, left = s.channels - chunk * 64; /* channels that there are */
    const int number = group * o->slices + slice, first = o->first_tile + slice * 64;
    const long point_words = (long)o->groups * o->slices * 2 * lo;
    const int2 none = (int2)(0, 0);
    int2 places[2];
    uint exponents[2] = {0, 0};
    float one[16], other[16];
    __global uint *to = packed + ((long)number * 2 * s.chunks + chunk) * CHUNK_WORDS;
    __global float *inverses = (__global float *)(packed + POINTS * point_words);
    inverses += ((long)number * s.chunks + chunk) * 64;
    from += (long)group * s.g + chunk * 64 * s.c;
    if (last) {
        uint most[2] = {0, 0};
        for (int row = warp; row < 64; row += WARPS) {
            const int2 place = mx_tile_place(s, first + row, o, side);
            mx_load_tile(one, from + c * s.c, c < left ? place : none, s, side);
            mx_load_tile(other, from + (c + 1) * s.c, c + 1 < left ? place : none, s, side);
            most[0] = mx_largest_point(most[0], one);
            most[1] = mx_largest_point(most[1], other);
        }
        largest[warp * 64 + c] = most[0];
        largest[warp * 64 + c + 1] = most[1];
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < WARPS; j++)
                most[i] = max(most[i], largest[j * 64 + c + i]);
            exponents[i] = max(most[i] >> 23, LEAST_EXPONENT);
            if (share == 0 && warp == 0)
                inverses[c + i] = as_float((exponents[i] - INVERSE_BIAS) << 23);
        }
    } else {
        places[0] = mx_tile_place(s, first + c, o, side);
        places[1] = mx_tile_place(s, first + c + 1, o, side);
    }
    for (int own = warp; own < rows; own += WARPS) {
        const int row = share * rows + own;
        if (last) {
            const int2 place = mx_tile_place(s, first + row, o, side);
            mx_load_tile(one, from + c * s.c, c < left ? place : none, s, side);
            mx_load_tile(other, from + (c + 1) * s.c, c + 1 < left ? place : none, s, side);
        } else {
            mx_load_tile(one, from + row * s.c, row < left ? places[0] : none, s, side);
            mx_load_tile(other, from + row * s.c, row < left ? places[1] : none, s, side);
            exponents[0] = exponents[1] = max(mx_most(mx_largest_point(mx_largest_point(0, one), other)) >> 23, LEAST_EXPONENT);
            if (lane == 0)
                inverses[row] = as_float((exponents[0] - INVERSE_BIAS) << 23);
        }
        const float scale = mx_pair_scale(exponents[0]), other_scale = mx_pair_scale(exponents[1]);
        __global uint *at = to + row * 32 + (((lane >> 2) ^ (row & 7)) << 2 | (lane & 3));
#pragma unroll
        for (int point = 0; point < POINTS; point++) {
            const uint2 pair = mx_pair_times(one[point] * scale, other[point] * other_scale, 1);
            at[0] = pair.x;
            at[lo] = pair.y;
            at += point_words;
        }
    }
}

/* Grid: one axis, local 256, global 256 * (slices * shares * chunks * groups of x, then of dy).
 * Local memory: of channels last each warp's largest of 64 channels.
 * Bound by: memory. */
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void winograd_tiles(
    __global const float *restrict X, long x_offset, __global const float *restrict Y, long y_offset,
    __global float *restrict x_packed, long x_packed_offset, __global float *restrict y_packed, long y_packed_offset,
    const mx_nv_winograd o)
{
    __local uint largest[X_LAST || Y_LAST ? WARPS * 64 : 1];
    const int share = get_group_id(0) % o.shares, slice = get_group_id(0) / o.shares % o.slices;
    const int all = get_group_id(0) / o.shares / o.slices, of_y = all - o.groups * o.x.chunks;
    if (of_y < 0)
        mx_pack_tiles(X + x_offset, (__global uint *)mx_packed(x_packed + x_packed_offset), o.x, all / o.x.chunks,
                      all % o.x.chunks, slice, share, &o, 4, X_LAST, largest);
    else
        mx_pack_tiles(Y + y_offset, (__global uint *)mx_packed(y_packed + y_packed_offset), o.y, of_y / o.y.chunks,
                      of_y % o.y.chunks, slice, share, &o, 2, Y_LAST, largest);
}

/* A work-group has a tile of 128 filters x COLUMNS * 64 channels of one point and `split_slices` slices of 64 tiles.
 * Warpgroups 0, 1: consumers, 64 filters each, where there are.  Warpgroup 2: one work-item copies in bulk.
 * Grid: one axis, local 384, global 384 * tiles down * tiles across * points * groups * splits.
 * Local memory: a ring of STAGES slices of pairs, one of twice as many slices' inverses; two mbarriers a stage, full
 * and empty, and one for each consumer's turn.
 * Bound by: tensor cores. */
#define STAGES (COLUMNS == 3 ? 2 : 3)
#define X_PART (COLUMNS * BLOCK_BYTES) /* hi, or lo */
#define Y_PART (2 * BLOCK_BYTES)
#define STAGE_BYTES (2 * (X_PART + Y_PART))
#define INVERSES (2 * STAGES) /* so that a stage is free before its sums are added up */
#define CONSUMERS 2
#define THREADS (128 * (CONSUMERS + 1))
#define SUMS (COLUMNS * 32)
#define A_STEP (Y_LAST ? 16 * ROW_BYTES >> 4 : 2) /* from 16 tiles to the next */
#define B_STEP (X_LAST ? 16 * ROW_BYTES >> 4 : 2)
#if COLUMNS == 3
#define MULTIPLY(a, b, keep) MX_WGMMA_192(slice_sums, a, b, keep, MX_TEXT(Y_LAST) ", " MX_TEXT(X_LAST))
#else
#define MULTIPLY(a, b, keep) MX_WGMMA_128(slice_sums, a, b, keep, MX_TEXT(Y_LAST) ", " MX_TEXT(X_LAST))
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void winograd_products(
    __global float *restrict x_packed, long x_packed_offset, __global float *restrict y_packed, long y_packed_offset,
    __global float *restrict partial, long partial_offset, const mx_nv_winograd o, const int split_slices)
{
    __local uint4 stages[STAGES * STAGE_BYTES / 16] __attribute__((aligned(1024)));
    __local float inverses[INVERSES][(COLUMNS + 2) * 64] __attribute__((aligned(16)));
    __local ulong barriers[2 * STAGES + CONSUMERS]; /* full, empty, turns */
    const int item = get_local_id(0), lane = item & 31, role = item >> 7, warp = item >> 5 & 3;
    const int down = (o.y.chunks + 1) / 2, across = (o.x.chunks + COLUMNS - 1) / COLUMNS;
    int tile = get_group_id(0);
    const int y_chunk = tile % down * 2;
    tile /= down;
    const int x_chunk = tile % across * COLUMNS;
    tile /= across;
    const int point = tile % POINTS;
    tile /= POINTS;
    const int group = tile % o.groups, split = tile / o.groups;
    const int first = split * split_slices, own = min(split_slices, o.slices - first);
    const int present = min(CONSUMERS, o.y.chunks - y_chunk), x_blocks = min(COLUMNS, o.x.chunks - x_chunk);
    const uint shared = mx_shared(stages), full = mx_shared(barriers), empty = full + 8 * STAGES;
    const uint turns = empty + 8 * STAGES; /* when a consumer's products of a slice may begin */

    if (item == 0) {
        mx_ring_begin(full, STAGES, 1, 4 * present);
        for (int i = 0; i < CONSUMERS; i++)
            mx_barrier_begin(turns + 8 * i, 4);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    if (role == CONSUMERS) {
        MX_WG_FEWER(24);
        if (item != 128 * CONSUMERS)
            return;
        const long number = (long)group * o.slices + first, planes = (long)o.groups * o.slices;
        const int x_part = o.x.chunks * (BLOCK_BYTES / 16), y_part = o.y.chunks * (BLOCK_BYTES / 16);
        __global const uint4 *x_from = mx_packed(x_packed + x_packed_offset);
        __global const uint4 *y_from = mx_packed(y_packed + y_packed_offset);
        __global const uint4 *x_inverses = x_from + POINTS * planes * 2 * x_part + (number * o.x.chunks + x_chunk) * 16;
        __global const uint4 *y_inverses = y_from + POINTS * planes * 2 * y_part + (number * o.y.chunks + y_chunk) * 16;
        x_from += (point * planes + number) * 2 * x_part + x_chunk * (BLOCK_BYTES / 16);
        y_from += (point * planes + number) * 2 * y_part + y_chunk * (BLOCK_BYTES / 16);
        const uint inverses_at = mx_shared(inverses);
        int stage = 0, parity = 1, place = 0;
        for (int i = 0; i < own; i++) {
            const uint to = shared + stage * STAGE_BYTES, bar = full + 8 * stage;
            const uint inverses_to = inverses_at + place * ((COLUMNS + 2) * 256);
            mx_barrier_wait(empty + 8 * stage, parity);
            mx_barrier_expect_more(bar, (present + x_blocks) * (2 * BLOCK_BYTES + 256));
            mx_bulk_copy(to, y_from, present * BLOCK_BYTES, bar);
            mx_bulk_copy(to + Y_PART, y_from + y_part, present * BLOCK_BYTES, bar);
            mx_bulk_copy(to + 2 * Y_PART, x_from, x_blocks * BLOCK_BYTES, bar);
            mx_bulk_copy(to + 2 * Y_PART + X_PART, x_from + x_part, x_blocks * BLOCK_BYTES, bar);
            mx_bulk_copy(inverses_to, y_inverses, present * 256, bar);
            mx_bulk_copy(inverses_to + 512, x_inverses, x_blocks * 256, bar);
            mx_barrier_arrive(bar);
            x_from += 2 * x_part, x_inverses += o.x.chunks * 16;
            y_from += 2 * y_part, y_inverses += o.y.chunks * 16;
            if (++stage == STAGES)
                stage = 0, parity ^= 1;
            if (++place == INVERSES)
                place = 0;
        }
        return;
    }
    MX_WG_MORE(240);
    if (role >= present)
        return;
    const ulong a_hi = mx_wg_matrix(shared + role * BLOCK_BYTES, BLOCK_BYTES), a_lo = a_hi + (Y_PART >> 4);
    const ulong b_hi = mx_wg_matrix(shared + 2 * Y_PART, BLOCK_BYTES), b_lo = b_hi + (X_PART >> 4);
    float sums[SUMS];
#pragma unroll
    for (int j = 0; j < SUMS; j++)
        sums[j] = 0;
    const int row = role * 64 + warp * 16 + (lane >> 2), pair = (lane & 3) * 2;
    int stage = 0, parity = 0, place = 0;
    for (int i = 0; i < own; i++) {
        float slice_sums[SUMS];
        const uint at = stage * STAGE_BYTES >> 4;
        mx_barrier_wait(full + 8 * stage, parity);
        /* By turns: one multiplies while the other one adds up. */
        if (present == CONSUMERS)
            mx_barrier_wait(turns + 8 * role, (i + role + 1) & 1);
        MX_WG_FENCE();
        /* What is small comes first. */
        MULTIPLY(a_lo + at, b_hi + at, "0");
        MULTIPLY(a_hi + at, b_lo + at, "1");
#pragma unroll
        for (int k = 1; k < 4; k++) {
            MULTIPLY(a_lo + at + k * A_STEP, b_hi + at + k * B_STEP, "1");
            MULTIPLY(a_hi + at + k * A_STEP, b_lo + at + k * B_STEP, "1");
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
            MULTIPLY(a_hi + at + k * A_STEP, b_hi + at + k * B_STEP, "1");
        MX_WG_COMMIT();
        if (lane == 0 && present == CONSUMERS)
            mx_barrier_arrive(turns + 8 * (1 - role));
        MX_WG_WAIT(0);
        if (lane == 0)
            mx_barrier_arrive(empty + 8 * stage);
        const float above = inverses[place][row], below = inverses[place][row + 8];
#pragma unroll
        for (int j = 0; j < SUMS; j += 4) {
            const float2 of_columns = *(__local const float2 *)&inverses[place][128 + j * 2 + pair];
            MX_WG_HOLD(slice_sums[j]);
            MX_WG_HOLD(slice_sums[j + 1]);
            MX_WG_HOLD(slice_sums[j + 2]);
            MX_WG_HOLD(slice_sums[j + 3]);
            /* One after the other: their product may be less than any float. */
            sums[j] = fma(slice_sums[j] * above, of_columns.x, sums[j]);
            sums[j + 1] = fma(slice_sums[j + 1] * above, of_columns.y, sums[j + 1]);
            sums[j + 2] = fma(slice_sums[j + 2] * below, of_columns.x, sums[j + 2]);
            sums[j + 3] = fma(slice_sums[j + 3] * below, of_columns.y, sums[j + 3]);
        }
        if (++stage == STAGES)
            stage = 0, parity ^= 1;
        if (++place == INVERSES)
            place = 0;
    }

    partial += partial_offset
        + (((long)split * POINTS + point) * o.groups + group) * o.y.channels * o.sum.pitch + x_chunk * 64;
#pragma unroll
    for (int j = 0; j < SUMS; j += 2) {
        const int k = y_chunk * 64 + row + (j & 2) * 4;
        __global float *to = partial + (long)k * o.sum.pitch + j / 4 * 8 + pair;
        if (k >= o.y.channels || j / 32 >= x_blocks)
            continue;
        if (((ulong)partial & 7) == 0)
            *(__global float2 *)to = (float2)(sums[j], sums[j + 1]);
        else
            to[0] = sums[j], to[1] = sums[j + 1];
    }
}

/* A work-group has 64 channels of ROWS filters, a work-item the points of one of each; weights go to dw by local
 * memory, in the order that they have there.
 * Grid: one axis, local 256, global 256 * (channels / 64, rounded up) * (filters of all groups / ROWS, rounded up).
 * Local memory: the weights, 9 KB.
 * Bound by: memory. */
#define ROWS 4
#define PART 4096 /* pixels that a sum of plain products takes at once */
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void winograd_weights(
    __global const float *restrict X, long x_offset, __global const float *restrict Y, long y_offset,
    __global const float *restrict partial, long partial_offset, __global float *restrict W, long w_offset,
    const mx_nv_winograd o, const float alpha, const float beta)
{
    __local float turned[ROWS][64 * 9];
    const int item = get_local_id(0), own = item >> 6, chunk = get_group_id(0) % o.x.chunks, c = item & 63;
    const int row = get_group_id(0) / o.x.chunks * ROWS + own, group = row / o.y.channels;
    const int k = row - group * o.y.channels, count = row < o.sum.rows ? min(64, o.x.channels - chunk * 64) : 0;
    const long plane = (long)o.sum.rows * o.sum.pitch;
    W += w_offset + (long)row * o.sum.w_k + (long)chunk * 64 * o.sum.w_c;
    if (c < count) {
        float points[POINTS], weights[9];
#pragma unroll
        for (int i = 0; i < POINTS; i++)
            points[i] = 0;
        partial += partial_offset + (long)row * o.sum.pitch + chunk * 64 + c;
        for (int split = 0; split < o.sum.splits; split++, partial += POINTS * plane)
#pragma unroll
            for (int i = 0; i < POINTS; i++)
                points[i] += partial[i * plane];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float one = points[4 + j] + points[8 + j], other = points[4 + j] - points[8 + j];
            points[j] += one;
            points[4 + j] = other;
            points[8 + j] = one + points[12 + j];
        }
#pragma unroll
        for (int i = 0; i < 3; i++) {
            const float one = points[4 * i + 1] + points[4 * i + 2];
            weights[3 * i] = points[4 * i] + one;
            weights[3 * i + 1] = points[4 * i + 1] - points[4 * i + 2];
            weights[3 * i + 2] = one + points[4 * i + 3];
        }
        bool finite;
        MX_FINITE(finite, weights, 9);
        if (!finite) {
#pragma unroll 1
            for (int i = 0; i < 9; i++) {
                float sum = 0;
                for (int first = 0; first < o.conv.pixels && sum == sum; first += PART)
                    sum += mx_exactly(X + x_offset + (long)group * o.conv.x_g, Y + y_offset + (long)group * o.conv.y_g,
                                      &o.conv, k, chunk * 64 + c, i, first, min(o.conv.pixels - first, PART) + first);
                turned[own][c * 9 + i] = sum;
            }
        } else {
#pragma unroll
            for (int i = 0; i < 9; i++)
                turned[own][c * 9 + i] = weights[i];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = c; i < count * 9; i += 64) {
        const bool last = o.sum.w_c == 1; /* neighbours are channels */
        const int to_c = last ? i % count : i / 9, tap = last ? i / count : i - to_c * 9, r = tap / 3;
        const long place = (long)to_c * o.sum.w_c + r * o.sum.w_h + (tap - r * 3) * o.sum.w_w;
        STORE_MIXED(float, W, place, turned[own][to_c * 9 + tap], alpha, beta);
    }
}
