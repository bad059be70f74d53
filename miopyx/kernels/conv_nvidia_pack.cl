/* Copies that bring operands into the order the tensor-core kernels read: the reduced axis closest, zeros behind it;
 * and one that brings a result out of the order they write.
 *
 * Sizes are elements of 2 or 4 bytes, which only move.
 * pack_weights: to[group][row][tap][reduced], rows the filters or, for backward data, the channels of a group; one
 *     work-item an element.  A tap of the copy is reduced / folded neighbours in a row, of `folded` channels each.
 * pack_merged_weights: to[residue of the stride][channel of x][tap][filter] for backward data of all residues in one
 *     product, rows up to `rows`; one work-item an element.
 * pack_narrow: to[image][plane][row][chunk][2][4] from up to 4 channels: two pixels, `apart` each other, `every` so
 *     many pixels, padding included, the rows spread over planes in turns; one work-item a chunk; 16 bits only.
 * pack_pixels: to[image][pixel][group][reduced] from any strides, through tiles of 64 pixels x 64 channels; local 256,
 *     global 256 * ceil(pixels / 64) * ceil(reduced / 64) * groups * images.
 * turn_pixels: the way back, from[image][pixel][reduced] to any strides, y = alpha * from + beta * y; 16 bits only,
 *     all groups as one.
 * spread_residues: from[image][p][q][residue][channel], what merged residues give, to any strides; one work-item for
 *     those of a row.
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#include "common.h"

typedef struct {
    int groups, rows, taps_h, taps_w, channels, reduced; /* taps of the copy */
    int folded, limit; /* channels of one of the neighbours in a tap; taps in a row */
    int from_g, from_row, from_h, from_w, from_c; /* strides */
} mx_nv_weights;

typedef struct {
    int images, groups, h, w, channels, reduced;
    int from_n, from_g, from_c, from_h, from_w; /* of turn_pixels: where it goes to */
} mx_nv_pixels;

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

typedef struct {
    int rows, channels, taps_h, taps_w, filters, reduced; /* taps of the product */
    int step_h, step_w, shift_h, shift_w, limit_h, limit_w; /* tap of w: residue + shift - step * tap of the product */
    int from_c, from_h, from_w, from_k; /* strides */
} mx_nv_merged;

__kernel void pack_merged_weights(__global const STORAGE(X_TYPE) *restrict from, long from_offset,
                                  __global STORAGE(X_TYPE) *restrict to, long to_offset, const mx_nv_merged g)
{
    const int at = get_global_id(0);
    int i = at;
    const int k = i % g.reduced;
    i /= g.reduced;
    const int v = i % g.taps_w;
    i /= g.taps_w;
    const int u = i % g.taps_h, row = i / g.taps_h;
    if (row >= g.rows)
        return;
    const int c = row % g.channels, residue = row / g.channels;
    const int h = residue / g.step_w + g.shift_h - g.step_h * u, w = residue % g.step_w + g.shift_w - g.step_w * v;
    const bool valid = residue < g.step_h * g.step_w && k < g.filters && h >= 0 && h < g.limit_h && w >= 0
                       && w < g.limit_w;
    to[to_offset + at] = valid ? from[from_offset + (long)k * g.from_k + (long)c * g.from_c + h * g.from_h
                                      + w * g.from_w] : (STORAGE(X_TYPE))0;
}

typedef struct {
    int images, channels, h, w; /* of x */
    int planes, rows, chunks, every, apart, pad_h, pad_w; /* rows of a plane */
    int from_n, from_c, from_h, from_w; /* strides */
} mx_nv_narrow;

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
        const int w = chunk * g.every + half_of * g.apart - g.pad_w;
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

typedef struct {
    int images, h, w, channels; /* of the result */
    int p, q, reduced, step_h, step_w;
    int to_n, to_c, to_h, to_w; /* strides */
} mx_nv_spread;

__kernel void spread_residues(__global const STORAGE(X_TYPE) *restrict from, long from_offset,
                              __global STORAGE(X_TYPE) *restrict to, long to_offset, const mx_nv_spread g,
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
#endif

#define SIDE 64
#define PITCH (SIDE + 2)

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void pack_pixels(
    __global const STORAGE(X_TYPE) *restrict from, long from_offset, __global STORAGE(X_TYPE) *restrict to,
    long to_offset, const mx_nv_pixels g)
{
    __local STORAGE(X_TYPE) tile[SIDE * PITCH] __attribute__((aligned(16)));
    const int item = get_local_id(0), all = g.h * g.w;
    const int across = (all + SIDE - 1) / SIDE, down = (g.reduced + SIDE - 1) / SIDE;
    int i = get_group_id(0);
    const int p0 = i % across * SIDE;
    i /= across;
    const int c0 = i % down * SIDE;
    i /= down;
    const int group = i % g.groups, image = i / g.groups;

    from += from_offset + (long)image * g.from_n + (long)group * g.from_g;
#if MX_TYPE(X_TYPE) != MX_TYPE_float
    const bool rows = g.from_w == 1 && g.from_h == g.w && ((ulong)from & 3) == 0;
    if (rows && all <= SIDE && g.from_c == all) {
        /* The whole image: two pixels in one word, wherever channels begin. */
        const int count = min(SIDE, g.channels - c0) * all;
        for (int l = count / all * PITCH + item; l < SIDE * PITCH; l += 256)
            tile[l] = 0;
        for (int l = item * 2; l < count; l += 512) {
            __global const STORAGE(X_TYPE) *at = from + (long)c0 * all + l;
            const uint value = l + 1 < count ? *(__global const uint *)at : *at;
            const int c = l / all, p = l - c * all;
            tile[c * PITCH + p] = (STORAGE(X_TYPE))value;
            if (l + 1 < count)
                tile[p + 1 < all ? c * PITCH + p + 1 : (c + 1) * PITCH] = (STORAGE(X_TYPE))(value >> 16);
        }
    } else if (rows && all % 2 == 0 && g.from_c % 2 == 0) {
        /* Two pixels in one word, where pixels lie in a row and every row of channels begins at a word. */
        const int p = p0 + item % (SIDE / 2) * 2;
#pragma unroll
        for (int l = 0; l < SIDE * SIDE / 512; l++) {
            const int c = item / (SIDE / 2) + l * (512 / SIDE);
            uint value = 0;
            if (p < all && c0 + c < g.channels)
                value = *(__global const uint *)(from + p + (long)(c0 + c) * g.from_c);
            *(__local uint *)(tile + c * PITCH + item % (SIDE / 2) * 2) = value;
        }
    } else
#endif
    {
        const int p = p0 + item % SIDE, h = p / g.w, place = h * g.from_h + (p - h * g.w) * g.from_w;
#pragma unroll
        for (int l = 0; l < SIDE * SIDE / 256; l++) {
            const int c = item / SIDE + l * (256 / SIDE);
            STORAGE(X_TYPE) value = 0;
            if (p < all && c0 + c < g.channels)
                value = from[place + (long)(c0 + c) * g.from_c];
            tile[c * PITCH + item % SIDE] = value;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    to += to_offset + ((long)image * all * g.groups + group) * g.reduced;
    /* Eight channels at a time: `reduced` is a multiple of eight. */
    const bool aligned = ((ulong)to & 15) == 0;
    const int c = item % (SIDE / 8) * 8;
    if (c0 + c >= g.reduced)
        return;
#pragma unroll
    for (int l = 0; l < SIDE * SIDE / 2048; l++) {
        const int p = item / (SIDE / 8) + l * (2048 / SIDE);
        if (p0 + p < all) {
            __global STORAGE(X_TYPE) *at = to + (long)(p0 + p) * g.groups * g.reduced + c0 + c;
            __local const STORAGE(X_TYPE) *column = tile + c * PITCH + p;
#if MX_TYPE(X_TYPE) != MX_TYPE_float
            if (aligned) {
                uint4 chunk;
                chunk.x = (uint)column[0] | (uint)column[PITCH] << 16;
                chunk.y = (uint)column[2 * PITCH] | (uint)column[3 * PITCH] << 16;
                chunk.z = (uint)column[4 * PITCH] | (uint)column[5 * PITCH] << 16;
                chunk.w = (uint)column[6 * PITCH] | (uint)column[7 * PITCH] << 16;
                *(__global uint4 *)at = chunk;
                continue;
            }
#endif
            for (int i = 0; i < 8; i++)
                at[i] = column[i * PITCH];
        }
    }
}

#if MX_TYPE(X_TYPE) != MX_TYPE_float
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void turn_pixels(
    __global const STORAGE(X_TYPE) *restrict from, long from_offset, __global STORAGE(X_TYPE) *restrict to,
    long to_offset, const mx_nv_pixels g, const float alpha, const float beta)
{
    __local STORAGE(X_TYPE) tile[SIDE * PITCH] __attribute__((aligned(16)));
    const int item = get_local_id(0), all = g.h * g.w;
    const int across = (all + SIDE - 1) / SIDE, down = (g.channels + SIDE - 1) / SIDE;
    int i = get_group_id(0);
    const int p0 = i % across * SIDE;
    i /= across;
    const int c0 = i % down * SIDE, image = i / down;

    from += from_offset + (long)image * all * g.reduced;
    to += to_offset + (long)image * g.from_n;
    if (alpha != 1 || beta != 0) {
        for (int l = item; l < SIDE * SIDE; l += 256) {
            const int p = p0 + l % SIDE, c = c0 + l / SIDE, h = p / g.w;
            if (p < all && c < g.channels) {
                const long place = (long)c * g.from_c + h * g.from_h + (p - h * g.w) * g.from_w;
                const float value = LOAD(X_TYPE)(from, (long)p * g.reduced + c);
                STORE_MIXED(X_TYPE, to, place, value, alpha, beta);
            }
        }
        return;
    }
    /* Eight channels at a time: `reduced` is a multiple of eight. */
    const bool aligned = ((ulong)from & 15) == 0;
    const int chunk = item % (SIDE / 8) * 8;
#pragma unroll
    for (int l = 0; l < SIDE * SIDE / 2048; l++) {
        const int p = item / (SIDE / 8) + l * (2048 / SIDE);
        __local STORAGE(X_TYPE) *column = tile + chunk * PITCH + p;
        if (p0 + p >= all || c0 + chunk >= g.reduced)
            continue;
        __global const STORAGE(X_TYPE) *at = from + (long)(p0 + p) * g.reduced + c0 + chunk;
        if (aligned) {
            const uint4 eight = *(__global const uint4 *)at;
            const uint words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
            for (int c = 0; c < 8; c++)
                column[c * PITCH] = (STORAGE(X_TYPE))(words[c / 2] >> c % 2 * 16);
        } else
            for (int c = 0; c < 8; c++)
                column[c * PITCH] = at[c];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool rows = g.from_w == 1 && g.from_h == g.w && ((ulong)to & 3) == 0;
    if (rows && all <= SIDE && g.from_c == all) {
        /* The whole image: two pixels in one word, wherever channels begin. */
        const int count = min(SIDE, g.channels - c0) * all;
        for (int l = item * 2; l < count; l += 512) {
            const int c = l / all, p = l - c * all;
            const uint first = tile[c * PITCH + p];
            if (l + 1 < count)
                *(__global uint *)(to + (long)c0 * all + l) =
                    first | (uint)tile[p + 1 < all ? c * PITCH + p + 1 : (c + 1) * PITCH] << 16;
            else
                to[(long)c0 * all + l] = first;
        }
        return;
    }
    /* Two pixels in one word, where pixels lie in a row and every row of channels begins at a word. */
    if (rows && all % 2 == 0 && g.from_c % 2 == 0) {
        const int p = item % (SIDE / 2) * 2;
        if (p0 + p >= all)
            return;
#pragma unroll
        for (int l = 0; l < SIDE * SIDE / 512; l++) {
            const int c = item / (SIDE / 2) + l * (512 / SIDE);
            if (c0 + c < g.channels)
                *(__global uint *)(to + p0 + p + (long)(c0 + c) * g.from_c) =
                    *(__local const uint *)(tile + c * PITCH + p);
        }
        return;
    }
    const int p = p0 + item % SIDE, h = p / g.w, place = h * g.from_h + (p - h * g.w) * g.from_w;
    if (p >= all)
        return;
#pragma unroll
    for (int l = 0; l < SIDE * SIDE / 256; l++) {
        const int c = item / SIDE + l * (256 / SIDE);
        if (c0 + c < g.channels)
            to[place + (long)(c0 + c) * g.from_c] = tile[c * PITCH + item % SIDE];
    }
}
#endif
