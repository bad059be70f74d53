/* Pooling of windows with gaps, and averages that divide by what no other kernel does.
 *
 *   y[n, c, o, p, q] = max, or mean, of x[n, c, o step - pad + z dilation, ...] over the window's z, r, s that are
 *   inside; a mean divides by the elements inside (MODE 1), by those inside x and its pads (MODE 2), or by `divisor`.
 *   dx[n, c, d, h, w] = sum over the windows that contain it: of dy where the index says so, or of its share.
 *
 * x and y (dx and dy) are of any strides; indices are packed in n c d h w order, or with LIKE_Y lie as y (dy) does.
 * Grid:         elements of y (dx), padded to whole work-groups; work-item i writes element i.
 * Local memory: none.
 * Parameters:   TYPE, ACC, MODE, SAVE, INDEX_BITS, IMAGE, LIKE_Y, PROPAGATE of layers/pooling.h; LONG_SUM.
 * Bound by:     loads.
 */
#define INDEX long
#include "layers/pooling.h"

/* a / b rounded up, b > 0. */
static inline long quotient_up(long a, long b)
{
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

/* Taps of the window that begins at `start` of an axis, 0 ... 2, which lie in the image: from .x up to .y. */
static inline long2 taps_of(const mx_pooling_problem *p, int axis, long start)
{
    return (long2)(max(quotient_up(-start, p->dilation[axis]), 0L),
                   min(quotient_up(p->x.len[2 + axis] - start, p->dilation[axis]), p->window[axis]));
}

/* Windows that span place `at` of an axis, 0 ... 2; not all of them contain it. */
static inline long2 windows_around(const mx_pooling_problem *p, int axis, long at)
{
    const long first = at + p->pad[axis] - (p->window[axis] - 1) * p->dilation[axis];
    return (long2)(max(quotient_up(first, p->step[axis]), 0L),
                   min((at + p->pad[axis]) / p->step[axis] + 1, p->y.len[2 + axis]));
}

/* By how much an axis divides the average of a window. */
static inline long share(const mx_pooling_problem *p, int axis, long window)
{
    const long start = window * p->step[axis] - p->pad[axis];
    if (MODE == 2)
        return min(quotient_up(p->x.len[2 + axis] + p->end[axis] - start, p->dilation[axis]), p->window[axis]);
    const long2 taps = taps_of(p, axis, start);
    return max(taps.y - taps.x, 1L);
}

static inline ACC divisor_of(const mx_pooling_problem *p, long d, long h, long w)
{
    return (ACC)(p->divisor != 0 ? p->divisor : share(p, 0, d) * share(p, 1, h) * share(p, 2, w));
}

__kernel void pooling_forward_special(__global const STORAGE(TYPE) *restrict x, long x_offset,
                                      __global STORAGE(TYPE) *restrict y, long y_offset,
#if SAVE
                                      __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                      const mx_pooling_problem p, const long block)
{
    const INDEX item = (INDEX)get_global_id(0);
    if (item >= mx_size(p.y))
        return;
    const mx_place a = mx_place_of(item, p.y);
    const long d0 = a.d * p.step[0] - p.pad[0], h0 = a.h * p.step[1] - p.pad[1], w0 = a.w * p.step[2] - p.pad[2];
    const long2 kd = taps_of(&p, 0, d0), kh = taps_of(&p, 1, h0), kw = taps_of(&p, 2, w0);
    ACC result = MODE == 0 ? -(ACC)INFINITY : (ACC)0, rest = 0;
#if PROPAGATE /* the first tap in the image */
    long code = IMAGE ? ((d0 + kd.x * p.dilation[0]) * p.x.len[3] + h0 + kh.x * p.dilation[1]) * p.x.len[4] + w0 +
                            kw.x * p.dilation[2]
                      : (kd.x * p.window[1] + kh.x) * p.window[2] + kw.x;
#else
    long code = 0;
#endif
    x += x_offset + a.n * p.x.stride[0] + a.c * p.x.stride[1];
    for (long i = kd.x; i < kd.y; i++)
        for (long j = kh.x; j < kh.y; j++)
            for (long k = kw.x; k < kw.y; k++) {
                const long d = d0 + i * p.dilation[0], h = h0 + j * p.dilation[1], w = w0 + k * p.dilation[2];
                const ACC value = LOAD(TYPE)(x, d * p.x.stride[2] + h * p.x.stride[3] + w * p.x.stride[4]);
                if (MODE != 0) {
                    ADD_TERM(ACC, result, rest, value);
                } else if (ABOVE(value, result)) {
                    result = value;
                    code = IMAGE ? (d * p.x.len[3] + h) * p.x.len[4] + w : (i * p.window[1] + j) * p.window[2] + k;
                }
            }
    if (MODE != 0)
        result /= divisor_of(&p, a.d, a.h, a.w);
    STORE(TYPE)(y, y_offset + mx_offset(p.y, a.n, a.c, a.d, a.h, a.w), result);
#if SAVE
    indices[indices_offset + index_place(p.y, a.n, a.c, a.d, a.h, a.w)] = (INDEX_TYPE)code;
#endif
}

__kernel void pooling_backward_special(__global const STORAGE(TYPE) *restrict dy, long dy_offset,
                                       __global STORAGE(TYPE) *restrict dx, long dx_offset,
#if SAVE
                                       __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                       const mx_pooling_problem p, const long block)
{
    const INDEX item = (INDEX)get_global_id(0);
    if (item >= mx_size(p.x))
        return;
    const mx_place a = mx_place_of(item, p.x);
    const long2 on_d = windows_around(&p, 0, a.d), on_h = windows_around(&p, 1, a.h), on_w = windows_around(&p, 2, a.w);
    ACC sum = 0, rest = 0;
    for (long i = on_d.x; i < on_d.y; i++) {
        const long from_d = a.d + p.pad[0] - i * p.step[0];
        if (from_d % p.dilation[0] != 0)
            continue;
        for (long j = on_h.x; j < on_h.y; j++) {
            const long from_h = a.h + p.pad[1] - j * p.step[1];
            if (from_h % p.dilation[1] != 0)
                continue;
            for (long k = on_w.x; k < on_w.y; k++) {
                const long from_w = a.w + p.pad[2] - k * p.step[2];
                if (from_w % p.dilation[2] != 0)
                    continue;
                const ACC value = LOAD(TYPE)(dy, dy_offset + mx_offset(p.y, a.n, a.c, i, j, k));
#if SAVE
                const long tap = (from_d / p.dilation[0] * p.window[1] + from_h / p.dilation[1]) * p.window[2] +
                                 from_w / p.dilation[2];
                const long code = IMAGE ? (a.d * p.x.len[3] + a.h) * p.x.len[4] + a.w : tap;
                if (indices[indices_offset + index_place(p.y, a.n, a.c, i, j, k)] == (INDEX_TYPE)code)
                    ADD_TERM(ACC, sum, rest, value);
#else
                ADD_TERM(ACC, sum, rest, value / divisor_of(&p, i, j, k));
#endif
            }
        }
    }
    STORE(TYPE)(dx, dx_offset + mx_offset(p.x, a.n, a.c, a.d, a.h, a.w), sum);
}
