/* V, VEC numbers of type ACC at a time: their loads and stores, and grids. */
#include "include/functions.h"

#if VEC == 1
#undef VSTORE
#define VSTORE(T) STORE(T)
#define LOADV(T) LOAD(T)
#else
#define LOADV(T) VLOAD(T)
#endif

/* `count` elements, VEC at most, at a stride of `step`; the lanes behind them are `rest`. */
static inline V load_lanes(__global const STORAGE(T) *p, long at, long step, int count, ACC rest)
{
#if VEC == 1
    return count > 0 ? (ACC)LOAD(T)(p, at) : rest;
#else
    ACC lane[VEC];
    for (int i = 0; i < VEC; i++)
        lane[i] = i < count ? (ACC)LOAD(T)(p, at + i * step) : rest;
    return VJOIN(vload)(0, lane);
#endif
}

static inline void store_lanes(__global STORAGE(T) *p, long at, long step, int count, V value)
{
#if VEC == 1
    if (count > 0)
        STORE(T)(p, at, value);
#else
    ACC lane[VEC];
    VJOIN(vstore)(value, 0, lane);
    for (int i = 0; i < count; i++)
        STORE(T)(p, at + i * step, lane[i]);
#endif
}

/* The offset of element i of a grid in tensor t of it. */
static inline long mx_grid_element(const mx_grid g, int t, INDEX i)
{
    if (i < g.len[4])
        return i * g.stride[t][4];
    long at = (i % (INDEX)g.len[4]) * g.stride[t][4];
    i /= (INDEX)g.len[4];
    /* Unrolled: what GPUs index by a variable is in memory, for them the whole grid. */
#pragma unroll
    for (int axis = 3; axis >= 0; axis--)
        if (i > 0) {
            at += (i % (INDEX)g.len[axis]) * g.stride[t][axis];
            i /= (INDEX)g.len[axis];
        }
    return at;
}

/* One more than the largest position in tensor t of a grid. */
static inline long mx_grid_extent(const mx_grid g, int t)
{
    long last = 0;
    for (int axis = 0; axis < 5; axis++)
        last += (g.len[axis] - 1) * g.stride[t][axis];
    return last + 1;
}

/* How many elements a grid has. */
static inline long mx_grid_size(const mx_grid g)
{
    return g.len[0] * g.len[1] * g.len[2] * g.len[3] * g.len[4];
}
