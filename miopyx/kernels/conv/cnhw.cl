/* Transposes between the images of a tensor and one matrix t of all images, for 1x1 convolutions without padding.
 *
 *     t[channel][n][pixel], packed; pixel = (do * Ho + ho) * Wo + wo counts the pixels of y
 *
 *     to_cnhw_sampled       t = every step-th pixel of x    (x, t, problem)
 *     to_cnhw               t = y                           (y, t, problem)
 *     from_cnhw             y = alpha * t + beta * y        (t, y, problem, alpha, beta)
 *     from_cnhw_scattered   dx = alpha * t + beta * dx at every step-th pixel, t = 0 elsewhere
 *
 * Shape: filter 1, pad 0, any steps and tensor strides.
 * Grid: one axis.
 *
 *     ROWS 1, CPUs, local 1:        work-item = plane (n, channel)      global: images * channels
 *     ROWS 0, GPUs, any local:      work-item = element                 global, rounded up: elements of t,
 *                                                                       from_cnhw_scattered: of x
 * Memory: no local memory; a ROWS 0 work-item and its neighbours are neighbours along w.
 * Bound by: memory; each element is read and written once.
 */
#ifndef X_TYPE /* storage type of x (dx) */
#define X_TYPE float
#endif
#ifndef Y_TYPE /* storage type of y (dy) */
#define Y_TYPE X_TYPE
#endif
#ifndef T_TYPE /* storage type of t */
#define T_TYPE X_TYPE
#endif
#ifndef ROWS /* work-items: 1 large ones, 0 one for each element */
#define ROWS 0
#endif
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"

#if !MX_IS_STORAGE(X_TYPE) || !MX_IS_STORAGE(Y_TYPE) || !MX_IS_STORAGE(T_TYPE)
#error "X_TYPE, Y_TYPE and T_TYPE must each be half, float, double, bfloat16, int8 or int32"
#endif

/* The header of the loop (ROWS) or of the condition that leads to places n c d h w of a tensor that has the lengths of
 * `extent` but for its channels. */
#if ROWS
#define KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1)))
#define FOR_EACH_PLACE(extent, channels)                                                              \
    const long n = (long)get_group_id(0) / (channels), c = (long)get_group_id(0) % (channels);        \
    for (long d = 0; d < (extent).len[2]; d++)                                                        \
        for (long h = 0; h < (extent).len[3]; h++)                                                    \
            for (long w = 0; w < (extent).len[4]; w++)
#else
#define KERNEL __kernel
#define FOR_EACH_PLACE(extent, channels)                                                              \
    INDEX i = (INDEX)get_global_id(0);                                                                \
    const long w = i % (INDEX)(extent).len[4];                                                        \
    i /= (INDEX)(extent).len[4];                                                                      \
    const long h = i % (INDEX)(extent).len[3];                                                        \
    i /= (INDEX)(extent).len[3];                                                                      \
    const long d = i % (INDEX)(extent).len[2];                                                        \
    i /= (INDEX)(extent).len[2];                                                                      \
    const long c = i % (INDEX)(channels), n = i / (INDEX)(channels);                                  \
    if (n < (extent).len[0])
#endif

/* Where t holds image n and channel c for place d h w of y. */
static inline long in_t(const mx_tensor y, long n, long c, long d, long h, long w)
{
    return (((c * y.len[0] + n) * y.len[2] + d) * y.len[3] + h) * y.len[4] + w;
}

KERNEL void to_cnhw_sampled(__global const STORAGE(X_TYPE) *restrict x, long x_offset,
                            __global STORAGE(T_TYPE) *restrict t, long t_offset, const mx_conv_problem p)
{
    FOR_EACH_PLACE(p.y, p.x.len[1]) {
        const long from = x_offset + mx_offset(p.x, n, c, d * p.step[0], h * p.step[1], w * p.step[2]);
        COPY(T_TYPE, t, t_offset + in_t(p.y, n, c, d, h, w), X_TYPE, x, from);
    }
}

KERNEL void to_cnhw(__global const STORAGE(Y_TYPE) *restrict y, long y_offset, __global STORAGE(T_TYPE) *restrict t,
                    long t_offset, const mx_conv_problem p)
{
    FOR_EACH_PLACE(p.y, p.y.len[1]) {
        const long from = y_offset + mx_offset(p.y, n, c, d, h, w);
        COPY(T_TYPE, t, t_offset + in_t(p.y, n, c, d, h, w), Y_TYPE, y, from);
    }
}

KERNEL void from_cnhw(__global const STORAGE(T_TYPE) *restrict t, long t_offset, __global STORAGE(Y_TYPE) *restrict y,
                      long y_offset, const mx_conv_problem p, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(y, y_offset);
    FOR_EACH_PLACE(p.y, p.y.len[1]) {
        const ACC value = (ACC)LOAD(T_TYPE)(t, t_offset + in_t(p.y, n, c, d, h, w));
        const long to = y_offset + mx_offset(p.y, n, c, d, h, w);
        OF_FILTER(c)
        STORE_ONE(Y_TYPE, y, to, value);
    }
}

KERNEL void from_cnhw_scattered(__global const STORAGE(T_TYPE) *restrict t, long t_offset,
                                __global STORAGE(X_TYPE) *restrict x, long x_offset, const mx_conv_problem p,
                                EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(x, x_offset);
#if ROWS
    long next = 0; /* the place in y for the next w on the grid: counted, because dividing each w would cost more */
#endif
    FOR_EACH_PLACE(p.x, p.x.len[1]) {
        const long od = (INDEX)d / (INDEX)p.step[0], oh = (INDEX)h / (INDEX)p.step[1];
#if ROWS
        const long ow = w == 0 ? 0 : next;
        next = ow + (w == ow * p.step[2]);
#else
        const long ow = (INDEX)w / (INDEX)p.step[2];
#endif
        const bool on_grid = d == od * p.step[0] && h == oh * p.step[1] && w == ow * p.step[2];
        ACC value = 0;
        if (on_grid && od < p.y.len[2] && oh < p.y.len[3] && ow < p.y.len[4])
            value = (ACC)LOAD(T_TYPE)(t, t_offset + in_t(p.y, n, c, od, oh, ow));
        const long to = x_offset + mx_offset(p.x, n, c, d, h, w);
        OF_FILTER(c)
        STORE_ONE(X_TYPE, x, to, value);
    }
}
