/* Winograd convolutions with stride 1 for CPU devices: forward and backward data, and the tiles of all directions.
 *
 *     y = alpha * output transform(sum over c of filter transform(w) * input transform(x)) + beta * y
 *
 * conv/cpu/winograd.h has the algorithm.  Backward data is a forward convolution of dy with flipped filters.
 * Shape: any sizes, groups, pads and dilations (a dilated filter is an ordinary one on every dilation-th pixel).
 * Grid: local (1, 1, 1).
 *
 *     x -> winograd_tiles -> V --+                          winograd_tiles:    (images * tiles_h * runs of tiles_w,
 *                                +-> winograd_multiply -> y                     vectors of c, groups * slices)
 *     w -> winograd_filters -> U +                          winograd_filters:  (vectors of k, chunks of FILTER_DEPTH c,
 *          (FUSED: inside multiply)                                             groups * taps along the depth)
 *                                                           winograd_multiply: (blocks of tiles, blocks of k,
 *                                                                               groups * slices of outputs)
 *
 * A work-item, alone in its group, makes a block of outputs and sums over all channels in their order, so that results
 * depend neither on the number of cores nor on the sizes of blocks.
 * Memory: V is [group][slice][block][point][tile][channel], U [group][block of k][tap along the depth][point][c][k].
 * Tiles beyond the last are never written, and what is computed from them is not stored.  Channels beyond the last are
 * zeros.  No local memory; the sums of a block are private.
 * An Inf or NaN of an input reaches all outputs of its tile.
 * Bound by: multiply-adds where channels are many; the transforms, and V beyond the caches, where they are few.
 */
#ifndef KERNELS /* what to build: 1 winograd_tiles, 2 winograd_filters, 4 winograd_multiply */
#define KERNELS 7
#endif
#ifndef FILTER_TRANSFORM /* winograd_tiles: 1 transforms tiles of dy as filters, for backward weights; 0 inputs */
#define FILTER_TRANSFORM 0
#endif
#ifndef BLOCK /* winograd_multiply: tiles of a block, at most */
#define BLOCK 32
#endif
#ifndef FUSED /* winograd_multiply: 1 transforms the filters itself, of one tap along the depth */
#define FUSED 0
#endif
#ifndef FILTER_DEPTH /* channels whose filters are transformed together */
#define FILTER_DEPTH 32
#endif
#ifndef DEPTH /* winograd_multiply: channels that are summed before the next rows */
#define DEPTH 128
#endif
#include "conv/cpu/winograd.h"

#if KERNELS & 1

#if FILTER_TRANSFORM
#define SIDE_H TILE_H
#define SIDE_W TILE_W
#else
#define SIDE_H POINTS_H
#define SIDE_W POINTS_W
#endif

/* Columns lo ... lo + columns - 1 of row y of a slice of VEC channels from `channel` on, zeros outside of the image. */
static void load_row(__global const STORAGE(TYPE) *x, const mx_winograd *g, long image, long channel, int lanes,
                     long slice, long y, long lo, long columns, vec *to)
{
    const long channels = g->groups * g->c, limit = g->images * channels * g->depth * g->h * g->w;
    const long first = clamp(-lo, 0L, columns), last = clamp(g->w - lo, first, columns);
#if CHANNELS_LAST
    __global const STORAGE(TYPE) *p = x + (((image * g->depth + slice) * g->h + y) * g->w + lo) * channels + channel;
    if (lanes == VEC)
        for (long i = first; i < last; i++)
            to[i] = TO_VEC(VLOAD(TYPE)(p, i * channels));
    else
        for (long i = first; i < last; i++)
            to[i] = load_first(p + i * channels, 0, lanes);
#else
    load_lanes(x, (((image * channels + channel) * g->depth + slice) * g->h + y) * g->w + lo + first,
               g->depth * g->h * g->w, limit, lanes, last - first, to + first);
#endif
    for (long i = 0; i < first; i++)
        to[i] = zero_vector();
    for (long i = last; i < columns; i++)
        to[i] = zero_vector();
}

/* `count` tiles side by side from rows of columns, to V from the place in its first block on. */
NOINLINE void transform_tiles(const vec *restrict d, long count, const mx_winograd *g, __global ACC *restrict V,
                              long place)
{
    const long dw = g->dilation_w, block = g->block, row = g->row, point = g->point;
    for (long tx = 0; tx < count; tx++) {
        const long left = tx / dw * TILE_W * dw + tx % dw;
        vec t[POINTS_H * SIDE_W];
#pragma unroll
        for (int j = 0; j < SIDE_W; j++) {
            vec column[SIDE_H];
#pragma unroll
            for (int i = 0; i < SIDE_H; i++)
                column[i] = d[i * RUN_COLUMNS + left + j * dw];
#if FILTER_TRANSFORM
            filter_transform(POINTS_H, TILE_H, column, 1, t + j, SIDE_W);
#else
            input_transform(POINTS_H, column, 1, t + j, SIDE_W);
#endif
        }
        __global ACC *to = V + place * row;
#pragma unroll
        for (int i = 0; i < POINTS_H; i++) {
            vec o[POINTS_W];
#if FILTER_TRANSFORM
            filter_transform(POINTS_W, TILE_W, t + i * SIDE_W, 1, o, 1);
#else
            input_transform(POINTS_W, t + i * SIDE_W, 1, o, 1);
#endif
#pragma unroll
            for (int j = 0; j < POINTS_W; j++, to += point)
                STORE_ACC(o[j], 0, to);
        }
        if (++place == block) {
            place = 0;
            V += POINTS * point;
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void winograd_tiles(
    __global const STORAGE(TYPE) *restrict x, long x_offset, __global ACC *restrict V, long V_offset,
    const mx_winograd g)
{
    const long dw = g.dilation_w, most = RUN / dw * dw, runs = DIVIDE_UP(g.tiles_w, most);
    const long c = get_group_id(1) * VEC, group = get_group_id(2) / g.slices, slice = get_group_id(2) % g.slices;
    const long row = get_group_id(0) / runs, image = row / g.tiles_h, ty = row % g.tiles_h;
    const long tx0 = get_group_id(0) % runs * most, tx1 = min(tx0 + most, g.tiles_w);
    const long lo = tx0 * TILE_W - g.pad_w, columns = (tx1 - tx0 - dw) * TILE_W + dw * SIDE_W;
    const long top = ty / g.dilation_h * TILE_H * g.dilation_h + ty % g.dilation_h - g.pad_h;
    const int lanes = (int)min(g.c - c, (long)VEC);

    vec d[SIDE_H * RUN_COLUMNS + VEC];
    for (int i = 0; i < SIDE_H; i++) {
        const long y = top + i * g.dilation_h;
        if (y >= 0 && y < g.h)
            load_row(x + x_offset, &g, image, group * g.c + c, lanes, g.slice + slice, y, lo, columns,
                     d + i * RUN_COLUMNS);
        else
            for (long j = 0; j < columns; j++)
                d[i * RUN_COLUMNS + j] = zero_vector();
    }
    const long tile = row * g.tiles_w + tx0, place = tile % g.block;
    const long blocks = DIVIDE_UP(g.tiles, g.block);
    V += V_offset + (get_group_id(2) * blocks + tile / g.block) * POINTS * g.point + c;
    transform_tiles(d, tx1 - tx0, &g, V, place);
}

#endif
#if KERNELS & 6

/* Elements from a point's filters to the next one's: an odd number of vectors, which spreads them over a cache. */
#define FILTER_POINT(channels) (((channels) * VECTORS + 1) * VEC)

#if FUSED
#define FILTERS __private
#else
#define FILTERS __global
#endif

/* Filters k ... k + VEC - 1, channels c ... c + count - 1 (FILTER_DEPTH at most) of a group and a tap along the depth:
 * point e of channel i to to[e * point + i * VECTORS * VEC]. */
NOINLINE void transform_filters(__global const STORAGE(TYPE) *w, const mx_winograd *g, long group, long tap_d, long k,
                                long c, long count, FILTERS ACC *to, long point)
{
    vec raw[FILTER_DEPTH * TAPS + VEC]; /* tap t of channel i at [i * channel + t * tap] */
    long channel = TAPS, tap = 1;
    const long filter = g->taps_d * TAPS, limit = g->groups * g->k * g->c * filter;
    const long tap0 = (g->flip ? g->taps_d - 1 - tap_d : tap_d) * TAPS;
    const int lanes = (int)min(g->k - k, (long)VEC);
#if CHANNELS_LAST
    if (g->flip)
        for (long i = 0; i < count; i++) {
            __global const STORAGE(TYPE) *p = w + ((group * g->c + c + i) * filter + tap0) * g->k + k;
            for (int t = 0; t < TAPS; t++, p += g->k)
                raw[i * TAPS + t] = load_first(p, 0, lanes);
        }
    else {
        channel = 1;
        tap = count;
        for (int t = 0; t < TAPS; t++)
            load_lanes(w, ((group * g->k + k) * filter + tap0 + t) * g->c + c, filter * g->c, limit, lanes, count,
                       raw + t * count);
    }
#else
    if (g->flip)
        for (long i = 0; i < count; i++)
            load_lanes(w, ((group * g->c + c + i) * g->k + k) * filter + tap0, filter, limit, lanes, TAPS,
                       raw + i * TAPS);
    else { /* channels' taps are side by side where there are no others along the depth */
        const long together = g->taps_d == 1 ? count : 1;
        for (long i = 0; i < count; i += together)
            load_lanes(w, ((group * g->k + k) * g->c + c + i) * filter + tap0, g->c * filter, limit, lanes,
                       together * TAPS, raw + i * TAPS);
    }
#endif
    const vec *first = raw;
    if (g->flip) {
        first += (TAPS - 1) * tap;
        tap = -tap;
    }
    for (long i = 0; i < count; i++, first += channel) {
        vec t[POINTS_H * TAPS_W];
#pragma unroll
        for (int s = 0; s < TAPS_W; s++) {
            vec column[TAPS_H];
#pragma unroll
            for (int r = 0; r < TAPS_H; r++)
                column[r] = first[(r * TAPS_W + s) * tap];
            filter_transform(POINTS_H, TAPS_H, column, 1, t + s, TAPS_W);
        }
        FILTERS ACC *q = to + i * VECTORS * VEC;
#pragma unroll
        for (int r = 0; r < POINTS_H; r++) {
            vec o[POINTS_W];
            filter_transform(POINTS_W, TAPS_W, t + r * TAPS_W, 1, o, 1);
#pragma unroll
            for (int s = 0; s < POINTS_W; s++, q += point)
                STORE_ACC(o[s], 0, q);
        }
    }
}

/* Blocks of k have VECTORS vectors at most, and none has more than one above another. */
INLINE long first_vector(const mx_winograd *g, long block)
{
    const long vectors = DIVIDE_UP(g->k, VEC), blocks = DIVIDE_UP(vectors, VECTORS);
    return block * vectors / blocks;
}

#endif
#if KERNELS & 2 && !FUSED

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void winograd_filters(
    __global const STORAGE(TYPE) *restrict w, long w_offset, __global ACC *restrict U, long U_offset,
    const mx_winograd g)
{
    const long vector = get_group_id(0), c = get_group_id(1) * FILTER_DEPTH;
    const long group = get_group_id(2) / g.taps_d, tap_d = get_group_id(2) % g.taps_d;
    const long vectors = DIVIDE_UP(g.k, VEC), blocks = DIVIDE_UP(vectors, VECTORS);
    const long point = FILTER_POINT(g.c);
    long block = vector / VECTORS;
    while (first_vector(&g, block + 1) <= vector)
        block++;
    U += U_offset + ((group * blocks + block) * g.taps_d + tap_d) * POINTS * point + c * VECTORS * VEC
         + (vector - first_vector(&g, block)) * VEC;
    transform_filters(w + w_offset, &g, group, tap_d, vector * VEC, c, min(g.c - c, (long)FILTER_DEPTH), U, point);
}

#endif
#if KERNELS & 4

#include "conv/cpu/winograd_multiply.h"

/* The outputs of `count` tiles side by side from tile number `tile` of a slice on, VEC channels from k on. */
NOINLINE void store_run(const vec *sums, long slice, long tile, long count, __global STORAGE(TYPE) *y,
                        const mx_winograd *g, long group, long k, EPILOGUE_PARAMS)
{
    const long dw = g->dilation_w, channels = g->groups * g->k, channel = group * g->k + k;
    const long row = tile / g->tiles_w, image = row / g->tiles_h, ty = row % g->tiles_h;
    const long left = tile % g->tiles_w * TILE_W, columns = min(g->out_w - left, count * TILE_W);
    const long top = ty / g->dilation_h * TILE_H * g->dilation_h + ty % g->dilation_h;
    const int lanes = (int)min(g->k - k, (long)VEC);
    vec out[TILE_H * RUN * TILE_W + VEC];
    for (long i = 0; i < count; i++, sums += VECTORS) {
        const long x = i / dw * TILE_W * dw + i % dw;
        vec t[TILE_H * POINTS_W];
#pragma unroll
        for (int j = 0; j < POINTS_W; j++)
            output_transform(POINTS_H, TILE_H, sums + j * POINT_SUMS, POINTS_W * POINT_SUMS, t + j, POINTS_W);
#pragma unroll
        for (int j = 0; j < TILE_H; j++) {
            vec o[TILE_W];
            output_transform(POINTS_W, TILE_W, t + j * POINTS_W, 1, o, 1);
#pragma unroll
            for (int l = 0; l < TILE_W; l++)
#ifdef EPILOGUE
                out[j * RUN * TILE_W + x + l * dw] = SCALED_RESULT(o[l]);
#else
                out[j * RUN * TILE_W + x + l * dw] = o[l];
#endif
        }
    }
    for (int i = 0; i < TILE_H; i++) {
        const long line = top + i * g->dilation_h;
        if (line >= g->out_h || columns <= 0)
            continue;
#if CHANNELS_LAST
        __global STORAGE(TYPE) *p =
            y + (((image * g->out_depth + slice) * g->out_h + line) * g->out_w + left) * channels + channel;
        for (long j = 0; j < columns; j++, p += channels)
            store_first(p, out[i * RUN * TILE_W + j], lanes, EPILOGUE_ARGS);
#else
        __global STORAGE(TYPE) *p =
            y + (((image * channels + channel) * g->out_depth + slice) * g->out_h + line) * g->out_w + left;
        store_lanes(p, g->out_depth * g->out_h * g->out_w, lanes, columns, out + i * RUN * TILE_W, EPILOGUE_ARGS);
#endif
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void winograd_multiply(
    __global const ACC *restrict V, long V_offset,
#if FUSED
    __global const STORAGE(TYPE) *restrict U, long U_offset, /* w as it is */
#else
    __global const ACC *restrict U, long U_offset,
#endif
    __global STORAGE(TYPE) *restrict y, long y_offset,
    const mx_winograd g, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(y, y_offset);
    const long block = get_group_id(0), k_block = get_group_id(1), blocks = DIVIDE_UP(g.tiles, g.block);
    const long group = get_group_id(2) / g.out_slices, slice = get_group_id(2) % g.out_slices;
    const long first = block * g.block, count = min(g.tiles - first, g.block), rows = max((count + 1) / 2 * 2, 4L);
    const long v0 = first_vector(&g, k_block);
    const int used = (int)(first_vector(&g, k_block + 1) - v0);
    vec sums[POINTS * POINT_SUMS];
    V += V_offset + (group * g.slices * blocks + block) * POINTS * g.point;
#if FUSED
    vec filters[POINTS * FILTER_POINT(FILTER_DEPTH) / VEC];
    for (long c = 0; c < g.c; c += FILTER_DEPTH) {
        const long depth = min(g.c - c, (long)FILTER_DEPTH);
        for (int j = 0; j < used; j++)
            transform_filters(U + U_offset, &g, group, 0, (v0 + j) * VEC, c, depth, (ACC *)(filters + j),
                              FILTER_POINT(FILTER_DEPTH));
        for (int e = 0; e < POINTS; e++)
            multiply(sums + e * POINT_SUMS, V + e * g.point + c, g.row,
                     (const ACC *)filters + e * FILTER_POINT(FILTER_DEPTH), VECTORS * VEC, depth, rows, used, c > 0);
    }
#else
    const long filter = POINTS * FILTER_POINT(g.c);
    U += U_offset + (group * DIVIDE_UP(DIVIDE_UP(g.k, VEC), VECTORS) + k_block) * g.taps_d * filter;
    for (int e = 0; e < POINTS; e++) {
        int more = 0;
        for (long t = 0; t < g.taps_d; t++) {
            const long source = source_slice(&g, slice, t);
            for (long c = 0; c < g.c && source >= 0; c += DEPTH, more = 1)
                multiply(sums + e * POINT_SUMS, V + (source * blocks * POINTS + e) * g.point + c, g.row,
                         U + t * filter + e * FILTER_POINT(g.c) + c * VECTORS * VEC, VECTORS * VEC,
                         min(g.c - c, (long)DEPTH), rows, used, more);
        }
        for (long i = 0; i < rows * VECTORS && !more; i++)
            sums[e * POINT_SUMS + i] = zero_vector();
    }
#endif
    const long most = RUN / g.dilation_w * g.dilation_w;
    for (long i = 0, run; i < count; i += run) {
        run = min(min(count - i, most), g.tiles_w - (first + i) % g.tiles_w);
        for (int j = 0; j < used; j++) {
            OF_FILTERS(group * g.k + (v0 + j) * VEC, min(g.k - (v0 + j) * VEC, (long)VEC))
            store_run(sums + i * VECTORS + j, g.out_slice + slice, first + i, run, y + y_offset, &g, group,
                      (v0 + j) * VEC, EPILOGUE_ARGS);
        }
    }
}

#endif
