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
    mx_int64 dilation[MX_SPATIAL];
    mx_int64 end[MX_SPATIAL]; /* pads behind x, which inclusive averages count; 0 in other modes */
    mx_int64 divisor; /* of averages, in place of the elements that count; 0: none */
    mx_tensor x, y; /* backward: dx and dy */
} mx_pooling_problem;
#endif
