"""Element-wise operations on tensors, as problems."""

from ._descriptors cimport TensorDescriptor
from ._problem cimport Problem
from miopyx.values._types cimport mx_tensor_problem

# Slots.
cdef enum:
    TENSOR_A = 0
    TENSOR_B = 1
    TENSOR_C = 2

# Flags of a problem.
cdef enum:
    TENSOR_IN_PLACE = 1    # a is what c holds
    TENSOR_COPY = 2        # of a transform: alpha is 1 and beta 0, so that bits are copied
    TENSOR_CLAMP = 4       # of a cast: what is beyond the type's range becomes its nearest number
    TENSOR_RAW = 8         # of a copy: any type, and the statuses of copy_tensor


cdef class TensorProblem(Problem):
    cdef mx_tensor_problem c


cdef TensorProblem bias_problem(TensorDescriptor b, TensorDescriptor y)
cdef bint copies_only(int data_type) noexcept
