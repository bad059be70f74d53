/* What the kernels of local response normalisation share: definitions, arguments, and powers of VALUE, which the file
 * that takes this in defines: ACC, or vectors of it. */
#ifndef T_TYPE /* storage type of all tensors */
#define T_TYPE float
#endif
#ifndef BACKWARD /* 0 forward, 1 backward */
#define BACKWARD 0
#endif
#ifndef SAVE /* forward: 1 where scales are stored */
#define SAVE 0
#endif
#ifndef N /* GPUs: length of the window, 0: any */
#define N 5
#endif
#ifndef POWER /* scale^-beta: beta * 4 where that is 2, 3 or 4 and scale > 0, else 0 */
#define POWER 3
#endif
#include "include/common.h"

#if N < 0 || N > 16
#error "N must be 0 ... 16"
#endif

#include "layers/lrn_args.h"

#define T STORAGE(T_TYPE)

#if BACKWARD
#define BUFFERS                                                                                              \
    __global const T *restrict x, long x_offset, __global const T *restrict y, long y_offset,                \
        __global T *restrict dx, long dx_offset, __global const T *restrict dy, long dy_offset,              \
        __global const ACC *restrict scales, long scales_offset
#elif SAVE
#define BUFFERS                                                                                              \
    __global const T *restrict x, long x_offset, __global T *restrict y, long y_offset,                      \
        __global ACC *restrict scales, long scales_offset
#else
#define BUFFERS __global const T *restrict x, long x_offset, __global T *restrict y, long y_offset
#endif

static inline VALUE power(VALUE s, ACC beta)
{
#if POWER == 2
    return rsqrt(s);
#elif POWER == 3
    const VALUE r = rsqrt(s);
    return r * sqrt(r);
#elif POWER == 4
    return 1 / s;
#else
    /* 0 by itself: beside lanes of 0 PoCL's powr of vectors is wrong. */
    const ACC of_zero = powr((ACC)0, -beta);
    return s == 0 ? (VALUE)of_zero : powr(s == 0 ? (VALUE)1 : s, (VALUE)(-beta));
#endif
}
