"""What callers hand over as tensors and workspaces, checked and reduced to an address or a cl_mem.

A descriptor says how memory is laid out, so an array counts as raw memory: its bytes must suffice and its type must
be the descriptor's.  Where an array has the descriptor's own lengths its strides are believed too, and a layout that
contradicts the descriptor is refused instead of being computed wrongly.
"""

from libc.stdint cimport int64_t, uintptr_t

from ._args cimport to_int64
from ._descriptors cimport type_size
from ._opencl cimport (
    CL_MEM_ASSOCIATED_MEMOBJECT, CL_MEM_CONTEXT, CL_MEM_FLAGS, CL_MEM_OFFSET, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE,
    CL_MEM_REFERENCE_COUNT, CL_MEM_SIZE, CL_MEM_USE_HOST_PTR, check, cl, cl_int, cl_uint, cl_ulong, fork_generation,
)
from ._types cimport MX_AXES, mx_tensor

from .errors import BadParmError

cdef tuple TYPE_NAMES = ("float16", "float32", "int32", "int8", None, "bfloat16", "float64", "float8_e4m3fnuz",
                         "float8_e5m2fnuz", "int64")


cdef int64_t tensor_bytes(const mx_tensor* t) noexcept nogil:
    """Bytes between the first and the last addressed element, both included."""
    cdef int64_t last = 0
    cdef int i
    for i in range(MX_AXES):
        last += (t.len[i] - 1) * t.stride[i]
    return (last + 1) * type_size(<int> t.type)


cdef int _require_size(int64_t size, int64_t need, str name) except -1:
    if size < need:
        raise BadParmError("buffer is too small", name, f"{size} bytes", f">= {need} bytes")
    return 0


cdef bint _strides_agree(tuple shape, tuple strides, const mx_tensor* t, int rank, int64_t width) except -1:
    """Whether an array of the descriptor's lengths has its strides (where a length is 1 there is nothing to say)."""
    cdef int i, axis
    for i in range(rank):
        axis = i if i < 2 else i + MX_AXES - rank
        if t.len[axis] > 1 and strides[i] != t.stride[axis] * width:
            return False
    return True


cdef bint _same_lengths(tuple shape, const mx_tensor* t, int rank) except -1:
    cdef int i, axis
    if len(shape) != rank:
        return False
    for i in range(rank):
        axis = i if i < 2 else i + MX_AXES - rank
        if shape[i] != t.len[axis]:
            return False
    return True


cdef bint _is_permutation(tuple shape, const mx_tensor* t, int rank) except -1:
    return sorted(shape) == sorted([t.len[i if i < 2 else i + MX_AXES - rank] for i in range(rank)])


cdef bint _memory_order(tuple shape, const mx_tensor* t, int rank) except -1:
    """Whether `shape` names the lengths from the outermost to the innermost in memory, as for (n, h, w, c) and NHWC."""
    axes = [i if i < 2 else i + MX_AXES - rank for i in range(rank)]
    return tuple([t.len[a] for a in sorted(axes, key=lambda a: -t.stride[a])]) == shape


cdef int _check_array(object dtype, tuple shape, object strides, str name, const mx_tensor* t, int rank) except -1:
    """`strides` in bytes, None for C order."""
    cdef int64_t width = dtype.itemsize, step = width
    expected = TYPE_NAMES[t.type]
    if dtype.name == "uint8" and strides is None:
        return 0  # raw memory
    if dtype.name != expected:
        raise BadParmError("array of another type than its descriptor", name, dtype.name, expected)
    if not dtype.isnative:
        raise BadParmError("array in another byte order than the machine's", name, dtype.str, "native byte order")
    if strides is None:
        c_order = []
        for length in reversed(shape):
            c_order.append(step)
            step *= length
        c_order.reverse()
        strides_ = tuple(c_order)
    else:
        strides_ = strides
    if _same_lengths(shape, t, rank):
        if _strides_agree(shape, strides_, t, rank, width):
            return 0
        if strides is None and _memory_order(shape, t, rank):
            return 0
        raise BadParmError("array has the descriptor's lengths but another layout", name,
                           tuple([s // width for s in strides_]), "the descriptor's strides")
    if strides is None and _is_permutation(shape, t, rank) and not _memory_order(shape, t, rank):
        raise BadParmError("array has the descriptor's lengths in an order that contradicts its strides", name, shape,
                           "the descriptor's lengths, or their order in memory")
    if strides is not None:
        raise BadParmError("array is not contiguous and its shape is not the descriptor's", name, shape,
                           "a contiguous array, or one of the descriptor's shape and strides")
    return 0


cdef int _bind_host(object data, str name, const mx_tensor* tensor, int rank, int64_t need, bint output,
                    binding_t* out) except -1:
    cdef int64_t size, last = 0, width
    import numpy

    if not isinstance(data, numpy.ndarray):
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise BadParmError("not an array", name, type(data).__name__, "a NumPy or ml_dtypes array")
        try:
            data = numpy.frombuffer(data, dtype=numpy.uint8)
        except ValueError as e:
            raise BadParmError(f"not usable memory: {e}", name, type(data).__name__, "contiguous bytes") from None
    interface = data.__array_interface__
    address, readonly = interface["data"]
    if output and readonly:
        raise BadParmError("array is read-only", name, type(data).__name__, "a writable array")
    shape, strides = interface["shape"], interface.get("strides")
    dtype = data.dtype
    width = dtype.itemsize
    for i, length in enumerate(shape):
        if length == 0:
            raise BadParmError("array is empty", name, shape, ">= 1 element")
        if strides is not None:
            if strides[i] < 0:
                raise BadParmError("negative stride", name, strides, ">= 0")
            last += (length - 1) * strides[i]
    size = last + width if strides is not None else data.nbytes
    if tensor != NULL:
        _check_array(dtype, shape, strides, name, tensor, rank)
        if address % type_size(<int> tensor.type):
            raise BadParmError("misaligned array", name, hex(address), f"multiple of {type_size(<int> tensor.type)}")
    elif strides is not None:
        raise BadParmError("array is not contiguous", name, strides, "contiguous memory")
    _require_size(size, need, name)
    out.ptr, out.offset, out.size, out.kind = <void*> <uintptr_t> address, 0, size, HOST_MEMORY
    out.root, out.root_offset = NULL, <int64_t> <uintptr_t> address
    return 0


cdef class _KeptMem:
    """A reference of our own to a pyopencl buffer's cl_mem, hung on the buffer.

    After `release()` a pyopencl object still names its cl_mem, which may be gone: asking the driver about it crashes.
    With our reference it lives as long as the Python object, and a count of one says that its owner let go of it.
    """

    cdef void* mem
    cdef long long born

    def __cinit__(self):
        self.born = fork_generation

    def __dealloc__(self):
        if self.mem != NULL and self.born == fork_generation:
            cl.clReleaseMemObject(self.mem)


cdef int _require_unreleased(object buffer, size_t mem, str name) except -1:
    cdef _KeptMem kept
    cdef cl_uint count = 0
    found = getattr(buffer, "_miopyx_kept", None)
    if found is None:
        kept = _KeptMem()
        check(cl.clRetainMemObject(<void*> mem), "clRetainMemObject")
        kept.mem = <void*> mem
        try:
            buffer._miopyx_kept = kept
        except AttributeError:  # a pool's buffer: released, it goes back to the pool and its cl_mem lives on
            pass
        return 0
    kept = <_KeptMem?> found
    check(cl.clGetMemObjectInfo(kept.mem, CL_MEM_REFERENCE_COUNT, sizeof(cl_uint), &count, NULL), "clGetMemObjectInfo")
    if count < 2 or kept.mem != <void*> mem:
        raise BadParmError("buffer was released", name, buffer, "a live buffer")
    return 0


cdef int _bind_mem(size_t mem, int64_t offset, int64_t need, str name, const mx_tensor* tensor, bint output,
                   void* context, binding_t* out) except -1:
    cdef size_t size = 0, origin = 0
    cdef void* owner = NULL
    cdef cl_ulong flags = 0
    if mem == 0:
        raise BadParmError("null", name, None, "a buffer")
    check(cl.clGetMemObjectInfo(<void*> mem, CL_MEM_CONTEXT, sizeof(void*), &owner, NULL), "clGetMemObjectInfo")
    if owner != context:
        raise BadParmError("buffer of another context", name, hex(mem), "a buffer on the handle's context")
    check(cl.clGetMemObjectInfo(<void*> mem, CL_MEM_SIZE, sizeof(size_t), &size, NULL), "clGetMemObjectInfo")
    check(cl.clGetMemObjectInfo(<void*> mem, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(void*), &owner, NULL),
          "clGetMemObjectInfo")
    if owner != NULL:  # a sub-buffer
        check(cl.clGetMemObjectInfo(<void*> mem, CL_MEM_OFFSET, sizeof(size_t), &origin, NULL), "clGetMemObjectInfo")
    if output:
        check(cl.clGetMemObjectInfo(<void*> mem, CL_MEM_FLAGS, sizeof(cl_ulong), &flags, NULL), "clGetMemObjectInfo")
        if flags & CL_MEM_READ_ONLY:
            raise BadParmError("buffer is read-only", name, hex(mem), "a writable buffer")
    out.root, out.root_offset = owner if owner != NULL else <void*> mem, <int64_t> origin + offset
    if tensor != NULL and offset % type_size(<int> tensor.type):
        raise BadParmError("misaligned offset", name, offset, f"multiple of {type_size(<int> tensor.type)}")
    _require_size(<int64_t> size - offset, need, name)
    out.ptr, out.offset, out.size, out.kind = <void*> mem, offset, <int64_t> size - offset, CL_MEMORY
    return 0


cdef int bind_data(object data, str name, const mx_tensor* tensor, int rank, int64_t need, bint output, bint on_host,
                   bint shares_memory, void* context, binding_t* out) except -1:
    """Write to `out` where the memory of `data` is; at least `need` bytes of it.

    `tensor` and `rank` describe what it must hold, NULL for a workspace.
    """
    cdef cl_int code = 0
    out.temporary = False
    if data is None or isinstance(data, type):  # a class has the attributes of its objects, but no memory
        raise BadParmError("null" if data is None else "a class", name, data, "an array" if on_host else "a buffer")
    if on_host:
        if isinstance(data, int):
            raise BadParmError("a bare address has no size to check", name, data, "an array over that memory")
        if hasattr(data, "int_ptr") or hasattr(data, "base_data"):
            raise BadParmError("OpenCL memory on a host handle", name, type(data).__name__, "a NumPy array")
        return _bind_host(data, name, tensor, rank, need, output, out)
    if isinstance(data, int):
        return _bind_mem(to_int64(data, name), 0, need, name, tensor, output, context, out)
    pointer = getattr(data, "int_ptr", None)
    if pointer is not None:
        _require_unreleased(data, pointer, name)
        return _bind_mem(pointer, 0, need, name, tensor, output, context, out)
    base = getattr(data, "base_data", None)
    if base is not None:  # pyopencl.array.Array
        if tensor != NULL:
            strides = None if data.flags.c_contiguous else tuple(data.strides)
            _check_array(data.dtype, tuple(data.shape), strides, name, tensor, rank)
        pointer = getattr(base, "int_ptr", None)
        if pointer is not None:
            _require_unreleased(base, pointer, name)
            return _bind_mem(pointer, data.offset, need, name, tensor, output, context, out)
        data = base
    pointer = getattr(data, "svm_ptr", None)
    if pointer is not None:
        if cl.clSetKernelArgSVMPointer == NULL:
            raise BadParmError("the OpenCL loader has no SVM calls", name, type(data).__name__, "a Buffer")
        size = getattr(data, "size", None)
        if size is None:
            size = data.nbytes
        _require_size(size, need, name)
        out.ptr, out.offset, out.size, out.kind = <void*> <uintptr_t> pointer, 0, size, SVM_MEMORY
        out.root, out.root_offset = NULL, <int64_t> <uintptr_t> pointer
        return 0
    if not shares_memory:
        raise BadParmError("host memory on a device with memory of its own", name, type(data).__name__,
                           "a pyopencl Buffer or Array on the handle's context: handle.upload(array)")
    _bind_host(data, name, tensor, rank, need, output, out)
    # The device works in host memory: wrap it where it lies.
    out.ptr = cl.clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, out.size, out.ptr, &code)
    check(code, "clCreateBuffer over host memory")
    out.kind, out.temporary = CL_MEMORY, True
    return 0
