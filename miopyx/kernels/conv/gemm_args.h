/* What conv/cpu/gemm.cl and conv/gpu/gemm.cl take. */
#ifndef MIOPYX_GEMM_ARGS_H
#define MIOPYX_GEMM_ARGS_H
#include "include/host.h"

/* Matrix products.  Strides in elements: a_m from one row of A to the next, and so on.  `groups` and `images` count
 * independent products; a product sums over `reduce` blocks of k, 1 at least, at strides of a_r and b_r. */
typedef struct {
    mx_int64 m, n, k;
    mx_int64 a_m, a_k;
    mx_int64 b_k, b_n;
    mx_int64 c_m, c_n;
    mx_int64 groups, a_g, b_g, c_g;
    mx_int64 images, a_i, b_i, c_i;
    mx_int64 reduce, a_r, b_r;
} mx_gemm;
#endif
