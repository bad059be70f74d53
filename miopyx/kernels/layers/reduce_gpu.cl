/* Reductions on GPUs; layers/reduce.h has the formulas.
 *
 *   reduce_along    a is dense along what is reduced, or along nothing: a group has SIDE teams of DEEP work-items; a team
 *                   has an element of c, or a part of one, of which its work-items read every DEEP-th vector
 *
 *                     element 0  |0|1| .. |DEEP-1|0|1| ..
 *                     element 1  |0|1| .. |DEEP-1|0|1| ..
 *
 *   reduce_across   a is dense along c: a group has SIDE vectors of neighbouring elements of c, or a part of them; team
 *                   d of DEEP reads every DEEP-th row
 *
 *                     row 0  team 0  |0|1| .. |SIDE-1|
 *                     row 1  team 1  |0|1| .. |SIDE-1|
 *
 *   reduce_finish   joins the parts as reduce_across joins rows
 *
 *   What a team's work-items have is joined in local memory, in an order that depends on the sizes alone.
 *
 * Grid:         reduce_along: count * parts / SIDE groups; reduce_across: blocks * parts of each line; reduce_finish:
 *               count / SIDE, rounded up; of SIDE * DEEP work-items.
 * Local memory: a vector and a vector of places for each work-item.
 * Parameters:   those of layers/reduce.h; WHAT: 0 along, 1 across, 2 finish; VEC: 1 for finish; SIDE, DEEP: powers of
 *               two; UNROLL, below.  Lines of a are made of whole vectors, a part too; an accumulator takes
 *               BLOCK_TERMS terms at most.
 * Bound by:     memory.
 */
#ifndef WHAT
#define WHAT 0
#endif
#ifndef VEC
#define VEC 1
#endif
#ifndef SIDE
#define SIDE 32
#endif
#ifndef DEEP
#define DEEP 8
#endif
#ifndef UNROLL /* vectors on their way at once: 4 or 8 */
#define UNROLL 4
#endif
#include "layers/reduce.h"
#include "include/gpu_vectors.h"

#define LOCAL (SIDE * DEEP)
typedef MX_V(SAME) place_t;
#if VEC == 1
#define MASK int
#else
#define MASK place_t
#endif
MX_GET(get_a, A_TYPE)

static inline vec_t get(__global const STORAGE(A_TYPE) *p, const bool aligned)
{
    const vec_t v = get_a(p, aligned);
    const vec_t w = PREPARED(v);
    return COUNTED(w);
}

#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void

#if VEC == 1
#define LANE(v, i) (v)
#else
#define LANE(v, i) (((const ACC *)&(v))[i])
#define PLACE_LANE(v, i) (((const SAME *)&(v))[i])
#endif

/* Joins what work-items at a distance of DEEP / 2, DEEP / 4 ... `last` times `apart` have. */
#define JOIN_TEAM(T, P, K, best, at, numbers, spots, me, rank, apart, last)          \
    for (int half_ = DEEP / 2; half_ >= (last); half_ /= 2) {                        \
        barrier(CLK_LOCAL_MEM_FENCE);                                                \
        numbers[me] = best;                                                          \
        if (INDEXED)                                                                 \
            spots[me] = at;                                                          \
        barrier(CLK_LOCAL_MEM_FENCE);                                                \
        if ((rank) < half_) {                                                        \
            const T other_ = numbers[(me) + half_ * (apart)];                        \
            const P there_ = INDEXED ? spots[(me) + half_ * (apart)] : at;           \
            JOIN(K, best, at, other_, there_);                                       \
        }                                                                            \
    }

#if WHAT == 0

/* NVIDIA's warps join without local memory and barriers. */
#if defined(__NV_CL_C_VERSION) && LOCAL % 32 == 0
#define LAST_BY_MEMORY 32
#include "include/warp.h"
#define EXCHANGE_float(v, by) as_float(mx_exchange(as_uint(v), by))
#define EXCHANGE_int(v, by) as_int(mx_exchange(as_uint(v), by))
#define EXCHANGE_double(v, by) as_double((uint2)(mx_exchange(as_uint2(v).x, by), mx_exchange(as_uint2(v).y, by)))
#define EXCHANGE_long(v, by) as_long((uint2)(mx_exchange(as_uint2(v).x, by), mx_exchange(as_uint2(v).y, by)))
#define JOIN_WARP(best, at)                                                                          \
    _Pragma("unroll") for (int half_ = min(DEEP / 2, 16); half_ > 0; half_ /= 2) {                   \
        const ACC other_ = MX_JOIN(EXCHANGE_, ACC)(best, half_);                                     \
        const SAME there_ = INDEXED ? MX_JOIN(EXCHANGE_, SAME)(at, half_) : at;                      \
        JOIN(int, best, at, other_, there_);                                                         \
    }
#else
#define LAST_BY_MEMORY 1
#define JOIN_WARP(best, at)
#endif

KERNEL reduce_along(ARGUMENTS)
{
    __local ACC numbers[LOCAL];
    __local SAME spots[INDEXED ? LOCAL : 1];
    OFFSETS;
    const int me = (int)get_local_id(0), lane = me % DEEP;
    const long unit = (long)get_group_id(0) * SIDE + me / DEEP;
    const bool mine = unit < s.count * s.parts;
    const long part = unit % s.parts, k = unit / s.parts, line = k / s.kept.len[4], x = k % s.kept.len[4];
    LINE(line);
    const INDEX row = (INDEX)(s.reduced.len[4] / VEC);
    const long step = s.reduced.stride[0][4];
    const INDEX end = mine ? (INDEX)(min(s.length, (part + 1) * s.part) / VEC) : 0;
    const bool aligned = MX_ALIGNED(a);
    __global const STORAGE(A_TYPE) *p = a + (mine ? A_AT(x) : 0);
    vec_t best = (vec_t)IDENTITY;
    place_t at = (place_t)NOWHERE;
#if VEC == 1
#define OF_LANES 0
#elif VEC == 2
#define OF_LANES ((place_t)(0, 1) * (SAME)s.reduced.stride[1][4])
#elif VEC == 4
#define OF_LANES ((place_t)(0, 1, 2, 3) * (SAME)s.reduced.stride[1][4])
#else
#define OF_LANES ((place_t)(0, 1, 2, 3, 4, 5, 6, 7) * (SAME)s.reduced.stride[1][4])
#endif
#define TAKE(p, aligned, flat)                                                                    \
    do {                                                                                          \
        const vec_t v_ = get(p, aligned);                                                         \
        const place_t i_ = INDEXED ? (place_t)(SAME)(flat) + OF_LANES : (place_t)0;               \
        JOIN(MASK, best, at, v_, i_);                                                             \
    } while (0)
    if (s.length == s.reduced.len[4]) { /* a single line, as most are */
        if (aligned) {
#if UNROLL == 8
#pragma unroll 8
#else
#pragma unroll 4
#endif
            for (INDEX i = (INDEX)(part * s.part / VEC) + lane; i < end; i += DEEP)
                TAKE(p + (long)i * VEC * step, true, (long)i * VEC * s.reduced.stride[1][4]);
        } else {
#if UNROLL == 8
#pragma unroll 8
#else
#pragma unroll 4
#endif
            for (INDEX i = (INDEX)(part * s.part / VEC) + lane; i < end; i += DEEP)
                TAKE(p + (long)i * VEC * step, false, (long)i * VEC * s.reduced.stride[1][4]);
        }
    } else {
#pragma unroll 4
        for (INDEX i = (INDEX)(part * s.part / VEC) + lane; i < end; i += DEEP) {
            const INDEX of = i / row, from = (i - of * row) * VEC;
            TAKE(p + mx_grid_offset(s.reduced, 0, of) + (long)from * step, aligned,
                 mx_grid_offset(s.reduced, 1, of) + (long)from * s.reduced.stride[1][4]);
        }
    }
#if VEC == 1
    ACC one = best;
    SAME place = at;
#else
    ACC one = LANE(best, 0);
    SAME place = PLACE_LANE(at, 0);
#pragma unroll
    for (int i = 1; i < VEC; i++)
        JOIN(int, one, place, LANE(best, i), PLACE_LANE(at, i));
#endif
    JOIN_TEAM(ACC, SAME, int, one, place, numbers, spots, me, lane, 1, LAST_BY_MEMORY)
    JOIN_WARP(one, place)
    if (mine && lane == 0)
        GIVE(x, one, place, part);
}

#elif WHAT == 1

KERNEL reduce_across(ARGUMENTS)
{
    __local vec_t numbers[LOCAL];
    __local place_t spots[INDEXED ? LOCAL : 1];
    OFFSETS;
    const int me = (int)get_local_id(0), column = me % SIDE, team = me / SIDE;
    const long unit = get_group_id(0), part = unit % s.parts, block = unit / s.parts % s.blocks;
    const long line = unit / s.parts / s.blocks, x = block * s.block + column * VEC;
    LINE(line);
    const bool mine = x < s.kept.len[4], aligned = MX_ALIGNED(a);
    const INDEX row = (INDEX)s.reduced.len[4], end = mine ? (INDEX)min(s.length, (part + 1) * s.part) : 0;
    __global const STORAGE(A_TYPE) *p = a + (mine ? a_line + x : 0);
    vec_t best = (vec_t)IDENTITY;
    place_t at = (place_t)NOWHERE;
#define TAKE(p, aligned, flat)                                    \
    do {                                                          \
        const vec_t v_ = get(p, aligned);                         \
        const place_t i_ = (place_t)(SAME)(INDEXED ? (flat) : 0); \
        JOIN(MASK, best, at, v_, i_);                             \
    } while (0)
    if (s.length == s.reduced.len[4]) {
        if (aligned) {
#pragma unroll 4
            for (INDEX i = (INDEX)(part * s.part) + team; i < end; i += DEEP)
                TAKE(p + (long)i * s.reduced.stride[0][4], true, (long)i * s.reduced.stride[1][4]);
        } else {
#pragma unroll 4
            for (INDEX i = (INDEX)(part * s.part) + team; i < end; i += DEEP)
                TAKE(p + (long)i * s.reduced.stride[0][4], false, (long)i * s.reduced.stride[1][4]);
        }
    } else {
#pragma unroll 4
        for (INDEX i = (INDEX)(part * s.part) + team; i < end; i += DEEP) {
            const INDEX of = i / row, from = i - of * row;
            TAKE(p + mx_grid_offset(s.reduced, 0, of) + (long)from * s.reduced.stride[0][4], aligned,
                 mx_grid_offset(s.reduced, 1, of) + (long)from * s.reduced.stride[1][4]);
        }
    }
    JOIN_TEAM(vec_t, place_t, MASK, best, at, numbers, spots, me, team, SIDE, 1)
    if (mine && team == 0) {
#if VEC == 1
        GIVE(x, best, at, part);
#else
#pragma unroll
        for (int i = 0; i < VEC; i++)
            GIVE(x + i, LANE(best, i), PLACE_LANE(at, i), part);
#endif
    }
}

#else

KERNEL reduce_finish(ARGUMENTS)
{
    __local ACC numbers[LOCAL];
    __local SAME spots[INDEXED ? LOCAL : 1];
    OFFSETS;
    const int me = (int)get_local_id(0), column = me % SIDE, team = me / SIDE;
    const long k = (long)get_group_id(0) * SIDE + column, line = k / s.kept.len[4], x = k % s.kept.len[4];
    LINE(line);
    ACC value = IDENTITY;
    SAME place = NOWHERE;
    if (k < s.count)
        for (long part = team; part < s.parts; part += DEEP) {
            const SAME there = INDEXED ? PLACES[PART_AT(x, part)] : NOWHERE;
            JOIN(int, value, place, space[PART_AT(x, part)], there);
        }
    JOIN_TEAM(ACC, SAME, int, value, place, numbers, spots, me, team, SIDE, 1)
    if (k < s.count && team == 0)
        PUT(x, value, place);
}

#endif
