/* int8 tensors as conv/nvidia/mma.cl reads them: channels last with zeros behind the channels of each group,
 *
 *   to[image][pixel][group][reduced] = from, any strides; weights are images of taps.  `to` is 16-byte aligned.
 *
 *              pixels ->  64           A work-group transposes one tile of 64 pixels x 64 channels through local
 *   channels +------+------+           memory; a work-item 4 x 4 bytes of it.
 *      64    |  0   |  1   |
 *            +------+------+
 *
 * Grid: one axis, local 256, global 256 * ceil(pixels / 64) * ceil(reduced / 64) * groups * images.
 * Local memory: 64 rows of 17 words (one word of padding against bank conflicts).
 * Bound by: memory.
 */
#define X_TYPE int8
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/pack_args.h"

#define SIDE 64
#define PITCH (SIDE / 4 + 1)

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void pack_bytes(
    __global const char *restrict from, long from_offset, __global char *restrict to, long to_offset,
    const mx_nv_bytes g)
{
    __local uint tile[SIDE * PITCH]; /* four channels a word */
    const int item = get_local_id(0), across = (g.pixels + SIDE - 1) / SIDE, down = (g.reduced + SIDE - 1) / SIDE;
    int i = get_group_id(0);
    const int p0 = i % across * SIDE;
    i /= across;
    const int c0 = i % down * SIDE;
    i /= down;
    const int group = i % g.groups, image = i / g.groups;
    from += from_offset + (long)image * g.from_n + (long)group * g.from_g;

    /* Four pixels of four channels each: four words, one a channel, which become four, one a pixel. */
    const int pixel = item % 16 * 4, channel = item / 16 * 4;
    uint rows[4];
    const bool words = g.from_w == 1 && (g.from_h == g.w || g.pixels == g.w) && ((ulong)from & 3) == 0
                       && g.from_c % 4 == 0 && p0 + pixel + 4 <= g.pixels;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int c = c0 + channel + j;
        rows[j] = 0;
        if (c < g.channels) {
            if (words)
                rows[j] = *(__global const uint *)(from + (long)c * g.from_c + p0 + pixel);
            else
                for (int l = 0; l < 4; l++) {
                    const int p = p0 + pixel + l, h = mx_quotient(p, g.by_w);
                    if (p < g.pixels)
                        rows[j] |= (uint)(uchar)from[(long)c * g.from_c + h * g.from_h + (p - h * g.w) * g.from_w]
                                   << 8 * l;
                }
        }
    }
#pragma unroll
    for (int l = 0; l < 4; l++)
        tile[(pixel + l) * PITCH + channel / 4] =
            (rows[0] >> 8 * l & 255) | (rows[1] >> 8 * l & 255) << 8 | (rows[2] >> 8 * l & 255) << 16
            | (rows[3] >> 8 * l & 255) << 24;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int c = item % 4 * 16, p = item / 4;
    if (c0 + c >= g.reduced || p0 + p >= g.pixels)
        return;
    __local const uint *line = tile + p * PITCH + c / 4;
    to += to_offset + (((long)image * g.pixels + p0 + p) * g.groups + group) * g.reduced + c0 + c;
    *(__global uint4 *)to = (uint4)(line[0], line[1], line[2], line[3]);
}
