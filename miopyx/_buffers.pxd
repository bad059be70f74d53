"""What callers hand over as tensors and workspaces, checked and reduced to an address or a cl_mem."""

from libc.stdint cimport int64_t

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

cdef int bind_data(object data, str name, const mx_tensor* tensor, int rank, int64_t need, bint output, bint on_host,
                   bint shares_memory, void* context, binding_t* out) except -1
cdef int64_t tensor_bytes(const mx_tensor* t) noexcept nogil
