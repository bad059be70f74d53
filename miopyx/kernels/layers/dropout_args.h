/* What the kernels of layers/dropout_*.cl take; filled by solvers/layers/_dropout.pyx. */
#ifndef MIOPYX_DROPOUT_ARGS_H
#define MIOPYX_DROPOUT_ARGS_H
#include "include/problem.h"

/* Rows of elements in the order of their axes; tensors 0 their number, 1 x, 2 y. */
typedef struct {
    mx_grid g;
    mx_int64 count; /* elements */
} mx_dropout;
#endif
