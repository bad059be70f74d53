/* What the kernels of conv/nvidia/pairs.cl and conv/nvidia/pairs_pack.cl take. */
#ifndef MIOPYX_NV_PAIRS_ARGS_H
#define MIOPYX_NV_PAIRS_ARGS_H
#include "conv/nvidia/conv_args.h"

#ifndef PHASES /* of the stride, in one launch; the host has room for the most, and passes those that there are */
#define PHASES 64
#endif

typedef struct {
    mx_nv_conv g; /* its w_*: strides of w before it was packed */
    int w_c; /* stride of w along the channels */
    int tap, tap_row, tap_column, taps; /* of the packed weights: the first, to the next down and right, all */
} mx_nv_pairs;

/* What differs between the phases of the stride: taps, the first of them in x, in packed weights and in w; which of
 * the phases' planes is its y. */
typedef struct {
    int taps_h, taps_w, first_h, first_w, tap, w_first, number;
} mx_nv_pair_phase;

/* Three spatial axes, as in mx_nv_volume; of `rows` what mx_nv_pair_phase has is not read. */
typedef struct {
    mx_nv_pairs rows;
    int x_d, w_d, y_d, tap_plane; /* strides along the depth, of the packed weights' taps too */
    int y_phase; /* elements of a phase's y */
    mx_divisor by_plane;
    mx_nv_pair_phase phases[PHASES];
} mx_nv_deep_pairs;

/* pack_pairs */
typedef struct {
    int rows, channels, taps_h, taps_w;
    int from_g, from_row, from_c, from_h, from_w; /* strides */
} mx_nv_filters;

/* join_phases */
typedef struct {
    int images, channels, rows, columns; /* of y; images: all channels of all images */
    int y_n, y_c, y_h, y_w; /* strides */
    int step_h, step_w, plane_rows, plane_columns;
    int vector, plane; /* neighbours that a work-item stores, 1 or 2; elements of a plane, all images */
    mx_divisor by_columns, by_rows, by_channels, by_step_h, by_step_w; /* by_columns: columns / vector */
    mx_uint64 met_h, met_w; /* phases of the stride that have taps, a bit each */
} mx_nv_phases;

/* Three spatial axes: `rows` and `plane_rows` of mx_nv_phases count through all planes. */
typedef struct {
    mx_nv_phases rows;
    int step_d, y_rows, phase_rows; /* rows of one plane, of y and of a phase */
    mx_divisor by_plane, by_step_d; /* by_plane: y_rows */
    mx_uint64 met_d;
} mx_nv_deep_phases;
#endif
