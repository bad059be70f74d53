/* Copies that bring operands into the order the tensor-core kernels read: the reduced axis closest, zeros behind it;
 * and one that brings a result out of the order they write.
 *
 * Sizes are elements of 2 or 4 bytes, which only move.
 * pack_weights: to[group][row][tap][reduced], rows the filters or, for backward data, the channels of a group; one
 *     work-item an element.  A tap of the copy is reduced / folded neighbours in a row, of `folded` channels each.
 * pack_merged_weights: to[residue of the stride][channel of x][tap][filter] for backward data of all residues in one
 *     product, rows up to `rows`; one work-item an element.
 * pack_narrow: to[image][plane][row][chunk][2][4] from up to 4 channels: two pixels, `apart` each other, `every` so many
 *     pixels, padding included, the rows spread over planes in turns; one work-item a chunk; 16 bits only.
 * pack_pixels: to[image][pixel][group][reduced] from any strides, through tiles of 64 pixels x 64 channels; local 256,
 *     global 256 * ceil(pixels / 64) * ceil(reduced / 64) * groups * images.
 * turn_pixels: the way back, from[image][pixel][reduced] to any strides, y = alpha * from + beta * y; 16 bits only,
 *     all groups as one.
 * spread_residues: from[image][p][q][residue][channel], what merged residues give, to any strides; one work-item for those
 *     of a row.
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#define ACC float
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
