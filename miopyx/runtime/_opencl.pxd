"""The OpenCL entry points that miopyx calls itself, and the objects it owns."""

from libc.stdint cimport int32_t, uint32_t, uint64_t

from ._runtime cimport Program as Contract, runtime_t

ctypedef int32_t cl_int
ctypedef uint32_t cl_uint
ctypedef uint64_t cl_ulong
ctypedef cl_ulong cl_bitfield

cdef enum:
    CL_FALSE = 0
    CL_TRUE = 1
    CL_MEM_READ_WRITE = 1
    CL_MEM_USE_HOST_PTR = 8
    CL_MAP_READ = 1
    CL_MEM_TYPE = 0x1100
    CL_MEM_OBJECT_BUFFER = 0x10F0
    CL_MEM_SIZE = 0x1102
    CL_MEM_REFERENCE_COUNT = 0x1105
    CL_MEM_FLAGS = 0x1101
    CL_MEM_CONTEXT = 0x1106
    CL_MEM_ASSOCIATED_MEMOBJECT = 0x1107
    CL_MEM_OFFSET = 0x1108
    CL_MEM_READ_ONLY = 4
    CL_PROFILING_COMMAND_QUEUED = 0x1280
    CL_PROFILING_COMMAND_START = 0x1282
    CL_PROFILING_COMMAND_END = 0x1283

cdef struct cl_table:
    void* (*clCreateProgramWithSource)(void*, cl_uint, const char**, const size_t*, cl_int*) noexcept nogil
    void* (*clCreateProgramWithBinary)(void*, cl_uint, void* const*, const size_t*, const unsigned char**, cl_int*,
                                       cl_int*) noexcept nogil
    cl_int (*clBuildProgram)(void*, cl_uint, void* const*, const char*, void*, void*) noexcept nogil
    cl_int (*clGetProgramInfo)(void*, cl_uint, size_t, void*, size_t*) noexcept nogil
    cl_int (*clGetProgramBuildInfo)(void*, void*, cl_uint, size_t, void*, size_t*) noexcept nogil
    cl_int (*clReleaseProgram)(void*) noexcept nogil
    void* (*clCreateKernel)(void*, const char*, cl_int*) noexcept nogil
    cl_int (*clReleaseKernel)(void*) noexcept nogil
    cl_int (*clGetKernelWorkGroupInfo)(void*, void*, cl_uint, size_t, void*, size_t*) noexcept nogil
    cl_int (*clSetKernelArg)(void*, cl_uint, size_t, const void*) noexcept nogil
    cl_int (*clSetKernelArgSVMPointer)(void*, cl_uint, const void*) noexcept nogil
    cl_int (*clEnqueueNDRangeKernel)(void*, void*, cl_uint, const size_t*, const size_t*, const size_t*, cl_uint,
                                     void* const*, void**) noexcept nogil
    cl_int (*clFinish)(void*) noexcept nogil
    cl_int (*clWaitForEvents)(cl_uint, void* const*) noexcept nogil
    cl_int (*clGetEventProfilingInfo)(void*, cl_uint, size_t, void*, size_t*) noexcept nogil
    cl_int (*clReleaseEvent)(void*) noexcept nogil
    void* (*clCreateBuffer)(void*, cl_bitfield, size_t, void*, cl_int*) noexcept nogil
    cl_int (*clRetainMemObject)(void*) noexcept nogil
    cl_int (*clReleaseMemObject)(void*) noexcept nogil
    cl_int (*clGetMemObjectInfo)(void*, cl_uint, size_t, void*, size_t*) noexcept nogil
    void* (*clEnqueueMapBuffer)(void*, void*, cl_uint, cl_bitfield, size_t, size_t, cl_uint, void* const*, void**,
                                cl_int*) noexcept nogil
    cl_int (*clEnqueueUnmapMemObject)(void*, void*, void*, cl_uint, void* const*, void**) noexcept nogil
    cl_int (*clRetainCommandQueue)(void*) noexcept nogil
    cl_int (*clReleaseCommandQueue)(void*) noexcept nogil
    cl_int (*clGetCommandQueueInfo)(void*, cl_uint, size_t, void*, size_t*) noexcept nogil

cdef cl_table cl
cdef runtime_t opencl

cdef int check(cl_int code, str call) except -1


cdef class Program(Contract):
    cdef void* ptr
    cdef void* device
