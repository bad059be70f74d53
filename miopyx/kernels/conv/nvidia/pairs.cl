/* Implicit GEMM with float operands as pairs of halves, or ROUNDED to halves, by wgmma: y = alpha * x w + beta * y.
 * Needs SM_90A.
 *
 *   y[filter][pixel] = sum over K-slices of one tap and 64 channels; conv/nvidia/pairs.h says how floats become pairs
 *
 *              filters ->  BF          Persistent: as many work-groups as run at once, each from tile to tile.
 *            +--------+--------+       A tile is BP = 128 pixels x BF filters of one group.
 *   pixels   | tile 0 | tile 1 |       Warpgroups 0, 1: consumers, 64 filters each (BF 64: 64 pixels each).
 *     BP     +--------+--------+       Warpgroups 2, 3: producers, every other K-slice each, one pixel a work-item:
 *            | tile 2 | tile 3 |       load its 64 channels, scale by their largest, store them as pairs.
 *
 * Grid: one axis, local THREADS, global THREADS * any number.
 * Backward data of three axes may take phases of the stride in one launch (PHASES): they differ in their taps, and
 * each has a y of its own.
 * Weights come from conv/nvidia/pairs_pack.cl: blocks of 64 filters as local memory has them, one power of two a
 * filter; w_* of the problem are their strides before.  x has any strides and is read in place.
 * Local memory: a ring of STAGES slices of pairs; two mbarriers a stage, full and empty.  Loads run one slice ahead,
 * across tiles.
 * Slices are added up in float.  A sum that is not finite is computed again, product by product, as floats give it.
 * Bound by: the producers' loads and conversions, then three products for one.
 */
#ifndef BF /* filters of a tile: 64 or 128 */
#define BF 128
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef VEC /* neighbouring pixels that are stored at once where y's address allows: 1 or 2 */
#define VEC 1
#endif
#ifndef AXES /* 2 or 3 */
#define AXES 2
#endif
#ifndef PHASES /* with AXES 3: of the stride, whose tiles follow each other; they have equal grids */
#define PHASES 1
#endif
#define X_TYPE float
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/wgmma.h"
#include "conv/nvidia/pairs.h"
#include "conv/nvidia/pairs_args.h"

#define BP 128
#define CONSUMERS 2
#define PRODUCERS 2 /* they take slices in turn */
#define THREADS (128 * (CONSUMERS + PRODUCERS))
#define F_BLOCKS (BF / 64)
#if BF == 64 /* columns of a warpgroup: BP * F_BLOCKS / CONSUMERS */
#define COLUMNS 64
#else
#define COLUMNS 128
#endif
#define WGMMA MX_JOIN(MX_WGMMA_, COLUMNS)
#define X_BYTES (MX_PARTS * BP * ROW_BYTES)
#define W_BLOCK (MX_PARTS * BLOCK_BYTES)
#define STAGE_BYTES (X_BYTES + F_BLOCKS * W_BLOCK)
#define TILES_IN_FLIGHT (STAGES + 1)

#if AXES == 3
#define MX_PROBLEM mx_nv_deep_pairs
#define MX_GIVEN volume
#define MX_GRID volume
#else
#define MX_PROBLEM mx_nv_pairs
#define MX_GIVEN o
#define MX_GRID g
#endif

/* Where a producer is: its pixel and what it loads next. */
typedef struct {
    int tile, c, tap_h, tap_w;
    int base, h, w, place;
#if AXES == 3
    int d, tap_d, phase;
#endif
    int filters, count; /* blocks of filters: the first of all groups, how many */
    bool inside;
} mx_loader;

#if AXES == 3
static inline void mx_begin_tile(mx_loader *at, const mx_nv_deep_pairs *v, int down, int across, int item)
{
    const mx_nv_conv *g = &v->rows.g;
    const int tile = at->tile / across, part = tile / down, first = (at->tile - tile * across) * F_BLOCKS;
    const int blocks = (g->filters + 63) / 64, m = (tile - part * down) * BP + item, n = mx_quotient(m, g->by_image);
    const int phase = PHASES > 1 ? min(part / g->groups, PHASES - 1) : 0, group = part - phase * g->groups;
    const int rest = m - n * (MX_BOTH(g->p) * g->q), row = mx_quotient(rest, g->by_row), q = rest - row * g->q;
    const int o = mx_quotient(row, v->by_plane), p = row - o * MX_ROW(g->p);
    at->filters = group * blocks + first;
    at->count = min(F_BLOCKS, blocks - first);
    at->inside = m < g->pixels;
    at->phase = phase;
    at->d = o * MX_DEEP(g->step_h) + MX_DEEP(v->phases[phase].first_h);
    at->h = p * MX_ROW(g->step_h) + MX_ROW(v->phases[phase].first_h);
    at->w = q * g->step_w + v->phases[phase].first_w;
    at->base = group * g->x_g + n * g->x_n + at->d * v->x_d + at->h * g->x_h + at->w * g->x_w;
    at->place = at->inside ? group * g->y_g + n * g->y_n + o * v->y_d + p * g->y_h + q * g->y_w : -1;
    at->c = at->tap_d = at->tap_h = at->tap_w = 0;
}

/* Returns whether a tile ended. */
static inline bool mx_next_slice(mx_loader *at, const mx_nv_deep_pairs *v)
{
    const mx_nv_pair_phase *phase = &v->phases[at->phase];
    if (++at->tap_w == phase->taps_w) {
        at->tap_w = 0;
        if (++at->tap_h == MX_ROW(phase->taps_h)) {
            at->tap_h = 0;
            if (++at->tap_d == MX_DEEP(phase->taps_h)) {
                at->tap_d = 0;
                at->c += 64;
            }
        }
    }
    return at->c >= v->rows.g.channels;
}

/* The sum for one output as floats give it, for pixel m and filter k of a group of a phase. */
static inline float mx_exactly(__global const float *X, __global const float *W, const mx_nv_deep_pairs *v, int part,
                               int m, int k)
{
    const mx_nv_conv *g = &v->rows.g;
    const int number = PHASES > 1 ? part / g->groups : 0, group = part - number * g->groups;
    const mx_nv_pair_phase *phase = &v->phases[number];
    const int n = mx_quotient(m, g->by_image), rest = m - n * (MX_BOTH(g->p) * g->q);
    const int row = mx_quotient(rest, g->by_row), q = rest - row * g->q;
    const int o = mx_quotient(row, v->by_plane), p = row - o * MX_ROW(g->p);
    float sum = 0;
    W += phase->w_first;
    for (int l = 0; l < MX_DEEP(phase->taps_h); l++)
        for (int i = 0; i < MX_ROW(phase->taps_h); i++)
            for (int j = 0; j < phase->taps_w; j++) {
                const int d = o * MX_DEEP(g->step_h) + MX_DEEP(phase->first_h) + l * MX_DEEP(g->tap_h);
                const int h = p * MX_ROW(g->step_h) + MX_ROW(phase->first_h) + i * MX_ROW(g->tap_h);
                const int w = q * g->step_w + phase->first_w + j * g->tap_w;
                if ((uint)d >= (uint)MX_DEEP(g->h) || (uint)h >= (uint)MX_ROW(g->h) || (uint)w >= (uint)g->w)
                    continue;
                __global const float *x = X + group * g->x_g + n * g->x_n + d * v->x_d + h * g->x_h + w * g->x_w;
                __global const float *f = W + group * g->w_g + k * g->w_k + l * v->w_d + i * g->w_h + j * g->w_w;
#pragma unroll 1
                for (int c = 0; c < g->channels && sum == sum; c++)
                    sum = fma(x[c * g->x_c], f[c * v->rows.w_c], sum);
            }
    return sum;
}
#else
static inline void mx_begin_tile(mx_loader *at, const mx_nv_conv *g, int down, int across, int item)
{
    const int tile = at->tile / across, group = tile / down, first = (at->tile - tile * across) * F_BLOCKS;
    const int blocks = (g->filters + 63) / 64, m = (tile - group * down) * BP + item, n = mx_quotient(m, g->by_image);
    const int rest = m - n * (g->p * g->q), p = mx_quotient(rest, g->by_row), q = rest - p * g->q;
    at->filters = group * blocks + first;
    at->count = min(F_BLOCKS, blocks - first);
    at->inside = m < g->pixels;
    at->h = p * g->step_h + g->first_h;
    at->w = q * g->step_w + g->first_w;
    at->base = group * g->x_g + n * g->x_n + at->h * g->x_h + at->w * g->x_w;
    at->place = at->inside ? group * g->y_g + n * g->y_n + p * g->y_h + q * g->y_w : -1;
    at->c = at->tap_h = at->tap_w = 0;
}

/* Returns whether a tile ended. */
static inline bool mx_next_slice(mx_loader *at, const mx_nv_conv *g)
{
    if (++at->tap_w == g->taps_w) {
        at->tap_w = 0;
        if (++at->tap_h == g->taps_h) {
            at->tap_h = 0;
            at->c += 64;
        }
    }
    return at->c >= g->channels;
}

/* The sum for one output as floats give it, for pixel m and filter k of a group. */
static inline float mx_exactly(__global const float *X, __global const float *W, const mx_nv_pairs *o, int group, int m,
                               int k)
{
    const mx_nv_conv *g = &o->g;
    const int n = mx_quotient(m, g->by_image), rest = m - n * (g->p * g->q);
    const int p = mx_quotient(rest, g->by_row), q = rest - p * g->q;
    float sum = 0;
    for (int i = 0; i < g->taps_h; i++)
        for (int j = 0; j < g->taps_w; j++) {
            const int h = p * g->step_h + g->first_h + i * g->tap_h, w = q * g->step_w + g->first_w + j * g->tap_w;
            if ((uint)h >= (uint)g->h || (uint)w >= (uint)g->w)
                continue;
            __global const float *x = X + group * g->x_g + n * g->x_n + h * g->x_h + w * g->x_w;
            __global const float *f = W + group * g->w_g + k * g->w_k + i * g->w_h + j * g->w_w;
#pragma unroll 1
            for (int c = 0; c < g->channels && sum == sum; c++)
                sum = fma(x[c * g->x_c], f[c * o->w_c], sum);
        }
    return sum;
}
#endif

#include "conv/nvidia/epilogue.h"
#ifdef EPILOGUE
#define MX_PLAIN_PARAMS , EPILOGUE_PARAMS
#define MX_PLAIN_ARGS , EPILOGUE_ARGS
#else
#define MX_PLAIN_PARAMS
#define MX_PLAIN_ARGS
#endif

/* The usual way, and short: pairs of neighbours without alpha and beta.  `below`: elements to the row 8 down. */
static inline void mx_store_plainly(const float *sums, __local const int *places, __global float *y,
                                    int below MX_PLAIN_PARAMS)
{
#ifdef EPILOGUE
#define Z_TOGETHER 4 /* pairs of pairs of z that are read before the first is needed */
#pragma unroll
    for (int first = 0; first < COLUMNS / 2; first += 4 * Z_TOGETHER) {
        int place[Z_TOGETHER];
        float2 z[Z_TOGETHER][2];
#pragma unroll
        for (int l = 0; l < Z_TOGETHER; l++) {
            place[l] = places[first * 2 + l * 8];
            z[l][0] = z[l][1] = (float2)(0, 0);
            if (beta != 0 && place[l] >= 0) {
                __global const float *from = OLD_RESULT(float, y) + place[l];
                z[l][0] = *(__global const float2 *)from, z[l][1] = *(__global const float2 *)(from + below);
            }
        }
#pragma unroll
        for (int l = 0; l < Z_TOGETHER; l++)
#pragma unroll
            for (int row = 0; row < 2; row++) {
                const float *sum = sums + first + l * 4 + row * 2;
                const float2 pair = (float2)(sum[0], sum[1]) + beta * z[l][row];
                if (place[l] >= 0)
                    *(__global float2 *)(y + place[l] + row * below) =
                        (float2)(FINAL_RESULT(pair.x), FINAL_RESULT(pair.y));
            }
    }
#else
#pragma unroll
    for (int j = 0; j < COLUMNS / 2; j += 4) {
        const int2 place = *(__local const int2 *)(places + j * 2);
        if (place.x < 0)
            continue;
        __global float *to = y + place.x;
        *(__global float2 *)to = (float2)(sums[j], sums[j + 1]);
        *(__global float2 *)(to + below) = (float2)(sums[j + 2], sums[j + 3]);
    }
#endif
}

static inline void mx_store(const float *sums, __local const int *places, __global float *y, int below, int rows,
                            EPILOGUE_PARAMS)
{
#pragma unroll
    for (int j = 0; j < COLUMNS / 2; j++) {
        const int place = places[j / 4 * 8 + (j & 1)];
        if (place < 0 || (j & 2) * 4 >= rows)
            continue;
        __global float *to = y + place + (j & 2 ? below : 0);
#ifdef EPILOGUE
        *to = FINAL_RESULT(beta != 0 ? sums[j] + beta * *OLD_RESULT(float, to) : sums[j]);
#else
        *to = beta != 0 ? alpha * sums[j] + beta * *to : alpha * sums[j];
#endif
    }
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_pairs(
    __global const float *restrict X, long x_offset, __global const float *restrict W, long w_offset,
    __global float *restrict packs, long packs_offset, __global const float *restrict scales, long scales_offset,
    __global float *restrict Y, long y_offset, const MX_PROBLEM MX_GIVEN, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(Y, y_offset);
    __local uint4 stages[STAGES * STAGE_BYTES / 16] __attribute__((aligned(1024)));
    __local float inverses[STAGES][BP]; /* what takes the products of a pixel back */
    __local int places[TILES_IN_FLIGHT][BP]; /* of pixels in y, -1: none */
    __local ulong barriers[2 * STAGES]; /* full, empty */
#if AXES == 3
    const mx_nv_pairs o = volume.rows;
#endif
    const mx_nv_conv g = o.g;
    const int item = get_local_id(0), lane = item & 31, role = item >> 7;
    const int down = (g.pixels + BP - 1) / BP, across = (g.filters + BF - 1) / BF;
    const int tiles = PHASES * down * across * g.groups;
    const int blocks = (g.filters + 63) / 64, c_slices = (g.channels + 63) / 64;
#if AXES == 2
    const int slices_all = g.taps_h * g.taps_w * c_slices;
#endif
    const uint shared = mx_shared(stages), full = mx_shared(barriers), empty = full + 8 * STAGES;

    X += x_offset;
    W += w_offset + (AXES == 2 ? g.w_first : 0);
    __global const uint4 *packed = mx_packed(packs + packs_offset);
    scales += scales_offset;
    Y += y_offset + g.y_first;
    if (item == 0)
        mx_ring_begin(full, STAGES, 128, 4 * CONSUMERS);
    barrier(CLK_LOCAL_MEM_FENCE);

    if (role >= CONSUMERS) {
#if COLUMNS == 128
        MX_WG_FEWER(104);
#endif
        const int row = item & 127, turn = role - CONSUMERS;
        const uint to = shared + row * ROW_BYTES, swizzle = row & 7;
        const long x_step = (long)g.x_c * 4;
        const bool wide = ((ulong)X & 15) == 0;
        mx_loader at;
        float v[64];
        at.tile = get_group_id(0);
        if (at.tile >= tiles)
            return;
        mx_begin_tile(&at, &MX_GRID, down, across, row);
#if AXES == 3
#define TAP volume.phases[at.phase].tap + at.tap_d * volume.tap_plane + at.tap_h * o.tap_row + at.tap_w * o.tap_column
#define TAP_IN_X dd * volume.x_d + dh * g.x_h + dw * g.x_w
#define HERE                                                                                                           \
    const int dd = at.tap_d * MX_DEEP(g.tap_h), dh = at.tap_h * MX_ROW(g.tap_h), dw = at.tap_w * g.tap_w;              \
    const int rest = at.tile < tiles ? g.channels - at.c : 0;                                                          \
    const bool here = at.inside && (uint)(at.d + dd) < (uint)MX_DEEP(g.h) && (uint)(at.h + dh) < (uint)MX_ROW(g.h)     \
                      && (uint)(at.w + dw) < (uint)g.w;
#else
#define TAP o.tap + at.tap_h * o.tap_row + at.tap_w * o.tap_column
#define TAP_IN_X dh * g.x_h + dw * g.x_w
#define HERE                                                                                                          \
    const int dh = at.tap_h * g.tap_h, dw = at.tap_w * g.tap_w, rest = at.tile < tiles ? g.channels - at.c : 0;       \
    const bool here = at.inside && (uint)(at.h + dh) < (uint)g.h && (uint)(at.w + dw) < (uint)g.w;
#endif
/* What follows the current slice, or nothing; four pointers, so that four additions are under way. */
#define LOCATE()                                                                                                      \
    HERE                                                                                                              \
    ulong from[4];                                                                                                    \
    from[0] = (ulong)(X + (here ? at.base + TAP_IN_X + at.c * g.x_c : 0));                             \
    from[1] = from[0] + x_step;                                                                                       \
    from[2] = from[1] + x_step;                                                                                       \
    from[3] = from[2] + x_step;
/* Eight channels. */
#if AT_ONCE == 4
#define LOAD_SLICE(c)                                                                                                 \
    if (wide && (c) + 8 <= rest) {                                                                                    \
        mx_fetch_four(v + (c), &from[0], here);                                                                       \
        mx_fetch_four(v + (c) + 4, &from[0], here);                                                                   \
    } else {                                                                                                          \
        from[1] = from[0] + x_step;                                                                                   \
        from[2] = from[1] + x_step;                                                                                   \
        from[3] = from[2] + x_step;                                                                                   \
        _Pragma("unroll") for (int l = 0; l < 8; l++)                                                                 \
            v[(c) + l] = mx_fetch(&from[l & 3], 4 * x_step, here && (c) + l < rest);                                  \
    }
#else
#define LOAD_SLICE(c)                                                                                                 \
    if ((c) + 8 <= rest) {                                                                                            \
        _Pragma("unroll") for (int l = 0; l < 8; l++)                                                                 \
            v[(c) + l] = mx_fetch(&from[l & 3], 4 * x_step, here);                                                    \
    } else {                                                                                                          \
        _Pragma("unroll") for (int l = 0; l < 8; l++)                                                                 \
            v[(c) + l] = mx_fetch(&from[l & 3], 4 * x_step, here && (c) + l < rest);                                  \
    }
#endif
#define MOVE()                                                                                                         \
    do                                                                                                                 \
        if (mx_next_slice(&at, &MX_GRID)) {                                                                            \
            at.tile += get_num_groups(0);                                                                              \
            if (++slot == TILES_IN_FLIGHT)                                                                             \
                slot = 0;                                                                                              \
            mx_begin_tile(&at, &MX_GRID, down, across, row);                                                           \
        }                                                                                                              \
    while (0)
        int slot = 0, stage = 0, parity = 1;
        if (turn == 1) {
            MOVE();
            stage = 1;
        }
        {
            LOCATE();
#pragma unroll
            for (int c = 0; c < 64; c += 8) {
                LOAD_SLICE(c)
            }
        }
        while (at.tile < tiles) {
            const int block = at.filters * o.taps + TAP;
            const int count = at.count, c_slice = at.c / 64, place = at.place, place_slot = slot;
            mx_barrier_wait(empty + 8 * stage, parity);
            if (row == 0) {
                const uint bar = full + 8 * stage;
                mx_barrier_expect_more(bar, count * W_BLOCK);
#pragma unroll
                for (int b = 0; b < F_BLOCKS; b++)
                    if (b < count)
                        mx_bulk_copy(shared + stage * STAGE_BYTES + X_BYTES + b * W_BLOCK,
                                     packed + (long)((block + b * o.taps) * c_slices + c_slice) * (BLOCK_BYTES / 8),
                                     W_BLOCK, bar);
            }
            for (int i = 0; i < PRODUCERS; i++)
                MOVE();
            float most[4] = {0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < 64; i++)
                most[i & 3] = fmax(most[i & 3], fabs(v[i]));
            const uint e = max(as_uint(fmax(fmax(most[0], most[1]), fmax(most[2], most[3]))) >> 23, 29u);
            const float scale = mx_pair_scale(e);
            inverses[stage][row] = as_float((e - 28u) << 23);
            places[place_slot][row] = place;
            LOCATE();
#pragma unroll
            for (int c = 0; c < 64; c += 8) {
                mx_store_pairs(to + stage * STAGE_BYTES + ((c / 8 ^ swizzle) << 4), BP * ROW_BYTES, v + c, scale);
                LOAD_SLICE(c)
            }
            mx_barrier_arrive(full + 8 * stage);
            stage += PRODUCERS;
            if (stage >= STAGES)
                stage -= STAGES, parity ^= 1;
        }
    } else {
#if COLUMNS == 128
        MX_WG_MORE(152);
#endif
        const int f_block = role % F_BLOCKS, column0 = role / F_BLOCKS * COLUMNS, pair = (lane & 3) * 2;
        const ulong a_hi = mx_wg_matrix(shared + X_BYTES + f_block * W_BLOCK, BLOCK_BYTES);
        const ulong b_hi = mx_wg_matrix(shared + column0 * ROW_BYTES, BLOCK_BYTES);
        int stage = 0, parity = 0, slot = 0;
        for (int tile = get_group_id(0); tile < tiles; tile += get_num_groups(0)) {
            const int above = tile / across, part = above / down;
#if AXES == 3
            const int phase = PHASES > 1 ? part / g.groups : 0, group = part - phase * g.groups;
            const int slices_all = MX_BOTH(volume.phases[phase].taps_h) * volume.phases[phase].taps_w * c_slices;
            __global float *const y = Y + (long)volume.phases[phase].number * volume.y_phase;
#else
            const int group = part;
            __global float *const y = Y;
#endif
            const int k0 = (tile - above * across) * BF + f_block * 64 + (item >> 5 & 3) * 16 + (lane >> 2);
            float sums[COLUMNS / 2], scale[2];
#pragma unroll
            for (int i = 0; i < 2; i++)
                scale[i] = k0 + i * 8 < g.filters ? scales[group * g.filters + k0 + i * 8] : 0.0f;
#pragma unroll
            for (int j = 0; j < COLUMNS / 2; j++)
                sums[j] = 0;
            for (int slice = 0; slice < slices_all; slice++) {
                float slice_sums[COLUMNS / 2];
                mx_barrier_wait(full + 8 * stage, parity);
#ifdef FUSED_Z
                if (slice == 0 && beta != 0 && (lane & 3) == 0) /* 32 bytes of a row of pixels together */
#pragma unroll
                    for (int j = 0; j < COLUMNS / 2; j += 4) {
                        const int place = places[slot][column0 + j * 2];
                        if (place >= 0 && k0 < g.filters) {
                            MX_PREFETCH(OLD_RESULT(float, y) + place + (long)k0 * g.y_c);
                            if (k0 + 8 < g.filters)
                                MX_PREFETCH(OLD_RESULT(float, y) + place + (long)(k0 + 8) * g.y_c);
                        }
                    }
#endif
                const uint at = stage * STAGE_BYTES >> 4;
                MX_MULTIPLY_PAIRS(WGMMA, slice_sums, COLUMNS / 2, a_hi + at, a_hi + at + (BLOCK_BYTES >> 4), b_hi + at,
                                  b_hi + at + (BP * ROW_BYTES >> 4));
#pragma unroll
                for (int j = 0; j < COLUMNS / 2; j += 4) {
                    const float2 inverse = *(__local const float2 *)(inverses[stage] + column0 + j * 2 + pair);
                    sums[j] = fma(slice_sums[j], inverse.x, sums[j]);
                    sums[j + 1] = fma(slice_sums[j + 1], inverse.y, sums[j + 1]);
                    sums[j + 2] = fma(slice_sums[j + 2], inverse.x, sums[j + 2]);
                    sums[j + 3] = fma(slice_sums[j + 3], inverse.y, sums[j + 3]);
                }
                asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
                if (lane == 0)
                    mx_barrier_arrive(empty + 8 * stage);
                if (++stage == STAGES)
                    stage = 0, parity ^= 1;
            }

#pragma unroll
            for (int j = 0; j < COLUMNS / 2; j++)
                sums[j] *= scale[j >> 1 & 1];
            bool finite;
            MX_FINITE(finite, sums, COLUMNS / 2);
            if (!finite) {
                float copy[COLUMNS / 2];
#pragma unroll
                for (int j = 0; j < COLUMNS / 2; j++)
                    copy[j] = sums[j];
#pragma unroll 1
                for (int j = 0; j < COLUMNS / 2; j++) {
                    const int k = k0 + (j & 2) * 4, column = column0 + j / 4 * 8 + pair + (j & 1);
                    const int m = (above - part * down) * BP + column;
                    if (k < g.filters && m < g.pixels && !(fabs(copy[j]) < INFINITY))
                        copy[j] = mx_exactly(X, W, &MX_GIVEN, part, m, k);
                }
#pragma unroll
                for (int j = 0; j < COLUMNS / 2; j++)
                    sums[j] = copy[j];
            }
#ifdef EPILOGUE
            MX_SCALE_ROWS(sums, COLUMNS / 2, (long)group * g.filters, k0, g.filters)
            const bool plainly = (beta == 0 || ((ulong)OLD_RESULT(float, y) & 7) == 0);
#else
            const bool plainly = alpha == 1 && beta == 0;
#endif
            if (VEC == 2 && plainly && ((ulong)y & 7) == 0 && k0 - (lane >> 2) + 16 <= g.filters)
                mx_store_plainly(sums, places[slot] + column0 + pair, y + (long)k0 * g.y_c, 8 * g.y_c MX_PLAIN_ARGS);
            else
                mx_store(sums, places[slot] + column0 + pair, y + (long)k0 * g.y_c, 8 * g.y_c, g.filters - k0,
                         EPILOGUE_ARGS);
            if (++slot == TILES_IN_FLIGHT)
                slot = 0;
        }
    }
}
