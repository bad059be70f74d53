/* What backward weights by shared pixels take: conv/nvidia/pairs_taps.cl; filled by solvers/conv/nvidia/_pairs_taps.pyx.
 *
 * Positions count through an image's rows of `pitch`, pads of x included: pixel (p, q) of dy is position p * pitch + q,
 * and meets x at that plus i * tap_h * pitch + j * tap_w.
 */
#ifndef MIOPYX_NV_PAIRS_TAPS_ARGS_H
#define MIOPYX_NV_PAIRS_TAPS_ARGS_H
#include "conv/nvidia/conv_args.h"

/* A tensor and its packed copy [image][group][chunk of 64 channels][hi, lo][position][64]. */
typedef struct {
    int images, groups, channels, chunks; /* channels and chunks of one group */
    int h, w, first; /* of the tensor; position 0 is its pixel (first / 65536, first % 65536 with its sign) */
    int n, g, c, row, column; /* strides in elements; g: from one group to the next */
    int positions, blocks; /* of an image; blocks of 64 of them, the last one not full */
    int parts; /* how many work-groups share a chunk */
    mx_divisor by_blocks;
} mx_nv_packed;

typedef struct {
    mx_nv_packed x, y;
    int largest_parts[2]; /* of x, of dy: `parts` of the launch that looks for the largest */
    mx_divisor by_pitch;
    int pitch;
} mx_nv_pack_taps;

typedef struct {
    mx_nv_conv conv;
    int pitch, x_chunks, y_chunks, x_positions, y_positions;
    int slices, last_steps; /* of an image; a slice is 4 steps of 16 positions, the last one of an image `last_steps` */
    int tap_groups; /* of three taps in a row of the filter */
} mx_nv_pair_taps;
#endif
