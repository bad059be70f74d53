/* What the kernels of layers/lrn*.cl take; filled by solvers/layers/_lrn.pyx. */
#ifndef MIOPYX_LRN_ARGS_H
#define MIOPYX_LRN_ARGS_H
#include "include/problem.h"

typedef struct {
    mx_int64 rows, before, after; /* the axis that windows move along; the backward direction's window is mirrored */
    mx_int64 columns, column_step[4]; /* within channels: of x, y, dx, dy, as row_step */
    mx_int64 row_step[4];
    mx_int64 blocks, parts;
    mx_int64 keep; /* CPUs: 1 where a window has at most MOST terms along an axis, which are kept then */
    mx_int64 rows_first; /* lrn_items, lrn_window: 1 where channels are contiguous */
    mx_grid grid; /* what is left of the tensors when rows and columns are taken out */
} mx_lrn;
#endif
