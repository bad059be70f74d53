"""The entry points of CUDA's driver that miopyx calls, and the objects it owns."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from miopyx.values._guard cimport mx_guard
from ._runtime cimport Program as Contract, runtime_t

cdef enum:
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12
    CU_MEMORYTYPE_DEVICE = 2

# CUlaunchAttribute and CUlaunchConfig, as cuda.h lays them out.
cdef struct launch_attribute:
    int32_t id
    int32_t pad
    uint32_t value[16]

cdef struct launch_config:
    uint32_t grid[3]
    uint32_t block[3]
    uint32_t shared_bytes
    void* stream
    launch_attribute* attributes
    uint32_t count

cdef struct cuda_table:
    int32_t (*cuInit)(uint32_t) noexcept nogil
    int32_t (*cuGetErrorName)(int32_t, const char**) noexcept nogil
    int32_t (*cuDevicePrimaryCtxRetain)(void**, int32_t) noexcept nogil
    int32_t (*cuDeviceGet)(int32_t*, int32_t) noexcept nogil
    int32_t (*cuCtxGetCurrent)(void**) noexcept nogil
    int32_t (*cuCtxPushCurrent)(void*) noexcept nogil
    int32_t (*cuCtxPopCurrent)(void**) noexcept nogil
    int32_t (*cuCtxGetDevice)(int32_t*) noexcept nogil
    int32_t (*cuStreamGetCtx)(void*, void**) noexcept nogil
    int32_t (*cuStreamSynchronize)(void*) noexcept nogil
    int32_t (*cuStreamWaitEvent)(void*, void*, uint32_t) noexcept nogil
    int32_t (*cuStreamIsCapturing)(void*, int32_t*) noexcept nogil
    int32_t (*cuStreamQuery)(void*) noexcept nogil
    int32_t (*cuThreadExchangeStreamCaptureMode)(int32_t*) noexcept nogil
    int32_t (*cuEventCreate)(void**, uint32_t) noexcept nogil
    int32_t (*cuEventRecord)(void*, void*) noexcept nogil
    int32_t (*cuEventSynchronize)(void*) noexcept nogil
    int32_t (*cuEventElapsedTime)(float*, void*, void*) noexcept nogil
    int32_t (*cuEventDestroy)(void*) noexcept nogil
    int32_t (*cuMemAlloc)(uint64_t*, size_t) noexcept nogil
    int32_t (*cuMemFree)(uint64_t) noexcept nogil
    int32_t (*cuMemsetD8Async)(uint64_t, unsigned char, size_t, void*) noexcept nogil
    int32_t (*cuMemcpyHtoDAsync)(uint64_t, const void*, size_t, void*) noexcept nogil
    int32_t (*cuMemcpyDtoHAsync)(void*, uint64_t, size_t, void*) noexcept nogil
    int32_t (*cuMemcpyDtoDAsync)(uint64_t, uint64_t, size_t, void*) noexcept nogil
    int32_t (*cuModuleLoadDataEx)(void**, const void*, uint32_t, int32_t*, void**) noexcept nogil
    int32_t (*cuModuleUnload)(void*) noexcept nogil
    int32_t (*cuModuleGetFunction)(void**, void*, const char*) noexcept nogil
    int32_t (*cuFuncGetAttribute)(int32_t*, int32_t, void*) noexcept nogil
    int32_t (*cuLaunchKernel)(void*, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, void*,
                              void**, void**) noexcept nogil
    int32_t (*cuLaunchKernelEx)(const launch_config*, void*, void**, void**) noexcept nogil
    int32_t (*cuOccupancyMaxActiveClusters)(int32_t*, void*, const launch_config*) noexcept nogil
    int32_t (*cuFuncSetAttribute)(void*, int32_t, int32_t) noexcept nogil
    int32_t (*cuPointerGetAttributes)(uint32_t, int32_t*, void**, uint64_t) noexcept nogil
    int32_t (*cuTensorMapEncodeTiled)(void*, int32_t, uint32_t, void*, const uint64_t*, const uint64_t*,
                                      const uint32_t*, const uint32_t*, int32_t, int32_t, int32_t,
                                      int32_t) noexcept nogil
    int32_t (*cuTensorMapEncodeIm2col)(void*, int32_t, uint32_t, void*, const uint64_t*, const uint64_t*,
                                       const int32_t*, const int32_t*, uint32_t, uint32_t, const uint32_t*, int32_t,
                                       int32_t, int32_t, int32_t) noexcept nogil

cdef cuda_table cu
cdef runtime_t cuda

cdef struct queue_t:
    void* stream
    void* context
    int holders

# A module and who holds it: its Program, and the kernels of invokers that may outlive that.
cdef struct module_t:
    void* module
    void* context
    int holders

cdef struct kernel_t:
    void* function
    module_t* module
    uint32_t count           # of arguments, without the grid that `launchable` adds
    uint64_t missing         # those not set yet, a bit each
    uint32_t* sizes
    void** pointers
    char* block
    uint32_t grid[6]         # the first group and how many there are, on three axes
    uint32_t splits          # axes that may be launched in several parts, a bit each
    int32_t launch           # groups of a cluster, COOPERATIVE where all run at once, DEPENDENT, else 0
    uint32_t fixed[3]        # the work-group's size where the kernel demands one, else zeros

cdef int32_t enter(void* context, bint* pushed) noexcept nogil
cdef int leave(bint pushed) noexcept nogil
cdef int is_idle(void* queue, void* stream) noexcept nogil
cdef int32_t wait_for(void* queue, void* stream) noexcept nogil
cdef int check(int32_t code, str what) except -1


cdef class Stream:
    cdef queue_t* queue
    cdef readonly int ordinal
    cdef readonly object owner
    cdef long long born


cdef class Buffer:
    cdef uint64_t address
    cdef readonly int64_t size
    cdef mx_guard guard
    cdef public object _miopyx_made      # type, lengths and strides, where a handle made it
    cdef void* context
    cdef readonly int ordinal
    cdef long long born


cdef class Program(Contract):
    cdef module_t* module
    cdef bytes text
    cdef dict entries
