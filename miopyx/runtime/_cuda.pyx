"""CUDA's driver without linking to it: a table of entry points, and the contract of runtimes on top of them.

The context is the device's primary one, which PyTorch and CuPy use; it is made current for a call of ours only where
it is not, and left as it was.  Programs are PTX, which NVIDIA's OpenCL compiler makes; `launchable` says what must be
changed in it.  A kernel is a struct of ours that holds its arguments, so that a launch is one call of the driver.
"""

import re
import threading

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from posix.dlfcn cimport RTLD_NOW, dlopen, dlsym

from ._runtime cimport fork_generation, tensor_map_t
from miopyx.values._args cimport to_int64
from miopyx.values._guard cimport add_int, mx_guard_lock, mx_guard_unlock

from miopyx.errors import AllocFailedError, BadParmError, UnknownError, from_cuda
from miopyx.values import posix

cdef enum:
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_READY = 600
    CU_EVENT_DISABLE_TIMING = 2
    CU_STREAM_CAPTURE_MODE_RELAXED = 2
    CU_POINTER_ATTRIBUTE_CONTEXT = 1
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0
    CU_JIT_ERROR_LOG_BUFFER = 5
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
    CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0
    CU_TENSOR_MAP_SWIZZLE_128B = 3
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0
    MAP_BYTES = 128
    MAP_ALIGNMENT = 64
    PORTABLE_CLUSTER = 8         # groups
    COOPERATIVE = -1             # in kernel_t.launch
    DEPENDENT = -2               # likewise
    LOG_BYTES = 8192
    MOST_GROUPS = 65535          # of a launch, on the second axis and the third
    ALIGNMENT = 16               # of an argument's value
    CHOSEN_ITEMS = 256           # of a work-group whose size is left to us, at most
    MOST_ARGUMENTS = 64

# In the order of cuda_table, whose members are all pointers.
ENTRY_POINTS = (
    b"cuInit", b"cuGetErrorName", b"cuDevicePrimaryCtxRetain", b"cuDeviceGet", b"cuCtxGetCurrent",
    b"cuCtxPushCurrent_v2", b"cuCtxPopCurrent_v2", b"cuCtxGetDevice", b"cuStreamGetCtx", b"cuStreamSynchronize",
    b"cuStreamWaitEvent", b"cuStreamIsCapturing", b"cuStreamQuery", b"cuThreadExchangeStreamCaptureMode",
    b"cuEventCreate", b"cuEventRecord", b"cuEventSynchronize", b"cuEventElapsedTime",
    b"cuEventDestroy_v2", b"cuMemAlloc_v2", b"cuMemFree_v2", b"cuMemsetD8Async", b"cuMemcpyHtoDAsync_v2",
    b"cuMemcpyDtoHAsync_v2", b"cuMemcpyDtoDAsync_v2", b"cuModuleLoadDataEx", b"cuModuleUnload", b"cuModuleGetFunction",
    b"cuFuncGetAttribute", b"cuLaunchKernel", b"cuLaunchKernelEx", b"cuOccupancyMaxActiveClusters",
    b"cuFuncSetAttribute", b"cuPointerGetAttributes", b"cuTensorMapEncodeTiled", b"cuTensorMapEncodeIm2col",
)
assert len(ENTRY_POINTS) * sizeof(void*) == sizeof(cuda_table)

cdef bint loaded = False
_loading = threading.Lock()
cdef dict contexts = {}          # of devices by their numbers: retained once, for the life of the process
cdef object contexts_lock = threading.Lock()


def _after_fork_in_child():
    global _loading, contexts_lock
    _loading, contexts_lock = threading.Lock(), threading.Lock()  # nobody may be left to release the old ones


posix.at_fork(after_in_child=_after_fork_in_child)


def load(str path):
    """Fill the table from the driver's library, once."""
    with _loading:
        if not loaded:
            _load(path)


cdef int _load(str path) except -1:
    global loaded, cu
    cdef cuda_table table
    cdef void** slot = <void**> &table
    cdef Py_ssize_t i
    name = path.encode()
    cdef void* library = dlopen(name, RTLD_NOW)
    if library == NULL:
        raise UnknownError("CUDA's driver cannot be loaded", "library", path)
    for i, name in enumerate(ENTRY_POINTS):
        slot[i] = dlsym(library, name)
        if slot[i] == NULL:
            raise UnknownError(f"CUDA's driver has no {name.decode()}: it is too old", "library", path, "CUDA 12")
    cu.cuGetErrorName = table.cuGetErrorName
    check(table.cuInit(0), "cuInit")
    cu = table
    cuda.release_kernel, cuda.set_arg, cuda.set_svm = _release_kernel, _set_arg, NULL
    cuda.set_map = _set_map
    cuda.enqueue, cuda.elapsed, cuda.finish = _enqueue, _elapsed, _finish
    cuda.retain_queue, cuda.release_queue = _retain_queue, _release_queue
    cuda.allocate, cuda.retain, cuda.release, cuda.fail = _allocate, NULL, _release, check
    loaded = True
    return 0


cdef int check(int32_t code, str what) except -1:
    cdef const char* name = NULL
    if code != 0:
        if cu.cuGetErrorName == NULL or cu.cuGetErrorName(code, &name) != 0 or name == NULL:
            name = b"an unknown CUDA error"
        raise from_cuda(code, name.decode(), what)
    return 0


# Contexts


def primary_context(int ordinal):
    """Return the address of a device's primary context."""
    cdef int32_t device = 0
    cdef void* context = NULL
    with contexts_lock:
        found = contexts.get(ordinal)
        if found is None or found[0] != fork_generation:
            check(cu.cuDeviceGet(&device, ordinal), f"cuDeviceGet({ordinal})")
            check(cu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain")
            found = contexts[ordinal] = fork_generation, <size_t> context
    return found[1]


cdef int32_t enter(void* context, bint* pushed) noexcept nogil:
    """Make a context current where it is not."""
    cdef void* now = NULL
    cdef int32_t code = cu.cuCtxGetCurrent(&now)
    pushed[0] = False
    if code == 0 and now != context:
        code = cu.cuCtxPushCurrent(context)
        pushed[0] = code == 0
    return code


cdef int leave(bint pushed) noexcept nogil:
    cdef void* context
    if pushed:
        cu.cuCtxPopCurrent(&context)
    return 0


# Streams


def stream_address(stream):
    """Return the CUstream that a number or an object names (PyTorch's, any with `__cuda_stream__`), else None."""
    if isinstance(stream, bool):
        return None
    if isinstance(stream, int):
        return stream
    address = getattr(stream, "cuda_stream", None)
    if address is None:
        protocol = getattr(stream, "__cuda_stream__", None)
        if protocol is None or isinstance(stream, type):
            return None
        try:
            address = protocol()[1] if callable(protocol) else protocol[1]
        except Exception as e:  # whatever a strange object raises
            raise BadParmError(f"__cuda_stream__ gives no stream: {e}", "stream", type(stream).__name__,
                               "a pair of a version and an address") from None
    return int(address)


def device_of_address(size_t address, str name):
    """Return the number of the device whose memory lies at an address."""
    cdef int32_t attribute = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, device = -1
    cdef void* value = &device
    check(cu.cuPointerGetAttributes(1, &attribute, &value, address), "cuPointerGetAttributes")
    if device < 0:
        raise BadParmError("no memory of CUDA: released, of the host, or none", name, hex(address),
                           "memory of a device of CUDA")
    return device


def device_of_stream(stream):
    """Return the number of the device that a stream belongs to; of the default streams that of the current context."""
    cdef void* context = NULL
    cdef int32_t device = 0
    cdef bint pushed
    cdef int64_t address = to_int64(stream_address(stream), "stream")
    if address < 0:
        raise BadParmError("not a CUstream", "stream", address, "an address")
    if address <= 2:
        index = getattr(stream, "device_index", None)
        if isinstance(index, int):
            return index
        check(cu.cuCtxGetCurrent(&context), "cuCtxGetCurrent")
        if context == NULL:
            return 0
        check(cu.cuCtxGetDevice(&device), "cuCtxGetDevice")
        return device
    check(cu.cuStreamGetCtx(<void*> <uintptr_t> address, &context), "cuStreamGetCtx")
    check(enter(context, &pushed), "cuCtxPushCurrent")
    cdef int32_t code = cu.cuCtxGetDevice(&device)
    leave(pushed)
    check(code, "cuCtxGetDevice")
    return device


cdef class Stream:
    """A stream on a device's primary context: what a CUDA handle's queue is.

    Attributes
    ----------
    cuda_stream : int
        The CUstream; 0 is the legacy default stream.
    ordinal : int
        CUDA's number of the device.
    owner : object
        What the stream was taken from, kept alive.
    """

    def __init__(self, int ordinal, owner=0):
        address = stream_address(owner)
        if address is None:
            raise BadParmError("not a CUDA stream", "stream", owner, "a number, or an object with cuda_stream")
        self.queue = <queue_t*> malloc(sizeof(queue_t))
        if self.queue == NULL:
            raise AllocFailedError("no memory for a stream")
        self.queue.holders = 1
        self.queue.stream = <void*> <uintptr_t> to_int64(address, "stream")
        self.ordinal, self.owner, self.born = ordinal, owner, fork_generation
        self.queue.context = <void*> <size_t> primary_context(ordinal)

    def __dealloc__(self):
        if self.queue != NULL:
            _release_queue(self.queue)

    @property
    def cuda_stream(self):
        return <size_t> self.queue.stream

    @property
    def int_ptr(self):
        """The address of what the spine calls a queue."""
        return <size_t> self.queue

    def follow(self, Stream before not None):
        """Let what this stream gets from now on wait for what another got until now.

        A stream that is being captured waits for nothing from outside of its graph, nor is it waited for.
        """
        check(wait_for(self.queue, before.queue.stream), "cuStreamWaitEvent")

    def __eq__(self, other):
        return (isinstance(other, Stream) and other.cuda_stream == self.cuda_stream and other.ordinal == self.ordinal)

    def __hash__(self):
        return hash((self.ordinal, self.cuda_stream))

    def __repr__(self):
        return f"<Stream {self.cuda_stream:#x} of cuda:{self.ordinal}>"


cdef int32_t wait_for(void* queue, void* stream) noexcept nogil:
    """Let a queue wait for what another stream holds, unless one of them is being captured and the other is not."""
    cdef queue_t* q = <queue_t*> queue
    cdef void* event = NULL
    cdef int32_t one = 0, other = 0
    cdef bint pushed
    cdef int32_t code = enter(q.context, &pushed)
    if code != 0:
        return code
    code = cu.cuStreamIsCapturing(q.stream, &one)
    if code == 0:
        code = cu.cuStreamIsCapturing(stream, &other)
    if code != 0 or (one != 0) != (other != 0):
        leave(pushed)
        return code
    code = cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)
    if code == 0:
        code = cu.cuEventRecord(event, stream)
        if code == 0:
            code = cu.cuStreamWaitEvent(q.stream, event, 0)
        cu.cuEventDestroy(event)
    leave(pushed)
    return code


cdef int is_idle(void* queue, void* stream) noexcept nogil:
    """1 where a stream of a queue's device has nothing to do, 0 where it has, -1 where that cannot be asked.

    A stream that is being captured has no present; another thread's capture is not disturbed.
    """
    cdef int32_t capturing = 0, mode = CU_STREAM_CAPTURE_MODE_RELAXED, code
    cdef bint pushed
    if enter((<queue_t*> queue).context, &pushed) != 0:
        return -1
    code = cu.cuThreadExchangeStreamCaptureMode(&mode)
    if code == 0:
        code = cu.cuStreamIsCapturing(stream, &capturing)
        if code == 0 and capturing == 0:
            code = cu.cuStreamQuery(stream)
        cu.cuThreadExchangeStreamCaptureMode(&mode)
    leave(pushed)
    return -1 if capturing else 1 if code == 0 else 0 if code == CUDA_ERROR_NOT_READY else -1


cdef int32_t _retain_queue(void* queue) noexcept nogil:
    add_int((<queue_t*> queue).holders, 1)
    return 0


cdef int32_t _release_queue(void* queue) noexcept nogil:
    cdef queue_t* q = <queue_t*> queue
    if add_int(q.holders, -1) == 0:
        free(q)
    return 0


cdef int32_t _finish(void* queue) noexcept nogil:
    cdef queue_t* q = <queue_t*> queue
    cdef bint pushed
    cdef int32_t code = enter(q.context, &pushed)
    if code == 0:
        code = cu.cuStreamSynchronize(q.stream)
        leave(pushed)
    return code


# Memory


cdef void* _allocate(void* context, size_t size, int32_t* code) noexcept nogil:
    cdef uint64_t address = 0
    cdef bint pushed
    code[0] = enter(context, &pushed)
    if code[0] == 0:
        code[0] = cu.cuMemAlloc(&address, size)
        leave(pushed)
    return <void*> <uintptr_t> address


cdef int32_t _release(void* memory) noexcept nogil:
    cdef void* context = NULL
    cdef void* place = &context
    cdef bint pushed
    cdef int32_t attribute = CU_POINTER_ATTRIBUTE_CONTEXT
    cdef int32_t code = cu.cuPointerGetAttributes(1, &attribute, &place, <uint64_t> memory)
    if code == 0:
        code = enter(context, &pushed)
        if code == 0:
            code = cu.cuMemFree(<uint64_t> memory)
            leave(pushed)
    return code


cdef class Buffer:
    """Memory of a CUDA device, freed when it dies; what a CUDA handle's `upload` returns.

    Has `__cuda_array_interface__`, as unsigned bytes.
    """

    def __init__(self, int ordinal, int64_t size):
        cdef int32_t code = 0
        if size <= 0:
            raise BadParmError("no empty buffers", "size", size, "at least one byte")
        self.context = <void*> <size_t> primary_context(ordinal)
        self.ordinal, self.size, self.born = ordinal, size, fork_generation
        self.address = <uint64_t> _allocate(self.context, size, &code)
        check(code, f"cuMemAlloc of {size} bytes")

    def __dealloc__(self):
        self.release()

    def release(self):
        """Free the memory now; using the buffer afterwards is a BadParmError."""
        cdef bint pushed
        cdef uint64_t address
        mx_guard_lock(&self.guard)
        address, self.address = self.address, 0
        mx_guard_unlock(&self.guard)
        if address and self.born == fork_generation and enter(self.context, &pushed) == 0:
            cu.cuMemFree(address)
            leave(pushed)

    @property
    def nbytes(self):
        return self.size

    @property
    def __cuda_array_interface__(self):
        if not self.address:
            raise BadParmError("buffer was released", "buffer", self, "a live buffer")
        return {"shape": (self.size,), "typestr": "|u1", "data": (self.address, False), "strides": None, "version": 3,
                "stream": None}

    def __repr__(self):
        return f"<Buffer of {self.size} bytes on cuda:{self.ordinal}{'' if self.address else ' released'}>"


def copy_in(Stream stream not None, Buffer buffer not None, const unsigned char[::1] data not None):
    """Fill a buffer from bytes that are no more than it holds, and wait for that."""
    _copy(stream, buffer.address, <void*> &data[0], min(data.shape[0], buffer.size), True)


def clear(Stream stream not None, Buffer buffer not None):
    """Fill a buffer with zeros, after what the stream holds."""
    cdef bint pushed
    cdef int32_t code = enter(stream.queue.context, &pushed)
    if code == 0:
        code = cu.cuMemsetD8Async(buffer.address, 0, buffer.size, stream.queue.stream)
        leave(pushed)
    check(code, f"clearing {buffer.size} bytes")


def repeat(Stream stream not None, Buffer buffer not None, int64_t size):
    """Fill a buffer with copies of its first `size` bytes, one at least, after what the stream holds."""
    cdef bint pushed
    cdef int64_t part
    cdef int32_t code = enter(stream.queue.context, &pushed)
    if code == 0:
        while code == 0 and 0 < size < buffer.size:
            part = min(size, buffer.size - size)
            code = cu.cuMemcpyDtoDAsync(buffer.address + size, buffer.address, part, stream.queue.stream)
            size += part
        leave(pushed)
    check(code, f"filling {buffer.size} bytes")


def copy_out(Stream stream not None, size_t address, unsigned char[::1] data not None):
    """Fill bytes from an address that was found to hold as many, after what the stream holds has run."""
    _copy(stream, address, &data[0], data.shape[0], False)


cdef int _copy(Stream stream, uint64_t address, void* data, size_t size, bint into) except -1:
    cdef queue_t* q = stream.queue
    cdef bint pushed
    cdef int32_t code
    with nogil:
        code = enter(q.context, &pushed)
        if code == 0:
            code = (cu.cuMemcpyHtoDAsync(address, data, size, q.stream) if into else
                    cu.cuMemcpyDtoHAsync(data, address, size, q.stream))
            if code == 0:
                code = cu.cuStreamSynchronize(q.stream)
            leave(pushed)
    check(code, f"copying {size} bytes")
    return 0


# Programs

_FUNCTION = re.compile(rb"^[ \t]*(?:\.(?:visible|weak)\s+)?\.(entry|func)\b", re.MULTILINE)
_HEAD = re.compile(rb"\.entry\s+([\w$.]+)\s*(?:\(([^)]*)\))?")
_PARAMETER = re.compile(rb"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z]+)(\d+)(?:\s+\.\w+(?:\s+\d+)?)*\s+[\w$.]+"
                        rb"(?:\s*\[(\d+)\])?")
_GROUP_SIZE = re.compile(rb"\.reqntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_ENVREG = re.compile(rb"mov\.\w+(\s+[%\w$]+\s*,\s*)%envreg(\d+)\s*;")
_LAUNCH = re.compile(rb"//launch: (?:cluster (\d+)|cooperative|(dependent))")
_AXES = b"xyz"


def launchable(bytes ptx not None):
    """Return PTX of NVIDIA's OpenCL as CUDA's driver can launch it, and what its kernels take.

    OpenCL's driver tells kernels where a launch is by registers that it sets: %envreg0 to 2 have the first group, 3 to
    5 the global offset, which we have none of, 6 to 8 the number of groups.  CUDA sets none of them, so a kernel that
    reads them gets one more parameter behind its own with the first and the third.  Thus a launch with more groups than
    CUDA takes on an axis can be made in several.

    Returns
    -------
    bytes
        The text, ended by a zero.
    dict
        Of each kernel: the bytes of its parameters, whether it has that parameter, the axes on which it may be launched
        in parts, its work-group's size, zeros where that is free, and how many groups run as a cluster, -1 where all do
        at once, -2 where they may begin before the launch in front ends (what OpenCL C has no words for stands in a
        comment), else 0.

    Raises
    ------
    UnknownError
        For PTX that reads other registers of this kind.
    """
    ptx = ptx.rstrip(b"\0")
    starts = [match.start() for match in _FUNCTION.finditer(ptx)]
    pieces = [ptx[:starts[0]] if starts else ptx]
    entries = {}
    apart = all(b"%envreg" not in ptx[a:b] or b".entry" in ptx[a:ptx.find(b"(", a)]
                for a, b in zip(starts, [*starts[1:], len(ptx)]))
    for start, end in zip(starts, [*starts[1:], len(ptx)]):
        piece = ptx[start:end]
        head = _HEAD.match(piece, piece.find(b".entry")) if b".entry" in piece.partition(b"{")[0] else None
        if head is None:  # a function that kernels call has no parameters of theirs: it sees one launch alone
            pieces.append(_ENVREG.sub(_without_grid, piece))
            continue
        name, parameters = head[1], head[2] or b""
        sizes = [int(bits) // 8 * int(count or 1) for _, bits, count in _PARAMETER.findall(parameters)]
        if len(sizes) != parameters.count(b".param"):
            raise UnknownError("parameters that cannot be read", name.decode(), parameters.decode(errors="replace"))
        group = _GROUP_SIZE.search(piece)
        reads = {int(number) for _, number in _ENVREG.findall(piece)}
        has_grid = bool(reads - {3, 4, 5})
        splits = sum(1 << axis for axis in range(3) if apart and (
            axis in reads or b"%%ctaid.%c" % _AXES[axis] not in piece)) if has_grid else 0
        if has_grid:
            grid = b".param .align 4 .b8 %s_grid[24]" % name
            text = b".entry %s(%s%s%s)" % (name, parameters.rstrip(), b",\n\t" if sizes else b"", grid)
            piece = piece[:head.start()] + text + piece[head.end():]
            piece = _ENVREG.sub(lambda match: _of_grid(match, name), piece)
        else:
            piece = _ENVREG.sub(_without_grid, piece)
        said = _LAUNCH.search(piece)
        launch = 0 if said is None else DEPENDENT if said[2] else int(said[1] or COOPERATIVE)
        entries[name.decode()] = (sizes, has_grid, splits,
                                  tuple([int(n or 1) for n in group.groups()]) if group else (0, 0, 0),
                                  launch)
        pieces.append(piece)
    text = b"".join(pieces)
    if b"%envreg" in text:
        line = next(line for line in text.splitlines() if b"%envreg" in line)
        raise UnknownError("PTX reads a register that only OpenCL's driver sets", "program",
                           line.strip().decode(errors="replace"))
    return text + b"\0", entries


def _without_grid(match):
    number = int(match[2])
    if 6 <= number <= 8:
        return b"mov.u32%s%%nctaid.%c;" % (match[1], _AXES[number - 6])
    return b"mov.u32%s0;" % match[1] if number < 6 else match[0]


def _of_grid(match, name):
    number = int(match[2])
    if 3 <= number <= 5 or number > 8:
        return _without_grid(match)
    return b"ld.param.u32%s[%s_grid+%d];" % (match[1], name, 4 * (number if number < 3 else number - 3))


cdef class Program(Contract):
    """A module of CUDA's driver.  `binary` is what NVIDIA's OpenCL made, so that both runtimes share it."""

    def __dealloc__(self):
        if self.module != NULL:
            _drop(self.module, self.born == fork_generation)

    cdef void* kernel(self, bytes name) except NULL:
        cdef kernel_t* kernel
        cdef bint pushed
        cdef Py_ssize_t i, at = 0
        cdef int32_t clusters = 1
        found = self.entries.get(name.decode())
        if found is None:
            raise UnknownError("the program has no such kernel", "kernel", name.decode(), ", ".join(self.entries))
        sizes, _has_grid, splits, fixed, launch = found
        if len(sizes) >= MOST_ARGUMENTS:
            raise UnknownError("too many arguments", name.decode(), len(sizes), f"< {MOST_ARGUMENTS}")
        kernel = <kernel_t*> calloc(1, sizeof(kernel_t))
        if kernel == NULL:
            raise AllocFailedError("no memory for a kernel")
        kernel.module = self.module
        add_int(self.module.holders, 1)
        try:
            kernel.count, kernel.splits, kernel.launch = len(sizes), splits, launch
            kernel.missing = (<uint64_t> 1 << len(sizes)) - 1
            kernel.sizes = <uint32_t*> calloc(len(sizes) + 1, sizeof(uint32_t))
            kernel.pointers = <void**> calloc(len(sizes) + 1, sizeof(void*))
            kernel.block = <char*> calloc(1, sum([_aligned(size) for size in sizes]) + ALIGNMENT)
            if kernel.sizes == NULL or kernel.pointers == NULL or kernel.block == NULL:
                raise AllocFailedError("no memory for a kernel")
            for i in range(len(sizes)):
                kernel.sizes[i], kernel.pointers[i] = sizes[i], kernel.block + at
                at += _aligned(sizes[i])
            kernel.pointers[kernel.count] = kernel.grid  # read only where the kernel has it
            for i in range(3):
                kernel.fixed[i] = fixed[i]
            check(enter(self.module.context, &pushed), "cuCtxPushCurrent")
            code = cu.cuModuleGetFunction(&kernel.function, self.module.module, name)
            if code == 0 and launch > 1:
                code = _clusters(kernel, &clusters)
            leave(pushed)
            check(code, f"cuModuleGetFunction({name.decode()})")
            if clusters == 0:
                raise UnknownError("the device has no room for a cluster of so many groups", name.decode(), launch)
        except BaseException:
            _release_kernel(kernel)
            raise
        return kernel

    def binary(self):
        return self.text

    def work_group_limit(self, str name):
        cdef kernel_t* kernel = <kernel_t*> self.kernel(name.encode())
        cdef int32_t limit = 0, code
        cdef bint pushed
        code = enter(self.module.context, &pushed)
        if code == 0:
            code = cu.cuFuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel.function)
            leave(pushed)
        _release_kernel(kernel)
        check(code, "cuFuncGetAttribute")
        return limit


def program_from_ptx(size_t context, bytes ptx not None):
    """Load what NVIDIA's OpenCL compiled; a failure carries the log of the driver's own compiler."""
    cdef Program program = Program()
    cdef int32_t options[2]
    cdef void* values[2]
    cdef bint pushed
    cdef int32_t code
    text, program.entries = launchable(ptx)
    program.text = ptx
    cdef const char* data = text
    log = bytearray(LOG_BYTES)
    cdef char* log_text = log
    options[0], options[1] = CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
    values[0], values[1] = log_text, <void*> <uintptr_t> LOG_BYTES
    cdef module_t* module = <module_t*> calloc(1, sizeof(module_t))
    if module == NULL:
        raise AllocFailedError("no memory for a program")
    program.module = module
    module.holders, module.context = 1, <void*> context
    with nogil:  # the driver compiles for seconds here
        code = enter(module.context, &pushed)
        if code == 0:
            code = cu.cuModuleLoadDataEx(&module.module, data, 2, options, values)
            leave(pushed)
    said = bytes(log).partition(b"\0")[0].decode(errors="replace").strip()
    check(code, f"cuModuleLoadDataEx{said and ': '}{said}")
    return program


cdef Py_ssize_t _aligned(Py_ssize_t size) noexcept:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


cdef int _drop(module_t* module, bint unload) noexcept nogil:
    cdef bint pushed
    if add_int(module.holders, -1) == 0:
        if unload and module.module != NULL and enter(module.context, &pushed) == 0:
            cu.cuModuleUnload(module.module)
            leave(pushed)
        free(module)
    return 0


# Kernels


cdef int32_t _release_kernel(void* kernel) noexcept nogil:
    cdef kernel_t* k = <kernel_t*> kernel
    _drop(k.module, True)
    free(k.sizes)
    free(k.pointers)
    free(k.block)
    free(k)
    return 0


cdef int32_t _set_arg(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    cdef kernel_t* k = <kernel_t*> kernel
    if index >= k.count or size != k.sizes[index]:
        return CUDA_ERROR_INVALID_VALUE
    memcpy(k.pointers[index], value, size)
    k.missing &= ~(<uint64_t> 1 << index)
    return 0


cdef int32_t _set_map(void* kernel, uint32_t index, const void* address, const tensor_map_t* map) noexcept nogil:
    cdef char[MAP_BYTES + MAP_ALIGNMENT] room
    cdef void* made = <void*> ((<uintptr_t> &room[0] + MAP_ALIGNMENT - 1) // MAP_ALIGNMENT * MAP_ALIGNMENT)
    cdef uint64_t[5] lens
    cdef uint64_t[5] strides
    cdef uint32_t[5] box
    cdef uint32_t[5] steps
    cdef int32_t element = CU_TENSOR_MAP_DATA_TYPE_UINT16 if map.bytes == 2 else CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
    cdef bint pushed
    cdef int32_t code
    cdef int i
    for i in range(map.rank):
        lens[i], box[i], steps[i] = map.len[i], map.box[i], map.step[i]
        if i > 0:
            strides[i - 1] = map.stride[i]
    code = enter((<kernel_t*> kernel).module.context, &pushed)
    if code != 0:
        return code
    if map.im2col:
        code = cu.cuTensorMapEncodeIm2col(
            made, element, map.rank, <void*> address, lens, strides, map.lower, map.upper,
            box[0], box[1], steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    else:
        code = cu.cuTensorMapEncodeTiled(
            made, element, map.rank, <void*> address, lens, strides, box, steps,
            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    leave(pushed)
    return _set_arg(kernel, index, MAP_BYTES, made) if code == 0 else code


cdef struct event_t:
    void* first
    void* last
    void* context


cdef int32_t _enqueue(void* queue, void* kernel, uint32_t dims, const size_t* global_size, const size_t* local_size,
                      void** event) noexcept nogil:
    cdef queue_t* q = <queue_t*> queue
    cdef kernel_t* k = <kernel_t*> kernel
    cdef size_t[3] block
    cdef size_t[3] grid
    cdef event_t* e = NULL
    cdef bint pushed
    cdef int32_t code
    cdef uint32_t i
    if k.missing != 0 or dims < 1 or dims > 3:
        return CUDA_ERROR_INVALID_VALUE
    for i in range(3):
        block[i] = grid[i] = 1
        if i < dims:
            block[i] = local_size[i] if local_size != NULL else _chosen(k, i, global_size[i])
            if block[i] == 0 or global_size[i] == 0 or global_size[i] % block[i] != 0:
                return CUDA_ERROR_INVALID_VALUE
            grid[i] = global_size[i] // block[i]
        if grid[i] > 0x7fffffff:
            return CUDA_ERROR_INVALID_VALUE
        k.grid[3 + i] = <uint32_t> grid[i]
        if i > 0 and grid[i] > MOST_GROUPS and not k.splits >> i & 1:
            return CUDA_ERROR_INVALID_VALUE
    code = enter(q.context, &pushed)
    if code != 0:
        return code
    if event != NULL:
        code = _begin(q, &e)
    if code == 0:
        code = _launch(q, k, grid, block)
    if e != NULL:
        if code == 0:
            code = cu.cuEventRecord(e.last, q.stream)
        if code != 0:
            _end(e)
        else:
            event[0] = e
    leave(pushed)
    return code


cdef size_t _chosen(const kernel_t* k, uint32_t axis, size_t items) noexcept nogil:
    """A size of work-groups that divides an axis: what the kernel demands, else the largest on the first."""
    cdef size_t size = min(items, <size_t> CHOSEN_ITEMS)
    if k.fixed[0] != 0:
        return k.fixed[axis]
    if axis > 0:
        return 1
    while size > 1 and items % size != 0:
        size -= 1
    return size


cdef int32_t _launch(queue_t* q, kernel_t* k, const size_t* grid, const size_t* block) noexcept nogil:
    """Launch a kernel, in parts where an axis has more groups than CUDA takes."""
    cdef int32_t code = 0
    cdef size_t y = 0, z = 0, high = 0, deep = 0
    if k.launch != 0:
        return _launch_with(q, k, grid, block)
    k.grid[0] = k.grid[1] = k.grid[2] = 0
    while z < grid[2]:
        deep = min(grid[2] - z, <size_t> MOST_GROUPS)
        y = 0
        while y < grid[1]:
            high = min(grid[1] - y, <size_t> MOST_GROUPS)
            k.grid[1], k.grid[2] = <uint32_t> y, <uint32_t> z
            code = cu.cuLaunchKernel(k.function, <uint32_t> grid[0], <uint32_t> high, <uint32_t> deep,
                                     <uint32_t> block[0], <uint32_t> block[1], <uint32_t> block[2], 0, q.stream,
                                     k.pointers, NULL)
            if code != 0:
                return code
            y += high
        z += deep
    return code


cdef void _set_config(launch_config* config, launch_attribute* attribute, const kernel_t* k) noexcept nogil:
    """What says that groups, or those of a cluster along the first axis, run at once, or may begin early."""
    memset(config, 0, sizeof(launch_config))
    memset(attribute, 0, sizeof(launch_attribute))
    config.attributes, config.count = attribute, 1
    if k.launch == COOPERATIVE:
        attribute.id, attribute.value[0] = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1
    elif k.launch == DEPENDENT:
        attribute.id, attribute.value[0] = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1
    else:
        attribute.id, attribute.value[0] = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, <uint32_t> k.launch
        attribute.value[1] = attribute.value[2] = 1


cdef int32_t _clusters(kernel_t* k, int32_t* clusters) noexcept nogil:
    """How many clusters of a kernel the device holds; large ones are allowed first."""
    cdef launch_config config
    cdef launch_attribute attribute
    cdef int32_t code = 0
    cdef int i
    if k.launch > PORTABLE_CLUSTER:
        code = cu.cuFuncSetAttribute(k.function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
    if code == 0:
        _set_config(&config, &attribute, k)
        for i in range(3):
            config.grid[i], config.block[i] = 1, max(1, k.fixed[i])
        config.grid[0] = k.launch
        code = cu.cuOccupancyMaxActiveClusters(clusters, k.function, &config)
    return code


cdef int32_t _launch_with(queue_t* q, kernel_t* k, const size_t* grid, const size_t* block) noexcept nogil:
    """Launch a kernel with the attribute that it asks for."""
    cdef launch_config config
    cdef launch_attribute attribute
    cdef int i
    _set_config(&config, &attribute, k)
    for i in range(3):
        if i > 0 and grid[i] > MOST_GROUPS:
            return CUDA_ERROR_INVALID_VALUE
        config.grid[i], config.block[i] = <uint32_t> grid[i], <uint32_t> block[i]
        k.grid[i] = 0
    config.stream = q.stream
    return cu.cuLaunchKernelEx(&config, k.function, k.pointers, NULL)


cdef int32_t _begin(queue_t* q, event_t** event) noexcept nogil:
    cdef event_t* e = <event_t*> malloc(sizeof(event_t))
    cdef int32_t code
    if e == NULL:
        return CUDA_ERROR_OUT_OF_MEMORY
    memset(e, 0, sizeof(event_t))
    e.context = q.context
    code = cu.cuEventCreate(&e.first, 0)
    if code == 0:
        code = cu.cuEventCreate(&e.last, 0)
    if code == 0:
        code = cu.cuEventRecord(e.first, q.stream)
    if code != 0:
        _end(e)
        return code
    event[0] = e
    return 0


cdef int _end(event_t* e) noexcept nogil:
    if e.first != NULL:
        cu.cuEventDestroy(e.first)
    if e.last != NULL:
        cu.cuEventDestroy(e.last)
    free(e)
    return 0


cdef int32_t _elapsed(void* event, double* ms) noexcept nogil:
    cdef event_t* e = <event_t*> event
    cdef float passed = 0
    cdef bint pushed
    cdef int32_t code = enter(e.context, &pushed)
    if code == 0:
        code = cu.cuEventSynchronize(e.last)
        if code == 0:
            code = cu.cuEventElapsedTime(&passed, e.first, e.last)
    ms[0] = passed
    _end(e)
    leave(pushed)
    return code
