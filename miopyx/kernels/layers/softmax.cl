/* Softmax over sets of numbers, its logarithm, and the gradients; the output may be where an input is.
 *
 *   y = alpha * e^(x - m) / (sum of e^(x - m)) + beta * y, m the maximum of the set, or LOG:
 *   y = alpha * (x - m - log(sum of e^(x - m))) + beta * y;  dx = alpha * y (dy - sum of y dy) + beta * dx, or LOG:
 *   dx = alpha * (dy - e^y (sum of dy)) + beta * dx
 *
 *   FORM = ITEMS    a work-item computes every global-size-th set
 *   FORM = ROWS     CPUs:  |set 0 ......|set 1 ......|    sets are contiguous; a work-item has an equal share of them
 *   FORM = COLUMNS  CPUs:  |s0 s1 s2 ...|                 a set has a single axis, neighbouring sets are contiguous; a
 *                          |s0 s1 s2 ...|                 work-item has an equal share of blocks of `block` sets
 *   FORM = GROUPS   a work-group of LOCAL work-items computes a set
 *
 * Grid:         two grids of tensors (mx_grid), `inside` walks one set, `outside` walks the sets; tensor 0 is the
 *               output, 1 x or dy, 2 backward y; any strides but as above.  Local size 1, GROUPS: LOCAL.
 * Local memory: GROUPS: LOCAL elements of ACC.  Sums are cut into parts of 64 terms a lane, added up by two-sums.
 * Parameters:   T, LOG, FORM, LOCAL, VEC, HELD, below.
 * Bound by:     memory for sets that are held (HELD); else by exponentials and the second reading.
 */
#define ITEMS 0
#define ROWS 1
#define COLUMNS 2
#define GROUPS 3

#ifndef T /* storage type of all tensors */
#define T float
#endif
#ifndef LOG /* 1: the logarithm of softmax */
#define LOG 0
#endif
#ifndef FORM
#define FORM 0
#endif
#ifndef LOCAL /* work-items in a group (GROUPS), a power of two */
#define LOCAL 256
#endif
#ifndef VEC /* elements at a time (ROWS, COLUMNS) */
#define VEC 1
#endif
#ifndef HELD /* numbers that a work-item keeps (ROWS, COLUMNS), a multiple of VEC */
#define HELD 16384
#endif
#include "include/common.h"
#include "include/group_inline.h"
#include "include/vectors.h"

#if !MX_IS_STORAGE(T)
#error "T must be half, float, double or bfloat16"
#endif
#if FORM < 0 || FORM > 3
#error "FORM must be 0 to 3"
#endif
#if LOCAL < 1 || (LOCAL & (LOCAL - 1)) != 0
#error "LOCAL must be a power of two"
#endif

#define PARAMETERS const mx_grid inside, const mx_grid outside, const long block, const SCALAR alpha, const SCALAR beta
#define PART 64

/* An element of the result, from v = x - max: softmax, or its logarithm.  `scale` is alpha / sum, or log(sum). */
#if LOG
#define RESULT(v, scale) ((ACC)alpha * ((v) - (scale)))
#define KEPT_RESULT(kept, scale) RESULT(kept, scale)
#define SCALE(sum) mx_log(sum)
#else
#define KEPT_RESULT(kept, scale) ((kept) * (scale)) /* powers were kept */
#define RESULT(v, scale) (mx_exp_below(v) * (scale))
#define SCALE(sum) ((ACC)alpha / (sum))
#endif

/* What backward sums up, and an element of its result. */
#if LOG
#define TERM(dy, y) (dy)
#define GRADIENT(dy, y, sum) ((ACC)alpha * ((dy) - mx_exp(y) * (sum)))
#else
#define TERM(dy, y) ((dy) * (y))
#define GRADIENT(dy, y, sum) ((ACC)alpha * (y) * ((dy) - (sum)))
#endif

#if FORM == ROWS || FORM == COLUMNS

#if VEC == 16
#define LANES ((VI)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#elif VEC == 8
#define LANES ((VI)(0, 1, 2, 3, 4, 5, 6, 7))
#else
#error "VEC must be 8 or 16 in this form"
#endif

/* `count` elements of p from `at` on, a vector at most, the lanes behind them `rest`.  Memory ends at `end`. */
static inline V take(__global const STORAGE(T) *p, long at, long count, ACC rest, long end)
{
    if (count >= VEC)
        return VLOAD_ANY_ORDER(T)(p, at);
    if (at + VEC <= end) /* what lies behind them may be read */
        return LANES < (VI)count ? LOADV(T)(p, at) : (V)rest;
    return load_lanes(p, at, 1, (int)count, rest);
}

static inline void put(__global STORAGE(T) *p, long at, long count, V value, ACC beta, long end)
{
    if (beta != 0)
        value += beta * take(p, at, count, 0, end);
    if (count >= VEC)
        VSTORE_ANY_ORDER(T)(p, at, value);
    else
        store_lanes(p, at, 1, (int)count, value);
}

#define EIGHT MX_JOIN(ACC, 8)
#define FOUR MX_JOIN(ACC, 4)
#define TWO MX_JOIN(ACC, 2)
#if VEC == 16
#define FIRST_FOLD(v, op) op((v).lo, (v).hi)
#else
#define FIRST_FOLD(v, op) (v)
#endif
#define ADD(a, b) ((a) + (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b)) /* of a number and NaN: b */

static inline ACC fold_sum(V v)
{
    const EIGHT e = FIRST_FOLD(v, ADD);
    const FOUR f = e.lo + e.hi;
    const TWO t = f.lo + f.hi;
    return t.x + t.y;
}

static inline ACC fold_max(V v)
{
    const EIGHT e = FIRST_FOLD(v, MAX);
    const FOUR f = MAX(e.lo, e.hi);
    const TWO t = MAX(f.lo, f.hi);
    return MAX(t.x, t.y);
}

/* This group's share of `all`: from .x up to .y. */
static inline long2 share(long all)
{
    const long me = get_group_id(0), groups = get_num_groups(0);
    return (long2)(me * all / groups, (me + 1) * all / groups);
}

/* Where a tensor's memory ends. */
#define END(t, offset) ((offset) + mx_grid_extent(inside, t) + mx_grid_extent(outside, t) - 1)

#if FORM == ROWS

/* A set of `count` numbers; up to HELD are read once and kept, of more the powers are computed twice. */
static inline void row(__global const STORAGE(T) *x, long from, long x_end, __global STORAGE(T) *y,
                       long to, long y_end, long count, SCALAR alpha, SCALAR beta, ACC *held, const bool keep)
{
    V top = (V)-INFINITY, sum = (V)0, rest = (V)0;
    for (long i = 0; i < count; i += VEC) {
        const V v = take(x, from + i, count - i, -INFINITY, x_end);
        if (keep)
            VJOIN(vstore)(v, 0, held + i);
        top = MAX(v, top);
    }
    const ACC most = fold_max(top);
    for (long start = 0; start < count; start += PART * VEC) {
        const long end = min(start + PART * VEC, count);
        V part = (V)0;
        for (long i = start; i < end; i += VEC) {
            const V v = (keep ? VJOIN(vload)(0, held + i) : take(x, from + i, count - i, -INFINITY, x_end)) - most;
            const V e = mx_exp_below(v);
            if (keep)
                VJOIN(vstore)(LOG ? v : e, 0, held + i);
            part += e;
        }
        MX_TWO_SUM(V, sum, rest, part);
    }
    const V scale = SCALE((V)fold_sum(sum));
    for (long i = 0; i < count; i += VEC) {
        V v;
        if (keep)
            v = KEPT_RESULT(VJOIN(vload)(0, held + i), scale);
        else
            v = RESULT(take(x, from + i, count - i, -INFINITY, x_end) - most, scale);
        put(y, to + i, count - i, v, beta, y_end);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void softmax_forward(
    __global const STORAGE(T) *x, long x_offset, __global STORAGE(T) *y, long y_offset, PARAMETERS)
{
    ACC held[HELD];
    const long count = inside.len[4];
    const long x_end = END(1, x_offset), y_end = END(0, y_offset);
    const long2 mine = share(mx_grid_size(outside));
    for (long set = mine.x; set < mine.y; set++) {
        const long from = x_offset + mx_grid_element(outside, 1, (INDEX)set);
        const long to = y_offset + mx_grid_element(outside, 0, (INDEX)set);
        if (count <= HELD)
            row(x, from, x_end, y, to, y_end, count, alpha, beta, held, true);
        else
            row(x, from, x_end, y, to, y_end, count, alpha, beta, held, false);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void softmax_backward(
    __global const STORAGE(T) *y, long y_offset, __global const STORAGE(T) *dy, long dy_offset,
    __global STORAGE(T) *dx, long dx_offset, PARAMETERS)
{
    const long count = inside.len[4];
    const long y_end = END(2, y_offset), dy_end = END(1, dy_offset), dx_end = END(0, dx_offset);
    const long2 mine = share(mx_grid_size(outside));
    for (long set = mine.x; set < mine.y; set++) {
        const long y_at = y_offset + mx_grid_element(outside, 2, (INDEX)set);
        const long dy_at = dy_offset + mx_grid_element(outside, 1, (INDEX)set);
        const long to = dx_offset + mx_grid_element(outside, 0, (INDEX)set);
        V lanes = (V)0, rest = (V)0;
        for (long start = 0; start < count; start += PART * VEC) {
            const long end = min(start + PART * VEC, count);
            V part = (V)0;
            for (long i = start; i < end; i += VEC)
                part += TERM(take(dy, dy_at + i, count - i, 0, dy_end), take(y, y_at + i, count - i, 0, y_end));
            MX_TWO_SUM(V, lanes, rest, part);
        }
        const ACC sum = fold_sum(lanes);
        for (long i = 0; i < count; i += VEC) {
            const V gradient =
                GRADIENT(take(dy, dy_at + i, count - i, 0, dy_end), take(y, y_at + i, count - i, 0, y_end), sum);
            put(dx, to + i, count - i, gradient, beta, dx_end);
        }
    }
}

#else /* COLUMNS */

#define WIDEST 64 /* vectors of a block, at most */
/* Of a vector at column j; `full` says that all of them are whole, and is a constant. */
#define REST(j) (full ? VEC : wide - (j))

/* Sets first ... first + wide - 1 of a line; block * count numbers are kept where HELD is enough for them. */
static inline void columns(__global const STORAGE(T) *x, long from, long x_end, __global STORAGE(T) *y, long to,
                           long y_end, long wide, PARAMETERS, ACC *held, const bool keep, const bool full)
{
    const long count = inside.len[4], x_step = inside.stride[1][4], y_step = inside.stride[0][4];
    V top[WIDEST], scale[WIDEST];
    for (long j = 0; j < wide; j += VEC)
        top[j / VEC] = (V)-INFINITY;
    for (long c = 0; c < count; c++)
        for (long j = 0; j < wide; j += VEC) {
            const V v = take(x, from + c * x_step + j, REST(j), 0, x_end);
            top[j / VEC] = MAX(v, top[j / VEC]);
        }
    for (long j = 0; j < wide; j += VEC) {
        const V most = top[j / VEC];
        V sum = (V)0, rest = (V)0;
        for (long start = 0; start < count; start += PART) {
            const long end = min(start + PART, count);
            V part = (V)0;
            for (long c = start; c < end; c++) {
                const V v = take(x, from + c * x_step + j, REST(j), 0, x_end) - most;
                const V e = mx_exp_below(v);
                if (keep)
                    VJOIN(vstore)(LOG ? v : e, 0, held + c * block + j);
                part += e;
            }
            MX_TWO_SUM(V, sum, rest, part);
        }
        scale[j / VEC] = SCALE(sum);
    }
    for (long c = 0; c < count; c++)
        for (long j = 0; j < wide; j += VEC) {
            V v;
            if (keep)
                v = KEPT_RESULT(VJOIN(vload)(0, held + c * block + j), scale[j / VEC]);
            else
                v = RESULT(take(x, from + c * x_step + j, REST(j), 0, x_end) - top[j / VEC], scale[j / VEC]);
            put(y, to + c * y_step + j, REST(j), v, beta, y_end);
        }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void softmax_forward(
    __global const STORAGE(T) *x, long x_offset, __global STORAGE(T) *y, long y_offset, PARAMETERS)
{
    ACC held[HELD];
    const long row = outside.len[4], blocks = (row + block - 1) / block;
    const long x_end = END(1, x_offset), y_end = END(0, y_offset);
    const long2 mine = share(blocks * (mx_grid_size(outside) / row));
    for (long i = mine.x; i < mine.y; i++) {
        const long line = i / blocks, first = i % blocks * block, wide = min(block, row - first);
        const long from = x_offset + mx_grid_offset(outside, 1, line) + first;
        const long to = y_offset + mx_grid_offset(outside, 0, line) + first;
        const bool keep = block * inside.len[4] <= HELD;
        if (keep && wide == block)
            columns(x, from, x_end, y, to, y_end, block, inside, outside, block, alpha, beta, held, true, true);
        else if (keep)
            columns(x, from, x_end, y, to, y_end, wide, inside, outside, block, alpha, beta, held, true, false);
        else
            columns(x, from, x_end, y, to, y_end, wide, inside, outside, block, alpha, beta, held, false, false);
    }
}

static inline void columns_gradient(__global const STORAGE(T) *y, long y_at, long y_end,
                                    __global const STORAGE(T) *dy, long dy_at, long dy_end, __global STORAGE(T) *dx,
                                    long to, long dx_end, long wide, PARAMETERS, const bool full)
{
    const long count = inside.len[4], y_step = inside.stride[2][4], dy_step = inside.stride[1][4];
    V sum[WIDEST], rest[WIDEST], part[WIDEST];
    for (long j = 0; j < wide; j += VEC)
        sum[j / VEC] = rest[j / VEC] = (V)0;
    for (long start = 0; start < count; start += PART) {
        const long end = min(start + PART, count);
        for (long j = 0; j < wide; j += VEC)
            part[j / VEC] = (V)0;
        for (long c = start; c < end; c++)
            for (long j = 0; j < wide; j += VEC)
                part[j / VEC] += TERM(take(dy, dy_at + c * dy_step + j, REST(j), 0, dy_end),
                                      take(y, y_at + c * y_step + j, REST(j), 0, y_end));
        for (long j = 0; j < wide; j += VEC)
            MX_TWO_SUM(V, sum[j / VEC], rest[j / VEC], part[j / VEC]);
    }
    for (long c = 0; c < count; c++)
        for (long j = 0; j < wide; j += VEC) {
            const V gradient = GRADIENT(take(dy, dy_at + c * dy_step + j, REST(j), 0, dy_end),
                                        take(y, y_at + c * y_step + j, REST(j), 0, y_end), sum[j / VEC]);
            put(dx, to + c * inside.stride[0][4] + j, REST(j), gradient, beta, dx_end);
        }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void softmax_backward(
    __global const STORAGE(T) *y, long y_offset, __global const STORAGE(T) *dy, long dy_offset,
    __global STORAGE(T) *dx, long dx_offset, PARAMETERS)
{
    const long row = outside.len[4], blocks = (row + block - 1) / block;
    const long y_end = END(2, y_offset), dy_end = END(1, dy_offset), dx_end = END(0, dx_offset);
    const long2 mine = share(blocks * (mx_grid_size(outside) / row));
    for (long i = mine.x; i < mine.y; i++) {
        const long line = i / blocks, first = i % blocks * block, wide = min(block, row - first);
        const long y_at = y_offset + mx_grid_offset(outside, 2, line) + first;
        const long dy_at = dy_offset + mx_grid_offset(outside, 1, line) + first;
        const long to = dx_offset + mx_grid_offset(outside, 0, line) + first;
        if (wide == block)
            columns_gradient(y, y_at, y_end, dy, dy_at, dy_end, dx, to, dx_end, block, inside, outside, block, alpha,
                             beta, true);
        else
            columns_gradient(y, y_at, y_end, dy, dy_at, dy_end, dx, to, dx_end, wide, inside, outside, block, alpha,
                             beta, false);
    }
}

#endif

#else /* ITEMS and GROUPS: a set element by element */

#if FORM == GROUPS
#define FIRST_SET get_group_id(0)
#define SETS_STEP get_num_groups(0)
#define ME get_local_id(0)
#define STEP LOCAL
#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
#define SCRATCH __local ACC scratch[LOCAL]
#define ALL(how, mine) all_##how(mine, scratch)

GROUP_INLINE ACC all_sum(ACC mine, __local ACC *scratch)
{
    const int me = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    scratch[me] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = LOCAL / 2; half_way > 0; half_way /= 2) {
        if (me < half_way)
            scratch[me] += scratch[me + half_way];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return scratch[0];
}

GROUP_INLINE ACC all_max(ACC mine, __local ACC *scratch)
{
    const int me = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    scratch[me] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = LOCAL / 2; half_way > 0; half_way /= 2) {
        if (me < half_way)
            scratch[me] = fmax(scratch[me], scratch[me + half_way]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return scratch[0];
}
#else
#define FIRST_SET get_global_id(0)
#define SETS_STEP get_global_size(0)
#define ME 0
#define STEP 1
#define KERNEL __kernel void
#define SCRATCH
#define ALL(how, mine) (mine)
#endif

/* Where element i of a set lies. */
#define AT(t, i) (single ? (i) * inside.stride[t][4] : mx_grid_element(inside, t, (INDEX)(i)))

KERNEL softmax_forward(__global const STORAGE(T) *x, long x_offset, __global STORAGE(T) *y, long y_offset, PARAMETERS)
{
    SCRATCH;
    const long count = mx_grid_size(inside), sets = mx_grid_size(outside);
    const bool single = count == inside.len[4];
    for (long set = FIRST_SET; set < sets; set += SETS_STEP) {
        const long from = x_offset + mx_grid_element(outside, 1, (INDEX)set);
        const long to = y_offset + mx_grid_element(outside, 0, (INDEX)set);
        ACC most = -INFINITY, sum = 0, rest = 0;
        for (long i = ME; i < count; i += STEP)
            most = fmax(most, (ACC)LOAD(T)(x, from + AT(1, i)));
        most = ALL(max, most);
        for (long start = ME; start < count; start += PART * STEP) {
            const long end = min(start + PART * STEP, count);
            ACC part = 0;
            for (long i = start; i < end; i += STEP)
                part += mx_exp_below((ACC)LOAD(T)(x, from + AT(1, i)) - most);
            MX_TWO_SUM(ACC, sum, rest, part);
        }
        const ACC scale = SCALE(ALL(sum, sum));
        for (long i = ME; i < count; i += STEP) {
            ACC value = RESULT((ACC)LOAD(T)(x, from + AT(1, i)) - most, scale);
            const long at = to + AT(0, i);
            if (beta != 0)
                value += (ACC)beta * (ACC)LOAD(T)(y, at);
            STORE(T)(y, at, value);
        }
    }
}

KERNEL softmax_backward(__global const STORAGE(T) *y, long y_offset, __global const STORAGE(T) *dy, long dy_offset,
                        __global STORAGE(T) *dx, long dx_offset, PARAMETERS)
{
    SCRATCH;
    const long count = mx_grid_size(inside), sets = mx_grid_size(outside);
    const bool single = count == inside.len[4];
    for (long set = FIRST_SET; set < sets; set += SETS_STEP) {
        const long y_at = y_offset + mx_grid_element(outside, 2, (INDEX)set);
        const long dy_at = dy_offset + mx_grid_element(outside, 1, (INDEX)set);
        const long to = dx_offset + mx_grid_element(outside, 0, (INDEX)set);
        ACC sum = 0, rest = 0;
        for (long start = ME; start < count; start += PART * STEP) {
            const long end = min(start + PART * STEP, count);
            ACC part = 0;
            for (long i = start; i < end; i += STEP)
                part += TERM((ACC)LOAD(T)(dy, dy_at + AT(1, i)), (ACC)LOAD(T)(y, y_at + AT(2, i)));
            MX_TWO_SUM(ACC, sum, rest, part);
        }
        sum = ALL(sum, sum);
        for (long i = ME; i < count; i += STEP) {
            ACC value = GRADIENT((ACC)LOAD(T)(dy, dy_at + AT(1, i)), (ACC)LOAD(T)(y, y_at + AT(2, i)), sum);
            const long at = to + AT(0, i);
            if (beta != 0)
                value += (ACC)beta * (ACC)LOAD(T)(dx, at);
            STORE(T)(dx, at, value);
        }
    }
}

#endif
