/* What backward weights by shared pixels take in 16 bits: conv/nvidia/hopper_taps.cl; filled by
 * solvers/conv/nvidia/_taps.pyx.
 *
 * Positions count through an image's planes and rows of `pitch`, pads of x included: pixel (p, q) of dy is position
 * p * pitch + q, and meets x at that plus i * tap_h * pitch + j * tap_w.
 */
#ifndef MIOPYX_NV_HOPPER_TAPS_ARGS_H
#define MIOPYX_NV_HOPPER_TAPS_ARGS_H
#include "conv/nvidia/conv_args.h"

typedef struct {
    mx_nv_volume volume; /* of two axes `conv` alone */
    int pitch, plane_rows, x_chunks; /* chunks of 64 channels of a group */
    int slices, last_steps; /* of an image; a slice is 4 steps of 16 positions, the last one of an image `last_steps` */
    mx_divisor by_pitch, by_plane; /* by_plane: plane_rows, with the pads of x */
} mx_nv_taps;
#endif
