/* The plain data that host code, host kernels and OpenCL kernels share.
 *
 * A convolution is always written as five axes: n c d h w for x and y, k c z r s for w.  Spatial axes that the problem
 * does not have come first, with length 1, stride 0, pad 0, filter 1.  Lengths and strides count elements.
 * The bytes of a zero-initialised mx_conv_problem are its identity (the invoker cache compares them), and the same
 * bytes are passed by value to OpenCL kernels, which declare this struct in kernels/include/common.h: every member is a
 * 64-bit integer so that no compiler can lay it out differently.
 */
#ifndef MIOPYX_TYPES_H
#define MIOPYX_TYPES_H

#include <stdint.h>

enum { MX_AXES = 5, MX_SPATIAL = 3 };

/* Tensors of a problem, and numbers that come with each call (alpha, beta, epsilon ...), at most. */
enum { MX_SLOTS = 8, MX_SCALARS = 4 };

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

/* Tensors walked together; the last axis is the innermost, axes that are not needed come first, with length 1. */
typedef struct {
    int64_t len[MX_AXES];
    int64_t stride[4][MX_AXES];
} mx_grid;

typedef struct {
    int64_t direction;
    int64_t spatial;           /* 1, 2 or 3: how many of the three spatial axes the problem has */
    int64_t groups;
    int64_t pad[MX_SPATIAL];
    int64_t step[MX_SPATIAL];  /* convolution strides */
    int64_t dilation[MX_SPATIAL];
    int64_t deterministic;     /* MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC */
    int64_t rounding;          /* of a float8 result: 0 to nearest even, else at random, and 1 + the seed */
    mx_tensor x, w, y;         /* by role, whatever the caller named them: transposed convolutions are folded in */
} mx_conv_problem;

/* The gradient of a bias, b = alpha sum(y) + beta b: summed where b's length is 1. */
typedef struct {
    mx_tensor y, b;
} mx_bias_problem;

/* What the other operations compute.  Each problem of theirs starts with one of these. */
enum {
    MX_OP_TENSOR = 1, MX_SET_TENSOR, MX_SCALE_TENSOR, MX_TRANSFORM_TENSOR, MX_CAST_TENSOR,
    MX_POOLING_FORWARD, MX_POOLING_BACKWARD, MX_ACTIVATION_FORWARD, MX_ACTIVATION_BACKWARD,
    MX_LRN_FORWARD, MX_LRN_BACKWARD, MX_SOFTMAX_FORWARD, MX_SOFTMAX_BACKWARD,
    MX_BN_TRAINING, MX_BN_INFERENCE, MX_BN_BACKWARD
};

/* c = f(a, b, c), element by element; b broadcasts where its length is 1.  Tensors that `what` has no use for are 0. */
typedef struct {
    int64_t what;              /* MX_OP_TENSOR ... MX_CAST_TENSOR */
    int64_t op;                /* miopenTensorOp_t */
    int64_t flags;
    mx_tensor a, b, c;
} mx_tensor_problem;

typedef struct {
    int64_t what;              /* MX_POOLING_... */
    int64_t mode;              /* miopenPoolingMode_t */
    int64_t spatial;
    int64_t save;              /* forward: indices are wanted */
    int64_t index_type, index_mode;
    int64_t window[MX_SPATIAL];
    int64_t pad[MX_SPATIAL];
    int64_t step[MX_SPATIAL];
    mx_tensor x, y;            /* backward: dx and dy */
} mx_pooling_problem;

typedef struct {
    int64_t what;              /* MX_ACTIVATION_... */
    int64_t mode;              /* miopenActivationMode_t */
    mx_tensor x, y, dx, dy;    /* what the mode does not read is 0 */
} mx_activation_problem;

typedef struct {
    int64_t what;              /* MX_LRN_... */
    int64_t mode;              /* miopenLRNMode_t */
    int64_t n;
    int64_t save;              /* forward: scales are wanted */
    double alpha, beta, k;
    mx_tensor x, y, dx, dy;
} mx_lrn_problem;

typedef struct {
    int64_t what;              /* MX_SOFTMAX_... */
    int64_t algorithm;         /* miopenSoftmaxAlgorithm_t */
    int64_t mode;              /* miopenSoftmaxMode_t */
    mx_tensor x, y, dx, dy;
} mx_softmax_problem;

typedef struct {
    int64_t what;              /* MX_BN_... */
    int64_t mode;              /* miopenBatchNormMode_t */
    int64_t save, running;     /* training: saved and running statistics are wanted; backward: save: they are given */
    mx_tensor x, y;            /* y: dy backward */
    mx_tensor dx;
    mx_tensor scale, bias, mean, variance;
} mx_batchnorm_problem;

#endif
