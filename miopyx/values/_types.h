/* The plain data that host code, host kernels and OpenCL kernels share.
 *
 * Structs that kernels take are in headers of the kernels' folder, which OpenCL's compiler reads too.  The bytes of a
 * zero-initialised problem are its identity (the invoker cache compares them), and a kernel may get them by value: every
 * member has 64 bits so that no compiler lays a problem out differently.
 */
#ifndef MIOPYX_TYPES_H
#define MIOPYX_TYPES_H

#include <stdint.h>

#include "miopyx/kernels/include/problem.h"
#include "miopyx/kernels/layers/pooling_args.h"

/* Slots of a problem, tensors of an mx_slots_problem, and numbers that come with each call (alpha, beta, epsilon ...), at
 * most. */
enum { MX_SLOTS = 32, MX_TENSORS = 16, MX_SCALARS = 8 };

/* miopenDataType_t; FLOAT8 and BFLOAT8 are AMD's, E4M3 and E5M2 OCP's, which miopen.h does not have */
enum {
    MX_HALF = 0, MX_FLOAT = 1, MX_INT32 = 2, MX_INT8 = 3, MX_BFLOAT16 = 5, MX_DOUBLE = 6, MX_FLOAT8 = 7,
    MX_BFLOAT8 = 8, MX_INT64 = 9, MX_E4M3 = 1007, MX_E5M2 = 1008,
    MX_BYTE = -3               /* of memory alone, no miopenDataType_t: bool, int8 or uint8 */
};

/* Which of x, w, y is computed from the other two. */
enum { MX_FORWARD = 0, MX_BACKWARD_DATA = 1, MX_BACKWARD_WEIGHTS = 2 };

/* The gradient of a bias, b = alpha sum(y) + beta b: summed where b's length is 1. */
typedef struct {
    mx_tensor y, b;
} mx_bias_problem;

/* What the other operations compute.  Each problem of theirs starts with one of these. */
enum {
    MX_OP_TENSOR = 1, MX_SET_TENSOR, MX_SCALE_TENSOR, MX_TRANSFORM_TENSOR, MX_CAST_TENSOR,
    MX_POOLING_FORWARD, MX_POOLING_BACKWARD, MX_ACTIVATION_FORWARD, MX_ACTIVATION_BACKWARD,
    MX_LRN_FORWARD, MX_LRN_BACKWARD, MX_SOFTMAX_FORWARD, MX_SOFTMAX_BACKWARD,
    MX_BN_TRAINING, MX_BN_INFERENCE, MX_BN_BACKWARD, MX_NORM_FORWARD, MX_NORM_BACKWARD, MX_REDUCE,
    MX_DROPOUT_STATES, MX_DROPOUT_FORWARD, MX_DROPOUT_BACKWARD,
    MX_CAT, MX_CTC, MX_GLU, MX_GLU_BACKWARD, MX_PRELU_BACKWARD, MX_SOFT_MARGIN, MX_SOFT_MARGIN_BACKWARD, MX_ROPE,
    MX_ROPE_BACKWARD, MX_ADAM, MX_ADAM_TRANSFORMERS, MX_KTH, MX_GETITEM, MX_MULTI_MARGIN,
    MX_RNN_FORWARD, MX_RNN_BACKWARD_DATA, MX_RNN_BACKWARD_WEIGHTS, MX_RNN_GET, MX_RNN_SET,
    MX_MHA_FORWARD, MX_MHA_BACKWARD
};

/* c = f(a, b, c), element by element; b broadcasts where its length is 1.  Tensors that `what` has no use for are 0. */
typedef struct {
    int64_t what;              /* MX_OP_TENSOR ... MX_CAST_TENSOR */
    int64_t op;                /* miopenTensorOp_t */
    int64_t flags;
    mx_tensor a, b, c;
} mx_tensor_problem;

/* A pooling: what its kernels take, and what they are built for. */
typedef struct {
    mx_pooling_problem shape;
    int64_t nan;               /* forward maxima: miopenNanPropagation_t */
    int64_t like_y;            /* indices lie as y's elements do, which are not in n c d h w order; 0: packed */
} mx_pooling_asked;

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
    int64_t previous;          /* training: running statistics are moved from others, which stay */
    int64_t inverse;           /* inference: the variance is given as 1 / sqrt(variance + epsilon) */
    int64_t activation;        /* miopenActivationMode_t of what follows; 0: nothing */
    mx_tensor x, y;            /* y: dy backward */
    mx_tensor dx;
    mx_tensor scale, bias, mean, variance;
} mx_batchnorm_problem;

/* Layer, RMS and group norm: `rows` of `length` numbers that follow one another; element i of row r has the weight
 * (r % groups) * (length / spatial) + i / spatial. */
typedef struct {
    int64_t what;              /* MX_NORM_... */
    int64_t has;               /* bit i: slot i is given, problem/_layernorm.pxd */
    int64_t rms;               /* no mean is subtracted */
    int64_t rows, length, groups, spatial;
    mx_tensor x;               /* of x, x2, y, dy and dx, which lie alike */
    mx_tensor weight, bias;    /* dw and db lie likewise */
    mx_tensor mean, rstd;
} mx_layernorm_problem;

/* c = alpha op(a) + beta c over the axes that c has with length 1. */
typedef struct {
    int64_t what;              /* MX_REDUCE */
    int64_t op;                /* miopenReduceTensorOp_t */
    int64_t nan;               /* REDUCE_NAN_..., problem/_reduce.pxd */
    int64_t wide;              /* arithmetic is float64, else float32 */
    int64_t has;               /* bit i: slot i is given */
    mx_tensor a, c;
    mx_tensor index;           /* of c's lengths: which of the reduced elements it was */
    mx_tensor values, indices; /* c and index as their descriptors say them, which may lack the reduced axis */
} mx_reduce_problem;

/* Dropout, or the states that its masks come from. */
typedef struct {
    int64_t what;              /* MX_DROPOUT_... */
    int64_t mask;              /* DROPOUT_..., problem/_dropout.pxd */
    int64_t evolves;           /* the states count this call */
    double p;                  /* the probability that an element is dropped */
    mx_tensor x, y;            /* dy and dx backward */
} mx_dropout_problem;

/* Operations that are nothing but tensors and numbers, problem/_slots.pyx.  What is not given is 0. */
typedef struct {
    int64_t what;              /* MX_CAT ... */
    int64_t flags;
    int64_t number[8];
    int64_t rank[MX_TENSORS];  /* of the descriptors */
    mx_tensor t[MX_TENSORS];
} mx_slots_problem;

/* Recurrent layers.  Sequences are ranked, the longest first; row r of step t is sequence r's, and `rows` counts the rows
 * of all steps.  How many each step has is in a table, RNN_TABLE of problem/_rnn.pxd, unless all have `batch`. */
typedef struct {
    int64_t what;              /* MX_RNN_... */
    int64_t mode;              /* miopenRNNMode_t */
    int64_t dirs;              /* 2: forward and backward in time */
    int64_t skip, bias;
    int64_t layers, hidden, input;
    int64_t steps, batch, rows;
    int64_t layout;            /* miopenRNNBaseLayout_t of x and y */
    int64_t ranked;            /* 1: the table says which sequence has which rank, 0: they are in this order */
    int64_t uneven;            /* 1: the table says how many rows a step has */
    int64_t training;          /* forward: the reserve space is written */
    int64_t has;               /* bit i: slot i is given */
    int64_t evolves;           /* the states of the dropout count this call */
    int64_t from, count;       /* MX_RNN_GET, MX_RNN_SET: elements of w */
    double dropout;
    mx_tensor x, y, w, hidden_state;
} mx_rnn_problem;

/* Attention, problem/_mha.pxd.  Tensors are n h s d, in the axes 0, 1, 3 and 4; what is not given is 0. */
enum { MX_MHA_TENSORS = 11 };
typedef struct {
    int64_t what;              /* MX_MHA_... */
    int64_t has;               /* bit i: slot i is given */
    mx_tensor t[MX_MHA_TENSORS];
    mx_tensor one, whole;      /* numbers in memory: float32, and int64 of the dropout's seed and offset */
} mx_mha_problem;
#endif
