/* What conv/nvidia/hopper_tf32_filters.cl takes. */
#ifndef MIOPYX_NV_HOPPER_TF32_ARGS_H
#define MIOPYX_NV_HOPPER_TF32_ARGS_H
#include "conv/nvidia/hopper_args.h"

typedef struct {
    int groups, filters, channels; /* filters and channels of a group, rows and summed numbers of the product */
    int blocks, count; /* of BF filters; phases */
    int from_g, from_k, from_c, from_h, from_w; /* strides of w; from_h, from_w: from one tap of a phase to the next */
    mx_divisor by_rows; /* blocks * BF */
    int to[16]; /* where each phase begins in the copy; its w_first is where in w */
    mx_nv_phase phases[16];
} mx_nv_tf32_filters;
#endif
