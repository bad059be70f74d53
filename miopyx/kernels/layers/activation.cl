/* Activations and their gradients, element by element; an output may be where an input is.
 *
 *   forward    y = f(x)                 backward    dx = dy f'(x), by x or y, whichever the mode reads
 *   f and f' are MIOpen's (its activation page); docs/layers.md has the table.
 *
 *   rows of the grid:  |-chunk-|-chunk-|-c-|      ROWS = 1  a work-item: an equal share of all chunks
 *                      |-chunk-|-chunk-|-c-|      ROWS = 0  a work-group: a chunk, LOCAL elements at a time
 *
 * Grid:         rows (mx_grid) of any strides; tensor 0 is the output, 1 x or dy, 2 backward v: x, y, or dy again.
 *               ROWS = 1, CPUs: local size 1, any number of work-groups; a chunk is elements of one row.
 *               ROWS = 0, GPUs: a chunk is a multiple of LOCAL elements.  With VEC > 1 all tensors are one packed row,
 *               a work-item has a vector, and a chunk is VEC * LOCAL elements.
 * Local memory: none.
 * Parameters:   T, ACTIVATION, ROWS, LOCAL, VEC, below.  alpha, beta and gamma are the activation's and come with each call;
 *               eps is what POWER and TANH take for zero.
 * Bound by:     memory; TANH, LOGISTIC, SOFTRELU, ELU and POWER on CPUs by their exponentials.
 */
#ifndef T /* storage type of all tensors */
#define T float
#endif
#ifndef ACTIVATION /* miopenActivationMode_t */
#define ACTIVATION 3
#endif
#ifndef ROWS /* work-items: 1 large ones, 0 small ones */
#define ROWS 0
#endif
#ifndef LOCAL /* work-items in a group (ROWS = 0) */
#define LOCAL 256
#endif
#ifndef VEC /* elements at a time */
#define VEC 1
#endif
#include "include/common.h"
#include "include/vectors.h"
#include "include/activation.h"

#if !MX_IS_STORAGE(T)
#error "T must be half, float, double or bfloat16"
#endif
#if ACTIVATION < 0 || ACTIVATION > 10
#error "ACTIVATION must be 0 to 10"
#endif

#define PARAMETERS const mx_grid g, const long chunk, const ACC alpha, const ACC beta, const ACC gamma, const ACC eps

#if ROWS

/* The elements first ... last - 1 of a row. */
static inline void forward_row(__global const STORAGE(T) *x, long x_at, __global STORAGE(T) *y, long y_at, long first,
                               long last, PARAMETERS)
{
    const long x_step = g.stride[1][4], y_step = g.stride[0][4];
    const bool dense = x_step == 1 && y_step == 1;
    long i = first, head = dense ? BEFORE_STREAM(y + y_at + first) : 0;
    while (i < last) {
        if (dense && head == 0)
            for (; i + VEC <= last; i += VEC)
                VSTREAM_ANY_ORDER(T)(y, y_at + i,
                                     mx_activation(VLOAD_ANY_ORDER(T)(x, x_at + i), alpha, beta, gamma, eps));
        const int count = (int)min(head > 0 ? head : (long)VEC, last - i);
        const V v = load_lanes(x, x_at + i * x_step, x_step, count, 0);
        store_lanes(y, y_at + i * y_step, y_step, count, mx_activation(v, alpha, beta, gamma, eps));
        i += count;
        head = 0;
    }
}

static inline void backward_row(__global const STORAGE(T) *v, long v_at, __global const STORAGE(T) *dy, long dy_at,
                                __global STORAGE(T) *dx, long dx_at, long first, long last, PARAMETERS)
{
    const long v_step = g.stride[2][4], dy_step = g.stride[1][4], dx_step = g.stride[0][4];
    const bool dense = v_step == 1 && dy_step == 1 && dx_step == 1;
    long i = first, head = dense ? BEFORE_STREAM(dx + dx_at + first) : 0;
    while (i < last) {
        if (dense && head == 0)
            for (; i + VEC <= last; i += VEC)
                VSTREAM_ANY_ORDER(T)(dx, dx_at + i,
                                     mx_activation_gradient(VLOAD_ANY_ORDER(T)(dy, dy_at + i),
                                                            VLOAD_ANY_ORDER(T)(v, v_at + i), alpha, beta, gamma, eps));
        const int count = (int)min(head > 0 ? head : (long)VEC, last - i);
        const V a = load_lanes(dy, dy_at + i * dy_step, dy_step, count, 0);
        const V b = load_lanes(v, v_at + i * v_step, v_step, count, 0);
        store_lanes(dx, dx_at + i * dx_step, dx_step, count, mx_activation_gradient(a, b, alpha, beta, gamma, eps));
        i += count;
        head = 0;
    }
}

/* This group's share of the chunks, [.x, .y); *chunks is how many a row has. */
static inline long2 share(const mx_grid g, long chunk, long *chunks)
{
    *chunks = (g.len[4] + chunk - 1) / chunk;
    const long all = *chunks * g.len[0] * g.len[1] * g.len[2] * g.len[3];
    const long me = get_group_id(0), groups = get_num_groups(0);
    return (long2)(me * all / groups, (me + 1) * all / groups);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void activation_forward(
    __global const STORAGE(T) *x, long x_offset, __global STORAGE(T) *y, long y_offset, PARAMETERS)
{
    long chunks;
    const long2 mine = share(g, chunk, &chunks);
    for (long i = mine.x; i < mine.y; i++) {
        const long line = i / chunks, first = i % chunks * chunk;
        forward_row(x, x_offset + mx_grid_offset(g, 1, line), y, y_offset + mx_grid_offset(g, 0, line), first,
                    min(first + chunk, g.len[4]), g, chunk, alpha, beta, gamma, eps);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void activation_backward(
    __global const STORAGE(T) *v, long v_offset, __global const STORAGE(T) *dy, long dy_offset,
    __global STORAGE(T) *dx, long dx_offset, PARAMETERS)
{
    long chunks;
    const long2 mine = share(g, chunk, &chunks);
    for (long i = mine.x; i < mine.y; i++) {
        const long line = i / chunks, first = i % chunks * chunk;
        backward_row(v, v_offset + mx_grid_offset(g, 2, line), dy, dy_offset + mx_grid_offset(g, 1, line), dx,
                     dx_offset + mx_grid_offset(g, 0, line), first, min(first + chunk, g.len[4]), g, chunk, alpha, beta,
                     gamma, eps);
    }
}

#elif VEC > 1

#include "include/gpu_vectors.h"

MX_GET(get, T)
MX_PUT(put, T)

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void activation_forward(
    __global const STORAGE(T) *x, long x_offset, __global STORAGE(T) *y, long y_offset, PARAMETERS)
{
    const long i = get_group_id(0) * chunk + get_local_id(0) * VEC;
    x += x_offset;
    y += y_offset;
    if (MX_ALIGNED(x) && MX_ALIGNED(y) && i + VEC <= g.len[4]) {
        put(y + i, mx_activation(get(x + i, true), alpha, beta, gamma, eps), true);
        return;
    }
    const int count = (int)min((long)VEC, g.len[4] - i);
    store_lanes(y, i, 1, count, mx_activation(load_lanes(x, i, 1, count, 0), alpha, beta, gamma, eps));
}

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void activation_backward(
    __global const STORAGE(T) *v, long v_offset, __global const STORAGE(T) *dy, long dy_offset,
    __global STORAGE(T) *dx, long dx_offset, PARAMETERS)
{
    const long i = get_group_id(0) * chunk + get_local_id(0) * VEC;
    v += v_offset;
    dy += dy_offset;
    dx += dx_offset;
    if (MX_ALIGNED(v) && MX_ALIGNED(dy) && MX_ALIGNED(dx) && i + VEC <= g.len[4]) {
        put(dx + i, mx_activation_gradient(get(dy + i, true), get(v + i, true), alpha, beta, gamma, eps), true);
        return;
    }
    const int count = (int)min((long)VEC, g.len[4] - i);
    const V a = load_lanes(dy, i, 1, count, 0), b = load_lanes(v, i, 1, count, 0);
    store_lanes(dx, i, 1, count, mx_activation_gradient(a, b, alpha, beta, gamma, eps));
}

#else

/* A packed tensor is a single row, which takes no divisions. */
#define AT(t, i) (single ? (i) * g.stride[t][4] : mx_grid_element(g, t, (INDEX)(i)))

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void activation_forward(
    __global const STORAGE(T) *x, long x_offset, __global STORAGE(T) *y, long y_offset, PARAMETERS)
{
    const long lines = g.len[0] * g.len[1] * g.len[2] * g.len[3];
    const bool single = lines == 1;
    const long start = get_group_id(0) * chunk, end = min(start + chunk, lines * g.len[4]);
    for (long i = start + get_local_id(0); i < end; i += LOCAL)
        STORE(T)(y, y_offset + AT(0, i), mx_activation(LOAD(T)(x, x_offset + AT(1, i)), alpha, beta, gamma, eps));
}

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void activation_backward(
    __global const STORAGE(T) *v, long v_offset, __global const STORAGE(T) *dy, long dy_offset,
    __global STORAGE(T) *dx, long dx_offset, PARAMETERS)
{
    const long lines = g.len[0] * g.len[1] * g.len[2] * g.len[3];
    const bool single = lines == 1;
    const long start = get_group_id(0) * chunk, end = min(start + chunk, lines * g.len[4]);
    for (long i = start + get_local_id(0); i < end; i += LOCAL)
        STORE(T)(dx, dx_offset + AT(0, i),
                 mx_activation_gradient(LOAD(T)(dy, dy_offset + AT(1, i)), LOAD(T)(v, v_offset + AT(2, i)), alpha, beta,
                                        gamma, eps));
}

#endif
