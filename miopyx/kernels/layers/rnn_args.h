/* What the kernels of layers/rnn*.cl are told of a recurrent layer; filled by solvers/layers/_rnn.pyx. */
#ifndef MIOPYX_RNN_ARGS_H
#define MIOPYX_RNN_ARGS_H
#include "include/host.h"

typedef struct {
    mx_int64 hidden, padded; /* numbers of a state, and of one in the workspace */
    mx_int64 dirs, batch, steps, rows;
    mx_int64 first;    /* the layer's first state in hx */
    mx_int64 input;    /* numbers of a row that goes into the layer */
    mx_int64 shares;   /* groups of a CPU that share the panels of a step; 0: each group has sequences of its own */
    mx_int64 outer[2]; /* rows of x and y where they are padded: of the outer axis, of the inner one */
} mx_rnn;
#endif
