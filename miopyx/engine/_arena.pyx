"""The memory that a handle's calls work in: the runtime's own, or what the user's allocator returns."""

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from miopyx.runtime._buffers cimport SVM_MEMORY, bind_device, bound_t, device_memory, next_serial, unbind
from miopyx.runtime._runtime cimport fork_generation, place_t, require

from miopyx.values import logs
from miopyx.errors import AllocFailedError, BadParmError


@cython.no_gc_clear
cdef class Arena:
    """One piece of memory, given back when nobody uses the object any more.

    The driver keeps its own memory until the kernels that use it have run; a user's deallocator knows nothing of
    kernels, so whoever drops such an arena has waited for them.
    """

    def __dealloc__(self):
        if self.binding.ptr == NULL or self.born != fork_generation:
            return
        if self.deallocator is None or self.rt.retain != NULL:
            self.rt.release(self.binding.ptr)
        if self.deallocator is not None:
            try:
                self.deallocator(self.context, self.memory)
            except Exception as e:  # nobody is there to catch it
                logs.warn_once(("deallocator", type(e)), "the handle's deallocator failed: %r", e,
                               function="deallocator")


cdef Arena make_arena(int64_t size, const place_t* place, object allocator, object deallocator,
                      object allocator_context):
    """Return `size` bytes of memory of a device, of `allocator(allocator_context, size)` if there is one."""
    cdef Arena arena = Arena.__new__(Arena)
    cdef bound_t bound
    cdef place_t own = place[0]
    cdef int32_t code = 0
    memset(&bound, 0, sizeof(bound))
    arena.born, arena.rt = fork_generation, place.rt
    if allocator is None:
        arena.binding.ptr = place.rt.allocate(place.context, size, &code)
        require(place.rt, code, f"allocating {size} bytes of workspace")
        arena.binding.size, arena.binding.kind = size, device_memory(place)
        arena.binding.serial = next_serial()
        return arena
    own.shares_memory = False  # host memory is no workspace
    arena.memory = allocator(allocator_context, size)
    if arena.memory is None:
        raise AllocFailedError("the handle's allocator returned nothing", "allocator", None, f"{size} bytes")
    try:
        bind_device(arena.memory, "allocator", NULL, NULL, size, True, &own, NULL, &bound)
        if bound.b.kind == SVM_MEMORY:
            raise BadParmError("memory that is no buffer", "allocator", type(arena.memory).__name__, "a Buffer")
        if place.rt.retain != NULL:
            require(place.rt, place.rt.retain(bound.b.ptr), "keeping the allocator's memory")
    except BaseException:
        unbind(&bound)
        deallocator(allocator_context, arena.memory)
        raise
    arena.binding = bound.b
    arena.binding.serial = next_serial()  # it is held, so nothing else can be named by its address
    unbind(&bound)
    arena.deallocator, arena.context = deallocator, allocator_context
    return arena
