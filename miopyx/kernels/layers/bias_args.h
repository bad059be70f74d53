/* The gradient of a bias as layers/bias.cl and the host sum it; filled by host/_bias.pyx (fill_sums). */
#ifndef MIOPYX_BIAS_ARGS_H
#define MIOPYX_BIAS_ARGS_H
#include "include/problem.h"

typedef struct {
    mx_grid lines; /* of y, tensor 0: the summed axes but the innermost one; the last axis is not used */
    mx_grid rest; /* of y and b, tensors 0 and 1: the kept axes but the innermost one; likewise */
    mx_int64 k, k_y, k_b; /* the innermost axis that is kept: length and strides */
    mx_int64 m, m_y; /* the innermost axis, where it is summed, else 1 */
    mx_int64 line_count, rest_count;
    mx_int64 pieces, piece; /* of m, and their length */
    mx_int64 parts; /* ranges of lines, each with a partial sum */
    mx_int64 blocks, block; /* of k, and their length */
} mx_bias_sums;
#endif
