/* Gradient of pooling: dx from dy, and from the indices of the maxima.  pooling.h names the definitions; x and y in the
 * problem are dx and dy.
 *
 * Shape: dx and dy of any strides but where a kernel says more; indices packed in n c d h w order.
 * Ownership, with no atomics; each element of dx collects from the windows that contain it:
 *   pooling_backward_rows      CPU; w contiguous in dx and dy.  A work-item writes `block` rows of dx (n, c, d, h), each
 *                              by vectors along w: neighbours VEC * STEP wide are STEP vectors, since every STEP-th
 *                              element meets the same taps.
 *   pooling_backward_channels  CPU; c contiguous in dx and dy, VEC channels or more.  A work-item writes `block` rows of
 *                              dx (n, d, h) with all channels, by vectors of channels.
 *   pooling_backward_planes    CPU; one window covers each plane (n, c) of dx, which is contiguous.  A work-item writes
 *                              `block` planes.
 *   pooling_backward_elements       any device: a work-item writes one element.
 * Local memory: none.
 * CPU kernels want lengths, windows, pads and strides whose sums and image volumes fit 30 bits.
 *
 * Vectors at the ends of rows load what lies beside them in memory, and leave it out of the result; a vector whose loads
 * would leave the tensor, or the indices, is computed element by element.
 */
#ifndef SEGMENT /* columns of dx that pooling_backward_channels collects at a time */
#define SEGMENT 32
#endif
#include "pooling.h"

/* One element of dx, whatever the strides. */
static inline ACC collect_one(__global const STORAGE(TYPE) *dy, long dy_offset, __global const INDEX_TYPE *indices,
                              long indices_offset, const mx_pooling_problem *p, long n, long c, long d, long h, long w)
{
    const long2 on_d = windows_with(p, 0, d), on_h = windows_with(p, 1, h), on_w = windows_with(p, 2, w);
    ACC sum = 0;
    for (long i = on_d.x; i < on_d.y; i++)
        for (long j = on_h.x; j < on_h.y; j++)
            for (long k = on_w.x; k < on_w.y; k++) {
                const ACC value = LOAD(TYPE)(dy, dy_offset + mx_offset(p->y, n, c, i, j, k));
                if (SAVE) {
                    const long kd = d + p->pad[0] - i * p->step[0], kh = h + p->pad[1] - j * p->step[1],
                               kw = w + p->pad[2] - k * p->step[2];
                    const long code = IMAGE ? (d * p->x.len[3] + h) * p->x.len[4] + w
                                            : (kd * p->window[1] + kh) * p->window[2] + kw;
                    if (indices[indices_offset + index_place(p->y, n, c, i, j, k)] == (INDEX_TYPE)code)
                        sum += value;
                } else {
                    sum += value / (ACC)(divisor(p, 0, i) * divisor(p, 1, j) * divisor(p, 2, k));
                }
            }
    return sum;
}

#if IS_KIND(elements)
__kernel void pooling_backward_elements(__global const STORAGE(TYPE) *restrict dy, long dy_offset,
                                   __global STORAGE(TYPE) *restrict dx, long dx_offset,
#if SAVE
                                   __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                   const mx_pooling_problem p, const long block)
{
#if !SAVE
    __global const INDEX_TYPE *indices = 0;
    const long indices_offset = 0;
#endif
    const INDEX item = (INDEX)get_global_id(0);
    if (item >= mx_size(p.x))
        return;
    const mx_place a = mx_place_of(item, p.x);
    STORE(TYPE)(dx, dx_offset + mx_offset(p.x, a.n, a.c, a.d, a.h, a.w),
                collect_one(dy, dy_offset, indices, indices_offset, &p, a.n, a.c, a.d, a.h, a.w));
}
#endif

/* What the vectors of a row have in common: where it is, the windows that contain it, and where window (0, 0, 0) of its
 * plane lies in dy and in the indices. */
typedef struct {
    long d, h;
    long2 on_d, on_h;
    long from, places;
} row_t;

/* VEC elements w, w + step, ... of a row.  Taps t0 ... t1 - 1 of them are tap + t * step, whose windows are those from
 * window - t on.  `inside`: all of these exist, and in MODE 1 lie wholly in the image. */
static inline ACCV collect(__global const STORAGE(TYPE) *dy, __global const INDEX_TYPE *indices,
                           const mx_pooling_problem *p, const row_t *r, long w, long window, long tap, long t0, long t1,
                           const bool inside)
{
    const long step = STEP ? STEP : p->step[2];
    const LANE length = (LANE)p->y.len[4];
    ACCV sum = 0;
    for (long i = r->on_d.x; i < r->on_d.y; i++)
        for (long j = r->on_h.x; j < r->on_h.y; j++) {
            const long row = r->from + i * p->y.stride[2] + j * p->y.stride[3] + window;
#if SAVE
            const long places = r->places + (i * p->y.len[3] + j) * p->y.len[4] + window;
            const long kd = r->d + p->pad[0] - i * p->step[0], kh = r->h + p->pad[1] - j * p->step[1];
            const LANEV here = (LANE)((r->d * p->x.len[3] + r->h) * p->x.len[4] + w) + LANES * (LANE)step;
#elif MODE == 1
            const ACC lines = (ACC)(divisor(p, 0, i) * divisor(p, 1, j));
            ACCV line = 0;
#endif
            for (long t = t0; t < t1; t++) {
                const ACCV value = VLOAD(TYPE)(dy, row - t);
                const LANEV windows = (LANE)(window - t) + LANES;
#if SAVE
                const LANEV index = TO(LANEV)(MX_JOIN(vload, VEC)(0, indices + places - t));
                const LANEV code =
                    IMAGE ? here : (LANEV)(LANE)((kd * p->window[1] + kh) * p->window[2] + tap + t * step);
                const LANEV named = inside ? index == code : (index == code) & INSIDE(windows, length);
                sum += named ? value : (ACCV)0;
#elif MODE == 1
                if (inside)
                    line += value;
                else
                    line += INSIDE(windows, length) ? value / divisors(p, windows * (LANE)step - (LANE)p->pad[2])
                                                    : (ACCV)0;
#else
                if (inside)
                    sum += value;
                else
                    sum += INSIDE(windows, length) ? value : (ACCV)0;
#endif
            }
#if !SAVE && MODE == 1
            sum += line / (inside ? lines * (ACC)p->window[2] : lines);
#endif
        }
#if MODE == 2
    sum /= (ACC)(p->window[0] * p->window[1] * p->window[2]);
#endif
    return sum;
}

#if IS_KIND(rows)
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_backward_rows(
    __global const STORAGE(TYPE) *restrict dy, long dy_offset, __global STORAGE(TYPE) *restrict dx, long dx_offset,
#if SAVE
    __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
    const mx_pooling_problem p, const long block)
{
#if !SAVE
    __global const INDEX_TYPE *indices = 0;
    const long indices_offset = 0;
#endif
    const long rows = p.x.len[0] * p.x.len[1] * p.x.len[2] * p.x.len[3], length = p.x.len[4];
    const long first = (long)get_group_id(0) * block, last = min(first + block, rows);
    const long step = STEP ? STEP : p.step[2], wide = VEC * step;
    const long low = dy_offset, high = dy_offset + span_of(p.y);
    const long places_high = indices_offset + mx_size(p.y);
    for (long row = first; row < last; row++) {
        const int h = (int)row % (int)p.x.len[3], rest = (int)row / (int)p.x.len[3];
        const int d = rest % (int)p.x.len[2], plane = rest / (int)p.x.len[2];
        const int c = plane % (int)p.x.len[1], n = plane / (int)p.x.len[1];
        const long to = dx_offset + mx_offset(p.x, n, c, d, h, 0);
        row_t r;
        r.d = d;
        r.h = h;
        r.on_d = windows_with(&p, 0, d);
        r.on_h = windows_with(&p, 1, h);
        r.from = dy_offset + mx_offset(p.y, n, c, 0, 0, 0);
        r.places = indices_offset + index_place(p.y, n, c, 0, 0, 0);
        const bool reached = r.on_d.x < r.on_d.y && r.on_h.x < r.on_h.y;
        const long row_begin = r.from + r.on_d.x * p.y.stride[2] + r.on_h.x * p.y.stride[3];
        const long row_end = r.from + (r.on_d.y - 1) * p.y.stride[2] + (r.on_h.y - 1) * p.y.stride[3];
        const long places_begin = r.places + (r.on_d.x * p.y.len[3] + r.on_h.x) * p.y.len[4];
        const long places_end = r.places + ((r.on_d.y - 1) * p.y.len[3] + r.on_h.y - 1) * p.y.len[4];
        for (long w = 0; w < length; w += wide) {
            if (STEP != 0 && w + wide > length && length >= wide)
                w = length - wide; /* the last vectors compute some elements again rather than fewer */
            const long count = min(wide, length - w);
            ACCV sum[STEP ? STEP : 1];
            for (int phase = 0; phase < (int)step; phase++) {
                const int edge = (int)(w + phase + p.pad[2]), window = edge / (int)step, tap = edge % (int)step;
                const long taps = p.window[2] > tap ? ((int)p.window[2] - 1 - tap) / (int)step + 1 : 0;
                const long t0 = max(0L, window - (p.y.len[4] - 1)), t1 = min(taps, (long)window + VEC);
                const long lowest = window - t1 + 1, behind = window - t0 + VEC;
                ACCV value = 0;
                if (reached && t0 < t1) {
                    bool inside = window - taps + 1 >= 0 && window + VEC <= p.y.len[4];
                    if (MODE == 1)
                        inside = inside && (window - taps + 1) * step >= p.pad[2] &&
                                 (window + VEC - 1) * step - p.pad[2] + p.window[2] <= length;
                    bool safe = row_begin + lowest >= low && row_end + behind <= high;
                    if (SAVE)
                        safe = safe && places_begin + lowest >= indices_offset && places_end + behind <= places_high;
                    if (!safe) {
                        ACC lanes[VEC];
                        for (int i = 0; i < VEC; i++) {
                            const long at = w + phase + i * step;
                            lanes[i] =
                                at < length ? collect_one(dy, dy_offset, indices, indices_offset, &p, n, c, d, h, at)
                                            : (ACC)0;
                        }
                        value = MX_JOIN(vload, VEC)(0, lanes);
                    } else if (inside) {
                        value = collect(dy, indices, &p, &r, w + phase, window, tap, t0, t1, true);
                    } else {
                        value = collect(dy, indices, &p, &r, w + phase, window, tap, t0, t1, false);
                    }
                }
#if STEP != 0
                sum[phase] = value;
#else
                ACC lanes[VEC];
                MX_JOIN(vstore, VEC)(value, 0, lanes);
                for (int i = 0; i < VEC && phase + i * step < count; i++)
                    STORE(TYPE)(dx, to + w + phase + i * step, lanes[i]);
#endif
            }
#if STEP == 1
            store_values(sum[0], dx, to + w, count);
#elif STEP == 2
            ACCV left, right;
            left.even = sum[0].lo;
            left.odd = sum[1].lo;
            right.even = sum[0].hi;
            right.odd = sum[1].hi;
            store_values(left, dx, to + w, count);
            store_values(right, dx, to + w + VEC, max(0L, count - VEC));
#endif
        }
    }
}
#endif

#if IS_KIND(channels)
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_backward_channels(
    __global const STORAGE(TYPE) *restrict dy, long dy_offset, __global STORAGE(TYPE) *restrict dx, long dx_offset,
#if SAVE
    __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
    const mx_pooling_problem p, const long block)
{
    const long rows = p.x.len[0] * p.x.len[2] * p.x.len[3], channels = p.x.len[1], length = p.x.len[4];
    const long first = (long)get_group_id(0) * block, last = min(first + block, rows);
    for (long row = first; row < last; row++) {
        const int h = (int)row % (int)p.x.len[3], rest = (int)row / (int)p.x.len[3];
        const int d = rest % (int)p.x.len[2], n = rest / (int)p.x.len[2];
        const long2 on_d = windows_with(&p, 0, d), on_h = windows_with(&p, 1, h);
        const long to = dx_offset + mx_offset(p.x, n, 0, d, h, 0);
        for (long w0 = 0; w0 < length; w0 += SEGMENT) {
            const long w1 = min(w0 + SEGMENT, length);
            const long k0 = windows_with(&p, 2, w0).x, k1 = windows_with(&p, 2, w1 - 1).y;
            for (long c = 0; c < channels; c += VEC) {
                if (c + VEC > channels)
                    c = channels - VEC;
                ACCV sums[SEGMENT];
                for (long w = w0; w < w1; w++)
                    sums[w - w0] = 0;
                for (long i = on_d.x; i < on_d.y; i++)
                    for (long j = on_h.x; j < on_h.y; j++) {
                        const long from = dy_offset + mx_offset(p.y, n, 0, i, j, 0) + c;
#if SAVE
                        const long places = indices_offset + index_place(p.y, n, c, i, j, 0);
                        const long plane = p.y.len[2] * p.y.len[3] * p.y.len[4];
                        const long kd = d + p.pad[0] - i * p.step[0], kh = h + p.pad[1] - j * p.step[1];
#else
                        const long lines = divisor(&p, 0, i) * divisor(&p, 1, j);
#endif
                        for (long k = k0; k < k1; k++) {
                            ACCV value = VLOAD(TYPE)(dy, from + k * p.y.stride[4]);
                            const long start = k * p.step[2] - p.pad[2];
                            const long begin = max(start, w0), end = min(start + p.window[2], w1);
#if SAVE
                            LANE lanes[VEC];
                            for (int l = 0; l < VEC; l++)
                                lanes[l] = (LANE)indices[places + l * plane + k];
                            const LANEV index = MX_JOIN(vload, VEC)(0, lanes);
                            const long code = IMAGE ? (d * p.x.len[3] + h) * p.x.len[4]
                                                    : (kd * p.window[1] + kh) * p.window[2] - start;
                            for (long w = begin; w < end; w++)
                                sums[w - w0] += index == (LANEV)(LANE)(code + w) ? value : (ACCV)0;
#else
                            value /= (ACC)(lines * divisor(&p, 2, k));
                            for (long w = begin; w < end; w++)
                                sums[w - w0] += value;
#endif
                        }
                    }
                for (long w = w0; w < w1; w++)
                    VSTORE(VEC, sums[w - w0], dx, to + w * p.x.stride[4] + c);
            }
        }
    }
}
#endif

#if IS_KIND(planes)
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_backward_planes(
    __global const STORAGE(TYPE) *restrict dy, long dy_offset, __global STORAGE(TYPE) *restrict dx, long dx_offset,
#if SAVE
    __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
    const mx_pooling_problem p, const long block)
{
    const long planes = p.x.len[0] * p.x.len[1], length = p.x.len[2] * p.x.len[3] * p.x.len[4];
    const long first = (long)get_group_id(0) * block, last = min(first + block, planes);
    for (long plane = first; plane < last; plane++) {
        const long n = (int)plane / (int)p.x.len[1], c = (int)plane % (int)p.x.len[1];
        const long to = dx_offset + n * p.x.stride[0] + c * p.x.stride[1];
        const ACC value = LOAD(TYPE)(dy, dy_offset + n * p.y.stride[0] + c * p.y.stride[1]);
        const ACC divide_by = MODE == 2 ? (ACC)(p.window[0] * p.window[1] * p.window[2]) : (ACC)length;
        const ACCV each = SAVE ? (ACC)0 : value / divide_by;
        for (long i = 0; i < length; i += VEC) {
            if (i + VEC > length && length >= VEC)
                i = length - VEC;
            store_values(each, dx, to + i, length - i);
        }
#if SAVE
        long at = (long)indices[indices_offset + plane];
        if (!IMAGE) { /* from a place of the window to one of the image */
            const long w = at % p.window[2] - p.pad[2], line = at / p.window[2];
            const long h = line % p.window[1] - p.pad[1], d = line / p.window[1] - p.pad[0];
            const bool there = w >= 0 && w < p.x.len[4] && h >= 0 && h < p.x.len[3] && d >= 0;
            at = there ? (d * p.x.len[3] + h) * p.x.len[4] + w : -1;
        }
        if (at >= 0 && at < length)
            STORE(TYPE)(dx, to + at, value);
#endif
    }
}
#endif
