/* Direct convolution of any shape: the reference on the device, always right and never fast.
 *
 *     forward            y = alpha * sum over c, z, r, s of x w + beta * y
 *     backward data     dx = alpha * sum over k, z, r, s of dy w + beta * dx
 *     backward weights  dw = alpha * sum over n, do, ho, wo of dy x + beta * dw
 *
 * Shape: anything mx_conv_problem can say: 1 to 3 spatial axes, groups, strides, dilations, pads, tensor strides.
 * Grid: one axis, a work-item for each element of the output in its order in memory, rounded up to any local size.
 * Memory: no workspace, no local memory, no atomics.
 * The sum runs in ACC, which should be double where the device has it (int for int8), and is rounded once; in float it
 * keeps what each addition rounds away.
 * Bound by: loads; each product reads both of its factors anew.
 */
#ifndef X_TYPE /* storage type of x (dx) */
#define X_TYPE float
#endif
#ifndef W_TYPE /* storage type of w (dw) */
#define W_TYPE X_TYPE
#endif
#ifndef Y_TYPE /* storage type of y (dy) */
#define Y_TYPE X_TYPE
#endif
#ifndef ACC /* type of the sums */
#ifdef cl_khr_fp64
#define ACC double
#else
#define ACC float
#endif
#endif
#define ROUNDING p.rounding
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"

#if !MX_IS_STORAGE(X_TYPE) || !MX_IS_STORAGE(W_TYPE) || !MX_IS_STORAGE(Y_TYPE)
#error "X_TYPE, W_TYPE and Y_TYPE must each be a type of include/common.h"
#endif

/* sum += term, and what it amounts to. */
#if MX_TYPE(ACC) == MX_TYPE_float
#define ADD_PRODUCT(sum, rest, term) MX_TWO_SUM(ACC, sum, rest, term)
#define WHOLE(sum, rest) MX_TOTAL(sum, rest)
#else
#define ADD_PRODUCT(sum, rest, term) (sum) += (term)
#define WHOLE(sum, rest) (sum)
#endif

__kernel void conv_naive_forward(
    __global const STORAGE(X_TYPE) *restrict x, long x_offset,
    __global const STORAGE(W_TYPE) *restrict w, long w_offset,
    __global STORAGE(Y_TYPE) *restrict y, long y_offset,
    const mx_conv_problem p, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(y, y_offset);
    const INDEX item = (INDEX)get_global_id(0);
    if (item >= mx_size(p.y))
        return;
    const mx_place o = mx_place_of(item, p.y);
    const long d0 = o.d * p.step[0] - p.pad[0], h0 = o.h * p.step[1] - p.pad[1], w0 = o.w * p.step[2] - p.pad[2];
    const long2 zs = mx_inside(d0, p.dilation[0], p.x.len[2], p.w.len[2]);
    const long2 rs = mx_inside(h0, p.dilation[1], p.x.len[3], p.w.len[3]);
    const long2 ss = mx_inside(w0, p.dilation[2], p.x.len[4], p.w.len[4]);
    const long group = o.c / (p.y.len[1] / p.groups), channels = p.w.len[1];
    const long x_tap = p.dilation[2] * p.x.stride[4], w_tap = p.w.stride[4];

    const long x_start = x_offset + mx_offset(p.x, o.n, group * channels, d0, h0, w0 + ss.x * p.dilation[2]);
    const long w_start = w_offset + mx_offset(p.w, o.c, 0, 0, 0, ss.x);
    ACC sum = 0, rest = 0;
    for (long c = 0; c < channels; c++)
        for (long z = zs.x; z < zs.y; z++)
            for (long r = rs.x; r < rs.y; r++) {
                long i = x_start + mx_offset(p.x, 0, c, z * p.dilation[0], r * p.dilation[1], 0);
                long j = w_start + mx_offset(p.w, 0, c, z, r, 0);
                for (long s = ss.x; s < ss.y; s++, i += x_tap, j += w_tap)
                    ADD_PRODUCT(sum, rest, (ACC)LOAD(X_TYPE)(x, i) * (ACC)LOAD(W_TYPE)(w, j));
            }
    y += y_offset;
    {
        OF_FILTER(o.c)
        STORE_ONE(Y_TYPE, y, mx_offset(p.y, o.n, o.c, o.d, o.h, o.w), WHOLE(sum, rest));
    }
}

/* dx at `at` gets, through tap t, from the output (at - t * dilation) / step, if that is whole; `at` includes the pad.
 * Those taps of [0, taps) for which it is in the output, whole or not. */
static inline long2 taps_reaching(long at, long dilation, long step, long outputs, long taps)
{
    const long excess = at - (outputs - 1) * step;
    return (long2)(excess > 0 ? (excess + dilation - 1) / dilation : 0, min(at / dilation + 1, taps));
}

__kernel void conv_naive_backward_data(
    __global STORAGE(X_TYPE) *restrict x, long x_offset,
    __global const STORAGE(W_TYPE) *restrict w, long w_offset,
    __global const STORAGE(Y_TYPE) *restrict y, long y_offset,
    const mx_conv_problem p, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(x, x_offset);
    const INDEX item = (INDEX)get_global_id(0);
    if (item >= mx_size(p.x))
        return;
    const mx_place a = mx_place_of(item, p.x);
    const long at_d = a.d + p.pad[0], at_h = a.h + p.pad[1], at_w = a.w + p.pad[2];
    const long2 zs = taps_reaching(at_d, p.dilation[0], p.step[0], p.y.len[2], p.w.len[2]);
    const long2 rs = taps_reaching(at_h, p.dilation[1], p.step[1], p.y.len[3], p.w.len[3]);
    const long2 ss = taps_reaching(at_w, p.dilation[2], p.step[2], p.y.len[4], p.w.len[4]);
    const long group = a.c / p.w.len[1], c = a.c % p.w.len[1], filters = p.y.len[1] / p.groups;

    const long y_start = y_offset + mx_offset(p.y, a.n, group * filters, 0, 0, 0);
    const long w_start = w_offset + mx_offset(p.w, group * filters, c, 0, 0, 0);
    ACC sum = 0, rest = 0;
    /* Filters innermost: whether a tap falls between outputs is then asked once for all of them. */
    for (long z = zs.x; z < zs.y; z++) {
        const long d = at_d - z * p.dilation[0];
        if (d % p.step[0] != 0)
            continue;
        for (long r = rs.x; r < rs.y; r++) {
            const long h = at_h - r * p.dilation[1];
            if (h % p.step[1] != 0)
                continue;
            for (long s = ss.x; s < ss.y; s++) {
                const long v = at_w - s * p.dilation[2];
                if (v % p.step[2] != 0)
                    continue;
                long i = y_start + mx_offset(p.y, 0, 0, d / p.step[0], h / p.step[1], v / p.step[2]);
                long j = w_start + mx_offset(p.w, 0, 0, z, r, s);
                for (long k = 0; k < filters; k++, i += p.y.stride[1], j += p.w.stride[0])
                    ADD_PRODUCT(sum, rest, (ACC)LOAD(Y_TYPE)(y, i) * (ACC)LOAD(W_TYPE)(w, j));
            }
        }
    }
    x += x_offset;
    {
        OF_FILTER(a.c)
        STORE_ONE(X_TYPE, x, mx_offset(p.x, a.n, a.c, a.d, a.h, a.w), WHOLE(sum, rest));
    }
}

__kernel void conv_naive_backward_weights(
    __global const STORAGE(X_TYPE) *restrict x, long x_offset,
    __global STORAGE(W_TYPE) *restrict w, long w_offset,
    __global const STORAGE(Y_TYPE) *restrict y, long y_offset,
    const mx_conv_problem p, const SCALAR alpha, const SCALAR beta)
{
    const INDEX item = (INDEX)get_global_id(0);
    if (item >= mx_size(p.w))
        return;
    const mx_place t = mx_place_of(item, p.w); /* k c z r s */
    const long d0 = t.d * p.dilation[0] - p.pad[0], h0 = t.h * p.dilation[1] - p.pad[1];
    const long w0 = t.w * p.dilation[2] - p.pad[2];
    const long2 ds = mx_inside(d0, p.step[0], p.x.len[2], p.y.len[2]);
    const long2 hs = mx_inside(h0, p.step[1], p.x.len[3], p.y.len[3]);
    const long2 ws = mx_inside(w0, p.step[2], p.x.len[4], p.y.len[4]);
    const long group = t.n / (p.y.len[1] / p.groups);
    const long x_step = p.step[2] * p.x.stride[4], y_step = p.y.stride[4];

    const long x_start = x_offset + mx_offset(p.x, 0, group * p.w.len[1] + t.c, d0, h0, w0 + ws.x * p.step[2]);
    const long y_start = y_offset + mx_offset(p.y, 0, t.n, 0, 0, ws.x);
    ACC sum = 0, rest = 0;
    for (long n = 0; n < p.y.len[0]; n++)
        for (long d = ds.x; d < ds.y; d++)
            for (long h = hs.x; h < hs.y; h++) {
                long i = x_start + mx_offset(p.x, n, 0, d * p.step[0], h * p.step[1], 0);
                long j = y_start + mx_offset(p.y, n, 0, d, h, 0);
                for (long v = ws.x; v < ws.y; v++, i += x_step, j += y_step)
                    ADD_PRODUCT(sum, rest, (ACC)LOAD(X_TYPE)(x, i) * (ACC)LOAD(Y_TYPE)(y, j));
            }
    w += w_offset;
    STORE_MIXED(W_TYPE, w, mx_offset(p.w, t.n, t.c, t.d, t.h, t.w), WHOLE(sum, rest), alpha, beta);
}
