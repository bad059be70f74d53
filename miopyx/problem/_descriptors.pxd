"""Tensor and convolution descriptors: fixed C arrays, everything derived computed when set."""

from libc.stdint cimport int64_t, uint64_t

from miopyx.values._guard cimport (
    MX_NO_GIL, load_flag, load_uint64, mx_guard, mx_guard_lock, mx_guard_unlock, store_uint64,
)

cdef enum:
    MAX_DIMS = 8
    MAX_SPATIAL_DIMS = 3


cdef bint is_ocp8(int64_t data_type) noexcept nogil


cdef class Descriptor:
    cdef bint destroyed             # its content stays, for plans that were made of it
    cdef mx_guard guard             # of all that a setting sets
    cdef uint64_t stamp             # of what it was last set to, see next_stamp

    cdef str described(self)
    cdef tuple settings(self)
    cdef Descriptor copied(self)
    cdef int hold(self) noexcept


cdef class TensorDescriptor(Descriptor):
    cdef readonly int ndim          # 0 until set
    cdef int type
    cdef int cast_type              # -1: none
    cdef int vector_length          # 4 or 8 for the ...c4/c8 layouts, else 1
    cdef int64_t len[MAX_DIMS]
    cdef int64_t stride[MAX_DIMS]
    cdef int64_t elements           # product of lengths, times the vector length
    cdef int64_t space              # elements between the first and the last addressed one, both included
    cdef int64_t bytes              # space in bytes

    cdef int set(self, int data_type, int ndim, const int64_t* lens, const int64_t* strides,
                 int vector_length) except -1
    cdef int require_set(self, str name) except -1


cdef class ConvolutionDescriptor(Descriptor):
    cdef int spatial
    cdef int mode
    cdef int groups
    cdef int pad[MAX_SPATIAL_DIMS]
    cdef int end[MAX_SPATIAL_DIMS]  # pads behind an axis
    cdef int stride[MAX_SPATIAL_DIMS]
    cdef int dilation[MAX_SPATIAL_DIMS]
    cdef int output_pad[MAX_SPATIAL_DIMS]
    cdef int attribute[4]
    cdef int find_mode_set          # 0: follow the environment

    cdef int set(self, int spatial, const int64_t* pad, const int64_t* stride, const int64_t* dilation, int mode,
                 const int64_t* end) except -1
    cdef int _start_over(self) noexcept
    cdef int output_dims(self, TensorDescriptor x, TensorDescriptor w, int64_t* out) except -1


cdef int type_size(int data_type) noexcept nogil
cdef int to_data_type(object value, str name) except -1
cdef uint64_t next_stamp() noexcept nogil
cdef object check_descriptor(object desc, type kind, str name)


cdef inline object seen(object desc):
    """A descriptor (or None) to read from: what it says now.  Without the GIL, where others may set it, a copy."""
    if MX_NO_GIL and desc is not None:
        return (<Descriptor> desc).copied()
    return desc


cdef inline uint64_t stamp_of(Descriptor desc) noexcept:
    """The stamp, for who reads nothing else."""
    return load_uint64(desc.stamp)


cdef inline int begin_setting(Descriptor desc) noexcept:
    """Stands before what sets a descriptor, which nothing may interrupt."""
    mx_guard_lock(&desc.guard)
    return 0


cdef inline int end_setting(Descriptor desc) noexcept:
    """Stands behind it."""
    store_uint64(desc.stamp, next_stamp())
    mx_guard_unlock(&desc.guard)
    return 0


cdef inline TensorDescriptor the_tensor(object desc, str name):
    """`desc` itself where it is a live tensor descriptor, to be set, else the error that names the parameter."""
    if type(desc) is TensorDescriptor and not load_flag((<TensorDescriptor> desc).destroyed):
        return <TensorDescriptor> desc
    return <TensorDescriptor> check_descriptor(desc, TensorDescriptor, name)


cdef inline TensorDescriptor as_tensor(object desc, str name):
    """What a live tensor descriptor says, else the error that names the parameter."""
    if MX_NO_GIL:
        return <TensorDescriptor> seen(the_tensor(desc, name))
    return the_tensor(desc, name)


cdef inline ConvolutionDescriptor the_convolution(object desc, str name):
    """`desc` itself where it is a live convolution descriptor, to be set, else the error that names the parameter."""
    if type(desc) is ConvolutionDescriptor and not load_flag((<ConvolutionDescriptor> desc).destroyed):
        return <ConvolutionDescriptor> desc
    return <ConvolutionDescriptor> check_descriptor(desc, ConvolutionDescriptor, name)


cdef inline ConvolutionDescriptor as_convolution(object desc, str name):
    """What a live convolution descriptor says, else the error that names the parameter."""
    if MX_NO_GIL:
        return <ConvolutionDescriptor> seen(the_convolution(desc, name))
    return the_convolution(desc, name)
