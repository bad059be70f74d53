/* What layers/layernorm_*.cl share: layer norm, RMS norm and group norm, and their gradients.
 *
 *   y = (x - mean) rstd weight + bias          mean = sum of x / M,  rstd = 1 / sqrt(sum of (x - mean)^2 / M + epsilon)
 *   dx = rstd (g - sum of g / M - xhat (sum of g xhat) / M)     g = dy weight,  xhat = (x - mean) rstd
 *   dw = sum over rows of dy xhat,  db = sum over rows of dy
 *
 * over the M elements of a row.  RMS: mean is 0 and the sum of g is left out.  ADD: x + x2 in place of x.
 *
 * Statistics.  A first sum says about where the mean is, m; a second pass sums d = x - m and d^2.  What is left of the
 * mean, e = sum of d / M, is kept beside it, so that x - mean = (x - m) - e is right even where the mean is much larger
 * than what x differs from it.  The variance is sum of d^2 / M - e^2, and e is as small as a rounding of m.
 *
 * Parameters of all: T, P_TYPE, S_TYPE, RMS, ADD, WEIGHT, BIAS, MEAN, RSTD, DW, DB, SPATIAL, VEC, below.
 */
#ifndef T /* storage type of x, x2, y, dy, dx */
#define T float
#endif
#ifndef P_TYPE /* storage type of weight, bias, dw, db */
#define P_TYPE T
#endif
#ifndef S_TYPE /* storage type of mean and rstd */
#define S_TYPE T
#endif
#ifndef RMS
#define RMS 0
#endif
#ifndef ADD
#define ADD 0
#endif
#ifndef WEIGHT /* what there is */
#define WEIGHT 1
#endif
#ifndef BIAS
#define BIAS WEIGHT
#endif
#ifndef MEAN
#define MEAN 1
#endif
#ifndef RSTD
#define RSTD 1
#endif
#ifndef DW
#define DW 1
#endif
#ifndef DB
#define DB 1
#endif
#ifndef SPATIAL /* 1: neighbours in a row share a weight */
#define SPATIAL 0
#endif
#include "include/common.h"
#include "layers/layernorm_args.h"

#if !MX_IS_STORAGE(T) || !MX_IS_STORAGE(P_TYPE) || !MX_IS_STORAGE(S_TYPE)
#error "T, P_TYPE and S_TYPE must be half, float, double or bfloat16"
#endif

#define FORWARD_ARGUMENTS                                                                                            \
    __global const STORAGE(T) *x, long x_offset, __global const STORAGE(T) *x2, long x2_offset,                      \
    __global const STORAGE(P_TYPE) *weight, long weight_offset, __global const STORAGE(P_TYPE) *bias,                \
    long bias_offset, __global STORAGE(T) *y, long y_offset, __global STORAGE(S_TYPE) *mean, long mean_offset,       \
    __global STORAGE(S_TYPE) *rstd, long rstd_offset, __global ACC *space, long space_offset, const mx_norm_shape s, \
    const SCALAR epsilon
#define FORWARD_OFFSETS                                                                                \
    x += x_offset, x2 += x2_offset, weight += weight_offset, bias += bias_offset, y += y_offset,       \
    mean += mean_offset, rstd += rstd_offset, space += space_offset

#define BACKWARD_ARGUMENTS                                                                                            \
    __global const STORAGE(T) *dy, long dy_offset, __global const STORAGE(T) *x, long x_offset,                       \
    __global const STORAGE(T) *x2, long x2_offset, __global const STORAGE(P_TYPE) *weight, long weight_offset,        \
    __global const STORAGE(S_TYPE) *mean, long mean_offset, __global const STORAGE(S_TYPE) *rstd, long rstd_offset,   \
    __global STORAGE(T) *dx, long dx_offset, __global STORAGE(P_TYPE) *dw, long dw_offset,                            \
    __global STORAGE(P_TYPE) *db, long db_offset, __global ACC *space, long space_offset, const mx_norm_shape s
#define BACKWARD_GIVEN                                                                                                \
    dy, dy_offset, x, x_offset, x2, x2_offset, weight, weight_offset, mean, mean_offset, rstd, rstd_offset, dx,       \
        dx_offset, dw, dw_offset, db, db_offset, space, space_offset, s
#define BACKWARD_OFFSETS                                                                               \
    dy += dy_offset, x += x_offset, x2 += x2_offset, weight += weight_offset, mean += mean_offset,     \
    rstd += rstd_offset, dx += dx_offset, dw += dw_offset, db += db_offset, space += space_offset

/* Beside NaN a variance stays NaN; where all numbers are equal rounding may leave it below 0. */
static inline ACC rstd_of(ACC variance, ACC epsilon)
{
    return 1 / sqrt((variance < 0 ? 0 : variance) + epsilon);
}

#ifdef DEEP
/* Groups of SIDE teams of DEEP work-items that share a row.  A team's sums, for all of it; calls that follow each other
 * take turns 0 and 1. */
#define LOCAL (SIDE * DEEP)
#define FEW 16 /* of a team add up what all of it have */
#define TWO MX_JOIN(ACC, 2)
typedef struct {
    __local TWO *all, *few; /* LOCAL, SIDE * FEW */
    int side, lane;
} team_t;

#if defined(__NV_CL_C_VERSION) && MX_TYPE(ACC) == MX_TYPE_float && DEEP > 1
#include "include/warp.h"
/* The sums of `width` neighbouring lanes of a warp, for all of them. */
static inline __attribute__((always_inline)) ACC lane_sum(ACC sum, const int width)
{
#pragma unroll
    for (int by = width / 2; by > 0; by /= 2)
        sum += as_float(mx_exchange(as_uint(sum), by));
    return sum;
}

static inline __attribute__((always_inline)) TWO lane_sums(const TWO sum, const int width)
{
    return (TWO)(lane_sum(sum.x, width), lane_sum(sum.y, width));
}

/* Of warps, then of the warps' sums.  Those of two turns lie apart: a barrier less.  One sum takes the place of two's
 * first. */
#define TEAM_SUM(name, NUMBERS, of_lanes, part)                                                                    \
    static inline __attribute__((always_inline)) NUMBERS name(NUMBERS mine, const team_t team, const int turn)     \
    {                                                                                                              \
        const NUMBERS sum = of_lanes(mine, DEEP < 32 ? DEEP : 32);                                                 \
        if (DEEP <= 32)                                                                                            \
            return sum;                                                                                            \
        __local TWO *warps = team.all + team.side * DEEP + turn * (DEEP / 32);                                     \
        if ((team.lane & 31) == 0)                                                                                 \
            warps[team.lane >> 5] part = sum;                                                                      \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                              \
        return of_lanes(warps[team.lane & DEEP / 32 - 1] part, DEEP / 32);                                         \
    }
TEAM_SUM(team_sums, TWO, lane_sums, )
TEAM_SUM(team_sum, ACC, lane_sum, .x)
#else
static inline __attribute__((always_inline)) TWO team_sums(TWO mine, const team_t team, const int turn)
{
    if (DEEP == 1)
        return mine;
    __local TWO *all = team.all + team.side * DEEP, *few = team.few + team.side * FEW;
    barrier(CLK_LOCAL_MEM_FENCE);
    all[team.lane] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    TWO sum = (TWO)0;
    if (DEEP > FEW) {
        if (team.lane < FEW) {
            for (int i = team.lane; i < DEEP; i += FEW)
                sum += all[i];
            few[team.lane] = sum;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        sum = (TWO)0;
        for (int i = 0; i < FEW; i++)
            sum += few[i];
    } else
        for (int i = 0; i < DEEP; i++)
            sum += all[i];
    return sum;
}
static inline __attribute__((always_inline)) ACC team_sum(ACC mine, const team_t team, const int turn)
{
    return team_sums((TWO)(mine, 0), team, turn).x;
}
#endif
#endif
