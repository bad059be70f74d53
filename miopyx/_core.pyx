"""The spine: devices' facts, solvers' contract, solutions as data, invokers, handles, plans.

A repeated call packs its problem, finds the invoker in the handle's table, binds the buffers and launches.  What a
solver decided is data: a list of steps, each a kernel (or a host C function) with sizes and arguments, replayed by one
loop for every solver.  Nothing here knows an algorithm, and nothing here chooses one.
"""

import os
import threading
import weakref
from time import perf_counter

from cpython.ref cimport Py_INCREF
from libc.stdlib cimport calloc, free
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp, memset

from ._args cimport to_double, to_int64
from ._buffers cimport CL_MEMORY, SVM_MEMORY, UNBOUND, binding_t, bind_data, tensor_bytes
from ._opencl cimport (
    CL_MAP_READ, CL_MEM_READ_WRITE, CL_PROFILING_COMMAND_END, CL_PROFILING_COMMAND_START, CL_TRUE, Program, check, cl,
    cl_int, cl_uint, cl_ulong, fork_generation,
)
from ._problem cimport Problem, hash_bytes

from . import _opencl, programs
from . import config as environment
from .errors import AllocFailedError, BadParmError, UnknownError, error

cdef extern from *:
    """
    #ifndef MIOPYX_MODELS
    #define MIOPYX_MODELS 1
    #endif
    """
    enum: MIOPYX_MODELS

# Whether this build was asked for learned rankings (CMake's MIOPEN_ENABLE_AI_IMMED_MODE_FALLBACK).
MODELS_BUILT = bool(MIOPYX_MODELS)

cdef enum:
    ARG_VALUE
    ARG_SLOT
    ARG_ALPHA
    ARG_BETA

# Handles that may have to be abandoned after a fork.
cdef object live = weakref.WeakSet()


def _after_fork_in_child():
    """Leave behind what does not survive: locks that another thread held, and pyopencl's objects.

    The latter are leaked, since releasing them in the child may hang in the driver.
    """
    cdef Handle handle
    for handle in list(live):
        handle.lock = threading.RLock()
        handle.profiling = False
        if handle.queue is not None:
            Py_INCREF(handle.queue)
            Py_INCREF(handle.device.context)


os.register_at_fork(after_in_child=_after_fork_in_child)


cdef int _vector_bytes(str isa) except -1:
    """Bytes of a CPU's vector register, from what DeviceInfo calls its instruction set."""
    if "avx512" in isa or isa.startswith(("znver4", "znver5", "sapphirerapids", "icelake", "cascadelake")):
        return 64
    if "avx2" in isa or isa.startswith(("haswell", "broadwell", "skylake", "alderlake", "znver")):
        return 32
    return 16


cdef class Device:
    """What solvers may know of a device.

    Made from a DeviceInfo and, for OpenCL, a pyopencl Context; sizes in bytes.
    """

    def __init__(self, info, context=None):
        self.info, self.context, self.name = info, context, info.name
        self.is_host = info.kind == "host"
        self.is_cpu = info.kind == "cpu"
        self.is_gpu = info.kind == "gpu"
        self.fp64 = info.fp64
        self.shares_memory = info.host_unified and not self.is_gpu
        self.compute_units = info.compute_units
        self.vector_bytes = _vector_bytes(info.isa)
        self.max_alloc = info.max_alloc
        self.local_mem = info.local_mem
        self.max_work_group = info.max_work_group_size
        self.threads = environment.num_threads()
        if context is not None:
            self.context_ptr = context.int_ptr
            self.device_ptr = info.handle.int_ptr

    @property
    def context_address(self):
        """The cl_context as an integer, 0 on the host."""
        return self.context_ptr

    @property
    def device_address(self):
        """The cl_device_id as an integer, 0 on the host."""
        return self.device_ptr

    def __repr__(self):
        return f"<Device {self.name}>"


cdef class KernelSpec:
    """Which kernel: a file of miopyx/kernels, a function in it, and -D definitions in a stable order."""

    def __init__(self, str file, str entry, **defines):
        self.file, self.entry = file, entry
        self.options = " ".join(f"-D {name}={value}" for name, value in sorted(defines.items()))

    def __repr__(self):
        return f"{self.file}:{self.entry}"


cdef class Arg:
    """One argument of a step: bytes, a buffer slot with an offset in bytes, or alpha or beta."""

    @staticmethod
    def value_of(bytes value not None):
        cdef Arg arg = Arg()
        arg.kind, arg.value = ARG_VALUE, value
        return arg

    @staticmethod
    def slot_of(int slot, int width, int64_t offset=0):
        """`width` is the size of an element: kernels take the offset as a number of elements in a second argument."""
        cdef Arg arg = Arg()
        arg.kind, arg.slot, arg.width, arg.offset = ARG_SLOT, slot, width, offset
        return arg

    @staticmethod
    def alpha(bint wide):
        cdef Arg arg = Arg()
        arg.kind, arg.width = ARG_ALPHA, 8 if wide else 4
        return arg

    @staticmethod
    def beta(bint wide):
        cdef Arg arg = Arg()
        arg.kind, arg.width = ARG_BETA, 8 if wide else 4
        return arg


cdef class Step:
    """One kernel launch, or one call of a host function."""

    def __init__(self, KernelSpec spec, args, global_size, local_size=None):
        self.spec, self.args = spec, tuple(args)
        self.dims = len(global_size)
        self.choose_local = local_size is None
        for i in range(self.dims):
            self.global_size[i] = global_size[i]
            self.local_size[i] = 0 if local_size is None else local_size[i]


cdef class Solution:
    """What a solver decided: the steps and the bytes of workspace they need."""

    def __init__(self, steps, int64_t workspace=0):
        self.steps, self.workspace = tuple(steps), workspace


cdef class Solver:
    """The contract of all algorithms.  Solvers are stateless; ids and names are permanent.

    A subclass sets id, name (MIOpen's where algorithm and workspace are the same), algorithm and flags in its
    constructor and overrides the methods.
    """

    cpdef str why_not(self, Device dev, Problem problem):
        """Return None where the solver can run `problem` on `dev`, else the reason, a constant text."""
        raise NotImplementedError

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        """Bytes of workspace."""
        return 0

    cpdef double wti(self, Device dev, Problem problem) except? -3:
        """Weighted throughput index: the expected fraction of ideal throughput, -2 if unknown."""
        return -2

    cpdef tuple parameters(self, Device dev, Problem problem):
        """Return the table of what can be tuned, pairs (name, values ascending); empty: nothing can."""
        return ()

    cpdef bint accepts(self, Device dev, Problem problem, tuple config) except -1:
        """Whether `config`, one value a parameter, is one that the solver can run."""
        return in_table(self.parameters(dev, problem), config)

    cpdef tuple default_config(self, Device dev, Problem problem):
        """Return the configuration that is taken where nothing was tuned."""
        return ()

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        """Return the steps for an applicable problem; None as `config` is the default one."""
        raise NotImplementedError

    def __repr__(self):
        return f"<{self.id}/{self.name}>"


cdef bint in_table(tuple table, tuple config) except -1:
    """Whether a configuration has one of the table's values for each of its parameters."""
    if len(config) != len(table):
        return False
    for value, (_, values) in zip(config, table):
        if value not in values:
            return False
    return True


cdef class Invoker:
    """A solution ready to run: kernels created, constant arguments set.

    `config` is one that the solver accepts; None takes its default.
    """

    def __init__(self, Handle handle not None, Solver solver not None, Problem problem not None, tuple config=None):
        cdef int i
        self.solver, self.problem, self.device, self.output = solver, problem, handle.device, problem.output
        self.born = fork_generation
        self.config = solver.default_config(handle.device, problem) if config is None else config
        self.solution = solver.solution(handle.device, problem, self.config)
        for i in range(3):
            self.need[i] = tensor_bytes(problem.tensor[i]) if problem.tensor[i] != NULL else 0
        self.need[SLOT_WORKSPACE] = self.solution.workspace
        self.steps = <step_t*> calloc(len(self.solution.steps), sizeof(step_t))
        if self.steps == NULL:
            raise AllocFailedError("no memory for an invoker")
        for step in self.solution.steps:
            self._prepare(handle, &self.steps[self.step_count], step)
            self.step_count += 1

    def __dealloc__(self):
        cdef int i
        if self.steps == NULL:
            return
        # A step that failed half way is not counted but may own memory: calloc made the rest zero.
        for i in range(len(self.solution.steps)):
            if self.steps[i].kernel != NULL and self.born == fork_generation:
                cl.clReleaseKernel(self.steps[i].kernel)
            free(self.steps[i].slots)
            free(self.steps[i].scalars)
        free(self.steps)

    cdef int _prepare(self, Handle handle, step_t* s, Step step) except -1:
        cdef Arg arg
        cdef Program program
        cdef cl_uint index = 0
        cdef const char* value
        cdef int i
        s.function = step.function
        s.dims, s.choose_local = step.dims, step.choose_local
        for i in range(3):
            s.global_size[i], s.local_size[i] = step.global_size[i], step.local_size[i]
        if step.spec is None:
            return 0
        program = handle.program(step.spec)
        s.kernel = program.kernel(step.spec.entry.encode())
        s.slots = <slot_arg_t*> calloc(len(step.args), sizeof(slot_arg_t))
        s.scalars = <scalar_arg_t*> calloc(len(step.args), sizeof(scalar_arg_t))
        if s.slots == NULL or s.scalars == NULL:
            raise AllocFailedError("no memory for an invoker")
        for arg in step.args:
            if arg.kind == ARG_VALUE:
                value = arg.value
                check(cl.clSetKernelArg(s.kernel, index, len(arg.value), value), f"clSetKernelArg({index})")
                index += 1
            elif arg.kind == ARG_SLOT:
                s.slots[s.slot_count].index, s.slots[s.slot_count].slot = index, arg.slot
                s.slots[s.slot_count].width, s.slots[s.slot_count].offset = arg.width, arg.offset
                s.slots[s.slot_count].bound_offset = -1
                s.slot_count += 1
                index += 2
            else:
                s.scalars[s.scalar_count].index, s.scalars[s.scalar_count].width = index, arg.width
                s.scalars[s.scalar_count].which = arg.kind == ARG_BETA
                s.scalar_count += 1
                index += 1
        return 0

    cdef int run(self, Handle handle, binding_t* slots, double alpha, double beta) except -1:
        """Enqueue all steps, or run them where the device is the host.  Everything was checked before."""
        cdef double scalars[2]
        cdef void* pointers[SLOTS]
        cdef int i, status = 0, threads = self.device.threads
        cdef const void* data = self.problem.data
        if not self.device.is_host:
            return self._run_device(handle, slots, alpha, beta)
        scalars[0], scalars[1] = alpha, beta
        for i in range(SLOTS):
            pointers[i] = slots[i].ptr
        start = perf_counter() if handle.profiling else 0.0
        with nogil:
            for i in range(self.step_count):
                status = self.steps[i].function(data, pointers, scalars, threads)
                if status != 0:
                    break
        if status != 0:
            raise error(status, f"{self.solver.name} failed")
        if handle.profiling:
            handle.kernel_time = (perf_counter() - start) * 1e3
        return 0

    cdef int _run_device(self, Handle handle, binding_t* slots, double alpha, double beta) except -1:
        cdef int i, j
        cdef step_t* s
        cdef slot_arg_t* a
        cdef binding_t* b
        cdef int64_t offset
        cdef float narrow
        cdef double wide
        cdef void* event = NULL
        cdef bint new_scalars = not self.scalars_bound or alpha != self.alpha or beta != self.beta
        cdef bint profile = handle.profiling
        cdef double elapsed = 0
        self.scalars_bound = False  # should a call below fail half way
        for i in range(self.step_count):
            s = &self.steps[i]
            for j in range(s.slot_count):
                a = &s.slots[j]
                b = &slots[a.slot]
                if b.kind == SVM_MEMORY:
                    check(cl.clSetKernelArgSVMPointer(s.kernel, a.index, b.ptr), "clSetKernelArgSVMPointer")
                else:
                    check(cl.clSetKernelArg(s.kernel, a.index, sizeof(void*), &b.ptr), "clSetKernelArg")
                offset = (b.offset + a.offset) // a.width
                if offset != a.bound_offset:
                    a.bound_offset = -1
                    check(cl.clSetKernelArg(s.kernel, a.index + 1, sizeof(int64_t), &offset), "clSetKernelArg")
                    a.bound_offset = offset
            if new_scalars:
                for j in range(s.scalar_count):
                    wide = beta if s.scalars[j].which else alpha
                    narrow = <float> wide
                    check(cl.clSetKernelArg(s.kernel, s.scalars[j].index, s.scalars[j].width,
                                            <void*> &wide if s.scalars[j].width == 8 else <void*> &narrow),
                          "clSetKernelArg")
            check(cl.clEnqueueNDRangeKernel(handle.queue_ptr, s.kernel, s.dims, NULL, s.global_size,
                                            NULL if s.choose_local else s.local_size, 0, NULL,
                                            &event if profile else NULL), "clEnqueueNDRangeKernel")
            if profile:
                elapsed += _event_ms(event)
        self.alpha, self.beta, self.scalars_bound = alpha, beta, True
        if profile:
            handle.kernel_time = elapsed
        return 0


cdef double _event_ms(void* event) except? -1:
    """Wait for a kernel and return its time; releases the event."""
    cdef cl_ulong start = 0, end = 0
    cdef cl_int code
    with nogil:
        code = cl.clWaitForEvents(1, &event)
        if code == 0:
            code = cl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, 8, &start, NULL)
        if code == 0:
            code = cl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, 8, &end, NULL)
        cl.clReleaseEvent(event)
    check(code, "reading a kernel's time")
    return <double> (end - start) * 1e-6


cdef class Handle:
    """A device, its in-order queue, and everything prepared for it: programs, invokers, found times, workspace.

    Parameters
    ----------
    device : str, pyopencl.CommandQueue or None
        None takes the best device that works (MIOPYX_DEVICE, else GPUs, then OpenCL CPUs, then the host); a text names
        one as ``miopyx doctor`` prints it, ``"host"`` for the host path; a queue is used as it is (in-order only).

    A handle may be used by several threads of a process, not across fork.
    """

    def __init__(self, device=None):
        from . import device as devices

        if device is None or isinstance(device, str):
            self._adopt(devices.find(device) if device or (device := environment.get("MIOPYX_DEVICE"))
                        else devices.best(), None)
        else:
            self.set_queue(device)

    def __cinit__(self, *args, **kwargs):
        self.found, self.programs = {}, {}
        self.table = [None] * 16
        self.born = fork_generation
        self.lock = threading.RLock()
        live.add(self)

    def __dealloc__(self):
        if self.queue_ptr != NULL and self.born == fork_generation:
            if self.arena != NULL:
                cl.clReleaseMemObject(self.arena)
            cl.clReleaseCommandQueue(self.queue_ptr)

    cdef int require_alive(self) except -1:
        if not self.alive:
            raise BadParmError("handle was destroyed", "handle", self, "a live handle")
        if self.born != fork_generation and not self.device.is_host:
            raise UnknownError("handle was made before fork: OpenCL does not survive it, make a new one", "handle",
                               self, "a handle of this process")
        return 0

    def _adopt(self, info, queue):
        """Take a device, and its own queue where none is given."""
        from . import device as devices

        context = None
        if info.kind != "host":
            _opencl.load(devices.loader_path())
            if queue is None:
                context, queue = devices.open_device(info)
            else:
                context = queue.context
        if self.device is None or self.device.context_ptr != (0 if context is None else context.int_ptr):
            # Programs and invokers belong to a context; times to a device.
            self.found, self.programs, self.table = {}, {}, [None] * 16
            self.drop_arena()
            self.device = Device(info, context)
        if self.queue_ptr != NULL:
            cl.clReleaseCommandQueue(self.queue_ptr)
            self.queue_ptr = NULL
        self.queue = queue
        if queue is not None:
            self.queue_ptr = <void*> <size_t> queue.int_ptr
            check(cl.clRetainCommandQueue(self.queue_ptr), "clRetainCommandQueue")
            self.queue_profiles = devices.queue_profiles(queue)
        self.alive = True

    def set_queue(self, queue):
        """Use another queue from now on (miopenSetStream)."""
        from . import device as devices

        if queue is None:
            raise UnknownError("Error setting stream to nullptr", "streamID", None, "a pyopencl.CommandQueue")
        if self.device is not None:
            self.require_alive()
            if self.device.is_host:
                raise BadParmError("a host handle has no queue", "streamID", queue, None)
        self._adopt(devices.from_queue(queue), queue)

    def stream(self):
        """Return the pyopencl.CommandQueue, None on the host (miopenGetStream)."""
        self.require_alive()
        return self.queue

    def set_profiling(self, bint enable):
        """Measure each call's kernels; calls then wait for them (miopenEnableProfiling)."""
        self.require_alive()
        if enable and not self.device.is_host and not self.queue_profiles:
            raise BadParmError("the queue was made without CL_QUEUE_PROFILING_ENABLE", "enable", True, False)
        self.profiling = enable

    def timing(self):
        """Return a context in which each call's kernels are timed, on a queue of our own where the user's cannot."""
        return _Timing(self)

    def last_kernel_time(self):
        """Milliseconds of the last call while profiling was on (miopenGetKernelTime)."""
        self.require_alive()
        return self.kernel_time

    def finish(self):
        """Wait until everything enqueued has run."""
        cdef cl_int code
        self.require_alive()
        if self.queue_ptr != NULL:
            with nogil:
                code = cl.clFinish(self.queue_ptr)
            check(code, "clFinish")

    def destroy(self):
        """Let go of everything; using the handle afterwards is a BadParmError."""
        if self.alive and self.born == fork_generation:
            self.drop_arena()
        self.alive = False
        self.found, self.programs, self.table = {}, {}, [None] * 16

    def __enter__(self):
        self.require_alive()
        return self

    def __exit__(self, *exc):
        self.destroy()

    def __repr__(self):
        return f"<Handle {self.device.name if self.device is not None else None}{'' if self.alive else ' destroyed'}>"

    def program(self, KernelSpec spec not None):
        """Return the built program of `spec`; a handle builds each once."""
        key = (spec.file, spec.options)
        program = self.programs.get(key)
        if program is None:
            with self.lock:
                program = self.programs.get(key)
                if program is None:
                    program = self.programs[key] = programs.build(self.device, spec.file, spec.options)
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

    # The invoker table: open addressing over a power of two, at most half full, nothing is ever removed.

    cdef Invoker lookup(self, const void* data, size_t size, int64_t id):
        """Return the invoker registered for a problem's bytes under an id, or None."""
        cdef uint64_t h = _hash(data, size, id)
        cdef list table = self.table
        cdef Py_ssize_t mask = len(table) - 1, i = <Py_ssize_t> (h & <uint64_t> mask)
        cdef Invoker invoker
        while True:
            entry = table[i]
            if entry is None:
                return None
            invoker = <Invoker> (<tuple> entry)[1]
            if (<int64_t> (<tuple> entry)[0] == id and invoker.problem.size == size
                    and memcmp(invoker.problem.data, data, size) == 0):
                return invoker
            i = (i + 1) & mask

    def register(self, Invoker invoker not None, int64_t id):
        """Keep `invoker` under `id`, replacing what stood there."""
        cdef Py_ssize_t i, mask
        cdef uint64_t h
        with self.lock:
            entries = [e for e in self.table if e is not None and not (
                e[0] == id and (<Invoker> e[1]).problem.key == invoker.problem.key)]
            entries.append((id, invoker))
            size = len(self.table)
            while 2 * len(entries) > size:
                size *= 2
            table = [None] * size
            mask = size - 1
            for entry in entries:
                kept = <Invoker> entry[1]
                h = _hash(kept.problem.data, kept.problem.size, entry[0])
                i = <Py_ssize_t> (h & <uint64_t> mask)
                while table[i] is not None:
                    i = (i + 1) & mask
                table[i] = entry
            self.table = table

    def invoker(self, Problem problem not None, int64_t id):
        """Return the invoker registered under `id`, or None."""
        return self.lookup(problem.data, problem.size, id)

    # Managed workspace: one buffer a handle that only grows.  The queue is in-order, so users of it never overlap.

    cdef int bind_arena(self, int64_t need, binding_t* out) except -1:
        cdef cl_int code = 0
        out.ptr, out.offset, out.size, out.kind, out.temporary = NULL, 0, 0, UNBOUND, False
        if need == 0 or self.device.is_host:
            return 0
        if need > self.arena_size:
            self.drop_arena()
            self.arena = cl.clCreateBuffer(<void*> self.device.context_ptr, CL_MEM_READ_WRITE, need, NULL, &code)
            check(code, f"clCreateBuffer of {need} bytes of workspace")
            self.arena_size = need
        out.ptr, out.size, out.kind = self.arena, self.arena_size, CL_MEMORY
        return 0

    def drop_arena(self):
        """Give the managed workspace back; the driver keeps it until what uses it has run."""
        if self.arena != NULL:
            cl.clReleaseMemObject(self.arena)
            self.arena, self.arena_size = NULL, 0

    # Memory for people who do not want to talk to pyopencl.

    def upload(self, array):
        """Return `array`'s content as memory of this handle's device: a pyopencl Buffer, a copy on the host."""
        import numpy

        self.require_alive()
        if self.device.is_host:
            return numpy.array(array, copy=True, order="C")
        from . import device as devices

        return devices.upload(self.queue, numpy.ascontiguousarray(array))

    def download(self, buffer, array):
        """Fill the C-contiguous `array` from memory that `upload` made, waiting for what is enqueued."""
        self.require_alive()
        if not array.flags.c_contiguous:
            raise BadParmError("array is not C-contiguous", "array", array.strides, "C-contiguous")
        if self.device.is_host:
            if buffer.nbytes < array.nbytes:
                raise BadParmError("buffer is too small", "buffer", f"{buffer.nbytes} bytes",
                                   f">= {array.nbytes} bytes")
            array.reshape(-1).view("u1")[...] = buffer.reshape(-1).view("u1")[:array.nbytes]
        else:
            from . import device as devices

            devices.download(self.queue, buffer, array)
        return array


cdef uint64_t _hash(const void* data, size_t size, int64_t id) noexcept:
    return hash_bytes(data, size) + <uint64_t> id * 0x9E3779B97F4A7C15ULL


class _Timing:
    def __init__(self, Handle handle):
        self.handle = handle

    def __enter__(self):
        cdef Handle handle = self.handle
        handle.lock.acquire()
        self.profiling, self.queue = handle.profiling, None
        try:
            if handle.queue is not None and not handle.queue_profiles:
                from . import device as devices

                handle.finish()
                self.queue = handle.queue
                handle._adopt(handle.device.info, devices.timing_queue(self.queue))
            handle.profiling = True
        except BaseException:
            handle.lock.release()
            raise

    def __exit__(self, *exc):
        cdef Handle handle = self.handle
        try:
            handle.profiling = self.profiling
            if self.queue is not None:
                handle.finish()
                handle._adopt(handle.device.info, self.queue)
        finally:
            handle.lock.release()


cdef int execute(Handle handle, Invoker invoker, const int* order, tuple names, object a, object b, object c,
                 object workspace, object workspace_size, double alpha, double beta) except -1:
    """Check and bind the tensors and the workspace of a call, then run it.

    `order[i]` is the slot of argument i (-1: there is no such argument), `names[i]` its name; None as
    `workspace_size` takes the handle's own arena.  Nothing is launched unless everything fits.
    """
    cdef binding_t slots[SLOTS]
    cdef int j
    cdef bint blocking = False
    if invoker.device is not handle.device:
        raise BadParmError("prepared for a context that the handle has left", "handle", handle, "a new plan")
    memset(slots, 0, sizeof(slots))
    try:
        _bind_tensors(handle.device, invoker.problem, order, names, a, b, c, slots)
        if workspace_size is not None:
            _bind_workspace(handle.device, workspace, workspace_size, invoker.need[SLOT_WORKSPACE],
                            &slots[SLOT_WORKSPACE])
            _require_apart(invoker.problem, order, names, slots, invoker.need[SLOT_WORKSPACE])
        for j in range(SLOTS):
            blocking = blocking or slots[j].temporary
        if handle.device.is_host:
            invoker.run(handle, slots, alpha, beta)
            return 0
        # Waiting, for a kernel's time or for host memory, lets go of the GIL; the arena and the kernels' arguments
        # belong to one call at a time.
        with handle.lock:
            if workspace_size is None:
                handle.bind_arena(invoker.need[SLOT_WORKSPACE], &slots[SLOT_WORKSPACE])
            invoker.run(handle, slots, alpha, beta)
            if blocking:
                _wait_and_sync(handle, slots)
    finally:
        for j in range(SLOTS):
            if slots[j].temporary:
                cl.clReleaseMemObject(slots[j].ptr)
    return 0


cdef int check_arguments(Handle handle, Problem problem, const int* order, tuple names, object a, object b, object c,
                         object workspace, object workspace_size) except -1:
    """What `execute` checks before it launches anything, for a caller that will launch several solutions."""
    cdef binding_t slots[SLOTS]
    cdef int j
    memset(slots, 0, sizeof(slots))
    try:
        _bind_tensors(handle.device, problem, order, names, a, b, c, slots)
        _bind_workspace(handle.device, workspace, workspace_size, to_int64(workspace_size, "workSpaceSize"),
                        &slots[SLOT_WORKSPACE])
        _require_apart(problem, order, names, slots, slots[SLOT_WORKSPACE].size)
    finally:
        for j in range(SLOTS):
            if slots[j].temporary:
                cl.clReleaseMemObject(slots[j].ptr)
    return 0


cdef int _bind_tensors(Device dev, Problem problem, const int* order, tuple names, object a, object b, object c,
                       binding_t* slots) except -1:
    cdef int i
    for i in range(3):
        if order[i] >= 0:
            bind_data(a if i == 0 else b if i == 1 else c, <str> names[i], problem.tensor[order[i]], problem.rank,
                      tensor_bytes(problem.tensor[order[i]]), order[i] == problem.output, dev.is_host,
                      dev.shares_memory, <void*> dev.context_ptr, &slots[order[i]])
    return _require_apart(problem, order, names, slots, 0)


cdef int _require_apart(Problem problem, const int* order, tuple names, binding_t* slots, int64_t workspace) except -1:
    """What is written, the output and the workspace, must not share memory with anything."""
    cdef int i, j
    cdef int64_t need[SLOTS]
    for i in range(3):
        need[i] = tensor_bytes(problem.tensor[i]) if problem.tensor[i] != NULL else 0
    need[SLOT_WORKSPACE] = workspace
    for i in (problem.output, SLOT_WORKSPACE):
        for j in range(SLOTS):
            if i != j and _overlap(&slots[i], &slots[j], need[i], need[j]):
                raise BadParmError(f"shares memory with {names[_argument(order, i)]}", names[_argument(order, j)],
                                   f"{need[j]} bytes at {slots[j].root_offset}", "memory of its own")
    return 0


cdef int _argument(const int* order, int slot) noexcept:
    cdef int i
    for i in range(3):
        if order[i] == slot:
            return i
    return 3


cdef bint _overlap(binding_t* a, binding_t* b, int64_t need_a, int64_t need_b) noexcept:
    if a.kind == UNBOUND or b.kind == UNBOUND or need_a == 0 or need_b == 0 or a.root != b.root:
        return False
    return a.root_offset < b.root_offset + need_b and b.root_offset < a.root_offset + need_a


cdef int _bind_workspace(Device dev, object workspace, object workspace_size, int64_t need, binding_t* out) except -1:
    cdef int64_t size = to_int64(workspace_size, "workSpaceSize")
    if size < 0:
        raise BadParmError("negative size", "workSpaceSize", size, ">= 0")
    if size < need:
        raise UnknownError("workspace is smaller than the solution needs", "workSpaceSize", size, f">= {need} bytes")
    if need == 0:
        return 0
    return bind_data(workspace, "workSpace", NULL, 0, size, True, dev.is_host, dev.shares_memory,
                     <void*> dev.context_ptr, out)


cdef int _wait_and_sync(Handle handle, binding_t* slots) except -1:
    """Host memory was lent to the device: wait, and map it, which is when OpenCL promises its content."""
    cdef cl_int code
    cdef int j
    cdef void* address
    with nogil:
        code = cl.clFinish(handle.queue_ptr)
    check(code, "clFinish")
    for j in range(SLOTS):
        if slots[j].temporary:
            address = cl.clEnqueueMapBuffer(handle.queue_ptr, slots[j].ptr, CL_TRUE, CL_MAP_READ, 0, slots[j].size, 0,
                                            NULL, NULL, &code)
            check(code, "clEnqueueMapBuffer")
            check(cl.clEnqueueUnmapMemObject(handle.queue_ptr, slots[j].ptr, address, 0, NULL, NULL),
                  "clEnqueueUnmapMemObject")
    with nogil:
        code = cl.clFinish(handle.queue_ptr)
    check(code, "clFinish")
    return 0


cdef class Plan:
    """A convolution chosen, compiled and validated once: ``plan(a, b, c)`` binds the buffers and enqueues.

    The three buffers stand in the order of the function that made the plan: (x, w, y), (dy, w, dx) or (dy, x, dw).
    The workspace is the handle's own.
    """

    def __init__(self):
        raise TypeError("plans are made by a handle: Handle.convolution_forward and its like")

    def __call__(self, a, b, c, alpha=1.0, beta=0.0):
        if self.handle is None:
            raise BadParmError("a plan that no handle made", "plan", None, "Handle.convolution_forward(...)")
        self.handle.require_alive()
        execute(self.handle, self.invoker, self.slot, self.names, a, b, c, None, None, to_double(alpha, "alpha"),
                to_double(beta, "beta"))

    @property
    def solver(self):
        """The solver that was chosen."""
        return None if self.invoker is None else self.invoker.solver

    @property
    def workspace(self):
        """Bytes of workspace that a call uses."""
        return 0 if self.invoker is None else self.invoker.solution.workspace

    def explain(self):
        """Return what was chosen and why, and for every other solver why not, as text."""
        return str(self.explanation)

    def __repr__(self):
        return f"<Plan {self.solver} on {self.handle}>"
