"""Softmax: its descriptor and its two problems."""

from miopyx.values._guard cimport load_flag
from ._descriptors cimport Descriptor, TensorDescriptor, seen
from ._problem cimport Problem
from miopyx.values._types cimport mx_grid, mx_softmax_problem

# miopenSoftmaxAlgorithm_t and miopenSoftmaxMode_t
cdef enum:
    FAST = 0
    ACCURATE = 1
    LOG = 2
    INSTANCE = 0
    CHANNEL = 1

# The slots of both directions; x and y come first, so that a forward problem has two.
cdef enum:
    SOFTMAX_X = 0
    SOFTMAX_Y = 1
    SOFTMAX_DY = 2
    SOFTMAX_DX = 3


cdef class SoftmaxDescriptor(Descriptor):
    cdef readonly double alpha, beta
    cdef int algorithm_number, mode_number

    cdef int set(self, object alpha, object beta, object algorithm, object mode) except -1


cdef class SoftmaxProblem(Problem):
    cdef mx_softmax_problem c

    cdef int fill_forward(self, TensorDescriptor x, TensorDescriptor y) except -1
    cdef int fill_backward(self, TensorDescriptor y, TensorDescriptor dy, TensorDescriptor dx) except -1


cdef int to_algorithm(object algorithm) except -1
cdef int to_mode(object mode) except -1
cdef int split_axes(const mx_softmax_problem* p, mx_grid* inside, mx_grid* outside) noexcept nogil


cdef inline SoftmaxDescriptor as_softmax(object desc, str name):
    """`desc` where it is a live softmax descriptor, else the error that names the parameter."""
    if type(desc) is not SoftmaxDescriptor or load_flag((<SoftmaxDescriptor> desc).destroyed):
        desc = check_softmax(desc, name)
    return <SoftmaxDescriptor> seen(desc)


cdef SoftmaxDescriptor check_softmax(object desc, str name)
