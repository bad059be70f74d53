"""Arrays of whoever made them, read into one struct: NumPy's, PyTorch's, CuPy's, JAX's, any with DLPack.

NumPy's are read by its C functions.  A framework that offers DLPack's C functions with its type
(`__dlpack_c_exchange_api__`, as PyTorch does) is asked through them: no object is made, nothing is counted.  All others
are asked for `__array_interface__`, `__cuda_array_interface__` or `__dlpack__`, the first that they have.
"""

import numpy

cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_Clear
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_SetName
from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx.problem._descriptors cimport type_size
from miopyx.values._guard cimport load_int, mx_guard, mx_guard_lock, mx_guard_unlock, store_int
from miopyx.values._types cimport (
    MX_BFLOAT8, MX_BFLOAT16, MX_BYTE, MX_DOUBLE, MX_E4M3, MX_E5M2, MX_FLOAT, MX_FLOAT8, MX_HALF, MX_INT8, MX_INT32,
    MX_INT64, mx_tensor,
)

from miopyx.errors import BadParmError

cnp.import_array()


class FreedError(BadParmError):
    """An array has no memory any more, which other libraries may not look for before they read it."""


cdef extern from "Python.h":
    PyObject* Py_TYPE(object value)

cdef extern from *:
    """
    /* Calls that leave Python's error set where they fail: Cython raises it. */
    static int mx_tensor_of(int (*get)(void*, void*), void* array, void* out) { return get(array, out); }
    """
    int mx_tensor_of(void* get, void* array, void* out) except -1

cdef extern from *:
    """
    static PyObject* mx_made(int (*make)(void*, void**), void* tensor) {
        void* made = NULL;
        return make(tensor, &made) == 0 ? (PyObject*) made : NULL;
    }
    """
    object mx_made(void* make, void* tensor)

# DLPack's codes of types.
cdef enum:
    DL_INT = 0
    DL_UINT = 1
    DL_FLOAT = 2
    DL_BFLOAT = 4
    DL_BOOL = 6
    DL_FLOAT8_E4M3FN = 10
    DL_FLOAT8_E4M3FNUZ = 11
    DL_FLOAT8_E5M2 = 12
    DL_FLOAT8_E5M2FNUZ = 13

cdef enum:
    DL_MAJOR = 1
    DL_READ_ONLY = 1           # among a tensor's flags

# NumPy's numbers of ml_dtypes' types; given to them when ml_dtypes is imported.
cdef int _bfloat16 = -1, _float8 = -1, _bfloat8 = -1, _e4m3 = -1, _e5m2 = -1


cdef int data_type(int number) noexcept:
    """The miopenDataType_t of a NumPy type number, MX_BYTE of bool, -1 where that takes a closer look."""
    if number == cnp.NPY_FLOAT:
        return MX_FLOAT
    if number == cnp.NPY_FLOAT16:
        return MX_HALF
    if number == cnp.NPY_DOUBLE:
        return MX_DOUBLE
    if number == load_int(_bfloat16):
        return MX_BFLOAT16
    if number == load_int(_float8):
        return MX_FLOAT8
    if number == load_int(_bfloat8):
        return MX_BFLOAT8
    if number == load_int(_e4m3):
        return MX_E4M3
    if number == load_int(_e5m2):
        return MX_E5M2
    if number == cnp.NPY_BYTE:
        return MX_INT8
    if number == cnp.NPY_BOOL:
        return MX_BYTE
    if number == cnp.NPY_INT:
        return MX_INT32
    if number == cnp.NPY_LONG and sizeof(long) == 8:
        return MX_INT64
    return -1


cdef int type_of(object dtype) except -2:
    """The miopenDataType_t of a NumPy dtype, MX_BYTE of bool, negative for any other."""
    cdef int number = dtype.num, found = data_type(number)
    if found >= 0 or dtype.kind not in "Vf":
        return found
    name = dtype.name
    if name == "bfloat16":
        store_int(_bfloat16, number)
    elif name == "float8_e4m3fnuz":
        store_int(_float8, number)
    elif name == "float8_e5m2fnuz":
        store_int(_bfloat8, number)
    elif name == "float8_e4m3fn":
        store_int(_e4m3, number)
    elif name == "float8_e5m2":
        store_int(_e5m2, number)
    return data_type(number)


cdef int dl_type(DLDataType t) noexcept:
    if t.lanes != 1:
        return -1
    if t.code == DL_FLOAT:
        return MX_FLOAT if t.bits == 32 else MX_HALF if t.bits == 16 else MX_DOUBLE if t.bits == 64 else -1
    if t.code == DL_BOOL:
        return MX_BYTE if t.bits == 8 else -1
    if t.code == DL_BFLOAT:
        return MX_BFLOAT16 if t.bits == 16 else -1
    if t.code == DL_INT:
        return MX_INT8 if t.bits == 8 else MX_INT32 if t.bits == 32 else MX_INT64 if t.bits == 64 else -1
    if t.code == DL_FLOAT8_E4M3FNUZ:
        return MX_FLOAT8
    if t.code == DL_FLOAT8_E5M2FNUZ:
        return MX_BFLOAT8
    return MX_E4M3 if t.code == DL_FLOAT8_E4M3FN else MX_E5M2 if t.code == DL_FLOAT8_E5M2 else -1


cdef DLDataType dl_type_of(int kind) noexcept:
    """DLPack's type of a miopenDataType_t."""
    cdef DLDataType t
    t.lanes, t.code = 1, DL_FLOAT
    t.bits = 32 if kind == MX_FLOAT or kind == MX_INT32 else 64 if kind == MX_DOUBLE or kind == MX_INT64 else 16
    if kind == MX_INT8 or kind == MX_INT32 or kind == MX_INT64:
        t.code = DL_INT
    elif kind == MX_BFLOAT16:
        t.code = DL_BFLOAT
    elif kind == MX_FLOAT8 or kind == MX_BFLOAT8:
        t.code = DL_FLOAT8_E4M3FNUZ if kind == MX_FLOAT8 else DL_FLOAT8_E5M2FNUZ
    elif kind == MX_E4M3 or kind == MX_E5M2:
        t.code = DL_FLOAT8_E4M3FN if kind == MX_E4M3 else DL_FLOAT8_E5M2
    if type_size(kind) == 1:
        t.bits = 8
    return t


cdef object made_array(const DLPackExchangeAPI* api, DLManagedTensorVersioned* tensor):
    """The library's own array over memory that it made, which it takes over."""
    return mx_made(<void*> api.array_of, tensor)


cdef str type_text(object data):
    """What an array calls the type of its elements."""
    dtype = getattr(data, "dtype", None)
    return str(getattr(dtype, "name", None) or dtype).rpartition(".")[2]


cdef str device_text(const array_t* a):
    names = {DL_CPU: "cpu", DL_CUDA: "cuda", DL_CUDA_HOST: "pinned memory", 4: "opencl", 10: "rocm",
             DL_CUDA_MANAGED: "managed memory", 14: "oneapi"}
    return f"{names.get(a.device, f'DLPack device {a.device}')}:{a.device_id}"


cdef bint is_on_host(const array_t* a) noexcept:
    return a.device == DL_CPU or a.device == DL_CUDA_HOST or a.device == DL_ROCM_HOST or a.device == DL_CUDA_MANAGED


cdef int _measure(array_t* a, str name, const int64_t* length, const int64_t* stride, int64_t unit) except -1:
    """Fill in lengths and strides, `stride` times `unit` bytes, NULL for C order, and what follows from them."""
    cdef int64_t step, packed = a.width, last = 0
    cdef int i
    cdef bint empty = False  # where there is no element strides say nothing, and libraries leave 0 there
    a.contiguous = True
    for i in range(a.rank):
        empty = empty or length[i] == 0
    for i in range(a.rank - 1, -1, -1):
        step = packed if stride == NULL or empty else stride[i] * unit
        if step != packed and length[i] != 1:
            a.contiguous = False
            if step < 0:
                raise BadParmError("negative stride", name, tuple([stride[j] for j in range(a.rank)]), ">= 0")
        if i < ARRAY_AXES:
            a.len[i], a.step[i] = length[i], step
        last += (length[i] - 1) * step if length[i] > 1 else 0
        packed *= max(1, length[i])
    a.bytes = 0 if empty else last + a.width
    return 0


cdef int describe_array(array_t* a, object dtype, object shape, object strides, str name) except -1:
    """Fill in what an array says of itself, all but where it is; `strides` in bytes."""
    cdef int64_t length[64]
    cdef int64_t stride[64]
    cdef int i
    memset(a, 0, sizeof(array_t))
    a.type, a.width, a.rank = type_of(dtype), dtype.itemsize, len(shape)
    a.raw, a.swapped = dtype.num == cnp.NPY_UBYTE, not dtype.isnative
    if a.rank > 64:
        raise BadParmError("too many axes", name, a.rank, "<= 64")
    for i in range(a.rank):
        length[i], stride[i] = shape[i], strides[i]
    return _measure(a, name, length, stride, 1)


cdef int _read_numpy(cnp.ndarray data, str name, array_t* a) except -1:
    cdef int number = cnp.PyArray_TYPE(data)
    a.type, a.raw = data_type(number), number == cnp.NPY_UBYTE
    if a.type < 0:
        a.type = type_of(data.dtype)
    a.width, a.rank, a.swapped = cnp.PyArray_ITEMSIZE(data), cnp.PyArray_NDIM(data), not cnp.PyArray_ISNOTSWAPPED(data)
    a.ptr, a.device, a.read_only = cnp.PyArray_DATA(data), DL_CPU, not cnp.PyArray_ISWRITEABLE(data)
    return _measure(a, name, <const int64_t*> cnp.PyArray_DIMS(data), <const int64_t*> cnp.PyArray_STRIDES(data), 1)


cdef int _read_tensor(const DLTensor* t, object data, str name, array_t* a) except -1:
    a.ptr, a.rank = <char*> t.data + t.byte_offset, t.ndim
    a.width = (t.dtype.bits * t.dtype.lanes + 7) // 8
    a.type, a.raw = dl_type(t.dtype), t.dtype.code == DL_UINT and t.dtype.bits == 8 and t.dtype.lanes == 1
    a.device, a.device_id = t.device.kind, t.device.id
    if t.dtype.bits * t.dtype.lanes % 8:
        raise BadParmError("elements of parts of a byte", name, type_text(data), "whole bytes")
    if a.rank < 0 or a.rank > 64 or a.rank > 0 and t.shape == NULL:
        raise BadParmError("an array without a shape", name, type(data).__name__, "lengths")
    _measure(a, name, t.shape, t.strides, a.width)
    if t.data == NULL and a.bytes:
        raise FreedError("an array without memory", name, type(data).__name__, "one whose storage was not freed")
    return 0


# The last two types that were asked about, their functions (NULL for none), and the method that says that an array is
# to be read with its sign turned, which DLPack does not tell.
cdef object _type_0 = None, _type_1 = None, _turned_0 = None, _turned_1 = None
cdef const DLPackExchangeAPI* _api_0 = NULL
cdef const DLPackExchangeAPI* _api_1 = NULL


cdef mx_guard _guard             # of these


cdef const DLPackExchangeAPI* exchange_api(object data) noexcept:
    """DLPack's C functions for a type of arrays, NULL where it has none that are of use."""
    global _type_0, _type_1, _api_0, _api_1, _turned_0, _turned_1
    cdef const DLPackExchangeAPI* api = NULL
    cdef bint known = False
    mx_guard_lock(&_guard)
    if Py_TYPE(data) == <PyObject*> _type_0:
        api, known = _api_0, True
    elif Py_TYPE(data) == <PyObject*> _type_1:
        _type_0, _type_1, _turned_0, _turned_1 = _type_1, _type_0, _turned_1, _turned_0
        _api_0, _api_1 = _api_1, _api_0
        api, known = _api_0, True
    mx_guard_unlock(&_guard)
    if known:
        return api
    kind, turned = type(data), None
    try:
        capsule = kind.__dlpack_c_exchange_api__
        turned = getattr(kind, "is_neg", None)
        if PyCapsule_IsValid(capsule, "dlpack_exchange_api"):
            api = <const DLPackExchangeAPI*> PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
            while api != NULL and api.header.version.major != DL_MAJOR:
                api = <const DLPackExchangeAPI*> api.header.before
            if api != NULL and api.tensor_of == NULL:
                api = NULL
    except Exception:  # it has none
        api = NULL
    mx_guard_lock(&_guard)
    _old, _older = _type_1, _turned_1  # go when the guard does
    _type_1, _api_1, _turned_1 = _type_0, _api_0, _turned_0
    _type_0, _api_0, _turned_0 = kind, api, turned
    mx_guard_unlock(&_guard)
    return api


cdef inline object _turned_of(object data):
    """The method of the type that `exchange_api` was just asked about."""
    cdef bint known
    cdef object turned = None
    mx_guard_lock(&_guard)
    known = Py_TYPE(data) == <PyObject*> _type_0
    if known:
        turned = _turned_0
    mx_guard_unlock(&_guard)
    return turned if known else getattr(type(data), "is_neg", None)


cdef int read_exchanged(const DLPackExchangeAPI* api, object data, str name, DLTensor* out) except -1:
    """Ask an array of the type that `exchange_api` was just asked about."""
    turned = _turned_of(data)
    out.data, out.shape, out.strides = NULL, NULL, NULL
    try:
        mx_tensor_of(<void*> api.tensor_of, <void*> data, out)
    except Exception as e:
        why = str(e).partition("\n")[0]
        raise BadParmError(f"its library does not lend it: {why}", name, type(data).__name__,
                           "an array of plain memory") from None
    if turned is not None and turned(data):
        raise BadParmError("an array that is to be read with its sign turned", name, type(data).__name__,
                           "resolve_neg() of it")
    return 0


cdef class _Borrowed:
    """Memory that `__dlpack__` lent; given back when this dies."""

    cdef DLManagedTensorVersioned* tensor
    cdef DLManagedTensor* old

    def __dealloc__(self):
        if self.tensor != NULL and self.tensor.deleter != NULL:
            self.tensor.deleter(self.tensor)
        if self.old != NULL and self.old.deleter != NULL:
            self.old.deleter(self.old)


cdef _Borrowed _borrow(object data, str name):
    """Ask an object for its memory by DLPack, version 1 or before it."""
    cdef _Borrowed held = _Borrowed()
    try:
        try:
            capsule = data.__dlpack__(max_version=(DL_MAJOR, 0))
        except TypeError:  # from before versions
            capsule = data.__dlpack__()
    except Exception as e:  # whatever the library raises where it cannot
        raise BadParmError(f"its library does not lend it: {e}", name, type(data).__name__,
                           "an array that __dlpack__ gives") from e
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        held.tensor = <DLManagedTensorVersioned*> PyCapsule_GetPointer(capsule, "dltensor_versioned")
        PyCapsule_SetName(capsule, "used_dltensor_versioned")
        if held.tensor.version.major != DL_MAJOR:
            raise BadParmError("DLPack of another version", name, held.tensor.version.major, DL_MAJOR)
    elif PyCapsule_IsValid(capsule, "dltensor"):
        held.old = <DLManagedTensor*> PyCapsule_GetPointer(capsule, "dltensor")
        PyCapsule_SetName(capsule, "used_dltensor")
    else:
        raise BadParmError("__dlpack__ gave no capsule of DLPack", name, type(capsule).__name__, "a dltensor")
    return held


cdef object read_array(object data, str name, array_t* out):
    """Write to `out` what `data` is; returns what keeps its memory where it is, None where `data` does that itself.

    Raises
    ------
    BadParmError
        For what is no array, has negative strides, or that its library refuses to lend.
    """
    cdef const DLPackExchangeAPI* api
    cdef DLTensor tensor
    cdef _Borrowed held
    memset(out, 0, sizeof(array_t))
    if cnp.PyArray_Check(data):
        _read_numpy(data, name, out)
        return None
    api = exchange_api(data)
    if api != NULL:
        read_exchanged(api, data, name, &tensor)
        _read_tensor(&tensor, data, name, out)
        return None
    if isinstance(data, (bytes, bytearray, memoryview)):
        try:
            array = numpy.frombuffer(data, dtype=numpy.uint8)
        except ValueError as e:
            raise BadParmError(f"not usable memory: {e}", name, type(data).__name__, "contiguous bytes") from None
        _read_numpy(array, name, out)
        return array
    if hasattr(data, "__array_interface__"):
        try:
            array = numpy.asarray(data)
        except Exception as e:  # whatever is wrong with the description
            raise BadParmError(f"not an array: {e}", name, type(data).__name__, "a valid __array_interface__") from e
        _read_numpy(array, name, out)
        return array
    if hasattr(data, "__dlpack__"):
        held = _borrow(data, name)
        _read_tensor(&held.tensor.tensor if held.tensor != NULL else &held.old.tensor, data, name, out)
        out.read_only = held.tensor != NULL and held.tensor.flags & DL_READ_ONLY != 0
        return held
    raise BadParmError("not an array", name, type(data).__name__,
                       "an array of NumPy, PyTorch, CuPy, JAX or any other with __dlpack__ or __array_interface__")


cdef object read_cuda_array(object data, str name, const mx_tensor* tensor, array_t* out, void** writer, bint* waits):
    """`read_array` for memory of CUDA; `writer` is the stream that may still write it, where `waits` is set.

    A type of two bytes that has no name in `__cuda_array_interface__` is bfloat16 where `tensor` asks for that, one of
    one byte a float8.
    """
    cdef const DLPackExchangeAPI* api
    cdef DLTensor given
    waits[0] = False
    if cnp.PyArray_Check(data):
        raise BadParmError("host memory on a device with memory of its own", name, type(data).__name__,
                           "memory of CUDA: handle.upload(array)")
    api = exchange_api(data)
    if api != NULL:
        memset(out, 0, sizeof(array_t))
        read_exchanged(api, data, name, &given)
        _read_tensor(&given, data, name, out)
        waits[0] = out.device == DL_CUDA and current_stream(data, out.device_id, writer)
        return None
    try:
        interface = getattr(data, "__cuda_array_interface__", None)
    except Exception as e:  # whatever the library raises where it cannot
        why = str(e).partition("\n")[0]
        raise BadParmError(f"its memory cannot be had: {why}", name, type(data).__name__,
                           "a valid __cuda_array_interface__") from None
    if interface is None:
        return read_array(data, name, out)
    try:
        if interface.get("mask") is not None:
            raise ValueError("it is masked")
        shape, strides, dtype = tuple(interface["shape"]), interface.get("strides"), numpy.dtype(interface["typestr"])
        address, read_only = interface["data"]
        if strides is None:
            strides = _packed(shape, dtype.itemsize)
        elif len(strides) != len(shape):
            raise ValueError("strides of another number of axes")
        describe_array(out, dtype, shape, strides, name)
        out.ptr, out.read_only, stream = <void*> <size_t> address, read_only, interface.get("stream")
        if stream is not None:
            writer[0], waits[0] = <void*> <size_t> stream, True
    except BadParmError:
        raise
    except Exception as e:
        raise BadParmError(f"its memory cannot be had: {e}", name, type(data).__name__,
                           "a valid __cuda_array_interface__") from None
    if out.type < 0 and dtype.kind == "V" and tensor != NULL:
        if out.width == 2 and tensor.type == MX_BFLOAT16 or out.width == 1 and tensor.type in (
                MX_FLOAT8, MX_BFLOAT8, MX_E4M3, MX_E5M2):
            out.type = <int> tensor.type
    out.device, out.device_id = DL_CUDA, -1
    return None


cdef bint current_stream(object data, int ordinal, void** stream) except -1:
    """Write the stream on which an array's library works now on a device of CUDA; whether it says that."""
    cdef const DLPackExchangeAPI* api = exchange_api(data)
    if api == NULL or api.current_stream == NULL:
        return False
    if api.current_stream(DL_CUDA, ordinal, stream) == 0:
        return True
    PyErr_Clear()
    return False


cdef tuple _packed(tuple shape, int64_t step):
    found = []
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(reversed(found))


@cython.final
cdef class Memory:
    """Memory of an array that was read and found right: calls ask nothing more of it but its size."""

    @staticmethod
    cdef Memory of(const array_t* a, object owner):
        cdef Memory memory = Memory.__new__(Memory)
        memory.ptr, memory.bytes, memory.read_only, memory.owner = a.ptr, a.bytes, a.read_only, owner
        return memory
