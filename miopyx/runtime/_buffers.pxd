"""What callers hand over as tensors and workspaces, checked and reduced to an address or a cl_mem."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from ._opencl cimport CL_MEM_REFERENCE_COUNT, cl, cl_uint, opencl
from ._runtime cimport place_t
from miopyx.values._guard cimport MX_NO_GIL, load_pointer
from miopyx.values._types cimport MX_AXES, mx_tensor

# What a binding holds.
cdef enum:
    UNBOUND = 0
    HOST_MEMORY = 1
    CL_MEMORY = 2
    SVM_MEMORY = 3
    CUDA_MEMORY = 4

cdef struct binding_t:
    void* ptr            # address or cl_mem
    int64_t offset       # bytes from there (devices only)
    int64_t size         # bytes from ptr + offset on
    int kind
    bint lent            # host memory: the call must wait for its kernels
    bint temporary       # a cl_mem around it, made for this call
    void* root           # what decides whether two bindings overlap: the address, or the cl_mem that owns the bytes
    int64_t root_offset
    uint64_t serial      # equal ones name the same cl_mem; 0: nothing is known, kernels must be told each time


# What OpenCL says of a buffer that a call has seen.  Kept by the buffer itself and by whoever remembers it.
cdef struct memory_t:
    const PyObject* owner        # the buffer: compared, never followed; NULL once it died, and our reference with it
    void* mem
    void* context
    void* root
    int64_t size, root_offset
    uint64_t serial
    long long born
    bint read_only
    int holders

# What a slot of an invoker holds.  Zeros are nothing.
cdef struct bound_t:
    binding_t b
    memory_t* memory             # held; NULL where the next call has to look at everything again
    PyObject* shape              # owned: of the pyopencl Array that `memory` was found in, NULL for a bare buffer
    PyObject* strides
    PyObject* dtype

# An array as a descriptor wants it.
cdef struct layout_t:
    int type, rank
    int64_t len[MX_AXES]
    int64_t step[MX_AXES]        # bytes


cdef inline bint is_released(const memory_t* memory) noexcept:
    """Whether the owner let go of its cl_mem, so that ours is the last reference.

    While kernels are in flight some drivers hold references as well: then it is noticed later, and nothing is lost.
    """
    cdef cl_uint count = 0
    return cl.clGetMemObjectInfo(memory.mem, CL_MEM_REFERENCE_COUNT, sizeof(cl_uint), &count, NULL) != 0 or count < 2


cdef inline bint is_bound(const bound_t* s, object data) noexcept:
    """Whether `data` is the buffer that was found right for this slot, so that nothing is left to ask but its life."""
    return (s.memory != NULL and load_pointer(s.memory.owner) == <const PyObject*> data and s.shape == NULL
            and (not MX_NO_GIL or hangs_on(s.memory, data)))


cdef inline int device_memory(const place_t* place) noexcept:
    """What a binding holds whose memory the runtime itself made."""
    return CL_MEMORY if place.rt == &opencl else CUDA_MEMORY


cdef bint hangs_on(const memory_t* memory, object data) noexcept
cdef uint64_t next_serial() noexcept
cdef int raise_released(object data, str name) except -1
cdef int fill_layout(layout_t* layout, const mx_tensor* t, int rank) noexcept
cdef object is_bound_array(const bound_t* s, object data, str name)
cdef object bind_host(object data, str name, const mx_tensor* tensor, const layout_t* layout, int64_t need,
                      bint output, binding_t* out)
cdef object bind_device(object data, str name, const mx_tensor* tensor, const layout_t* layout, int64_t need,
                        bint output, const place_t* place, void* queue, bound_t* out)
cdef object bind_address(int64_t address, int64_t size, int64_t need, str name, const mx_tensor* tensor,
                         const place_t* place, binding_t* out)
cdef int unbind(bound_t* s) noexcept
cdef int64_t tensor_bytes(const mx_tensor* t) noexcept nogil
cdef bint is_same_stream(void* a, void* b) noexcept
