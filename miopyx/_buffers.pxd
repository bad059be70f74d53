"""What callers hand over as tensors and workspaces, checked and reduced to an address or a cl_mem."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from ._opencl cimport CL_MEM_REFERENCE_COUNT, cl, cl_uint
from ._types cimport mx_tensor

# What a binding holds.
cdef enum:
    UNBOUND = 0
    HOST_MEMORY = 1
    CL_MEMORY = 2
    SVM_MEMORY = 3

cdef struct binding_t:
    void* ptr            # address or cl_mem
    int64_t offset       # bytes from there (OpenCL only)
    int64_t size         # bytes from ptr + offset on
    int kind
    bint temporary       # a cl_mem around host memory, made for this call
    void* root           # what decides whether two bindings overlap: the address, or the cl_mem that owns the bytes
    int64_t root_offset
    uint64_t serial      # equal ones name the same cl_mem; 0: nothing is known, kernels must be told each time


cdef class Memory:
    cdef const PyObject* owner   # the buffer that this is about: compared, never followed
    cdef bint alive              # the owner is, and with it our reference to the cl_mem
    cdef bint read_only
    cdef void* mem
    cdef void* context
    cdef void* root
    cdef int64_t size, root_offset
    cdef uint64_t serial
    cdef long long born


cdef class Bound:
    cdef binding_t b
    cdef Memory memory           # None where the next call has to look at everything again
    cdef object shape, strides, dtype   # of the pyopencl Array that `memory` was found in
    cdef bint in_array


cdef inline bint is_bound(Bound s, object data) noexcept:
    """Whether `data` is the buffer that was bound and checked last, so that nothing is left to ask but its life."""
    return s.memory is not None and s.memory.owner == <const PyObject*> data and s.memory.alive and not s.in_array


cdef inline bint is_released(Memory memory) noexcept:
    """Whether the owner let go of its cl_mem, so that ours is the last reference.

    While kernels are in flight some drivers hold references as well: then it is noticed later, and nothing is lost.
    """
    cdef cl_uint count = 0
    return cl.clGetMemObjectInfo(memory.mem, CL_MEM_REFERENCE_COUNT, sizeof(cl_uint), &count, NULL) != 0 or count < 2


cdef uint64_t next_serial() noexcept
cdef int raise_released(object data, str name) except -1
cdef bint is_bound_array(Bound s, object data, str name) except -1
cdef int bind_host(object data, str name, const mx_tensor* tensor, int rank, int64_t need, bint output,
                   binding_t* out) except -1
cdef int bind_device(object data, str name, const mx_tensor* tensor, int rank, int64_t need, bint output,
                     bint shares_memory, void* context, Bound out) except -1
cdef int64_t tensor_bytes(const mx_tensor* t) noexcept nogil
