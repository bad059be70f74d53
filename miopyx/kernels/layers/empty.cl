/* A sum of nothing: t = beta t, and zero where beta is 0, whatever t held.
 *
 * Shape:  any strides.
 * Grid:   a work-item for each element of t, rounded up.
 * Memory: no workspace, no local memory.
 */
#ifndef TYPE /* storage type of t */
#define TYPE float
#endif
#include "include/common.h"

#if !MX_IS_STORAGE(TYPE) || MX_TYPE(TYPE) > MX_TYPE_bfloat16
#error "TYPE must be half, float, double or bfloat16"
#endif

__kernel void empty_sum(__global STORAGE(TYPE) *restrict t, long offset, const mx_tensor shape, const SCALAR beta)
{
    const INDEX item = (INDEX)get_global_id(0);
    if (item >= mx_size(shape))
        return;
    const mx_place at = mx_place_of(item, shape);
    t += offset;
    STORE_MIXED(TYPE, t, mx_offset(shape, at.n, at.c, at.d, at.h, at.w), (ACC)0, (ACC)0, beta);
}
