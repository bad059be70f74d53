/* Copies that bring operands into the order that the tensor-core kernels read, and results out of the order that they
 * write.  All are bound by memory.  Elements of 2 bytes are only moved; pack_weights takes 4 too.
 *
 * Weights, the reduced axis contiguous, zeros behind it.  Grid: one work-item an element of the copy.
 *     pack_weights: to[group][row][tap][reduced]; rows: filters or, for backward data, channels of a group.  A tap
 *         of the copy is reduced / folded taps of w in a row, of `folded` channels each.
 *     pack_merged_weights: to[phase of the stride][channel of x][tap][filter], rows up to `rows`: backward data of all
 *         phases in one product.
 *
 * Images, channels last.
 *     pack_narrow: to[image][plane][row][chunk][2][4] from up to 4 channels.  A chunk has two pixels, `pixel_step` from
 *         each other; the next begins `chunk_step` pixels on, padding included.  Rows go to the planes in turn.
 *         Grid: one work-item a chunk.
 *     pack_pixels: to[image][pixel][group][reduced] from any strides, through local memory:
 *
 *              pixels of all images ->  tile_pixels      A work-group transposes one tile of up to 128 pixels x 64
 *         channels   +------+------+                     channels of one group.
 *            64      |  0   |  2   |                     Grid: one axis, local 256,
 *                    +------+------+                     global 256 * ceil(pixels / tile_pixels) * blocks.
 *
 *     pack_two: the same of two tensors; the first `tiles` work-groups take the first.
 *     unpack_pixels: the way back, from[image][pixel][reduced] to any strides, y = alpha * from + beta * y; all groups
 *         count as one.
 *
 * Strides.
 *     scatter_phases: from[image][p][q][phase][channel], what merged phases give, to any strides.
 *         Grid: one work-item for the phases of a row at one (p, q).
 *     gather_pixels: to[plane][p][q], planes the channels of all images, from pixels (p * step_h, q * step_w).
 *         Grid: one work-item for VEC pixels, which divide a plane, of item_planes planes.
 *     scatter_pixels: the way back, zeros elsewhere, y = alpha * from + beta * y.
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#ifndef RUN /* pixels that pack_pixels, pack_two and unpack_pixels read or write at once: see mx_load_runs */
#define RUN 1
#endif
#ifndef SECOND_RUN /* the same of pack_two's second tensor */
#define SECOND_RUN 1
#endif
#include "include/common.h"
#include "conv/nvidia/pack_args.h"
#include "include/quotient.h"

__kernel void pack_weights(__global const STORAGE(X_TYPE) *restrict from, long from_offset,
                           __global STORAGE(X_TYPE) *restrict to, long to_offset, const mx_nv_weights g)
{
    const int at = get_global_id(0);
    int i = at;
    const int within = i % g.reduced, c = within % g.folded;
    i /= g.reduced;
    const int w = i % g.taps_w * (g.reduced / g.folded) + within / g.folded;
    i /= g.taps_w;
    const int h = i % g.taps_h;
    i /= g.taps_h;
    const int row = i % g.rows;
    i /= g.rows;
    if (i >= g.groups)
        return;
    to[to_offset + at] = c < g.channels && w < g.limit
                             ? from[from_offset + (long)i * g.from_g + row * g.from_row + h * g.from_h + w * g.from_w
                                    + c * g.from_c] : (STORAGE(X_TYPE))0;
}

__kernel void pack_merged_weights(__global const STORAGE(X_TYPE) *restrict from, long from_offset,
                                  __global STORAGE(X_TYPE) *restrict to, long to_offset, const mx_nv_merged g)
{
    const int at = get_global_id(0);
    int i = at;
    const int k = i % g.reduced;
    i /= g.reduced;
    const int v = i % g.taps_w;
    i /= g.taps_w;
    const int u = i % g.taps_h;
    i /= g.taps_h;
    const int t = i % g.taps_d, row = i / g.taps_d;
    if (row >= g.rows)
        return;
    const int c = row % g.channels, phase = row / g.channels, plane = phase / g.step_w;
    const int d = plane / g.step_h + g.shift_d - g.step_d * t, h = plane % g.step_h + g.shift_h - g.step_h * u;
    const int w = phase % g.step_w + g.shift_w - g.step_w * v;
    const bool valid = plane < g.step_d * g.step_h && k < g.filters && d >= 0 && d < g.limit_d && h >= 0
                       && h < g.limit_h && w >= 0 && w < g.limit_w;
    to[to_offset + at] = valid ? from[from_offset + (long)k * g.from_k + (long)c * g.from_c + (long)d * g.from_d
                                      + h * g.from_h + w * g.from_w] : (STORAGE(X_TYPE))0;
}

#if MX_TYPE(X_TYPE) != MX_TYPE_float
__kernel void pack_narrow(__global const STORAGE(X_TYPE) *restrict from, long from_offset,
                          __global STORAGE(X_TYPE) *restrict to, long to_offset, const mx_nv_narrow g)
{
    const uint at = get_global_id(0), line = at / (uint)g.chunks;
    const uint number = line / (uint)g.rows, image = number / (uint)g.planes;
    const int chunk = at - line * g.chunks;
    const int h = (int)((line - number * g.rows) * g.planes + number - image * g.planes) - g.pad_h;
    if (image >= (uint)g.images)
        return;
    from += from_offset + (long)image * g.from_n;
    uint words[4];
#pragma unroll
    for (int half_of = 0; half_of < 2; half_of++) {
        const int w = chunk * g.chunk_step + half_of * g.pixel_step - g.pad_w;
        const bool inside = (uint)h < (uint)g.h && (uint)w < (uint)g.w;
        const int place = inside ? h * g.from_h + w * g.from_w : 0;
        uint values[4];
#pragma unroll
        for (int c = 0; c < 4; c++) /* read in any case: no branches */
            values[c] = from[place + (c < g.channels ? c * g.from_c : 0)] & (inside && c < g.channels ? 0xffffu : 0u);
        words[half_of * 2] = values[0] | values[1] << 16;
        words[half_of * 2 + 1] = values[2] | values[3] << 16;
    }
    to += to_offset + (long)at * 8;
    if (((ulong)to & 15) == 0) {
        *(__global uint4 *)to = (uint4)(words[0], words[1], words[2], words[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        to[i] = (STORAGE(X_TYPE))(words[i / 2] >> i % 2 * 16);
}

__kernel void scatter_phases(__global const STORAGE(X_TYPE) *restrict from, long from_offset,
                              __global STORAGE(X_TYPE) *restrict to, long to_offset, const mx_nv_scatter g,
                              const float alpha, const float beta)
{
    uint i = get_global_id(0);
    const uint line = i / (uint)g.q, q = i - line * g.q, above = line / (uint)g.step_h, a = line - above * g.step_h;
    const uint image = above / (uint)g.p, p = above - image * g.p;
    const int h = p * g.step_h + a, w0 = q * g.step_w, many = g.step_w * g.channels;
    if (image >= (uint)g.images || h >= g.h)
        return;
    from += from_offset + (long)(above * g.q + q) * g.reduced + a * many;
    to += to_offset + (long)image * g.to_n + h * g.to_h + w0 * g.to_w;
    const bool run = g.to_c == 1 && g.to_w == g.channels && w0 + g.step_w <= g.w && many % 2 == 0;
    if (run && alpha == 1 && beta == 0 && (((ulong)from | (ulong)to) & 3) == 0) {
        for (int l = 0; l < many; l += 2)
            *(__global uint *)(to + l) = *(__global const uint *)(from + l);
        return;
    }
    for (int b = 0; b < g.step_w && w0 + b < g.w; b++)
        for (int c = 0; c < g.channels; c++) {
            const float value = LOAD(X_TYPE)(from, b * g.channels + c);
            STORE_MIXED(X_TYPE, to, b * g.to_w + c * g.to_c, value, alpha, beta);
        }
}

#ifndef VEC /* 1, 2, 4 or 8 */
#define VEC 1
#endif
#ifndef STEP /* scatter: of VEC pixels each STEPth may be other than zero; gather: 2 where those of a work-item are \
                every second of one row, with one more behind the last, and rows begin at multiples of 2 VEC */
#define STEP 1
#endif
/* VEC contiguous elements, in words, to an address that is a multiple of their size. */
#define STORE_PIXELS MX_JOIN(STORE_PIXELS_, VEC)
#define STORE_PIXELS_1(to, words) *(to) = (ushort)(words)[0]
#define STORE_PIXELS_2(to, words) *(__global uint *)(to) = (words)[0]
#define STORE_PIXELS_4(to, words) *(__global uint2 *)(to) = (uint2)((words)[0], (words)[1])
#define STORE_PIXELS_8(to, words) \
    *(__global uint4 *)(to) = (uint4)((words)[0], (words)[1], (words)[2], (words)[3])
/* The VEC words that begin with each second element. */
#define LOAD_PAIRS MX_JOIN(LOAD_PAIRS_, VEC)
#define LOAD_PAIRS_1(words, from) (words)[0] = *(__global const uint *)(from)
#define LOAD_PAIRS_2(words, from) vstore2(*(__global const uint2 *)(from), 0, words)
#define LOAD_PAIRS_4(words, from) vstore4(*(__global const uint4 *)(from), 0, words)
#define LOAD_PAIRS_8(words, from)       \
    do {                                \
        LOAD_PAIRS_4(words, from);      \
        LOAD_PAIRS_4((words) + 4, (from) + 8); \
    } while (0)
#define EACH_PIXEL(l) _Pragma("unroll") for (int l = 0; l < VEC; l++)

/* Four under way. */
#define EACH_PLANE(plane, begin, end)                                                            \
    for (int plane##0 = begin; plane##0 < (end); plane##0 += 4)                                  \
        _Pragma("unroll") for (int plane = plane##0; plane < plane##0 + 4; plane++)              \
            if (plane < (end))

/* Where a plane of the strided tensor begins. */
static inline long mx_plane_at(int plane, const mx_nv_stepped *g)
{
    const int image = mx_quotient(plane, g->by_channels);
    return (long)image * g->stride_n + (plane - image * g->channels) * g->stride_c;
}

__kernel void gather_pixels(__global const ushort *restrict from, long from_offset, __global ushort *restrict to,
                            long to_offset, const mx_nv_stepped g)
{
    const int image = g.p * g.q, i = get_global_id(0), group = mx_quotient(i, g.by_runs);
    const int position = (i - group * (image / VEC)) * VEC, end = min((group + 1) * g.item_planes, g.planes);
    int from_at[VEC];
    EACH_PIXEL (l) {
        const int p = mx_quotient(position + l, g.by_row), q = position + l - p * g.q;
        from_at[l] = p * g.stride_h + q * g.step_w;
    }
    from += from_offset;
    to += to_offset + position;
    const bool aligned = ((ulong)to & (2 * VEC - 1)) == 0, pairs = STEP == 2 && ((ulong)from & (4 * VEC - 1) & 15) == 0;
    EACH_PLANE (plane, group * g.item_planes, end) {
        __global const ushort *at = from + mx_plane_at(plane, &g);
        uint words[4] = {0, 0, 0, 0};
        if (pairs) {
            uint found[VEC];
            LOAD_PAIRS(found, at + from_at[0]);
            EACH_PIXEL (l)
                words[l / 2] |= (found[l] & 0xffff) << l % 2 * 16;
        } else
            EACH_PIXEL (l)
                words[l / 2] |= (uint)at[from_at[l]] << l % 2 * 16;
        if (aligned)
            STORE_PIXELS(to + (long)plane * image, words);
        else
            EACH_PIXEL (l)
                to[(long)plane * image + l] = (ushort)(words[l / 2] >> l % 2 * 16);
    }
}

__kernel void scatter_pixels(__global const ushort *restrict from, long from_offset, __global ushort *restrict to,
                            long to_offset, const mx_nv_stepped g, const float alpha, const float beta)
{
    const int runs = g.h * g.w / VEC, i = get_global_id(0), group = mx_quotient(i, g.by_runs);
    const int position = (i - group * runs) * VEC, end = min((group + 1) * g.item_planes, g.planes);
    int from_at[VEC]; /* -1: nowhere */
#pragma unroll
    for (int l = 0; l < VEC; l += STEP) {
        const int h = mx_quotient(position + l, g.by_row), w = position + l - h * g.w;
        const int p = mx_quotient(h, g.by_step_h), q = mx_quotient(w, g.by_step_w);
        from_at[l] = p * g.step_h == h && q * g.step_w == w ? p * g.q + q : -1;
    }
    from += from_offset;
    to += to_offset + position;
    const bool plain = alpha == 1 && beta == 0 && ((ulong)to & (2 * VEC - 1)) == 0;
    EACH_PLANE (plane, group * g.item_planes, end) {
        __global const ushort *at = from + (long)plane * (g.p * g.q);
        uint words[4] = {0, 0, 0, 0};
        EACH_PIXEL (l)
            if (l % STEP == 0)
                words[l / 2] |= (uint)(from_at[l] >= 0 ? at[from_at[l]] : (ushort)0) << l % 2 * 16;
        __global ushort *y = to + mx_plane_at(plane, &g);
        if (plain)
            STORE_PIXELS(y, words);
        else
            EACH_PIXEL (l) {
                const bool there = l % STEP == 0 && from_at[l] >= 0;
                if (alpha == 1 && beta == 0)
                    y[l] = (ushort)(words[l / 2] >> l % 2 * 16);
                else
                    STORE_MIXED(X_TYPE, y, l, there ? LOAD(X_TYPE)(at, from_at[l]) : 0.0f, alpha, beta);
            }
    }
}

#include "conv/nvidia/pack_tile.h"

/* The lower, or upper, halves of two words. */
#define LOWER(first, second) (((first) & 0xffff) | (second) << 16)
#define UPPER(first, second) ((first) >> 16 | ((second) & 0xffff0000u))

static inline __attribute__((always_inline)) void mx_load_runs(
    __global const ushort *from, __local uint *tile, const mx_tile *t, const mx_nv_pixels *g, const int run)
{
    const int item = get_local_id(0), column = item % RUNS_ACROSS(run) * run, pair0 = item / RUNS_ACROSS(run);
    uint4 words[TILE / 64][8][2];
    int place[TILE / 64];
#pragma unroll
    for (int l = 0; l < TILE / 64; l++)
        place[l] = mx_place_of_pixels(l * 64 + column, t, g, run);
    EACH_RUN(run, l, k)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int c = t->c0 + (pair0 + k * (ITEMS / RUNS_ACROSS(run))) * 2 + i;
            const bool valid = place[l] >= 0 && c < g->channels;
            __global const ushort *at = from + (valid ? place[l] + c * g->from_c : 0);
            uint4 found = (uint4)(0, 0, 0, 0);
            if (run == 8)
                found = valid ? *(__global const uint4 *)at : found;
            else if (run == 4)
                found = (uint4)(valid ? *(__global const uint2 *)at : (uint2)(0, 0), 0, 0);
            else if (run == 2)
                found.x = valid ? *(__global const uint *)at : 0;
            else
                found.x = valid ? *at : 0;
            words[l][k][i] = found;
        }
    EACH_RUN(run, l, k) {
        const uint4 a = words[l][k][0], b = words[l][k][1];
        const int p = l * 64 + column, pair = pair0 + k * (ITEMS / RUNS_ACROSS(run));
#define PUT_TWO(i, first, second)                                              \
    if (i < run)                                                               \
        tile[mx_in_tile(p + i, pair, run)] = LOWER(first, second);             \
    if (i + 1 < run)                                                           \
        tile[mx_in_tile(p + i + 1, pair, run)] = UPPER(first, second)
        PUT_TWO(0, a.x, b.x);
        PUT_TWO(2, a.y, b.y);
        PUT_TWO(4, a.z, b.z);
        PUT_TWO(6, a.w, b.w);
    }
}

/* The same from any address: little code. */
static inline void mx_load_singly(__global const ushort *from, __local ushort *tile, const mx_tile *t,
                                  const mx_nv_pixels *g, const int run)
{
#pragma unroll 1
    for (int l = get_local_id(0); l < TILE * CHANNELS; l += ITEMS) {
        const int p = l % TILE, c = l / TILE, place = mx_place_of_pixels(p, t, g, 1);
        const bool valid = place >= 0 && t->c0 + c < g->channels;
        tile[mx_in_tile(p, c >> 1, run) * 2 + (c & 1)] = valid ? from[place + (t->c0 + c) * g->from_c] : (ushort)0;
    }
}

static inline __attribute__((always_inline)) void mx_store_runs(
    __global ushort *to, __local const uint *tile, const mx_tile *t, const mx_nv_pixels *g, const int run)
{
    const int item = get_local_id(0), column = item % RUNS_ACROSS(run) * run, pair0 = item / RUNS_ACROSS(run);
    EACH_RUN(run, l, k) {
        const int place = mx_place_of_pixels(l * 64 + column, t, g, run);
        const int pair = pair0 + k * (ITEMS / RUNS_ACROSS(run)), c = t->c0 + pair * 2;
        uint words[2][4];
#pragma unroll
        for (int i = 0; i < (run + 1) / 2; i++) {
            const uint first = tile[mx_in_tile(l * 64 + column + i * 2, pair, run)];
            const uint second = run > 1 ? tile[mx_in_tile(l * 64 + column + i * 2 + 1, pair, run)] : 0;
            words[0][i] = LOWER(first, second);
            words[1][i] = UPPER(first, second);
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (place >= 0 && c + i < g->channels) {
                __global ushort *at = to + place + (c + i) * g->from_c;
                const uint *found = words[i];
                if (run == 8)
                    *(__global uint4 *)at = (uint4)(found[0], found[1], found[2], found[3]);
                else if (run == 4)
                    *(__global uint2 *)at = (uint2)(found[0], found[1]);
                else if (run == 2)
                    *(__global uint *)at = found[0];
                else
                    *at = (ushort)found[0];
            }
    }
}

/* Whole images: the channels of one are a run of multiples of 8 elements.  Each chunk of 16 bytes of a tile's images:
 * its image in the tile, its channel and pixel, and its offset. */
#define EACH_CHUNK(l) _Pragma("unroll") for (int l = 0; l < TILE * CHANNELS / 8 / ITEMS; l++)
typedef struct {
    int n, c, p, at;
    bool valid;
} mx_chunk;

static inline mx_chunk mx_chunk_of(int l, const mx_tile *t, const mx_nv_pixels *g)
{
    const int all = g->h * g->w, chunks = min(CHANNELS, g->channels - t->c0) * all / 8;
    const int i = get_local_id(0) + l * ITEMS;
    const int number = i / chunks, first = (i - number * chunks) * 8;
    mx_chunk k;
    k.n = number, k.c = mx_quotient(first, g->by_image), k.p = first - k.c * all;
    k.at = (mx_quotient(t->m0, g->by_image) + number) * g->from_n + t->c0 * all + first;
    k.valid = number * all < t->many;
    return k;
}

/* Half words to the next of the chunk's elements, where a tile is ordered by pixels. */
#define NEXT_ELEMENT(at, p)                                                     \
    do {                                                                        \
        at += 2 * WHOLE_PITCH;                                                  \
        if (++p == all)                                                         \
            p = 0, at += 1 - all * 2 * WHOLE_PITCH;                             \
    } while (0)

static inline __attribute__((always_inline)) void mx_load_whole(
    __global const ushort *from, __local ushort *tile, const mx_tile *t, const mx_nv_pixels *g)
{
    const int all = g->h * g->w;
    uint4 found[TILE * CHANNELS / 8 / ITEMS];
    EACH_CHUNK (l) {
        const mx_chunk k = mx_chunk_of(l, t, g);
        found[l] = k.valid ? *(__global const uint4 *)(from + k.at) : (uint4)(0, 0, 0, 0);
    }
    EACH_CHUNK (l) {
        const mx_chunk k = mx_chunk_of(l, t, g);
        const uint words[4] = {found[l].x, found[l].y, found[l].z, found[l].w};
        int at = (k.n * all + k.p) * 2 * WHOLE_PITCH + k.c, p = k.p;
        if (k.valid)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                tile[at] = (ushort)(words[i / 2] >> i % 2 * 16);
                NEXT_ELEMENT(at, p);
            }
    }
}

static inline __attribute__((always_inline)) void mx_store_whole(
    __global ushort *to, __local const ushort *tile, const mx_tile *t, const mx_nv_pixels *g)
{
    const int all = g->h * g->w;
    EACH_CHUNK (l) {
        const mx_chunk k = mx_chunk_of(l, t, g);
        uint words[4] = {0, 0, 0, 0};
        int at = (k.n * all + k.p) * 2 * WHOLE_PITCH + k.c, p = k.p;
        if (k.valid) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                words[i / 2] |= (uint)tile[at] << i % 2 * 16;
                NEXT_ELEMENT(at, p);
            }
            *(__global uint4 *)(to + k.at) = (uint4)(words[0], words[1], words[2], words[3]);
        }
    }
}

static inline __attribute__((always_inline)) void mx_load_tile(
    __global const ushort *from, __local uint *tile, const mx_tile *t, const mx_nv_pixels *g, const int run)
{
    from += (long)t->group * g->from_g;
    if (((ulong)from & (run == 0 ? 15 : 2 * run - 1)) != 0)
        mx_load_singly(from, (__local ushort *)tile, t, g, run);
    else if (run == 0)
        mx_load_whole(from, (__local ushort *)tile, t, g);
    else
        mx_load_runs(from, tile, t, g, run);
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void pack_pixels(
    __global const ushort *restrict from, long from_offset, __global ushort *restrict to, long to_offset,
    const mx_nv_pixels g)
{
    __local uint tile[TILE_WORDS] __attribute__((aligned(16)));
    const mx_tile t = mx_tile_of(get_group_id(0), &g);
    mx_load_tile(from + from_offset, tile, &t, &g, RUN);
    barrier(CLK_LOCAL_MEM_FENCE);
    mx_store_packed(to + to_offset, tile, t, &g, RUN);
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void pack_two(
    __global const ushort *restrict from, long from_offset, __global ushort *restrict to, long to_offset,
    const mx_nv_pixels g, __global const ushort *restrict second, long second_offset,
    __global ushort *restrict second_to, long second_to_offset, const mx_nv_pixels second_g, const int tiles)
{
    __local uint tile[TILE_WORDS] __attribute__((aligned(16)));
    const int number = get_group_id(0);
    const mx_tile t = mx_tile_of(number, &g), second_t = mx_tile_of(max(number - tiles, 0), &second_g);
    if (number < tiles)
        mx_load_tile(from + from_offset, tile, &t, &g, RUN);
    else
        mx_load_tile(second + second_offset, tile, &second_t, &second_g, SECOND_RUN);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (number < tiles)
        mx_store_packed(to + to_offset, tile, t, &g, RUN);
    else
        mx_store_packed(second_to + second_to_offset, tile, second_t, &second_g, SECOND_RUN);
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void unpack_pixels(
    __global const ushort *restrict from, long from_offset, __global ushort *restrict to, long to_offset,
    const mx_nv_pixels g, const float alpha, const float beta)
{
    __local uint tile[TILE_WORDS] __attribute__((aligned(16)));
    const mx_tile t = mx_tile_of(get_group_id(0), &g);
    from += from_offset + (long)t.m0 * g.reduced + t.c0;
    to += to_offset;
    const bool plain = alpha == 1 && beta == 0 && ((ulong)to & (RUN == 0 ? 15 : 2 * RUN - 1)) == 0;
    EACH_CHUNK_OF_PIXELS(l, p, chunk, g.reduced) {
        __global const ushort *at = from + p * g.reduced + chunk * 8;
        const uint4 found = ((ulong)from & 15) == 0 ? *(__global const uint4 *)at : as_uint4(vload8(0, at));
        __local uint *to_tile = tile + mx_in_tile(p, chunk * 4, RUN);
        if (RUN == 0)
            to_tile[0] = found.x, to_tile[1] = found.y, to_tile[2] = found.z, to_tile[3] = found.w;
        else
            *(__local uint4 *)to_tile = found;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!plain) {
#pragma unroll 1
        for (int l = get_local_id(0); l < TILE * CHANNELS; l += ITEMS) {
            const int p = l % TILE, c = l / TILE, place = mx_place_of_pixels(p, &t, &g, 1);
            if (place >= 0 && t.c0 + c < g.channels) {
                __global ushort *at = to + place + (t.c0 + c) * g.from_c;
                if (alpha == 1 && beta == 0)
                    *at = from[p * g.reduced + c];
                else
                    STORE_MIXED(X_TYPE, at, 0, LOAD(X_TYPE)(from, p * g.reduced + c), alpha, beta);
            }
        }
    } else if (RUN == 0)
        mx_store_whole(to, (__local const ushort *)tile, &t, &g);
    else
        mx_store_runs(to, tile, &t, &g, RUN);
}
#endif
