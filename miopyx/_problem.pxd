"""What is asked of a solver: problems as plain structs whose bytes are their identity."""

from libc.stdint cimport int64_t, uint64_t

from ._descriptors cimport ConvolutionDescriptor, TensorDescriptor
from ._types cimport mx_bias_problem, mx_conv_problem, mx_tensor


cdef class Problem:
    cdef const void* data
    cdef size_t size
    cdef const mx_tensor* tensor[3]      # what slots 0 (x, b), 1 (w) and 2 (y) hold; NULL where unused
    cdef int output                      # the slot that is written
    cdef int rank                        # dimensions of the caller's descriptors


cdef class ConvProblem(Problem):
    cdef mx_conv_problem c
    cdef readonly bint transposed   # the caller's x plays y here and the other way round


cdef class BiasProblem(Problem):
    cdef mx_bias_problem c


cdef uint64_t hash_bytes(const void* data, size_t size) noexcept nogil
cdef int fill_conv(mx_conv_problem* p, int direction, TensorDescriptor x, TensorDescriptor w, TensorDescriptor y,
                   ConvolutionDescriptor conv) except -1
cdef int fill_bias(mx_bias_problem* p, int direction, TensorDescriptor b, TensorDescriptor y) except -1
cdef ConvProblem problem_of(const mx_conv_problem* c)
