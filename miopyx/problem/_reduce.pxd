"""Reductions: their descriptor and their problem."""

from libc.stdint cimport int64_t

from miopyx.values._guard cimport load_flag
from ._descriptors cimport Descriptor, TensorDescriptor, check_descriptor, seen
from ._problem cimport Problem
from miopyx.values._types cimport mx_grid, mx_reduce_problem

# Slots.
cdef enum:
    REDUCE_A = 0
    REDUCE_C = 1
    REDUCE_INDEX = 2

# miopenReduceTensorOp_t
cdef enum:
    REDUCE_ADD = 0
    REDUCE_MUL = 1
    REDUCE_MIN = 2
    REDUCE_MAX = 3
    REDUCE_AMAX = 4
    REDUCE_AVG = 5
    REDUCE_NORM1 = 6
    REDUCE_NORM2 = 7
    REDUCE_MUL_NO_ZEROS = 8

# What a NaN among the reduced elements does.
cdef enum:
    REDUCE_NAN_LEFT_OUT = 0    # what the other elements make is the result
    REDUCE_NAN_WINS = 1        # the result is NaN
    REDUCE_NAN_FIRST = 2       # of extremes: the same if it is the first element, otherwise it is left out


cdef class ReduceTensorDescriptor(Descriptor):
    cdef int op_set                 # -1 until set
    cdef int comp_type_set, nan_set, indices_set, indices_type_set

    cdef int set(self, object op, object comp_type, object nan_propagation, object indices,
                 object indices_type) except -1
    cdef int require_set(self) except -1
    cdef bint wants_indices(self) noexcept


cdef class ReduceProblem(Problem):
    cdef mx_reduce_problem c

    cdef int _finish(self, int a_rank, int c_rank, int index_rank) except -1


cdef ReduceProblem reduce_problem(ReduceTensorDescriptor desc, TensorDescriptor a, TensorDescriptor c, str style)
cdef ReduceProblem calculation_problem(int op, int nan, int dim, TensorDescriptor x, TensorDescriptor y, str style)
cdef ReduceProblem extreme_problem(int op, int dim, TensorDescriptor x, TensorDescriptor y, TensorDescriptor index,
                                   str style)
cdef int64_t indices_bytes(ReduceTensorDescriptor desc, TensorDescriptor a, TensorDescriptor c) except -1
# The axes that stay (tensors: a, c, index) and those that are reduced (a, the flattened index).
cdef int split_reduction(const mx_reduce_problem* p, mx_grid* kept, mx_grid* reduced) noexcept nogil


cdef inline ReduceTensorDescriptor as_reduce(object desc, str name):
    """`desc` where it is a live descriptor of reductions, else the error that names the parameter."""
    if type(desc) is not ReduceTensorDescriptor or load_flag((<ReduceTensorDescriptor> desc).destroyed):
        desc = check_descriptor(desc, ReduceTensorDescriptor, name)
    return <ReduceTensorDescriptor> seen(desc)


cdef inline bint has(const mx_reduce_problem* p, int slot) noexcept nogil:
    return p.has >> slot & 1


cdef inline bint is_extreme(int64_t op) noexcept nogil:
    return op == REDUCE_MIN or op == REDUCE_MAX or op == REDUCE_AMAX
