/* What the kernels of layers/mha_*.cl take; filled by solvers/layers/_mha.pyx. */
#ifndef MIOPYX_MHA_ARGS_H
#define MIOPYX_MHA_ARGS_H
#include "include/host.h"

/* The strides of n, h, s and d; of a bias 0 where it is repeated. */
typedef struct {
    mx_int64 n, h, s, d;
} mx_mha_strides;

typedef struct {
    mx_int64 heads;      /* of a sample */
    mx_int64 all;        /* of all samples */
    mx_int64 rows, keys; /* s of q and of k */
    mx_int64 depth, width; /* d of q and k, and of v */
    mx_int64 groups_of_four; /* of keys: what a mask's numbers are drawn in */
    mx_int64 has;        /* bit i: slot i is given */
    mx_mha_strides q, k, v, bias, o, m, z_inv, d_o, dq, dk, dv;
} mx_mha_shape;
#endif
