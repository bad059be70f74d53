/* What the kernels of conv/gpu/signals*.cl take; conv/gpu/signals.h explains units. */
#ifndef MIOPYX_GPU_SIGNALS_ARGS_H
#define MIOPYX_GPU_SIGNALS_ARGS_H
#include "include/divisor.h"

typedef struct {
    int channels, filters; /* channels of one group each, and how many filters it meets */
    int units, segments; /* in all, and of a line */
    int each, blocks; /* units of a work-group, or filters; work-groups for the filters of a channel */
    int own; /* backward data: columns of dx that belong to a unit */
    int width, height, q, first; /* of what is read; columns of y; the column that the first tap of q = 0 meets */
    int x_n, x_c, x_h, y_n, y_c, y_h; /* strides in elements */
    int w_k, w_s, w_first; /* a filter turned round has a negative w_s and begins at its last tap */
    mx_divisor by_segments, by_height;
} mx_signal;
#endif
