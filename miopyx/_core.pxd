"""The spine: devices' facts, solvers' contract, solutions as data, invokers, handles."""

from libc.stdint cimport int64_t

from ._buffers cimport binding_t
from ._opencl cimport cl_uint
from ._problem cimport Problem

cdef enum:
    SLOT_X = 0
    SLOT_W = 1
    SLOT_Y = 2
    SLOT_WORKSPACE = 3
    SLOTS = 4

ctypedef int (*host_function)(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil


cdef class Device:
    cdef readonly object info            # the DeviceInfo it was made from
    cdef readonly object context         # pyopencl Context, None on the host
    cdef readonly str name
    cdef readonly bint is_host, is_cpu, is_gpu
    cdef readonly bint fp64, shares_memory
    cdef readonly int compute_units
    cdef readonly int vector_bytes       # of a CPU's vector register
    cdef readonly int64_t max_alloc, local_mem, max_work_group
    cdef readonly int threads            # of the host path
    cdef size_t context_ptr, device_ptr


cdef class KernelSpec:
    cdef readonly str file, entry, options


cdef class Arg:
    cdef int kind, slot, width
    cdef int64_t offset
    cdef bytes value


cdef class Step:
    cdef readonly KernelSpec spec        # None for a host function
    cdef host_function function
    cdef tuple args
    cdef int dims
    cdef size_t global_size[3]
    cdef size_t local_size[3]
    cdef bint choose_local               # leave the work-group to the driver


cdef class Solution:
    cdef readonly tuple steps
    cdef readonly int64_t workspace


cdef class Solver:
    cdef readonly int id
    cdef readonly str name
    cdef readonly int algorithm          # miopenConvAlgorithm_t
    cdef readonly bint dynamic           # no program depends on n, h, w
    cdef readonly bint deterministic     # same bits every time
    cdef readonly bint last_resort       # timed only when nothing else applies
    cdef readonly bint assembly          # has kernels in a device's assembly language

    cpdef str why_not(self, Device dev, Problem problem)
    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1
    cpdef double wti(self, Device dev, Problem problem) except? -3
    cpdef tuple parameters(self, Device dev, Problem problem)
    cpdef bint accepts(self, Device dev, Problem problem, tuple config) except -1
    cpdef tuple default_config(self, Device dev, Problem problem)
    cpdef Solution solution(self, Device dev, Problem problem, tuple config=*)


cdef struct slot_arg_t:
    cl_uint index
    int slot
    int width
    int64_t offset
    int64_t bound_offset

cdef struct scalar_arg_t:
    cl_uint index
    int which            # 0 alpha, 1 beta
    int width

cdef struct step_t:
    void* kernel
    host_function function
    cl_uint dims
    size_t global_size[3]
    size_t local_size[3]
    bint choose_local
    int slot_count, scalar_count
    slot_arg_t* slots
    scalar_arg_t* scalars


cdef class Invoker:
    cdef readonly Solver solver
    cdef readonly Solution solution
    cdef readonly tuple config           # what was tuned, () for a solver without parameters
    cdef readonly Problem problem
    cdef Device device
    cdef int64_t need[SLOTS]             # bytes each slot must hold
    cdef int output                      # the slot that is written
    cdef step_t* steps
    cdef int step_count
    cdef double alpha, beta
    cdef bint scalars_bound
    cdef long long born                  # fork generation

    cdef int run(self, Handle handle, binding_t* slots, double alpha, double beta) except -1
    cdef int _prepare(self, Handle handle, step_t* s, Step step) except -1
    cdef int _run_device(self, Handle handle, binding_t* slots, double alpha, double beta) except -1


cdef class Handle:
    cdef readonly Device device
    cdef readonly object queue           # pyopencl CommandQueue, None on the host
    cdef readonly dict found             # problem bytes -> what Find measured
    cdef readonly bint profiling
    cdef readonly double kernel_time     # ms of the last call while profiling
    cdef void* queue_ptr
    cdef bint alive, queue_profiles
    cdef long long born                  # fork generation
    cdef dict programs
    cdef list table                      # invokers by hash, open addressing
    cdef void* arena
    cdef int64_t arena_size
    cdef object lock
    cdef object __weakref__

    cdef int require_alive(self) except -1
    cdef Invoker lookup(self, const void* data, size_t size, int64_t id)
    cdef int bind_arena(self, int64_t need, binding_t* out) except -1


cdef class Plan:
    cdef readonly Handle handle
    cdef readonly Invoker invoker
    cdef readonly object explanation
    cdef int slot[3]
    cdef tuple names


cdef bint in_table(tuple table, tuple config) except -1
cdef int execute(Handle handle, Invoker invoker, const int* order, tuple names, object a, object b, object c,
                 object workspace, object workspace_size, double alpha, double beta) except -1
cdef int check_arguments(Handle handle, Problem problem, const int* order, tuple names, object a, object b, object c,
                         object workspace, object workspace_size) except -1
