"""C constants and structs of _types.h and of the kernels' headers that it takes in; no code."""

from libc.stdint cimport int64_t

cdef extern from "miopyx/values/_types.h" nogil:
    enum:
        MX_AXES
        MX_SPATIAL
        MX_SLOTS
        MX_TENSORS
        MX_MHA_TENSORS
        MX_SCALARS
        MX_HALF
        MX_FLOAT
        MX_INT32
        MX_INT8
        MX_BFLOAT16
        MX_DOUBLE
        MX_FLOAT8
        MX_BFLOAT8
        MX_INT64
        MX_BYTE
        MX_E4M3
        MX_E5M2
        MX_FORWARD
        MX_BACKWARD_DATA
        MX_BACKWARD_WEIGHTS
        MX_OP_TENSOR
        MX_SET_TENSOR
        MX_SCALE_TENSOR
        MX_TRANSFORM_TENSOR
        MX_CAST_TENSOR
        MX_POOLING_FORWARD
        MX_POOLING_BACKWARD
        MX_ACTIVATION_FORWARD
        MX_ACTIVATION_BACKWARD
        MX_LRN_FORWARD
        MX_LRN_BACKWARD
        MX_SOFTMAX_FORWARD
        MX_SOFTMAX_BACKWARD
        MX_BN_TRAINING
        MX_BN_INFERENCE
        MX_BN_BACKWARD
        MX_NORM_FORWARD
        MX_NORM_BACKWARD
        MX_REDUCE
        MX_DROPOUT_STATES
        MX_DROPOUT_FORWARD
        MX_DROPOUT_BACKWARD
        MX_CAT
        MX_CTC
        MX_GLU
        MX_GLU_BACKWARD
        MX_PRELU_BACKWARD
        MX_SOFT_MARGIN
        MX_SOFT_MARGIN_BACKWARD
        MX_ROPE
        MX_ROPE_BACKWARD
        MX_ADAM
        MX_ADAM_TRANSFORMERS
        MX_KTH
        MX_GETITEM
        MX_MULTI_MARGIN
        MX_RNN_FORWARD
        MX_RNN_BACKWARD_DATA
        MX_RNN_BACKWARD_WEIGHTS
        MX_RNN_GET
        MX_RNN_SET
        MX_MHA_FORWARD
        MX_MHA_BACKWARD

    ctypedef struct mx_tensor:
        int64_t type
        int64_t len[5]
        int64_t stride[5]

    ctypedef struct mx_grid:
        int64_t len[5]
        int64_t stride[4][5]

    enum:
        MX_FUSED
        MX_FUSED_Z
        MX_FUSED_BIAS
        MX_FUSED_NORM

    ctypedef struct mx_fused:
        int64_t parts
        int64_t activation
        int64_t bias_type, norm_type

    ctypedef struct mx_conv_problem:
        int64_t direction
        int64_t spatial
        int64_t groups
        int64_t pad[3]
        int64_t step[3]
        int64_t dilation[3]
        int64_t deterministic
        int64_t tf32
        int64_t rounding
        mx_tensor x, w, y
        mx_fused fused

    ctypedef struct mx_bias_problem:
        mx_tensor y, b

    ctypedef struct mx_tensor_problem:
        int64_t what
        int64_t op
        int64_t flags
        mx_tensor a, b, c

    ctypedef struct mx_pooling_problem:
        int64_t what
        int64_t mode
        int64_t spatial
        int64_t save
        int64_t index_type, index_mode
        int64_t window[3]
        int64_t pad[3]
        int64_t step[3]
        int64_t dilation[3]
        int64_t end[3]
        int64_t divisor
        mx_tensor x, y

    ctypedef struct mx_pooling_asked:
        mx_pooling_problem shape
        int64_t nan
        int64_t like_y

    ctypedef struct mx_activation_problem:
        int64_t what
        int64_t mode
        mx_tensor x, y, dx, dy

    ctypedef struct mx_lrn_problem:
        int64_t what
        int64_t mode
        int64_t n
        int64_t save
        double alpha, beta, k
        mx_tensor x, y, dx, dy

    ctypedef struct mx_softmax_problem:
        int64_t what
        int64_t algorithm
        int64_t mode
        mx_tensor x, y, dx, dy

    ctypedef struct mx_batchnorm_problem:
        int64_t what
        int64_t mode
        int64_t save, running
        int64_t previous
        int64_t inverse
        int64_t activation
        mx_tensor x, y
        mx_tensor dx
        mx_tensor scale, bias, mean, variance

    ctypedef struct mx_layernorm_problem:
        int64_t what
        int64_t has
        int64_t rms
        int64_t rows, length, groups, spatial
        mx_tensor x
        mx_tensor weight, bias
        mx_tensor mean, rstd

    ctypedef struct mx_rnn_problem:
        int64_t what
        int64_t mode
        int64_t dirs
        int64_t skip, bias
        int64_t layers, hidden, input
        int64_t steps, batch, rows
        int64_t layout
        int64_t ranked
        int64_t uneven
        int64_t training
        int64_t has
        int64_t evolves
        int64_t start "from"
        int64_t count
        double dropout
        mx_tensor x, y, w, hidden_state

    ctypedef struct mx_mha_problem:
        int64_t what
        int64_t has
        mx_tensor t[11]
        mx_tensor one, whole

    ctypedef struct mx_reduce_problem:
        int64_t what
        int64_t op
        int64_t nan
        int64_t wide
        int64_t has
        mx_tensor a, c
        mx_tensor index
        mx_tensor values, indices

    ctypedef struct mx_dropout_problem:
        int64_t what
        int64_t mask
        int64_t evolves
        double p
        mx_tensor x, y

    ctypedef struct mx_slots_problem:
        int64_t what
        int64_t flags
        int64_t number[8]
        int64_t rank[16]
        mx_tensor t[16]
