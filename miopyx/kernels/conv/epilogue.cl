/* The epilogue of a convolution in a launch of its own: what include/epilogue.h makes of results in x, which lie as y
 * does, and are y where there is no z.
 *
 *   y, n c d h w of any strides:  |-line-|-line-|-line-|   of w, or of channels where those lie next to each other
 *
 * Grid:         ROWS = 1, CPUs: local size 1, any number of work-groups, each with an equal share of the lines.
 *               ROWS = 0, GPUs: a work-item an element, neighbours in memory next to each other.
 * Local memory: none.
 * Bound by:     memory: y is read and written, z read.
 */
#ifndef RESULT_TYPE
#define RESULT_TYPE float
#endif
#ifndef EPILOGUE
#define EPILOGUE 0
#endif
#ifndef ROWS /* work-items: 1 large ones, 0 small ones */
#define ROWS 0
#endif
#ifndef VEC
#define VEC 1
#endif
#define T RESULT_TYPE
#include "include/common.h"
#include "include/vectors.h"
#include "include/epilogue.h"

#if ROWS
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fused_epilogue(
    __global const STORAGE(T) *X, long x_offset, __global STORAGE(T) *Y, long y_offset, const mx_tensor t,
    EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(Y, y_offset);
    const bool along_channels = t.len[1] > 1 && t.stride[1] == 1 && (t.len[4] == 1 || t.stride[4] != 1);
    const long length = along_channels ? t.len[1] : t.len[4], step = along_channels ? 1 : t.len[4] > 1 ? t.stride[4] : 1;
    const long channels = along_channels ? 1 : t.len[1], columns = along_channels ? t.len[4] : 1;
    const long lines = t.len[0] * channels * t.len[2] * t.len[3] * columns;
    const long me = get_group_id(0), groups = get_num_groups(0);
    for (long line = me * lines / groups; line < (me + 1) * lines / groups; line++) {
        const long w = line % columns, h = line / columns % t.len[3], d = line / (columns * t.len[3]) % t.len[2];
        const long c = line / (columns * t.len[3] * t.len[2]) % channels;
        const long n = line / (columns * t.len[3] * t.len[2] * channels);
        const long at = mx_offset(t, n, c, d, h, w);
        __global const STORAGE(T) *x = X + x_offset + at;
        __global STORAGE(T) *y = Y + y_offset + at;
        mx_epilogue own = mx_of_filter(EPILOGUE_ARGS, c);
        for (long i = 0; i < length; i += VEC) {
            const int count = (int)min((long)VEC, length - i);
            if (along_channels)
                own = mx_of_filters(EPILOGUE_ARGS, i, count);
            V v = load_lanes(x, i * step, step, count, 0) * own.scale_of + own.shift_of;
            if (beta != 0)
                v += (ACC)beta * load_lanes(OLD_RESULT(T, y), i * step, step, count, 0);
            store_lanes(y, i * step, step, count, mx_final(v, epilogue));
        }
    }
}
#else
__kernel void fused_epilogue(
    __global const STORAGE(T) *X, long x_offset, __global STORAGE(T) *Y, long y_offset, const mx_tensor t,
    EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(Y, y_offset);
    const INDEX i = get_global_id(0);
    if (i >= mx_size(t))
        return;
    const mx_place a = mx_place_of(i, t);
    const long at = mx_offset(t, a.n, a.c, a.d, a.h, a.w);
    __global STORAGE(T) *y = Y + y_offset + at;
    {
        OF_FILTER(a.c)
        STORE_ONE(T, y, 0, LOAD(T)(X, x_offset + at));
    }
}
#endif
