"""What the spine needs of whatever launches kernels: one table of functions, which OpenCL and CUDA's driver fill."""

from libc.stdint cimport int32_t, int64_t, uint32_t

# How a kernel's bulk copies go through a tensor, with axis 0 contiguous: boxes of `box` elements, or, im2col, box[0]
# channels of box[1] pixels, which go through each image step by step, from `lower` to its lengths + `upper` along the
# axes between channels and images.  128-byte swizzle, so 128 bytes of axis 0; zeros outside.
cdef struct tensor_map_t:
    int32_t bytes            # of an element: 2, or 4 for floats, which are rounded to TF32 on the way
    int32_t rank             # at most 5
    bint im2col
    int64_t len[5]
    int64_t stride[5]        # bytes, multiples of 16; axis 0's is not looked at
    int32_t box[5]           # at most 256 each
    int32_t lower[3]
    int32_t upper[3]
    int32_t step[5]          # the traversal strides of im2col, at most 8


# Functions that return an int return 0, or the runtime's own code, which `fail` makes an exception of.  An event is
# what `enqueue` makes where it is given a place for one; `elapsed` waits for it, gives its milliseconds and releases
# it.  Memory is what a kernel's argument holds: a cl_mem, an address.  A local size of NULL is the runtime's choice.
cdef struct runtime_t:
    int32_t (*release_kernel)(void* kernel) noexcept nogil
    int32_t (*set_arg)(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil
    # A map of a tensor at a multiple of 16 bytes, as one argument of 128 bytes; NULL where there is none.
    int32_t (*set_map)(void* kernel, uint32_t index, const void* address, const tensor_map_t* map) noexcept nogil
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
