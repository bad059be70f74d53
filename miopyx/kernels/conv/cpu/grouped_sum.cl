/* The sum of the splits of backward weights, in order: rows of groups of LANES filters, in them inputs, taps, filters.
 * NDRange: local (1, 1, 1), global (filters / SUM_FILTERS).
 */
#ifndef X_TYPE
#define X_TYPE float
#endif
#ifndef LANES
#define LANES 1
#endif
#define SUM_FILTERS 4
#include "include/common.h"
#include "conv/cpu/grouped_args.h"

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void sum_partial(
    __global const ACC *restrict partial, long partial_offset, __global STORAGE(X_TYPE) *restrict dw, long dw_offset,
    const mx_grouped_sum g, const SCALAR alpha, const SCALAR beta)
{
    const int first = (int)get_group_id(0) * SUM_FILTERS, all = g.taps[0] * g.taps[1] * g.taps[2];
    partial += partial_offset;
    dw += dw_offset;
    for (int k = first; k < min(first + SUM_FILTERS, g.filters); k++) {
        __global const ACC *from = partial + (long)(k / LANES) * g.inputs * all * LANES + k % LANES;
        for (int c = 0; c < g.inputs; c++)
            for (int z = 0; z < g.taps[0]; z++)
                for (int r = 0; r < g.taps[1]; r++)
                    for (int s = 0; s < g.taps[2]; s++, from += LANES) {
                        ACC sum = 0;
                        for (int split = 0; split < g.splits; split++)
                            sum += from[split * g.row];
                        STORE_MIXED(X_TYPE, dw, k * g.k + c * g.c + z * g.d + r * g.h + s * g.w, sum, alpha, beta);
                    }
    }
}
