/* Gradient of pooling: dx from dy, and from the indices of the maxima; x and y in the problem are dx and dy.
 *
 *   dx[n, c, d, h, w] = sum over the windows (o, p, q) that contain (d, h, w) of
 *                       dy[n, c, o, p, q] where its index says (d, h, w), or of dy / elements of the window
 *
 *       row of dy:       o   o   o       Each element of dx collects from its windows, so nothing needs atomics.
 *       row of dx:     . . . . . . .     layers/pooling.h names the definitions and their values.
 *
 * dx and dy are of any strides but where a kernel says more; indices are packed in n c d h w order, or with LIKE_Y, which
 * channels and elements know, lie as dy does.
 * Grid: local size 1, a work-item has `block` of what its kernel names; elements: any.
 *   pooling_backward_rows      CPU; w contiguous in dx and dy.  A work-item writes `block` rows of dx (n, c, d, h),
 *                              each by vectors along w: VEC * STEP neighbours are STEP vectors, since every STEP-th
 *                              element meets the same taps.
 *   pooling_backward_flat      CPU; 2-D, stride 1, rows of dy as long as those of dx, planes of both contiguous, MODE
 *                              not 1: a plane is one row to vectors, which mask what lies beyond the ends of its rows.
 *                              A work-item writes `block` planes (n, c).
 *   pooling_backward_channels  CPU; c contiguous in dx and dy, VEC channels or more.  A work-item writes `block` rows
 *                              of dx (n, d, h) with all channels, by vectors of channels.
 *   pooling_backward_turned    CPU; the same with indices of 8 bits, VEC 16, 2-D, WINDOW 2 or 3, STEP 1 or 2, RING
 *                              windows along h at most around an element, and rows of dy of at most LONGEST elements:
 *                              indices, in which channels run slowest, are turned once.
 *   pooling_backward_planes    CPU; one window covers each plane (n, c) of dx, which is contiguous.  A work-item writes
 *                              `block` planes.
 *   pooling_backward_sheets    CPU; one window covers each plane of dx, c contiguous in dx and dy, VEC channels or
 *                              more, no indices.  A work-item writes `block` times SHEET * VEC channels of an image.
 *   pooling_backward_scatter   CPU; indices of maxima that count in the window, which has 255 elements at most; float
 *                              or double, planes (n, c) of dx contiguous, w contiguous in dy.  A work-item writes
 *                              `block` planes: it clears what the next windows reach and adds each element of dy
 *                              where its index says.
 *   pooling_backward_pairs     CPU; indices of maxima, 2-D, windows of 3 x 3 with pads of 1 and strides of 2, planes
 *                              (n, c) of dx contiguous, w contiguous in dy.  A work-item writes `block` planes, two
 *                              rows at a time, by vectors of VEC squares of four elements.
 *   pooling_backward_elements  a work-item writes one element; what others do not serve.
 * Local memory: none.
 * Bound by: memory; maxima by the comparisons of indices.
 * CPU kernels want lengths, windows, pads and strides whose sums and image volumes fit 30 bits.
 *
 * Vectors at the ends of rows load what lies beside them in memory, and leave it out of the result; a vector whose
 * loads would leave the tensor, or the indices, is computed element by element.
 */
#ifndef SEGMENT /* columns of dx that pooling_backward_channels collects at a time */
#if defined(LIKE_Y) && LIKE_Y /* fewer lines of memory between them */
#define SEGMENT 8
#else
#define SEGMENT 32
#endif
#endif
#define RING 4
#define LONGEST 128
#include "layers/pooling.h"

/* One element of dx, whatever the strides. */
static inline ACC collect_one(__global const STORAGE(TYPE) *dy, long dy_offset, __global const INDEX_TYPE *indices,
                              long indices_offset, const mx_pooling_problem *p, long n, long c, long d, long h, long w)
{
    const long2 on_d = windows_with(p, 0, d), on_h = windows_with(p, 1, h), on_w = windows_with(p, 2, w);
    ACC sum = 0, rest = 0;
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
                        ADD_TERM(ACC, sum, rest, value);
                } else {
                    ADD_TERM(ACC, sum, rest, value / (ACC)(divisor(p, 0, i) * divisor(p, 1, j) * divisor(p, 2, k)));
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

/* What the vectors of a kernel and of a row have in common: in registers, where a struct in memory would not be. */
typedef struct {
    long line, slice;            /* strides of dy along h and d */
    int width, height;           /* of dy */
    int window_w, window_h, step, step_h, step_d;
    int2 on_d, on_h;             /* windows that contain the row */
    int edge_d, edge_h;          /* where the row is, counted from the first window's beginning */
    int start;                   /* the image's index of the row's beginning */
    long from, places;           /* window (0, 0, 0) of the plane in dy and in the indices */
} row_t;

/* VEC elements w, w + step, ... of a row.  Taps t0 ... t1 - 1 of them are tap + t * step, whose windows are those from
 * window - t on.  `inside`: all of these exist, and in MODE 1 lie wholly in the image. */
static inline ACCV collect(__global const STORAGE(TYPE) *dy, __global const INDEX_TYPE *indices,
                           const mx_pooling_problem *p, const row_t r, int w, int window, int tap, int t0, int t1,
                           const bool inside)
{
    ACCV sum = 0;
    for (int i = r.on_d.x; i < r.on_d.y; i++)
        for (int j = r.on_h.x; j < r.on_h.y; j++) {
            const long row = r.from + i * r.slice + j * r.line + window;
#if SAVE
            const long places = r.places + (i * r.height + j) * r.width + window;
            const int kd = r.edge_d - i * r.step_d, kh = r.edge_h - j * r.step_h;
            const LANE code = (kd * r.window_h + kh) * r.window_w + tap;
#elif MODE == 1
            const ACC lines = (ACC)(divisor(p, 0, i) * divisor(p, 1, j));
            ACCV line = 0;
#endif
#if WINDOW
#pragma unroll
#endif
            for (int t = t0; t < t1; t++) {
                const ACCV value = VLOAD(TYPE)(dy, row - t);
                const LANEV windows = (LANE)(window - t) + LANES;
#if SAVE
                const LANEV index = TO(LANEV)(MX_JOIN(vload, VEC)(0, indices + places - t));
                LANEV named = index == (IMAGE ? (LANE)(r.start + w) + LANES * (LANE)r.step
                                              : (LANEV)(LANE)(code + t * r.step));
                if (!inside)
                    named &= INSIDE(windows, r.width);
                sum += named ? value : (ACCV)0;
#elif MODE == 1
                if (inside)
                    line += value;
                else
                    line += INSIDE(windows, r.width) ? value / divisors(p, windows * (LANE)r.step - (LANE)p->pad[2])
                                                     : (ACCV)0;
#else
                if (inside)
                    sum += value;
                else
                    sum += INSIDE(windows, r.width) ? value : (ACCV)0;
#endif
            }
#if !SAVE && MODE == 1
            sum += line / (inside ? lines * (ACC)r.window_w : lines);
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
    const long rows = p.x.len[0] * p.x.len[1] * p.x.len[2] * p.x.len[3];
    const long first = (long)get_group_id(0) * block, last = min(first + block, rows);
    const long low = dy_offset, high = dy_offset + span_of(p.y);
    const long places_high = indices_offset + mx_size(p.y);
    row_t r;
    r.line = p.y.stride[3];
    r.slice = p.y.stride[2];
    r.width = (int)p.y.len[4];
    r.height = (int)p.y.len[3];
    r.window_w = WINDOW ? WINDOW : (int)p.window[2];
    r.window_h = (int)p.window[1];
    r.step = STEP ? STEP : (int)p.step[2];
    r.step_h = (int)p.step[1];
    r.step_d = (int)p.step[0];
    const int length = (int)p.x.len[4], pad = (int)p.pad[2], wide = VEC * r.step;
    line_t here = line_of(&p.x, (int)p.x.len[1], first);
    for (long row = first; row < last; row++, next_line(&p.x, (int)p.x.len[1], &here)) {
        const int n = here.n, c = here.c, d = here.d, h = here.h;
        const long to = dx_offset + mx_offset(p.x, n, c, d, h, 0);
        r.on_d = convert_int2(windows_with(&p, 0, d));
        r.on_h = convert_int2(windows_with(&p, 1, h));
        r.edge_d = d + (int)p.pad[0];
        r.edge_h = h + (int)p.pad[1];
        r.start = (d * (int)p.x.len[3] + h) * length;
        r.from = dy_offset + n * p.y.stride[0] + c * p.y.stride[1];
        r.places = indices_offset + index_place(p.y, n, c, 0, 0, 0);
        const bool reached = r.on_d.x < r.on_d.y && r.on_h.x < r.on_h.y;
        const long row_low = r.from + r.on_d.x * r.slice + r.on_h.x * r.line;
        const long row_high = r.from + (r.on_d.y - 1) * r.slice + (r.on_h.y - 1) * r.line;
        const long places_from = r.places + (r.on_d.x * r.height + r.on_h.x) * r.width;
        const long places_to = r.places + ((r.on_d.y - 1) * r.height + r.on_h.y - 1) * r.width;
        /* No vector of most rows loads anything outside the tensor or the indices. */
        const int most = length + pad + 2 * VEC;
        bool safe_row = WINDOW && row_low - WINDOW >= low && row_high + most <= high;
        if (SAVE)
            safe_row = safe_row && places_from - WINDOW >= indices_offset && places_to + most <= places_high;
        for (int w = 0; w < length; w += wide) {
            if (STEP != 0 && w + wide > length && length >= wide)
                w = length - wide; /* the last vectors compute some elements again rather than fewer */
            const int count = length - w;
            ACCV sum[STEP ? STEP : 1];
#if STEP
#pragma unroll
#endif
            for (int i = 0; i < (STEP ? STEP : r.step); i++) {
                /* Of the phases of neighbours the one with first tap i, where STEP says how many there are. */
                const int phase = STEP ? (i ^ (w + pad)) & (STEP - 1) : i;
                const int edge = w + phase + pad, tap = STEP ? i : edge % r.step, window = (edge - tap) / r.step;
                const int taps = r.window_w > tap ? (r.window_w - 1 - tap) / r.step + 1 : 0;
                const int t0 = WINDOW ? 0 : max(0, window - (r.width - 1));
                const int t1 = WINDOW ? taps : min(taps, window + VEC);
                ACCV value = 0;
                if (reached && t0 < t1) {
                    bool inside = window - taps + 1 >= 0 && window + VEC <= r.width;
                    if (MODE == 1)
                        inside = inside && (window - taps + 1) * r.step >= pad &&
                                 (window + VEC - 1) * r.step - pad + r.window_w <= length;
                    bool safe = safe_row;
                    if (!safe) {
                        const int lowest = window - t1 + 1, behind = window - t0 + VEC;
                        safe = row_low + lowest >= low && row_high + behind <= high;
                        if (SAVE)
                            safe = safe && places_from + lowest >= indices_offset && places_to + behind <= places_high;
                    }
                    if (!safe) {
                        ACC lanes[VEC];
                        for (int lane = 0; lane < VEC; lane++) {
                            const int at = w + phase + lane * r.step;
                            lanes[lane] =
                                at < length ? collect_one(dy, dy_offset, indices, indices_offset, &p, n, c, d, h, at)
                                            : (ACC)0;
                        }
                        value = MX_JOIN(vload, VEC)(0, lanes);
                    } else if (inside) {
                        value = collect(dy, indices, &p, r, w + phase, window, tap, t0, t1, true);
                    } else {
                        value = collect(dy, indices, &p, r, w + phase, window, tap, t0, t1, false);
                    }
                }
#if STEP != 0
                sum[i] = value;
#else
                ACC lanes[VEC];
                MX_JOIN(vstore, VEC)(value, 0, lanes);
                for (int lane = 0; lane < VEC && phase + lane * r.step < count; lane++)
                    STORE(TYPE)(dx, to + w + phase + lane * r.step, lanes[lane]);
#endif
            }
#if STEP == 1
            store_values(sum[0], dx, to + w, count);
#elif STEP == 2
            const bool crossed = (w + pad) & 1;
            const ACCV even = crossed ? sum[1] : sum[0], odd = crossed ? sum[0] : sum[1];
            ACCV left, right;
            left.even = even.lo;
            left.odd = odd.lo;
            right.even = even.hi;
            right.odd = odd.hi;
            store_values(left, dx, to + w, count);
            store_values(right, dx, to + w + VEC, max(0, count - VEC));
#endif
        }
    }
}
#endif

#if IS_KIND(flat)
#if WINDOW % 2 != 1 || STEP != 1 || MODE == 1
#error "pooling_backward_flat needs an odd WINDOW, with pads of half of it, STEP 1 and MODE 0 or 2"
#endif

/* VEC elements of a plane, from element i on.  `inside`: no window that contains them begins above or ends below. */
static inline ACCV collect_flat(__global const STORAGE(TYPE) *dy, long from, __global const INDEX_TYPE *indices,
                                long places, int i, LANEV columns, int window_h, int pad_h, int width, int size,
                                const bool inside)
{
    ACCV sum = 0;
    for (int j = 0; j < window_h; j++) {
        const int at = i + (pad_h - j) * width + WINDOW / 2;
#pragma unroll
        for (int k = 0; k < WINDOW; k++) {
            const ACCV value = VLOAD(TYPE)(dy, from + at - k);
            LANEV there = k == WINDOW / 2 ? (LANEV)-1 : INSIDE(columns + (LANE)(WINDOW / 2 - k), width);
            if (!inside)
                there &= INSIDE((LANE)(at - k) + LANES, size);
#if SAVE
            const LANEV index = TO(LANEV)(MX_JOIN(vload, VEC)(0, indices + places + at - k));
            there &= index == (IMAGE ? (LANE)i + LANES : (LANEV)(LANE)(j * WINDOW + k));
            sum += there ? value : (ACCV)0;
#else
            sum += inside && k == WINDOW / 2 ? value : there ? value : (ACCV)0;
#endif
        }
    }
#if MODE == 2
    sum /= (ACC)(window_h * WINDOW);
#endif
    return sum;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_backward_flat(
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
    const long planes = p.x.len[0] * p.x.len[1];
    const long first = (long)get_group_id(0) * block, last = min(first + block, planes);
    const long low = dy_offset, high = dy_offset + span_of(p.y), places_high = indices_offset + mx_size(p.y);
    const int width = (int)p.x.len[4], size = (int)p.y.len[3] * width, length = (int)p.x.len[3] * width;
    const int window_h = (int)p.window[1], pad_h = (int)p.pad[1];
    const int before = (window_h - 1 - pad_h) * width + WINDOW / 2, behind = pad_h * width + WINDOW / 2 + VEC;
    for (long plane = first; plane < last; plane++) {
        const int n = (int)plane / (int)p.x.len[1], c = (int)plane % (int)p.x.len[1];
        const long from = dy_offset + n * p.y.stride[0] + c * p.y.stride[1];
        const long to = dx_offset + n * p.x.stride[0] + c * p.x.stride[1];
        const long places = indices_offset + plane * size;
        for (int i = 0; i < length; i += VEC) {
            if (i + VEC > length && length >= VEC)
                i = length - VEC;
            const bool inside = i >= before && i + behind <= size;
            bool safe = from + i - before >= low && from + i + behind <= high;
            if (SAVE)
                safe = safe && places + i - before >= indices_offset && places + i + behind <= places_high;
            if (!safe) {
                for (int k = i; k < min(i + VEC, length); k++)
                    STORE(TYPE)(dx, to + k,
                                collect_one(dy, dy_offset, indices, indices_offset, &p, n, c, 0, k / width, k % width));
                continue;
            }
            const LANEV columns = columns_of(i, width);
            ACCV sum;
            if (inside)
                sum = collect_flat(dy, from, indices, places, i, columns, window_h, pad_h, width, size, true);
            else
                sum = collect_flat(dy, from, indices, places, i, columns, window_h, pad_h, width, size, false);
            store_values(sum, dx, to + i, length - i);
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
#if SQUARES
    const long places_high = indices_offset + mx_size(p.y);
#endif
    const long first = (long)get_group_id(0) * block, last = min(first + block, rows);
    line_t here = line_of(&p.x, 1, first);
    for (long row = first; row < last; row++, next_line(&p.x, 1, &here)) {
        const int n = here.n, d = here.d, h = here.h;
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
#if SQUARES
                        INDEXV square[16];
                        long square_at = -16; /* the windows square_at ... square_at + 15 are in it */
#endif
                        for (long k = k0; k < k1; k++) {
                            ACCV value = VLOAD(TYPE)(dy, from + k * p.y.stride[4]);
                            const long start = k * p.step[2] - p.pad[2];
                            const long begin = max(start, w0), end = min(start + p.window[2], w1);
#if SAVE
                            LANEV index;
#if LIKE_Y
                            index = TO(LANEV)(MX_JOIN(vload, VEC)(0, indices + places + k * p.y.stride[4]));
#else
#if SQUARES
                            if (k >= square_at + 16 && places + 15 * plane + k + 16 <= places_high) {
                                square_at = k;
                                for (int l = 0; l < VEC; l++)
                                    square[l] = vload16(0, indices + places + l * plane + k);
                                turn_square(square);
                            }
                            if (k < square_at + 16) {
                                index = TO(LANEV)(square[k - square_at]);
                            } else
#endif
                            {
                                LANE lanes[VEC];
                                for (int l = 0; l < VEC; l++)
                                    lanes[l] = (LANE)indices[places + l * plane + k];
                                index = MX_JOIN(vload, VEC)(0, lanes);
                            }
#endif
                            const long code = IMAGE ? (d * p.x.len[3] + h) * p.x.len[4]
                                                    : (kd * p.window[1] + kh) * p.window[2] - start;
#if WINDOW
                            if (end - begin == WINDOW) {
#pragma unroll
                                for (int t = 0; t < WINDOW; t++)
                                    sums[begin - w0 + t] +=
                                        index == (LANEV)(LANE)(code + begin + t) ? value : (ACCV)0;
                                continue;
                            }
#endif
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
                    store_values(sums[w - w0], dx, to + w * p.x.stride[4] + c, VEC);
            }
        }
    }
}
#endif

/* What of `value` has its maximum at `code`, or, where indices count in the image, at `place`. */
#if IMAGE
#define NAMED(index, value, code, place) ((TO(LANEV)((index) == TO(INDEXV)(place))) ? (value) : (ACCV)0)
#else
#define NAMED(index, value, code, place) ((TO(LANEV)((index) == (INDEXV)(INDEX_TYPE)(code))) ? (value) : (ACCV)0)
#endif

#if IS_KIND(turned)
#if !SQUARES || WINDOW < 2 || WINDOW > 3 || STEP < 1
#error "pooling_backward_turned needs indices of 8 bits, VEC 16, WINDOW 2 or 3 and STEP 1 or 2"
#endif

/* The indices of a row of windows, from `places` on, for VEC channels that lie `plane` apart. */
static inline void turn_row(__global const uchar *indices, long places, long plane, int length, long high, uchar16 *row)
{
    for (int k = 0; k < length; k += 16) {
        if (places + 15 * plane + k + 16 <= high) {
            for (int l = 0; l < 16; l++)
                row[k + l] = vload16(0, indices + places + l * plane + k);
        } else {
            for (int l = 0; l < 16; l++) {
                uchar lanes[16];
                for (int i = 0; i < 16; i++)
                    lanes[i] = k + i < length ? indices[places + l * plane + k + i] : (uchar)0;
                row[k + l] = vload16(0, lanes);
            }
        }
        turn_square(row + k);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_backward_turned(
    __global const STORAGE(TYPE) *restrict dy, long dy_offset, __global STORAGE(TYPE) *restrict dx, long dx_offset,
    __global const INDEX_TYPE *restrict indices, long indices_offset, const mx_pooling_problem p, const long block)
{
    const int channels = (int)p.x.len[1], height = (int)p.x.len[3], width = (int)p.x.len[4];
    const int length = (int)p.y.len[4], pad = (int)p.pad[2];
    const long rows = p.x.len[0] * height, plane = p.y.len[3] * length;
    const long first = (long)get_group_id(0) * block, last = min(first + block, rows);
    const long places_high = indices_offset + mx_size(p.y), line = p.y.stride[3], pixel = p.y.stride[4];
    const long next = p.x.stride[4];
    uchar16 ring[RING][LONGEST];
    for (int c = 0; c < channels; c += VEC) {
        c = min(c, channels - VEC);
        int turned = 0; /* rows of windows that are, or are not asked for any more */
        int n = (int)first / height, h = (int)first % height;
        for (long row = first; row < last; row++, h++) {
            if (h == height) {
                h = 0;
                n++;
                turned = 0;
            }
            const int2 on_h = convert_int2(windows_with(&p, 1, h));
            for (turned = max(turned, on_h.x); turned < on_h.y; turned++)
                turn_row(indices, indices_offset + index_place(p.y, n, c, 0, turned, 0), plane, length, places_high,
                         ring[turned % RING]);
            const long from = dy_offset + n * p.y.stride[0] + c;
            const long to = dx_offset + n * p.x.stride[0] + h * p.x.stride[3] + c;
            /* What columns w ... w + WINDOW - 1 have got so far. */
            ACCV sum[WINDOW + STEP];
            int w = -pad;
#pragma unroll
            for (int t = 0; t < WINDOW + STEP; t++)
                sum[t] = 0;
            for (int k = 0; k < length; k++) {
                for (int j = on_h.x; j < on_h.y; j++) {
                    const ACCV value = VLOAD(TYPE)(dy, from + j * line + k * pixel);
                    const uchar16 index = ring[j % RING][k];
                    const int code = (h + (int)p.pad[1] - j * (int)p.step[1]) * WINDOW;
#pragma unroll
                    for (int t = 0; t < WINDOW; t++)
                        sum[t] += NAMED(index, value, code + t, (LANEV)(h * width + w + t));
                }
#pragma unroll
                for (int t = 0; t < STEP; t++)
                    if (w + t >= 0 && w + t < width)
                        store_values(sum[t], dx, to + (w + t) * next, VEC);
                w += STEP;
#pragma unroll
                for (int t = 0; t < WINDOW; t++)
                    sum[t] = sum[t + STEP];
            }
#pragma unroll
            for (int t = 0; t < WINDOW; t++, w++)
                if (w >= 0 && w < width)
                    store_values(sum[t], dx, to + w * next, VEC);
            for (; w < width; w++)
                store_values((ACCV)0, dx, to + w * next, VEC);
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

#if IS_KIND(sheets)
#if SAVE
#error "pooling_backward_sheets knows no indices"
#endif

/* `count` vectors of channels, which stay in registers. */
static inline void backward_sheet(__global const STORAGE(TYPE) *dy, long from, __global STORAGE(TYPE) *dx, long to,
                                  const mx_pooling_problem *p, ACC divide_by, const int count)
{
    STOREDV each[SHEET];
#pragma unroll
    for (int v = 0; v < count; v++)
        each[v] = stored(VLOAD(TYPE)(dy, from + v * VEC) / divide_by);
    for (long d = 0; d < p->x.len[2]; d++)
        for (long h = 0; h < p->x.len[3]; h++) {
            long at = to + d * p->x.stride[2] + h * p->x.stride[3];
            for (long w = 0; w < p->x.len[4]; w++, at += p->x.stride[4])
#pragma unroll
                for (int v = 0; v < count; v++)
                    store_stored(each[v], dx, at + v * VEC, VEC);
        }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_backward_sheets(
    __global const STORAGE(TYPE) *restrict dy, long dy_offset, __global STORAGE(TYPE) *restrict dx, long dx_offset,
    const mx_pooling_problem p, const long block)
{
    const int channels = (int)p.x.len[1], sheets = (channels + SHEET * VEC - 1) / (SHEET * VEC);
    const long first = (long)get_group_id(0) * block, last = min(first + block, p.x.len[0] * sheets);
    const ACC divide_by = MODE == 2 ? (ACC)(p.window[0] * p.window[1] * p.window[2])
                                    : (ACC)(p.x.len[2] * p.x.len[3] * p.x.len[4]);
    for (long item = first; item < last; item++) {
        const int n = (int)item / sheets, begin = (int)item % sheets * SHEET * VEC;
        const long from = dy_offset + n * p.y.stride[0], to = dx_offset + n * p.x.stride[0];
        if (begin + SHEET * VEC <= channels) {
            backward_sheet(dy, from + begin, dx, to + begin, &p, divide_by, SHEET);
            continue;
        }
        for (int c = begin; c < channels; c += VEC) {
            c = min(c, channels - VEC);
            backward_sheet(dy, from + c, dx, to + c, &p, divide_by, 1);
        }
    }
}
#endif

#if IS_KIND(scatter)
#if !SAVE || IMAGE || MX_TYPE(TYPE) != MX_TYPE(ACC)
#error "pooling_backward_scatter needs indices in the window and a TYPE that sums may be kept in"
#endif
#define TABLE 256

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_backward_scatter(
    __global const STORAGE(TYPE) *restrict dy, long dy_offset, __global STORAGE(TYPE) *restrict dx, long dx_offset,
    __global const INDEX_TYPE *restrict indices, long indices_offset, const mx_pooling_problem p, const long block)
{
    const long planes = p.x.len[0] * p.x.len[1];
    const long first = (long)get_group_id(0) * block, last = min(first + block, planes);
    const int height = (int)p.x.len[3], width = (int)p.x.len[4], slice = height * width;
    const int size = (int)p.x.len[2] * slice, depth_y = (int)p.y.len[2], height_y = (int)p.y.len[3];
    const int width_y = (int)p.y.len[4], step = (int)p.step[2], pad = (int)p.pad[2];
    const int window_w = WINDOW ? WINDOW : (int)p.window[2], window_h = (int)p.window[1], window_d = (int)p.window[0];
    /* Windows `whole_from` ... `whole_to` - 1 of a row lie in the image. */
    const int whole_from = min((pad + step - 1) / step, width_y);
    const int whole_to = width + pad < window_w ? whole_from
                                                : max(whole_from, min((width + pad - window_w) / step + 1, width_y));
    /* Where the taps of a window lie, from its first one; there are none beyond the window's. */
    const int taps = window_d * window_h * window_w;
    int place[TABLE];
    uchar4 tap[TABLE];
    for (int i = 0; i < TABLE; i++) {
        const int w = i % window_w, h = i / window_w % window_h, d = i / window_w / window_h;
        tap[i] = (uchar4)(w, h, d, 0);
        place[i] = i < taps ? d * slice + h * width + w : -1;
    }
    for (long plane = first; plane < last; plane++) {
        const int n = (int)plane / (int)p.x.len[1], c = (int)plane % (int)p.x.len[1];
        __global STORAGE(TYPE) *const out = dx + dx_offset + n * p.x.stride[0] + c * p.x.stride[1];
        __global const INDEX_TYPE *index = indices + indices_offset + plane * depth_y * height_y * width_y;
        int clear = 0; /* elements that are cleared */
        for (int i = 0; i < depth_y; i++) {
            const int d0 = i * (int)p.step[0] - (int)p.pad[0];
            const int2 kd = convert_int2(taps_inside(d0, window_d, p.x.len[2]));
            for (int j = 0; j < height_y; j++, index += width_y) {
                const int h0 = j * (int)p.step[1] - (int)p.pad[1];
                const int2 kh = convert_int2(taps_inside(h0, window_h, height));
                const int reach = p.x.len[2] > 1 ? (d0 + kd.y) * slice : (h0 + kh.y) * width;
                for (; clear < reach && clear + VEC <= size; clear += VEC)
                    MX_STORE_LOOSE(STORAGE(TYPE), VEC, out + clear, (ACCV)0);
                for (; clear < reach; clear++)
                    out[clear] = 0;
                __global const STORAGE(TYPE) *const row =
                    dy + dy_offset + n * p.y.stride[0] + c * p.y.stride[1] + i * p.y.stride[2] + j * p.y.stride[3];
                const int corner = (d0 * height + h0) * width - pad;
                const bool whole = kd.x == 0 && kd.y == window_d && kh.x == 0 && kh.y == window_h;
                const int from = whole ? whole_from : width_y, to = whole ? whole_to : width_y;
                for (int k = 0; k < width_y; k++) {
                    if (k == from) {
                        __global STORAGE(TYPE) *at = out + corner + k * step;
                        for (; k < to; k++, at += step) {
                            const int there = place[min(index[k], (INDEX_TYPE)(TABLE - 1))];
                            if (there >= 0)
                                at[there] += row[k];
                        }
                        if (k == width_y)
                            break;
                    }
                    const int code = (int)min(index[k], (INDEX_TYPE)(TABLE - 1)), w = tap[code].x + k * step - pad;
                    const int there = place[code];
                    if (there >= 0 && w >= 0 && w < width && tap[code].y >= kh.x && tap[code].y < kh.y &&
                        tap[code].z >= kd.x && tap[code].z < kd.y)
                        out[corner + k * step + there] += row[k];
                }
            }
        }
        for (; clear + VEC <= size; clear += VEC)
            MX_STORE_LOOSE(STORAGE(TYPE), VEC, out + clear, (ACCV)0);
        for (; clear < size; clear++)
            out[clear] = 0;
    }
}
#endif

#if IS_KIND(pairs)
#if !SAVE
#error "pooling_backward_pairs needs indices"
#endif
static inline void store_pairs(ACCV even, ACCV odd, __global STORAGE(TYPE) *out, int at, int count)
{
    ACCV left, right;
    left.even = even.lo;
    left.odd = odd.lo;
    right.even = even.hi;
    right.odd = odd.hi;
    store_values(left, out, at, count);
    store_values(right, out, at + VEC, max(0, count - VEC));
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_backward_pairs(
    __global const STORAGE(TYPE) *restrict dy, long dy_offset, __global STORAGE(TYPE) *restrict dx, long dx_offset,
    __global const INDEX_TYPE *restrict indices, long indices_offset, const mx_pooling_problem p, const long block)
{
    const long planes = p.x.len[0] * p.x.len[1];
    const long first = (long)get_group_id(0) * block, last = min(first + block, planes);
    const long high = dy_offset + span_of(p.y), places_high = indices_offset + mx_size(p.y);
    const int height = (int)p.x.len[3], width = (int)p.x.len[4], size = height * width;
    const int rows = (int)p.y.len[3], length = (int)p.y.len[4], line = (int)p.y.stride[3];
    for (long plane = first; plane < last; plane++) {
        const int n = (int)plane / (int)p.x.len[1], c = (int)plane % (int)p.x.len[1];
        __global STORAGE(TYPE) *const out = dx + dx_offset + n * p.x.stride[0] + c * p.x.stride[1];
        long from = dy_offset + n * p.y.stride[0] + c * p.y.stride[1];
        long places = indices_offset + plane * rows * length;
        /* A last window that begins behind the plane has an element of row 2 j - 1 alone. */
        for (int j = 0; 2 * j < height; j++, from += line, places += length) {
            const bool below = j + 1 < rows, lower = 2 * j + 1 < height;
            for (int k = 0; k < length; k += VEC) {
                if (k + VEC > length && length >= VEC)
                    k = length - VEC;
                const int at = 2 * j * width + 2 * k;
                const int behind = k + 1 + VEC;
                if (from + behind + (below ? line : 0) > high || places + behind + (below ? length : 0) > places_high) {
                    for (int h = 2 * j; h < min(2 * j + 2, height); h++)
                        for (int w = 2 * k; w < min(2 * k + 2 * VEC, width); w++)
                            STORE(TYPE)(out, h * width + w,
                                        collect_one(dy, dy_offset, indices, indices_offset, &p, n, c, 0, h, w));
                    continue;
                }
                /* Rows that one vector holds may go on into those that come after them. */
                const int count = length < VEC ? size - at : width - 2 * k;
                const LANEV place = at + 2 * LANES, next = LANES < (LANE)(length - 1 - k);
                ACCV here = VLOAD(TYPE)(dy, from + k), beside = VLOAD(TYPE)(dy, from + k + 1);
                INDEXV index = MX_JOIN(vload, VEC)(0, indices + places + k);
                INDEXV index_beside = MX_JOIN(vload, VEC)(0, indices + places + k + 1);
                beside = next ? beside : (ACCV)0;
                store_pairs(NAMED(index, here, 4, place),
                            NAMED(index, here, 5, place + 1) + NAMED(index_beside, beside, 3, place + 1), out, at,
                            count);
                if (!lower)
                    continue;
                ACCV even = NAMED(index, here, 7, place + width);
                ACCV odd = NAMED(index, here, 8, place + width + 1) +
                           NAMED(index_beside, beside, 6, place + width + 1);
                if (below) {
                    here = VLOAD(TYPE)(dy, from + line + k);
                    beside = VLOAD(TYPE)(dy, from + line + k + 1);
                    index = MX_JOIN(vload, VEC)(0, indices + places + length + k);
                    index_beside = MX_JOIN(vload, VEC)(0, indices + places + length + k + 1);
                    beside = next ? beside : (ACCV)0;
                    even += NAMED(index, here, 1, place + width);
                    odd += NAMED(index, here, 2, place + width + 1) +
                           NAMED(index_beside, beside, 0, place + width + 1);
                }
                store_pairs(even, odd, out, at + width, count - width * (length < VEC));
            }
        }
    }
}
#endif
