/* What conv/nvidia/small.cl takes, which explains a, b, m, n and k. */
#ifndef MIOPYX_NV_SMALL_ARGS_H
#define MIOPYX_NV_SMALL_ARGS_H
#include "include/divisor.h"

typedef struct {
    int m, n, k, split_length;                   /* of a group; of k, each split */
    int m_tiles, n_tiles, groups, splits;
    int p, q, taps_h, taps_w, channels;          /* blocks of pixels; taps of x; channels of x in a group */
    int h, w, step_h, step_w, first_h, first_w, tap_h, tap_w;
    int x_g, x_n, x_c, x_h, x_w;                 /* strides in elements */
    /* a is w, of whose filter_h rows tap u is number place_h + row_h * (the row in a block) + turn_h * u, likewise
     * columns; or dy. */
    int filter_h, filter_w, place_h, place_w, row_h, row_w, turn_h, turn_w;
    int a_g, a_m, a_k, a_n, a_h, a_w;            /* a_m of one channel or filter, a_k of the next k in an entry */
    int block_h, block_w, outs;                  /* outs: channels of y in a group */
    int out_g, out_n, out_c, out_h, out_w, out_height, out_width;
    /* Where b is IN_LOCAL: rows of all images are numbered with their halo, image_rows each, of which a row of pixels
     * reads `tall`; a work-group at most local_rows.  Each is copied from element line_first on, in `chunks`; it has
     * `line` elements. */
    int image_rows, tall, local_rows, local_c, local_h, local_w, line, line_first, chunks;
    /* w: word where it begins, from one k to the next, elements of it; 0: all k are contiguous, -1: all m. */
    int local_a, local_a_k, piece;
    int a_copied, b_copied; /* channels that are copied at once */
    mx_divisor by_places, by_chunks, by_image_rows, by_piece;
    mx_divisor by_m_tiles, by_n_tiles, by_groups;
    mx_divisor by_image, by_row, by_inner, by_taps_w, by_outs, by_block_w;
    /* by_inner: channels if CHANNELS_LAST, or taps */
} mx_nv_small;
#endif
