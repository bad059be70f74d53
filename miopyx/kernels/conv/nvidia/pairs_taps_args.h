/* What backward weights by shared pixels take: conv/nvidia/pairs_taps.cl; filled by solvers/conv/nvidia/_pairs_taps.pyx.
 *
 * Positions count through an image's planes and rows of `pitch`, pads of x included: pixel (p, q) of dy is position
 * p * pitch + q, and meets x at that plus i * tap_h * pitch + j * tap_w.  Planes are `plane` positions from each other.
 */
#ifndef MIOPYX_NV_PAIRS_TAPS_ARGS_H
#define MIOPYX_NV_PAIRS_TAPS_ARGS_H
#include "conv/nvidia/conv_args.h"

/* A tensor and its packed copy [image][group][chunk of 64 channels][hi, lo][position][64]. */
typedef struct {
    int images, groups, channels, chunks; /* channels and chunks of one group */
    int d, h, w; /* of the tensor */
    int first_d, first_h, first_w; /* the pixel of position 0: minus the pads */
    int n, g, c, slab, row, column; /* strides in elements; g: from one group to the next, slab: from plane to plane */
    int positions, blocks; /* of an image; blocks of 64 of them, the last one not full */
    int parts; /* how many work-groups share a chunk */
    mx_divisor by_blocks;
} mx_nv_packed;

typedef struct {
    mx_nv_packed x, y;
    int largest_parts[2]; /* of x, of dy: `parts` of the launch that looks for the largest */
    mx_divisor by_pitch, by_plane; /* by_plane: the rows of a plane */
    int pitch, plane_rows;
} mx_nv_pack_taps;

typedef struct {
    mx_nv_volume volume; /* of two axes `conv` alone */
    int pitch, plane, x_chunks, y_chunks, x_positions, y_positions;
    int slices, last_steps; /* of an image; a slice is 4 steps of 16 positions, the last one of an image `last_steps` */
    int tap_groups; /* of three taps in a row of the filter */
} mx_nv_pair_taps;
#endif
