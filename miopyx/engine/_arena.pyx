"""The memory that a handle's calls work in: OpenCL's own, or what the user's allocator returns."""

cimport cython
from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx.runtime._buffers cimport CL_MEMORY, bind_device, bound_t, next_serial, unbind
from miopyx.runtime._opencl cimport CL_MEM_READ_WRITE, check, cl, cl_int, fork_generation

from miopyx.values import logs
from miopyx.errors import AllocFailedError, BadParmError


@cython.no_gc_clear
cdef class Arena:
    """One piece of memory, given back when nobody uses the object any more.

    The driver keeps OpenCL's own memory until the kernels that use it have run; a user's deallocator knows nothing of
    kernels, so whoever drops such an arena has waited for them.
    """

    def __dealloc__(self):
        if self.binding.ptr == NULL or self.born != fork_generation:
            return
        cl.clReleaseMemObject(self.binding.ptr)
        if self.deallocator is not None:
            try:
                self.deallocator(self.context, self.memory)
            except Exception as e:  # nobody is there to catch it
                logs.warn_once(("deallocator", type(e)), "the handle's deallocator failed: %r", e,
                               function="deallocator")


cdef Arena make_arena(int64_t size, void* context, object allocator, object deallocator, object allocator_context):
    """Return `size` bytes of memory on an OpenCL context, of `allocator(allocator_context, size)` if there is one."""
    cdef Arena arena = Arena.__new__(Arena)
    cdef bound_t bound
    cdef cl_int code = 0
    memset(&bound, 0, sizeof(bound))
    arena.born = fork_generation
    if allocator is None:
        arena.binding.ptr = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &code)
        check(code, f"clCreateBuffer of {size} bytes of workspace")
        arena.binding.size, arena.binding.kind = size, CL_MEMORY
        arena.binding.serial = next_serial()
        return arena
    arena.memory = allocator(allocator_context, size)
    if arena.memory is None:
        raise AllocFailedError("the handle's allocator returned nothing", "allocator", None, f"{size} bytes")
    try:
        bind_device(arena.memory, "allocator", NULL, NULL, size, True, False, context, &bound)
        if bound.b.kind != CL_MEMORY:
            raise BadParmError("memory that is no buffer", "allocator", type(arena.memory).__name__, "a Buffer")
        check(cl.clRetainMemObject(bound.b.ptr), "clRetainMemObject")
    except BaseException:
        unbind(&bound)
        deallocator(allocator_context, arena.memory)
        raise
    arena.binding = bound.b
    arena.binding.serial = next_serial()  # it is held, so nothing else can be named by its address
    unbind(&bound)
    arena.deallocator, arena.context = deallocator, allocator_context
    return arena
