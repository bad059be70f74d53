/* Pooling: y = maximum or average of x over windows, and the places of the maxima.
 *
 *   y[n, c, o, p, q] = max, or mean, of x[n, c, o * step - pad + z, p * step - pad + r, q * step - pad + s] over the
 *   window's z, r, s that are inside; an "inclusive" mean divides by the whole window.
 *
 *       row of x:  . . [ . . . ] . .     Vectors hold neighbours along w or c; each load serves every window that
 *       row of y:        o               needs it.  layers/pooling.h names the definitions and their values.
 *
 * x and y are of any strides but where a kernel says more; indices are packed in n c d h w order, or with LIKE_Y, which
 * rows, channels and elements know, lie as y does.
 * Grid: local size 1, a work-item has `block` of what its kernel names; groups: LOCAL; elements: any.
 *   pooling_forward_rows      CPU; w contiguous in x and y.  A work-item writes `block` rows of y (n, c, d, h), each by
 *                             vectors along w.
 *   pooling_forward_flat      CPU; 2-D, stride 1, rows of y as long as those of x, planes of both contiguous: a plane
 *                             is one row to vectors, which mask what lies beyond the ends of its rows.  A work-item
 *                             writes `block` planes (n, c).
 *   pooling_forward_channels  CPU; c contiguous in x and y, VEC channels or more.  A work-item writes `block` rows of
 *                             y (n, d, h) with all channels, by vectors of channels.
 *   pooling_forward_planes    CPU; one window covers each plane (n, c) of x, which is contiguous.  A work-item writes
 *                             `block` elements of y.
 *   pooling_forward_sheets    CPU; one window covers each plane of x, c contiguous in x and y, VEC channels or more, no
 *                             indices.  A work-item writes `block` times SHEET * VEC channels of an image.
 *   pooling_forward_groups    GPU, the same: a group of LOCAL work-items writes one element.
 *   pooling_forward_elements  a work-item writes one element; what others do not serve.
 * Local memory: pooling_forward_groups, LOCAL elements of ACC and of long; else none.
 * Bound by: memory; small images that the cache holds by loads that are not aligned.
 * CPU kernels want lengths, windows, pads and strides whose sums and image volumes fit 30 bits.
 *
 * Maxima begin at -inf with index 0 and the first element of a window wins; NaN is never above anything.  PROPAGATE: the
 * last NaN wins, and where all is -inf the window's first element in the image.
 *
 * Vectors at the ends of rows load what lies beside them in memory, and leave it out of the result; a vector whose
 * loads would leave the tensor is computed element by element.
 */
#ifndef LOCAL
#define LOCAL 64
#endif
#include "layers/pooling.h"

#define NOTHING ((ACC)(MODE == 0 ? LEAST : (ACC)0))

/* One element of y, whatever the strides. */
static inline void forward_one(__global const STORAGE(TYPE) *x, long x_offset, __global STORAGE(TYPE) *y, long y_offset,
                               __global INDEX_TYPE *indices, long indices_offset, const mx_pooling_problem *p, long n,
                               long c, long d, long h, long w)
{
    const long d0 = d * p->step[0] - p->pad[0], h0 = h * p->step[1] - p->pad[1], w0 = w * p->step[2] - p->pad[2];
    const long2 kd = taps_inside(d0, p->window[0], p->x.len[2]), kh = taps_inside(h0, p->window[1], p->x.len[3]),
                kw = taps_inside(w0, p->window[2], p->x.len[4]);
    const long from = x_offset + n * p->x.stride[0] + c * p->x.stride[1];
    ACC result = NOTHING, rest = 0;
#if PROPAGATE
    long index = IMAGE ? ((d0 + kd.x) * p->x.len[3] + h0 + kh.x) * p->x.len[4] + w0 + kw.x
                       : (kd.x * p->window[1] + kh.x) * p->window[2] + kw.x;
#else
    long index = 0;
#endif
    for (long i = kd.x; i < kd.y; i++)
        for (long j = kh.x; j < kh.y; j++)
            for (long k = kw.x; k < kw.y; k++) {
                const ACC value = load_value(
                    x, from + (d0 + i) * p->x.stride[2] + (h0 + j) * p->x.stride[3] + (w0 + k) * p->x.stride[4]);
                if (MODE != 0) {
                    ADD_TERM(ACC, result, rest, value);
                } else if (ABOVE(value, result)) {
                    result = value;
                    index = IMAGE ? ((d0 + i) * p->x.len[3] + h0 + j) * p->x.len[4] + w0 + k
                                  : (i * p->window[1] + j) * p->window[2] + k;
                }
            }
    if (MODE == 1)
        result /= (ACC)((kd.y - kd.x) * (kh.y - kh.x) * (kw.y - kw.x));
    if (MODE == 2)
        result /= (ACC)(p->window[0] * p->window[1] * p->window[2]);
    store_value(y, y_offset + mx_offset(p->y, n, c, d, h, w), result);
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

#if STEP == 2
/* VEC neighbours, and of twice as many every second one, from the first one on or from the one behind it. */
#if ORDERED
#define load_neighbours load_values
#define APART false
#else
#define load_neighbours VLOAD_ANY_ORDER(TYPE)
#define APART (ELEMENT_OF_LANE(TYPE, 1) == 2) /* even ones come before odd ones */
#endif
static inline ACCV every_second(ACCV low, ACCV high, ACCV *next)
{
    *next = APART ? (ACCV)(low.hi, high.hi) : (ACCV)(low.odd, high.odd);
    return APART ? (ACCV)(low.lo, high.lo) : (ACCV)(low.even, high.even);
}
#endif

/* VEC elements of x, STEP (or step, where that is 0) apart; with `next` what lies one behind each of them. */
static inline ACCV load_taps(__global const STORAGE(TYPE) *x, long at, long step, ACCV *next)
{
#if STEP == 1
    return load_values(x, at);
#elif STEP == 2
    return every_second(load_neighbours(x, at), load_neighbours(x, at + VEC), next);
#else
    ACC lanes[VEC];
    for (int i = 0; i < VEC; i++)
        lanes[i] = load_value(x, at + i * step);
    return MX_JOIN(vload, VEC)(0, lanes);
#endif
}

/* Folds VEC values of one tap into the results of their windows. */
static inline void fold(ACCV value, LANE code, ACCV *result, LANEV *codes)
{
#if MODE != 0
    *result += value;
#elif SAVE
    const LANEV above = ABOVE(value, *result);
    *result = above ? value : *result;
    *codes = above ? (LANEV)code : *codes;
#else
    *result = ABOVE(value, *result) ? value : *result;
#endif
}

/* What the vectors of a kernel have in common: kept in registers, which a struct in memory would not be. */
typedef struct {
    long line, slice;       /* strides of x along h and d */
    int width, height;      /* of x */
    int window_w, window_h;
    int step;
} plane_t;

/* VEC outputs of a row, which begin at column `start` of x; kd, kh, kw: the taps to take.  `inside`: all of their
 * columns lie in the image. */
static inline void forward_vector(__global const STORAGE(TYPE) *x, long from, const plane_t a, int2 kd, int2 kh,
                                  int2 kw, int start, const bool inside, ACCV *result, LANEV *codes)
{
    const LANEV columns = (LANE)start + LANES * (LANE)a.step;
#if MODE == 0 && !SAVE && STEP == 2 && WINDOW && (ORDERED || MX_TYPE(TYPE) != MX_TYPE_bfloat16)
    /* Maxima down the columns come first: neighbours are taken apart once, not in each row.  bfloat16's are as floats. */
#pragma unroll
    for (int k = 0; k < WINDOW; k += 2) {
        ACCV low = NOTHING, high = NOTHING;
        for (int i = kd.x; i < kd.y; i++)
            for (int j = kh.x; j < kh.y; j++) {
                const long row = from + i * a.slice + j * a.line + k;
                fold(load_neighbours(x, row), 0, &low, codes);
                fold(load_neighbours(x, row + VEC), 0, &high, codes);
            }
        ACCV next, value = every_second(low, high, &next);
        if (!inside) {
            value = INSIDE(columns + (LANE)k, a.width) ? value : (ACCV)NOTHING;
            next = INSIDE(columns + (LANE)(k + 1), a.width) ? next : (ACCV)NOTHING;
        }
        fold(value, 0, result, codes);
        if (k + 1 < WINDOW)
            fold(next, 0, result, codes);
    }
    return;
#endif
    for (int i = kd.x; i < kd.y; i++)
        for (int j = kh.x; j < kh.y; j++) {
            const long row = from + i * a.slice + j * a.line;
            const LANE code = IMAGE ? (i * a.height + j) * a.width : (i * a.window_h + j) * a.window_w;
#if WINDOW
#pragma unroll
#endif
            for (int k = WINDOW ? 0 : kw.x; k < (WINDOW ? WINDOW : kw.y); k++) {
                ACCV next;
                ACCV value = load_taps(x, row + k, a.step, &next);
                if (!inside)
                    value = INSIDE(columns + (LANE)k, a.width) ? value : (ACCV)NOTHING;
                fold(value, code + (LANE)k, result, codes);
#if STEP == 2
                if (++k < (WINDOW ? WINDOW : kw.y)) { /* the same loads hold the next tap, too */
                    if (!inside)
                        next = INSIDE(columns + (LANE)k, a.width) ? next : (ACCV)NOTHING;
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
    const long rows = p.y.len[0] * p.y.len[1] * p.y.len[2] * p.y.len[3];
    const long first = (long)get_group_id(0) * block, last = min(first + block, rows);
    const long low = x_offset, high = x_offset + span_of(p.x);
    plane_t a;
    a.line = p.x.stride[3];
    a.slice = p.x.stride[2];
    a.width = (int)p.x.len[4];
    a.height = (int)p.x.len[3];
    a.window_w = WINDOW ? WINDOW : (int)p.window[2];
    a.window_h = (int)p.window[1];
    a.step = STEP ? STEP : (int)p.step[2];
    const int length = (int)p.y.len[4], pad = (int)p.pad[2], reach = (VEC - 1) * a.step;
    line_t at = line_of(&p.y, (int)p.y.len[1], first);
    for (long row = first; row < last; row++, next_line(&p.y, (int)p.y.len[1], &at)) {
        const int d0 = at.d * (int)p.step[0] - (int)p.pad[0], h0 = at.h * (int)p.step[1] - (int)p.pad[1];
        const int2 kd = (int2)(max(0, -d0), min((int)p.window[0], (int)p.x.len[2] - d0));
        const int2 kh = (int2)(max(0, -h0), min(a.window_h, a.height - h0));
        const long to = y_offset + mx_offset(p.y, at.n, at.c, at.d, at.h, 0);
        const long from = x_offset + at.n * p.x.stride[0] + at.c * p.x.stride[1] + d0 * a.slice + h0 * a.line;
        const long row_low = from + kd.x * a.slice + kh.x * a.line;
        const long row_high = from + (kd.y - 1) * a.slice + (kh.y - 1) * a.line + reach + (STEP == 2 ? 2 : 0);
        /* No vector of most rows loads anything outside the tensor. */
        const bool safe = WINDOW && row_low - pad >= low &&
                          row_high + (length + VEC) * a.step - pad + a.window_w <= high;
        for (int w = 0; w < length; w += VEC) {
            if (w + VEC > length && length >= VEC)
                w = length - VEC; /* the last vector computes some elements again rather than fewer */
            const int count = length - w, start = w * a.step - pad;
            const int2 kw = WINDOW ? (int2)(0, WINDOW)
                                   : (int2)(max(0, -start - reach), min(a.window_w, a.width - start));
            const bool inside = start >= 0 && start + reach + a.window_w <= a.width;
            if (!safe && (row_low + start + kw.x < low || row_high + start + kw.y > high || ((STEP == 0) & !inside))) {
                for (int i = w; i < min(w + VEC, length); i++)
                    forward_one(x, x_offset, y, y_offset, indices, indices_offset, &p, at.n, at.c, at.d, at.h, i);
                continue;
            }
            ACCV result = NOTHING;
#if PROPAGATE /* the first taps in the image */
            LANEV codes = (LANE)(IMAGE ? (kd.x * a.height + kh.x) * a.width : (kd.x * a.window_h + kh.x) * a.window_w) +
                          max(-((LANE)start + LANES * (LANE)a.step), (LANEV)0);
#else
            LANEV codes = 0;
#endif
            if (inside)
                forward_vector(x, from + start, a, kd, kh, kw, start, true, &result, &codes);
            else
                forward_vector(x, from + start, a, kd, kh, kw, start, false, &result, &codes);
#if MODE == 1
            const ACC lines = (ACC)((kd.y - kd.x) * (kh.y - kh.x));
            result /= inside ? (ACCV)(lines * (ACC)a.window_w) : lines * divisors(&p, start + LANES * (LANE)a.step);
#elif MODE == 2
            result /= (ACC)(p.window[0] * p.window[1] * p.window[2]);
#endif
            store_values(result, y, to + w, count);
#if SAVE
#if IMAGE
            const LANEV corner = (d0 * a.height + h0) * a.width + start + LANES * (LANE)a.step;
            codes = PROPAGATE || result > NOTHING ? corner + codes : (LANEV)0;
#endif
#if LIKE_Y
            store_indices(TO(INDEXV)(codes), indices,
                          indices_offset + index_place(p.y, at.n, at.c, at.d, at.h, 0) + w, count);
#else
            store_indices(TO(INDEXV)(codes), indices, indices_offset + row * length + w, count);
#endif
#endif
        }
    }
}
#endif

#if IS_KIND(flat)
#if WINDOW % 2 != 1 || STEP != 1
#error "pooling_forward_flat needs an odd WINDOW, with pads of half of it, and STEP 1"
#endif

/* VEC outputs of a plane, from output i on.  `inside`: no window crosses the first or the last row. */
static inline void forward_flat(__global const STORAGE(TYPE) *x, long from, int i, LANEV columns, int window_h,
                                int pad_h, int width, int size, const bool inside, ACCV *result, LANEV *codes,
                                LANEV *count)
{
    for (int j = 0; j < window_h; j++) {
        const int at = i + (j - pad_h) * width - WINDOW / 2;
#pragma unroll
        for (int k = 0; k < WINDOW; k++) {
            ACCV value = load_values(x, from + at + k);
            LANEV there = k == WINDOW / 2 ? (LANEV)-1 : INSIDE(columns + (LANE)(k - WINDOW / 2), width);
            if (!inside)
                there &= INSIDE((LANE)(at + k) + LANES, size);
            if (!inside || k != WINDOW / 2)
                value = there ? value : (ACCV)NOTHING;
            fold(value, IMAGE ? (LANE)((j - pad_h) * width - WINDOW / 2 + k) : (LANE)(j * WINDOW + k), result, codes);
            if (MODE == 1)
                *count -= there;
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_forward_flat(
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
    const long planes = p.y.len[0] * p.y.len[1];
    const long first = (long)get_group_id(0) * block, last = min(first + block, planes);
    const long low = x_offset, high = x_offset + span_of(p.x);
    const int width = (int)p.x.len[4], size = (int)p.x.len[3] * width, length = (int)p.y.len[3] * width;
    const int window_h = (int)p.window[1], pad_h = (int)p.pad[1];
    const int before = pad_h * width + WINDOW / 2, behind = (window_h - 1 - pad_h) * width + WINDOW / 2 + VEC;
    for (long plane = first; plane < last; plane++) {
        const int n = (int)plane / (int)p.y.len[1], c = (int)plane % (int)p.y.len[1];
        const long from = x_offset + n * p.x.stride[0] + c * p.x.stride[1];
        const long to = y_offset + n * p.y.stride[0] + c * p.y.stride[1];
        for (int i = 0; i < length; i += VEC) {
            if (i + VEC > length && length >= VEC)
                i = length - VEC;
            const bool inside = i >= before && i + behind <= size;
            if (from + i - before < low || from + i + behind > high) {
                for (int k = i; k < min(i + VEC, length); k++)
                    forward_one(x, x_offset, y, y_offset, indices, indices_offset, &p, n, c, 0, k / width, k % width);
                continue;
            }
            const LANEV columns = columns_of(i, width);
            ACCV result = NOTHING;
            LANEV codes = 0, count = 0;
            if (inside)
                forward_flat(x, from, i, columns, window_h, pad_h, width, size, true, &result, &codes, &count);
            else
                forward_flat(x, from, i, columns, window_h, pad_h, width, size, false, &result, &codes, &count);
#if MODE == 1
            result /= TO(ACCV)(max(count, (LANEV)1));
#elif MODE == 2
            result /= (ACC)(window_h * WINDOW);
#endif
            store_values(result, y, to + i, length - i);
#if SAVE
#if PROPAGATE
            const LANEV nothing = result == NOTHING;
            if (any(nothing)) { /* the first taps in the image */
                const LANEV rows = ((LANE)i + LANES - columns) / (LANE)width;
                const LANEV down = max((LANE)pad_h - rows, (LANEV)0);
                const LANEV across = max((LANE)(WINDOW / 2) - columns, (LANEV)0);
                codes = nothing ? (IMAGE ? (down - (LANE)pad_h) * (LANE)width - (LANE)(WINDOW / 2) + across
                                         : down * (LANE)WINDOW + across)
                                : codes;
            }
#endif
#if IMAGE
            codes = PROPAGATE || result > NOTHING ? (LANE)i + LANES + codes : (LANEV)0;
#endif
            store_indices(TO(INDEXV)(codes), indices, indices_offset + plane * length + i, length - i);
#endif
        }
    }
}
#endif

#if IS_KIND(channels)
#if LIKE_Y && SAVE /* nothing is turned: memory is read in its order */
#define AT_ONCE 1
#else
#define AT_ONCE 16
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_forward_channels(
    __global const STORAGE(TYPE) *restrict x, long x_offset, __global STORAGE(TYPE) *restrict y, long y_offset,
#if SAVE
    __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
    const mx_pooling_problem p, const long block)
{
    const long rows = p.y.len[0] * p.y.len[2] * p.y.len[3], channels = p.y.len[1];
    const long first = (long)get_group_id(0) * block, last = min(first + block, rows);
    line_t at = line_of(&p.y, 1, first);
    for (long row = first; row < last; row++, next_line(&p.y, 1, &at)) {
        const int n = at.n, d = at.d, h = at.h;
        const long d0 = d * p.step[0] - p.pad[0], h0 = h * p.step[1] - p.pad[1];
        const long2 kd = taps_inside(d0, p.window[0], p.x.len[2]), kh = taps_inside(h0, p.window[1], p.x.len[3]);
        const long row_from = x_offset + mx_offset(p.x, n, 0, d0, h0, 0);
        const long row_to = y_offset + mx_offset(p.y, n, 0, d, h, 0);
        const LANE row_corner = (LANE)((d0 * p.x.len[3] + h0) * p.x.len[4]);
        for (long w_first = 0; w_first < p.y.len[4]; w_first += AT_ONCE) {
            const long w_last = min(w_first + AT_ONCE, p.y.len[4]);
            for (long c = 0; c < channels; c += VEC) {
                if (c + VEC > channels)
                    c = channels - VEC;
#if SAVE
                const long place = indices_offset + index_place(p.y, n, c, d, h, w_first);
#endif
#if SAVE && !LIKE_Y
                const long plane = p.y.len[2] * p.y.len[3] * p.y.len[4];
                INDEXV kept[16];
#endif
                for (long w = w_first; w < w_last; w++) {
                    const int w0 = (int)w * (int)p.step[2] - (int)p.pad[2];
                    const int2 kw = (int2)(max(0, -w0), min((int)p.window[2], (int)p.x.len[4] - w0));
                    const long from = row_from + c + w0 * p.x.stride[4];
                    const LANE corner = row_corner + w0;
                    ACCV result = NOTHING;
#if PROPAGATE
                    LANEV codes = IMAGE ? corner + (LANE)((kd.x * p.x.len[3] + kh.x) * p.x.len[4] + kw.x)
                                        : (LANE)((kd.x * p.window[1] + kh.x) * p.window[2] + kw.x);
#else
                    LANEV codes = 0;
#endif
                    for (long i = kd.x; i < kd.y; i++)
                        for (long j = kh.x; j < kh.y; j++) {
                            const long line = from + i * p.x.stride[2] + j * p.x.stride[3];
                            const LANE code = IMAGE ? corner + (LANE)((i * p.x.len[3] + j) * p.x.len[4])
                                                    : (LANE)((i * p.window[1] + j) * p.window[2]);
#if WINDOW
                            if (kw.y - kw.x == WINDOW) {
#pragma unroll
                                for (int k = 0; k < WINDOW; k++)
                                    fold(load_values(x, line + k * p.x.stride[4]), code + (LANE)k, &result, &codes);
                                continue;
                            }
#endif
                            for (int k = kw.x; k < kw.y; k++)
                                fold(load_values(x, line + k * p.x.stride[4]), code + (LANE)k, &result, &codes);
                        }
#if MODE == 1
                    result /= (ACC)((kd.y - kd.x) * (kh.y - kh.x) * (kw.y - kw.x));
#elif MODE == 2
                    result /= (ACC)(p.window[0] * p.window[1] * p.window[2]);
#endif
                    store_values(result, y, row_to + c + w * p.y.stride[4], VEC);
#if SAVE && LIKE_Y
                    store_indices(TO(INDEXV)(codes), indices, place + (w - w_first) * p.y.stride[4], VEC);
#elif SAVE
                    kept[w - w_first] = TO(INDEXV)(codes);
#endif
                }
#if SQUARES && !LIKE_Y
                turn_square(kept);
                for (int i = 0; i < VEC; i++)
                    store_indices(kept[i], indices, place + i * plane, w_last - w_first);
#elif SAVE && !LIKE_Y
                for (long w = w_first; w < w_last; w++) {
                    INDEX_TYPE lanes[VEC];
                    MX_JOIN(vstore, VEC)(kept[w - w_first], 0, lanes);
                    for (int i = 0; i < VEC; i++)
                        indices[place + i * plane + w - w_first] = lanes[i];
                }
#endif
            }
        }
    }
}
#endif

#if IS_KIND(sheets)
#if SAVE
#error "pooling_forward_sheets keeps no indices"
#endif

/* result += `pixels` of a row, `count` vectors of channels each, which stay in registers. */
static inline void add_pixels(__global const STORAGE(TYPE) *x, long at, long step, long pixels, ACCV *result,
                              const int count)
{
    for (long w = 0; w < pixels; w++, at += step) {
        LANEV codes = 0;
#pragma unroll
        for (int v = 0; v < count; v++)
            fold(load_values(x, at + v * VEC), 0, &result[v], &codes);
    }
}

#if defined(LONG_SUM) && LONG_SUM
/* total += a stretch of a row, out of line: its sums have all registers. */
#define DEFINE_ADD_STRETCH(COUNT)                                                                             \
    NOINLINE void add_stretch_##COUNT(__global const STORAGE(TYPE) *x, long at, long step, long pixels,       \
                                      ACCV *total, ACCV *rest)                                                \
    {                                                                                                         \
        ACCV sum[COUNT];                                                                                      \
        _Pragma("unroll") for (int v = 0; v < COUNT; v++)                                                     \
            sum[v] = 0;                                                                                       \
        add_pixels(x, at, step, pixels, sum, COUNT);                                                          \
        _Pragma("unroll") for (int v = 0; v < COUNT; v++)                                                     \
            MX_TWO_SUM(ACCV, total[v], rest[v], sum[v]);                                                      \
    }
DEFINE_ADD_STRETCH(1)
DEFINE_ADD_STRETCH(8)
#if SHEET != 8
#error "SHEET must be 8"
#endif
#endif

/* `count` vectors of channels. */
static inline void forward_sheet(__global const STORAGE(TYPE) *x, long from, __global STORAGE(TYPE) *y, long to,
                                 const mx_pooling_problem *p, ACC divide_by, const int count)
{
    ACCV result[SHEET];
#pragma unroll
    for (int v = 0; v < count; v++)
        result[v] = NOTHING;
#if defined(LONG_SUM) && LONG_SUM
    ACCV rest[SHEET];
#pragma unroll
    for (int v = 0; v < count; v++)
        rest[v] = 0;
#endif
    for (long d = 0; d < p->x.len[2]; d++)
        for (long h = 0; h < p->x.len[3]; h++) {
            const long at = from + d * p->x.stride[2] + h * p->x.stride[3], step = p->x.stride[4];
#if defined(LONG_SUM) && LONG_SUM
            for (long w = 0; w < p->x.len[4]; w += BLOCK_TERMS) {
                const long pixels = min(p->x.len[4] - w, (long)BLOCK_TERMS);
                if (count == SHEET)
                    add_stretch_8(x, at + w * step, step, pixels, result, rest);
                else
                    add_stretch_1(x, at + w * step, step, pixels, result, rest);
            }
#else
            add_pixels(x, at, step, p->x.len[4], result, count);
#endif
        }
#pragma unroll
    for (int v = 0; v < count; v++)
        store_values(MODE == 0 ? result[v] : result[v] / divide_by, y, to + v * VEC, VEC);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pooling_forward_sheets(
    __global const STORAGE(TYPE) *restrict x, long x_offset, __global STORAGE(TYPE) *restrict y, long y_offset,
    const mx_pooling_problem p, const long block)
{
    const int channels = (int)p.y.len[1], sheets = (channels + SHEET * VEC - 1) / (SHEET * VEC);
    const long first = (long)get_group_id(0) * block, last = min(first + block, p.y.len[0] * sheets);
    const ACC divide_by = MODE == 2 ? (ACC)(p.window[0] * p.window[1] * p.window[2])
                                    : (ACC)(p.x.len[2] * p.x.len[3] * p.x.len[4]);
    for (long item = first; item < last; item++) {
        const int n = (int)item / sheets, begin = (int)item % sheets * SHEET * VEC;
        const long from = x_offset + n * p.x.stride[0], to = y_offset + n * p.y.stride[0];
        if (begin + SHEET * VEC <= channels) {
            forward_sheet(x, from + begin, y, to + begin, &p, divide_by, SHEET);
            continue;
        }
        for (int c = begin; c < channels; c += VEC) {
            c = min(c, channels - VEC);
            forward_sheet(x, from + c, y, to + c, &p, divide_by, 1);
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

/* Folds the second half of a vector into its first half; of equal maxima the earlier one stays. */
#if MODE != 0
#define FOLD_HALF(half, half_codes, full, codes) half += (full).hi
#elif SAVE && PROPAGATE
#define FOLD_HALF(half, half_codes, full, codes)                                                    \
    do {                                                                                            \
        const __typeof__(half_codes) beats = BEATS((full).hi, (codes).hi, half, half_codes);        \
        half_codes = beats ? (codes).hi : half_codes;                                               \
        half = beats ? (full).hi : half;                                                            \
    } while (0)
#elif SAVE
#define FOLD_HALF(half, half_codes, full, codes)                                                           \
    do {                                                                                                   \
        half_codes = (full).hi > half || ((full).hi == half && (codes).hi < half_codes) ? (codes).hi       \
                                                                                         : half_codes;     \
        half = (full).hi > half ? (full).hi : half;                                                        \
    } while (0)
#else
#define FOLD_HALF(half, half_codes, full, codes) half = ABOVE((full).hi, half) ? (full).hi : half
#endif

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
    const long high = x_offset + span_of(p.x);
    for (long plane = first; plane < last; plane++) {
        const long n = (int)plane / (int)p.y.len[1], c = (int)plane % (int)p.y.len[1];
        const long from = x_offset + n * p.x.stride[0] + c * p.x.stride[1];
        ACCV result = NOTHING, total = 0, rest = 0;
        LANEV codes = PROPAGATE ? LANES : (LANEV)0;
        long i = 0;
        for (; i + VEC <= length; i += VEC) {
            const ACCV value = load_values(x, from + i);
#if SAVE
            const LANEV above = ABOVE(value, result);
            result = above ? value : result;
            codes = above ? (LANE)i + LANES : codes;
#else
            fold(value, 0, &result, &codes);
            SETTLE(ACCV, i / VEC + 1, total, rest, result)
#endif
        }
        if (i < length) {
            ACCV value;
            if (from + i + VEC <= high) {
                value = load_values(x, from + i);
            } else {
                ACC lanes[VEC];
                for (int lane = 0; lane < VEC; lane++)
                    lanes[lane] = i + lane < length ? (ACC)load_value(x, from + i + lane) : (ACC)0;
                value = MX_JOIN(vload, VEC)(0, lanes);
            }
            value = (LANE)i + LANES < (LANE)length ? value : (ACCV)NOTHING;
#if SAVE
            const LANEV above = ABOVE(value, result);
            result = above ? value : result;
            codes = above ? (LANE)i + LANES : codes;
#else
            fold(value, 0, &result, &codes);
#endif
        }
#if MODE != 0
        result = TOTAL(total, rest, result);
#endif
#if VEC == 16
        MX_JOIN(ACC, 8) eight = result.lo;
        MX_JOIN(LANE, 8) eight_codes = codes.lo;
        FOLD_HALF(eight, eight_codes, result, codes);
#else
        const MX_JOIN(ACC, 8) eight = result;
        const MX_JOIN(LANE, 8) eight_codes = codes;
#endif
        MX_JOIN(ACC, 4) four = eight.lo;
        MX_JOIN(LANE, 4) four_codes = eight_codes.lo;
        FOLD_HALF(four, four_codes, eight, eight_codes);
        MX_JOIN(ACC, 2) two = four.lo;
        MX_JOIN(LANE, 2) two_codes = four_codes.lo;
        FOLD_HALF(two, two_codes, four, four_codes);
        const bool second = BEATS(two.hi, two_codes.hi, two.lo, two_codes.lo);
        const ACC whole = MODE != 0 ? two.lo + two.hi : second ? two.hi : two.lo;
        store_value(y, y_offset + n * p.y.stride[0] + c * p.y.stride[1],
                    MODE == 0 ? whole : whole / divisor_of_plane(&p, length));
#if SAVE
        const LANE code = second ? two_codes.hi : two_codes.lo;
        indices[indices_offset + plane] =
            PROPAGATE || whole > NOTHING ? (INDEX_TYPE)index_in_plane(&p, code) : (INDEX_TYPE)0;
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
    ACC result = NOTHING, total = 0, rest = 0;
    long place = PROPAGATE ? me : 0;
    for (long i = me; i < length; i += LOCAL) {
        const ACC value = load_value(x, from + i);
        if (MODE != 0) {
            result += value;
            SETTLE(ACC, i / LOCAL + 1, total, rest, result)
        } else if (ABOVE(value, result)) {
            result = value;
            place = i;
        }
    }
    results[me] = MODE != 0 ? TOTAL(total, rest, result) : result;
    places[me] = place;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = LOCAL / 2; half_way > 0; half_way /= 2) {
        if (me < half_way) {
            const ACC other = results[me + half_way];
            if (MODE != 0) {
                results[me] += other;
            } else if (BEATS(other, places[me + half_way], results[me], places[me])) {
                results[me] = other;
                places[me] = places[me + half_way];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (me == 0) {
        store_value(y, y_offset + n * p.y.stride[0] + c * p.y.stride[1],
                    MODE == 0 ? results[0] : results[0] / divisor_of_plane(&p, length));
#if SAVE
        indices[indices_offset + plane] =
            PROPAGATE || results[0] > NOTHING ? (INDEX_TYPE)index_in_plane(&p, places[0]) : (INDEX_TYPE)0;
#endif
    }
}
#endif
