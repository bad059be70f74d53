/* Copies that bring operands into the order the tensor-core kernels read: the reduced axis closest, zeros behind it.
 *
 * Sizes are elements of 2 or 4 bytes, which only move.
 * pack_weights: to[group][row][tap][reduced], rows the filters or, for backward data, the channels of a group; one
 *     work-item an element.
 * pack_pixels: to[image][pixel][group][reduced] from any strides, through tiles of 64 pixels x 64 channels; local 256,
 *     global 256 * ceil(pixels / 64) * ceil(reduced / 64) * groups * images.
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#define ACC float
#include "common.h"

typedef struct {
    int groups, rows, taps_h, taps_w, channels, reduced;
    int from_g, from_row, from_h, from_w, from_c; /* strides */
} mx_nv_weights;

typedef struct {
    int images, groups, h, w, channels, reduced;
    int from_n, from_g, from_c, from_h, from_w;
} mx_nv_pixels;

__kernel void pack_weights(__global const STORAGE(X_TYPE) *restrict from, long from_offset,
                           __global STORAGE(X_TYPE) *restrict to, long to_offset, const mx_nv_weights g)
{
    const int at = get_global_id(0);
    int i = at;
    const int c = i % g.reduced;
    i /= g.reduced;
    const int w = i % g.taps_w;
    i /= g.taps_w;
    const int h = i % g.taps_h;
    i /= g.taps_h;
    const int row = i % g.rows;
    i /= g.rows;
    if (i >= g.groups)
        return;
    to[to_offset + at] = c < g.channels ? from[from_offset + (long)i * g.from_g + row * g.from_row + h * g.from_h
                                               + w * g.from_w + c * g.from_c] : (STORAGE(X_TYPE))0;
}

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
    /* Two pixels in one word, where pixels lie in a row and every row of channels begins at a word. */
    if (g.from_w == 1 && g.from_h == g.w && all % 2 == 0 && g.from_c % 2 == 0 && ((ulong)from & 3) == 0) {
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
