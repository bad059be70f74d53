"""Layer norm, RMS norm and group norm: their problem."""

from libc.stdint cimport int64_t

from ._descriptors cimport TensorDescriptor
from ._problem cimport Problem
from miopyx.values._types cimport mx_layernorm_problem

# Slots forward.
cdef enum:
    LN_X = 0
    LN_X2 = 1                  # added to x
    LN_WEIGHT = 2
    LN_BIAS = 3
    LN_Y = 4
    LN_MEAN = 5
    LN_RSTD = 6                # 1 / sqrt(variance + epsilon)

# Slots backward.
cdef enum:
    LN_BACK_DY = 0
    LN_BACK_X = 1
    LN_BACK_X2 = 2
    LN_BACK_WEIGHT = 3
    LN_BACK_MEAN = 4
    LN_BACK_RSTD = 5
    LN_BACK_DX = 6
    LN_BACK_DW = 7
    LN_BACK_DB = 8

# Which norm.
cdef enum:
    LN_LAYER = 0
    LN_ADD = 1
    LN_T5 = 2
    LN_GROUP = 3


cdef class LayerNormProblem(Problem):
    cdef mx_layernorm_problem c

    cdef int _set(self, int slot, dict given, str role) except -1
    cdef int _group(self, TensorDescriptor x, int64_t groups) except -1


cdef inline bint has(const mx_layernorm_problem* p, int slot) noexcept nogil:
    return p.has >> slot & 1
