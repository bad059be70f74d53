/* A convolution as the tensor-core kernels take it; filled by solvers/conv/nvidia/_common.pyx.
 *
 * A grid of output pixels (n, p, q), each a sum over taps (i, j) and channels c of
 *     x[n, c, p * step_h + first_h + i * tap_h, q * step_w + first_w + j * tap_w] * w[k, i, j, c].
 * Forward: the grid is y's, step is the stride, first is -pad, tap is the dilation.
 * Backward data: "x" is dy, "y" is dx, one grid for each phase of the stride, with the taps that meet it.
 * Backward weights: the grid is summed over.
 */
#ifndef MIOPYX_NV_CONV_ARGS_H
#define MIOPYX_NV_CONV_ARGS_H
#include "include/divisor.h"

typedef struct {
    int pixels, p, q; /* of the grid: all images, rows, columns */
    int filters, channels, reduced; /* of one group; `reduced`: channels a tap of w, padded with zeros */
    int groups, taps_h, taps_w;
    int h, w; /* of x */
    int step_h, step_w, first_h, first_w, tap_h, tap_w;
    int x_g, x_n, x_c, x_h, x_w; /* strides in elements; _g: from one group to the next */
    int w_first, w_g, w_k, w_h, w_w; /* w_first: the first tap; w_h, w_w: from one tap to the next; c is contiguous */
    int y_first, y_g, y_n, y_c, y_h, y_w;
    mx_divisor by_image, by_row; /* p * q, q */
} mx_nv_conv;

/* Three spatial axes: p, taps_h, h, step_h, first_h and tap_h of `conv` hold two axes, the depth in the upper 16 bits;
 * by_image divides by the pixels of a whole image, and rows are counted through all of its planes. */
typedef struct {
    mx_nv_conv conv;
    int x_d, w_d, y_d; /* strides along the depth */
    mx_divisor by_plane; /* the rows of a plane of the grid */
} mx_nv_volume;

/* The sum of the partial sums of split-K, for conv/nvidia/sum.cl. */
typedef struct {
    int rows, channels, taps_h, taps_w; /* of dw; rows: filters of all groups */
    int splits, pitch, partial_c, partial_tap; /* elements of a row of partial sums; its strides */
    int w_k, w_c, w_h, w_w; /* strides of dw */
} mx_nv_sum;
#endif
