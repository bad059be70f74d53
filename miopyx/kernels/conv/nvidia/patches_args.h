/* What the kernels of conv/nvidia/patches.cl take. */
#ifndef MIOPYX_NV_PATCHES_ARGS_H
#define MIOPYX_NV_PATCHES_ARGS_H
#include "include/divisor.h"

#define MOST_PATCH_AXES 8 /* images, channels, taps and outputs along three axes */

typedef struct {
    int items, apart; /* work-items; elements of the copy between those of a run */
    int len[MOST_PATCH_AXES], x[MOST_PATCH_AXES], packed[MOST_PATCH_AXES]; /* lengths and strides of both */
    mx_divisor by[MOST_PATCH_AXES]; /* len */
} mx_nv_patches;
#endif
