/* What conv/gpu/depthwise.cl and conv/gpu/depthwise_weights.cl take; conv/gpu/depthwise.h explains strips.  Then what
 * conv/gpu/depthwise_large.cl takes. */
#ifndef MIOPYX_GPU_DEPTHWISE_ARGS_H
#define MIOPYX_GPU_DEPTHWISE_ARGS_H
#include "include/divisor.h"

typedef struct {
    int lanes, items, blocks, sets; /* blocks in all; sets of `lanes` of them */
    int strips, across, down, chunks; /* in all, side by side and below each other in an image */
    int each; /* strips that a work-group of backward weights goes over */
    int outputs, inputs; /* channels of a group, of what is written and of what is read */
    int h, w, p, q; /* of what is read, of what is written; backward weights: of x, of dy */
    int first_h, first_w, skip_h, skip_w;
    int x_n, x_c, x_h, x_w, y_n, y_c, y_h, y_w; /* strides in elements */
    int w_g, w_o, w_i, w_r, w_s;
    mx_divisor by_lanes, by_across, by_down;
} mx_depthwise;

typedef struct {
    int images, channels;
    int across, down, together; /* tiles of a work-group side by side, below each other, and images */
    int wide, high; /* work-groups of an image, side by side and below each other */
    int rows, pitch; /* of an image in local memory */
    int h, w, p, q, first_h, first_w;
    int x_n, x_c, x_h, y_n, y_c, y_h; /* strides in elements */
    int w_k, w_r, w_s, w_first; /* backward: w_r and w_s are negative, the first tap is the last */
    mx_divisor by_pitch, by_rows, by_across, by_together;
} mx_depthwise_large;
#endif
