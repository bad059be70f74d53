# cython: cdivision=True
"""Pooling on the host, forward and backward, in rows of doubles.

A row runs along w, or along c where neighbours in memory are channels.  Backward is a gather: each row of dx collects
from the windows that contain it, so that no two tasks write one element and sums have one order.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport free, malloc

from ._common cimport ALLOC_FAILED, at_least, at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport TASKS, acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks
from miopyx.values._types cimport MX_POOLING_FORWARD, mx_pooling_problem, mx_pooling_asked, mx_tensor
from miopyx.problem._pooling cimport INDEX_IMAGE, POOL_IN, POOL_INCLUSIVE, POOL_INDICES, POOL_MAX, POOL_OUT

cdef struct pooling_t:
    const mx_pooling_problem* p
    bint nan                   # the last NaN of a window is its maximum
    bint like_y                # indices lie as y's elements do
    const mx_tensor* target    # the tensor that is written
    char* source
    char* result
    char* indices              # NULL where there are none
    int64_t block, rows        # rows of a task, and all of them
    int64_t row                # room for a row of any of the tensors
    double* scratch            # for each worker: a row that was read, a row to write, a row of indices

# Along one axis: taps or windows first ... last - 1.
cdef struct range_t:
    int64_t first, last


cdef inline range_t taps_inside(const mx_pooling_problem* p, int axis, int64_t start) noexcept nogil:
    """The taps of the window beginning at `start` of an axis, 0 ... 2, that lie in the image."""
    cdef range_t r
    r.first = ceil_div(-start, p.dilation[axis]) if start < 0 else 0
    r.last = at_most(p.window[axis], ceil_div(p.x.len[2 + axis] - start, p.dilation[axis]))
    return r


cdef inline range_t windows_with(const mx_pooling_problem* p, int axis, int64_t at) noexcept nogil:
    """The windows that span position `at` of an axis, 0 ... 2; with dilations not all of them contain it."""
    cdef range_t r
    cdef int64_t first = at + p.pad[axis] - (p.window[axis] - 1) * p.dilation[axis]
    r.first = ceil_div(first, p.step[axis]) if first > 0 else 0
    r.last = at_most((at + p.pad[axis]) // p.step[axis] + 1, p.y.len[2 + axis])
    return r


cdef inline int64_t divisor(const mx_pooling_problem* p, int axis, int64_t window) noexcept nogil:
    """By how much one axis divides an average."""
    cdef range_t r
    cdef int64_t start = window * p.step[axis] - p.pad[axis]
    if p.divisor != 0:
        return p.divisor if axis == 0 else 1
    if p.mode == POOL_INCLUSIVE:  # the pads count, what lies behind them does not
        return at_most(p.window[axis], ceil_div(p.x.len[2 + axis] + p.end[axis] - start, p.dilation[axis]))
    r = taps_inside(p, axis, start)
    return at_least(1, r.last - r.first)


cdef inline int64_t place(const mx_tensor* t, int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) noexcept nogil:
    return n * t.stride[0] + c * t.stride[1] + d * t.stride[2] + h * t.stride[3] + w * t.stride[4]


cdef inline int64_t index_place(const pooling_t* t, int64_t n, int64_t c, int64_t d, int64_t h,
                                int64_t w) noexcept nogil:
    cdef const mx_tensor* y = &t.p.y
    if t.like_y:
        return place(y, n, c, d, h, w)
    return (((n * y.len[1] + c) * y.len[2] + d) * y.len[3] + h) * y.len[4] + w


cdef inline int64_t channel_step(const pooling_t* t) noexcept nogil:
    """From an index to that of the next channel."""
    return t.p.y.stride[1] if t.like_y else t.p.y.len[2] * t.p.y.len[3] * t.p.y.len[4]


cdef int store_indices(const pooling_t* c, int64_t at, int64_t stride, const int64_t* row, int64_t n) noexcept nogil:
    cdef int64_t i
    if c.p.index_type == 0:
        for i in range(n):
            (<uint8_t*> c.indices)[at + i * stride] = <uint8_t> row[i]
    elif c.p.index_type == 1:
        for i in range(n):
            (<uint16_t*> c.indices)[at + i * stride] = <uint16_t> row[i]
    elif c.p.index_type == 2:
        for i in range(n):
            (<uint32_t*> c.indices)[at + i * stride] = <uint32_t> row[i]
    else:
        for i in range(n):
            (<int64_t*> c.indices)[at + i * stride] = row[i]
    return 0


cdef int load_indices(const pooling_t* c, int64_t at, int64_t stride, int64_t* row, int64_t n) noexcept nogil:
    cdef int64_t i
    if c.p.index_type == 0:
        for i in range(n):
            row[i] = (<uint8_t*> c.indices)[at + i * stride]
    elif c.p.index_type == 1:
        for i in range(n):
            row[i] = (<uint16_t*> c.indices)[at + i * stride]
    elif c.p.index_type == 2:
        for i in range(n):
            row[i] = (<uint32_t*> c.indices)[at + i * stride]
    else:
        for i in range(n):
            row[i] = (<int64_t*> c.indices)[at + i * stride]
    return 0


cdef int fold_max(const double* line, int64_t stride, double* best, int64_t n) noexcept nogil:
    cdef int64_t i
    if stride == 1:
        for i in range(n):
            best[i] = line[i] if line[i] > best[i] else best[i]
    elif stride == 2:
        for i in range(n):
            best[i] = line[2 * i] if line[2 * i] > best[i] else best[i]
    else:
        for i in range(n):
            best[i] = line[i * stride] if line[i * stride] > best[i] else best[i]
    return 0


cdef int fold_max_index(const double* line, int64_t stride, double* best, int64_t* index, int64_t code,
                        int64_t code_step, int64_t n) noexcept nogil:
    """As fold_max, with the index of what is folded in: code, code + code_step, ..."""
    cdef int64_t i
    cdef double value
    cdef bint above
    for i in range(n):
        value = line[i * stride]
        above = value > best[i]
        best[i] = value if above else best[i]
        index[i] = code + i * code_step if above else index[i]
    return 0


cdef int fold_max_nan(const double* line, int64_t stride, double* best, int64_t* index, int64_t code,
                      int64_t code_step, int64_t n) noexcept nogil:
    """As fold_max_index, but NaN takes the place of whatever is there."""
    cdef int64_t i
    cdef double value
    cdef bint above
    for i in range(n):
        value = line[i * stride]
        above = (value > best[i]) | (value != value)
        best[i] = value if above else best[i]
        index[i] = code + i * code_step if above else index[i]
    return 0


cdef int fold_sum(const double* line, int64_t stride, double* total, int64_t n) noexcept nogil:
    cdef int64_t i
    if stride == 1:
        for i in range(n):
            total[i] += line[i]
    elif stride == 2:
        for i in range(n):
            total[i] += line[2 * i]
    else:
        for i in range(n):
            total[i] += line[i * stride]
    return 0


cdef inline int64_t first_code(const pooling_t* t, int64_t kd, int64_t kh, int64_t kw, int64_t start_d,
                               int64_t start_h, int64_t start_w) noexcept nogil:
    """The index of the first element of a window that is in the image: where NaN counts, of nothing but -inf."""
    cdef const mx_pooling_problem* p = t.p
    if p.index_mode == INDEX_IMAGE:
        return (((start_d + kd * p.dilation[0]) * p.x.len[3] + start_h + kh * p.dilation[1]) * p.x.len[4]
                + start_w + kw * p.dilation[2])
    return (kd * p.window[1] + kh) * p.window[2] + kw


cdef int clear(const pooling_t* c, double* row, int64_t* index, double value, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        row[i] = value
    if c.indices != NULL:
        for i in range(n):
            index[i] = 0
    return 0


cdef int forward_row(const pooling_t* t, int64_t n, int64_t c, int64_t d, int64_t h, double* line, double* out,
                     int64_t* index) noexcept nogil:
    """One row of y along w."""
    cdef const mx_pooling_problem* p = t.p
    cdef const mx_tensor* x = &p.x
    cdef const mx_tensor* y = &p.y
    cdef int64_t start_d = d * p.step[0] - p.pad[0], start_h = h * p.step[1] - p.pad[1], step = p.step[2]
    cdef range_t in_d = taps_inside(p, 0, start_d)
    cdef range_t in_h = taps_inside(p, 1, start_h)
    cdef int64_t kd, kh, kw, at_d, at_h, first, last, begin, code, base, i, lines
    cdef int64_t kw_first = ceil_div(at_least(0, p.pad[2] - (y.len[4] - 1) * step), p.dilation[2])
    cdef int64_t kw_last = at_most(p.window[2], ceil_div(x.len[4] + p.pad[2], p.dilation[2]))
    cdef bint image = p.index_mode == INDEX_IMAGE
    clear(t, out, index, -INFINITY if p.mode == POOL_MAX else 0, y.len[4])
    for kd in range(in_d.first, in_d.last):
        for kh in range(in_h.first, in_h.last):
            at_d, at_h = start_d + kd * p.dilation[0], start_h + kh * p.dilation[1]
            kernels.load_row(t.source, x.type, place(x, n, c, at_d, at_h, 0), x.stride[4], line,
                             x.len[4])
            base = (at_d * x.len[3] + at_h) * x.len[4]
            for kw in range(kw_first, kw_last):
                begin = kw * p.dilation[2] - p.pad[2]
                first = ceil_div(-begin, step) if begin < 0 else 0
                last = at_most((x.len[4] - 1 - begin) // step + 1, y.len[4])
                if last <= first:
                    continue
                begin += first * step
                if p.mode != POOL_MAX:
                    fold_sum(line + begin, step, out + first, last - first)
                elif t.nan:
                    code = base + begin if image else (kd * p.window[1] + kh) * p.window[2] + kw
                    fold_max_nan(line + begin, step, out + first, index + first, code, step if image else 0,
                                 last - first)
                elif t.indices == NULL:
                    fold_max(line + begin, step, out + first, last - first)
                else:
                    code = base + begin if image else (kd * p.window[1] + kh) * p.window[2] + kw
                    fold_max_index(line + begin, step, out + first, index + first, code, step if image else 0,
                                   last - first)
    if p.mode != POOL_MAX:
        lines = divisor(p, 0, d) * divisor(p, 1, h)
        for i in range(y.len[4]):
            out[i] /= <double> (lines * divisor(p, 2, i))
    kernels.store_row(t.result, y.type, place(y, n, c, d, h, 0), y.stride[4], out, y.len[4])
    if t.indices != NULL:
        if t.nan:
            for i in range(y.len[4]):
                if out[i] == -INFINITY:
                    index[i] = first_code(t, in_d.first, in_h.first,
                                          taps_inside(p, 2, i * step - p.pad[2]).first, start_d, start_h,
                                          i * step - p.pad[2])
        store_indices(t, index_place(t, n, c, d, h, 0), y.stride[4] if t.like_y else 1, index, y.len[4])
    return 0


cdef int forward_channels(const pooling_t* t, int64_t n, int64_t d, int64_t h, double* line, double* out,
                          int64_t* index) noexcept nogil:
    """One row of y along w, all its channels."""
    cdef const mx_pooling_problem* p = t.p
    cdef const mx_tensor* x = &p.x
    cdef const mx_tensor* y = &p.y
    cdef int64_t start_d = d * p.step[0] - p.pad[0], start_h = h * p.step[1] - p.pad[1], start_w
    cdef range_t in_d = taps_inside(p, 0, start_d)
    cdef range_t in_h = taps_inside(p, 1, start_h)
    cdef range_t in_w
    cdef int64_t kd, kh, kw, at_d, at_h, at_w, w, code, i, channels = x.len[1]
    cdef int64_t lines = divisor(p, 0, d) * divisor(p, 1, h)
    cdef double divide_by
    for w in range(y.len[4]):
        start_w = w * p.step[2] - p.pad[2]
        in_w = taps_inside(p, 2, start_w)
        clear(t, out, index, -INFINITY if p.mode == POOL_MAX else 0, channels)
        for kd in range(in_d.first, in_d.last):
            for kh in range(in_h.first, in_h.last):
                for kw in range(in_w.first, in_w.last):
                    at_d, at_h = start_d + kd * p.dilation[0], start_h + kh * p.dilation[1]
                    at_w = start_w + kw * p.dilation[2]
                    kernels.load_row(t.source, x.type, place(x, n, 0, at_d, at_h, at_w), x.stride[1], line, channels)
                    if p.mode != POOL_MAX:
                        fold_sum(line, 1, out, channels)
                    elif t.indices == NULL and not t.nan:
                        fold_max(line, 1, out, channels)
                    else:
                        if p.index_mode == INDEX_IMAGE:
                            code = (at_d * x.len[3] + at_h) * x.len[4] + at_w
                        else:
                            code = (kd * p.window[1] + kh) * p.window[2] + kw
                        if t.nan:
                            fold_max_nan(line, 1, out, index, code, 0, channels)
                        else:
                            fold_max_index(line, 1, out, index, code, 0, channels)
        if p.mode != POOL_MAX:
            divide_by = <double> (lines * divisor(p, 2, w))
            for i in range(channels):
                out[i] /= divide_by
        kernels.store_row(t.result, y.type, place(y, n, 0, d, h, w), y.stride[1], out, channels)
        if t.indices != NULL:
            if t.nan:
                code = first_code(t, in_d.first, in_h.first, in_w.first, start_d, start_h, start_w)
                for i in range(channels):
                    index[i] = code if out[i] == -INFINITY else index[i]
            store_indices(t, index_place(t, n, 0, d, h, w), channel_step(t), index, channels)
    return 0


cdef int backward_row(const pooling_t* t, int64_t n, int64_t c, int64_t d, int64_t h, double* line, double* out,
                      int64_t* index) noexcept nogil:
    """One row of dx along w."""
    cdef const mx_pooling_problem* p = t.p
    cdef const mx_tensor* x = &p.x
    cdef const mx_tensor* y = &p.y
    cdef range_t on_d = windows_with(p, 0, d), on_h = windows_with(p, 1, h)
    cdef int64_t kd, kh, kw, od, oh, ow, begin, first, last, code, code_step, lines, step = p.step[2]
    cdef int64_t kw_first = ceil_div(at_least(0, p.pad[2] - (y.len[4] - 1) * step), p.dilation[2])
    cdef int64_t kw_last = at_most(p.window[2], ceil_div(x.len[4] + p.pad[2], p.dilation[2]))
    cdef bint image = p.index_mode == INDEX_IMAGE
    clear(t, out, index, 0, x.len[4])
    code_step = step if image else 0
    for od in range(on_d.first, on_d.last):
        for oh in range(on_h.first, on_h.last):
            kd, kh = d - od * p.step[0] + p.pad[0], h - oh * p.step[1] + p.pad[1]
            if kd % p.dilation[0] != 0 or kh % p.dilation[1] != 0:
                continue
            kd, kh = kd // p.dilation[0], kh // p.dilation[1]
            kernels.load_row(t.source, y.type, place(y, n, c, od, oh, 0), y.stride[4], line, y.len[4])
            if t.indices != NULL:
                load_indices(t, index_place(t, n, c, od, oh, 0), y.stride[4] if t.like_y else 1, index, y.len[4])
            else:
                lines = divisor(p, 0, od) * divisor(p, 1, oh)
                for ow in range(y.len[4]):
                    line[ow] /= <double> (lines * divisor(p, 2, ow))
            for kw in range(kw_first, kw_last):
                begin = kw * p.dilation[2] - p.pad[2]
                first = ceil_div(-begin, step) if begin < 0 else 0
                last = at_most((x.len[4] - 1 - begin) // step + 1, y.len[4])
                if t.indices == NULL:
                    for ow in range(first, last):
                        out[begin + ow * step] += line[ow]
                else:
                    code = (d * x.len[3] + h) * x.len[4] + begin if image else \
                        (kd * p.window[1] + kh) * p.window[2] + kw
                    for ow in range(first, last):
                        if index[ow] == code + ow * code_step:
                            out[begin + ow * step] += line[ow]
    kernels.store_row(t.result, x.type, place(x, n, c, d, h, 0), x.stride[4], out, x.len[4])
    return 0


cdef int backward_channels(const pooling_t* t, int64_t n, int64_t d, int64_t h, double* line, double* out,
                           int64_t* index) noexcept nogil:
    """One row of dx along w, all its channels."""
    cdef const mx_pooling_problem* p = t.p
    cdef const mx_tensor* x = &p.x
    cdef const mx_tensor* y = &p.y
    cdef range_t on_d = windows_with(p, 0, d), on_h = windows_with(p, 1, h), on_w
    cdef int64_t kd, kh, kw, od, oh, ow, w, i, code, channels = x.len[1]
    cdef double divide_by
    for w in range(x.len[4]):
        on_w = windows_with(p, 2, w)
        clear(t, out, index, 0, channels)
        for od in range(on_d.first, on_d.last):
            for oh in range(on_h.first, on_h.last):
                for ow in range(on_w.first, on_w.last):
                    kd, kh = d - od * p.step[0] + p.pad[0], h - oh * p.step[1] + p.pad[1]
                    kw = w - ow * p.step[2] + p.pad[2]
                    if kd % p.dilation[0] != 0 or kh % p.dilation[1] != 0 or kw % p.dilation[2] != 0:
                        continue
                    kernels.load_row(t.source, y.type, place(y, n, 0, od, oh, ow), y.stride[1], line, channels)
                    if t.indices == NULL:
                        divide_by = <double> (divisor(p, 0, od) * divisor(p, 1, oh) * divisor(p, 2, ow))
                        for i in range(channels):
                            out[i] += line[i] / divide_by
                        continue
                    load_indices(t, index_place(t, n, 0, od, oh, ow), channel_step(t), index, channels)
                    if p.index_mode == INDEX_IMAGE:
                        code = (d * x.len[3] + h) * x.len[4] + w
                    else:
                        code = (kd // p.dilation[0] * p.window[1] + kh // p.dilation[1]) * p.window[2] \
                            + kw // p.dilation[2]
                    for i in range(channels):
                        out[i] += line[i] if index[i] == code else 0
        kernels.store_row(t.result, x.type, place(x, n, 0, d, h, w), x.stride[1], out, channels)
    return 0


cdef inline bint channels_last(const mx_tensor* t) noexcept nogil:
    return t.len[1] > 1 and (t.len[4] == 1 or t.stride[1] < t.stride[4])


cdef void pooling_task(void* context, int64_t task, int worker) noexcept nogil:
    """Some rows of the result."""
    cdef const pooling_t* t = <const pooling_t*> context
    cdef const mx_tensor* r = t.target
    cdef bint channels = channels_last(r), forward = t.p.what == MX_POOLING_FORWARD
    cdef double* line = t.scratch + 3 * worker * t.row
    cdef double* out = line + t.row
    cdef int64_t* index = <int64_t*> (out + t.row)
    cdef int64_t row, n, c, d, h, at
    for row in range(task * t.block, at_most((task + 1) * t.block, t.rows)):
        at, h = row // r.len[3], row % r.len[3]
        at, d = at // r.len[2], at % r.len[2]
        if channels:
            if forward:
                forward_channels(t, at, d, h, line, out, index)
            else:
                backward_channels(t, at, d, h, line, out, index)
            continue
        n, c = at // r.len[1], at % r.len[1]
        if forward:
            forward_row(t, n, c, d, h, line, out, index)
        else:
            backward_row(t, n, c, d, h, line, out, index)


cdef int host_pooling(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_pooling_asked* asked = <const mx_pooling_asked*> problem
    cdef const mx_pooling_problem* p = &asked.shape
    cdef pooling_t t
    cdef int width
    cdef unsigned arithmetic
    cdef double work
    t.p, t.nan, t.like_y = p, asked.nan != 0, asked.like_y != 0
    t.target = &p.y if p.what == MX_POOLING_FORWARD else &p.x
    t.source, t.result = <char*> slots[<int> POOL_IN], <char*> slots[<int> POOL_OUT]
    t.indices = <char*> slots[<int> POOL_INDICES] if p.save else NULL
    t.rows = t.target.len[0] * t.target.len[2] * t.target.len[3]
    if not channels_last(t.target):
        t.rows *= t.target.len[1]
    t.block = ceil_div(t.rows, 4 * TASKS)
    t.row = at_least(at_least(p.x.len[4], p.y.len[4]), p.x.len[1])
    work = <double> p.y.len[0] * p.y.len[1] * p.y.len[2] * p.y.len[3] * p.y.len[4]
    work *= <double> p.window[0] * p.window[1] * p.window[2]
    width = acquire_threads(work, threads)
    t.scratch = <double*> malloc(3 * width * t.row * sizeof(double))
    if t.scratch == NULL:
        release_threads(width)
        return ALLOC_FAILED
    arithmetic = default_arithmetic()
    run_tasks(pooling_task, &t, ceil_div(t.rows, t.block), width)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(t.scratch)
    return 0
