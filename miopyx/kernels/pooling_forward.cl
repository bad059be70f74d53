/* Pooling: y = maximum or average of x over windows, and the places of the maxima.  pooling.h names the definitions.
 *
 * Shape: x and y of any strides but where a kernel says more; indices packed in n c d h w order.
 * Ownership, with no atomics:
 *   pooling_forward_rows      CPU; w contiguous in x and y.  A work-item writes `block` rows of y (n, c, d, h), each by
 *                             vectors along w.
 *   pooling_forward_channels  CPU; c contiguous in x and y, VEC channels or more.  A work-item writes `block` rows of
 *                             y (n, d, h) with all channels, by vectors of channels.
 *   pooling_forward_planes    CPU; one window covers each plane (n, c) of x, which is contiguous.  A work-item writes
 *                             `block` elements of y.
 *   pooling_forward_groups    GPU, the same: a group of LOCAL work-items writes one element.
 *   pooling_forward_elements       any device: a work-item writes one element.
 * Local memory: pooling_forward_groups, LOCAL elements of ACC and of long; else none.
 * CPU kernels want lengths, windows, pads and strides whose sums and image volumes fit 30 bits.
 *
 * Maxima begin at -inf with index 0 and the first element of a window wins; NaN is never above anything.
 *
 * Vectors at the ends of rows load what lies beside them in memory, and leave it out of the result; a vector whose loads
 * would leave the tensor is computed element by element.
 */
#ifndef LOCAL
#define LOCAL 64
#endif
#include "pooling.h"

#define NOTHING (MODE == 0 ? -(ACC)INFINITY : (ACC)0)

/* One element of y, whatever the strides. */
static inline void forward_one(__global const STORAGE(TYPE) *x, long x_offset, __global STORAGE(TYPE) *y, long y_offset,
                               __global INDEX_TYPE *indices, long indices_offset, const mx_pooling_problem *p, long n,
                               long c, long d, long h, long w)
{
    const long d0 = d * p->step[0] - p->pad[0], h0 = h * p->step[1] - p->pad[1], w0 = w * p->step[2] - p->pad[2];
    const long2 kd = taps_inside(d0, p->window[0], p->x.len[2]), kh = taps_inside(h0, p->window[1], p->x.len[3]),
                kw = taps_inside(w0, p->window[2], p->x.len[4]);
    const long from = x_offset + n * p->x.stride[0] + c * p->x.stride[1];
    ACC result = NOTHING;
    long index = 0;
    for (long i = kd.x; i < kd.y; i++)
        for (long j = kh.x; j < kh.y; j++)
            for (long k = kw.x; k < kw.y; k++) {
                const ACC value = LOAD(TYPE)(
                    x, from + (d0 + i) * p->x.stride[2] + (h0 + j) * p->x.stride[3] + (w0 + k) * p->x.stride[4]);
                if (MODE != 0) {
                    result += value;
                } else if (value > result) {
                    result = value;
                    index = IMAGE ? ((d0 + i) * p->x.len[3] + h0 + j) * p->x.len[4] + w0 + k
                                  : (i * p->window[1] + j) * p->window[2] + k;
                }
            }
    if (MODE == 1)
        result /= (ACC)((kd.y - kd.x) * (kh.y - kh.x) * (kw.y - kw.x));
    if (MODE == 2)
        result /= (ACC)(p->window[0] * p->window[1] * p->window[2]);
    STORE(TYPE)(y, y_offset + mx_offset(p->y, n, c, d, h, w), result);
    if (SAVE)
        indices[indices_offset + index_place(p->y, n, c, d, h, w)] = (INDEX_TYPE)index;
}

#if IS_KIND(elements)
__kernel void pooling_forward_elements(__global const STORAGE(TYPE) *restrict x, long x_offset,
                                  __global STORAGE(TYPE) *restrict y, long y_offset,
#if SAVE
                                  __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                  const mx_pooling_problem p, const long block)
{
#if !SAVE
    __global INDEX_TYPE *indices = 0;
    const long indices_offset = 0;
#endif
    const INDEX item = (INDEX)get_global_id(0);
    if (item >= mx_size(p.y))
        return;
    const mx_place a = mx_place_of(item, p.y);
    forward_one(x, x_offset, y, y_offset, indices, indices_offset, &p, a.n, a.c, a.d, a.h, a.w);
}
#endif

/* VEC elements of x, STEP (or step, where that is 0) apart; with `next` what lies one behind each of them. */
static inline ACCV load_taps(__global const STORAGE(TYPE) *x, long at, long step, ACCV *next)
{
#if STEP == 1
    return VLOAD(TYPE)(x, at);
#elif STEP == 2
    const ACCV low = VLOAD(TYPE)(x, at), high = VLOAD(TYPE)(x, at + VEC);
    *next = (ACCV)(low.odd, high.odd);
    return (ACCV)(low.even, high.even);
#else
    ACC lanes[VEC];
    for (int i = 0; i < VEC; i++)
        lanes[i] = LOAD(TYPE)(x, at + i * step);
    return MX_JOIN(vload, VEC)(0, lanes);
#endif
}

/* Folds VEC values of one tap into the results of their windows. */
static inline void fold(ACCV value, LANE code, ACCV *result, LANEV *codes)
{
#if MODE != 0
    *result += value;
#elif SAVE
    const LANEV above = value > *result;
    *result = above ? value : *result;
    *codes = above ? (LANEV)code : *codes;
#else
    *result = value > *result ? value : *result;
#endif
}

/* VEC outputs of a row, which begin at column `start` of x; kd, kh, kw: the taps to take.  `inside`: all of their columns
 * lie in the image. */
static inline void forward_vector(__global const STORAGE(TYPE) *x, long from, const mx_pooling_problem *p, long2 kd,
                                  long2 kh, long2 kw, LANE start, const bool inside, ACCV *result, LANEV *codes)
{
    const LANE w = (LANE)p->x.len[4], step = STEP ? STEP : (LANE)p->step[2];
    const LANEV columns = start + LANES * step;
    for (long i = kd.x; i < kd.y; i++)
        for (long j = kh.x; j < kh.y; j++) {
            const long row = from + i * p->x.stride[2] + j * p->x.stride[3];
            const LANE code = IMAGE ? (LANE)((i * p->x.len[3] + j) * p->x.len[4])
                                    : (LANE)((i * p->window[1] + j) * p->window[2]);
            for (long k = kw.x; k < kw.y; k++) {
                ACCV next;
                ACCV value = load_taps(x, row + k, step, &next);
                if (!inside)
                    value = INSIDE(columns + (LANE)k, w) ? value : (ACCV)NOTHING;
                fold(value, code + (LANE)k, result, codes);
#if STEP == 2
                if (++k < kw.y) { /* the same loads hold the next tap, too */
                    if (!inside)
                        next = INSIDE(columns + (LANE)k, w) ? next : (ACCV)NOTHING;
                    fold(next, code + (LANE)k, result, codes);
                }
#endif
            }
        }
}

#if IS_KIND(rows)
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_forward_rows(
    __global const STORAGE(TYPE) *restrict x, long x_offset, __global STORAGE(TYPE) *restrict y, long y_offset,
#if SAVE
    __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
    const mx_pooling_problem p, const long block)
{
#if !SAVE
    __global INDEX_TYPE *indices = 0;
    const long indices_offset = 0;
#endif
    const long rows = p.y.len[0] * p.y.len[1] * p.y.len[2] * p.y.len[3], length = p.y.len[4];
    const long first = (long)get_group_id(0) * block, last = min(first + block, rows);
    const long low = x_offset, high = x_offset + span_of(p.x);
    const long step = STEP ? STEP : p.step[2];
    for (long row = first; row < last; row++) {
        const int h = (int)row % (int)p.y.len[3], rest = (int)row / (int)p.y.len[3];
        const int d = rest % (int)p.y.len[2], plane = rest / (int)p.y.len[2];
        const int c = plane % (int)p.y.len[1], n = plane / (int)p.y.len[1];
        const long d0 = d * p.step[0] - p.pad[0], h0 = h * p.step[1] - p.pad[1];
        const long2 kd = taps_inside(d0, p.window[0], p.x.len[2]), kh = taps_inside(h0, p.window[1], p.x.len[3]);
        const long to = y_offset + mx_offset(p.y, n, c, d, h, 0);
        const long from = x_offset + n * p.x.stride[0] + c * p.x.stride[1] + d0 * p.x.stride[2] + h0 * p.x.stride[3];
        for (long w = 0; w < length; w += VEC) {
            if (w + VEC > length && length >= VEC)
                w = length - VEC; /* the last vector computes some elements again rather than fewer */
            const long count = min((long)VEC, length - w), start = w * step - p.pad[2];
            const long2 kw = (long2)(max(0L, -start - (VEC - 1) * step), min(p.window[2], p.x.len[4] - start));
            const bool inside = start >= 0 && start + (VEC - 1) * step + p.window[2] <= p.x.len[4];
            const long begin = from + start + kw.x + kd.x * p.x.stride[2] + kh.x * p.x.stride[3];
            const long end = from + start + kw.y + (VEC - 1) * step + (STEP == 2 ? 2 : 0) +
                             (kd.y - 1) * p.x.stride[2] + (kh.y - 1) * p.x.stride[3];
            if (begin < low || end > high || (STEP == 0 && !inside)) {
                for (long i = w; i < w + count; i++)
                    forward_one(x, x_offset, y, y_offset, indices, indices_offset, &p, n, c, d, h, i);
                continue;
            }
            ACCV result = NOTHING;
            LANEV codes = 0;
            if (inside)
                forward_vector(x, from + start, &p, kd, kh, kw, (LANE)start, true, &result, &codes);
            else
                forward_vector(x, from + start, &p, kd, kh, kw, (LANE)start, false, &result, &codes);
#if MODE == 1
            const ACC lines = (ACC)((kd.y - kd.x) * (kh.y - kh.x));
            result /= inside ? (ACCV)(lines * (ACC)p.window[2])
                             : lines * divisors(&p, (LANE)start + LANES * (LANE)step);
#elif MODE == 2
            result /= (ACC)(p.window[0] * p.window[1] * p.window[2]);
#endif
            store_values(result, y, to + w, count);
#if SAVE
            if (IMAGE) {
                const LANEV corner = (LANE)((d0 * p.x.len[3] + h0) * p.x.len[4] + start) + LANES * (LANE)step;
                codes = result > -(ACC)INFINITY ? corner + codes : (LANEV)0;
            }
            store_indices(TO(INDEXV)(codes), indices, indices_offset + (long)row * length + w, count);
#endif
        }
    }
}
#endif

#if IS_KIND(channels)
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_forward_channels(
    __global const STORAGE(TYPE) *restrict x, long x_offset, __global STORAGE(TYPE) *restrict y, long y_offset,
#if SAVE
    __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
    const mx_pooling_problem p, const long block)
{
    const long rows = p.y.len[0] * p.y.len[2] * p.y.len[3], channels = p.y.len[1];
    const long first = (long)get_group_id(0) * block, last = min(first + block, rows);
    for (long row = first; row < last; row++) {
        const int h = (int)row % (int)p.y.len[3], rest = (int)row / (int)p.y.len[3];
        const int d = rest % (int)p.y.len[2], n = rest / (int)p.y.len[2];
        const long d0 = d * p.step[0] - p.pad[0], h0 = h * p.step[1] - p.pad[1];
        const long2 kd = taps_inside(d0, p.window[0], p.x.len[2]), kh = taps_inside(h0, p.window[1], p.x.len[3]);
        for (long w = 0; w < p.y.len[4]; w++) {
            const long w0 = w * p.step[2] - p.pad[2];
            const long2 kw = taps_inside(w0, p.window[2], p.x.len[4]);
            const long to = y_offset + mx_offset(p.y, n, 0, d, h, w);
            const long from = x_offset + mx_offset(p.x, n, 0, d0, h0, w0);
            const LANE corner = (LANE)((d0 * p.x.len[3] + h0) * p.x.len[4] + w0);
            for (long c = 0; c < channels; c += VEC) {
                if (c + VEC > channels)
                    c = channels - VEC;
                ACCV result = NOTHING;
                LANEV codes = 0;
                for (long i = kd.x; i < kd.y; i++)
                    for (long j = kh.x; j < kh.y; j++) {
                        const long line = from + c + i * p.x.stride[2] + j * p.x.stride[3];
                        const LANE code = IMAGE ? corner + (LANE)((i * p.x.len[3] + j) * p.x.len[4])
                                                : (LANE)((i * p.window[1] + j) * p.window[2]);
                        for (long k = kw.x; k < kw.y; k++)
                            fold(VLOAD(TYPE)(x, line + k * p.x.stride[4]), code + (LANE)k, &result, &codes);
                    }
#if MODE == 1
                result /= (ACC)((kd.y - kd.x) * (kh.y - kh.x) * (kw.y - kw.x));
#elif MODE == 2
                result /= (ACC)(p.window[0] * p.window[1] * p.window[2]);
#endif
                VSTORE(VEC, result, y, to + c);
#if SAVE
                const long at = indices_offset + index_place(p.y, n, c, d, h, w);
                const long plane = p.y.len[2] * p.y.len[3] * p.y.len[4];
                INDEX_TYPE lanes[VEC];
                INDEX_VSTORE(VEC, TO(INDEXV)(codes), lanes, 0);
                for (int i = 0; i < VEC; i++)
                    indices[at + i * plane] = lanes[i];
#endif
            }
        }
    }
}
#endif

/* The index of element `at` of a plane that one window covers. */
static inline long index_in_plane(const mx_pooling_problem *p, long at)
{
    if (IMAGE)
        return at;
    const long w = at % p->x.len[4], line = at / p->x.len[4], h = line % p->x.len[3], d = line / p->x.len[3];
    return ((d + p->pad[0]) * p->window[1] + h + p->pad[1]) * p->window[2] + w + p->pad[2];
}

static inline ACC divisor_of_plane(const mx_pooling_problem *p, long length)
{
    return MODE == 2 ? (ACC)(p->window[0] * p->window[1] * p->window[2]) : (ACC)length;
}

#if IS_KIND(planes)
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_forward_planes(
    __global const STORAGE(TYPE) *restrict x, long x_offset, __global STORAGE(TYPE) *restrict y, long y_offset,
#if SAVE
    __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
    const mx_pooling_problem p, const long block)
{
    const long planes = p.y.len[0] * p.y.len[1], length = p.x.len[2] * p.x.len[3] * p.x.len[4];
    const long first = (long)get_group_id(0) * block, last = min(first + block, planes);
    for (long plane = first; plane < last; plane++) {
        const long n = (int)plane / (int)p.y.len[1], c = (int)plane % (int)p.y.len[1];
        const long from = x_offset + n * p.x.stride[0] + c * p.x.stride[1];
        ACCV result = NOTHING;
        LANEV codes = 0;
        long i = 0;
        for (; i + VEC <= length; i += VEC) {
            const ACCV value = VLOAD(TYPE)(x, from + i);
#if SAVE
            const LANEV above = value > result;
            result = above ? value : result;
            codes = above ? (LANE)i + LANES : codes;
#else
            fold(value, 0, &result, &codes);
#endif
        }
        ACC lanes[VEC];
        LANE places[VEC];
        MX_JOIN(vstore, VEC)(result, 0, lanes);
        MX_JOIN(vstore, VEC)(codes, 0, places);
        for (; i < length; i++) {
            const ACC value = LOAD(TYPE)(x, from + i);
            const int lane = (int)i & (VEC - 1);
            if (MODE != 0) {
                lanes[lane] += value;
            } else if (value > lanes[lane]) {
                lanes[lane] = value;
                places[lane] = (LANE)i;
            }
        }
        for (int half_way = VEC / 2; half_way > 0; half_way /= 2)
            for (int lane = 0; lane < half_way; lane++) {
                const ACC other = lanes[lane + half_way];
                const LANE place = places[lane + half_way];
                if (MODE != 0) {
                    lanes[lane] += other;
                } else if (other > lanes[lane] || (SAVE && other == lanes[lane] && place < places[lane])) {
                    lanes[lane] = other;
                    places[lane] = place;
                }
            }
        STORE(TYPE)(y, y_offset + n * p.y.stride[0] + c * p.y.stride[1],
                    MODE == 0 ? lanes[0] : lanes[0] / divisor_of_plane(&p, length));
#if SAVE
        indices[indices_offset + plane] =
            lanes[0] > -(ACC)INFINITY ? (INDEX_TYPE)index_in_plane(&p, places[0]) : (INDEX_TYPE)0;
#endif
    }
}
#endif

#if IS_KIND(groups)
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void pooling_forward_groups(
    __global const STORAGE(TYPE) *restrict x, long x_offset, __global STORAGE(TYPE) *restrict y, long y_offset,
#if SAVE
    __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
    const mx_pooling_problem p, const long block)
{
    __local ACC results[LOCAL];
    __local long places[LOCAL];
    const int me = get_local_id(0);
    const long plane = get_group_id(0), length = p.x.len[2] * p.x.len[3] * p.x.len[4];
    const long n = plane / p.y.len[1], c = plane % p.y.len[1];
    const long from = x_offset + n * p.x.stride[0] + c * p.x.stride[1];
    ACC result = NOTHING;
    long place = 0;
    for (long i = me; i < length; i += LOCAL) {
        const ACC value = LOAD(TYPE)(x, from + i);
        if (MODE != 0) {
            result += value;
        } else if (value > result) {
            result = value;
            place = i;
        }
    }
    results[me] = result;
    places[me] = place;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = LOCAL / 2; half_way > 0; half_way /= 2) {
        if (me < half_way) {
            const ACC other = results[me + half_way];
            if (MODE != 0) {
                results[me] += other;
            } else if (other > results[me] || (other == results[me] && places[me + half_way] < places[me])) {
                results[me] = other;
                places[me] = places[me + half_way];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (me == 0) {
        STORE(TYPE)(y, y_offset + n * p.y.stride[0] + c * p.y.stride[1],
                    MODE == 0 ? results[0] : results[0] / divisor_of_plane(&p, length));
#if SAVE
        indices[indices_offset + plane] =
            results[0] > -(ACC)INFINITY ? (INDEX_TYPE)index_in_plane(&p, places[0]) : (INDEX_TYPE)0;
#endif
    }
}
#endif
