"""Callers' memory and what is checked about it, for the functions that are called from Python: tests and tools."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uintptr_t

from miopyx.values._types cimport (
    MX_AXES, MX_BFLOAT8, MX_BFLOAT16, MX_DOUBLE, MX_E4M3, MX_E5M2, MX_FLOAT, MX_FLOAT8, MX_HALF, MX_INT8, MX_INT32,
    mx_tensor,
)

from miopyx.errors import BadParmError

cdef tuple TYPES = (
    MX_HALF, MX_FLOAT, MX_INT32, MX_INT8, MX_BFLOAT16, MX_DOUBLE, MX_FLOAT8, MX_BFLOAT8, MX_E4M3, MX_E5M2)


cdef int64_t element_size(int64_t type) noexcept:
    if type == MX_DOUBLE:
        return 8
    if type == MX_FLOAT or type == MX_INT32:
        return 4
    return 2 if type == MX_HALF or type == MX_BFLOAT16 else 1


cdef int check_tensor(mx_tensor* t, str name, bint output) except -1:
    cdef int i
    cdef int64_t reach = 0
    if t.type not in TYPES:
        raise BadParmError("type is not one of the host path's", f"{name}.type", t.type, TYPES)
    for i in range(MX_AXES):
        if t.len[i] < 1 or t.stride[i] < 0:
            raise BadParmError("lengths or strides out of range", name, (t.len, t.stride), "lengths > 0, strides >= 0")
    if output:
        for stride, length in sorted([(t.stride[i], t.len[i]) for i in range(MX_AXES) if t.len[i] > 1]):
            if stride <= reach:
                raise BadParmError("strides of an output overlap", name, t.stride, f"> {reach} for length {length}")
            reach += stride * (length - 1)
    return 0


cdef class Memory:
    """The address of a caller's memory, held while it is used."""

    def __init__(self, data, need, str name, bint output):
        size = None
        interface = getattr(data, "__array_interface__", None)
        if isinstance(data, int):
            address = data
        elif interface is not None:
            address, readonly = interface["data"]
            if output and readonly:
                raise BadParmError("array is read-only", name, type(data).__name__, "a writable array")
            size = int(interface["typestr"][2:])
            strides = interface.get("strides")
            if strides is None:
                for length in interface["shape"]:
                    size *= length
            else:
                if min(strides, default=0) < 0 or 0 in interface["shape"]:
                    raise BadParmError("array is empty or runs backwards", name, strides, "strides >= 0")
                size += sum([(length - 1) * stride for length, stride in zip(interface["shape"], strides)])
        else:
            PyObject_GetBuffer(data, &self.view, PyBUF_WRITABLE if output else PyBUF_SIMPLE)
            self.held = True
            address, size = <uintptr_t> self.view.buf, self.view.len
        if size is not None and size < need:
            raise BadParmError("buffer is smaller than its tensor", name, f"{size} bytes", f">= {need} bytes")
        self.address = <void*> <uintptr_t> address

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef Memory bind(object data, const mx_tensor* t, str name, bint output):
    need = 1
    for i in range(MX_AXES):
        need += (t.len[i] - 1) * t.stride[i]
    return Memory(data, need * element_size(t.type), name, output)
