"""Attention: its descriptor and its two problems."""

from ._descriptors cimport Descriptor, TensorDescriptor
from ._problem cimport Problem
from miopyx.values._types cimport mx_mha_problem

# Slots.  The first are tensors of n h s d; M and ZInv have a single d.
cdef enum:
    MHA_Q = 0
    MHA_K = 1
    MHA_V = 2
    MHA_BIAS = 3
    MHA_O = 4
    MHA_M = 5
    MHA_Z_INV = 6
    MHA_DO = 7
    MHA_DQ = 8
    MHA_DK = 9
    MHA_DV = 10
    # Numbers in memory.
    MHA_DESCALE_Q = 11
    MHA_DESCALE_K = 12
    MHA_DESCALE_V = 13
    MHA_DESCALE_S = 14
    MHA_SCALE_S = 15
    MHA_PROBABILITY = 16
    MHA_SEED = 17
    MHA_OFFSET = 18
    # Forward alone,
    MHA_SCALE_O = 19
    MHA_AMAX_S = 20
    MHA_AMAX_O = 21
    MHA_FORWARD_SLOTS = 22
    # and backward alone.
    MHA_DESCALE_O = 19
    MHA_DESCALE_DO = 20
    MHA_DESCALE_DS = 21
    MHA_SCALE_DS = 22
    MHA_SCALE_DQ = 23
    MHA_SCALE_DK = 24
    MHA_SCALE_DV = 25
    MHA_AMAX_DQ = 26
    MHA_AMAX_DK = 27
    MHA_AMAX_DV = 28
    MHA_AMAX_DS = 29
    MHA_BACKWARD_SLOTS = 30

# A call's numbers.
cdef enum:
    MHA_MASK = 0           # miopenMhaMask_t
    MHA_SCALE = 1


cdef class MhaDescriptor(Descriptor):
    cdef readonly double scale

    cdef int set(self, object scale) except -1


cdef class MhaProblem(Problem):
    cdef mx_mha_problem c

    cdef int take(self, int slot, TensorDescriptor desc, str name, bint written) except -1
    cdef int compare(self, bint backward) except -1
    cdef tuple lens(self, int slot)
    cdef str name_of(self, int slot)
    cdef object dtype_of(self, int slot)


cdef bint mha_has(const mx_mha_problem* p, int slot) noexcept nogil
cdef MhaDescriptor as_mha(object desc, str name)
