/* Filters of grouped convolutions as conv/cpu/grouped.cl and conv/cpu/depthwise.cl read them: blocks of LANES outputs
 * of a group, in them inputs, then taps, then outputs, with zeros for outputs that a group has not.
 * NDRange: local (1, 1, 1), global (blocks of all groups / PER_ITEM).
 */
#ifndef X_TYPE
#define X_TYPE float
#endif
#ifndef LANES
#define LANES 16
#endif
#define PER_ITEM 16
#include "include/common.h"
#include "conv/cpu/grouped_args.h"

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pack_weights(
    __global const STORAGE(X_TYPE) *restrict w, long w_offset, __global ACC *restrict packed, long packed_offset,
    const mx_filters f)
{
    const int blocks = (f.outputs + LANES - 1) / LANES, all = blocks * f.groups;
    const int first = (int)get_group_id(0) * PER_ITEM, end = min(first + PER_ITEM, all);
    const long size = (long)f.inputs * f.taps[0] * f.taps[1] * f.taps[2] * LANES;
    __global ACC *to = packed + packed_offset + first * size;
    for (int block = first; block < end; block++) {
        const int group = block / blocks, o = block % blocks * LANES, some = min(f.outputs - o, LANES);
        __global const STORAGE(X_TYPE) *from = w + w_offset + group * f.g + o * f.o;
        for (int i = 0; i < f.inputs; i++)
            for (int z = 0; z < f.taps[0]; z++)
                for (int r = 0; r < f.taps[1]; r++) {
                    long at = i * f.i + z * f.d + r * f.h;
                    for (int s = 0; s < f.taps[2]; s++, at += f.w, to += LANES)
                        if (some == LANES) {
#pragma unroll
                            for (int l = 0; l < LANES; l++)
                                to[l] = (ACC)LOAD(X_TYPE)(from, at + l * f.o);
                        } else {
                            for (int l = 0; l < LANES; l++)
                                to[l] = l < some ? (ACC)LOAD(X_TYPE)(from, at + l * f.o) : (ACC)0;
                        }
                }
    }
}
