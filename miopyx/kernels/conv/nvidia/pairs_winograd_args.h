/* What backward weights by Winograd take: conv/nvidia/pairs_winograd.cl; filled by solvers/conv/nvidia/_pairs_winograd.pyx.
 *
 * Tile t of all images has 2 x 2 pixels of dy, from pixel (2 i, 2 j) on, and 4 x 4 of x, from the first one's first tap
 * on.  Transformed they are 16 points each, and a slice has 64 tiles.  Of the slices of a run:
 *   packed[point][group][slice][hi, lo][chunk of 64 channels][64 channels x 64 tiles], then
 *   inverses[group][slice][chunk][64], of the channels' scales
 */
#ifndef MIOPYX_NV_PAIRS_WINOGRAD_ARGS_H
#define MIOPYX_NV_PAIRS_WINOGRAD_ARGS_H
#include "conv/nvidia/conv_args.h"

typedef struct {
    int channels, chunks; /* of one group */
    int h, w; /* of the tensor */
    int first_h, first_w; /* the pixel that tile 0 begins with */
    int n, g, c, row, column; /* strides in elements; g: from one group to the next */
} mx_nv_tiled;

typedef struct {
    mx_nv_conv conv;
    mx_nv_tiled x, y;
    mx_nv_sum sum; /* `splits` partial sums of rows of `pitch` */
    int groups, tiles; /* of all images */
    int first_tile, slices; /* of the run */
    int shares; /* work-groups that share a slice's block of 64 channels: 1 to 8 */
    int image_tiles, row_tiles;
    mx_divisor by_image_tiles, by_row_tiles;
} mx_nv_winograd;
#endif
