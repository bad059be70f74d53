/* Layer norm, RMS norm and group norm on GPUs, of rows that fit a work-group's registers: each number is read once.
 * layers/layernorm.h has the formulas.
 *
 *   row 0  |0|1|2| ... |DEEP-1|0|1| ...    A group has SIDE teams of DEEP work-items.  A team has a row at a time, of
 *   row 1  |0|1|2| ... |DEEP-1|0|1| ...    which a work-item holds HOLD vectors of VEC numbers.
 *
 *   norm_backward: a group goes over every groups-th SIDE rows and adds up what they give to dw and db, in registers.
 *   Part p of the sums, of group p, is in the workspace at 2 p plane and (2 p + 1) plane; norm_finish of
 *   layers/layernorm_parts.cl adds the parts up, in their order.
 *
 * Grid:         norm_forward ceil(rows / SIDE) groups, norm_backward `parts` groups of LOCAL.
 * Local memory: LOCAL + SIDE * 16 pairs of ACC; norm_backward with DW or DB and SIDE > 1: LOCAL vectors more.
 * Parameters:   those of layers/layernorm.h; VEC, SIDE, DEEP, HOLD, FULL, below.  A row, and with SPATIAL the neighbours
 *               that share a weight, are whole vectors; a row has more than DEEP * (HOLD - 1) of them and at most
 *               DEEP * HOLD.  norm_backward with DW or DB: SPATIAL is 0 and there is one group of channels.
 * Bound by:     memory.
 */
#ifndef VEC
#define VEC 1
#endif
#ifndef SIDE /* powers of two */
#define SIDE 1
#endif
#ifndef DEEP
#define DEEP 256
#endif
#ifndef HOLD
#define HOLD 4
#endif
#ifndef FULL /* 1: a row has DEEP * HOLD vectors */
#define FULL 0
#endif
#include "layers/layernorm.h"
#include "include/gpu_vectors.h"

MX_GET(get_x, T)
MX_PUT(put_x, T)
MX_GET(get_p, P_TYPE)

#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
#define TEAM                                                                                    \
    __local TWO all[LOCAL];                                                                     \
    __local TWO few[SIDE * FEW];                                                                \
    const int me = (int)get_local_id(0);                                                        \
    const team_t team = {all, few, me / DEEP, me % DEEP};                                       \
    const int lane = team.lane, count = (int)(s.length / VEC)
#define EACH _Pragma("unroll") for (int i = 0; i < HOLD; i++)
/* Only the last of a work-item's vectors may lie behind a row. */
#define INSIDE (FULL || i < HOLD - 1)
#define THERE (INSIDE || lane + i * DEEP < count)
#define PLACE ((INSIDE ? lane + i * DEEP : min(lane + i * DEEP, count - 1)) * VEC)
/* The number of a vector's weights; with SPATIAL all of them have the first one. */
#define WEIGHT_AT (SPATIAL ? PLACE / (int)s.spatial : PLACE)
#define GET_WEIGHT(p, at, aligned) (SPATIAL ? (vec_t)(ACC)LOAD(P_TYPE)(p, at) : get_p((p) + (at), aligned))

/* The first of a row's weights.  Divisions of 64 bits would take longer than the rest of a work-item; a row has fewer than
 * 2^31 numbers here, and layer norms have one group. */
static inline long first_weight(const mx_norm_shape s, const long r)
{
    if (s.groups == 1)
        return 0;
    const long group = r <= INT_MAX ? (int)r % (int)s.groups : r % s.groups;
    return group * ((int)s.length / (int)s.spatial);
}

KERNEL norm_forward(FORWARD_ARGUMENTS)
{
    TEAM;
    FORWARD_OFFSETS;
    const long wanted = (long)get_group_id(0) * SIDE + team.side, r = min(wanted, s.rows - 1);
    const ACC n = (ACC)s.length;
    x += r * s.length, x2 += r * s.length, y += r * s.length;
    const long columns = first_weight(s, r);
    weight += columns, bias += columns;
    const bool aligned = MX_ALIGNED(x) && MX_ALIGNED(y) && (!ADD || MX_ALIGNED(x2));
    const bool aligned_p = (!WEIGHT || MX_ALIGNED(weight)) && (!BIAS || MX_ALIGNED(bias));
    vec_t held[HOLD], a = 0, b = 0;
    if (aligned) {
        EACH held[i] = get_x(x + PLACE, true);
    } else {
        EACH held[i] = get_x(x + PLACE, false);
    }
    if (ADD)
        EACH held[i] += get_x(x2 + PLACE, aligned);
#if RMS
    EACH b += THERE ? held[i] * held[i] : (vec_t)0;
    const ACC scale = rstd_of(team_sums((TWO)(0, mx_sum_of_lanes(b)), team).y / n, (ACC)epsilon), m = 0, e = 0;
#else
    EACH a += THERE ? held[i] : (vec_t)0;
    const ACC m = team_sums((TWO)(mx_sum_of_lanes(a), 0), team).x / n;
    a = 0;
    EACH {
        held[i] -= m;
        a += THERE ? held[i] : (vec_t)0;
        b += THERE ? held[i] * held[i] : (vec_t)0;
    }
    const TWO sums = team_sums((TWO)(mx_sum_of_lanes(a), mx_sum_of_lanes(b)), team) / n;
    const ACC e = sums.x, scale = rstd_of(sums.y - e * e, (ACC)epsilon);
#endif
    if (wanted >= s.rows)
        return;
    if (MEAN && lane == 0)
        STORE(S_TYPE)(mean, r, m + e);
    if (RSTD && lane == 0)
        STORE(S_TYPE)(rstd, r, scale);
    EACH {
        if (THERE) {
            vec_t v = (held[i] - e) * scale;
            if (WEIGHT)
                v *= GET_WEIGHT(weight, WEIGHT_AT, aligned_p);
            if (BIAS)
                v += GET_WEIGHT(bias, WEIGHT_AT, aligned_p);
            put_x(y + PLACE, v, aligned);
        }
    }
}

#if DW || DB
#if VEC == 1
#define PUT_SUM(p, v) (*(p) = (v))
#else
#define PUT_SUM(p, v) MX_V(vstore)(v, 0, p)
#endif
/* The sums of all teams go to the workspace. */
static inline __attribute__((always_inline)) void give(__global ACC *to, const vec_t mine[HOLD], __local vec_t *sums,
                                                       const int side, const int lane, const int count)
{
    EACH {
        vec_t sum = mine[i];
        if (SIDE > 1) {
            barrier(CLK_LOCAL_MEM_FENCE);
            sums[side * DEEP + lane] = sum;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (side == 0)
                for (int other = 1; other < SIDE; other++)
                    sum += sums[other * DEEP + lane];
        }
        if (side == 0 && THERE)
            PUT_SUM(to + PLACE, sum);
    }
}
#endif

KERNEL norm_backward(BACKWARD_ARGUMENTS)
{
    TEAM;
#if DW || DB
    __local vec_t sums[SIDE > 1 ? LOCAL : 1];
#endif
    BACKWARD_OFFSETS;
    const ACC n = (ACC)s.length;
    const bool aligned = MX_ALIGNED(x) && MX_ALIGNED(dy) && MX_ALIGNED(dx) && (!ADD || MX_ALIGNED(x2));
    const bool aligned_p = !WEIGHT || MX_ALIGNED(weight);
#if DW
    vec_t sum_w[HOLD];
    EACH sum_w[i] = 0;
#endif
#if DB
    vec_t sum_b[HOLD];
    EACH sum_b[i] = 0;
#endif
    for (long first = (long)get_group_id(0) * SIDE; first < s.rows; first += (long)get_num_groups(0) * SIDE) {
        const bool inside = SIDE == 1 || first + team.side < s.rows;
        const long r = min(first + team.side, s.rows - 1), at = r * s.length;
        const long columns = first_weight(s, r);
        const ACC m = RMS ? 0 : (ACC)LOAD(S_TYPE)(mean, r), scale = (ACC)LOAD(S_TYPE)(rstd, r);
        vec_t held[HOLD], g[HOLD], a = 0, b = 0;
        if (aligned) {
            EACH held[i] = get_x(x + at + PLACE, true);
            EACH g[i] = get_x(dy + at + PLACE, true);
        } else {
            EACH held[i] = get_x(x + at + PLACE, false);
            EACH g[i] = get_x(dy + at + PLACE, false);
        }
        if (ADD)
            EACH held[i] += get_x(x2 + at + PLACE, aligned);
        EACH {
            const bool there = inside && THERE;
            held[i] = (held[i] - m) * scale;
#if DB
            sum_b[i] += there ? g[i] : (vec_t)0;
#endif
#if DW
            sum_w[i] += there ? g[i] * held[i] : (vec_t)0;
#endif
            if (WEIGHT)
                g[i] *= GET_WEIGHT(weight + columns, WEIGHT_AT, aligned_p);
            a += there ? g[i] : (vec_t)0;
            b += there ? g[i] * held[i] : (vec_t)0;
        }
        const TWO means = team_sums((TWO)(RMS ? 0 : mx_sum_of_lanes(a), mx_sum_of_lanes(b)), team) / n;
        EACH {
            if (inside && THERE)
                put_x(dx + at + PLACE, scale * (g[i] - means.x - held[i] * means.y), aligned);
        }
    }
#if DW || DB
    space += 2 * (long)get_group_id(0) * s.plane;
#if DW
    give(space, sum_w, sums, team.side, lane, count);
#endif
#if DB
    give(space + s.plane, sum_b, sums, team.side, lane, count);
#endif
#endif
}
