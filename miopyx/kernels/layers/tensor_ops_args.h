/* What the kernels of layers/tensor_ops.cl take; filled by solvers/layers/_tensor_ops.pyx. */
#ifndef MIOPYX_TENSOR_OPS_ARGS_H
#define MIOPYX_TENSOR_OPS_ARGS_H
#include "include/problem.h"

/* Tensors of the grid: 0 c, 1 a, 2 b. */
typedef struct {
    mx_grid g;
    mx_int64 units; /* rows times pieces */
    mx_int64 pieces, piece; /* of a row, and their length */
} mx_walk;

/* c[i c_step + j] = a[j a_step + i] for i < rows, j < columns, on a grid whose other axes are `outer`. */
typedef struct {
    mx_grid outer;
    mx_int64 rows, columns, c_step, a_step;
    mx_int64 row_blocks, column_blocks, row_block, column_block;
    mx_int64 units;
} mx_turn;
#endif
