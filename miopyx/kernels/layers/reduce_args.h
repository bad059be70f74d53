/* What the kernels of layers/reduce_*.cl take; filled by solvers/layers/_reduce.pyx. */
#ifndef MIOPYX_REDUCE_ARGS_H
#define MIOPYX_REDUCE_ARGS_H
#include "include/problem.h"

/* `length` numbers of a become one of the `count` elements of c.  A launch that has only some of them gives its results
 * to the workspace: for each part `count` numbers, then, where indices are wanted, as many ints. */
typedef struct {
    mx_grid kept;                 /* elements of c; tensors 0 a, 1 c, 2 the index */
    mx_grid reduced;              /* what becomes one of them; 0 a, 1 its flattened index */
    mx_int64 count, length;
    mx_int64 parts, part;         /* of `length`, and their length */
    mx_int64 blocks, block;       /* of a line of c, and their length: where a is read across */
} mx_reduce;
#endif
