"""Batch normalisation: its problem."""

from ._descriptors cimport TensorDescriptor
from ._problem cimport Problem
from miopyx.values._types cimport mx_batchnorm_problem, mx_tensor

# Slots.  Inference has the first six.
cdef enum:
    BN_X = 0
    BN_Y = 1
    BN_SCALE = 2
    BN_BIAS = 3
    BN_MEAN = 4                # running, or estimated
    BN_VARIANCE = 5
    BN_SAVED_MEAN = 6
    BN_SAVED_INV = 7           # 1 / sqrt(variance + epsilon)

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

# miopenBatchNormMode_t
cdef enum:
    BN_PER_ACTIVATION = 0
    BN_SPATIAL = 1

# Numbers of a call: training takes both, the others have epsilon alone, as number 0.
cdef enum:
    BN_FACTOR = 0
    BN_EPSILON = 1


cdef class BatchNormProblem(Problem):
    cdef mx_batchnorm_problem c

    cdef int _hold(self, int slot, const mx_tensor* tensor, TensorDescriptor desc) noexcept


cdef int to_mode(object mode) except -1
cdef int derive(TensorDescriptor derived, TensorDescriptor x, int mode) except -1
