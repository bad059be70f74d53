"""The contract of solvers: devices' facts, problems in, solutions out."""

from libc.stdint cimport int64_t

from .problem._problem cimport Problem
from .runtime._runtime cimport place_t

cdef enum:
    SLOT_X = 0
    SLOT_W = 1
    SLOT_Y = 2
    SLOT_WORKSPACE = -1    # behind a problem's last slot

# Terms that one accumulator of a long sum takes, as in kernels/include/common.h.
cdef enum:
    BLOCK_TERMS = 1024

# What an argument of a kernel is.
cdef enum:
    ARG_VALUE
    ARG_SLOT
    ARG_SCALAR
    ARG_TICKET
    ARG_TURN

# What runs on the host: a problem's struct, the memory of its slots with the workspace last, the call's numbers.
ctypedef int (*host_function)(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil


cdef class Device:
    cdef readonly object info            # the DeviceInfo it was made from
    cdef readonly object context         # pyopencl Context, None on the host
    cdef readonly str name
    cdef readonly bint is_host, is_cpu, is_gpu
    cdef readonly bint fp64, shares_memory
    cdef readonly bint rounds_factors    # products of float32 are faster with factors of 11 bits, as TF32's
    cdef readonly int compute_units
    cdef readonly int vector_bytes       # of a CPU's vector register
    cdef readonly int vector_registers   # that a CPU has
    cdef readonly int work_item_registers  # of 32 bits, that a GPU's compiler gives one
    cdef readonly double clock, bandwidth  # as a probe measured them (`probing.Verdict`); 0 where none did
    cdef readonly int64_t max_alloc, local_mem, max_work_group
    cdef readonly int threads            # of the host path
    cdef readonly int64_t stream_bytes   # beyond which a CPU device's results go past its caches
    cdef size_t context_ptr, device_ptr
    cdef place_t place                   # of its memory; who launches its kernels


cdef class KernelSpec:
    cdef readonly str file, entry, options

    cdef KernelSpec defining(self, str more)


cdef class Arg:
    cdef int kind, slot, width
    cdef int64_t offset
    cdef bytes value
    cdef bytes map                       # a tensor_map_t; None but for memory that is copied by one

    cdef Arg moved(self, int slot, int64_t offset)


cdef inline Arg struct_arg(const void* value, size_t size):
    """A structure that a kernel takes by value; a header that both include declares it."""
    return Arg.value_of((<const unsigned char*> value)[:size])


cdef class Step:
    cdef readonly KernelSpec spec        # None for a host function
    cdef readonly KernelSpec unmapped    # takes the same, with addresses for maps; None where there are no maps
    cdef host_function function
    cdef tuple args
    cdef int dims
    cdef size_t global_size[3]
    cdef size_t local_size[3]
    cdef bint choose_local               # leave the work-group to the driver
    cdef readonly int repeats            # launches, one behind the other, which ARG_TURN tells apart

    cdef Step taking(self, KernelSpec spec, tuple args, KernelSpec unmapped=*)


cdef class Solution:
    cdef readonly tuple steps
    cdef readonly int64_t workspace
    cdef readonly int constant           # leading steps that depend on the weights alone


cdef class Part:
    cdef readonly Problem problem
    cdef readonly Solution solution      # None until taken
    cdef tuple slots                     # of each slot: the whole problem's slot and an offset in bytes
    cdef double alpha, beta

    cpdef bint take(self, Solution solution) except -1
    cdef list steps(self, int64_t workspace)


cdef class Offer:
    cdef readonly Solver solver
    cdef readonly Device device
    cdef readonly Problem problem
    cdef readonly double index           # weighted throughput index, -2 if unknown
    cdef readonly int64_t workspace      # bytes; 0 where parts decide
    cdef readonly tuple parts            # whose solutions `steps` takes over

    cpdef tuple parameters(self)
    cpdef bint accepts(self, tuple config) except -1
    cpdef tuple default_config(self)
    cpdef Solution solution(self, tuple config=*)
    cdef Solution steps(self, tuple config)


cdef class Solver:
    cdef readonly int id
    cdef readonly str name
    cdef readonly int algorithm          # miopenConvAlgorithm_t
    cdef readonly bint dynamic           # no program depends on n, h, w
    cdef readonly bint deterministic     # same bits every time
    cdef readonly bint last_resort       # timed only when nothing else applies
    cdef readonly bint assembly          # has kernels in a device's assembly language
    cdef readonly bint mixes_tiles       # an error belongs to a tile of results, see error_bound

    cpdef object offer(self, Device dev, Problem problem)
    cpdef str why_not(self, Device dev, Problem problem)
    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1
    cpdef double wti(self, Device dev, Problem problem) except? -3
    cpdef double error_bound(self, Device dev, Problem problem) except -1
    cpdef tuple parameters(self, Device dev, Problem problem)
    cpdef bint accepts(self, Device dev, Problem problem, tuple config) except -1
    cpdef tuple default_config(self, Device dev, Problem problem)
    cpdef Solution solution(self, Device dev, Problem problem, tuple config=*)


cdef bint is_streamed(Device dev, int64_t bytes) noexcept
cdef bint in_table(tuple table, tuple config) except -1
