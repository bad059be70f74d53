/* Layer norm, RMS norm and group norm of rows that many work-groups share, and the last sums of dw and db for all.
 * layers/layernorm.h has the formulas.
 *
 *   row 0  | part 0 | part 1 | part 2 |      norm_moments: mean and squares of each part, in the workspace;
 *   row 1  | part 0 | part 1 | part 2 |      norm_normalise: a group combines those of its row and writes its part.
 *
 *   norm_sums      sums of g and of g xhat of each part; SPATIAL: of dy and dy xhat of each channel of a sample
 *   norm_gradient  a group combines those of its row and writes its part of dx
 *   norm_columns   SPATIAL = 0: parts of the sums of dw and db, over a range of the samples each
 *   norm_finish    adds the parts up: part p of dw is at 2 p plane, that of db at (2 p + 1) plane
 *
 * Grid:         groups of LOCAL; norm_moments, norm_normalise, norm_gradient: rows * parts; norm_sums: likewise, SPATIAL:
 *               rows * channels of a row; norm_columns: parts * ceil(columns / (LOCAL * VEC)); norm_finish: GPUs
 *               ceil(columns / WIDE), CPUs any.
 * Local memory: LOCAL > 1: LOCAL + 16 pairs of ACC.
 * Parameters:   those of layers/layernorm.h; DEEP, VEC, WIDE, below.  DEEP is 1 on CPUs; on GPUs a power of two, at least
 *               32, and parts of rows and, SPATIAL, channels are whole vectors.
 * Bound by:     memory, which is read twice.
 */
#ifndef DEEP
#define DEEP 1
#endif
#ifndef VEC
#define VEC 16
#endif
#define SIDE 1
#ifndef WIDE /* columns that a group of norm_finish adds up on GPUs */
#define WIDE 32
#endif
#include "layers/layernorm.h"

#if DEEP == 1
#include "include/vectors.h"
#define CONVERT(v) VJOIN(MX_JOIN(convert_, ACC))(v)
/* Elements from p on, a vector at most; lanes behind them are 0. */
#define MX_TAKE(name, TYPE)                                                                             \
    static inline V name(__global const STORAGE(TYPE) *p, long left, const bool aligned)                \
    {                                                                                                   \
        if (left >= VEC)                                                                                \
            return CONVERT(VLOAD(TYPE)(p, 0));                                                          \
        ACC lane[VEC];                                                                                  \
        for (int i = 0; i < VEC; i++)                                                                   \
            lane[i] = i < left ? (ACC)LOAD(TYPE)(p, i) : 0;                                             \
        return VJOIN(vload)(0, lane);                                                                   \
    }
static inline void give(__global STORAGE(T) *p, V value, long left, const bool aligned)
{
    if (left >= VEC)
        VSTORE(T)(p, 0, value);
    else
        store_lanes(p, 0, 1, (int)left, value);
}
static inline V only(V value, long left)
{
    if (left >= VEC)
        return value;
    ACC lane[VEC];
    VJOIN(vstore)(value, 0, lane);
    for (int i = 0; i < VEC; i++)
        lane[i] = i < left ? lane[i] : 0;
    return VJOIN(vload)(0, lane);
}
static inline ACC sum_of_lanes(V v)
{
    ACC lane[VEC], sum = 0;
    VJOIN(vstore)(v, 0, lane);
    for (int i = 0; i < VEC; i++)
        sum += lane[i];
    return sum;
}
#undef MX_ALIGNED
#define MX_ALIGNED(p) true
#else
#include "include/gpu_vectors.h"
typedef vec_t V;
#define MX_TAKE(name, TYPE)                                                                             \
    MX_GET(name##_all, TYPE)                                                                            \
    static inline V name(__global const STORAGE(TYPE) *p, long left, const bool aligned)                \
    {                                                                                                   \
        return name##_all(p, aligned);                                                                  \
    }
MX_PUT(give_all, T)
static inline void give(__global STORAGE(T) *p, V value, long left, const bool aligned)
{
    give_all(p, value, aligned);
}
#define only(value, left) (value)
#define sum_of_lanes(v) mx_sum_of_lanes(v)
#endif
MX_TAKE(take_x, T)
MX_TAKE(take_p, P_TYPE)

#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
#if DEEP == 1
#define TEAM const team_t team = {0, 0, 0, 0}
#else
#define TEAM                        \
    __local TWO all[LOCAL];         \
    __local TWO few[SIDE * FEW];    \
    const team_t team = {all, few, 0, (int)get_local_id(0)}
#endif
#define READ(i, left) (ADD ? take_x(x + (i), left, aligned) + take_x(x2 + (i), left, aligned) : take_x(x + (i), left, aligned))
#define PART 64 /* vectors that a plain sum takes */
/* a and b: sums of what TERMS(a, b, i, left) adds for the vectors from `from` to `to`. */
#define SUMS V a = (V)0, a_rest = (V)0, b = (V)0, b_rest = (V)0
#define SUM_VECTORS(TERMS)                                                                  \
    for (long start = from + team.lane * VEC; start < to; start += PART * LOCAL * VEC) {    \
        const long end = min(start + PART * LOCAL * VEC, to);                               \
        V a0 = (V)0, b0 = (V)0;                                                             \
        for (long i = start; i < end; i += LOCAL * VEC)                                     \
            TERMS(a0, b0, i, to - i);                                                       \
        MX_TWO_SUM(V, a, a_rest, a0);                                                       \
        MX_TWO_SUM(V, b, b_rest, b0);                                                       \
    }
#define TEAM_SUMS(turn) team_sums((TWO)(sum_of_lanes(a + a_rest), sum_of_lanes(b + b_rest)), team, turn)

/* The weights of the vector at element i of a row, or zeros behind `left`. */
static inline V weights(__global const STORAGE(P_TYPE) *p, long i, long left, long spatial, const bool aligned)
{
    if (!SPATIAL)
        return take_p(p + i, left, aligned);
    const long c = i / spatial;
#if DEEP == 1
    if (i + min((long)VEC, left) > (c + 1) * spatial) {
        ACC lane[VEC];
        for (int j = 0; j < VEC; j++)
            lane[j] = j < left ? (ACC)LOAD(P_TYPE)(p, (i + j) / spatial) : 0;
        return VJOIN(vload)(0, lane);
    }
#endif
    return (V)(ACC)LOAD(P_TYPE)(p, c);
}

/* Row and part of a group, and the part's elements. */
#define LOCATE                                                              \
    const long r = get_group_id(0) / s.parts, q = get_group_id(0) % s.parts; \
    const long from = q * s.part, to = min(from + s.part, s.length);        \
    const ACC n = (ACC)s.length

#ifdef MOMENTS

/* A part's m, e and sum of (x - mean)^2, see layers/layernorm.h; RMS: the sum of x^2. */
KERNEL norm_moments(FORWARD_ARGUMENTS)
{
    TEAM;
    FORWARD_OFFSETS;
    LOCATE;
    x += r * s.length, x2 += r * s.length;
    const bool aligned = MX_ALIGNED(x) && (!ADD || MX_ALIGNED(x2));
    const ACC count = (ACC)(to - from);
    SUMS;
    ACC m = 0;
#if !RMS
#define TERMS(a, b, i, left) a += READ(i, left)
    SUM_VECTORS(TERMS)
#undef TERMS
    m = TEAM_SUMS(0).x / count;
    a = a_rest = (V)0;
#endif
#define TERMS(a, b, i, left)                          \
    do {                                              \
        const V d = only(READ(i, left) - m, left);    \
        a += d;                                       \
        b += d * d;                                   \
    } while (0)
    SUM_VECTORS(TERMS)
#undef TERMS
    const TWO sums = TEAM_SUMS(1);
    space += 3 * (r * s.parts + q);
    if (team.lane == 0) {
        const ACC squares = RMS ? sums.y : sums.y - sums.x / count * sums.x;
        space[0] = m;
        space[1] = RMS ? 0 : sums.x / count;
        space[2] = squares < 0 ? 0 : squares;
    }
}

KERNEL norm_normalise(FORWARD_ARGUMENTS)
{
    TEAM;
    FORWARD_OFFSETS;
    LOCATE;
    x += r * s.length, x2 += r * s.length, y += r * s.length, space += 3 * r * s.parts;
    weight += r % s.groups * (s.length / s.spatial), bias += r % s.groups * (s.length / s.spatial);
    const bool aligned = MX_ALIGNED(x) && MX_ALIGNED(y) && (!ADD || MX_ALIGNED(x2));
    const bool aligned_p = (!WEIGHT || MX_ALIGNED(weight)) && (!BIAS || MX_ALIGNED(bias));
    const ACC m = space[0];
    ACC e = 0, lost = 0, sum = 0;
#define COUNT (ACC)(min((p + 1) * s.part, s.length) - p * s.part)
#define FROM_M ((space[3 * p] - m) + space[3 * p + 1])
#if !RMS
    for (long p = team.lane; p < s.parts; p += LOCAL)
        MX_TWO_SUM(ACC, e, lost, COUNT * FROM_M);
    e = team_sum(e + lost, team, 0) / n;
    lost = 0;
#endif
    for (long p = team.lane; p < s.parts; p += LOCAL) {
        const ACC d = RMS ? 0 : FROM_M - e;
        MX_TWO_SUM(ACC, sum, lost, space[3 * p + 2] + COUNT * d * d);
    }
    const ACC scale = rstd_of(team_sum(sum + lost, team, 1) / n, (ACC)epsilon);
    if (q == 0 && team.lane == 0) {
        if (MEAN)
            STORE(S_TYPE)(mean, r, m + e);
        if (RSTD)
            STORE(S_TYPE)(rstd, r, scale);
    }
    for (long i = from + team.lane * VEC; i < to; i += LOCAL * VEC) {
        V v = ((READ(i, to - i) - m) - e) * scale;
        if (WEIGHT)
            v *= weights(weight, i, to - i, s.spatial, aligned_p);
        if (BIAS)
            v += weights(bias, i, to - i, s.spatial, aligned_p);
        give(y + i, v, to - i, aligned);
    }
}

#else

#define XHAT(v) (((v)-m) * scale)
#define STATISTICS(r) const ACC m = RMS ? 0 : (ACC)LOAD(S_TYPE)(mean, r), scale = (ACC)LOAD(S_TYPE)(rstd, r)

KERNEL norm_sums(BACKWARD_ARGUMENTS)
{
    TEAM;
    BACKWARD_OFFSETS;
    const long channels = s.length / s.spatial, pieces = SPATIAL ? channels : s.parts;
    const long r = get_group_id(0) / pieces, q = get_group_id(0) % pieces, size = SPATIAL ? s.spatial : s.part;
    const long from = q * size, to = min(from + size, s.length);
    x += r * s.length, x2 += r * s.length, dy += r * s.length;
    weight += r % s.groups * channels;
    const bool aligned = MX_ALIGNED(x) && MX_ALIGNED(dy) && (!ADD || MX_ALIGNED(x2));
    const bool aligned_p = !WEIGHT || MX_ALIGNED(weight);
    STATISTICS(r);
    SUMS;
#define TERMS(a, b, i, left)                                                    \
    do {                                                                        \
        V g = take_x(dy + (i), left, aligned);                                  \
        if (WEIGHT && !SPATIAL)                                                 \
            g *= take_p(weight + (i), left, aligned_p);                         \
        a += g;                                                                 \
        b += only(g * XHAT(READ(i, left)), left);                               \
    } while (0)
    SUM_VECTORS(TERMS)
#undef TERMS
    const TWO sums = TEAM_SUMS(0);
    if (team.lane == 0) {
        if (SPATIAL) {
            space += 2 * (r / s.groups) * s.plane + r % s.groups * channels + q;
            space[0] = sums.y;
            space[s.plane] = sums.x;
        } else {
            space[2 * (r * s.parts + q)] = sums.x;
            space[2 * (r * s.parts + q) + 1] = sums.y;
        }
    }
}

KERNEL norm_gradient(BACKWARD_ARGUMENTS)
{
    TEAM;
    BACKWARD_OFFSETS;
    LOCATE;
    const long channels = s.length / s.spatial;
    x += r * s.length, x2 += r * s.length, dy += r * s.length, dx += r * s.length;
    weight += r % s.groups * channels;
    const bool aligned = MX_ALIGNED(x) && MX_ALIGNED(dy) && MX_ALIGNED(dx) && (!ADD || MX_ALIGNED(x2));
    const bool aligned_p = !WEIGHT || MX_ALIGNED(weight);
    STATISTICS(r);
    TWO means = (TWO)0, lost = (TWO)0;
#if SPATIAL
    space += 2 * (r / s.groups) * s.plane + r % s.groups * channels;
    for (long c = team.lane; c < channels; c += LOCAL) {
        const TWO sums = (TWO)(space[s.plane + c], space[c]) * (WEIGHT ? (ACC)LOAD(P_TYPE)(weight, c) : (ACC)1);
        MX_TWO_SUM(TWO, means, lost, sums);
    }
#else
    space += 2 * r * s.parts;
    for (long p = team.lane; p < s.parts; p += LOCAL)
        MX_TWO_SUM(TWO, means, lost, (TWO)(space[2 * p], space[2 * p + 1]));
#endif
    means = team_sums(means + lost, team, 0) / n;
    if (RMS)
        means.x = 0;
    for (long i = from + team.lane * VEC; i < to; i += LOCAL * VEC) {
        V g = take_x(dy + i, to - i, aligned);
        if (WEIGHT)
            g *= weights(weight, i, to - i, s.spatial, aligned_p);
        give(dx + i, scale * (g - means.x - XHAT(READ(i, to - i)) * means.y), to - i, aligned);
    }
}

#if !SPATIAL
/* A sample has `groups` rows one behind the other: together all columns. */
KERNEL norm_columns(BACKWARD_ARGUMENTS)
{
    BACKWARD_OFFSETS;
    const long blocks = (s.columns + LOCAL * VEC - 1) / (LOCAL * VEC), samples = s.rows / s.groups;
    const long p = get_group_id(0) / blocks, i = (get_group_id(0) % blocks * LOCAL + (long)get_local_id(0)) * VEC;
    const long left = s.columns - i, end = (p + 1) * samples / s.parts;
    const bool aligned = MX_ALIGNED(x) && MX_ALIGNED(dy) && (!ADD || MX_ALIGNED(x2));
    V sum_w = (V)0, sum_b = (V)0;
    if (left <= 0)
        return;
    for (long sample = p * samples / s.parts; sample < end; sample++) {
        const long at = sample * s.columns + i;
        const V d = take_x(dy + at, left, aligned);
        V v = READ(at, left);
#if DEEP == 1
        if (s.groups > 1) { /* lanes may be of different rows */
            ACC lane[VEC];
            VJOIN(vstore)(v, 0, lane);
            for (int j = 0; j < VEC && j < left; j++) {
                STATISTICS(sample * s.groups + (i + j) / s.length);
                lane[j] = XHAT(lane[j]);
            }
            v = VJOIN(vload)(0, lane);
        } else
#endif
        {
            STATISTICS(sample * s.groups + i / s.length);
            v = XHAT(v);
        }
        sum_w += d * v;
        sum_b += d;
    }
    space += 2 * p * s.plane + i; /* planes are whole vectors */
#if VEC == 1
    space[0] = sum_w;
    space[s.plane] = sum_b;
#elif DEEP == 1
    VJOIN(vstore)(sum_w, 0, space);
    VJOIN(vstore)(sum_b, 0, space + s.plane);
#else
    MX_V(vstore)(sum_w, 0, space);
    MX_V(vstore)(sum_b, 0, space + s.plane);
#endif
}
#endif

KERNEL norm_finish(BACKWARD_ARGUMENTS)
{
    BACKWARD_OFFSETS;
#if DEEP == 1
    const long first = get_group_id(0) * s.columns / get_num_groups(0);
    const long end = (get_group_id(0) + 1) * s.columns / get_num_groups(0);
    for (long c = first; c < end; c += VEC) {
        SUMS;
        const long left = end - c;
        for (long p = 0; p < s.parts; p++) { /* a plane ends with room for a vector */
            if (DW)
                MX_TWO_SUM(V, a, a_rest, VJOIN(vload)(0, space + 2 * p * s.plane + c));
            if (DB)
                MX_TWO_SUM(V, b, b_rest, VJOIN(vload)(0, space + (2 * p + 1) * s.plane + c));
        }
        ACC w[VEC], both[VEC];
        VJOIN(vstore)(a + a_rest, 0, w);
        VJOIN(vstore)(b + b_rest, 0, both);
        for (int j = 0; j < VEC && j < left; j++) {
            if (DW)
                STORE(P_TYPE)(dw, c + j, w[j]);
            if (DB)
                STORE(P_TYPE)(db, c + j, both[j]);
        }
    }
#else
    __local TWO scratch[LOCAL];
    const int me = (int)get_local_id(0);
    const long c = (long)get_group_id(0) * WIDE + me % WIDE;
    TWO sum = (TWO)0, rest = (TWO)0;
    if (c < s.columns)
#pragma unroll 4
        for (long p = me / WIDE; p < s.parts; p += LOCAL / WIDE) {
            const TWO term =
                (TWO)(DW ? space[2 * p * s.plane + c] : 0, DB ? space[(2 * p + 1) * s.plane + c] : 0);
            MX_TWO_SUM(TWO, sum, rest, term);
        }
    scratch[me] = sum + rest;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < WIDE && c < s.columns) {
        sum = scratch[me];
        for (int i = me + WIDE; i < LOCAL; i += WIDE)
            sum += scratch[i];
        if (DW)
            STORE(P_TYPE)(dw, c, sum.x);
        if (DB)
            STORE(P_TYPE)(db, c, sum.y);
    }
#endif
}

#endif
