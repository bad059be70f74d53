# cython: cdivision=True
"""Convolutions with NaN and infinity next to padding.

A position outside the image contributes nothing, but a packed zero times an infinite weight is NaN.  Where such
values turn up, which packing notices, the whole output is computed again by loops that skip what is outside.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from ._common cimport ALLOC_FAILED, at_least, at_most, ceil_div
from ._kernels cimport kernels, mx_run
from ._pool cimport run_tasks
from miopyx.values._types cimport MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_FORWARD, mx_conv_problem, mx_tensor


cdef struct direct_t:
    const mx_conv_problem* p
    const char* x
    const char* w
    const char* y
    char* out
    double alpha, beta
    double* rows               # for each worker: sums, two rows of operands
    int64_t row                # length of one of them


cdef double load(const char* data, int64_t type, int64_t offset) noexcept nogil:
    cdef double value
    kernels.load_row(data, type, offset, 0, &value, 1)
    return value


cdef void finish_row(const direct_t* c, const mx_tensor* t, int64_t offset, double* sums) noexcept nogil:
    cdef mx_run run
    run.lane, run.len, run.offset, run.stride = 0, t.len[4], 0, t.stride[4]
    kernels.store(c.out, t.type, c.p.rounding, offset, t.stride[4], 1, &run, 1, sums, c.alpha, c.beta)


cdef bint inside(const mx_conv_problem* p, int64_t s, int64_t* lo, int64_t* hi) noexcept nogil:
    """The output columns [lo, hi) whose filter column s lies inside x."""
    cdef int64_t shift = s * p.dilation[2] - p.pad[2], last = p.x.len[4] - 1 - shift
    lo[0] = ceil_div(-shift, p.step[2]) if shift < 0 else 0
    hi[0] = at_most(p.y.len[4], last // p.step[2] + 1) if last >= 0 else 0
    return lo[0] < hi[0]


cdef void forward_row(void* context, int64_t index, int worker) noexcept nogil:
    cdef const direct_t* c = <const direct_t*> context
    cdef const mx_conv_problem* p = c.p
    cdef int64_t h = index % p.y.len[3], d = index // p.y.len[3] % p.y.len[2]
    cdef int64_t plane = index // (p.y.len[3] * p.y.len[2]), k = plane % p.y.len[1], n = plane // p.y.len[1]
    cdef int64_t group_channel = k // (p.w.len[0] // p.groups) * p.w.len[1], ch, z, r, s, xd, xh, lo, hi, i, at, wat
    cdef double* sums = c.rows + worker * 3 * c.row
    cdef double* row = sums + c.row
    cdef double weight
    memset(sums, 0, p.y.len[4] * sizeof(double))
    for ch in range(p.w.len[1]):
        for z in range(p.w.len[2]):
            xd = d * p.step[0] - p.pad[0] + z * p.dilation[0]
            if xd < 0 or xd >= p.x.len[2]:
                continue
            for r in range(p.w.len[3]):
                xh = h * p.step[1] - p.pad[1] + r * p.dilation[1]
                if xh < 0 or xh >= p.x.len[3]:
                    continue
                at = n * p.x.stride[0] + (group_channel + ch) * p.x.stride[1] + xd * p.x.stride[2] + xh * p.x.stride[3]
                wat = k * p.w.stride[0] + ch * p.w.stride[1] + z * p.w.stride[2] + r * p.w.stride[3]
                for s in range(p.w.len[4]):
                    if not inside(p, s, &lo, &hi):
                        continue
                    kernels.load_row(c.x, p.x.type,
                                     at + (lo * p.step[2] + s * p.dilation[2] - p.pad[2]) * p.x.stride[4],
                                     p.step[2] * p.x.stride[4], row, hi - lo)
                    weight = load(c.w, p.w.type, wat + s * p.w.stride[4])
                    for i in range(hi - lo):
                        sums[lo + i] += weight * row[i]
    finish_row(c, &p.y, n * p.y.stride[0] + k * p.y.stride[1] + d * p.y.stride[2] + h * p.y.stride[3], sums)


cdef void data_row(void* context, int64_t index, int worker) noexcept nogil:
    cdef const direct_t* c = <const direct_t*> context
    cdef const mx_conv_problem* p = c.p
    cdef int64_t h = index % p.x.len[3], d = index // p.x.len[3] % p.x.len[2]
    cdef int64_t plane = index // (p.x.len[3] * p.x.len[2]), ch = plane % p.x.len[1], n = plane // p.x.len[1]
    cdef int64_t per_group = p.w.len[0] // p.groups, k, first = ch // p.w.len[1] * per_group
    cdef int64_t z, r, s, yd, yh, lo, hi, i, at, wat
    cdef double* sums = c.rows + worker * 3 * c.row
    cdef double* row = sums + c.row
    cdef double* to
    cdef double weight
    memset(sums, 0, p.x.len[4] * sizeof(double))
    for k in range(first, first + per_group):
        for z in range(p.w.len[2]):
            yd = d + p.pad[0] - z * p.dilation[0]
            if yd < 0 or yd % p.step[0] or yd // p.step[0] >= p.y.len[2]:
                continue
            for r in range(p.w.len[3]):
                yh = h + p.pad[1] - r * p.dilation[1]
                if yh < 0 or yh % p.step[1] or yh // p.step[1] >= p.y.len[3]:
                    continue
                at = (n * p.y.stride[0] + k * p.y.stride[1] + yd // p.step[0] * p.y.stride[2]
                      + yh // p.step[1] * p.y.stride[3])
                wat = k * p.w.stride[0] + ch % p.w.len[1] * p.w.stride[1] + z * p.w.stride[2] + r * p.w.stride[3]
                for s in range(p.w.len[4]):
                    if not inside(p, s, &lo, &hi):
                        continue
                    kernels.load_row(c.y, p.y.type, at + lo * p.y.stride[4], p.y.stride[4], row, hi - lo)
                    weight = load(c.w, p.w.type, wat + s * p.w.stride[4])
                    to = sums + (lo * p.step[2] + s * p.dilation[2] - p.pad[2])
                    for i in range(hi - lo):
                        to[i * p.step[2]] += weight * row[i]
    finish_row(c, &p.x, n * p.x.stride[0] + ch * p.x.stride[1] + d * p.x.stride[2] + h * p.x.stride[3], sums)


cdef void weights_row(void* context, int64_t index, int worker) noexcept nogil:
    cdef const direct_t* c = <const direct_t*> context
    cdef const mx_conv_problem* p = c.p
    cdef int64_t r = index % p.w.len[3], z = index // p.w.len[3] % p.w.len[2]
    cdef int64_t plane = index // (p.w.len[3] * p.w.len[2]), ch = plane % p.w.len[1], k = plane // p.w.len[1]
    cdef int64_t channel = k // (p.w.len[0] // p.groups) * p.w.len[1] + ch, n, d, h, xd, xh, s, lo, hi, i
    cdef double* sums = c.rows + worker * 3 * c.row
    cdef double* row = sums + c.row
    cdef double* other = row + c.row
    memset(sums, 0, p.w.len[4] * sizeof(double))
    for n in range(p.y.len[0]):
        for d in range(p.y.len[2]):
            xd = d * p.step[0] - p.pad[0] + z * p.dilation[0]
            if xd < 0 or xd >= p.x.len[2]:
                continue
            for h in range(p.y.len[3]):
                xh = h * p.step[1] - p.pad[1] + r * p.dilation[1]
                if xh < 0 or xh >= p.x.len[3]:
                    continue
                kernels.load_row(c.y, p.y.type, n * p.y.stride[0] + k * p.y.stride[1] + d * p.y.stride[2]
                                 + h * p.y.stride[3], p.y.stride[4], row, p.y.len[4])
                for s in range(p.w.len[4]):
                    if not inside(p, s, &lo, &hi):
                        continue
                    kernels.load_row(c.x, p.x.type, n * p.x.stride[0] + channel * p.x.stride[1] + xd * p.x.stride[2]
                                     + xh * p.x.stride[3]
                                     + (lo * p.step[2] + s * p.dilation[2] - p.pad[2]) * p.x.stride[4],
                                     p.step[2] * p.x.stride[4], other, hi - lo)
                    for i in range(hi - lo):
                        sums[s] += row[lo + i] * other[i]
    finish_row(c, &p.w, k * p.w.stride[0] + ch * p.w.stride[1] + z * p.w.stride[2] + r * p.w.stride[3], sums)


cdef int convolve_directly(const mx_conv_problem* p, void** slots, const double* scalars, int width) noexcept nogil:
    cdef direct_t c
    cdef const mx_tensor* out = &p.y if p.direction == MX_FORWARD else &p.x
    if p.direction == MX_BACKWARD_WEIGHTS:
        out = &p.w
    c.p, c.alpha, c.beta = p, scalars[0], scalars[1]
    c.x, c.w, c.y = <const char*> slots[0], <const char*> slots[1], <const char*> slots[2]
    c.row = at_least(at_least(p.x.len[4], p.y.len[4]), p.w.len[4])
    c.rows = <double*> malloc(3 * width * c.row * sizeof(double))
    if c.rows == NULL:
        return ALLOC_FAILED
    if p.direction == MX_FORWARD:
        c.out = <char*> slots[2]
        run_tasks(forward_row, &c, out.len[0] * out.len[1] * out.len[2] * out.len[3], width)
    elif p.direction == MX_BACKWARD_DATA:
        c.out = <char*> slots[0]
        run_tasks(data_row, &c, out.len[0] * out.len[1] * out.len[2] * out.len[3], width)
    else:
        c.out = <char*> slots[1]
        run_tasks(weights_row, &c, out.len[0] * out.len[1] * out.len[2] * out.len[3], width)
    free(c.rows)
    return 0


cdef bint all_finite(const mx_tensor* t, const void* data) noexcept nogil:
    cdef int64_t a, b, c, d, e
    for a in range(t.len[0]):
        for b in range(t.len[1]):
            for c in range(t.len[2]):
                for d in range(t.len[3]):
                    for e in range(t.len[4]):
                        if load(<const char*> data, t.type, a * t.stride[0] + b * t.stride[1] + c * t.stride[2]
                                + d * t.stride[3] + e * t.stride[4]) * 0 != 0:
                            return False
    return True
