"""OpenCL without linking to it: a table of entry points taken from the library that pyopencl loaded.

pyopencl owns contexts, queues and the buffers users hold.  Calls on the hot path go straight through `cl`, filled by
`load` from pyopencl's own extension module: `dlsym` on its handle searches its dependencies, so both sides use one
loader and there is no second one in the process.
"""

import threading

from libc.stdint cimport int64_t, uint32_t
from posix.dlfcn cimport RTLD_LAZY, dlopen, dlsym
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from miopyx.values._guard cimport load_flag, store_flag
from ._runtime cimport fork_generation

from miopyx.errors import UnknownError, from_opencl
from miopyx.values import posix

cdef extern from "<dlfcn.h>":
    int RTLD_NOLOAD

# When this thread last enqueued a kernel whose time is wanted: whoever does so asks for the time at once.
cdef extern from *:
    """
    static __thread int64_t mx_enqueued;
    """
    int64_t mx_enqueued

cdef enum:
    CL_PROFILING_INFO_NOT_AVAILABLE = -7
    STANDING = 100  # ns; stamps of a launch that are not further apart belong to a clock that stands still

cdef bint loaded = False
_loading = threading.Lock()


def _after_fork_in_child():
    global _loading
    _loading = threading.Lock()  # nobody may be left to release the old one


posix.at_fork(after_in_child=_after_fork_in_child)

# Whether events were seen that tell no time.
cdef bint untimed = False


cdef int check(cl_int code, str call) except -1:
    if code != 0:
        raise from_opencl(code, call)
    return 0


cdef void* _symbol(void* library, const char* name, bint required) except? NULL:
    cdef void* address = dlsym(library, name)
    if address == NULL and required:
        raise UnknownError(f"the OpenCL loader has no {name.decode()}")
    return address


def load(str extension_path):
    """Fill the table from the library at `extension_path`, which must be loaded already."""
    with _loading:
        if not loaded:
            _load(extension_path)


cdef int _load(str extension_path) except -1:
    global loaded
    path = extension_path.encode()
    cdef void* lib = dlopen(path, RTLD_LAZY | RTLD_NOLOAD)
    if lib == NULL:
        raise UnknownError("pyopencl's extension module is not loaded", "path", extension_path)
    cdef void** slot = <void**> &cl
    cdef Py_ssize_t i
    for i, name in enumerate(ENTRY_POINTS):
        slot[i] = _symbol(lib, name, name != b"clSetKernelArgSVMPointer")
    # What fits the contract as it is, and below what does not.
    opencl.set_arg, opencl.set_svm = cl.clSetKernelArg, cl.clSetKernelArgSVMPointer
    opencl.set_map = NULL
    opencl.release_kernel, opencl.finish = cl.clReleaseKernel, cl.clFinish
    opencl.retain_queue, opencl.release_queue = cl.clRetainCommandQueue, cl.clReleaseCommandQueue
    opencl.retain, opencl.release = cl.clRetainMemObject, cl.clReleaseMemObject
    opencl.enqueue, opencl.elapsed, opencl.allocate, opencl.fail = _enqueue, _elapsed, _allocate, check
    loaded = True
    return 0


cdef cl_int _enqueue(void* queue, void* kernel, uint32_t dims, const size_t* global_size, const size_t* local_size,
                     void** event) noexcept nogil:
    global mx_enqueued
    cdef cl_int code
    if event != NULL:
        if load_flag(untimed):  # what was enqueued before would count
            code = cl.clFinish(queue)
            if code != 0:
                return code
        mx_enqueued = _now()
    return cl.clEnqueueNDRangeKernel(queue, kernel, dims, NULL, global_size, local_size, 0, NULL, event)


cdef cl_int _elapsed(void* event, double* ms) noexcept nogil:
    """By the event's stamps, or by the host's clock where they tell no time: those of Mesa's Rusticl 22.3 are 0, 1, 2
    and 3 for every launch."""
    cdef cl_ulong queued = 0, start = 0, end = 0
    cdef cl_int code = cl.clWaitForEvents(1, &event)
    cdef int64_t done = _now()
    if code == 0:
        code = cl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, 8, &start, NULL)
        if code == 0:
            code = cl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, 8, &end, NULL)
        if code == 0 and cl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED, 8, &queued, NULL) != 0:
            queued = 0
        if code == CL_PROFILING_INFO_NOT_AVAILABLE or code == 0 and (
                end <= start or end - min(queued, start) < STANDING):
            store_flag(untimed, True)
            code = 0
            start, end = <cl_ulong> mx_enqueued, <cl_ulong> done
    cl.clReleaseEvent(event)
    ms[0] = <double> (end - start) * 1e-6
    return code


cdef int64_t _now() noexcept nogil:
    """Nanoseconds of a clock that only counts on."""
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <int64_t> t.tv_sec * 1000000000 + t.tv_nsec


cdef void* _allocate(void* context, size_t size, cl_int* code) noexcept nogil:
    return cl.clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, code)


# In the order of cl_table, whose members are all pointers.
ENTRY_POINTS = (
    b"clCreateProgramWithSource", b"clCreateProgramWithBinary", b"clBuildProgram", b"clGetProgramInfo",
    b"clGetProgramBuildInfo", b"clReleaseProgram", b"clCreateKernel", b"clReleaseKernel", b"clGetKernelWorkGroupInfo",
    b"clSetKernelArg", b"clSetKernelArgSVMPointer", b"clEnqueueNDRangeKernel", b"clFinish", b"clWaitForEvents",
    b"clGetEventProfilingInfo", b"clReleaseEvent", b"clCreateBuffer", b"clRetainMemObject", b"clReleaseMemObject",
    b"clGetMemObjectInfo", b"clEnqueueMapBuffer", b"clEnqueueUnmapMemObject", b"clRetainCommandQueue",
    b"clReleaseCommandQueue", b"clGetCommandQueueInfo",
)
assert len(ENTRY_POINTS) * sizeof(void*) == sizeof(cl_table)

cdef enum:
    CL_PROGRAM_BINARY_SIZES = 0x1165
    CL_PROGRAM_BINARIES = 0x1166
    CL_PROGRAM_BUILD_LOG = 0x1183
    CL_KERNEL_WORK_GROUP_SIZE = 0x11B0


cdef class Program(Contract):
    """A built cl_program for one device."""

    def __dealloc__(self):
        if self.ptr != NULL and self.born == fork_generation:
            cl.clReleaseProgram(self.ptr)

    cdef void* kernel(self, bytes name) except NULL:
        cdef cl_int code = 0
        cdef void* kernel = cl.clCreateKernel(self.ptr, name, &code)
        check(code, f"clCreateKernel({name.decode()})")
        return kernel

    def binary(self):
        cdef size_t size = 0
        cdef unsigned char* data
        cdef cl_int code
        if self.born != fork_generation:
            return None
        with nogil:  # PoCL compiles for seconds here
            code = cl.clGetProgramInfo(self.ptr, CL_PROGRAM_BINARY_SIZES, sizeof(size_t), &size, NULL)
        if code != 0 or size == 0:
            return None
        payload = bytearray(size)
        data = payload
        with nogil:
            code = cl.clGetProgramInfo(self.ptr, CL_PROGRAM_BINARIES, sizeof(void*), &data, NULL)
        return bytes(payload) if code == 0 else None

    def work_group_limit(self, str name):
        cdef size_t limit = 0
        cdef void* kernel = self.kernel(name.encode())
        try:
            check(cl.clGetKernelWorkGroupInfo(kernel, self.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof(size_t), &limit,
                                              NULL), "clGetKernelWorkGroupInfo")
        finally:
            cl.clReleaseKernel(kernel)
        return limit


cdef str _build_log(void* program, void* device):
    cdef size_t size = 0
    if cl.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) != 0 or size == 0:
        return ""
    log = bytearray(size)
    cdef char* text = log
    if cl.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, text, NULL) != 0:
        return ""
    return bytes(log).rstrip(b"\0").decode(errors="replace").strip()


cdef int _build(Program program, bytes options) except -1:
    cdef const char* text = options
    cdef cl_int code
    with nogil:
        code = cl.clBuildProgram(program.ptr, 1, &program.device, text, NULL, NULL)
    if code != 0:
        raise from_opencl(code, f"clBuildProgram with options '{options.decode()}'",
                          _build_log(program.ptr, program.device))
    return 0


def program_from_source(size_t context, size_t device, bytes source, bytes options):
    """Compile `source` for one device; a failure carries the build log."""
    cdef cl_int code = 0
    cdef const char* text = source
    cdef size_t length = len(source)
    cdef Program program = Program()
    program.device = <void*> device
    program.ptr = cl.clCreateProgramWithSource(<void*> context, 1, &text, &length, &code)
    check(code, "clCreateProgramWithSource")
    _build(program, options + b" -w")  # PoCL prints how many warnings there are to the process's stderr
    return program


def program_from_binary(size_t context, size_t device, bytes binary, bytes options):
    """Load a binary that this device's driver produced.  Only ever call this with bytes that passed their digest."""
    cdef cl_int code = 0, status = 0
    cdef const unsigned char* data = binary
    cdef size_t length = len(binary)
    cdef void* device_ptr = <void*> device
    cdef Program program = Program()
    program.device = device_ptr
    program.ptr = cl.clCreateProgramWithBinary(<void*> context, 1, &device_ptr, &length, &data, &status, &code)
    check(code, "clCreateProgramWithBinary")
    check(status, "clCreateProgramWithBinary")
    _build(program, options)
    return program
