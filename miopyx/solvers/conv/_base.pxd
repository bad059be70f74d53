"""What all convolution solvers share."""

from libc.stdint cimport int64_t

from miopyx._core cimport BLOCK_TERMS, Device, Offer, Problem, Solution, Solver
from miopyx.problem._problem cimport ConvProblem
from miopyx.values._integers cimport up
from miopyx.values._types cimport mx_conv_problem, mx_tensor

# How many terms one float accumulator may take: every solver keeps to one of these, or splits the sum, and says with
# `error_bound` what comes of it; tests/test_long_sums.py holds all of them to it.  BLOCK_TERMS is that of CPUs and of
# generic GPUs.
cdef enum:
    BLOCKS = 32            # whose sums are added up there before they go to a total
    GPU_TERMS = 4096       # on GPUs where a program has no totals, which take registers; tensor cores: LONGEST


# What any solver's time is made of: launches, images, 10^9 products, megabytes of x, w, y and a
# column matrix, how deep rounds of tiles of 64 x 64 over the compute units are, and the products by its index.
cdef struct terms_t:
    double launch, images, products, x, w, y, columns, depth, indexed

cdef enum:
    MOST_TERMS = 16
    INT_LIMIT = 0x7FFFFFFF

# miopenConvAlgorithm_t
cdef enum:
    GEMM = 0
    DIRECT = 1
    FFT = 2
    WINOGRAD = 3
    IMPLICIT_GEMM = 5


cdef class ConvOffer(Offer):
    cdef const mx_conv_problem* p        # the problem's

    cdef void cost_terms(self, double* terms) noexcept
    cpdef bint one_store(self) except -1


cdef class ConvSolver(Solver):
    cdef readonly tuple cost_names       # of what `cost_terms` counts
    cdef readonly int direction
    cdef readonly bint on_host           # runs on the host path, else on OpenCL devices
    cdef readonly bint float8            # takes types of 8 bits, mixed ones too, and rounds them as it is told

    cdef str _unfit(self, Device dev, const mx_conv_problem* p)
    cdef object consider(self, Device dev, ConvProblem problem)
    cdef str refuse(self, Device dev, const mx_conv_problem* p)
    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1
    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept
    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept
    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept
    cdef int stores(self, Device dev, const mx_conv_problem* p) noexcept
    cdef tuple table(self, Device dev, const mx_conv_problem* p)
    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1
    cdef tuple default(self, Device dev, const mx_conv_problem* p)
    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config)


cdef int set_offer(ConvOffer offer, ConvSolver solver, Device dev, ConvProblem problem) except -1
cdef bint is_packed(const mx_tensor* t) noexcept nogil
cdef bint is_packed_nhwc(const mx_tensor* t) noexcept nogil
cdef bint is_channels_last(const mx_tensor* t) noexcept nogil
cdef bint channels_contiguous(const mx_tensor* t) noexcept nogil
cdef bint rows_contiguous(const mx_tensor* t) noexcept nogil
cdef int64_t stride_of(const mx_tensor* t, int axis) noexcept nogil
cdef int64_t span(const mx_tensor* t) noexcept nogil
cdef int64_t image_bytes(const mx_tensor* t, int64_t image) noexcept nogil
cdef bint is_pointwise(const mx_conv_problem* p, int64_t stride) noexcept nogil
cdef int64_t capped_product(int64_t a, int64_t b) noexcept nogil
cdef int64_t capped_sum(int64_t a, int64_t b) noexcept nogil
cdef int64_t vector_lanes(Device dev, int64_t size) noexcept
cdef double sum_terms(const mx_conv_problem* p) noexcept nogil
cdef double in_blocks(double terms) noexcept nogil
cdef int64_t spatial_size(const mx_tensor* t) noexcept nogil
cdef int64_t result_type(const mx_conv_problem* p) noexcept nogil
cdef bint is_float8(int64_t data_type) noexcept nogil
cdef str acc_token(const mx_conv_problem* p)
cdef int64_t acc_size(const mx_conv_problem* p) noexcept nogil
cdef bytes problem_bytes(const mx_conv_problem* p)
