/* What conv/nvidia/depthwise_weights.cl takes. */
#ifndef MIOPYX_NV_DEPTHWISE_ARGS_H
#define MIOPYX_NV_DEPTHWISE_ARGS_H
#include "include/divisor.h"

typedef struct {
    int channels, sets; /* sets: work-groups that share the channels */
    int rows, each; /* rows of dy in all images, of a split */
    int p, q, h, w, strips; /* strips: of columns of dy, side by side */
    int first_h, first_w; /* minus the pads */
    int x_n, x_h, x_w, y_n, y_h, y_w; /* strides in elements; channels are contiguous */
    mx_divisor by_image; /* p */
} mx_nv_depthwise;
#endif
