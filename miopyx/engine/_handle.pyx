"""Handles: a device, its in-order queue, and everything prepared for it.

What was prepared for a problem lies in a table under the problem's bytes and a number that says what it is: a solver's
id, an algorithm (see `find`), or one of the answers below.  In front of the table stands a memo by the stamps of the
descriptors, so that a call whose descriptors are as they were neither checks nor packs them again.
"""

import contextlib
import weakref

import numpy

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcmp, memset

from ._arena cimport make_arena
from miopyx._core cimport Device, KernelSpec
from miopyx.values._guard cimport (
    MX_NO_GIL, load_double, load_flag, load_uint64, mx_guard_lock, mx_guard_unlock, store_flag, store_int64,
    store_uint64,
)
from miopyx.values._lock cimport acquire, mx_lock_drop, mx_lock_make
from miopyx.runtime._cuda cimport Stream
from miopyx.runtime._runtime cimport fork_generation, require, runtime_t
from miopyx.problem._descriptors cimport as_tensor
from miopyx.problem._problem cimport MATH_AS_SET, MATH_EXACT, MATH_ROUNDED, Problem, hash_bytes
from miopyx.values._args cimport raise_unknown, to_member

from miopyx.problem._descriptors import TensorDescriptor, numpy_type
from miopyx.runtime import _buffers, _cuda, _opencl, programs
from miopyx.values import config as environment, posix
from miopyx.errors import AllocFailedError, BadParmError, UnknownError

cdef enum:
    MATH_DEFAULT = 0       # miopenMathType_t
    MATH_PEDANTIC = 1
    TABLE_START = 16       # entries
    MEMO_START = 64        # pairs
    MEMO_MOST = 4096
    STREAMS_KEPT = 256

# Handles that may have to be abandoned after a fork.
cdef object live = weakref.WeakSet()


def _after_fork_in_child():
    """Leave behind what does not survive: locks that another thread held, and pyopencl's objects.

    The latter are leaked, since releasing them in the child may hang in the driver.
    """
    cdef Handle handle
    for handle in list(live):
        mx_lock_make(&handle.lock)
        memset(&handle.guard, 0, sizeof(handle.guard))
        handle.profiling = False
        if handle.own_queue is not None:
            Py_INCREF(handle.own_queue)
            Py_INCREF(handle.device.context)


posix.at_fork(after_in_child=_after_fork_in_child)


cdef enum:
    PROGRAMS_KEPT = 2048       # at most; kernels hold those that they are of


cdef class Kept:
    """What the handle may forget again."""


cdef inline bint _can_go(int64_t what) noexcept:
    """Whether what stands under a number is a Kept, which is prepared again where it is missing."""
    return what == OPERATION or what > 0  # a solver's id


cdef class Handle:
    """A device, its in-order queue, and everything prepared for it: programs, invokers, found times, workspace.

    Parameters
    ----------
    device : str, int, pyopencl.Device, pyopencl.CommandQueue, CUDA stream or None
        None takes the best device that works (MIOPYX_DEVICE, else GPUs, then OpenCL CPUs, then the host); a text names
        one as ``miopyx doctor`` prints it, ``"gpu"`` and ``"cpu"`` the best of its kind that works (without an OpenCL
        CPU the host), ``"host"`` the host path, ``"cuda:0"`` CUDA's driver (on the legacy default stream; ``"cuda"`` is
        the current device); a number is a place in doctor's list, from 0 on; a queue is used as it is (in-order only),
        and so is a CUDA stream, an object with `cuda_stream` or `__cuda_stream__`.
    stream : int, CUDA stream or pyopencl.CommandQueue, optional
        The queue, of `device` where that is given too; a number is a CUstream.

    A handle may be used by several threads of a process, not across fork.
    """

    def __init__(self, device=None, stream=None):
        from miopyx.device import devices

        if stream is not None:
            if device is not None and not isinstance(device, str):
                raise BadParmError("a queue beside a stream", "device", device, "a name, or no stream")
            info = None if device is None else devices.find(device)
            if info is not None and info.cuda < 0:
                raise BadParmError("a stream of CUDA on another device", "device", device, "cuda, or a queue alone")
            self.set_queue(stream if info is None else self._cuda_stream(stream, info))
            return
        if device is None or device == "":
            device = environment.get("MIOPYX_DEVICE") or None
        if device is None:
            self._adopt(devices.best(), None)
        elif isinstance(device, (str, int)) or devices.is_device(device):
            self._adopt(devices.find(device), None)
        else:
            self.set_queue(device)

    def __cinit__(self, *args, **kwargs):
        self.found, self.programs, self.left = {}, {}, []
        self.born = fork_generation
        if mx_lock_make(&self.lock) != 0:
            raise AllocFailedError("no memory for a handle's lock")
        live.add(self)

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.table_mask + 1 if self.table != NULL else 0):
            Py_XDECREF(self.table[i].problem)
            Py_XDECREF(self.table[i].value)
        free(self.table)
        free(self.memo)
        if self.queue_ptr != NULL and self.born == fork_generation:
            if self.arena is not None and self.arena.deallocator is not None:
                self.rt.finish(self.queue_ptr)
            self.rt.release_queue(self.queue_ptr)

    cdef int require_alive(self) except -1:
        if not load_flag(self.alive):
            raise BadParmError("handle was destroyed", "handle", self, "a live handle")
        if self.born != fork_generation and not self.device.is_host:
            raise UnknownError("handle was made before fork: OpenCL does not survive it, make a new one", "handle",
                               self, "a handle of this process")
        return 0

    cdef bint is_usable(self):
        return load_flag(self.alive) and (self.born == fork_generation or self.device.is_host)

    def _adopt(self, info, queue):
        """Take a device, and its own queue where none is given; return the programs that are left behind."""
        cdef Device device
        cdef void* pointer
        from miopyx.device import devices

        context, left = None, []
        address = number = 0
        if info.cuda >= 0:
            if queue is None:
                queue = self._cuda_stream(0, info)
            address = _cuda.primary_context(info.cuda)
        elif info.kind != "host":
            _opencl.load(devices.loader_path())
            if queue is None:
                context, queue = devices.open_device(info)
            else:
                context = queue.context
            _buffers.know_buffer(*devices.memory_types(), context)
            address, number = context.int_ptr, info.handle.int_ptr
        if self.device is None or self.device.context_ptr != address or self.device.device_ptr != number:
            # Programs and invokers belong to a context and a device, times to a device.
            left = list(self.programs.values())
            self._clear()
            self.drop_arena()
            device = Device(info, context)
        else:
            device = self.device
            if queue is not None and queue != self.own_queue:  # calls of both work in the same memory
                if info.cuda >= 0:
                    queue.follow(self.own_queue)
                else:
                    devices.follow(queue, self.own_queue)
        if device is not self.device:
            if MX_NO_GIL and self.device is not None:
                self.left.append(self.device)
            self.device = device
        pointer = NULL
        if queue is not None:
            pointer = <void*> <size_t> queue.int_ptr
            require(device.place.rt, device.place.rt.retain_queue(pointer), "keeping the queue")
            self.queue_profiles = self._profiles(queue)
        self._take_queue(queue, pointer, device.place.rt)
        store_flag(self.alive, True)
        return left

    cdef int _take_queue(self, object queue, void* pointer, const runtime_t* rt) except -1:
        """Let a queue, of which there is a reference, stand in the place of the last one."""
        cdef object _old = self.own_queue  # who takes it meanwhile finds it alive
        cdef void* old_pointer = self.queue_ptr
        cdef const runtime_t* old_rt = self.rt
        mx_guard_lock(&self.guard)
        self.own_queue, self.queue_ptr, self.rt = queue, pointer, rt
        mx_guard_unlock(&self.guard)
        if old_pointer != NULL:
            old_rt.release_queue(old_pointer)
        return 0

    cdef object here(self):
        """The queue, for who does not hold the lock."""
        mx_guard_lock(&self.guard)
        queue = self.own_queue
        mx_guard_unlock(&self.guard)
        return queue

    @property
    def queue(self):
        """The pyopencl.CommandQueue or CUDA stream, None on the host."""
        return self.here()

    def _cuda_stream(self, stream, info):
        from miopyx.device import cuda

        _cuda.load(cuda.library())
        if _cuda.stream_address(stream) is None:
            raise BadParmError("not a stream of CUDA", "stream", stream, "a number, or an object with cuda_stream")
        ordinal = _cuda.device_of_stream(stream) if info is None else info.cuda
        if info is not None and _cuda.stream_address(stream) > 2 and _cuda.device_of_stream(stream) != ordinal:
            raise BadParmError("a stream of another device", "stream", stream, info.name)
        return _cuda.Stream(ordinal, stream)

    def _profiles(self, queue):
        from miopyx.device import devices

        return isinstance(queue, _cuda.Stream) or devices.queue_profiles(queue)

    def set_queue(self, queue):
        """Use another queue from now on (miopenSetStream)."""
        from miopyx.device import devices

        if queue is None:
            raise UnknownError("Error setting stream to nullptr", "streamID", None, "a pyopencl.CommandQueue")
        if self.device is not None:
            self.require_alive()
            if self.device.is_host:
                raise BadParmError("a host handle has no queue", "streamID", queue, None)
        if isinstance(queue, int) or hasattr(queue, "cuda_stream") or hasattr(queue, "__cuda_stream__"):
            if not isinstance(queue, _cuda.Stream):
                here = self.device is not None and self.device.info.cuda >= 0 and _is_default(queue)
                queue = self._cuda_stream(queue, self.device.info if here else None)
            info = devices.find(f"cuda:{queue.ordinal}")
        else:
            info = devices.from_queue(queue)
        acquire(&self.lock)
        try:
            if self.profiling and not self._profiles(queue):
                raise BadParmError("profiling is on and the queue was made without CL_QUEUE_PROFILING_ENABLE",
                                   "streamID", queue, "a queue that profiles")
            left = self._adopt(info, queue)
        finally:
            mx_lock_drop(&self.lock)
        programs.store(left)

    cdef int turn_to(self, void* stream) except -1:
        """Use another stream of the same CUDA device from now on, without waiting.  The caller holds the lock."""
        cdef Stream queue = self.own_queue
        if queue.queue.stream == stream:
            return 0
        if self.streams is None:
            self.streams = {}
        queue = self.streams.get(<size_t> stream)
        if queue is None:
            if len(self.streams) >= STREAMS_KEPT:
                self.streams.clear()
            queue = self.streams[<size_t> stream] = Stream(self.device.info.cuda, <size_t> stream)
        require(self.rt, self.rt.retain_queue(queue.queue), "keeping the queue")
        return self._take_queue(queue, queue.queue, self.rt)

    def stream(self):
        """Return the pyopencl.CommandQueue or CUDA stream, None on the host (miopenGetStream)."""
        self.require_alive()
        acquire(&self.lock)  # Find may be timing on a queue of its own
        try:
            return self.own_queue
        finally:
            mx_lock_drop(&self.lock)

    @property
    def math_type(self):
        """What float32 convolutions of this handle may do, whatever their descriptors' MATH_TYPE says.

        miopenMathDefault: factors may be rounded to 11 bits, as TF32 does, where the device is faster so.
        miopenMathPedantic, as at first: only those whose descriptors allow it.  Plans stay as they were made.

        Raises
        ------
        BadParmError
            If it is set to anything else.
        """
        from miopyx.enums import miopenMathType_t

        return miopenMathType_t(MATH_DEFAULT if load_flag(self.allows_rounding) else MATH_PEDANTIC)

    @math_type.setter
    def math_type(self, value):
        cdef int kind = to_member(value, "miopenMathType_t", "math_type")
        if kind != MATH_DEFAULT and kind != MATH_PEDANTIC:
            raise_unknown(value, "miopenMathType_t", "math_type")
        self.require_alive()
        acquire(&self.lock)
        try:
            store_flag(self.allows_rounding, kind == MATH_DEFAULT)
            store_int64(self.math_changes, self.math_changes + 1)
            # What was answered for these descriptors was another problem.
            mx_guard_lock(&self.guard)
            self._forget_memo()
            mx_guard_unlock(&self.guard)
            self.forget_calls()
        finally:
            mx_lock_drop(&self.lock)

    cdef int math(self) noexcept:
        """As `fill_conv` takes it."""
        if not self.device.rounds_factors:
            return MATH_EXACT
        return MATH_ROUNDED if load_flag(self.allows_rounding) else MATH_AS_SET

    def set_profiling(self, bint enable):
        """Measure each call's kernels; calls then wait for them (miopenEnableProfiling)."""
        self.require_alive()
        acquire(&self.lock)  # Find's times must not be switched off under it
        try:
            if enable and not self.device.is_host and not self.queue_profiles:
                raise BadParmError("the queue was made without CL_QUEUE_PROFILING_ENABLE", "enable", True, False)
            store_flag(self.profiling, enable)
        finally:
            mx_lock_drop(&self.lock)

    def timing(self):
        """Return a context in which each call's kernels are timed, on a queue of our own where the user's cannot."""
        return _Timing(self)

    def last_kernel_time(self):
        """Milliseconds of the last call while profiling was on (miopenGetKernelTime)."""
        self.require_alive()
        return load_double(self.kernel_time)

    def finish(self):
        """Wait until everything enqueued has run."""
        cdef int32_t code
        cdef void* ptr
        cdef const runtime_t* rt
        self.require_alive()
        # All stay, should another thread move the handle meanwhile.
        mx_guard_lock(&self.guard)
        _queue, ptr, rt = self.own_queue, self.queue_ptr, self.rt
        mx_guard_unlock(&self.guard)
        if ptr != NULL:
            with nogil:
                code = rt.finish(ptr)
            require(rt, code, "waiting for what is enqueued")

    def destroy(self):
        """Let go of everything; using the handle afterwards is a BadParmError.

        What the cache of programs lacks of this handle's is written, which on PoCL takes part of a second a program.
        """
        acquire(&self.lock)
        try:
            if self.alive and self.born == fork_generation:
                if self.device.info.runtime == "pocl":  # 3.1 miscounts users of kernels that end while they run
                    with contextlib.suppress(UnknownError):
                        self.finish()
                self.drop_arena()
            left = list(self.programs.values())
            store_flag(self.alive, False)
            self._clear()
        finally:
            mx_lock_drop(&self.lock)
        programs.store(left)

    def __enter__(self):
        self.require_alive()
        return self

    def __exit__(self, *exc):
        self.destroy()

    def __reduce__(self):
        raise TypeError("a handle is bound to a device of this process: make another, descriptors can be copied")

    def __repr__(self):
        name = self.device.name if self.device is not None else None
        return f"<Handle {name}{'' if load_flag(self.alive) else ' destroyed'}>"

    def program(self, KernelSpec spec not None):
        """Return the built program of `spec`; a handle builds each once, unless many others were used since."""
        key = (spec.file, spec.options)
        program = self._used(key)
        if program is not None:
            return program
        acquire(&self.lock)
        try:
            program = self._used(key)
            if program is None:
                program = self.programs[key] = programs.build(self.device, spec.file, spec.options)
        finally:
            mx_lock_drop(&self.lock)
        self._drop_programs()
        return program

    def _drop_programs(self):
        """Forget what was used least lately beyond the limit, once the cache has it: shapes have programs each."""
        while len(self.programs) > PROGRAMS_KEPT:
            program = self.programs.pop(next(iter(list(self.programs)), None), None)
            if program is not None:
                programs.store([program])

    cdef object _used(self, tuple key):
        """The program of a key, behind those that were used earlier; None where there is none."""
        mx_guard_lock(&self.guard)  # over dictionaries of texts: nobody may find it missing
        program = self.programs.pop(key, None)
        if program is not None:
            self.programs[key] = program
        mx_guard_unlock(&self.guard)
        return program

    def has_program(self, KernelSpec spec not None):
        """Return whether `program` has this one at once."""
        self.require_alive()
        return (spec.file, spec.options) in self.programs

    def keep_program(self, KernelSpec spec not None, program not None, Device device not None):
        """Take a program that was made elsewhere for `device`, unless the handle has left it.

        Takes no lock: the thread that waits for others to make programs may hold the handle's.
        """
        if device is self.device:
            self.programs.setdefault((spec.file, spec.options), program)
            self._drop_programs()

    # The table.  What Find says of an algorithm, and answers to questions, are never removed but by a new value for the
    # same problem and number, since a Find's result must be there for a later call.  Of what can be prepared again,
    # operations and what stands under a solver's id, the half that was used least lately goes where there is too much:
    # recurrent layers make one for each number of rows, images of all sizes one each.

    cdef object lookup(self, const void* data, size_t size, int64_t what):
        """Return what is kept for a problem's bytes under a number, or None."""
        cdef entry_t* entry
        cdef object found = None
        cdef uint64_t h = hash_bytes(data, size)
        mx_guard_lock(&self.guard)
        if self.table != NULL:
            entry = self._place(data, size, what, h)
            if entry.value != NULL:
                found = <object> entry.value
        mx_guard_unlock(&self.guard)
        return found

    cdef entry_t* _place(self, const void* data, size_t size, int64_t what, uint64_t h) noexcept:
        """Return the entry of a problem and a number, or the empty one where it belongs."""
        cdef size_t i = _start(h, what) & self.table_mask
        cdef Problem problem
        cdef entry_t* entry
        while True:
            entry = &self.table[i]
            if entry.value == NULL:
                return entry
            if entry.hash == h and entry.what == what:
                problem = <Problem> entry.problem
                if problem.size == size and memcmp(problem.data, data, size) == 0:
                    return entry
            i = (i + 1) & self.table_mask

    cdef int keep(self, Problem problem, int64_t what, object value) except -1:
        """Keep a value for a problem under a number, in place of the one that stood there."""
        cdef entry_t before
        cdef entry_t* dropped = NULL
        cdef size_t i, count = 0
        cdef uint64_t h = hash_bytes(problem.data, problem.size)
        cdef int status
        if _can_go(what):
            <Kept?> value
        before.problem = before.value = NULL
        mx_guard_lock(&self.guard)
        status = self._keep(problem, what, value, h, &before, &dropped, &count)
        mx_guard_unlock(&self.guard)
        # Whoever runs one now holds it himself.  What dies may run any code: the table is whole again.
        Py_XDECREF(before.value)
        for i in range(count):
            Py_DECREF(<object> dropped[i].problem)
            Py_DECREF(<object> dropped[i].value)
        free(dropped)
        if status != 0:
            raise AllocFailedError("no memory for a handle's table", "entries", self.table_mask + 1)
        return 0

    cdef int _keep(self, Problem problem, int64_t what, object value, uint64_t h, entry_t* before, entry_t** dropped,
                   size_t* count) noexcept:
        cdef entry_t* entry
        if _can_go(what):
            if self.prepared >= PREPARED_KEPT and self._drop_prepared(dropped, count) != 0:
                return -1
            store_uint64(self.turn, self.turn + 1)
            store_uint64((<Kept> value).turn, self.turn)
        if 2 * (self.table_count + 1) > self.table_mask + 1 and self._grow_table() != 0:
            return -1
        entry = self._place(problem.data, problem.size, what, h)
        if entry.value == <PyObject*> value:
            return 0
        before.value = entry.value
        Py_INCREF(value)
        entry.value = <PyObject*> value
        if before.value != NULL:
            self._forget_memo()  # it borrows from the table
            return 0
        Py_INCREF(problem)
        entry.problem, entry.what, entry.hash = <PyObject*> problem, what, h
        self.table_count += 1
        self.prepared += _can_go(what)
        return 0

    cdef int _drop_prepared(self, entry_t** dropped, size_t* count) noexcept:
        """Forget the half of what was prepared that was used least lately, which the caller then drops."""
        cdef entry_t* old = self.table
        cdef size_t i, j, kept = 0, size = self.table_mask + 1
        cdef uint64_t turn, last
        cdef entry_t* new = <entry_t*> calloc(size, sizeof(entry_t))
        cdef uint64_t* turns = <uint64_t*> malloc(self.prepared * sizeof(uint64_t))
        dropped[0] = <entry_t*> malloc(self.prepared * sizeof(entry_t))
        if new == NULL or turns == NULL or dropped[0] == NULL:
            free(new)
            free(turns)
            return -1
        j = 0
        for i in range(size):
            if old[i].value != NULL and _can_go(old[i].what):
                turns[j] = load_uint64((<Kept> old[i].value).turn)
                j += 1
        qsort(turns, j, sizeof(uint64_t), &_compare_turns)
        last = turns[j // 2]
        free(turns)
        self._forget_memo()
        for i in range(size):
            if old[i].value == NULL:
                continue
            if _can_go(old[i].what):
                turn = load_uint64((<Kept> old[i].value).turn)
                if turn < last or kept >= PREPARED_KEPT // 2:
                    dropped[0][count[0]] = old[i]
                    count[0] += 1
                    continue
                kept += 1
            j = _start(old[i].hash, old[i].what) & self.table_mask
            while new[j].value != NULL:
                j = (j + 1) & self.table_mask
            new[j] = old[i]
        self.table, self.prepared = new, kept
        self.table_count -= count[0]
        free(old)
        return 0

    cdef int _grow_table(self) noexcept:
        cdef entry_t* old = self.table
        cdef size_t i, j, size = self.table_mask + 1 if old != NULL else 0
        cdef size_t mask = 2 * size - 1 if size else TABLE_START - 1
        cdef entry_t* new = <entry_t*> calloc(mask + 1, sizeof(entry_t))
        if new == NULL:
            return -1
        for i in range(size):
            if old[i].value != NULL:
                j = _start(old[i].hash, old[i].what) & mask
                while new[j].value != NULL:
                    j = (j + 1) & mask
                new[j] = old[i]
        self.table, self.table_mask = new, mask
        free(old)
        return 0

    cdef int _clear(self) except -1:
        """Forget what was prepared."""
        cdef entry_t* table
        cdef size_t i, size
        mx_guard_lock(&self.guard)
        table, size = self.table, self.table_mask + 1 if self.table != NULL else 0
        self._forget_memo()
        self.table, self.table_mask, self.table_count, self.prepared = NULL, 0, 0, 0
        mx_guard_unlock(&self.guard)
        self.found.clear()
        self.programs.clear()
        self.forget_calls()
        for i in range(size):
            Py_XDECREF(table[i].problem)
            Py_XDECREF(table[i].value)
        free(table)
        return 0

    cdef object remember(self, const uint64_t* stamp, int count, int64_t call, int64_t what, const void* data,
                         size_t size):
        """Return what is kept for a problem, as `lookup` does, and let `recall` find it by the descriptors' stamps."""
        cdef memo_t* m
        cdef entry_t* entry
        cdef int i
        cdef object found = None
        cdef uint64_t h = hash_bytes(data, size)
        mx_guard_lock(&self.guard)
        if self.table != NULL:
            entry = self._place(data, size, what, h)
            if entry.value != NULL:
                found = <object> entry.value
                if self.memo == NULL or (self.memo_lost > 2 * self.memo_mask and self.memo_mask + 1 < MEMO_MOST):
                    self._grow_memo()
                if self.memo != NULL:  # without memory for it, it is found each time
                    m = &self.memo[2 * (memo_hash(stamp, count, call) >> 32 & self.memo_mask)]
                    self.memo_lost += m[1].value != NULL
                    m[1] = m[0]
                    for i in range(count):
                        m.stamp[i] = stamp[i]
                    m.call, m.value = call, entry.value
        mx_guard_unlock(&self.guard)
        return found

    cdef int _grow_memo(self) noexcept:
        cdef size_t pairs = 4 * (self.memo_mask + 1) if self.memo != NULL else MEMO_START
        cdef memo_t* new = <memo_t*> calloc(2 * pairs, sizeof(memo_t))
        if new == NULL:
            return -1
        free(self.memo)
        self.memo, self.memo_mask, self.memo_lost = new, pairs - 1, 0
        return 0

    cdef int _forget_memo(self) noexcept:
        """The caller holds the guard."""
        if self.memo != NULL:
            memset(self.memo, 0, 2 * (self.memo_mask + 1) * sizeof(memo_t))
        return 0

    def register(self, invoker not None, int64_t id):
        """Keep `invoker` under `id`, replacing what stood there."""
        self.keep(invoker.problem, id, invoker)

    def invoker(self, Problem problem not None, int64_t id):
        """Return the invoker registered under `id`, or None."""
        return self.lookup(problem.data, problem.size, id)

    # Managed workspace: one buffer a handle that only grows.  The queue is in-order, so users of it never overlap.

    cdef int reserve_arena(self, int64_t need) except -1:
        """See to it that the managed workspace has `need` bytes.  May run the user's allocator."""
        if self.arena is None or self.arena.binding.size < need:
            self.drop_arena()
            allocator, deallocator, context = self.allocator or (None, None, None)
            arena = make_arena(need, &self.device.place, allocator, deallocator, context)
            self.drop_arena()  # an allocator that called us left one here
            self.arena = arena
        return 0

    cdef int drop_arena(self) except -1:
        """Give the managed workspace back; the driver keeps its own memory until what uses it has run."""
        arena = self.arena
        if arena is not None and arena.deallocator is not None:
            self.finish()
        self.arena = None
        return 0

    def set_allocator(self, allocator, deallocator, context):
        """Take the managed workspace from `allocator(context, size)` (miopenSetAllocator)."""
        self.require_alive()
        if allocator is None and deallocator is None:
            if context is not None:
                raise UnknownError("a context without an allocator", "allocatorContext", context, None)
        elif not callable(allocator):
            raise BadParmError("not callable", "allocator", allocator, "allocator(context, size)")
        elif not callable(deallocator):
            raise BadParmError("not callable", "deallocator", deallocator, "deallocator(context, memory)")
        acquire(&self.lock)
        try:
            self.drop_arena()
            self.allocator = None if allocator is None else (allocator, deallocator, context)
        finally:
            mx_lock_drop(&self.lock)

    # Memory for people who do not want to talk to pyopencl.

    def empty(self, lens, dtype="float32"):
        """Return memory of this handle's device with anything in it: as `upload` does.

        Parameters
        ----------
        lens : sequence of int, or TensorDescriptor
            Lengths of a packed tensor; or what describes it wholly.
        dtype : miopenDataType_t, NumPy's dtype or its name
            Of a tensor given by its lengths.

        Raises
        ------
        BadParmError
            As TensorDescriptor.
        AllocFailedError
            Where the device has no room.
        """
        return self._new(lens, dtype, False)

    def zeros(self, lens, dtype="float32"):
        """Return memory of this handle's device with zeros in it; parameters and errors as for empty."""
        return self._new(lens, dtype, True)

    def _new(self, lens, dtype, bint clear):
        self.require_alive()
        desc = lens if isinstance(lens, TensorDescriptor) else TensorDescriptor(dtype, lens)
        as_tensor(desc, "lens").require_set("lens")
        kind = numpy_type(desc.data_type)
        strides = tuple([s * kind.itemsize for s in desc.strides])
        if self.device.is_host:
            memory = numpy.zeros(desc.nbytes, "u1") if clear else numpy.empty(desc.nbytes, "u1")
            return numpy.ndarray(desc.lens, kind, memory, strides=strides)
        if self.device.info.cuda >= 0:
            buffer = _cuda.Buffer(self.device.info.cuda, max(1, desc.nbytes))  # no driver has empty ones
            if clear:
                _cuda.clear(self.here(), buffer)
        else:
            from miopyx.device import devices

            buffer = devices.allocate(self.here(), max(1, desc.nbytes), clear)
            _buffers.keep(buffer, self.device.context, "array")
        buffer._miopyx_made = kind, desc.lens, strides
        return buffer

    def upload(self, array):
        """Return `array`'s content as memory of this handle's device.

        That is a pyopencl Buffer, under CUDA a buffer with `__cuda_array_interface__`, on the host a copy.

        Parameters
        ----------
        array : numpy or ml_dtypes array
            Of any type, lengths and strides; nested sequences of numbers are converted as NumPy does.

        Raises
        ------
        BadParmError
            For what has no numbers.
        AllocFailedError
            Where the device has no room.
        """
        self.require_alive()
        try:
            values = numpy.ascontiguousarray(array)
        except Exception as e:  # whatever a strange object raises
            raise BadParmError(f"not an array: {e}", "array", type(array).__name__, "an array of numbers") from None
        if values.dtype.hasobject or values.dtype.kind in "USMm":
            raise BadParmError("not an array of numbers", "array", type(array).__name__, "an array of numbers")
        if self.device.is_host:
            return numpy.array(array, copy=True, order="C")
        if values.size == 0:
            return self.empty(values.shape, values.dtype)
        if self.device.info.cuda >= 0:
            buffer = _cuda.Buffer(self.device.info.cuda, values.nbytes)
            _cuda.copy_in(self.here(), buffer, values.reshape(-1).view("u1"))
        else:
            from miopyx.device import devices

            buffer = devices.upload(self.here(), values)
            _buffers.keep(buffer, self.device.context, "array")
        buffer._miopyx_made = values.dtype, values.shape, values.strides
        return buffer

    def repeated(self, array, int64_t size):
        """Return `size` bytes of memory of this handle's device that repeat an array's; most are copied there.

        Parameters
        ----------
        array : numpy or ml_dtypes array
            Of one dimension, C-contiguous, with an element at least.
        size : int
            A multiple of an element's, at least one.

        Raises
        ------
        AllocFailedError
            Where the device has no room.
        BadParmError
            For another array, or another size.
        """
        self.require_alive()
        if array.ndim != 1 or array.size == 0 or not array.flags.c_contiguous:
            raise BadParmError("cannot be repeated", "array", f"lengths {array.shape}, strides {array.strides}",
                               "one dimension, contiguous, not empty")
        if size < array.itemsize or size % array.itemsize:
            raise BadParmError("no number of elements", "size", size, f"a multiple of {array.itemsize} bytes")
        array = array[:size // array.itemsize]
        if self.device.is_host:
            try:
                return numpy.resize(array, size // array.itemsize)
            except MemoryError:
                raise AllocFailedError("no memory", "size", size) from None
        if self.device.info.cuda >= 0:
            buffer = _cuda.Buffer(self.device.info.cuda, size)
            _cuda.copy_in(self.here(), buffer, array.view("u1"))
            _cuda.repeat(self.here(), buffer, array.nbytes)
        else:
            from miopyx.device import devices

            buffer = devices.allocate(self.here(), size, False)
            devices.repeat(self.here(), buffer, array)
            _buffers.keep(buffer, self.device.context, "array")
        buffer._miopyx_made = array.dtype, (size // array.itemsize,), (array.itemsize,)
        return buffer

    def download(self, buffer, array=None):
        """Fill an array from memory of this handle's device, waiting for what is enqueued, and return it.

        Parameters
        ----------
        buffer : pyopencl.Buffer, on the host a NumPy array, under CUDA memory as calls take it
            At least as long as the array.
        array : numpy or ml_dtypes array, optional
            C-contiguous and writable.  Without it a new one, as what `upload`, `empty` or `zeros` was asked for.

        Raises
        ------
        BadParmError
            For a buffer that is none, was released or is too short, and an array that cannot be filled.
        """
        self.require_alive()
        if array is None:
            return self._download_anew(buffer)
        if not isinstance(array, numpy.ndarray):
            raise BadParmError("not an array", "array", type(array).__name__, "a NumPy array to be filled")
        if not array.flags.c_contiguous:
            raise BadParmError("array is not C-contiguous", "array", array.strides, "C-contiguous")
        if not array.flags.writeable:
            raise BadParmError("array is read-only", "array", type(array).__name__, "a writable array")
        if self.device.is_host:
            buffer = _in_order_of_memory(buffer)
            if buffer.nbytes < array.nbytes:
                raise BadParmError("buffer is too small", "buffer", f"{buffer.nbytes} bytes",
                                   f">= {array.nbytes} bytes")
            array.reshape(-1).view("u1")[...] = buffer.reshape(-1).view("u1")[:array.nbytes]
        elif self.device.info.cuda >= 0:
            if array.nbytes:
                address = _buffers.address_on_cuda(buffer, "buffer", array.nbytes, self.device.info.cuda,
                                                   self.here().int_ptr)
                _cuda.copy_out(self.here(), address, array.reshape(-1).view("u1"))
        else:
            from miopyx.device import devices

            _buffers.keep(buffer, self.device.context, "buffer")
            devices.download(self.here(), buffer, array)
        return array

    def forget_calls(self):
        """Let calls on arrays be prepared anew."""
        old = self.calls  # which others may be reading
        mx_guard_lock(&self.guard)
        self.calls = None
        mx_guard_unlock(&self.guard)
        del old

    def _download_anew(self, buffer):
        if self.device.is_host:
            if not isinstance(buffer, numpy.ndarray):
                raise BadParmError("not memory of the host path", "buffer", type(buffer).__name__, "a NumPy array")
            return buffer.copy(order="K")
        try:
            kind, lens, strides = buffer._miopyx_made
        except AttributeError:
            raise BadParmError("a buffer of which neither type nor lengths are known", "buffer", buffer,
                               "one that upload, empty or zeros made, or an array to be filled") from None
        if 0 in lens:
            return numpy.empty(lens, kind)
        memory = numpy.empty(sum((n - 1) * s for n, s in zip(lens, strides)) + kind.itemsize, "u1")
        return numpy.ndarray(lens, kind, self.download(buffer, memory), strides=strides)


def _in_order_of_memory(buffer):
    """Return an array of the host path with its axes as they lie in memory: of channels last n, h, w, c."""
    if isinstance(buffer, numpy.ndarray):
        order = sorted(range(buffer.ndim), key=lambda axis: -buffer.strides[axis] if buffer.shape[axis] > 1 else 0)
        buffer = buffer.transpose(order)
        if buffer.flags.c_contiguous:
            return buffer
    raise BadParmError("not memory that upload, empty or zeros made", "buffer", type(buffer).__name__,
                       "a NumPy array without gaps")


def _is_default(stream):
    """Whether a stream is the default one of whichever device is current, and does not say of which."""
    return _cuda.stream_address(stream) <= 2 and not hasattr(stream, "device_index")


cdef Handle check_handle(object handle):
    raise BadParmError("not a handle", "handle", handle, "a Handle")


cdef int _compare_turns(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t*> a)[0], y = (<const uint64_t*> b)[0]
    return (x > y) - (x < y)


cdef inline uint64_t _start(uint64_t h, int64_t what) noexcept:
    return (h + <uint64_t> what * 0x9E3779B97F4A7C15ULL) >> 20


class _Timing:
    def __init__(self, Handle handle):
        self.handle = handle

    def __enter__(self):
        cdef Handle handle = self.handle
        acquire(&handle.lock)
        self.profiling, self.queue = handle.profiling, None
        try:
            if handle.own_queue is not None and not handle.queue_profiles:
                from miopyx.device import devices

                handle.finish()
                self.queue = handle.own_queue
                handle._adopt(handle.device.info, devices.timing_queue(self.queue))
            store_flag(handle.profiling, True)
        except BaseException:
            mx_lock_drop(&handle.lock)
            raise

    def __exit__(self, *exc):
        cdef Handle handle = self.handle
        try:
            store_flag(handle.profiling, self.profiling)
            if self.queue is not None:
                handle.finish()
                handle._adopt(handle.device.info, self.queue)
        finally:
            mx_lock_drop(&handle.lock)
