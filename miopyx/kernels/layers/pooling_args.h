/* What the kernels of layers/pooling_*.cl take; filled by problem/_pooling.pyx. */
#ifndef MIOPYX_POOLING_ARGS_H
#define MIOPYX_POOLING_ARGS_H
#include "include/problem.h"

typedef struct {
    mx_int64 what; /* MX_POOLING_... */
    mx_int64 mode; /* miopenPoolingMode_t */
    mx_int64 spatial;
    mx_int64 save; /* forward: indices are wanted; backward: there are some */
    mx_int64 index_type, index_mode;
    mx_int64 window[MX_SPATIAL];
    mx_int64 pad[MX_SPATIAL];
    mx_int64 step[MX_SPATIAL];
    mx_tensor x, y; /* backward: dx and dy */
} mx_pooling_problem;
#endif
