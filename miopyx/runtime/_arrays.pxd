"""Arrays of whoever made them, reduced to an address, a type, lengths and strides."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from miopyx.values._types cimport mx_tensor

# DLPack's structs and numbers (dlpack.h 1.x), which are an ABI.

cdef enum:
    DL_CPU = 1
    DL_CUDA = 2
    DL_CUDA_HOST = 3
    DL_ROCM_HOST = 11
    DL_CUDA_MANAGED = 13

cdef struct DLDevice:
    int32_t kind
    int32_t id

cdef struct DLDataType:
    uint8_t code
    uint8_t bits
    uint16_t lanes

cdef struct DLTensor:
    void* data
    DLDevice device
    int32_t ndim
    DLDataType dtype
    int64_t* shape
    int64_t* strides
    uint64_t byte_offset

cdef struct DLPackVersion:
    uint32_t major
    uint32_t minor

cdef struct DLManagedTensor:
    DLTensor tensor
    void* manager
    void (*deleter)(DLManagedTensor*) noexcept

cdef struct DLManagedTensorVersioned:
    DLPackVersion version
    void* manager
    void (*deleter)(DLManagedTensorVersioned*) noexcept
    uint64_t flags
    DLTensor tensor

ctypedef void (*dl_error_t)(void* context, const char* kind, const char* message) noexcept

cdef struct DLPackExchangeAPIHeader:
    DLPackVersion version
    DLPackExchangeAPIHeader* before

# What a framework gives through `__dlpack_c_exchange_api__` of its array's type.  Functions return 0, or -1 with
# Python's error set.
cdef struct DLPackExchangeAPI:
    DLPackExchangeAPIHeader header
    int (*allocate)(DLTensor* like, DLManagedTensorVersioned** out, void* context, dl_error_t error) noexcept
    int (*managed_of)(void* array, DLManagedTensorVersioned** out) noexcept
    int (*array_of)(DLManagedTensorVersioned* tensor, void** out) noexcept
    int (*tensor_of)(void* array, DLTensor* out) noexcept      # NULL where there is none; borrows from the array
    int (*current_stream)(int32_t kind, int32_t id, void** out) noexcept

cdef enum:
    ARRAY_AXES = 8

cdef struct array_t:
    void* ptr                    # the first element
    int64_t bytes                # from there to the end of the last one
    int64_t width                # bytes of an element
    int type                     # miopenDataType_t, MX_BYTE of bool, negative for any other
    int rank                     # of which the first ARRAY_AXES are described
    int64_t len[ARRAY_AXES]
    int64_t step[ARRAY_AXES]     # bytes
    int device, device_id        # as DLPack counts them
    bint contiguous              # in C order
    bint read_only, swapped
    bint raw                     # unsigned bytes


cdef const DLPackExchangeAPI* exchange_api(object data) noexcept
cdef int read_exchanged(const DLPackExchangeAPI* api, object data, str name, DLTensor* out) except -1
cdef object read_array(object data, str name, array_t* out)
cdef object read_cuda_array(object data, str name, const mx_tensor* tensor, array_t* out, void** writer, bint* waits)
cdef int describe_array(array_t* a, object dtype, object shape, object strides, str name) except -1
cdef int data_type(int number) noexcept
cdef int dl_type(DLDataType t) noexcept
cdef DLDataType dl_type_of(int kind) noexcept
cdef object made_array(const DLPackExchangeAPI* api, DLManagedTensorVersioned* tensor)
cdef bint current_stream(object data, int ordinal, void** stream) except -1
cdef str device_text(const array_t* a)
cdef str type_text(object data)
cdef bint is_on_host(const array_t* a) noexcept


cdef class Memory:
    cdef void* ptr
    cdef int64_t bytes
    cdef bint read_only
    cdef object owner

    @staticmethod
    cdef Memory of(const array_t* a, object owner)
