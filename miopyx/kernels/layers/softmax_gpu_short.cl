/* Softmax, its logarithm and the gradients on GPUs, of short sets that follow one another but are not made of whole
 * vectors: 21 channels that run fastest, say.  layers/softmax.cl has the formulas.
 *
 *   memory:  |set 0 ....|set 1 ....|...   A work-group of LOCAL work-items copies LOCAL sets of COUNT numbers by way of
 *            |16 B|16 B|16 B|16 B|...     local memory, 16 bytes a work-item at a time; each computes one set.
 *
 * Grid:         ceil(sets / LOCAL) * LOCAL.
 * Local memory: LOCAL * COUNT elements of T, backward twice as many.
 * Parameters:   T, LOG, COUNT, LOCAL, below.
 * Bound by:     memory; with an even COUNT by bank conflicts.
 */
#ifndef T
#define T float
#endif
#ifndef LOG
#define LOG 0
#endif
#ifndef COUNT
#define COUNT 21
#endif
#ifndef LOCAL /* a multiple of 16 */
#define LOCAL 128
#endif
#define VEC 1
#include "include/common.h"
#include "include/vectors.h"
#include "include/gpu_vectors.h"
#include "include/group_inline.h"

#define BYTES (COUNT * (int)sizeof(STORAGE(T)))
#define PIECES ((BYTES + 15) / 16) /* of 16 bytes, that a work-item copies */
#define BUFFER(name) __local STORAGE(T) name[LOCAL * COUNT] __attribute__((aligned(16)))

#define PARAMETERS const mx_grid inside, const mx_grid outside, const long block, const SCALAR alpha, const SCALAR beta
#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void

static inline ACC get(__local const STORAGE(T) *p)
{
    const STORAGE(T) bits = *p;
    return MX_WIDE(T, bits);
}

static inline void put(__local STORAGE(T) *p, const ACC value)
{
    STORAGE(T) bits;
    MX_JOIN(MX_TO_, T)(bits, value);
    *p = bits;
}

/* Elements of a group. */
static inline int all_of(const mx_grid *outside)
{
    return (int)min((long)LOCAL, mx_grid_size(*outside) - (long)get_group_id(0) * LOCAL) * COUNT;
}

static inline void take(__local STORAGE(T) *to, __global const STORAGE(T) *from, const int all)
{
    const int me = (int)get_local_id(0), pieces = (ulong)from % 16 == 0 ? all * (int)sizeof(*from) / 16 : 0;
    uint4 held[PIECES];
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        if (me + i * LOCAL < pieces)
            held[i] = ((__global const uint4 *)from)[me + i * LOCAL];
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        if (me + i * LOCAL < pieces)
            ((__local uint4 *)to)[me + i * LOCAL] = held[i];
    for (int i = pieces * 16 / (int)sizeof(*from) + me; i < all; i += LOCAL)
        to[i] = from[i];
}

static inline void give(__global STORAGE(T) *to, __local const STORAGE(T) *from, const int all)
{
    const int me = (int)get_local_id(0), pieces = (ulong)to % 16 == 0 ? all * (int)sizeof(*to) / 16 : 0;
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        if (me + i * LOCAL < pieces)
            ((__global uint4 *)to)[me + i * LOCAL] = ((__local const uint4 *)from)[me + i * LOCAL];
    for (int i = pieces * 16 / (int)sizeof(*to) + me; i < all; i += LOCAL)
        to[i] = from[i];
}

/* Between the group's computing and `give`, by which others write what a work-item has read of the old result. */
GROUP_INLINE void all_computed(const SCALAR beta)
{
    if (beta != 0)
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    else
        barrier(CLK_LOCAL_MEM_FENCE);
}

#define FIRST ((long)get_group_id(0) * LOCAL * COUNT)

KERNEL softmax_forward(__global const STORAGE(T) *x, long x_offset, __global STORAGE(T) *y, long y_offset, PARAMETERS)
{
    BUFFER(sets);
    const int all = all_of(&outside), mine = (int)get_local_id(0) * COUNT;
    x += x_offset + FIRST;
    y += y_offset + FIRST;
    take(sets, x, all);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (mine < all) {
        ACC held[COUNT], most = -INFINITY, sum = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            held[i] = get(sets + mine + i);
            most = fmax(most, held[i]);
        }
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            held[i] -= most;
            const ACC e = exp(held[i]);
            if (!LOG)
                held[i] = e;
            sum += e;
        }
        const ACC scale = LOG ? log(sum) : (ACC)alpha / sum;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            ACC value = LOG ? (ACC)alpha * (held[i] - scale) : held[i] * scale;
            if (beta != 0)
                value += (ACC)beta * (ACC)LOAD(T)(y, mine + i);
            put(sets + mine + i, value);
        }
    }
    all_computed(beta);
    give(y, sets, all);
}

KERNEL softmax_backward(__global const STORAGE(T) *y, long y_offset, __global const STORAGE(T) *dy, long dy_offset,
                        __global STORAGE(T) *dx, long dx_offset, PARAMETERS)
{
    BUFFER(sets);
    BUFFER(others);
    const int all = all_of(&outside), mine = (int)get_local_id(0) * COUNT;
    y += y_offset + FIRST;
    dy += dy_offset + FIRST;
    dx += dx_offset + FIRST;
    take(sets, y, all);
    take(others, dy, all);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (mine < all) {
        ACC sum = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            sum += LOG ? get(others + mine + i) : get(others + mine + i) * get(sets + mine + i);
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const ACC one = get(sets + mine + i), g = get(others + mine + i);
            ACC value = (ACC)alpha * (LOG ? g - exp(one) * sum : one * (g - sum));
            if (beta != 0)
                value += (ACC)beta * (ACC)LOAD(T)(dx, mine + i);
            put(sets + mine + i, value);
        }
    }
    all_computed(beta);
    give(dx, sets, all);
}
