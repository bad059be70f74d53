"""Batch normalisation: its problem, whose result an activation may follow."""

from ._activation cimport ActivationDescriptor
from ._descriptors cimport TensorDescriptor
from ._problem cimport Problem
from miopyx.values._types cimport mx_batchnorm_problem, mx_tensor

# Slots.  Inference has the first six, training the last two where running statistics are moved from others.
cdef enum:
    BN_X = 0
    BN_Y = 1
    BN_SCALE = 2
    BN_BIAS = 3
    BN_MEAN = 4                # running, or estimated
    BN_VARIANCE = 5
    BN_SAVED_MEAN = 6
    BN_SAVED_INV = 7           # 1 / sqrt(variance + epsilon)
    BN_OLD_MEAN = 8
    BN_OLD_VARIANCE = 9

# Slots of the backward pass.
cdef enum:
    BN_BACK_X = 0
    BN_BACK_DY = 1
    BN_BACK_DX = 2
    BN_BACK_SCALE = 3
    BN_BACK_DSCALE = 4
    BN_BACK_DBIAS = 5
    BN_BACK_MEAN = 6           # saved
    BN_BACK_INV = 7
    BN_BACK_BIAS = 8           # where an activation follows: its gradient is taken at scale (x - mean) inv + bias

# miopenBatchNormMode_t
cdef enum:
    BN_PER_ACTIVATION = 0
    BN_SPATIAL = 1

# Numbers of a call: training takes the first two, the others epsilon alone, as number 0; then come the activation's.
cdef enum:
    BN_FACTOR = 0
    BN_EPSILON = 1
    BN_ALPHA = 2
    BN_BETA = 3
    BN_GAMMA = 4

# What a problem is made with, as bits beside its miopenBatchNormMode_t.
cdef enum:
    BN_MODE = 1
    BN_RUNNING = 2             # training: running statistics are moved
    BN_SAVE = 4                # training: statistics are saved; backward: they are given
    BN_PREVIOUS = 8            # training: running statistics are moved from others, which stay
    BN_INVERSE = 16            # inference: the variance is given as 1 / sqrt(variance + epsilon)


cdef class BatchNormProblem(Problem):
    cdef mx_batchnorm_problem c

    cdef int _hold(self, int slot, const mx_tensor* tensor, TensorDescriptor desc) noexcept
    cdef int _hold_backward(self, tuple descriptors) noexcept
    cdef int _hold_forward(self, tuple descriptors) noexcept


cdef int to_mode(object mode) except -1
cdef int derive(TensorDescriptor derived, TensorDescriptor x, int mode) except -1
