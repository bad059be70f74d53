"""What the spine needs of whatever launches kernels: one table of functions, which OpenCL and CUDA's driver fill."""

from libc.stdint cimport int32_t, uint32_t

# Functions that return an int return 0, or the runtime's own code, which `fail` makes an exception of.  An event is
# what `enqueue` makes where it is given a place for one; `elapsed` waits for it, gives its milliseconds and releases
# it.  Memory is what a kernel's argument holds: a cl_mem, an address.  A local size of NULL is the runtime's choice.
cdef struct runtime_t:
    int32_t (*release_kernel)(void* kernel) noexcept nogil
    int32_t (*set_arg)(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil
    int32_t (*set_svm)(void* kernel, uint32_t index, const void* address) noexcept nogil  # NULL where there is none
    int32_t (*enqueue)(void* queue, void* kernel, uint32_t dims, const size_t* global_size, const size_t* local_size,
                       void** event) noexcept nogil
    int32_t (*elapsed)(void* event, double* ms) noexcept nogil
    int32_t (*finish)(void* queue) noexcept nogil
    int32_t (*retain_queue)(void* queue) noexcept nogil
    int32_t (*release_queue)(void* queue) noexcept nogil
    void* (*allocate)(void* context, size_t size, int32_t* code) noexcept nogil
    int32_t (*retain)(void* memory) noexcept nogil   # NULL where nothing counts who holds memory
    int32_t (*release)(void* memory) noexcept nogil
    int (*fail)(int32_t code, str what) except -1


# Where the memory of a device's calls must be.
cdef struct place_t:
    const runtime_t* rt
    void* context
    int ordinal          # CUDA's number of the device
    bint shares_memory   # with the host
    bint takes_pointers  # kernels work with the host's own addresses


cdef inline int require(const runtime_t* rt, int32_t code, str what) except -1:
    """Raise what a runtime says of a code that is not 0."""
    if code != 0:
        rt.fail(code, what)
    return 0


# No runtime survives fork: what was made under another generation must not be used, nor given back to the driver, which
# may wait for threads that the child does not have.
cdef long long fork_generation


cdef class Program:
    cdef long long born

    cdef void* kernel(self, bytes name) except NULL
