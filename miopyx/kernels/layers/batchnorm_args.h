/* The tensors of a batch normalisation as layers/batchnorm_*.cl and the host walk them; filled by host/_batchnorm.pyx
 * (fill_walk).
 *
 * `kept`: the axes that have a statistic each; `reduced`: those that it is taken over.  The last axis is the innermost
 * one of x; axes that follow each other without a gap in all tensors are one; those that are not needed come first, with
 * length 1 and stride 0.  Tensors: 0 x, 1 y (dy), 2 dx, 3 scale, 4 bias, 5 mean, 6 variance.
 */
#ifndef MIOPYX_BATCHNORM_ARGS_H
#define MIOPYX_BATCHNORM_ARGS_H
#include "include/host.h"

typedef struct {
    mx_int64 kept[4], reduced[4];
    mx_int64 kept_stride[7][4];
    mx_int64 reduced_stride[3][4];
} bn_walk;
#endif
