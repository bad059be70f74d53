/* Between a tensor that filters meet patch by patch, without overlap, and a copy of it whose channels are a whole patch,
 * with which the convolution is a 1x1:
 *
 *     packed[n][patch of c z r s][d][p][q] = x[n][c][d * Z + z][p * R + r][q * S + s]
 *
 * in whatever order the host's axes have both.
 *
 *   work-item:  RUNS * VEC elements that are neighbours in x; in the copy they are `apart` from each other
 *               axis 0 of the others changes fastest: neighbouring work-items are neighbours in the copy
 *
 * gather_patches: the copy from x, bit for bit.
 * spread_patches: x = alpha * copy + beta * x.
 * Grid: one axis, local 256, global `items` or more.
 * Bound by: memory; each element is read once and written once.
 */
#ifndef X_TYPE /* half, bfloat16 or float */
#define X_TYPE float
#endif
#ifndef AXES /* 1 to MOST_PATCH_AXES */
#define AXES 4
#endif
#ifndef VEC /* elements of x that are read at once, 16 bytes at most */
#define VEC 1
#endif
#ifndef RUNS /* vectors of a work-item */
#define RUNS 1
#endif
#ifndef APART /* 0: a run is one in the copy too, and RUNS is 1 */
#define APART 1
#endif
#include "include/common.h"
#include "conv/nvidia/patches_args.h"
#include "include/quotient.h"

#if MX_TYPE(X_TYPE) == MX_TYPE_float
#define WORD MX_JOIN(MX_FLOATS_, VEC)
#define MX_FLOATS_1 uint
#define MX_FLOATS_2 uint2
#define MX_FLOATS_4 uint4
#define UNIT uint
#else
#define WORD MX_JOIN(MX_HALVES_, VEC)
#define MX_HALVES_1 ushort
#define MX_HALVES_2 uint
#define MX_HALVES_4 uint2
#define MX_HALVES_8 uint4
#define UNIT ushort
#endif

typedef union {
    WORD all;
    UNIT of[VEC];
} mx_run;

/* Where a work-item's first element is in x, and in the copy. */
static inline int2 mx_place_in_patches(int item, const mx_nv_patches *g)
{
    int2 at = (int2)(0);
#pragma unroll
    for (int a = 0; a < AXES; a++) {
        const int rest = a == AXES - 1 ? 0 : mx_quotient(item, g->by[a]), i = item - rest * g->len[a];
        at += (int2)(i * g->x[a], i * g->packed[a]);
        item = rest;
    }
    return at;
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void gather_patches(
    __global const STORAGE(X_TYPE) *restrict X, long x_offset, __global STORAGE(X_TYPE) *restrict packed,
    long packed_offset, const mx_nv_patches g)
{
    const int item = get_global_id(0);
    if (item >= g.items)
        return;
    const int2 at = mx_place_in_patches(item, &g);
    __global const UNIT *x = (__global const UNIT *)(X + x_offset + at.x);
    __global UNIT *to = (__global UNIT *)(packed + packed_offset + at.y);
    mx_run run[RUNS];
#pragma unroll
    for (int r = 0; r < RUNS; r++)
        if ((ulong)x % sizeof(WORD) == 0)
            run[r].all = ((__global const WORD *)x)[r];
        else
#pragma unroll
            for (int i = 0; i < VEC; i++)
                run[r].of[i] = x[r * VEC + i];
#pragma unroll
    for (int r = 0; r < RUNS; r++)
        if (!APART && (ulong)to % sizeof(WORD) == 0)
            *(__global WORD *)to = run[r].all;
        else
#pragma unroll
            for (int i = 0; i < VEC; i++)
                to[(long)(r * VEC + i) * g.apart] = run[r].of[i];
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void spread_patches(
    __global const STORAGE(X_TYPE) *restrict packed, long packed_offset, __global STORAGE(X_TYPE) *restrict X,
    long x_offset, const mx_nv_patches g, const float alpha, const float beta)
{
    const int item = get_global_id(0);
    if (item >= g.items)
        return;
    const int2 at = mx_place_in_patches(item, &g);
    __global STORAGE(X_TYPE) *x = X + x_offset + at.x;
    packed += packed_offset + at.y;
    if (alpha != 1 || beta != 0 || (ulong)x % sizeof(WORD) != 0) {
        for (int i = 0; i < RUNS * VEC; i++)
            STORE_MIXED(X_TYPE, x, i, LOAD(X_TYPE)(packed, (long)i * g.apart), alpha, beta);
        return;
    }
    __global const UNIT *from = (__global const UNIT *)packed;
    mx_run run[RUNS];
#pragma unroll
    for (int r = 0; r < RUNS; r++)
        if (!APART && (ulong)from % sizeof(WORD) == 0)
            run[r].all = *(__global const WORD *)from;
        else
#pragma unroll
            for (int i = 0; i < VEC; i++)
                run[r].of[i] = from[(long)(r * VEC + i) * g.apart];
#pragma unroll
    for (int r = 0; r < RUNS; r++)
        ((__global WORD *)x)[r] = run[r].all;
}
