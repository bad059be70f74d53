/* What the kernels of grouped and depthwise convolutions on CPU devices take; conv/cpu/grouped.h explains planes. */
#ifndef MIOPYX_CPU_GROUPED_ARGS_H
#define MIOPYX_CPU_GROUPED_ARGS_H
#include "include/host.h"

/* A tensor that is read or written: strides and lengths of n c d h w, and the elements from its first to its last. */
typedef struct {
    mx_int64 n, c, d, h, w, span;
    int channels, depth, height, width;
} mx_side;

/* The planes of a tile: `step_h` times `step_w` phases of `sub` positions, `pitch` from row to row, `behind` zeros
 * behind the last row, in whole vectors of elements. */
typedef struct {
    int step_h, step_w, pitch, sub, behind;
} mx_planes;

/* The problem, and how it is tiled. */
typedef struct {
    mx_side input, output;   /* backward weights: x and dy */
    mx_planes planes;
    int groups, inputs, outputs, padded; /* channels of a group; outputs in whole tiles */
    int backward;
    int taps[3], dilation[3], step[3], pad[3];
    int out_h, out_w;        /* phases of the output: of backward data with strides */
    int first_h, first_w;    /* of the grid, in steps */
    int grid_h, grid_w, tiles_h, tiles_w, tile_h, tile_w, chunk; /* rows and columns; chunk: rows computed at once */
    int least_h, least_w;    /* row and column that the first tap of position 0 meets */
    int reach_h;             /* rows that the taps of a position span */
    int together;            /* groups of a work-item */
    int splits;              /* backward weights */
} mx_grouped;

/* Filters that conv/cpu/grouped_pack.cl packs. */
typedef struct {
    mx_int64 g, o, i, d, h, w; /* strides */
    int groups, outputs, inputs, taps[3];
} mx_filters;

/* Partial sums that conv/cpu/grouped_sum.cl adds to dw. */
typedef struct {
    mx_int64 k, c, d, h, w; /* strides of dw */
    int filters, inputs, taps[3], splits;
    mx_int64 row;           /* elements of a split */
} mx_grouped_sum;
#endif
