/* x and dy as pairs of halves for conv/nvidia/pairs_taps.cl, in two launches.
 *
 *   pairs_largest: of each part of a chunk, its 64 channels' largest, sums and numbers of values
 *   pairs_pack:    packed[image][group][chunk][hi, lo][position][64], 16-byte units swizzled, and each channel's inverse
 *
 *   work-group:  one chunk of 64 channels, and a part of all blocks of 64 positions of all images
 *                work-items have 16 values of a block: 2 positions of 8 channels, or of channels last 8 of 2
 *
 * A channel has one scale, a power of two, so that every slice of every tap can share what is packed.  A value times it
 * is hi + lo: down to 2^-17 of the channel's largest 22 bits are kept, below that an error of 2^-40 of it is left.  That
 * is about a float's own error for values of the middle's size, or the channel's sums are not taken from pairs.
 * Grid: one axis, local 256, global 256 * (chunks * groups * parts of x, then of dy).
 * Local memory: a block, 64 x 65 floats.
 * Bound by: memory.
 */
#ifndef X_LAST /* 1: x has channels last */
#define X_LAST 0
#endif
#ifndef Y_LAST
#define Y_LAST 0
#endif
#ifndef AXES /* 2 or 3 */
#define AXES 2
#endif
#define X_TYPE float
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/pairs.h"
#include "conv/nvidia/pairs_taps_args.h"

#define PITCH 65 /* of a block's positions in local memory */
#define WARPS 8
#define WIDEST 17 /* how far above the mean exponent of a channel's values other than 0 the largest one may be */

/* The work-item's 16 values of a block, 0 outside: positions lane and lane + 32 of channels warp + 8 i, or with `last`
 * channels lane and lane + 32 of positions warp + 8 i. */
static inline void mx_load_block(float v[16], __global const float *from, const mx_nv_packed s, int n, int first,
                                 int chunk, const mx_nv_pack_taps *o, bool last)
{
    const int warp = get_local_id(0) >> 5, lane = get_local_id(0) & 31;
#pragma unroll
    for (int i = 0; i < (last ? 8 : 2); i++) {
        const int position = first + (last ? warp + 8 * i : lane + 32 * i);
        const int row = mx_quotient(position, o->by_pitch), plane = AXES == 3 ? mx_quotient(row, o->by_plane) : 0;
        const int d = plane + s.first_d, h = row - plane * o->plane_rows + s.first_h;
        const int w = position - row * o->pitch + s.first_w;
        const bool inside = (uint)d < (uint)s.d && (uint)h < (uint)s.h && (uint)w < (uint)s.w;
        __global const float *at = from + (inside ? n * s.n + d * s.slab + h * s.row + w * s.column : 0);
#pragma unroll
        for (int j = 0; j < (last ? 2 : 8); j++) {
            const int c = chunk * 64 + (last ? lane + 32 * j : warp + 8 * j);
            v[last ? i * 2 + j : j * 2 + i] = inside && c < s.channels ? at[c * s.c] : 0;
        }
    }
}

/* Which chunk, of which group, and which blocks a work-group has. */
#define MX_OWN(s)                                                                                                      \
    const int part = number % (s).parts, all = number / (s).parts, group = all / (s).chunks;                           \
    const int chunk = all - group * (s).chunks, blocks = (s).images * (s).blocks;                                      \
    const int each = (blocks + (s).parts - 1) / (s).parts, end = min((part + 1) * each, blocks)

/* A channel's largest, as bits, and the sum of the exponents of its values that are not 0, and their number; all of them
 * finite. */
typedef struct {
    uint most;
    float sum, count;
} mx_seen;

static inline void mx_largest(__global const float *from, __global mx_seen *to, const mx_nv_packed s, int number,
                              const mx_nv_pack_taps *o, bool last, __local mx_seen *seen)
{
    const int item = get_local_id(0), warp = item >> 5, lane = item & 31;
    MX_OWN(s);
    mx_seen own[8];
#pragma unroll
    for (int j = 0; j < 8; j++)
        own[j].most = 0, own[j].sum = own[j].count = 0;
    from += (long)group * s.g;
    for (int block = part * each; block < end; block++) {
        const int n = mx_quotient(block, s.by_blocks);
        float v[16];
        mx_load_block(v, from, s, n, (block - n * s.blocks) * 64, chunk, o, last);
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const int at = last ? i & 1 : i >> 1;
            uint value = as_uint(v[i]) & 0x7fffffffu;
            value = value < 0x7f800000u ? value : 0; /* beside Inf others keep their precision */
            own[at].most = max(own[at].most, value);
            own[at].sum += (float)(value >> 23);
            own[at].count += value != 0 ? 1.0f : 0.0f;
        }
    }
    /* Of each channel 32 lanes, or of channels last 8 warps, have some. */
#pragma unroll
    for (int j = 0; j < (last ? 2 : 8); j++)
        seen[last ? (lane + 32 * j) * 33 + warp : (warp + 8 * j) * 33 + lane] = own[j];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < 64) {
        mx_seen all_of = seen[item * 33];
        for (int i = 1; i < (last ? WARPS : 32); i++) {
            const mx_seen other = seen[item * 33 + i];
            all_of.most = max(all_of.most, other.most);
            all_of.sum += other.sum;
            all_of.count += other.count;
        }
        to[(all * s.parts + part) * 64 + item] = all_of;
    }
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void pairs_largest(
    __global const float *restrict X, long x_offset, __global const float *restrict Y, long y_offset,
    __global uint *restrict largest, long largest_offset, const mx_nv_pack_taps g)
{
    __local mx_seen seen[64 * 33];
    const int number = get_group_id(0), of_x = g.x.groups * g.x.chunks * g.x.parts;
    __global mx_seen *to = (__global mx_seen *)(largest + largest_offset);
    if (number < of_x)
        mx_largest(X + x_offset, to, g.x, number, &g, X_LAST, seen);
    else
        mx_largest(Y + y_offset, to + of_x * 64, g.y, number - of_x, &g, Y_LAST, seen);
}

static inline void mx_pack(__global const float *from, __global const mx_seen *largest, __global float *inverses,
                           __global uint4 *to, const mx_nv_packed s, int number, int largest_parts,
                           const mx_nv_pack_taps *o, bool last, uint bias, __local float *scales,
                           __local float *block_of)
{
    const int item = get_local_id(0), warp = item >> 5, lane = item & 31;
    MX_OWN(s);
    mx_seen all_of = {0, 0, 0};
#pragma unroll 4
    for (int i = item >> 6; i < largest_parts; i += 4) {
        const mx_seen other = largest[(all * largest_parts + i) * 64 + (item & 63)];
        all_of.most = max(all_of.most, other.most);
        all_of.sum += other.sum;
        all_of.count += other.count;
    }
    __local mx_seen *seen = (__local mx_seen *)block_of;
    seen[item] = all_of;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < 64) {
        for (int i = 64; i < 256; i += 64) {
            all_of.most = max(all_of.most, seen[item + i].most);
            all_of.sum += seen[item + i].sum;
            all_of.count += seen[item + i].count;
        }
        const uint e = max(all_of.most >> 23, 29u);
        scales[item] = mx_pair_scale(e);
        /* Where most values are far below the largest its error would be theirs: no number, so each sum is computed
         * product by product. */
        const bool wide = ((float)(all_of.most >> 23) - WIDEST) * all_of.count > all_of.sum;
        if (part == 0)
            inverses[all * 64 + item] = wide ? NAN : as_float((e - bias) << 23);
    }
    from += (long)group * s.g;
    for (int block = part * each; block < end; block++) {
        const int n = mx_quotient(block, s.by_blocks), first = (block - n * s.blocks) * 64;
        float v[16];
        mx_load_block(v, from, s, n, first, chunk, o, last);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const int c = last ? lane + 32 * (i & 1) : warp + 8 * (i >> 1);
            const int position = last ? warp + 8 * (i >> 1) : lane + 32 * (i & 1);
            block_of[position * PITCH + c] = v[i] * scales[c];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        __global uint4 *copy = to + ((long)(n * s.groups + group) * s.chunks + chunk) * (2 * s.positions * 8);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int own = (item >> 3) + 32 * i, unit = item & 7, position = first + own;
            __local const float *values = block_of + own * PITCH + unit * 8;
            uint2 pairs[4];
#pragma unroll
            for (int l = 0; l < 4; l++)
                pairs[l] = mx_pair_times(values[2 * l], values[2 * l + 1], 1);
            if (position < s.positions) {
                __global uint4 *at = copy + position * 8 + (unit ^ (position & 7));
                at[0] = (uint4)(pairs[0].x, pairs[1].x, pairs[2].x, pairs[3].x);
                at[s.positions * 8] = (uint4)(pairs[0].y, pairs[1].y, pairs[2].y, pairs[3].y);
            }
        }
    }
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void pairs_pack(
    __global const float *restrict X, long x_offset, __global const float *restrict Y, long y_offset,
    __global const uint *restrict largest, long largest_offset, __global float *restrict inverses, long inverses_offset,
    __global float *restrict x_packed, long x_packed_offset, __global float *restrict y_packed, long y_packed_offset,
    const mx_nv_pack_taps g)
{
    __local float scales[64], block[64 * PITCH];
    const int number = get_group_id(0), of_x = g.x.groups * g.x.chunks * g.x.parts;
    const int x_chunks = g.x.groups * g.x.chunks;
    __global const mx_seen *seen = (__global const mx_seen *)(largest + largest_offset);
    inverses += inverses_offset;
    if (number < of_x)
        mx_pack(X + x_offset, seen, inverses, mx_packed(x_packed + x_packed_offset), g.x, number,
                g.largest_parts[0], &g, X_LAST, 28, scales, block);
    else
        mx_pack(Y + y_offset, seen + x_chunks * g.largest_parts[0] * 64, inverses + x_chunks * 64,
                mx_packed(y_packed + y_packed_offset), g.y, number - of_x, g.largest_parts[1], &g, Y_LAST, 0, scales,
                block);
}
