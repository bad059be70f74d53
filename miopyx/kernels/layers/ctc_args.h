/* What the kernels of layers/ctc_*.cl are told of a CTC loss; filled by solvers/layers/_ctc.pyx. */
#ifndef MIOPYX_CTC_ARGS_H
#define MIOPYX_CTC_ARGS_H
#include "include/host.h"

typedef struct {
    mx_int64 steps, samples, classes;
    mx_int64 x_stride[3], dx_stride[3]; /* of a step, a sample, a class */
    mx_int64 blank, mark;
    mx_int64 labels; /* room for the labels of a sample, in the table */
    mx_int64 side;   /* and in a row: blanks 0 ... labels, then as many labels; whole vectors */
    /* Places in the workspace, in numbers: log-sums of a step's sample, rows of paths up to a step, rows of paths from it
     * on, rows of the two steps at which a sample's kernel is. */
    mx_int64 sums, before, after, held;
} mx_ctc_shape;
#endif
