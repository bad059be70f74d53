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
 *   With STAGES its next STAGES rows are on their way into local memory (cp.async), a lane's vectors to where it alone
 *   reads them.  norm_forward with STAGES has its row there instead of in registers.
 *
 * Grid:         norm_forward ceil(rows / SIDE) groups, norm_backward `parts` groups of LOCAL.
 * Local memory: LOCAL + SIDE * 16 pairs of ACC; norm_backward with DW or DB and SIDE > 1: LOCAL vectors more; with STAGES
 *               2 STAGES HOLD LOCAL vectors more, norm_forward HOLD LOCAL.
 * Parameters:   those of layers/layernorm.h; VEC, SIDE, DEEP, HOLD, FULL, BACK, STAGES, below.  A row, and with SPATIAL
 *               the neighbours that share a weight, are whole vectors; a row has more than DEEP * (HOLD - 1) of them and
 *               at most DEEP * HOLD.  norm_backward with DW or DB: SPATIAL is 0 and there is one group of channels.
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
#ifndef BACK /* 1: norm_backward, else norm_forward */
#define BACK 0
#endif
#ifndef STAGES /* not 0: vectors are 16 bytes, ADD is 0, NVIDIA's compute capability is 8.0 and up */
#define STAGES 0
#endif
#include "layers/layernorm.h"
#define MX_HELD_TYPE T
#include "include/gpu_vectors.h"
#if STAGES
#include "include/async.h"
#endif

MX_GET(get_x, T)
MX_PUT(put_x, T)

#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
#define TEAM                                                                                    \
    __local TWO all[LOCAL];                                                                     \
    __local TWO few[SIDE * FEW];                                                                \
    const int me = (int)get_local_id(0);                                                        \
    const team_t team = {all, few, me / DEEP, me % DEEP}
#define EACH _Pragma("unroll") for (int i = 0; i < HOLD; i++)
/* Only the last of a work-item's vectors may lie behind a row. */
#define INSIDE (FULL || i < HOLD - 1)
#define THERE (INSIDE || lane + i * DEEP < count)
#define PLACE ((INSIDE ? lane + i * DEEP : min(lane + i * DEEP, count - 1)) * VEC)
/* Beside a lane's first vector. */
#define BESIDE ((INSIDE ? i * DEEP : min(i * DEEP, count - 1 - lane)) * VEC)
/* A vector's weights; with SPATIAL all of them have one. */
#if SPATIAL
typedef ACC weights_t;
#define GET_WEIGHTS(p, aligned) (ACC)LOAD(P_TYPE)(p, PLACE / (int)s.spatial)
#define wide_weights(w) (w)
#else
typedef MX_RAW(P_TYPE) weights_t;
#define GET_WEIGHTS(p, aligned) MX_RAW_LOAD(P_TYPE, (p) + PLACE, aligned)
static inline vec_t wide_weights(const weights_t w)
{
    return MX_WIDE(P_TYPE, w);
}
#endif

/* The first of a row's weights.  Divisions of 64 bits would take longer than the rest of a work-item; a row has fewer than
 * 2^31 numbers here, and layer norms have one group. */
static inline long first_weight(const mx_norm_shape s, const long r)
{
    if (s.groups == 1)
        return 0;
    const long group = r <= INT_MAX ? (int)r % (int)s.groups : r % s.groups;
    return group * ((int)s.length / (int)s.spatial);
}

#if !BACK
#define AHEAD 2 /* vectors whose weights are read at once */

static inline __attribute__((always_inline)) void forward(
    __global const STORAGE(T) *x, __global const STORAGE(T) *x2, __global const STORAGE(P_TYPE) *weight,
    __global const STORAGE(P_TYPE) *bias, __global STORAGE(T) *y, __global STORAGE(S_TYPE) *mean,
    __global STORAGE(S_TYPE) *rstd, const mx_norm_shape s, const ACC epsilon, const team_t team, const bool inside,
    __local uint4 *kept, const bool aligned)
{
    const int lane = team.lane, count = (int)(s.length / VEC);
    const ACC n = (ACC)s.length;
    vec_t a = 0, b = 0;
#if STAGES
    if (aligned)
        EACH MX_COPY16(mx_shared(kept + i * LOCAL), x + PLACE, true);
    else
        EACH *(__local held_t *)(kept + i * LOCAL) = mx_get_held(x + PLACE, false);
    MX_COMMIT();
    MX_WAIT(0);
#define X(i) mx_wide(MX_AS_HELD(kept[(i)*LOCAL]))
#define REFRESH
#else
#define REFRESH mx_anew(held, HOLD)
    held_t held[HOLD];
    EACH held[i] = mx_get_held(x + PLACE, aligned);
#if ADD
    vec_t both[HOLD];
    EACH both[i] = mx_wide(held[i]) + get_x(x2 + PLACE, aligned);
#define X(i) both[i]
#else
#define X(i) mx_wide(held[i])
#endif
#endif
#if RMS
    EACH b += THERE ? X(i) * X(i) : (vec_t)0;
    const ACC scale = rstd_of(team_sum(mx_sum_of_lanes(b), team, 0) / n, epsilon), m = 0, e = 0;
#else
    EACH a += THERE ? X(i) : (vec_t)0;
    const ACC m = team_sum(mx_sum_of_lanes(a), team, 0) / n;
    REFRESH;
    a = 0;
    EACH {
        const vec_t d = THERE ? X(i) - m : (vec_t)0;
        a += d;
        b += d * d;
    }
    const TWO sums = team_sums((TWO)(mx_sum_of_lanes(a), mx_sum_of_lanes(b)), team, 1) / n;
    const ACC e = sums.x, scale = rstd_of(sums.y - e * e, epsilon);
#endif
    if (!inside)
        return;
    if (MEAN && lane == 0)
        STORE(S_TYPE)(mean, 0, m + e);
    if (RSTD && lane == 0)
        STORE(S_TYPE)(rstd, 0, scale);
    REFRESH;
    /* Weights are read before what they may not be in the way of: compilers do not move loads over stores. */
#pragma unroll
    for (int first = 0; first < HOLD; first += AHEAD) {
        weights_t w[AHEAD], shift[AHEAD];
#pragma unroll
        for (int i = first; i < min(first + AHEAD, HOLD); i++) {
            if (WEIGHT)
                w[i - first] = GET_WEIGHTS(weight, aligned);
            if (BIAS)
                shift[i - first] = GET_WEIGHTS(bias, aligned);
        }
#pragma unroll
        for (int i = first; i < min(first + AHEAD, HOLD); i++) {
            if (THERE) {
                vec_t v = (X(i) - m - e) * scale;
                if (WEIGHT)
                    v *= wide_weights(w[i - first]);
                if (BIAS)
                    v += wide_weights(shift[i - first]);
                put_x(y + PLACE, v, aligned);
            }
        }
    }
}

KERNEL norm_forward(FORWARD_ARGUMENTS)
{
    TEAM;
#if STAGES
    __local __attribute__((aligned(16))) uint4 all_kept[HOLD * LOCAL];
    __local uint4 *kept = all_kept + me;
#else
    __local uint4 *kept = 0;
#endif
    FORWARD_OFFSETS;
    const long wanted = (long)get_group_id(0) * SIDE + team.side, r = min(wanted, s.rows - 1);
    const bool inside = wanted < s.rows;
    x += r * s.length, x2 += r * s.length, y += r * s.length, mean += r, rstd += r;
    const long columns = first_weight(s, r);
    weight += columns, bias += columns;
    if (MX_ALIGNED(x) && MX_ALIGNED(y) && (!ADD || MX_ALIGNED(x2)) && (!WEIGHT || SPATIAL || MX_ALIGNED(weight))
        && (!BIAS || SPATIAL || MX_ALIGNED(bias)))
        forward(x, x2, weight, bias, y, mean, rstd, s, (ACC)epsilon, team, inside, kept, true);
    else
        forward(x, x2, weight, bias, y, mean, rstd, s, (ACC)epsilon, team, inside, kept, false);
}

#else
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

/* With the sums of columns a row is too much for registers, or local memory has it: it is read again. */
#define AGAIN (STAGES || ((DW || DB) && VEC * HOLD > 16))
/* Weights, which all rows share where columns are summed. */
#define KEPT_WEIGHTS (WEIGHT && (DW || DB) && VEC * HOLD <= 16)
#if STAGES
/* Lane's vector i of x (0) or dy (1) in a stage. */
#define SLOT(stage, which, i) ((((stage) * 2 + (which)) * HOLD + (i)) * LOCAL)
#define FETCH(i, stage, x, dy, valid)                                                                           \
    do {                                                                                                        \
        MX_COPY16(ring_at + SLOT(stage, 0, i) * 16, (x) + i * DEEP * VEC, (valid) && THERE);                    \
        MX_COPY16(ring_at + SLOT(stage, 1, i) * 16, (dy) + i * DEEP * VEC, (valid) && THERE);                   \
    } while (0)
#define GET(i, which, p) \
    (staged ? MX_AS_HELD(ring[SLOT(stage, which, i)]) : mx_get_held((p) + BESIDE, aligned))
#else
#define GET(i, which, p) mx_get_held((p) + BESIDE, aligned)
#endif

static inline __attribute__((always_inline)) void backward(
    BACKWARD_ARGUMENTS, const team_t team, vec_t *sum_w, vec_t *sum_b, __local uint4 *ring, const bool aligned)
{
    const int lane = team.lane, count = (int)(s.length / VEC);
    const ACC n = (ACC)s.length;
    const int rows = (int)s.rows, step = (int)get_num_groups(0) * SIDE, first = (int)get_group_id(0) * SIDE;
    const int turns = (rows - first + step - 1) / step; /* as many for all teams of a group */
    int row = first + team.side;
    x += lane * VEC, x2 += lane * VEC, dy += lane * VEC, dx += lane * VEC;
#if KEPT_WEIGHTS
    weights_t w[HOLD];
    EACH w[i] = GET_WEIGHTS(weight, aligned);
#define WEIGHTS(i) wide_weights(w[i])
#else
#define WEIGHTS(i) wide_weights(GET_WEIGHTS(weight + columns, aligned))
#endif
#if STAGES
    const bool staged = aligned;
    const uint ring_at = mx_shared(ring);
    int stage = 0;
    if (staged)
#pragma unroll
        for (int ahead = 0; ahead < STAGES; ahead++) {
            EACH FETCH(i, ahead, x + (row + ahead * step) * s.length, dy + (row + ahead * step) * s.length,
                       row + ahead * step < rows);
            MX_COMMIT();
        }
#endif
    ACC next_m = 0, next_scale = (ACC)LOAD(S_TYPE)(rstd, min(row, rows - 1));
    if (!RMS)
        next_m = (ACC)LOAD(S_TYPE)(mean, min(row, rows - 1));
    for (int turn = 0; turn < turns; turn++, row += step) {
        const bool inside = SIDE == 1 || row < rows;
        const int r = min(row, rows - 1), later = min(row + step, rows - 1);
        const long columns = first_weight(s, r);
        __global const STORAGE(T) *x_row = x + r * s.length, *dy_row = dy + r * s.length;
        __global STORAGE(T) *dx_row = dx + r * s.length;
        const ACC m = next_m, scale = next_scale;
        if (!RMS)
            next_m = (ACC)LOAD(S_TYPE)(mean, later);
        next_scale = (ACC)LOAD(S_TYPE)(rstd, later);
        held_t held[HOLD], given[HOLD];
        vec_t a = 0, b = 0;
#if STAGES
        if (staged)
            MX_WAIT(STAGES - 1);
#endif
        EACH held[i] = GET(i, 0, x_row);
        EACH given[i] = GET(i, 1, dy_row);
#if ADD
        vec_t both[HOLD];
        EACH both[i] = mx_wide(held[i]) + get_x(x2 + r * s.length + BESIDE, aligned);
#define X(i) both[i]
#else
#define X(i) mx_wide(held[i])
#endif
#if STAGES /* the row that comes into this stage's place */
        const bool more = row + STAGES * step < rows;
        __global const STORAGE(T) *x_next = x + (row + STAGES * step) * s.length;
        __global const STORAGE(T) *dy_next = dy + (row + STAGES * step) * s.length;
#endif
        EACH {
            const bool there = inside && THERE;
            const vec_t xhat = there ? (X(i) - m) * scale : (vec_t)0;
            vec_t g = there ? mx_wide(given[i]) : (vec_t)0, product = g * xhat;
#if DB
            sum_b[i] += g;
#endif
#if DW
            sum_w[i] += product;
#endif
#if WEIGHT
            const vec_t each = WEIGHTS(i);
            g *= each;
            product *= each;
#endif
            a += g;
            b += product;
        }
        const TWO means = team_sums((TWO)(RMS ? 0 : mx_sum_of_lanes(a), mx_sum_of_lanes(b)), team, turn & 1) / n;
        mx_anew(held, HOLD);
        mx_anew(given, HOLD);
        EACH {
            if (AGAIN && !ADD) {
                held[i] = GET(i, 0, x_row);
                given[i] = GET(i, 1, dy_row);
            }
            vec_t g = mx_wide(given[i]);
#if WEIGHT
            g *= WEIGHTS(i);
#endif
            const vec_t result = scale * (g - means.x - (X(i) - m) * scale * means.y);
#if STAGES
            if (staged)
                FETCH(i, stage, x_next, dy_next, more);
#endif
            if (inside && THERE)
                put_x(dx_row + BESIDE, result, aligned);
        }
#if STAGES
        if (staged)
            MX_COMMIT();
        stage = stage == STAGES - 1 ? 0 : stage + 1;
#endif
    }
}

KERNEL norm_backward(BACKWARD_ARGUMENTS)
{
    TEAM;
    vec_t sum_w[HOLD], sum_b[HOLD];
    EACH sum_w[i] = sum_b[i] = 0;
#if STAGES
    __local __attribute__((aligned(16))) uint4 ring[STAGES * 2 * HOLD * LOCAL];
    __local uint4 *mine = ring + me;
#else
    __local uint4 *mine = 0;
#endif
    BACKWARD_OFFSETS;
    if (MX_ALIGNED(x) && MX_ALIGNED(dy) && MX_ALIGNED(dx) && (!ADD || MX_ALIGNED(x2))
        && (!WEIGHT || SPATIAL || MX_ALIGNED(weight)))
        backward(BACKWARD_GIVEN, team, sum_w, sum_b, mine, true);
    else
        backward(BACKWARD_GIVEN, team, sum_w, sum_b, mine, false);
#if DW || DB
    __local vec_t sums[SIDE > 1 ? LOCAL : 1];
    const int lane = team.lane, count = (int)(s.length / VEC);
    space += 2 * (long)get_group_id(0) * s.plane;
#if DW
    give(space, sum_w, sums, team.side, lane, count);
#endif
#if DB
    give(space + s.plane, sum_b, sums, team.side, lane, count);
#endif
#endif
}
#endif
