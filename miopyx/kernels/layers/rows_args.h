/* What layers/kth.cl, layers/margin.cl and layers/getitem.cl take; filled by their solvers. */
#ifndef MIOPYX_ROWS_ARGS_H
#define MIOPYX_ROWS_ARGS_H
#include "include/problem.h"

/* Rows along one axis; tensors of the grid: 0 the input, 1 the output, 2 the indices. */
typedef struct {
    mx_grid g;
    mx_int64 rows, length, step, k;
} mx_kth_shape;

/* Rows of classes. */
typedef struct {
    mx_int64 rows, classes;
    mx_int64 x_stride[2], target_stride, weight_stride, y_stride;
} mx_margin_shape;

/* dx[outer][places of the indices][inner] += dy[outer][l][inner]; tensors of the grids: 0 dx, 1 dy. */
typedef struct {
    mx_grid outer, inner;
    mx_int64 outer_lines, inner_lines; /* rows along the last axes */
    mx_int64 count, dy_step;           /* indices of a tensor, and how far dy steps from one to the next */
    mx_int64 index_stride[5];
    mx_int64 len[5], stride[5];        /* of dx along the axes that are indexed */
    mx_int64 places;                   /* their product */
    mx_int64 error_stride;
    mx_int64 links, heads;             /* where they are in the workspace, behind `count` places, in numbers */
} mx_getitem_shape;
#endif
