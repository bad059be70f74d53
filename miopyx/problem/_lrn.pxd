"""Local response normalisation: its descriptor and its problem."""

from libc.stdint cimport int64_t

from miopyx.values._guard cimport load_flag
from ._descriptors cimport Descriptor, TensorDescriptor, check_descriptor, seen
from ._problem cimport Problem
from miopyx.values._types cimport mx_lrn_problem

cdef enum:
    LRN_X = 0
    LRN_Y = 1
    LRN_DX = 2
    LRN_DY = 3
    LRN_SCALES = 4
    LRN_SLOTS = 5


cdef class LRNDescriptor(Descriptor):
    cdef int mode_set               # -1 until set
    cdef int64_t n_set
    cdef double alpha_set, beta_set, k_set

    cdef int set(self, object mode, object n, object alpha, object beta, object k) except -1
    cdef int require_set(self) except -1


cdef class LRNProblem(Problem):
    cdef mx_lrn_problem c


cdef int64_t workspace_bytes(TensorDescriptor y) except -1


cdef inline LRNDescriptor as_lrn(object desc, str name):
    """`desc` where it is a live LRN descriptor, else the error that names the parameter."""
    if type(desc) is not LRNDescriptor or load_flag((<LRNDescriptor> desc).destroyed):
        desc = check_descriptor(desc, LRNDescriptor, name)
    return <LRNDescriptor> seen(desc)
