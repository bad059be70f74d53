"""What callers hand over as tensors and workspaces, checked and reduced to an address or a cl_mem.

A descriptor says how memory is laid out, so an array counts as raw memory: its bytes must suffice and its type must
be the descriptor's.  Where an array has the descriptor's own lengths its strides are believed too, and a layout that
contradicts the descriptor is refused instead of being computed wrongly.

What is found out about a pyopencl buffer is kept in a `Memory` that hangs on the buffer, with a reference of our own to
its cl_mem: after `release()` a pyopencl object still names its cl_mem, and asking the driver about one that is gone
crashes.  With our reference it lives as long as the Python object, and a count of one says that its owner let go of it.

A buffer that no call has seen may be gone already.  Before the driver is asked, pyopencl's own note whether it was
released is read (`_learn_the_note`), and the first word of what it names is compared with a live cl_mem's: it is the
table of its platform's entry points, which freed memory has lost (`_require_alive`).
"""

import sys
import threading

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from ._arrays cimport (
    ARRAY_AXES, DL_CPU, DL_CUDA, DL_CUDA_MANAGED, DLPackExchangeAPI, DLTensor, Memory, array_t, data_type,
    describe_array, device_text, dl_type, exchange_api, is_on_host, read_array, read_cuda_array, read_exchanged,
    type_text,
)
from miopyx.values._args cimport to_int64
from miopyx.values._guard cimport (
    MX_NO_GIL, add_int, add_uint64, load_pointer, load_uint64, store_pointer, store_uint64,
)
from miopyx.problem._descriptors cimport TensorDescriptor, type_size
from ._opencl cimport (
    CL_MEM_ASSOCIATED_MEMOBJECT, CL_MEM_CONTEXT, CL_MEM_FLAGS, CL_MEM_OFFSET, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE,
    CL_MEM_OBJECT_BUFFER, CL_MEM_SIZE, CL_MEM_TYPE, CL_MEM_USE_HOST_PTR, check, cl, cl_int, cl_uint, cl_ulong, opencl,
)
from ._cuda cimport (
    CU_MEMORYTYPE_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_MANAGED,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, Buffer,
    check as cuda_check, cu, cuda, queue_t, wait_for,
)
from ._runtime cimport fork_generation, place_t
from miopyx.values._types cimport MX_AXES, MX_BYTE, MX_INT8, mx_tensor

from miopyx import enums
from miopyx.errors import AllocFailedError, BadParmError
from miopyx.values import posix

cnp.import_array()

cdef int64_t tensor_bytes(const mx_tensor* t) noexcept nogil:
    """Bytes between the first and the last addressed element, both included."""
    cdef int64_t last = 0
    cdef int i
    for i in range(MX_AXES):
        if t.len[i] == 0:
            return 0
        last += (t.len[i] - 1) * t.stride[i]
    return (last + 1) * type_size(<int> t.type)


cdef int _require_size(int64_t size, int64_t need, str name) except -1:
    if size < need:
        raise BadParmError("buffer is too small", name, f"{size} bytes", f">= {need} bytes")
    return 0


cdef inline int _axis(int i, int rank) noexcept:
    """Where axis i of a tensor of a rank stands among a problem's five."""
    return i if i < 2 else i + MX_AXES - rank


cdef bint _strides_agree(const array_t* a, const mx_tensor* t, int rank) noexcept:
    """Whether an array of the descriptor's lengths has its strides (where a length is 1 there is nothing to say)."""
    cdef int i
    for i in range(rank):
        if t.len[_axis(i, rank)] > 1 and a.step[i] != t.stride[_axis(i, rank)] * a.width:
            return False
    return True


cdef bint _same_lengths(const array_t* a, const mx_tensor* t, int rank) noexcept:
    cdef int i
    for i in range(rank):
        if a.rank != rank or a.len[i] != t.len[_axis(i, rank)]:
            return False
    return True


cdef tuple _lengths(const array_t* a):
    return tuple([a.len[i] for i in range(min(a.rank, ARRAY_AXES))])


cdef bint _is_permutation(const array_t* a, const mx_tensor* t, int rank) except -1:
    return sorted(_lengths(a)) == sorted([t.len[_axis(i, rank)] for i in range(rank)])


cdef bint _memory_order(const array_t* a, const mx_tensor* t, int rank) except -1:
    """Whether the lengths are those from the outermost to the innermost in memory, as for (n, h, w, c) and NHWC."""
    axes = [_axis(i, rank) for i in range(rank)]
    return tuple([t.len[i] for i in sorted(axes, key=lambda i: -t.stride[i])]) == _lengths(a)


cdef int _check_array(const array_t* a, object data, str name, const mx_tensor* t, int rank) except -1:
    """Require that an array is what its descriptor says, as far as it says anything of itself."""
    if a.raw and a.contiguous:
        return 0  # raw memory
    if a.type != t.type and not (t.type == MX_BYTE and a.type == MX_INT8):
        raise BadParmError("array of another type than its descriptor" if t.type != MX_BYTE else
                           "array of elements that are no bytes", name, type_text(data),
                           enums.TYPE_NAMES[t.type] if t.type != MX_BYTE else "bool, int8 or uint8")
    if a.swapped:
        raise BadParmError("array in another byte order than the machine's", name, data.dtype.str,
                           "native byte order")
    if _same_lengths(a, t, rank):
        if _strides_agree(a, t, rank) or (a.contiguous and _memory_order(a, t, rank)):
            return 0
        raise BadParmError("array has the descriptor's lengths but another layout", name,
                           tuple([a.step[i] // a.width for i in range(rank)]), "the descriptor's strides")
    if not a.contiguous:
        raise BadParmError("array is not contiguous and its shape is not the descriptor's", name, _lengths(a),
                           "a contiguous array, or one of the descriptor's shape and strides")
    if _is_permutation(a, t, rank) and not _memory_order(a, t, rank):
        raise BadParmError("array has the descriptor's lengths in an order that contradicts its strides", name,
                           _lengths(a), "the descriptor's lengths, or their order in memory")
    return 0


def require_packed(data, str name, TensorDescriptor desc):
    """Require that an array's elements lie as those of a packed tensor, so that it can be reshaped without a copy.

    Memory that says nothing of itself is left to who binds it, and so is an array's type.
    """
    cdef array_t a
    cdef mx_tensor t
    cdef void* writer
    cdef bint waits
    cdef int i
    if desc.elements == 0 or isinstance(data, type) or getattr(data, "shape", None) is None:
        return
    memset(&a, 0, sizeof(array_t))
    memset(&t, 0, sizeof(mx_tensor))
    t.type = desc.type
    if getattr(data, "base_data", None) is not None:  # pyopencl.array.Array
        describe_array(&a, data.dtype, data.shape, data.strides, name)
        held = None
    elif cnp.PyArray_Check(data):
        held = read_array(data, name, &a)
    else:
        held = read_cuda_array(data, name, &t, &a, &writer, &waits)
    if a.raw and a.contiguous:
        return
    lens = _lengths(&a)
    if a.rank == desc.ndim and lens == desc.lens:
        for i in range(a.rank):
            if a.len[i] > 1 and a.step[i] != desc.strides[i] * a.width:
                raise BadParmError("array has the descriptor's lengths but another layout", name,
                                   tuple([a.step[i] // a.width for i in range(a.rank)]), desc.strides)
    elif not a.contiguous:
        raise BadParmError("array is not contiguous and its shape is not the descriptor's", name, lens,
                           "a contiguous array, or one of the descriptor's shape and strides")
    elif sorted(lens) == sorted(desc.lens):
        raise BadParmError("array has the descriptor's lengths in an order that contradicts its strides", name, lens,
                           desc.lens)


# Host memory


cdef int fill_layout(layout_t* layout, const mx_tensor* t, int rank) noexcept:
    """Describe the array that a tensor's descriptor asks for, in the caller's rank."""
    cdef int i, axis
    layout.type, layout.rank = <int> t.type, rank
    for i in range(rank):
        axis = i if i < 2 else i + MX_AXES - rank
        layout.len[i], layout.step[i] = t.len[axis], t.stride[axis] * type_size(<int> t.type)
    return 0


cdef bint _fits(cnp.ndarray array, const layout_t* layout, bint output) noexcept:
    """Whether an array has the descriptor's type, lengths and strides, and nothing is the matter with it."""
    cdef int i, wanted = cnp.NPY_ARRAY_ALIGNED | (cnp.NPY_ARRAY_WRITEABLE if output else 0)
    cdef const cnp.npy_intp* length = cnp.PyArray_DIMS(array)
    cdef const cnp.npy_intp* step = cnp.PyArray_STRIDES(array)
    if (cnp.PyArray_NDIM(array) != layout.rank or data_type(cnp.PyArray_TYPE(array)) != layout.type
            or cnp.PyArray_FLAGS(array) & wanted != wanted or not cnp.PyArray_ISNOTSWAPPED(array)):
        return False
    for i in range(layout.rank):
        if length[i] != layout.len[i] or (step[i] != layout.step[i] and length[i] != 1):
            return False
    return True


cdef bint _tensor_fits(const DLTensor* t, const layout_t* layout) noexcept:
    """Whether an array on the host has the descriptor's type, lengths and strides."""
    cdef int64_t width = t.dtype.bits >> 3
    cdef int i
    if (t.ndim != layout.rank or dl_type(t.dtype) != layout.type or t.device.kind != DL_CPU or t.data == NULL
            or t.strides == NULL or (<size_t> t.data + t.byte_offset) % <size_t> width):
        return False
    for i in range(layout.rank):
        if t.shape[i] != layout.len[i] or (t.strides[i] * width != layout.step[i] and t.shape[i] != 1):
            return False
    return True


cdef bint _is_memory(cnp.ndarray array, int64_t need, bint output) noexcept:
    """Whether an array is at least `need` bytes in a row, of whatever type, and nothing is the matter with it."""
    cdef int wanted = cnp.NPY_ARRAY_C_CONTIGUOUS | (cnp.NPY_ARRAY_WRITEABLE if output else 0)
    return need > 0 and cnp.PyArray_NBYTES(array) >= need and cnp.PyArray_FLAGS(array) & wanted == wanted


cdef object bind_host(object data, str name, const mx_tensor* tensor, const layout_t* layout, int64_t need,
                      bint output, binding_t* out):
    """Write to `out` where the host memory of `data` is; at least `need` bytes of it.

    `tensor` and `layout` describe what it must hold, NULL for a workspace.  What is returned keeps the memory where it
    is: the caller holds it until the call is over.  Where nothing is needed `data` is not looked at.
    """
    cdef const DLPackExchangeAPI* api
    cdef DLTensor lent
    cdef array_t a
    out.lent = out.temporary = False
    out.serial, out.offset, out.kind, out.root = 0, 0, HOST_MEMORY, NULL
    if cnp.PyArray_Check(data):
        if layout != NULL and _fits(<cnp.ndarray> data, layout, output):
            out.ptr, out.size = cnp.PyArray_DATA(<cnp.ndarray> data), need
            out.root_offset = <int64_t> <uintptr_t> out.ptr
            return None
        if layout == NULL and _is_memory(<cnp.ndarray> data, need, output):
            out.ptr, out.size = cnp.PyArray_DATA(<cnp.ndarray> data), cnp.PyArray_NBYTES(<cnp.ndarray> data)
            out.root_offset = <int64_t> <uintptr_t> out.ptr
            return None
    elif type(data) is Memory:
        if output and (<Memory> data).read_only:
            raise BadParmError("array is read-only", name, type((<Memory> data).owner).__name__, "a writable array")
        _require_size((<Memory> data).bytes, need, name)
        out.ptr, out.size = (<Memory> data).ptr, need
        out.root_offset = <int64_t> <uintptr_t> out.ptr
        return data
    elif layout != NULL and need:
        api = exchange_api(data)
        if api != NULL:
            read_exchanged(api, data, name, &lent)
            if _tensor_fits(&lent, layout):
                out.ptr, out.size = <char*> lent.data + lent.byte_offset, need
                out.root_offset = <int64_t> <uintptr_t> out.ptr
                return None
    if need == 0:
        out.kind, out.ptr, out.size = UNBOUND, NULL, 0
        return None
    if data is None or isinstance(data, type):  # a class has the attributes of its objects, but no memory
        raise BadParmError("null" if data is None else "a class", name, data, "an array")
    if isinstance(data, int):
        raise BadParmError("a bare address has no size to check", name, data, "an array over that memory")
    if hasattr(data, "int_ptr") or hasattr(data, "base_data"):
        raise BadParmError("OpenCL memory on a host handle", name, type(data).__name__, "a NumPy array")
    held = read_array(data, name, &a)
    if not is_on_host(&a):
        raise BadParmError("memory of another device", name, device_text(&a), "memory of the host")
    if output and a.read_only:
        raise BadParmError("array is read-only", name, type(data).__name__, "a writable array")
    if tensor != NULL:
        _check_array(&a, data, name, tensor, layout.rank)
        if <size_t> a.ptr % <size_t> type_size(<int> tensor.type):
            raise BadParmError("misaligned array", name, hex(<size_t> a.ptr),
                               f"multiple of {type_size(<int> tensor.type)}")
    elif not a.contiguous:
        raise BadParmError("array is not contiguous", name, tuple([a.step[i] for i in range(min(a.rank, ARRAY_AXES))]),
                           "contiguous memory")
    _require_size(a.bytes, need, name)
    out.ptr, out.size, out.root_offset = a.ptr, a.bytes, <int64_t> <uintptr_t> a.ptr
    return data if held is None else held


# OpenCL memory


cdef uint64_t serials = 0
cdef object buffer_type = None   # pyopencl's, once it was imported
cdef object memory_type = None
_learning = threading.Lock()


def _after_fork_in_child():
    global _learning
    _learning = threading.Lock()  # nobody may be left to release the old one


posix.at_fork(after_in_child=_after_fork_in_child)

cdef extern from *:
    """
    #include <errno.h>
    #include <signal.h>
    #include <string.h>
    #if defined(__linux__)
    #include <sys/syscall.h>
    #include <unistd.h>
    #endif
    /* The first word at an address, 0 where nothing can be read there.  Linux looks at the set before it finds that
       there is no such way to change signals, so this asks whether a word is mapped and changes nothing. */
    static size_t mx_first_word(size_t address) {
        size_t word = 0;
    #if defined(__linux__)
        if (syscall(SYS_rt_sigprocmask, -1, (void *) address, (void *) 0, (size_t) 8) != -1 || errno == EFAULT)
            return 0;
    #endif
        memcpy(&word, (const void *) address, sizeof word);
        return word;
    }
    """
    size_t mx_first_word(size_t address) noexcept nogil


# Where a pyopencl.Buffer notes that it was released, and where its cl_mem; 0 where no such place was found.  `header`
# is what stands behind Python's own part of each object that is laid out so.
cdef Py_ssize_t note_at = 0, address_at = 0
cdef uint64_t note_header = 0


def know_buffer(type_, base, context):
    """Tell the type whose objects always name the same cl_mem, pyopencl.Buffer, and what all memory derives from."""
    global buffer_type, memory_type
    with _learning:
        if buffer_type is not type_:
            buffer_type = None
            _learn_the_note(type_(context, CL_MEM_READ_WRITE, 16))
            buffer_type, memory_type = type_, base


cdef int _learn_the_note(object sample) except -1:
    """Find the byte of a buffer's object that `release` clears, by releasing one.

    It is pyopencl's own, and nothing in Python shows it.  Where releasing changes anything else, or nothing within the
    object, it is not known.
    """
    global note_at, address_at, note_header
    cdef Py_ssize_t i, size = type(sample).__basicsize__, start = sizeof(PyObject)
    cdef const char* now = <const char*> <PyObject*> sample
    cdef size_t address = sample.int_ptr
    note_at = address_at = 0
    before = bytes(now[:size])
    sample.release()
    after = bytes(now[:size])
    changed = [i for i in range(start, size) if before[i] != after[i]]
    named = [i for i in range(start + 8, size - 7, 8) if int.from_bytes(before[i:i + 8], sys.byteorder) == address]
    if len(changed) == 1 and len(named) == 1 and before[changed[0]] == 1 and after[changed[0]] == 0:
        note_at, address_at = changed[0], named[0]
        memcpy(&note_header, <const char*> before + start, 8)
    return 0


cdef bint _is_noted_as_released(object buffer, size_t mem) noexcept:
    """Whether pyopencl says that an object released its cl_mem; not, where that cannot be known."""
    cdef const char* at = <const char*> <PyObject*> buffer
    return (note_at and type(buffer) is buffer_type and memcmp(at + sizeof(PyObject), &note_header, 8) == 0
            and memcmp(at + address_at, &mem, sizeof(mem)) == 0 and at[note_at] == 0)


# The first word of a live cl_mem: of the platform that was asked about last.
cdef uint64_t live_word = 0


cdef int _require_alive(object data, size_t mem, void* context, str name) except -1:
    """Refuse what cannot be a live cl_mem of a context's platform, without asking the driver about it."""
    cdef uint64_t word, live
    cdef cl_int code = 0
    cdef void* sample
    if not isinstance(data, int) and _is_noted_as_released(data, mem):
        raise_released(data, name)
    word = mx_first_word(mem)
    if word != 0 and word == load_uint64(live_word):
        return 0
    sample = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, 16, NULL, &code)
    check(code, "clCreateBuffer of 16 bytes")
    live = mx_first_word(<size_t> sample)
    cl.clReleaseMemObject(sample)
    store_uint64(live_word, live)
    if word == 0 or word != live:
        raise BadParmError("no live cl_mem of the handle's OpenCL platform: released, of another platform, or none",
                           name, hex(mem) if isinstance(data, int) else data, "a live buffer on the handle's context")
    return 0


cdef uint64_t next_serial() noexcept:
    return add_uint64(serials, 1)


cdef int _drop(memory_t* memory) noexcept:
    if add_int(memory.holders, -1) == 0:
        free(memory)
    return 0


@cython.no_gc
cdef class _Tether:
    """Hung on a buffer, it dies with it: then our reference to the cl_mem goes, and who remembers the memory knows."""

    cdef memory_t* memory

    def __dealloc__(self):
        if self.memory != NULL:
            store_pointer(self.memory.owner, NULL)
            if self.memory.born == fork_generation:
                cl.clReleaseMemObject(self.memory.mem)
            _drop(self.memory)


cdef int _describe(size_t mem, memory_t* memory) except -1:
    """Ask OpenCL about a cl_mem."""
    cdef size_t size = 0, origin = 0
    cdef cl_ulong flags = 0
    cdef cl_uint kind = 0
    cdef void* ptr = <void*> mem
    memset(memory, 0, sizeof(memory_t))
    check(cl.clGetMemObjectInfo(ptr, CL_MEM_TYPE, sizeof(cl_uint), &kind, NULL), "clGetMemObjectInfo")
    if kind != CL_MEM_OBJECT_BUFFER:
        raise BadParmError("memory that is no buffer", "cl_mem", hex(mem), "a buffer")
    check(cl.clGetMemObjectInfo(ptr, CL_MEM_CONTEXT, sizeof(void*), &memory.context, NULL), "clGetMemObjectInfo")
    check(cl.clGetMemObjectInfo(ptr, CL_MEM_SIZE, sizeof(size_t), &size, NULL), "clGetMemObjectInfo")
    check(cl.clGetMemObjectInfo(ptr, CL_MEM_FLAGS, sizeof(cl_ulong), &flags, NULL), "clGetMemObjectInfo")
    check(cl.clGetMemObjectInfo(ptr, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(void*), &memory.root, NULL),
          "clGetMemObjectInfo")
    if memory.root != NULL:  # a sub-buffer
        check(cl.clGetMemObjectInfo(ptr, CL_MEM_OFFSET, sizeof(size_t), &origin, NULL), "clGetMemObjectInfo")
    else:
        memory.root = ptr
    memory.mem, memory.size, memory.root_offset = ptr, <int64_t> size, <int64_t> origin
    memory.read_only = (flags & CL_MEM_READ_ONLY) != 0
    memory.born = fork_generation
    return 0


cdef int raise_released(object data, str name) except -1:
    raise BadParmError("buffer was released", name, data, "a live buffer")


cdef size_t _address_of(object buffer, str name) except 0:
    """The cl_mem that an object names."""
    kind = type(buffer)
    if kind.__module__.startswith("pyopencl") and memory_type is not None and not isinstance(buffer, memory_type):
        raise BadParmError("not memory", name, kind.__name__, "a buffer")  # a program's address, say
    try:
        mem = int(buffer.int_ptr)
    except (TypeError, ValueError, OverflowError) as e:
        raise BadParmError(f"int_ptr is no address: {e}", name, buffer, "a buffer") from None
    if not 0 < mem < 1 << 64:
        raise BadParmError("null" if mem == 0 else "int_ptr is no address", name, mem, "a buffer")
    return mem


def keep(buffer, context not None, str name not None):
    """Look at a buffer, at its first use or again: from now on it cannot be gone unseen (see `memory_t`)."""
    cdef memory_t scratch
    if memory_type is not None and isinstance(buffer, memory_type):
        _let_go(_memory_of(buffer, name, <void*> <size_t> context.int_ptr, &scratch), &scratch)


cdef int _let_go(memory_t* memory, memory_t* scratch) noexcept:
    """Drop what `_memory_of` returned."""
    if memory != scratch:
        _drop(memory)
    return 0


cdef bint hangs_on(const memory_t* memory, object data) noexcept:
    """Whether what is known as `memory` hangs on a buffer.

    Without the GIL what dies may go later than the address that it had is another's.
    """
    found = getattr(data, "_miopyx_memory", None)
    return type(found) is _Tether and (<_Tether> found).memory == memory


cdef memory_t* _memory_of(object buffer, str name, void* context, memory_t* scratch) except NULL:
    """What is known of a buffer, asked for at its first use; `scratch` holds it where it cannot be kept.

    It stays until `_let_go`.
    """
    cdef _Tether tether
    cdef memory_t* memory
    cdef size_t mem = _address_of(buffer, name)
    found = getattr(buffer, "_miopyx_memory", None)
    if found is not None:
        memory = (<_Tether?> found).memory
        if memory != NULL and load_pointer(memory.owner) == <const PyObject*> buffer and mem == <size_t> memory.mem:
            if is_released(memory):
                raise_released(buffer, name)
            add_int(memory.holders, 1)
            return memory
    _require_alive(buffer, mem, context, name)
    _describe(mem, scratch)
    tether = _Tether.__new__(_Tether)
    memory = <memory_t*> malloc(sizeof(memory_t))
    if memory == NULL:
        raise AllocFailedError("no memory to remember a buffer")
    memory[0] = scratch[0]
    memory.owner, memory.serial, memory.holders = <const PyObject*> buffer, next_serial(), 1
    if cl.clRetainMemObject(memory.mem) != 0:
        free(memory)
        raise_released(buffer, name)
    tether.memory = memory
    try:
        buffer._miopyx_memory = tether
        if MX_NO_GIL:  # another thread may have hung up its own
            found = buffer._miopyx_memory
            if type(found) is _Tether:
                tether = found
    except AttributeError:  # it takes none: asked about in each call
        return scratch
    memory = tether.memory
    add_int(memory.holders, 1)
    return memory


cdef int _bind(const memory_t* memory, int64_t offset, int64_t need, str name, const mx_tensor* tensor, bint output,
               void* context, binding_t* out) except -1:
    if memory.context != context:
        raise BadParmError("buffer of another context", name, hex(<size_t> memory.mem),
                           "a buffer on the handle's context")
    if output and memory.read_only:
        raise BadParmError("buffer is read-only", name, hex(<size_t> memory.mem), "a writable buffer")
    if tensor != NULL and offset % type_size(<int> tensor.type):
        raise BadParmError("misaligned offset", name, offset, f"multiple of {type_size(<int> tensor.type)}")
    _require_size(memory.size - offset, need, name)
    out.ptr, out.offset, out.size, out.kind = memory.mem, offset, memory.size - offset, CL_MEMORY
    out.root, out.root_offset, out.serial = memory.root, memory.root_offset + offset, memory.serial
    return 0


cdef int unbind(bound_t* s) noexcept:
    """Let go of what a slot remembers."""
    cdef bound_t old = s[0]
    s.memory = NULL
    s.shape = s.strides = s.dtype = NULL
    if old.memory != NULL:
        _drop(old.memory)
    Py_XDECREF(old.shape)
    Py_XDECREF(old.strides)
    Py_XDECREF(old.dtype)
    return 0


cdef object is_bound_array(const bound_t* s, object data, str name):
    """Whether `data` is a pyopencl Array over the memory that was found right, with nothing about it changed.

    Returns its buffer, which the caller holds until the call is over since the Array may get another one, else None.
    """
    if s.shape == NULL or s.memory == NULL:
        return None
    base = getattr(data, "base_data", None)
    if (base is None or load_pointer(s.memory.owner) != <const PyObject*> base or data.shape is not <object> s.shape
            or data.strides is not <object> s.strides or data.dtype is not <object> s.dtype
            or data.offset != s.b.offset or MX_NO_GIL and not hangs_on(s.memory, base)):
        return None
    if is_released(s.memory):
        raise_released(data, name)
    return base


cdef object bind_device(object data, str name, const mx_tensor* tensor, const layout_t* layout, int64_t need,
                        bint output, const place_t* place, void* queue, bound_t* out):
    """Write to `out` where the device's memory of `data` is; at least `need` bytes of it.

    `tensor` and `layout` describe what it must hold, NULL for a workspace.  What is returned keeps host memory where it
    is, and an Array's buffer, which another thread may take from it: the caller holds it until the call is over.  Where
    nothing is needed `data` is not looked at.  `queue` waits for whoever still writes the memory, where that is said.
    """
    cdef cl_int code = 0
    cdef memory_t scratch
    cdef memory_t* memory
    cdef void* context = place.context
    cdef array_t a
    cdef binding_t* b = &out.b
    unbind(out)
    b.lent = b.temporary = False
    b.serial = 0
    if need == 0:
        b.kind, b.ptr, b.offset, b.size = UNBOUND, NULL, 0, 0
        return None
    if place.rt != &opencl:
        return _bind_cuda(data, name, tensor, layout, need, output, place, queue, b)
    if type(data) is buffer_type:
        memory = _memory_of(data, name, context, &scratch)
        try:
            _bind(memory, 0, need, name, tensor, output, context, b)
            _remember(out, memory)
        finally:
            _let_go(memory, &scratch)
        return None
    if data is None or isinstance(data, type):  # a class has the attributes of its objects, but no memory
        raise BadParmError("null" if data is None else "a class", name, data, "a buffer")
    if isinstance(data, int):
        mem = to_int64(data, name)
        if mem == 0:
            raise BadParmError("null", name, None, "a buffer")
        if mem < 0:
            raise BadParmError("not a cl_mem", name, mem, "an address")
        _require_alive(data, mem, context, name)
        _describe(mem, &scratch)
        _bind(&scratch, 0, need, name, tensor, output, context, b)
        return None
    if getattr(data, "int_ptr", None) is not None:
        memory = _memory_of(data, name, context, &scratch)
        try:
            _bind(memory, 0, need, name, tensor, output, context, b)
        finally:
            _let_go(memory, &scratch)
        return None
    base = getattr(data, "base_data", None)
    if base is not None:  # pyopencl.array.Array
        shape, strides, dtype = data.shape, data.strides, data.dtype
        if tensor != NULL:
            describe_array(&a, dtype, shape, strides, name)
            _check_array(&a, data, name, tensor, layout.rank)
        if getattr(base, "int_ptr", None) is not None:
            memory = _memory_of(base, name, context, &scratch)
            try:
                _bind(memory, data.offset, need, name, tensor, output, context, b)
                if type(base) is buffer_type:
                    Py_INCREF(shape)
                    Py_INCREF(strides)
                    Py_INCREF(dtype)
                    out.shape, out.strides, out.dtype = <PyObject*> shape, <PyObject*> strides, <PyObject*> dtype
                    _remember(out, memory)
            finally:
                _let_go(memory, &scratch)
            return base
        data = base
    pointer = getattr(data, "svm_ptr", None)
    if pointer is not None:
        if cl.clSetKernelArgSVMPointer == NULL:
            raise BadParmError("the OpenCL loader has no SVM calls", name, type(data).__name__, "a Buffer")
        size = getattr(data, "size", None)
        if size is None:
            size = data.nbytes
        _require_size(size, need, name)
        b.ptr, b.offset, b.size, b.kind = <void*> <uintptr_t> pointer, 0, size, SVM_MEMORY
        b.root, b.root_offset = NULL, <int64_t> <uintptr_t> pointer
        return data
    if not place.shares_memory:
        raise BadParmError("host memory on a device with memory of its own", name, type(data).__name__,
                           "a pyopencl Buffer or Array on the handle's context: handle.upload(array)")
    held = bind_host(data, name, tensor, layout, need, output, b)
    b.lent = True
    if place.takes_pointers:
        b.kind = SVM_MEMORY
        return held
    # The device works in host memory: wrap it where it lies.
    b.ptr = cl.clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, b.size, b.ptr, &code)
    check(code, "clCreateBuffer over host memory")
    b.kind, b.temporary = CL_MEMORY, True
    return held


# CUDA's memory

cdef enum:
    BASE = 256   # to what an address is cut off where a kernel is told of it; the rest is an offset to it


cdef object _bind_cuda(object data, str name, const mx_tensor* tensor, const layout_t* layout, int64_t need,
                       bint output, const place_t* place, void* queue, binding_t* out):
    """`bind_device` for CUDA: buffers of ours, addresses, and arrays of whoever made them."""
    cdef array_t a
    cdef Buffer buffer
    cdef Memory memory
    cdef void* writer = NULL
    cdef bint waits = False
    if type(data) is Memory:  # who read it saw that it is this device's
        memory = <Memory> data
        if output and memory.read_only:
            raise BadParmError("array is read-only", name, type(memory.owner).__name__, "a writable array")
        _require_size(memory.bytes, need, name)
        _take_address(<int64_t> <uintptr_t> memory.ptr, memory.bytes, name, tensor, out)
        return data
    if type(data) is Buffer:
        buffer = <Buffer> data
        if buffer.address == 0:
            raise_released(data, name)
        if buffer.ordinal != place.ordinal:
            raise BadParmError("memory of another device", name, data, f"memory of cuda:{place.ordinal}")
        _require_size(buffer.size, need, name)
        return _take_address(buffer.address, buffer.size, name, tensor, out)
    if data is None or isinstance(data, type):
        raise BadParmError("null" if data is None else "a class", name, data, "memory of the device")
    if isinstance(data, int) and not isinstance(data, bool):
        return bind_address(to_int64(data, name), -1, need, name, tensor, place, out)
    held = read_cuda_array(data, name, tensor, &a, &writer, &waits)
    if a.device != DL_CUDA and a.device != DL_CUDA_MANAGED:
        raise BadParmError("memory of another device", name, device_text(&a), f"memory of cuda:{place.ordinal}")
    if output and a.read_only:
        raise BadParmError("array is read-only", name, type(data).__name__, "a writable array")
    if tensor != NULL:
        _check_array(&a, data, name, tensor, layout.rank)
    elif not a.contiguous:
        raise BadParmError("array is not contiguous", name, tuple([a.step[i] for i in range(min(a.rank, ARRAY_AXES))]),
                           "contiguous memory")
    if a.device_id >= 0:
        if a.device_id != place.ordinal and a.device == DL_CUDA:
            raise BadParmError("memory of another device", name, device_text(&a), f"memory of cuda:{place.ordinal}")
        _require_size(a.bytes, need, name)
        _take_address(<int64_t> <uintptr_t> a.ptr, a.bytes, name, tensor, out)
    else:  # nobody said whose it is
        bind_address(<int64_t> <uintptr_t> a.ptr, a.bytes, need, name, tensor, place, out)
    if waits and queue != NULL and not is_same_stream(writer, (<queue_t*> queue).stream):
        cuda_check(wait_for(queue, writer), "waiting for an array's stream")
    return data if held is None else held


cdef object bind_address(int64_t address, int64_t size, int64_t need, str name, const mx_tensor* tensor,
                         const place_t* place, binding_t* out):
    """Write to `out` memory that an address names, after CUDA's driver was asked what lies there.

    A negative size is the driver's to say.
    """
    cdef int32_t attributes[5]
    cdef void* values[5]
    cdef uint32_t kind = 0, managed = 0
    cdef int32_t ordinal = -1
    cdef uint64_t start = 0
    cdef size_t bytes = 0
    cdef int count = 5 if size < 0 else 3
    attributes[:] = [CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                     CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                     CU_POINTER_ATTRIBUTE_RANGE_SIZE]
    values[0], values[1], values[2], values[3], values[4] = &kind, &ordinal, &managed, &start, &bytes
    if address <= 0:
        raise BadParmError("null" if address == 0 else "not an address", name, address, "memory of the device")
    cuda_check(cu.cuPointerGetAttributes(count, attributes, values, <uint64_t> address), "cuPointerGetAttributes")
    if kind != CU_MEMORYTYPE_DEVICE and not managed:
        raise BadParmError("no memory of CUDA: released, of the host, or none", name, hex(address),
                           f"memory of cuda:{place.ordinal}")
    if ordinal != place.ordinal and not managed:
        raise BadParmError("memory of another device", name, f"cuda:{ordinal}", f"cuda:{place.ordinal}")
    if size < 0:
        size = <int64_t> (start + bytes) - address
    _require_size(size, need, name)
    return _take_address(address, size, name, tensor, out)


cdef bint is_same_stream(void* a, void* b) noexcept:
    """Whether two streams are one; 0 and 1 both name the legacy default stream."""
    return a == b or (<size_t> a <= 1 and <size_t> b <= 1)


cdef object _take_address(int64_t address, int64_t size, str name, const mx_tensor* tensor, binding_t* out):
    if tensor != NULL and address % type_size(<int> tensor.type):
        raise BadParmError("misaligned address", name, hex(address), f"multiple of {type_size(<int> tensor.type)}")
    out.offset = address % BASE
    out.ptr, out.size, out.kind = <void*> <uintptr_t> (address - out.offset), size, CUDA_MEMORY
    out.lent = out.temporary = False
    out.root, out.root_offset, out.serial = NULL, address, 0
    return None


def address_on_cuda(data, str name, int64_t need, int ordinal, size_t queue):
    """Return the address of at least `need` bytes of a CUDA device, as a call would take them."""
    cdef place_t place
    cdef binding_t out
    place.rt, place.context, place.ordinal, place.shares_memory = &cuda, NULL, ordinal, False
    _bind_cuda(data, name, NULL, NULL, need, False, &place, <void*> queue, &out)
    return out.root_offset


cdef int _remember(bound_t* out, memory_t* memory) noexcept:
    if load_pointer(memory.owner) != NULL:
        add_int(memory.holders, 1)
        out.memory = memory
    return 0
