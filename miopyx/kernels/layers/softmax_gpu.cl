/* Softmax, its logarithm and the gradients on GPUs, with each number read once if a set is not too long.
 * layers/softmax.cl has the formulas and the grids of tensors.
 *
 *           units ->  SIDE             A work-group has SIDE neighbouring units times DEEP work-items that share a
 *              +--------------+        unit's elements, HOLD vectors each, in registers.
 *   elements   |              | DEEP   ALONG = 1: a unit is a set, whose elements are contiguous, in vectors of VEC.
 *              +--------------+        ALONG = 0: a unit is VEC neighbouring sets, elements along one axis, far apart.
 *
 * Grid:         ceil(units / SIDE) * LOCAL.
 * Local memory: LOCAL elements of own_t.
 * Parameters:   T, LOG, ALONG, VEC, SIDE, DEEP, HOLD, below.  A set has at most DEEP * HOLD * VEC elements (ALONG = 1),
 *               or DEEP * HOLD; with HOLD = 0 it has any number, ALONG is 1, and it is read again for each step.
 * Bound by:     memory.
 */
#ifndef T
#define T float
#endif
#ifndef LOG
#define LOG 0
#endif
#ifndef ALONG
#define ALONG 1
#endif
#ifndef VEC
#define VEC 1
#endif
#ifndef SIDE /* powers of two */
#define SIDE 8
#endif
#ifndef DEEP
#define DEEP 32
#endif
#ifndef HOLD
#define HOLD 4
#endif
#include "include/common.h"
#include "include/vectors.h"
#include "include/gpu_vectors.h"

#define LOCAL (SIDE * DEEP)

MX_GET(get, T)
MX_PUT(put, T)

/* A number of each set of a unit. */
#if ALONG
typedef ACC own_t;
#define OWN_SUM(v) mx_sum_of_lanes(v)
#define OWN_MAX(v) max_of_lanes(v)
static inline ACC max_of_lanes(const vec_t v)
{
#if VEC == 1
    return v;
#elif VEC == 2
    return fmax(v.x, v.y);
#elif VEC == 4
    return fmax(fmax(v.x, v.y), fmax(v.z, v.w));
#else
    return fmax(fmax(fmax(v.s0, v.s1), fmax(v.s2, v.s3)), fmax(fmax(v.s4, v.s5), fmax(v.s6, v.s7)));
#endif
}
#else
typedef vec_t own_t;
#define OWN_SUM(v) (v)
#define OWN_MAX(v) (v)
#endif

typedef struct {
    int side, lane;
    INDEX unit;
    bool inside;
    INDEX count; /* vectors of a set, of which each work-item has every DEEP-th */
} place;

static inline place locate(const mx_grid *inside, const mx_grid *outside)
{
    place p;
    const int me = (int)get_local_id(0);
    p.lane = ALONG ? me % DEEP : me / SIDE;
    p.side = ALONG ? me / DEEP : me % SIDE;
    p.unit = (INDEX)get_group_id(0) * SIDE + p.side;
    const INDEX units = (INDEX)mx_grid_size(*outside) / (ALONG ? 1 : VEC);
    p.inside = p.unit < units;
    p.unit = min(p.unit, units - 1) * (ALONG ? 1 : VEC);
    p.count = (INDEX)inside->len[4] / (ALONG ? VEC : 1);
    return p;
}

/* Steps between a set's vectors in tensor t. */
#define STEP(t) (ALONG ? VEC : inside.stride[t][4])

#define JOIN(name, op)                                                                              \
    static inline __attribute__((always_inline)) own_t name(own_t mine, const place *p,             \
                                                            __local own_t *scratch)                 \
    {                                                                                               \
        const int at = p->lane * SIDE + p->side;                                                    \
        if (DEEP == 1)                                                                              \
            return mine;                                                                            \
        barrier(CLK_LOCAL_MEM_FENCE);                                                               \
        scratch[at] = mine;                                                                         \
        barrier(CLK_LOCAL_MEM_FENCE);                                                               \
        for (int half_way = DEEP / 2; half_way > 0; half_way /= 2) {                                \
            if (p->lane < half_way)                                                                 \
                scratch[at] = op(scratch[at], scratch[at + half_way * SIDE]);                       \
            barrier(CLK_LOCAL_MEM_FENCE);                                                           \
        }                                                                                           \
        return scratch[p->side];                                                                    \
    }
#define ADD(a, b) ((a) + (b))
JOIN(all_sum, ADD)
JOIN(all_max, fmax)

#if HOLD > 0 /* compilers of OpenCL C refuse arrays of no elements */

static inline void load(vec_t held[HOLD], __global const STORAGE(T) *p, const place at, long step, const bool aligned)
{
#pragma unroll
    for (int i = 0; i < HOLD; i++)
        held[i] = get(p + min((INDEX)(at.lane + i * DEEP), at.count - 1) * step, aligned);
}

static inline void store(__global STORAGE(T) *p, const vec_t held[HOLD], const place at, long step, ACC beta,
                         const bool aligned)
{
#pragma unroll
    for (int i = 0; i < HOLD; i++)
        if (at.inside && at.lane + i * DEEP < at.count) {
            vec_t value = held[i];
            if (beta != 0)
                value += beta * get(p + (at.lane + i * DEEP) * step, aligned);
            put(p + (at.lane + i * DEEP) * step, value, aligned);
        }
}

/* Whether vectors may begin at an address is the same for all work-items: theirs lie whole vectors apart. */
#define LOAD_ALL(held, p, t)                         \
    do {                                             \
        if (VEC > 1 && MX_ALIGNED(p))                \
            load(held, p, at, STEP(t), true);        \
        else                                         \
            load(held, p, at, STEP(t), false);       \
    } while (0)
#define STORE_ALL(p, held, t)                        \
    do {                                             \
        if (VEC > 1 && MX_ALIGNED(p))                \
            store(p, held, at, STEP(t), beta, true); \
        else                                         \
            store(p, held, at, STEP(t), beta, false); \
    } while (0)

#endif

#define IS_THERE(i) (at.lane + (i) * DEEP < at.count)

#define PARAMETERS const mx_grid inside, const mx_grid outside, const long block, const SCALAR alpha, const SCALAR beta

#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void

#if HOLD == 0

#define AT_ONCE 4
#define PART 16 /* of these: sums are cut into parts, so that errors stay small */
/* Does something with some vectors of a set at a time, `i` is the first one's number and `n` how many there are. */
#define WALK(body)                                                                  \
    for (INDEX i = at.lane; i < at.count; i += AT_ONCE * DEEP) {                    \
        _Pragma("unroll") for (int j = 0; j < AT_ONCE; j++)                         \
            places[j] = min(i + j * DEEP, at.count - 1) * VEC;                      \
        body                                                                        \
    }
#define EACH _Pragma("unroll") for (int j = 0; j < AT_ONCE; j++)
#define THERE (i + j * DEEP < at.count)

static inline __attribute__((always_inline)) void put_one(__global STORAGE(T) *p, vec_t value, ACC beta,
                                                          const bool aligned)
{
    if (beta != 0)
        value += beta * get(p, aligned);
    put(p, value, aligned);
}

KERNEL softmax_forward(__global const STORAGE(T) *x, long x_offset, __global STORAGE(T) *y, long y_offset, PARAMETERS)
{
    __local own_t scratch[LOCAL];
    const place at = locate(&inside, &outside);
    vec_t top = -INFINITY, sum = 0, rest = 0, part = 0, v[AT_ONCE];
    INDEX places[AT_ONCE];
    int number = 0;
    x += x_offset + mx_grid_element(outside, 1, at.unit);
    y += y_offset + mx_grid_element(outside, 0, at.unit);
    const bool aligned = MX_ALIGNED(x) && MX_ALIGNED(y);
    WALK(EACH v[j] = get(x + places[j], aligned); EACH top = fmax(top, v[j]);)
    const own_t most = all_max(OWN_MAX(top), &at, scratch);
    WALK(EACH v[j] = get(x + places[j], aligned); EACH part += THERE ? exp(v[j] - most) : (vec_t)0;
         if (++number % PART == 0) { MX_TWO_SUM(vec_t, sum, rest, part); part = 0; })
    const own_t all = all_sum(OWN_SUM(sum + part), &at, scratch);
#if LOG
    const own_t less = log(all);
    WALK(EACH v[j] = get(x + places[j], aligned);
         EACH if (at.inside && THERE) put_one(y + places[j], (ACC)alpha * ((v[j] - most) - less), beta, aligned);)
#else
    const own_t scale = (ACC)alpha / all;
    WALK(EACH v[j] = get(x + places[j], aligned);
         EACH if (at.inside && THERE) put_one(y + places[j], exp(v[j] - most) * scale, beta, aligned);)
#endif
}

KERNEL softmax_backward(__global const STORAGE(T) *y, long y_offset, __global const STORAGE(T) *dy, long dy_offset,
                        __global STORAGE(T) *dx, long dx_offset, PARAMETERS)
{
    __local own_t scratch[LOCAL];
    const place at = locate(&inside, &outside);
    vec_t sum = 0, rest = 0, part = 0, v[AT_ONCE], g[AT_ONCE];
    INDEX places[AT_ONCE];
    int number = 0;
    y += y_offset + mx_grid_element(outside, 2, at.unit);
    dy += dy_offset + mx_grid_element(outside, 1, at.unit);
    dx += dx_offset + mx_grid_element(outside, 0, at.unit);
    const bool aligned = MX_ALIGNED(y) && MX_ALIGNED(dy) && MX_ALIGNED(dx);
    WALK(EACH { v[j] = get(y + places[j], aligned); g[j] = get(dy + places[j], aligned); }
         EACH part += THERE ? (LOG ? g[j] : g[j] * v[j]) : (vec_t)0;
         if (++number % PART == 0) { MX_TWO_SUM(vec_t, sum, rest, part); part = 0; })
    const own_t all = all_sum(OWN_SUM(sum + part), &at, scratch);
    WALK(EACH { v[j] = get(y + places[j], aligned); g[j] = get(dy + places[j], aligned); }
         EACH if (at.inside && THERE)
             put_one(dx + places[j], (ACC)alpha * (LOG ? g[j] - exp(v[j]) * all : v[j] * (g[j] - all)), beta, aligned);)
}

#else

KERNEL softmax_forward(__global const STORAGE(T) *x, long x_offset, __global STORAGE(T) *y, long y_offset, PARAMETERS)
{
    __local own_t scratch[LOCAL];
    const place at = locate(&inside, &outside);
    vec_t held[HOLD], sum = 0, top = -INFINITY;
    x += x_offset + mx_grid_element(outside, 1, at.unit);
    y += y_offset + mx_grid_element(outside, 0, at.unit);
    LOAD_ALL(held, x, 1);
#pragma unroll
    for (int i = 0; i < HOLD; i++) {
        held[i] = IS_THERE(i) ? held[i] : (vec_t)-INFINITY;
        top = fmax(top, held[i]);
    }
    const own_t most = all_max(OWN_MAX(top), &at, scratch);
#pragma unroll
    for (int i = 0; i < HOLD; i++) {
        held[i] -= most;
        const vec_t e = exp(held[i]);
        if (!LOG)
            held[i] = e;
        sum += e;
    }
    const own_t all = all_sum(OWN_SUM(sum), &at, scratch);
#if LOG
    const own_t less = log(all);
#pragma unroll
    for (int i = 0; i < HOLD; i++)
        held[i] = (ACC)alpha * (held[i] - less);
#else
    const own_t scale = (ACC)alpha / all;
#pragma unroll
    for (int i = 0; i < HOLD; i++)
        held[i] *= scale;
#endif
    STORE_ALL(y, held, 0);
}

KERNEL softmax_backward(__global const STORAGE(T) *y, long y_offset, __global const STORAGE(T) *dy, long dy_offset,
                        __global STORAGE(T) *dx, long dx_offset, PARAMETERS)
{
    __local own_t scratch[LOCAL];
    const place at = locate(&inside, &outside);
    vec_t held[HOLD], g[HOLD], sum = 0;
    y += y_offset + mx_grid_element(outside, 2, at.unit);
    dy += dy_offset + mx_grid_element(outside, 1, at.unit);
    dx += dx_offset + mx_grid_element(outside, 0, at.unit);
    LOAD_ALL(held, y, 2);
    LOAD_ALL(g, dy, 1);
#pragma unroll
    for (int i = 0; i < HOLD; i++)
        sum += IS_THERE(i) ? (LOG ? g[i] : g[i] * held[i]) : (vec_t)0;
    const own_t all = all_sum(OWN_SUM(sum), &at, scratch);
#pragma unroll
    for (int i = 0; i < HOLD; i++)
        g[i] = (ACC)alpha * (LOG ? g[i] - exp(held[i]) * all : held[i] * (g[i] - all));
    STORE_ALL(dx, g, 0);
}

#endif
