/* What the kernels of layers/layernorm_*.cl are told of a problem: rows of `length` numbers, one behind the other. */
#ifndef MIOPYX_LAYERNORM_ARGS_H
#define MIOPYX_LAYERNORM_ARGS_H
#include "include/host.h"

typedef struct {
    mx_int64 rows, length;
    mx_int64 groups, spatial; /* element i of row r has weight (r % groups) * (length / spatial) + i / spatial */
    mx_int64 parts;           /* of the rows, or of each row */
    mx_int64 part;            /* elements of a part of a row */
    mx_int64 columns;         /* weights */
    mx_int64 plane;           /* elements of the workspace between a part's sums for dw and those for db */
} mx_norm_shape;
#endif
