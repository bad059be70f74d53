"""C constants and structs of _types.h; no code."""

from libc.stdint cimport int64_t

cdef extern from "miopyx/_types.h" nogil:
    enum:
        MX_AXES
        MX_SPATIAL
        MX_HALF
        MX_FLOAT
        MX_INT32
        MX_INT8
        MX_BFLOAT16
        MX_DOUBLE
        MX_FLOAT8
        MX_BFLOAT8
        MX_INT64
        MX_FORWARD
        MX_BACKWARD_DATA
        MX_BACKWARD_WEIGHTS

    ctypedef struct mx_tensor:
        int64_t type
        int64_t len[5]
        int64_t stride[5]

    ctypedef struct mx_conv_problem:
        int64_t direction
        int64_t spatial
        int64_t groups
        int64_t pad[3]
        int64_t step[3]
        int64_t dilation[3]
        int64_t deterministic
        mx_tensor x, w, y

    ctypedef struct mx_bias_problem:
        int64_t direction
        mx_tensor y, b
