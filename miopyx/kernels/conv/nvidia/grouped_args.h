/* What conv/nvidia/grouped.cl and conv/nvidia/grouped_weights.cl take. */
#ifndef MIOPYX_NV_GROUPED_ARGS_H
#define MIOPYX_NV_GROUPED_ARGS_H
#include "include/divisor.h"

typedef struct {
    int images, p, q; /* of the grid */
    int h, w; /* of x */
    int channels, group_channels; /* all of them, and those of a group */
    int taps_h, taps_w, step_h, step_w, first_h, first_w, tap_h, tap_w; /* as in mx_nv_conv */
    int low_h, low_w; /* of the taps, the lowest i * tap_h and j * tap_w */
    int x_n, x_h, x_w; /* strides in elements */
    int y_first, y_n, y_h, y_w;
    int w_first, w_k, w_c, w_h, w_w; /* w_k from one filter of all to the next, w_c between channels of a group */
    int tile_n, tile_p, tile_q; /* of the grid, of a tile */
    int rows, columns; /* of x that a tile reads of an image */
    int tiles, across, down;
    int sets, workers; /* groups of BLOCKS blocks; work-groups of each */
    mx_divisor by_columns, by_rows, by_tile_q, by_tile_p, by_across, by_down, by_taps, by_taps_w;
} mx_nv_grouped;
#endif
