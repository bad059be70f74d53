/* What conv/nvidia/few.cl and conv/nvidia/few_weights.cl take. */
#ifndef MIOPYX_NV_FEW_ARGS_H
#define MIOPYX_NV_FEW_ARGS_H
#include "include/divisor.h"

typedef struct {
    int images, p, q; /* of y */
    int h, w, channels, filters;
    int taps_h, taps_w, step_h, step_w, first_h, first_w, tap_h, tap_w;
    int x_n, x_c, x_h; /* strides in elements */
    int y_n, y_c, y_h, y_w;
    int w_k, w_c, w_h, w_w;
    int run; /* elements of k in one line of x */
    int rows, lines, width, pitch; /* of x that a tile reads: rows, lines of all channels, elements of a line */
    int tiles, across, down, sets, workers;
    mx_divisor by_run, by_rows, by_pitch, by_across, by_down;
} mx_nv_few;
#endif
