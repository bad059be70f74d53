"""Pooling: the descriptor and the problem."""

from libc.stdint cimport int64_t

from miopyx.values._guard cimport load_flag
from ._descriptors cimport Descriptor, TensorDescriptor, check_descriptor, seen
from ._problem cimport Problem
from miopyx.values._types cimport MX_SPATIAL, mx_pooling_asked

# miopenPoolingMode_t and miopenPoolingWorkspaceIndexMode_t
cdef enum:
    POOL_MAX = 0
    POOL_AVERAGE = 1
    POOL_INCLUSIVE = 2
    INDEX_MASK = 0
    INDEX_IMAGE = 1

cdef enum:
    POOL_IN = 0              # x forward, dy backward
    POOL_OUT = 1             # y forward, dx backward
    POOL_INDICES = 2         # of maxima; written forward, read backward


cdef class PoolingDescriptor(Descriptor):
    cdef int spatial         # 0 until set
    cdef int mode
    cdef int index_type
    cdef int index_mode
    cdef int window[MX_SPATIAL]
    cdef int pad[MX_SPATIAL]
    cdef int stride[MX_SPATIAL]
    cdef int dilation[MX_SPATIAL]
    cdef int end[MX_SPATIAL]     # pads behind an axis
    cdef bint ceil
    cdef int divisor         # 0: the elements that count
    cdef int nan             # miopenNanPropagation_t
    cdef bint like_y         # indices lie as y's elements do

    cdef int set(self, int spatial, int mode, const int64_t* window, const int64_t* pad, const int64_t* stride,
                 const int64_t* dilation, const int64_t* end, bint ceil, int divisor, tuple names) except -1
    cdef int64_t reach(self, int axis) noexcept
    cdef int require_set(self, str name) except -1
    cdef int output_dims(self, TensorDescriptor x, str name, int64_t* out) except -1


cdef class PoolingProblem(Problem):
    cdef mx_pooling_asked c


cdef int64_t index_size(int index_type) noexcept nogil


cdef inline PoolingDescriptor as_pooling(object desc, str name):
    """`desc` where it is a live pooling descriptor, else the error that names the parameter."""
    if type(desc) is not PoolingDescriptor or load_flag((<PoolingDescriptor> desc).destroyed):
        desc = check_descriptor(desc, PoolingDescriptor, name)
    return <PoolingDescriptor> seen(desc)
