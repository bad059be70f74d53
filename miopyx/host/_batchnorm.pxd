"""Batch normalisation on the host, and how its tensors are walked, there and on devices."""

from libc.stdint cimport int64_t

from miopyx.values._types cimport mx_batchnorm_problem

cdef enum:
    BN_TENSORS = 7             # x, y (dy), dx, scale, bias, mean, variance

cdef extern from "miopyx/kernels/layers/batchnorm_args.h" nogil:
    ctypedef struct bn_walk:
        int64_t kept[4]
        int64_t reduced[4]
        int64_t kept_stride[7][4]
        int64_t reduced_stride[3][4]


cdef int fill_walk(bn_walk* walk, const mx_batchnorm_problem* p) noexcept nogil

# Takes an mx_batchnorm_problem and the memory of its slots; otherwise as host_conv.
cdef int host_batchnorm(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil
