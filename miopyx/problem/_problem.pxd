"""What is asked of a solver: problems as plain structs whose bytes are their identity."""

from libc.stdint cimport int64_t, uint64_t

from ._descriptors cimport ConvolutionDescriptor, TensorDescriptor
from miopyx.values._types cimport MX_SLOTS, mx_conv_problem, mx_tensor


cdef enum:
    STOCHASTIC = 1        # miopenF8RoundingModeStochastic


# Slots of a convolution's epilogue, behind x, w and y.
cdef enum:
    FUSED_Z = 3
    FUSED_BIAS = 4
    FUSED_SCALE = 5       # of batch norm, as are the next three
    FUSED_SHIFT = 6
    FUSED_MEAN = 7
    FUSED_VARIANCE = 8


cdef class Problem:
    cdef const void* data
    cdef size_t size
    # Slots: the memory that a call passes, the workspace left out.
    cdef int count                       # how many there are
    cdef const mx_tensor* tensor[MX_SLOTS]  # what each holds; NULL for memory without a descriptor, and where unused
    cdef int64_t raw[MX_SLOTS]           # bytes of memory without a descriptor; 0: none
    cdef int rank[MX_SLOTS]              # dimensions of the caller's descriptors
    cdef unsigned written                # bit i: slot i is written
    cdef unsigned in_place               # bit i: slot i may lie exactly where the slot `output` lies
    cdef int output                      # the slot of the result

    cdef int hold(self, int slot, const mx_tensor* tensor, int rank) noexcept
    cdef bint is_empty(self) noexcept


cdef class ConvProblem(Problem):
    cdef mx_conv_problem c
    cdef mx_tensor bias, norm       # what an epilogue reads of each filter
    cdef readonly bint transposed   # the caller's x plays y here and the other way round

    cdef ConvProblem unfused(self)


cdef int fill_tensor(mx_tensor* t, TensorDescriptor desc) noexcept
cdef int require_plain(TensorDescriptor desc, str name) except -1
cdef int require_no_overlap(TensorDescriptor desc, str name) except -1
cdef bint same_layout(const mx_tensor* a, const mx_tensor* b) noexcept
cdef uint64_t hash_bytes(const void* data, size_t size) noexcept nogil
cdef enum:
    # Of float32: what a handle makes of a descriptor's MATH_TYPE.
    MATH_EXACT = -1       # its device is not faster with rounded factors
    MATH_AS_SET = 0
    MATH_ROUNDED = 1      # the handle allows it whatever descriptors say

cdef int fill_conv(mx_conv_problem* p, int direction, TensorDescriptor x, TensorDescriptor w, TensorDescriptor y,
                   ConvolutionDescriptor conv, int math=*) except -1
cdef bint float8_types(int direction, int64_t x, int64_t w, int64_t y) noexcept nogil
cdef int64_t rounding_of(int64_t data_type, int mode) except -1
cdef ConvProblem problem_of(const mx_conv_problem* c)
cdef int complete(ConvProblem problem) noexcept
cdef mx_tensor* result_of(mx_conv_problem* c) noexcept
cdef str tensor_text(const mx_tensor* t)
