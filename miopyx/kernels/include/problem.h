/* Structs in which the host says what is computed, for all operations.  miopyx/values/_types.h takes them in.
 *
 * A tensor always has five axes: n c d h w for x and y, k c z r s for w.  Spatial axes that a problem does not have come
 * first, with length 1, stride 0, pad 0, filter 1.  Lengths and strides count elements.
 */
#ifndef MIOPYX_PROBLEM_H
#define MIOPYX_PROBLEM_H
#include "include/host.h"

enum { MX_AXES = 5, MX_SPATIAL = 3 };

typedef struct {
    mx_int64 type; /* miopenDataType_t */
    mx_int64 len[MX_AXES];
    mx_int64 stride[MX_AXES];
} mx_tensor;

/* Tensors walked together; the last axis is the innermost, axes that are not needed come first, with length 1. */
typedef struct {
    mx_int64 len[MX_AXES];
    mx_int64 stride[4][MX_AXES];
} mx_grid;

/* What becomes of a convolution's result before it is stored, kernels/include/epilogue.h:
 * act(scale (alpha result + bias - mean) + shift + beta z). */
enum { MX_FUSED = 1, MX_FUSED_Z = 2, MX_FUSED_BIAS = 4, MX_FUSED_NORM = 8 };

typedef struct {
    mx_int64 parts; /* MX_FUSED and what there is besides an activation; 0: no epilogue */
    mx_int64 activation; /* miopenActivationMode_t */
    mx_int64 bias_type, norm_type; /* miopenDataType_t; norm: of scale, shift, mean and variance */
} mx_fused;

typedef struct {
    mx_int64 direction;
    mx_int64 spatial; /* 1, 2 or 3: how many of the three spatial axes the problem has */
    mx_int64 groups;
    mx_int64 pad[MX_SPATIAL];
    mx_int64 step[MX_SPATIAL]; /* convolution strides */
    mx_int64 dilation[MX_SPATIAL];
    mx_int64 deterministic; /* MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC */
    mx_int64 tf32; /* float32 factors may be rounded to 11 bits: MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE */
    mx_int64 rounding; /* of a float8 result: 0 to nearest even, else at random, and 1 + the seed */
    mx_tensor x, w, y; /* by role, whatever the caller named them: transposed convolutions are folded in */
    mx_fused fused;
} mx_conv_problem;
#endif
