/* Local response normalisation over channels on GPUs, vectors at a time.  layers/lrn.cl has the formulas; lrn_items
 * there serves tensors that vectors do not suit.
 *
 *   lrn_down   rows (channels)     a work-item computes p.rows / p.parts rows at VEC neighbouring positions: it goes
 *              |v|v|v|  VEC each   down the rows and reads each once, AHEAD before it is needed
 *   lrn_lanes  |c c c c|c c c c|   channels are neighbours in memory: a work-item computes VEC of them at one position,
 *                                  from three vectors; a window of VEC + 1 at most
 *
 * Grid:         lrn_down positions / VEC * parts, lrn_lanes positions * rows / VEC, rounded up.
 * Local memory: none.
 * Parameters:   VEC, AHEAD, DOWN, below, and those of layers/lrn.h.  Lengths, and strides but for those of 1, are
 *               multiples of VEC.
 * Bound by:     memory.
 */
#ifndef VEC
#define VEC 4
#endif
#ifndef AHEAD
#define AHEAD 2
#endif
#ifndef DOWN /* 1: lrn_down, 0: lrn_lanes */
#define DOWN 1
#endif
#if VEC == 1
#define VALUE ACC
#else
#define VALUE MX_JOIN(ACC, VEC)
#endif
#include "layers/lrn.h"
#include "include/gpu_vectors.h"

#if N < 1 || (N > VEC + 1 && !DOWN)
#error "N must be 1 ... VEC + 1, or 1 ... 16"
#endif
/* Rows of a window before and after its own; the backward direction's window is mirrored. */
#define BEFORE (BACKWARD ? N - 1 - (N - 1) / 2 : (N - 1) / 2)
#define AFTER (N - 1 - BEFORE)

MX_GET(get, T_TYPE)
MX_PUT(put, T_TYPE)
MX_GET(get_scale, ACC)
MX_PUT(put_scale, ACC)

#if BACKWARD
#define ALIGNED (MX_ALIGNED(x) && MX_ALIGNED(y) && MX_ALIGNED(dx) && MX_ALIGNED(dy) && MX_ALIGNED(scales))
#define SHIFT(t0, t1, t2, t3)                              \
    x += x_offset + (t0), y += y_offset + (t1), dx += dx_offset + (t2), dy += dy_offset + (t3), \
        scales += scales_offset + (t1)
#elif SAVE
#define ALIGNED (MX_ALIGNED(x) && MX_ALIGNED(y) && MX_ALIGNED(scales))
#define SHIFT(t0, t1, t2, t3) x += x_offset + (t0), y += y_offset + (t1), scales += scales_offset + (t1)
#else
#define ALIGNED (MX_ALIGNED(x) && MX_ALIGNED(y))
#define SHIFT(t0, t1, t2, t3) x += x_offset + (t0), y += y_offset + (t1)
#endif
#define PLACE(t, line, at) (mx_grid_offset(p.grid, t, line) + (at) * p.grid.stride[t][4])

/* 1 / s and s^-beta. */
typedef struct {
    vec_t inverse, power;
} powers_t;

static inline powers_t powers(const vec_t s, const ACC beta)
{
    powers_t of;
#if POWER == 2 || POWER == 3
    const vec_t r = rsqrt(s);
    of.inverse = r * r;
    of.power = POWER == 2 ? r : r * sqrt(r);
#else
    of.inverse = 1 / s;
    of.power = power(s, beta);
#endif
    return of;
}

#if DOWN

/* What is read of a row. */
typedef struct {
    vec_t x;
#if BACKWARD
    vec_t y, dy, s;
#endif
} row_t;

/* Reads row `row`, or the nearest one that is asked for, and goes on to the next one. */
#define STEP(p, row, step) ((p) += (row) >= 0 && (row) + 1 < last ? (step) : 0)
#if BACKWARD
#define READ(to, row)                              \
    do {                                           \
        (to).x = get(x, aligned);                  \
        STEP(x, (row) - AFTER, p.row_step[0]);     \
        (to).y = get(y, aligned);                  \
        STEP(y, row, p.row_step[1]);               \
        (to).dy = get(dy, aligned);                \
        STEP(dy, row, p.row_step[3]);              \
        (to).s = get_scale(scales, aligned);       \
        STEP(scales, row, p.row_step[1]);          \
    } while (0)
#else
#define READ(to, row)                        \
    do {                                     \
        (to).x = get(x, aligned);            \
        STEP(x, row, p.row_step[0]);         \
    } while (0)
#endif

static inline __attribute__((always_inline)) void down(BUFFERS, const mx_lrn p, const ACC k, const ACC a,
                                                       const ACC beta, INDEX begin, INDEX end, const bool aligned)
{
    const INDEX rows = (INDEX)p.rows, first = begin - BEFORE, last = min(rows, end + AFTER);
    row_t next[AHEAD];
    vec_t terms[N], own[N]; /* of the last N rows: what is summed; x, or dy times a power of the scale */
    const long start = max(first, (INDEX)0);
#if BACKWARD
    x += max(first - AFTER, (INDEX)0) * p.row_step[0];
    y += start * p.row_step[1];
    dx += begin * p.row_step[2];
    dy += start * p.row_step[3];
    scales += start * p.row_step[1];
#else
    x += start * p.row_step[0];
    y += begin * p.row_step[1];
#if SAVE
    scales += begin * p.row_step[1];
#endif
#endif
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        READ(next[i], first + i);
#pragma unroll
    for (int i = 0; i < N; i++)
        terms[i] = own[i] = 0;
#pragma unroll 1
    for (INDEX row = first; row < end + AFTER; row += N)
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (row + i >= end + AFTER)
                return;
            const row_t now = next[0];
#pragma unroll
            for (int j = 0; j + 1 < AHEAD; j++)
                next[j] = next[j + 1];
            READ(next[AHEAD - 1], row + i + AHEAD);
            const bool there = row + i >= 0 && row + i < rows;
            /* Row r of the output is complete. */
            const INDEX r = row + i - AFTER;
            const bool write = r >= begin && r < end;
#if BACKWARD
            const powers_t of = powers(now.s, beta);
            terms[i] = there ? now.dy * now.y * of.inverse : (vec_t)0;
            own[i] = now.dy * of.power;
            vec_t sum = 0;
#pragma unroll
            for (int j = 0; j < N; j++)
                sum += terms[j];
            if (write) {
                put(dx, own[(i + N - AFTER) % N] - a * now.x * sum, aligned);
                dx += p.row_step[2];
            }
#else
            own[i] = there ? now.x : (vec_t)0;
            terms[i] = own[i] * own[i];
            vec_t sum = 0;
#pragma unroll
            for (int j = 0; j < N; j++)
                sum += terms[j];
            const vec_t s = k + a * sum;
            if (write) {
#if SAVE
                put_scale(scales, s, aligned);
                scales += p.row_step[1];
#endif
                put(y, own[(i + N - AFTER) % N] * power(s, beta), aligned);
                y += p.row_step[1];
            }
#endif
        }
}

__kernel void lrn_down(BUFFERS, const mx_lrn p, const ACC k, const ACC a, const ACC beta)
{
    const INDEX id = (INDEX)get_global_id(0), length = (INDEX)p.grid.len[4] / VEC;
    const INDEX vectors = length * (INDEX)(p.grid.len[0] * p.grid.len[1] * p.grid.len[2] * p.grid.len[3]);
    const INDEX part = id / vectors, vector = id - part * vectors, line = vector / length;
    const INDEX at = (vector - line * length) * VEC;
    if (part >= (INDEX)p.parts)
        return;
    const INDEX begin = (INDEX)(part * p.rows / p.parts), end = (INDEX)((part + 1L) * p.rows / p.parts);
    SHIFT(PLACE(0, line, at), PLACE(1, line, at), PLACE(2, line, at), PLACE(3, line, at));
#if BACKWARD
#define GIVEN_BUFFERS x, 0, y, 0, dx, 0, dy, 0, scales, 0
#elif SAVE
#define GIVEN_BUFFERS x, 0, y, 0, scales, 0
#else
#define GIVEN_BUFFERS x, 0, y, 0
#endif
    if (VEC == 1 || ALIGNED)
        down(GIVEN_BUFFERS, p, k, a, beta, begin, end, true);
    else
        down(GIVEN_BUFFERS, p, k, a, beta, begin, end, false);
}

#else

#define LANE(v, i) (((const ACC *)&(v))[i])

/* Of channels -VEC ... 2 VEC - 1 from a vector's first one those that its windows meet. */
static inline vec_t window_sums(const vec_t before, const vec_t here, const vec_t after)
{
    ACC terms[VEC + N - 1];
    vec_t sums = 0;
#pragma unroll
    for (int i = 0; i < VEC + N - 1; i++) {
        const int at = i - BEFORE;
        terms[i] = at < 0 ? LANE(before, at + VEC) : at < VEC ? LANE(here, at) : LANE(after, at - VEC);
    }
#pragma unroll
    for (int i = 0; i < VEC; i++) {
        ACC sum = 0;
#pragma unroll
        for (int j = 0; j < N; j++)
            sum += terms[i + j];
        ((ACC *)&sums)[i] = sum;
    }
    return sums;
}

__kernel void lrn_lanes(BUFFERS, const mx_lrn p, const ACC k, const ACC a, const ACC beta)
{
    const INDEX id = (INDEX)get_global_id(0), width = (INDEX)p.rows / VEC, length = (INDEX)p.grid.len[4];
    const INDEX position = id / width, c = (id - position * width) * VEC, line = position / length;
    const INDEX lines = (INDEX)(p.grid.len[0] * p.grid.len[1] * p.grid.len[2] * p.grid.len[3]);
    const INDEX at = position - line * length;
    if (line >= lines)
        return;
    SHIFT(PLACE(0, line, at) + c, PLACE(1, line, at) + c, PLACE(2, line, at) + c, PLACE(3, line, at) + c);
    const bool aligned = ALIGNED;
    const int back = c > 0 ? -VEC : 0, on = c + VEC < (INDEX)p.rows ? VEC : 0;
#if BACKWARD
    vec_t terms[3], g;
    const int places[3] = {back, 0, on};
#pragma unroll
    for (int i = 0; i < 3; i++) {
        const vec_t dy_i = get(dy + places[i], aligned);
        const powers_t of = powers(get_scale(scales + places[i], aligned), beta);
        terms[i] = dy_i * get(y + places[i], aligned) * of.inverse;
        if (i == 1)
            g = dy_i * of.power;
    }
    const vec_t sums = window_sums(back ? terms[0] : (vec_t)0, terms[1], on ? terms[2] : (vec_t)0);
    put(dx, g - a * get(x, aligned) * sums, aligned);
#else
    const vec_t before = get(x + back, aligned), here = get(x, aligned), after = get(x + on, aligned);
    const vec_t s = k + a * window_sums(back ? before * before : (vec_t)0, here * here, on ? after * after : (vec_t)0);
#if SAVE
    put_scale(scales, s, aligned);
#endif
    put(y, here * power(s, beta), aligned);
#endif
}

#endif
