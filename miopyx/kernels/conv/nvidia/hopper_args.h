/* What conv/nvidia/hopper.cl, conv/nvidia/hopper_rows.cl and conv/nvidia/hopper_sum.cl take beside mx_nv_conv. */
#ifndef MIOPYX_NV_HOPPER_ARGS_H
#define MIOPYX_NV_HOPPER_ARGS_H
#include "conv/nvidia/conv_args.h"

#ifndef PHASES /* of the stride, in one launch; the host has room for the most, and passes those that there are */
#define PHASES 16
#endif

/* What differs between the phases of the stride: taps, the first of them in x and in w, the first pixel of y. */
typedef struct {
    int taps_h, taps_w, first_h, first_w, w_first, y_first;
} mx_nv_phase;

/* The order of tiles: of a phase first those with the same pixels, then the next pixels, then the next group. */
typedef struct {
    int tiles, across, down; /* tiles of a phase, with the same pixels, with the same filters of a group */
    mx_divisor by_tiles, by_across, by_down;
    mx_nv_phase phases[PHASES];
} mx_nv_tiles;

/* hopper_rows */
typedef struct {
    mx_nv_conv conv; /* of conv_args.h, but by_image and by_row divide by rows * pitch and pitch */
    int images, rows, pitch; /* positions of an image: rows of `pitch` */
    int low, span; /* position + low is read by the first tap, position + low + span by the last */
    int tiles, group_tiles; /* all, and of a work-group */
    int planes, taps_d; /* of y; conv has rows and columns only, without strides */
    int d, step_d, first_d, tap_d; /* planes of x, as for the other axes in conv_args.h */
    int x_d, w_d, y_d; /* strides along the depth */
    mx_divisor by_planes;
} mx_nv_rows;

/* sum_tiles */
typedef struct {
    int channels, taps_w; /* of dw */
    int filters, columns, reduced, folded, taps_across; /* of a group; taps in a row of the product */
    int down, across, tiles, slices, splits;
    int first_tile; /* of `tiles` */
    int w_k, w_c, w_h, w_w; /* strides */
    mx_divisor by_down, by_across, by_reduced, by_folded, by_taps_across, by_split_slices;
} mx_nv_tile_sum;
#endif
