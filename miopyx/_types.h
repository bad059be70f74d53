/* The plain data that host code, host kernels and OpenCL kernels share.
 *
 * A convolution is always written as five axes: n c d h w for x and y, k c z r s for w.  Spatial axes that the problem
 * does not have come first, with length 1, stride 0, pad 0, filter 1.  Lengths and strides count elements.
 * The bytes of a zero-initialised mx_conv_problem are its identity (the invoker cache compares them), and the same
 * bytes are passed by value to OpenCL kernels, which declare this struct in kernels/common.h: every member is a
 * 64-bit integer so that no compiler can lay it out differently.
 */
#ifndef MIOPYX_TYPES_H
#define MIOPYX_TYPES_H

#include <stdint.h>

enum { MX_AXES = 5, MX_SPATIAL = 3 };

/* miopenDataType_t */
enum {
    MX_HALF = 0, MX_FLOAT = 1, MX_INT32 = 2, MX_INT8 = 3, MX_BFLOAT16 = 5, MX_DOUBLE = 6, MX_FLOAT8 = 7,
    MX_BFLOAT8 = 8, MX_INT64 = 9
};

/* Which of x, w, y is computed from the other two. */
enum { MX_FORWARD = 0, MX_BACKWARD_DATA = 1, MX_BACKWARD_WEIGHTS = 2 };

typedef struct {
    int64_t type;              /* miopenDataType_t */
    int64_t len[MX_AXES];
    int64_t stride[MX_AXES];
} mx_tensor;

typedef struct {
    int64_t direction;
    int64_t spatial;           /* 1, 2 or 3: how many of the three spatial axes the problem has */
    int64_t groups;
    int64_t pad[MX_SPATIAL];
    int64_t step[MX_SPATIAL];  /* convolution strides */
    int64_t dilation[MX_SPATIAL];
    int64_t deterministic;     /* MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC */
    mx_tensor x, w, y;         /* by role, whatever the caller named them: transposed convolutions are folded in */
} mx_conv_problem;

/* y += b per channel and its gradient; b broadcasts where its length is 1. */
typedef struct {
    int64_t direction;         /* MX_FORWARD: y = alpha (y + b) + beta y; MX_BACKWARD_DATA: b = alpha sum(y) + beta b */
    mx_tensor y, b;
} mx_bias_problem;

#endif
