/* Between a tensor and its column matrix, with which a convolution is a matrix product.
 *
 *     col[image][c][z][r][s][do][ho][wo], packed; c counts all channels, group after group
 *
 *     im2col   col = x at the pixel that tap (z, r, s) meets for output (do, ho, wo), 0 in the padding
 *     col2im   x = alpha * sum of col over the taps and outputs that meet a pixel + beta * x
 *
 * Images first_image ... first_image + images - 1 of x take part; col begins with the first of them.
 * Shape: any mx_conv_problem.
 * Grid: one axis, no atomics.
 *
 *     ROWS 1, CPUs, local 1:      im2col: work-item = row (image, c, z, r, s) of col   images * C * Z * R * S
 *                                 col2im: work-item = plane (image, c, d) of x         images * C * D
 *     ROWS 0, GPUs, any local:    im2col: work-item = element of col                   images * C * Z * R * S * outputs
 *                                 col2im: work-item = element of x                     images * C * D * H * W
 *
 * Memory: no local memory; a CPU's work-item of col2im sums W_PIECE pixels at a time in private memory.
 * col2im adds taps in the order z, r, s in both, so that both give the same bits.
 * Bound by: memory; col has Z * R * S / stride elements for each of x.
 */
#ifndef X_TYPE /* storage type of x (dx) */
#define X_TYPE float
#endif
#ifndef COL_TYPE /* storage type of the column matrix */
#define COL_TYPE X_TYPE
#endif
#ifndef ROWS /* work-items: 1 large ones, 0 one for each element */
#define ROWS 0
#endif
#ifndef W_PIECE /* elements of x along w that a work-item of col2im sums at a time (ROWS = 1) */
#define W_PIECE 128
#endif
#define ROUNDING p.rounding
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"

#if !MX_IS_STORAGE(X_TYPE) || !MX_IS_STORAGE(COL_TYPE)
#error "X_TYPE and COL_TYPE must each be half, float, double, bfloat16, int8 or int32"
#endif

#if ROWS

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void im2col(
    __global const STORAGE(X_TYPE) *restrict x, long x_offset,
    __global STORAGE(COL_TYPE) *restrict col, long col_offset,
    const mx_conv_problem p, long first_image, long images)
{
    long row = get_group_id(0);
    const long outputs_d = p.y.len[2], outputs_h = p.y.len[3], outputs_w = p.y.len[4];
    __global STORAGE(COL_TYPE) *to = col + col_offset + row * outputs_d * outputs_h * outputs_w;
    const long s = row % p.w.len[4];
    row /= p.w.len[4];
    const long r = row % p.w.len[3];
    row /= p.w.len[3];
    const long z = row % p.w.len[2];
    row /= p.w.len[2];
    const long c = row % p.x.len[1], n = first_image + row / p.x.len[1];

    const long d0 = z * p.dilation[0] - p.pad[0], h0 = r * p.dilation[1] - p.pad[1], w0 = s * p.dilation[2] - p.pad[2];
    const long2 ws = mx_inside(w0, p.step[2], p.x.len[4], outputs_w);
    const long first = min(ws.x, outputs_w), last = max(ws.y, first);
    const long stride = p.step[2] * p.x.stride[4];
    for (long od = 0; od < outputs_d; od++)
        for (long oh = 0; oh < outputs_h; oh++, to += outputs_w) {
            const long d = d0 + od * p.step[0], h = h0 + oh * p.step[1];
            if (d < 0 || d >= p.x.len[2] || h < 0 || h >= p.x.len[3]) {
                for (long o = 0; o < outputs_w; o++)
                    to[o] = 0;
                continue;
            }
            const long from = x_offset + mx_offset(p.x, n, c, d, h, w0);
            for (long o = 0; o < first; o++)
                to[o] = 0;
            if (stride == 1)
                for (long o = first; o < last; o++)
                    COPY(COL_TYPE, to, o, X_TYPE, x, from + o);
            else
                for (long o = first; o < last; o++)
                    COPY(COL_TYPE, to, o, X_TYPE, x, from + o * stride);
            for (long o = last; o < outputs_w; o++)
                to[o] = 0;
        }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void col2im(
    __global const STORAGE(COL_TYPE) *restrict col, long col_offset,
    __global STORAGE(X_TYPE) *restrict x, long x_offset,
    const mx_conv_problem p, long first_image, long images, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(x, x_offset);
    const long plane = get_group_id(0);
    const long d = plane % p.x.len[2], c = plane / p.x.len[2] % p.x.len[1], image = plane / p.x.len[2] / p.x.len[1];
    const long taps = p.w.len[2] * p.w.len[3] * p.w.len[4], outputs_h = p.y.len[3], outputs_w = p.y.len[4];
    const long outputs = p.y.len[2] * outputs_h * outputs_w;
    const long from = col_offset + (image * p.x.len[1] + c) * taps * outputs;
    x += x_offset;

    for (long h = 0; h < p.x.len[3]; h++)
        for (long first = 0; first < p.x.len[4]; first += W_PIECE) {
            const long piece = min(p.x.len[4] - first, (long)W_PIECE);
            ACC sums[W_PIECE];
            for (long i = 0; i < piece; i++)
                sums[i] = 0;
            for (long z = 0; z < p.w.len[2]; z++) {
                const long at_d = d + p.pad[0] - z * p.dilation[0], od = at_d / p.step[0];
                if (at_d < 0 || at_d % p.step[0] != 0 || od >= p.y.len[2])
                    continue;
                for (long r = 0; r < p.w.len[3]; r++) {
                    const long at_h = h + p.pad[1] - r * p.dilation[1], oh = at_h / p.step[1];
                    if (at_h < 0 || at_h % p.step[1] != 0 || oh >= outputs_h)
                        continue;
                    for (long s = 0; s < p.w.len[4]; s++) {
                        const long start = s * p.dilation[2] - p.pad[2] - first, step = p.step[2];
                        const long2 os = mx_inside(start, step, piece, outputs_w);
                        const long i = from + ((z * p.w.len[3] + r) * p.w.len[4] + s) * outputs +
                                       (od * outputs_h + oh) * outputs_w;
                        if (step == 1)
                            for (long o = os.x; o < os.y; o++)
                                sums[start + o] += (ACC)LOAD(COL_TYPE)(col, i + o);
                        else
                            for (long o = os.x; o < os.y; o++)
                                sums[start + o * step] += (ACC)LOAD(COL_TYPE)(col, i + o);
                    }
                }
            }
            const long to = mx_offset(p.x, first_image + image, c, d, h, first);
            OF_FILTER(c)
            for (long i = 0; i < piece; i++)
                STORE_ONE(X_TYPE, x, to + i * p.x.stride[4], sums[i]);
        }
}

#else

__kernel void im2col(
    __global const STORAGE(X_TYPE) *restrict x, long x_offset,
    __global STORAGE(COL_TYPE) *restrict col, long col_offset,
    const mx_conv_problem p, long first_image, long images)
{
    const INDEX item = (INDEX)get_global_id(0);
    INDEX i = item;
    const long ow = i % (INDEX)p.y.len[4];
    i /= (INDEX)p.y.len[4];
    const long oh = i % (INDEX)p.y.len[3];
    i /= (INDEX)p.y.len[3];
    const long od = i % (INDEX)p.y.len[2];
    i /= (INDEX)p.y.len[2];
    const long s = i % (INDEX)p.w.len[4];
    i /= (INDEX)p.w.len[4];
    const long r = i % (INDEX)p.w.len[3];
    i /= (INDEX)p.w.len[3];
    const long z = i % (INDEX)p.w.len[2];
    i /= (INDEX)p.w.len[2];
    const long c = i % (INDEX)p.x.len[1], image = i / (INDEX)p.x.len[1];
    if (image >= images)
        return;
    const long d = od * p.step[0] - p.pad[0] + z * p.dilation[0];
    const long h = oh * p.step[1] - p.pad[1] + r * p.dilation[1];
    const long w = ow * p.step[2] - p.pad[2] + s * p.dilation[2];
    if (d < 0 || d >= p.x.len[2] || h < 0 || h >= p.x.len[3] || w < 0 || w >= p.x.len[4])
        col[col_offset + item] = 0;
    else
        COPY(COL_TYPE, col, col_offset + item, X_TYPE, x, x_offset + mx_offset(p.x, first_image + image, c, d, h, w));
}

__kernel void col2im(
    __global const STORAGE(COL_TYPE) *restrict col, long col_offset,
    __global STORAGE(X_TYPE) *restrict x, long x_offset,
    const mx_conv_problem p, long first_image, long images, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(x, x_offset);
    const mx_place a = mx_place_of((INDEX)get_global_id(0), p.x);
    if (a.n >= images)
        return;
    const long outputs_h = p.y.len[3], outputs_w = p.y.len[4], outputs = p.y.len[2] * outputs_h * outputs_w;
    const long taps = p.w.len[2] * p.w.len[3] * p.w.len[4];
    const long from = col_offset + (a.n * p.x.len[1] + a.c) * taps * outputs;
    ACC sum = 0;
    for (long z = 0; z < p.w.len[2]; z++) {
        const long at_d = a.d + p.pad[0] - z * p.dilation[0], od = at_d / p.step[0];
        if (at_d < 0 || at_d % p.step[0] != 0 || od >= p.y.len[2])
            continue;
        for (long r = 0; r < p.w.len[3]; r++) {
            const long at_h = a.h + p.pad[1] - r * p.dilation[1], oh = at_h / p.step[1];
            if (at_h < 0 || at_h % p.step[1] != 0 || oh >= outputs_h)
                continue;
            for (long s = 0; s < p.w.len[4]; s++) {
                const long at_w = a.w + p.pad[2] - s * p.dilation[2], ow = at_w / p.step[2];
                if (at_w < 0 || at_w % p.step[2] != 0 || ow >= outputs_w)
                    continue;
                sum += (ACC)LOAD(COL_TYPE)(col, from + ((z * p.w.len[3] + r) * p.w.len[4] + s) * outputs +
                                                    (od * outputs_h + oh) * outputs_w + ow);
            }
        }
    }
    x += x_offset;
    {
        OF_FILTER(a.c)
        STORE_ONE(X_TYPE, x, mx_offset(p.x, first_image + a.n, a.c, a.d, a.h, a.w), sum);
    }
}

#endif
