/* What conv/gpu/implicit.cl takes. */
#ifndef MIOPYX_GPU_IMPLICIT_ARGS_H
#define MIOPYX_GPU_IMPLICIT_ARGS_H
#include "include/divisor.h"

typedef struct {
    int m, n, k;                           /* of a group's product */
    int across, down, groups, splits;      /* tiles of a group, and splits of k, `each` long */
    int each;
    int channels, taps, taps_w, taps_hw;   /* of the filter, as this launch uses it */
    int h, w, hw, pixels;                  /* of the grid of pixels; an image's */
    int len[3];                            /* of the gathered image */
    int step[3], first[3], tap[3];         /* coordinate = pixel * step + first + tap number * tap */
    int i_g, i_n, i_c, i_at[3];            /* strides in elements: of the image */
    int f_first, f_g, f_m, f_n, f_c, f_at[3]; /* of the other factor: w, or dy in direction 2 */
    int c_first, c_g, c_m, c_n, c_c, c_at[3]; /* of the result */
    mx_divisor by_channels, by_taps, by_taps_w, by_taps_hw, by_pixels, by_hw, by_w;
} mx_gather;
#endif
