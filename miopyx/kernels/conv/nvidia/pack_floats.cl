/* Floats of any strides to channels last, which tensor maps copy: to[pixel][channel], multiples of 32 channels.
 *
 * A work-group transposes a tile of 128 pixels x 32 channels in local memory: it reads neighbouring pixels of a channel
 * and writes 16 bytes of a pixel's channels a work-item.  Rows of 33 floats: no bank conflicts.
 *
 * Grid: one axis, local 256, global 256 * ceil(pixels / 128) * blocks; blocks are of 32 channels.
 * Bound by memory.
 */
#ifndef RUN /* pixels that are read at once: 4 where they are contiguous and equally aligned in all images, else 1 */
#define RUN 1
#endif
#include "include/common.h"
#include "conv/nvidia/pack_args.h"
#include "include/quotient.h"

#define ITEMS 256
#define TILE 128
#define CHANNELS 32
#define PITCH (CHANNELS + 1)

/* The offset of a pixel, -1: none. */
static inline int mx_offset_of(int m, const mx_nv_pixels *g)
{
    const int n = mx_quotient(m, g->by_image), rest = m - n * (g->h * g->w), h = mx_quotient(rest, g->by_row);
    if (m >= g->images * g->h * g->w)
        return -1;
    return n * g->from_n + (RUN > 1 ? rest : h * g->from_h + (rest - h * g->w) * g->from_w);
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void pack_floats(
    __global const float *restrict from, long from_offset, __global float *restrict to, long to_offset,
    const mx_nv_pixels g)
{
    __local float tile[TILE * PITCH];
    const int item = get_local_id(0), number = get_group_id(0);
    const int above = mx_quotient(number, g.by_blocks), m0 = above * TILE, c0 = (number - above * g.blocks) * CHANNELS;
    from += from_offset + (long)c0 * g.from_c;
    to += to_offset + (long)m0 * g.channels + c0;
#if RUN == 4
    /* A warp reads 32 pixels of 4 channels. */
    const int p = (item >> 5 & 3) * 32 + (item & 7) * 4, c = (item >> 3 & 3) + (item >> 7) * 4;
    const int place = mx_offset_of(m0 + p, &g);
    const bool aligned = ((ulong)from & 15) == 0;
    float4 found[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        __global const float *at = from + max(place, 0) + (c + 8 * i) * g.from_c;
        found[i] = aligned ? *(__global const float4 *)at : vload4(0, at);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        __local float *put = tile + p * PITCH + c + 8 * i;
        put[0] = found[i].x, put[PITCH] = found[i].y, put[2 * PITCH] = found[i].z, put[3 * PITCH] = found[i].w;
    }
#else
    const int p = item & 127, c = item >> 7, place = mx_offset_of(m0 + p, &g);
    float found[CHANNELS / 2];
#pragma unroll
    for (int i = 0; i < CHANNELS / 2; i++)
        found[i] = from[max(place, 0) + (c + 2 * i) * g.from_c];
#pragma unroll
    for (int i = 0; i < CHANNELS / 2; i++)
        tile[p * PITCH + c + 2 * i] = found[i];
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool whole = ((ulong)to & 15) == 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int row = (item >> 3) + 32 * i, column = (item & 7) * 4;
        __local const float *got = tile + row * PITCH + column;
        const float4 four = (float4)(got[0], got[1], got[2], got[3]);
        if (m0 + row >= g.images * g.h * g.w)
            return;
        __global float *at = to + row * g.channels + column;
        if (whole)
            *(__global float4 *)at = four;
        else
            vstore4(four, 0, at);
    }
}
