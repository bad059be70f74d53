/* The sum of a run's partial sums, of conv/nvidia/hopper_weights.cl, and of those of the runs before: they lie one set
 * behind the other, sets 1 to `splits` are the run's, set 0 has the sum, which the first run does not read.
 *
 * Grid: one axis, local 256, global a multiple of it, one work-item four floats of a set, `fours` of them.
 * Bound by: memory.
 */
#include "include/common.h"

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void add_parts(
    __global float *partial, long partial_offset, const int fours, const int splits, const int first)
{
    __global float4 *at = (__global float4 *)(partial + partial_offset) + get_global_id(0);
    float4 sums[4] = {first ? (float4)(0, 0, 0, 0) : at[0], (float4)(0, 0, 0, 0), (float4)(0, 0, 0, 0),
                      (float4)(0, 0, 0, 0)};
#pragma unroll 1
    for (int split = 1; split <= splits; split += 4)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (split + i <= splits)
                sums[i] += at[(long)(split + i) * fours];
    at[0] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
